// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <chrono>

namespace QDistLock {

/*!
    The clock leases are counted on: monotonic, and running on while the machine is suspended, since the
    server's clock does too. Thread-safe.
*/
class LeaseClock
{
public:
    virtual ~LeaseClock();

    /// Since some fixed moment; only differences mean anything.
    virtual std::chrono::nanoseconds now() const = 0;

    /// CLOCK_BOOTTIME, mach_continuous_time() on macOS, QueryInterruptTimePrecise() on Windows 10 and later. No clock
    /// of FreeBSD and NetBSD is known to run on during sleep; there CLOCK_MONOTONIC.
    static const LeaseClock *system();
};

} // namespace QDistLock
