// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_SCOPEDLOCK_H
#define QDISTLOCK_SCOPEDLOCK_H

#include <QDistLock/impl/scopedlockmacros.h>
#include <QDistLock/lockaddress.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/lockresult.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qexception.h>
#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

#include <atomic>
#include <memory>

namespace QDistLock {

class Deadline;
class LockHold;

/// Thrown by QDL_SCOPED_LOCK() when the lock was not acquired. A QFuture can carry it to another thread.
class QDISTLOCK_EXPORT LockUnavailable : public QException
{
public:
    /// For code of the application that reports a failure in the same way.
    explicit LockUnavailable(const LockResult &result);
    ~LockUnavailable() override; ///< In the library, so that other libraries can catch it.

    /// The reason.
    LockResult result() const { return m_result; }
    /// result().errorString in UTF-8: names lock, server (without secrets), reason and what to do.
    const char *what() const noexcept override { return m_what.constData(); }
    /// What QFuture calls to carry the exception.
    ///@{
    void raise() const override;
    LockUnavailable *clone() const override;
    ///@}

private:
    LockResult m_result;
    QByteArray m_what;
};

/// Thrown by the check() of a scope when its lock, or one of its locks, is not held any more. A QFuture can carry it to
/// another thread.
class QDISTLOCK_EXPORT LockLost : public QException
{
public:
    /// For code of the application that reports a loss in the same way; \a message is the text of what().
    LockLost(const QString &lockName, const QString &message);
    ~LockLost() override; ///< In the library, so that other libraries can catch it.

    /// The name of the lock, without its key prefix.
    QString lockName() const { return m_lockName; }
    /// In UTF-8; names the lock, or the locks of which one is not held.
    const char *what() const noexcept override { return m_what.constData(); }
    /// What QFuture calls to carry the exception.
    ///@{
    void raise() const override;
    LockLost *clone() const override;
    ///@}

private:
    QString m_lockName;
    QByteArray m_what;
};

/*!
    A lock for a scope, for code that may block its thread. The constructor acquires the lock, and blocks until it has
    it; the destructor releases it.

    A background thread keeps the lock and renews it, whether the thread of the scope computes, sleeps or waits. The
    calling thread needs no event loop, and runs none while it waits.

    The thread owns the lock. A scope with the same server, key prefix and name inside another scope, or inside a method
    or function that annotations.h runs under that lock, re-enters the lock if it is in the same thread; this sends no
    command. The scopes may end in any order; the last one releases the lock. If the outer scope has lost its lock, the
    inner one acquires the lock itself. A scope in LockOptions::Exclusive inside one in LockOptions::Shared would wait
    for itself, and fails with UpgradeError. Servers are compared by their URLs, without the login and in any spelling:
    `redis://h` is `redis://u:p@h:6379/0`. Names are not resolved, so `localhost` is not 127.0.0.1: use the same one
    everywhere.

    Under the lock: the calling thread until the end of the scope, or release(). Not: threads, timers and queued calls
    that it starts.

    Loss: a thread cannot be interrupted when its lock is lost. Call isHeld() or check() before each step that needs the
    lock, and pass the fencing token to resources that can refuse an old one.

    Waiting: at most as long as `wait` of the options. `wait` = 0 makes one attempt; if the server does not answer, it
    fails after 5 s (1 s in the GUI thread). The GUI thread may only use `wait` = 0: any other value fails with
    BusyError and a warning, see setGuiThreadWaitAllowed().

    Deadlock: a scope must not wait for a lock that its own thread holds in another way: by a DistributedLock of this
    thread, or by an annotated call (or withLock()) of this thread whose QFuture has not finished. Such a scope waits in
    vain, and its error names the holder. The continuations of such a QFuture are not
    under the lock, because the thread may run any other task meanwhile. To have them under the lock, construct a
    ScopedLock in the work and keep it, for instance in a std::shared_ptr, until they have run.

    Thread: any but the library's own. A scope is used and destroyed in the thread that constructed it; isHeld(),
    check() and fencingToken() are thread-safe. release() in another thread is refused. Destruction in another thread
    releases the lock and logs a warning.
    Errors: in result(); constructor and destructor throw nothing. If the system cannot start the library's background
    thread, the acquire fails with an error.
    Requires a QCoreApplication. When the application ends, all locks are released, and scopes that wait fail with
    CancelledError. A child after fork() holds none of its parent's locks; if the parent has used a scope, each new
    scope in the child fails with an error until exec(). The child should end with _exit(), as the child of any program
    with threads.
*/
class QDISTLOCK_EXPORT ScopedLock
{
public:
    /// Acquires the lock.
    [[nodiscard]] explicit ScopedLock(const LockAddress &address, const LockOptions &options = {});
    /// Releases the lock without waiting for the server, which executes the release before the next acquire of this
    /// thread. Use release() if you need to know that the server has confirmed it.
    ~ScopedLock();

    /// The name of the lock, without its key prefix.
    QString name() const { return m_addresses.constFirst().name(); }
    /// Reads the clock: false from the local deadline on, after a loss, and after release(). Thread-safe.
    ///@{
    bool isHeld() const;
    explicit operator bool() const { return isHeld(); }
    ///@}
    /// Throws LockLost unless isHeld(). Thread-safe.
    void check() const;
    /// Strictly greater with each later acquisition of the name; 0 if the lock was not acquired. Thread-safe.
    qint64 fencingToken() const;
    /// How the acquire ended; OptionsError after a release() in another thread.
    LockResult result() const;
    /// Releases the lock before the end of the scope. Blocks until the server has confirmed the release, at most until
    /// the deadline of the lock (1 s in the GUI thread). True if the lock was held until then and the server has
    /// confirmed the release, or if another scope of this thread still holds the lock. False if the lock had been lost,
    /// and in another thread.
    bool release();

    /// Allows scopes in the GUI thread to wait, which freezes the user interface. Off by default. Thread-safe.
    ///@{
    static void setGuiThreadWaitAllowed(bool allowed);
    static bool isGuiThreadWaitAllowed();
    ///@}

private:
    friend class ScopedMultiLock;
    Q_DISABLE_COPY_MOVE(ScopedLock)
    /// For a part of a ScopedMultiLock: locks of one outer hold, to be re-entered, or locks to be acquired together.
    ScopedLock(const QList<LockAddress> &addresses, std::shared_ptr<LockHold> outer, const LockOptions &options);
    void acquire(std::shared_ptr<LockHold> outer, const LockOptions &options);
    bool release(const Deadline &waitEnd);
    static Deadline endOfReleaseWait();
    void fail(DistributedLock::Error error, const QString &text);
    QString describe(const QString &text) const;
    QString logLine(const QString &text) const;

    const QList<LockAddress> m_addresses; ///< of the locks that are acquired together: one, except in a ScopedMultiLock
    LockResult m_result;
    std::shared_ptr<LockHold> m_hold; ///< null if the lock was not acquired
    const Qt::HANDLE m_thread;
    std::atomic<bool> m_released{false};
    std::atomic<bool> m_misused{false};
};

/// True if the calling code runs under the lock \a address, and the lock is still held: inside a ScopedLock of this
/// thread, or inside a method or function that annotations.h runs, until that returns (even if it returns a QFuture).
/// A lock held in LockOptions::Shared or with permits counts only if \a mode is LockOptions::Shared. Sends no command.
/// May be called in any thread.
QDISTLOCK_EXPORT bool isLockedHere(const LockAddress &address, LockOptions::Mode mode = LockOptions::Exclusive);
/// The fencing token of that lock; 0 if there is none.
QDISTLOCK_EXPORT qint64 fencingTokenHere(const LockAddress &address);

} // namespace QDistLock

/*!
    \file
    Locks for code that may block its thread.
*/

/*!
    QDL_SCOPED_LOCK(address, options…): the rest of the scope runs under the lock. Throws QDistLock::LockUnavailable if
    the lock cannot be acquired. See QDistLock::ScopedLock.

    The address is a LockAddress, or the name of the lock: a QString, a view of one, a literal, or a constant array of
    characters, without the NULs that pad it. The options are designated initialisers in C++20, in the order of the
    fields, or a LockOptions:

    \code
    QDL_SCOPED_LOCK(u"order:%1"_s.arg(id), .lease = 1min, .wait = 2s);
    QDL_SCOPED_LOCK("report", LockOptions().withWait(2s));
    \endcode

    The guard has no name that your code could use: call isLockedHere() and fencingTokenHere().
*/
#define QDL_SCOPED_LOCK(...) QDL_DETAIL_EXPAND(QDL_DETAIL_SCOPED_LOCK(QDL_DETAIL_NAME(__COUNTER__), __VA_ARGS__))

/// QDL_WITH_LOCK(address, options…) { runs under the lock } else { runs if the lock cannot be acquired }
#define QDL_WITH_LOCK(...) QDL_DETAIL_EXPAND(QDL_DETAIL_WITH_LOCK(QDL_DETAIL_NAME(__COUNTER__), __VA_ARGS__))

/*!
    QDL_ASSERT_LOCKED(address): aborts if this thread does not run under that lock, with a message that names lock,
    function and line. For code that only reads, say `QDL_ASSERT_LOCKED(address, .mode = LockOptions::Shared)`: a reader
    or a writer satisfies it. As Q_ASSERT, it does nothing if QT_NO_DEBUG is defined, unless QT_FORCE_ASSERTS is.
*/
#if defined(QT_NO_DEBUG) && !defined(QT_FORCE_ASSERTS)
#  define QDL_ASSERT_LOCKED(...) static_cast<void>(false && QDL_DETAIL_EXPAND(QDL_DETAIL_IS_LOCKED(__VA_ARGS__)))
#else
#  define QDL_ASSERT_LOCKED(...) QDL_DETAIL_EXPAND(QDL_DETAIL_ASSERT_LOCKED(__VA_ARGS__))
#endif

#endif
