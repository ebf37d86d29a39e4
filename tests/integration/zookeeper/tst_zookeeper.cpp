// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks in a ZooKeeper ensemble. A second session, which knows nothing of locks, is the witness.

#include "support/eventually.h"
#include "support/faultproxy.h"
#include "support/locktesting.h"
#include "support/registrytime.h"
#include "support/testkinds.h"
#include "support/zookeeperserver.h"

#include "zookeeper/session.h"

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

class tst_ZooKeeper : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void acquiredAndReleased();
    void nothingIsLeft();
    void nothingIsLeftOfCancelledRequests();
    PROOF void nothingIsLeftOfThousandKills();
    void tryAcquireIsBusy();
    void neverTwoHolders();
    void servedInOrder() { serveInOrder(20); }
    PROOF void thousandWaiters() { serveInOrder(1000); }
    void fencingTokensRise();
    void renewedByWritesOnly();
    void provenAgainAfterAPause();
    TIMING void idleSessionLocksAtOnce();
    void forcedRelease();
    void inspectAndList();
    void minHold();

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
    void cancelledBeforeTheReply_data();
    void cancelledBeforeTheReply();
    void tokenOfAnEndedHold();

    void curatorsClientHolds();
    void curatorsClientDies();

    void leaderDies();
    void followerWithoutLeader();

private:
    QUrl urlOf(quint16 port, const QString &items = {}) const
    {
        return QUrl(u"zookeeper://127.0.0.1:%1/tests/locks"_s.arg(port) + items);
    }
    QUrl url(const QString &items = {}) const { return urlOf(m_server.port(), items); }
    template<typename Operation>
    static Result wait(Operation operation)
    {
        std::optional<Result> result;
        operation([&](const Result &r) { result = r; });
        EventLoopProbe::waitFor([&] { return result.has_value(); });
        return result.value_or(Result());
    }
    /// True if the lock was held until then.
    static bool releaseNow(DistributedLock *lock)
    {
        const QFuture<bool> released = lock->releaseAsync();
        return eventually([&] { return released.isFinished(); }) && released.result();
    }
    static QByteArray pathOf(const QByteArray &name) { return "/tests/locks/lock:" + name; }
    QList<QByteArray> childrenOf(const QByteArray &name)
    {
        return wait([&](auto done) { m_witness->children(pathOf(name), done); }).children;
    }
    /// The number of locks of which there is a node and whose name begins with \a start.
    qsizetype locksNamed(const QByteArray &start)
    {
        const auto names = wait([&](auto done) { m_witness->children("/tests/locks", done); }).children;
        return std::count_if(names.cbegin(), names.cend(),
                             [&](const QByteArray &name) { return name.startsWith("lock:" + start); });
    }
    void serveInOrder(int count);
    void loseBeforeAnotherIsGranted(int rounds);
    /// Without another client: the number that \a command answers behind \a key.
    qint64 metric(const QByteArray &key)
    {
        for (const QByteArray &line : m_server.ask("mntr").split('\n')) {
            if (line.startsWith(key + '\t'))
                return qint64(line.mid(key.size() + 1).toDouble());
        }
        return -1;
    }

    ZooKeeperServer m_server;
    std::unique_ptr<Session> m_witness;
};

void tst_ZooKeeper::initTestCase()
{
    if (!ZooKeeperServer::isInstalled())
        QSKIP(Support::ZooKeeperServer::NotInstalled);
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_ZooKeeper::init()
{
    Session::Options options;
    options.servers = {{u"127.0.0.1"_s, m_server.port()}};
    m_witness = std::make_unique<Session>(options);
    m_witness->open();
}

void tst_ZooKeeper::acquiredAndReleased()
{
    LockRegistry registry(url());
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    const QList<QByteArray> children = childrenOf("job");
    QCOMPARE(children.size(), 1);
    QVERIFY(children.first().startsWith("_c_"));
    const auto node = wait([&](auto done) { m_witness->read(pathOf("job/" + children.first()), nullptr, done); });
    QVERIFY(node.stat.owner != 0);
    QCOMPARE(lock.fencingToken(), node.stat.created);
    QVERIFY(releaseNow(&lock));
    QCOMPARE(childrenOf("job").size(), 0);
    QVERIFY(spies.errors.isEmpty());
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
    LockRegistry registry(url());
    DistributedLock first(&registry, u"first"_s);
    QVERIFY(acquireNow(&first));
    constexpr int Count = 300;
    for (int i = 0; i < Count; ++i) {
        DistributedLock lock(&registry, u"cancelled request %1"_s.arg(i));
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

void tst_ZooKeeper::tryAcquireIsBusy()
{
    LockRegistry registry(url());
    LockRegistry other(url());
    DistributedLock holder(&registry, u"busy"_s);
    DistributedLock lock(&other, u"busy"_s);
    QVERIFY(acquireNow(&holder));
    const auto result = lock.tryAcquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::BusyError);
    QVERIFY2(result.result().errorString.contains(QString::number(QCoreApplication::applicationPid())),
             qPrintable(result.result().errorString));
    QCOMPARE(childrenOf("busy").size(), 1);
}

void tst_ZooKeeper::neverTwoHolders()
{
    constexpr int Rounds = 30;
    std::vector<std::unique_ptr<LockRegistry>> registries;
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int inside = 0;
    int overlaps = 0;
    int left = 0;
    qint64 lastToken = 0;
    int notRising = 0;
    for (int i = 0; i < 8; ++i) {
        registries.push_back(std::make_unique<LockRegistry>(url()));
        locks.push_back(std::make_unique<DistributedLock>(registries.back().get(), u"one"_s));
        DistributedLock *const lock = locks.back().get();
        lock->setOptions(options());
        left += Rounds;
        connect(lock, &DistributedLock::acquired, this, [&, lock] {
            overlaps += inside++;
            notRising += lock->fencingToken() <= std::exchange(lastToken, lock->fencingToken());
            QMetaObject::invokeMethod(
                    lock,
                    [&inside, lock] {
                        --inside;
                        lock->release();
                    },
                    Qt::QueuedConnection);
        });
        connect(lock, &DistributedLock::released, lock, [&left, lock, rounds = Rounds]() mutable {
            --left;
            if (--rounds > 0)
                lock->acquire();
        });
        lock->acquire();
    }
    EVENTUALLY_COMPARE(left, 0);
    QCOMPARE(overlaps, 0);
    QCOMPARE(notRising, 0);
}

void tst_ZooKeeper::serveInOrder(int count)
{
    std::vector<std::unique_ptr<StillRegistry>> registries; // nobody polls
    std::vector<std::unique_ptr<DistributedLock>> locks;
    QList<int> order;
    for (int i = 0; i < count; ++i) {
        registries.push_back(std::make_unique<StillRegistry>(url()));
        locks.push_back(std::make_unique<DistributedLock>(registries.back().get(), u"order"_s));
        DistributedLock *const lock = locks.back().get();
        lock->setOptions(options());
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

void tst_ZooKeeper::fencingTokensRise()
{
    LockRegistry registry(url());
    LockRegistry other(url());
    qint64 last = 0;
    for (int i = 0; i < 20; ++i) {
        DistributedLock lock(i % 2 ? &registry : &other, u"fence"_s);
        QVERIFY(acquireNow(&lock));
        QVERIFY(lock.fencingToken() > last);
        last = lock.fencingToken();
        QVERIFY(releaseNow(&lock));
    }
}

// A renewal is a write that wakes nobody, and one for all locks.
void tst_ZooKeeper::renewedByWritesOnly()
{
    StillRegistry registry(url());
    StillRegistry other(url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    std::vector<std::unique_ptr<Spies>> spies;
    for (int i = 0; i < 100; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, u"renewed %1"_s.arg(i)));
        locks.back()->setOptions(options());
        spies.push_back(std::make_unique<Spies>(locks.back().get()));
        locks.back()->acquire();
    }
    for (const auto &lock : locks)
        QVERIFY(eventually([&] { return lock->isHeld(); }));
    DistributedLock waiter(&other, u"renewed 0"_s);
    waiter.setOptions(options());
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    const auto lastWrite = [this] {
        return wait([&](auto done) { m_witness->create("/count-", {}, Session::EphemeralSequential, done); })
                .stat.created;
    };
    const qint64 writesBefore = lastWrite();
    const qint64 firedBefore = metric("zk_sum_node_changed_watch_count");
    for (int beat = 1; beat <= 5; ++beat) {
        registry.pass(11s);
        for (const auto &spy : spies)
            QVERIFY(eventually([&] { return spy->renewed.size() >= beat || !spy->lost.isEmpty(); }));
    }
    QCOMPARE(lastWrite() - writesBefore, 5 + 1);
    QCOMPARE(metric("zk_sum_node_changed_watch_count"), firedBefore);
    for (const auto &lock : locks)
        QVERIFY(lock->isHeld());
}

// As after a pause of the machine that the session has survived.
void tst_ZooKeeper::provenAgainAfterAPause()
{
    StillRegistry registry(url(u"?session=2000"_s));
    DistributedLock lock(&registry, u"pause"_s);
    lock.setOptions(options(2s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    registry.pass(2s);
    QVERIFY(!lock.isHeld());
    lock.acquire();
    QVERIFY(eventually([&] {
        registry.pass(1ms);
        return spies.acquired.size() == 2;
    }));
}

// While nothing is held, nothing is written. Reads make the next write prove that the session lives, so that an acquire
// need not wait for a quarter of its time-out.
void tst_ZooKeeper::idleSessionLocksAtOnce()
{
    leavesRoomFor(100ms);
    LockRegistry registry(url(u"?session=2000"_s));
    DistributedLock lock(&registry, u"idle"_s);
    lock.setOptions(options(2s));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QElapsedTimer time;
    time.start();
    QVERIFY(eventually([&] { return time.hasExpired(2200); }));
    time.start();
    QVERIFY(acquireNow(&lock));
    QVERIFY2(time.elapsed() < 400, qPrintable(u"%1 ms"_s.arg(time.elapsed())));
}

void tst_ZooKeeper::forcedRelease()
{
    LockRegistry registry(url());
    LockRegistry other(url());
    DistributedLock lock(&registry, u"forced"_s);
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const auto wrong = other.forceRelease(u"forced"_s, lock.fencingToken() + 1);
    QVERIFY(eventually([&] { return wrong.isFinished(); }));
    QCOMPARE(wrong.result().value, LockRegistry::OtherHolder);
    QVERIFY(lock.isHeld());
    const auto forced = other.forceRelease(u"forced"_s);
    QVERIFY(eventually([&] { return forced.isFinished() && spies.lost.size() == 1; }));
    QCOMPARE(forced.result().value, LockRegistry::Done);
    QCOMPARE(spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(acquireNow(&lock));
}

void tst_ZooKeeper::inspectAndList()
{
    LockRegistry registry(url());
    LockRegistry other(url());
    DistributedLock first(&registry, u"list/a"_s);
    DistributedLock second(&registry, u"list/b"_s);
    DistributedLock waiter(&other, u"list/a"_s);
    QVERIFY(acquireNow(&first) && acquireNow(&second));
    waiter.setOptions(options());
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    const auto info = other.inspect(u"list/a"_s);
    QVERIFY(eventually([&] { return info.isFinished(); }));
    QVERIFY(info.result().held && info.result().holder.connected && !info.result().foreign);
    QCOMPARE(info.result().holder.pid, QCoreApplication::applicationPid());
    QCOMPARE(info.result().fencingToken, first.fencingToken());
    QCOMPARE(info.result().queueLength, 1);
    const auto listed = other.list(u"list/*"_s);
    QVERIFY(eventually([&] { return listed.isFinished(); }));
    QStringList names;
    for (const LockInfo &lock : listed.result().value)
        names.append(lock.name);
    names.sort();
    QCOMPARE(names, (QStringList{u"list/a"_s, u"list/b"_s}));
    const auto waiters = registry.waiters(u"list/a"_s);
    QVERIFY(eventually([&] { return waiters.isFinished(); }));
    QCOMPARE(waiters.result().value.size(), 1);
    QCOMPARE(waiters.result().value.first().client.pid, QCoreApplication::applicationPid());
}

void tst_ZooKeeper::minHold()
{
    LockRegistry registry(url());
    LockRegistry other(url());
    DistributedLock lock(&registry, u"minHold"_s);
    lock.setOptions(options().withMinHold(30s));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QCOMPARE(childrenOf("minHold").size(), 1);
    DistributedLock shorter(&registry, u"shorter"_s);
    shorter.setOptions(options().withMinHold(200ms));
    DistributedLock next(&other, u"shorter"_s);
    next.setOptions(options());
    QVERIFY(acquireNow(&shorter));
    QVERIFY(releaseNow(&shorter));
    QVERIFY(acquireNow(&next));
}

void tst_ZooKeeper::leaseLongerThanTheSession()
{
    LockRegistry registry(url(u"?session=1000"_s));
    DistributedLock lock(&registry, u"long"_s);
    lock.setOptions(options(30s));
    const auto result = lock.acquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::OptionsError);
    QVERIFY2(result.result().errorString.contains(u"1000 ms"_s), qPrintable(result.result().errorString));
    // The server grants less than the URL wants.
    LockRegistry limited(url(u"?session=7200000"_s));
    DistributedLock longer(&limited, u"long"_s);
    longer.setOptions(options(90min));
    const auto refused = longer.acquireAsync();
    QVERIFY(eventually([&] { return refused.isFinished(); }));
    QCOMPARE(refused.result().error, DistributedLock::OptionsError);
    QVERIFY2(refused.result().errorString.contains(u"3600000 ms"_s), qPrintable(refused.result().errorString));
}

void tst_ZooKeeper::minReplicasAreRefused()
{
    LockRegistry registry(url());
    DistributedLock lock(&registry, u"replicas"_s);
    lock.setOptions(options().withMinReplicas(1));
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
    DistributedLock waiter(&fromEnvironment, u"login"_s);
    waiter.setOptions(options());
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    qunsetenv("QDISTLOCK_PASSWORD");
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

void tst_ZooKeeper::noServer_data()
{
    QTest::addColumn<QString>("server");
    QTest::addColumn<QString>("reason");
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
    DistributedLock lock(&registry, u"silent"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    m_server.pause();
    registry.pass(31s);
    const bool isLost = eventually([&] { return spies.lost.size() == 1; });
    m_server.resume();
    QVERIFY(isLost);
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    LockRegistry other(url());
    DistributedLock next(&other, u"silent"_s);
    next.setOptions(options());
    QVERIFY(acquireNow(&next)); // its node was given back
}

// The promise: whoever no longer holds the lock knows it before anybody else holds it.
void tst_ZooKeeper::loseBeforeAnotherIsGranted(int rounds)
{
    FaultProxy proxy(m_server.port());
    LockRegistry registry(urlOf(proxy.port(), u"?session=1000"_s));
    LockRegistry other(url());
    for (int i = 0; i < rounds; ++i) {
        DistributedLock holder(&registry, u"expires"_s);
        holder.setOptions(options(1s));
        Spies spies(&holder);
        DistributedLock waiter(&other, u"expires"_s);
        waiter.setOptions(options());
        QVERIFY(acquireNow(&holder));
        waiter.acquire();
        QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
        if (i % 2 == 1) // some time after the beginning of its session
            QVERIFY(eventually([&] { return spies.renewed.size() >= 2 * (i % 5) || !holder.isHeld(); }));
        bool overlap = false;
        connect(&waiter, &DistributedLock::acquired, this, [&] { overlap = holder.isHeld(); });
        proxy.setBlackHole(true);
        QVERIFY(eventually([&] { return waiter.isHeld(); }));
        QVERIFY(!overlap);
        QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
        proxy.setBlackHole(false);
        proxy.resetAll();
    }
}

void tst_ZooKeeper::serverRestarts()
{
    StillRegistry registry(url());
    StillRegistry other(url());
    DistributedLock lock(&registry, u"restart"_s);
    lock.setOptions(options());
    DistributedLock waiter(&other, u"restart"_s);
    waiter.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    m_server.kill();
    QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }));
    registry.pass(11s); // a renewal is due
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    QVERIFY(eventually([&] { return !spies.renewed.isEmpty() || !spies.lost.isEmpty(); }));
    QVERIFY(spies.lost.isEmpty());
    QCOMPARE(waiter.queuePosition(), 0);
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

// Its nodes are gone: the new session asks for each lock at once.
void tst_ZooKeeper::sessionIsEnded()
{
    FaultProxy proxy(m_server.port());
    StillRegistry registry(urlOf(proxy.port(), u"?session=300"_s));
    DistributedLock lock(&registry, u"ended"_s);
    lock.setOptions(options(300ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    proxy.setBlackHole(true);
    EVENTUALLY_COMPARE(childrenOf("ended").size(), 0);
    proxy.setBlackHole(false);
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
}

void tst_ZooKeeper::sessionOfAWaiterIsEnded()
{
    FaultProxy proxy(m_server.port());
    StillRegistry registry(url());
    StillRegistry other(urlOf(proxy.port(), u"?session=300"_s));
    DistributedLock lock(&registry, u"await"_s);
    lock.setOptions(options());
    DistributedLock waiter(&other, u"await"_s);
    waiter.setOptions(options(300ms));
    QVERIFY(acquireNow(&lock));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
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
    DistributedLock lock(&registry, u"created"_s);
    lock.setOptions(options());
    Spies spies(&lock);
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
    DistributedLock lock(&registry, u"deleted"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    proxy.setRepliesHeld(true);
    const QFuture<bool> released = lock.releaseAsync();
    EVENTUALLY_COMPARE(childrenOf("deleted").size(), 0);
    QVERIFY(!released.isFinished());
    proxy.resetAll();
    proxy.heal();
    QVERIFY(eventually([&] { return registry.passUntil([&] { return released.isFinished(); }); }));
    QVERIFY(released.result());
    QVERIFY(spies.lost.isEmpty());
}

void tst_ZooKeeper::cancelledBeforeTheReply_data()
{
    QTest::addColumn<bool>("isConnected");
    QTest::newRow("connected") << true;
    QTest::newRow("not connected") << false;
}

void tst_ZooKeeper::cancelledBeforeTheReply()
{
    QFETCH(bool, isConnected);
    FaultProxy proxy(m_server.port());
    StillRegistry registry(urlOf(proxy.port()));
    DistributedLock lock(&registry, u"cancelled"_s);
    lock.setOptions(options());
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
    DistributedLock lock(&registry, u"handed out"_s);
    lock.setOptions(options(400ms));
    QVERIFY(acquireNow(&lock));
    const QByteArray token = lock.detach();
    const auto renewed = registry.renew(u"handed out"_s, token, 300ms);
    QVERIFY(eventually([&] { return renewed.isFinished(); }));
    QCOMPARE(renewed.result().value, LockRegistry::Done);
    QCOMPARE(childrenOf("handed out").size(), 1);
    registry.pass(301ms);
    EVENTUALLY_COMPARE(childrenOf("handed out").size(), 0);
}

/// Curator's InterProcessMutex names its nodes so.
void tst_ZooKeeper::curatorsClientHolds()
{
    LockRegistry registry(url());
    DistributedLock lock(&registry, u"curator"_s);
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
    const auto info = registry.inspect(u"curator"_s);
    QVERIFY(eventually([&] { return info.isFinished(); }));
    QVERIFY(info.result().held && info.result().foreign);
    lock.setOptions(options());
    lock.acquire();
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    QVERIFY(wait([&](auto done) { m_witness->remove(theirs.path, done); }).isOk());
    QVERIFY(eventually([&] { return lock.isHeld(); }));
}

void tst_ZooKeeper::curatorsClientDies()
{
    Session::Options theirOptions;
    theirOptions.servers = {{u"127.0.0.1"_s, m_server.port()}};
    auto theirs = std::make_unique<Session>(theirOptions);
    theirs->open();
    LockRegistry registry(url());
    DistributedLock lock(&registry, u"dies"_s);
    QVERIFY(acquireNow(&lock));
    const Result place = wait(
            [&](auto done) { theirs->create(pathOf("dies/_c_x-lock-"), {}, Session::EphemeralSequential, done); });
    QVERIFY2(place.isOk(), qPrintable(place.errorString()));
    QVERIFY(releaseNow(&lock));
    lock.setOptions(options());
    lock.acquire();
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    theirs.reset();
    QVERIFY(eventually([&] { return lock.isHeld(); }));
}

void tst_ZooKeeper::leaderDies()
{
    ZooKeeperServer ensemble(3);
    QVERIFY2(ensemble.start(), qPrintable(ensemble.errorString()));
    const QUrl servers = urlOf(ensemble.port(0),
                               u"?node=127.0.0.1:%1&node=127.0.0.1:%2"_s.arg(ensemble.port(1)).arg(ensemble.port(2)));
    StillRegistry registry(servers);
    StillRegistry other(servers);
    DistributedLock lock(&registry, u"leader"_s);
    lock.setOptions(options());
    DistributedLock waiter(&other, u"leader"_s);
    waiter.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    ensemble.kill(ensemble.leader());
    registry.pass(11s); // a renewal is due
    QVERIFY(eventually([&] { return !spies.renewed.isEmpty() || !spies.lost.isEmpty(); }));
    QVERIFY(spies.lost.isEmpty());
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QVERIFY(waiter.fencingToken() > token);
}

// A follower that has lost its leader still answers what it can answer alone: that proves nothing.
void tst_ZooKeeper::followerWithoutLeader()
{
    ZooKeeperServer ensemble(3);
    QVERIFY2(ensemble.start(), qPrintable(ensemble.errorString()));
    const int leader = ensemble.leader();
    QVERIFY(leader >= 0);
    const int follower = (leader + 1) % 3;
    StillRegistry registry(urlOf(ensemble.port(follower)));
    DistributedLock lock(&registry, u"follower"_s);
    lock.setOptions(options());
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    registry.pass(11s);
    QVERIFY(eventually([&] { return !spies.renewed.isEmpty(); }));
    const qsizetype renewed = spies.renewed.size();
    for (int i = 0; i < 3; ++i) {
        if (i != follower)
            ensemble.pause(i);
    }
    const auto info = registry.inspect(u"follower"_s);
    QVERIFY(eventually([&] { return info.isFinished(); }));
    for (int i = 0; i < 31; ++i)
        registry.pass(1s);
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    QCOMPARE(spies.renewed.size(), renewed);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ZooKeeper)
#include "tst_zookeeper.moc"
