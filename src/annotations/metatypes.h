// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qbytearraylist.h>
#include <QtCore/qmetatype.h>
#include <QtCore/qstring.h>
#include <QtCore/qvariant.h>

/// What valuepath.cpp and keytext.cpp ask of the type of a value.
namespace QDistLock::MetaTypes {

using namespace Qt::StringLiterals;

inline QString typeName(QMetaType type)
{
    return type.isValid() ? QString::fromLatin1(type.name()) : u"a type unknown to moc"_s;
}

inline QString typeNames(const QList<QMetaType> &types)
{
    QByteArrayList names;
    for (const QMetaType type : types)
        names.append(type.isValid() ? type.name() : "an unknown type");
    return QString::fromLatin1(names.join(", "));
}

inline bool hasFlag(QMetaType type, QMetaType::TypeFlag flag)
{
    return type.isValid() && type.flags().testFlag(flag);
}

/// The value inside QVariants inside \a value.
inline QVariant unwrapped(QVariant value)
{
    while (value.metaType() == QMetaType::fromType<QVariant>())
        value = QVariant(*static_cast<const QVariant *>(value.constData()));
    return value;
}

} // namespace QDistLock::MetaTypes
