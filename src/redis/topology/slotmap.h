// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/endpoint.h"
#include "redis/reply.h"

#include <QtCore/qbytearrayview.h>
#include <QtCore/qlist.h>
#include <QtCore/qset.h>

#include <optional>

namespace QtRedis {

/*!
    Which master of a Redis Cluster serves which hash slot, and in which config epoch it got the slot: a view with a
    smaller epoch is older. Thread: a plain value.
*/
class SlotMap
{
public:
    static constexpr int SlotCount = 16384;
    /// The slot of \a key: that of its {hash tag} if it has one.
    static int slotOf(QByteArrayView key);
    static bool isSlot(qint64 number) { return number >= 0 && number < SlotCount; }

    /// nullopt if no master is known to serve \a slot.
    std::optional<Endpoint> ownerOf(int slot) const;
    qint64 epochOf(int slot) const;
    /// All masters that serve a slot, sorted.
    QList<Endpoint> masters() const;
    int servedSlots() const;

    /// Its id is the one that \a owner has for its other slots.
    void setOwner(int slot, const Endpoint &owner, qint64 epoch) { setOwner(slot, slot, owner, epoch, idOf(owner)); }
    /// Of the slots from \a first to \a last.
    void setOwner(int first, int last, const Endpoint &owner, qint64 epoch, const QByteArray &id);
    /// The id of the node that serves slots at \a master; empty if it is not known.
    QByteArray idOf(const Endpoint &master) const;
    /// Of all masters that serve a slot, as far as they are known.
    QSet<QByteArray> ids() const;
    /// Takes over each slot of \a view that is not older. A slot whose owner is one of \a gone is also taken over from
    /// an older view: after a cluster was set up again, its epochs are small. If the view names nobody for it, but
    /// somebody for others, nobody serves it any more. An owner that the view shows at another address keeps the
    /// present one, since nodes may show it differently, unless that is one of \a suspects. True if an owner has
    /// changed.
    bool merge(const SlotMap &view, const QSet<Endpoint> &gone, const QSet<Endpoint> &suspects = {});
    /// The owners that \a view names, too, for one of their slots, and not with a smaller epoch.
    QSet<Endpoint> confirmedBy(const SlotMap &view) const;
    /// Whether \a view can be a later one of the same cluster, in which the master \a id still serves one of its slots:
    /// each other owner of a slot has a greater epoch there, and each present one not a smaller one.
    bool isContinuedBy(const SlotMap &view, const QByteArray &id) const;

private:
    struct Owner
    {
        Endpoint endpoint;
        qint64 epoch;
        QByteArray id;
    };
    QSet<quint16> usedIndexes() const;
    /// The index in m_owners, plus one; 0 if there are too many.
    quint16 indexOf(const Owner &owner);

    /// For each slot an index of m_owners, plus one; 0 = nobody.
    QList<quint16> m_slots = QList<quint16>(SlotCount, 0);
    QList<Owner> m_owners;
};

/// What one node says about its cluster. Thread: a plain value.
struct ClusterView
{
    SlotMap map;
    QList<Endpoint> nodes;    ///< all that serve slots: masters and replicas
    QByteArray self;          ///< the node's own id; empty if it does not say
    QSet<QByteArray> members; ///< ids of all nodes that it knows, itself included; or of those that serve slots

    /// Whether the node belongs to the cluster of \a known: it knows most masters of that, by their ids. Its address
    /// and its own id prove nothing: both may have moved to another cluster. A node that does not say whom it knows
    /// (CLUSTER NODES is forbidden) names no master that was replaced: then one is enough.
    bool isOfClusterOf(const SlotMap &known) const;
    /// Whether the node is a master of \a known that still serves one of its slots, and its view can be a later one of
    /// that cluster, most masters of which were replaced. Proves something only if nobody contradicts: a node that has
    /// left its cluster keeps its id (after CLUSTER RESET SOFT), but has no slots until another cluster gives it some.
    bool isOfMasterThatStayed(const SlotMap &known) const;

    /// \a slots and \a nodes are the replies to CLUSTER SLOTS and CLUSTER NODES of the node at \a asked. If the latter
    /// is not of the known form, epochs are 0. nullopt if \a slots is not of the known form.
    static std::optional<ClusterView> parse(const Reply &slots, const Reply &nodes, const Endpoint &asked);
};

/// An error reply that names the node which must execute a command: "MOVED 3999 127.0.0.1:6381", "ASK …". Thread: a
/// plain value.
struct Redirection
{
    enum Kind { Moved, Ask };
    Kind kind = Moved;
    int slot = 0;
    Endpoint endpoint;

    /// The reply came from the node at \a from; a redirection without a host means the same host. nullopt if \a error
    /// is no redirection.
    static std::optional<Redirection> parse(const QByteArray &error, const Endpoint &from);
};

} // namespace QtRedis
