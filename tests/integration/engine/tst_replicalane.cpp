// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What RedisEngine needs of ReplicaLane; tst_replicas has what locks need of it.

#include "engine/redis/replicalane.h"

#include "enginefixture.h"
#include "support/redistesting.h"
#include "support/replicaset.h"
#include "support/rows.h"

#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace EngineTesting;
using namespace QDistLock;
using namespace RedisTesting;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

class tst_ReplicaLane : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY(m_set.start()); }
    void longestWait_data();
    void longestWait();
    void unusedOnceNothingIsLeft();
    void forgottenBeforeItWasSent();

private:
    LockEngine::Acquire operation(const QByteArray &token, milliseconds replicaTimeout)
    {
        LockEngine::Acquire acquire = acquireOf(lockId(u"job"_s), token, 30s);
        acquire.replicas = {1, replicaTimeout};
        return acquire;
    }
    Support::ReplicaSet m_set{1};
    const QByteArray m_client = "1aaaaaaaaaaaaaaa";
    const QByteArray m_token = m_client + ":1:00000000000000000000000000000000";
};

void tst_ReplicaLane::longestWait_data()
{
    Support::addColumns<milliseconds, milliseconds, milliseconds>("replicaTimeout", "lease", "longest");
    QTest::newRow("default") << milliseconds(1s) << milliseconds(30s) << milliseconds(1s);
    QTest::newRow("a sixth of the lease") << milliseconds(1s) << milliseconds(3s) << milliseconds(500ms);
    QTest::newRow("never 0, which is for ever") << milliseconds(1s) << milliseconds(1ms) << milliseconds(1ms);
    QTest::newRow("others wait, too") << milliseconds(1h) << milliseconds(24h) << milliseconds(3s);
}

void tst_ReplicaLane::longestWait()
{
    QFETCH(milliseconds, replicaTimeout);
    QFETCH(milliseconds, lease);
    QFETCH(milliseconds, longest);
    QCOMPARE(ReplicaLane::longestWait(replicaTimeout, lease), longest);
}

void tst_ReplicaLane::unusedOnceNothingIsLeft()
{
    ReplicaLane lane(serverUrl(m_set.master().tcpUrl()), LeaseClock::system(), m_client);
    lane.setUnusedAfter(20ms);
    QSignalSpy unused(&lane, &ReplicaLane::unused);
    m_set.link(0).setHeld(true);
    Replies replies;
    qsizetype unusedBefore = -1;
    lane.acquire(operation(m_token, 200ms), [&](const EngineReply &reply) {
        unusedBefore = unused.size();
        replies.list.append(reply);
    });
    QVERIFY(waitFor([&] { return replies.list.size() == 1; })); // after a WAIT of 200 ms
    QCOMPARE(unusedBefore, 0);
    QCOMPARE(replies.list.first().status, EngineReply::Unconfirmed);
    QCOMPARE(replies.list.first().error.code, DistributedLock::ReplicationError);
    QVERIFY(waitFor([&] { return unused.size() == 1; }));
    QCOMPARE(lane.busyConnection(), 0);
    m_set.link(0).setHeld(false);
}

void tst_ReplicaLane::forgottenBeforeItWasSent()
{
    m_set.master().command({"FLUSHALL"});
    ReplicaLane lane(serverUrl(m_set.master().tcpUrl()), LeaseClock::system(), m_client);
    Replies forgotten, kept;
    lane.acquire(operation(m_token, 1h), forgotten.next());
    LockEngine::Acquire other = operation(m_client + ":2:00000000000000000000000000000000", 1h);
    other.lock = lockId(u"other"_s);
    lane.acquire(other, kept.next());
    lane.forget(m_token);
    QVERIFY(forgotten.list.isEmpty()); // from the event loop
    QVERIFY(waitFor([&] { return kept.list.size() == 1; }));
    QCOMPARE(kept.list.first().status, EngineReply::Granted);
    QCOMPARE(forgotten.list.size(), 1);
    QCOMPARE(forgotten.list.first().status, EngineReply::Failed);
    QVERIFY(!m_set.master().exists("lock:job"));
}

QTEST_GUILESS_MAIN(tst_ReplicaLane)
#include "tst_replicalane.moc"
