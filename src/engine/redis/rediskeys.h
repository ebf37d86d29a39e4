// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockid.h"

/*!
    The keys in which Redis keeps a lock, see docs/protocol.md: its own is LockId::key(), a string with the holder's
    token; its side keys lie in the same cluster slot. Thread-safe.
*/
namespace QDistLock::RedisKeys {

/// The zset of waiting tokens.
QByteArray queue(const LockId &lock);
/// The last fencing token given out.
QByteArray fence(const LockId &lock);
/// The number of permits of a semaphore.
QByteArray permits(const LockId &lock);
/// Never exists. So a node of a cluster refuses each command that names it while the slot is moving to another node.
QByteArray absent(const LockId &lock);

/// Why \a lock cannot be kept in Redis, in words; empty if it can: the side keys must lie in the slot of the lock's key
/// and must not be keys of another lock.
QString problem(const LockId &lock);

} // namespace QDistLock::RedisKeys
