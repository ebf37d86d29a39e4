// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// LeaseMachine: nested acquires and releases.

#include "leasebench.h"
#include "support/rows.h"

class tst_LeaseRelease : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void reentryCostsNothing();
    void releaseOfAnUnlockedLock();
    void handedOut();
    void releaseWhileAcquiringCancels();
    void releaseIsConfirmed();
    void releaseFindsTheKeyGone_data();
    void releaseFindsTheKeyGone();
    void releaseIsRepeated();
    void repeatedReleaseKnowsItsOwnWork_data();
    void repeatedReleaseKnowsItsOwnWork();
    void releaseAtADoubtfulServer_data();
    void releaseAtADoubtfulServer();
    void releaseWaitsForTheEngine();
    void releaseUnconfirmedUntilTheDeadline();
    void forbiddenReleaseIsNotRepeated();
    void releaseOvertakesARenewal();
    void releaseDoesNotWaitForARenewalThatWasLost();
    void minHoldIsKept();
    void acquireWhileReleasing();
    void acquireWhileReleasingHasNewOptions();
    void acquireWhileReleasingExpires();
    void acquireWhileReleasingFailsWithTheEngine();
    void releaseWhileReleasingEndsTheNextAcquire();
    void cancelWhileReleasing();
    void nextHoldKnowsNothingOfTheLast();
    void nextAcquisitionReportsItsOwnErrors();
};

void tst_LeaseRelease::reentryCostsNothing()
{
    Bench bench;
    bench.hold();
    bench.acquire(2);
    bench.acquire(3, true);
    COMPARE_ACTIONS(bench, u"Acquired 2"_s, u"Acquired 3"_s);
    QCOMPARE(bench.machine.holdCount(), 3);
    bench.machine.release(4, bench.now);
    bench.machine.release(5, bench.now);
    COMPARE_ACTIONS(bench, u"ReleaseDone 4 true"_s, u"ReleaseDone 5 true"_s);
    QVERIFY(bench.machine.isHeld(bench.now));
    bench.machine.release(6, bench.now);
    COMPARE_ACTIONS(bench, u"Release"_s);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 6 true"_s);
}

void tst_LeaseRelease::releaseOfAnUnlockedLock()
{
    Bench bench;
    bench.machine.release(1, bench.now);
    COMPARE_ACTIONS(bench, u"ReleaseDone 1 false"_s);
}

// The key stays, and replies that are under way change nothing.
void tst_LeaseRelease::handedOut()
{
    Bench bench;
    QVERIFY(!bench.machine.handOut(bench.now));
    bench.hold();
    bench.acquire(2);
    bench.now += bench.options.lease / 2;
    bench.machine.tick(bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 2"_s, u"Renew"_s);
    const quint64 epoch = bench.machine.epoch();
    QVERIFY(bench.machine.handOut(bench.now));
    COMPARE_ACTIONS(bench, u"Released"_s);
    QVERIFY(bench.machine.epoch() != epoch);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
    // Too late.
    bench.hold();
    bench.now = bench.machine.deadline();
    QVERIFY(!bench.machine.handOut(bench.now));
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
}

void tst_LeaseRelease::releaseWhileAcquiringCancels()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.machine.release(2, bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s, u"ReleaseDone 2 false"_s, u"Abandon"_s);
}

void tst_LeaseRelease::releaseIsConfirmed()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    COMPARE_ACTIONS(bench, u"Release"_s);
    QCOMPARE(bench.command(Command::Release).duration, 0ns);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    QVERIFY(!bench.machine.isHeld(bench.now));
    QCOMPARE(bench.machine.holdCount(), 0);
    QCOMPARE(bench.machine.fencingToken(), 0);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

void tst_LeaseRelease::releaseFindsTheKeyGone_data()
{
    Support::addColumns<int, QString>("status", "lost");
    QTest::newRow("gone") << int(EngineReply::Gone) << u"Lost Deleted"_s;
    QTest::newRow("stolen") << int(EngineReply::Stolen) << u"Lost Stolen"_s;
}

void tst_LeaseRelease::releaseFindsTheKeyGone()
{
    QFETCH(int, status);
    QFETCH(QString, lost);
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.releaseReplied(answer(EngineReply::Status(status)), bench.now);
    COMPARE_ACTIONS(bench, lost, u"ReleaseDone 2 false"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseRelease::releaseIsRepeated()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.releaseReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    QVERIFY(bench.machine.nextWakeUp() > bench.now);
    for (int i = 0; i < 3; ++i) {
        bench.passToWakeUp();
        COMPARE_ACTIONS(bench, u"Release"_s);
        bench.machine.releaseReplied(failed(passing()), bench.now);
        COMPARE_NO_ACTIONS(bench); // reported once
    }
    bench.passToWakeUp();
    bench.actions();
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s);
}

void tst_LeaseRelease::repeatedReleaseKnowsItsOwnWork_data()
{
    Support::addColumns<bool, QStringList>("maybeExecuted", "end");
    QTest::newRow("may have run") << true << QStringList{u"Released"_s, u"ReleaseDone 2 true"_s};
    QTest::newRow("was not sent") << false << QStringList{u"Lost Deleted"_s, u"ReleaseDone 2 false"_s};
}

void tst_LeaseRelease::repeatedReleaseKnowsItsOwnWork()
{
    QFETCH(bool, maybeExecuted);
    QFETCH(QStringList, end);
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.machine.releaseReplied(failed(passing(maybeExecuted)), bench.now);
    bench.passToWakeUp();
    bench.machine.releaseReplied(failed(passing(false)), bench.now);
    bench.passToWakeUp();
    bench.actions();
    bench.machine.releaseReplied(answer(EngineReply::Gone), bench.now);
    QCOMPARE(bench.actions(), end);
}

void tst_LeaseRelease::releaseAtADoubtfulServer_data()
{
    Support::addColumns<int, QString>("status", "lost");
    QTest::newRow("gone") << int(EngineReply::Gone) << u"Lost Deleted"_s;
    QTest::newRow("stolen") << int(EngineReply::Stolen) << u"Lost Stolen"_s;
}

/// A master that was perhaps replaced has no key, and its successor may have it.
void tst_LeaseRelease::releaseAtADoubtfulServer()
{
    QFETCH(int, status);
    QFETCH(QString, lost);
    EngineReply doubtful = answer(EngineReply::Status(status));
    doubtful.error = passing();
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.releaseReplied(doubtful, bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Release"_s);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s);

    // An earlier release may have deleted the key: then there is nothing to find out.
    bench.hold();
    bench.machine.release(3, bench.now);
    bench.machine.releaseReplied(failed(passing(true)), bench.now);
    bench.passToWakeUp();
    bench.actions();
    bench.machine.releaseReplied(doubtful, bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 3 true"_s);

    // Whoever holds it has to know at once.
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(doubtful, bench.now);
    COMPARE_ACTIONS(bench, lost);
}

void tst_LeaseRelease::releaseWaitsForTheEngine()
{
    Bench bench;
    bench.hold();
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.machine.release(2, bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    bench.pass(1s);
    bench.engineReady();
    COMPARE_ACTIONS(bench, u"Release"_s);
}

void tst_LeaseRelease::releaseUnconfirmedUntilTheDeadline()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"ReleaseDone 2 false"_s, u"Abandon"_s);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseRelease::forbiddenReleaseIsNotRepeated()
{
    Bench bench;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.releaseReplied(failed(permanent()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred PermissionError"_s);
    QCOMPARE(bench.machine.nextWakeUp(), deadline - 1ms);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"ReleaseDone 2 false"_s, u"Abandon"_s);
}

void tst_LeaseRelease::releaseOvertakesARenewal()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.release(2, bench.now);
    COMPARE_ACTIONS(bench, u"Release"_s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s);
}

void tst_LeaseRelease::minHoldIsKept()
{
    Bench bench;
    bench.options.minHold = 5s;
    bench.hold();
    bench.pass(2s);
    bench.machine.release(2, bench.now);
    bench.actions();
    QCOMPARE(bench.command(Command::Release).duration, nanoseconds(3s));
    bench.machine.releaseReplied(failed(passing()), bench.now);
    bench.now += 2s;
    bench.machine.tick(bench.now);
    bench.actions();
    QCOMPARE(bench.command(Command::Release).duration, nanoseconds(1s));
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);

    bench.hold();
    bench.pass(5s + 1ns);
    bench.machine.release(3, bench.now);
    bench.actions();
    QCOMPARE(bench.command(Command::Release).duration, 0ns);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);

    bench.hold();
    bench.pass(1s);
    bench.machine.detach(bench.now, QStringLiteral("its registry was destroyed"));
    bench.actions();
    QCOMPARE(bench.command(Command::Abandon).duration, nanoseconds(4s));
}

void tst_LeaseRelease::acquireWhileReleasing()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.acquire(4, true);
    COMPARE_ACTIONS(bench, u"Release"_s);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s, u"Acquire fresh"_s);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 3"_s, u"Acquired 4"_s);
}

void tst_LeaseRelease::acquireWhileReleasingHasNewOptions()
{
    Bench bench;
    bench.options.lease = 5s;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.options.lease = 7s;
    bench.acquire(3);
    QCOMPARE(bench.machine.options().lease, milliseconds(5s));
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    QCOMPARE(bench.machine.options().lease, milliseconds(7s));
}

void tst_LeaseRelease::acquireWhileReleasingExpires()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.options.wait = 1s;
    bench.acquire(3);
    bench.actions();
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 1s);
    bench.pass(1s);
    COMPARE_ACTIONS(bench, u"AcquireFailed 3 ConnectionError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseRelease::acquireWhileReleasingFailsWithTheEngine()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.options.wait = LockOptions::Forever;
    bench.acquire(3);
    bench.acquire(4, true);
    bench.actions();
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, u"AcquireFailed 4 ConnectionError"_s, u"ErrorOccurred ConnectionError"_s);
    bench.engineFailed(permanent());
    COMPARE_ACTIONS(bench, u"AcquireFailed 3 PermissionError"_s, u"ErrorOccurred PermissionError"_s);
}

void tst_LeaseRelease::releaseWhileReleasingEndsTheNextAcquire()
{
    // As acquire() and release() in a row do from any other state.
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.machine.release(4, bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 3 CancelledError"_s, u"ReleaseDone 4 false"_s, u"Release"_s);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseRelease::cancelWhileReleasing()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.actions();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 3 CancelledError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
}

void tst_LeaseRelease::releaseDoesNotWaitForARenewalThatWasLost()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.ready = false;
    bench.machine.release(2, bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.engineReady();
    COMPARE_ACTIONS(bench, u"Release"_s);
}

void tst_LeaseRelease::nextHoldKnowsNothingOfTheLast()
{
    Bench bench;
    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.machine.release(2, bench.now);
    bench.machine.releaseReplied(failed(passing(true)), bench.now);
    bench.passToWakeUp();
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    bench.hold();
    bench.machine.release(3, bench.now);
    COMPARE_ACTIONS(bench, u"Release"_s);
    // Nobody forced this release, and no earlier one may have deleted the key.
    bench.machine.releaseReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost Deleted"_s, u"ReleaseDone 3 false"_s);
}

void tst_LeaseRelease::nextAcquisitionReportsItsOwnErrors()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.machine.releaseReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s, u"Release"_s);
    bench.passToWakeUp();
    bench.acquire(3);
    COMPARE_ACTIONS(bench, u"Release"_s);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s, u"Acquire fresh"_s);
    bench.machine.acquireReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
}

QTEST_APPLESS_MAIN(tst_LeaseRelease)
#include "tst_leaserelease.moc"
