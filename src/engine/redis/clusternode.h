// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/redis/redislane.h"

#include <QtCore/qobject.h>
#include <QtCore/qtimer.h>

#include <functional>
#include <memory>
#include <vector>

namespace QtRedis {
class Subscriber;
}

namespace QDistLock {

/*!
    One master of a cluster, as a client sees it: a lane for commands, and, once something must be listened to, a
    connection for messages on sharded channels, or plain ones before Redis 7.0. Connects when it is first used. Thread:
    the one it lives in.
*/
class ClusterNode : public QObject
{
    Q_OBJECT
public:
    /// \a server is the address of the node. \a need: what the locks need that it keeps. \a isWaitedAt: one of them is
    /// in a queue there. Both are asked from the event loop.
    ClusterNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
                std::function<LockEngine::Need()> need, std::function<bool()> isWaitedAt);
    ~ClusterNode() override;

    QtRedis::Endpoint endpoint() const { return m_lane.server().endpoint(); }
    RedisLane &lane() { return m_lane; }
    const RedisLane &lane() const { return m_lane; }
    /// The lane is Ready, or has not failed since it was Ready last.
    bool isUsable() const { return m_lane.isReady() || !m_hasFailed; }
    /// It is usable, and has replied to what it was sent more than a moment ago.
    bool isReplying() const { return isUsable() && !m_isSilent; }

    /// As LockEngine::open().
    void open();
    /// Calls \a action now if the lane is Ready, or has failed; otherwise when it is, or does.
    void whenConnected(std::function<void()> action);
    /// An operation is about to be sent: silent() is emitted if nothing arrives for half a second.
    void expectReply();
    /// Ends the connections: other nodes serve its slots now. Operations without a reply end as Failed.
    void close();

    /// Only the connection for messages.
    void closeSubscriber();

    void subscribe(const QByteArray &channel);
    /// As QtRedis::Subscriber::resume().
    void resumeSubscriber();
    void unsubscribe(const QByteArray &channel);
    bool isSubscribed(const QByteArray &channel) const;
    /// Only messages that were published at this node arrive, and only while it serves the slot. Before Redis 7.0
    /// channels are plain, and those of other nodes arrive, too.
    bool hasShardedChannels() const;
    /// Gives the subscriptions up unless the server replies.
    void checkSubscriber();
    bool isReading() const;

Q_SIGNALS:
    /// The lane is Ready again.
    void readyAgain();
    /// As RedisLane::failed().
    void failed();
    /// The node does not reply: perhaps another one has replaced it. \a isSilent is false when it replies again.
    void silent(bool isSilent);
    void messageReceived(const QByteArray &payload);
    /// As those of QtRedis::Subscriber.
    void subscribed(const QByteArray &channel);
    void interrupted();
    void movedAway(const QByteArray &channel);
    /// Everything that has arrived was processed.
    void readEnded();

private:
    void laneStateChanged();
    void runWaiting();
    void makeSubscriber();

    const QByteArray m_clientId;
    const std::function<LockEngine::Need()> m_need;
    const std::function<bool()> m_isWaitedAt;
    bool m_hasFailed = false;
    bool m_wasReady = false;
    bool m_isSilent = false;
    QTimer m_silenceTimer;
    std::vector<std::function<void()>> m_waiting;
    /// Destroyed after the lane, whose last commands are sent first.
    std::unique_ptr<QtRedis::Subscriber> m_subscriber;
    RedisLane m_lane;
};

} // namespace QDistLock
