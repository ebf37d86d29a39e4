// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The cluster that other tests trust: its faults are those that their names say.

#include "support/clusterslot.h"
#include "support/eventually.h"
#include "support/rediscluster.h"
#include "support/respclient.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace Support;
using namespace std::chrono_literals;

class tst_RedisCluster : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void slotIsLeftMoving();
    PROOF void masterIsCutOff();

private:
    static constexpr auto Key = "{a}x";
    const int m_slot = clusterSlot(Key);
    RedisCluster m_cluster{options()};

    static RedisCluster::Options options()
    {
        RedisCluster::Options options;
        options.nodeTimeout = 60s; // no node counts as failed because the machine is busy
        options.canBeCutOff = true;
        return options;
    }
};

void tst_RedisCluster::initTestCase()
{
    QVERIFY2(m_cluster.start(), qPrintable(m_cluster.errorString()));
    QCOMPARE(m_cluster.nodeCount(), 6);
    QVERIFY(m_cluster.isHealthy());
}

void tst_RedisCluster::slotIsLeftMoving()
{
    const int source = m_cluster.ownerOf(m_slot);
    const int target = (source + 1) % 3;
    RedisServer &server = m_cluster.node(source);
    server.command({"MSET", "{a}x", "1", "{a}y", "1"});
    QVERIFY(m_cluster.beginMove(m_slot, target));
    QVERIFY2(m_cluster.moveKey(Key, target), m_cluster.lastError().constData());
    QVERIFY(server.command({"GET", Key}).toByteArray().startsWith("-ASK "));
    QVERIFY(server.command({"MGET", "{a}x", "{a}y"}).toByteArray().startsWith("-TRYAGAIN"));
    QCOMPARE(server.command({"GET", "{a}y"}).toByteArray(), "1");
    QCOMPARE(m_cluster.moveKeys(m_slot, target), 1);
    QCOMPARE(m_cluster.moveKeys(m_slot, target), 0);
    QVERIFY(m_cluster.endMove(m_slot, target));
    QVERIFY(m_cluster.waitUntilHealthy());
    QVERIFY(m_cluster.moveSlot(m_slot, source));
    QVERIFY(m_cluster.waitUntilHealthy());
    m_cluster.flushAll();
}

/// Clients reach a master that the other nodes do not; they replace it, and it refuses commands until it joins them.
void tst_RedisCluster::masterIsCutOff()
{
    const int master = m_cluster.ownerOf(m_slot);
    RedisServer &server = m_cluster.node(master);
    const auto setNodeTimeout = [this](const QByteArray &ms) {
        for (int i = 0; i < m_cluster.nodeCount(); ++i)
            m_cluster.node(i).command({"CONFIG", "SET", "cluster-node-timeout", ms});
    };
    m_cluster.cutOff(master);
    setNodeTimeout("5000");
    QCOMPARE(server.command({"SET", Key, "1"}).toByteArray(), "OK");
    const auto isReplaced = [&] {
        const int owner = m_cluster.ownerOf(m_slot);
        return owner >= 0 && owner != master;
    };
    EVENTUALLY_VERIFY(isReplaced());
    EVENTUALLY_VERIFY(server.command({"SET", Key, "2"}).toByteArray().startsWith("-CLUSTERDOWN"));
    setNodeTimeout("60000");
    m_cluster.join(master);
    QVERIFY(m_cluster.waitUntilHealthy());
    QVERIFY(m_cluster.replicaOf(m_cluster.ownerOf(m_slot)) == master);
    m_cluster.flushAll();
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_RedisCluster)
#include "tst_rediscluster.moc"
