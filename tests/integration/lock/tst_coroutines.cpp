// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/locktest.h"

#include "support/registrytime.h"
#include "support/rows.h"

#include <QDistLock/Coroutines>

#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using QDistLock::LockGuard;
using QDistLock::ReleaseAwaitable;

static_assert(!std::is_copy_constructible_v<LockGuard> && !std::is_copy_assignable_v<LockGuard>);
static_assert(std::is_nothrow_move_constructible_v<LockGuard>);
static_assert(std::is_nothrow_move_assignable_v<LockGuard>);
static_assert(!std::is_convertible_v<LockGuard, bool>);

namespace {

/// The least a coroutine type can be: runs at once, and destroying it destroys the frame.
class Task
{
public:
    struct promise_type
    {
        Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { exception = std::current_exception(); }
        std::exception_ptr exception;
    };

    Task() = default;
    Task(Task &&other) noexcept
        : m_frame(std::exchange(other.m_frame, nullptr))
    {
    }
    Task &operator=(Task &&other) noexcept
    {
        destroy();
        m_frame = std::exchange(other.m_frame, nullptr);
        return *this;
    }
    ~Task() { destroy(); }

    bool isDone() const { return m_frame && m_frame.done(); }
    std::exception_ptr exception() const { return m_frame.promise().exception; }
    void destroy()
    {
        if (const auto frame = std::exchange(m_frame, nullptr))
            frame.destroy();
    }

private:
    Q_DISABLE_COPY(Task)
    explicit Task(std::coroutine_handle<promise_type> frame)
        : m_frame(frame)
    {
    }
    std::coroutine_handle<promise_type> m_frame;
};

/// What a coroutine has observed, for the test.
struct Seen
{
    bool resumed = false;
    bool held = false;
    LockResult result;
    LockGuard guard;
};

Task take(DistributedLock *lock, Seen *seen)
{
    LockGuard guard = co_await lock->acquireAwaitable();
    seen->resumed = true;
    seen->held = guard.isHeld();
    seen->result = guard.result();
    seen->guard = std::move(guard);
}

/// A client of another make, so that what is in the way is none of ours.
constexpr char Foreign[] = "foreign";

} // namespace

class tst_Coroutines : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void init();

    void guardHoldsAndGivesBack();
    void busyAndTimedOutAreResults();
    void badNameAndUnreachableServerAreResults();
    void exceptionGivesBack();
    void nothingBeforeAwait();
    void awaitedTwice();

    void resumedFromTheEventLoopOnly_data();
    void resumedFromTheEventLoopOnly();
    void reentry();
    void oneAtATime();

    void destroyedWhileQueued();
    void destroyedWhileAlone();
    void destroyedBetweenReplyAndResumption();
    void destroyedBeforeItsLevelWasTold();
    void destroyedByEachNotify_data()
    {
        Support::addRows<int>(
                "way",
                {{"the lock begins to acquire", 1}, {"a level more", 2}, {"options of a registry just taken", 3}});
    }
    void destroyedByEachNotify();
    void notResumedByItsDestruction();
    void destroyedByTheAcquiredSignal();
    void destroyedWithItsLock();

    void lockDestroyedWhileAwaited_data()
    {
        Support::addRows<bool>("queued", {{"before an answer", false}, {"in the queue", true}});
    }
    void lockDestroyedWhileAwaited();
    void lockDestroyedBeforeAwait();
    void lockDestroyedByTheAcquiredSignal();
    void lockDestroyedByTheCoroutine();
    void registryDestroyedWhileAwaited();
    void cancelledWhileAwaited();
    void releasedByTheAcquiredSignal();

    void guardIsMoved();
    void guardReleases();
    void guardOutlivesTheLock();
    void guardLeavesALaterHoldAlone();
    void guardOfALostHoldLeavesAcquiresAlone();
    void releaseAwaitableIsDropped();
    void releaseAwaitedWhileLockIsDestroyed();
    void releaseAwaitedByTwo();
    void releaseAwaitedBesideAContinuation();
    void releaseAwaitedAfterItsFutureWasCancelled();
    void frameEndsWithItsLastResumption();

    void guardDestroyedInAnotherThread();
    void guardReleasedInAnotherThread();
    void guardAskedInAnotherThread();
    void guardOfNothingInAnotherThread();
    void guardInAnotherThreadLeavesALaterHoldAlone();
    void guardDestroyedAfterTheThreadOfItsLock_data()
    {
        Support::addRows<bool>("lockDestroyed", {{"lock destroyed", true}, {"lock left behind", false}});
    }
    void guardDestroyedAfterTheThreadOfItsLock();
    void guardRacesWithItsLock();
    void awaitedInAnotherThread();
    void frameDestroyedInAnotherThread_data()
    {
        Support::addRows<bool>("queued", {{"while it waits", true}, {"between reply and resumption", false}});
    }
    void frameDestroyedInAnotherThread();
    void frameDestroyedAfterTheThreadOfItsLock();

private:
    QByteArray key() const { return "lock:" + m_name.toUtf8(); }
    void occupy() { QCOMPARE(m_server.cli({"SET", key(), Foreign, "PX", "600000"}), QByteArray("OK")); }
    bool isFree() { return lockKeys(m_server).isEmpty(); }
    /// The registry of the lock that is held subscribes after its first answer.
    bool isSubscribed()
    {
        return m_server.subscriberCount("lock:client:" + m_server.get(key()).split(':').first()) == 1;
    }

    QString m_name;
    int m_count = 0;
};

void tst_Coroutines::init()
{
    RedisLockTest::init();
    m_name = u"job%1"_s.arg(++m_count);
}

void tst_Coroutines::guardHoldsAndGivesBack()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(!seen.resumed);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QVERIFY(task.isDone());
    QVERIFY(seen.held);
    QVERIFY(bool(seen.guard));
    QVERIFY(seen.result.isAcquired());
    QCOMPARE(seen.guard.fencingToken(), lock.fencingToken());
    QCOMPARE(lock.spies.acquired.size(), 1);
    QVERIFY(m_server.exists(key()));

    const qint64 token = seen.guard.fencingToken();
    {
        const LockGuard guard = std::move(seen.guard);
        QVERIFY(guard.isHeld());
    }
    QCOMPARE(lock.state(), DistributedLock::Releasing); // on its way, and nobody waited for it
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    QVERIFY(isFree());
    QCOMPARE(m_server.get("{" + key() + "}:fence").toLongLong(), token);
}

void tst_Coroutines::busyAndTimedOutAreResults()
{
    occupy();
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, m_name);
    lock.setWaitTime(0ms);
    Seen seen;
    Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::BusyError);
    QVERIFY2(seen.result.errorString.contains(m_name), qPrintable(seen.result.errorString));
    QVERIFY(!seen.guard);
    QCOMPARE(seen.guard.fencingToken(), 0);

    lock.setOptions(options());
    seen = {};
    task = take(&lock, &seen);
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    QVERIFY(!seen.resumed);
    registry.pass(61s);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::TimeoutError);
    QVERIFY(!seen.guard);
    QCOMPARE(m_server.get(key()), QByteArray(Foreign));
}

void tst_Coroutines::badNameAndUnreachableServerAreResults()
{
    DistributedLock nameless(registry(), QString());
    Seen seen;
    Task task = take(&nameless, &seen);
    QVERIFY(!seen.resumed);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::NameError);

    LockRegistry nowhere(QUrl(u"unix://%1/nobody.sock"_s.arg(m_server.folder())));
    DistributedLock lost(&nowhere, m_name);
    lost.setWaitTime(0ms);
    seen = {};
    task = take(&lost, &seen);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::ConnectionError);
    QVERIFY(!seen.guard);
}

void tst_Coroutines::exceptionGivesBack()
{
    TestLock lock(registry(), m_name, {});
    const Task task = [](DistributedLock *lock) -> Task {
        const auto guard = co_await lock->acquireAwaitable();
        if (guard)
            throw std::runtime_error("out of paper");
    }(&lock);
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    QVERIFY(task.isDone());
    QVERIFY_EXCEPTION_THROWN(std::rethrow_exception(task.exception()), std::runtime_error);
    QVERIFY(isFree());
}

void tst_Coroutines::nothingBeforeAwait()
{
    TestLock lock(registry(), m_name, {});
    {
        const auto awaitable = lock.acquireAwaitable();
        Q_UNUSED(awaitable)
    }
    processEvents();
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QCOMPARE(lock.spies.total(), 0);
}

void tst_Coroutines::awaitedTwice()
{
    DistributedLock lock(registry(), m_name);
    int levels = 0;
    const Task task = [](DistributedLock *lock, int *levels) -> Task {
        const auto awaitable = lock->acquireAwaitable();
        const auto outer = co_await awaitable;
        const auto inner = co_await awaitable;
        *levels = lock->holdCount();
    }(&lock, &levels);
    QVERIFY(eventually([&] { return task.isDone(); }));
    QCOMPARE(levels, 2);
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::resumedFromTheEventLoopOnly_data()
{
    Support::addColumns<QString, bool>("name", "held");
    QTest::newRow("fails at once") << QString() << false;
    QTest::newRow("held already") << u"held"_s << true;
    QTest::newRow("free") << u"free"_s << false;
}

void tst_Coroutines::resumedFromTheEventLoopOnly()
{
    QFETCH(QString, name);
    QFETCH(bool, held);
    DistributedLock lock(registry(), name);
    if (held)
        QVERIFY(acquireNow(&lock));
    bool inside = true;
    bool resumedInside = false;
    const Task task = [](DistributedLock *lock, const bool *inside, bool *resumedInside) -> Task {
        const auto guard = co_await lock->acquireAwaitable();
        *resumedInside = *inside;
    }(&lock, &inside, &resumedInside);
    lock.tryAcquire();
    lock.setOptions(options());
    inside = false;
    // The last slot but the resumption that hears of it.
    connect(&lock, &DistributedLock::acquired, this, [&] { inside = true; });
    connect(&lock, &DistributedLock::acquired, this, [&] {
        QMetaObject::invokeMethod(
                &lock, [&] { inside = false; }, Qt::QueuedConnection);
    });
    QVERIFY(!task.isDone());
    QVERIFY(eventually([&] { return task.isDone(); }));
    QVERIFY(!resumedInside);
}

void tst_Coroutines::reentry()
{
    DistributedLock lock(registry(), m_name);
    lock.setAutoRenew(false);
    Seen outer;
    const Task first = take(&lock, &outer);
    QVERIFY(eventually([&] { return outer.resumed; }));
    QVERIFY(eventually([&] { return isSubscribed(); }));
    const auto commands = [&] { return m_server.commandsProcessed() - m_server.commandsProcessed("ping"); };
    const qint64 before = commands();
    Seen inner;
    const Task second = take(&lock, &inner);
    QVERIFY(eventually([&] { return inner.resumed; }));
    QCOMPARE(lock.holdCount(), 2);
    QCOMPARE(inner.guard.fencingToken(), outer.guard.fencingToken());

    inner.guard = {};
    QCOMPARE(lock.holdCount(), 1);
    QVERIFY(outer.guard.isHeld());
    QVERIFY(!inner.guard.isHeld());
    QCOMPARE(commands(), before);
    outer.guard = {};
    QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked; }));
    QVERIFY(isFree());
}

void tst_Coroutines::oneAtATime()
{
    constexpr int Count = 60;
    LockRegistry registry(m_server.url());
    LockRegistry otherRegistry(m_server.url());
    struct Shared
    {
        int inside = 0;
        int most = 0;
        QList<qint64> tokens;
    } shared;
    std::vector<Task> tasks;
    for (int i = 0; i < Count; ++i) {
        tasks.push_back([](LockRegistry *registry, QString name, Shared *shared) -> Task {
            DistributedLock lock(registry, name);
            lock.setWaitTime(60s);
            auto guard = co_await lock.acquireAwaitable();
            if (!guard) {
                qWarning().noquote() << guard.result().errorString;
                co_return;
            }
            shared->most = std::max(shared->most, ++shared->inside);
            shared->tokens.append(guard.fencingToken());
            // Gives the event loop to the others.
            DistributedLock pause(registry, name + QString::number(guard.fencingToken()));
            const auto other = co_await pause.acquireAwaitable();
            --shared->inside;
            co_await guard.release();
        }(i % 2 ? &registry : &otherRegistry, m_name, &shared));
    }
    QVERIFY(eventually([&] { return all(tasks, [](const Task &t) { return t.isDone(); }); }));
    QCOMPARE(shared.most, 1);
    QCOMPARE(shared.tokens.size(), Count);
    QVERIFY(std::is_sorted(shared.tokens.begin(), shared.tokens.end(), std::less_equal<qint64>()));
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::destroyedWhileQueued()
{
    DistributedLock holder(registry(), m_name);
    QVERIFY(acquireNow(&holder));
    LockRegistry otherRegistry(m_server.url());
    DistributedLock lock(&otherRegistry, m_name);
    lock.setWaitTime(60s);
    Spies spies(&lock);

    Seen seen, kept;
    Task doomed = take(&lock, &seen);
    const Task other = take(&lock, &kept);
    QFuture<LockResult> future = lock.acquireAsync();
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    doomed.destroy();
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::CancelledError);
    QVERIFY(!future.isFinished());
    QVERIFY(!kept.resumed);
    QCOMPARE(lock.queuePosition(), 0); // and at its old place

    holder.release();
    QVERIFY(eventually([&] { return kept.resumed && future.isFinished(); }));
    QVERIFY(kept.held);
    QVERIFY(future.result().isAcquired());
    QCOMPARE(lock.holdCount(), 2);
    QVERIFY(!seen.resumed);
    QCOMPARE(spies.acquired.size(), 2);
    QCOMPARE(spies.failed.size(), 1);
    lock.release();
    kept.guard = {};
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::destroyedWhileAlone()
{
    DistributedLock holder(registry(), m_name);
    QVERIFY(acquireNow(&holder));
    LockRegistry otherRegistry(m_server.url());
    DistributedLock lock(&otherRegistry, m_name);
    lock.setWaitTime(LockOptions::Forever);
    Seen seen;
    Task doomed = take(&lock, &seen);
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    doomed.destroy();
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{key()}; })); // no place in the queue
    holder.release();
    QVERIFY(eventually([&] { return isFree(); }));
    QVERIFY(!seen.resumed);

    // The object is as good as new.
    const Task again = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QVERIFY(seen.held);
}

void tst_Coroutines::destroyedBetweenReplyAndResumption()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    Task doomed = take(&lock, &seen);
    // Posted before the resumption is, so it comes first.
    connect(&lock, &DistributedLock::acquired, &lock, [&] {
        QMetaObject::invokeMethod(
                &lock, [&] { doomed.destroy(); }, Qt::QueuedConnection);
    });
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    QVERIFY(!seen.resumed);
    QVERIFY(isFree());
}

void tst_Coroutines::destroyedBeforeItsLevelWasTold()
{
    DistributedLock lock(registry(), m_name);
    QVERIFY(acquireNow(&lock));
    processEvents();
    Spies spies(&lock);
    Seen seen;
    Task doomed = take(&lock, &seen); // nested: it has its level, and is resumed from the event loop
    QCOMPARE(lock.holdCount(), 2);
    doomed.destroy();
    QCOMPARE(lock.holdCount(), 1);
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::CancelledError);
    processEvents();
    QCOMPARE(spies.acquired.size(), 0);
    QVERIFY(lock.isHeld());
    QVERIFY(!seen.resumed);
}

/// Signals that come from inside co_await, where the coroutine counts as suspended.
void tst_Coroutines::destroyedByEachNotify()
{
    QFETCH(int, way);
    LockRegistry::setDefaultServer(m_server.url());
    LockRegistry::instance()->setDefaults(LockOptions().withLease(7s));
    auto lock = way == 3 ? std::make_unique<DistributedLock>(m_name)
                         : std::make_unique<DistributedLock>(registry(), m_name);
    if (way == 2)
        QVERIFY(acquireNow(lock.get()));
    processEvents();
    Spies spies(lock.get());

    Seen seen;
    Task doomed;
    // The frame exists, and waits, before the signal comes.
    bool armed = true;
    std::coroutine_handle<> frame;
    struct Arm
    {
        std::coroutine_handle<> *frame;
        bool await_ready() { return false; }
        bool await_suspend(std::coroutine_handle<> handle)
        {
            *frame = handle;
            return true;
        }
        void await_resume() {}
    };
    doomed = [](DistributedLock *lock, Seen *seen, std::coroutine_handle<> *frame) -> Task {
        co_await Arm{frame};
        seen->guard = co_await lock->acquireAwaitable();
        seen->resumed = true;
    }(lock.get(), &seen, &frame);
    const auto destroy = [&] {
        if (std::exchange(armed, false))
            doomed.destroy();
    };
    switch (way) {
    case 1:
        connect(lock.get(), &DistributedLock::stateChanged, this, destroy);
        break;
    case 2:
        connect(lock.get(), &DistributedLock::holdCountChanged, this, destroy);
        break;
    case 3:
        connect(lock.get(), &DistributedLock::leaseChanged, this, destroy);
        break;
    }
    frame.resume();
    QVERIFY(!armed);
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 1; }));
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(spies.failure(), DistributedLock::CancelledError);
    QVERIFY(!seen.resumed);
    processEvents();
    QCOMPARE(lock->holdCount(), way == 2 ? 1 : 0);
    if (way == 2)
        lock->release();
    QVERIFY(eventually([&] { return isFree(); }));
    // And the next one is served.
    const Task next = take(lock.get(), &seen);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QVERIFY(seen.held);
    seen.guard = {};
    lock.reset();
    QVERIFY(eventually([&] { return isFree(); }));
}

/// A slot of a NOTIFY signal that the destruction emits may run an event loop.
void tst_Coroutines::notResumedByItsDestruction()
{
    occupy();
    DistributedLock lock(registry(), m_name);
    lock.setWaitTime(LockOptions::Forever);
    Seen seen;
    Task doomed = take(&lock, &seen);
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    Spies spies(&lock);
    bool ended = false;
    connect(&lock, &DistributedLock::stateChanged, &lock, [&] {
        ended = eventually([&] { return spies.failed.size() == 1; });
        processEvents();
    });
    doomed.destroy();
    QVERIFY(ended);
    QVERIFY(!seen.resumed);
}

void tst_Coroutines::destroyedByTheAcquiredSignal()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    Task doomed = take(&lock, &seen);
    connect(&lock, &DistributedLock::acquired, this, [&] { doomed.destroy(); });
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    QVERIFY(isFree());

    // One of two: the other one keeps its level.
    doomed = take(&lock, &seen);
    Seen kept;
    const Task other = take(&lock, &kept);
    QVERIFY(eventually([&] { return kept.resumed; }));
    QVERIFY(kept.held);
    QCOMPARE(lock.holdCount(), 1);
    QVERIFY(!seen.resumed);
}

void tst_Coroutines::destroyedWithItsLock()
{
    LockRegistry registry(m_server.url());
    DistributedLock holder(&registry, m_name);
    QVERIFY(acquireNow(&holder));
    Task doomed = [](LockRegistry *registry, QString name) -> Task {
        DistributedLock lock(registry, name);
        const auto guard = co_await lock.acquireAwaitable();
    }(&registry, m_name);
    QVERIFY(eventually([&] { return lockKeys(m_server).size() == 2; })); // queued
    doomed.destroy();
    QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{key()}; }));
    holder.release();
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::lockDestroyedWhileAwaited()
{
    QFETCH(bool, queued);
    DistributedLock holder(registry(), m_name);
    QVERIFY(acquireNow(&holder));
    auto lock = std::make_unique<DistributedLock>(registry(), m_name);
    Seen seen, second;
    const Task task = take(lock.get(), &seen);
    const Task other = take(lock.get(), &second);
    if (queued)
        QVERIFY(eventually([&] { return lock->queuePosition() == 0; }));
    lock.reset();
    QVERIFY(!seen.resumed); // not from inside the destructor
    QVERIFY(eventually([&] { return seen.resumed && second.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::CancelledError);
    QCOMPARE(second.result.error, DistributedLock::CancelledError);
    QVERIFY2(seen.result.errorString.contains(m_name), qPrintable(seen.result.errorString));
    QVERIFY(!seen.guard);
    QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{key()}; }));
}

void tst_Coroutines::lockDestroyedBeforeAwait()
{
    auto lock = std::make_unique<DistributedLock>(registry(), m_name);
    const auto awaitable = lock->acquireAwaitable();
    lock.reset();
    LockResult result;
    const Task task = [](const QDistLock::AcquireAwaitable &awaitable, LockResult *result) -> Task {
        const auto guard = co_await awaitable;
        *result = guard.result();
    }(awaitable, &result);
    QVERIFY(task.isDone());
    QCOMPARE(result.error, DistributedLock::CancelledError);
    QCOMPARE(result.errorString, u"Lock \"%1\": the lock object was destroyed"_s.arg(m_name));
}

void tst_Coroutines::lockDestroyedByTheAcquiredSignal()
{
    auto *lock = new DistributedLock(registry(), m_name);
    connect(lock, &DistributedLock::acquired, lock, [lock] { delete lock; });
    Seen seen;
    const Task task = take(lock, &seen);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::CancelledError);
    QVERIFY(!seen.guard);
    QCOMPARE(seen.guard.fencingToken(), 0);
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::lockDestroyedByTheCoroutine()
{
    auto *registry = new LockRegistry(m_server.url());
    auto *lock = new DistributedLock(registry, m_name);
    const Task task = [](LockRegistry *registry, DistributedLock *lock) -> Task {
        const auto guard = co_await lock->acquireAwaitable();
        delete lock;
        delete registry;
    }(registry, lock);
    QVERIFY(eventually([&] { return task.isDone(); }));
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::registryDestroyedWhileAwaited()
{
    occupy();
    auto registry = std::make_unique<LockRegistry>(m_server.url());
    DistributedLock lock(registry.get(), m_name);
    lock.setWaitTime(60s);
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    registry.reset();
    QVERIFY(!seen.resumed);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::ConnectionError);
}

void tst_Coroutines::cancelledWhileAwaited()
{
    occupy();
    DistributedLock lock(registry(), m_name);
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    lock.cancel();
    QVERIFY(!seen.resumed);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QCOMPARE(seen.result.error, DistributedLock::CancelledError);
}

void tst_Coroutines::releasedByTheAcquiredSignal()
{
    DistributedLock lock(registry(), m_name);
    connect(&lock, &DistributedLock::acquired, &lock, &DistributedLock::release);
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.resumed; }));
    QVERIFY(!seen.held); // the state matches the result
    QCOMPARE(seen.result.error, DistributedLock::CancelledError);
    QVERIFY2(seen.result.errorString.contains(QLatin1String("the hold ended")), qPrintable(seen.result.errorString));
}

void tst_Coroutines::guardIsMoved()
{
    DistributedLock first(registry(), m_name);
    DistributedLock second(registry(), m_name + u'b');
    LockGuard none;
    QVERIFY(!none);
    QVERIFY(!none.result().isAcquired());

    Seen a, b;
    const Task taskA = take(&first, &a);
    const Task taskB = take(&second, &b);
    QVERIFY(eventually([&] { return a.held && b.held; }));

    LockGuard guard(std::move(a.guard));
    QVERIFY(guard.isHeld());
    QVERIFY(!a.guard.isHeld());
    QCOMPARE(first.holdCount(), 1);
    LockGuard &alias = guard;
    guard = std::move(alias); // onto itself
    QVERIFY(guard.isHeld());

    guard = std::move(b.guard); // gives the first one back
    QCOMPARE(guard.fencingToken(), second.fencingToken());
    QVERIFY(second.isHeld());
    QVERIFY(!first.isHeld());
    QVERIFY(eventually([&] { return !m_server.exists(key()); }));
    QVERIFY(m_server.exists(key() + 'b'));
}

void tst_Coroutines::guardReleases()
{
    DistributedLock lock(registry(), m_name);
    struct
    {
        bool heldBetween = true;
        bool first = false;
        bool second = true;
        qint64 token = 0;
        bool keyGone = false;
    } seen;
    const Task task = [](DistributedLock *lock, decltype(seen) *seen, Support::RedisServer *server,
                         QByteArray key) -> Task {
        auto guard = co_await lock->acquireAwaitable();
        auto released = guard.release();
        seen->heldBetween = guard.isHeld();
        seen->first = co_await released;
        seen->keyGone = !server->exists(key);
        seen->second = co_await guard.release();
        seen->token = guard.fencingToken();
    }(&lock, &seen, &m_server, key());
    QVERIFY(eventually([&] { return task.isDone(); }));
    QVERIFY(!seen.heldBetween);
    QVERIFY(seen.first);
    QVERIFY(seen.keyGone);
    QVERIFY(!seen.second);
    QVERIFY(seen.token > 0);
}

void tst_Coroutines::guardOutlivesTheLock()
{
    auto lock = std::make_unique<DistributedLock>(registry(), m_name);
    Seen seen;
    const Task task = take(lock.get(), &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    const qint64 token = seen.guard.fencingToken();
    lock.reset();
    QVERIFY(!seen.guard.isHeld());
    QCOMPARE(seen.guard.fencingToken(), token);
    const auto released = seen.guard.release();
    QVERIFY(released.future().isFinished());
    QVERIFY(!released.future().result());
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::guardLeavesALaterHoldAlone()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    QVERIFY(eventually([&] { return isSubscribed(); }));
    QVERIFY(eventually([&, forced = registry()->forceRelease(m_name)] { return forced.isFinished(); }));
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(!seen.guard);
    QVERIFY(acquireNow(&lock)); // a hold of somebody else, on the same object
    QVERIFY(!seen.guard);
    seen.guard = {};
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.holdCount(), 1);
}

void tst_Coroutines::guardOfALostHoldLeavesAcquiresAlone()
{
    StillRegistry registry(m_server.url());
    const auto advance = [&](milliseconds time) { registry.pass(time); };
    TestLock lock(&registry, m_name, options(30s, LockOptions::Forever));
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    connect(&lock, &DistributedLock::lost, &lock, &DistributedLock::acquire);
    occupy();
    advance(11s); // a renewal
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    seen.guard = {};
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    m_server.command({"DEL", key()});
    QVERIFY(eventually([&] {
        advance(5ms);
        return lock.isHeld();
    }));
}

void tst_Coroutines::releaseAwaitableIsDropped()
{
    DistributedLock lock(registry(), m_name);
    Task task = [](DistributedLock *lock) -> Task {
        auto guard = co_await lock->acquireAwaitable();
        guard.release();
        co_await guard.release();
        auto again = co_await lock->acquireAwaitable();
        co_await again.release(); // destroyed here
        qFatal("resumed after its destruction");
    }(&lock);
    connect(&lock, &DistributedLock::released, this, [&, count = 0]() mutable {
        if (++count == 2)
            task.destroy();
    });
    Spies spies(&lock);
    QVERIFY(eventually([&] { return spies.released.size() == 2; }));
    processEvents();
    QVERIFY(isFree());
}

void tst_Coroutines::releaseAwaitedWhileLockIsDestroyed()
{
    auto lock = std::make_unique<DistributedLock>(registry(), m_name);
    bool resumed = false;
    bool confirmed = true;
    const Task task = [](DistributedLock *lock, bool *resumed, bool *confirmed) -> Task {
        auto guard = co_await lock->acquireAwaitable();
        *confirmed = co_await guard.release();
        *resumed = true;
    }(lock.get(), &resumed, &confirmed);
    bool releasing = false;
    connect(lock.get(), &DistributedLock::stateChanged, this, [&] {
        if (lock->state() != DistributedLock::Releasing)
            return;
        releasing = true;
        QMetaObject::invokeMethod(
                this,
                [&] {
                    lock.reset();
                    QVERIFY(!resumed);
                },
                Qt::QueuedConnection);
    });
    QVERIFY(eventually([&] { return releasing && !lock; }));
    QVERIFY(eventually([&] { return resumed; }));
    QVERIFY(!confirmed);
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::releaseAwaitedByTwo()
{
    DistributedLock lock(registry(), m_name);
    Seen seen;
    const Task holder = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    const auto awaitRelease = [](ReleaseAwaitable released, bool *confirmed) -> Task {
        *confirmed = co_await released;
    };
    const ReleaseAwaitable released = seen.guard.release();
    bool first = false;
    bool second = false;
    const Task one = awaitRelease(released, &first);
    const Task two = awaitRelease(released, &second);
    QVERIFY(!one.isDone() && !two.isDone());
    QVERIFY(eventually([&] { return one.isDone() && two.isDone(); }));
    QVERIFY(first);
    QVERIFY(second);
}

/// A QFuture has room for one continuation only: that is the application's.
void tst_Coroutines::releaseAwaitedBesideAContinuation()
{
    DistributedLock lock(registry(), m_name);
    int logged = 0;
    bool confirmed = false;
    const Task task = [](DistributedLock *lock, int *logged, bool *confirmed) -> Task {
        auto guard = co_await lock->acquireAwaitable();
        const auto released = guard.release();
        released.future().then([logged](bool) { ++*logged; });
        *confirmed = co_await released;
    }(&lock, &logged, &confirmed);
    QVERIFY(eventually([&] { return task.isDone(); }));
    QVERIFY(confirmed);
    QCOMPARE(logged, 1);
}

void tst_Coroutines::releaseAwaitedAfterItsFutureWasCancelled()
{
    DistributedLock lock(registry(), m_name);
    bool confirmed = true;
    const Task task = [](DistributedLock *lock, bool *confirmed) -> Task {
        auto guard = co_await lock->acquireAwaitable();
        const auto released = guard.release();
        released.future().cancel();
        *confirmed = co_await released;
    }(&lock, &confirmed);
    QVERIFY(eventually([&] { return task.isDone(); }));
    QVERIFY(!confirmed); // nobody knows
    QVERIFY(eventually([&] { return isFree(); }));
}

/// The frame is destroyed inside the call that resumes it.
void tst_Coroutines::frameEndsWithItsLastResumption()
{
    struct Detached
    {
        struct promise_type
        {
            Detached get_return_object() { return {}; }
            std::suspend_never initial_suspend() noexcept { return {}; }
            std::suspend_never final_suspend() noexcept { return {}; }
            void return_void() {}
            void unhandled_exception() { std::terminate(); }
        };
    };
    LockRegistry registry(m_server.url());
    const auto ended = std::make_shared<int>(0);
    for (int i = 0; i < 2; ++i) {
        [](LockRegistry *registry, QString name, bool explicitly, std::shared_ptr<int> ended) -> Detached {
            DistributedLock lock(registry, name);
            auto guard = co_await lock.acquireAwaitable();
            if (explicitly)
                co_await guard.release();
            ++*ended;
        }(&registry, m_name, i == 1, ended);
    }
    QVERIFY(eventually([&] { return *ended == 2; }));
    QVERIFY(eventually([&] { return isFree() && ended.use_count() == 1; }));
}

void tst_Coroutines::guardDestroyedInAnotherThread()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    const LogCapture log;
    std::thread([guard = std::move(seen.guard)] {}).join();
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    QVERIFY(isFree());
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QCOMPARE(log.count({m_name, u"LockGuard"_s, u"in the wrong thread"_s, u"the main thread"_s}), 1);
}

void tst_Coroutines::guardReleasedInAnotherThread()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    const LogCapture log;
    std::atomic<bool> ended{false};
    bool confirmed = false;
    bool again = true;
    std::thread thread([&] {
        LockGuard guard = std::move(seen.guard);
        confirmed = guard.release().future().result();
        again = guard.release().future().result();
        ended = true;
    });
    QVERIFY(eventually([&] { return ended.load(); }));
    thread.join();
    QVERIFY(confirmed);
    QVERIFY(!again);
    QCOMPARE(lock.spies.released.size(), 1);
    QVERIFY(isFree());
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
}

/// Only its own thread may ask: anywhere else the answer is the safe one.
void tst_Coroutines::guardAskedInAnotherThread()
{
    DistributedLock lock(registry(), m_name);
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    const LogCapture log;
    std::thread([&seen] {
        for (int i = 0; i < 10; ++i)
            QVERIFY(!seen.guard.isHeld());
        QVERIFY(seen.guard.fencingToken() > 0);
    }).join();
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QVERIFY(seen.guard.isHeld());
    seen.guard = {};
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::guardOfNothingInAnotherThread()
{
    occupy();
    DistributedLock lock(registry(), m_name);
    lock.setWaitTime(0ms);
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.resumed; }));
    const LogCapture log;
    std::thread([guard = std::move(seen.guard)] { QVERIFY(!guard.isHeld()); }).join();
    std::thread([guard = std::move(seen.guard)] {}).join(); // moved from
    QCOMPARE(log.messages(QtWarningMsg).size(), 0);
}

void tst_Coroutines::guardInAnotherThreadLeavesALaterHoldAlone()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    const Task task = take(&lock, &seen);
    QVERIFY(eventually([&] { return seen.held; }));
    QVERIFY(releaseNow(&lock));
    QVERIFY(acquireNow(&lock));
    const LogCapture log;
    std::thread([guard = std::move(seen.guard)] {}).join();
    processEvents();
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.holdCount(), 1);
}

void tst_Coroutines::guardDestroyedAfterTheThreadOfItsLock()
{
    QFETCH(const bool, lockDestroyed);
    const LogCapture log;
    Seen seen;
    Task task;
    std::unique_ptr<LockRegistry> registry;
    std::unique_ptr<DistributedLock> lock;
    bool held = false;
    std::unique_ptr<QThread> thread(QThread::create([&] {
        registry = std::make_unique<LockRegistry>(m_server.url());
        lock = std::make_unique<DistributedLock>(registry.get(), m_name);
        lock->setOptions(options(1h));
        task = take(lock.get(), &seen);
        held = eventually([&] { return seen.held; });
        if (lockDestroyed) {
            lock.reset();
            registry.reset();
        }
    }));
    thread->start();
    QVERIFY(thread->wait(60'000));
    QVERIFY(held);
    const bool asked = seen.guard.isHeld();
    QVERIFY(!asked);
    seen.guard = {};
    QCOMPARE(log.messages(QtWarningMsg).size(), lockDestroyed ? 0 : 1);
    thread.reset();
    lock.reset();
    registry.reset();
    if (!lockDestroyed) // nobody could release it: its lease ends
        m_server.command({"PEXPIRE", key(), "1"});
    QVERIFY(eventually([&] { return isFree(); }));
}

void tst_Coroutines::guardRacesWithItsLock()
{
    LockRegistry registry(QUrl(u"memory:"_s));
    const LogCapture log;
    for (int i = 0; i < 200; ++i) {
        auto lock = std::make_unique<DistributedLock>(&registry, m_name);
        Seen seen;
        const Task task = take(lock.get(), &seen);
        QVERIFY(eventually([&] { return seen.held; }));
        QSemaphore begun;
        std::thread thread([&begun, guard = std::move(seen.guard)]() mutable {
            const LockGuard mine = std::move(guard);
            begun.release();
        });
        begun.acquire();
        lock.reset();
        thread.join();
    }
    DistributedLock next(&registry, m_name);
    next.tryAcquire();
    QVERIFY(eventually([&] { return next.isHeld(); }));
}

void tst_Coroutines::awaitedInAnotherThread()
{
    TestLock lock(registry(), m_name, {});
    Seen seen;
    const LogCapture log;
    std::thread([&] {
        const Task task = take(&lock, &seen);
        QVERIFY(task.isDone());
    }).join();
    QVERIFY(seen.resumed);
    QVERIFY(!seen.held);
    QCOMPARE(seen.result.error, DistributedLock::OptionsError);
    QVERIFY(seen.result.errorString.contains(QLatin1String("wrong thread")));
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QVERIFY(isFree());
}

void tst_Coroutines::frameDestroyedInAnotherThread()
{
    QFETCH(const bool, queued);
    LockRegistry otherRegistry(m_server.url());
    DistributedLock holder(&otherRegistry, m_name);
    if (queued)
        QVERIFY(acquireNow(&holder));
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, m_name);
    lock.setWaitTime(LockOptions::Forever);
    Spies spies(&lock);
    Seen seen;
    Task doomed = take(&lock, &seen);
    const LogCapture log;
    const auto destroy = [&doomed] { std::thread([frame = std::move(doomed)] {}).join(); };
    if (queued) {
        QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
        destroy();
        QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
        QCOMPARE(spies.failure(), DistributedLock::CancelledError);
        QCOMPARE(lock.state(), DistributedLock::Unlocked);
        QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{key()}; })); // no place in the queue
        holder.release();
    } else {
        // Posted before the resumption is, so it comes first.
        connect(&lock, &DistributedLock::acquired, &lock,
                [&] { QMetaObject::invokeMethod(&lock, destroy, Qt::QueuedConnection); });
        QVERIFY(eventually([&] { return spies.released.size() == 1; }));
        QCOMPARE(spies.acquired.size(), 1);
    }
    QVERIFY(eventually([&] { return isFree(); }));
    processEvents();
    QVERIFY(!seen.resumed);
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QCOMPARE(log.count({m_name, u"in the wrong thread"_s}), 1);
}

void tst_Coroutines::frameDestroyedAfterTheThreadOfItsLock()
{
    occupy();
    Seen seen;
    Task task;
    std::unique_ptr<QThread> thread(QThread::create([&] {
        LockRegistry registry(m_server.url());
        DistributedLock lock(&registry, m_name);
        lock.setWaitTime(LockOptions::Forever);
        task = take(&lock, &seen);
        QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    }));
    thread->start();
    QVERIFY(thread->wait(60'000));
    const LogCapture log;
    QVERIFY(!seen.resumed);
    task.destroy();
    QCOMPARE(log.messages(QtWarningMsg).size(), 0);
    QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{key()}; }));
}

QTEST_GUILESS_MAIN(tst_Coroutines)
#include "tst_coroutines.moc"
