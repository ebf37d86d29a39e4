// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locked calls, and reports of failed ones, that run a nested event loop or a scoped lock.

#include "annotationtest.h"
#include "receiver.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qeventloop.h>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

class tst_NestedCalls : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void nestedLoop();
    void nestedLoopSeesWhatWasPosted();
    void nestedLoopWithoutLock();
    void nestedLoopOfAFailure();
    void nestedLoopOfACancelledCall();
    void nestedLoopOfATimeout();
    void scopedInside();
};

void tst_NestedCalls::nestedLoop()
{
    // A slot runs a nested event loop. Slots of other locks run in that loop, slots of its own lock afterwards.
    Sender sender;
    Receiver receiver;
    Receiver other;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
    QVERIFY(connectLocked(&sender, &Sender::named, &other, &Receiver::keyed));
    QEventLoop loop;
    other.body = [&] { loop.quit(); };
    receiver.body = [&] {
        if (receiver.seen.size() == 1) {
            QTimer::singleShot(60s, &loop, &QEventLoop::quit);
            loop.exec();
            QCOMPARE(other.seen, QList<int>{9});
            QCOMPARE(receiver.seen, QList<int>{1});
        }
    };
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.numbered(2);
    Q_EMIT sender.named(u"x"_s, 9);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(receiver.overlaps, 0);
    QCOMPARE(other.seen, QList<int>{9});
}

void tst_NestedCalls::nestedLoopSeesWhatWasPosted()
{
    // An event that was posted behind the call's turn is delivered in the call's nested event loop.
    struct PostsBehind : QObject
    {
        bool eventFilter(QObject *receiver, QEvent *event) override
        {
            if (event->type() != QEvent::User || posted)
                return false;
            posted = true;
            receiver->event(event); // the lock was acquired: this posts the call's turn
            QMetaObject::invokeMethod(
                    this, [this] { delivered = true; }, Qt::QueuedConnection);
            return true;
        }
        bool posted = false;
        bool delivered = false;
    } behind;
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
    bool ended = false;
    receiver.body = [&] {
        QVERIFY(behind.posted);
        QVERIFY(!behind.delivered);
        int turns = 0; // of the nested loop, each of which delivers what was posted before it
        QVERIFY(eventually([&] { return behind.delivered || ++turns == 100; }));
        QVERIFY(behind.delivered);
        ended = true;
    };
    qApp->installEventFilter(&behind);
    Q_EMIT sender.numbered(1);
    // Not true before the nested loop has ended: quitting this loop would wake the nested one.
    QVERIFY(eventually([&] { return ended; }));
}

void tst_NestedCalls::nestedLoopWithoutLock()
{
    // Where the condition is false nothing is waited for.
    Sender sender;
    Receiver receiver;
    receiver.guarded = false;
    bool ranInside = false;
    receiver.body = [&] {
        if (receiver.seen.size() == 1)
            ranInside = eventually([&] { return receiver.seen.size() == 2; });
    };
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::guardedAdd));
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.numbered(2);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QVERIFY(ranInside);
}

void tst_NestedCalls::nestedLoopOfAFailure()
{
    hold("lock:a");
    bool ranInside = false;
    QFuture<int> other;
    QFuture<void> busy = withLock(u"a"_s, LockOptions().withWait(0ms), [] {});
    const auto reported = busy.then([&](const QFuture<void> &) { ranInside = finished(other); });
    other = withLock(u"b"_s, {}, [] { return 1; });
    waitForService(); // both have ended
    QVERIFY(finished(reported));
    QVERIFY(ranInside);
    letGo("lock:a");
}

void tst_NestedCalls::nestedLoopOfACancelledCall()
{
    bool ranInside = false;
    QFuture<int> second;
    QFuture<int> third;
    const auto first = withLock(u"a"_s, {}, [&] { second.cancel(); });
    second = withLock(u"b"_s, {}, [] { return 2; });
    const auto reported = second.onCanceled([&] {
        ranInside = finished(third);
        return 0;
    });
    third = withLock(u"c"_s, {}, [] { return 3; });
    waitForService(); // all three are ready
    QVERIFY(finished(reported));
    QVERIFY(second.isCanceled());
    QVERIFY(ranInside);
    QVERIFY(finished(first));
}

void tst_NestedCalls::nestedLoopOfATimeout()
{
    const QString name = u"w"_s;
    hold("lock:w");
    const LockOptions longWait = options();
    const auto first = withLock(name, longWait, [] { return 1; });
    const LockOptions shortWait = LockOptions().withWait(50ms);
    bool reportedInside = false;
    QFuture<int> third;
    QFuture<void> second = withLock(name, shortWait, [] {});
    const auto reported = second.then([&](const QFuture<void> &) { reportedInside = finished(third); });
    third = withLock(name, shortWait, [] { return 3; });
    const QDeadlineTimer bothExpired(100ms);
    blockUntil([&] { return bothExpired.hasExpired(); });
    QVERIFY(finished(reported));
    QVERIFY(reportedInside);
    QCOMPARE(failureOf(third).error, DistributedLock::TimeoutError);
    letGo("lock:w");
    QVERIFY(finished(first));
    QCOMPARE(first.result(), 1);
}

void tst_NestedCalls::scopedInside()
{
    Sender sender;
    Receiver receiver;
    bool reentered = false;
    receiver.body = [&] {
        const ScopedLock again(u"counter"_s, LockOptions().withWait(0ms));
        reentered = again.isHeld() && again.fencingToken() == fencingTokenHere(u"counter"_s);
    };
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QVERIFY(reentered);
}

QTEST_GUILESS_MAIN(tst_NestedCalls)

#include "tst_nestedcalls.moc"
