// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/readwritelock.h>

#include <QDistLock/impl/readwritepair.h>

#include "base/readyfuture.h"
#include "lock/distributedlock_p.h"

using namespace Qt::StringLiterals;

namespace QDistLock {

static void join(DistributedLock *lock, DistributedLock *partner, LockOptions::Mode mode)
{
    DistributedLockPrivate *const d = DistributedLockPrivate::get(lock);
    d->partner = partner;
    d->fixedMode = mode;
    d->setOptions(d->options);
}

void Detail::makeReadWritePair(DistributedLock *readLock, DistributedLock *writeLock)
{
    join(readLock, writeLock, LockOptions::Shared);
    join(writeLock, readLock, LockOptions::Exclusive);
}

class ReadWriteLockPrivate
{
public:
    ReadWriteLockPrivate(ReadWriteLock *q, const LockAddress &address)
        : name(address.name())
        , readLock(new DistributedLock(address, q))
        , writeLock(new DistributedLock(address, q))
    {
        Detail::makeReadWritePair(readLock, writeLock);
        for (DistributedLock *lock : {readLock.data(), writeLock.data()})
            DistributedLockPrivate::get(lock)->isNameFixed = true;
    }

    QFuture<LockResult> take(DistributedLock *lock, const char *function)
    {
        if (!lock)
            return readyFuture(LockResult{
                    DistributedLock::CancelledError,
                    u"Lock %1: one of the two locks of its ReadWriteLock was destroyed"_s.arg(Detail::quoted(name)),
                    0});
        DistributedLockPrivate *const taker = DistributedLockPrivate::get(lock);
        const QString problem = taker->refuseAcquire(function);
        if (!problem.isEmpty())
            return readyFuture(LockResult{DistributedLock::OptionsError, problem, 0});
        const quint64 id = taker->newRequest();
        const QFuture<LockResult> future = taker->acquireFuture(id);
        taker->takeFromPartner(id);
        return future;
    }

    const QString name;
    const QPointer<DistributedLock> readLock; ///< children of the ReadWriteLock
    const QPointer<DistributedLock> writeLock;
};

ReadWriteLock::ReadWriteLock(const LockAddress &address, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<ReadWriteLockPrivate>(this, address))
{
}

ReadWriteLock::ReadWriteLock(LockRegistry *registry, const QString &name, QObject *parent)
    : ReadWriteLock(LockAddress(name), parent)
{
    d->readLock->setRegistry(registry);
    d->writeLock->setRegistry(registry);
}

ReadWriteLock::~ReadWriteLock()
{
    delete d->readLock.data();
    delete d->writeLock.data();
}

QString ReadWriteLock::name() const
{
    return d->name;
}

DistributedLock *ReadWriteLock::readLock() const
{
    return d->readLock;
}

DistributedLock *ReadWriteLock::writeLock() const
{
    return d->writeLock;
}

QFuture<LockResult> ReadWriteLock::tryUpgrade()
{
    return d->take(d->writeLock, "tryUpgrade()");
}

QFuture<LockResult> ReadWriteLock::downgrade()
{
    return d->take(d->readLock, "downgrade()");
}

} // namespace QDistLock
