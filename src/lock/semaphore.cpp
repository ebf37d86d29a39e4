// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/semaphore.h>

#include <QDistLock/impl/permits.h>

#include "base/readyfuture.h"
#include "lock/distributedlock_p.h"
#include "lock/lockregistry_p.h"
#include "lock/threadcheck.h"

using namespace Qt::StringLiterals;

namespace QDistLock {

/// The registry's defaults replace none of these.
static void setUp(Semaphore *semaphore, int permits)
{
    auto *const d = DistributedLockPrivate::get(semaphore);
    d->wantsSlots = true;
    d->setFields(OptionField::Mode | OptionField::Permits,
                 semaphore->options().withMode(LockOptions::Exclusive).withPermits(permits).withTake(1));
}

Semaphore::Semaphore(const LockAddress &address, int permits, QObject *parent)
    : DistributedLock(address, parent)
{
    setUp(this, permits);
}

Semaphore::Semaphore(LockRegistry *registry, const QString &name, int permits, QObject *parent)
    : DistributedLock(registry, name, parent)
{
    setUp(this, permits);
}

Semaphore::~Semaphore() = default;

int Semaphore::permits() const
{
    return options().permits;
}

void Semaphore::setPermits(int permits)
{
    auto *const d = DistributedLockPrivate::get(this);
    if (!d->isForeignCall("setPermits()"))
        d->setFields(OptionField::Permits, options().withPermits(permits));
}

int Semaphore::take() const
{
    return options().take;
}

void Semaphore::setTake(int take)
{
    auto *const d = DistributedLockPrivate::get(this);
    if (!d->isForeignCall("setTake()"))
        d->setFields(OptionField::Permits, options().withTake(take));
}

int Semaphore::slot() const
{
    return heldSlots().value(0, -1);
}

QList<int> Semaphore::heldSlots() const
{
    return Detail::heldSlots(this);
}

QFuture<LockReply<int>> Semaphore::available()
{
    const auto failed = [name = Detail::quoted(name())](const EngineError &error) {
        return readyFuture(LockReply<int>{0, error.code, u"Lock %1: %2"_s.arg(name, error.text)});
    };
    auto *const d = DistributedLockPrivate::get(this);
    if (const QString problem = wrongThread(this, "available()"); !problem.isEmpty())
        return failed(EngineError::permanent(OptionsError, problem));
    EngineError error = EngineError::passing(CancelledError, u"the lock object was destroyed"_s);
    const QPointer<Semaphore> guard(this);
    const bool isUsable = d->engine(&error); // a slot of a NOTIFY signal may destroy this object
    return guard && isUsable ? d->registry->available(d->address, permits()) : failed(error);
}

void Detail::setPermits(DistributedLock *lock, int permits, int take)
{
    auto *const d = DistributedLockPrivate::get(lock);
    if (d->isForeignCall("setPermits()"))
        return;
    d->wantsSlots = true;
    d->setFields(OptionField::Permits, lock->options().withPermits(permits).withTake(take));
}

QList<int> Detail::heldSlots(const DistributedLock *lock)
{
    return DistributedLockPrivate::get(lock)->notified.permitSlots;
}

} // namespace QDistLock
