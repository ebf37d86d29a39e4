// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Promises 1 to 8 of docs/guarantees.md, each by its number, against a real server. A foreign client reads what it has.
// Promise 9: tests/integration/faults/tst_outages.cpp; promise 10: tst_nestedloops.cpp.

#include "support/locktesting.h"

#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qeventloop.h>
#include <QtCore/qfuturewatcher.h>
#include <QtCore/qrandom.h>
#include <QtCore/qtimer.h>

#include <memory>
#include <thread>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// Waits without an event loop, so that none of our time-outs runs out meanwhile.
bool blockedUntil(const std::function<bool()> &condition)
{
    const QDeadlineTimer deadline(60s);
    while (!condition()) {
        if (deadline.hasExpired())
            return false;
        std::this_thread::yield();
    }
    return true;
}

/// Room for a busy machine, below the time-out of a command: that must not be what ends a hold.
constexpr milliseconds AtOnce = 350ms;

std::chrono::nanoseconds margin(std::chrono::nanoseconds lease)
{
    return lease / 100 + 2ms;
}

/// Follows one lock: each hold must end before the next begins, and no end comes without a hold.
class HoldChecker
{
public:
    explicit HoldChecker(DistributedLock *lock)
    {
        QObject::connect(lock, &DistributedLock::acquired, lock, [this, lock] {
            m_open = true;
            if (!lock->isHeld())
                m_errors << u"acquired() while not held"_s;
        });
        const auto end = [this, lock](const QString &signal) {
            if (!m_open)
                m_errors << signal + u" without a hold"_s;
            m_open = false;
            if (lock->isHeld() && lock->state() != DistributedLock::Acquiring)
                m_errors << signal + u" while held"_s;
        };
        QObject::connect(lock, &DistributedLock::released, lock, [end] { end(u"released()"_s); });
        QObject::connect(lock, &DistributedLock::lost, lock, [end] { end(u"lost()"_s); });
    }

    bool isOpen() const { return m_open; }
    QString errors() const { return m_errors.join(QLatin1String("; ")); }

private:
    bool m_open = false;
    QStringList m_errors;
};

bool isSettled(const DistributedLock &lock, const Spies &spies, qsizetype calls)
{
    return spies.acquiresEnded() == calls && lock.state() != DistributedLock::Acquiring
            && lock.state() != DistributedLock::Releasing;
}

} // namespace

class tst_Promises : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void promise1_everyAcquireEndsOnce_data();
    void promise1_everyAcquireEndsOnce();
    void promise1_everyFutureEndsOnceWhenDestroyed();
    void promise1_randomSequences_data();
    void promise1_randomSequences();
    void promise1_eventLoopInASlot_data();
    void promise1_eventLoopInASlot();
    void promise2_deadlineCountsFromTheSend();
    void promise2_renewalCountsFromItsSend();
    void promise2_suspendedMachine();
    TIMING void promise2_blockedEventLoop();
    void promise3_lostAtTheDeadline();
    void promise3_lostAtTheDeadlineWithoutServer_data();
    TIMING void promise3_lostAtTheDeadlineWithoutServer();
    void promise3_renewalAnswerAfterTheDeadlineChangesNothing();
    void promise4_replyAfterTheWait();
    void promise4_replyAfterTheLease();
    void promise4_replyAfterTheLeaseInABlockedLoop();
    void promise5_stolenKey_data();
    void promise5_stolenKey();
    void promise5_stolenKeyIsNotRenewed();
    void promise5_releaseAfterTheDeadline();
    void promise6_reentryCostsNothing();
    void promise6_lossEndsAllLevels();
    void promise7_fencingTokenRises();
    void promise8_cancelLeavesNothing_data();
    void promise8_cancelLeavesNothing();
    void promise8_timeoutLeavesNothing();
    void promise8_destroyedLockLeavesNothing_data();
    void promise8_destroyedLockLeavesNothing();
    void promise8_destroyedRegistryLeavesNothing();
    void promise8_firstReleaseByDestruction();
    void promise8_releasedLockSendsNothing();

private:
    RedisServer m_server{RedisServer::Options::withTcp()};
};

void tst_Promises::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_Promises::init()
{
    m_server.command({"FLUSHALL"});
}

// 1. Every acquire ends in exactly one of acquired / acquireFailed; every hold in exactly one of
//    released / lost.

void tst_Promises::promise1_everyAcquireEndsOnce_data()
{
    QTest::addColumn<bool>("taken");
    QTest::addColumn<int>("length");
    QTest::newRow("free") << false << 4;
    QTest::newRow("taken") << true << 3;
}

// All sequences of these calls up to a length, by the digits of a number.
void tst_Promises::promise1_everyAcquireEndsOnce()
{
    QFETCH(bool, taken);
    QFETCH(int, length);

    enum Step { Acquire, TryAcquire, Release, Cancel, Turn, Settle, Steps };
    const LogCapture quiet;
    LockRegistry registry(m_server.url());
    int sequences = 1;
    for (int i = 0; i < length; ++i)
        sequences *= Steps;

    for (int sequence = 0; sequence < sequences; ++sequence) {
        DistributedLock lock(&registry, u"all"_s);
        lock.setOptions(options(Outlasting, taken ? 5ms : 60s).withRetryInterval(2ms));
        if (taken)
            m_server.command({"SET", "lock:all", "foreign"});
        HoldChecker checker(&lock);
        Spies spies(&lock);
        qsizetype calls = 0;
        QString text;
        for (int i = 0, rest = sequence; i < length; ++i, rest /= Steps) {
            const auto step = Step(rest % Steps);
            text += QLatin1Char("atrc.w"[step]);
            switch (step) {
            case Acquire:
                lock.acquire();
                ++calls;
                break;
            case TryAcquire:
                lock.tryAcquire();
                ++calls;
                break;
            case Release:
                lock.release();
                break;
            case Cancel:
                lock.cancel();
                break;
            case Turn:
                QCoreApplication::processEvents();
                break;
            default:
                QVERIFY2(eventually([&] { return isSettled(lock, spies, calls); }), qPrintable(text));
                break;
            }
        }
        QVERIFY2(eventually([&] { return isSettled(lock, spies, calls); }), qPrintable(text));
        QVERIFY2(checker.isOpen() == lock.isHeld(), qPrintable(text));
        while (lock.isHeld())
            lock.release();
        QVERIFY2(eventually([&] { return isSettled(lock, spies, calls); }), qPrintable(text));
        QVERIFY2(!checker.isOpen(), qPrintable(text));
        QVERIFY2(checker.errors().isEmpty(), qPrintable(text + QLatin1String(": ") + checker.errors()));
        QVERIFY2(!taken || spies.acquired.isEmpty(), qPrintable(text));
        QVERIFY2(!taken || m_server.get("lock:all") == "foreign", qPrintable(text));
    }
    QVERIFY(eventually([this, taken] { return m_server.exists("lock:all") == taken; }));
}

void tst_Promises::promise1_everyFutureEndsOnceWhenDestroyed()
{
    enum Step { Acquire, TryAcquire, Release, Cancel, Turn, Steps };
    const LogCapture quiet;
    LockRegistry registry(m_server.url());
    constexpr int length = 3;
    for (int sequence = 0; sequence < Steps * Steps * Steps; ++sequence) {
        auto lock = std::make_unique<DistributedLock>(&registry, u"all"_s);
        lock->setOptions(options(Outlasting));
        QList<QFuture<LockResult>> acquires;
        QList<QFuture<bool>> releases;
        for (int i = 0, rest = sequence; i < length; ++i, rest /= Steps) {
            switch (Step(rest % Steps)) {
            case Acquire:
                acquires << lock->acquireAsync();
                break;
            case TryAcquire:
                acquires << lock->tryAcquireAsync();
                break;
            case Release:
                releases << lock->releaseAsync();
                break;
            case Cancel:
                lock->cancel();
                break;
            default:
                QCoreApplication::processEvents();
                break;
            }
        }
        lock.reset();
        for (const auto &future : std::as_const(acquires)) {
            QVERIFY(future.isFinished());
            QVERIFY(!future.isCanceled());
            QCOMPARE(future.resultCount(), 1);
            QVERIFY(future.result().isAcquired() == (future.result().fencingToken > 0));
            QVERIFY(future.result().isAcquired() == future.result().errorString.isEmpty());
        }
        for (const auto &future : std::as_const(releases)) {
            QVERIFY(future.isFinished());
            QVERIFY(!future.isCanceled());
            QCOMPARE(future.resultCount(), 1);
        }
    }
    QVERIFY(eventually([this] { return !m_server.exists("lock:all"); }));
}

void tst_Promises::promise1_randomSequences_data()
{
    QTest::addColumn<quint32>("seed");
    for (quint32 seed = 1; seed <= 6; ++seed)
        QTest::addRow("seed %u", seed) << seed;
    const quint32 seed = QRandomGenerator::global()->generate();
    QTest::addRow("seed %u", seed) << seed;
}

// Several locks of few names in two registries, with losses from outside and of time in between.
void tst_Promises::promise1_randomSequences()
{
    QFETCH(quint32, seed);
    QRandomGenerator random(seed);
    const LogCapture quiet;
    StillRegistry registries[] = {StillRegistry(m_server.url()), StillRegistry(m_server.tcpUrl())};
    struct Subject
    {
        Subject(LockRegistry *registry, const QString &name)
            : lock(registry, name)
            , spies(&lock)
            , checker(&lock)
        {
            lock.setOptions(options(30s, 2500ms).withRetryInterval(300ms));
        }
        DistributedLock lock;
        Spies spies;
        HoldChecker checker;
        qsizetype calls = 0;
    };
    std::vector<std::unique_ptr<Subject>> subjects;
    for (int i = 0; i < 6; ++i)
        subjects.push_back(std::make_unique<Subject>(&registries[i % 2], u"name%1"_s.arg(i / 3)));
    const auto everythingSettled = [&] {
        for (StillRegistry &registry : registries)
            registry.pass(100ms);
        return std::all_of(subjects.begin(), subjects.end(), [](const auto &subject) {
            return isSettled(subject->lock, subject->spies, subject->calls);
        });
    };

    for (int step = 0; step < 600; ++step) {
        Subject &subject = *subjects[random.bounded(quint32(subjects.size()))];
        switch (random.bounded(17)) {
        case 0:
        case 1:
        case 2:
            subject.lock.acquire();
            ++subject.calls;
            break;
        case 3:
            subject.lock.tryAcquire();
            ++subject.calls;
            break;
        case 4:
        case 5:
        case 6:
        case 7:
            subject.lock.release();
            break;
        case 8:
            subject.lock.cancel();
            break;
        case 9:
            m_server.command({"DEL", "lock:" + subject.lock.name().toUtf8()});
            break;
        case 10:
            registries[random.bounded(2)].forceRelease(subject.lock.name());
            break;
        case 11:
            QVERIFY(eventually(everythingSettled));
            break;
        case 12:
            registries[random.bounded(2)].pass(milliseconds(random.bounded(20'000)));
            break;
        default:
            QCoreApplication::processEvents();
            break;
        }
        for (const auto &each : subjects)
            QVERIFY2(each->checker.errors().isEmpty(), qPrintable(each->checker.errors()));
    }
    QVERIFY(eventually(everythingSettled));
    // One that is released is handed over to the next that waits: nobody does any more.
    for (const auto &subject : subjects) {
        while (subject->lock.isHeld())
            subject->lock.release();
    }
    QVERIFY(eventually([&] {
        return everythingSettled() && std::none_of(subjects.begin(), subjects.end(), [](const auto &subject) {
                   return subject->checker.isOpen();
               });
    }));
    for (const auto &subject : subjects) {
        QCOMPARE(subject->spies.acquiresEnded(), subject->calls);
        QVERIFY(!subject->checker.isOpen());
        QCOMPARE(subject->checker.errors(), QString());
    }
    QVERIFY(eventually([this] { return lockKeys(m_server).isEmpty(); }));
}

void tst_Promises::promise1_eventLoopInASlot_data()
{
    QTest::addColumn<QByteArray>("what");
    for (const char *what : {"acquire", "release", "inspect"})
        QTest::newRow(what) << QByteArray(what);
}

// As in a dialog: what the slot asked for before it is answered in it.
void tst_Promises::promise1_eventLoopInASlot()
{
    QFETCH(QByteArray, what);
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"first"_s);
    DistributedLock second(&registry, u"second"_s);
    lock.setOptions(options());
    second.setOptions(options());
    QFutureWatcher<QDistLock::LockInfo> watcher;
    QEventLoop dialog;
    bool answered = false;
    bool ran = false;
    const auto answer = [&] {
        answered = dialog.isRunning();
        dialog.quit();
    };
    connect(&second, &DistributedLock::acquired, this, answer);
    connect(&lock, &DistributedLock::released, this, answer);
    connect(&watcher, &QFutureWatcherBase::finished, this, answer);
    connect(&lock, &DistributedLock::acquired, this, [&] {
        if (what == "acquire")
            second.acquire();
        else if (what == "release")
            lock.release();
        else
            watcher.setFuture(registry.inspect(lock.name()));
        QTimer::singleShot(60s, &dialog, &QEventLoop::quit);
        dialog.exec();
        ran = true;
    });
    lock.acquire();
    QVERIFY(eventually([&] { return ran; }));
    QVERIFY(answered);
    QCOMPARE(m_server.exists("lock:first"), what != "release");
    QCOMPARE(m_server.exists("lock:second"), what == "acquire");
    if (what == "inspect")
        QVERIFY(watcher.result().held);
}

// 2. isHeld() reads the clock. Deadline = time the confirmed command was sent + lease - (1 % + 2 ms).

void tst_Promises::promise2_deadlineCountsFromTheSend()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    DistributedLock lock(&registry, u"deadline"_s);
    lock.setOptions(options(30s, LockOptions::Forever).withAutoRenew(false));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock)); // connects
    QCOMPARE(lock.remainingTime(), 30s - margin(30s));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));

    proxy.setRepliesHeld(true);
    const qint64 replies = proxy.repliesForwarded();
    lock.acquire();
    sendNow();
    QVERIFY(blockedUntil([&] { return m_server.exists("lock:deadline"); }));
    QVERIFY(!lock.isHeld());
    registry.pass(700ms);
    QVERIFY(!lock.isHeld());
    proxy.setRepliesHeld(false);
    QVERIFY(blockedUntil([&] { return proxy.repliesForwarded() > replies; }));
    QVERIFY(eventually([&] { return spies.acquired.size() == 2; }));
    QCOMPARE(lock.remainingTime(), 30s - 700ms - margin(30s));

    registry.advance(30s - 700ms - margin(30s) - 1ns);
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.remainingTime(), 1ns);
    registry.advance(1ns);
    QVERIFY(!lock.isHeld());
    QCOMPARE(lock.remainingTime(), 0ns);
}

void tst_Promises::promise2_renewalCountsFromItsSend()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    DistributedLock lock(&registry, u"deadline"_s);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));

    proxy.setRepliesHeld(true);
    const qint64 replies = proxy.repliesForwarded();
    const qint64 before = m_server.commandsProcessed("evalsha") + m_server.commandsProcessed("eval");
    registry.pass(10s); // a third of the lease
    sendNow();
    QVERIFY(blockedUntil(
            [&] { return m_server.commandsProcessed("evalsha") + m_server.commandsProcessed("eval") > before; }));
    registry.pass(400ms);
    proxy.setRepliesHeld(false);
    QVERIFY(blockedUntil([&] { return proxy.repliesForwarded() > replies; }));
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    QCOMPARE(lock.remainingTime(), 30s - 400ms - margin(30s));
}

void tst_Promises::promise2_suspendedMachine()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"suspend"_s);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    m_server.command({"PERSIST", "lock:suspend"}); // the server does not end it

    LogCapture log;
    registry.advance(8h);
    // Nothing was delivered yet.
    QVERIFY(!lock.isHeld());
    QCOMPARE(lock.remainingTime(), 0ns);
    QVERIFY(spies.lost.isEmpty());
    // Qt's timers did not run either: the watchdog reads the clock only once a second.
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QCOMPARE(lock.fencingToken(), 0);
    QCOMPARE(log.count({u"suspend"_s, u"LeaseExpired"_s, u"28770"_s}), 1);
    processEvents();
    QCOMPARE(spies.lost.size(), 1);
    QVERIFY(spies.released.isEmpty());
    QVERIFY(spies.renewed.isEmpty());
    // The server may have been suspended, too, so that the key has not expired: it is given back.
    QVERIFY(eventually([&] { return !m_server.exists("lock:suspend"); }));
}

void tst_Promises::promise2_blockedEventLoop()
{
    Support::leavesRoomFor(50ms); // until the first renewal
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"blocked"_s);
    lock.setOptions(options(300ms));
    Spies spies(&lock);
    bool heldInLost = true;
    connect(&lock, &DistributedLock::lost, &lock, [&] { heldInLost = lock.isHeld(); });
    QVERIFY(acquireNow(&lock));

    std::this_thread::sleep_for(400ms); // the fault
    QVERIFY(!lock.isHeld());
    QVERIFY(spies.lost.isEmpty());
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QVERIFY(!heldInLost);
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(spies.renewed.isEmpty());
    QVERIFY(spies.released.isEmpty());
}

// 3. lost comes at the deadline at the latest where the event loop lives, with Redis unreachable too; a
//    renewal answer after it changes nothing.

void tst_Promises::promise3_lostAtTheDeadline()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"deadline"_s);
    lock.setOptions(options(30s).withAutoRenew(false));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    registry.pass(30s - margin(30s) - 2ms);
    QVERIFY(spies.lost.isEmpty());
    QVERIFY(lock.isHeld());
    QCOMPARE(spies.atRisk.size(), 1);
    QCOMPARE(lock.state(), DistributedLock::AtRisk);
    // Timers count in milliseconds: within the last one it is over, rather than late.
    registry.pass(1ms);
    QCOMPARE(spies.lost.size(), 1);
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(!lock.isHeld());
}

void tst_Promises::promise3_lostAtTheDeadlineWithoutServer_data()
{
    QTest::addColumn<QString>("fault");
    QTest::newRow("stopped server") << u"pause"_s;
    QTest::newRow("black hole") << u"blackhole"_s;
    QTest::newRow("refused") << u"refuse"_s;
}

void tst_Promises::promise3_lostAtTheDeadlineWithoutServer()
{
    QFETCH(QString, fault);
    Support::leavesRoomFor(AtOnce / 2); // a lease that has been renewed has 400 ms
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, u"unreachable"_s);
    lock.setOptions(options(600ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));

    // The deadline of the last confirmed renewal, and when lost() came.
    const auto clock = QDistLock::LeaseClock::system();
    QDistLock::LeaseTime deadline;
    QDistLock::LeaseTime lostAt;
    qsizetype atRiskBefore = 0;
    const auto confirmed = [&] {
        deadline = clock->now() + lock.remainingTime();
        atRiskBefore = spies.atRisk.size();
    };
    confirmed();
    connect(&lock, &DistributedLock::renewed, &lock, confirmed);
    connect(&lock, &DistributedLock::lost, &lock, [&] { lostAt = clock->now(); });

    auto lastTurn = clock->now();
    std::chrono::nanoseconds longestTurn{0};
    if (fault == QLatin1String("pause")) {
        m_server.pause();
    } else if (fault == QLatin1String("blackhole")) {
        proxy.setBlackHole(true);
    } else {
        proxy.setRefusing(true);
        proxy.resetAll();
    }
    const bool lost = eventually([&] {
        const auto now = clock->now();
        longestTurn = std::max(longestTurn, now - std::exchange(lastTurn, now));
        return spies.lost.size() == 1;
    });
    m_server.resume();
    proxy.heal();
    QVERIFY(lost);
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    // A loop that slept through the last third has nothing to warn of.
    const qsizetype atRisk = spies.atRisk.size() - atRiskBefore;
    QVERIFY2(atRisk == 1 || (atRisk == 0 && longestTurn > 150ms), qPrintable(QString::number(atRisk)));
    // At the deadline on an idle machine; this one may be busy.
    QVERIFY2(lostAt <= deadline + AtOnce, qPrintable(QString::number((lostAt - deadline).count())));
    QVERIFY(lostAt > deadline - 5ms);
    QVERIFY(spies.released.isEmpty());
    // What the server kept meanwhile is given back or expires, and the lock can be had again.
    QVERIFY(acquireNow(&lock));
}

void tst_Promises::promise3_renewalAnswerAfterTheDeadlineChangesNothing()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    DistributedLock lock(&registry, u"late"_s);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));

    proxy.setRepliesHeld(true);
    const qint64 replies = proxy.repliesForwarded();
    m_server.command({"PEXPIRE", "lock:late", "100000000"});
    registry.pass(10s);
    sendNow();
    QVERIFY(blockedUntil([&] { return m_server.pttl("lock:late") <= 30000; })); // renewed there
    m_server.command({"PERSIST", "lock:late"});                                 // the server does not end it
    // The answer is the next thing the loop finds, but the clock comes first.
    registry.advance(30s);
    proxy.setRepliesHeld(false);
    QVERIFY(blockedUntil([&] { return proxy.repliesForwarded() > replies; }));
    QVERIFY(!lock.isHeld());
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(eventually([&] { return !m_server.exists("lock:late"); }));
    processEvents();
    QVERIFY(spies.renewed.isEmpty());
    QCOMPARE(spies.lost.size(), 1);
    QVERIFY(!lock.isHeld());
}

// 4. A reply that arrives too late never becomes acquired; what it acquired is given back.

void tst_Promises::promise4_replyAfterTheWait()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    DistributedLock lock(&registry, u"late"_s);
    lock.setOptions(options(Outlasting));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));

    proxy.setRepliesHeld(true);
    lock.setWaitTime(5s);
    lock.acquire();
    sendNow();
    QVERIFY(blockedUntil([&] { return m_server.exists("lock:late"); }));
    registry.pass(5s - 1ns);
    sendNow();
    QVERIFY(spies.failed.isEmpty());
    registry.pass(1ns);
    sendNow();
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(spies.failure(), DistributedLock::ConnectionError);
    QVERIFY(lock.errorString().contains(QLatin1String("late")));
    proxy.setRepliesHeld(false);
    QVERIFY(eventually([&] { return !m_server.exists("lock:late"); }));
    processEvents();
    QCOMPARE(spies.acquired.size(), 1);
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
}

void tst_Promises::promise4_replyAfterTheLease()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    DistributedLock lock(&registry, u"late"_s);
    lock.setOptions(options(Outlasting, LockOptions::Forever));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1 && isListening(&registry); }));

    proxy.setRepliesHeld(true);
    const qint64 replies = proxy.repliesForwarded();
    lock.acquire();
    sendNow();
    QVERIFY(blockedUntil([&] { return m_server.exists("lock:late"); }));
    const QByteArray lateToken = m_server.get("lock:late");
    registry.advance(Outlasting);
    proxy.setRepliesHeld(false);
    QVERIFY(blockedUntil([&] { return proxy.repliesForwarded() > replies; }));
    // Given back, although this clock says that it has expired; for the server it has not.
    QVERIFY(eventually([&] { return m_server.get("lock:late") != lateToken; }));
    QCOMPARE(spies.acquired.size(), 1);
    QVERIFY(!lock.isHeld());
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    // The next attempt has a new token.
    registry.pass(2s);
    QVERIFY(eventually([&] { return spies.acquired.size() == 2; }));
    QVERIFY(m_server.get("lock:late") != lateToken);
    QCOMPARE(lock.remainingTime(), Outlasting - margin(Outlasting));
    QVERIFY(spies.failed.isEmpty());
}

void tst_Promises::promise4_replyAfterTheLeaseInABlockedLoop()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"late"_s);
    lock.setOptions(options(Outlasting));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));

    lock.acquire();
    sendNow();
    QVERIFY(blockedUntil([&] { return m_server.exists("lock:late"); }));
    registry.advance(Outlasting); // the fault: the reply lies in the socket meanwhile
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 2; }));
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(spies.acquired.size(), 1);
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

// 5. Release and renew touch the key only while it holds this acquisition's token; a release of a lock that
//    was gone reports it.

void tst_Promises::promise5_stolenKey_data()
{
    QTest::addColumn<bool>("deleted");
    QTest::newRow("overwritten") << false;
    QTest::newRow("deleted") << true;
}

void tst_Promises::promise5_stolenKey()
{
    QFETCH(bool, deleted);
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"mine"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));

    if (deleted)
        QCOMPARE(m_server.cli({"DEL", "lock:mine"}), QByteArray("1"));
    else
        QCOMPARE(m_server.cli({"SET", "lock:mine", "foreign"}), QByteArray("OK"));
    LogCapture log;
    const QFuture<bool> release = lock.releaseAsync();
    QVERIFY(!lock.isHeld());
    QVERIFY(eventually([&] { return spies.holdsEnded() == 1; }));
    QVERIFY(spies.released.isEmpty());
    QCOMPARE(spies.reason(), deleted ? DistributedLock::Deleted : DistributedLock::Stolen);
    QVERIFY(eventually([&] { return release.isFinished(); })); // at the latest one event after lost()
    QVERIFY(!release.result());
    const QString word = deleted ? u"Deleted"_s : u"Stolen"_s;
    QCOMPARE(log.count({u"\"mine\""_s, u"lost"_s, word}), 1);
    QCOMPARE(m_server.get("lock:mine"), deleted ? QByteArray() : QByteArray("foreign"));
    QCOMPARE(m_server.pttl("lock:mine"), deleted ? -2 : -1);
}

void tst_Promises::promise5_stolenKeyIsNotRenewed()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"mine"_s);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(m_server.cli({"SET", "lock:mine", "foreign", "PX", "600000"}), QByteArray("OK"));
    registry.pass(10s); // a third of the lease
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::Stolen);
    QCOMPARE(m_server.get("lock:mine"), QByteArray("foreign"));
    QVERIFY(m_server.pttl("lock:mine") > 300000);

    m_server.command({"DEL", "lock:mine"});
    QVERIFY(acquireNow(&lock));
    m_server.cli({"DEL", "lock:mine"});
    registry.pass(10s);
    QVERIFY(eventually([&] { return spies.lost.size() == 2; }));
    QCOMPARE(spies.reason(1), DistributedLock::Deleted);
    QVERIFY(!m_server.exists("lock:mine"));
}

void tst_Promises::promise5_releaseAfterTheDeadline()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"overrun"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    LogCapture log;
    registry.advance(lock.remainingTime() + 300ms); // the fault
    m_server.command({"SET", "lock:overrun", "successor"});
    const QFuture<bool> release = lock.releaseAsync();
    QVERIFY(eventually([&] { return release.isFinished() && spies.holdsEnded() == 1; }));
    QVERIFY(!release.result());
    QCOMPARE(spies.lost.size(), 1);
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    // Name and overrun.
    const QString line = log.messages().filter(u"LeaseExpired"_s).value(0);
    const QRegularExpressionMatch match = QRegularExpression(u"\"overrun\".* (\\d+) ms"_s).match(line);
    QVERIFY2(match.hasMatch(), qPrintable(line));
    QCOMPARE(match.captured(1).toInt(), 300);
    processEvents();
    QCOMPARE(m_server.get("lock:overrun"), QByteArray("successor"));
}

// 6. Re-entry costs no command; released comes with the last level; lost ends all levels.

void tst_Promises::promise6_reentryCostsNothing()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"levels"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    const QByteArray channel = m_server.get("lock:levels").split(':').first();
    QVERIFY(eventually(
            [&] { return m_server.subscriberCount("lock:client:" + channel) == 1 && isListening(&registry); }));

    const qint64 before = m_server.commandsProcessed();
    for (int level = 2; level <= 5; ++level) {
        if (level % 2 == 0)
            lock.acquire();
        else
            lock.tryAcquire();
        QCOMPARE(lock.holdCount(), level);
        QVERIFY(eventually([&] { return spies.acquired.size() == level; }));
    }
    QCOMPARE(lock.fencingToken(), token);
    for (int level = 4; level >= 1; --level) {
        const QFuture<bool> release = lock.releaseAsync();
        QCOMPARE(lock.holdCount(), level);
        QVERIFY(eventually([&] { return release.isFinished(); }));
        QVERIFY(release.result());
    }
    QVERIFY(spies.released.isEmpty());
    QVERIFY(lock.isHeld());
    QCOMPARE(m_server.commandsProcessed(), before);

    lock.release();
    QCOMPARE(lock.holdCount(), 0);
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QVERIFY(!m_server.exists("lock:levels"));

    // The whole of it: two commands of ours.
    const qint64 scripts = m_server.commandsProcessed("evalsha");
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 2; }));
    QCOMPARE(m_server.commandsProcessed("evalsha"), scripts + 2);
}

void tst_Promises::promise6_lossEndsAllLevels()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"levels"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    for (int level = 1; level <= 3; ++level)
        lock.acquire();
    QVERIFY(eventually([&] { return spies.acquired.size() == 3; }));
    QCOMPARE(lock.holdCount(), 3);
    const QByteArray client = m_server.get("lock:levels").split(':').first();
    QVERIFY(eventually([&] { return m_server.subscriberCount("lock:client:" + client) == 1; }));

    const auto forced = registry.forceRelease(u"levels"_s);
    QVERIFY(eventually([&] { return spies.lost.size() == 1 && forced.isFinished(); }));
    QCOMPARE(forced.result().value, LockRegistry::Done);
    QCOMPARE(spies.reason(), DistributedLock::ForcedRelease);
    QCOMPARE(lock.holdCount(), 0);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    const QFuture<bool> release = lock.releaseAsync(); // of a level that is no more
    QVERIFY(eventually([&] { return release.isFinished(); }));
    QVERIFY(!release.result());
    processEvents();
    QCOMPARE(spies.holdsEnded(), 1);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.holdCount(), 1);
}

// 7. fencingToken() is strictly greater for each later acquisition of the name.

void tst_Promises::promise7_fencingTokenRises()
{
    RedisServer server;
    QVERIFY(server.start());
    LockRegistry first(server.url());
    LockRegistry second(server.url());
    DistributedLock one(&first, u"fence"_s);
    DistributedLock other(&second, u"fence"_s);
    one.setOptions(options().withAutoRenew(false));
    other.setOptions(options().withAutoRenew(false));
    Spies spies(&one);
    QList<qint64> tokens;
    const auto acquire = [&tokens](DistributedLock *lock) {
        if (!acquireNow(lock))
            return false;
        tokens << lock->fencingToken();
        return true;
    };
    const auto release = [](DistributedLock *lock) {
        lock->release();
        return eventually([lock] { return lock->state() == DistributedLock::Unlocked; });
    };

    QVERIFY(acquire(&one));
    QVERIFY(tokens.last() > 0);
    QVERIFY(release(&one));
    QVERIFY(acquire(&other));
    QVERIFY(release(&other));
    QVERIFY(acquire(&one));
    server.command({"PEXPIRE", "lock:fence", "1"});
    QVERIFY(eventually([&] { return !server.exists("lock:fence"); }));
    QVERIFY(acquire(&other));
    QVERIFY(release(&one));
    QCOMPARE(spies.lost.size(), 1); // expired
    QCOMPARE(server.cli({"DEL", "{lock:fence}:fence"}), QByteArray("1"));
    QVERIFY(release(&other));
    QVERIFY(acquire(&one));
    QVERIFY(release(&one));
    server.cli({"FLUSHALL"});
    QVERIFY(acquire(&one));
    server.kill(); // nothing outlives it
    QVERIFY(server.start());
    QVERIFY(release(&one));
    QVERIFY(!server.exists("{lock:fence}:fence"));
    QVERIFY(acquire(&other));
    QVERIFY(release(&other));
    server.cli({"SET", "{lock:fence}:fence", "not a number"});
    QVERIFY(acquire(&other));
    QVERIFY(release(&other));
    // Counted on by a server whose clock was ahead.
    const qint64 ahead = tokens.last() + 1'000'000'000'000;
    server.cli({"SET", "{lock:fence}:fence", QByteArray::number(ahead)});
    QVERIFY(acquire(&one));
    QCOMPARE(tokens.last(), ahead + 1);
    QVERIFY(release(&one));
    QVERIFY(acquire(&other));
    QVERIFY(release(&other));
    for (int i = 0; i < 200; ++i) {
        DistributedLock *lock = i % 2 ? &one : &other;
        QVERIFY(acquire(lock));
        QVERIFY(release(lock));
    }
    for (qsizetype i = 1; i < tokens.size(); ++i)
        QVERIFY2(tokens.at(i) > tokens.at(i - 1), qPrintable(QString::number(i)));
    // Kept far longer than any lease, but not for ever.
    QVERIFY(server.pttl("{lock:fence}:fence") > std::chrono::milliseconds(24h).count());
}

// 8. Cancel, timeout and destruction leave no key, queue entry, timer, subscription or late signal behind.

void tst_Promises::promise8_cancelLeavesNothing_data()
{
    QTest::addColumn<QString>("when");
    QTest::newRow("at once") << u"at once"_s;
    QTest::newRow("sent") << u"sent"_s;
    QTest::newRow("answer crosses") << u"crosses"_s;
    QTest::newRow("while waiting") << u"waiting"_s;
}

void tst_Promises::promise8_cancelLeavesNothing()
{
    QFETCH(QString, when);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock warmUp(&registry, u"other"_s);
    QVERIFY(acquireNow(&warmUp));
    warmUp.release();
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));

    DistributedLock lock(&registry, u"cancelled"_s);
    lock.setOptions(options(Outlasting, LockOptions::Forever));
    Spies spies(&lock);
    if (when == QLatin1String("waiting"))
        m_server.command({"SET", "lock:cancelled", "foreign"});
    if (when == QLatin1String("crosses"))
        proxy.setRepliesHeld(true);
    const qint64 before = m_server.commandsProcessed("evalsha");
    lock.acquire();
    if (when == QLatin1String("sent") || when == QLatin1String("crosses"))
        sendNow();
    if (when == QLatin1String("crosses"))
        QVERIFY(blockedUntil([&] { return m_server.exists("lock:cancelled"); }));
    else if (when == QLatin1String("waiting"))
        QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before + 2; }));
    lock.cancel();
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(spies.failed.isEmpty()); // reported from the event loop
    sendNow();
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(spies.failure(), DistributedLock::CancelledError);
    proxy.setRepliesHeld(false);

    // Answered in order: what comes after the round trip of another lock comes after all of it.
    QVERIFY(acquireNow(&warmUp));
    warmUp.release();
    QVERIFY(eventually([&] { return warmUp.state() == DistributedLock::Unlocked; }));
    if (when == QLatin1String("waiting"))
        QCOMPARE(m_server.command({"GETDEL", "lock:cancelled"}).toByteArray(), QByteArray("foreign"));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QCOMPARE(spies.total(), 1);
    QCOMPARE(lock.queuePosition(), -1);
    const auto inspected = registry.inspect(lock.name());
    QVERIFY(eventually([&] { return inspected.isFinished(); }));
    QCOMPARE(inspected.result().error, DistributedLock::NoError);
    QVERIFY(!inspected.result().held);
    QCOMPARE(inspected.result().queueLength, 0);
}

void tst_Promises::promise8_timeoutLeavesNothing()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"timeout"_s);
    lock.setOptions(options(Outlasting, 5s).withRetryInterval(1s));
    m_server.command({"SET", "lock:timeout", "foreign"});
    Spies spies(&lock);
    lock.acquire();
    // Answers come in order: once this one is there, so is the other's.
    DistributedLock other(&registry, u"other"_s);
    QVERIFY(acquireNow(&other));
    other.release();
    QVERIFY(eventually([&] { return other.state() == DistributedLock::Unlocked; }));
    registry.pass(5s - 1ns);
    processEvents();
    QVERIFY(spies.failed.isEmpty());
    registry.pass(1ns);
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::TimeoutError);
    m_server.command({"DEL", "lock:timeout"});

    // No acquire is pending: the lock is not taken although it is free, however much time passes.
    for (int i = 0; i < 5; ++i) {
        registry.pass(30s);
        QVERIFY(acquireNow(&other));
        other.release();
        QVERIFY(eventually([&] { return other.state() == DistributedLock::Unlocked; }));
    }
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QCOMPARE(spies.total(), 1);
}

void tst_Promises::promise8_destroyedLockLeavesNothing_data()
{
    QTest::addColumn<QString>("when");
    for (const char *when :
         {"asked", "sent", "answer crosses", "waiting", "held", "renewing", "releasing", "in acquired()"})
        QTest::newRow(when) << QString::fromLatin1(when);
}

void tst_Promises::promise8_destroyedLockLeavesNothing()
{
    QFETCH(QString, when);
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    DistributedLock other(&registry, u"other"_s);
    QVERIFY(acquireNow(&other));
    other.release();
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty() && isListening(&registry); }));

    auto lock = std::make_unique<DistributedLock>(&registry, u"gone"_s);
    lock->setOptions(options(30s, LockOptions::Forever));
    Spies spies(lock.get());
    const auto is = [&when](const char *text) { return when == QLatin1String(text); };
    if (is("waiting"))
        m_server.command({"SET", "lock:gone", "foreign"});
    if (is("answer crosses"))
        proxy.setRepliesHeld(true);
    if (is("in acquired()"))
        connect(lock.get(), &DistributedLock::acquired, this, [&lock] { lock.reset(); });
    const QFuture<LockResult> acquire = lock->acquireAsync();
    if (is("sent") || is("answer crosses"))
        sendNow();
    if (is("answer crosses"))
        QVERIFY(blockedUntil([&] { return m_server.exists("lock:gone"); }));
    else if (is("in acquired()"))
        QVERIFY(eventually([&] { return !lock; }));
    else if (is("held") || is("renewing") || is("releasing"))
        QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
    if (is("renewing") || is("releasing")) {
        proxy.setRepliesHeld(true);
        if (is("renewing"))
            registry.pass(10s);
        else
            lock->release();
        sendNow();
    }
    if (is("waiting"))
        QVERIFY(eventually([&] { return lock->queuePosition() == 0; }));
    lock.reset();
    QVERIFY(acquire.isFinished());
    proxy.setRepliesHeld(false);

    const auto roundTrip = [&other] {
        const bool acquired = acquireNow(&other);
        other.release();
        return acquired && eventually([&other] { return other.state() == DistributedLock::Unlocked; });
    };
    QVERIFY(roundTrip());
    if (is("waiting"))
        QCOMPARE(m_server.command({"GETDEL", "lock:gone"}).toByteArray(), QByteArray("foreign"));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    // No timer of it is left: what is sent from now on is the other's.
    const qint64 before = m_server.commandsProcessed("evalsha");
    for (int i = 1; i <= 3; ++i) {
        registry.pass(1min);
        QVERIFY(roundTrip());
        QCOMPARE(m_server.commandsProcessed("evalsha"), before + 2 * i);
    }
    QCOMPARE(acquire.resultCount(), 1);
}

void tst_Promises::promise8_destroyedRegistryLeavesNothing()
{
    QVERIFY(eventually([&] { return m_server.connectedClients() == 0; })); // of the test before
    auto registry = std::make_unique<LockRegistry>(m_server.url());
    DistributedLock held(registry.get(), u"held"_s);
    DistributedLock waiting(registry.get(), u"waiting"_s);
    DistributedLock *cached = registry->obtain(u"cached"_s);
    m_server.command({"SET", "lock:waiting", "foreign"});
    Spies spies(&held);
    Spies waitingSpies(&waiting);
    QVERIFY(acquireNow(&held));
    QVERIFY(acquireNow(cached));
    waiting.acquire();
    QVERIFY(eventually([&] { return m_server.channels().size() == 1 && waiting.queuePosition() == 0; }));
    QCOMPARE(m_server.connectedClients(), 2);
    QCOMPARE(lockKeys(m_server),
             (QList<QByteArray>{"lock:cached", "lock:held", "lock:waiting", "{lock:waiting}:queue"}));

    registry.reset();
    QVERIFY(!held.isHeld());
    QVERIFY(eventually([&] { return m_server.connectedClients() == 0; }));
    QCOMPARE(m_server.channels(), QList<QByteArray>());
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"lock:waiting"});
    QVERIFY(eventually([&] { return spies.lost.size() == 1 && waitingSpies.failed.size() == 1; }));
    QCOMPARE(waitingSpies.failure(), DistributedLock::ConnectionError);
    processEvents();
    QCOMPARE(spies.holdsEnded(), 1);
    QCOMPARE(waitingSpies.total(), 2); // acquireFailed() and errorOccurred()
    // A lock that outlived its registry fails, and says so.
    held.acquire();
    QVERIFY(eventually([&] { return held.state() == DistributedLock::Unlocked && spies.acquiresEnded() == 2; }));
    QCOMPARE(spies.failure(), DistributedLock::ConnectionError);
    QVERIFY2(held.errorString().contains(QLatin1String("registry")), qPrintable(held.errorString()));
}

// Nobody is there to send the script whole when the server does not know it yet.
void tst_Promises::promise8_firstReleaseByDestruction()
{
    m_server.command({"SCRIPT", "FLUSH"});
    {
        LockRegistry registry(m_server.url());
        DistributedLock lock(&registry, u"first"_s);
        lock.setOptions(options(Outlasting));
        QVERIFY(acquireNow(&lock));
        QVERIFY(m_server.exists("lock:first"));
    }
    QVERIFY(eventually([&] { return !m_server.exists("lock:first"); }));

    m_server.command({"SCRIPT", "FLUSH"});
    {
        LockRegistry registry(m_server.url());
        DistributedLock lock(&registry, u"second"_s);
        lock.setOptions(options(Outlasting));
        QVERIFY(acquireNow(&lock));
        lock.release();
        sendNow();
    }
    QVERIFY(eventually([&] { return !m_server.exists("lock:second"); }));
}

void tst_Promises::promise8_releasedLockSendsNothing()
{
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"quiet"_s);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const QByteArray client = m_server.get("lock:quiet").split(':').first();
    QVERIFY(eventually([&] { return m_server.subscriberCount("lock:client:" + client) == 1; }));
    registry.pass(10s);
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));

    const qint64 before = m_server.commandsProcessed();
    const qsizetype reported = spies.total();
    for (int i = 0; i < 20; ++i) {
        registry.pass(10s);
        processEvents();
    }
    QCOMPARE(m_server.commandsProcessed(), before);
    QCOMPARE(spies.total(), reported);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Promises)

#include "tst_promises.moc"
