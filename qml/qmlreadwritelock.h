// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "qmldistributedlock.h"

namespace QDistLock {

/*!
    The QML element ReadWriteLock: two locks with the same name and owner, as those of the C++ class ReadWriteLock, one
    for reading and one for writing.

    If `read.active` and `write.active` are both true, writing goes first: `read` releases its lock, `write` acquires
    it, and when `write.active` becomes false, `read` acquires it again. Another writer may come in between, so what was
    read must be read again.

    Thread, errors, ownership: as QmlDistributedLock. The two locks belong to this object.
*/
class QmlReadWriteLock : public QObject, public QQmlParserStatus
{
    Q_OBJECT
    Q_INTERFACES(QQmlParserStatus)
    QML_NAMED_ELEMENT(ReadWriteLock)
    Q_PROPERTY(QString name READ name WRITE setName NOTIFY nameChanged FINAL)
    Q_PROPERTY(QString server READ server WRITE setServer NOTIFY serverChanged FINAL)
    Q_PROPERTY(QDistLock::QmlDistributedLock *read READ read CONSTANT FINAL)
    Q_PROPERTY(QDistLock::QmlDistributedLock *write READ write CONSTANT FINAL)

public:
    explicit QmlReadWriteLock(QObject *parent = nullptr);

    /// As those of QmlDistributedLock.
    ///@{
    QString name() const { return m_name; }
    void setName(const QString &name);
    QString server() const { return m_server; }
    void setServer(const QString &server);
    ///@}
    QmlDistributedLock *read() const { return m_read; }
    QmlDistributedLock *write() const { return m_write; }

    void classBegin() override;
    void componentComplete() override;

Q_SIGNALS:
    void nameChanged();
    void serverChanged();

private:
    QString m_name;
    QString m_server;
    // Null if the application has deleted it.
    const QPointer<QmlDistributedLock> m_read;
    const QPointer<QmlDistributedLock> m_write;
};

} // namespace QDistLock
