// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/redisserver.h"

#include <QtCore/qprocess.h>
#include <QtCore/qregularexpression.h>
#include <QtTest/qtest.h>

using namespace std::chrono_literals;

/// Runs the console examples as their readers would.
class TestExamples : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void signalsAndSlots_data() { addServers(); }
    void signalsAndSlots();
    void watchdog_data() { addServers(); }
    void watchdog();
    void redPacket();
    void redPacketRefusesMemoryServer();
    void redPacketWithoutServer();
    void scopedMacro_data() { addServers(); }
    void scopedMacro();
#ifdef ANNOTATED_SLOTS
    void annotatedSlots_data() { addServers(); }
    void annotatedSlots();
#endif
#ifdef COROUTINES
    void coroutines_data() { addServers(); }
    void coroutines();
#endif

private:
    struct Result
    {
        int exitCode = -1;
        QString output; ///< standard output and standard error, as they came
    };

    void addServers();
    Result run(const QString &program, const QString &server,
               std::chrono::milliseconds limit = 30s, const QStringList &arguments = {});

    Support::RedisServer m_server;
};

void TestExamples::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void TestExamples::addServers()
{
    QTest::addColumn<QString>("server");
    QTest::newRow("memory") << QString();
    QTest::newRow("redis") << m_server.url().toString();
}

TestExamples::Result TestExamples::run(const QString &program, const QString &server,
                                       std::chrono::milliseconds limit, const QStringList &arguments)
{
    QProcess process;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.remove(QStringLiteral("QDISTLOCK_URL"));
    if (!server.isEmpty())
        environment.insert(QStringLiteral("QDISTLOCK_URL"), server);
    process.setProcessEnvironment(environment);
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(program, arguments);
    if (!process.waitForFinished(static_cast<int>(limit.count()))) {
        process.kill();
        process.waitForFinished();
    }
    Result result;
    if (process.exitStatus() == QProcess::NormalExit && process.error() != QProcess::FailedToStart)
        result.exitCode = process.exitCode();
    result.output = QString::fromUtf8(process.readAll());
    return result;
}

void TestExamples::signalsAndSlots()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(SIGNALS_AND_SLOTS), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    const qsizetype waits = result.output.indexOf(QLatin1String("Bob waits"));
    const qsizetype has = result.output.indexOf(QLatin1String("Bob has the lock"));
    QVERIFY2(waits > 0 && has > waits, qPrintable(result.output));
    QVERIFY2(result.output.contains(QLatin1String("BusyError")), qPrintable(result.output));
}

void TestExamples::watchdog()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(WATCHDOG), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QVERIFY2(result.output.contains(QLatin1String("ForcedRelease")), qPrintable(result.output));
    QVERIFY2(result.output.count(QLatin1String("  renewed,")) >= 3, qPrintable(result.output));
}

void TestExamples::redPacket()
{
    const Result result = run(QStringLiteral(RED_PACKET), m_server.url().toString(), 60s);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    const QString last = result.output.trimmed().section(QLatin1Char('\n'), -1);
    const QRegularExpression verdict(
            QStringLiteral("^with lock: paid 100000000 of 100000000, draws (\\d+), lost updates 0, "
                           "killed 1, frozen 1, stale writes refused (\\d+)$"));
    const QRegularExpressionMatch match = verdict.match(last);
    QVERIFY2(match.hasMatch(), qPrintable(last));
    QCOMPARE_GE(match.captured(1).toInt(), 3000);
    QCOMPARE_GE(match.captured(2).toInt(), 1);

    // The figures are not only what the program says of itself.
    QCOMPARE(m_server.get("red-packet:locked"), QByteArray("0 0"));
    QCOMPARE(m_server.command({"LLEN", "red-packet:locked:payments"}).toLongLong(),
             match.captured(1).toLongLong());
    qint64 paid = 0;
    const QVariantList payments =
            m_server.command({"LRANGE", "red-packet:locked:payments", "0", "-1"}).toList();
    for (const QVariant &payment : payments)
        paid += payment.toByteArray().split(' ').value(2).toLongLong();
    QCOMPARE(paid, 100'000'000);
}

void TestExamples::redPacketRefusesMemoryServer()
{
    const Result result = run(QStringLiteral(RED_PACKET), QStringLiteral("memory:"));
    QCOMPARE(result.exitCode, 64);
}

void TestExamples::redPacketWithoutServer()
{
    const Result result = run(QStringLiteral(RED_PACKET),
                              QStringLiteral("unix://%1/nobody.sock").arg(m_server.folder()));
    QCOMPARE(result.exitCode, 69);
    QVERIFY2(result.output.contains(QLatin1String("cannot reach the server")),
             qPrintable(result.output));
}

#ifdef ANNOTATED_SLOTS
void TestExamples::annotatedSlots()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(ANNOTATED_SLOTS), server, 30s, {QStringLiteral("--demo")});
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    const auto at = [&result](const char *text) { return result.output.indexOf(QLatin1String(text)); };
    QVERIFY2(at("Packing") >= 0 && at("Left out: somebody is at table:north") > at("Packing"), qPrintable(result.output));
    QVERIFY2(at("Packed") > at("Left out"), qPrintable(result.output));
    QVERIFY2(at("Shipped") > at("Left out"), qPrintable(result.output));
    QCOMPARE(result.output.count(QLatin1String("Shipped")), 1);
}
#endif

#ifdef COROUTINES
void TestExamples::coroutines()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(COROUTINES), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QVERIFY2(result.output.contains(QLatin1String("Clerk 1 booked, balance 100")), qPrintable(result.output));
    QVERIFY2(result.output.contains(QLatin1String("booked, balance 500")), qPrintable(result.output));
    QVERIFY2(result.output.contains(QLatin1String("BusyError")), qPrintable(result.output));
    QVERIFY2(!result.output.contains(QLatin1String("sent home")), qPrintable(result.output));
}
#endif

void TestExamples::scopedMacro()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(SCOPED_MACRO), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QVERIFY2(result.output.contains(QLatin1String("the last has number 1000")), qPrintable(result.output));
    QVERIFY2(result.output.contains(QLatin1String("had the lock: false")), qPrintable(result.output));
}

QTEST_GUILESS_MAIN(TestExamples)
#include "tst_examples.moc"
