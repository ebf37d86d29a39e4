// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/keytext.h"

#include "annotations/metatypes.h"
#include "annotations/parsing.h"

#include <QDistLock/annotations.h>
#include <QDistLock/impl/keptarguments.h>

#include <QtCore/qdatetime.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qstringconverter.h>
#include <QtCore/qurl.h>
#include <QtCore/quuid.h>

#include <limits>
#include <string>

using namespace Qt::StringLiterals;

namespace QDistLock {

using namespace MetaTypes;
using namespace Parsing;

namespace {

/// The enumerator of an enumeration or flags type; invalid if moc does not know it.
QMetaEnum findEnumerator(QMetaType type)
{
    const QMetaObject *const object = type.metaObject();
    if (!object)
        return {};
    QByteArray name = type.name();
    if (name.startsWith("QFlags<") && name.endsWith('>'))
        name = name.mid(7).chopped(1);
    name = name.mid(name.lastIndexOf(':') + 1);
    for (int i = 0; i < object->enumeratorCount(); ++i) {
        const QMetaEnum enumerator = object->enumerator(i);
        if (name == enumerator.name() || name == enumerator.enumName())
            return enumerator;
    }
    return {};
}

QString enumText(const QVariant &value)
{
    const qint64 number = value.toLongLong();
    const QMetaEnum enumerator = findEnumerator(value.metaType());
    // QMetaEnum has 32 bits: it takes 0xFFFFFFFF of a longer signed type for -1.
    const bool isUnsigned = hasFlag(value.metaType(), QMetaType::IsUnsignedEnumeration);
    const bool isLong = value.metaType().sizeOf() > qsizetype(sizeof(int)) && !isUnsigned;
    const qint64 greatest = isLong ? (std::numeric_limits<int>::max)() : qint64((std::numeric_limits<uint>::max)());
    if (enumerator.isValid() && number >= (std::numeric_limits<int>::min)() && number <= greatest) {
        const QByteArray keys = enumerator.isFlag() ? enumerator.valueToKeys(int(number))
                                                    : QByteArray(enumerator.valueToKey(int(number)));
        // valueToKeys() drops flags that have no name.
        if (!keys.isEmpty() && enumerator.keysToValue(keys.constData()) == int(number))
            return QString::fromLatin1(keys);
    }
    return QString::number(number);
}

std::optional<QString> utf8ToKeyText(QByteArrayView bytes, QString *error)
{
    QStringDecoder decoder(QStringDecoder::Utf8, QStringDecoder::Flag::Stateless);
    const QString text = decoder(bytes);
    if (decoder.hasError())
        return fail(error, u"its bytes are not UTF-8"_s);
    return text;
}

} // namespace

std::optional<QString> valueToKeyText(const QVariant &given, QString *error)
{
    const QVariant value = unwrapped(given);
    const QMetaType type = value.metaType();
    switch (type.id()) {
    case QMetaType::UnknownType:
        return fail(error, u"it has no value"_s);
    case QMetaType::QString:
        return value.toString();
    case QMetaType::QByteArray:
        return utf8ToKeyText(value.toByteArray(), error);
    case QMetaType::QUuid:
        return value.toUuid().toString(QUuid::WithoutBraces);
    case QMetaType::QDateTime:
        return value.toDateTime().toUTC().toString(Qt::ISODateWithMs);
    case QMetaType::QUrl:
        return value.toUrl().toString(QUrl::FullyEncoded | QUrl::RemovePassword);
    case QMetaType::SChar:
        return QString::number(int(*static_cast<const signed char *>(value.constData())));
    case QMetaType::UChar:
        return QString::number(int(*static_cast<const unsigned char *>(value.constData())));
    case QMetaType::Char:
        return QString(QLatin1Char(*static_cast<const char *>(value.constData())));
    default:
        break;
    }
    if (hasFlag(type, QMetaType::IsEnumeration))
        return enumText(value);
    if (type == QMetaType::fromType<std::string>())
        return utf8ToKeyText(value.value<std::string>(), error);
    QVariant text = Detail::ownedArgument(value); // QVariant does not convert views
    if (text.metaType().id() == QMetaType::QByteArray)
        return utf8ToKeyText(text.toByteArray(), error);
    if (!text.canConvert<QString>() || !text.convert(QMetaType::fromType<QString>()))
        return fail(error, u"%1 cannot be written as text"_s.arg(typeName(type)));
    return text.toString();
}

QString escapedForKey(QStringView text, char32_t separator)
{
    static constexpr char16_t digits[] = u"0123456789ABCDEF";
    QString escaped;
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text.at(i);
        const bool isPair = c.isHighSurrogate() && i + 1 < text.size() && text.at(i + 1).isLowSurrogate();
        const QStringView character = text.sliced(i, isPair ? 2 : 1);
        const char32_t codePoint = isPair ? QChar::surrogateToUcs4(c, text.at(++i)) : c.unicode();
        if (codePoint != separator && (codePoint >= 0x80 || isSafeInKeys(c.unicode()))) {
            escaped += character;
            continue;
        }
        const QByteArray utf8 = character.toUtf8();
        for (const char byte : utf8) {
            escaped += u'%';
            escaped += QChar(digits[uchar(byte) >> 4]);
            escaped += QChar(digits[uchar(byte) & 15]);
        }
    }
    return escaped;
}

bool isSafeInKeys(char16_t c)
{
    return c >= 0x80 || isLetter(c) || isDigit(c) || c == u'-' || c == u'.' || c == u'@' || c == u'+' || c == u'~';
}

QString keyText(const QVariant &value)
{
    QString error;
    return escapedForKey(valueToKeyText(value, &error).value_or(QString()));
}

} // namespace QDistLock
