// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotation.h"

#include "engine/lockengine.h"
#include "redis/serverurl.h"
#include "servername.h"

#include <QDistLock/lockregistry.h>
#include <QDistLock/lockresult.h>

#include <QtCore/qdatetime.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qstringconverter.h>
#include <QtCore/quuid.h>
#include <QtCore/qvariant.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

using Detail::quoted;

namespace {

constexpr char LockInfoName[] = "QDistLock.lock:";
constexpr char OptionsInfoName[] = "QDistLock.options:";

std::nullopt_t fail(QString *error, const QString &text)
{
    *error = text;
    return std::nullopt;
}

QString atPosition(qsizetype index, const QString &text)
{
    return QStringLiteral("at position %1: %2").arg(index + 1).arg(text);
}

bool isLetter(QChar c)
{
    return (c >= u'a' && c <= u'z') || (c >= u'A' && c <= u'Z') || c == u'_';
}

bool isDigit(QChar c)
{
    return c >= u'0' && c <= u'9';
}

bool isIdentifier(QStringView text)
{
    return !text.isEmpty() && isLetter(text.front())
            && std::all_of(text.begin(), text.end(), [](QChar c) { return isLetter(c) || isDigit(c); });
}

/// Decimal digits only; nullopt also for what does not fit.
std::optional<qint64> toNumber(QStringView text)
{
    if (text.isEmpty() || !std::all_of(text.begin(), text.end(), isDigit))
        return std::nullopt;
    bool ok = false;
    const qint64 number = text.toLongLong(&ok);
    return ok ? std::optional(number) : std::nullopt;
}

std::optional<milliseconds> toDuration(QStringView text, QString *error)
{
    static constexpr struct
    {
        const char16_t *name;
        milliseconds length;
    } units[] = {{u"ms", 1ms}, {u"s", 1s}, {u"min", 1min}, {u"h", 1h}};

    const auto digits = std::find_if_not(text.begin(), text.end(), isDigit) - text.begin();
    const QStringView unit = text.sliced(digits).trimmed();
    const auto number = toNumber(text.first(digits));
    for (const auto &known : units) {
        if (!number || unit != QStringView(known.name))
            continue;
        // The greatest one means for ever.
        if (*number > ((milliseconds::max)() - 1ms) / known.length)
            return fail(error, QStringLiteral("%1 is too long").arg(quoted(text)));
        return milliseconds(known.length * *number);
    }
    return fail(error, QStringLiteral("%1 is not a duration; write a whole number and its unit, ms, s, min or h, as "
                                      "in 250ms or 2s")
                               .arg(quoted(text)));
}

std::optional<bool> toBool(QStringView text, QString *error)
{
    if (text == u"true")
        return true;
    if (text == u"false")
        return false;
    return fail(error, QStringLiteral("%1 is neither true nor false").arg(quoted(text)));
}

std::optional<int> toInt(QStringView text, QString *error)
{
    const auto number = toNumber(text);
    if (!number || *number > (std::numeric_limits<int>::max)())
        return fail(error, QStringLiteral("%1 is not a whole number").arg(quoted(text)));
    return int(*number);
}

std::optional<OnBusy> toOnBusy(QStringView text, QString *error)
{
    if (text == u"wait")
        return OnBusy::Wait;
    if (text == u"skip")
        return OnBusy::Skip;
    if (text == u"fail")
        return OnBusy::Fail;
    if (text == u"latest")
        return OnBusy::Latest;
    return fail(error, QStringLiteral("%1 is none of wait, skip, fail, latest").arg(quoted(text)));
}

std::optional<int> toMaxQueued(QStringView text, QString *error)
{
    if (text == u"unlimited")
        return (std::numeric_limits<int>::max)();
    const auto number = toInt(text, error);
    if (number == 0)
        return fail(error, QStringLiteral("0 would let no call wait; write onBusy=fail or onBusy=skip"));
    return number;
}

std::optional<QUrl> toServer(QStringView text, QString *error)
{
    const QUrl url(text.toString(), QUrl::StrictMode);
    if (url.isValid()
        && (url.scheme() == u"memory" || url.scheme() == u"redis+sentinel" || url.scheme() == u"redis+cluster"
            || url.scheme() == u"redlock")) {
        return normalizedServer(url);
    }
    QString problem;
    if (!QtRedis::ServerUrl::parse(url, &problem, {QStringLiteral("memory")}))
        return fail(error, problem);
    return normalizedServer(url);
}

/// The options text without a password that stands in it.
QString withoutSecrets(const QString &text)
{
    // Up to the last '@': a ';' in the password ends the option, but is not the end of the password.
    static const QRegularExpression userInfo(QStringLiteral("//.*@"), QRegularExpression::DotMatchesEverythingOption);
    QString shown = text;
    return shown.replace(userInfo, QStringLiteral("//…@"));
}

QString quotedName(const QByteArray &name)
{
    return quoted(QString::fromUtf8(name));
}

QString typeName(QMetaType type)
{
    return type.isValid() ? QString::fromLatin1(type.name()) : QStringLiteral("a type unknown to moc");
}

bool hasFlag(QMetaType type, QMetaType::TypeFlag flag)
{
    return type.isValid() && type.flags().testFlag(flag);
}

QVariant unwrapped(QVariant value)
{
    while (value.metaType() == QMetaType::fromType<QVariant>())
        value = QVariant(*static_cast<const QVariant *>(value.constData()));
    return value;
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
        *error = QStringLiteral("%1 has no readable property %2")
                         .arg(QString::fromLatin1(object->className()), quotedName(name));
    }
    return property;
}

QString noProperties(QMetaType type, const QByteArray &name)
{
    return QStringLiteral("%1 has no properties, so no %2").arg(typeName(type), quotedName(name));
}

std::optional<QVariant> readProperty(const QVariant &value, const QByteArray &name, QString *error)
{
    const QMetaType type = value.metaType();
    if (!value.isValid())
        return fail(error, QStringLiteral("there is no value to read %1 of").arg(quotedName(name)));
    if (isNullPointer(value))
        return fail(error, QStringLiteral("a null pointer (%1) has no %2").arg(typeName(type), quotedName(name)));
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

/// Of an enumeration or flags type; invalid if moc knows nothing of it.
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
    // QMetaEnum knows 32 bits: of a longer, signed type it takes 0xFFFFFFFF for -1.
    const bool isUnsigned = hasFlag(value.metaType(), QMetaType::IsUnsignedEnumeration);
    const bool isLong = value.metaType().sizeOf() > qsizetype(sizeof(int)) && !isUnsigned;
    const qint64 greatest = isLong ? (std::numeric_limits<int>::max)() : qint64((std::numeric_limits<uint>::max)());
    if (enumerator.isValid() && number >= (std::numeric_limits<int>::min)() && number <= greatest) {
        const QByteArray keys = enumerator.isFlag() ? enumerator.valueToKeys(int(number))
                                                    : QByteArray(enumerator.valueToKey(int(number)));
        // Flags without a name are left out.
        if (!keys.isEmpty() && enumerator.keysToValue(keys.constData()) == int(number))
            return QString::fromLatin1(keys);
    }
    return QString::number(number);
}

std::optional<bool> toCondition(const QVariant &value, QString *error)
{
    if (isNullPointer(value))
        return false;
    if (hasFlag(value.metaType(), QMetaType::IsPointer) || isObject(value))
        return true;
    if (!value.isValid() || !value.canConvert<bool>())
        return fail(error, QStringLiteral("%1 is neither true nor false").arg(typeName(value.metaType())));
    return value.toBool();
}

/// `name` of "QDistLock.lock:name"; empty if it is another class info.
QByteArray annotatedName(const QMetaClassInfo &info)
{
    const QByteArrayView name(info.name());
    const QByteArrayView start(LockInfoName);
    return name.startsWith(start) ? name.sliced(start.size()).toByteArray() : QByteArray();
}

struct RawAnnotation
{
    QString key;
    QString options;
};

/// Those that \a object itself has for \a method, base classes left out.
QList<RawAnnotation> ownAnnotations(const QMetaObject *object, const QByteArray &method)
{
    QList<RawAnnotation> annotations;
    for (int i = object->classInfoOffset(); i < object->classInfoCount(); ++i) {
        if (annotatedName(object->classInfo(i)) != method)
            continue;
        RawAnnotation annotation{QString::fromUtf8(object->classInfo(i).value()), QString()};
        if (i + 1 < object->classInfoCount() && object->classInfo(i + 1).name() == OptionsInfoName + method)
            annotation.options = QString::fromUtf8(object->classInfo(i + 1).value());
        annotations.append(annotation);
    }
    return annotations;
}

const QMetaObject *annotatingClass(const QMetaObject *object, const QByteArray &method)
{
    while (object && ownAnnotations(object, method).isEmpty())
        object = object->superClass();
    return object;
}

bool canBeAnnotated(const QMetaMethod &method)
{
    return method.methodType() == QMetaMethod::Slot || method.methodType() == QMetaMethod::Method;
}

MethodSignature signatureOf(const QMetaObject *object, const QMetaMethod &method)
{
    MethodSignature signature{object, method.parameterNames(), {}};
    for (int i = 0; i < method.parameterCount(); ++i)
        signature.types.append(method.parameterMetaType(i));
    return signature;
}

/// The error for a method that returns before its work is done, in a type that cannot be followed; empty for any other.
QString returnProblem(const QMetaMethod &method)
{
    const QMetaType type = method.returnMetaType();
    const QString name = QString::fromLatin1(type.isValid() ? type.name() : method.typeName());
    static const QRegularExpression nested(QStringLiteral("^QFuture\\s*<\\s*QFuture\\b"));
    if (nested.match(name).hasMatch())
        return QStringLiteral("it returns %1, and the future inside is not followed; return future.unwrap()").arg(name);
    static const QRegularExpression asynchronous(
            QStringLiteral("^(QCoro::(\\w+::)?\\w*Task|std::(\\w+::)?(shared_)?future|boost::asio::awaitable)\\b"));
    if (!asynchronous.match(name).hasMatch())
        return QString();
    return QStringLiteral("it returns %1, and the lock would be given back before its work is done; return a QFuture, which "
                          "is followed to its end, or hold the lock in the coroutine with co_await "
                          "lock.acquireAwaitable()")
            .arg(name);
}

QString annotationText(const QByteArray &method, const RawAnnotation &annotation)
{
    QString text = QStringLiteral("QDL_LOCKED_METHOD(%1, %2")
                           .arg(nameForError(QString::fromUtf8(method)), quoted(annotation.key));
    if (!annotation.options.isEmpty())
        text += QStringLiteral(", %1").arg(quoted(withoutSecrets(annotation.options)));
    return text + QLatin1Char(')');
}

bool isSafeInKeys(char16_t c)
{
    return c >= 0x80 || isLetter(c) || isDigit(c) || c == u'-' || c == u'.' || c == u'@' || c == u'+' || c == u'~';
}

/// Whether it can stand in the `%XX` of an escaped character.
bool isOfEscapes(char32_t c)
{
    return c == U'%' || (c >= U'0' && c <= U'9') || (c >= U'A' && c <= U'F');
}

/// A character of \a literal at which an escaped value in front of it ends, if the value has it escaped; 0 if there is
/// none. One that is always escaped, if there is one.
char32_t separatorIn(const QString &literal)
{
    const QList<uint> characters = literal.toUcs4();
    char32_t separator = 0;
    for (const uint c : characters) {
        if (isOfEscapes(c))
            continue;
        if (c < 0x80 && !isSafeInKeys(char16_t(c)))
            return c;
        if (!separator)
            separator = c;
    }
    return separator;
}

/// Whatever the key; \a options count together with it.
bool agree(const AnnotationOptions &a, const AnnotationOptions &b)
{
    const auto values = [](const AnnotationOptions &options) {
        const LockOptions &lock = options.lock;
        return std::tuple(options.onBusy, options.maxQueued, lock.lease, lock.wait, lock.retryInterval, lock.maxRetries, lock.autoRenew,
                          lock.fair, lock.minHold, lock.minReplicas, lock.replicaTimeout, lock.repairMissingTtl);
    };
    return values(a) == values(b);
}

} // namespace

QString nameForError(const QString &name)
{
    const bool isName = !name.isEmpty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](QChar c) {
        return isLetter(c) || isDigit(c) || c == u'.' || c == u':';
    });
    return isName ? name : quoted(name);
}

std::optional<ValuePath> ValuePath::parse(QStringView text, QString *error)
{
    ValuePath path;
    const QList<QStringView> parts = text.split(u'.');
    for (qsizetype i = 0; i < parts.size(); ++i) {
        const QStringView part = parts.at(i);
        const auto position = i == 0 ? toNumber(part) : std::nullopt;
        if (position && (*position < 1 || *position > 999 || part.front() == u'0'))
            return fail(error, QStringLiteral("parameters are numbered from 1 on"));
        if (!position && !isIdentifier(part))
            return fail(error, QStringLiteral("%1 is not the name of a parameter, with or without properties: "
                                              "{id}, {order.number} or {this.tenant}")
                                       .arg(quoted(text)));
        if (i == 0)
            path.m_source = part.toLatin1();
        else
            path.m_properties.append(part.toLatin1());
    }
    if (path.m_source == "this" && path.m_properties.isEmpty())
        return fail(error, QStringLiteral("\"this\" needs a property, as in {this.tenant}"));
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
            return QStringLiteral("there is no parameter %1; it has %2").arg(*position).arg(signature.types.size());
    } else {
        m_index = int(signature.names.indexOf(m_source));
        if (m_index < 0) {
            if (signature.types.isEmpty())
                return QStringLiteral("there is no parameter %1; it has none").arg(quotedName(m_source));
            if (signature.names.isEmpty()) {
                return QStringLiteral("there is no parameter %1: the names of parameters are known only of methods with "
                                      "QDL_LOCKED_METHOD(); write {1} for the first one")
                        .arg(quotedName(m_source));
            }
            const auto named = std::count_if(signature.names.begin(), signature.names.end(),
                                             [](const QByteArray &name) { return !name.isEmpty(); });
            if (named == 0) {
                return QStringLiteral("there is no parameter %1: the parameters have no names in the declaration; "
                                      "name them there, or write {1}")
                        .arg(quotedName(m_source));
            }
            return QStringLiteral("there is no parameter %1; it has %2")
                    .arg(quotedName(m_source), QString::fromLatin1(signature.names.join(", ")));
        }
    }
    // Of a pointer to an object only the call tells the class.
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
            return fail(error, QStringLiteral("there is no receiver"));
        const QMetaProperty property = findProperty(arguments.object->metaObject(), *properties++, error);
        if (!property.isReadable())
            return std::nullopt;
        value = unwrapped(property.read(arguments.object));
    } else {
        if (m_index >= arguments.count)
            return fail(error, QStringLiteral("the call has only %1 arguments").arg(arguments.count));
        if (!arguments.types[m_index].isValid())
            return fail(error, QStringLiteral("the parameter's type is unknown to Qt; see Q_DECLARE_METATYPE"));
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

static std::optional<QString> utf8ToKeyText(QByteArrayView bytes, QString *error)
{
    QStringDecoder decoder(QStringDecoder::Utf8, QStringDecoder::Flag::Stateless);
    const QString text = decoder(bytes);
    if (decoder.hasError())
        return fail(error, QStringLiteral("its bytes are not UTF-8"));
    return text;
}

std::optional<QString> valueToKeyText(const QVariant &given, QString *error)
{
    const QVariant value = unwrapped(given);
    const QMetaType type = value.metaType();
    switch (type.id()) {
    case QMetaType::UnknownType:
        return fail(error, QStringLiteral("it has no value"));
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
    // Views that slots take.
    if (type == QMetaType::fromType<QStringView>())
        return value.value<QStringView>().toString();
    if (type == QMetaType::fromType<QAnyStringView>())
        return value.value<QAnyStringView>().toString();
    if (type == QMetaType::fromType<QLatin1String>())
        return QString(value.value<QLatin1String>());
    if (type == QMetaType::fromType<QUtf8StringView>())
        return utf8ToKeyText(value.value<QUtf8StringView>(), error);
    if (type == QMetaType::fromType<QByteArrayView>())
        return utf8ToKeyText(value.value<QByteArrayView>(), error);
    if (type == QMetaType::fromType<std::string_view>())
        return utf8ToKeyText(value.value<std::string_view>(), error);
    if (type == QMetaType::fromType<const char *>())
        return utf8ToKeyText(value.value<const char *>(), error);
    QVariant text = value;
    if (!text.canConvert<QString>() || !text.convert(QMetaType::fromType<QString>()))
        return fail(error, QStringLiteral("%1 cannot be written as text").arg(typeName(type)));
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

std::optional<KeyTemplate> KeyTemplate::parse(QStringView text, QString *error)
{
    KeyTemplate key;
    QString literal;
    qsizetype lastEnd = 0; // of the last value
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text.at(i);
        const bool doubled = i + 1 < text.size() && text.at(i + 1) == c;
        if ((c == u'{' || c == u'}') && doubled) {
            literal += c;
            ++i;
        } else if (c == u'}') {
            return fail(error, atPosition(i, QStringLiteral("a } without its {; write }} for the character")));
        } else if (c == u'{') {
            const qsizetype end = text.indexOf(u'}', i);
            if (end < 0)
                return fail(error, atPosition(i, QStringLiteral("a { without its }; write {{ for the character")));
            QString problem;
            const bool mayBeEmpty = text.at(end - 1) == u'?';
            auto path = ValuePath::parse(text.sliced(i + 1, end - i - 1).chopped(mayBeEmpty ? 1 : 0), &problem);
            if (!path)
                return fail(error, atPosition(i, problem));
            if (!key.m_parts.isEmpty()) {
                Part &last = key.m_parts.last();
                last.separator = separatorIn(literal);
                if (!last.separator) {
                    const QString why = literal.isEmpty()
                            ? QStringLiteral("{%1} and {%2} are written without anything between them")
                            : QStringLiteral("only characters of an escaped value, 0 to 9, A to F and %, are between "
                                             "{%1} and {%2}");
                    const QString advice = QStringLiteral(", so that different values could give the same key; "
                                                          "separate them, as in {%1}:{%2}");
                    problem = (why + advice).arg(nameForError(last.value->toString()), nameForError(path->toString()));
                    return fail(error, atPosition(literal.isEmpty() ? i : lastEnd, problem));
                }
            }
            key.m_parts.append({std::exchange(literal, QString()), std::move(path), mayBeEmpty});
            i = end;
            lastEnd = end + 1;
        } else if (c.isNull()) {
            return fail(error, atPosition(i, QStringLiteral("a NUL character, which keys cannot have")));
        } else if (c == QChar::ReplacementCharacter) {
            return fail(error, atPosition(i, QStringLiteral("bytes that are not UTF-8; save the source file as UTF-8")));
        } else {
            literal += c;
        }
    }
    if (!literal.isEmpty())
        key.m_parts.append({literal, std::nullopt, false});
    if (key.m_parts.isEmpty())
        return fail(error, QStringLiteral("the key is empty"));
    return key;
}

QString KeyTemplate::bind(const MethodSignature &signature)
{
    for (Part &part : m_parts) {
        if (!part.value)
            continue;
        if (const QString problem = part.value->bind(signature); !problem.isEmpty())
            return QStringLiteral("{%1}: %2").arg(nameForError(part.value->toString()), problem);
    }
    return QString();
}

std::optional<QString> KeyTemplate::evaluate(const CallArguments &arguments, QString *error) const
{
    QString key;
    for (const Part &part : m_parts) {
        key += part.literal;
        if (!part.value)
            continue;
        QString problem;
        const auto value = part.value->read(arguments, &problem);
        const auto text = value ? valueToKeyText(*value, &problem) : std::nullopt;
        if (!text)
            return fail(error, QStringLiteral("{%1}: %2").arg(nameForError(part.value->toString()), problem));
        if (text->isEmpty() && !part.mayBeEmpty) {
            return fail(error, QStringLiteral("{%1}: the value is empty; a key without it could be that of another call. "
                                              "Write {%1?} if it may be empty")
                                       .arg(nameForError(part.value->toString())));
        }
        key += escapedForKey(*text, part.separator);
    }
    return key;
}

QString KeyTemplate::nameProblem(const QString &prefix) const
{
    QString name;
    for (const Part &part : m_parts) {
        if (part.mayBeEmpty)
            return QString();
        name += part.literal;
        if (part.value)
            name += u'0';
    }
    QString problem;
    LockKeys::make(prefix, name, &problem);
    return problem;
}

bool KeyTemplate::isSame(const QString &prefix, const KeyTemplate &other, const QString &otherPrefix) const
{
    if (prefix + m_parts.first().literal != otherPrefix + other.m_parts.first().literal)
        return false;
    return std::equal(m_parts.begin(), m_parts.end(), other.m_parts.begin(), other.m_parts.end(),
                      [&](const Part &a, const Part &b) {
                          const bool isFirst = &a == &m_parts.first();
                          const bool sameValue = a.value && b.value ? a.value->isSame(*b.value) : !a.value && !b.value;
                          return sameValue && (isFirst || a.literal == b.literal);
                      });
}

/// Sets the option \a name; what is wrong with it, in words, or nothing.
static QString setOption(AnnotationOptions *options, QStringView name, QStringView value)
{
    QString problem;
    // The field takes the value where there is one.
    const auto set = [](auto &field, const auto &parsed) {
        if (parsed)
            field = *parsed;
    };
    if (name == u"wait") {
        if (value == u"forever")
            options->lock.wait = LockOptions::Forever;
        else
            set(options->lock.wait, toDuration(value, &problem));
    } else if (name == u"lease") {
        set(options->lock.lease, toDuration(value, &problem));
    } else if (name == u"retryInterval") {
        set(options->lock.retryInterval, toDuration(value, &problem));
    } else if (name == u"maxRetries") {
        if (value == u"unlimited")
            options->lock.maxRetries = LockOptions::UnlimitedRetries;
        else
            set(options->lock.maxRetries, toInt(value, &problem));
    } else if (name == u"autoRenew") {
        set(options->lock.autoRenew, toBool(value, &problem));
    } else if (name == u"fair") {
        set(options->lock.fair, toBool(value, &problem));
    } else if (name == u"minHold") {
        set(options->lock.minHold, toDuration(value, &problem));
    } else if (name == u"keyPrefix") {
        options->lock.keyPrefix = value.toString();
    } else if (name == u"minReplicas") {
        set(options->lock.minReplicas, toInt(value, &problem));
    } else if (name == u"replicaTimeout") {
        set(options->lock.replicaTimeout, toDuration(value, &problem));
    } else if (name == u"repairMissingTtl") {
        set(options->lock.repairMissingTtl, toBool(value, &problem));
    } else if (name == u"onBusy") {
        set(options->onBusy, toOnBusy(value, &problem));
    } else if (name == u"maxQueued") {
        set(options->maxQueued, toMaxQueued(value, &problem));
    } else if (name == u"server") {
        set(options->server, toServer(value, &problem));
    } else if (name == u"condition") {
        options->conditionNegated = value.startsWith(u'!');
        options->condition = ValuePath::parse(value.sliced(options->conditionNegated ? 1 : 0).trimmed(), &problem);
    } else {
        return QStringLiteral("there is no option %1; there are wait, lease, retryInterval, maxRetries, autoRenew, fair, "
                              "minHold, keyPrefix, minReplicas, replicaTimeout, repairMissingTtl, onBusy, maxQueued, "
                              "condition and server")
                .arg(quoted(name));
    }
    return problem.isEmpty() ? QString() : QStringLiteral("%1: %2").arg(name, problem);
}

std::optional<AnnotationOptions> AnnotationOptions::parse(QStringView text, QString *error)
{
    AnnotationOptions options;
    QStringList problems;
    QList<QStringView> seen;
    qsizetype start = 0;
    const QList<QStringView> entries = text.split(u';');
    for (const QStringView entry : entries) {
        const auto spaces = std::find_if_not(entry.begin(), entry.end(), [](QChar c) { return c.isSpace(); }) - entry.begin();
        const qsizetype position = start + spaces;
        start += entry.size() + 1;
        if (entry.trimmed().isEmpty())
            continue;
        const qsizetype equals = entry.indexOf(u'=');
        const QStringView name = entry.first(equals < 0 ? entry.size() : equals).trimmed();
        QString problem;
        if (equals < 0)
            problem = QStringLiteral("%1 has no value; write name=value").arg(quoted(name));
        else if (seen.contains(name))
            problem = QStringLiteral("the option %1 is given twice").arg(quoted(name));
        else
            problem = setOption(&options, name, entry.sliced(equals + 1).trimmed());
        // It may be the rest of a password, and so may all that follows.
        const bool mayBeSecret = name != u"server" && seen.contains(u"server") && text.sliced(position).contains(u'@');
        seen.append(name);
        if (problem.isEmpty())
            continue;
        if (mayBeSecret) {
            problems.append(atPosition(position, QStringLiteral("this is no option; a ';' in the server's URL is written "
                                                                "%3B")));
            break;
        }
        problems.append(atPosition(position, problem));
    }
    // Only if every value could be read: the others are still the defaults.
    if (const QString problem = options.lock.validationError(); problems.isEmpty() && !problem.isEmpty())
        problems.append(problem);
    if (!problems.isEmpty())
        return fail(error, problems.join(QLatin1String("; ")));
    return options;
}

QString LockRequest::lockId() const
{
    return lockSpace(server) + QChar(QChar::Null) + key();
}

QString LockRequest::serverText() const
{
    return QtRedis::ServerUrl::withoutSecrets(server).toString();
}

bool LockedMethod::isAnnotated(const QMetaObject *object, const QByteArray &methodName)
{
    return annotatingClass(object, methodName) != nullptr;
}

QString LockedMethod::displayName() const
{
    if (m_methodName.isEmpty())
        return QString::fromLatin1(m_className);
    return QString::fromLatin1(m_className) + QLatin1String("::") + nameForError(QString::fromUtf8(m_methodName));
}

QString LockedMethod::describe(const QString &text, const QString &problem) const
{
    return QStringLiteral("%1: %2: %3").arg(displayName(), text, problem);
}

QStringList LockedMethod::contradictions() const
{
    QStringList problems;
    for (auto second = m_annotations.begin(); second != m_annotations.end(); ++second) {
        const auto first = std::find_if(m_annotations.begin(), second, [second](const Annotation &annotation) {
            return isSameLockSpace(normalizedServer(annotation.options.server), normalizedServer(second->options.server))
                    && annotation.key.isSame(annotation.options.lock.keyPrefix, second->key, second->options.lock.keyPrefix);
        });
        if (first != second && !agree(first->options, second->options)) {
            const QString problem = QStringLiteral("it has the same key as %1, but other options; give both the same");
            problems.append(describe(second->text, problem.arg(first->text)));
        }
    }
    return problems;
}

QString LockedMethod::add(const QString &key, const QString &options, const MethodSignature &signature)
{
    return add(key, options, annotationText(m_methodName, {key, options}), signature);
}

QString LockedMethod::add(const QString &key, const QString &options, const QString &text, const MethodSignature &signature)
{
    QString problem;
    const auto parsed = AnnotationOptions::parse(options, &problem);
    QStringList problems = addParsed(key, parsed.value_or(AnnotationOptions()), text, signature);
    if (!parsed)
        problems.append(QStringLiteral("options, ") + problem);
    return problems.isEmpty() ? QString() : describe(text, problems.join(QLatin1String("; ")));
}

QStringList LockedMethod::addParsed(const QString &key, const AnnotationOptions &options, const QString &text,
                                    const MethodSignature &signature)
{
    QStringList problems;
    const auto check = [&problems](const char *part, const QString &problem) {
        if (!problem.isEmpty())
            problems.append(QLatin1String(part) + problem);
    };
    QString problem;
    auto parsed = KeyTemplate::parse(key, &problem);
    if (parsed)
        problem = parsed->bind(signature);
    check("key, ", problem);
    Annotation annotation{parsed.value_or(KeyTemplate()), options, text};
    if (annotation.options.condition)
        check("condition, ", annotation.options.condition->bind(signature));
    check("options, ", options.lock.validationError());
    if (parsed)
        check("key, ", parsed->nameProblem(options.lock.keyPrefix));
    if (problems.isEmpty())
        m_annotations.append(annotation);
    return problems;
}

std::shared_ptr<const LockedMethod> LockedMethod::get(const QMetaObject *object, const QMetaMethod &method, QString *error)
{
    const QByteArray name = method.name();
    const QMetaObject *const owner = annotatingClass(object, name);
    auto locked = std::make_shared<LockedMethod>();
    locked->m_className = owner ? owner->className() : object->className();
    locked->m_methodName = name;
    locked->m_identity = locked->m_className + "::" + method.methodSignature();
    if (!owner) {
        *error = QStringLiteral("%1: there is no annotation for this method; write QDL_LOCKED_METHOD(%2, \"key\") after "
                                "Q_OBJECT where moc reads it, or give a key in the call%3")
                         .arg(locked->displayName(), nameForError(QString::fromUtf8(name)), brokenAnnotations(object));
        return nullptr;
    }
    // Parameters have the names they have where the annotation was written.
    const int index = owner->indexOfMethod(method.methodSignature().constData());
    const QMetaMethod declared = index >= 0 ? owner->method(index) : method;
    const MethodSignature signature = signatureOf(owner, declared);
    const auto annotations = ownAnnotations(owner, name);
    QStringList problems;
    for (const RawAnnotation &annotation : annotations) {
        if (const QString problem = locked->add(annotation.key, annotation.options, signature); !problem.isEmpty())
            problems.append(problem);
        if (const QString problem = returnProblem(declared); !problem.isEmpty())
            problems.append(locked->describe(annotationText(name, annotation), problem));
    }
    problems += locked->contradictions();
    *error = problems.join(QLatin1String("; "));
    if (!problems.isEmpty())
        return nullptr;
    return locked;
}

std::shared_ptr<const LockedMethod> LockedMethod::make(const QByteArray &className, const QByteArray &methodName,
                                                       const MethodSignature &signature, const QString &key,
                                                       const AnnotationOptions &options, QString *error)
{
    auto locked = std::make_shared<LockedMethod>();
    locked->m_className = className;
    locked->m_methodName = methodName;
    locked->m_identity = QByteArray::number(quintptr(locked.get()));
    const QString text = QStringLiteral("key %1").arg(quoted(key));
    const QStringList problems = locked->addParsed(key, options, text, signature);
    *error = problems.isEmpty() ? QString() : locked->describe(text, problems.join(QLatin1String("; ")));
    return problems.isEmpty() ? locked : nullptr;
}

std::shared_ptr<const LockedMethod> LockedMethod::make(const QByteArray &className, const QByteArray &methodName,
                                                       const MethodSignature &signature, const QString &key,
                                                       const QString &options, QString *error)
{
    auto locked = std::make_shared<LockedMethod>();
    locked->m_className = className;
    locked->m_methodName = methodName;
    locked->m_identity = QByteArray::number(quintptr(locked.get()));
    const QString text = QStringLiteral("key %1, options %2").arg(quoted(key), quoted(withoutSecrets(options)));
    *error = locked->add(key, options, text, signature);
    return error->isEmpty() ? locked : nullptr;
}

QString LockedMethod::brokenAnnotations(const QMetaObject *object)
{
    const QStringList problems = validate(object);
    return problems.isEmpty() ? QString()
                              : QStringLiteral("; broken annotations: ") + problems.join(QLatin1String("; "));
}

QStringList LockedMethod::validate(const QMetaObject *object)
{
    QStringList problems;
    QList<const QMetaObject *> line;
    for (const QMetaObject *owner = object; owner; owner = owner->superClass())
        line.prepend(owner);
    for (const QMetaObject *owner : std::as_const(line)) {
        QList<QByteArray> names;
        for (int i = owner->classInfoOffset(); i < owner->classInfoCount(); ++i) {
            const QByteArray name = annotatedName(owner->classInfo(i));
            if (!name.isEmpty() && !names.contains(name))
                names.append(name);
        }
        for (const QByteArray &name : std::as_const(names)) {
            bool found = false;
            const auto annotations = ownAnnotations(owner, name);
            for (const RawAnnotation &annotation : annotations) {
                LockedMethod locked;
                locked.m_className = owner->className();
                locked.m_methodName = name;
                found = false;
                for (int i = 0; i < owner->methodCount(); ++i) {
                    const QMetaMethod method = owner->method(i);
                    // A cloned one leaves out default arguments.
                    if (method.name() != name || !canBeAnnotated(method) || method.attributes() & QMetaMethod::Cloned)
                        continue;
                    found = true;
                    QString returned = returnProblem(method);
                    if (!returned.isEmpty())
                        returned = locked.describe(annotationText(name, annotation), returned);
                    for (const QString &problem :
                         {locked.add(annotation.key, annotation.options, signatureOf(owner, method)), returned}) {
                        if (!problem.isEmpty() && !problems.contains(problem))
                            problems.append(problem);
                    }
                }
                if (!found) {
                    problems.append(locked.describe(annotationText(name, annotation),
                                                    QStringLiteral("there is no slot or invokable method of this name")));
                }
            }
            for (int i = 0; i < owner->methodCount(); ++i) {
                const QMetaMethod method = owner->method(i);
                if (method.name() != name || !canBeAnnotated(method) || method.attributes() & QMetaMethod::Cloned)
                    continue;
                LockedMethod all;
                all.m_className = owner->className();
                all.m_methodName = name;
                for (const RawAnnotation &annotation : annotations)
                    all.add(annotation.key, annotation.options, signatureOf(owner, method));
                const QStringList contradictions = all.contradictions();
                for (const QString &problem : contradictions) {
                    if (!problems.contains(problem))
                        problems.append(problem);
                }
            }
        }
    }
    return problems;
}

std::optional<QList<LockRequest>> LockedMethod::requests(const CallArguments &arguments, QString *error) const
{
    QList<LockRequest> requests;
    for (const Annotation &annotation : m_annotations) {
        QString problem;
        if (annotation.options.condition) {
            const auto value = annotation.options.condition->read(arguments, &problem);
            const auto condition = value ? toCondition(*value, &problem) : std::nullopt;
            if (!condition) {
                return fail(error, describe(annotation.text, QStringLiteral("condition %1: %2").arg(
                                                                     nameForError(annotation.options.condition->toString()), problem)));
            }
            if (*condition == annotation.options.conditionNegated)
                continue;
        }
        const auto name = annotation.key.evaluate(arguments, &problem);
        if (!name)
            return fail(error, describe(annotation.text, QStringLiteral("key, ") + problem));
        QUrl server = annotation.options.server;
        if (server.isEmpty())
            server = LockRegistry::defaultServer();
        requests.append({server, *name, annotation.options.lock, annotation.options.onBusy,
                         annotation.options.maxQueued});
    }
    if (requests.size() < 2)
        return requests;
    // One order for all methods, so that no two wait for each other.
    std::stable_sort(requests.begin(), requests.end(),
                     [](const LockRequest &a, const LockRequest &b) { return a.lockId() < b.lockId(); });
    requests.erase(std::unique(requests.begin(), requests.end(),
                               [](const LockRequest &a, const LockRequest &b) { return a.lockId() == b.lockId(); }),
                   requests.end());
    return requests;
}

} // namespace QDistLock
