// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// QProcess starts programs with clone(CLONE_VM | CLONE_VFORK): its child shares the parent's memory until exec.
// ThreadSanitizer takes it for a fork and, where there are threads, lets the child ignore all it does from then on.
// In shared memory that is what the parent's thread does, too: afterwards no lock that it takes counts, and what
// it hands to other threads is reported as a race. This goes past ThreadSanitizer, to the C library.

#include <cstdarg>

#include <sys/types.h>

extern "C" int __clone(int (*function)(void *), void *stack, int flags, void *argument, pid_t *parent, void *tls,
                       pid_t *child);

extern "C" __attribute__((visibility("default"))) int clone(int (*function)(void *), void *stack, int flags,
                                                            void *argument, ...)
{
    va_list rest;
    va_start(rest, argument);
    auto *const parent = va_arg(rest, pid_t *);
    auto *const tls = va_arg(rest, void *);
    auto *const child = va_arg(rest, pid_t *);
    va_end(rest);
    return __clone(function, stack, flags, argument, parent, tls, child);
}
