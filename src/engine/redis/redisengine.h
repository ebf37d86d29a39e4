// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "engine/redis/redisnode.h"
#include "engine/redis/replicalane.h"

#include <memory>

namespace QtRedis {
class SentinelWatch;
}

namespace QDistLock {

class MasterConfirmation;

/// Locks kept by one Redis master: a node, and another lane for the commands that replicas must confirm. If the server
/// is a service of Sentinels, both follow its master.
class RedisEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    RedisEngine(const QtRedis::ServerUrl &server, const LeaseClock *clock, QObject *parent = nullptr);
    ~RedisEngine() override;

    void open() override;
    State state() const override { return m_node.lane().state(); }
    EngineError error() const override;
    QString unsupported(const LockOptions &options) const override;
    void cork() override;
    void uncork() override;
    bool isProcessing() const override;

    QByteArray makeToken() override;
    bool canBeWoken(const LockId &) const override { return m_node.canBeWoken(); }
    bool canAcquireTogether() const override { return executesScripts(); }
    void acquire(const Acquire &operation, Completion completion) override;
    void renew(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease, const Replicas &replicas,
               Completion completion) override;
    void release(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, Completion completion) override;
    void convert(const Acquire &operation, const QByteArray &from, Completion completion) override;
    void abandon(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, std::chrono::milliseconds atMost) override;
    void inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion) override;
    bool findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion) override;
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    void scan(const QString &prefix, const QString &pattern, const QByteArray &from,
              std::function<void(const ScanStep &)> completion) override;
    void inspectAll(const QList<LockId> &locks, std::function<void(const Inspection &)> completion) override;
    bool hasShortSteps() const override { return true; }
    bool hasMessages() const override { return true; }
    void sendMessage(const QByteArray &client, const QByteArray &message,
                     std::function<void(const EngineError &)> completion) override;
    void clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion) override;
    void waiters(const LockId &lock, int atMost,
                 std::function<void(const EngineError &, const QList<LockWaiter> &)> completion) override;
    void forceRelease(const LockId &lock, qint64 fencingToken, Completion completion) override;
    void setPermits(const LockId &lock, int permits,
                    std::function<void(const EngineError &, int before)> completion) override;

private:
    bool executesScripts() const { return m_server.usesScripts && !m_node.lane().isPlain(); }
    void watchMaster();
    void masterChanged();
    void warnOfShortLease(std::chrono::milliseconds lease);
    void handedOverByMaster(const Handover &handover);
    void logPlain();
    void makeReplicaLane();

    const QtRedis::ServerUrl m_server;
    std::unique_ptr<QtRedis::SentinelWatch> m_watch;    ///< null unless the server is a service of Sentinels
    std::unique_ptr<MasterConfirmation> m_confirmation; ///< null if the Sentinels are not asked to confirm the master
    bool m_isLeaseWarned = false;
    bool m_isPlainLogged = false;
    RedisNode m_node;
    /// Null until a lock with minReplicas needs it, and when none has needed it for long.
    std::unique_ptr<ReplicaLane> m_replicaLane;
    const LeaseClock *const m_clock;
};

} // namespace QDistLock
