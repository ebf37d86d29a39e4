// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/clusternode.h"

#include "engine/redis/clientname.h"
#include "engine/redis/pingpace.h"
#include "redis/subscriber.h"

#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr milliseconds SilenceLimit = 500ms;

} // namespace

ClusterNode::ClusterNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
                         std::function<LockEngine::Need()> need, std::function<bool()> isWaitedAt)
    : m_clientId(clientId)
    , m_need(std::move(need))
    , m_isWaitedAt(std::move(isWaitedAt))
    , m_lane(server, clock, clientId, [this] { return m_need().connection; })
{
    connect(&m_lane, &RedisLane::stateChanged, this, &ClusterNode::laneStateChanged);
    connect(&m_lane, &RedisLane::failed, this, [this] {
        m_hasFailed = true;
        m_silenceTimer.stop();
        runWaiting();
        Q_EMIT failed();
    });
    connect(&m_lane, &RedisLane::readEnded, this, [this] {
        m_silenceTimer.stop();
        if (std::exchange(m_isSilent, false))
            Q_EMIT silent(false);
        Q_EMIT readEnded(); // a slot may destroy this
    });
    m_silenceTimer.setSingleShot(true);
    m_silenceTimer.setInterval(SilenceLimit);
    connect(&m_silenceTimer, &QTimer::timeout, this, [this] {
        m_isSilent = true;
        Q_EMIT silent(true);
    });
    connect(&m_lane, &RedisLane::waiterPolled, this, &ClusterNode::checkSubscriber);
}

ClusterNode::~ClusterNode()
{
    m_lane.disconnect(this);
    if (m_subscriber) { // outlives the lane
        m_subscriber->disconnect();
        m_subscriber->setNeeded(nullptr);
    }
}

void ClusterNode::laneStateChanged()
{
    if (!m_lane.isReady())
        return;
    const bool isAgain = std::exchange(m_wasReady, true) || m_hasFailed;
    m_hasFailed = false;
    if (std::exchange(m_isSilent, false))
        Q_EMIT silent(false);
    if (m_subscriber && isAgain)
        m_subscriber->reconnect(); // the cause may have cut it off, too
    runWaiting();
    if (isAgain)
        Q_EMIT readyAgain();
}

void ClusterNode::open()
{
    m_lane.open();
    if (m_subscriber && m_lane.isReady()) // otherwise laneStateChanged() continues
        m_subscriber->resume();
}

void ClusterNode::runWaiting()
{
    const auto waiting = std::exchange(m_waiting, {});
    for (const auto &action : waiting)
        action();
}

void ClusterNode::whenConnected(std::function<void()> action)
{
    if (m_lane.isReady() || m_hasFailed)
        return action();
    m_waiting.push_back(std::move(action));
    m_lane.open();
}

void ClusterNode::expectReply()
{
    if (!m_hasFailed && !m_isSilent && !m_silenceTimer.isActive())
        m_silenceTimer.start();
}

void ClusterNode::close()
{
    m_silenceTimer.stop();
    m_lane.disconnect(this);
    m_hasFailed = true;
    m_lane.closeReplaced(u"another node of the cluster has taken its slots over"_s);
    closeSubscriber();
    runWaiting();
    m_lane.flush(); // so that all of them end before this is destroyed
}

void ClusterNode::closeSubscriber()
{
    if (!m_subscriber)
        return;
    m_subscriber->disconnect(this);
    m_subscriber->close();
}

void ClusterNode::makeSubscriber()
{
    if (m_subscriber)
        return;
    m_subscriber = std::make_unique<QtRedis::Subscriber>(m_lane.server(), QtRedis::Subscriber::Sharded);
    QtRedis::Subscriber *const subscriber = m_subscriber.get();
    subscriber->setClientName(ClientName{m_clientId, {}}.toByteArray());
    subscriber->setNeeded([this] { return m_need().connection; });
    subscriber->setPingInterval(PingPace::Interval);
    subscriber->setPingDue([this](milliseconds sinceLast) {
        return PingPace::isDue(m_isWaitedAt() ? m_need().queuePosition : -1, sinceLast);
    });
    connect(subscriber, &QtRedis::Subscriber::pinged, &m_lane, &RedisLane::check);
    connect(subscriber, &QtRedis::Subscriber::messageReceived, this,
            [this](const QByteArray &, const QByteArray &payload) { Q_EMIT messageReceived(payload); });
    connect(subscriber, &QtRedis::Subscriber::subscribed, this, &ClusterNode::subscribed);
    connect(subscriber, &QtRedis::Subscriber::interrupted, this, [this] {
        m_lane.check(); // the cause may have interrupted the other connection, too
        Q_EMIT interrupted();
    });
    connect(subscriber, &QtRedis::Subscriber::movedAway, this, &ClusterNode::movedAway);
    // Operations that a message caused are sent now, not in the next turn of the event loop.
    connect(subscriber, &QtRedis::Subscriber::messagesProcessed, &m_lane, &RedisLane::flush);
    connect(subscriber, &QtRedis::Subscriber::readEnded, this, &ClusterNode::readEnded);
}

void ClusterNode::subscribe(const QByteArray &channel)
{
    makeSubscriber();
    m_subscriber->subscribe(channel);
}

void ClusterNode::resumeSubscriber()
{
    if (m_subscriber)
        m_subscriber->resume();
}

void ClusterNode::unsubscribe(const QByteArray &channel)
{
    if (m_subscriber)
        m_subscriber->unsubscribe(channel);
}

bool ClusterNode::isSubscribed(const QByteArray &channel) const
{
    return m_subscriber && m_subscriber->isSubscribed(channel);
}

bool ClusterNode::hasShardedChannels() const
{
    return m_subscriber && m_subscriber->isSharded();
}

void ClusterNode::checkSubscriber()
{
    if (m_subscriber)
        m_subscriber->check();
}

bool ClusterNode::isReading() const
{
    return m_lane.isReading() || (m_subscriber && m_subscriber->isReading());
}

} // namespace QDistLock
