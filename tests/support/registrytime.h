// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "fakeclock.h"
#include "locktesting.h"

#include <QtCore/qpointer.h>

namespace LockTesting {

/// A lease on a server, whose clock runs: no pause of the machine ends it.
constexpr milliseconds LongLease = 10min;

/*!
    The time of registries. It advances only in advance(), pass() and passUntil(). So, however slow the machine is, no
    lease and no wait ends, nothing is renewed, and no waiter polls. Connections, their time-outs and the server use the
    real time. It must outlive the registries.
*/
class RegistryTime
{
public:
    /// \a registry was not used yet.
    void govern(LockRegistry *registry)
    {
        LockRegistryPrivate::get(registry)->setClock(&m_clock);
        m_registries.append(registry);
    }

    /// Nobody notices, as if the machine had been suspended or the event loop blocked; at most 1 s later a timer does.
    void advance(std::chrono::nanoseconds time) { m_clock.advance(time); }

    /// Sends what is due by then, but reads no reply.
    void pass(std::chrono::nanoseconds time)
    {
        advance(time);
        for (const auto &registry : std::as_const(m_registries)) {
            if (registry)
                LockRegistryPrivate::get(registry)->watchdog()->wake();
        }
        sendNow();
    }

    /// Runs an event loop until \a condition is true; the time passes in small steps, which bring retries, and by
    /// \a atMost altogether.
    bool passUntil(const std::function<bool()> &condition, milliseconds atMost = 60s)
    {
        constexpr milliseconds step = 20ms;
        milliseconds passed = 0ms;
        return eventually([&] {
            if (condition())
                return true;
            if (passed < atMost) {
                passed += step;
                pass(step);
            }
            return false;
        });
    }

private:
    Support::FakeClock m_clock;
    QList<QPointer<LockRegistry>> m_registries;
};

/// A registry whose time advances only when the test says so.
class StillRegistry : private RegistryTime, public LockRegistry
{
public:
    explicit StillRegistry(const QUrl &url)
        : LockRegistry(url)
    {
        govern(this);
    }

    using RegistryTime::advance;
    using RegistryTime::pass;
    using RegistryTime::passUntil;
};

} // namespace LockTesting
