// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is a key template and, in a second line, the value of its parameter `id`. What is wrong is told with
// a place that is in the text; what is understood is what a plain reading of the rules says.

#include "fuzz.h"

#include "annotation.h"

#include <QtCore/qregularexpression.h>

#include <algorithm>
#include <array>

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
    explicit Call(const QString &value)
        : m_id(value)
        , m_any(value)
    {
        m_order.anything = value;
        m_customer.name = value;
        m_customer.partner = value.isEmpty() ? nullptr : &m_customer; // round in a circle
    }

    CallArguments arguments() const { return {&m_customer, qsizetype(m_values.size()), m_types.data(), m_values.data()}; }

    static MethodSignature signature()
    {
        const Call call{QString()};
        return {&Customer::staticMetaObject, {"id", "count", "order", "customer", "any", ""},
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
    const std::array<QMetaType, 6> m_types{QMetaType::fromType<QString>(), QMetaType::fromType<int>(),
                                           QMetaType::fromType<Order>(), QMetaType::fromType<Customer *>(),
                                           QMetaType::fromType<QVariant>(), QMetaType::fromType<double>()};
    const std::array<const void *, 6> m_values{&m_id, &m_count, &m_order, &m_pointer, &m_any, &m_unnamed};
};

void checkError(const QString &error, QStringView text)
{
    FUZZ_CHECK(!error.isEmpty());
    static const QRegularExpression pattern(QStringLiteral("^at position (-?\\d+): ."));
    if (const auto match = pattern.match(error); match.hasMatch()) {
        const qlonglong position = match.captured(1).toLongLong();
        FUZZ_CHECK2(position >= 1 && position <= text.size(), error.toUtf8());
    }
}

/// The rules once more, as simply as can be: what \a text means, or nullopt if it is wrong or refers to anything
/// that this does not know.
std::optional<QString> plainReading(QString text, const QString &id)
{
    static const std::pair<const char *, QString> known[] = {
            {"count", QStringLiteral("-7")},         {"2", QStringLiteral("-7")},
            {"order.number", QStringLiteral("42")},  {"3.number", QStringLiteral("42")},
            {"this.order.number", QStringLiteral("42")}, {"customer.order.number", QStringLiteral("42")},
            {"6", QStringLiteral("0.5")},
    };
    QString meaning;
    while (!text.isEmpty()) {
        const auto skip = [&text](qsizetype size) { text.remove(0, size); };
        if (text.startsWith(QLatin1String("{{")) || text.startsWith(QLatin1String("}}"))) {
            meaning += text.front();
            skip(2);
        } else if (text.front() == u'}') {
            return std::nullopt;
        } else if (text.front() == u'{') {
            const qsizetype end = text.indexOf(u'}');
            const QString path = end < 0 ? QString() : text.mid(1, end - 1);
            const auto value = std::find_if(std::begin(known), std::end(known), [&](const auto &pair) {
                return path == QLatin1String(pair.first);
            });
            const QStringList texts{QStringLiteral("id"),       QStringLiteral("1"),
                                    QStringLiteral("any"),      QStringLiteral("5"),
                                    QStringLiteral("this.name"), QStringLiteral("customer.name"),
                                    QStringLiteral("4.name"),   QStringLiteral("order.anything")};
            if (texts.contains(path))
                meaning += id;
            else if (value != std::end(known))
                meaning += value->second;
            else
                return std::nullopt;
            skip(end + 1);
        } else {
            meaning += text.front();
            skip(1);
        }
    }
    return meaning;
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
    const QString id = input.section(u'\n', 1);
    const Call call(id);

    const auto meaning = evaluate(text, call.arguments());
    if (const auto expected = plainReading(text, id); expected && !text.isEmpty())
        FUZZ_CHECK2(meaning == expected, (text + u'\n' + meaning.value_or(QStringLiteral("(wrong)")) + u'\n' + *expected).toUtf8());

    // Any text at all can be written as a template.
    QString escaped = input;
    escaped.replace(u'{', QLatin1String("{{")).replace(u'}', QLatin1String("}}"));
    FUZZ_CHECK(input.isEmpty() || evaluate(escaped, call.arguments()) == input);

    checkPath(text);
    return 0;
}

#include "fuzz_keytemplate.moc"
