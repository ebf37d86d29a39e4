// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qglobal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace Support {

/*!
    Records how long this machine did not run what was ready to run, so that a test of times can tell a slow program
    from a machine that stood still.

    A thread sleeps 1 ms at a time, and records by how much it woke up too late, how long the thread that created the
    watch waited for a processor, and how much time the host took from a virtual machine (on Linux, the last two). What
    the threads of this program used of the processors meanwhile is subtracted: they are no excuse. Thread-safe.
*/
class MachineWatch
{
public:
    MachineWatch();
    ~MachineWatch();

    /// The longest single standstill since the last reset(), with what has happened until now: waits some milliseconds
    /// for the thread.
    std::chrono::milliseconds longestStandstill();
    void reset();

private:
    Q_DISABLE_COPY_MOVE(MachineWatch)
    void watch();
    void completeRound(std::unique_lock<std::mutex> *lock);

    const int m_stat;
    const int m_creatorStat;
    std::mutex m_mutex; ///< of all that follows
    std::condition_variable m_roundEnded;
    qint64 m_rounds = 0; ///< that have ended
    qint64 m_roundAskedFor = 0;
    std::chrono::nanoseconds m_longest{0};
    bool m_stopped = false;
    std::thread m_thread; // last: it uses the others
};

} // namespace Support
