// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qtimer.h>

#include <chrono>
#include <functional>

namespace Support {

/// No turn of an event loop may take longer for our sake. Sanitizers make everything several times slower, and
/// so does no optimisation.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || (defined(__GNUC__) && !defined(__OPTIMIZE__))
constexpr std::chrono::milliseconds TurnLimit{50};
#else
constexpr std::chrono::milliseconds TurnLimit{5};
#endif

/*!
    Measures how long single turns of this thread's event loop took while it lives.

    A zero timer fires once a turn, so the loop never waits in poll() and the time between two
    firings is that of one turn: the slots it ran, and what the test called outside of them. (It also
    keeps a core busy: let it live no longer than needed.) Of each turn three times are taken:

    - wall: includes the time in which the OS ran something else on this core;
    - CPU: does not see a call that waits in the kernel;
    - kept: CPU, and in a turn in which the thread went to sleep in the kernel wall less the time the thread
      was ready to run but had no core, from the scheduler's own account. This is CPU and waiting together,
      right under load, and blind to a virtual machine stopped by its host: the one to judge by.

    Let a real event loop run: exec(), QSignalSpy::wait(), or waitFor() below. QTRY_… and
    QTest::qWait() sleep between turns, outside the loop, which counts. Thread: one, with an event
    loop.
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
    /// Time kept: CPU and waiting in the kernel, without waiting for a core.
    std::chrono::nanoseconds longestBlockedTurn() const;
    /// How often the loop came round.
    qint64 turns() const { return m_turns; }
    /// Forget what was.
    void reset();

    /// Runs what the test does on its own account (stop a server) without counting it.
    void without(const std::function<void()> &action);

    /*!
        The longestBlockedTurn() of \a scenario, which is run again, up to \a attempts times, while
        it is not under \a limit; the shortest of them. What code does it does every time, but a
        virtual machine is stopped by its host now and then, and not every clock inside tells.
    */
    static std::chrono::nanoseconds longestBlockedTurnOf(
            const std::function<void(EventLoopProbe &probe)> &scenario,
            std::chrono::nanoseconds limit, int attempts = 5);

    /// Runs an event loop until \a condition, looked at each millisecond, or the time-out. The
    /// condition counts as part of the turn: it must not ask a server.
    static bool waitFor(const std::function<bool()> &condition,
                        std::chrono::milliseconds timeout = std::chrono::seconds(10));

private:
    Q_DISABLE_COPY_MOVE(EventLoopProbe)
    struct Moment
    {
        std::chrono::nanoseconds wall{0};
        std::chrono::nanoseconds cpu{0};
        std::chrono::nanoseconds ready{0}; // without a core
        qint64 sleeps = 0; // in the kernel, of the thread's own will
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
    std::chrono::nanoseconds m_longestKept{0};
};

} // namespace Support
