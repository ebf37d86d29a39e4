// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKREGISTRY_H
#define QDISTLOCK_LOCKREGISTRY_H

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockinfo.h>
#include <QDistLock/lockoptions.h>

#include <QtCore/qlist.h>
#include <QtCore/qurl.h>

namespace QDistLock {

class LockRegistryPrivate;

/*!
    The connection to one server for one thread, and the defaults for its locks.

    All locks of a registry share its connection, its subscription and its renewal beat.
    The connection is made when it is first needed, and made again after a loss.

    Thread: everything in the thread the registry was made in, which needs an event loop, except
    setDefaultServer() and defaultServer(), which are thread-safe. A call in another thread is logged as a warning and
    changes nothing; what asks the server ends with OptionsError.
    Errors: a URL that cannot be used is told by errorString() at once, and every acquire through this
    registry ends with OptionsError. Where the server refuses password, certificate or rights, an acquire
    fails at once; but a lock that is held, or that waits and has had an answer before, goes on until its
    deadline or the end of its wait, and the registry tries again every 1 to 10 s meanwhile.
    Ownership: owns the locks that obtain() returns. Destroying it releases what its locks hold; a lock
    that outlives it loses its hold with lost(). Where nobody destroys it, its locks are given back when its thread or,
    by exit() too, the program ends in order; a server that does not answer delays this for 250 ms at most.
    After fork() without exec() the child holds none of the parent's locks and cannot acquire any through this registry;
    each acquire ends with ConnectionError. A registry made in the child works.
*/
class QDISTLOCK_EXPORT LockRegistry : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QUrl server READ server CONSTANT FINAL)
    Q_PROPERTY(State state READ state NOTIFY stateChanged FINAL)
    Q_PROPERTY(QString errorString READ errorString NOTIFY errorChanged FINAL)

public:
    /// Of the connection that commands go over.
    enum State {
        Disconnected, ///< not needed yet, or lost and waiting for the next try
        Connecting,   ///< under way, logging in included
        Ready         ///< commands are answered
    };
    Q_ENUM(State)

    using Error = DistributedLock::Error;

    /// \a server: see the README for the schemes. Connects when first needed.
    explicit LockRegistry(const QUrl &server, QObject *parent = nullptr);
    ~LockRegistry() override;

    /// This thread's registry on defaultServer(); lives until the thread or the application ends.
    static LockRegistry *instance();
    /// This thread's registry on \a server, one for all spellings of its URL (`redis://h` and `redis://h:6379/0`); lives
    /// until the thread or the application ends.
    static LockRegistry *instance(const QUrl &server);
    /// Thread-safe. For registries made by instance() from now on.
    static void setDefaultServer(const QUrl &server);
    /// Thread-safe. The URL that was set, else QDISTLOCK_URL, else redis://127.0.0.1:6379. It always has its port, and never database 0.
    static QUrl defaultServer();

    /// The registry's own lock of that name, made when needed. It is deleted once it has been Unlocked
    /// for idleEviction(): keep a QPointer, or call obtain() again. Null when called in the wrong thread.
    DistributedLock *obtain(const QString &name);
    /// How long a lock of obtain() stays Unlocked before it is deleted: 60 s unless set; a negative time counts
    /// as 0.
    std::chrono::milliseconds idleEviction() const;
    void setIdleEviction(std::chrono::milliseconds idle);

    /// Without user name and password; with port, and without database 0.
    QUrl server() const;
    State state() const;
    /// Why the server cannot be used or asked; NoError once it answered.
    Error error() const;
    /// Names the server (without secrets), what happened and what to do.
    QString errorString() const;

    /// Options of the locks made from now on.
    LockOptions defaults() const;
    void setDefaults(const LockOptions &defaults);

    /// Always finishes with a result; LockInfo::error tells if the server could not be asked.
    QFuture<LockInfo> inspect(const QString &name);
    /// Every lock held whose name matches the glob \a pattern, under the default key prefix. Empty if the
    /// server could not be asked; error() then says why, and errorOccurred() was emitted.
    QFuture<QList<LockInfo>> list(const QString &pattern);
    /// Deletes the key whoever holds it; true if there was one. The holder emits lost(ForcedRelease) at once if
    /// its subscription stands, else lost(Deleted) or lost(Stolen) at its next renewal; until then it believes to
    /// hold it.
    /// False too if the server could not be asked, as with list().
    QFuture<bool> forceRelease(const QString &name);

Q_SIGNALS:
    void stateChanged();
    void errorChanged();
    void errorOccurred(QDistLock::DistributedLock::Error error);

private:
    friend class LockRegistryPrivate;
    Q_DISABLE_COPY_MOVE(LockRegistry)
    std::unique_ptr<LockRegistryPrivate> d;
};

} // namespace QDistLock

#endif
