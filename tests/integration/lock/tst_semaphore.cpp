// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Semaphores through the public classes, beside exclusive locks, readers and a foreign client.

#include "support/locktest.h"

#include "lock/distributedlock_p.h"
#include "support/fakeclock.h"
#include "support/faultproxy.h"

#include <QDistLock/ReadWriteLock>
#include <QDistLock/ScopedLock>
#include <QDistLock/Semaphore>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

using QDistLock::LockAddress;
using QDistLock::LockReply;
using QDistLock::ScopedLock;
using QDistLock::Semaphore;

namespace {

LockOptions taking(int take, int permits = 5)
{
    return options().withPermits(permits).withTake(take);
}

LockOptions reading()
{
    return options().withMode(LockOptions::Shared);
}

/// A semaphore with the options of a test, and all that it has emitted.
struct TestSemaphore : Semaphore
{
    TestSemaphore(LockRegistry *registry, const QString &name, const LockOptions &options)
        : Semaphore(registry, name, options.permits)
    {
        setOptions(options);
    }

    Spies spies{this};
};

LockResult acquireWith(DistributedLock *lock, const LockOptions &options)
{
    lock->setOptions(options);
    return awaited(lock->acquireAsync());
}

/// Holders of one permit each.
std::vector<std::unique_ptr<TestLock>> holders(LockRegistry *registry, const QString &name, int count, int permits = 5)
{
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < count; ++i) {
        locks.push_back(std::make_unique<TestLock>(registry, name, taking(1, permits)));
        if (!acquireNow(locks.back().get()))
            return {};
    }
    return locks;
}

} // namespace

class tst_Semaphore : public RedisAndMemoryTest
{
    Q_OBJECT
private Q_SLOTS:
    void fiveOfSix();
    void takesAreNotOvertaken();
    void unfairOnesOvertake();
    void oneReleaseServesSeveral();
    void manyWaiters();
    void deadHolder();
    void nestedAcquiresTakeNone();
    void otherNumber();
    void takeIsTooMuch();
    void numbersThatAreNone();
    void serverPermits();
    void morePermits();
    void fewerPermits();
    void fewerPermitsThanAWaiterTakes();
    void setPermitsIsRefused();
    void exclusiveHolder();
    void numberIsSetByAWaiter();
    void readersAndPermitsExclude();
    void readersAndPermitsInOneQueue();
    void foreignHolder();
    void keysOfASemaphore();
    void watchdogRenewsAllPermits();
    void oneLossLeavesTheOthers();
    void forcedRelease();
    void minHold();
    void detached();
    void inspection();
    void errorNamesAHolder();
    void fencingTokens();
    void slotsAreTheLowestFree();
    void slotIsToldWithTheHold();
    void slotsAreHandedOver();
    void slotsOfSeveralPermits();
    void slotsAreRenewed();
    void slotOfADeadHolder();
    void slotsBesideOtherHolders();
    void slotsOfFewerPermits();
    void slotsOf1024Permits();
    void slotIsKeptForMinHold();
    void lostGrantKeepsTheSlot();
    void available();
    void availableWithoutAnswer();
    void destroyedInASlot();
    void upgradesAreRefused();
    void properties();
    void defaultsOfARegistry();
    void scopes();
    void scopesOfOtherKinds();
    void readWriteLocksHaveNoPermits();
    void otherServers();

private:
    /// So that waiters do not poll, and get the lock only if they are notified.
    void stopTheClockOf(std::initializer_list<LockRegistry *> registries)
    {
        for (LockRegistry *const of : registries)
            LockRegistryPrivate::get(of)->setClock(&m_clock);
    }
    QDistLock::LockInfo info(const QString &name) { return awaited(registry()->inspect(name)); }

    FakeClock m_clock;
};

void tst_Semaphore::fiveOfSix()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    std::vector<std::unique_ptr<TestSemaphore>> semaphores;
    for (int i = 0; i < 6; ++i)
        semaphores.push_back(std::make_unique<TestSemaphore>(i % 2 ? registry() : &other, u"a"_s, taking(1)));
    TestSemaphore &sixth = *semaphores.back();
    for (int i = 0; i < 5; ++i)
        QVERIFY(acquireNow(semaphores[i].get()));
    QVERIFY(joinQueue(&sixth));
    QCOMPARE(info(u"a"_s).permitsTaken, 5);
    QVERIFY(releaseNow(semaphores[2].get()));
    QVERIFY(eventually([&] { return sixth.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 5);
    for (const int i : {0, 1, 3, 4, 5})
        QVERIFY(releaseNow(semaphores[i].get()));
    QVERIFY(!info(u"a"_s).held);
    QVERIFY(all(semaphores, [](const auto &semaphore) { return semaphore->spies.lost.isEmpty(); }));
}

void tst_Semaphore::takesAreNotOvertaken()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    const auto held = holders(&other, u"a"_s, 4);
    TestSemaphore two(registry(), u"a"_s, taking(2)), one(registry(), u"a"_s, taking(1));
    QVERIFY(joinQueue(&two));
    QVERIFY(joinQueue(&one, 1)); // although one permit is free
    TestSemaphore once(&other, u"a"_s, taking(1).withWait(0ms));
    QCOMPARE(failureNow(&once), DistributedLock::BusyError);
    QVERIFY(!one.isHeld());
    QVERIFY(releaseNow(held.at(0).get()));
    QVERIFY(eventually([&] { return two.isHeld(); }));
    QVERIFY(!one.isHeld());
    QCOMPARE(info(u"a"_s).permitsTaken, 5);
    QVERIFY(releaseNow(&two));
    QVERIFY(eventually([&] { return one.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 4);
}

void tst_Semaphore::unfairOnesOvertake()
{
    LockRegistry other(serverUrl());
    const auto held = holders(&other, u"a"_s, 4);
    TestSemaphore two(registry(), u"a"_s, taking(2));
    QVERIFY(joinQueue(&two));
    TestSemaphore one(&other, u"a"_s, taking(1).withFair(false));
    QVERIFY(acquireNow(&one));
    TestSemaphore late(&other, u"a"_s, taking(1).withFair(false).withWait(0ms));
    QCOMPARE(failureNow(&late), DistributedLock::BusyError); // but five are five
    QVERIFY(releaseNow(&one));
    QVERIFY(releaseNow(held.at(0).get()));
    QVERIFY(eventually([&] { return two.isHeld(); }));
}

void tst_Semaphore::oneReleaseServesSeveral()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    TestSemaphore all(&other, u"a"_s, taking(5));
    QVERIFY(acquireNow(&all));
    TestSemaphore two(registry(), u"a"_s, taking(2)), one(registry(), u"a"_s, taking(1));
    TestSemaphore three(registry(), u"a"_s, taking(3)), last(registry(), u"a"_s, taking(1));
    int position = 0;
    for (TestSemaphore *const waiter : {&two, &one, &three, &last})
        QVERIFY(joinQueue(waiter, position++));
    QVERIFY(releaseNow(&all));
    QVERIFY(eventually([&] { return two.isHeld() && one.isHeld(); }));
    QVERIFY(eventually([&] { return three.queuePosition() == 0; }));
    QVERIFY(!last.isHeld());
    QVERIFY(releaseNow(&one));
    QVERIFY(eventually([&] { return three.isHeld(); }));
    QVERIFY(!last.isHeld());
    QVERIFY(releaseNow(&two));
    QVERIFY(eventually([&] { return last.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 4);
}

void tst_Semaphore::manyWaiters()
{
    // More than one call of a script serves.
    LockRegistry other(serverUrl());
    TestSemaphore all(&other, u"a"_s, taking(100, 100));
    QVERIFY(acquireNow(&all));
    std::vector<std::unique_ptr<TestSemaphore>> waiters;
    for (int i = 0; i < 150; ++i) {
        waiters.push_back(std::make_unique<TestSemaphore>(registry(), u"a"_s, taking(1, 100)));
        waiters.back()->acquire();
    }
    QVERIFY(eventually([&] { return waiters.back()->queuePosition() == 149; }));
    all.release();
    const auto count = [&] {
        return std::count_if(waiters.begin(), waiters.end(), [](const auto &waiter) { return waiter->isHeld(); });
    };
    QVERIFY(eventually([&] { return count() == 100; }));
    QCOMPARE(info(u"a"_s).permitsTaken, 100);
    QCOMPARE(count(), 100);
    QSet<int> slotsHeld;
    for (const auto &waiter : waiters) {
        if (waiter->isHeld())
            slotsHeld.insert(waiter->slot());
    }
    QCOMPARE(slotsHeld.size(), 100);
    QCOMPARE(*std::min_element(slotsHeld.cbegin(), slotsHeld.cend()), 0);
    QCOMPARE(*std::max_element(slotsHeld.cbegin(), slotsHeld.cend()), 99);
    for (const auto &waiter : waiters)
        waiter->release(); // those that wait give up
    QVERIFY(eventually([&] { return !info(u"a"_s).held; }));
}

void tst_Semaphore::deadHolder()
{
    FaultProxy proxy(m_server);
    const LockOptions shortLease = taking(2, 3).withLease(1s);
    TestSemaphore alive(registry(), u"a"_s, taking(1, 3)), waiter(registry(), u"a"_s, taking(2, 3));
    {
        LockRegistry dying(isMemory() ? serverUrl() : proxy.url());
        TestSemaphore dead(&dying, u"a"_s, shortLease);
        QVERIFY(acquireNow(&dead));
        QVERIFY(acquireNow(&alive));
        QCOMPARE(info(u"a"_s).permitsTaken, 3);
        QVERIFY(joinQueue(&waiter));
        const auto *const d = QDistLock::DistributedLockPrivate::get(&waiter);
        QVERIFY(d->machine.nextWakeUp() < d->now() + 2s); // at the end of the first lease, not of the last
        proxy.setBlackHole(true);
        if (isMemory())
            dead.detach(); // nobody renews it
    }
    QVERIFY(!waiter.isHeld());
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 3);
    QVERIFY(alive.isHeld());
    TestSemaphore fourth(registry(), u"a"_s, taking(1, 3).withWait(0ms));
    QCOMPARE(failureNow(&fourth), DistributedLock::BusyError);
    QVERIFY(releaseNow(&waiter));
    QVERIFY(releaseNow(&alive));
    QVERIFY(!info(u"a"_s).held);
}

void tst_Semaphore::nestedAcquiresTakeNone()
{
    TestSemaphore semaphore(registry(), u"a"_s, taking(2));
    QVERIFY(acquireNow(&semaphore));
    semaphore.setTake(3);
    for (int i = 0; i < 3; ++i)
        semaphore.acquire();
    QVERIFY(eventually([&] { return semaphore.holdCount() == 4; }));
    QCOMPARE(info(u"a"_s).permitsTaken, 2);
    for (int i = 0; i < 3; ++i)
        semaphore.release();
    QCOMPARE(info(u"a"_s).permitsTaken, 2);
    QVERIFY(semaphore.isHeld());
    QVERIFY(releaseNow(&semaphore));
    QVERIFY(!info(u"a"_s).held);
    QVERIFY(acquireNow(&semaphore));
    QCOMPARE(info(u"a"_s).permitsTaken, 3);
}

void tst_Semaphore::otherNumber()
{
    TestSemaphore first(registry(), u"a"_s, taking(1));
    for (const bool isHeld : {true, false}) {
        if (isHeld)
            QVERIFY(acquireNow(&first));
        TestSemaphore other(registry(), u"a"_s, taking(1, 6));
        QCOMPARE(failureNow(&other), DistributedLock::OptionsError);
        for (const QString &part : {u"\"a\""_s, u"permits is 6"_s, u"the server has 5"_s, u"ServerPermits"_s,
                                    u"LockRegistry::setPermits()"_s})
            QVERIFY2(other.errorString().contains(part), qPrintable(other.errorString()));
        const auto state = info(u"a"_s);
        QCOMPARE(state.permits, 5);
        QCOMPARE(state.permitsTaken, isHeld ? 1 : 0);
        QCOMPARE(state.queueLength, 0);
        if (isHeld)
            QVERIFY(releaseNow(&first));
    }
}

void tst_Semaphore::takeIsTooMuch()
{
    TestSemaphore greedy(registry(), u"a"_s, taking(6));
    QCOMPARE(failureNow(&greedy), DistributedLock::OptionsError);
    QVERIFY2(greedy.errorString().contains(u"take is 6, but permits is 5"_s), qPrintable(greedy.errorString()));
    QCOMPARE(info(u"a"_s).permits, 0); // nothing was sent
    TestSemaphore five(registry(), u"a"_s, taking(5));
    QVERIFY(acquireNow(&five));
    greedy.setPermits(LockOptions::ServerPermits);
    QCOMPARE(failureNow(&greedy), DistributedLock::OptionsError);
    QVERIFY2(greedy.errorString().contains(u"take is 6, but the server has 5 permits"_s),
             qPrintable(greedy.errorString()));
    QCOMPARE(info(u"a"_s).queueLength, 0);
}

void tst_Semaphore::numbersThatAreNone()
{
    for (const int permits : {0, -2, LockOptions::MaximumPermits + 1}) {
        TestSemaphore semaphore(registry(), u"a"_s, taking(1, permits));
        QCOMPARE(failureNow(&semaphore), DistributedLock::OptionsError);
        QVERIFY2(semaphore.errorString().contains(u"permits is %1; it must be from 1 to 10000"_s.arg(permits)),
                 qPrintable(semaphore.errorString()));
        QVERIFY(!info(u"a"_s).held);
    }
    // A semaphore does not become an exclusive lock because options forget the number.
    TestSemaphore semaphore(registry(), u"a"_s, taking(1));
    QCOMPARE(acquireWith(&semaphore, options()).error, DistributedLock::OptionsError);
    QVERIFY(acquireWith(&semaphore, taking(1)).isAcquired());
    semaphore.setPermits(0);
    QCOMPARE(awaited(semaphore.tryAcquireAsync()).error, DistributedLock::OptionsError);
    QCOMPARE(semaphore.holdCount(), 1);
}

void tst_Semaphore::serverPermits()
{
    TestSemaphore follower(registry(), u"a"_s, taking(2, LockOptions::ServerPermits));
    QCOMPARE(failureNow(&follower), DistributedLock::OptionsError);
    QVERIFY2(follower.errorString().contains(u"the server has no number"_s), qPrintable(follower.errorString()));
    QVERIFY(!info(u"a"_s).held);
    QCOMPARE(info(u"a"_s).queueLength, 0);
    QCOMPARE(awaited(registry()->setPermits(u"a"_s, 3)).value, 0);
    QVERIFY(acquireNow(&follower));
    TestSemaphore one(registry(), u"a"_s, taking(1, 3));
    QVERIFY(acquireNow(&one));
    QCOMPARE(info(u"a"_s).permitsTaken, 3);
    QCOMPARE(info(u"a"_s).permits, 3);
}

void tst_Semaphore::morePermits()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    const auto held = holders(&other, u"a"_s, 2, 2);
    std::vector<std::unique_ptr<TestLock>> waiters;
    for (int i = 0; i < 3; ++i) {
        waiters.push_back(std::make_unique<TestLock>(registry(), u"a"_s, taking(1, LockOptions::ServerPermits)));
        QVERIFY(joinQueue(waiters.back().get(), i));
    }
    QCOMPARE(awaited(registry()->setPermits(u"a"_s, 4)).value, 2);
    QVERIFY(eventually([&] { return waiters[0]->isHeld() && waiters[1]->isHeld(); }));
    QVERIFY(eventually([&] { return waiters[2]->queuePosition() == 0; }));
    QCOMPARE(info(u"a"_s).permitsTaken, 4);
    QCOMPARE(info(u"a"_s).permits, 4);
}

void tst_Semaphore::fewerPermits()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    const auto held = holders(&other, u"a"_s, 5);
    QCOMPARE(awaited(registry()->setPermits(u"a"_s, 3)).value, 5);
    TestSemaphore waiter(registry(), u"a"_s, taking(1, 3));
    QVERIFY(joinQueue(&waiter));
    QCOMPARE(info(u"a"_s).permitsTaken, 5);
    QCOMPARE(awaited(waiter.available()).value, 0);
    QVERIFY(releaseNow(held.at(0).get()));
    QVERIFY(releaseNow(held.at(1).get()));
    QCOMPARE(info(u"a"_s).permitsTaken, 3);
    QVERIFY(!waiter.isHeld());
    QVERIFY(releaseNow(held.at(2).get()));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QVERIFY(held.at(3)->isHeld() && held.at(4)->isHeld());
    QCOMPARE(info(u"a"_s).permitsTaken, 3);
}

void tst_Semaphore::fewerPermitsThanAWaiterTakes()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    const auto held = holders(&other, u"a"_s, 4, 4);
    TestSemaphore three(registry(), u"a"_s, taking(3, LockOptions::ServerPermits));
    TestSemaphore one(registry(), u"a"_s, taking(1, LockOptions::ServerPermits));
    QVERIFY(joinQueue(&three));
    QVERIFY(joinQueue(&one, 1));
    QCOMPARE(awaited(registry()->setPermits(u"a"_s, 2)).value, 4);
    QVERIFY(eventually([&] { return three.spies.failed.size() == 1; }));
    QCOMPARE(three.spies.failure(), DistributedLock::OptionsError);
    for (int i = 0; i < 3; ++i)
        QVERIFY(releaseNow(held.at(i).get()));
    QVERIFY(eventually([&] { return one.isHeld(); })); // it does not wait behind one that will never be served
}

void tst_Semaphore::setPermitsIsRefused()
{
    for (const int permits : {0, -1, LockOptions::MaximumPermits + 1}) {
        const LockReply<int> reply = awaited(registry()->setPermits(u"a"_s, permits));
        QCOMPARE(reply.error, DistributedLock::OptionsError);
        QVERIFY(reply.errorString.contains(u"\"a\": permits is %1"_s.arg(permits)));
    }
    QCOMPARE(info(u"a"_s).permits, 0);
    QCOMPARE(awaited(registry()->setPermits(u"a"_s, LockOptions::MaximumPermits)).error, DistributedLock::NoError);
    QCOMPARE(info(u"a"_s).permits, LockOptions::MaximumPermits);
}

void tst_Semaphore::exclusiveHolder()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    const auto held = holders(&other, u"a"_s, 2);
    TestLock exclusive(registry(), u"a"_s);
    TestSemaphore late(registry(), u"a"_s, taking(1));
    QVERIFY(joinQueue(&exclusive));
    QVERIFY(joinQueue(&late, 1)); // although permits are free
    QVERIFY(releaseNow(held.at(0).get()));
    QVERIFY(!exclusive.isHeld());
    QVERIFY(releaseNow(held.at(1).get()));
    QVERIFY(eventually([&] { return exclusive.isHeld(); }));
    QVERIFY(!late.isHeld());
    QCOMPARE(awaited(late.available()).value, 0);
    QVERIFY(releaseNow(&exclusive));
    QVERIFY(eventually([&] { return late.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 1);
}

void tst_Semaphore::numberIsSetByAWaiter()
{
    TestLock exclusive(registry(), u"a"_s);
    QVERIFY(acquireNow(&exclusive));
    TestSemaphore first(registry(), u"a"_s, taking(1)), other(registry(), u"a"_s, taking(1, 6));
    QVERIFY(joinQueue(&first));
    QCOMPARE(failureNow(&other), DistributedLock::OptionsError);
    const auto state = info(u"a"_s);
    QCOMPARE(state.permits, 5);
    QCOMPARE(state.permitsTaken, 5);
    QVERIFY(state.holders.isEmpty());
    QVERIFY(releaseNow(&exclusive));
    QVERIFY(eventually([&] { return first.isHeld(); }));
}

void tst_Semaphore::readersAndPermitsExclude()
{
    TestSemaphore semaphore(registry(), u"a"_s, taking(1));
    TestLock reader(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(&reader));
    QCOMPARE(failureNow(&semaphore), DistributedLock::OptionsError);
    QVERIFY2(semaphore.errorString().contains(u"held by readers"_s), qPrintable(semaphore.errorString()));
    QCOMPARE(info(u"a"_s).permits, 0);
    QCOMPARE(info(u"a"_s).queueLength, 0);
    QCOMPARE(info(u"a"_s).readerCount, 1);
    QVERIFY(releaseNow(&reader));

    QVERIFY(acquireNow(&semaphore));
    QCOMPARE(failureNow(&reader), DistributedLock::OptionsError);
    QVERIFY2(reader.errorString().contains(u"held by holders of permits"_s), qPrintable(reader.errorString()));
    QCOMPARE(info(u"a"_s).queueLength, 0);
    QCOMPARE(info(u"a"_s).permitsTaken, 1);
    QCOMPARE(info(u"a"_s).readerCount, 0);
    QVERIFY(semaphore.isHeld());
}

void tst_Semaphore::readersAndPermitsInOneQueue()
{
    // Both wait for an exclusive holder, and are never served together.
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    TestLock exclusive(&other, u"a"_s), reader(registry(), u"a"_s, reading());
    TestSemaphore semaphore(registry(), u"a"_s, taking(1));
    QVERIFY(acquireNow(&exclusive));
    QVERIFY(joinQueue(&reader));
    QVERIFY(joinQueue(&semaphore, 1));
    QVERIFY(releaseNow(&exclusive));
    QVERIFY(eventually([&] { return reader.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 0);
    QVERIFY(!semaphore.isHeld());
}

void tst_Semaphore::foreignHolder()
{
    SKIP_WITHOUT_SERVER();
    TestSemaphore semaphore(registry(), u"a"_s, taking(2));
    QVERIFY(acquireNow(&semaphore));
    QVERIFY(m_server.command({"SET", "lock:a", "foreign", "NX", "PX", "1000"}).isNull());
    QVERIFY(releaseNow(&semaphore));
    QCOMPARE(m_server.command({"SET", "lock:a", "foreign", "NX", "PX", "100000"}).toByteArray(), "OK");
    QVERIFY(joinQueue(&semaphore));
    m_server.command({"DEL", "lock:a"});
    QVERIFY(eventually([&] { return semaphore.isHeld(); }));
}

void tst_Semaphore::keysOfASemaphore()
{
    SKIP_WITHOUT_SERVER();
    auto held = holders(registry(), u"a"_s, 2);
    TestSemaphore two(registry(), u"a"_s, taking(2));
    QVERIFY(acquireNow(&two));
    QCOMPARE(m_server.command({"TYPE", "lock:a"}).toByteArray(), "zset");
    QCOMPARE(m_server.command({"ZCARD", "lock:a"}).toInt(), 4);
    QVERIFY(m_server.pttl("lock:a") > 0);
    QCOMPARE(m_server.get("{lock:a}:permits"), "5");
    QVERIFY(m_server.pttl("{lock:a}:permits") > 0);
    QCOMPARE(m_server.keys().size(), 3); // and that of the fencing token
    QVERIFY(releaseNow(&two));
    QCOMPARE(m_server.command({"ZCARD", "lock:a"}).toInt(), 2);
    for (const auto &lock : held)
        QVERIFY(releaseNow(lock.get()));
    QVERIFY(!m_server.exists("lock:a"));
}

void tst_Semaphore::watchdogRenewsAllPermits()
{
    FakeClock clock; // destroyed after the registry, whose destructor reads it
    LockRegistry renewing(serverUrl());
    LockRegistryPrivate::get(&renewing)->setClock(&clock);
    TestSemaphore three(&renewing, u"a"_s, taking(3).withLease(1h));
    TestSemaphore idle(&renewing, u"a"_s, taking(2).withLease(3h).withAutoRenew(false));
    QVERIFY(acquireNow(&three));
    QVERIFY(acquireNow(&idle));
    const auto ends = [&] {
        const QList<QVariant> reply = m_server.command({"ZRANGE", "lock:a", "0", "-1", "WITHSCORES"}).toList();
        QMap<QByteArray, double> scores;
        for (qsizetype i = 0; i + 1 < reply.size(); i += 2)
            scores.insert(reply.at(i).toByteArray(), reply.at(i + 1).toDouble());
        return scores;
    };
    if (!isMemory()) { // a renewal in the same millisecond would set the same end
        const QList<QByteArray> members = ends().keys();
        for (const QByteArray &member : members)
            m_server.command({"ZADD", "lock:a", "XX", "INCR", "-1000", member});
    }
    const QMap<QByteArray, double> before = isMemory() ? QMap<QByteArray, double>() : ends();
    clock.advance(50min);
    LockRegistryPrivate::get(&renewing)->watchdog()->wake();
    QVERIFY(eventually([&] { return three.spies.renewed.size() == 1; }));
    QVERIFY(three.remainingTime() > 55min);
    QCOMPARE(idle.spies.renewed.size(), 0);
    if (!isMemory()) {
        const QMap<QByteArray, double> after = ends();
        QCOMPARE(after.keys(), before.keys());
        int renewed = 0;
        for (auto it = after.cbegin(); it != after.cend(); ++it)
            renewed += it.value() > before.value(it.key()) ? 1 : 0;
        QCOMPARE(renewed, 3);
        return;
    }
    clock.advance(50min); // more than the first lease since the beginning
    QCOMPARE(awaited(renewing.inspect(u"a"_s)).permitsTaken, 5);
}

void tst_Semaphore::oneLossLeavesTheOthers()
{
    FakeClock clock;
    LockRegistry losing(serverUrl()), other(serverUrl());
    for (LockRegistry *const of : {&losing, &other})
        LockRegistryPrivate::get(of)->setClock(&clock);
    TestSemaphore lost(&losing, u"a"_s, taking(1).withLease(1h)), two(&other, u"a"_s, taking(2).withLease(1h));
    QVERIFY(acquireNow(&lost));
    QVERIFY(acquireNow(&two));
    const QByteArray token = QDistLock::DistributedLockPrivate::get(&lost)->waiter().token;
    if (isMemory())
        QCOMPARE(awaited(other.release(u"a"_s, token)).value, LockRegistry::Done);
    else
        QCOMPARE(m_server.command({"ZREM", "lock:a", token}).toInt(), 1);
    clock.advance(30min);
    LockRegistryPrivate::get(&losing)->watchdog()->wake();
    LockRegistryPrivate::get(&other)->watchdog()->wake();
    QVERIFY(eventually([&] { return lost.spies.lost.size() == 1 && two.spies.renewed.size() == 1; }));
    QCOMPARE(lost.spies.reason(), DistributedLock::Deleted);
    QVERIFY(two.isHeld());
    QCOMPARE(awaited(other.inspect(u"a"_s)).permitsTaken, 2);
}

void tst_Semaphore::forcedRelease()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    TestSemaphore first(registry(), u"a"_s, taking(2)), second(&other, u"a"_s, taking(3)),
            all(&other, u"a"_s, taking(5));
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&second));
    QVERIFY(joinQueue(&all));
    QCOMPARE(awaited(registry()->forceRelease(u"a"_s)).value, LockRegistry::Done);
    QVERIFY(eventually([&] { return first.spies.lost.size() == 1 && second.spies.lost.size() == 1; }));
    QCOMPARE(first.spies.reason(), DistributedLock::ForcedRelease);
    QCOMPARE(second.spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(eventually([&] { return all.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 5);
}

void tst_Semaphore::minHold()
{
    LockRegistry other(serverUrl());
    TestSemaphore kept(&other, u"a"_s, taking(3).withMinHold(500ms)), two(&other, u"a"_s, taking(2));
    QVERIFY(acquireNow(&two));
    QVERIFY(acquireNow(&kept));
    QElapsedTimer time;
    time.start();
    QVERIFY(releaseNow(&kept));
    TestSemaphore waiter(registry(), u"a"_s, taking(3));
    QVERIFY(acquireNow(&waiter));
    QVERIFY2(time.elapsed() > 300, qPrintable(QString::number(time.elapsed())));
    QVERIFY(two.isHeld());
}

void tst_Semaphore::detached()
{
    QByteArray token;
    {
        TestSemaphore semaphore(registry(), u"a"_s, taking(3));
        QVERIFY(acquireNow(&semaphore));
        token = semaphore.detach();
        QVERIFY(!token.isEmpty());
    }
    QCOMPARE(info(u"a"_s).permitsTaken, 3);
    QCOMPARE(awaited(registry()->renew(u"a"_s, token, 100s)).value, LockRegistry::Done);
    QVERIFY(info(u"a"_s).remaining > 60s);
    TestSemaphore waiter(registry(), u"a"_s, taking(3));
    QVERIFY(joinQueue(&waiter));
    QCOMPARE(awaited(registry()->release(u"a"_s, token)).value, LockRegistry::Done);
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QCOMPARE(info(u"a"_s).permitsTaken, 3);
    QCOMPARE(awaited(registry()->release(u"a"_s, token)).value, LockRegistry::NotHeld);
}

void tst_Semaphore::inspection()
{
    TestSemaphore two(registry(), u"a"_s, taking(2)), one(registry(), u"a"_s, taking(1));
    QVERIFY(acquireNow(&two));
    QVERIFY(acquireNow(&one));
    QVERIFY(acquireNow(std::make_unique<TestLock>(registry(), u"b"_s).get()));
    QDistLock::LockInfo state = info(u"a"_s);
    QVERIFY(state.held);
    QVERIFY(!state.foreign);
    QCOMPARE(state.permits, 5);
    QCOMPARE(state.permitsTaken, 3);
    QCOMPARE(state.readerCount, 0);
    QCOMPARE(state.holders.size(), 2);
    QCOMPARE(state.fencingToken, one.fencingToken());
    const auto listed = awaited(registry()->list(u"a"_s));
    QCOMPARE(listed.value.size(), 1);
    QCOMPARE(listed.value.first().permits, 5);
    QCOMPARE(listed.value.first().permitsTaken, 3);
    QCOMPARE(listed.value.first().holders.size(), 2);
    QVERIFY(releaseNow(&two));
    QVERIFY(releaseNow(&one));
    state = info(u"a"_s);
    QVERIFY(!state.held);
    QCOMPARE(state.permits, 5);
    QCOMPARE(state.permitsTaken, 0);
    QVERIFY(state.holders.isEmpty());
}

void tst_Semaphore::errorNamesAHolder()
{
    TestSemaphore first(registry(), u"a"_s, taking(3)), second(registry(), u"a"_s, taking(2));
    QVERIFY(acquireNow(&first));
    TestSemaphore busy(registry(), u"a"_s, taking(3).withWait(0ms));
    QCOMPARE(failureNow(&busy), DistributedLock::BusyError);
    QVERIFY2(busy.errorString().contains(u"(held by "_s), qPrintable(busy.errorString()));
    QVERIFY(acquireNow(&second));
    QCOMPARE(failureNow(&busy), DistributedLock::BusyError);
    QVERIFY2(busy.errorString().contains(u"held by 2 holders of permits, among them "_s),
             qPrintable(busy.errorString()));
}

void tst_Semaphore::fencingTokens()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    qint64 last = 0;
    const auto held = holders(registry(), u"a"_s, 5);
    QCOMPARE(held.size(), 5u);
    for (const auto &lock : held) {
        QVERIFY(lock->fencingToken() > last);
        last = lock->fencingToken();
    }
    TestSemaphore first(&other, u"a"_s, taking(1)), second(&other, u"a"_s, taking(1));
    QVERIFY(joinQueue(&first));
    QVERIFY(joinQueue(&second, 1));
    QVERIFY(releaseNow(held.at(0).get()));
    QVERIFY(releaseNow(held.at(1).get()));
    QVERIFY(eventually([&] { return first.isHeld() && second.isHeld(); }));
    QVERIFY(first.fencingToken() > last);
    QVERIFY(second.fencingToken() > last);
    QVERIFY(first.fencingToken() != second.fencingToken());
}

void tst_Semaphore::slotsAreTheLowestFree()
{
    LockRegistry other(serverUrl());
    TestSemaphore first(registry(), u"a"_s, taking(1)), second(&other, u"a"_s, taking(1)),
            third(registry(), u"a"_s, taking(1));
    const QSignalSpy changed(
            &second, second.metaObject()->property(second.metaObject()->indexOfProperty("slot")).notifySignal());
    QVERIFY(changed.isValid());
    QCOMPARE(first.slot(), -1);
    QVERIFY(first.heldSlots().isEmpty());
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&second));
    QVERIFY(acquireNow(&third));
    QCOMPARE(first.slot(), 0);
    QCOMPARE(second.property("slot").toInt(), 1);
    QCOMPARE(second.heldSlots(), QList<int>({1}));
    QCOMPARE(third.slot(), 2);
    QCOMPARE(changed.size(), 1);
    QVERIFY(acquireNow(&second)); // one more level
    QCOMPARE(second.slot(), 1);
    QVERIFY(releaseNow(&first));
    QCOMPARE(first.slot(), -1);
    TestSemaphore fourth(&other, u"a"_s, taking(1)), fifth(&other, u"a"_s, taking(1));
    QVERIFY(acquireNow(&fourth));
    QVERIFY(acquireNow(&fifth));
    QCOMPARE(fourth.slot(), 0);
    QCOMPARE(fifth.slot(), 3);
    second.release();
    QCOMPARE(second.slot(), 1); // one level is left
    QVERIFY(releaseNow(&second));
    QCOMPARE(second.slot(), -1);
    QCOMPARE(changed.size(), 2);
}

void tst_Semaphore::slotIsToldWithTheHold()
{
    TestSemaphore first(registry(), u"a"_s, taking(1)), second(registry(), u"a"_s, taking(1));
    QList<int> seen; // in turn, in the slots of the signals
    connect(&first, &Semaphore::acquired, this, [&] {
        seen << first.slot() << second.slot(); // whose reply has come, too
    });
    connect(&second, &Semaphore::acquired, this, [&] { seen << second.slot(); });
    connect(&second, &Semaphore::released, this, [&] { seen << second.slot(); });
    connect(&first, &Semaphore::lost, this, [&] { seen << first.slot(); });
    first.acquire();
    second.acquire();
    QVERIFY(eventually([&] { return second.isHeld(); }));
    QCOMPARE(seen, QList<int>({0, -1, 1}));
    QVERIFY(releaseNow(&second));
    QCOMPARE(awaited(registry()->forceRelease(u"a"_s)).value, LockRegistry::Done);
    QVERIFY(eventually([&] { return first.spies.lost.size() == 1; }));
    QCOMPARE(seen, QList<int>({0, -1, 1, -1, -1}));
}

void tst_Semaphore::slotsAreHandedOver()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    TestSemaphore first(registry(), u"a"_s, taking(1, 2)), second(registry(), u"a"_s, taking(1, 2));
    TestSemaphore third(&other, u"a"_s, taking(1, 2)), fourth(registry(), u"a"_s, taking(1, 2));
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&second));
    QVERIFY(joinQueue(&third));
    QVERIFY(joinQueue(&fourth, 1));
    QVERIFY(releaseNow(&second));
    QVERIFY(eventually([&] { return third.isHeld(); }));
    QCOMPARE(third.slot(), 1);
    QVERIFY(releaseNow(&first));
    QVERIFY(eventually([&] { return fourth.isHeld(); }));
    QCOMPARE(fourth.slot(), 0);

    // By the last holder, and by one that has the lock alone.
    TestSemaphore one(registry(), u"b"_s, taking(1, 1)), next(&other, u"b"_s, taking(1, 1));
    QVERIFY(acquireNow(&one));
    QVERIFY(joinQueue(&next));
    QVERIFY(releaseNow(&one));
    QVERIFY(eventually([&] { return next.isHeld(); }));
    QCOMPARE(next.slot(), 0);
    QVERIFY(releaseNow(&next));
    TestLock alone(&other, u"b"_s, options());
    QVERIFY(acquireNow(&alone));
    QVERIFY(joinQueue(&one));
    QVERIFY(releaseNow(&alone));
    QVERIFY(eventually([&] { return one.isHeld(); }));
    QCOMPARE(one.slot(), 0);
}

void tst_Semaphore::slotsOfSeveralPermits()
{
    LockRegistry other(serverUrl());
    stopTheClockOf({registry(), &other});
    TestSemaphore two(registry(), u"a"_s, taking(2)), one(&other, u"a"_s, taking(1)), three(&other, u"a"_s, taking(3)),
            four(registry(), u"a"_s, taking(4));
    QVERIFY(acquireNow(&two));
    QVERIFY(acquireNow(&one));
    QCOMPARE(two.heldSlots(), QList<int>({0, 1}));
    QCOMPARE(two.slot(), 0);
    QCOMPARE(one.slot(), 2);
    QVERIFY(joinQueue(&three));
    QVERIFY(releaseNow(&two));
    QVERIFY(eventually([&] { return three.isHeld(); }));
    QCOMPARE(three.heldSlots(), QList<int>({0, 1, 3}));
    QVERIFY(joinQueue(&four));
    QVERIFY(releaseNow(&three));
    QVERIFY(eventually([&] { return four.isHeld(); }));
    QCOMPARE(four.heldSlots(), QList<int>({0, 1, 3, 4}));
}

void tst_Semaphore::slotsAreRenewed()
{
    FakeClock clock;
    LockRegistry renewing(serverUrl());
    LockRegistryPrivate::get(&renewing)->setClock(&clock);
    TestSemaphore first(&renewing, u"a"_s, taking(1).withLease(1h)), two(&renewing, u"a"_s, taking(2).withLease(1h));
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&two));
    clock.advance(30min);
    LockRegistryPrivate::get(&renewing)->watchdog()->wake();
    QVERIFY(eventually([&] { return first.spies.renewed.size() == 1 && two.spies.renewed.size() == 1; }));
    TestSemaphore third(&renewing, u"a"_s, taking(1));
    QVERIFY(acquireNow(&third));
    QCOMPARE(third.slot(), 3);
    QVERIFY(releaseNow(&first));
    QVERIFY(acquireNow(&first));
    QCOMPARE(first.slot(), 0);
}

void tst_Semaphore::slotOfADeadHolder()
{
    FaultProxy proxy(m_server);
    TestSemaphore second(registry(), u"a"_s, taking(1, 2)), third(registry(), u"a"_s, taking(1, 2));
    {
        LockRegistry dying(isMemory() ? serverUrl() : proxy.url());
        TestSemaphore dead(&dying, u"a"_s, taking(1, 2).withLease(1s));
        QVERIFY(acquireNow(&dead));
        QVERIFY(acquireNow(&second));
        proxy.setBlackHole(true);
        if (isMemory())
            dead.detach(); // nobody renews it
    }
    QVERIFY(acquireNow(&third));
    QCOMPARE(third.slot(), 0);
    QCOMPARE(second.slot(), 1);
}

void tst_Semaphore::slotsBesideOtherHolders()
{
    // Who has permits in another way has no slots, but its permits count.
    LockRegistry other(serverUrl());
    const auto held = holders(&other, u"a"_s, 2, 3);
    TestSemaphore first(registry(), u"a"_s, taking(1, 3)), second(registry(), u"a"_s, taking(1, 3).withWait(0ms));
    QVERIFY(acquireNow(&first));
    QCOMPARE(first.slot(), 0);
    QCOMPARE(failureNow(&second), DistributedLock::BusyError);
    QVERIFY(releaseNow(held.at(0).get()));
    QVERIFY(acquireNow(&second));
    QCOMPARE(second.slot(), 1);
}

void tst_Semaphore::slotsOfFewerPermits()
{
    const LockOptions one = taking(1, LockOptions::ServerPermits);
    QVERIFY(awaited(registry()->setPermits(u"a"_s, 4)));
    std::vector<std::unique_ptr<TestSemaphore>> semaphores;
    for (int i = 0; i < 4; ++i) {
        semaphores.push_back(std::make_unique<TestSemaphore>(registry(), u"a"_s, one));
        QVERIFY(acquireNow(semaphores.back().get()));
        QCOMPARE(semaphores.back()->slot(), i);
    }
    QVERIFY(awaited(registry()->setPermits(u"a"_s, 2)));
    for (const int i : {0, 1, 2})
        QVERIFY(releaseNow(semaphores.at(i).get()));
    QVERIFY(acquireNow(semaphores.at(2).get()));
    QCOMPARE(semaphores.at(2)->slot(), 0);
    QCOMPARE(semaphores.at(3)->slot(), 3); // it keeps what it has
    QVERIFY(releaseNow(semaphores.at(3).get()));
    QVERIFY(acquireNow(semaphores.at(3).get()));
    QCOMPARE(semaphores.at(3)->slot(), 1);
}

void tst_Semaphore::slotsOf1024Permits()
{
    TestSemaphore most(registry(), u"a"_s, taking(1023, 1024)), last(registry(), u"a"_s, taking(1, 1024));
    QVERIFY(acquireNow(&most));
    QVERIFY(acquireNow(&last));
    QCOMPARE(most.heldSlots().size(), 1023);
    QCOMPARE(last.slot(), 1023);
    QVERIFY(releaseNow(&most));
    QVERIFY(acquireNow(&most));
    QCOMPARE(most.heldSlots().last(), 1022);

    // There are none if there are more permits, whoever says their number.
    TestSemaphore said(registry(), u"b"_s, taking(1, 1025));
    TestSemaphore two(registry(), u"b"_s, taking(2, LockOptions::ServerPermits));
    QVERIFY(acquireNow(&said));
    QVERIFY(acquireNow(&two));
    QCOMPARE(said.slot(), -1);
    QCOMPARE(two.slot(), -1);
    QVERIFY(two.isHeld());

    // The number of permits is smaller now, but those who already hold permits are not given numbers.
    QVERIFY(awaited(registry()->setPermits(u"b"_s, 4)));
    TestSemaphore late(registry(), u"b"_s, taking(1, 4));
    QVERIFY(acquireNow(&late));
    QCOMPARE(late.slot(), 0);
    QCOMPARE(two.slot(), -1);
    QCOMPARE(info(u"b"_s).permitsTaken, 4);
}

void tst_Semaphore::slotIsKeptForMinHold()
{
    TestSemaphore kept(registry(), u"a"_s, taking(2).withLease(5min).withMinHold(2min)),
            next(registry(), u"a"_s, taking(1));
    QVERIFY(acquireNow(&kept));
    QVERIFY(releaseNow(&kept));
    QCOMPARE(info(u"a"_s).permitsTaken, 2);
    QVERIFY(acquireNow(&next));
    QCOMPARE(next.slot(), 2);
}

void tst_Semaphore::lostGrantKeepsTheSlot()
{
    SKIP_WITHOUT_SERVER();
    // The waiter must ask for what it was given: the message was lost.
    LockRegistry other(serverUrl());
    TestSemaphore first(&other, u"a"_s, taking(1, 2)), second(&other, u"a"_s, taking(1, 2)),
            waiter(registry(), u"a"_s, taking(1, 2));
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&second));
    QVERIFY(joinQueue(&waiter));
    const QByteArray token = QDistLock::DistributedLockPrivate::get(&waiter)->waiter().token;
    QVERIFY(token.startsWith("p1@/"));
    const QByteArray end = QByteArray::number(QDateTime::currentMSecsSinceEpoch() + 60'000) + ".00048828125"; // slot 0
    const QByteArray script = "redis.call('ZREM', KEYS[1], ARGV[1]) redis.call('ZREM', KEYS[2], ARGV[2]) "
                              "return redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])";
    const QByteArray former = QDistLock::DistributedLockPrivate::get(&first)->waiter().token;
    QCOMPARE(m_server.command({"EVAL", script, "2", "lock:a", "{lock:a}:queue", former, token, end}).toInt(), 1);
    const QByteArray channel = "lock:client:" + QDistLock::Token::clientOf(token);
    const QByteArray hint = "grant " + QByteArray::number(QDistLock::Token::sequenceOf(token));
    QVERIFY(m_server.command({"PUBLISH", channel, hint}).toInt() > 0);
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QCOMPARE(waiter.slot(), 0);
    QCOMPARE(second.slot(), 1);
}

void tst_Semaphore::available()
{
    TestSemaphore semaphore(registry(), u"a"_s, taking(2));
    QCOMPARE(awaited(semaphore.available()).value, 5); // the server has no number yet
    semaphore.setPermits(LockOptions::ServerPermits);
    QCOMPARE(awaited(semaphore.available()).value, 0);
    TestLock exclusive(registry(), u"a"_s);
    semaphore.setPermits(5);
    QVERIFY(acquireNow(&exclusive));
    QCOMPARE(awaited(semaphore.available()).value, 0);
    QVERIFY(releaseNow(&exclusive));
    QVERIFY(acquireNow(&semaphore));
    QCOMPARE(awaited(semaphore.available()).value, 3);
    semaphore.setPermits(7); // the server's number counts
    QCOMPARE(awaited(semaphore.available()).value, 3);
    QVERIFY(releaseNow(&semaphore));
    QCOMPARE(awaited(semaphore.available()).value, 5);
    QVERIFY(acquireNow(&exclusive));
    QCOMPARE(awaited(semaphore.available()).value, 0);

    // The name is under the key prefix of its address, as in acquires.
    LockRegistry prefixed(serverUrl());
    prefixed.setKeyPrefix(u"app:"_s);
    Semaphore own(LockAddress(u"a"_s).withKeyPrefix(u"app:"_s), 2);
    own.setRegistry(registry());
    QCOMPARE(awaited(own.available()).value, 2);
    QVERIFY(acquireNow(&own));
    QCOMPARE(awaited(own.available()).value, 1);
    QCOMPARE(awaited(prefixed.inspect(u"a"_s)).permitsTaken, 1);

    // Its own registry is made if there is none yet.
    Semaphore unused(LockAddress(u"c"_s).withServer(serverUrl()), 4);
    QCOMPARE(awaited(unused.available()).value, 4);
    QVERIFY(unused.registry());

    TestLock reader(registry(), u"r"_s, reading());
    QVERIFY(acquireNow(&reader));
    TestSemaphore refused(registry(), u"r"_s, taking(1));
    QCOMPARE(awaited(refused.available()).value, 0);
}

void tst_Semaphore::availableWithoutAnswer()
{
    auto dying = std::make_unique<LockRegistry>(serverUrl());
    auto semaphore = std::make_unique<TestSemaphore>(dying.get(), u"a"_s, taking(1));
    const QFuture<LockReply<int>> first = semaphore->available();
    semaphore.reset();
    QCOMPARE(awaited(first).value, 5);

    semaphore = std::make_unique<TestSemaphore>(dying.get(), u"a"_s, taking(1));
    const QFuture<LockReply<int>> second = semaphore->available();
    dying.reset();
    QCOMPARE(awaited(second).error, DistributedLock::CancelledError);
    QCOMPARE(awaited(semaphore->available()).error, DistributedLock::ConnectionError); // without a registry

    TestSemaphore nameless(registry(), QString(), taking(1));
    const LockReply<int> reply = awaited(nameless.available());
    QCOMPARE(reply.error, DistributedLock::NameError);

    // The defaults of the registry that is made for it change its lease, and a slot destroys it.
    LockRegistry::instance(serverUrl())->setDefaults(LockOptions().withLease(7s));
    const QPointer<Semaphore> destroyed(new Semaphore(LockAddress(u"a"_s).withServer(serverUrl()), 5));
    connect(destroyed, &DistributedLock::leaseChanged, registry(), [destroyed] { delete destroyed; });
    QCOMPARE(awaited(destroyed->available()).error, DistributedLock::CancelledError);
    QVERIFY(!destroyed);

    if (!isMemory()) {
        LockRegistry unreachable(QUrl(u"redis://127.0.0.1:1"_s));
        TestSemaphore lonely(&unreachable, u"a"_s, taking(1));
        const LockReply<int> refused = awaited(lonely.available());
        QCOMPARE(refused.error, DistributedLock::ConnectionError);
        QVERIFY(refused.errorString.contains(u"\"a\""_s));
    }

    TestSemaphore elsewhere(registry(), u"a"_s, taking(1));
    QFuture<LockReply<int>> foreign;
    const std::unique_ptr<QThread> thread(QThread::create([&] { foreign = elsewhere.available(); }));
    thread->start();
    thread->wait();
    QVERIFY(foreign.isFinished());
    QCOMPARE(foreign.result().error, DistributedLock::OptionsError);
}

void tst_Semaphore::destroyedInASlot()
{
    auto *semaphore = new TestSemaphore(registry(), u"a"_s, taking(2));
    const QPointer<Semaphore> alive(semaphore);
    connect(semaphore, &DistributedLock::acquired, semaphore, [semaphore] { delete semaphore; });
    const QFuture<LockResult> acquired = semaphore->acquireAsync();
    QVERIFY(eventually([&] { return !alive; }));
    QVERIFY(eventually([&] { return acquired.isFinished(); }));
    QVERIFY(eventually([&] { return !info(u"a"_s).held; }));

    auto *const changing = new TestSemaphore(registry(), u"a"_s, taking(2));
    const QPointer<Semaphore> changed(changing);
    connect(changing, &Semaphore::permitsChanged, changing, [changing] { delete changing; });
    changing->setOptions(taking(1, 6)); // changes both
    QVERIFY(!changed);
}

void tst_Semaphore::upgradesAreRefused()
{
    TestLock lock(registry(), u"a"_s, taking(1));
    QVERIFY(acquireNow(&lock));
    const LockResult exclusive = acquireWith(&lock, options());
    QCOMPARE(exclusive.error, DistributedLock::UpgradeError);
    QVERIFY2(exclusive.errorString.contains(u"has permits of it already"_s), qPrintable(exclusive.errorString));
    QCOMPARE(acquireWith(&lock, reading()).error, DistributedLock::UpgradeError);
    QCOMPARE(lock.holdCount(), 1);
    QVERIFY(releaseNow(&lock));

    QVERIFY(acquireWith(&lock, options()).isAcquired());
    QVERIFY(acquireWith(&lock, taking(1)).isAcquired()); // who has it alone has all permits
    QCOMPARE(lock.holdCount(), 2);
    QVERIFY(info(u"a"_s).holders.isEmpty());
    lock.release();
    QVERIFY(releaseNow(&lock));

    QVERIFY(acquireWith(&lock, reading()).isAcquired());
    const LockResult permits = acquireWith(&lock, taking(1));
    QCOMPARE(permits.error, DistributedLock::UpgradeError);
    QVERIFY2(permits.errorString.contains(u"is a reader of it already"_s), qPrintable(permits.errorString));
}

void tst_Semaphore::properties()
{
    Semaphore semaphore(registry(), u"a"_s, 5);
    QCOMPARE(semaphore.permits(), 5);
    QCOMPARE(semaphore.take(), 1);
    QCOMPARE(semaphore.options().permits, 5);
    const QSignalSpy permits(&semaphore, &Semaphore::permitsChanged), take(&semaphore, &Semaphore::takeChanged);
    semaphore.setPermits(5);
    semaphore.setTake(1);
    QCOMPARE(permits.size() + take.size(), 0);
    semaphore.setPermits(6);
    QCOMPARE(permits.size(), 1);
    semaphore.setTake(2);
    QCOMPARE(take.size(), 1);
    semaphore.setOptions(taking(3, 7));
    QCOMPARE(permits.size(), 2);
    QCOMPARE(take.size(), 2);
    QCOMPARE(semaphore.permits(), 7);
    QCOMPARE(semaphore.property("take").toInt(), 3);
    semaphore.setLease(7s);
    QCOMPARE(permits.size(), 2);
    QCOMPARE(take.size(), 2);
}

void tst_Semaphore::defaultsOfARegistry()
{
    LockRegistry other(serverUrl());
    other.setDefaults(reading().withLease(7s).withPermits(9).withTake(3));
    Semaphore late(LockAddress(u"a"_s), 5), early(&other, u"a"_s, 5);
    late.setRegistry(&other);
    for (Semaphore *const semaphore : {&late, &early}) {
        QCOMPARE(semaphore->permits(), 5);
        QCOMPARE(semaphore->take(), 1);
        QCOMPARE(semaphore->mode(), LockOptions::Exclusive);
        QCOMPARE(semaphore->lease(), 7s);
    }
    QVERIFY(acquireNow(&late));
    QCOMPARE(info(u"a"_s).permits, 5);
    QCOMPARE(info(u"a"_s).permitsTaken, 1);

    // A plain lock has them.
    other.setDefaults(taking(2, 3));
    DistributedLock plain(&other, u"b"_s);
    QVERIFY(acquireNow(&plain));
    QCOMPARE(info(u"b"_s).permitsTaken, 2);
}

void tst_Semaphore::scopes()
{
    const QUrl before = LockRegistry::defaultServer();
    LockRegistry::setDefaultServer(serverUrl());
    const auto restore = qScopeGuard([&] { LockRegistry::setDefaultServer(before); });
    {
        QDL_SCOPED_LOCK("x", LockOptions().withPermits(5));
        QVERIFY(QDistLock::isLockedHere(u"x"_s, LockOptions::Shared));
        QVERIFY(!QDistLock::isLockedHere(u"x"_s));
        QDL_ASSERT_LOCKED("x", LockOptions().withPermits(5));
        QDL_SCOPED_LOCK("x", LockOptions().withPermits(5));
        QCOMPARE(info(u"x"_s).permitsTaken, 1);
        const ScopedLock inner(u"x"_s, taking(2));
        QVERIFY(inner.isHeld());
        QCOMPARE(info(u"x"_s).permitsTaken, 1);
    }
    QVERIFY(!QDistLock::isLockedHere(u"x"_s, LockOptions::Shared));
    QVERIFY(eventually([&] { return !info(u"x"_s).held; }));

    // Other threads have permits of their own.
    const ScopedLock outer(u"x"_s, taking(4));
    std::optional<LockResult> first, second;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        const ScopedLock one(u"x"_s, taking(1).withWait(0ms));
        first = one.result();
        const ScopedLock two(u"y"_s, taking(1));
        const std::unique_ptr<QThread> nested(QThread::create([&] {
            const ScopedLock late(u"x"_s, taking(1).withWait(0ms));
            second = late.result();
        }));
        nested->start();
        nested->wait();
    }));
    thread->start();
    QVERIFY(thread->wait());
    QCOMPARE(first->error, DistributedLock::NoError);
    QCOMPARE(second->error, DistributedLock::BusyError);
    QVERIFY(outer.isHeld());
}

void tst_Semaphore::scopesOfOtherKinds()
{
    const auto address = LockAddress(u"a"_s).withServer(serverUrl());
    const auto errorOf = [&](const LockOptions &inner) { return ScopedLock(address, inner).result().error; };
    {
        const ScopedLock outer(address, taking(1));
        LogCapture log;
        QCOMPARE(errorOf(options()), DistributedLock::UpgradeError);
        QCOMPARE(log.messages(QtWarningMsg).size(), 1);
        QVERIFY2(log.text().contains(u"this thread has permits of it already"_s), qPrintable(log.text()));
        QCOMPARE(errorOf(reading()), DistributedLock::UpgradeError);
        QVERIFY(outer.isHeld());
    }
    QVERIFY(eventually([&] { return !info(u"a"_s).held; }));
    {
        const ScopedLock outer(address, reading());
        QVERIFY(outer.isHeld());
        QCOMPARE(errorOf(taking(1)), DistributedLock::UpgradeError);
        QVERIFY(QDistLock::isLockedHere(address, LockOptions::Shared));
    }
    QVERIFY(eventually([&] { return !info(u"a"_s).held; }));
    const ScopedLock outer(address, options());
    QCOMPARE(errorOf(taking(1)), DistributedLock::NoError);
    QCOMPARE(errorOf(reading()), DistributedLock::NoError);
    QDL_ASSERT_LOCKED(address, taking(1));
}

void tst_Semaphore::readWriteLocksHaveNoPermits()
{
    QDistLock::ReadWriteLock lock(registry(), u"a"_s);
    for (DistributedLock *const part : {lock.readLock(), lock.writeLock()}) {
        part->setOptions(taking(2));
        QCOMPARE(part->options().permits, 0);
        QVERIFY(acquireNow(part));
        QCOMPARE(info(u"a"_s).permits, 0);
        QCOMPARE(info(u"a"_s).readerCount, part == lock.readLock() ? 1 : 0);
        QVERIFY(releaseNow(part));
    }
}

void tst_Semaphore::otherServers()
{
    SKIP_WITHOUT_SERVER();
    QUrl plain = m_server.url();
    plain.setQuery(u"scripts=off"_s);
    const QUrl quorum(u"redlock://127.0.0.1:1?node=127.0.0.1:2&node=127.0.0.1:3"_s);
    for (const QUrl &url : {plain, quorum}) {
        LockRegistry other(url);
        TestSemaphore semaphore(&other, u"a"_s, taking(1));
        QCOMPARE(failureNow(&semaphore), DistributedLock::OptionsError);
        QVERIFY2(semaphore.errorString().contains(u"LockOptions::permits is not available here"_s),
                 qPrintable(semaphore.errorString()));
    }
    QCOMPARE(m_server.command({"DBSIZE"}).toInt(), 0);
}

QTEST_GUILESS_MAIN(tst_Semaphore)
#include "tst_semaphore.moc"
