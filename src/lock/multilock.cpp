// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/multilock_p.h"

#include <QtCore/qcoreevent.h>

#include <algorithm>

using namespace std::chrono_literals;
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
        d->setOptions(options);
}

DistributedLock::State MultiLock::state() const
{
    return d->notified.state;
}

bool MultiLock::isHeld() const
{
    return d->isHeld();
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

} // namespace QDistLock
