// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/valuepath.h"

#include "annotations/metatypes.h"
#include "annotations/parsing.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

using Detail::quoted;
using namespace MetaTypes;
using namespace Parsing;

namespace {

bool isIdentifier(QStringView text)
{
    return !text.isEmpty() && isLetter(text.front())
            && std::all_of(text.begin(), text.end(), [](QChar c) { return isLetter(c) || isDigit(c); });
}

QString quotedName(const QByteArray &name)
{
    return quoted(QString::fromUtf8(name));
}

bool isObject(const QVariant &value)
{
    return hasFlag(value.metaType(), QMetaType::PointerToQObject) || value.canConvert<QObject *>();
}

bool isNullPointer(const QVariant &value)
{
    if (hasFlag(value.metaType(), QMetaType::IsPointer) || hasFlag(value.metaType(), QMetaType::PointerToGadget)
        || hasFlag(value.metaType(), QMetaType::PointerToQObject)) {
        return *static_cast<const void *const *>(value.constData()) == nullptr;
    }
    return isObject(value) && !value.value<QObject *>();
}

QMetaProperty findProperty(const QMetaObject *object, const QByteArray &name, QString *error)
{
    const int index = object->indexOfProperty(name.constData());
    const QMetaProperty property = index >= 0 ? object->property(index) : QMetaProperty();
    if (!property.isReadable()) {
        *error = u"%1 has no readable property %2"_s.arg(QString::fromLatin1(object->className()), quotedName(name));
    }
    return property;
}

QString noProperties(QMetaType type, const QByteArray &name)
{
    return u"%1 has no properties, so no %2"_s.arg(typeName(type), quotedName(name));
}

std::optional<QVariant> readProperty(const QVariant &value, const QByteArray &name, QString *error)
{
    const QMetaType type = value.metaType();
    if (!value.isValid())
        return fail(error, u"there is no value to read %1 from"_s.arg(quotedName(name)));
    if (isNullPointer(value))
        return fail(error, u"a null pointer (%1) has no %2"_s.arg(typeName(type), quotedName(name)));
    if (isObject(value)) {
        const auto *const object = hasFlag(type, QMetaType::PointerToQObject)
                ? *static_cast<const QObject *const *>(value.constData())
                : value.value<QObject *>();
        const QMetaProperty property = findProperty(object->metaObject(), name, error);
        return property.isReadable() ? std::optional(unwrapped(property.read(object))) : std::nullopt;
    }
    const bool byPointer = hasFlag(type, QMetaType::PointerToGadget);
    if (type.metaObject() && (byPointer || hasFlag(type, QMetaType::IsGadget))) {
        const void *const gadget = byPointer ? *static_cast<const void *const *>(value.constData()) : value.constData();
        const QMetaProperty property = findProperty(type.metaObject(), name, error);
        return property.isReadable() ? std::optional(unwrapped(property.readOnGadget(gadget))) : std::nullopt;
    }
    return fail(error, noProperties(type, name));
}

} // namespace

std::optional<ValuePath> ValuePath::parse(QStringView text, QString *error)
{
    ValuePath path;
    const QList<QStringView> parts = text.split(u'.');
    for (qsizetype i = 0; i < parts.size(); ++i) {
        const QStringView part = parts.at(i);
        const auto position = i == 0 ? toNumber(part) : std::nullopt;
        if (position && (*position < 1 || *position > 999 || part.front() == u'0'))
            return fail(error, u"parameters are numbered from 1 on"_s);
        if (!position && !isIdentifier(part))
            return fail(
                    error,
                    u"%1 is not the name of a parameter, with or without properties: {id}, {order.number} or {this.tenant}"_s
                            .arg(quoted(text)));
        if (i == 0)
            path.m_source = part.toLatin1();
        else
            path.m_properties.append(part.toLatin1());
    }
    if (path.m_source == "this" && path.m_properties.isEmpty())
        return fail(error, u"\"this\" needs a property, as in {this.tenant}"_s);
    return path;
}

QString ValuePath::toString() const
{
    return QString::fromLatin1((QList<QByteArray>{m_source} + m_properties).join('.'));
}

QString ValuePath::bind(const MethodSignature &signature)
{
    QString error;
    if (m_source == "this") {
        m_index = This;
        if (signature.object)
            findProperty(signature.object, m_properties.first(), &error);
        return error;
    }
    if (const auto position = toNumber(QString::fromLatin1(m_source))) {
        m_index = int(*position) - 1;
        if (m_index >= signature.types.size())
            return u"there is no parameter %1; it has %2"_s.arg(*position).arg(signature.types.size());
    } else {
        m_index = int(signature.names.indexOf(m_source));
        if (m_index < 0) {
            if (signature.types.isEmpty())
                return u"there is no parameter %1; it has none"_s.arg(quotedName(m_source));
            if (signature.names.isEmpty()) {
                return u"there is no parameter %1: the names of parameters are known only of methods with QDL_LOCKED_METHOD(); write {1} for the first one"_s
                        .arg(quotedName(m_source));
            }
            const auto named = std::count_if(signature.names.begin(), signature.names.end(),
                                             [](const QByteArray &name) { return !name.isEmpty(); });
            if (named == 0) {
                return u"there is no parameter %1: the parameters have no names in the declaration; name them there, or write {1}"_s
                        .arg(quotedName(m_source));
            }
            return u"there is no parameter %1; it has %2"_s.arg(quotedName(m_source),
                                                                QString::fromLatin1(signature.names.join(", ")));
        }
    }
    // The class of an object behind a pointer is known only in the call.
    const QMetaType type = signature.types.at(m_index);
    if (m_properties.isEmpty() || !type.isValid())
        return error;
    const bool isGadget = hasFlag(type, QMetaType::IsGadget) || hasFlag(type, QMetaType::PointerToGadget);
    if (isGadget && type.metaObject())
        findProperty(type.metaObject(), m_properties.first(), &error);
    else if (type.id() < QMetaType::User && type.id() != QMetaType::QVariant && type.id() != QMetaType::QObjectStar)
        error = noProperties(type, m_properties.first());
    return error;
}

std::optional<QVariant> ValuePath::read(const CallArguments &arguments, QString *error) const
{
    QVariant value;
    auto properties = m_properties.cbegin();
    if (m_index == This) {
        if (!arguments.object)
            return fail(error, u"there is no receiver"_s);
        const QMetaProperty property = findProperty(arguments.object->metaObject(), *properties++, error);
        if (!property.isReadable())
            return std::nullopt;
        value = unwrapped(property.read(arguments.object));
    } else {
        if (m_index >= arguments.count)
            return fail(error, u"the call has only %1 arguments"_s.arg(arguments.count));
        if (!arguments.types[m_index].isValid())
            return fail(error, u"the parameter's type is unknown to Qt; see Q_DECLARE_METATYPE"_s);
        value = unwrapped(QVariant(arguments.types[m_index], arguments.values[m_index]));
    }
    for (; properties != m_properties.cend(); ++properties) {
        auto next = readProperty(value, *properties, error);
        if (!next)
            return std::nullopt;
        value = std::move(*next);
    }
    return value;
}

std::optional<bool> toBool(const QVariant &value, QString *error)
{
    if (isNullPointer(value))
        return false;
    if (hasFlag(value.metaType(), QMetaType::IsPointer) || isObject(value))
        return true;
    if (!value.isValid() || !value.canConvert<bool>())
        return fail(error, u"%1 is neither true nor false"_s.arg(typeName(value.metaType())));
    return value.toBool();
}

} // namespace QDistLock
