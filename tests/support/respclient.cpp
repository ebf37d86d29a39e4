// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "respclient.h"

#include "posix.h"

#include <QtCore/qfile.h>

#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

namespace Support {

using Clock = std::chrono::steady_clock;

RespClient::~RespClient()
{
    close();
}

bool RespClient::connectToUnix(const QString &path)
{
    close();
    m_fd = Posix::connectUnix(QFile::encodeName(path));
    if (m_fd < 0)
        failure("cannot connect", errno);
    return m_fd >= 0;
}

bool RespClient::connectToTcp(quint16 port)
{
    close();
    m_fd = Posix::connectTcp(port);
    int error = errno;
    if (m_fd >= 0) {
        const bool answered = Posix::waitFor(m_fd, POLLOUT, Clock::now() + std::chrono::seconds(5));
        error = answered ? Posix::socketError(m_fd) : ETIMEDOUT;
    }
    if (m_fd < 0 || error)
        failure("cannot connect", error);
    return m_fd >= 0;
}

bool RespClient::isConnected()
{
    if (m_fd < 0)
        return false;
    char byte;
    const ssize_t n = ::recv(m_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return true;
    close();
    return false;
}

void RespClient::close()
{
    if (m_fd >= 0)
        ::close(m_fd);
    m_fd = -1;
    m_buffer.clear();
}

void RespClient::reset()
{
    if (m_fd >= 0)
        Posix::closeWithReset(m_fd);
    m_fd = -1;
    m_buffer.clear();
}

QVariant RespClient::command(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout)
{
    if (!send(Resp::encodeCommand(arguments), timeout))
        return QVariant::fromValue(RedisError{"-WITNESS " + m_error.toUtf8()});
    return readReply(timeout);
}

bool RespClient::send(QByteArrayView bytes, std::chrono::milliseconds timeout)
{
    if (m_fd < 0) {
        failure("cannot send", ENOTCONN);
        return false;
    }
    const auto deadline = Clock::now() + timeout;
    while (!bytes.isEmpty()) {
        const ssize_t n = ::send(m_fd, bytes.data(), static_cast<size_t>(bytes.size()), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            bytes = bytes.sliced(n);
        } else if (errno == EAGAIN) {
            if (!Posix::waitFor(m_fd, POLLOUT, deadline)) {
                failure("cannot send", ETIMEDOUT);
                return false;
            }
        } else if (errno != EINTR) {
            failure("cannot send", errno);
            return false;
        }
    }
    return true;
}

QVariant RespClient::readReply(std::chrono::milliseconds timeout, bool keepOpen)
{
    if (m_fd < 0)
        return failure("no reply", ENOTCONN);
    const auto deadline = Clock::now() + timeout;
    for (;;) {
        if (!m_buffer.isEmpty()) {
            qsizetype size = 0;
            QVariant value;
            switch (Resp::parseReply(m_buffer, &size, &value)) {
            case Resp::Status::Complete:
                m_buffer.remove(0, size);
                return value;
            case Resp::Status::Invalid:
                return failure("no reply", EPROTO);
            case Resp::Status::Incomplete:
                break;
            }
        }
        if (!Posix::waitFor(m_fd, POLLIN, deadline)) {
            if (keepOpen)
                return QVariant::fromValue(RedisError{QByteArrayLiteral("-WITNESS no reply in time")});
            return failure("no reply", ETIMEDOUT);
        }
        char chunk[16 * 1024];
        const ssize_t n = ::recv(m_fd, chunk, sizeof(chunk), MSG_DONTWAIT);
        if (n > 0)
            m_buffer.append(chunk, n);
        else if (n == 0)
            return failure("no reply", ECONNRESET);
        else if (errno != EAGAIN && errno != EINTR)
            return failure("no reply", errno);
    }
}

QVariant RespClient::failure(const char *what, int error)
{
    m_error = QLatin1String(what) + QLatin1String(": ") + QString::fromLocal8Bit(std::strerror(error));
    close();
    return QVariant::fromValue(RedisError{"-WITNESS " + m_error.toUtf8()});
}

} // namespace Support
