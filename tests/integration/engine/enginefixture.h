// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "enginenotices.h"
#include "support/eventually.h"
#include "support/fakeclock.h"
#include "support/fakesentinel.h"
#include "support/rediscluster.h"
#include "support/redisserver.h"
#include "support/redisset.h"
#include "support/shiftedclock.h"
#include "support/zookeeperserver.h"

#include <functional>
#include <memory>
#include <vector>

namespace EngineTesting {

enum Kind { Redis, Memory, Sentinel, Cluster, Plain, Quorum, ZooKeeper };

QDistLock::LockId lockId(const QString &name, const QString &prefix = QStringLiteral("lock:"));
QByteArray newToken(QDistLock::LockEngine &engine);
QDistLock::LockEngine::Acquire acquireOf(const QDistLock::LockId &id, const QByteArray &token,
                                         std::chrono::milliseconds lease);

/// The replies to several operations, in the order in which they arrived.
struct Replies
{
    QList<QDistLock::EngineReply> list;
    QDistLock::LockEngine::Completion next()
    {
        return [this](const QDistLock::EngineReply &reply) { list.append(reply); };
    }
};

/// For a function that only a cluster can run, in a class with m_kind.
#define SKIP_WITHOUT_SLOTS() \
  if (m_kind != Cluster) \
  QSKIP("The row \"cluster\" runs this test. It moves the slot of a lock to another node, and only a Redis Cluster has " \
        "slots.")

/// For a function with waiters that overtake the queue, in a class with m_kind.
#define SKIP_WITHOUT_BARGING() \
  if (m_kind == ZooKeeper) \
  QSKIP("The rows of Redis, of the cluster and of memory: run this test. A client overtakes waiters in it (fair=false), " \
        "which ZooKeeper does not let anybody do: it numbers the clients in the order in which they come.")

/// The base of tests of engines: makes engines, and waits until their operations have ended. Leases do not expire
/// during a test: the servers' clocks are slow, and the clock of the memory engine advances only when the test says so.
class EngineFixture
{
protected:
    using LockEngine = QDistLock::LockEngine;
    using LockId = QDistLock::LockId;

    /// Rows of the engines that have readers and permits.
    static void addEnginesThatShare();
    /// Starts the server, and lets it load the scripts: otherwise a command is sent again later than those after it.
    void startServer();
    /// What engines of this kind need besides, empty.
    void prepare(int kind);
    /// Three masters without replicas.
    void startCluster();
    /// Three servers.
    void startQuorum();
    /// Skips the test where ZooKeeper is not installed.
    void startZooKeeper();
    /// The server that keeps \a id, or its queue.
    Support::RedisServer &serverOf(int kind, const LockId &id);
    void flush();
    /// No connection may be left from the test before: the next one counts connections.
    void waitForDisconnection();

    /// Of engines of this kind.
    QUrl url(int kind) const;
    std::unique_ptr<LockEngine> makeEngine(int kind, const QUrl &otherUrl = {});
    /// The waiters of this engine will be woken.
    std::unique_ptr<LockEngine> makeListeningEngine(int kind, const LockId &id);

    QDistLock::EngineReply acquire(LockEngine &engine, const LockId &id, const QByteArray &token,
                                   std::chrono::milliseconds lease = std::chrono::seconds(30));
    QDistLock::EngineReply renew(LockEngine &engine, const LockId &id, const QByteArray &token,
                                 std::chrono::milliseconds lease = std::chrono::seconds(30));
    QDistLock::EngineReply release(LockEngine &engine, const LockId &id, const QByteArray &token,
                                   std::chrono::milliseconds keep = {});
    QDistLock::EngineReply convert(LockEngine &engine, const LockId &id, const QByteArray &from, const QByteArray &to);
    /// Waits in the queue, at the place \a arrival if it is given.
    QDistLock::EngineReply wait(LockEngine &engine, const LockId &id, const QByteArray &token,
                                const QByteArray &arrival = {}, bool barge = false);
    /// A client that has asked for \a id once, and waits in the queue if it was taken.
    struct WaitingClient
    {
        std::unique_ptr<LockEngine> engine;
        std::unique_ptr<Notices> notices;
        QByteArray token;
        QDistLock::EngineReply reply;
        bool isGranted() const { return notices->wasGranted(token); }
    };
    using MakeToken = std::function<QByteArray(LockEngine &)>;
    WaitingClient waitingClient(int kind, const LockId &id, const MakeToken &makeToken, bool barge = false);
    QDistLock::LockInfo inspect(LockEngine &engine, const LockId &id);
    QStringList names(LockEngine &engine, const QString &pattern, const QString &prefix = QStringLiteral("lock:"));
    bool forceRelease(LockEngine &engine, const LockId &id);
    /// The lease of whoever holds \a id ends.
    void expire(int kind, LockEngine &engine, const LockId &id);
    /// This much time passes on the clock of the servers.
    void pass(int kind, std::chrono::milliseconds duration);
    /// On the clock of the engines of this kind.
    QDistLock::LeaseTime now(int kind) const;

    int m_permits = 0; ///< of acquire() and wait() if the token takes permits
    Support::ShiftedClock m_serverClock;
    std::chrono::milliseconds m_passed{0}; ///< on it, see pass()
    Support::FakeClock m_memoryClock;
    std::unique_ptr<Support::RedisServer> m_server;
    std::vector<std::unique_ptr<Support::FakeSentinel>> m_sentinels; ///< of the service whose master the server is

    std::unique_ptr<Support::RedisCluster> m_cluster;      ///< null until startCluster()
    std::unique_ptr<Support::RedisSet> m_quorum;           ///< null until startQuorum()
    std::unique_ptr<Support::ZooKeeperServer> m_zooKeeper; ///< null until startZooKeeper()

private:
    QUrl serviceUrl() const;
};

} // namespace EngineTesting
