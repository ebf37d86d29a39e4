// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The forms in which annotations and their connections are written: where the annotation may be, and where the slot
// gets arguments that its signal does not have.

// As in most applications: a literal converts to QString.
#undef QT_NO_CAST_FROM_ASCII

#include "support/locktest.h"

#include <QDistLock/Annotations>
#include <QDistLock/Semaphore>

#include <QtCore/qmetaobject.h>

#include <memory>
#include <string_view>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace QDistLock;

namespace {

class Button : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void clicked(bool checked = false);
    void numbered(int number);
};

} // namespace

// clang-format off
#define LOCKED_TWICE(first, second) QDL_LOCKED_METHOD(first, "one") QDL_LOCKED_METHOD(second, "two")
// clang-format on

/// Made of a literal.
struct Weight
{
    Q_GADGET
    Q_PROPERTY(QString text MEMBER text)
public:
    Weight() = default;
    Weight(const char *latin1)
        : text(QLatin1String(latin1))
    {
    }
    QString text;
};

class Orders : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString orderId MEMBER orderId)
    QDL_LOCKED_METHOD(above, "above:{id}")

public:
    QDL_LOCKED_METHOD(ship, "order:{id}", "wait=1min; retryInterval=20ms")
    Q_SLOT void ship(const QString &id) { note(u"ship "_s + id, u"order:"_s + keyText(id)); }

    QDL_LOCKED_METHOD(shipCurrent, "order:{this.orderId}")
    Q_SLOT void shipCurrent() { note(u"shipCurrent "_s + orderId, u"order:"_s + orderId); }

    QDL_LOCKED_METHOD(cancel, "order:{id}")
    QDL_LOCKED_METHOD(cancel, "cancel:{id}", "minHold=1ms") Q_INVOKABLE void cancel(const QString &id)
    {
        note(u"cancel "_s + id, u"cancel:"_s + id);
    }

    LOCKED_TWICE(one, two)
    Q_SLOT void one() { note(u"one"_s, u"one"_s); }
    Q_SLOT void two() { note(u"two"_s, u"two"_s); }

    QDL_LOCKED_METHOD(setUrgent, "order:{id}:{urgent}")
    Q_SLOT void setUrgent(const QString &id, bool urgent)
    {
        note(urgent ? u"urgent "_s + id : u"normal "_s + id, u"order:%1:%2"_s.arg(id, urgent ? u"true"_s : u"false"_s));
    }

    QDL_LOCKED_METHOD(setNumber, "number:{number}")
    Q_SLOT void setNumber(qint64 number) { note(u"number %1"_s.arg(number), u"number:%1"_s.arg(number)); }

    QDL_LOCKED_METHOD(views, "view:{text}")
    Q_SLOT void views(QStringView text, const char *bytes, std::string_view other)
    {
        const QString id = text.toString();
        note(u"%1 %2 %3"_s.arg(id, QLatin1String(bytes), QString::fromStdString(std::string(other))), u"view:"_s + id);
    }

    QDL_LOCKED_METHOD(watch, "watch:{object.objectName}")
    Q_SLOT void watch(QObject *object) { note(object->objectName(), u"watch:"_s + object->objectName()); }

    QDL_LOCKED_METHOD(list, "list:{id}")
    Q_SLOT void list(const QString &id) const { note(u"list "_s + id, u"list:"_s + id); }

    QDL_LOCKED_METHOD(weigh, "weight:{weight.text}")
    Q_SLOT void weigh(const Weight &weight) { note(u"weight "_s + weight.text, u"weight:"_s + weight.text); }

    QDL_LOCKED_METHOD(overloaded, "overloaded:{value}")
    Q_SLOT void overloaded(int value) { note(u"int %1"_s.arg(value), u"overloaded:%1"_s.arg(value)); }
    Q_SLOT void overloaded(const QString &value) { note(u"text "_s + value, u"overloaded:"_s + value); }

    QDL_LOCKED_METHOD(count, "stock", "mode=read; wait=1min")
    Q_SLOT void count()
    {
        const bool isReader = isLockedHere(u"stock"_s, LockOptions::Shared) && !isLockedHere(u"stock"_s);
        calls.append(isReader ? u"count"_s : u"count, but not as a reader"_s);
    }

    QDL_LOCKED_METHOD(load, "dock", "permits=5; take=2; wait=1min")
    Q_SLOT void load()
    {
        const bool hasPermits = isLockedHere(u"dock"_s, LockOptions::Shared) && !isLockedHere(u"dock"_s);
        calls.append(hasPermits ? u"load"_s : u"load, but without permits"_s);
    }

    QString orderId = u"42"_s;
    mutable QStringList calls;

public Q_SLOTS:
    void above(const QString &id) { note(u"above "_s + id, u"above:"_s + id); }
    void free(const QString &id) { note(u"free "_s + id, u"free:"_s + id); }

private:
    void note(const QString &call, const QString &lock) const
    {
        calls.append(isLockedHere(lock) ? call : call + u" without "_s + lock);
    }
};

class tst_AnnotationForms : public RedisLockTest
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void placement();
    void slotsStaySlots();
    void headline();
    void argumentsThenSignal();
    void convertedArguments();
    void literals();
    void overloadedSlots();
    void copiedArguments();
    void destroyedArgument();
    void disconnected();
    void withKey();
    void functionObjects();
    void emptyOptions();
    void readers();
    void permits();

private:
    static QStringList callsOf(Button *button, Orders *orders, int count)
    {
        Q_EMIT button->clicked(true);
        if (!eventually([=] { return orders->calls.size() == count; }))
            return {u"timeout"_s};
        return orders->calls;
    }
    static QStringList sortedCallsOf(Button *button, Orders *orders, int count)
    {
        QStringList calls = callsOf(button, orders, count);
        calls.sort();
        return calls;
    }
};

void tst_AnnotationForms::initTestCase()
{
    RedisLockTest::initTestCase();
    LockRegistry::setDefaultServer(m_server.url());
}

void tst_AnnotationForms::placement()
{
    QCOMPARE(validateAnnotations(&Orders::staticMetaObject), QStringList());
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::one));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::two));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::above, withArguments(u"1"_s)));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::cancel, withArguments(u"2"_s)));
    QCOMPARE(sortedCallsOf(&button, &orders, 4), QStringList({u"above 1"_s, u"cancel 2"_s, u"one"_s, u"two"_s}));
}

void tst_AnnotationForms::slotsStaySlots()
{
    const QMetaObject &meta = Orders::staticMetaObject;
    const auto typeOf = [&meta](const char *method) { return meta.method(meta.indexOfMethod(method)).methodType(); };
    for (const char *slot : {"ship(QString)", "shipCurrent()", "one()", "two()", "above(QString)", "free(QString)"})
        QVERIFY2(typeOf(slot) == QMetaMethod::Slot, slot);
    QCOMPARE(typeOf("cancel(QString)"), QMetaMethod::Method);
}

void tst_AnnotationForms::headline()
{
    Button button;
    Orders orders;
    Orders *const receiver = &orders;
    const QString id = u"7:1"_s;
    QVERIFY(connectLocked(&button, &Button::clicked, receiver, &Orders::ship, withArguments(id)));
    QCOMPARE(callsOf(&button, receiver, 1), QStringList{u"ship 7:1"_s});

    Button second;
    QVERIFY(connectLocked(&second, &Button::clicked, receiver, &Orders::shipCurrent));
    QCOMPARE(callsOf(&second, receiver, 2).last(), u"shipCurrent 42"_s);

    Button third;
    QVERIFY(connectLocked(
            &third, &Button::clicked, receiver, [=] { receiver->ship(id); }, u"order:"_s + keyText(id)));
    QCOMPARE(callsOf(&third, receiver, 3).last(), u"ship 7:1"_s);
}

void tst_AnnotationForms::argumentsThenSignal()
{
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::setUrgent, withArguments(u"1"_s)));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::setUrgent, withArguments(u"2"_s, false)));
    QCOMPARE(sortedCallsOf(&button, &orders, 2), QStringList({u"normal 2"_s, u"urgent 1"_s}));
}

void tst_AnnotationForms::convertedArguments()
{
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::setNumber, withArguments(short(7))));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::ship, withArguments(QLatin1String("8"))));
    QCOMPARE(sortedCallsOf(&button, &orders, 2), QStringList({u"number 7"_s, u"ship 8"_s}));
}

void tst_AnnotationForms::literals()
{
    Button button;
    Orders orders;
    char buffer[] = "2";
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::ship, withArguments("1")));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::list, withArguments(buffer)));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::free, withArguments("3"), u"free:{1}"_s));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::weigh, withArguments("4")));
    QVERIFY(connectLocked(
            &button, &Button::clicked, &orders,
            [&](const QString &id) {
                orders.calls.append(isLockedHere(u"function:5"_s) ? u"function "_s + id : u"without"_s);
            },
            withArguments("5"), u"function:{1}"_s));
    buffer[0] = 'x';
    QCOMPARE(sortedCallsOf(&button, &orders, 5),
             QStringList({u"free 3"_s, u"function 5"_s, u"list 2"_s, u"ship 1"_s, u"weight 4"_s}));
}

void tst_AnnotationForms::overloadedSlots()
{
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, qOverload<int>(&Orders::overloaded), withArguments(1)));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, qOverload<const QString &>(&Orders::overloaded),
                          withArguments("2")));
    QCOMPARE(sortedCallsOf(&button, &orders, 2), QStringList({u"int 1"_s, u"text 2"_s}));
}

/// What views point to may be changed or destroyed after the connection was made.
void tst_AnnotationForms::copiedArguments()
{
    Button button;
    Orders orders;
    {
        auto text = std::make_unique<QString>(u"text"_s);
        std::string bytes("bytes");
        std::string other("other");
        QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::views,
                              withArguments(QStringView(*text), bytes.c_str(), std::string_view(other))));
        text->fill(u'x');
        bytes.assign("xxxxx");
        other.assign("xxxxx");
    }
    QCOMPARE(callsOf(&button, &orders, 1), QStringList{u"text bytes other"_s});
    QCOMPARE(callsOf(&button, &orders, 2).last(), u"text bytes other"_s);
}

void tst_AnnotationForms::destroyedArgument()
{
    Button button;
    Orders orders;
    auto object = std::make_unique<QObject>();
    object->setObjectName(u"watched"_s);
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::watch, withArguments(object.get())));
    QCOMPARE(callsOf(&button, &orders, 1), QStringList{u"watched"_s});

    object.reset();
    QList<LockedCallInfo> failed;
    QObject context;
    connect(LockedCalls::instance(), &LockedCalls::failed, &context,
            [&](const LockedCallInfo &info) { failed.append(info); });
    Q_EMIT button.clicked();
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    QCOMPARE(failed.first().error, DistributedLock::CancelledError);
    QVERIFY2(failed.first().errorString.contains(u"an object among its arguments was destroyed"_s),
             qPrintable(failed.first().errorString));
    QCOMPARE(orders.calls.size(), 1);
}

void tst_AnnotationForms::disconnected()
{
    // The connection keeps a copy of the values only until it ends; a call that waits has its own.
    Button button;
    Orders orders;
    const auto value = std::make_shared<int>(7);
    const auto note = [&orders](const std::shared_ptr<int> &value) { orders.calls.append(QString::number(*value)); };
    const auto connection = connectLocked(&button, &Button::clicked, &orders, note, withArguments(value), u"value"_s);
    QVERIFY(connection);
    QVERIFY(value.use_count() > 1);
    Q_EMIT button.clicked();
    QVERIFY(QObject::disconnect(connection));
    Q_EMIT button.clicked();
    QVERIFY(eventually([&] { return value.use_count() == 1; }));
    QCOMPARE(orders.calls, QStringList{u"7"_s});
}

void tst_AnnotationForms::withKey()
{
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::free, withArguments(u"1"_s), u"free:{1}"_s));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::free, withArguments(u"2"_s), u"free:{1}"_s,
                          options()));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::free, withArguments(u"3"_s), u"free:{1}"_s,
                          u"wait=1min"_s));
    QCOMPARE(sortedCallsOf(&button, &orders, 3), QStringList({u"free 1"_s, u"free 2"_s, u"free 3"_s}));
}

void tst_AnnotationForms::functionObjects()
{
    Button button;
    QObject context;
    QStringList calls;
    const auto note = [&](const QString &id, int number) {
        calls.append(isLockedHere(u"f:%1:%2"_s.arg(id).arg(number)) ? u"%1 %2"_s.arg(id).arg(number) : u"without"_s);
    };
    QVERIFY(connectLocked(&button, &Button::numbered, &context, note, withArguments(u"a"_s), u"f:{1}:{2}"_s));
    Q_EMIT button.numbered(3);
    QVERIFY(eventually([&] { return calls == QStringList{u"a 3"_s}; }));
}

void tst_AnnotationForms::emptyOptions()
{
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::one, u"one"_s, {}));
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::free, withArguments(u"1"_s), u"free:1"_s, {}));
    QCOMPARE(sortedCallsOf(&button, &orders, 2), QStringList({u"free 1"_s, u"one"_s}));
}

void tst_AnnotationForms::readers()
{
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::count));
    DistributedLock other(registry(), u"stock"_s);
    other.setMode(LockOptions::Shared);
    QVERIFY(acquireNow(&other));
    QCOMPARE(callsOf(&button, &orders, 1), QStringList{u"count"_s});
    QVERIFY(other.isHeld());
    other.release();

    other.setMode(LockOptions::Exclusive);
    QVERIFY(acquireNow(&other));
    Q_EMIT button.clicked();
    QVERIFY(eventually([this] { return m_server.exists("{lock:stock}:queue"); }));
    QCOMPARE(orders.calls.size(), 1);
    other.release();
    QVERIFY(eventually([&orders] { return orders.calls == QStringList({u"count"_s, u"count"_s}); }));
}

void tst_AnnotationForms::permits()
{
    Button button;
    Orders orders;
    QVERIFY(connectLocked(&button, &Button::clicked, &orders, &Orders::load));
    std::vector<std::unique_ptr<Semaphore>> others;
    const auto addOther = [this, &others] {
        others.push_back(std::make_unique<Semaphore>(registry(), u"dock"_s, 5));
        return acquireNow(others.back().get());
    };
    for (int i = 0; i < 3; ++i)
        QVERIFY(addOther());
    QCOMPARE(callsOf(&button, &orders, 1), QStringList{u"load"_s});

    QVERIFY(addOther());
    Q_EMIT button.clicked();
    QVERIFY(eventually([this] { return m_server.exists("{lock:dock}:queue"); }));
    QCOMPARE(orders.calls.size(), 1);
    others.pop_back();
    QVERIFY(eventually([&orders] { return orders.calls == QStringList({u"load"_s, u"load"_s}); }));

    bool isAsTheServerSays = false;
    QVERIFY(connectLocked(
            &button, &Button::numbered, &orders, [&isAsTheServerSays](int) { isAsTheServerSays = true; }, u"dock"_s,
            u"permits=server; take=2"_s));
    Q_EMIT button.numbered(1);
    QVERIFY(eventually([&isAsTheServerSays] { return isAsTheServerSays; }));
}

QTEST_GUILESS_MAIN(tst_AnnotationForms)

#include "tst_annotationforms.moc"
