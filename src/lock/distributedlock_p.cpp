// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/distributedlock_p.h"

#include "base/logging.h"
#include "lock/lockregistry_p.h"
#include "lock/threadcheck.h"

#include <QDistLock/semaphore.h>

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qmetaobject.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

namespace {

/// A failure is reported that much later at most, because it is not known yet who holds the lock.
constexpr milliseconds LongestSearch = 250ms;

/// An addition to the text of an error.
QString describeHolder(const LockInfo &lock)
{
    if (!lock.held)
        return u" (it has become free since)"_s;
    QString text = u" (held by "_s;
    if (lock.readerCount > 1)
        text += u"%1 readers, among them "_s.arg(lock.readerCount);
    else if (lock.readerCount == 1)
        text += u"the reader "_s;
    else if (lock.holders.size() > 1)
        text += u"%1 holders of permits, among them "_s.arg(lock.holders.size());
    text += lock.holder.toString();
    if (!lock.holder.connected)
        text += u", which is not connected"_s;
    if (lock.remaining >= 1s)
        text += u", %1 s left"_s.arg(std::chrono::ceil<std::chrono::seconds>(lock.remaining).count());
    else if (lock.remaining >= 0ms)
        text += u", %1 ms left"_s.arg(lock.remaining.count());
    return text + u')';
}

} // namespace

bool isOrdinary(DistributedLock::Error error)
{
    return error == DistributedLock::NoError || error == DistributedLock::BusyError
            || error == DistributedLock::TimeoutError || error == DistributedLock::CancelledError;
}

DistributedLockPrivate::DistributedLockPrivate(DistributedLock *lock)
    : LockDriver(lock)
    , q(lock)
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
        changeRegistry(nullptr);
    }
    acquireFutures.endAll(destroyedResult());
    releaseFutures.endAll();
}

LockResult DistributedLockPrivate::destroyedResult() const
{
    return {DistributedLock::CancelledError, u"Lock %1: the lock object was destroyed"_s.arg(quotedName()), 0};
}

LockEngine *DistributedLockPrivate::engine(EngineError *engineError)
{
    if (registryGone()) {
        *engineError = LockRegistryPrivate::goneError(m_registryGone);
        return nullptr;
    }
    if (!registry) {
        const QPointer<DistributedLock> guard(q);
        const QUrl server = address.server();
        setRegistry(LockRegistryPrivate::get(
                LockRegistry::instance(server.isEmpty() ? LockRegistry::defaultServer() : server)));
        if (!guard || !registry)
            return nullptr;
    }
    return registry->engine(engineError);
}

void DistributedLockPrivate::leaveThread()
{
    if (!registry)
        return;
    leaveRegistry(LockRegistryPrivate::leftBehindReason());
    const QString text =
            u"Lock %1: %2; create it in that thread, or give it a registry of that thread with setRegistry()"_s.arg(
                    quotedName(), m_registryGone);
    qCWarning(lcLock, "%ls", qUtf16Printable(logLine(text)));
}

void DistributedLockPrivate::setRegistry(LockRegistryPrivate *newRegistry)
{
    m_told.clear();
    changeRegistry(newRegistry);
    if (registry && fieldsSet != OptionField::All)
        setOptions(mergedOptions(options, fieldsSet, registry->defaults));
}

void DistributedLockPrivate::setFields(quint8 fields, const LockOptions &newOptions)
{
    fieldsSet |= fields;
    setOptions(newOptions);
}

void DistributedLockPrivate::setOptions(const LockOptions &newOptions)
{
    LockOptions after = newOptions;
    if (fixedMode)
        after.withMode(*fixedMode).withPermits(0).withTake(1);
    const LockOptions before = std::exchange(options, after);
    const QPointer<DistributedLock> guard(q);
    machine.setAutoRenew(after.autoRenew);
    machine.tick(now());
    run(InsideCall);
    emitOptionChanges(guard, before, after);
    if (auto *const semaphore = qobject_cast<Semaphore *>(guard); semaphore && before.permits != after.permits)
        Q_EMIT semaphore->permitsChanged();
    if (auto *const semaphore = qobject_cast<Semaphore *>(guard); semaphore && before.take != after.take)
        Q_EMIT semaphore->takeChanged();
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

void DistributedLockPrivate::failAcquire(quint64 id, DistributedLock::Error code, const QString &text,
                                         const QString &label)
{
    meter.countRefusal(address.name(), label, code);
    LeaseMachine::Outcome outcome{LeaseMachine::Outcome::AcquireFailed};
    outcome.id = id;
    outcome.epoch = machine.epoch();
    outcome.error = EngineError::permanent(code, text);
    append(outcome, properties());
    m_withdrawn.remove(id);
    deliverLater();
}

void DistributedLockPrivate::acquire(quint64 id, bool once, const LockOptions *own, quint64 number)
{
    if (!alive)
        return;
    const LockOptions &wanted = own ? *own : options;
    watchEventLoop(id, once ? 0ms : wanted.wait);
    const auto fail = [this, id, label = wanted.label](DistributedLock::Error code, const QString &text) {
        failAcquire(id, code, text, label);
    };
    if (wanted.permits == 0 && qobject_cast<Semaphore *>(q)) {
        return fail(
                DistributedLock::OptionsError,
                u"permits is 0; it must be from 1 to %1, or LockOptions::ServerPermits, in all options that are given to a Semaphore"_s
                        .arg(LockOptions::MaximumPermits));
    }
    if (registry && registry->isInherited())
        return fail(DistributedLock::ConnectionError, LockRegistryPrivate::inheritedError().text);
    const QPointer<DistributedLock> guard(q);
    if (machine.phase() != LeaseMachine::Unlocked) {
        machine.tick(now()); // the deadline of the hold, or of the wait, may have passed
        run(InsideCall);
        if (!guard)
            return;
    }
    if (partner && get(partner)->isHeld(now())) {
        return fail(
                DistributedLock::UpgradeError,
                options.mode == LockOptions::Shared
                        ? u"the write lock of the same ReadWriteLock is held, and includes reading; call downgrade() to become a reader, or release it first"_s
                        : u"the read lock of the same ReadWriteLock is held; call tryUpgrade() to become the writer, or release it first"_s);
    }
    if (machine.phase() != LeaseMachine::Held) {
        EngineError engineError;
        LockEngine *const lockEngine = engine(&engineError);
        if (!guard)
            return;
        // Checked only now, because engine() may have applied the defaults of a registry.
        if (const QString text = wanted.validationError(); !text.isEmpty())
            return fail(DistributedLock::OptionsError, text);
        if (!lockEngine)
            return fail(engineError.code, engineError.text);
        if (const QString text = lockEngine->unsupported(wanted); !text.isEmpty())
            return fail(DistributedLock::OptionsError, text);
        if (machine.phase() != LeaseMachine::Acquiring) {
            const QString prefix = address.keyPrefix().isNull() ? registry->keyPrefix : address.keyPrefix();
            if (const QString text = setNextLockId(prefix, address.name()); !text.isEmpty())
                return fail(DistributedLock::NameError, text);
        }
        if (machine.phase() == LeaseMachine::Unlocked) {
            turn = registry->nextTurn();
            errorEnded();
            m_told.clear(); // each acquisition hears of the outage that it waits for
        }
        lockEngine->openFor(nextLockId());
    }
    if (m_withdrawn.contains(id))
        return fail(DistributedLock::CancelledError, withText(LeaseMachine::cancelledError()).text);
    if (machine.phase() != LeaseMachine::Acquiring)
        together = number;
    if (machine.phase() == LeaseMachine::Unlocked || machine.phase() == LeaseMachine::Releasing)
        meter.setLock(address.name(), wanted.label);
    machine.acquire(id, once || wanted.wait == 0ms, wanted, now());
    run(InsideCall);
}

void DistributedLockPrivate::takeFromPartner(quint64 id)
{
    if (!alive)
        return;
    watchEventLoop(id, 0ms);
    const auto fail = [this, id, label = options.label](DistributedLock::Error code, const QString &text) {
        failAcquire(id, code, text, label);
    };
    const QPointer<DistributedLock> guard(q);
    if (!registry && partner && get(partner)->registry)
        setRegistry(get(partner)->registry); // a slot of a NOTIFY signal may do anything
    if (!guard)
        return;
    const bool isReader = options.mode == LockOptions::Shared;
    const QString held = isReader ? u"write"_s : u"read"_s;
    if (!partner)
        return fail(DistributedLock::CancelledError, u"the %1 lock of its ReadWriteLock was destroyed"_s.arg(held));
    DistributedLockPrivate *const holder = get(partner);
    if (!holder->isHeld(now()))
        return fail(DistributedLock::UpgradeError,
                    u"the %1 lock is not held, so nothing can be changed; acquire this one"_s.arg(held));
    if (const QString text = options.validationError(); !text.isEmpty())
        return fail(DistributedLock::OptionsError, text);
    if (options.minReplicas > 0) {
        return fail(
                DistributedLock::OptionsError,
                u"minReplicas is %1, and replicas cannot confirm a change between reading and writing; leave it 0, or release the lock and acquire it again"_s
                        .arg(options.minReplicas));
    }
    if (registry != holder->registry)
        return fail(DistributedLock::OptionsError,
                    u"the two locks of its ReadWriteLock have different registries; give both the same one"_s);
    if (machine.phase() == LeaseMachine::Held || machine.phase() == LeaseMachine::Releasing || isTaking()) {
        return fail(DistributedLock::BusyError,
                    u"the last hold of this lock has not ended yet; try again when it is released"_s);
    }
    if (const QString text = registry->engine()->unsupported(options); !text.isEmpty())
        return fail(DistributedLock::OptionsError, text);
    if (m_withdrawn.contains(id))
        return fail(DistributedLock::CancelledError, withText(LeaseMachine::cancelledError()).text);
    meter.setLock(address.name(), options.label);
    takeFrom(holder, id, options, [this, fail, held](const EngineReply &reply) {
        if (reply.error)
            fail(reply.error.code, reply.error.text);
        else if (reply.status == EngineReply::Taken)
            fail(DistributedLock::BusyError,
                 u"there are other readers, and an upgrade never waits for them: release the read lock, and acquire this one"_s);
        else
            fail(DistributedLock::UpgradeError,
                 u"the %1 lock is no longer held on the server; acquire this one"_s.arg(held));
    });
}

void DistributedLockPrivate::release(quint64 id)
{
    if (!alive)
        return;
    const bool unannounced = isUnannounced();
    if (unannounced || machine.phase() == LeaseMachine::Unlocked || machine.phase() == LeaseMachine::Releasing)
        qCWarning(lcLock, "%ls",
                  qUtf16Printable(logLine(u"Lock %1: release() of a lock that is not held"_s.arg(quotedName()))));
    const QPointer<DistributedLock> guard(q);
    if (unannounced)
        cancel();
    if (!guard)
        return;
    machine.release(id, now());
    run(InsideCall);
}

void DistributedLockPrivate::setNamesHolder(bool namesHolder)
{
    m_namesHolder = namesHolder;
    if (namesHolder || !m_isSearching)
        return;
    endSearches();
    deliverLater();
}

void DistributedLockPrivate::giveUp()
{
    cancel();
    while (machine.phase() == LeaseMachine::Held)
        machine.release(newRequest(), now());
    run(InsideCall);
}

QByteArray DistributedLockPrivate::detach()
{
    if (!alive)
        return {};
    const QByteArray token = waiter().token;
    if (!isHeld(now()) || !machine.handOut(now())) {
        qCWarning(lcLock, "%ls",
                  qUtf16Printable(logLine(u"Lock %1: detach() of a lock that is not held"_s.arg(quotedName()))));
        return {};
    }
    run(InsideCall);
    return token;
}

void DistributedLockPrivate::watchEventLoop(quint64 id, milliseconds wait)
{
    if (acquireFutures.contains(id))
        acquireFutures.watchEventLoop(id, q, u"Lock %1: it was acquired"_s.arg(quotedName()), wait, address.name());
}

QFuture<LockResult> DistributedLockPrivate::acquireFuture(quint64 id)
{
    if (!alive)
        return AcquireFutures::ended(destroyedResult());
    return acquireFutures.add(id, q, [this, id] { withdraw(id); });
}

void DistributedLockPrivate::withdraw(quint64 id)
{
    if (!alive)
        return;
    if (machine.cancel(id, now())) {
        run(InsideCall);
        return;
    }
    const auto event = std::find_if(m_events.begin(), m_events.end(), [id](const Event &waiting) {
        return waiting.outcome.id == id && waiting.outcome.kind == LeaseMachine::Outcome::Acquired;
    });
    if (event == m_events.end()) {
        m_withdrawn.insert(id); // acquire() or deliver() ends it
        return;
    }
    event->outcome.kind = LeaseMachine::Outcome::AcquireFailed;
    event->outcome.error = withText(LeaseMachine::cancelledError());
    if (isCurrentHold(*event)) {
        machine.release(newRequest(), now());
        run(InsideCall);
    }
}

void DistributedLockPrivate::cancel()
{
    if (!alive)
        return;
    if (isUnannounced()) {
        for (Event &event : m_events) {
            if (event.outcome.kind == LeaseMachine::Outcome::Acquired && isCurrentHold(event)) {
                event.outcome.kind = LeaseMachine::Outcome::AcquireFailed;
                event.outcome.error = withText(LeaseMachine::cancelledError());
            }
        }
        while (machine.phase() == LeaseMachine::Held)
            machine.release(newRequest(), now());
    }
    machine.cancel(now());
    run(InsideCall);
}

void DistributedLockPrivate::foundTaken()
{
    if (isOrdinary(error))
        return;
    // The error is left from an earlier acquisition: the server can be used again.
    LeaseMachine::Outcome cleared{LeaseMachine::Outcome::ErrorCleared};
    cleared.epoch = machine.epoch();
    append(cleared, properties());
}

void DistributedLockPrivate::append(const LeaseMachine::Outcome &outcome, const Properties &now)
{
    const bool isTaken = outcome.kind == LeaseMachine::Outcome::AcquireFailed
            && (outcome.error.code == DistributedLock::BusyError
                || outcome.error.code == DistributedLock::TimeoutError);
    const bool isOursFree = outcome.error.rule == EngineError::OthersTaken;
    const quint64 search = isTaken && m_namesHolder && !isOursFree ? findHolder(outcome) : 0;
    if (!isTaken)
        endSearches(); // nothing else is delayed
    m_events.append({outcome, now, ++m_lastEvent, search});
    m_events.last().outcome.error = withText(outcome.error);
}

quint64 DistributedLockPrivate::findHolder(const LeaseMachine::Outcome &failure)
{
    if (!m_events.isEmpty() && m_events.last().search != 0 && m_events.last().outcome.epoch == failure.epoch)
        return m_events.last().search;
    LockEngine *const engine = registry ? registry->engine() : nullptr;
    const quint64 search = m_lastSearch + 1;
    const auto found = [this, guard = QPointer<DistributedLock>(q), search](const std::optional<LockInfo> &holder) {
        if (guard && alive)
            searchEnded(search, holder);
    };
    if (!engine || !engine->findHolder(waiter(), found))
        return 0;
    m_lastSearch = search;
    m_isSearching = true;
    if (!m_searchTimer) {
        m_searchTimer = std::make_unique<QTimer>();
        m_searchTimer->setSingleShot(true);
        QObject::connect(m_searchTimer.get(), &QTimer::timeout, q, [this] {
            endSearches();
            deliverLater();
        });
    }
    m_searchTimer->start(LongestSearch);
    return search;
}

void DistributedLockPrivate::searchEnded(quint64 search, const std::optional<LockInfo> &holder)
{
    for (Event &event : m_events) {
        if (event.search != search)
            continue;
        event.search = 0;
        if (holder)
            event.outcome.error.text += describeHolder(*holder);
    }
    deliverLater();
}

void DistributedLockPrivate::endSearches()
{
    // Called for each event that is added: thousands of acquires of one object may end at once.
    if (!std::exchange(m_isSearching, false))
        return;
    for (Event &event : m_events)
        event.search = 0;
}

void DistributedLockPrivate::registryChanged(LockRegistryPrivate *former)
{
    if (former)
        former->cancelDelivery(this);
    endSearches();
    if (alive && hasDelivery())
        deliverLater();
}

void DistributedLockPrivate::eventProcessed(const QList<LeaseMachine::Outcome> &outcomes, Context context)
{
    const Properties now = properties();
    for (const LeaseMachine::Outcome &outcome : outcomes) {
        const bool isAwaited = outcome.kind != LeaseMachine::Outcome::ReleaseDone
                || releaseFutures.contains(outcome.id);
        if (isAwaited)
            append(outcome, now);
    }
    if (!m_events.isEmpty() || (context == OnEventLoop && hasDelivery()))
        deliverLater();
    if (context == InsideCall && !isUnannounced()) {
        m_notifiedEvent = m_lastEvent;
        notifyProperties(now);
    }
}

bool DistributedLockPrivate::isUnannounced() const
{
    return machine.phase() == LeaseMachine::Held && !notified.isHeld();
}

bool DistributedLockPrivate::isOfMissedHold(const Event &event) const
{
    return event.properties.isHeld() && event.outcome.epoch != m_announcedEpoch && !isCurrentHold(event);
}

DistributedLockPrivate::Properties DistributedLockPrivate::properties() const
{
    return {state(),
            machine.fencingToken(),
            machine.permitSlots(),
            machine.holdCount(),
            machine.queuePosition(),
            machine.phase() == LeaseMachine::Held ? machine.epoch() : 0};
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
    if (m_events.isEmpty()) {
        notifyProperties(properties());
        return;
    }
    if (m_events.first().search != 0)
        return; // until it has ended
    if (isUnannounced() && !machine.isHeld(now())) {
        machine.tick(now()); // slots of other locks may have taken longer than the lease
        run(OnEventLoop);
    }
    deliverLater(); // if a slot runs a nested event loop, that loop delivers the other events
    if (isUnwanted(m_events.first()))
        return withdraw(m_events.first().outcome.id);
    const QPointer<DistributedLock> guard(q);
    const quint64 serial = m_events.first().serial;
    if (serial > m_notifiedEvent) {
        m_notifiedEvent = serial;
        notifyProperties(isOfMissedHold(m_events.first()) ? properties() : m_events.first().properties);
    }
    if (!guard)
        return;
    if (!m_events.isEmpty() && m_events.first().serial == serial)
        deliver(m_events.takeFirst());
    if (guard && registry && !hasDelivery())
        registry->cancelDelivery(this);
}

QString DistributedLockPrivate::describe(const QString &text) const
{
    return LockRegistryPrivate::describe(registry, u"Lock "_s + quotedName(), text);
}

QString DistributedLockPrivate::logLine(const QString &text, qint64 fencingToken) const
{
    const LockEngine *const engine = registry ? registry->engine() : nullptr;
    return withFields(text, address.name(), fencingToken, engine ? engine->clientId() : QByteArray());
}

EngineError withText(EngineError error, const LockOptions &used, bool isOneOfSeveral)
{
    switch (error.rule) {
    case EngineError::NoRule:
        break;
    case EngineError::Taken:
        error.text = u"somebody else holds it; try again later, or allow a wait"_s;
        break;
    case EngineError::OthersTaken:
        error.text = u"it was free, but another one of the locks was not"_s;
        break;
    case EngineError::RetriesUsed:
        error.text = u"somebody else still held it after %1 retries; allow more retries"_s.arg(used.maxRetries);
        break;
    case EngineError::WaitIsOver:
        error.text = isOneOfSeveral // the wait is for all locks
                ? u"somebody else held it when the wait was over; wait longer"_s
                : u"somebody else held it for the whole wait of %1 ms; wait longer"_s.arg(used.wait.count());
        break;
    case EngineError::NoReply:
        error.text = u"the server did not answer in time; check that it is reachable and alive"_s;
        break;
    case EngineError::LateReply:
        error.text = u"the server's answer took longer than the lease of %1 ms; use a longer lease"_s.arg(
                used.lease.count());
        break;
    case EngineError::Cancelled:
        error.text = u"the acquire was cancelled"_s;
        break;
    }
    return error;
}

QString subjectOf(const QStringList &names)
{
    const QString first = Detail::quoted(names.first());
    if (names.size() == 1)
        return u"Lock "_s + first;
    if (names.size() == 2)
        return u"Locks %1 and %2"_s.arg(first, Detail::quoted(names.last()));
    return u"Lock %1 and %2 others"_s.arg(first, QString::number(names.size() - 1));
}

void warnOfShortLease(const QString &subject, std::chrono::milliseconds lease, const QString &lock)
{
    const QString text =
            u"%1: the lease is %2 ms, which is very short; it is given in milliseconds: write %3 for %2 s"_s.arg(
                    subject, QString::number(lease.count()), QString::number(lease.count() * 1000));
    qCWarning(lcLock, "%ls", qUtf16Printable(withFields(text, lock)));
}

EngineError DistributedLockPrivate::withText(const EngineError &engineError) const
{
    return QDistLock::withText(engineError, machine.options(), bool(acquireEnded));
}

bool DistributedLockPrivate::storeError(const EngineError &newError)
{
    const QString text = newError ? describe(newError.text) : QString();
    if (error == newError.code && errorString == text)
        return false;
    error = newError.code;
    errorString = text;
    errorRule = newError.rule;
    return true;
}

void DistributedLockPrivate::setError(const EngineError &newError)
{
    if (storeError(newError))
        Q_EMIT q->errorChanged();
}

void DistributedLockPrivate::errorEnded()
{
    m_reportedError = DistributedLock::NoError;
    if (m_toldOutage == 0)
        m_told.clear();
}

void DistributedLockPrivate::reportFailure(quint64 id, const EngineError &failure)
{
    const QPointer<DistributedLock> guard(q);
    AcquireFutures::Pending acquire = acquireFutures.extract(id);
    m_withdrawn.remove(id);
    const LockResult result{failure.code, describe(failure.text), 0};
    qCDebug(lcLock, "%ls", qUtf16Printable(logLine(result.errorString)));
    const bool changed = storeError(failure);
    if (acquireEnded)
        acquireEnded(id, failure);
    Q_EMIT q->acquireFailed(failure.code);
    if (guard && changed)
        Q_EMIT q->errorChanged();
    // It may have been reported while the lock was waiting.
    if (guard && !isOrdinary(failure.code) && failure.code != m_reportedError)
        Q_EMIT q->errorOccurred(failure.code);
    acquire.fail(result);
}

EngineError DistributedLockPrivate::lossError(const LeaseMachine::Outcome &lost) const
{
    const auto text = [&lost](const QString &clause) {
        return lost.error ? clause + QLatin1String(": ") + lost.error.text : clause;
    };
    switch (lost.reason) {
    case DistributedLock::LeaseExpired:
        return EngineError::passing(lost.error ? lost.error.code : DistributedLock::TimeoutError,
                                    text(u"it was lost: its lease of %1 ms ended before a renewal was confirmed"_s.arg(
                                            machine.options().lease.count())));
    case DistributedLock::Stolen:
        return EngineError::passing(
                DistributedLock::BusyError,
                u"it was lost: its key holds another client's token; inspect() and `qdistlock show` say whose"_s);
    case DistributedLock::Deleted:
        return EngineError::passing(
                DistributedLock::ServerError,
                u"it was lost: the server has no such key any more; it was deleted or evicted, or the server lost its data"_s);
    case DistributedLock::ForcedRelease:
        break;
    }
    return EngineError::passing(
            DistributedLock::CancelledError,
            registryGone()
                    ? u"it was given up: "_s + m_registryGone
                    : u"it was lost: somebody took it away by force, with forceRelease() or `qdistlock release --force`"_s);
}

bool DistributedLockPrivate::isCurrentHold(const Event &event) const
{
    return event.outcome.epoch == machine.epoch() && machine.phase() == LeaseMachine::Held;
}

bool DistributedLockPrivate::isUnwanted(const Event &event) const
{
    return event.outcome.kind == LeaseMachine::Outcome::Acquired && acquireFutures.isUnwanted(event.outcome.id);
}

void DistributedLockPrivate::deliver(const Event &event)
{
    using Outcome = LeaseMachine::Outcome;
    const Outcome &outcome = event.outcome;
    const QPointer<DistributedLock> guard(q);
    switch (outcome.kind) {
    case Outcome::Acquired: {
        const bool isCurrent = outcome.epoch == machine.epoch() && machine.isHeld(now());
        if (!isCurrent) {
            reportFailure(outcome.id,
                          EngineError::passing(DistributedLock::CancelledError,
                                               u"the hold ended before the acquisition could be reported"_s));
            return;
        }
        m_announcedEpoch = outcome.epoch;
        errorEnded();
        AcquireFutures::Pending acquire = acquireFutures.extract(outcome.id);
        const LockResult result{DistributedLock::NoError, QString(), machine.fencingToken()};
        const bool cleared = storeError({});
        Q_EMIT q->acquired();
        if (guard && cleared)
            Q_EMIT q->errorChanged();
        if (guard && acquireEnded)
            acquireEnded(outcome.id, {});
        // A future that was cancelled or has ended meanwhile takes no result: nobody would know of the hold.
        const bool isKnown = acquire.succeed(result);
        if (guard && (m_withdrawn.remove(outcome.id) || !isKnown) && isCurrentHold(event))
            release(newRequest());
        acquire.succeeded();
        break;
    }
    case Outcome::AcquireFailed:
        reportFailure(outcome.id, outcome.error);
        break;
    case Outcome::ReleaseDone:
        releaseFutures.end(outcome.id, outcome.success);
        break;
    case Outcome::Released: {
        if (m_announcedEpoch != outcome.epoch)
            break;
        errorEnded();
        m_told.clear(); // an acquire may have waited for this
        const bool cleared = storeError({});
        Q_EMIT q->released();
        if (guard && cleared)
            Q_EMIT q->errorChanged();
        break;
    }
    case Outcome::Lost: {
        const EngineError why = lossError(outcome);
        const QString late = outcome.duration > 0ns ? u" (noticed %1 ms after its deadline)"_s.arg(
                                     std::chrono::duration_cast<milliseconds>(outcome.duration).count())
                                                    : QString();
        const char *const reason = QMetaEnum::fromType<DistributedLock::LossReason>().valueToKey(outcome.reason);
        const QString text = u"%1 [%2]%3"_s.arg(describe(why.text), QLatin1String(reason), late);
        qCWarning(lcLock, "%ls", qUtf16Printable(logLine(text, outcome.fencingToken)));
        errorEnded();
        m_told.clear();
        if (m_announcedEpoch != outcome.epoch)
            break;
        const bool changed = storeError(why);
        Q_EMIT q->lost(outcome.reason);
        if (guard && changed)
            Q_EMIT q->errorChanged();
        break;
    }
    case Outcome::Renewed: {
        if (!isCurrentHold(event))
            break;
        errorEnded();
        const bool cleared = storeError({});
        Q_EMIT q->renewed();
        if (guard && cleared)
            Q_EMIT q->errorChanged();
        break;
    }
    case Outcome::AtRisk:
        if (isCurrentHold(event))
            Q_EMIT q->atRisk(toInt(std::chrono::duration_cast<milliseconds>(outcome.duration)));
        break;
    case Outcome::ErrorOccurred:
        m_reportedError = outcome.error.code;
        {
            // The registry decides when an outage is over: a connection that lasts only for a moment does not end it.
            // What it has logged, it has logged for all its locks.
            const auto *const outage = registry ? registry->outageOf(presentLockId(), outcome.error) : nullptr;
            const bool isLogged = outage && outage->logged.contains(outcome.error.code);
            const quint64 number = outage ? outage->number : 0;
            if (std::exchange(m_toldOutage, number) != number)
                m_told.clear();
            const bool isTold = m_told.contains(outcome.error.code);
            m_told.insert(outcome.error.code);
            if (!isTold && !isLogged)
                qCWarning(lcLock, "%ls", qUtf16Printable(logLine(describe(outcome.error.text))));
            setError(outcome.error);
            if (guard && !isTold)
                Q_EMIT q->errorOccurred(outcome.error.code);
        }
        break;
    case Outcome::ErrorCleared:
        errorEnded();
        if (!isOrdinary(error))
            setError({});
        break;
    }
}

/// True, with a warning in the log, if \a function was called in the wrong thread. The function must then do nothing.
bool DistributedLockPrivate::isForeignCall(const char *function) const
{
    const QString problem = wrongThread(q, function);
    if (!problem.isEmpty()) {
        const QString text = u"Lock %1: %2"_s.arg(quotedName(), problem);
        qCWarning(lcLock, "%ls", qUtf16Printable(withFields(text, address.name())));
    }
    return !problem.isEmpty();
}

/// Returns an error text if \a function was called in the wrong thread or without an event loop. The text is also
/// logged, and acquireFailed() follows in the lock's own thread.
QString DistributedLockPrivate::refuseAcquire(const char *function)
{
    const QString problem = wrongCall(q, function);
    if (problem.isEmpty())
        return QString();
    QMetaObject::invokeMethod(
            q, [this, problem] { failAcquire(newRequest(), DistributedLock::OptionsError, problem, options.label); },
            Qt::QueuedConnection);
    const QString text = u"Lock %1: %2"_s.arg(quotedName(), problem);
    qCWarning(lcLock, "%ls", qUtf16Printable(withFields(text, address.name())));
    return text;
}

/// Warns, once for each lock, of a lease that was probably meant in seconds.
void DistributedLockPrivate::hintAtMilliseconds()
{
    if (!leaseGivenAsInt || address.name().isEmpty() || !isSuspiciouslyShort(options.lease))
        return;
    leaseGivenAsInt = false;
    leaseHintGiven = true;
    warnOfShortLease(u"Lock %1"_s.arg(quotedName()), options.lease, address.name());
}

} // namespace QDistLock
