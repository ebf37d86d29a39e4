// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/locklisting.h"

#include "engine/redis/commandbatch.h"
#include "engine/redis/deadlinevalue.h"
#include "engine/redis/rediskeys.h"
#include "scripts.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qhash.h>
#include <QtCore/qset.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <iterator>
#include <utility>

using namespace Qt::StringLiterals;

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

QList<FoundClient> holdersOf(const QList<FoundLock> &locks)
{
    QList<FoundClient> holders;
    holders.reserve(locks.size());
    for (const FoundLock &lock : locks)
        holders += lock.holders;
    return holders;
}

/// \a identified: those that holdersOf() has returned.
QList<LockInfo> heldBy(const QList<FoundLock> &locks, const QList<FoundClient> &identified)
{
    QList<LockInfo> infos;
    infos.reserve(locks.size());
    qsizetype first = 0;
    for (const FoundLock &lock : locks) {
        infos.append(lock.heldBy(identified.mid(first, lock.holders.size())));
        first += lock.holders.size();
    }
    return infos;
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
    QString pattern;
    Completion completion;
    QSet<QByteArray> seen = {}; ///< SCAN may return a key twice
    QList<FoundLock> found = {};
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
    m_holders->identify(holdersOf(locks), [locks, completion = std::move(completion)](const auto &identified) {
        completion({}, heldBy(locks, identified));
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
    scanOn(std::make_shared<Scan>(Scan{prefix, pattern, std::move(completion)}), "0");
}

void LockListing::scan(const QString &prefix, const QString &pattern, const QByteArray &cursor, int count,
                       Scanned completion)
{
    const QByteArray match = globEscaped(Detail::nameBytes(prefix)) + Detail::nameBytes(pattern);
    const QList<QByteArray> command{"SCAN", cursor, "MATCH", match, "COUNT", QByteArray::number(count)};
    m_connection->send(
            command, LongestTimeout,
            [this, prefix, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
                    return completion(m_errors->ofResult(result, "SCAN"), {}, {});
                const QList<QtRedis::Reply> &parts = result.reply.elements;
                if (parts.size() != 2 || parts.at(0).text.isEmpty() || parts.at(1).type != QtRedis::Reply::Array)
                    return completion(m_errors->ofMalformedReply("SCAN"), {}, {});
                const qsizetype prefixSize = Detail::nameBytes(prefix).size();
                QList<LockId> locks;
                for (const QtRedis::Reply &element : parts.at(1).elements) {
                    const QByteArray key = element.text;
                    if (key.size() <= prefixSize)
                        continue;
                    QString ignored; // side keys and other programs' keys are not locks
                    const auto lock = LockId::make(prefix, Detail::nameText(key.sliced(prefixSize)), &ignored);
                    if (lock && lock->key() == key && RedisKeys::problem(*lock).isEmpty())
                        locks.append(*lock);
                }
                completion({}, locks, parts.at(0).text);
            });
}

void LockListing::scanOn(const std::shared_ptr<Scan> &scan, const QByteArray &cursor)
{
    this->scan(scan->prefix, scan->pattern, cursor, ScanCount,
               [this, scan](const EngineError &error, const QList<LockId> &found, const QByteArray &next) {
                   if (error)
                       return scan->completion(error, {});
                   QList<LockId> locks;
                   for (const LockId &lock : found) {
                       if (!scan->seen.contains(lock.key()))
                           locks.append(lock);
                       scan->seen.insert(lock.key());
                   }
                   if (locks.isEmpty())
                       return goOn(scan, next);
                   readParts(locks, InspectLimit, [this, scan, next](const QList<Part> &parts) {
                       for (const Part &part : parts) {
                           // One lock that cannot be read because its slot moves must not hide all the others.
                           if (part.error && (!part.error.isSlotMoving || !m_readMoving))
                               return scan->completion(part.error, {});
                           // A lock may have been released since the SCAN.
                           std::copy_if(part.found.begin(), part.found.end(), std::back_inserter(scan->found),
                                        [](const FoundLock &lock) { return lock.info.held; });
                       }
                       goOn(scan, next);
                   });
               });
}

void LockListing::readParts(const QList<LockId> &locks, qsizetype limit,
                            std::function<void(const QList<Part> &)> completion)
{
    struct Reading
    {
        QList<Part> parts;
        qsizetype left;
    };
    if (m_readMoving)
        limit = 1;
    const qsizetype count = (locks.size() + limit - 1) / limit;
    const auto reading = std::make_shared<Reading>(Reading{QList<Part>(count), count});
    for (qsizetype i = 0; i < count; ++i) {
        const QList<LockId> some = locks.mid(i * limit, limit);
        const auto finish = [reading, completion, i, some](const EngineError &error, const QList<FoundLock> &found) {
            reading->parts[i] = {some, error, found};
            if (--reading->left == 0)
                completion(reading->parts);
        };
        read(some, Skip, [this, some, finish](const EngineError &error, const QList<FoundLock> &found) {
            if (!error.isSlotMoving || !m_readMoving)
                return finish(error, found);
            m_readMoving(some.first(), [finish](EngineError again, const QList<FoundLock> &moved) {
                again.isSlotMoving = !again.isPermanent;
                finish(again, moved);
            });
        });
    }
}

void LockListing::inspectAll(const QList<LockId> &locks, std::function<void(const LockEngine::Inspection &)> completion)
{
    const auto identify = [this, locks, completion = std::move(completion)](const QList<Part> &parts) {
        QList<FoundLock> found;
        QHash<QString, EngineError> errors; // by name
        for (const Part &part : parts) {
            found += part.found;
            for (const LockId &lock : part.locks)
                errors.insert(Detail::nameText(lock.name()), part.error);
        }
        m_holders->identifyByRecent(holdersOf(found),
                                    [this, locks, completion, found, errors](const QList<FoundClient> &identified) {
                                        completion(inspectionOf(locks, errors, heldBy(found, identified)));
                                    });
    };
    readParts(locks, LockEngine::MostInspected, identify);
}

/// \a errors: why some were not read, by name. \a infos: of those that were.
LockEngine::Inspection LockListing::inspectionOf(const QList<LockId> &locks, const QHash<QString, EngineError> &errors,
                                                 const QList<LockInfo> &infos)
{
    QHash<QString, LockInfo> byName;
    for (const LockInfo &info : infos)
        byName.insert(info.name, info);
    LockEngine::Inspection inspection;
    for (const LockId &lock : locks) {
        const QString name = Detail::nameText(lock.name());
        EngineError error = errors.value(name);
        if (!error && !byName.contains(name))
            error = EngineError::permanent(DistributedLock::ForeignTypeError, u"the key is not a lock"_s);
        inspection.locks.append(error ? LockEngine::unread(lock, error) : byName.value(name));
    }
    inspection.clients = clientsError();
    return inspection;
}

void LockListing::clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion)
{
    m_holders->listClients([this, completion = std::move(completion)](const QSet<QByteArray> &ids) {
        completion(clientsError(), ids);
    });
}

/// Why connected clients may be missing from the list of connections.
EngineError LockListing::clientsError() const
{
    if (const QByteArray refusal = m_holders->refusal(); !refusal.isEmpty())
        return m_errors->ofReply(refusal, "CLIENT LIST");
    if (!m_holders->isRecentTooLong())
        return {};
    return EngineError::passing(
            DistributedLock::ServerError,
            u"%1: it has more connections than can be listed again and again, or refuses INFO; which holders are not connected any more is not known"_s
                    .arg(m_connection->server().toDisplayString()));
}

void LockListing::goOn(const std::shared_ptr<Scan> &scan, const QByteArray &nextCursor)
{
    if (nextCursor != "0")
        return scanOn(scan, nextCursor);
    identifyHolders(scan->found, scan->completion);
}

} // namespace QDistLock
