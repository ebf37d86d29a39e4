// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "failure.h"
#include "serverurl.h"

#include <QtCore/qobject.h>

#include <chrono>
#include <memory>

namespace QtRedis {

/*!
    A byte stream to one server: TCP, TLS or a Unix socket. Used once: after failed() make a new
    one.

    Thread: its own, with an event loop. Nothing blocks. write() and abort() emit nothing.
*/
class Transport : public QObject
{
    Q_OBJECT
public:
    /// \a timeOuts: how many attempts ran out of time since one was refused. A server of several addresses is
    /// then tried at another one.
    static std::unique_ptr<Transport> create(const ServerUrl &server, int timeOuts = 0);

    /// May emit connected() or failed() at once.
    virtual void connectToServer() = 0;
    /// Hands the bytes to the kernel; what it does not take is written when it can be.
    virtual void write(const char *data, qint64 size) = 0;
    /// What has arrived, at most \a size bytes; 0 if nothing.
    virtual qint64 read(char *data, qint64 size) = 0;
    /// What was written and the kernel has not yet taken is lost.
    virtual void abort() = 0;
    /// After fork(), in the child: closes its copy of the socket, and the parent's connection goes on as it is.
    virtual void disown() = 0;
    /// For a thread in which no event loop runs any more: blocks until something arrives or the kernel takes more of
    /// what was written, for \a atMost. Emits readyRead(). False once the connection has ended.
    virtual bool wait(std::chrono::milliseconds atMost) = 0;
    /// What has not happened yet before connected(): a clause that "within 3000 ms" can follow.
    virtual QString pendingStep() const = 0;

Q_SIGNALS:
    /// Ready for bytes; with TLS after its handshake.
    void connected();
    void readyRead();
    /// Never connected, or the connection ended. \a text: a clause without the server's name.
    void failed(QtRedis::Failure failure, const QString &text);
};

} // namespace QtRedis
