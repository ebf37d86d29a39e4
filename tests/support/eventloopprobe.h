// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qtimer.h>

#include <chrono>
#include <functional>

namespace Support {

/// The library must not make any turn of an event loop longer than this. Sanitizers, and builds without optimisation,
/// make everything several times slower. The tests themselves are never optimised, so the build has to say it.
#ifdef QDISTLOCK_IS_OPTIMISED
constexpr std::chrono::milliseconds TurnLimit{5};
#else
constexpr std::chrono::milliseconds TurnLimit{50};
#endif

/*!
    Measures how long single turns of this thread's event loop take while the probe exists.

    A zero timer fires once in each turn, so that the loop never waits in poll(). The time between two firings is that
    of one turn: of the slots that ran, and of what the test called outside of them. (The timer keeps a core busy:
    destroy the probe as soon as possible.) Three times are measured for each turn:

    - wall: includes the time in which the OS ran something else on this core;
    - CPU: excludes calls that wait in the kernel;
    - blocked: CPU and waiting in the kernel. In a turn in which the thread slept in the kernel, this is wall less the
      time the thread was ready to run but had no core, which the scheduler counts; in any other turn it is CPU. It is
      right under load, and does not count a virtual machine stopped by its host: tests judge by it.

    Run a real event loop: exec(), QSignalSpy::wait(), or waitFor() below. QTRY_… and QTest::qWait() sleep between
    turns, outside the loop, and that time counts. Thread: one, with an event loop.
*/
class EventLoopProbe
{
public:
    EventLoopProbe();
    ~EventLoopProbe();

    /// Wall time.
    std::chrono::nanoseconds longestTurn() const;
    /// CPU time.
    std::chrono::nanoseconds longestTurnCpu() const;
    /// CPU time and waiting in the kernel, without waiting for a core.
    std::chrono::nanoseconds longestBlockedTurn() const;
    /// The number of turns.
    qint64 turns() const { return m_turns; }
    /// Discards all measurements.
    void reset();

    /// Runs something that the test itself does, such as stopping a server, without counting it.
    void without(const std::function<void()> &action);

    /*!
        Runs \a scenario up to \a attempts times, until its longestBlockedTurn() is below \a limit, and returns the
        shortest one. A virtual machine may be stopped by its host, which not every clock inside shows; code that blocks
        does so in every attempt.
    */
    static std::chrono::nanoseconds longestBlockedTurnOf(const std::function<void(EventLoopProbe &probe)> &scenario,
                                                         std::chrono::nanoseconds limit, int attempts = 5);

    /// Runs an event loop until \a condition is true or \a timeout has passed. The condition is polled each millisecond
    /// and counts as part of the turn, so it must not ask a server.
    static bool waitFor(const std::function<bool()> &condition,
                        std::chrono::milliseconds timeout = std::chrono::seconds(60));

private:
    Q_DISABLE_COPY_MOVE(EventLoopProbe)
    struct Moment
    {
        std::chrono::nanoseconds wall{0};
        std::chrono::nanoseconds cpu{0};
        std::chrono::nanoseconds ready{0}; // ready to run, without a core
        qint64 sleeps = 0;                 // voluntary sleeps in the kernel
    };
    std::chrono::nanoseconds readyTime() const;
    Moment now() const;
    void endTurn();

    QTimer m_timer;
    int m_schedstat = -1;
    qint64 m_turns = 0;
    Moment m_turnStart;
    Moment m_excluded;
    std::chrono::nanoseconds m_longestWall{0};
    std::chrono::nanoseconds m_longestCpu{0};
    std::chrono::nanoseconds m_longestBlocked{0};
};

} // namespace Support
