// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redisengine.h"

#include "core/leaseclock.h"
#include "noticemessage.h"
#include "redis/subscriber.h"
#include "scripts.h"

#include <QtCore/qtimer.h>

#include <algorithm>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// Locks in one command: so many that the command's own cost hardly counts, so few that the server
/// serves others meanwhile (a script of this size takes it well under a millisecond).
constexpr qsizetype AcquireChunk = 64;
constexpr qsizetype RenewChunk = 1000;
constexpr int ScanCount = 512;
/// Keys a listing looks at in one command.
constexpr qsizetype InspectChunk = 128;

/// A longer answer is of no use to the lease; giving up the connection of all locks for one that is short
/// would be of no use either.
milliseconds commandTimeout(milliseconds lease)
{
    return std::clamp<milliseconds>(lease, 1s, 3s);
}

/// Less: a half-open connection is to be found out in time to renew on another one.
milliseconds renewalTimeout(milliseconds lease)
{
    return std::clamp<milliseconds>(lease / 3, 1s, 3s);
}

constexpr milliseconds CommandTimeout = 3s;

/// How long a token is remembered whose cancel the server has refused for good.
constexpr milliseconds RefusedAtMost = 10min;

/// A waiter at the head of its queue: how often the connections are checked. Those behind are many, so that they check
/// less often: together a thousand clients send some tens of PINGs a second.
constexpr milliseconds PingInterval = 5s;
constexpr int PositionsForInterval = 16;
constexpr milliseconds LongestPingInterval = 2min;
/// Where nobody waits.
constexpr milliseconds IdlePingInterval = 1min;

/// What a server says is not to overflow what is computed from it: another program's key may live for ages.
constexpr milliseconds LongestTtl = 24h * 365;
constexpr qint64 LongestQueue = 1'000'000'000;

QByteArray globEscaped(const QByteArray &text)
{
    QByteArray escaped;
    for (const char c : text) {
        if (strchr("*?[]\\", c))
            escaped += '\\';
        escaped += c;
    }
    return escaped;
}

} // namespace

struct RedisEngine::Operation
{
    enum Kind { Acquire, Renew, Release, Cancel };
    Kind kind;
    LockKeys keys;
    QByteArray token;
    milliseconds lease;
    Completion completion;
    milliseconds keep = 0ms;
    QByteArray flags = {};
    QByteArray arrival = {};

    milliseconds timeout() const { return kind == Renew ? renewalTimeout(lease) : commandTimeout(lease); }
};

/// Operations that shared a command.
struct RedisEngine::Batch
{
    explicit Batch(Operations of)
        : operations(std::move(of))
    {
    }

    Operations operations;
    EngineError error;              ///< of all of them
    QList<QtRedis::Reply> elements; ///< one for each, unless there was an error
    std::chrono::nanoseconds sentAt{0}; ///< on the lease clock
};

struct RedisEngine::Abandoned
{
    QByteArray token;
    LockKeys keys;
    milliseconds lease;
    milliseconds keep;
    std::chrono::nanoseconds until; ///< on the lease clock
    bool inFlight = false;
    bool gone = false; ///< when last asked the server had nothing more under this token, or refused the cancel
    bool found = false; ///< and it had something before
};

struct RedisEngine::Listing
{
    QByteArray prefix;
    QByteArray match;
    QSet<QByteArray> seen; ///< SCAN may tell a key twice
    QList<LockInfo> infos;
    std::function<void(const EngineError &, const QList<LockInfo> &)> completion;
};

RedisEngine::RedisEngine(const QtRedis::ServerUrl &server, const LeaseClock *clock, QObject *parent)
    : LockEngine(parent)
    , m_connection(server)
    , m_channel(Scripts::CHANNELS + clientId())
    , m_clock(clock)
{
    m_connection.setClientName("qdistlock-" + clientId());
    m_connection.setNeeded([this] { return isNeeded(); });
    connect(&m_connection, &QtRedis::Connection::stateChanged, this, &RedisEngine::connectionStateChanged);
    connect(&m_connection, &QtRedis::Connection::failed, this, &LockEngine::failed);
    connect(&m_connection, &QtRedis::Connection::repliesProcessed, this, &RedisEngine::flush);
}

RedisEngine::~RedisEngine()
{
    m_connection.disconnect(this);
    // A token that nobody wants needs its cancel and nothing else.
    m_operations.erase(std::remove_if(m_operations.begin(), m_operations.end(),
                                      [this](const Operation &operation) {
                                          return m_abandoned.contains(sequenceOf(operation.token));
                                      }),
                       m_operations.end());
    for (const Abandoned &abandoned : std::as_const(m_abandoned)) {
        if (!abandoned.gone || !abandoned.found)
            m_operations.push_back({Operation::Cancel, abandoned.keys, abandoned.token, abandoned.lease, nullptr, abandoned.keep});
    }
    // Nobody could send the script again to a server that does not know it. Without keys it does nothing.
    if (!m_operations.empty())
        m_connection.send({"EVAL", Scripts::cancel.text, "0"}, CommandTimeout, nullptr);
    flush();
    // The connection's destructor writes it all.
}

void RedisEngine::open()
{
    m_connection.open();
}

LockEngine::State RedisEngine::state() const
{
    switch (m_connection.state()) {
    case QtRedis::Connection::Connecting:
        return Connecting;
    case QtRedis::Connection::Ready:
        return Ready;
    case QtRedis::Connection::Disconnected:
        break;
    }
    return Disconnected;
}

EngineError RedisEngine::error() const
{
    if (m_connection.failure() == QtRedis::Failure::None)
        return {};
    return connectionError(m_connection.failure(), m_connection.errorString(), false);
}

void RedisEngine::connectionStateChanged()
{
    if (m_connection.state() == QtRedis::Connection::Ready) {
        queueAbandoned();
        if (m_subscriber) {
            // After a fail-over the other connection may still be with the server that was demoted, or be cut off.
            m_subscriber->reconnect();
            m_subscriber->subscribe(m_channel); // after a permanent failure it waits to be asked
        }
    }
    Q_EMIT stateChanged();
}

bool RedisEngine::isNeeded() const
{
    const auto now = m_clock->now();
    return need().connection || std::any_of(m_abandoned.cbegin(), m_abandoned.cend(), [now](const Abandoned &abandoned) {
               return !abandoned.gone && abandoned.until > now;
           });
}

/// The connection is given up if there is no answer.
void RedisEngine::checkConnection()
{
    if (m_connection.state() == QtRedis::Connection::Ready)
        m_connection.send({"PING"}, CommandTimeout, nullptr);
}

void RedisEngine::acquire(const Acquire &operation, Completion completion)
{
    QByteArray flags;
    if (operation.repairMissingTtl)
        flags += 'r';
    if (operation.enqueue)
        flags += 'q';
    if (operation.barge)
        flags += 'b';
    enqueue({Operation::Acquire, operation.keys, operation.token, operation.lease, std::move(completion), 0ms, flags,
             operation.arrival});
}

void RedisEngine::renew(const LockKeys &keys, const QByteArray &token, milliseconds lease,
                        Completion completion)
{
    enqueue({Operation::Renew, keys, token, lease, std::move(completion)});
}

void RedisEngine::release(const LockKeys &keys, const QByteArray &token, milliseconds lease, milliseconds keep,
                          Completion completion)
{
    enqueue({Operation::Release, keys, token, lease, std::move(completion), keep});
}

void RedisEngine::abandon(const LockKeys &keys, const QByteArray &token, milliseconds lease, milliseconds keep,
                          milliseconds atMost)
{
    const quint64 sequence = sequenceOf(token);
    m_abandoned.insert(sequence, {token, keys, lease, keep, m_clock->now() + atMost});
    if (m_connection.state() != QtRedis::Connection::Ready)
        return; // connectionStateChanged() goes on
    if (std::exchange(m_abandonedAgain, false))
        queueAbandoned();
    else
        sendAbandoned(sequence);
}

void RedisEngine::queueAbandoned()
{
    const QList<quint64> sequences = m_abandoned.keys();
    for (const quint64 sequence : sequences)
        sendAbandoned(sequence);
}

void RedisEngine::forgetAbandoned()
{
    const auto now = m_clock->now();
    m_abandoned.removeIf([now](auto it) { return !it->inFlight && it->until <= now; });
}

void RedisEngine::sendAbandoned(quint64 sequence)
{
    const auto abandoned = m_abandoned.find(sequence);
    if (abandoned == m_abandoned.end() || abandoned->gone || std::exchange(abandoned->inFlight, true))
        return;
    const auto completion = [this, sequence](const EngineReply &reply) {
        const auto it = m_abandoned.find(sequence);
        if (it == m_abandoned.end())
            return;
        it->inFlight = false;
        const bool refused = reply.error.permanent && m_connection.state() == QtRedis::Connection::Ready;
        if (reply.status == EngineReply::Failed && !refused) {
            // Goes out again in a second, with the next need or connection.
            if (!std::exchange(m_abandonedAgain, true)) {
                QTimer::singleShot(1s, this, [this] {
                    if (m_connection.state() == QtRedis::Connection::Ready && std::exchange(m_abandonedAgain, false))
                        queueAbandoned();
                });
            }
        } else {
            // An acquire may run yet: if it had to be sent again after NOSCRIPT or NOPERM, see decode(); or with a
            // connection that was lost, see messageReceived(). If the cancel was refused, because the user's rights were
            // being changed, it is sent again when the token is served, or from the destructor.
            it->gone = true;
            it->found = reply.status == EngineReply::Done;
            it->until = std::min<std::chrono::nanoseconds>(it->until,
                                                           m_clock->now() + (refused ? RefusedAtMost : 2 * CommandTimeout));
            if (m_abandoned.size() >= m_forgetAbandonedAt) {
                forgetAbandoned();
                m_forgetAbandonedAt = std::max<qsizetype>(64, 2 * m_abandoned.size());
            }
        }
    };
    enqueue({Operation::Cancel, abandoned->keys, abandoned->token, abandoned->lease, completion, abandoned->keep});
}

void RedisEngine::enqueue(Operation operation)
{
    if (operation.kind != Operation::Cancel && std::exchange(m_abandonedAgain, false))
        queueAbandoned();
    const qsizetype limit = operation.kind == Operation::Renew ? RenewChunk : AcquireChunk;
    m_operations.push_back(std::move(operation));
    if (qsizetype(m_operations.size()) >= limit) {
        flush(); // the server works on these while we go on
        return;
    }
    // uncork() or Connection::repliesProcessed() will flush.
    if (m_corked || m_connection.isDelivering() || std::exchange(m_flushScheduled, true))
        return;
    QMetaObject::invokeMethod(
            this,
            [this] {
                m_flushScheduled = false;
                flush();
            },
            Qt::QueuedConnection);
}

void RedisEngine::uncork()
{
    m_corked = false;
    flush();
}

void RedisEngine::flush()
{
    if (m_operations.empty())
        return;
    m_connection.cork();
    // Runs of one kind, so that the order of operations on one lock is kept.
    auto operations = std::exchange(m_operations, {});
    auto endOfKind = operations.begin();
    milliseconds timeout = 0ms;
    for (auto first = operations.begin(); first != operations.end();) {
        if (first == endOfKind) {
            // The longest of those that go out together: when it is over, the connection of all locks is given up.
            timeout = 0ms;
            for (; endOfKind != operations.end() && endOfKind->kind == first->kind; ++endOfKind)
                timeout = std::max(timeout, endOfKind->timeout());
        }
        const auto limit = first->kind == Operation::Renew ? RenewChunk : AcquireChunk;
        auto last = first;
        while (last != operations.end() && last - first < limit && canShareCommand(*first, *last))
            ++last;
        send(Operations(std::make_move_iterator(first), std::make_move_iterator(last)), timeout);
        first = last;
    }
    m_connection.flush();
}

bool RedisEngine::canShareCommand(const Operation &first, const Operation &other)
{
    if (other.kind != first.kind)
        return false;
    switch (first.kind) {
    case Operation::Acquire: // the script gets one lease and one set of flags for all
        return other.lease == first.lease && other.flags == first.flags
                && other.arrival.isEmpty() == first.arrival.isEmpty();
    case Operation::Release:
        return other.lease == first.lease && other.keep == first.keep;
    default:
        return true;
    }
}

void RedisEngine::send(Operations operations, milliseconds timeout)
{
    const qsizetype size = qsizetype(operations.size());
    const Operation &front = operations.front();
    const Operation::Kind kind = front.kind;
    QList<QByteArray> keys;
    QList<QByteArray> arguments;
    keys.reserve(3 * size);
    arguments.reserve(3 * size + 2);
    if (kind == Operation::Acquire) {
        arguments << QByteArray::number(qint64(front.lease.count()))
                  << (front.arrival.isEmpty() ? front.flags : front.flags + 'a');
    } else if (kind == Operation::Release) {
        arguments << QByteArray::number(qint64(front.lease.count())) << QByteArray::number(qint64(front.keep.count()));
    }
    // All keys of one sort stand together, so that a script can ask for them in one call.
    for (const Operation &operation : operations) {
        keys << operation.keys.lock;
        arguments << operation.token;
        if (kind == Operation::Renew || kind == Operation::Cancel)
            arguments << QByteArray::number(qint64(operation.lease.count()));
        if (kind == Operation::Cancel)
            arguments << QByteArray::number(qint64(operation.keep.count()));
    }
    if (kind == Operation::Acquire && !front.arrival.isEmpty()) {
        for (const Operation &operation : operations)
            arguments << operation.arrival;
    }
    if (kind != Operation::Renew) {
        for (const Operation &operation : operations)
            keys << operation.keys.queue;
    }
    if (kind == Operation::Acquire) {
        for (const Operation &operation : operations)
            keys << operation.keys.fence;
    }
    auto batch = std::make_shared<Batch>(std::move(operations));
    batch->sentAt = m_clock->now();
    m_connection.sendScript(scriptOf(kind), keys, arguments, timeout,
                            [this, batch = std::move(batch)](const QtRedis::CommandResult &result) {
                                received(batch, result);
                            });
}

const QtRedis::Script &RedisEngine::scriptOf(int kind)
{
    switch (kind) {
    case Operation::Acquire:
        return Scripts::acquire;
    case Operation::Renew:
        return Scripts::renew;
    case Operation::Release:
        return Scripts::release;
    default:
        return Scripts::cancel;
    }
}

void RedisEngine::received(const std::shared_ptr<Batch> &batch, const QtRedis::CommandResult &result)
{
    Operations &operations = batch->operations;
    const bool replied = result.outcome == QtRedis::CommandResult::Replied;
    const char *const command = scriptOf(operations.front().kind).name;

    // A user may be forbidden one key of those that shared a command.
    if (replied && result.reply.errorCode() == "NOPERM" && operations.size() > 1) {
        for (Operation &operation : operations) {
            const milliseconds timeout = operation.timeout();
            Operations single;
            single.push_back(std::move(operation));
            send(std::move(single), timeout);
        }
        return;
    }

    if (!replied || result.reply.isError())
        batch->error = errorOf(result, command);
    else if (result.reply.type != QtRedis::Reply::Array
             || result.reply.elements.size() != qsizetype(operations.size()))
        batch->error = malformed(command);
    batch->elements = result.reply.elements;
    for (size_t i = 0; i < operations.size(); ++i) {
        EngineReply reply;
        std::optional<Handover> handover;
        if (batch->error)
            reply.error = batch->error;
        else
            reply = decode(*batch, i, &handover);
        operations[i].completion(reply);
        if (handover)
            Q_EMIT handedOver(*handover);
    }
    // After the first answer, so that the first lock does not wait for a second connection.
    if (!batch->error)
        subscribe();
}

EngineReply RedisEngine::decode(const Batch &batch, size_t index, std::optional<Handover> *handover)
{
    const Operation &operation = batch.operations[index];
    const Operation::Kind kind = operation.kind;
    const QtRedis::Reply &element = batch.elements.at(qsizetype(index));
    const qsizetype size = element.elements.size();
    const auto integer = [&element](qsizetype part) { return element.elements.at(part).integer; };

    EngineReply reply;
    bool isFence = false;
    if (kind == Operation::Acquire && element.type == QtRedis::Reply::Bulk)
        reply.fencingToken = element.text.toLongLong(&isFence);
    if (isFence && reply.fencingToken > 0) {
        reply.status = EngineReply::Granted;
    } else if (element.type == QtRedis::Reply::Bulk && !isFence) {
        reply.error = replyError(element.text, scriptOf(kind).name);
    } else if (kind == Operation::Acquire && size == 5 && integer(0) == 0) {
        reply.status = EngineReply::Taken;
        reply.holderTtl = milliseconds(std::min<qint64>(integer(1), LongestTtl.count()));
        reply.foreignHolder = integer(2) == 0;
        reply.queuePosition = int(std::clamp<qint64>(integer(3), -1, LongestQueue));
        if (reply.queuePosition >= 0)
            reply.arrival = element.elements.at(4).text;
        // It waited, was not told, and looks by itself: perhaps nobody can tell it anything, and each release
        // takes it for dead.
        if (m_subscriber && !operation.arrival.isEmpty())
            m_subscriber->check();
    } else if (kind == Operation::Release && size == 2 && element.elements.at(1).text.toLongLong() > 0) {
        reply.status = EngineReply::Done;
        *handover = {operation.keys, element.elements.at(0).text, element.elements.at(1).text.toLongLong(),
                     batch.sentAt, operation.lease};
    } else if (kind != Operation::Acquire && element.type == QtRedis::Reply::Integer && element.integer >= 0
               && element.integer <= 3) {
        reply.status = element.integer == 0 ? EngineReply::Gone
                : element.integer == 2      ? EngineReply::Stolen
                                            : EngineReply::Done;
        if (element.integer == 3) // more dead waiters than one call may drop
            enqueue({Operation::Cancel, operation.keys, operation.token, operation.lease, [](const EngineReply &) {}});
    } else {
        reply.error = malformed(scriptOf(kind).name);
    }
    if (reply.status == EngineReply::Granted || reply.queuePosition >= 0) {
        // It ran after the cancellation.
        if (!m_abandoned.isEmpty())
            abandonAgain(sequenceOf(operation.token));
    }
    return reply;
}

bool RedisEngine::canBeWoken() const
{
    return m_subscriber && m_subscriber->isSubscribed(m_channel);
}

void RedisEngine::subscribe()
{
    if (m_subscriber)
        return;
    m_subscriber = std::make_unique<QtRedis::Subscriber>(m_connection.server());
    m_subscriber->setClientName("qdistlock-" + clientId());
    m_subscriber->setNeeded([this] { return isNeeded(); });
    m_subscriber->setPingInterval(PingInterval);
    m_subscriber->setPingDue([this](milliseconds sinceLast) {
        const int position = need().queuePosition;
        const milliseconds interval = position < 0
                ? IdlePingInterval
                : std::min<milliseconds>(PingInterval * (1 + position / PositionsForInterval), LongestPingInterval);
        return sinceLast + PingInterval / 2 > interval;
    });
    // A waiter sends nothing on the other connection for a long time.
    connect(m_subscriber.get(), &QtRedis::Subscriber::pinged, this, &RedisEngine::checkConnection);
    connect(m_subscriber.get(), &QtRedis::Subscriber::messageReceived, this,
            [this](const QByteArray &, const QByteArray &payload) { messageReceived(payload); });
    connect(m_subscriber.get(), &QtRedis::Subscriber::subscribed, this, &LockEngine::wakeableChanged);
    connect(m_subscriber.get(), &QtRedis::Subscriber::interrupted, this, [this] {
        checkConnection(); // what cut that connection off may have cut off this one too
        Q_EMIT wakeableChanged();
    });
    // What a message made us ask for goes out now, not in the next turn of the loop.
    connect(m_subscriber.get(), &QtRedis::Subscriber::messagesProcessed, this, [this] {
        flush();
    });
    m_subscriber->subscribe(m_channel);
}

void RedisEngine::messageReceived(const QByteArray &payload)
{
    const auto message = NoticeMessage::parse(payload);
    if (!message)
        return; // somebody else's business
    // The lock would stay with a waiter that is no more until the claim time is over.
    if (message->notice == Grant)
        abandonAgain(message->sequence);
    Q_EMIT noticed(message->notice, message->sequence, std::max(message->delay, 0ms));
}

void RedisEngine::abandonAgain(quint64 sequence)
{
    const auto it = m_abandoned.find(sequence);
    if (it == m_abandoned.end())
        return;
    it->gone = false;
    sendAbandoned(sequence);
}

void RedisEngine::inspect(const LockKeys &keys,
                          std::function<void(const EngineError &, const LockInfo &)> completion)
{
    inspectMany({keys}, [completion = std::move(completion)](const EngineError &error, const QList<LockInfo> &infos) {
        completion(error, infos.isEmpty() ? LockInfo() : infos.first());
    });
}

void RedisEngine::inspectMany(const QList<LockKeys> &keys,
                              std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    QList<QByteArray> scriptKeys;
    for (const LockKeys &lock : keys)
        scriptKeys << lock.lock << lock.fence << lock.queue;
    m_connection.sendScript(
            Scripts::inspect, scriptKeys, {}, CommandTimeout,
            [this, keys, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
                    return completion(errorOf(result, "inspect"), {});
                if (result.reply.elements.size() != keys.size())
                    return completion(malformed("inspect"), {});
                QList<LockInfo> infos;
                for (qsizetype i = 0; i < keys.size(); ++i) {
                    const QtRedis::Reply &element = result.reply.elements.at(i);
                    if (element.type == QtRedis::Reply::Bulk) {
                        if (keys.size() == 1 || !element.text.startsWith("WRONGTYPE"))
                            return completion(replyError(element.text, "inspect"), {});
                        continue; // a listing leaves out what is no lock
                    }
                    if (element.elements.size() != 4)
                        return completion(malformed("inspect"), {});
                    const QByteArray &token = element.elements.at(0).text;
                    LockInfo info;
                    info.name = QString::fromUtf8(keys.at(i).lock.sliced(keys.at(i).prefix.size()));
                    info.held = element.elements.at(0).type == QtRedis::Reply::Bulk;
                    const QByteArray client = clientOf(token);
                    info.foreign = info.held && client.isEmpty();
                    info.holder = QString::fromLatin1(client);
                    if (info.held)
                        info.remaining = milliseconds(element.elements.at(1).integer);
                    info.fencingToken = element.elements.at(2).text.toLongLong();
                    info.queueLength = int(element.elements.at(3).integer);
                    infos.append(info);
                }
                completion({}, infos);
            });
}

void RedisEngine::list(const QString &prefix, const QString &pattern,
                       std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    auto listing = std::make_shared<Listing>();
    listing->prefix = prefix.toUtf8();
    listing->match = globEscaped(listing->prefix) + pattern.toUtf8();
    listing->completion = std::move(completion);
    scan(std::move(listing), "0");
}

void RedisEngine::scan(std::shared_ptr<Listing> listing, const QByteArray &cursor)
{
    const QList<QByteArray> command{"SCAN", cursor, "MATCH", listing->match, "COUNT",
                                    QByteArray::number(ScanCount), "TYPE", "string"};
    m_connection.send(command, CommandTimeout, [this, listing](const QtRedis::CommandResult &result) {
        if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
            return listing->completion(errorOf(result, "SCAN"), {});
        if (result.reply.elements.size() != 2 || result.reply.elements.at(0).text.isEmpty()
            || result.reply.elements.at(1).type != QtRedis::Reply::Array)
            return listing->completion(malformed("SCAN"), {});
        const QByteArray next = result.reply.elements.at(0).text;
        QList<LockKeys> keys;
        for (const QtRedis::Reply &element : result.reply.elements.at(1).elements) {
            const QByteArray key = element.text;
            QString ignored; // what makes no lock's name is no lock: side keys, other programs' keys
            if (key.size() <= listing->prefix.size() || listing->seen.contains(key))
                continue;
            const auto lockKeys = LockKeys::make(QString::fromUtf8(listing->prefix),
                                                 QString::fromUtf8(key.sliced(listing->prefix.size())), &ignored);
            if (!lockKeys || lockKeys->lock != key)
                continue;
            listing->seen.insert(key);
            keys.append(*lockKeys);
        }
        const auto goOn = [this, listing, next] {
            if (next == "0")
                listing->completion({}, listing->infos);
            else
                scan(listing, next);
        };
        if (keys.isEmpty())
            return goOn();
        const qsizetype chunks = (keys.size() + InspectChunk - 1) / InspectChunk;
        for (qsizetype chunk = 0; chunk < chunks; ++chunk) {
            const bool last = chunk == chunks - 1;
            inspectMany(keys.mid(chunk * InspectChunk, InspectChunk),
                        [listing, last, goOn](const EngineError &error, const QList<LockInfo> &infos) {
                            if (!listing->completion)
                                return; // an earlier chunk failed
                            if (error)
                                return std::exchange(listing->completion, nullptr)(error, {});
                            std::copy_if(infos.begin(), infos.end(), std::back_inserter(listing->infos),
                                         [](const LockInfo &info) { return info.held; }); // it may be gone by now
                            if (last)
                                goOn();
                        });
        }
    });
}

void RedisEngine::forceRelease(const LockKeys &keys,
                               std::function<void(const EngineError &, bool existed)> completion)
{
    m_connection.sendScript(Scripts::force_release, {keys.lock, keys.queue}, {QByteArray::number(Scripts::CLAIM_TTL)},
                            CommandTimeout,
                            [this, completion = std::move(completion)](const QtRedis::CommandResult &result) {
                                if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
                                    completion(errorOf(result, "force_release"), false);
                                else if (result.reply.type == QtRedis::Reply::Bulk)
                                    completion(replyError(result.reply.text, "force_release"), false);
                                else
                                    completion({}, result.reply.integer == 1);
                            });
}

EngineError RedisEngine::malformed(const char *command) const
{
    return {DistributedLock::ProtocolError,
            QStringLiteral("the server %1 sent a reply to %2 that does not fit; look whether it is a Redis server, "
                           "version 6.2 or later")
                    .arg(m_connection.server().toDisplayString(), QLatin1String(command)),
            false, true};
}

EngineError RedisEngine::replyError(const QByteArray &reply, const char *command)
{
    // Redis 6.2 wraps what a script met: "ERR Error running script (…): @user_script:14: @user_script: 14: -READONLY …"
    const qsizetype wrapped = reply.indexOf("@user_script: ");
    const qsizetype met = wrapped < 0 ? -1 : reply.indexOf(": -", wrapped);
    const QByteArray text = met < 0 ? reply : reply.sliced(met + 3);
    const QByteArray code = text.split(' ').first();
    const auto make = [&](DistributedLock::Error error, bool permanent, const QString &advice) {
        // Redis repeats arguments of commands it does not know; a token may be among them.
        const qsizetype end = text.indexOf(", with args");
        const QString shown = m_connection.server().shown(end < 0 ? text : text.first(end));
        return EngineError{error,
                           QStringLiteral("the server %1 answered %2 with \"%3\"; %4")
                                   .arg(m_connection.server().toDisplayString(), QLatin1String(command),
                                        shown, advice),
                           permanent, false};
    };
    if (code == "NOAUTH" || code == "WRONGPASS")
        return make(DistributedLock::AuthenticationError, true,
                    QStringLiteral("check user name and password in the server's URL or QDISTLOCK_PASSWORD"));
    if (code == "NOPERM" || text.contains("ACL failure in script") // 7.2 and later
        || text.contains("The user executing the script can't")) // run this command, access …, publish …
        return make(DistributedLock::PermissionError, true,
                    QStringLiteral("grant the user the commands, keys and channels listed in the README"));
    if (code == "WRONGTYPE")
        return make(DistributedLock::ForeignTypeError, true,
                    QStringLiteral("the key is used for something else and was left as it is; use another name "
                                   "or key prefix"));
    if (text.contains("fencing counter"))
        return make(DistributedLock::ServerError, true,
                    QStringLiteral("another program wrote to the counter; delete its key, which ends in \":fence\", once "
                                   "nothing depends on the number in it"));
    if (code == "ERR")
        return make(DistributedLock::ServerError, true,
                    QStringLiteral("look whether it is a Redis server, version 6.2 or later"));
    const EngineError passing =
            make(DistributedLock::ServerError, false, QStringLiteral("it is tried again for as long as there is time"));
    if (code == "READONLY" || code == "MASTERDOWN") {
        // After a fail-over the same address may lead to the new master, but only for new connections.
        m_connection.reconnect(QStringLiteral("the server answered %1 with \"%2\", so it is not the master; connecting "
                                              "again, in case the address leads to another server by now")
                                       .arg(QLatin1String(command), QString::fromUtf8(code)));
    }
    return passing;
}

EngineError RedisEngine::errorOf(const QtRedis::CommandResult &result, const char *command)
{
    if (result.outcome == QtRedis::CommandResult::Replied)
        return replyError(result.reply.text, command);
    return connectionError(result.failure, result.errorString, result.outcome == QtRedis::CommandResult::Unknown);
}

EngineError RedisEngine::connectionError(QtRedis::Failure failure, const QString &text, bool maybeExecuted) const
{
    EngineError error;
    error.text = text;
    error.permanent = QtRedis::isPermanent(failure);
    error.maybeExecuted = maybeExecuted;
    switch (failure) {
    case QtRedis::Failure::None:
    case QtRedis::Failure::Network:
    case QtRedis::Failure::NameResolution:
    case QtRedis::Failure::Timeout:
    case QtRedis::Failure::Fork:
        error.code = DistributedLock::ConnectionError;
        break;
    case QtRedis::Failure::Certificate:
    case QtRedis::Failure::Authentication:
        error.code = DistributedLock::AuthenticationError;
        break;
    case QtRedis::Failure::Permission:
        error.code = DistributedLock::PermissionError;
        break;
    case QtRedis::Failure::Protocol:
        error.code = DistributedLock::ProtocolError;
        break;
    case QtRedis::Failure::Server:
        error.code = DistributedLock::ServerError;
        break;
    }
    return error;
}

} // namespace QDistLock
