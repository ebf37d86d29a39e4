// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "metrics/lockmeter.h"

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
            break;
        case Outcome::AcquireFailed:
            if (!m_isOneOfSeveral)
                m_group->failed(outcome.error.code);
            break;
        case Outcome::Released:
            std::exchange(m_held, nullptr)->released(now - m_heldSince);
            break;
        case Outcome::Lost:
            std::exchange(m_held, nullptr)->lost(outcome.reason, now - m_heldSince);
            break;
        case Outcome::Renewed:
            m_held->renewed();
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

void LockMeter::countLast(QList<LeaseMachine::Outcome> outcomes, const LeaseMachine &machine)
{
    using Outcome = LeaseMachine::Outcome;
    for (Outcome &outcome : outcomes) {
        if (outcome.kind == Outcome::Lost && outcome.reason == DistributedLock::ForcedRelease)
            outcome.kind = Outcome::Released;
        else if (outcome.kind == Outcome::AcquireFailed)
            outcome.error.code = DistributedLock::CancelledError;
    }
    count(outcomes, machine);
}

void LockMeter::countRefusal(const QString &name, const QString &label, DistributedLock::Error error)
{
    if (!m_isOneOfSeveral)
        LockGroup::of(name, label)->failed(error);
}

} // namespace QDistLock
