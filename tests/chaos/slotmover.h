// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "history.h"

#include <QtCore/qlist.h>
#include <QtCore/qobject.h>
#include <QtCore/qtimer.h>

#include <chrono>
#include <functional>
#include <random>

namespace Support {
class RedisCluster;
}

namespace Chaos {

/*!
    Moves the slots of locks between the masters of a cluster, one slot at a time and one key at a time, with pauses, so
    that the keys of a lock are often at two nodes. It finishes each move, with the masters that have replaced those of
    its beginning, if need be. Records each move, and each key that could not be moved because the target had one of the
    same name (BUSYKEY).
    Thread: one, with a running event loop, which waits for each answer.
*/
class SlotMover : public QObject
{
public:
    /// What the mover must know of the cluster, as it is at the moment of the call.
    struct View
    {
        std::function<void()> update;
        std::function<QList<int>()> masters; ///< nodes that may be given slots, and answer
        std::function<int(int slot)> ownerOf;
        /// The master that has replaced \a node; \a node itself, if it was not replaced.
        std::function<int(int node)> successorOf;
        /// Both masters know that the slot moves.
        std::function<bool(int slot, int source, int target)> isMoving;
    };

    SlotMover(History *history, Support::RedisCluster *cluster, const QList<QByteArray> &locks, quint64 seed,
              View view);

    void start();
    /// After the present move.
    void stop() { m_isStopping = true; }
    bool isIdle() const { return m_isStopping && m_step == Step::Rest && !m_timer.isActive(); }
    /// The present move, or the next one, pauses when it has moved a key and there is another one.
    void leaveHalfDone() { m_leavesHalfDone = true; }
    /// The present move, or the next one, pauses when the source has given the slot away and the target does not have
    /// it yet: each of them names the other as its owner.
    void leaveToNobody() { m_leavesToNobody = true; }
    void goOn();
    /// How long it has paused until now.
    std::chrono::nanoseconds halfDoneFor() const;
    /// Every second move leads to \a node.
    void prefer(int node);
    /// No move leads to \a node any more, and its slots are moved away first, even after stop(). None: -1.
    void evacuate(int node);
    /// The node to which \a slot is being moved; -1 if it is not.
    int targetOf(int slot) const { return m_step != Step::Rest && slot == m_slot ? m_target : -1; }
    bool isMovingFromOrTo(int node) const { return m_step != Step::Rest && (m_source == node || m_target == node); }

private:
    enum class Step { Rest, Begin, Move, End, Give };

    void act();
    void choose();
    QByteArray lockToEvacuate() const;
    bool chooseTarget();
    bool findMasters();
    void begin();
    void moveKey();
    void moved(const QByteArray &key, const QByteArray &reply);
    void end();
    void give();
    void dropKeysAtTarget();
    QList<QByteArray> keysAt(int node) const;
    bool setSlot(int node, const QByteArray &what, int other);
    void next(Step step, int shortest, int longest);
    int between(int low, int high) { return low + int(m_random() % quint64(high - low + 1)); }

    History *const m_history;
    Support::RedisCluster *const m_cluster;
    const QList<QByteArray> m_locks;
    const View m_view;
    std::mt19937_64 m_random;
    QTimer m_timer;
    Step m_step = Step::Rest;
    QByteArray m_lock;
    int m_slot = -1;
    int m_source = -1;
    int m_target = -1;
    int m_preferred = -1;
    int m_evacuated = -1;
    int m_keysMoved = 0;
    bool m_hasBegun = false;
    bool m_replaces = false; ///< a fail-over, or an unknown result, may have left keys at both nodes
    bool m_leavesHalfDone = false;
    bool m_leavesToNobody = false;
    qint64 m_halfDoneSince = 0; ///< boot time; 0 if the move does not pause
    bool m_isStopping = false;
};

} // namespace Chaos
