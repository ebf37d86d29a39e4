// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/rediserrors.h"

#include <algorithm>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

/// Redis 6.2 wraps an error that a script met:
/// "ERR Error running script (…): @user_script:14: @user_script: 14: -READONLY …"
QByteArray withoutScriptWrapper(const QByteArray &reply)
{
    const qsizetype wrapper = reply.indexOf("@user_script: ");
    const qsizetype error = wrapper < 0 ? -1 : reply.indexOf(": -", wrapper);
    return error < 0 ? reply : reply.sliced(error + 3);
}

/// A server that refuses a command in this way will always do so. What else it says, or a proxy in its own words, may
/// pass.
bool isRefusedForGood(const QByteArray &text)
{
    if (RedisErrors::isCommandRefused(text))
        return true;
    const QByteArray lower = RedisErrors::withoutArguments(text).toLower();
    const auto words = {"syntax error",         "wrong number of arguments", "unknown subcommand",
                        "not an integer",       "invalid expire time",       "bad lua script",
                        "error running script", "error compiling script"};
    return lower.startsWith("err user_script:")
            || (lower.startsWith("err ") && std::any_of(words.begin(), words.end(), [&lower](const char *some) {
                    return lower.contains(some);
                }));
}

DistributedLock::Error errorOf(QtRedis::Failure failure)
{
    switch (failure) {
    case QtRedis::Failure::None:
    case QtRedis::Failure::Network:
    case QtRedis::Failure::NameResolution:
    case QtRedis::Failure::Timeout:
    case QtRedis::Failure::Fork:
        break;
    case QtRedis::Failure::Certificate:
    case QtRedis::Failure::Authentication:
        return DistributedLock::AuthenticationError;
    case QtRedis::Failure::Permission:
        return DistributedLock::PermissionError;
    case QtRedis::Failure::Protocol:
        return DistributedLock::ProtocolError;
    case QtRedis::Failure::Service:
    case QtRedis::Failure::Server:
        return DistributedLock::ServerError;
    }
    return DistributedLock::ConnectionError;
}

} // namespace

QByteArray RedisErrors::withoutArguments(const QByteArray &reply)
{
    const qsizetype end = reply.indexOf(", with args");
    return end < 0 ? reply : reply.first(end);
}

bool RedisErrors::isCommandRefused(const QByteArray &reply)
{
    const QByteArray text = withoutArguments(reply).toLower();
    if (text.startsWith("noperm"))
        return text.contains("to run the '");
    const auto has = [&text](const char *words) { return text.contains(words); };
    return text.startsWith("err ")
            && (has("unknown command") || has("unsupported command") || has("command is not supported")
                || has("command is disabled") || has("command is not allowed"));
}

bool RedisErrors::isScriptRefused(const QByteArray &reply)
{
    if (reply.startsWith("ERR bad lua script"))
        return true;
    const QByteArray text = withoutArguments(reply).toLower();
    return isCommandRefused(reply) && text.contains(text.startsWith("noperm") ? "to run the 'eval" : "eval");
}

EngineError RedisErrors::ofFailure(QtRedis::Failure failure, const QString &text)
{
    EngineError error = EngineError::passing(errorOf(failure), text).ofServer();
    error.isPermanent = QtRedis::isPermanent(failure);
    return error;
}

EngineError RedisErrors::ofConnection() const
{
    if (m_connection->failure() == QtRedis::Failure::None)
        return {};
    return ofFailure(m_connection->failure(), m_connection->errorString());
}

EngineError RedisErrors::ofResult(const QtRedis::CommandResult &result, const char *command)
{
    if (result.outcome == QtRedis::CommandResult::Replied)
        return ofReply(result.reply.text, command);
    EngineError error = ofFailure(result.failure, result.errorString);
    error.isMaybeExecuted = result.outcome == QtRedis::CommandResult::Unknown;
    error.canRetryAtOnce = m_isReplaced;
    return error;
}

EngineError RedisErrors::ofReply(const QByteArray &reply, const char *command)
{
    const QByteArray text = withoutScriptWrapper(reply);
    const QByteArray code = text.split(' ').first();
    const auto describe = [&](const QString &advice) {
        const QtRedis::ServerUrl &server = m_connection->server();
        return u"the server %1 answered %2 with \"%3\"; %4"_s.arg(server.toDisplayString(), QLatin1String(command),
                                                                  server.shown(withoutArguments(text)), advice);
    };
    if (code == "NOAUTH" || code == "WRONGPASS") {
        return EngineError::permanent(
                       DistributedLock::AuthenticationError,
                       describe(u"check user name and password in the server's URL or QDISTLOCK_PASSWORD"_s))
                .ofServer();
    }
    if (code == "NOPERM" || text.contains("ACL failure in script") // 7.2 and later
        || text.contains("The user executing the script can't")) { // run this command, access …, publish …
        return EngineError::permanent(
                DistributedLock::PermissionError,
                describe(u"grant the user the commands, keys and channels listed in docs/servers.md"_s));
    }
    if (code == "WRONGTYPE") {
        return EngineError::permanent(
                DistributedLock::ForeignTypeError,
                describe(u"another program uses the key, which was left as it is; use another name or key prefix"_s));
    }
    if (text.contains("fencing counter")) {
        return EngineError::permanent(
                DistributedLock::ServerError,
                describe(
                        u"another program wrote to the counter; delete its key, which ends in \":fence\", once nothing depends on the number in it"_s));
    }
    const bool isReplica = code == "READONLY" || code == "MASTERDOWN"
            || text.contains("WAIT cannot be used with replica");
    const bool isClusterDown = code == "CLUSTERDOWN" || text.contains("while the cluster is down"); // in a script
    const bool isElsewhere = isReplica || code == "MOVED" || isClusterDown || code == "LOADING";
    if (isElsewhere && m_elsewhere)
        m_elsewhere(text);
    if (!m_isClusterNode && (code == "MOVED" || code == "ASK" || code == "TRYAGAIN")) {
        const QtRedis::ServerUrl &server = m_connection->server();
        return EngineError::permanent(
                DistributedLock::ServerError,
                describe(
                        u"it is a node of a Redis Cluster, and another node keeps the lock; use %1:// with its address"_s
                                .arg(server.scheme == QtRedis::ServerUrl::Tls ? u"rediss+cluster"_s
                                                                              : u"redis+cluster"_s)));
    }
    const bool isAbortedScript = text.contains("non local key"); // what it did before remains done
    if (isAbortedScript || code == "MOVED" || code == "ASK" || code == "TRYAGAIN") {
        EngineError error = EngineError::passing(
                DistributedLock::ServerError,
                describe(u"the cluster moves the lock's slot to another node; it is tried again"_s));
        error.isMaybeExecuted = isAbortedScript;
        error.isSlotMoving = true;
        return error;
    }
    if (isClusterDown) {
        return EngineError::passing(
                       DistributedLock::ServerError,
                       describe(
                               u"the cluster is not complete, or this node is cut off from it; look at CLUSTER INFO. It is tried again for as long as there is time"_s))
                .ofServer();
    }
    if (!isReplica && isRefusedForGood(text)) {
        return EngineError::permanent(DistributedLock::ServerError,
                                      describe(u"check that it is a Redis server, version 6.2 or later"_s))
                .ofServer();
    }
    if (isReplica) {
        // After a fail-over the same address may lead to the new master, but only for new connections.
        m_connection->reconnect(
                u"the server answered %1 with \"%2\", so it is not the master; connecting again, in case the address leads to another server by now"_s
                        .arg(QLatin1String(command), QString::fromUtf8(code)));
    }
    return EngineError::passing(DistributedLock::ServerError,
                                describe(u"it is tried again for as long as there is time"_s))
            .ofServer();
}

EngineError RedisErrors::ofMalformedReply(const char *command) const
{
    return EngineError::passing(
                   DistributedLock::ProtocolError,
                   u"the server %1 sent an unexpected reply to %2; check that it is a Redis server, version 6.2 or later"_s
                           .arg(m_connection->server().toDisplayString(), QLatin1String(command)))
            .maybeExecuted();
}

} // namespace QDistLock
