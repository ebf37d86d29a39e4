// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmldistributedlock.h"

#include <QDistLock/lockregistry.h>

#include <QtQml/qqmlinfo.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

QmlDistributedLock::QmlDistributedLock(QObject *parent)
    : DistributedLock(parent)
{
}

/// True, after a warning, if \a property is that of the QmlReadWriteLock which this lock is part of.
bool QmlDistributedLock::refuseInPair(const char *property) const
{
    if (m_other)
        qmlWarning(this) << "read and write of a ReadWriteLock have no \"" << property << "\" of their own";
    return m_other;
}

void QmlDistributedLock::setName(const QString &name)
{
    if (name == m_name || refuseInPair("name"))
        return;
    requestName(name);
    Q_EMIT nameChanged();
}

void QmlDistributedLock::requestName(const QString &name)
{
    m_name = name;
    m_keeper.requestChange();
}

void QmlDistributedLock::setServer(const QString &server)
{
    if (server != this->server() && !refuseInPair("server"))
        m_keeper.setServer(server);
}

void QmlDistributedLock::setQmlMode(Mode mode)
{
    if (!m_other)
        setMode(LockOptions::Mode(mode));
    else if (mode != qmlMode())
        refuseInPair("mode");
}

void QmlDistributedLock::applyName()
{
    if (DistributedLock::name() != m_name)
        DistributedLock::setName(m_name);
}

QString QmlDistributedLock::subject() const
{
    return u"Lock %1"_s.arg(Detail::quoted(m_name));
}

bool QmlDistributedLock::yields() const
{
    return m_other && mode() == LockOptions::Shared && m_other->isActive();
}

QJSValue QmlDistributedLock::forceRelease()
{
    return m_promises.promiseOf(
            this, m_keeper.requestedRegistry()->forceRelease(m_name),
            [](QJSEngine *, LockRegistry::Outcome outcome) { return outcome == LockRegistry::Done; });
}

} // namespace QDistLock
