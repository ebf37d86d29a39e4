// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockdriver.h"

#include "base/holdkind.h"
#include "engine/enginefactory.h"
#include "engine/protocolconstants.h"
#include "lock/lockregistry_p.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;
using std::chrono::milliseconds;

namespace QDistLock {

/// A new token of the kind that \a options ask for, see Token::ofPermits().
static QByteArray makeToken(LockEngine *engine, const LockOptions &options, bool wantsSlots)
{
    const QByteArray token = engine->makeToken();
    switch (kindOf(options)) {
    case HoldKind::Reader:
        return Token::ofReader(token);
    case HoldKind::Permits:
        return Token::ofPermits(token, options.take, wantsSlots && options.permits <= Protocol::SlotsAtMost);
    case HoldKind::Exclusive:
        break;
    }
    return token;
}

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
    leaveRegistry(LockRegistryPrivate::destroyedReason());
}

void LockDriver::leaveRegistry(const QString &reason)
{
    machine.detach(now(), reason);
    run(OnEventLoop);
    EngineReply reply;
    reply.error = EngineError::passing(DistributedLock::ConnectionError, reason);
    endTaking(reply);
    changeRegistry(nullptr);
    m_registryGone = reason;
}

void LockDriver::abandon()
{
    machine.detach(now(), QString());
    count(LockMeter::ofLast(machine.takeOutcomes()));
    endTaking({});
    const auto commands = machine.takeCommands();
    for (const LeaseMachine::Command &command : commands) {
        if (command.kind == LeaseMachine::Command::Abandon)
            execute(command);
    }
    if (m_successor)
        giveBack(*std::exchange(m_successor, std::nullopt));
}

void LockDriver::takeFrom(LockDriver *holder, quint64 id, const LockOptions &options, TakeFailed failed)
{
    LockEngine *const engine = registry->engine();
    const QByteArray token = makeToken(engine, options, wantsSlots);
    m_taking = Taking{{holder->m_lockId, token, options.lease},
                      engine->lastSequence(),
                      now(),
                      holder,
                      holder->m_owner,
                      holder->m_token,
                      id,
                      options,
                      std::move(failed)};
    holder->machine.converting(options.lease, m_taking->sentAt);
    holder->run(OnEventLoop);
    engine->convert(m_taking->operation, m_taking->from, [this, owner = m_owner, token](const EngineReply &reply) {
        // Otherwise endTaking() has given the token back.
        if (owner && m_taking && m_taking->operation.token == token)
            taken(reply);
    });
}

void LockDriver::taken(const EngineReply &reply)
{
    if (reply.status != EngineReply::Granted) {
        endTaking(reply);
        return;
    }
    if (!m_taking->holderOwner) {
        EngineReply destroyed;
        destroyed.error = EngineError::passing(DistributedLock::CancelledError,
                                               u"the other lock of its ReadWriteLock was destroyed"_s);
        endTaking(destroyed);
        return;
    }
    LockDriver *const holder = m_taking->holder;
    holder->machine.converted(now());
    holder->run(OnEventLoop);
    machine.prepareAdoption(now());
    run(OnEventLoop);
    const Taking taking = *m_taking;
    if (machine.phase() == LeaseMachine::Held || machine.phase() == LeaseMachine::Releasing) {
        endTaking({}); // it was served as a waiter, at the same time
        machine.acquire(taking.id, true, taking.options, now());
        run(OnEventLoop);
        return;
    }
    m_taking.reset();
    registry->route(m_sequence, nullptr);
    m_lockId = taking.operation.lock;
    m_nextLockId.reset();
    m_token = taking.operation.token;
    m_sequence = taking.sequence;
    registry->route(m_sequence, this);
    machine.adopt(taking.id, taking.options, reply, taking.sentAt, now());
    run(OnEventLoop);
}

/// Gives back what the server may have given to the new token. \a reply: why nobody wants it.
void LockDriver::endTaking(const EngineReply &reply)
{
    if (!m_taking)
        return;
    const Taking taking = std::move(*m_taking);
    m_taking.reset();
    const bool isUntouched = reply.status == EngineReply::Taken || reply.status == EngineReply::Gone
            || reply.status == EngineReply::Stolen;
    LockDriver *const holder = taking.holderOwner && taking.holder->m_token == taking.from
                    && taking.holder->machine.holdsLease()
            ? taking.holder
            : nullptr;
    if (holder) {
        // Others must not get the lock as long as the holder relies on it.
        if (!isUntouched)
            holder->m_successor = taking.operation;
        holder->machine.conversionFailed(!isUntouched, now());
        holder->run(OnEventLoop);
    } else if (!isUntouched) {
        giveBack(taking.operation);
    }
    if (reply.status != EngineReply::Granted && (reply.error || isUntouched))
        taking.failed(reply);
}

void LockDriver::giveBack(const LockEngine::Acquire &operation)
{
    EngineError ignored;
    if (LockEngine *const engine = registry ? registry->engine(&ignored) : nullptr)
        engine->abandon(operation.lock, operation.token, operation.lease, milliseconds(0), Protocol::QueueTtl);
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
    if (m_successor && !machine.holdsLease())
        giveBack(*std::exchange(m_successor, std::nullopt));
    // A wake-up that is scheduled earlier stays, and does nothing: that is cheaper than moving it with each
    // acquisition.
    if (registry)
        registry->watchdog()->schedule(this, std::min(machine.nextWakeUp(), wakeUpAt()), machine.holdsLease());
    const auto outcomes = machine.takeOutcomes();
    count(outcomes);
    eventProcessed(outcomes, context);
}

void LockDriver::count(const QList<LeaseMachine::Outcome> &outcomes)
{
    meter.count(outcomes, machine);
    if (registry)
        registry->count(*this, outcomes);
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
            m_token = makeToken(engine, options, wantsSlots);
            m_sequence = engine->lastSequence();
            registry->route(m_sequence, this);
        }
        engine->acquire({m_lockId, m_token, options.lease, options.repairMissingTtl, command.enqueue, !options.fair,
                         machine.arrival(), replicas, options.permits, command.enqueue ? 0 : together},
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
