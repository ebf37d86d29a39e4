// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/redisengine.h"

#include "base/logging.h"
#include "engine/protocolconstants.h"
#include "engine/redis/clientname.h"
#include "engine/redis/masterconfirmation.h"
#include "engine/redis/noticemessage.h"
#include "engine/redis/pingpace.h"
#include "redis/subscriber.h"
#include "redis/topology/sentinelwatch.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// What a fail-over takes after the Sentinels' down-after-milliseconds: the vote, the promotion and the first renewal.
constexpr milliseconds FailOverTime = 3s;

} // namespace

RedisEngine::RedisEngine(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &client,
                         QObject *parent)
    : LockEngine(client, parent)
    , m_server(server)
    , m_channel(Protocol::Channels + clientId())
    , m_lane(server, clock, clientId(), [this] { return need().connection; })
    , m_clock(clock)
{
    connect(&m_lane, &RedisLane::stateChanged, this, &RedisEngine::laneStateChanged);
    connect(&m_lane, &RedisLane::failed, this, &LockEngine::failed);
    connect(&m_lane, &RedisLane::handedOver, this, &RedisEngine::handedOverByMaster);
    connect(&m_lane, &RedisLane::readEnded, this, &LockEngine::processed);
    // After the first reply, so that the first lock does not wait for a second connection.
    connect(&m_lane, &RedisLane::replied, this, &RedisEngine::subscribe);
    connect(&m_lane, &RedisLane::waiterPolled, this, &RedisEngine::waiterPolled);
    connect(&m_lane, &RedisLane::plainChanged, this, [this] { Q_EMIT wakeableChanged(); });
    connect(&m_lane, &RedisLane::plainSucceeded, this, &RedisEngine::logPlain);
    if (!server.sentinels.isEmpty())
        watchMaster();
}

RedisEngine::~RedisEngine()
{
    if (m_watch) { // outlives the lane, too, whose completions may use it
        m_watch->disconnect();
        m_watch->setNeeded(nullptr);
    }
    if (m_subscriber) { // outlives the lane
        m_subscriber->disconnect();
        m_subscriber->setNeeded(nullptr);
    }
    if (!m_replicaLane)
        return;
    m_replicaLane->disconnect();
    // Its commands must not run after the cancels that the lane's destructor sends.
    if (const qint64 connection = m_replicaLane->busyConnection(); connection > 0 && m_lane.isReady()) {
        m_lane.sendAfterOperations({"CLIENT", "KILL", "ID", QByteArray::number(connection)}, LongestTimeout, nullptr);
        m_lane.flush();
    }
}

void RedisEngine::makeReplicaLane()
{
    if (m_replicaLane)
        return;
    m_replicaLane = std::make_unique<ReplicaLane>(m_lane.server(), m_clock, clientId());
    ReplicaLane *const lane = m_replicaLane.get();
    connect(lane, &ReplicaLane::served, &m_lane, &RedisLane::served);
    connect(lane, &ReplicaLane::replied, this, &RedisEngine::subscribe);
    connect(lane, &ReplicaLane::readEnded, this, &LockEngine::processed);
    connect(lane, &ReplicaLane::waiterPolled, this, &RedisEngine::waiterPolled);
    if (m_watch) // perhaps the other connection has nothing to send, and does not notice
        connect(lane, &ReplicaLane::failed, m_watch.get(), &QtRedis::SentinelWatch::askAgain);
    connect(lane, &ReplicaLane::unused, this, [this] { m_replicaLane.release()->deleteLater(); });
}

/// The waiter was not notified. Perhaps messages no longer arrive, so that each release takes it for dead.
void RedisEngine::waiterPolled()
{
    if (m_subscriber)
        m_subscriber->check();
}

void RedisEngine::cork()
{
    m_lane.cork();
    if (m_replicaLane)
        m_replicaLane->cork();
}

void RedisEngine::uncork()
{
    m_lane.uncork();
    if (m_replicaLane)
        m_replicaLane->uncork();
}

void RedisEngine::watchMaster()
{
    m_watch = std::make_unique<QtRedis::SentinelWatch>(m_server);
    m_watch->setClientName(ClientName{clientId(), {}}.toByteArray());
    m_watch->setNeeded([this] { return m_lane.isNeeded(); });
    if (m_server.confirmsMaster)
        m_confirmation = std::make_unique<MasterConfirmation>(m_watch.get(), m_server.service);
    connect(m_watch.get(), &QtRedis::SentinelWatch::masterChanged, this, &RedisEngine::masterChanged);
    connect(m_watch.get(), &QtRedis::SentinelWatch::failed, this, &LockEngine::failed);
    connect(&m_lane, &RedisLane::failed, m_watch.get(), &QtRedis::SentinelWatch::askAgain);
}

void RedisEngine::masterChanged()
{
    const QtRedis::Endpoint master = m_watch->master()->endpoint;
    const QtRedis::ServerUrl server = m_server.atMaster(master);
    const QString reason = u"the Sentinels name %1 as the master of \"%2\", connecting to it"_s.arg(master.toString(),
                                                                                                    m_server.service);
    m_hasMoved = true;
    // First: what the others cause to be sent must not go to the former master.
    m_lane.setServer(server, reason);
    if (m_replicaLane)
        m_replicaLane->setServer(server, reason);
    if (m_subscriber)
        m_subscriber->setServer(server, reason);
}

void RedisEngine::open()
{
    m_lane.open();
    if (m_subscriber && m_lane.isReady()) // otherwise laneStateChanged() continues
        m_subscriber->resume();
    if (m_watch)
        m_watch->open();
}

EngineError RedisEngine::error() const
{
    if (m_watch && !m_watch->master() && m_watch->failure() != QtRedis::Failure::None)
        return RedisErrors::ofFailure(m_watch->failure(), m_watch->errorString());
    EngineError error = m_lane.error();
    if (m_hasMoved && m_watch && m_watch->master() && error.code == DistributedLock::ConnectionError) {
        error.text +=
                u" Its Sentinels name this address as the master of \"%1\"; if it cannot be reached from here, set "
                "replica-announce-ip on the servers to one that can."_s.arg(m_server.service);
    }
    return error;
}

void RedisEngine::warnOfShortLease(milliseconds lease)
{
    if (!m_watch->master() || m_isLeaseWarned)
        return;
    const milliseconds failOver = m_watch->master()->downAfter + FailOverTime;
    if (lease * 2 / 3 >= failOver)
        return;
    m_isLeaseWarned = true;
    qCWarning(lcLock,
              "The Sentinels of \"%ls\" wait %lld ms before they replace a master (down-after-milliseconds), so a "
              "lease of "
              "%lld ms does not survive a fail-over; use one of at least %lld ms, or a smaller down-after-milliseconds",
              qUtf16Printable(m_server.service), qint64(m_watch->master()->downAfter.count()), qint64(lease.count()),
              qint64((failOver * 3 / 2).count()));
}

void RedisEngine::handedOverByMaster(const Handover &handover)
{
    if (!m_confirmation) {
        Q_EMIT handedOver(handover);
        return;
    }
    m_confirmation->ask([this, handover](const QString &problem) {
        if (problem.isEmpty())
            Q_EMIT handedOver(handover);
        else // The server may not be the master. What it says is a hint only: the waiter asks.
            Q_EMIT noticed(Grant, Token::sequenceOf(handover.token), 0ms);
    });
}

void RedisEngine::laneStateChanged()
{
    if (m_lane.isReady() && m_subscriber) {
        // After a fail-over the other connection may still lead to the server that was demoted, or be cut off.
        if (!m_hasMoved)
            m_subscriber->reconnect();
        m_subscriber->subscribe(m_channel); // after a permanent failure it waits for this
    }
    if (m_lane.isReady())
        m_hasMoved = false;
    Q_EMIT stateChanged();
}

void RedisEngine::logPlain()
{
    if (std::exchange(m_isPlainLogged, true))
        return;
    const QString server = m_lane.server().toDisplayString();
    const char *const effect = "locks are kept with WATCH, MULTI and EXEC; waiters poll each retryInterval, and "
                               "are not served in turn (`fair` has no effect)";
    if (!m_server.usesScripts) {
        qCInfo(lcLock, "%ls is used without scripts, because its URL says scripts=off: %s", qUtf16Printable(server),
               effect);
    } else {
        qCWarning(lcLock, "%ls refuses scripts (\"%ls\"): %s. Allow EVAL and EVALSHA, or put scripts=off into its URL",
                  qUtf16Printable(server), qUtf16Printable(m_lane.server().shown(m_lane.scriptRefusal())), effect);
    }
}

QByteArray RedisEngine::makeToken()
{
    QByteArray token = LockEngine::makeToken();
    if (const qint64 connection = m_lane.connectionId(); connection > 0)
        token += QByteArray::number(connection);
    return token;
}

bool RedisEngine::canBeWoken(const LockId &) const
{
    return m_subscriber && m_subscriber->isSubscribed(m_channel) && !m_lane.isPlain();
}

void RedisEngine::acquire(const Acquire &operation, Completion completion)
{
    if (m_watch)
        warnOfShortLease(operation.lease);
    if (m_confirmation)
        completion = m_confirmation->of(std::move(completion));
    if (operation.replicas.minimum == 0)
        return m_lane.acquire(operation, std::move(completion));
    makeReplicaLane();
    m_replicaLane->acquire(operation, std::move(completion));
}

void RedisEngine::renew(const LockId &lock, const QByteArray &token, milliseconds lease, const Replicas &replicas,
                        Completion completion)
{
    if (m_confirmation)
        completion = m_confirmation->of(m_confirmation->ofLoss(std::move(completion)));
    if (replicas.minimum == 0)
        return m_lane.renew(lock, token, lease, std::move(completion));
    makeReplicaLane();
    m_replicaLane->renew(lock, token, lease, replicas, std::move(completion));
}

void RedisEngine::release(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                          Completion completion)
{
    if (m_confirmation)
        completion = m_confirmation->ofLoss(std::move(completion));
    m_lane.release(lock, token, lease, keep, std::move(completion));
}

void RedisEngine::abandon(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                          milliseconds atMost)
{
    if (m_replicaLane)
        m_replicaLane->forget(token);
    m_lane.abandon(lock, token, lease, keep, atMost);
}

void RedisEngine::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    m_lane.inspect(lock, std::move(completion));
}

bool RedisEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    return m_lane.findHolder(waiter, std::move(completion));
}

void RedisEngine::list(const QString &prefix, const QString &pattern,
                       std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    m_lane.list(prefix, pattern, std::move(completion));
}

void RedisEngine::waiters(const LockId &lock, int atMost,
                          std::function<void(const EngineError &, const QList<LockWaiter> &)> completion)
{
    m_lane.waiters(lock, atMost, std::move(completion));
}

void RedisEngine::forceRelease(const LockId &lock, qint64 fencingToken, Completion completion)
{
    m_lane.forceRelease(lock, fencingToken, std::move(completion));
}

void RedisEngine::setNode(int node)
{
    m_node = node;
    m_lane.setNode(node);
}

void RedisEngine::vote(const Acquire &operation, qint64 floor, Completion completion)
{
    m_lane.vote(operation, floor, std::move(completion));
}

void RedisEngine::returnToQueue(const Acquire &operation, Completion completion)
{
    m_lane.returnToQueue(operation, std::move(completion));
}

void RedisEngine::raise(const LockId &lock, const QByteArray &token, qint64 fencingToken, Completion completion)
{
    m_lane.raise(lock, token, fencingToken, std::move(completion));
}

void RedisEngine::askInfo(std::function<void(const EngineError &, const QByteArray &info)> completion)
{
    const auto replied = [this, completion = std::move(completion)](const QtRedis::CommandResult &result) {
        if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
            completion(m_lane.errorOf(result, "INFO"), {});
        else if (result.reply.type != QtRedis::Reply::Bulk)
            completion(m_lane.malformed("INFO"), {});
        else
            completion({}, result.reply.text);
    };
    m_lane.sendOne(nullptr, {"INFO", "server"}, false, LongestTimeout, replied);
}

void RedisEngine::subscribe()
{
    if (m_subscriber)
        return;
    m_subscriber = std::make_unique<QtRedis::Subscriber>(m_lane.server());
    const QByteArray node = m_node < 0 ? QByteArray() : '-' + QByteArray::number(m_node);
    m_subscriber->setClientName(ClientName{clientId(), {}}.toByteArray() + node);
    m_subscriber->setNeeded([this] { return m_lane.isNeeded(); });
    m_subscriber->setPingInterval(PingPace::Interval);
    m_subscriber->setPingDue(
            [this](milliseconds sinceLast) { return PingPace::isDue(need().queuePosition, sinceLast); });
    // While it waits, a lock sends nothing on the other connection.
    connect(m_subscriber.get(), &QtRedis::Subscriber::pinged, &m_lane, &RedisLane::check);
    connect(m_subscriber.get(), &QtRedis::Subscriber::messageReceived, this,
            [this](const QByteArray &, const QByteArray &payload) { messageReceived(payload); });
    connect(m_subscriber.get(), &QtRedis::Subscriber::subscribed, this, [this] { Q_EMIT wakeableChanged(); });
    connect(m_subscriber.get(), &QtRedis::Subscriber::interrupted, this, [this] {
        m_lane.check(); // the cause may have interrupted the other connection, too
        Q_EMIT wakeableChanged();
    });
    // Operations that a message caused are sent now, not in the next turn of the event loop.
    connect(m_subscriber.get(), &QtRedis::Subscriber::messagesProcessed, &m_lane, &RedisLane::flush);
    connect(m_subscriber.get(), &QtRedis::Subscriber::messagesProcessed, this, [this] {
        if (m_replicaLane)
            m_replicaLane->flush();
    });
    connect(m_subscriber.get(), &QtRedis::Subscriber::readEnded, this, &LockEngine::processed);
    m_subscriber->subscribe(m_channel);
}

bool RedisEngine::isProcessing() const
{
    return m_lane.isReading() || (m_replicaLane && m_replicaLane->isReading())
            || (m_subscriber && m_subscriber->isReading());
}

void RedisEngine::messageReceived(const QByteArray &payload)
{
    const auto message = NoticeMessage::parse(payload);
    if (!message)
        return; // anybody may publish on the channel
    // Otherwise the lock would stay with a waiter that no longer exists, until its time to claim it has passed.
    if (message->notice == Grant)
        m_lane.served(message->sequence);
    if (const auto handover = message->handover(waiterOf(message->sequence), m_lane.serverClock(), m_clock->now())) {
        handedOverByMaster(*handover);
        return;
    }
    Q_EMIT noticed(message->notice, message->sequence, std::max(message->delay, 0ms));
}

} // namespace QDistLock
