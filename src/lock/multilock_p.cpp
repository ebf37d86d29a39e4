// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/multilock_p.h"

#include "base/holdkind.h"
#include "base/logging.h"
#include "base/readyfuture.h"
#include "engine/enginefactory.h"
#include "lock/threadcheck.h"
#include "metrics/lockmeter.h"

#include <QDistLock/impl/namebytes.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

void MultiLockPrivate::close()
{
    m_isAlive = false;
    m_step = Idle;
    for (const Request &request : std::exchange(m_requests, {}))
        countFailure(request.options, DistributedLock::CancelledError);
    m_events.clear();
    notified = {};
    for (const Member &member : std::exchange(members, {}))
        delete member.lock;
    m_futures.endAll({DistributedLock::CancelledError, u"The MultiLock was destroyed"_s, 0});
    m_releases.endAll();
}

// Names, registry and options

bool MultiLockPrivate::isForeignCall(const char *function) const
{
    const QString problem = wrongThread(q, function);
    if (!problem.isEmpty())
        qCWarning(lcLock, "MultiLock: %ls", qUtf16Printable(problem));
    return !problem.isEmpty();
}

/// True, after an error, while the locks are in use.
bool MultiLockPrivate::refuseChange()
{
    if (m_step == Idle && notified.state == DistributedLock::Unlocked)
        return false;
    const QPointer<MultiLock> guard(q);
    if (storeError(DistributedLock::OptionsError,
                   describe(u"names and registry cannot be changed while they are in use; release them first"_s)))
        Q_EMIT q->errorChanged();
    if (guard)
        Q_EMIT q->errorOccurred(DistributedLock::OptionsError);
    return true;
}

void MultiLockPrivate::setNames(const QStringList &names)
{
    for (const Member &member : std::exchange(members, {}))
        delete member.lock;
    for (const QString &name : names)
        add(name, std::nullopt);
}

void MultiLockPrivate::add(const QString &name, std::optional<LockOptions::Mode> mode)
{
    const auto place = std::find_if(members.begin(), members.end(), [&name](const Member &member) {
        return !Detail::isAcquiredBefore(member.name, name);
    });
    if (place != members.end() && place->name == name) {
        if (mode == LockOptions::Exclusive)
            place->mode = mode;
        return;
    }
    makeLock(&*members.insert(place, Member{name, mode}));
}

void MultiLockPrivate::makeLock(Member *member)
{
    auto *const lock = new DistributedLock(LockAddress(member->name).withKeyPrefix(keyPrefix), q);
    delete std::exchange(member->lock, lock);
    if (m_registry)
        lock->setRegistry(m_registry);
    DistributedLockPrivate::get(lock)->meter.setIsOneOfSeveral();
    DistributedLockPrivate::get(lock)->acquireEnded = [this, lock](quint64 id, const EngineError &reason) {
        memberEnded(lock, id, reason);
    };
    QObject::connect(lock, &DistributedLock::lost, q,
                     [this, lock](DistributedLock::LossReason reason) { memberReleased(lock, reason); });
    QObject::connect(lock, &DistributedLock::released, q, [this, lock] { memberReleased(lock, std::nullopt); });
    QObject::connect(lock, &DistributedLock::renewed, q, [this, lock] { memberRenewed(lock); });
    QObject::connect(lock, &DistributedLock::atRisk, q, [this] {
        const auto atRisk = std::count_if(members.cbegin(), members.cend(), [](const Member &other) {
            return other.lock->state() == DistributedLock::AtRisk;
        });
        if (m_step == Holding && atRisk == 1) // the first one
            append({Event::AtRisk});
        changed(OnEventLoop);
    });
    QObject::connect(lock, &DistributedLock::errorOccurred, q, [this, lock](DistributedLock::Error code) {
        if (m_step != Idle) { // otherwise it is being given up
            Event event{Event::ErrorOccurred};
            event.error = code;
            event.text = lock->errorString();
            append(event);
        }
        changed(OnEventLoop);
    });
    QObject::connect(lock, &DistributedLock::errorChanged, q, [this] {
        const bool areWell = std::all_of(members.cbegin(), members.cend(),
                                         [](const Member &other) { return isOrdinary(other.lock->error()); });
        if (m_step != Idle && areWell)
            append({Event::ErrorCleared});
        changed(OnEventLoop);
    });
}

void MultiLockPrivate::setRegistry(LockRegistry *registry)
{
    m_registry = registry;
    m_registryGone = registry ? LockRegistryPrivate::destroyedReason() : QString();
    for (Member &member : members)
        makeLock(&member); // the former one may not have been released yet
    if (registry && m_fieldsSet != OptionField::All)
        setOptions(mergedOptions(m_options, m_fieldsSet, LockRegistryPrivate::get(registry)->defaults));
}

/// The MultiLock is about to move to another thread.
void MultiLockPrivate::leaveThread()
{
    if (!m_registry)
        return;
    m_registry = nullptr;
    m_registryGone = LockRegistryPrivate::leftBehindReason();
    if (members.empty())
        qCWarning(lcLock, "MultiLock: %ls", qUtf16Printable(m_registryGone)); // otherwise each of the locks says so
}

void MultiLockPrivate::setFields(quint8 fields, const LockOptions &options)
{
    m_fieldsSet |= fields;
    setOptions(options);
}

void MultiLockPrivate::setOptions(const LockOptions &options)
{
    const QPointer<MultiLock> guard(q);
    const LockOptions before = std::exchange(m_options, options);
    const LockOptions after = options;
    if (m_step == Holding) {
        for (const Member &member : members)
            member.lock->setAutoRenew(after.autoRenew);
        changed(InsideCall);
    }
    emitOptionChanges(guard, before, after);
}

/// Of an acquire of one of the locks. Until all are held it is renewed, and released as soon as it is not needed.
LockOptions MultiLockPrivate::optionsOf(const Member &member, const LockOptions &options) const
{
    return LockOptions(options).withMode(member.mode.value_or(options.mode)).withAutoRenew(true).withMinHold(0ms);
}

size_t MultiLockPrivate::indexOf(const DistributedLock *lock) const
{
    const auto member = std::find_if(members.cbegin(), members.cend(),
                                     [lock](const Member &other) { return other.lock == lock; });
    return size_t(member - members.cbegin());
}

bool MultiLockPrivate::areHeld() const
{
    return m_step == Holding && std::all_of(members.cbegin(), members.cend(), [](const Member &member) {
               return member.lock->isHeld();
           });
}

QString MultiLockPrivate::subject() const
{
    return members.empty() ? u"MultiLock"_s : subjectOf(q->names());
}

/// \a text after the names of the locks and of the server.
QString MultiLockPrivate::describe(const QString &text) const
{
    return LockRegistryPrivate::describe(m_registry ? LockRegistryPrivate::get(m_registry) : nullptr, subject(), text);
}

// Acquire

QString MultiLockPrivate::refuseAcquire(const char *function)
{
    const QString problem = wrongCall(q, function);
    if (problem.isEmpty())
        return QString();
    const QString text = u"MultiLock: "_s + problem; // another thread must not read the names
    qCWarning(lcLock, "%ls", qUtf16Printable(text));
    QMetaObject::invokeMethod(
            q,
            [this, problem] {
                fail(newRequest(), m_options, EngineError::permanent(DistributedLock::OptionsError, problem));
                changed(OnEventLoop);
            },
            Qt::QueuedConnection);
    return text;
}

QFuture<LockResult> MultiLockPrivate::acquireAsync(bool once, const LockOptions *own)
{
    const QString problem = refuseAcquire(once ? "tryAcquire()" : "acquire()");
    if (!problem.isEmpty())
        return readyFuture(LockResult{DistributedLock::OptionsError, problem, 0});
    if (!m_isAlive)
        return AcquireFutures::ended({DistributedLock::CancelledError, u"The MultiLock was destroyed"_s, 0});
    const quint64 id = newRequest();
    const QFuture<LockResult> future = m_futures.add(id, q, [this, id] { withdraw(id); });
    acquire(id, once, own);
    return future;
}

/// The registry that the application has set, otherwise the default one; all locks get it.
EngineError MultiLockPrivate::findRegistry(LockEngine **engine)
{
    const QPointer<MultiLock> guard(q);
    if (!m_registry && m_registryGone.isEmpty())
        setRegistry(LockRegistry::instance()); // a slot of a NOTIFY signal may do anything
    if (!guard)
        return LeaseMachine::cancelledError();
    if (!m_registry)
        return LockRegistryPrivate::goneError(m_registryGone);
    LockRegistryPrivate *const registry = LockRegistryPrivate::get(m_registry);
    if (registry->isInherited())
        return LockRegistryPrivate::inheritedError();
    EngineError reason;
    *engine = registry->engine(&reason);
    return *engine ? EngineError() : reason;
}

/// Why the locks cannot be acquired with \a options; no error if they can.
EngineError MultiLockPrivate::whyRefused(const LockOptions &options, LockEngine *engine) const
{
    const auto refused = [](const QString &text) {
        return EngineError::permanent(DistributedLock::OptionsError, text);
    };
    if (members.size() > size_t(MultiLock::MaximumNames))
        return refused(u"a MultiLock has at most %1 names"_s.arg(MultiLock::MaximumNames));
    const QString prefix = keyPrefix.isNull() ? LockRegistryPrivate::get(m_registry)->keyPrefix : keyPrefix;
    QList<LockId> ids;
    QString text;
    for (const Member &member : members) {
        const LockOptions own = optionsOf(member, options).withMinHold(options.minHold);
        if (text = own.validationError(); !text.isEmpty())
            return refused(text);
        if (text = engine->unsupported(own); !text.isEmpty())
            return refused(text);
        const auto id = EngineFactory::makeLockId(prefix, member.name, &text);
        if (!id) {
            return EngineError::permanent(DistributedLock::NameError,
                                          u"the name %1: %2"_s.arg(Detail::quoted(member.name), text));
        }
        ids.append(*id);
    }
    text = engine->whyNotTogether(ids);
    return text.isEmpty() ? EngineError() : refused(text);
}

/// Of the acquisition that a further acquire joins; null if it begins one.
const LockOptions *MultiLockPrivate::presentOptions() const
{
    if (m_step == Together || m_step == InOrder || m_step == Holding)
        return &m_used;
    return m_requests.empty() ? nullptr : &m_requests.front().options;
}

/// The first lock that would wait for itself if it were held with \a present and acquired with \a options.
const MultiLockPrivate::Member *MultiLockPrivate::notCovered(const LockOptions &present,
                                                             const LockOptions &options) const
{
    const auto member = std::find_if(members.cbegin(), members.cend(), [&](const Member &other) {
        return !covers(optionsOf(other, present), optionsOf(other, options));
    });
    return member == members.cend() ? nullptr : &*member;
}

void MultiLockPrivate::acquire(quint64 id, bool once, const LockOptions *own)
{
    if (!m_isAlive)
        return;
    const QPointer<MultiLock> guard(q);
    addRequest(id, once, own);
    if (guard)
        changed(InsideCall);
}

void MultiLockPrivate::addRequest(quint64 id, bool once, const LockOptions *own)
{
    const QPointer<MultiLock> guard(q);
    LockEngine *engine = nullptr;
    const EngineError unusable = findRegistry(&engine);
    if (!guard)
        return;
    const LockOptions wanted = own ? *own : m_options;
    if (members.empty()) {
        return fail(id, wanted,
                    EngineError::permanent(DistributedLock::NameError,
                                           u"it has no names; give it some with setNames() or add()"_s));
    }
    if (m_step == Idle)
        m_reported.clear(); // an outage is reported again to each acquisition that waits for it
    if (m_futures.contains(id))
        m_futures.watchEventLoop(id, q, describe(u"it was acquired"_s), once ? 0ms : wanted.wait);
    if (unusable)
        return fail(id, wanted, unusable);
    if (wanted.permits != 0) {
        return fail(id, wanted,
                    EngineError::permanent(DistributedLock::OptionsError,
                                           u"a MultiLock takes no permits; leave `permits` 0, or use a Semaphore"_s));
    }
    if (const LockOptions *const present = presentOptions()) {
        if (const Member *const member = notCovered(*present, wanted)) {
            return fail(id, wanted,
                        LeaseMachine::upgradeError(optionsOf(*member, *present), optionsOf(*member, wanted)), member);
        }
    }
    if (areHeld()) {
        ++m_levels;
        Event event{Event::Acquired};
        event.id = id;
        append(event);
        return;
    }
    if (const EngineError refused = whyRefused(wanted, engine))
        return fail(id, wanted, refused);
    once |= wanted.wait == 0ms;
    m_requests.push_back({id, wanted, LeaseMachine::endOfWait(wanted.wait, once, now()), once});
    if (m_step == Idle) {
        proceed();
    } else if (m_step == InOrder) {
        ask(&m_requests.back());
    } else if (m_step == Together && !once) {
        for (const Member &member : members)
            of(member)->setNamesHolder(false); // its wait may be short
    }
}

/// Begins to acquire the locks for the present requests.
void MultiLockPrivate::proceed()
{
    m_used = m_requests.front().options;
    m_next = 0;
    m_refusal = {};
    // Without a registry, the locks say so.
    const LockEngine *const engine = m_registry ? LockRegistryPrivate::get(m_registry)->engine() : nullptr;
    // Locks that are still being released would be sent later than the others.
    const bool areUnlocked = std::all_of(members.cbegin(), members.cend(), [](const Member &member) {
        return of(member)->machine.phase() == LeaseMachine::Unlocked;
    });
    if (engine && engine->canAcquireTogether() && members.size() > 1 && areUnlocked) {
        askAll();
    } else {
        m_step = InOrder;
        askInOrder();
    }
}

void MultiLockPrivate::askAll()
{
    m_step = Together;
    const bool mayWait = std::any_of(m_requests.cbegin(), m_requests.cend(), [](const Request &r) { return !r.once; });
    const quint64 number = LockRegistryPrivate::get(m_registry)->nextTurn();
    for (Member &member : members) {
        DistributedLockPrivate *const d = of(member);
        const LockOptions own = optionsOf(member, m_used);
        d->setNamesHolder(!mayWait); // otherwise this is no failure
        member.request = d->newRequest();
        d->acquire(member.request, true, &own, number);
    }
}

void MultiLockPrivate::askInOrder()
{
    for (Request &request : m_requests)
        ask(&request);
}

void MultiLockPrivate::ask(Request *request)
{
    const Member &member = members[m_next];
    DistributedLockPrivate *const d = of(member);
    LockOptions own = optionsOf(member, m_used);
    own.wait = request->deadline == NeverTime
            ? LockOptions::Forever
            : std::max(1ms, std::chrono::ceil<milliseconds>(request->deadline - now()));
    request->atMember = d->newRequest();
    d->acquire(request->atMember, request->once, &own);
}

void MultiLockPrivate::memberEnded(DistributedLock *lock, quint64 id, const EngineError &reason)
{
    const size_t index = indexOf(lock);
    if (m_step == Together && members[index].request == id) {
        members[index].request = 0;
        if (reason && (!m_refusal || m_refusal.rule == EngineError::OthersTaken)) {
            m_refusal = reason;
            m_refused = index;
        }
        const bool isLast = std::all_of(members.cbegin(), members.cend(),
                                        [](const Member &member) { return member.request == 0; });
        if (isLast)
            allEnded();
    } else if (m_step == InOrder && index == m_next) {
        const auto request = std::find_if(m_requests.begin(), m_requests.end(),
                                          [id](const Request &pending) { return pending.atMember == id; });
        if (request == m_requests.end())
            return;
        if (reason) {
            // The server did answer, when it was asked for all.
            const bool wasTaken = reason.rule == EngineError::NoReply && m_refusal.code == DistributedLock::BusyError;
            if (wasTaken)
                fail(request->id, request->options,
                     EngineError::byRule(DistributedLock::TimeoutError, EngineError::WaitIsOver), &members[m_refused]);
            else
                fail(request->id, request->options, reason, &members[index]);
            m_requests.erase(request);
            giveUpIfUnwanted();
        } else if (++m_next == members.size()) {
            gotAll();
        } else {
            askInOrder();
        }
    }
    changed(OnEventLoop);
}

/// In the step Together.
void MultiLockPrivate::allEnded()
{
    if (!m_refusal)
        return gotAll();
    giveUpAll(); // some may be held nevertheless, and others must not be waited for while they are
    for (const Request &request : m_requests) {
        if (request.once)
            fail(request.id, request.options, m_refusal, &members[m_refused]);
    }
    m_requests.erase(std::remove_if(m_requests.begin(), m_requests.end(), [](const Request &r) { return r.once; }),
                     m_requests.end());
    m_step = m_requests.empty() ? Idle : InOrder;
    askInOrder();
}

void MultiLockPrivate::gotAll()
{
    const bool areStillHeld = std::all_of(members.cbegin(), members.cend(),
                                          [this](const Member &member) { return holds(member); });
    if (!areStillHeld) {
        giveUpAll();
        m_next = 0;
        m_step = InOrder;
        askInOrder();
        return;
    }
    m_step = Holding;
    ++m_hold;
    m_levels = int(m_requests.size());
    for (Member &member : members) {
        member.isRenewed = false;
        of(member)->machine.setMinHold(m_used.minHold, now());
        member.lock->setAutoRenew(m_options.autoRenew);
    }
    for (const Request &request : std::exchange(m_requests, {})) {
        Event event{Event::Acquired};
        event.id = request.id;
        append(event);
    }
}

// The end of a hold or of an acquire

QFuture<bool> MultiLockPrivate::releaseAsync()
{
    if (isForeignCall("release()") || !m_isAlive)
        return readyFuture(false);
    const quint64 id = newRequest();
    const QFuture<bool> future = m_releases.add(id);
    release(id);
    return future;
}

void MultiLockPrivate::release(quint64 id)
{
    if (!m_isAlive)
        return;
    Event done{Event::ReleaseDone};
    done.id = id;
    if (m_step != Holding || isUnannounced()) {
        qCWarning(lcLock, "%ls", qUtf16Printable(describe(u"release() of locks that are not held"_s)));
        append(done);
        return cancel();
    }
    if (m_levels > 1) {
        --m_levels;
        done.success = true;
        append(done);
    } else {
        m_step = Releasing;
        m_release = id;
        m_loss.reset();
        m_unreleased = members.size();
        giveUpAll();
    }
    changed(InsideCall);
}

void MultiLockPrivate::cancel()
{
    if (!m_isAlive)
        return;
    if (isUnannounced()) {
        for (Event &event : m_events) {
            if (event.kind == Event::Acquired && isCurrentHold(event)) {
                makeCancelled(&event);
            }
        }
        endHold();
    }
    for (const Request &request : std::exchange(m_requests, {}))
        fail(request.id, request.options, LeaseMachine::cancelledError());
    giveUpIfUnwanted();
    changed(InsideCall);
}

/// The future of an acquire was cancelled.
void MultiLockPrivate::withdraw(quint64 id)
{
    const auto request = std::find_if(m_requests.begin(), m_requests.end(),
                                      [id](const Request &pending) { return pending.id == id; });
    if (request == m_requests.end())
        return; // deliver() ends it
    if (m_step == InOrder)
        of(members[m_next])->withdraw(request->atMember);
    fail(id, request->options, LeaseMachine::cancelledError());
    m_requests.erase(request);
    giveUpIfUnwanted();
    changed(OnEventLoop);
}

void MultiLockPrivate::expireRequests()
{
    if (m_requests.empty())
        return;
    const LeaseTime time = now() + LeaseMachine::TimerSlack;
    const auto isOver = [this, time](const Request &request) {
        return request.deadline <= time && (request.once || m_step != InOrder);
    };
    const EngineError late = EngineError::byRule(DistributedLock::ConnectionError, EngineError::NoReply);
    for (const Request &request : m_requests) {
        if (isOver(request))
            fail(request.id, request.options, late);
    }
    m_requests.erase(std::remove_if(m_requests.begin(), m_requests.end(), isOver), m_requests.end());
    giveUpIfUnwanted();
    changed(OnEventLoop);
}

/// In the step InOrder, the lock that is waited for ends requests that may wait.
void MultiLockPrivate::watchDeadlines()
{
    LeaseTime first = NeverTime;
    for (const Request &request : m_requests) {
        if (request.once || m_step != InOrder)
            first = std::min(first, request.deadline);
    }
    if (first == NeverTime)
        m_expiry.stop();
    else
        m_expiry.start(std::clamp(std::chrono::ceil<milliseconds>(first - now()), 0ms, milliseconds(24h)));
}

void MultiLockPrivate::giveUpIfUnwanted()
{
    if (!m_requests.empty() || (m_step != Together && m_step != InOrder))
        return;
    m_step = Idle;
    giveUpAll();
}

void MultiLockPrivate::giveUpAll()
{
    // Writers and readers share no command, but neighbours of one kind do.
    for (const LockOptions::Mode mode : {LockOptions::Exclusive, LockOptions::Shared}) {
        for (Member &member : members) {
            if (member.mode.value_or(m_used.mode) != mode)
                continue;
            member.request = 0;
            of(member)->setNamesHolder(true);
            of(member)->giveUp();
        }
    }
}

/// Not by release().
void MultiLockPrivate::endHold()
{
    m_step = Idle;
    m_levels = 0;
    if (deadlineChanged)
        deadlineChanged(); // before anybody else can acquire one of the locks
    giveUpAll();
    if (!m_requests.empty())
        proceed();
}

/// One of the locks was released, or lost.
void MultiLockPrivate::memberReleased(DistributedLock *lock, std::optional<DistributedLock::LossReason> lost)
{
    const size_t index = indexOf(lock);
    Event loss{Event::Lost};
    loss.hold = m_hold;
    if (lost) {
        loss.reason = *lost;
        loss.name = lock->name();
        loss.error = lock->error();
        loss.text = lock->errorString();
    }
    const bool isLost = lost && !holds(members[index]); // otherwise an earlier hold was
    switch (m_step) {
    case Idle:
    case Together: // gotAll() looks whether it is held
        break;
    case InOrder:
        if (isLost && index < m_next) {
            giveUpAll();
            m_next = 0;
            askInOrder();
        }
        break;
    case Holding:
        if (isLost) {
            endHold();
            append(loss);
        }
        break;
    case Releasing:
        if (lost && !m_loss)
            m_loss = loss;
        if (--m_unreleased > 0)
            break;
        m_step = Idle;
        m_levels = 0;
        if (!m_requests.empty())
            proceed();
        Event end = m_loss.value_or(Event{Event::Released});
        end.hold = m_hold;
        append(end);
        Event done{Event::ReleaseDone};
        done.id = m_release;
        done.success = !m_loss;
        append(done);
        break;
    }
    changed(OnEventLoop);
}

void MultiLockPrivate::memberRenewed(DistributedLock *lock)
{
    members[indexOf(lock)].isRenewed = true;
    if (deadlineChanged)
        deadlineChanged();
    const bool areRenewed = std::all_of(members.cbegin(), members.cend(),
                                        [](const Member &member) { return member.isRenewed; });
    if (areRenewed) {
        for (Member &member : members)
            member.isRenewed = false;
        if (m_step == Holding)
            append({Event::Renewed});
    }
    changed(OnEventLoop);
}

// Events, and the signals for them

/// \a options: those of the acquire.
void MultiLockPrivate::fail(quint64 id, const LockOptions &options, const EngineError &reason, const Member *member)
{
    const EngineError why = reason.text.isEmpty() ? withText(reason) : reason;
    countFailure(options, why.code, member);
    Event event{Event::AcquireFailed};
    event.id = id;
    event.error = why.code;
    event.text = member ? of(*member)->describe(why.text) : describe(why.text);
    append(event);
}

/// Counts a failed acquire once, for \a member or the first of the locks.
void MultiLockPrivate::countFailure(const LockOptions &options, DistributedLock::Error code, const Member *member) const
{
    if (!members.empty())
        LockMeter::countFailure(member ? member->name : members.front().name, options.label, code);
}

/// \a event, which reports an acquisition, will report that the acquire was cancelled.
void MultiLockPrivate::makeCancelled(Event *event) const
{
    const EngineError cancelled = withText(LeaseMachine::cancelledError());
    event->kind = Event::AcquireFailed;
    event->error = cancelled.code;
    event->text = describe(cancelled.text);
}

void MultiLockPrivate::append(Event event)
{
    if (event.hold == 0)
        event.hold = m_hold;
    event.serial = ++m_lastEvent;
    m_events.push_back(event);
}

/// Must be called after everything that may have changed something. InsideCall: a slot may delete the MultiLock.
void MultiLockPrivate::changed(Context context)
{
    watchDeadlines();
    const Properties now = properties();
    for (Event &event : m_events) {
        if (event.serial > m_stampedEvent)
            event.properties = now;
    }
    m_stampedEvent = m_lastEvent;
    if (!m_events.empty() || !(notified == now))
        m_delivery.post();
    if (context == InsideCall && !isUnannounced()) {
        m_notifiedEvent = m_lastEvent;
        notify(now);
    }
}

MultiLockPrivate::Properties MultiLockPrivate::properties() const
{
    switch (m_step) {
    case Idle:
        break;
    case Together:
    case InOrder:
        return {DistributedLock::Acquiring};
    case Holding: {
        const bool isAtRisk = std::any_of(members.cbegin(), members.cend(), [](const Member &member) {
            return member.lock->state() == DistributedLock::AtRisk;
        });
        return {isAtRisk ? DistributedLock::AtRisk : DistributedLock::Held, m_levels, m_hold};
    }
    case Releasing:
        return {DistributedLock::Releasing};
    }
    return {};
}

bool MultiLockPrivate::isOfMissedHold(const Event &event) const
{
    return event.properties.isHeld() && event.hold != m_announcedHold && !isCurrentHold(event);
}

void MultiLockPrivate::notify(const Properties &now)
{
    const Properties before = std::exchange(notified, now);
    const QPointer<MultiLock> guard(q); // a slot may change it again, or delete it
    if (before.state != now.state)
        Q_EMIT guard->stateChanged();
    if (guard && before.isHeld() != now.isHeld())
        Q_EMIT guard->heldChanged();
    if (guard && before.holdCount != now.holdCount)
        Q_EMIT guard->holdCountChanged();
}

void MultiLockPrivate::deliver()
{
    if (!m_isAlive)
        return;
    if (m_events.empty())
        return notify(properties());
    m_delivery.post(); // if a slot runs a nested event loop, that loop delivers the other events
    const Event first = m_events.front();
    if (first.kind == Event::Acquired && m_futures.isUnwanted(first.id)) {
        makeCancelled(&m_events.front());
        if (!isCurrentHold(first))
            return;
        if (m_levels > 1)
            --m_levels;
        else if (isUnannounced())
            endHold();
        else
            return release(newRequest());
        return changed(OnEventLoop);
    }
    if (first.kind == Event::Acquired && isCurrentHold(first) && isUnannounced() && !areHeld()) {
        endHold(); // slots may have taken longer than the lease
        changed(OnEventLoop);
    }
    const QPointer<MultiLock> guard(q);
    if (first.serial > m_notifiedEvent) {
        m_notifiedEvent = first.serial;
        notify(isOfMissedHold(first) ? properties() : first.properties);
    }
    if (!guard || m_events.empty() || m_events.front().serial != first.serial)
        return;
    const Event event = m_events.front();
    m_events.erase(m_events.begin());
    deliver(event);
}

void MultiLockPrivate::deliver(const Event &event)
{
    const QPointer<MultiLock> guard(q);
    switch (event.kind) {
    case Event::Acquired: {
        if (!isCurrentHold(event) || !areHeld()) {
            Event missed = event;
            missed.error = DistributedLock::CancelledError;
            missed.text = describe(u"the hold ended before the acquisition could be reported"_s);
            return reportFailure(missed);
        }
        m_announcedHold = event.hold;
        m_reported.clear();
        AcquireFutures::Pending acquire = m_futures.extract(event.id);
        const LockResult result{DistributedLock::NoError, QString(), of(members.front())->machine.fencingToken()};
        const bool isCleared = storeError(DistributedLock::NoError, {});
        Q_EMIT q->acquired();
        if (guard && isCleared)
            Q_EMIT q->errorChanged();
        // A future that was cancelled or has ended meanwhile takes no result: nobody would know of the hold.
        const bool isKnown = acquire.succeed(result);
        if (guard && !isKnown && isCurrentHold(event))
            release(newRequest());
        acquire.succeeded();
        break;
    }
    case Event::AcquireFailed:
        reportFailure(event);
        break;
    case Event::ReleaseDone:
        m_releases.end(event.id, event.success);
        break;
    case Event::Released:
    case Event::Lost: {
        if (m_announcedHold != event.hold)
            break;
        m_reported.clear();
        const bool isChanged = storeError(event.error, event.text);
        if (event.kind == Event::Lost)
            Q_EMIT q->lost(event.reason, event.name);
        else
            Q_EMIT q->released();
        if (guard && isChanged)
            Q_EMIT q->errorChanged();
        break;
    }
    case Event::Renewed: {
        if (!isCurrentHold(event))
            break;
        m_reported.clear();
        const bool isCleared = storeError(DistributedLock::NoError, {});
        Q_EMIT q->renewed();
        if (guard && isCleared)
            Q_EMIT q->errorChanged();
        break;
    }
    case Event::AtRisk:
        if (isCurrentHold(event))
            Q_EMIT q->atRisk(toInt(std::chrono::duration_cast<milliseconds>(q->remainingTime())));
        break;
    case Event::ErrorOccurred: { // one problem may concern several of the locks
        const bool isNew = !m_reported.contains(event.error);
        m_reported.insert(event.error);
        if (storeError(event.error, event.text))
            Q_EMIT q->errorChanged();
        if (guard && isNew)
            Q_EMIT q->errorOccurred(event.error);
        break;
    }
    case Event::ErrorCleared:
        m_reported.clear();
        if (!isOrdinary(error) && storeError(DistributedLock::NoError, {}))
            Q_EMIT q->errorChanged();
        break;
    }
}

/// True if the caller must emit errorChanged(), after the signal of the event.
bool MultiLockPrivate::storeError(DistributedLock::Error code, const QString &text)
{
    if (error == code && errorString == text)
        return false;
    error = code;
    errorString = text;
    return true;
}

void MultiLockPrivate::reportFailure(const Event &event)
{
    const QPointer<MultiLock> guard(q);
    AcquireFutures::Pending acquire = m_futures.extract(event.id);
    const bool isChanged = storeError(event.error, event.text);
    const bool isNew = !isOrdinary(event.error) && !m_reported.contains(event.error);
    if (isNew)
        m_reported.insert(event.error);
    Q_EMIT q->acquireFailed(event.error);
    if (guard && isChanged)
        Q_EMIT q->errorChanged();
    if (guard && isNew)
        Q_EMIT q->errorOccurred(event.error);
    acquire.fail({event.error, event.text, 0});
}

} // namespace QDistLock
