// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// connectLocked() on a real server: order, bounds of time, options, receivers and threads.

#include "annotationtest.h"
#include "receiver.h"
#include "support/rows.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qprocess.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <memory>
#include <stdexcept>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

using Support::TurnLimit;

class tst_ConnectLocked : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void runsUnderItsLock();
    void thousandEmissions();
    TIMING void thousandEmissionsInShortTurns() { checkTurns(&tst_ConnectLocked::emitThousand); }
    void thousandSkipped();
    TIMING void thousandSkippedInShortTurns() { checkTurns(&tst_ConnectLocked::skipThousand); }
    void busyFails();
    void timesOut();
    TIMING void timesOutOnTheServer();
    void waitCountsFromTheEmission();
    void busyInItsOwnThread();
    void oneInATurn();
    void keysDoNotWaitForEachOther();
    void blocksForFiveLeases_data()
    {
        Support::addRows<bool>("inWorker", {{"main thread", false}, {"worker thread", true}});
    }
    TIMING void blocksForFiveLeases();
    void twoLocksNoDeadlock();
    void secondLockBusy();
    void condition();
    void elsewhere();
    void wrongAnnotations();
    void convertedArguments();
    void slotThrows();
    void withKey();
    void functionObjects();

private:
    using Scenario = void (tst_ConnectLocked::*)(Support::EventLoopProbe *probe);
    void emitThousand(Support::EventLoopProbe *probe);
    void skipThousand(Support::EventLoopProbe *probe);
    void checkTurns(Scenario scenario);
};

void tst_ConnectLocked::checkTurns(Scenario scenario)
{
    const auto longest = Support::EventLoopProbe::longestBlockedTurnOf(
            [&](Support::EventLoopProbe &probe) { (this->*scenario)(&probe); }, TurnLimit);
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(longest < TurnLimit, qPrintable(QString::number(longest.count())));
    qInfo("longest turn %lld us", static_cast<long long>(longest.count() / 1000));
}

void tst_ConnectLocked::runsUnderItsLock()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::keyed));
    receiver.body = [&] {
        QVERIFY(m_server.exists("lock:a/acme"));
        QDL_ASSERT_LOCKED(u"a/acme"_s);
        QVERIFY(fencingTokenHere(u"a/acme"_s) > 0);
    };
    Q_EMIT sender.named(u"a"_s, 1);
    QVERIFY(receiver.seen.isEmpty()); // never inside the emission
    QVERIFY(eventually([&] { return receiver.seen == QList<int>{1}; }));
    QVERIFY(!isLockedHere(u"a/acme"_s));
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.overlaps, 0);
}

void tst_ConnectLocked::emitThousand(Support::EventLoopProbe *probe)
{
    constexpr int Count = 1000;
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
    qint64 before = 0;
    probe->without([&] {
        hold("lock:counter");
        before = m_server.commandsProcessed("evalsha");
    });
    for (int i = 0; i < Count; ++i)
        Q_EMIT sender.numbered(i);
    bool waits = false;
    for (const QDeadlineTimer patience(60s); !waits && !patience.hasExpired();) {
        Support::EventLoopProbe::waitFor([] { return false; }, 10ms);
        probe->without([&] { waits = m_server.commandsProcessed("evalsha") > before + 1; });
    }
    QVERIFY(waits);
    QVERIFY(receiver.seen.isEmpty());
    // One waiter, however many wait behind it.
    probe->without([&] {
        QCOMPARE(m_server.command({"ZCARD", "{lock:counter}:queue"}).toInt(), 1);
        letGo("lock:counter");
    });
    QVERIFY(Support::EventLoopProbe::waitFor([&] { return receiver.seen.size() >= Count; }));
    QCOMPARE(receiver.seen.size(), Count);
    for (int i = 0; i < Count; ++i)
        QCOMPARE(receiver.seen.at(i), i);
    QCOMPARE(receiver.overlaps, 0);
}

void tst_ConnectLocked::thousandEmissions()
{
    Support::EventLoopProbe probe;
    emitThousand(&probe);
}

void tst_ConnectLocked::skipThousand(Support::EventLoopProbe *probe)
{
    constexpr int Count = 1000;
    int skipped = 0;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    Sender sender;
    Receiver receiver;
    connect(LockedCalls::instance(), &LockedCalls::skipped, &receiver, [&](const LockedCallInfo &call) {
        ++skipped;
        QCOMPARE(call.error, DistributedLock::BusyError);
    });
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::tryAdd));
    probe->without([&] { hold("lock:counter"); });
    for (int i = 0; i < Count; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(Support::EventLoopProbe::waitFor([&] { return skipped >= Count; }));
    // Later ones as well.
    Q_EMIT sender.numbered(0);
    QVERIFY(Support::EventLoopProbe::waitFor([&] { return skipped > Count; }));
    QCOMPARE(receiver.seen, QList<int>());
    probe->without([&] { letGo("lock:counter"); });
    Q_EMIT sender.numbered(7);
    QVERIFY(Support::EventLoopProbe::waitFor([&] { return !receiver.seen.isEmpty(); }));
    QCOMPARE(receiver.seen, QList<int>{7});
    QCOMPARE(skipped, Count + 1);
    QCOMPARE(failed.size(), 0);
}

void tst_ConnectLocked::thousandSkipped()
{
    Support::EventLoopProbe probe;
    skipThousand(&probe);
}

void tst_ConnectLocked::busyFails()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::mustAdd));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.receiver.data(), &receiver);
    QCOMPARE(call.className, QByteArray("Receiver"));
    QCOMPARE(call.method, QByteArray("mustAdd"));
    QCOMPARE(call.lock, u"counter"_s);
    QVERIFY(call.server.startsWith(u"unix:"_s));
    QCOMPARE(call.error, DistributedLock::BusyError);
    QCOMPARE(log.count({u"Receiver::mustAdd"_s, u"Lock \"counter\""_s, call.server}), 1);
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:counter");
}

void tst_ConnectLocked::timesOutOnTheServer()
{
    Support::leavesRoomFor(150ms);
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::soonAdd));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QElapsedTimer elapsed;
    elapsed.start();
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.numbered(2);
    QVERIFY(eventually([&] { return failed.size() >= 2; }));
    QCOMPARE_GE(elapsed.elapsed(), 290);
    for (const QList<QVariant> &arguments : std::as_const(failed)) {
        const auto call = arguments.first().value<LockedCallInfo>();
        QCOMPARE(call.error, DistributedLock::TimeoutError);
        QVERIFY2(call.errorString.startsWith(u"Receiver::soonAdd: Lock \"counter\" on unix:"_s),
                 qPrintable(call.errorString));
    }
    letGo("lock:counter");
    Q_EMIT sender.numbered(5);
    QVERIFY(eventually([&] { return receiver.seen == QList<int>{5}; }));
    QCOMPARE(failed.size(), 2);
}

void tst_ConnectLocked::timesOut()
{
    constexpr int Count = 100;
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::soonAdd));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    // The others wait behind one that asks the server: their end does not depend on an answer in time.
    const auto patient = invokeLocked(&receiver, "add", -1);
    for (int i = 0; i < Count; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(eventually([&] { return failed.size() >= Count; }));
    for (const QList<QVariant> &arguments : std::as_const(failed)) {
        const auto call = arguments.first().value<LockedCallInfo>();
        QCOMPARE(call.error, DistributedLock::TimeoutError);
        QVERIFY2(call.errorString.startsWith(u"Receiver::soonAdd: Lock \"counter\" on unix:"_s),
                 qPrintable(call.errorString));
    }
    // One line for the first of them, and one that counts the others; for each burst, if a slow machine makes several.
    const QRegularExpression summary(u"Receiver::soonAdd: (\\d+) more calls"_s);
    QVERIFY(eventually([&] {
        qsizetype logged = log.count({u"Receiver::soonAdd"_s, u"dropped"_s});
        for (const QString &line : log.messages())
            logged += summary.match(line).captured(1).toInt();
        return logged == Count;
    }));
    QCOMPARE_LE(log.count({u"Receiver::soonAdd"_s}), Count / 5);
    letGo("lock:counter");
    QVERIFY(finished(patient));
    QCOMPARE(receiver.seen, QList<int>{-1});
    QCOMPARE(failed.size(), Count);
}

void tst_ConnectLocked::waitCountsFromTheEmission()
{
    // The call before them works for longer than they wait.
    Sender sender;
    Receiver receiver;
    QDeadlineTimer waitsEnd(QDeadlineTimer::Forever);
    receiver.body = [&] { blockUntil([&] { return waitsEnd.hasExpired(); }); };
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::soonAdd));
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const auto before = invokeLocked(&receiver, "add", -1);
    for (int i = 0; i < 10; ++i)
        Q_EMIT sender.numbered(i);
    waitsEnd.setRemainingTime(310, Qt::PreciseTimer);
    QVERIFY(finished(before));
    QVERIFY(eventually([&] { return failed.size() + receiver.seen.size() == 11; }));
    QCOMPARE(receiver.seen, QList<int>{-1});
    const auto call = failed.last().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(u"its turn behind earlier calls"_s), qPrintable(call.errorString));
}

void tst_ConnectLocked::busyInItsOwnThread()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::tryAdd));
    QSignalSpy skipped(LockedCalls::instance(), &LockedCalls::skipped);
    receiver.body = [&] {
        if (receiver.seen.size() == 1)
            Q_EMIT sender.numbered(2); // under way: busy
    };
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QCOMPARE(skipped.size(), 1);
    // And free again as soon as it has run.
    Q_EMIT sender.numbered(3);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(receiver.seen, (QList<int>{1, 3}));
    QCOMPARE(skipped.size(), 1);
}

void tst_ConnectLocked::oneInATurn()
{
    // Many locks, all free: still one slot in each turn of the event loop.
    constexpr int Count = 50;
    Sender sender;
    Receiver receiver;
    Support::EventLoopProbe probe;
    QList<qint64> turns;
    receiver.body = [&] { turns.append(probe.turns()); };
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::keyed));
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::guardedAdd));
    receiver.guarded = false; // no lock, but no second one in a turn either
    for (int i = 0; i < Count; ++i) {
        Q_EMIT sender.named(u"n%1"_s.arg(i), i);
        Q_EMIT sender.numbered(i);
    }
    QVERIFY(eventually([&] { return turns.size() == 2 * Count; }));
    for (qsizetype i = 1; i < turns.size(); ++i)
        QVERIFY2(turns.at(i - 1) < turns.at(i), qPrintable(QString::number(i)));
    QCOMPARE(receiver.overlaps, 0);
}

void tst_ConnectLocked::keysDoNotWaitForEachOther()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::keyed));
    hold("lock:a/acme");
    Q_EMIT sender.named(u"a"_s, 1);
    Q_EMIT sender.named(u"b"_s, 2);
    Q_EMIT sender.named(u"a"_s, 3);
    Q_EMIT sender.named(u"b"_s, 4);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(receiver.seen, (QList<int>{2, 4}));
    letGo("lock:a/acme");
    QVERIFY(eventually([&] { return receiver.seen.size() == 4; }));
    QCOMPARE(receiver.seen, (QList<int>{2, 4, 1, 3}));
    QCOMPARE(receiver.overlaps, 0);
}

void tst_ConnectLocked::blocksForFiveLeases()
{
    QFETCH(bool, inWorker);
    Support::leavesRoomFor(70ms);
    constexpr milliseconds Lease = 500ms;
    Sender sender; // of which the receiver takes leave in its thread
    LoopThread worker;
    auto receiver = std::make_unique<Receiver>();
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    QList<qint64> samples;
    bool heldToTheEnd = false;
    std::atomic<bool> done{false};
    receiver->body = [&] {
        // The witness: the real redis-cli, every 100 ms.
        QProcess witness;
        witness.start(
                Support::RedisServer::cliProgram(),
                {u"-s"_s, m_server.socketPath(), u"-r"_s, u"25"_s, u"-i"_s, u"0.1"_s, u"PTTL"_s, u"lock:renewed"_s});
        witness.waitForStarted();
        QThread::msleep((5 * Lease).count());
        witness.waitForFinished();
        const QList<QByteArray> lines = witness.readAllStandardOutput().split('\n');
        for (const QByteArray &line : lines) {
            if (!line.isEmpty())
                samples.append(line.toLongLong());
        }
        heldToTheEnd = isLockedHere(u"renewed"_s);
        done = true;
    };
    if (inWorker)
        receiver->moveToThread(&worker.thread);
    QVERIFY(connectLocked(&sender, &Sender::fired, receiver.get(), &Receiver::renewed));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return done.load(); }));
    if (inWorker)
        receiver.release()->deleteLater();
    QVERIFY(heldToTheEnd);
    QCOMPARE_GE(samples.size(), 20);
    for (const qint64 pttl : std::as_const(samples))
        QCOMPARE_GT(pttl, Lease.count() / 2);
    QCOMPARE(lost.size(), 0);
}

void tst_ConnectLocked::twoLocksNoDeadlock()
{
    constexpr int Count = 100;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    std::atomic<int> inside{0};
    std::atomic<int> overlaps{0};
    std::atomic<int> runs{0};
    {
        LoopThread one;
        LoopThread two;
        Sender sender;
        for (LoopThread *thread : {&one, &two}) {
            auto *receiver = new Receiver;
            receiver->body = [&] {
                overlaps += inside.fetch_add(1) != 0;
                std::this_thread::yield();
                inside.fetch_sub(1);
                ++runs;
            };
            QVERIFY(connectLocked(&sender, &Sender::numbered, receiver,
                                  thread == &one ? &Receiver::twoLocks : &Receiver::twoLocksReversed));
            receiver->moveToThread(&thread->thread);
            connect(&thread->thread, &QThread::finished, receiver,
                    [receiver, &overlaps] { overlaps += receiver->overlaps; });
            connect(&thread->thread, &QThread::finished, receiver, &QObject::deleteLater);
        }
        for (int i = 0; i < Count; ++i)
            Q_EMIT sender.numbered(i);
        QVERIFY(eventually([&] { return runs == 2 * Count; }));
    }
    QCOMPARE(overlaps.load(), 0);
    QCOMPARE(failed.size(), 0);
}

void tst_ConnectLocked::secondLockBusy()
{
    // The first lock is held while the call waits for the second; then both are released.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::twoLocksReversed));
    hold("lock:second");
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return m_server.exists("lock:first") && m_server.exists("{lock:second}:queue"); }));
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:second");
    QVERIFY(eventually([&] { return receiver.seen == QList<int>{1}; }));
    QCOMPARE(receiver.overlaps, 0);
    QVERIFY(nothingLeft());
}

void tst_ConnectLocked::condition()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::guardedAdd));
    QVERIFY(connectLocked(&sender, &Sender::ordered, &receiver, &Receiver::ordered));
    hold("lock:guarded");
    hold("lock:order:3");
    receiver.guarded = false;
    const qint64 before = m_server.commandsProcessed("evalsha");
    Q_EMIT sender.numbered(1);
    QVERIFY(receiver.seen.isEmpty()); // asynchronous all the same
    Q_EMIT sender.ordered(Order{3, false});
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 0}));
    QCOMPARE(m_server.commandsProcessed("evalsha"), before);

    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    receiver.guarded = true;
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.ordered(Order{3, true});
    QVERIFY(eventually([&] { return failed.size() == 2; }));
    letGo("lock:guarded");
    letGo("lock:order:3");
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.ordered(Order{3, true});
    QVERIFY(eventually([&] { return receiver.seen.size() == 4; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 0, 1, 1}));
}

void tst_ConnectLocked::elsewhere()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::fired, &receiver, &Receiver::elsewhere));
    receiver.body = [&] { QCOMPARE(lockKeys(m_server), QList<QByteArray>()); };
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return receiver.seen == QList<int>{1}; }));
}

void tst_ConnectLocked::wrongAnnotations()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    {
        const LogCapture log;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::broken));
        QCOMPARE(log.count({u"Receiver::broken"_s, u"counter:{nr}"_s, u"no parameter \"nr\""_s}), 1);
    }
    {
        const LogCapture log;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free));
        QCOMPARE(log.count({u"Receiver"_s, u"no annotation"_s, u"int"_s}), 1);
    }
    {
        const LogCapture log;
        Receiver *const none = nullptr;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, none, &Receiver::add));
        QCOMPARE(log.count({u"the receiver is null"_s}), 1);
    }
    {
        const LogCapture log;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"a{2}"_s));
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"a"_s, u"wait=2"_s));
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"a"_s,
                               LockOptions().withLease(0ms)));
        QCOMPARE(log.count({u"nothing was connected"_s}), 3);
        QCOMPARE(log.count({u"no parameter 2; it has 1"_s}), 1);
        QCOMPARE(log.count({u"\"2\" is not a duration"_s}), 1);
        QCOMPARE(log.count({u"lease is 0 ms"_s}), 1);
    }
    // What only a call can tell.
    QVERIFY(connectLocked(&sender, &Sender::ordered, &receiver, &Receiver::ordered, u"{1}"_s));
    const LogCapture log;
    Q_EMIT sender.ordered(Order{});
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::OptionsError);
    QVERIFY2(call.errorString.contains(u"Receiver::ordered: key \"{1}\""_s), qPrintable(call.errorString));
    QVERIFY2(call.errorString.contains(u"cannot be written as text"_s), qPrintable(call.errorString));
    QVERIFY(receiver.seen.isEmpty());
}

void tst_ConnectLocked::convertedArguments()
{
    // The key is made of what the slot gets, whatever the signal has.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::numbered));
    QVERIFY(connectLocked(&sender, &Sender::turned, &receiver, &Receiver::numbered));
    QVERIFY(connectLocked(&sender, &Sender::checked, &receiver, &Receiver::numbered));
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::viewed));
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.turned(Qt::Horizontal);
    Q_EMIT sender.checked(true);
    QVERIFY(eventually([&] { return receiver.seen.size() == 3; }));
    QCOMPARE(receiver.seen, (QList<int>{1, 1, 1}));
    Q_EMIT sender.named(u"xyz"_s, 0);
    QVERIFY(eventually([&] { return receiver.seen.size() == 4; }));
    QCOMPARE(receiver.seen.last(), 3);
    QCOMPARE(receiver.overlaps, 0);
}

void tst_ConnectLocked::slotThrows()
{
    Sender sender;
    Receiver receiver;
    receiver.body = [&] {
        receiver.running = false;
        if (receiver.seen.size() == 1)
            throw std::runtime_error("thrown");
    };
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.numbered(2);
    waitForService();
    bool caught = false;
    const QDeadlineTimer patience(60s);
    while (!caught && !patience.hasExpired()) {
        try {
            QCoreApplication::sendPostedEvents();
        } catch (const std::runtime_error &) {
            caught = true;
        }
    }
    QVERIFY(caught);
    QVERIFY(!isLockedHere(u"counter"_s));
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(receiver.overlaps, 0);
}

void tst_ConnectLocked::withKey()
{
    Sender sender;
    Receiver receiver;
    // In place of an annotation, and for a slot that has none.
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::keyed, u"own:{name}/{number}"_s,
                          u"keyPrefix=app:; wait=1min"_s));
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"{{free}}:{1}"_s, options()));
    receiver.tenant.clear();
    QList<QByteArray> found;
    receiver.body = [&] { found = lockKeys(m_server); };
    Q_EMIT sender.named(u"a"_s, 4);
    QVERIFY(eventually([&] { return receiver.seen.size() == 1; }));
    QCOMPARE(found, QList<QByteArray>{"app:own:a/4"});
    Q_EMIT sender.numbered(8);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(found, QList<QByteArray>{"lock:{free}:8"});
}

void tst_ConnectLocked::functionObjects()
{
    Sender sender;
    QObject context;
    int sum = 0;
    int none = 0;
    QVERIFY(connectLocked(
            &sender, &Sender::named, &context,
            [&](const QString &name, int number) {
                QVERIFY(isLockedHere(u"f:"_s + name));
                sum += number;
            },
            u"f:{1}"_s));
    QVERIFY(connectLocked(
            &sender, &Sender::named, &context, [&none] { ++none; }, u"none"_s));
    Q_EMIT sender.named(u"a"_s, 4);
    Q_EMIT sender.named(u"b"_s, 5);
    QVERIFY(eventually([&] { return sum == 9 && none == 2; }));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ConnectLocked)

#include "tst_connectlocked.moc"
