// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/redis/monitorchannel.h"
#include "engine/redis/redislane.h"

#include "redis/subscriber.h"

#include <functional>
#include <optional>

namespace QDistLock {

/*!
    One Redis server, as a client sees it: a lane for commands, and another connection for the messages to this client.
    Both connect when they are first used.

    A plain subscriber listens to the channel of this client once the server has executed a command, so that the first
    lock does not wait for a second connection. A sharded one, for a node of a cluster, listens to what its owner
    subscribes to. Thread: the one it lives in.
*/
class RedisNode : public QObject
{
    Q_OBJECT
public:
    /// The node calls these, from the event loop, to ask its owner about the locks that this server keeps.
    struct Callbacks
    {
        std::function<bool()> needConnection;
        std::function<int()> queuePosition; ///< as LockEngine::Need::queuePosition
        /// As LockEngine::waiterOf(). Null: no message proves a hand-over.
        std::function<std::optional<LockEngine::Waiter>(quint64 sequence)> waiterOf = nullptr;
    };

    /// \a clock is not owned.
    RedisNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
              Callbacks callbacks, QtRedis::Subscriber::Kind kind = QtRedis::Subscriber::Plain);
    ~RedisNode() override;

    RedisLane &lane() { return m_lane; }
    const RedisLane &lane() const { return m_lane; }
    QtRedis::Subscriber &subscriber() { return m_subscriber; }
    const QtRedis::Subscriber &subscriber() const { return m_subscriber; }

    /// Before open(): this is server \a index of a quorum, see ClientName::node.
    void setIndex(int index);
    /// As LockEngine::open().
    void open();
    /// As QtRedis::Connection::setServer(), for both connections.
    void setServer(const QtRedis::ServerUrl &server, const QString &reason);
    /// The lane has not reached the server of setServer() yet.
    bool hasMoved() const { return m_hasMoved; }
    /// The server has executed a command, over whatever connection: listens to the channel of this client.
    void listen();
    /// For a plain subscriber.
    MonitorChannel &monitorChannel() { return m_monitorChannel; }
    /// As LockEngine::canBeWoken(), for a plain subscriber; false for a sharded one.
    bool canBeWoken() const { return m_subscriber.isSubscribed(m_channel) && !m_lane.isPlain(); }
    bool isReading() const { return m_lane.isReading() || m_subscriber.isReading(); }

Q_SIGNALS:
    // As those of LockEngine, for what a message says.
    void noticed(QDistLock::LockEngine::Notice notice, quint64 sequence, std::chrono::milliseconds ms);
    void handedOver(const QDistLock::LockEngine::Handover &handover);
    /// The result of canBeWoken() may have changed.
    void wakeableChanged();

protected:
    /// The lane is Ready. \a isAgain: it was before, or has failed.
    virtual void laneReady(bool isAgain);

    bool m_hasFailed = false; ///< since the lane was Ready last

private:
    void laneStateChanged();
    void processMessage(const QByteArray &channel, const QByteArray &payload);

    const QByteArray m_clientId;
    const QByteArray m_channel; ///< messages to this client are published there
    const QtRedis::Subscriber::Kind m_kind;
    const LeaseClock *const m_clock;
    const Callbacks m_callbacks;
    bool m_wasReady = false;
    bool m_hasMoved = false;
    bool m_isListening = false;
    QtRedis::Subscriber m_subscriber; ///< destroyed after the lane, whose last commands are sent first
    MonitorChannel m_monitorChannel;
    RedisLane m_lane;
};

} // namespace QDistLock
