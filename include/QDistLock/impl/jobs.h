// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_JOBS_H
#define QDISTLOCK_IMPL_JOBS_H

#include <QDistLock/impl/keptarguments.h>
#include <QDistLock/lockresult.h>
#include <QDistLock/qdistlock_export.h>
#include <QDistLock/scopedlock.h>

#include <QtCore/qfuture.h>
#include <QtCore/qfuturewatcher.h>
#include <QtCore/qobject.h>
#include <QtCore/qpromise.h>
#include <QtCore/qvariant.h>

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>
#ifdef __cpp_impl_coroutine
#  include <coroutine>
#endif

namespace QDistLock {
namespace Detail {

/// Work that runs once, under locks.
class QDISTLOCK_EXPORT LockedJob : public std::enable_shared_from_this<LockedJob>
{
public:
    LockedJob();
    virtual ~LockedJob();

    /// Called in the receiver's thread. The locks are held as long as a copy of \a locks exists.
    virtual void run(const std::shared_ptr<void> &locks) = 0;
    /// Called after run(), when the locks are no longer held by it: finishes the job's future if the work has ended.
    virtual void finish();
    /// Called instead of run(). \a skipped: onBusy=skip or onBusy=latest dropped the call. Returns whether the job has
    /// reported this to its caller; LockedCalls reports it otherwise.
    virtual bool fail(const LockResult &result, bool skipped);
    /// Whether its future was cancelled.
    virtual bool isCanceled() const;
    /// A watcher of its future; null if it has none.
    virtual std::unique_ptr<QFutureWatcherBase> makeWatcher() const;

private:
    Q_DISABLE_COPY_MOVE(LockedJob)
};

/// Queues \a job in the thread of \a context, which drops it when \a context is destroyed; null = in the calling
/// thread.
QDISTLOCK_EXPORT void runLocked(const LockAddress &address, const LockOptions &options, QObject *context,
                                const std::shared_ptr<LockedJob> &job);
/// The result of a call that was cancelled before it ran, or whose job was destroyed before it finished.
QDISTLOCK_EXPORT LockResult cancelledCall();
/// Called in a catch block: logs the exception that the work under \a locks threw, since its future may have been
/// dropped.
QDISTLOCK_EXPORT void logException(const std::shared_ptr<void> &locks);
/// Calls \a ended in this thread's event loop once \a work has finished; if the thread ends first, destroys \a ended
/// without a call. Cancels \a work if \a outer is cancelled.
QDISTLOCK_EXPORT void whenFinished(const QFuture<void> &work, const QFuture<void> &outer,
                                   const std::function<void()> &ended);
/// Holds \a locks until \a work has finished or was cancelled; logs its exception.
QDISTLOCK_EXPORT void holdUntilFinished(const QFuture<void> &work, const std::shared_ptr<void> &locks);
/// Called with the result of a method, in its thread, while objects that the result points to still exist.
using ResultHook = std::function<void(const QVariant &result)>;
QDISTLOCK_EXPORT QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments,
                                                const ResultHook &returned);

template<typename T>
struct Flattened
{
    using Type = T;
    static constexpr bool IsFuture = false;
};
template<typename T>
struct Flattened<QFuture<T>>
{
    using Type = T;
    static constexpr bool IsFuture = true;
};

template<typename T>
struct IsStdFuture : std::false_type
{
};
template<typename T>
struct IsStdFuture<std::future<T>> : std::true_type
{
};
template<typename T>
struct IsStdFuture<std::shared_future<T>> : std::true_type
{
};

/// Whether coroutines return \a T.
template<typename T, typename = void>
struct IsCoroutine : std::false_type
{
};
#ifdef __cpp_impl_coroutine
template<typename T>
struct IsCoroutine<T, std::void_t<typename std::coroutine_traits<T>::promise_type>> : std::true_type
{
};
#else
template<typename T>
struct IsCoroutine<T, std::void_t<typename T::promise_type>> : std::true_type
{
};
#endif

/// Whether the work of a function has ended when it returns: false for a QFuture.
template<typename Returned>
constexpr bool isSynchronous()
{
    static_assert(
            std::is_void_v<Returned> || Flattened<Returned>::IsFuture
                    || !(IsCoroutine<Returned>::value || IsStdFuture<Returned>::value),
            "QDistLock: the lock would be released at the first co_await or before the future is ready. Return a "
            "QFuture, which is followed to its end; in a coroutine hold the lock with co_await lock.acquireAwaitable()");
    static_assert(!Flattened<Returned>::IsFuture || !Flattened<typename Flattened<Returned>::Type>::IsFuture,
                  "QDistLock: a QFuture inside a QFuture is not followed; return future.unwrap()");
    return !Flattened<Returned>::IsFuture;
}

/// A job with a future that always finishes: with the result or exception of the work, or with LockUnavailable.
template<typename T>
class FutureJob : public LockedJob
{
public:
    FutureJob() { m_promise.start(); }
    ~FutureJob() override
    {
        if (m_hasEnded)
            FutureJob::finish();
        else
            FutureJob::fail(cancelledCall(), false);
    }

    QFuture<T> future() const { return m_promise.future(); }
    bool fail(const LockResult &result, bool) override
    {
        m_promise.setException(LockUnavailable(result));
        end();
        FutureJob::finish();
        return true;
    }
    void finish() override
    {
        if (m_hasEnded && !std::exchange(m_isFinished, true))
            m_promise.finish(); // runs continuations
    }
    bool isCanceled() const override { return m_promise.isCanceled(); }
    std::unique_ptr<QFutureWatcherBase> makeWatcher() const override
    {
        auto watcher = std::make_unique<QFutureWatcher<T>>();
        watcher->setFuture(future());
        return watcher;
    }

protected:
    QPromise<T> &promise() { return m_promise; }
    /// Called when promise() has its result or exception; finish() then reports it.
    void end() { m_hasEnded = true; }

private:
    QPromise<T> m_promise;
    bool m_hasEnded = false;
    bool m_isFinished = false;
};

/// Throws the exception of \a finished, if it has one. (A continuation that is attached while another thread finishes
/// the future may run twice.)
inline void throwException(QFuture<void> finished)
{
    std::invoke(&QFuture<void>::waitForFinished, finished); // returns at once
}

template<typename Function>
using ReturnOf = std::decay_t<std::invoke_result_t<Function &>>;
template<typename Function>
using LockedFuture = QFuture<typename Flattened<ReturnOf<std::decay_t<Function>>>::Type>;

template<typename Function>
class FunctionJob final : public FutureJob<typename Flattened<ReturnOf<Function>>::Type>
{
    using Returned = ReturnOf<Function>;
    using T = typename Flattened<Returned>::Type;

public:
    explicit FunctionJob(Function function)
        : m_function(std::move(function))
    {
    }

    void run(const std::shared_ptr<void> &locks) override
    {
        try {
            if constexpr (!isSynchronous<Returned>()) {
                follow(m_function(), locks);
                return;
            } else if constexpr (std::is_void_v<T>) {
                m_function();
            } else {
                this->promise().addResult(m_function());
            }
        } catch (...) {
            logException(locks);
            this->promise().setException(std::current_exception());
        }
        this->end();
    }

private:
    /// Holds \a locks until \a inner has finished or was cancelled, and passes its result on.
    void follow(QFuture<T> inner, const std::shared_ptr<void> &locks)
    {
        auto self = std::static_pointer_cast<FunctionJob>(this->shared_from_this());
        whenFinished(QFuture<void>(inner), QFuture<void>(this->future()),
                     [inner, self, held = locks]() mutable { self->take(inner, std::move(held)); });
    }

    void take(QFuture<T> inner, std::shared_ptr<void> locks)
    {
        QPromise<T> &promise = this->promise();
        try {
            throwException(QFuture<void>(inner));
            if (inner.isCanceled()) {
                promise.future().cancel();
            } else if constexpr (!std::is_void_v<T>) {
                if (inner.resultCount() == 0)
                    promise.future().cancel();
                else if constexpr (std::is_copy_constructible_v<T>)
                    promise.addResult(inner.result());
                else
                    promise.addResult(inner.takeResult());
            }
        } catch (...) {
            logException(locks);
            promise.setException(std::current_exception());
        }
        locks.reset();
        this->end();
        this->finish();
    }

    Function m_function;
};

template<typename Function>
LockedFuture<Function> withLock(const LockAddress &address, const LockOptions &options, QObject *context,
                                Function &&function)
{
    isSynchronous<ReturnOf<std::decay_t<Function>>>(); // its assertions name the line of the application
    auto job = std::make_shared<FunctionJob<std::decay_t<Function>>>(std::forward<Function>(function));
    auto future = job->future(); // runLocked() may end and destroy the job
    runLocked(address, options, context, job);
    return future;
}

} // namespace Detail
} // namespace QDistLock

#endif
