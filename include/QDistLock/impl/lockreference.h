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

    /// The present hold, see DistributedLock::holdNumber(), if it has \a fencingToken; otherwise 0, as in another
    /// thread.
    quint64 holdNumber(qint64 fencingToken) const;
    /// Whether \a hold is the present one (0 never is). Always false in another thread.
    bool isHeld(quint64 hold) const;
    /// Releases one level of \a hold; does nothing if that has ended.
    void release(quint64 hold) const;
    /// Like release(), with the result of DistributedLock::releaseAsync().
    QFuture<bool> releaseAsync(quint64 hold) const;
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
