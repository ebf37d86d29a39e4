// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/masterconfirmation.h"

#include "redis/topology/sentinelwatch.h"

#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

LockEngine::Completion MasterConfirmation::of(LockEngine::Completion completion)
{
    return [this, completion = std::move(completion)](const EngineReply &reply) {
        if (reply.status != EngineReply::Granted && reply.status != EngineReply::Done) {
            completion(reply);
            return;
        }
        ask([reply, completion](const QString &problem) {
            EngineReply failed;
            failed.error = EngineError::passing(DistributedLock::QuorumError,
                                                u"no majority of the Sentinels confirms the master: "_s + problem)
                                   .maybeExecuted();
            completion(problem.isEmpty() ? reply : failed);
        });
    };
}

void MasterConfirmation::ask(Verdict verdict)
{
    m_asking.push_back(std::move(verdict));
    if (m_asking.size() > 1)
        return;
    QMetaObject::invokeMethod(
            this,
            [this] {
                m_watch->confirm([verdicts = std::exchange(m_asking, {})](const QString &problem) {
                    for (const auto &verdict : verdicts)
                        verdict(problem);
                });
            },
            Qt::QueuedConnection);
}

} // namespace QDistLock
