// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmlreadwritelock.h"

#include <QDistLock/impl/readwritepair.h>

#include <QtCore/qpointer.h>

namespace QDistLock {

QmlReadWriteLock::QmlReadWriteLock(QObject *parent)
    : QObject(parent)
    , m_read(new QmlDistributedLock(this))
    , m_write(new QmlDistributedLock(this))
{
    Detail::makeReadWritePair(m_read, m_write);
    m_read->m_other = m_write;
    m_write->m_other = m_read;
    connect(m_read, &DistributedLock::stateChanged, this, [this] { m_write->m_keeper.scheduleUpdate(); });
    connect(m_write, &DistributedLock::stateChanged, this, [this] { m_read->m_keeper.scheduleUpdate(); });
    connect(m_write, &QmlDistributedLock::activeChanged, this, [this] { m_read->m_keeper.scheduleUpdate(); });
}

void QmlReadWriteLock::setName(const QString &name)
{
    if (name == this->name())
        return;
    const QPointer<QmlReadWriteLock> alive(this);
    m_read->requestName(name);
    if (alive)
        m_write->requestName(name);
    if (alive)
        Q_EMIT nameChanged();
}

void QmlReadWriteLock::setServer(const QString &server)
{
    if (server == this->server())
        return;
    const QPointer<QmlReadWriteLock> alive(this);
    m_read->m_keeper.setServer(server);
    if (alive)
        m_write->m_keeper.setServer(server);
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
    m_read->componentComplete();
    if (alive)
        m_write->componentComplete();
}

} // namespace QDistLock
