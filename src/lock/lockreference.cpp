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
    {
        const std::lock_guard locker(m_link->mutex);
        DistributedLock *const lock = m_link->lock;
        if (!lock)
            return;
        if (!std::exchange(m_link->misuseReported, true)) {
            misuse =
                    u"Lock %1: a LockGuard or coroutine of it was used or destroyed in the wrong thread: in "
                    "%2, but the lock lives in %3, whose event loop now gives it back; keep guards and coroutines in the thread of their lock"_s
                            .arg(quoted(m_link->name), describe(QThread::currentThread()), m_link->thread);
        }
        QMetaObject::invokeMethod(
                lock, [lock, function = std::move(function)] { function(lock); }, Qt::QueuedConnection);
    }
    if (!misuse.isEmpty())
        qCWarning(lcLock, "%ls", qUtf16Printable(misuse));
}

/// Whether \a lock is held with that fencing token.
static bool isHold(const DistributedLock *lock, qint64 fencingToken)
{
    return fencingToken != 0 && lock->fencingToken() == fencingToken;
}

bool LockReference::isHeld(qint64 fencingToken) const
{
    if (const DistributedLock *const lock = lockOfThisThread())
        return isHold(lock, fencingToken) && lock->isHeld();
    if (fencingToken != 0)
        callInItsThread([](const DistributedLock *) {}); // logs the warning
    return false;
}

void LockReference::release(qint64 fencingToken) const
{
    const auto release = [fencingToken](DistributedLock *lock) {
        if (isHold(lock, fencingToken))
            lock->release();
    };
    if (DistributedLock *const lock = lockOfThisThread())
        release(lock);
    else if (fencingToken != 0)
        callInItsThread(release);
}

QFuture<bool> LockReference::releaseAsync(qint64 fencingToken) const
{
    const auto release = [fencingToken](DistributedLock *lock) {
        return isHold(lock, fencingToken) ? lock->releaseAsync() : readyFuture(false);
    };
    if (DistributedLock *const lock = lockOfThisThread())
        return release(lock);
    if (fencingToken == 0)
        return readyFuture(false);

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
        else if (const qint64 fencingToken = result.result().fencingToken; isHold(lock, fencingToken))
            lock->release();
    };
    if (DistributedLock *const lock = lockOfThisThread())
        withdraw(lock);
    else
        callInItsThread(withdraw);
}

} // namespace Detail
} // namespace QDistLock
