// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/redis/redisnode.h"

#include <QtCore/qtimer.h>

#include <functional>
#include <vector>

namespace QDistLock {

/// One master of a cluster. Its subscriber listens to sharded channels, or plain ones before Redis 7.0. Thread: the one
/// it lives in.
class ClusterNode : public RedisNode
{
    Q_OBJECT
public:
    /// \a server is the address of the node.
    ClusterNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
                Callbacks callbacks);
    ~ClusterNode() override;

    QtRedis::Endpoint endpoint() const { return lane().server().endpoint(); }
    /// The lane is Ready, or has not failed since it was Ready last.
    bool isUsable() const { return lane().isReady() || !m_hasFailed; }
    /// It is usable, and has replied to what it was sent more than a moment ago.
    bool isReplying() const { return isUsable() && !m_isSilent; }

    /// Calls \a action now if the lane is Ready, or has failed; otherwise when it is, or does.
    void whenConnected(std::function<void()> action);
    /// An operation is about to be sent: silent() is emitted if nothing arrives for half a second.
    void expectReply();
    /// Ends the connections: other nodes serve its slots now. Operations without a reply end as Failed.
    void close();
    /// Only the connection for messages.
    void closeSubscriber();

Q_SIGNALS:
    /// The lane is Ready again.
    void readyAgain();
    /// As RedisLane::failed().
    void failed();
    /// The node does not reply: perhaps another one has replaced it. \a isSilent is false when it replies again.
    void silent(bool isSilent);

protected:
    void laneReady(bool isAgain) override;

private:
    void runWaiting();

    bool m_isSilent = false;
    QTimer m_silenceTimer;
    std::vector<std::function<void()>> m_waiting;
};

} // namespace QDistLock
