// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/redisserver.h"
#include "support/rows.h"

#include <QDistLock/Annotations>
#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qdatetime.h>
#include <QtCore/qjsonvalue.h>
#include <QtCore/qpointer.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qthread.h>
#include <QtCore/qurl.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQml/qqmlcontext.h>
#include <QtQml/qqmlengine.h>
#include <QtTest/qtest.h>

#include <memory>
#include <numeric>
#include <stdexcept>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using Support::RedisServer;

constexpr int Patience = 60000;

/// What an application gives to its QML.
class Backend : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(ship, "order:{id}", "wait=1min")
    QDL_LOCKED_METHOD(note, "notes", "wait=1min")
    QDL_LOCKED_METHOD(skipped, "order:{id}", "onBusy=skip")
    QDL_LOCKED_METHOD(failing, "order:{id}", "onBusy=fail")
    QDL_LOCKED_METHOD(throwing, "notes", "wait=1min")
    QDL_LOCKED_METHOD(broken, "order:{nobody}")
    QDL_LOCKED_METHOD(makeObject, "notes", "wait=1min")
    QDL_LOCKED_METHOD(makeObjects, "notes", "wait=1min")

public:
    QStringList calls;
    QVariantList given;

    Q_INVOKABLE QVariantMap ship(const QString &id)
    {
        calls += u"ship "_s + id;
        return {{u"id"_s, id}, {u"locked"_s, isLockedHere(u"order:"_s + id)}};
    }
    Q_INVOKABLE int skipped(const QString &id)
    {
        calls += u"skipped "_s + id;
        return 1;
    }
    Q_INVOKABLE int failing(const QString &id)
    {
        calls += u"failing "_s + id;
        return 2;
    }
    Q_INVOKABLE void throwing() { throw std::runtime_error("out of paper"); }
    Q_INVOKABLE void broken(const QString &id) { calls += id; }
    /// Destroyed soon after the method has returned.
    Q_INVOKABLE QObject *makeObject()
    {
        auto *const object = new QObject;
        QMetaObject::invokeMethod(
                this, [object] { delete object; }, Qt::QueuedConnection);
        return object;
    }
    Q_INVOKABLE QVariantList makeObjects() { return {1, QVariant::fromValue(makeObject())}; }
    Q_INVOKABLE void plain() { calls += u"plain"_s; }

public Q_SLOTS:
    void note(int number, double fraction, bool flag, const QStringList &words, QObject *object)
    {
        given = {number, fraction, flag, words, QVariant::fromValue(object)};
    }
};

/// A value type of the application.
struct Place
{
    Q_GADGET
    Q_PROPERTY(int x MEMBER x)
public:
    int x = 0;
};
Q_DECLARE_METATYPE(Place)

/// One method for each type of parameter; each returns what it was given.
class Arguments : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(aBool, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aShort, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(anInt, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aUint, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aLong, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aDouble, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aFloat, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aText, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aChar, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aUrl, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aColor, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aDate, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aDateTime, "args:{value}", "wait=1min")
    QDL_LOCKED_METHOD(aPlace, "args:{value.x}", "wait=1min")
    QDL_LOCKED_METHOD(anObject, "args", "wait=1min")
    QDL_LOCKED_METHOD(aReceiver, "args", "wait=1min")
    QDL_LOCKED_METHOD(aVariant, "args", "wait=1min")
    QDL_LOCKED_METHOD(aList, "args", "wait=1min")
    QDL_LOCKED_METHOD(aMap, "args", "wait=1min")
    QDL_LOCKED_METHOD(texts, "args", "wait=1min")
    QDL_LOCKED_METHOD(ints, "args", "wait=1min")
    QDL_LOCKED_METHOD(doubles, "args", "wait=1min")
    QDL_LOCKED_METHOD(places, "args", "wait=1min")
    QDL_LOCKED_METHOD(objects, "args", "wait=1min")
    QDL_LOCKED_METHOD(json, "args", "wait=1min")
    QDL_LOCKED_METHOD(over, "args", "wait=1min")

public:
    enum Color { Red, Green };
    Q_ENUM(Color)
    int calls = 0;

    Q_INVOKABLE QString aBool(bool value) { return show(value); }
    Q_INVOKABLE QString aShort(short value) { return show(value); }
    Q_INVOKABLE QString anInt(int value) { return show(value); }
    Q_INVOKABLE QString aUint(uint value) { return show(value); }
    Q_INVOKABLE QString aLong(qint64 value) { return show(value); }
    Q_INVOKABLE QString aDouble(double value) { return show(value); }
    Q_INVOKABLE QString aFloat(float value) { return show(value); }
    Q_INVOKABLE QString aChar(QChar value) { return show(value); }
    Q_INVOKABLE QString aText(const QString &value) { return show(value); }
    Q_INVOKABLE QString aUrl(const QUrl &value) { return show(value); }
    Q_INVOKABLE QString aColor(Arguments::Color value) { return show(value); }
    Q_INVOKABLE QString aDate(const QDate &value) { return show(value); }
    Q_INVOKABLE QString aDateTime(const QDateTime &value) { return show(value); }
    Q_INVOKABLE QString aPlace(const Place &value) { return show(value.x); }
    Q_INVOKABLE QString anObject(QObject *value) { return show(value); }
    Q_INVOKABLE QString aReceiver(Arguments *value) { return show(value); }
    Q_INVOKABLE QString aVariant(const QVariant &value) { return show(value); }
    Q_INVOKABLE QString aList(const QVariantList &value) { return show(value); }
    Q_INVOKABLE QString aMap(const QVariantMap &value) { return show(value); }
    Q_INVOKABLE QString texts(const QStringList &value) { return show(value); }
    Q_INVOKABLE QString ints(const QList<int> &value) { return show(value); }
    Q_INVOKABLE QString doubles(const QList<double> &value) { return show(value); }
    Q_INVOKABLE QString places(const QList<Place> &value)
    {
        return show(std::accumulate(value.begin(), value.end(), 0, [](int sum, Place place) { return sum + place.x; }));
    }
    Q_INVOKABLE QString objects(const QList<QObject *> &value) { return show(value); }
    Q_INVOKABLE QString json(const QJsonValue &value) { return show(value); }
    Q_INVOKABLE QString over(const QString &value) { return show(value); }
    Q_INVOKABLE QString over(double value) { return show(value); }

    Q_INVOKABLE Place place() const { return {7}; }
    Q_INVOKABLE QList<int> someInts() const { return {1, 2}; }

private:
    template<typename T>
    QString show(const T &value)
    {
        ++calls;
        QString text;
        QDebug(&text).nospace() << value;
        return text;
    }
};

class TestInvokeLocked : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void resultUnderTheLock();
    void argumentsAndVoid();
    void argumentsAsInADirectCall_data();
    void argumentsAsInADirectCall();
    void numbersAsText();
    void argumentsThatWouldLose_data();
    void argumentsThatWouldLose();
    void functionsForAnotherThread_data();
    void functionsForAnotherThread();
    void gettersThatThrow();
    void objectInAListDestroyedWhileWaiting();
    void resultDestroyed_data()
    {
        Support::addRows<QByteArray>("method",
                                     {{"object", QByteArray("makeObject")}, {"in a list", QByteArray("makeObjects")}});
    }
    void resultDestroyed();
    void resultOfAnotherThread_data() { resultDestroyed_data(); }
    void resultOfAnotherThread();
    void busy_data();
    void busy();
    void waitsItsTurn();
    void mistakes_data();
    void mistakes();
    void exceptionRejects();
    void objectDestroyedWhileWaiting();
    void engineDestroyedWhileWaiting();
    void receiverInAnotherThread();
    void asWorkOfAnAction();

private:
    /// `heard` is how the promise of \a expression ended.
    void evaluate(const QByteArray &expression);
    QString heard() const { return m_root->property("heard").toString(); }
    QByteArray key() const { return "lock:order:" + m_id; }
    bool hold() { return m_server.cli({"SET", key(), "foreign", "NX", "PX", "60000"}) == "OK"; }

    RedisServer m_server;
    QByteArray m_id;
    int m_count = 0;
    QStringList m_warnings;
    std::unique_ptr<Backend> m_backend;
    std::unique_ptr<Arguments> m_arguments;
    QPointer<QObject> m_item;
    std::unique_ptr<QQmlEngine> m_engine;
    std::unique_ptr<QObject> m_root;
};

void TestInvokeLocked::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void TestInvokeLocked::init()
{
    m_id = "o" + QByteArray::number(++m_count);
    m_warnings.clear();
    m_backend = std::make_unique<Backend>();
    m_arguments = std::make_unique<Arguments>();
}

void TestInvokeLocked::cleanup()
{
    m_root.reset();
    m_engine.reset();
    m_backend.reset();
    m_arguments.reset();
    QCOMPARE(m_warnings, QStringList());
}

void TestInvokeLocked::evaluate(const QByteArray &expression)
{
    m_root.reset();
    m_engine = std::make_unique<QQmlEngine>();
    m_engine->addImportPath(QStringLiteral(QML_MODULE_DIR));
    connect(m_engine.get(), &QQmlEngine::warnings, this, [this](const QList<QQmlError> &errors) {
        for (const QQmlError &error : errors)
            m_warnings += error.toString();
    });
    m_engine->rootContext()->setContextProperty(u"backend"_s, m_backend.get());
    m_engine->rootContext()->setContextProperty(u"args"_s, m_arguments.get());
    m_engine->rootContext()->setContextProperty(u"item"_s, m_item.data());
    QQmlComponent component(m_engine.get());
    component.setData("import QtQml\nimport QDistLock\n"
                      "QtObject {\n"
                      "    id: root\n"
                      "    property string heard\n"
                      "    property QtObject action: LockedAction { name: 'outer' }\n"
                      "    function show(promise) {\n"
                      "        promise.then(value => heard = 'resolved ' + JSON.stringify(value),\n"
                      "                     reason => heard = 'rejected ' + reason.error + ' ' + reason);\n"
                      "    }\n"
                      "    Component.onCompleted: show("
                              + expression + ")\n}\n",
                      QUrl());
    m_root.reset(component.create());
    if (!m_root)
        qFatal("%s", qPrintable(component.errorString()));
    QCOMPARE(heard(), QString()); // never from inside the call
}

void TestInvokeLocked::resultUnderTheLock()
{
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), u"resolved {\"id\":\"%1\",\"locked\":true}"_s.arg(QLatin1String(m_id)));
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(key()), Patience);
}

void TestInvokeLocked::argumentsAndVoid()
{
    evaluate("DistributedLocks.invokeLocked(backend, 'note', [7, 2.5, true, ['a', 'b'], backend])");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), u"resolved undefined"_s);
    const QVariantList expected{7, 2.5, true, QStringList{u"a"_s, u"b"_s},
                                QVariant::fromValue<QObject *>(m_backend.get())};
    QCOMPARE(m_backend->given, expected);
}

void TestInvokeLocked::argumentsAsInADirectCall_data()
{
    Support::addColumns<QByteArray, QByteArray>("method", "argument");
    static constexpr const char *rows[][2] = {
            {"aBool", "true"},
            {"aBool", "1"},
            {"aShort", "-7"},
            {"anInt", "7"},
            {"anInt", "3.5 * 2"},
            {"anInt", "-0"},
            {"anInt", "true"},
            {"anInt", "'7'"},
            {"aUint", "4294967295"},
            {"aLong", "9007199254740992"},
            {"aLong", "-1e15"},
            {"aDouble", "7.5"},
            {"aDouble", "NaN"},
            {"aDouble", "-Infinity"},
            {"aFloat", "0.1"},
            {"aText", "'x'"},
            {"aText", "7"},
            {"aText", "true"},
            {"aChar", "'x'"},
            {"aUrl", "'http://a.example/b'"},
            {"aColor", "1"},
            {"aDate", "new Date(2020, 0, 2)"},
            {"aDateTime", "new Date(2020, 0, 2, 3, 4, 5)"},
            {"aPlace", "args.place()"},
            {"anObject", "args"},
            {"anObject", "null"},
            {"aReceiver", "args"},
            {"aReceiver", "null"},
            {"aVariant", "null"},
            {"aVariant", "'x'"},
            {"aVariant", "args.place()"},
            {"aVariant", "() => 1"},
            {"aList", "[1, 'x', [2], { y: 3 }, null]"},
            {"aList", "[]"},
            {"aMap", "({ a: [1, { b: 2 }], c: args.place() })"},
            {"texts", "['a', 'b']"},
            {"texts", "[1, 2.5]"},
            {"texts", "'one'"},
            {"ints", "[1, 2]"},
            {"ints", "[]"},
            {"ints", "args.someInts()"},
            {"doubles", "[1, 2.5, NaN]"},
            {"places", "[args.place(), args.place()]"},
            {"objects", "[args, null]"},
            {"json", "null"},
            {"json", "({ a: [1, 'x', null] })"},
            {"over", "3.5 * 2"},
            {"over", "'7'"},
    };
    for (const auto &[method, argument] : rows)
        QTest::addRow("%s(%s)", method, argument) << QByteArray(method) << QByteArray(argument);
}

/// A value that loses nothing arrives as in the direct call args.method(argument).
void TestInvokeLocked::argumentsAsInADirectCall()
{
    QFETCH(QByteArray, method);
    QFETCH(QByteArray, argument);
    evaluate("Promise.all([args." + method + "(" + argument + "), DistributedLocks.invokeLocked(args, '" + method
             + "', [" + argument
             + "])]).then(([direct, locked]) => direct === locked ? 'same' : direct + ' is not ' + locked)");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), u"resolved \"same\""_s);
}

/// As JavaScript writes them, so that a key does not depend on who wrote the number.
void TestInvokeLocked::numbersAsText()
{
    evaluate("Promise.all([1e20, -1e20, 1763805177000, 1e21, 1.5e-7, 1e-6, 0.1, 123456.789, -0, NaN, Infinity, "
             "-Infinity]\n"
             "    .map(number => DistributedLocks.invokeLocked(args, 'aText', [number])\n"
             "        .then(text => text === '\"' + number + '\"' ? 'same' : number + ' is not ' + text)))");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), u"resolved [%1]"_s.arg(QStringList(12, u"\"same\""_s).join(u',')));
}

void TestInvokeLocked::argumentsThatWouldLose_data()
{
    Support::addColumns<QByteArray, QByteArray, QString>("method", "argument", "named");
    static constexpr const char *rows[][3] = {
            {"anInt", "NaN", "NaN"},
            {"anInt", "Infinity", "Infinity"},
            {"anInt", "1e20", "100000000000000000000"},
            {"anInt", "1.5", "1.5"},
            {"anInt", "2147483648", "2147483648"},
            {"aShort", "32768", "32768"},
            {"aShort", "NaN", "NaN"},
            {"aUint", "-1", "-1"},
            {"aUint", "4294967296", "4294967296"},
            {"aLong", "1e20", "100000000000000000000"},
            {"aLong", "NaN", "NaN"},
            {"aFloat", "1e300", "float"},
            {"aFloat", "16777217", "16777217"},
            {"aBool", "2", "2"},
            {"aBool", "0.1", "0.1"},
            {"aBool", "NaN", "NaN"},
            {"aBool", "'no'", "bool"},
            {"aColor", "1.5", "1.5"},
            {"aColor", "1e20", "100000000000000000000"},
            {"anInt", "'x'", "int"},
            {"anInt", "'7.5'", "int"},
            {"anInt", "null", "null"},
            {"aText", "null", "null"},
            {"aChar", "''", "QChar"},
            {"aChar", "'xy'", "QChar"},
            {"texts", "null", "null"},
            {"texts", "[null]", "null"},
            {"texts", "[[1], [2]]", "element 1"},
            {"ints", "[1, 2.5]", "element 2"},
            {"ints", "['a']", "element 1"},
            {"ints", "[undefined]", "undefined"},
            {"objects", "[args, 7]", "element 2"},
            {"aReceiver", "backend", "Arguments*"},
            {"aText", "new Date(NaN)", "QString"},
            {"aText", "() => 1", "function"},
            {"aList", "() => 1", "function"},
            {"aMap", "() => 1", "function"},
            {"aText", "[1, 2]", "QString"},
            {"aText", "args.place()", "QString"},
            {"anInt", "undefined", "undefined"},
            {"aText", "undefined", "undefined"},
            {"anObject", "undefined", "undefined"},
            {"aVariant", "undefined", "undefined"},
    };
    for (const auto &[method, argument, named] : rows)
        QTest::addRow("%s(%s)", method, argument)
                << QByteArray(method) << QByteArray(argument) << QString::fromLatin1(named);
}

/// Such calls are refused: the method would run under the lock of another value.
void TestInvokeLocked::argumentsThatWouldLose()
{
    QFETCH(QByteArray, method);
    QFETCH(QByteArray, argument);
    QFETCH(QString, named);
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(QString::fromLatin1(method) + u".*argument 1"_s));
    evaluate("DistributedLocks.invokeLocked(args, '" + method + "', [" + argument + "])");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(u"rejected %1 Error: "_s.arg(DistributedLock::OptionsError)), qPrintable(heard()));
    QVERIFY2(heard().contains(QLatin1String(method)) && heard().contains(u"argument 1"_s), qPrintable(heard()));
    QVERIFY2(heard().contains(named), qPrintable(heard()));
    QCOMPARE(m_arguments->calls, 0);
}

void TestInvokeLocked::functionsForAnotherThread_data()
{
    Support::addColumns<QByteArray, QByteArray>("method", "argument");
    QTest::newRow("function") << QByteArray("aVariant") << QByteArray("() => 1");
    QTest::newRow("in an array") << QByteArray("aList") << QByteArray("[1, () => 1]");
    QTest::newRow("in an object") << QByteArray("aMap") << QByteArray("({ done: () => 1 })");
    QTest::newRow("deep") << QByteArray("aMap") << QByteArray("({ a: [{ b: [() => 1] }] })");
}

/// A JavaScript function works in the thread of its engine only.
void TestInvokeLocked::functionsForAnotherThread()
{
    QFETCH(QByteArray, method);
    QFETCH(QByteArray, argument);
    const QByteArray call = "DistributedLocks.invokeLocked(args, '" + method + "', [" + argument + "])";
    evaluate(call);
    QTRY_VERIFY_WITH_TIMEOUT(heard().startsWith(QLatin1String("resolved")), Patience);
    QCOMPARE(m_arguments->calls, 1);

    QThread thread;
    thread.start();
    m_arguments->moveToThread(&thread);
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"function.*thread"_s));
    evaluate(call);
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    thread.quit();
    QVERIFY(thread.wait());
    QVERIFY2(heard().startsWith(u"rejected %1 Error: "_s.arg(DistributedLock::OptionsError)), qPrintable(heard()));
    QVERIFY2(heard().contains(QLatin1String("argument 1")), qPrintable(heard()));
    QCOMPARE(m_arguments->calls, 1);
}

void TestInvokeLocked::objectInAListDestroyedWhileWaiting()
{
    for (const QByteArray method : {"objects", "aList"}) {
        QCOMPARE(m_server.cli({"SET", "lock:args", "foreign", "NX", "PX", "60000"}), QByteArrayLiteral("OK"));
        auto item = std::make_unique<QObject>();
        m_item = item.get();
        evaluate("DistributedLocks.invokeLocked(args, '" + method + "', [[backend, item]])");
        QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{lock:args}:queue"), Patience);
        item.reset();
        m_server.cli({"DEL", "lock:args"});
        QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
        QVERIFY2(heard().startsWith(u"rejected %1 Error: "_s.arg(DistributedLock::CancelledError)),
                 qPrintable(heard()));
        QCOMPARE(m_arguments->calls, 0);
    }
}

/// As in a direct call, the exception is thrown to the caller; the method does not run.
void TestInvokeLocked::gettersThatThrow()
{
    evaluate("(() => {\n"
             "    try {\n"
             "        return DistributedLocks.invokeLocked(args, 'aMap', [{ get a() { throw new Error('no value'); } "
             "}]);\n"
             "    } catch (error) {\n"
             "        return Promise.resolve('thrown ' + error.message);\n"
             "    }\n"
             "})()");
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"resolved \"thrown no value\""_s, Patience);
    QCOMPARE(m_arguments->calls, 0);
}

/// The engine never sees what the method returned: it is settled in a later turn of the event loop.
void TestInvokeLocked::resultDestroyed()
{
    QFETCH(QByteArray, method);
    evaluate("DistributedLocks.invokeLocked(backend, '" + method + "')");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(),
             u"rejected undefined Error: %1() has run, but an object in its result was destroyed before "
             "the promise was resolved"_s.arg(QLatin1String(method)));
}

void TestInvokeLocked::resultOfAnotherThread()
{
    QFETCH(QByteArray, method);
    QThread thread;
    thread.start();
    m_backend->moveToThread(&thread);
    evaluate("DistributedLocks.invokeLocked(backend, '" + method + "')");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    thread.quit();
    QVERIFY(thread.wait());
    QCOMPARE(heard(),
             u"rejected undefined Error: %1() has run, but an object in its result lives in another thread "
             "than the QML engine; return a value"_s.arg(QLatin1String(method)));
}

void TestInvokeLocked::busy_data()
{
    Support::addColumns<QByteArray, QString>("method", "expected");
    QTest::newRow("skip") << QByteArray("skipped") << "resolved undefined";
    QTest::newRow("fail") << QByteArray("failing") << u"rejected %1 Error: "_s.arg(DistributedLock::BusyError);
}

void TestInvokeLocked::busy()
{
    QFETCH(QByteArray, method);
    QFETCH(QString, expected);
    QVERIFY(hold());
    if (method == "failing") {
        QTest::ignoreMessage(QtInfoMsg,
                             QRegularExpression(u"Backend::failing: Lock \"order:%1\""_s.arg(QLatin1String(m_id))));
    }
    evaluate("DistributedLocks.invokeLocked(backend, '" + method + "', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(expected), qPrintable(heard()));
    if (method == "failing")
        QVERIFY2(heard().contains(QLatin1String("order:" + m_id)), qPrintable(heard()));
    QCOMPARE(m_backend->calls, QStringList());
    QCOMPARE(m_server.get(key()), QByteArrayLiteral("foreign"));
}

void TestInvokeLocked::waitsItsTurn()
{
    QVERIFY(hold());
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{" + key() + "}:queue"), Patience);
    QCOMPARE(heard(), QString());
    m_server.cli({"DEL", key()});
    QTRY_VERIFY_WITH_TIMEOUT(heard().startsWith(QLatin1String("resolved")), Patience);
    QCOMPARE(m_backend->calls.size(), 1);
}

void TestInvokeLocked::mistakes_data()
{
    Support::addColumns<QByteArray, QString>("call", "named");
    QTest::newRow("no annotation") << QByteArray("backend, 'plain'") << "plain";
    QTest::newRow("no such method") << QByteArray("backend, 'nobody', []") << "nobody";
    QTest::newRow("too few arguments") << QByteArray("backend, 'ship', []") << "ship";
    QTest::newRow("broken annotation") << QByteArray("backend, 'broken', ['x']") << "nobody";
    QTest::newRow("no object") << QByteArray("null, 'ship', ['x']") << "null";
}

void TestInvokeLocked::mistakes()
{
    QFETCH(QByteArray, call);
    QFETCH(QString, named);
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(named));
    evaluate("DistributedLocks.invokeLocked(" + call + ")");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(u"rejected %1 Error: "_s.arg(DistributedLock::OptionsError)), qPrintable(heard()));
    QVERIFY2(heard().contains(named), qPrintable(heard()));
    QCOMPARE(m_backend->calls, QStringList());
}

void TestInvokeLocked::exceptionRejects()
{
    // Whether or not anybody handles the rejection, the log has it.
    QTest::ignoreMessage(QtInfoMsg, QRegularExpression(u"Backend::throwing: Lock \"notes\".*out of paper"_s));
    evaluate("DistributedLocks.invokeLocked(backend, 'throwing')");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), u"rejected undefined Error: out of paper"_s);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("lock:notes"), Patience);
}

void TestInvokeLocked::objectDestroyedWhileWaiting()
{
    QVERIFY(hold());
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{" + key() + "}:queue"), Patience);
    m_backend.reset();
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(u"rejected %1 Error: "_s.arg(DistributedLock::CancelledError)), qPrintable(heard()));
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("{" + key() + "}:queue"), Patience);
}

void TestInvokeLocked::engineDestroyedWhileWaiting()
{
    QVERIFY(hold());
    evaluate("DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "'])");
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{" + key() + "}:queue"), Patience);
    m_root.reset();
    m_engine.reset();
    m_server.cli({"DEL", key()});
    QTRY_COMPARE_WITH_TIMEOUT(m_backend->calls.size(), 1, Patience); // it was asked for
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(key()), Patience);
}

/// Each of its futures is finished by the one thread while the other one hears of it.
void TestInvokeLocked::receiverInAnotherThread()
{
    QThread thread;
    thread.start();
    m_backend->moveToThread(&thread);
    for (int round = 0; round < 5; ++round) {
        evaluate("Promise.all(Array.from({ length: 1000 }, (unused, i) =>\n"
                 "        DistributedLocks.invokeLocked(backend, 'ship', ['"
                 + m_id
                 + "-' + i])))\n"
                   "    .then(all => all.filter(each => each.locked).length)");
        QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
        QCOMPARE(heard(), u"resolved 1000"_s);
    }
    QTRY_COMPARE_WITH_TIMEOUT(m_server.keys("lock:order:" + m_id + "*"), QList<QByteArray>(), Patience);
    thread.quit();
    QVERIFY(thread.wait());
    QCOMPARE(m_backend->calls.size(), 5000);
}

void TestInvokeLocked::asWorkOfAnAction()
{
    evaluate("(action.work = () => DistributedLocks.invokeLocked(backend, 'ship', ['" + m_id + "']), action.run())");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(QLatin1String("resolved {")), qPrintable(heard()));
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("lock:outer") && !m_server.exists(key()), Patience);
}

QTEST_MAIN(TestInvokeLocked)

#include "tst_qmlinvokelocked.moc"
