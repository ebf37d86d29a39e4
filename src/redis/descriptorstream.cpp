// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/descriptorstream.h"

#include <QtCore/qsocketnotifier.h>

#include <utility>

#ifdef Q_OS_LINUX
#  include <cerrno>
#  include <fcntl.h>
#  include <poll.h>
#  include <sys/socket.h>
#  include <unistd.h>
#endif

namespace QtRedis {

#ifdef Q_OS_LINUX

namespace {

// Limits the bytes that one event loop turn has to parse, against a server that never stops sending.
constexpr qint64 ReadPerTurn = 256 * 1024;

} // namespace

bool DescriptorStream::isSupported()
{
    return true;
}

DescriptorStream::DescriptorStream(qintptr descriptor, QObject *parent)
    : QObject(parent)
    , m_descriptor(::fcntl(int(descriptor), F_DUPFD_CLOEXEC, 0))
{
    if (m_descriptor < 0) {
        m_ended = true;
        end(errno);
        return;
    }
    m_readNotifier = new QSocketNotifier(m_descriptor, QSocketNotifier::Read, this);
    connect(m_readNotifier, &QSocketNotifier::activated, this, &DescriptorStream::readable);
    m_writeNotifier = new QSocketNotifier(m_descriptor, QSocketNotifier::Write, this);
    m_writeNotifier->setEnabled(false);
    connect(m_writeNotifier, &QSocketNotifier::activated, this, &DescriptorStream::writable);
}

DescriptorStream::~DescriptorStream()
{
    abort();
}

void DescriptorStream::abort()
{
    m_ended = true;
    m_reported = true;
    disconnect();
    // A notifier must not watch a descriptor that may soon be reused. It may be on the call stack.
    if (m_readNotifier) {
        m_readNotifier->setEnabled(false);
        m_writeNotifier->setEnabled(false);
    }
    if (m_descriptor >= 0)
        ::close(std::exchange(m_descriptor, -1));
}

qint64 DescriptorStream::read(char *data, qint64 size)
{
    if (m_ended || m_drained || m_readThisTurn >= ReadPerTurn)
        return 0;
    ssize_t got;
    do {
        got = ::recv(m_descriptor, data, size_t(size), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        m_ended = true;
        end(0);
    } else if (got < 0) {
        m_drained = true;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            m_ended = true;
            end(errno);
        }
    } else {
        m_drained = got < size;
        m_readThisTurn += got;
        return got;
    }
    return 0;
}

void DescriptorStream::write(const char *data, qint64 size)
{
    if (m_reported)
        return;
    if (m_unwritten.isEmpty()) {
        ssize_t sent;
        do {
            sent = ::send(m_descriptor, data, size_t(size), MSG_NOSIGNAL | MSG_DONTWAIT);
        } while (sent < 0 && errno == EINTR);
        if (sent == size)
            return;
        if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            end(errno);
            return;
        }
        if (sent > 0) {
            data += sent;
            size -= sent;
        }
    }
    m_unwritten.append(data, size);
    m_writeNotifier->setEnabled(true);
}

bool DescriptorStream::wait(std::chrono::milliseconds atMost)
{
    if (m_ended || m_reported)
        return false;
    const short writing = m_unwritten.isEmpty() ? 0 : POLLOUT;
    pollfd events{m_descriptor, short(POLLIN | writing), 0};
    if (::poll(&events, 1, int(atMost.count())) <= 0)
        return true;
    if (events.revents & POLLOUT)
        writable();
    if (events.revents & ~POLLOUT)
        readable();
    return !m_ended && !m_reported;
}

void DescriptorStream::readable()
{
    m_drained = false;
    m_readThisTurn = 0;
    Q_EMIT readyRead();
}

void DescriptorStream::writable()
{
    m_writeNotifier->setEnabled(false);
    const QByteArray data = std::exchange(m_unwritten, {});
    write(data.constData(), data.size());
}

void DescriptorStream::end(int error)
{
    if (std::exchange(m_reported, true))
        return;
    if (m_readNotifier) {
        m_readNotifier->setEnabled(false);
        m_writeNotifier->setEnabled(false);
    }
    // The last bytes may have arrived since.
    m_drained = false;
    m_readThisTurn = 0;
    QMetaObject::invokeMethod(
            this,
            [this, error] {
                if (error == 0 || error == ECONNRESET || error == EPIPE)
                    Q_EMIT closed();
                else
                    Q_EMIT failed(qt_error_string(error));
            },
            Qt::QueuedConnection);
}

#else

bool DescriptorStream::isSupported()
{
    return false;
}

DescriptorStream::DescriptorStream(qintptr, QObject *parent)
    : QObject(parent)
{
}

DescriptorStream::~DescriptorStream() = default;

qint64 DescriptorStream::read(char *, qint64)
{
    return 0;
}

void DescriptorStream::write(const char *, qint64) {}
void DescriptorStream::abort() {}
bool DescriptorStream::wait(std::chrono::milliseconds)
{
    return false;
}
void DescriptorStream::readable() {}
void DescriptorStream::writable() {}
void DescriptorStream::end(int) {}

#endif

} // namespace QtRedis
