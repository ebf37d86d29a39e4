// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/lockedmethod.h"
#include "base/leaseclock.h"

#include <QDistLock/impl/jobs.h>
#include <QDistLock/lockedcalls.h>

#include <QtCore/qlist.h>
#include <QtCore/qpointer.h>

#include <map>
#include <memory>

namespace QDistLock {

class LockedCallQueue;

/// \a text as an error about the lock of \a request.
QString describeLock(const LockRequest &request, const QString &text);
/// The error if no QCoreApplication exists, without which posted events are not delivered; empty otherwise.
QString noApplication();
LockResult optionsError(const QString &text);
/// The result of a call if one of the objects among its arguments was destroyed before it ran.
LockResult argumentDestroyed();
/// The result of a call if its thread ended before it ran.
LockResult threadEnded();

/// A locked call: its method, its locks and the objects that it needs.
struct LockedCall
{
    std::shared_ptr<const LockedMethod> method; ///< null for withLock()
    QList<LockRequest> requests;                ///< in the order in which they are acquired
    QPointer<QObject> receiver;
    QList<QPointer<const QObject>> objects; ///< among the arguments

    /// The name in messages.
    QString displayName() const;
    QByteArray methodIdentity() const { return method ? method->identity() : QByteArray(); }
    LockedCallInfo info(const LockRequest *request, const LockResult &result) const;
};

/// A call that waits for its locks, and then for its turn.
struct WaitingCall
{
    /// `wait` counts from here.
    WaitingCall(const LockedCall &call, const std::shared_ptr<Detail::LockedJob> &job);

    bool isLatest() const;
    /// Whether its future was cancelled, or its receiver destroyed.
    bool isUnwanted() const;
    Deadline deadlineOf(qsizetype request) const;
    /// Reports \a result to the job, otherwise to LockedCalls, and to the log. \a request is the one that failed; null
    /// if the failure is about no single lock.
    void fail(const LockRequest *request, const LockResult &result) const;

    LockedCall call;
    std::shared_ptr<Detail::LockedJob> job;
    LeaseTime begun = LeaseClock::system()->now();
    Deadline deadline{NeverTime}; ///< the earliest of its requests

    // Set when the call is added to a queue.
    quint64 id = 0;
    LockedCallQueue *queue = nullptr; ///< while it is there
    QObject *watched = nullptr;       ///< the receiver, which may be in its destructor
    std::unique_ptr<QFutureWatcherBase> watcher;
};

using CallPointer = std::unique_ptr<WaitingCall>;
using CallsById = std::map<quint64, WaitingCall *>; ///< hence in the order of arrival

} // namespace QDistLock
