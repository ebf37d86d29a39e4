// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "engine/redis/abandonedtokens.h"
#include "engine/redis/clusternode.h"
#include "engine/redis/onekeymode.h"

#include "redis/postedcall.h"
#include "redis/topology/clusterwatch.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace QtRedis {
class Subscriber;
}

namespace QDistLock {

/*!
    Locks kept by a Redis Cluster: each by the master that serves the slot of its key, over a separate lane. One master
    that is away harms the locks of its slots only.

    An operation that a node refuses because another one serves the slot (MOVED) is sent again to that one, five times
    at most. While a slot moves (ASK, TRYAGAIN), its locks are kept with commands of one key, see OneKeyMode.

    Masters may redirect a slot to one another for ever, as after a move that was ended at one side only. Five
    redirections of a slot a second are followed, whatever was redirected; then its operations end with an error.

    A client that waits listens to a sharded channel in the slot of the lock, at the master of the slot. A client that
    holds locks listens to one such channel at each of their masters: when that is replaced, it learns so at once. For
    forced releases, which are rare, it listens at one node to a channel of the whole cluster. Nodes before Redis 7.0
    have plain channels only, on which nobody learns that a slot has moved: see "In a cluster" in docs/protocol.md.
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
    /// The locks of all masters; if one of them cannot be asked, or nobody serves a slot, an error: nobody could tell
    /// such a list from a complete one. A lock whose key moves to another master meanwhile may be missing.
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    void waiters(const LockId &lock, int atMost,
                 std::function<void(const EngineError &, const QList<LockWaiter> &)> completion) override;
    void forceRelease(const LockId &lock, qint64 fencingToken, Completion completion) override;

private:
    /// A sharded channel, for the waiters of one lock (or of several with the same hash tag).
    struct Channel
    {
        int slot;
        std::optional<QtRedis::Endpoint> node; ///< where it is subscribed, or will be
        QtRedis::Endpoint left = {};           ///< has ended the last subscription: the slot had moved away from there
        QSet<quint64> waiting = {};            ///< sequence numbers of the tokens that are in a queue
        QDeadlineTimer keptUntil = {};         ///< unless somebody waits
        QDeadlineTimer watchedUntil = {};      ///< locks of its master are held until then at least
    };

    QByteArray channelOf(const LockId &lock) const;
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
        QDeadlineTimer until;       ///< then they are counted from the beginning
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
    struct Listing;
    /// Asks the masters that were not asked yet, and ends the listing if there are none.
    void listOn(const std::shared_ptr<Listing> &listing);
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
    void listenAgain();
    /// True if there were any.
    bool closeFormerMasters();

    /// Listens at the master of \a lock, which is held for \a lease, so that we learn when that is replaced; and for
    /// forced releases.
    void watchMaster(const LockId &lock, std::chrono::milliseconds lease);
    /// \a isNeeded: a lock needs the cluster.
    static bool isWanted(const Channel &channel, bool isNeeded);
    /// One of this client's locks is in a queue there.
    bool isWaitedAt(const QtRedis::Endpoint &node) const;
    QHash<QByteArray, Channel>::iterator listenFor(const LockId &lock);
    void listen(const QByteArray &name, Channel *channel);
    void movedAway(ClusterNode *node, const QByteArray &name);
    void notWaiting(const LockId &lock, const QByteArray &token);
    void sweepChannels();
    /// Messages to clients that only hold locks are published to all nodes; this client listens at one of them.
    void listenForForcedReleases(const ClusterNode &node);
    void listenElsewhere(const QtRedis::Endpoint &former);
    void postWakeable(const QByteArray &channel);
    void reportWakeable();
    void subscriptionsInterrupted(const ClusterNode *node);

    const QtRedis::ServerUrl m_cluster;
    const LeaseClock *const m_clock;
    bool m_isOpen = false;
    bool m_isCorked = false;
    int m_listings = 0;                 ///< that have not ended
    bool m_wasKnown = false;            ///< the map
    QSet<QByteArray> m_changedChannels; ///< their subscription has changed; to be reported together
    QtRedis::PostedCall m_postedWakeable{this, [this] { reportWakeable(); }};
    QHash<QByteArray, Channel> m_channels;
    QHash<QtRedis::Endpoint, QByteArray> m_watchedBy; ///< for each master of held locks, one of the channels
    QTimer m_sweepTimer;
    std::unique_ptr<QtRedis::Subscriber> m_forcedReleases; ///< null until a lock is held
    QtRedis::Endpoint m_forcedReleasesAt;
    std::map<QtRedis::Endpoint, std::unique_ptr<ClusterNode>> m_nodes;
    std::vector<std::unique_ptr<ClusterNode>> m_former; ///< masters that others have replaced, see retire()
    QtRedis::SlotMap m_map;                             ///< when mapChanged() was called last
    QtRedis::SlotMap m_formerMap;                       ///< when the last replacement was reported
    QtRedis::PostedCall m_postedReplacement{this, [this] { reportReplacement(); }};
    AbandonedTokens m_abandoned;
    QtRedis::ClusterWatch m_watch;
    OneKeyMode m_oneKey;
    QHash<int, Redirections> m_redirections; ///< by slot
};

} // namespace QDistLock
