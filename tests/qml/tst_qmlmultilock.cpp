// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The QML element MultiLock, with a foreign client as witness. tst_qml is about what it has in common with
// DistributedLock.

#include "qmltesting.h"

#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/MultiLock>

#include <QtCore/qpointer.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qscopeguard.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <functional>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using namespace QDistLock;
using QmlTesting::Deleter;
using QmlTesting::Patience;
using QmlTesting::Scene;
using Support::RedisServer;

class TestQmlMultiLock : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init();

    void properties();
    void nothingStartsBeforeComplete();
    void activeAcquiresAndReleases();
    void activeWaitsForAll();
    void activeReacquiresAfterLoss();
    void activeTriesAgainAfterAnError();
    void unusableNames_data();
    void unusableNames();
    void releaseEndsActive();
    void activeKeepsLevelsApart();
    void namesChange_data();
    void namesChange();
    void serverChangeTakesItsDefaults();
    void optionsChangeWhileActive();
    void promises();
    void callsBeforeComplete();
    void shortLease();
    void deletedByASlot_data();
    void deletedByASlot();

private:
    QByteArray element(const QByteArray &properties) const;
    QByteArray withPromises(const QByteArray &properties) const;
    MultiLock *lockOf(const Scene &scene) const
    {
        if (auto *lock = qobject_cast<MultiLock *>(scene.root()))
            return lock;
        return scene.root() ? scene.root()->property("lock").value<MultiLock *>() : nullptr;
    }
    bool exist(const QByteArray &names)
    {
        const auto list = names.split(' ');
        return std::all_of(list.cbegin(), list.cend(),
                           [this](const QByteArray &name) { return m_server.exists("lock:" + name); });
    }
    bool hold(const QByteArray &name)
    {
        return m_server.cli({"SET", "lock:" + name, "foreign", "NX", "PX", "600000"}) == "OK";
    }

    RedisServer m_server;
};

void TestQmlMultiLock::init()
{
    m_server.command({"FLUSHALL"});
}

QByteArray TestQmlMultiLock::element(const QByteArray &properties) const
{
    return "MultiLock { server: \"" + m_server.url().toEncoded() + "\"\n" + QmlTesting::LongWait
            + (properties.contains("names:") ? "" : "\nnames: ['a', 'b']") + '\n' + properties + "\n}";
}

QByteArray TestQmlMultiLock::withPromises(const QByteArray &properties) const
{
    return "QtObject {\n"
           "    property string answer\n"
           "    property MultiLock lock: "
            + element(properties)
            + "\n"
              "    function show(promise) { promise.then(value => answer = JSON.stringify(value)); }\n"
              "    function acquire() { show(lock.acquire()); }\n"
              "    function tryAcquire() { show(lock.tryAcquire()); }\n"
              "    function release() { show(lock.release()); }\n"
              "    function cancel() { lock.cancel(); }\n"
              "    function tokens() { answer = JSON.stringify({ a: lock.fencingToken('a'), b: lock.fencingToken('b'), "
              "c: lock.fencingToken('c') }); }\n"
              "}\n";
}

void TestQmlMultiLock::properties()
{
    Scene scene(
            "QtObject {\n"
            "    property MultiLock lock: MultiLock { names: ['b', 'a', 'b']; lease: 5000; wait: 0; fair: false;\n"
            "        mode: DistributedLock.Shared; retryInterval: 50; autoRenew: false }\n"
            "    property var values\n"
            "    Component.onCompleted: values = [lock.names, lock.lease, lock.wait, lock.fair, lock.mode,\n"
            "        lock.retryInterval, lock.autoRenew, lock.state, lock.held, lock.holdCount, lock.remainingTime,\n"
            "        lock.error, lock.errorString, lock.active, lock.server, lock.fencingToken('a')]\n"
            "}");
    QVERIFY(scene.root());
    const QVariantList expected{QStringList{u"b"_s, u"a"_s, u"b"_s},
                                5000,
                                0,
                                false,
                                int(LockOptions::Shared),
                                50,
                                false,
                                int(DistributedLock::Unlocked),
                                false,
                                0,
                                0,
                                int(DistributedLock::NoError),
                                QString(),
                                false,
                                QString(),
                                0};
    QCOMPARE(scene.root()->property("values").toList(), expected);
    const MultiLock *const lock = lockOf(scene);
    const LockOptions options = lock->options();
    QCOMPARE(options.lease, 5s);
    QCOMPARE(options.wait, 0ms);
    QVERIFY(!options.fair && !options.autoRenew);
    QCOMPARE(options.mode, LockOptions::Shared);
    QCOMPARE(options.retryInterval, 50ms);
    QTRY_COMPARE_WITH_TIMEOUT(lock->names(), QStringList({u"a"_s, u"b"_s}), Patience);
}

void TestQmlMultiLock::nothingStartsBeforeComplete()
{
    Scene scene(element("active: true"), false);
    QVERIFY(lockOf(scene));
    QSignalSpy stateChanged(lockOf(scene), &MultiLock::stateChanged);
    for (int turn = 0; turn < 10; ++turn)
        QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
    QCOMPARE(stateChanged.count(), 0);
    QVERIFY(m_server.keys("lock:*").isEmpty());
    scene.complete();
    QTRY_VERIFY_WITH_TIMEOUT(lockOf(scene)->isHeld(), Patience);
    QVERIFY(exist("a b"));
}

void TestQmlMultiLock::activeAcquiresAndReleases()
{
    Scene scene(withPromises("active: true"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QSignalSpy acquired(lock, &MultiLock::acquired);
    QSignalSpy released(lock, &MultiLock::released);
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QVERIFY(exist("a b"));
    QCOMPARE(lock->holdCount(), 1);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    QMetaObject::invokeMethod(scene.root(), "tokens");
    QCOMPARE(scene.result().value(QLatin1String("a")).toInteger(), lock->fencingToken(u"a"_s));
    QCOMPARE(scene.result().value(QLatin1String("b")).toInteger(), lock->fencingToken(u"b"_s));
    QVERIFY(scene.result().value(QLatin1String("a")).toInteger() > 0);
    QCOMPARE(scene.result().value(QLatin1String("c")), QJsonValue(0));
    QVERIFY(lock->property("remainingTime").toInt() > 0);

    lock->setProperty("active", false);
    QVERIFY(!lock->isHeld());
    QTRY_COMPARE_WITH_TIMEOUT(released.count(), 1, Patience);
    QVERIFY(!m_server.exists("lock:a") && !m_server.exists("lock:b"));
    lock->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
}

/// Longer than `wait`, and each lock in its queue.
void TestQmlMultiLock::activeWaitsForAll()
{
    QVERIFY(hold("b"));
    Scene scene(element("active: true; names: ['b', 'a']").replace(QmlTesting::LongWait, "wait: 1"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QSignalSpy failed(lock, &MultiLock::acquireFailed);
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{lock:b}:queue"), Patience);
    QVERIFY(exist("a"));
    QVERIFY(!lock->isHeld());
    lock->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, Patience);
    QCOMPARE(failed.first().first().value<DistributedLock::Error>(), DistributedLock::CancelledError);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("lock:a") && !m_server.exists("{lock:b}:queue"), Patience);

    lock->setProperty("active", true);
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{lock:b}:queue"), Patience);
    m_server.cli({"DEL", "lock:b"});
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QCOMPARE(failed.count(), 1);
    QCOMPARE(lock->waitTime(), 1ms);
}

void TestQmlMultiLock::activeReacquiresAfterLoss()
{
    Scene scene(element("active: true; property string lostName; onLost: (reason, name) => lostName = name + reason"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QSignalSpy acquired(lock, &MultiLock::acquired);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    const qint64 before = lock->fencingToken(u"a"_s);
    m_server.command({"DEL", "lock:b"});
    QmlTesting::reconnectAll(m_server);
    QTRY_COMPARE_WITH_TIMEOUT(lock->property("lostName").toString(), u"b%1"_s.arg(int(DistributedLock::Deleted)),
                              Patience);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
    QVERIFY(exist("a b"));
    QVERIFY(lock->fencingToken(u"a"_s) > before);
    QCOMPARE(lock->holdCount(), 1);
    QVERIFY(lock->property("active").toBool());
}

void TestQmlMultiLock::activeTriesAgainAfterAnError()
{
    m_server.cli({"RPUSH", "lock:b", "not a lock"});
    Scene scene(element("active: true"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QSignalSpy failed(lock, &MultiLock::acquireFailed);
    QTRY_VERIFY_WITH_TIMEOUT(failed.count() >= 2, Patience);
    QCOMPARE(failed.first().first().value<DistributedLock::Error>(), DistributedLock::ForeignTypeError);
    QVERIFY2(lock->errorString().contains(QLatin1String("\"b\"")), qPrintable(lock->errorString()));
    m_server.cli({"DEL", "lock:b"});
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
}

void TestQmlMultiLock::unusableNames_data()
{
    Support::addColumns<QByteArray, DistributedLock::Error>("names", "error");
    QTest::newRow("none") << QByteArray("[]") << DistributedLock::NameError;
    QTest::newRow("one empty") << QByteArray("['a', '']") << DistributedLock::NameError;
    QTest::newRow("too many") << QByteArray("Array.from({length: 65}, (value, index) => 'n' + index)")
                              << DistributedLock::OptionsError;
}

/// Not tried again until the names change.
void TestQmlMultiLock::unusableNames()
{
    QFETCH(QByteArray, names);
    QFETCH(DistributedLock::Error, error);
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"\"active\" does not retry until a property changes"_s));
    Scene scene(element("active: true; names: " + names));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QSignalSpy failed(lock, &MultiLock::acquireFailed);
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, Patience);
    QCOMPARE(lock->error(), error);
    QVERIFY(m_server.keys("*").isEmpty());
    lock->setProperty("names", QStringList{u"a"_s, u"b"_s});
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QVERIFY(exist("a b"));
    QCOMPARE(failed.count(), 1);
}

void TestQmlMultiLock::releaseEndsActive()
{
    Scene scene(withPromises("active: true"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QSignalSpy activeChanged(lock, SIGNAL(activeChanged()));
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"true"_s, Patience);
    QVERIFY(!lock->property("active").toBool());
    QCOMPARE(activeChanged.count(), 1);
    QVERIFY(m_server.keys("lock:*").isEmpty());
}

void TestQmlMultiLock::activeKeepsLevelsApart()
{
    Scene scene(withPromises("active: true"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(scene.result().value(QLatin1String("acquired")).toBool(), Patience);
    QCOMPARE(scene.result().value(QLatin1String("fencingToken")).toInteger(), lock->fencingToken(u"a"_s));
    QCOMPARE(lock->holdCount(), 2);
    lock->setProperty("active", false);
    QCOMPARE(lock->holdCount(), 1);
    QVERIFY(lock->isHeld() && exist("a b"));
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"true"_s, Patience);
    QVERIFY(m_server.keys("lock:*").isEmpty());
}

void TestQmlMultiLock::namesChange_data()
{
    Support::addRows<bool>("waiting", {{"held", false}, {"waiting", true}});
}

void TestQmlMultiLock::namesChange()
{
    QFETCH(bool, waiting);
    if (waiting)
        QVERIFY(hold("b"));
    Scene scene(element("active: true"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QSignalSpy lost(lock, &MultiLock::lost);
    if (waiting)
        QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{lock:b}:queue"), Patience);
    else
        QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    const QStringList names{u"c"_s, u"a"_s};
    lock->setProperty("names", names);
    QCOMPARE(lock->property("names").toStringList(), names);
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld() && lock->names() == QStringList({u"a"_s, u"c"_s}), Patience);
    QVERIFY(exist("a c"));
    QTRY_COMPARE_WITH_TIMEOUT(m_server.get("lock:b"), QByteArray(waiting ? "foreign" : ""), Patience);
    QVERIFY(!m_server.exists("{lock:b}:queue"));
    QCOMPARE(lost.count(), 0);
    QVERIFY(lock->property("active").toBool());
}

/// But not for options that were set.
void TestQmlMultiLock::serverChangeTakesItsDefaults()
{
    const QUrl other(u"memory:"_s);
    LockRegistry *const registry = LockRegistry::instance(other);
    registry->setDefaults(LockOptions().withLease(77s).withFair(false).withRepairMissingTtl(false));
    const auto restored = qScopeGuard([registry] { registry->setDefaults(LockOptions()); });
    Scene scene(element("active: true; fair: true; retryInterval: 50"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QSignalSpy leaseChanged(lock, &MultiLock::leaseChanged);
    lock->setProperty("server", other.toString());
    QTRY_VERIFY_WITH_TIMEOUT(lock->registry() == registry && lock->isHeld(), Patience);
    QCOMPARE(leaseChanged.count(), 1);
    QCOMPARE(lock->lease(), 77s);
    QVERIFY(!lock->options().repairMissingTtl);
    QVERIFY(lock->isFair());
    QCOMPARE(lock->retryInterval(), 50ms);
    QVERIFY(m_server.keys("lock:*").isEmpty());
}

void TestQmlMultiLock::optionsChangeWhileActive()
{
    Scene scene(element("active: true; lease: 20000"));
    Scene reader(element("active: true; mode: DistributedLock.Shared"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock && lockOf(reader));
    QSignalSpy acquired(lock, &MultiLock::acquired);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    QVERIFY(m_server.pttl("lock:a") <= 20000);
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{lock:a}:queue"), Patience);
    lock->setProperty("mode", int(LockOptions::Shared));
    QTRY_VERIFY_WITH_TIMEOUT(acquired.count() == 2 && lockOf(reader)->isHeld(), Patience);
    QVERIFY(lock->isHeld());
    lock->setProperty("lease", 90000);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 3, Patience);
    QVERIFY(m_server.pttl("lock:b") > 60000);
}

void TestQmlMultiLock::promises()
{
    QVERIFY(hold("b"));
    Scene scene(withPromises(""));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    scene.call("tryAcquire");
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QCOMPARE(scene.result().value(QLatin1String("acquired")), QJsonValue(false));
    QCOMPARE(scene.result().value(QLatin1String("error")), QJsonValue(DistributedLock::BusyError));
    const QString text = scene.result().value(QLatin1String("errorString")).toString();
    QVERIFY2(text.contains(QLatin1String("Lock \"b\"")), qPrintable(text));
    QVERIFY(!m_server.exists("lock:a"));

    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("{lock:b}:queue"), Patience);
    QMetaObject::invokeMethod(scene.root(), "cancel");
    QTRY_COMPARE_WITH_TIMEOUT(scene.result().value(QLatin1String("error")), QJsonValue(DistributedLock::CancelledError),
                              Patience);

    m_server.cli({"DEL", "lock:b"});
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(scene.result().value(QLatin1String("acquired")).toBool(), Patience);
    QVERIFY(lock->isHeld() && exist("a b"));
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"true"_s, Patience);
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"false"_s, Patience);
}

void TestQmlMultiLock::callsBeforeComplete()
{
    Scene scene(element("property double token\n"
                        "Component.onCompleted: acquire().then(result => token = result.fencingToken)"));
    MultiLock *const lock = lockOf(scene);
    QVERIFY(lock);
    QTRY_VERIFY_WITH_TIMEOUT(lock->property("token").toLongLong() > 0, Patience);
    QCOMPARE(lock->fencingToken(u"a"_s), lock->property("token").toLongLong());
}

void TestQmlMultiLock::shortLease()
{
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"the lease is 30 ms.*milliseconds"_s));
    Scene scene(element("lease: 30"));
    QVERIFY(lockOf(scene));
}

void TestQmlMultiLock::deletedByASlot_data()
{
    using Step = std::function<void(Scene *)>;
    Support::addColumns<bool, QByteArray, Step>("active", "signal", "step");
    const auto set = [](const char *property, const QVariant &value) -> Step {
        return [property, value](Scene *scene) {
            scene->root()->property("lock").value<QObject *>()->setProperty(property, value);
        };
    };
    const auto call = [](const char *function) -> Step { return [function](Scene *scene) { scene->call(function); }; };
    const QByteArray state = SIGNAL(stateChanged());
    QTest::newRow("active = true") << false << state << set("active", true);
    QTest::newRow("active = false") << true << state << set("active", false);
    QTest::newRow("activeChanged()") << true << QByteArray(SIGNAL(activeChanged())) << set("active", false);
    QTest::newRow("names") << true << state << set("names", QStringList{u"c"_s});
    QTest::newRow("namesChanged()") << true << QByteArray(SIGNAL(namesChanged())) << set("names", QStringList{u"c"_s});
    QTest::newRow("leaseChanged(), server")
            << true << QByteArray(SIGNAL(leaseChanged())) << set("server", u"memory:"_s);
    QTest::newRow("leaseChanged()") << true << QByteArray(SIGNAL(leaseChanged())) << set("lease", 50000);
    QTest::newRow("acquire()") << false << state << call("acquire");
    QTest::newRow("tryAcquire()") << false << state << call("tryAcquire");
    QTest::newRow("release()") << true << state << call("release");
}

void TestQmlMultiLock::deletedByASlot()
{
    QFETCH(bool, active);
    QFETCH(QByteArray, signal);
    QFETCH(std::function<void(Scene *)>, step);
    LockRegistry *const memory = LockRegistry::instance(QUrl(u"memory:"_s));
    memory->setDefaults(LockOptions().withLease(77s));
    const auto restored = qScopeGuard([memory] { memory->setDefaults(LockOptions()); });
    Scene scene(withPromises(active ? "active: true" : ""));
    const QPointer<MultiLock> lock = lockOf(scene);
    QVERIFY(lock);
    if (active)
        QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QCoreApplication::processEvents(); // deliver what was in progress
    Deleter deleter(lock);
    connect(lock, signal.constData(), &deleter, SLOT(deleteIt()));
    step(&scene);
    QTRY_VERIFY_WITH_TIMEOUT(!lock, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(m_server.keys("lock:*").isEmpty(), Patience);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, TestQmlMultiLock)

#include "moc_qmltesting.cpp"
#include "tst_qmlmultilock.moc"
