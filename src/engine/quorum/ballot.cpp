// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/quorum/ballot.h"

#include "engine/protocolconstants.h"
#include "engine/quorum/delayedcalls.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

Ballot::Ballot(ServerGroup *nodes, DelayedCalls *delayedCalls, const LockEngine::Acquire &operation,
               const LockOrder::Order &order, Completion completion)
    : m_nodes(nodes)
    , m_delayedCalls(delayedCalls)
    , m_operation(operation)
    , m_order(order)
    , m_completion(std::move(completion))
{
}

void Ballot::begin(int formerAt, bool mayKeepPlace, bool wasQueued)
{
    m_mayKeepPlace = mayKeepPlace;
    m_mayBeQueued = wasQueued || m_operation.enqueue;
    m_formerAt = formerAt;
    const milliseconds lease = m_operation.lease;
    const int eligible = m_nodes->count([&](const QuorumNode &node) { return !node.objection(lease); });
    const int prompt = m_nodes->count(
            [&](const QuorumNode &node) { return !node.objection(lease) && !node.isSilent(); });
    m_isPatient = prompt < m_nodes->majority();
    if (eligible >= m_nodes->majority())
        askArbiter();
    else
        failSoon();
}

void Ballot::cancel(milliseconds keep)
{
    m_keep = keep;
    if (!std::exchange(m_isWanted, false) || hasEnded())
        return;
    m_delayedCalls->add(0ms, [self = shared_from_this()] {
        if (self->hasEnded())
            return;
        Result result;
        result.reply.error = EngineError::passing(DistributedLock::CancelledError, u"the acquire was given up"_s);
        result.reply.error.isMaybeExecuted = true;
        self->end(result);
    });
}

int Ballot::count(Vote vote) const
{
    return int(std::count_if(m_states.cbegin(), m_states.cend(), [vote](const State &s) { return s.vote == vote; }));
}

bool Ballot::isAwaited(int node) const
{
    return m_states[size_t(node)].vote == Asked && (m_isPatient || !m_nodes->at(node).isSilent());
}

int Ballot::awaited() const
{
    return int(std::count_if(m_order.cbegin(), m_order.cend(), [this](int node) { return isAwaited(node); }));
}

int Ballot::nextArbiter() const
{
    const auto next = [this](bool isSilent) {
        return std::find_if(m_order.cbegin(), m_order.cend(), [this, isSilent](int node) {
            return m_states[size_t(node)].vote == NotAsked && m_nodes->at(node).isSilent() == isSilent
                    && !m_nodes->at(node).objection(m_operation.lease);
        });
    };
    auto node = next(false);
    if (node == m_order.cend() && m_isPatient)
        node = next(true);
    return node == m_order.cend() ? -1 : *node;
}

void Ballot::askArbiter()
{
    m_arbiter = nextArbiter();
    if (m_arbiter < 0)
        return failSoon();
    if (m_formerAt >= 0 && m_formerAt != m_arbiter)
        giveBack(std::exchange(m_formerAt, -1));
    ask(m_arbiter, true);
    limitTime(limit());
}

void Ballot::ask(int node, bool isArbiter)
{
    LockEngine::Acquire operation = m_operation;
    QuorumNode &server = m_nodes->at(node);
    if (isArbiter) {
        operation.enqueue &= server.redis().canBeWoken();
    } else {
        operation.enqueue = false;
        operation.barge = true; // whoever waits there waits for its arbiter to choose
        operation.arrival.clear();
    }
    State &state = m_states[size_t(node)];
    state.vote = Asked;
    m_asked |= NodeSet(1U << node);
    server.lane().vote(operation, isArbiter ? 0 : m_floor,
                       server.timed(m_operation.lease, [self = shared_from_this(), node](const EngineReply &reply) {
                           self->replied(node, reply);
                       }));
}

milliseconds Ballot::limit() const
{
    return m_isPatient ? QuorumNode::longLimit(m_operation.lease) : QuorumNode::limit(m_operation.lease);
}

void Ballot::limitTime(milliseconds time)
{
    m_delayedCalls->add(time, [self = weak_from_this(), round = ++m_round] {
        if (const auto ballot = self.lock())
            ballot->timeIsUp(round);
    });
}

/// Not at once, because begin() may be running.
void Ballot::failSoon()
{
    ++m_round; // the time limit of a former arbiter may be about to end
    m_delayedCalls->add(0ms, [self = shared_from_this()] {
        if (!self->hasEnded())
            self->fail();
    });
}

void Ballot::replied(int node, const EngineReply &reply)
{
    State &state = m_states[size_t(node)];
    state.fencingToken = reply.fencingToken;
    state.error = reply.error;
    if (state.vote == GivenBack)
        return; // the cancel was sent behind it
    state.vote = reply.status == EngineReply::Granted ? Granted : reply.status == EngineReply::Taken ? Taken : Failed;
    if (!m_isWanted) {
        if (state.vote == Granted || reply.error.isMaybeExecuted)
            giveBack(node);
        return;
    }
    if (hasEnded()) { // one more than was needed; a cancel that vote() has replaced may not have run
        if (state.vote != Granted && m_mayBeQueued)
            giveBack(node);
        return;
    }
    if (m_step != AskingArbiter)
        return decide();
    if (node != m_arbiter)
        return;
    switch (state.vote) {
    case Granted:
        m_floor = reply.fencingToken;
        askOthers();
        break;
    case Taken: {
        Result result{reply};
        // If it does not join the queue now, because it cannot be notified, it may have its former place there.
        if (reply.queuePosition >= 0 || node == m_formerAt)
            result.waitingAt = node;
        end(result);
        break;
    }
    default: // another one can be the arbiter
        if (reply.error.isMaybeExecuted)
            giveBack(node);
        askArbiter();
    }
}

void Ballot::askOthers()
{
    m_step = AskingOthers;
    for (const int node : m_order) {
        if (m_states[size_t(node)].vote == NotAsked && !m_nodes->at(node).objection(m_operation.lease))
            ask(node, false);
    }
    limitTime(limit());
    decide();
}

void Ballot::timeIsUp(int round)
{
    if (hasEnded() || round != m_round || !m_isWanted)
        return;
    const bool isAlternative = m_step == AskingArbiter && nextArbiter() >= 0;
    if (!isAlternative && !m_isPatient) { // it would fail without those that are late
        const milliseconds waited = limit();
        m_isPatient = true;
        return limitTime(limit() - waited);
    }
    for (const int node : m_order) {
        State &state = m_states[size_t(node)];
        state.isRaising = false;
        if (state.vote != Asked)
            continue;
        state.vote = Late;
        state.error = EngineError::passing(
                DistributedLock::ConnectionError,
                u"%1: no reply within %2 ms."_s.arg(m_nodes->at(node).shown()).arg(limit().count()));
    }
    if (m_step != AskingArbiter)
        return decide();
    giveBack(m_arbiter); // its place in the queue, too: this client is going to wait somewhere else
    askArbiter();
}

void Ballot::decide()
{
    const int majority = m_nodes->majority();
    const int granted = count(Granted);
    if (granted + awaited() < majority)
        return fail();
    if (granted < majority)
        return;
    // Equal fencing tokens of a majority, see docs/protocol.md.
    qint64 greatest = 0;
    int raising = 0;
    for (const State &state : m_states) {
        if (state.vote != Granted)
            continue;
        const auto isEqual = [&](const State &other) {
            return other.vote == Granted && other.fencingToken == state.fencingToken;
        };
        if (std::count_if(m_states.cbegin(), m_states.cend(), isEqual) >= majority)
            return succeed(state.fencingToken);
        greatest = std::max(greatest, state.fencingToken);
        raising += state.isRaising ? 1 : 0;
    }
    if (raising > 0)
        return;
    if (m_step != Raising || greatest > m_target)
        return raiseTo(greatest);
    if (awaited() == 0)
        fail();
}

void Ballot::raiseTo(qint64 fencingToken)
{
    m_step = Raising;
    m_target = fencingToken;
    for (const int node : m_order) {
        State &state = m_states[size_t(node)];
        if (state.vote != Granted || state.fencingToken >= fencingToken)
            continue;
        state.isRaising = true;
        m_nodes->at(node).lane().raise(
                m_operation.lock, m_operation.token, fencingToken,
                m_nodes->at(node).timed(m_operation.lease,
                                        [self = shared_from_this(), node, fencingToken](const EngineReply &reply) {
                                            self->raised(node, fencingToken, reply);
                                        }));
    }
    limitTime(limit());
}

void Ballot::raised(int node, qint64 fencingToken, const EngineReply &reply)
{
    State &state = m_states[size_t(node)];
    if (fencingToken != m_target) // it is being raised further
        return;
    if (!std::exchange(state.isRaising, false) || hasEnded() || !m_isWanted)
        return;
    if (reply.status == EngineReply::Done) {
        state.fencingToken = fencingToken;
    } else {
        state.vote = Failed;
        state.error = reply.status == EngineReply::Failed
                ? reply.error
                : EngineError::passing(DistributedLock::ServerError,
                                       m_nodes->at(node).shown() + u": the lock was taken away at once."_s);
    }
    decide();
}

void Ballot::succeed(qint64 fencingToken)
{
    for (const int node : m_order) { // as in replied()
        const Vote vote = m_states[size_t(node)].vote;
        if (m_mayBeQueued && (vote == Taken || vote == Failed))
            giveBack(node);
    }
    Result result;
    result.reply.status = EngineReply::Granted;
    result.reply.fencingToken = fencingToken;
    end(result);
}

EngineError Ballot::problemOf(int node) const
{
    const State &state = m_states[size_t(node)];
    if (state.error)
        return state.error;
    if (const EngineError error = m_nodes->at(node).objection(m_operation.lease))
        return error;
    const QString shown = m_nodes->at(node).shown();
    if (state.vote == Taken)
        return EngineError::passing(DistributedLock::BusyError, shown + u": somebody else holds it there."_s);
    if (state.vote == NotAsked)
        return {}; // it had no chance to say no
    return EngineError::passing(DistributedLock::ConnectionError, shown + u": it did not reply in time."_s);
}

void Ballot::fail()
{
    const int granted = count(Granted);
    const bool isTaken = granted + count(Taken) >= m_nodes->majority();
    // Others hold it at other nodes: perhaps a client that knows no arbiter, or whose releases are on their way. It is
    // not the turn of the next waiter, who would find the same.
    const bool isPlaceKept = isTaken && m_mayKeepPlace && m_operation.enqueue
            && m_states[size_t(m_arbiter)].vote == Granted && m_nodes->at(m_arbiter).redis().canBeWoken();
    QList<EngineError> errors;
    for (const int node : m_order) {
        const EngineError problem = problemOf(node);
        if (m_states[size_t(node)].vote != Granted && problem)
            errors.append(problem);
    }
    for (const int node : m_order) {
        if ((m_asked & (1U << node)) != 0 && !(isPlaceKept && node == m_arbiter))
            giveBack(node);
    }
    if (isPlaceKept) {
        // Without a reply, the next attempt finds the place or renews the vote.
        m_nodes->at(m_arbiter).lane().returnToQueue(
                m_operation, m_nodes->at(m_arbiter).timed(m_operation.lease, [](const EngineReply &) {}));
    }
    if (m_formerAt >= 0 && m_formerAt != m_arbiter)
        giveBack(std::exchange(m_formerAt, -1));
    Result result;
    if (isTaken) {
        // As if another library held it, whose release nobody announces: the machine polls at retryInterval.
        result.reply.status = EngineReply::Taken;
        result.reply.foreignHolder = true;
        result.reply.queuePosition = isPlaceKept ? 0 : -1;
        result.isPlaceKept = isPlaceKept;
        result.waitingAt = isPlaceKept ? m_arbiter : -1;
    } else {
        const bool wasAsked = m_arbiter >= 0;
        result.reply.error = m_nodes->tooFew(wasAsked ? granted : m_nodes->size() - int(errors.size()),
                                             wasAsked ? u"have granted the lock"_s : u"have a vote"_s, errors);
        result.reply.error.isMaybeExecuted = true;
    }
    end(result);
}

void Ballot::giveBack(int node)
{
    if (m_states[size_t(node)].vote != NotAsked)
        m_states[size_t(node)].vote = GivenBack;
    m_asked &= NodeSet(~(1U << node));
    // A place in a queue outlasts the lease.
    m_nodes->at(node).lane().abandon(m_operation.lock, m_operation.token, m_operation.lease, m_keep,
                                     m_mayBeQueued ? milliseconds(Protocol::QueueTtl) : m_operation.lease + 1s);
}

void Ballot::end(const Result &result)
{
    const Completion completion = std::exchange(m_completion, nullptr);
    completion(result);
}

} // namespace QDistLock
