// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/postedcall.h"
#include "engine/lockengine.h"
#include "engine/redis/redislane.h"

#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <memory>
#include <optional>
#include <vector>

namespace QDistLock {

/*!
    The acquires and renewals of locks with minReplicas, over a separate connection to the master: WAIT holds up every
    command behind it on its connection.

    Operations are sent in rounds. A round is one write with all operations that were requested since the last round
    began, and then one WAIT for each of the different demands among them, usually a single one. The next round begins
    when every WAIT has its reply. An operation that took effect ends when its WAIT does; any other ends at once.

    If the server has too few replicas, no WAIT is sent: an acquire is not sent either, and a renewal ends as Failed.
    ROLE reports their number, and is sent before the first round and each time there were too few.

    Connects when it is first used. Thread: the one it lives in.
*/
class ReplicaLane : public QObject
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    ReplicaLane(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId);

    // As those of LockEngine.
    void acquire(const LockEngine::Acquire &operation, LockEngine::Completion completion);
    void renew(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
               const LockEngine::Replicas &replicas, LockEngine::Completion completion);
    /// As QtRedis::Connection::setServer().
    void setServer(const QtRedis::ServerUrl &server, const QString &reason) { m_lane.setServer(server, reason); }
    void cork() { m_isCorked = true; }
    void uncork();
    bool isReading() const { return m_lane.isReading(); }

    /// Starts a round with the operations requested so far, unless one is in progress.
    void flush();
    /// Operations with this token that were not sent yet end as Failed: nobody wants the token any more.
    void forget(const QByteArray &token);
    /// The number of the connection on the server while commands without a reply are in flight; otherwise 0.
    qint64 busyConnection() const { return m_outstanding > 0 ? m_lane.connectionId() : 0; }
    /// unused() is emitted when there was no operation for this long. Default: 1 min.
    void setUnusedAfter(std::chrono::milliseconds time) { m_unusedTimer.setInterval(time); }

    /// How long WAIT may take for a lock with this \a lease.
    static std::chrono::milliseconds longestWait(std::chrono::milliseconds replicaTimeout,
                                                 std::chrono::milliseconds lease);

Q_SIGNALS:
    /// An acquire with the token of this sequence number took the lock or joined the queue, or may have. A cancel over
    /// another connection may have run before it.
    void served(quint64 sequence);
    void unused();
    // As those of RedisLane.
    void failed();
    void replied();
    void readEnded();
    void waiterPolled();

private:
    struct Operation
    {
        LockEngine::Acquire acquire; ///< a renewal: lock, token, lease and replicas of it
        bool isRenewal;
        LockEngine::Completion completion;
    };
    using OperationPointer = std::shared_ptr<const Operation>;

    /// The operations of a round that need the same replicas within the same time.
    struct Group
    {
        LockEngine::Replicas replicas;
        int unanswered = 0; ///< operations without a reply
        bool isWaiting = false;
        std::optional<int> tooFew; ///< no WAIT, because the server has only that many replicas
        std::vector<std::pair<OperationPointer, EngineReply>> executed; ///< operations that wait for replicas
    };
    using GroupPointer = std::shared_ptr<Group>;

    void enqueue(Operation operation);
    void scheduleFlush();
    void stateChanged();
    void connectionFailed();
    bool hasEnoughReplicas() const;
    void askRole();
    void startRound();
    void send(const OperationPointer &operation, const GroupPointer &group);
    void operationReplied(const OperationPointer &operation, const GroupPointer &group, const EngineReply &reply);
    void sendWait(const GroupPointer &group);
    void waitReplied(const GroupPointer &group, const QtRedis::CommandResult &result);
    void finish(const OperationPointer &operation, const EngineReply &reply);
    void endRoundIfDone();
    EngineReply failure(const Operation &operation, const EngineError &error) const;
    EngineError unconfirmed(int count, const LockEngine::Replicas &replicas) const;
    EngineError notConnected(int count, int minimum) const;

    std::vector<Operation> m_waiting;        ///< for the next round
    int m_outstanding = 0;                   ///< operations and WAITs of this round that have not ended
    std::chrono::milliseconds m_waitTime{0}; ///< of all WAITs of this round
    std::optional<int> m_replicas;           ///< connected to the server; unset = ask before the next round
    bool m_isRoleAsked = false;
    bool m_isCorked = false;
    PostedCall m_postedFlush{this, [this] { flush(); }};
    /// Tokens of acquires without a reply. They may run until the next connection has ended the one they were sent on.
    QSet<quint64> m_unsure;
    QTimer m_unusedTimer;
    RedisLane m_lane; ///< destroyed first
};

} // namespace QDistLock
