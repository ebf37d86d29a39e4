// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qsystemdetection.h>

#include <mutex>

#ifdef Q_OS_UNIX
#  include <pthread.h>
#endif

namespace QDistLock {

/// From now on the mutex that \a get returns can be used in a child process after fork(), which copies the mutex: if
/// another thread had locked it at that moment, nobody would unlock the copy. Called once for each mutex.
template<std::mutex &(*get)()>
void makeForkSafe()
{
#ifdef Q_OS_UNIX
    ::pthread_atfork([] { get().lock(); }, [] { get().unlock(); }, [] { get().unlock(); });
#endif
}

} // namespace QDistLock
