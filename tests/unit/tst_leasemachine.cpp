// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "core/leasemachine.h"

#include <QtCore/qhash.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qset.h>
#include <QtTest/qtest.h>

#include <array>
#include <deque>
#include <optional>
#include <random>

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

using Action = LeaseMachine::Action;

namespace {

template<typename Enum>
QString key(Enum value)
{
    return QString::fromLatin1(QMetaEnum::fromType<Enum>().valueToKey(value));
}

QString toText(const Action &action)
{
    const QString id = QString::number(action.id);
    switch (action.kind) {
    case Action::SendAcquire:
        return QStringLiteral("SendAcquire") + (action.fresh ? QStringLiteral(" fresh") : QString())
                + (action.enqueue ? QStringLiteral(" enqueue") : QString());
    case Action::SendRenew:
        return QStringLiteral("SendRenew");
    case Action::SendRelease:
        return QStringLiteral("SendRelease");
    case Action::Abandon:
        return QStringLiteral("Abandon");
    case Action::Acquired:
        return QStringLiteral("Acquired ") + id;
    case Action::AcquireFailed:
        return QStringLiteral("AcquireFailed %1 %2").arg(id, key(action.error.code));
    case Action::ReleaseDone:
        return QStringLiteral("ReleaseDone %1 %2").arg(id, action.success ? QStringLiteral("true") : QStringLiteral("false"));
    case Action::Released:
        return QStringLiteral("Released");
    case Action::Lost:
        return QStringLiteral("Lost ") + key(action.reason);
    case Action::Renewed:
        return QStringLiteral("Renewed");
    case Action::AtRisk:
        return QStringLiteral("AtRisk");
    case Action::ErrorOccurred:
        return QStringLiteral("ErrorOccurred ") + key(action.error.code);
    case Action::ErrorCleared:
        return QStringLiteral("ErrorCleared");
    }
    return {};
}

EngineReply granted(qint64 fencingToken = 7)
{
    EngineReply reply;
    reply.status = EngineReply::Granted;
    reply.fencingToken = fencingToken;
    return reply;
}

EngineReply taken(milliseconds ttl = 10s)
{
    EngineReply reply;
    reply.status = EngineReply::Taken;
    reply.holderTtl = ttl;
    return reply;
}

/// Taken, and in the queue.
EngineReply queued(int position, milliseconds ttl = 30s, bool foreign = false)
{
    EngineReply reply = taken(ttl);
    reply.queuePosition = position;
    reply.arrival = "1000";
    reply.foreignHolder = foreign;
    return reply;
}

EngineReply answer(EngineReply::Status status)
{
    EngineReply reply;
    reply.status = status;
    return reply;
}

EngineError passing(bool maybeExecuted = false)
{
    return {DistributedLock::ConnectionError, QStringLiteral("gone"), false, maybeExecuted};
}

EngineError permanent()
{
    return {DistributedLock::PermissionError, QStringLiteral("forbidden"), true, false};
}

EngineReply failed(const EngineError &error)
{
    EngineReply reply;
    reply.error = error;
    return reply;
}

/// A machine and the time.
struct Bench : LeaseMachine::EngineStatus
{
    LeaseMachine machine{this};
    LeaseTime now = 1h;
    LockOptions options;
    QList<Action> last;
    bool ready;
    bool wakeable = false;

    explicit Bench(bool isReady = true)
        : ready(isReady)
    {
    }
    bool isEngineReady() const override { return ready; }
    bool canBeWoken() const override { return wakeable; }
    void engineReady()
    {
        ready = true;
        machine.engineReady(now);
    }
    void engineFailed(const EngineError &error)
    {
        ready = false;
        machine.engineFailed(error, now);
    }
    void setWakeable(bool isWakeable)
    {
        if (std::exchange(wakeable, isWakeable) != isWakeable)
            machine.wakeableChanged(now);
    }
    QStringList actions()
    {
        last = machine.takeActions();
        QStringList texts;
        for (const Action &action : std::as_const(last))
            texts.append(toText(action));
        return texts;
    }
    const Action &find(Action::Kind kind) const
    {
        const auto it = std::find_if(last.begin(), last.end(), [kind](const Action &a) { return a.kind == kind; });
        static const Action none;
        return it == last.end() ? none : *it;
    }
    void acquire(quint64 id = 1, bool once = false) { machine.acquire(id, once, options, now); }
    /// To the moment \a time after now, as a timer would, or as a suspended machine in one jump.
    void pass(nanoseconds time)
    {
        now += time;
        machine.tick(now);
    }
    /// To the next moment something is due.
    void passToWakeUp()
    {
        now = std::max(now, machine.nextWakeUp());
        machine.tick(now);
    }
    /// Held by request 1, sent and answered now.
    void hold()
    {
        acquire();
        machine.acquireReplied(granted(), now);
        actions();
    }
};

} // namespace

#define COMPARE_ACTIONS(bench, ...) QCOMPARE((bench).actions(), (QStringList{__VA_ARGS__}))
#define COMPARE_NO_ACTIONS(bench) QCOMPARE((bench).actions(), QStringList())
#define A(text) QStringLiteral(text)

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
    void acquireLooksAgain();
    void looksAgainWhenTheHoldersLeaseEnds();
    void acquireTimesOut();
    void acquireTimesOutWithoutAnAnswer();
    void acquireTimesOutWithTheLastError();
    void endlessWaitsNeverEnd_data();
    void endlessWaitsNeverEnd();
    void onceIsBusyAtOnce();
    void onceDoesNotWaitForAServerThatIsAway();
    void onceGivesUpOnASilentServer();
    void onceWhileOthersWaitLooksAtOnce();
    void onlyConfiguredRetriesCount();
    void aUsableServerEndsTheError();
    void maximumRetries();
    void acquiresShareAnAttempt();
    void acquiresExpireOneByOne();
    void passingErrorsAreRetriedWithBackOff();
    void permanentErrorEndsTheAcquire();
    void accessErrorKeepsAWaiter();
    void cancelBeforeTheAnswerAbandons();
    void cancelBetweenLooksAbandonsNothing();
    void cancelAfterAnUnknownOutcomeAbandons();
    void unsentRetryDoesNotHideAnUnknownOutcome();
    void cancelTouchesNoHold();
    void cancelOfOneLeavesTheOthers();
    void lateGrantIsGivenBack();
    void grantAtTheLastMoment();
    void leaseTooShortToBeHeld();
    void grantAfterTheWaitIsNothing();

    void joinsTheQueueIfItCanBeWoken();
    void wakeableWhileWaiting();
    void wakeableWhileAnAttemptIsInFlight();
    void queuePositionAndArrival();
    void waiterInTheQueueDoesNotPoll_data();
    void waiterInTheQueueDoesNotPoll();
    void leavesTheQueue();
    void grantIsClaimedAtOnce();
    void grantWhileAnAttemptIsInFlight();
    void nextLooksAfterTheClaim();
    void nextWhileAnAttemptIsInFlight();
    void handedOver();
    void handedOverTooLate();
    void handedOverWithAnotherLease();
    void handedOverWhileAnAttemptIsInFlight();
    void noticesInOtherPhases();

    void reentryCostsNothing();
    void releaseOfAnUnlockedLock();
    void releaseWhileAcquiringCancels();
    void releaseIsConfirmed();
    void releaseFindsTheKeyGone_data();
    void releaseFindsTheKeyGone();
    void releaseIsRepeated();
    void repeatedReleaseKnowsItsOwnWork_data();
    void repeatedReleaseKnowsItsOwnWork();
    void releaseWaitsForTheEngine();
    void releaseUnconfirmedUntilTheDeadline();
    void forbiddenReleaseIsNotRepeated();
    void releaseOvertakesARenewal();
    void minHoldIsKept();
    void acquireWhileReleasing();
    void acquireWhileReleasingHasNewOptions();
    void acquireWhileReleasingExpires();
    void acquireWhileReleasingFailsWithTheEngine();
    void releaseWhileReleasingEndsTheNextAcquire();
    void cancelWhileReleasing();

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

    void detachWhileAcquiring();
    void detachWhileHeld();
    void detachWhileReleasing();

    void model_data();
    void model();
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
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    QVERIFY(bench.machine.isHeld(bench.now + LockOptions::MinimumLease / 2));
}

void tst_LeaseMachine::acquireIsGranted()
{
    Bench bench;
    bench.acquire();
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 10s); // its wait
    bench.pass(20ms);
    bench.machine.acquireReplied(granted(42), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"));
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
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
    bench.engineFailed(passing()); // the same outage
    COMPARE_NO_ACTIONS(bench);
    bench.engineReady();
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
    bench.engineReady(); // one in flight
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::acquireLooksAgain()
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
        COMPARE_ACTIONS(bench, A("SendAcquire"));
    }
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"));
}

void tst_LeaseMachine::looksAgainWhenTheHoldersLeaseEnds()
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
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 TimeoutError"));
    QVERIFY(bench.find(Action::AcquireFailed).error.text.contains(A("1000 ms")));
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
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 ConnectionError"), A("Abandon"));
}

void tst_LeaseMachine::acquireTimesOutWithTheLastError()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.acquire();
    EngineError error{DistributedLock::ServerError, A("LOADING"), false, false};
    bench.machine.acquireReplied(failed(error), bench.now);
    bench.actions();
    bench.engineFailed(error);
    bench.pass(1s);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 ServerError"));
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
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime); // nothing but the answer
    bench.pass(24h * 365 * 100);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::onceIsBusyAtOnce()
{
    Bench bench;
    bench.acquire(1, true);
    bench.actions();
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 BusyError"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::onceDoesNotWaitForAServerThatIsAway()
{
    Bench bench(false);
    bench.acquire(1, true);
    bench.acquire(2, false);
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 ConnectionError"), A("ErrorOccurred ConnectionError"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
}

void tst_LeaseMachine::onceGivesUpOnASilentServer()
{
    Bench bench;
    bench.acquire(1, true);
    bench.actions();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 ConnectionError"), A("Abandon"));
}

void tst_LeaseMachine::onceWhileOthersWaitLooksAtOnce()
{
    Bench bench;
    bench.acquire(1);
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.pass(10ms);
    bench.acquire(2, true);
    COMPARE_ACTIONS(bench, A("SendAcquire"));
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 2 BusyError"));
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
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    bench.machine.acquireReplied(queued(0), bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 BusyError"), A("Abandon"));
}

void tst_LeaseMachine::aUsableServerEndsTheError()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.engineFailed(passing());
    bench.machine.acquireReplied(failed(passing()), bench.now); // what was in flight
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
    bench.engineReady();
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, A("SendAcquire"), A("ErrorCleared"));
    bench.engineFailed(passing()); // another outage
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
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
        COMPARE_ACTIONS(bench, A("SendAcquire"));
    }
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 BusyError"));
    QVERIFY(bench.find(Action::AcquireFailed).error.text.contains(A("2 retries")));

    bench.options.maxRetries = 0;
    bench.acquire(2);
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"), A("AcquireFailed 2 BusyError"));
}

void tst_LeaseMachine::acquiresShareAnAttempt()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.acquire(3, true);
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"), A("Acquired 2"), A("Acquired 3"));
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
    COMPARE_ACTIONS(bench, A("AcquireFailed 2 TimeoutError"), A("SendAcquire"));
    bench.pass(1s);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 TimeoutError"), A("Abandon"));
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
            COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"), A("SendAcquire"));
        else
            COMPARE_ACTIONS(bench, A("SendAcquire"));
    }
    QVERIFY(greatest >= 750ms);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"));
}

void tst_LeaseMachine::permanentErrorEndsTheAcquire()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.actions();
    bench.machine.acquireReplied(failed(permanent()), bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 PermissionError"), A("AcquireFailed 2 PermissionError"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);

    bench.acquire(3);
    bench.actions();
    bench.engineFailed(permanent());
    COMPARE_ACTIONS(bench, A("AcquireFailed 3 PermissionError"), A("Abandon"));
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

// The server has answered it before; another kind of permanent error ends it all the same.
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
    COMPARE_ACTIONS(bench, A("ErrorOccurred PermissionError"));

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
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 CancelledError"), A("AcquireFailed 2 CancelledError"), A("Abandon"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    bench.acquire(3);
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
}

void tst_LeaseMachine::cancelBetweenLooksAbandonsNothing()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 CancelledError"));
}

void tst_LeaseMachine::cancelAfterAnUnknownOutcomeAbandons()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(failed(passing(true)), bench.now);
    bench.actions();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 CancelledError"), A("Abandon"));
}

void tst_LeaseMachine::unsentRetryDoesNotHideAnUnknownOutcome()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(failed(passing(true)), bench.now); // the server may have run this
    bench.passToWakeUp();
    bench.machine.acquireReplied(failed(passing(false)), bench.now); // and never got this
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"), A("ErrorOccurred ConnectionError"), A("SendAcquire"));
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 CancelledError"), A("Abandon"));
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
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 CancelledError"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QVERIFY(!bench.machine.cancel(1, bench.now)); // it is not under way any more
    COMPARE_NO_ACTIONS(bench);
    QVERIFY(bench.machine.cancel(2, bench.now));
    COMPARE_ACTIONS(bench, A("AcquireFailed 2 CancelledError"), A("Abandon"));
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
    COMPARE_ACTIONS(bench, A("Abandon"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    QVERIFY(!bench.machine.isHeld(bench.now));
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"));
}

void tst_LeaseMachine::grantAtTheLastMoment()
{
    Bench bench;
    bench.options.lease = 1s;
    bench.acquire();
    bench.actions();
    bench.pass(1s - LeaseMachine::safetyMargin(1s) - 1ms - 1ns);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"));
    QVERIFY(bench.machine.isHeld(bench.now));
    bench.passToWakeUp();
    bench.actions();
    bench.passToWakeUp();
    QVERIFY(bench.actions().contains(A("Lost LeaseExpired")));
}

void tst_LeaseMachine::leaseTooShortToBeHeld()
{
    Bench bench;
    bench.options.lease = 2ms;
    bench.options.wait = 100ms;
    bench.acquire();
    bench.actions();
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Abandon"));
    bench.pass(100ms);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 ConnectionError"));
    QVERIFY(bench.find(Action::AcquireFailed).error.text.contains(A("lease of 2 ms")));
}

void tst_LeaseMachine::grantAfterTheWaitIsNothing()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.acquire();
    bench.actions();
    bench.now += 1s;
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 ConnectionError"), A("Abandon"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::joinsTheQueueIfItCanBeWoken()
{
    Bench bench;
    bench.acquire();
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
    bench.machine.cancel(bench.now);
    bench.actions();
    bench.setWakeable(true);
    COMPARE_NO_ACTIONS(bench);
    bench.acquire(2);
    COMPARE_ACTIONS(bench, A("SendAcquire fresh enqueue"));
    bench.machine.cancel(bench.now);
    bench.actions();
    bench.acquire(3, true); // it does not wait
    COMPARE_ACTIONS(bench, A("SendAcquire fresh"));
}

void tst_LeaseMachine::wakeableWhileWaiting()
{
    Bench bench;
    bench.acquire();
    bench.machine.acquireReplied(taken(), bench.now);
    bench.actions();
    bench.setWakeable(true);
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    bench.machine.acquireReplied(queued(3), bench.now);
    bench.setWakeable(true);
    COMPARE_NO_ACTIONS(bench);
    // Nobody would tell it any more: it polls.
    bench.setWakeable(false);
    QVERIFY(bench.machine.nextWakeUp() <= bench.now + 125ms);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendAcquire"));
    bench.machine.acquireReplied(taken(), bench.now);
    QCOMPARE(bench.machine.arrival(), QByteArray("1000")); // comes back to its place
    QVERIFY(bench.machine.nextWakeUp() <= bench.now + 125ms);
    bench.setWakeable(true);
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 CancelledError"), A("Abandon"));
}

void tst_LeaseMachine::wakeableWhileAnAttemptIsInFlight()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.setWakeable(true);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.acquireReplied(taken(), bench.now);
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
}

void tst_LeaseMachine::queuePositionAndArrival()
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

void tst_LeaseMachine::waiterInTheQueueDoesNotPoll_data()
{
    QTest::addColumn<int>("position");
    QTest::addColumn<int>("ttl");
    QTest::addColumn<bool>("foreign");
    QTest::addColumn<int>("least");
    QTest::addColumn<int>("most");
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

void tst_LeaseMachine::waiterInTheQueueDoesNotPoll()
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
        QVERIFY2(pause >= milliseconds(least) && pause <= milliseconds(most), qPrintable(QString::number(pause.count())));
        bench.passToWakeUp();
        COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    }
}

void tst_LeaseMachine::leavesTheQueue()
{
    Bench bench;
    bench.options.wait = 1s;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(2), bench.now);
    bench.actions();
    bench.pass(1s);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 TimeoutError"), A("Abandon"));
    bench.options.maxRetries = 0;
    bench.acquire(2);
    bench.machine.acquireReplied(queued(2), bench.now);
    COMPARE_ACTIONS(bench, A("SendAcquire fresh enqueue"), A("AcquireFailed 2 BusyError"), A("Abandon"));
}

void tst_LeaseMachine::grantIsClaimedAtOnce()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.pass(1s);
    bench.machine.grantNoticed(bench.now);
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    const LeaseTime sentAt = bench.now;
    bench.pass(10ms);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"));
    QCOMPARE(bench.machine.deadline(), sentAt + 29698ms);
}

void tst_LeaseMachine::grantWhileAnAttemptIsInFlight()
{
    // The attempt may have come before the grant.
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.actions();
    bench.machine.grantNoticed(bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.acquireReplied(queued(0), bench.now);
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    bench.machine.acquireReplied(queued(0), bench.now); // forged; asked once
    COMPARE_NO_ACTIONS(bench);
    QVERIFY(bench.machine.nextWakeUp() >= bench.now + 2250ms);
}

void tst_LeaseMachine::nextLooksAfterTheClaim()
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
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));

    // Forged ones bring no busy loop.
    bench.machine.acquireReplied(queued(9), bench.now);
    for (const milliseconds ms : {0ms, -5ms, milliseconds::min() / 2}) {
        bench.machine.nextNoticed(ms, bench.now);
        QVERIFY(bench.machine.nextWakeUp() > bench.now);
    }
}

void tst_LeaseMachine::nextWhileAnAttemptIsInFlight()
{
    Bench bench;
    bench.options.wait = LockOptions::Forever;
    bench.setWakeable(true);
    bench.acquire();
    bench.actions();
    bench.machine.nextNoticed(500ms, bench.now);
    const LeaseTime told = bench.now;
    bench.pass(10ms);
    bench.machine.acquireReplied(queued(7, 1h), bench.now); // from before
    QVERIFY(bench.machine.nextWakeUp() >= told + 500ms);
    QVERIFY(bench.machine.nextWakeUp() <= told + 510ms);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    bench.machine.acquireReplied(queued(7, 1h), bench.now); // obeyed once
    QVERIFY(bench.machine.nextWakeUp() > bench.now + 10s);
}

void tst_LeaseMachine::handedOver()
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
    COMPARE_ACTIONS(bench, A("Acquired 1"), A("Acquired 2"));
    QCOMPARE(bench.machine.deadline(), sentAt + 29698ms); // from the send of the release
    QCOMPARE(bench.machine.fencingToken(), 99);
    QCOMPARE(bench.machine.holdCount(), 2);
    QCOMPARE(bench.machine.queuePosition(), -1);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendRenew"));
}

void tst_LeaseMachine::handedOverTooLate()
{
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    // The answer to the release took nearly its whole lease.
    const LeaseTime sentAt = bench.now - 29698ms + 1ms;
    bench.machine.handedOver({{}, "token", 99, sentAt, bench.options.lease}, bench.now);
    COMPARE_ACTIONS(bench, A("Abandon"));
    QVERIFY(!bench.machine.isHeld(bench.now));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendAcquire fresh enqueue"));
}

void tst_LeaseMachine::handedOverWithAnotherLease()
{
    // It holds, but for the releaser's lease: a claim sets its own.
    Bench bench;
    bench.setWakeable(true);
    bench.acquire();
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.actions();
    bench.machine.handedOver({{}, "token", 99, bench.now, 5s}, bench.now);
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Acquiring);
    bench.machine.acquireReplied(granted(100), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 1"));
    QCOMPARE(bench.machine.fencingToken(), 100);
}

void tst_LeaseMachine::handedOverWhileAnAttemptIsInFlight()
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
    COMPARE_ACTIONS(bench, A("SendAcquire enqueue"));
}

void tst_LeaseMachine::noticesInOtherPhases()
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

void tst_LeaseMachine::reentryCostsNothing()
{
    Bench bench;
    bench.hold();
    bench.acquire(2);
    bench.acquire(3, true);
    COMPARE_ACTIONS(bench, A("Acquired 2"), A("Acquired 3"));
    QCOMPARE(bench.machine.holdCount(), 3);
    bench.machine.release(4, bench.now);
    bench.machine.release(5, bench.now);
    COMPARE_ACTIONS(bench, A("ReleaseDone 4 true"), A("ReleaseDone 5 true"));
    QVERIFY(bench.machine.isHeld(bench.now));
    bench.machine.release(6, bench.now);
    COMPARE_ACTIONS(bench, A("SendRelease"));
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Released"), A("ReleaseDone 6 true"));
}

void tst_LeaseMachine::releaseOfAnUnlockedLock()
{
    Bench bench;
    bench.machine.release(1, bench.now);
    COMPARE_ACTIONS(bench, A("ReleaseDone 1 false"));
}

void tst_LeaseMachine::releaseWhileAcquiringCancels()
{
    Bench bench;
    bench.acquire();
    bench.actions();
    bench.machine.release(2, bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 CancelledError"), A("Abandon"), A("ReleaseDone 2 false"));
}

void tst_LeaseMachine::releaseIsConfirmed()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    COMPARE_ACTIONS(bench, A("SendRelease"));
    QCOMPARE(bench.find(Action::SendRelease).duration, 0ns);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    QVERIFY(!bench.machine.isHeld(bench.now));
    QCOMPARE(bench.machine.holdCount(), 0);
    QCOMPARE(bench.machine.fencingToken(), 0);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Released"), A("ReleaseDone 2 true"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

void tst_LeaseMachine::releaseFindsTheKeyGone_data()
{
    QTest::addColumn<int>("status");
    QTest::addColumn<QString>("lost");
    QTest::newRow("gone") << int(EngineReply::Gone) << A("Lost Deleted");
    QTest::newRow("stolen") << int(EngineReply::Stolen) << A("Lost Stolen");
}

void tst_LeaseMachine::releaseFindsTheKeyGone()
{
    QFETCH(int, status);
    QFETCH(QString, lost);
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.releaseReplied(answer(EngineReply::Status(status)), bench.now);
    COMPARE_ACTIONS(bench, lost, A("ReleaseDone 2 false"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::releaseIsRepeated()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.releaseReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
    QVERIFY(bench.machine.nextWakeUp() > bench.now);
    for (int i = 0; i < 3; ++i) {
        bench.passToWakeUp();
        COMPARE_ACTIONS(bench, A("SendRelease"));
        bench.machine.releaseReplied(failed(passing()), bench.now);
        COMPARE_NO_ACTIONS(bench); // told once
    }
    bench.passToWakeUp();
    bench.actions();
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Released"), A("ReleaseDone 2 true"));
}

void tst_LeaseMachine::repeatedReleaseKnowsItsOwnWork_data()
{
    QTest::addColumn<bool>("maybeExecuted");
    QTest::addColumn<QStringList>("end");
    QTest::newRow("may have run") << true << QStringList{A("Released"), A("ReleaseDone 2 true")};
    QTest::newRow("was not sent") << false << QStringList{A("Lost Deleted"), A("ReleaseDone 2 false")};
}

void tst_LeaseMachine::repeatedReleaseKnowsItsOwnWork()
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

void tst_LeaseMachine::releaseWaitsForTheEngine()
{
    Bench bench;
    bench.hold();
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
    bench.machine.release(2, bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    bench.pass(1s);
    bench.engineReady();
    COMPARE_ACTIONS(bench, A("SendRelease"));
}

void tst_LeaseMachine::releaseUnconfirmedUntilTheDeadline()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("ReleaseDone 2 false"), A("Abandon"));
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::forbiddenReleaseIsNotRepeated()
{
    Bench bench;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.releaseReplied(failed(permanent()), bench.now);
    COMPARE_ACTIONS(bench, A("ErrorOccurred PermissionError"));
    QCOMPARE(bench.machine.nextWakeUp(), deadline - 1ms);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("ReleaseDone 2 false"), A("Abandon"));
}

void tst_LeaseMachine::releaseOvertakesARenewal()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.release(2, bench.now);
    COMPARE_ACTIONS(bench, A("SendRelease"));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Released"), A("ReleaseDone 2 true"));
}

void tst_LeaseMachine::minHoldIsKept()
{
    Bench bench;
    bench.options.minHold = 5s;
    bench.hold();
    bench.pass(2s);
    bench.machine.release(2, bench.now);
    bench.actions();
    QCOMPARE(bench.find(Action::SendRelease).duration, nanoseconds(3s));
    bench.machine.releaseReplied(failed(passing()), bench.now);
    bench.now += 2s;
    bench.machine.tick(bench.now);
    bench.actions();
    QCOMPARE(bench.find(Action::SendRelease).duration, nanoseconds(1s));
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);

    bench.hold();
    bench.pass(5s + 1ns);
    bench.machine.release(3, bench.now);
    bench.actions();
    QCOMPARE(bench.find(Action::SendRelease).duration, 0ns);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);

    bench.hold();
    bench.pass(1s);
    bench.machine.detach(bench.now);
    bench.actions();
    QCOMPARE(bench.find(Action::Abandon).duration, nanoseconds(4s));
}

void tst_LeaseMachine::acquireWhileReleasing()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.acquire(4, true);
    COMPARE_ACTIONS(bench, A("SendRelease"));
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Released"), A("ReleaseDone 2 true"), A("SendAcquire fresh"));
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, A("Acquired 3"), A("Acquired 4"));
}

void tst_LeaseMachine::acquireWhileReleasingHasNewOptions()
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

void tst_LeaseMachine::acquireWhileReleasingExpires()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.options.wait = 1s;
    bench.acquire(3);
    bench.actions();
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 1s);
    bench.pass(1s);
    COMPARE_ACTIONS(bench, A("AcquireFailed 3 ConnectionError"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Released"), A("ReleaseDone 2 true"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::acquireWhileReleasingFailsWithTheEngine()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.options.wait = LockOptions::Forever;
    bench.acquire(3);
    bench.acquire(4, true);
    bench.actions();
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, A("AcquireFailed 4 ConnectionError"), A("ErrorOccurred ConnectionError"));
    bench.engineFailed(permanent());
    COMPARE_ACTIONS(bench, A("AcquireFailed 3 PermissionError"));
}

void tst_LeaseMachine::releaseWhileReleasingEndsTheNextAcquire()
{
    // As acquire() and release() in a row do from any other state.
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.machine.release(4, bench.now);
    COMPARE_ACTIONS(bench, A("SendRelease"), A("AcquireFailed 3 CancelledError"), A("ReleaseDone 4 false"));
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Released"), A("ReleaseDone 2 true"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::cancelWhileReleasing()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.actions();
    bench.machine.cancel(bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 3 CancelledError"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Releasing);
}

void tst_LeaseMachine::renewsAtAThird()
{
    Bench bench;
    bench.hold();
    const LeaseTime sentAt = bench.now;
    const LeaseTime due = bench.machine.nextWakeUp();
    QVERIFY(due <= sentAt + 10s);
    QVERIFY(due > sentAt + 10s - LeaseMachine::renewalBeat(30s));
    QCOMPARE(due % LeaseMachine::renewalBeat(30s), 0ns);
    bench.pass(due - bench.now - 1ns);
    COMPARE_NO_ACTIONS(bench);
    bench.pass(1ns);
    COMPARE_ACTIONS(bench, A("SendRenew"));
    QCOMPARE(bench.find(Action::SendRenew).duration, nanoseconds(30s));
    bench.pass(50ms);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Renewed"));
    QVERIFY(bench.machine.nextWakeUp() > bench.now);
    QVERIFY(bench.machine.nextWakeUp() <= due + 10s);
}

void tst_LeaseMachine::deadlineCountsFromTheSend()
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

void tst_LeaseMachine::renewalsDoNotOverlap()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.pass(5s);
    bench.engineReady();
    bench.machine.setAutoRenew(true);
    bench.pass(1s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::renewalFindsTheKeyGone_data()
{
    releaseFindsTheKeyGone_data();
}

void tst_LeaseMachine::renewalFindsTheKeyGone()
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

void tst_LeaseMachine::renewalIsRetriedWithBackOff()
{
    Bench bench;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.passToWakeUp();
    bench.actions();
    bench.machine.renewReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
    int attempts = 0;
    bool atRisk = false;
    while (bench.machine.phase() == LeaseMachine::Held) {
        QVERIFY(bench.machine.nextWakeUp() > bench.now);
        bench.passToWakeUp();
        const QStringList actions = bench.actions();
        QVERIFY(!actions.contains(A("ErrorOccurred ConnectionError"))); // told once
        atRisk |= actions.contains(A("AtRisk"));
        if (actions.contains(A("SendRenew"))) {
            ++attempts;
            bench.machine.renewReplied(failed(passing()), bench.now);
        }
    }
    QCOMPARE(bench.now, deadline - 1ms);
    QVERIFY(atRisk);
    QVERIFY2(attempts > 10 && attempts < 40, qPrintable(QString::number(attempts)));
}

void tst_LeaseMachine::forbiddenRenewalIsNotAStorm()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    bench.actions();
    bench.machine.renewReplied(failed(permanent()), bench.now);
    COMPARE_ACTIONS(bench, A("ErrorOccurred PermissionError"));
    QCOMPARE(bench.machine.nextWakeUp(), std::min(bench.now + 5s, LeaseTime(1h + 20s)));
}

void tst_LeaseMachine::atRiskAtTwoThirds()
{
    Bench bench;
    bench.hold();
    const LeaseTime sentAt = bench.now;
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendRenew"));
    QVERIFY(!bench.machine.isAtRisk());
    bench.passToWakeUp();
    QCOMPARE(bench.now, sentAt + 20s);
    COMPARE_ACTIONS(bench, A("AtRisk"));
    QCOMPARE(bench.find(Action::AtRisk).duration, nanoseconds(9698ms));
    QVERIFY(bench.machine.isAtRisk());
    QVERIFY(bench.machine.isHeld(bench.now));
    bench.pass(1s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::renewalEndsTheRisk()
{
    Bench bench;
    bench.hold();
    bench.pass(21s);
    COMPARE_ACTIONS(bench, A("AtRisk"), A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Renewed"));
    QVERIFY(!bench.machine.isAtRisk());
    // A reply so late that it is at risk again: risk counts from the send as well.
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.pass(15s);
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Renewed"), A("SendRenew"));
}

void tst_LeaseMachine::lostAtTheDeadline()
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
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"));
    QCOMPARE(bench.find(Action::Lost).duration, 0ns);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseMachine::renewalAfterTheDeadlineChangesNothing()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    bench.actions();
    bench.now = bench.machine.deadline() + 5s;
    QVERIFY(!bench.machine.isHeld(bench.now));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"));
    QCOMPARE(bench.find(Action::Lost).duration, nanoseconds(5s));
    QVERIFY(!bench.machine.isHeld(bench.now));
}

void tst_LeaseMachine::suspendedPastTheDeadline()
{
    Bench bench;
    bench.hold();
    bench.now += 8h;
    QVERIFY(!bench.machine.isHeld(bench.now));
    bench.acquire(2); // not a re-entry
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"), A("SendAcquire fresh"));
    bench.machine.acquireReplied(granted(), bench.now);
    bench.actions();
    bench.now += 8h;
    bench.machine.release(3, bench.now);
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"), A("ReleaseDone 3 false"));
    bench.hold();
    bench.now += 8h;
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"));
    bench.hold();
    bench.now += 8h;
    bench.engineReady();
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"));
    bench.hold();
    bench.now += 8h;
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"));
}

void tst_LeaseMachine::engineAwayWhileHeld()
{
    Bench bench;
    bench.hold();
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
    bench.engineFailed(passing());
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 20s); // at risk; no renewal without an engine
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("AtRisk"));
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"));
}

void tst_LeaseMachine::engineBackRenewsAtOnce()
{
    Bench bench;
    bench.hold();
    bench.engineFailed(passing());
    bench.pass(1s);
    bench.actions();
    bench.engineReady();
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Renewed"));
    // A second outage is told again.
    bench.engineFailed(passing());
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
}

void tst_LeaseMachine::autoRenewOff()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    QCOMPARE(bench.machine.nextWakeUp(), bench.now + 20s);
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("AtRisk"));
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("Lost LeaseExpired"), A("Abandon"));
}

void tst_LeaseMachine::autoRenewOnAgain()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    bench.pass(15s);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.setAutoRenew(true);
    bench.machine.tick(bench.now);
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Renewed"));
    bench.machine.setAutoRenew(false);
    bench.pass(15s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::autoRenewSwitchedOffInFlight()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    bench.actions();
    const LeaseTime renewSent = bench.now;
    bench.machine.setAutoRenew(false);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Renewed")); // it was renewed, that is a fact
    QCOMPARE(bench.machine.deadline(), renewSent + 29698ms);
    bench.pass(15s);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::forcedRelease()
{
    Bench bench;
    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, A("Lost ForcedRelease"));

    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Stolen), bench.now); // somebody has it already
    COMPARE_ACTIONS(bench, A("Lost ForcedRelease"));
}

void tst_LeaseMachine::forgedForcedReleaseChangesNothing()
{
    Bench bench;
    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("SendRenew"), A("Renewed"));
    QVERIFY(bench.machine.isHeld(bench.now));
    // What happens later has its own reason.
    bench.passToWakeUp();
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, A("Lost Deleted"));
}

void tst_LeaseMachine::forcedReleaseWhileARenewalIsInFlight()
{
    Bench bench;
    bench.hold();
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_NO_ACTIONS(bench); // no second one
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now); // was before the forced release
    COMPARE_ACTIONS(bench, A("Renewed"), A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, A("Lost ForcedRelease"));
}

void tst_LeaseMachine::forcedReleaseWithoutAutoRenew()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.pass(5s);
    bench.machine.forcedReleaseNoticed(bench.now);
    COMPARE_ACTIONS(bench, A("SendRenew"));
    QCOMPARE(bench.find(Action::SendRenew).duration, nanoseconds(25s)); // not longer than it was
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_NO_ACTIONS(bench); // nothing was renewed
    QCOMPARE(bench.machine.deadline(), deadline);
    bench.pass(10s);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.actions();
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, A("Lost ForcedRelease"));
}

void tst_LeaseMachine::forcedReleaseIsAskedForUntilAnswered()
{
    Bench bench;
    bench.options.autoRenew = false;
    bench.hold();
    bench.machine.forcedReleaseNoticed(bench.now);
    bench.actions();
    bench.machine.renewReplied(failed(passing()), bench.now);
    COMPARE_ACTIONS(bench, A("ErrorOccurred ConnectionError"));
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Gone), bench.now);
    COMPARE_ACTIONS(bench, A("Lost ForcedRelease"));
}

void tst_LeaseMachine::autoRenewOnAfterAForgedNotice()
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
    COMPARE_ACTIONS(bench, A("SendRenew"));
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    COMPARE_ACTIONS(bench, A("Renewed"));
}

void tst_LeaseMachine::forcedReleaseInOtherPhases()
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

void tst_LeaseMachine::detachWhileAcquiring()
{
    Bench bench;
    bench.acquire(1);
    bench.acquire(2);
    bench.actions();
    bench.machine.detach(bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 1 ConnectionError"), A("AcquireFailed 2 ConnectionError"), A("Abandon"));
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
}

void tst_LeaseMachine::detachWhileHeld()
{
    Bench bench;
    bench.hold();
    bench.acquire(2);
    bench.actions();
    bench.machine.detach(bench.now);
    COMPARE_ACTIONS(bench, A("Lost ForcedRelease"), A("Abandon"));
    QCOMPARE(bench.machine.nextWakeUp(), NeverTime);
    bench.machine.detach(bench.now);
    COMPARE_NO_ACTIONS(bench);
}

void tst_LeaseMachine::detachWhileReleasing()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.acquire(3);
    bench.actions();
    bench.machine.detach(bench.now);
    COMPARE_ACTIONS(bench, A("AcquireFailed 3 ConnectionError"), A("Lost ForcedRelease"), A("ReleaseDone 2 false"),
                    A("Abandon"));
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

namespace {

/*!
    A machine, a server that keeps one key, a network between them that delays, loses and cuts, and an
    application that does anything at any time.
*/
class Model : private LeaseMachine::EngineStatus
{
public:
    explicit Model(quint32 seed)
        : m_random(seed)
    {
    }
    bool isEngineReady() const override { return m_ready; }
    bool canBeWoken() const override { return m_wakeable; }

    /// Empty if all held.
    QString run(int events);

    qint64 holds = 0;
    qint64 losses = 0;
    qint64 abandons = 0;
    qint64 lateGrants = 0;
    qint64 handOvers = 0;

private:
    struct Command
    {
        Action::Kind kind;
        int epoch;
        LeaseTime sentAt;
        nanoseconds duration;
        LockOptions options;
        bool enqueue = false;
        bool unsent = false;              ///< there was no connection
        std::optional<EngineReply> reply; ///< the server has run it
    };
    struct Key
    {
        int epoch = 0; ///< 0 = nobody, -1 = somebody else
        LeaseTime expiry{0};
        bool given = false; ///< given back, kept for minHold
    };
    struct Request
    {
        LeaseTime deadline;
        bool ended = false;
    };

    int below(int bound) { return int(m_random() % quint32(bound)); }
    void fail(const QString &text)
    {
        if (m_failure.isEmpty())
            m_failure = text;
    }
    void log(const QString &text)
    {
        if (m_log.size() >= 40)
            m_log.removeFirst();
        m_log.append(QStringLiteral("%1 ms: %2").arg(double(m_now.count()) / 1e6, 0, 'f', 3).arg(text));
    }
    void execute(Command &command);
    void handIn(const Command &command, const EngineReply &reply);
    void deliver();
    void connectionLost();
    void connected();
    void interfere();
    void event();
    void notice();
    void handOver();
    void settle();
    void carryOut();
    void check();
    int holderNow() const { return m_now < m_key.expiry ? m_key.epoch : 0; }
    LockOptions randomOptions();

    std::mt19937 m_random;
    LeaseMachine m_machine{this};
    LeaseTime m_now = 1h;
    Key m_key;
    std::deque<Command> m_wire;
    QHash<quint64, Request> m_requests;
    QHash<quint64, bool> m_releases;
    QSet<int> m_abandoned;
    QSet<int> m_queued;            ///< epochs with a place in the queue
    bool m_wakeable = false;
    QStringList m_log;
    QString m_failure;
    quint64 m_lastId = 0;
    qint64 m_fence = 0;
    int m_epoch = 0;
    bool m_ready = false;          ///< of the engine
    bool m_down = true;            ///< there is no connection
    bool m_held = false;           ///< Acquired was told, neither Released nor Lost
    int m_interferedEpoch = 0;     ///< somebody else has touched the key in this epoch
    LeaseTime m_deadline{0};       ///< by the model's own account
    LockOptions m_epochOptions;
};

LockOptions Model::randomOptions()
{
    LockOptions options;
    constexpr std::array<milliseconds, 6> leases{3ms, 20ms, 100ms, 1s, 30s, 24h};
    constexpr std::array<milliseconds, 6> waits{1ms, 50ms, 1s, 10s, LockOptions::Forever, LockOptions::Forever - 1ms};
    constexpr std::array<milliseconds, 4> intervals{1ms, 10ms, 100ms, 5s};
    options.lease = leases[size_t(below(int(leases.size())))];
    options.wait = waits[size_t(below(int(waits.size())))];
    if (options.lease < 5ms)
        options.wait = std::min<milliseconds>(options.wait, 10s); // can never be held
    options.retryInterval = intervals[size_t(below(int(intervals.size())))];
    options.maxRetries = below(3) == 0 ? below(4) : -1;
    options.autoRenew = below(4) != 0;
    options.minHold = below(4) == 0 ? options.lease / 2 : 0ms;
    return options;
}

/// The server runs what it has got.
void Model::execute(Command &command)
{
    if (command.reply)
        return;
    EngineReply reply;
    const int holder = holderNow();
    const bool mine = holder == command.epoch && !m_key.given;
    if (command.kind == Action::SendAcquire) {
        if (holder == 0 || mine) {
            m_key = {command.epoch, m_now + command.options.lease, false};
            m_queued.remove(command.epoch);
            reply.status = EngineReply::Granted;
            reply.fencingToken = ++m_fence;
        } else {
            reply.status = EngineReply::Taken;
            reply.holderTtl = std::chrono::ceil<milliseconds>(m_key.expiry - m_now);
            reply.foreignHolder = below(4) == 0;
            if (command.enqueue) {
                reply.queuePosition = below(3);
                reply.arrival = "1";
                m_queued.insert(command.epoch);
            }
        }
    } else if (holder == 0) {
        reply.status = EngineReply::Gone;
    } else if (holder != command.epoch) {
        reply.status = EngineReply::Stolen;
    } else {
        reply.status = EngineReply::Done;
        if (command.kind == Action::SendRenew)
            m_key.expiry = m_now + command.duration;
        else
            m_key = command.duration > 0ns ? Key{command.epoch, m_now + command.duration, true} : Key{};
    }
    command.reply = reply;
}

void Model::carryOut()
{
    const auto actions = m_machine.takeActions();
    for (const Action &action : actions) {
        log(QStringLiteral("-> ") + toText(action));
        switch (action.kind) {
        case Action::SendAcquire:
            if (action.fresh) {
                ++m_epoch;
                m_epochOptions = m_machine.options();
            } else if (m_abandoned.contains(m_epoch)) {
                fail(QStringLiteral("a given-up token is used again"));
            }
            if (action.enqueue && !m_wakeable)
                fail(QStringLiteral("joins a queue without hearing of its turn"));
            Q_FALLTHROUGH();
        case Action::SendRenew:
        case Action::SendRelease:
            if (!m_ready)
                fail(QStringLiteral("sent without an engine"));
            for (const Command &other : m_wire) {
                const bool overtakes = action.kind == Action::SendRelease && other.kind == Action::SendRenew;
                if (other.epoch == m_epoch && other.kind != Action::Abandon && !overtakes)
                    fail(QStringLiteral("two commands in flight"));
            }
            m_wire.push_back({action.kind, m_epoch, m_now, action.duration, m_machine.options(), action.enqueue, m_down, {}});
            break;
        case Action::Abandon:
            ++abandons;
            if (m_abandoned.contains(m_epoch))
                fail(QStringLiteral("abandoned twice"));
            m_abandoned.insert(m_epoch);
            // The engine sees to it: runs after whatever is on the wire.
            m_wire.push_back({Action::Abandon, m_epoch, m_now, action.duration, m_machine.options(), action.enqueue, m_down, {}});
            break;
        case Action::Acquired:
        case Action::AcquireFailed: {
            Request &request = m_requests[action.id];
            if (std::exchange(request.ended, true))
                fail(QStringLiteral("acquire %1 ended twice").arg(action.id));
            if (action.kind == Action::AcquireFailed) {
                if (action.error.code == DistributedLock::NoError || action.error.text.isEmpty())
                    fail(QStringLiteral("an error without code or text"));
            } else if (!std::exchange(m_held, true)) {
                ++holds;
            }
            break;
        }
        case Action::ReleaseDone:
            if (std::exchange(m_releases[action.id], true))
                fail(QStringLiteral("release %1 ended twice").arg(action.id));
            break;
        case Action::Released:
            if (!std::exchange(m_held, false))
                fail(QStringLiteral("a hold ended that was none"));
            break;
        case Action::Lost:
            ++losses;
            if (!std::exchange(m_held, false))
                fail(QStringLiteral("a hold was lost that was none"));
            if ((action.reason == DistributedLock::Deleted || action.reason == DistributedLock::Stolen)
                && m_interferedEpoch != m_epoch)
                fail(QStringLiteral("lost to somebody who was not there"));
            break;
        case Action::Renewed:
        case Action::AtRisk:
            if (!m_held)
                fail(QStringLiteral("renewed or at risk while not held"));
            break;
        case Action::ErrorOccurred:
        case Action::ErrorCleared:
            break;
        }
    }
}

void Model::handIn(const Command &command, const EngineReply &reply)
{
    if (command.kind == Action::Abandon || command.epoch != m_epoch || m_abandoned.contains(command.epoch))
        return;
    log(QStringLiteral("reply %1 to %2").arg(int(reply.status)).arg(int(command.kind)));
    const LeaseTime deadline = command.sentAt + m_epochOptions.lease - LeaseMachine::safetyMargin(m_epochOptions.lease);
    switch (command.kind) {
    case Action::SendAcquire:
        m_machine.acquireReplied(reply, m_now);
        if (reply.status != EngineReply::Granted)
            break;
        if (m_machine.phase() == LeaseMachine::Held)
            m_deadline = deadline;
        else
            ++lateGrants;
        break;
    case Action::SendRenew:
        m_machine.renewReplied(reply, m_now);
        if (m_machine.phase() == LeaseMachine::Held && reply.status == EngineReply::Done
            && command.duration == nanoseconds(m_epochOptions.lease))
            m_deadline = deadline;
        break;
    default:
        m_machine.releaseReplied(reply, m_now);
        break;
    }
    carryOut();
}

/// The reply to the command sent first arrives.
void Model::deliver()
{
    if (m_wire.empty() || (m_down && !m_wire.front().unsent))
        return;
    Command command = m_wire.front();
    m_wire.pop_front();
    if (command.unsent && command.kind != Action::Abandon)
        return handIn(command, failed(passing(false)));
    execute(command);
    handIn(command, *command.reply);
}

/// What is on the wire ends without a reply; the server has run some of it.
void Model::connectionLost()
{
    log(QStringLiteral("connection lost"));
    m_down = true;
    m_ready = false;
    int executed = below(int(m_wire.size()) + 1);
    std::deque<Command> again;
    for (Command &command : std::exchange(m_wire, {})) {
        if (command.unsent && command.kind != Action::Abandon) {
            again.push_back(command);
            continue;
        }
        if (executed-- > 0)
            execute(command);
        if (command.kind == Action::Abandon) {
            if (!command.reply)
                again.push_back(command); // the engine sees to it
            continue;
        }
        const bool unknown = command.reply || below(2) == 0;
        handIn(command, failed(passing(unknown)));
    }
    m_wire.insert(m_wire.begin(), again.begin(), again.end());
    m_machine.engineFailed(below(10) == 0 ? permanent() : passing(), m_now);
}

void Model::connected()
{
    if (!m_down || std::any_of(m_wire.begin(), m_wire.end(),
                               [](const Command &c) { return c.unsent && c.kind != Action::Abandon; }))
        return;
    log(QStringLiteral("connected"));
    m_down = false;
    m_ready = true;
    for (Command &command : m_wire)
        command.unsent = false;
    m_machine.engineReady(m_now);
}

/// Somebody else takes what is free, or deletes or overwrites what is not theirs.
void Model::interfere()
{
    const int holder = holderNow();
    const bool free = holder == 0;
    if (!free && below(4) != 0)
        return;
    if (holder > 0)
        m_interferedEpoch = holder;
    log(QStringLiteral("interference"));
    if (free || below(2) == 0)
        m_key = {-1, m_now + milliseconds(1 + below(2000)), false};
    else
        m_key = {};
    if (!free && below(2) == 0)
        m_machine.forcedReleaseNoticed(m_now);
}

void Model::event()
{
    switch (below(20)) {
    case 0:
    case 1:
    case 2: {
        const bool once = below(4) == 0;
        const LockOptions options = randomOptions();
        const nanoseconds wait = options.wait < 24h ? nanoseconds(options.wait) : NeverTime - m_now;
        m_requests.insert(++m_lastId, {m_now + (once ? nanoseconds(5s) : wait), false});
        log(QStringLiteral("acquire %1 once %2 wait %3 lease %4")
                    .arg(m_lastId).arg(once).arg(options.wait.count()).arg(options.lease.count()));
        m_machine.acquire(m_lastId, once, options, m_now);
        break;
    }
    case 3:
        if (m_machine.phase() == LeaseMachine::Acquiring && below(4) != 0)
            break;
        m_releases.insert(++m_lastId, false);
        log(QStringLiteral("release %1").arg(m_lastId));
        m_machine.release(m_lastId, m_now);
        break;
    case 4:
        if (below(8) == 0)
            m_machine.cancel(m_now);
        break;
    case 6:
        m_machine.setAutoRenew(below(2) == 0);
        break;
    case 7:
        if (!m_down && below(3) == 0)
            connectionLost();
        break;
    case 8:
        connected();
        break;
    case 9:
        interfere();
        break;
    case 10:
        if (below(4) == 0)
            m_machine.forcedReleaseNoticed(m_now); // forged
        break;
    case 11:
        if (!m_wire.empty() && !m_down)
            execute(m_wire.front());
        break;
    case 12:
        m_now += nanoseconds(below(2'000'000));
        break;
    case 13:
        m_now += milliseconds(below(300));
        break;
    case 5: // suspended, or a blocked loop
        if (below(3) == 0)
            m_now += milliseconds(below(60'000));
        break;
    case 15:
    case 16:
        if (const LeaseTime next = m_machine.nextWakeUp(); next != NeverTime)
            m_now = std::max(m_now, next);
        break;
    case 14:
        notice();
        break;
    default:
        deliver();
        break;
    }
}

/// Something is told, true or forged.
void Model::notice()
{
    switch (below(5)) {
    case 0:
        m_wakeable = below(4) != 0;
        m_machine.wakeableChanged(m_now);
        break;
    case 1:
        m_machine.grantNoticed(m_now);
        break;
    case 2:
        m_machine.nextNoticed(milliseconds(below(3000)), m_now);
        break;
    default:
        handOver();
        break;
    }
}

/// Another lock of this client releases, and its reply, which may have been under way, brings the lock to us.
void Model::handOver()
{
    if (holderNow() > 0 || m_down || !m_queued.contains(m_epoch) || m_abandoned.contains(m_epoch)
        || m_machine.phase() != LeaseMachine::Acquiring)
        return;
    const milliseconds lease = below(4) == 0 ? milliseconds(700) : m_epochOptions.lease;
    const LeaseTime sentAt = m_now;
    m_queued.remove(m_epoch);
    m_key = {m_epoch, m_now + lease, false};
    m_now += milliseconds(below(30));
    log(QStringLiteral("handed over"));
    m_machine.handedOver({{}, {}, ++m_fence, sentAt, lease}, m_now);
    if (m_machine.phase() == LeaseMachine::Held) {
        ++handOvers;
        m_deadline = sentAt + lease - LeaseMachine::safetyMargin(lease);
    }
}

/// As the lock and its watchdog do after each event.
void Model::settle()
{
    carryOut();
    m_machine.tick(m_now);
    carryOut();
    check();
}

void Model::check()
{
    const LeaseMachine::Phase phase = m_machine.phase();
    const bool inHold = phase == LeaseMachine::Held || phase == LeaseMachine::Releasing;
    const bool epochEnded = phase == LeaseMachine::Unlocked;

    if (m_held != inHold)
        fail(QStringLiteral("the application was told something else than what is"));
    if (m_machine.isHeld(m_now)) {
        if (m_now >= m_deadline)
            fail(QStringLiteral("held past the deadline"));
        if ((holderNow() != m_epoch || m_key.given) && m_interferedEpoch != m_epoch)
            fail(QStringLiteral("held, but not on the server"));
    }
    if (inHold && m_now >= m_deadline)
        fail(QStringLiteral("a hold outlives its deadline"));
    if ((m_machine.holdCount() > 0) != (phase == LeaseMachine::Held))
        fail(QStringLiteral("hold count %1").arg(m_machine.holdCount()));

    const auto unwanted = [&](int epoch) { return epoch > 0 && (epoch != m_epoch || epochEnded); };
    const int holder = holderNow();
    if (unwanted(holder) && !m_key.given && !m_abandoned.contains(holder))
        fail(QStringLiteral("an orphan on the server"));
    for (const int epoch : std::as_const(m_queued)) {
        if (unwanted(epoch) && !m_abandoned.contains(epoch))
            fail(QStringLiteral("an orphan in the queue"));
    }
    for (const Command &command : m_wire) {
        if (command.kind == Action::SendAcquire && unwanted(command.epoch) && !m_abandoned.contains(command.epoch))
            fail(QStringLiteral("an orphan on the wire"));
    }

    const LeaseTime next = m_machine.nextWakeUp();
    if (next <= m_now)
        fail(QStringLiteral("wakes up in the past"));
    if (inHold && next > m_deadline)
        fail(QStringLiteral("would miss the deadline"));
    const bool inFlight = std::any_of(m_wire.begin(), m_wire.end(), [this](const Command &command) {
        return command.epoch == m_epoch && command.kind != Action::Abandon;
    });
    // A place in the queue is looked at after as many claim times, and a quarter more at most.
    const LeaseTime patience = std::max<LeaseTime>(10s, (m_machine.queuePosition() + 1) * 3750ms);
    if (phase == LeaseMachine::Acquiring && m_ready && !inFlight && next > m_now + patience)
        fail(QStringLiteral("forgot to look again"));
    for (auto it = m_requests.begin(); it != m_requests.end();) {
        if (it->ended) {
            it = m_requests.erase(it);
            continue;
        }
        if (m_now >= it->deadline)
            fail(QStringLiteral("acquire %1 waits too long").arg(it.key()));
        else if (next > it->deadline)
            fail(QStringLiteral("would miss the end of the wait of acquire %1").arg(it.key()));
        if (epochEnded)
            fail(QStringLiteral("acquire %1 was forgotten").arg(it.key()));
        ++it;
    }
    for (auto it = m_releases.begin(); it != m_releases.end();) {
        if (it.value())
            it = m_releases.erase(it);
        else if (phase != LeaseMachine::Releasing)
            fail(QStringLiteral("release %1 was forgotten").arg((it++).key()));
        else
            ++it;
    }
}

QString Model::run(int events)
{
    for (int i = 0; i < events && m_failure.isEmpty(); ++i) {
        event();
        settle();
    }
    if (m_failure.isEmpty() && below(2) == 0) {
        m_machine.detach(m_now);
        settle();
        if (m_machine.phase() != LeaseMachine::Unlocked || m_machine.nextWakeUp() != NeverTime)
            fail(QStringLiteral("not at rest once detached"));
    }
    // All is well again: everything comes to its end.
    while (m_failure.isEmpty() && !m_wire.empty() && m_wire.front().unsent) {
        deliver();
        settle();
    }
    connected();
    settle();
    for (int i = 0; i < 10'000 && m_failure.isEmpty(); ++i) {
        if (m_key.epoch == -1)
            m_key = {};
        if (m_machine.options().lease < 5ms)
            m_machine.cancel(m_now); // it would try for ever
        settle();
        const bool idle = m_wire.empty() && m_requests.isEmpty() && m_releases.isEmpty();
        if (idle && m_machine.phase() == LeaseMachine::Unlocked)
            break;
        if (idle && m_machine.phase() == LeaseMachine::Held) {
            m_releases.insert(++m_lastId, false);
            m_machine.release(m_lastId, m_now);
        } else if (m_wire.empty()) {
            if (const LeaseTime next = m_machine.nextWakeUp(); next != NeverTime)
                m_now = std::max(m_now, next);
        } else {
            deliver();
        }
        settle();
    }
    if (m_machine.phase() != LeaseMachine::Unlocked || m_held)
        fail(QStringLiteral("never came to rest"));
    if (holderNow() > 0 && !m_key.given)
        fail(QStringLiteral("left a key behind"));
    return m_failure.isEmpty() ? QString() : m_failure + u'\n' + m_log.join(u'\n');
}

} // namespace

void tst_LeaseMachine::model_data()
{
    QTest::addColumn<quint32>("seed");
    for (quint32 seed = 1; seed <= 10; ++seed)
        QTest::addRow("seed %u", seed) << seed;
}

void tst_LeaseMachine::model()
{
    QFETCH(quint32, seed);
    qint64 holds = 0, losses = 0, abandons = 0, lateGrants = 0, handOvers = 0;
    for (quint32 round = 0; round < 50; ++round) {
        Model model(seed * 1000 + round);
        const QString failure = model.run(2000);
        if (!failure.isEmpty())
            qWarning("%ls", qUtf16Printable(failure));
        QVERIFY2(failure.isEmpty(), qPrintable(QStringLiteral("seed %1").arg(seed * 1000 + round)));
        holds += model.holds;
        losses += model.losses;
        abandons += model.abandons;
        lateGrants += model.lateGrants;
        handOvers += model.handOvers;
    }
    // It did get everywhere.
    QVERIFY2(holds > 500, qPrintable(QString::number(holds)));
    QVERIFY2(losses > 100, qPrintable(QString::number(losses)));
    QVERIFY2(abandons > 100, qPrintable(QString::number(abandons)));
    QVERIFY2(lateGrants > 10, qPrintable(QString::number(lateGrants)));
    QVERIFY2(handOvers > 10, qPrintable(QString::number(handOvers)));
}

QTEST_APPLESS_MAIN(tst_LeaseMachine)
#include "tst_leasemachine.moc"
