// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Calls that wait in threads that end, or that run no event loop.

#include "annotationtest.h"
#include "queuedreceiver.h"
#include "support/rows.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qprocess.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

class tst_CallThreads : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void threadEnds_data() { Support::addRows<bool>("foreign", {{"QThread", false}, {"std::thread", true}}); }
    void threadEnds();
    void finishedThread();
    void applicationEnds();
    void postedToAnEndedThread_data()
    {
        Support::addRows<bool>("late", {{"before its end", false}, {"after its end", true}});
    }
    void postedToAnEndedThread();
    void movedOutOfAnEndingThread();
    void movedIntoAnEndedThread_data()
    {
        Support::addRows<bool>("late", {{"before its end", false}, {"after its end", true}});
    }
    void movedIntoAnEndedThread();
    void destroyedWhenItMoved();
    TIMING void manyReceiversDestroyed();
    void emissionsOfAnEndedThread();
    void emissionsOfARestartedThread();
    void connectionsEnd();
    TIMING void loopDoesNotRun();
    TIMING void loopDoesNotRunTwoLocks();
    TIMING void loopComesBackInTime();
};

void tst_CallThreads::threadEnds()
{
    QFETCH(bool, foreign);
    // A call waits while its thread ends, and its continuation tries once more: there is nobody left to call.
    hold("lock:w");
    std::atomic<bool> called{false};
    QFuture<void> first;
    QFuture<void> again;
    const auto work = [&] {
        const QEventLoop loop; // a std::thread has no event dispatcher without it
        first = withLock(u"w"_s, LockOptions().withWait(LockOptions::Forever), [&] { called = true; });
        first.then([&](const QFuture<void> &) { again = withLock(u"again"_s, LockOptions(), [&] { called = true; }); });
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
    QVERIFY2(failureOf(again).errorString.contains(u"thread has ended"_s), qPrintable(failureOf(again).errorString));
    const ScopedLock behind(u"behind"_s); // of the same connection
    QVERIFY(!m_server.exists("lock:again"));
    QVERIFY(!called);
    letGo("lock:w");
}

void tst_CallThreads::finishedThread()
{
    // In the last slots that a thread runs.
    QFuture<void> late;
    QThread thread;
    connect(
            &thread, &QThread::finished, &thread, [&] { late = withLock(u"w"_s, [] {}); }, Qt::DirectConnection);
    thread.start();
    thread.quit();
    QVERIFY(thread.wait());
    QVERIFY(late.isFinished());
    QCOMPARE(failureOf(late).error, DistributedLock::CancelledError);

    // Started again it runs calls as any other.
    QFuture<int> now;
    connect(
            &thread, &QThread::started, &thread,
            [&] {
                now = withLock(u"w"_s, [&thread] {
                    thread.quit();
                    return 1;
                });
            },
            Qt::DirectConnection);
    thread.start();
    QVERIFY(thread.wait());
    QVERIFY(now.isFinished());
    QCOMPARE(now.result(), 1);
}

void tst_CallThreads::applicationEnds()
{
    hold("lock:busy");
    QProcess worker;
    worker.setProcessChannelMode(QProcess::MergedChannels);
    worker.start(QStringLiteral(ANNOTATION_WORKER), {m_server.url().toString(), u"retried"_s});
    QVERIFY(worker.waitForFinished(60000));
    const QByteArray output = worker.readAll();
    QVERIFY2(worker.exitStatus() == QProcess::NormalExit, output.constData());
    QVERIFY2(output.contains("reached"), (QByteArray::number(worker.exitCode()) + output).constData());
    letGo("lock:busy");
}

void tst_CallThreads::postedToAnEndedThread()
{
    // The objects live on, and what is posted to them is never delivered.
    QFETCH(bool, late);
    LoopThread worker;
    Receiver receiver;
    receiver.moveToThread(&worker.thread);
    worker.block();
    worker.thread.quit();
    if (late) {
        worker.unblock();
        QVERIFY(worker.thread.wait());
    }
    const auto called = withLock(&receiver, u"w"_s, {}, [] { return 1; });
    const auto invoked = invokeLocked(&receiver, "newest", 1);
    worker.unblock();
    QVERIFY(worker.thread.wait());
    QVERIFY(called.isFinished() && invoked.isFinished());
    for (const LockResult &result : {failureOf(called), failureOf(invoked)}) {
        QCOMPARE(result.error, DistributedLock::CancelledError);
        QVERIFY2(result.errorString.contains(u"thread has ended"_s), qPrintable(result.errorString));
    }
    // A call that was reported as ended does not run in the next life of the thread.
    worker.thread.start();
    int seen = -1;
    QMetaObject::invokeMethod(
            &receiver, [&] { seen = int(receiver.seen.size()); }, Qt::BlockingQueuedConnection);
    QCOMPARE(seen, 0);
}

void tst_CallThreads::movedOutOfAnEndingThread()
{
    LoopThread worker;
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
    const auto called = withLock(&receiver, u"w"_s, {}, [] { return QThread::currentThread(); });
    const auto invoked = invokeLocked(&receiver, "newest", 1);
    posted.release();
    QVERIFY(worker.thread.wait());
    QVERIFY(finished(called) && finished(invoked));
    QCOMPARE(called.result(), QThread::currentThread());
    QCOMPARE(invoked.result().toInt(), 1);
}

void tst_CallThreads::movedIntoAnEndedThread()
{
    QFETCH(bool, late);
    LoopThread worker;
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

void tst_CallThreads::destroyedWhenItMoved()
{
    // The first of its calls is refused in the new thread, and whoever hears of it destroys the receiver.
    LoopThread worker;
    hold("lock:once:a");
    Receiver other;
    other.moveToThread(&worker.thread);
    auto busy = withLock(&other, u"once:a"_s, LockOptions().withWait(LockOptions::Forever), [] {});
    QVERIFY(waits("once:a"));
    auto *const receiver = new Receiver;
    auto first = invokeLocked(receiver, "once", u"a"_s);
    const auto second = invokeLocked(receiver, "once", u"b"_s);
    const auto destroyed = first.then([receiver](const QVariant &) { delete receiver; });
    receiver->moveToThread(&worker.thread);
    QVERIFY(finished(destroyed) && finished(second));
    QCOMPARE(failureOf(second).error, DistributedLock::CancelledError);
    busy.cancel();
    QVERIFY(eventually([&] { return busy.isFinished(); }));
    letGo("lock:once:a");
    QVERIFY(nothingLeft());
}

void tst_CallThreads::manyReceiversDestroyed()
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

void tst_CallThreads::emissionsOfAnEndedThread()
{
    constexpr int Waiting = 3;
    constexpr int Posted = 4;
    constexpr int Late = 2;
    hold("lock:counter");
    Sender sender;
    Receiver receiver;
    QList<LockedCallInfo> failed;
    QObject here;
    connect(LockedCalls::instance(), &LockedCalls::failed, &here,
            [&](const LockedCallInfo &call) { failed.append(call); });
    const LogCapture log;
    {
        LoopThread worker;
        receiver.moveToThread(&worker.thread);
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
    QVERIFY2(log.messages(QtWarningMsg).first().contains(u"Receiver::many"_s), qPrintable(log.text()));
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:counter");
}

void tst_CallThreads::emissionsOfARestartedThread()
{
    // Emissions reported as dropped are not called when the thread is started again; later ones are.
    LoopThread worker;
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
        QMetaObject::invokeMethod(
                &receiver, [&] { seen = receiver.seen; }, Qt::BlockingQueuedConnection);
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

void tst_CallThreads::connectionsEnd()
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

    const char *const destroyed = SIGNAL(destroyed(QObject *));
    const int before = receiver.receivers(destroyed);
    {
        Sender other;
        QVERIFY(connectLocked(&other, &Sender::numbered, &receiver, &Receiver::many));
        QCOMPARE_GT(receiver.receivers(destroyed), before);
    }
    QCOMPARE(receiver.receivers(destroyed), before);
}

void tst_CallThreads::loopDoesNotRun()
{
    // A pool's thread has an event dispatcher, but runs no event loop.
    Support::leavesRoomFor(150ms);
    std::atomic<bool> called{false};
    QSemaphore go;
    QFuture<void> future;
    const LogCapture log;
    // A server that ended with the function before may be reported now, too.
    const auto warnings = [&log] { return log.messages(QtWarningMsg).filter(u"withLock()"_s); };
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        future = withLock(u"w"_s, LockOptions().withLease(300ms).withWait(200ms), [&] { called = true; });
        go.acquire();
        QEventLoop loop;
        while (!future.isFinished())
            loop.processEvents(QEventLoop::WaitForMoreEvents);
    }));
    thread->start();
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    QVERIFY(nothingLeft());
    QCOMPARE(warnings().size(), 1);
    const QString warning = warnings().first();
    QVERIFY2(warning.contains(u"withLock(): Lock \"w\" on unix:"_s) && warning.contains(u"event loop"_s),
             qPrintable(warning));
    go.release();
    QVERIFY(thread->wait());
    QCOMPARE(failureOf(future).error, DistributedLock::TimeoutError);
    QVERIFY2(failureOf(future).errorString.contains(u"event loop"_s), qPrintable(failureOf(future).errorString));
    QVERIFY(!called);
    QCOMPARE(warnings().size(), 1);
}

void tst_CallThreads::loopDoesNotRunTwoLocks()
{
    // The first one is acquired, then the thread takes no notice of the second one.
    Support::leavesRoomFor(150ms);
    LoopThread worker;
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
        QMetaObject::invokeMethod(
                receiver, [&] { called = !receiver->seen.isEmpty(); }, Qt::BlockingQueuedConnection);
        return called;
    }));
}

void tst_CallThreads::loopComesBackInTime()
{
    // The lock is released while the thread blocks. `wait=forever` is not over: the call acquires it again, and runs.
    Support::leavesRoomFor(150ms);
    LoopThread worker;
    std::atomic<bool> called{false};
    QFuture<void> future;
    QSemaphore begun;
    const LogCapture log;
    QMetaObject::invokeMethod(
            &worker.inside,
            [&] {
                future = withLock(u"w"_s, LockOptions().withLease(300ms).withWait(LockOptions::Forever),
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

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_CallThreads)

#include "tst_callthreads.moc"
