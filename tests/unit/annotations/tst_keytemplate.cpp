// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The key of an annotation: its syntax, the values in it, and how they are escaped.

#include "shop.h"

#include "annotations/annotationoptions.h"
#include "annotations/keytemplate.h"
#include "annotations/keytext.h"
#include "support/rows.h"

#include <QtCore/qdatetime.h>
#include <QtCore/qrandom.h>
#include <QtCore/qtimezone.h>
#include <QtCore/quuid.h>
#include <QtTest/qtest.h>

#include <limits>
#include <string>
#include <utility>

using namespace Qt::StringLiterals;

using namespace QDistLock;

class tst_KeyTemplate : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void wrongKeys_data();
    void wrongKeys();
    void keys_data();
    void keys();
    void valuesInKeys_data();
    void valuesInKeys();
    void differentValuesDifferentKeys_data();
    void differentValuesDifferentKeys();
    void keyTextIsThatOfTemplates();
    void valueText_data();
    void valueText();
    void anyText();
};

namespace {

/// The key of a call of `method(QString a, QString b)`; an error after "!".
QString keyOf(const QString &text, const QString &a, const QString &b)
{
    static const QMetaType types[] = {QMetaType::fromType<QString>(), QMetaType::fromType<QString>()};
    const void *const values[] = {&a, &b};
    QString error;
    auto key = KeyTemplate::parse(text, &error);
    if (key)
        error = key->bind({nullptr, {"a", "b"}, {types[0], types[1]}});
    const auto name = error.isEmpty() ? key->evaluate({nullptr, 2, types, values}, &error) : std::nullopt;
    return name ? *name : u'!' + error;
}

} // namespace

void tst_KeyTemplate::wrongKeys_data()
{
    Support::addColumns<QString, QString>("key", "problem");
    const auto row = [](const char *key, const char *problem) {
        QTest::newRow(key) << QString::fromUtf8(key) << QString::fromUtf8(problem);
    };
    row("", "the key is empty");
    row("a{", "at position 2: a { without its }");
    row("a{id", "at position 2: a { without its }");
    row("a}", "at position 2: a } without its {");
    row("a{id}}", "at position 6: a } without its {");
    row("{}", "\"\" is not the name");
    row("{ id }", "\" id \" is not the name");
    row("{id.}", "\"id.\" is not the name");
    row("{.id}", "\".id\" is not the name");
    row("{id..x}", "\"id..x\" is not the name");
    row("{a{b}}", "\"a{b\" is not the name");
    row("{id:x}", "is not the name");
    row("{größe}", "is not the name");
    row("{1.2}", "is not the name");
    row("{0}", "numbered from 1 on");
    row("{01}", "numbered from 1 on");
    row("{1000}", "numbered from 1 on");
    row("{99999999999999999999}", "is not the name");
    row("{this}", "\"this\" needs a property");
    row("{?}", "\"\" is not the name");
    row("{id??}", "\"id?\" is not the name");
    row("{i?d}", "\"i?d\" is not the name");
    row("{a}{b}", "at position 4: {a} and {b} are written without anything between them");
    row("{a}0{b}", "at position 4: only characters of an escaped value, 0 to 9, A to F and %, are between {a} and {b}");
    row("{a}%{b}", "at position 4: only characters");
    row("{a}:{b}%0AF{c}", "at position 8: only characters");
    QTest::newRow("NUL") << u"a"_s + QChar(QChar::Null) + u"{id}"_s << u"at position 2: a NUL character"_s;
}

void tst_KeyTemplate::wrongKeys()
{
    QFETCH(QString, key);
    QFETCH(QString, problem);
    const QString actual = error([&](QString *e) { return KeyTemplate::parse(key, e).has_value(); });
    QVERIFY2(actual.contains(problem), qPrintable(actual));
}

void tst_KeyTemplate::keys_data()
{
    QTest::addColumn<QString>("key");
    QTest::addColumn<QString>("text");    ///< empty: an error
    QTest::addColumn<QString>("problem"); ///< of bind() or evaluate()
    const auto row = [](const char *key, const char *text) {
        QTest::newRow(key) << QString::fromUtf8(key) << QString::fromUtf8(text) << QString();
    };
    const auto bad = [](const char *key, const char *problem) {
        QTest::newRow(key) << QString::fromUtf8(key) << QString() << QString::fromUtf8(problem);
    };
    row("plain", "plain");
    row("order:{id}", "order:4711");
    row("{id}", "4711");
    row("{id}-{id}", "4711-4711");
    row("{id?}", "4711");
    row("{{id}}", "{id}");
    row("{{{id}}}", "{4711}");
    row("{{}}", "{}");
    row("{{{{", "{{");
    row("a{{b", "a{b");
    row("{1}", "4711");
    row("{2.number}", "42");
    row("{order.number}", "42");
    row("{order.kind}", "Large");
    row("{order.urgent}", "false");
    row("{order.address.city}", "Köln");
    row("{pointer.number}/{pointer.address.city}", "42/Köln");
    row("{customer.id}", "C1");
    row("{customer.order.address.city}", "Köln");
    row("{variant}", "1.5");
    row("{uuid}", "67c8770b-44f1-410a-ab9a-f9b5446f13ee");
    row("{this.tenant}", "acme");
    row("{this.enabled}", "true");
    row("{this.owner.id}", "C1");
    row("{this.owner.order.number}", "42");

    bad("{nr?}", "{nr}: there is no parameter \"nr\"");
    bad("{nr}", "{nr}: there is no parameter \"nr\"; it has id, order, pointer, customer, variant, uuid");
    bad("{Id}", "there is no parameter \"Id\"");
    bad("{7}", "{7}: there is no parameter 7; it has 6");
    bad("{this.tenat}", "{this.tenat}: Shop has no readable property \"tenat\"");
    bad("{order}", "{order}: ");
    bad("{order.numbr}", "Order has no readable property \"numbr\"");
    bad("{pointer.numbr}", "Order has no readable property \"numbr\"");
    bad("{pointer}", "cannot be written as text");
    bad("{customer}", "cannot be written as text");
    bad("{customer.nmae}", "Customer has no readable property \"nmae\"");
    bad("{customer.partner.id}", "a null pointer (Customer*) has no \"id\"");
    bad("{order.previous.city}", "a null pointer");
    bad("{order.address}", "cannot be written as text");
    bad("{order.address.anything}", "it has no value");
    bad("{order.address.anything.x}", "there is no value to read \"x\" from");
    bad("{id.length}", "QString has no properties, so no \"length\"");
    bad("{variant.x}", "double has no properties");
}

void tst_KeyTemplate::keys()
{
    QFETCH(QString, key);
    QFETCH(QString, text);
    QFETCH(QString, problem);
    const Call call;
    QString error;
    auto parsed = KeyTemplate::parse(key, &error);
    QVERIFY2(parsed, qPrintable(error));
    error = parsed->bind(call.signature());
    std::optional<QString> actual;
    if (error.isEmpty())
        actual = parsed->evaluate(call.arguments(), &error);
    QCOMPARE(actual.has_value(), problem.isEmpty());
    if (actual)
        QCOMPARE(*actual, text);
    QVERIFY2(error.contains(problem), qPrintable(error));
}

void tst_KeyTemplate::valuesInKeys_data()
{
    Support::addColumns<QString, QString, QString>("key", "a", "text");
    const auto row = [](const char *key, const char *a, const char *text) {
        QTest::addRow("%s %s", key, a) << QString::fromUtf8(key) << QString::fromUtf8(a) << QString::fromUtf8(text);
    };
    // Usual values stay as they are.
    row("order:{a}", "4711", "order:4711");
    row("order:{a}", "Ab_c-d.e+f~g", "order:Ab_c-d.e+f~g");
    row("order:{a}", "somebody@example.org", "order:somebody@example.org");
    row("order:{a}", "Köln", "order:Köln");
    row("order:{a}", "日本😀", "order:日本😀");
    // What keys are made up with is escaped, the same everywhere.
    row("order:{a}", "x:y", "order:x%3Ay");
    row("order:{a}", "x/y", "order:x%2Fy");
    row("order:{a}", "100%", "order:100%25");
    row("order:{a}", "%3A", "order:%253A");
    row("order:{a}", "{tag}", "order:%7Btag%7D");
    row("order:{a}", "two words", "order:two%20words");
    row("order:{a}", "two\nlines", "order:two%0Alines");
    row("order:{a}", "a|b,c=d;e*?[f]", "order:a%7Cb%2Cc%3Dd%3Be%2A%3F%5Bf%5D");
    row("order:{a}", "\x7f", "order:%7F");
    // So is a character that separates this value from the next one, if no other of the separator is.
    row("{a}-{b}", "x-y_z", "x%2Dy_z-B");
    row("{a}_{b}", "x-y_z", "x-y%5Fz_B");
    row("{a}-:{b}", "x-y:z", "x-y%3Az-:B");
    row("{b}-{a}", "x-y", "B-x-y");
    row("{a}ü{b}", "xüy", "x%C3%BCyüB");
    row("{a}😀{b}", "x😀y😁", "x%F0%9F%98%80y😁😀B");
    row("{a}0x{b}", "0x0", "0%7800xB");
    row("{a}{{{b}", "{", "%7B{B");
    // Empty ones.
    row("order:{a}", "",
        "!{a}: the value is empty; a key without it could be that of another call. Write {a?} if it may be empty");
    row("order:{a?}", "", "order:");
    row("{a?}:{b}", "", ":B");
}

void tst_KeyTemplate::valuesInKeys()
{
    QFETCH(QString, key);
    QFETCH(QString, a);
    QFETCH(QString, text);
    QCOMPARE(keyOf(key, a, u"B"_s), text);
}

void tst_KeyTemplate::differentValuesDifferentKeys_data()
{
    QTest::addColumn<QString>("key");
    for (const char *key : {"{a}:{b}", "{a?}:{b?}", "{a}-{b}", "x{a}%3Ax{b}y", "{a}x0{b}", "{a}0x{b}", "{a}ü{b}",
                            "{a}😀{b}", "{a} {b}", "{a}::{b}", "{a}{{{b}", "{a}@a@{b}"}) {
        QTest::newRow(key) << QString::fromUtf8(key);
    }
}

void tst_KeyTemplate::differentValuesDifferentKeys()
{
    QFETCH(QString, key);
    const QStringList pieces{u":"_s, u"%"_s, u"3A"_s,  u"-"_s,  u"x"_s,
                             u"0"_s, u"ü"_s, u"😀"_s,   u"{"_s,  u" "_s,
                             u"@"_s, u"a"_s, u"%78"_s, u"2D"_s, QString(QChar(QChar::Null))};
    QRandomGenerator random(20261122);
    const auto value = [&] {
        QString text;
        for (quint32 length = random.bounded(5u); length > 0; --length)
            text += pieces.at(random.bounded(int(pieces.size())));
        return text;
    };
    QHash<QString, std::pair<QString, QString>> known;
    for (int i = 0; i < 20000; ++i) {
        const std::pair values(value(), value());
        const QString name = keyOf(key, values.first, values.second);
        if (name.startsWith(u'!'))
            continue; // empty
        const auto before = known.constFind(name);
        if (before != known.cend() && *before != values)
            QFAIL(qPrintable(name + u'\n' + before->first + u'\n' + before->second + u'\n' + values.first + u'\n'
                             + values.second));
        known.insert(name, values);
    }
    QVERIFY(known.size() > 10000);
}

void tst_KeyTemplate::keyTextIsThatOfTemplates()
{
    for (const char *text : {"4711", "x:y", "two words", "100%", "Köln"}) {
        const QString value = QString::fromUtf8(text);
        QCOMPARE(u"k:"_s + keyText(value), keyOf(u"k:{a}"_s, value, value));
    }
    QCOMPARE(keyText(QVariant::fromValue(Order::Kind::Large)), u"Large"_s);
    QCOMPARE(keyText(7), u"7"_s);
    QCOMPARE(keyText(QString()), QString());
    QCOMPARE(keyText(QVariantList()), QString());
}

void tst_KeyTemplate::valueText_data()
{
    Support::addColumns<QVariant, QString, bool>("value", "text", "ok");
    const auto row = [](const char *name, const QVariant &value, const char *text) {
        QTest::newRow(name) << value << QString::fromUtf8(text) << true;
    };
    const auto bad = [](const char *name, const QVariant &value) {
        QTest::newRow(name) << value << QString() << false;
    };
    row("empty", QString(), "");
    row("text", u"ä{}"_s, "ä{}");
    row("bytes", QByteArray("gr\xc3\xbc\xc3\x9f"), "grüß");
    bad("bytes that are not UTF-8", QByteArray("gr\xfc\xdf"));
    bad("bytes that end in a character", QByteArray("gr\xc3"));
    row("view", QVariant::fromValue(QStringView(u"grüß")), "grüß");
    row("view of any text", QVariant::fromValue(QAnyStringView(u"grüß")), "grüß");
    row("view of bytes", QVariant::fromValue(QByteArrayView("gr\xc3\xbc\xc3\x9f")), "grüß");
    bad("view of bytes that are not UTF-8", QVariant::fromValue(QByteArrayView("gr\xfc\xdf")));
    row("int", -7, "-7");
    row("uint", 4294967295u, "4294967295");
    row("qint64", (std::numeric_limits<qint64>::min)(), "-9223372036854775808");
    row("quint64", (std::numeric_limits<quint64>::max)(), "18446744073709551615");
    row("qint8", QVariant::fromValue(qint8(65)), "65");
    row("quint8", QVariant::fromValue(quint8(65)), "65");
    row("char", QVariant::fromValue('A'), "A");
    row("QChar", QVariant::fromValue(QChar(u'ß')), "ß");
    row("short", QVariant::fromValue(short(-3)), "-3");
    row("double", 0.1, "0.1");
    row("float", QVariant::fromValue(0.5f), "0.5");
    row("true", true, "true");
    row("enum", QVariant::fromValue(Order::Kind::Small), "Small");
    row("enum without name", QVariant::fromValue(Order::Kind(5)), "5");
    row("enum of 64 bits", QVariant::fromValue(Order::Long::None), "None");
    row("enum of 64 bits whose name is not known", QVariant::fromValue(Order::Long::Most), "4294967295");
    row("Qt's enum", QVariant::fromValue(Qt::Horizontal), "Horizontal");
    row("flags", QVariant::fromValue(Order::Marks(Order::Fragile | Order::Frozen)), "Fragile|Frozen");
    row("flags, one without name", QVariant::fromValue(Order::Marks(Order::Fragile | Order::Mark(8))), "9");
    row("flags without name", QVariant::fromValue(Order::Marks(Order::Mark(8))), "8");
    row("no flags", QVariant::fromValue(Order::Marks()), "0");
    row("unregistered enum", QVariant::fromValue(Third), "3");
    row("uuid", QUuid(u"{67c8770b-44f1-410a-ab9a-f9b5446f13ee}"_s), "67c8770b-44f1-410a-ab9a-f9b5446f13ee");
    row("url", QUrl(u"https://u:p@host/ä"_s), "https://u@host/%C3%A4");
    row("date", QDate(2026, 2, 1), "2026-02-01");
    row("time", QDateTime(QDate(2026, 2, 1), QTime(1, 2, 3, 4), QTimeZone::utc()), "2026-02-01T01:02:03.004Z");
    // One moment, one text.
    row("time with offset", QDateTime(QDate(2026, 2, 1), QTime(3, 2, 3, 4), QTimeZone(7200)),
        "2026-02-01T01:02:03.004Z");
    row("standard text", QVariant::fromValue(std::string("gr\xc3\xbc\xc3\x9f")), "grüß");
    bad("standard text that is not UTF-8", QVariant::fromValue(std::string("gr\xfc\xdf")));
    const QVariant three(3);
    row("variant in a variant", QVariant(QMetaType::fromType<QVariant>(), &three), "3");
    bad("none", QVariant());
    bad("object", QVariant::fromValue<QObject *>(nullptr));
    bad("gadget", QVariant::fromValue(Order()));
    bad("list", QVariantList{1, 2});
    bad("strings", QStringList{u"a"_s, u"b"_s});
    bad("map", QVariantMap());
}

void tst_KeyTemplate::valueText()
{
    QFETCH(QVariant, value);
    QFETCH(QString, text);
    QFETCH(bool, ok);
    QString error;
    const auto actual = valueToKeyText(value, &error);
    QCOMPARE(actual.has_value(), ok);
    QCOMPARE(error.isEmpty(), ok);
    if (actual)
        QCOMPARE(*actual, text);
}

/// Parsing any text ends with a result or with an error text.
void tst_KeyTemplate::anyText()
{
    const QString pieces[] = {u"{"_s,
                              u"}"_s,
                              u"."_s,
                              u";"_s,
                              u"="_s,
                              u"wait"_s,
                              u"this"_s,
                              u"!"_s,
                              u"9999999999999"_s,
                              u"ms"_s,
                              QString(QChar(0xd800)),
                              QString(QChar(0)),
                              u" "_s,
                              u"server"_s,
                              u"redis://"_s,
                              u"@"_s,
                              u"forever"_s,
                              u"condition"_s,
                              u"order"_s,
                              u"number"_s,
                              u"ä"_s};
    QRandomGenerator random(20260201);
    const Call call;
    int valid = 0;
    for (int i = 0; i < 20000; ++i) {
        QString text;
        for (quint32 length = random.bounded(8u); length > 0; --length)
            text += pieces[random.bounded(quint32(std::size(pieces)))];
        QString error;
        if (auto key = KeyTemplate::parse(text, &error)) {
            ++valid;
            error = key->bind(call.signature());
            if (error.isEmpty())
                QVERIFY(key->evaluate(call.arguments(), &error).has_value() != !error.isEmpty());
        } else {
            QVERIFY(!error.isEmpty());
        }
        error.clear();
        QVERIFY(AnnotationOptions::parse(text, &error).has_value() == error.isEmpty());
    }
    QVERIFY(valid > 100);
}

QTEST_APPLESS_MAIN(tst_KeyTemplate)

#include "tst_keytemplate.moc"
