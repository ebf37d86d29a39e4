// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmlmultilock.h"

using namespace Qt::StringLiterals;

namespace QDistLock {

QmlMultiLock::QmlMultiLock(QObject *parent)
    : MultiLock(parent)
{
}

void QmlMultiLock::setNames(const QStringList &names)
{
    if (m_names == names)
        return;
    m_names = names;
    m_keeper.requestChange();
    Q_EMIT namesChanged();
}

void QmlMultiLock::applyName()
{
    MultiLock::setNames(m_names);
}

QString QmlMultiLock::subject() const
{
    QStringList quoted;
    for (const QString &name : m_names)
        quoted.append(Detail::quoted(name));
    return u"Locks %1"_s.arg(quoted.join(u", "_s));
}

/// That of the first lock, in the order in which they are acquired.
qint64 QmlMultiLock::presentToken() const
{
    return MultiLock::fencingToken(MultiLock::names().value(0));
}

} // namespace QDistLock
