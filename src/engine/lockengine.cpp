// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/lockengine.h"

#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

bool LockEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    inspect(waiter.lock, [completion = std::move(completion)](const EngineError &error, const LockInfo &lock) {
        completion(error ? std::nullopt : std::optional(lock));
    });
    return true;
}

void LockEngine::convert(const Acquire &, const QByteArray &, Completion completion)
{
    EngineReply reply;
    reply.error = EngineError::permanent(DistributedLock::OptionsError, noReaders(u"this server has none"_s));
    QMetaObject::invokeMethod(
            this, [completion = std::move(completion), reply] { completion(reply); }, Qt::QueuedConnection);
}

QString LockEngine::noReaders(const QString &reason)
{
    return u"LockOptions::Shared is not available here: %1; use redis://, rediss://, unix://, redis+sentinel://, redis+cluster:// or memory:"_s
            .arg(reason);
}

} // namespace QDistLock
