// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// LeaseMachine: waiters in the queue, and the messages that wake them.

#include "leasebench.h"
#include "support/rows.h"

namespace {

/// Takes and releases the lock without any delay.
void shortHold(Bench *bench)
{
    bench->hold();
    bench->machine.release(1, bench->now);
    bench->machine.releaseReplied(answer(EngineReply::Done), bench->now);
    bench->actions();
}

} // namespace

class tst_LeaseQueue : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void joinsTheQueueIfItCanBeWoken();
    void wakeableWhileWaiting();
    void wakeableWhileAnAttemptIsInFlight();
    void queuePositionAndArrival();
    void waiterInTheQueueDoesNotPoll_data();
    void waiterInTheQueueDoesNotPoll();
    void leavesTheQueue();
    void grantIsClaimedAtOnce();
    void grantWhileAnAttemptIsInFlight();
    void nextPollsAfterTheClaim();
    void nextWhileAnAttemptIsInFlight();
    void handedOver();
    void handedOverTooLate();
    void handedOverLate();
    void handedOverWithAShorterLease_data()
    {
        Support::addRows<bool>("autoRenew", {{"renewed", true}, {"not renewed", false}});
    }
    void handedOverWithAShorterLease();
    void handedOverToALongHolder_data()
    {
        Support::addRows<bool>("heldBefore", {{"first hold", false}, {"former hold was long", true}});
    }
    void handedOverToALongHolder();
    void handedOverWithMinHold();
    void handedOverAndReleased();
    void handedOverButNotExtended();
    void handedOverBeforeTheLastReply();
    void handedOverWithReplicas();
    void handedOverWithALongerLease();
    void handedOverWhileAnAttemptIsInFlight();
    void noticesInOtherPhases();
};

void tst_LeaseQueue::joinsTheQueueIfItCanBeWoken()
{
    Bench bench;
    bench.acquire();
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
    bench.machine.cancel(bench.now);
    bench.actions();
    bench.setWakeable(true);
    COMPARE_NO_ACTIONS(bench);
    bench.acquire(2);
    COMPARE_ACTIONS(bench, u"Acquire fresh enqueue"_s);
    bench.machine.cancel(bench.now);
    bench.actions();
    bench.acquire(3, true); // it does not wait
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
}

void tst_LeaseQueue::wakeableWhileWaiting()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.setWakeable(true);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.acquireReplied(queued(3), bench.now);
    bench.setWakeable(true);
    COMPARE_NO_ACTIONS(bench);
    // Nobody would notify it any more: it polls.
    bench.setWakeable(false);
    QVERIFY(bench.machine.nextWakeUp() <= bench.now + 125ms);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Acquire"_s);
    bench.machine.acquireReplied(taken(), bench.now);
    QCOMPARE(bench.machine.arrival(), QByteArray("1000")); // comes back to its place
    QVERIFY(bench.machine.nextWakeUp() <= bench.now + 125ms);
    bench.setWakeable(true);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s, u"Abandon"_s);
}

void tst_LeaseQueue::wakeableWhileAnAttemptIsInFlight()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.setWakeable(true);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
}

void tst_LeaseQueue::queuePositionAndArrival()
{
    Bench bench;
    bench.setWakeable(true);
    QCOMPARE(bench.machine.queuePosition(), -1);
    bench.acquire();
    QCOMPARE(bench.machine.queuePosition(), -1);
    QCOMPARE(bench.machine.arrival(), QByteArray());
    bench.machine.acquireReplied(queued(4), bench.now);
    QCOMPARE(bench.machine.queuePosition(), 4);
    QCOMPARE(bench.machine.arrival(), QByteArray("1000"));
    bench.machine.nextNoticed(3s, bench.now);
    QCOMPARE(bench.machine.queuePosition(), 0);
    bench.machine.grantNoticed(bench.now);
    bench.machine.acquireReplied(granted(), bench.now);
    QCOMPARE(bench.machine.queuePosition(), -1);
    bench.machine.release(2, bench.now);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    bench.acquire(3);
    QCOMPARE(bench.machine.arrival(), QByteArray()); // another acquisition, another place
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.machine.cancel(bench.now);
    QCOMPARE(bench.machine.queuePosition(), -1);
}

void tst_LeaseQueue::waiterInTheQueueDoesNotPoll_data()
{
    Support::addColumns<int, int, bool, int, int>("position", "ttl", "foreign", "least", "most");
    QTest::newRow("head") << 0 << 3600000 << false << 2250 << 3750;
    QTest::newRow("second") << 1 << 3600000 << false << 4500 << 7500;
    QTest::newRow("hundredth") << 99 << 3600000 << false << 225000 << 375000;
    QTest::newRow("head, foreign holder") << 0 << 3600000 << true << 75 << 125;
    QTest::newRow("second, foreign holder") << 1 << 3600000 << true << 2250 << 3750;
    QTest::newRow("head, lease ends") << 0 << 500 << false << 501 << 505;
    QTest::newRow("tenth, lease ends") << 9 << 500 << false << 510 << 514;
    QTest::newRow("far behind, lease ends") << 5000 << 500 << false << 1501 << 1505;
    QTest::newRow("head, no time to live") << 0 << -1 << false << 2250 << 3750;
}

void tst_LeaseQueue::waiterInTheQueueDoesNotPoll()
{
    QFETCH(int, position);
    QFETCH(int, ttl);
    QFETCH(bool, foreign);
    QFETCH(int, least);
    QFETCH(int, most);
    Bench bench;
    bench.options.wait = LockOptions::Forever;
    bench.setWakeable(true);
    bench.acquire();
    bench.actions();
    for (int i = 0; i < 50; ++i) {
        bench.machine.acquireReplied(queued(position, milliseconds(ttl), foreign), bench.now);
        const nanoseconds pause = bench.machine.nextWakeUp() - bench.now;
        QVERIFY2(pause >= milliseconds(least) && pause <= milliseconds(most),
                 qPrintable(QString::number(pause.count())));
        bench.passToWakeUp();
        COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    }
}

void tst_LeaseQueue::leavesTheQueue()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(2), bench.now);
    bench.actions();
    bench.pass(1s);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 TimeoutError"_s, u"Abandon"_s);
    bench.options.maxRetries = 0;
    bench.acquire(2);
    bench.machine.acquireReplied(queued(2), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 2 BusyError"_s, u"Acquire fresh enqueue"_s, u"Abandon"_s);
}

void tst_LeaseQueue::grantIsClaimedAtOnce()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.pass(1s);
    bench.machine.grantNoticed(bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    const LeaseTime sentAt = bench.now;
    bench.pass(10ms);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    QCOMPARE(bench.machine.deadline(), sentAt + 29698ms);
}

void tst_LeaseQueue::grantWhileAnAttemptIsInFlight()
{
    // The attempt may have come before the grant.
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.actions();
    bench.machine.grantNoticed(bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.acquireReplied(queued(0), bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.acquireReplied(queued(0), bench.now); // forged; asked once
    COMPARE_NO_ACTIONS(bench);
    QVERIFY(bench.machine.nextWakeUp() >= bench.now + 2250ms);
}

void tst_LeaseQueue::nextPollsAfterTheClaim()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(9), bench.now);
    bench.actions();
    bench.machine.nextNoticed(3s, bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.queuePosition(), 0);
    const nanoseconds pause = bench.machine.nextWakeUp() - bench.now;
    QVERIFY(pause >= 3s);
    QVERIFY(pause <= 3010ms);
    bench.machine.nextNoticed(1h, bench.now); // never later than it was
    QCOMPARE(bench.machine.nextWakeUp() - bench.now, pause);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);

    // Forged ones bring no busy loop.
    bench.machine.acquireReplied(queued(9), bench.now);
    for (const milliseconds ms : {0ms, -5ms, milliseconds::min() / 2}) {
        bench.machine.nextNoticed(ms, bench.now);
        QVERIFY(bench.machine.nextWakeUp() > bench.now);
    }
}

void tst_LeaseQueue::nextWhileAnAttemptIsInFlight()
{
    Bench bench;
    bench.options.wait = LockOptions::Forever;
    bench.setWakeable(true);
    bench.acquire();
    bench.actions();
    bench.machine.nextNoticed(500ms, bench.now);
    const LeaseTime noticedAt = bench.now;
    bench.pass(10ms);
    bench.machine.acquireReplied(queued(7, 1h), bench.now); // from before
    QVERIFY(bench.machine.nextWakeUp() >= noticedAt + 500ms);
    QVERIFY(bench.machine.nextWakeUp() <= noticedAt + 510ms);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.acquireReplied(queued(7, 1h), bench.now); // obeyed once
    QVERIFY(bench.machine.nextWakeUp() > bench.now + 10s);
}

void tst_LeaseQueue::handedOver()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire(1);
    bench.acquire(2);
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    const LeaseTime sentAt = bench.now + 1s;
    bench.pass(1100ms);
    bench.machine.handedOver({{}, "token", 99, sentAt, bench.options.lease}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s, u"Acquired 2"_s);
    QCOMPARE(bench.machine.deadline(), sentAt + 29698ms); // from the send of the release
    QCOMPARE(bench.machine.fencingToken(), 99);
    QCOMPARE(bench.machine.holdCount(), 2);
    QCOMPARE(bench.machine.queuePosition(), -1);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
}

void tst_LeaseQueue::handedOverTooLate()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    // The reply to the release took nearly the whole lease.
    const LeaseTime sentAt = bench.now - 29698ms + 1ms;
    bench.machine.handedOver({{}, "token", 99, sentAt, bench.options.lease}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    QVERIFY(!bench.machine.isHeld(bench.now));
}

void tst_LeaseQueue::handedOverLate()
{
    // Less than a third is left: a renewal might come too late.
    Bench bench;
    bench.setWakeable(true);
    shortHold(&bench);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.pass(2s);
    bench.machine.handedOver({{}, "token", 99, bench.now - 1969ms, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.machine.handedOver({{}, "token", 99, bench.now - 1967ms, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    QCOMPARE(bench.machine.deadline(), bench.now + 1001ms);
}

void tst_LeaseQueue::handedOverWithAShorterLease()
{
    QFETCH(bool, autoRenew);
    Bench bench;
    bench.options.autoRenew = autoRenew;
    bench.setWakeable(true);
    shortHold(&bench);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    const LeaseTime begin = bench.now;
    bench.machine.handedOver({{}, "token", 99, begin, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    QCOMPARE(bench.machine.deadline(), begin + 2968ms);
    // At a third of this lease it asks for its own.
    bench.passToWakeUp();
    QVERIFY(bench.now <= begin + 1s);
    QVERIFY(bench.now > begin + 700ms);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    const LeaseTime sentAt = bench.now;
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    if (autoRenew)
        QCOMPARE(bench.machine.deadline(), sentAt + 29698ms);
    else // 30 s from the acquisition on
        QCOMPARE(bench.machine.deadline(), begin + 30s - LeaseMachine::safetyMargin(begin + 30s - sentAt));
    if (!autoRenew) {
        QCOMPARE(bench.machine.nextWakeUp(), sentAt + (begin + 30s - sentAt) * 2 / 3); // at risk
    }
}

void tst_LeaseQueue::handedOverToALongHolder()
{
    // It may block the event loop for longer than the server keeps the lock: it asks for the whole lease before the
    // application is notified.
    QFETCH(bool, heldBefore);
    Bench bench;
    bench.setWakeable(true);
    if (heldBefore) {
        bench.hold();
        bench.pass(LeaseMachine::ShortHold);
        bench.machine.release(1, bench.now);
        bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
        bench.actions();
    }
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
}

void tst_LeaseQueue::handedOverWithMinHold()
{
    // The key must remain for that long, even if this process crashes.
    Bench bench;
    bench.setWakeable(true);
    shortHold(&bench);
    bench.options.minHold = 3001ms;
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.cancel(bench.now);
    bench.actions();
    bench.options.minHold = 2s;
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.pass(1s);
    bench.machine.handedOver({{}, "token", 99, bench.now - 500ms, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    bench.machine.release(1, bench.now);
    COMPARE_ACTIONS(bench, u"Release"_s);
    QCOMPARE(bench.lastCommands.constFirst().duration, nanoseconds(2s)); // from the arrival of the message
}

void tst_LeaseQueue::handedOverAndReleased()
{
    // Nothing but the release is sent.
    Bench bench;
    bench.setWakeable(true);
    shortHold(&bench);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    bench.machine.release(1, bench.now);
    COMPARE_ACTIONS(bench, u"Release"_s);
}

void tst_LeaseQueue::handedOverButNotExtended()
{
    // The reply to the first renewal does not come: the short lease ends.
    Bench bench;
    bench.setWakeable(true);
    shortHold(&bench);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    const LeaseTime begin = bench.now;
    bench.machine.handedOver({{}, "token", 99, begin, 3s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.passToWakeUp();
    QCOMPARE(bench.now, begin + 2s);
    COMPARE_ACTIONS(bench, u"AtRisk"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
}

void tst_LeaseQueue::handedOverBeforeTheLastReply()
{
    // Two connections: the reply overtakes the message. Somebody has taken the lock away in between.
    Bench bench;
    bench.setWakeable(true);
    shortHold(&bench);
    bench.acquire();
    EngineReply reply = queued(0);
    reply.serverTime = 5s;
    bench.machine.acquireReplied(reply, bench.now);
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, 3s, 5s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.acquireReplied(reply, bench.now);
    bench.machine.handedOver({{}, "token", 99, bench.now, 3s, 5s + 1us}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
}

void tst_LeaseQueue::handedOverWithReplicas()
{
    // The replicas have not confirmed it.
    Bench bench;
    bench.options.minReplicas = 1;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, bench.options.lease}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
}

void tst_LeaseQueue::handedOverWithALongerLease()
{
    // The releaser's lease would remain on the server if this process crashed: a claim sets its own.
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, 31s}, bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.machine.acquireReplied(granted(100), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    QCOMPARE(bench.machine.fencingToken(), 100);
}

void tst_LeaseQueue::handedOverWhileAnAttemptIsInFlight()
{
    // The attempt will give the key another lease, from another moment.
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, bench.options.lease}, bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.machine.acquireReplied(queued(0), bench.now);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
}

void tst_LeaseQueue::noticesInOtherPhases()
{
    Bench bench;
    const auto all = [&bench] {
        bench.machine.grantNoticed(bench.now);
        bench.machine.nextNoticed(1ms, bench.now);
        bench.machine.handedOver({{}, "token", 99, bench.now, bench.options.lease}, bench.now);
        bench.setWakeable(false);
        bench.setWakeable(true);
    };
    all();
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    all();
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.fencingToken(), 7);
    QCOMPARE(bench.machine.deadline(), deadline);
    bench.machine.release(2, bench.now);
    bench.actions();
    all();
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
}

QTEST_APPLESS_MAIN(tst_LeaseQueue)
#include "tst_leasequeue.moc"
