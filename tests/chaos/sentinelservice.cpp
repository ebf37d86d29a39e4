// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "sentinelservice.h"

#include <QtCore/qtimer.h>

#include <algorithm>
#include <limits>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Support::RedisServer;

namespace Chaos {

namespace {

constexpr int Sentinels = 3;

QByteArray keyOf(const QByteArray &lock)
{
    return "lock:" + lock;
}

} // namespace

SentinelService::SentinelService(History *history, const QList<QByteArray> &locks)
    : m_history(history)
    , m_locks(locks)
{
}

bool SentinelService::start()
{
    if (!m_set.start()) {
        qWarning("%ls", qUtf16Printable(m_set.errorString()));
        return false;
    }
    m_master = masterOfMajority();
    auto *timer = new QTimer(this);
    connect(timer, &QTimer::timeout, this, &SentinelService::look);
    timer->start(10ms);
    return true;
}

bool SentinelService::isHealthy()
{
    return m_set.isHealthy() && m_set.hasSwitchedFrom(0);
}

void SentinelService::look()
{
    for (int i = 0; i < m_set.serverCount(); ++i)
        lookAt(&m_set.server(i));
    const quint16 now = masterOfMajority();
    if (now == 0 || now == m_master)
        return;
    recordFailOver(now);
    m_master = now;
}

quint16 SentinelService::masterOfMajority()
{
    const qint64 asked = bootTime();
    QHash<quint16, int> votes;
    for (int i = 0; i < Sentinels; ++i) {
        if (!m_stoppedSentinels.contains(i))
            ++votes[m_set.masterPort(i)];
    }
    quint16 elected = 0;
    for (int i = 0; i < m_set.serverCount(); ++i) {
        const quint16 port = m_set.server(i).port();
        if (votes.value(port) == 0)
            m_notNamed[port] = asked;
        if (votes.value(port) > Sentinels / 2)
            elected = port;
    }
    return elected;
}

void SentinelService::lookAt(RedisServer *server)
{
    // Atomic, and allowed on replicas.
    static const QByteArray script = R"(
        local role = string.match(redis.call('INFO', 'replication'), 'role:(%w+)')
        local time = redis.call('TIME')
        local found = {role, string.format('%d%06d', time[1], time[2])}
        for _, key in ipairs(KEYS) do
            found[#found + 1] = redis.call('GET', '{' .. key .. '}:fence') or '0'
            found[#found + 1] = redis.call('PTTL', key)
        end
        return found
    )";
    const qint64 asked = bootTime();
    if (m_silentUntil.value(server->port()) > asked)
        return;
    QList<QByteArray> command{"EVAL", script, QByteArray::number(m_locks.size())};
    for (const QByteArray &lock : m_locks)
        command.append(keyOf(lock));
    const QVariantList reply = server->command(command, 500ms).toList();
    if (reply.size() != 2 + 2 * m_locks.size())
        return;
    const auto before = m_states.constFind(server->port());
    const bool isKnown = before != m_states.constEnd();
    const ServerState state = stateOf(reply, asked, isKnown ? &*before : nullptr);
    if (!isKnown || !state.isMaster || !before->isMaster)
        m_states.insert(server->port(), state);
}

SentinelService::ServerState SentinelService::stateOf(const QVariantList &reply, qint64 asked,
                                                      const ServerState *before) const
{
    ServerState state;
    state.isMaster = reply.at(0).toByteArray() == "master";
    state.time = reply.at(1).toLongLong();
    state.lastReplica = !state.isMaster ? asked : before ? before->lastReplica : 0;
    for (qsizetype i = 0; i < m_locks.size(); ++i) {
        const qint64 remaining = reply.at(3 + 2 * i).toLongLong();
        Kept kept{reply.at(2 + 2 * i).toLongLong(), remaining > 0 ? asked + remaining * 1'000'000 : 0};
        // Tokens are times: a client may have acquired the lock there between the promotion and now.
        if (before && state.isMaster && kept.fence > before->time)
            kept = before->kept.at(i);
        state.kept.append(kept);
    }
    return state;
}

void SentinelService::recordFailOver(quint16 port)
{
    const qint64 now = bootTime();
    const ServerState state = m_states.value(port);
    // Sentinels may choose a former master that has not become a replica yet.
    const qint64 from = state.lastReplica > 0 ? state.lastReplica : m_notNamed.value(port, now);
    m_history->append(Event(now, "nemesis", {}, "failover", "info")
                              .with("from", from)
                              .with("to", now)
                              .with("server", qint64(port)));
    for (qsizetype i = 0; i < m_locks.size(); ++i) {
        const Kept kept = state.isMaster ? state.kept.value(i) : Kept();
        m_history->append(Event(now, "nemesis", m_locks.at(i), "key", "info")
                                  .with("lostBy", QByteArrayLiteral("failover"))
                                  .with("from", from)
                                  .with("to", now)
                                  .with("fence", kept.fence)
                                  .with("expires", kept.expires));
    }
}

/// Tries again, for a while: a Sentinel refuses while it has no good replica.
void SentinelService::failOver()
{
    auto *timer = new QTimer(this);
    const qint64 until = bootTime() + std::chrono::nanoseconds(5s).count();
    connect(timer, &QTimer::timeout, this, [this, timer, until] {
        if (m_set.failOver() || bootTime() > until)
            timer->deleteLater();
    });
    timer->start(100ms);
}

void SentinelService::forgetMaster(qint64 silentUntil)
{
    m_silentUntil[m_master] = silentUntil;
    m_states.remove(m_master);
}

SentinelService::Undo SentinelService::killMaster(RedisServer *master)
{
    forgetMaster(std::numeric_limits<qint64>::max());
    master->kill();
    return [this, master] {
        m_silentUntil.remove(master->port());
        if (!master->start())
            qFatal("a server does not start again: %ls", qUtf16Printable(master->errorString()));
    };
}

SentinelService::Undo SentinelService::stopMaster(RedisServer *master)
{
    forgetMaster(std::numeric_limits<qint64>::max());
    master->pause();
    return [this, master] {
        master->resume();
        m_silentUntil.remove(master->port());
    };
}

SentinelService::Undo SentinelService::letMasterSleep(RedisServer *master, milliseconds duration)
{
    forgetMaster(bootTime() + std::chrono::nanoseconds(duration + 200ms).count());
    // The reply comes after the sleep, so it is not read.
    Support::RespClient client;
    if (client.connectToUnix(master->socketPath())) {
        client.command({"AUTH", "masters"});
        client.send(
                Support::Resp::encodeCommand({"DEBUG", "SLEEP", QByteArray::number(double(duration.count()) / 1000)}));
    }
    return [] {};
}

SentinelService::Undo SentinelService::stopSentinels(const QSet<int> &sentinels)
{
    m_stoppedSentinels = sentinels;
    for (const int sentinel : sentinels)
        m_set.pauseSentinel(sentinel);
    return [this, sentinels] {
        for (const int sentinel : sentinels)
            m_set.resumeSentinel(sentinel);
        m_stoppedSentinels.clear();
    };
}

SentinelService::Undo SentinelService::inject(const Fault &fault)
{
    RedisServer *const master = &m_set.serverAt(m_master);
    switch (fault.kind) {
    case FaultKind::MasterKilled:
        return killMaster(master);
    case FaultKind::MasterStopped:
        return stopMaster(master);
    case FaultKind::MasterSleeps:
        // Shorter, and the Sentinels would not replace it.
        return letMasterSleep(master, std::max<milliseconds>(fault.duration, 1500ms));
    case FaultKind::FailedOver:
        failOver();
        return [] {};
    case FaultKind::Partitioned:
        m_set.partition();
        return [this] { m_set.heal(); };
    case FaultKind::SentinelStale:
        failOver();
        return stopSentinels({1 + fault.detail % 2}); // Sentinel 0 receives SENTINEL FAILOVER
    default:
        return stopSentinels({0, 1, 2});
    }
}

} // namespace Chaos
