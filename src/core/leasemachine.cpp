// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "core/leasemachine.h"

#include "base/holdkind.h"
#include "engine/protocolconstants.h"

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

namespace {

/// An acquire that makes a single attempt waits this long for it: for the connection and one command.
constexpr nanoseconds SingleAttemptTimeout = 5s;

LeaseTime later(LeaseTime now, nanoseconds duration)
{
    return duration >= NeverTime - now ? NeverTime : now + duration;
}

} // namespace

nanoseconds LeaseMachine::safetyMargin(nanoseconds lease)
{
    return lease / 100 + 2ms;
}

nanoseconds LeaseMachine::renewalBeat(nanoseconds lease)
{
    // Powers of two, so that the beats of different leases fall together too.
    nanoseconds beat = 1ms;
    while (beat * 2 <= lease / 12)
        beat *= 2;
    return beat;
}

milliseconds LeaseMachine::keepAfterRelease(LeaseTime now) const
{
    const nanoseconds rest = m_options.minHold - (now - m_hold.acquiredAt);
    return std::max(0ms, std::chrono::ceil<milliseconds>(rest));
}

void LeaseMachine::send(Command::Kind kind, nanoseconds duration)
{
    m_commands.append({kind, false, false, m_epochNumber, duration});
}

/// Ends the epoch, so that replies that are still in flight are ignored.
void LeaseMachine::abandon(nanoseconds keep)
{
    send(Command::Abandon, keep);
    ++m_epochNumber;
    m_epoch = {};
}

LeaseMachine::Outcome &LeaseMachine::report(Outcome::Kind kind, quint64 id)
{
    Outcome &outcome = m_outcomes.emplace_back();
    outcome.kind = kind;
    outcome.epoch = m_epochNumber;
    outcome.id = id;
    return outcome;
}

void LeaseMachine::acquire(quint64 id, bool once, const LockOptions &options, LeaseTime now)
{
    tick(now);
    // All requests of an owner have one hold. Behind a release, it must cover those that wait for the next one.
    const bool isNext = m_phase == Releasing && !m_requests.isEmpty();
    const LockOptions &present = isNext ? m_nextOptions : m_options;
    const bool isCovered = covers(present, options);
    if ((m_phase == Held || m_phase == Acquiring || (isNext && !covers(options, present))) && !isCovered) {
        report(Outcome::AcquireFailed, id).error = upgradeError(present, options);
        return;
    }
    if (m_phase == Held) {
        ++m_hold.count;
        report(Outcome::Acquired, id);
        return;
    }
    const LeaseTime deadline = endOfWait(options.wait, once, now);
    m_requests.insert(id, {now, deadline, once});
    m_nextExpiry = std::min(m_nextExpiry, deadline);
    if (m_phase == Acquiring) {
        if (once && !m_attempt.isInFlight)
            attempt(now);
        return;
    }
    const LockOptions former = std::exchange(m_nextOptions, options);
    if (isNext && isCovered) {
        m_nextOptions.mode = former.mode;
        m_nextOptions.permits = former.permits;
        m_nextOptions.take = former.take;
    }
    if (m_phase == Unlocked)
        beginIfWanted(now);
}

void LeaseMachine::beginIfWanted(LeaseTime now)
{
    if (m_requests.isEmpty())
        return;
    m_options = m_nextOptions;
    m_phase = Acquiring;
    m_epoch = {};
    m_attempt = {};
    m_wait = {};
    m_obstacle = {};
    m_backOff.reset();
    attempt(now);
}

void LeaseMachine::attempt(LeaseTime now)
{
    m_nextAttempt = NeverTime;
    if (!m_engine->isEngineReady())
        return; // engineReady() continues
    m_attempt = {};
    m_attempt.sentAt = now;
    m_attempt.isInFlight = true;
    m_attempt.isRetry = now >= m_wait.retryAt;
    const bool freshToken = !std::exchange(m_epoch.hasBegun, true);
    if (freshToken)
        ++m_epochNumber;
    const bool enqueue = m_engine->canBeWoken()
            && std::any_of(m_requests.cbegin(), m_requests.cend(), [](const Request &r) { return !r.once; });
    // The place in the queue may outlast replies that do not mention it, so this stays set for the whole epoch.
    m_epoch.isTokenKnown |= enqueue;
    m_commands.append({Command::Acquire, freshToken, enqueue, m_epochNumber, 0ns});
}

void LeaseMachine::acquireReplied(const EngineReply &reply, LeaseTime now)
{
    tick(now);
    if (m_phase != Acquiring)
        return;
    m_attempt.isInFlight = false;
    switch (reply.status) {
    case EngineReply::Granted:
        granted(reply, m_attempt.sentAt, m_options.lease, now);
        if (m_attempt.isServerReplaced)
            serverReplaced(now);
        return;
    case EngineReply::Taken:
        taken(reply, now);
        return;
    case EngineReply::Unconfirmed:
        abandon();
        m_obstacle.error = reply.error;
        break;
    default:
        m_epoch.isTokenKnown |= reply.error.isMaybeExecuted; // an earlier attempt may have been as well
        m_obstacle.error = reply.error;
        if (reply.error.canRetryAtOnce)
            return attempt(now);
        break;
    }
    attemptFailed(now);
    if (m_phase == Acquiring)
        reportObstacle(m_obstacle.error);
}

void LeaseMachine::attemptFailed(LeaseTime now)
{
    const bool all = endsWait(m_obstacle.error);
    failRequests(m_obstacle.error, [all](const Request &request) { return all || request.once; });
    giveUpIfUnwanted();
    if (m_phase == Acquiring)
        m_nextAttempt = later(now, backOff(std::max<nanoseconds>(m_options.retryInterval, 1s)));
}

// An acquire that cannot log in, lacks a right or asks for more replicas than there are fails at once. A waiter that
// got further before keeps waiting: somebody is probably changing the password, the certificate or the rights, or
// restarting a replica.
bool LeaseMachine::endsWait(const EngineError &error) const
{
    if (!error.isPermanent)
        return false;
    if (m_phase != Acquiring)
        return true;
    const bool wasLoggedIn = m_wait.foundTaken;        // and the server had enough replicas
    const bool wasInQueue = !m_wait.arrival.isEmpty(); // joining takes more rights than the first attempt
    return !(error.code == DistributedLock::AuthenticationError && wasLoggedIn)
            && !(error.code == DistributedLock::ReplicationError && wasLoggedIn)
            && !(error.code == DistributedLock::PermissionError && wasInQueue);
}

void LeaseMachine::granted(const EngineReply &reply, LeaseTime sentAt, milliseconds lease, LeaseTime now)
{
    m_attempt.isInFlight = false;
    if (now + TimerSlack >= deadlineOf(sentAt, lease, reply.validUntil)) {
        abandon();
        m_obstacle.error = EngineError::byRule(DistributedLock::ConnectionError, EngineError::LateReply);
        attemptFailed(now);
        return;
    }
    m_phase = Held;
    m_hold = {};
    m_hold.fencingToken = reply.fencingToken;
    m_hold.permitSlots = reply.permitSlots;
    m_hold.count = int(m_requests.size());
    m_hold.acquiredAt = sentAt;
    m_hold.waited = now - m_requests.first().since;
    confirmed(sentAt, lease, reply.validUntil);
    m_nextExpiry = NeverTime;
    const auto requests = std::exchange(m_requests, {});
    for (auto it = requests.keyBegin(); it != requests.keyEnd(); ++it)
        report(Outcome::Acquired, *it);
}

void LeaseMachine::wakeableChanged(LeaseTime now)
{
    if (m_phase != Acquiring)
        return;
    const bool wakeable = m_engine->canBeWoken();
    if (m_attempt.isInFlight) {
        m_attempt.grantNoticed |= wakeable; // the server may have dropped it from the queue, or it never joined
        return;
    }
    // Wakeable: join the queue now, at the old place if there is one. Not wakeable: others may be served instead,
    // so poll.
    m_nextAttempt = std::min(m_nextAttempt, wakeable ? now : later(now, jittered(m_options.retryInterval, 0.25)));
    tick(now);
}

void LeaseMachine::grantNoticed(LeaseTime now)
{
    tick(now);
    if (m_phase != Acquiring)
        return;
    m_attempt.grantNoticed = m_attempt.isInFlight;
    if (!m_attempt.isInFlight)
        attempt(now);
}

void LeaseMachine::nextNoticed(milliseconds ms, LeaseTime now)
{
    tick(now);
    if (m_phase != Acquiring)
        return;
    const LeaseTime poll = later(now, std::max(ms, 1ms) + jittered(5ms, 1));
    if (m_attempt.isInFlight) {
        m_attempt.pollBy = std::min(m_attempt.pollBy, poll);
    } else if (m_wait.queuePosition >= 0) {
        m_wait.queuePosition = 0;
        m_nextAttempt = std::min(m_nextAttempt, poll);
    }
}

void LeaseMachine::handedOver(const LockEngine::Handover &handover, LeaseTime now)
{
    tick(now);
    if (m_phase != Acquiring)
        return;
    const milliseconds lease = std::min(handover.lease, m_options.lease);
    // The server is asked if an attempt is in flight, which may give the key this lock's own lease after the hand-over;
    // if the key would outlive a crash by much; if less time was given than the application may need before the event
    // loop runs again, or than minHold; if little of it is left, because the message was late; if the last reply is
    // later than the message, so that somebody has taken the lock away since then; and if replicas must have the lock,
    // too.
    const bool isTooLong = handover.lease > std::max(m_options.lease, Protocol::ClaimTtl);
    const bool isTooShort = lease < m_options.minHold || (lease < m_options.lease && !m_lastHoldWasShort);
    const bool isLate = deadlineOf(handover.sentAt, lease, NeverTime) - now < lease / 3;
    const bool isOutdated = handover.grantedAt <= m_wait.takenAt;
    if (m_attempt.isInFlight || isTooLong || isTooShort || isLate || isOutdated || m_options.minReplicas > 0) {
        grantNoticed(now);
    } else {
        EngineReply grant;
        grant.fencingToken = handover.fencingToken;
        grant.permitSlots = handover.permitSlots;
        granted(grant, handover.sentAt, lease, now);
        m_hold.acquiredAt = now; // sentAt is a bound, and may be much earlier
        m_hold.mustExtend = handover.lease != m_options.lease;
    }
}

void LeaseMachine::taken(const EngineReply &reply, LeaseTime now)
{
    m_wait.queuePosition = reply.queuePosition;
    if (!reply.arrival.isEmpty())
        m_wait.arrival = reply.arrival;
    m_wait.takenAt = reply.serverTime;
    if (clearObstacle())
        report(Outcome::ErrorCleared);
    m_wait.foundTaken = true;
    m_wait.retries += m_attempt.isRetry ? 1 : 0;
    const EngineError::Rule rule = reply.isFree ? EngineError::OthersTaken : EngineError::Taken;
    failRequests(EngineError::byRule(DistributedLock::BusyError, rule),
                 [](const Request &request) { return request.once; });
    if (m_options.maxRetries >= 0 && m_wait.retries >= m_options.maxRetries) {
        failRequests(EngineError::byRule(DistributedLock::BusyError, EngineError::RetriesUsed),
                     [](const Request &) { return true; });
    }
    giveUpIfUnwanted();
    if (m_phase != Acquiring)
        return;
    LeaseTime next = later(now, jittered(m_options.retryInterval, 0.25));
    if (m_options.maxRetries >= 0) {
        if (m_attempt.isRetry || m_wait.retryAt == NeverTime)
            m_wait.retryAt = next;
        next = m_wait.retryAt;
    }
    if (std::exchange(m_attempt.grantNoticed, false)) {
        attempt(now);
        return;
    }
    // A waiter that will be woken polls only at a multiple of the time it would have to claim the lock, the sooner the
    // nearer it is to the head: thousands of them together send a few polls a second. Only the head polls at
    // retryInterval, if the holder's release wakes nobody.
    const int rank = m_wait.queuePosition;
    if (rank >= 0 && m_engine->canBeWoken() && !(reply.foreignHolder && rank == 0))
        next = std::min(m_wait.retryAt,
                        later(now, jittered(Protocol::ClaimTtl * (reply.foreignHolder ? rank : rank + 1), 0.25)));
    // A holder that dies publishes nothing either. Then the head polls first.
    if (reply.holderTtl >= 0ms) {
        const nanoseconds turn = rank >= 0 ? nanoseconds(1ms) * std::min(rank, 1000)
                                           : nanoseconds(m_options.retryInterval / 10);
        next = std::min(next, later(now, reply.holderTtl + 1ms + turn + jittered(2ms, 1)));
    }
    m_nextAttempt = std::min(next, std::exchange(m_attempt.pollBy, NeverTime));
}

template<typename Predicate>
void LeaseMachine::failRequests(const EngineError &error, Predicate predicate)
{
    m_nextExpiry = NeverTime;
    for (auto it = m_requests.begin(); it != m_requests.end();) {
        if (predicate(*it)) {
            report(Outcome::AcquireFailed, it.key()).error = error;
            it = m_requests.erase(it);
        } else {
            m_nextExpiry = std::min(m_nextExpiry, it->deadline);
            ++it;
        }
    }
    if (m_requests.isEmpty())
        m_requests = {}; // gives its memory back
}

void LeaseMachine::reportObstacle(const EngineError &error)
{
    const EngineError &last = m_obstacle.reported;
    if (error.canRetryAtOnce || (error.code == last.code && error.rule == last.rule && error.text == last.text))
        return;
    m_obstacle.reported = error;
    report(Outcome::ErrorOccurred).error = error;
}

EngineError LeaseMachine::obstacle() const
{
    return m_phase == Unlocked || (m_phase == Held && !isToBeRenewed()) ? EngineError() : m_obstacle.error;
}

bool LeaseMachine::clearObstacle()
{
    return bool(std::exchange(m_obstacle, {}).reported);
}

void LeaseMachine::expireRequests(LeaseTime now)
{
    if (now < m_nextExpiry)
        return;
    EngineError error = m_obstacle.error; // from the attempt, or from the release before it
    if (!error && m_wait.foundTaken && m_phase == Acquiring)
        error = EngineError::byRule(DistributedLock::TimeoutError, EngineError::WaitIsOver);
    else if (!error)
        error = EngineError::byRule(DistributedLock::ConnectionError, EngineError::NoReply);
    failRequests(error, [now](const Request &request) { return request.deadline <= now; });
    giveUpIfUnwanted();
}

void LeaseMachine::giveUpIfUnwanted()
{
    if (m_phase != Acquiring || !m_requests.isEmpty())
        return;
    if (m_epoch.isTokenKnown || m_attempt.isInFlight)
        abandon();
    m_phase = Unlocked;
}

LeaseTime LeaseMachine::endOfWait(milliseconds wait, bool once, LeaseTime now)
{
    if (once)
        return now + SingleAttemptTimeout;
    const bool isEndless = wait >= std::chrono::duration_cast<milliseconds>(NeverTime - now);
    return isEndless ? NeverTime : now + wait;
}

EngineError LeaseMachine::upgradeError(const LockOptions &present, const LockOptions &wanted)
{
    return EngineError::passing(DistributedLock::UpgradeError,
                                u"its owner %1; release it first"_s.arg(whyNotCovered(present, wanted)));
}

EngineError LeaseMachine::cancelledError()
{
    return EngineError::byRule(DistributedLock::CancelledError, EngineError::Cancelled);
}

void LeaseMachine::cancel(LeaseTime now)
{
    tick(now);
    failRequests(cancelledError(), [](const Request &) { return true; });
    giveUpIfUnwanted();
}

bool LeaseMachine::cancel(quint64 id, LeaseTime now)
{
    if (!m_requests.contains(id))
        return false;
    tick(now);
    if (m_requests.remove(id) > 0)
        report(Outcome::AcquireFailed, id).error = cancelledError();
    giveUpIfUnwanted();
    return true;
}

LeaseTime LeaseMachine::deadlineOf(LeaseTime sentAt, nanoseconds lease, LeaseTime validUntil)
{
    return std::min(sentAt + lease - safetyMargin(lease), validUntil);
}

void LeaseMachine::confirmed(LeaseTime sentAt, nanoseconds lease, LeaseTime validUntil)
{
    m_hold.deadline = deadlineOf(sentAt, lease, validUntil);
    m_hold.lease = lease = std::min(lease, validUntil - sentAt); // a lease that ends earlier is renewed earlier
    m_hold.atRiskAt = sentAt + lease * 2 / 3;
    const LeaseTime third = sentAt + lease / 3;
    m_nextAttempt = third - third.time_since_epoch() % renewalBeat(lease);
    m_hold.isAtRisk = false;
    clearObstacle();
    m_backOff.reset();
}

void LeaseMachine::setAutoRenew(bool autoRenew)
{
    m_options.autoRenew = autoRenew;
    m_nextOptions.autoRenew = autoRenew;
}

void LeaseMachine::setMinHold(milliseconds minHold, LeaseTime now)
{
    m_options.minHold = minHold > 0ms ? minHold + std::chrono::ceil<milliseconds>(now - m_hold.acquiredAt) : 0ms;
}

void LeaseMachine::sendRenew(LeaseTime now)
{
    m_attempt = {};
    m_attempt.sentAt = now;
    m_attempt.isInFlight = true;
    m_attempt.isExtending = m_options.autoRenew || m_hold.mustExtend;
    // Without automatic renewal, the lease counts from the acquisition on.
    const LeaseTime end = m_hold.mustExtend ? m_hold.acquiredAt + m_options.lease
                                            : m_hold.deadline + safetyMargin(m_hold.lease);
    m_attempt.renewLease = m_options.autoRenew ? nanoseconds(m_options.lease) : std::max<nanoseconds>(1ms, end - now);
    m_attempt.isVerifying = std::exchange(m_hold.mustVerify, false);
    m_nextAttempt = NeverTime;
    send(Command::Renew, m_attempt.renewLease);
}

void LeaseMachine::renewReplied(const EngineReply &reply, LeaseTime now)
{
    tick(now);
    if (m_phase != Held)
        return;
    m_attempt.isInFlight = false;
    switch (reply.status) {
    case EngineReply::Done:
        if (m_attempt.isVerifying && !m_hold.mustVerify && !m_hold.isConverting)
            m_hold.limit = NeverTime;
        if (m_attempt.isExtending) {
            confirmed(m_attempt.sentAt, m_attempt.renewLease, reply.validUntil);
            m_hold.mustExtend = false;
            report(Outcome::Renewed);
        } else {
            if (clearObstacle())
                report(Outcome::ErrorCleared);
            m_nextAttempt = now; // of no account unless renewing is switched on
        }
        if (m_hold.mustVerify)
            m_nextAttempt = now;
        else
            m_hold.forcedNoticed = false;
        break;
    case EngineReply::Gone:
        lose(m_hold.forcedNoticed ? DistributedLock::ForcedRelease : DistributedLock::Deleted, now);
        return;
    case EngineReply::Stolen:
        lose(m_hold.forcedNoticed ? DistributedLock::ForcedRelease : DistributedLock::Stolen, now);
        return;
    default:
        reportObstacle(reply.error);
        m_obstacle.error = reply.error;
        m_hold.mustVerify |= m_attempt.isVerifying;
        m_nextAttempt = now;
        if (!reply.error.canRetryAtOnce)
            m_nextAttempt += reply.error.isPermanent ? m_hold.lease / 6 : backOff(m_hold.lease / 12);
        break;
    }
    tick(now);
}

void LeaseMachine::forcedReleaseNoticed(LeaseTime now)
{
    tick(now);
    if (m_phase != Held)
        return;
    m_hold.forcedNoticed = true;
    m_hold.mustVerify = true;
    m_nextAttempt = now;
    tick(now);
}

void LeaseMachine::release(quint64 id, LeaseTime now)
{
    tick(now);
    if (m_phase == Held && m_hold.count == 1) {
        m_releases.append(id);
        m_phase = Releasing;
        clearObstacle();
        m_backOff.reset();
        sendRelease(now);
        return;
    }
    const bool levelGivenBack = m_phase == Held;
    if (levelGivenBack)
        --m_hold.count;
    else
        cancel(now);
    report(Outcome::ReleaseDone, id).success = levelGivenBack;
}

bool LeaseMachine::handOut(LeaseTime now)
{
    tick(now);
    if (m_phase != Held)
        return false;
    m_lastHoldWasShort = false;
    report(Outcome::Released);
    ++m_epochNumber; // a renewal in flight concerns the new owner only
    m_epoch = {};
    holdEnded(now);
    return true;
}

void LeaseMachine::converting(milliseconds lease, LeaseTime now)
{
    m_hold.limit = deadlineOf(now, lease, NeverTime);
    m_hold.isConverting = true;
    tick(now);
}

void LeaseMachine::conversionFailed(bool maybeDone, LeaseTime now)
{
    m_hold.isConverting = false;
    if (!maybeDone)
        m_hold.limit = NeverTime;
    else
        serverReplaced(now); // asks the server
    tick(now);
}

void LeaseMachine::converted(LeaseTime now)
{
    tick(now);
    m_hold.isConverting = false;
    if (m_phase == Releasing)
        m_hold.maybeReleased = true;
    else
        handOut(now);
}

void LeaseMachine::prepareAdoption(LeaseTime now)
{
    tick(now);
    if (m_phase == Acquiring && (m_epoch.isTokenKnown || m_attempt.isInFlight))
        abandon();
}

void LeaseMachine::adopt(quint64 id, const LockOptions &options, const EngineReply &reply, LeaseTime sentAt,
                         LeaseTime now)
{
    m_requests.insert(id, {sentAt, later(sentAt, options.lease), true});
    m_options = m_nextOptions = options;
    m_phase = Acquiring;
    m_epoch = {true, true};
    ++m_epochNumber;
    m_attempt = {};
    m_wait = {};
    m_obstacle = {};
    m_backOff.reset();
    granted(reply, sentAt, options.lease, now);
}

void LeaseMachine::sendRelease(LeaseTime now)
{
    m_nextAttempt = NeverTime;
    m_attempt = {}; // a renewal in flight is overtaken
    if (!m_engine->isEngineReady())
        return; // engineReady() continues
    m_attempt.isInFlight = true;
    send(Command::Release, keepAfterRelease(now));
}

void LeaseMachine::releaseReplied(const EngineReply &reply, LeaseTime now)
{
    tick(now);
    if (m_phase != Releasing)
        return;
    m_attempt.isInFlight = false;
    // Nobody relies on the lock any more, so there is time to ask again until a loss is proven.
    const bool isUndecided = reply.isUnprovenLoss() && !m_hold.maybeReleased;
    if (reply.status == EngineReply::Failed || isUndecided) {
        m_hold.maybeReleased |= reply.error.isMaybeExecuted;
        reportObstacle(reply.error);
        m_obstacle.error = reply.error;
        if (!reply.error.isPermanent)
            m_nextAttempt = now + (reply.error.canRetryAtOnce ? 0ns : backOff(m_hold.lease / 12));
        tick(now);
        return;
    }
    // The deadline has not passed, so the key has not expired. If it is gone, and an earlier release had no reply, that
    // release removed it.
    if (reply.status == EngineReply::Done || m_hold.maybeReleased) {
        report(Outcome::Released);
        m_lastHoldWasShort = now - m_hold.acquiredAt < ShortHold;
        const auto releases = std::exchange(m_releases, {});
        for (const quint64 id : releases)
            report(Outcome::ReleaseDone, id).success = true;
        holdEnded(now);
        return;
    }
    lose(m_hold.forcedNoticed                        ? DistributedLock::ForcedRelease
                 : reply.status == EngineReply::Gone ? DistributedLock::Deleted
                                                     : DistributedLock::Stolen,
         now);
}

void LeaseMachine::lose(DistributedLock::LossReason reason, LeaseTime now, bool abandoned)
{
    m_lastHoldWasShort = false;
    Outcome &lost = report(Outcome::Lost);
    lost.reason = reason;
    lost.duration = std::max<nanoseconds>(0ns, now - deadline());
    lost.fencingToken = m_hold.fencingToken;
    lost.error = m_obstacle.error;
    const auto releases = std::exchange(m_releases, {});
    for (const quint64 id : releases)
        report(Outcome::ReleaseDone, id);
    // The server may still keep the key under our token, which is of no use to anybody.
    if (abandoned)
        abandon(keepAfterRelease(now));
    holdEnded(now);
}

void LeaseMachine::holdEnded(LeaseTime now)
{
    m_phase = Unlocked;
    beginIfWanted(now);
}

void LeaseMachine::detach(LeaseTime now, const QString &text)
{
    tick(now);
    failRequests(EngineError::passing(DistributedLock::ConnectionError, text), [](const Request &) { return true; });
    giveUpIfUnwanted();
    if (m_phase == Held || m_phase == Releasing)
        lose(DistributedLock::ForcedRelease, now, true);
}

void LeaseMachine::engineReady(LeaseTime now)
{
    // The engine is back: retry at once instead of waiting out the back-off. The server may have been restarted, or
    // another one have taken its place: a held lock is renewed.
    if (!m_attempt.isInFlight)
        m_nextAttempt = std::min(m_nextAttempt, now);
    m_backOff.reset();
    tick(now);
}

void LeaseMachine::serverReplaced(LeaseTime now)
{
    tick(now);
    if (m_phase == Acquiring)
        m_attempt.isServerReplaced = m_attempt.isInFlight; // the reply may be the former server's
    if (m_phase != Held)
        return;
    m_hold.mustVerify = true;
    m_nextAttempt = now;
    tick(now);
}

void LeaseMachine::engineFailed(const EngineError &error, LeaseTime now)
{
    tick(now);
    const bool all = endsWait(error);
    failRequests(error, [all](const Request &request) { return all || request.once; });
    if (m_phase == Acquiring) {
        m_obstacle.error = error;
        giveUpIfUnwanted();
    }
    if (m_phase != Unlocked) {
        reportObstacle(error);
        m_obstacle.error = error;
    }
}

void LeaseMachine::tick(LeaseTime now)
{
    m_lastEventAt = now;
    const bool due = !m_attempt.isInFlight && now >= m_nextAttempt && m_engine->isEngineReady();
    switch (m_phase) {
    case Unlocked:
        break;
    case Acquiring:
        expireRequests(now);
        if (m_phase == Acquiring && due)
            attempt(now);
        break;
    case Held:
        if (now + TimerSlack >= deadline()) {
            lose(DistributedLock::LeaseExpired, now, true);
            break;
        }
        if (!m_hold.isAtRisk && now >= m_hold.atRiskAt) {
            m_hold.isAtRisk = true;
            report(Outcome::AtRisk).duration = deadline() - now;
        }
        if (due && isToBeRenewed())
            sendRenew(now);
        break;
    case Releasing:
        expireRequests(now);
        if (now + TimerSlack >= deadline())
            lose(DistributedLock::LeaseExpired, now, true);
        else if (due)
            sendRelease(now);
        break;
    }
}

LeaseTime LeaseMachine::nextWakeUp() const
{
    LeaseTime next = m_attempt.isInFlight || !m_engine->isEngineReady() ? NeverTime : m_nextAttempt;
    next = std::min(next, m_nextExpiry);
    switch (m_phase) {
    case Unlocked:
        return NeverTime;
    case Acquiring:
        return next;
    case Held:
        if (!isToBeRenewed())
            next = NeverTime;
        if (!m_hold.isAtRisk)
            next = std::min(next, m_hold.atRiskAt);
        return std::min(next, deadline() - TimerSlack);
    case Releasing:
        return std::min(next, deadline() - TimerSlack);
    }
    return NeverTime;
}

nanoseconds LeaseMachine::backOff(nanoseconds ceiling)
{
    return m_backOff.next(ceiling);
}

} // namespace QDistLock
