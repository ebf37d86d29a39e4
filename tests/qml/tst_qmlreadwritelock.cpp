// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The QML element ReadWriteLock, with a foreign client as witness. tst_qml is about what its two locks have in common
// with DistributedLock.

#include "qmltesting.h"

#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qpointer.h>
#include <QtCore/qregularexpression.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <memory>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using namespace QDistLock;
using QmlTesting::Deleter;
using QmlTesting::Patience;
using QmlTesting::Scene;
using Support::RedisServer;

namespace {

/// A QML engine with one ReadWriteLock element, and the two locks of this element.
class Pair : public Scene
{
public:
    explicit Pair(const QByteArray &qml, bool complete = true)
        : Scene(qml, complete)
        , element(root() && root()->property("lock").isValid() ? root()->property("lock").value<QObject *>() : root())
        , read(element ? element->property("read").value<DistributedLock *>() : nullptr)
        , write(element ? element->property("write").value<DistributedLock *>() : nullptr)
    {
    }

    QObject *const element;
    const QPointer<DistributedLock> read, write;
};

void setActive(DistributedLock *lock, bool active)
{
    lock->setProperty("active", active);
}

} // namespace

class TestQmlReadWriteLock : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init() { m_server.command({"FLUSHALL"}); }

    void nothingStartsBeforeComplete();
    void readersAndWriters();
    void writingGoesFirst();
    void writeAgainBeforeReading();
    void writeWaitsForReadCalls();
    void readWaitsForWriteCalls();
    void callOfTheOther();
    void lossWhileBothAreActive();
    void nameChange_data();
    void nameChange();
    void nameChangedAgainInAHandler();
    void oneOfThemIsDeleted_data();
    void oneOfThemIsDeleted();
    void serverChange();
    void withoutAName();
    void propertiesOfThePair_data();
    void propertiesOfThePair();
    void deletedByASlot_data();
    void deletedByASlot();

private:
    QByteArray element(const QByteArray &properties) const
    {
        return "ReadWriteLock { name: 'prices'; server: \"" + m_server.url().toEncoded()
                + "\"\nread.wait: 60000; write.wait: 60000\n" + properties + "\n}";
    }
    QByteArray withPromises(const QByteArray &properties) const
    {
        return "QtObject {\n"
               "    property string answer\n"
               "    property ReadWriteLock lock: "
                + element(properties)
                + "\n"
                  "    function show(promise) { promise.then(value => answer = JSON.stringify(value)); }\n"
                  "    function acquireRead() { show(lock.read.acquire()); }\n"
                  "    function releaseRead() { show(lock.read.release()); }\n"
                  "    function acquireWrite() { show(lock.write.acquire()); }\n"
                  "    function releaseWrite() { show(lock.write.release()); }\n"
                  "}\n";
    }
    /// The number of readers, by a command that a lock for writing, a string, refuses.
    int readers(const QByteArray &key = "lock:prices") { return m_server.command({"ZCARD", key}).toInt(); }
    bool isWritten(const QByteArray &key = "lock:prices")
    {
        return m_server.command({"TYPE", key}).toByteArray() == "string";
    }

    RedisServer m_server;
};

void TestQmlReadWriteLock::nothingStartsBeforeComplete()
{
    Pair pair(element("read.active: true"), false);
    QVERIFY(pair.read && pair.write);
    QSignalSpy stateChanged(pair.read, &DistributedLock::stateChanged);
    for (int turn = 0; turn < 10; ++turn)
        QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
    QCOMPARE(stateChanged.count(), 0);
    pair.complete();
    QTRY_VERIFY_WITH_TIMEOUT(pair.read->isHeld(), Patience);
    QCOMPARE(readers(), 1);
}

void TestQmlReadWriteLock::readersAndWriters()
{
    Pair first(element("property int times; read.active: true; read.onAcquired: ++times; write.lease: 77000"));
    Pair second(element("read.active: true"));
    Pair third(element("property double token; write.onAcquired: token = write.fencingToken"));
    QVERIFY(first.read && second.read && third.write);
    QCOMPARE(first.write->lease(), 77s);
    QCOMPARE(first.read->property("mode").toInt(), int(LockOptions::Shared));
    QCOMPARE(first.write->property("mode").toInt(), int(LockOptions::Exclusive));
    QCOMPARE(first.read->property("name").toString(), u"prices"_s);
    QTRY_VERIFY_WITH_TIMEOUT(first.read->isHeld() && second.read->isHeld(), Patience);
    QCOMPARE(readers(), 2);
    QCOMPARE(first.element->property("times").toInt(), 1);
    setActive(third.write, true);
    QTRY_COMPARE_WITH_TIMEOUT(third.write->queuePosition(), 0, Patience);
    setActive(first.read, false);
    QTRY_COMPARE_WITH_TIMEOUT(readers(), 1, Patience);
    QVERIFY(!third.write->isHeld());
    setActive(second.read, false);
    QTRY_VERIFY_WITH_TIMEOUT(third.write->isHeld(), Patience);
    QVERIFY(isWritten());
    QTRY_COMPARE_WITH_TIMEOUT(third.element->property("token").toLongLong(), third.write->fencingToken(), Patience);
}

void TestQmlReadWriteLock::writingGoesFirst()
{
    QTest::failOnWarning(QRegularExpression(u"."_s));
    Pair pair(element("read.active: true"));
    QVERIFY(pair.read && pair.write);
    QSignalSpy readAcquired(pair.read, &DistributedLock::acquired);
    QSignalSpy readReleased(pair.read, &DistributedLock::released);
    QSignalSpy writeAcquired(pair.write, &DistributedLock::acquired);
    QSignalSpy readFailed(pair.read, &DistributedLock::acquireFailed);
    QSignalSpy writeFailed(pair.write, &DistributedLock::acquireFailed);
    QTRY_COMPARE_WITH_TIMEOUT(readAcquired.count(), 1, Patience);
    for (int times = 1; times <= 3; ++times) {
        setActive(pair.write, true);
        QTRY_COMPARE_WITH_TIMEOUT(writeAcquired.count(), times, Patience);
        QCOMPARE(readReleased.count(), times);
        QVERIFY(isWritten());
        QVERIFY(pair.read->property("active").toBool()); // it is wanted, and follows
        QVERIFY(!pair.read->isHeld());
        setActive(pair.write, false);
        QTRY_COMPARE_WITH_TIMEOUT(readAcquired.count(), times + 1, Patience);
        QCOMPARE(readers(), 1);
        QVERIFY(!pair.write->isHeld());
    }
    QCOMPARE(readFailed.count() + writeFailed.count(), 0);
    QCOMPARE(pair.read->holdCount(), 1);
}

/// While the other one is still being acquired or released.
void TestQmlReadWriteLock::writeAgainBeforeReading()
{
    QTest::failOnWarning(QRegularExpression(u"."_s));
    Pair other(element("write.active: true"));
    Pair pair(element("read.active: true"));
    QVERIFY(pair.read && other.write);
    QTRY_VERIFY_WITH_TIMEOUT(other.write->isHeld() || pair.read->isHeld(), Patience);
    setActive(pair.write, true);
    setActive(pair.write, false);
    setActive(pair.write, true);
    setActive(other.write, false);
    QTRY_VERIFY_WITH_TIMEOUT(pair.write->isHeld(), Patience);
    QVERIFY(!pair.read->isHeld());
    QVERIFY(isWritten());
    setActive(pair.write, false);
    setActive(pair.write, true);
    setActive(pair.read, false);
    setActive(pair.read, true);
    setActive(pair.write, false);
    QTRY_VERIFY_WITH_TIMEOUT(pair.read->isHeld(), Patience);
    QCOMPARE(readers(), 1);
    QVERIFY(!pair.write->isHeld());
    setActive(pair.read, false);
    QTRY_VERIFY_WITH_TIMEOUT(m_server.keys("lock:*").isEmpty(), Patience);
}

void TestQmlReadWriteLock::writeWaitsForReadCalls()
{
    Pair pair(withPromises("read.active: true"));
    QVERIFY(pair.read && pair.write);
    QTRY_VERIFY_WITH_TIMEOUT(pair.read->isHeld(), Patience);
    pair.call("acquireRead");
    QTRY_COMPARE_WITH_TIMEOUT(pair.read->holdCount(), 2, Patience);
    QSignalSpy failed(pair.write, &DistributedLock::acquireFailed);
    setActive(pair.write, true);
    QTRY_COMPARE_WITH_TIMEOUT(pair.read->holdCount(), 1, Patience); // that of `active`
    QCoreApplication::processEvents();
    QVERIFY(pair.read->isHeld());
    QCOMPARE(pair.write->state(), DistributedLock::Unlocked);
    pair.call("releaseRead");
    QTRY_VERIFY_WITH_TIMEOUT(pair.write->isHeld(), Patience);
    QCOMPARE(failed.count(), 0);
    QVERIFY(isWritten());
}

void TestQmlReadWriteLock::readWaitsForWriteCalls()
{
    Pair pair(withPromises(""));
    QVERIFY(pair.read && pair.write);
    pair.call("acquireWrite");
    QTRY_VERIFY_WITH_TIMEOUT(pair.write->isHeld(), Patience);
    QSignalSpy failed(pair.read, &DistributedLock::acquireFailed);
    setActive(pair.read, true);
    for (int turn = 0; turn < 10; ++turn)
        QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
    QCOMPARE(pair.read->state(), DistributedLock::Unlocked);
    pair.call("releaseWrite");
    QTRY_VERIFY_WITH_TIMEOUT(pair.read->isHeld(), Patience);
    QCOMPARE(failed.count(), 0);
    QCOMPARE(readers(), 1);
}

/// One owner, which would wait for itself.
void TestQmlReadWriteLock::callOfTheOther()
{
    Pair pair(withPromises("read.active: true"));
    QVERIFY(pair.read && pair.write);
    QTRY_VERIFY_WITH_TIMEOUT(pair.read->isHeld(), Patience);
    pair.call("acquireWrite");
    QTRY_COMPARE_WITH_TIMEOUT(pair.result().value(QLatin1String("error")), QJsonValue(DistributedLock::UpgradeError),
                              Patience);
    QVERIFY(pair.read->isHeld());
}

void TestQmlReadWriteLock::lossWhileBothAreActive()
{
    Pair pair(element("read.active: true; write.active: true"));
    QVERIFY(pair.read && pair.write);
    QSignalSpy acquired(pair.write, &DistributedLock::acquired);
    QSignalSpy lost(pair.write, &DistributedLock::lost);
    QSignalSpy readAcquired(pair.read, &DistributedLock::acquired);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    m_server.command({"DEL", "lock:prices"});
    QmlTesting::reconnectAll(m_server);
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
    QCOMPARE(readAcquired.count(), 0);
    QVERIFY(isWritten());
}

void TestQmlReadWriteLock::nameChange_data()
{
    Support::addRows<QByteArray>("properties", {{"reading", "read.active: true"}, {"writing", "write.active: true"}});
}

void TestQmlReadWriteLock::nameChange()
{
    QFETCH(QByteArray, properties);
    Pair pair(withPromises(properties));
    QVERIFY(pair.read && pair.write);
    const bool isReader = properties.startsWith("read");
    DistributedLock *const active = isReader ? pair.read : pair.write;
    QTRY_VERIFY_WITH_TIMEOUT(active->isHeld(), Patience);
    QSignalSpy changed(pair.element, SIGNAL(nameChanged()));
    pair.element->setProperty("name", u"other"_s);
    QCOMPARE(changed.count(), 1);
    QCOMPARE(pair.element->property("name").toString(), u"other"_s);
    QCOMPARE(pair.read->property("name").toString(), u"other"_s);
    QCOMPARE(pair.write->property("name").toString(), u"other"_s);
    QTRY_VERIFY_WITH_TIMEOUT(active->isHeld() && active->name() == QLatin1String("other"), Patience);
    QVERIFY(!m_server.exists("lock:prices"));
    QCOMPARE(isWritten("lock:other"), !isReader);
    // The other one has the new name, too.
    QTRY_COMPARE_WITH_TIMEOUT((isReader ? pair.write : pair.read)->name(), u"other"_s, Patience);
    QSignalSpy failed(isReader ? pair.write : pair.read, &DistributedLock::acquireFailed);
    setActive(active, false);
    pair.element->setProperty("name", u"third"_s);
    pair.call(isReader ? "acquireWrite" : "acquireRead");
    QTRY_VERIFY_WITH_TIMEOUT((isReader ? pair.write : pair.read)->isHeld(), Patience);
    QCOMPARE(failed.count(), 0);
    QCOMPARE(isWritten("lock:third"), isReader);
    QVERIFY(!m_server.exists("lock:other"));
}

void TestQmlReadWriteLock::nameChangedAgainInAHandler()
{
    Pair pair(element("write.active: true"));
    QVERIFY(pair.read && pair.write);
    QTRY_VERIFY_WITH_TIMEOUT(pair.write->isHeld(), Patience);
    connect(pair.read, &DistributedLock::nameChanged, this, [&pair] {
        if (pair.element->property("name").toString() == QLatin1String("second"))
            pair.element->setProperty("name", u"third"_s);
    });
    pair.element->setProperty("name", u"second"_s);
    QCOMPARE(pair.element->property("name").toString(), u"third"_s);
    QCOMPARE(pair.read->property("name").toString(), u"third"_s);
    QCOMPARE(pair.write->property("name").toString(), u"third"_s);
    QTRY_VERIFY_WITH_TIMEOUT(isWritten("lock:third"), Patience);
    QVERIFY(!m_server.exists("lock:second"));
}

void TestQmlReadWriteLock::oneOfThemIsDeleted_data()
{
    Support::addRows<bool>("writing", {{"read", false}, {"write", true}});
}

/// By C++; the other one is a lock as before, which waits for nothing.
void TestQmlReadWriteLock::oneOfThemIsDeleted()
{
    QFETCH(bool, writing);
    Pair pair(element(writing ? "read.active: true; write.active: true" : "read.active: true"));
    QVERIFY(pair.read && pair.write);
    DistributedLock *const doomed = writing ? pair.write : pair.read;
    DistributedLock *const other = writing ? pair.read : pair.write;
    QTRY_VERIFY_WITH_TIMEOUT(doomed->isHeld(), Patience);
    delete doomed;
    setActive(other, true);
    QTRY_VERIFY_WITH_TIMEOUT(other->isHeld(), Patience);
    QCOMPARE(isWritten(), !writing);
    pair.element->setProperty("name", u"other"_s);
    QCOMPARE(pair.element->property("name").toString(), u"other"_s);
    QTRY_VERIFY_WITH_TIMEOUT(m_server.exists("lock:other") && other->isHeld(), Patience);
}

void TestQmlReadWriteLock::serverChange()
{
    Pair pair(element("write.active: true"));
    QVERIFY(pair.read && pair.write);
    QSignalSpy acquired(pair.write, &DistributedLock::acquired);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 1, Patience);
    pair.element->setProperty("server", u"memory:"_s);
    QTRY_COMPARE_WITH_TIMEOUT(acquired.count(), 2, Patience);
    QVERIFY(!m_server.exists("lock:prices"));
    QCOMPARE(pair.write->registry(), LockRegistry::instance(QUrl(u"memory:"_s)));
    QTRY_COMPARE_WITH_TIMEOUT(pair.read->registry(), pair.write->registry(), Patience);
}

void TestQmlReadWriteLock::withoutAName()
{
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Lock \"\".*name is empty.*\"active\""_s));
    Pair pair("ReadWriteLock { write.active: true; server: '" + m_server.url().toEncoded() + "' }");
    QVERIFY(pair.write);
    QSignalSpy failed(pair.write, &DistributedLock::acquireFailed);
    QTRY_COMPARE_WITH_TIMEOUT(failed.count(), 1, Patience);
    QCOMPARE(pair.write->error(), DistributedLock::NameError);
    pair.element->setProperty("name", u"prices"_s);
    QTRY_VERIFY_WITH_TIMEOUT(pair.write->isHeld(), Patience);
}

void TestQmlReadWriteLock::propertiesOfThePair_data()
{
    Support::addNamedRows<QByteArray>("property",
                                      {"read.name: 'x'", "write.name: 'x'", "read.server: 'memory:'",
                                       "read.mode: DistributedLock.Exclusive", "write.mode: DistributedLock.Shared"});
}

void TestQmlReadWriteLock::propertiesOfThePair()
{
    QFETCH(QByteArray, property);
    const QByteArray name = property.mid(property.indexOf('.') + 1).split(':').first();
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"ReadWriteLock.*\"%1\""_s.arg(QString::fromLatin1(name))));
    Pair pair(element(property + "\nread.active: true"));
    QVERIFY(pair.read && pair.write);
    QTRY_VERIFY_WITH_TIMEOUT(pair.read->isHeld(), Patience);
    QCOMPARE(readers(), 1);
    setActive(pair.write, true);
    QTRY_VERIFY_WITH_TIMEOUT(pair.write->isHeld(), Patience);
    QVERIFY(isWritten());
}

void TestQmlReadWriteLock::deletedByASlot_data()
{
    Support::addColumns<QByteArray, QByteArray, QByteArray, QVariant>("sender", "signal", "property", "value");
    const QVariant other(u"memory:"_s);
    const QVariant name(u"x"_s);
    for (const QByteArray sender : {"read", "write", "element"}) {
        QTest::addRow("nameChanged() of %s", sender.constData())
                << sender << QByteArray(SIGNAL(nameChanged())) << "name"_ba << name;
        QTest::addRow("serverChanged() of %s", sender.constData())
                << sender << QByteArray(SIGNAL(serverChanged())) << "server"_ba << other;
    }
    for (const QByteArray sender : {"read", "write"}) // the one that is held
        QTest::addRow("stateChanged() of %s", sender.constData())
                << sender << QByteArray(SIGNAL(stateChanged())) << "name"_ba << name;
}

void TestQmlReadWriteLock::deletedByASlot()
{
    QFETCH(QByteArray, sender);
    QFETCH(QByteArray, signal);
    QFETCH(QByteArray, property);
    QFETCH(QVariant, value);
    Pair pair(withPromises(sender == "read" ? "read.active: true" : "read.active: true; write.active: true"));
    QPointer<QObject> element(pair.element);
    QVERIFY(element);
    QTRY_VERIFY_WITH_TIMEOUT(pair.read->isHeld() || pair.write->isHeld(), Patience);
    QCoreApplication::processEvents();
    Deleter deleter(element);
    QObject *const from = sender == "element" ? element.data()
            : sender == "read"                ? pair.read.data()
                                              : pair.write.data();
    connect(from, signal.constData(), &deleter, SLOT(deleteIt()));
    element->setProperty(property.constData(), value);
    QTRY_VERIFY_WITH_TIMEOUT(!element, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(m_server.keys("lock:*").isEmpty(), Patience);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, TestQmlReadWriteLock)

#include "moc_qmltesting.cpp"
#include "tst_qmlreadwritelock.moc"
