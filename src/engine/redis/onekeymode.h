// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "engine/redis/commandbatch.h"
#include "engine/redis/locklisting.h"

#include "redis/connection.h"
#include "redis/topology/slotmap.h"

#include <QtCore/qhash.h>

#include <functional>
#include <memory>
#include <optional>

namespace QDistLock {

class ClusterNode;

/*!
    The operations on locks whose cluster slot is moving to another node. Meanwhile the keys of one lock may be at two
    nodes, and each of these refuses commands with several keys, for as long as the slot moves: for ever if an
    administrator has left it half moved. So an operation is done with commands that have one key each, wherever that
    key is at present.

    Meanwhile nobody is served, and nobody joins the queue: a queue that was made at the new node, while the old one
    still has one, would stop the move (BUSYKEY). Who waits polls, and leaves the queue before it holds the lock. A slot
    counts as moving until a second after a node has said so last; then the next operation finds out whether that is
    still so.

    Thread: that of the nodes.
*/
class OneKeyMode
{
public:
    using Moved = std::function<bool(const QtRedis::Endpoint &from, const QtRedis::Redirection &)>;

    /// \a nodeAt: the node at an address. \a nodeOf: the master of a slot, or null. \a moved: the node at an
    /// address has replied that another one serves a slot; false if that must not be followed. All outlive this.
    OneKeyMode(const LeaseClock *clock, std::function<ClusterNode *(const QtRedis::Endpoint &)> nodeAt,
               std::function<ClusterNode *(int slot)> nodeOf, Moved moved);

    /// A node has said that \a slot is moving.
    void begin(int slot);
    bool isActive(int slot) const;
    /// \a operation has its slot. Its completion is called later, or at once if no node serves the slot.
    void run(LockOperation operation);

    /// These find the keys of \a lock wherever they are. The keys may change between two of the commands.
    void read(const LockId &lock, LockListing::Found found);
    void waiters(const LockId &lock, int atMost, LockListing::WaitersCompletion completion);
    void inspect(const LockId &lock, LockListing::Completion completion);
    /// As LockEngine::forceRelease(), but nobody is served.
    void forceRelease(const LockId &lock, qint64 fencingToken, LockEngine::Completion completion);

private:
    struct Command;
    struct Reading;
    using Done = std::function<void(const QtRedis::CommandResult &, ClusterNode *)>;

    void acquire(const std::shared_ptr<LockOperation> &operation);
    void refuse(const std::shared_ptr<LockOperation> &operation);
    void drawFence(const std::shared_ptr<LockOperation> &operation, LeaseTime sentAt);
    void release(const std::shared_ptr<LockOperation> &operation);
    /// \a done: why the token is perhaps still in the queue, or whether it had a place there.
    void leaveQueue(const std::shared_ptr<LockOperation> &operation,
                    std::function<void(const EngineError &, bool hadPlace)> done);
    void renew(const std::shared_ptr<LockOperation> &operation);
    void readOn(const std::shared_ptr<Reading> &reading);
    void takeAway(const LockId &lock, QList<QByteArray> tokens, LockEngine::Completion completion);
    static EngineError errorOf(const QtRedis::CommandResult &result, ClusterNode *node, const char *command);
    void send(int slot, const QtRedis::Script *script, const QList<QByteArray> &arguments,
              std::chrono::milliseconds timeout, Done done);
    void send(const std::shared_ptr<LockOperation> &operation, const QtRedis::Script *script,
              const QList<QByteArray> &arguments, Done done);
    void send(const std::shared_ptr<Command> &command, const std::optional<QtRedis::Endpoint> &asked);
    void received(const std::shared_ptr<Command> &command, ClusterNode *node, const QtRedis::CommandResult &result);
    EngineReply decode(const LockOperation &operation, LeaseTime sentAt, const char *command,
                       const QtRedis::CommandResult &result, ClusterNode *node) const;

    const LeaseClock *const m_clock;
    const std::function<ClusterNode *(const QtRedis::Endpoint &)> m_nodeAt;
    const std::function<ClusterNode *(int slot)> m_nodeOf;
    const Moved m_moved;
    QHash<int, Deadline> m_slots;
};

} // namespace QDistLock
