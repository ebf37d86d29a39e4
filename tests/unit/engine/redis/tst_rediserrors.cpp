// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What error replies of the nodes of a cluster mean.

#include "engine/redis/rediserrors.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;

class tst_RedisErrors : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void cluster_data();
    void cluster();
};

void tst_RedisErrors::cluster_data()
{
    QTest::addColumn<bool>("isMaybeExecuted");
    QTest::addColumn<bool>("isElsewhere");
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
    errors.setElsewhere([&reports](const QByteArray &) { ++reports; });
    const EngineError error = errors.ofReply(QTest::currentDataTag(), "acquire");
    QCOMPARE(error.code, DistributedLock::ServerError);
    QVERIFY(!error.isPermanent);
    QCOMPARE(error.isMaybeExecuted, isMaybeExecuted);
    QCOMPARE(reports, isElsewhere ? 1 : 0);
}

QTEST_GUILESS_MAIN(tst_RedisErrors)
#include "tst_rediserrors.moc"
