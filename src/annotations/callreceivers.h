// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/waitingcall.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qhash.h>
#include <QtCore/qobject.h>

namespace QDistLock {

/// The waiting calls of one thread that have a receiver, by receiver and method. Thread: its own.
class CallReceivers final : public QObject
{
    Q_OBJECT

public:
    void add(WaitingCall *call);
    /// Does nothing if \a call has no receiver.
    void remove(const WaitingCall *call);
    /// The number of waiting calls with the receiver and method of \a call.
    qsizetype count(const WaitingCall *call) const;
    /// The waiting call that \a call replaces because of onBusy=latest; null if there is none.
    WaitingCall *replacedBy(const WaitingCall *call) const;
    CallsById callsOf(const QObject *receiver) const;

    bool eventFilter(QObject *receiver, QEvent *event) override;

Q_SIGNALS:
    void receiverDestroyed(QObject *receiver);
    /// Emitted before the move to another thread.
    void receiverMoves(QObject *receiver);

private:
    struct Method
    {
        CallsById calls;
        WaitingCall *latest = nullptr; ///< with onBusy=latest
    };
    using Methods = QHash<QByteArray, Method>; ///< by LockedMethod::identity()
    const Method *find(const WaitingCall *call) const;

    QHash<const QObject *, Methods> m_receivers;
};

} // namespace QDistLock
