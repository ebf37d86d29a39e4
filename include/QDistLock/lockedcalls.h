// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKEDCALLS_H
#define QDISTLOCK_LOCKEDCALLS_H

#include <QDistLock/distributedlock.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qbytearray.h>
#include <QtCore/qmetatype.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qstring.h>

namespace QDistLock {

/// What happened to a call made by connectLocked(). A plain value.
struct LockedCallInfo
{
    QPointer<QObject> receiver; ///< use it only in its own thread
    QByteArray className;       ///< empty for withLock()
    QByteArray method;          ///< empty if the slot is a function object
    QString lock;               ///< the name, without key prefix; empty if the annotation could not be evaluated
    QString server;             ///< without secrets
    DistributedLock::Error error = DistributedLock::NoError; ///< why the call was dropped; NoError after a loss
    QString errorString; ///< names class, method, lock and server, and says what happened and what to do
};

/*!
    Reports calls that connectLocked() could not run, since they have no caller that could be notified. (Failures of
    invokeLocked() and withLock() are reported by their futures, and in the log.)

    Thread: instance() may be called in any. Signals are emitted in the thread in which the call runs, so connect with a
    context object. failed() and skipped() may be emitted inside the emission that made the call; lost() is emitted
    from the event loop, or when the thread ends; not after that, even if a QFuture has not finished by then.
*/
class QDISTLOCK_EXPORT LockedCalls : public QObject
{
    Q_OBJECT

public:
    /// Null at the end of the program, when static objects are destroyed.
    static LockedCalls *instance();

    /// Called at the end of the program; the application never deletes the object.
    ~LockedCalls() override;

Q_SIGNALS:
    /// The call was dropped: `wait` has passed, the lock was busy with `onBusy=fail`, too many calls waited, or there
    /// was an error. Also logged as a warning in `qdistlock.lock`: the first of a burst of calls of one method that
    /// fail in the same way, and at the end of the burst the number of the others.
    void failed(const QDistLock::LockedCallInfo &call);
    /// The call was dropped because the lock was busy (`onBusy=skip`), or because a newer call replaced it
    /// (`onBusy=latest`). Also logged as a debug message.
    void skipped(const QDistLock::LockedCallInfo &call);
    /// The lock was lost before the method, or the QFuture that it has returned, had finished; emitted for
    /// invokeLocked() and withLock(), too. It comes at once if the event loop of the thread runs, so that work that
    /// goes on can be stopped, and otherwise when the method has returned. Also logged as a warning.
    void lost(const QDistLock::LockedCallInfo &call);

private:
    friend struct LockedCallsHolder;
    Q_DISABLE_COPY_MOVE(LockedCalls)
    LockedCalls();
};

} // namespace QDistLock

Q_DECLARE_METATYPE(QDistLock::LockedCallInfo)

#endif
