// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_LOCKREFERENCE_H
#define QDISTLOCK_IMPL_LOCKREFERENCE_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qfuture.h>

#include <memory>

namespace QDistLock::Detail {

struct LockLink;

/*!
    The reference that LockGuard and AcquireAwaitable hold to a DistributedLock. Copyable; it may outlive the lock.

    Thread: must be created in the lock's thread. A use in another thread logs a warning, once for each lock, and takes
    place in the lock's thread, by its event loop.
*/
class QDISTLOCK_EXPORT LockReference
{
public:
    LockReference() = default;
    explicit LockReference(DistributedLock *lock);

    /// Whether the lock is held with \a fencingToken (0 = never). Always false in another thread.
    bool isHeld(qint64 fencingToken) const;
    /// Releases one level of the acquisition with \a fencingToken; does nothing if that one has ended.
    void release(qint64 fencingToken) const;
    /// Like release(), with the result of DistributedLock::releaseAsync().
    QFuture<bool> releaseAsync(qint64 fencingToken) const;
    /// Cancels the acquire \a id, whose future is \a result; if it has succeeded, releases the level it acquired.
    void withdraw(quint64 id, const QFuture<LockResult> &result) const;

private:
    DistributedLock *lockOfThisThread() const;
    template<typename Function>
    void callInItsThread(Function function) const;

    std::shared_ptr<LockLink> m_link;
};

} // namespace QDistLock::Detail

#endif
