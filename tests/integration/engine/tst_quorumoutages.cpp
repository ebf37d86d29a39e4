// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks over a majority of independent servers, some of which are away, slow, or have lost everything.

#include "quorumfixture.h"

#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qset.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace QuorumTesting;
using namespace Support;

class tst_QuorumOutages : public LockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_set.start(), qPrintable(m_set.errorString())); }
    void init();
    void cleanup();

    void serverAwayWhileHeld_data();
    void serverAwayWhileHeld();
    void majorityAway();
    void allAway();
    void lateServerIsNotWaitedFor_data();
    void lateServerIsNotWaitedFor();
    void inspectionDoesNotWait();
    void arbiterDiesUnderWaiters_data()
    {
        addRows<int>("fault",
                     {{"killed", int(Killed)},
                      {"refused", int(Refused)},
                      {"stopped", int(Stopped)},
                      {"black hole", int(BlackHole)},
                      {"slow", int(Slow)}});
    }
    void arbiterDiesUnderWaiters();
    void waitersReturnToTheArbiter();
    void formerPlaceIsGivenUp();
    void restartedEmpty();
    void lostButNotGivenAway();
    void releasedWhileAway();
    void lostWhileAway();
    void votesAreGivenBack();
    void splitVotes();
    void addressMovesToAnotherServer();
    void addressMovesToANewServer();
    void manyHeldLocks();

private:
    QUrl serverUrl() override { return m_set.url(); }
    enum Fault { Refused, Killed, BlackHole, Stopped, Slow };
    void breakServer(int fault, int index);

    RedisSet m_set{3};
};

void tst_QuorumOutages::init()
{
    m_set.flushAll();
}

void tst_QuorumOutages::cleanup()
{
    LockTest::cleanup();
    QVERIFY(m_set.heal());
    for (int i = 0; i < 3; ++i)
        m_set.proxy(i).closeAll();
    EVENTUALLY_COMPARE(m_set.connectedClients(), 0);
}

void tst_QuorumOutages::breakServer(int fault, int index)
{
    switch (fault) {
    case Refused:
        m_set.proxy(index).setRefusing(true);
        m_set.proxy(index).closeAll();
        break;
    case Killed:
        m_set.kill(index);
        break;
    case BlackHole:
        m_set.proxy(index).setBlackHole(true);
        break;
    case Stopped:
        m_set.pause(index);
        break;
    case Slow:
        m_set.proxy(index).setLatency(0ms, 700ms);
        break;
    }
}

void tst_QuorumOutages::serverAwayWhileHeld_data()
{
    addColumns<int, int>("fault", "index");
    for (int i = 0; i < 3; ++i) {
        QTest::addRow("refused %d", i) << int(Refused) << i;
        QTest::addRow("killed %d", i) << int(Killed) << i;
        QTest::addRow("black hole %d", i) << int(BlackHole) << i;
    }
}

void tst_QuorumOutages::serverAwayWhileHeld()
{
    QFETCH(int, fault);
    QFETCH(int, index);
    LogCapture log;
    StillRegistry registry(m_set.url());
    TestLock lock(&registry, u"a"_s, options(1h)); // a majority may take 3 s to reply
    QStringList errors;
    connect(&lock, &DistributedLock::errorOccurred, this, [&] { errors.append(lock.errorString()); });
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return renewNow(&lock, registry) && m_set.count(Key) == 3; })); // one may have been late
    breakServer(fault, index);
    // Renewed by the two others, and acquired again.
    QVERIFY(renewNow(&lock, registry));
    QVERIFY(eventually([&] { return log.count({u"cannot be used"_s}) > 0; }));
    QVERIFY(renewNow(&lock, registry));
    QVERIFY(releaseNow(&lock));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    for (const QString &error : std::as_const(errors)) { // only if another server was late, too
        const auto names = [&](int other) { return error.contains(u":%1/"_s.arg(m_set.proxy(other % 3).port())); };
        QVERIFY2(names(index + 1) || names(index + 2), qPrintable(error));
    }
    QVERIFY(m_set.heal());
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_QuorumOutages::majorityAway()
{
    LogCapture log;
    TestLock lock(registry(), u"a"_s, options(1s, LockOptions::Forever));
    QVERIFY(acquireNow(&lock));
    breakServer(Refused, 0);
    breakServer(Refused, 1);
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::QuorumError);
    QVERIFY2(lock.errorString().contains(u"1 of 3 servers of the quorum can be used, but 2 are needed: redis://"_s),
             qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(u"127.0.0.1:%1"_s.arg(m_set.proxy(0).port())));
    QVERIFY(lock.errorString().contains(u"127.0.0.1:%1"_s.arg(m_set.proxy(1).port())));
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }, 3s));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(lock.spies.atRisk.size() <= 1);
    lock.acquire();
    QVERIFY(!eventually([&] { return lock.isHeld(); }, 300ms));
    QVERIFY(m_set.heal());
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    QCOMPARE(lock.error(), DistributedLock::NoError);
    QVERIFY(releaseNow(&lock));
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_QuorumOutages::allAway()
{
    for (int i = 0; i < 3; ++i)
        m_set.proxy(i).setRefusing(true);
    TestLock lock(registry(), u"a"_s, options(1s));
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::ConnectionError);
    QVERIFY2(lock.errorString().contains(u"none of the 3 servers of the quorum can be reached"_s),
             qPrintable(lock.errorString()));
}

void tst_QuorumOutages::lateServerIsNotWaitedFor_data()
{
    addColumns<int, int>("fault", "index");
    for (int i = 0; i < 3; ++i) {
        QTest::addRow("slow %d", i) << int(Slow) << i;
        QTest::addRow("stopped %d", i) << int(Stopped) << i;
        QTest::addRow("black hole %d", i) << int(BlackHole) << i;
    }
}

// Each server is the arbiter of some of these locks.
void tst_QuorumOutages::lateServerIsNotWaitedFor()
{
    QFETCH(int, fault);
    QFETCH(int, index);
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < 12; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(registry(), QString::number(i)));
        locks.back()->setOptions(options(30s, 60s)); // the limit is 500 ms
    }
    QVERIFY(acquireNow(locks[0].get()));
    QVERIFY(releaseNow(locks[0].get()));
    breakServer(fault, index);
    QElapsedTimer timer;
    QList<qint64> times;
    for (int round = 0; round < 2; ++round) {
        for (const auto &lock : locks) {
            timer.start();
            QVERIFY(acquireNow(lock.get()));
            times.append(timer.elapsed());
            QVERIFY(releaseNow(lock.get()));
        }
    }
    // One that found the server late, one more if it is connected again, and some in which the machine paused.
    std::sort(times.begin(), times.end());
    QVERIFY2(times.at(times.size() - 7) < 400, qPrintable(QString::number(times.at(times.size() - 7))));
}

void tst_QuorumOutages::inspectionDoesNotWait()
{
    for (int silent = 0; silent < 3; ++silent) {
        LockRegistry registry(m_set.url());
        TestLock lock(&registry, u"a"_s, options(10s));
        QVERIFY(acquireNow(&lock));
        EVENTUALLY_COMPARE(m_set.count(Key), 3);
        m_set.pause(silent);
        QElapsedTimer timer;
        timer.start();
        const auto info = awaited(registry.inspect(u"a"_s));
        QVERIFY2(timer.elapsed() < 2900, qPrintable(QString::number(timer.elapsed())));
        QVERIFY(info.held);
        QCOMPARE(info.holder.id.toLatin1(), engineOf(registry)->clientId());
        const auto list = awaited(registry.list(u"*"_s));
        QCOMPARE(list.value.size(), 1);
        m_set.resume(silent);
        QVERIFY(releaseNow(&lock));
        EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
    }
}

void tst_QuorumOutages::arbiterDiesUnderWaiters()
{
    QFETCH(int, fault);
    constexpr int Count = 24;
    std::vector<std::unique_ptr<LockRegistry>> registries;
    for (int i = 0; i < 4; ++i)
        registries.push_back(std::make_unique<LockRegistry>(m_set.url()));
    DistributedLock holder(registries[0].get(), u"a"_s);
    holder.setOptions(options(10s, 60s));
    Spies spies(&holder);
    QVERIFY(acquireNow(&holder));
    std::vector<std::unique_ptr<DistributedLock>> waiters;
    Witness witness;
    witness.acquired(&holder);
    for (int i = 0; i < Count; ++i) {
        waiters.push_back(std::make_unique<TestLock>(registries[size_t(i % 4)].get(), u"a"_s, options(10s, 60s)));
        DistributedLock *const lock = waiters.back().get();
        connect(lock, &DistributedLock::acquired, this, [&, lock] {
            witness.acquired(lock);
            lock->release();
            witness.released();
        });
        lock->acquire();
    }
    QVERIFY(eventually([&] {
        return std::all_of(waiters.cbegin(), waiters.cend(), [](const auto &w) { return w->queuePosition() >= 0; });
    }));
    const int arbiter = arbiterOf(*registries[0]);
    breakServer(fault, arbiter);
    QVERIFY(eventually([&] { return spies.renewed.size() >= 2; }));
    QVERIFY(holder.isHeld());
    QCOMPARE(witness.acquisitions(), 1);
    holder.release();
    witness.released();
    QVERIFY2(eventually([&] { return witness.acquisitions() == 1 + Count; }, 40s),
             qPrintable(QString::number(witness.acquisitions())));
    QCOMPARE(witness.overlaps(), 0);
    QCOMPARE(witness.inversions(), 0);
    QVERIFY(m_set.heal());
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_QuorumOutages::waitersReturnToTheArbiter()
{
    LockRegistry other(m_set.url());
    TestLock holder(registry(), u"a"_s, options(10min, 60s)); // nobody polls because the lease ends
    QVERIFY(acquireNow(&holder));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    QList<DistributedLock *> waiters;
    for (int i = 0; i < 6; ++i) {
        waiters.append(new DistributedLock(&other, u"a"_s, &holder));
        waiters.last()->setOptions(options(10min, 60s));
        waiters.last()->acquire();
        QVERIFY(eventually([&] { return waiters.last()->queuePosition() == i; }));
    }
    const int arbiter = arbiterOf(*registry());
    const auto queueAt = [&](int index) { return m_set.server(index).command({"ZCARD", "{lock:a}:queue"}).toInt(); };
    QCOMPARE(queueAt(arbiter), 6);
    breakServer(Refused, arbiter);
    int second = -1;
    QVERIFY(eventually([&] {
        second = arbiterOf(other);
        return second >= 0 && second != arbiter;
    }));
    EVENTUALLY_COMPARE(queueAt(second), 6); // by their own polls, the last one would need 18 s
    QVERIFY(m_set.heal());
    EVENTUALLY_COMPARE(queueAt(second), 0);
    EVENTUALLY_COMPARE(queueAt(arbiter), 6);
    QCOMPARE(queueAt(3 - arbiter - second), 0);
    QVERIFY(holder.isHeld());
    // In the order in which they came.
    const QVariantList tokens = m_set.server(arbiter).command({"ZRANGE", "{lock:a}:queue", "0", "-1"}).toList();
    QCOMPARE(tokens.size(), 6);
    for (int i = 1; i < 6; ++i)
        QVERIFY(Token::sequenceOf(tokens.at(i).toByteArray()) > Token::sequenceOf(tokens.at(i - 1).toByteArray()));
}

// A waiter that can no longer be notified polls, and gets the lock from another arbiter. Its place in the queue would
// cost the time of a claim later.
void tst_QuorumOutages::formerPlaceIsGivenUp()
{
    LockRegistry other(m_set.url());
    TestLock holder(registry(), u"a"_s, options(10s));
    TestLock waiter(&other, u"a"_s, options(60s, 60s)); // no renewal mends it meanwhile
    QVERIFY(acquireNow(&holder));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    QVERIFY(joinQueue(&waiter));
    const int arbiter = arbiterOf(*registry());
    RedisServer &server = m_set.server(arbiter);
    server.command({"ACL", "SETUSER", "default", "resetchannels"});
    server.command({"CLIENT", "KILL", "TYPE", "pubsub"});
    QVERIFY(eventually([&] { return waiter.queuePosition() == -1; })); // it polls
    QVERIFY(server.exists("{lock:a}:queue"));
    breakServer(Refused, arbiter);
    QVERIFY(eventually([&] { return arbiterOf(other) != arbiter; }));
    QVERIFY(eventually([&] { return arbiterOf(*registry()) != arbiter; }));
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QVERIFY(server.exists("{lock:a}:queue"));
    server.command({"ACL", "SETUSER", "default", "allchannels"});
    QVERIFY(m_set.heal());
    EVENTUALLY_VERIFY(!server.exists("{lock:a}:queue"));
    QVERIFY(waiter.isHeld());
    QVERIFY(releaseNow(&waiter));
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

// With the vote of the restarted server, a second client would have a majority.
void tst_QuorumOutages::restartedEmpty()
{
    const int rounds = countFrom("QDISTLOCK_RESTART_ROUNDS", 3);
    int overlaps = 0;
    for (int round = 0; round < rounds; ++round) {
        const int away = round % 3;
        const int restarted = (round + 1) % 3;
        const milliseconds lease = 1500ms;
        LockRegistry registry(m_set.url(false));
        LockRegistry other(m_set.url(false));
        TestLock lock(&registry, u"a"_s, options(lease, 30s).withAutoRenew(false));
        TestLock second(&other, u"a"_s, options(lease, 30s));
        m_set.proxy(away).setRefusing(true);
        m_set.proxy(away).closeAll();
        EVENTUALLY_VERIFY(acquireNow(&lock)); // once the servers are up for long enough
        QVERIFY(m_set.restartEmpty(restarted));
        m_set.proxy(away).setRefusing(false);
        connect(&second, &DistributedLock::acquired, this, [&] { overlaps += lock.isHeld() ? 1 : 0; });
        second.acquire();
        QVERIFY(eventually([&] { return second.spies.acquired.size() == 1; }));
        QVERIFY(releaseNow(&second));
        EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
    }
    qInfo("%d rounds, %d overlaps", rounds, overlaps);
    QCOMPARE(overlaps, 0);
}

// One server was away from the holder only, and another one has forgotten the lock: the holder learns that it has no
// majority any more. What it does may take some time to end, so nobody else gets the lock before its deadline.
void tst_QuorumOutages::lostButNotGivenAway()
{
    const milliseconds lease = 10s; // or a busy machine ends it before the loss is known
    for (int round = 0; round < 3; ++round) {
        const int away = round;
        const int restarted = (round + 1) % 3;
        LockRegistry registry(m_set.url(false));
        LockRegistry other(m_set.directUrl(false));
        TestLock lock(&registry, u"a"_s, options(lease, 30s));
        TestLock second(&other, u"a"_s, options(lease, 30s));
        QDeadlineTimer deadline;
        const auto noteDeadline = [&] { deadline.setRemainingTime(lock.remainingTime(), Qt::PreciseTimer); };
        connect(&lock, &DistributedLock::acquired, this, noteDeadline);
        connect(&lock, &DistributedLock::renewed, this, noteDeadline);
        qint64 left = -1;
        connect(&second, &DistributedLock::acquired, this, [&] { left = deadline.remainingTime(); });
        m_set.proxy(away).setRefusing(true);
        m_set.proxy(away).closeAll();
        EVENTUALLY_VERIFY(acquireNow(&lock)); // once the servers are up for long enough
        second.acquire();
        QVERIFY(m_set.restartEmpty(restarted));
        m_set.proxy(away).setRefusing(false);
        QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
        QCOMPARE_NE(lock.spies.reason(), DistributedLock::LeaseExpired); // or this test shows nothing
        QVERIFY(!deadline.hasExpired());
        QVERIFY(eventually([&] { return second.isHeld(); }, 4 * lease));
        QCOMPARE(left, 0);
        QVERIFY(releaseNow(&second));
        EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
    }
}

void tst_QuorumOutages::releasedWhileAway()
{
    for (int round = 0; round < 6; ++round) {
        const int away = round % 3;
        LogCapture log;
        LockRegistry registry(m_set.url());
        TestLock lock(&registry, u"a"_s, options(600s));
        QVERIFY(acquireNow(&lock));
        EVENTUALLY_COMPARE(m_set.count(Key), 3);
        breakServer(Refused, away);
        if (round >= 3) // the client knows it
            QVERIFY(eventually([&] { return log.count({u"cannot be used"_s}) > 0; }));
        QVERIFY(releaseNow(&lock));
        EVENTUALLY_COMPARE(m_set.count(Key), 1);
        QVERIFY(m_set.server(away).exists(Key));
        QVERIFY(m_set.heal());
        EVENTUALLY_COMPARE(m_set.count(Key), 0); // the lease is ten minutes
    }
}

void tst_QuorumOutages::lostWhileAway()
{
    TestLock lock(registry(), u"a"_s, options(3s));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    for (int i = 0; i < 3; ++i)
        breakServer(Refused, i);
    for (int i = 0; i < 3; ++i) {
        EVENTUALLY_COMPARE(m_set.server(i).connectedClients(), 0); // no renewal is under way any more
        QCOMPARE(m_set.server(i).command({"PEXPIRE", Key, "600000"}).toInt(), 1);
    }
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(m_set.count(Key), 3);
    QVERIFY(m_set.heal());
    EVENTUALLY_COMPARE(m_set.count(Key), 0);
}

// Who gets too few votes does not keep them from others until the next attempt.
void tst_QuorumOutages::votesAreGivenBack()
{
    TestLock lock(registry(), u"a"_s, options(10s, 60s));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    QVERIFY(releaseNow(&lock));
    const int arbiter = arbiterOf(*registry());
    for (int i = 0; i < 3; ++i) {
        if (i != arbiter)
            m_set.pause(i);
    }
    Spies spies(&lock);
    lock.acquire();
    EVENTUALLY_VERIFY(m_set.server(arbiter).exists(Key));
    EVENTUALLY_VERIFY(!m_set.server(arbiter).exists(Key));
    QVERIFY(eventually([&] { return spies.errors.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::QuorumError);
    QVERIFY2(lock.errorString().contains(u"1 of 3 servers of the quorum have granted the lock, but 2 are needed"_s)
                     || lock.errorString().contains(u"1 of 3 servers of the quorum can be used"_s),
             qPrintable(lock.errorString()));
    lock.cancel();
    QVERIFY(m_set.heal());
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

// Six clients see different servers, and so different arbiters; nobody keeps the others from a majority for long.
void tst_QuorumOutages::splitVotes()
{
    std::vector<std::unique_ptr<FaultProxy>> proxies;
    std::vector<std::unique_ptr<LockRegistry>> registries;
    std::vector<std::unique_ptr<DistributedLock>> locks;
    Witness witness;
    for (int i = 0; i < 6; ++i) {
        QList<quint16> ports;
        for (int node = 0; node < 3; ++node) {
            proxies.push_back(std::make_unique<FaultProxy>(m_set.server(node)));
            if (node == i % 3)
                proxies.back()->setRefusing(true);
            ports.append(proxies.back()->port());
        }
        registries.push_back(std::make_unique<LockRegistry>(RedisSet::urlOf(ports)));
        locks.push_back(std::make_unique<TestLock>(registries.back().get(), u"a"_s, options(5s, 60s)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquired, this, [&, lock, left = 10]() mutable {
            witness.acquired(lock);
            lock->release();
            witness.released();
            if (--left > 0)
                lock->acquire();
        });
        lock->acquire();
    }
    QVERIFY2(eventually([&] { return witness.acquisitions() == 60; }),
             qPrintable(QString::number(witness.acquisitions())));
    QCOMPARE(witness.overlaps(), 0);
    QCOMPARE(witness.inversions(), 0);
    locks.clear();
    registries.clear();
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_QuorumOutages::addressMovesToAnotherServer()
{
    LogCapture log;
    TestLock lock(registry(), u"a"_s, options(6s));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    m_set.proxy(2).setServer(m_set.server(1));
    m_set.proxy(2).closeAll();
    QVERIFY(eventually([&] { return log.count({u"are the same server"_s}) > 0; }));
    QCOMPARE(registry()->state(), LockRegistry::Ready);
    lock.spies.renewed.clear();
    QVERIFY(eventually([&] { return lock.spies.renewed.size() >= 2; }));
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY2(lock.spies.errors.isEmpty(), qPrintable(log.text()));
    // One server is no majority, though two addresses lead to it.
    breakServer(Refused, 0);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    m_set.proxy(0).heal();
    m_set.proxy(2).setServer(m_set.server(2));
    m_set.proxy(2).closeAll();
    QVERIFY(eventually([&] { return acquireNow(&lock); }));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
}

// It has been up for long, but does not know what its predecessor had confirmed.
void tst_QuorumOutages::addressMovesToANewServer()
{
    Started<RedisServer> replacement(RedisServer::Options::withTcp());
    LockRegistry registry(m_set.url(false));
    TestLock lock(&registry, u"a"_s, options(2s, 20s));
    QVERIFY(acquireNow(&lock)); // all servers are up for a lease then
    QVERIFY(releaseNow(&lock));
    EVENTUALLY_VERIFY(replacement.info("server", "uptime_in_seconds").toInt() >= 3);
    breakServer(Refused, 0);
    m_set.proxy(2).setServer(replacement);
    m_set.proxy(2).closeAll();
    Spies spies(&lock);
    QVERIFY(eventually([&] {
        lock.tryAcquire();
        return lock.errorString().contains(u"the server is up since"_s) || lock.isHeld();
    }));
    QCOMPARE(spies.acquired.size(), 0);
    QVERIFY(acquireNow(&lock)); // a lease later
    QVERIFY(releaseNow(&lock));
    m_set.proxy(2).setServer(m_set.server(2));
}

// Only waiters are examined when a server goes or comes, and renewals that are due together take several turns.
void tst_QuorumOutages::manyHeldLocks()
{
    constexpr int Count = 10'000;
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int held = 0;
    int lost = 0;
    for (int i = 0; i < Count; ++i) {
        locks.push_back(std::make_unique<TestLock>(registry(), QString::number(i), options(600s, 60s)));
        connect(locks.back().get(), &DistributedLock::acquired, this, [&] { ++held; });
        connect(locks.back().get(), &DistributedLock::lost, this, [&] { ++lost; });
        locks.back()->acquire();
    }
    QVERIFY(eventually([&] { return held == Count; }));
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [&](EventLoopProbe &probe) {
                QuorumEngine *const engine = engineOf(*registry());
                const auto isAway = [&] {
                    bool away = true;
                    probe.without([&] {
                        for (int i = 0; i < 100; ++i)
                            away = away && engine->arbiterOf(idOf(QString::number(i))) != 1;
                    });
                    return away;
                };
                probe.without([&] { breakServer(Refused, 1); });
                QVERIFY(EventLoopProbe::waitFor(isAway));
                EventLoopProbe::waitFor([] { return false; }, 100ms);
                probe.without([&] { m_set.proxy(1).setRefusing(false); });
                EventLoopProbe::waitFor([&] { return m_set.proxy(1).connections() >= 2; });
                EventLoopProbe::waitFor([] { return false; }, 100ms);
            },
            2 * TurnLimit);
    qInfo("longest turn: %lld µs", qint64(std::chrono::duration_cast<std::chrono::microseconds>(longest).count()));
    QVERIFY2(longest < 2 * TurnLimit, qPrintable(QString::number(longest.count() / 1000)));
    QCOMPARE(lost, 0);
    locks.clear();
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_QuorumOutages)
#include "tst_quorumoutages.moc"
