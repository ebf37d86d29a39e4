// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks that replicas must have, too.

#include "leasebench.h"

namespace {

EngineError tooFewReplicas()
{
    return EngineError::passing(DistributedLock::ReplicationError, u"0 of 1 replicas have it"_s);
}

EngineReply unconfirmed(const EngineError &error = tooFewReplicas())
{
    EngineReply reply = failed(error);
    reply.status = EngineReply::Unconfirmed;
    return reply;
}

EngineError notConnected()
{
    return EngineError::permanent(DistributedLock::ReplicationError, u"minReplicas is 1"_s);
}

} // namespace

class tst_LeaseReplicas : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void unconfirmedAcquireIsGivenBackAndRetried();
    void unconfirmedAcquireOfOneAttempt();
    void unconfirmedAcquireWithoutTheRight();
    void unconfirmedAfterTheWait();
    void unconfirmedAfterACancel();
    void tooFewReplicasEndTheAcquire();
    void tooFewReplicasKeepAWaiter();
    void placeInTheQueueIsKept();
    void unconfirmedRenewalLeadsToTheLoss();
    void laterRenewalIsConfirmed();
};

void tst_LeaseReplicas::unconfirmedAcquireIsGivenBackAndRetried()
{
    Bench bench;
    bench.acquire();
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s);
    bench.machine.acquireReplied(unconfirmed(), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ReplicationError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QVERIFY(bench.machine.nextWakeUp() > bench.now); // it backs off

    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Acquire fresh"_s); // the cancel of the former token may be under way
    bench.machine.acquireReplied(unconfirmed(), bench.now);
    COMPARE_ACTIONS(bench, u"Abandon"_s); // the error is reported once
    bench.passToWakeUp();
    bench.actions();
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
}

void tst_LeaseReplicas::unconfirmedAcquireOfOneAttempt()
{
    Bench bench;
    bench.acquire(1, true);
    bench.acquire(2);
    bench.actions();
    bench.machine.acquireReplied(unconfirmed(), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ReplicationError"_s, u"ErrorOccurred ReplicationError"_s, u"Abandon"_s);
    bench.passToWakeUp();
    bench.actions();
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 2"_s);
}

// The user may not use WAIT.
void tst_LeaseReplicas::unconfirmedAcquireWithoutTheRight()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.machine.acquireReplied(unconfirmed(permanent()), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 PermissionError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseReplicas::unconfirmedAfterTheWait()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.acquire();
    bench.actions();
    bench.machine.acquireReplied(unconfirmed(), bench.now);
    bench.actions();
    bench.pass(1s);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ReplicationError"_s); // the reason, and not "timed out"
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

void tst_LeaseReplicas::unconfirmedAfterACancel()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    const quint64 epoch = bench.machine.epoch();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 CancelledError"_s, u"Abandon"_s);
    QVERIFY(bench.machine.epoch() != epoch); // so the late reply is not passed on
}

void tst_LeaseReplicas::tooFewReplicasEndTheAcquire()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.machine.acquireReplied(failed(notConnected()), bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 1 ReplicationError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

// There were enough when it began to wait: a replica restarts.
void tst_LeaseReplicas::tooFewReplicasKeepAWaiter()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.actions();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.machine.grantNoticed(bench.now);
    bench.actions();
    bench.machine.acquireReplied(failed(notConnected()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ReplicationError"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Acquire enqueue"_s); // the same token: it may be in the queue
}

void tst_LeaseReplicas::placeInTheQueueIsKept()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.machine.grantNoticed(bench.now);
    bench.machine.acquireReplied(unconfirmed(), bench.now);
    QCOMPARE(bench.machine.arrival(), QByteArray("1000"));
}

void tst_LeaseReplicas::unconfirmedRenewalLeadsToTheLoss()
{
    Bench bench;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    QStringList actions;
    int renewals = 0;
    while (bench.machine.phase() == LeaseMachine::Held) {
        bench.passToWakeUp();
        const QStringList now = bench.actions();
        actions += now;
        if (now.contains(u"Renew"_s)) {
            ++renewals;
            bench.machine.renewReplied(failed(tooFewReplicas()), bench.now);
            actions += bench.actions();
        }
    }
    actions.removeAll(u"Renew"_s);
    QCOMPARE(actions,
             (QStringList{u"ErrorOccurred ReplicationError"_s, u"AtRisk"_s, u"Lost LeaseExpired"_s, u"Abandon"_s}));
    QVERIFY(bench.now <= deadline);
    QVERIFY2(renewals >= 3 && renewals < 100, qPrintable(QString::number(renewals)));
    QCOMPARE(bench.outcome(Outcome::Lost).error.code, DistributedLock::ReplicationError);
}

void tst_LeaseReplicas::laterRenewalIsConfirmed()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    bench.machine.renewReplied(failed(tooFewReplicas()), bench.now);
    COMPARE_ACTIONS(bench, u"ErrorOccurred ReplicationError"_s, u"Renew"_s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    const LeaseTime sentAt = bench.now;
    bench.now += 1s; // WAIT
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, u"Renewed"_s);
    QCOMPARE(bench.machine.deadline(), sentAt + bench.options.lease - LeaseMachine::safetyMargin(bench.options.lease));
}

QTEST_APPLESS_MAIN(tst_LeaseReplicas)
#include "tst_leasereplicas.moc"
