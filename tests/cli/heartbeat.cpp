// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Writes the time to a file, again and again until it is killed, for two minutes at most: a proof of life that does not
// depend on when somebody else notices its death. The file has the name by which the program was started, and ".time"
// behind it; several processes may share it, which then has the latest time.

#include <atomic>
#include <cstdint>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(int, char **argv)
{
    using Beat = std::atomic<std::int64_t>;
    const int file = ::open((std::string(argv[0]) + ".time").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::ftruncate(file, sizeof(Beat)) != 0)
        return 1;
    void *const memory = ::mmap(nullptr, sizeof(Beat), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return 1;
    ::alarm(120); // whatever becomes of the test
    Beat &beat = *static_cast<Beat *>(memory);
    for (;;) {
        timespec time = {};
        ::clock_gettime(CLOCK_BOOTTIME, &time);
        const std::int64_t now = std::int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
        std::int64_t last = beat.load();
        while (last < now && !beat.compare_exchange_weak(last, now)) {
        }
        const timespec pause{0, 3'000'000};
        ::nanosleep(&pause, nullptr);
    }
}
