// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/fakeclock.h"
#include "support/faultproxy.h"
#include "support/locktesting.h"
#include "support/redisserver.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qpointer.h>

#include <functional>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace QDistLock;

namespace {

/// A lease, and a time in which it is renewed once.
constexpr milliseconds Lease = 30s;
constexpr milliseconds UntilRenewal = 11s;

/// A clock that the test moves, of a registry that it may destroy.
class RegistryClock
{
public:
    explicit RegistryClock(LockRegistry *registry)
        : m_registry(registry)
    {
        LockRegistryPrivate::get(registry)->setClock(&m_clock);
    }
    /// The registry's own timer finds out, at most 1 s later.
    void advanceOnly(milliseconds time) { m_clock.advance(time); }
    void advance(milliseconds time)
    {
        m_clock.advance(time);
        if (m_registry)
            LockRegistryPrivate::get(m_registry)->watchdog()->wake();
    }

private:
    Support::FakeClock m_clock;
    const QPointer<LockRegistry> m_registry;
};

/// One lock is held, one waits for a lock that a client on another connection holds: what a dialog elsewhere must not
/// disturb.
struct Bystanders
{
    Bystanders(LockRegistry *registry, const QUrl &direct, milliseconds lease)
        : heldLock(registry, u"bystander:held"_s)
        , waiter(registry, u"bystander:waiter"_s)
        , others(direct)
        , holder(&others, u"bystander:waiter"_s)
    {
        heldLock.setOptions(options(lease));
        waiter.setOptions(options(lease, LockOptions::Forever));
        holder.setOptions(options(lease));
    }
    bool begin()
    {
        if (!acquireNow(&heldLock) || !acquireNow(&holder))
            return false;
        waiter.acquire();
        return eventually([this] { return waiter.queuePosition() == 0; });
    }

    DistributedLock heldLock;
    DistributedLock waiter;
    LockRegistry others;
    DistributedLock holder;
    Spies held{&heldLock};
    Spies waiting{&waiter};
};

/// Calls an action from a signal that is known by name.
class Entry : public QObject
{
    Q_OBJECT
public:
    std::function<void()> action;

public Q_SLOTS:
    void enter() { action(); }
};

bool connectByName(QObject *sender, const QByteArray &signal, Entry *entry)
{
    const QMetaObject *const type = sender->metaObject();
    const QMetaMethod slot = entry->metaObject()->method(entry->metaObject()->indexOfSlot("enter()"));
    for (int i = 0; i < type->methodCount(); ++i) {
        if (type->method(i).methodType() == QMetaMethod::Signal && type->method(i).name() == signal)
            return QObject::connect(sender, type->method(i), entry, slot);
    }
    return false;
}

} // namespace

/*!
    A slot that runs a nested event loop, as a dialog does, at each signal of lock and registry, while the connection
    is cut and comes back: every other lock is renewed and served in that loop, and after it (promise 10).
*/
class tst_NestedLoops : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY(m_server.start()); }
    void cleanup() { m_server.command({"FLUSHALL"}); }

    void atEachSignal_data();
    void atEachSignal();
    void atEachSignalInRealTime_data() { atEachSignal_data(); }
    PROOF void atEachSignalInRealTime();
    void whileAnotherLockIsServed();
    void whenTheConnectionHasEnded_data();
    void whenTheConnectionHasEnded();
    void aReleaseIsCompletedBeforeItsSuccessor();
    void deletedInTheLoop_data();
    void deletedInTheLoop();

private:
    /// In real time, the registry's own timer does everything.
    void loopAtSignal(bool inRealTime);

    Support::RedisServer m_server;
};

void tst_NestedLoops::atEachSignal_data()
{
    QTest::addColumn<QByteArray>("signal");
    QTest::addColumn<bool>("ofRegistry");
    for (const char *signal :
         {"stateChanged", "heldChanged", "holdCountChanged", "fencingTokenChanged", "acquired", "released", "renewed",
          "atRisk", "lost", "acquireFailed", "queuePositionChanged", "errorChanged", "errorOccurred"})
        QTest::addRow("lock, %s", signal) << QByteArray(signal) << false;
    for (const char *signal : {"stateChanged", "errorChanged", "errorOccurred"})
        QTest::addRow("registry, %s", signal) << QByteArray(signal) << true;
}

void tst_NestedLoops::atEachSignal()
{
    loopAtSignal(false);
}

void tst_NestedLoops::atEachSignalInRealTime()
{
    loopAtSignal(true);
}

void tst_NestedLoops::loopAtSignal(bool inRealTime)
{
    QFETCH(QByteArray, signal);
    QFETCH(bool, ofRegistry);
    const milliseconds lease = inRealTime ? 2s : Lease;
    Support::FaultProxy proxy(m_server);
    std::unique_ptr<RegistryClock> clock; // outlives the registry
    std::unique_ptr<LockRegistry> registryOwner = std::make_unique<LockRegistry>(proxy.url());
    LockRegistry &registry = *registryOwner;
    if (!inRealTime)
        clock = std::make_unique<RegistryClock>(&registry);
    DistributedLock lock(&registry, u"subject"_s);
    lock.setOptions(options(lease).withAutoRenew(signal != "atRisk"));
    Bystanders bystanders(&registry, m_server.url(), lease);
    // Before the bystanders: what happens to all locks happens to this one first.
    const bool needsHold = signal == "released" || signal == "lost" || signal == "renewed"
            || signal.startsWith("error");
    if (needsHold)
        QVERIFY(acquireNow(&lock));
    QVERIFY(bystanders.begin());

    // For more than a lease.
    const auto stay = [&] {
        if (inRealTime) {
            const QDeadlineTimer end(lease * 5 / 4);
            eventually([&] { return end.hasExpired(); });
            return;
        }
        for (int i = 0; i < 4; ++i) {
            const qsizetype renewals = bystanders.held.renewed.size();
            if (i == 0)
                clock->advanceOnly(UntilRenewal);
            else
                clock->advance(UntilRenewal);
            if (!eventually([&] { return bystanders.held.renewed.size() > renewals; }))
                return;
        }
    };
    bool entered = false;
    bool ended = false;
    bool renewed = false;
    bool served = false;
    const auto dialog = [&] {
        if (std::exchange(entered, true))
            return;
        const qint64 connections = proxy.connectionsAccepted();
        proxy.resetAll();
        const qsizetype renewals = bystanders.held.renewed.size();
        if (!inRealTime) {
            // Both connections are up again: that of commands, and that of messages.
            eventually([&] { return proxy.connectionsAccepted() >= connections + 2 && proxy.connections() == 2; });
        }
        stay();
        renewed = bystanders.held.renewed.size() > renewals && bystanders.heldLock.isHeld();
        bystanders.holder.release();
        served = eventually([&] {
            if (clock)
                clock->advance(1ms); // the message may have been lost: polls
            if (lock.isHeld() && lock.name() == bystanders.waiter.name())
                lock.release(); // if the message was lost, either of the two may be first
            return bystanders.waiter.isHeld();
        });
        ended = true;
    };
    QObject *const sender = ofRegistry ? static_cast<QObject *>(&registry) : &lock;
    Entry entry;
    entry.action = dialog;
    QVERIFY(connectByName(sender, signal, &entry));

    if (signal == "released")
        lock.release();
    else if (signal == "lost")
        m_server.command({"DEL", "lock:subject"});
    else if (signal == "acquireFailed" || signal == "queuePositionChanged")
        lock.setName(u"bystander:waiter"_s);
    if (signal == "acquireFailed")
        lock.tryAcquire();
    else if (!needsHold)
        lock.acquire();
    if (ofRegistry || signal.startsWith("error"))
        proxy.resetAll();
    if (clock && (signal == "lost" || signal == "renewed"))
        clock->advance(UntilRenewal);
    if (clock && signal == "atRisk") {
        QVERIFY(eventually([&] { return lock.isHeld(); }));
        for (int i = 0; i < 2; ++i) {
            const qsizetype renewals = bystanders.held.renewed.size();
            clock->advance(UntilRenewal);
            QVERIFY(eventually([&] { return ended || bystanders.held.renewed.size() > renewals; }));
        }
    }

    QVERIFY(eventually([&] { return ended; }));
    QVERIFY(renewed);
    QVERIFY(served);
    // And after the loop.
    for (int i = 0; i < 2; ++i) {
        const qsizetype renewals = bystanders.held.renewed.size();
        if (clock)
            clock->advance(UntilRenewal);
        QVERIFY(eventually([&] { return bystanders.held.renewed.size() > renewals; }));
    }
    QVERIFY(bystanders.heldLock.isHeld());
    QVERIFY(bystanders.held.lost.isEmpty());
    QCOMPARE(bystanders.waiting.acquired.size(), 1);
    QVERIFY(bystanders.waiting.lost.isEmpty());
}

void tst_NestedLoops::whileAnotherLockIsServed()
{
    // Many grants in one batch of replies; the first slot runs a loop that waits for all the others.
    LockRegistry registry(m_server.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int acquired = 0;
    bool others = false;
    for (int i = 0; i < 200; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, QString::number(i)));
        connect(locks.back().get(), &DistributedLock::acquired, this, [&] {
            if (++acquired == 1)
                others = eventually([&] { return acquired == 200; });
        });
        locks.back()->acquire();
    }
    QVERIFY(eventually([&] { return acquired == 200; }));
    QVERIFY(eventually([&] { return others; }));
}

void tst_NestedLoops::whenTheConnectionHasEnded_data()
{
    QTest::addColumn<bool>("isWritten");
    QTest::newRow("found by reading") << false;
    QTest::newRow("found by writing") << true;
}

void tst_NestedLoops::whenTheConnectionHasEnded()
{
    // The event loop was busy: the reply to `subject` has arrived, and the connection has ended since. The nested loop
    // of the slot connects again.
    QFETCH(bool, isWritten);
    std::unique_ptr<RegistryClock> clock; // outlives the registry
    LockRegistry registry(m_server.url());
    clock = std::make_unique<RegistryClock>(&registry);
    DistributedLock bystander(&registry, u"bystander"_s);
    DistributedLock former(&registry, u"former"_s);
    DistributedLock subject(&registry, u"subject"_s);
    DistributedLock other(&registry, u"other"_s);
    bystander.setOptions(options(Lease));
    Spies bystanders(&bystander);
    QVERIFY(acquireNow(&bystander));
    QVERIFY(acquireNow(&former));
    bool served = false;
    bool renewed = false;
    bool ended = false;
    connect(&subject, &DistributedLock::acquired, this, [&] {
        other.acquire();
        served = eventually([&] { return other.isHeld(); });
        renewed = true;
        for (int i = 0; i < 4; ++i) { // for more than a lease
            const qsizetype renewals = bystanders.renewed.size();
            if (i == 0)
                clock->advanceOnly(UntilRenewal);
            else
                clock->advance(UntilRenewal);
            renewed = renewed && eventually([&] { return bystanders.renewed.size() > renewals; });
        }
        ended = true;
    });
    subject.acquire();
    sendNow();
    QElapsedTimer timer;
    timer.start();
    while (!m_server.exists("lock:subject") && timer.elapsed() < 60'000) { // without the event loop
    }
    m_server.command({"CLIENT", "KILL", "TYPE", "normal"});
    if (isWritten)
        former.release(); // finds the end while the reply is still unread
    QVERIFY(eventually([&] { return ended; }));
    QVERIFY(served);
    QVERIFY(renewed);
    QVERIFY(bystanders.lost.isEmpty());
}

void tst_NestedLoops::aReleaseIsCompletedBeforeItsSuccessor()
{
    // The reply to a release brings the hand-over to a waiter of the same client. Its slot may take longer than the
    // lease of what was released.
    std::unique_ptr<RegistryClock> clock; // outlives the registry
    LockRegistry registry(m_server.url());
    clock = std::make_unique<RegistryClock>(&registry);
    DistributedLock first(&registry, u"handed"_s);
    DistributedLock second(&registry, u"handed"_s);
    first.setOptions(options(Lease));
    second.setOptions(options(Lease)); // another lease would make it ask the server once more
    Spies spies(&first);
    Spies successors(&second);
    QVERIFY(acquireNow(&first));
    bool served = false;
    connect(&second, &DistributedLock::acquired, this, [&] {
        for (int i = 0; i < 4; ++i) {
            const qsizetype renewals = successors.renewed.size();
            clock->advance(UntilRenewal);
            if (!eventually([&] { return successors.renewed.size() > renewals; }))
                return;
        }
        served = true;
    });
    second.acquire();
    QVERIFY(eventually([&] { return second.queuePosition() == 0; }));
    first.release();
    QVERIFY(eventually([&] { return served; }));
    QVERIFY(eventually([&] { return spies.holdsEnded() == 1; }));
    QCOMPARE(spies.released.size(), 1);
    QVERIFY(spies.lost.isEmpty());
}

void tst_NestedLoops::deletedInTheLoop_data()
{
    QTest::addColumn<QByteArray>("signal");
    QTest::addColumn<QByteArray>("victim");
    for (const char *victim : {"lock", "registry", "both"}) {
        for (const char *signal :
             {"stateChanged", "heldChanged", "holdCountChanged", "fencingTokenChanged", "acquired", "released",
              "renewed", "atRisk", "lost", "acquireFailed", "queuePositionChanged", "errorChanged", "errorOccurred"})
            QTest::addRow("%s, %s", signal, victim) << QByteArray(signal) << QByteArray(victim);
    }
}

void tst_NestedLoops::deletedInTheLoop()
{
    // A dialog in a slot, while the connection is cut; what the signal is about is destroyed before the dialog is
    // closed.
    QFETCH(QByteArray, signal);
    QFETCH(QByteArray, victim);
    Support::FaultProxy proxy(m_server);
    std::unique_ptr<RegistryClock> clock; // outlives the registry
    auto registry = std::make_unique<LockRegistry>(proxy.url());
    clock = std::make_unique<RegistryClock>(registry.get());
    auto lock = std::make_unique<DistributedLock>(registry.get(), u"subject"_s);
    lock->setOptions(options(Lease).withAutoRenew(signal != "atRisk"));
    DistributedLock neighbour(registry.get(), u"neighbour"_s);
    neighbour.setOptions(options(Lease, LockOptions::Forever));
    Spies neighbours(&neighbour);
    neighbour.acquire();
    LockRegistry others(m_server.url());
    DistributedLock holder(&others, u"taken"_s);
    QVERIFY(acquireNow(&holder));
    const bool needsHold = signal == "released" || signal == "lost" || signal == "renewed"
            || signal.startsWith("error");
    if (needsHold)
        QVERIFY(acquireNow(lock.get()));

    bool ended = false;
    qsizetype acquires = 0;
    qsizetype futures = 0;
    Entry entry;
    entry.action = [&] {
        if (!lock || ended || acquires > 0)
            return;
        acquires = 3;
        for (int i = 0; i < 3; ++i) {
            if (lock)
                lock->acquireAsync().then([&](const LockResult &) { ++futures; });
            else
                --acquires;
        }
        proxy.resetAll();
        QElapsedTimer timer;
        timer.start();
        eventually([&] { return timer.elapsed() > 50; });
        if (victim != "registry")
            lock.reset();
        if (victim != "lock")
            registry.reset();
        timer.start();
        eventually([&] { return timer.elapsed() > 50; });
        ended = true;
    };
    QVERIFY(connectByName(lock.get(), signal, &entry));
    if (signal == "released")
        lock->release();
    else if (signal == "lost")
        m_server.command({"DEL", "lock:subject"});
    else if (signal == "acquireFailed" || signal == "queuePositionChanged")
        lock->setName(u"taken"_s);
    if (signal == "acquireFailed")
        lock->tryAcquire();
    else if (!needsHold)
        lock->acquire();
    if (signal.startsWith("error"))
        proxy.resetAll();
    if (signal == "lost" || signal == "renewed")
        clock->advance(UntilRenewal);
    if (signal == "atRisk") {
        QVERIFY(eventually([&] { return lock->isHeld(); }));
        clock->advance(Lease * 3 / 4);
    }
    QVERIFY(eventually([&] { return ended; }));
    if (victim == "registry")
        QVERIFY(eventually([&] { return lock->state() == DistributedLock::Unlocked && !lock->isHeld(); }));
    QVERIFY(eventually([&] { return futures == acquires; }));
    if (victim == "lock")
        QVERIFY(eventually([&] { return neighbour.isHeld(); }));
    else
        QVERIFY(eventually([&] { return neighbours.acquired.size() + neighbours.failed.size() >= 1; }));
    if (victim != "lock" && neighbours.acquired.size() == 1)
        QVERIFY(eventually([&] { return neighbours.holdsEnded() == 1; }));
    QVERIFY(neighbours.acquiresEnded() == 1);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_NestedLoops)
#include "tst_nestedloops.moc"
