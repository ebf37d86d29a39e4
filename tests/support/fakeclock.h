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
    // Not 0, because a zero might be taken for "never".
    std::atomic<std::chrono::nanoseconds::rep> m_now{std::chrono::nanoseconds(std::chrono::hours(1)).count()};
};

} // namespace Support
