// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/redis/commandbatch.h"
#include "engine/redis/rediserrors.h"

#include "redis/connection.h"

#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace QDistLock {

/*!
    Lock operations over one connection to a server that executes no scripts. A transaction is two writes: WATCH and
    reads; then, if there is something to change, MULTI, the changes and EXEC, which does nothing if a watched key has
    changed since. The keys are those of the scripts. The queue is not used: a waiter polls. The first waiter of a
    client with scripts is notified of a release.

    WATCH belongs to the connection, and each EXEC ends it for all keys. So there is one transaction at a time, and
    nobody else may send EXEC on this connection. Operations on different locks share a transaction; those on one lock
    keep their order.

    Where the server has DELEX or DELIFEQ, a release is one command. Thread: that of the connection.
*/
class PlainLane
{
public:
    /// Called from handlers of the connection, once for each operation of run().
    using Done = std::function<void(const LockOperation &operation, const EngineReply &reply)>;
    /// The user may not use transactions, or the server has none; \a error is a reply to \a command.
    using Refused = std::function<EngineError(const QByteArray &error, const char *command)>;

    /// \a connection and \a errors outlive this.
    PlainLane(QtRedis::Connection *connection, RedisErrors *errors, Done done, Refused refused);

    void run(LockOperations operations);
    /// As LockEngine::forceRelease(); after the operations that were requested before.
    void forceRelease(const LockId &lock, qint64 fencingToken, LockEngine::Completion completion);
    /// Scripts of this client have joined queues: tokens leave them when they are acquired or cancelled.
    void setUsedQueues() { m_usedQueues = true; }
    /// No operation has to be executed.
    bool isIdle() const { return m_waiting.empty() && !m_current; }
    /// Must be called after each new connection: asks the server again which commands it has.
    void connectionIsNew();

    /// Before the destruction: the operations that have not ended. No completion is called.
    LockOperations takeUnfinished();
    /// At the destruction of the connection: executes \a operations without calling completions. Acquires are left out.
    void sayFarewell(const LockOperations &operations);

private:
    using Commands = QList<QList<QByteArray>>;
    using Results = QList<QtRedis::CommandResult>;

    /// One operation; what its transaction reads, and what it changes.
    struct Step
    {
        LockOperation operation; ///< of forceRelease(): a release whose token is read first
        bool isForced = false;
        qint64 meant = 0; ///< of forceRelease(): the holder's fencing token; 0 = any
        size_t mostTogether = (std::numeric_limits<size_t>::max)(); ///< steps in its transaction
        int attempts = 0;

        // Positions among the results of the reads; -1 = not read.
        qsizetype holder = -1;
        qsizetype ttl = -1;
        qsizetype fence = -1;
        qsizetype left = -1;    ///< whether the token has left the queue
        qsizetype deleted = -1; ///< of the command that compares and deletes
        qsizetype first = -1;   ///< the first waiters

        Commands changes = {};
        bool isEnded = false; ///< `reply` is complete
        EngineReply reply = {};
        bool isReleased = false;
        QList<QByteArray> firstWaiters = {};

        void end(EngineReply::Status status)
        {
            reply.status = status;
            isEnded = true;
        }
        void fail(const EngineError &error)
        {
            reply.error = error;
            end(EngineReply::Failed);
        }
    };
    using Transaction = std::shared_ptr<std::vector<Step>>;

    /// Positions of the replies that concern the whole transaction; -1 = not sent.
    struct Reads
    {
        qsizetype info = -1;
        qsizetype multi = -1;
        qsizetype exec = -1;
        qsizetype watch = -1;
        qsizetype time = -1;
    };
    class Farewell;

    void beginNext();
    std::vector<Step> takeSteps();
    void exchange(const Commands &commands, std::chrono::milliseconds timeout,
                  std::function<void(const Results &)> done);
    void readKeys(const Transaction &transaction);
    void addReads(Step *step, Commands *commands) const;
    void keysRead(const Transaction &transaction, const Reads &reads, const Results &results);
    bool isRefused(const Transaction &transaction, const Reads &reads, const Results &results);
    void learn(const QtRedis::Reply &info);
    void decide(Step *step, const Results &results, const QtRedis::CommandResult *time);
    void decideAcquire(Step *step, const Results &results, const QtRedis::CommandResult *time);
    void decideForceRelease(Step *step, const Results &results);
    void compareAndDeleteReplied(Step *step, const Results &results);
    void change(const Transaction &transaction, bool isWatching);
    void changed(const Transaction &transaction, const Results &results);
    void apply(Step *step, const QList<QtRedis::Reply> &replies);
    void finish(const Transaction &transaction);
    void notify(const Step &step);
    void notifyFirst(QList<QByteArray> members, const QByteArray &message, const QByteArray &argument = {});

    QtRedis::Connection *const m_connection;
    RedisErrors *const m_errors;
    const Done m_done;
    const Refused m_refused;
    std::deque<Step> m_waiting; ///< for their transactions
    Transaction m_current;      ///< null between transactions
    bool m_isProbed = false;
    bool m_usedQueues = false;
    enum DeleteIfEqual { No, Delex, Delifeq };
    DeleteIfEqual m_deleteIfEqual = No; ///< which command of this kind the server has
};

} // namespace QDistLock
