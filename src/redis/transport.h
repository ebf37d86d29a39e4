// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/failure.h"
#include "redis/serverurl.h"

#include <QtCore/qobject.h>

#include <chrono>
#include <memory>

namespace QtRedis {

/*!
    A byte stream to one server over TCP, TLS or a Unix socket. It is used once: after failed() another one must be
    made.

    Thread: the one it lives in, with an event loop. Nothing blocks. write(), isClosed() and abort() emit nothing.
*/
class Transport : public QObject
{
    Q_OBJECT
public:
    /// \a misses: how often the host name has not led to a server that can be used. Unless it is 0, the name is
    /// resolved afresh, and this chooses which of several addresses is tried first.
    static std::unique_ptr<Transport> create(const ServerUrl &server, int misses = 0);

    /// May emit connected() or failed() at once.
    virtual void connectToServer() = 0;
    /// Bytes that the kernel does not accept at once are written later.
    virtual void write(const char *data, qint64 size) = 0;
    /// Reads at most \a size bytes that have arrived; returns 0 if there are none.
    virtual qint64 read(char *data, qint64 size) = 0;
    /// The peer has closed the connection; perhaps the event loop has not noticed yet. False where that is not known.
    virtual bool isClosed() const = 0;
    /// Closes the socket at once; bytes that the kernel has not accepted are lost.
    virtual void abort() = 0;
    /// For the child after fork(): closes its copy of the socket without any effect on the parent's connection.
    virtual void disown() = 0;
    /// For a thread whose event loop has ended: blocks, for \a atMost, until bytes arrive or the kernel accepts more.
    /// Emits readyRead(). False once the connection has ended.
    virtual bool wait(std::chrono::milliseconds atMost) = 0;
    /// Whether a slot of readyRead() may destroy the transport, or run an event loop.
    virtual bool isReentrant() const { return false; }
    /// The step that is missing before connected(): a clause that "within 3000 ms" can follow.
    virtual QString pendingStep() const = 0;

Q_SIGNALS:
    /// Bytes can be written; with TLS its handshake has ended.
    void connected();
    void readyRead();
    /// The attempt to connect failed, or the connection ended. \a text is a clause without the server's name.
    void failed(QtRedis::Failure failure, const QString &text);
};

} // namespace QtRedis
