// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Calls that wait for their lock: threads that end or run no event loop, and floods.

#include "locktesting.h"

#include <QDistLock/Annotations>

#include <QtCore/qeventloop.h>
#include <QtCore/qprocess.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#if defined(__GLIBC__)
#  include <malloc.h>
#endif

using namespace LockTesting;
using namespace QDistLock;

using Support::TurnLimit;

namespace {

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void numbered(int number);
    void keyed(const QString &name, int number);
    void named(const QString &name);

public:
    using QObject::receivers;
};

} // namespace

class Receiver : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(few, "counter", "wait=1min; retryInterval=20ms; maxQueued=3")
    QDL_LOCKED_METHOD(newest, "counter", "wait=1min; retryInterval=20ms; onBusy=latest")
    QDL_LOCKED_METHOD(newestOfAll, "counter:{name}", "wait=1min; retryInterval=20ms; onBusy=latest")
    QDL_LOCKED_METHOD(newestSoon, "counter", "wait=500ms; retryInterval=20ms; onBusy=latest")
    QDL_LOCKED_METHOD(once, "once:{name}", "wait=1min; onBusy=skip")
    QDL_LOCKED_METHOD(moved, "counter", "wait=forever") // bursts in the log are counted by method
    QDL_LOCKED_METHOD(many, "counter", "wait=forever; maxQueued=unlimited")
    QDL_LOCKED_METHOD(soon, "counter", "wait=300ms; retryInterval=20ms; maxQueued=unlimited")
    QDL_LOCKED_METHOD(twoLocks, "first", "lease=300ms; wait=forever")
    QDL_LOCKED_METHOD(twoLocks, "second", "lease=300ms; wait=forever")

public:
    using QObject::receivers;
    QList<int> seen;

public Q_SLOTS:
    int few(int number) { return note(number); }
    int newest(int number) { return note(number); }
    int newestOfAll(const QString &name, int number)
    {
        Q_UNUSED(name)
        return note(number);
    }
    int once(const QString &name)
    {
        Q_UNUSED(name)
        return note(0);
    }
    int newestSoon(int number) { return note(number); }
    int many(int number) { return note(number); }
    int moved(int number) { return note(number); }
    int soon(int number) { return note(number); }
    int twoLocks(int number) { return note(number); }

private:
    int note(int number)
    {
        seen.append(number);
        return number;
    }
};

class tst_LockedCalls : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void threadEnds_data();
    void threadEnds();
    void finishedThread();
    void applicationEnds();
    void postedToAnEndedThread_data();
    void postedToAnEndedThread();
    void movedOutOfAnEndingThread();
    void movedIntoAnEndedThread_data();
    void movedIntoAnEndedThread();
    void destroyedWhenItMoved();
    void manyReceiversDestroyed();
    void emissionsOfAnEndedThread();
    void emissionsOfARestartedThread();
    void connectionsEnd();

    void loopDoesNotRun();
    void loopDoesNotRunTwoLocks();
    void loopComesBackInTime();

    void maxQueued();
    void maxQueuedOfWithLock();
    void latest();
    void latestIsInvoked();
    void latestWithOtherKeys();
    void latestCountsItsOwnWait();
    void flood_data();
    void flood();
    void cancelMany();
    void outage();

private:
    /// Runs the real redis-cli, in a separate process.
    void hold(const QByteArray &key) { QCOMPARE(m_server.cli({"SET", key, "somebody", "PX", "600000"}), QByteArray("OK")); }
    void letGo(const QByteArray &key) { m_server.command({"DEL", key}); }
    bool nothingLeft()
    {
        return eventually([this] { return lockKeys(m_server).isEmpty(); });
    }
    bool waits(const QByteArray &name)
    {
        return eventually([this, name] { return m_server.exists("{lock:" + name + "}:queue"); });
    }

    Support::RedisServer m_server;
};

namespace {

/// The failure of a future that has ended; NoError if it has a result.
template<typename T>
LockResult failureOf(QFuture<T> future)
{
    try {
        future.waitForFinished(); // throws what it has
    } catch (const LockUnavailable &unavailable) {
        return unavailable.result();
    }
    return {};
}

template<typename T>
bool finished(const QFuture<T> &future, milliseconds timeout = 10s)
{
    return eventually([&future] { return future.isFinished(); }, timeout);
}

/// A thread with an event loop.
struct LoopThread
{
    LoopThread() { thread.start(); }
    ~LoopThread() { end(); }
    void end()
    {
        thread.quit();
        thread.wait();
    }
    /// Its event loop does not run until unblock().
    void block()
    {
        QMetaObject::invokeMethod(
                &inside,
                [this] {
                    blocked.release();
                    go.acquire();
                },
                Qt::QueuedConnection);
        blocked.acquire();
    }
    void unblock() { go.release(); }

    QThread thread;
    QObject inside;
    QSemaphore blocked;
    QSemaphore go;
};

} // namespace

void tst_LockedCalls::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void tst_LockedCalls::init()
{
    m_server.command({"FLUSHALL"});
}

void tst_LockedCalls::cleanup()
{
    if (QTest::currentTestFailed())
        return;
    QVERIFY(nothingLeft());
}

void tst_LockedCalls::threadEnds_data()
{
    QTest::addColumn<bool>("foreign");
    QTest::newRow("QThread") << false;
    QTest::newRow("std::thread") << true;
}

void tst_LockedCalls::threadEnds()
{
    QFETCH(bool, foreign);
    // A call waits while its thread ends, and its continuation tries once more: there is nobody left to call.
    hold("lock:w");
    std::atomic<bool> called{false};
    QFuture<void> first;
    QFuture<void> again;
    const auto work = [&] {
        const QEventLoop loop; // a std::thread has no event dispatcher without it
        first = withLock(QStringLiteral("w"), LockOptions().withWait(LockOptions::Forever), [&] { called = true; });
        first.then([&](const QFuture<void> &) {
            again = withLock(QStringLiteral("again"), LockOptions().withLease(1s), [&] { called = true; });
        });
    };
    if (foreign) {
        std::thread(work).join();
    } else {
        const std::unique_ptr<QThread> thread(QThread::create(work));
        thread->start();
        QVERIFY(thread->wait());
    }
    QCOMPARE(failureOf(first).error, DistributedLock::CancelledError);
    QVERIFY(again.isFinished());
    QCOMPARE(failureOf(again).error, DistributedLock::CancelledError);
    QVERIFY2(failureOf(again).errorString.contains(QStringLiteral("thread has ended")),
             qPrintable(failureOf(again).errorString));
    const ScopedLock behind(QStringLiteral("behind")); // of the same connection
    QVERIFY(!m_server.exists("lock:again"));
    QVERIFY(!called);
    letGo("lock:w");
}

void tst_LockedCalls::finishedThread()
{
    // In the last slots that a thread runs.
    QFuture<void> late;
    QThread thread;
    connect(&thread, &QThread::finished, &thread, [&] { late = withLock(QStringLiteral("w"), [] {}); },
            Qt::DirectConnection);
    thread.start();
    thread.quit();
    QVERIFY(thread.wait());
    QVERIFY(late.isFinished());
    QCOMPARE(failureOf(late).error, DistributedLock::CancelledError);

    // Started again it runs calls as any other.
    QFuture<int> now;
    connect(&thread, &QThread::started, &thread, [&] {
        now = withLock(QStringLiteral("w"), [&thread] {
            thread.quit();
            return 1;
        });
    }, Qt::DirectConnection);
    thread.start();
    QVERIFY(thread.wait());
    QVERIFY(now.isFinished());
    QCOMPARE(now.result(), 1);
}

void tst_LockedCalls::applicationEnds()
{
    hold("lock:busy");
    QProcess worker;
    worker.setProcessChannelMode(QProcess::MergedChannels);
    worker.start(QStringLiteral(ANNOTATION_WORKER), {m_server.url().toString(), QStringLiteral("retried")});
    QVERIFY(worker.waitForFinished(30000));
    const QByteArray output = worker.readAll();
    QVERIFY2(worker.exitStatus() == QProcess::NormalExit, output.constData());
    QVERIFY2(output.contains("reached"), (QByteArray::number(worker.exitCode()) + output).constData());
    letGo("lock:busy");
}

void tst_LockedCalls::postedToAnEndedThread_data()
{
    QTest::addColumn<bool>("late");
    QTest::newRow("before its end") << false;
    QTest::newRow("after its end") << true;
}

void tst_LockedCalls::postedToAnEndedThread()
{
    // The objects live on, and what is posted to them is never delivered.
    QFETCH(bool, late);
    LoopThread worker;
    worker.inside.moveToThread(&worker.thread);
    Receiver receiver;
    receiver.moveToThread(&worker.thread);
    worker.block();
    worker.thread.quit();
    if (late) {
        worker.unblock();
        QVERIFY(worker.thread.wait());
    }
    const auto called = withLock(&receiver, QStringLiteral("w"), {}, [] { return 1; });
    const auto invoked = invokeLocked(&receiver, "newest", 1);
    worker.unblock();
    QVERIFY(worker.thread.wait());
    QVERIFY(called.isFinished() && invoked.isFinished());
    for (const LockResult &result : {failureOf(called), failureOf(invoked)}) {
        QCOMPARE(result.error, DistributedLock::CancelledError);
        QVERIFY2(result.errorString.contains(QStringLiteral("thread has ended")), qPrintable(result.errorString));
    }
    // A call that was reported as ended does not run in the next life of the thread.
    worker.thread.start();
    int seen = -1;
    QMetaObject::invokeMethod(&receiver, [&] { seen = int(receiver.seen.size()); }, Qt::BlockingQueuedConnection);
    QCOMPARE(seen, 0);
}

void tst_LockedCalls::movedOutOfAnEndingThread()
{
    LoopThread worker;
    worker.inside.moveToThread(&worker.thread);
    Receiver receiver;
    receiver.moveToThread(&worker.thread);
    QSemaphore posted;
    QMetaObject::invokeMethod(
            &worker.inside,
            [&, home = QThread::currentThread()] {
                worker.blocked.release();
                posted.acquire();
                receiver.moveToThread(home);
                worker.thread.quit();
            },
            Qt::QueuedConnection);
    worker.blocked.acquire();
    const auto called = withLock(&receiver, QStringLiteral("w"), {}, [] { return QThread::currentThread(); });
    const auto invoked = invokeLocked(&receiver, "newest", 1);
    posted.release();
    QVERIFY(worker.thread.wait());
    QVERIFY(finished(called) && finished(invoked));
    QCOMPARE(called.result(), QThread::currentThread());
    QCOMPARE(invoked.result().toInt(), 1);
}

void tst_LockedCalls::movedIntoAnEndedThread_data()
{
    QTest::addColumn<bool>("late");
    QTest::newRow("before its end") << false;
    QTest::newRow("after its end") << true;
}

void tst_LockedCalls::movedIntoAnEndedThread()
{
    QFETCH(bool, late);
    LoopThread worker;
    worker.inside.moveToThread(&worker.thread);
    hold("lock:counter");
    Receiver receiver;
    Sender sender;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::moved));
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.numbered(2);
    const auto invoked = invokeLocked(&receiver, "moved", 3);
    QVERIFY(waits("counter"));
    worker.block();
    worker.thread.quit();
    if (late) {
        worker.unblock();
        QVERIFY(worker.thread.wait());
    }
    receiver.moveToThread(&worker.thread);
    worker.unblock();
    QVERIFY(worker.thread.wait());
    QVERIFY(finished(invoked));
    QCOMPARE(failureOf(invoked).error, DistributedLock::CancelledError);
    QVERIFY(eventually([&] { return failed.size() == 2; }));
    for (const auto &arguments : std::as_const(failed))
        QCOMPARE(arguments.first().value<LockedCallInfo>().error, DistributedLock::CancelledError);
    letGo("lock:counter");
    QVERIFY(nothingLeft());
    QVERIFY(receiver.seen.isEmpty());
}

void tst_LockedCalls::destroyedWhenItMoved()
{
    // The first of its calls is refused in the new thread, and whoever hears of it destroys the receiver.
    LoopThread worker;
    worker.inside.moveToThread(&worker.thread);
    hold("lock:once:a");
    Receiver other;
    other.moveToThread(&worker.thread);
    auto busy = withLock(&other, QStringLiteral("once:a"), LockOptions().withWait(LockOptions::Forever), [] {});
    QVERIFY(waits("once:a"));
    auto *const receiver = new Receiver;
    auto first = invokeLocked(receiver, "once", QStringLiteral("a"));
    const auto second = invokeLocked(receiver, "once", QStringLiteral("b"));
    const auto destroyed = first.then([receiver](const QVariant &) { delete receiver; });
    receiver->moveToThread(&worker.thread);
    QVERIFY(finished(destroyed) && finished(second));
    QCOMPARE(failureOf(second).error, DistributedLock::CancelledError);
    busy.cancel();
    QVERIFY(eventually([&] { return busy.isFinished(); }));
    letGo("lock:once:a");
    QVERIFY(nothingLeft());
}

void tst_LockedCalls::manyReceiversDestroyed()
{
    // Beside as many calls of the others as there may be.
    hold("lock:counter");
    Sender sender;
    std::vector<std::unique_ptr<Receiver>> receivers(3000);
    for (auto &receiver : receivers) {
        receiver = std::make_unique<Receiver>();
        QVERIFY(connectLocked(&sender, &Sender::numbered, receiver.get(), &Receiver::many));
    }
    const std::clock_t begin = std::clock();
    for (int i = 0; i < 10; ++i)
        Q_EMIT sender.numbered(i);
    const std::clock_t emitted = std::clock();
    receivers.clear();
    QCOMPARE_LT(std::clock() - emitted, 3 * (emitted - begin)); // CPU, not time
    letGo("lock:counter");
    QVERIFY(nothingLeft());
}

void tst_LockedCalls::emissionsOfAnEndedThread()
{
    constexpr int Waiting = 3;
    constexpr int Posted = 4;
    constexpr int Late = 2;
    hold("lock:counter");
    Sender sender;
    Receiver receiver;
    QList<LockedCallInfo> failed;
    QObject here;
    connect(LockedCalls::instance(), &LockedCalls::failed, &here, [&](const LockedCallInfo &call) { failed.append(call); });
    const LogCapture log;
    {
        LoopThread worker;
        receiver.moveToThread(&worker.thread);
        worker.inside.moveToThread(&worker.thread);
        QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::many));
        for (int i = 0; i < Waiting; ++i)
            Q_EMIT sender.numbered(i);
        QVERIFY(waits("counter"));
        worker.block();
        worker.thread.quit(); // before what is posted next
        for (int i = 0; i < Posted; ++i)
            Q_EMIT sender.numbered(i);
        worker.unblock();
        QVERIFY(worker.thread.wait());
        for (int i = 0; i < Late; ++i)
            Q_EMIT sender.numbered(i);
        QVERIFY(eventually([&] { return failed.size() == Waiting + Posted + Late; }));
    }
    for (const LockedCallInfo &call : std::as_const(failed)) {
        QCOMPARE(call.error, DistributedLock::CancelledError);
        QCOMPARE(call.method, QByteArray("many"));
        QCOMPARE(call.receiver.data(), &receiver);
    }
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QVERIFY2(log.messages(QtWarningMsg).first().contains(QStringLiteral("Receiver::many")), qPrintable(log.text()));
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:counter");
}

void tst_LockedCalls::emissionsOfARestartedThread()
{
    // Emissions reported as dropped are not called when the thread is started again; later ones are.
    LoopThread worker;
    worker.inside.moveToThread(&worker.thread);
    Sender sender;
    Receiver receiver;
    receiver.moveToThread(&worker.thread);
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::many));
    worker.block();
    worker.thread.quit();
    Q_EMIT sender.numbered(1);
    worker.unblock();
    QVERIFY(worker.thread.wait());
    Q_EMIT sender.numbered(2);
    QVERIFY(eventually([&] { return failed.size() == 2; }));
    worker.thread.start();
    QList<int> seen;
    const auto look = [&] {
        QMetaObject::invokeMethod(&receiver, [&] { seen = receiver.seen; }, Qt::BlockingQueuedConnection);
    };
    look();
    Q_EMIT sender.numbered(3);
    QVERIFY(eventually([&] {
        look();
        return !seen.isEmpty();
    }));
    QCOMPARE(seen, QList<int>{3});
    QCOMPARE(failed.size(), 2);
    worker.end();
}

void tst_LockedCalls::connectionsEnd()
{
    Sender sender;
    const char *const signal = SIGNAL(numbered(int));
    {
        Receiver receiver;
        QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::many));
        QCOMPARE_GE(sender.receivers(signal), 1);
    }
    Receiver receiver;
    QVERIFY(QObject::disconnect(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::many)));
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::many));
    QVERIFY(sender.disconnect(&receiver));
    Q_EMIT sender.numbered(1); // Qt cleans up afterwards
    QCOMPARE(sender.receivers(signal), 0);
    QVERIFY(receiver.seen.isEmpty());

    const char *const destroyed = SIGNAL(destroyed(QObject*));
    const int before = receiver.receivers(destroyed);
    {
        Sender other;
        QVERIFY(connectLocked(&other, &Sender::numbered, &receiver, &Receiver::many));
        QCOMPARE_GT(receiver.receivers(destroyed), before);
    }
    QCOMPARE(receiver.receivers(destroyed), before);
}

void tst_LockedCalls::loopDoesNotRun()
{
    // A pool's thread has an event dispatcher, but runs no event loop.
    std::atomic<bool> called{false};
    QSemaphore go;
    QFuture<void> future;
    const LogCapture log;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        future = withLock(QStringLiteral("w"), LockOptions().withLease(300ms).withWait(200ms), [&] { called = true; });
        go.acquire();
        QEventLoop loop;
        while (!future.isFinished())
            loop.processEvents(QEventLoop::WaitForMoreEvents);
    }));
    thread->start();
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    QVERIFY(nothingLeft());
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    const QString warning = log.messages(QtWarningMsg).first();
    QVERIFY2(warning.contains(QStringLiteral("withLock(): Lock \"w\" on unix:"))
                     && warning.contains(QStringLiteral("event loop")),
             qPrintable(warning));
    go.release();
    QVERIFY(thread->wait());
    QCOMPARE(failureOf(future).error, DistributedLock::TimeoutError);
    QVERIFY2(failureOf(future).errorString.contains(QStringLiteral("event loop")), qPrintable(failureOf(future).errorString));
    QVERIFY(!called);
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
}

void tst_LockedCalls::loopDoesNotRunTwoLocks()
{
    // The first one is acquired, then the thread takes no notice of the second one.
    LoopThread worker;
    worker.inside.moveToThread(&worker.thread);
    Sender sender;
    auto *const receiver = new Receiver;
    receiver->moveToThread(&worker.thread);
    connect(&worker.thread, &QThread::finished, receiver, &QObject::deleteLater);
    hold("lock:second");
    QVERIFY(connectLocked(&sender, &Sender::numbered, receiver, &Receiver::twoLocks));
    Q_EMIT sender.numbered(1);
    QVERIFY(waits("second"));
    QVERIFY(m_server.exists("lock:first"));
    worker.block();
    letGo("lock:second");
    QVERIFY(nothingLeft()); // neither of them
    worker.unblock();
    bool called = false;
    QVERIFY(eventually([&] {
        QMetaObject::invokeMethod(receiver, [&] { called = !receiver->seen.isEmpty(); }, Qt::BlockingQueuedConnection);
        return called;
    }));
}

void tst_LockedCalls::loopComesBackInTime()
{
    // `wait=forever` is not over when the lock was given back: the call acquires it again, and runs.
    LoopThread worker;
    worker.inside.moveToThread(&worker.thread);
    std::atomic<bool> called{false};
    QFuture<void> future;
    QSemaphore begun;
    const LogCapture log;
    QMetaObject::invokeMethod(
            &worker.inside,
            [&] {
                future = withLock(QStringLiteral("w"), LockOptions().withLease(300ms).withWait(LockOptions::Forever),
                                  [&] { called = true; });
                begun.release();
                worker.go.acquire();
            },
            Qt::QueuedConnection);
    begun.acquire();
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    QVERIFY(nothingLeft());
    QVERIFY(!called);
    worker.unblock();
    QVERIFY(finished(future));
    QVERIFY(called);
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
}

void tst_LockedCalls::maxQueued()
{
    constexpr int Count = 10;
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::few));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    for (int i = 0; i < Count; ++i)
        Q_EMIT sender.numbered(i);
    QCOMPARE(failed.size(), Count - 3); // at once
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::BusyError);
    QVERIFY2(call.errorString.startsWith(QStringLiteral("Receiver::few: Lock \"counter\" on unix:"))
                     && call.errorString.contains(QStringLiteral("maxQueued")),
             qPrintable(call.errorString));
    // One line at the beginning, and one that counts the others.
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QVERIFY2(eventually([&] { return log.count({QStringLiteral("Receiver::few: 6 more calls")}) == 1; }),
             qPrintable(log.text()));
    // Another receiver has its own.
    Receiver other;
    QVERIFY(connectLocked(&sender, &Sender::keyed, &other, [&other](const QString &, int number) { other.few(number); },
                          QStringLiteral("counter"), QStringLiteral("wait=1min; retryInterval=20ms; maxQueued=1")));
    Q_EMIT sender.keyed(QString(), 1);
    QCOMPARE(failed.size(), Count - 3);
    Q_EMIT sender.keyed(QString(), 2);
    QCOMPARE(failed.size(), Count - 2);
    letGo("lock:counter");
    QVERIFY(eventually([&] { return receiver.seen.size() + other.seen.size() == 4; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 1, 2}));
    QCOMPARE(other.seen, QList<int>{1});
    // Calls that need other locks count as well.
    QVERIFY(connectLocked(&sender, &Sender::named, &other, [](const QString &) {}, QStringLiteral("{1}"),
                          QStringLiteral("wait=1min; retryInterval=20ms; maxQueued=2")));
    for (const char *name : {"a", "b"}) {
        hold(QByteArray("lock:") + name);
        Q_EMIT sender.named(QString::fromLatin1(name));
    }
    QCOMPARE(failed.size(), Count - 2);
    Q_EMIT sender.named(QStringLiteral("c"));
    QCOMPARE(failed.size(), Count - 1);
    QCOMPARE(failed.last().first().value<LockedCallInfo>().lock, QStringLiteral("c"));
    letGo("lock:a");
    letGo("lock:b");
    QVERIFY(nothingLeft());
    // There is room again.
    Q_EMIT sender.numbered(11);
    QVERIFY(eventually([&] { return receiver.seen.size() == 4; }));
    QCOMPARE(failed.size(), Count - 1);
}

void tst_LockedCalls::maxQueuedOfWithLock()
{
    constexpr int Most = 10000; // as without an annotation
    hold("lock:w");
    const LogCapture log;
    const LockOptions patient = LockOptions().withWait(LockOptions::Forever);
    std::vector<QFuture<void>> futures;
    for (int i = 0; i < Most + 5; ++i)
        futures.push_back(withLock(QStringLiteral("w"), patient, [] {}));
    for (int i = 0; i < Most + 5; ++i)
        QCOMPARE(futures.at(size_t(i)).isFinished(), i >= Most);
    QCOMPARE(failureOf(futures.back()).error, DistributedLock::BusyError);
    QCOMPARE(log.count({QStringLiteral("withLock()")}), 1);
    for (QFuture<void> &future : futures)
        future.cancel();
    QVERIFY(eventually([&] {
        return std::all_of(futures.begin(), futures.end(), [](const auto &future) { return future.isFinished(); });
    }, 60s));
    letGo("lock:w");
}

void tst_LockedCalls::latest()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::newest));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QSignalSpy skipped(LockedCalls::instance(), &LockedCalls::skipped);
    Q_EMIT sender.numbered(0);
    QVERIFY(waits("counter"));
    const qint64 before = m_server.commandsProcessed("evalsha");
    for (int i = 1; i < 1000; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(eventually([&] { return skipped.size() == 999; }));
    QCOMPARE(skipped.first().first().value<LockedCallInfo>().error, DistributedLock::BusyError);
    // The newest one has taken the place of the first one in the server's queue.
    QCOMPARE(m_server.command({"ZCARD", "{lock:counter}:queue"}).toInt(), 1);
    QCOMPARE_LE(m_server.commandsProcessed("evalsha") - before, 100); // polls for the foreign holder
    letGo("lock:counter");
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.seen, QList<int>{999});
    QCOMPARE(failed.size(), 0);
    QCOMPARE(skipped.size(), 999);
}

void tst_LockedCalls::latestIsInvoked()
{
    Receiver receiver;
    hold("lock:counter");
    const auto first = invokeLocked(&receiver, "newest", 1);
    const auto second = invokeLocked(&receiver, "newest", 2);
    QVERIFY(first.isFinished());
    QVERIFY(!first.result().isValid()); // left out, as with onBusy=skip
    QVERIFY(!second.isFinished());
    letGo("lock:counter");
    QVERIFY(finished(second));
    QCOMPARE(second.result().toInt(), 2);
    QCOMPARE(receiver.seen, QList<int>{2});

    // Cancelling reaches the call that is there now.
    hold("lock:counter");
    const auto third = invokeLocked(&receiver, "newest", 3);
    auto fourth = invokeLocked(&receiver, "newest", 4);
    fourth.cancel();
    QVERIFY(finished(fourth));
    letGo("lock:counter");
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.seen, QList<int>{2});
}

void tst_LockedCalls::latestWithOtherKeys()
{
    // The newest call of the method, whatever lock it needs.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::keyed, &receiver, &Receiver::newestOfAll));
    hold("lock:counter:a");
    hold("lock:counter:b");
    QSignalSpy skipped(LockedCalls::instance(), &LockedCalls::skipped);
    Q_EMIT sender.keyed(QStringLiteral("a"), 1);
    Q_EMIT sender.keyed(QStringLiteral("b"), 2);
    QCOMPARE(skipped.size(), 1);
    QCOMPARE(skipped.first().first().value<LockedCallInfo>().lock, QStringLiteral("counter:a"));
    letGo("lock:counter:a");
    letGo("lock:counter:b");
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.seen, QList<int>{2});
}

void tst_LockedCalls::latestCountsItsOwnWait()
{
    // `wait` counts from the newest emission, although its predecessor's acquire goes on.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::newestSoon));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QElapsedTimer sinceFirst;
    sinceFirst.start();
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return sinceFirst.elapsed() > 300; }));
    QElapsedTimer sinceSecond;
    sinceSecond.start();
    Q_EMIT sender.numbered(2);
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    QCOMPARE_GE(sinceSecond.elapsed(), 490);
    QCOMPARE(failed.first().first().value<LockedCallInfo>().error, DistributedLock::TimeoutError);
    letGo("lock:counter");
}

void tst_LockedCalls::flood_data()
{
    QTest::addColumn<bool>("behind");
    QTest::newRow("alone") << false;
    QTest::newRow("behind as many that wait for ever") << true;
}

void tst_LockedCalls::flood()
{
    QFETCH(bool, behind);
    constexpr int Batch = 50;
    constexpr int Count = 20000;
    hold("lock:counter");
    Sender sender;
    Sender patientSender;
    auto receiver = std::make_unique<Receiver>();
    QVERIFY(connectLocked(&sender, &Sender::numbered, receiver.get(), &Receiver::soon));
    QVERIFY(connectLocked(&patientSender, &Sender::numbered, receiver.get(), &Receiver::many));
    int failed = 0;
    connect(LockedCalls::instance(), &LockedCalls::failed, receiver.get(), [&](const LockedCallInfo &call) {
        ++failed;
        QCOMPARE(call.error, DistributedLock::TimeoutError);
    });
    const LogCapture log;
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < Count; ++i)
        Q_EMIT patientSender.numbered(i);
    const auto bytes = (mallinfo2().uordblks - before) / Count;
    std::printf("%zu bytes for each waiting call\n", bytes);
    QCOMPARE_LE(bytes, size_t(700));
    if (!behind) {
        receiver.reset(new Receiver);
        QVERIFY(connectLocked(&sender, &Sender::numbered, receiver.get(), &Receiver::soon));
        connect(LockedCalls::instance(), &LockedCalls::failed, receiver.get(), [&] { ++failed; });
    }
#else
    for (int i = 0; behind && i < Count; ++i)
        Q_EMIT patientSender.numbered(i);
#endif
    const auto longest = Support::EventLoopProbe::longestBlockedTurnOf(
            [&](Support::EventLoopProbe &probe) {
                failed = 0;
                int emitted = 0;
                QTimer emitter;
                connect(&emitter, &QTimer::timeout, &emitter, [&] {
                    for (int i = 0; i < Batch && emitted < Count; ++i, ++emitted)
                        Q_EMIT sender.numbered(emitted);
                });
                emitter.start(1);
                Q_UNUSED(probe)
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return failed == Count; }, 60s));
            },
            2 * TurnLimit);
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(longest < 2 * TurnLimit, qPrintable(QString::number(longest.count())));
    std::printf("longest turn %lld us\n", static_cast<long long>(longest.count() / 1000));
    QVERIFY(receiver->seen.isEmpty());
    receiver.reset();
    QCOMPARE_LE(log.messages(QtWarningMsg).size(), 5); // one for each attempt
    letGo("lock:counter");
}

void tst_LockedCalls::cancelMany()
{
    constexpr int Count = 9000;
    hold("lock:w");
    const auto longest = Support::EventLoopProbe::longestBlockedTurnOf(
            [&](Support::EventLoopProbe &probe) {
                std::vector<QFuture<void>> futures;
                probe.without([&] {
                    const LockOptions patient = LockOptions().withWait(LockOptions::Forever);
                    for (int i = 0; i < Count; ++i)
                        futures.push_back(withLock(QStringLiteral("w"), patient, [] {}));
                });
                QVERIFY(waits("w"));
                int ended = 0;
                for (const QFuture<void> &future : futures) {
                    auto *const watcher = new QFutureWatcher<void>(this);
                    connect(watcher, &QFutureWatcherBase::finished, watcher, [watcher, &ended] {
                        ++ended;
                        watcher->deleteLater();
                    });
                    watcher->setFuture(future);
                }
                Support::EventLoopProbe::waitFor([] { return false; }, 100ms);
                const qint64 before = m_server.commandsProcessed("evalsha");
                probe.without([&] {
                    for (QFuture<void> &future : futures)
                        future.cancel();
                });
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return ended == Count; }, 60s));
                // The calls behind the first one never ask the server.
                QCOMPARE_LE(m_server.commandsProcessed("evalsha") - before, 100);
            },
            std::chrono::seconds(1), 1);
    qInfo("longest turn %lld us", static_cast<long long>(longest.count() / 1000));
    letGo("lock:w");
}

void tst_LockedCalls::outage()
{
    // What waited through an outage for longer than its `wait` is not replayed after it.
    Support::RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, [&](int number) { receiver.seen.append(number); },
                          QStringLiteral("counter"), QStringLiteral("wait=300ms; server=") + server.url().toString()));
    Q_EMIT sender.numbered(0);
    QVERIFY(eventually([&] { return receiver.seen.size() == 1; }));
    server.kill();
    for (int i = 1; i <= 50; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(eventually([&] { return failed.size() == 50; }));
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    QVERIFY(eventually([&] {
        Q_EMIT sender.numbered(51);
        return receiver.seen.size() > 1;
    }));
    QCOMPARE(receiver.seen.at(1), 51);
}

QTEST_GUILESS_MAIN(tst_LockedCalls)
#include "tst_lockedcalls.moc"
