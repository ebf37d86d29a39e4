// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/servername.h"
#include "support/locktest.h"

#include "support/faultproxy.h"
#include "support/rediscluster.h"
#include "support/redisset.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/LockInfo>

#include <QtCore/qdir.h>
#include <QtCore/qpointer.h>
#include <QtCore/qprocess.h>
#include <QtCore/qsavefile.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qtemporarydir.h>
#include <QtCore/qthread.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using QDistLock::LockAddress;
using QDistLock::LockInfo;

class tst_LockRegistry : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void cleanup();

    void defaultServer();
    void instancePerThread();
    void instanceOfEachSpelling();
    void instanceUsesTheDefaultServer();
    void stateAndSignals();

    void obtainCaches();
    void idleLocksAreEvicted();
    void usedLocksAreNotEvicted();
    void evictedWhileNamesKeepComing();
    void obtainedInAnEvictedLocksSlot();
    void obtainedLockDeletedByHand();
    void defaultsAndOptions();
    void addresses();
    void badDefaults_data()
    {
        Support::addRows<milliseconds>("lease", {{"0", 0ms}, {"negative", -5ms}, {"48 h", milliseconds(48h)}});
    }
    void badDefaults();

    void futuresWithoutServer();
    void oneMasterIsAway_data()
    {
        Support::addRows<bool>("harmedFirst", {{"its locks first", true}, {"the others first", false}});
    }
    void oneMasterIsAway();
    void slotWithoutMaster();
    void passwordReplaced_data() { Support::addRows<bool>("isCluster", {{"cluster", true}, {"quorum", false}}); }
    void passwordReplaced();
    void cancelledFutures();
    void futuresEndWithTheRegistry_data()
    {
        Support::addNamedRows<QString>("moment", {"connecting", "asked", "memory"});
    }
    void futuresEndWithTheRegistry();
    void registryDeletedInAContinuation();
    void askedAgainInTheDestructor();
    void registryDeletedInItsSignals_data();
    void registryDeletedInItsSignals();

    void destroyedBeforeItsLocks_data() { Support::addRows<bool>("memory", {{"redis", false}, {"memory", true}}); }
    void destroyedBeforeItsLocks();
    void locksDeletedWhileTheRegistryGoes();
    void acquireWhileTheRegistryGoes_data() { destroyedBeforeItsLocks_data(); }
    void acquireWhileTheRegistryGoes();
    void lockMadeWhileTheRegistryGoes();
    void backToTheDefaultRegistry();
    void changeOfRegistry();
    void changeOfRegistryKeepsNoRoute();
    void changeOfRegistryKeepsTheRoutesOfOthers();
    void threadEndsWhileHolding();
    TIMING void threadsEndWaitsForTheServer();
    void applicationQuits_data() { Support::addRows<bool>("memory", {{"redis", false}, {"memory", true}}); }
    void applicationQuits();

private:
    /// True if a lock was held when the thread ended, which had this lease.
    bool holdInAThread(milliseconds lease);
};

void tst_LockRegistry::initTestCase()
{
    RedisLockTest::initTestCase();
    QVERIFY(qEnvironmentVariable("QDISTLOCK_URL").isEmpty());
}

void tst_LockRegistry::cleanup()
{
    LockTest::cleanup();
    LockRegistry::setDefaultServer(QUrl());
    qunsetenv("QDISTLOCK_URL");
    LockRegistry::instance(m_server.url())->setDefaults({});
}

void tst_LockRegistry::defaultServer()
{
    QCOMPARE(LockRegistry::defaultServer(), QUrl(u"redis://127.0.0.1:6379"_s));
    qputenv("QDISTLOCK_URL", "redis://example.org:7000/2");
    QCOMPARE(LockRegistry::defaultServer(), QUrl(u"redis://example.org:7000/2"_s));
    LockRegistry::setDefaultServer(QUrl(u"memory:x"_s));
    QCOMPARE(LockRegistry::defaultServer(), QUrl(u"memory:x"_s));
    LockRegistry::setDefaultServer(QUrl());
    QCOMPARE(LockRegistry::defaultServer(), QUrl(u"redis://example.org:7000/2"_s));
    qunsetenv("QDISTLOCK_URL");
    QCOMPARE(LockRegistry::defaultServer(), QUrl(u"redis://127.0.0.1:6379"_s));
}

void tst_LockRegistry::instancePerThread()
{
    LockRegistry::setDefaultServer(QUrl(u"memory:instance"_s));
    LockRegistry *const here = LockRegistry::instance();
    QCOMPARE(LockRegistry::instance(), here);
    QCOMPARE(here->thread(), QThread::currentThread());
    QCOMPARE(LockRegistry::instance(QUrl(u"memory:instance"_s)), here);
    QVERIFY(LockRegistry::instance(QUrl(u"memory:other"_s)) != here);

    QPointer<LockRegistry> there;
    std::atomic<bool> apart{false};
    std::unique_ptr<QThread> thread(QThread::create([&] {
        there = LockRegistry::instance();
        apart = there != here && there == LockRegistry::instance() && there->thread() == QThread::currentThread();
    }));
    thread->start();
    QVERIFY(thread->wait(60'000));
    QVERIFY(apart);
    QVERIFY(!there); // went with its thread
    LockRegistry::setDefaultServer(QUrl());
}

void tst_LockRegistry::instanceOfEachSpelling()
{
    const auto instance = [](const char *url) { return LockRegistry::instance(QUrl(QString::fromLatin1(url))); };
    LockRegistry *const tcp = instance("redis://h.example");
    for (const char *url :
         {"redis://h.example:6379", "REDIS://H.example/", "redis://%68.example/0", "redis://h.example."})
        QCOMPARE(instance(url), tcp);
    QCOMPARE(tcp->server(), QUrl(u"redis://h.example:6379"_s));
    LockRegistry *const local = instance("unix:/run/a.sock");
    QCOMPARE(instance("unix:///run//a.sock?db=0"), local);
    QCOMPARE(local->server(), QUrl(u"unix:///run/a.sock"_s));
    LockRegistry *const cluster = instance("redis+cluster://b.example.?node=a.example.:7000&node=c.example:7000");
    QCOMPARE(instance("redis+cluster://a.example:7000?node=b.example&node=c.example.:7000"), cluster);
    QCOMPARE(cluster->server().toString(), u"redis+cluster://a.example:7000?node=b.example:6379&node=c.example:7000"_s);
    LockRegistry *const dot = instance("redis://dot.example.");
    QCOMPARE(instance("redis://dot.example"), dot);
    QCOMPARE(dot->server(), QUrl(u"redis://dot.example:6379"_s));
    QVERIFY(QDistLock::isSameLockSpace(LockRegistryPrivate::get(dot)->url, QUrl(u"redis://dot.example:6379"_s)));
    LockRegistry *const memory = instance("memory:sp%65lt");
    QCOMPARE(instance("memory:spelt"), memory);
    // Another login or database needs another connection, and what cannot be known is not guessed.
    for (const char *url : {"redis://u:p@h.example", "redis://h.example/1", "rediss://h.example",
                            "unix:///run/a.sock?db=1", "unix:///run/b/../a.sock", "memory:"}) {
        for (LockRegistry *const other : {tcp, local, memory})
            QVERIFY2(instance(url) != other, url);
    }

    LockRegistry::setDefaultServer(QUrl(u"redis://H.example/0"_s));
    QCOMPARE(LockRegistry::instance(), tcp);
    QCOMPARE(LockRegistry::defaultServer(), QUrl(u"redis://h.example:6379"_s));
    LockRegistry::setDefaultServer(QUrl());
    qputenv("QDISTLOCK_URL", "redis://H.example/0");
    QCOMPARE(LockRegistry::instance(), tcp);
    qputenv("QDISTLOCK_URL", "unix:/run/a.sock");
    QCOMPARE(LockRegistry::instance(), local);
}

void tst_LockRegistry::instanceUsesTheDefaultServer()
{
    LockRegistry::setDefaultServer(m_server.url());
    DistributedLock lock(u"a"_s);
    QVERIFY(!lock.registry());
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.registry(), LockRegistry::instance());
    QVERIFY(m_server.exists("lock:a"));
    QVERIFY(releaseNow(&lock));
    LockRegistry::setDefaultServer(QUrl());
}

void tst_LockRegistry::stateAndSignals()
{
    QSignalSpy states(registry(), &LockRegistry::stateChanged);
    QSignalSpy errors(registry(), &LockRegistry::errorOccurred);
    QCOMPARE(registry()->server().path(), m_server.url().path());
    QCOMPARE(registry()->server().scheme(), u"unix"_s);
    QCOMPARE(registry()->state(), LockRegistry::Disconnected);
    QCOMPARE(registry()->error(), DistributedLock::NoError);
    QCOMPARE(registry()->errorString(), QString());
    {
        LockRegistry later(m_server.url());
        DistributedLock other(&later, u"other"_s);
        QVERIFY(acquireNow(&other));
    }
    processEvents();
    QVERIFY(states.isEmpty()); // connects when first needed

    QList<LockRegistry::State> seen;
    connect(registry(), &LockRegistry::stateChanged, registry(), [&] { seen.append(registry()->state()); });
    auto lock = std::make_unique<DistributedLock>(registry(), u"a"_s);
    lock->acquire();
    QVERIFY(eventually([&] { return lock->isHeld(); }));
    QCOMPARE(seen, (QList<LockRegistry::State>{LockRegistry::Connecting, LockRegistry::Ready}));
    QVERIFY(errors.isEmpty());
    QCOMPARE(LockRegistry::State(registry()->property("state").toInt()), LockRegistry::Ready);
}

void tst_LockRegistry::obtainCaches()
{
    LockRegistry registry(QUrl(u"memory:obtain"_s));
    QCOMPARE(registry.idleEviction(), milliseconds(60s));
    DistributedLock *const lock = registry.obtain(u"a"_s);
    QCOMPARE(lock->name(), u"a"_s);
    QCOMPARE(lock->registry(), &registry);
    QCOMPARE(lock->parent(), &registry);
    QCOMPARE(registry.obtain(u"a"_s), lock);
    QVERIFY(registry.obtain(u"b"_s) != lock);
    // The object is the owner: two users of one cached lock share the hold.
    QVERIFY(acquireNow(lock));
    registry.obtain(u"a"_s)->acquire();
    QCOMPARE(lock->holdCount(), 2);
}

void tst_LockRegistry::idleLocksAreEvicted()
{
    LockRegistry registry(QUrl(u"memory:evict"_s));
    registry.setIdleEviction(100ms);
    QPointer<DistributedLock> unused = registry.obtain(u"unused"_s);
    QPointer<DistributedLock> held = registry.obtain(u"held"_s);
    QVERIFY(acquireNow(held));
    QVERIFY(eventually([&] { return !unused; }));
    QVERIFY(held);
    QVERIFY(held->isHeld());
    held->release();
    QVERIFY(eventually([&] { return !held; }));
    QVERIFY(registry.obtain(u"unused"_s)); // a new one
}

void tst_LockRegistry::usedLocksAreNotEvicted()
{
    StillRegistry registry(QUrl(u"memory:used"_s));
    registry.setIdleEviction(40ms); // checked every 10 ms, counted on the lease clock
    QPointer<DistributedLock> lock = registry.obtain(u"a"_s);
    for (int i = 0; i < 10; ++i) {
        const QPointer<DistributedLock> unused = registry.obtain(QString::number(i));
        registry.advance(30ms);
        QCOMPARE(registry.obtain(u"a"_s), lock.data());
        registry.advance(10ms);
        QVERIFY(eventually([&] { return !unused; }));
        QVERIFY(lock);
    }
    registry.advance(40ms);
    QVERIFY(eventually([&] { return !lock; }));
}

void tst_LockRegistry::evictedWhileNamesKeepComing()
{
    StillRegistry registry(QUrl(u"memory:names"_s));
    registry.setIdleEviction(200ms); // checked every 50 ms
    QPointer<DistributedLock> lock = registry.obtain(u"a"_s);
    registry.advance(200ms);
    int names = 0;
    QVERIFY(eventually([&] {
        registry.obtain(QString::number(++names));
        return !lock;
    }));
}

void tst_LockRegistry::obtainedInAnEvictedLocksSlot()
{
    // The slot of the lock that is destroyed first begins to use the other one.
    StillRegistry registry(QUrl(u"memory:slot"_s));
    registry.setIdleEviction(40ms);
    QPointer<DistributedLock> other;
    bool evicted = false;
    const auto use = [&](const QString &name) {
        if (!std::exchange(evicted, true))
            other = registry.obtain(name);
    };
    QObject context;
    connect(registry.obtain(u"a"_s), &QObject::destroyed, &context, [&] { use(u"b"_s); });
    connect(registry.obtain(u"b"_s), &QObject::destroyed, &context, [&] { use(u"a"_s); });
    registry.advance(40ms);
    QVERIFY(eventually([&] { return evicted; }));
    QVERIFY(other);
    QVERIFY(acquireNow(other));
}

void tst_LockRegistry::obtainedLockDeletedByHand()
{
    LockRegistry registry(QUrl(u"memory:byhand"_s));
    QPointer<DistributedLock> lock = registry.obtain(u"a"_s);
    delete lock;
    DistributedLock *const next = registry.obtain(u"a"_s);
    QVERIFY(next);
    QVERIFY(acquireNow(next));
}

/// The same name with another prefix or on another server is another lock.
void tst_LockRegistry::addresses()
{
    LockRegistry registry(m_server.url());
    QCOMPARE(registry.keyPrefix(), u"lock:"_s);
    DistributedLock usual(&registry, u"job"_s);
    DistributedLock prefixed(LockAddress(u"job"_s).withKeyPrefix(u"own:"_s).withServer(m_server.url()));
    DistributedLock elsewhere(LockAddress(u"job"_s).withServer(QUrl(u"memory:addresses"_s)));
    QVERIFY(acquireNow(&usual) && acquireNow(&prefixed) && acquireNow(&elsewhere));
    QCOMPARE(prefixed.registry(), LockRegistry::instance(m_server.url()));
    QCOMPARE(elsewhere.registry(), LockRegistry::instance(QUrl(u"memory:addresses"_s)));
    QVERIFY(m_server.exists("lock:job") && m_server.exists("own:job"));

    // The registry's prefix is that of acquires and requests from now on, but not of a lock that has its own.
    registry.setKeyPrefix(u"own:"_s);
    QCOMPARE(registry.keyPrefix(), u"own:"_s);
    const auto info = awaited(registry.inspect(u"job"_s));
    QCOMPARE(info.fencingToken, prefixed.fencingToken());
    DistributedLock excluded(&registry, u"job"_s);
    const QFuture<LockResult> result = excluded.tryAcquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::BusyError);

    prefixed.release();
    QVERIFY(eventually([&] { return prefixed.state() == DistributedLock::Unlocked; }));
    registry.setKeyPrefix(u"other:"_s);
    prefixed.setRegistry(&registry);
    prefixed.setName(u"second"_s);
    QVERIFY(acquireNow(&prefixed));
    QVERIFY(m_server.exists("own:second"));

    registry.setKeyPrefix(QString());
    QVERIFY(acquireNow(&excluded));
    QVERIFY(m_server.exists("job"));
    DistributedLock bare(LockAddress(u"bare"_s).withKeyPrefix(u""_s).withServer(m_server.url()));
    QVERIFY(acquireNow(&bare)); // an empty prefix is none, and not that of its registry
    QVERIFY(m_server.exists("bare"));
    QVERIFY(releaseNow(&bare)); // its registry sends it later otherwise, which other tests would count
}

void tst_LockRegistry::defaultsAndOptions()
{
    LockRegistry registry(QUrl(u"memory:defaults"_s));
    DistributedLock before(&registry, u"before"_s);
    LockOptions defaults;
    defaults.lease = 5s;
    defaults.wait = LockOptions::Forever;
    registry.setDefaults(defaults);
    QCOMPARE(before.lease(), milliseconds(30s)); // made earlier

    DistributedLock lock(&registry, u"a"_s);
    QCOMPARE(lock.lease(), milliseconds(5s));
    QCOMPARE(lock.waitTime(), LockOptions::Forever);
    QCOMPARE(registry.obtain(u"b"_s)->lease(), milliseconds(5s));

    lock.setWaitTime(7ms); // the others stay the registry's
    QCOMPARE(lock.options().wait, 7ms);
    QCOMPARE(lock.options().lease, milliseconds(5s));

    // Own options outlive a change of registry, and registries that come later.
    DistributedLock own(u"own"_s);
    own.setOptions(LockOptions().withLease(3s));
    own.setRegistry(&registry);
    QCOMPARE(own.lease(), milliseconds(3s));
    DistributedLock none(u"none"_s);
    QSignalSpy leases(&none, &DistributedLock::leaseChanged);
    none.setRegistry(&registry);
    QCOMPARE(none.lease(), milliseconds(5s));
    QCOMPARE(leases.size(), 1);
}

void tst_LockRegistry::badDefaults()
{
    // They reach a lock on the default registry by its first acquire only.
    QFETCH(milliseconds, lease);
    QCOMPARE(m_server.cli({"SET", "lock:a", "somebody"}), QByteArray("OK"));
    const qint64 before = m_server.commandsProcessed("evalsha");
    LockRegistry::setDefaultServer(m_server.url());
    LockRegistry::instance()->setDefaults(LockOptions().withLease(lease).withWait(60s));
    DistributedLock lock(u"a"_s);
    const auto result = awaited(lock.acquireAsync());
    QCOMPARE(result.error, DistributedLock::OptionsError);
    QVERIFY2(result.errorString.contains(u"lease"_s), qPrintable(result.errorString));
    processEvents();
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QCOMPARE(m_server.cli({"GET", "lock:a"}), QByteArray("somebody"));
    QCOMPARE(m_server.cli({"PTTL", "lock:a"}), QByteArray("-1"));
    QCOMPARE(m_server.commandsProcessed("evalsha"), before);
}

void tst_LockRegistry::futuresWithoutServer()
{
    Support::FaultProxy proxy(m_server);
    proxy.setRefusing(true);
    LockRegistry registry(proxy.url());
    const QFuture<LockInfo> info = registry.inspect(u"a"_s);
    const auto list = registry.list(u"*"_s);
    const auto forced = registry.forceRelease(u"a"_s);
    QVERIFY(eventually([&] { return info.isFinished() && list.isFinished() && forced.isFinished(); }));
    QCOMPARE(info.result().error, DistributedLock::ConnectionError);
    QCOMPARE(info.result().name, u"a"_s);
    QVERIFY(info.result().errorString.contains(QString::number(proxy.port())));
    QCOMPARE(list.result().error, DistributedLock::ConnectionError);
    QVERIFY(list.result().errorString.contains(QString::number(proxy.port())));
    QCOMPARE(forced.result().error, DistributedLock::ConnectionError);
    QVERIFY(forced.result().errorString.contains(u"\"a\""_s));
}

void tst_LockRegistry::cancelledFutures()
{
    LockRegistry others(m_server.url());
    TestLock lock(&others, u"a"_s);
    QVERIFY(acquireNow(&lock));
    const QByteArray token = lock.detach();

    // The requests wait until the registry has connected.
    LockRegistry registry(m_server.url());
    auto forced = registry.forceRelease(u"a"_s);
    auto released = registry.release(u"a"_s, token);
    QFuture<LockInfo> inspected = registry.inspect(u"a"_s);
    auto listed = registry.list(u"*"_s);
    const QFuture<LockInfo> last = registry.inspect(u"a"_s);
    forced.cancel();
    released.cancel();
    inspected.cancel();
    listed.cancel();
    QVERIFY(eventually([&] { return last.isFinished(); }));
    QVERIFY(forced.isFinished() && released.isFinished() && inspected.isFinished() && listed.isFinished());
    QVERIFY(last.result().held);
    QCOMPARE(registry.error(), DistributedLock::NoError);
    QVERIFY(m_server.exists("lock:a"));
}

void tst_LockRegistry::futuresEndWithTheRegistry()
{
    QFETCH(QString, moment);
    const bool memory = moment == QLatin1String("memory");
    auto registry = std::make_unique<LockRegistry>(memory ? QUrl(u"memory:end"_s) : m_server.url());
    if (moment == QLatin1String("asked")) {
        const QFuture<LockInfo> first = registry->inspect(u"a"_s);
        QVERIFY(eventually([&] { return first.isFinished(); }));
    }
    QFuture<LockInfo> info = registry->inspect(u"a"_s);
    auto list = registry->list(u"*"_s);
    auto forced = registry->forceRelease(u"a"_s);
    QVERIFY(!info.isFinished());
    registry.reset();
    QVERIFY(info.isFinished() && list.isFinished() && forced.isFinished());
    QVERIFY(!info.isCanceled() && !list.isCanceled() && !forced.isCanceled());
    QCOMPARE(info.resultCount(), 1);
    QCOMPARE(list.resultCount(), 1);
    QCOMPARE(forced.resultCount(), 1);
    QCOMPARE(info.result().error, DistributedLock::CancelledError);
    QCOMPARE(info.result().name, u"a"_s);
    QVERIFY(!info.result().errorString.isEmpty());
    QCOMPARE(list.result().error, DistributedLock::CancelledError);
    QCOMPARE(forced.result().error, DistributedLock::CancelledError);
}

void tst_LockRegistry::oneMasterIsAway()
{
    // Each request ends as its own master says, and names that one only.
    QFETCH(bool, harmedFirst);
    auto clusterOptions = Support::RedisCluster::Options::mastersOnly();
    clusterOptions.needsAllSlots = false;
    Support::Started<Support::RedisCluster> cluster(clusterOptions);
    const QStringList names{cluster.nameAt(0), cluster.nameAt(1), cluster.nameAt(2)};
    LockRegistry holders(cluster.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (const QString &name : names) {
        locks.push_back(std::make_unique<TestLock>(&holders, name, options(10min)));
        QVERIFY(acquireNow(locks.back().get()));
    }
    const QString away = QString::number(cluster.node(0).port());
    cluster.node(0).kill();

    LockRegistry registry(cluster.url());
    const auto resultOf = [](auto future) {
        [&] { QVERIFY(eventually([&] { return future.isFinished(); })); }();
        return future.isFinished() ? future.result() : decltype(future.result())();
    };
    const auto checkHarmed = [&] {
        const LockInfo info = resultOf(registry.inspect(names.at(0)));
        QCOMPARE(info.error, DistributedLock::ConnectionError);
        QVERIFY2(info.errorString.contains(away), qPrintable(info.errorString));
    };
    const auto checkOthers = [&] {
        for (int i = 1; i < 3; ++i) {
            const LockInfo info = resultOf(registry.inspect(names.at(i)));
            QVERIFY2(info.held, qPrintable(info.errorString));
            const auto waiters = resultOf(registry.waiters(names.at(i)));
            QCOMPARE(waiters.error, DistributedLock::NoError);
            QVERIFY(waiters.value.isEmpty());
            QCOMPARE(resultOf(registry.forceRelease(names.at(i), 1)).value, LockRegistry::OtherHolder);
            QCOMPARE(resultOf(registry.renew(names.at(i), "0123456789abcdef:1:ab", 30s)).value,
                     LockRegistry::OtherHolder);
        }
    };
    for (const bool isHarmed : {harmedFirst, !harmedFirst}) {
        if (isHarmed)
            checkHarmed();
        else
            checkOthers();
        if (QTest::currentTestFailed())
            return;
    }
    for (int i = 0; i < 3; ++i) { // not only for the first time
        const auto list = resultOf(registry.list(u"*"_s));
        QCOMPARE(list.error, DistributedLock::ConnectionError);
        QVERIFY2(list.errorString.contains(u"no list of locks"_s) && list.errorString.contains(away),
                 qPrintable(list.errorString));
        QCOMPARE(resultOf(registry.waiters(names.at(0))).error, DistributedLock::ConnectionError);
        QCOMPARE(resultOf(registry.forceRelease(names.at(0))).error, DistributedLock::ConnectionError);
    }
}

void tst_LockRegistry::slotWithoutMaster()
{
    // A lock may be there that nobody can see.
    auto clusterOptions = Support::RedisCluster::Options::mastersOnly();
    clusterOptions.needsAllSlots = false;
    Support::Started<Support::RedisCluster> cluster(clusterOptions);
    for (int i = 0; i < 3; ++i)
        cluster.node(i).command({"CLUSTER", "DELSLOTS", "17"});
    LockRegistry registry(cluster.url());
    const auto listed = awaited(registry.list(u"*"_s));
    QCOMPARE(listed.error, DistributedLock::ServerError);
    QVERIFY2(listed.errorString.contains(u"16383 of 16384"_s), qPrintable(listed.errorString));
}

/// In a file, while the program runs. Each node asks for it.
void tst_LockRegistry::passwordReplaced()
{
    QFETCH(bool, isCluster);
    const QByteArray rule = "lockapp on >first ~* &* +@all";
    auto clusterOptions = Support::RedisCluster::Options::mastersOnly();
    clusterOptions.users = {rule};
    Support::RedisCluster cluster(clusterOptions);
    Support::RedisServer::Options serverOptions = Support::RedisServer::Options::withTcp();
    serverOptions.users = {rule};
    Support::RedisSet quorum(3, serverOptions);
    if (isCluster)
        QVERIFY2(cluster.start(), qPrintable(cluster.errorString()));
    else
        QVERIFY2(quorum.start(), qPrintable(quorum.errorString()));

    const QTemporaryDir folder;
    const QString path = folder.filePath(u"password"_s);
    const auto write = [&path](const QByteArray &password) {
        QSaveFile file(path);
        return file.open(QIODevice::WriteOnly) && file.write(password + '\n') > 0 && file.commit();
    };
    qputenv("QDISTLOCK_PASSWORD_FILE", path.toUtf8());
    const auto clean = qScopeGuard([] { qunsetenv("QDISTLOCK_PASSWORD_FILE"); });
    QUrl url = isCluster ? cluster.url() : quorum.directUrl();
    url.setUserInfo(u"lockapp"_s);
    LockRegistry registry(url);
    const auto acquireMany = [&registry] {
        bool areHeld = true;
        for (int i = 0; i < 12; ++i) { // on each node of the cluster
            TestLock lock(&registry, u"job%1"_s.arg(i), options(30s));
            areHeld &= acquireNow(&lock);
        }
        return areHeld;
    };
    TestLock refused(&registry, u"job"_s, {});
    refused.acquire();
    QVERIFY(eventually([&] { return refused.spies.failed.size() == 1; }));
    QVERIFY2(refused.errorString().contains(path), qPrintable(refused.errorString()));
    if (isCluster)
        QCOMPARE(refused.error(), DistributedLock::AuthenticationError);

    QVERIFY(write("first"));
    QVERIFY2(acquireMany(), qPrintable(registry.errorString()));
    QVERIFY(write("second"));
    for (int i = 0; i < 3; ++i) {
        Support::RedisServer &server = isCluster ? cluster.node(i) : quorum.server(i);
        QCOMPARE(server.command({"ACL", "SETUSER", "lockapp", "resetpass", ">second"}), QVariant(QByteArray("OK")));
        QVERIFY(server.command({"CLIENT", "KILL", "USER", "lockapp"}).toLongLong() > 0);
    }
    QVERIFY2(acquireMany(), qPrintable(registry.errorString()));
    QVERIFY(registry.error() != DistributedLock::AuthenticationError);
}

void tst_LockRegistry::registryDeletedInAContinuation()
{
    Support::FaultProxy proxy(m_server);
    proxy.setRefusing(true);
    for (int which = 0; which < 3; ++which) {
        auto *registry = new LockRegistry(proxy.url());
        const QPointer<LockRegistry> alive(registry);
        QList<QFuture<LockInfo>> infos;
        for (int i = 0; i < 3; ++i) {
            infos.append(registry->inspect(QString::number(i)));
            if (i == which)
                infos.last().then([alive](const LockInfo &) { delete alive.data(); });
        }
        QVERIFY(eventually([&] { return !alive; }));
        for (const QFuture<LockInfo> &info : std::as_const(infos)) {
            QVERIFY(info.isFinished());
            QCOMPARE(info.resultCount(), 1);
        }
    }
}

void tst_LockRegistry::askedAgainInTheDestructor()
{
    // A continuation that asks again on each failure.
    for (const bool answered : {false, true}) {
        auto registry = std::make_unique<LockRegistry>(QUrl(u"memory:again"_s));
        const QPointer<LockRegistry> asked(registry.get());
        int failures = 0;
        std::vector<std::unique_ptr<DistributedLock>> made;
        std::function<void(const LockInfo &)> again = [&](const LockInfo &info) {
            if (info.error != DistributedLock::CancelledError)
                return;
            ++failures;
            if (!asked)
                return;
            made.push_back(std::make_unique<DistributedLock>(asked, u"made"_s));
            made.back()->acquire();
            asked->inspect(u"a"_s).then(again);
            asked->list(u"*"_s);
            asked->forceRelease(u"a"_s);
        };
        if (answered) // though its future has not finished yet
            registry->inspect(QString(QChar(0xD800))).then([&](const LockInfo &) {
                asked->inspect(u"a"_s).then(again);
            });
        for (int i = 0; i < 20; ++i)
            registry->inspect(QString::number(i)).then(again);
        registry.reset();
        QVERIFY(failures >= 20);
        QVERIFY(eventually(
                [&] { return failures == (answered ? 41 : 40); })); // what was asked for in the destructor ends as well
        for (const auto &lock : made)
            QVERIFY(eventually([&] { return lock->error() == DistributedLock::ConnectionError; }));
    }
}

void tst_LockRegistry::registryDeletedInItsSignals_data()
{
    Support::addColumns<QByteArray, bool, bool>("signal", "reachable", "lockFirst");
    for (const bool lockFirst : {true, false}) {
        const char *first = lockFirst ? "a lock" : "inspect()";
        QTest::addRow("stateChanged, %s first", first) << QByteArray(SIGNAL(stateChanged())) << true << lockFirst;
        QTest::addRow("errorChanged, %s first", first) << QByteArray(SIGNAL(errorChanged())) << false << lockFirst;
        QTest::addRow("errorOccurred, %s first", first) << QByteArray(SIGNAL(errorOccurred())) << false << lockFirst;
    }
}

void tst_LockRegistry::registryDeletedInItsSignals()
{
    QFETCH(QByteArray, signal);
    QFETCH(bool, reachable);
    QFETCH(bool, lockFirst);
    Support::FaultProxy proxy(m_server);
    proxy.setRefusing(!reachable);
    // Of an outage an error is reported once.
    for (int emission = 1; emission <= (reachable ? 2 : 1); ++emission) {
        auto *registry = new LockRegistry(proxy.url());
        const QPointer<LockRegistry> alive(registry);
        QObject receiver;
        TestLock lock(registry, u"a"_s, {});
        const auto kill = [alive, count = emission]() mutable {
            if (--count == 0)
                delete alive.data();
        };
        if (signal == SIGNAL(stateChanged()))
            connect(registry, &LockRegistry::stateChanged, &receiver, kill);
        else if (signal == SIGNAL(errorChanged()))
            connect(registry, &LockRegistry::errorChanged, &receiver, kill);
        else
            connect(registry, &LockRegistry::errorOccurred, &receiver, kill);
        QFuture<LockInfo> info, info2;
        if (lockFirst)
            lock.acquire();
        if (alive)
            info = registry->inspect(u"a"_s);
        if (alive)
            info2 = registry->inspect(u"b"_s);
        if (!lockFirst)
            lock.acquire();
        QVERIFY(eventually([&] { return !alive; }));
        QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1; }));
        QCOMPARE(lock.spies.failed.size(), 1);
        for (const QFuture<LockInfo> &future : {info, info2}) {
            QVERIFY(future.isFinished());
            QVERIFY(!future.isValid() || future.resultCount() == 1);
        }
    }
}

void tst_LockRegistry::destroyedBeforeItsLocks()
{
    QFETCH(bool, memory);
    const QUrl url = memory ? QUrl(u"memory:destroyed"_s) : m_server.url();
    LockRegistry witness(url);
    auto registry = std::make_unique<LockRegistry>(url);
    DistributedLock held(registry.get(), u"a"_s);
    DistributedLock waiting(registry.get(), u"a"_s);
    DistributedLock idle(registry.get(), u"b"_s);
    QPointer<DistributedLock> obtained = registry->obtain(u"c"_s);
    Spies heldSpies(&held), waitingSpies(&waiting), idleSpies(&idle);
    QVERIFY(acquireNow(&held));
    QVERIFY(acquireNow(obtained));
    waiting.acquire();
    QFuture<LockResult> future = waiting.acquireAsync();
    processEvents();
    QCOMPARE(waiting.state(), DistributedLock::Acquiring);

    registry.reset();
    QVERIFY(!obtained);
    QVERIFY(!held.isHeld());
    QVERIFY(!held.registry());
    processEvents();
    QCOMPARE(held.state(), DistributedLock::Unlocked);
    QVERIFY(eventually([&] { return heldSpies.holdsEnded() == 1 && waitingSpies.acquiresEnded() == 2; }));
    QCOMPARE(heldSpies.reason(), DistributedLock::ForcedRelease);
    QCOMPARE(waitingSpies.failure(), DistributedLock::ConnectionError);
    QVERIFY(future.isFinished());
    QCOMPARE(future.result().error, DistributedLock::ConnectionError);
    QCOMPARE(idleSpies.total(), 0);

    // What they held is given back.
    QFuture<QDistLock::LockReply<QList<LockInfo>>> list;
    QVERIFY(eventually([&] {
        list = witness.list(u"*"_s);
        return eventually([&] { return list.isFinished(); }) && list.result().value.isEmpty();
    }));

    // Never on another server than the one that was asked for.
    LockRegistry::setDefaultServer(QUrl(u"memory:wrong"_s));
    for (DistributedLock *lock : {&held, &idle}) {
        QSignalSpy failed(lock, &DistributedLock::acquireFailed);
        lock->acquire();
        QVERIFY(eventually([&] { return !failed.isEmpty(); }));
        QVERIFY(!lock->registry());
        lock->release();
    }
    LockRegistry::setDefaultServer(QUrl());
    held.setRegistry(&witness);
    QVERIFY(acquireNow(&held));
}

void tst_LockRegistry::locksDeletedWhileTheRegistryGoes()
{
    // Each lock's first NOTIFY deletes another one.
    for (int round = 0; round < 20; ++round) {
        auto registry = std::make_unique<LockRegistry>(QUrl(u"memory:gone%1"_s.arg(round)));
        QList<QPointer<DistributedLock>> locks;
        for (int i = 0; i < 6; ++i)
            locks.append(new DistributedLock(registry.get(), QString::number(i)));
        for (int i = 0; i < 6; ++i) {
            QVERIFY(acquireNow(locks.at(i)));
            connect(locks.at(i).data(), &DistributedLock::stateChanged, this,
                    [&locks, i, round] { delete locks.at((i + 1 + round) % 6).data(); });
        }
        registry.reset();
        processEvents();
        for (const QPointer<DistributedLock> &lock : std::as_const(locks))
            delete lock.data();
    }
}

void tst_LockRegistry::acquireWhileTheRegistryGoes()
{
    QFETCH(bool, memory);
    auto registry = std::make_unique<LockRegistry>(memory ? QUrl(u"memory:going"_s) : m_server.url());
    DistributedLock lock(registry.get(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QFuture<LockResult> again;
    connect(&lock, &DistributedLock::heldChanged, &lock, [&] { again = lock.acquireAsync(); });
    registry.reset();
    processEvents();
    QVERIFY(again.isValid());
    QVERIFY(eventually([&] { return again.isFinished(); }));
    QCOMPARE(again.result().error, DistributedLock::ConnectionError);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(!lock.registry());
    lock.cancel();
}

void tst_LockRegistry::lockMadeWhileTheRegistryGoes()
{
    auto registry = std::make_unique<LockRegistry>(QUrl(u"memory:made"_s));
    DistributedLock lock(registry.get(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    std::unique_ptr<DistributedLock> made;
    connect(&lock, &DistributedLock::heldChanged, &lock,
            [&] { made = std::make_unique<DistributedLock>(lock.registry(), u"b"_s); });
    registry.reset();
    processEvents();
    QVERIFY(made);
    QVERIFY(!made->registry());
}

void tst_LockRegistry::backToTheDefaultRegistry()
{
    LockRegistry::setDefaultServer(m_server.url());
    auto registry = std::make_unique<LockRegistry>(QUrl(u"memory:back"_s));
    DistributedLock lock(registry.get(), u"a"_s);
    registry.reset();
    QVERIFY(!lock.registry());
    lock.setRegistry(nullptr);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.registry(), LockRegistry::instance());
    QVERIFY(m_server.exists("lock:a"));
}

void tst_LockRegistry::changeOfRegistry()
{
    LockRegistry memory(QUrl(u"memory:change"_s));
    StillRegistry redis(m_server.url()); // a single attempt would end after 5 s
    DistributedLock lock(&memory, u"a"_s);
    QVERIFY(acquireNow(&lock));
    QSignalSpy errors(&lock, &DistributedLock::errorOccurred);
    lock.setRegistry(&redis);
    QCOMPARE(lock.registry(), &memory);
    QCOMPARE(errors.size(), 1);
    QCOMPARE(lock.error(), DistributedLock::OptionsError);
    QVERIFY(releaseNow(&lock));

    // The first one was ready, the second one is not yet: a single attempt waits for it.
    lock.setRegistry(&redis);
    QCOMPARE(lock.registry(), &redis);
    const auto result = awaited(lock.tryAcquireAsync());
    QVERIFY2(result, qPrintable(result.errorString));
    QVERIFY(m_server.exists("lock:a"));
    QVERIFY(releaseNow(&lock));
    lock.setRegistry(&memory);
    QVERIFY(acquireNow(&lock));
}

void tst_LockRegistry::changeOfRegistryKeepsNoRoute()
{
    LockRegistry one(QUrl(u"memory:one"_s));
    LockRegistry two(QUrl(u"memory:two"_s));
    auto lock = std::make_unique<DistributedLock>(&one, u"a"_s);
    QVERIFY(acquireNow(lock.get()));
    lock->release();
    QVERIFY(eventually([&] { return lock->state() == DistributedLock::Unlocked; }));
    lock->setRegistry(&two);
    lock.reset();
    QDistLock::EngineError error;
    QDistLock::LockEngine *const engine = LockRegistryPrivate::get(&one)->engine(&error);
    for (quint64 sequence = 0; sequence < 5; ++sequence)
        Q_EMIT engine->noticed(QDistLock::LockEngine::ForcedRelease, sequence, 0ms); // late, or forged
}

void tst_LockRegistry::changeOfRegistryKeepsTheRoutesOfOthers()
{
    LockRegistry one(QUrl(u"memory:one"_s));
    StillRegistry two(QUrl(u"memory:two"_s)); // the waiter does not poll
    DistributedLock moved(&one, u"a"_s);
    DistributedLock holder(&two, u"b"_s);
    DistributedLock waiter(&two, u"b"_s);
    for (int i = 0; i < 2; ++i) { // the second token here and that of the waiter have the same sequence number
        QVERIFY(acquireNow(&moved));
        QVERIFY(releaseNow(&moved));
    }
    QVERIFY(acquireNow(&holder));
    QVERIFY(joinQueue(&waiter));
    moved.setRegistry(&two);
    QVERIFY(acquireNow(&moved));
    holder.release();
    QVERIFY(eventually([&] { return waiter.isHeld(); })); // it was notified
}

bool tst_LockRegistry::holdInAThread(milliseconds lease)
{
    bool held = false;
    const std::unique_ptr<QThread> thread(QThread::create([&] {
        DistributedLock *const lock = LockRegistry::instance(m_server.url())->obtain(u"a"_s);
        lock->setOptions(options(lease));
        held = acquireNow(lock);
    }));
    thread->start();
    return thread->wait(60'000) && held;
}

void tst_LockRegistry::threadEndsWhileHolding()
{
    const auto openFiles = [] { return QDir(u"/proc/self/fd"_s).entryList(QDir::Files | QDir::System).size(); };
    const auto before = openFiles();
    for (int i = 0; i < 5; ++i) {
        QVERIFY(holdInAThread(1h));
        QVERIFY(eventually([&] { return !m_server.exists("lock:a"); }));
        QCOMPARE(openFiles(), before);
    }
}

void tst_LockRegistry::threadsEndWaitsForTheServer()
{
    Support::leavesRoomFor(200ms);
    for (int i = 0; i < 5; ++i) {
        QVERIFY(holdInAThread(30s));
        QVERIFY(!m_server.exists("lock:a")); // the thread's end waited until the server had read it
    }
}

void tst_LockRegistry::applicationQuits()
{
    // In a separate process: this file's program, see main().
    QFETCH(bool, memory);
    const int clients = m_server.connectedClients(); // of registries of this process
    QProcess process;
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QCoreApplication::applicationFilePath(),
                  {u"--quit"_s, memory ? u"memory:quit"_s : m_server.url().toString()});
    QVERIFY(process.waitForFinished(60'000));
    const QByteArray output = process.readAll();
    QVERIFY2(process.exitStatus() == QProcess::NormalExit && process.exitCode() == 0, output.constData());
    QCOMPARE(output.trimmed(), QByteArray("held in 2 threads"));
    // Given back on the way out: their leases are long.
    QVERIFY(eventually([&] { return m_server.keys(QByteArrayLiteral("lock:*")).isEmpty(); }));
    QVERIFY(eventually([&] { return m_server.connectedClients() == clients; }));
}

namespace {

/// Holds a lock in the main thread and one in a worker, through instance(), and quits.
int quitWhileHolding(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    LockRegistry::setDefaultServer(QUrl(QString::fromLocal8Bit(argv[2])));
    std::atomic<int> holds{0};
    const auto hold = [&holds](DistributedLock *lock) {
        QObject::connect(lock, &DistributedLock::acquired, lock, [&holds] { ++holds; });
        lock->setLease(1h);
        lock->acquire();
    };
    QThread thread;
    QObject worker;
    worker.moveToThread(&thread);
    thread.start();
    QMetaObject::invokeMethod(&worker, [&] { hold(LockRegistry::instance()->obtain(u"worker"_s)); });
    static DistributedLock outlivesAll(u"main"_s);
    hold(&outlivesAll);
    hold(LockRegistry::instance()->obtain(u"main2"_s));
    const bool held = eventually([&] { return holds == 3; });
    thread.quit();
    thread.wait();
    if (!held)
        return 1;
    printf("held in 2 threads\n");
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 3 && qstrcmp(argv[1], "--quit") == 0)
        return quitWhileHolding(argc, argv);
    QCoreApplication application(argc, argv);
    return Support::runTests<tst_LockRegistry>();
}

#include "tst_lockregistry.moc"
