// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/connection.h"

namespace QtRedis {

/*!
    A second connection, which only receives messages. Subscriptions outlive reconnections. A PING every `pingInterval`
    (default 10 s) detects a half-open connection: its reply must arrive before the next PING, and within 3 s at most.

    Sharded channels lie in a slot of a Redis Cluster, and only the node that serves the slot accepts and keeps
    subscriptions to them. If a server has none (before Redis 7.0), plain channels of the same names are used there: the
    subscription stays when the slot moves away, and messages from all nodes arrive.

    Thread: the one it lives in, with an event loop. No signal is emitted from inside a member function.
*/
class Subscriber : public QObject
{
    Q_OBJECT
public:
    enum Kind { Plain, Sharded };

    explicit Subscriber(const ServerUrl &server, QObject *parent = nullptr);
    Subscriber(const ServerUrl &server, Kind kind, QObject *parent = nullptr);
    ~Subscriber() override;

    /// The name of the connection is \a name + "-sub".
    void setClientName(const QByteArray &name);
    void setPingInterval(std::chrono::milliseconds interval);
    /// \a isDue is called once each interval: false omits the PING. \a sinceLast is the time since the last one.
    void setPingDue(std::function<bool(std::chrono::milliseconds sinceLast)> isDue);
    /// As Connection::setNeeded().
    void setNeeded(std::function<bool()> isNeeded);
    /// Connects if necessary, also after a permanent failure; but not at once for a further channel if the next attempt
    /// is due in some seconds. Calling it again does nothing more.
    void subscribe(const QByteArray &channel);
    /// Connects if nobody needed the connection when it was closed, or when a permanent failure ended it.
    void resume();
    /// subscribe() was called for it, and neither unsubscribe() nor close() since.
    bool hasChannel(const QByteArray &channel) const;
    /// For a subscriber of the kind Sharded.
    void unsubscribe(const QByteArray &channel);
    /// For a connection that may be lost: sends a PING, at most one every 3 s. If there is no reply within 3 s,
    /// interrupted() is emitted.
    void check();
    /// Makes the connection again, because the address may lead to another server by now, or because the login that was
    /// refused is not refused any more.
    void reconnect();
    /// As Connection::setServer(): no message of the former server is received any more.
    void setServer(const ServerUrl &server, const QString &reason);
    /// Ends the connection and forgets the channels.
    void close();

    /// The server has confirmed the subscription on the present connection.
    bool isSubscribed(const QByteArray &channel) const;
    /// The channels are sharded: as far as is known, the server has such.
    bool isSharded() const;
    /// As Connection::isReading().
    bool isReading() const;
    /// Why the connection is not Ready.
    QString errorString() const;

Q_SIGNALS:
    void subscribed(const QByteArray &channel);
    /// A PING was sent because the interval had passed.
    void pinged();
    /// The connection ended; nothing is subscribed until subscribed() is emitted again.
    void interrupted();
    /// The server's ACL forbids the subscription, and the server has never confirmed it before; it is not retried.
    void refused(const QByteArray &channel, const QString &errorString);
    /// This node does not serve the slot of a sharded channel, or no longer: the channel was forgotten.
    void movedAway(const QByteArray &channel);
    void messageReceived(const QByteArray &channel, const QByteArray &payload);
    /// messageReceived() has been emitted for all messages of one read.
    void messagesProcessed();
    /// As Connection::readEnded().
    void readEnded();

private:
    Q_DISABLE_COPY_MOVE(Subscriber)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
