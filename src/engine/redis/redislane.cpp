// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/redislane.h"

#include "base/leaseclock.h"
#include "engine/protocolconstants.h"
#include "engine/redis/clientname.h"
#include "engine/redis/monitorchannel.h"
#include "engine/redis/rediskeys.h"
#include "scripts.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

bool isRedirection(const QByteArray &errorCode)
{
    return errorCode == "MOVED" || errorCode == "ASK" || errorCode == "TRYAGAIN";
}

} // namespace

RedisLane::RedisLane(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
                     std::function<bool()> isNeeded)
    : m_connection(server)
    , m_clientId(clientId)
    , m_errors(&m_connection)
    , m_holders(&m_connection)
    , m_listing(&m_connection, &m_holders, &m_errors)
    , m_clock(clock)
    , m_isNeeded(std::move(isNeeded))
    , m_abandoned(
              clock, [this](const LockId &) { return isReady(); },
              [this](LockOperation cancel) { run(std::move(cancel)); })
    , m_plain(
              &m_connection, &m_errors,
              [this](const LockOperation &operation, const EngineReply &reply) { plainEnded(operation, reply); },
              [this](const QByteArray &error, const char *command) { return plainRefused(error, command); })
    , m_isPlain(!server.usesScripts)
{
    m_connection.setClientName(ClientName{clientId, Identity::ofThisProcess()}.toByteArray());
    m_connection.setNeeded([this] { return this->isNeeded(); });
    m_errors.setElsewhere([this](const QByteArray &reply) { Q_EMIT elsewhere(reply); });
    m_listing.setPlain([this] { return m_isPlain; },
                       [this](const QtRedis::CommandResult &result) { return isRefusal(result); });
    connect(&m_connection, &QtRedis::Connection::stateChanged, this, &RedisLane::connectionStateChanged);
    connect(&m_connection, &QtRedis::Connection::failed, this, &RedisLane::failed);
    connect(&m_connection, &QtRedis::Connection::repliesProcessed, this, &RedisLane::flush);
    connect(&m_connection, &QtRedis::Connection::readEnded, this, &RedisLane::readEnded);
}

void RedisLane::setNode(int node)
{
    m_isNode = true;
    setConnectionName(ClientName{m_clientId, Identity::ofThisProcess(), node}.toByteArray());
}

RedisLane::~RedisLane()
{
    m_connection.disconnect(this);
    if (m_isPlain) {
        const LockOperations last = std::exchange(m_operations, {});
        m_operations = m_plain.takeUnfinished();
        for (const LockOperations *const operations : {&std::as_const(m_refused), &last})
            m_operations.insert(m_operations.end(), operations->begin(), operations->end());
    }
    // NOSCRIPT may be the reply to a release, and nobody would be left to send it again.
    LockOperations releases;
    const auto addReleases = [&releases](const LockOperations &operations) {
        for (const LockOperation &operation : operations) {
            if (operation.kind != LockOperation::Release)
                continue;
            releases.push_back(
                    LockOperation::ofCancel(operation.lock, operation.token, operation.lease, operation.keep));
            releases.back().slot = operation.slot;
        }
    };
    for (const CommandBatch *const batch : std::as_const(m_inFlight))
        addReleases(batch->operations());
    if (!m_isPlain)
        addReleases(m_operations);
    std::move(releases.begin(), releases.end(), std::back_inserter(m_operations));
    // An abandoned token needs its cancel and nothing else.
    m_operations.erase(
            std::remove_if(m_operations.begin(), m_operations.end(),
                           [this](const LockOperation &operation) { return m_abandoned.contains(operation.token); }),
            m_operations.end());
    LockOperations cancels = m_abandoned.unconfirmed();
    std::move(cancels.begin(), cancels.end(), std::back_inserter(m_operations));
    const LockOperations plain = m_isPlain ? std::exchange(m_operations, {}) : LockOperations();
    // The server may not know the script, and nobody would be left to send it again. EVAL without keys only loads it.
    if (!m_operations.empty())
        m_connection.send({"EVAL", (m_redirect ? Scripts::Sharded::cancel : Scripts::cancel).text, "0"}, LongestTimeout,
                          nullptr);
    flush();
    m_plain.sayFarewell(plain);
    // The connection's destructor writes it all.
}

void RedisLane::closeReplaced(const QString &reason)
{
    m_errors.setIsReplaced();
    m_connection.setServer(server(), reason);
    m_connection.close();
}

LockEngine::State RedisLane::state() const
{
    switch (m_connection.state()) {
    case QtRedis::Connection::Connecting:
        return LockEngine::Connecting;
    case QtRedis::Connection::Ready:
        return LockEngine::Ready;
    case QtRedis::Connection::Disconnected:
        break;
    }
    return LockEngine::Disconnected;
}

void RedisLane::connectionStateChanged()
{
    if (isReady()) {
        m_plain.connectionIsNew();
        if (m_plain.isIdle()) // otherwise a script could overtake what waits there
            setPlain(!server().usesScripts);
        m_abandoned.sendAll();
    } else {
        m_serverClock.forget();
    }
    Q_EMIT stateChanged();
}

void RedisLane::setPlain(bool isPlain)
{
    if (std::exchange(m_isPlain, isPlain) == isPlain)
        return;
    QMetaObject::invokeMethod(
            this, [this] { Q_EMIT plainChanged(); }, Qt::QueuedConnection);
}

/// Whether the server refuses to execute scripts. From then on they are not used, except in a cluster and by a
/// server of a quorum: both need scripts.
bool RedisLane::isRefusal(const QtRedis::CommandResult &result)
{
    const bool isError = result.outcome == QtRedis::CommandResult::Replied && result.reply.isError();
    if (m_redirect || m_isNode || !isError || !RedisErrors::isScriptRefused(result.reply.text))
        return false;
    m_scriptRefusal = RedisErrors::withoutArguments(result.reply.text);
    setPlain(true);
    return true;
}

/// Neither scripts nor transactions: perhaps somebody is changing the user's rights. The next operation tries both.
EngineError RedisLane::plainRefused(const QByteArray &error, const char *command)
{
    if (!server().usesScripts)
        return m_errors.ofReply(error, command);
    setPlain(false);
    EngineError refused = m_errors.ofReply(m_scriptRefusal, "EVALSHA");
    refused.text += u"; without scripts, locks need WATCH, MULTI and EXEC, and %1 is refused, too"_s.arg(
            QLatin1String(command));
    return refused;
}

void RedisLane::plainEnded(const LockOperation &operation, const EngineReply &reply)
{
    // If the token was abandoned, the acquire ran after its cancel.
    if (reply.status == EngineReply::Granted && !m_abandoned.isEmpty())
        served(Token::sequenceOf(operation.token));
    operation.completion(reply);
    if (reply.error)
        return;
    Q_EMIT plainSucceeded();
    Q_EMIT replied();
}

void RedisLane::check()
{
    if (isReady())
        m_connection.send({"PING"}, LongestTimeout, nullptr);
}

/// Ready, also if the event loop was busy since the other side has perhaps closed the idle connection.
bool RedisLane::isAlive()
{
    if (isReady())
        m_connection.open();
    return isReady();
}

/// The connection may have been closed while nobody needed it.
void RedisLane::wakeForAbandoned()
{
    const bool isResting = state() == LockEngine::Disconnected && m_connection.failure() == QtRedis::Failure::None;
    if (isResting && m_abandoned.needConnection())
        m_connection.open();
}

void RedisLane::acquire(const LockEngine::Acquire &operation, LockEngine::Completion completion)
{
    run(LockOperation::ofAcquire(operation, std::move(completion)));
}

void RedisLane::convert(const LockEngine::Acquire &operation, const QByteArray &from, LockEngine::Completion completion)
{
    run(LockOperation::ofConversion(operation, from, std::move(completion)));
}

void RedisLane::vote(const LockEngine::Acquire &operation, qint64 floor, LockEngine::Completion completion)
{
    m_abandoned.forget(operation.token);
    LockOperation acquire = LockOperation::ofAcquire(operation, std::move(completion));
    acquire.floor = floor;
    run(std::move(acquire));
}

void RedisLane::returnToQueue(const LockEngine::Acquire &operation, LockEngine::Completion completion)
{
    LockOperation wait = LockOperation::ofAcquire(operation, std::move(completion));
    wait.flags += 'w';
    run(std::move(wait));
}

void RedisLane::raise(const LockId &lock, const QByteArray &token, qint64 fencingToken,
                      LockEngine::Completion completion)
{
    flush(); // it runs after the operations that were requested before
    m_connection.sendScript(Scripts::raise, {lock.key(), RedisKeys::fence(lock)},
                            {token, QByteArray::number(fencingToken)}, LongestTimeout,
                            [this, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                                completion(statusOf(result, Scripts::raise.name));
                            });
}

void RedisLane::renew(const LockId &lock, const QByteArray &token, milliseconds lease,
                      LockEngine::Completion completion)
{
    run({LockOperation::Renew, lock, token, lease, std::move(completion)});
}

void RedisLane::release(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                        LockEngine::Completion completion)
{
    run(LockOperation::ofRelease(lock, token, lease, keep, m_clientId, std::move(completion)));
}

void RedisLane::abandon(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                        milliseconds atMost)
{
    m_abandoned.add(lock, token, lease, keep, atMost);
    wakeForAbandoned();
}

void RedisLane::served(quint64 sequence)
{
    m_abandoned.found(sequence);
    wakeForAbandoned();
}

void RedisLane::run(LockOperation operation)
{
    const LockOperation::Kind kind = operation.kind;
    if (kind != LockOperation::Cancel)
        m_abandoned.retryNow();
    m_operations.push_back(std::move(operation));
    if (qsizetype(m_operations.size()) >= CommandBatch::limit(kind)) {
        flush(); // the server works on these while we collect more
        return;
    }
    // Otherwise uncork() or Connection::repliesProcessed() flushes.
    if (!m_isCorked && !m_connection.isDelivering())
        m_postedFlush.post();
}

void RedisLane::uncork()
{
    m_isCorked = false;
    flush();
}

void RedisLane::flush()
{
    if (m_operations.empty() && m_afterOperations.empty())
        return;
    // If the other side has closed the connection while it was idle, they wait for the next one, or its failure. Not in
    // a quorum: who answers there next must be identified before it may vote.
    if (!isAlive() && m_connection.isComing() && !m_isNode)
        return; // repliesProcessed() continues
    m_connection.cork();
    if (!m_isPlain) {
        CommandBatch::split(std::exchange(m_operations, {}), [this](LockOperations operations, milliseconds timeout) {
            send(std::move(operations), timeout);
        });
    } else if (m_inFlight.isEmpty()) {
        runPlainly(std::exchange(m_operations, {}));
    } // otherwise scriptEnded() continues: these must not overtake what the server may refuse
    const auto afterOperations = std::exchange(m_afterOperations, {});
    for (const auto &sendCommand : afterOperations)
        sendCommand();
    m_connection.flush();
}

void RedisLane::sendAfterOperations(const QList<QByteArray> &command, milliseconds timeout, Handler handler)
{
    m_afterOperations.push_back(
            [this, command, timeout, handler = std::move(handler)] { m_connection.send(command, timeout, handler); });
}

void RedisLane::setRedirect(Redirect redirect)
{
    m_redirect = std::move(redirect);
    m_errors.setIsClusterNode();
}

void RedisLane::sendOne(const QtRedis::Script *script, const QList<QByteArray> &command, bool isAsked,
                        milliseconds timeout, Handler handler)
{
    // After the operations on the same lock that were requested before.
    m_afterOperations.push_back([this, script, command, isAsked, timeout, handler = std::move(handler)] {
        if (isAsked)
            m_connection.send({"ASKING"}, timeout, nullptr); // for the next command only, so EVALSHA cannot be repeated
        if (!script)
            m_connection.send(command, timeout, handler);
        else if (isAsked)
            m_connection.send(QList<QByteArray>{"EVAL", script->text, "1"} + command, timeout, handler);
        else
            m_connection.sendScript(*script, command.first(1), command.sliced(1), timeout, handler);
    });
    flush();
}

void RedisLane::send(LockOperations operations, milliseconds timeout)
{
    auto batch = std::make_shared<CommandBatch>(std::move(operations), m_clock->now());
    const CommandBatch &command = *batch;
    m_inFlight.insert(batch.get());
    if (command.operations().front().flags.contains('q'))
        m_plain.setUsedQueues();
    const LockOperation &first = command.operations().front();
    const bool mustKeepOrder = first.kind == LockOperation::Cancel || first.kind == LockOperation::Renew
            || first.flags.contains('w');
    const auto handler = [this, batch = std::move(batch)](const QtRedis::CommandResult &result) {
        m_inFlight.remove(batch.get());
        received(batch.get(), result);
        scriptEnded();
    };
    // EVALSHA would be sent again after NOSCRIPT. Then what ends a token would run after its next vote, and a renewal
    // after the release, so that the key would stay for a lease, and not for minHold.
    if (m_isNode && mustKeepOrder) {
        m_connection.send(QList<QByteArray>{"EVAL", command.script().text, QByteArray::number(command.keys().size())}
                                  + command.keys() + command.arguments(),
                          timeout, handler);
    } else {
        m_connection.sendScript(command.script(), command.keys(), command.arguments(), timeout, handler);
    }
}

void RedisLane::scriptEnded()
{
    if (!m_isPlain || !m_inFlight.isEmpty())
        return;
    runPlainly(std::exchange(m_refused, {}));
    flush();
}

/// Without scripts; those that share a lock need them.
void RedisLane::runPlainly(LockOperations operations)
{
    LockOperations ofSharers;
    const auto isOfSharer = [](const LockOperation &operation) {
        return Token::isShared(operation.token) || operation.kind == LockOperation::Convert;
    };
    const auto first = std::stable_partition(operations.begin(), operations.end(), std::not_fn(isOfSharer));
    std::move(first, operations.end(), std::back_inserter(ofSharers));
    operations.erase(first, operations.end());
    m_plain.run(std::move(operations));
    if (ofSharers.empty())
        return;
    EngineReply refused;
    refused.error = m_errors.ofReply(m_scriptRefusal, "EVALSHA");
    refused.error.text += u"; readers and semaphores need scripts: allow EVAL and EVALSHA"_s;
    const auto refusedOperations = std::make_shared<LockOperations>(std::move(ofSharers));
    QMetaObject::invokeMethod(
            this,
            [refusedOperations, refused] {
                for (const LockOperation &operation : *refusedOperations)
                    operation.completion(refused);
            },
            Qt::QueuedConnection);
}

void RedisLane::received(CommandBatch *batch, const QtRedis::CommandResult &result)
{
    LockOperations &operations = batch->operations();
    const char *const command = batch->script().name;
    const bool isReplied = result.outcome == QtRedis::CommandResult::Replied;

    if (m_redirect && isReplied && isRedirection(result.reply.errorCode()))
        return m_redirect(std::move(operations), result.reply.text);

    if (isRefusal(result)) {
        std::move(operations.begin(), operations.end(), std::back_inserter(m_refused));
        return;
    }

    // The user may lack a right to one key of those that shared the command.
    if (isReplied && result.reply.errorCode() == "NOPERM" && operations.size() > 1) {
        for (LockOperation &operation : operations) {
            if (m_isNode && operation.kind == LockOperation::Cancel && !m_abandoned.contains(operation.token)) {
                operation.completion({}); // sent again, it would run after the next vote of the same token
                continue;
            }
            const milliseconds timeout = operation.timeout();
            LockOperations single;
            single.push_back(std::move(operation));
            send(std::move(single), timeout);
        }
        return;
    }

    const QList<QtRedis::Reply> elements = result.reply.elements;
    EngineError error; // of all operations
    if (!isReplied || result.reply.isError())
        error = m_errors.ofResult(result, command);
    else if (result.reply.type != QtRedis::Reply::Array || elements.size() != qsizetype(operations.size()))
        error = m_errors.ofMalformedReply(command);
    for (size_t i = 0; i < operations.size(); ++i) {
        EngineReply reply;
        std::optional<LockEngine::Handover> handover;
        if (error)
            reply.error = error;
        else
            reply = decode(*batch, i, elements.at(qsizetype(i)), &handover);
        operations[i].completion(reply);
        if (handover)
            Q_EMIT handedOver(*handover);
    }
    if (!error)
        Q_EMIT replied();
}

EngineReply RedisLane::decode(const CommandBatch &batch, size_t index, const QtRedis::Reply &element,
                              std::optional<LockEngine::Handover> *handover)
{
    CommandBatch::Decoded decoded = batch.decode(index, element);
    const LockOperation &operation = batch.operations()[index];
    EngineReply &reply = decoded.reply;
    if (decoded.serverTime)
        m_serverClock.sample(*decoded.serverTime, batch.sentAt());
    if (decoded.isMalformed)
        reply.error = m_errors.ofMalformedReply(batch.script().name);
    else if (!decoded.errorText.isEmpty())
        reply.error = m_errors.ofReply(decoded.errorText, batch.script().name);
    if (decoded.deadWaitersLeft) {
        // Serves the next waiters. The operation's own token may be wanted again by now, so this cancel has another
        // one.
        LockOperation cancel = LockOperation::ofCancel(operation.lock, m_clientId + ":0:0", operation.lease, 0ms);
        cancel.slot = operation.slot;
        run(std::move(cancel));
    }
    if (reply.status == EngineReply::Taken && !operation.arrival.isEmpty())
        Q_EMIT waiterPolled();
    // If the token was abandoned, the acquire ran after its cancel.
    if ((reply.status == EngineReply::Granted || reply.queuePosition >= 0) && !m_abandoned.isEmpty())
        served(Token::sequenceOf(operation.token));
    *handover = std::move(decoded.handover);
    return std::move(reply);
}

void RedisLane::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    m_listing.inspect(lock,
                      [completion = std::move(completion)](const EngineError &error, const QList<LockInfo> &infos) {
                          completion(error, infos.isEmpty() ? LockInfo() : infos.first());
                      });
}

bool RedisLane::findHolder(const LockEngine::Waiter &waiter,
                           std::function<void(const std::optional<LockInfo> &)> completion)
{
    return isAlive() && m_holders.find(waiter, std::move(completion));
}

void RedisLane::list(const QString &prefix, const QString &pattern, LockListing::Completion completion)
{
    m_listing.list(prefix, pattern, std::move(completion));
}

void RedisLane::scan(const QString &prefix, const QString &pattern, const QByteArray &cursor,
                     LockListing::Scanned completion)
{
    m_listing.scan(prefix, pattern, cursor, LockListing::ShortScan, std::move(completion));
}

void RedisLane::inspectAll(const QList<LockId> &locks, std::function<void(const LockEngine::Inspection &)> completion)
{
    m_listing.inspectAll(locks, std::move(completion));
}

void RedisLane::sendMessage(const QByteArray &client, const QByteArray &message,
                            std::function<void(const EngineError &)> completion)
{
    sendOne(nullptr, {"PUBLISH", MonitorChannel::nameOf(client), message}, false, LongestTimeout,
            [this, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                const bool isSent = result.reply.type == QtRedis::Reply::Integer;
                completion(isSent ? EngineError() : errorOf(result, "PUBLISH"));
            });
}

void RedisLane::clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion)
{
    QMetaObject::invokeMethod(
            this, [this, completion = std::move(completion)]() mutable { m_listing.clients(std::move(completion)); },
            Qt::QueuedConnection);
}

void RedisLane::waiters(const LockId &lock, int atMost, LockListing::WaitersCompletion completion)
{
    m_listing.waiters(lock, atMost, std::move(completion));
}

void RedisLane::forceRelease(const LockId &lock, qint64 fencingToken, LockEngine::Completion completion)
{
    if (m_isPlain) {
        flush();
        m_plain.forceRelease(lock, fencingToken, std::move(completion));
        return;
    }
    QList<QByteArray> arguments{QByteArray::number(qint64(Protocol::ClaimTtl.count()))};
    if (fencingToken != 0)
        arguments.append(QByteArray::number(fencingToken));
    const QtRedis::Script &script = m_redirect ? Scripts::Sharded::force_release : Scripts::force_release;
    m_connection.sendScript(
            script, {lock.key(), RedisKeys::queue(lock), RedisKeys::fence(lock)}, arguments, LongestTimeout,
            [this, lock, fencingToken, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                if (isRefusal(result))
                    return forceRelease(lock, fencingToken, completion);
                completion(statusOf(result, Scripts::force_release.name));
            });
}

void RedisLane::setPermits(const LockId &lock, int permits,
                           std::function<void(const EngineError &, int before)> completion)
{
    const QtRedis::Script &script = m_redirect ? Scripts::Sharded::set_permits : Scripts::set_permits;
    const QList<QByteArray> keys{lock.key(), RedisKeys::queue(lock), RedisKeys::fence(lock), RedisKeys::permits(lock)};
    m_connection.sendScript(script, keys, {QByteArray::number(permits)}, LongestTimeout,
                            [this, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                                isRefusal(result); // so that later operations are sent without scripts
                                const bool hasReplied = result.outcome == QtRedis::CommandResult::Replied
                                        && !result.reply.isError();
                                if (!hasReplied)
                                    return completion(m_errors.ofResult(result, Scripts::set_permits.name), 0);
                                const auto &elements = result.reply.elements;
                                if (elements.size() == 1 && elements.first().type == QtRedis::Reply::Integer)
                                    completion({}, int(elements.first().integer));
                                else if (elements.size() == 1 && elements.first().type == QtRedis::Reply::Bulk)
                                    completion(m_errors.ofReply(elements.first().text, Scripts::set_permits.name), 0);
                                else
                                    completion(m_errors.ofMalformedReply(Scripts::set_permits.name), 0);
                            });
}

EngineReply RedisLane::statusOf(const QtRedis::CommandResult &result, const char *command)
{
    EngineReply reply;
    if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
        reply.error = m_errors.ofResult(result, command);
    else if (result.reply.type == QtRedis::Reply::Bulk)
        reply.error = m_errors.ofReply(result.reply.text, command);
    else if (result.reply.type != QtRedis::Reply::Integer)
        reply.error = m_errors.ofMalformedReply(command);
    else
        reply.status = result.reply.integer == 1 ? EngineReply::Done
                : result.reply.integer == 0      ? EngineReply::Gone
                                                 : EngineReply::Stolen;
    return reply;
}

} // namespace QDistLock
