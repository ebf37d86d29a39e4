// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_DISTRIBUTEDLOCK_H
#define QDISTLOCK_DISTRIBUTEDLOCK_H

#include <QDistLock/lockoptions.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qfuture.h>
#include <QtCore/qobject.h>

#include <memory>

namespace QDistLock {

class AcquireAwaitable;
class DistributedLock;
class DistributedLockPrivate;
class LockRegistry;
struct LockResult;

namespace Detail {

struct LockLink;

/*!
    A DistributedLock as LockGuard and AcquireAwaitable refer to it. Copyable; may outlive the lock.

    Thread: made in the lock's own. Any other one may use it, too: then a warning is logged, once for each lock, and what
    was asked for is done in the lock's thread, by its event loop.
*/
class QDISTLOCK_EXPORT LockReference
{
public:
    LockReference() = default;
    explicit LockReference(DistributedLock *lock);

    /// Of that acquisition; 0 = none. False in another thread.
    bool isHeld(qint64 fencingToken) const;
    /// Gives one level of that acquisition back; of a later one nothing.
    void release(qint64 fencingToken) const;
    /// The same; true once it was given back, as by DistributedLock::releaseAsync().
    QFuture<bool> releaseAsync(qint64 fencingToken) const;
    /// Withdraws the acquire \a id that \a result is of; gives back what it got.
    void withdraw(quint64 id, const QFuture<LockResult> &result) const;

private:
    DistributedLock *lockOfThisThread() const;
    template<typename Function>
    void callInItsThread(Function function) const;

    std::shared_ptr<LockLink> m_link;
};

} // namespace Detail

/*!
    A lock that one owner in a set of processes and machines holds at a time, kept by a Redis server.

    The object is the owner: acquiring again on the same object re-enters and counts a level; two objects
    of one name exclude each other, in one process too. It is a lease: the server ends it when the holder
    dies, and isHeld() becomes false a little before that, by this machine's own clock, whatever the
    network does. lost() then tells the holder; fencingToken() lets the guarded resource refuse a holder
    that could not hear it.

    Under the lock: what the application does from acquired() on until it calls release(), or lost() is emitted. Handlers of
    released() and lost() run without the lock.

    Nothing here blocks. Signals are emitted from the event loop, never from inside a call; only the NOTIFY signals of
    properties may be emitted inside one. Properties change together with their NOTIFY signals, so the lock is never seen
    held before acquired() is on its way. A slot may run a nested event loop: it holds up no other lock.

    Thread: all of it in the object's own thread, which needs an event loop. It may be moved to another
    thread only before its first acquire, and only if no registry was given. A call in another thread is logged as a
    warning and changes nothing; an acquire there, or without a QCoreApplication or in a thread without a Qt event
    loop (a std::thread), ends with OptionsError: acquireFailed() in the object's own thread, and the future at once.
    Errors: results, never exceptions; see Error, errorString() and errorOccurred().
    Ownership: the registry is not owned. Destroying the lock releases what it holds, without waiting.
    Algorithm: SET NX PX and compare-and-delete as described in the Redis documentation ("Distributed
    locks with Redis", single instance), extended by renewal and fencing tokens.
*/
class QDISTLOCK_EXPORT DistributedLock : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString name READ name WRITE setName NOTIFY nameChanged)
    Q_PROPERTY(State state READ state NOTIFY stateChanged FINAL)
    Q_PROPERTY(bool held READ isHeld NOTIFY heldChanged FINAL)
    Q_PROPERTY(int holdCount READ holdCount NOTIFY holdCountChanged FINAL)
    Q_PROPERTY(qint64 fencingToken READ fencingToken NOTIFY fencingTokenChanged)
    Q_PROPERTY(int queuePosition READ queuePosition NOTIFY queuePositionChanged FINAL)
    Q_PROPERTY(int lease READ lease WRITE setLease NOTIFY leaseChanged FINAL)
    Q_PROPERTY(int wait READ wait WRITE setWait NOTIFY waitChanged FINAL)
    Q_PROPERTY(int retryInterval READ retryInterval WRITE setRetryInterval NOTIFY retryIntervalChanged FINAL)
    Q_PROPERTY(bool autoRenew READ autoRenew WRITE setAutoRenew NOTIFY autoRenewChanged FINAL)
    Q_PROPERTY(bool fair READ isFair WRITE setFair NOTIFY fairChanged FINAL)
    Q_PROPERTY(Error error READ error NOTIFY errorChanged FINAL)
    Q_PROPERTY(QString errorString READ errorString NOTIFY errorChanged FINAL)
    Q_PROPERTY(int remainingTime READ remainingTime)

public:
    /// What this object does with its lock.
    enum State {
        Unlocked,   ///< neither held nor wanted
        Acquiring,  ///< an acquire is under way
        Held,       ///< held, last renewal confirmed
        AtRisk,     ///< still held, but two thirds of the lease have gone by without a confirmed renewal
        Releasing   ///< release sent, not confirmed; no longer held
    };
    Q_ENUM(State)

    /// How an acquire failed, or why the server could not do what it was asked to.
    enum Error {
        NoError,
        BusyError,            ///< somebody else has it, and the acquire was not to wait (any longer)
        TimeoutError,         ///< somebody else had it for as long as the acquire was to wait
        CancelledError,       ///< cancel(), release() or destruction came first
        ConnectionError,      ///< the server could not be reached, or did not answer in time
        AuthenticationError,  ///< user name, password or certificate was refused
        PermissionError,      ///< an ACL rule forbids a command, key or channel
        ProtocolError,        ///< the server sent something that is not a valid reply
        ForeignTypeError,     ///< the key exists and is not a string; it was left as it is
        NameError,            ///< the name cannot be used
        OptionsError,         ///< an option or the server URL cannot be used
        ServerError,          ///< the server refused for a reason of its own
        QuorumError,          ///< too few of the quorum's servers agreed; not in this version
        ReplicationError      ///< too few replicas confirmed in time; not in this version
    };
    Q_ENUM(Error)

    /// How a hold ended that was not released.
    enum LossReason {
        LeaseExpired,  ///< not renewed in time
        Stolen,        ///< the key holds somebody else's token
        Deleted,       ///< the key is gone
        ForcedRelease  ///< LockRegistry::forceRelease()
    };
    Q_ENUM(LossReason)

    /// Without a name, which setName() gives it before the first acquire.
    explicit DistributedLock(QObject *parent = nullptr);
    /// Uses LockRegistry::instance() of the thread the object lives in when it is first needed.
    explicit DistributedLock(const QString &name, QObject *parent = nullptr);
    /// \a registry must live in the same thread. Outliving it is safe: every acquire then fails.
    DistributedLock(LockRegistry *registry, const QString &name, QObject *parent = nullptr);
    /// Never blocks, emits nothing more; what is held is released, pending futures end with CancelledError.
    ~DistributedLock() override;

    /// The key on the server is the key prefix and this.
    QString name() const;
    /// Only while state() is Unlocked; otherwise refused with NameError.
    void setName(const QString &name);
    /// The registry in use; null before the first need of the default one.
    LockRegistry *registry() const;
    /// Only while state() is Unlocked; otherwise refused with OptionsError.
    void setRegistry(LockRegistry *registry);

    /// Options for the next acquire; `autoRenew` works at once. What was never set is as the registry's
    /// defaults say.
    LockOptions options() const;
    void setOptions(const LockOptions &options);

    State state() const;
    /// Reads the clock: false from the local deadline on, even if the event loop could not run.
    bool isHeld() const;
    /// How many levels are held: one for each acquired() not given back yet.
    int holdCount() const;
    /// Strictly greater for each later acquisition of the name; 0 when not held. The guarded resource
    /// keeps the greatest it has seen and refuses what comes with a smaller one.
    qint64 fencingToken() const;
    /// 0 = next to be served, -1 = not queued.
    int queuePosition() const;
    /// Milliseconds to the local deadline; 0 when not held.
    int remainingTime() const;
    /// The same, exactly.
    std::chrono::nanoseconds remainingTimeAsDuration() const;

    // The fields of options(), in milliseconds. A value that cannot be used is told by the next acquire, which ends
    // with OptionsError.

    /// Time to live of the key: how soon others have it if the holder dies.
    int lease() const;
    std::chrono::milliseconds leaseAsDuration() const;
    void setLease(int milliseconds);
    void setLease(std::chrono::milliseconds lease);
    /// Longest wait of one acquire. LockOptions::Forever reads and writes as the greatest int.
    int wait() const;
    std::chrono::milliseconds waitAsDuration() const;
    void setWait(int milliseconds);
    void setWait(std::chrono::milliseconds wait);
    /// How often a waiter looks again where nothing can wake it.
    int retryInterval() const;
    std::chrono::milliseconds retryIntervalAsDuration() const;
    void setRetryInterval(int milliseconds);
    void setRetryInterval(std::chrono::milliseconds interval);
    /// Whether it is renewed while held; the only one that works at once.
    bool autoRenew() const;
    void setAutoRenew(bool autoRenew);
    /// First come, first served; false = whoever comes first after a release.
    bool isFair() const;
    void setFair(bool fair);

    /// The last error; NoError after a success.
    Error error() const;
    /// Names lock, server (without secrets), what happened and what to do.
    QString errorString() const;

    /// As acquire(); always finishes with a result, never cancelled. Busy and timed out are results. Do not wait for
    /// it in the lock's own thread with result() or waitForFinished(): they block the event loop that would finish
    /// it, and never return. ScopedLock waits without an event loop.
    QFuture<LockResult> acquireAsync();
    /// As tryAcquire(), with the result of acquireAsync().
    QFuture<LockResult> tryAcquireAsync();
    /// As release(); true when a level was given back and, on the last one, the server confirmed it.
    QFuture<bool> releaseAsync();

    /// As acquire(), for co_await: `auto guard = co_await lock.acquireAwaitable();`. Needs C++20 and
    /// `#include <QDistLock/Coroutines>`; see LockGuard there.
    AcquireAwaitable acquireAwaitable();
    /// As tryAcquire(), for co_await.
    AcquireAwaitable tryAcquireAwaitable();

public Q_SLOTS:
    /// Ends in exactly one acquired() or acquireFailed(), after `wait` at the latest.
    void acquire();
    /// As acquire() with a wait of 0: one look.
    void tryAcquire();
    /// Gives one level back; the last one releases. What has not been acquired yet is cancelled.
    void release();
    /// Ends every pending acquire with CancelledError; a hold is not touched.
    void cancel();

Q_SIGNALS:
    /// The lock is held, and fencingToken() set. Once for each acquire() that succeeded, re-entries included.
    void acquired();
    /// An acquire ended without the lock; errorString() says why and what to do.
    void acquireFailed(QDistLock::DistributedLock::Error error);
    /// The hold is over without release(), all levels of it. At the local deadline at the latest. errorString() says why.
    void lost(QDistLock::DistributedLock::LossReason reason);
    /// The last level was given back; nothing is held.
    void released();
    /// The server has confirmed a renewal; remainingTime() counts from when it was sent.
    void renewed();
    /// Two thirds of the lease have gone by without a confirmed renewal.
    void atRisk(int remainingMs);
    /// Something went wrong that is no ordinary end of an acquire (not Busy-, Timeout- and CancelledError): after
    /// acquireFailed(), or while the lock goes on trying to acquire, renew or release. Once while the same trouble
    /// lasts; error() is NoError again when it is over.
    void errorOccurred(QDistLock::DistributedLock::Error error);

    void nameChanged();
    void stateChanged();
    void heldChanged();
    void holdCountChanged();
    void fencingTokenChanged();
    void queuePositionChanged();
    void leaseChanged();
    void waitChanged();
    void retryIntervalChanged();
    void autoRenewChanged();
    void fairChanged();
    void errorChanged();

protected:
    /// As acquireAsync(), with \a options instead of options(). Where it joins an acquire that is under way
    /// only their `wait` counts, where it re-enters none of them.
    QFuture<LockResult> acquireAsync(const LockOptions &options);

private:
    friend class AcquireAwaitable;
    friend class Detail::LockReference;
    friend class DistributedLockPrivate;
    Q_DISABLE_COPY_MOVE(DistributedLock)
    /// The halves of acquireAsync(): nothing happens, and nobody is told of anything, before the second.
    QFuture<LockResult> prepareAcquire(quint64 *id);
    void startAcquire(quint64 id, bool once);
    /// Ends this one acquire with CancelledError unless its end was told; gives back what it got.
    void withdrawAcquire(quint64 id);

    std::unique_ptr<DistributedLockPrivate> d;
};

} // namespace QDistLock

#include <QDistLock/lockresult.h>

#endif
