// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "service.h"
#include "slotmover.h"

#include "support/rediscluster.h"

#include <QtCore/qset.h>

#include <memory>

namespace Chaos {

/*!
    A Redis Cluster of three masters and three replicas, the slots of its locks, which move all the time, its faults,
    and what its fail-overs lose: asks all nodes all the time. There are no links, because the clients connect to the
    addresses that the nodes announce, which are the same for all.

    A fail-over may lose keys of the slots that the former master served, and of those that were being moved to it. A
    move loses nothing.
*/
class ClusterService : public Service
{
public:
    ClusterService(History *history, const QList<QByteArray> &locks, quint64 seed);

    bool start() override;
    QUrl url(const QList<quint16> &linkPorts) const override;
    QList<Support::RedisServer *> servers() override;
    /// All nodes see the cluster as complete, each slot at the same master, and a replica at each.
    bool isHealthy() override;
    void quiet() override;
    bool hasWorked(const Fault &fault, int before) const override;
    Undo inject(const Fault &fault) override;

private:
    /// A node, as it sees itself.
    struct Node
    {
        bool isMaster = false;
        QByteArray master;        ///< the id of its master
        qint64 epoch = 0;         ///< of the config
        QList<QByteArray> ranges; ///< of slots: "first-last" or "slot"
        QList<QByteArray> moves;  ///< "[slot->-id]" to a node, "[slot-<-id]" from a node
        qint64 time = 0;          ///< its own, in us
        qint64 lastReplica = 0;   ///< boot time at which it was last seen as a replica; 0 if never
        QList<Kept> kept;         ///< one for each lock; as it was promoted, if it is a master

        bool serves(int slot) const;
    };

    void look();
    void lookAt(int index);
    Node nodeOf(const QVariantList &reply, qint64 asked, const Node *before) const;
    void promoted(int index, const QByteArray &formerMaster);
    int indexOf(const QByteArray &id) const;
    bool hasKey(int index, const QByteArray &lock);
    int slotOf(const QByteArray &lock) const;
    bool isSilent(int index) const { return m_silent.contains(index); }
    QList<int> masters() const;
    int ownerOf(int slot) const;
    int replicaOf(int master) const;
    int successorOf(int index) const;
    bool isMoving(int slot, int source, int target) const;
    void forget(int index);
    void failOver(int lock, const QByteArray &mode);
    Undo killMaster(int master);
    Undo stopMaster(int master);
    Undo cutOffMaster(int master);
    Undo addNode();
    void watchAddedNode();
    Undo makeForeign(int replica);

    Support::RedisCluster m_cluster;
    SlotMover m_mover;
    QHash<int, Node> m_nodes;    ///< by index; only those that have answered
    QSet<int> m_silent;          ///< nodes that are not asked, as they do not answer
    QHash<int, int> m_successor; ///< by a former master: the node that has replaced it
    int m_cutOff = -1;           ///< the node that does not reach the others
    int m_added = -1;            ///< the node that is there for a while
    bool m_isAddedMember = false;
    bool m_hasAddedServed = false;
    bool m_isLeaving = false;
    bool m_isQuiet = false;
};

} // namespace Chaos
