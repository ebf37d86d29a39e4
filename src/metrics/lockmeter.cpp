// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "metrics/lockmeter.h"

#include "metrics/lockevents.h"
#include "metrics/lockgroup.h"

#include <utility>

namespace QDistLock {

void LockMeter::setLock(const QString &name, const QString &label)
{
    const quint32 generation = LockGroup::generation();
    if (m_group && m_generation == generation && m_name == name && m_label == label)
        return;
    m_group = LockGroup::of(name, label);
    m_generation = generation;
    m_name = name;
    m_label = label;
}

void LockMeter::count(const QList<LeaseMachine::Outcome> &outcomes, const LeaseMachine &machine)
{
    using Outcome = LeaseMachine::Outcome;
    const LeaseTime now = machine.lastEventAt();
    for (const Outcome &outcome : outcomes) {
        switch (outcome.kind) {
        case Outcome::Acquired:
            if (m_held)
                break; // one more level
            m_held = m_group;
            m_heldSince = now;
            m_held->acquired(machine.waited(), machine.foundTaken());
            if (LockEvents::areObserved()) {
                LockEvent event = holdEvent(machine);
                event.contended = machine.foundTaken();
                event.waited = machine.waited();
                LockEvents::report(&LockObserver::acquired, event);
            }
            break;
        case Outcome::AcquireFailed:
            if (!m_isOneOfSeveral)
                failed(m_group, m_name, outcome.error.code);
            break;
        case Outcome::Released:
            if (LockEvents::areObserved())
                LockEvents::report(&LockObserver::released, holdEvent(machine));
            std::exchange(m_held, nullptr)->released(now - m_heldSince);
            break;
        case Outcome::Lost:
            if (LockEvents::areObserved()) {
                LockEvent event = holdEvent(machine);
                event.lossReason = outcome.reason;
                LockEvents::report(&LockObserver::lost, event);
            }
            std::exchange(m_held, nullptr)->lost(outcome.reason, now - m_heldSince);
            break;
        case Outcome::Renewed:
            m_held->renewed();
            if (LockEvents::areObserved())
                LockEvents::report(&LockObserver::renewed, holdEvent(machine));
            break;
        case Outcome::AtRisk:
            m_held->atRisk();
            break;
        case Outcome::ReleaseDone:
        case Outcome::ErrorOccurred:
        case Outcome::ErrorCleared:
            break;
        }
    }
    const bool isWaiting = machine.phase() == LeaseMachine::Acquiring;
    if (isWaiting == bool(m_waiting))
        return;
    if (isWaiting)
        (m_waiting = m_group)->beganToWait();
    else
        std::exchange(m_waiting, nullptr)->endedToWait();
}

QList<LeaseMachine::Outcome> LockMeter::ofLast(QList<LeaseMachine::Outcome> outcomes)
{
    using Outcome = LeaseMachine::Outcome;
    for (Outcome &outcome : outcomes) {
        if (outcome.kind == Outcome::Lost && outcome.reason == DistributedLock::ForcedRelease)
            outcome.kind = Outcome::Released;
        else if (outcome.kind == Outcome::AcquireFailed)
            outcome.error.code = DistributedLock::CancelledError;
    }
    return outcomes;
}

void LockMeter::countRefusal(const QString &name, const QString &label, DistributedLock::Error error)
{
    if (!m_isOneOfSeveral)
        countFailure(name, label, error);
}

void LockMeter::countFailure(const QString &name, const QString &label, DistributedLock::Error error)
{
    failed(LockGroup::of(name, label), name, error);
}

void LockMeter::failed(LockGroup *group, const QString &name, DistributedLock::Error error)
{
    group->failed(error);
    if (!LockEvents::areObserved())
        return;
    LockEvent event;
    event.name = name;
    event.group = group->name();
    event.error = error;
    LockEvents::report(&LockObserver::failed, event);
}

LockEvent LockMeter::holdEvent(const LeaseMachine &machine) const
{
    LockEvent event;
    event.name = m_name;
    event.group = m_held->name();
    event.fencingToken = machine.lastFencingToken();
    event.held = machine.lastEventAt() - m_heldSince;
    return event;
}

} // namespace QDistLock
