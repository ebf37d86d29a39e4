// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks in a ZooKeeper ensemble.

#include "zookeeperlocktest.h"

#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/LockInfo>
#include <QDistLock/LockResult>

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qprocess.h>
#include <QtCore/qrandom.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace QtZooKeeper;
using namespace Support;
using QDistLock::LockInfo;

class tst_ZooKeeper : public ZooKeeperLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void acquiredAndReleased();
    void nothingIsLeft();
    void nothingIsLeftOfCancelledRequests();
    PROOF void nothingIsLeftOfThousandKills();
    void servedInOrder() { serveInOrder(20); }
    PROOF void thousandWaiters() { serveInOrder(1000); }
    void renewedByWritesOnly();
    void provenAgainAfterAPause();
    TIMING void idleSessionLocksAtOnce();
    void inspectAndList();

    void leaseLongerThanTheSession();
    void minReplicasAreRefused();
    void othersLogin();
    void noServer_data();
    void noServer();

    void silentServer();
    void lostBeforeAnotherIsGranted() { loseBeforeAnotherIsGranted(5); }
    PROOF void lostBeforeAnotherIsGrantedOften() { loseBeforeAnotherIsGranted(50); }
    void serverRestarts();
    void sessionIsEnded();
    void sessionOfAWaiterIsEnded();
    void lostReplyToACreation();
    void lostReplyToADeletion();
    void cancelledBeforeTheReply_data()
    {
        addRows<bool>("isConnected", {{"connected", true}, {"not connected", false}});
    }
    void cancelledBeforeTheReply();
    void tokenOfAnEndedHold();

    void curatorsClientHolds();
    void curatorsClientDies();

    void leaderDies();
    void followerWithoutLeader();

private:
    void serveInOrder(int count);
    void loseBeforeAnotherIsGranted(int rounds);
};

void tst_ZooKeeper::acquiredAndReleased()
{
    TestLock lock(registry(), u"job"_s);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    const QList<QByteArray> children = childrenOf("job");
    QCOMPARE(children.size(), 1);
    QVERIFY(children.first().startsWith("_c_"));
    const auto node = wait([&](auto done) { m_witness->read(pathOf("job/" + children.first()), nullptr, done); });
    QVERIFY(node.stat.owner != 0);
    QCOMPARE(lock.fencingToken(), node.stat.created);
    QVERIFY(releaseNow(&lock));
    QCOMPARE(childrenOf("job").size(), 0);
    QVERIFY(lock.spies.errors.isEmpty());
}

void tst_ZooKeeper::nothingIsLeft()
{
    {
        LockRegistry registry(url());
        DistributedLock lock(&registry, u"left"_s);
        QVERIFY(acquireNow(&lock));
        QCOMPARE(childrenOf("left").size(), 1);
    }
    EVENTUALLY_COMPARE(childrenOf("left").size(), 0);
    // The lock's node is a container.
    EVENTUALLY_VERIFY(wait([&](auto done) { m_witness->children(pathOf("left"), done); }).isMissing());
}

// ZooKeeper never deletes a container that never had a child.
void tst_ZooKeeper::nothingIsLeftOfCancelledRequests()
{
    DistributedLock first(registry(), u"first"_s);
    QVERIFY(acquireNow(&first));
    constexpr int Count = 300;
    for (int i = 0; i < Count; ++i) {
        DistributedLock lock(registry(), u"cancelled request %1"_s.arg(i));
        lock.acquire();
        QElapsedTimer time;
        time.start();
        while (time.nsecsElapsed() < i * 10'000) // at another point of the exchange each time
            QCoreApplication::processEvents();
        lock.cancel();
    }
    EVENTUALLY_COMPARE(locksNamed("cancelled request"), 0);
}

void tst_ZooKeeper::nothingIsLeftOfThousandKills()
{
    constexpr int Kills = 1000;
    constexpr int AtATime = 8;
    std::vector<std::unique_ptr<QProcess>> processes(AtATime);
    int waiting = 0;
    for (int i = 0; i < Kills; ++i) {
        auto &process = processes[size_t(i) % AtATime];
        if (process) {
            process->kill();
            QVERIFY(process->waitForFinished());
            waiting += process->readAllStandardOutput().contains("queued");
        }
        // Half of the processes wait for one lock; each of the others has a separate lock.
        const QString name = u"killed %1"_s.arg(i % 2 ? i : 0);
        process = std::make_unique<QProcess>();
        process->start(QStringLiteral(QUEUEWORKER),
                       {url(u"?session=1000"_s).toString(), name, u"1000"_s, u"20"_s, u"1000000"_s});
        QVERIFY(process->waitForStarted());
        QTest::qWait(int(QRandomGenerator::global()->bounded(20))); // the fault: a kill at a random moment
    }
    for (const auto &process : processes) {
        process->kill();
        QVERIFY(process->waitForFinished());
    }
    QVERIFY(waiting > 0);
    EVENTUALLY_VERIFY(!m_server.ask("dump").contains("/lock:killed"));
    EVENTUALLY_COMPARE(locksNamed("killed"), 0);
}

void tst_ZooKeeper::serveInOrder(int count)
{
    std::vector<std::unique_ptr<StillRegistry>> registries; // nobody polls
    std::vector<std::unique_ptr<DistributedLock>> locks;
    QList<int> order;
    for (int i = 0; i < count; ++i) {
        registries.push_back(std::make_unique<StillRegistry>(url()));
        locks.push_back(std::make_unique<TestLock>(registries.back().get(), u"order"_s));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquired, this, [&order, i] { order.append(i); });
        lock->acquire();
        QVERIFY2(eventually([&] { return i == 0 ? lock->isHeld() : lock->queuePosition() == i - 1; }),
                 qPrintable(lock->errorString()));
    }
    const qint64 firedBefore = metric("zk_sum_node_deleted_watch_count");
    QVERIFY(firedBefore >= 0);
    QList<int> expected;
    for (int i = 0; i < count; ++i) {
        QVERIFY(eventually([&] { return locks[size_t(i)]->isHeld(); }));
        QVERIFY(releaseNow(locks[size_t(i)].get()));
        expected.append(i);
    }
    QCOMPARE(order, expected);
    // The releaser's own, and that of its successor.
    QCOMPARE(metric("zk_sum_node_deleted_watch_count") - firedBefore, 2 * count - 1);
}

// A renewal is a write that wakes nobody, and one for all locks.
void tst_ZooKeeper::renewedByWritesOnly()
{
    StillRegistry registry(url());
    StillRegistry other(url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    std::vector<std::unique_ptr<Spies>> spies;
    for (int i = 0; i < 100; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"renewed %1"_s.arg(i)));
        spies.push_back(std::make_unique<Spies>(locks.back().get()));
        locks.back()->acquire();
    }
    for (const auto &lock : locks)
        QVERIFY(eventually([&] { return lock->isHeld(); }));
    TestLock waiter(&other, u"renewed 0"_s);
    QVERIFY(joinQueue(&waiter));
    // The server deletes the empty containers of earlier functions meanwhile, each with a write.
    struct Sample
    {
        qsizetype containers; ///< when the witness wrote
        qint64 write;         ///< the number of that write
        int attempts;         ///< each with a write
    };
    const auto sample = [this] {
        Sample taken{};
        do {
            taken.containers = locksNamed({});
            taken.write = wait([&](auto done) {
                              m_witness->create("/count-", {}, Session::EphemeralSequential, done);
                          }).stat.created;
            ++taken.attempts;
        } while (locksNamed({}) != taken.containers); // one was deleted, before or after the write
        return taken;
    };
    const Sample before = sample();
    const qint64 firedBefore = metric("zk_sum_node_changed_watch_count");
    for (int beat = 1; beat <= 5; ++beat) {
        registry.pass(11s);
        for (const auto &spy : spies)
            QVERIFY(eventually([&] { return spy->renewed.size() >= beat || !spy->lost.isEmpty(); }));
    }
    const Sample after = sample();
    const qint64 deletions = before.containers - after.containers;
    QCOMPARE(after.write - before.write - deletions, 5 + after.attempts);
    QCOMPARE(metric("zk_sum_node_changed_watch_count"), firedBefore);
    for (const auto &lock : locks)
        QVERIFY(lock->isHeld());
}

// As after a pause of the machine that the session has survived.
void tst_ZooKeeper::provenAgainAfterAPause()
{
    StillRegistry registry(url(u"?session=2000"_s));
    TestLock lock(&registry, u"pause"_s, options(2s));
    QVERIFY(acquireNow(&lock));
    registry.pass(2s);
    QVERIFY(!lock.isHeld());
    lock.acquire();
    QVERIFY(eventually([&] {
        registry.pass(1ms);
        return lock.spies.acquired.size() == 2;
    }));
}

// While nothing is held, nothing is written. Reads make the next write prove that the session lives, so that an acquire
// need not wait for a quarter of its time-out.
void tst_ZooKeeper::idleSessionLocksAtOnce()
{
    leavesRoomFor(100ms);
    LockRegistry registry(url(u"?session=2000"_s));
    TestLock lock(&registry, u"idle"_s, options(2s));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QElapsedTimer time;
    time.start();
    QVERIFY(eventually([&] { return time.hasExpired(2200); }));
    time.start();
    QVERIFY(acquireNow(&lock));
    QVERIFY2(time.elapsed() < 400, qPrintable(u"%1 ms"_s.arg(time.elapsed())));
}

void tst_ZooKeeper::inspectAndList()
{
    LockRegistry other(url());
    DistributedLock first(registry(), u"list/a"_s);
    DistributedLock second(registry(), u"list/b"_s);
    DistributedLock waiter(&other, u"list/a"_s);
    QVERIFY(acquireNow(&first) && acquireNow(&second));
    waiter.setOptions(options());
    QVERIFY(joinQueue(&waiter));
    const auto info = awaited(other.inspect(u"list/a"_s));
    QVERIFY(info.held && info.holder.connected && !info.foreign);
    QCOMPARE(info.holder.pid, QCoreApplication::applicationPid());
    QCOMPARE(info.fencingToken, first.fencingToken());
    QCOMPARE(info.queueLength, 1);
    const auto listed = awaited(other.list(u"list/*"_s));
    QStringList names;
    for (const LockInfo &lock : listed.value)
        names.append(lock.name);
    names.sort();
    QCOMPARE(names, (QStringList{u"list/a"_s, u"list/b"_s}));
    const auto waiters = awaited(registry()->waiters(u"list/a"_s));
    QCOMPARE(waiters.value.size(), 1);
    QCOMPARE(waiters.value.first().client.pid, QCoreApplication::applicationPid());
}

void tst_ZooKeeper::leaseLongerThanTheSession()
{
    LockRegistry registry(url(u"?session=1000"_s));
    TestLock lock(&registry, u"long"_s, options(30s));
    const auto result = lock.acquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::OptionsError);
    QVERIFY2(result.result().errorString.contains(u"1000 ms"_s), qPrintable(result.result().errorString));
    // The server grants less than the URL wants.
    LockRegistry limited(url(u"?session=7200000"_s));
    TestLock longer(&limited, u"long"_s, options(90min));
    const auto refused = awaited(longer.acquireAsync());
    QCOMPARE(refused.error, DistributedLock::OptionsError);
    QVERIFY2(refused.errorString.contains(u"3600000 ms"_s), qPrintable(refused.errorString));
}

void tst_ZooKeeper::minReplicasAreRefused()
{
    TestLock lock(registry(), u"replicas"_s, options().withMinReplicas(1));
    const auto result = lock.acquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::OptionsError);
}

void tst_ZooKeeper::othersLogin()
{
    const auto withLogin = [&](const QString &login) {
        QUrl result = url();
        result.setUserInfo(login);
        return result;
    };
    LockRegistry registry(withLogin(u"user:secret"_s));
    DistributedLock lock(&registry, u"login"_s);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    LockRegistry other(withLogin(u"user:mistaken"_s));
    DistributedLock refused(&other, u"login"_s);
    const auto result = refused.acquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::PermissionError);
    QVERIFY2(!result.result().errorString.contains(u"mistaken"_s), qPrintable(result.result().errorString));
    qputenv("QDISTLOCK_PASSWORD", "secret");
    LockRegistry fromEnvironment(withLogin(u"user"_s));
    TestLock waiter(&fromEnvironment, u"login"_s);
    QVERIFY(joinQueue(&waiter));
    qunsetenv("QDISTLOCK_PASSWORD");
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

void tst_ZooKeeper::noServer_data()
{
    addColumns<QString, QString>("server", "reason");
    QTest::newRow("nobody listens") << u"127.0.0.1:1"_s << u"no server could be reached (Connection refused)"_s;
    QTest::newRow("no such name") << u"no-such-host.invalid"_s << u"no-such-host.invalid cannot be resolved"_s;
}

void tst_ZooKeeper::noServer()
{
    QFETCH(QString, server);
    QFETCH(QString, reason);
    LockRegistry registry(QUrl(u"zookeeper://"_s + server));
    DistributedLock lock(&registry, u"nobody"_s);
    const auto result = lock.tryAcquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::ConnectionError);
    QVERIFY2(result.result().errorString.contains(server), qPrintable(result.result().errorString));
    QVERIFY2(result.result().errorString.contains(reason), qPrintable(result.result().errorString));
}

void tst_ZooKeeper::silentServer()
{
    StillRegistry registry(url());
    TestLock lock(&registry, u"silent"_s);
    QVERIFY(acquireNow(&lock));
    m_server.pause();
    registry.pass(31s);
    const bool isLost = eventually([&] { return lock.spies.lost.size() == 1; });
    m_server.resume();
    QVERIFY(isLost);
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    LockRegistry other(url());
    TestLock next(&other, u"silent"_s);
    QVERIFY(acquireNow(&next)); // its node was given back
}

// The promise: whoever no longer holds the lock knows it before anybody else holds it.
void tst_ZooKeeper::loseBeforeAnotherIsGranted(int rounds)
{
    FaultProxy proxy(m_server.port());
    LockRegistry registry(urlOf(proxy.port(), u"?session=1000"_s));
    LockRegistry other(url());
    for (int i = 0; i < rounds; ++i) {
        TestLock holder(&registry, u"expires"_s, options(1s));
        TestLock waiter(&other, u"expires"_s);
        QVERIFY(acquireNow(&holder));
        QVERIFY(joinQueue(&waiter));
        if (i % 2 == 1) // some time after the beginning of its session
            QVERIFY(eventually([&] { return holder.spies.renewed.size() >= 2 * (i % 5) || !holder.isHeld(); }));
        bool overlap = false;
        connect(&waiter, &DistributedLock::acquired, this, [&] { overlap = holder.isHeld(); });
        proxy.setBlackHole(true);
        QVERIFY(eventually([&] { return waiter.isHeld(); }));
        QVERIFY(!overlap);
        QVERIFY(eventually([&] { return holder.spies.lost.size() == 1; }));
        proxy.setBlackHole(false);
        proxy.resetAll();
    }
}

void tst_ZooKeeper::serverRestarts()
{
    StillRegistry registry(url());
    StillRegistry other(url());
    TestLock lock(&registry, u"restart"_s);
    TestLock waiter(&other, u"restart"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(joinQueue(&waiter));
    m_server.kill();
    QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }));
    registry.pass(11s); // a renewal is due
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    QVERIFY(eventually([&] { return !lock.spies.renewed.isEmpty() || !lock.spies.lost.isEmpty(); }));
    QVERIFY(lock.spies.lost.isEmpty());
    QCOMPARE(waiter.queuePosition(), 0);
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

// Its nodes are gone: the new session asks for each lock at once.
void tst_ZooKeeper::sessionIsEnded()
{
    FaultProxy proxy(m_server.port());
    StillRegistry registry(urlOf(proxy.port(), u"?session=300"_s));
    TestLock lock(&registry, u"ended"_s, options(300ms));
    QVERIFY(acquireNow(&lock));
    proxy.setBlackHole(true);
    EVENTUALLY_COMPARE(childrenOf("ended").size(), 0);
    proxy.setBlackHole(false);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
}

void tst_ZooKeeper::sessionOfAWaiterIsEnded()
{
    FaultProxy proxy(m_server.port());
    StillRegistry registry(url());
    StillRegistry other(urlOf(proxy.port(), u"?session=300"_s));
    TestLock lock(&registry, u"await"_s);
    TestLock waiter(&other, u"await"_s, options(300ms));
    QVERIFY(acquireNow(&lock));
    QVERIFY(joinQueue(&waiter));
    proxy.setBlackHole(true);
    EVENTUALLY_COMPARE(childrenOf("await").size(), 1);
    proxy.setBlackHole(false);
    EVENTUALLY_COMPARE(childrenOf("await").size(),
                       2); // the waiter was woken: it does not poll, because its clock does not move
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

void tst_ZooKeeper::lostReplyToACreation()
{
    FaultProxy proxy(m_server.port());
    StillRegistry registry(urlOf(proxy.port()));
    DistributedLock first(&registry, u"connected"_s);
    QVERIFY(acquireNow(&first));
    TestLock lock(&registry, u"created"_s);
    proxy.setRepliesHeld(true);
    lock.acquire();
    // Its first attempt makes the parents, so it needs replies.
    QVERIFY(wait([&](auto done) { m_witness->create(pathOf("created"), {}, Session::Container, done); }).isOk());
    proxy.setRepliesHeld(false);
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    QVERIFY(releaseNow(&lock));
    proxy.setRepliesHeld(true);
    lock.acquire();
    EVENTUALLY_COMPARE(childrenOf("created").size(), 1);
    QVERIFY(!lock.isHeld());
    proxy.resetAll();
    proxy.heal();
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    const QList<QByteArray> children = childrenOf("created");
    QCOMPARE(children.size(), 1);
    const auto node = wait([&](auto done) { m_witness->read(pathOf("created/" + children.first()), nullptr, done); });
    QCOMPARE(lock.fencingToken(), node.stat.created);
}

void tst_ZooKeeper::lostReplyToADeletion()
{
    FaultProxy proxy(m_server.port());
    StillRegistry registry(urlOf(proxy.port()));
    TestLock lock(&registry, u"deleted"_s);
    QVERIFY(acquireNow(&lock));
    proxy.setRepliesHeld(true);
    const QFuture<bool> released = lock.releaseAsync();
    EVENTUALLY_COMPARE(childrenOf("deleted").size(), 0);
    QVERIFY(!released.isFinished());
    proxy.resetAll();
    proxy.heal();
    QVERIFY(eventually([&] { return registry.passUntil([&] { return released.isFinished(); }); }));
    QVERIFY(released.result());
    QVERIFY(lock.spies.lost.isEmpty());
}

void tst_ZooKeeper::cancelledBeforeTheReply()
{
    QFETCH(bool, isConnected);
    FaultProxy proxy(m_server.port());
    StillRegistry registry(urlOf(proxy.port()));
    TestLock lock(&registry, u"cancelled"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    proxy.setRepliesHeld(true);
    lock.acquire();
    EVENTUALLY_COMPARE(childrenOf("cancelled").size(), 1);
    if (!isConnected) {
        proxy.setRefusing(true);
        proxy.resetAll();
        QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }));
    }
    lock.cancel();
    DistributedLock connected(&registry, u"connected"_s); // something else needs the connection
    connected.setOptions(options());
    connected.acquire();
    proxy.resetAll();
    proxy.heal();
    EVENTUALLY_COMPARE(childrenOf("cancelled").size(), 0);
    QVERIFY(!lock.isHeld());
}

// Nobody renews what was handed out, and the ensemble knows no leases.
void tst_ZooKeeper::tokenOfAnEndedHold()
{
    StillRegistry registry(url(u"?session=400"_s));
    TestLock lock(&registry, u"handed out"_s, options(400ms));
    QVERIFY(acquireNow(&lock));
    const QByteArray token = lock.detach();
    const auto renewed = awaited(registry.renew(u"handed out"_s, token, 300ms));
    QCOMPARE(renewed.value, LockRegistry::Done);
    QCOMPARE(childrenOf("handed out").size(), 1);
    registry.pass(301ms);
    EVENTUALLY_COMPARE(childrenOf("handed out").size(), 0);
}

/// Curator's InterProcessMutex names its nodes so.
void tst_ZooKeeper::curatorsClientHolds()
{
    DistributedLock lock(registry(), u"curator"_s);
    QVERIFY(acquireNow(&lock));
    const auto createTheirs = [&](auto done) {
        m_witness->create(pathOf("curator/_c_6b0f8bd7-1f7e-4f6a-9c3c-6d2b7b7b6f11-lock-"), "10.0.0.1",
                          Session::EphemeralSequential, done);
    };
    // They wait behind us: the lowest number holds the lock.
    const Result theirs = wait(createTheirs);
    QVERIFY2(theirs.isOk(), qPrintable(theirs.errorString()));
    QVERIFY(theirs.path.last(10) > childrenOf("curator").first().last(10)
            || theirs.path.last(10) > childrenOf("curator").last().last(10));
    QVERIFY(releaseNow(&lock));
    const auto info = awaited(registry()->inspect(u"curator"_s));
    QVERIFY(info.held && info.foreign);
    lock.setOptions(options());
    QVERIFY(joinQueue(&lock));
    QVERIFY(wait([&](auto done) { m_witness->remove(theirs.path, done); }).isOk());
    QVERIFY(eventually([&] { return lock.isHeld(); }));
}

void tst_ZooKeeper::curatorsClientDies()
{
    Session::Options theirOptions;
    theirOptions.servers = {{u"127.0.0.1"_s, m_server.port()}};
    auto theirs = std::make_unique<Session>(theirOptions);
    theirs->open();
    DistributedLock lock(registry(), u"dies"_s);
    QVERIFY(acquireNow(&lock));
    const Result place = wait(
            [&](auto done) { theirs->create(pathOf("dies/_c_x-lock-"), {}, Session::EphemeralSequential, done); });
    QVERIFY2(place.isOk(), qPrintable(place.errorString()));
    QVERIFY(releaseNow(&lock));
    lock.setOptions(options());
    QVERIFY(joinQueue(&lock));
    theirs.reset();
    QVERIFY(eventually([&] { return lock.isHeld(); }));
}

void tst_ZooKeeper::leaderDies()
{
    Started<ZooKeeperServer> ensemble(3);
    const QUrl servers = urlOf(ensemble.port(0),
                               u"?node=127.0.0.1:%1&node=127.0.0.1:%2"_s.arg(ensemble.port(1)).arg(ensemble.port(2)));
    StillRegistry registry(servers);
    StillRegistry other(servers);
    TestLock lock(&registry, u"leader"_s);
    TestLock waiter(&other, u"leader"_s);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    QVERIFY(joinQueue(&waiter));
    ensemble.kill(ensemble.leader());
    registry.pass(11s); // a renewal is due
    QVERIFY(eventually([&] { return !lock.spies.renewed.isEmpty() || !lock.spies.lost.isEmpty(); }));
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QVERIFY(waiter.fencingToken() > token);
}

// A follower that has lost its leader still answers what it can answer alone: that proves nothing.
void tst_ZooKeeper::followerWithoutLeader()
{
    Started<ZooKeeperServer> ensemble(3);
    const int leader = ensemble.leader();
    QVERIFY(leader >= 0);
    const int follower = (leader + 1) % 3;
    StillRegistry registry(urlOf(ensemble.port(follower)));
    TestLock lock(&registry, u"follower"_s);
    QVERIFY(acquireNow(&lock));
    registry.pass(11s);
    QVERIFY(eventually([&] { return !lock.spies.renewed.isEmpty(); }));
    const qsizetype renewed = lock.spies.renewed.size();
    for (int i = 0; i < 3; ++i) {
        if (i != follower)
            ensemble.pause(i);
    }
    const auto info = registry.inspect(u"follower"_s);
    QVERIFY(eventually([&] { return info.isFinished(); }));
    for (int i = 0; i < 31; ++i)
        registry.pass(1s);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    QCOMPARE(lock.spies.renewed.size(), renewed);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ZooKeeper)
#include "tst_zookeeper.moc"
