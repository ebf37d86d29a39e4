// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearray.h>
#include <QtCore/qhash.h>
#include <QtCore/qmetaobject.h>

namespace QDistLock::Detail {

/// For QAbstractItemModel::roleNames(): the names of the enumeration \a roles, with a small first letter.
inline QHash<int, QByteArray> roleNames(const QMetaEnum &roles)
{
    QHash<int, QByteArray> names;
    for (int i = 0; i < roles.keyCount(); ++i) {
        const QByteArray name = roles.key(i);
        names.insert(roles.value(i), name.first(1).toLower() + name.sliced(1));
    }
    return names;
}

} // namespace QDistLock::Detail
