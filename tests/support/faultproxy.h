// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qstring.h>
#include <QtCore/qurl.h>

#include <chrono>
#include <memory>

namespace Support {

class RedisServer;

/*!
    A bad network between a client and a Redis server: a TCP proxy that knows RESP2. It runs in a
    thread of its own, so it works while the test's event loop is blocked on purpose.

    Conditions hold until changed, for existing and new connections. Faults are armed for one
    command each: the \a nth one named \a command (any, if empty; case does not matter) that arrives
    from now on. What is no RESP (TLS) is passed on as bytes: conditions apply, faults and counts do
    not. MONITOR and CLIENT REPLY OFF are not understood.

    Thread-safe. Every control method has taken effect when it returns.
*/
class FaultProxy
{
public:
    explicit FaultProxy(const RedisServer &server);
    explicit FaultProxy(const QString &socketPath);
    explicit FaultProxy(quint16 serverPort);
    ~FaultProxy();

    bool isListening() const;
    quint16 port() const;
    QUrl url() const; ///< redis://127.0.0.1:port

    void setLatency(std::chrono::microseconds toServer, std::chrono::microseconds toClient);
    /// Each way and for each connection; 0 = unlimited.
    void setBandwidth(qint64 bytesPerSecond);
    /// Replies arrive in random pieces of 1 to \a largest bytes; 0 = as they come.
    void setSlicing(int largest);
    /// Connections there are now swallow everything, both ways and for ever, and the server does
    /// not learn of their end. New ones are accepted and swallowed while it is on.
    void setBlackHole(bool on);
    /// Nothing passes; all of it does once this is off again. As packet loss that heals.
    void setHeld(bool on);
    /// The same for replies only: the server goes on.
    void setRepliesHeld(bool on);
    /// New connections go to \a server, as after a fail-over behind one address; those there are stay.
    void setServer(const RedisServer &server);
    void setServer(quint16 port);
    /// Connecting is refused.
    void setRefusing(bool on);
    /// All conditions off, all armed faults forgotten. Swallowed connections stay dead.
    void heal();

    /// RST to the client, FIN to the server.
    void resetAll();
    /// FIN to both.
    void closeAll();

    /// RST; the server never sees the command.
    void cutBefore(const QByteArray &command = {}, int nth = 1);
    /// RST; the server has run the command, its reply is lost.
    void cutAfter(const QByteArray &command = {}, int nth = 1);
    /// Its reply, and all later ones on that connection, never arrive; the connection stays.
    void dropReply(const QByteArray &command = {}, int nth = 1);
    /// The server never sees the command; the client gets \a reply ("-LOADING …\r\n"). Done \a
    /// times times.
    void answer(const QByteArray &reply, const QByteArray &command = {}, int nth = 1,
                int times = 1);

    /// Armed faults that have happened, since construction.
    int faultsDone() const;
    bool waitForFaults(int count,
                       std::chrono::milliseconds timeout = std::chrono::seconds(10)) const;

    /// Commands passed on to the server, since construction.
    qint64 commandsForwarded(const QByteArray &command = {}) const;
    bool waitForCommands(qint64 count, const QByteArray &command = {},
                         std::chrono::milliseconds timeout = std::chrono::seconds(10)) const;
    /// Replies and pushes passed on to the clients, since construction.
    qint64 repliesForwarded() const;
    qint64 connectionsAccepted() const;
    int connections() const;

private:
    Q_DISABLE_COPY_MOVE(FaultProxy)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace Support
