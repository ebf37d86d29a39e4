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

#include <coroutine>
#include <memory>
#include <utility>

namespace QDistLock {

namespace Detail {

/// Resumes a coroutine from this thread's event loop once a future has finished or was cancelled; not any
/// more when this has gone. (Not by a continuation: a future has room for one, which may be somebody's.)
class CoroutineResumption
{
public:
    template<typename T>
    void resumeAfter(const QFuture<T> &future, std::coroutine_handle<> coroutine)
    {
        auto watcher = std::make_unique<QFutureWatcher<T>>();
        QObject::connect(watcher.get(), &QFutureWatcherBase::finished, watcher.get(), [this, coroutine] {
            m_watcher.release()->deleteLater(); // the frame may end here, inside a signal of the watcher
            coroutine.resume();
        });
        watcher->setFuture(future);
        m_watcher = std::move(watcher);
    }

private:
    std::unique_ptr<QFutureWatcherBase> m_watcher;
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
    One level of a lock, given back when the guard goes.

    Got from `co_await lock.acquireAwaitable()`. Going never blocks, and touches only this acquisition: a
    hold that ended meanwhile, and was maybe followed by another one of the same object, is left alone.
    The lock may be destroyed first.

    Thread: the lock's own. Errors: busy, timed out and all others are in result(), nothing throws.
    Ownership: does not own the lock.
*/
class [[nodiscard]] LockGuard
{
public:
    /// Guards nothing.
    LockGuard() = default;
    LockGuard(LockGuard &&other) noexcept
        : m_lock(std::exchange(other.m_lock, nullptr))
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
    ~LockGuard()
    {
        if (DistributedLock *const lock = takeLock())
            lock->release();
    }

    /// How the acquire ended; kept after the end of the hold.
    const LockResult &result() const noexcept { return m_result; }
    /// As isHeld().
    explicit operator bool() const { return isHeld(); }
    /// Reads the clock: false from the local deadline on, and once released or lost.
    bool isHeld() const { return ownsLevel() && m_lock->isHeld(); }
    /// For the guarded resource; 0 if not acquired, kept after the end of the hold.
    qint64 fencingToken() const noexcept { return m_result.fencingToken; }

    /// Gives the level back now; false from the awaitable if there is none any more.
    ReleaseAwaitable release()
    {
        DistributedLock *const lock = takeLock();
        return ReleaseAwaitable(lock ? lock->releaseAsync() : QtFuture::makeReadyFuture(false));
    }

private:
    friend class AcquireAwaitable;
    Q_DISABLE_COPY(LockGuard)
    LockGuard(DistributedLock *lock, const LockResult &result)
        : m_lock(lock)
        , m_result(result)
    {
    }

    bool ownsLevel() const
    {
        return m_lock && m_result.fencingToken != 0 && m_lock->fencingToken() == m_result.fencingToken;
    }
    DistributedLock *takeLock()
    {
        Q_ASSERT_X(!m_lock || m_lock->thread() == QThread::currentThread(), "LockGuard",
                   "a guard is used in the thread of its lock");
        const bool owns = ownsLevel();
        DistributedLock *const lock = std::exchange(m_lock, nullptr);
        return owns ? lock : nullptr;
    }

    QPointer<DistributedLock> m_lock;
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
    while it waits, its own acquire is withdrawn, or given back, and other acquires of the same lock go on.
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
            if (!m_waiting || !m_lock)
                return;
            if (!m_future.isFinished())
                m_lock->withdrawAcquire(m_id);
            else
                const LockGuard givenBack(m_lock, m_future.result());
        }

        bool await_ready() const { return !m_lock; }
        bool await_suspend(std::coroutine_handle<> coroutine)
        {
            m_future = m_lock->prepareAcquire(&m_id);
            m_waiting = true;
            if (m_future.isFinished()) // refused: there may be no event loop to resume from
                return false;
            m_resumption.resumeAfter(m_future, coroutine);
            m_lock->startAcquire(m_id, m_once); // its NOTIFY signals may destroy this coroutine
            return true;
        }
        [[nodiscard]] LockGuard await_resume()
        {
            LockResult result;
            if (std::exchange(m_waiting, false))
                result = m_future.result();
            LockGuard guard(result.isAcquired() ? m_lock.data() : nullptr, result);
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
