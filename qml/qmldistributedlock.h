// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "jspromise.h"

#include <QDistLock/distributedlock.h>

#include <QtCore/qfuturewatcher.h>
#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>
#include <QtQml/qjsvalue.h>
#include <QtQml/qqml.h>
#include <QtQml/qqmlparserstatus.h>

#include <chrono>
#include <optional>
#include <vector>

namespace QDistLock {

/*!
    The C++ class as QML sees it: the type of locks made in C++, and where LockStatus takes its
    enums from.
*/
struct DistributedLockForeign
{
    Q_GADGET
    QML_FOREIGN(QDistLock::DistributedLock)
    QML_NAMED_ELEMENT(DistributedLockBase)
    QML_UNCREATABLE("Write DistributedLock { }")
};

/*!
    DistributedLock as an element of QML: declared by `active`, called by methods that return
    promises.

    `active: true` keeps wanting the lock. It waits as long as it takes, whatever `wait` says;
    acquires again after a loss; and after an error that waiting cannot heal tries again with a
    growing delay of 1 s to 60 s. After NameError and OptionsError only a change of a property
    starts a new attempt. `active: false` leaves the queue or gives the level back. Where
    release() or cancel() ends what `active` wanted, `active` becomes false.

    `name`, `server` and the options may change at any time. While the lock is held or wanted, a
    new name or server first releases it, all levels, and pending acquires end with
    CancelledError; then, while `active`, it is acquired under the new one. A new `lease` does the
    same while `active`, a new `fair` or `retryInterval` while `active` still waits; otherwise
    options count from the next acquire on.

    Nothing starts before the component is complete: earlier calls wait for it.

    Thread: the engine's. Errors: as the base class. Ownership: as any QML object; promises of a
    lock that goes away resolve with CancelledError, those of an engine that goes away never.
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

public:
    explicit QmlDistributedLock(QObject *parent = nullptr);
    ~QmlDistributedLock() override;

    /// The name that is wanted; the one before may still be on its way out.
    QString name() const;
    void setName(const QString &name);
    /// fencingToken() as a number of QML: exact, and of a type its tools know.
    double fencingNumber() const;
    /// A server URL; empty = LockRegistry::defaultServer().
    QString server() const;
    void setServer(const QString &server);
    bool isActive() const;
    void setActive(bool active);

    /// Promise of { acquired, error, errorString, fencingToken }; busy, timed out, cancelled and
    /// every other failure are such results too. Never rejects.
    Q_INVOKABLE QJSValue acquire();
    /// As acquire(), with one look.
    Q_INVOKABLE QJSValue tryAcquire();
    /// Promise of a bool: true when a level was given back and, on the last one, the server
    /// confirmed it. Never rejects.
    Q_INVOKABLE QJSValue release();
    /// Takes the lock from whoever holds it. Promise of a bool: whether anybody did. Rejects with
    /// an Error when the server could not be asked.
    Q_INVOKABLE QJSValue forceRelease();
    Q_INVOKABLE void cancel();

    void classBegin() override;
    void componentComplete() override;

Q_SIGNALS:
    void serverChanged();
    void activeChanged();

private:
    using Watcher = QFutureWatcher<LockResult>;
    struct WaitingCall
    {
        QPointer<Watcher> watcher;
        bool tryOnly;
    };

    QJSValue acquirePromise(bool tryOnly);
    void start(const WaitingCall &call);
    void cancelWaitingCalls();

    LockRegistry *wantedRegistry() const;
    void change();
    void optionChanged(bool matters);
    void scheduleUpdate();
    void update();
    void applyChange();
    bool hasActiveLevel() const;
    void letGo();
    void cancelUnwantedAttempt();
    void startAttempt();
    void takeLevel();
    void attemptFinished();
    void retryLater(const LockResult &failure);
    void onLost();
    void onReleased();

    QString m_name;
    QString m_server;
    JsPromises m_promises;
    std::vector<WaitingCall>
            m_waitingCalls; ///< until the component is complete, or the new name in use
    QFutureWatcher<LockResult> m_attempt; ///< the acquire of `active`
    QTimer m_retryTimer;
    std::chrono::milliseconds m_retryDelay;
    /// The fencing token of the hold of which `active` has one level. See hasActiveLevel().
    std::optional<qint64> m_activeHold;
    int m_pendingCalls = 0; ///< acquires under way that are not the one of `active`
    bool m_active = false;
    bool m_attempting = false;  ///< m_attempt has not reported yet
    bool m_levelTaken = false;  ///< takeLevel() gave its level to `active` before it reported
    bool m_cancelling = false;  ///< that attempt was cancelled from here
    bool m_stuck = false;       ///< only a change of a property can help
    bool m_changed = true;      ///< name, server or lease differ from those in use
    bool m_complete = true;
    bool m_updateScheduled = false;
};

} // namespace QDistLock
