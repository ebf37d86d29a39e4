// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmltesting.h"

#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qscopeguard.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQml/qqmlcontext.h>
#include <QtQml/qqmlengine.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <functional>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using namespace QDistLock;
using QmlTesting::Deleter;
using QmlTesting::Patience;
using QmlTesting::Scene;
using Support::RedisServer;

namespace {

/// Returns true once the lock is held and the continuations of the acquire's future, which run one event after
/// acquired(), have been called.
bool holds(DistributedLock *lock)
{
    if (lock->isHeld())
        QCoreApplication::sendPostedEvents();
    return lock->isHeld();
}

} // namespace

class TestQml : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init();

    void typesAndEnums();
    void nothingStartsBeforeComplete();
    void activeAcquiresAndReleases();
    void activeWaitsLongerThanWait();
    void activeReacquiresAfterLoss();
    void activeTriesAgainAfterPermanentError();
    TIMING void activeBacksOffAfterPermanentError();
    void activeWaitsForAChangeAfterBadServer();
    void activeWithoutAName();
    void shortLease();
    void activeSetFalseWhileWaiting();
    void activeSetFalseWhereItEnds_data();
    void activeSetFalseWhereItEnds();
    void activeSetFalseBesideACall();
    void activeToggledInOneTurn();
    void releaseEndsActive();
    void cancelEndsActive();
    void cancelledAndWantedInOneTurn();
    void baseReleaseEndsActive();
    void activeKeepsLevelsApart();
    void cancelInOnAcquired();
    void releaseInOnAcquired();
    void nameChangeWhileHeld();
    void nameChangeWhileWaiting();
    void nameChangeOfAHoldWithoutActive();
    void serverChangeWhileActive();
    void serverChangeTakesItsDefaults();
    void leaseChangeWhileActive();
    void readers();
    void modeChangeWhileActive();
    void semaphores();
    void permitsOfTheServer();
    void permitsChangeWhileActive();
    void optionsSetWhileAnAttemptBegins();
    void callDuringNameChange();
    void callsBeforeComplete();
    void promiseOfSuccess();
    void promiseOfBusy();
    TIMING void promiseOfTimeout();
    void promiseOfCancel();
    void promiseOfRelease();
    void promiseOfForceRelease();
    void forceReleaseWithoutServer();
    void forceReleaseInAnOutage();
    void lossReasonInHandler();
    void deletedByASlot_data();
    void deletedByASlot();
    void deletedWithCallsWaiting();
    void loaderDestroyedWhileAcquiring();
    void engineDestroyedWhileAcquiring();

private:
    QByteArray withPromises(const QByteArray &properties) const;
    QByteArray plain(const QByteArray &properties) const;
    QByteArray semaphore(const QByteArray &properties) const
    {
        return plain(properties).replace(0, qstrlen("DistributedLock"), "Semaphore");
    }
    bool hold(const QByteArray &milliseconds = "600000");
    void takeAway(const QList<QByteArray> &command);

    RedisServer m_server;
    QByteArray m_name;
    QByteArray m_key;
    int m_count = 0;
};

void TestQml::init()
{
    m_name = "qml" + QByteArray::number(++m_count);
    m_key = "lock:" + m_name;
}

/// A DistributedLock element with the name and the server of this test.
QByteArray TestQml::plain(const QByteArray &properties) const
{
    return "DistributedLock { name: \"" + m_name + "\"; server: \"" + m_server.url().toEncoded() + "\"\n"
            + (properties.contains("wait:") ? "" : QmlTesting::LongWait) + '\n' + properties + "\n}";
}

QByteArray TestQml::withPromises(const QByteArray &properties) const
{
    return "QtObject {\n"
           "    id: root\n"
           "    property string answer\n"
           "    property DistributedLock lock: "
            + plain(properties)
            + "\n"
              "    function show(promise) {\n"
              "        promise.then(value => answer = JSON.stringify(value), error => answer = "
              "'rejected: ' + error.message);\n"
              "    }\n"
              "    function acquire() { show(lock.acquire()); }\n"
              "    function tryAcquire() { show(lock.tryAcquire()); }\n"
              "    function release() { show(lock.release()); }\n"
              "    function forceRelease() { show(lock.forceRelease()); }\n"
              "    function rename() { lock.name = lock.name + 'b'; show(lock.acquire()); }\n"
              "    property int ended\n"
              "    function renameAndAcquireTwice() {\n"
              "        lock.name = lock.name + 'b';\n"
              "        for (const promise of [lock.acquire(), lock.acquire()])\n"
              "            promise.then(result => { if (result.error === DistributedLock.CancelledError) ++ended; });\n"
              "    }\n"
              "    function cancel() { lock.cancel(); }\n"
              "    function cancelAndWant() { lock.cancel(); lock.active = true; }\n"
              "}\n";
}

/// Holds the lock as a client of another library.
bool TestQml::hold(const QByteArray &milliseconds)
{
    return m_server.cli({"SET", m_key, "foreign", "NX", "PX", milliseconds}) == "OK";
}

/// Takes the lock away by \a command, and lets its holder notice that.
void TestQml::takeAway(const QList<QByteArray> &command)
{
    m_server.command(command);
    QmlTesting::reconnectAll(m_server);
}

void TestQml::typesAndEnums()
{
    Scene scene("QtObject {\n"
                "    property DistributedLock lock: DistributedLock { name: 'x'; lease: 5000; "
                "wait: 0; fair: false }\n"
                "    property var values\n"
                "    Component.onCompleted: values = [DistributedLock.Held, "
                "DistributedLock.BusyError, DistributedLock.Stolen,\n"
                "                          DistributedLockBase.AtRisk, lock.state, "
                "lock.fencingToken, lock.name,\n"
                "                          lock.lease, lock.wait, lock.fair, lock.held, "
                "lock.holdCount,\n"
                "                          lock.queuePosition, lock.remainingTime, lock.error, "
                "lock.errorString,\n"
                "                          lock.active, lock.server, lock.autoRenew, "
                "lock.retryInterval]\n"
                "}");
    QVERIFY(scene.root());
    const QVariantList expected{int(DistributedLock::Held),
                                int(DistributedLock::BusyError),
                                int(DistributedLock::Stolen),
                                int(DistributedLock::AtRisk),
                                int(DistributedLock::Unlocked),
                                0,
                                u"x"_s,
                                5000,
                                0,
                                false,
                                false,
                                0,
                                -1,
                                0,
                                int(DistributedLock::NoError),
                                QString(),
                                false,
                                QString(),
                                true,
                                100};
    QCOMPARE(scene.root()->property("values").toList(), expected);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->name(), u"x"_s, Patience);
    QCOMPARE(scene.lock()->lease(), 5s);
}

void TestQml::nothingStartsBeforeComplete()
{
    Scene scene(plain("active: true"), false);
    QVERIFY(scene.lock());
    QSignalSpy stateChanged(scene.lock(), &DistributedLock::stateChanged);
    for (int turn = 0; turn < 10; ++turn)
        QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
    QCOMPARE(stateChanged.count(), 0);
    QVERIFY(!m_server.exists(m_key));
    scene.complete();
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QVERIFY(m_server.exists(m_key));
}

void TestQml::activeAcquiresAndReleases()
{
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QSignalSpy acquired(scene.lock(), &DistributedLock::acquired);
    QSignalSpy released(scene.lock(), &DistributedLock::released);
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QVERIFY(m_server.exists(m_key));
    QCOMPARE(scene.lock()->holdCount(), 1);

    scene.lock()->setProperty("active", false);
    QVERIFY(!scene.lock()->isHeld());
    QTRY_COMPARE_WITH_TIMEOUT(released.count(), 1, Patience);
    QVERIFY(!m_server.exists(m_key));
    QCOMPARE(acquired.count(), 1);

    scene.lock()->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
}

void TestQml::activeWaitsLongerThanWait()
{
    QVERIFY(hold("600"));
    Scene scene(plain("active: true; wait: 50; retryInterval: 20"));
    QVERIFY(scene.lock());
    QSignalSpy failed(scene.lock(), &DistributedLock::acquireFailed);
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QCOMPARE(failed.count(), 0);
    QCOMPARE(scene.lock()->waitTime(), 50ms);
}

void TestQml::activeReacquiresAfterLoss()
{
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QSignalSpy acquired(scene.lock(), &DistributedLock::acquired);
    QSignalSpy lost(scene.lock(), &DistributedLock::lost);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    const qint64 before = scene.lock()->fencingToken();

    takeAway({"DEL", m_key});
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QCOMPARE(lost.first().first().value<DistributedLock::LossReason>(), DistributedLock::Deleted);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
    QVERIFY(scene.lock()->fencingToken() > before);
    QCOMPARE(scene.lock()->holdCount(), 1);
    QVERIFY(scene.lock()->property("active").toBool());
}

void TestQml::activeBacksOffAfterPermanentError()
{
    m_server.cli({"RPUSH", m_key, "not a lock"});
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QSignalSpy failed(scene.lock(), &DistributedLock::acquireFailed);
    QElapsedTimer timer;
    timer.start();
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 2, Patience);
    QVERIFY2(timer.elapsed() >= 450, "the second attempt came without a delay");
}

void TestQml::activeTriesAgainAfterPermanentError()
{
    m_server.cli({"RPUSH", m_key, "not a lock"});
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QSignalSpy failed(scene.lock(), &DistributedLock::acquireFailed);
    QTRY_VERIFY_WITH_TIMEOUT(failed.count() >= 2, Patience);
    QCOMPARE(failed.first().first().value<DistributedLock::Error>(), DistributedLock::ForeignTypeError);
    QCOMPARE(m_server.cli({"TYPE", m_key}), QByteArrayLiteral("list"));

    m_server.cli({"DEL", m_key});
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QCOMPARE(scene.lock()->error(), DistributedLock::NoError);
}

void TestQml::activeWaitsForAChangeAfterBadServer()
{
    Scene scene(plain("active: true"), false);
    QVERIFY(scene.lock());
    scene.lock()->setProperty("server", u"carrier-pigeon://loft"_s);
    QSignalSpy failed(scene.lock(), &DistributedLock::acquireFailed);
    scene.complete();
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, Patience);
    QCOMPARE(scene.lock()->error(), DistributedLock::OptionsError);
    QVERIFY2(scene.lock()->errorString().contains(QLatin1String("carrier-pigeon")),
             qPrintable(scene.lock()->errorString()));
    scene.lock()->setProperty("server", m_server.url().toString());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QCOMPARE(failed.count(), 1);
}

void TestQml::activeWithoutAName()
{
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Lock \"\".*name is empty.*\"active\""_s));
    Scene scene("DistributedLock { active: true; server: '" + m_server.url().toEncoded() + "' }");
    QVERIFY(scene.lock());
    QSignalSpy failed(scene.lock(), &DistributedLock::acquireFailed);
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, Patience);
    QCOMPARE(scene.lock()->error(), DistributedLock::NameError);
    scene.lock()->setProperty("name", QString::fromLatin1(m_key.mid(5)));
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
}

/// A lease of 30, by somebody who thinks of seconds, is one of 30 ms.
void TestQml::shortLease()
{
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Lock \".*\": the lease is 30 ms.*milliseconds"_s));
    Scene scene(plain("lease: 30"));
    QVERIFY(scene.lock());
    QTest::failOnWarning(QRegularExpression(u"milliseconds"_s));
    scene.lock()->setProperty("lease", 20);
}

void TestQml::activeSetFalseWhileWaiting()
{
    QVERIFY(hold());
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QSignalSpy failed(scene.lock(), &DistributedLock::acquireFailed);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Acquiring, Patience);
    scene.lock()->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, Patience);
    QCOMPARE(failed.first().first().value<DistributedLock::Error>(), DistributedLock::CancelledError);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Unlocked, Patience);
    QCOMPARE(m_server.get(m_key), QByteArrayLiteral("foreign"));
    // `active` becomes true again at once.
    scene.lock()->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Acquiring, Patience);
}

/// A separate call of acquire() keeps the attempt of `active` alive, but only until that call ends.
void TestQml::activeSetFalseWhereItEnds_data()
{
    Support::addColumns<QByteArray, bool>("handler", "lost");
    QTest::newRow("onLost") << QByteArray("onLost: active = false") << true;
    QTest::newRow("onHeldChanged, lost") << QByteArray("onHeldChanged: if (!held) active = false") << true;
    QTest::newRow("onReleased") << QByteArray("onReleased: active = false") << false;
    QTest::newRow("onHoldCountChanged, released")
            << QByteArray("onHoldCountChanged: if (holdCount === 0) active = false") << false;
}

/// QML handlers run before C++ slots, including those of the lock itself, which then find nothing to release.
void TestQml::activeSetFalseWhereItEnds()
{
    QFETCH(QByteArray, handler);
    QFETCH(bool, lost);
    Scene scene(plain("active: true\n" + handler));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QTest::failOnWarning(QRegularExpression(u"not held"_s));
    if (lost)
        takeAway({"DEL", m_key});
    else
        scene.lock()->release();
    QTRY_VERIFY_WITH_TIMEOUT(!scene.lock()->property("active").toBool(), Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Unlocked, Patience);
    scene.lock()->setProperty("active", true);
    QTRY_VERIFY_WITH_TIMEOUT(scene.lock()->isHeld(), Patience);
}

void TestQml::activeSetFalseBesideACall()
{
    QVERIFY(hold());
    Scene scene(withPromises("active: true; wait: 500; retryInterval: 50"));
    QVERIFY(scene.lock());
    QSignalSpy acquired(scene.lock(), &DistributedLock::acquired);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->queuePosition(), 0, Patience);
    scene.call("acquire");
    scene.lock()->setProperty("active", false);
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QCOMPARE(scene.result().value(QLatin1String("error")), QJsonValue(DistributedLock::TimeoutError));
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Unlocked, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("{" + m_key + "}:queue"), Patience);
    QCOMPARE(acquired.count(), 0);
}

void TestQml::activeToggledInOneTurn()
{
    QVERIFY(hold());
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Acquiring, Patience);
    scene.lock()->setProperty("active", false);
    scene.lock()->setProperty("active", true);
    m_server.cli({"DEL", m_key});
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QVERIFY(scene.lock()->property("active").toBool());

    QSignalSpy acquired(scene.lock(), &DistributedLock::acquired);
    scene.lock()->setProperty("active", false);
    scene.lock()->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->holdCount(), 1, Patience);
}

void TestQml::releaseEndsActive()
{
    Scene scene(withPromises("active: true"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QSignalSpy activeChanged(scene.lock(), SIGNAL(activeChanged()));
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"true"_s, Patience);
    QVERIFY(!scene.lock()->property("active").toBool());
    QCOMPARE(activeChanged.count(), 1);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Unlocked, Patience);
    QVERIFY(!m_server.exists(m_key));
}

void TestQml::cancelEndsActive()
{
    QVERIFY(hold());
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Acquiring, Patience);
    scene.lock()->cancel(); // the base class's, not the element's
    QTRY_VERIFY_WITH_TIMEOUT(!scene.lock()->property("active").toBool(), Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Unlocked, Patience);
}

void TestQml::cancelledAndWantedInOneTurn()
{
    QVERIFY(hold());
    Scene scene(withPromises("active: true"));
    QVERIFY(scene.lock());
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->queuePosition(), 0, Patience);
    scene.call("acquire");
    QMetaObject::invokeMethod(scene.root(), "cancelAndWant");
    QVERIFY(scene.lock()->property("active").toBool());
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QCOMPARE(scene.result().value(QLatin1String("error")), QJsonValue(DistributedLock::CancelledError));
    m_server.cli({"DEL", m_key});
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QVERIFY(scene.lock()->property("active").toBool());
}

void TestQml::baseReleaseEndsActive()
{
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QSignalSpy released(scene.lock(), &DistributedLock::released);
    // Not in the turn of the event loop in which the lock was acquired.
    QCoreApplication::processEvents();
    scene.lock()->release();
    QTRY_COMPARE_WITH_TIMEOUT(released.count(), 1, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!scene.lock()->property("active").toBool(), Patience);
}

void TestQml::activeKeepsLevelsApart()
{
    Scene scene(withPromises("active: true"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QCOMPARE(scene.lock()->holdCount(), 2);

    QSignalSpy released(scene.lock(), &DistributedLock::released);
    scene.lock()->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->holdCount(), 1, Patience);
    QVERIFY(scene.lock()->isHeld());
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(released.count(), 1, Patience);
    QVERIFY(!m_server.exists(m_key));
}

void TestQml::cancelInOnAcquired()
{
    Scene scene(plain("active: true; property bool told; onAcquired: { cancel(); told = true; }"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(scene.lock()->property("told").toBool(), Patience);
    QCoreApplication::processEvents();
    QVERIFY(scene.lock()->isHeld()); // the change does not end the hold
    QVERIFY(scene.lock()->property("active").toBool());
}

void TestQml::releaseInOnAcquired()
{
    Scene scene(plain("active: true; property int times; onAcquired: if (++times === 1) release()\n"
                      "Component.onCompleted: acquire()"));
    QVERIFY(scene.lock());
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->property("times").toInt(), 2, Patience);
    QCoreApplication::processEvents();
    QCOMPARE(scene.lock()->holdCount(), 1); // the level of `active`
    QVERIFY(scene.lock()->property("active").toBool());
}

void TestQml::nameChangeWhileHeld()
{
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QSignalSpy acquired(scene.lock(), &DistributedLock::acquired);
    QSignalSpy released(scene.lock(), &DistributedLock::released);
    QSignalSpy lost(scene.lock(), &DistributedLock::lost);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->holdCount(), 1, Patience);

    const QString name = QString::fromLatin1(m_name + "b");
    QSignalSpy nameChanged(scene.lock(), &DistributedLock::nameChanged);
    scene.lock()->setProperty("name", name);
    QCOMPARE(scene.lock()->property("name").toString(), name);
    QVERIFY(nameChanged.count() > 0);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
    QCOMPARE(released.count(), 1);
    QCOMPARE(lost.count(), 0);
    QCOMPARE(scene.lock()->name(), name);
    QCOMPARE(scene.lock()->holdCount(), 1);
    QVERIFY(!m_server.exists(m_key));
    QVERIFY(m_server.exists(m_key + "b"));
    QVERIFY(scene.lock()->property("active").toBool());
}

void TestQml::nameChangeWhileWaiting()
{
    QVERIFY(hold());
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Acquiring, Patience);
    scene.lock()->setProperty("name", QString::fromLatin1(m_name + "b"));
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QVERIFY(m_server.exists(m_key + "b"));
    QCOMPARE(m_server.get(m_key), QByteArrayLiteral("foreign"));
    QVERIFY(scene.lock()->property("active").toBool());
}

void TestQml::nameChangeOfAHoldWithoutActive()
{
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    scene.call("acquire");
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->holdCount(), 2, Patience);
    QSignalSpy released(scene.lock(), &DistributedLock::released);
    scene.lock()->setProperty("name", QString::fromLatin1(m_name + "b"));
    QTRY_COMPARE_WITH_TIMEOUT(released.count(), 1, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->name(), QString::fromLatin1(m_name + "b"), Patience);
    QVERIFY(!m_server.exists(m_key));
    QVERIFY(!m_server.exists(m_key + "b"));
}

void TestQml::serverChangeWhileActive()
{
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QSignalSpy acquired(scene.lock(), &DistributedLock::acquired);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    scene.lock()->setProperty("server", u"memory:"_s);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
    QVERIFY(!m_server.exists(m_key));
    QCOMPARE(scene.lock()->registry(), LockRegistry::instance(QUrl(u"memory:"_s)));
}

/// Defaults and key prefix of the new server's registry apply, so the keys are the same as those of C++ locks there.
void TestQml::serverChangeTakesItsDefaults()
{
    const QUrl other(u"memory:"_s);
    LockRegistry *const registry = LockRegistry::instance(other);
    registry->setDefaults(LockOptions().withRepairMissingTtl(false).withMode(LockOptions::Shared));
    registry->setKeyPrefix(u"other:"_s);
    const auto restored = qScopeGuard([registry] {
        registry->setDefaults(LockOptions());
        registry->setKeyPrefix(u"lock:"_s);
    });
    DistributedLock holder(registry, QString::fromLatin1(m_name));
    holder.acquire();
    QTRY_VERIFY_WITH_TIMEOUT(holder.isHeld(), Patience);

    Scene scene(plain("active: true; lease: 20000; mode: DistributedLock.Exclusive"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    scene.lock()->setProperty("server", other.toString());
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->registry(), registry, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->queuePosition(), 0, Patience);
    QVERIFY(!scene.lock()->options().repairMissingTtl);
    QCOMPARE(scene.lock()->lease(), 20s); // set here, so the registry's default does not apply
    QCOMPARE(scene.lock()->mode(), LockOptions::Exclusive);
    holder.release();
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
}

void TestQml::leaseChangeWhileActive()
{
    Scene scene(plain("active: true; lease: 20000"));
    QVERIFY(scene.lock());
    QSignalSpy acquired(scene.lock(), &DistributedLock::acquired);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    QVERIFY(m_server.pttl(m_key) <= 20000);
    scene.lock()->setLease(90s);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
    QVERIFY(m_server.pttl(m_key) > 60000);
}

void TestQml::readers()
{
    Scene first(plain("active: true; mode: DistributedLock.Shared"));
    Scene second(plain("active: true; mode: DistributedLock.Shared"));
    Scene writer(plain(""));
    QVERIFY(first.lock() && second.lock() && writer.lock());
    QCOMPARE(first.root()->property("mode").toInt(), int(LockOptions::Shared));
    QCOMPARE(writer.root()->property("mode").toInt(), int(LockOptions::Exclusive));
    QTRY_VERIFY_WITH_TIMEOUT(holds(first.lock()) && holds(second.lock()), Patience);
    writer.lock()->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(writer.lock()->queuePosition(), 0, Patience);
    first.lock()->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(m_server.command({"ZCARD", m_key}).toInt(), 1, Patience);
    QCOMPARE(writer.lock()->state(), DistributedLock::Acquiring);
    second.lock()->setProperty("active", false);
    QTRY_VERIFY_WITH_TIMEOUT(holds(writer.lock()), Patience);
}

// A writer becomes a reader, and lets another one in; a reader becomes a writer when it is alone.
void TestQml::modeChangeWhileActive()
{
    Scene scene(plain("active: true"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    Scene other(plain("active: true; mode: DistributedLock.Shared"));
    QVERIFY(other.lock());
    QTRY_COMPARE_WITH_TIMEOUT(other.lock()->queuePosition(), 0, Patience);
    QSignalSpy changed(scene.lock(), &DistributedLock::modeChanged);
    scene.lock()->setProperty("mode", int(LockOptions::Shared));
    QCOMPARE(changed.count(), 1);
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()) && holds(other.lock()), Patience);
    scene.lock()->setProperty("mode", int(LockOptions::Exclusive));
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->queuePosition(), 0, Patience);
    QVERIFY(other.lock()->isHeld());
    other.lock()->setProperty("active", false);
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QVERIFY(!m_server.get(m_key).isEmpty()); // no set of readers
}

// Five of six. A lock waits for all of them.
void TestQml::semaphores()
{
    std::vector<std::unique_ptr<Scene>> scenes;
    const auto permitsTaken = [this] { return m_server.command({"ZCARD", m_key}).toInt(); };
    for (int i = 0; i < 5; ++i) {
        scenes.push_back(std::make_unique<Scene>(semaphore("permits: 5; active: true")));
        QVERIFY(scenes.back()->lock());
        QTRY_VERIFY_WITH_TIMEOUT(holds(scenes.back()->lock()), Patience);
    }
    QCOMPARE(permitsTaken(), 5);
    Scene sixth(semaphore("permits: 5; take: 2; active: true"));
    QVERIFY(sixth.lock());
    QTRY_COMPARE_WITH_TIMEOUT(sixth.lock()->queuePosition(), 0, Patience);
    Scene lock(plain("active: true"));
    QVERIFY(lock.lock());
    QTRY_COMPARE_WITH_TIMEOUT(lock.lock()->queuePosition(), 1, Patience);
    scenes.at(0)->lock()->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(permitsTaken(), 4, Patience);
    QCOMPARE(sixth.lock()->state(), DistributedLock::Acquiring);
    scenes.at(1)->lock()->setProperty("active", false);
    QTRY_VERIFY_WITH_TIMEOUT(holds(sixth.lock()), Patience);
    QCOMPARE(permitsTaken(), 5);
    QVERIFY(sixth.lock()->fencingToken() > scenes.at(4)->lock()->fencingToken());
    sixth.lock()->setProperty("active", false);
    for (const auto &scene : scenes)
        scene->lock()->setProperty("active", false);
    QTRY_VERIFY_WITH_TIMEOUT(holds(lock.lock()), Patience);
}

void TestQml::permitsOfTheServer()
{
    LockRegistry *const registry = LockRegistry::instance(m_server.url());
    registry->setDefaults(LockOptions().withRepairMissingTtl(false));
    const auto restored = qScopeGuard([registry] { registry->setDefaults(LockOptions()); });
    Scene unknown(semaphore("active: true"));
    QVERIFY(unknown.lock());
    QCOMPARE(unknown.root()->property("permits").toInt(), int(LockOptions::ServerPermits));
    QCOMPARE(unknown.root()->property("take").toInt(), 1);
    QTRY_COMPARE_WITH_TIMEOUT(unknown.lock()->error(), DistributedLock::OptionsError, Patience);
    QVERIFY(!unknown.lock()->options().repairMissingTtl); // options that were not set here have the defaults

    const auto ignored = [&unknown] {
        QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"permits is 0; it must be from 1 to 10000, or "_s));
        unknown.lock()->setProperty("permits", 0);
        return unknown.root()->property("permits").toInt();
    };
    QCOMPARE(ignored(), int(LockOptions::ServerPermits));
    QSignalSpy changed(unknown.lock(), SIGNAL(permitsChanged()));
    unknown.lock()->setProperty("permits", 3);
    QCOMPARE(changed.count(), 1);
    QTRY_VERIFY_WITH_TIMEOUT(holds(unknown.lock()), Patience);
    QCOMPARE(ignored(), 3);
    QVERIFY(unknown.lock()->isHeld());
    Scene known(semaphore("permits: Semaphore.ServerPermits; take: 2; active: true"));
    QVERIFY(known.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(known.lock()), Patience);
    QCOMPARE(m_server.command({"ZCARD", m_key}).toInt(), 3);
}

void TestQml::permitsChangeWhileActive()
{
    Scene scene(semaphore("permits: 3; active: true"));
    QVERIFY(scene.lock());
    const auto permitsTaken = [this] { return m_server.command({"ZCARD", m_key}).toInt(); };
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QCOMPARE(permitsTaken(), 1);
    QCOMPARE(scene.lock()->property("slot").toInt(), 0);
    QSignalSpy changed(scene.lock(), SIGNAL(takeChanged()));
    scene.lock()->setProperty("take", 2);
    scene.lock()->setProperty("take", 2);
    QCOMPARE(changed.count(), 1);
    QTRY_VERIFY_WITH_TIMEOUT(permitsTaken() == 2 && holds(scene.lock()), Patience);
    QCOMPARE(scene.lock()->property("heldSlots").value<QList<int>>(), QList<int>({0, 1}));
    scene.lock()->setProperty("permits", 4); // the server has 3
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->error(), DistributedLock::OptionsError, Patience);
    QVERIFY(!scene.lock()->isHeld());
    QCOMPARE(scene.lock()->property("slot").toInt(), -1);
    QVERIFY2(scene.lock()->errorString().contains(u"the server has 3"_s), qPrintable(scene.lock()->errorString()));
    scene.lock()->setProperty("permits", 3);
    QTRY_VERIFY_WITH_TIMEOUT(permitsTaken() == 2 && holds(scene.lock()), Patience);
}

void TestQml::optionsSetWhileAnAttemptBegins()
{
    Scene scene(plain("lease: 20000"));
    QVERIFY(scene.lock());
    bool set = false;
    connect(scene.lock(), &DistributedLock::stateChanged, this, [&] {
        if (scene.lock()->state() != DistributedLock::Acquiring || std::exchange(set, true))
            return;
        scene.lock()->setLease(90s);
        scene.lock()->setWaitTime(1234ms);
    });
    scene.lock()->setProperty("active", true);
    QTRY_VERIFY_WITH_TIMEOUT(set && scene.lock()->isHeld() && m_server.pttl(m_key) > 60000, Patience);
    QCOMPARE(scene.lock()->lease(), 90s);
    QCOMPARE(scene.lock()->waitTime(), 1234ms);
}

void TestQml::callDuringNameChange()
{
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    scene.call("rename");
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QVERIFY2(scene.result().value(QLatin1String("acquired")).toBool(), qPrintable(scene.answer()));
    QVERIFY(m_server.exists(m_key + "b"));
    QVERIFY(!m_server.exists(m_key));
}

void TestQml::callsBeforeComplete()
{
    Scene scene(withPromises("onStateChanged: ;property bool early: { root.show(acquire()); return true; }"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QVERIFY2(scene.result().value(QLatin1String("acquired")).toBool(), qPrintable(scene.answer()));
    QVERIFY(m_server.exists(m_key));
}

void TestQml::promiseOfSuccess()
{
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    const QJsonObject result = scene.result();
    QCOMPARE(result.value(QLatin1String("acquired")), QJsonValue(true));
    QCOMPARE(result.value(QLatin1String("error")), QJsonValue(DistributedLock::NoError));
    QCOMPARE(result.value(QLatin1String("errorString")), QJsonValue(QString()));
    QVERIFY(scene.lock()->fencingToken() > 0);
    QCOMPARE(qint64(result.value(QLatin1String("fencingToken")).toDouble()), scene.lock()->fencingToken());
    QCOMPARE(scene.lock()->property("fencingToken").toLongLong(), scene.lock()->fencingToken());
}

void TestQml::promiseOfBusy()
{
    QVERIFY(hold());
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("tryAcquire");
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    const QJsonObject result = scene.result();
    QCOMPARE(result.value(QLatin1String("acquired")), QJsonValue(false));
    QCOMPARE(result.value(QLatin1String("error")), QJsonValue(DistributedLock::BusyError));
    QVERIFY(result.value(QLatin1String("errorString")).toString().contains(QString::fromLatin1(m_name)));
    QCOMPARE(result.value(QLatin1String("fencingToken")), QJsonValue(0));
}

void TestQml::promiseOfTimeout()
{
    Support::leavesRoomFor(std::chrono::milliseconds(150)); // the server must have answered by then
    QVERIFY(hold());
    Scene scene(withPromises("wait: 200; retryInterval: 50"));
    QVERIFY(scene.lock());
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QCOMPARE(scene.result().value(QLatin1String("acquired")), QJsonValue(false));
    QCOMPARE(scene.result().value(QLatin1String("error")), QJsonValue(DistributedLock::TimeoutError));
}

void TestQml::promiseOfCancel()
{
    QVERIFY(hold());
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("acquire");
    QTRY_COMPARE_WITH_TIMEOUT(scene.lock()->state(), DistributedLock::Acquiring, Patience);
    scene.lock()->cancel();
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QCOMPARE(scene.result().value(QLatin1String("error")), QJsonValue(DistributedLock::CancelledError));
}

void TestQml::promiseOfRelease()
{
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"false"_s, Patience);
    scene.call("acquire");
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    scene.call("release");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"true"_s, Patience);
    QVERIFY(!m_server.exists(m_key));
}

void TestQml::promiseOfForceRelease()
{
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("forceRelease");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"false"_s, Patience);
    QVERIFY(hold());
    scene.call("forceRelease");
    QTRY_COMPARE_WITH_TIMEOUT(scene.answer(), u"true"_s, Patience);
    QVERIFY(!m_server.exists(m_key));
}

void TestQml::forceReleaseWithoutServer()
{
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.lock()->setProperty("server", u"carrier-pigeon://loft"_s);
    scene.call("forceRelease");
    QTRY_VERIFY_WITH_TIMEOUT(scene.answer().startsWith(QLatin1String("rejected: ")), Patience);
    QVERIFY2(scene.answer().contains(QLatin1String("carrier-pigeon")), qPrintable(scene.answer()));
}

void TestQml::forceReleaseInAnOutage()
{
    // The outage has been reported already; this call must fail all the same.
    Support::Started<RedisServer> server;
    const QUrl url = server.url();
    server.stop();
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.lock()->setProperty("server", url.toString());
    for (int call = 1; call <= 3; ++call) {
        scene.call("forceRelease");
        QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
        QVERIFY2(scene.answer().startsWith(QLatin1String("rejected: ")), qPrintable(scene.answer()));
    }
}

void TestQml::lossReasonInHandler()
{
    Scene scene(plain("property int reason: -1; onLost: reason => { this.reason = reason; }\n"
                      "property bool stolen: reason === DistributedLock.Stolen; active: true"));
    QVERIFY(scene.lock());
    QTRY_VERIFY_WITH_TIMEOUT(holds(scene.lock()), Patience);
    takeAway({"SET", m_key, "thief", "PX", "60000"});
    QTRY_VERIFY_WITH_TIMEOUT(scene.lock()->property("stolen").toBool(), Patience);
    QCOMPARE(m_server.get(m_key), QByteArrayLiteral("thief"));
}

void TestQml::deletedByASlot_data()
{
    using Step = std::function<void(Scene *)>;
    Support::addColumns<QByteArray, bool, QByteArray, Step>("properties", "busy", "signal", "step");
    const auto set = [](const char *property, const QVariant &value) -> Step {
        return [property, value](Scene *scene) { scene->lock()->setProperty(property, value); };
    };
    const auto call = [](const char *function) -> Step { return [function](Scene *scene) { scene->call(function); }; };
    const QByteArray state = SIGNAL(stateChanged());
    const QByteArray active = SIGNAL(activeChanged());
    QTest::newRow("active = true") << QByteArray() << false << state << set("active", true);
    QTest::newRow("active = false, held") << QByteArray("active: true") << false << state << set("active", false);
    QTest::newRow("active = false, waiting") << QByteArray("active: true") << true << state << set("active", false);
    QTest::newRow("name, held") << QByteArray("active: true") << false << state << set("name", u"other"_s);
    QTest::newRow("name, waiting") << QByteArray("active: true") << true << state << set("name", u"other"_s);
    QTest::newRow("acquire()") << QByteArray() << false << state << call("acquire");
    QTest::newRow("tryAcquire()") << QByteArray() << false << state << call("tryAcquire");
    QTest::newRow("release()") << QByteArray("active: true") << false << state << call("release");
    QTest::newRow("cancel()") << QByteArray("active: true") << true << state << call("cancel");
    QTest::newRow("release() of the base")
            << QByteArray("active: true") << false << active << Step([](Scene *scene) { scene->lock()->release(); });
    QTest::newRow("cancel() of the base")
            << QByteArray("active: true") << true << active << Step([](Scene *scene) { scene->lock()->cancel(); });
}

/// AddressSanitizer detects most of the errors that this test looks for.
void TestQml::deletedByASlot()
{
    QFETCH(QByteArray, properties);
    QFETCH(bool, busy);
    QFETCH(QByteArray, signal);
    QFETCH(std::function<void(Scene *)>, step);
    if (busy)
        QVERIFY(hold());
    Scene scene(withPromises(properties));
    const QPointer<DistributedLock> lock = scene.lock();
    QVERIFY(lock);
    if (busy)
        QTRY_COMPARE_WITH_TIMEOUT(lock->queuePosition(), 0, Patience);
    else if (!properties.isEmpty())
        QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QCoreApplication::processEvents(); // deliver what was in progress
    Deleter deleter(lock);
    connect(lock, signal.constData(), &deleter, SLOT(deleteIt()));
    step(&scene);
    QTRY_VERIFY_WITH_TIMEOUT(!lock, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(m_server.keys(m_key + "*").contains(m_key), busy, Patience);
}

/// The first call that starts destroys the lock; the promise of the other one is settled, too.
void TestQml::deletedWithCallsWaiting()
{
    Scene scene(withPromises(""));
    const QPointer<DistributedLock> lock = scene.lock();
    QVERIFY(lock);
    QCoreApplication::processEvents();
    Deleter deleter(lock);
    connect(lock, &DistributedLock::stateChanged, &deleter, &Deleter::deleteIt);
    scene.call("renameAndAcquireTwice");
    QTRY_VERIFY_WITH_TIMEOUT(!lock, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("ended").toInt(), 2, Patience);
}

void TestQml::loaderDestroyedWhileAcquiring()
{
    QVERIFY(hold());
    Scene scene("QtObject {\n"
                "    id: root\n"
                "    property string answer\n"
                "    property DistributedLock lock\n"
                "    property Component component: Component {\n"
                + plain("")
                + "\n}\n"
                  "    Component.onCompleted: {\n"
                  "        lock = component.createObject(root);\n"
                  "        lock.acquire().then(result => answer = JSON.stringify(result));\n"
                  "    }\n"
                  "    function drop() { lock.destroy(); }\n"
                  "}\n");
    QVERIFY(scene.lock());
    const QPointer<DistributedLock> lock = scene.lock();
    QTRY_COMPARE_WITH_TIMEOUT(lock->state(), DistributedLock::Acquiring, Patience);
    QMetaObject::invokeMethod(scene.root(), "drop");
    QTRY_VERIFY_WITH_TIMEOUT(!lock, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!scene.answer().isEmpty(), Patience);
    QCOMPARE(scene.result().value(QLatin1String("error")), QJsonValue(DistributedLock::CancelledError));
    QCOMPARE(m_server.get(m_key), QByteArrayLiteral("foreign"));
    QCOMPARE(m_server.keys(m_key + "*"), QList<QByteArray>{m_key});
}

void TestQml::engineDestroyedWhileAcquiring()
{
    QVERIFY(hold());
    Scene scene(withPromises(""));
    QVERIFY(scene.lock());
    scene.call("acquire");
    const QPointer<DistributedLock> lock = scene.lock();
    QTRY_COMPARE_WITH_TIMEOUT(lock->state(), DistributedLock::Acquiring, Patience);
    const std::unique_ptr<QObject> root(scene.root());
    scene.destroyEngine();
    // The lock outlives the engine of its promise.
    QVERIFY(lock);
    lock->cancel();
    QTRY_COMPARE_WITH_TIMEOUT(lock->state(), DistributedLock::Unlocked, Patience);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, TestQml)

#include "moc_qmltesting.cpp"
#include "tst_qml.moc"
