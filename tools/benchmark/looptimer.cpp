// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "looptimer.h"

#include <QtCore/qabstracteventdispatcher.h>

#include <algorithm>
#include <cstdio>

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace Bench {

namespace {

std::chrono::nanoseconds clockTime(clockid_t clock)
{
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

} // namespace

LoopTimer::LoopTimer()
    : m_schedstat(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC))
    , m_start(now())
{
    QObject::connect(QAbstractEventDispatcher::instance(), &QAbstractEventDispatcher::aboutToBlock, &m_context,
                     [this] { turnEnded(); });
}

LoopTimer::~LoopTimer()
{
    if (m_schedstat >= 0)
        ::close(m_schedstat);
}

LoopTimer::Moment LoopTimer::now() const
{
    // "<ns on a core> <ns ready, without a core> <number of times it got one>"
    char text[96] = {};
    long long onCore = 0;
    long long ready = 0;
    if (m_schedstat >= 0 && ::pread(m_schedstat, text, sizeof(text) - 1, 0) > 0)
        std::sscanf(text, "%lld %lld", &onCore, &ready);
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return {clockTime(CLOCK_MONOTONIC), clockTime(CLOCK_THREAD_CPUTIME_ID), std::chrono::nanoseconds(ready),
            usage.ru_nvcsw};
}

/// The loop is about to sleep: from here to the same point it does so once.
void LoopTimer::turnEnded()
{
    const Moment end = now();
    const bool hasWaited = end.sleeps - m_start.sleeps > 1;
    const auto waited = end.wall - m_start.wall - (end.ready - m_start.ready);
    m_longest = std::max(m_longest, hasWaited ? waited : end.cpu - m_start.cpu);
    m_start = end;
}

} // namespace Bench
