// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qhashfunctions.h>
#include <QtCore/qstring.h>

#include <utility>

namespace QtRedis {

/// The TCP address of one server. Thread: a plain value.
struct Endpoint
{
    QString host; ///< a name, perhaps with the final dot of one that is complete, or an address without brackets
    quint16 port = 0;

    /// "host:6379", "[::1]:6379": as in a URL, with name().
    QString toString() const;
    /// The host without a final dot: by what servers are compared, shown and certified. The dot remains if an address
    /// would be left.
    QString name() const;

    friend bool operator==(const Endpoint &a, const Endpoint &b) { return a.port == b.port && a.name() == b.name(); }
    friend bool operator!=(const Endpoint &a, const Endpoint &b) { return !(a == b); }
    friend bool operator<(const Endpoint &a, const Endpoint &b)
    {
        return std::pair(a.name(), a.port) < std::pair(b.name(), b.port);
    }
    friend size_t qHash(const Endpoint &endpoint, size_t seed = 0)
    {
        return qHashMulti(seed, endpoint.name(), endpoint.port);
    }
};

} // namespace QtRedis
