// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "engine/quorum/ballot.h"
#include "engine/quorum/delayedcalls.h"
#include "engine/quorum/lockorder.h"
#include "engine/quorum/quorumview.h"
#include "engine/quorum/round.h"
#include "engine/quorum/servergroup.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <deque>
#include <memory>
#include <vector>

namespace QDistLock {

/*!
    Locks kept by a majority of 3 to 7 independent Redis servers ("Redlock"), all of which see one client; Ballot
    describes how a lock is acquired.

    The queue of a lock is at its arbiter alone: the first usable node in the order of the lock. A hand-over there is a
    hint: the waiter then asks the other nodes. When the arbiter changes, the waiters move, some in each turn of the
    event loop; held locks do not need it.
*/
class QuorumEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    QuorumEngine(const QtRedis::ServerUrl &quorum, const LeaseClock *clock, QObject *parent = nullptr);
    ~QuorumEngine() override;

    void open() override;
    State state() const override;
    EngineError error() const override;
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
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    void waiters(const LockId &lock, int atMost,
                 std::function<void(const EngineError &, const QList<LockWaiter> &)> completion) override;
    void forceRelease(const LockId &lock, qint64 fencingToken, Completion completion) override;

    /// The node that has the queue of \a lock at present; -1 if none has a vote.
    int arbiterOf(const LockId &lock) const;

private:
    /// The state of one token of this client. It begins with the token's first acquire, and ends with release() or
    /// abandon().
    struct Record
    {
        LockId lock;
        std::shared_ptr<Ballot> ballot = {}; ///< the last one
        Ballot::NodeSet asked = 0;           ///< nodes that may keep something under the token
        int waitingAt = -1;                  ///< see Ballot::Result
        bool wasQueued = false;              ///< an attempt has joined a queue: abandon() or release() will follow
        int timesPlaceKept = 0;              ///< in a row, see Ballot::Result
        qint64 fencingToken = 0;             ///< 0 = not held
        bool repairMissingTtl = true;
        /// Until then, at the latest, the holder may believe that it has the lock.
        LeaseTime believedUntil = {};
        /// Somebody releases the lock by force, as a node has reported: until then, no node gets the token again.
        Deadline forcedUntil;
    };

    void nodeIdentified(int node);
    void nodeChanged(int node);
    void nodeFailed(int node);
    void nodeNoticed(int node, Notice notice, quint64 sequence, std::chrono::milliseconds ms);
    void handedOverByNode(int node, const Handover &handover);
    void updateState();
    /// Lets the waiters at \a node try again, some in each turn of the event loop. \a onlyMoving: only those that have
    /// another arbiter by now.
    void nudgeAt(int node, bool onlyMoving);
    void nudgeSome();
    /// \a node is usable: waiters for which it comes first move there.
    void nodeReturned(int node);

    /// Members first.
    LockOrder::Order orderOf(const LockId &lock) const;
    quint64 ownSequence(const QByteArray &token) const;
    void balloted(quint64 sequence, const Ballot::Result &result, const Completion &completion);
    void setWaiting(Record *record, quint64 sequence, int node);
    void dropRecord(QHash<quint64, Record>::iterator record, std::chrono::milliseconds keep = {});
    using Operation = std::function<void(int node, Completion)>;
    /// Asks \a nodes in this order, and waits for \a limit at most.
    void ask(const QList<int> &nodes, std::chrono::milliseconds lease, std::chrono::milliseconds limit,
             const Operation &operation, Round::Decision decision, Completion completion,
             Round::Update update = nullptr);
    /// Gone or Stolen.
    static EngineReply lossOf(const Round &round);
    bool isComing() const;
    EngineReply tooFew(const Round &round, std::chrono::milliseconds limit, const QString &what) const;
    struct Renewal
    {
        LockId lock;
        QByteArray token;
        std::chrono::milliseconds lease;
        Completion completion;
    };
    void renewSome();
    /// Sends the renewal of \a token, if one is left to be sent.
    void sendRenewal(const QByteArray &token);
    void renewNow(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease, Completion completion);
    /// How long a minority must keep the key of a lock that was lost.
    std::chrono::milliseconds keepAfterLoss(const QByteArray &token, std::chrono::milliseconds lease) const;
    void giveAgain(int node, quint64 sequence, const QByteArray &token, std::chrono::milliseconds lease);

    const LeaseClock *const m_clock;
    QList<QByteArray> m_names; ///< "host:port" of each node
    DelayedCalls m_delayedCalls;
    ServerGroup m_nodes;
    QuorumView m_view;
    QHash<quint64, Record> m_records;     ///< by sequence number of the token
    std::vector<QSet<quint64>> m_waiting; ///< for each node, those that wait there
    std::vector<bool> m_wasUsable;
    std::vector<DistributedLock::Error> m_reported; ///< in the log, why it cannot be used
    struct Nudge
    {
        quint64 sequence;
        bool onlyIfMoving;
    };
    std::deque<Nudge> m_nudges;
    QTimer m_nudgeTimer;
    QHash<QByteArray, Renewal> m_renewals; ///< requested, and not sent; by token
    std::deque<QByteArray> m_renewalOrder; ///< tokens; some are not in m_renewals any more
    QTimer m_renewTimer;
    QTimer m_settleTimer;                     ///< the other nodes are waited for
    std::chrono::milliseconds m_lastLease{0}; ///< of the last acquire
    bool m_isSettled = false;
    bool m_isOpen = false;
    State m_reportedState = Disconnected;
};

} // namespace QDistLock
