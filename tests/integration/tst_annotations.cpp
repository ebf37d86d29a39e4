// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Annotated methods on a real server: connectLocked(), invokeLocked(), withLock().

#include "locktesting.h"

#include "support/faultproxy.h"
#include "support/posix.h"

#include <QDistLock/Annotations>

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qeventloop.h>
#include <QtCore/qpointer.h>
#include <QtCore/qprocess.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

using namespace LockTesting;
using namespace QDistLock;

using Support::TurnLimit;

namespace {

struct Order
{
    Q_GADGET
    Q_PROPERTY(int number MEMBER number)
    Q_PROPERTY(bool urgent MEMBER urgent)
public:
    int number = 0;
    bool urgent = false;
};

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void numbered(int number);
    void named(const QString &name, int number);
    void ordered(const Order &order);
    void fired();
    void sent(Sender *sender);
    void turned(Qt::Orientation orientation);
    void checked(bool on);
};

} // namespace

class Receiver : public QObject
{
    Q_OBJECT
    Q_PROPERTY(QString tenant MEMBER tenant)
    Q_PROPERTY(bool guarded MEMBER guarded)
    QDL_LOCKED_METHOD(add, "counter", "wait=5min; lease=20s; retryInterval=20ms")
    QDL_LOCKED_METHOD(tryAdd, "counter", "onBusy=skip")
    QDL_LOCKED_METHOD(mustAdd, "counter", "onBusy=fail")
    QDL_LOCKED_METHOD(soonAdd, "counter", "wait=300ms; retryInterval=20ms")
    QDL_LOCKED_METHOD(keyed, "{name}/{this.tenant}", "retryInterval=20ms")
    QDL_LOCKED_METHOD(ordered, "order:{order.number}", "condition=order.urgent; onBusy=fail")
    QDL_LOCKED_METHOD(guardedAdd, "guarded", "condition=this.guarded; onBusy=fail")
    QDL_LOCKED_METHOD(twoLocks, "first", "wait=1min; retryInterval=20ms")
    QDL_LOCKED_METHOD(twoLocks, "second", "wait=1min; retryInterval=20ms")
    QDL_LOCKED_METHOD(twoLocksReversed, "second", "wait=1min; retryInterval=20ms")
    QDL_LOCKED_METHOD(twoLocksReversed, "first", "wait=1min; retryInterval=20ms")
    QDL_LOCKED_METHOD(kept, "kept", "minHold=2s; lease=5s; onBusy=fail")
    QDL_LOCKED_METHOD(shortLease, "short", "lease=300ms; wait=10s; retryInterval=20ms; autoRenew=false")
    QDL_LOCKED_METHOD(renewed, "renewed", "lease=1500ms; wait=10s")
    QDL_LOCKED_METHOD(elsewhere, "elsewhere", "server=memory:elsewhere")
    QDL_LOCKED_METHOD(broken, "counter:{nr}")
    QDL_LOCKED_METHOD(badServer, "x", "server=redis://user:topsecret@127.0.0.1:1; wait=100ms")
    QDL_LOCKED_METHOD(sent, "sent", "retryInterval=20ms")
    QDL_LOCKED_METHOD(numbered, "number:{number}")
    QDL_LOCKED_METHOD(viewed, "view:{name}")

public:
    QString tenant = QStringLiteral("acme");
    bool guarded = true;
    QList<int> seen;
    QStringList keys;
    std::function<void()> body;
    bool running = false;
    int overlaps = 0;

    void note(int number, const QString &lock = {})
    {
        if (std::exchange(running, true))
            ++overlaps;
        const QPointer<Receiver> alive(this);
        seen.append(number);
        if (!lock.isEmpty() && !isLockedHere(lock))
            ++overlaps;
        if (const auto now = body)
            now();
        if (alive)
            running = false;
    }

    Q_INVOKABLE int sum(int a, int b) { return a + b; }

public Q_SLOTS:
    void add(int number) { note(number, QStringLiteral("counter")); }
    void tryAdd(int number) { note(number, QStringLiteral("counter")); }
    void mustAdd(int number) { note(number, QStringLiteral("counter")); }
    void soonAdd(int number) { note(number, QStringLiteral("counter")); }
    void keyed(const QString &name, int number)
    {
        keys.append(name);
        note(number, name + u'/' + tenant);
    }
    void ordered(const Order &order) { note(isLockedHere(QStringLiteral("order:%1").arg(order.number)) ? 1 : 0); }
    void guardedAdd(int number)
    {
        Q_UNUSED(number)
        note(isLockedHere(QStringLiteral("guarded")) ? 1 : 0);
    }
    void twoLocks(int number)
    {
        note(number, QStringLiteral("first"));
        if (!isLockedHere(QStringLiteral("second")))
            ++overlaps;
    }
    void twoLocksReversed(int number)
    {
        note(number, QStringLiteral("first"));
        if (!isLockedHere(QStringLiteral("second")))
            ++overlaps;
    }
    void kept() { note(0, QStringLiteral("kept")); }
    void shortLease(int number) { note(number, QStringLiteral("short")); }
    void renewed() { note(0, QStringLiteral("renewed")); }
    void elsewhere() { note(isLockedHere(QUrl(QStringLiteral("memory:elsewhere")), QStringLiteral("elsewhere")) ? 1 : 0); }
    void broken(int number) { note(number); }
    void badServer() { note(0); }
    void free(int number) { note(number); }
    void sent(Sender *sender) { note(sender ? 1 : 0); }
    void numbered(int number) { note(number, QStringLiteral("number:%1").arg(number)); }
    void viewed(QStringView name) { note(int(name.size()), QStringLiteral("view:") + name.toString()); }
};

/// What invokeLocked() is tried on.
class Invokable : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(twice, "invoke:{value}", "retryInterval=20ms")
    QDL_LOCKED_METHOD(over, "invoke:over")
    QDL_LOCKED_METHOD(skipped, "invoke:busy", "onBusy=skip")
    QDL_LOCKED_METHOD(failing, "invoke:busy", "onBusy=fail")
    QDL_LOCKED_METHOD(waiting, "invoke:busy", "wait=200ms; retryInterval=20ms")
    QDL_LOCKED_METHOD(patient, "invoke:busy", "wait=forever; retryInterval=20ms")
    QDL_LOCKED_METHOD(throwing, "invoke:throw")
    QDL_LOCKED_METHOD(anything, "invoke:any")
    QDL_LOCKED_METHOD(nothing, "invoke:nothing")
    QDL_LOCKED_METHOD(where, "invoke:where")
    QDL_LOCKED_METHOD(wrong, "invoke:{nr}")
    QDL_LOCKED_METHOD(defaulted, "invoke:{a}")
    QDL_LOCKED_METHOD(object, "invoke:any")
public:
    int calls = 0;

    Q_INVOKABLE int twice(int value)
    {
        ++calls;
        return isLockedHere(QStringLiteral("invoke:%1").arg(value)) ? 2 * value : -1;
    }
    Q_INVOKABLE QString over(int value) { return QStringLiteral("int %1").arg(value); }
    Q_INVOKABLE QString over(const QString &value) { return QStringLiteral("text %1").arg(value); }
    Q_INVOKABLE QString over(int a, int b) { return QStringLiteral("two %1 %2").arg(a).arg(b); }
    Q_INVOKABLE int skipped() { return ++calls; }
    Q_INVOKABLE int failing() { return ++calls; }
    Q_INVOKABLE int waiting() { return ++calls; }
    Q_INVOKABLE int patient() { return ++calls; }
    Q_INVOKABLE int throwing() { throw std::runtime_error("thrown"); }
    Q_INVOKABLE QVariant anything(const QVariant &value) { return value; }
    Q_INVOKABLE void nothing() { ++calls; }
    Q_INVOKABLE bool where() { return QThread::currentThread() == thread(); }
    Q_INVOKABLE int wrong(int value) { return value; }
    Q_INVOKABLE int defaulted(int a, int b = 7) { return a + b; }
    Q_INVOKABLE bool object(QObject *object) { return object != nullptr; }
    Q_INVOKABLE int bare() { return 1; }
};

/// With this thread's event loop blocked on purpose: what others do goes on, what is posted here waits.
template<typename Condition>
void blockUntil(Condition condition)
{
    const QDeadlineTimer deadline(10s);
    while (!condition() && !deadline.hasExpired())
        Support::Posix::pollPause();
}

/// While it lives each event of the calls comes when that is so, with the event loop blocked until then.
class BlockedTurns : public QObject
{
public:
    explicit BlockedTurns(std::function<bool()> condition)
        : m_condition(std::move(condition))
    {
        qApp->installEventFilter(this);
    }
    bool eventFilter(QObject *, QEvent *event) override
    {
        if (event->type() == QEvent::User)
            blockUntil(m_condition);
        return false;
    }

private:
    const std::function<bool()> m_condition;
};

class tst_Annotations : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void runsUnderItsLock();
    void thousandEmissions();
    void thousandSkipped();
    void busyFails();
    void timesOut();
    void waitCountsFromTheEmission();
    void busyInItsOwnThread();
    void oneInATurn();
    void keysDoNotWaitForEachOther();
    void blocksForFiveLeases_data();
    void blocksForFiveLeases();
    void lostBeforeItsTurn();
    void lostBeforeEachTurn_data();
    void lostBeforeEachTurn();
    void lostWhileItRuns();
    void receiverDeleted_data();
    void receiverDeleted();
    void emittedAtItsEnd();
    void senderDeleted();
    void disconnected();
    void receiverMoved();
    void otherThreads();
    void twoLocksNoDeadlock();
    void secondLockBusy();
    void minHold();
    void condition();
    void elsewhere();
    void nestedLoop();
    void nestedLoopSeesWhatWasPosted();
    void nestedLoopWithoutLock();
    void nestedLoopOfAFailure();
    void nestedLoopOfACancelledCall();
    void nestedLoopOfATimeout();
    void scopedInside();
    void wrongAnnotations();
    void argumentDestroyed();
    void serverGone();
    void serverGoneForOneLook_data();
    void serverGoneForOneLook();
    void serverRepaired();
    void connectionLost();
    void convertedArguments();
    void slotThrows();
    void withKey();
    void functionObjects();
    void quitting_data();
    void quitting();
    void threadEnds();

    void invokes();
    void invokesOverloads();
    void invokesBusy();
    void invokesWrong();
    void invokesWithoutLoss_data();
    void invokesWithoutLoss();
    void invokesInAnotherThread();
    void invokesOfTheDead();
    void invokesWithTheDead_data();
    void invokesWithTheDead();

    void withLockValues();
    void withLockFutures();
    void withLockBusy();
    void withLockCancelled();
    void withLockInnerCancelled();
    void withLockContext();
    void continuationsHaveNoLock_data();
    void continuationsHaveNoLock();
    void nextBeforeContinuations();

private:
    /// Runs the real redis-cli, in a separate process.
    void hold(const QByteArray &key) { QCOMPARE(m_server.cli({"SET", key, "somebody", "PX", "600000"}), QByteArray("OK")); }
    void letGo(const QByteArray &key) { m_server.command({"DEL", key}); }
    bool nothingLeft()
    {
        return eventually([this] { return lockKeys(m_server).isEmpty(); });
    }
    /// Until the library has asked the server for a lock since then.
    bool asked(qint64 before)
    {
        return eventually([&] { return m_server.commandsProcessed("evalsha") > before; });
    }

    Support::RedisServer m_server;
};

namespace {

/// The failure of a future; NoError if it has a result.
template<typename T>
LockResult failureOf(QFuture<T> future)
{
    try {
        future.waitForFinished(); // throws what it has
    } catch (const LockUnavailable &unavailable) {
        return unavailable.result();
    }
    return {};
}

template<typename T>
bool finished(const QFuture<T> &future, milliseconds timeout = 10s)
{
    return eventually([&future] { return future.isFinished(); }, timeout);
}

/// What the service's thread has done by now lies in this one's event queue.
void waitForService()
{
    const ScopedLock behind(QStringLiteral("behind")); // of the same connection
    QVERIFY(behind);
}

/// A thread with an event loop.
struct LoopThread
{
    LoopThread() { thread.start(); }
    ~LoopThread()
    {
        thread.quit();
        thread.wait();
    }
    QThread thread;
};

} // namespace

void tst_Annotations::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void tst_Annotations::init()
{
    m_server.command({"FLUSHALL"});
}

void tst_Annotations::cleanup()
{
    if (QTest::currentTestFailed())
        return;
    QVERIFY(nothingLeft());
}

void tst_Annotations::runsUnderItsLock()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::keyed));
    receiver.body = [&] {
        QVERIFY(m_server.exists("lock:a/acme"));
        QDL_ASSERT_LOCKED(QStringLiteral("a/acme"));
        QVERIFY(fencingTokenHere(QStringLiteral("a/acme")) > 0);
    };
    Q_EMIT sender.named(QStringLiteral("a"), 1);
    QVERIFY(receiver.seen.isEmpty()); // never inside the emission
    QVERIFY(eventually([&] { return receiver.seen == QList<int>{1}; }));
    QVERIFY(!isLockedHere(QStringLiteral("a/acme")));
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.overlaps, 0);
}

void tst_Annotations::thousandEmissions()
{
    constexpr int Count = 1000;
    const auto longest = Support::EventLoopProbe::longestBlockedTurnOf(
            [&](Support::EventLoopProbe &probe) {
                Sender sender;
                Receiver receiver;
                QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
                qint64 before = 0;
                probe.without([&] {
                    hold("lock:counter");
                    before = m_server.commandsProcessed("evalsha");
                });
                for (int i = 0; i < Count; ++i)
                    Q_EMIT sender.numbered(i);
                bool waits = false;
                for (int i = 0; i < 100 && !waits; ++i) {
                    Support::EventLoopProbe::waitFor([] { return false; }, 10ms);
                    probe.without([&] { waits = m_server.commandsProcessed("evalsha") > before + 1; });
                }
                QVERIFY(waits);
                QVERIFY(receiver.seen.isEmpty());
                // One waiter, however many wait behind it.
                probe.without([&] {
                    QCOMPARE(m_server.command({"ZCARD", "{lock:counter}:queue"}).toInt(), 1);
                    letGo("lock:counter");
                });
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return receiver.seen.size() >= Count; }, 60s));
                QCOMPARE(receiver.seen.size(), Count);
                for (int i = 0; i < Count; ++i)
                    QCOMPARE(receiver.seen.at(i), i);
                QCOMPARE(receiver.overlaps, 0);
            },
            TurnLimit);
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(longest < TurnLimit, qPrintable(QString::number(longest.count())));
    qInfo("longest turn %lld us", static_cast<long long>(longest.count() / 1000));
}

void tst_Annotations::thousandSkipped()
{
    constexpr int Count = 1000;
    int skipped = 0;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const auto longest = Support::EventLoopProbe::longestBlockedTurnOf(
            [&](Support::EventLoopProbe &probe) {
                Sender sender;
                Receiver receiver;
                skipped = 0;
                connect(LockedCalls::instance(), &LockedCalls::skipped, &receiver, [&](const LockedCallInfo &call) {
                    ++skipped;
                    QCOMPARE(call.error, DistributedLock::BusyError);
                });
                QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::tryAdd));
                probe.without([&] { hold("lock:counter"); });
                for (int i = 0; i < Count; ++i)
                    Q_EMIT sender.numbered(i);
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return skipped >= Count; }));
                // Later ones as well.
                Q_EMIT sender.numbered(0);
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return skipped > Count; }));
                QCOMPARE(receiver.seen, QList<int>());
                probe.without([&] { letGo("lock:counter"); });
                Q_EMIT sender.numbered(7);
                QVERIFY(Support::EventLoopProbe::waitFor([&] { return !receiver.seen.isEmpty(); }));
                QCOMPARE(receiver.seen, QList<int>{7});
                QCOMPARE(skipped, Count + 1);
            },
            TurnLimit);
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(longest < TurnLimit, qPrintable(QString::number(longest.count())));
    QCOMPARE(failed.size(), 0);
}

void tst_Annotations::busyFails()
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
    QCOMPARE(call.lock, QStringLiteral("counter"));
    QVERIFY(call.server.startsWith(QStringLiteral("unix:")));
    QCOMPARE(call.error, DistributedLock::BusyError);
    QCOMPARE(log.count({QStringLiteral("Receiver::mustAdd"), QStringLiteral("Lock \"counter\""), call.server}), 1);
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:counter");
}

void tst_Annotations::timesOut()
{
    constexpr int Count = 100;
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::soonAdd));
    hold("lock:counter");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    QElapsedTimer elapsed;
    elapsed.start();
    for (int i = 0; i < Count; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(eventually([&] { return failed.size() >= Count; }));
    QCOMPARE_GE(elapsed.elapsed(), 290);
    for (const QList<QVariant> &arguments : std::as_const(failed)) {
        const auto call = arguments.first().value<LockedCallInfo>();
        QCOMPARE(call.error, DistributedLock::TimeoutError);
        QVERIFY2(call.errorString.startsWith(QStringLiteral("Receiver::soonAdd: Lock \"counter\" on unix:")),
                 qPrintable(call.errorString));
    }
    // One line for the first of them, and one that counts the others.
    QCOMPARE(log.count({QStringLiteral("Receiver::soonAdd"), QStringLiteral("dropped")}), 1);
    QVERIFY(eventually([&] { return log.count({QStringLiteral("Receiver::soonAdd: 99 more calls")}) == 1; }));
    letGo("lock:counter");
    Q_EMIT sender.numbered(5);
    QVERIFY(eventually([&] { return receiver.seen == QList<int>{5}; }));
    QCOMPARE(failed.size(), Count);
}

void tst_Annotations::waitCountsFromTheEmission()
{
    // Ten times 100 ms of work, and nobody waits for more than 300.
    Sender sender;
    Receiver receiver;
    receiver.body = [] { QThread::msleep(100); };
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::soonAdd));
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    for (int i = 0; i < 10; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(eventually([&] { return failed.size() + receiver.seen.size() == 10; }));
    QCOMPARE_GE(receiver.seen.size(), 1);
    QCOMPARE_LE(receiver.seen.size(), 4);
    const auto call = failed.last().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(QStringLiteral("its turn behind earlier calls")), qPrintable(call.errorString));
}

void tst_Annotations::busyInItsOwnThread()
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

void tst_Annotations::oneInATurn()
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
        Q_EMIT sender.named(QStringLiteral("n%1").arg(i), i);
        Q_EMIT sender.numbered(i);
    }
    QVERIFY(eventually([&] { return turns.size() == 2 * Count; }));
    for (qsizetype i = 1; i < turns.size(); ++i)
        QVERIFY2(turns.at(i - 1) < turns.at(i), qPrintable(QString::number(i)));
    QCOMPARE(receiver.overlaps, 0);
}

void tst_Annotations::keysDoNotWaitForEachOther()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::keyed));
    hold("lock:a/acme");
    Q_EMIT sender.named(QStringLiteral("a"), 1);
    Q_EMIT sender.named(QStringLiteral("b"), 2);
    Q_EMIT sender.named(QStringLiteral("a"), 3);
    Q_EMIT sender.named(QStringLiteral("b"), 4);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(receiver.seen, (QList<int>{2, 4}));
    letGo("lock:a/acme");
    QVERIFY(eventually([&] { return receiver.seen.size() == 4; }));
    QCOMPARE(receiver.seen, (QList<int>{2, 4, 1, 3}));
    QCOMPARE(receiver.overlaps, 0);
}

void tst_Annotations::blocksForFiveLeases_data()
{
    QTest::addColumn<bool>("inWorker");
    QTest::newRow("main thread") << false;
    QTest::newRow("worker thread") << true;
}

void tst_Annotations::blocksForFiveLeases()
{
    QFETCH(bool, inWorker);
    constexpr milliseconds Lease = 1500ms;
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
        witness.start(QStringLiteral("redis-cli"),
                      {QStringLiteral("-s"), m_server.socketPath(), QStringLiteral("-r"), QStringLiteral("75"),
                       QStringLiteral("-i"), QStringLiteral("0.1"), QStringLiteral("PTTL"), QStringLiteral("lock:renewed")});
        witness.waitForStarted();
        QThread::msleep((5 * Lease).count());
        witness.waitForFinished();
        const QList<QByteArray> lines = witness.readAllStandardOutput().split('\n');
        for (const QByteArray &line : lines) {
            if (!line.isEmpty())
                samples.append(line.toLongLong());
        }
        heldToTheEnd = isLockedHere(QStringLiteral("renewed"));
        done = true;
    };
    if (inWorker)
        receiver->moveToThread(&worker.thread);
    QVERIFY(connectLocked(&sender, &Sender::fired, receiver.get(), &Receiver::renewed));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return done.load(); }, 30s));
    if (inWorker)
        receiver.release()->deleteLater();
    QVERIFY(heldToTheEnd);
    QCOMPARE_GE(samples.size(), 60);
    for (const qint64 pttl : std::as_const(samples))
        QCOMPARE_GT(pttl, Lease.count() / 2);
    QCOMPARE(lost.size(), 0);
}

void tst_Annotations::lostBeforeItsTurn()
{
    // The lock is ours, then the event loop blocks past the lease and somebody else gets it.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::shortLease));
    Q_EMIT sender.numbered(1);
    blockUntil([&] { return m_server.exists("lock:short"); });
    QVERIFY(m_server.exists("lock:short"));
    blockUntil([&] { return !m_server.exists("lock:short"); });
    hold("lock:short");
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(asked(before));
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:short");
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QCOMPARE(receiver.seen, QList<int>{1});
    QCOMPARE(receiver.overlaps, 0);
}

void tst_Annotations::lostBeforeEachTurn_data()
{
    QTest::addColumn<QString>("options");
    QTest::newRow("wait") << QStringLiteral("wait=1s");
    QTest::newRow("one look") << QStringLiteral("wait=1s; onBusy=fail");
    QTest::newRow("no wait") << QStringLiteral("wait=0ms");
}

void tst_Annotations::lostBeforeEachTurn()
{
    // Each turn takes longer than a lease that nobody renews.
    QFETCH(QString, options);
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, QStringLiteral("short"),
                          QStringLiteral("lease=100ms; autoRenew=false; ") + options));
    const LogCapture log;
    const BlockedTurns blockedTurns([&] { return !m_server.exists("lock:short"); });
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(QStringLiteral("Lock \"short\"")), qPrintable(call.errorString));
    QVERIFY(receiver.seen.isEmpty());
}

void tst_Annotations::lostWhileItRuns()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    const LogCapture log;
    receiver.body = [&] {
        letGo("lock:renewed");
        blockUntil([&] { return !isLockedHere(QStringLiteral("renewed")); });
    };
    QVERIFY(connectLocked(&sender, &Sender::fired, &receiver, &Receiver::renewed));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return lost.size() == 1; }));
    const auto call = lost.first().first().value<LockedCallInfo>();
    QCOMPARE(call.method, QByteArray("renewed"));
    QCOMPARE(call.lock, QStringLiteral("renewed"));
    QVERIFY2(call.errorString.contains(QStringLiteral("lost while the method ran")), qPrintable(call.errorString));
    QCOMPARE(log.count({call.errorString}), 1);
    receiver.body = nullptr;
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(lost.size(), 1);
}

void tst_Annotations::receiverDeleted_data()
{
    QTest::addColumn<QString>("when");
    for (const char *when : {"waiting", "acquired", "running", "later while running", "releasing"})
        QTest::newRow(when) << QString::fromLatin1(when);
}

void tst_Annotations::receiverDeleted()
{
    QFETCH(QString, when);
    Sender sender;
    auto *receiver = new Receiver;
    const QPointer<Receiver> alive(receiver);
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    int runs = 0;
    QVERIFY(connectLocked(&sender, &Sender::numbered, receiver, &Receiver::add));
    // Somebody else's call in the same queue goes on.
    Receiver other;
    QVERIFY(connectLocked(&sender, &Sender::fired, &other, [&other] { other.note(0, QStringLiteral("counter")); },
                          QStringLiteral("counter"), LockOptions().withWait(1min).withRetryInterval(20ms).withLease(20s)));
    receiver->body = [&] {
        ++runs;
        if (when == u"running")
            delete receiver;
        else if (when == u"later while running")
            receiver->deleteLater();
        else
            QMetaObject::invokeMethod(qApp, [receiver] { delete receiver; }, Qt::QueuedConnection);
    };
    const qint64 before = m_server.commandsProcessed("evalsha");
    if (when == u"waiting")
        hold("lock:counter");
    for (int i = 0; i < 5; ++i)
        Q_EMIT sender.numbered(i);
    Q_EMIT sender.fired();
    if (when == u"waiting") {
        QVERIFY(asked(before));
        delete receiver;
        letGo("lock:counter");
    } else if (when == u"acquired") {
        blockUntil([&] { return m_server.exists("lock:counter"); }); // what comes meanwhile waits in this thread's queue
        delete receiver;
    }
    QVERIFY(eventually([&] { return !alive && other.seen.size() == 1; }));
    QVERIFY(nothingLeft());
    QCOMPARE(runs, when == u"waiting" || when == u"acquired" ? 0 : 1);
    QCOMPARE(other.overlaps, 0);
    QCOMPARE(failed.size(), 0);
    QCOMPARE(lost.size(), 0);
}

void tst_Annotations::emittedAtItsEnd()
{
    // As with a queued connection: what is emitted while the receiver is destroyed does not reach it.
    Sender sender;
    auto receiver = std::make_unique<QObject>();
    int runs = 0;
    QVERIFY(connectLocked(&sender, &Sender::fired, receiver.get(), [&runs] { ++runs; }, QStringLiteral("a")));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return runs == 1; }));
    connect(receiver.get(), &QObject::destroyed, &sender, &Sender::fired);
    receiver.reset();
    QVERIFY(finished(withLock(QStringLiteral("a"), {}, [] {}))); // behind it
    QCOMPARE(runs, 1);
}

void tst_Annotations::senderDeleted()
{
    auto sender = std::make_unique<Sender>();
    Receiver receiver;
    QVERIFY(connectLocked(sender.get(), &Sender::numbered, &receiver, &Receiver::add));
    hold("lock:counter");
    for (int i = 0; i < 5; ++i)
        Q_EMIT sender->numbered(i);
    sender.reset();
    letGo("lock:counter");
    QVERIFY(eventually([&] { return receiver.seen.size() == 5; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 1, 2, 3, 4}));

    // While the slot runs.
    auto second = std::make_unique<Sender>();
    receiver.body = [&] { second.reset(); };
    QVERIFY(connectLocked(second.get(), &Sender::numbered, &receiver, &Receiver::add));
    Q_EMIT second->numbered(5);
    QVERIFY(eventually([&] { return receiver.seen.size() == 6; }));
    QVERIFY(!second);
}

void tst_Annotations::disconnected()
{
    Sender sender;
    Receiver receiver;
    const QMetaObject::Connection connection =
            connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add);
    QVERIFY(connection);
    Q_EMIT sender.numbered(1);
    QVERIFY(QObject::disconnect(connection));
    Q_EMIT sender.numbered(2);
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QVERIFY(nothingLeft());
    QCOMPARE(receiver.seen, QList<int>{1});
}

void tst_Annotations::receiverMoved()
{
    LoopThread worker;
    Sender sender;
    auto *receiver = new Receiver;
    std::atomic<int> runs{0};
    std::atomic<int> wrongThread{0};
    QThread *expected = &worker.thread;
    receiver->body = [&] {
        wrongThread += QThread::currentThread() != expected;
        ++runs;
    };
    QVERIFY(connectLocked(&sender, &Sender::numbered, receiver, &Receiver::add));
    hold("lock:counter");
    const qint64 before = m_server.commandsProcessed("evalsha");
    for (int i = 0; i < 20; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(asked(before));
    receiver->moveToThread(&worker.thread);
    for (int i = 20; i < 30; ++i)
        Q_EMIT sender.numbered(i);
    letGo("lock:counter");
    QVERIFY(eventually([&] { return runs == 30; }));
    QCOMPARE(wrongThread.load(), 0);
    QMetaObject::invokeMethod(
            receiver,
            [receiver] {
                QList<int> numbers;
                for (int i = 0; i < 30; ++i)
                    numbers.append(i);
                QCOMPARE(receiver->seen, numbers);
                delete receiver;
            },
            Qt::BlockingQueuedConnection);
}

void tst_Annotations::otherThreads()
{
    // Four threads, one lock, receivers and senders everywhere.
    constexpr int Threads = 4;
    constexpr int Count = 50;
    std::atomic<int> inside{0};
    std::atomic<int> overlaps{0};
    std::atomic<int> runs{0};
    {
        LoopThread threads[Threads];
        Sender sender;
        QList<Receiver *> receivers;
        for (LoopThread &thread : threads) {
            auto *receiver = new Receiver;
            receiver->body = [&] {
                overlaps += inside.fetch_add(1) != 0;
                std::this_thread::yield();
                inside.fetch_sub(1);
                ++runs;
            };
            QVERIFY(connectLocked(&sender, &Sender::numbered, receiver, &Receiver::add));
            receiver->moveToThread(&thread.thread);
            connect(&thread.thread, &QThread::finished, receiver, &QObject::deleteLater);
            receivers.append(receiver);
        }
        for (int i = 0; i < Count; ++i)
            Q_EMIT sender.numbered(i);
        QVERIFY(eventually([&] { return runs == Threads * Count; }, 60s));
    }
    QCOMPARE(overlaps.load(), 0);
}

void tst_Annotations::twoLocksNoDeadlock()
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
            connect(&thread->thread, &QThread::finished, receiver, [receiver, &overlaps] { overlaps += receiver->overlaps; });
            connect(&thread->thread, &QThread::finished, receiver, &QObject::deleteLater);
        }
        for (int i = 0; i < Count; ++i)
            Q_EMIT sender.numbered(i);
        QVERIFY(eventually([&] { return runs == 2 * Count; }, 40s));
    }
    QCOMPARE(overlaps.load(), 0);
    QCOMPARE(failed.size(), 0);
}

void tst_Annotations::secondLockBusy()
{
    // The first one is kept while the second is waited for, and both are given back.
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

void tst_Annotations::minHold()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::fired, &receiver, &Receiver::kept));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return receiver.seen.size() == 1; }));
    QElapsedTimer sinceRun;
    sinceRun.start();
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    if (sinceRun.elapsed() < 1500) {
        QVERIFY(m_server.exists("lock:kept"));
        QCOMPARE(receiver.seen.size(), 1);
    }
    QVERIFY(eventually([&] { return !m_server.exists("lock:kept"); }));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    letGo("lock:kept");
}

void tst_Annotations::condition()
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

void tst_Annotations::elsewhere()
{
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::fired, &receiver, &Receiver::elsewhere));
    receiver.body = [&] { QCOMPARE(lockKeys(m_server), QList<QByteArray>()); };
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return receiver.seen == QList<int>{1}; }));
}

void tst_Annotations::nestedLoop()
{
    // A slot that runs an event loop: other locks' slots run in it, those of its own lock after it.
    Sender sender;
    Receiver receiver;
    Receiver other;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
    QVERIFY(connectLocked(&sender, &Sender::named, &other, &Receiver::keyed));
    QEventLoop loop;
    other.body = [&] { loop.quit(); };
    receiver.body = [&] {
        if (receiver.seen.size() == 1) {
            QTimer::singleShot(10s, &loop, &QEventLoop::quit);
            loop.exec();
            QCOMPARE(other.seen, QList<int>{9});
            QCOMPARE(receiver.seen, QList<int>{1});
        }
    };
    Q_EMIT sender.numbered(1);
    Q_EMIT sender.numbered(2);
    Q_EMIT sender.named(QStringLiteral("x"), 9);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }, 20s));
    QCOMPARE(receiver.overlaps, 0);
    QCOMPARE(other.seen, QList<int>{9});
}

void tst_Annotations::nestedLoopSeesWhatWasPosted()
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
            QMetaObject::invokeMethod(this, [this] { delivered = true; }, Qt::QueuedConnection);
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
        QVERIFY(eventually([&] { return behind.delivered; }, 2s));
        ended = true;
    };
    qApp->installEventFilter(&behind);
    Q_EMIT sender.numbered(1);
    // Not true before the nested loop has ended: quitting this loop would wake the nested one.
    QVERIFY(eventually([&] { return ended; }));
}

void tst_Annotations::nestedLoopWithoutLock()
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
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }, 20s));
    QVERIFY(ranInside);
}

void tst_Annotations::nestedLoopOfAFailure()
{
    hold("lock:a");
    bool ranInside = false;
    QFuture<int> other;
    QFuture<void> busy = withLock(QStringLiteral("a"), LockOptions().withWait(0ms), [] {});
    const auto told = busy.then([&](const QFuture<void> &) { ranInside = finished(other); });
    other = withLock(QStringLiteral("b"), {}, [] { return 1; });
    waitForService(); // both have ended
    QVERIFY(finished(told, 20s));
    QVERIFY(ranInside);
    letGo("lock:a");
}

void tst_Annotations::nestedLoopOfACancelledCall()
{
    bool ranInside = false;
    QFuture<int> second;
    QFuture<int> third;
    const auto first = withLock(QStringLiteral("a"), {}, [&] { second.cancel(); });
    second = withLock(QStringLiteral("b"), {}, [] { return 2; });
    const auto told = second.onCanceled([&] {
        ranInside = finished(third);
        return 0;
    });
    third = withLock(QStringLiteral("c"), {}, [] { return 3; });
    waitForService(); // all three are ready
    QVERIFY(finished(told, 20s));
    QVERIFY(second.isCanceled());
    QVERIFY(ranInside);
    QVERIFY(finished(first));
}

void tst_Annotations::nestedLoopOfATimeout()
{
    const QString name = QStringLiteral("w");
    hold("lock:w");
    const LockOptions longWait = LockOptions().withWait(1min).withRetryInterval(20ms);
    const auto first = withLock(name, longWait, [] { return 1; });
    const LockOptions shortWait = LockOptions().withWait(50ms);
    bool toldInside = false;
    QFuture<int> third;
    QFuture<void> second = withLock(name, shortWait, [] {});
    const auto told = second.then([&](const QFuture<void> &) { toldInside = finished(third); });
    third = withLock(name, shortWait, [] { return 3; });
    const QDeadlineTimer bothExpired(100ms);
    blockUntil([&] { return bothExpired.hasExpired(); });
    QVERIFY(finished(told, 20s));
    QVERIFY(toldInside);
    QCOMPARE(failureOf(third).error, DistributedLock::TimeoutError);
    letGo("lock:w");
    QVERIFY(finished(first));
    QCOMPARE(first.result(), 1);
}

void tst_Annotations::scopedInside()
{
    Sender sender;
    Receiver receiver;
    bool reentered = false;
    receiver.body = [&] {
        const ScopedLock again(QStringLiteral("counter"), LockOptions().withWait(0ms));
        reentered = again.isHeld() && again.fencingToken() == fencingTokenHere(QStringLiteral("counter"));
    };
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::add));
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QVERIFY(reentered);
}

void tst_Annotations::wrongAnnotations()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    {
        const LogCapture log;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::broken));
        QCOMPARE(log.count({QStringLiteral("Receiver::broken"), QStringLiteral("counter:{nr}"),
                            QStringLiteral("no parameter \"nr\"")}),
                 1);
    }
    {
        const LogCapture log;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free));
        QCOMPARE(log.count({QStringLiteral("Receiver"), QStringLiteral("no annotation"), QStringLiteral("int")}), 1);
    }
    {
        const LogCapture log;
        Receiver *const none = nullptr;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, none, &Receiver::add));
        QCOMPARE(log.count({QStringLiteral("the receiver is null")}), 1);
    }
    {
        const LogCapture log;
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, QStringLiteral("a{2}")));
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, QStringLiteral("a"),
                               QStringLiteral("wait=2")));
        QVERIFY(!connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, QStringLiteral("a"),
                               LockOptions().withLease(0ms)));
        QCOMPARE(log.count({QStringLiteral("nothing was connected")}), 3);
        QCOMPARE(log.count({QStringLiteral("no parameter 2; it has 1")}), 1);
        QCOMPARE(log.count({QStringLiteral("\"2\" is not a duration")}), 1);
        QCOMPARE(log.count({QStringLiteral("lease is 0 ms")}), 1);
    }
    // What only a call can tell.
    QVERIFY(connectLocked(&sender, &Sender::ordered, &receiver, &Receiver::ordered, QStringLiteral("{1}")));
    const LogCapture log;
    Q_EMIT sender.ordered(Order{});
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::OptionsError);
    QVERIFY2(call.errorString.contains(QStringLiteral("Receiver::ordered: key \"{1}\"")), qPrintable(call.errorString));
    QVERIFY2(call.errorString.contains(QStringLiteral("cannot be written as text")), qPrintable(call.errorString));
    QVERIFY(receiver.seen.isEmpty());
}

void tst_Annotations::argumentDestroyed()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::sent, &receiver, &Receiver::sent));
    hold("lock:sent");
    auto argument = std::make_unique<Sender>();
    Q_EMIT sender.sent(argument.get());
    Q_EMIT sender.sent(nullptr);
    Q_EMIT sender.sent(&sender);
    const LogCapture log;
    argument.reset();
    letGo("lock:sent");
    QVERIFY(eventually([&] { return failed.size() + receiver.seen.size() == 3; }));
    QCOMPARE(receiver.seen, (QList<int>{0, 1}));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::CancelledError);
    QVERIFY2(call.errorString.startsWith(
                     QStringLiteral("Receiver::sent: an object among its arguments was destroyed")),
             qPrintable(call.errorString));
    QCOMPARE(call.lock, QStringLiteral("sent"));
    QCOMPARE(log.count({call.errorString}), 1);
}

void tst_Annotations::serverGone()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    QVERIFY(connectLocked(&sender, &Sender::fired, &receiver, &Receiver::badServer));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return failed.size() == 1; }, 20s));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QVERIFY(call.error == DistributedLock::ConnectionError || call.error == DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(QStringLiteral("127.0.0.1:1")), qPrintable(call.errorString));
    QVERIFY(!log.text().contains(QStringLiteral("topsecret")));
    QVERIFY(!call.server.contains(QStringLiteral("topsecret")));
}

void tst_Annotations::serverGoneForOneLook_data()
{
    QTest::addColumn<QString>("onBusy");
    for (const char *onBusy : {"skip", "fail"})
        QTest::newRow(onBusy) << QString::fromLatin1(onBusy);
}

void tst_Annotations::serverGoneForOneLook()
{
    QFETCH(QString, onBusy);
    const QString socket = m_server.folder() + QStringLiteral("/nobody.sock");
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QSignalSpy skipped(LockedCalls::instance(), &LockedCalls::skipped);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, QStringLiteral("a"),
                          QStringLiteral("onBusy=%1; server=unix://%2").arg(onBusy, socket)));
    const LogCapture log;
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return failed.size() + skipped.size() == 1; }));
    QCOMPARE(failed.size(), 1);
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::ConnectionError);
    QVERIFY2(call.errorString.contains(socket), qPrintable(call.errorString));
    QVERIFY(!log.text().contains(QStringLiteral("earlier calls")));
    QVERIFY(receiver.seen.isEmpty());
}

void tst_Annotations::serverRepaired()
{
    Support::RedisServer::Options serverOptions;
    serverOptions.tcp = true;
    serverOptions.password = "first";
    Support::RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    QUrl url = server.tcpUrl();
    url.setPassword(QStringLiteral("second"));
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free,
                          QStringLiteral("{1}"),
                          QStringLiteral("onBusy=skip; server=%1").arg(url.toString())));
    const LogCapture log;
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    QCOMPARE(failed.first().first().value<LockedCallInfo>().error,
             DistributedLock::AuthenticationError);
    Q_EMIT sender.numbered(2); // asks again
    QVERIFY(eventually([&] { return failed.size() == 2; }));
    QCOMPARE(failed.last().first().value<LockedCallInfo>().error,
             DistributedLock::AuthenticationError);

    QCOMPARE(server.command({"CONFIG", "SET", "requirepass", "second"}).toByteArray(),
             QByteArray("OK"));
    Q_EMIT sender.numbered(3);
    Q_EMIT sender.numbered(4);
    QVERIFY(eventually([&] { return failed.size() + receiver.seen.size() == 4; }));
    QCOMPARE(receiver.seen, (QList<int>{3, 4}));
}

void tst_Annotations::connectionLost()
{
    // While they wait, and while one runs: nothing is lost, nothing runs twice.
    Support::FaultProxy proxy(m_server);
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, QStringLiteral("counter"),
                          QStringLiteral("server=%1; wait=1min; lease=20s; retryInterval=20ms").arg(proxy.url().toString())));
    receiver.body = [&] {
        if (receiver.seen.size() == 10)
            proxy.resetAll();
    };
    hold("lock:counter");
    const qint64 before = m_server.commandsProcessed("evalsha");
    for (int i = 0; i < 20; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(asked(before));
    proxy.resetAll();
    letGo("lock:counter");
    QVERIFY(eventually([&] { return receiver.seen.size() >= 20; }, 30s));
    QList<int> numbers;
    for (int i = 0; i < 20; ++i)
        numbers.append(i);
    QCOMPARE(receiver.seen, numbers);
    QCOMPARE(receiver.overlaps, 0);
    QVERIFY(nothingLeft());
}

void tst_Annotations::convertedArguments()
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
    Q_EMIT sender.named(QStringLiteral("xyz"), 0);
    QVERIFY(eventually([&] { return receiver.seen.size() == 4; }));
    QCOMPARE(receiver.seen.last(), 3);
    QCOMPARE(receiver.overlaps, 0);
}

void tst_Annotations::slotThrows()
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
    const QDeadlineTimer patience(10s);
    while (!caught && !patience.hasExpired()) {
        try {
            QCoreApplication::sendPostedEvents();
        } catch (const std::runtime_error &) {
            caught = true;
        }
    }
    QVERIFY(caught);
    QVERIFY(!isLockedHere(QStringLiteral("counter")));
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(receiver.overlaps, 0);
}

void tst_Annotations::withKey()
{
    Sender sender;
    Receiver receiver;
    // In place of an annotation, and for a slot that has none.
    QVERIFY(connectLocked(&sender, &Sender::named, &receiver, &Receiver::keyed, QStringLiteral("own:{name}/{number}"),
                          QStringLiteral("keyPrefix=app:; wait=5s")));
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, QStringLiteral("{{free}}:{1}"),
                          LockOptions().withWait(5s)));
    receiver.tenant.clear();
    QList<QByteArray> found;
    receiver.body = [&] { found = lockKeys(m_server); };
    Q_EMIT sender.named(QStringLiteral("a"), 4);
    QVERIFY(eventually([&] { return receiver.seen.size() == 1; }));
    QCOMPARE(found, QList<QByteArray>{"app:own:a/4"});
    Q_EMIT sender.numbered(8);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(found, QList<QByteArray>{"lock:{free}:8"});
}

void tst_Annotations::functionObjects()
{
    Sender sender;
    QObject context;
    int sum = 0;
    int none = 0;
    QVERIFY(connectLocked(&sender, &Sender::named, &context,
                          [&](const QString &name, int number) {
                              QVERIFY(isLockedHere(QStringLiteral("f:") + name));
                              sum += number;
                          },
                          QStringLiteral("f:{1}")));
    QVERIFY(connectLocked(&sender, &Sender::named, &context, [&none] { ++none; }, QStringLiteral("none")));
    Q_EMIT sender.named(QStringLiteral("a"), 4);
    Q_EMIT sender.named(QStringLiteral("b"), 5);
    QVERIFY(eventually([&] { return sum == 9 && none == 2; }));
}

void tst_Annotations::quitting_data()
{
    QTest::addColumn<QString>("mode");
    for (const char *mode : {"held", "waiting", "thread", "future", "exit"})
        QTest::newRow(mode) << QString::fromLatin1(mode);
}

void tst_Annotations::quitting()
{
    QFETCH(QString, mode);
    if (mode == u"waiting")
        hold("lock:busy");
    QProcess worker;
    worker.setProcessChannelMode(QProcess::MergedChannels);
    worker.start(QStringLiteral(ANNOTATION_WORKER), {m_server.url().toString(), mode});
    QVERIFY(worker.waitForFinished(30000));
    const QByteArray output = worker.readAll();
    QVERIFY2(worker.exitStatus() == QProcess::NormalExit && worker.exitCode() == 0, output.constData());
    QVERIFY2(output.contains("reached"), output.constData());
    letGo("lock:busy");
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Annotations::threadEnds()
{
    // A thread ends with calls that wait.
    hold("lock:counter");
    Sender sender;
    QFuture<int> future;
    auto receiver = std::make_unique<Receiver>();
    {
        LoopThread worker;
        receiver->moveToThread(&worker.thread);
        QVERIFY(connectLocked(&sender, &Sender::numbered, receiver.get(), &Receiver::add));
        for (int i = 0; i < 5; ++i)
            Q_EMIT sender.numbered(i);
        future = withLock(receiver.get(), QStringLiteral("counter"), LockOptions(), [] { return 1; });
        QVERIFY(eventually([&] { return m_server.exists("{lock:counter}:queue"); }));
    }
    QVERIFY(finished(future));
    QCOMPARE(failureOf(future).error, DistributedLock::CancelledError);
    QVERIFY(receiver->seen.isEmpty());
    letGo("lock:counter");
}

void tst_Annotations::invokes()
{
    Invokable object;
    QFuture<QVariant> future = invokeLocked(&object, "twice", 21);
    QVERIFY(!future.isFinished());
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(42));
    future = invokeLocked(&object, "twice", QVariantList{QStringLiteral("4")});
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(8));
    future = invokeLocked(&object, "nothing");
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant());
    QCOMPARE(object.calls, 3);
    future = invokeLocked(&object, "anything", QStringLiteral("x"));
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(QStringLiteral("x")));
    future = invokeLocked(&object, "defaulted", 1);
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(8));
    future = invokeLocked(&object, "defaulted", 1, 2);
    QVERIFY(finished(future));
    QCOMPARE(future.result(), QVariant(3));
    future = invokeLocked(&object, "throwing");
    QVERIFY(finished(future));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, future.result());
    QVERIFY(nothingLeft());
}

void tst_Annotations::invokesOverloads()
{
    Invokable object;
    const auto result = [&](const QFuture<QVariant> &future) {
        return finished(future) ? future.result().toString() : QString();
    };
    QCOMPARE(result(invokeLocked(&object, "over", 1)), QStringLiteral("int 1"));
    QCOMPARE(result(invokeLocked(&object, "over", QStringLiteral("1"))), QStringLiteral("text 1"));
    QCOMPARE(result(invokeLocked(&object, "over", "1")), QStringLiteral("text 1"));
    QCOMPARE(result(invokeLocked(&object, "over", QLatin1String("1"))), QStringLiteral("text 1"));
    QCOMPARE(result(invokeLocked(&object, "over", u"1")), QStringLiteral("text 1"));
    QCOMPARE(result(invokeLocked(&object, "over", 1, 2)), QStringLiteral("two 1 2"));
    QCOMPARE(result(invokeLocked(&object, "over", QVariant(1), "2")), QStringLiteral("two 1 2"));
}

void tst_Annotations::invokesBusy()
{
    Invokable object;
    hold("lock:invoke:busy");
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    const auto skipped = invokeLocked(&object, "skipped");
    QVERIFY(finished(skipped));
    QVERIFY(!skipped.isCanceled());
    QCOMPARE(skipped.result(), QVariant());
    const auto failing = invokeLocked(&object, "failing");
    QVERIFY(finished(failing));
    QCOMPARE(failureOf(failing).error, DistributedLock::BusyError);
    const auto waiting = invokeLocked(&object, "waiting");
    QVERIFY(finished(waiting));
    QCOMPARE(failureOf(waiting).error, DistributedLock::TimeoutError);
    QVERIFY2(failureOf(waiting).errorString.contains(QStringLiteral("invoke:busy")),
             qPrintable(failureOf(waiting).errorString));
    // The caller has been told.
    QCOMPARE(failed.size(), 0);
    QCOMPARE(log.count({QStringLiteral("dropped")}), 0);

    auto patient = invokeLocked(&object, "patient");
    QVERIFY(eventually([&] { return m_server.exists("{lock:invoke:busy}:queue"); }));
    patient.cancel();
    QVERIFY(finished(patient));
    QVERIFY(eventually([&] { return !m_server.exists("{lock:invoke:busy}:queue"); }));
    letGo("lock:invoke:busy");
    QCOMPARE(object.calls, 0);
    const auto again = invokeLocked(&object, "skipped");
    QVERIFY(finished(again));
    QCOMPARE(again.result(), QVariant(1));
}

void tst_Annotations::invokesWrong()
{
    Invokable object;
    const auto text = [](const QFuture<QVariant> &future) {
        if (!finished(future))
            return QString();
        const LockResult result = failureOf(future);
        return result.error == DistributedLock::OptionsError ? result.errorString : QString();
    };
    const auto contains = [](const QString &all, const char *part) { return all.contains(QString::fromUtf8(part)); };
    QString error = text(invokeLocked(&object, "wrong", 1));
    QVERIFY2(contains(error, "Invokable::wrong: QDL_LOCKED_METHOD(wrong, \"invoke:{nr}\")"), qPrintable(error));
    error = text(invokeLocked(&object, "nowhere"));
    QVERIFY2(contains(error, "Invokable::nowhere: there is no slot or invokable method"), qPrintable(error));
    error = text(invokeLocked(&object, "twice"));
    QVERIFY2(contains(error, "Invokable::twice: no method of this name takes (); there is twice(int)"), qPrintable(error));
    error = text(invokeLocked(&object, "twice", QVariantMap()));
    QVERIFY2(contains(error, "Invokable::twice: argument 1: QVariantMap cannot be converted to int; there is twice(int)"),
             qPrintable(error));
    error = text(invokeLocked(&object, "bare"));
    QVERIFY2(contains(error, "Invokable::bare: there is no annotation"), qPrintable(error));
    error = text(invokeLocked(nullptr, "twice", 1));
    QVERIFY2(contains(error, "null"), qPrintable(error));
}

void tst_Annotations::invokesWithoutLoss_data()
{
    QTest::addColumn<QVariant>("argument");
    QTest::addColumn<QString>("problem");
    const auto row = [](const QVariant &argument, const char *problem) {
        QTest::addRow("%s %s", argument.typeName(), problem) << argument << QString::fromUtf8(problem);
    };
    row(1.5, "1.5 does not fit into int");
    row(qQNaN(), "NaN does not fit into int");
    row(1e20, "100000000000000000000 does not fit into int");
    row(qint64(1) << 31, "2147483648 does not fit into int");
    row((std::numeric_limits<quint64>::max)(), "18446744073709551615 does not fit into int");
    row(QVariant::fromValue(nullptr), "null is no int");
    row(QStringLiteral("1.5"), "QString cannot be converted to int");
    row(7.0, "");
    row(qint64(7), "");
    row(QStringLiteral("7"), "");
}

void tst_Annotations::invokesWithoutLoss()
{
    QFETCH(QVariant, argument);
    QFETCH(QString, problem);
    Invokable object;
    const auto future = invokeLocked(&object, "twice", QVariantList{argument});
    QVERIFY(finished(future));
    QCOMPARE(object.calls, problem.isEmpty() ? 1 : 0);
    if (problem.isEmpty())
        QCOMPARE(future.result(), QVariant(14));
    else
        QVERIFY2(failureOf(future).errorString.contains(QStringLiteral("argument 1: ") + problem),
                 qPrintable(failureOf(future).errorString));
}

void tst_Annotations::invokesInAnotherThread()
{
    LoopThread worker;
    auto *object = new Invokable;
    object->moveToThread(&worker.thread);
    QList<QFuture<QVariant>> futures;
    for (int i = 0; i < 50; ++i)
        futures.append(i % 2 ? invokeLocked(object, "where") : invokeLocked(object, "twice", i));
    for (int i = 0; i < 50; ++i) {
        QVERIFY(finished(futures.at(i)));
        QCOMPARE(futures.at(i).result(), i % 2 ? QVariant(true) : QVariant(2 * i));
    }
    object->deleteLater();
}

void tst_Annotations::invokesOfTheDead()
{
    hold("lock:invoke:busy");
    auto object = std::make_unique<Invokable>();
    const auto first = invokeLocked(object.get(), "patient");
    const auto second = invokeLocked(object.get(), "patient");
    QVERIFY(eventually([&] { return m_server.exists("{lock:invoke:busy}:queue"); }));
    object.reset();
    QVERIFY(finished(first) && finished(second));
    QCOMPARE(failureOf(first).error, DistributedLock::CancelledError);
    QCOMPARE(failureOf(second).error, DistributedLock::CancelledError);
    QVERIFY(eventually([&] { return !m_server.exists("{lock:invoke:busy}:queue"); }));
    letGo("lock:invoke:busy");

    // In a thread that never gets to it.
    QThread idle;
    auto *far = new Invokable;
    far->moveToThread(&idle);
    const auto third = invokeLocked(far, "patient");
    delete far;
    QVERIFY(third.isFinished());
    QCOMPARE(failureOf(third).error, DistributedLock::CancelledError);
}

void tst_Annotations::invokesWithTheDead_data()
{
    QTest::addColumn<QString>("method");
    QTest::addColumn<bool>("inWorker");
    QTest::newRow("pointer") << QStringLiteral("object") << false;
    QTest::newRow("in a QVariant") << QStringLiteral("anything") << false;
    QTest::newRow("on the way to another thread") << QStringLiteral("object") << true;
}

void tst_Annotations::invokesWithTheDead()
{
    QFETCH(QString, method);
    QFETCH(bool, inWorker);
    const QByteArray name = method.toUtf8();
    Invokable object;
    QSemaphore goOn;
    LoopThread worker;
    if (inWorker) {
        object.moveToThread(&worker.thread);
        QMetaObject::invokeMethod(
                &object, [&] { goOn.acquire(); }, Qt::QueuedConnection);
    } else {
        hold("lock:invoke:any");
    }
    auto argument = std::make_unique<Sender>();
    const auto dropped = invokeLocked(&object, name.constData(), argument.get());
    const auto null = invokeLocked(&object, name.constData(),
                                   QVariant::fromValue<QObject *>(nullptr));
    argument.reset();
    goOn.release();
    letGo("lock:invoke:any");
    QVERIFY(finished(dropped) && finished(null));
    QCOMPARE(failureOf(dropped).error, DistributedLock::CancelledError);
    QVERIFY2(failureOf(dropped).errorString.contains(
                     QStringLiteral("an object among its arguments was destroyed")),
             qPrintable(failureOf(dropped).errorString));
    QCOMPARE(failureOf(null).error, DistributedLock::NoError);
    QCOMPARE(null.result().value<QObject *>(), nullptr);
}

void tst_Annotations::withLockValues()
{
    const QString name = QStringLiteral("w");
    int calls = 0;
    const QFuture<int> value = withLock(name, {}, [&] {
        ++calls;
        return isLockedHere(name) ? 42 : -1;
    });
    QVERIFY(!value.isFinished());
    QVERIFY(finished(value));
    QCOMPARE(value.result(), 42);

    const QFuture<void> nothing = withLock(name, LockOptions().withWait(5s), [&] { ++calls; });
    QVERIFY(finished(nothing));
    QVERIFY(!nothing.isCanceled());

    const auto thrown = withLock(name, {}, [&]() -> QString { throw std::runtime_error("thrown"); });
    QVERIFY(finished(thrown));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, thrown.result());

    auto moved = withLock(name, {}, [pointer = std::make_unique<int>(7)]() mutable { return std::move(pointer); });
    QVERIFY(finished(moved));
    QCOMPARE(*moved.takeResult(), 7);

    // In the order of the calls.
    QList<int> order;
    QList<QFuture<void>> futures;
    for (int i = 0; i < 20; ++i)
        futures.append(withLock(name, {}, [&order, i] { order.append(i); }));
    QVERIFY(finished(futures.last()));
    QCOMPARE(order.size(), 20);
    QVERIFY(std::is_sorted(order.begin(), order.end()));
    QCOMPARE(calls, 2);

    const auto bad = withLock(name, LockOptions().withLease(0ms), [&] { return ++calls; });
    QVERIFY(finished(bad));
    QCOMPARE(failureOf(bad).error, DistributedLock::OptionsError);
    const auto badName = withLock(QString(), {}, [&] { return ++calls; });
    QVERIFY(finished(badName));
    QCOMPARE(failureOf(badName).error, DistributedLock::NameError);
    const auto elsewhere = withLock(QUrl(QStringLiteral("memory:w")), name, {}, [&] {
        return isLockedHere(QUrl(QStringLiteral("memory:w")), name) && !m_server.exists("lock:w");
    });
    QVERIFY(finished(elsewhere));
    QVERIFY(elsewhere.result());
    QCOMPARE(calls, 2);
}

void tst_Annotations::withLockFutures()
{
    const QString name = QStringLiteral("w");
    // Held until the inner future has finished, whichever way, in whatever thread.
    QPromise<int> promise;
    promise.start();
    bool begun = false;
    const QFuture<int> value = withLock(name, {}, [&] {
        begun = true;
        return promise.future();
    });
    int second = 0;
    const auto next = withLock(name, {}, [&] { return ++second; });
    QVERIFY(eventually([&] { return begun; }));
    // A release at the function's return would be done before this one on the same connection.
    QVERIFY(finished(withLock(QStringLiteral("other"), {}, [] {})));
    QVERIFY(m_server.exists("lock:w"));
    QVERIFY(!value.isFinished());
    QCOMPARE(second, 0);
    {
        LoopThread thread;
        QObject context;
        context.moveToThread(&thread.thread);
        QMetaObject::invokeMethod(
                &context,
                [&] {
                    promise.addResult(42);
                    promise.finish();
                },
                Qt::BlockingQueuedConnection);
    }
    QVERIFY(finished(value));
    QCOMPARE(value.result(), 42);
    QVERIFY(finished(next));

    QPromise<void> done;
    done.start();
    const QFuture<void> nothing = withLock(name, {}, [&] { return done.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    QVERIFY(!nothing.isFinished());
    done.finish();
    QVERIFY(finished(nothing));
    QVERIFY(!nothing.isCanceled());
    QVERIFY(nothingLeft());

    QPromise<int> failing;
    failing.start();
    const auto failed = withLock(name, {}, [&] { return failing.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    failing.setException(std::make_exception_ptr(std::runtime_error("inner")));
    failing.finish();
    QVERIFY(finished(failed));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, failed.result());
    QVERIFY(nothingLeft());

    QPromise<void> failingVoid;
    failingVoid.start();
    auto failedVoid = withLock(name, {}, [&] { return failingVoid.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    failingVoid.setException(std::make_exception_ptr(std::runtime_error("inner")));
    failingVoid.finish();
    QVERIFY(finished(failedVoid));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, failedVoid.waitForFinished());

    const auto thrown = withLock(name, {}, []() -> QFuture<int> { throw std::runtime_error("before"); });
    QVERIFY(finished(thrown));
    QVERIFY_THROWS_EXCEPTION(std::runtime_error, thrown.result());

    // Finished in another thread while this one looks.
    {
        LoopThread thread;
        QObject context;
        context.moveToThread(&thread.thread);
        for (int i = 0; i < 100; ++i) {
            const auto far = withLock(name, {}, [&context, i] {
                const auto shared = std::make_shared<QPromise<int>>();
                shared->start();
                QMetaObject::invokeMethod(
                        &context,
                        [shared, i] {
                            shared->addResult(i);
                            shared->finish();
                        },
                        Qt::QueuedConnection);
                return shared->future();
            });
            QVERIFY(finished(far));
            QCOMPARE(far.result(), i);
        }
    }
    QVERIFY(nothingLeft());

    // Finished already.
    const auto ready = withLock(name, {}, [] { return QtFuture::makeReadyFuture(QStringLiteral("x")); });
    QVERIFY(finished(ready));
    QCOMPARE(ready.result(), QStringLiteral("x"));
    QVERIFY(nothingLeft());
}

void tst_Annotations::withLockBusy()
{
    const QString name = QStringLiteral("w");
    hold("lock:w");
    int calls = 0;
    const auto function = [&] { return ++calls; };
    const auto busy = withLock(name, LockOptions().withWait(0ms), function);
    QVERIFY(finished(busy));
    QCOMPARE(failureOf(busy).error, DistributedLock::BusyError);
    const auto late = withLock(name, LockOptions().withWait(200ms), function);
    QVERIFY(finished(late));
    QCOMPARE(failureOf(late).error, DistributedLock::TimeoutError);
    QVERIFY(failureOf(late).errorString.contains(QStringLiteral("\"w\"")));
    QCOMPARE(calls, 0);
    letGo("lock:w");
}

void tst_Annotations::withLockCancelled()
{
    const QString name = QStringLiteral("w");
    hold("lock:w");
    int calls = 0;
    const LockOptions options = LockOptions().withWait(LockOptions::Forever).withRetryInterval(20ms);
    const auto function = [&] { return ++calls; };
    auto first = withLock(name, options, function);
    auto second = withLock(name, options, function);
    auto third = withLock(name, options, function);
    QVERIFY(eventually([&] { return m_server.exists("{lock:w}:queue"); }));
    second.cancel();
    QVERIFY(finished(second));
    first.cancel();
    QVERIFY(finished(first));
    QVERIFY(!third.isFinished());
    letGo("lock:w");
    QVERIFY(finished(third));
    QCOMPARE(third.result(), 1);
    QVERIFY(nothingLeft());

    // When it has the lock but not its turn yet.
    auto fourth = withLock(name, options, function);
    blockUntil([&] { return m_server.exists("lock:w"); });
    fourth.cancel();
    QVERIFY(finished(fourth));
    QVERIFY(nothingLeft());
    QCOMPARE(calls, 1);
}

void tst_Annotations::withLockInnerCancelled()
{
    const QString name = QStringLiteral("w");
    // The inner one by itself.
    QPromise<int> inner;
    inner.start();
    bool begun = false;
    const auto outer = withLock(name, {}, [&] {
        begun = true;
        return inner.future();
    });
    QVERIFY(eventually([&] { return begun; }));
    inner.future().cancel();
    processEvents();
    QVERIFY(m_server.exists("lock:w")); // it has not finished
    inner.finish();
    QVERIFY(finished(outer));
    QVERIFY(outer.isCanceled());
    QVERIFY(nothingLeft());

    // The outer one, which cancels the inner.
    QPromise<void> second;
    second.start();
    bool runs = false;
    auto cancelled = withLock(name, {}, [&] {
        runs = true;
        return second.future();
    });
    QVERIFY(eventually([&] { return runs; }));
    cancelled.cancel();
    QVERIFY(eventually([&] { return second.isCanceled(); }));
    QVERIFY(m_server.exists("lock:w"));
    second.finish();
    QVERIFY(finished(cancelled));
    QVERIFY(nothingLeft());

    // Finished without a result.
    QPromise<int> empty;
    empty.start();
    const auto none = withLock(name, {}, [&] { return empty.future(); });
    QVERIFY(eventually([&] { return m_server.exists("lock:w"); }));
    empty.finish();
    QVERIFY(finished(none));
    QVERIFY(none.isCanceled());
    QVERIFY(nothingLeft());
}

void tst_Annotations::withLockContext()
{
    const QString name = QStringLiteral("w");
    int calls = 0;
    auto context = std::make_unique<QObject>();
    const auto ran = withLock(context.get(), name, {}, [&] { return ++calls; });
    QVERIFY(finished(ran));
    QCOMPARE(ran.result(), 1);

    hold("lock:w");
    const auto dropped = withLock(context.get(), name, {}, [&] { return ++calls; });
    QVERIFY(eventually([&] { return m_server.exists("{lock:w}:queue"); }));
    context.reset();
    QVERIFY(finished(dropped));
    QCOMPARE(failureOf(dropped).error, DistributedLock::CancelledError);
    letGo("lock:w");
    QVERIFY(nothingLeft());
    QCOMPARE(calls, 1);

    // In the context's thread; and the lock outlives it while the inner future runs.
    LoopThread thread;
    auto *far = new QObject;
    far->moveToThread(&thread.thread);
    QPromise<bool> inner;
    inner.start();
    std::atomic<QThread *> seen{nullptr};
    const auto there = withLock(far, name, {}, [&] {
        seen = QThread::currentThread();
        return inner.future();
    });
    QVERIFY(eventually([&] { return seen.load() != nullptr; }));
    QMetaObject::invokeMethod(far, [far] { delete far; }, Qt::BlockingQueuedConnection);
    QVERIFY(m_server.exists("lock:w"));
    inner.addResult(true);
    inner.finish();
    QVERIFY(finished(there));
    QVERIFY(there.result());
    QCOMPARE(seen.load(), &thread.thread);
    QVERIFY(nothingLeft());
}

void tst_Annotations::continuationsHaveNoLock_data()
{
    QTest::addColumn<QString>("kind");
    for (const char *kind : {"value", "void", "exception", "future", "invoked"})
        QTest::newRow(kind) << QString::fromLatin1(kind);
}

void tst_Annotations::continuationsHaveNoLock()
{
    QFETCH(QString, kind);
    const QString name = kind == u"invoked" ? QStringLiteral("invoke:nothing")
                                            : QStringLiteral("w");
    Invokable object;
    bool told = false;
    bool inside = true;
    bool gone = false;
    LockResult again;
    const auto tell = [&] {
        inside = isLockedHere(name);
        const auto future = withLock(name, LockOptions().withWait(0ms), [] {});
        if (finished(future)) {
            again = failureOf(future);
            gone = nothingLeft(); // as under a dialog that stays open
        }
        told = true;
    };
    const auto then = [&tell](auto future) {
        future.then([&tell](const decltype(future) &) { tell(); });
    };
    if (kind == u"value")
        then(withLock(name, {}, [] { return 1; }));
    else if (kind == u"void")
        then(withLock(name, {}, [] {}));
    else if (kind == u"exception")
        then(withLock(name, {}, []() -> int { throw std::runtime_error("thrown"); }));
    else if (kind == u"future")
        then(withLock(name, {}, [] { return QtFuture::makeReadyFuture(1); }));
    else
        then(invokeLocked(&object, "nothing"));
    QVERIFY(eventually([&] { return told; }, 20s));
    QVERIFY(!inside);
    QVERIFY2(again, qPrintable(again.errorString));
    QVERIFY(gone);
}

void tst_Annotations::nextBeforeContinuations()
{
    // Whoever waits behind a call does not wait for what follows it.
    const QString name = QStringLiteral("w");
    bool ranInside = false;
    QFuture<int> next;
    QFuture<void> first = withLock(name, {}, [] {});
    const auto told = first.then([&](const QFuture<void> &) { ranInside = finished(next); });
    next = withLock(name, LockOptions().withWait(1min), [] { return 2; });
    QVERIFY(finished(told, 20s));
    QVERIFY(ranInside);
}

QTEST_GUILESS_MAIN(tst_Annotations)
#include "tst_annotations.moc"
