// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/quorum/quorumengine.h"

#include "base/logging.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// When a majority is connected, the others are waited for this long: otherwise two clients that start at the same time
/// would often choose different arbiters.
constexpr milliseconds SettleTime = 200ms;
/// Waiters that try again in one turn of the event loop.
constexpr size_t NudgesInATurn = 100;
/// Those of which it is examined whether they must.
constexpr size_t ExaminedInATurn = 1000;
/// Renewals that are sent in one turn: those of many locks are due at the same time.
constexpr int RenewalsInATurn = 200;
/// A waiter whose arbiter has just been released asks the others again after this time, and then after four times as
/// much, before it waits for retryInterval: the releases may still be on their way.
constexpr milliseconds FirstRepeat = 5ms;
constexpr int Repeats = 3;
/// As many attempts in a row keep their place; then the next waiter in the queue, which may reach more servers, has its
/// turn.
constexpr int PlaceKeptAtMost = 10;
constexpr milliseconds ForceLimit = 500ms;

} // namespace

QuorumEngine::QuorumEngine(const QtRedis::ServerUrl &quorum, const LeaseClock *clock, QObject *parent)
    : LockEngine(parent)
    , m_clock(clock)
    , m_view(&m_nodes, &m_delayedCalls)
{
    m_nudgeTimer.setSingleShot(true);
    connect(&m_nudgeTimer, &QTimer::timeout, this, &QuorumEngine::nudgeSome);
    m_renewTimer.setSingleShot(true);
    connect(&m_renewTimer, &QTimer::timeout, this, &QuorumEngine::renewSome);
    m_settleTimer.setSingleShot(true);
    m_settleTimer.setInterval(SettleTime);
    connect(&m_settleTimer, &QTimer::timeout, this, [this] {
        m_isSettled = true;
        updateState();
    });
    // A message from one server proves no hand-over.
    const RedisNode::Callbacks callbacks{[this] { return need().connection; }, [this] { return need().queuePosition; }};
    for (const QtRedis::Endpoint &endpoint : quorum.quorumNodes) {
        m_names.append(endpoint.toString().toUtf8());
        auto node = std::make_unique<QuorumNode>(quorum.atNode(endpoint), clock, clientId(), callbacks,
                                                 &m_delayedCalls);
        const int index = m_nodes.size();
        node->redis().setIndex(index);
        connect(node.get(), &QuorumNode::identified, this, [this, index] { nodeIdentified(index); });
        connect(node.get(), &QuorumNode::changed, this, [this, index] { nodeChanged(index); });
        connect(node.get(), &QuorumNode::failed, this, [this, index] { nodeFailed(index); });
        const RedisNode *const redis = &node->redis();
        connect(redis, &RedisNode::noticed, this, [this, index](Notice notice, quint64 sequence, milliseconds ms) {
            nodeNoticed(index, notice, sequence, ms);
        });
        connect(redis, &RedisNode::wakeableChanged, this, [this, index] { nudgeAt(index, false); });
        connect(&node->redis().subscriber(), &QtRedis::Subscriber::readEnded, this, &LockEngine::processed);
        connect(&node->lane(), &RedisLane::readEnded, this, &LockEngine::processed);
        connect(&node->lane(), &RedisLane::handedOver, this,
                [this, index](const Handover &handover) { handedOverByNode(index, handover); });
        m_nodes.add(std::move(node));
    }
    m_waiting.resize(size_t(m_nodes.size()));
    m_wasUsable.resize(size_t(m_nodes.size()));
    m_reported.resize(size_t(m_nodes.size()));
}

QuorumEngine::~QuorumEngine()
{
    // Nothing reaches this from a node while the others are destroyed.
    m_renewTimer.stop();
    m_nudgeTimer.stop();
    m_settleTimer.stop();
    for (int node = 0; node < m_nodes.size(); ++node) {
        m_nodes.at(node).close();
        m_nodes.at(node).disconnect(this);
        m_nodes.at(node).redis().disconnect(this);
        m_nodes.at(node).redis().subscriber().disconnect(this);
        m_nodes.at(node).lane().disconnect(this);
    }
    setNeed(nullptr);
    m_delayedCalls.clear();
}

// The state of the quorum

void QuorumEngine::open()
{
    m_isOpen = true;
    for (int node = 0; node < m_nodes.size(); ++node)
        m_nodes.at(node).redis().open();
}

LockEngine::State QuorumEngine::state() const
{
    const auto isMisconfigured = [](const QuorumNode &node) { return node.isMisconfigured(); };
    const auto isMember = [](const QuorumNode &node) { return node.isMember(); };
    const auto isDisconnected = [](const QuorumNode &node) { return node.redis().lane().state() == Disconnected; };
    if (!m_isOpen || m_nodes.count(isMisconfigured) > 0 || m_nodes.count(isDisconnected) == m_nodes.size())
        return Disconnected;
    return m_isSettled && m_nodes.count(isMember) >= m_nodes.majority() ? Ready : Connecting;
}

EngineError QuorumEngine::error() const
{
    QList<EngineError> errors;
    bool hasFailed = false;
    for (int index = 0; index < m_nodes.size(); ++index) {
        const QuorumNode &node = m_nodes.at(index);
        if (node.isMisconfigured())
            return node.error();
        hasFailed |= node.hasFailed();
        if (node.isMember())
            continue;
        const EngineError error = node.error();
        errors.append(
                error ? error
                      : EngineError::passing(DistributedLock::ConnectionError, node.shown() + u": connecting."_s));
    }
    const int members = m_nodes.size() - int(errors.size());
    if (members >= m_nodes.majority() || !hasFailed)
        return {};
    return m_nodes.tooFew(members, u"can be used"_s, errors);
}

QString QuorumEngine::unsupported(const LockOptions &options) const
{
    if (options.minReplicas > 0)
        return u"minReplicas is not available with a quorum, whose servers are independent; use redis:// or redis+sentinel://"_s;
    return noSharing(options, u"the servers of a quorum are independent, and do not agree on who shares a lock"_s);
}

void QuorumEngine::nodeIdentified(int index)
{
    QuorumNode &node = m_nodes.at(index);
    for (int other = 0; other < m_nodes.size(); ++other) {
        if (other == index || !m_nodes.at(other).isMember() || m_nodes.at(other).runId() != node.runId())
            continue;
        // Two votes of one server would be no majority.
        node.refuse(EngineError::permanent(
                DistributedLock::OptionsError,
                u"%1 and %2 are the same server, which has one vote only; name independent servers."_s.arg(
                        m_nodes.at(other).shown(), node.shown())));
    }
}

void QuorumEngine::nodeChanged(int index)
{
    const bool isUsable = m_nodes.at(index).isUsable();
    if (m_wasUsable[size_t(index)] != isUsable) {
        m_wasUsable[size_t(index)] = isUsable;
        if (!isUsable) {
            nudgeAt(index, true);
        } else {
            nodeReturned(index);
            if (std::exchange(m_reported[size_t(index)], DistributedLock::NoError) != DistributedLock::NoError)
                qCInfo(lcLock, "%ls: its vote counts again", qUtf16Printable(m_nodes.at(index).shown()));
        }
    }
    updateState();
}

void QuorumEngine::nodeFailed(int index)
{
    updateState();
    const QuorumNode &node = m_nodes.at(index);
    const int left = m_nodes.count([](const QuorumNode &other) { return !other.hasFailed(); });
    if (left < m_nodes.majority() || node.isMisconfigured()) {
        Q_EMIT failed();
    } else if (std::exchange(m_reported[size_t(index)], node.error().code) != node.error().code) {
        qCWarning(lcLock, "One of the quorum's %d servers cannot be used, %d are left, %d are needed. %ls",
                  m_nodes.size(), left, m_nodes.majority(), qUtf16Printable(node.error().text));
    }
}

void QuorumEngine::updateState()
{
    const int members = m_nodes.count([](const QuorumNode &node) { return node.isMember(); });
    const int known = m_nodes.count([](const QuorumNode &node) { return node.isMember() || node.hasFailed(); });
    if (members < m_nodes.majority()) {
        m_isSettled = false;
        m_settleTimer.stop();
    } else if (known == m_nodes.size()) {
        m_isSettled = true;
        m_settleTimer.stop();
    } else if (!m_isSettled && !m_settleTimer.isActive()) {
        m_settleTimer.start();
    }
    const State now = state();
    if (std::exchange(m_reportedState, now) != now)
        Q_EMIT stateChanged();
}

void QuorumEngine::cork()
{
    for (int node = 0; node < m_nodes.size(); ++node)
        m_nodes.at(node).lane().cork();
}

void QuorumEngine::uncork()
{
    for (int node = 0; node < m_nodes.size(); ++node)
        m_nodes.at(node).lane().uncork();
}

bool QuorumEngine::isProcessing() const
{
    return m_nodes.count([](const QuorumNode &node) { return node.redis().isReading(); }) > 0;
}

// Waiters

LockOrder::Order QuorumEngine::orderOf(const LockId &lock) const
{
    // By their run ids, which all clients see alike, however they spell the addresses.
    QList<QByteArray> ids;
    for (int node = 0; node < m_nodes.size(); ++node)
        ids.append(m_nodes.at(node).isMember() ? m_nodes.at(node).runId() : m_names.at(node));
    LockOrder::Order order = LockOrder::of(lock.key(), ids);
    std::stable_partition(order.begin(), order.end(), [this](int node) { return m_nodes.at(node).isMember(); });
    return order;
}

int QuorumEngine::arbiterOf(const LockId &lock) const
{
    const LockOrder::Order order = orderOf(lock);
    int arbiter = -1;
    for (const int node : order) {
        if (!m_nodes.at(node).isMember() || m_nodes.at(node).untilVote(m_lastLease) > 0ms)
            continue;
        if (!m_nodes.at(node).isSilent())
            return node;
        arbiter = arbiter < 0 ? node : arbiter;
    }
    return arbiter; // all are silent
}

bool QuorumEngine::canBeWoken(const LockId &lock) const
{
    const int arbiter = arbiterOf(lock);
    return arbiter >= 0 && m_nodes.at(arbiter).redis().canBeWoken();
}

void QuorumEngine::nudgeAt(int node, bool onlyMoving)
{
    QList<quint64> sequences = m_waiting[size_t(node)].values();
    std::sort(sequences.begin(), sequences.end()); // in the order in which they came
    for (const quint64 sequence : std::as_const(sequences))
        m_nudges.push_back({sequence, onlyMoving});
    if (!m_nudges.empty() && !m_nudgeTimer.isActive())
        m_nudgeTimer.start(0);
}

void QuorumEngine::nudgeSome()
{
    size_t nudged = 0;
    for (size_t examined = 0; !m_nudges.empty() && examined < ExaminedInATurn && nudged < NudgesInATurn; ++examined) {
        const Nudge nudge = m_nudges.front();
        m_nudges.pop_front();
        const auto record = m_records.constFind(nudge.sequence);
        if (record == m_records.cend() || record->waitingAt < 0
            || (nudge.onlyIfMoving && arbiterOf(record->lock) == record->waitingAt))
            continue;
        ++nudged;
        Q_EMIT noticed(Grant, nudge.sequence, 0ms);
    }
    if (!m_nudges.empty())
        m_nudgeTimer.start(0);
}

void QuorumEngine::nodeReturned(int node)
{
    for (int other = 0; other < m_nodes.size(); ++other) {
        if (other != node)
            nudgeAt(other, true);
    }
    const milliseconds wait = m_nodes.at(node).untilVote(m_lastLease);
    if (wait == 0ms)
        return;
    // Until then it cannot be an arbiter.
    m_delayedCalls.add(wait, [this, node] {
        if (m_nodes.at(node).isUsable())
            nodeReturned(node);
    });
}

void QuorumEngine::nodeNoticed(int node, Notice notice, quint64 sequence, milliseconds ms)
{
    const auto record = m_records.find(sequence);
    if (notice == ForcedRelease && record != m_records.end())
        record->forcedUntil = Deadline(LongestTimeout); // the other nodes get the command within this time
    // A waiter that has moved is not concerned; that node has got a cancel, and perhaps not executed it yet.
    const bool isThere = record != m_records.end()
            && (record->waitingAt == node || (record->ballot && !record->ballot->hasEnded()));
    if (notice == ForcedRelease || isThere)
        Q_EMIT noticed(notice, sequence, ms);
}

void QuorumEngine::handedOverByNode(int node, const Handover &handover)
{
    const quint64 sequence = ownSequence(handover.token);
    if (m_records.contains(sequence))
        nodeNoticed(node, Grant, sequence, 0ms); // one vote is not yet the lock
    else                                         // it was given up, or the place in the queue was forged
        m_nodes.at(node).lane().abandon(handover.lock, handover.token, handover.lease, 0ms, handover.lease);
}

quint64 QuorumEngine::ownSequence(const QByteArray &token) const
{
    return Token::isOf(token, clientId()) ? Token::sequenceOf(token) : 0;
}

void QuorumEngine::setWaiting(Record *record, quint64 sequence, int node)
{
    if (record->waitingAt >= 0)
        m_waiting[size_t(record->waitingAt)].remove(sequence);
    record->waitingAt = node;
    if (node >= 0)
        m_waiting[size_t(node)].insert(sequence);
}

void QuorumEngine::dropRecord(QHash<quint64, Record>::iterator record, milliseconds keep)
{
    setWaiting(&*record, record.key(), -1);
    if (record->ballot)
        record->ballot->cancel(keep);
    m_records.erase(record);
}

// Operations

void QuorumEngine::acquire(const Acquire &operation, Completion completion)
{
    const quint64 sequence = ownSequence(operation.token);
    Record &record = m_records[sequence];
    record.lock = operation.lock;
    record.repairMissingTtl = operation.repairMissingTtl;
    record.believedUntil = m_clock->now() + operation.lease;
    m_lastLease = operation.lease;
    auto ballot = std::make_shared<Ballot>(
            &m_nodes, &m_delayedCalls, operation, orderOf(operation.lock),
            [this, sequence, completion = std::move(completion)](const Ballot::Result &result) {
                balloted(sequence, result, completion);
            });
    record.ballot = ballot;
    const bool wasQueued = record.wasQueued;
    record.wasQueued |= operation.enqueue;
    ballot->begin(record.waitingAt, record.timesPlaceKept < PlaceKeptAtMost, wasQueued);
}

void QuorumEngine::balloted(quint64 sequence, const Ballot::Result &result, const Completion &completion)
{
    auto record = m_records.find(sequence);
    if (record == m_records.end()) // given up
        return completion(result.reply);
    setWaiting(&*record, sequence, result.waitingAt);
    record->timesPlaceKept = result.isPlaceKept ? record->timesPlaceKept + 1 : 0;
    record->fencingToken = result.reply.fencingToken;
    const int timesPlaceKept = record->timesPlaceKept;
    EngineReply reply = result.reply;
    reply.error.canRetryAtOnce = reply.error && isComing();
    // Nothing is kept, and whoever makes a single attempt does not give the token back then.
    if (result.reply.status == EngineReply::Taken && !record->wasQueued)
        dropRecord(record);
    completion(reply);
    if (timesPlaceKept >= 1 && timesPlaceKept <= Repeats && m_records.contains(sequence))
        Q_EMIT noticed(Next, sequence, FirstRepeat * (1 << (2 * (timesPlaceKept - 1))));
}

void QuorumEngine::ask(const QList<int> &nodes, milliseconds lease, milliseconds limit, const Operation &operation,
                       Round::Decision decision, Completion completion, Round::Update update)
{
    const auto round = std::make_shared<Round>(std::move(decision), std::move(completion), std::move(update));
    for (const int node : nodes)
        round->ask(node);
    for (const int node : nodes) {
        operation(node, m_nodes.at(node).timed(lease, [round, node](const EngineReply &reply) {
            round->replied(node, reply);
        }));
    }
    // The completions of the nodes own the round; there may be none.
    const auto owned = nodes.isEmpty() ? round : nullptr;
    m_delayedCalls.add(nodes.isEmpty() ? 0ms : limit, [weak = std::weak_ptr(round), owned] {
        if (const auto late = weak.lock())
            late->timeIsUp();
    });
}

EngineReply QuorumEngine::lossOf(const Round &round)
{
    EngineReply reply;
    reply.status = round.count(Round::Stolen) > 0 ? EngineReply::Stolen : EngineReply::Gone;
    return reply;
}

/// It is not Ready only because connections were closed while they were idle: what they have not got is repeated
/// silently when it is.
bool QuorumEngine::isComing() const
{
    const int left = m_nodes.count([](const QuorumNode &node) { return !node.hasFailed(); });
    return state() == Connecting && left >= m_nodes.majority();
}

EngineReply QuorumEngine::tooFew(const Round &round, milliseconds limit, const QString &what) const
{
    QList<EngineError> errors;
    for (int index = 0; index < m_nodes.size(); ++index) {
        const QuorumNode &node = m_nodes.at(index);
        const auto because = [&](const QString &reason) {
            return EngineError::passing(DistributedLock::ConnectionError, node.shown() + u": "_s + reason);
        };
        switch (round.answer(index)) {
        case Round::Done:
            break;
        case Round::Failed:
            errors.append(round.error(index));
            break;
        case Round::Gone:
        case Round::Stolen:
            errors.append(EngineError::passing(DistributedLock::ServerError,
                                               node.shown() + u": it does not have the lock."_s));
            break;
        case Round::Asked:
        case Round::Late:
            errors.append(because(u"no reply within %1 ms."_s.arg(limit.count())).maybeExecuted());
            break;
        case Round::NotAsked:
            errors.append(node.isMember() ? because(u"it was away when the lock was acquired."_s) : node.error());
            if (!errors.last())
                errors.last() = because(u"connecting."_s);
            break;
        }
    }
    EngineReply reply;
    reply.error = m_nodes.tooFew(round.count(Round::Done), what, errors);
    reply.error.canRetryAtOnce = isComing();
    return reply;
}

void QuorumEngine::renew(const LockId &lock, const QByteArray &token, milliseconds lease, const Replicas &,
                         Completion completion)
{
    sendRenewal(token);
    m_renewals.insert(token, {lock, token, lease, std::move(completion)});
    m_renewalOrder.push_back(token);
    if (!m_renewTimer.isActive())
        m_renewTimer.start(0);
}

void QuorumEngine::renewSome()
{
    for (int i = 0; i < RenewalsInATurn && !m_renewalOrder.empty(); ++i) {
        const QByteArray token = std::move(m_renewalOrder.front());
        m_renewalOrder.pop_front();
        sendRenewal(token);
    }
    if (!m_renewalOrder.empty())
        m_renewTimer.start(0);
}

void QuorumEngine::sendRenewal(const QByteArray &token)
{
    const auto it = m_renewals.find(token);
    if (it == m_renewals.end())
        return;
    Renewal renewal = std::move(*it);
    m_renewals.erase(it);
    renewNow(renewal.lock, renewal.token, renewal.lease, std::move(renewal.completion));
}

void QuorumEngine::renewNow(const LockId &lock, const QByteArray &token, milliseconds lease, Completion completion)
{
    QList<int> members;
    for (int node = 0; node < m_nodes.size(); ++node) {
        if (m_nodes.at(node).isMember())
            members.append(node);
    }
    const milliseconds limit = QuorumNode::longLimit(lease);
    const auto decision = [this, limit](const Round &round) -> std::optional<EngineReply> {
        EngineReply done;
        done.status = EngineReply::Done;
        if (round.count(Round::Done) >= m_nodes.majority())
            return done;
        if (round.count(Round::Stolen) + round.count(Round::Gone) > m_nodes.size() - m_nodes.majority())
            return lossOf(round);
        return round.isOver() ? std::optional(tooFew(round, limit, u"have renewed the lock"_s)) : std::nullopt;
    };
    // Only what a majority has confirmed may be put where it lacks.
    const quint64 sequence = ownSequence(token);
    const LeaseTime sentAt = m_clock->now();
    auto update = [this, sequence, token, lease, given = Ballot::NodeSet(0)](const Round &round) mutable {
        if (round.count(Round::Done) < m_nodes.majority())
            return;
        for (int node = 0; node < m_nodes.size(); ++node) {
            const auto bit = Ballot::NodeSet(1U << node);
            if (round.answer(node) != Round::Gone || (given & bit) != 0)
                continue;
            given |= bit;
            giveAgain(node, sequence, token, lease);
        }
    };
    ask(
            members, lease, limit,
            [this, lock, token, lease](int node, Completion replied) {
                m_nodes.at(node).lane().renew(lock, token, lease, std::move(replied));
            },
            decision,
            [this, lock, token, lease, sequence, sentAt, completion = std::move(completion)](const EngineReply &reply) {
                const auto record = m_records.find(sequence);
                if (reply.status == EngineReply::Done && record != m_records.end())
                    record->believedUntil = sentAt + lease;
                // Fewer than a majority may still keep it.
                if (reply.status == EngineReply::Gone || reply.status == EngineReply::Stolen)
                    abandon(lock, token, lease, keepAfterLoss(token, lease), lease);
                completion(reply);
            },
            update);
}

/// A lost lock may still be safe: a server without the key may have been away when the lock was acquired, or have no
/// vote since its restart, and then nobody else gets a majority while the minority keeps the key. The holder needs that
/// time to stop its work; for example, a command that was sent SIGTERM takes a moment to end. So the minority keeps the
/// key until the deadline that the holder knew.
milliseconds QuorumEngine::keepAfterLoss(const QByteArray &token, milliseconds lease) const
{
    const auto record = m_records.constFind(ownSequence(token));
    if (record == m_records.cend())
        return lease; // another client has acquired it
    if (!record->forcedUntil.hasExpired())
        return 0ms;
    return std::clamp(std::chrono::ceil<milliseconds>(record->believedUntil - m_clock->now()), 0ms, lease);
}

/// A node was away when the lock was acquired, or has lost it: another one may be lost from now on.
void QuorumEngine::giveAgain(int node, quint64 sequence, const QByteArray &token, milliseconds lease)
{
    const auto record = m_records.find(sequence);
    if (record == m_records.end() || record->fencingToken == 0 || !record->forcedUntil.hasExpired()
        || !m_nodes.at(node).isMember())
        return;
    record->asked |= Ballot::NodeSet(1U << node);
    Acquire operation{record->lock, token, lease, record->repairMissingTtl};
    operation.barge = true; // those who wait there wait for this holder
    const auto replied = [this, node, sequence, operation, wasQueued = record->wasQueued](const EngineReply &reply) {
        // Released meanwhile; or a cancel of its place in the queue that vote() has replaced may not have run.
        const bool isGranted = reply.status == EngineReply::Granted;
        if (isGranted ? !m_records.contains(sequence) : wasQueued)
            m_nodes.at(node).lane().abandon(operation.lock, operation.token, operation.lease, 0ms, operation.lease);
    };
    m_nodes.at(node).lane().vote(operation, record->fencingToken, m_nodes.at(node).timed(lease, replied));
}

void QuorumEngine::release(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                           Completion completion)
{
    sendRenewal(token); // if it ran after the release, the key would stay for a lease, and not for minHold
    Ballot::NodeSet asked = Ballot::NodeSet(~0U); // of a token that another client has acquired, or is released again
    const auto record = m_records.find(ownSequence(token));
    if (record != m_records.end()) {
        asked = record->asked | (record->ballot ? record->ballot->asked() : Ballot::NodeSet(0));
        dropRecord(record, keep);
    }
    // Whoever is served by the arbiter asks the others then, so these come first.
    LockOrder::Order order = orderOf(lock);
    std::reverse(order.begin(), order.end());
    QList<int> nodes;
    int away = 0;
    for (const int node : order) {
        if ((asked & (1U << node)) == 0)
            continue;
        if (m_nodes.at(node).isConnected()) {
            nodes.append(node);
        } else {
            ++away;
            m_nodes.at(node).lane().abandon(lock, token, lease, keep, lease + 1s);
        }
    }
    const milliseconds limit = QuorumNode::limit(lease);
    const auto decision = [this, limit, away](const Round &round) -> std::optional<EngineReply> {
        EngineReply done;
        done.status = EngineReply::Done;
        const int count = round.count(Round::Done);
        if (count >= m_nodes.majority())
            return done;
        // Nodes that were never asked do not have it either.
        const int silent = away + round.count(Round::Asked) + round.count(Round::Late) + round.count(Round::Failed);
        if (count + silent < m_nodes.majority() && round.count(Round::Gone) + round.count(Round::Stolen) > 0)
            return lossOf(round);
        if (!round.isOver())
            return std::nullopt;
        if (count > 0)
            return done; // nobody says that it was lost before; the others get a cancel
        EngineReply failed = tooFew(round, limit, u"have released the lock"_s);
        failed.error.isMaybeExecuted = true;
        return failed;
    };
    auto update = [this, nodes, lock, token, lease, keep, isDone = false](const Round &round) mutable {
        if (!round.isOver() || std::exchange(isDone, true))
            return;
        for (const int node : nodes) {
            if (round.answer(node) == Round::Late || round.answer(node) == Round::Failed)
                m_nodes.at(node).lane().abandon(lock, token, lease, keep, lease + 1s);
        }
    };
    ask(
            nodes, lease, limit,
            [this, lock, token, lease, keep](int node, Completion replied) {
                m_nodes.at(node).lane().release(lock, token, lease, keep, std::move(replied));
            },
            decision, std::move(completion), update);
}

void QuorumEngine::abandon(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                           milliseconds atMost)
{
    sendRenewal(token);
    Ballot::NodeSet asked = Ballot::NodeSet(~0U);
    Ballot::NodeSet queued = asked;
    const auto record = m_records.find(ownSequence(token));
    if (record != m_records.end()) {
        asked = record->asked | (record->ballot ? record->ballot->asked() : Ballot::NodeSet(0));
        if (!record->ballot || record->ballot->hasEnded())
            queued = record->waitingAt >= 0 ? Ballot::NodeSet(1U << record->waitingAt) : Ballot::NodeSet(0);
        asked |= record->waitingAt >= 0 ? queued : Ballot::NodeSet(0);
        dropRecord(record, keep);
    }
    LockOrder::Order order = orderOf(lock);
    std::reverse(order.begin(), order.end());
    for (const int node : order) {
        // Only a place in a queue outlasts the lease. A node that is away for long must not make this client remember
        // each token that it has ever asked for.
        const milliseconds time = (queued & (1U << node)) != 0 ? atMost : std::min<milliseconds>(atMost, lease + 1s);
        if ((asked & (1U << node)) != 0)
            m_nodes.at(node).lane().abandon(lock, token, lease, keep, time);
    }
}

void QuorumEngine::forceRelease(const LockId &lock, qint64 fencingToken, Completion completion)
{
    LockOrder::Order order = orderOf(lock);
    std::reverse(order.begin(), order.end());
    QList<int> nodes;
    for (const int node : order) {
        if (m_nodes.at(node).isConnected())
            nodes.append(node);
    }
    const auto decision = [this](const Round &round) -> std::optional<EngineReply> {
        if (!round.isOver())
            return std::nullopt;
        const int done = round.count(Round::Done);
        const int stolen = round.count(Round::Stolen);
        if (done + stolen + round.count(Round::Gone) < m_nodes.majority())
            return tooFew(round, ForceLimit, u"have replied"_s);
        EngineReply reply;
        reply.status = done > 0 ? EngineReply::Done : stolen > 0 ? EngineReply::Stolen : EngineReply::Gone;
        return reply;
    };
    ask(
            nodes, ForceLimit * 10, ForceLimit,
            [this, lock, fencingToken](int node, Completion replied) {
                m_nodes.at(node).lane().forceRelease(lock, fencingToken, std::move(replied));
            },
            decision, std::move(completion));
}

// What others may see

void QuorumEngine::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    m_view.inspect(lock, std::move(completion));
}

bool QuorumEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    const int arbiter = arbiterOf(waiter.lock);
    return arbiter >= 0 && m_nodes.at(arbiter).lane().findHolder(waiter, std::move(completion));
}

void QuorumEngine::list(const QString &prefix, const QString &pattern,
                        std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    m_view.list(prefix, pattern, std::move(completion));
}

void QuorumEngine::waiters(const LockId &lock, int atMost,
                           std::function<void(const EngineError &, const QList<LockWaiter> &)> completion)
{
    m_view.waiters(lock, atMost, std::move(completion));
}

} // namespace QDistLock
