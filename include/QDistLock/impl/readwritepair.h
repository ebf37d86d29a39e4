// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_READWRITEPAIR_H
#define QDISTLOCK_IMPL_READWRITEPAIR_H

#include <QDistLock/distributedlock.h>

namespace QDistLock::Detail {

/// Makes two locks those of a ReadWriteLock, for locks of another class: they have one owner, and fixed modes. Must be
/// called before their first acquire. The caller gives both the same name and registry.
QDISTLOCK_EXPORT void makeReadWritePair(DistributedLock *readLock, DistributedLock *writeLock);

} // namespace QDistLock::Detail

#endif
