// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "background/lockhold.h"

#include "background/lockservice.h"
#include "base/forkcount.h"

using std::chrono::milliseconds;

namespace QDistLock {

static bool wait(QSemaphore *semaphore, std::optional<milliseconds> timeout)
{
    if (timeout)
        return semaphore->tryAcquire(1, int(timeout->count()));
    semaphore->acquire();
    return true;
}

void LockHold::release()
{
    if (!m_acquisition->abandoned.exchange(true))
        LockService::instance()->release(m_acquisition);
}

bool LockHold::releaseAndWait(std::optional<milliseconds> timeout)
{
    Q_ASSERT(!LockService::instance()->isCurrentThread());
    const bool held = isHeld();
    if (m_acquisition->abandoned.exchange(true) || m_acquisition->forks != forkCount())
        return false;
    LockService::instance()->release(m_acquisition);
    return wait(&m_acquisition->holdEnded, timeout) && held && m_acquisition->releaseConfirmed.load();
}

bool LockHold::waitUntilEnded(std::optional<milliseconds> timeout)
{
    Q_ASSERT(!LockService::instance()->isCurrentThread());
    return wait(&m_acquisition->acquireEnded, timeout);
}

bool LockHold::reenter()
{
    int levels = m_levels.load();
    while (levels > 0 && !m_levels.compare_exchange_weak(levels, levels + 1)) {
    }
    return levels > 0;
}

} // namespace QDistLock
