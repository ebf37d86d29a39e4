// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/redisserver.h"
#include "support/rows.h"

#include <QtCore/qprocess.h>
#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

/// Runs the QML examples as a user does.
class TestQmlExample : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void statusWindow_data();
    void statusWindow();
    void statusHelp();
    void actions_data() { Support::addRows<bool>("withServer", {{"memory", false}, {"redis", true}}); }
    void actions();
};

static QProcessEnvironment environmentWith(const QString &server)
{
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.remove(u"QDISTLOCK_URL"_s);
    if (!server.isEmpty())
        environment.insert(u"QDISTLOCK_URL"_s, server);
    return environment;
}

void TestQmlExample::statusWindow_data()
{
    Support::addColumns<bool, bool>("withServer", "asOption");
    QTest::newRow("memory") << false << false;
    QTest::newRow("--server") << true << true;
    QTest::newRow("QDISTLOCK_URL") << true << false;
}

void TestQmlExample::statusWindow()
{
    QFETCH(bool, withServer);
    QFETCH(bool, asOption);
    Support::RedisServer server;
    QString url;
    if (withServer) {
        QVERIFY2(server.start(), qPrintable(server.errorString()));
        url = server.url().toString();
    }
    QProcess process;
    process.setProcessEnvironment(environmentWith(asOption ? QString() : url));
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QStringLiteral(QML_STATUS), asOption ? QStringList{u"--server"_s, url} : QStringList());
    QVERIFY2(process.waitForStarted(60000), qPrintable(process.errorString()));
    // The window prints "ready" when it is shown; QML errors come earlier.
    QByteArray output;
    QTRY_VERIFY_WITH_TIMEOUT((output += process.readAll()).contains("ready") || process.state() == QProcess::NotRunning,
                             60000);
    QVERIFY2(process.state() == QProcess::Running, output.constData());
    QVERIFY2(!output.contains(".qml:"), output.constData());
    QVERIFY2(output.contains(withServer ? url.toUtf8() : "memory:"), output.constData());
    process.terminate();
    QVERIFY(process.waitForFinished(60000));
    QCOMPARE(process.exitStatus(), QProcess::NormalExit);
    QCOMPARE(process.exitCode(), 143);
}

void TestQmlExample::statusHelp()
{
    QProcess process;
    process.start(QStringLiteral(QML_STATUS), {u"--help"_s});
    QVERIFY(process.waitForFinished(60000));
    QCOMPARE(process.exitCode(), 0);
    QVERIFY(process.readAll().contains("--server"));
}

void TestQmlExample::actions()
{
    QFETCH(bool, withServer);
    Support::RedisServer server;
    if (withServer)
        QVERIFY2(server.start(), qPrintable(server.errorString()));
    QProcess process;
    process.setProcessEnvironment(environmentWith(withServer ? server.url().toString() : QString()));
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QStringLiteral(QML_ACTIONS), {u"--demo"_s});
    const bool finished = process.waitForFinished(60000);
    const QByteArray output = process.readAll();
    QVERIFY2(finished && process.exitStatus() == QProcess::NormalExit, output.constData());
    QVERIFY2(process.exitCode() == 0, output.constData());
    const qsizetype ready = output.indexOf("qml: The report is ready\n");
    QVERIFY2(ready >= 0 && output.indexOf("qml: Order 17 is shipped\n") > ready, output.constData());
    QVERIFY2(!output.contains(".qml:"), output.constData());
    if (withServer)
        QVERIFY(!server.exists("lock:report:daily") && !server.exists("lock:order:17"));
}

QTEST_GUILESS_MAIN(TestQmlExample)

#include "tst_qmlexample.moc"
