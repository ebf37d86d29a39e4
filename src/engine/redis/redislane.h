// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "engine/redis/abandonedtokens.h"
#include "engine/redis/commandbatch.h"
#include "engine/redis/holderlookup.h"
#include "engine/redis/locklisting.h"
#include "engine/redis/plainlane.h"
#include "engine/redis/rediserrors.h"
#include "engine/redis/serverclock.h"

#include "base/postedcall.h"
#include "redis/connection.h"

#include <QtCore/qset.h>

#include <functional>
#include <optional>
#include <vector>

namespace QDistLock {

class LeaseClock;

/*!
    The operations of an engine over one connection to one Redis master, through the scripts in engine/redis/scripts.
    Similar operations of one event loop turn share a command; their order is kept. If the server refuses scripts, or
    its URL says scripts=off, they are transactions, see PlainLane; each new connection tries the scripts again.

    The member functions named as those of LockEngine do what these promise. Thread: the one it lives in.
*/
class RedisLane : public QObject
{
    Q_OBJECT
public:
    using Handler = QtRedis::Connection::Handler;
    /// \a error is the text of an error reply: MOVED, ASK or TRYAGAIN.
    using Redirect = std::function<void(LockOperations operations, const QByteArray &error)>;

    /// \a clock is not owned. \a isNeeded: whether a lock needs the connection; asked from the event loop.
    RedisLane(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
              std::function<bool()> isNeeded);
    /// Sends the operations that are left, and cancels: of abandoned tokens, and of those whose release has no reply.
    ~RedisLane() override;

    /// Before open(). Default: the name that shows who this client is, see ClientName.
    void setConnectionName(const QByteArray &name) { m_connection.setClientName(name); }
    /// Before open(): \a node of ClientName.
    void setNode(int node);
    /// For a node of a cluster: as QtRedis::Connection::setClusterId().
    void setClusterId(std::function<QByteArray()> idOf) { m_connection.setClusterId(std::move(idOf)); }
    /// For a node of a cluster: \a redirect gets the operations that another node must execute.
    void setRedirect(Redirect redirect);
    /// For a node of a cluster: list() uses \a read for a lock whose keys are not all at this node.
    void setReadMoving(LockListing::Read read) { m_listing.setReadMoving(std::move(read)); }
    void open() { m_connection.open(); }
    /// As QtRedis::Connection::isRetryingSlowly().
    bool isRetryingSlowly() const { return m_connection.isRetryingSlowly(); }
    /// Commands without a reply end as Failed, from the event loop.
    void close() { m_connection.close(); }
    /// For a node of a cluster, for good: \a reason, another node has taken over.
    void closeReplaced(const QString &reason);
    LockEngine::State state() const;
    bool isReady() const { return m_connection.state() == QtRedis::Connection::Ready; }
    /// Locks are acquired without scripts: nobody joins a queue.
    bool isPlain() const { return m_isPlain; }
    /// The error reply with which the server refused a script; empty if it has refused none.
    const QByteArray &scriptRefusal() const { return m_scriptRefusal; }
    EngineError error() const { return m_errors.ofConnection(); }
    const QtRedis::ServerUrl &server() const { return m_connection.server(); }
    /// As QtRedis::Connection::setServer().
    void setServer(const QtRedis::ServerUrl &server, const QString &reason) { m_connection.setServer(server, reason); }
    qint64 connectionId() const { return m_connection.id(); }
    /// A lock or an abandoned token needs the connection.
    bool isNeeded() const { return m_isNeeded() || m_abandoned.needConnection(); }
    /// Gives the connection up unless the server replies.
    void check();

    void cork() { m_isCorked = true; }
    void uncork();
    /// Sends the operations collected so far.
    void flush();
    /// With the next flush(), sends \a command after the operations, in the same write.
    void sendAfterOperations(const QList<QByteArray> &command, std::chrono::milliseconds timeout, Handler handler);
    /// Sends one command at once, or, if \a script is not null, a call of it with \a command as its key and arguments.
    /// \a isAsked: after an ASK, to a node that is importing the key's slot.
    void sendOne(const QtRedis::Script *script, const QList<QByteArray> &command, bool isAsked,
                 std::chrono::milliseconds timeout, Handler handler);
    EngineError errorOf(const QtRedis::CommandResult &result, const char *command)
    {
        return m_errors.ofResult(result, command);
    }
    EngineError errorOfText(const QByteArray &reply, const char *command) { return m_errors.ofReply(reply, command); }
    EngineError malformed(const char *command) const { return m_errors.ofMalformedReply(command); }

    /// Sends \a operation with the others of this event loop turn.
    void run(LockOperation operation);
    void acquire(const LockEngine::Acquire &operation, LockEngine::Completion completion);
    void convert(const LockEngine::Acquire &operation, const QByteArray &from, LockEngine::Completion completion);
    /// As acquire(), for one server of a quorum; \a floor: the fencing token is max(last + 1, floor) unless it is 0.
    /// Unlike acquire(), it may follow abandon() with the same token, which is wanted again.
    void vote(const LockEngine::Acquire &operation, qint64 floor, LockEngine::Completion completion);
    /// For one server of a quorum: the token gives a vote back that it cannot use yet, and waits in the queue, at its
    /// former place if it had one. Nobody is served: the first waiter must try again soon.
    void returnToQueue(const LockEngine::Acquire &operation, LockEngine::Completion completion);
    /// If \a token holds the lock (Done), the last fencing token given out is at least \a fencingToken from then on.
    void raise(const LockId &lock, const QByteArray &token, qint64 fencingToken, LockEngine::Completion completion);
    void renew(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
               LockEngine::Completion completion);
    void release(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, LockEngine::Completion completion);
    void abandon(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, std::chrono::milliseconds atMost);
    /// The token with this sequence number was served. If it was abandoned, it is cancelled again.
    void served(quint64 sequence);
    bool isReading() const { return m_connection.isReading(); }
    /// Everything that was requested has ended.
    bool isIdle() const { return m_operations.empty() && m_afterOperations.empty() && !m_connection.isWaiting(); }
    /// The clock of the connected server.
    const ServerClock &serverClock() const { return m_serverClock; }
    void inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion);
    bool findHolder(const LockEngine::Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion);
    void list(const QString &prefix, const QString &pattern, LockListing::Completion completion);
    /// As LockListing::scan().
    void scan(const QString &prefix, const QString &pattern, const QByteArray &cursor, LockListing::Scanned completion);
    void inspectAll(const QList<LockId> &locks, std::function<void(const LockEngine::Inspection &)> completion);
    void sendMessage(const QByteArray &client, const QByteArray &message,
                     std::function<void(const EngineError &)> completion);
    void clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion);
    void waiters(const LockId &lock, int atMost, LockListing::WaitersCompletion completion);
    /// Of what was read elsewhere, see OneKeyMode.
    void identifyHolders(const QList<FoundLock> &locks, LockListing::Completion completion)
    {
        m_listing.identifyHolders(locks, std::move(completion));
    }
    void waitersReceived(const QtRedis::CommandResult &result, LockListing::WaitersCompletion completion)
    {
        m_listing.waitersReceived(result, std::move(completion));
    }
    void forceRelease(const LockId &lock, qint64 fencingToken, LockEngine::Completion completion);
    /// As LockEngine::setPermits(); for a server that executes scripts.
    void setPermits(const LockId &lock, int permits, std::function<void(const EngineError &, int before)> completion);

Q_SIGNALS:
    void stateChanged();
    void failed();
    void handedOver(const QDistLock::LockEngine::Handover &handover);
    /// The server has executed a command; its completions have been called.
    void replied();
    /// As QtRedis::Connection::readEnded().
    void readEnded();
    /// Another server may keep the locks, see RedisErrors::setElsewhere().
    void elsewhere(const QByteArray &reply);
    /// A waiter in a queue found the lock taken, although it had a place in the queue before.
    void waiterPolled();
    /// The result of isPlain() has changed.
    void plainChanged();
    /// An operation has succeeded without scripts.
    void plainSucceeded();

private:
    void connectionStateChanged();
    bool isAlive();
    void wakeForAbandoned();
    void setPlain(bool isPlain);
    bool isRefusal(const QtRedis::CommandResult &result);
    EngineError plainRefused(const QByteArray &error, const char *command);
    void plainEnded(const LockOperation &operation, const EngineReply &reply);
    void runPlainly(LockOperations operations);
    void scriptEnded();
    void send(LockOperations operations, std::chrono::milliseconds timeout);
    void received(CommandBatch *batch, const QtRedis::CommandResult &result);
    /// Of a script that replies with 1, 0, 2 or the text of an error, for one lock.
    EngineReply statusOf(const QtRedis::CommandResult &result, const char *command);
    EngineReply decode(const CommandBatch &batch, size_t index, const QtRedis::Reply &element,
                       std::optional<LockEngine::Handover> *handover);

    QtRedis::Connection m_connection;
    const QByteArray m_clientId;
    RedisErrors m_errors;
    HolderLookup m_holders;
    LockListing m_listing;
    const LeaseClock *const m_clock;
    const std::function<bool()> m_isNeeded;
    AbandonedTokens m_abandoned;
    Redirect m_redirect; ///< null outside clusters
    ServerClock m_serverClock;
    PlainLane m_plain;
    bool m_isPlain;
    bool m_isNode = false; ///< of a quorum, see setNode()
    QByteArray m_scriptRefusal;
    QSet<CommandBatch *> m_inFlight; ///< calls of scripts without a reply
    LockOperations m_refused;        ///< for m_plain, once no script is in flight
    LockOperations m_operations;     ///< of this event loop turn
    std::vector<std::function<void()>> m_afterOperations;
    PostedCall m_postedFlush{this, [this] { flush(); }};
    bool m_isCorked = false;
};

} // namespace QDistLock
