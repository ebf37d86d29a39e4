// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redisserver.h"

#include <QtCore/qset.h>

#include <memory>
#include <vector>

namespace Support {

class Certificates;

/*!
    A Redis Cluster, private and temporary, on free ports of 127.0.0.1: masters that share the slots evenly, and
    replicas of them.

    All functions block, with a time-out. Thread: the one that constructed the object; needs no running event loop.
*/
class RedisCluster
{
public:
    struct Options
    {
        int masters = 3;
        int replicasPerMaster = 1;
        /// A busy machine must not make the nodes replace a master that is alive.
        std::chrono::milliseconds nodeTimeout{5000};
        QByteArray password = {};
        bool needsAllSlots = true; ///< cluster-require-full-coverage
        QList<QByteArray> config = {};
        QList<QByteArray> users = {};               ///< as in RedisServer::Options
        bool canBeCutOff = false;                   ///< needed by cutOff()
        QStringList environment = {};               ///< as in RedisServer::Options, unless canBeCutOff
        const Certificates *certificates = nullptr; ///< not null: everything over TLS, url() with ca=

        static Options mastersOnly(int count = 3)
        {
            Options options;
            options.masters = count;
            options.replicasPerMaster = 0;
            return options;
        }
    };

    RedisCluster();
    explicit RedisCluster(const Options &options);

    /// True when all nodes agree who serves which slot, and all replicas are connected.
    bool start();
    QString errorString() const { return m_error; }

    /// redis+cluster://… (or rediss+cluster://…) with the nodes at \a indexes, by default the first three.
    QUrl url(const QString &query = {}, QList<int> indexes = {0, 1, 2}) const;

    int nodeCount() const { return int(m_nodes.size()); }
    RedisServer &node(int index) { return *m_nodes[size_t(index)]; }
    bool isRemoved(int index) const { return m_removed.contains(index); }
    QByteArray id(int index) const { return m_ids.at(index); }
    int indexOfPort(quint16 port) const;
    /// The node that serves \a slot, as the nodes that run see it: the one with the greatest config epoch.
    int ownerOf(int slot);
    /// The name of a lock whose slot the master \a index serves.
    QString nameAt(int index);
    /// The master of the slot of \a key.
    RedisServer &serverOf(const QByteArray &key);
    /// A replica of the master \a index.
    int replicaOf(int index);

    /// All nodes that run see the cluster as complete, and each slot at the same node.
    bool isHealthy();
    bool waitUntilHealthy();

    /// Starts to move \a slot from its owner to the master \a target: IMPORTING there, MIGRATING here.
    bool beginMove(int slot, int target);
    /// Moves at most \a count keys of a slot that moves, and returns how many; -1 after an error, see lastError().
    int moveKeys(int slot, int target, int count = 100);
    /// Moves these keys only.
    bool moveKey(const QByteArray &key, int target);
    /// \a target owns the slot from now on.
    bool endMove(int slot, int target);
    /// All of it.
    bool moveSlot(int slot, int target);
    /// The slot stays where it is.
    bool stopMove(int slot, int target);
    QByteArray lastError() const { return m_lastError; }

    /// CLUSTER FAILOVER with \a mode FORCE, TAKEOVER or nothing, on the node \a replica.
    bool failOver(int replica, const QByteArray &mode = {});
    /// A new node that is a master without slots; returns its index, or -1.
    int addMaster();
    /// The same, without waiting until it isMember().
    int beginAddMaster();
    /// All nodes know it, it knows them, and sees the cluster as complete.
    bool isMember(int index);
    /// The nodes forget a node without slots.
    bool forgetNode(int index);
    /// The same, and it is stopped.
    bool removeNode(int index);
    /// The replica \a index leaves the cluster, and becomes the only node of a new one, where it serves all slots. Its
    /// address stays the same; its id is new, and its epoch is greater than that of any node here.
    bool secede(int index);
    /// It has left that again, and is a master without slots.
    bool comeBack(int index);

    /// Cuts a node off from the other nodes; clients still reach it. Replicas that are connected to it stay so.
    void cutOff(int index) { setCutOff(index, true); }
    void join(int index) { setCutOff(index, false); }

    /// Sums of all nodes.
    qint64 commandsProcessed(const QByteArray &name);
    int connectedClients();
    QList<QByteArray> keys();
    void flushAll();

private:
    Q_DISABLE_COPY_MOVE(RedisCluster)
    bool addNode();
    bool ok(const QVariant &reply);
    bool meet(int index);
    quint16 portOf(const RedisServer &server) const;
    QVariantList slotsOf(int index);
    QString cutFile(int index) const;
    void setCutOff(int index, bool on);

    const Options m_options;
    QTemporaryDir m_folder;
    std::vector<std::unique_ptr<RedisServer>> m_nodes;
    QList<QByteArray> m_ids;
    QSet<int> m_removed;
    QString m_error;
    QByteArray m_lastError;
};

} // namespace Support
