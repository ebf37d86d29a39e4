// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/fakesentinel.h"
#include "support/faultproxy.h"
#include "support/locktest.h"
#include "support/rediscluster.h"
#include "support/redisserver.h"
#include "support/redisset.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qrandom.h>

#include <array>
#include <exception>
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

/// A nested event loop in which the server answers another client, later than all that was sent to it before.
void runLoop(LockRegistry *others)
{
    const QFuture<LockInfo> answer = others->inspect(u"other"_s);
    try { // QFuture would swallow what a continuation throws
        if (!eventually([&answer] { return answer.isFinished(); }))
            QTest::qFail("no answer", __FILE__, __LINE__);
        processEvents();
    } catch (const std::exception &exception) {
        QTest::qFail(exception.what(), __FILE__, __LINE__);
    }
}

/// Locks and requests of one registry. At each signal of a lock, and in each continuation, something happens at random:
/// a nested event loop, another request, or the end of locks or of the registry.
class RandomDestruction
{
public:
    RandomDestruction(const QUrl &server, LockRegistry *others, quint32 seed)
        : m_random(seed)
        , m_others(others)
        , m_registry(std::make_unique<LockRegistry>(server))
    {
        for (size_t i = 0; i < m_locks.size(); ++i) {
            m_locks[i] = std::make_unique<DistributedLock>(m_registry.get(), nameOf(int(i)));
            DistributedLock *const lock = m_locks[i].get();
            lock->setOptions(options(10min, LockOptions::Forever)); // nothing that is left behind ends by itself
            m_entry.action = [this] { act(); };
            for (const char *signal :
                 {"stateChanged", "heldChanged", "holdCountChanged", "fencingTokenChanged", "acquired", "released",
                  "lost", "acquireFailed", "queuePositionChanged", "errorChanged", "errorOccurred"})
                connectByName(lock, signal, &m_entry);
        }
    }

    /// Until all is destroyed, and all futures have ended.
    bool run()
    {
        while (m_actions < MostActions && m_registry) {
            act();
            runLoop(m_others);
        }
        m_actions = MostActions;
        if (m_random.bounded(2) == 0)
            m_registry.reset();
        for (auto &lock : m_locks)
            lock.reset();
        m_registry.reset();
        return eventually([this] { return m_ended == m_begun; });
    }
    static QString nameOf(int lock) { return u"subject%1"_s.arg(lock % 4); }
    static constexpr int LockCount = 8;

private:
    static constexpr int MostActions = 100;
    static constexpr int DeepestLoop = 4;

    template<typename T>
    void follow(const QFuture<T> &future)
    {
        ++m_begun;
        QFuture<T>(future).then([this](const T &) {
            ++m_ended;
            act();
        });
    }

    void act()
    {
        if (++m_actions > MostActions)
            return;
        const auto index = size_t(m_random.bounded(int(m_locks.size())));
        DistributedLock *const lock = m_locks[index].get();
        const QString name = nameOf(int(index));
        switch (m_random.bounded(16)) {
        case 0:
            m_locks[index].reset();
            break;
        case 1:
            if (m_actions > MostActions / 4)
                m_registry.reset();
            break;
        case 2:
        case 3:
        case 4:
            if (m_depth < DeepestLoop) {
                ++m_depth;
                runLoop(m_others);
                --m_depth;
            }
            break;
        case 5:
            if (lock)
                lock->release();
            break;
        case 6:
            if (lock)
                follow(lock->releaseAsync());
            break;
        case 7:
            if (m_registry)
                follow(m_registry->inspect(name));
            break;
        case 8:
            if (m_registry)
                follow(m_registry->list(u"*"_s));
            break;
        case 9:
            if (m_registry)
                follow(m_registry->waiters(name));
            break;
        case 10:
            if (m_registry)
                follow(m_registry->forceRelease(name));
            break;
        case 11:
            if (m_registry)
                follow(m_registry->release(name, "0123456789abcdef:1:ab"));
            break;
        case 12:
            if (lock)
                follow(lock->tryAcquireAsync());
            break;
        default:
            if (lock)
                follow(lock->acquireAsync());
            break;
        }
    }

    QRandomGenerator m_random;
    LockRegistry *const m_others;
    Entry m_entry;
    std::unique_ptr<LockRegistry> m_registry;
    std::array<std::unique_ptr<DistributedLock>, LockCount> m_locks;
    int m_actions = 0;
    int m_depth = 0;
    qsizetype m_begun = 0;
    qsizetype m_ended = 0;
};

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
    void atEachSignal() { loopAtSignal(false); }
    void atEachSignalInRealTime_data() { atEachSignal_data(); }
    PROOF void atEachSignalInRealTime();
    void whileAnotherLockIsServed();
    void whatWasPostedBefore_data();
    void whatWasPostedBefore();
    void whenTheConnectionHasEnded_data()
    {
        Support::addRows<bool>("isWritten", {{"found by reading", false}, {"found by writing", true}});
    }
    void whenTheConnectionHasEnded();
    void aReleaseIsCompletedBeforeItsSuccessor();
    void deletedInTheLoop_data();
    void deletedInTheLoop();
    void requestsEndWithTheRegistry_data() { addEngines(); }
    void requestsEndWithTheRegistry();
    void destroyedAtRandom_data() { addEngines(); }
    void destroyedAtRandom();
    void destroyedAtRandomOften_data() { addEngines(); }
    PROOF void destroyedAtRandomOften();

private:
    /// In real time, the registry's own timer does everything.
    void loopAtSignal(bool inRealTime);
    static void addEngines();
    /// Starts the servers that the engine needs; empty if they cannot be started.
    QUrl urlOf(const QByteArray &engine);
    void destroyAtRandom(const QUrl &url, quint32 seed);

    Support::RedisServer m_server{Support::RedisServer::Options::withTcp()};
    std::vector<std::unique_ptr<Support::FakeSentinel>> m_sentinels;
    std::unique_ptr<Support::RedisCluster> m_cluster;
    std::unique_ptr<Support::RedisSet> m_quorum;
};

void tst_NestedLoops::atEachSignal_data()
{
    Support::addColumns<QByteArray, bool>("signal", "ofRegistry");
    for (const char *signal :
         {"stateChanged", "heldChanged", "holdCountChanged", "fencingTokenChanged", "acquired", "released", "renewed",
          "atRisk", "lost", "acquireFailed", "queuePositionChanged", "errorChanged", "errorOccurred"})
        QTest::addRow("lock, %s", signal) << QByteArray(signal) << false;
    for (const char *signal : {"stateChanged", "errorChanged", "errorOccurred"})
        QTest::addRow("registry, %s", signal) << QByteArray(signal) << true;
}

void tst_NestedLoops::atEachSignalInRealTime()
{
    loopAtSignal(true);
}

void tst_NestedLoops::loopAtSignal(bool inRealTime)
{
    QFETCH(QByteArray, signal);
    QFETCH(bool, ofRegistry);
    const milliseconds lease = inRealTime ? 5s : Lease;
    Support::FaultProxy proxy(m_server);
    RegistryTime time; // outlives the registry
    std::unique_ptr<LockRegistry> registryOwner = std::make_unique<LockRegistry>(proxy.url());
    LockRegistry &registry = *registryOwner;
    if (!inRealTime)
        time.govern(&registry);
    TestLock lock(&registry, u"subject"_s, options(lease).withAutoRenew(signal != "atRisk"));
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
                time.advance(UntilRenewal);
            else
                time.pass(UntilRenewal);
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
        proxy.setRefusing(false);
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
            if (!inRealTime)
                time.pass(1ms); // the message may have been lost: polls
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
    proxy.setRefusing(signal.startsWith("error")); // otherwise the end of an idle connection is none
    if (ofRegistry || signal.startsWith("error"))
        proxy.resetAll();
    if (!inRealTime && (signal == "lost" || signal == "renewed"))
        time.pass(UntilRenewal);
    if (!inRealTime && signal == "atRisk") {
        QVERIFY(eventually([&] { return lock.isHeld(); }));
        for (int i = 0; i < 2; ++i) {
            const qsizetype renewals = bystanders.held.renewed.size();
            time.pass(UntilRenewal);
            QVERIFY(eventually([&] { return ended || bystanders.held.renewed.size() > renewals; }));
        }
    }

    QVERIFY(eventually([&] { return ended; }));
    QVERIFY(renewed);
    QVERIFY(served);
    // And after the loop.
    for (int i = 0; i < 2; ++i) {
        const qsizetype renewals = bystanders.held.renewed.size();
        if (!inRealTime)
            time.pass(UntilRenewal);
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

void tst_NestedLoops::whatWasPostedBefore_data()
{
    QTest::addColumn<bool>("isOfLock");
    QTest::newRow("slot of a lock") << true;
    QTest::newRow("slot of the application") << false; // while a lock is held
}

void tst_NestedLoops::whatWasPostedBefore()
{
    // The event that writes the question is behind the one that calls the slot. Qt's event loop over GLib does not
    // process it in the nested loop of that slot unless something else is posted.
    QFETCH(bool, isOfLock);
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"subject"_s);
    QVERIFY(acquireNow(&lock));
    processEvents();
    QFuture<LockInfo> answer;
    bool answered = false;
    const auto dialog = [&] {
        if (!isOfLock) // as its timer does once a second
            LockRegistryPrivate::get(&registry)->watchdog()->wake();
        answered = eventually([&] { return answer.isFinished(); });
    };
    if (isOfLock) {
        connect(&lock, &DistributedLock::acquired, this, dialog);
        lock.acquire();
    } else {
        QMetaObject::invokeMethod(this, dialog, Qt::QueuedConnection);
    }
    answer = registry.inspect(u"subject"_s);
    QVERIFY(eventually([&] { return answered; }));
    QCOMPARE(registry.errorString(), QString());
}

void tst_NestedLoops::whenTheConnectionHasEnded()
{
    // The event loop was busy: the reply to `subject` has arrived, and the connection has ended since. The nested loop
    // of the slot connects again.
    QFETCH(bool, isWritten);
    RegistryTime time; // outlives the registry
    LockRegistry registry(m_server.url());
    time.govern(&registry);
    TestLock bystander(&registry, u"bystander"_s, options(Lease));
    DistributedLock former(&registry, u"former"_s);
    DistributedLock subject(&registry, u"subject"_s);
    DistributedLock other(&registry, u"other"_s);
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
            const qsizetype renewals = bystander.spies.renewed.size();
            if (i == 0)
                time.advance(UntilRenewal);
            else
                time.pass(UntilRenewal);
            renewed = renewed && eventually([&] { return bystander.spies.renewed.size() > renewals; });
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
    QVERIFY(bystander.spies.lost.isEmpty());
}

void tst_NestedLoops::aReleaseIsCompletedBeforeItsSuccessor()
{
    // The reply to a release brings the hand-over to a waiter of the same client. Its slot may take longer than the
    // lease of what was released.
    RegistryTime time; // outlives the registry
    LockRegistry registry(m_server.url());
    time.govern(&registry);
    TestLock first(&registry, u"handed"_s, options(Lease));
    TestLock second(&registry, u"handed"_s, options(Lease)); // another lease would make it ask the server once more
    QVERIFY(acquireNow(&first));
    bool served = false;
    connect(&second, &DistributedLock::acquired, this, [&] {
        for (int i = 0; i < 4; ++i) {
            const qsizetype renewals = second.spies.renewed.size();
            time.pass(UntilRenewal);
            if (!eventually([&] { return second.spies.renewed.size() > renewals; }))
                return;
        }
        served = true;
    });
    QVERIFY(joinQueue(&second));
    first.release();
    QVERIFY(eventually([&] { return served; }));
    QVERIFY(eventually([&] { return first.spies.holdsEnded() == 1; }));
    QCOMPARE(first.spies.released.size(), 1);
    QVERIFY(first.spies.lost.isEmpty());
}

void tst_NestedLoops::deletedInTheLoop_data()
{
    Support::addColumns<QByteArray, QByteArray>("signal", "victim");
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
    RegistryTime time; // outlives the registry
    auto registry = std::make_unique<LockRegistry>(proxy.url());
    time.govern(registry.get());
    auto lock = std::make_unique<DistributedLock>(registry.get(), u"subject"_s);
    lock->setOptions(options(Lease).withAutoRenew(signal != "atRisk"));
    TestLock neighbour(registry.get(), u"neighbour"_s, options(Lease, LockOptions::Forever));
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
        proxy.setRefusing(false);
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
    proxy.setRefusing(signal.startsWith("error")); // otherwise the end of an idle connection is none
    if (signal.startsWith("error"))
        proxy.resetAll();
    if (signal == "lost" || signal == "renewed")
        time.pass(UntilRenewal);
    if (signal == "atRisk") {
        QVERIFY(eventually([&] { return lock->isHeld(); }));
        time.pass(Lease * 3 / 4);
    }
    QVERIFY(eventually([&] { return ended; }));
    if (victim == "registry")
        QVERIFY(eventually([&] { return lock->state() == DistributedLock::Unlocked && !lock->isHeld(); }));
    QVERIFY(eventually([&] { return futures == acquires; }));
    if (victim == "lock")
        QVERIFY(eventually([&] { return neighbour.isHeld(); }));
    else
        QVERIFY(eventually([&] { return neighbour.spies.acquired.size() + neighbour.spies.failed.size() >= 1; }));
    if (victim != "lock" && neighbour.spies.acquired.size() == 1)
        QVERIFY(eventually([&] { return neighbour.spies.holdsEnded() == 1; }));
    QVERIFY(neighbour.spies.acquiresEnded() == 1);
}

void tst_NestedLoops::addEngines()
{
    QTest::addColumn<QByteArray>("engine");
    for (const char *engine : {"one server", "without scripts", "sentinel", "cluster", "quorum"})
        QTest::newRow(engine) << QByteArray(engine);
}

QUrl tst_NestedLoops::urlOf(const QByteArray &engine)
{
    QUrl url = m_server.url();
    if (engine == "without scripts") {
        url.setQuery(u"scripts=off"_s);
    } else if (engine == "sentinel") {
        Support::FakeSentinel::View view;
        view.port = m_server.port();
        view.others = 0;
        if (m_sentinels.empty())
            m_sentinels.push_back(std::make_unique<Support::FakeSentinel>(view));
        url = QUrl(u"redis+sentinel://127.0.0.1:%1/mymaster"_s.arg(m_sentinels.front()->port()));
    } else if (engine == "cluster") {
        Support::RedisCluster::Options options;
        options.replicasPerMaster = 0;
        if (!m_cluster)
            m_cluster = std::make_unique<Support::RedisCluster>(options);
        url = m_cluster->nodeCount() > 0 || m_cluster->start() ? m_cluster->url() : QUrl();
    } else if (engine == "quorum") {
        const bool isNew = !m_quorum;
        if (isNew)
            m_quorum = std::make_unique<Support::RedisSet>(3);
        url = !isNew || m_quorum->start() ? m_quorum->directUrl() : QUrl();
    }
    return url;
}

void tst_NestedLoops::requestsEndWithTheRegistry()
{
    // The first continuation runs a loop, in which the servers answer what the registry sent last.
    QFETCH(QByteArray, engine);
    const QUrl url = urlOf(engine);
    QVERIFY(url.isValid() && !url.isEmpty());
    LockRegistry others(url);
    runLoop(&others);
    auto registry = std::make_unique<LockRegistry>(url);
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < 12; ++i) { // of all masters of a cluster
        locks.push_back(std::make_unique<DistributedLock>(registry.get(), u"subject%1"_s.arg(i)));
        locks.back()->setOptions(options(10min));
        QVERIFY(acquireNow(locks.back().get()));
    }
    int begun = 0;
    int ended = 0;
    const auto follow = [&](auto future) {
        ++begun;
        future.then([&](const auto &) {
            ++ended;
            runLoop(&others);
        });
    };
    for (const auto &lock : locks) {
        follow(registry->inspect(lock->name()));
        follow(registry->waiters(lock->name()));
        follow(registry->release(lock->name(), "0123456789abcdef:1:ab"));
        follow(registry->renew(lock->name(), "0123456789abcdef:1:ab", 30s));
    }
    follow(registry->list(u"*"_s));
    registry.reset();
    QCOMPARE(ended, begun);
    for (const auto &lock : locks) {
        DistributedLock next(&others, lock->name());
        QVERIFY(acquireNow(&next));
    }
}

void tst_NestedLoops::destroyedAtRandom()
{
    QFETCH(QByteArray, engine);
    const QUrl url = urlOf(engine);
    QVERIFY(url.isValid() && !url.isEmpty());
    for (quint32 seed = 1; seed <= 10 && !QTest::currentTestFailed(); ++seed)
        destroyAtRandom(url, seed);
}

void tst_NestedLoops::destroyedAtRandomOften()
{
    QFETCH(QByteArray, engine);
    const QUrl url = urlOf(engine);
    QVERIFY(url.isValid() && !url.isEmpty());
    const auto last = quint32(countFrom("QDISTLOCK_SEEDS", 300));
    for (quint32 seed = 1; seed <= last && !QTest::currentTestFailed(); ++seed)
        destroyAtRandom(url, seed);
}

void tst_NestedLoops::destroyAtRandom(const QUrl &url, quint32 seed)
{
    LockRegistry others(url);
    runLoop(&others);
    RandomDestruction destruction(url, &others, seed);
    QVERIFY2(destruction.run(), qPrintable(u"seed %1: a future has not ended"_s.arg(seed)));
    for (int i = 0; i < RandomDestruction::LockCount; ++i) {
        TestLock next(&others, RandomDestruction::nameOf(i));
        QVERIFY2(acquireNow(&next),
                 qPrintable(u"seed %1: %2 was not released: %3"_s.arg(seed).arg(next.name(), next.errorString())));
    }
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_NestedLoops)
#include "tst_nestedloops.moc"
