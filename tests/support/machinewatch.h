// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qglobal.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace Support {

/*!
    Records how long this machine did not run what was ready to run, so that a test of times can tell a slow program
    from a machine that stood still.

    A thread sleeps 1 ms at a time, and records by how much it woke up too late, how long the thread that created the
    watch waited for a processor, and how much time the host took from a virtual machine (on Linux, the last two).
    Thread-safe.
*/
class MachineWatch
{
public:
    MachineWatch();
    ~MachineWatch();

    /// The longest single standstill since the last reset().
    std::chrono::milliseconds longestStandstill() const;
    void reset();

private:
    Q_DISABLE_COPY_MOVE(MachineWatch)
    void watch();

    const int m_stat;
    const int m_creatorStat;
    std::atomic<std::chrono::nanoseconds::rep> m_longest{0};
    std::atomic<bool> m_stopped{false};
    std::thread m_thread; // last: it uses the others
};

} // namespace Support
