// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Preloaded into a node of a Redis Cluster, this cuts it off from the other nodes while the file named by BUSCUT_FILE
// begins with a byte other than 0, which is looked at in each call: it cannot connect to anybody, who connects to its
// port BUSCUT_PORT is turned away, and what came over the connections of both sorts is lost with them. Clients still
// reach it.

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using Flag = std::atomic<char>;

/// By descriptor.
std::array<std::atomic<bool>, 65536> isOfBus;

const Flag *mapped()
{
    const char *name = std::getenv("BUSCUT_FILE");
    const int fd = name ? ::open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return nullptr;
    void *memory = ::mmap(nullptr, sizeof(Flag), PROT_READ, MAP_SHARED, fd, 0);
    ::syscall(SYS_close, fd);
    return memory == MAP_FAILED ? nullptr : static_cast<const Flag *>(memory);
}

bool isCut()
{
    static const Flag *const flag = mapped();
    return flag && flag->load(std::memory_order_relaxed) != 0;
}

void setOfBus(int fd, bool on)
{
    if (fd >= 0 && size_t(fd) < isOfBus.size())
        isOfBus[size_t(fd)] = on;
}

bool isBusPort(int fd)
{
    static const int port = std::getenv("BUSCUT_PORT") ? std::atoi(std::getenv("BUSCUT_PORT")) : 0;
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    return ::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) == 0 && address.sin_family == AF_INET
            && ntohs(address.sin_port) == port;
}

} // namespace

extern "C" {

int connect(int fd, const sockaddr *address, socklen_t size)
{
    if (address->sa_family != AF_INET)
        return int(::syscall(SYS_connect, fd, address, size));
    if (isCut()) {
        errno = ENETUNREACH;
        return -1;
    }
    setOfBus(fd, true);
    return int(::syscall(SYS_connect, fd, address, size));
}

int accept4(int listener, sockaddr *address, socklen_t *size, int flags)
{
    const int fd = int(::syscall(SYS_accept4, listener, address, size, flags));
    if (fd < 0 || !isBusPort(fd))
        return fd;
    if (!isCut()) {
        setOfBus(fd, true);
        return fd;
    }
    ::syscall(SYS_close, fd);
    errno = EAGAIN;
    return -1;
}

int accept(int listener, sockaddr *address, socklen_t *size)
{
    return accept4(listener, address, size, 0);
}

ssize_t read(int fd, void *data, size_t size)
{
    if (fd >= 0 && size_t(fd) < isOfBus.size() && isOfBus[size_t(fd)] && isCut()) {
        errno = ECONNRESET;
        return -1;
    }
    return ::syscall(SYS_read, fd, data, size);
}

int close(int fd)
{
    setOfBus(fd, false);
    return int(::syscall(SYS_close, fd));
}
}
