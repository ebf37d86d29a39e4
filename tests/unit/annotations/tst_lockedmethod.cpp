// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The annotations of a method: their class, how the pointer of a slot finds them, and their errors.

#include "shop.h"

#include "annotations/lockedmethod.h"
#include "lock/resolvedaddress.h"
#include "support/rows.h"

#include <QDistLock/LockRegistry>

#include <future>

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;

class Forwarded;

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
    void guarded() {}
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
    void ship(const QString &id, const QString &by)
    {
        Q_UNUSED(id)
        Q_UNUSED(by)
    }
};

class SecondOverload : public Shop
{
    Q_OBJECT
public Q_SLOTS:
    void ship(const QString &by, const QString &id)
    {
        Q_UNUSED(by)
        Q_UNUSED(id)
    }
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
    QDL_LOCKED_METHOD(noScheme, "key", "wait=2s; server=user:topsecret@host")
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
    QDL_LOCKED_METHOD(labelled, "labelled", "label=one")
    QDL_LOCKED_METHOD(labelled, "labelled", "label=two")
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
    QDL_LOCKED_METHOD(agreed, "k:t", "keyPrefix=loc; wait=2s")
    QDL_LOCKED_METHOD(agreed, "t", "server=memory:other")
    QDL_LOCKED_METHOD(agreed, "t:{id}", "wait=3s")
public Q_SLOTS:
    void r(int id) { Q_UNUSED(id) }
    void s() {}
    void labelled() {}
    void t() {}
    void u() {}
    void agreed(int id) { Q_UNUSED(id) }
    Later o() { return {}; }
    std::future<int> p() { return {}; }
    std::shared_future<void> q(int id)
    {
        Q_UNUSED(id)
        return {};
    }
    void a(int id) { Q_UNUSED(id) }
    void b() {}
    void c() {}
    void d() {}
    void e(const Order &order) { Q_UNUSED(order) }
    void f(int id) { Q_UNUSED(id) }
    void g() {}
    void h() {}
    void i(int) {}
    void j(int id) { Q_UNUSED(id) }
    void k() {}
    void l() {}
    Q_INVOKABLE void noScheme() {}
    void m() {}
    void n() {}
    void v() {}
    QFuture<QFuture<int>> w() { return {}; }
    void x(const QString &id) { Q_UNUSED(id) }
    void y() {}
Q_SIGNALS:
    void signalled();
};

class tst_LockedMethod : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void pointers();
    void valid();
    void wrong_data();
    void wrong();
    void wrongComplete();
    void parametersOfTheAnnotatingClass();
    void destroyedClasses();
    void requests();
    void readerAndWriterOfOneLock();
    void permitsAndLockOfOneName();
    void positionalParameters();
    void forwardDeclaredTypes();
};

void tst_LockedMethod::pointers()
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

void tst_LockedMethod::valid()
{
    QCOMPARE(validateAnnotations(&Shop::staticMetaObject), QStringList());
    QCOMPARE(validateAnnotations(&BigShop::staticMetaObject), QStringList());
    QCOMPARE(validateAnnotations(&PlainShop::staticMetaObject), QStringList());
    QCOMPARE(validateAnnotations(&QObject::staticMetaObject), QStringList());
}

void tst_LockedMethod::wrong_data()
{
    Support::addColumns<QString, QString, QString>("method", "text", "problem");
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
    row("noScheme", "\"wait=2s; server=…@host\"", "server: ");
    row("m", "\"key:{id}\"", "there is no parameter \"id\"");
    row("n", "\"\"", "the key is empty");
    row("o", "\"o\"", "it returns QCoro::Task<int>, and the lock would be released before its work has ended");
    row("p", "\"p\"", "it returns std::future<int>");
    row("q", "\"q:{id}\"", "it returns std::shared_future<void>");
    row("r", "\"r:{1}\"", "it has the same key as QDL_LOCKED_METHOD(r, \"r:{id}\", \"wait=2s\"), but other options");
    row("s", "\"onBusy=fail\"",
        "it has the same key as QDL_LOCKED_METHOD(s, \"s\", \"onBusy=skip\"), but other options");
    row("labelled", "\"label=two\"",
        "it has the same key as QDL_LOCKED_METHOD(labelled, \"labelled\", \"label=one\"), but other options");
    row("t", "\"k:t\"", "it has the same key as QDL_LOCKED_METHOD(t, \"t\"), but other options");
    row("u", "wait=3s",
        "it has the same key as QDL_LOCKED_METHOD(u, \"u\", \"server=redis://HOST; wait=2s\"), but other");
    row("v", "\"{{v}}\"", "key, a {hash tag} and nothing else has the same side keys as the lock that is named in it");
    row("w", "\"w\"",
        "it returns QFuture<QFuture<int>>, and the future inside is not followed; return future.unwrap()");
    row("x", "\"x:{id.length}\"", "key, {id.length}: QString has no properties, so no \"length\"");
    row("y", "\"gr", "key, at position 3: bytes that are not UTF-8; save the source file as UTF-8");
    row("signalled", "\"key\"", "there is no slot or invokable method of this name");
}

/// validateAnnotations() and the first use say the same.
void tst_LockedMethod::wrong()
{
    QFETCH(QString, method);
    QFETCH(QString, text);
    QFETCH(QString, problem);
    const QString start = u"WrongShop::%1: QDL_LOCKED_METHOD(%1, "_s.arg(method);
    const QStringList found = validateAnnotations(&WrongShop::staticMetaObject).filter(start);
    QCOMPARE(found.size(), 1);
    QVERIFY2(found.first().contains(text) && found.first().contains(problem), qPrintable(found.first()));
    QVERIFY2(!found.first().contains(u"topsecret"_s), qPrintable(found.first()));

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

void tst_LockedMethod::wrongComplete()
{
    QString unused;
    const QMetaObject &meta = WrongShop::staticMetaObject;
    QVERIFY(LockedMethod::get(&meta, meta.method(meta.indexOfMethod("agreed(int)")), &unused));
    const QStringList found = validateAnnotations(&WrongShop::staticMetaObject);
    QCOMPARE(found.size(), 29);
}

void tst_LockedMethod::parametersOfTheAnnotatingClass()
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
        return requests ? requests->first().address.name() : error;
    };
    QCOMPARE(text(&Shop::staticMetaObject, "ship(int)", 5), u"order:5"_s);
    QCOMPARE(text(&BigShop::staticMetaObject, "ship(int)", 5), u"order:5"_s);
    QCOMPARE(text(&BiggerShop::staticMetaObject, "ship(int)", 5), u"bigger:5"_s);
    QCOMPARE(text(&PlainShop::staticMetaObject, "ship(QString)", u"x"_s), u"bigger:x"_s);
    QCOMPARE(text(&PlainShop::staticMetaObject, "audit(int)", 2026), u"audit:2026"_s);
    QCOMPARE(text(&Shop::staticMetaObject, "defaulted(int)", 8), u"d:8"_s);

    QString error;
    const QMetaObject &meta = Shop::staticMetaObject;
    QVERIFY(!LockedMethod::get(&meta, meta.method(meta.indexOfMethod("free(QString)")), &error));
    QVERIFY2(error.startsWith(u"Shop::free: there is no annotation"_s), qPrintable(error));
}

void tst_LockedMethod::destroyedClasses()
{
    // Types of QML are made at run time and destroyed with their engine; others may then have the same address.
    QMetaObject meta = FirstOverload::staticMetaObject;
    const auto name = [&meta] {
        QString error;
        const auto locked = LockedMethod::get(&meta, meta.method(meta.indexOfMethod("ship(QString,QString)")), &error);
        if (!locked)
            return error;
        const QMetaType types[] = {QMetaType::fromType<QString>(), QMetaType::fromType<QString>()};
        const QString texts[] = {u"1"_s, u"2"_s};
        const void *const values[] = {&texts[0], &texts[1]};
        const auto requests = locked->requests({nullptr, 2, types, values}, &error);
        return requests ? requests->first().address.name() : error;
    };
    QCOMPARE(name(), u"order:1"_s);
    meta = SecondOverload::staticMetaObject;
    QCOMPARE(name(), u"order:2"_s);

    // As with a library that is unloaded, and another one in its place.
    QMetaObject plugin = FirstPlugin::staticMetaObject;
    const auto pluginKey = [&plugin] {
        QString error;
        const auto locked = LockedMethod::get(&plugin, plugin.method(plugin.indexOfMethod("run(int)")), &error);
        const QMetaType type = QMetaType::fromType<int>();
        const int value = 5;
        const void *const values[] = {&value};
        const auto requests = locked ? locked->requests({nullptr, 1, &type, values}, &error) : std::nullopt;
        return requests ? requests->first().address.name() : error;
    };
    QCOMPARE(pluginKey(), u"first:5"_s);
    plugin = SecondPlugin::staticMetaObject;
    QCOMPARE(pluginKey(), u"second:5"_s);
}

void tst_LockedMethod::requests()
{
    Shop shop;
    Order order;
    QString error;
    const QMetaObject &meta = Shop::staticMetaObject;
    const auto method = LockedMethod::get(&meta, meta.method(meta.indexOfMethod("pay(Order)")), &error);
    QVERIFY2(method, qPrintable(error));
    QCOMPARE(method->displayName(), u"Shop::pay"_s);
    const QMetaType type = QMetaType::fromType<Order>();
    const void *const value = &order;
    auto requests = method->requests({&shop, 1, &type, &value}, &error);
    QVERIFY2(requests, qPrintable(error));
    QCOMPARE(requests->size(), 2);
    QCOMPARE(requests->at(0).address.server(), QUrl(u"memory:till"_s));
    QCOMPARE(requests->at(0).address.name(), u"till"_s);
    QCOMPARE(requests->at(1).address.server(), LockRegistry::defaultServer());
    QCOMPARE(keyOf(requests->at(1).address), u"lock:pay:acme:42"_s);
}

// Only the arguments of a call show that its annotations name one lock.
void tst_LockedMethod::readerAndWriterOfOneLock()
{
    Shop shop;
    QString error;
    const QMetaObject &meta = Shop::staticMetaObject;
    const auto method = LockedMethod::get(&meta, meta.method(meta.indexOfMethod("move(int,int)")), &error);
    QVERIFY2(method, qPrintable(error));
    const auto modes = [&](int from, int to) {
        const QMetaType types[] = {QMetaType::fromType<int>(), QMetaType::fromType<int>()};
        const void *const values[] = {&from, &to};
        const auto requests = method->requests({&shop, 2, types, values}, &error);
        QList<LockOptions::Mode> result;
        for (const LockRequest &request : requests.value_or(QList<LockRequest>()))
            result.append(request.options.mode);
        return result;
    };
    QCOMPARE(modes(1, 2), QList({LockOptions::Shared, LockOptions::Exclusive}));
    QCOMPARE(modes(2, 1), QList({LockOptions::Exclusive, LockOptions::Shared})); // in the order of the names
    QCOMPARE(modes(1, 1), QList({LockOptions::Exclusive}));
}

// The whole lock counts, or the greatest number of permits.
void tst_LockedMethod::permitsAndLockOfOneName()
{
    Shop shop;
    QString error;
    const QMetaObject &meta = Shop::staticMetaObject;
    const auto method = LockedMethod::get(&meta, meta.method(meta.indexOfMethod("load(int,int,int)")), &error);
    QVERIFY2(method, qPrintable(error));
    const auto requests = [&](int one, int two, int all) {
        const QMetaType types[] = {QMetaType::fromType<int>(), QMetaType::fromType<int>(), QMetaType::fromType<int>()};
        const void *const values[] = {&one, &two, &all};
        const auto found = method->requests({&shop, 3, types, values}, &error);
        QStringList result;
        for (const LockRequest &request : found.value_or(QList<LockRequest>()))
            result += u"%1 of %2"_s.arg(request.options.take).arg(request.options.permits);
        return result;
    };
    QCOMPARE(requests(1, 2, 3), QStringList({u"1 of -1"_s, u"2 of 5"_s, u"1 of 0"_s}));
    QCOMPARE(requests(1, 1, 3), QStringList({u"2 of 5"_s, u"1 of 0"_s}));
    QCOMPARE(requests(1, 2, 2), QStringList({u"1 of -1"_s, u"1 of 0"_s}));
    QCOMPARE(requests(1, 2, 1), QStringList({u"1 of 0"_s, u"2 of 5"_s}));
}

void tst_LockedMethod::positionalParameters()
{
    const Call call;
    QString error;
    const auto same = LockedMethod::make("Shop", "x", call.signature(), u"{id}"_s, QString(), &error);
    QVERIFY2(same, qPrintable(error));
    QCOMPARE(same->requests(call.arguments(), &error)->size(), 1);
    const auto positional = LockedMethod::make("Shop", "x", {&Shop::staticMetaObject, {}, call.types}, u"{1}"_s,
                                               QString(), &error);
    QVERIFY2(positional, qPrintable(error));
    QCOMPARE(positional->requests(call.arguments(), &error)->first().address.name(), call.id);
}

void tst_LockedMethod::forwardDeclaredTypes()
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
    const auto plain = LockedMethod::make("Shop", "x", signature, u"key"_s, QString(), &error);
    QVERIFY(plain && plain->requests({nullptr, 1, &type, &value}, &error));
    const auto thing = LockedMethod::make("Shop", "x", signature, u"{thing}"_s, QString(), &error);
    QVERIFY(thing && !thing->requests({nullptr, 1, &type, &value}, &error));
    QVERIFY2(error.contains(u"type is unknown to Qt"_s), qPrintable(error));
}

QTEST_APPLESS_MAIN(tst_LockedMethod)

#include "tst_lockedmethod.moc"
