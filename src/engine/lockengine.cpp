// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/lockengine.h"

namespace QDistLock {

bool LockEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    inspect(waiter.lock, [completion = std::move(completion)](const EngineError &error, const LockInfo &lock) {
        completion(error ? std::nullopt : std::optional(lock));
    });
    return true;
}

} // namespace QDistLock
