// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qglobal.h>

namespace QtRedis {

/// Why a connection could not be made, or ended.
enum class Failure : quint8 {
    None,
    Network, ///< refused, reset, unreachable, closed
    NameResolution,
    Timeout,        ///< connecting, the handshake or a command took too long
    Certificate,    ///< TLS: chain, host name, date, files; or only one side speaks TLS
    Authentication, ///< NOAUTH, WRONGPASS, AUTH without a password set; its file cannot be read
    Permission,     ///< NOPERM in the handshake, protected mode
    Protocol,       ///< not a valid reply, or over a limit
    Fork,           ///< this process is a child that shares the connection with its parent
    Service,        ///< the Sentinels do not know the service, or are none
    Server          ///< an error reply in the handshake: LOADING, max number of clients, DB index
};

/// True where trying again is unlikely to help until somebody changes a setting.
bool isPermanent(Failure failure);

} // namespace QtRedis
