// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_COROUTINES_H
#define QDISTLOCK_COROUTINES_H

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockresult.h>

#include <QtCore/qfuturewatcher.h>
#include <QtCore/qpointer.h>
#include <QtCore/qthread.h>

#ifndef __cpp_impl_coroutine
#  error "QDistLock/Coroutines needs C++20 coroutines: set CMAKE_CXX_STANDARD to 20, or pass -std=c++20"
#endif

#include <atomic>
#include <coroutine>
#include <memory>
#include <utility>

namespace QDistLock {

namespace Detail {

/// Resumes a coroutine from this thread's event loop once a future has finished or was cancelled, unless this object is
/// stopped or destroyed before, in whatever thread. (Not by a continuation: a future has room for one, which may be somebody's.)
class CoroutineResumption
{
public:
    CoroutineResumption() = default;
    ~CoroutineResumption() { stop(); }

    void stop()
    {
        // Whoever takes the coroutine first, this function or finished(), disposes of the watcher.
        if (!m_coroutine || !m_coroutine->exchange(nullptr))
            return;
        const QThread *const thread = m_watcher->thread();
        if (!thread || thread == QThread::currentThread() || thread->isFinished())
            delete m_watcher;
        else
            m_watcher->deleteLater();
    }

    template<typename T>
    void resumeAfter(const QFuture<T> &future, std::coroutine_handle<> coroutine)
    {
        m_coroutine = std::make_shared<std::atomic<void *>>(coroutine.address());
        auto *const watcher = new QFutureWatcher<T>;
        m_watcher = watcher;
        QObject::connect(watcher, &QFutureWatcherBase::finished, watcher, [watcher, waiting = m_coroutine] {
            if (void *const address = waiting->exchange(nullptr)) {
                watcher->deleteLater(); // the frame may end here, inside a signal of the watcher
                std::coroutine_handle<>::from_address(address).resume();
            }
        });
        watcher->setFuture(future);
    }

private:
    Q_DISABLE_COPY_MOVE(CoroutineResumption)
    std::shared_ptr<std::atomic<void *>> m_coroutine; ///< null: nobody waits any more
    QFutureWatcherBase *m_watcher = nullptr;
};

} // namespace Detail

/*!
    What LockGuard::release() returns: the release has begun, and whoever wants to know its end awaits
    this or takes the future(). Dropping it changes nothing.

    `co_await` gives true when the level was given back and, on the last one, the server confirmed it.
    It resumes from the event loop of the thread that awaits, and gives false if the future was cancelled
    before its end; the coroutine may be destroyed meanwhile.
*/
class ReleaseAwaitable
{
public:
    explicit ReleaseAwaitable(const QFuture<bool> &future)
        : m_future(future)
    {
    }
    QFuture<bool> future() const { return m_future; }

    class Awaiter
    {
    public:
        explicit Awaiter(const QFuture<bool> &future)
            : m_future(future)
        {
        }
        bool await_ready() const { return m_future.isFinished(); }
        void await_suspend(std::coroutine_handle<> coroutine)
        {
            m_resumption.resumeAfter(m_future, coroutine);
        }
        bool await_resume() const { return m_future.resultCount() > 0 && m_future.result(); }

    private:
        Q_DISABLE_COPY_MOVE(Awaiter)
        QFuture<bool> m_future;
        Detail::CoroutineResumption m_resumption;
    };
    Awaiter operator co_await() const { return Awaiter(m_future); }

private:
    QFuture<bool> m_future;
};

/*!
    One level of a lock, given back when the guard is destroyed.

    Got from `co_await lock.acquireAwaitable()`. Destroying it never blocks, and touches only this acquisition: a
    hold that ended meanwhile, and was maybe followed by another one of the same object, is left alone.
    The lock may be destroyed first.

    Thread: the lock's own. If the guard is released or destroyed in another thread, the lock's event loop gives the level
    back, and a warning is logged, once for each lock; isHeld() is false there. If the lock's thread has ended, the server
    ends the hold with its lease.
    Errors: busy, timed out and all others are in result(), nothing throws.
    Ownership: does not own the lock.
*/
class [[nodiscard]] LockGuard
{
public:
    /// Guards nothing.
    LockGuard() = default;
    LockGuard(LockGuard &&other) noexcept
        : m_lock(std::exchange(other.m_lock, {}))
        , m_result(other.m_result)
    {
    }
    LockGuard &operator=(LockGuard &&other) noexcept
    {
        LockGuard before(std::move(other));
        std::swap(m_lock, before.m_lock);
        std::swap(m_result, before.m_result);
        return *this;
    }
    ~LockGuard() { m_lock.release(m_result.fencingToken); }

    /// How the acquire ended; kept after the end of the hold.
    const LockResult &result() const noexcept { return m_result; }
    /// As isHeld().
    explicit operator bool() const { return isHeld(); }
    /// Reads the clock: false from the local deadline on, and once released or lost. False in another thread than the
    /// lock's.
    bool isHeld() const { return m_lock.isHeld(m_result.fencingToken); }
    /// For the guarded resource; 0 if not acquired, kept after the end of the hold.
    qint64 fencingToken() const noexcept { return m_result.fencingToken; }

    /// Gives the level back now; false from the awaitable if there is none any more.
    ReleaseAwaitable release()
    {
        // Emptied first: a slot of a NOTIFY signal may destroy this guard.
        const Detail::LockReference lock = std::exchange(m_lock, {});
        return ReleaseAwaitable(lock.releaseAsync(m_result.fencingToken));
    }

private:
    friend class AcquireAwaitable;
    Q_DISABLE_COPY(LockGuard)
    LockGuard(const Detail::LockReference &lock, const LockResult &result)
        : m_lock(lock)
        , m_result(result)
    {
    }

    Detail::LockReference m_lock;
    LockResult m_result{DistributedLock::CancelledError, QStringLiteral("no lock was acquired"), 0};
};

/*!
    What DistributedLock::acquireAwaitable() returns. Nothing happens before `co_await`; each one is an
    acquire of its own, and gives a LockGuard:

    \code
    DistributedLock lock(u"report:daily"_s);
    if (auto guard = co_await lock.acquireAwaitable())
        co_await build(guard.fencingToken());
    else
        qWarning() << guard.result().errorString;
    \endcode

    The coroutine is resumed from the event loop, never from inside a call (except with OptionsError, where it
    was called in the wrong thread or in one without an event loop). If its frame is destroyed
    while it waits, its own acquire is withdrawn, or given back, and other acquires of the same lock go on; in another
    thread as LockGuard says.
    If the lock is destroyed, it resumes with CancelledError.

    Keep the guard: `co_await lock.acquireAwaitable();` alone gives the lock back at once. Clang warns of that, GCC 12
    does not.

    Under the lock: the coroutine, while its guard exists, over every `co_await`. Not: other code that runs while it waits.

    The lock object is the owner, not the coroutine: two coroutines that await the same object are both
    let in. For exclusion among them let each have an object of its own.

    Thread: the lock's own, and the coroutine resumes in it. Works with any coroutine type.
*/
class [[nodiscard]] AcquireAwaitable
{
public:
    class Awaiter
    {
    public:
        Awaiter(const QPointer<DistributedLock> &lock, const QString &name, bool once)
            : m_lock(lock)
            , m_name(name)
            , m_once(once)
        {
        }
        ~Awaiter()
        {
            m_resumption.stop(); // a slot of a NOTIFY signal may run an event loop
            if (m_waiting)
                m_reference.withdraw(m_id, m_future);
        }

        bool await_ready() const { return !m_lock; }
        bool await_suspend(std::coroutine_handle<> coroutine)
        {
            m_future = m_lock->prepareAcquire(&m_id);
            m_waiting = true;
            if (m_future.isFinished()) // refused: there may be no event loop to resume from
                return false;
            m_reference = Detail::LockReference(m_lock);
            m_resumption.resumeAfter(m_future, coroutine);
            m_lock->startAcquire(m_id, m_once); // its NOTIFY signals may destroy this coroutine
            return true;
        }
        [[nodiscard]] LockGuard await_resume()
        {
            LockResult result;
            if (std::exchange(m_waiting, false))
                result = m_future.result();
            LockGuard guard(m_reference, result);
            if (result.isAcquired() && !guard.isHeld())
                guard.m_result = cancelled(m_lock ? "the hold ended before the coroutine was resumed"
                                                  : "the lock object was destroyed");
            return guard;
        }

    private:
        Q_DISABLE_COPY_MOVE(Awaiter)
        LockResult cancelled(const char *what) const
        {
            return {DistributedLock::CancelledError,
                    QStringLiteral("Lock %1: %2").arg(Detail::quoted(m_name), QLatin1String(what)), 0};
        }

        QPointer<DistributedLock> m_lock;
        QString m_name;
        QFuture<LockResult> m_future;
        Detail::LockReference m_reference; ///< once it waits
        Detail::CoroutineResumption m_resumption;
        quint64 m_id = 0;
        bool m_once = false;
        bool m_waiting = false;
    };
    Awaiter operator co_await() const { return Awaiter(m_lock, m_name, m_once); }

private:
    friend class DistributedLock;
    AcquireAwaitable(DistributedLock *lock, bool once)
        : m_lock(lock)
        , m_name(lock->name())
        , m_once(once)
    {
    }

    QPointer<DistributedLock> m_lock;
    QString m_name;
    bool m_once;
};

inline AcquireAwaitable DistributedLock::acquireAwaitable()
{
    return AcquireAwaitable(this, false);
}

inline AcquireAwaitable DistributedLock::tryAcquireAwaitable()
{
    return AcquireAwaitable(this, true);
}

} // namespace QDistLock

#endif
