// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKREGISTRY_H
#define QDISTLOCK_LOCKREGISTRY_H

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockinfo.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/lockresult.h>

#include <QtCore/qlist.h>
#include <QtCore/qurl.h>

namespace QDistLock {

class LockRegistryPrivate;

/*!
    The connection of one thread to one server, and the default options of its locks.

    All locks of a registry share its connection and its subscription, and are renewed together. The connection is
    opened when it is first needed, and opened again after a loss.

    Thread: call every function in the thread in which the registry was created, which needs an event loop. Only
    setDefaultServer(), defaultServer() and setIdentity() are thread-safe. A call in another thread logs a warning and
    changes nothing; a request to the server ends with OptionsError there.
    Errors: if the URL is invalid, errorString() says so at once, and every acquire through this registry ends with
    OptionsError. If the server refuses the password, the certificate or a right, an acquire fails at once. But a lock
    that is held, or that was allowed to wait before, goes on until its deadline or the end of its wait, and the
    registry tries to connect again every 1 to 10 s.
    Ownership: the registry owns the locks that obtain() returns. Destroying it releases what its locks hold; a lock
    that outlives it emits lost(). If nobody destroys it, its locks are released when its thread ends, or when the
    program ends normally or by exit(). A server that does not answer delays this by at most 250 ms.
    After fork() without exec() the child holds none of the parent's locks and cannot acquire any through this registry:
    each acquire ends with ConnectionError. A registry that the child creates works.
*/
class QDISTLOCK_EXPORT LockRegistry : public QObject
{
    Q_OBJECT
    /// The value of the function of this name.
    ///@{
    Q_PROPERTY(QUrl server READ server CONSTANT FINAL)
    Q_PROPERTY(State state READ state NOTIFY stateChanged FINAL)
    Q_PROPERTY(QString errorString READ errorString NOTIFY errorChanged FINAL)
    ///@}

public:
    /// The state of the connection over which commands are sent.
    enum State {
        Disconnected, ///< not needed yet or any more, or lost and waiting for the next attempt
        Connecting,   ///< connecting or logging in
        Ready         ///< the server executes commands
    };
    Q_ENUM(State)

    /// How a request about a hold that no lock of this registry has ended.
    enum Outcome {
        Done,       ///< confirmed by the server
        NotHeld,    ///< nobody holds the lock: it was released, or its lease has ended
        OtherHolder ///< somebody else than meant holds it, and was left alone
    };
    Q_ENUM(Outcome)

    /// The errors of a registry are those of locks.
    using Error = DistributedLock::Error;

    /// docs/servers.md lists the schemes of \a server. The registry connects when it is first needed.
    explicit LockRegistry(const QUrl &server, QObject *parent = nullptr);
    /// Releases what the locks of obtain() hold, without waiting, and deletes these locks. Other locks of the registry
    /// emit lost().
    ~LockRegistry() override;

    /// This thread's registry on defaultServer(); lives until the thread or the application ends.
    static LockRegistry *instance();
    /// This thread's registry on \a server, one for all spellings of its URL (`redis://h` and `redis://h:6379/0`);
    /// lives until the thread or the application ends.
    static LockRegistry *instance(const QUrl &server);
    /// Sets the server of registries that instance() creates from now on. Thread-safe.
    static void setDefaultServer(const QUrl &server);
    /// The URL set, or QDISTLOCK_URL, or redis://127.0.0.1:6379; with port, without database 0. Thread-safe.
    static QUrl defaultServer();
    /// Sets who this process is for others: in LockInfo, in their errors ("held by nightly on db7, pid 812") and in the
    /// server's list of clients. \a identity is `host:pid:application`, where an empty part has its default (host name,
    /// process id, QCoreApplication::applicationName()), or the application alone. Characters other than [A-Za-z0-9._-]
    /// become _, and long parts are cut. `none`, or the environment variable QDISTLOCK_IDENTITY with this value, shows
    /// nothing. Applies to registries that have not connected yet. Thread-safe.
    static void setIdentity(const QString &identity);

    /// The registry's own lock of that name, created when first needed. It is deleted when it has been Unlocked for
    /// idleEviction(): keep a QPointer, or call obtain() again. Null if called in the wrong thread.
    DistributedLock *obtain(const QString &name);
    /// How long a lock of obtain() stays Unlocked before it is deleted: 60 s by default. A negative
    /// time counts as 0.
    ///@{
    std::chrono::milliseconds idleEviction() const;
    void setIdleEviction(std::chrono::milliseconds idle);
    ///@}

    /// The URL of the server without user name and password; with port, without database 0.
    QUrl server() const;
    /// Of the connection. Disconnected is no error: see error().
    State state() const;
    /// The reason why the server cannot be used; NoError again when it has answered.
    Error error() const;
    /// Names the server (without secrets), what happened and what to do.
    QString errorString() const;

    /// The options of locks that are created from now on.
    ///@{
    LockOptions defaults() const;
    void setDefaults(const LockOptions &defaults);
    ///@}
    /// The key prefix of acquires and requests by name that begin from now on: `lock:` by default. A lock whose
    /// LockAddress has a key prefix keeps that.
    QString keyPrefix() const;
    /// Empty: the name alone is the key.
    void setKeyPrefix(const QString &prefix);

    // The futures below always finish with a result, which has an error if the server could not be asked. Cancelling
    // one takes the request back while the registry has not connected yet. After that it is executed, and only its
    // result is dropped.

    /// Asks the server who holds the lock, and how many wait.
    QFuture<LockInfo> inspect(const QString &name);
    /// Every lock held whose name matches the glob \a pattern, under keyPrefix(). The list is complete: if one master
    /// of a cluster cannot be asked, that is an error.
    QFuture<LockReply<QList<LockInfo>>> list(const QString &pattern);
    /// Deletes the key, whoever holds the lock: never OtherHolder. Readers, and holders of permits, lose it together.
    /// A holder emits lost(ForcedRelease) at once if its subscription is up. Otherwise it emits lost(Deleted) or
    /// lost(Stolen) at its next renewal, and until then still considers the lock held.
    QFuture<LockReply<Outcome>> forceRelease(const QString &name);
    /// Like forceRelease(name), but only while the lock is held with \a fencingToken (see LockInfo): it takes the lock
    /// away from the holder that was shown, never from the next one. OtherHolder also for a holder of another library,
    /// which has no fencing token. Of permits: from all holders, if nobody has taken permits since.
    QFuture<LockReply<Outcome>> forceRelease(const QString &name, qint64 fencingToken);
    /// Renews the hold for which DistributedLock::detach() returned \a token: its key lives for \a lease from now on.
    QFuture<LockReply<Outcome>> renew(const QString &name, const QByteArray &token, std::chrono::milliseconds lease);
    /// Releases the hold for which DistributedLock::detach() returned \a token; the lock passes to the next waiter.
    /// With \a keep > 0, 24 h at most, the lock remains taken for that time.
    QFuture<LockReply<Outcome>> release(const QString &name, const QByteArray &token,
                                        std::chrono::milliseconds keep = std::chrono::milliseconds(0));
    /// Sets the number of permits of the semaphore \a name, from 1 to LockOptions::MaximumPermits, whether it is held
    /// or not; returns the number before, 0 if there was none. Waiters that fit then are served at once. Nobody loses a
    /// permit: if more than \a permits are taken, nobody gets one until enough are returned. Acquires that say another
    /// number, also those that wait, end with OptionsError at their next attempt, unless they are served before.
    QFuture<LockReply<int>> setPermits(const QString &name, int permits);
    /// Those who wait in the queue of the lock, the next one first; the first 1000 of them, if there are more.
    QFuture<LockReply<QList<LockWaiter>>> waiters(const QString &name);

Q_SIGNALS:
    /// state() has a new value.
    void stateChanged();
    /// error() or errorString() has a new value.
    void errorChanged();
    /// The server cannot be used; emitted once while the same problem lasts. errorString() says what to do.
    void errorOccurred(QDistLock::DistributedLock::Error error);

private:
    friend class LockRegistryPrivate;
    Q_DISABLE_COPY_MOVE(LockRegistry)
    std::unique_ptr<LockRegistryPrivate> d;
};

} // namespace QDistLock

#endif
