// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmlreadwritelock.h"

#include <QDistLock/impl/readwritepair.h>

namespace QDistLock {

QmlReadWriteLock::QmlReadWriteLock(QObject *parent)
    : QObject(parent)
    , m_read(new QmlDistributedLock(this))
    , m_write(new QmlDistributedLock(this))
{
    Detail::makeReadWritePair(m_read, m_write);
    m_read->m_other = m_write;
    m_write->m_other = m_read;
    for (QmlDistributedLock *lock : {m_read.data(), m_write.data()}) {
        const auto updateOther = [other = lock->m_other] {
            if (other)
                other->m_keeper.scheduleUpdate();
        };
        connect(lock, &DistributedLock::stateChanged, this, updateOther);
        connect(lock, &QmlDistributedLock::activeChanged, this, updateOther);
        connect(lock, &QObject::destroyed, this, updateOther);
    }
}

// Both locks change before the first signal, whose handler may change them again.

void QmlReadWriteLock::setName(const QString &name)
{
    if (name == m_name)
        return;
    m_name = name;
    const QPointer<QmlReadWriteLock> alive(this);
    for (QmlDistributedLock *lock : {m_read.data(), m_write.data()}) {
        if (lock)
            lock->requestName(name);
    }
    if (m_read)
        Q_EMIT m_read->nameChanged();
    if (alive && m_write)
        Q_EMIT m_write->nameChanged();
    if (alive)
        Q_EMIT nameChanged();
}

void QmlReadWriteLock::setServer(const QString &server)
{
    if (server == m_server)
        return;
    m_server = server;
    const QPointer<QmlReadWriteLock> alive(this);
    for (QmlDistributedLock *lock : {m_read.data(), m_write.data()}) {
        if (lock)
            lock->m_keeper.requestServer(server);
    }
    if (m_read)
        Q_EMIT m_read->serverChanged();
    if (alive && m_write)
        Q_EMIT m_write->serverChanged();
    if (alive)
        Q_EMIT serverChanged();
}

void QmlReadWriteLock::classBegin()
{
    m_read->classBegin();
    m_write->classBegin();
}

void QmlReadWriteLock::componentComplete()
{
    const QPointer<QmlReadWriteLock> alive(this);
    if (m_read)
        m_read->componentComplete();
    if (alive && m_write)
        m_write->componentComplete();
}

} // namespace QDistLock
