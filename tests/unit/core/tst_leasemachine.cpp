// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// LeaseMachine: its timing, and acquires that poll.

#include "leasebench.h"

class tst_LeaseMachine : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void beginsUnlocked();
    void safetyMargin_data();
    void safetyMargin();
    void renewalBeat_data();
    void renewalBeat();
    void shortestLease();

    void acquireIsGranted();
    void acquireWaitsForTheEngine();
    void acquirePollsAgain();
    void pollsAgainWhenTheHoldersLeaseEnds();
    void acquireTimesOut();
    void acquireTimesOutWithoutAnAnswer();
    void acquireTimesOutWithTheLastError();
    void endlessWaitsNeverEnd_data();
    void endlessWaitsNeverEnd();
    void onceIsBusyAtOnce();
    void onceDoesNotWaitForAServerThatIsAway();
    void onceGivesUpOnASilentServer();
    void onceWhileOthersWaitPollsAtOnce();
    void onlyConfiguredRetriesCount();
    void aUsableServerEndsTheError();
    void eachCauseIsReported_data();
    void eachCauseIsReported();
    void maximumRetries();
    void acquiresShareAnAttempt();
    void acquiresExpireOneByOne();
    void passingErrorsAreRetriedWithBackOff();
    void permanentErrorEndsTheAcquire();
    void accessErrorKeepsAWaiter();
    void cancelBeforeTheAnswerAbandons();
    void cancelBetweenPollsAbandonsNothing();
    void cancelAfterAnUnknownOutcomeAbandons();
    void unsentRetryDoesNotHideAnUnknownOutcome();
    void cancelTouchesNoHold();
    void cancelOfOneLeavesTheOthers();
    void lateGrantIsGivenBack();
    void grantAtTheLastMoment();
    void leaseTooShortToBeHeld();
    void grantAfterTheWaitIsNothing();
};

void tst_LeaseMachine::beginsUnlocked()
{
    Bench bench(false);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    QVERIFY(!bench.machine.isHeld(bench.now));
    QVERIFY(!bench.machine.isAtRisk());
    QCOMPARE(bench.machine.holdCount(), 0);
    QCOMPARE(bench.machine.fencingToken(), 0);
    QCOMPARE(bench.machine.queuePosition(), -1);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
    bench.machine.cancel(bench.now);
    bench.pass(24h);
    bench.engineFailed(passing());
    bench.engineReady();
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::safetyMargin_data()
{
    QTest::addColumn<qint64>("lease");
    QTest::addColumn<qint64>("margin");
    QTest::newRow("1 ms") << 1'000'000LL << 2'010'000LL;
    QTest::newRow("300 ms") << 300'000'000LL << 5'000'000LL;
    QTest::newRow("30 s") << 30'000'000'000LL << 302'000'000LL;
    QTest::newRow("24 h") << 86'400'000'000'000LL << 864'002'000'000LL;
}

void tst_LeaseMachine::safetyMargin()
{
    QFETCH(qint64, lease);
    QFETCH(qint64, margin);
    QCOMPARE(LeaseMachine::safetyMargin(nanoseconds(lease)).count(), margin);
}

void tst_LeaseMachine::renewalBeat_data()
{
    QTest::addColumn<int>("lease");
    QTest::addColumn<int>("beat");
    QTest::newRow("1 ms") << 1 << 1;
    QTest::newRow("23 ms") << 23 << 1;
    QTest::newRow("24 ms") << 24 << 2;
    QTest::newRow("300 ms") << 300 << 16;
    QTest::newRow("30 s") << 30000 << 2048;
}

void tst_LeaseMachine::renewalBeat()
{
    QFETCH(int, lease);
    QFETCH(int, beat);
    QCOMPARE(LeaseMachine::renewalBeat(milliseconds(lease)), nanoseconds(milliseconds(beat)));
}

// With more than half of it left to a holder that got its reply at once.
void tst_LeaseMachine::shortestLease()
{
    Bench bench;
    bench.options.lease = LockOptions::MinimumLease;
    QCOMPARE(bench.options.validationError(), QString());
    bench.hold();
    QVERIFY(bench.machine.isHeld(bench.now));
    QVERIFY(bench.machine.isHeld(bench.now + LockOptions::MinimumLease / 2));
    bench.pass(3ms);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    QVERIFY(bench.machine.isHeld(bench.now + LockOptions::MinimumLease / 2));
}

void tst_LeaseMachine::acquireIsGranted()
{
    Bench bench;
    bench.acquire();
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 10s); // its wait
    bench.pass(20ms);
    bench.machine.acquireReplied(granted(42), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Held);
    QVERIFY(bench.machine.isHeld(bench.now));
    QCOMPARE(bench.machine.holdCount(), 1);
    QCOMPARE(bench.machine.fencingToken(), 42);
}

void tst_LeaseMachine::acquireWaitsForTheEngine()
{
    Bench bench(false);
    bench.acquire();
    bench.pass(1s);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.engineFailed(passing()); // the same outage
    COMPARE_NO_ACTIONS(bench);
    bench.engineReady();
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
    bench.engineReady(); // one in flight
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::acquirePollsAgain()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    for (int i = 0; i < 50; ++i) {
        bench.machine.acquireReplied(taken(), bench.now);
        const nanoseconds pause = bench.machine.nextWakeUp() - bench.now;
        QVERIFY2(pause >= 75ms && pause <= 125ms, qPrintable(QString::number(pause.count())));
        bench.pass(pause - 1ns);
        COMPARE_NO_ACTIONS(bench);
        bench.pass(1ns);
        COMPARE_ACTIONS(bench, u"Acquire"_s);
    }
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
}

void tst_LeaseMachine::pollsAgainWhenTheHoldersLeaseEnds()
{
    Bench bench;
    bench.options.retryInterval = 5s;
    bench.acquire();
    bench.machine.acquireReplied(taken(200ms), bench.now);
    const nanoseconds pause = bench.machine.nextWakeUp() - bench.now;
    QVERIFY(pause > 200ms);
    QVERIFY(pause <= 200ms + 1s + 1ms);
}

void tst_LeaseMachine::acquireTimesOut()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.acquire();
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.pass(1s);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 TimeoutError"_s);
    QCOMPARE(bench.outcome(Outcome::AcquireFailed).error.rule, EngineError::WaitIsOver);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

void tst_LeaseMachine::acquireTimesOutWithoutAnAnswer()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.acquire();
    bench.actions();
    bench.pass(1s);
    // It may have it by now.
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ConnectionError"_s, u"Abandon"_s);
}

void tst_LeaseMachine::acquireTimesOutWithTheLastError()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.acquire();
    EngineError error = EngineError::passing(DistributedLock::ServerError, u"LOADING"_s);
    bench.machine.acquireReplied(failed(error), bench.now);
    bench.actions();
    bench.engineFailed(error);
    bench.pass(1s);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ServerError"_s);
}

void tst_LeaseMachine::endlessWaitsNeverEnd_data()
{
    QTest::addColumn<qint64>("wait");
    QTest::newRow("for ever") << qint64(LockOptions::Forever.count());
    QTest::newRow("nearly for ever") << qint64(LockOptions::Forever.count()) - 1;
    QTest::newRow("longer than nanoseconds can count") << qint64(10'000'000'000'000);
    QTest::newRow("just what nanoseconds can count") << qint64(9'223'372'036'854);
}

void tst_LeaseMachine::endlessWaitsNeverEnd()
{
    QFETCH(qint64, wait);
    Bench bench;
    bench.options.wait = milliseconds(wait);
    bench.acquire();
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime); // only the reply is awaited
    bench.pass(24h * 365 * 100);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::onceIsBusyAtOnce()
{
    Bench bench;
    bench.acquire(1, true);
    bench.actions();
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 BusyError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::onceDoesNotWaitForAServerThatIsAway()
{
    Bench bench(false);
    bench.acquire(1, true);
    bench.acquire(2, false);
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ConnectionError"_s, u"ErrorOccurred ConnectionError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
}

void tst_LeaseMachine::onceGivesUpOnASilentServer()
{
    Bench bench;
    bench.acquire(1, true);
    bench.actions();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ConnectionError"_s, u"Abandon"_s);
}

void tst_LeaseMachine::onceWhileOthersWaitPollsAtOnce()
{
    Bench bench;
    bench.acquire(1);
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.pass(10ms);
    bench.acquire(2, true);
    COMPARE_ACTIONS(bench, u"Acquire"_s);
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 2 BusyError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
}

void tst_LeaseMachine::onlyConfiguredRetriesCount()
{
    // Whatever else the machine polls for is no retry: messages, an engine that comes back, its own doubts.
    Bench bench;
    bench.setWakeable(true);
    bench.options.maxRetries = 1;
    bench.options.retryInterval = 1s;
    bench.acquire();
    const LeaseTime begin = bench.now;
    for (int i = 0; i < 5; ++i) {
        bench.machine.acquireReplied(queued(0), bench.now);
        bench.machine.grantNoticed(bench.now);
        bench.machine.acquireReplied(queued(0, 1ms), bench.now);
        bench.passToWakeUp();
    }
    QVERIFY(bench.now < begin + 750ms);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.passToWakeUp();
    QVERIFY(bench.now >= begin + 750ms);
    QVERIFY(bench.now <= begin + 1250ms);
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s);
    bench.machine.acquireReplied(queued(0), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 BusyError"_s, u"Abandon"_s);
}

void tst_LeaseMachine::aUsableServerEndsTheError()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.engineFailed(passing());
    bench.machine.acquireReplied(failed(passing()), bench.now); // what was in flight
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.engineReady();
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorCleared"_s, u"Acquire"_s);
    bench.engineFailed(passing()); // another outage
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
}

void tst_LeaseMachine::eachCauseIsReported_data()
{
    QTest::addColumn<int>("phase");
    QTest::newRow("waiting") << int(LeaseMachine::Acquiring);
    QTest::newRow("held") << int(LeaseMachine::Held);
    QTest::newRow("releasing") << int(LeaseMachine::Releasing);
}

void tst_LeaseMachine::eachCauseIsReported()
{
    QFETCH(int, phase);
    Bench bench;
    bench.options.wait = 1h;
    bench.acquire();
    bench.machine.acquireReplied(phase == LeaseMachine::Acquiring ? queued(0) : granted(), bench.now);
    if (phase == LeaseMachine::Releasing)
        bench.machine.release(2, bench.now);
    bench.actions();
    QCOMPARE(int(bench.machine.phase()), phase);
    for (const auto cause : {DistributedLock::ConnectionError, DistributedLock::AuthenticationError,
                             DistributedLock::ReplicationError, DistributedLock::ConnectionError}) {
        for (int attempt = 0; attempt < 3; ++attempt) {
            bench.engineFailed(EngineError::passing(cause, u"it cannot be used"_s));
            if (attempt == 0)
                COMPARE_ACTIONS(bench, u"ErrorOccurred "_s + enumKey(cause));
            else
                COMPARE_NO_ACTIONS(bench);
        }
    }
    // The same code with another text is reported, too: the user may have to do something else.
    bench.engineFailed(EngineError::passing(DistributedLock::ConnectionError, u"another address"_s));
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.engineFailed(EngineError::passing(DistributedLock::ConnectionError, u"another address"_s));
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::maximumRetries()
{
    Bench bench;
    bench.options.maxRetries = 2;
    bench.acquire();
    bench.actions();
    for (int i = 0; i < 2; ++i) {
        bench.machine.acquireReplied(taken(), bench.now);
        bench.passToWakeUp();
        COMPARE_ACTIONS(bench, u"Acquire"_s);
    }
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 BusyError"_s);
    QCOMPARE(bench.outcome(Outcome::AcquireFailed).error.rule, EngineError::RetriesUsed);

    bench.options.maxRetries = 0;
    bench.acquire(2);
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 2 BusyError"_s, u"Acquire fresh"_s);
}

void tst_LeaseMachine::acquiresShareAnAttempt()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.acquire(3, true);
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s, u"Acquired 2"_s, u"Acquired 3"_s);
    QCOMPARE(bench.machine.holdCount(), 3);
}

void tst_LeaseMachine::acquiresExpireOneByOne()
{
    Bench bench;
    bench.options.wait = 2s;
    bench.acquire(1);
    bench.options.wait = 1s;
    bench.acquire(2);
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.pass(1s);
    COMPARE_ACTIONS(bench, u"AcquireFailed 2 TimeoutError"_s, u"Acquire"_s);
    bench.pass(1s);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 TimeoutError"_s, u"Abandon"_s);
}

void tst_LeaseMachine::passingErrorsAreRetriedWithBackOff()
{
    Bench bench;
    bench.options.wait = LockOptions::Forever;
    bench.acquire();
    bench.actions();
    nanoseconds greatest{0};
    for (int i = 0; i < 20; ++i) {
        bench.machine.acquireReplied(failed(passing()), bench.now);
        const nanoseconds pause = bench.machine.nextWakeUp() - bench.now;
        QVERIFY(pause >= 7500us);
        QVERIFY(pause <= 1250ms);
        greatest = std::max(greatest, pause);
        if (i == 0)
            QVERIFY(pause <= 12500us);
        bench.passToWakeUp();
        if (i == 0)
            COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s, u"Acquire"_s);
        else
            COMPARE_ACTIONS(bench, u"Acquire"_s);
    }
    QVERIFY(greatest >= 750ms);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
}

void tst_LeaseMachine::permanentErrorEndsTheAcquire()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.actions();
    bench.machine.acquireReplied(failed(permanent()), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 PermissionError"_s, u"AcquireFailed 2 PermissionError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);

    bench.acquire(3);
    bench.actions();
    bench.engineFailed(permanent());
    COMPARE_ACTIONS(bench, u"AcquireFailed 3 PermissionError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

// A waiter that was logged in, or in the queue, before outlasts a wrong password or a missing right. Any other
// permanent error ends its wait.
void tst_LeaseMachine::accessErrorKeepsAWaiter()
{
    Bench bench;
    bench.acquire(1);
    bench.actions();
    bench.machine.acquireReplied(taken(), bench.now);
    EngineError wrongPassword = permanent();
    wrongPassword.code = DistributedLock::AuthenticationError;
    bench.machine.engineFailed(wrongPassword, bench.now);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.machine.engineReady(bench.now);
    bench.actions();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.now = bench.machine.nextWakeUp();
    bench.machine.tick(bench.now);
    bench.actions();
    bench.machine.acquireReplied(failed(permanent()), bench.now);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QVERIFY(bench.machine.nextWakeUp() > bench.now); // it backs off
    COMPARE_ACTIONS(bench, u"ErrorOccurred PermissionError"_s);

    bench.now = bench.machine.nextWakeUp();
    bench.machine.tick(bench.now);
    bench.actions();
    EngineError foreignType = permanent();
    foreignType.code = DistributedLock::ForeignTypeError;
    bench.machine.acquireReplied(failed(foreignType), bench.now);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);

    // The right to join the queue may never have been there.
    bench.acquire(2);
    bench.actions();
    bench.machine.acquireReplied(taken(), bench.now);
    bench.now = bench.machine.nextWakeUp();
    bench.machine.tick(bench.now);
    bench.machine.acquireReplied(failed(permanent()), bench.now);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);

    // The next acquire begins without an answer.
    bench.acquire(3);
    bench.actions();
    bench.machine.engineFailed(wrongPassword, bench.now);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::cancelBeforeTheAnswerAbandons()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.actions();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s, u"AcquireFailed 2 CancelledError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    bench.acquire(3);
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
}

void tst_LeaseMachine::cancelBetweenPollsAbandonsNothing()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s);
}

void tst_LeaseMachine::cancelAfterAnUnknownOutcomeAbandons()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(failed(passing(true)), bench.now);
    bench.actions();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s, u"Abandon"_s);
}

void tst_LeaseMachine::unsentRetryDoesNotHideAnUnknownOutcome()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(failed(passing(true)), bench.now); // the server may have run this
    bench.passToWakeUp();
    bench.machine.acquireReplied(failed(passing(false)), bench.now); // and never got this
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s, u"Acquire fresh"_s, u"Acquire"_s);
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s, u"Abandon"_s);
}

void tst_LeaseMachine::cancelTouchesNoHold()
{
    Bench bench;
    bench.hold();
    bench.machine.cancel(bench.now);
    COMPARE_NO_ACTIONS(bench);
    QVERIFY(bench.machine.isHeld(bench.now));
}

void tst_LeaseMachine::cancelOfOneLeavesTheOthers()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.actions();
    QVERIFY(bench.machine.cancel(1, bench.now));
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QVERIFY(!bench.machine.cancel(1, bench.now)); // it is not under way any more
    COMPARE_NO_ACTIONS(bench);
    QVERIFY(bench.machine.cancel(2, bench.now));
    COMPARE_ACTIONS(bench, u"AcquireFailed 2 CancelledError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);

    bench.hold();
    QVERIFY(!bench.machine.cancel(1, bench.now));
    COMPARE_NO_ACTIONS(bench);
    QVERIFY(bench.machine.isHeld(bench.now));
}

void tst_LeaseMachine::lateGrantIsGivenBack()
{
    Bench bench;
    bench.options.lease = 1s;
    bench.acquire();
    bench.actions();
    bench.pass(1s - LeaseMachine::safetyMargin(1s));
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QVERIFY(!bench.machine.isHeld(bench.now));
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
}

void tst_LeaseMachine::grantAtTheLastMoment()
{
    Bench bench;
    bench.options.lease = 1s;
    bench.acquire();
    bench.actions();
    bench.pass(1s - LeaseMachine::safetyMargin(1s) - 1ms - 1ns);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    QVERIFY(bench.machine.isHeld(bench.now));
    bench.passToWakeUp();
    bench.actions();
    bench.passToWakeUp();
    QVERIFY(bench.actions().contains(u"Lost LeaseExpired"_s));
}

void tst_LeaseMachine::leaseTooShortToBeHeld()
{
    Bench bench;
    bench.options.lease = 2ms;
    bench.options.wait = 100ms;
    bench.acquire();
    bench.actions();
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Abandon"_s);
    bench.pass(100ms);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ConnectionError"_s);
    QCOMPARE(bench.outcome(Outcome::AcquireFailed).error.rule, EngineError::LateReply);
}

void tst_LeaseMachine::grantAfterTheWaitIsNothing()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.acquire();
    bench.actions();
    bench.now += 1s;
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ConnectionError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

QTEST_APPLESS_MAIN(tst_LeaseMachine)
#include "tst_leasemachine.moc"
