// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <chrono>

namespace QDistLock {

/*!
    The clock that leases are counted on. It is monotonic and runs on while the machine is suspended, as the server's
    clock does. Thread-safe.
*/
class LeaseClock
{
public:
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    /// Counted from an unspecified moment: only differences have a meaning.
    using time_point = std::chrono::time_point<LeaseClock>;

    virtual ~LeaseClock();

    virtual time_point now() const = 0;

    /// CLOCK_BOOTTIME, mach_continuous_time() on macOS, QueryInterruptTimePrecise() on Windows 10 and later. No clock
    /// of FreeBSD and NetBSD is known to run on during sleep; there CLOCK_MONOTONIC.
    static const LeaseClock *system();
};

/// A moment on the lease clock.
using LeaseTime = LeaseClock::time_point;
inline constexpr LeaseTime NeverTime = (LeaseTime::max)();

} // namespace QDistLock
