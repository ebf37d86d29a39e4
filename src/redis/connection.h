// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/failure.h"
#include "redis/reply.h"
#include "redis/script.h"
#include "redis/serverurl.h"

#include <QtCore/qobject.h>

#include <chrono>
#include <functional>
#include <memory>

namespace QtRedis {

/// How a command ended. Every command has exactly one result.
struct CommandResult
{
    enum Outcome : quint8 {
        Replied, ///< see `reply`, which may be an error
        NotSent, ///< the server has not received it
        Unknown  ///< sent, but without a reply: the server may have executed it, or may still do so
    };
    Outcome outcome = NotSent;
    Reply reply;
    Failure failure = Failure::None;
    QString errorString; ///< names server and command, never an argument
};

/*!
    One pipelined RESP2 connection to one Redis server: commands are sent in the order of send(), and replies arrive in
    the same order.

    Handshake: AUTH, SELECT, CLIENT SETNAME, CLIENT ID, in one write, ROLE if the server must be the master of a
    service: a replica is a Failure::Server; and CLUSTER MYID, see setClusterId(). When the connection is lost, or a
    command is answered with NOAUTH, it is made again with jittered back-off (10 ms doubling to 1 s, ± 50 %) until
    close(). After a permanent failure it is Disconnected, and is made again only while it is needed (1 s doubling to
    10 s, ± 25 %), or after the next open().
    The other side may close a connection on which nobody waits for a reply, as servers and proxies with an idle limit
    do. That is no failure: it is made again if it is needed, and otherwise by the next open(). failed() is emitted only
    if that takes more than a second or so.
    The handshake of a new connection ends the former one on the server (CLIENT LIST ID, and CLIENT KILL ID only if the
    entry has our unique client name), so that commands lost with it cannot run after those sent now. An ACL may forbid
    that.

    Writing: the commands of one event loop turn share one write at its end; those sent by handlers are written right
    after the replies of that read.

    Thread: the one it lives in, with an event loop. Errors: values. Nothing blocks. No handler is called from inside a
    member function; each is called exactly once unless the connection is destroyed before. A handler may delete the
    connection, but must not run an event loop. Error replies may repeat the user name or the password: only
    server().shown() makes them fit for logs and errors.
*/
class Connection : public QObject
{
    Q_OBJECT
public:
    enum State { Disconnected, Connecting, Ready };
    Q_ENUM(State)

    using Handler = std::function<void(const CommandResult &)>;
    using PushHandler = std::function<void(const Reply &)>;
    /// Gets a reply, and returns the commands to send next.
    using Farewell = std::function<QList<QList<QByteArray>>(const Reply &)>;

    explicit Connection(const ServerUrl &server, QObject *parent = nullptr);
    /// Calls no handler. Commands already passed to send() still reach a server that answers; see LingeringConnection.
    ~Connection() override;

    /// Sent with CLIENT SETNAME in each handshake. It must be unique on the server: printable ASCII without spaces.
    void setClientName(const QByteArray &name);
    /// \a idOf is called at each handshake: unless it returns nothing, another node of a Redis Cluster than the one
    /// with this id (CLUSTER MYID) is a Failure::Server. An ACL may forbid that question.
    void setClusterId(std::function<QByteArray()> idOf);
    /// Limits connecting and the handshake together. Default: 3 s.
    void setConnectTimeout(std::chrono::milliseconds timeout);

    /// \a isNeeded is called from the event loop after a permanent failure and before each attempt that follows: true
    /// makes the next attempt without an open(). Without this function there is none. It is also called when the other
    /// side has closed an idle connection, which counts as needed without this function.
    void setNeeded(std::function<bool()> isNeeded);

    /// Starts connecting from the event loop, unless the connection is connecting or Ready. If the other side has
    /// closed it while it was idle, it is no longer Ready after this call, even if the event loop has not noticed yet.
    void open();
    /// Connecting, and nothing has failed yet: a command may wait until it is Ready, or has failed.
    bool isComing() const;
    /// Writes the commands sent so far to the kernel and ends the connection; those without a reply end Unknown.
    void close();
    /// For an address that may lead to another server by now: after the replies that have arrived, ends the connection,
    /// or the attempt to connect, as a Failure::Server from the event loop, and connects again with back-off. \a reason
    /// is a clause for errorString(). Does nothing if there is no connection.
    void reconnect(const QString &reason);
    /// Ends the present connection before anything else is sent, and connects to \a server: commands without a reply
    /// end Unknown, and failed() is emitted from the event loop, because \a reason. If the address of \a server is not
    /// known (see ServerUrl::sentinels), the connection stays Connecting until the next call.
    void setServer(const ServerUrl &server, const QString &reason);

    State state() const;
    Failure failure() const;
    /// Why the connection is not Ready; names the server, never its password.
    QString errorString() const;
    const ServerUrl &server() const;
    /// The number that the server has given to this connection (CLIENT ID); 0 if there is none, or it is not known.
    qint64 id() const;

    /// Unless the connection is Ready, the command ends NotSent. If there is no reply within \a timeout, the whole
    /// connection is ended, because a pipelined stream cannot skip a reply, and made again. Without a \a handler nobody
    /// waits for the reply.
    void send(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout, Handler handler);
    /// Sends EVALSHA and, after NOSCRIPT, EVAL, within the same \a timeout. The EVAL runs after the commands that were
    /// sent in between. \a script must outlive the connection.
    void sendScript(const Script &script, const QList<QByteArray> &keys, const QList<QByteArray> &arguments,
                    std::chrono::milliseconds timeout, Handler handler);
    /// Before the destruction: sends \a commands, and \a answer continues with each reply to these and to the commands
    /// that it returns, as long as LingeringConnection waits for replies. It is called after the destruction, perhaps
    /// without an event loop. Unless the connection is Ready, nothing happens.
    void setFarewell(const QList<QList<QByteArray>> &commands, Farewell answer);
    /// Collects the commands sent from now on until flush().
    void cork();
    /// Writes the commands sent so far at once instead of at the end of this event loop turn.
    void flush();
    /// Refused, as by a changed password, and tried again in some seconds without open(), which would not wait.
    bool isRetryingSlowly() const;
    /// True while handlers are called; repliesProcessed() follows.
    bool isDelivering() const;
    /// For replies.
    bool isWaiting() const;
    /// True from the first handler that is called after bytes have arrived; readEnded() follows.
    bool isReading() const;
    /// Receives pub/sub messages and unexpected replies; without a handler these are a protocol failure.
    void setPushHandler(PushHandler handler);

Q_SIGNALS:
    void stateChanged();
    /// An attempt to connect failed, or the connection ended while it was in use; see failure() and errorString().
    void failed();
    /// All handlers of one read, or of a lost connection, have been called. Commands sent by a slot share the write of
    /// those that the handlers sent.
    void repliesProcessed();
    /// Everything that has arrived was processed, and the commands sent meanwhile are written. A slot may run an event
    /// loop, or destroy the connection.
    void readEnded();

private:
    Q_DISABLE_COPY_MOVE(Connection)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
