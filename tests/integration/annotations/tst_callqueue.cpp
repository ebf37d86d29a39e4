// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Many calls that wait: maxQueued, onBusy=latest, floods, cancellation, and an outage of the server.

#include "annotationtest.h"
#include "queuedreceiver.h"
#include "support/rows.h"

#include <QtCore/qelapsedtimer.h>

#include <memory>
#include <vector>

#if defined(__GLIBC__)
#  include <malloc.h>
#endif

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

using Support::TurnLimit;

/// Its two annotations name one lock in two ways, which only a call shows.
class Patient : public QObject
{
    Q_OBJECT
    Q_PROPERTY(bool patient MEMBER patient)
    Q_PROPERTY(QString key MEMBER key)

public:
    QDL_LOCKED_METHOD(note, "counter", "onBusy=latest; wait=forever; condition=this.patient")
    QDL_LOCKED_METHOD(note, "{this.key}", "onBusy=latest; wait=50ms; condition=!this.patient")
    Q_INVOKABLE void note() {}

    bool patient = true;
    QString key = u"counter"_s;
};

class tst_CallQueue : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void maxQueued();
    void maxQueuedOfWithLock();
    void latest();
    void latestIsInvoked();
    void latestWithOtherKeys();
    void latestWithAShorterWait();
    TIMING void latestCountsItsOwnWait();
    void sizeOfWaitingCalls();
    void flood_data()
    {
        Support::addRows<bool>("behind", {{"alone", false}, {"behind as many that wait for ever", true}});
    }
    TIMING void flood();
    void cancelMany();
    void outage();
};

void tst_CallQueue::maxQueued()
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
    QVERIFY2(call.errorString.startsWith(u"Receiver::few: Lock \"counter\" on unix:"_s)
                     && call.errorString.contains(u"maxQueued"_s),
             qPrintable(call.errorString));
    // One line at the beginning, and one that counts the others.
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QVERIFY2(eventually([&] { return log.count({u"Receiver::few: 6 more calls"_s}) == 1; }), qPrintable(log.text()));
    // Another receiver has its own.
    Receiver other;
    QVERIFY(connectLocked(
            &sender, &Sender::keyed, &other, [&other](const QString &, int number) { other.few(number); }, u"counter"_s,
            u"wait=1min; retryInterval=20ms; maxQueued=1"_s));
    Q_EMIT sender.keyed(QString(), 1);
    QCOMPARE(failed.size(), Count - 3);
    Q_EMIT sender.keyed(QString(), 2);
    QCOMPARE(failed.size(), Count - 2);
    letGo("lock:counter");
    QVERIFY(eventually([&] { return receiver.seen.size() + other.seen.size() == 4; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 1, 2}));
    QCOMPARE(other.seen, QList<int>{1});
    // Calls that need other locks count as well.
    QVERIFY(connectLocked(
            &sender, &Sender::named, &other, [](const QString &) {}, u"{1}"_s,
            u"wait=1min; retryInterval=20ms; maxQueued=2"_s));
    for (const char *name : {"a", "b"}) {
        hold(QByteArray("lock:") + name);
        Q_EMIT sender.named(QString::fromLatin1(name));
    }
    QCOMPARE(failed.size(), Count - 2);
    Q_EMIT sender.named(u"c"_s);
    QCOMPARE(failed.size(), Count - 1);
    QCOMPARE(failed.last().first().value<LockedCallInfo>().lock, u"c"_s);
    letGo("lock:a");
    letGo("lock:b");
    QVERIFY(nothingLeft());
    // There is room again.
    Q_EMIT sender.numbered(11);
    QVERIFY(eventually([&] { return receiver.seen.size() == 4; }));
    QCOMPARE(failed.size(), Count - 1);
}

void tst_CallQueue::maxQueuedOfWithLock()
{
    constexpr int Most = 10000; // as without an annotation
    hold("lock:w");
    const LogCapture log;
    const LockOptions patient = LockOptions().withWait(LockOptions::Forever);
    std::vector<QFuture<void>> futures;
    for (int i = 0; i < Most + 5; ++i)
        futures.push_back(withLock(u"w"_s, patient, [] {}));
    for (int i = 0; i < Most + 5; ++i)
        QCOMPARE(futures.at(size_t(i)).isFinished(), i >= Most);
    QCOMPARE(failureOf(futures.back()).error, DistributedLock::BusyError);
    QCOMPARE(log.count({u"withLock()"_s}), 1);
    for (QFuture<void> &future : futures)
        future.cancel();
    QVERIFY(eventually([&] { return all(futures, [](const auto &future) { return future.isFinished(); }); }));
    letGo("lock:w");
}

void tst_CallQueue::latest()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::newest));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QSignalSpy skipped(LockedCalls::instance(), &LockedCalls::skipped);
    Q_EMIT sender.numbered(0);
    QVERIFY(waits("counter"));
    QElapsedTimer elapsed;
    elapsed.start();
    const qint64 before = m_server.commandsProcessed("evalsha");
    for (int i = 1; i < 1000; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(eventually([&] { return skipped.size() == 999; }));
    QCOMPARE(skipped.first().first().value<LockedCallInfo>().error, DistributedLock::BusyError);
    // The newest one has taken the place of the first one in the server's queue.
    QCOMPARE(m_server.command({"ZCARD", "{lock:counter}:queue"}).toInt(), 1);
    const qint64 asked = m_server.commandsProcessed("evalsha") - before;
    QCOMPARE_LE(asked, 50 + elapsed.elapsed() / 15); // polls for the foreign holder, 15 ms apart or more
    letGo("lock:counter");
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.seen, QList<int>{999});
    QCOMPARE(failed.size(), 0);
    QCOMPARE(skipped.size(), 999);
}

void tst_CallQueue::latestIsInvoked()
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

void tst_CallQueue::latestWithOtherKeys()
{
    // The newest call of the method, whatever lock it needs.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::keyed, &receiver, &Receiver::newestOfAll));
    hold("lock:counter:a");
    hold("lock:counter:b");
    QSignalSpy skipped(LockedCalls::instance(), &LockedCalls::skipped);
    Q_EMIT sender.keyed(u"a"_s, 1);
    Q_EMIT sender.keyed(u"b"_s, 2);
    QCOMPARE(skipped.size(), 1);
    QCOMPARE(skipped.first().first().value<LockedCallInfo>().lock, u"counter:a"_s);
    letGo("lock:counter:a");
    letGo("lock:counter:b");
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.seen, QList<int>{2});
}

/// The newer call has a time-out after its own wait of 50 ms. The call that it has replaced had none.
void tst_CallQueue::latestWithAShorterWait()
{
    QPromise<void> promise;
    promise.start();
    bool begun = false;
    const auto running = withLock(u"counter"_s, [&] {
        begun = true;
        return promise.future();
    });
    QVERIFY(eventually([&] { return begun; }));
    Patient receiver;
    const auto patient = invokeLocked(&receiver, "note");
    receiver.patient = false;
    const auto urgent = invokeLocked(&receiver, "note");
    QVERIFY(finished(patient));
    QVERIFY(finished(urgent));
    QCOMPARE(failureOf(urgent).error, DistributedLock::TimeoutError);
    QVERIFY2(failureOf(urgent).errorString.contains(u"50 ms"_s), qPrintable(failureOf(urgent).errorString));
    promise.finish();
    QVERIFY(finished(running));
}

void tst_CallQueue::latestCountsItsOwnWait()
{
    // `wait` counts from the newest emission, although the acquire of the call that it replaced continues.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::newestSoon));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Support::leavesRoomFor(150ms);
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

void tst_CallQueue::sizeOfWaitingCalls()
{
    constexpr int Count = 20000;
    hold("lock:counter");
    Sender sender;
    auto receiver = std::make_unique<Receiver>();
    QVERIFY(connectLocked(&sender, &Sender::numbered, receiver.get(), &Receiver::many));
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < Count; ++i)
        Q_EMIT sender.numbered(i);
    const auto bytes = (mallinfo2().uordblks - before) / Count;
    std::printf("%zu bytes for each waiting call\n", bytes);
    QCOMPARE_LE(bytes, size_t(700));
#else
    for (int i = 0; i < Count; ++i)
        Q_EMIT sender.numbered(i);
#endif
    QVERIFY(waits("counter"));
    QVERIFY(receiver->seen.isEmpty());
    receiver.reset();
    letGo("lock:counter");
}

void tst_CallQueue::flood()
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
    for (int i = 0; behind && i < Count; ++i)
        Q_EMIT patientSender.numbered(i);
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
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return failed == Count; }));
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

void tst_CallQueue::cancelMany()
{
    constexpr int Count = 9000;
    hold("lock:w");
    const auto longest = Support::EventLoopProbe::longestBlockedTurnOf(
            [&](Support::EventLoopProbe &probe) {
                std::vector<QFuture<void>> futures;
                probe.without([&] {
                    const LockOptions patient = LockOptions().withWait(LockOptions::Forever);
                    for (int i = 0; i < Count; ++i)
                        futures.push_back(withLock(u"w"_s, patient, [] {}));
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
                processEvents();
                QElapsedTimer elapsed;
                elapsed.start();
                const qint64 before = m_server.commandsProcessed("evalsha");
                probe.without([&] {
                    for (QFuture<void> &future : futures)
                        future.cancel();
                });
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return ended == Count; }));
                // The calls behind the first one never ask the server. The first one polls, 75 ms apart or more.
                const qint64 asked = m_server.commandsProcessed("evalsha") - before;
                QCOMPARE_LE(asked, 100 + elapsed.elapsed() / 75);
            },
            std::chrono::seconds(1), 1);
    qInfo("longest turn %lld us", static_cast<long long>(longest.count() / 1000));
    letGo("lock:w");
}

void tst_CallQueue::outage()
{
    // What waited through an outage for longer than its `wait` is not replayed after it.
    Support::Started<Support::RedisServer> server;
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(
            &sender, &Sender::numbered, &receiver, [&](int number) { receiver.seen.append(number); }, u"counter"_s,
            u"wait=300ms; server="_s + server.url().toString()));
    QVERIFY(connectLocked(
            &sender, &Sender::keyed, &receiver, [&](const QString &, int number) { receiver.seen.append(number); },
            u"counter"_s, u"wait=5min; server="_s + server.url().toString()));
    Q_EMIT sender.keyed(QString(), 0);
    QVERIFY(eventually([&] { return receiver.seen.size() == 1; }));
    server.kill();
    for (int i = 1; i <= 50; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(eventually([&] { return failed.size() == 50; }));
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    Q_EMIT sender.keyed(QString(), 51); // behind whatever still waits
    QVERIFY(eventually([&] { return receiver.seen.size() > 1; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 51}));
    QCOMPARE(failed.size(), 50);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_CallQueue)

#include "tst_callqueue.moc"
