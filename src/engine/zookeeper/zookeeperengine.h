// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"
#include "engine/zookeeper/nodepath.h"
#include "engine/zookeeper/sessionlife.h"
#include "engine/zookeeper/zookeeperurl.h"
#include "zookeeper/session.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>

#include <functional>
#include <memory>
#include <vector>

namespace QDistLock {

class LeaseClock;

/*!
    Keeps locks in a ZooKeeper ensemble: a lock is a node, and whoever holds it or waits for it has an ephemeral child
    of it, with a number. The lowest number holds the lock; each of the others watches the one before it. Readers hold
    it together if no writer has a lower number, and otherwise watch the last such writer. The ensemble deletes the
    children of a session that has ended.

    There are no leases on the server. A lock is believed to be held as long as the session is known to live, see
    SessionLife; shorter leases are counted on the client's clock alone. Source of the recipe: "Locks" and "Shared
    Locks" in ZooKeeper Recipes and Solutions; names of the nodes as in Apache Curator. That readers share a fencing
    token is ours: docs/protocol.md.
*/
class ZooKeeperEngine : public LockEngine
{
    Q_OBJECT
public:
    /// \a clock is not owned.
    ZooKeeperEngine(const ZooKeeperUrl &url, const LeaseClock *clock, QObject *parent = nullptr);
    ~ZooKeeperEngine() override;

    void open() override;
    State state() const override;
    EngineError error() const override;
    QString unsupported(const LockOptions &options) const override;

    bool canBeWoken(const LockId &) const override { return state() == Ready; }
    void acquire(const Acquire &operation, Completion completion) override;
    void renew(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease, const Replicas &replicas,
               Completion completion) override;
    void release(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, Completion completion) override;
    void abandon(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                 std::chrono::milliseconds keep, std::chrono::milliseconds atMost) override;

    void inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion) override;
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion) override;
    void waiters(const LockId &lock, int atMost,
                 std::function<void(const EngineError &, const QList<LockWaiter> &)> completion) override;
    void forceRelease(const LockId &lock, qint64 fencingToken, Completion completion) override;

private:
    struct Place;
    using PlacePointer = std::shared_ptr<Place>;
    struct Attempt;
    using AttemptPointer = std::shared_ptr<Attempt>;
    using Done = QtZooKeeper::Session::Completion;

    // An acquisition, step by step.
    void findPlace(const AttemptPointer &attempt);
    void createPlace(const AttemptPointer &attempt, bool withParents = false);
    void createParents(const QByteArray &parent, Done done);
    void placeFound(const AttemptPointer &attempt, const QByteArray &name);
    void readQueue(const AttemptPointer &attempt);
    void watchPredecessor(const AttemptPointer &attempt, const QByteArray &name, int position);
    void enter(const AttemptPointer &attempt, const QtZooKeeper::NodeStat &parent);
    void setReadersToken(const AttemptPointer &attempt, qint64 fencingToken, int version);
    void grant(const AttemptPointer &attempt, qint64 fencingToken, bool isProven = false);
    bool isWanted(const AttemptPointer &attempt) const;
    void giveUp(const AttemptPointer &attempt);
    void finish(const AttemptPointer &attempt, const EngineReply &reply);
    void fail(const AttemptPointer &attempt, const QtZooKeeper::Result &result);
    void watchPlace(const PlacePointer &place, const QByteArray &token);

    /// Calls \a operation, which sends a request, and then \a received. The answer shows that the session lives.
    void ask(const std::function<void(Done)> &operation, Done received, bool isWrite = false);
    void askToWrite(const std::function<void(Done)> &operation, Done received)
    {
        ask(operation, std::move(received), true);
    }
    /// Shows that the session lives, through a write; \a proven is called when it is answered.
    void prove(Done proven);
    void removeForCertain(const QByteArray &path);
    void removeLeftOvers();

    void inspectParent(const QByteArray &parent, std::function<void(const EngineError &, const LockInfo &)> completion);
    void readHolder(const QByteArray &parent, const NodePath::Member &first,
                    std::function<void(const QtZooKeeper::Result &, qint64 fencingToken)> received);
    void remove(const QList<QByteArray> &paths, Completion completion);
    void sessionChanged();
    void beat();
    void replyWithoutPlace(const LockId &lock, const QByteArray &token, Completion completion);
    void reply(Completion completion, const EngineReply &reply);
    EngineError errorOf(const QtZooKeeper::Result &result) const;
    EngineError foreignData(const QByteArray &parent) const;
    EngineReply failure(const QtZooKeeper::Result &result) const;
    QByteArray parentOf(const LockId &lock) const;
    QByteArray ownData() const;

    const ZooKeeperUrl m_url;
    const LeaseClock *const m_clock;
    QtZooKeeper::Session m_session;
    qint64 m_sessionId = 0; ///< of the last one
    SessionLife m_life;
    QTimer m_sessionTimer;                    ///< beat()
    EngineError m_loginError;                 ///< there is no password to log in with
    QHash<QByteArray, PlacePointer> m_places; ///< by token: of locks that are held or waited for
    /// Children that may have been created although no answer came: the parent and what their names begin with.
    QList<std::pair<QByteArray, QByteArray>> m_leftOvers;
    QSet<QByteArray> m_toRemove; ///< paths
    std::vector<Done> m_toProve;
};

} // namespace QDistLock
