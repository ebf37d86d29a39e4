// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "posix.h"

#include <QtCore/qrandom.h>

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

namespace Support::Posix {

namespace {

sockaddr_in loopback(quint16 port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int closeKeepingErrno(int fd)
{
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
}

int bindSomewhere(quint16 *port)
{
    const bool isChosen = *port != 0;
    for (int attempt = 0; attempt < 200; ++attempt) {
        const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return -1;
        const int on = 1;
        ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (!isChosen)
            *port = static_cast<quint16>(QRandomGenerator::system()->bounded(10000, 32000));
        const sockaddr_in address = loopback(*port);
        // Two sockets may be bound to one port while neither listens, so that only listen() shows whether it is free.
        if (::bind(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0 && ::listen(fd, 128) == 0) {
            return fd;
        }
        closeKeepingErrno(fd);
        if (errno != EADDRINUSE)
            return -1;
    }
    return -1;
}

} // namespace

int connectUnix(const QByteArray &path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= static_cast<qsizetype>(sizeof(address.sun_path))) {
        errno = ENAMETOOLONG;
        return -1;
    }
    std::memcpy(address.sun_path, path.constData(), static_cast<size_t>(path.size()));
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (::connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0)
        return closeKeepingErrno(fd);
    return fd;
}

int connectTcp(quint16 port)
{
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setNoDelay(fd);
    const sockaddr_in address = loopback(port);
    if (::connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0 && errno != EINPROGRESS) {
        return closeKeepingErrno(fd);
    }
    return fd;
}

int listenTcp(quint16 *port)
{
    return bindSomewhere(port);
}

quint16 freePort()
{
    quint16 port = 0;
    const int fd = bindSomewhere(&port);
    if (fd < 0)
        return 0;
    ::close(fd);
    return port;
}

bool waitFor(int fd, short events, std::chrono::steady_clock::time_point deadline)
{
    for (;;) {
        const auto left = deadline - std::chrono::steady_clock::now();
        const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
        pollfd entry{fd, events, 0};
        const int n = ::poll(&entry, 1, ms > 0 ? static_cast<int>(ms) : 0);
        if (n > 0)
            return true;
        if (n == 0 && ms <= 0)
            return false;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

int socketError(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    return error;
}

void setNonBlocking(int fd)
{
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void setNoDelay(int fd)
{
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void closeWithReset(int fd)
{
    const linger now{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    ::close(fd);
}

void pollPause()
{
    const timespec pause{0, 2'000'000};
    ::nanosleep(&pause, nullptr);
}

} // namespace Support::Posix
