// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "engine/redis/redislane.h"
#include "engine/redis/replicalane.h"

#include <memory>

namespace QtRedis {
class SentinelWatch;
class Subscriber;
} // namespace QtRedis

namespace QDistLock {

class MasterConfirmation;

/// Locks kept by one Redis master: a lane for commands, another for those that replicas must confirm, and a connection
/// for the messages to this client. If the server is a service of Sentinels, all of them follow its master.
class RedisEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned. If \a client is empty, a new client id is made.
    RedisEngine(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &client = {},
                QObject *parent = nullptr);
    ~RedisEngine() override;

    void open() override;
    State state() const override { return m_lane.state(); }
    EngineError error() const override;
    QString unsupported(const LockOptions &) const override { return QString(); }
    void cork() override;
    void uncork() override;
    bool isProcessing() const override;

    QByteArray makeToken() override;
    bool canBeWoken(const LockId &lock) const override;
    void acquire(const Acquire &operation, Completion completion) override;
    void renew(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease, const Replicas &replicas,
               Completion completion) override;
    void release(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, Completion completion) override;
    void abandon(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, std::chrono::milliseconds atMost) override;
    void inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion) override;
    bool findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion) override;
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    void waiters(const LockId &lock, int atMost,
                 std::function<void(const EngineError &, const QList<LockWaiter> &)> completion) override;
    void forceRelease(const LockId &lock, qint64 fencingToken, Completion completion) override;

    // For one server of a quorum:

    /// Before open(): \a node of ClientName.
    void setNode(int node);
    /// See the functions of RedisLane.
    void vote(const Acquire &operation, qint64 floor, Completion completion);
    void returnToQueue(const Acquire &operation, Completion completion);
    void raise(const LockId &lock, const QByteArray &token, qint64 fencingToken, Completion completion);
    /// The section "server" of the server's INFO.
    void askInfo(std::function<void(const EngineError &, const QByteArray &info)> completion);

private:
    void watchMaster();
    void masterChanged();
    void warnOfShortLease(std::chrono::milliseconds lease);
    void handedOverByMaster(const Handover &handover);
    void laneStateChanged();
    void logPlain();
    void makeReplicaLane();
    void waiterPolled();
    void subscribe();
    void messageReceived(const QByteArray &payload);

    const QtRedis::ServerUrl m_server;
    const QByteArray m_channel;                         ///< messages to this client are published there
    std::unique_ptr<QtRedis::SentinelWatch> m_watch;    ///< null unless the server is a service of Sentinels
    std::unique_ptr<MasterConfirmation> m_confirmation; ///< null if the Sentinels are not asked to confirm the master
    bool m_hasMoved = false;                            ///< to another server, which the lane has not reached yet
    bool m_isLeaseWarned = false;
    bool m_isPlainLogged = false;
    int m_node = -1; ///< see setNode()
    /// Null until there is something to listen for. Destroyed after the lane, whose last commands are sent first.
    std::unique_ptr<QtRedis::Subscriber> m_subscriber;
    RedisLane m_lane;
    /// Null until a lock with minReplicas needs it, and when none has needed it for long.
    std::unique_ptr<ReplicaLane> m_replicaLane;
    const LeaseClock *const m_clock;
};

} // namespace QDistLock
