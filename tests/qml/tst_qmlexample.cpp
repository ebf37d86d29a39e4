// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/redisserver.h"

#include <QtCore/qprocess.h>
#include <QtTest/qtest.h>

/// The example as it is started by hand.
class TestQmlExample : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void runs_data();
    void runs();
    void help();
};

void TestQmlExample::runs_data()
{
    QTest::addColumn<bool>("withServer");
    QTest::newRow("memory") << false;
    QTest::newRow("redis") << true;
}

void TestQmlExample::runs()
{
    QFETCH(bool, withServer);
    Support::RedisServer server;
    QStringList arguments;
    if (withServer) {
        QVERIFY2(server.start(), qPrintable(server.errorString()));
        arguments = {QStringLiteral("--server"), server.url().toString()};
    }
    QProcess process;
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QStringLiteral(EXAMPLE), arguments);
    QVERIFY2(process.waitForStarted(), qPrintable(process.errorString()));
    // Shown, it says so; errors of QML come before.
    QByteArray output;
    QTRY_VERIFY_WITH_TIMEOUT((output += process.readAll()).contains("ready")
                                     || process.state() == QProcess::NotRunning,
                             20000);
    QVERIFY2(process.state() == QProcess::Running, output.constData());
    QVERIFY2(!output.contains(".qml:"), output.constData());
    process.terminate();
    QVERIFY(process.waitForFinished());
}

void TestQmlExample::help()
{
    QProcess process;
    process.start(QStringLiteral(EXAMPLE), {QStringLiteral("--help")});
    QVERIFY(process.waitForFinished());
    QCOMPARE(process.exitCode(), 0);
    QVERIFY(process.readAll().contains("--server"));
}

QTEST_GUILESS_MAIN(TestQmlExample)

#include "tst_qmlexample.moc"
