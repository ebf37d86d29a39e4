// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"

#include <QtCore/qobject.h>
#include <QtCore/qtimer.h>

#include <set>

namespace QDistLock {

/*!
    Wakes the locks of one registry when something is due for them: a renewal, the next attempt, a deadline. All locks
    share one timer. Thread: the one it lives in.
*/
class Watchdog : public QObject
{
    Q_OBJECT
public:
    /// An object to wake. It must be forgotten before it is destroyed.
    class Client
    {
    public:
        virtual ~Client() = default;
        /// May schedule and forget any client. Must not run an event loop.
        virtual void wakeUp(LeaseTime now) = 0;
        /// NeverTime if it is not scheduled.
        LeaseTime wakeUpAt() const { return m_wakeUpAt; }

    private:
        friend class Watchdog;
        LeaseTime m_wakeUpAt = NeverTime;
        bool m_holding = false;
    };

    explicit Watchdog(const LeaseClock *clock, QObject *parent = nullptr);

    const LeaseClock *clock() const { return m_clock; }
    /// Not owned. Takes effect when the clock is next read.
    void setClock(const LeaseClock *clock);

    /// In place of what was scheduled for \a client before; NeverTime forgets it. \a holding: a lease is at
    /// stake, so that a suspension of the machine must be noticed soon after it ends.
    void schedule(Client *client, LeaseTime at, bool holding = false);
    void forget(Client *client) { schedule(client, NeverTime); }

    /// Wakes all that are due now.
    void wake();

private:
    void arm();

    const LeaseClock *m_clock;
    QTimer m_timer;
    std::set<std::pair<LeaseTime, Client *>> m_schedule;
    LeaseTime m_armedFor = NeverTime;
    qsizetype m_holding = 0;        ///< scheduled clients with a lease at stake
    bool m_armedForHolding = false; ///< there were some when the timer was set
    bool m_waking = false;
};

} // namespace QDistLock
