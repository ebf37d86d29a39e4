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
    A Redis server that says what the test wants, malformed and endless replies included. Runs in a
    thread of its own.

    A login is answered as a server would: AUTH, SELECT and CLIENT SETNAME with OK, CLIENT ID with
    the connection's number, CLIENT LIST with nothing, CLIENT KILL with 0, PING with PONG; unless
    setAnswersLogin(false). All else, and what is no command, goes to the handler.
    Thread-safe.
*/
class FakeServer
{
public:
    struct Answer
    {
        QByteArray bytes;        ///< nothing = no answer
        QByteArray endless = {}; ///< then this, for as long as the client takes it
        bool close = false;      ///< then end the connection
    };
    /// Called in the server's thread, for \a connection 1, 2, ….
    using Handler = std::function<Answer(const QList<QByteArray> &arguments, int connection)>;

    /// Listens at once; the handler answers everything with \a bytes.
    explicit FakeServer(const QByteArray &bytes = QByteArrayLiteral("+OK\r\n"));
    explicit FakeServer(Handler handler);
    ~FakeServer();

    bool isListening() const;
    quint16 port() const;
    QUrl url() const; ///< redis://127.0.0.1:port

    void setHandler(Handler handler);
    void setAnswersLogin(bool on);
    /// Sent on accepting, before anything is asked.
    void setGreeting(const Answer &greeting);

    /// To every client there is, unasked.
    void push(const QByteArray &bytes);
    void closeAll();

    /// All commands there were, logins left out.
    QList<QList<QByteArray>> commands() const;
    int connectionsAccepted() const;
    int connections() const;
    /// Taken by the kernel for the clients: how much of an endless answer was read.
    qint64 bytesSent() const;

private:
    Q_DISABLE_COPY_MOVE(FakeServer)
    class Private;
    std::unique_ptr<Private> d;
};

/*!
    A port on which connecting neither succeeds nor fails: its packets go unanswered, as those to a
    host behind a firewall. (Full backlog of a listener that never accepts.)
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
