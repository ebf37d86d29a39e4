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
    A bad network between a client and a Redis server: a TCP proxy that parses RESP2. It runs in a separate thread, so
    that it works while the test blocks its event loop.

    Conditions last until they are changed, for existing and new connections. Each fault affects one command: the \a nth
    one named \a command (any, if empty; case does not matter) that arrives after the call. Bytes that are not RESP
    (TLS) are passed on: conditions apply to them, faults and counts do not. MONITOR and CLIENT REPLY OFF are not
    supported.

    Thread-safe. Each function has taken effect when it returns.
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
    /// In each direction, for each connection; 0 = unlimited.
    void setBandwidth(qint64 bytesPerSecond);
    /// Replies arrive in random pieces of 1 to \a largest bytes; 0 = unchanged.
    void setSlicing(int largest);
    /// The present connections discard everything, in both directions and for ever, and the server does not notice when
    /// they end. New connections are accepted and treated so while this is on.
    void setBlackHole(bool on);
    /// Nothing passes until this is off again; then everything does. As temporary packet loss.
    void setHeld(bool on);
    /// The same for replies only; the server still gets commands.
    void setRepliesHeld(bool on);
    /// New connections lead to \a server, as after a fail-over behind one address; present connections stay.
    void setServer(const RedisServer &server);
    void setServer(quint16 port);
    /// Connecting is refused.
    void setRefusing(bool on);
    /// Switches off all conditions and faults. Connections that a black hole has taken stay dead.
    void heal();

    /// RST to the client, FIN to the server.
    void resetAll();
    /// FIN to both.
    void closeAll();

    /// RST; the server does not get the command.
    void cutBefore(const QByteArray &command = {}, int nth = 1);
    /// RST; the server has executed the command, and its reply is lost.
    void cutAfter(const QByteArray &command = {}, int nth = 1);
    /// Its reply, and all later ones on that connection, never arrive; the connection stays up.
    void dropReply(const QByteArray &command = {}, int nth = 1);
    /// The server does not get the command; the client gets \a reply ("-LOADING …\r\n"). Applies to \a times commands.
    void answer(const QByteArray &reply, const QByteArray &command = {}, int nth = 1, int times = 1);

    /// Number of faults that have happened since construction.
    int faultsDone() const;
    bool waitForFaults(int count, std::chrono::milliseconds timeout = std::chrono::seconds(60)) const;

    /// Commands passed on to the server, since construction.
    qint64 commandsForwarded(const QByteArray &command = {}) const;
    bool waitForCommands(qint64 count, const QByteArray &command = {},
                         std::chrono::milliseconds timeout = std::chrono::seconds(60)) const;
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
