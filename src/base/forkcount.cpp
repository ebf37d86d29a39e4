// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/forkcount.h"

#include <QtCore/qsystemdetection.h>

#include <atomic>

#ifdef Q_OS_UNIX
#  include <pthread.h>
#endif

namespace {

std::atomic<int> forks{0};

} // namespace

int forkCount()
{
#ifdef Q_OS_UNIX
    static const int counting = ::pthread_atfork(nullptr, nullptr,
                                                 [] { forks.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(counting);
#endif
    return forks.load(std::memory_order_relaxed);
}
