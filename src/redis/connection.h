// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "failure.h"
#include "reply.h"
#include "script.h"
#include "serverurl.h"

#include <QtCore/qobject.h>

#include <chrono>
#include <functional>
#include <memory>

namespace QtRedis {

/// How one command ended. Exactly one of these for each command.
struct CommandResult
{
    enum Outcome : quint8 {
        Replied, ///< `reply` is what the server said, errors included
        NotSent, ///< the server never got it
        Unknown  ///< sent, but no reply came: it may have run, or may still run
    };
    Outcome outcome = NotSent;
    Reply reply;
    Failure failure = Failure::None;
    QString errorString; ///< names server and command, never an argument
};

/*!
    One connection to one Redis server, RESP2, pipelined: commands go out in the order of send() and
    are answered in that order.

    Handshake: AUTH, SELECT, CLIENT SETNAME, CLIENT ID, in one write. After a loss it connects again
    by itself with jittered back-off (10 ms doubling to 1 s, ± 50 %) until close(). After a permanent
    failure it is Disconnected, and tries again only while it is needed (1 s doubling to 10 s, ± 25 %),
    or after the next open(). On reconnecting it first ends its own former
    connection on the server (CLIENT LIST ID, and CLIENT KILL ID only if the entry bears our unique
    client name), so that commands lost with it cannot run later than those sent now; where an ACL
    forbids that it goes on without.

    Writing: the commands of one turn of the event loop share one write at its end; those sent by
    handlers are written right after the replies of that read.

    Thread: its own, with an event loop. Errors: values. Nothing blocks; no handler is called from
    inside a member function, each is called exactly once unless the connection is destroyed before,
    and a handler may delete the connection. A handler must not run an event loop. Error replies may
    repeat the user name or the password: only server().shown() of them is fit for logs and errors.
*/
class Connection : public QObject
{
    Q_OBJECT
public:
    enum State { Disconnected, Connecting, Ready };
    Q_ENUM(State)

    using Handler = std::function<void(const CommandResult &)>;
    using PushHandler = std::function<void(const Reply &)>;

    explicit Connection(const ServerUrl &server, QObject *parent = nullptr);
    /// Calls no handler. Commands already passed to send() still reach a server that answers; see LingeringConnection.
    ~Connection() override;

    /// Unique on the server; given with CLIENT SETNAME at each handshake. Printable ASCII without
    /// spaces.
    void setClientName(const QByteArray &name);
    /// For connecting and for the handshake together. Default 3 s.
    void setConnectTimeout(std::chrono::milliseconds timeout);

    /// Asked from the event loop after a permanent failure, and before each attempt that follows: whether to try
    /// again without an open(). Without this function it does not.
    void setNeeded(std::function<bool()> isNeeded);

    /// Starts connecting from the event loop, unless it is connecting or Ready.
    void open();
    /// Writes what was sent to the kernel and ends the connection; what is unanswered ends Unknown.
    void close();
    /// Where the address may lead to another server by now: ends the connection as a Failure::Server, or the
    /// attempt to connect, from the event loop, after the replies that have arrived; and connects again with
    /// back-off. \a reason is a clause for errorString(). Does nothing where there is no connection.
    void reconnect(const QString &reason);

    State state() const;
    Failure failure() const;
    /// Why it is not Ready; names the server, never its password.
    QString errorString() const;
    const ServerUrl &server() const;

    /// Only while Ready is a command sent; otherwise it ends NotSent. When \a timeout passes
    /// without the reply the whole connection is given up (a pipelined stream cannot skip a reply)
    /// and made anew.
    void send(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout,
              Handler handler);
    /// EVALSHA, and once EVAL after NOSCRIPT, within the same \a timeout. The EVAL runs after what
    /// was sent in between. \a script must outlive the connection.
    void sendScript(const Script &script, const QList<QByteArray> &keys,
                    const QList<QByteArray> &arguments, std::chrono::milliseconds timeout,
                    Handler handler);
    /// Collects what is sent from now on until flush().
    void cork();
    /// Writes what was sent so far now instead of at the end of this turn.
    void flush();
    /// True while handlers are called; repliesProcessed() follows.
    bool isDelivering() const;
    /// Pub/sub messages, and replies that answer no pending command, go here; without a handler
    /// they are a protocol failure.
    void setPushHandler(PushHandler handler);

Q_SIGNALS:
    void stateChanged();
    /// One connect attempt failed or the connection ended. failure() and errorString() tell.
    void failed();
    /// The handlers of one read, or of one loss, have all been called. What is sent in here shares
    /// the write with what they sent.
    void repliesProcessed();

private:
    Q_DISABLE_COPY_MOVE(Connection)
    class Private;
    std::unique_ptr<Private> d;
};

} // namespace QtRedis
