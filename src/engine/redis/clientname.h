// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/identity.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qbytearrayview.h>

#include <optional>

namespace QDistLock {

/*!
    The name of a client's connection on the server: `qdistlock-<client id>@<host>:<process id>:<application>`, or
    `qdistlock-<client id>` if the client shows no identity. Thread: a plain value.
*/
struct ClientName
{
    QByteArray client;
    Identity identity;
    /// In a quorum: which of its servers the connection is meant for; otherwise -1. If two of them turn out to be the
    /// same server, neither connection is taken for the other. The name then ends in `:<node>`; parse() ignores it.
    int node = -1;

    /// A longer host or application is cut.
    static constexpr qsizetype LongestName = 64;
    QByteArray toByteArray() const;

    /// nullopt if the connection is not that of a client, or only receives its messages. Anybody can give any name to a
    /// connection: unless the identity has exactly the form above, it is left out. Further parts may follow it.
    static std::optional<ClientName> parse(QByteArrayView name);
};

} // namespace QDistLock
