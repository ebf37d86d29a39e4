// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qjsonobject.h>
#include <QtCore/qurl.h>

#include <chrono>
#include <memory>

namespace Bench {

/// The result of one timed run, from the first command to the last reply.
struct Measurement
{
    qint64 operations = 0; ///< lock + unlock pairs
    double seconds = 0;    ///< wall clock
    double cpuSeconds = 0; ///< user and system time of this process

    QJsonObject toJson() const;
};

/*!
    One competitor in one case. Between runs it stays connected, and sends nothing.
    An error ends the process with a message, because a broken run gives no valid figure.
*/
class Contender
{
public:
    Contender() = default;
    virtual ~Contender() = default;
    /// Runs for about \a duration. \a participants: the number of its locks that take part, if that can vary.
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
    std::chrono::milliseconds work;  ///< how long a contended lock is held; the time between two messages
    std::chrono::milliseconds pause; ///< between a release and the same client's next acquire
    bool fair;
    int permits;     ///< of the semaphore; 0 = none
    QString witness; ///< a folder in which all holders of contended locks leave a trace
};

/// Different locks, acquired and released at the same time.
std::unique_ptr<Contender> makeHiredisPairs(const Setup &setup);
std::unique_ptr<Contender> makeQtPairs(const Setup &setup);
std::unique_ptr<Contender> makeLibraryPairs(const Setup &setup);
std::unique_ptr<Contender> makeZooKeeperPairs(const Setup &setup); ///< only with QDISTLOCK_BENCH_ZOOKEEPER
/// Messages from one process to another; the receiver reports how long each took.
std::unique_ptr<Contender> makeHiredisSender(const Setup &setup);
std::unique_ptr<Contender> makeHiredisReceiver(const Setup &setup);
std::unique_ptr<Contender> makeQtSender(const Setup &setup);
std::unique_ptr<Contender> makeQtReceiver(const Setup &setup);
/// One lock, acquired and released again and again; reports when each pair ended.
std::unique_ptr<Contender> makeHiredisTimes(const Setup &setup);
/// One lock that all clients acquire.
std::unique_ptr<Contender> makeLibraryContended(const Setup &setup);
/// One lock that all clients acquire, all but the last one as readers.
std::unique_ptr<Contender> makeLibraryReadWrite(const Setup &setup);
/// One lock that one client holds and all others wait for.
std::unique_ptr<Contender> makeLibraryWaiters(const Setup &setup);
/// Different locks, held and renewed.
std::unique_ptr<Contender> makeLibraryHeld(const Setup &setup);
/// Different locks, held until their keys are deleted.
std::unique_ptr<Contender> makeLibraryLost(const Setup &setup);
/// A model of the locks that others hold.
std::unique_ptr<Contender> makeLibraryMonitor(const Setup &setup);
/// Locks held over fail-overs.
std::unique_ptr<Contender> makeLibrarySentinel(const Setup &setup);
/// One lock, beside another one for which a replica is missing.
std::unique_ptr<Contender> makeLibraryBesideWait(const Setup &setup);
/// One lock that another client holds, and a flood of calls that need it.
std::unique_ptr<Contender> makeLibraryFlood(const Setup &setup);
/// As makeLibraryPairs(), for readers.
std::unique_ptr<Contender> makeLibraryReaders(const Setup &setup);
/// Different locks, all held together: as a MultiLock, or acquired one after the other.
std::unique_ptr<Contender> makeLibraryTogether(const Setup &setup);
std::unique_ptr<Contender> makeLibraryOneByOne(const Setup &setup);
/// Different locks, one after the other.
std::unique_ptr<Contender> makeLibraryTurns(const Setup &setup);
/// Different locks that other processes acquire, too, while their slots move.
std::unique_ptr<Contender> makeLibraryResharding(const Setup &setup);
/// One lock for a scope, one scope after the other.
std::unique_ptr<Contender> makeLibraryScoped(const Setup &setup);
/// Scopes inside a scope of the same lock.
std::unique_ptr<Contender> makeLibraryReentry(const Setup &setup);

/// Of this process, in bytes.
struct Memory
{
    double heap;
    double resident;

    static Memory now();
};

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

/// On standard error.
void tell(const QString &text);

[[noreturn]] void fail(const QString &reason);

} // namespace Bench
