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
    Records pauses of the machine: times in which it did not run what was ready to run. So a test of times can tell a
    slow program from a busy machine.

    A thread waits for 1 ms again and again, and records how much too late it wakes up, how long the thread that created
    the watch waited for a processor, and how much time the host took from a virtual machine (the last two on Linux
    only). The time that the threads of this program used is subtracted, because their own load is no excuse.
    Thread-safe.
*/
class MachineWatch
{
public:
    MachineWatch();
    ~MachineWatch();

    /// The longest single pause between the last reset() and this call. Blocks for some milliseconds.
    std::chrono::milliseconds longestPause();
    void reset();

private:
    Q_DISABLE_COPY_MOVE(MachineWatch)
    void watch();
    void completeRound(std::unique_lock<std::mutex> *lock);

    const int m_stat;
    const int m_creatorStat;
    std::mutex m_mutex; ///< of all that follows
    std::condition_variable m_stop;
    std::condition_variable m_roundEnded;
    qint64 m_rounds = 0; ///< that have ended
    qint64 m_roundAskedFor = 0;
    std::chrono::nanoseconds m_longest{0};
    bool m_stopped = false;
    std::thread m_thread; // last: it uses the others
};

} // namespace Support
