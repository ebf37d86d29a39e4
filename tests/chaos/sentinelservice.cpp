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

/// The server that the lying Sentinel names.
RedisServer::Options foreignOptions()
{
    RedisServer::Options options = RedisServer::Options::withTcp();
    options.password = Support::SentinelSet::Options().password;
    return options;
}

} // namespace

SentinelService::SentinelService(History *history, const QList<QByteArray> &locks)
    : Service(history, locks)
    , m_foreign(foreignOptions())
{
}

QList<quint16> SentinelService::linkedPorts() const
{
    QList<quint16> ports;
    for (int i = 0; i < Sentinels; ++i)
        ports.append(m_set.sentinelPort(i));
    return ports;
}

QList<RedisServer *> SentinelService::servers()
{
    QList<RedisServer *> servers;
    for (int i = 0; i < m_set.serverCount(); ++i)
        servers.append(&m_set.server(i));
    return servers;
}

bool SentinelService::start()
{
    if (!m_set.start()) {
        qWarning("%ls", qUtf16Printable(m_set.errorString()));
        return false;
    }
    if (!m_foreign.start()) {
        qWarning("%ls", qUtf16Printable(m_foreign.errorString()));
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

bool SentinelService::hasWorked(const Fault &fault, int before) const
{
    return fault.kind == FaultKind::SentinelsDown || fault.kind == FaultKind::SentinelLies || failOvers() > before;
}

void SentinelService::look()
{
    for (int i = 0; i < m_set.serverCount(); ++i)
        lookAt(&m_set.server(i));
    const quint16 now = masterOfMajority();
    if (now == 0 || now == m_master)
        return;
    switched(now);
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
    QList<QByteArray> command{"EVAL", script, QByteArray::number(locks().size())};
    for (const QByteArray &lock : locks())
        command.append(keyOf(lock));
    const QVariantList reply = server->command(command, 500ms).toList();
    if (reply.size() != 2 + 2 * locks().size())
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
    for (qsizetype i = 0; i < locks().size(); ++i) {
        const qint64 remaining = reply.at(3 + 2 * i).toLongLong();
        Kept kept{reply.at(2 + 2 * i).toLongLong(), remaining > 0 ? asked + remaining * 1'000'000 : 0};
        // Tokens are times: a client may have acquired the lock there between the promotion and now.
        if (before && state.isMaster && kept.fence > before->time)
            kept = before->kept.at(i);
        state.kept.append(kept);
    }
    return state;
}

void SentinelService::switched(quint16 port)
{
    const qint64 now = bootTime();
    const ServerState state = m_states.value(port);
    // Sentinels may choose a former master that has not become a replica yet.
    const qint64 from = state.lastReplica > 0 ? state.lastReplica : m_notNamed.value(port, now);
    QHash<QByteArray, Kept> kept;
    for (qsizetype i = 0; i < locks().size(); ++i)
        kept.insert(locks().at(i), state.isMaster ? state.kept.value(i) : Kept());
    recordFailOver(port, from, now, kept);
    m_master = port;
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

SentinelService::Undo SentinelService::replaceByLiar(int sentinel, bool claimsMany)
{
    Support::FakeSentinel::View view;
    view.service = Support::SentinelSet::service().toUtf8();
    view.port = claimsMany ? m_master : m_foreign.port();
    view.epoch = claimsMany ? 0 : 1'000'000;
    view.others = claimsMany ? 900 : 2;
    m_stoppedSentinels = {sentinel};
    m_set.killSentinel(sentinel);
    m_liar = std::make_unique<Support::FakeSentinel>(view, m_set.sentinelPort(sentinel));
    return [this, sentinel] {
        m_liar.reset();
        if (!m_set.restartSentinel(sentinel))
            qFatal("a Sentinel does not start again");
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
    case FaultKind::SentinelLies:
        return replaceByLiar(fault.detail % Sentinels, fault.detail / Sentinels % 2 == 1);
    default:
        return stopSentinels({0, 1, 2});
    }
}

} // namespace Chaos
