// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/quorum/delayedcalls.h"

#include <QtCore/qpointer.h>

#include <algorithm>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// The event loop may have been busy: what is in the sockets by now arrived in time, and is read first.
constexpr milliseconds GraceTime = 2ms;

} // namespace

DelayedCalls::DelayedCalls(QObject *parent)
    : QObject(parent)
{
    m_timer.setSingleShot(true);
    m_timer.setTimerType(Qt::PreciseTimer);
    connect(&m_timer, &QTimer::timeout, this, &DelayedCalls::runDue);
}

void DelayedCalls::add(milliseconds time, std::function<void()> action)
{
    m_actions.emplace(Deadline(time), std::move(action));
    arm();
}

void DelayedCalls::clear()
{
    m_timer.stop();
    m_actions.clear();
}

void DelayedCalls::arm()
{
    if (m_actions.empty() || (m_timer.isActive() && !(m_actions.begin()->first < m_armedFor)))
        return;
    m_armedFor = m_actions.begin()->first;
    m_timer.start(m_armedFor.remaining());
}

void DelayedCalls::runDue()
{
    const Deadline now(0ms);
    const auto isDue = [&] { return !m_actions.empty() && !(now < m_actions.begin()->first); };
    if (isDue() && !std::exchange(m_isGraceGiven, true)) {
        m_armedFor = Deadline(GraceTime);
        m_timer.start(GraceTime);
        return;
    }
    m_isGraceGiven = false;
    const QPointer<DelayedCalls> guard(this);
    // Those that are added meanwhile are not due yet, or wait for the next call.
    while (isDue()) {
        const auto action = std::move(m_actions.extract(m_actions.begin()).mapped());
        action();
        if (!guard)
            return;
    }
    arm();
}

} // namespace QDistLock
