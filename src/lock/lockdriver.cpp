// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockdriver.h"

#include "engine/enginefactory.h"
#include "engine/protocolconstants.h"
#include "lock/lockregistry_p.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;
using std::chrono::milliseconds;

namespace QDistLock {

LockDriver::LockDriver(QObject *owner)
    : machine(this)
    , m_owner(owner)
{
}

LockDriver::~LockDriver() = default;

LeaseTime LockDriver::now() const
{
    return registry ? registry->now() : LeaseClock::system()->now();
}

const LockId &LockDriver::presentLockId() const
{
    // The next acquisition may have begun without having sent a command. If the previous hold is still being released,
    // it has not begun.
    return m_nextLockId && machine.phase() == LeaseMachine::Acquiring ? *m_nextLockId : m_lockId;
}

QString LockDriver::setNextLockId(const QString &prefix, const QString &name)
{
    if (!name.isEmpty() && name == m_idName && prefix == m_idPrefix)
        return QString();
    QString error;
    const auto id = EngineFactory::makeLockId(prefix, name, &error);
    if (!id)
        return error;
    m_nextLockId = *id;
    m_idName = name;
    m_idPrefix = prefix;
    return QString();
}

bool LockDriver::isEngineReady() const
{
    const LockEngine *const engine = registry ? registry->engine() : nullptr;
    return engine && engine->stateFor(presentLockId()) == LockEngine::Ready;
}

bool LockDriver::canBeWoken() const
{
    const LockEngine *const engine = registry ? registry->engine() : nullptr;
    return engine && engine->canBeWoken(presentLockId());
}

void LockDriver::changeRegistry(LockRegistryPrivate *newRegistry)
{
    if (registry) {
        registry->route(m_sequence, nullptr);
        registry->detach(this);
    }
    m_sequence = 0;
    LockRegistryPrivate *const former = std::exchange(registry, newRegistry);
    m_registryGone.clear();
    if (registry)
        registry->attach(this);
    registryChanged(former);
}

void LockDriver::registryDestroyed()
{
    leaveRegistry(u"its registry was destroyed"_s);
}

void LockDriver::leaveRegistry(const QString &reason)
{
    machine.detach(now(), reason);
    run(OnEventLoop);
    changeRegistry(nullptr);
    m_registryGone = reason;
}

void LockDriver::abandon()
{
    machine.detach(now(), QString());
    machine.takeOutcomes();
    const auto commands = machine.takeCommands();
    for (const LeaseMachine::Command &command : commands) {
        if (command.kind == LeaseMachine::Command::Abandon)
            execute(command);
    }
}

void LockDriver::wakeUp(LeaseTime now)
{
    machine.tick(now);
    run(OnEventLoop);
}

void LockDriver::engineReady()
{
    machine.engineReady(now());
    run(OnEventLoop);
}

void LockDriver::engineFailed(const EngineError &error)
{
    machine.engineFailed(error, now());
    run(OnEventLoop);
}

void LockDriver::serverReplaced()
{
    machine.serverReplaced(now());
    run(OnEventLoop);
}

void LockDriver::wakeableChanged()
{
    machine.wakeableChanged(now());
    run(OnEventLoop);
}

void LockDriver::noticed(LockEngine::Notice notice, milliseconds ms)
{
    switch (notice) {
    case LockEngine::Grant:
        machine.grantNoticed(now());
        break;
    case LockEngine::Next:
        machine.nextNoticed(ms, now());
        break;
    case LockEngine::ForcedRelease:
        machine.forcedReleaseNoticed(now());
        break;
    }
    run(OnEventLoop);
}

void LockDriver::handedOver(const LockEngine::Handover &handover)
{
    machine.handedOver(handover, now());
    run(OnEventLoop);
}

void LockDriver::run(Context context)
{
    const auto commands = machine.takeCommands();
    for (const LeaseMachine::Command &command : commands)
        execute(command);
    // A wake-up that is scheduled earlier stays, and does nothing: that is cheaper than moving it with each
    // acquisition.
    if (registry)
        registry->watchdog()->schedule(this, std::min(machine.nextWakeUp(), wakeUpAt()), machine.holdsLease());
    eventProcessed(machine.takeOutcomes(), context);
}

template<typename Reply>
LockEngine::Completion LockDriver::completion(quint64 epoch, Reply reply)
{
    return [this, owner = m_owner, epoch, reply](const EngineReply &engineReply) {
        // The engine itself takes care of a token that was given up, see abandon().
        if (!owner || machine.epoch() != epoch)
            return;
        if (engineReply.status == EngineReply::Taken)
            foundTaken();
        (machine.*reply)(engineReply, now());
        run(OnEventLoop);
    };
}

void LockDriver::execute(const LeaseMachine::Command &command)
{
    using Command = LeaseMachine::Command;
    EngineError ignored;
    LockEngine *const engine = registry ? registry->engine(&ignored) : nullptr;
    const LockOptions &options = machine.options();
    const auto duration = std::chrono::ceil<milliseconds>(command.duration);
    const LockEngine::Replicas replicas{options.minReplicas, options.replicaTimeout};
    switch (command.kind) {
    case Command::Acquire:
        if (command.freshToken) {
            if (m_nextLockId)
                m_lockId = *std::exchange(m_nextLockId, std::nullopt);
            registry->route(m_sequence, nullptr);
            m_token = engine->makeToken();
            m_sequence = engine->lastSequence();
            registry->route(m_sequence, this);
        }
        engine->acquire({m_lockId, m_token, options.lease, options.repairMissingTtl, command.enqueue, !options.fair,
                         machine.arrival(), replicas},
                        completion(command.epoch, &LeaseMachine::acquireReplied));
        break;
    case Command::Renew:
        engine->renew(m_lockId, m_token, duration, replicas, completion(command.epoch, &LeaseMachine::renewReplied));
        break;
    case Command::Release:
        engine->release(m_lockId, m_token, options.lease, duration,
                        completion(command.epoch, &LeaseMachine::releaseReplied));
        break;
    case Command::Abandon:
        // The key expires after a lease, but a place in the queue can stay longer.
        if (engine)
            engine->abandon(m_lockId, m_token, options.lease, duration, Protocol::QueueTtl);
        registry->route(m_sequence, nullptr);
        break;
    }
}

} // namespace QDistLock
