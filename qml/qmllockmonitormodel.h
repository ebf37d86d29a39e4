// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "jspromisefactory.h"

#include <QDistLock/lockmonitormodel.h>
#include <QDistLock/lockregistry.h>

#include <QtQml/qjsvalue.h>
#include <QtQml/qqml.h>
#include <QtQml/qqmlparserstatus.h>

#include <memory>
#include <optional>

namespace QDistLock {

/// Registers the C++ class with QML, as DistributedLockForeign does.
struct LockMonitorModelForeign
{
    Q_GADGET
    QML_FOREIGN(QDistLock::LockMonitorModel)
    QML_NAMED_ELEMENT(LockMonitorModelBase)
    QML_UNCREATABLE("Write LockMonitorModel { }")
};

/*!
    The QML element LockMonitorModel. It has a LockRegistry, and so a connection, of its own.

    Nothing starts before the component is complete. A new `server` or `keyPrefix` begins again without rows. The role
    `holders` is a list of JavaScript objects, and there is no role `info`.

    Thread: the engine's. Errors: problems(), and rejected promises. Ownership: as any QML object. If the model is
    destroyed, or gets another server, its pending promises are rejected, although the server may execute the request.
    If the engine is destroyed, they are never settled.
*/
class QmlLockMonitorModel : public QDistLock::LockMonitorModel, public QQmlParserStatus
{
    Q_OBJECT
    Q_INTERFACES(QQmlParserStatus)
    QML_NAMED_ELEMENT(LockMonitorModel)
    Q_PROPERTY(QString server READ server WRITE setServer NOTIFY serverChanged FINAL)
    Q_PROPERTY(QString keyPrefix READ keyPrefix WRITE setKeyPrefix RESET resetKeyPrefix NOTIFY keyPrefixChanged FINAL)
    Q_PROPERTY(int interval READ intervalMs WRITE setIntervalMs NOTIFY intervalChanged FINAL)
    Q_PROPERTY(double now READ nowNumber NOTIFY nowChanged FINAL)

public:
    explicit QmlLockMonitorModel(QObject *parent = nullptr);

    /// The server's URL; empty means LockRegistry::defaultServer().
    QString server() const { return m_server; }
    void setServer(const QString &server);
    /// LockRegistry::keyPrefix(); by default that of the locks which have the same server in QML.
    QString keyPrefix() const { return m_registry ? m_registry->keyPrefix() : m_keyPrefix.value_or(QString()); }
    void setKeyPrefix(const QString &prefix);
    void resetKeyPrefix();
    /// interval() in ms.
    int intervalMs() const { return int(interval().count()); }
    void setIntervalMs(int interval);
    /// now() as a JavaScript number, of a type that the QML tools know.
    double nowNumber() const { return double(now()); }

    /// Returns a promise that is resolved with an array of those who wait for the lock \a name, the next one first:
    /// { position, client, waited }, 1000 at most. It is rejected with an Error if the server could not be asked.
    Q_INVOKABLE QJSValue waiters(const QString &name);
    /// Takes the lock \a name away from the holder in the row, whose \a fencingToken that is, and never from the next
    /// one; readers, and holders of permits, lose it together. Returns a promise that is resolved with true if it was
    /// taken away, with false if that holder does not hold it any more, and rejected with an Error if the server could
    /// not be reached or refused, or \a fencingToken is none.
    Q_INVOKABLE QJSValue forceRelease(const QString &name, double fencingToken);

    /// What clients have reported of the lock \a name, see LockMonitorModel::activity(): { wait, hold, failed, lost,
    /// holds }, where `wait` and `hold` are the counts of a histogram, and `holds` is a list of { fencingToken, client,
    /// acquired, waited, held }.
    Q_INVOKABLE QVariantMap activityOf(const QString &name) const;

    QVariant data(const QModelIndex &index, int role = Qt::DisplayRole) const override;
    QHash<int, QByteArray> roleNames() const override;

    void classBegin() override { m_isComplete = false; }
    void componentComplete() override;

Q_SIGNALS:
    void serverChanged();
    void keyPrefixChanged();
    void intervalChanged();

private:
    void useServer();

    QString m_server;
    std::optional<QString> m_keyPrefix;
    QString m_notifiedKeyPrefix;
    JsPromiseFactory m_promises;
    bool m_isComplete = true;
    std::unique_ptr<LockRegistry> m_registry; ///< null before the component is complete
};

} // namespace QDistLock
