// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks kept by a Redis Cluster: slots that move, masters that are replaced, clusters that cannot be used.

#include "support/locktest.h"

#include "engine/redis/clusternode.h"
#include "support/aclrules.h"
#include "support/certificates.h"
#include "support/clusterslot.h"
#include "support/eventually.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/posix.h"
#include "support/rediscluster.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/shiftedclock.h"
#include "support/testkinds.h"

#include <QDistLock/LockMonitorModel>

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qfile.h>
#include <QtCore/qscopeguard.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;
using QDistLock::LockMonitorModel;

namespace {

constexpr milliseconds Patience = 60s;
/// Longer than any fail-over.
constexpr milliseconds Lease = 60s;
constexpr milliseconds BeforeExpiry = 20s; ///< for what must not wait for the end of a lease
/// Renewed every 3 s, and longer than a busy machine stops this process.
constexpr milliseconds Renewed = 9s;

/// From the promotion of a replica to the renewal of all locks of its master: usually less than 0.5 s.
constexpr milliseconds RenewedAfterPromotion = 3s;

QByteArray keyOf(const DistributedLock &lock)
{
    return "lock:" + lock.name().toUtf8();
}

/// \a times are sorted first.
double msOf(QList<qint64> *times, int percent)
{
    std::sort(times->begin(), times->end());
    return double(times->at((times->size() - 1) * percent / 100)) / 1e6;
}

QByteArray contentOf(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

/// Runs no event loop, so that a client learns nothing meanwhile.
bool waitUntil(const std::function<bool()> &condition)
{
    const QDeadlineTimer deadline(60s);
    while (!condition() && !deadline.hasExpired())
        Posix::pollPause();
    return condition();
}

/// At which clients reach the nodes of \a cluster from now on; empty if that cannot be. Runs no event loop.
std::vector<std::unique_ptr<FaultProxy>> addressesOf(RedisCluster *cluster)
{
    std::vector<std::unique_ptr<FaultProxy>> addresses;
    for (int i = 0; i < cluster->nodeCount(); ++i) {
        addresses.push_back(std::make_unique<FaultProxy>(cluster->node(i)));
        cluster->node(i).command(
                {"CONFIG", "SET", "cluster-announce-port", QByteArray::number(addresses.back()->port())});
    }
    for (int i = 0; i < cluster->nodeCount(); ++i) {
        const auto isKnown = [&] {
            const QByteArray nodes = cluster->node(i).command({"CLUSTER", "NODES"}).toByteArray();
            return all(addresses, [&nodes](const auto &address) {
                return nodes.contains(':' + QByteArray::number(address->port()) + '@');
            });
        };
        if (!waitUntil(isKnown))
            return {};
    }
    return addresses;
}

/// Adds a node, which replaces the master \a former: as its replica, which is promoted, whereupon the former one is
/// forgotten, and stopped; or reset, as redis-cli --cluster del-node does. The index of the new node, or -1. Runs no
/// event loop, so that a client learns nothing meanwhile.
int replaceMaster(RedisCluster *cluster, int former, bool isStopped)
{
    const auto isOk = [cluster](int node, const QList<QByteArray> &command) {
        return cluster->node(node).command(command).toByteArray() == "OK";
    };
    const int added = cluster->addMaster();
    if (added < 0 || !isOk(added, {"CLUSTER", "REPLICATE", cluster->id(former)}))
        return -1;
    for (int node = 0; node < cluster->nodeCount(); ++node) { // all masters vote
        const auto isKnown = [&] {
            return cluster->node(node).command({"CLUSTER", "REPLICAS", cluster->id(former)}).toList().size() == 1;
        };
        if (!cluster->isRemoved(node) && !waitUntil(isKnown))
            return -1;
    }
    if (!cluster->waitUntilHealthy() || !cluster->failOver(added)
        || !waitUntil([&] { return cluster->replicaOf(added) == former && cluster->isHealthy(); }))
        return -1;
    const bool isRemoved = isStopped ? cluster->removeNode(former)
                                     : cluster->forgetNode(former) && isOk(former, {"CLUSTER", "RESET", "SOFT"});
    return isRemoved && cluster->waitUntilHealthy() ? added : -1;
}

/// For the user lockapp: the rule of docs/acl.txt, and the rights that docs/servers.md adds for a cluster.
QByteArray leastRights()
{
    const QByteArray page = contentOf(QStringLiteral(SERVERS_PAGE)).simplified();
    const qsizetype first = page.indexOf("`+cluster|slots") + 1;
    const QByteArray added = page.sliced(first, page.indexOf('`', first) - first);
    return "lockapp " + aclRule("lockapp", "SECRET").join(' ') + ' ' + added;
}

} // namespace

class tst_Cluster : public LockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void locksOfAllMasters();
    void nobodyListensLonger();
    void forcedAfterAHandover();
    void slotMoves();
    void slotMovesUnderWaiters();
    void manySlotsMoveUnderWaiters();
    void slotLeftMoving_data();
    void slotLeftMoving();
    void waitersWhileASlotMoves();
    void holderHasNoPlaceInTheQueue();
    void fenceFailsWhileASlotMoves();
    void seenWhileASlotMoves_data();
    void seenWhileASlotMoves();
    void targetOfAMoveIsAway();
    void destroyedWhileASlotMoves();
    void registryDestroyedWhileASlotMoves();
    void reshardingUnderLoad();
    void replicaTakesOver_data()
    {
        addRows<QByteArray>("mode",
                            {{"CLUSTER FAILOVER", QByteArray()},
                             {"TAKEOVER", QByteArray("TAKEOVER")},
                             {"killed, TAKEOVER", QByteArray("KILL")},
                             {"stopped, TAKEOVER", QByteArray("STOP")}});
    }
    void replicaTakesOver();
    void waitersAtATakeover();
    void plainChannels_data()
    {
        addRows<QByteArray>("change",
                            {{"no change", QByteArray()},
                             {"slot moves", QByteArray("MOVE")},
                             {"replica takes over", QByteArray("TAKEOVER")}});
    }
    void plainChannels();
    void masterCutOffIsReplaced();
    void oneMasterAway();
    void waitersOfTheOthersAreLeftAlone();
    void nodesJoinAndLeave();
    void mastersRedirectToEachOther_data()
    {
        addRows<bool>("isNew", {{"both serve other slots", false}, {"one serves nothing else", true}});
    }
    void mastersRedirectToEachOther();
    void oneNodeIsEnough();
    void slowConnection();
    void tls();
    void oneNodeHasAnotherPassword();
    void passwordChangesUnderHolders();
    void refusedLoginsStayRare();
    void loginRefusedWhileNobodyNeedsIt();
    void userWithLeastRights();
    void monitorUser();
    void errors_data();
    void errors();
    void twoClusters();
    void addressInAnotherCluster();
    void masterReplacedByAnotherCluster();
    void newClusterAtNewAddresses();
    void incompleteCluster();
    void clusterIsDown();
    void minReplicas();
    void slotLeavesAMasterThatIsAway_data()
    {
        addRows<bool>("comesBack", {{"it stays away", false}, {"it can be reached again in the same moment", true}});
    }
    void slotLeavesAMasterThatIsAway();
    void allAddressesChange_data()
    {
        addRows<bool>("isHeld", {{"nobody needed the cluster meanwhile", false}, {"under a held lock", true}});
    }
    void allAddressesChange();
    void masterReplacedByAnEmptyNode();
    void mostMastersReplaced_data();
    void mostMastersReplaced();
    void allMastersReplaced_data();
    void allMastersReplaced();

private:
    QUrl serverUrl() override { return m_cluster->url(); }
    /// A master other than the one with this index.
    int otherMaster(int index);
    bool finishMove(int slot, int target)
    {
        int count = 0;
        while ((count = m_cluster->moveKeys(slot, target)) > 0) {
        }
        return count == 0 && m_cluster->endMove(slot, target); // not 0: BUSYKEY, for instance
    }
    /// Commands that a node has refused because another one serves the slot.
    qint64 redirected();
    /// How often clients have asked the nodes other than \a except for their map.
    qint64 mapsAskedFor(int except);

    std::unique_ptr<RedisCluster> m_cluster;
};

void tst_Cluster::initTestCase()
{
    RedisCluster::Options options;
    options.needsAllSlots = false;
    m_cluster = std::make_unique<RedisCluster>(options);
    QVERIFY2(m_cluster->start(), qPrintable(m_cluster->errorString()));
}

void tst_Cluster::init()
{
    for (int i = 0; i < m_cluster->nodeCount(); ++i)
        m_cluster->node(i).resume();
    QVERIFY(m_cluster->waitUntilHealthy());
    m_cluster->flushAll();
}

int tst_Cluster::otherMaster(int index)
{
    const int first = m_cluster->ownerOf(0);
    return first != index ? first : m_cluster->ownerOf(16383);
}

qint64 tst_Cluster::redirected()
{
    qint64 sum = 0;
    for (int i = 0; i < m_cluster->nodeCount(); ++i) {
        if (m_cluster->isRemoved(i))
            continue;
        for (const char *code : {"errorstat_MOVED", "errorstat_ASK", "errorstat_TRYAGAIN"}) {
            const QByteArray field = m_cluster->node(i).info("errorstats", code); // count=3
            sum += field.mid(field.indexOf('=') + 1).toLongLong();
        }
    }
    return sum;
}

qint64 tst_Cluster::mapsAskedFor(int except)
{
    qint64 sum = 0;
    for (int i = 0; i < m_cluster->nodeCount(); ++i) {
        if (i != except && m_cluster->node(i).isRunning())
            sum += m_cluster->node(i).commandsProcessed("cluster|slots");
    }
    return sum;
}

void tst_Cluster::locksOfAllMasters()
{
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 200; ++i) {
        locks.push_back(std::make_unique<TestLock>(registry(), u"job%1"_s.arg(i), options(Renewed)));
        locks.back()->acquire();
    }
    QVERIFY(eventually([&] { return all(locks, [](const auto &watched) { return watched->isHeld(); }); }));
    QSet<int> masters;
    for (const auto &watched : locks) {
        const int owner = m_cluster->ownerOf(clusterSlot(keyOf(*watched)));
        masters.insert(owner);
        if (watched == locks.front())
            QVERIFY(m_cluster->node(owner).exists(keyOf(*watched)));
    }
    QCOMPARE(masters.size(), 3);
    QVERIFY(eventually(
            [&] { return all(locks, [](const auto &watched) { return watched->spies.renewed.size() >= 1; }); }));
    const auto listed = awaited(registry()->list(u"*"_s));
    QCOMPARE(listed.value.size(), 200);
    for (const auto &watched : locks) {
        QVERIFY(watched->spies.lost.isEmpty());
        watched->release();
    }
    QVERIFY(eventually(
            [&] { return all(locks, [](const auto &watched) { return watched->spies.released.size() == 1; }); }));
    QList<QByteArray> keys = m_cluster->keys();
    keys.removeIf([](const QByteArray &key) { return key.endsWith(":fence"); });
    QCOMPARE(keys, QList<QByteArray>());
    QCOMPARE(redirected(), 0);
}

void tst_Cluster::nobodyListensLonger()
{
    LockRegistry one(m_cluster->url());
    LockRegistry other(m_cluster->url());
    TestLock held(&one, u"a"_s, options(Lease));
    TestLock waiting(&other, u"a"_s, options(Lease, LockOptions::Forever));
    QVERIFY(acquireNow(&held));
    QVERIFY(joinQueue(&waiting));
    RedisServer &server = m_cluster->serverOf("lock:a");
    const auto channels = [&] { return server.command({"PUBSUB", "SHARDCHANNELS"}).toList(); };
    QCOMPARE(channels().size(), 2); // one for each client
    QVERIFY(channels().first().toByteArray().endsWith(":{lock:a}"));
    TestLock leaving(&other, u"a"_s, options(Lease, LockOptions::Forever));
    server.command({"CLIENT", "PAUSE", "300", "WRITE"});
    leaving.acquire();
    processEvents();
    leaving.cancel(); // before the reply, which has its place in the queue
    held.release();
    QVERIFY(eventually([&] { return waiting.isHeld(); }, 3s)); // woken, not by a poll
    waiting.release();
    QVERIFY(eventually([&] { return channels().isEmpty(); }, 20s));
}

/// A client that has only ever got a lock by a message learns of a forced release at once, too.
void tst_Cluster::forcedAfterAHandover()
{
    auto one = std::make_unique<LockRegistry>(m_cluster->url());
    LockRegistry other(m_cluster->url());
    LockRegistry operators(m_cluster->url());
    auto held = std::make_unique<TestLock>(one.get(), u"a"_s, options(Lease));
    TestLock waiting(&other, u"a"_s, options(Lease, LockOptions::Forever));
    QVERIFY(acquireNow(held.get()));
    QVERIFY(joinQueue(&waiting));
    held->release();
    QVERIFY(eventually([&] { return waiting.isHeld(); }, 3s)); // by the message, not by a poll
    held.reset();
    one.reset();
    const auto listens = [&] {
        for (int i = 0; i < m_cluster->nodeCount(); ++i) {
            if (!m_cluster->node(i).command({"PUBSUB", "CHANNELS", "lock:client:*"}).toList().isEmpty())
                return true;
        }
        return false;
    };
    QVERIFY(eventually(listens, 10s));
    auto forced = operators.forceRelease(u"a"_s);
    QVERIFY(eventually([&] { return waiting.spies.lost.size() == 1; }, 10s)); // the next renewal is due after 20 s
    QCOMPARE(waiting.spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(eventually([&] { return forced.isFinished(); }));
    QCOMPARE(forced.result().value, LockRegistry::Done);
}

/// Held locks stay held, and one refused command tells where their slot is.
void tst_Cluster::slotMoves()
{
    TestLock held(registry(), u"{a}held"_s, options(Renewed));
    QVERIFY(acquireNow(&held));
    const int slot = clusterSlot(keyOf(held));
    const int source = m_cluster->ownerOf(slot);
    const qint64 before = redirected();
    QVERIFY2(m_cluster->moveSlot(slot, otherMaster(source)), m_cluster->lastError().constData());
    const qsizetype renewed = held.spies.renewed.size();
    QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));
    QVERIFY(held.spies.lost.isEmpty() && held.spies.errors.isEmpty());
    QVERIFY2(redirected() - before <= 2, QByteArray::number(redirected() - before).constData());
    QVERIFY(releaseNow(&held));
    QVERIFY(m_cluster->moveSlot(slot, source));
}

/// Who waits notices that its subscription has ended, and takes its old place at the new master.
void tst_Cluster::slotMovesUnderWaiters()
{
    LockRegistry holders(m_cluster->url());
    LockRegistry waiters(m_cluster->url());
    TestLock held(&holders, u"{a}moved"_s, options(Lease));
    QVERIFY(acquireNow(&held));
    std::vector<std::unique_ptr<TestLock>> locks;
    QList<int> order;
    for (int i = 0; i < 8; ++i) {
        locks.push_back(std::make_unique<TestLock>(&waiters, u"{a}moved"_s, options(Lease, LockOptions::Forever)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquired, lock, [&, lock, i] {
            order.append(i);
            lock->release();
        });
        lock->acquire();
        QVERIFY(eventually([&] { return lock->queuePosition() == i; }));
    }
    const int slot = clusterSlot(keyOf(held));
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    QVERIFY2(m_cluster->moveSlot(slot, target), m_cluster->lastError().constData());
    QVERIFY(eventually([&] {
        return !m_cluster->node(target).command({"PUBSUB", "SHARDCHANNELS"}).toList().isEmpty();
    }));
    held.release();
    QVERIFY(eventually([&] { return order.size() == 8; }));
    QCOMPARE(order, (QList<int>{0, 1, 2, 3, 4, 5, 6, 7}));
    QVERIFY(m_cluster->moveSlot(slot, source));
}

/// Who learns where one of many slots has gone does not ask the former masters of the others to subscribe again.
void tst_Cluster::manySlotsMoveUnderWaiters()
{
    constexpr int Slots = 20;
    LockRegistry holders(m_cluster->url());
    LockRegistry waiters(m_cluster->url());
    const int source = m_cluster->ownerOf(0);
    const int other = otherMaster(source);
    std::vector<std::unique_ptr<TestLock>> held;
    std::vector<std::unique_ptr<TestLock>> waiting;
    QList<int> moved;
    for (int i = 0; moved.size() < Slots; ++i) {
        const QString name = u"many%1"_s.arg(i);
        const int slot = clusterSlot("lock:" + name.toUtf8());
        if (m_cluster->ownerOf(slot) != source)
            continue;
        moved.append(slot);
        held.push_back(std::make_unique<TestLock>(&holders, name, options(Lease)));
        QVERIFY(acquireNow(held.back().get()));
        waiting.push_back(std::make_unique<TestLock>(&waiters, name,
                                                     options(Lease, LockOptions::Forever).withRetryInterval(400ms)));
        waiting.back()->acquire();
    }
    const auto channels = [&](int node) {
        return m_cluster->node(node).command({"PUBSUB", "SHARDCHANNELS"}).toList().size();
    };
    QVERIFY(eventually([&] { return channels(source) >= Slots; }));
    for (const int target : {other, source}) {
        // The first one makes the clients ask for the map, which they do once a second at most.
        QVERIFY(m_cluster->moveSlot(moved.first(), target));
        QVERIFY(eventually([&] { return channels(target) >= 1; }));
        const qint64 before = redirected();
        for (const int slot : moved.mid(1))
            QVERIFY2(m_cluster->moveSlot(slot, target), m_cluster->lastError().constData());
        QVERIFY(eventually([&] { return channels(target) >= Slots; }));
        const qint64 count = redirected() - before;
        // A waiter asks once; and if it is a time to look after all subscriptions, that is one more.
        QVERIFY2(count <= 2 * Slots + 4, QByteArray::number(count).constData());
    }
    for (int i = 0; i < Slots; ++i) {
        held.at(size_t(i))->release();
        QVERIFY(eventually([&] { return waiting.at(size_t(i))->isHeld(); }, 3s)); // by the message
    }
}

void tst_Cluster::slotLeftMoving_data()
{
    QTest::addColumn<QStringList>("moved"); // the keys that are at the target before
    QTest::newRow("nothing yet") << QStringList{};
    QTest::newRow("the lock's key") << QStringList{u"{a}left"_s};
    QTest::newRow("the fence") << QStringList{u"{a}left:fence"_s};
    QTest::newRow("both") << QStringList{u"{a}left"_s, u"{a}left:fence"_s};
}

/// Locks are acquired, renewed and released while their keys are at two nodes, and do not stop the move.
void tst_Cluster::slotLeftMoving()
{
    QFETCH(const QStringList, moved);
    LockRegistry others(m_cluster->url());
    TestLock first(registry(), u"{a}left"_s, options(Renewed));
    QVERIFY(acquireNow(&first));
    const qint64 fence = first.fencingToken();
    const int slot = clusterSlot("lock:{a}left");
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    QVERIFY(m_cluster->beginMove(slot, target));
    for (const QString &name : moved)
        QVERIFY2(m_cluster->moveKey("lock:" + name.toUtf8(), target), m_cluster->lastError().constData());

    // It is renewed, and excludes others.
    const qsizetype renewed = first.spies.renewed.size();
    TestLock other(&others, u"{a}left"_s, options(Renewed, 0ms));
    QVERIFY(!acquireNow(&other));
    QCOMPARE(other.error(), DistributedLock::BusyError);
    QVERIFY(eventually([&] { return first.spies.renewed.size() > renewed; }));
    QVERIFY(first.spies.lost.isEmpty());
    QVERIFY(releaseNow(&first));

    // It is acquired and released, with rising tokens, and not much more slowly than a lock that stays where it is.
    TestLock still(registry(), m_cluster->nameAt(source), options(Renewed));
    QVERIFY(acquireNow(&still));
    QVERIFY(releaseNow(&still));
    qint64 last = fence;
    QList<qint64> times;
    QList<qint64> usualTimes;
    for (int i = 0; i < 300; ++i) {
        TestLock &watched = i % 2 == 0 ? first : other;
        QElapsedTimer timer;
        timer.start();
        QVERIFY2(acquireNow(&watched), qPrintable(watched.errorString()));
        QVERIFY(watched.fencingToken() > last);
        last = watched.fencingToken();
        const qsizetype released = watched.spies.released.size();
        watched.release();
        QVERIFY(eventually([&] { return watched.spies.released.size() > released; }));
        times.append(timer.nsecsElapsed());
        timer.start();
        QVERIFY(acquireNow(&still));
        QVERIFY(releaseNow(&still));
        usualTimes.append(timer.nsecsElapsed());
    }
    QVERIFY(first.spies.errors.isEmpty());
    const double median = msOf(&times, 50), slowest = msOf(&times, 99);
    const double usual = msOf(&usualTimes, 50), usuallySlowest = msOf(&usualTimes, 99);
    qInfo("lock and unlock while the slot moves: median %.2f ms, 99 %% in %.2f ms; elsewhere %.2f ms and %.2f ms",
          median, slowest, usual, usuallySlowest);
    QVERIFY(median < 8 * usual); // 4 commands, each of which may be redirected, instead of 2
    QVERIFY(slowest < std::max(10., 8 * usuallySlowest));

    // The move can be finished.
    QVERIFY(acquireNow(&first));
    QVERIFY2(finishMove(slot, target), m_cluster->lastError().constData());
    const qsizetype later = first.spies.renewed.size();
    QVERIFY(eventually([&] { return first.spies.renewed.size() > later; }));
    QVERIFY(releaseNow(&first));
    QVERIFY(first.spies.lost.isEmpty());
    QVERIFY(m_cluster->moveSlot(slot, source));
}

/// Who waits before and while a slot moves is served.
void tst_Cluster::waitersWhileASlotMoves()
{
    LockRegistry holders(m_cluster->url());
    LockRegistry waiters(m_cluster->url());
    TestLock held(&holders, u"{a}wait"_s, options(Lease));
    QVERIFY(acquireNow(&held));
    TestLock early(&waiters, u"{a}wait"_s, options(Lease, LockOptions::Forever));
    QVERIFY(joinQueue(&early));
    const int slot = clusterSlot("lock:{a}wait");
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    QVERIFY(m_cluster->beginMove(slot, target));
    QVERIFY(m_cluster->moveKey("lock:{a}wait", target));
    TestLock late(&waiters, u"{a}wait"_s, options(Lease, LockOptions::Forever));
    late.acquire();
    held.release();
    for (int served = 0; served < 2; ++served) {
        QVERIFY(eventually([&] { return early.isHeld() || late.isHeld(); }, BeforeExpiry));
        QVERIFY(!early.isHeld() || !late.isHeld());
        (early.isHeld() ? early : late).release();
    }
    QVERIFY(eventually([&] { return early.spies.released.size() + late.spies.released.size() == 2; }));
    QVERIFY2(finishMove(slot, target), m_cluster->lastError().constData()); // not BUSYKEY
    QVERIFY(m_cluster->moveSlot(slot, source));
}

/// Who acquires while the slot moves has left the queue, and is not served again when it releases the lock.
void tst_Cluster::holderHasNoPlaceInTheQueue()
{
    LockRegistry holders(m_cluster->url());
    LockRegistry waiters(m_cluster->url());
    LockRegistry others(m_cluster->url());
    TestLock held(&holders, u"{a}place"_s, options(Lease));
    QVERIFY(acquireNow(&held));
    TestLock early(&waiters, u"{a}place"_s, options(Renewed, LockOptions::Forever));
    QVERIFY(joinQueue(&early));
    const int slot = clusterSlot("lock:{a}place");
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    QVERIFY(m_cluster->beginMove(slot, target));
    QVERIFY(m_cluster->moveKey("lock:{a}place", target));
    held.release();
    QVERIFY(eventually([&] { return early.isHeld(); }));
    QVERIFY(!m_cluster->keys().contains("lock:{a}place:queue"));
    QVERIFY2(finishMove(slot, target), m_cluster->lastError().constData());
    // By the second renewal the slot does not count as moving any more: the release is a whole script.
    const qsizetype renewed = early.spies.renewed.size();
    QVERIFY(eventually([&] { return early.spies.renewed.size() >= renewed + 2; }));
    QVERIFY(releaseNow(&early));
    QVERIFY(!m_cluster->keys().contains("lock:{a}place"));
    TestLock next(&others, u"{a}place"_s, options(Lease, 0ms));
    QVERIFY2(acquireNow(&next), qPrintable(next.errorString()));
    QVERIFY(m_cluster->moveSlot(slot, source));
}

/// The key was claimed when the second command fails: it is given back at once.
void tst_Cluster::fenceFailsWhileASlotMoves()
{
    const int slot = clusterSlot("lock:{a}fails");
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    m_cluster->node(source).command({"RPUSH", "lock:{a}fails:fence", "no counter"});
    QVERIFY(m_cluster->beginMove(slot, target));
    TestLock lock(registry(), u"{a}fails"_s, options(Lease));
    QCOMPARE(failureNow(&lock), DistributedLock::ForeignTypeError);
    QVERIFY(eventually([&] { return !m_cluster->keys().contains("lock:{a}fails"); }, 10s));
    QVERIFY(m_cluster->stopMove(slot, target));
}

void tst_Cluster::seenWhileASlotMoves_data()
{
    QTest::addColumn<QByteArrayList>("moved"); // the keys that are at the target
    QTest::newRow("nothing yet") << QByteArrayList{};
    QTest::newRow("the lock's key") << QByteArrayList{"lock:{a}seen"};
    QTest::newRow("all but the lock's key") << QByteArrayList{"lock:{a}seen:fence", "lock:{a}seen:queue"};
    QTest::newRow("all") << QByteArrayList{"lock:{a}seen", "lock:{a}seen:fence", "lock:{a}seen:queue"};
}

/// Others see the lock and its waiters, and can take it away, while its keys are at two nodes.
void tst_Cluster::seenWhileASlotMoves()
{
    QFETCH(const QByteArrayList, moved);
    LockRegistry holders(m_cluster->url());
    LockRegistry others(m_cluster->url());
    LockRegistry operators(m_cluster->url());
    TestLock held(&holders, u"{a}seen"_s, options(Lease));
    TestLock elsewhere(&holders, u"b"_s, options(Lease));
    QVERIFY(acquireNow(&held));
    QVERIFY(acquireNow(&elsewhere));
    TestLock waiting(&others, u"{a}seen"_s, options(Lease, LockOptions::Forever));
    QVERIFY(joinQueue(&waiting));
    const int slot = clusterSlot("lock:{a}seen");
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    QVERIFY(m_cluster->beginMove(slot, target));
    for (const QByteArray &key : moved)
        QVERIFY2(m_cluster->moveKey(key, target), m_cluster->lastError().constData());

    const auto inspected = awaited(operators.inspect(u"{a}seen"_s));
    QVERIFY2(inspected.held, qPrintable(inspected.errorString));
    QCOMPARE(inspected.fencingToken, held.fencingToken());
    QCOMPARE(inspected.queueLength, 1);
    const auto listed = awaited(operators.list(u"*"_s));
    QVERIFY2(listed, qPrintable(listed.errorString));
    QCOMPARE(listed.value.size(), 2);
    const auto queue = awaited(operators.waiters(u"{a}seen"_s));
    QVERIFY2(queue, qPrintable(queue.errorString));
    QCOMPARE(queue.value.size(), 1);
    const auto forced = awaited(operators.forceRelease(u"{a}seen"_s));
    QVERIFY2(forced, qPrintable(forced.errorString));
    QCOMPARE(forced.value, LockRegistry::Done);
    QVERIFY(eventually([&] { return held.spies.lost.size() == 1; }, 10s)); // the next renewal is due after 20 s
    QCOMPARE(held.spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(eventually([&] { return waiting.isHeld(); }, 10s));

    QVERIFY2(finishMove(slot, target), m_cluster->lastError().constData());
    QVERIFY(releaseNow(&waiting));
    QVERIFY(m_cluster->moveSlot(slot, source));
}

/// Many wait for locks whose slot moves to a node that they cannot reach. Not each attempt connects to it.
void tst_Cluster::targetOfAMoveIsAway()
{
    Started<RedisCluster> cluster(RedisCluster::Options::mastersOnly());
    const int slot = clusterSlot("lock:{a}1");
    const int source = cluster.ownerOf(slot);
    const int target = cluster.addMaster();
    QVERIFY2(target > 0, qPrintable(cluster.errorString()));
    FakeServer away([](const QList<QByteArray> &, int) { return FakeServer::Answer{{}, {}, true}; });
    away.setAnswersLogin(false);
    const QByteArray port = QByteArray::number(away.port());
    cluster.node(target).command({"CONFIG", "SET", "cluster-announce-port", port});
    QVERIFY(eventually([&] {
        return cluster.node(source).command({"CLUSTER", "NODES"}).toByteArray().contains(':' + port + '@');
    }));
    QVERIFY2(cluster.beginMove(slot, target), cluster.lastError().constData());

    LockRegistry registry(cluster.url());
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 100; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"{a}%1"_s.arg(i), options(Lease, LockOptions::Forever)));
        locks.back()->acquire();
    }
    const auto redirections = [&] { // count=3
        const QByteArray field = cluster.node(source).info("errorstats", "errorstat_ASK");
        return field.mid(field.indexOf('=') + 1).toLongLong();
    };
    QVERIFY(eventually([&] { return redirections() >= 500; })); // each lock has backed off by now
    const qint64 redirectedBefore = redirections();
    const int connectionsBefore = away.connectionsAccepted();
    QVERIFY(eventually([&] { return redirections() >= redirectedBefore + 400; }));
    const int connections = away.connectionsAccepted() - connectionsBefore;
    QVERIFY2(connections < 100, QByteArray::number(connections).constData());
    QVERIFY2(cluster.stopMove(slot, target), cluster.lastError().constData());
    for (const auto &watched : locks)
        QVERIFY2(eventually([&] { return watched->isHeld(); }), qPrintable(watched->errorString()));
}

/// Neither the holder nor the waiter leaves anything behind when its lock object is destroyed.
void tst_Cluster::destroyedWhileASlotMoves()
{
    LockRegistry holders(m_cluster->url());
    LockRegistry waiters(m_cluster->url());
    auto held = std::make_unique<TestLock>(&holders, u"{a}gone"_s, options(Lease));
    QVERIFY(acquireNow(held.get()));
    auto waiting = std::make_unique<TestLock>(&waiters, u"{a}gone"_s, options(Lease, LockOptions::Forever));
    waiting->acquire();
    QVERIFY(eventually([&] { return waiting->queuePosition() == 0; }));
    auto next = std::make_unique<TestLock>(&waiters, u"{a}gone"_s, options(Lease, LockOptions::Forever));
    next->acquire();
    QVERIFY(eventually([&] { return next->queuePosition() == 1; }));
    const int slot = clusterSlot("lock:{a}gone");
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    QVERIFY(m_cluster->beginMove(slot, target));
    QVERIFY(m_cluster->moveKey("lock:{a}gone", target));
    waiting.reset();
    held.reset();
    QVERIFY(eventually([&] { return next->isHeld(); }, BeforeExpiry));
    next.reset();
    QVERIFY(eventually(
            [&] {
                const QList<QByteArray> keys = m_cluster->keys();
                return !keys.contains("lock:{a}gone") && !keys.contains("lock:{a}gone:queue");
            },
            10s)); // the lease is longer
    QVERIFY(m_cluster->moveSlot(slot, target));
    QVERIFY(m_cluster->moveSlot(slot, source));
}

/// What it has sent may be lost then, but only until the leases end.
void tst_Cluster::registryDestroyedWhileASlotMoves()
{
    const int slot = clusterSlot("lock:{a}gone");
    const int source = m_cluster->ownerOf(slot);
    const int target = otherMaster(source);
    LockRegistry others(m_cluster->url());
    for (const bool isSlotKnownToMove : {false, true}) {
        auto registry = std::make_unique<LockRegistry>(m_cluster->url());
        auto held = std::make_unique<TestLock>(registry.get(), u"{a}gone"_s, options(Renewed));
        auto waiting = std::make_unique<TestLock>(registry.get(), u"{a}gone"_s, options(Renewed, LockOptions::Forever));
        QVERIFY(acquireNow(held.get()));
        waiting->acquire();
        QVERIFY(eventually([&] { return waiting->queuePosition() == 0; }));
        QVERIFY(m_cluster->beginMove(slot, target));
        QVERIFY(m_cluster->moveKey("lock:{a}gone", target));
        if (isSlotKnownToMove) {
            held->spies.renewed.clear();
            QVERIFY(eventually([&] { return !held->spies.renewed.isEmpty(); }));
        }
        TestLock acquiring(registry.get(), u"{a}gone"_s, options(Renewed, LockOptions::Forever));
        acquiring.acquire();
        sendNow();
        registry.reset();
        QVERIFY(eventually([&] { return acquiring.spies.failed.size() == 1; }));
        TestLock next(&others, u"{a}gone"_s, options(Renewed));
        QVERIFY(acquireNow(&next));
        QVERIFY(releaseNow(&next));
        QVERIFY(m_cluster->moveSlot(slot, target));
        QVERIFY(m_cluster->moveSlot(slot, source));
    }
}

/// Slots with busy locks move there and back: nobody loses a lock, no two hold one, and nothing stops the moves.
void tst_Cluster::reshardingUnderLoad()
{
    constexpr int Names = 12;
    std::vector<std::unique_ptr<LockRegistry>> registries;
    std::vector<std::unique_ptr<TestLock>> locks;
    QHash<QString, int> inside;
    QHash<QString, qint64> fences;
    int served = 0;
    for (int i = 0; i < 4 * Names; ++i) {
        if (i % Names == 0)
            registries.push_back(std::make_unique<LockRegistry>(m_cluster->url()));
        const QString name = u"busy%1"_s.arg(i % Names);
        locks.push_back(std::make_unique<TestLock>(registries.back().get(), name, options(10s, LockOptions::Forever)));
        DistributedLock *const lock = locks.back().get();
        const auto leave = [&inside, lock, name] {
            --inside[name];
            lock->release();
        };
        connect(lock, &DistributedLock::acquired, lock, [&, lock, name, leave] {
            QCOMPARE(++inside[name], 1);
            QVERIFY(lock->fencingToken() > fences.value(name));
            fences[name] = lock->fencingToken();
            ++served;
            QMetaObject::invokeMethod(lock, leave, Qt::QueuedConnection);
        });
        connect(lock, &DistributedLock::released, lock, &DistributedLock::acquire);
        lock->acquire();
    }
    QVERIFY(eventually([&] { return served > 100; }));
    // This thread runs the locks and moves the slots: each step of a move is followed by some turns of the event loop.
    const auto goOn = [&] {
        const int before = served;
        return eventually([&] { return served > before + 20; });
    };
    int moves = 0;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < Names; ++i) {
            const QByteArray key = "lock:busy" + QByteArray::number(i);
            const int slot = clusterSlot(key);
            const int target = otherMaster(m_cluster->ownerOf(slot));
            QVERIFY(m_cluster->beginMove(slot, target));
            QVERIFY(goOn());
            int count = 0;
            while ((count = m_cluster->moveKeys(slot, target, 1)) > 0)
                QVERIFY(goOn());
            QVERIFY2(count == 0, m_cluster->lastError().constData());
            QVERIFY(m_cluster->endMove(slot, target));
            ++moves;
        }
    }
    for (const auto &watched : locks)
        QVERIFY2(watched->spies.lost.isEmpty(), qPrintable(watched->errorString()));
    qInfo("%d slots moved, %d acquisitions", moves, served);
    for (const auto &watched : locks)
        watched->disconnect(watched.get());
}

/// Held locks stay held, and are renewed at the new master long before the next renewal is due.
void tst_Cluster::replicaTakesOver()
{
    QFETCH(const QByteArray, mode);
    // Nobody learns that a silent master is silent before the next renewal.
    const milliseconds lease = mode == "STOP" ? 15s : Lease;
    const QString tagged = m_cluster->nameAt(m_cluster->ownerOf(0));
    const int master = m_cluster->ownerOf(0);
    const int replica = m_cluster->replicaOf(master);
    QVERIFY(replica >= 0);
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 20; ++i) {
        locks.push_back(std::make_unique<TestLock>(registry(), u"{lock:%1}%2"_s.arg(tagged).arg(i), options(lease)));
        QVERIFY(acquireNow(locks.back().get()));
    }
    QCOMPARE(m_cluster->ownerOf(clusterSlot(keyOf(*locks.front()))), master);
    QCOMPARE(m_cluster->node(master).command({"WAIT", "1", "30000"}, 40s), QVariant(1LL));
    QVERIFY(eventually([&] {
        return !m_cluster->node(master).command({"PUBSUB", "SHARDCHANNELS"}).toList().isEmpty();
    }));
    const qint64 asked = mapsAskedFor(master);
    if (mode == "KILL")
        m_cluster->node(master).kill();
    else if (mode == "STOP")
        m_cluster->node(master).pause();
    if (mode == "KILL" || mode == "STOP")
        QVERIFY(eventually([&] { return mapsAskedFor(master) > asked; }));
    for (const auto &watched : locks)
        watched->spies.renewed.clear();
    QElapsedTimer timer;
    QVERIFY(eventually([&] { return m_cluster->failOver(replica, mode.isEmpty() ? "" : "TAKEOVER"); }));
    timer.start();
    QVERIFY(eventually(
            [&] { return all(locks, [](const auto &watched) { return !watched->spies.renewed.isEmpty(); }); },
            RenewedAfterPromotion));
    qInfo("all renewed %lld ms after the promotion", static_cast<long long>(timer.elapsed()));
    for (const auto &watched : locks) {
        QVERIFY2(watched->spies.lost.isEmpty(), qPrintable(watched->errorString()));
        QVERIFY(m_cluster->node(replica).exists(keyOf(*watched)));
    }
    locks.clear();
    if (mode == "KILL")
        QVERIFY(m_cluster->node(master).start());
}

void tst_Cluster::waitersAtATakeover()
{
    const int master = m_cluster->ownerOf(clusterSlot("lock:job"));
    const int replica = m_cluster->replicaOf(master);
    LockRegistry holders(m_cluster->url());
    LockRegistry waiters(m_cluster->url());
    TestLock held(&holders, u"job"_s, options(Lease));
    QVERIFY(acquireNow(&held));
    std::vector<std::unique_ptr<TestLock>> locks;
    int served = 0;
    for (int i = 0; i < 16; ++i) {
        locks.push_back(std::make_unique<TestLock>(&waiters, u"job"_s, options(Lease, LockOptions::Forever)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquired, lock, [&, lock] {
            ++served;
            lock->release();
        });
        lock->acquire();
    }
    QVERIFY(eventually([&] {
        return m_cluster->node(master).command({"ZCARD", "{lock:job}:queue"}) == QVariant(16LL);
    }));
    QCOMPARE(m_cluster->node(master).command({"WAIT", "1", "30000"}, 40s), QVariant(1LL));
    QVERIFY(m_cluster->failOver(replica, "TAKEOVER"));
    QVERIFY(eventually([&] {
        return !m_cluster->node(replica).command({"PUBSUB", "SHARDCHANNELS"}).toList().isEmpty();
    }));
    QCOMPARE(served, 0);
    held.release();
    QVERIFY(eventually([&] { return served == 16; }));
}

/// Before Redis 7.0 there are no sharded channels, and nobody says that a slot has moved.
void tst_Cluster::plainChannels()
{
    QFETCH(const QByteArray, change);
    constexpr int Rounds = 10;
    ShiftedClock clock;
    RedisCluster::Options clusterOptions;
    clusterOptions.replicasPerMaster = change == "TAKEOVER" ? 1 : 0;
    clusterOptions.config = {"rename-command SSUBSCRIBE \"\"", "rename-command SUNSUBSCRIBE \"\"",
                             "rename-command SPUBLISH \"\""};
    clusterOptions.environment = clock.environment();
    Started<RedisCluster> cluster(clusterOptions);
    const int slot = clusterSlot("lock:job");
    const int master = cluster.ownerOf(slot);
    StillRegistry one(cluster.url()); // nobody polls
    StillRegistry other(cluster.url());
    const LockOptions patient = options(Lease, LockOptions::Forever).withRetryInterval(60s);
    TestLock held(&one, u"job"_s, patient);
    // Such a short lease needs no claim if the grant is proven: the waiter holds the lock at once.
    TestLock waiting(&other, u"job"_s, LockOptions(patient).withLease(3s));
    QVERIFY(acquireNow(&held));
    QVERIFY(joinQueue(&waiting));

    int target = master;
    if (change == "MOVE") {
        target = master == 0 ? 1 : 0;
        QVERIFY2(cluster.moveSlot(slot, target), cluster.lastError().constData());
    } else if (change == "TAKEOVER") {
        target = cluster.replicaOf(master);
        QCOMPARE(cluster.node(master).command({"WAIT", "1", "30000"}, 40s), QVariant(1LL));
        QVERIFY(cluster.failOver(target, "TAKEOVER"));
    }
    QVERIFY(cluster.waitUntilHealthy()); // without an event loop: the clients learn nothing meanwhile

    const auto isDone = [&] { return held.spies.acquired.size() > Rounds && waiting.spies.acquired.size() >= Rounds; };
    for (DistributedLock *const lock : {&held, &waiting}) {
        connect(lock, &DistributedLock::acquired, lock, [&cluster, lock, target] {
            QVERIFY(cluster.node(target).exists("lock:job"));
            lock->release();
        });
        connect(lock, &DistributedLock::released, lock, [lock, patient, isDone] {
            lock->setOptions(patient);
            if (!isDone())
                lock->acquire();
        });
    }
    clock.slowDown(20); // the nodes keep the lock for a waiter that should claim it for a minute, not for 3 s
    held.release();
    QVERIFY(eventually(isDone));
    QVERIFY(held.spies.lost.isEmpty() && waiting.spies.lost.isEmpty());
    QVERIFY(held.spies.errors.isEmpty() && waiting.spies.errors.isEmpty());
    const auto listeners = [&cluster](int node) {
        return cluster.node(node).command({"PUBSUB", "CHANNELS", "lock:client:*:{lock:job}"}).toList().size();
    };
    QCOMPARE(listeners(target), 2);
    if (change.isEmpty())
        QVERIFY(eventually([&] { return listeners(target) == 0; }));
    else
        QVERIFY(eventually([&] { return listeners(master) == 0; }));
}

/// A master that was replaced, and knows nothing of it because it is cut off from the others, replies all the same.
void tst_Cluster::masterCutOffIsReplaced()
{
    RedisCluster cluster; // by default a node refuses all slots while it does not see all of them
    QVERIFY2(cluster.start(), qPrintable(cluster.errorString()));
    const int master = cluster.ownerOf(clusterSlot("lock:job"));
    const int replica = cluster.replicaOf(master);
    QVERIFY(replica >= 0);
    LockRegistry registry(cluster.url());
    TestLock held(&registry, u"job"_s, options(30s));
    QVERIFY(acquireNow(&held));
    QCOMPARE(cluster.node(master).command({"WAIT", "1", "30000"}, 40s), QVariant(1LL));
    for (int i = 0; i < cluster.nodeCount(); ++i) {
        if (i != master)
            QCOMPARE(cluster.node(master).command({"CLUSTER", "FORGET", cluster.id(i)}).toByteArray(), "OK");
    }
    QVERIFY(eventually([&] {
        return cluster.node(master).command({"GET", "lock:job"}).toByteArray().startsWith("-CLUSTERDOWN");
    }));
    QVERIFY(cluster.failOver(replica, "TAKEOVER"));
    held.spies.renewed.clear();
    QVERIFY(eventually([&] { return !held.spies.renewed.isEmpty() || !held.spies.lost.isEmpty(); }));
    QVERIFY2(held.spies.lost.isEmpty(), qPrintable(held.errorString()));
    QVERIFY(cluster.node(replica).exists("lock:job"));
}

/// Only the locks of its slots are harmed, and they say why.
void tst_Cluster::oneMasterAway()
{
    const int away = m_cluster->ownerOf(0);
    const int other = m_cluster->ownerOf(16383);
    QVERIFY(away != other);
    TestLock harmed(registry(), m_cluster->nameAt(away), options(Renewed));
    TestLock unharmed(registry(), m_cluster->nameAt(other), options(Renewed));
    QVERIFY(acquireNow(&harmed));
    QVERIFY(acquireNow(&unharmed));
    RedisServer &replica = m_cluster->node(m_cluster->replicaOf(away));
    replica.command({"CONFIG", "SET", "cluster-replica-no-failover", "yes"});
    m_cluster->node(away).pause();
    QVERIFY(eventually([&] { return !harmed.spies.errors.isEmpty(); }));
    QVERIFY2(harmed.errorString().contains(QString::number(m_cluster->node(away).port())),
             qPrintable(harmed.errorString()));
    QVERIFY(eventually([&] { return harmed.spies.lost.size() == 1; }));
    QVERIFY(unharmed.spies.errors.isEmpty());
    QVERIFY(unharmed.isHeld());
    QVERIFY(unharmed.spies.renewed.size() >= 2);
    m_cluster->node(away).resume();
    replica.command({"CONFIG", "SET", "cluster-replica-no-failover", "no"});
    harmed.setOptions(options(Renewed));
    harmed.acquire();
    QVERIFY(eventually([&] { return harmed.isHeld() || !harmed.spies.failed.isEmpty(); }));
    QVERIFY2(harmed.spies.failed.isEmpty(), qPrintable(harmed.errorString()));
}

/// When one master can be reached again, those who wait for locks of the others do not poll.
void tst_Cluster::waitersOfTheOthersAreLeftAlone()
{
    const int away = m_cluster->ownerOf(0);
    const int other = m_cluster->ownerOf(16383);
    LockRegistry holders(m_cluster->url());
    LockRegistry registry(m_cluster->url());
    TestLock held(&holders, m_cluster->nameAt(other), options(Lease));
    TestLock affected(&registry, m_cluster->nameAt(away), options(Lease));
    QVERIFY(acquireNow(&held));
    QVERIFY(acquireNow(&affected));
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 40; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, held.name(), options(Lease, LockOptions::Forever)));
        locks.back()->acquire();
    }
    QVERIFY(eventually([&] { return all(locks, [](const auto &waiting) { return waiting->queuePosition() >= 0; }); }));
    const qint64 before = m_cluster->node(other).commandsProcessed("zadd");
    RedisServer &failing = m_cluster->node(away);
    failing.command({"CLIENT", "PAUSE", "60000", "WRITE"});
    affected.release();
    processEvents(); // it is sent, so that the end of the connection is a failure
    failing.command({"CLIENT", "KILL", "TYPE", "normal"});
    failing.command({"CLIENT", "UNPAUSE"});
    QVERIFY(eventually([&] { return !affected.spies.errors.isEmpty(); }));
    QVERIFY(eventually([&] { return affected.spies.released.size() == 1; }));
    processEvents();
    // Each poll of a waiter is one, though many share a script. The first of them poll now and then, see protocol.md.
    const qint64 polls = m_cluster->node(other).commandsProcessed("zadd") - before;
    QVERIFY2(polls < 20, QByteArray::number(polls).constData());
}

void tst_Cluster::nodesJoinAndLeave()
{
    const int slot = clusterSlot("lock:{a}joined");
    const int source = m_cluster->ownerOf(slot);
    const int added = m_cluster->addMaster();
    QVERIFY2(added > 0, qPrintable(m_cluster->errorString()));
    TestLock held(registry(), u"{a}joined"_s, options(Renewed));
    QVERIFY(acquireNow(&held));
    for (const int target : {added, source}) {
        QVERIFY2(m_cluster->moveSlot(slot, target), m_cluster->lastError().constData());
        const qsizetype renewed = held.spies.renewed.size();
        QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));
        QVERIFY(m_cluster->node(target).exists(keyOf(held)));
    }
    QVERIFY(m_cluster->removeNode(added));
    const qsizetype renewed = held.spies.renewed.size();
    QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));
    QVERIFY(held.spies.lost.isEmpty() && held.spies.errors.isEmpty());
}

/// As after a move that an administrator has ended at one side only.
void tst_Cluster::mastersRedirectToEachOther()
{
    QFETCH(const bool, isNew);
    const int slot = clusterSlot("lock:{a}1");
    const int source = m_cluster->ownerOf(slot);
    const int target = isNew ? m_cluster->addMaster() : otherMaster(source);
    QVERIFY(target >= 0);
    LockRegistry holders(m_cluster->url());
    LockRegistry waiters(m_cluster->url());
    TestLock held(&holders, u"{a}1"_s, options(Lease));
    TestLock waiting(&waiters, u"{a}1"_s, options(Lease, LockOptions::Forever));
    TestLock polling(&waiters, u"{a}2"_s, options(Lease, LockOptions::Forever));
    TestLock elsewhere(&waiters, m_cluster->nameAt(source), options(Renewed));
    QVERIFY(acquireNow(&held));
    QVERIFY(acquireNow(&elsewhere));
    QVERIFY(joinQueue(&waiting));
    QVERIFY(m_cluster->beginMove(slot, target));
    QVERIFY2(m_cluster->moveKeys(slot, target) > 0, m_cluster->lastError().constData());
    const QByteArray number = QByteArray::number(slot);
    const auto repair = qScopeGuard( // for the other tests
            [&] {
                m_cluster->node(target).command({"CLUSTER", "SETSLOT", number, "NODE", m_cluster->id(target)});
            });
    QCOMPARE(m_cluster->node(source)
                     .command({"CLUSTER", "SETSLOT", number, "NODE", m_cluster->id(target)})
                     .toByteArray(),
             "OK");
    polling.acquire();
    QVERIFY(eventually([&] { return !waiting.spies.errors.isEmpty() && !polling.spies.errors.isEmpty(); }));

    const auto connections = [&] {
        return m_cluster->node(source).info("stats", "total_connections_received").toLongLong()
                + m_cluster->node(target).info("stats", "total_connections_received").toLongLong();
    };
    const qint64 mapsBefore = mapsAskedFor(-1);
    const qint64 redirectedBefore = redirected();
    const qint64 connectionsBefore = connections();
    // A client asks three nodes a second at most.
    QVERIFY(eventually([&] { return mapsAskedFor(-1) >= mapsBefore + 24; }));
    const qint64 maps = mapsAskedFor(-1) - mapsBefore;
    const QByteArray counted = QByteArray::number(redirected() - redirectedBefore) + " redirections, "
            + QByteArray::number(connections() - connectionsBefore) + " connections, " + QByteArray::number(maps)
            + " maps, " + QByteArray::number(waiting.spies.errors.size()) + " errors";
    qInfo("%s", counted.constData());
    QVERIFY2(redirected() - redirectedBefore <= 5 * maps, counted.constData());
    QVERIFY2(connections() - connectionsBefore <= 3 * maps, counted.constData());
    QVERIFY2(waiting.errorString().contains(QString::number(slot)), qPrintable(waiting.errorString()));
    QVERIFY(elsewhere.spies.errors.isEmpty() && elsewhere.isHeld());
    QVERIFY(held.isHeld());

    QCOMPARE(m_cluster->node(target)
                     .command({"CLUSTER", "SETSLOT", number, "NODE", m_cluster->id(target)})
                     .toByteArray(),
             "OK");
    QVERIFY(eventually([&] { return polling.isHeld(); }));
    held.release();
    QVERIFY(eventually([&] { return waiting.isHeld(); }, BeforeExpiry));
    QVERIFY(held.spies.lost.isEmpty() && elsewhere.spies.lost.isEmpty() && elsewhere.spies.errors.isEmpty());
    if (isNew) {
        QVERIFY2(m_cluster->moveSlot(slot, source), m_cluster->lastError().constData());
        QVERIFY(m_cluster->removeNode(target));
    }
}

/// A replica, or a wrong first node, is enough to find the others.
void tst_Cluster::oneNodeIsEnough()
{
    const int replica = m_cluster->replicaOf(m_cluster->ownerOf(0));
    LockRegistry registry(m_cluster->url({}, {replica}));
    TestLock one(&registry, u"a"_s, options());
    QVERIFY2(acquireNow(&one), qPrintable(one.errorString()));
    const QUrl wrongFirst(
            u"redis+cluster://127.0.0.1:%1?node=127.0.0.1:%2"_s.arg(Posix::freePort()).arg(m_cluster->node(0).port()));
    LockRegistry another(wrongFirst);
    TestLock two(&another, u"b"_s, options());
    QVERIFY2(acquireNow(&two), qPrintable(two.errorString()));
}

/// A master is silent while the handshake takes long, and not any more once it is connected.
void tst_Cluster::slowConnection()
{
    Started<RedisServer> server(RedisServer::Options::withTcp());
    FaultProxy proxy(server);
    proxy.setLatency(700ms, 0ms);
    QString error;
    const auto url = QtRedis::ServerUrl::parse(proxy.url(), &error);
    QVERIFY2(url, qPrintable(error));
    QDistLock::ClusterNode node(*url, QDistLock::LeaseClock::system(), "1aaaaaaaaaaaaaaa",
                                {[] { return true; }, [] { return -1; }});
    QSignalSpy silent(&node, &QDistLock::ClusterNode::silent);
    bool isConnected = false;
    node.expectReply();
    node.whenConnected([&] { isConnected = true; });
    QVERIFY(eventually([&] { return isConnected; }));
    QVERIFY(node.isUsable());
    QCOMPARE(silent.size(), 2);
    QCOMPARE(silent.at(0).at(0).toBool(), true);
    QCOMPARE(silent.at(1).at(0).toBool(), false);
}

/// A lock is kept when its slot moves, and when its master is replaced, which has a wrong certificate by then.
void tst_Cluster::tls()
{
    const Certificates certificates;
    QVERIFY2(certificates.isValid(), qPrintable(certificates.errorString()));
    RedisCluster::Options clusterOptions;
    clusterOptions.masters = 2;
    clusterOptions.certificates = &certificates;
    Started<RedisCluster> cluster(clusterOptions);
    LockRegistry registry(cluster.url());
    TestLock lock(&registry, u"job"_s, options(Lease));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));

    const int slot = clusterSlot("lock:job");
    const int target = 1 - cluster.ownerOf(slot);
    QVERIFY2(cluster.moveSlot(slot, target), cluster.lastError().constData());
    QVERIFY2(eventually([&] { return !lock.spies.renewed.isEmpty(); }, BeforeExpiry), qPrintable(lock.errorString()));
    QVERIFY(cluster.node(target).waitUntilReplicated(1));

    const Certificates::Pair wrong = certificates.wrongHost();
    QCOMPARE(cluster.node(target)
                     .command({"CONFIG", "SET", "tls-cert-file", wrong.certificate.toUtf8(), "tls-key-file",
                               wrong.key.toUtf8()})
                     .toByteArray(),
             "OK");
    cluster.node(target).command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    QVERIFY2(eventually([&] { return lock.errorString().contains(u"another host name"_s); }, BeforeExpiry),
             qPrintable(lock.errorString()));
    lock.spies.renewed.clear();
    QVERIFY2(cluster.failOver(cluster.replicaOf(target), "TAKEOVER"), cluster.lastError().constData());
    QVERIFY2(eventually([&] { return !lock.spies.renewed.isEmpty(); }, BeforeExpiry), qPrintable(lock.errorString()));
    QVERIFY(lock.spies.lost.isEmpty());
}

/// Only the locks of that node are harmed, and they say so.
void tst_Cluster::oneNodeHasAnotherPassword()
{
    auto options = RedisCluster::Options::mastersOnly();
    options.password = "c4n4ry";
    Started<RedisCluster> cluster(options);
    const QString there = cluster.nameAt(1);
    const QString elsewhere = cluster.nameAt(2);
    QCOMPARE(cluster.node(1).command({"CONFIG", "SET", "requirepass", "0th3r"}).toByteArray(), "OK");
    LockRegistry registry(cluster.url());
    TestLock harmed(&registry, there, LockTesting::options(1s, 1s));
    TestLock unharmed(&registry, elsewhere, LockTesting::options());
    QVERIFY2(acquireNow(&unharmed), qPrintable(unharmed.errorString()));
    QVERIFY(!acquireNow(&harmed));
    QCOMPARE(harmed.error(), DistributedLock::AuthenticationError);
    QVERIFY2(harmed.errorString().contains(QString::number(cluster.node(1).port())), qPrintable(harmed.errorString()));
    QVERIFY(!harmed.errorString().contains(u"c4n4ry"_s));
    QVERIFY(unharmed.isHeld() && unharmed.spies.errors.isEmpty());
    QCOMPARE(cluster.node(1).command({"CONFIG", "SET", "requirepass", "c4n4ry"}).toByteArray(), "OK");
    harmed.setOptions(LockTesting::options(Renewed));
    harmed.acquire();
    QVERIFY(eventually([&] { return harmed.isHeld() || harmed.spies.failed.size() > 1; }));
    QVERIFY2(harmed.isHeld(), qPrintable(harmed.errorString()));
}

/// Nodes are not asked to let the client in ten times a second, and each refusal is reported once.
void tst_Cluster::passwordChangesUnderHolders()
{
    auto options = RedisCluster::Options::mastersOnly();
    options.password = "c4n4ry";
    Started<RedisCluster> cluster(options);
    LockRegistry registry(cluster.url());
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 12; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"job%1"_s.arg(i), LockTesting::options(Lease)));
        QVERIFY2(acquireNow(locks.back().get()), qPrintable(locks.back()->errorString()));
    }
    const LogCapture log;
    const qint64 before = cluster.commandsProcessed("auth");
    for (int i = 0; i < 3; ++i) {
        cluster.node(i).command({"CONFIG", "SET", "requirepass", "0th3r"});
        cluster.node(i).command({"CLIENT", "KILL", "TYPE", "normal"});
        cluster.node(i).command({"CLIENT", "KILL", "TYPE", "pubsub"});
    }
    QVERIFY(!eventually([] { return false; }, 2500ms));
    const QStringList warnings = log.messages(QtWarningMsg, "qdistlock.redis");
    const qint64 logins = cluster.commandsProcessed("auth") - before;
    // A client has three connections to each, which report together.
    QVERIFY2(warnings.size() == 3, qPrintable(warnings.join(u'\n')));
    QVERIFY2(logins <= 30, QByteArray::number(logins).constData()); // at once, after 1 s, after another 2 s
    for (const auto &watched : locks)
        watched->spies.renewed.clear();
    for (int i = 0; i < 3; ++i)
        QCOMPARE(cluster.node(i).command({"CONFIG", "SET", "requirepass", "c4n4ry"}).toByteArray(), "OK");
    for (const auto &watched : locks)
        QVERIFY(eventually([&] { return !watched->spies.renewed.isEmpty(); }));
}

/// However many locks are acquired at the other masters, or wait at the same one, a login that is refused is repeated
/// only after seconds.
void tst_Cluster::refusedLoginsStayRare()
{
    constexpr int Locks = 150;
    auto options = RedisCluster::Options::mastersOnly();
    options.password = "c4n4ry";
    Started<RedisCluster> cluster(options);
    const auto namesAt = [](int node) { // of locks whose slots differ; the masters share the slots evenly
        QMap<int, QString> names;
        for (int i = 0; names.size() < Locks; ++i) {
            const QString name = u"job%1"_s.arg(i);
            const int slot = clusterSlot("lock:" + name.toUtf8());
            if (slot * 3 / 16384 == node)
                names.insert(slot, name);
        }
        return names.values();
    };
    LockRegistry registry(cluster.url());
    LockRegistry others(cluster.url());
    TestLock harmed(&registry, namesAt(0).first(), LockTesting::options(Lease));
    QVERIFY2(acquireNow(&harmed), qPrintable(harmed.errorString()));
    std::vector<std::unique_ptr<TestLock>> held;
    for (const QString &name : namesAt(1)) {
        held.push_back(std::make_unique<TestLock>(&others, name, LockTesting::options(Lease)));
        QVERIFY2(acquireNow(held.back().get()), qPrintable(held.back()->errorString()));
    }

    // Locks of another master.
    cluster.node(0).command({"CONFIG", "SET", "requirepass", "0th3r"});
    cluster.node(0).command({"CLIENT", "KILL", "TYPE", "normal"});
    cluster.node(0).command({"CLIENT", "KILL", "TYPE", "pubsub"});
    QVERIFY(eventually([&] { return harmed.error() == DistributedLock::AuthenticationError; }));
    qint64 before = cluster.node(0).commandsProcessed("auth");
    for (const QString &name : namesAt(2)) {
        TestLock lock(&registry, name, LockTesting::options(Lease));
        QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    }
    const qint64 byOthers = cluster.node(0).commandsProcessed("auth") - before;
    QVERIFY2(byOthers < Locks / 3, QByteArray::number(byOthers).constData());

    // Each lock that is taken has its own channel.
    TestLock first(&registry, namesAt(1).first(), LockTesting::options(Lease, LockOptions::Forever));
    QVERIFY(joinQueue(&first));
    cluster.node(1).command({"CONFIG", "SET", "requirepass", "0th3r"});
    const LogCapture log;
    cluster.node(1).command({"CLIENT", "KILL", "TYPE", "pubsub"});
    QVERIFY(eventually([&] { return log.count({u"WRONGPASS"_s}) > 0; }));
    before = cluster.node(1).commandsProcessed("auth");
    for (const QString &name : namesAt(1)) {
        TestLock lock(&registry, name, LockTesting::options(Lease, 0ms));
        QVERIFY(!acquireNow(&lock));
        QCOMPARE(lock.error(), DistributedLock::BusyError);
    }
    const qint64 byChannels = cluster.node(1).commandsProcessed("auth") - before;
    QVERIFY2(byChannels < Locks / 3, QByteArray::number(byChannels).constData());
}

/// The connections for messages that were given up then are made again with the next use.
void tst_Cluster::loginRefusedWhileNobodyNeedsIt()
{
    auto options = RedisCluster::Options::mastersOnly(1);
    options.password = "c4n4ry";
    Started<RedisCluster> cluster(options);
    const auto addresses = addressesOf(&cluster);
    QVERIFY(!addresses.empty());
    FaultProxy &address = *addresses.front();
    StillRegistry registry(cluster.url({}, {0}));
    LockRegistry others(cluster.url({}, {0}));
    TestLock elsewhere(&others, u"waited"_s, LockTesting::options(Lease));
    TestLock held(&registry, u"held"_s, LockTesting::options(Lease));
    TestLock waiting(&registry, u"waited"_s, LockTesting::options(Lease, LockOptions::Forever));
    QVERIFY(acquireNow(&elsewhere));
    QVERIFY(joinQueue(&waiting));
    waiting.cancel();
    QVERIFY(acquireNow(&held)); // the cancel is confirmed, too

    // They are needed when they are lost, and not any more when the login is refused.
    const LogCapture log;
    cluster.node(0).command({"CONFIG", "SET", "requirepass", "0th3r"});
    address.setRepliesHeld(true);
    const qint64 logins = address.commandsForwarded("AUTH");
    address.resetAll();
    QVERIFY(eventually([&] { return address.commandsForwarded("AUTH") >= logins + 6; })); // of both clients
    registry.pass(Lease);
    QVERIFY(eventually([&] { return held.spies.lost.size() == 1; }));
    registry.pass(Lease); // its cancel is given up
    address.setRepliesHeld(false);
    QVERIFY(eventually([&] { return log.count({u"Not retried until the next use"_s}) >= 3; }));
    QCOMPARE(cluster.node(0).command({"CONFIG", "SET", "requirepass", "c4n4ry"}).toByteArray(), "OK");
    held.acquire();
    waiting.acquire();
    QVERIFY2(eventually([&] { return held.isHeld() && waiting.queuePosition() == 0; }, BeforeExpiry),
             qPrintable(waiting.errorString()));
    const auto forced = [&] {
        return cluster.node(0).command({"PUBSUB", "CHANNELS", "lock:client:*[0-9a-f]"}).toList().size() == 2;
    };
    QVERIFY(eventually(forced, BeforeExpiry)); // both clients listen for forced releases
}

/// All that locks do works with the rights that docs/servers.md lists, also while a slot moves.
void tst_Cluster::userWithLeastRights()
{
    auto options = RedisCluster::Options::mastersOnly();
    options.users = {leastRights()};
    Started<RedisCluster> cluster(options);
    QUrl url = cluster.url();
    url.setUserName(u"lockapp"_s);
    url.setPassword(u"SECRET"_s);
    LockRegistry holders(url);
    LockRegistry waiters(url);
    TestLock held(&holders, u"{a}x"_s, LockTesting::options(Lease));
    TestLock waiting(&waiters, u"{a}x"_s, LockTesting::options(Lease, LockOptions::Forever));
    QVERIFY2(acquireNow(&held), qPrintable(held.errorString()));
    QVERIFY(joinQueue(&waiting));
    held.release();
    QVERIFY(eventually([&] { return waiting.isHeld(); }, 3s)); // woken, not by a poll
    const int slot = clusterSlot("lock:{a}x");
    const int source = cluster.ownerOf(slot);
    const int target = source == 0 ? 1 : 0;
    QVERIFY(cluster.beginMove(slot, target));
    QVERIFY(cluster.moveKey("lock:{a}x", target));
    held.acquire();
    waiting.release();
    QVERIFY(eventually([&] { return held.isHeld(); }));
    auto listed = waiters.list(u"*"_s);
    auto inspected = waiters.inspect(u"{a}x"_s);
    QVERIFY(eventually([&] { return listed.isFinished() && inspected.isFinished(); }));
    QVERIFY2(listed.result(), qPrintable(listed.result().errorString));
    QCOMPARE(listed.result().value.size(), 1);
    QVERIFY(inspected.result().held);
    auto forced = waiters.forceRelease(u"{a}x"_s);
    QVERIFY(eventually([&] { return held.spies.lost.size() == 1; }, 10s)); // the next renewal is due after 20 s
    QVERIFY(eventually([&] { return forced.isFinished(); }));
    for (int i = 0; i < cluster.nodeCount(); ++i)
        QCOMPARE(cluster.node(i).command({"ACL", "LOG"}).toList().size(), 0);
}

void tst_Cluster::monitorUser()
{
    const QByteArray added = "+cluster|slots +cluster|nodes +cluster|myid +asking";
    QVERIFY(contentOf(QStringLiteral(SERVERS_PAGE)).simplified().contains("also needs `" + added + '`'));
    auto options = RedisCluster::Options::mastersOnly();
    options.users = {"lockmonitor " + aclRule("lockmonitor", "SECRET").join(' ') + ' ' + added};
    Started<RedisCluster> cluster(options);
    LockRegistry holders(cluster.url());
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 20; ++i) {
        locks.push_back(std::make_unique<TestLock>(&holders, u"job%1"_s.arg(i), LockTesting::options(Lease)));
        QVERIFY(acquireNow(locks.back().get()));
    }
    QUrl url = cluster.url();
    url.setUserName(u"lockmonitor"_s);
    url.setPassword(u"SECRET"_s);
    LockRegistry registry(url);
    LockMonitorModel model(&registry);
    EVENTUALLY_COMPARE(model.count(), 20);
    const int slot = clusterSlot("lock:job7");
    const int target = cluster.ownerOf(slot) == 0 ? 1 : 0;
    QVERIFY(cluster.beginMove(slot, target));
    QVERIFY(cluster.moveKey("lock:job7", target));
    model.refresh();
    const qint64 before = model.now();
    const auto isRead = [&](int row) {
        const QModelIndex index = model.index(row);
        return index.data(LockMonitorModel::Updated).toLongLong() > before
                && index.data(LockMonitorModel::Status).value<LockMonitorModel::LockStatus>() == LockMonitorModel::Held;
    };
    const auto areAllRead = [&] {
        for (int row = 0; row < model.count(); ++row) {
            if (!isRead(row))
                return false;
        }
        return model.count() == 20;
    };
    EVENTUALLY_VERIFY(areAllRead());
    QCOMPARE(model.problems(), QStringList());
    const auto forced = awaited(registry.forceRelease(u"job7"_s));
    QCOMPARE(forced.error, DistributedLock::PermissionError);
    QVERIFY(locks.at(7)->isHeld());
}

void tst_Cluster::errors_data()
{
    addColumns<QString, int, QString>("which", "error", "text");
    QTest::newRow("no cluster node") << u"single"_s << int(DistributedLock::ServerError)
                                     << u"the server is no node of a Redis Cluster"_s;
    QTest::newRow("node without slots") << u"empty"_s << int(DistributedLock::ServerError)
                                        << u"it belongs to no cluster yet"_s;
    QTest::newRow("nobody") << u"nobody"_s << int(DistributedLock::ConnectionError)
                            << u"none of its 1 nodes can be asked for the slots"_s;
}

void tst_Cluster::errors()
{
    QFETCH(const QString, which);
    QFETCH(const int, error);
    QFETCH(const QString, text);
    RedisServer::Options serverOptions = RedisServer::Options::withTcp();
    if (which == u"empty")
        serverOptions.config = {"cluster-enabled yes", "cluster-port " + QByteArray::number(Posix::freePort())};
    Started<RedisServer> server(serverOptions);
    if (which == u"nobody")
        server.kill();
    LockRegistry registry(QUrl(u"redis+cluster://127.0.0.1:%1"_s.arg(server.port())));
    TestLock lock(&registry, u"a"_s, options(1s, 1s));
    QVERIFY(!acquireNow(&lock));
    QCOMPARE(int(lock.error()), error);
    QVERIFY2(lock.errorString().contains(text), qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(QString::number(server.port())));
}

void tst_Cluster::twoClusters()
{
    auto options = RedisCluster::Options::mastersOnly(1);
    Started<RedisCluster> other(options);
    const QUrl both(m_cluster->url().toString() + u"&node=127.0.0.1:%1"_s.arg(other.node(0).port()));
    LockRegistry registry(both);
    TestLock lock(&registry, u"a"_s, LockTesting::options());
    QVERIFY(!acquireNow(&lock));
    QVERIFY2(lock.errorString().contains(u"belong to different clusters"_s), qPrintable(lock.errorString()));
    QCOMPARE(other.keys(), QList<QByteArray>());
}

/// A replica was removed, and serves all slots of another cluster, with a great epoch.
void tst_Cluster::addressInAnotherCluster()
{
    RedisCluster::Options options;
    options.masters = 1;
    options.replicasPerMaster = 2;
    Started<RedisCluster> cluster(options);
    const auto namesBothReplicas = [&cluster](int node) {
        return cluster.node(node).command({"CLUSTER", "SLOTS"}).toList().value(0).toList().size() == 5;
    };
    QVERIFY(eventually([&] { return namesBothReplicas(0) && namesBothReplicas(1) && namesBothReplicas(2); }));
    LockRegistry registry(cluster.url());
    TestLock first(&registry, u"first"_s, LockTesting::options());
    QVERIFY2(acquireNow(&first), qPrintable(first.errorString()));

    RedisServer &left = cluster.node(1);
    for (const int node : {0, 2})
        cluster.node(node).command({"CLUSTER", "FORGET", cluster.id(1)});
    QCOMPARE(left.command({"CLUSTER", "RESET", "HARD"}).toByteArray(), "OK");
    left.command({"FLUSHALL"});
    QCOMPARE(left.command({"CLUSTER", "SET-CONFIG-EPOCH", "99"}).toByteArray(), "OK");
    QCOMPARE(left.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}).toByteArray(), "OK");
    QVERIFY(eventually([&] { return left.command({"SET", "x", "1"}).toByteArray() == "OK"; }));
    left.command({"DEL", "x"});

    // While the master is away, all others are asked; then its own replica is promoted.
    const qint64 asked = left.commandsProcessed("cluster|slots");
    cluster.node(0).kill();
    TestLock second(&registry, u"second"_s, LockTesting::options(Lease));
    second.acquire();
    QVERIFY(eventually([&] { return left.commandsProcessed("cluster|slots") > asked; }));
    QVERIFY(!second.isHeld());
    QCOMPARE(cluster.failOver(2, "TAKEOVER"), true);
    QVERIFY(eventually([&] { return second.isHeld(); }));
    QVERIFY(cluster.node(2).exists("lock:second"));
    QCOMPARE(left.keys(), QList<QByteArray>());
}

/// A master dies, and its address gets a node of another cluster, before anybody has replaced it.
void tst_Cluster::masterReplacedByAnotherCluster()
{
    auto options = RedisCluster::Options::mastersOnly(3);
    options.needsAllSlots = false;
    Started<RedisCluster> cluster(options);
    LockRegistry registry(cluster.url());
    TestLock first(&registry, u"first"_s, LockTesting::options(Lease));
    QVERIFY2(acquireNow(&first), qPrintable(first.errorString()));

    RedisServer &master = cluster.serverOf("lock:first");
    const int index = cluster.indexOfPort(master.port());
    for (int node = 0; node < 3; ++node) {
        if (node != index)
            cluster.node(node).command({"CLUSTER", "FORGET", cluster.id(index)});
    }
    master.command({"FLUSHALL"});
    QCOMPARE(master.command({"CLUSTER", "RESET", "HARD"}).toByteArray(), "OK");
    QCOMPARE(master.command({"CLUSTER", "SET-CONFIG-EPOCH", "99"}).toByteArray(), "OK");
    QCOMPARE(master.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}).toByteArray(), "OK");
    QVERIFY(eventually([&] { return master.command({"SET", "x", "1"}).toByteArray() == "OK"; }));
    master.command({"DEL", "x"});
    master.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});

    // The others say that nobody serves its slots any more.
    TestLock second(&registry, u"{first}second"_s, LockTesting::options(Lease));
    second.acquire();
    QVERIFY(eventually([&] { return second.errorString().contains(u"no node serves the slot"_s); }));
    QVERIFY(!second.isHeld());
    QCOMPARE(master.keys(), QList<QByteArray>());
}

/// The address in the URL leads to another cluster, and nobody of the former one can be asked. Others may still use it.
void tst_Cluster::newClusterAtNewAddresses()
{
    auto options = RedisCluster::Options::mastersOnly(1);
    Started<RedisCluster> former(options);
    Started<RedisCluster> present(options);
    FaultProxy address(former.node(0));
    const QUrl url(u"redis+cluster://127.0.0.1:%1"_s.arg(address.port()));
    LockRegistry registry(url);
    TestLock first(&registry, u"first"_s, LockTesting::options(Lease));
    QVERIFY2(acquireNow(&first), qPrintable(first.errorString()));

    const LogCapture log;
    former.node(0).kill();
    address.setServer(present.node(0));
    address.resetAll();
    TestLock second(&registry, u"second"_s, LockTesting::options(Lease));
    second.acquire();
    const auto says = [&second](const QString &words) { return second.errorString().contains(words); };
    QVERIFY2(eventually([&] { return says(u"belong to another cluster"_s); }, BeforeExpiry),
             qPrintable(second.errorString()));
    QVERIFY2(says(u"(its masters were 127.0.0.1:%1)"_s.arg(former.node(0).port())), qPrintable(second.errorString()));
    QVERIFY2(says(u"(127.0.0.1:%1)"_s.arg(address.port())), qPrintable(second.errorString()));
    QVERIFY2(says(u"start this program again"_s), qPrintable(second.errorString()));
    QVERIFY(!second.isHeld());
    QCOMPARE(present.keys(), QList<QByteArray>());

    LockRegistry startedAgain(url);
    TestLock third(&startedAgain, u"third"_s, LockTesting::options(Lease));
    QVERIFY2(acquireNow(&third), qPrintable(third.errorString()));
    QCOMPARE(log.messages(QtWarningMsg).filter(u"start this program again"_s).size(), 1);

    QVERIFY(former.node(0).start());
    QVERIFY2(eventually([&] { return second.isHeld(); }, BeforeExpiry), qPrintable(second.errorString()));
    QVERIFY(former.node(0).exists("lock:second"));
}

/// Only the locks of the slots that nobody serves cannot be acquired.
void tst_Cluster::incompleteCluster()
{
    auto options = RedisCluster::Options::mastersOnly();
    options.needsAllSlots = false;
    Started<RedisCluster> cluster(options);
    const int slot = clusterSlot("lock:{a}x");
    for (int i = 0; i < 3; ++i)
        cluster.node(i).command({"CLUSTER", "DELSLOTS", QByteArray::number(slot)});
    LockRegistry registry(cluster.url());
    TestLock lost(&registry, u"{a}x"_s, LockTesting::options(1s, 500ms));
    TestLock other(&registry, u"{b}x"_s, LockTesting::options());
    QVERIFY(acquireNow(&other));
    QVERIFY(!acquireNow(&lost));
    QVERIFY2(lost.errorString().contains(u"no node serves the slot %1"_s.arg(slot)), qPrintable(lost.errorString()));
}

/// By default a node of an incomplete cluster refuses all slots.
void tst_Cluster::clusterIsDown()
{
    Started<RedisCluster> cluster(RedisCluster::Options::mastersOnly());
    for (int i = 0; i < 3; ++i)
        cluster.node(i).command({"CLUSTER", "DELSLOTS", "0"});
    QVERIFY(eventually([&] {
        return cluster.serverOf("lock:a").command({"CLUSTER", "INFO"}).toByteArray().contains("cluster_state:fail");
    }));
    LockRegistry registry(cluster.url());
    TestLock lock(&registry, u"a"_s, LockTesting::options(1s, 500ms));
    QVERIFY(!acquireNow(&lock));
    QVERIFY2(lock.errorString().contains(u"the cluster is not complete"_s), qPrintable(lock.errorString()));
    QVERIFY2(lock.errorString().contains(u"look at CLUSTER INFO"_s), qPrintable(lock.errorString()));
}

void tst_Cluster::minReplicas()
{
    LockOptions replicated = options();
    replicated.minReplicas = 1;
    TestLock lock(registry(), u"a"_s, replicated);
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY2(lock.errorString().contains(u"minReplicas is 1, but with a Redis Cluster"_s),
             qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(u"leave it 0 there"_s));
}

/// Who waits for such a master gets the lock from the slot's new one.
void tst_Cluster::slotLeavesAMasterThatIsAway()
{
    QFETCH(const bool, comesBack);
    Started<RedisCluster> cluster(RedisCluster::Options::mastersOnly());
    const auto addresses = addressesOf(&cluster);
    QVERIFY(!addresses.empty());
    const auto sum = [&](const QByteArray &command, int except) {
        qint64 sum = 0;
        for (int i = 0; i < cluster.nodeCount(); ++i)
            sum += i == except ? 0 : addresses.at(size_t(i))->commandsForwarded(command);
        return sum;
    };
    for (int i = 0; i < (comesBack ? 8 : 1); ++i) { // which of the replies is read first is by chance
        const QString name = u"left%1"_s.arg(i);
        const int slot = clusterSlot("lock:" + name.toUtf8());
        const int source = cluster.ownerOf(slot);
        FaultProxy &address = *addresses.at(size_t(source));
        LockRegistry registry(cluster.url());
        QString another; // in a slot that stays
        for (int j = 0; another.isEmpty() || cluster.ownerOf(clusterSlot("lock:" + another.toUtf8())) != source; ++j)
            another = u"stays%1"_s.arg(j);
        TestLock harmed(&registry, another, options(Lease));
        QVERIFY2(acquireNow(&harmed), qPrintable(harmed.errorString()));
        address.setRefusing(true);
        address.resetAll();
        QVERIFY(eventually([&] { return !harmed.spies.errors.isEmpty(); }));
        TestLock lock(&registry, name, options(Lease, LockOptions::Forever));
        lock.acquire();
        if (comesBack) {
            for (const auto &other : addresses)
                other->setRepliesHeld(true);
            address.setRefusing(false);
        }
        QVERIFY2(cluster.moveSlot(slot, (source + 1) % 3), cluster.lastError().constData());
        if (comesBack) {
            const qint64 questions = sum("CLUSTER", source);
            const qint64 handshakes = address.commandsForwarded("CLIENT");
            QVERIFY(eventually([&] {
                return sum("CLUSTER", source) > questions && address.commandsForwarded("CLIENT") > handshakes;
            }));
            const qint64 replies = address.repliesForwarded();
            for (const auto &other : addresses)
                other->setRepliesHeld(false);
            const QDeadlineTimer deadline(Patience);
            while (address.repliesForwarded() < replies + 2 && !deadline.hasExpired()) // without an event loop
                Posix::pollPause();
        }
        QVERIFY2(eventually([&] { return lock.isHeld(); }, BeforeExpiry), qPrintable(lock.errorString()));
        address.heal();
    }
}

/// As when all containers are started again: the name in the URL leads to the same nodes at new addresses.
void tst_Cluster::allAddressesChange()
{
    QFETCH(const bool, isHeld);
    Started<RedisCluster> cluster(RedisCluster::Options::mastersOnly());
    const auto former = addressesOf(&cluster);
    QVERIFY(!former.empty());

    LockRegistry registry(cluster.url({}, {0}));
    TestLock lock(&registry, u"job"_s, options(Lease));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    if (!isHeld) {
        QVERIFY(releaseNow(&lock));
    }
    const auto present = addressesOf(&cluster);
    QVERIFY(!present.empty());
    for (const auto &address : former) {
        address->setRefusing(true);
        address->resetAll();
    }
    lock.spies.renewed.clear();
    if (!isHeld)
        lock.acquire();
    QVERIFY2(eventually([&] { return isHeld ? !lock.spies.renewed.isEmpty() : lock.isHeld(); }, BeforeExpiry),
             qPrintable(lock.errorString()));
    QVERIFY(lock.spies.lost.isEmpty());
}

/// A master without replicas has lost its disk: at its address is a new node, which serves some of its slots; nobody
/// serves the others.
void tst_Cluster::masterReplacedByAnEmptyNode()
{
    auto clusterOptions = RedisCluster::Options::mastersOnly();
    clusterOptions.needsAllSlots = false;
    Started<RedisCluster> cluster(clusterOptions);
    const QByteArray slot = QByteArray::number(clusterSlot("lock:job"));
    const int index = cluster.ownerOf(slot.toInt());
    const int other = index == 0 ? 1 : 0;
    RedisServer &master = cluster.node(index);
    LockRegistry registry(cluster.url());
    TestLock lock(&registry, u"job"_s, options(Renewed, BeforeExpiry));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(releaseNow(&lock));

    for (int node = 0; node < 3; ++node) {
        if (node != index)
            cluster.node(node).command({"CLUSTER", "FORGET", cluster.id(index)});
    }
    master.command({"FLUSHALL"});
    QCOMPARE(master.command({"CLUSTER", "RESET", "HARD"}).toByteArray(), "OK");
    QCOMPARE(master.command({"CLUSTER", "ADDSLOTS", slot}).toByteArray(), "OK");
    const QByteArray busPort = master.command({"CONFIG", "GET", "cluster-port"}).toList().value(1).toByteArray();
    cluster.node(other).command({"CLUSTER", "MEET", "127.0.0.1", QByteArray::number(master.port()), busPort});
    const auto isServed = [&](int node) {
        return cluster.node(node).command({"CLUSTER", "INFO"}).toByteArray().contains("cluster_known_nodes:3")
                && cluster.node(node).command({"GET", "lock:job"}).toByteArray().startsWith("-MOVED " + slot);
    };
    QVERIFY(waitUntil([&] {
        return isServed(other) && isServed(3 - other - index) && master.command({"GET", "lock:job"}).isNull();
    }));
    master.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(master.exists("lock:job"));
}

void tst_Cluster::mostMastersReplaced_data()
{
    QTest::addColumn<bool>("isHeld");
    QTest::addColumn<bool>("isStopped"); // a former master; otherwise it is reset, as redis-cli --cluster del-node does
    QTest::newRow("nobody needed the cluster, the former ones are stopped") << false << true;
    QTest::newRow("nobody needed the cluster, the former ones are reset") << false << false;
    QTest::newRow("under a held lock") << true << true;
}

/// Two of three masters are replaced by new nodes, one after the other, as for an upgrade: a replica is added and
/// promoted, and the former master is forgotten. The client learns nothing meanwhile.
void tst_Cluster::mostMastersReplaced()
{
    QFETCH(const bool, isHeld);
    QFETCH(const bool, isStopped);
    Started<RedisCluster> cluster(RedisCluster::Options::mastersOnly());
    const int slot = clusterSlot("lock:job");
    const int master = cluster.ownerOf(slot);
    LockRegistry registry(cluster.url());
    TestLock lock(&registry, u"job"_s, options(5min));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    if (!isHeld) {
        QVERIFY(releaseNow(&lock));
        for (int i = 0; i < cluster.nodeCount(); ++i) {
            for (const char *type : {"normal", "pubsub"})
                cluster.node(i).command({"CLIENT", "KILL", "TYPE", type, "SKIPME", "yes"});
        }
        QVERIFY(eventually([&] { return cluster.connectedClients() == 0; })); // closed as idle
    }
    for (const int former : {master, master == 2 ? 0 : 2})
        QVERIFY2(replaceMaster(&cluster, former, isStopped) > 0, cluster.lastError().constData());
    lock.spies.renewed.clear();
    if (!isHeld)
        lock.acquire();
    QVERIFY2(eventually([&] { return isHeld ? !lock.spies.renewed.isEmpty() : lock.isHeld(); }),
             qPrintable(lock.errorString()));
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(cluster.node(cluster.ownerOf(slot)).exists("lock:job"));
}

void tst_Cluster::allMastersReplaced_data()
{
    QTest::addColumn<bool>("isStopped"); // as above
    QTest::newRow("the former ones are stopped") << true;
    QTest::newRow("the former ones are reset") << false;
}

/// Nobody is left who could tell a client that has learnt nothing meanwhile. The error says what to do.
void tst_Cluster::allMastersReplaced()
{
    QFETCH(const bool, isStopped);
    RedisCluster::Options clusterOptions;
    clusterOptions.masters = 1; // it replaces none of the others
    clusterOptions.replicasPerMaster = 0;
    Started<RedisCluster> cluster(clusterOptions);
    FaultProxy address(cluster.node(0)); // which leads to the new ones, too
    const QUrl url(u"redis+cluster://127.0.0.1:%1"_s.arg(address.port()));
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, options(Lease));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(releaseNow(&lock));
    const int added = replaceMaster(&cluster, 0, isStopped);
    QVERIFY2(added > 0, cluster.lastError().constData());
    address.setServer(cluster.node(added));
    address.resetAll();

    lock.setOptions(options(Lease, 2s));
    const auto saysWhatToDo = [&lock] {
        if (lock.state() == DistributedLock::Unlocked)
            lock.acquire();
        return lock.errorString().contains(u"start this program again"_s);
    };
    QVERIFY2(eventually(saysWhatToDo), qPrintable(lock.errorString()));
    LockRegistry startedAgain(url);
    TestLock other(&startedAgain, u"job"_s, options(Lease));
    QVERIFY2(acquireNow(&other), qPrintable(other.errorString()));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Cluster)
#include "tst_cluster.moc"
