// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is a key template and, in the lines below, the values of its parameters `id` and `any` in two calls. It
// checks three things: an error's position lies within the text; the key equals the one that a second, plain
// implementation of the rules makes; and calls with different values never have the same key.

#include "fuzz.h"

#include "annotations/keytext.h"
#include "annotations/lockedmethod.h"

#include <QtCore/qregularexpression.h>
#include <QtCore/qstringlist.h>

#include <algorithm>
#include <array>

using namespace Qt::StringLiterals;

using namespace QDistLock;

namespace {

struct Order
{
    Q_GADGET
    Q_PROPERTY(int number MEMBER number)
    Q_PROPERTY(QVariant anything MEMBER anything)
public:
    int number = 42;
    QVariant anything;
};

class Customer : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString name MEMBER name)
    Q_PROPERTY(Customer *partner MEMBER partner)
    Q_PROPERTY(Order order READ getOrder)
public:
    Order getOrder() const { return order; }

    QString name;
    Customer *partner = nullptr;
    Order order;
};

/// A call of `void ship(const QString &id, int count, const Order &order, Customer *customer, QVariant any, double)`.
class Call
{
public:
    Call(const QString &id, const QString &any)
        : m_id(id)
        , m_any(any)
    {
        m_order.anything = any;
        m_customer.name = id;
        m_customer.partner = id.isEmpty() ? nullptr : &m_customer; // round in a circle
    }

    CallArguments arguments() const
    {
        return {&m_customer, qsizetype(m_values.size()), m_types.data(), m_values.data()};
    }

    static MethodSignature signature()
    {
        const Call call{QString(), QString()};
        return {&Customer::staticMetaObject,
                {"id", "count", "order", "customer", "any", ""},
                {call.m_types.begin(), call.m_types.end()}};
    }

private:
    const QString m_id;
    const int m_count = -7;
    Order m_order;
    Customer m_customer;
    Customer *const m_pointer = &m_customer;
    const QVariant m_any;
    const double m_unnamed = 0.5;
    const std::array<QMetaType, 6> m_types{QMetaType::fromType<QString>(),  QMetaType::fromType<int>(),
                                           QMetaType::fromType<Order>(),    QMetaType::fromType<Customer *>(),
                                           QMetaType::fromType<QVariant>(), QMetaType::fromType<double>()};
    const std::array<const void *, 6> m_values{&m_id, &m_count, &m_order, &m_pointer, &m_any, &m_unnamed};
};

void checkError(const QString &error, QStringView text)
{
    FUZZ_CHECK(!error.isEmpty());
    static const QRegularExpression pattern(u"^at position (-?\\d+): ."_s);
    if (const auto match = pattern.match(error); match.hasMatch()) {
        const qlonglong position = match.captured(1).toLongLong();
        FUZZ_CHECK2(position >= 1 && position <= text.size(), error.toUtf8());
    }
}

struct Reading
{
    QString key;
    QStringList values; ///< the values of the call in the key
};

bool isHexDigitOrPercent(QChar c)
{
    return u"%0123456789ABCDEF"_s.contains(c);
}

QString escaped(const QString &value, const QString &separator)
{
    QString text;
    const QList<uint> characters = value.toUcs4();
    for (const uint c : characters) {
        const QString character = QStringView(QChar::fromUcs4(c)).toString();
        const bool safe = c >= 0x80 || QChar(c).isLetterOrNumber() || u"-_.@+~"_s.contains(character);
        if (safe && character != separator)
            text += character;
        else
            text += QLatin1Char('%') + QString::fromLatin1(character.toUtf8().toHex('%').toUpper());
    }
    return text;
}

/// A second, plain implementation of the rules: the meaning of \a text; nullopt if it is wrong or refers to a value
/// that this implementation does not know.
std::optional<Reading> plainReading(const QString &text, const QString &id, const QString &any)
{
    static const std::pair<const char *, QString> known[] = {
            {"count", u"-7"_s},
            {"2", u"-7"_s},
            {"order.number", u"42"_s},
            {"3.number", u"42"_s},
            {"this.order.number", u"42"_s},
            {"customer.order.number", u"42"_s},
            {"6", u"0.5"_s},
    };
    const auto valueOf = [&](const QString &path) -> std::optional<QString> {
        if (QStringList{u"id"_s, u"1"_s, u"this.name"_s, u"customer.name"_s, u"4.name"_s}.contains(path))
            return id;
        if (QStringList{u"any"_s, u"5"_s, u"order.anything"_s}.contains(path))
            return any;
        for (const auto &pair : known) {
            if (path == QLatin1String(pair.first))
                return pair.second;
        }
        return std::nullopt;
    };
    // Literals and, between them, values.
    QStringList literals{QString()};
    QStringList values;
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QStringView rest = QStringView(text).sliced(i);
        if (rest.startsWith(u"{{") || rest.startsWith(u"}}")) {
            literals.last() += text.at(i++);
        } else if (text.at(i) == u'}' || text.at(i).isNull() || text.at(i) == QChar::ReplacementCharacter) {
            return std::nullopt;
        } else if (text.at(i) == u'{') {
            const qsizetype end = text.indexOf(u'}', i);
            QString path = end < 0 ? QString() : text.mid(i + 1, end - i - 1);
            const bool mayBeEmpty = path.endsWith(u'?');
            path.chop(mayBeEmpty ? 1 : 0);
            const auto value = valueOf(path);
            if (!value || (value->isEmpty() && !mayBeEmpty))
                return std::nullopt;
            values.append(*value);
            literals.append(QString());
            i = end;
        } else {
            literals.last() += text.at(i);
        }
    }
    Reading reading{literals.first(), values};
    for (qsizetype i = 0; i < values.size(); ++i) {
        QString separator;
        if (i + 1 < values.size()) {
            QStringList candidates;
            const QList<uint> characters = literals.at(i + 1).toUcs4();
            for (const uint c : characters)
                candidates.append(QStringView(QChar::fromUcs4(c)).toString());
            candidates.removeIf([](const QString &c) { return isHexDigitOrPercent(c.front()); });
            if (candidates.isEmpty())
                return std::nullopt;
            const auto always = std::find_if(candidates.begin(), candidates.end(),
                                             [](const QString &c) { return escaped(c, QString()) != c; });
            separator = always == candidates.end() ? candidates.first() : *always;
        }
        reading.key += escaped(values.at(i), separator) + literals.at(i + 1);
    }
    return reading;
}

std::optional<QString> evaluate(const QString &text, const CallArguments &arguments)
{
    QString error;
    auto key = KeyTemplate::parse(text, &error);
    if (!key) {
        checkError(error, text);
        return std::nullopt;
    }
    FUZZ_CHECK(error.isEmpty());
    if (!key->bind(Call::signature()).isEmpty())
        return std::nullopt;
    const auto meaning = key->evaluate(arguments, &error);
    FUZZ_CHECK2(meaning.has_value() == error.isEmpty(), error.toUtf8());
    return meaning;
}

void checkPath(const QString &text)
{
    QString error;
    const auto path = ValuePath::parse(text, &error);
    FUZZ_CHECK(path.has_value() == error.isEmpty());
    FUZZ_CHECK(!path || path->toString() == text);
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const QString input = QString::fromUtf8(Fuzz::bytes(data, size));
    const QString text = input.section(u'\n', 0, 0);
    const auto check = [&](const QString &id, const QString &any) {
        const auto key = evaluate(text, Call(id, any).arguments());
        const auto expected = plainReading(text, id, any);
        if (expected && !text.isEmpty()) {
            const QString found = key.value_or(u"(wrong)"_s);
            FUZZ_CHECK2(key == expected->key, (text + u'\n' + found + u'\n' + expected->key).toUtf8());
        }
        return expected;
    };
    const auto first = check(input.section(u'\n', 1, 1), input.section(u'\n', 2, 2));
    const auto second = check(input.section(u'\n', 3, 3), input.section(u'\n', 4));
    if (first && second && first->key == second->key)
        FUZZ_CHECK2(first->values == second->values, (text + u'\n' + first->key).toUtf8());

    // Any text without these two characters can be written as a template.
    const QString plain = QString(input).remove(QChar::Null).remove(QChar::ReplacementCharacter);
    QString literal = plain;
    literal.replace(u'{', QLatin1String("{{")).replace(u'}', QLatin1String("}}"));
    const auto meant = evaluate(literal, Call(text, text).arguments());
    FUZZ_CHECK(literal.isEmpty() || meant == plain);

    checkPath(text);
    return 0;
}

#include "fuzz_keytemplate.moc"
