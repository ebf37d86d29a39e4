// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/clusterslot.h"
#include "support/eventually.h"
#include "support/rediscluster.h"
#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/Semaphore>

#include <QtCore/qdir.h>
#include <QtCore/qprocess.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qscopeguard.h>
#include <QtNetwork/qtcpsocket.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <csignal>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

/// Runs the console examples and the demo of 06, and checks what they print.
class TestExamples : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init();
    void projectTemplate();
    void signalsAndSlots_data() { addServers(); }
    void signalsAndSlots();
    TIMING void watchdog();
    void watchdogWithoutServer();
    void redPacket();
    void redPacketRefusesMemoryServer();
    void redPacketWithoutServer();
    void scopedMacro_data() { addServers(); }
    void scopedMacro();
#ifdef ANNOTATED_SLOTS
    void annotatedSlots_data()
    {
        addServers();
    }
    void annotatedSlots();
#endif
#ifdef COROUTINES
    void coroutines_data()
    {
        addServers();
    }
    void coroutines();
#endif
    void interrupted_data();
    void interrupted();
    TIMING void watchdogInterrupted();
    void failOver_data()
    {
        Support::addRows<QString>("interruptedAt",
                                  {{"to the end", QString()},
                                   {"interrupted, starting", u"start"_s},
                                   {"interrupted, holding", u"Acquired"_s},
                                   {"interrupted, without master", u"is killed"_s}});
    }
    void failOver();
    void failOverWithoutServerProgram();
    void cluster();
    void readersAndWriters_data()
    {
        addServers();
    }
    void readersAndWriters();
    void jobLimit_data()
    {
        addServers();
    }
    void jobLimit();
    void jobLimitOfAFleet();
    void metrics_data()
    {
        addServers();
    }
    void metrics();

private:
    struct Result
    {
        int exitCode = -1;
        QString output; ///< standard output and standard error
    };

    void addServers();
    void start(QProcess *process, const QString &program, const QString &server, const QStringList &arguments = {});
    Result run(const QString &program, const QString &server, const QStringList &arguments = {});
    QList<QByteArray> keys();
    void interrupt(const QString &program, const QByteArray &foreignLock, const QByteArray &output);

    Support::RedisServer m_server;
};

/// True if all \a lines appear in \a output, in this order.
static bool hasInOrder(const QString &output, const QStringList &lines)
{
    qsizetype position = 0;
    for (const QString &line : lines) {
        position = output.indexOf(line, position);
        if (position < 0) {
            qWarning().noquote() << "missing, or not in order:" << line;
            return false;
        }
        position += line.size();
    }
    return true;
}

/// A process that runs was started with \a folder in its command line.
static bool isUsedByAProcess(const QString &folder)
{
    const QStringList ids = QDir(u"/proc"_s).entryList({u"[1-9]*"_s}, QDir::Dirs);
    return std::any_of(ids.begin(), ids.end(), [&folder](const QString &id) {
        QFile file(u"/proc/%1/cmdline"_s.arg(id));
        return file.open(QIODevice::ReadOnly) && file.readAll().contains(folder.toUtf8());
    });
}

void TestExamples::init()
{
    m_server.command({"FLUSHALL"});
}

void TestExamples::addServers()
{
    QTest::addColumn<QString>("server");
    QTest::newRow("memory") << QString();
    QTest::newRow("redis") << m_server.url().toString();
}

void TestExamples::start(QProcess *process, const QString &program, const QString &server, const QStringList &arguments)
{
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.remove(u"QDISTLOCK_URL"_s);
    if (!server.isEmpty())
        environment.insert(u"QDISTLOCK_URL"_s, server);
    process->setProcessEnvironment(environment);
    process->setProcessChannelMode(QProcess::MergedChannels);
    process->start(program, arguments);
}

TestExamples::Result TestExamples::run(const QString &program, const QString &server, const QStringList &arguments)
{
    QProcess process;
    start(&process, program, server, arguments);
    if (!process.waitForFinished(60000)) {
        process.kill();
        process.waitForFinished();
    }
    Result result;
    if (process.exitStatus() == QProcess::NormalExit && process.error() != QProcess::FailedToStart)
        result.exitCode = process.exitCode();
    result.output = QString::fromUtf8(process.readAll());
    return result;
}

/// All keys on the server, except the fences and the numbers of permits, which the library keeps.
QList<QByteArray> TestExamples::keys()
{
    QList<QByteArray> keys = m_server.keys();
    keys.removeIf([](const QByteArray &key) { return key.endsWith(":fence") || key.endsWith(":permits"); });
    return keys;
}

void TestExamples::projectTemplate()
{
    m_server.command({"SET", "lock:report:nightly", "foreign"});
    const Result skipped = run(QStringLiteral(TEMPLATE), m_server.url().toString());
    QCOMPARE(skipped.exitCode, 0);
    QVERIFY2(skipped.output.startsWith("Skipped: Lock \"report:nightly\""_L1), qPrintable(skipped.output));
    m_server.command({"DEL", "lock:report:nightly"});

    const Result made = run(QStringLiteral(TEMPLATE), m_server.url().toString());
    QCOMPARE(made.exitCode, 0);
    QCOMPARE(made.output, u"Nobody else is making the report.\nThe report is made.\n"_s);
    QCOMPARE(keys(), QList<QByteArray>());

    const Result withoutServer = run(QStringLiteral(TEMPLATE), {});
    QCOMPARE(withoutServer.exitCode, 1);
    QVERIFY2(withoutServer.output.contains("QDISTLOCK_URL"_L1), qPrintable(withoutServer.output));

    const Result failed = run(QStringLiteral(TEMPLATE), u"unix://%1/nobody.sock"_s.arg(m_server.folder()));
    QCOMPARE(failed.exitCode, 1);
    QVERIFY2(failed.output.contains("nobody.sock"_L1), qPrintable(failed.output));
}

void TestExamples::readersAndWriters()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(READERS_AND_WRITERS), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    const QRegularExpression expected(u"^The prices have version 2\n"
                                      "The prices have version 3\n"
                                      "The prices have version 4\n"
                                      "Up to [1-5] readers read at the same time.\n$"_s);
    QVERIFY2(expected.match(result.output).hasMatch(), qPrintable(result.output));
    QCOMPARE(keys(), QList<QByteArray>());
}

void TestExamples::jobLimit()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(JOB_LIMIT), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    const QRegularExpression expected(u"^Converted 24 videos, with up to [2-5] permits at the same time.\n$"_s);
    QVERIFY2(expected.match(result.output).hasMatch(), qPrintable(result.output));
    QCOMPARE(keys(), QList<QByteArray>());
}

/// What others of the fleet have taken counts.
void TestExamples::jobLimitOfAFleet()
{
    QDistLock::LockRegistry registry(m_server.url());
    QDistLock::Semaphore other(&registry, u"video"_s, 5);
    other.setTake(3);
    other.setLease(10min);
    const auto acquired = other.acquireAsync();
    EVENTUALLY_VERIFY(acquired.isFinished());
    QVERIFY2(acquired.result(), qPrintable(acquired.result().errorString));

    const Result result = run(QStringLiteral(JOB_LIMIT), m_server.url().toString());
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QCOMPARE(result.output, u"Converted 24 videos, with up to 2 permits at the same time.\n"_s);
    QVERIFY(other.isHeld());
}

void TestExamples::metrics()
{
    QFETCH(QString, server);
    QProcess process;
    start(&process, QStringLiteral(METRICS), server, {u"0"_s});
    const auto end = qScopeGuard([&process] {
        process.terminate();
        process.waitForFinished(60000);
    });
    EVENTUALLY_VERIFY(process.canReadLine());
    const QUrl url(QString::fromUtf8(process.readLine()).trimmed());
    QVERIFY2(url.isValid() && url.port() > 0, qPrintable(url.toString()));
    QTcpSocket socket;
    QByteArray response;
    EVENTUALLY_VERIFY([&] { // until it has acquired a lock
        socket.connectToHost(url.host(), quint16(url.port()));
        if (!socket.waitForConnected(60000))
            return false;
        socket.write("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        while (socket.state() == QTcpSocket::ConnectedState && socket.waitForReadyRead(60000)) {
        }
        response = socket.readAll();
        return response.contains("qdistlock_acquired_total{group=\"order:*\"}");
    }());
    QVERIFY2(response.startsWith("HTTP/1.1 200 OK\r\n"), response.constData());
    QVERIFY2(response.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"),
             response.constData());
    QVERIFY2(response.endsWith("\n# EOF\n"), response.constData());
    QVERIFY2(!response.contains("qdistlock_failed_total{group=\"order:*\",reason=\"error\"} 1"), response.constData());
}

void TestExamples::signalsAndSlots()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(SIGNALS_AND_SLOTS), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    const QRegularExpression expected(u"^Alice: acquired, fencing token (\\d+)\n"
                                      "Bob: Lock \"report:daily\" .*somebody else holds it.*\n"
                                      "Bob: waiting\n"
                                      "Alice: work done, releasing\n"
                                      "Bob: acquired, fencing token (\\d+)\n"
                                      "Bob: released\n$"_s);
    const QRegularExpressionMatch match = expected.match(result.output);
    QVERIFY2(match.hasMatch(), qPrintable(result.output));
    QCOMPARE_GT(match.captured(2).toLongLong(), match.captured(1).toLongLong());
    QCOMPARE(keys(), QList<QByteArray>());
}

void TestExamples::watchdog()
{
    Support::leavesRoomFor(std::chrono::milliseconds(500)); // a lease of 1500 ms, renewed after 500 ms
    const Result result = run(QStringLiteral(WATCHDOG), m_server.url().toString());
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QVERIFY2(hasInOrder(result.output,
                        {u"Job 1 begins"_s, u": renewed, "_s, u": renewed, "_s, u": renewed, "_s,
                         u"Job 1 has finished"_s, u"Job 2 begins"_s, u"the server stops replying"_s, u": at risk, "_s,
                         u"Job 2 stops: the lock was lost, QDistLock::DistributedLock::LeaseExpired"_s}),
             qPrintable(result.output));
}

void TestExamples::watchdogWithoutServer()
{
    const Result result = run(QStringLiteral(WATCHDOG), u"memory:"_s);
    QCOMPARE(result.exitCode, 64);
    QVERIFY2(result.output.contains("QDISTLOCK_URL"_L1), qPrintable(result.output));
}

void TestExamples::redPacket()
{
    const Result result = run(QStringLiteral(RED_PACKET), m_server.url().toString(), {u"--keep"_s});
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    const QString last = result.output.trimmed().section(u'\n', -1);
    const QRegularExpression verdict(u"^with lock: paid 100000000 of 100000000, draws (\\d+), lost updates 0, "
                                     "killed 1, frozen 1, stale writes refused (\\d+)$"_s);
    const QRegularExpressionMatch match = verdict.match(last);
    QVERIFY2(match.hasMatch(), qPrintable(last));
    QCOMPARE_GE(match.captured(1).toInt(), 3000);
    QCOMPARE_GE(match.captured(2).toInt(), 1);

    // The numbers on the server agree with those that the program printed.
    QCOMPARE(m_server.get("red-packet:locked"), QByteArray("0 0"));
    QCOMPARE(m_server.command({"LLEN", "red-packet:locked:payments"}).toLongLong(), match.captured(1).toLongLong());
    qint64 paid = 0;
    const QVariantList payments = m_server.command({"LRANGE", "red-packet:locked:payments", "0", "-1"}).toList();
    for (const QVariant &payment : payments)
        paid += payment.toByteArray().split(' ').value(2).toLongLong();
    QCOMPARE(paid, 100'000'000);
}

void TestExamples::redPacketRefusesMemoryServer()
{
    const Result result = run(QStringLiteral(RED_PACKET), u"memory:"_s);
    QCOMPARE(result.exitCode, 64);
}

void TestExamples::redPacketWithoutServer()
{
    const Result result = run(QStringLiteral(RED_PACKET), u"unix://%1/nobody.sock"_s.arg(m_server.folder()));
    QCOMPARE(result.exitCode, 69);
    QVERIFY2(result.output.contains("cannot reach the server"_L1), qPrintable(result.output));
}

void TestExamples::scopedMacro()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(SCOPED_MACRO), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QVERIFY2(hasInOrder(result.output,
                        {u"1000 invoices written, the last has number 1000"_s,
                         u"Archived while another thread holds the lock: false"_s}),
             qPrintable(result.output));
    QCOMPARE(keys(), QList<QByteArray>());
}

#ifdef ANNOTATED_SLOTS
void TestExamples::annotatedSlots()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(ANNOTATED_SLOTS), server, {u"--demo"_s});
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QVERIFY2(hasInOrder(result.output,
                        {u"Packing order 17"_s, u"Skipped: the lock order:17 is held already"_s, u"Packed order 17"_s,
                         u"Shipped order 17"_s}),
             qPrintable(result.output));
    QCOMPARE(result.output.count("Shipped"_L1), 1);
    QCOMPARE(keys(), QList<QByteArray>());
}
#endif

#ifdef COROUTINES
void TestExamples::coroutines()
{
    QFETCH(QString, server);
    const Result result = run(QStringLiteral(COROUTINES), server);
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QStringList bookings;
    for (int clerk = 1; clerk <= 5; ++clerk)
        bookings += u"Clerk %1 booked, balance %2"_s.arg(clerk).arg(100 * clerk);
    QVERIFY2(hasInOrder(result.output, bookings), qPrintable(result.output));
    QVERIFY2(result.output.contains("The impatient clerk leaves: QDistLock::DistributedLock::BusyError"_L1),
             qPrintable(result.output));
    QVERIFY2(!result.output.contains("cancelled clerk"_L1), qPrintable(result.output));
    QCOMPARE(keys(), QList<QByteArray>());
}
#endif

void TestExamples::interrupted_data()
{
    QTest::addColumn<QString>("program");
    QTest::addColumn<QByteArray>("foreignLock"); // where another client holds the lock, the example waits
    QTest::addColumn<QByteArray>("output");
    QTest::newRow("signals and slots, waiting")
            << QStringLiteral(SIGNALS_AND_SLOTS) << "lock:report:daily"_ba << QByteArray();
    QTest::newRow("job limit, waiting") << QStringLiteral(JOB_LIMIT) << "lock:video"_ba << QByteArray();
    QTest::newRow("red packet, without lock") << QStringLiteral(RED_PACKET) << QByteArray() << "draws"_ba;
    QTest::newRow("red packet, with lock") << QStringLiteral(RED_PACKET) << QByteArray() << "worker 2 stopped"_ba;
#ifdef COROUTINES
    QTest::newRow("coroutines, waiting") << QStringLiteral(COROUTINES) << "lock:ledger"_ba << QByteArray();
#endif
}

/// Ctrl+C ends an example in order: it leaves no lock and no place in a queue behind.
void TestExamples::interrupted()
{
    QFETCH(QString, program);
    QFETCH(QByteArray, foreignLock);
    QFETCH(QByteArray, output);
    interrupt(program, foreignLock, output);
}

void TestExamples::watchdogInterrupted()
{
    Support::leavesRoomFor(std::chrono::milliseconds(500));
    interrupt(QStringLiteral(WATCHDOG), {}, "renewed"_ba);
}

/// Interrupts \a program when it has printed \a output, or when it waits for \a foreignLock.
void TestExamples::interrupt(const QString &program, const QByteArray &foreignLock, const QByteArray &output)
{
    QList<QByteArray> expected;
    if (!foreignLock.isEmpty()) {
        m_server.command({"SET", foreignLock, "foreign"});
        expected.append(foreignLock);
    }

    QProcess process;
    QByteArray printed;
    start(&process, program, m_server.url().toString());
    QTRY_VERIFY_WITH_TIMEOUT((printed += process.readAll(), printed.contains(output))
                                     && (foreignLock.isEmpty() || keys().size() > 1),
                             60000);
    ::kill(static_cast<pid_t>(process.processId()), SIGINT);
    QVERIFY2(process.waitForFinished(60000), printed.constData());
    printed += process.readAll();
    QVERIFY2(process.exitStatus() == QProcess::NormalExit, printed.constData());
    QVERIFY2(process.exitCode() == 128 + SIGINT, printed.constData());
    EVENTUALLY_COMPARE(keys(), expected);
}

/// The lock is held while the master is replaced, and of the servers of the example nothing remains.
void TestExamples::failOver()
{
    QFETCH(QString, interruptedAt);
    const QTemporaryDir folder;
    QProcess process;
    QString output;
    process.setProcessChannelMode(QProcess::MergedChannels);
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(u"TMPDIR"_s, folder.path());
    process.setProcessEnvironment(environment);
    process.start(QStringLiteral(FAILOVER), {Support::RedisServer::serverProgram()});
    const auto reads = [&](const QString &text) {
        output += QString::fromUtf8(process.readAll());
        return output.contains(text);
    };
    if (interruptedAt == u"start")
        EVENTUALLY_VERIFY(QDir(folder.path()).entryList(QDir::Dirs | QDir::NoDotAndDotDot).size() == 1);
    else if (!interruptedAt.isEmpty())
        QTRY_VERIFY2_WITH_TIMEOUT(reads(interruptedAt), qPrintable(output), 60000);
    if (!interruptedAt.isEmpty())
        ::kill(static_cast<pid_t>(process.processId()), SIGINT);
    QTRY_VERIFY2_WITH_TIMEOUT((reads({}), process.state() == QProcess::NotRunning), qPrintable(output), 60000);
    QVERIFY2(process.exitStatus() == QProcess::NormalExit, qPrintable(output));
    QVERIFY2(process.exitCode() == (interruptedAt.isEmpty() ? 0 : 128 + SIGINT), qPrintable(output));
    QVERIFY2(!output.contains(u"QProcess"_s), qPrintable(output));
    if (interruptedAt.isEmpty())
        QVERIFY2(hasInOrder(output,
                            {u"three Sentinels are running"_s, u"Acquired: fencing token"_s, u"The master is killed"_s,
                             u"Renewed at the new master"_s, u"Another client does not get it"_s,
                             u"Still held, with the same fencing token"_s, u"Released"_s})
                         && output.contains(u"+switch-master: the Sentinels have made the server at port "_s),
                 qPrintable(output));
    QCOMPARE(QDir(folder.path()).entryList(QDir::AllEntries | QDir::NoDotAndDotDot), QStringList());
    QVERIFY(!isUsedByAProcess(folder.path()));
}

void TestExamples::failOverWithoutServerProgram()
{
    const Result result = run(QStringLiteral(FAILOVER), {}, {u"no-such-server"_s});
    QCOMPARE(result.exitCode, 69);
    QVERIFY2(result.output.contains("no-such-server does not run"_L1), qPrintable(result.output));
}

/// Also with a slot that was left half moved.
void TestExamples::cluster()
{
    Support::Started<Support::RedisCluster> nodes(Support::RedisCluster::Options::mastersOnly());
    const int slot = Support::clusterSlot("lock:part:1");
    const int owner = nodes.ownerOf(slot);
    QVERIFY(nodes.beginMove(slot, (owner + 1) % 3));
    const Result result = run(QStringLiteral(CLUSTER), nodes.url().toString(), {u"2"_s});
    QVERIFY2(result.exitCode == 0, qPrintable(result.output));
    QVERIFY2(result.output.contains("lost 0 times."_L1), qPrintable(result.output));
    QVERIFY2(!result.output.contains("redis+cluster"_L1), qPrintable(result.output)); // no error
    const QList<QByteArray> left = nodes.keys(); // a lock in the slot that moves may be among them
    for (const QByteArray &key : left)
        QVERIFY2(key.endsWith(":fence") || Support::clusterSlot(key) == slot, key.constData());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, TestExamples)
#include "tst_examples.moc"
