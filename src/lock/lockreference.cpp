// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/logging.h"
#include "base/readyfuture.h"
#include "lock/distributedlock_p.h"
#include "lock/threadcheck.h"

#include <QtCore/qmetaobject.h>
#include <QtCore/qthread.h>

#include <memory>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {
namespace Detail {

LockReference::LockReference(DistributedLock *lock)
{
    std::shared_ptr<LockLink> &link = lock->d->link;
    if (!link) {
        link = std::make_shared<LockLink>();
        link->lock = lock;
        link->thread = describe(QThread::currentThread());
    }
    m_link = link;
    const std::lock_guard locker(link->mutex);
    link->name = lock->d->address.name();
}

DistributedLock *LockReference::lockOfThisThread() const
{
    if (!m_link)
        return nullptr;
    const std::lock_guard locker(m_link->mutex);
    // Only this thread can destroy it then.
    return m_link->lock && m_link->lock->thread() == QThread::currentThread() ? m_link->lock : nullptr;
}

/// Does nothing if the lock is destroyed, now or before its event loop processes the call.
template<typename Function>
void LockReference::callInItsThread(Function function) const
{
    if (!m_link)
        return;
    QString misuse;
    QString name;
    {
        const std::lock_guard locker(m_link->mutex);
        DistributedLock *const lock = m_link->lock;
        if (!lock)
            return;
        if (!std::exchange(m_link->misuseReported, true)) {
            name = m_link->name;
            misuse =
                    u"Lock %1: a LockGuard or coroutine of it was used or destroyed in the wrong thread: in "
                    "%2, but the lock lives in %3, whose event loop now gives it back; keep guards and coroutines in the thread of their lock"_s
                            .arg(quoted(m_link->name), describe(QThread::currentThread()), m_link->thread);
        }
        QMetaObject::invokeMethod(
                lock, [lock, function = std::move(function)] { function(lock); }, Qt::QueuedConnection);
    }
    if (!misuse.isEmpty())
        qCWarning(lcLock, "%ls", qUtf16Printable(withFields(misuse, name)));
}

quint64 LockReference::holdNumber(qint64 fencingToken) const
{
    const DistributedLock *const lock = lockOfThisThread();
    return lock && lock->fencingToken() == fencingToken ? lock->holdNumber() : 0;
}

bool LockReference::isHeld(quint64 hold) const
{
    if (const DistributedLock *const lock = lockOfThisThread())
        return hold != 0 && lock->holdNumber() == hold && lock->isHeld();
    if (hold != 0)
        callInItsThread([](const DistributedLock *) {}); // logs the warning
    return false;
}

void LockReference::release(quint64 hold) const
{
    const auto release = [hold](DistributedLock *lock) {
        if (lock->holdNumber() == hold)
            lock->release();
    };
    if (hold == 0)
        return;
    if (DistributedLock *const lock = lockOfThisThread())
        release(lock);
    else
        callInItsThread(release);
}

QFuture<bool> LockReference::releaseAsync(quint64 hold) const
{
    const auto release = [hold](DistributedLock *lock) {
        return lock->holdNumber() == hold ? lock->releaseAsync() : readyFuture(false);
    };
    if (hold == 0)
        return readyFuture(false);
    if (DistributedLock *const lock = lockOfThisThread())
        return release(lock);

    struct Answer
    {
        Answer() { promise.start(); }
        ~Answer() { finish(false); } // also if the call is never processed
        void finish(bool released)
        {
            promise.addResult(released); // the first one counts
            promise.finish();
        }
        QPromise<bool> promise;
    };
    const auto answer = std::make_shared<Answer>();
    const QFuture<bool> future = answer->promise.future();
    callInItsThread([release, answer](DistributedLock *lock) {
        release(lock).then([answer](bool released) { answer->finish(released); });
    });
    return future;
}

void LockReference::withdraw(quint64 id, const QFuture<LockResult> &result) const
{
    const auto withdraw = [id, result](DistributedLock *lock) {
        if (!result.isFinished())
            lock->withdrawAcquire(id);
        else if (result.result().isAcquired() && lock->fencingToken() == result.result().fencingToken)
            lock->release();
    };
    if (DistributedLock *const lock = lockOfThisThread())
        withdraw(lock);
    else
        callInItsThread(withdraw);
}

} // namespace Detail
} // namespace QDistLock
