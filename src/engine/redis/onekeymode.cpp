// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/onekeymode.h"

#include "engine/protocolconstants.h"
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

QtRedis::CommandResult unserved(int slot)
{
    QtRedis::CommandResult result;
    result.errorString = u"no node of the cluster serves the slot %1 of the lock; look at CLUSTER INFO"_s.arg(slot);
    return result;
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
                       std::function<ClusterNode *(int slot)> nodeOf, Moved moved)
    : m_clock(clock)
    , m_nodeAt(std::move(nodeAt))
    , m_nodeOf(std::move(nodeOf))
    , m_moved(std::move(moved))
{
}

void OneKeyMode::begin(int slot)
{
    m_slots.removeIf([](const auto &entry) { return entry.value().hasExpired(); });
    m_slots.insert(slot, Deadline(ProbeInterval));
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
    case LockOperation::Convert:
        return refuse(shared);
    }
}

void OneKeyMode::acquire(const std::shared_ptr<LockOperation> &operation)
{
    const LeaseTime sentAt = m_clock->now();
    QByteArray flags = operation->flags;
    if (Token::isReader(operation->token) && !flags.contains('s')) // it was to be acquired together with others
        flags += 's';
    send(operation, &Scripts::onekey_claim, {operation->lock.key(), operation->token, number(operation->lease), flags},
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

/// A conversion needs all keys of the lock.
void OneKeyMode::refuse(const std::shared_ptr<LockOperation> &operation)
{
    ClusterNode *const node = m_nodeOf(operation->slot);
    EngineReply reply;
    reply.error = node ? node->lane().errorOfText("TRYAGAIN the slot is moving", Scripts::convert.name)
                       : errorOf(unserved(operation->slot), node, Scripts::convert.name);
    if (!node)
        return operation->completion(reply);
    QMetaObject::invokeMethod(
            node, [operation, reply] { operation->completion(reply); }, Qt::QueuedConnection);
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
             const bool isQueue = result.reply.errorCode() != "WRONGTYPE"; // otherwise nobody is in it
             done(isQueue ? errorOf(result, node, "ZREM") : EngineError(), result.reply.integer > 0);
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
    reply.error = errorOf(result, node, command);
    if (reply.error)
        return reply;
    RedisLane &lane = node->lane();
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

/// None if the command has a reply that is no error.
EngineError OneKeyMode::errorOf(const QtRedis::CommandResult &result, ClusterNode *node, const char *command)
{
    if (!node)
        return EngineError::passing(DistributedLock::ServerError, result.errorString);
    if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
        return node->lane().errorOf(result, command);
    return {};
}

// Reading, and taking away

/// Commands with one key each, sent one after the other.
struct OneKeyMode::Reading
{
    int slot;
    QList<QList<QByteArray>> commands; ///< not sent yet
    std::function<void(const EngineError &, const QList<QtRedis::Reply> &)> done;
    QList<QtRedis::Reply> replies = {}; ///< the last one: that to membersOf()
    EngineError wrongType = {};         ///< of the first key
};

static QList<QByteArray> membersOf(const LockId &lock)
{
    return {"ZRANGE", lock.key(), "0", "-1"};
}

void OneKeyMode::readOn(const std::shared_ptr<Reading> &reading)
{
    if (reading->commands.isEmpty()) {
        // A lock that several hold together is a zset of their tokens.
        const QtRedis::Reply members = reading->replies.takeLast();
        const bool isShared = !members.elements.isEmpty() && Token::isShared(members.elements.first().text);
        if (isShared)
            reading->replies[0] = members;
        return reading->done(isShared ? EngineError() : reading->wrongType, reading->replies);
    }
    const QList<QByteArray> command = reading->commands.takeFirst();
    send(reading->slot, nullptr, command, LongestTimeout,
         [this, reading, name = command.first()](const QtRedis::CommandResult &result, ClusterNode *node) {
             const EngineError error = errorOf(result, node, name.constData());
             if (error && result.reply.errorCode() != "WRONGTYPE") // side keys of another type do not matter
                 return reading->done(error, {});
             if (reading->replies.isEmpty())
                 reading->wrongType = error;
             reading->replies.append(error ? QtRedis::Reply() : result.reply);
             readOn(reading);
         });
}

void OneKeyMode::read(const LockId &lock, LockListing::Found found)
{
    readOn(std::make_shared<Reading>(
            Reading{QtRedis::SlotMap::slotOf(lock.key()),
                    {{"GET", lock.key()},
                     {"PTTL", lock.key()},
                     {"GET", RedisKeys::fence(lock)},
                     {"ZCARD", RedisKeys::queue(lock)},
                     membersOf(lock)},
                    [lock, found = std::move(found)](const EngineError &error, const QList<QtRedis::Reply> &parts) {
                        if (error)
                            found(error, {});
                        else
                            found({}, {LockListing::foundLock(lock, parts)});
                    }}));
}

void OneKeyMode::inspect(const LockId &lock, LockListing::Completion completion)
{
    read(lock,
         [this, lock, completion = std::move(completion)](const EngineError &error, const QList<FoundLock> &found) {
             const int slot = QtRedis::SlotMap::slotOf(lock.key());
             ClusterNode *const node = m_nodeOf(slot);
             if (!error && !node)
                 return completion(errorOf(unserved(slot), node, "GET"), {});
             if (error)
                 return completion(error, {});
             node->lane().identifyHolders(found, completion);
         });
}

void OneKeyMode::waiters(const LockId &lock, int atMost, LockListing::WaitersCompletion completion)
{
    send(QtRedis::SlotMap::slotOf(lock.key()), &Scripts::waiters, {RedisKeys::queue(lock), QByteArray::number(atMost)},
         LongestTimeout, [completion = std::move(completion)](const QtRedis::CommandResult &result, ClusterNode *node) {
             if (node)
                 node->lane().waitersReceived(result, completion);
             else
                 completion(errorOf(result, node, Scripts::waiters.name), {});
         });
}

void OneKeyMode::forceRelease(const LockId &lock, qint64 fencingToken, LockEngine::Completion completion)
{
    const auto decide = [this, lock, fencingToken, completion = std::move(completion)](
                                const EngineError &error, const QList<QtRedis::Reply> &replies) {
        EngineReply reply;
        reply.error = error;
        if (error)
            return completion(reply);
        QList<QByteArray> tokens;
        if (replies.at(0).type == QtRedis::Reply::Bulk)
            tokens.append(replies.at(0).text);
        for (const QtRedis::Reply &member : replies.at(0).elements) {
            if (!member.text.contains('#')) // a further permit of the same token
                tokens.append(member.text);
        }
        const bool isMeant = fencingToken == 0
                || (!tokens.isEmpty() && !Token::clientOf(tokens.first()).isEmpty()
                    && replies.at(1).text == QByteArray::number(fencingToken));
        if (!tokens.isEmpty() && isMeant)
            return takeAway(lock, tokens, completion);
        reply.status = isMeant || tokens.isEmpty() ? EngineReply::Gone : EngineReply::Stolen;
        completion(reply);
    };
    readOn(std::make_shared<Reading>(Reading{QtRedis::SlotMap::slotOf(lock.key()),
                                             {{"GET", lock.key()}, {"GET", RedisKeys::fence(lock)}, membersOf(lock)},
                                             decide}));
}

/// Those that share it one after the other; the reply is that for the last one.
void OneKeyMode::takeAway(const LockId &lock, QList<QByteArray> tokens, LockEngine::Completion completion)
{
    const QByteArray token = tokens.takeFirst();
    if (!tokens.isEmpty()) {
        completion = [this, lock, tokens, completion = std::move(completion)](const EngineReply &reply) {
            if (reply.error)
                completion(reply);
            else
                takeAway(lock, tokens, completion);
        };
    }
    send(QtRedis::SlotMap::slotOf(lock.key()), &Scripts::onekey_release, {lock.key(), token, "0"}, LongestTimeout,
         [token, completion = std::move(completion)](const QtRedis::CommandResult &result, ClusterNode *node) {
             EngineReply reply;
             reply.error = errorOf(result, node, Scripts::onekey_release.name);
             if (!reply.error && result.reply.type != QtRedis::Reply::Integer)
                 reply.error = node->lane().errorOfText(result.reply.text, Scripts::onekey_release.name);
             if (!reply.error)
                 reply.status = result.reply.integer == 1 ? EngineReply::Done
                         : result.reply.integer == 0      ? EngineReply::Gone
                                                          : EngineReply::Stolen;
             const QByteArray client = Token::clientOf(token);
             if (reply.status == EngineReply::Done && !client.isEmpty()) {
                 const QByteArray force = "force " + QByteArray::number(Token::sequenceOf(token));
                 node->lane().sendOne(nullptr, {"PUBLISH", Protocol::Channels + client, force}, false, LongestTimeout,
                                      nullptr);
             }
             completion(reply);
         });
}

// Sending

void OneKeyMode::send(const std::shared_ptr<LockOperation> &operation, const QtRedis::Script *script,
                      const QList<QByteArray> &arguments, Done done)
{
    send(operation->slot, script, arguments, operation->timeout(), std::move(done));
}

void OneKeyMode::send(int slot, const QtRedis::Script *script, const QList<QByteArray> &arguments, milliseconds timeout,
                      Done done)
{
    send(std::make_shared<Command>(Command{slot, script, arguments, timeout, std::move(done)}), std::nullopt);
}

void OneKeyMode::send(const std::shared_ptr<Command> &command, const std::optional<QtRedis::Endpoint> &asked)
{
    ClusterNode *const node = asked ? m_nodeAt(*asked) : m_nodeOf(command->slot);
    if (!node) {
        command->done(unserved(command->slot), nullptr);
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
    if (m_moved(node->endpoint(), *redirection))
        send(command, std::nullopt);
    else
        command->done(result, node);
}

} // namespace QDistLock
