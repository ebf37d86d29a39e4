// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "core/watchdog.h"

#include "base/nestedloop.h"

#include <utility>

using namespace std::chrono_literals;

namespace QDistLock {

namespace {
/// Qt's timers stop while the machine is suspended, the lease clock does not. So the clock is read at least this often.
constexpr std::chrono::nanoseconds LongestSleep = 1s;
constexpr std::chrono::nanoseconds LongestSleepWithoutLease = 60s;
} // namespace

Watchdog::Watchdog(const LeaseClock *clock, QObject *parent)
    : QObject(parent)
    , m_clock(clock)
{
    m_timer.setTimerType(Qt::PreciseTimer);
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &Watchdog::wake);
}

void Watchdog::setClock(const LeaseClock *clock)
{
    m_clock = clock;
}

void Watchdog::schedule(Client *client, LeaseTime at, bool holding)
{
    holding = holding && at != NeverTime;
    if (client->m_wakeUpAt == at && client->m_holding == holding)
        return;
    m_holding += int(holding) - int(std::exchange(client->m_holding, holding));
    if (client->m_wakeUpAt != at) {
        if (client->m_wakeUpAt != NeverTime)
            m_schedule.erase({client->m_wakeUpAt, client});
        client->m_wakeUpAt = at;
        if (at == NeverTime)
            return;
        m_schedule.insert({at, client});
    }
    // A timer that sometimes fires too early costs less than setting it again for each change.
    if (!m_waking && (at < m_armedFor || (m_holding > 0 && !m_armedForHolding)))
        arm();
}

void Watchdog::wake()
{
    wakeNestedLoop(); // the application may be in one, and what a renewal needs must not wait for its end
    m_armedFor = NeverTime;
    m_waking = true;
    const LeaseTime now = m_clock->now();
    while (!m_schedule.empty() && m_schedule.begin()->first <= now) {
        Client *client = m_schedule.begin()->second;
        m_schedule.erase(m_schedule.begin());
        client->m_wakeUpAt = NeverTime;
        m_holding -= int(std::exchange(client->m_holding, false));
        client->wakeUp(now);
    }
    m_waking = false;
    arm();
}

void Watchdog::arm()
{
    if (m_schedule.empty()) {
        m_armedFor = NeverTime;
        m_timer.stop();
        return;
    }
    m_armedFor = m_schedule.begin()->first;
    m_armedForHolding = m_holding > 0;
    const auto longest = m_armedForHolding ? LongestSleep : LongestSleepWithoutLease;
    const auto pause = std::clamp<std::chrono::nanoseconds>(m_armedFor - m_clock->now(), 0ns, longest);
    m_timer.start(std::chrono::ceil<std::chrono::milliseconds>(pause));
}

} // namespace QDistLock
