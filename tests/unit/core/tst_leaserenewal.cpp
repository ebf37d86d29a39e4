// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// LeaseMachine: renewal, loss, forced release, and the end of the engine.

#include "leasebench.h"
#include "support/rows.h"

class tst_LeaseRenewal : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void engineEndsTheLeaseEarlier();
    void renewsAtAThird();
    void deadlineCountsFromTheSend();
    void renewalsDoNotOverlap();
    void renewalFindsTheKeyGone_data();
    void renewalFindsTheKeyGone();
    void renewalIsRetriedWithBackOff();
    void forbiddenRenewalIsNotAStorm();
    void atRiskAtTwoThirds();
    void renewalEndsTheRisk();
    void lostAtTheDeadline();
    void renewalAfterTheDeadlineChangesNothing();
    void suspendedPastTheDeadline();
    void engineAwayWhileHeld();
    void engineBackRenewsAtOnce();
    void autoRenewOff();
    void autoRenewOnAgain();
    void autoRenewSwitchedOffInFlight();

    void forcedRelease();
    void forgedForcedReleaseChangesNothing();
    void forcedReleaseWhileARenewalIsInFlight();
    void forcedReleaseWithoutAutoRenew();
    void forcedReleaseIsAskedForUntilAnswered();
    void autoRenewOnAfterAForgedNotice();
    void forcedReleaseInOtherPhases();

    void replacedServerIsAskedAtOnce();
    void serverReplacedWhileARenewalIsInFlight();
    void serverReplacedWhileAnAcquireIsInFlight();
    void serverReplacedWithoutAutoRenew();
    void replacedServerIsAskedUntilItReplies();

    void detachWhileAcquiring();
    void detachWhileHeld();
    void detachWhileReleasing();
};

void tst_LeaseRenewal::engineEndsTheLeaseEarlier()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    const LeaseTime sentAt = bench.now;
    EngineReply reply = granted();
    reply.validUntil = sentAt + 6s;
    bench.machine.acquireReplied(reply, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
    QCOMPARE(bench.machine.deadline(), sentAt + 6s);
    const LeaseTime due = bench.machine.nextWakeUp();
    QVERIFY(due <= sentAt + 2s); // in proportion

    bench.pass(due - bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    reply = answer(EngineReply::Done);
    reply.validUntil = bench.now + 1h; // the lease itself ends before
    bench.machine.renewReplied(reply, bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    QCOMPARE(bench.machine.deadline(), due + 29698ms);
}

void tst_LeaseRenewal::renewsAtAThird()
{
    Bench bench;
    bench.hold();
    const LeaseTime sentAt = bench.now;
    const LeaseTime due = bench.machine.nextWakeUp();
    QVERIFY(due <= sentAt + 10s);
    QVERIFY(due > sentAt + 10s - LeaseMachine::renewalBeat(30s));
    QCOMPARE(due.time_since_epoch() % LeaseMachine::renewalBeat(30s), 0ns);
    bench.pass(due - bench.now - 1ns);
    COMPARE_NO_ACTIONS(bench);
    bench.pass(1ns);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    QCOMPARE(bench.command(Command::Renew).duration, nanoseconds(30s));
    bench.pass(50ms);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    QVERIFY(bench.machine.nextWakeUp() > bench.now);
    QVERIFY(bench.machine.nextWakeUp() <= due + 10s);
}

void tst_LeaseRenewal::deadlineCountsFromTheSend()
{
    Bench bench;
    bench.acquire();
    const LeaseTime acquireSent = bench.now;
    bench.pass(3s);
    bench.machine.acquireReplied(granted(), bench.now);
    QCOMPARE(bench.machine.deadline(), acquireSent + 29698ms);
    bench.passToWakeUp();
    const LeaseTime renewSent = bench.now;
    bench.actions();
    bench.pass(2s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    QCOMPARE(bench.machine.deadline(), renewSent + 29698ms);
}

void tst_LeaseRenewal::renewalsDoNotOverlap()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.pass(5s);
    bench.engineReady();
    bench.machine.setAutoRenew(true);
    bench.pass(1s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseRenewal::renewalFindsTheKeyGone_data()
{
    Support::addColumns<int, QString>("status", "lost");
    QTest::newRow("gone") << int(EngineReply::Gone) << u"Lost Deleted"_s;
    QTest::newRow("stolen") << int(EngineReply::Stolen) << u"Lost Stolen"_s;
}

void tst_LeaseRenewal::renewalFindsTheKeyGone()
{
    QFETCH(int, status);
    QFETCH(QString, lost);
    Bench bench;
    bench.hold();
    bench.acquire(2);
    bench.passToWakeUp();
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Status(status)), bench.now);
    COMPARE_ACTIONS(bench, lost); // both levels; nothing of ours is left there
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    QCOMPARE(bench.machine.holdCount(), 0);
}

void tst_LeaseRenewal::renewalIsRetriedWithBackOff()
{
    Bench bench;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.passToWakeUp();
    bench.actions();
    bench.machine.renewReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    int attempts = 0;
    bool atRisk = false;
    while (bench.machine.phase() == LeaseMachine::Held) {
        QVERIFY(bench.machine.nextWakeUp() > bench.now);
        bench.passToWakeUp();
        const QStringList actions = bench.actions();
        QVERIFY(!actions.contains(u"ErrorOccurred ConnectionError"_s)); // reported once
        atRisk |= actions.contains(u"AtRisk"_s);
        if (actions.contains(u"Renew"_s)) {
            ++attempts;
            bench.machine.renewReplied(failed(passing()), bench.now);
        }
    }
    QCOMPARE(bench.now, deadline - 1ms);
    QVERIFY(atRisk);
    QVERIFY2(attempts > 10 && attempts < 40, qPrintable(QString::number(attempts)));
}

void tst_LeaseRenewal::forbiddenRenewalIsNotAStorm()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    bench.actions();
    bench.machine.renewReplied(failed(permanent()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred PermissionError"_s);
    QCOMPARE(bench.machine.nextWakeUp(), std::min(bench.now + 5s, LeaseTime(1h + 20s)));
}

void tst_LeaseRenewal::atRiskAtTwoThirds()
{
    Bench bench;
    bench.hold();
    const LeaseTime sentAt = bench.now;
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    QVERIFY(!bench.machine.isAtRisk());
    bench.passToWakeUp();
    QCOMPARE(bench.now, sentAt + 20s);
    COMPARE_ACTIONS(bench, u"AtRisk"_s);
    QCOMPARE(bench.outcome(Outcome::AtRisk).duration, nanoseconds(9698ms));
    QVERIFY(bench.machine.isAtRisk());
    QVERIFY(bench.machine.isHeld(bench.now));
    bench.pass(1s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseRenewal::renewalEndsTheRisk()
{
    Bench bench;
    bench.hold();
    bench.pass(21s);
    COMPARE_ACTIONS(bench, u"AtRisk"_s, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    QVERIFY(!bench.machine.isAtRisk());
    // A reply so late that it is at risk again: risk counts from the send as well.
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.pass(15s);
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s, u"Renew"_s);
}

void tst_LeaseRenewal::lostAtTheDeadline()
{
    Bench bench;
    bench.hold();
    bench.acquire(2);
    bench.passToWakeUp();
    bench.passToWakeUp();
    bench.actions();
    const LeaseTime deadline = bench.machine.deadline();
    QVERIFY(bench.machine.isHeld(deadline - 1ns));
    QVERIFY(!bench.machine.isHeld(deadline));
    bench.passToWakeUp();
    QVERIFY(bench.now <= deadline);
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
    QCOMPARE(bench.outcome(Outcome::Lost).duration, 0ns);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseRenewal::renewalAfterTheDeadlineChangesNothing()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    bench.actions();
    bench.now = bench.machine.deadline() + 5s;
    QVERIFY(!bench.machine.isHeld(bench.now));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
    QCOMPARE(bench.outcome(Outcome::Lost).duration, nanoseconds(5s));
    QVERIFY(!bench.machine.isHeld(bench.now));
}

void tst_LeaseRenewal::suspendedPastTheDeadline()
{
    Bench bench;
    bench.hold();
    bench.now += 8h;
    QVERIFY(!bench.machine.isHeld(bench.now));
    bench.acquire(2); // not a re-entry
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s, u"Acquire fresh"_s);
    bench.machine.acquireReplied(granted(), bench.now);
    bench.actions();
    bench.now += 8h;
    bench.machine.release(3, bench.now);
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"ReleaseDone 3 false"_s, u"Abandon"_s);
    bench.hold();
    bench.now += 8h;
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
    bench.hold();
    bench.now += 8h;
    bench.engineReady();
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
    bench.hold();
    bench.now += 8h;
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
}

void tst_LeaseRenewal::engineAwayWhileHeld()
{
    Bench bench;
    bench.hold();
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.engineFailed(passing());
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 20s); // at risk; no renewal without an engine
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"AtRisk"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
}

void tst_LeaseRenewal::engineBackRenewsAtOnce()
{
    Bench bench;
    bench.hold();
    bench.engineFailed(passing());
    bench.pass(1s);
    bench.actions();
    bench.engineReady();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    // A second outage is reported again.
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
}

void tst_LeaseRenewal::autoRenewOff()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 20s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"AtRisk"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
}

void tst_LeaseRenewal::autoRenewOnAgain()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    bench.pass(15s);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.setAutoRenew(true);
    bench.machine.tick(bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    bench.machine.setAutoRenew(false);
    bench.pass(15s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseRenewal::autoRenewSwitchedOffInFlight()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    bench.actions();
    const LeaseTime renewSent = bench.now;
    bench.machine.setAutoRenew(false);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s); // it was renewed, that is a fact
    QCOMPARE(bench.machine.deadline(), renewSent + 29698ms);
    bench.pass(15s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseRenewal::forcedRelease()
{
    Bench bench;
    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost ForcedRelease"_s);

    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Stolen), bench.now); // somebody has it already
    COMPARE_ACTIONS(bench, u"Lost ForcedRelease"_s);
}

void tst_LeaseRenewal::forgedForcedReleaseChangesNothing()
{
    Bench bench;
    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s, u"Renew"_s);
    QVERIFY(bench.machine.isHeld(bench.now));
    // What happens later has its own reason.
    bench.passToWakeUp();
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost Deleted"_s);
}

void tst_LeaseRenewal::forcedReleaseWhileARenewalIsInFlight()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_NO_ACTIONS(bench);                                        // no second one
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now); // was before the forced release
    COMPARE_ACTIONS(bench, u"Renewed"_s, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost ForcedRelease"_s);
}

void tst_LeaseRenewal::forcedReleaseWithoutAutoRenew()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.pass(5s);
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    QCOMPARE(bench.command(Command::Renew).duration, nanoseconds(25s)); // not longer than it was
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_NO_ACTIONS(bench); // nothing was renewed
    QCOMPARE(bench.machine.deadline(), deadline);
    bench.pass(10s);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost ForcedRelease"_s);
}

void tst_LeaseRenewal::forcedReleaseIsAskedForUntilAnswered()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.actions();
    bench.machine.renewReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost ForcedRelease"_s);
}

void tst_LeaseRenewal::autoRenewOnAfterAForgedNotice()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    bench.pass(5s);
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    bench.actions();
    bench.machine.setAutoRenew(true);
    bench.pass(10s);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
}

void tst_LeaseRenewal::forcedReleaseInOtherPhases()
{
    Bench bench;
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.acquire();
    bench.actions();
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.acquireReplied(granted(), bench.now);
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
}

void tst_LeaseRenewal::replacedServerIsAskedAtOnce()
{
    Bench bench;
    bench.machine.serverReplaced(bench.now);
    COMPARE_NO_ACTIONS(bench); // nothing is held
    bench.hold();
    bench.machine.serverReplaced(bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    bench.machine.serverReplaced(bench.now);
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now); // the new one never had it
    COMPARE_ACTIONS(bench, u"Lost Deleted"_s);
}

void tst_LeaseRenewal::serverReplacedWhileARenewalIsInFlight()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.serverReplaced(bench.now);
    COMPARE_NO_ACTIONS(bench);                                        // no second one
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now); // perhaps of the former server
    COMPARE_ACTIONS(bench, u"Renewed"_s, u"Renew"_s);
}

void tst_LeaseRenewal::serverReplacedWhileAnAcquireIsInFlight()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.machine.serverReplaced(bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.acquireReplied(granted(), bench.now); // perhaps of the former server
    COMPARE_ACTIONS(bench, u"Acquired 1"_s, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost Deleted"_s);
    // An attempt that is sent later goes to the new server.
    bench.acquire();
    bench.actions();
    bench.machine.serverReplaced(bench.now);
    bench.machine.acquireReplied(taken(), bench.now);
    bench.passToWakeUp();
    bench.actions();
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
}

void tst_LeaseRenewal::serverReplacedWithoutAutoRenew()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.pass(5s);
    bench.machine.serverReplaced(bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    QCOMPARE(bench.command(Command::Renew).duration, nanoseconds(25s)); // not longer than it was
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.deadline(), deadline);
}

void tst_LeaseRenewal::replacedServerIsAskedUntilItReplies()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    bench.machine.serverReplaced(bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ConnectionError"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, u"Lost Deleted"_s);
}

void tst_LeaseRenewal::detachWhileAcquiring()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.actions();
    bench.machine.detach(bench.now, QStringLiteral("its registry was destroyed"));
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ConnectionError"_s, u"AcquireFailed 2 ConnectionError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

void tst_LeaseRenewal::detachWhileHeld()
{
    Bench bench;
    bench.hold();
    bench.acquire(2);
    bench.actions();
    bench.machine.detach(bench.now, QStringLiteral("its registry was destroyed"));
    COMPARE_ACTIONS(bench, u"Lost ForcedRelease"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
    bench.machine.detach(bench.now, QStringLiteral("its registry was destroyed"));
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseRenewal::detachWhileReleasing()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.actions();
    bench.machine.detach(bench.now, QStringLiteral("its registry was destroyed"));
    COMPARE_ACTIONS(bench, u"AcquireFailed 3 ConnectionError"_s, u"Lost ForcedRelease"_s, u"ReleaseDone 2 false"_s,
                    u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

QTEST_APPLESS_MAIN(tst_LeaseRenewal)
#include "tst_leaserenewal.moc"
