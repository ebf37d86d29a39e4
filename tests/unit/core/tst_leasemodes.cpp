// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// LeaseMachine: readers, writers and holders of permits of one owner.

#include "leasebench.h"

#include "support/rows.h"

class tst_LeaseModes : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void heldReaderDoesNotBecomeAWriter();
    void waitingReaderDoesNotBecomeAWriter();
    void writerMayRead();
    void waitingWriterMayRead();
    void writerWinsBehindARelease();
    void kindsThatCoverEachOther_data();
    void kindsThatCoverEachOther();
    void permitsAreTakenOnce();
    void strongestWinsBehindARelease();
    void nobodyWinsBehindARelease();
    void adoption();
    void adoptionIsTooLate();
    void adoptionWhileItWaits();
    void conversionEndsAHold();
    void conversionEndsARelease();
    void conversionLimitsAHold();
    void failedConversion();
    void conversionWithoutAReply();
};

static LockOptions reading(LockOptions options = {})
{
    return options.withMode(LockOptions::Shared);
}

static LockOptions taking(int take, int permits = 5)
{
    return LockOptions().withPermits(permits).withTake(take);
}

void tst_LeaseModes::heldReaderDoesNotBecomeAWriter()
{
    Bench bench;
    bench.options = reading();
    bench.hold();
    bench.options = LockOptions();
    bench.acquire(2);
    COMPARE_ACTIONS(bench, u"AcquireFailed 2 UpgradeError"_s);
    const QString text = bench.outcome(Outcome::AcquireFailed).error.text;
    QVERIFY2(text.contains(u"reader"_s) && text.contains(u"Exclusive"_s), qPrintable(text));
    QCOMPARE(bench.machine.holdCount(), 1);
    QVERIFY(bench.machine.isHeld(bench.now));
    bench.options = reading();
    bench.acquire(3);
    COMPARE_ACTIONS(bench, u"Acquired 3"_s);
}

void tst_LeaseModes::waitingReaderDoesNotBecomeAWriter()
{
    Bench bench;
    bench.options = reading();
    bench.acquire();
    bench.options = LockOptions();
    bench.acquire(2);
    COMPARE_ACTIONS(bench, u"AcquireFailed 2 UpgradeError"_s, u"Acquire fresh"_s);
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s);
}

void tst_LeaseModes::writerMayRead()
{
    Bench bench;
    bench.hold();
    bench.options = reading();
    bench.acquire(2);
    COMPARE_ACTIONS(bench, u"Acquired 2"_s);
    QCOMPARE(bench.machine.options().mode, LockOptions::Exclusive);
}

void tst_LeaseModes::waitingWriterMayRead()
{
    Bench bench;
    bench.acquire();
    bench.options = reading();
    bench.acquire(2);
    bench.actions();
    bench.machine.acquireReplied(granted(), bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s, u"Acquired 2"_s);
    QCOMPARE(bench.machine.options().mode, LockOptions::Exclusive);
}

void tst_LeaseModes::writerWinsBehindARelease()
{
    for (const bool writerFirst : {true, false}) {
        Bench bench;
        bench.hold();
        bench.machine.release(2, bench.now);
        for (const bool isWriter : {writerFirst, !writerFirst}) {
            bench.options = isWriter ? LockOptions() : reading();
            bench.acquire(isWriter ? 3 : 4);
        }
        bench.actions();
        bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
        COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s, u"Acquire fresh"_s);
        QCOMPARE(bench.machine.options().mode, LockOptions::Exclusive);
        bench.machine.acquireReplied(granted(), bench.now);
        COMPARE_ACTIONS(bench, u"Acquired 3"_s, u"Acquired 4"_s);
    }
    Bench bench; // what was wanted before does not count
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.options = reading();
    bench.acquire(3);
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    QCOMPARE(bench.machine.options().mode, LockOptions::Shared);
}

void tst_LeaseModes::kindsThatCoverEachOther_data()
{
    Support::addColumns<LockOptions, LockOptions, bool>("held", "wanted", "covers");
    const auto row = [](const char *name, const LockOptions &held, const LockOptions &wanted, bool covers) {
        QTest::newRow(name) << held << wanted << covers;
    };
    row("exclusive, permits", LockOptions(), taking(1), true);
    row("exclusive, reader", LockOptions(), reading(), true);
    row("exclusive, exclusive", LockOptions(), LockOptions(), true);
    row("permits, permits", taking(1), taking(3), true);
    row("permits, those of the server", taking(1), taking(1, LockOptions::ServerPermits), true);
    row("those of the server, permits", taking(1, LockOptions::ServerPermits), taking(1), true);
    row("permits, exclusive", taking(1), LockOptions(), false);
    row("permits, reader", taking(1), reading(), false);
    row("reader, permits", reading(), taking(1), false);
    row("reader, exclusive", reading(), LockOptions(), false);
    row("reader, reader", reading(), reading(), true);
}

void tst_LeaseModes::kindsThatCoverEachOther()
{
    QFETCH(LockOptions, held);
    QFETCH(LockOptions, wanted);
    QFETCH(bool, covers);
    const QString failure = u"AcquireFailed 2 UpgradeError"_s;
    Bench holder;
    holder.options = held;
    holder.hold();
    holder.options = wanted;
    holder.acquire(2);
    COMPARE_ACTIONS(holder, covers ? u"Acquired 2"_s : failure);
    QCOMPARE(holder.machine.holdCount(), covers ? 2 : 1);

    Bench waiter;
    waiter.options = held;
    waiter.acquire();
    waiter.actions();
    waiter.options = wanted;
    waiter.acquire(2);
    if (covers)
        COMPARE_NO_ACTIONS(waiter);
    else
        COMPARE_ACTIONS(waiter, failure);
}

void tst_LeaseModes::permitsAreTakenOnce()
{
    Bench bench;
    bench.options = taking(2);
    bench.hold();
    bench.options = taking(3);
    bench.acquire(2);
    COMPARE_ACTIONS(bench, u"Acquired 2"_s);
    QCOMPARE(bench.machine.options().take, 2);
}

void tst_LeaseModes::strongestWinsBehindARelease()
{
    for (const bool exclusiveFirst : {true, false}) {
        Bench bench;
        bench.options = taking(2);
        bench.hold();
        bench.machine.release(2, bench.now);
        for (const bool isExclusive : {exclusiveFirst, !exclusiveFirst}) {
            bench.options = isExclusive ? LockOptions() : taking(3);
            bench.acquire(isExclusive ? 3 : 4);
        }
        bench.actions();
        bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
        COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s, u"Acquire fresh"_s);
        QCOMPARE(bench.machine.options().permits, 0);
        QCOMPARE(bench.machine.options().take, 1);
        bench.machine.acquireReplied(granted(), bench.now);
        COMPARE_ACTIONS(bench, u"Acquired 3"_s, u"Acquired 4"_s);
    }
    Bench bench; // of two that take permits, the first
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.options = taking(3);
    bench.acquire(3);
    bench.options = taking(1, 6).withLease(7s);
    bench.acquire(4);
    bench.actions();
    bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
    QCOMPARE(bench.machine.options().permits, 5);
    QCOMPARE(bench.machine.options().take, 3);
    QCOMPARE(bench.machine.options().lease, milliseconds(7s));
}

void tst_LeaseModes::nobodyWinsBehindARelease()
{
    for (const bool readerFirst : {true, false}) {
        Bench bench;
        bench.hold();
        bench.machine.release(2, bench.now);
        bench.options = readerFirst ? reading() : taking(1);
        bench.acquire(3);
        bench.actions();
        bench.options = readerFirst ? taking(1) : reading();
        bench.acquire(4);
        COMPARE_ACTIONS(bench, u"AcquireFailed 4 UpgradeError"_s);
        bench.machine.releaseReplied(answer(EngineReply::Done), bench.now);
        bench.machine.acquireReplied(granted(), bench.now);
        COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s, u"Acquired 3"_s, u"Acquire fresh"_s);
        QCOMPARE(bench.machine.options().mode, readerFirst ? LockOptions::Shared : LockOptions::Exclusive);
        QCOMPARE(bench.machine.options().permits, readerFirst ? 0 : 5);
    }
}

void tst_LeaseModes::adoption()
{
    Bench bench;
    const LeaseTime sentAt = bench.now;
    bench.pass(1s);
    const quint64 before = bench.machine.epoch();
    bench.machine.prepareAdoption(bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.adopt(5, reading(), granted(9), sentAt, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 5"_s);
    QVERIFY(bench.machine.epoch() > before);
    QCOMPARE(bench.machine.fencingToken(), 9);
    QCOMPARE(bench.machine.holdCount(), 1);
    QCOMPARE(bench.machine.deadline(), sentAt + 30s - LeaseMachine::safetyMargin(30s));
    bench.passToWakeUp();
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.release(6, bench.now);
    COMPARE_ACTIONS(bench, u"Release"_s);
}

void tst_LeaseModes::adoptionIsTooLate()
{
    Bench bench;
    const LeaseTime sentAt = bench.now;
    bench.pass(30s);
    bench.machine.prepareAdoption(bench.now);
    bench.machine.adopt(5, reading(), granted(), sentAt, bench.now);
    COMPARE_ACTIONS(bench, u"AcquireFailed 5 ConnectionError"_s, u"Abandon"_s);
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseModes::adoptionWhileItWaits()
{
    Bench bench;
    bench.options = reading();
    bench.acquire(1);
    bench.machine.acquireReplied(queued(0), bench.now);
    bench.acquire(2, true);
    bench.actions();
    bench.machine.prepareAdoption(bench.now);
    COMPARE_ACTIONS(bench, u"Abandon"_s); // its place in the queue
    bench.machine.adopt(5, reading(), granted(), bench.now, bench.now);
    COMPARE_ACTIONS(bench, u"Acquired 1"_s, u"Acquired 2"_s, u"Acquired 5"_s);
    QCOMPARE(bench.machine.holdCount(), 3);
}

void tst_LeaseModes::conversionEndsAHold()
{
    Bench bench;
    bench.hold();
    bench.acquire(2);
    bench.actions();
    bench.machine.converted(bench.now);
    COMPARE_ACTIONS(bench, u"Released"_s); // both levels, and nothing is sent
    QCOMPARE(bench.machine.phase(), LeaseMachine::Unlocked);
}

void tst_LeaseModes::conversionEndsARelease()
{
    Bench bench;
    bench.hold();
    bench.machine.release(2, bench.now);
    bench.actions();
    bench.machine.converted(bench.now);
    COMPARE_NO_ACTIONS(bench);
    bench.machine.releaseReplied(answer(EngineReply::Stolen), bench.now); // the other token is there
    COMPARE_ACTIONS(bench, u"Released"_s, u"ReleaseDone 2 true"_s);
}

void tst_LeaseModes::conversionLimitsAHold()
{
    Bench bench;
    bench.hold();
    bench.pass(1s);
    bench.machine.converting(2s, bench.now);
    QCOMPARE(bench.machine.deadline(), bench.now + 2s - LeaseMachine::safetyMargin(2s));
    bench.pass(2s);
    bench.machine.tick(bench.now);
    COMPARE_ACTIONS(bench, u"Lost LeaseExpired"_s, u"Abandon"_s);
}

void tst_LeaseModes::failedConversion()
{
    Bench bench;
    bench.hold();
    const LeaseTime deadline = bench.machine.deadline();
    bench.machine.converting(2s, bench.now);
    bench.machine.conversionFailed(false, bench.now);
    COMPARE_NO_ACTIONS(bench);
    QCOMPARE(bench.machine.deadline(), deadline);
}

void tst_LeaseModes::conversionWithoutAReply()
{
    Bench bench;
    bench.hold();
    const LeaseTime limit = bench.now + 2s - LeaseMachine::safetyMargin(2s);
    bench.machine.serverReplaced(bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    bench.machine.converting(2s, bench.now);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now); // sent before the conversion
    QCOMPARE(bench.machine.deadline(), limit);
    bench.actions();
    bench.machine.conversionFailed(true, bench.now);
    COMPARE_ACTIONS(bench, u"Renew"_s);
    QCOMPARE(bench.machine.deadline(), limit);
    bench.machine.renewReplied(answer(EngineReply::Done), bench.now);
    QVERIFY(bench.machine.deadline() > limit);
}

QTEST_APPLESS_MAIN(tst_LeaseModes)
#include "tst_leasemodes.moc"
