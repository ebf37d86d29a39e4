// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What error replies mean: those of the nodes of a cluster, and those of servers that execute no scripts.

#include "engine/redis/rediserrors.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;

class tst_RedisErrors : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void cluster_data();
    void cluster();
    void whatMayPass_data();
    void whatMayPass();
    void clusterNodeWithAnotherUrl_data();
    void clusterNodeWithAnotherUrl();
    void refusedScripts_data();
    void refusedScripts();
};

void tst_RedisErrors::cluster_data()
{
    Support::addColumns<bool, bool>("isMaybeExecuted", "isElsewhere");
    QTest::newRow("MOVED 3999 127.0.0.1:6381") << false << true;
    QTest::newRow("ASK 3999 127.0.0.1:6381") << false << false;
    QTest::newRow("TRYAGAIN Multiple keys request during rehashing of slot") << false << false;
    QTest::newRow("ERR Script attempted to access a non local key in a cluster node script: 1") << true << false;
    QTest::newRow("CLUSTERDOWN The cluster is down") << false << true;
    QTest::newRow("ERR Script attempted to execute a write command while the cluster is down and readonly script: 1")
            << false << true;
    QTest::newRow("LOADING Redis is loading the dataset in memory") << false << true;
    QTest::newRow("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.") << false << true;
    QTest::newRow("READONLY You can't write against a read only replica.") << false << true;
    QTest::newRow("BUSY Redis is busy running a script") << false << false;
}

void tst_RedisErrors::cluster()
{
    QFETCH(const bool, isMaybeExecuted);
    QFETCH(const bool, isElsewhere);
    QString problem;
    const auto url = QtRedis::ServerUrl::parse(QUrl(u"redis://127.0.0.1:6380"_s), &problem);
    QVERIFY2(url, qPrintable(problem));
    QtRedis::Connection connection(*url);
    RedisErrors errors(&connection);
    int reports = 0;
    errors.setIsClusterNode();
    errors.setElsewhere([&reports](const QByteArray &) { ++reports; });
    const EngineError error = errors.ofReply(QTest::currentDataTag(), "acquire");
    QCOMPARE(error.code, DistributedLock::ServerError);
    QVERIFY(!error.isPermanent);
    QCOMPARE(error.isMaybeExecuted, isMaybeExecuted);
    QCOMPARE(reports, isElsewhere ? 1 : 0);
}

void tst_RedisErrors::whatMayPass_data()
{
    QTest::addColumn<bool>("isPermanent");
    const auto row = [](const char *reply, bool isPermanent) { QTest::newRow(reply) << isPermanent; };
    row("ERR no server connection available", false); // proxies
    row("ERR Proxy: all hosts are down", false);
    row("upstream failure", false);
    row("ERR max number of clients reached", false);
    row("ERR Script killed by user with SCRIPT KILL", false);
    row("ERR Can't save in background: fork: Cannot allocate memory", false);
    row("OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:7.", false);
    row("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist on disk", false);
    row("NOREPLICAS Not enough good replicas to write.", false);
    row("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", false);
    row("ERR unknown command 'SET', with args beginning with: 'a' ", true);
    row("ERR syntax error script: 1f, on @user_script:7.", true);
    row("ERR wrong number of arguments for 'set' command", true);
    row("ERR user_script:3: attempt to index a nil value script: 1f, on @user_script:3.", true);
    row("ERR Error running script (call to f_1): @user_script:3: user_script:3: attempt to index a nil value", true);
    row("WRONGTYPE Operation against a key holding the wrong kind of value", true);
}

void tst_RedisErrors::whatMayPass()
{
    QFETCH(const bool, isPermanent);
    QString problem;
    const auto url = QtRedis::ServerUrl::parse(QUrl(u"redis://127.0.0.1:6380"_s), &problem);
    QVERIFY2(url, qPrintable(problem));
    QtRedis::Connection connection(*url);
    QCOMPARE(RedisErrors(&connection).ofReply(QTest::currentDataTag(), "acquire").isPermanent, isPermanent);
}

void tst_RedisErrors::clusterNodeWithAnotherUrl_data()
{
    Support::addColumns<QString, QString>("server", "advice");
    for (const char *reply : {"MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
                              "TRYAGAIN Multiple keys request during rehashing of slot"}) {
        QTest::addRow("%s", reply) << u"redis://127.0.0.1"_s << u"use redis+cluster://"_s;
        QTest::addRow("%s, TLS", reply) << u"rediss://127.0.0.1"_s << u"use rediss+cluster://"_s;
    }
}

void tst_RedisErrors::clusterNodeWithAnotherUrl()
{
    QFETCH(QString, server);
    QFETCH(QString, advice);
    QString problem;
    const auto url = QtRedis::ServerUrl::parse(QUrl(server), &problem);
    QVERIFY2(url, qPrintable(problem));
    QtRedis::Connection connection(*url);
    const QByteArray reply = QByteArray(QTest::currentDataTag()).split(',').first();
    const EngineError error = RedisErrors(&connection).ofReply(reply, "acquire");
    QVERIFY(error.isPermanent && !error.isSlotMoving);
    QVERIFY2(error.text.contains(advice), qPrintable(error.text));
}

void tst_RedisErrors::refusedScripts_data()
{
    Support::addColumns<bool, bool>("isCommand", "isScript");
    const auto row = [](const char *reply, bool isCommand, bool isScript) {
        QTest::newRow(reply) << isCommand << isScript;
    };
    row("NOPERM this user has no permissions to run the 'evalsha' command or its subcommand", true, true);
    row("NOPERM this user has no permissions to run the 'eval' command", true, true);
    row("NOPERM User lockapp has no permissions to run the 'evalsha' command", true, true);
    row("NOPERM User eval has no permissions to run the 'watch' command", true, false);
    row("NOPERM this user has no permissions to access one of the keys used as arguments", false, false);
    row("NOPERM No permissions to access a key", false, false);
    row("ERR unknown command `EVALSHA`, with args beginning with: `a`, ", true, true);
    row("ERR unknown command 'EVALSHA', with args beginning with: 'a' ", true, true);
    row("ERR unknown command 'eval'", true, true);
    row("ERR unknown command 'WATCH', with args beginning with: 'eval' ", true, false);
    row("ERR unsupported command 'eval'", true, true);
    row("ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array",
        false, true);
    row("ERR Error running script (call to f_1): @user_script:14: @user_script: 14: -READONLY no", false, false);
    row("ERR The user executing the script can't run this command or subcommand script: 1", false, false);
    row("ERR ACL failure in script: User x has no permissions to run the 'publish' command", false, false);
    row("NOSCRIPT No matching script. Please use EVAL.", false, false);
    row("READONLY You can't write against a read only replica.", false, false);
}

void tst_RedisErrors::refusedScripts()
{
    QFETCH(const bool, isCommand);
    QFETCH(const bool, isScript);
    QCOMPARE(RedisErrors::isCommandRefused(QTest::currentDataTag()), isCommand);
    QCOMPARE(RedisErrors::isScriptRefused(QTest::currentDataTag()), isScript);
}

QTEST_GUILESS_MAIN(tst_RedisErrors)
#include "tst_rediserrors.moc"
