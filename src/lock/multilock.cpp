// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/multilock_p.h"

#include <QDistLock/impl/acquiretogether.h>

#include <QtCore/qcoreevent.h>
#include <QtCore/qthread.h>

#include <algorithm>

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

MultiLock::MultiLock(QObject *parent)
    : QObject(parent)
    , d(std::make_unique<MultiLockPrivate>(this))
{
}

MultiLock::MultiLock(const QStringList &names, QObject *parent)
    : MultiLock(parent)
{
    d->setNames(names);
}

MultiLock::MultiLock(LockRegistry *registry, const QStringList &names, QObject *parent)
    : MultiLock(parent)
{
    d->setRegistry(registry);
    d->setNames(names);
}

MultiLock::~MultiLock()
{
    d->close();
}

bool MultiLock::event(QEvent *event)
{
    if (event->type() == QEvent::ThreadChange)
        d->leaveThread();
    return QObject::event(event);
}

QStringList MultiLock::names() const
{
    QStringList names;
    for (const MultiLockPrivate::Member &member : d->members)
        names.append(member.name);
    return names;
}

void MultiLock::setNames(const QStringList &names)
{
    if (d->isForeignCall("setNames()") || d->refuseChange())
        return;
    const QStringList before = this->names();
    d->setNames(names);
    if (before != this->names())
        Q_EMIT namesChanged();
}

void MultiLock::add(const QString &name, LockOptions::Mode mode)
{
    if (d->isForeignCall("add()") || d->refuseChange())
        return;
    const size_t before = d->members.size();
    d->add(name, mode);
    if (before != d->members.size())
        Q_EMIT namesChanged();
}

LockRegistry *MultiLock::registry() const
{
    return d->registry();
}

void MultiLock::setRegistry(LockRegistry *registry)
{
    if (d->isForeignCall("setRegistry()") || (registry && registry == d->registry()) || d->refuseChange())
        return;
    Q_ASSERT_X(!registry || registry->thread() == thread(), "MultiLock::setRegistry",
               "MultiLock and registry must live in the same thread");
    d->setRegistry(registry);
}

LockOptions MultiLock::options() const
{
    return d->options();
}

void MultiLock::setOptions(const LockOptions &options)
{
    if (!d->isForeignCall("setOptions()"))
        d->setFields(OptionField::All, options);
}

LockOptions::Mode MultiLock::mode() const
{
    return d->options().mode;
}

void MultiLock::setMode(LockOptions::Mode mode)
{
    if (!d->isForeignCall("setMode()"))
        d->setFields(OptionField::Mode, options().withMode(mode));
}

milliseconds MultiLock::lease() const
{
    return d->options().lease;
}

int MultiLock::leaseMs() const
{
    return toInt(lease());
}

void MultiLock::setLease(milliseconds lease)
{
    if (!d->isForeignCall("setLease()"))
        d->setFields(OptionField::Lease, options().withLease(lease));
}

void MultiLock::setLeaseMs(int lease)
{
    const QPointer<MultiLock> alive(this);
    setLease(milliseconds(lease));
    if (alive && thread() == QThread::currentThread() && isSuspiciouslyShort(milliseconds(lease)))
        warnOfShortLease(d->subject(), milliseconds(lease));
}

milliseconds MultiLock::waitTime() const
{
    return d->options().wait;
}

int MultiLock::waitMs() const
{
    return toInt(waitTime());
}

void MultiLock::setWaitTime(milliseconds wait)
{
    if (!d->isForeignCall("setWaitTime()"))
        d->setFields(OptionField::Wait, options().withWait(wait));
}

void MultiLock::setWaitMs(int wait)
{
    setWaitTime(waitFromMs(wait));
}

milliseconds MultiLock::retryInterval() const
{
    return d->options().retryInterval;
}

int MultiLock::retryIntervalMs() const
{
    return toInt(retryInterval());
}

void MultiLock::setRetryInterval(milliseconds interval)
{
    if (!d->isForeignCall("setRetryInterval()"))
        d->setFields(OptionField::RetryInterval, options().withRetryInterval(interval));
}

void MultiLock::setRetryIntervalMs(int interval)
{
    setRetryInterval(milliseconds(interval));
}

bool MultiLock::autoRenew() const
{
    return d->options().autoRenew;
}

void MultiLock::setAutoRenew(bool autoRenew)
{
    if (!d->isForeignCall("setAutoRenew()"))
        d->setFields(OptionField::AutoRenew, options().withAutoRenew(autoRenew));
}

bool MultiLock::isFair() const
{
    return d->options().fair;
}

void MultiLock::setFair(bool fair)
{
    if (!d->isForeignCall("setFair()"))
        d->setFields(OptionField::Fair, options().withFair(fair));
}

DistributedLock::State MultiLock::state() const
{
    return d->notified.state;
}

bool MultiLock::isHeld() const
{
    return d->isHeld();
}

quint64 MultiLock::holdNumber() const
{
    return d->notified.hold;
}

int MultiLock::holdCount() const
{
    return d->notified.holdCount;
}

qint64 MultiLock::fencingToken(const QString &name) const
{
    const auto member = std::find_if(d->members.cbegin(), d->members.cend(),
                                     [&name](const MultiLockPrivate::Member &other) { return other.name == name; });
    return member != d->members.cend() && d->notified.isHeld() ? member->lock->fencingToken() : 0;
}

nanoseconds MultiLock::remainingTime() const
{
    if (!d->isHeld())
        return 0ns;
    nanoseconds remaining = nanoseconds::max();
    for (const MultiLockPrivate::Member &member : d->members)
        remaining = std::min(remaining, member.lock->remainingTime());
    return remaining;
}

int MultiLock::remainingMs() const
{
    return toInt(std::chrono::duration_cast<milliseconds>(remainingTime()));
}

DistributedLock::Error MultiLock::error() const
{
    return d->error;
}

QString MultiLock::errorString() const
{
    return d->errorString;
}

QFuture<LockResult> MultiLock::acquireAsync()
{
    return d->acquireAsync(false);
}

QFuture<LockResult> MultiLock::acquireAsync(const LockOptions &options)
{
    return d->acquireAsync(false, &options);
}

QFuture<LockResult> MultiLock::tryAcquireAsync()
{
    return d->acquireAsync(true);
}

QFuture<bool> MultiLock::releaseAsync()
{
    return d->releaseAsync();
}

void MultiLock::acquire()
{
    if (d->refuseAcquire("acquire()").isEmpty())
        d->acquire(d->newRequest(), false);
}

void MultiLock::tryAcquire()
{
    if (d->refuseAcquire("tryAcquire()").isEmpty())
        d->acquire(d->newRequest(), true);
}

void MultiLock::release()
{
    if (!d->isForeignCall("release()"))
        d->release(d->newRequest());
}

void MultiLock::cancel()
{
    if (!d->isForeignCall("cancel()"))
        d->cancel();
}

std::optional<QFuture<qsizetype>> Detail::tryAcquireTogether(const QList<DistributedLock *> &locks)
{
    LockRegistryPrivate *const registry = DistributedLockPrivate::get(locks.first())->registry;
    const LockEngine *const engine = registry->engine();
    if (!engine || !engine->canAcquireTogether())
        return std::nullopt;
    const quint64 number = registry->nextTurn();
    QList<QFuture<LockResult>> results;
    QList<QPointer<DistributedLock>> owners; // null when one is destroyed
    for (DistributedLock *const lock : locks) {
        auto *const d = DistributedLockPrivate::get(lock);
        const quint64 id = d->newRequest();
        d->setNamesHolder(false);
        results.append(d->acquireFuture(id));
        owners.append(lock);
        const LockOptions own = LockOptions(d->options).withMinHold(0ms); // it may be in vain
        d->acquire(id, true, &own, number);
    }
    return QtFuture::whenAll(results.begin(), results.end()).then([owners](const QList<QFuture<LockResult>> &ended) {
        qsizetype refused = -1;
        const auto wasFree = [&owners](qsizetype i) {
            return owners[i] && DistributedLockPrivate::get(owners[i])->errorRule == EngineError::OthersTaken;
        };
        for (qsizetype i = 0; i < ended.size(); ++i) {
            if (ended[i].result().error && (refused < 0 || wasFree(refused)))
                refused = i;
        }
        if (refused >= 0)
            return refused;
        for (const QPointer<DistributedLock> &lock : owners) {
            if (auto *const d = lock ? DistributedLockPrivate::get(lock) : nullptr)
                d->machine.setMinHold(d->options.minHold, d->now());
        }
        return refused;
    });
}

} // namespace QDistLock
