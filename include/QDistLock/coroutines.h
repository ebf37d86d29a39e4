// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_COROUTINES_H
#define QDISTLOCK_COROUTINES_H

#ifndef __cpp_impl_coroutine
#  error "QDistLock/Coroutines needs C++20 coroutines: set CMAKE_CXX_STANDARD to 20, or pass -std=c++20"
#endif

#include <QDistLock/distributedlock.h>
#include <QDistLock/impl/coroutineresumption.h>
#include <QDistLock/impl/lockreference.h>
#include <QDistLock/lockresult.h>

#include <QtCore/qfuture.h>
#include <QtCore/qpointer.h>

#include <coroutine>
#include <utility>

namespace QDistLock {

/*!
    The result of LockGuard::release(). The release has begun; await this object or use its future() to learn how it
    ends. Destroying the object changes nothing.

    `co_await` returns true if the level was released and, for the last level, the server has confirmed the release. It
    returns false if the future was cancelled before. The coroutine resumes from the event loop of the thread that
    awaits, and may be destroyed while it waits.
*/
class ReleaseAwaitable
{
public:
    /// For LockGuard::release(); \a future is that of DistributedLock::releaseAsync().
    explicit ReleaseAwaitable(const QFuture<bool> &future)
        : m_future(future)
    {
    }
    /// Has the value that `co_await` returns.
    QFuture<bool> future() const { return m_future; }

    /// The awaiter, which only `co_await` uses.
    class Awaiter
    {
    public:
        /// Called by the compiler.
        ///@{
        explicit Awaiter(const QFuture<bool> &future)
            : m_future(future)
        {
        }
        bool await_ready() const { return m_future.isFinished(); }
        void await_suspend(std::coroutine_handle<> coroutine) { m_resumption.resumeAfter(m_future, coroutine); }
        bool await_resume() const { return m_future.resultCount() > 0 && m_future.result(); }
        ///@}

    private:
        Q_DISABLE_COPY_MOVE(Awaiter)
        QFuture<bool> m_future;
        Detail::CoroutineResumption m_resumption;
    };
    /// Waits for the end of the release.
    Awaiter operator co_await() const { return Awaiter(m_future); }

private:
    QFuture<bool> m_future;
};

/*!
    One level of a lock, which the destructor releases. The result of `co_await lock.acquireAwaitable()`.

    Destruction never blocks, and releases only this acquisition: if its hold has ended, a later hold of the same lock
    object is not affected. The lock object may be destroyed before the guard.

    Thread: that of the lock object. If the guard is released or destroyed in another thread, the event loop of the
    lock's thread releases the level, and a warning is logged, once for each lock; isHeld() is false in that thread. If
    the lock's thread has ended, the hold ends on the server with its lease.
    Errors: busy, timed out and all others are in result(); no function throws.
    Ownership: does not own the lock.
*/
class [[nodiscard]] LockGuard
{
public:
    /// A guard without a lock.
    LockGuard()
    {
        using namespace Qt::StringLiterals;
        m_result = {DistributedLock::CancelledError, u"no lock was acquired"_s, 0};
    }
    /// The level passes to this guard; \a other keeps its result() only.
    LockGuard(LockGuard &&other) noexcept
        : m_lock(std::exchange(other.m_lock, {}))
        , m_hold(std::exchange(other.m_hold, 0))
        , m_result(other.m_result)
    {
    }
    /// Releases the level of this guard, and takes that of \a other.
    LockGuard &operator=(LockGuard &&other) noexcept
    {
        LockGuard before(std::move(other));
        std::swap(m_lock, before.m_lock);
        std::swap(m_hold, before.m_hold);
        std::swap(m_result, before.m_result);
        return *this;
    }
    /// Releases the level, without waiting.
    ~LockGuard() { m_lock.release(m_hold); }

    /// How the acquire ended; kept after the end of the hold.
    const LockResult &result() const noexcept { return m_result; }
    /// Reads the clock: false from the local deadline on, and after a release or a loss. False in any thread but the
    /// lock's.
    ///@{
    explicit operator bool() const { return isHeld(); }
    bool isHeld() const { return m_lock.isHeld(m_hold); }
    ///@}
    /// To be passed to the guarded resource; 0 if not acquired, kept after the end of the hold.
    qint64 fencingToken() const noexcept { return m_result.fencingToken; }

    /// Releases the level now. The awaitable returns false if the level has already ended.
    ReleaseAwaitable release()
    {
        // m_lock is cleared first, because a slot of a NOTIFY signal may destroy this guard.
        const Detail::LockReference lock = std::exchange(m_lock, {});
        return ReleaseAwaitable(lock.releaseAsync(std::exchange(m_hold, 0)));
    }

private:
    friend class AcquireAwaitable;
    Q_DISABLE_COPY(LockGuard)
    LockGuard(const Detail::LockReference &lock, const LockResult &result)
        : m_lock(lock)
        , m_hold(lock.holdNumber(result.fencingToken))
        , m_result(result)
    {
    }

    Detail::LockReference m_lock;
    quint64 m_hold = 0; ///< see DistributedLock::holdNumber()
    LockResult m_result;
};

/*!
    The result of DistributedLock::acquireAwaitable(). The acquire begins with `co_await`; each `co_await` is a separate
    acquire and returns a LockGuard:

    \code
    DistributedLock lock(u"report:daily"_s);
    if (auto guard = co_await lock.acquireAwaitable())
        co_await build(guard.fencingToken());
    else
        qWarning() << guard.result().errorString;
    \endcode

    The coroutine resumes from the event loop, never from inside a call. (Exception: an acquire in the wrong thread, or
    in a thread without an event loop, fails at once with OptionsError.) If the coroutine is destroyed while it waits,
    its acquire is cancelled, or the lock released if it was already granted; other acquires of the same lock object
    continue. Destruction in another thread has the effects described in LockGuard. If the lock object is destroyed, the
    coroutine resumes with CancelledError.

    Keep the guard: `co_await lock.acquireAwaitable();` alone releases the lock at once. Clang warns of that, GCC 12
    does not.

    Under the lock: the coroutine, while its guard exists, over every `co_await`. Not: other code that runs while it
    waits.

    The lock object is the owner, not the coroutine: two coroutines that await the same lock object both get it. If they
    must exclude each other, give each its own lock object.

    Thread: that of the lock object, in which the coroutine also resumes. Works with any coroutine type.
*/
class [[nodiscard]] AcquireAwaitable
{
public:
    /// The awaiter, which only `co_await` uses.
    class Awaiter
    {
    public:
        /// Called by the compiler.
        ///@{
        Awaiter(const QPointer<DistributedLock> &lock, const QString &name)
            : m_lock(lock)
            , m_name(name)
        {
        }
        ~Awaiter()
        {
            m_resumption.stop(); // because a slot of a NOTIFY signal may run an event loop
            if (m_waiting)
                m_reference.withdraw(m_id, m_future);
        }

        bool await_ready() const { return !m_lock; }
        bool await_suspend(std::coroutine_handle<> coroutine)
        {
            m_future = m_lock->prepareAcquire(&m_id);
            m_waiting = true;
            if (m_future.isFinished()) // refused; there may be no event loop that could resume the coroutine
                return false;
            m_reference = Detail::LockReference(m_lock);
            m_resumption.resumeAfter(m_future, coroutine);
            m_lock->startAcquire(m_id); // a slot of its NOTIFY signals may destroy this coroutine
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
        ///@}

    private:
        Q_DISABLE_COPY_MOVE(Awaiter)
        LockResult cancelled(const char *what) const
        {
            using namespace Qt::StringLiterals;
            return {DistributedLock::CancelledError, u"Lock %1: %2"_s.arg(Detail::quoted(m_name), QLatin1String(what)),
                    0};
        }

        QPointer<DistributedLock> m_lock;
        QString m_name;
        QFuture<LockResult> m_future;
        Detail::LockReference m_reference; ///< set by await_suspend()
        Detail::CoroutineResumption m_resumption;
        quint64 m_id = 0;
        bool m_waiting = false;
    };
    /// Begins an acquire, and waits for its end.
    Awaiter operator co_await() const { return Awaiter(m_lock, m_name); }

private:
    friend class DistributedLock;
    explicit AcquireAwaitable(DistributedLock *lock)
        : m_lock(lock)
        , m_name(lock->name())
    {
    }

    QPointer<DistributedLock> m_lock;
    QString m_name;
};

inline AcquireAwaitable DistributedLock::acquireAwaitable()
{
    return AcquireAwaitable(this);
}

} // namespace QDistLock

#endif
