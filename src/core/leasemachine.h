// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include <QDistLock/lockoptions.h>

#include <QtCore/qlist.h>
#include <QtCore/qmap.h>

#include <chrono>

namespace QDistLock {

/// A moment on the lease clock.
using LeaseTime = std::chrono::nanoseconds;
inline constexpr LeaseTime NeverTime = (LeaseTime::max)();

/*!
    The life of one lock: events in, actions out. No I/O, no timers, no clock of its own.

    One *epoch* is one acquisition, one token: it begins with the first attempt and ends when the lock is
    released, lost or given up. Replies must be handed in only for the epoch they belong to.

    Callers pass the present time with every event, carry out takeActions() in order, and call tick()
    at nextWakeUp() at the latest. Every event checks the clock before anything else.
    Thread: one at a time.
*/
class LeaseMachine
{
public:
    enum Phase { Unlocked, Acquiring, Held, Releasing };

    /// The state of the engine. The machine asks each time it needs it and never keeps the answer.
    class EngineStatus
    {
    public:
        virtual bool isEngineReady() const = 0;
        /// The client would be notified when the turn of a waiter in the queue comes.
        virtual bool canBeWoken() const = 0;

    protected:
        ~EngineStatus() = default;
    };

    /// \a engine outlives the machine.
    explicit LeaseMachine(const EngineStatus *engine)
        : m_engine(engine)
    {
    }

    struct Action
    {
        enum Kind {
            SendAcquire,   ///< with a fresh token if `fresh`; joining the queue if `enqueue`
            SendRenew,     ///< for `duration`
            SendRelease,   ///< leaving the key for `duration`
            Abandon,       ///< nobody wants this epoch's token any more; leaving the key for `duration`
            Acquired,      ///< request `id` succeeded
            AcquireFailed, ///< request `id` failed with `error`
            ReleaseDone,   ///< release request `id` ended with `success`
            Released,
            Lost,          ///< for `reason`, `duration` after the local deadline if that had passed; `error`: what
                           ///< kept it from being renewed, if anything did
            Renewed,
            AtRisk,        ///< `duration` before the local deadline
            ErrorOccurred, ///< `error` keeps it from being acquired, renewed or released; once until ErrorCleared
            ErrorCleared   ///< the server can be used again; Acquired, Renewed and Released imply it
        };
        Kind kind = SendAcquire;
        quint64 id = 0;
        bool fresh = false;
        bool enqueue = false;
        bool success = false;
        DistributedLock::LossReason reason = DistributedLock::LeaseExpired;
        std::chrono::nanoseconds duration{0};
        EngineError error = {};
    };

    Phase phase() const { return m_phase; }
    bool isHeld(LeaseTime now) const { return m_phase == Held && now < m_deadline; }
    /// A deadline runs: held, or releasing.
    bool holdsLease() const { return m_phase == Held || m_phase == Releasing; }
    bool isAtRisk() const { return m_phase == Held && m_atRisk; }
    int holdCount() const { return m_phase == Held ? m_holdCount : 0; }
    qint64 fencingToken() const { return m_phase == Held ? m_fencingToken : 0; }
    int queuePosition() const { return m_phase == Acquiring ? m_queuePosition : -1; }
    LeaseTime deadline() const { return m_deadline; }
    /// Of the present acquisition.
    const LockOptions &options() const { return m_options; }
    /// Its place in the queue, empty if it never had one.
    const QByteArray &arrival() const { return m_arrival; }

    /// \a options are valid, and are kept for this acquisition if one begins. \a once = wait 0.
    void acquire(quint64 id, bool once, const LockOptions &options, LeaseTime now);
    void release(quint64 id, LeaseTime now);
    void cancel(LeaseTime now);
    /// This one acquire alone; false if it is not under way.
    bool cancel(quint64 id, LeaseTime now);
    void setAutoRenew(bool autoRenew);

    /// The engine has become ready.
    void engineReady(LeaseTime now);
    /// The server cannot be reached just now; \a error says why.
    void engineFailed(const EngineError &error, LeaseTime now);
    /// EngineStatus::canBeWoken() has changed.
    void wakeableChanged(LeaseTime now);
    void acquireReplied(const EngineReply &reply, LeaseTime now);
    void renewReplied(const EngineReply &reply, LeaseTime now);
    void releaseReplied(const EngineReply &reply, LeaseTime now);
    /// Somebody says the lock was taken away by force: asks the server.
    void forcedReleaseNoticed(LeaseTime now);
    /// Somebody says the lock waits for us: tries to acquire it.
    void grantNoticed(LeaseTime now);
    /// Somebody says we are next: looks after \a ms, should nothing come before.
    void nextNoticed(std::chrono::milliseconds ms, LeaseTime now);
    /// Our own client's release passed it on to us.
    void handedOver(const LockEngine::Handover &handover, LeaseTime now);
    void tick(LeaseTime now);
    /// The engine is gone for good.
    void detach(LeaseTime now);

    /// NeverTime if nothing is due.
    LeaseTime nextWakeUp() const;
    QList<Action> takeActions() { return std::exchange(m_actions, {}); }

    /// Time the confirmed command was sent + lease - this = local deadline: 1 % of the lease for clocks that
    /// drift, 2 ms for the server's and our own granularity.
    static std::chrono::nanoseconds safetyMargin(std::chrono::nanoseconds lease);
    /// Timers count in milliseconds: what is due within one is due now, so that nothing comes late. A lease, too, ends
    /// so much before its deadline, and then somebody else may have the lock.
    static constexpr std::chrono::nanoseconds TimerSlack = std::chrono::milliseconds(1);
    /// Renewals fall on this grid of the lease clock, so that those of many locks share a command.
    static std::chrono::nanoseconds renewalBeat(std::chrono::nanoseconds lease);
    static EngineError cancelledError();

private:
    struct Request
    {
        LeaseTime deadline;
        bool once;
    };

    void attempt(LeaseTime now);
    void granted(qint64 fencingToken, LeaseTime sentAt, std::chrono::milliseconds lease, LeaseTime now);
    void taken(const EngineReply &reply, LeaseTime now);
    void attemptFailed(LeaseTime now);
    /// Whether those that wait fail with \a error now, instead of at the end of their wait.
    bool endsWait(const EngineError &error) const;
    void expireRequests(LeaseTime now);
    /// How long the key is to stay if the hold ended now, for minHold.
    std::chrono::milliseconds keepAfterRelease(LeaseTime now) const;
    template<typename Predicate>
    void failRequests(const EngineError &error, Predicate predicate);
    /// Reports \a error unless one was reported since the server could be used last.
    void reportObstacle(const EngineError &error);
    /// True if it had been reported.
    bool clearObstacle();
    void giveUpIfUnwanted();
    void confirmed(LeaseTime sentAt, std::chrono::nanoseconds lease);
    void sendRenew(LeaseTime now);
    void sendRelease(LeaseTime now);
    void holdEnded(LeaseTime now);
    void lose(DistributedLock::LossReason reason, LeaseTime now, bool abandoned = false);
    void beginIfWanted(LeaseTime now);
    std::chrono::nanoseconds backOff(std::chrono::nanoseconds ceiling);
    Action &push(Action::Kind kind, quint64 id = 0);

    const EngineStatus *const m_engine;
    LockOptions m_options;
    LockOptions m_nextOptions;     ///< of the acquisition that begins once a release has ended
    QList<Action> m_actions;
    QMap<quint64, Request> m_requests; ///< acquires that have not ended, by id, the oldest first
    LeaseTime m_nextExpiry = NeverTime; ///< no request ends before
    QList<quint64> m_releases;     ///< releases of the last level that have not ended
    EngineError m_obstacle;        ///< why the last attempt or renewal got no answer
    LeaseTime m_sentAt{0};         ///< of the command in flight
    LeaseTime m_acquiredAt{0};     ///< when the confirmed acquire was sent
    LeaseTime m_deadline{0};
    LeaseTime m_nextAttempt = NeverTime; ///< of acquire, renew or release, whichever the phase wants
    LeaseTime m_lookBy = NeverTime; ///< told while an attempt was in flight, which may have come before it
    LeaseTime m_retryAt = NeverTime; ///< of the next of the retries that maxRetries limits
    LeaseTime m_atRiskAt = NeverTime;
    std::chrono::nanoseconds m_lastBackOff{0};
    std::chrono::nanoseconds m_renewLease{0}; ///< of the renewal in flight
    qint64 m_fencingToken = 0;
    int m_holdCount = 0;
    QByteArray m_arrival;
    int m_queuePosition = -1;
    int m_retries = 0;             ///< retries, retryInterval apart, that found the lock taken
    Phase m_phase = Unlocked;
    bool m_foundTaken = false;     ///< by an attempt of this acquisition
    bool m_attemptIsRetry = false; ///< the one in flight is one of those that maxRetries limits
    bool m_obstacleReported = false;
    bool m_grantNoticed = false;   ///< while an attempt was in flight, which may have come before it
    bool m_inFlight = false;
    bool m_epochOpen = false;      ///< the present token is this acquisition's
    bool m_tokenKnown = false;     ///< the server may hold something under the present token, or keep a place for it
    bool m_atRisk = false;
    bool m_verify = false;         ///< ask the server whether the key is still ours, renewing or not
    bool m_forced = false;
    bool m_releaseUnconfirmed = false; ///< an earlier release may have been executed
};

} // namespace QDistLock
