// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/replicalane.h"

#include "engine/redis/clientname.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// A server that does not say how many replicas it has: WAIT finds out.
constexpr int UnknownReplicas = (std::numeric_limits<int>::max)();

/// From the reply to ROLE.
int countReplicas(const QtRedis::Reply &role)
{
    const auto &elements = role.elements;
    if (role.isError() || elements.size() < 3 || elements.at(0).text != "master")
        return UnknownReplicas;
    return int(elements.at(2).elements.size());
}

} // namespace

milliseconds ReplicaLane::longestWait(milliseconds replicaTimeout, milliseconds lease)
{
    // WAIT must leave enough of the lease, and it delays the other locks of this lane. WAIT 0 would never time out.
    return std::clamp<milliseconds>(std::min(replicaTimeout, lease / 6), 1ms, LongestTimeout);
}

ReplicaLane::ReplicaLane(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId)
    : m_lane(server, clock, clientId, [this] { return m_outstanding > 0 || !m_waiting.empty() || !m_unsure.isEmpty(); })
{
    m_lane.setConnectionName(ClientName{clientId, {}}.toByteArray() + "-wait");
    connect(&m_lane, &RedisLane::stateChanged, this, &ReplicaLane::stateChanged);
    connect(&m_lane, &RedisLane::failed, this, &ReplicaLane::connectionFailed);
    connect(&m_lane, &RedisLane::failed, this, &ReplicaLane::failed);
    connect(&m_lane, &RedisLane::replied, this, &ReplicaLane::replied);
    connect(&m_lane, &RedisLane::readEnded, this, &ReplicaLane::readEnded);
    connect(&m_lane, &RedisLane::waiterPolled, this, &ReplicaLane::waiterPolled);
    m_unusedTimer.setSingleShot(true);
    m_unusedTimer.setInterval(1min);
    connect(&m_unusedTimer, &QTimer::timeout, this, [this] {
        if (m_outstanding == 0 && m_waiting.empty())
            Q_EMIT unused();
    });
}

void ReplicaLane::acquire(const LockEngine::Acquire &operation, LockEngine::Completion completion)
{
    enqueue({operation, false, std::move(completion)});
}

void ReplicaLane::renew(const LockId &lock, const QByteArray &token, milliseconds lease,
                        const LockEngine::Replicas &replicas, LockEngine::Completion completion)
{
    LockEngine::Acquire operation{lock, token, lease};
    operation.replicas = replicas;
    enqueue({operation, true, std::move(completion)});
}

void ReplicaLane::enqueue(Operation operation)
{
    LockEngine::Replicas &replicas = operation.acquire.replicas;
    replicas.timeout = longestWait(replicas.timeout, operation.acquire.lease);
    m_waiting.push_back(std::move(operation));
    scheduleFlush();
}

void ReplicaLane::scheduleFlush()
{
    m_unusedTimer.start();
    if (!m_isCorked)
        m_postedFlush.post();
}

void ReplicaLane::uncork()
{
    m_isCorked = false;
    flush();
}

void ReplicaLane::flush()
{
    if (m_waiting.empty() || m_outstanding > 0 || m_isRoleAsked)
        return;
    if (!m_lane.isReady())
        m_lane.open(); // stateChanged() or failed() continues
    else if (hasEnoughReplicas())
        startRound();
    else
        askRole();
}

void ReplicaLane::forget(const QByteArray &token)
{
    const auto first = std::stable_partition(m_waiting.begin(), m_waiting.end(), [&token](const Operation &operation) {
        return operation.acquire.token != token;
    });
    const auto error = EngineError::passing(DistributedLock::CancelledError, u"nobody wants the lock any more"_s);
    for (auto it = first; it != m_waiting.end(); ++it) {
        QMetaObject::invokeMethod(
                this, [this, operation = *it, error] { operation.completion(failure(operation, error)); },
                Qt::QueuedConnection);
    }
    m_waiting.erase(first, m_waiting.end());
}

void ReplicaLane::stateChanged()
{
    m_replicas.reset();
    if (!m_lane.isReady())
        return;
    const auto sequences = std::exchange(m_unsure, {});
    for (const quint64 sequence : sequences)
        Q_EMIT served(sequence);
    flush();
}

/// The callers know better whether to try again.
void ReplicaLane::connectionFailed()
{
    const auto operations = std::exchange(m_waiting, {});
    for (const Operation &operation : operations) {
        EngineReply reply;
        reply.error = m_lane.error();
        operation.completion(reply);
    }
}

bool ReplicaLane::hasEnoughReplicas() const
{
    return std::all_of(m_waiting.begin(), m_waiting.end(), [this](const Operation &operation) {
        return operation.acquire.replicas.minimum <= m_replicas.value_or(0);
    });
}

void ReplicaLane::askRole()
{
    m_isRoleAsked = true;
    m_lane.sendAfterOperations({"ROLE"}, LongestTimeout, [this](const QtRedis::CommandResult &result) {
        m_isRoleAsked = false;
        if (result.outcome != QtRedis::CommandResult::Replied)
            return scheduleFlush(); // unless failed() ends the operations
        m_replicas = countReplicas(result.reply);
        startRound();
    });
    m_lane.flush();
}

void ReplicaLane::startRound()
{
    const auto operations = std::exchange(m_waiting, {});
    const int connected = *m_replicas;
    std::map<std::pair<int, milliseconds>, GroupPointer> groups; // in the order in which their WAITs end
    std::vector<OperationPointer> refused;
    m_waitTime = 0ms;
    m_lane.cork();
    for (const Operation &operation : operations) {
        const LockEngine::Replicas &replicas = operation.acquire.replicas;
        ++m_outstanding;
        if (!operation.isRenewal && replicas.minimum > connected) {
            refused.push_back(std::make_shared<const Operation>(operation));
            continue;
        }
        GroupPointer &group = groups[{replicas.minimum, replicas.timeout}];
        if (!group) {
            group = std::make_shared<Group>();
            group->replicas = replicas;
            if (replicas.minimum > connected)
                group->tooFew = connected;
        }
        send(std::make_shared<const Operation>(operation), group);
    }
    for (const auto &[demand, group] : groups) {
        if (!group->tooFew && !m_lane.isPlain()) // without scripts, nothing is written before a reply
            sendWait(group);
    }
    m_lane.uncork();
    for (const OperationPointer &operation : refused)
        finish(operation, failure(*operation, notConnected(connected, operation->acquire.replicas.minimum)));
    endRoundIfDone();
}

void ReplicaLane::send(const OperationPointer &operation, const GroupPointer &group)
{
    ++group->unanswered;
    const LockEngine::Acquire &acquire = operation->acquire;
    auto completion = [this, operation, group](const EngineReply &reply) { operationReplied(operation, group, reply); };
    if (operation->isRenewal)
        m_lane.renew(acquire.lock, acquire.token, acquire.lease, std::move(completion));
    else
        m_lane.acquire(acquire, std::move(completion));
}

void ReplicaLane::operationReplied(const OperationPointer &operation, const GroupPointer &group,
                                   const EngineReply &reply)
{
    --group->unanswered;
    const quint64 sequence = Token::sequenceOf(operation->acquire.token);
    if (reply.status == EngineReply::Granted || reply.queuePosition >= 0)
        Q_EMIT served(sequence);
    if (!operation->isRenewal && reply.error.isMaybeExecuted)
        m_unsure.insert(sequence);

    if (reply.status != EngineReply::Granted && reply.status != EngineReply::Done)
        finish(operation, reply);
    else if (group->tooFew)
        finish(operation, failure(*operation, notConnected(*group->tooFew, group->replicas.minimum)));
    else
        group->executed.emplace_back(operation, reply);
    // A script that the server did not know was sent again, behind the WAIT; without scripts, there was none.
    if (group->unanswered == 0 && !group->isWaiting && !group->executed.empty()) {
        sendWait(group);
        m_lane.flush();
    }
    endRoundIfDone();
}

void ReplicaLane::sendWait(const GroupPointer &group)
{
    ++m_outstanding;
    group->isWaiting = true;
    const milliseconds timeout = group->replicas.timeout;
    // The WAITs of a round run one after the other. As for the operations, the server may be late by a lease or so.
    m_waitTime += timeout;
    m_lane.sendAfterOperations(
            {"WAIT", QByteArray::number(group->replicas.minimum), QByteArray::number(qint64(timeout.count()))},
            m_waitTime + std::clamp<milliseconds>(6 * timeout, 1s, LongestTimeout),
            [this, group](const QtRedis::CommandResult &result) { waitReplied(group, result); });
}

void ReplicaLane::waitReplied(const GroupPointer &group, const QtRedis::CommandResult &result)
{
    --m_outstanding;
    group->isWaiting = false;
    const bool isReplied = result.outcome == QtRedis::CommandResult::Replied;
    const int count = isReplied && !result.reply.isError() ? int(result.reply.integer) : 0;
    EngineError error;
    if (!isReplied || result.reply.isError())
        error = m_lane.errorOf(result, "WAIT");
    else if (count < group->replicas.minimum)
        error = unconfirmed(count, group->replicas);
    if (error)
        m_replicas.reset();
    const auto executed = std::exchange(group->executed, {});
    for (const auto &[operation, reply] : executed) {
        EngineReply failed = failure(*operation, error);
        if (!operation->isRenewal && isReplied)
            failed.status = EngineReply::Unconfirmed;
        failed.error.isMaybeExecuted = true;
        finish(operation, error ? failed : reply);
    }
    endRoundIfDone();
}

void ReplicaLane::finish(const OperationPointer &operation, const EngineReply &reply)
{
    --m_outstanding;
    operation->completion(reply);
}

void ReplicaLane::endRoundIfDone()
{
    if (m_outstanding == 0)
        scheduleFlush();
}

/// Only an acquire ends for good: the lock is held, and the replica may be back in time for the next renewal.
EngineReply ReplicaLane::failure(const Operation &operation, const EngineError &error) const
{
    EngineReply reply;
    reply.error = error;
    reply.error.isPermanent &= !operation.isRenewal || error.code != DistributedLock::ReplicationError;
    return reply;
}

EngineError ReplicaLane::unconfirmed(int count, const LockEngine::Replicas &replicas) const
{
    const QString text =
            u"%1 of %2 replicas of the server %3 have it after %4 ms; check that they are connected and do not lag behind, or ask for fewer with minReplicas"_s
                    .arg(count)
                    .arg(replicas.minimum)
                    .arg(m_lane.server().toDisplayString())
                    .arg(replicas.timeout.count());
    return EngineError::passing(DistributedLock::ReplicationError, text).ofServer();
}

EngineError ReplicaLane::notConnected(int count, int minimum) const
{
    const QString text =
            u"minReplicas is %1, but only %2 are connected to the server %3; connect more replicas, or ask for fewer"_s
                    .arg(minimum)
                    .arg(count)
                    .arg(m_lane.server().toDisplayString());
    return EngineError::permanent(DistributedLock::ReplicationError, text).ofServer();
}

} // namespace QDistLock
