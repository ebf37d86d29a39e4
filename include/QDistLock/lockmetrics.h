// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKMETRICS_H
#define QDISTLOCK_LOCKMETRICS_H

#include <QDistLock/qdistlock_export.h>

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>

namespace QDistLock {

/*!
    How many durations were how long. A plain value that any thread may use.
*/
struct LockHistogram
{
    /// The longest duration of each range. The last range, which has no bound, is not listed.
    static constexpr std::array<std::chrono::milliseconds, 8> Bounds{
            std::chrono::milliseconds(1),   std::chrono::milliseconds(5),   std::chrono::milliseconds(25),
            std::chrono::milliseconds(100), std::chrono::milliseconds(500), std::chrono::milliseconds(2500),
            std::chrono::seconds(10),       std::chrono::seconds(60),
    };

    /// How many durations are longer than the bound before, and not longer than their own.
    std::array<quint64, Bounds.size() + 1> counts{};
    /// Of all durations.
    std::chrono::nanoseconds sum{0};

    /// The index in \c counts of the range that \a duration lies in.
    static constexpr std::size_t rangeOf(std::chrono::nanoseconds duration)
    {
        std::size_t range = 0;
        while (range < Bounds.size() && duration > Bounds[range])
            ++range;
        return range;
    }

    /// Of durations.
    quint64 count() const
    {
        quint64 all = 0;
        for (const quint64 one : counts)
            all += one;
        return all;
    }

    /// The duration that \a percent of all durations, from 0 to 100, did not exceed; 0 if there are none. This is an
    /// estimate, because only the range of each duration is known: they are taken to be spread evenly over their range,
    /// and those longer than all Bounds to be as long as the last one.
    QDISTLOCK_EXPORT std::chrono::nanoseconds percentile(double percent) const;
};

/*!
    What the locks of one group have done in this process. A plain value that any thread may use.

    The numbers count from the start of the process, or from LockMetrics::reset(), except for \c held and \c waiting,
    which are the present ones. While no lock changes, acquired = released + lost() + held, unless reset() was called
    while locks were held.
*/
struct LockStatistics
{
    /// See LockMetrics.
    QString group;

    /// Holds that began: a nested acquire begins none. A hold also counts if the application did not hear of it because
    /// it was cancelled, or lost, at once. The locks of a MultiLock are counted one by one, also those that are held
    /// only until it turns out that another one cannot be had.
    quint64 acquired = 0;
    /// Those of \c acquired that had to wait because somebody else held the lock, or was the next.
    quint64 contended = 0;
    /// How long each of \c acquired took, from the acquire until the lock was held.
    LockHistogram wait;

    /// Acquires that ended with BusyError.
    quint64 busy = 0;
    /// Acquires that ended with TimeoutError.
    quint64 timedOut = 0;
    /// Acquires that were cancelled, or whose lock was destroyed, before it was held.
    quint64 cancelled = 0;
    /// Acquires that ended with another error. Mistakes of the program that are found before a lock is asked for, as in
    /// the key of an annotation or by a scope in the GUI thread, are not counted.
    quint64 errors = 0;
    /// Acquires that did not get the lock, for whatever reason. That of a MultiLock counts once, for the lock that was
    /// not to be had, or else for the first one.
    quint64 failed() const { return busy + timedOut + cancelled + errors; }

    /// Holds that ended as intended: by a release, by the destruction of the lock object, by DistributedLock::detach(),
    /// or by a change between reading and writing, which begins another hold.
    quint64 released = 0;
    /// Holds that ended without a release: one number for each DistributedLock::LossReason.
    ///@{
    quint64 leaseExpired = 0;
    quint64 stolen = 0;
    quint64 deleted = 0;
    quint64 forcedReleases = 0;
    ///@}
    /// Holds that ended without a release, for whatever reason.
    quint64 lost() const { return leaseExpired + stolen + deleted + forcedReleases; }
    /// How long each hold lasted that has ended.
    LockHistogram hold;

    /// Renewals that the server has confirmed.
    quint64 renewed = 0;
    /// How often two thirds of a lease had passed without a confirmed renewal.
    quint64 atRisk = 0;

    /// Locks that are held now.
    int held = 0;
    /// Locks that are being acquired now.
    int waiting = 0;
};

/*!
    What the locks of this process have done: always counted, in each form (lock objects, scopes, annotated slots, QML),
    on all threads and servers.

    A lock is counted in a *group*, so that the number of groups does not grow with the number of locks. The group is
    LockOptions::label if that is set. Otherwise, for an annotated slot, it is the key as it was written if that has
    values of the call (`order:{id}`). In all other cases it is the name up to its first number, and `*`: `order:17` and
    `order:18:ship` are both counted in `order:*`. A word that consists of seven or more hexadecimal digits, such as the
    beginning of a UUID, is a number in this sense. The name of a group is cut after 64 QChars. When a process has
    MaximumGroups groups, locks of all others are counted in the group `other`.

    Every function is thread-safe. A child process after fork() begins with the numbers of its parent.
*/
namespace LockMetrics {

/// How many groups a process can have, besides `other`.
inline constexpr int MaximumGroups = 256;

/// The groups in which something was counted, sorted by name.
QDISTLOCK_EXPORT QList<LockStatistics> snapshot();

/// snapshot() as OpenMetrics 1.0, for Prometheus and others that read it; docs/metrics.md explains each metric. An HTTP
/// server sends it as openMetricsContentType().
QDISTLOCK_EXPORT QByteArray openMetricsText();
/// The media type of openMetricsText().
QDISTLOCK_EXPORT QByteArray openMetricsContentType();

/// Returns the group that is made of the name of a lock, as described above, however many groups there are already.
QDISTLOCK_EXPORT QString groupOf(const QString &name);

/// Returns the group of the lock \c name with \c label; empty for the usual one.
using Grouping = std::function<QString(const QString &name, const QString &label)>;
/// Locks that are acquired from now on are counted in the group that \a grouping returns; null for the usual one. It is
/// called by several threads, also at the same time, when a lock object is acquired for the first time, or with another
/// name or label than before. It must neither block nor throw.
QDISTLOCK_EXPORT void setGrouping(Grouping grouping);

/// Counts from 0 again, except for locks that are held or waiting now. The groups stay: they still count towards
/// MaximumGroups. For tests: a program that collects the numbers expects that they only grow.
QDISTLOCK_EXPORT void reset();

} // namespace LockMetrics

} // namespace QDistLock

#endif
