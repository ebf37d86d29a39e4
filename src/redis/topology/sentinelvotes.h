// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/endpoint.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qset.h>
#include <QtCore/qstringlist.h>

#include <chrono>
#include <optional>
#include <vector>

namespace QtRedis {

/// The master of a service, as a Sentinel names it.
struct SentinelMaster
{
    Endpoint endpoint;
    qint64 epoch = -1;                      ///< config epoch: rises with each fail-over
    std::chrono::milliseconds downAfter{0}; ///< after which the Sentinels begin a fail-over
    QStringList addresses = {};             ///< of a host name, where others name an address

    bool isSame(const SentinelMaster &other) const { return epoch == other.epoch && isSameServer(other); }

private:
    bool isSameServer(const SentinelMaster &other) const
    {
        return endpoint == other.endpoint
                || (endpoint.port == other.endpoint.port
                    && (addresses.contains(other.endpoint.host) || other.addresses.contains(endpoint.host)));
    }
};

/// What one Sentinel has said.
struct SentinelVote
{
    QByteArray id;                       ///< its run id; its address until that is known
    bool isConfigured = true;            ///< it is in the URL
    bool isPending = false;              ///< it has been asked, and may still answer
    qsizetype known = 1;                 ///< the number of Sentinels, itself included, that it says there are
    std::optional<SentinelMaster> named; ///< nullopt if it has not named a master
};

/*!
    Which master is believed, by what the Sentinels have said last.

    A single Sentinel may be stale, wrongly set up, or lie: it decides nothing. Those of the URL are the ones that the
    user has chosen; each entry there has one vote. Others, which a majority of them lists, take part only where that
    does not go against an answer of these.

    Thread: a plain value.
*/
struct SentinelVotes
{
    std::vector<SentinelVote> votes;

    /// How many Sentinels there are: at least those of the URL, and as many as a majority of them says.
    qsizetype total() const;
    /// More than half of those in the URL.
    qsizetype configuredMajority() const;
    /// The ids of those that have named \a master. One that is known under two addresses has one id.
    QSet<QByteArray> namers(const SentinelMaster &master) const;

    /// The master that a majority of those in the URL has named; or a majority of all, if each one of the URL that
    /// has answered is among them and none can answer any more. Its endpoint is spelt as most of them do.
    std::optional<SentinelMaster> agreed() const;
    /// The master that all have named who have named any. They may be a minority.
    std::optional<SentinelMaster> unopposed() const;
    /// It is the agreed one, and a majority of all has named it.
    bool isConfirmed(const SentinelMaster &master) const;
};

} // namespace QtRedis
