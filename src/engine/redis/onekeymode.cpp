// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/onekeymode.h"

#include "base/leaseclock.h"
#include "engine/redis/clusternode.h"
#include "engine/redis/rediskeys.h"
#include "scripts.h"

#include <QtCore/qpointer.h>

#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr milliseconds ProbeInterval = 1s;
constexpr int MostRedirections = 5;

QByteArray number(milliseconds duration)
{
    return QByteArray::number(qint64(duration.count()));
}

} // namespace

/// A command with one key, which may be redirected.
struct OneKeyMode::Command
{
    int slot;
    const QtRedis::Script *script; ///< null: the arguments are a whole command
    QList<QByteArray> arguments;   ///< the key first, if there is a script
    milliseconds timeout;
    Done done;
    int redirections = 0;
};

OneKeyMode::OneKeyMode(const LeaseClock *clock, std::function<ClusterNode *(const QtRedis::Endpoint &)> nodeAt,
                       std::function<ClusterNode *(int slot)> nodeOf,
                       std::function<void(const QtRedis::Redirection &)> moved)
    : m_clock(clock)
    , m_nodeAt(std::move(nodeAt))
    , m_nodeOf(std::move(nodeOf))
    , m_moved(std::move(moved))
{
}

void OneKeyMode::begin(int slot)
{
    m_slots.removeIf([](const auto &entry) { return entry.value().hasExpired(); });
    m_slots.insert(slot, QDeadlineTimer(ProbeInterval));
}

bool OneKeyMode::isActive(int slot) const
{
    const auto it = m_slots.constFind(slot);
    return it != m_slots.cend() && !it->hasExpired();
}

void OneKeyMode::run(LockOperation operation)
{
    const auto shared = std::make_shared<LockOperation>(std::move(operation));
    switch (shared->kind) {
    case LockOperation::Acquire:
        return acquire(shared);
    case LockOperation::Renew:
        return renew(shared);
    case LockOperation::Release:
    case LockOperation::Cancel:
        return release(shared);
    }
}

void OneKeyMode::acquire(const std::shared_ptr<LockOperation> &operation)
{
    const LeaseTime sentAt = m_clock->now();
    send(operation, &Scripts::onekey_claim,
         {operation->lock.key(), operation->token, number(operation->lease), operation->flags},
         [this, operation, sentAt](const QtRedis::CommandResult &result, ClusterNode *node) {
             const bool isClaimed = result.outcome == QtRedis::CommandResult::Replied
                     && result.reply.type == QtRedis::Reply::Integer && result.reply.integer == 1;
             if (!isClaimed) {
                 operation->completion(decode(*operation, sentAt, Scripts::onekey_claim.name, result, node));
                 return;
             }
             // A holder that is still in the queue would be served when it releases the lock. We do not know whether
             // the token is there: an earlier attempt may have had no reply.
             leaveQueue(operation, [this, operation, sentAt](const EngineError &error, bool) {
                 if (!error)
                     return drawFence(operation, sentAt);
                 EngineReply reply;
                 reply.error = error;
                 reply.error.isMaybeExecuted = true; // the key holds the token
                 operation->completion(reply);
             });
         });
}

// If the reply comes too late, the caller drops the token and gives the lock back, as after any late acquire.
void OneKeyMode::drawFence(const std::shared_ptr<LockOperation> &operation, LeaseTime sentAt)
{
    send(operation, &Scripts::onekey_fence, {RedisKeys::fence(operation->lock)},
         [this, operation, sentAt](const QtRedis::CommandResult &result, ClusterNode *node) {
             EngineReply reply = decode(*operation, sentAt, Scripts::onekey_fence.name, result, node);
             if (reply.status == EngineReply::Failed)
                 reply.error.isMaybeExecuted = true; // the key holds the token
             operation->completion(reply);
         });
}

void OneKeyMode::release(const std::shared_ptr<LockOperation> &operation)
{
    send(operation, &Scripts::onekey_release, {operation->lock.key(), operation->token, number(operation->keep)},
         [this, operation](const QtRedis::CommandResult &result, ClusterNode *node) {
             const EngineReply reply = decode(*operation, {}, Scripts::onekey_release.name, result, node);
             if (operation->kind != LockOperation::Cancel || reply.status == EngineReply::Failed) {
                 operation->completion(reply);
                 return;
             }
             leaveQueue(operation, [operation, released = reply.status](const EngineError &error, bool hadPlace) {
                 EngineReply cancelled;
                 cancelled.error = error;
                 if (!error)
                     cancelled.status = released == EngineReply::Done || hadPlace ? EngineReply::Done
                                                                                  : EngineReply::Gone;
                 operation->completion(cancelled);
             });
         });
}

void OneKeyMode::leaveQueue(const std::shared_ptr<LockOperation> &operation,
                            std::function<void(const EngineError &, bool hadPlace)> done)
{
    send(operation, nullptr, {"ZREM", RedisKeys::queue(operation->lock), operation->token, '*' + operation->token},
         [done = std::move(done)](const QtRedis::CommandResult &result, ClusterNode *node) {
             const bool isDone = result.outcome == QtRedis::CommandResult::Replied && !result.reply.isError();
             EngineError error;
             if (!node)
                 error = EngineError::passing(DistributedLock::ServerError, result.errorString);
             else if (!isDone && result.reply.errorCode() != "WRONGTYPE") // then nobody is in the queue
                 error = node->lane().errorOf(result, "ZREM");
             done(error, isDone && result.reply.integer > 0);
         });
}

void OneKeyMode::renew(const std::shared_ptr<LockOperation> &operation)
{
    send(operation, &Scripts::renew, {operation->lock.key(), operation->token, number(operation->lease)},
         [this, operation](const QtRedis::CommandResult &result, ClusterNode *node) {
             QtRedis::CommandResult single = result; // the script replies with a list of one
             if (single.reply.type == QtRedis::Reply::Array && single.reply.elements.size() == 1)
                 single.reply = result.reply.elements.first();
             operation->completion(decode(*operation, {}, Scripts::renew.name, single, node));
         });
}

EngineReply OneKeyMode::decode(const LockOperation &operation, LeaseTime sentAt, const char *command,
                               const QtRedis::CommandResult &result, ClusterNode *node) const
{
    EngineReply reply;
    if (!node) {
        reply.error = EngineError::passing(DistributedLock::ServerError, result.errorString);
        return reply;
    }
    RedisLane &lane = node->lane();
    if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError()) {
        reply.error = lane.errorOf(result, command);
        return reply;
    }
    LockOperations single;
    single.push_back(operation);
    CommandBatch::Decoded decoded = CommandBatch(std::move(single), sentAt).decode(0, result.reply);
    reply = decoded.reply;
    if (decoded.isMalformed)
        reply.error = lane.malformed(command);
    else if (!decoded.errorText.isEmpty())
        reply.error = lane.errorOfText(decoded.errorText, command);
    return reply;
}

void OneKeyMode::send(const std::shared_ptr<LockOperation> &operation, const QtRedis::Script *script,
                      const QList<QByteArray> &arguments, Done done)
{
    send(std::make_shared<Command>(Command{operation->slot, script, arguments, operation->timeout(), std::move(done)}),
         std::nullopt);
}

void OneKeyMode::send(const std::shared_ptr<Command> &command, const std::optional<QtRedis::Endpoint> &asked)
{
    ClusterNode *const node = asked ? m_nodeAt(*asked) : m_nodeOf(command->slot);
    if (!node) {
        QtRedis::CommandResult result;
        result.errorString = u"no node of the cluster serves the slot %1 of the lock; look at CLUSTER INFO"_s.arg(
                command->slot);
        command->done(result, nullptr);
        return;
    }
    node->whenConnected([this, command, guard = QPointer(node), isAsked = asked.has_value()] {
        if (!guard)
            return;
        guard->lane().sendOne(command->script, command->arguments, isAsked, command->timeout,
                              [this, command, guard](const QtRedis::CommandResult &result) {
                                  if (guard)
                                      received(command, guard, result);
                              });
    });
}

void OneKeyMode::received(const std::shared_ptr<Command> &command, ClusterNode *node,
                          const QtRedis::CommandResult &result)
{
    const QByteArray error = result.reply.isError() ? result.reply.text : QByteArray();
    const auto redirection = QtRedis::Redirection::parse(error, node->endpoint());
    if (!redirection || ++command->redirections > MostRedirections) {
        command->done(result, node);
        return;
    }
    if (redirection->kind == QtRedis::Redirection::Ask) {
        begin(command->slot);
        return send(command, redirection->endpoint);
    }
    m_moved(*redirection);
    send(command, std::nullopt);
}

} // namespace QDistLock
