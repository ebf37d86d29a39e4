// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/masterconfirmation.h"

#include "redis/topology/sentinelwatch.h"

#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

LockEngine::Completion MasterConfirmation::ofRenewal(LockEngine::Completion completion)
{
    return [this, completion = std::move(completion)](const EngineReply &reply) {
        if (reply.status == EngineReply::Done)
            holdBack(reply, completion);
        else
            completion(reply);
    };
}

LockEngine::Completion MasterConfirmation::ofAcquire(LockEngine::Completion completion)
{
    return [this, completion = std::move(completion)](const EngineReply &reply) {
        if (reply.status == EngineReply::Granted && !m_watch->isAgreed())
            holdBack(reply, completion);
        else
            completion(reply);
    };
}

void MasterConfirmation::holdBack(const EngineReply &reply, const LockEngine::Completion &completion)
{
    m_heldBack.push_back({reply, completion});
    if (m_heldBack.size() == 1)
        QMetaObject::invokeMethod(
                this, [this] { ask(); }, Qt::QueuedConnection);
}

void MasterConfirmation::ask()
{
    m_watch->confirm([heldBack = std::exchange(m_heldBack, {})](const QString &problem) {
        EngineReply failed;
        failed.error = EngineError::passing(DistributedLock::QuorumError,
                                            u"no majority of the Sentinels confirms the master: "_s + problem)
                               .maybeExecuted();
        for (const auto &[reply, completion] : heldBack)
            completion(problem.isEmpty() ? reply : failed);
    });
}

} // namespace QDistLock
