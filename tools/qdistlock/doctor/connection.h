// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/connection.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qobject.h>

#include <chrono>
#include <functional>
#include <optional>

namespace Cli {

/*!
    A connection on which `doctor` asks the server what no lock would ask, with the library's own Redis client: so it
    meets the server as locks do.

    Its functions run the event loop until they have their result. A signal ends them, and all later calls at once; see
    interruption().
*/
class DoctorConnection : public QObject
{
    Q_OBJECT

public:
    DoctorConnection(const QtRedis::ServerUrl &server, std::chrono::milliseconds timeout);

    /// False if the server was not reached or refused the login.
    bool connectToServer();
    /// After a failure: names the server, and says what has happened.
    QString errorString() const;
    QtRedis::Failure failure() const { return m_connection.failure(); }
    const QtRedis::ServerUrl &server() const { return m_connection.server(); }

    /// The reply; null if the connection was lost.
    std::optional<QtRedis::Reply> ask(const QList<QByteArray> &command);
    /// The same, null also after an error reply.
    std::optional<QtRedis::Reply> askIfAllowed(const QList<QByteArray> &command);
    /// The value of a setting; empty if the user may not read it.
    QByteArray setting(const QByteArray &name);

    /// Runs an event loop until \a isDone, or until the time-out. Whatever may change the result of \a isDone calls
    /// wake().
    bool waitFor(const std::function<bool()> &isDone);
    void wake() { m_loop.quit(); }
    /// The exit code with which a signal has ended the program; 0 if none has.
    int interruption() const { return m_interruption; }

private:
    const std::chrono::milliseconds m_timeout;
    QEventLoop m_loop;
    QtRedis::Connection m_connection;
    int m_interruption = 0;
};

} // namespace Cli
