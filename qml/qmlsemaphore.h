// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "qmldistributedlock.h"

namespace QDistLock {

/*!
    The QML element Semaphore: a DistributedLock that holds permits, see LockOptions::permits.

    A new value of `permits` or `take` while `active` releases what is held and acquires it again. 0 permits would be a
    lock that excludes everybody: this value is refused with a warning, and the former one stays.

    Thread, errors and ownership: as QmlDistributedLock.
*/
class QmlSemaphore : public QmlDistributedLock
{
    Q_OBJECT
    QML_NAMED_ELEMENT(Semaphore)
    Q_PROPERTY(int permits READ permits WRITE setPermits NOTIFY permitsChanged FINAL)
    Q_PROPERTY(int take READ take WRITE setTake NOTIFY takeChanged FINAL)
    Q_PROPERTY(int slot READ slot NOTIFY fencingTokenChanged FINAL)
    Q_PROPERTY(QList<int> heldSlots READ heldSlots NOTIFY fencingTokenChanged FINAL)

public:
    /// A value of `permits`, and the default.
    enum Permits : int { ServerPermits = LockOptions::ServerPermits };
    Q_ENUM(Permits)

    explicit QmlSemaphore(QObject *parent = nullptr);

    int permits() const;
    void setPermits(int permits);
    int take() const;
    void setTake(int take);
    /// As those of Semaphore.
    ///@{
    int slot() const { return heldSlots().value(0, -1); }
    QList<int> heldSlots() const;
    ///@}

Q_SIGNALS:
    void permitsChanged();
    void takeChanged();
};

} // namespace QDistLock
