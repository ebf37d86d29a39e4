// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_DISTRIBUTEDLOCK_H
#define QDISTLOCK_DISTRIBUTEDLOCK_H

#include <QDistLock/lockaddress.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qfuture.h>
#include <QtCore/qobject.h>

#include <memory>

/// Locks that hold for all processes and machines that use the same server.
namespace QDistLock {

class AcquireAwaitable;
class DistributedLock;
class DistributedLockPrivate;
class LockRegistry;
struct LockResult;

namespace Detail {
class LockReference;
}

/*!
    A lock on a Redis server: of all processes and machines that use its name, at most one owner holds it at a time. In
    LockOptions::Shared any number of owners hold it together, and with LockOptions::permits as many as there are
    permits; they exclude all others.

    The owner is the object: acquiring again on the same object is a nested acquire and adds a level; two objects with
    the same name exclude each other, also within one process. An owner that holds the lock in LockOptions::Shared
    cannot acquire it in LockOptions::Exclusive: that ends at once, with UpgradeError. The reverse is a nested acquire.

    A hold is a lease: the server ends it if the holder dies. isHeld() becomes false a little earlier, by the clock of
    this machine, even if the network is down, and lost() is emitted. A holder that could not run in time is stopped by
    its fencingToken(): the guarded resource can refuse a token that is smaller than one it has seen.

    The code under the lock runs from acquired() until the application calls release(), or until lost() is emitted.
    Slots connected to released() and lost() run without the lock.

    No function blocks. Signals are emitted from the event loop and never during a call, except NOTIFY signals of
    properties. Properties change together with their NOTIFY signals, so the lock does not appear to be held before
    acquired() is about to be emitted. A slot may run a nested event loop; other locks are served by that loop.

    Thread: call every function in the thread the object lives in, which needs an event loop. The object may be moved to
    another thread only before its first acquire, and only if no registry was set: otherwise it is given up there, with
    a warning, as if its registry had been destroyed. A call in another thread logs a
    warning and changes nothing. An acquire there, or without a QCoreApplication or in a thread without a Qt event loop
    (a std::thread), ends with OptionsError: acquireFailed() is emitted in the object's thread, the future ends at once.
    Errors: are results, never exceptions; see Error, errorString() and errorOccurred().
    Ownership: the lock does not own its registry. Destroying the lock releases what it holds, without waiting.
    A release is sent by the event loop, or at the end of the thread. A thread that ran one only to acquire, as a task
    of a QThreadPool may, must run it until released(): otherwise others wait until the lease ends. Or use ScopedLock.
    Algorithm: SET NX PX and compare-and-delete, from "Distributed locks with Redis" in the Redis documentation (single
    instance), extended by a queue, renewal and fencing tokens; see docs/protocol.md.
*/
class QDISTLOCK_EXPORT DistributedLock : public QObject
{
    Q_OBJECT
    /// For QML and bindings: the value of the function that reads it.
    ///@{
    Q_PROPERTY(QString name READ name WRITE setName NOTIFY nameChanged)
    Q_PROPERTY(State state READ state NOTIFY stateChanged FINAL)
    Q_PROPERTY(bool held READ isHeld NOTIFY heldChanged FINAL)
    Q_PROPERTY(int holdCount READ holdCount NOTIFY holdCountChanged FINAL)
    Q_PROPERTY(qint64 fencingToken READ fencingToken NOTIFY fencingTokenChanged)
    Q_PROPERTY(int queuePosition READ queuePosition NOTIFY queuePositionChanged FINAL)
    ///@}
    /// For QML, in milliseconds: lease(), waitTime() and retryInterval(). LockOptions::Forever is the greatest int.
    ///@{
    Q_PROPERTY(int lease READ leaseMs WRITE setLeaseMs NOTIFY leaseChanged FINAL)
    Q_PROPERTY(int wait READ waitMs WRITE setWaitMs NOTIFY waitChanged FINAL)
    Q_PROPERTY(int retryInterval READ retryIntervalMs WRITE setRetryIntervalMs NOTIFY retryIntervalChanged FINAL)
    ///@}
    /// For QML and bindings: the value of the function that reads it.
    ///@{
    Q_PROPERTY(bool autoRenew READ autoRenew WRITE setAutoRenew NOTIFY autoRenewChanged FINAL)
    Q_PROPERTY(bool fair READ isFair WRITE setFair NOTIFY fairChanged FINAL)
    Q_PROPERTY(Error error READ error NOTIFY errorChanged FINAL)
    Q_PROPERTY(QString errorString READ errorString NOTIFY errorChanged FINAL)
    ///@}
    /// remainingTime() in milliseconds. It has no change signal.
    Q_PROPERTY(int remainingTime READ remainingMs)

public:
    /// The state of this object.
    enum State {
        Unlocked,  ///< neither held nor being acquired
        Acquiring, ///< an acquire is in progress
        Held,      ///< held, last renewal confirmed
        AtRisk,    ///< still held, but two thirds of the lease have passed without a confirmed renewal
        Releasing  ///< release sent, not confirmed; no longer held
    };
    Q_ENUM(State)

    /// The reason why an acquire failed, or why the server could not execute a command.
    enum Error {
        NoError,             ///< none
        BusyError,           ///< somebody else holds the lock, and the acquire had no wait or no retry left
        TimeoutError,        ///< somebody else held the lock during the whole wait
        CancelledError,      ///< cancel(), release() or destruction came first
        ConnectionError,     ///< the server could not be reached, or did not answer in time
        AuthenticationError, ///< user name, password or certificate was refused
        PermissionError,     ///< an ACL rule forbids a command, key or channel
        ProtocolError,       ///< the server sent something that is not a valid reply
        ForeignTypeError,    ///< the key exists and is not a string; it was left as it is
        NameError,           ///< the name cannot be used
        OptionsError,        ///< an option or the server URL cannot be used
        ServerError,         ///< the server refused the command for another reason
        QuorumError,         ///< too few of the quorum's servers, or of the Sentinels, agreed
        ReplicationError,    ///< too few replicas have it, see LockOptions::minReplicas
        UpgradeError         ///< the owner holds the lock as a reader or with permits, and would wait for itself
    };
    Q_ENUM(Error)

    /// The reason why a hold ended without a release.
    enum LossReason {
        LeaseExpired, ///< not renewed in time
        Stolen,       ///< the key holds somebody else's token
        Deleted,      ///< the key is gone
        ForcedRelease ///< somebody called LockRegistry::forceRelease()
    };
    Q_ENUM(LossReason)

    /// Creates a lock without a name; call setName() before the first acquire.
    explicit DistributedLock(QObject *parent = nullptr);
    /// Uses LockRegistry::instance() of the server of \a address, in the thread in which the object lives when it is
    /// first used.
    explicit DistributedLock(const LockAddress &address, QObject *parent = nullptr);
    /// The key prefix is that of \a registry, which must live in the same thread. The lock may outlive it; every
    /// acquire then fails.
    DistributedLock(LockRegistry *registry, const QString &name, QObject *parent = nullptr);
    /// Releases what is held, without blocking or emitting a signal; pending futures end with CancelledError.
    ~DistributedLock() override;

    /// The name; the key on the server is the key prefix followed by the name.
    QString name() const;
    /// Key prefix and server remain. Allowed only while state() is Unlocked; refused with NameError otherwise.
    void setName(const QString &name);
    /// The registry in use; null until the default registry is first needed.
    LockRegistry *registry() const;
    /// Its server replaces that of the address; the address keeps a key prefix that it has. Allowed only while state()
    /// is Unlocked; refused with OptionsError otherwise.
    void setRegistry(LockRegistry *registry);

    /// The options of the next acquire; `autoRenew` takes effect at once. Options that were never set have the
    /// registry's defaults.
    ///@{
    LockOptions options() const;
    void setOptions(const LockOptions &options);
    ///@}

    /// The state as far as this object knows it; isHeld() also reads the clock.
    State state() const;
    /// Reads the clock: false from the local deadline on, even if the event loop could not run.
    bool isHeld() const;
    /// The number of levels held: one for each acquired() without a release yet.
    int holdCount() const;
    /// Strictly greater for each later acquisition of the name; 0 while not held. The guarded resource stores the
    /// greatest token it has seen and refuses requests with a smaller one.
    qint64 fencingToken() const;
    /// The number of waiters ahead in the queue; -1 if the lock is not queued.
    int queuePosition() const;
    /// The time until the local deadline; 0 while not held. At first at most 3 s if another client has handed the lock
    /// over: the first renewal sets the whole lease.
    std::chrono::nanoseconds remainingTime() const;

    // The fields of options(). The properties, for QML, are in milliseconds.
    // The setters do not check values: with an invalid one the next acquire ends with OptionsError.

    /// Whether the next acquire is a writer's (LockOptions::Exclusive) or a reader's (LockOptions::Shared).
    ///@{
    LockOptions::Mode mode() const;
    void setMode(LockOptions::Mode mode);
    ///@}
    /// Time to live of the key: how long others have to wait if the holder dies.
    ///@{
    std::chrono::milliseconds lease() const;
    void setLease(std::chrono::milliseconds lease);
    ///@}
    /// Longest wait of one acquire: `LockOptions::wait`, and the property `wait`.
    ///@{
    std::chrono::milliseconds waitTime() const;
    void setWaitTime(std::chrono::milliseconds wait);
    ///@}
    /// The interval at which a waiter polls if nothing can wake it.
    ///@{
    std::chrono::milliseconds retryInterval() const;
    void setRetryInterval(std::chrono::milliseconds interval);
    ///@}
    /// Whether the lease is renewed while held; the only option that takes effect at once.
    ///@{
    bool autoRenew() const;
    void setAutoRenew(bool autoRenew);
    ///@}
    /// First come, first served; false = whoever comes first after a release.
    ///@{
    bool isFair() const;
    void setFair(bool fair);
    ///@}

    /// The last error; NoError after a success.
    Error error() const;
    /// Names lock, server (without secrets), what happened and what to do. After BusyError and TimeoutError also who
    /// holds the lock, if that could be found out within 250 ms: see LockInfo.
    QString errorString() const;

    /// Like acquire(). The future always finishes with a result; busy and timed out are results. Cancelling it
    /// withdraws this acquire: it ends with acquireFailed(CancelledError), and a grant that comes nevertheless is given
    /// back. Once the future has finished, cancelling it does nothing; nor does cancelling a future of its then().
    /// Do not call result() or waitForFinished() in the lock's thread before it has finished: they block the event loop
    /// that would finish it, and never return. ScopedLock waits without an event loop. Only if the thread has run no
    /// event loop at all since the call, this is noticed: a warning follows after a second, and a second after `wait`
    /// the future ends with OptionsError, in another thread, in which then its continuations without a context run.
    QFuture<LockResult> acquireAsync();
    /// Like tryAcquire(), with the result of acquireAsync().
    QFuture<LockResult> tryAcquireAsync();
    /// Like release(); true if a level was released and, for the last level, the server confirmed it. Cancelling the
    /// future does not take the release back.
    QFuture<bool> releaseAsync();
    /// Gives the hold to whoever gets the returned token, another process for instance: LockRegistry::renew() and
    /// release() take it. Sends nothing, ends all levels, and emits released(). Nobody renews the lease from then on:
    /// the key expires soon after remainingTime(), unless LockRegistry::renew() is called. `minHold` no longer applies.
    /// The token is a secret: whoever knows it can release the lock. Empty, with a warning, if the lock is not held.
    QByteArray detach();

    /// Like acquire(), for co_await: `auto guard = co_await lock.acquireAwaitable();`. Needs C++20 and
    /// `#include <QDistLock/Coroutines>`; see LockGuard there.
    AcquireAwaitable acquireAwaitable();

public Q_SLOTS:
    /// Ends in exactly one acquired() or acquireFailed(), after `wait` at the latest.
    void acquire();
    /// Like acquire() with a wait of 0: makes one attempt.
    void tryAcquire();
    /// Releases one level; the last one releases the lock. Cancels an acquire that is still pending.
    void release();
    /// Ends every pending acquire with CancelledError; a hold is not touched.
    void cancel();

Q_SIGNALS:
    /// The lock is held, and fencingToken() is set. Emitted once for each acquire() that succeeds, nested ones too. If
    /// the event loop was blocked for longer than the lease, the hold has ended by then: isHeld() is false,
    /// fencingToken() is 0, and lost() follows.
    void acquired();
    /// An acquire ended without the lock; errorString() says why and what to do.
    void acquireFailed(QDistLock::DistributedLock::Error error);
    /// All levels of the hold have ended without release(). Emitted at the local deadline at the latest.
    void lost(QDistLock::DistributedLock::LossReason reason);
    /// The last level was released; the lock is no longer held.
    void released();
    /// The server has confirmed a renewal; remainingTime() counts from the time at which it was sent.
    void renewed();
    /// Two thirds of the lease have passed without a confirmed renewal; \a remainingMs are left until the deadline.
    void atRisk(int remainingMs);
    /// An error other than BusyError, TimeoutError and CancelledError, which are ordinary ends of an acquire. Emitted
    /// after acquireFailed(), or while the lock keeps trying to acquire, renew or release; once while the same problem
    /// lasts. error() is NoError again when it is over.
    void errorOccurred(QDistLock::DistributedLock::Error error);

    /// The property of this name has a new value; errorChanged() is also that of `errorString`.
    ///@{
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
    void modeChanged();
    void errorChanged();
    ///@}

protected:
    /// Notices that the object is moved to another thread.
    bool event(QEvent *event) override;
    /// The number of the present hold among all holds of this object; 0 while not held. Readers that hold the lock
    /// together have one fencingToken(), so that two holds may have the same.
    quint64 holdNumber() const;
    /// Like acquireAsync(), with \a options instead of options(). If another acquire is already in progress, only
    /// their `mode`, `permits` and `wait` count; if the lock is already held, only `mode` and `permits` do.
    QFuture<LockResult> acquireAsync(const LockOptions &options);

private:
    friend class AcquireAwaitable;
    friend class Detail::LockReference;
    friend class DistributedLockPrivate;
    Q_DISABLE_COPY_MOVE(DistributedLock)
    /// The two halves of acquireAsync(): nothing is sent or emitted before the second.
    QFuture<LockResult> prepareAcquire(quint64 *id);
    void startAcquire(quint64 id);
    /// Cancels this one acquire; if it has succeeded, releases the level it acquired.
    void withdrawAcquire(quint64 id);
    // The properties in milliseconds.
    int remainingMs() const;
    int leaseMs() const;
    void setLeaseMs(int lease);
    int waitMs() const;
    void setWaitMs(int wait);
    int retryIntervalMs() const;
    void setRetryIntervalMs(int interval);

    std::unique_ptr<DistributedLockPrivate> d;
};

} // namespace QDistLock

#include <QDistLock/lockresult.h>

#endif
