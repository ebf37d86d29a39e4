// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The critical section of the form "run": the child of `qdistlock run`. It writes to the guarded resource, at its begin
// and at its end, and reports to descriptor 3 what it does, with the times at which it did it:
//   acquired TOKEN TIME, held TIME, write FROM TO READ REPLACED ACCEPTED SEQUENCE, released TIME
// Between, it waits for "go [FAULT]" on its standard input. The faults: stop (and "section stopped" and "section
// continued" are reported), die (qdistlock is killed), block MS.
// Usage: chaossection RESOURCE LOCK MICROSECONDS obedient|stubborn; stubborn children ignore SIGTERM and SIGINT.

#include "guardedresource.h"
#include "history.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr int ReportFd = 3;
constexpr long long ReportInterval = 5'000; // microseconds

void report(const char *what, std::initializer_list<long long> numbers = {})
{
    std::string line = what;
    for (const long long number : numbers)
        line += ' ' + std::to_string(number);
    line += '\n';
    // Nobody reads it any more: nothing that happens from now on would be known.
    if (::write(ReportFd, line.data(), line.size()) != ssize_t(line.size()))
        std::_Exit(1);
}

void pause(long long microseconds)
{
    timespec rest{time_t(microseconds / 1'000'000), long(microseconds % 1'000'000) * 1000};
    while (::nanosleep(&rest, &rest) != 0) {
    }
}

/// The line from standard input; ends the process if there is none.
std::string readOrder()
{
    std::string line;
    char c;
    while (::read(STDIN_FILENO, &c, 1) == 1) {
        if (c == '\n')
            return line;
        line += c;
    }
    std::_Exit(1);
}

void apply(const std::string &fault)
{
    if (fault == "stop") {
        report("section stopped");
        ::raise(SIGSTOP);
        report("section continued");
    } else if (fault == "die") {
        ::kill(::getppid(), SIGKILL);
    } else if (fault.rfind("block ", 0) == 0) {
        pause(std::atoll(fault.c_str() + 6) * 1000);
    }
    if (!fault.empty())
        report("held", {Chaos::bootTime()});
}

} // namespace

int main(int argc, char **argv)
{
    const char *const token = std::getenv("QDISTLOCK_FENCE");
    if (argc != 5 || !token)
        return 64;
    if (std::strcmp(argv[4], "stubborn") == 0) {
        for (const int number : {SIGTERM, SIGINT})
            ::signal(number, SIG_IGN);
    }
    ::signal(SIGPIPE, SIG_IGN);
    const long long fence = std::atoll(token);
    report("acquired", {fence, Chaos::bootTime()});
    const QByteArray lock(argv[2]);
    Chaos::GuardedResource resource(QString::fromLocal8Bit(argv[1]));
    const std::string order = readOrder();

    const auto write = [&](const std::string &fault) {
        const qint64 from = Chaos::bootTime();
        const qint64 read = resource.counter(lock);
        apply(fault);
        const Chaos::GuardedResource::Written written = resource.write(lock, fence);
        const qint64 replaced = resource.setCounter(lock, read + 1);
        report("write", {from, Chaos::bootTime(), read, replaced, written.accepted, written.sequence});
    };
    write(order.size() > 3 ? order.substr(3) : std::string());
    long long rest = std::atoll(argv[3]);
    if (rest > 0) {
        for (; rest > 0; rest -= ReportInterval) {
            pause(std::min(rest, ReportInterval));
            report("held", {Chaos::bootTime()});
        }
        write(std::string());
    }
    report("released", {Chaos::bootTime()});
    return 0;
}
