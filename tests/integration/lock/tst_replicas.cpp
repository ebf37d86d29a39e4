// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks with minReplicas, on a master with two replicas that stop, lag and leave.

#include "support/locktest.h"

#include "support/fakesentinel.h"
#include "support/registrytime.h"
#include "support/replicaset.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qelapsedtimer.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");
const QByteArray User = QByteArrayLiteral("lockapp");
const QByteArray AllRights = QByteArrayLiteral("on nopass ~* &* +@all");

LockOptions replicated(int minReplicas, milliseconds replicaTimeout = 3s)
{
    return LockTesting::options(10min, LockOptions::Forever)
            .withMinReplicas(minReplicas)
            .withReplicaTimeout(replicaTimeout);
}

/// A lock with its own registry, and so with its own connections.
struct Client
{
    Client(const QUrl &server, const LockOptions &options)
        : registry(server)
        , lock(&registry, Name)
        , spies(&lock)
    {
        lock.setOptions(options);
    }
    LockRegistry registry;
    DistributedLock lock;
    Spies spies;
};

RedisServer::Options masterOptions()
{
    RedisServer::Options options = RedisServer::Options::withTcp();
    options.users = {User + ' ' + AllRights};
    return options;
}

} // namespace

class tst_Replicas : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void heldMeansReplicated_data() { withAndWithoutScripts(); }
    void heldMeansReplicated() { acquireReplicated(100); }
    void heldMeansReplicatedOften_data() { withAndWithoutScripts(); }
    PROOF void heldMeansReplicatedOften() { acquireReplicated(1000); }
    void unknownScriptsToo();
    void demandsInOneTurn_data() { withAndWithoutScripts(); }
    void demandsInOneTurn();
    void moreThanConnected();
    void detachedReplica();
    void manyLocksOneWarning();
    void stoppedReplica_data() { withAndWithoutScripts(); }
    void stoppedReplica();
    void laggingReplica();
    void renewalsAreConfirmed();
    void unconfirmedRenewals_data() { addRows<int>("fault", {{"stopped", 0}, {"lagging", 1}, {"detached", 2}}); }
    void unconfirmedRenewals();
    void replicaIsBackInTime();
    TIMING void othersAreNotDelayed();
    void handOver_data();
    void handOver() { handOver(20, false); }
    void commandsOfHandOver_data() { handOver_data(); }
    TIMING void commandsOfHandOver();
    void handOverIsNotBelieved();
    void nothingIsLeft_data()
    {
        addRows<int>("end", {{"cancel", 0}, {"lock destroyed", 1}, {"registry destroyed", 2}});
    }
    void nothingIsLeft();
    void cancelOvertakesTheAcquire_data() { nothingIsLeft_data(); }
    TIMING void cancelOvertakesTheAcquire();
    void forbidden_data();
    void forbidden();
    void connectionLostWhileWaiting();
    void formerMasterIsLeft();
    void connectionName();
    void memoryHasNoReplicas();
    void readers();
    void permits();

private:
    static void withAndWithoutScripts()
    {
        QTest::addColumn<QString>("query");
        QTest::newRow("scripts") << QString();
        QTest::newRow("plain") << u"?scripts=off"_s;
    }
    QUrl url() { return m_set.master().tcpUrl(); }
    QUrl userUrl()
    {
        QUrl result = url();
        result.setUserName(QString::fromLatin1(User));
        result.setPassword(u"any"_s);
        return result;
    }
    /// How many replicas have the master's token for \a key, asked at the replicas themselves.
    int replicasWith(const QByteArray &key);
    void acquireReplicated(int rounds);
    /// \a isCounting: whether only the necessary commands are sent.
    void handOver(int rounds, bool isCounting);

    ReplicaSet m_set{2, masterOptions()};
    std::vector<std::unique_ptr<RespClient>> m_witnesses;
};

void tst_Replicas::initTestCase()
{
    QVERIFY(m_set.start());
    for (int i = 0; i < m_set.replicaCount(); ++i) {
        m_witnesses.push_back(std::make_unique<RespClient>());
        QVERIFY(m_witnesses.back()->connectToUnix(m_set.replica(i).socketPath()));
    }
}

void tst_Replicas::init()
{
    m_set.master().command({"FLUSHALL"});
    m_set.master().command(QList<QByteArray>{"ACL", "SETUSER", User} + AllRights.split(' '));
}

void tst_Replicas::cleanup()
{
    QVERIFY(m_set.restore());
    QVERIFY(eventually([&] { return lockKeys(m_set.master()).isEmpty(); }));
    QVERIFY(eventually([&] { return m_set.master().connectedClients() == 0; }));
}

int tst_Replicas::replicasWith(const QByteArray &key)
{
    const QByteArray token = m_set.master().get(key);
    return token.isEmpty() ? 0 : int(std::count_if(m_witnesses.begin(), m_witnesses.end(), [&](const auto &witness) {
        return witness->command({"GET", key}).toByteArray() == token;
    }));
}

void tst_Replicas::acquireReplicated(int rounds)
{
    QFETCH(QString, query);
    const QUrl server(url().toString() + query);
    for (int i = 0; i < 2; ++i) // otherwise the key would be there in time without WAIT, too
        m_set.link(i).setLatency(500us, 500us);
    LockRegistry registry(server);
    int held = 0;
    int replicatedTwice = 0;
    for (int i = 0; i < rounds; ++i) {
        TestLock lock(&registry, QString::number(i), replicated(2));
        connect(&lock, &DistributedLock::acquired, this, [&] {
            ++held;
            replicatedTwice += replicasWith("lock:" + QByteArray::number(i)) == 2;
        });
        QVERIFY(acquireNow(&lock));
    }
    QCOMPARE(held, rounds);
    QCOMPARE(replicatedTwice, rounds);
}

// The script is sent a second time, behind the WAIT of the first.
void tst_Replicas::unknownScriptsToo()
{
    for (int i = 0; i < 2; ++i)
        m_set.link(i).setLatency(2ms, 2ms);
    LockRegistry registry(url());
    for (int i = 0; i < 20; ++i) {
        m_set.master().command({"SCRIPT", "FLUSH"});
        TestLock lock(&registry, QString::number(i), replicated(2));
        QVERIFY(acquireNow(&lock));
        QCOMPARE(replicasWith("lock:" + QByteArray::number(i)), 2);
    }
}

// Locks that ask for different things share a write, and each gets what it asks for.
void tst_Replicas::demandsInOneTurn()
{
    QFETCH(QString, query);
    const QUrl server(url().toString() + query);
    m_set.link(0).setHeld(true);
    LockRegistry registry(server);
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (const int minReplicas : {2, 1, 0, 3, 2, 1}) {
        locks.push_back(
                std::make_unique<TestLock>(&registry, QString::number(locks.size()), replicated(minReplicas, 300ms)));
    }
    QList<QFuture<LockResult>> results;
    for (const auto &lock : locks)
        results.append(lock->acquireAsync());
    for (const int index : {1, 2, 5}) {
        QVERIFY(eventually([&] { return results.at(index).isFinished(); }));
        QVERIFY2(results.at(index).result().isAcquired(), qPrintable(results.at(index).result().errorString));
    }
    QCOMPARE(replicasWith("lock:1"), 1);
    QCOMPARE(replicasWith("lock:5"), 1);
    QVERIFY(eventually([&] { return results.at(3).isFinished(); }));
    QCOMPARE(results.at(3).result().error, DistributedLock::ReplicationError);
    QVERIFY2(results.at(3).result().errorString.contains(u"minReplicas is 3, but only 2"_s),
             qPrintable(results.at(3).result().errorString));
    for (const int index : {0, 4}) {
        DistributedLock *const lock = locks.at(size_t(index)).get();
        QVERIFY2(eventually([&] { return lock->errorString().contains(u"1 of 2 replicas"_s); }),
                 qPrintable(lock->errorString()));
        QCOMPARE(lock->error(), DistributedLock::ReplicationError);
        QVERIFY(!results.at(index).isFinished());
        lock->cancel();
        QVERIFY(eventually([&] { return results.at(index).isFinished(); }));
        QVERIFY(!results.at(index).result().isAcquired());
    }
    for (const int index : {0, 3, 4})
        QVERIFY(eventually([&] { return !m_set.master().exists("lock:" + QByteArray::number(index)); }));
}

void tst_Replicas::moreThanConnected()
{
    Client client(url(), replicated(3));
    const qint64 scripts = m_set.master().commandsProcessed("evalsha") + m_set.master().commandsProcessed("eval");
    client.lock.acquire();
    QVERIFY(eventually([&] { return client.spies.failed.size() == 1; })); // although its wait has no end
    QCOMPARE(client.spies.failure(), DistributedLock::ReplicationError);
    QVERIFY2(client.lock.errorString().contains(u"minReplicas is 3, but only 2"_s),
             qPrintable(client.lock.errorString()));
    // Nothing was sent that would have to be undone.
    QCOMPARE(m_set.master().commandsProcessed("evalsha") + m_set.master().commandsProcessed("eval"), scripts);
    client.lock.setOptions(replicated(2));
    QVERIFY(acquireNow(&client.lock));
    QCOMPARE(replicasWith(Key), 2);
}

void tst_Replicas::detachedReplica()
{
    Client client(url(), replicated(2, 200ms));
    QVERIFY(acquireNow(&client.lock));
    client.lock.release();
    QVERIFY(eventually([&] { return client.spies.released.size() == 1; }));
    m_set.detach(1);
    QVERIFY(m_set.waitForReplicas(1));
    // The first attempt learns it, the next one knows it.
    client.lock.acquire();
    QVERIFY(eventually([&] { return client.spies.failed.size() == 1; }));
    QCOMPARE(client.spies.failure(), DistributedLock::ReplicationError);
    QVERIFY(eventually([&] { return !m_set.master().exists(Key); }));
    m_set.attach(1);
    QVERIFY(m_set.waitForReplicas(2));
    QVERIFY(acquireNow(&client.lock));
    QCOMPARE(replicasWith(Key), 2);
}

void tst_Replicas::manyLocksOneWarning()
{
    constexpr int Count = 20;
    StillRegistry registry(url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < Count; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"job%1"_s.arg(i), replicated(2, 100ms)));
        locks.back()->acquire();
    }
    const auto count = [&locks](auto condition) { return std::count_if(locks.begin(), locks.end(), condition); };
    QVERIFY(eventually([&] { return count([](const auto &lock) { return lock->isHeld(); }) == Count; }));
    m_set.detach(1);
    QVERIFY(m_set.waitForReplicas(1));
    DistributedLock another(&registry, u"another"_s); // learns that one is missing
    another.setOptions(replicated(2, 100ms));
    another.tryAcquire();
    QVERIFY(eventually([&] { return another.error() == DistributedLock::ReplicationError; }));
    const LogCapture log;
    registry.pass(locks.front()->options().lease / 2);
    QVERIFY(eventually([&] {
        return count([](const auto &lock) { return lock->error() == DistributedLock::ReplicationError; }) == Count;
    }));
    QCOMPARE(log.messages(QtWarningMsg).size(), 1);
    m_set.attach(1);
    QVERIFY(m_set.waitForReplicas(2));
    QVERIFY(registry.passUntil([&] {
        return count([](const auto &lock) { return lock->error() == DistributedLock::NoError; }) == Count;
    }));
}

// The master takes a stopped replica for connected.
void tst_Replicas::stoppedReplica()
{
    QFETCH(QString, query);
    const QUrl server(url().toString() + query);
    m_set.replica(1).pause();
    Client client(server, replicated(2, 300ms));
    client.lock.acquire();
    QVERIFY(eventually([&] { return client.spies.errors.size() == 1; }));
    QCOMPARE(client.lock.error(), DistributedLock::ReplicationError);
    QVERIFY2(eventually([&] { return client.lock.errorString().contains(u"1 of 2 replicas"_s); }),
             qPrintable(client.lock.errorString()));
    QCOMPARE(client.lock.state(), DistributedLock::Acquiring);
    const auto once = awaited(client.lock.tryAcquireAsync());
    // Without scripts, the cancel of the attempt before takes two round trips on the other connection.
    if (query.isEmpty() || once.error != DistributedLock::BusyError)
        QCOMPARE(once.error, DistributedLock::ReplicationError);
    QVERIFY(client.spies.acquired.isEmpty());

    m_set.replica(1).resume();
    QVERIFY(eventually([&] { return client.lock.isHeld(); }));
    QCOMPARE(replicasWith(Key), 2);
    QCOMPARE(client.lock.error(), DistributedLock::NoError);
}

void tst_Replicas::laggingReplica()
{
    m_set.link(0).setHeld(true);
    m_set.link(1).setHeld(true);
    RegistryTime time;
    Client client(url(), replicated(1, 100ms).withWait(60s));
    time.govern(&client.registry);
    client.lock.acquire();
    QVERIFY(eventually([&] { return client.spies.errors.size() == 1; }));
    QVERIFY(client.spies.failed.isEmpty());
    time.pass(61s);
    QVERIFY(eventually([&] { return client.spies.failed.size() == 1; }));
    QCOMPARE(client.spies.failure(), DistributedLock::ReplicationError); // and not TimeoutError
    QVERIFY2(client.lock.errorString().contains(u"0 of 1 replicas"_s), qPrintable(client.lock.errorString()));
    QVERIFY(eventually([&] { return !m_set.master().exists(Key); }));
    m_set.link(1).setHeld(false);
    client.lock.setOptions(replicated(1));
    QVERIFY(acquireNow(&client.lock));
    QCOMPARE(replicasWith(Key), 1);
}

void tst_Replicas::renewalsAreConfirmed()
{
    RegistryTime time;
    Client client(url(), replicated(2).withLease(30s));
    time.govern(&client.registry);
    QVERIFY(acquireNow(&client.lock));
    const qint64 waits = m_set.master().commandsProcessed("wait");
    for (int i = 1; i <= 5; ++i) {
        time.pass(11s);
        QVERIFY(eventually([&] { return client.spies.renewed.size() == i; }));
    }
    QVERIFY(m_set.master().commandsProcessed("wait") >= waits + 5);
    QVERIFY(client.spies.errors.isEmpty());
    QCOMPARE(replicasWith(Key), 2);
    QVERIFY(m_witnesses.front()->command({"PTTL", Key}).toLongLong() > 0);
}

void tst_Replicas::unconfirmedRenewals()
{
    QFETCH(int, fault);
    RegistryTime time;
    Client client(url(), replicated(2, 500ms).withLease(60s));
    time.govern(&client.registry);
    QVERIFY(acquireNow(&client.lock));
    // A slow machine may need more than one.
    for (int i = 0; i < 5 && client.spies.renewed.isEmpty(); ++i) {
        time.pass(i == 0 ? 21s : 6s);
        const qsizetype errors = client.spies.errors.size();
        QVERIFY(eventually([&] { return !client.spies.renewed.isEmpty() || client.spies.errors.size() > errors; }));
    }
    QCOMPARE(client.spies.renewed.size(), 1);
    const qsizetype errors = client.spies.errors.size();
    const qsizetype risks = client.spies.atRisk.size();
    if (fault == 0)
        m_set.replica(1).pause();
    else if (fault == 1)
        m_set.link(1).setHeld(true);
    else
        m_set.detach(1);
    time.pass(21s);
    QVERIFY(eventually([&] { return client.spies.errors.size() == errors + 1; }));
    QVERIFY(client.spies.lost.isEmpty());
    QVERIFY(eventually([&] {
        time.pass(100ms);
        return client.spies.lost.size() == 1;
    }));
    QCOMPARE(client.spies.renewed.size(), 1);
    QCOMPARE(client.spies.reason(), DistributedLock::LeaseExpired);
    QCOMPARE(client.spies.atRisk.size(), risks + 1);
    QCOMPARE(client.spies.errors.size(), errors + 1);
    QCOMPARE(client.lock.error(), DistributedLock::ReplicationError);
    QVERIFY(!client.lock.isHeld());
    QVERIFY2(client.lock.errorString().contains(u"replicas"_s), qPrintable(client.lock.errorString()));
    // It was not lost because the server's lease had ended: the master has renewed the key all the time.
    QVERIFY(eventually([&] { return !m_set.master().exists(Key); })); // and it was given back
}

void tst_Replicas::replicaIsBackInTime()
{
    RegistryTime time;
    Client client(url(), replicated(2, 1s).withLease(60s));
    time.govern(&client.registry);
    QVERIFY(acquireNow(&client.lock));
    m_set.replica(1).pause();
    const qsizetype errors = client.spies.errors.size();
    time.pass(21s);
    QVERIFY(eventually([&] { return client.spies.errors.size() == errors + 1; })); // a renewal was not confirmed
    QVERIFY(client.spies.renewed.isEmpty());
    m_set.replica(1).resume();
    QVERIFY(m_set.master().waitUntilReplicated(2));
    QVERIFY(eventually([&] {
        time.pass(5ms); // until it is repeated
        return client.spies.renewed.size() >= 1;
    }));
    QVERIFY(client.spies.lost.isEmpty());
    QCOMPARE(client.lock.error(), DistributedLock::NoError);
    QCOMPARE(replicasWith(Key), 2);
}

// WAIT holds up its connection only.
void tst_Replicas::othersAreNotDelayed()
{
    leavesRoomFor(2s); // of the WAIT
    m_set.link(0).setHeld(true);
    m_set.link(1).setHeld(true);
    LockRegistry registry(url());
    TestLock waiting(&registry, u"waiting"_s, replicated(1, 3s));
    TestLock other(&registry, u"other"_s, LockTesting::options());
    QVERIFY(acquireNow(&other));
    waiting.acquire();
    QVERIFY(eventually([&] { return m_set.master().exists("lock:waiting"); }));
    const auto percentile = [&](int pairs) {
        std::vector<qint64> times;
        QElapsedTimer timer;
        for (int i = 0; i < pairs; ++i) {
            timer.start();
            const auto released = other.releaseAsync();
            if (!eventually([&] { return released.isFinished(); }) || !acquireNow(&other))
                return qint64(-1);
            times.push_back(timer.nsecsElapsed());
        }
        std::sort(times.begin(), times.end());
        return times[times.size() * 99 / 100] / 1000;
    };
    const qint64 beside = percentile(100);
    QVERIFY(beside >= 0);
    // All of these were done while the WAIT lasted.
    QVERIFY(waiting.spies.errors.isEmpty());
    QVERIFY(waiting.spies.acquiresEnded() == 0);
    QVERIFY(m_set.master().exists("lock:waiting"));
    waiting.cancel();
    qInfo("a pair beside a WAIT: p99 %lld us; alone: %lld us", beside, percentile(100));
}

void tst_Replicas::handOver_data()
{
    addColumns<int, int, bool>("holder", "waiter", "sameRegistry");
    for (const bool same : {false, true}) {
        const char *const where = same ? "one client" : "two clients";
        QTest::addRow("both, %s", where) << 2 << 2 << same;
        QTest::addRow("to one with replicas, %s", where) << 0 << 2 << same;
        QTest::addRow("to one without, %s", where) << 2 << 0 << same;
    }
}

void tst_Replicas::commandsOfHandOver()
{
    leavesRoomFor(1s); // a waiter polls after about 3 s
    handOver(5, true);
}

void tst_Replicas::handOver(int rounds, bool isCounting)
{
    QFETCH(int, holder);
    QFETCH(int, waiter);
    QFETCH(bool, sameRegistry);
    for (int i = 0; i < 2; ++i)
        m_set.link(i).setLatency(1ms, 1ms);
    Client first(url(), replicated(holder));
    Client second(url(), replicated(waiter));
    TestLock third(&first.registry, Name, replicated(waiter));
    DistributedLock &next = sameRegistry ? third : second.lock;
    int replicas = -1;
    connect(&next, &DistributedLock::acquired, this, [&] { replicas = replicasWith(Key); });
    for (int round = 0; round < rounds; ++round) {
        QVERIFY(acquireNow(&first.lock));
        QVERIFY(joinQueue(&next));
        const qint64 token = first.lock.fencingToken();
        const qint64 commands = m_set.master().commandsProcessed("evalsha");
        first.lock.release();
        QVERIFY(eventually([&] { return next.isHeld(); }));
        QVERIFY(next.fencingToken() > token);
        if (waiter > 0)
            QCOMPARE(replicas, 2);
        // The release, and the claim of the waiter with replicas. The hand-over to the other one may need a claim, too.
        const qint64 sent = m_set.master().commandsProcessed("evalsha") - commands;
        QVERIFY2(!isCounting || (waiter > 0 ? sent == 2 : sent <= 3), qPrintable(QString::number(sent)));
        QVERIFY(releaseNow(&next));
    }
}

// The message, or the reply to the release, proves that the lock was passed on at the master only.
void tst_Replicas::handOverIsNotBelieved()
{
    for (const bool same : {false, true}) {
        Client first(url(), replicated(0));
        Client second(url(), replicated(2, 300ms));
        TestLock third(&first.registry, Name, replicated(2, 300ms));
        DistributedLock &next = same ? third : second.lock;
        Spies spies(&next);
        for (int round = 0; round < 2; ++round) { // the first hold of an object is claimed in any case
            QVERIFY(acquireNow(&first.lock));
            QVERIFY(joinQueue(&next));
            if (round == 1) {
                m_set.link(1).setHeld(true);
                spies.errors.clear(); // of a slow replica
            }
            first.lock.release();
            if (round == 0) {
                QVERIFY(eventually([&] { return next.isHeld(); }));
                QVERIFY(releaseNow(&next));
            }
        }
        QVERIFY(eventually([&] { return spies.errors.size() == 1; }));
        QCOMPARE(next.error(), DistributedLock::ReplicationError);
        QCOMPARE(spies.acquired.size(), 1);
        m_set.link(1).setHeld(false);
        QVERIFY(eventually([&] { return next.isHeld(); }));
        QCOMPARE(replicasWith(Key), 2);
    }
}

// At any moment of an acquire whose WAIT does not end. cleanup() checks keys and connections.
void tst_Replicas::nothingIsLeft()
{
    QFETCH(int, end);
    m_set.link(0).setHeld(true);
    m_set.link(1).setHeld(true);
    for (int round = 0; round < 60; ++round) {
        auto registry = std::make_unique<LockRegistry>(url());
        auto lock = std::make_unique<TestLock>(registry.get(), Name, replicated(1, 3s));
        DistributedLock connected(registry.get(), u"connected"_s);
        if (round % 2 == 0) { // the connection for WAIT is up before
            connected.setOptions(replicated(1, 1ms).withWait(0ms));
            const QFuture<LockResult> result = connected.acquireAsync();
            QVERIFY(eventually([&] { return result.isFinished(); }));
        }
        lock->acquire();
        if (round % 3 == 0) {
            QVERIFY(eventually([&] { return m_set.master().exists(Key); }));
        } else {
            for (int i = 0; i < round / 6; ++i)
                QCoreApplication::processEvents();
        }
        if (end == 0)
            lock->cancel();
        else if (end == 1)
            lock.reset();
        else
            registry.reset();
        QVERIFY(eventually([&] { return lockKeys(m_set.master()).isEmpty(); }));
        sendNow();
        if (round % 10 == 0)
            QVERIFY(lockKeys(m_set.master()).isEmpty());
    }
}

// The acquire is slow on its way, and the cancel takes the other connection.
void tst_Replicas::cancelOvertakesTheAcquire()
{
    leavesRoomFor(100ms); // the proxy delays the acquire by 200 ms, and must have read it by then
    QFETCH(int, end);
    FaultProxy proxy(m_set.master());
    for (int round = 0; round < 3; ++round) {
        auto registry = std::make_unique<LockRegistry>(proxy.url());
        auto lock = std::make_unique<TestLock>(registry.get(), Name, replicated(1));
        QVERIFY(acquireNow(lock.get())); // both connections are up
        const auto released = lock->releaseAsync();
        QVERIFY(eventually([&] { return released.isFinished(); }));
        // A command has the latency of the moment at which the proxy reads it.
        proxy.setLatency(200ms, 0us);
        lock->acquire();
        sendNow();
        proxy.setLatency(0us, 0us);
        const QByteArray fence = m_set.master().get("{lock:job}:fence");
        const qint64 scripts = m_set.master().commandsProcessed("evalsha");
        if (end == 0)
            lock->cancel();
        else if (end == 1)
            lock.reset();
        else
            registry.reset();
        sendNow();
        if (end == 2) { // the connection of the acquire is ended: it never runs
            QVERIFY(eventually([&] { return proxy.connections() == 0; }));
            QCOMPARE(m_set.master().get("{lock:job}:fence"), fence);
        } else { // cancel, acquire, and cancel again
            QVERIFY(eventually([&] { return m_set.master().commandsProcessed("evalsha") == scripts + 3; }));
        }
        QVERIFY(!m_set.master().exists(Key));
    }
}

void tst_Replicas::forbidden_data()
{
    addColumns<QByteArray, bool>("right", "works");
    QTest::newRow("wait") << QByteArray("-wait") << false;
    QTest::newRow("role") << QByteArray("-role") << true;
}

void tst_Replicas::forbidden()
{
    QFETCH(QByteArray, right);
    QFETCH(bool, works);
    m_set.master().command({"ACL", "SETUSER", User, right});
    Client client(userUrl(), replicated(2, 300ms));
    client.lock.acquire();
    QVERIFY(eventually([&] { return client.spies.acquiresEnded() == 1; }));
    QCOMPARE(client.lock.isHeld(), works);
    if (works) {
        QCOMPARE(replicasWith(Key), 2);
        return;
    }
    QCOMPARE(client.spies.failure(), DistributedLock::PermissionError);
    QVERIFY2(client.lock.errorString().contains(u"wait"_s) && client.lock.errorString().contains(u"grant"_s),
             qPrintable(client.lock.errorString()));
    QVERIFY(eventually([&] { return !m_set.master().exists(Key); }));
}

void tst_Replicas::connectionLostWhileWaiting()
{
    m_set.link(0).setHeld(true);
    m_set.link(1).setHeld(true);
    FaultProxy proxy(m_set.master());
    Client client(proxy.url(), replicated(1, 3s));
    client.lock.acquire();
    QVERIFY(eventually([&] { return m_set.master().exists(Key); }));
    proxy.resetAll();
    m_set.link(0).setHeld(false);
    QVERIFY(eventually([&] { return client.lock.isHeld(); }));
    QCOMPARE(replicasWith(Key), 1);
    client.lock.release(); // while the proxy exists
    QVERIFY(eventually([&] { return client.spies.released.size() == 1; }));
}

/// Without a message of a Sentinel, only the connection for these locks finds out that the master was replaced.
void tst_Replicas::formerMasterIsLeft()
{
    Started<RedisServer> first(RedisServer::Options::withTcp());
    RedisServer::Options options = RedisServer::Options::withTcp();
    options.replicaOf = &first;
    Started<RedisServer> second(options);
    QVERIFY(eventually([&] { return first.command({"ROLE"}).toList().value(2).toList().size() == 1; }));
    FakeSentinel::View view;
    view.port = first.port();
    FakeSentinel sentinel(view);
    RegistryTime time;
    Client client(QUrl(u"redis+sentinel://127.0.0.1:%1/mymaster"_s.arg(sentinel.port())), replicated(1).withLease(60s));
    time.govern(&client.registry);
    QVERIFY(acquireNow(&client.lock));

    second.command({"REPLICAOF", "NO", "ONE"});
    first.command({"REPLICAOF", "127.0.0.1", QByteArray::number(second.port())});
    view.port = second.port();
    view.epoch = 1;
    sentinel.setView(view);
    const qsizetype renewed = client.spies.renewed.size();
    time.pass(21s);
    QVERIFY(eventually([&] {
        time.pass(1ms);
        return client.spies.renewed.size() > renewed || !client.spies.lost.isEmpty();
    }));
    QVERIFY2(client.spies.lost.isEmpty(), qPrintable(client.lock.errorString()));
    client.lock.release();
    QVERIFY(eventually([&] { return client.spies.released.size() == 1; }));
    QVERIFY(!second.exists(Key));
}

void tst_Replicas::connectionName()
{
    Client client(url(), replicated(2));
    QVERIFY(acquireNow(&client.lock));
    const QByteArray name = "name=qdistlock-" + m_set.master().get(Key).split(':').first();
    const QByteArray clients = m_set.master().command({"CLIENT", "LIST"}).toByteArray();
    QVERIFY2(clients.contains(name + "-wait "), clients.constData());
    // The holder is found by the name of the other connection.
    const auto info = awaited(client.registry.inspect(Name));
    QVERIFY(info.holder.connected);
    QCOMPARE(info.holder.pid, QCoreApplication::applicationPid());
}

void tst_Replicas::memoryHasNoReplicas()
{
    Client client(QUrl(u"memory:"_s), replicated(1));
    client.lock.acquire();
    QVERIFY(eventually([&] { return client.spies.failed.size() == 1; }));
    QCOMPARE(client.spies.failure(), DistributedLock::OptionsError);
    QVERIFY2(client.lock.errorString().contains(u"minReplicas is 1"_s), qPrintable(client.lock.errorString()));
}

void tst_Replicas::readers()
{
    Client writer(url(), replicated(2)), first(url(), replicated(2)), second(url(), replicated(2));
    for (Client *const reader : {&first, &second})
        reader->lock.setMode(LockOptions::Shared);
    QVERIFY(acquireNow(&writer.lock));
    QVERIFY(joinQueue(&first.lock, 0));
    QVERIFY(joinQueue(&second.lock, 1));
    writer.lock.release();
    QVERIFY(eventually([&] { return first.lock.isHeld() && second.lock.isHeld(); }));
    for (int i = 0; i < 2; ++i)
        QCOMPARE(m_set.replica(i).command({"ZCARD", Key}).toInt(), 2);
    QVERIFY(joinQueue(&writer.lock));
    QVERIFY(releaseNow(&first.lock));
    QVERIFY(releaseNow(&second.lock));
    QVERIFY(eventually([&] { return writer.lock.isHeld(); }));
    QCOMPARE(replicasWith(Key), 2);
}

void tst_Replicas::permits()
{
    const LockOptions three = replicated(2).withPermits(3);
    Client first(url(), three), second(url(), LockOptions(three).withTake(2)), third(url(), three);
    QVERIFY(acquireNow(&first.lock));
    QVERIFY(acquireNow(&second.lock));
    QVERIFY(joinQueue(&third.lock));
    for (int i = 0; i < 2; ++i) {
        QCOMPARE(m_set.replica(i).command({"ZCARD", Key}).toInt(), 3);
        QCOMPARE(m_set.replica(i).command({"GET", "{" + QByteArray(Key) + "}:permits"}).toByteArray(), "3");
    }
    QVERIFY(releaseNow(&second.lock));
    QVERIFY(eventually([&] { return third.lock.isHeld(); }));
    for (int i = 0; i < 2; ++i)
        QCOMPARE(m_set.replica(i).command({"ZCARD", Key}).toInt(), 2);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Replicas)
#include "tst_replicas.moc"
