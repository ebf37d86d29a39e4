// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "resp.h"

#include <QtCore/qstring.h>

#include <chrono>

namespace Support {

/*!
    A client that shares no code with the tested library. It blocks on a plain POSIX socket, with a time-out on
    everything. Thread: one at a time; needs no event loop.
*/
class RespClient
{
public:
    RespClient() = default;
    ~RespClient();

    bool connectToUnix(const QString &path);
    /// 127.0.0.1.
    bool connectToTcp(quint16 port);
    /// False if the server has closed the connection, too.
    bool isConnected();
    void close();
    /// RST instead of FIN.
    void reset();
    QString errorString() const { return m_error; }

    /// Sends one command and reads its reply. After a failure ("-WITNESS …") the connection is closed.
    QVariant command(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout = std::chrono::seconds(60));

    /// send() and readReply() are the halves of command(), for pipelining, pub/sub and malformed input.
    bool send(QByteArrayView bytes, std::chrono::milliseconds timeout = std::chrono::seconds(60));
    /// \a keepOpen: a time-out does not close the connection.
    QVariant readReply(std::chrono::milliseconds timeout = std::chrono::seconds(60), bool keepOpen = false);

private:
    Q_DISABLE_COPY_MOVE(RespClient)
    QVariant failure(const char *what, int error);

    int m_fd = -1;
    QByteArray m_buffer;
    QString m_error;
};

} // namespace Support
