// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "leasetimer.h"

#include <QtCore/qobject.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qtimer.h>

#include <chrono>
#include <memory>

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

    If somebody kills it, another one is made, which continues with the last order.

    SIGPIPE must be ignored while it exists. Thread: the main thread, with an event loop. When another one is made, a
    thread may be looking up a host name; of what that thread may hold at the fork, the guardian uses malloc() only,
    which C libraries keep usable.
*/
class Guardian : public QObject
{
    Q_OBJECT

public:
    Guardian();
    /// Dismisses it, and reaps it if it is a child.
    ~Guardian() override;

    /// Starts it; false, with errno, if the system refuses.
    bool start(OrphanPolicy policy, std::chrono::nanoseconds killAfter);
    /// From now on it guards \a child, whose process group is \a group; 0 = that of this process, which is left alone.
    /// The child may call it, too, between fork() and exec().
    void guard(pid_t child, pid_t group);
    /// The child must be dead then.
    void setKillAt(Moment moment);
    /// Call it before starting a child that must not be killed at that moment. Until spare() names its group, nobody
    /// outside of the guarded group is killed.
    void spareNext();
    /// 0: there is none. The child may call it, too.
    void spare(pid_t group);
    /// Nothing is guarded any more. Call it before the child is reaped, so that its number cannot belong to another
    /// process.
    void dismiss();

Q_SIGNALS:
    /// It was killed, and there is another one.
    void replaced();
    /// It was killed, and the system refuses to make another one.
    void failed(int error);

private:
    struct Order
    {
        Moment killAt{Never};
        pid_t child = 0;
        pid_t group = 0;
        pid_t spared = 0;
        int number = 0; ///< the last one is valid; a new child says the same as this process, maybe much later
    };
    struct Process;
    /// False if it has ended, because somebody killed it.
    bool send();
    bool makeProcess();
    void replace();
    void closePipe();

    OrphanPolicy m_policy = OrphanPolicy::Term;
    std::chrono::nanoseconds m_killAfter{0};
    Order m_order;
    std::unique_ptr<QSocketNotifier> m_endNotifier;
    Moment m_madeAt{0};
    QTimer m_replaceTimer;
    int m_pipe = -1;
    pid_t m_id = 0; ///< 0 once somebody has killed it
};

} // namespace Cli
