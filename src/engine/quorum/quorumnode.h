// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/backoff.h"
#include "engine/redis/redisnode.h"

#include <QtCore/qtimer.h>

#include <chrono>
#include <deque>

namespace QDistLock {

class DelayedCalls;

/*!
    One server of a quorum, and what decides whether its vote counts.

    INFO shows which server it is, and since when it is up; it is sent with each connection. A server that does not
    answer it has no vote, and is asked again later. Thread: the one it lives in.
*/
class QuorumNode : public QObject
{
    Q_OBJECT
public:
    /// \a clock and \a delayedCalls are not owned. All servers of a quorum see one client.
    QuorumNode(const QtRedis::ServerUrl &server, const LeaseClock *clock, const QByteArray &clientId,
               RedisNode::Callbacks callbacks, DelayedCalls *delayedCalls);

    RedisNode &redis() { return m_redis; }
    const RedisNode &redis() const { return m_redis; }
    RedisLane &lane() { return m_redis.lane(); }
    /// "redis://host:port/0", for errors.
    QString shown() const { return m_server.toDisplayString(); }

    bool isConnected() const { return m_redis.lane().isReady(); }
    /// Connected, and a server that no other node is: what it replies counts.
    bool isMember() const { return isConnected() && m_isIdentified && !m_problem; }
    /// A member that replies in time.
    bool isUsable() const { return isMember() && !m_isSilent; }
    /// Its last reply was not in time. Nothing is waited for until one is.
    bool isSilent() const { return m_isSilent; }
    /// It could not be reached or used since it was a member last.
    bool hasFailed() const { return m_hasFailed; }
    /// Why it is no member.
    EngineError error() const;
    /// It has never been a server that may be one of the quorum.
    bool isMisconfigured() const { return m_problem.code == DistributedLock::OptionsError && !m_wasMember; }
    /// A member says that its vote for a new lock with this lease counts only after this time; 0 = it counts.
    std::chrono::milliseconds untilVote(std::chrono::milliseconds lease) const;
    /// Why its vote for a new lock with this lease does not count; NoError if it does.
    EngineError objection(std::chrono::milliseconds lease) const;

    /// Different for each server, and after each restart.
    const QByteArray &runId() const { return m_runId; }
    /// In a slot of identified(): it is no member, because of \a problem.
    void refuse(const EngineError &problem) { m_problem = problem; }

    /// The engine is being destroyed: completions are no longer called.
    void close() { m_isClosed = true; }
    bool isClosed() const { return m_isClosed; }

    /// A reply that takes longer is late.
    static std::chrono::milliseconds limit(std::chrono::milliseconds lease);
    /// How long a late reply is waited for if nothing can be done without it.
    static std::chrono::milliseconds longLimit(std::chrono::milliseconds lease);
    /// \a completion, and notices whether it is called in time. Must be called when the operation is requested.
    LockEngine::Completion timed(std::chrono::milliseconds lease, LockEngine::Completion completion);

Q_SIGNALS:
    /// runId() is known. Whether this is a member is decided after the signal.
    void identified();
    /// isMember(), isUsable() or error() has changed.
    void changed();
    /// An attempt to reach or identify it failed, or the connection was lost.
    void failed();

private:
    void stateChanged();
    void askInfo();
    void infoReceived(const EngineError &error, const QByteArray &info);
    void identify(const QByteArray &info);
    void askAgainLater();
    void expectReply(std::chrono::milliseconds limit);
    void replyArrived(bool isReal);
    void checkSilence();

    /// Replies that are expected by the same time, in the order of the requests.
    struct Expected
    {
        LeaseTime until; ///< on LeaseClock::system()
        int count;
    };

    const QtRedis::ServerUrl m_server;
    const LeaseClock *const m_clock;
    DelayedCalls *const m_delayedCalls;
    QTimer m_askAgainTimer;
    BackOff m_askAgainPauses{std::chrono::seconds(1), 0};
    std::deque<Expected> m_expected;
    bool m_isAsking = false;
    bool m_isIdentified = false; ///< on the present connection
    bool m_isSilent = false;
    bool m_hasFailed = false;
    bool m_wasMember = false;
    EngineError m_problem;
    QByteArray m_runId;
    LeaseTime m_upSince;   ///< it has lost nothing that it confirmed later
    LeaseTime m_seenSince; ///< the server with this run id
    bool m_isClosed = false;
    RedisNode m_redis; ///< destroyed first: its completions use the others
};

} // namespace QDistLock
