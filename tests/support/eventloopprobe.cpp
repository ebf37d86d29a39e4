// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "eventloopprobe.h"

#include <QtCore/qeventloop.h>

#include <algorithm>
#include <cstdio>

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

namespace Support {

namespace {

std::chrono::nanoseconds clockTime(clockid_t clock)
{
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

} // namespace

EventLoopProbe::EventLoopProbe()
    : m_schedstat(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC))
{
    if (m_schedstat < 0)
        qWarning("EventLoopProbe: no /proc/thread-self/schedstat; times are inflated under load");
    m_timer.setTimerType(Qt::PreciseTimer);
    m_timer.callOnTimeout(&m_timer, [this] { endTurn(); });
    m_timer.start(0);
    reset();
}

EventLoopProbe::~EventLoopProbe()
{
    if (m_schedstat >= 0)
        ::close(m_schedstat);
}

std::chrono::nanoseconds EventLoopProbe::longestTurn() const
{
    return m_longestWall;
}

std::chrono::nanoseconds EventLoopProbe::longestTurnCpu() const
{
    return m_longestCpu;
}

std::chrono::nanoseconds EventLoopProbe::longestBlockedTurn() const
{
    return m_longestBlocked;
}

void EventLoopProbe::reset()
{
    m_turns = 0;
    m_longestWall = m_longestCpu = m_longestBlocked = std::chrono::nanoseconds(0);
    m_excluded = Moment();
    m_turnStart = now();
}

void EventLoopProbe::without(const std::function<void()> &action)
{
    const Moment start = now();
    action();
    const Moment end = now();
    m_excluded.wall += end.wall - start.wall;
    m_excluded.cpu += end.cpu - start.cpu;
    m_excluded.ready += end.ready - start.ready;
    m_excluded.sleeps += end.sleeps - start.sleeps;
}

std::chrono::nanoseconds EventLoopProbe::longestBlockedTurnOf(
        const std::function<void(EventLoopProbe &probe)> &scenario, std::chrono::nanoseconds limit, int attempts)
{
    auto least = std::chrono::nanoseconds::max();
    for (int attempt = 0; attempt < attempts && least >= limit; ++attempt) {
        EventLoopProbe probe;
        scenario(probe);
        probe.endTurn(); // counts what was called after the last turn
        least = std::min(least, probe.longestBlockedTurn());
    }
    return least;
}

bool EventLoopProbe::waitFor(const std::function<bool()> &condition, std::chrono::milliseconds timeout)
{
    if (condition())
        return true;
    bool met = false;
    QEventLoop loop;
    QTimer poll;
    poll.callOnTimeout(&loop, [&] {
        met = condition();
        if (met)
            loop.quit();
    });
    poll.start(1);
    QTimer::singleShot(timeout, Qt::PreciseTimer, &loop, &QEventLoop::quit);
    loop.exec();
    return met || condition();
}

std::chrono::nanoseconds EventLoopProbe::readyTime() const
{
    // "<ns on a core> <ns ready, without a core> <number of times it got one>"
    char text[96] = {};
    long long onCore = 0;
    long long ready = 0;
    if (m_schedstat >= 0 && ::pread(m_schedstat, text, sizeof(text) - 1, 0) > 0)
        std::sscanf(text, "%lld %lld", &onCore, &ready);
    return std::chrono::nanoseconds(ready);
}

EventLoopProbe::Moment EventLoopProbe::now() const
{
    Moment moment;
    // Read again if the thread lost its core between the clocks, which would then not match.
    for (int attempt = 0; attempt < 100; ++attempt) {
        const auto ready = readyTime();
        moment.wall = clockTime(CLOCK_MONOTONIC);
        moment.cpu = clockTime(CLOCK_THREAD_CPUTIME_ID);
        moment.ready = readyTime();
        if (moment.ready == ready)
            break;
    }
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    moment.sleeps = usage.ru_nvcsw;
    return moment;
}

void EventLoopProbe::endTurn()
{
    const Moment end = now();
    const auto wall = end.wall - m_turnStart.wall - m_excluded.wall;
    const auto cpu = end.cpu - m_turnStart.cpu - m_excluded.cpu;
    const auto ready = end.ready - m_turnStart.ready - m_excluded.ready;
    m_longestWall = std::max(m_longestWall, wall);
    m_longestCpu = std::max(m_longestCpu, cpu);
    // While a host stops a virtual machine, its CPU clocks stop too, but its wall clock does not.
    const bool slept = end.sleeps - m_turnStart.sleeps > m_excluded.sleeps;
    m_longestBlocked = std::max(m_longestBlocked, slept ? wall - ready : std::min(cpu, wall)); // two clocks
    m_excluded = Moment();
    m_turnStart = end;
    ++m_turns;
}

} // namespace Support
