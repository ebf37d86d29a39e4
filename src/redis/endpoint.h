// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qhashfunctions.h>
#include <QtCore/qstring.h>

#include <tuple>

namespace QtRedis {

/// The TCP address of one server. Thread: a plain value.
struct Endpoint
{
    QString host; ///< a name, or an address without brackets
    quint16 port = 0;

    /// "host:6379", "[::1]:6379": as in a URL.
    QString toString() const;

    friend bool operator==(const Endpoint &a, const Endpoint &b) { return a.port == b.port && a.host == b.host; }
    friend bool operator!=(const Endpoint &a, const Endpoint &b) { return !(a == b); }
    friend bool operator<(const Endpoint &a, const Endpoint &b)
    {
        return std::tie(a.host, a.port) < std::tie(b.host, b.port);
    }
    friend size_t qHash(const Endpoint &endpoint, size_t seed = 0)
    {
        return qHashMulti(seed, endpoint.host, endpoint.port);
    }
};

} // namespace QtRedis
