// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qjsonobject.h>
#include <QtCore/qurl.h>

#include <chrono>
#include <memory>

namespace Bench {

/// What one timed run did. Counted from the first command sent to the last reply, with nothing left
/// in flight.
struct Measurement
{
    qint64 operations = 0; ///< lock + unlock pairs
    double seconds = 0;    ///< wall clock
    double cpuSeconds = 0; ///< user and system time of this process

    QJsonObject toJson() const;
};

/*!
    One competitor in one case: connected and warm between runs, silent unless run.
    Errors end the process with a message: a figure from a broken run is worth nothing.
*/
class Contender
{
public:
    Contender() = default;
    virtual ~Contender() = default;
    /// Runs for about \a duration. \a participants: how many of its locks take part, where that can differ.
    virtual QJsonObject run(std::chrono::milliseconds duration, int participants) = 0;

private:
    Q_DISABLE_COPY_MOVE(Contender)
};

struct Setup
{
    QUrl server;
    int clients; ///< registries, each with its own connections
    int locks;   ///< of each client
    std::chrono::milliseconds lease;
    std::chrono::milliseconds work; ///< how long a lock that all want is kept
    bool fair;
};

/// Different locks, all taken and given back at the same time.
std::unique_ptr<Contender> makeHiredisPairs(const Setup &setup);
std::unique_ptr<Contender> makeQtPairs(const Setup &setup);
std::unique_ptr<Contender> makeLibraryPairs(const Setup &setup);
/// One lock, in turn; tells when each pair was done.
std::unique_ptr<Contender> makeHiredisTimes(const Setup &setup);
/// One lock that all want.
std::unique_ptr<Contender> makeLibraryContended(const Setup &setup);
/// One lock that somebody holds and all wait for.
std::unique_ptr<Contender> makeLibraryWaiters(const Setup &setup);
/// Different locks, held and renewed.
std::unique_ptr<Contender> makeLibraryHeld(const Setup &setup);
/// Different locks, held, until somebody deletes their keys.
std::unique_ptr<Contender> makeLibraryLost(const Setup &setup);
/// One lock that somebody holds, and more calls for it than anybody serves.
std::unique_ptr<Contender> makeLibraryFlood(const Setup &setup);
/// One lock for a scope, one scope after the other.
std::unique_ptr<Contender> makeLibraryScoped(const Setup &setup);
/// Scopes inside a scope of the same lock.
std::unique_ptr<Contender> makeLibraryReentry(const Setup &setup);

/// Wall clock and processor time since construction.
class Stopwatch
{
public:
    Stopwatch();
    double seconds() const;
    Measurement finish(qint64 operations) const;

private:
    std::chrono::steady_clock::time_point m_start;
    double m_cpuStart;
};

/// On the clock that all processes of a machine share (CLOCK_MONOTONIC).
qint64 microseconds();

[[noreturn]] void fail(const QString &reason);

} // namespace Bench
