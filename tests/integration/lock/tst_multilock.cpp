// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Several locks held together, through the public class, beside other holders and a foreign client.

#include "support/locktest.h"

#include "support/fakeclock.h"
#include "support/faultproxy.h"

#include "lock/multilock_p.h"

#include <QDistLock/MultiLock>
#include <QDistLock/ScopedLock>

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qpointer.h>
#include <QtCore/qscopeguard.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

using QDistLock::MultiLock;
using QDistLock::ScopedLock;

namespace {

/// A MultiLock with the options of a test, and all that it has emitted.
class TestMultiLock : public MultiLock
{
public:
    TestMultiLock(LockRegistry *registry, const QStringList &names, const LockOptions &options = LockTesting::options())
        : MultiLock(registry, names)
    {
        setOptions(options);
    }

    using MultiLock::acquireAsync;
    using MultiLock::holdNumber;

    SpiesOf<MultiLock> spies{this};
};

bool acquireNow(TestMultiLock *lock)
{
    const qsizetype ended = lock->spies.acquiresEnded();
    lock->acquire();
    return eventually([&] { return lock->spies.acquiresEnded() > ended; }) && lock->isHeld();
}

/// A MultiLock that has a and waits for b, on the clock of a test.
struct WaitingForB
{
    explicit WaitingForB(const QUrl &url)
        : registry(url)
        , other(url)
    {
        LockRegistryPrivate::get(&registry)->setClock(&clock);
    }
    void renewWhatIsDue() { LockRegistryPrivate::get(&registry)->watchdog()->wake(); }

    FakeClock clock; // destroyed after the registry, whose destructor reads it
    LockRegistry registry, other;
    TestLock holder{&other, u"b"_s, options(3h)};
    TestMultiLock lock{&registry, {u"a"_s, u"b"_s}, options(1h, 10h)};
};

qsizetype waitersOf(LockRegistry *registry)
{
    return awaited(registry->inspect(u"b"_s)).queueLength;
}

bool isAwaited(LockRegistry *registry)
{
    return eventually([registry] { return waitersOf(registry) == 1; });
}

/// The result of \a acquire, which fails because the lock is taken. Repeated until the text names the holder, who is
/// looked up for 250 ms only.
template<typename Acquire>
LockResult failureOf(Acquire acquire)
{
    LockResult result;
    const QDeadlineTimer deadline(60s);
    do {
        result = acquire();
    } while (!result.errorString.contains(u"held by"_s) && !deadline.hasExpired());
    return result;
}

} // namespace

class tst_MultiLock : public RedisAndMemoryTest
{
    Q_OBJECT
private Q_SLOTS:
    void allWithOneCommand();
    void contendedCostsNothingMore();
    void allOrNone();
    void noneBesideWaiters();
    void besideDeadWaiters();
    void orderOfNames();
    void waitsInOrder();
    void noDeadlock();
    void otherForms();
    void foreignHolder();
    void readers();
    void modes();
    void nested();
    void severalAcquiresAtOnce();
    void tryWhileWaiting();
    void acquireWhileReleasing();
    void renewsAll();
    void renewsWhileItWaits();
    void oneIsRenewedBeforeTheOthers();
    void withoutRenewal();
    void waitIsForAll();
    void waitEndsWithoutReply();
    void cancelled();
    void cancelledFuture();
    void cancelledBeforeItIsReported();
    void releasedBeforeItIsReported();
    void lost();
    void lostBeforeOthersAreGivenUp();
    void lostWhileItWaits();
    void lostTogether();
    void serverGone();
    void replyLost();
    void registryDestroyed();
    void destroyed_data();
    void destroyed();
    void nestedEventLoops();
    void nestedEventLoopOfAProperty();
    void renewedInANestedEventLoop();
    void fencing();
    void badNames();
    void holdNumbers();
    void optionsOfOneAcquire();
    void ownOptions();
    void deletedWhileItGetsItsOptions();
    void badOptions();
    void keyOfAnotherType();
    void changeWhileInUse();
    void otherThread();
    void upgradesAreRefused();
    void optionsOfTheNextAcquire();
    void permitsWhileReleasing();
    void optionsOfTheRegistry();
    void defaultServerChanges();
    void registryReplacedAfterALoss();
    void namesAfterTheRegistry();
    void movedToAnotherThread();
    void minHold();
    void minHoldOfLocksThatWereNotNeeded();
    void severalInOneRegistry();
    void errorsAfterTheEnd();
    void errorEndsWithARenewal();
    void releasedWhileItIsReported();
    void lossBeforeTheNextHold();
    void destroyedDuringACall();
    void destroyedWithAContinuation();
    void percentInAName();

private:
    qint64 scriptCalls() { return m_server.commandsProcessed("evalsha"); }
    bool isFree(const QString &name) { return !awaited(registry()->inspect(name)).held; }
};

void tst_MultiLock::allWithOneCommand()
{
    SKIP_WITHOUT_SERVER();
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s, u"d"_s, u"e"_s, u"f"_s, u"g"_s, u"h"_s});
    QVERIFY(acquireNow(&lock) && releaseNow(&lock)); // loads the scripts
    const qint64 before = scriptCalls();
    QVERIFY(acquireNow(&lock));
    QCOMPARE(scriptCalls() - before, 1);
    for (const QString &name : lock.names())
        QVERIFY(lock.fencingToken(name) > 0 && m_server.exists("lock:" + name.toUtf8()));
    QVERIFY(releaseNow(&lock));
    QCOMPARE(scriptCalls() - before, 2);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_MultiLock::contendedCostsNothingMore()
{
    SKIP_WITHOUT_SERVER();
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s});
    lock.tryAcquire();
    // The scripts are loaded, and the first attempt at b joins the queue.
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1 && isListening(registry()); }));
    const qint64 before = scriptCalls();
    lock.acquire();
    QVERIFY(eventually([&] { return m_server.command({"ZCARD", "{lock:b}:queue"}).toInt() == 1; }));
    QVERIFY(m_server.exists("lock:a"));
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    // For all; a, b and c; the release of the holder; and the renewal after it, which has given b for a short time. A
    // pause of the machine may add polls.
    const qint64 calls = scriptCalls() - before;
    QVERIFY2(calls <= 8, QByteArray::number(calls).constData());
}

void tst_MultiLock::allOrNone()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s});
    const LockResult result = failureOf([&] { return awaited(lock.tryAcquireAsync()); });
    QCOMPARE(result.error, DistributedLock::BusyError);
    QVERIFY2(result.errorString.startsWith(u"Lock \"b\""_s) && result.errorString.contains(u"held by"_s),
             qPrintable(result.errorString));
    QVERIFY(!lock.spies.failed.isEmpty());
    QCOMPARE(lock.error(), DistributedLock::BusyError);
    QCOMPARE(lock.errorString(), result.errorString);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"c"_s); }));
    if (!isMemory()) // nothing was written
        QVERIFY(!m_server.exists("{lock:a}:fence") && !m_server.exists("{lock:c}:fence"));
    QVERIFY(holder.isHeld());
}

// Whoever acquires several at once does not overtake those that wait for one of them.
void tst_MultiLock::noneBesideWaiters()
{
    SKIP_WITHOUT_SERVER();
    LockRegistry other(serverUrl());
    LockRegistry third(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestLock waiter(&third, u"b"_s);
    QVERIFY(joinQueue(&waiter));
    m_server.command({"DEL", "lock:b"});
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QCOMPARE(awaited(lock.tryAcquireAsync()).error, DistributedLock::BusyError);
    QVERIFY(!m_server.exists("lock:a"));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

void tst_MultiLock::besideDeadWaiters()
{
    SKIP_WITHOUT_SERVER();
    m_server.command({"ZADD", "{lock:b}:queue", "1", "abc:1:def"});
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QCOMPARE(awaited(lock.tryAcquireAsync()).error, DistributedLock::NoError);
    QVERIFY(lock.isHeld());
}

void tst_MultiLock::orderOfNames()
{
    MultiLock lock({u"b"_s, u"\u00e4"_s, u"a"_s, u"B"_s, u"a"_s, u"10"_s, u"9"_s, u"a1"_s});
    lock.add(u"b"_s);
    lock.add(u"AB"_s);
    QCOMPARE(lock.names(), QStringList({u"10"_s, u"9"_s, u"AB"_s, u"B"_s, u"a"_s, u"a1"_s, u"b"_s, u"\u00e4"_s}));
    lock.setNames({u"\U0001F600"_s, u"\uFF5E"_s}); // in UTF-16 it would be the other way round
    QCOMPARE(lock.names(), QStringList({u"\uFF5E"_s, u"\U0001F600"_s}));
    QSignalSpy changed(&lock, &MultiLock::namesChanged);
    lock.setNames({u"2"_s, u"1"_s});
    QCOMPARE(lock.names(), QStringList({u"1"_s, u"2"_s}));
    lock.setNames({u"1"_s, u"2"_s});
    lock.add(u"1"_s, LockOptions::Shared);
    QCOMPARE(changed.size(), 1);
}

void tst_MultiLock::waitsInOrder()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"c"_s, u"b"_s, u"a"_s});
    lock.acquire();
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    QVERIFY(isAwaited(registry()));
    QVERIFY(!isFree(u"a"_s));
    QVERIFY(isFree(u"c"_s));
    QVERIFY(!lock.isHeld());
    QCOMPARE(lock.fencingToken(u"a"_s), 0);
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(lock.isHeld() && !isFree(u"c"_s));
    QCOMPARE(lock.state(), DistributedLock::Held);
    QCOMPARE(lock.holdCount(), 1);
    QVERIFY(releaseNow(&lock));
    QVERIFY(isFree(u"a"_s) && isFree(u"b"_s) && isFree(u"c"_s));
}

// Philosophers: each needs two of five, and names them in another order than its neighbour.
void tst_MultiLock::noDeadlock()
{
    constexpr int Rounds = 40;
    std::vector<int> users(5, 0);
    bool overlap = false;
    struct Philosopher
    {
        std::unique_ptr<LockRegistry> registry;
        std::unique_ptr<MultiLock> lock;
        int left = Rounds;
    };
    std::vector<Philosopher> philosophers(5);
    for (int i = 0; i < 5; ++i) {
        Philosopher &one = philosophers[size_t(i)];
        const int forks[] = {i, (i + 1) % 5};
        one.registry = std::make_unique<LockRegistry>(serverUrl());
        one.lock = std::make_unique<MultiLock>(one.registry.get(),
                                               QStringList{QString::number(forks[0]), QString::number(forks[1])});
        one.lock->setOptions(options());
        connect(one.lock.get(), &MultiLock::acquired, this, [&one, &users, &overlap, i] {
            for (const int fork : {i, (i + 1) % 5})
                overlap |= ++users[size_t(fork)] > 1;
            // Not before a reply of the server: the others get their replies meanwhile.
            one.registry->inspect(QString::number(i)).then(one.lock.get(), [&one, &users, i](const auto &) {
                for (const int fork : {i, (i + 1) % 5})
                    --users[size_t(fork)];
                one.lock->release();
            });
        });
        connect(one.lock.get(), &MultiLock::released, this, [&one] {
            if (--one.left > 0)
                one.lock->acquire();
        });
        one.lock->acquire();
    }
    QVERIFY(eventually([&] { return all(philosophers, [](const Philosopher &one) { return one.left == 0; }); }));
    QVERIFY(!overlap);
}

void tst_MultiLock::otherForms()
{
    LockRegistry other(serverUrl());
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock));
    TestLock single(&other, u"a"_s, options().withWait(0ms));
    QCOMPARE(failureNow(&single), DistributedLock::BusyError);
    TestMultiLock overlapping(&other, {u"b"_s, u"c"_s}, options().withWait(0ms));
    QCOMPARE(failureNow(&overlapping), DistributedLock::BusyError);
    QCOMPARE(ScopedLock(QDistLock::LockAddress(u"b"_s).withServer(serverUrl()), options().withWait(0ms)).result().error,
             DistributedLock::BusyError);
    TestMultiLock apart(&other, {u"c"_s, u"d"_s});
    QVERIFY(acquireNow(&apart));
}

void tst_MultiLock::foreignHolder()
{
    SKIP_WITHOUT_SERVER();
    QCOMPARE(m_server.command({"SET", "lock:b", "somebody", "NX", "PX", "60000"}).toByteArray(), "OK");
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QCOMPARE(awaited(lock.tryAcquireAsync()).error, DistributedLock::BusyError);
    QVERIFY(!m_server.exists("lock:a"));
    lock.acquire();
    QVERIFY(eventually([&] { return m_server.exists("lock:a"); }));
    m_server.command({"DEL", "lock:b"});
    QVERIFY(eventually([&] { return lock.isHeld(); })); // it polls
    QVERIFY(m_server.command({"SET", "lock:a", "somebody", "NX", "PX", "60000"}).toByteArray() != "OK");
    QVERIFY(m_server.command({"SET", "lock:b", "somebody", "NX", "PX", "60000"}).toByteArray() != "OK");
}

void tst_MultiLock::readers()
{
    LockRegistry other(serverUrl());
    TestMultiLock first(registry(), {}), second(&other, {});
    for (TestMultiLock *const lock : {&first, &second})
        lock->add(u"prices"_s, LockOptions::Shared);
    first.add(u"a"_s);
    second.add(u"b"_s);
    QVERIFY(acquireNow(&first) && acquireNow(&second));
    QCOMPARE(awaited(registry()->inspect(u"prices"_s)).readerCount, 2);
    TestMultiLock writer(&other, {u"prices"_s, u"c"_s}, options().withWait(0ms));
    QCOMPARE(failureNow(&writer), DistributedLock::BusyError);
    TestMultiLock all(&other, {u"prices"_s, u"c"_s}, options().withMode(LockOptions::Shared));
    QVERIFY(acquireNow(&all)); // all for reading
    QCOMPARE(awaited(registry()->inspect(u"c"_s)).readerCount, 1);
    for (TestMultiLock *const lock : {&first, &second, &all})
        QVERIFY(releaseNow(lock));
    QVERIFY(isFree(u"prices"_s));
}

void tst_MultiLock::modes()
{
    LockRegistry other(serverUrl());
    TestMultiLock lock(registry(), {u"a"_s}, options().withMode(LockOptions::Shared));
    lock.add(u"b"_s, LockOptions::Shared);
    lock.add(u"b"_s, LockOptions::Exclusive);
    lock.add(u"c"_s, LockOptions::Exclusive);
    lock.add(u"c"_s, LockOptions::Shared);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 1);
    QCOMPARE(awaited(registry()->inspect(u"b"_s)).readerCount, 0);
    QCOMPARE(awaited(registry()->inspect(u"c"_s)).readerCount, 0);
    QVERIFY(!isFree(u"b"_s) && !isFree(u"c"_s));
}

void tst_MultiLock::nested()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken(u"a"_s);
    lock.tryAcquire();
    QCOMPARE(lock.holdCount(), 2);
    QCOMPARE(lock.spies.acquired.size(), 1); // no signal during a call
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
    QCOMPARE(lock.fencingToken(u"a"_s), token);
    lock.release();
    QCOMPARE(lock.holdCount(), 1);
    processEvents();
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.spies.released.size(), 0);
    QVERIFY(awaited(lock.releaseAsync()));
    QCOMPARE(lock.spies.released.size(), 1);
    QCOMPARE(lock.holdCount(), 0);
    QVERIFY(isFree(u"a"_s) && isFree(u"b"_s));
}

void tst_MultiLock::severalAcquiresAtOnce()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    const auto first = lock.acquireAsync();
    const auto second = lock.tryAcquireAsync();
    const auto third = lock.acquireAsync();
    for (const auto &future : {first, second, third})
        QVERIFY(awaited(future).isAcquired());
    QCOMPARE(lock.spies.acquired.size(), 3);
    QCOMPARE(lock.holdCount(), 3);
    lock.release();
    lock.release();
    QVERIFY(lock.isHeld());
    QVERIFY(releaseNow(&lock));
}

void tst_MultiLock::tryWhileWaiting()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    const auto waiting = lock.acquireAsync();
    QVERIFY(isAwaited(registry()));
    QCOMPARE(awaited(lock.tryAcquireAsync()).error, DistributedLock::BusyError);
    QVERIFY(!waiting.isFinished());
    QVERIFY(releaseNow(&holder));
    QVERIFY(awaited(waiting).isAcquired());
    QCOMPARE(lock.holdCount(), 1);
}

void tst_MultiLock::acquireWhileReleasing()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken(u"b"_s);
    lock.release();
    QCOMPARE(lock.state(), DistributedLock::Releasing);
    QVERIFY(!lock.isHeld());
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
    QCOMPARE(lock.spies.released.size(), 1);
    QVERIFY(lock.isHeld() && lock.fencingToken(u"b"_s) > token);
}

void tst_MultiLock::renewsAll()
{
    FakeClock clock; // destroyed after the registry, whose destructor reads it
    LockRegistry registry(serverUrl());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s, u"c"_s}, options(1h));
    QVERIFY(acquireNow(&lock));
    clock.advance(25min);
    const qint64 before = isMemory() ? 0 : scriptCalls();
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    QVERIFY(lock.remainingTime() > 50min);
    if (!isMemory())
        QCOMPARE(scriptCalls() - before, 1);
    QCOMPARE(lock.spies.acquired.size() + lock.spies.renewed.size() + lock.spies.atRisk.size(), 2);
}

void tst_MultiLock::renewsWhileItWaits()
{
    WaitingForB waiting(serverUrl());
    QVERIFY(acquireNow(&waiting.holder));
    waiting.lock.acquire();
    QVERIFY(isAwaited(&waiting.registry));
    for (int i = 0; i < 5; ++i) {
        waiting.clock.advance(25min);
        waiting.renewWhatIsDue();
        QVERIFY(awaited(waiting.registry.inspect(u"a"_s)).held); // the reply comes after that to the renewal
    }
    QCOMPARE(waiting.lock.spies.renewed.size(), 0); // it is not held
    QVERIFY(releaseNow(&waiting.holder));
    QVERIFY(eventually([&] { return waiting.lock.isHeld(); }));
    QVERIFY(waiting.lock.remainingTime() > 0ms);
}

// The library's own thread counts the new deadline at once.
void tst_MultiLock::oneIsRenewedBeforeTheOthers()
{
    WaitingForB waiting(serverUrl());
    QVERIFY(acquireNow(&waiting.holder));
    waiting.lock.acquire();
    QVERIFY(isAwaited(&waiting.registry));
    waiting.clock.advance(15min);
    QVERIFY(releaseNow(&waiting.holder));
    QVERIFY(eventually([&] { return waiting.lock.isHeld(); }));
    bool changed = false;
    QDistLock::MultiLockPrivate::get(&waiting.lock)->deadlineChanged = [&changed] { changed = true; };
    waiting.clock.advance(10min);
    QVERIFY(waiting.lock.remainingTime() < 40min); // of a, which was acquired first
    waiting.renewWhatIsDue();
    QVERIFY(eventually([&] { return changed; }));
    QVERIFY(waiting.lock.remainingTime() > 45min); // of b
    QCOMPARE(waiting.lock.spies.renewed.size(), 0);
}

void tst_MultiLock::withoutRenewal()
{
    FakeClock clock;
    LockRegistry registry(serverUrl());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s}, options(1h).withAutoRenew(false));
    QVERIFY(acquireNow(&lock));
    clock.advance(50min);
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.atRisk.size() == 1; }));
    QCOMPARE(lock.state(), DistributedLock::AtRisk);
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.spies.renewed.size(), 0);
    lock.setOptions(options(1h)); // takes effect at once
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    QCOMPARE(lock.state(), DistributedLock::Held);
    lock.setOptions(options(1h).withAutoRenew(false));
    clock.advance(2h);
    QVERIFY(!lock.isHeld());
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
}

void tst_MultiLock::waitIsForAll()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s});
    const LockResult result = failureOf([&] {
        return timeOutOf([&](milliseconds wait) {
            lock.setOptions(options().withWait(wait));
            return awaited(lock.acquireAsync());
        });
    });
    QCOMPARE(result.error, DistributedLock::TimeoutError);
    QVERIFY2(result.errorString.startsWith(u"Lock \"b\""_s) && result.errorString.contains(u"held by"_s),
             qPrintable(result.errorString));
    QCOMPARE(lock.spies.errors.size(), 0);
    QVERIFY(eventually([&] { return isFree(u"a"_s); }));
    QVERIFY(isFree(u"c"_s));
    QCOMPARE(waitersOf(registry()), 0);
}

void tst_MultiLock::waitEndsWithoutReply()
{
    SKIP_WITHOUT_SERVER();
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock) && releaseNow(&lock));
    proxy.setRepliesHeld(true);
    lock.setOptions(options(Outlasting, 50ms));
    const LockResult result = awaited(lock.acquireAsync());
    QCOMPARE(result.error, DistributedLock::ConnectionError);
    QCOMPARE(lock.spies.failure(), DistributedLock::ConnectionError);
    QCOMPARE(lock.spies.errors.size(), 1);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    proxy.setRepliesHeld(false);
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); })); // what the server gave is given back
}

void tst_MultiLock::cancelled()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    for (int i = 0; i < 3; ++i) { // before anything was sent, with a command under way, and in the queue
        const auto future = lock.acquireAsync();
        if (i == 1)
            sendNow();
        if (i == 2)
            QVERIFY(isAwaited(registry()));
        lock.cancel();
        QCOMPARE(lock.state(), DistributedLock::Unlocked);
        QCOMPARE(lock.spies.failed.size(), i); // no signal during a call
        QCOMPARE(awaited(future).error, DistributedLock::CancelledError);
        QCOMPARE(lock.spies.failed.size(), i + 1);
        QVERIFY(eventually([&] { return isFree(u"a"_s) && waitersOf(registry()) == 0; }));
    }
    QVERIFY(releaseNow(&holder));
    QVERIFY(acquireNow(&lock));
    lock.cancel(); // a hold is not touched
    processEvents();
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.spies.errors.size() + lock.spies.lost.size() + lock.spies.released.size(), 0);
}

void tst_MultiLock::cancelledFuture()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    auto unwanted = lock.acquireAsync();
    const auto wanted = lock.acquireAsync();
    QVERIFY(isAwaited(registry()));
    unwanted.cancel();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::CancelledError);
    QVERIFY(releaseNow(&holder));
    QVERIFY(awaited(wanted).isAcquired());
    QCOMPARE(lock.holdCount(), 1);
    QVERIFY(releaseNow(&lock));
    unwanted = lock.acquireAsync();
    unwanted.cancel(); // the last one that wants it
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 2; }));
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
}

void tst_MultiLock::cancelledBeforeItIsReported()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    // When the last lock reports to the MultiLock, whose report follows with the next event.
    DistributedLock *const last = lock.findChildren<DistributedLock *>().last();
    auto future = lock.acquireAsync();
    connect(last, &DistributedLock::acquired, &lock, [&] {
        QMetaObject::invokeMethod(&lock, &MultiLock::cancel, Qt::DirectConnection);
        QMetaObject::invokeMethod(&lock, &MultiLock::cancel, Qt::QueuedConnection);
    });
    QCOMPARE(awaited(future).error, DistributedLock::CancelledError);
    QCOMPARE(lock.spies.acquired.size(), 0);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
    QCOMPARE(lock.spies.released.size() + lock.spies.lost.size(), 0);
}

void tst_MultiLock::releasedBeforeItIsReported()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    const LogCapture log;
    const auto acquiring = lock.acquireAsync();
    QVERIFY(!awaited(lock.releaseAsync()));
    QCOMPARE(awaited(acquiring).error, DistributedLock::CancelledError);
    QCOMPARE(log.count({u"Locks \"a\" and \"b\""_s, u"not held"_s}), 1);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
}

void tst_MultiLock::lost()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s});
    QVERIFY(acquireNow(&lock) && acquireNow(&lock));
    QVERIFY(eventually([this] { return isListening(registry()); }));
    bool wasHeld = true;
    connect(&lock, &MultiLock::lost, this,
            [&] { wasHeld = lock.isHeld() || lock.state() != DistributedLock::Unlocked; });
    QVERIFY(endByForce(serverUrl(), u"b"_s));
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QVERIFY(!wasHeld);
    QCOMPARE(lock.spies.lost.first().at(0).value<DistributedLock::LossReason>(), DistributedLock::ForcedRelease);
    QCOMPARE(lock.spies.lost.first().at(1).toString(), u"b"_s);
    QVERIFY2(lock.errorString().startsWith(u"Lock \"b\""_s), qPrintable(lock.errorString()));
    QCOMPARE(lock.holdCount(), 0);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"c"_s); }));
    QCOMPARE(lock.spies.lost.size() + lock.spies.released.size(), 1);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.error(), DistributedLock::NoError);
}

// Who relies on the deadline, as scopes in other threads do, knows of the loss before others can acquire a lock.
void tst_MultiLock::lostBeforeOthersAreGivenUp()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s}, options(Outlasting));
    QVERIFY(acquireNow(&lock) && eventually([this] { return isListening(registry()); }));
    bool isKnown = false, isGivenUp = true;
    QDistLock::MultiLockPrivate::get(&lock)->deadlineChanged = [&] {
        isKnown = lock.remainingTime() == 0ns;
        isGivenUp = lock.state() == DistributedLock::Unlocked || (!isMemory() && !m_server.exists("lock:b"));
    };
    QVERIFY(endByForce(serverUrl(), u"a"_s));
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QVERIFY(isKnown && !isGivenUp);
    QVERIFY(eventually([&] { return isFree(u"b"_s); }));
}

void tst_MultiLock::lostWhileItWaits()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    lock.acquire();
    QVERIFY(isAwaited(registry()));
    const qint64 token = awaited(registry()->inspect(u"a"_s)).fencingToken;
    QVERIFY(endByForce(serverUrl(), u"a"_s));
    QVERIFY(eventually([&] { return awaited(registry()->inspect(u"a"_s)).fencingToken > token; })); // it begins again
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.spies.lost.size() + lock.spies.failed.size(), 0);
}

void tst_MultiLock::lostTogether()
{
    SKIP_WITHOUT_SERVER();
    FakeClock clock;
    LockRegistry registry(serverUrl());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s, u"c"_s}, options(1h));
    QVERIFY(acquireNow(&lock));
    connect(&lock, &MultiLock::lost, this, [&] { lock.acquire(); }); // the other losses are still to be reported
    m_server.command({"FLUSHALL"});
    clock.advance(25min);
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
    processEvents();
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.spies.lost.size(), 1);
    for (const QString &name : lock.names())
        QVERIFY(m_server.exists("lock:" + name.toUtf8()));
}

void tst_MultiLock::serverGone()
{
    SKIP_WITHOUT_SERVER();
    FakeClock clock;
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s, u"c"_s}, options(1h));
    QVERIFY(acquireNow(&lock));
    proxy.setRefusing(true);
    proxy.resetAll();
    clock.advance(50min);
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.atRisk.size() == 1 && lock.spies.errors.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::ConnectionError);
    clock.advance(20min);
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    QCOMPARE(lock.spies.atRisk.size(), 1);
    QCOMPARE(lock.spies.errors.size(), 1); // not once for each lock
    lock.setOptions(options(1h, 10h));
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 2; }));
    proxy.heal();
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.error(), DistributedLock::NoError);
    QCOMPARE(lock.spies.errors.size(), 2);
    QCOMPARE(lock.spies.failed.size(), 0);
}

void tst_MultiLock::replyLost()
{
    SKIP_WITHOUT_SERVER();
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s, u"c"_s});
    QVERIFY(acquireNow(&lock) && releaseNow(&lock));
    for (int i = 0; i < 3; ++i) {
        proxy.cutAfter("EVALSHA"); // the server has executed it
        QVERIFY(acquireNow(&lock));
        proxy.cutAfter("EVALSHA");
        QVERIFY(releaseNow(&lock));
        QVERIFY(lockKeys(m_server).isEmpty());
    }
    QCOMPARE(lock.spies.lost.size() + lock.spies.failed.size(), 0);
}

void tst_MultiLock::registryDestroyed()
{
    auto registry = std::make_unique<LockRegistry>(serverUrl());
    TestMultiLock lock(registry.get(), {u"a"_s, u"b"_s}, options(Outlasting));
    QVERIFY(acquireNow(&lock));
    registry.reset();
    QVERIFY(!lock.isHeld());
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
    QCOMPARE(failureNow(&lock), DistributedLock::ConnectionError);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
    lock.setRegistry(this->registry());
    QVERIFY(acquireNow(&lock) && releaseNow(&lock));

    registry = std::make_unique<LockRegistry>(serverUrl());
    lock.setRegistry(registry.get());
    QVERIFY(acquireNow(&lock));
    lock.release();
    const auto waiting = lock.acquireAsync(); // for the end of the release
    registry.reset();
    QCOMPARE(awaited(waiting).error, DistributedLock::ConnectionError);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
}

void tst_MultiLock::destroyed_data()
{
    addRows<QByteArray>("signal",
                        {{"acquired", "acquired"},
                         {"acquireFailed", "acquireFailed"},
                         {"released", "released"},
                         {"lost", "lost"},
                         {"stateChanged", "stateChanged"},
                         {"heldChanged", "heldChanged"},
                         {"holdCountChanged", "holdCountChanged"},
                         {"errorChanged", "errorChanged"}});
}

/// In a slot of each of its signals.
void tst_MultiLock::destroyed()
{
    QFETCH(QByteArray, signal);
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    // The end of the lock that is destroyed by the first, the second, … emission.
    for (int emission = 0; emission < 3; ++emission) {
        QPointer<TestMultiLock> lock = new TestMultiLock(registry(), {u"a"_s, u"b"_s, u"c"_s});
        int left = emission;
        const auto slot = [&] {
            if (left-- == 0)
                delete lock.data();
        };
        if (signal == "acquired")
            connect(lock, &MultiLock::acquired, this, slot);
        else if (signal == "acquireFailed")
            connect(lock, &MultiLock::acquireFailed, this, slot);
        else if (signal == "released")
            connect(lock, &MultiLock::released, this, slot);
        else if (signal == "lost")
            connect(lock, &MultiLock::lost, this, slot);
        else if (signal == "stateChanged")
            connect(lock, &MultiLock::stateChanged, this, slot);
        else if (signal == "heldChanged")
            connect(lock, &MultiLock::heldChanged, this, slot);
        else if (signal == "holdCountChanged")
            connect(lock, &MultiLock::holdCountChanged, this, slot);
        else
            connect(lock, &MultiLock::errorChanged, this, slot);

        const auto after = [&lock](const QFuture<LockResult> &future) {
            return eventually([&] { return future.isFinished() || !lock; });
        };
        for (int i = 0; i < 3 && lock; ++i) {
            QVERIFY(acquireNow(&holder));
            if (lock)
                QVERIFY(after(lock->tryAcquireAsync())); // fails
            QVERIFY(releaseNow(&holder));
            if (lock)
                QVERIFY(after(lock->acquireAsync()));
            if (lock && i % 2 == 0) {
                lock->release();
                QVERIFY(eventually([&] { return !lock || lock->state() == DistributedLock::Unlocked; }));
            } else if (lock && lock->isHeld()) {
                QVERIFY(eventually([this] { return isListening(registry()); }));
                QVERIFY(endByForce(serverUrl(), u"c"_s));
                QVERIFY(eventually([&] { return !lock || lock->state() == DistributedLock::Unlocked; }));
            }
        }
        delete lock.data();
        QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s) && isFree(u"c"_s); }));
    }
}

void tst_MultiLock::nestedEventLoops()
{
    LockRegistry other(serverUrl());
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s}), next(&other, {u"b"_s, u"c"_s});
    int loops = 0;
    const auto runLoop = [&loops](const std::function<bool()> &condition) {
        ++loops;
        QVERIFY(eventually(condition));
    };
    connect(&lock, &MultiLock::acquired, this, [&] {
        lock.release();
        runLoop([&] { return lock.spies.released.size() == 1; });
        QCOMPARE(lock.state(), DistributedLock::Unlocked);
    });
    connect(&next, &MultiLock::acquired, this, [&] {
        QVERIFY(eventually([&] { return isListening(&other); }));
        QVERIFY(endByForce(serverUrl(), u"c"_s));
        runLoop([&] { return next.spies.lost.size() == 1; });
    });
    connect(&next, &MultiLock::lost, this, [&] {
        TestMultiLock inner(&other, {u"b"_s, u"c"_s});
        inner.acquire();
        runLoop([&] { return inner.isHeld(); });
    });
    lock.acquire();
    next.acquire();
    QVERIFY(eventually([&] { return loops == 3 && next.spies.lost.size() == 1; }));
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s) && isFree(u"c"_s); }));
}

void tst_MultiLock::nestedEventLoopOfAProperty()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QStringList emitted;
    connect(&lock, &MultiLock::acquired, this, [&] { emitted << u"acquired"_s; });
    connect(&lock, &MultiLock::lost, this, [&] { emitted << u"lost"_s; });
    connect(&lock, &MultiLock::heldChanged, this, [&] {
        if (!lock.isHeld())
            return;
        QVERIFY(eventually([this] { return isListening(registry()); }));
        QVERIFY(endByForce(serverUrl(), u"b"_s));
        QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    });
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1 && lock.state() == DistributedLock::Unlocked; }));
    QCOMPARE(emitted, QStringList({u"acquired"_s, u"lost"_s}));
}

void tst_MultiLock::renewedInANestedEventLoop()
{
    FakeClock clock; // destroyed after the registry, whose destructor reads it
    LockRegistry registry(serverUrl());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s}, options(1h));
    connect(&lock, &MultiLock::acquired, &lock, &MultiLock::release);
    connect(&lock, &MultiLock::heldChanged, this, [&] {
        if (!lock.isHeld())
            return;
        clock.advance(25min);
        LockRegistryPrivate::get(&registry)->watchdog()->wake();
        QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    });
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    QCOMPARE(lock.spies.acquired.size(), 1);
    QCOMPARE(lock.spies.renewed.size(), 0); // acquired() ended the hold before it could be reported
}

void tst_MultiLock::fencing()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    TestLock single(registry(), u"b"_s);
    QVERIFY(acquireNow(&lock));
    const qint64 a = lock.fencingToken(u"a"_s), b = lock.fencingToken(u"b"_s);
    QVERIFY(a > 0 && b > 0);
    QCOMPARE(lock.fencingToken(u"c"_s), 0);
    QVERIFY(releaseNow(&lock));
    QCOMPARE(lock.fencingToken(u"a"_s), 0);
    QVERIFY(acquireNow(&single));
    QVERIFY(single.fencingToken() > b);
    QVERIFY(releaseNow(&single));
    const LockResult result = awaited(lock.acquireAsync());
    QVERIFY(lock.fencingToken(u"a"_s) > a && lock.fencingToken(u"b"_s) > b);
    QCOMPARE(result.fencingToken, lock.fencingToken(u"a"_s));
}

void tst_MultiLock::badNames()
{
    TestMultiLock none(registry(), {});
    QCOMPARE(failureNow(&none), DistributedLock::NameError);
    QCOMPARE(none.spies.errors.size(), 1);
    QVERIFY2(none.errorString().contains(u"setNames()"_s), qPrintable(none.errorString()));
    TestMultiLock empty(registry(), {u"a"_s, QString()});
    QCOMPARE(failureNow(&empty), DistributedLock::NameError);
    TestMultiLock special(registry(), {u"a"_s, u"b}"_s});
    QCOMPARE(failureNow(&special), DistributedLock::NameError);

    QStringList names;
    for (int i = 0; i <= MultiLock::MaximumNames; ++i)
        names.append(QString::number(i));
    TestMultiLock many(registry(), names);
    QCOMPARE(failureNow(&many), DistributedLock::OptionsError);
    QVERIFY2(many.errorString().contains(u"at most 64"_s), qPrintable(many.errorString()));
    QVERIFY(isFree(u"0"_s) && isFree(u"a"_s));
    names.removeLast();
    many.setNames(names);
    QVERIFY(acquireNow(&many));
    TestMultiLock one(registry(), {u"a"_s});
    QVERIFY(acquireNow(&one));
}

void tst_MultiLock::holdNumbers()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QCOMPARE(lock.holdNumber(), quint64(0));
    QVERIFY(acquireNow(&lock));
    const quint64 first = lock.holdNumber();
    QVERIFY(first > 0);
    QVERIFY(acquireNow(&lock)); // nested
    QCOMPARE(lock.holdNumber(), first);
    lock.release();
    QVERIFY(awaited(lock.releaseAsync()));
    QCOMPARE(lock.holdNumber(), quint64(0));
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.holdNumber() > first);
}

void tst_MultiLock::optionsOfOneAcquire()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QCOMPARE(awaited(lock.acquireAsync(options().withWait(0ms))).error, DistributedLock::BusyError);
    QCOMPARE(lock.waitTime(), options().wait);
}

/// The registry's defaults do not replace options that were set; the NOTIFY signals tell of the others.
void tst_MultiLock::ownOptions()
{
    LockRegistry::setDefaultServer(serverUrl());
    LockRegistry::instance()->setDefaults(options(77s).withFair(false).withRetryInterval(55ms));
    const auto restored = qScopeGuard([] { LockRegistry::instance()->setDefaults({}); });
    MultiLock lock({u"a"_s, u"b"_s});
    QSignalSpy leaseChanged(&lock, &MultiLock::leaseChanged);
    QSignalSpy waitChanged(&lock, &MultiLock::waitChanged);
    QSignalSpy fairChanged(&lock, &MultiLock::fairChanged);
    QSignalSpy retryIntervalChanged(&lock, &MultiLock::retryIntervalChanged);
    QSignalSpy autoRenewChanged(&lock, &MultiLock::autoRenewChanged);
    QSignalSpy modeChanged(&lock, &MultiLock::modeChanged);
    lock.setFair(true); // as it is, but set
    lock.setWaitTime(33s);
    lock.setProperty("autoRenew", false);
    lock.setMode(LockOptions::Shared);
    lock.setMode(LockOptions::Exclusive);
    QCOMPARE(waitChanged.count(), 1);
    QCOMPARE(autoRenewChanged.count(), 1);
    QCOMPARE(modeChanged.count(), 2);
    QCOMPARE(lock.property("wait").toInt(), 33000);
    QVERIFY(awaited(lock.acquireAsync()).isAcquired());
    QCOMPARE(lock.lease(), 77s);
    QCOMPARE(lock.waitTime(), 33s);
    QCOMPARE(lock.retryInterval(), 55ms);
    QVERIFY(lock.isFair() && !lock.autoRenew());
    QCOMPARE(leaseChanged.count(), 1);
    QCOMPARE(retryIntervalChanged.count(), 1);
    QCOMPARE(waitChanged.count(), 1);
    QCOMPARE(fairChanged.count(), 0);
    QCOMPARE(lock.options().lease, 77s);
    QVERIFY(lock.remainingTime() > 20s);
}

void tst_MultiLock::deletedWhileItGetsItsOptions()
{
    LockRegistry::setDefaultServer(serverUrl());
    LockRegistry::instance()->setDefaults(options(77s));
    const auto restored = qScopeGuard([] { LockRegistry::instance()->setDefaults({}); });
    auto *lock = new MultiLock({u"a"_s, u"b"_s});
    connect(lock, &MultiLock::leaseChanged, lock, [lock] { delete lock; });
    QCOMPARE(awaited(lock->acquireAsync()).error, DistributedLock::CancelledError);

    MultiLock emptied({u"a"_s, u"b"_s});
    connect(&emptied, &MultiLock::leaseChanged, &emptied, [&emptied] { emptied.setNames({}); });
    QCOMPARE(awaited(emptied.acquireAsync()).error, DistributedLock::NameError);
    QVERIFY(isFree(u"a"_s) && isFree(u"b"_s));
}

void tst_MultiLock::badOptions()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s}, options().withPermits(5));
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY2(lock.errorString().contains(u"Semaphore"_s), qPrintable(lock.errorString()));
    lock.setOptions(options().withLease(0ms));
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    lock.setOptions(options().withMode(LockOptions::Mode(7)));
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    lock.setOptions(options());
    lock.add(u"c"_s, LockOptions::Mode(7));
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY(isFree(u"a"_s) && isFree(u"b"_s));
    lock.setNames({u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock));
}

void tst_MultiLock::keyOfAnotherType()
{
    SKIP_WITHOUT_SERVER();
    m_server.command({"RPUSH", "lock:b", "1"});
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s});
    QCOMPARE(awaited(lock.tryAcquireAsync()).error, DistributedLock::ForeignTypeError);
    QVERIFY2(lock.errorString().startsWith(u"Lock \"b\""_s), qPrintable(lock.errorString()));
    QCOMPARE(failureNow(&lock), DistributedLock::ForeignTypeError);
    QVERIFY(eventually([&] { return !m_server.exists("lock:a"); }));
    QVERIFY(!m_server.exists("lock:c"));
    QCOMPARE(m_server.command({"LLEN", "lock:b"}).toInt(), 1);
}

void tst_MultiLock::changeWhileInUse()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock));
    lock.setNames({u"c"_s});
    lock.add(u"d"_s);
    lock.setRegistry(nullptr);
    QCOMPARE(lock.spies.errors.size(), 3);
    QCOMPARE(lock.error(), DistributedLock::OptionsError);
    QCOMPARE(lock.names(), QStringList({u"a"_s, u"b"_s}));
    QCOMPARE(lock.registry(), registry());
    QVERIFY(lock.isHeld());
    QVERIFY(releaseNow(&lock));
    lock.setNames({u"c"_s});
    QVERIFY(acquireNow(&lock));
}

void tst_MultiLock::otherThread()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    const LogCapture log;
    LockResult result;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        result = lock.acquireAsync().result();
        lock.release();
        lock.add(u"c"_s);
    }));
    thread->start();
    thread->wait();
    QCOMPARE(result.error, DistributedLock::OptionsError);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::OptionsError);
    QCOMPARE(log.count({u"wrong thread"_s}), 3);
    QCOMPARE(lock.names(), QStringList({u"a"_s, u"b"_s}));
    QVERIFY(acquireNow(&lock));
}

// A reader that became a writer would wait for itself.
void tst_MultiLock::upgradesAreRefused()
{
    LockRegistry other(serverUrl());
    TestMultiLock lock(registry(), {u"a"_s}, options().withMode(LockOptions::Shared));
    lock.add(u"b"_s, LockOptions::Exclusive);
    QVERIFY(acquireNow(&lock));
    lock.setOptions(options());
    QCOMPARE(failureNow(&lock), DistributedLock::UpgradeError);
    QVERIFY2(lock.errorString().startsWith(u"Lock \"a\""_s), qPrintable(lock.errorString()));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.holdCount(), 1);
    QVERIFY(releaseNow(&lock));

    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    lock.setOptions(options().withMode(LockOptions::Shared));
    const auto waiting = lock.acquireAsync();
    QVERIFY(isAwaited(registry()));
    lock.setOptions(options());
    QCOMPARE(failureNow(&lock), DistributedLock::UpgradeError);
    QVERIFY(releaseNow(&holder));
    QVERIFY(awaited(waiting).isAcquired());
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 1);
}

void tst_MultiLock::optionsOfTheNextAcquire()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s});
    lock.acquire();
    QVERIFY(isAwaited(registry()));
    lock.setOptions(options().withMode(LockOptions::Shared).withLease(0ms));
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    QCOMPARE(awaited(registry()->inspect(u"c"_s)).readerCount, 0);
    QVERIFY(lock.remainingTime() > 0ms);
}

void tst_MultiLock::permitsWhileReleasing()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock));
    lock.release();
    lock.setOptions(options().withPermits(5));
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
}

void tst_MultiLock::optionsOfTheRegistry()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    LockRegistry::setDefaultServer(serverUrl());
    LockRegistry::instance()->setDefaults(options().withWait(0ms));
    MultiLock lock({u"a"_s, u"b"_s}); // finds its registry with the first acquire
    QCOMPARE(failureNow(&lock), DistributedLock::BusyError);
    QCOMPARE(lock.options().wait, 0ms);
    QCOMPARE(lock.registry(), LockRegistry::instance());
}

void tst_MultiLock::defaultServerChanges()
{
    SKIP_WITHOUT_SERVER();
    RedisServer other;
    QVERIFY2(other.start(), qPrintable(other.errorString()));
    LockRegistry::setDefaultServer(serverUrl());
    MultiLock lock(QStringList{u"b"_s});
    QVERIFY(awaited(lock.acquireAsync()).isAcquired());
    QVERIFY(awaited(lock.releaseAsync()));
    LockRegistry::setDefaultServer(other.url());
    lock.add(u"a"_s);
    QVERIFY(awaited(lock.acquireAsync()).isAcquired());
    QVERIFY(m_server.exists("lock:a") && m_server.exists("lock:b"));
}

void tst_MultiLock::registryReplacedAfterALoss()
{
    LockRegistry second(serverUrl());
    second.setKeyPrefix(u"second:"_s);
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s}, options(Outlasting));
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([this] { return isListening(registry()); }));
    connect(&lock, &MultiLock::lost, this, [&] { lock.setRegistry(&second); }); // while a and c are being released
    QVERIFY(endByForce(serverUrl(), u"b"_s));
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.errors.size(), 0);
    QVERIFY(acquireNow(&lock));
    for (const QString &name : lock.names())
        QVERIFY(awaited(second.inspect(name)).held);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s) && isFree(u"c"_s); }));
}

void tst_MultiLock::namesAfterTheRegistry()
{
    LockRegistry::setDefaultServer(serverUrl());
    auto own = std::make_unique<LockRegistry>(serverUrl());
    TestMultiLock lock(own.get(), {u"a"_s, u"b"_s});
    own.reset();
    lock.add(u"0"_s);
    QCOMPARE(failureNow(&lock), DistributedLock::ConnectionError);
    QVERIFY2(lock.errorString().contains(u"its registry was destroyed"_s), qPrintable(lock.errorString()));
    QVERIFY(isFree(u"0"_s) && isFree(u"a"_s));
}

void tst_MultiLock::movedToAnotherThread()
{
    const LogCapture log;
    for (const QStringList &names : {QStringList(), QStringList{u"a"_s, u"b"_s}}) {
        auto *const lock = new MultiLock(registry(), names);
        QThread thread;
        lock->moveToThread(&thread);
        thread.start();
        QFuture<LockResult> future;
        QMetaObject::invokeMethod(
                lock,
                [&] {
                    lock->setNames({u"a"_s, u"b"_s});
                    future = lock->acquireAsync();
                },
                Qt::BlockingQueuedConnection);
        const LockResult result = awaited(future);
        QMetaObject::invokeMethod(
                lock, [lock] { delete lock; }, Qt::BlockingQueuedConnection);
        thread.quit();
        thread.wait();
        QCOMPARE(result.error, DistributedLock::ConnectionError);
        QVERIFY2(result.errorString.contains(u"moved to another thread"_s), qPrintable(result.errorString));
    }
    QCOMPARE(log.count({u"moved to another thread"_s}), 3); // for the one without names, and for each of the two names
}

void tst_MultiLock::minHold()
{
    SKIP_WITHOUT_SERVER();
    FakeClock clock;
    LockRegistry registry(serverUrl()), other(serverUrl());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s}, options(10h, 30h).withMinHold(5h));
    lock.acquire();
    QVERIFY(isAwaited(&registry));
    clock.advance(2h); // of no account: a is held, but not both
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    clock.advance(1h);
    QVERIFY(releaseNow(&lock));
    for (const QString &name : lock.names()) {
        const milliseconds left(m_server.pttl("lock:" + name.toUtf8()));
        QVERIFY2(left > 3h && left <= 4h, qPrintable(QString::number(left.count())));
    }
}

void tst_MultiLock::minHoldOfLocksThatWereNotNeeded()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s}, options(Outlasting).withMinHold(Outlasting));
    lock.acquire();
    QVERIFY(isAwaited(registry()));
    lock.cancel();
    QVERIFY(eventually([&] { return isFree(u"a"_s); }));
    lock.acquire();
    QVERIFY(isAwaited(registry()));
    QVERIFY(endByForce(serverUrl(), u"a"_s));
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.isHeld(); }));
}

void tst_MultiLock::severalInOneRegistry()
{
    TestMultiLock first(registry(), {u"a"_s, u"b"_s}), second(registry(), {u"c"_s, u"d"_s});
    TestMultiLock third(registry(), {u"x"_s, u"y"_s}), fourth(registry(), {u"x"_s, u"z"_s});
    TestLock alone(registry(), u"x"_s);
    for (TestMultiLock *const lock : {&first, &second, &third, &fourth})
        lock->acquire();
    alone.acquire();
    QVERIFY(eventually([&] { return first.isHeld() && second.isHeld(); }));
    for (int i = 0; i < 3; ++i) {
        QVERIFY(eventually([&] { return third.isHeld() || fourth.isHeld() || alone.isHeld(); }));
        QCOMPARE(int(third.isHeld()) + int(fourth.isHeld()) + int(alone.isHeld()), 1);
        if (third.isHeld())
            third.release();
        else if (fourth.isHeld())
            fourth.release();
        else
            alone.release();
    }
}

void tst_MultiLock::errorsAfterTheEnd()
{
    SKIP_WITHOUT_SERVER();
    LockRegistry other(serverUrl());
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s});
    lock.acquire();
    QVERIFY(isAwaited(&other));
    proxy.setRepliesHeld(true);
    lock.cancel(); // begins to release a
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QSignalSpy failures(&registry, &LockRegistry::errorOccurred);
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(eventually([&] { return failures.size() > 0; }));
    processEvents();
    QCOMPARE(lock.spies.errors.size(), 0);
    QCOMPARE(lock.error(), DistributedLock::CancelledError);
}

void tst_MultiLock::errorEndsWithARenewal()
{
    FakeClock clock;
    LockRegistry registry(serverUrl());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestMultiLock lock(&registry, {u"a"_s, u"b"_s}, options(1h));
    QVERIFY(acquireNow(&lock));
    lock.setRegistry(nullptr);
    QCOMPARE(lock.error(), DistributedLock::OptionsError);
    clock.advance(25min);
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::NoError);
}

void tst_MultiLock::releasedWhileItIsReported()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    connect(&lock, &MultiLock::heldChanged, &lock, [&] {
        if (lock.isHeld())
            lock.release();
    });
    QCOMPARE(awaited(lock.acquireAsync()).error, DistributedLock::CancelledError);
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
    QCOMPARE(lock.spies.acquired.size(), 0);
    QCOMPARE(lock.spies.released.size(), 0);
}

// A slot acquires again, and runs an event loop, before the loss is reported.
void tst_MultiLock::lossBeforeTheNextHold()
{
    TestMultiLock lock(registry(), {u"a"_s, u"b"_s});
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([this] { return isListening(registry()); }));
    bool wasLost = false;
    const auto connection = connect(&lock, &MultiLock::heldChanged, this, [&] {
        if (lock.isHeld() || wasLost)
            return;
        lock.acquire();
        wasLost = eventually([&] { return lock.spies.acquired.size() == 2; }) && lock.spies.lost.size() == 1;
    });
    QVERIFY(endByForce(serverUrl(), u"b"_s));
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
    QVERIFY(wasLost);
    disconnect(connection);
}

void tst_MultiLock::destroyedDuringACall()
{
    for (int call = 0; call < 8; ++call) {
        for (int emission = 0; emission < 4; ++emission) {
            QPointer<MultiLock> lock = new MultiLock(registry(), {u"a"_s, u"b"_s});
            lock->setOptions(options());
            QFuture<LockResult> future;
            if (call % 2 == 1) {
                future = lock->acquireAsync();
                QVERIFY(eventually([&] { return lock->isHeld(); }));
            }
            int left = emission;
            const auto slot = [&] {
                if (left-- == 0)
                    delete lock.data();
            };
            for (const auto signal : {&MultiLock::stateChanged, &MultiLock::heldChanged, &MultiLock::holdCountChanged,
                                      &MultiLock::errorChanged, &MultiLock::namesChanged})
                connect(lock, signal, this, slot);
            if (lock)
                future = lock->acquireAsync();
            if (lock && call < 2)
                lock->cancel();
            else if (lock && call < 4)
                future.cancel();
            else if (lock && call < 6)
                lock->setNames({u"c"_s});
            else if (lock)
                lock->release();
            if (lock)
                lock->release();
            processEvents();
            if (lock)
                lock->releaseAsync();
            processEvents();
            delete lock.data();
        }
    }
    QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
}

// The continuation of a future that ends with the object runs an event loop.
void tst_MultiLock::destroyedWithAContinuation()
{
    auto lock = std::make_unique<MultiLock>(registry(), QStringList{u"a"_s, u"b"_s});
    lock->setOptions(options(Outlasting));
    QVERIFY(awaited(lock->acquireAsync()).isAcquired());
    bool wasHeld = true;
    LockResult again;
    const auto nested = lock->acquireAsync().then([&, destroyed = lock.get()](const LockResult &result) {
        wasHeld = destroyed->isHeld() || result.isAcquired();
        QVERIFY(eventually([&] { return isFree(u"a"_s) && isFree(u"b"_s); }));
        again = awaited(destroyed->acquireAsync());
    });
    lock.reset();
    QVERIFY(nested.isFinished());
    QVERIFY(!wasHeld);
    QCOMPARE(again.error, DistributedLock::CancelledError);
}

void tst_MultiLock::percentInAName()
{
    TestMultiLock lock(registry(), {u"100%2"_s, u"x"_s, u"y"_s});
    lock.acquire();
    lock.cancel();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QVERIFY2(lock.errorString().contains(u"\"100%2\" and 2 others"_s), qPrintable(lock.errorString()));
}

QTEST_GUILESS_MAIN(tst_MultiLock)
#include "tst_multilock.moc"
