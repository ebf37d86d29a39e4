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
    /// Runs for about \a duration.
    virtual QJsonObject run(std::chrono::milliseconds duration) = 0;

private:
    Q_DISABLE_COPY_MOVE(Contender)
};

/// \a locks: how many different locks are taken and given back at the same time.
std::unique_ptr<Contender> makeHiredisPairs(const QUrl &server, int locks);
std::unique_ptr<Contender> makeQtPairs(const QUrl &server, int locks);
std::unique_ptr<Contender> makeLibraryPairs(const QUrl &server, int locks);
/// Takes no notice of the duration. \a locks: how many are made, and held, at the same time.
std::unique_ptr<Contender> makeLibraryMemory(const QUrl &server, int locks);

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

[[noreturn]] void fail(const QString &reason);

} // namespace Bench
