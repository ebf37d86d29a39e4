// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/backoff.h"
#include "base/leaseclock.h"
#include "engine/lockengine.h"

#include <QDistLock/lockoptions.h>

#include <QtCore/qlist.h>
#include <QtCore/qmap.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace QDistLock {

/*!
    The state machine of one lock: it takes events, and gives commands for the engine and outcomes for the application.
    It does no I/O and has no timers and no clock.

    An *epoch* is the life of one token: it begins with the first attempt to acquire with that token, and ends when
    the lock is released, lost or given up.

    Callers pass the present time with every event, carry out takeCommands() in order after it, report
    takeOutcomes() in order, and call tick() at nextWakeUp() at the latest. Every event checks the clock first.
    Thread: any, but only one at a time.
*/
class LeaseMachine
{
public:
    enum Phase { Unlocked, Acquiring, Held, Releasing };

    /// The state of the engine. The machine asks whenever it needs it and never stores it.
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

    /// An operation that the engine must start.
    struct Command
    {
        enum Kind : quint8 {
            Acquire, ///< with a fresh token if `freshToken`; joins the queue if `enqueue`
            Renew,   ///< for `duration`
            Release, ///< leaves the key for `duration`
            Abandon  ///< nobody wants this token any more; leaves the key for `duration`
        };
        Kind kind;
        bool freshToken;
        bool enqueue;
        quint64 epoch; ///< to be compared with LeaseMachine::epoch() when the reply arrives
        std::chrono::nanoseconds duration;
    };

    /// Something that happened to the lock, for the application.
    struct Outcome
    {
        enum Kind : quint8 {
            Acquired,      ///< acquire request `id` succeeded
            AcquireFailed, ///< acquire request `id` failed with `error`
            ReleaseDone,   ///< release request `id` ended with `success`
            Released,
            Lost, ///< for `reason`, `duration` after the local deadline if that had passed; `error` says why the
                  ///< lock was not renewed, if there was an error
            Renewed,
            AtRisk,        ///< `duration` before the local deadline
            ErrorOccurred, ///< `error` prevents it from being acquired, renewed or released; again if it differs
            ErrorCleared   ///< the server can be used again; Acquired, Renewed and Released imply it
        };
        Kind kind = Acquired;
        bool success = false;
        DistributedLock::LossReason reason = DistributedLock::LeaseExpired;
        quint64 epoch = 0; ///< in which it happened
        quint64 id = 0;
        std::chrono::nanoseconds duration{0};
        qint64 fencingToken = 0; ///< that of the lost hold
        EngineError error = {};
    };

    Phase phase() const { return m_phase; }
    bool isHeld(LeaseTime now) const { return m_phase == Held && now < deadline(); }
    /// There is a deadline: the lock is held or being released.
    bool holdsLease() const { return m_phase == Held || m_phase == Releasing; }
    bool isAtRisk() const { return m_phase == Held && m_hold.isAtRisk; }
    int holdCount() const { return m_phase == Held ? m_hold.count : 0; }
    qint64 fencingToken() const { return m_phase == Held ? m_hold.fencingToken : 0; }
    /// As in EngineReply.
    QList<int> permitSlots() const { return m_phase == Held ? m_hold.permitSlots : QList<int>(); }
    int queuePosition() const { return m_phase == Acquiring ? m_wait.queuePosition : -1; }
    LeaseTime deadline() const { return std::min(m_hold.deadline, m_hold.limit); }
    /// The options of the present acquisition.
    const LockOptions &options() const { return m_options; }
    /// The server's mark for the place in the queue; empty if the lock never was in it.
    const QByteArray &arrival() const { return m_wait.arrival; }
    /// When the hold began, or when the oldest acquire that waits began; only while it is not Unlocked.
    LeaseTime since() const { return holdsLease() ? m_hold.acquiredAt : m_requests.first().since; }
    /// How long the oldest of the acquires waited that the hold began with.
    std::chrono::nanoseconds waited() const { return m_hold.waited; }
    /// That of the last hold, which may have ended.
    qint64 lastFencingToken() const { return m_hold.fencingToken; }
    /// Whether the server has answered, in the present acquisition or in that which the hold began with, that somebody
    /// else holds the lock.
    bool foundTaken() const { return m_wait.foundTaken; }
    /// The time of the last event, to which the outcomes belong.
    LeaseTime lastEventAt() const { return m_lastEventAt; }
    /// Why it cannot be acquired, renewed or released at present, if it still tries to.
    EngineError obstacle() const;
    /// The number of the present epoch. Replies to commands of another epoch must not be passed to the machine.
    quint64 epoch() const { return m_epochNumber; }

    /// \a options are valid; they apply to the acquisition that begins, if one does. \a once: one attempt, no waiting.
    void acquire(quint64 id, bool once, const LockOptions &options, LeaseTime now);
    void release(quint64 id, LeaseTime now);
    /// Ends the hold without touching the key: from now on, somebody else renews and releases it. False if there is no
    /// hold.
    bool handOut(LeaseTime now);
    /// Another lock of its owner tries to take its place on the server, with another token and \a lease. Nobody knows
    /// when that happens, so the hold does not outlast a lease from now.
    void converting(std::chrono::milliseconds lease, LeaseTime now);
    /// That has failed. \a maybeDone: perhaps not, and only the server knows.
    void conversionFailed(bool maybeDone, LeaseTime now);
    /// Ends the hold because another lock of its owner has taken its place on the server, with another token. A release
    /// that is under way has succeeded.
    void converted(LeaseTime now);
    /// Takes the place of such a lock, for acquire request \a id and those that wait. `prepareAdoption()` must come
    /// first, and its commands be carried out before the token changes.
    ///@{
    void prepareAdoption(LeaseTime now);
    void adopt(quint64 id, const LockOptions &options, const EngineReply &reply, LeaseTime sentAt, LeaseTime now);
    ///@}
    void cancel(LeaseTime now);
    /// Cancels this one acquire request; false if it is not pending.
    bool cancel(quint64 id, LeaseTime now);
    void setAutoRenew(bool autoRenew);
    /// LockOptions::minHold of the present hold, counted from \a now.
    void setMinHold(std::chrono::milliseconds minHold, LeaseTime now);

    /// The engine has become ready.
    void engineReady(LeaseTime now);
    /// See LockEngine::serverReplaced(): a held lock is renewed at once, and one whose acquire is in flight as soon as
    /// it is held.
    void serverReplaced(LeaseTime now);
    /// The server cannot be reached at present, for the reason in \a error.
    void engineFailed(const EngineError &error, LeaseTime now);
    /// EngineStatus::canBeWoken() has changed.
    void wakeableChanged(LeaseTime now);
    void acquireReplied(const EngineReply &reply, LeaseTime now);
    void renewReplied(const EngineReply &reply, LeaseTime now);
    void releaseReplied(const EngineReply &reply, LeaseTime now);
    /// A message, which may be forged, says that the lock was released by force: the machine asks the server.
    void forcedReleaseNoticed(LeaseTime now);
    /// A message, which may be forged, says that the lock is reserved for this waiter: the machine tries to acquire it.
    void grantNoticed(LeaseTime now);
    /// A message, which may be forged, says that this waiter is next: it polls after \a ms unless it is woken before.
    void nextNoticed(std::chrono::milliseconds ms, LeaseTime now);
    /// A release passed the lock on to this waiter. It holds the lock, for a shorter time perhaps than its own lease.
    void handedOver(const LockEngine::Handover &handover, LeaseTime now);
    void tick(LeaseTime now);
    /// The engine is about to be destroyed, or left, for the reason in \a text.
    void detach(LeaseTime now, const QString &text);

    /// NeverTime if nothing is due.
    LeaseTime nextWakeUp() const;
    QList<Command> takeCommands() { return std::exchange(m_commands, {}); }
    QList<Outcome> takeOutcomes() { return std::exchange(m_outcomes, {}); }

    /// The local deadline is the time at which the confirmed command was sent, plus the lease, minus this margin: 1 %
    /// of the lease because clocks drift, and 2 ms because the server and this process count in milliseconds.
    static std::chrono::nanoseconds safetyMargin(std::chrono::nanoseconds lease);
    /// Timers count in milliseconds: whatever is due within one is handled now, so that nothing is late. A lease, too,
    /// ends up to one millisecond before its deadline, and somebody else may have the lock from then on.
    static constexpr std::chrono::nanoseconds TimerSlack = std::chrono::milliseconds(1);
    /// After a hand-over the server keeps the lock for a few seconds only, and the first renewal is sent after a third
    /// of them, so that a lock that is released before saves the command. If the last hold was longer than this, the
    /// whole lease is asked for before the application is notified: its slot may block the event loop again.
    static constexpr std::chrono::nanoseconds ShortHold = std::chrono::milliseconds(100);
    /// Renewals are aligned to multiples of this on the lease clock, so that those of many locks share a command.
    static std::chrono::nanoseconds renewalBeat(std::chrono::nanoseconds lease);
    /// When an acquire that begins now gives up. A wait that is too long to be counted in nanoseconds never ends.
    static LeaseTime endOfWait(std::chrono::milliseconds wait, bool once, LeaseTime now);
    /// Of an acquire that would wait for its own owner, who has acquired the lock with \a present.
    static EngineError upgradeError(const LockOptions &present, const LockOptions &wanted);
    static EngineError cancelledError();

private:
    struct Request
    {
        LeaseTime since;
        LeaseTime deadline;
        bool once;
    };

    /// The present token, see epoch().
    struct Epoch
    {
        bool hasBegun = false;     ///< the present token belongs to this acquisition
        bool isTokenKnown = false; ///< the server may hold the key under the token, or keep a place in the queue for it
    };

    /// The last acquire, renew or release that was sent.
    struct Attempt
    {
        LeaseTime sentAt;
        std::chrono::nanoseconds renewLease{0};
        bool isExtending = false; ///< the renewal sets a new deadline; otherwise it only asks whether the key is ours
        bool isVerifying = false; ///< the renewal is repeated until there is a reply, see Hold::mustVerify
        bool isInFlight = false;
        bool isServerReplaced = false; ///< while it was in flight
        bool isRetry = false;          ///< one of the retries that maxRetries limits
        // Messages that arrived while it was in flight; the server may have sent them before it executed the attempt.
        bool grantNoticed = false;
        LeaseTime pollBy = NeverTime;
    };

    /// What an acquisition learns while it waits.
    struct Wait
    {
        bool foundTaken = false;
        int retries = 0;               ///< retries, retryInterval apart, that found the lock taken
        LeaseTime retryAt = NeverTime; ///< time of the next of these retries
        int queuePosition = -1;
        QByteArray arrival;
        std::chrono::microseconds takenAt{0}; ///< on the server's clock, when it was found taken last; 0 = unknown
    };

    struct Hold
    {
        LeaseTime acquiredAt; ///< when the confirmed acquire was sent, or the hand-over arrived
        std::chrono::nanoseconds waited{0};
        LeaseTime deadline;
        LeaseTime limit = NeverTime; ///< from a conversion: it ends then, even if a renewal is confirmed
        LeaseTime atRiskAt = NeverTime;
        std::chrono::nanoseconds lease{
                0}; ///< to which the deadline belongs; shorter than in the options after a hand-over
        qint64 fencingToken = 0;
        QList<int> permitSlots;
        int count = 0;
        bool isAtRisk = false;
        bool mustExtend = false;    ///< the server gave less than the whole lease; also without automatic renewal
        bool mustVerify = false;    ///< ask the server whether the key is still ours, also without automatic renewal
        bool forcedNoticed = false; ///< a message said that it was released by force
        bool maybeReleased = false; ///< an earlier release may have been executed
        bool isConverting = false;  ///< the reply has not come yet
    };

    /// The reason why the last attempt or renewal had no reply.
    struct Obstacle
    {
        EngineError error;
        EngineError reported; ///< the last one that was reported to the application
    };

    void attempt(LeaseTime now);
    void granted(const EngineReply &reply, LeaseTime sentAt, std::chrono::milliseconds lease, LeaseTime now);
    void taken(const EngineReply &reply, LeaseTime now);
    void attemptFailed(LeaseTime now);
    /// Whether waiting requests fail with \a error now, instead of at the end of their wait.
    bool endsWait(const EngineError &error) const;
    void expireRequests(LeaseTime now);
    /// How long the key must stay on the server if the hold ended now, because of minHold.
    std::chrono::milliseconds keepAfterRelease(LeaseTime now) const;
    template<typename Predicate>
    void failRequests(const EngineError &error, Predicate predicate);
    /// Reports \a error unless it is the one that was reported last, or it is repeated elsewhere.
    void reportObstacle(const EngineError &error);
    /// True if it had been reported.
    bool clearObstacle();
    void giveUpIfUnwanted();
    void confirmed(LeaseTime sentAt, std::chrono::nanoseconds lease, LeaseTime validUntil);
    static LeaseTime deadlineOf(LeaseTime sentAt, std::chrono::nanoseconds lease, LeaseTime validUntil);
    bool isToBeRenewed() const { return m_options.autoRenew || m_hold.mustExtend || m_hold.mustVerify; }
    void sendRenew(LeaseTime now);
    void sendRelease(LeaseTime now);
    void holdEnded(LeaseTime now);
    void lose(DistributedLock::LossReason reason, LeaseTime now, bool abandoned = false);
    void beginIfWanted(LeaseTime now);
    std::chrono::nanoseconds backOff(std::chrono::nanoseconds ceiling);
    void send(Command::Kind kind, std::chrono::nanoseconds duration);
    void abandon(std::chrono::nanoseconds keep = std::chrono::nanoseconds(0));
    Outcome &report(Outcome::Kind kind, quint64 id = 0);

    const EngineStatus *const m_engine;
    LockOptions m_options;
    LockOptions m_nextOptions; ///< for the acquisition that begins when a release has ended
    QList<Command> m_commands;
    QList<Outcome> m_outcomes;
    QMap<quint64, Request> m_requests;  ///< pending acquires by id, the oldest first
    LeaseTime m_nextExpiry = NeverTime; ///< no request expires before
    LeaseTime m_lastEventAt{};
    QList<quint64> m_releases; ///< pending releases of the last level

    Phase m_phase = Unlocked;
    // These begin from default values: Hold with a grant, the others with an acquisition.
    Epoch m_epoch;
    Attempt m_attempt;
    Wait m_wait;
    Hold m_hold;
    Obstacle m_obstacle;
    quint64 m_epochNumber = 0;
    bool m_lastHoldWasShort = false;     ///< the last hold of this lock was released within ShortHold
    LeaseTime m_nextAttempt = NeverTime; ///< to acquire, renew or release, depending on the phase
    BackOff m_backOff{std::chrono::milliseconds(10), 0.25};
};

} // namespace QDistLock
