// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "exitcodes.h"
#include "options.h"

#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qfuturewatcher.h>
#include <QtCore/qobject.h>
#include <QtCore/qtimer.h>
#include <QtCore/qurl.h>

#include <memory>

namespace Cli {

/*!
    One command's use of one server.

    \code
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode(); // the error has been printed
    const auto locks = session.awaitReply(session.registry()->list(pattern));
    if (!locks)
        return session.exitCode();
    \endcode

    Thread: the main thread.
*/
class Session : public QObject
{
    Q_OBJECT

public:
    explicit Session(const Invocation &invocation);
    ~Session() override;

    /// False if the server's URL is bad, or after a failure.
    bool isUsable() const { return m_exitCode == Success; }
    int exitCode() const { return m_exitCode; }

    QDistLock::LockRegistry *registry() { return m_registry.get(); }
    const Invocation &invocation() const { return m_invocation; }
    /// The URL with everything in it.
    const QUrl &server() const { return m_server; }
    bool isZooKeeper() const { return m_server.scheme() == QLatin1String("zookeeper"); }
    /// The server without user name and password.
    QString serverText() const { return m_registry->server().toString(); }
    QString keyPrefix() const { return m_registry->keyPrefix(); }
    /// Two locks of one name exclude each other if this is the same for both: the server, and the key prefix.
    QByteArray placeText() const { return (serverText() + u' ' + keyPrefix()).toUtf8(); }
    /// The options of the command line that concern locks; `wait` is LockOptions::Forever without --timeout.
    QDistLock::LockOptions lockOptions() const;

    /// The error in the options for locks, or in their combination; empty if they are correct.
    QString usageError() const;

    /// Prints \a text, one line, and returns the exit code that belongs to \a error, which exitCode() returns from now
    /// on.
    int fail(QDistLock::DistributedLock::Error error, const QString &text);
    /// The same for errors that the program itself finds.
    int fail(int exitCode, const QString &text);
    /// Whether the server is a read-only replica, by \a text of an error. False with Sentinels and clusters: there the
    /// master is found, so the error passes.
    bool isReadOnly(const QString &text) const;
    /// The exit code that belongs to \a error and its \a text.
    int exitCodeOf(QDistLock::DistributedLock::Error error, const QString &text) const;

    /*!
        Runs the event loop until \a future has finished, and returns its result. Null, with exitCode() set, if the
        server was not reached within --connect-timeout, which is printed, or if a signal ended the program. Call
        QDistLock::quitOnSignals() before.
    */
    template<typename T>
    std::optional<T> await(const QFuture<T> &future)
    {
        QFutureWatcher<T> watcher;
        QEventLoop loop;
        QObject::connect(&watcher, &QFutureWatcherBase::finished, &loop, &QEventLoop::quit);
        QObject::connect(this, &Session::failed, &loop, &QEventLoop::quit);
        watcher.setFuture(future);
        startConnectTimeout();
        const int code = isUsable() && !watcher.isFinished() ? loop.exec() : 0;
        if (code != 0)
            m_exitCode = code;
        if (!isUsable() || !watcher.isFinished())
            return std::nullopt;
        return watcher.result();
    }

    /// The same for a request of the registry. Also null, with exitCode() set, if the request failed, which is printed.
    template<typename T>
    std::optional<T> awaitReply(const QFuture<QDistLock::LockReply<T>> &future)
    {
        const auto reply = await(future);
        if (reply && !*reply)
            fail(reply->error, reply->errorString);
        return reply && *reply ? std::optional(reply->value) : std::nullopt;
    }

    /// --connect-timeout, or its default.
    std::chrono::milliseconds connectTimeout() const;
    /// From now on, failed() is emitted if the server is not reached within connectTimeout(). Once it has been
    /// reached, later outages do not count.
    void startConnectTimeout();
    /// The server has been reached, though it may be away now.
    bool wasReached() const { return m_reached; }

Q_SIGNALS:
    /// The error has been printed, and exitCode() is set.
    void failed();

private:
    void connectTimeoutEnded();

    const Invocation m_invocation;
    const QUrl m_server;
    std::unique_ptr<QDistLock::LockRegistry> m_registry;
    QTimer m_connectTimer;
    bool m_reached = false;
    int m_exitCode = Success;
};

} // namespace Cli
