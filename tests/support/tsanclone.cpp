// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// QProcess starts programs with clone(CLONE_VM | CLONE_VFORK): its child shares the parent's memory until exec.
// ThreadSanitizer takes that for a fork and, if there are threads, ignores everything the child does afterwards. As the
// memory is shared, it then ignores the parent's thread, too: the locks of that thread no longer count, and data that
// it hands to other threads is reported as a race. This function calls the C library directly, without ThreadSanitizer.

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
