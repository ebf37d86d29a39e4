// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Scoped locks in the GUI thread. This test uses no QML; it is in this folder because it needs the Qt Gui module.

#include "support/eventloopprobe.h"
#include "support/redisserver.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedLock>

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qmutex.h>
#include <QtCore/qthread.h>
#include <QtGui/qguiapplication.h>
#include <QtTest/qtest.h>

#include <atomic>
#include <memory>
#include <thread>

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

} // namespace

class tst_ScopedLockGui : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void oneLook();
    void busy();
    void waitingIsRefused();
    void waitingInAnotherThread();
    void waitingAllowed();
    void reentryNeedsNoWaiting();
    void frozenServer();
    void unreachable();
    void bodyBlocksForFiveLeases();

private:
    Support::RedisServer m_server;
};

void tst_ScopedLockGui::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void tst_ScopedLockGui::init()
{
    QVERIFY(!ScopedLock::isGuiThreadWaitAllowed());
    ScopedLock first(u"first"_s, once());
    QVERIFY2(first, qPrintable(first.result().errorString));
    QVERIFY(first.release());
}

void tst_ScopedLockGui::cleanup()
{
    ScopedLock::setGuiThreadWaitAllowed(false);
    m_server.resume();
    if (QTest::currentTestFailed())
        m_server.command({"DEL", Key});
    QTRY_VERIFY(!m_server.exists(Key));
}

void tst_ScopedLockGui::oneLook()
{
    ScopedLock lock(Name, once());
    QVERIFY2(lock, qPrintable(lock.result().errorString));
    QVERIFY(m_server.exists(Key));
    QVERIFY(lock.release());
    QVERIFY(!m_server.exists(Key));
}

void tst_ScopedLockGui::busy()
{
    m_server.command({"SET", Key, "somebody else", "PX", "60000"});
    const ScopedLock lock(Name, once());
    QVERIFY(!lock);
    QCOMPARE(lock.result().error, DistributedLock::BusyError);
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
    const ScopedLock lock(Name, LockOptions().withRetryInterval(20ms));
    QVERIFY2(lock, qPrintable(lock.result().errorString));
}

void tst_ScopedLockGui::reentryNeedsNoWaiting()
{
    const ScopedLock outer(Name, once());
    const ScopedLock inner(Name);
    QVERIFY(outer && inner);
}

void tst_ScopedLockGui::frozenServer()
{
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
    QTRY_VERIFY(!m_server.exists("lock:held"));
    QTRY_VERIFY(!m_server.exists(Key));
}

void tst_ScopedLockGui::unreachable()
{
    Support::RedisServer server;
    QVERIFY(server.start());
    {
        const ScopedLock lock(server.url(), Name, once());
        QVERIFY(lock);
    }
    server.kill();
    QElapsedTimer timer;
    timer.start();
    for (int i = 0; i < 50; ++i) {
        const ScopedLock lock(server.url(), Name, once());
        QVERIFY(!lock);
        QCOMPARE(lock.result().error, DistributedLock::ConnectionError);
    }
    QCOMPARE_LT(timer.elapsed(), 3000); // not every acquire waits for a connection attempt
    QVERIFY(server.start());
    QTRY_VERIFY(ScopedLock(server.url(), Name, once()).isHeld());
}

void tst_ScopedLockGui::bodyBlocksForFiveLeases()
{
    QVERIFY(qGuiApp->thread() == QThread::currentThread());
    constexpr milliseconds lease = 2s;
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
        QThread::sleep(5 * 2); // the work in the body
        heldToTheEnd = lock.isHeld();
        done = true;
    }
    QVERIFY(witness->wait());
    QVERIFY(heldToTheEnd);
    QVERIFY2(lowest >= lease.count() / 2, qPrintable(QString::number(lowest)));
    QCOMPARE_GE(looks.load(), 50);
}

QTEST_MAIN(tst_ScopedLockGui)
#include "tst_scopedlockgui.moc"
