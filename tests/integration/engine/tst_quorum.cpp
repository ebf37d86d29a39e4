// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks over a majority of independent servers, all of which can be reached. Outages: tst_quorumoutages.cpp.

#include "quorumfixture.h"

#include "base/leaseclock.h"
#include "engine/protocolconstants.h"
#include "engine/quorum/lockorder.h"
#include "engine/redis/redisnode.h"
#include "scripts.h"
#include "support/aclrules.h"
#include "support/certificates.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qrandom.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace QuorumTesting;
using namespace Support;

namespace {

constexpr auto CompareAndDelete = "if redis.call('get',KEYS[1]) == ARGV[1] then "
                                  "return redis.call('del',KEYS[1]) else return 0 end";

constexpr auto ForeignLease = "3600000";

/// Makes a single attempt. True if it failed because all three servers have not been up for long enough.
bool areTooYoung(DistributedLock *lock)
{
    lock->tryAcquire();
    return eventually([lock] { return lock->isHeld() || lock->state() == DistributedLock::Unlocked; })
            && !lock->isHeld() && lock->errorString().count(u"the server is up since"_s) == 3;
}

} // namespace

class tst_Quorum : public LockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_set.start(), qPrintable(m_set.errorString())); }
    void init();
    void cleanup();

    void order();
    void acquiredAtAllAndReleased();
    void majoritySuffices();
    TIMING void missingServerIsNoError();
    void fencingTokensRiseOverAnyMajority();
    void unequalFencingTokensAreRaised();
    void tryAcquireIsBusy();
    void nodeThatLostItGetsItAgain();
    void lostAtAMajority();
    void lostBeforeItIsReleased();
    void forcedAtOneAfterAnother();
    void stolenAtAMajority();
    void majoritysHolderIsShown();
    void queueIsShownToWhoKnowsNoArbiter();
    void cancelLeavesNothing();
    void nothingCancelsTheNextVote_data()
    {
        addRows<int>("repeatedAfter",
                     {{"dead waiters", int(DeadWaiters)},
                      {"forbidden key", int(ForbiddenKey)},
                      {"unknown script", int(UnknownScript)}});
    }
    void nothingCancelsTheNextVote();
    void endOfTheRegistryLeavesNothing();
    void endOfTheRegistryBeforeTheLastReply();
    void minHoldAfterALateRenewal();
    void minHoldAfterAnUnknownScript();
    void foreignClientExcludesUs();
    void weExcludeForeignClient();
    void foreignMinorityDoesNot();
    void foreignClientsContend_data()
    {
        addRows<int>("way", {{"SET NX, as redsync", int(WithNx)}, {"a script, as node-redlock", int(WithScript)}});
    }
    void foreignClientsContend();
    void waiterOutlivesForeignHolder();
    void waitersDoNotKeepTheArbiterFromItsHolder();
    void slowServersAreWaitedFor();
    void arbiterRefusesWhenItsTimeIsUp();
    void sameServerTwice();
    void nodeOfACluster();
    void youngServersHaveNoVote();
    void uptimeIsNotRoundedUp();
    void uptimeDoesNotGrowWithTheClock();
    void infoIsForbidden();
    void wrongPassword();
    void minReplicasIsRefused();
    void leastRights();
    void tls();

private:
    QUrl serverUrl() override { return m_set.url(); }
    enum RepeatedAfter { DeadWaiters, ForbiddenKey, UnknownScript };
    /// SET with NX; or a script that looks whether the key exists.
    enum ForeignWay { WithNx, WithScript };
    bool loadScripts();
    bool foreignAcquire(const QByteArray &token, ForeignWay way = WithNx);
    void foreignRelease(const QByteArray &token);

    /// With directUrl(), a pause of the machine hardly makes a reply late: no proxy must pass it on first. But the
    /// engine's indices of the servers are others then.
    RedisSet m_set{3};
};

void tst_Quorum::init()
{
    // The servers keep a lock for a waiter that should claim it for a minute, not for 3 s.
    for (int i = 0; i < m_set.size(); ++i)
        m_set.clock(i).slowDown(20);
    m_set.flushAll();
    QVERIFY(loadScripts());
}

void tst_Quorum::cleanup()
{
    LockTest::cleanup();
    QVERIFY(m_set.heal());
    EVENTUALLY_COMPARE(m_set.connectedClients(), 0);
}

/// What a server asks for again, because it does not know the script, runs behind what was sent later. A renewal or a
/// cancel is never asked for again.
bool tst_Quorum::loadScripts()
{
    for (int i = 0; i < m_set.size(); ++i) {
        for (const auto *script : {&Scripts::acquire, &Scripts::release, &Scripts::raise}) {
            if (m_set.server(i).command({"SCRIPT", "LOAD", script->text}).toByteArray() != script->sha1)
                return false;
        }
    }
    return true;
}

/// As redsync (WithNx) and node-redlock (WithScript) do it: at all servers; without a majority, given back.
bool tst_Quorum::foreignAcquire(const QByteArray &token, ForeignWay way)
{
    constexpr auto IfMissing = "if redis.call('exists',KEYS[1]) == 1 then return 0 end "
                               "redis.call('set',KEYS[1],ARGV[1],'px',ARGV[2]) return 1";
    int votes = 0;
    for (int i = 0; i < m_set.size(); ++i) {
        RedisServer &server = m_set.server(i);
        votes += way == WithNx ? server.command({"SET", Key, token, "NX", "PX", ForeignLease}).toByteArray() == "OK"
                               : server.command({"EVAL", IfMissing, "1", Key, token, ForeignLease}).toInt() == 1;
    }
    if (votes > m_set.size() / 2)
        return true;
    foreignRelease(token);
    return false;
}

void tst_Quorum::foreignRelease(const QByteArray &token)
{
    for (int i = 0; i < m_set.size(); ++i)
        m_set.server(i).command({"EVAL", CompareAndDelete, "1", Key, token});
}

// All clients ask the servers of one lock in the same order, and locks spread over them.
void tst_Quorum::order()
{
    const QList<QByteArray> names{"a:1", "b:2", "c:3", "d:4"};
    const QList<QByteArray> others{"d:4", "b:2", "a:1", "c:3"};
    QHash<QByteArray, int> first;
    for (int i = 0; i < 400; ++i) {
        const QByteArray key = "lock:" + QByteArray::number(i);
        QList<QByteArray> one, other, without;
        for (const int index : LockOrder::of(key, names))
            one.append(names.at(index));
        for (const int index : LockOrder::of(key, others))
            other.append(others.at(index));
        QCOMPARE(one, other);
        QCOMPARE(QSet<QByteArray>(one.cbegin(), one.cend()).size(), 4);
        ++first[one.first()];
        // The other locks keep their order if one server is missing.
        const QList<QByteArray> fewer{"a:1", "b:2", "d:4"};
        for (const int index : LockOrder::of(key, fewer))
            without.append(fewer.at(index));
        one.removeOne("c:3");
        QCOMPARE(without, one);
    }
    for (const QByteArray &name : names)
        QVERIFY2(first.value(name) > 50, name.constData());
    // The same in each version and process: clients of different versions meet at the same server.
    const auto fixed = LockOrder::of("lock:a", names);
    QCOMPARE(QList<int>(fixed.cbegin(), fixed.cend()), (QList<int>{0, 2, 3, 1}));
}

void tst_Quorum::acquiredAtAllAndReleased()
{
    TestLock lock(registry(), u"a"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > 0);
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    const QList<QByteArray> values = m_set.values(Key);
    QCOMPARE(QSet<QByteArray>(values.cbegin(), values.cend()).size(), 1);
    for (int i = 0; i < 3; ++i) {
        QVERIFY(m_set.server(i).pttl(Key) > 1'800'000);
        QCOMPARE(m_set.server(i).get("{lock:a}:fence").toLongLong(), lock.fencingToken()); // with the floor, no raise
        QVERIFY(!m_set.server(i).exists("{lock:a}:queue"));
    }
    QVERIFY(releaseNow(&lock));
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_Quorum::majoritySuffices()
{
    for (int away = 0; away < 3; ++away) {
        m_set.proxy(away).setRefusing(true);
        LogCapture log;
        LockRegistry registry(m_set.url());
        TestLock lock(&registry, u"a"_s);
        QVERIFY(acquireNow(&lock));
        EVENTUALLY_COMPARE(m_set.count(Key), 2);
        const QString text = u"3 servers cannot be used, 2 are left, 2 are needed. redis://127.0.0.1:%1"_s;
        EVENTUALLY_VERIFY(log.text().contains(text.arg(m_set.proxy(away).port())));
        QVERIFY(releaseNow(&lock));
        EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
        m_set.proxy(away).setRefusing(false);
    }
}

void tst_Quorum::missingServerIsNoError()
{
    leavesRoomFor(400ms); // a reply is late after 500 ms
    for (int away = -1; away < 3; ++away) {
        if (away >= 0)
            m_set.proxy(away).setRefusing(true);
        LogCapture log;
        LockRegistry registry(m_set.url());
        TestLock lock(&registry, u"a"_s);
        QVERIFY(acquireNow(&lock));
        EVENTUALLY_COMPARE(m_set.count(Key), away < 0 ? 3 : 2);
        QVERIFY(releaseNow(&lock));
        QVERIFY(lock.spies.errors.isEmpty());
        QCOMPARE(log.messages(QtWarningMsg).size(), away < 0 ? 0 : 1);
        EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
        if (away >= 0)
            m_set.proxy(away).setRefusing(false);
    }
}

// The clocks of the servers differ and are set meanwhile, and each acquisition reaches another majority.
void tst_Quorum::fencingTokensRiseOverAnyMajority()
{
    const int acquisitions = countFrom("QDISTLOCK_FENCE_ACQUISITIONS", 2000);
    constexpr int Names = 50;
    QRandomGenerator random(1);
    std::vector<std::unique_ptr<FaultProxy>> proxies;
    std::vector<std::unique_ptr<LockRegistry>> registries;
    for (int away = 0; away < 3; ++away) {
        QList<quint16> ports;
        for (int i = 0; i < 3; ++i) {
            proxies.push_back(std::make_unique<FaultProxy>(m_set.server(i)));
            proxies.back()->setRefusing(i == away);
            ports.append(proxies.back()->port());
        }
        registries.push_back(std::make_unique<LockRegistry>(RedisSet::urlOf(ports)));
    }
    std::vector<std::unique_ptr<DistributedLock>> locks; // of each name, one for each majority
    std::vector<qint64> last(Names);
    int started = 0;
    int done = 0;
    int inversions = 0;
    int failures = 0;
    const auto acquireNext = [&](size_t name) {
        if (started++ < acquisitions)
            locks.at(name * 3 + random.bounded(3U))->acquire();
    };
    for (size_t name = 0; name < Names; ++name) {
        for (size_t majority = 0; majority < 3; ++majority) {
            locks.push_back(std::make_unique<TestLock>(registries[majority].get(), QString::number(name)));
            DistributedLock *const lock = locks.back().get();
            connect(lock, &DistributedLock::acquired, this, [&, lock, name] {
                inversions += lock->fencingToken() <= last[name] ? 1 : 0;
                last[name] = lock->fencingToken();
                if (++done % 100 == 0) { // by up to 50 ms, and sometimes by a minute
                    const milliseconds shift(random.bounded(-50, 51));
                    m_set.clock(random.bounded(3)).shift(done % 500 == 0 ? 1200 * shift : shift);
                }
                lock->release();
            });
            connect(lock, &DistributedLock::released, this, [&, name] { acquireNext(name); });
            connect(lock, &DistributedLock::lost, this, [&, name] { acquireNext(name); });
            connect(lock, &DistributedLock::acquireFailed, this, [&] { ++failures; });
        }
    }
    for (size_t name = 0; name < Names; ++name)
        acquireNext(name);
    QVERIFY2(eventually([&] { return done + failures >= acquisitions; }, 60s + acquisitions * 10ms),
             qPrintable(QString::number(done)));
    for (int i = 0; i < 3; ++i)
        m_set.clock(i).shift(0ms);
    qInfo("%d acquisitions, %d inversions", done, inversions);
    QCOMPARE(inversions, 0);
    QCOMPARE(failures, 0);
}

void tst_Quorum::unequalFencingTokensAreRaised()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    const qint64 first = lock.fencingToken();
    QVERIFY(releaseNow(&lock));
    const int asked = arbiterOf(*registry());
    // Each of the others has given out more than the arbiter, and not the same.
    qint64 more = first + 1'000'000'000'000;
    for (int i = 0; i < 3; ++i) {
        if (i != asked)
            m_set.server(i).command({"SET", "{lock:a}:fence", QByteArray::number(more += 1000)});
    }
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > first + 1'000'000'000'000); // of one of them: the third may have come too late
    int equal = 0;
    for (int i = 0; i < 3; ++i)
        equal += m_set.server(i).get("{lock:a}:fence").toLongLong() >= lock.fencingToken();
    QVERIFY(equal >= 2);
}

void tst_Quorum::tryAcquireIsBusy()
{
    LockRegistry registry(m_set.directUrl());
    StillRegistry other(m_set.directUrl()); // a single attempt would end after 5 s
    TestLock lock(&registry, u"a"_s);
    QVERIFY(acquireNow(&lock));
    DistributedLock early(&other, u"b"_s);
    QVERIFY(acquireNow(&early)); // it is connected
    QVERIFY(releaseNow(&early));
    TestLock late(&other, u"a"_s);
    late.tryAcquire();
    QVERIFY(eventually([&] { return late.spies.failed.size() == 1; }));
    QCOMPARE(late.spies.failure(), DistributedLock::BusyError);
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    for (int i = 0; i < 3; ++i)
        QVERIFY(!m_set.server(i).exists("{lock:a}:queue"));
}

// A majority has confirmed the renewal first: so another server may be lost afterwards.
void tst_Quorum::nodeThatLostItGetsItAgain()
{
    StillRegistry registry(m_set.url());
    TestLock lock(&registry, u"a"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    const qint64 fencingToken = lock.fencingToken();
    for (int i = 0; i < 3; ++i) {
        EVENTUALLY_COMPARE(m_set.count(Key), 3);
        m_set.server(i).command({"FLUSHALL"});
        QVERIFY(renewNow(&lock, registry));
        EVENTUALLY_COMPARE(m_set.count(Key), 3);
        QVERIFY(m_set.server(i).get("{lock:a}:fence").toLongLong() >= fencingToken);
    }
    QVERIFY(lock.isHeld());
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(releaseNow(&lock));
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_Quorum::lostAtAMajority()
{
    StillRegistry registry(m_set.url());
    TestLock lock(&registry, u"a"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    m_set.server(0).command({"DEL", Key});
    m_set.server(2).command({"DEL", Key});
    QVERIFY(!renewNow(&lock, registry));
    QCOMPARE(lock.spies.lost.size(), 1);
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
    // The other one keeps it until the deadline of which the holder knows, two thirds of an hour later.
    QVERIFY(passThrough(&registry, m_set));
    QCOMPARE(m_set.count(Key), 1);
    const qint64 left = m_set.server(1).command({"PTTL", Key}).toLongLong();
    QVERIFY2(left > 39 * 60'000 && left <= 40 * 60'000, qPrintable(QString::number(left)));
}

// One of three servers was away, and one has forgotten the lock: only a minority still had it.
void tst_Quorum::lostBeforeItIsReleased()
{
    const int away = 2;
    m_set.proxy(away).setRefusing(true);
    TestLock lock(registry(), u"a"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 2);
    m_set.server(0).command({"DEL", Key});
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.holdsEnded() == 1; }));
    QCOMPARE(lock.spies.released.size(), 0);
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

// The holder hears of it from the first server, and still has a majority. It must not mend what is meant to end.
void tst_Quorum::forcedAtOneAfterAnother()
{
    StillRegistry registry(m_set.url());
    TestLock lock(&registry, u"a"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    QVERIFY(eventually([&] { return engineOf(registry)->canBeWoken(idOf(u"a"_s)); }));
    const QList<QByteArray> token = m_set.server(0).get(Key).split(':');
    for (int i = 0; i < 3 && lock.isHeld(); ++i) {
        const QSignalSpy renewed(&lock, &DistributedLock::renewed);
        EVENTUALLY_VERIFY(m_set.server(i).subscriberCount(Protocol::Channels + token.at(0)) == 1);
        m_set.server(i).command({"DEL", Key});
        m_set.server(i).command({"PUBLISH", Protocol::Channels + token.at(0), "force " + token.at(1)});
        QVERIFY(eventually([&] { return renewed.size() > 0 || !lock.isHeld(); }));
        QVERIFY(passThrough(&registry, m_set));
    }
    QCOMPARE(lock.spies.lost.size(), 1);
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_Quorum::stolenAtAMajority()
{
    StillRegistry registry(m_set.url());
    TestLock lock(&registry, u"a"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    m_set.server(0).command({"SET", Key, "theirs", "PX", ForeignLease});
    m_set.server(1).command({"SET", Key, "theirs", "PX", ForeignLease});
    QVERIFY(!renewNow(&lock, registry));
    QCOMPARE(lock.spies.lost.size(), 1);
    QCOMPARE(lock.spies.reason(), DistributedLock::Stolen);
    QCOMPARE(m_set.server(0).get(Key), QByteArray("theirs"));
}

void tst_Quorum::majoritysHolderIsShown()
{
    for (int other = 0; other < 3; ++other) { // one of them is the arbiter
        m_set.flushAll();
        LockRegistry registry(m_set.directUrl());
        TestLock lock(&registry, u"a"_s);
        QVERIFY(acquireNow(&lock));
        EVENTUALLY_COMPARE(m_set.count(Key), 3);
        m_set.server(other).command({"SET", Key, "theirs", "PX", ForeignLease});
        m_set.server(other).command({"SET", "lock:b", "theirs", "PX", ForeignLease}); // held by nobody
        const auto info = awaited(registry.inspect(u"a"_s));
        QVERIFY(info.held);
        QVERIFY(!info.foreign);
        QCOMPARE(info.holder.id.toLatin1(), engineOf(registry)->clientId());
        QCOMPARE(info.fencingToken, lock.fencingToken());
        QCOMPARE(info.holder.pid, QCoreApplication::applicationPid());
        const auto list = awaited(registry.list(u"*"_s));
        QCOMPARE(list.value.size(), 1);
        QCOMPARE(list.value.first().name, u"a"_s);
        QCOMPARE(list.value.first().holder.id, info.holder.id);
    }
}

// A reader has no lease, so it does not know which servers were started too lately to be the arbiter.
void tst_Quorum::queueIsShownToWhoKnowsNoArbiter()
{
    Started<RedisSet> set(3);
    FakeClock clock;
    LockRegistry registry(set.url(false));
    LockRegistry other(set.url(false));
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    LockRegistryPrivate::get(&other)->setClock(&clock);
    TestLock lock(&registry, u"a"_s, options(1h));
    TestLock waiter(&other, u"a"_s, options(1h));
    QVERIFY(eventually([&] { return areTooYoung(&lock); }));
    QVERIFY(eventually([&] { return areTooYoung(&waiter); }));
    clock.advance(2h);
    LockRegistryPrivate::get(&other)->watchdog()->wake(); // its timer counts real time
    lock.acquire();
    QVERIFY(eventually([&] {
        clock.advance(1ms); // until another attempt, if a reply was late
        return lock.isHeld();
    }));
    QVERIFY(set.restartEmpty(arbiterOf(registry)));
    waiter.acquire();
    QVERIFY(eventually([&] {
        clock.advance(1ms); // it may try before it notices the restart
        return waiter.queuePosition() == 0;
    }));
    LockRegistry reader(set.url(false));
    const auto queue = awaited(reader.waiters(u"a"_s));
    QCOMPARE(queue.value.size(), 1);
    QCOMPARE(queue.value.first().client.id.toLatin1(), engineOf(other)->clientId());
    const auto info = awaited(reader.inspect(u"a"_s));
    QCOMPARE(info.queueLength, 1);
}

void tst_Quorum::cancelLeavesNothing()
{
    LockRegistry registry(m_set.directUrl());
    TestLock lock(&registry, u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return engineOf(registry)->canBeWoken(idOf(u"a"_s)); }));
    QList<DistributedLock *> waiters;
    for (int i = 0; i < 5; ++i) {
        waiters.append(new DistributedLock(&registry, u"a"_s, this));
        waiters.last()->setOptions(options());
        waiters.last()->acquire();
        QVERIFY(eventually([&] { return waiters.last()->queuePosition() == i; }));
    }
    waiters[2]->cancel();
    delete waiters.takeAt(1);
    lock.release();
    QVERIFY(eventually([&] { return waiters[0]->isHeld(); }));
    qDeleteAll(waiters);
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
    // While the servers are asked.
    for (int turns = 0; turns < 6; ++turns) {
        TestLock early(&registry, u"a"_s);
        early.acquire();
        for (int i = 0; i < turns; ++i)
            processEvents();
        early.cancel();
    }
    QVERIFY(passThrough(&registry, m_set)); // until then a vote may be on its way, with its cancel behind it
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

// A token is given up, and gets a vote again. The reply to the command that gave it up asks for a repetition.
void tst_Quorum::nothingCancelsTheNextVote()
{
    QFETCH(int, repeatedAfter);
    RedisServer &server = m_set.server(0);
    FaultProxy &proxy = m_set.proxy(0);
    QString error;
    const auto url = QtRedis::ServerUrl::parse(QUrl(u"redis://127.0.0.1:%1"_s.arg(proxy.port())), &error);
    QVERIFY2(url, qPrintable(error));
    TokenGenerator tokens;
    RedisNode node(*url, LeaseClock::system(), tokens.clientId(), {[] { return false; }, [] { return -1; }});
    node.setIndex(0);
    node.open();
    RedisLane &lane = node.lane();
    QVERIFY(eventually([&] { return lane.isReady(); }));
    QList<EngineReply> replies;
    const auto completion = [&](const EngineReply &reply) { replies.append(reply); };
    const QByteArray token = tokens.makeToken();
    LockEngine::Acquire operation{idOf(u"a"_s), token, 1h};
    operation.barge = true;
    server.command({"SCRIPT", "FLUSH"});
    if (repeatedAfter != UnknownScript)
        server.command({"SCRIPT", "LOAD", Scripts::acquire.text});

    proxy.setRepliesHeld(true);
    const auto scripts = [&server] { return server.commandsProcessed("evalsha") + server.commandsProcessed("eval"); };
    const qint64 former = scripts();
    if (repeatedAfter == DeadWaiters) {
        QList<QByteArray> add{"ZADD", "{lock:a}:queue"};
        for (int i = 1; i <= 1200; ++i)
            add << "0"
                << "0000000000000000:" + QByteArray::number(i) + ":00";
        QCOMPARE(server.command(add).toInt(), 1200);
        lane.abandon(operation.lock, token, 1h, 0ms, 1h);
    } else if (repeatedAfter == ForbiddenKey) { // of another lock in the same command
        proxy.answer("-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", "EVAL");
        lane.abandon(operation.lock, token, 1h, 0ms, 1h);
        lane.abandon(idOf(u"other"_s), tokens.makeToken(), 1h, 0ms, 1h);
    } else { // another client makes it known
        lane.returnToQueue(operation, completion);
        sendNow();
        EVENTUALLY_VERIFY(scripts() > former);
        server.command({"SCRIPT", "LOAD", Scripts::acquire.text});
    }
    const qsizetype before = repeatedAfter == UnknownScript ? 1 : 0;
    lane.vote(operation, 0, completion);
    EVENTUALLY_COMPARE(server.get(Key), token);
    proxy.setRepliesHeld(false);
    QVERIFY(eventually([&] { return replies.size() == before + 1; }));
    QCOMPARE(replies.last().status, EngineReply::Granted);
    lane.renew(operation.lock, token, 1h, completion); // behind whatever was repeated
    QVERIFY(eventually([&] { return replies.size() == before + 2; }));
    QCOMPARE(replies.last().status, EngineReply::Done);
}

void tst_Quorum::endOfTheRegistryLeavesNothing()
{
    {
        LockRegistry registry(m_set.url());
        std::vector<std::unique_ptr<DistributedLock>> locks;
        for (int i = 0; i < 100; ++i) {
            locks.push_back(std::make_unique<TestLock>(&registry, QString::number(i / 2)));
            locks.back()->acquire();
        }
        const auto held = [&] {
            return std::count_if(locks.cbegin(), locks.cend(), [](const auto &lock) { return lock->isHeld(); });
        };
        QVERIFY(eventually([&] { return held() == 50; }));
    }
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

// A majority has confirmed the release. The last server asks for the script, and nobody is left to send it.
void tst_Quorum::endOfTheRegistryBeforeTheLastReply()
{
    auto registry = std::make_unique<LockRegistry>(m_set.url());
    auto lock = std::make_unique<TestLock>(registry.get(), u"a"_s, options(1h));
    QVERIFY(acquireNow(lock.get()));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    const int late = (arbiterOf(*registry) + 1) % 3;
    QCOMPARE(m_set.server(late).command({"SCRIPT", "FLUSH"}).toByteArray(), QByteArray("OK"));
    m_set.proxy(late).setRepliesHeld(true);
    QVERIFY(releaseNow(lock.get()));
    lock.reset();
    registry.reset();
    m_set.proxy(late).setRepliesHeld(false);
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

// So many renewals are due that they take several turns of the event loop, and then a lock is released.
void tst_Quorum::minHoldAfterALateRenewal()
{
    StillRegistry registry(m_set.url());
    std::vector<std::unique_ptr<DistributedLock>> others;
    for (int i = 0; i < 500; ++i) {
        others.push_back(std::make_unique<TestLock>(&registry, QString::number(i), options(1h)));
        others.back()->acquire();
    }
    TestLock lock(&registry, u"a"_s, options(1h).withMinHold(50min));
    QVERIFY(acquireNow(&lock));
    for (const auto &other : others) // a request that still runs when the clock moves has timed out
        EVENTUALLY_VERIFY(other->isHeld());
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    QVERIFY(renewNow(&lock, registry));
    registry.pass(21min);
    QSignalSpy renewed(others.back().get(), &DistributedLock::renewed);
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return renewed.size() > 0; }));
    QVERIFY(passThrough(&registry, m_set));
    for (int i = 0; i < 3; ++i)
        QVERIFY(m_set.server(i).pttl(Key) <= 540'000);
}

// A server that does not know the script of the renewal must not execute it after the release.
void tst_Quorum::minHoldAfterAnUnknownScript()
{
    StillRegistry registry(m_set.url());
    TestLock lock(&registry, u"a"_s, options(1h).withMinHold(50min));
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    for (int i = 0; i < 3; ++i)
        m_set.server(i).command({"SCRIPT", "FLUSH"});
    QVERIFY(loadScripts()); // all but that of the renewal
    registry.pass(21min);
    QVERIFY(releaseNow(&lock));
    QVERIFY(passThrough(&registry, m_set));
    for (int i = 0; i < 3; ++i)
        QVERIFY(m_set.server(i).pttl(Key) <= 1'740'000);
}

void tst_Quorum::foreignClientExcludesUs()
{
    QVERIFY(foreignAcquire("theirs"));
    StillRegistry registry(m_set.directUrl());
    DistributedLock early(&registry, u"b"_s);
    QVERIFY(acquireNow(&early));
    TestLock lock(&registry, u"a"_s);
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
    QCOMPARE(m_set.values(Key), (QList<QByteArray>{"theirs", "theirs", "theirs"}));
}

void tst_Quorum::weExcludeForeignClient()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    QVERIFY(!foreignAcquire("theirs"));
    foreignRelease("theirs");
    QCOMPARE(m_set.count(Key), 3);
    QVERIFY(releaseNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 0);
    QVERIFY(foreignAcquire("theirs"));
}

void tst_Quorum::foreignMinorityDoesNot()
{
    for (int i = 0; i < 3; ++i) {
        m_set.flushAll();
        m_set.server(i).command({"SET", Key, "theirs", "NX", "PX", ForeignLease});
        LockRegistry registry(m_set.url());
        TestLock lock(&registry, u"a"_s);
        lock.acquire();
        const bool isArbiter = eventually([&] { return registry.state() == LockRegistry::Ready; })
                && arbiterOf(registry) == i;
        if (isArbiter) // whoever holds it there is waited for
            m_set.server(i).command({"DEL", Key});
        QVERIFY(eventually([&] { return lock.isHeld(); }));
        QCOMPARE(m_set.values(Key).at(i) == "theirs", !isArbiter);
    }
}

void tst_Quorum::foreignClientsContend()
{
    QFETCH(int, way);
    const int turns = countFrom("QDISTLOCK_FOREIGN_TURNS", 40); // of each side
    LockRegistry registry(m_set.directUrl());
    LockRegistry other(m_set.directUrl());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    bool isTheirs = false;
    int ours = 0;
    int theirs = 0;
    int overlaps = 0;
    for (int i = 0; i < 4; ++i) {
        locks.push_back(std::make_unique<TestLock>(i % 2 == 0 ? &registry : &other, u"a"_s,
                                                   options(30s, LockOptions::Forever)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquired, lock, [&, lock] {
            overlaps += isTheirs ? 1 : 0;
            ++ours;
            QTimer::singleShot(2ms, lock, &DistributedLock::release);
        });
        connect(lock, &DistributedLock::released, lock,
                [&, lock] { QTimer::singleShot(2ms, lock, &DistributedLock::acquire); });
        lock->acquire();
    }
    QTimer foreign;
    QByteArray token;
    connect(&foreign, &QTimer::timeout, this, [&] {
        if (std::exchange(isTheirs, false)) {
            foreignRelease(token);
            return;
        }
        token = "theirs " + QByteArray::number(theirs);
        isTheirs = foreignAcquire(token, ForeignWay(way));
        if (!isTheirs)
            return;
        ++theirs;
        for (const auto &lock : locks)
            overlaps += lock->isHeld() ? 1 : 0;
    });
    foreign.start(1ms);
    QVERIFY2(eventually([&] { return ours >= turns && theirs >= turns; }, 120s + turns * 100ms),
             qPrintable(u"%1 ours, %2 theirs"_s.arg(ours).arg(theirs)));
    foreign.stop();
    foreignRelease(token);
    qInfo("%d turns of ours, %d of theirs, %d overlaps", ours, theirs, overlaps);
    QCOMPARE(overlaps, 0);
}

void tst_Quorum::waiterOutlivesForeignHolder()
{
    // At a majority without the arbiter, where the waiter keeps its place.
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return engineOf(*registry())->canBeWoken(idOf(u"a"_s)); }));
    const int arbiter = arbiterOf(*registry());
    EVENTUALLY_COMPARE(m_set.count(Key), 0);
    for (int i = 0; i < 3; ++i) {
        if (i != arbiter)
            m_set.server(i).command({"SET", Key, "theirs", "NX", "PX", ForeignLease});
    }
    Spies spies(&lock);
    lock.acquire();
    EVENTUALLY_VERIFY(m_set.server(arbiter).exists("{lock:a}:queue"));
    const qint64 asked = m_set.server(arbiter).commandsProcessed("evalsha");
    EVENTUALLY_VERIFY(m_set.server(arbiter).commandsProcessed("evalsha") > asked + 10); // it asks again and again
    QVERIFY(!lock.isHeld());
    EVENTUALLY_VERIFY(!m_set.server(arbiter).exists(Key)); // and gives the vote back each time
    foreignRelease("theirs");
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    QCOMPARE(spies.failed.size(), 0);
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
}

// The holder has lost the arbiter. It gets it again, although others wait there and always get its vote.
void tst_Quorum::waitersDoNotKeepTheArbiterFromItsHolder()
{
    StillRegistry registry(m_set.url());
    LockRegistry other(m_set.url());
    TestLock holder(&registry, u"a"_s, options(1h));
    QVERIFY(acquireNow(&holder));
    EVENTUALLY_COMPARE(m_set.count(Key), 3);
    QVERIFY(eventually([&] { return engineOf(registry)->canBeWoken(idOf(u"a"_s)); }));
    std::vector<std::unique_ptr<DistributedLock>> waiters;
    QList<int> order;
    for (int i = 0; i < 3; ++i) {
        waiters.push_back(std::make_unique<TestLock>(&other, u"a"_s));
        DistributedLock *const waiter = waiters.back().get();
        connect(waiter, &DistributedLock::acquired, this, [&order, waiter, i] {
            order.append(i);
            waiter->release();
        });
        waiter->acquire();
        QVERIFY(eventually([&] { return waiter->queuePosition() == i; }));
    }
    RedisServer &arbiter = m_set.server(arbiterOf(registry));
    const QByteArray token = arbiter.get(Key);
    const QList<QByteArray> first =
            arbiter.command({"ZRANGE", "{lock:a}:queue", "0", "0"}).toList().value(0).toByteArray().split(':');
    QCOMPARE(first.size(), 3);
    const qint64 asked = arbiter.commandsProcessed("evalsha");
    arbiter.command({"DEL", Key});
    arbiter.command({"PUBLISH", Protocol::Channels + first[0], "next " + first[1] + " 1"});
    EVENTUALLY_VERIFY(arbiter.commandsProcessed("evalsha") > asked + 5); // the waiter tries again and again
    QVERIFY(eventually([&] { return renewNow(&holder, registry) && arbiter.get(Key) == token; }));
    for (int i = 0; i < 3; ++i) {
        QVERIFY(renewNow(&holder, registry));
        QCOMPARE(arbiter.get(Key), token);
    }
    QVERIFY(holder.spies.lost.isEmpty());
    QVERIFY(order.isEmpty());
    holder.release();
    QVERIFY(eventually([&] { return order.size() == 3; }));
    QCOMPARE(order, (QList<int>{0, 1, 2}));
    EVENTUALLY_COMPARE(m_set.lockKeys(), QList<QByteArray>());
}

// A server that is late is not waited for, unless there is no majority without it.
void tst_Quorum::slowServersAreWaitedFor()
{
    LockRegistry other(m_set.url());
    TestLock lock(registry(), u"a"_s); // a reply is late after 500 ms
    TestLock waiter(&other, u"a"_s);
    for (int i = 0; i < 3; ++i)
        m_set.proxy(i).setLatency(0ms, 550ms);
    const auto info = other.inspect(u"a"_s); // connects meanwhile
    lock.acquire();
    QVERIFY2(eventually([&] { return lock.isHeld(); }), qPrintable(lock.errorString()));
    QVERIFY(eventually([&] { return info.isFinished(); }));
    QVERIFY(joinQueue(&waiter));
    lock.release();
    QVERIFY2(eventually([&] { return waiter.isHeld(); }), qPrintable(waiter.errorString()));
}

// The refusal is read after the limit, and no other server can be asked.
void tst_Quorum::arbiterRefusesWhenItsTimeIsUp()
{
    TestLock lock(registry(), u"a"_s); // a reply is late after 500 ms
    QVERIFY(acquireNow(&lock));
    const int arbiter = arbiterOf(*registry());
    QVERIFY(releaseNow(&lock));
    EVENTUALLY_COMPARE(m_set.count(Key), 0);
    Spies spies(&lock);
    FaultProxy &proxy = m_set.proxy(arbiter);
    const int faults = proxy.faultsDone();
    proxy.setRepliesHeld(true);
    proxy.answer("-LOADING Redis is loading the dataset in memory\r\n", "EVALSHA");
    QElapsedTimer time;
    time.start();
    lock.acquire();
    sendNow();
    QVERIFY(proxy.waitForFaults(faults + 1));
    for (int i = 0; i < 3; ++i) {
        if (i == arbiter)
            continue;
        m_set.proxy(i).setRefusing(true);
        m_set.proxy(i).closeAll();
    }
    QVERIFY(eventually([&] { return engineOf(*registry())->state() != LockEngine::Ready; }));
    proxy.setRepliesHeld(false);
    while (time.elapsed() < 600) { // the event loop does not run
    }
    QVERIFY(eventually([&] { return spies.errors.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::QuorumError);
    QVERIFY(m_set.heal());
    QVERIFY(eventually([&] { return lock.isHeld(); }));
}

void tst_Quorum::sameServerTwice()
{
    LogCapture log;
    LockRegistry registry(RedisSet::urlOf({m_set.server(0).port(), m_set.proxy(1).port(), m_set.proxy(0).port()}));
    TestLock lock(&registry, u"a"_s);
    m_set.proxy(1).setHeld(true); // no majority before the two are known to be the same
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY2(lock.errorString().contains(u"are the same server"_s), qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(QString::number(m_set.server(0).port())));
    QVERIFY(lock.errorString().contains(QString::number(m_set.proxy(0).port())));
    QCOMPARE(m_set.lockKeys(), QList<QByteArray>());
}

void tst_Quorum::nodeOfACluster()
{
    RedisServer::Options serverOptions = RedisServer::Options::withTcp();
    serverOptions.config = {"cluster-enabled yes"};
    Started<RedisServer> clusterNode(serverOptions);
    LockRegistry registry(RedisSet::urlOf({clusterNode.port(), m_set.proxy(1).port(), m_set.proxy(2).port()}));
    TestLock lock(&registry, u"a"_s);
    m_set.proxy(1).setHeld(true); // no majority before the third one is known
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY2(lock.errorString().contains(u"is a node of a Redis Cluster"_s), qPrintable(lock.errorString()));
}

// A server that was restarted without its data must not help another client to a majority.
void tst_Quorum::youngServersHaveNoVote()
{
    StillRegistry registry(m_set.url(false));
    TestLock lock(&registry, u"a"_s, options(1h));
    QVERIFY(eventually([&] { return areTooYoung(&lock); }));
    QCOMPARE(lock.error(), DistributedLock::QuorumError);
    QVERIFY2(lock.errorString().contains(u"0 of 3 servers of the quorum have a vote, but 2 are needed"_s),
             qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(u"persistent=1"_s));
    QCOMPARE(m_set.lockKeys(), QList<QByteArray>());
    registry.advance(50min); // the servers may be up for some minutes
    QVERIFY(areTooYoung(&lock));
    // A shorter lease needs less.
    TestLock shortLock(&registry, u"b"_s, options(49min));
    QVERIFY(acquireNow(&shortLock));
    QVERIFY(areTooYoung(&lock));
    QCOMPARE(lock.spies.acquired.size(), 0);
    registry.advance(11min);
    QVERIFY(acquireNow(&lock));
}

// Redis shows the difference of two times that are cut to seconds. It may be 1 s a tenth of a second after the start.
void tst_Quorum::uptimeIsNotRoundedUp()
{
    RedisSet set(3);
    for (int i = 0; i < 3; ++i)
        set.clock(i).slowDown(1'000'000); // hardly advances
    QVERIFY2(set.start(), qPrintable(set.errorString()));
    for (int i = 0; i < 3; ++i) {
        set.clock(i).shift(1s);
        EVENTUALLY_COMPARE(set.server(i).info("server", "uptime_in_seconds"), QByteArray("1"));
    }
    FakeClock clock;
    LockRegistry registry(set.url(false));
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestLock lock(&registry, u"a"_s, options(10s));
    QVERIFY(eventually([&] { return areTooYoung(&lock); }));
    clock.advance(9200ms); // 10.1 s are needed, because the clocks may differ by 1 %
    QVERIFY(areTooYoung(&lock));
    clock.advance(1s);
    QVERIFY(acquireNow(&lock));
}

// A machine that has no time when it starts is set right later. Redis then shows a longer time than it is up.
void tst_Quorum::uptimeDoesNotGrowWithTheClock()
{
    FakeClock clock;
    LockRegistry registry(m_set.url(false));
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestLock lock(&registry, u"a"_s, options(1h));
    QVERIFY(eventually([&] { return areTooYoung(&lock); }));
    for (int i = 0; i < 3; ++i) {
        m_set.clock(i).shift(24h);
        m_set.proxy(i).closeAll();
    }
    EVENTUALLY_VERIFY(m_set.server(0).info("server", "uptime_in_seconds").toInt() > 80'000);
    QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; })); // until it is needed
    QVERIFY(eventually([&] { return areTooYoung(&lock); }));
    QCOMPARE(lock.spies.acquired.size(), 0);
    clock.advance(61min);
    QVERIFY(acquireNow(&lock));
    for (int i = 0; i < 3; ++i)
        m_set.clock(i).shift(0ms);
}

void tst_Quorum::infoIsForbidden()
{
    m_set.server(0).command({"ACL", "SETUSER", "default", "-info"});
    m_set.server(1).command({"ACL", "SETUSER", "default", "-info"});
    StillRegistry registry(m_set.url());
    TestLock lock(&registry, u"a"_s, options(1h));
    QCOMPARE(failureNow(&lock), DistributedLock::PermissionError);
    QVERIFY2(lock.errorString().contains(u"servers of the quorum can be used, but 2 are needed"_s),
             qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(u"a quorum also needs +info"_s));
    // Allowed again: it is noticed without a new connection.
    m_set.server(0).command({"ACL", "SETUSER", "default", "+info"});
    QVERIFY(eventually([&] { return acquireNow(&lock); }));
    EVENTUALLY_COMPARE(m_set.count(Key), 2);
    m_set.server(1).command({"ACL", "SETUSER", "default", "+info"});
    // It has a vote, and gets the lock with a renewal.
    QVERIFY(eventually([&] { return renewNow(&lock, registry) && m_set.count(Key) == 3; }));
    m_set.proxy(2).setRefusing(true);
    m_set.proxy(2).closeAll();
    QVERIFY(renewNow(&lock, registry));
}

void tst_Quorum::wrongPassword()
{
    QUrl url = m_set.url();
    url.setPassword(u"c4n4ry"_s);
    LogCapture log;
    LockRegistry registry(url);
    TestLock lock(&registry, u"a"_s);
    QCOMPARE(failureNow(&lock), DistributedLock::AuthenticationError);
    QVERIFY(!lock.errorString().contains(u"c4n4ry"_s));
    QVERIFY(!log.text().contains(u"c4n4ry"_s));
}

void tst_Quorum::minReplicasIsRefused()
{
    DistributedLock lock(registry(), u"a"_s);
    LockOptions unsupported = options();
    unsupported.minReplicas = 1;
    lock.setOptions(unsupported);
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::OptionsError);
}

// Those of docs/acl.txt.
void tst_Quorum::leastRights()
{
    const QByteArrayList rule = QByteArrayList{"ACL", "SETUSER", "lockapp"} + aclRule("lockapp", "c4n4ry");
    for (int i = 0; i < 3; ++i) {
        QCOMPARE(m_set.server(i).command(rule).toByteArray(), QByteArray("OK"));
        m_set.server(i).command({"ACL", "LOG", "RESET"});
    }
    QUrl url = m_set.url();
    url.setUserName(u"lockapp"_s);
    url.setPassword(u"c4n4ry"_s);
    StillRegistry registry(url);
    LockRegistry other(url);
    TestLock lock(&registry, u"a"_s, options(1h));
    TestLock waiter(&other, u"a"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    QVERIFY(joinQueue(&waiter));
    QVERIFY(renewNow(&lock, registry));
    QVERIFY(renewNow(&lock, registry));
    auto info = other.inspect(u"a"_s);
    QVERIFY(eventually([&] { return info.isFinished() && info.result().held; }));
    lock.release();
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    const int arbiter = arbiterOf(registry);
    QVERIFY(releaseNow(&waiter));
    // They are raised, too.
    m_set.server((arbiter + 1) % 3).command({"SET", "{lock:a}:fence", "5000000000000000"});
    m_set.server((arbiter + 2) % 3).command({"SET", "{lock:a}:fence", "6000000000000000"});
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > 5'000'000'000'000'000);
    for (int i = 0; i < 3; ++i) {
        QCOMPARE(m_set.server(i).command({"ACL", "LOG"}).toList().size(), 0);
        m_set.server(i).command({"ACL", "DELUSER", "lockapp"});
    }
}

void tst_Quorum::tls()
{
    Certificates certificates;
    std::vector<std::unique_ptr<RedisServer>> servers;
    QString url;
    for (int i = 0; i < 3; ++i) {
        servers.push_back(std::make_unique<RedisServer>(RedisServer::Options::withTls(certificates)));
        QVERIFY(servers.back()->start());
        url += (i == 0           ? u"redlocks://"_s
                        : i == 1 ? u"?node="_s
                                 : u"&node="_s)
                + u"localhost:%1"_s.arg(servers.back()->tlsPort());
    }
    LockRegistry registry(QUrl(url + u"&persistent=1&ca="_s + certificates.ca()));
    TestLock lock(&registry, u"a"_s);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    for (const auto &server : servers)
        EVENTUALLY_VERIFY(server->exists(Key));
    lock.release();
    for (const auto &server : servers)
        EVENTUALLY_VERIFY(!server->exists(Key));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Quorum)
#include "tst_quorum.moc"
