// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qurl.h>

#include <functional>
#include <memory>

namespace Support {

/*!
    A Redis server whose replies the test chooses, malformed and endless ones included. Runs in a separate thread.

    Login commands are answered as by a real server: AUTH, SELECT and CLIENT SETNAME with OK, CLIENT ID with the
    connection's number, CLIENT LIST with nothing, CLIENT KILL with 0, PING with PONG; unless setAnswersLogin(false).
    All other input is passed to the handler, even if it is no command.
    Thread-safe.
*/
class FakeServer
{
public:
    struct Answer
    {
        QByteArray bytes;        ///< empty = no reply
        QByteArray endless = {}; ///< sent after that for as long as the client reads
        bool close = false;      ///< closes the connection after that
    };
    /// Called in the server's thread, for \a connection 1, 2, ….
    using Handler = std::function<Answer(const QList<QByteArray> &arguments, int connection)>;

    /// Listens at once; the handler replies to everything with \a bytes.
    explicit FakeServer(const QByteArray &bytes = QByteArrayLiteral("+OK\r\n"));
    /// \a port 0: a free one.
    explicit FakeServer(Handler handler, quint16 port = 0);
    ~FakeServer();

    bool isListening() const;
    quint16 port() const;
    QUrl url() const; ///< redis://127.0.0.1:port

    void setHandler(Handler handler);
    void setAnswersLogin(bool on);
    /// Sent to each client when it has connected, before it sends a command.
    void setGreeting(const Answer &greeting);

    /// Sends \a bytes to every connected client, or only to \a connection.
    void push(const QByteArray &bytes, int connection = 0);
    void closeAll();

    /// All commands received, without logins.
    QList<QList<QByteArray>> commands() const;
    int connectionsAccepted() const;
    int connections() const;
    /// Bytes that the kernel has accepted for the clients: how much of an endless reply was read.
    qint64 bytesSent() const;

private:
    Q_DISABLE_COPY_MOVE(FakeServer)
    class Private;
    std::unique_ptr<Private> d;
};

/*!
    A port on which connecting neither succeeds nor fails, because its packets are not answered, as behind a firewall.
    (The backlog of a listener that never accepts is full.)
*/
class UnansweredPort
{
public:
    UnansweredPort();
    ~UnansweredPort();

    bool isValid() const;
    quint16 port() const { return m_port; }
    QUrl url() const; ///< redis://127.0.0.1:port

private:
    Q_DISABLE_COPY_MOVE(UnansweredPort)
    quint16 m_port = 0;
    int m_listener = -1;
    QList<int> m_fillers;
};

} // namespace Support
