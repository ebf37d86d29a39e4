// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locked calls whose receiver, sender, argument, thread or application ends, or moves to another thread.

#include "annotationtest.h"
#include "receiver.h"
#include "support/rows.h"

#include <QtCore/qpointer.h>
#include <QtCore/qprocess.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <memory>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

class tst_Receivers : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void receiverDeleted_data()
    {
        Support::addNamedRows<QString>("when", {"waiting", "acquired", "running", "later while running", "releasing"});
    }
    void receiverDeleted();
    void emittedAtItsEnd();
    void senderDeleted();
    void receiverMoved();
    void otherThreads();
    void argumentDestroyed();
    void quitting_data() { Support::addNamedRows<QString>("mode", {"held", "waiting", "thread", "future", "exit"}); }
    void quitting();
    void threadEnds();
};

void tst_Receivers::receiverDeleted()
{
    QFETCH(QString, when);
    Sender sender;
    auto *receiver = new Receiver;
    const QPointer<Receiver> alive(receiver);
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    int runs = 0;
    QVERIFY(connectLocked(&sender, &Sender::numbered, receiver, &Receiver::add));
    // A call of another receiver is in the same queue, and is not affected.
    Receiver other;
    QVERIFY(connectLocked(
            &sender, &Sender::fired, &other, [&other] { other.note(0, u"counter"_s); }, u"counter"_s, options()));
    receiver->body = [&] {
        ++runs;
        if (when == u"running")
            delete receiver;
        else if (when == u"later while running")
            receiver->deleteLater();
        else
            QMetaObject::invokeMethod(
                    qApp, [receiver] { delete receiver; }, Qt::QueuedConnection);
    };
    const qint64 before = m_server.commandsProcessed("evalsha");
    if (when == u"waiting")
        hold("lock:counter");
    for (int i = 0; i < 5; ++i)
        Q_EMIT sender.numbered(i);
    Q_EMIT sender.fired();
    if (when == u"waiting") {
        QVERIFY(asked(before));
        delete receiver;
        letGo("lock:counter");
    } else if (when == u"acquired") {
        blockUntil(
                [&] { return m_server.exists("lock:counter"); }); // what comes meanwhile waits in this thread's queue
        delete receiver;
    }
    QVERIFY(eventually([&] { return !alive && other.seen.size() == 1; }));
    QVERIFY(nothingLeft());
    QCOMPARE(runs, when == u"waiting" || when == u"acquired" ? 0 : 1);
    QCOMPARE(other.overlaps, 0);
    QCOMPARE(failed.size(), 0);
    QCOMPARE(lost.size(), 0);
}

void tst_Receivers::emittedAtItsEnd()
{
    // As with a queued connection: what is emitted while the receiver is destroyed does not reach it.
    Sender sender;
    auto receiver = std::make_unique<QObject>();
    int runs = 0;
    QVERIFY(connectLocked(
            &sender, &Sender::fired, receiver.get(), [&runs] { ++runs; }, u"a"_s));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return runs == 1; }));
    connect(receiver.get(), &QObject::destroyed, &sender, &Sender::fired);
    receiver.reset();
    QVERIFY(finished(withLock(u"a"_s, {}, [] {}))); // behind it
    QCOMPARE(runs, 1);
}

void tst_Receivers::senderDeleted()
{
    auto sender = std::make_unique<Sender>();
    Receiver receiver;
    QVERIFY(connectLocked(sender.get(), &Sender::numbered, &receiver, &Receiver::add));
    hold("lock:counter");
    for (int i = 0; i < 5; ++i)
        Q_EMIT sender->numbered(i);
    sender.reset();
    letGo("lock:counter");
    QVERIFY(eventually([&] { return receiver.seen.size() == 5; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 1, 2, 3, 4}));

    // While the slot runs.
    auto second = std::make_unique<Sender>();
    receiver.body = [&] { second.reset(); };
    QVERIFY(connectLocked(second.get(), &Sender::numbered, &receiver, &Receiver::add));
    Q_EMIT second->numbered(5);
    QVERIFY(eventually([&] { return receiver.seen.size() == 6; }));
    QVERIFY(!second);
}

void tst_Receivers::receiverMoved()
{
    LoopThread worker;
    Sender sender;
    auto *receiver = new Receiver;
    std::atomic<int> runs{0};
    std::atomic<int> wrongThread{0};
    QThread *expected = &worker.thread;
    receiver->body = [&] {
        wrongThread += QThread::currentThread() != expected;
        ++runs;
    };
    QVERIFY(connectLocked(&sender, &Sender::numbered, receiver, &Receiver::add));
    hold("lock:counter");
    const qint64 before = m_server.commandsProcessed("evalsha");
    for (int i = 0; i < 20; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(asked(before));
    receiver->moveToThread(&worker.thread);
    for (int i = 20; i < 30; ++i)
        Q_EMIT sender.numbered(i);
    letGo("lock:counter");
    QVERIFY(eventually([&] { return runs == 30; }));
    QCOMPARE(wrongThread.load(), 0);
    QMetaObject::invokeMethod(
            receiver,
            [receiver] {
                QList<int> numbers;
                for (int i = 0; i < 30; ++i)
                    numbers.append(i);
                QCOMPARE(receiver->seen, numbers);
                delete receiver;
            },
            Qt::BlockingQueuedConnection);
}

void tst_Receivers::otherThreads()
{
    // Four threads, one lock, receivers and senders everywhere.
    constexpr int Threads = 4;
    constexpr int Count = 50;
    std::atomic<int> inside{0};
    std::atomic<int> overlaps{0};
    std::atomic<int> runs{0};
    {
        LoopThread threads[Threads];
        Sender sender;
        QList<Receiver *> receivers;
        for (LoopThread &thread : threads) {
            auto *receiver = new Receiver;
            receiver->body = [&] {
                overlaps += inside.fetch_add(1) != 0;
                std::this_thread::yield();
                inside.fetch_sub(1);
                ++runs;
            };
            QVERIFY(connectLocked(&sender, &Sender::numbered, receiver, &Receiver::add));
            receiver->moveToThread(&thread.thread);
            connect(&thread.thread, &QThread::finished, receiver, &QObject::deleteLater);
            receivers.append(receiver);
        }
        for (int i = 0; i < Count; ++i)
            Q_EMIT sender.numbered(i);
        QVERIFY(eventually([&] { return runs == Threads * Count; }));
    }
    QCOMPARE(overlaps.load(), 0);
}

void tst_Receivers::argumentDestroyed()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::sent, &receiver, &Receiver::sent));
    hold("lock:sent");
    auto argument = std::make_unique<Sender>();
    Q_EMIT sender.sent(argument.get());
    Q_EMIT sender.sent(nullptr);
    Q_EMIT sender.sent(&sender);
    const LogCapture log;
    argument.reset();
    letGo("lock:sent");
    QVERIFY(eventually([&] { return failed.size() + receiver.seen.size() == 3; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 1}));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::CancelledError);
    QVERIFY2(call.errorString.startsWith(u"Receiver::sent: an object among its arguments was destroyed"_s),
             qPrintable(call.errorString));
    QCOMPARE(call.lock, u"sent"_s);
    QCOMPARE(log.count({call.errorString}), 1);
}

void tst_Receivers::quitting()
{
    QFETCH(QString, mode);
    if (mode == u"waiting")
        hold("lock:busy");
    QProcess worker;
    worker.setProcessChannelMode(QProcess::MergedChannels);
    worker.start(QStringLiteral(ANNOTATION_WORKER), {m_server.url().toString(), mode});
    QVERIFY(worker.waitForFinished(60000));
    const QByteArray output = worker.readAll();
    QVERIFY2(worker.exitStatus() == QProcess::NormalExit && worker.exitCode() == 0, output.constData());
    QVERIFY2(output.contains("reached"), output.constData());
    letGo("lock:busy");
    QVERIFY(nothingLeft()); // what it has written before its end
}

void tst_Receivers::threadEnds()
{
    // A thread ends with calls that wait.
    hold("lock:counter");
    Sender sender;
    QFuture<int> future;
    auto receiver = std::make_unique<Receiver>();
    {
        LoopThread worker;
        receiver->moveToThread(&worker.thread);
        QVERIFY(connectLocked(&sender, &Sender::numbered, receiver.get(), &Receiver::add));
        for (int i = 0; i < 5; ++i)
            Q_EMIT sender.numbered(i);
        future = withLock(receiver.get(), u"counter"_s, options(), [] { return 1; });
        QVERIFY(eventually([&] { return m_server.exists("{lock:counter}:queue"); }));
    }
    QVERIFY(finished(future));
    QCOMPARE(failureOf(future).error, DistributedLock::CancelledError);
    QVERIFY(receiver->seen.isEmpty());
    letGo("lock:counter");
}

QTEST_GUILESS_MAIN(tst_Receivers)

#include "tst_receivers.moc"
