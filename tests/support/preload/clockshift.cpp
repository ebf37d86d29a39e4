// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Preloaded into a program, this changes its wall clock by the contents of the file named by CLOCKSHIFT_FILE, native
// 64-bit integers, read at each call: nanoseconds by which it is shifted; the real time, in nanoseconds, from which on
// it is slow; how many times slower it is (0 or 1: not at all). The last two may be missing. Other clocks are not
// changed.

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

namespace {

using Number = std::atomic<std::int64_t>;
struct Shift
{
    Number by;
    Number slowFrom;
    Number slowness;
};

const Shift *mapped()
{
    const char *name = std::getenv("CLOCKSHIFT_FILE");
    const int fd = name ? ::open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return nullptr;
    void *memory = ::mmap(nullptr, sizeof(Shift), PROT_READ, MAP_SHARED, fd, 0);
    ::close(fd);
    return memory == MAP_FAILED ? nullptr : static_cast<const Shift *>(memory);
}

timespec wallTime()
{
    static const Shift *const shift = mapped();
    timespec time{};
    ::syscall(SYS_clock_gettime, CLOCK_REALTIME, &time);
    std::int64_t nanoseconds = time.tv_sec * INT64_C(1'000'000'000) + time.tv_nsec;
    if (shift) {
        const std::int64_t slowness = shift->slowness.load(std::memory_order_relaxed);
        const std::int64_t from = shift->slowFrom.load(std::memory_order_relaxed);
        if (slowness > 1 && nanoseconds > from)
            nanoseconds = from + (nanoseconds - from) / slowness;
        nanoseconds += shift->by.load(std::memory_order_relaxed);
    }
    return {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
}

} // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec *time) noexcept
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return int(::syscall(SYS_clock_gettime, clock, time));
    *time = wallTime();
    return 0;
}

int gettimeofday(timeval *time, void *) noexcept
{
    const timespec now = wallTime();
    *time = {now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *time) noexcept
{
    const timespec now = wallTime();
    if (time)
        *time = now.tv_sec;
    return now.tv_sec;
}
}
