// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/masterconfirmation.h"

#include "redis/topology/sentinelwatch.h"

#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

void pass(const std::vector<MasterConfirmation::Verdict> &verdicts, const QString &problem)
{
    for (const auto &verdict : verdicts)
        verdict(problem);
}

} // namespace

MasterConfirmation::MasterConfirmation(QtRedis::SentinelWatch *watch, const QString &service)
    : m_watch(watch)
    , m_service(service)
{
    connect(watch, &QtRedis::SentinelWatch::masterChanged, this, &MasterConfirmation::masterChanged);
}

// A grant that is not confirmed is given back: otherwise a client that is cut off from the Sentinels would take the
// lock again and again, and keep it from those who reach them. If another master has been named, it may have the lock
// under this token: the attempt is repeated there.
LockEngine::Completion MasterConfirmation::of(LockEngine::Completion completion)
{
    return [this, completion = std::move(completion)](const EngineReply &reply) {
        if (reply.status != EngineReply::Granted && reply.status != EngineReply::Done) {
            completion(reply);
            return;
        }
        ask([this, reply, completion, replying = m_watch->master()](const QString &problem) {
            if (problem.isEmpty()) {
                completion(reply);
                return;
            }
            EngineReply failed;
            if (reply.status == EngineReply::Granted && replying && !isFormer(*replying))
                failed.status = EngineReply::Unconfirmed;
            failed.error = EngineError::passing(DistributedLock::QuorumError,
                                                u"no majority of the Sentinels of \"%1\" confirms the master: %2"_s.arg(
                                                        m_service, problem))
                                   .ofServer()
                                   .maybeExecuted();
            completion(failed);
        });
    };
}

// Not Failed where the Sentinels are merely silent: if this is the master, somebody else may acquire the lock by now,
// so the holder has to know. A release has time: because of the error, it asks again.
LockEngine::Completion MasterConfirmation::ofLoss(LockEngine::Completion completion)
{
    return [this, completion = std::move(completion)](const EngineReply &reply) {
        const auto replying = m_watch->master();
        if ((reply.status != EngineReply::Gone && reply.status != EngineReply::Stolen) || !replying) {
            completion(reply);
            return;
        }
        ask([this, reply, completion, replying = *replying](const QString &problem) {
            if (problem.isEmpty()) {
                completion(reply);
                return;
            }
            const bool isReplaced = isFormer(replying);
            EngineReply doubted = isReplaced ? EngineReply() : reply;
            doubted.error = EngineError::passing(
                                    DistributedLock::QuorumError,
                                    u"the server that reported a lock of \"%1\" as lost %2 the master: %3"_s.arg(
                                            m_service, isReplaced ? u"is no longer"_s : u"may no longer be"_s, problem))
                                    .ofServer();
            completion(doubted);
        });
    };
}

bool MasterConfirmation::isFormer(const QtRedis::SentinelMaster &replying) const
{
    const auto &master = m_watch->master();
    return !master || !master->isSame(replying);
}

void MasterConfirmation::ask(Verdict verdict)
{
    m_asking.push_back(std::move(verdict));
    if (m_asking.size() > 1)
        return;
    QMetaObject::invokeMethod(
            this,
            [this] {
                if (!m_asking.empty())
                    m_watch->confirm([verdicts = std::exchange(m_asking, {})](const QString &problem) {
                        pass(verdicts, problem);
                    });
            },
            Qt::QueuedConnection);
}

// The question would be about the new master, which has said none of this.
void MasterConfirmation::masterChanged()
{
    QMetaObject::invokeMethod(
            this,
            [verdicts = std::exchange(m_asking, {})] {
                pass(verdicts, u"the Sentinels have reported another one meanwhile"_s);
            },
            Qt::QueuedConnection);
}

} // namespace QDistLock
