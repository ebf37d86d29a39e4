// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "lockkeeper.h"
#include "qmldistributedlock.h"

#include <QDistLock/multilock.h>

namespace QDistLock {

/// Registers the C++ class with QML, as DistributedLockForeign does.
struct MultiLockForeign
{
    Q_GADGET
    QML_FOREIGN(QDistLock::MultiLock)
    QML_NAMED_ELEMENT(MultiLockBase)
    QML_UNCREATABLE("Write MultiLock { }")
};

/*!
    The QML element MultiLock: several locks that are held together. `active`, `server`, the methods and changes are as
    in QmlDistributedLock; new `names` are a new name.

    Thread, errors, ownership: as QmlDistributedLock.
*/
class QmlMultiLock : public QDistLock::MultiLock, public QQmlParserStatus
{
    Q_OBJECT
    Q_INTERFACES(QQmlParserStatus)
    QML_NAMED_ELEMENT(MultiLock)
    Q_PROPERTY(QStringList names READ names WRITE setNames NOTIFY namesChanged FINAL)
    Q_PROPERTY(QString server READ server WRITE setServer NOTIFY serverChanged FINAL)
    Q_PROPERTY(bool active READ isActive WRITE setActive NOTIFY activeChanged FINAL)
    Q_PROPERTY(QDistLock::QmlDistributedLock::Mode mode READ qmlMode WRITE setQmlMode NOTIFY modeChanged FINAL)

public:
    explicit QmlMultiLock(QObject *parent = nullptr);

    /// The requested names, as they were set; locks of the previous names may still be releasing.
    QStringList names() const { return m_names; }
    void setNames(const QStringList &names);
    /// As those of QmlDistributedLock.
    ///@{
    QString server() const { return m_keeper.server(); }
    void setServer(const QString &server) { m_keeper.setServer(server); }
    bool isActive() const { return m_keeper.isActive(); }
    void setActive(bool active) { m_keeper.setActive(active); }
    QmlDistributedLock::Mode qmlMode() const { return QmlDistributedLock::Mode(mode()); }
    void setQmlMode(QmlDistributedLock::Mode mode) { setMode(LockOptions::Mode(mode)); }
    ///@}
    /// MultiLock::fencingToken() as a JavaScript number, see QmlDistributedLock::fencingNumber().
    Q_INVOKABLE double fencingToken(const QString &name) const { return double(MultiLock::fencingToken(name)); }

    /// As those of QmlDistributedLock; `fencingToken` of the result is that of the lock whose name sorts first.
    ///@{
    Q_INVOKABLE QJSValue acquire() { return m_keeper.acquire(); }
    Q_INVOKABLE QJSValue tryAcquire() { return m_keeper.tryAcquire(); }
    Q_INVOKABLE QJSValue release() { return m_keeper.release(); }
    Q_INVOKABLE void cancel() { m_keeper.cancel(); }
    ///@}

    void classBegin() override { m_keeper.classBegin(); }
    void componentComplete() override { m_keeper.componentComplete(); }

Q_SIGNALS:
    void serverChanged();
    void activeChanged();

private:
    friend class LockKeeper<QmlMultiLock>;
    using Lock = MultiLock;

    void applyName();
    QString subject() const;
    qint64 presentToken() const;
    static bool yields() { return false; }
    static bool mustWait() { return false; }

    QStringList m_names;
    LockKeeper<QmlMultiLock> m_keeper{this};
};

} // namespace QDistLock
