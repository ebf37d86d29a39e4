// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "machinewatch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

namespace Support {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// The text of a file of /proc, read again from its beginning; empty if there is no such file.
std::string textOf(int file)
{
    std::array<char, 512> buffer;
    const ssize_t length = file < 0 ? 0 : ::pread(file, buffer.data(), buffer.size(), 0);
    return std::string(buffer.data(), size_t(std::max<ssize_t>(length, 0)));
}

/// The number behind \a index other numbers and words of \a text, or 0.
qint64 numberAt(const std::string &text, int index)
{
    size_t position = 0;
    for (; index > 0 && position != std::string::npos; --index)
        position = text.find_first_not_of(' ', text.find(' ', position));
    return position == std::string::npos || text.empty() ? 0 : std::atoll(text.c_str() + position);
}

/// How long the host has run something else instead of this machine; the mean of all processors.
nanoseconds stolenTime(int stat)
{
    static const qint64 ticks = std::max(1L, ::sysconf(_SC_CLK_TCK)) * std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
    return nanoseconds(numberAt(textOf(stat), 8) * (nanoseconds(1s).count() / ticks));
}

/// How long a thread was ready to run, without a processor.
nanoseconds waitingTime(int schedstat)
{
    return nanoseconds(numberAt(textOf(schedstat), 1));
}

/// How long the threads of this program have run; the mean of all processors.
nanoseconds usedTime()
{
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec)) / std::thread::hardware_concurrency();
}

} // namespace

MachineWatch::MachineWatch()
    : m_stat(::open("/proc/stat", O_RDONLY | O_CLOEXEC))
    , m_creatorStat(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC))
    , m_thread([this] { watch(); })
{
}

MachineWatch::~MachineWatch()
{
    {
        const std::lock_guard lock(m_mutex);
        m_stopped = true;
    }
    m_stop.notify_one();
    m_thread.join();
    for (const int file : {m_stat, m_creatorStat}) {
        if (file >= 0)
            ::close(file);
    }
}

std::chrono::milliseconds MachineWatch::longestPause()
{
    std::unique_lock lock(m_mutex);
    completeRound(&lock);
    return std::chrono::duration_cast<std::chrono::milliseconds>(m_longest);
}

void MachineWatch::reset()
{
    std::unique_lock lock(m_mutex);
    completeRound(&lock);
    m_longest = 0ns;
}

/// After a pause, this thread may run before the watching thread has recorded the pause.
void MachineWatch::completeRound(std::unique_lock<std::mutex> *lock)
{
    const qint64 round = m_rounds + 2; // the first that begins after this
    m_roundAskedFor = round;
    m_roundEnded.wait(*lock, [&] { return m_rounds >= round; });
}

void MachineWatch::watch()
{
    auto time = std::chrono::steady_clock::now();
    nanoseconds stolen = stolenTime(m_stat);
    nanoseconds waiting = waitingTime(m_creatorStat);
    nanoseconds used = usedTime();
    std::unique_lock lock(m_mutex);
    while (!m_stop.wait_for(lock, 1ms, [this] { return m_stopped; })) {
        const auto now = std::chrono::steady_clock::now();
        const nanoseconds waitingNow = waitingTime(m_creatorStat);
        const nanoseconds usedNow = usedTime();
        nanoseconds pause = std::max(nanoseconds(now - time) - 1ms, waitingNow - waiting) - (usedNow - used);
        time = now;
        waiting = waitingNow;
        used = usedNow;
        ++m_rounds;
        // The kernel counts stolen time in hundredths of a second.
        if (m_rounds % 100 == 0 || m_rounds == m_roundAskedFor) {
            const nanoseconds stolenNow = stolenTime(m_stat);
            pause = std::max(pause, stolenNow - stolen);
            stolen = stolenNow;
        }
        m_longest = std::max(m_longest, pause);
        m_roundEnded.notify_all();
    }
}

} // namespace Support
