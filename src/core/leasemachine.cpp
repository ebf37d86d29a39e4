// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "leasemachine.h"

#include <QtCore/qrandom.h>

#include <algorithm>

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

namespace {

/// An acquire that is to look once waits so long for its look: connecting and one command.
constexpr nanoseconds SingleLookTimeout = 5s;
/// A waiter that was served has so long to claim the lock (see common.lua). Those behind look at multiples
/// of it, the nearer to the head the sooner: thousands of them cost a few looks a second all together.
constexpr nanoseconds ClaimTime = 3s;

nanoseconds jittered(nanoseconds duration, double share)
{
    const double factor = 1 - share + 2 * share * QRandomGenerator::global()->generateDouble();
    return nanoseconds(static_cast<qint64>(static_cast<double>(duration.count()) * factor));
}

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
    const nanoseconds rest = m_options.minHold - (now - m_acquiredAt);
    return std::max(0ms, std::chrono::ceil<milliseconds>(rest));
}

LeaseMachine::Action &LeaseMachine::push(Action::Kind kind, quint64 id)
{
    Action &action = m_actions.emplace_back();
    action.kind = kind;
    action.id = id;
    return action;
}

void LeaseMachine::acquire(quint64 id, bool once, const LockOptions &options, LeaseTime now)
{
    tick(now);
    if (m_phase == Held) {
        ++m_holdCount;
        push(Action::Acquired, id);
        return;
    }
    // Longer waits than nanoseconds can count are waits for ever.
    const bool endless = options.wait >= std::chrono::duration_cast<milliseconds>(NeverTime);
    const LeaseTime deadline = once ? now + SingleLookTimeout : endless ? NeverTime : later(now, options.wait);
    m_requests.insert(id, {deadline, once});
    m_nextExpiry = std::min(m_nextExpiry, deadline);
    if (m_phase == Acquiring) {
        if (once && !m_inFlight)
            attempt(now);
        return;
    }
    m_nextOptions = options;
    if (m_phase == Unlocked)
        beginIfWanted(now);
}

void LeaseMachine::beginIfWanted(LeaseTime now)
{
    if (m_requests.isEmpty())
        return;
    m_options = m_nextOptions;
    m_phase = Acquiring;
    m_obstacle = {};
    m_obstacleReported = false;
    m_foundTaken = false;
    m_retries = 0;
    m_retryAt = NeverTime;
    m_lastBackOff = 0ns;
    m_inFlight = false;
    m_epochOpen = false;
    m_tokenKnown = false;
    m_grantNoticed = false;
    m_lookBy = NeverTime;
    m_queuePosition = -1;
    m_arrival.clear();
    attempt(now);
}

void LeaseMachine::attempt(LeaseTime now)
{
    m_nextAttempt = NeverTime;
    if (!m_engine->isEngineReady())
        return; // engineReady() goes on
    Action &action = push(Action::SendAcquire);
    action.fresh = !m_epochOpen;
    action.enqueue = m_engine->canBeWoken()
            && std::any_of(m_requests.cbegin(), m_requests.cend(), [](const Request &r) { return !r.once; });
    m_attemptIsRetry = now >= m_retryAt;
    m_grantNoticed = false;
    m_lookBy = NeverTime;
    m_epochOpen = true;
    // A place may outlive what later answers tell, so this stays for the whole epoch.
    m_tokenKnown |= action.enqueue;
    m_inFlight = true;
    m_sentAt = now;
}

void LeaseMachine::acquireReplied(const EngineReply &reply, LeaseTime now)
{
    tick(now);
    if (m_phase != Acquiring)
        return;
    m_inFlight = false;
    switch (reply.status) {
    case EngineReply::Granted:
        granted(reply.fencingToken, m_sentAt, m_options.lease, now);
        return;
    case EngineReply::Taken:
        taken(reply, now);
        return;
    default:
        m_tokenKnown |= reply.error.maybeExecuted; // an earlier attempt may have been as well
        m_obstacle = reply.error;
        break;
    }
    attemptFailed(now);
    if (m_phase == Acquiring)
        reportObstacle(m_obstacle);
}

void LeaseMachine::attemptFailed(LeaseTime now)
{
    const bool all = endsWait(m_obstacle);
    failRequests(m_obstacle, [all](const Request &request) { return all || request.once; });
    giveUpIfUnwanted();
    if (m_phase == Acquiring)
        m_nextAttempt = later(now, backOff(std::max<nanoseconds>(m_options.retryInterval, 1s)));
}

// An acquire that cannot log in, or lacks a right, fails at once. A waiter that was allowed to do the same before goes
// on: somebody is changing the password, the certificate or the rights just now.
bool LeaseMachine::endsWait(const EngineError &error) const
{
    if (!error.permanent)
        return false;
    if (m_phase != Acquiring)
        return true;
    const bool wasLoggedIn = m_foundTaken;
    const bool wasInQueue = !m_arrival.isEmpty(); // joining takes more rights than the first attempt
    return !(error.code == DistributedLock::AuthenticationError && wasLoggedIn)
            && !(error.code == DistributedLock::PermissionError && wasInQueue);
}

void LeaseMachine::granted(qint64 fencingToken, LeaseTime sentAt, milliseconds lease, LeaseTime now)
{
    m_inFlight = false;
    if (now + TimerSlack >= sentAt + lease - safetyMargin(lease)) {
        push(Action::Abandon);
        m_epochOpen = false;
        m_tokenKnown = false;
        m_obstacle = {DistributedLock::ConnectionError,
                      QStringLiteral("the server's answer took longer than the lease of %1 ms; use a longer lease")
                              .arg(lease.count()),
                      false, false};
        attemptFailed(now);
        return;
    }
    m_phase = Held;
    m_fencingToken = fencingToken;
    m_holdCount = int(m_requests.size());
    m_acquiredAt = sentAt;
    m_forced = false;
    m_verify = false;
    m_queuePosition = -1;
    confirmed(sentAt, lease);
    m_nextExpiry = NeverTime;
    const auto requests = std::exchange(m_requests, {});
    for (auto it = requests.keyBegin(); it != requests.keyEnd(); ++it)
        push(Action::Acquired, *it);
}

void LeaseMachine::wakeableChanged(LeaseTime now)
{
    if (m_phase != Acquiring)
        return;
    const bool wakeable = m_engine->canBeWoken();
    if (m_inFlight) {
        m_grantNoticed |= wakeable; // the server may have dropped it from the queue, or it never joined
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
    m_grantNoticed = m_inFlight;
    if (!m_inFlight)
        attempt(now);
}

void LeaseMachine::nextNoticed(milliseconds ms, LeaseTime now)
{
    tick(now);
    if (m_phase != Acquiring)
        return;
    const LeaseTime look = later(now, std::max(ms, 1ms) + jittered(5ms, 1));
    if (m_inFlight) {
        m_lookBy = std::min(m_lookBy, look);
    } else if (m_queuePosition >= 0) {
        m_queuePosition = 0;
        m_nextAttempt = std::min(m_nextAttempt, look);
    }
}

void LeaseMachine::handedOver(const LockEngine::Handover &handover, LeaseTime now)
{
    tick(now);
    if (m_phase != Acquiring)
        return;
    // An attempt in flight gives the key this lock's own lease, maybe a shorter one, after the hand-over.
    if (m_inFlight || handover.lease != m_options.lease)
        grantNoticed(now);
    else
        granted(handover.fencingToken, handover.sentAt, handover.lease, now);
}

void LeaseMachine::taken(const EngineReply &reply, LeaseTime now)
{
    m_queuePosition = reply.queuePosition;
    if (!reply.arrival.isEmpty())
        m_arrival = reply.arrival;
    if (clearObstacle())
        push(Action::ErrorCleared);
    m_foundTaken = true;
    m_retries += m_attemptIsRetry ? 1 : 0;
    failRequests({DistributedLock::BusyError, QStringLiteral("somebody else holds it; try again later, "
                                                             "or use acquire() to wait for it")},
                 [](const Request &request) { return request.once; });
    if (m_options.maxRetries >= 0 && m_retries >= m_options.maxRetries) {
        failRequests({DistributedLock::BusyError,
                      QStringLiteral("somebody else still held it after %1 retries; allow more retries, "
                                     "or look with LockRegistry::inspect() who holds it")
                              .arg(m_options.maxRetries)},
                     [](const Request &) { return true; });
    }
    giveUpIfUnwanted();
    if (m_phase != Acquiring)
        return;
    LeaseTime next = later(now, jittered(m_options.retryInterval, 0.25));
    if (m_options.maxRetries >= 0) {
        if (m_attemptIsRetry || m_retryAt == NeverTime)
            m_retryAt = next;
        next = m_retryAt;
    }
    if (std::exchange(m_grantNoticed, false)) {
        attempt(now);
        return;
    }
    // What a message will announce needs no polling. The head alone polls for a holder that publishes nothing.
    const int rank = m_queuePosition;
    if (rank >= 0 && m_engine->canBeWoken() && !(reply.foreignHolder && rank == 0))
        next = std::min(m_retryAt, later(now, jittered(ClaimTime * (reply.foreignHolder ? rank : rank + 1), 0.25)));
    // A holder that dies publishes nothing either. Then the head polls first.
    if (reply.holderTtl >= 0ms) {
        const nanoseconds turn = rank >= 0 ? nanoseconds(1ms) * std::min(rank, 1000) : nanoseconds(m_options.retryInterval / 10);
        next = std::min(next, later(now, reply.holderTtl + 1ms + turn + jittered(2ms, 1)));
    }
    m_nextAttempt = std::min(next, std::exchange(m_lookBy, NeverTime));
}

template<typename Predicate>
void LeaseMachine::failRequests(const EngineError &error, Predicate predicate)
{
    m_nextExpiry = NeverTime;
    for (auto it = m_requests.begin(); it != m_requests.end();) {
        if (predicate(*it)) {
            push(Action::AcquireFailed, it.key()).error = error;
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
    if (!std::exchange(m_obstacleReported, true))
        push(Action::ErrorOccurred).error = error;
}

bool LeaseMachine::clearObstacle()
{
    m_obstacle = {};
    return std::exchange(m_obstacleReported, false);
}

void LeaseMachine::expireRequests(LeaseTime now)
{
    if (now < m_nextExpiry)
        return;
    EngineError error = m_obstacle; // of the attempt, or of the release before it
    if (!error && m_foundTaken && m_phase == Acquiring) {
        error = {DistributedLock::TimeoutError,
                 QStringLiteral("somebody else held it for the whole wait of %1 ms; wait longer, or look "
                                "with LockRegistry::inspect() who holds it")
                         .arg(m_options.wait.count())};
    } else if (!error) {
        error = {DistributedLock::ConnectionError,
                 QStringLiteral("the server did not answer in time; look whether it is reachable and alive")};
    }
    failRequests(error, [now](const Request &request) { return request.deadline <= now; });
    giveUpIfUnwanted();
}

void LeaseMachine::giveUpIfUnwanted()
{
    if (m_phase != Acquiring || !m_requests.isEmpty())
        return;
    if (m_tokenKnown || m_inFlight)
        push(Action::Abandon);
    m_phase = Unlocked;
    m_inFlight = false;
    m_epochOpen = false;
    m_tokenKnown = false;
    m_queuePosition = -1;
    m_nextAttempt = NeverTime;
}

EngineError LeaseMachine::cancelledError()
{
    return {DistributedLock::CancelledError, QStringLiteral("the acquire was cancelled"), false, false};
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
        push(Action::AcquireFailed, id).error = cancelledError();
    giveUpIfUnwanted();
    return true;
}

void LeaseMachine::confirmed(LeaseTime sentAt, nanoseconds lease)
{
    m_deadline = sentAt + lease - safetyMargin(lease);
    m_atRiskAt = sentAt + lease * 2 / 3;
    const LeaseTime third = sentAt + lease / 3;
    m_nextAttempt = third - third % renewalBeat(lease);
    m_atRisk = false;
    clearObstacle();
    m_lastBackOff = 0ns;
}

void LeaseMachine::setAutoRenew(bool autoRenew)
{
    m_options.autoRenew = autoRenew;
    m_nextOptions.autoRenew = autoRenew;
}

void LeaseMachine::sendRenew(LeaseTime now)
{
    // Only to learn whether the key is still ours, its lease is not to become longer.
    m_renewLease = m_options.autoRenew
            ? nanoseconds(m_options.lease)
            : std::max<nanoseconds>(1ms, m_deadline + safetyMargin(m_options.lease) - now);
    m_verify = false;
    m_inFlight = true;
    m_sentAt = now;
    m_nextAttempt = NeverTime;
    push(Action::SendRenew).duration = m_renewLease;
}

void LeaseMachine::renewReplied(const EngineReply &reply, LeaseTime now)
{
    tick(now);
    if (m_phase != Held)
        return;
    m_inFlight = false;
    switch (reply.status) {
    case EngineReply::Done:
        if (m_renewLease == m_options.lease) {
            confirmed(m_sentAt, m_renewLease);
            push(Action::Renewed);
        } else {
            if (clearObstacle())
                push(Action::ErrorCleared);
            m_nextAttempt = now; // of no account unless renewing is switched on
        }
        if (m_verify)
            m_nextAttempt = now;
        else
            m_forced = false;
        break;
    case EngineReply::Gone:
        lose(m_forced ? DistributedLock::ForcedRelease : DistributedLock::Deleted, now);
        return;
    case EngineReply::Stolen:
        lose(m_forced ? DistributedLock::ForcedRelease : DistributedLock::Stolen, now);
        return;
    default:
        reportObstacle(reply.error);
        m_obstacle = reply.error;
        m_verify |= m_forced;
        m_nextAttempt = now
                + (reply.error.permanent ? m_options.lease / 6 : backOff(m_options.lease / 12));
        break;
    }
    tick(now);
}

void LeaseMachine::forcedReleaseNoticed(LeaseTime now)
{
    tick(now);
    if (m_phase != Held)
        return;
    m_forced = true;
    m_verify = true;
    m_nextAttempt = now;
    tick(now);
}

void LeaseMachine::release(quint64 id, LeaseTime now)
{
    tick(now);
    if (m_phase == Held && m_holdCount == 1) {
        m_releases.append(id);
        m_phase = Releasing;
        m_holdCount = 0;
        m_releaseUnconfirmed = false;
        clearObstacle();
        m_lastBackOff = 0ns;
        sendRelease(now);
        return;
    }
    const bool levelGivenBack = m_phase == Held;
    if (levelGivenBack)
        --m_holdCount;
    else
        cancel(now);
    push(Action::ReleaseDone, id).success = levelGivenBack;
}

void LeaseMachine::sendRelease(LeaseTime now)
{
    m_nextAttempt = NeverTime;
    m_inFlight = false;
    if (!m_engine->isEngineReady())
        return; // engineReady() goes on
    m_inFlight = true;
    push(Action::SendRelease).duration = keepAfterRelease(now);
}

void LeaseMachine::releaseReplied(const EngineReply &reply, LeaseTime now)
{
    tick(now);
    if (m_phase != Releasing)
        return;
    m_inFlight = false;
    if (reply.status == EngineReply::Failed) {
        m_releaseUnconfirmed |= reply.error.maybeExecuted;
        reportObstacle(reply.error);
        m_obstacle = reply.error;
        if (!reply.error.permanent)
            m_nextAttempt = now + backOff(m_options.lease / 12);
        return;
    }
    // Only this release can have ended what was ours until the deadline, which has not passed.
    if (reply.status == EngineReply::Done || m_releaseUnconfirmed) {
        push(Action::Released);
        const auto releases = std::exchange(m_releases, {});
        for (const quint64 id : releases)
            push(Action::ReleaseDone, id).success = true;
        holdEnded(now);
        return;
    }
    lose(m_forced ? DistributedLock::ForcedRelease
                 : reply.status == EngineReply::Gone ? DistributedLock::Deleted
                                                     : DistributedLock::Stolen,
         now);
}

void LeaseMachine::lose(DistributedLock::LossReason reason, LeaseTime now, bool abandoned)
{
    Action &lost = push(Action::Lost);
    lost.reason = reason;
    lost.duration = std::max<nanoseconds>(0ns, now - m_deadline);
    lost.error = m_obstacle;
    const auto releases = std::exchange(m_releases, {});
    for (const quint64 id : releases)
        push(Action::ReleaseDone, id);
    // What the server may still keep is ours, and of no use to anybody.
    if (abandoned)
        push(Action::Abandon).duration = keepAfterRelease(now);
    holdEnded(now);
}

void LeaseMachine::holdEnded(LeaseTime now)
{
    m_phase = Unlocked;
    m_holdCount = 0;
    m_fencingToken = 0;
    m_atRisk = false;
    m_inFlight = false;
    m_epochOpen = false;
    m_tokenKnown = false;
    m_nextAttempt = NeverTime;
    beginIfWanted(now);
}

void LeaseMachine::detach(LeaseTime now)
{
    tick(now);
    failRequests({DistributedLock::ConnectionError, QStringLiteral("its registry was destroyed")},
                 [](const Request &) { return true; });
    giveUpIfUnwanted();
    if (m_phase == Held || m_phase == Releasing)
        lose(DistributedLock::ForcedRelease, now, true);
}

void LeaseMachine::engineReady(LeaseTime now)
{
    // The engine is back: retry at once instead of waiting out the back-off.
    if (!m_inFlight && (m_phase == Acquiring || m_phase == Releasing || (m_phase == Held && m_obstacle)))
        m_nextAttempt = std::min(m_nextAttempt, now);
    m_lastBackOff = 0ns;
    tick(now);
}

void LeaseMachine::engineFailed(const EngineError &error, LeaseTime now)
{
    tick(now);
    const bool all = endsWait(error);
    failRequests(error, [all](const Request &request) { return all || request.once; });
    if (m_phase == Acquiring) {
        m_obstacle = error;
        giveUpIfUnwanted();
    }
    if (m_phase != Unlocked) {
        reportObstacle(error);
        m_obstacle = error;
    }
}

void LeaseMachine::tick(LeaseTime now)
{
    const bool due = !m_inFlight && now >= m_nextAttempt && m_engine->isEngineReady();
    switch (m_phase) {
    case Unlocked:
        break;
    case Acquiring:
        expireRequests(now);
        if (m_phase == Acquiring && due)
            attempt(now);
        break;
    case Held:
        if (now + TimerSlack >= m_deadline) {
            lose(DistributedLock::LeaseExpired, now, true);
            break;
        }
        if (!m_atRisk && now >= m_atRiskAt) {
            m_atRisk = true;
            push(Action::AtRisk).duration = m_deadline - now;
        }
        if (due && (m_options.autoRenew || m_verify))
            sendRenew(now);
        break;
    case Releasing:
        expireRequests(now);
        if (now + TimerSlack >= m_deadline)
            lose(DistributedLock::LeaseExpired, now, true);
        else if (due)
            sendRelease(now);
        break;
    }
}

LeaseTime LeaseMachine::nextWakeUp() const
{
    LeaseTime next = m_inFlight || !m_engine->isEngineReady() ? NeverTime : m_nextAttempt;
    next = std::min(next, m_nextExpiry);
    switch (m_phase) {
    case Unlocked:
        return NeverTime;
    case Acquiring:
        return next;
    case Held:
        if (!m_options.autoRenew && !m_verify)
            next = NeverTime;
        if (!m_atRisk)
            next = std::min(next, m_atRiskAt);
        return std::min(next, m_deadline - TimerSlack);
    case Releasing:
        return std::min(next, m_deadline - TimerSlack);
    }
    return NeverTime;
}

nanoseconds LeaseMachine::backOff(nanoseconds ceiling)
{
    m_lastBackOff = std::clamp<nanoseconds>(m_lastBackOff * 2, 10ms, std::max<nanoseconds>(ceiling, 10ms));
    return jittered(m_lastBackOff, 0.25);
}

} // namespace QDistLock
