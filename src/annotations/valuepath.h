// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qlist.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qstring.h>
#include <QtCore/qvariant.h>

#include <optional>

namespace QDistLock {

/// Pointers to the arguments of one call, and its receiver.
struct CallArguments
{
    const QObject *object = nullptr;
    qsizetype count = 0;
    const QMetaType *types = nullptr;
    const void *const *values = nullptr;
};

/// The parts of a method that an annotation may refer to, which are known before any call.
struct MethodSignature
{
    const QMetaObject *object = nullptr; ///< of the receiver; null if only the call knows it
    QList<QByteArray> names;             ///< of the parameters; empty for those without a name
    QList<QMetaType> types;              ///< of the parameters; invalid if moc knew only the name of the type
};

/*!
    The path of a value of a call: `this`, the name of a parameter, or its number from 1 on; then properties of gadgets
    and objects, as in `order.customer.id`.
*/
class ValuePath
{
public:
    /// Parses any \a text. nullopt with \a error.
    static std::optional<ValuePath> parse(QStringView text, QString *error);

    QString toString() const;
    /// Finds the parameter, and checks the properties whose class is known. Returns an error, or an empty text.
    QString bind(const MethodSignature &signature);
    /// Only after bind(). nullopt with \a error.
    std::optional<QVariant> read(const CallArguments &arguments, QString *error) const;
    /// Only after bind(): whether both read the same value of a call.
    bool isSame(const ValuePath &other) const { return m_index == other.m_index && m_properties == other.m_properties; }

private:
    static constexpr int This = -1;

    QByteArray m_source;
    QList<QByteArray> m_properties;
    int m_index = This; ///< the index of the parameter
};

/// A value of a condition: pointers are true if they are not null. nullopt with \a error.
std::optional<bool> toBool(const QVariant &value, QString *error);

} // namespace QDistLock
