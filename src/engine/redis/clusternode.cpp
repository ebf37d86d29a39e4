// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/clusternode.h"

#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr milliseconds SilenceLimit = 500ms;

} // namespace

ClusterNode::ClusterNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
                         Callbacks callbacks)
    : RedisNode(server, clock, clientId, std::move(callbacks), QtRedis::Subscriber::Sharded)
{
    connect(&lane(), &RedisLane::failed, this, [this] {
        m_silenceTimer.stop();
        runWaiting();
        Q_EMIT failed();
    });
    // Before whoever processes what was read: that may run an event loop, or destroy this.
    connect(&lane(), &RedisLane::readEnded, this, [this] {
        m_silenceTimer.stop();
        if (std::exchange(m_isSilent, false))
            Q_EMIT silent(false);
    });
    m_silenceTimer.setSingleShot(true);
    m_silenceTimer.setInterval(SilenceLimit);
    connect(&m_silenceTimer, &QTimer::timeout, this, [this] {
        m_isSilent = true;
        Q_EMIT silent(true);
    });
}

ClusterNode::~ClusterNode()
{
    lane().disconnect(this);
}

void ClusterNode::laneReady(bool isAgain)
{
    if (std::exchange(m_isSilent, false))
        Q_EMIT silent(false);
    RedisNode::laneReady(isAgain);
    runWaiting();
    if (isAgain)
        Q_EMIT readyAgain();
}

void ClusterNode::runWaiting()
{
    const auto waiting = std::exchange(m_waiting, {});
    for (const auto &action : waiting)
        action();
}

void ClusterNode::whenConnected(std::function<void()> action)
{
    if (lane().isReady() || m_hasFailed)
        return action();
    m_waiting.push_back(std::move(action));
    lane().open();
}

void ClusterNode::expectReply()
{
    if (!m_hasFailed && !m_isSilent && !m_silenceTimer.isActive())
        m_silenceTimer.start();
}

void ClusterNode::close()
{
    m_silenceTimer.stop();
    lane().disconnect(this);
    m_hasFailed = true;
    lane().closeReplaced(u"another node of the cluster has taken its slots over"_s);
    closeSubscriber();
    runWaiting();
    lane().flush(); // so that all of them end before this is destroyed
}

void ClusterNode::closeSubscriber()
{
    subscriber().disconnect();
    subscriber().close();
}

} // namespace QDistLock
