// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A child of `qdistlock run` that prints each signal it gets, and exits with 0 at the end of its standard input. With
// arguments: it does not catch the signals of these numbers.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <signal.h>
#include <unistd.h>

namespace {

void report(int number)
{
    const int error = errno;
    char line[] = "signal 00\n";
    line[7] = char('0' + number / 10);
    line[8] = char('0' + number % 10);
    [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line, std::strlen(line));
    errno = error;
}

} // namespace

int main(int argc, char **argv)
{
    sigset_t mask;
    ::sigprocmask(SIG_BLOCK, nullptr, &mask);
    for (int number = 1; number < NSIG; ++number) {
        if (::sigismember(&mask, number) == 1)
            std::printf("blocked %d\n", number);
        struct sigaction action = {};
        if (::sigaction(number, nullptr, &action) != 0)
            continue;
        if (action.sa_handler == SIG_IGN)
            std::printf("ignored %d\n", number);
        bool isCaught = number != SIGKILL && number != SIGSTOP && number != SIGCHLD && action.sa_handler != SIG_IGN;
        for (int i = 1; i < argc; ++i)
            isCaught = isCaught && std::atoi(argv[i]) != number;
        action = {};
        action.sa_handler = report;
        ::sigfillset(&action.sa_mask);
        if (isCaught)
            ::sigaction(number, &action, nullptr);
    }
    std::printf("pid=%d\ngroup=%d\nready\n", int(::getpid()), int(::getpgrp()));
    std::fflush(stdout);
    char byte;
    for (;;) {
        const ssize_t size = ::read(STDIN_FILENO, &byte, 1);
        if (size == 0 || (size < 0 && errno != EINTR && errno != EIO))
            return 0;
        if (size < 0 && errno == EIO)
            ::pause(); // the terminal belongs to another job
    }
}
