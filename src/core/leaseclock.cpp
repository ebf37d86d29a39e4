// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "leaseclock.h"

#include <QtCore/qsystemdetection.h>

#ifdef Q_OS_LINUX
#include <time.h>
#endif

namespace QDistLock {

LeaseClock::~LeaseClock() = default;

namespace {

class SystemLeaseClock : public LeaseClock
{
public:
    std::chrono::nanoseconds now() const override
    {
#ifdef Q_OS_LINUX
        timespec time;
        clock_gettime(CLOCK_BOOTTIME, &time);
        return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
#else
        // mach_continuous_time and QueryInterruptTime would be the equals of boot time; where neither
        // is used, a suspended machine is found out by the server's answer to the next renewal.
        return std::chrono::steady_clock::now().time_since_epoch();
#endif
    }
};

} // namespace

const LeaseClock *LeaseClock::system()
{
    static const SystemLeaseClock clock;
    return &clock;
}

} // namespace QDistLock
