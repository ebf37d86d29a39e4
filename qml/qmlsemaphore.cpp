// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmlsemaphore.h"

#include <QDistLock/impl/permits.h>

#include <QtQml/qqmlinfo.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

QmlSemaphore::QmlSemaphore(QObject *parent)
    : QmlDistributedLock(parent)
{
    Detail::setPermits(this, ServerPermits, 1);
}

int QmlSemaphore::permits() const
{
    return options().permits;
}

void QmlSemaphore::setPermits(int permits)
{
    if (permits == 0) {
        qmlWarning(this) << u"permits is 0; it must be from 1 to %1, or Semaphore.ServerPermits"_s.arg(
                LockOptions::MaximumPermits);
        return;
    }
    if (permits == this->permits())
        return;
    Detail::setPermits(this, permits, take());
    optionChanged(isAttemptingOrHeld());
    Q_EMIT permitsChanged();
}

int QmlSemaphore::take() const
{
    return options().take;
}

void QmlSemaphore::setTake(int take)
{
    if (take == this->take())
        return;
    Detail::setPermits(this, permits(), take);
    optionChanged(isAttemptingOrHeld());
    Q_EMIT takeChanged();
}

QList<int> QmlSemaphore::heldSlots() const
{
    return Detail::heldSlots(this);
}

} // namespace QDistLock
