// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "resp.h"

#include <QtCore/qstring.h>

#include <chrono>

namespace Support {

/*!
    A foreign client: blocking, on a plain POSIX socket, with a time-out on everything, and no code
    of the library under test. Thread: one at a time; needs no event loop.
*/
class RespClient
{
public:
    RespClient() = default;
    ~RespClient();

    bool connectToUnix(const QString &path);
    /// 127.0.0.1.
    bool connectToTcp(quint16 port);
    /// Notices a connection the server has ended.
    bool isConnected();
    void close();
    /// RST instead of FIN.
    void reset();
    QString errorString() const { return m_error; }

    /// One command and its reply. After a failure ("-WITNESS …") the connection is closed.
    QVariant command(const QList<QByteArray> &arguments,
                     std::chrono::milliseconds timeout = std::chrono::seconds(5));

    /// The halves of command(), for pipelining, pub/sub and malformed input.
    bool send(QByteArrayView bytes, std::chrono::milliseconds timeout = std::chrono::seconds(5));
    /// \a keepOpen: running into the time-out leaves the connection as it is.
    QVariant readReply(std::chrono::milliseconds timeout = std::chrono::seconds(5),
                       bool keepOpen = false);

private:
    Q_DISABLE_COPY_MOVE(RespClient)
    QVariant failure(const char *what, int error);

    int m_fd = -1;
    QByteArray m_buffer;
    QString m_error;
};

} // namespace Support
