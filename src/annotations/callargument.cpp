// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/callargument.h"

#include <QtCore/qlocale.h>
#include <QtCore/qrect.h>
#include <QtCore/qsequentialiterable.h>

#include <cmath>

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

ArgumentMatch refuse(QString *error, const QString &text)
{
    *error = text;
    return ArgumentMatch::None;
}

/// Recognised by name, since the class is part of QtQml, which this library does not use.
bool isFunction(QMetaType type)
{
    return qstrcmp(type.name(), "QJSValue") == 0;
}

QString nameOf(QMetaType type)
{
    return isFunction(type) ? u"a JavaScript function"_s : QString::fromLatin1(type.name());
}

bool isPointer(QMetaType type)
{
    const QMetaType::TypeFlags flags = type.flags();
    return flags.testFlag(QMetaType::IsPointer) || flags.testFlag(QMetaType::PointerToQObject)
            || flags.testFlag(QMetaType::PointerToGadget);
}

bool isNumber(QMetaType type)
{
    switch (type.id()) {
    case QMetaType::Bool:
    case QMetaType::Char:
    case QMetaType::SChar:
    case QMetaType::UChar:
    case QMetaType::Short:
    case QMetaType::UShort:
    case QMetaType::Int:
    case QMetaType::UInt:
    case QMetaType::Long:
    case QMetaType::ULong:
    case QMetaType::LongLong:
    case QMetaType::ULongLong:
    case QMetaType::Float:
    case QMetaType::Double:
        return true;
    default:
        return type.flags().testFlag(QMetaType::IsEnumeration);
    }
}

bool isDate(QMetaType type)
{
    return type.id() == QMetaType::QDateTime || type.id() == QMetaType::QDate || type.id() == QMetaType::QTime;
}

/// \a number as JavaScript writes it.
QString toText(double number)
{
    if (std::isnan(number))
        return u"NaN"_s;
    if (std::isinf(number))
        return number > 0 ? u"Infinity"_s : u"-Infinity"_s;
    if (number == 0)
        return u"0"_s; // -0 too
    const double size = std::abs(number);
    if (size >= 1e-6 && size < 1e21)
        return QString::number(number, 'f', QLocale::FloatingPointShortest);
    QString text = QString::number(number, 'e', QLocale::FloatingPointShortest);
    return text.replace(QLatin1String("e-0"), QLatin1String("e-"));
}

/// A text that is equal for equal numbers of different types.
QString toText(const QVariant &number)
{
    const QMetaType type = number.metaType();
    switch (type.id()) {
    case QMetaType::Float:
    case QMetaType::Double:
        return toText(number.toDouble());
    case QMetaType::ULong:
    case QMetaType::ULongLong:
        return QString::number(number.toULongLong());
    default:
        return type.flags().testFlag(QMetaType::IsUnsignedEnumeration) ? QString::number(number.toULongLong())
                                                                       : QString::number(number.toLongLong());
    }
}

/// Whether \a number is a float. Fractions may be rounded, since nearly all of them would be refused otherwise.
bool fitsFloat(double number)
{
    const double rounded = double(float(number));
    return !std::isfinite(number) || rounded == number || (std::isfinite(rounded) && number != std::trunc(number));
}

ArgumentMatch convertNumber(QVariant *argument, QMetaType type, QString *error)
{
    QVariant number = *argument;
    const bool converted = number.convert(type);
    const bool same = converted && toText(number) == toText(*argument);
    if (!same && !(converted && type.id() == QMetaType::Float && fitsFloat(argument->toDouble())))
        return refuse(error, u"%1 does not fit into %2"_s.arg(toText(*argument), nameOf(type)));
    *argument = number;
    return ArgumentMatch::Related;
}

bool isSequence(QMetaType type)
{
    return type.id() != QMetaType::QString && type.id() != QMetaType::QByteArray
            && QMetaType::canView(type, QMetaType::fromType<QSequentialIterable>());
}

ArgumentMatch convertSequence(QVariant *argument, QMetaType type, QString *error)
{
    QVariant sequence(type);
    auto target = sequence.view<QSequentialIterable>();
    const QMetaType elementType = target.metaContainer().valueMetaType();
    int position = 0;
    for (QVariant element : argument->value<QSequentialIterable>()) {
        ++position;
        if (elementType != QMetaType::fromType<QVariant>()
            && convertArgument(&element, elementType, error) == ArgumentMatch::None) {
            return refuse(error, u"element %1: %2"_s.arg(position).arg(*error));
        }
        target.addValue(element, QSequentialIterable::AtEnd);
    }
    *argument = sequence;
    return ArgumentMatch::Related;
}

/// Whether \a to, to which QVariant converted \a from, has another meaning.
bool isLossy(const QVariant &from, const QVariant &to)
{
    switch (to.metaType().id()) {
    case QMetaType::Bool: // any text but "", "0" and "false" becomes true
        return from.toString() != to.toString();
    case QMetaType::QString: // an invalid date becomes an empty text, and bytes that are not UTF-8 become U+FFFD
        return (to.toString().isEmpty() && isDate(from.metaType()))
                || (from.metaType().id() == QMetaType::QByteArray && to.toString().toUtf8() != from.toByteArray());
    case QMetaType::QByteArray: // half a surrogate pair becomes '?'
        return from.metaType().id() == QMetaType::QString && QString::fromUtf8(to.toByteArray()) != from.toString();
    case QMetaType::QPoint: // fractions are rounded
        return from.metaType().id() == QMetaType::QPointF && from.toPointF() != to.toPointF();
    case QMetaType::QSize:
        return from.metaType().id() == QMetaType::QSizeF && from.toSizeF() != to.toSizeF();
    case QMetaType::QRect:
        return from.metaType().id() == QMetaType::QRectF && from.toRectF() != to.toRectF();
    case QMetaType::QStringList:
        return false;
    default: // a text becomes the list of its characters
        return isSequence(to.metaType());
    }
}

} // namespace

ArgumentMatch convertArgument(QVariant *argument, QMetaType type, QString *error)
{
    const QMetaType from = argument->metaType();
    if (!type.isValid())
        return refuse(error, u"the parameter's type is unknown to Qt; see Q_DECLARE_METATYPE"_s);
    if (from == type)
        return ArgumentMatch::Same;
    if (type == QMetaType::fromType<QVariant>())
        return ArgumentMatch::Converted;

    const QString name = nameOf(type);
    if (!from.isValid())
        return refuse(error, u"there is no value (undefined) for %1"_s.arg(name));
    if (from.id() == QMetaType::Nullptr && type.id() != QMetaType::QJsonValue) {
        if (!isPointer(type))
            return refuse(error, u"null is no %1"_s.arg(name));
        *argument = QVariant(type);
        return ArgumentMatch::Related;
    }
    if (isNumber(from) && isNumber(type))
        return convertNumber(argument, type, error);
    if (isSequence(from) && isSequence(type))
        return convertSequence(argument, type, error);

    if (type.id() == QMetaType::QString && (from.id() == QMetaType::Double || from.id() == QMetaType::Float)) {
        *argument = toText(argument->toDouble());
        return ArgumentMatch::Converted;
    }
    if (type.id() == QMetaType::QChar && from.id() == QMetaType::QString && argument->toString().size() == 1) {
        *argument = argument->toString().at(0);
        return ArgumentMatch::Converted;
    }
    QVariant value = *argument;
    if (isFunction(from) || !value.canConvert(type) || !value.convert(type) || isLossy(*argument, value))
        return refuse(error, u"%1 cannot be converted to %2"_s.arg(nameOf(from), name));
    *argument = value;
    return isPointer(from) && isPointer(type) ? ArgumentMatch::Related : ArgumentMatch::Converted;
}

} // namespace QDistLock
