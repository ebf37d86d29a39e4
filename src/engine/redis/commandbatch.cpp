// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/commandbatch.h"

#include "engine/protocolconstants.h"
#include "engine/redis/permitslots.h"
#include "engine/redis/rediskeys.h"
#include "engine/semaphoreerrors.h"
#include "scripts.h"

#include <algorithm>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// Locks in one command: enough that the cost of the command itself hardly counts, and few enough that the server soon
/// serves others (a script of this size takes it well under a millisecond).
constexpr qsizetype AcquireLimit = LockEngine::MostTogether;
constexpr qsizetype RenewLimit = 1000;

/// Bounds for numbers in replies, so that nothing computed from them overflows: a key of another program may live for
/// years.
constexpr milliseconds LongestTtl = 24h * 365;
constexpr qint64 LongestQueue = 1'000'000'000;

std::optional<std::chrono::microseconds> serverTime(qint64 number)
{
    return number > 0 && number <= Protocol::MaxExact ? std::optional(std::chrono::microseconds(number)) : std::nullopt;
}

QByteArray number(milliseconds duration)
{
    return QByteArray::number(qint64(duration.count()));
}

bool takesPermits(const LockOperation &operation)
{
    return Token::permitsOf(operation.token) > 0;
}

/// Why acquire.lua refuses to share the lock with others; no error if \a text says something else.
EngineError refusal(const LockOperation &acquire, const QByteArray &text)
{
    const QByteArray code = text.left(text.indexOf(' '));
    const QByteArray what = text.mid(code.size() + 1);
    if (code == "PERMITS")
        return SemaphoreErrors::wrongPermits(what.toInt(), acquire.permits, Token::permitsOf(acquire.token));
    return code == "OTHERKIND" ? SemaphoreErrors::otherKind(what == "readers") : EngineError();
}

} // namespace

LockOperation LockOperation::ofCancel(const LockId &lock, const QByteArray &token, milliseconds lease,
                                      milliseconds keep)
{
    return {Cancel, lock, token, lease, [](const EngineReply &) {}, keep};
}

LockOperation LockOperation::ofAcquire(const LockEngine::Acquire &operation, LockEngine::Completion completion)
{
    QByteArray flags;
    if (operation.repairMissingTtl)
        flags += 'r';
    if (operation.enqueue)
        flags += 'q';
    if (operation.barge)
        flags += 'b';
    if (operation.together)
        flags += 't';
    else if (Token::isReader(operation.token))
        flags += 's';
    else if (Token::isShared(operation.token))
        flags += 'p' + QByteArray::number(std::max(0, operation.permits)); // 0: as the server says
    LockOperation acquire{Acquire, operation.lock, operation.token,  operation.lease, std::move(completion),
                          0ms,     flags,          operation.arrival};
    acquire.permits = operation.permits;
    acquire.together = operation.together;
    return acquire;
}

LockOperation LockOperation::ofConversion(const LockEngine::Acquire &operation, const QByteArray &from,
                                          LockEngine::Completion completion)
{
    LockOperation conversion{Convert, operation.lock, operation.token, operation.lease, std::move(completion)};
    conversion.from = from;
    return conversion;
}

LockOperation LockOperation::ofRelease(const LockId &lock, const QByteArray &token, milliseconds lease,
                                       milliseconds keep, const QByteArray &clientId, LockEngine::Completion completion)
{
    LockOperation operation{Release, lock, token, lease, std::move(completion), keep};
    if (!Token::isOf(token, clientId))
        operation.caller = clientId;
    return operation;
}

milliseconds LockOperation::timeout() const
{
    // A later reply would be of no use to the lease; but one short lease must not end the connection of all locks. A
    // renewal waits for a third only: on a half-open connection it must fail in time to renew on another one.
    return std::clamp<milliseconds>(kind == Renew ? lease / 3 : lease, 1s, LongestTimeout);
}

qsizetype CommandBatch::limit(LockOperation::Kind kind)
{
    if (kind == LockOperation::Convert)
        return 1;
    return kind == LockOperation::Renew ? RenewLimit : AcquireLimit;
}

bool CommandBatch::canShareCommand(const LockOperation &first, const LockOperation &other)
{
    if (other.kind != first.kind || other.slot != first.slot)
        return false;
    switch (first.kind) {
    case LockOperation::Acquire: // the script gets one lease and one set of flags for all
        return other.lease == first.lease && other.flags == first.flags && other.together == first.together
                && other.arrival.isEmpty() == first.arrival.isEmpty() && (other.floor > 0) == (first.floor > 0);
    case LockOperation::Release:
        return other.lease == first.lease && other.keep == first.keep && other.caller == first.caller
                && Token::isReader(other.token) == Token::isReader(first.token)
                && takesPermits(other) == takesPermits(first);
    case LockOperation::Cancel:
        return takesPermits(other) == takesPermits(first);
    case LockOperation::Renew:
    case LockOperation::Convert:
        break;
    }
    return true;
}

void CommandBatch::sortBySlot(LockOperations::iterator first, LockOperations::iterator last)
{
    const auto isLess = [](const LockOperation &a, const LockOperation &b) { return a.slot < b.slot; };
    if (!std::is_sorted(first, last, isLess))
        std::stable_sort(first, last, isLess);
}

const QtRedis::Script &CommandBatch::script() const
{
    const bool isSharded = m_operations.front().slot >= 0;
    switch (m_operations.front().kind) {
    case LockOperation::Acquire:
        return isSharded ? Scripts::Sharded::acquire : Scripts::acquire;
    case LockOperation::Renew:
        return Scripts::renew;
    case LockOperation::Release:
        return isSharded ? Scripts::Sharded::release : Scripts::release;
    case LockOperation::Convert:
        return isSharded ? Scripts::Sharded::convert : Scripts::convert;
    case LockOperation::Cancel:
        break;
    }
    return isSharded ? Scripts::Sharded::cancel : Scripts::cancel;
}

QList<QByteArray> CommandBatch::keys() const
{
    const LockOperation::Kind kind = m_operations.front().kind;
    QList<QByteArray> keys;
    keys.reserve(3 * qsizetype(m_operations.size()));
    // Grouped by sort, so that a script can read all keys of one sort with one command.
    for (const LockOperation &operation : m_operations)
        keys << operation.lock.key();
    if (kind != LockOperation::Renew) {
        for (const LockOperation &operation : m_operations)
            keys << RedisKeys::queue(operation.lock);
        for (const LockOperation &operation : m_operations)
            keys << RedisKeys::fence(operation.lock);
        if (takesPermits(m_operations.front())) {
            for (const LockOperation &operation : m_operations)
                keys << RedisKeys::permits(operation.lock);
        }
    }
    if (kind == LockOperation::Convert)
        keys << RedisKeys::absent(m_operations.front().lock);
    return keys;
}

QList<QByteArray> CommandBatch::arguments() const
{
    const LockOperation &front = m_operations.front();
    const LockOperation::Kind kind = front.kind;
    const bool haveArrivals = !front.arrival.isEmpty();
    QList<QByteArray> arguments;
    arguments.reserve(3 * qsizetype(m_operations.size()) + 3);
    const bool haveFloors = front.floor > 0;
    if (kind == LockOperation::Acquire)
        arguments << number(front.lease)
                  << front.flags + QByteArray(haveArrivals ? "a" : "") + QByteArray(haveFloors ? "f" : "");
    else if (kind == LockOperation::Release)
        arguments << number(front.lease) << number(front.keep);
    else if (kind == LockOperation::Convert)
        return {number(front.lease), front.from, front.token};
    for (const LockOperation &operation : m_operations) {
        arguments << operation.token;
        if (kind == LockOperation::Renew || kind == LockOperation::Cancel)
            arguments << number(operation.lease);
        if (kind == LockOperation::Cancel)
            arguments << number(operation.keep);
    }
    if (haveArrivals) {
        for (const LockOperation &operation : m_operations)
            arguments << operation.arrival;
    }
    if (haveFloors) {
        for (const LockOperation &operation : m_operations)
            arguments << QByteArray::number(operation.floor);
    }
    if (!front.caller.isEmpty())
        arguments << front.caller;
    return arguments;
}

CommandBatch::Decoded CommandBatch::decode(size_t index, const QtRedis::Reply &element) const
{
    const LockOperation &operation = m_operations[index];
    const LockOperation::Kind kind = operation.kind;
    const qsizetype size = element.elements.size();
    const auto integer = [&element](qsizetype part) { return element.elements.at(part).integer; };

    Decoded decoded;
    EngineReply &reply = decoded.reply;
    bool isFence = false;
    const bool mayBeFence = kind == LockOperation::Acquire || kind == LockOperation::Convert;
    if (mayBeFence && element.type == QtRedis::Reply::Bulk) {
        const qsizetype end = Token::wantsSlots(operation.token) ? element.text.indexOf(' ') : -1;
        reply.fencingToken = (end < 0 ? element.text : element.text.first(end)).toLongLong(&isFence);
        if (isFence && end >= 0) {
            const auto permitSlots = PermitSlots::parse(QByteArrayView(element.text).sliced(end + 1));
            isFence = permitSlots.has_value();
            reply.permitSlots = permitSlots.value_or(QList<int>());
        }
    }
    if (isFence && reply.fencingToken > 0) {
        reply.status = EngineReply::Granted;
    } else if (element.type == QtRedis::Reply::Bulk && !isFence && !element.text.isEmpty()) {
        reply.error = refusal(operation, element.text);
        if (!reply.error)
            decoded.errorText = element.text;
    } else if (kind == LockOperation::Acquire && size == 6 && integer(0) == 0) {
        reply.status = EngineReply::Taken;
        reply.holderTtl = milliseconds(std::min<qint64>(integer(1), LongestTtl.count()));
        reply.isFree = operation.together && integer(1) == -2;
        reply.foreignHolder = integer(2) == 0;
        reply.queuePosition = int(std::clamp<qint64>(integer(3), -1, LongestQueue));
        if (reply.queuePosition >= 0)
            reply.arrival = element.elements.at(4).text;
        decoded.serverTime = serverTime(element.elements.at(5).text.toLongLong());
        reply.serverTime = decoded.serverTime.value_or(0us);
    } else if (kind == LockOperation::Release && size == 2 && element.elements.at(1).text.toLongLong() > 0) {
        reply.status = EngineReply::Done;
        decoded.handover = {operation.lock, element.elements.at(0).text, element.elements.at(1).text.toLongLong(),
                            m_sentAt, operation.lease};
    } else if (kind == LockOperation::Convert && element.type == QtRedis::Reply::Integer && element.integer == 4) {
        reply.status = EngineReply::Taken;
    } else if (kind != LockOperation::Acquire && element.type == QtRedis::Reply::Integer && element.integer >= 0
               && element.integer <= 3) {
        reply.status = element.integer == 0 ? EngineReply::Gone
                : element.integer == 2      ? EngineReply::Stolen
                                            : EngineReply::Done;
        decoded.deadWaitersLeft = element.integer == 3;
    } else {
        decoded.isMalformed = true;
    }
    return decoded;
}

} // namespace QDistLock
