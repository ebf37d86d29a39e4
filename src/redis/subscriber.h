// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "connection.h"

namespace QtRedis {

/*!
    A second connection that only listens. Subscriptions outlive reconnects. A half-open connection
    is found by a PING every `pingInterval` (default 10 s) that must be answered within the next, within
    3 s at most.
    Thread: its own, with an event loop. No signal is emitted from inside a member function.
*/
class Subscriber : public QObject
{
    Q_OBJECT
public:
    explicit Subscriber(const ServerUrl &server, QObject *parent = nullptr);
    ~Subscriber() override;

    /// The connection bears \a name + "-sub".
    void setClientName(const QByteArray &name);
    void setPingInterval(std::chrono::milliseconds interval);
    /// Asked once each interval, with the time since the last PING: whether to send one. Without it always.
    void setPingDue(std::function<bool(std::chrono::milliseconds sinceLast)> isDue);
    /// As Connection::setNeeded().
    void setNeeded(std::function<bool()> isNeeded);
    /// Connects when needed, after a permanent failure too; asking twice does nothing.
    void subscribe(const QByteArray &channel);
    /// There is reason to doubt that the connection still stands: asks the server now, if it was not asked
    /// within the last seconds. interrupted() comes if it does not answer within as many.
    void check();
    /// Makes the connection again: the address may lead to another server by now.
    void reconnect();
    /// Ends the connection and forgets the channels.
    void close();

    /// The server has confirmed it on the connection that stands now.
    bool isSubscribed(const QByteArray &channel) const;
    /// Why it is not connected.
    QString errorString() const;

Q_SIGNALS:
    void subscribed(const QByteArray &channel);
    /// A PING was sent because its time had come.
    void pinged();
    /// The connection ended; nothing is subscribed until subscribed() comes again.
    void interrupted();
    /// The server refuses this subscription (ACL), and never confirmed it; it is not tried again.
    void refused(const QByteArray &channel, const QString &errorString);
    void messageReceived(const QByteArray &channel, const QByteArray &payload);
    /// All messages of one read were told.
    void messagesProcessed();

private:
    Q_DISABLE_COPY_MOVE(Subscriber)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
