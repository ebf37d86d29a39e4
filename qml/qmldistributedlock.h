// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "jspromisefactory.h"
#include "lockkeeper.h"

#include <QDistLock/distributedlock.h>

#include <QtCore/qpointer.h>
#include <QtQml/qjsvalue.h>
#include <QtQml/qqml.h>
#include <QtQml/qqmlparserstatus.h>

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

    /// The requested name; a lock under the previous name may still be releasing.
    QString name() const { return m_name; }
    void setName(const QString &name);
    /// fencingToken() as a JavaScript number: exact up to 2^53, and of a type that the QML tools know.
    double fencingNumber() const { return double(fencingToken()); }
    /// The server's URL; empty means LockRegistry::defaultServer().
    QString server() const { return m_keeper.server(); }
    void setServer(const QString &server);
    bool isActive() const { return m_keeper.isActive(); }
    void setActive(bool active) { m_keeper.setActive(active); }
    Mode qmlMode() const { return Mode(mode()); }
    void setQmlMode(Mode mode);

    /// Returns a promise that is resolved with { acquired, error, errorString, fencingToken }, for failures (busy,
    /// timed out, cancelled, …) too. It is never rejected.
    Q_INVOKABLE QJSValue acquire() { return m_keeper.acquire(); }
    /// As acquire(), but with a single attempt, without waiting.
    Q_INVOKABLE QJSValue tryAcquire() { return m_keeper.tryAcquire(); }
    /// Returns a promise that is resolved with true if a level was released and, for the last level, the server
    /// confirmed it; otherwise with false. It is never rejected.
    Q_INVOKABLE QJSValue release() { return m_keeper.release(); }
    /// Takes the lock away from its holder. Returns a promise that is resolved with true if there was a holder,
    /// otherwise with false, and rejected with an Error if the server could not be reached or refused.
    Q_INVOKABLE QJSValue forceRelease();
    Q_INVOKABLE void cancel() { m_keeper.cancel(); }

    void classBegin() override { m_keeper.classBegin(); }
    void componentComplete() override { m_keeper.componentComplete(); }

Q_SIGNALS:
    void serverChanged();
    void activeChanged();

protected:
    /// As LockKeeper::optionChanged().
    void optionChanged(bool needsChange) { m_keeper.optionChanged(needsChange); }
    bool isAttemptingOrHeld() const { return m_keeper.isAttemptingOrHeld(); }

private:
    friend class LockKeeper<QmlDistributedLock>;
    friend class QmlReadWriteLock;
    using Lock = DistributedLock;

    void applyName();
    QString subject() const;
    qint64 presentToken() const { return fencingToken(); }
    bool yields() const;
    bool mustWait() const { return m_other && m_other->state() != Unlocked; }

    bool refuseInPair(const char *property) const;
    void requestName(const QString &name); ///< the caller emits nameChanged()

    QString m_name;
    QPointer<QmlDistributedLock> m_other; ///< the other lock of a QmlReadWriteLock
    JsPromiseFactory m_promises;
    LockKeeper<QmlDistributedLock> m_keeper{this};
};

} // namespace QDistLock
