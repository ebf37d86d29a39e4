// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/distributedlock_p.h"

#include "base/readyfuture.h"
#include "lock/lockregistry_p.h"

#include <QtCore/qcoreevent.h>
#include <QtCore/qthread.h>

#include <limits>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

DistributedLock::DistributedLock(QObject *parent)
    : DistributedLock(LockAddress(), parent)
{
}

DistributedLock::DistributedLock(const LockAddress &address, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<DistributedLockPrivate>(this))
{
    d->address = address;
}

DistributedLock::DistributedLock(LockRegistry *registry, const QString &name, QObject *parent)
    : DistributedLock(LockAddress(name), parent)
{
    setRegistry(registry);
}

DistributedLock::~DistributedLock()
{
    d->close();
}

bool DistributedLock::event(QEvent *event)
{
    if (event->type() == QEvent::ThreadChange)
        d->leaveThread();
    return QObject::event(event);
}

QString DistributedLock::name() const
{
    return d->address.name();
}

void DistributedLock::setName(const QString &name)
{
    if (d->isForeignCall("setName()") || name == d->address.name())
        return;
    if (d->isNameFixed) {
        const QPointer<DistributedLock> alive(this);
        d->setError({NameError, u"it is part of a ReadWriteLock, and its name is fixed"_s});
        if (alive)
            Q_EMIT errorOccurred(NameError);
        return;
    }
    if (state() != Unlocked) {
        const QPointer<DistributedLock> alive(this);
        d->setError({NameError,
                     u"it cannot be renamed to %1 while it is in use; release it first"_s.arg(Detail::quoted(name))});
        if (alive)
            Q_EMIT errorOccurred(NameError);
        return;
    }
    d->address = LockAddress(name).withKeyPrefix(d->address.keyPrefix()).withServer(d->address.server());
    d->hintAtMilliseconds();
    Q_EMIT nameChanged();
}

LockRegistry *DistributedLock::registry() const
{
    return d->registry ? d->registry->registry() : nullptr;
}

void DistributedLock::setRegistry(LockRegistry *registry)
{
    if (d->isForeignCall("setRegistry()") || (registry == this->registry() && !d->registryGone()))
        return;
    if (state() != Unlocked || d->isTaking()) {
        const QPointer<DistributedLock> alive(this);
        d->setError({OptionsError, u"its registry cannot be changed while it is in use; release it first"_s});
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
    d->setFields(OptionField::All, options);
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

quint64 DistributedLock::holdNumber() const
{
    return d->notified.hold;
}

int DistributedLock::queuePosition() const
{
    return d->notified.queuePosition;
}

nanoseconds DistributedLock::remainingTime() const
{
    const LeaseTime now = d->now();
    return d->isHeld(now) ? d->machine.deadline() - now : 0ns;
}

int DistributedLock::remainingMs() const
{
    return toInt(std::chrono::duration_cast<milliseconds>(remainingTime()));
}

milliseconds DistributedLock::lease() const
{
    return d->options.lease;
}

int DistributedLock::leaseMs() const
{
    return toInt(lease());
}

void DistributedLock::setLease(milliseconds lease)
{
    if (d->isForeignCall("setLease()"))
        return;
    d->leaseGivenAsInt = false;
    d->setFields(OptionField::Lease, options().withLease(lease));
}

void DistributedLock::setLeaseMs(int lease)
{
    const QPointer<DistributedLock> alive(this);
    setLease(milliseconds(lease));
    if (!alive || thread() != QThread::currentThread())
        return;
    d->leaseGivenAsInt = !d->leaseHintGiven;
    d->hintAtMilliseconds();
}

milliseconds DistributedLock::waitTime() const
{
    return d->options.wait;
}

int DistributedLock::waitMs() const
{
    return toInt(waitTime());
}

void DistributedLock::setWaitTime(milliseconds wait)
{
    if (d->isForeignCall("setWaitTime()"))
        return;
    d->setFields(OptionField::Wait, options().withWait(wait));
}

void DistributedLock::setWaitMs(int wait)
{
    setWaitTime(waitFromMs(wait));
}

milliseconds DistributedLock::retryInterval() const
{
    return d->options.retryInterval;
}

int DistributedLock::retryIntervalMs() const
{
    return toInt(retryInterval());
}

void DistributedLock::setRetryInterval(milliseconds interval)
{
    if (d->isForeignCall("setRetryInterval()"))
        return;
    d->setFields(OptionField::RetryInterval, options().withRetryInterval(interval));
}

void DistributedLock::setRetryIntervalMs(int interval)
{
    setRetryInterval(milliseconds(interval));
}

bool DistributedLock::autoRenew() const
{
    return d->options.autoRenew;
}

void DistributedLock::setAutoRenew(bool autoRenew)
{
    if (d->isForeignCall("setAutoRenew()"))
        return;
    d->setFields(OptionField::AutoRenew, options().withAutoRenew(autoRenew));
}

LockOptions::Mode DistributedLock::mode() const
{
    return options().mode;
}

void DistributedLock::setMode(LockOptions::Mode mode)
{
    if (d->isForeignCall("setMode()"))
        return;
    d->setFields(OptionField::Mode, options().withMode(mode));
}

bool DistributedLock::isFair() const
{
    return d->options.fair;
}

void DistributedLock::setFair(bool fair)
{
    if (d->isForeignCall("setFair()"))
        return;
    d->setFields(OptionField::Fair, options().withFair(fair));
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
    startAcquire(id);
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
    if (id != 0)
        d->acquire(id, true);
    return future;
}

QFuture<LockResult> DistributedLock::prepareAcquire(quint64 *id)
{
    *id = 0;
    if (const QString problem = d->refuseAcquire("acquire()"); !problem.isEmpty())
        return readyFuture(LockResult{OptionsError, problem, 0});
    *id = d->newRequest();
    return d->acquireFuture(*id);
}

void DistributedLock::startAcquire(quint64 id)
{
    if (id != 0)
        d->acquire(id, false);
}

void DistributedLock::withdrawAcquire(quint64 id)
{
    d->withdraw(id);
}

QFuture<bool> DistributedLock::releaseAsync()
{
    if (d->isForeignCall("release()") || !d->alive)
        return readyFuture(false);
    const quint64 id = d->newRequest();
    const QFuture<bool> future = d->releaseFutures.add(id);
    d->release(id);
    return future;
}

QByteArray DistributedLock::detach()
{
    return d->isForeignCall("detach()") ? QByteArray() : d->detach();
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

} // namespace QDistLock
