// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"

#include <atomic>

namespace Support {

/// A clock that only advance() moves. Thread-safe.
class FakeClock final : public QDistLock::LeaseClock
{
public:
    QDistLock::LeaseTime now() const override { return QDistLock::LeaseTime(std::chrono::nanoseconds(m_now.load())); }

    /// As if the machine had been suspended, or the event loop blocked.
    void advance(std::chrono::nanoseconds time) { m_now += time.count(); }

private:
    // Begins at the real time, because a memory: server compares the times of its clients, and some use the real clock.
    std::atomic<std::chrono::nanoseconds::rep> m_now{
            std::chrono::nanoseconds(QDistLock::LeaseClock::system()->now().time_since_epoch()).count()};
};

} // namespace Support
