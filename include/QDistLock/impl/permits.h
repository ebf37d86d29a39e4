// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_PERMITS_H
#define QDISTLOCK_IMPL_PERMITS_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qlist.h>

namespace QDistLock::Detail {

/// What Semaphore::setPermits() and setTake() do, for a lock of another class. Unlike DistributedLock::setOptions(), it
/// leaves the other options to the defaults of the registry.
QDISTLOCK_EXPORT void setPermits(DistributedLock *lock, int permits, int take);
/// As Semaphore::heldSlots(), for a lock for which setPermits() was called.
QDISTLOCK_EXPORT QList<int> heldSlots(const DistributedLock *lock);

} // namespace QDistLock::Detail

#endif
