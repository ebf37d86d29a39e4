// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockaddress.h>

namespace QDistLock {

/// \a address with everything that it leaves to the library: the key prefix is not null, and the server is not empty
/// and spelt as normalizedServer() does.
LockAddress resolved(const LockAddress &address);

/// Key prefix and name of a resolved address: locks of one server with the same key are the same lock.
inline QString keyOf(const LockAddress &address)
{
    return address.keyPrefix() + address.name();
}

/// Whether two resolved addresses are those of one lock.
bool isSameLock(const LockAddress &first, const LockAddress &second);

} // namespace QDistLock
