// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "leasetimer.h"

#include <algorithm>
#include <cstdint>

#include <time.h>
#include <unistd.h>

#ifdef Q_OS_LINUX
#  include <sys/timerfd.h>
#endif

using namespace std::chrono_literals;

namespace Cli {

Moment presentMoment()
{
#ifdef Q_OS_LINUX
    constexpr clockid_t Clock = CLOCK_BOOTTIME;
#else
    constexpr clockid_t Clock = CLOCK_MONOTONIC;
#endif
    timespec time = {};
    ::clock_gettime(Clock, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

int LeaseTimer::open()
{
#ifdef Q_OS_LINUX
    return ::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
#else
    return -1;
#endif
}

void LeaseTimer::set(int descriptor, Moment moment)
{
#ifdef Q_OS_LINUX
    // A time of 0 would stop the timer instead of firing at once.
    const Moment when = moment == Never ? 0ns : std::max<Moment>(moment, 1ns);
    itimerspec specification = {};
    specification.it_value.tv_sec = time_t(when / 1s);
    specification.it_value.tv_nsec = long((when % 1s).count());
    ::timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &specification, nullptr);
#else
    Q_UNUSED(descriptor)
    Q_UNUSED(moment)
#endif
}

LeaseTimer::LeaseTimer()
    : m_descriptor(open())
{
    m_fallback.setSingleShot(true);
    m_fallback.setTimerType(Qt::PreciseTimer);
    connect(&m_fallback, &QTimer::timeout, this, &LeaseTimer::fire);
    if (m_descriptor >= 0) {
        m_notifier = std::make_unique<QSocketNotifier>(m_descriptor, QSocketNotifier::Read);
        connect(m_notifier.get(), &QSocketNotifier::activated, this, &LeaseTimer::fire);
    }
}

LeaseTimer::~LeaseTimer()
{
    m_notifier.reset();
    if (m_descriptor >= 0)
        ::close(m_descriptor);
}

void LeaseTimer::start(Moment moment)
{
    m_moment = moment;
    if (m_descriptor >= 0) {
        set(m_descriptor, moment);
    } else if (moment == Never) {
        m_fallback.stop();
    } else {
        const auto rest = std::chrono::ceil<std::chrono::milliseconds>(moment - presentMoment());
        m_fallback.start(std::clamp(rest, 0ms, std::chrono::milliseconds(24h)));
    }
}

void LeaseTimer::fire()
{
    if (m_descriptor >= 0) {
        std::uint64_t count = 0;
        if (::read(m_descriptor, &count, sizeof count) != sizeof count)
            return; // set again meanwhile
    } else if (presentMoment() < m_moment) {
        start(m_moment);
        return;
    }
    m_moment = Never;
    Q_EMIT timeout();
}

} // namespace Cli
