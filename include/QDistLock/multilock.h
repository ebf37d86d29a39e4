// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_MULTILOCK_H
#define QDISTLOCK_MULTILOCK_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qstringlist.h>

#include <memory>

namespace QDistLock {

class MultiLockPrivate;

/*!
    Several locks that are held together, or none of them.

    \code
    MultiLock transfer({u"account:7"_s, u"account:12"_s});
    connect(&transfer, &MultiLock::acquired, this, &Bank::transferMoney);
    transfer.acquire();
    \endcode

    An acquire asks for all locks with one command, which acquires all of them or none. If one is taken, it acquires
    them one after the other, each in its queue, in the order of their names: the same order in all programs. So no two
    of them wait for each other, as long as each program holds no other lock meanwhile. Locks that it has already are
    kept, and renewed, until it has all. `wait` counts for all together. If it ends, or a lock cannot be acquired, those
    that were acquired are released.

    The hold ends for all locks together: by release(), or as soon as one of them is lost.

    Owner: this object; further acquires are nested. The locks are ordinary ones: they and locks of the same names,
    alone or in another MultiLock, exclude each other.

    Fencing: each lock has its own fencingToken().

    Redis (one server, Sentinel, Cluster) needs one command for free locks, and one for each renewal and release; a
    release needs two if some of the locks are for reading and some for writing. Servers without scripts, a quorum,
    ZooKeeper and `memory:` acquire them one after the other. With a cluster, all names must be in one slot, see
    docs/several-locks.md; other names are refused with OptionsError.

    Thread, errors, ownership: as DistributedLock.
    Algorithm: one attempt for all, then ordered acquisition, which excludes a deadlock (E. G. Coffman et al., "System
    Deadlocks", 1971); see docs/protocol.md.
*/
class QDISTLOCK_EXPORT MultiLock : public QObject
{
    Q_OBJECT
    /// For bindings: the value of the function that reads it.
    ///@{
    Q_PROPERTY(QStringList names READ names WRITE setNames NOTIFY namesChanged)
    Q_PROPERTY(QDistLock::DistributedLock::State state READ state NOTIFY stateChanged FINAL)
    Q_PROPERTY(bool held READ isHeld NOTIFY heldChanged FINAL)
    Q_PROPERTY(int holdCount READ holdCount NOTIFY holdCountChanged FINAL)
    Q_PROPERTY(QDistLock::DistributedLock::Error error READ error NOTIFY errorChanged FINAL)
    Q_PROPERTY(QString errorString READ errorString NOTIFY errorChanged FINAL)
    ///@}
    /// As those of DistributedLock.
    ///@{
    Q_PROPERTY(int lease READ leaseMs WRITE setLeaseMs NOTIFY leaseChanged FINAL)
    Q_PROPERTY(int wait READ waitMs WRITE setWaitMs NOTIFY waitChanged FINAL)
    Q_PROPERTY(int retryInterval READ retryIntervalMs WRITE setRetryIntervalMs NOTIFY retryIntervalChanged FINAL)
    Q_PROPERTY(bool autoRenew READ autoRenew WRITE setAutoRenew NOTIFY autoRenewChanged FINAL)
    Q_PROPERTY(bool fair READ isFair WRITE setFair NOTIFY fairChanged FINAL)
    Q_PROPERTY(int remainingTime READ remainingMs)
    ///@}

public:
    /// An acquire with more names fails with OptionsError.
    static constexpr int MaximumNames = 64;

    /// Without names; call add() or setNames() before the first acquire.
    explicit MultiLock(QObject *parent = nullptr);
    /// On LockRegistry::defaultServer().
    explicit MultiLock(const QStringList &names, QObject *parent = nullptr);
    /// As the constructor of DistributedLock with a registry.
    MultiLock(LockRegistry *registry, const QStringList &names, QObject *parent = nullptr);
    /// Releases what is held, without blocking or emitting a signal; pending futures end with CancelledError.
    ~MultiLock() override;

    /// In the order in which they are acquired. Double names count once.
    QStringList names() const;
    /// Replaces all names; their mode is that of options(). Allowed only while state() is Unlocked; refused with
    /// OptionsError otherwise.
    void setNames(const QStringList &names);
    /// Adds a lock for reading or for writing. If the name is there already, it will be for writing if either is.
    /// Allowed when setNames() is.
    void add(const QString &name, LockOptions::Mode mode = LockOptions::Exclusive);

    /// As those of DistributedLock.
    ///@{
    LockRegistry *registry() const;
    void setRegistry(LockRegistry *registry);
    ///@}
    /// As those of DistributedLock, for each of the locks; permits are refused with OptionsError. `minHold` counts from
    /// the time at which the last one was acquired. Without `autoRenew` the leases are not renewed from then on, so
    /// those of locks acquired earlier end earlier, see remainingTime().
    ///@{
    LockOptions options() const;
    void setOptions(const LockOptions &options);
    LockOptions::Mode mode() const;
    void setMode(LockOptions::Mode mode);
    std::chrono::milliseconds lease() const;
    void setLease(std::chrono::milliseconds lease);
    std::chrono::milliseconds waitTime() const;
    void setWaitTime(std::chrono::milliseconds wait);
    std::chrono::milliseconds retryInterval() const;
    void setRetryInterval(std::chrono::milliseconds interval);
    bool autoRenew() const;
    void setAutoRenew(bool autoRenew);
    bool isFair() const;
    void setFair(bool fair);
    ///@}

    /// The state as far as this object knows it; isHeld() also reads the clock.
    DistributedLock::State state() const;
    /// Whether all locks are held. Reads the clock.
    bool isHeld() const;
    /// The number of levels held.
    int holdCount() const;
    /// That of the lock \a name; 0 while the locks are not held, or if there is no such name.
    qint64 fencingToken(const QString &name) const;
    /// The time until the first local deadline; 0 while not held.
    std::chrono::nanoseconds remainingTime() const;
    /// The last error; NoError after a success.
    DistributedLock::Error error() const;
    /// As DistributedLock::errorString(). It names the lock that could not be acquired, or was lost.
    QString errorString() const;

    /// As those of DistributedLock; LockResult::fencingToken is that of the first name.
    ///@{
    QFuture<LockResult> acquireAsync();
    QFuture<LockResult> tryAcquireAsync();
    QFuture<bool> releaseAsync();
    ///@}

public Q_SLOTS:
    /// As those of DistributedLock.
    ///@{
    void acquire();
    void tryAcquire();
    void release();
    void cancel();
    ///@}

Q_SIGNALS:
    /// As those of DistributedLock, for all locks together.
    ///@{
    void acquired();
    void acquireFailed(QDistLock::DistributedLock::Error error);
    void released();
    void renewed();
    void atRisk(int remainingMs);
    void errorOccurred(QDistLock::DistributedLock::Error error);
    ///@}
    /// As DistributedLock::lost(): the lock \a name was lost, so the others are released.
    void lost(QDistLock::DistributedLock::LossReason reason, const QString &name);

    /// The property of this name has a new value; errorChanged() is also that of `errorString`.
    ///@{
    void namesChanged();
    void stateChanged();
    void heldChanged();
    void holdCountChanged();
    void leaseChanged();
    void waitChanged();
    void retryIntervalChanged();
    void autoRenewChanged();
    void fairChanged();
    void modeChanged();
    void errorChanged();
    ///@}

protected:
    /// Notices that the object is moved to another thread.
    bool event(QEvent *event) override;
    /// As those of DistributedLock.
    ///@{
    quint64 holdNumber() const;
    QFuture<LockResult> acquireAsync(const LockOptions &options);
    ///@}

private:
    friend class MultiLockPrivate;
    Q_DISABLE_COPY_MOVE(MultiLock)
    // The properties in milliseconds.
    int remainingMs() const;
    int leaseMs() const;
    void setLeaseMs(int lease);
    int waitMs() const;
    void setWaitMs(int wait);
    int retryIntervalMs() const;
    void setRetryIntervalMs(int interval);

    std::unique_ptr<MultiLockPrivate> d;
};

} // namespace QDistLock

#endif
