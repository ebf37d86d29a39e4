// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "leasetimer.h"

#include <chrono>

#include <sys/types.h>

namespace Cli {

/// If qdistlock is killed, its child is sent SIGTERM and then SIGKILL, or SIGKILL, or nothing.
enum class OrphanPolicy { Term, Kill, Keep };

/*!
    A second process, which ends the child of `run` when `run` itself cannot: if it was killed (SIGKILL, out of memory),
    or if it is stopped (SIGSTOP) past the lease. PR_SET_PDEATHSIG alone would reach the child, but none of the
    processes that the child has started, and not if `run` is stopped.

    The guardian learns the time by which the child must be dead with each renewal, through a pipe. It is not in the
    session of this process, nor its child unless orphans become that, and blocks all signals. It ends with this object,
    at the latest with this process. If this user may, it runs before all ordinary processes (SCHED_FIFO): it sleeps all
    the time, but on a machine under load it must not be late.

    SIGPIPE must be ignored while it exists.
*/
class Guardian
{
public:
    Guardian() = default;
    /// Dismisses it.
    ~Guardian() { dismiss(); }

    /// Starts it, before there are threads and before ProcessTree::adoptOrphans(); false if the system refuses.
    bool start(OrphanPolicy policy, std::chrono::nanoseconds killAfter);
    /// From now on it guards \a child, whose process group is \a group; 0 = that of this process, which is left alone.
    /// The child may call it, too, between fork() and exec().
    void guard(pid_t child, pid_t group);
    /// The child must be dead then.
    void setKillAt(Moment moment);
    /// A process group that must not be killed at that moment.
    void spare(pid_t group);
    /// Nothing is guarded any more. Call it before the child is reaped, so that its number cannot belong to another
    /// process.
    void dismiss();

private:
    Q_DISABLE_COPY_MOVE(Guardian)
    struct Order
    {
        Moment killAt{Never};
        pid_t child = 0;
        pid_t group = 0;
        pid_t spared = 0;
    };
    struct Process;
    /// False if it has ended, because somebody killed it.
    bool send();

    Order m_order;
    int m_pipe = -1;
    pid_t m_id = 0;
};

} // namespace Cli
