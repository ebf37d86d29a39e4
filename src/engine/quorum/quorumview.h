// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/quorum/servergroup.h"

#include <QDistLock/lockinfo.h>

#include <functional>

namespace QDistLock {

class DelayedCalls;

/*!
    What the nodes of a quorum show of its locks, put together: a lock is held by whoever holds it at a majority, if the
    nodes that did not reply are counted for him. The queue is the longest one: only its clients know which node is
    their arbiter, because that depends on their leases, and on the nodes that they reach.

    When a majority has replied, nodes that are silent are not waited for, and the others for half a second.
    Thread: that of the engine.
*/
class QuorumView
{
public:
    /// Both outlive this.
    QuorumView(ServerGroup *nodes, DelayedCalls *delayedCalls)
        : m_nodes(nodes)
        , m_delayedCalls(delayedCalls)
    {
    }

    void inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion);
    void waiters(const LockId &lock, int atMost,
                 std::function<void(const EngineError &, const QList<LockWaiter> &)> completion);
    void list(const QString &prefix, const QString &pattern,
              std::function<void(const EngineError &, const QList<LockInfo> &)> completion);

private:
    template<typename Value>
    struct Collection;
    template<typename Value>
    void collect(std::function<void(int node, std::function<void(const EngineError &, const Value &)> reply)> ask,
                 std::function<void(const EngineError &, const QList<std::pair<int, Value>> &)> completion);
    LockInfo merged(const QList<std::pair<int, LockInfo>> &views, int replies) const;

    ServerGroup *const m_nodes;
    DelayedCalls *const m_delayedCalls;
};

} // namespace QDistLock
