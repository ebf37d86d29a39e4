// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/redisengine.h"

#include "base/logging.h"
#include "engine/redis/clientname.h"
#include "engine/redis/masterconfirmation.h"
#include "redis/topology/sentinelwatch.h"

#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// What a fail-over takes after the Sentinels' down-after-milliseconds: the vote, the promotion and the first renewal.
constexpr milliseconds FailOverTime = 3s;

} // namespace

RedisEngine::RedisEngine(const QtRedis::ServerUrl &server, const LeaseClock *clock, QObject *parent)
    : LockEngine(parent)
    , m_server(server)
    , m_node(server, clock, clientId(),
             {[this] { return need().connection; }, [this] { return need().queuePosition; },
              [this](quint64 sequence) { return waiterOf(sequence); }})
    , m_clock(clock)
{
    const RedisLane *const lane = &m_node.lane();
    connect(lane, &RedisLane::stateChanged, this, [this] { Q_EMIT stateChanged(); });
    connect(lane, &RedisLane::failed, this, &LockEngine::failed);
    connect(lane, &RedisLane::handedOver, this, &RedisEngine::handedOverByMaster);
    connect(lane, &RedisLane::readEnded, this, &LockEngine::processed);
    connect(lane, &RedisLane::plainSucceeded, this, &RedisEngine::logPlain);
    connect(&m_node, &RedisNode::handedOver, this, &RedisEngine::handedOverByMaster);
    connect(&m_node, &RedisNode::noticed, this, &LockEngine::noticed);
    connect(&m_node.monitorChannel(), &MonitorChannel::messageReceived, this, &LockEngine::messageReceived);
    connect(&m_node, &RedisNode::wakeableChanged, this, [this] { Q_EMIT wakeableChanged(); });
    connect(&m_node.subscriber(), &QtRedis::Subscriber::messagesProcessed, this, [this] {
        if (m_replicaLane)
            m_replicaLane->flush();
    });
    connect(&m_node.subscriber(), &QtRedis::Subscriber::readEnded, this, &LockEngine::processed);
    if (!server.sentinels.isEmpty())
        watchMaster();
}

RedisEngine::~RedisEngine()
{
    if (m_watch) { // outlives the lane, whose completions may use it
        m_watch->disconnect();
        m_watch->setNeeded(nullptr);
    }
    if (!m_replicaLane)
        return;
    m_replicaLane->disconnect();
    // Its commands must not run after the cancels that the lane's destructor sends.
    if (const qint64 connection = m_replicaLane->busyConnection(); connection > 0 && m_node.lane().isReady()) {
        m_node.lane().sendAfterOperations({"CLIENT", "KILL", "ID", QByteArray::number(connection)}, LongestTimeout,
                                          nullptr);
        m_node.lane().flush();
    }
}

void RedisEngine::makeReplicaLane()
{
    if (m_replicaLane)
        return;
    m_replicaLane = std::make_unique<ReplicaLane>(m_node.lane().server(), m_clock, clientId());
    ReplicaLane *const lane = m_replicaLane.get();
    connect(lane, &ReplicaLane::served, &m_node.lane(), &RedisLane::served);
    connect(lane, &ReplicaLane::replied, &m_node, &RedisNode::listen);
    connect(lane, &ReplicaLane::readEnded, this, &LockEngine::processed);
    connect(lane, &ReplicaLane::waiterPolled, &m_node.subscriber(), &QtRedis::Subscriber::check);
    if (m_watch) // perhaps the other connection has nothing to send, and does not notice
        connect(lane, &ReplicaLane::failed, m_watch.get(), &QtRedis::SentinelWatch::askAgain);
    connect(lane, &ReplicaLane::unused, this, [this] { m_replicaLane.release()->deleteLater(); });
}

void RedisEngine::cork()
{
    m_node.lane().cork();
    if (m_replicaLane)
        m_replicaLane->cork();
}

void RedisEngine::uncork()
{
    m_node.lane().uncork();
    if (m_replicaLane)
        m_replicaLane->uncork();
}

bool RedisEngine::isProcessing() const
{
    return m_node.isReading() || (m_replicaLane && m_replicaLane->isReading());
}

void RedisEngine::watchMaster()
{
    m_watch = std::make_unique<QtRedis::SentinelWatch>(m_server);
    m_watch->setClientName(ClientName{clientId(), {}}.toByteArray());
    m_watch->setNeeded([this] { return m_node.lane().isNeeded(); });
    if (m_server.confirmsMaster)
        m_confirmation = std::make_unique<MasterConfirmation>(m_watch.get(), m_server.service);
    connect(m_watch.get(), &QtRedis::SentinelWatch::masterChanged, this, &RedisEngine::masterChanged);
    connect(m_watch.get(), &QtRedis::SentinelWatch::failed, this, &LockEngine::failed);
    connect(&m_node.lane(), &RedisLane::failed, m_watch.get(), &QtRedis::SentinelWatch::askAgain);
}

void RedisEngine::masterChanged()
{
    const QtRedis::Endpoint master = m_watch->master()->endpoint;
    const QtRedis::ServerUrl server = m_server.atMaster(master);
    const QString reason = u"the Sentinels name %1 as the master of \"%2\", connecting to it"_s.arg(master.toString(),
                                                                                                    m_server.service);
    m_node.setServer(server, reason);
    if (m_replicaLane)
        m_replicaLane->setServer(server, reason);
}

void RedisEngine::open()
{
    m_node.open();
    if (m_watch)
        m_watch->open();
}

EngineError RedisEngine::error() const
{
    if (m_watch && !m_watch->master() && m_watch->failure() != QtRedis::Failure::None)
        return RedisErrors::ofFailure(m_watch->failure(), m_watch->errorString());
    EngineError error = m_node.lane().error();
    if (m_node.hasMoved() && m_watch && m_watch->master() && error.code == DistributedLock::ConnectionError) {
        error.text +=
                u" Its Sentinels name this address as the master of \"%1\"; if it cannot be reached from here, set replica-announce-ip on the servers to one that can."_s
                        .arg(m_server.service);
    }
    return error;
}

QString RedisEngine::unsupported(const LockOptions &options) const
{
    if (!executesScripts())
        return noSharing(options, u"it needs scripts, and this server executes none"_s);
    return QString();
}

void RedisEngine::warnOfShortLease(milliseconds lease)
{
    if (!m_watch->master() || m_isLeaseWarned)
        return;
    const milliseconds failOver = m_watch->master()->downAfter + FailOverTime;
    if (lease * 2 / 3 >= failOver)
        return;
    m_isLeaseWarned = true;
    qCWarning(
            lcLock,
            "The Sentinels of \"%ls\" wait %lld ms before they replace a master (down-after-milliseconds), so a "
            "lease of %lld ms does not survive a fail-over; use one of at least %lld ms, or a smaller down-after-milliseconds",
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

void RedisEngine::logPlain()
{
    if (std::exchange(m_isPlainLogged, true))
        return;
    const QString server = m_node.lane().server().toDisplayString();
    const char *const effect =
            "locks are kept with WATCH, MULTI and EXEC; waiters poll each retryInterval, and are not served in turn (`fair` has no effect)";
    if (!m_server.usesScripts) {
        qCInfo(lcLock, "%ls is used without scripts, because its URL says scripts=off: %s", qUtf16Printable(server),
               effect);
    } else {
        qCWarning(lcLock, "%ls refuses scripts (\"%ls\"): %s. Allow EVAL and EVALSHA, or put scripts=off into its URL",
                  qUtf16Printable(server), qUtf16Printable(m_node.lane().server().shown(m_node.lane().scriptRefusal())),
                  effect);
    }
}

QByteArray RedisEngine::makeToken()
{
    QByteArray token = LockEngine::makeToken();
    if (const qint64 connection = m_node.lane().connectionId(); connection > 0)
        token += QByteArray::number(connection);
    return token;
}

void RedisEngine::acquire(const Acquire &operation, Completion completion)
{
    if (m_watch)
        warnOfShortLease(operation.lease);
    if (m_confirmation)
        completion = m_confirmation->of(std::move(completion));
    if (operation.replicas.minimum == 0)
        return m_node.lane().acquire(operation, std::move(completion));
    makeReplicaLane();
    m_replicaLane->acquire(operation, std::move(completion));
}

void RedisEngine::renew(const LockId &lock, const QByteArray &token, milliseconds lease, const Replicas &replicas,
                        Completion completion)
{
    if (m_confirmation)
        completion = m_confirmation->of(m_confirmation->ofLoss(std::move(completion)));
    if (replicas.minimum == 0)
        return m_node.lane().renew(lock, token, lease, std::move(completion));
    makeReplicaLane();
    m_replicaLane->renew(lock, token, lease, replicas, std::move(completion));
}

void RedisEngine::release(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                          Completion completion)
{
    if (m_confirmation)
        completion = m_confirmation->ofLoss(std::move(completion));
    m_node.lane().release(lock, token, lease, keep, std::move(completion));
}

void RedisEngine::convert(const Acquire &operation, const QByteArray &from, Completion completion)
{
    if (m_confirmation)
        completion = m_confirmation->of(m_confirmation->ofLoss(std::move(completion)));
    m_node.lane().convert(operation, from, std::move(completion));
}

void RedisEngine::abandon(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                          milliseconds atMost)
{
    if (m_replicaLane)
        m_replicaLane->forget(token);
    m_node.lane().abandon(lock, token, lease, keep, atMost);
}

void RedisEngine::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    m_node.lane().inspect(lock, std::move(completion));
}

bool RedisEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    return m_node.lane().findHolder(waiter, std::move(completion));
}

void RedisEngine::list(const QString &prefix, const QString &pattern,
                       std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    m_node.lane().list(prefix, pattern, std::move(completion));
}

void RedisEngine::scan(const QString &prefix, const QString &pattern, const QByteArray &from,
                       std::function<void(const ScanStep &)> completion)
{
    m_node.lane().scan(prefix, pattern, from.isEmpty() ? "0" : from,
                       [completion = std::move(completion)](const EngineError &error, const QList<LockId> &locks,
                                                            const QByteArray &next) {
                           completion({error, locks, next == "0" ? QByteArray() : next});
                       });
}

void RedisEngine::inspectAll(const QList<LockId> &locks, std::function<void(const Inspection &)> completion)
{
    m_node.lane().inspectAll(locks, std::move(completion));
}

void RedisEngine::sendMessage(const QByteArray &client, const QByteArray &message,
                              std::function<void(const EngineError &)> completion)
{
    m_node.monitorChannel().listen();
    m_node.lane().sendMessage(client, message, [this, completion = std::move(completion)](const EngineError &error) {
        completion(error ? error : m_node.monitorChannel().error());
    });
}

void RedisEngine::clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion)
{
    m_node.lane().clients(std::move(completion));
}

void RedisEngine::waiters(const LockId &lock, int atMost,
                          std::function<void(const EngineError &, const QList<LockWaiter> &)> completion)
{
    m_node.lane().waiters(lock, atMost, std::move(completion));
}

void RedisEngine::forceRelease(const LockId &lock, qint64 fencingToken, Completion completion)
{
    m_node.lane().forceRelease(lock, fencingToken, std::move(completion));
}

void RedisEngine::setPermits(const LockId &lock, int permits,
                             std::function<void(const EngineError &, int before)> completion)
{
    if (!executesScripts())
        LockEngine::setPermits(lock, permits, std::move(completion));
    else
        m_node.lane().setPermits(lock, permits, std::move(completion));
}

} // namespace QDistLock
