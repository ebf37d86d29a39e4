// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "engine/lockengine.h"
#include "engine/redis/abandonedtokens.h"
#include "engine/redis/clusterchannels.h"
#include "engine/redis/clusterlisting.h"
#include "engine/redis/clusternode.h"
#include "engine/redis/onekeymode.h"

#include "base/postedcall.h"
#include "redis/topology/clusterwatch.h"

#include <QtCore/qhash.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace QDistLock {

/*!
    Locks kept by a Redis Cluster: each by the master that serves the slot of its key, over a separate lane. One master
    that is away harms the locks of its slots only.

    An operation that a node refuses because another one serves the slot (MOVED) is sent again to that one, five times
    at most. While a slot moves (ASK, TRYAGAIN), its locks are kept with commands of one key, see OneKeyMode.

    Masters may redirect a slot to one another for ever, as after a move that was ended at one side only. Five
    redirections of a slot a second are followed, whatever was redirected; then its operations end with an error.
*/
class ClusterEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    ClusterEngine(const QtRedis::ServerUrl &cluster, const LeaseClock *clock, QObject *parent = nullptr);
    ~ClusterEngine() override;

    void open() override;
    void openFor(const LockId &lock) override;
    State state() const override;
    EngineError error() const override;
    State stateFor(const LockId &lock) const override;
    EngineError errorFor(const LockId &lock) const override;
    QString placeOf(const LockId &lock) const override;
    bool isPlace(const QString &place) const override;
    QMap<QString, EngineError> errors() const override;
    QString unsupported(const LockOptions &options) const override;
    void cork() override;
    void uncork() override;
    bool isProcessing() const override;

    bool canBeWoken(const LockId &lock) const override { return m_channels.canBeWoken(lock); }
    bool canAcquireTogether() const override { return true; }
    QString whyNotTogether(const QList<LockId> &locks) const override;
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
    /// See ClusterListing.
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    /// See ClusterListing.
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
    ClusterNode *nodeAt(const QtRedis::Endpoint &endpoint);
    /// The need of the locks in the slots of \a master.
    Need needAt(const QtRedis::Endpoint &master) const;
    /// Null if nobody serves the slot.
    ClusterNode *nodeOf(int slot);
    ClusterNode *knownNodeOf(int slot) const;
    ClusterNode *knownNodeAt(const QtRedis::Endpoint &endpoint) const;
    EngineError notServed(int slot) const;
    /// Of a master that is not usable.
    EngineError errorAt(const ClusterNode &node) const;
    /// With the reason why no other master is known, if only nodes of another cluster can be asked.
    EngineError explained(const EngineError &error) const;

    struct Redirections
    {
        int count = 0;
        Deadline until;             ///< then they are counted from the beginning
        QtRedis::Endpoint from, to; ///< the last one
    };
    /// The node at \a from has replied so. False if the slot was redirected too often.
    bool follow(const QtRedis::Endpoint &from, const QtRedis::Redirection &moved);
    /// None unless \a slot was redirected too often.
    EngineError disputed(int slot) const;

    void run(LockOperation operation);
    void fail(const LockOperation &operation, const EngineError &error);
    void redirected(ClusterNode *node, LockOperations operations, const QByteArray &error);
    /// The error reply of \a node says that another one may keep some locks.
    void keptElsewhere(const ClusterNode &node, const QByteArray &reply);
    void reportReplacement();
    /// The locks whose master is not that of \a former.
    LockFilter movedSince(const QtRedis::SlotMap &former) const;
    /// The node at \a node says so, which proves nothing if it is a former master of the slot.
    void handOver(const Handover &handover, const QtRedis::Endpoint &node);
    void acquireReplied(const LockId &lock, const QByteArray &token, const EngineReply &reply);
    /// Calls \a ask with the master of the lock's slot; after an error again, at most twice, if that is another one by
    /// then.
    template<typename Result, typename Ask>
    void askMaster(
            const LockId &lock, Ask ask, std::function<void(const EngineError &, const Result &)> completion,
            std::function<bool(const EngineError &)> isRepeatable = [](const EngineError &) { return true; },
            int attempts = 3);

    void nodeReadyAgain(ClusterNode *node);
    void nodeFailed(ClusterNode *node);
    void mapChanged();
    /// A former master that replies redirects the operations that it has still got, and is closed later.
    void retire(std::unique_ptr<ClusterNode> node);
    void closeFormer(ClusterNode *node);
    /// True if there were any.
    bool closeFormerMasters();

    const QtRedis::ServerUrl m_cluster;
    const LeaseClock *const m_clock;
    bool m_isOpen = false;
    bool m_isCorked = false;
    bool m_wasKnown = false; ///< the map
    std::map<QtRedis::Endpoint, std::unique_ptr<ClusterNode>> m_nodes;
    std::vector<std::unique_ptr<ClusterNode>> m_former; ///< masters that others have replaced, see retire()
    QtRedis::SlotMap m_map;                             ///< when mapChanged() was called last
    QtRedis::SlotMap m_formerMap;                       ///< when the last replacement was reported
    PostedCall m_postedReplacement{this, [this] { reportReplacement(); }};
    AbandonedTokens m_abandoned;
    QtRedis::ClusterWatch m_watch;
    ClusterChannels m_channels;
    ClusterListing m_listing;
    OneKeyMode m_oneKey;
    QHash<int, Redirections> m_redirections; ///< by slot
};

} // namespace QDistLock
