// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>

#include <chrono>

#include <poll.h>

/// Sockets without Qt, so that the test tools neither need nor disturb the tested event loop.
namespace Support::Posix {

/// Return a non-blocking socket, or -1 with errno. A TCP socket may still be connecting.
int connectUnix(const QByteArray &path);
int connectTcp(quint16 port);

/// Listens on 127.0.0.1, on a port outside the kernel's range for outgoing connections, so that the port can be closed
/// and used again; on \a port, if that is not 0. Returns -1 with errno on failure.
int listenTcp(quint16 *port);

/// A free port from the same range; it is not reserved.
quint16 freePort();

bool waitFor(int fd, short events, std::chrono::steady_clock::time_point deadline);
int socketError(int fd);
void setNonBlocking(int fd);
void setNoDelay(int fd);
void closeWithReset(int fd);

/// The pause between two polls of something that cannot be waited for.
void pollPause();

} // namespace Support::Posix
