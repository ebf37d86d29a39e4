// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Scoped locks in the GUI thread. This test uses no QML; it is in this folder because it needs the Qt Gui module.

#include "support/eventloopprobe.h"
#include "support/redisserver.h"
#include "support/testkinds.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedMultiLock>

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qmutex.h>
#include <QtCore/qthread.h>
#include <QtGui/qguiapplication.h>
#include <QtTest/qtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using namespace QDistLock;
using std::chrono::milliseconds;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");

LockOptions once()
{
    return LockOptions().withWait(0ms);
}

bool eventually(const std::function<bool()> &condition, milliseconds timeout = 60s)
{
    return Support::EventLoopProbe::waitFor(condition, timeout);
}

} // namespace

class tst_ScopedLockGui : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void oneLook();
    TIMING void confirmedRelease();
    void busy();
    void waitingIsRefused();
    void waitingInAnotherThread();
    void waitingAllowed();
    void reentryNeedsNoWaiting();
    void severalLocks();
    TIMING void frozenServer();
    TIMING void severalReleasedInVain();
    void unreachable() { lookInVain(3); }
    TIMING void unreachableAtOnce();
    TIMING void bodyBlocksForFiveLeases();

private:
    /// A single attempt to acquire the lock. The GUI thread waits for the server for only 1 s: if the machine pauses,
    /// that is a ConnectionError, and the attempt is repeated.
    static std::unique_ptr<ScopedLock> look(const QUrl &server, const QString &name = Name)
    {
        std::unique_ptr<ScopedLock> lock;
        eventually([&] {
            lock.reset();
            lock = std::make_unique<ScopedLock>(LockAddress(name).withServer(server), once());
            return lock->result().error != DistributedLock::ConnectionError;
        });
        return lock;
    }
    void lookInVain(int looks);

    Support::RedisServer m_server;
    milliseconds m_lookedFor{0}; ///< by lookInVain()
};

void tst_ScopedLockGui::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void tst_ScopedLockGui::init()
{
    QVERIFY(!ScopedLock::isGuiThreadWaitAllowed());
    // When the release is confirmed, all that was sent before has been executed.
    QVERIFY(eventually([&] { return look({}, u"first"_s)->release(); }));
}

void tst_ScopedLockGui::cleanup()
{
    ScopedLock::setGuiThreadWaitAllowed(false);
    m_server.resume();
    if (QTest::currentTestFailed())
        m_server.command({"DEL", Key});
    // The time-out is less than a lease: a key that nobody releases must not pass because it expires.
    QVERIFY(eventually([&] { return !m_server.exists(Key); }, 20s));
}

void tst_ScopedLockGui::oneLook()
{
    const auto lock = look({});
    QVERIFY2(*lock, qPrintable(lock->result().errorString));
    QVERIFY(m_server.exists(Key));
    lock->release(); // cleanup() waits for it
    QVERIFY(!lock->isHeld());
}

void tst_ScopedLockGui::confirmedRelease()
{
    Support::leavesRoomFor(900ms);
    ScopedLock lock(Name, once());
    QVERIFY2(lock, qPrintable(lock.result().errorString));
    QVERIFY(m_server.exists(Key));
    QVERIFY(lock.release());
    QVERIFY(!m_server.exists(Key));
}

void tst_ScopedLockGui::busy()
{
    m_server.command({"SET", Key, "somebody else", "PX", "600000"});
    const auto lock = look({});
    QVERIFY(!*lock);
    QCOMPARE(lock->result().error, DistributedLock::BusyError);
    m_server.command({"DEL", Key});
}

void tst_ScopedLockGui::waitingIsRefused()
{
    const qint64 before = m_server.commandsProcessed("evalsha");
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"\"job\".*GUI thread.*wait = 0"_s));
    const ScopedLock lock(Name);
    QVERIFY(!lock);
    QCOMPARE(lock.result().error, DistributedLock::BusyError);
    QVERIFY(lock.result().errorString.contains(QLatin1String("setGuiThreadWaitAllowed")));
    QVERIFY(!m_server.exists(Key));
    QCOMPARE(m_server.commandsProcessed("evalsha"), before);
}

void tst_ScopedLockGui::waitingInAnotherThread()
{
    bool held = false;
    std::thread([&held] { held = ScopedLock(Name).isHeld(); }).join();
    QVERIFY(held);
}

void tst_ScopedLockGui::waitingAllowed()
{
    ScopedLock::setGuiThreadWaitAllowed(true);
    m_server.command({"SET", Key, "somebody else", "PX", "300"});
    const ScopedLock lock(Name, LockOptions().withWait(1min).withRetryInterval(20ms));
    QVERIFY2(lock, qPrintable(lock.result().errorString));
}

void tst_ScopedLockGui::reentryNeedsNoWaiting()
{
    const auto outer = look({});
    const ScopedLock inner(Name);
    QVERIFY(*outer && inner);
}

void tst_ScopedLockGui::severalLocks()
{
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"\"other\" and \"another\".*GUI thread.*wait = 0"_s));
    const auto outer = look({});
    const ScopedMultiLock waiting({Name, u"other"_s, u"another"_s});
    QCOMPARE(waiting.result().error, DistributedLock::BusyError);
    QVERIFY(outer->isHeld());
    QVERIFY(eventually([] { return ScopedMultiLock({Name, u"other"_s, u"another"_s}, once()).isHeld(); }));
    QVERIFY(eventually([this] { return !m_server.exists("lock:other") && !m_server.exists("lock:another"); }, 20s));
}

void tst_ScopedLockGui::frozenServer()
{
    Support::leavesRoomFor(900ms);
    ScopedLock held(u"held"_s, once());
    QVERIFY(held);
    m_server.pause();
    QElapsedTimer timer;
    timer.start();
    const ScopedLock lock(Name, once());
    QVERIFY(!lock);
    QCOMPARE(lock.result().error, DistributedLock::ConnectionError);
    QVERIFY2(lock.result().errorString.contains(Name) && lock.result().errorString.contains(m_server.socketPath()),
             qPrintable(lock.result().errorString));
    QCOMPARE_GE(timer.restart(), 950);
    QVERIFY(!held.release()); // not confirmed; the release continues in the background
    QCOMPARE_GE(timer.elapsed(), 950);
    QCOMPARE_LT(timer.elapsed(), 4000);
    m_server.resume();
    QVERIFY(eventually([&] { return !m_server.exists("lock:held"); }, 20s));
    QVERIFY(eventually([&] { return !m_server.exists(Key); }, 20s));
}

void tst_ScopedLockGui::severalReleasedInVain()
{
    Support::leavesRoomFor(900ms);
    const QStringList names{u"a"_s, u"b"_s, u"c"_s};
    std::vector<std::unique_ptr<ScopedLock>> outer;
    for (const QString &name : names)
        outer.push_back(look({}, name));
    ScopedMultiLock locks(names, once()); // re-enters each of them
    QVERIFY2(locks, qPrintable(locks.result().errorString));
    outer.clear();
    m_server.pause();
    QElapsedTimer timer;
    timer.start();
    QVERIFY(!locks.release());
    QCOMPARE_GE(timer.elapsed(), 950);
    QCOMPARE_LT(timer.elapsed(), 1950); // for all together
    m_server.resume();
    for (const char *key : {"lock:a", "lock:b", "lock:c"})
        QVERIFY(eventually([&] { return !m_server.exists(key); }, 20s));
}

void tst_ScopedLockGui::lookInVain(int looks)
{
    Support::Started<Support::RedisServer> server;
    QVERIFY(look(server.url())->isHeld());
    server.kill();
    QElapsedTimer timer;
    timer.start();
    for (int i = 0; i < looks; ++i) {
        const ScopedLock lock(LockAddress(Name).withServer(server.url()), once());
        QVERIFY(!lock);
        QCOMPARE(lock.result().error, DistributedLock::ConnectionError);
    }
    m_lookedFor = milliseconds(timer.elapsed());
    QVERIFY(server.start());
    QVERIFY(eventually([&] { return ScopedLock(LockAddress(Name).withServer(server.url()), once()).isHeld(); }));
}

void tst_ScopedLockGui::unreachableAtOnce()
{
    Support::leavesRoomFor(1500ms);
    lookInVain(50);
    QCOMPARE_LT(m_lookedFor.count(), 3000); // not every acquire waits for a connection attempt
}

void tst_ScopedLockGui::bodyBlocksForFiveLeases()
{
    QVERIFY(qGuiApp->thread() == QThread::currentThread());
    Support::leavesRoomFor(70ms);
    constexpr milliseconds lease = 500ms;
    std::atomic<bool> done{false};
    std::atomic<qint64> lowest{lease.count()};
    std::atomic<int> looks{0};
    bool heldToTheEnd = false;
    std::unique_ptr<QThread> witness;
    {
        const ScopedLock lock(Name, once().withLease(lease));
        QVERIFY(lock);
        const QStringList arguments{u"-s"_s, m_server.socketPath(), u"PTTL"_s, QString::fromLatin1(Key)};
        witness.reset(QThread::create([&, arguments] {
            while (!done) {
                QProcess cli;
                cli.start(Support::RedisServer::cliProgram(), arguments);
                cli.waitForFinished();
                const qint64 pttl = cli.readAllStandardOutput().trimmed().toLongLong();
                if (!done) {
                    lowest = std::min(lowest.load(), pttl);
                    ++looks;
                }
            }
        }));
        witness->start();
        QThread::msleep((5 * lease).count()); // the work in the body
        heldToTheEnd = lock.isHeld();
        done = true;
    }
    QVERIFY(witness->wait());
    QVERIFY(heldToTheEnd);
    QVERIFY2(lowest >= lease.count() / 2, qPrintable(QString::number(lowest)));
    QCOMPARE_GE(looks.load(), 25);
}

QDISTLOCK_TEST_MAIN(QGuiApplication, tst_ScopedLockGui)
#include "tst_scopedlockgui.moc"
