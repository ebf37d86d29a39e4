// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/engineerror.h"

#include "redis/connection.h"

#include <functional>
#include <utility>

namespace QDistLock {

/// Explains what went wrong on a connection as EngineErrors, which never contain arguments of commands. Thread:
/// that of the connection.
class RedisErrors
{
public:
    /// \a connection outlives this.
    explicit RedisErrors(QtRedis::Connection *connection)
        : m_connection(connection)
    {
    }

    /// \a report is called with each error reply after which another server may keep the locks: it says so, or this one
    /// is no master, or is loading its data, or its cluster is down.
    void setElsewhere(std::function<void(const QByteArray &reply)> report) { m_elsewhere = std::move(report); }

    /// The server is a node of the cluster that the URL names: it may redirect.
    void setIsClusterNode() { m_isClusterNode = true; }
    /// Commands without a reply end from now on because another node has taken over.
    void setIsReplaced() { m_isReplaced = true; }

    /// Redis repeats the arguments of a command that it does not know; a token may be among them.
    static QByteArray withoutArguments(const QByteArray &reply);
    /// Whether \a reply, the text of an error, says that the server does not know a command, or that the user may not
    /// use it at all, whatever the key.
    static bool isCommandRefused(const QByteArray &reply);
    /// The same for scripts, or for one of ours, which some services do not accept.
    static bool isScriptRefused(const QByteArray &reply);
    /// \a text says why something failed for the reason \a failure.
    static EngineError ofFailure(QtRedis::Failure failure, const QString &text);
    /// Why the connection is not Ready; NoError if it has not failed.
    EngineError ofConnection() const;
    /// Of a command without a reply, or with an error reply.
    EngineError ofResult(const QtRedis::CommandResult &result, const char *command);
    /// Of \a reply, the text of an error. If it says that the server is not the master, the connection is made again,
    /// in case the server's address leads to the new master by now.
    EngineError ofReply(const QByteArray &reply, const char *command);
    /// Of a reply that does not have the form it should have.
    EngineError ofMalformedReply(const char *command) const;

private:
    QtRedis::Connection *const m_connection;
    std::function<void(const QByteArray &reply)> m_elsewhere;
    bool m_isClusterNode = false;
    bool m_isReplaced = false;
};

} // namespace QDistLock
