// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/plainlane.h"

#include "engine/protocolconstants.h"
#include "engine/redis/deadlinevalue.h"
#include "engine/redis/rediskeys.h"

#include <QtCore/qset.h>

#include <algorithm>
#include <iterator>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// Locks in one transaction. The more there are, the more often one of them changes in between; newcomers most of all.
constexpr size_t MostSteps = 256;
constexpr size_t MostAcquires = 64;
/// After such a change, each next transaction has a quarter of the steps, down to one.
constexpr size_t Division = 4;
/// Operations that wait are examined this far for those that can share a transaction.
constexpr int LookAhead = 1024;
/// A release looks for a waiter that can be notified among the first ones in the queue.
constexpr int MostNotified = 8;
/// A key that changes each time between WATCH and EXEC: somebody writes to it all the time, or WATCH does not work.
constexpr int MostAttempts = 20;
/// The same at the end, when there is time for few round trips.
constexpr qsizetype FarewellSteps = 1000;
constexpr int MostFarewellAttempts = 3;

QByteArray number(milliseconds duration)
{
    return QByteArray::number(qint64(duration.count()));
}

const char *nameOf(const LockOperation &operation)
{
    switch (operation.kind) {
    case LockOperation::Acquire:
        return "acquire";
    case LockOperation::Renew:
        return "renew";
    case LockOperation::Release:
        return "release";
    case LockOperation::Cancel:
    case LockOperation::Convert: // not without scripts
        break;
    }
    return "cancel";
}

/// What a renewal, release or cancel does to a key that holds its token.
QList<QByteArray> changeOf(const LockOperation &operation)
{
    const QByteArray &key = operation.lock.key();
    if (operation.kind == LockOperation::Renew)
        return {"PEXPIRE", key, number(operation.lease)};
    if (operation.keep > 0ms)
        return {"PEXPIRE", key, number(operation.keep)};
    return {"DEL", key};
}

QList<QByteArray> deleteIfEqual(const LockOperation &operation, bool isDelex)
{
    const QByteArray &key = operation.lock.key();
    return isDelex ? QList<QByteArray>{"DELEX", key, "IFEQ", operation.token}
                   : QList<QByteArray>{"DELIFEQ", key, operation.token};
}

QList<QByteArray> leaveQueue(const LockOperation &operation)
{
    return {"ZREM", RedisKeys::queue(operation.lock), operation.token, '*' + operation.token};
}

bool isDigits(const QByteArray &text)
{
    return !text.isEmpty() && std::all_of(text.cbegin(), text.cend(), [](char c) { return c >= '0' && c <= '9'; });
}

/// As nextFence() in common.lua: max(last + 1, now). 0 if the counter is too great.
qint64 nextFence(const QByteArray &last, std::chrono::microseconds now)
{
    if (!isDigits(last))
        return now.count();
    bool isNumber = false;
    const qint64 number = last.toLongLong(&isNumber);
    if (!isNumber || number >= Protocol::MaxExact)
        return 0;
    return std::max<qint64>(number + 1, now.count());
}

} // namespace

PlainLane::PlainLane(QtRedis::Connection *connection, RedisErrors *errors, Done done, Refused refused)
    : m_connection(connection)
    , m_errors(errors)
    , m_done(std::move(done))
    , m_refused(std::move(refused))
{
}

void PlainLane::run(LockOperations operations)
{
    for (LockOperation &operation : operations)
        m_waiting.push_back({std::move(operation)});
    beginNext();
}

void PlainLane::forceRelease(const LockId &lock, qint64 fencingToken, LockEngine::Completion completion)
{
    Step step{{LockOperation::Release, lock, {}, LongestTimeout, std::move(completion)}};
    step.isForced = true;
    step.meant = fencingToken;
    m_waiting.push_back(std::move(step));
    beginNext();
}

void PlainLane::connectionIsNew()
{
    m_isProbed = false;
    m_deleteIfEqual = No;
}

void PlainLane::beginNext()
{
    if (m_current || m_waiting.empty())
        return;
    m_current = std::make_shared<std::vector<Step>>(takeSteps());
    readKeys(m_current);
}

/// Takes the first waiting operations on different locks. The others keep their order.
std::vector<PlainLane::Step> PlainLane::takeSteps()
{
    std::vector<Step> steps;
    std::vector<Step> left;
    QSet<QByteArray> keys;
    size_t most = MostSteps;
    size_t acquires = 0;
    for (int i = 0; i < LookAhead && !m_waiting.empty() && steps.size() < most; ++i) {
        Step step = std::move(m_waiting.front());
        m_waiting.pop_front();
        const bool isAcquire = step.operation.kind == LockOperation::Acquire;
        const bool isTooMany = steps.size() >= step.mostTogether || (isAcquire && acquires >= MostAcquires);
        const bool isNext = !keys.contains(step.operation.lock.key());
        keys.insert(step.operation.lock.key());
        if (isTooMany || !isNext) {
            left.push_back(std::move(step));
            continue;
        }
        most = std::min(most, step.mostTogether);
        acquires += isAcquire ? 1 : 0;
        steps.push_back(std::move(step));
    }
    m_waiting.insert(m_waiting.begin(), std::make_move_iterator(left.begin()), std::make_move_iterator(left.end()));
    return steps;
}

/// In one write. \a done gets a result for each command, in order.
void PlainLane::exchange(const Commands &commands, milliseconds timeout, std::function<void(const Results &)> done)
{
    const auto results = std::make_shared<Results>();
    results->reserve(commands.size());
    for (const QList<QByteArray> &command : commands) {
        m_connection->send(command, timeout,
                           [results, count = commands.size(), done](const QtRedis::CommandResult &result) {
                               results->append(result);
                               if (results->size() == count)
                                   done(*results);
                           });
    }
}

// Reading

void PlainLane::readKeys(const Transaction &transaction)
{
    Reads reads;
    Commands commands;
    const auto add = [&commands](const QList<QByteArray> &command) {
        commands.append(command);
        return commands.size() - 1;
    };
    milliseconds timeout{0};
    // Once for each connection. If MULTI were refused, what follows it would run at once, and unguarded.
    if (!m_isProbed) {
        reads.info = add({"COMMAND", "INFO", "DELEX", "DELIFEQ"});
        reads.multi = add({"MULTI"});
        reads.exec = add({"EXEC"});
    }
    QList<QByteArray> watch{"WATCH"};
    bool hasAcquire = false;
    for (Step &step : *transaction) {
        const LockOperation &operation = step.operation;
        const bool isAcquire = operation.kind == LockOperation::Acquire;
        const bool isDelete = operation.kind == LockOperation::Release || operation.kind == LockOperation::Cancel;
        timeout = std::max(timeout, operation.timeout());
        hasAcquire |= isAcquire;
        if (m_deleteIfEqual != No && isDelete && !step.isForced && operation.keep == 0ms) {
            step.deleted = 0;
            continue;
        }
        watch.append(operation.lock.key());
        if (isAcquire || step.meant != 0)
            watch.append(RedisKeys::fence(operation.lock));
    }
    if (watch.size() > 1)
        reads.watch = add(watch);
    if (hasAcquire)
        reads.time = add({"TIME"});
    for (Step &step : *transaction)
        addReads(&step, &commands);
    exchange(commands, timeout,
             [this, transaction, reads](const Results &results) { keysRead(transaction, reads, results); });
}

void PlainLane::addReads(Step *step, Commands *commands) const
{
    const LockOperation &operation = step->operation;
    const QByteArray &key = operation.lock.key();
    const auto add = [commands](const QList<QByteArray> &command) {
        commands->append(command);
        return commands->size() - 1;
    };
    step->holder = add({"GET", key});
    if (step->deleted >= 0)
        step->deleted = add(deleteIfEqual(operation, m_deleteIfEqual == Delex));
    if (operation.kind == LockOperation::Renew)
        return;
    if (operation.kind == LockOperation::Acquire)
        step->ttl = add({"PTTL", key});
    if (operation.kind == LockOperation::Acquire || step->meant != 0)
        step->fence = add({"GET", RedisKeys::fence(operation.lock)});
    if (operation.kind == LockOperation::Acquire)
        return;
    if (operation.kind == LockOperation::Cancel && m_usedQueues)
        step->left = add(leaveQueue(operation));
    step->first = add({"ZRANGE", RedisKeys::queue(operation.lock), "0", QByteArray::number(MostNotified - 1)});
}

void PlainLane::keysRead(const Transaction &transaction, const Reads &reads, const Results &results)
{
    const auto lost = std::find_if(results.cbegin(), results.cend(), [](const QtRedis::CommandResult &result) {
        return result.outcome != QtRedis::CommandResult::Replied;
    });
    if (lost != results.cend()) {
        for (Step &step : *transaction) {
            EngineError error = m_errors->ofResult(*lost, nameOf(step.operation));
            error.isMaybeExecuted &= step.deleted >= 0 || step.left >= 0; // the others have only read
            step.fail(error);
        }
        return finish(transaction);
    }
    for (Step &step : *transaction) {
        if (step.deleted >= 0)
            decide(&step, results, nullptr); // it is done, whatever becomes of the others
    }
    if (isRefused(transaction, reads, results))
        return finish(transaction);
    if (reads.info >= 0) {
        m_isProbed = true;
        learn(results.at(reads.info).reply);
    }
    for (Step &step : *transaction) {
        if (!step.isEnded)
            decide(&step, results, reads.time >= 0 ? &results.at(reads.time) : nullptr);
    }
    change(transaction, reads.watch >= 0);
}

/// Whether the server refuses a command without which there is no transaction. The steps are ended, or tried again.
bool PlainLane::isRefused(const Transaction &transaction, const Reads &reads, const Results &results)
{
    for (const auto &[position, command] :
         {std::pair(reads.multi, "MULTI"), {reads.exec, "EXEC"}, {reads.watch, "WATCH"}}) {
        if (position < 0 || !results.at(position).reply.isError())
            continue;
        const QByteArray text = results.at(position).reply.text;
        // The user may lack a right to one key of those that share the command.
        const bool isOfKey = text.startsWith("NOPERM") && !RedisErrors::isCommandRefused(text);
        if (isOfKey && transaction->size() > 1)
            return true; // fewer at a time
        const EngineError error = RedisErrors::isCommandRefused(text) ? m_refused(text, command)
                                                                      : m_errors->ofReply(text, command);
        for (Step &step : *transaction) {
            if (!step.isEnded)
                step.fail(error);
        }
        return true;
    }
    return false;
}

/// \a info: the reply to COMMAND INFO, which is nil for a command that the server does not have.
void PlainLane::learn(const QtRedis::Reply &info)
{
    const auto has = [&info](qsizetype i) {
        return info.elements.size() == 2 && info.elements.at(i).type == QtRedis::Reply::Array
                && !info.elements.at(i).elements.isEmpty();
    };
    m_deleteIfEqual = has(0) ? Delex : has(1) ? Delifeq : No;
}

// Deciding

void PlainLane::decide(Step *step, const Results &results, const QtRedis::CommandResult *time)
{
    const LockOperation &operation = step->operation;
    if (step->first >= 0) {
        const QtRedis::Reply &first = results.at(step->first).reply; // an error, if the user may not read the queue
        for (const QtRedis::Reply &member : first.elements)
            step->firstWaiters.append(member.text);
    }
    if (operation.kind == LockOperation::Acquire)
        return decideAcquire(step, results, time);
    if (step->isForced)
        return decideForceRelease(step, results);
    if (step->deleted >= 0)
        return compareAndDeleteReplied(step, results);
    const QtRedis::Reply &holder = results.at(step->holder).reply;
    const bool isCancel = operation.kind == LockOperation::Cancel;
    if (holder.isError() && holder.errorCode() != "WRONGTYPE" && !isCancel) {
        step->fail(m_errors->ofReply(holder.text, nameOf(operation)));
    } else if (holder.type == QtRedis::Reply::Bulk && holder.text == operation.token) {
        step->changes = {changeOf(operation)};
    } else if (isCancel) {
        const bool hadPlace = step->left >= 0 && results.at(step->left).reply.integer > 0;
        step->end(hadPlace ? EngineReply::Done : EngineReply::Gone);
    } else {
        step->end(holder.type == QtRedis::Reply::Nil ? EngineReply::Gone : EngineReply::Stolen);
    }
}

void PlainLane::compareAndDeleteReplied(Step *step, const Results &results)
{
    const LockOperation &operation = step->operation;
    const QtRedis::Reply &deleted = results.at(step->deleted).reply;
    const QtRedis::Reply &holder = results.at(step->holder).reply; // before that
    if (deleted.isError() && RedisErrors::isCommandRefused(deleted.text)) {
        m_deleteIfEqual = No; // tried again in the other way
        return;
    }
    if (deleted.isError() && deleted.errorCode() != "WRONGTYPE")
        return step->fail(m_errors->ofReply(deleted.text, nameOf(operation)));
    const bool hadPlace = step->left >= 0 && results.at(step->left).reply.integer > 0;
    step->isReleased = deleted.integer == 1;
    if (step->isReleased || (operation.kind == LockOperation::Cancel && hadPlace))
        return step->end(EngineReply::Done);
    const bool isAnothers = deleted.isError()
            || (holder.type == QtRedis::Reply::Bulk && holder.text != operation.token);
    step->end(isAnothers && operation.kind != LockOperation::Cancel ? EngineReply::Stolen : EngineReply::Gone);
}

void PlainLane::decideForceRelease(Step *step, const Results &results)
{
    const QtRedis::Reply &holder = results.at(step->holder).reply;
    if (holder.isError())
        return step->fail(m_errors->ofReply(holder.text, "force_release"));
    if (holder.type != QtRedis::Reply::Bulk)
        return step->end(EngineReply::Gone);
    if (step->meant != 0) {
        const QtRedis::Reply &fence = results.at(step->fence).reply;
        if (fence.isError())
            return step->fail(m_errors->ofReply(fence.text, "force_release"));
        if (Token::clientOf(holder.text).isEmpty() || fence.text != QByteArray::number(step->meant))
            return step->end(EngineReply::Stolen);
    }
    step->operation.token = holder.text;
    step->changes = {changeOf(step->operation)};
}

void PlainLane::decideAcquire(Step *step, const Results &results, const QtRedis::CommandResult *time)
{
    const LockOperation &operation = step->operation;
    const QByteArray &key = operation.lock.key();
    const QByteArray lease = number(operation.lease);
    for (const QtRedis::Reply &reply :
         {results.at(step->holder).reply, time->reply, results.at(step->ttl).reply, results.at(step->fence).reply}) {
        if (reply.isError())
            return step->fail(m_errors->ofReply(reply.text, nameOf(operation)));
    }
    const QtRedis::Reply &holder = results.at(step->holder).reply;
    const std::chrono::microseconds now = DeadlineValue::serverTime(time->reply);
    const bool isFree = holder.type == QtRedis::Reply::Nil;
    bool isOurs = holder.text == operation.token;
    step->reply.serverTime = now;

    milliseconds ttl(results.at(step->ttl).reply.integer);
    if (!isFree && !isOurs && ttl == -1ms) {
        if (const auto left = DeadlineValue::timeLeft(holder.text, now)) {
            ttl = std::max(DeadlineValue::untilTakeOver(*left), 0ms);
            isOurs = ttl == 0ms; // from EXEC on
        } else if (operation.flags.contains('r')) {
            step->changes = {{"PEXPIRE", key, lease}};
        }
    }
    if (!isFree && !isOurs) {
        step->reply.holderTtl = step->changes.isEmpty() ? std::max(ttl, -1ms) : operation.lease;
        if (ttl == -2ms) // it has expired since GET
            step->reply.holderTtl = 0ms;
        step->reply.foreignHolder = Token::clientOf(holder.text).isEmpty();
        if (step->changes.isEmpty())
            step->end(EngineReply::Taken);
        return;
    }

    const qint64 fence = nextFence(results.at(step->fence).reply.text, now);
    if (fence <= 0)
        return step->fail(m_errors->ofReply("ERR the fencing counter is out of range", nameOf(operation)));
    step->reply.fencingToken = fence;
    QList<QByteArray> set{"SET", key, operation.token, "PX", lease};
    if (isFree)
        set.append("NX");
    step->changes = {
            set,
            {"SET", RedisKeys::fence(operation.lock), QByteArray::number(fence), "PX", number(Protocol::FenceTtl)}};
    if (m_usedQueues) // a holder that is still in the queue would be served when it releases the lock
        step->changes.append(leaveQueue(operation));
}

// Changing

void PlainLane::change(const Transaction &transaction, bool isWatching)
{
    Commands commands{{"MULTI"}};
    milliseconds timeout{0};
    for (const Step &step : *transaction) {
        if (!step.isEnded)
            commands += step.changes;
        timeout = std::max(timeout, step.operation.timeout());
    }
    if (commands.size() == 1) {
        if (isWatching)
            m_connection->send({"UNWATCH"}, timeout, nullptr);
        return finish(transaction);
    }
    commands.append({"EXEC"});
    exchange(commands, timeout, [this, transaction](const Results &results) { changed(transaction, results); });
}

void PlainLane::changed(const Transaction &transaction, const Results &results)
{
    const auto changing = [](const Step &step) { return !step.isEnded && !step.changes.isEmpty(); };
    const auto failAll = [&](const EngineError &error) {
        for (Step &step : *transaction) {
            if (changing(step))
                step.fail(error);
        }
        finish(transaction);
    };
    const QtRedis::CommandResult &exec = results.last();
    if (exec.outcome != QtRedis::CommandResult::Replied)
        return failAll(m_errors->ofResult(exec, "EXEC"));
    if (exec.reply.isError()) {
        const auto refused = std::find_if(results.cbegin(), results.cend(),
                                          [](const QtRedis::CommandResult &result) { return result.reply.isError(); });
        const bool isMulti = refused == results.cbegin(); // somebody has taken this right away just now
        if (!isMulti && std::count_if(transaction->cbegin(), transaction->cend(), changing) > 1)
            return finish(transaction); // one of them is refused: fewer at a time
        EngineError error = m_errors->ofReply(refused->reply.text, isMulti ? "MULTI" : "EXEC");
        error.isMaybeExecuted = isMulti;
        m_isProbed &= !isMulti;
        return failAll(error);
    }
    if (exec.reply.type == QtRedis::Reply::Nil) // a key has changed since it was read, and nothing was executed
        return finish(transaction);
    if (exec.reply.type != QtRedis::Reply::Array || exec.reply.elements.size() != results.size() - 2)
        return failAll(m_errors->ofMalformedReply("EXEC"));
    qsizetype next = 0;
    for (Step &step : *transaction) {
        if (!changing(step))
            continue;
        apply(&step, exec.reply.elements.mid(next, step.changes.size()));
        next += step.changes.size();
    }
    finish(transaction);
}

/// \a replies: those to the step's changes, which were executed.
void PlainLane::apply(Step *step, const QList<QtRedis::Reply> &replies)
{
    for (const QtRedis::Reply &reply : replies) {
        if (!reply.isError())
            continue;
        EngineError error = m_errors->ofReply(reply.text, nameOf(step->operation));
        error.isMaybeExecuted = true;
        return step->fail(error);
    }
    const QtRedis::Reply &first = replies.first();
    if (step->reply.fencingToken > 0) {
        if (first.type != QtRedis::Reply::Nil) // otherwise SET NX has found another token after all
            step->end(EngineReply::Granted);
        return;
    }
    // 0: the key has expired since it was read.
    if (step->operation.kind == LockOperation::Acquire) {
        step->reply.holderTtl = first.integer == 1 ? step->operation.lease : 0ms;
        step->end(EngineReply::Taken);
    } else {
        step->isReleased = first.integer == 1 && step->operation.kind != LockOperation::Renew;
        step->end(first.integer == 1 ? EngineReply::Done : EngineReply::Gone);
    }
}

/// Reports the steps that have ended, and tries the others again, fewer at a time.
void PlainLane::finish(const Transaction &transaction)
{
    std::vector<Step> again;
    for (Step &step : *transaction) {
        if (!step.isEnded && ++step.attempts >= MostAttempts) {
            step.fail(EngineError::passing(
                    DistributedLock::ServerError,
                    u"the key changed %1 times on the server %2 between WATCH and EXEC; find out who writes to it, or whether a proxy handles WATCH wrongly"_s
                            .arg(MostAttempts)
                            .arg(m_connection->server().toDisplayString())));
        }
        if (step.isEnded) {
            notify(step);
            m_done(step.operation, step.reply);
            continue;
        }
        Step next{std::move(step.operation)};
        next.isForced = step.isForced;
        next.meant = step.meant;
        next.mostTogether = std::max<size_t>(1, transaction->size() / Division);
        next.attempts = step.attempts;
        again.push_back(std::move(next));
    }
    m_waiting.insert(m_waiting.begin(), std::make_move_iterator(again.begin()), std::make_move_iterator(again.end()));
    m_current.reset();
    beginNext();
}

// Messages are hints, so they are not part of the transaction, which must not depend on the right to publish.
void PlainLane::notify(const Step &step)
{
    if (!step.isReleased)
        return;
    if (step.isForced)
        notifyFirst({step.operation.token}, "force ");
    // A client with scripts acquires the lock now, or serves whoever is before it in the queue.
    if (step.operation.keep > 0ms)
        notifyFirst(step.firstWaiters, "next ", ' ' + number(step.operation.keep));
    else
        notifyFirst(step.firstWaiters, "grant ");
}

/// Notifies the first of \a members that receives it. These are tokens, or members of the queue: some are no tokens, or
/// of clients that have ended, and stay in the queue without scripts.
void PlainLane::notifyFirst(QList<QByteArray> members, const QByteArray &message, const QByteArray &argument)
{
    QByteArray client;
    QByteArray token;
    while (client.isEmpty()) {
        if (members.isEmpty())
            return;
        const QByteArray member = members.takeFirst();
        token = member.startsWith('*') ? member.sliced(1) : member;
        client = Token::clientOf(token);
    }
    const QByteArray text = message + QByteArray::number(Token::sequenceOf(token)) + argument;
    m_connection->send({"PUBLISH", Protocol::Channels + client, text}, LongestTimeout,
                       [this, members, message, argument](const QtRedis::CommandResult &result) {
                           const QtRedis::Reply &receivers = result.reply;
                           if (receivers.type == QtRedis::Reply::Integer && receivers.integer == 0)
                               notifyFirst(members, message, argument);
                       });
}

// The end

LockOperations PlainLane::takeUnfinished()
{
    LockOperations operations;
    const auto take = [&operations](Step &step) {
        if (!step.isEnded && !step.isForced)
            operations.push_back(std::move(step.operation));
    };
    if (m_current)
        std::for_each(m_current->begin(), m_current->end(), take);
    std::for_each(m_waiting.begin(), m_waiting.end(), take);
    m_waiting.clear();
    return operations;
}

/// Transactions whose replies LingeringConnection reads, when the lane no longer exists.
class PlainLane::Farewell
{
public:
    explicit Farewell(LockOperations operations)
    {
        for (auto first = operations.begin(); first != operations.end();) {
            const auto last = first + std::min<qsizetype>(FarewellSteps, operations.end() - first);
            m_parts.emplace_back(std::make_move_iterator(first), std::make_move_iterator(last));
            first = last;
        }
    }

    /// The commands to send at first, and then after each reply.
    Commands begin();
    Commands replied(const QtRedis::Reply &reply);

private:
    enum Read : quint8 { Multi, Exec, Watch, Holders };

    Commands await(const Commands &commands)
    {
        m_replies.clear();
        m_awaited = commands.size();
        return commands;
    }
    Commands change();
    void changed(bool isDone);

    std::deque<LockOperations> m_parts; ///< the first one is in progress
    QList<QtRedis::Reply> m_replies;
    qsizetype m_awaited = 0;
    bool m_isChanging = false;
    int m_attempts = 0; ///< for the first part
};

PlainLane::Commands PlainLane::Farewell::begin()
{
    m_isChanging = false;
    if (m_parts.empty())
        return {};
    QList<QByteArray> keys;
    for (const LockOperation &operation : m_parts.front())
        keys.append(operation.lock.key());
    // The first pair ends what was watched before, and shows whether MULTI may be used.
    return await({{"MULTI"}, {"EXEC"}, QList<QByteArray>{"WATCH"} + keys, QList<QByteArray>{"MGET"} + keys});
}

PlainLane::Commands PlainLane::Farewell::replied(const QtRedis::Reply &reply)
{
    m_replies.append(reply);
    if (m_replies.size() < m_awaited || m_parts.empty())
        return {};
    if (!m_isChanging)
        return change();
    changed(reply.type == QtRedis::Reply::Array);
    return begin();
}

PlainLane::Commands PlainLane::Farewell::change()
{
    const LockOperations &part = m_parts.front();
    const QList<QtRedis::Reply> &holders = m_replies.at(Holders).elements;
    const bool isRefused = std::any_of(m_replies.cbegin(), m_replies.cend(),
                                       [](const QtRedis::Reply &reply) { return reply.isError(); });
    if (isRefused || holders.size() != qsizetype(part.size())) {
        changed(false);
        return begin();
    }
    Commands commands{{"MULTI"}};
    for (qsizetype i = 0; i < holders.size(); ++i) {
        const LockOperation &operation = part[size_t(i)];
        if (holders.at(i).type == QtRedis::Reply::Bulk && holders.at(i).text == operation.token)
            commands.append(changeOf(operation));
    }
    if (commands.size() == 1) {
        changed(true);
        return begin();
    }
    m_isChanging = true;
    commands.append({"EXEC"});
    return await(commands);
}

/// If not done, a key has changed or a command was refused, perhaps for one key only: each half is tried again.
void PlainLane::Farewell::changed(bool isDone)
{
    LockOperations part = std::move(m_parts.front());
    m_parts.pop_front();
    if (isDone || (part.size() == 1 && ++m_attempts >= MostFarewellAttempts)) {
        m_attempts = 0;
        return;
    }
    if (part.size() > 1) {
        const auto middle = part.begin() + qsizetype(part.size() / 2);
        m_parts.emplace_front(std::make_move_iterator(middle), std::make_move_iterator(part.end()));
        part.erase(middle, part.end());
    }
    m_parts.push_front(std::move(part));
}

void PlainLane::sayFarewell(const LockOperations &operations)
{
    if (operations.empty())
        return;
    LockOperations left;
    for (const LockOperation &operation : operations) {
        if (operation.kind == LockOperation::Acquire)
            continue;
        if (operation.kind == LockOperation::Cancel && m_usedQueues)
            m_connection->send(leaveQueue(operation), LongestTimeout, nullptr);
        const bool isDelete = operation.kind != LockOperation::Renew && operation.keep == 0ms;
        if (isDelete && m_deleteIfEqual != No)
            m_connection->send(deleteIfEqual(operation, m_deleteIfEqual == Delex), LongestTimeout, nullptr);
        else
            left.push_back(operation);
    }
    for (LockOperation &operation : left)
        operation.completion = nullptr; // what it holds must not outlive the engine
    const auto farewell = std::make_shared<Farewell>(std::move(left));
    m_connection->setFarewell(farewell->begin(),
                              [farewell](const QtRedis::Reply &reply) { return farewell->replied(reply); });
}

} // namespace QDistLock
