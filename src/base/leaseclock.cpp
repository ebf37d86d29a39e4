// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/leaseclock.h"

#include <QtCore/qsystemdetection.h>

#include <atomic>

#ifdef Q_OS_DARWIN
#  include <mach/mach_time.h>
#elif defined(Q_OS_WIN)
#  include <qt_windows.h>
#  include <realtimeapiset.h>
#else
#  include <time.h>
#endif

namespace QDistLock {

LeaseClock::~LeaseClock() = default;

namespace {

class SystemLeaseClock : public LeaseClock
{
public:
    LeaseTime now() const override
    {
#ifdef Q_OS_DARWIN
        static const mach_timebase_info_data_t timebase = [] {
            mach_timebase_info_data_t info;
            mach_timebase_info(&info);
            return info;
        }();
        // In two parts, since the product of the whole could overflow.
        const uint64_t ticks = mach_continuous_time();
        const uint64_t whole = ticks / timebase.denom * timebase.numer;
        return LeaseTime(std::chrono::nanoseconds(whole + ticks % timebase.denom * timebase.numer / timebase.denom));
#elif defined(Q_OS_WIN)
        ULONGLONG time; // in 100 ns; the "unbiased" one stops during sleep
        QueryInterruptTimePrecise(&time);
        return LeaseTime(std::chrono::nanoseconds(100 * time));
#else
#  ifdef CLOCK_BOOTTIME // Linux, OpenBSD; on FreeBSD another name of CLOCK_MONOTONIC
        constexpr clockid_t clock = CLOCK_BOOTTIME;
#  else
        constexpr clockid_t clock = CLOCK_MONOTONIC;
#  endif
        timespec time;
        clock_gettime(clock, &time);
        return LeaseTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
#endif
    }
};

} // namespace

static std::atomic<const LeaseClock *> replacement{nullptr};

const LeaseClock *LeaseClock::system()
{
    // Never destroyed: lingering connections read it while static objects are destroyed.
    static const LeaseClock *const real = new SystemLeaseClock;
    const LeaseClock *const replaced = replacement.load(std::memory_order_acquire);
    return replaced ? replaced : real;
}

void LeaseClock::replaceSystem(const LeaseClock *clock)
{
    replacement.store(clock, std::memory_order_release);
}

} // namespace QDistLock
