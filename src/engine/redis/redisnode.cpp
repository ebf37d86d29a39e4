// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/redisnode.h"

#include "engine/protocolconstants.h"
#include "engine/redis/clientname.h"
#include "engine/redis/noticemessage.h"
#include "engine/redis/pingpace.h"

#include "base/leaseclock.h"

#include <algorithm>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

RedisNode::RedisNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
                     Callbacks callbacks, QtRedis::Subscriber::Kind kind)
    : m_clientId(clientId)
    , m_channel(Protocol::Channels + clientId)
    , m_kind(kind)
    , m_clock(clock)
    , m_callbacks(std::move(callbacks))
    , m_subscriber(server, kind)
    , m_monitorChannel(&m_subscriber, clientId)
    , m_lane(server, clock, clientId, m_callbacks.needConnection)
{
    m_subscriber.setClientName(ClientName{clientId, {}}.toByteArray());
    m_subscriber.setNeeded([this] { return m_lane.isNeeded(); });
    m_subscriber.setPingInterval(PingPace::Interval);
    m_subscriber.setPingDue(
            [this](milliseconds sinceLast) { return PingPace::isDue(m_callbacks.queuePosition(), sinceLast); });
    connect(&m_lane, &RedisLane::stateChanged, this, &RedisNode::laneStateChanged);
    connect(&m_lane, &RedisLane::failed, this, [this] { m_hasFailed = true; });
    connect(&m_lane, &RedisLane::plainChanged, this, &RedisNode::wakeableChanged);
    // The waiter was not notified. Perhaps messages no longer arrive, so that each release takes it for dead.
    connect(&m_lane, &RedisLane::waiterPolled, &m_subscriber, &QtRedis::Subscriber::check);
    if (kind == QtRedis::Subscriber::Plain)
        connect(&m_lane, &RedisLane::replied, this, &RedisNode::listen);
    // While it waits, a lock sends nothing on the other connection.
    connect(&m_subscriber, &QtRedis::Subscriber::pinged, &m_lane, &RedisLane::check);
    connect(&m_subscriber, &QtRedis::Subscriber::messageReceived, this, &RedisNode::processMessage);
    connect(&m_subscriber, &QtRedis::Subscriber::subscribed, this, [this](const QByteArray &channel) {
        if (channel != m_monitorChannel.name())
            Q_EMIT wakeableChanged();
    });
    connect(&m_subscriber, &QtRedis::Subscriber::interrupted, this, [this] {
        m_lane.check(); // the cause may have interrupted the other connection, too
        Q_EMIT wakeableChanged();
    });
    // Operations that a message caused are sent now, not in the next turn of the event loop.
    connect(&m_subscriber, &QtRedis::Subscriber::messagesProcessed, &m_lane, &RedisLane::flush);
}

RedisNode::~RedisNode()
{
    m_lane.disconnect(this);
    m_subscriber.disconnect(); // outlives the lane
    m_subscriber.setNeeded(nullptr);
}

void RedisNode::setIndex(int index)
{
    m_lane.setNode(index);
    m_subscriber.setClientName(ClientName{m_clientId, {}}.toByteArray() + '-' + QByteArray::number(index));
}

void RedisNode::open()
{
    m_lane.open();
    if (m_lane.isReady()) // otherwise laneReady() continues
        m_subscriber.resume();
}

void RedisNode::setServer(const QtRedis::ServerUrl &server, const QString &reason)
{
    m_hasMoved = true;
    m_lane.setServer(server, reason);
    m_subscriber.setServer(server, reason);
}

void RedisNode::listen()
{
    if (!std::exchange(m_isListening, true))
        m_subscriber.subscribe(m_channel);
}

void RedisNode::laneStateChanged()
{
    if (!m_lane.isReady())
        return;
    const bool hasFailed = std::exchange(m_hasFailed, false);
    laneReady(std::exchange(m_wasReady, true) || hasFailed);
}

void RedisNode::laneReady(bool isAgain)
{
    // The cause may have cut it off, too; or it still leads to a server that was demoted.
    if (!std::exchange(m_hasMoved, false) && isAgain)
        m_subscriber.reconnect();
    if (m_isListening) // after a permanent failure it waits for this
        m_subscriber.subscribe(m_channel);
}

void RedisNode::processMessage(const QByteArray &channel, const QByteArray &payload)
{
    if (channel == m_monitorChannel.name())
        return;
    const auto message = NoticeMessage::parse(payload);
    if (!message)
        return; // anybody may publish on the channel
    // Otherwise the lock would stay with a waiter that no longer exists, until its time to claim it has passed.
    if (message->notice == LockEngine::Grant)
        m_lane.served(message->sequence);
    // A grant on a plain channel may come from another node of a cluster, which found nobody subscribed there, and
    // revoked it.
    const bool isProof = m_callbacks.waiterOf && m_subscriber.isSharded() == (m_kind == QtRedis::Subscriber::Sharded);
    const auto waiter = isProof ? m_callbacks.waiterOf(message->sequence) : std::nullopt;
    if (const auto handover = message->handover(waiter, m_lane.serverClock(), m_clock->now()))
        Q_EMIT handedOver(*handover);
    else
        Q_EMIT noticed(message->notice, message->sequence, std::max(message->delay, 0ms));
}

} // namespace QDistLock
