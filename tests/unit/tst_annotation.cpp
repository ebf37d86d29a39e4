// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What an annotation says: options text, key templates, conditions, and how a slot's pointer finds it.

#include "annotation.h"

#include <QDistLock/Annotations>
#include <QDistLock/LockRegistry>

#include <QtCore/qdatetime.h>
#include <QtCore/qrandom.h>
#include <QtCore/quuid.h>
#include <QtTest/qtest.h>

#include <array>
#include <functional>
#include <future>
#include <limits>

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

struct Address
{
    Q_GADGET
    Q_PROPERTY(QString city MEMBER city)
    Q_PROPERTY(QVariant anything MEMBER anything)
public:
    QString city;
    QVariant anything;

    friend bool operator!=(const Address &a, const Address &b) { return a.city != b.city || a.anything != b.anything; }
};

struct Order
{
    Q_GADGET
    Q_PROPERTY(int number MEMBER number)
    Q_PROPERTY(bool urgent MEMBER urgent)
    Q_PROPERTY(Kind kind MEMBER kind)
    Q_PROPERTY(Address address MEMBER address)
    Q_PROPERTY(Address *previous MEMBER previous)
public:
    enum class Kind { Small, Large = 7 };
    Q_ENUM(Kind)
    enum Mark : quint8 { Fragile = 1, Frozen = 2 };
    Q_DECLARE_FLAGS(Marks, Mark)
    Q_FLAG(Marks)
    enum class Long : qint64 { None = -1, Most = 0xFFFFFFFFLL }; // moc keeps the lower 32 bits
    Q_ENUM(Long)

    int number = 42;
    bool urgent = false;
    Kind kind = Kind::Large;
    Address address{QStringLiteral("Köln"), QVariant()};
    Address *previous = nullptr;

    friend bool operator!=(const Order &a, const Order &b) { return a.number != b.number; }
};

enum Unregistered { First, Third = 3 };

} // namespace

Q_DECLARE_METATYPE(Address *)
Q_DECLARE_METATYPE(Order *)
Q_DECLARE_METATYPE(Unregistered)

class Forwarded;

class Customer : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString id MEMBER id)
    Q_PROPERTY(Customer *partner MEMBER partner)
    Q_PROPERTY(Order order MEMBER order)
public:
    QString id = QStringLiteral("C1");
    Customer *partner = nullptr;
    Order order;
};

class Shop : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString tenant MEMBER tenant)
    Q_PROPERTY(bool enabled MEMBER enabled)
    Q_PROPERTY(Customer *owner MEMBER owner)
    QDL_LOCKED_METHOD(ship, "order:{id}", "wait=2s; lease=30s; onBusy=skip")
    QDL_LOCKED_METHOD(pay, "pay:{this.tenant}:{order.number}")
    QDL_LOCKED_METHOD(pay, "till", "server=memory:till")
    QDL_LOCKED_METHOD(quiet, "quiet")
    QDL_LOCKED_METHOD(unnamed, "{1}:{2.number}")
    QDL_LOCKED_METHOD(defaulted, "d:{id}")
public:
    Q_INVOKABLE int quiet() const noexcept { return 1; }
    int notASlot(int) { return 0; }

    QString tenant = QStringLiteral("acme");
    bool enabled = true;
    Customer *owner = nullptr;

public Q_SLOTS:
    void ship(const QString &id) { Q_UNUSED(id) }
    void ship(int id) { Q_UNUSED(id) }
    void pay(const Order &order) { Q_UNUSED(order) }
    void unnamed(int, const Order &) { }
    void defaulted(int id, bool really = true) { Q_UNUSED(id) Q_UNUSED(really) }
    void free(const QString &id) { Q_UNUSED(id) }
    virtual void audit(int year) { Q_UNUSED(year) }
    void inherited(int count) { Q_UNUSED(count) }

private Q_SLOTS:
    void hidden() { }
};

class BigShop : public Shop
{
    Q_OBJECT
    QDL_LOCKED_METHOD(audit, "audit:{year}")
    QDL_LOCKED_METHOD(inherited, "inherited:{count}")
    QDL_LOCKED_METHOD(guarded, "guarded")
public:
    static auto guardedSlot() { return &BigShop::guarded; }
public Q_SLOTS:
    void audit(int year) override { Q_UNUSED(year) }
protected Q_SLOTS:
    void guarded() { }
};

class BiggerShop : public BigShop
{
    Q_OBJECT
    QDL_LOCKED_METHOD(ship, "bigger:{id}")
};

class PlainShop : public BiggerShop
{
    Q_OBJECT
};

/// Two overloads with other names for their parameters.
class FirstOverload : public Shop
{
    Q_OBJECT
public Q_SLOTS:
    void ship(const QString &id, const QString &by) { Q_UNUSED(id) Q_UNUSED(by) }
};

class SecondOverload : public Shop
{
    Q_OBJECT
public Q_SLOTS:
    void ship(const QString &by, const QString &id) { Q_UNUSED(by) Q_UNUSED(id) }
};

class FirstPlugin : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(run, "first:{id}")
public Q_SLOTS:
    void run(int id) { Q_UNUSED(id) }
};

class SecondPlugin : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(run, "second:{id}")
public Q_SLOTS:
    void run(int id) { Q_UNUSED(id) }
};

namespace QCoro {
template<typename T>
struct Task
{
};
} // namespace QCoro

/// Everything that can be wrong.
class WrongShop : public Shop
{
    Q_OBJECT
    using Later = QCoro::Task<int>;
    QDL_LOCKED_METHOD(nowhere, "key")
    QDL_LOCKED_METHOD(a, "key:{nr}")
    QDL_LOCKED_METHOD(b, "key", "weight=2s")
    QDL_LOCKED_METHOD(c, "key", "wait=2")
    QDL_LOCKED_METHOD(d, "key:{this.tenat}")
    QDL_LOCKED_METHOD(e, "key:{order.numbr}")
    QDL_LOCKED_METHOD(f, "key:{id")
    QDL_LOCKED_METHOD(g, "key", "condition=this.enable")
    QDL_LOCKED_METHOD(h, "key", "lease=25h")
    QDL_LOCKED_METHOD(i, "key:{id}")
    QDL_LOCKED_METHOD(j, "key:{2}")
    QDL_LOCKED_METHOD(k, "key:{id}")
    QDL_LOCKED_METHOD(l, "key", "server=redis://user:topsecret@host:99999")
    QDL_LOCKED_METHOD(m, "ok")
    QDL_LOCKED_METHOD(m, "key:{id}")
    QDL_LOCKED_METHOD(signalled, "key")
    Q_CLASSINFO("QDistLock.lock:n", "")
    QDL_LOCKED_METHOD(o, "o")
    QDL_LOCKED_METHOD(p, "p")
    QDL_LOCKED_METHOD(q, "q:{id}")
    QDL_LOCKED_METHOD(r, "r:{id}", "wait=2s")
    QDL_LOCKED_METHOD(r, "r:{1}", "wait=3s")
    QDL_LOCKED_METHOD(s, "s", "onBusy=skip")
    QDL_LOCKED_METHOD(s, "s", "onBusy=fail")
    QDL_LOCKED_METHOD(t, "t")
    QDL_LOCKED_METHOD(t, "k:t", "keyPrefix=loc; lease=20s")
    QDL_LOCKED_METHOD(u, "u", "server=redis://HOST; wait=2s")
    QDL_LOCKED_METHOD(u, "u", "server=redis://host:6379/0; wait=3s")
    QDL_LOCKED_METHOD(v, "{{v}}", "keyPrefix=")
    QDL_LOCKED_METHOD(w, "w")
    QDL_LOCKED_METHOD(x, "x:{id.length}")
    QDL_LOCKED_METHOD(y, "gr\xfc\xdf")
    QDL_LOCKED_METHOD(agreed, "t", "condition=this.enabled; wait=2s")
    QDL_LOCKED_METHOD(agreed, "t", "condition=this.owner; wait=2000ms")
    QDL_LOCKED_METHOD(agreed, "t", "server=memory:other")
    QDL_LOCKED_METHOD(agreed, "t:{id}", "wait=3s")
public Q_SLOTS:
    void r(int id) { Q_UNUSED(id) }
    void s() { }
    void t() { }
    void u() { }
    void agreed(int id) { Q_UNUSED(id) }
    Later o() { return {}; }
    std::future<int> p() { return {}; }
    std::shared_future<void> q(int id) { Q_UNUSED(id) return {}; }
    void a(int id) { Q_UNUSED(id) }
    void b() { }
    void c() { }
    void d() { }
    void e(const Order &order) { Q_UNUSED(order) }
    void f(int id) { Q_UNUSED(id) }
    void g() { }
    void h() { }
    void i(int) { }
    void j(int id) { Q_UNUSED(id) }
    void k() { }
    void l() { }
    void m() { }
    void n() { }
    void v() { }
    QFuture<QFuture<int>> w() { return {}; }
    void x(const QString &id) { Q_UNUSED(id) }
    void y() { }
Q_SIGNALS:
    void signalled();
};

class tst_Annotation : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void options();
    void optionValues_data();
    void optionValues();
    void wrongOptions_data();
    void wrongOptions();
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
    void conditions_data();
    void conditions();
    void anyText();
    void pointers();
    void valid();
    void wrong_data();
    void wrong();
    void wrongComplete();
    void parametersOfTheAnnotatingClass();
    void classesThatGo();
    void requests();
    void positionalParameters();
    void forwardDeclaredTypes();
};

namespace {

/// A call of a method (id, order, orderPointer, customer, variant, uuid) of a Shop.
struct Call
{
    Call()
    {
        shop.owner = &customer;
        customer.partner = nullptr;
        types = {QMetaType::fromType<QString>(),    QMetaType::fromType<Order>(),    QMetaType::fromType<Order *>(),
                 QMetaType::fromType<Customer *>(), QMetaType::fromType<QVariant>(), QMetaType::fromType<QUuid>()};
        values = {&id, &order, &orderPointer, &customerPointer, &variant, &uuid};
        names = {"id", "order", "pointer", "customer", "variant", "uuid"};
    }
    CallArguments arguments() const { return {&shop, types.size(), types.constData(), values.data()}; }
    MethodSignature signature() const { return {&Shop::staticMetaObject, names, types}; }

    Shop shop;
    Customer customer;
    QString id = QStringLiteral("4711");
    Order order;
    Order *orderPointer = &order;
    Customer *customerPointer = &customer;
    QVariant variant = 1.5;
    QUuid uuid{QStringLiteral("{67c8770b-44f1-410a-ab9a-f9b5446f13ee}")};
    QList<QMetaType> types;
    std::array<const void *, 6> values;
    QList<QByteArray> names;
};

QString error(const std::function<bool(QString *)> &parse)
{
    QString text;
    return parse(&text) ? QString() : text;
}

} // namespace

void tst_Annotation::options()
{
    QString error;
    const auto none = AnnotationOptions::parse(u"", &error);
    QVERIFY2(none, qPrintable(error));
    QCOMPARE(none->lock.wait, LockOptions().wait);
    QCOMPARE(none->lock.lease, LockOptions().lease);
    QVERIFY(none->onBusy == OnBusy::Wait);
    QCOMPARE(none->maxQueued, DefaultMaxQueued);
    QVERIFY(none->server.isEmpty());
    QVERIFY(!none->condition);

    const auto all = AnnotationOptions::parse(
            u" wait = 250ms;lease=1min ;\tretryInterval=5s; maxRetries=3; autoRenew=false; fair=false; minHold=10s; "
            "keyPrefix=app:; minReplicas=0; replicaTimeout=2s; repairMissingTtl=false; onBusy=fail; maxQueued=7; "
            "condition=!this.enabled; server=memory:x;;",
            &error);
    QVERIFY2(all, qPrintable(error));
    QCOMPARE(all->lock.wait, 250ms);
    QCOMPARE(all->lock.lease, milliseconds(1min));
    QCOMPARE(all->lock.retryInterval, milliseconds(5s));
    QCOMPARE(all->lock.maxRetries, 3);
    QCOMPARE(all->lock.autoRenew, false);
    QCOMPARE(all->lock.fair, false);
    QCOMPARE(all->lock.minHold, milliseconds(10s));
    QCOMPARE(all->lock.keyPrefix, QStringLiteral("app:"));
    QCOMPARE(all->lock.minReplicas, 0);
    QCOMPARE(all->lock.replicaTimeout, milliseconds(2s));
    QCOMPARE(all->lock.repairMissingTtl, false);
    QVERIFY(all->onBusy == OnBusy::Fail);
    QCOMPARE(all->maxQueued, 7);
    QCOMPARE(all->server, QUrl(QStringLiteral("memory:x")));
    QVERIFY(all->condition && all->conditionNegated);
    QCOMPARE(all->condition->toString(), QStringLiteral("this.enabled"));
}

void tst_Annotation::optionValues_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<milliseconds>("wait");
    QTest::newRow("ms") << QStringLiteral("wait=1ms") << milliseconds(1);
    QTest::newRow("s") << QStringLiteral("wait=90s") << milliseconds(90s);
    QTest::newRow("min") << QStringLiteral("wait=5min") << milliseconds(5min);
    QTest::newRow("h") << QStringLiteral("wait=1h") << milliseconds(1h);
    QTest::newRow("space") << QStringLiteral("wait=2 s") << milliseconds(2s);
    QTest::newRow("0") << QStringLiteral("wait=0ms") << milliseconds(0);
    QTest::newRow("forever") << QStringLiteral("wait=forever") << LockOptions::Forever;
    QTest::newRow("long") << QStringLiteral("wait=9223372036854775s") << milliseconds(9223372036854775000);
    QTest::newRow("skip is not a wait") << QStringLiteral("onBusy=skip") << LockOptions().wait;
}

void tst_Annotation::optionValues()
{
    QFETCH(QString, text);
    QFETCH(milliseconds, wait);
    QString error;
    const auto parsed = AnnotationOptions::parse(text, &error);
    QVERIFY2(parsed, qPrintable(error));
    QCOMPARE(parsed->lock.wait, wait);
}

void tst_Annotation::wrongOptions_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("problem");
    const auto row = [](const char *text, const char *problem) {
        QTest::newRow(text) << QString::fromUtf8(text) << QString::fromUtf8(problem);
    };
    row("weight=2s", "at position 1: there is no option \"weight\"");
    row("Wait=2s", "there is no option \"Wait\"");
    row("wait=2s; lese=1s", "at position 10: there is no option \"lese\"");
    row("=2s", "there is no option \"\"");
    row("wait", "\"wait\" has no value");
    row("wait 2s", "\"wait 2s\" has no value");
    row("wait=", "wait: \"\" is not a duration");
    row("wait=2", "wait: \"2\" is not a duration");
    row("wait=0", "wait: \"0\" is not a duration");
    row("wait=s", "wait: \"s\" is not a duration");
    row("wait=2m", "wait: \"2m\" is not a duration");
    row("wait=2sec", "wait: \"2sec\" is not a duration");
    row("wait=-2s", "wait: \"-2s\" is not a duration");
    row("wait=1.5s", "wait: \"1.5s\" is not a duration");
    row("wait=2s 3s", "wait: \"2s 3s\" is not a duration");
    row("wait=2s=3s", "wait: \"2s=3s\" is not a duration");
    row("wait=٣s", "is not a duration"); // digits, but not ours
    row("wait=9223372036854775807s", "wait: \"9223372036854775807s\" is too long");
    row("wait=9223372036854775807ms", "wait: \"9223372036854775807ms\" is too long");
    row("wait=99999999999999999999ms", "is not a duration");
    row("wait=2s; wait=3s", "at position 10: the option \"wait\" is given twice");
    row("lease=forever", "lease: \"forever\" is not a duration");
    row("lease=0ms", "lease is 0 ms");
    row("lease=25h", "lease is 90000000 ms");
    row("minHold=31s", "minHold is 31000 ms");
    row("retryInterval=0ms", "retryInterval is 0 ms");
    row("maxRetries=-1", "maxRetries: \"-1\" is not a whole number");
    row("maxRetries=2147483648", "is not a whole number");
    row("minReplicas=1", "minReplicas is 1");
    row("autoRenew=yes", "autoRenew: \"yes\" is neither true nor false");
    row("fair=1", "fair: \"1\" is neither");
    row("repairMissingTtl=", "repairMissingTtl: \"\" is neither");
    row("onBusy=retry", "onBusy: \"retry\" is none of wait, skip, fail, latest");
    row("maxQueued=0", "maxQueued: 0 would let no call wait");
    row("maxQueued=many", "maxQueued: \"many\" is not a whole number");
    row("condition=", "condition: \"\" is not the name");
    row("condition=!", "condition: \"\" is not the name");
    row("condition=!!this.x", "condition: \"!this.x\" is not the name");
    row("condition=this", "condition: \"this\" needs a property");
    row("condition={order.urgent}", "condition: ");
    row("condition=a == b", "condition: ");
    row("server=", "server: The server URL cannot be used: it is empty");
    row("server=nonsense", "did you mean redis://nonsense?");
    row("server=127.0.0.1:6379", "did you mean redis://127.0.0.1:6379?");
    row("wiat=2s; lease=3; fair=maybe", "\"3\" is not a duration");
    row("wiat=2s; lease=3; fair=maybe", "at position 1: there is no option \"wiat\"");
    row("wiat=2s; lease=3; fair=maybe", "at position 19: fair: \"maybe\"");
    row("server=http://host", "server: ");
    row("server=redis://user:topsecret@host:99999", "server: ");
    row("server=redis://user:12;topsecret@host", "this is no option; a ';'");
}

void tst_Annotation::wrongOptions()
{
    QFETCH(QString, text);
    QFETCH(QString, problem);
    const QString actual = error([&](QString *e) { return AnnotationOptions::parse(text, e).has_value(); });
    QVERIFY2(actual.contains(problem), qPrintable(actual));
    QVERIFY2(!actual.contains(QStringLiteral("topsecret")), qPrintable(actual));
}

void tst_Annotation::wrongKeys_data()
{
    QTest::addColumn<QString>("key");
    QTest::addColumn<QString>("problem");
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
    QTest::newRow("NUL") << QStringLiteral("a") + QChar(QChar::Null) + QStringLiteral("{id}")
                         << QStringLiteral("at position 2: a NUL character");
}

void tst_Annotation::wrongKeys()
{
    QFETCH(QString, key);
    QFETCH(QString, problem);
    const QString actual = error([&](QString *e) { return KeyTemplate::parse(key, e).has_value(); });
    QVERIFY2(actual.contains(problem), qPrintable(actual));
}

void tst_Annotation::keys_data()
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
    bad("{order.address.anything.x}", "there is no value to read \"x\" of");
    bad("{id.length}", "QString has no properties, so no \"length\"");
    bad("{variant.x}", "double has no properties");
}

void tst_Annotation::keys()
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

void tst_Annotation::valuesInKeys_data()
{
    QTest::addColumn<QString>("key");
    QTest::addColumn<QString>("a");
    QTest::addColumn<QString>("text");
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
    row("order:{a}", "", "!{a}: the value is empty; a key without it could be that of another call. Write {a?} if it may be empty");
    row("order:{a?}", "", "order:");
    row("{a?}:{b}", "", ":B");
}

void tst_Annotation::valuesInKeys()
{
    QFETCH(QString, key);
    QFETCH(QString, a);
    QFETCH(QString, text);
    QCOMPARE(keyOf(key, a, QStringLiteral("B")), text);
}

void tst_Annotation::differentValuesDifferentKeys_data()
{
    QTest::addColumn<QString>("key");
    for (const char *key : {"{a}:{b}", "{a?}:{b?}", "{a}-{b}", "x{a}%3Ax{b}y", "{a}x0{b}", "{a}0x{b}", "{a}ü{b}", "{a}😀{b}",
                            "{a} {b}", "{a}::{b}", "{a}{{{b}", "{a}@a@{b}"}) {
        QTest::newRow(key) << QString::fromUtf8(key);
    }
}

void tst_Annotation::differentValuesDifferentKeys()
{
    QFETCH(QString, key);
    const QStringList pieces{QStringLiteral(":"), QStringLiteral("%"), QStringLiteral("3A"), QStringLiteral("-"),
                             QStringLiteral("x"), QStringLiteral("0"), QStringLiteral("ü"), QStringLiteral("😀"),
                             QStringLiteral("{"), QStringLiteral(" "), QStringLiteral("@"), QStringLiteral("a"),
                             QStringLiteral("%78"), QStringLiteral("2D"), QString(QChar(QChar::Null))};
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
            QFAIL(qPrintable(name + u'\n' + before->first + u'\n' + before->second + u'\n' + values.first + u'\n' + values.second));
        known.insert(name, values);
    }
    QVERIFY(known.size() > 10000);
}

void tst_Annotation::keyTextIsThatOfTemplates()
{
    for (const char *text : {"4711", "x:y", "two words", "100%", "Köln"}) {
        const QString value = QString::fromUtf8(text);
        QCOMPARE(QStringLiteral("k:") + keyText(value), keyOf(QStringLiteral("k:{a}"), value, value));
    }
    QCOMPARE(keyText(QVariant::fromValue(Order::Kind::Large)), QStringLiteral("Large"));
    QCOMPARE(keyText(7), QStringLiteral("7"));
    QCOMPARE(keyText(QString()), QString());
    QCOMPARE(keyText(QVariantList()), QString());
}

void tst_Annotation::valueText_data()
{
    QTest::addColumn<QVariant>("value");
    QTest::addColumn<QString>("text");
    QTest::addColumn<bool>("ok");
    const auto row = [](const char *name, const QVariant &value, const char *text) {
        QTest::newRow(name) << value << QString::fromUtf8(text) << true;
    };
    const auto bad = [](const char *name, const QVariant &value) {
        QTest::newRow(name) << value << QString() << false;
    };
    row("empty", QString(), "");
    row("text", QStringLiteral("ä{}"), "ä{}");
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
    row("uuid", QUuid(QStringLiteral("{67c8770b-44f1-410a-ab9a-f9b5446f13ee}")), "67c8770b-44f1-410a-ab9a-f9b5446f13ee");
    row("url", QUrl(QStringLiteral("https://u:p@host/ä")), "https://u@host/%C3%A4");
    row("date", QDate(2026, 2, 1), "2026-02-01");
    row("time", QDateTime(QDate(2026, 2, 1), QTime(1, 2, 3, 4), Qt::UTC), "2026-02-01T01:02:03.004Z");
    // One moment, one text.
    row("time with offset", QDateTime(QDate(2026, 2, 1), QTime(3, 2, 3, 4), Qt::OffsetFromUTC, 7200), "2026-02-01T01:02:03.004Z");
    row("standard text", QVariant::fromValue(std::string("gr\xc3\xbc\xc3\x9f")), "grüß");
    bad("standard text that is not UTF-8", QVariant::fromValue(std::string("gr\xfc\xdf")));
    const QVariant three(3);
    row("variant in a variant", QVariant(QMetaType::fromType<QVariant>(), &three), "3");
    bad("none", QVariant());
    bad("object", QVariant::fromValue<QObject *>(nullptr));
    bad("gadget", QVariant::fromValue(Order()));
    bad("list", QVariantList{1, 2});
    bad("strings", QStringList{QStringLiteral("a"), QStringLiteral("b")});
    bad("map", QVariantMap());
}

void tst_Annotation::valueText()
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

void tst_Annotation::conditions_data()
{
    QTest::addColumn<QString>("condition");
    QTest::addColumn<int>("locks"); ///< -1: an error
    const auto row = [](const char *condition, int locks) {
        QTest::newRow(condition) << QString::fromUtf8(condition) << locks;
    };
    row("this.enabled", 1);
    row("!this.enabled", 0);
    row("! this.enabled", 0);
    row("order.urgent", 0);
    row("!order.urgent", 1);
    row("order.number", 1);
    row("id", 1);
    row("1", 1);
    row("variant", 1);
    row("customer", 1);
    row("customer.partner", 0);
    row("pointer", 1);
    row("order.previous", 0);
    row("this.owner", 1);
    row("order", -1);
    row("order.address", -1);
    row("order.address.anything", -1);
    row("customer.partner.id", -1);
}

void tst_Annotation::conditions()
{
    QFETCH(QString, condition);
    QFETCH(int, locks);
    const Call call;
    QString error;
    const auto method = LockedMethod::make("Shop", "method", call.signature(), QStringLiteral("key"),
                                           QStringLiteral("condition=") + condition, &error);
    QVERIFY2(method, qPrintable(error));
    const auto requests = method->requests(call.arguments(), &error);
    QCOMPARE(requests ? int(requests->size()) : -1, locks);
    if (!requests)
        QVERIFY2(error.startsWith(QStringLiteral("Shop::method: key \"key\"")) && error.contains(QStringLiteral("condition")),
                 qPrintable(error));
}

/// Whatever stands in a text, parsing ends in a result or in words.
void tst_Annotation::anyText()
{
    const QString pieces[] = {QStringLiteral("{"),     QStringLiteral("}"),       QStringLiteral("."),
                              QStringLiteral(";"),     QStringLiteral("="),       QStringLiteral("wait"),
                              QStringLiteral("this"),  QStringLiteral("!"),       QStringLiteral("9999999999999"),
                              QStringLiteral("ms"),    QString(QChar(0xd800)),    QString(QChar(0)),
                              QStringLiteral(" "),     QStringLiteral("server"),  QStringLiteral("redis://"),
                              QStringLiteral("@"),     QStringLiteral("forever"), QStringLiteral("condition"),
                              QStringLiteral("order"), QStringLiteral("number"),  QStringLiteral("ä")};
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

void tst_Annotation::pointers()
{
    using Detail::annotatedName;
    const auto name = [](const char *found) { return QByteArray(found); };
    QCOMPARE(name(annotatedName<Shop>(qOverload<int>(&Shop::ship))), QByteArray("ship"));
    QCOMPARE(name(annotatedName<Shop>(qOverload<const QString &>(&Shop::ship))), QByteArray("ship"));
    QCOMPARE(name(annotatedName<Shop>(&Shop::pay)), QByteArray("pay"));
    QCOMPARE(name(annotatedName<Shop>(&Shop::quiet)), QByteArray("quiet"));
    QCOMPARE(name(annotatedName<Shop>(&Shop::defaulted)), QByteArray("defaulted"));
    // Of the same type as an annotated one.
    QCOMPARE(name(annotatedName<Shop>(&Shop::free)), QByteArray());
    QCOMPARE(name(annotatedName<Shop>(&Shop::audit)), QByteArray());
    QCOMPARE(name(annotatedName<QObject>(&QObject::deleteLater)), QByteArray());
    // In a derived class, in its base, and protected.
    QCOMPARE(name(annotatedName<BigShop>(&BigShop::audit)), QByteArray("audit"));
    QCOMPARE(name(annotatedName<BigShop>(&Shop::audit)), QByteArray("audit"));
    QCOMPARE(name(annotatedName<BigShop>(&BigShop::inherited)), QByteArray("inherited"));
    QCOMPARE(name(annotatedName<BigShop>(&BigShop::pay)), QByteArray("pay"));
    QCOMPARE(name(annotatedName<BigShop>(BigShop::guardedSlot())), QByteArray("guarded"));
    QCOMPARE(name(annotatedName<PlainShop>(qOverload<int>(&PlainShop::ship))), QByteArray("ship"));
}

void tst_Annotation::valid()
{
    QCOMPARE(validateAnnotations(&Shop::staticMetaObject), QStringList());
    QCOMPARE(validateAnnotations(&BigShop::staticMetaObject), QStringList());
    QCOMPARE(validateAnnotations(&PlainShop::staticMetaObject), QStringList());
    QCOMPARE(validateAnnotations(&QObject::staticMetaObject), QStringList());
}

void tst_Annotation::wrong_data()
{
    QTest::addColumn<QString>("method");
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("problem");
    const auto row = [](const char *method, const char *text, const char *problem) {
        QTest::newRow(method) << QString::fromUtf8(method) << QString::fromUtf8(text) << QString::fromUtf8(problem);
    };
    row("nowhere", "\"key\"", "there is no slot or invokable method of this name");
    row("a", "\"key:{nr}\"", "key, {nr}: there is no parameter \"nr\"; it has id");
    row("b", "\"key\", \"weight=2s\"", "options, at position 1: there is no option \"weight\"");
    row("c", "\"wait=2\"", "options, at position 1: wait: \"2\" is not a duration");
    row("d", "\"key:{this.tenat}\"", "WrongShop has no readable property \"tenat\"");
    row("e", "\"key:{order.numbr}\"", "Order has no readable property \"numbr\"");
    row("f", "\"key:{id\"", "key, at position 5: a { without its }");
    row("g", "\"condition=this.enable\"", "WrongShop has no readable property \"enable\"");
    row("h", "\"lease=25h\"", "options, lease is 90000000 ms");
    row("i", "\"key:{id}\"", "the parameters have no names in the declaration; name them there, or write {1}");
    row("j", "\"key:{2}\"", "there is no parameter 2; it has 1");
    row("k", "\"key:{id}\"", "there is no parameter \"id\"; it has none");
    row("l", "\"server=redis://…@host:99999\"", "server: ");
    row("m", "\"key:{id}\"", "there is no parameter \"id\"");
    row("n", "\"\"", "the key is empty");
    row("o", "\"o\"", "it returns QCoro::Task<int>, and the lock would be given back before its work is done");
    row("p", "\"p\"", "it returns std::future<int>");
    row("q", "\"q:{id}\"", "it returns std::shared_future<void>");
    row("r", "\"r:{1}\"", "it has the same key as QDL_LOCKED_METHOD(r, \"r:{id}\", \"wait=2s\"), but other options");
    row("s", "\"onBusy=fail\"", "it has the same key as QDL_LOCKED_METHOD(s, \"s\", \"onBusy=skip\"), but other options");
    row("t", "\"k:t\"", "it has the same key as QDL_LOCKED_METHOD(t, \"t\"), but other options");
    row("u", "wait=3s", "it has the same key as QDL_LOCKED_METHOD(u, \"u\", \"server=redis://HOST; wait=2s\"), but other");
    row("v", "\"{{v}}\"", "key, a {hash tag} and nothing else has the side keys of the lock that is named in it");
    row("w", "\"w\"", "it returns QFuture<QFuture<int>>, and the future inside is not followed; return future.unwrap()");
    row("x", "\"x:{id.length}\"", "key, {id.length}: QString has no properties, so no \"length\"");
    row("y", "\"gr", "key, at position 3: bytes that are not UTF-8; save the source file as UTF-8");
    row("signalled", "\"key\"", "there is no slot or invokable method of this name");
}

/// validateAnnotations() and the first use say the same.
void tst_Annotation::wrong()
{
    QFETCH(QString, method);
    QFETCH(QString, text);
    QFETCH(QString, problem);
    const QString start = QStringLiteral("WrongShop::%1: QDL_LOCKED_METHOD(%1, ").arg(method);
    const QStringList found = validateAnnotations(&WrongShop::staticMetaObject).filter(start);
    QCOMPARE(found.size(), 1);
    QVERIFY2(found.first().contains(text) && found.first().contains(problem), qPrintable(found.first()));
    QVERIFY2(!found.first().contains(QStringLiteral("topsecret")), qPrintable(found.first()));

    const QMetaObject &meta = WrongShop::staticMetaObject;
    for (int i = 0; i < meta.methodCount(); ++i) {
        if (QString::fromLatin1(meta.method(i).name()) != method || meta.method(i).methodType() == QMetaMethod::Signal)
            continue;
        for (int again = 0; again < 2; ++again) {
            QString error;
            QVERIFY(!LockedMethod::get(&meta, meta.method(i), &error));
            QCOMPARE(error, found.first());
        }
    }
}

void tst_Annotation::wrongComplete()
{
    QString unused;
    const QMetaObject &meta = WrongShop::staticMetaObject;
    QVERIFY(LockedMethod::get(&meta, meta.method(meta.indexOfMethod("agreed(int)")), &unused));
    const QStringList found = validateAnnotations(&WrongShop::staticMetaObject);
    QCOMPARE(found.size(), 27);
}

void tst_Annotation::parametersOfTheAnnotatingClass()
{
    // The most derived class that annotates counts, with the names its declaration sees.
    const auto text = [](const QMetaObject *meta, const char *signature, const QVariant &argument) {
        QString error;
        const QMetaMethod method = meta->method(meta->indexOfMethod(signature));
        const auto locked = LockedMethod::get(meta, method, &error);
        if (!locked)
            return error;
        const QMetaType type = argument.metaType();
        const void *const value = argument.constData();
        const auto requests = locked->requests({nullptr, 1, &type, &value}, &error);
        return requests ? requests->first().name : error;
    };
    QCOMPARE(text(&Shop::staticMetaObject, "ship(int)", 5), QStringLiteral("order:5"));
    QCOMPARE(text(&BigShop::staticMetaObject, "ship(int)", 5), QStringLiteral("order:5"));
    QCOMPARE(text(&BiggerShop::staticMetaObject, "ship(int)", 5), QStringLiteral("bigger:5"));
    QCOMPARE(text(&PlainShop::staticMetaObject, "ship(QString)", QStringLiteral("x")), QStringLiteral("bigger:x"));
    QCOMPARE(text(&PlainShop::staticMetaObject, "audit(int)", 2026), QStringLiteral("audit:2026"));
    QCOMPARE(text(&Shop::staticMetaObject, "defaulted(int)", 8), QStringLiteral("d:8"));

    QString error;
    const QMetaObject &meta = Shop::staticMetaObject;
    QVERIFY(!LockedMethod::get(&meta, meta.method(meta.indexOfMethod("free(QString)")), &error));
    QVERIFY2(error.startsWith(QStringLiteral("Shop::free: there is no annotation")), qPrintable(error));
}

void tst_Annotation::classesThatGo()
{
    // As with types of QML: made at run time, gone with their engine, and others in their place.
    QMetaObject meta = FirstOverload::staticMetaObject;
    const auto name = [&meta] {
        QString error;
        const auto locked = LockedMethod::get(&meta, meta.method(meta.indexOfMethod("ship(QString,QString)")), &error);
        if (!locked)
            return error;
        const QMetaType types[] = {QMetaType::fromType<QString>(), QMetaType::fromType<QString>()};
        const QString texts[] = {QStringLiteral("1"), QStringLiteral("2")};
        const void *const values[] = {&texts[0], &texts[1]};
        const auto requests = locked->requests({nullptr, 2, types, values}, &error);
        return requests ? requests->first().name : error;
    };
    QCOMPARE(name(), QStringLiteral("order:1"));
    meta = SecondOverload::staticMetaObject;
    QCOMPARE(name(), QStringLiteral("order:2"));

    // As with a library that is unloaded, and another one in its place.
    QMetaObject plugin = FirstPlugin::staticMetaObject;
    const auto pluginKey = [&plugin] {
        QString error;
        const auto locked = LockedMethod::get(&plugin, plugin.method(plugin.indexOfMethod("run(int)")), &error);
        const QMetaType type = QMetaType::fromType<int>();
        const int value = 5;
        const void *const values[] = {&value};
        const auto requests = locked ? locked->requests({nullptr, 1, &type, values}, &error) : std::nullopt;
        return requests ? requests->first().name : error;
    };
    QCOMPARE(pluginKey(), QStringLiteral("first:5"));
    plugin = SecondPlugin::staticMetaObject;
    QCOMPARE(pluginKey(), QStringLiteral("second:5"));
}

void tst_Annotation::requests()
{
    Shop shop;
    Order order;
    QString error;
    const QMetaObject &meta = Shop::staticMetaObject;
    const auto method = LockedMethod::get(&meta, meta.method(meta.indexOfMethod("pay(Order)")), &error);
    QVERIFY2(method, qPrintable(error));
    QCOMPARE(method->displayName(), QStringLiteral("Shop::pay"));
    const QMetaType type = QMetaType::fromType<Order>();
    const void *const value = &order;
    auto requests = method->requests({&shop, 1, &type, &value}, &error);
    QVERIFY2(requests, qPrintable(error));
    QCOMPARE(requests->size(), 2);
    QCOMPARE(requests->at(0).server, QUrl(QStringLiteral("memory:till")));
    QCOMPARE(requests->at(0).name, QStringLiteral("till"));
    QCOMPARE(requests->at(1).server, LockRegistry::defaultServer());
    QCOMPARE(requests->at(1).key(), QStringLiteral("lock:pay:acme:42"));
}

void tst_Annotation::positionalParameters()
{
    const Call call;
    QString error;
    const auto same = LockedMethod::make("Shop", "x", call.signature(), QStringLiteral("{id}"), QString(), &error);
    QVERIFY2(same, qPrintable(error));
    QCOMPARE(same->requests(call.arguments(), &error)->size(), 1);
    const auto positional = LockedMethod::make("Shop", "x", {&Shop::staticMetaObject, {}, call.types},
                                               QStringLiteral("{1}"), QString(), &error);
    QVERIFY2(positional, qPrintable(error));
    QCOMPARE(positional->requests(call.arguments(), &error)->first().name, call.id);
}

void tst_Annotation::forwardDeclaredTypes()
{
    QVERIFY(!Detail::metaTypeOf<Forwarded *>().isValid());
    QCOMPARE(Detail::metaTypeOf<void *>(), QMetaType::fromType<void *>());
    QCOMPARE(Detail::metaTypeOf<Shop *>(), QMetaType::fromType<Shop *>());
    QCOMPARE(Detail::metaTypeOf<QString>(), QMetaType::fromType<QString>());
    // Only a key that needs its value fails.
    const QMetaType type = Detail::metaTypeOf<Forwarded *>();
    const void *const value = nullptr;
    QString error;
    const MethodSignature signature{nullptr, {"thing"}, {type}};
    const auto plain = LockedMethod::make("Shop", "x", signature, QStringLiteral("key"), QString(), &error);
    QVERIFY(plain && plain->requests({nullptr, 1, &type, &value}, &error));
    const auto thing = LockedMethod::make("Shop", "x", signature, QStringLiteral("{thing}"), QString(), &error);
    QVERIFY(thing && !thing->requests({nullptr, 1, &type, &value}, &error));
    QVERIFY2(error.contains(QStringLiteral("type is unknown to Qt")), qPrintable(error));
}

QTEST_APPLESS_MAIN(tst_Annotation)
#include "tst_annotation.moc"
