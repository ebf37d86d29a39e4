// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/quorum/lockorder.h"
#include "engine/quorum/servergroup.h"

#include <array>
#include <functional>
#include <memory>

namespace QDistLock {

class DelayedCalls;

/*!
    One attempt to acquire a lock at a quorum.

    First the *arbiter* is asked, the first usable node in the order of the lock. It alone has the queue: if the lock is
    taken there, this client waits there, as at a single server. If it grants the lock, the others are asked at once,
    with its fencing token as floor. A majority with equal fencing tokens, the arbiter included, is success; if they
    differ, they are raised to the greatest. docs/protocol.md proves that fencing tokens rise.

    A node that does not reply in time counts as "no" for now; its grant is used if it comes before the decision. If
    there is no majority without such nodes, they get more time.
    Without a majority all votes are given back: a key that nobody can use would keep others from theirs. If others hold
    the lock at other nodes, the token keeps its place in the arbiter's queue, and the next attempt follows soon.

    Thread: that of the engine.
*/
class Ballot : public std::enable_shared_from_this<Ballot>
{
public:
    /// A bit for each node.
    using NodeSet = quint8;

    struct Result
    {
        EngineReply reply;
        /// Taken: the token has a place in the queue of this node; -1 = nowhere.
        int waitingAt = -1;
        /// Taken: the arbiter had granted the lock, and others hold it at other nodes.
        bool isPlaceKept = false;
    };
    using Completion = std::function<void(const Result &)>;

    /// \a order: see LockOrder. \a completion is called once, from the event loop. The others outlive the ballot.
    Ballot(ServerGroup *nodes, DelayedCalls *delayedCalls, const LockEngine::Acquire &operation,
           const LockOrder::Order &order, Completion completion);

    /// \a formerAt: where the token waits in a queue; -1 = nowhere. It leaves that queue if there is another arbiter.
    /// \a mayKeepPlace: at the arbiter, see Result. \a wasQueued: an earlier attempt has joined a queue.
    void begin(int formerAt, bool mayKeepPlace, bool wasQueued);
    /// Nobody wants the token any more. The ballot fails, unless it has ended; the caller gives the votes back that
    /// asked() names, and the ballot those that come later. \a keep: as in LockEngine::release().
    void cancel(std::chrono::milliseconds keep);
    bool hasEnded() const { return !m_completion; }
    /// The nodes that may keep something under the token.
    NodeSet asked() const { return m_asked; }

private:
    enum Vote : quint8 { NotAsked, Asked, Late, Granted, Taken, Failed, GivenBack };
    enum Step : quint8 { AskingArbiter, AskingOthers, Raising };

    int nextArbiter() const;
    void askArbiter();
    void askOthers();
    void ask(int node, bool isArbiter);
    void replied(int node, const EngineReply &reply);
    void raiseTo(qint64 fencingToken);
    void raised(int node, qint64 fencingToken, const EngineReply &reply);
    /// How long replies are waited for in this step.
    std::chrono::milliseconds limit() const;
    void limitTime(std::chrono::milliseconds time);
    void timeIsUp(int round);
    void decide();
    void succeed(qint64 fencingToken);
    void failSoon();
    void fail();
    void giveBack(int node);
    void end(const Result &result);

    int count(Vote vote) const;
    /// Nodes whose reply is waited for.
    int awaited() const;
    bool isAwaited(int node) const;
    /// Why it has not granted the lock; NoError if it was not asked.
    EngineError problemOf(int node) const;

    struct State
    {
        Vote vote = NotAsked;
        bool isRaising = false;
        qint64 fencingToken = 0;
        EngineError error = {};
    };

    ServerGroup *const m_nodes;
    DelayedCalls *const m_delayedCalls;
    const LockEngine::Acquire m_operation;
    const LockOrder::Order m_order;
    Completion m_completion; ///< null after the end
    std::array<State, QtRedis::ServerUrl::LargestQuorum> m_states;
    NodeSet m_asked = 0;
    Step m_step = AskingArbiter;
    int m_round = 0; ///< increased when another limit begins
    int m_arbiter = -1;
    int m_formerAt = -1;
    qint64 m_floor = 0;
    qint64 m_target = 0;      ///< Raising: the fencing token that all must have
    bool m_isPatient = false; ///< there is no majority without nodes that are silent
    bool m_isWanted = true;
    std::chrono::milliseconds m_keep{0};
    bool m_mayKeepPlace = false;
    bool m_mayBeQueued = false; ///< the token, at some node
};

} // namespace QDistLock
