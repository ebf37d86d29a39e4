// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "distributedlock_p.h"

#include "core/leaseclock.h"
#include "lockregistry_p.h"
#include "logging.h"
#include "threadcheck.h"

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <limits>
#include <mutex>

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

namespace {

int toInt(milliseconds duration)
{
    constexpr auto greatest = (std::numeric_limits<int>::max)();
    return int(std::min<qint64>(duration.count(), greatest));
}

/// No error at all, or how an acquire may end while all is well with the server.
bool isOrdinary(DistributedLock::Error error)
{
    return error == DistributedLock::NoError || error == DistributedLock::BusyError
            || error == DistributedLock::TimeoutError || error == DistributedLock::CancelledError;
}

milliseconds ceilToMs(nanoseconds duration)
{
    return std::chrono::ceil<milliseconds>(duration);
}

} // namespace

struct Detail::LockLink
{
    std::mutex mutex;
    DistributedLock *lock; ///< null from the beginning of its destructor
    // For messages: other threads must ask neither the lock nor its thread.
    QString name;
    QString thread;
    bool misuseReported = false;
};

DistributedLockPrivate::DistributedLockPrivate(DistributedLock *lock)
    : q(lock)
    , machine(this)
{
}

DistributedLockPrivate::~DistributedLockPrivate() = default;

void DistributedLockPrivate::close()
{
    alive = false;
    if (link) {
        const std::lock_guard locker(link->mutex);
        link->lock = nullptr;
    }
    if (registry) {
        abandon();
        registry->route(m_sequence, nullptr);
        registry->detach(this);
        registry = nullptr;
    }
    auto acquires = std::exchange(acquirePromises, {});
    for (auto &[id, promise] : acquires) {
        promise.addResult(destroyedResult());
        promise.finish();
    }
    auto releases = std::exchange(releasePromises, {});
    for (auto &[id, promise] : releases) {
        promise.addResult(false);
        promise.finish();
    }
}

LockResult DistributedLockPrivate::destroyedResult() const
{
    return {DistributedLock::CancelledError,
            QStringLiteral("Lock %1: the lock object was destroyed").arg(Detail::quoted(name)), 0};
}

void DistributedLockPrivate::abandon()
{
    machine.detach(now());
    const auto actions = machine.takeActions();
    for (const LeaseMachine::Action &action : actions) {
        if (action.kind == LeaseMachine::Action::Abandon)
            execute(action);
    }
}

LeaseTime DistributedLockPrivate::now() const
{
    return registry ? registry->now() : LeaseClock::system()->now();
}

LockEngine *DistributedLockPrivate::engine(EngineError *engineError)
{
    if (registryGone) {
        *engineError = {DistributedLock::ConnectionError,
                        QStringLiteral("its registry was destroyed; give it another one with setRegistry()"), true, false};
        return nullptr;
    }
    if (!registry) {
        const QPointer<DistributedLock> guard(q);
        setRegistry(LockRegistryPrivate::get(LockRegistry::instance()));
        if (!guard || !registry)
            return nullptr;
    }
    return registry->engine(engineError);
}

bool DistributedLockPrivate::isEngineReady() const
{
    const LockEngine *const engine = registry ? registry->engine() : nullptr;
    return engine && engine->state() == LockEngine::Ready;
}

bool DistributedLockPrivate::canBeWoken() const
{
    const LockEngine *const engine = registry ? registry->engine() : nullptr;
    return engine && engine->canBeWoken();
}

void DistributedLockPrivate::setRegistry(LockRegistryPrivate *newRegistry)
{
    if (registry) {
        registry->route(m_sequence, nullptr);
        registry->detach(this);
    }
    m_sequence = 0;
    registry = newRegistry;
    registryGone = false;
    m_reportedOutage = {0, DistributedLock::NoError};
    if (hasDelivery())
        deliverLater(); // what waited at the former registry
    if (!registry)
        return;
    registry->attach(this);
    if (fieldsSet == AllFields)
        return;
    LockOptions merged = registry->defaults;
    if (fieldsSet & Lease)
        merged.lease = options.lease;
    if (fieldsSet & Wait)
        merged.wait = options.wait;
    if (fieldsSet & RetryInterval)
        merged.retryInterval = options.retryInterval;
    if (fieldsSet & AutoRenew)
        merged.autoRenew = options.autoRenew;
    if (fieldsSet & Fair)
        merged.fair = options.fair;
    setOptions(merged);
}

void DistributedLockPrivate::setFields(quint8 fields, const LockOptions &newOptions)
{
    fieldsSet |= fields;
    setOptions(newOptions);
}

void DistributedLockPrivate::setOptions(const LockOptions &newOptions)
{
    const LockOptions before = std::exchange(options, newOptions);
    const LockOptions after = newOptions;
    const QPointer<DistributedLock> guard(q);
    machine.setAutoRenew(after.autoRenew);
    machine.tick(now());
    run(InsideCall);
    if (guard && before.lease != after.lease)
        Q_EMIT guard->leaseChanged();
    if (guard && before.wait != after.wait)
        Q_EMIT guard->waitChanged();
    if (guard && before.retryInterval != after.retryInterval)
        Q_EMIT guard->retryIntervalChanged();
    if (guard && before.autoRenew != after.autoRenew)
        Q_EMIT guard->autoRenewChanged();
    if (guard && before.fair != after.fair)
        Q_EMIT guard->fairChanged();
}

DistributedLock::State DistributedLockPrivate::state() const
{
    switch (machine.phase()) {
    case LeaseMachine::Acquiring:
        return DistributedLock::Acquiring;
    case LeaseMachine::Held:
        return machine.isAtRisk() ? DistributedLock::AtRisk : DistributedLock::Held;
    case LeaseMachine::Releasing:
        return DistributedLock::Releasing;
    case LeaseMachine::Unlocked:
        break;
    }
    return DistributedLock::Unlocked;
}

bool DistributedLockPrivate::isHeld(LeaseTime time) const
{
    return notified.isHeld() && machine.isHeld(time) && !registry->isInherited();
}

void DistributedLockPrivate::wakeUp(LeaseTime now)
{
    machine.tick(now);
    run(OnEventLoop);
}

void DistributedLockPrivate::engineReady()
{
    machine.engineReady(now());
    run(OnEventLoop);
}

void DistributedLockPrivate::engineFailed(const EngineError &engineError)
{
    machine.engineFailed(engineError, now());
    run(OnEventLoop);
}

void DistributedLockPrivate::wakeableChanged()
{
    machine.wakeableChanged(now());
    run(OnEventLoop);
}

void DistributedLockPrivate::noticed(LockEngine::Notice notice, milliseconds ms)
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

void DistributedLockPrivate::handedOver(const LockEngine::Handover &handover)
{
    machine.handedOver(handover, now());
    run(OnEventLoop);
}

void DistributedLockPrivate::registryDestroyed()
{
    machine.detach(now());
    run(OnEventLoop);
    registry->route(m_sequence, nullptr);
    registry->detach(this);
    registry = nullptr;
    registryGone = true;
    m_sequence = 0;
    if (hasDelivery())
        deliverLater();
}

void DistributedLockPrivate::failAcquire(quint64 id, DistributedLock::Error code, const QString &text)
{
    LeaseMachine::Action action{LeaseMachine::Action::AcquireFailed};
    action.id = id;
    action.error = {code, text, true, false};
    m_outcomes.append({action, m_epoch, properties(), ++m_lastOutcome});
    m_withdrawn.remove(id);
    deliverLater();
}

void DistributedLockPrivate::acquire(quint64 id, bool once, const LockOptions *own)
{
    if (!alive)
        return;
    const LockOptions &wanted = own ? *own : options;
    const auto fail = [this, id](DistributedLock::Error code, const QString &text) { failAcquire(id, code, text); };
    if (registry && registry->isInherited())
        return fail(DistributedLock::ConnectionError, LockRegistryPrivate::inheritedError().text);
    const QPointer<DistributedLock> guard(q);
    if (machine.phase() == LeaseMachine::Held) {
        machine.tick(now()); // it may be over
        run(InsideCall);
        if (!guard)
            return;
    }
    if (machine.phase() != LeaseMachine::Held) {
        EngineError engineError;
        LockEngine *const lockEngine = engine(&engineError);
        if (!guard)
            return;
        // Not before: the first need of the registry brings its defaults.
        if (const QString text = wanted.validationError(); !text.isEmpty())
            return fail(DistributedLock::OptionsError, text);
        if (!lockEngine)
            return fail(engineError.code, engineError.text);
        const bool sameKeys = !name.isEmpty() && name == m_keysName && wanted.keyPrefix == m_keysPrefix;
        if (machine.phase() != LeaseMachine::Acquiring && !sameKeys) {
            QString text;
            const auto keys = LockKeys::make(wanted.keyPrefix, name, &text);
            if (!keys)
                return fail(DistributedLock::NameError, text);
            m_nextKeys = *keys;
            m_keysName = name;
            m_keysPrefix = wanted.keyPrefix;
        }
        if (machine.phase() == LeaseMachine::Unlocked) {
            turn = registry->nextTurn();
            m_reportedError = DistributedLock::NoError;
        }
        lockEngine->open();
    }
    if (m_withdrawn.contains(id))
        return fail(DistributedLock::CancelledError, LeaseMachine::cancelledError().text);
    machine.acquire(id, once || wanted.wait == 0ms, wanted, now());
    run(InsideCall);
}

void DistributedLockPrivate::release(quint64 id)
{
    if (!alive)
        return;
    const bool unannounced = isUnannounced();
    if (unannounced || machine.phase() == LeaseMachine::Unlocked || machine.phase() == LeaseMachine::Releasing)
        qCWarning(lcLock, "Lock %ls: release() of a lock that is not held", qUtf16Printable(Detail::quoted(name)));
    const QPointer<DistributedLock> guard(q);
    if (unannounced)
        cancel();
    if (!guard)
        return;
    machine.release(id, now());
    run(InsideCall);
}

QFuture<LockResult> DistributedLockPrivate::acquireFuture(quint64 id)
{
    QPromise<LockResult> promise;
    promise.start();
    const QFuture<LockResult> future = promise.future();
    if (alive) {
        acquirePromises.emplace(id, std::move(promise));
    } else if (QObject *const dispatcher = QAbstractEventDispatcher::instance()) {
        // From an event: a continuation that tries again on each failure would keep the destructor from ending.
        QMetaObject::invokeMethod(
                dispatcher,
                [shared = std::make_shared<QPromise<LockResult>>(std::move(promise)), result = destroyedResult()] {
                    shared->addResult(result);
                    shared->finish();
                },
                Qt::QueuedConnection);
    }
    return future;
}

void DistributedLockPrivate::withdraw(quint64 id)
{
    if (!alive)
        return;
    if (machine.cancel(id, now())) {
        run(InsideCall);
        return;
    }
    const auto outcome = std::find_if(m_outcomes.begin(), m_outcomes.end(), [id](const Outcome &pending) {
        return pending.action.id == id && pending.action.kind == LeaseMachine::Action::Acquired;
    });
    if (outcome == m_outcomes.end()) {
        m_withdrawn.insert(id); // acquire() or deliver() ends it
        return;
    }
    outcome->action.kind = LeaseMachine::Action::AcquireFailed;
    outcome->action.error = LeaseMachine::cancelledError();
    if (outcome->epoch == m_epoch && machine.phase() == LeaseMachine::Held) {
        machine.release(newRequest(), now());
        run(InsideCall);
    }
}

void DistributedLockPrivate::cancel()
{
    if (!alive)
        return;
    if (isUnannounced()) {
        for (Outcome &outcome : m_outcomes) {
            if (outcome.action.kind == LeaseMachine::Action::Acquired && outcome.epoch == m_epoch) {
                outcome.action.kind = LeaseMachine::Action::AcquireFailed;
                outcome.action.error = LeaseMachine::cancelledError();
            }
        }
        while (machine.phase() == LeaseMachine::Held)
            machine.release(newRequest(), now());
    }
    machine.cancel(now());
    run(InsideCall);
}

template<typename Reply>
LockEngine::Completion DistributedLockPrivate::completion(Reply reply)
{
    return [guard = QPointer<DistributedLock>(q), epoch = m_epoch, reply](const EngineReply &engineReply) {
        if (!guard)
            return;
        DistributedLockPrivate *const d = guard->d.get();
        // A reply to a token that was given up: abandon() has seen to it.
        if (d->m_epoch != epoch)
            return;
        // The server can be used, and an error may be left from an earlier acquisition.
        if (engineReply.status == EngineReply::Taken && !isOrdinary(d->error)) {
            d->m_outcomes.append({LeaseMachine::Action{LeaseMachine::Action::ErrorCleared}, epoch, d->properties(),
                                  ++d->m_lastOutcome});
        }
        (d->machine.*reply)(engineReply, d->now());
        d->run(OnEventLoop);
    };
}

void DistributedLockPrivate::execute(const LeaseMachine::Action &action)
{
    using Action = LeaseMachine::Action;
    EngineError ignored;
    LockEngine *const lockEngine = registry ? registry->engine(&ignored) : nullptr;
    switch (action.kind) {
    case Action::SendAcquire:
        if (action.fresh) {
            ++m_epoch;
            if (m_nextKeys)
                m_keys = *std::exchange(m_nextKeys, std::nullopt);
            registry->route(m_sequence, nullptr);
            m_token = lockEngine->makeToken();
            m_sequence = lockEngine->lastSequence();
            registry->route(m_sequence, this);
        }
        lockEngine->acquire({m_keys, m_token, machine.options().lease, machine.options().repairMissingTtl,
                             action.enqueue, !machine.options().fair, machine.arrival()},
                            completion(&LeaseMachine::acquireReplied));
        break;
    case Action::SendRenew:
        lockEngine->renew(m_keys, m_token, ceilToMs(action.duration), completion(&LeaseMachine::renewReplied));
        break;
    case Action::SendRelease:
        lockEngine->release(m_keys, m_token, machine.options().lease, ceilToMs(action.duration),
                            completion(&LeaseMachine::releaseReplied));
        break;
    case Action::Abandon:
        // The key expires after a lease, but a place in the queue stays for two days (see common.lua).
        if (lockEngine)
            lockEngine->abandon(m_keys, m_token, machine.options().lease, ceilToMs(action.duration), 48h);
        registry->route(m_sequence, nullptr);
        ++m_epoch;
        break;
    case Action::ReleaseDone:
        if (releasePromises.find(action.id) == releasePromises.end())
            break; // nobody asked
        [[fallthrough]];
    default:
        m_outcomes.append({action, m_epoch, {}, ++m_lastOutcome});
        break;
    }
}

bool DistributedLockPrivate::isUnannounced() const
{
    return machine.phase() == LeaseMachine::Held && !notified.isHeld();
}

bool DistributedLockPrivate::isOfMissedHold(const Outcome &outcome) const
{
    return outcome.properties.isHeld() && outcome.epoch != m_announcedEpoch
            && (outcome.epoch != m_epoch || machine.phase() != LeaseMachine::Held);
}

void DistributedLockPrivate::run(Context context)
{
    const qsizetype pending = m_outcomes.size();
    const auto actions = machine.takeActions();
    for (const LeaseMachine::Action &action : actions)
        execute(action);
    // A wake-up that is scheduled earlier stays, and does nothing: that is cheaper than moving it with each acquisition.
    if (registry)
        registry->watchdog()->schedule(this, std::min(machine.nextWakeUp(), wakeUpAt()), machine.holdsLease());
    const Properties now = properties();
    for (qsizetype i = pending; i < m_outcomes.size(); ++i)
        m_outcomes[i].properties = now;
    if (!m_outcomes.isEmpty() || (context == OnEventLoop && hasDelivery()))
        deliverLater();
    if (context == InsideCall && !isUnannounced()) {
        m_notifiedOutcome = m_lastOutcome;
        notifyProperties(now);
    }
}

DistributedLockPrivate::Properties DistributedLockPrivate::properties() const
{
    return {state(), machine.fencingToken(), machine.holdCount(), machine.queuePosition()};
}

void DistributedLockPrivate::notifyProperties(const Properties &now)
{
    const Properties before = std::exchange(notified, now);
    const QPointer<DistributedLock> guard(q); // a slot may change it again, or delete the lock
    if (before.state != now.state)
        Q_EMIT guard->stateChanged();
    if (guard && before.isHeld() != now.isHeld())
        Q_EMIT guard->heldChanged();
    if (guard && before.holdCount != now.holdCount)
        Q_EMIT guard->holdCountChanged();
    if (guard && before.fencingToken != now.fencingToken)
        Q_EMIT guard->fencingTokenChanged();
    if (guard && before.queuePosition != now.queuePosition)
        Q_EMIT guard->queuePositionChanged();
}

void DistributedLockPrivate::deliverLater()
{
    if (deliveryTicket != 0)
        return;
    if (registry) {
        registry->deliverLater(this);
        return;
    }
    deliveryTicket = LockRegistryPrivate::NoTicket;
    QMetaObject::invokeMethod(
            q,
            [this] {
                deliveryTicket = 0;
                deliver();
            },
            Qt::QueuedConnection);
}

void DistributedLockPrivate::deliver()
{
    if (m_outcomes.isEmpty()) {
        notifyProperties(properties());
        return;
    }
    if (isUnannounced() && !machine.isHeld(now())) {
        machine.tick(now()); // other locks' slots took longer than the lease
        run(OnEventLoop);
    }
    deliverLater(); // a slot may run a nested event loop: that one delivers the rest
    const QPointer<DistributedLock> guard(q);
    const quint64 outcome = m_outcomes.first().serial;
    if (outcome > m_notifiedOutcome) {
        m_notifiedOutcome = outcome;
        notifyProperties(isOfMissedHold(m_outcomes.first()) ? properties() : m_outcomes.first().properties);
    }
    if (!guard)
        return;
    if (!m_outcomes.isEmpty() && m_outcomes.first().serial == outcome)
        deliver(m_outcomes.takeFirst());
    if (guard && registry && !hasDelivery())
        registry->cancelDelivery(this);
}

QString DistributedLockPrivate::describe(const QString &text) const
{
    const QString server = registry ? registry->serverText : QString();
    if (server.isEmpty() || text.contains(server))
        return QStringLiteral("Lock %1: %2").arg(Detail::quoted(name), text);
    return QStringLiteral("Lock %1 on %2: %3").arg(Detail::quoted(name), server, text);
}

bool DistributedLockPrivate::storeError(const EngineError &newError)
{
    const QString text = newError ? describe(newError.text) : QString();
    if (error == newError.code && errorString == text)
        return false;
    error = newError.code;
    errorString = text;
    return true;
}

void DistributedLockPrivate::setError(const EngineError &newError)
{
    if (storeError(newError))
        Q_EMIT q->errorChanged();
}

void DistributedLockPrivate::reportFailure(quint64 id, const EngineError &failure)
{
    const QPointer<DistributedLock> guard(q);
    auto promise = acquirePromises.extract(id);
    m_withdrawn.remove(id);
    const LockResult result{failure.code, describe(failure.text), 0};
    qCDebug(lcLock, "%ls", qUtf16Printable(result.errorString));
    const bool changed = storeError(failure);
    Q_EMIT q->acquireFailed(failure.code);
    if (guard && changed)
        Q_EMIT q->errorChanged();
    // While it waited this may have been reported already.
    if (guard && !isOrdinary(failure.code) && failure.code != m_reportedError)
        Q_EMIT q->errorOccurred(failure.code);
    if (promise) {
        promise.mapped().addResult(result);
        promise.mapped().finish();
    }
}

EngineError DistributedLockPrivate::lossError(const LeaseMachine::Action &lost) const
{
    const auto text = [&lost](const QString &clause) {
        return lost.error ? clause + QLatin1String(": ") + lost.error.text : clause;
    };
    switch (lost.reason) {
    case DistributedLock::LeaseExpired:
        return {lost.error ? lost.error.code : DistributedLock::TimeoutError,
                text(QStringLiteral("it was lost: its lease of %1 ms ended before a renewal was confirmed")
                             .arg(machine.options().lease.count()))};
    case DistributedLock::Stolen:
        return {DistributedLock::BusyError,
                QStringLiteral("it was lost: its key holds another client's token; look with LockRegistry::inspect() "
                               "who holds it")};
    case DistributedLock::Deleted:
        return {DistributedLock::ServerError,
                QStringLiteral("it was lost: the server has no such key any more; it was deleted or evicted, or the "
                               "server lost its data")};
    case DistributedLock::ForcedRelease:
        break;
    }
    return {DistributedLock::CancelledError,
            registryGone ? QStringLiteral("it was given up: its registry was destroyed")
                         : QStringLiteral("it was lost: somebody took it away with LockRegistry::forceRelease()")};
}

bool DistributedLockPrivate::isCurrentHold(const Outcome &outcome) const
{
    return outcome.epoch == m_epoch && machine.phase() == LeaseMachine::Held;
}

void DistributedLockPrivate::deliver(const Outcome &outcome)
{
    using Action = LeaseMachine::Action;
    const Action &action = outcome.action;
    const QPointer<DistributedLock> guard(q);
    switch (action.kind) {
    case Action::Acquired: {
        const bool isCurrent = outcome.epoch == m_epoch && machine.isHeld(now());
        if (!isCurrent) {
            reportFailure(action.id, {DistributedLock::CancelledError,
                                      QStringLiteral("the hold ended before the acquisition could be reported")});
            return;
        }
        m_announcedEpoch = outcome.epoch;
        m_reportedError = DistributedLock::NoError;
        auto promise = acquirePromises.extract(action.id);
        const LockResult result{DistributedLock::NoError, QString(), machine.fencingToken()};
        const bool cleared = storeError({});
        Q_EMIT q->acquired();
        if (guard && cleared)
            Q_EMIT q->errorChanged();
        if (guard && m_withdrawn.remove(action.id) && outcome.epoch == m_epoch
            && machine.phase() == LeaseMachine::Held) {
            release(newRequest());
        }
        if (promise) {
            promise.mapped().addResult(result);
            promise.mapped().finish();
        }
        break;
    }
    case Action::AcquireFailed:
        reportFailure(action.id, action.error);
        break;
    case Action::ReleaseDone: {
        auto promise = releasePromises.extract(action.id);
        if (!promise)
            break;
        promise.mapped().addResult(action.success);
        promise.mapped().finish();
        break;
    }
    case Action::Released: {
        if (m_announcedEpoch != outcome.epoch)
            break;
        m_reportedError = DistributedLock::NoError;
        const bool cleared = storeError({});
        Q_EMIT q->released();
        if (guard && cleared)
            Q_EMIT q->errorChanged();
        break;
    }
    case Action::Lost: {
        const EngineError why = lossError(action);
        const QString late = action.duration > 0ns
                ? QStringLiteral(" (noticed %1 ms after its deadline)")
                          .arg(std::chrono::duration_cast<milliseconds>(action.duration).count())
                : QString();
        qCWarning(lcLock, "%ls [%s]%ls", qUtf16Printable(describe(why.text)),
                  QMetaEnum::fromType<DistributedLock::LossReason>().valueToKey(action.reason), qUtf16Printable(late));
        m_reportedError = DistributedLock::NoError;
        if (m_announcedEpoch != outcome.epoch)
            break;
        const bool changed = storeError(why);
        Q_EMIT q->lost(action.reason);
        if (guard && changed)
            Q_EMIT q->errorChanged();
        break;
    }
    case Action::Renewed: {
        if (!isCurrentHold(outcome))
            break;
        m_reportedError = DistributedLock::NoError;
        const bool cleared = storeError({});
        Q_EMIT q->renewed();
        if (guard && cleared)
            Q_EMIT q->errorChanged();
        break;
    }
    case Action::AtRisk:
        if (isCurrentHold(outcome))
            Q_EMIT q->atRisk(toInt(std::chrono::duration_cast<milliseconds>(action.duration)));
        break;
    case Action::ErrorOccurred:
        // The registry warns of an outage, once for all its locks.
        if (!registry || !registry->isOutage())
            qCWarning(lcLock, "%ls", qUtf16Printable(describe(action.error.text)));
        m_reportedError = action.error.code;
        {
            // The registry decides when an outage is over: not with each connection that lasts for a moment.
            const std::pair outage(registry ? registry->outage() : 0, action.error.code);
            const bool known = outage.first != 0 && outage == m_reportedOutage;
            m_reportedOutage = outage;
            setError(action.error);
            if (guard && !known)
                Q_EMIT q->errorOccurred(action.error.code);
        }
        break;
    case Action::ErrorCleared:
        m_reportedError = DistributedLock::NoError;
        if (!isOrdinary(error))
            setError({});
        break;
    case Action::SendAcquire:
    case Action::SendRenew:
    case Action::SendRelease:
    case Action::Abandon:
        Q_UNREACHABLE();
    }
}

/// Logs that \a function was called in the wrong thread, if it was: then it must do nothing.
bool DistributedLockPrivate::isForeignCall(const char *function) const
{
    const QString problem = wrongThread(q, function);
    if (!problem.isEmpty())
        qCWarning(lcLock, "Lock %ls: %ls", qUtf16Printable(Detail::quoted(name)), qUtf16Printable(problem));
    return !problem.isEmpty();
}

/// The text of the error if an acquire cannot end here in the way it should. It is then logged, and the acquire fails
/// in the lock's own thread.
QString DistributedLockPrivate::refuseAcquire(const char *function)
{
    QString problem = wrongThread(q, function);
    if (problem.isEmpty())
        problem = noEventLoop(function);
    if (problem.isEmpty())
        return QString();
    QMetaObject::invokeMethod(
            q, [this, problem] { failAcquire(newRequest(), DistributedLock::OptionsError, problem); },
            Qt::QueuedConnection);
    const QString text = QStringLiteral("Lock %1: %2").arg(Detail::quoted(name), problem);
    qCWarning(lcLock, "%ls", qUtf16Printable(text));
    return text;
}

/// Once for each lock: what looks like seconds.
void DistributedLockPrivate::hintAtMilliseconds()
{
    if (!leaseGivenAsInt || name.isEmpty() || options.lease <= 0ms || options.lease >= 100ms)
        return;
    leaseGivenAsInt = false;
    leaseHintGiven = true;
    qCWarning(lcLock,
              "Lock %ls: its lease is %lld ms, which is very short; lease is given in milliseconds: write %lld for %lld s",
              qUtf16Printable(Detail::quoted(name)), qlonglong(options.lease.count()),
              qlonglong(options.lease.count() * 1000), qlonglong(options.lease.count()));
}

static QFuture<LockResult> finishedFuture(const LockResult &result)
{
    QPromise<LockResult> promise;
    promise.start();
    promise.addResult(result);
    promise.finish();
    return promise.future();
}

DistributedLock::DistributedLock(QObject *parent)
    : DistributedLock(QString(), parent)
{
}

DistributedLock::DistributedLock(const QString &name, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<DistributedLockPrivate>(this))
{
    d->name = name;
}

DistributedLock::DistributedLock(LockRegistry *registry, const QString &name, QObject *parent)
    : DistributedLock(name, parent)
{
    setRegistry(registry);
}

DistributedLock::~DistributedLock()
{
    d->close();
}

QString DistributedLock::name() const
{
    return d->name;
}

void DistributedLock::setName(const QString &name)
{
    if (d->isForeignCall("setName()") || name == d->name)
        return;
    if (state() != Unlocked) {
        const QPointer<DistributedLock> alive(this);
        d->setError({NameError, QStringLiteral("it cannot be renamed to %1 while it is in use; release it first")
                                    .arg(Detail::quoted(name))});
        if (alive)
            Q_EMIT errorOccurred(NameError);
        return;
    }
    d->name = name;
    d->hintAtMilliseconds();
    Q_EMIT nameChanged();
}

LockRegistry *DistributedLock::registry() const
{
    return d->registry ? d->registry->registry() : nullptr;
}

void DistributedLock::setRegistry(LockRegistry *registry)
{
    if (d->isForeignCall("setRegistry()") || (registry == this->registry() && !d->registryGone))
        return;
    if (state() != Unlocked) {
        const QPointer<DistributedLock> alive(this);
        d->setError({OptionsError, QStringLiteral("its registry cannot be changed while it is in use; release it first")});
        if (alive)
            Q_EMIT errorOccurred(OptionsError);
        return;
    }
    Q_ASSERT_X(!registry || registry->thread() == thread(), "DistributedLock::setRegistry",
               "lock and registry must live in the same thread");
    d->setRegistry(registry ? LockRegistryPrivate::get(registry) : nullptr);
}

LockOptions DistributedLock::options() const
{
    return d->options;
}

void DistributedLock::setOptions(const LockOptions &options)
{
    if (d->isForeignCall("setOptions()"))
        return;
    d->setFields(DistributedLockPrivate::AllFields, options);
}

DistributedLock::State DistributedLock::state() const
{
    return d->notified.state;
}

bool DistributedLock::isHeld() const
{
    return d->isHeld(d->now());
}

int DistributedLock::holdCount() const
{
    return d->notified.holdCount;
}

qint64 DistributedLock::fencingToken() const
{
    return d->notified.fencingToken;
}

int DistributedLock::queuePosition() const
{
    return d->notified.queuePosition;
}

int DistributedLock::remainingTime() const
{
    return toInt(std::chrono::duration_cast<milliseconds>(remainingTimeAsDuration()));
}

nanoseconds DistributedLock::remainingTimeAsDuration() const
{
    const LeaseTime now = d->now();
    return d->isHeld(now) ? d->machine.deadline() - now : 0ns;
}

int DistributedLock::lease() const
{
    return toInt(d->options.lease);
}

milliseconds DistributedLock::leaseAsDuration() const
{
    return d->options.lease;
}

void DistributedLock::setLease(int milliseconds)
{
    const QPointer<DistributedLock> alive(this);
    setLease(std::chrono::milliseconds(milliseconds));
    if (!alive || thread() != QThread::currentThread())
        return;
    d->leaseGivenAsInt = !d->leaseHintGiven;
    d->hintAtMilliseconds();
}

void DistributedLock::setLease(milliseconds lease)
{
    if (d->isForeignCall("setLease()"))
        return;
    d->leaseGivenAsInt = false;
    d->setFields(DistributedLockPrivate::Lease, options().withLease(lease));
}

int DistributedLock::wait() const
{
    return toInt(d->options.wait);
}

milliseconds DistributedLock::waitAsDuration() const
{
    return d->options.wait;
}

void DistributedLock::setWait(int milliseconds)
{
    setWait(milliseconds == (std::numeric_limits<int>::max)() ? LockOptions::Forever
                                                             : std::chrono::milliseconds(milliseconds));
}

void DistributedLock::setWait(milliseconds wait)
{
    if (d->isForeignCall("setWait()"))
        return;
    d->setFields(DistributedLockPrivate::Wait, options().withWait(wait));
}

int DistributedLock::retryInterval() const
{
    return toInt(d->options.retryInterval);
}

milliseconds DistributedLock::retryIntervalAsDuration() const
{
    return d->options.retryInterval;
}

void DistributedLock::setRetryInterval(int milliseconds)
{
    setRetryInterval(std::chrono::milliseconds(milliseconds));
}

void DistributedLock::setRetryInterval(milliseconds interval)
{
    if (d->isForeignCall("setRetryInterval()"))
        return;
    d->setFields(DistributedLockPrivate::RetryInterval, options().withRetryInterval(interval));
}

bool DistributedLock::autoRenew() const
{
    return d->options.autoRenew;
}

void DistributedLock::setAutoRenew(bool autoRenew)
{
    if (d->isForeignCall("setAutoRenew()"))
        return;
    d->setFields(DistributedLockPrivate::AutoRenew, options().withAutoRenew(autoRenew));
}

bool DistributedLock::isFair() const
{
    return d->options.fair;
}

void DistributedLock::setFair(bool fair)
{
    if (d->isForeignCall("setFair()"))
        return;
    d->setFields(DistributedLockPrivate::Fair, options().withFair(fair));
}

DistributedLock::Error DistributedLock::error() const
{
    return d->error;
}

QString DistributedLock::errorString() const
{
    return d->errorString;
}

QFuture<LockResult> DistributedLock::acquireAsync()
{
    quint64 id;
    const QFuture<LockResult> future = prepareAcquire(&id);
    startAcquire(id, false);
    return future;
}

QFuture<LockResult> DistributedLock::acquireAsync(const LockOptions &options)
{
    quint64 id;
    const QFuture<LockResult> future = prepareAcquire(&id);
    if (id != 0)
        d->acquire(id, false, &options);
    return future;
}

QFuture<LockResult> DistributedLock::tryAcquireAsync()
{
    quint64 id;
    const QFuture<LockResult> future = prepareAcquire(&id);
    startAcquire(id, true);
    return future;
}

QFuture<LockResult> DistributedLock::prepareAcquire(quint64 *id)
{
    *id = 0;
    if (const QString problem = d->refuseAcquire("acquire()"); !problem.isEmpty())
        return finishedFuture({OptionsError, problem, 0});
    *id = d->newRequest();
    return d->acquireFuture(*id);
}

void DistributedLock::startAcquire(quint64 id, bool once)
{
    if (id != 0)
        d->acquire(id, once);
}

void DistributedLock::withdrawAcquire(quint64 id)
{
    d->withdraw(id);
}

QFuture<bool> DistributedLock::releaseAsync()
{
    QPromise<bool> promise;
    promise.start();
    const QFuture<bool> future = promise.future();
    if (d->isForeignCall("release()") || !d->alive) {
        promise.addResult(false);
        promise.finish();
        return future;
    }
    const quint64 id = d->newRequest();
    d->releasePromises.emplace(id, std::move(promise));
    d->release(id);
    return future;
}

void DistributedLock::acquire()
{
    if (d->refuseAcquire("acquire()").isEmpty())
        d->acquire(d->newRequest(), false);
}

void DistributedLock::tryAcquire()
{
    if (d->refuseAcquire("tryAcquire()").isEmpty())
        d->acquire(d->newRequest(), true);
}

void DistributedLock::release()
{
    if (!d->isForeignCall("release()"))
        d->release(d->newRequest());
}

void DistributedLock::cancel()
{
    if (!d->isForeignCall("cancel()"))
        d->cancel();
}

namespace Detail {

LockReference::LockReference(DistributedLock *lock)
{
    std::shared_ptr<LockLink> &link = lock->d->link;
    if (!link) {
        link = std::make_shared<LockLink>();
        link->lock = lock;
        link->thread = describe(QThread::currentThread());
    }
    m_link = link;
    const std::lock_guard locker(link->mutex);
    link->name = lock->d->name;
}

DistributedLock *LockReference::lockOfThisThread() const
{
    if (!m_link)
        return nullptr;
    const std::lock_guard locker(m_link->mutex);
    // Only this thread can destroy it then.
    return m_link->lock && m_link->lock->thread() == QThread::currentThread() ? m_link->lock : nullptr;
}

/// Does nothing if the lock is destroyed, or is before its event loop comes to it.
template<typename Function>
void LockReference::callInItsThread(Function function) const
{
    if (!m_link)
        return;
    QString misuse;
    {
        const std::lock_guard locker(m_link->mutex);
        DistributedLock *const lock = m_link->lock;
        if (!lock)
            return;
        if (!std::exchange(m_link->misuseReported, true)) {
            misuse = QStringLiteral("Lock %1: a LockGuard or coroutine of it was used or destroyed in the wrong thread: in "
                                    "%2, but the lock lives in %3, whose event loop now gives it back; keep guards and "
                                    "coroutines in the thread of their lock")
                             .arg(quoted(m_link->name), describe(QThread::currentThread()), m_link->thread);
        }
        QMetaObject::invokeMethod(lock, [lock, function = std::move(function)] { function(lock); }, Qt::QueuedConnection);
    }
    if (!misuse.isEmpty())
        qCWarning(lcLock, "%ls", qUtf16Printable(misuse));
}

/// Whether \a lock has that very hold.
static bool isHold(const DistributedLock *lock, qint64 fencingToken)
{
    return fencingToken != 0 && lock->fencingToken() == fencingToken;
}

bool LockReference::isHeld(qint64 fencingToken) const
{
    if (const DistributedLock *const lock = lockOfThisThread())
        return isHold(lock, fencingToken) && lock->isHeld();
    if (fencingToken != 0)
        callInItsThread([](const DistributedLock *) { }); // for the warning
    return false;
}

void LockReference::release(qint64 fencingToken) const
{
    const auto release = [fencingToken](DistributedLock *lock) {
        if (isHold(lock, fencingToken))
            lock->release();
    };
    if (DistributedLock *const lock = lockOfThisThread())
        release(lock);
    else if (fencingToken != 0)
        callInItsThread(release);
}

QFuture<bool> LockReference::releaseAsync(qint64 fencingToken) const
{
    const auto release = [fencingToken](DistributedLock *lock) {
        return isHold(lock, fencingToken) ? lock->releaseAsync() : QtFuture::makeReadyFuture(false);
    };
    if (DistributedLock *const lock = lockOfThisThread())
        return release(lock);
    if (fencingToken == 0)
        return QtFuture::makeReadyFuture(false);

    struct Answer
    {
        Answer() { promise.start(); }
        ~Answer() { finish(false); } // also if nobody comes to it
        void finish(bool released)
        {
            promise.addResult(released); // the first one counts
            promise.finish();
        }
        QPromise<bool> promise;
    };
    const auto answer = std::make_shared<Answer>();
    const QFuture<bool> future = answer->promise.future();
    callInItsThread([release, answer](DistributedLock *lock) {
        release(lock).then([answer](bool released) { answer->finish(released); });
    });
    return future;
}

void LockReference::withdraw(quint64 id, const QFuture<LockResult> &result) const
{
    const auto withdraw = [id, result](DistributedLock *lock) {
        if (!result.isFinished())
            lock->withdrawAcquire(id);
        else if (const qint64 fencingToken = result.result().fencingToken; isHold(lock, fencingToken))
            lock->release();
    };
    if (DistributedLock *const lock = lockOfThisThread())
        withdraw(lock);
    else
        callInItsThread(withdraw);
}

} // namespace Detail
} // namespace QDistLock
