// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_SEMAPHORE_H
#define QDISTLOCK_SEMAPHORE_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qlist.h>

namespace QDistLock {

/*!
    A lock with a number of permits, of which each holder takes one or several: a DistributedLock with
    LockOptions::permits.

    \code
    Semaphore job(u"video-jobs"_s, 5); // at most five at the same time, in all processes
    connect(&job, &DistributedLock::acquired, this, &Worker::convertNextVideo);
    job.acquire();
    \endcode

    acquire() takes take() permits, release() returns them. Nested acquires of one object take no more. A permit has a
    lease, which is renewed while it is held: the permits of a process that has died are free again after a lease at
    most. There is no counter that a crash could leave wrong.

    Waiters are served in the order in which they came. One that takes several permits gets all of them at once, and is
    not overtaken meanwhile.

    The number of permits is kept on the server: the first acquire sets it, and an acquire with another number ends with
    DistributedLock::OptionsError. LockRegistry::setPermits() or `qdistlock permits` changes it; clients that should
    follow such changes use LockOptions::ServerPermits.

    slot() says which of the permits an object has: a number that no other holder has at the same time, for example that
    of a worker or of one of five devices.

    Fencing: each acquisition has a token, greater than all before. The guarded resource must not refuse a smaller one:
    holders that came earlier still have their permits. It can refuse those that are smaller than the last token of a
    holder without permits. What belongs to one slot() can refuse those that are smaller than the last token of a holder
    with that slot.

    Thread, errors, ownership: as DistributedLock.
    Algorithm: a sorted set of the permits taken, with the ends of their leases; see docs/protocol.md.
*/
class QDISTLOCK_EXPORT Semaphore : public DistributedLock
{
    Q_OBJECT
    /// For QML and bindings: the value of the function that reads it.
    ///@{
    Q_PROPERTY(int permits READ permits WRITE setPermits NOTIFY permitsChanged FINAL)
    Q_PROPERTY(int take READ take WRITE setTake NOTIFY takeChanged FINAL)
    Q_PROPERTY(int slot READ slot NOTIFY fencingTokenChanged FINAL)
    ///@}

public:
    /// As the constructors of DistributedLock. \a permits: 1 to LockOptions::MaximumPermits, or
    /// LockOptions::ServerPermits. LockRegistry::defaults() do not change mode, permits and take. Options that are set
    /// later must have permits, too: otherwise acquires end with OptionsError.
    ///@{
    Semaphore(const LockAddress &address, int permits, QObject *parent = nullptr);
    Semaphore(LockRegistry *registry, const QString &name, int permits, QObject *parent = nullptr);
    ///@}
    ~Semaphore() override; ///< Releases what is held, without blocking or emitting a signal.

    /// The number of permits that the next acquire expects the server to have: LockOptions::permits. It does not change
    /// the server's number, see LockRegistry::setPermits().
    ///@{
    int permits() const;
    void setPermits(int permits);
    ///@}
    /// How many permits the next acquire takes: LockOptions::take.
    ///@{
    int take() const;
    void setTake(int take);
    ///@}

    /// Which of the permits this object has: the lowest number from 0 that was free when it acquired them. No other
    /// holder has the same number at the same time. If it has several permits, the first of heldSlots(). -1 while it is
    /// not held, and if the server had more than 1,024 permits for the name at that time. Permits that are acquired in
    /// another way than by a Semaphore, in C++ or QML, or by `qdistlock` count as the others do, but have no number.
    /// Numbers cost the server time with each acquire, about 0.6 µs for each permit that is taken.
    int slot() const;
    /// The numbers of all permits that it has, ascending; empty if slot() is -1.
    QList<int> heldSlots() const;

    /// Asks the server how many permits are free; 0 if more are taken than there are, and while the lock is held
    /// exclusively or by readers. If the server has no number yet, permits() counts. It may have changed when it
    /// arrives: to take a permit if one is free, call tryAcquire().
    QFuture<LockReply<int>> available();

Q_SIGNALS:
    /// The property of this name has a new value.
    ///@{
    void permitsChanged();
    void takeChanged();
    ///@}

private:
    Q_DISABLE_COPY_MOVE(Semaphore)
};

} // namespace QDistLock

#endif
