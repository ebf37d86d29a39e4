// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "base/postedcall.h"
#include "engine/lockengine.h"
#include "engine/redis/monitorchannel.h"
#include "redis/topology/clusterwatch.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <functional>
#include <memory>
#include <optional>

namespace QtRedis {
class Subscriber;
}

namespace QDistLock {

class ClusterNode;

/*!
    The channels that a client listens to in a Redis Cluster.

    A client that waits listens to a sharded channel in the slot of the lock, at the master of the slot. A client that
    holds locks listens to one such channel at each of their masters: when that is replaced, it learns so at once. For
    forced releases, which are rare, and for messages of monitors it listens at one node to a channel of the whole
    cluster. Nodes before Redis 7.0 have plain channels only, on which nobody learns that a slot has moved: see "In a
    cluster" in docs/protocol.md.

    Thread: that of the engine.
*/
class ClusterChannels : public QObject
{
    Q_OBJECT
public:
    struct Nodes
    {
        std::function<ClusterNode *(const QtRedis::Endpoint &)> at;    ///< is made if necessary
        std::function<ClusterNode *(const QtRedis::Endpoint &)> known; ///< null if there is none
    };
    /// \a watch is not owned. \a needConnection: a lock needs the cluster; called from the event loop.
    ClusterChannels(const QtRedis::ServerUrl &cluster, const QByteArray &clientId, QtRedis::ClusterWatch *watch,
                    Nodes nodes, std::function<bool()> needConnection);
    ~ClusterChannels() override;

    /// As LockEngine::canBeWoken().
    bool canBeWoken(const LockId &lock) const;
    /// Somebody waits for \a lock, or may wait soon.
    void listenFor(const LockId &lock) { channelFor(lock); }
    /// The token with this sequence number is in the queue of \a lock, for which listenFor() was called.
    void setWaiting(const LockId &lock, quint64 sequence) { m_channels[channelOf(lock)].waiting.insert(sequence); }
    void notWaiting(const LockId &lock, const QByteArray &token);
    /// One of this client's locks is in a queue there.
    bool isWaitedAt(const QtRedis::Endpoint &node) const;
    /// Listens at the master of \a lock, which is held for \a lease, so that we learn when that is replaced; and for
    /// forced releases.
    void watchMaster(const LockId &lock, std::chrono::milliseconds lease);
    /// Messages of LockEngine::sendMessage() are published to all nodes; this client listens at one of them.
    void listenForMonitors(const ClusterNode &node);
    /// Why these do not arrive, although others send them.
    EngineError monitorError() const { return m_monitorChannel ? m_monitorChannel->error() : EngineError(); }

    /// \a node is new.
    void addNode(const ClusterNode *node);
    void nodeReadyAgain(const QtRedis::Endpoint &node);
    void nodeFailed(const QtRedis::Endpoint &node) { listenElsewhere(node); }
    /// It is no master any more.
    void removeNode(const QtRedis::Endpoint &node);
    void mapChanged();

    /// As LockEngine::open().
    void open();
    bool isReading() const;

Q_SIGNALS:
    // As those of LockEngine.
    void noticed(QDistLock::LockEngine::Notice notice, quint64 sequence, std::chrono::milliseconds ms);
    void messageReceived(const QByteArray &message);
    void wakeableChanged(const QDistLock::LockEngine::LockFilter &concerned);
    void processed();

private:
    /// A sharded channel, for the waiters of one lock (or of several with the same hash tag).
    struct Channel
    {
        int slot;
        std::optional<QtRedis::Endpoint> node; ///< where it is subscribed, or will be
        QtRedis::Endpoint left = {};           ///< has ended the last subscription: the slot had moved away from there
        QSet<quint64> waiting = {};            ///< sequence numbers of the tokens that are in a queue
        Deadline keptUntil = {};               ///< unless somebody waits
        Deadline watchedUntil = {};            ///< locks of its master are held until then at least
    };
    using Channels = QHash<QByteArray, Channel>;

    QByteArray channelOf(const LockId &lock) const;
    Channels::iterator channelFor(const LockId &lock);
    static bool isWanted(const Channel &channel, bool isNeeded);
    void listen(const QByteArray &name, Channel *channel);
    void movedAway(const QtRedis::Endpoint &node, const QByteArray &name);
    void interrupted(const QtRedis::Endpoint &node);
    void sweep();
    /// These messages, too, are published to all nodes.
    void listenForForcedReleases(const ClusterNode &node);
    void makeMessages(const ClusterNode &node);
    void listenElsewhere(const QtRedis::Endpoint &former);
    void postWakeable(const QByteArray &channel);
    void reportWakeable();

    const QtRedis::ServerUrl m_cluster;
    const QByteArray m_clientId;
    QtRedis::ClusterWatch *const m_watch;
    const Nodes m_nodes;
    const std::function<bool()> m_needConnection;
    Channels m_channels;
    QHash<QtRedis::Endpoint, QByteArray> m_watchedBy; ///< for each master of held locks, one of the channels
    QTimer m_sweepTimer;
    QSet<QByteArray> m_changed; ///< channels whose subscription has changed; to be reported together
    PostedCall m_postedWakeable{this, [this] { reportWakeable(); }};
    std::unique_ptr<QtRedis::Subscriber> m_messages; ///< null until a lock is held, or a message is sent
    QtRedis::Endpoint m_messagesAt;
    std::unique_ptr<MonitorChannel> m_monitorChannel; ///< of m_messages
};

} // namespace QDistLock
