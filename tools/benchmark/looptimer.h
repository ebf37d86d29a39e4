// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>

#include <chrono>

namespace Bench {

/*!
    Measures the longest turn of this thread's event loop while the object exists, without the loop's own sleep.

    A turn that did not wait for anything counts with its processor time, which neither other processes nor the host of
    a virtual machine lengthen. In a turn that slept more than once, something has waited in the kernel: it counts with
    all of its time, less that in which the thread was ready to run and had no core.
    Thread: the one that constructed it.
*/
class LoopTimer
{
public:
    LoopTimer();
    ~LoopTimer();

    double longestMilliseconds() const { return std::chrono::duration<double, std::milli>(m_longest).count(); }

private:
    Q_DISABLE_COPY_MOVE(LoopTimer)
    struct Moment
    {
        std::chrono::nanoseconds wall, cpu, ready;
        long sleeps;
    };
    Moment now() const;
    void turnEnded();

    QObject m_context;
    const int m_schedstat;
    Moment m_start;
    std::chrono::nanoseconds m_longest{0};
};

} // namespace Bench
