// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/clusterslot.h"
#include "support/fakesentinel.h"
#include "support/faultproxy.h"
#include "support/locktest.h"
#include "support/rediscluster.h"
#include "support/redisserver.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qelapsedtimer.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace QDistLock;

/// An outage of the server is reported at once, and only once (promise 9).
class tst_Outages : public RedisLockTest
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY(m_server.start()); }
    void cleanup() { m_server.command({"FLUSHALL"}); }

    void reportedWhileAnAcquireWaits();
    TIMING void reportedAtOnce();
    void reportedOnceForManyLocks();
    void reportedWhileHeld();
    void stoppedServer_data() { Support::addRows<bool>("waiting", {{"held", false}, {"waiting", true}}); }
    void stoppedServer();
    void acquireThatFailsAfterwards();
    void flappingServer_data() { Support::addRows<bool>("waiting", {{"held", false}, {"waiting", true}}); }
    TIMING void flappingServer();
    void releasedInAnOutage();
    void acquiredAgainInAnOutage();
    void waitsAgainAfterAnOutage();
    void eachCauseIsReported_data();
    void eachCauseIsReported();
    void eachMasterOfACluster();
    void silentMasterIsReplaced();
    void waitersOfASilentMaster();
    void killedMasterIsReplaced();
    void errorReplyToManyLocks_data();
    void errorReplyToManyLocks();
    void nodeWithoutItsCluster();
    void errorOfOneLock();
    void acquireSoonAfterAnOutage();
};

namespace {

/// Locks that one master of \a cluster keeps, each in another slot.
std::vector<std::unique_ptr<DistributedLock>> locksAt(Support::RedisCluster *cluster, int master,
                                                      LockRegistry *registry, size_t count, const LockOptions &options)
{
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; locks.size() < count; ++i) {
        const QString name = u"job%1"_s.arg(i);
        if (cluster->ownerOf(Support::clusterSlot("lock:" + name.toUtf8())) != master)
            continue;
        locks.push_back(std::make_unique<TestLock>(registry, name, options));
    }
    return locks;
}

} // namespace

void tst_Outages::reportedWhileAnAcquireWaits()
{
    LogCapture log;
    Support::FaultProxy proxy(m_server);
    const QString port = QString::number(proxy.port());
    proxy.setRefusing(true);
    LockRegistry registry(proxy.url());
    QSignalSpy registryErrors(&registry, &LockRegistry::errorOccurred);
    TestLock lock(&registry, u"job"_s, options(30s, LockOptions::Forever));
    QSignalSpy changes(&lock, &DistributedLock::errorChanged);
    for (int outage = 1; outage <= 2; ++outage) {
        if (outage == 1)
            lock.acquire();
        QVERIFY(eventually([&] { return lock.spies.errors.size() == outage; }));
        QCOMPARE(lock.error(), DistributedLock::ConnectionError);
        QVERIFY2(lock.errorString().contains(port), qPrintable(lock.errorString()));
        QVERIFY2(lock.errorString().contains(QLatin1String("job")), qPrintable(lock.errorString()));
        QVERIFY(!changes.isEmpty());
        // After many attempts it is still the same outage. (Busy, the machine makes fewer, and a fault may be missed.)
        const QString text = lock.errorString();
        QVERIFY(!eventually([&] { return lock.spies.errors.size() > outage; }, 1s));
        QCOMPARE(lock.error(), DistributedLock::ConnectionError);
        QCOMPARE(registryErrors.size(), outage);
        QCOMPARE(log.count({port, u"refused"_s}) + log.count({port, u"closed"_s}), outage);
        if (outage == 1)
            QCOMPARE(lock.state(), DistributedLock::Acquiring);

        proxy.setRefusing(false);
        QVERIFY(eventually([&] { return lock.isHeld(); }));
        QVERIFY(eventually([&] { return log.count({port, u"can be used again"_s}) == outage; }));
        QCOMPARE(lock.spies.errors.size(), outage);
        QCOMPARE(lock.error(), DistributedLock::NoError);
        QCOMPARE(lock.errorString(), QString());

        if (outage == 1) {
            // The next outage begins while the lock waits in the queue.
            QVERIFY(releaseNow(&lock));
            m_server.command({"SET", "lock:job", "foreign"});
            QVERIFY(joinQueue(&lock));
            proxy.setRefusing(true);
            proxy.resetAll();
            QVERIFY(eventually([&] { return lock.spies.errors.size() == 2; }));
            m_server.command({"DEL", "lock:job"});
        }
    }
}

void tst_Outages::reportedAtOnce()
{
    Support::leavesRoomFor(1s);
    Support::FaultProxy proxy(m_server);
    proxy.setRefusing(true);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(30s, LockOptions::Forever));
    QElapsedTimer timer;
    timer.start();
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    QVERIFY2(timer.elapsed() < 2000, qPrintable(QString::number(timer.elapsed())));
    proxy.setRefusing(false);
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    proxy.setRefusing(true);
    timer.start();
    proxy.resetAll();
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::ConnectionError; }));
    QVERIFY2(timer.elapsed() < 1000, qPrintable(QString::number(timer.elapsed())));
}

void tst_Outages::reportedOnceForManyLocks()
{
    LogCapture log;
    Support::FaultProxy proxy(m_server);
    const QString port = QString::number(proxy.port());
    proxy.setRefusing(true);
    LockRegistry registry(proxy.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int errors = 0;
    for (int i = 0; i < 100; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, QString::number(i), options(30s, LockOptions::Forever)));
        connect(locks.back().get(), &DistributedLock::errorOccurred, this, [&] { ++errors; });
        locks.back()->acquire();
    }
    QVERIFY(eventually([&] { return errors == 100; }));
    QVERIFY(!eventually([&] { return errors > 100; }, 500ms));
    QCOMPARE(log.count({port}), 1);
}

void tst_Outages::reportedWhileHeld()
{
    LogCapture log;
    Support::FaultProxy proxy(m_server);
    const QString port = QString::number(proxy.port());
    StillRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; })); // no renewal is due
    QCOMPARE(lock.error(), DistributedLock::ConnectionError);
    QVERIFY(lock.isHeld());
    QVERIFY(!eventually([&] { return lock.spies.errors.size() > 1; }, 500ms));
    proxy.setRefusing(false);
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::NoError);
    QVERIFY(eventually([&] { return log.count({port, u"can be used again"_s}) == 1; }));
    QCOMPARE(log.count({port}), 2);
    QVERIFY(lock.spies.lost.isEmpty());

    // The server stays down: the loss names the reason.
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::ConnectionError; }));
    registry.pass(LongLease);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QVERIFY2(lock.errorString().contains(port), qPrintable(lock.errorString()));
    QVERIFY2(lock.errorString().contains(QLatin1String("lost")), qPrintable(lock.errorString()));
    QCOMPARE(lock.error(), DistributedLock::ConnectionError);
}

void tst_Outages::stoppedServer()
{
    QFETCH(bool, waiting);
    Support::Started<Support::RedisServer> server;
    StillRegistry registry(server.url());
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    if (waiting) {
        server.command({"SET", "lock:job", "foreign", "PX", "600000"});
        QVERIFY(joinQueue(&lock));
    } else {
        QVERIFY(acquireNow(&lock));
    }
    server.pause();
    registry.pass(LongLease / 3); // a renewal, or a poll
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::ConnectionError);
    server.resume();
    if (waiting) {
        QVERIFY(eventually([&] { return lock.error() == DistributedLock::NoError; }));
        QCOMPARE(lock.state(), DistributedLock::Acquiring);
    }
    QCOMPARE(lock.spies.errors.size(), 1);
}

void tst_Outages::acquireThatFailsAfterwards()
{
    // The outage was reported during the wait; the time-out does not report it again.
    Support::FaultProxy proxy(m_server);
    proxy.setRefusing(true);
    StillRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(LongLease, 700ms));
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    registry.pass(700ms);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::ConnectionError);
    QCOMPARE(lock.spies.errors.size(), 1);
}

void tst_Outages::flappingServer()
{
    // Two outages with less than a second between them count as one, for the locks, too.
    Support::leavesRoomFor(500ms);
    QFETCH(bool, waiting);
    LogCapture log;
    Support::FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    QSignalSpy registryErrors(&registry, &LockRegistry::errorOccurred);
    TestLock lock(&registry, u"job"_s, options(30s, LockOptions::Forever));
    if (waiting) {
        m_server.command({"SET", "lock:job", "foreign", "PX", "600000"});
        QVERIFY(joinQueue(&lock));
    } else {
        QVERIFY(acquireNow(&lock));
    }
    for (int flap = 0; flap < 2; ++flap) {
        proxy.setRefusing(true);
        proxy.resetAll();
        QVERIFY(eventually([&] { return lock.error() == DistributedLock::ConnectionError; }));
        proxy.setRefusing(false);
        QVERIFY(eventually([&] { return lock.error() == DistributedLock::NoError; }));
    }
    QVERIFY(eventually([&] { return log.count({u"can be used again"_s}) == 1; }));
    QCOMPARE(registryErrors.size(), 1);
    QCOMPARE(lock.spies.errors.size(), 1);
    // The next outage is reported again.
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 2; }));
    QCOMPARE(registryErrors.size(), 2);
    QVERIFY(lock.spies.lost.isEmpty());
}

void tst_Outages::releasedInAnOutage()
{
    Support::FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock));
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    lock.release();
    QVERIFY(!eventually([&] { return lock.spies.errors.size() > 1; }, 500ms));
    QCOMPARE(lock.error(), DistributedLock::ConnectionError);
    proxy.setRefusing(false);
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::NoError);
}

void tst_Outages::acquiredAgainInAnOutage()
{
    Support::FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(LongLease, 2s));
    QVERIFY(acquireNow(&lock));
    connect(&lock, &DistributedLock::lost, &lock, &DistributedLock::acquire);
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    registry.pass(LongLease);
    // The second acquire learns of the outage by the next attempt to connect.
    QVERIFY(eventually([&] {
        return lock.state() == DistributedLock::Acquiring && lock.errorString().contains(QLatin1String("refused"))
                && !lock.errorString().contains(QLatin1String("it was lost"));
    }));
    registry.pass(2s);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.lost.size(), 1);
    QCOMPARE(lock.spies.failure(), DistributedLock::ConnectionError);
    QCOMPARE(lock.spies.errors.size(), 2); // once for the hold, and once for the acquire
}

void tst_Outages::waitsAgainAfterAnOutage()
{
    // An acquire failed because there was no server. Now there is one, and the next acquire waits in the queue.
    Support::FaultProxy proxy(m_server);
    proxy.setRefusing(true);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(30s, LockOptions::Forever));
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.error(), DistributedLock::ConnectionError);
    proxy.setRefusing(false);
    m_server.command({"SET", "lock:job", "foreign", "PX", "600000"});
    QVERIFY(joinQueue(&lock));
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::NoError; }));
    QCOMPARE(lock.errorString(), QString());
    // A busy lock is no outage.
    lock.cancel();
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::CancelledError; }));
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::BusyError; }));
    QVERIFY(joinQueue(&lock));
    QVERIFY(!eventually([&] { return lock.error() != DistributedLock::BusyError; }, 200ms));
}

void tst_Outages::eachCauseIsReported_data()
{
    Support::addColumns<bool, bool>("sentinel", "waiting");
    QTest::newRow("one server, held") << false << false;
    QTest::newRow("one server, waiting") << false << true;
    QTest::newRow("Sentinel, held") << true << false;
    QTest::newRow("Sentinel, waiting") << true << true;
}

void tst_Outages::eachCauseIsReported()
{
    QFETCH(bool, sentinel);
    QFETCH(bool, waiting);
    Support::Started<Support::RedisServer> server;
    server.command({"ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all"});
    Support::FaultProxy proxy(server);
    Support::FakeSentinel::View view;
    view.port = proxy.port();
    const Support::FakeSentinel fake(view);
    LogCapture log;
    StillRegistry registry(sentinel ? QUrl(u"redis+sentinel://app:first@127.0.0.1:%1/mymaster"_s.arg(fake.port()))
                                    : QUrl(u"redis://app:first@127.0.0.1:%1"_s.arg(proxy.port())));
    QSignalSpy registryErrors(&registry, &LockRegistry::errorOccurred);
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    if (waiting) {
        server.command({"SET", "lock:job", "foreign", "PX", "600000"});
        QVERIFY(joinQueue(&lock));
    } else {
        QVERIFY(acquireNow(&lock));
    }
    const auto hears = [&](DistributedLock::Error error) {
        return registry.passUntil([&] { return lock.error() == error; }, 5s);
    };
    QList<DistributedLock::Error> causes;
    const auto told = [&] {
        QList<DistributedLock::Error> errors;
        for (const QList<QVariant> &error : std::as_const(lock.spies.errors))
            errors.append(error.at(0).value<DistributedLock::Error>());
        return errors;
    };

    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(hears(DistributedLock::ConnectionError));
    causes.append(DistributedLock::ConnectionError);
    QCOMPARE(told(), causes);

    // It comes back with another password.
    server.command({"ACL", "SETUSER", "app", "resetpass", ">second"});
    proxy.setRefusing(false);
    QVERIFY(hears(DistributedLock::AuthenticationError));
    causes.append(DistributedLock::AuthenticationError);
    QCOMPARE(told(), causes);
    QVERIFY2(lock.errorString().contains(QLatin1String("job")), qPrintable(lock.errorString()));
    QCOMPARE(registryErrors.size(), 2);

    // The first cause again, in the same outage: `error` changes, but errorOccurred() is not emitted again.
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(hears(DistributedLock::ConnectionError));
    QCOMPARE(told(), causes);
    QCOMPARE(registryErrors.size(), 2);

    // Logged in, it refuses to write.
    server.command({"ACL", "SETUSER", "app", ">first"});
    server.command({"CONFIG", "SET", "min-replicas-to-write", "1"});
    proxy.setRefusing(false);
    QVERIFY(hears(DistributedLock::ServerError));
    causes.append(DistributedLock::ServerError);
    QCOMPARE(told(), causes);
    QCOMPARE(log.count({u"NOREPLICAS"_s}), 1);

    // Another reason with the same code: only the text changes.
    proxy.answer("-MISCONF the disk is full\r\n", "EVALSHA", 1, 1000);
    QVERIFY2(registry.passUntil([&] { return lock.errorString().contains(QLatin1String("MISCONF")); }, 5s),
             qPrintable(lock.errorString()));
    QCOMPARE(told(), causes);
    proxy.heal();

    server.command({"CONFIG", "SET", "min-replicas-to-write", "0"});
    QVERIFY(hears(DistributedLock::NoError));
    QCOMPARE(told(), causes);
    QVERIFY(eventually([&] { return log.count({u"can be used again"_s}) == 1; }));

    // In the next outage, each cause is reported again.
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(hears(DistributedLock::ConnectionError));
    causes.append(DistributedLock::ConnectionError);
    QCOMPARE(told(), causes);
    QCOMPARE(registryErrors.size(), 3);
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(lock.spies.failed.isEmpty());
}

void tst_Outages::eachMasterOfACluster()
{
    // One master is away for good. Outages of the others are still reported.
    auto clusterOptions = Support::RedisCluster::Options::mastersOnly();
    clusterOptions.needsAllSlots = false;
    clusterOptions.nodeTimeout = 10min; // the masters never notice it
    Support::Started<Support::RedisCluster> cluster(clusterOptions);
    LogCapture log;
    StillRegistry registry(cluster.url());
    QSignalSpy registryErrors(&registry, &LockRegistry::errorOccurred);
    // When an attempt to connect fails, the registry shows the error of that one of them which has the lowest port.
    int gone = cluster.ownerOf(0);
    int flapping = cluster.ownerOf(16383);
    if (cluster.node(gone).port() < cluster.node(flapping).port())
        std::swap(gone, flapping);
    const QString gonePort = QString::number(cluster.node(gone).port());
    const QString port = QString::number(cluster.node(flapping).port());
    TestLock lost(&registry, cluster.nameAt(gone), options(LongLease));
    TestLock lock(&registry, cluster.nameAt(flapping), options(LongLease));
    for (DistributedLock *each : {&lost, &lock})
        QVERIFY(acquireNow(each));
    // A master that was started says CLUSTERDOWN for a moment, which is another cause.
    const auto outagesTold = [&lock] {
        return std::count_if(lock.spies.errors.begin(), lock.spies.errors.end(), [](const QList<QVariant> &error) {
            return error.at(0).value<DistributedLock::Error>() == DistributedLock::ConnectionError;
        });
    };
    cluster.node(gone).kill();
    QVERIFY(eventually([&] { return lost.spies.errors.size() == 1; }));
    QCOMPARE(registryErrors.size(), 1);
    QCOMPARE(log.count({gonePort}), 1);
    for (int outage = 1; outage <= 2; ++outage) {
        QCOMPARE(cluster.node(flapping).command({"SAVE"}).toByteArray(), QByteArray("OK"));
        cluster.node(flapping).kill();
        QVERIFY(eventually([&] { return lock.error() == DistributedLock::ConnectionError; }));
        QCOMPARE(int(outagesTold()), outage);
        QVERIFY2(lock.errorString().contains(port), qPrintable(lock.errorString()));
        QCOMPARE(registryErrors.size(), 1 + outage);
        QVERIFY2(registry.errorString().contains(port), qPrintable(registry.errorString()));
        QVERIFY(cluster.node(flapping).start());
        // The registry's time, which passes for a minute, must not be over before.
        QVERIFY(eventually([&] {
            return cluster.node(flapping).command({"CLUSTER", "INFO"}).toByteArray().contains("cluster_state:ok");
        }));
        QVERIFY(registry.passUntil([&] { return lock.error() == DistributedLock::NoError; }));
        QVERIFY(eventually([&] { return log.count({u"that 127.0.0.1:%1 kept"_s.arg(port)}) == outage; }));
        QCOMPARE(log.count({u"redis://127.0.0.1:%1/0: "_s.arg(port)}), outage); // its beginning
    }
    // The first one is still the same outage.
    QCOMPARE(lost.spies.errors.size(), 1);
    QCOMPARE(log.count({u"redis://127.0.0.1:%1/0: "_s.arg(gonePort)}), 1);
    QVERIFY2(registry.errorString().contains(gonePort), qPrintable(registry.errorString()));
}

/// Renewals that a silent master has not answered are sent to its successor, and nobody hears of an error.
void tst_Outages::silentMasterIsReplaced()
{
    Support::Started<Support::RedisCluster> cluster;
    const int master = cluster.ownerOf(0);
    const int replica = cluster.replicaOf(master);
    LogCapture log;
    StillRegistry registry(cluster.url());
    int errors = 0;
    int renewals = 0;
    const auto locks = locksAt(&cluster, master, &registry, 50, options(LongLease));
    for (const auto &lock : locks) {
        connect(lock.get(), &DistributedLock::errorOccurred, this, [&] { ++errors; });
        connect(lock.get(), &DistributedLock::renewed, this, [&] { ++renewals; });
        QVERIFY(acquireNow(lock.get()));
    }
    QCOMPARE(cluster.node(master).command({"WAIT", "1", "30000"}, 40s), QVariant(1LL));
    cluster.node(master).pause();
    QVERIFY(cluster.failOver(replica, "TAKEOVER"));
    registry.pass(LongLease / 3); // the renewals go to the master that is silent
    QVERIFY(eventually([&] { return renewals >= 50; }));
    QCOMPARE(errors, 0);
    QCOMPARE(log.messages(QtWarningMsg), QStringList());
}

/// The same for acquires; one that makes a single attempt makes it there.
void tst_Outages::waitersOfASilentMaster()
{
    Support::Started<Support::RedisCluster> cluster;
    const int master = cluster.ownerOf(0);
    const int replica = cluster.replicaOf(master);
    LogCapture log;
    StillRegistry registry(cluster.url());
    int errors = 0;
    const auto locks = locksAt(&cluster, master, &registry, 21, options(LongLease));
    for (const auto &lock : locks)
        connect(lock.get(), &DistributedLock::errorOccurred, this, [&] { ++errors; });
    QVERIFY(acquireNow(locks.front().get())); // so that the registry is connected
    QCOMPARE(cluster.node(master).command({"WAIT", "1", "30000"}, 40s), QVariant(1LL));
    cluster.node(master).pause();
    QVERIFY(cluster.failOver(replica, "TAKEOVER"));
    locks.front()->release();
    for (size_t i = 1; i < locks.size(); ++i)
        i % 2 ? locks[i]->acquire() : locks[i]->tryAcquire();
    QVERIFY(eventually([&] {
        return locks.front()->state() == DistributedLock::Unlocked
                && std::all_of(locks.begin() + 1, locks.end(), [](const auto &lock) { return lock->isHeld(); });
    }));
    QCOMPARE(errors, 0);
    QCOMPARE(log.messages(QtWarningMsg), QStringList());
}

/// Its outage ends, but it has not come back.
void tst_Outages::killedMasterIsReplaced()
{
    Support::Started<Support::RedisCluster> cluster;
    const int master = cluster.ownerOf(0);
    const int replica = cluster.replicaOf(master);
    const QString port = QString::number(cluster.node(master).port());
    LogCapture log;
    StillRegistry registry(cluster.url());
    const auto locks = locksAt(&cluster, master, &registry, 10, options(LongLease));
    for (const auto &lock : locks)
        QVERIFY(acquireNow(lock.get()));
    QCOMPARE(cluster.node(master).command({"WAIT", "1", "30000"}, 40s), QVariant(1LL));
    cluster.node(master).kill();
    QVERIFY(eventually([&] { return log.count({port}) == 1; }));
    QVERIFY(eventually([&] { return cluster.failOver(replica, "TAKEOVER"); }));
    QVERIFY(registry.passUntil([&] { return log.messages(QtWarningMsg).size() > 1; }));
    const QString end = log.messages(QtWarningMsg).last();
    QVERIFY2(end.contains(port) && end.contains(u"no longer a master"_s), qPrintable(end));
    QCOMPARE(log.count({u"can be used again"_s}), 0);
    QCOMPARE(log.messages(QtWarningMsg).size(), 2);
}

void tst_Outages::errorReplyToManyLocks_data()
{
    Support::addColumns<QByteArray, bool>("reply", "waiting");
    for (const char *reply : {"-BUSY Redis is busy running a script. You can only call SCRIPT KILL.\r\n",
                              "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
                              "-MISCONF errors writing to disk\r\n", "closed"}) {
        const QByteArray name = QByteArray(reply).split(' ').first();
        QTest::newRow((name + ", held").constData()) << QByteArray(reply) << false;
        QTest::newRow((name + ", waiting").constData()) << QByteArray(reply) << true;
    }
}

/// The server refuses many locks for one reason. Each lock emits errorOccurred(); the log has one line.
void tst_Outages::errorReplyToManyLocks()
{
    QFETCH(QByteArray, reply);
    QFETCH(bool, waiting);
    constexpr int Count = 20;
    Support::FaultProxy proxy(m_server);
    LogCapture log;
    StillRegistry registry(proxy.url());
    QSignalSpy registryErrors(&registry, &LockRegistry::errorOccurred);
    TestLock first(&registry, u"first"_s, options(LongLease));
    QVERIFY(acquireNow(&first)); // so that the registry is connected
    QVERIFY(releaseNow(&first));
    int errors = 0;
    int ended = 0;
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < Count; ++i) {
        locks.push_back(
                std::make_unique<TestLock>(&registry, QString::number(i), options(LongLease, LockOptions::Forever)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::errorOccurred, this, [&] { ++errors; });
        if (!waiting)
            QVERIFY(acquireNow(lock));
        connect(lock, waiting ? &DistributedLock::acquired : &DistributedLock::renewed, this, [&] { ++ended; });
    }
    const auto fail = [&] {
        if (reply == "closed")
            proxy.cutBefore("EVALSHA");
        else
            proxy.answer(reply, "EVALSHA", 1, 3);
    };
    fail();
    if (waiting) {
        for (const auto &lock : locks)
            lock->acquire();
    } else {
        registry.pass(LongLease / 3);
    }
    QVERIFY(eventually([&] { return errors == Count; }));
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    QVERIFY2(log.text().contains(QString::number(proxy.port())), qPrintable(log.text()));
    if (reply.startsWith("-BUSY")) { // a new connection hears the same
        proxy.answer(reply, "CLIENT", 1, 1000);
        proxy.resetAll();
        QVERIFY(eventually([&] { return registryErrors.size() == 1; })); // not that the idle connection ended
        QCOMPARE(log.count({u"BUSY"_s}), 1);
        proxy.heal();
    }
    QVERIFY(registry.passUntil([&] { return ended >= Count; }, LongLease / 4));
    QVERIFY(eventually([&] { return log.count({u"can be used again"_s}) == 1; }));
    QCOMPARE(log.messages(QtWarningMsg).size(), 2);
}

/// CLUSTERDOWN, from one of the masters.
void tst_Outages::nodeWithoutItsCluster()
{
    constexpr int Count = 50;
    Support::Started<Support::RedisCluster> cluster(Support::RedisCluster::Options::mastersOnly());
    const int master = cluster.ownerOf(0);
    const QString port = QString::number(cluster.node(master).port());
    LogCapture log;
    StillRegistry registry(cluster.url());
    int errors = 0;
    int renewals = 0;
    const auto locks = locksAt(&cluster, master, &registry, Count, options(LongLease));
    for (const auto &lock : locks) {
        connect(lock.get(), &DistributedLock::errorOccurred, this, [&] { ++errors; });
        connect(lock.get(), &DistributedLock::renewed, this, [&] { ++renewals; });
        QVERIFY(acquireNow(lock.get()));
    }
    // A node that lacks the owner of a slot sees the cluster as down. No lock is in this one.
    const auto isDown = [&] {
        return cluster.node(master).command({"CLUSTER", "INFO"}).toByteArray().contains("cluster_state:fail");
    };
    QByteArray slot;
    for (int i = 0; slot.isEmpty(); ++i) {
        if (cluster.ownerOf(i) == master && std::none_of(locks.begin(), locks.end(), [i](const auto &lock) {
                return Support::clusterSlot("lock:" + lock->name().toUtf8()) == i;
            })) {
            slot = QByteArray::number(i);
        }
    }
    QCOMPARE(cluster.node(master).command({"CLUSTER", "DELSLOTS", slot}).toByteArray(), QByteArray("OK"));
    QVERIFY(eventually(isDown));
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return errors == Count; }));
    QCOMPARE(log.count({u"CLUSTERDOWN"_s, port}), 1);
    QCOMPARE(cluster.node(master).command({"CLUSTER", "ADDSLOTS", slot}).toByteArray(), QByteArray("OK"));
    QVERIFY(eventually([&] { return !isDown(); }));
    QVERIFY(registry.passUntil([&] { return renewals >= Count; }, LongLease / 4));
    QVERIFY(eventually([&] { return log.count({u"can be used again"_s, port}) == 1; }));
    QCOMPARE(errors, Count);
    QCOMPARE(log.messages(QtWarningMsg).size(), 2);
}

/// What concerns one lock is said of that lock.
void tst_Outages::errorOfOneLock()
{
    Support::FaultProxy proxy(m_server);
    LogCapture log;
    StillRegistry registry(proxy.url());
    TestLock one(&registry, u"one"_s, {});
    TestLock two(&registry, u"two"_s, {});
    for (DistributedLock *lock : {&one, &two}) {
        lock->setOptions(options(LongLease));
        QVERIFY(acquireNow(lock));
    }
    // To the command for both, and to one for each.
    proxy.answer("-NOPERM this user has no permissions to access one of the keys used as arguments\r\n", "EVALSHA", 1,
                 3);
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return one.spies.errors.size() == 1 && two.spies.errors.size() == 1; }));
    QCOMPARE(one.error(), DistributedLock::PermissionError);
    QCOMPARE(log.count({u"NOPERM"_s, u"\"one\""_s}), 1);
    QCOMPARE(log.count({u"NOPERM"_s, u"\"two\""_s}), 1);
}

/// The server came back for less than a second, so the outage lasts. The next acquire hears of it all the same.
void tst_Outages::acquireSoonAfterAnOutage()
{
    Support::FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    QVERIFY(acquireNow(&lock));
    proxy.setRefusing(true);
    proxy.resetAll();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    proxy.setRefusing(false);
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::NoError; }));
    QVERIFY(releaseNow(&lock));
    proxy.setRefusing(true);
    proxy.resetAll();
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 2; }));
    QCOMPARE(lock.error(), DistributedLock::ConnectionError);
    // It hears of it once.
    proxy.setRefusing(false);
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    QCOMPARE(lock.spies.errors.size(), 2);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Outages)
#include "tst_outages.moc"
