// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/resolvedaddress.h"

#include "engine/lockid.h"
#include "engine/servername.h"

#include <QDistLock/lockregistry.h>

namespace QDistLock {

LockAddress resolved(const LockAddress &address)
{
    const QUrl server = address.server();
    const QString prefix = address.keyPrefix();
    return address.withServer(server.isEmpty() ? LockRegistry::defaultServer() : normalizedServer(server))
            .withKeyPrefix(prefix.isNull() ? LockId::defaultPrefix() : prefix);
}

bool isSameLock(const LockAddress &first, const LockAddress &second)
{
    // Usually the prefixes are the same, and no string has to be built.
    const bool haveSameKey = first.keyPrefix() == second.keyPrefix() ? first.name() == second.name()
                                                                     : keyOf(first) == keyOf(second);
    return haveSameKey && isSameLockSpace(first.server(), second.server());
}

} // namespace QDistLock
