// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <algorithm>
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
    /// For tests: from now on system() returns \a clock, which must outlive all that read it; null = the real one.
    static void replaceSystem(const LeaseClock *clock);
};

/// A moment on the lease clock.
using LeaseTime = LeaseClock::time_point;
inline constexpr LeaseTime NeverTime = (LeaseTime::max)();

/// The end of a time-out on LeaseClock::system(). A QTimer only wakes the event loop, perhaps too early or, after a
/// suspend, too late; hasExpired() decides. Thread: a plain value.
class Deadline
{
public:
    /// Has expired.
    constexpr Deadline() = default;
    explicit Deadline(LeaseClock::duration time)
        : m_at(LeaseClock::system()->now() + time)
    {
    }
    constexpr explicit Deadline(LeaseTime at)
        : m_at(at)
    {
    }

    bool isForever() const { return m_at == NeverTime; }
    bool hasExpired() const { return LeaseClock::system()->now() >= m_at; }
    /// For a timer, hence rounded up; 0 when it has expired.
    std::chrono::milliseconds remaining() const
    {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(m_at - LeaseClock::system()->now());
        return (std::max)(left, std::chrono::milliseconds(0));
    }
    friend bool operator<(const Deadline &left, const Deadline &right) { return left.m_at < right.m_at; }

private:
    LeaseTime m_at;
};

} // namespace QDistLock
