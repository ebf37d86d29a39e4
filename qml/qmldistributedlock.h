// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "jspromisefactory.h"

#include <QDistLock/distributedlock.h>

#include <QtCore/qfuturewatcher.h>
#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>
#include <QtQml/qjsvalue.h>
#include <QtQml/qqml.h>
#include <QtQml/qqmlparserstatus.h>

#include <chrono>
#include <vector>

namespace QDistLock {

/*!
    Registers the C++ class with QML: the type of properties that hold locks made in C++, and the source of the enums
    that LockStatus uses.
*/
struct DistributedLockForeign
{
    Q_GADGET
    QML_FOREIGN(QDistLock::DistributedLock)
    QML_NAMED_ELEMENT(DistributedLockBase)
    QML_UNCREATABLE("Write DistributedLock { }")
};

/*!
    The QML element DistributedLock. QML uses it declaratively, through `active`, or through methods that return
    promises.

    `active: true` acquires the lock and keeps it: the element waits without a limit (`wait` does not apply), acquires
    the lock again after a loss, and after any other error retries with a delay that grows from 1 s to 60 s. After
    NameError and OptionsError it retries only when a property changes. `active: false` leaves the queue, or releases
    the level that `active` acquired. If release() or cancel() ends that level or that attempt, `active` becomes false.

    `name`, `server` and the options may change at any time. A new name or server while the lock is held or being
    acquired first releases all levels and ends pending acquires with CancelledError; then, if `active`, the lock is
    acquired under the new name or server. A new `lease` or `mode` does the same while `active`, and a new `fair` or
    `retryInterval` while `active` is still waiting. Otherwise a changed option takes effect with the next acquire.

    Nothing starts before the component is complete: earlier calls are deferred until then.

    Thread: the engine's. Errors: as the base class. Ownership: as any QML object. If the lock is destroyed, its pending
    promises are resolved with CancelledError; if the engine is destroyed, its promises are never settled.
*/
class QmlDistributedLock : public QDistLock::DistributedLock, public QQmlParserStatus
{
    Q_OBJECT
    Q_INTERFACES(QQmlParserStatus)
    QML_NAMED_ELEMENT(DistributedLock)
    Q_PROPERTY(QString name READ name WRITE setName NOTIFY nameChanged FINAL)
    Q_PROPERTY(double fencingToken READ fencingNumber NOTIFY fencingTokenChanged FINAL)
    Q_PROPERTY(QString server READ server WRITE setServer NOTIFY serverChanged FINAL)
    Q_PROPERTY(bool active READ isActive WRITE setActive NOTIFY activeChanged FINAL)
    Q_PROPERTY(Mode mode READ qmlMode WRITE setQmlMode NOTIFY modeChanged FINAL)

public:
    /// LockOptions::Mode
    enum Mode : int { Exclusive = LockOptions::Exclusive, Shared = LockOptions::Shared };
    Q_ENUM(Mode)

    explicit QmlDistributedLock(QObject *parent = nullptr);
    ~QmlDistributedLock() override;

    /// The requested name; a lock under the previous name may still be releasing.
    QString name() const;
    void setName(const QString &name);
    /// fencingToken() as a JavaScript number: exact up to 2^53, and of a type that the QML tools know.
    double fencingNumber() const;
    /// The server's URL; empty means LockRegistry::defaultServer().
    QString server() const;
    void setServer(const QString &server);
    bool isActive() const;
    void setActive(bool active);
    Mode qmlMode() const { return Mode(mode()); }
    void setQmlMode(Mode mode) { setMode(LockOptions::Mode(mode)); }

    /// Returns a promise that is resolved with { acquired, error, errorString, fencingToken }, for failures (busy,
    /// timed out, cancelled, …) too. It is never rejected.
    Q_INVOKABLE QJSValue acquire();
    /// As acquire(), but with a single attempt, without waiting.
    Q_INVOKABLE QJSValue tryAcquire();
    /// Returns a promise that is resolved with true if a level was released and, for the last level, the server
    /// confirmed it; otherwise with false. It is never rejected.
    Q_INVOKABLE QJSValue release();
    /// Takes the lock away from its holder. Returns a promise that is resolved with true if there was a holder,
    /// otherwise with false, and rejected with an Error if the server could not be reached or refused.
    Q_INVOKABLE QJSValue forceRelease();
    Q_INVOKABLE void cancel();

    void classBegin() override;
    void componentComplete() override;

Q_SIGNALS:
    void serverChanged();
    void activeChanged();

protected:
    /// An option has a new value. If \a needsChange and `active`, the lock is released and acquired again.
    void optionChanged(bool needsChange);
    bool isAttemptingOrHeld() const { return m_attempting || state() != Unlocked; }

private:
    using Watcher = QFutureWatcher<LockResult>;
    struct DeferredCall
    {
        QPointer<Watcher> watcher;
        bool tryOnly;
    };

    QJSValue acquirePromise(bool tryOnly);
    void start(const DeferredCall &call);
    void cancelDeferredCalls();

    LockRegistry *requestedRegistry() const;
    void requestChange();
    void scheduleUpdate();
    void update();
    void applyChange();
    bool hasActiveLevel() const;
    void releaseAll();
    void cancelUnwantedAttempt();
    void startAttempt();
    void takeLevel();
    void attemptFinished();
    void retryLater(const LockResult &failure);
    void onLost();
    void onReleased();

    QString m_name;
    QString m_server;
    JsPromiseFactory m_promises;
    /// acquire() and tryAcquire() before the component is complete, or before a new name or server is in use.
    std::vector<DeferredCall> m_deferredCalls;
    QFutureWatcher<LockResult> m_attempt; ///< the acquire that `active` started
    QTimer m_retryTimer;
    std::chrono::milliseconds m_retryDelay;
    /// holdNumber() of the hold in which `active` has one level, 0 if it has none; see hasActiveLevel().
    quint64 m_activeHold = 0;
    int m_pendingCalls = 0; ///< acquires in progress that QML code started
    bool m_active = false;
    bool m_attempting = false; ///< attemptFinished() has not been called yet for m_attempt
    bool m_levelTaken = false; ///< takeLevel() has given the level of m_attempt to `active` already
    bool m_cancelling = false; ///< this class has cancelled m_attempt
    bool m_stuck = false;      ///< retrying is useless until a property changes
    bool m_changed = true;     ///< the requested name, server or options are not in use yet
    bool m_complete = true;
    bool m_updateScheduled = false;
};

} // namespace QDistLock
