// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/locklisting.h"

#include "engine/redis/commandbatch.h"
#include "engine/redis/deadlinevalue.h"
#include "engine/redis/rediskeys.h"
#include "scripts.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qset.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <iterator>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr int ScanCount = 512;
/// Locks in one command.
constexpr qsizetype InspectLimit = 128;

QtRedis::Reply bulk(const QByteArray &text)
{
    QtRedis::Reply reply;
    reply.type = QtRedis::Reply::Bulk;
    reply.text = text;
    return reply;
}

QByteArray globEscaped(const QByteArray &text)
{
    QByteArray escaped;
    for (const char c : text) {
        if (std::strchr("*?[]\\", c))
            escaped += '\\';
        escaped += c;
    }
    return escaped;
}

} // namespace

FoundLock LockListing::foundLock(const LockId &lock, const QList<QtRedis::Reply> &parts)
{
    FoundLock found(lock, parts.at(0), milliseconds(parts.at(1).integer));
    const auto atLeast = [&parts](int named) { // the reply names the first of them
        return parts.size() > 4 ? int(std::clamp<qint64>(parts.at(4).integer, named, INT_MAX)) : named;
    };
    if (found.info.readerCount > 0)
        found.info.readerCount = atLeast(found.info.readerCount);
    if (parts.size() > 5)
        found.info.permits = std::clamp(parts.at(5).text.toInt(), 0, LockOptions::MaximumPermits);
    if (found.info.permitsTaken > 0)
        found.info.permitsTaken = atLeast(found.info.permitsTaken);
    else if (found.info.held && found.info.readerCount == 0)
        found.info.permitsTaken = found.info.permits;
    found.info.fencingToken = parts.at(2).text.toLongLong();
    found.info.queueLength = int(parts.at(3).integer);
    return found;
}

struct LockListing::Scan
{
    QString prefix;
    QByteArray match;
    QSet<QByteArray> seen; ///< SCAN may return a key twice
    QList<FoundLock> found;
    qsizetype beingRead = 0; ///< commands, or locks that are read elsewhere
    Completion completion;   ///< null after it was called with an error of read()
};

void LockListing::inspect(const LockId &lock, Completion completion)
{
    read({lock}, Refuse,
         [this, completion = std::move(completion)](const EngineError &error, const QList<FoundLock> &found) {
             if (error)
                 return completion(error, {});
             identifyHolders(found, completion);
         });
}

void LockListing::identifyHolders(const QList<FoundLock> &locks, Completion completion)
{
    QList<FoundClient> holders;
    holders.reserve(locks.size());
    for (const FoundLock &lock : locks)
        holders += lock.holders;
    m_holders->identify(holders, [locks, completion = std::move(completion)](const QList<FoundClient> &identified) {
        QList<LockInfo> infos;
        infos.reserve(locks.size());
        qsizetype first = 0;
        for (const FoundLock &lock : locks) {
            infos.append(lock.heldBy(identified.mid(first, lock.holders.size())));
            first += lock.holders.size();
        }
        completion({}, infos);
    });
}

void LockListing::read(const QList<LockId> &locks, Others others, Found completion)
{
    if (m_isPlain())
        return readPlainly(locks, others, std::move(completion));
    QList<QByteArray> keys;
    keys.reserve(4 * locks.size());
    for (const LockId &lock : locks)
        keys << lock.key() << RedisKeys::fence(lock) << RedisKeys::queue(lock) << RedisKeys::permits(lock);
    m_connection->sendScript(
            Scripts::inspect, keys, {}, LongestTimeout,
            [this, locks, others, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                if (m_isRefused(result))
                    return readPlainly(locks, others, completion);
                if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
                    return completion(m_errors->ofResult(result, "inspect"), {});
                const QList<QtRedis::Reply> &elements = result.reply.elements;
                if (elements.size() != locks.size())
                    return completion(m_errors->ofMalformedReply("inspect"), {});
                QList<FoundLock> found;
                for (qsizetype i = 0; i < locks.size(); ++i) {
                    const QtRedis::Reply &element = elements.at(i);
                    if (element.type == QtRedis::Reply::Bulk) {
                        if (others == Refuse || !element.text.startsWith("WRONGTYPE"))
                            return completion(m_errors->ofReply(element.text, "inspect"), {});
                        continue;
                    }
                    if (element.elements.size() != 6)
                        return completion(m_errors->ofMalformedReply("inspect"), {});
                    found.append(foundLock(locks.at(i), element.elements));
                }
                completion({}, found);
            });
}

void LockListing::waiters(const LockId &lock, int atMost, WaitersCompletion completion)
{
    if (m_isPlain())
        return readWaitersPlainly(lock, atMost, std::move(completion));
    m_connection->sendScript(
            Scripts::waiters, {RedisKeys::queue(lock)}, {QByteArray::number(atMost)}, LongestTimeout,
            [this, lock, atMost, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                if (m_isRefused(result))
                    readWaitersPlainly(lock, atMost, completion);
                else
                    waitersReceived(result, completion);
            });
}

// Another command may change a lock in between. MULTI would exclude that, but its EXEC would end the WATCH of the
// transaction that is in progress on this connection.
void LockListing::readPlainly(const QList<LockId> &locks, Others others, Found completion)
{
    const auto results = std::make_shared<QList<QtRedis::CommandResult>>();
    const qsizetype count = 4 * locks.size() + 1;
    const auto handler = [this, locks, others, results, count, completion](const QtRedis::CommandResult &result) {
        results->append(result);
        if (results->size() == count)
            plainlyRead(locks, others, *results, completion);
    };
    for (const LockId &lock : locks) {
        m_connection->send({"GET", lock.key()}, LongestTimeout, handler);
        m_connection->send({"PTTL", lock.key()}, LongestTimeout, handler);
        m_connection->send({"GET", RedisKeys::fence(lock)}, LongestTimeout, handler);
        m_connection->send({"ZCARD", RedisKeys::queue(lock)}, LongestTimeout, handler);
    }
    m_connection->send({"TIME"}, LongestTimeout, handler);
}

/// The results of the commands that readPlainly() sent.
void LockListing::plainlyRead(const QList<LockId> &locks, Others others, const QList<QtRedis::CommandResult> &results,
                              const Found &completion)
{
    const auto serverTime = DeadlineValue::serverTime(results.last().reply);
    if (serverTime <= 0us)
        return completion(m_errors->ofResult(results.last(), "TIME"), {});
    QList<FoundLock> found;
    for (qsizetype i = 0; i < locks.size(); ++i) {
        const QtRedis::CommandResult &holder = results.at(4 * i);
        if (holder.outcome != QtRedis::CommandResult::Replied || holder.reply.isError()) {
            if (others == Refuse || holder.reply.errorCode() != "WRONGTYPE")
                return completion(m_errors->ofResult(holder, "GET"), {});
            continue;
        }
        QList<QtRedis::Reply> parts{holder.reply};
        for (qsizetype part = 1; part < 4; ++part) {
            const QtRedis::CommandResult &result = results.at(4 * i + part);
            const bool isMissing = result.reply.isError() && part > 1; // as with the script
            if (!isMissing && (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError()))
                return completion(m_errors->ofResult(result, part == 1 ? "PTTL" : "GET"), {});
            parts.append(isMissing ? QtRedis::Reply() : result.reply);
        }
        const milliseconds ttl(parts.at(1).integer);
        if (ttl == milliseconds(-2)) // it has expired since GET
            parts[0] = QtRedis::Reply();
        const auto left = ttl == milliseconds(-1) ? DeadlineValue::timeLeft(holder.reply.text, serverTime)
                                                  : std::nullopt;
        if (left)
            parts[1].integer = DeadlineValue::shown(*left).count();
        found.append(foundLock(locks.at(i), parts));
    }
    completion({}, found);
}

/// Makes the reply that the script would give.
void LockListing::readWaitersPlainly(const LockId &lock, int atMost, WaitersCompletion completion)
{
    const auto time = std::make_shared<QtRedis::Reply>();
    m_connection->send({"TIME"}, LongestTimeout,
                       [time](const QtRedis::CommandResult &result) { *time = result.reply; });
    m_connection->send(
            {"ZRANGE", RedisKeys::queue(lock), "0", QByteArray::number(atMost - 1), "WITHSCORES"}, LongestTimeout,
            [this, time, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                const QList<QtRedis::Reply> members = result.reply.elements;
                QtRedis::CommandResult waiters = result;
                if (result.reply.type == QtRedis::Reply::Array) {
                    waiters.reply.elements = {bulk(QByteArray::number(DeadlineValue::serverTime(*time).count()))};
                    for (qsizetype i = 0; i + 1 < members.size(); i += 2) {
                        const QByteArray member = members.at(i).text;
                        const QByteArray token = member.startsWith('*') ? member.sliced(1) : member;
                        const QByteArray client = Token::clientOf(token);
                        if (!client.isEmpty())
                            waiters.reply.elements += {bulk(client), bulk(Token::connectionOf(token)),
                                                       members.at(i + 1)};
                    }
                }
                waitersReceived(waiters, completion);
            });
}

void LockListing::waitersReceived(const QtRedis::CommandResult &result, WaitersCompletion completion)
{
    const char *const command = Scripts::waiters.name;
    if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
        return completion(m_errors->ofResult(result, command), {});
    if (result.reply.type == QtRedis::Reply::Bulk)
        return completion(m_errors->ofReply(result.reply.text, command), {});
    const QList<QtRedis::Reply> &elements = result.reply.elements;
    if (elements.size() % 3 != 1)
        return completion(m_errors->ofMalformedReply(command), {});
    const qint64 now = std::max<qint64>(0, elements.first().text.toLongLong());
    QList<LockWaiter> waiters;
    QList<FoundClient> clients;
    for (qsizetype i = 1; i < elements.size(); i += 3) {
        LockWaiter waiter;
        waiter.position = int(waiters.size());
        // Anybody may have written the member and its score.
        const qint64 connection = elements.at(i + 1).text.toLongLong();
        const qint64 arrival = std::clamp<qint64>(elements.at(i + 2).text.toLongLong(), 0, now);
        waiter.waited = std::chrono::duration_cast<milliseconds>(std::chrono::microseconds(now - arrival));
        waiters.append(waiter);
        clients.append({elements.at(i).text, connection > 0 ? QByteArray::number(connection) : QByteArray()});
    }
    m_holders->identify(clients, [waiters, completion](const QList<FoundClient> &identified) {
        QList<LockWaiter> described = waiters;
        for (qsizetype i = 0; i < described.size(); ++i)
            described[i].client = identified.at(i).toLockClient();
        completion({}, described);
    });
}

void LockListing::list(const QString &prefix, const QString &pattern, Completion completion)
{
    auto listing = std::make_shared<Scan>();
    listing->prefix = prefix;
    listing->match = globEscaped(Detail::nameBytes(prefix)) + Detail::nameBytes(pattern);
    listing->completion = std::move(completion);
    scan(listing, "0");
}

void LockListing::scan(const std::shared_ptr<Scan> &scan, const QByteArray &cursor)
{
    const QList<QByteArray> command{"SCAN", cursor, "MATCH", scan->match, "COUNT", QByteArray::number(ScanCount)};
    m_connection->send(command, LongestTimeout, [this, scan](const QtRedis::CommandResult &result) {
        if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
            return scan->completion(m_errors->ofResult(result, "SCAN"), {});
        const QList<QtRedis::Reply> &parts = result.reply.elements;
        if (parts.size() != 2 || parts.at(0).text.isEmpty() || parts.at(1).type != QtRedis::Reply::Array)
            return scan->completion(m_errors->ofMalformedReply("SCAN"), {});
        const qsizetype prefixSize = Detail::nameBytes(scan->prefix).size();
        QList<LockId> locks;
        for (const QtRedis::Reply &element : parts.at(1).elements) {
            const QByteArray key = element.text;
            if (key.size() <= prefixSize || scan->seen.contains(key))
                continue;
            QString ignored; // side keys and other programs' keys are not locks
            const auto lock = LockId::make(scan->prefix, Detail::nameText(key.sliced(prefixSize)), &ignored);
            if (!lock || lock->key() != key || !RedisKeys::problem(*lock).isEmpty())
                continue;
            scan->seen.insert(key);
            locks.append(*lock);
        }
        const QByteArray nextCursor = parts.at(0).text;
        if (locks.isEmpty())
            goOn(scan, nextCursor);
        else
            inspectAll(scan, locks, nextCursor);
    });
}

void LockListing::inspectAll(const std::shared_ptr<Scan> &scan, const QList<LockId> &locks,
                             const QByteArray &nextCursor)
{
    const qsizetype limit = m_readMoving ? 1 : InspectLimit;
    scan->beingRead = (locks.size() + limit - 1) / limit;
    for (qsizetype first = 0; first < locks.size(); first += limit) {
        const QList<LockId> part = locks.mid(first, limit);
        read(part, Skip, [this, scan, part, nextCursor](const EngineError &error, const QList<FoundLock> &found) {
            if (!error.isSlotMoving || !m_readMoving)
                return inspected(scan, error, found, nextCursor);
            m_readMoving(part.first(),
                         [this, scan, nextCursor](const EngineError &again, const QList<FoundLock> &moved) {
                             // One lock that cannot be read at present must not hide all the others.
                             inspected(scan, again.isPermanent ? again : EngineError(), moved, nextCursor);
                         });
        });
    }
}

void LockListing::inspected(const std::shared_ptr<Scan> &scan, const EngineError &error, const QList<FoundLock> &found,
                            const QByteArray &nextCursor)
{
    const bool isLast = --scan->beingRead == 0;
    if (!scan->completion)
        return; // an earlier part failed
    if (error)
        return std::exchange(scan->completion, nullptr)(error, {});
    // A lock may have been released since the SCAN.
    std::copy_if(found.begin(), found.end(), std::back_inserter(scan->found),
                 [](const FoundLock &lock) { return lock.info.held; });
    if (isLast)
        goOn(scan, nextCursor);
}

void LockListing::goOn(const std::shared_ptr<Scan> &scan, const QByteArray &nextCursor)
{
    if (nextCursor != "0")
        return this->scan(scan, nextCursor);
    identifyHolders(scan->found, scan->completion);
}

} // namespace QDistLock
