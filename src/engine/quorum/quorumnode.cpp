// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/quorum/quorumnode.h"

#include "base/leaseclock.h"
#include "engine/quorum/delayedcalls.h"

#include <QtCore/qpointer.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr milliseconds ShortestLimit = 50ms;
constexpr milliseconds LongestLimit = 500ms;
constexpr milliseconds LongestWait = 3s;
constexpr milliseconds LongestAskAgain = 10s;
/// A reply that was read this much later may have waited for the event loop.
constexpr milliseconds GraceTime = 5ms;

} // namespace

QuorumNode::QuorumNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
                       RedisNode::Callbacks callbacks, DelayedCalls *delayedCalls)
    : m_server(server)
    , m_clock(clock)
    , m_delayedCalls(delayedCalls)
    , m_redis(server, clock, clientId, std::move(callbacks))
{
    m_askAgainTimer.setSingleShot(true);
    connect(&m_askAgainTimer, &QTimer::timeout, this, &QuorumNode::askInfo);
    connect(&lane(), &RedisLane::stateChanged, this, &QuorumNode::stateChanged);
    connect(&lane(), &RedisLane::failed, this, [this] {
        m_hasFailed = true;
        Q_EMIT failed();
    });
}

milliseconds QuorumNode::limit(milliseconds lease)
{
    return std::clamp(lease / 10, ShortestLimit, LongestLimit);
}

milliseconds QuorumNode::longLimit(milliseconds lease)
{
    return std::clamp(lease / 6, limit(lease), LongestWait);
}

EngineError QuorumNode::error() const
{
    if (isConnected())
        return m_problem;
    if (const EngineError error = m_redis.lane().error())
        return error;
    return EngineError::passing(DistributedLock::ConnectionError, shown() + u": still connecting."_s);
}

milliseconds QuorumNode::untilVote(milliseconds lease) const
{
    if (m_server.isPersistent)
        return 0ms;
    // It may have been restarted without its data. Whoever got its vote before has the lock for a lease at most.
    const auto up = m_clock->now() - m_upSince;
    return std::max(0ms, std::chrono::ceil<milliseconds>(lease - (up - up / 100)));
}

EngineError QuorumNode::objection(milliseconds lease) const
{
    if (!isConnected() || m_problem)
        return error();
    if (!m_isIdentified)
        return EngineError::passing(DistributedLock::ConnectionError, shown() + u": INFO has no reply yet."_s);
    if (untilVote(lease) == 0ms)
        return {};
    return EngineError::passing(
            DistributedLock::QuorumError,
            u"%1: the server is up since %2 s only, and may have lost locks that it kept before; its vote counts once "
            "it is up for the lease of %3 ms (or write persistent=1 if it keeps its data on disk, with appendfsync always)."_s
                    .arg(shown())
                    .arg(std::chrono::duration_cast<std::chrono::seconds>(m_clock->now() - m_upSince).count())
                    .arg(lease.count()));
}

void QuorumNode::stateChanged()
{
    if (isConnected())
        return askInfo();
    m_isIdentified = false;
    m_isAsking = false;
    m_problem = {};
    m_askAgainTimer.stop();
    Q_EMIT changed();
}

void QuorumNode::askInfo()
{
    if (!isConnected() || std::exchange(m_isAsking, true))
        return;
    expectReply(LongestLimit);
    const auto replied = [this](const QtRedis::CommandResult &result) {
        EngineError error;
        if (result.outcome != QtRedis::CommandResult::Replied || result.reply.isError())
            error = lane().errorOf(result, "INFO");
        else if (result.reply.type != QtRedis::Reply::Bulk)
            error = lane().malformed("INFO");
        replyArrived(!error);
        infoReceived(error, result.reply.text);
    };
    lane().sendOne(nullptr, {"INFO", "server"}, false, LongestTimeout, replied);
}

void QuorumNode::infoReceived(const EngineError &error, const QByteArray &info)
{
    if (!std::exchange(m_isAsking, false) || !isConnected())
        return; // of a connection that was lost
    m_problem = error;
    if (error.code == DistributedLock::PermissionError)
        m_problem.text += u"; a quorum also needs +info"_s;
    if (!error)
        identify(info);
    if (!m_problem) {
        m_isIdentified = m_wasMember = true;
        m_hasFailed = false;
        m_askAgainPauses.reset();
        Q_EMIT changed();
        return;
    }
    m_hasFailed = true;
    askAgainLater();
    const QPointer<QuorumNode> guard(this);
    Q_EMIT changed();
    if (guard)
        Q_EMIT failed();
}

void QuorumNode::identify(const QByteArray &info)
{
    const QByteArray runId = QtRedis::infoField(info, "run_id");
    if (runId.isEmpty()) {
        m_problem = EngineError::passing(DistributedLock::ServerError,
                                         shown() + u": INFO shows no run_id; check that it is a Redis server."_s);
        return;
    }
    const QByteArray mode = QtRedis::infoField(info, "redis_mode")
            + QtRedis::infoField(info, "server_mode"); // in Valkey, the latter
    if (mode == "cluster") {
        m_problem = EngineError::permanent(
                DistributedLock::OptionsError,
                shown() + u" is a node of a Redis Cluster; a quorum needs independent servers."_s);
        return;
    }
    // The time is that of the server's clock, which may have been set: then it is negative, or wrong. What cannot be
    // read counts from now on. It is the difference of two times that are cut to seconds, so up to a second too long.
    const LeaseTime now = m_clock->now();
    bool isNumber = false;
    const qint64 uptime = QtRedis::infoField(info, "uptime_in_seconds").toLongLong(&isNumber);
    constexpr qint64 Longest = 366LL * 24 * 3600;
    const LeaseTime upSince = isNumber ? now - std::chrono::seconds(std::clamp<qint64>(uptime - 1, 0, Longest)) : now;
    // The clock of a server may be set forward after its start: then it seems to be up for longer. So the latest time
    // counts that the same server has shown, but at most the one at which it was seen first. Another server at this
    // address, however long it is up, does not have what the former one had confirmed.
    const QByteArray former = std::exchange(m_runId, runId);
    if (former != runId) {
        m_seenSince = now;
        m_upSince = former.isEmpty() ? upSince : now;
    } else {
        m_upSince = std::min(m_seenSince, std::max(m_upSince, upSince));
    }
    Q_EMIT identified();
}

void QuorumNode::askAgainLater()
{
    m_askAgainTimer.start(std::chrono::round<milliseconds>(m_askAgainPauses.next(LongestAskAgain)));
}

LockEngine::Completion QuorumNode::timed(milliseconds lease, LockEngine::Completion completion)
{
    expectReply(limit(lease));
    return [this, completion = std::move(completion)](const EngineReply &reply) {
        const QPointer<QuorumNode> guard(this);
        replyArrived(reply.status != EngineReply::Failed);
        if (guard && !m_isClosed)
            completion(reply);
    };
}

void QuorumNode::expectReply(milliseconds limit)
{
    // To the millisecond, so that the operations of one turn share an entry.
    const auto until = std::chrono::ceil<milliseconds>(LeaseClock::system()->now().time_since_epoch()) + limit;
    if (!m_expected.empty() && m_expected.back().until.time_since_epoch() == until) {
        ++m_expected.back().count;
        return;
    }
    m_expected.push_back({LeaseTime(until), 1});
    m_delayedCalls->add(limit, [guard = QPointer(this)] {
        if (guard)
            guard->checkSilence();
    });
}

// Replies arrive in the order of the requests, except after a reconnection or NOSCRIPT, which makes little difference.
void QuorumNode::replyArrived(bool isReal)
{
    if (m_expected.empty())
        return;
    Expected &first = m_expected.front();
    const bool isInTime = LeaseClock::system()->now() <= first.until + GraceTime;
    if (--first.count == 0)
        m_expected.pop_front();
    if (isReal && isInTime && std::exchange(m_isSilent, false))
        Q_EMIT changed();
}

void QuorumNode::checkSilence()
{
    if (m_expected.empty() || m_expected.front().until > LeaseClock::system()->now() || std::exchange(m_isSilent, true))
        return;
    Q_EMIT changed();
}

} // namespace QDistLock
