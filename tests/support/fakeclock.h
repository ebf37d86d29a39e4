// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "core/leaseclock.h"

#include <atomic>

namespace Support {

/// Time goes on only when told to. Thread-safe.
class FakeClock final : public QDistLock::LeaseClock
{
public:
    std::chrono::nanoseconds now() const override { return std::chrono::nanoseconds(m_now.load()); }

    /// As a suspended machine, or an event loop that was blocked.
    void advance(std::chrono::nanoseconds time) { m_now += time.count(); }

private:
    // Not 0: a zero must not pass for "never".
    std::atomic<std::chrono::nanoseconds::rep> m_now{
            std::chrono::nanoseconds(std::chrono::hours(1)).count()};
};

} // namespace Support
