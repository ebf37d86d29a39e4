// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/semaphoreerrors.h"

#include <QDistLock/lockoptions.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

EngineError SemaphoreErrors::wrongPermits(int serverPermits, int said, int take)
{
    const auto error = [](const QString &text) { return EngineError::permanent(DistributedLock::OptionsError, text); };
    if (serverPermits == 0) {
        return error(
                u"permits is LockOptions::ServerPermits, but the server has no number for this name; say a number, or set it with LockRegistry::setPermits()"_s);
    }
    if (said != LockOptions::ServerPermits && said != serverPermits) {
        return error(
                u"permits is %1, but the server has %2 for this name; use the same number or LockOptions::ServerPermits, or change the server's with LockRegistry::setPermits()"_s
                        .arg(said)
                        .arg(serverPermits));
    }
    return error(
            u"take is %1, but the server has %2 permits for this name, so it would wait for ever; take fewer, or change the number with LockRegistry::setPermits()"_s
                    .arg(take)
                    .arg(serverPermits));
}

EngineError SemaphoreErrors::otherKind(bool heldByReaders)
{
    return EngineError::permanent(
            DistributedLock::OptionsError,
            heldByReaders
                    ? u"it is held by readers, and a name has either readers or permits; use another name for the semaphore"_s
                    : u"it is held by holders of permits, and a name has either readers or permits; use another name for readers"_s);
}

} // namespace QDistLock
