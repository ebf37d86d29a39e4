// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/lockengine.h"

using namespace Qt::StringLiterals;

namespace QDistLock {

LockEngine::LockEngine(const QByteArray &clientId, QObject *parent)
    : QObject(parent)
    , m_tokens(clientId)
{
}

QString LockEngine::replicasUnsupported(const LockOptions &options)
{
    if (options.minReplicas == 0)
        return QString();
    return u"minReplicas is %1; waiting for replicas is not supported in this version"_s.arg(options.minReplicas);
}

bool LockEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    inspect(waiter.lock, [completion = std::move(completion)](const EngineError &error, const LockInfo &lock) {
        completion(error ? std::nullopt : std::optional(lock));
    });
    return true;
}

} // namespace QDistLock
