// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Faults of the connections to a server: cut, reset, silent, slow, and without a subscription.

#include "support/locktest.h"

#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qelapsedtimer.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");
const QByteArray Queue = QByteArrayLiteral("{lock:job}:queue");

/// Acquires and releases a lock again and again.
class Contender
{
public:
    Contender(const QUrl &url)
        : m_registry(url)
        , m_lock(&m_registry, Name)
    {
        m_lock.setOptions(options(30s, LockOptions::Forever));
        QObject::connect(&m_lock, &DistributedLock::acquired, &m_lock, &DistributedLock::release);
        QObject::connect(&m_lock, &DistributedLock::released, &m_lock, &DistributedLock::acquire);
        QObject::connect(&m_lock, &DistributedLock::lost, &m_lock, &DistributedLock::acquire);
        QObject::connect(&m_lock, &DistributedLock::acquired, &m_lock, [this] { ++m_turns; });
        m_lock.acquire();
    }
    int turns() const { return m_turns; }

private:
    LockRegistry m_registry;
    DistributedLock m_lock;
    int m_turns = 0;
};

} // namespace

class tst_ConnectionFaults : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void init();

    void cutAcquire_data() { addRows<bool>("executed", {{"before", false}, {"after", true}}); }
    void cutAcquire();
    void cutRenewal_data() { cutAcquire_data(); }
    void cutRenewal();
    void cutRelease_data() { cutAcquire_data(); }
    void cutRelease();
    void cutReleaseWithASuccessor();
    void clientKilled();
    void connectionReset();
    TIMING void blackHole();
    void lateCommandOfAnOldConnection();
    TIMING void latencyBeyondTheBeat();
    void latencyBeyondTheLease();
    void slicedReplies();
    void subscriptionLost();
    void subscriptionOverrun();
    void subscriptionHalfOpen();
};

void tst_ConnectionFaults::init()
{
    RedisLockTest::init();
    m_server.command({"SCRIPT", "FLUSH"});
}

void tst_ConnectionFaults::cutAcquire()
{
    QFETCH(bool, executed);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock)); // the server knows the scripts now
    QVERIFY(releaseNow(&lock));

    executed ? proxy.cutAfter("EVALSHA") : proxy.cutBefore("EVALSHA");
    proxy.setRepliesHeld(false);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(proxy.faultsDone(), 1);
    QCOMPARE(lock.spies.acquired.size(), 2);
    QCOMPARE(lock.holdCount(), 1);
    QCOMPARE(m_server.get("{lock:job}:fence"), QByteArray::number(lock.fencingToken()));
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.released.size() == 2; }));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QVERIFY(lock.spies.failed.isEmpty());
    QVERIFY(lock.spies.lost.isEmpty());
}

void tst_ConnectionFaults::cutRenewal()
{
    QFETCH(bool, executed);
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    const QByteArray token = m_server.get("lock:job");
    executed ? proxy.cutAfter("EVALSHA") : proxy.cutBefore("EVALSHA");
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return proxy.faultsDone() == 1; }));
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 2; }));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.spies.lost.size(), 0);
    QCOMPARE(lock.spies.errors.size(), 1);
    QCOMPARE(lock.error(), DistributedLock::NoError);
    QCOMPARE(m_server.get("lock:job"), token);
}

void tst_ConnectionFaults::cutRelease()
{
    QFETCH(bool, executed);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    for (int i = 1; i <= 2; ++i) {
        QVERIFY(acquireNow(&lock));
        if (i == 2)
            executed ? proxy.cutAfter("EVALSHA") : proxy.cutBefore("EVALSHA");
        const QFuture<bool> release = lock.releaseAsync();
        QVERIFY(!lock.isHeld());
        QVERIFY(eventually([&] { return lock.spies.holdsEnded() == i; }));
        QCOMPARE(lock.spies.released.size(), i);
        QVERIFY(eventually([&] { return release.isFinished(); })); // it may finish one event later
        QVERIFY(release.result());
    }
    QCOMPARE(proxy.faultsDone(), 1);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

// The server executes the release, but its reply is lost; the repeated release finds another holder's key.
void tst_ConnectionFaults::cutReleaseWithASuccessor()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QVERIFY(acquireNow(&lock));
    proxy.cutAfter("EVALSHA");
    lock.release();
    sendNow();
    QVERIFY(proxy.waitForFaults(1));
    m_server.command({"SET", "lock:job", "successor"});
    QVERIFY(eventually([&] { return lock.spies.holdsEnded() == 2; }));
    QCOMPARE(lock.spies.released.size(), 2);
    QCOMPARE(m_server.get("lock:job"), QByteArray("successor"));
}

void tst_ConnectionFaults::clientKilled()
{
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const QByteArray token = m_server.get("lock:job");
    for (int i = 0; i < 5; ++i) {
        m_server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        const qsizetype renewed = lock.spies.renewed.size();
        // By the next connection, at once.
        QVERIFY(eventually([&] { return lock.spies.renewed.size() > renewed; }));
    }
    QVERIFY(lock.isHeld());
    QVERIFY(lock.spies.lost.isEmpty());
    QCOMPARE(m_server.get("lock:job"), token);
}

void tst_ConnectionFaults::connectionReset()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock held(&registry, u"held"_s);
    QVERIFY(acquireNow(&held));
    // A waiter keeps waiting.
    m_server.command({"SET", "lock:job", "foreign"});
    TestLock lock(&registry, u"job"_s, options(30s, LockOptions::Forever));
    lock.acquire();
    const qint64 accepted = proxy.connectionsAccepted();
    proxy.resetAll();
    QVERIFY(eventually([&] { return proxy.connectionsAccepted() > accepted; }));
    QVERIFY(eventually([&] { return held.spies.renewed.size() >= 1; }));
    m_server.command({"DEL", "lock:job"});
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(held.spies.lost.isEmpty());
    QVERIFY(lock.spies.failed.isEmpty());
}

// A half-open connection: nothing is refused, and nothing answered. The library must notice it in time to renew on
// another connection.
void tst_ConnectionFaults::blackHole()
{
    leavesRoomFor(500ms);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(3s));
    QVERIFY(acquireNow(&lock));
    proxy.setBlackHole(true);  // the present connections stay dead
    proxy.setBlackHole(false); // new ones work
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1 || !lock.spies.lost.isEmpty(); }));
    QVERIFY(lock.isHeld());
    QVERIFY(lock.spies.lost.isEmpty());
}

// An acquire that failed for want of a reply reaches the server after the next connection is up. It must leave no key.
void tst_ConnectionFaults::lateCommandOfAnOldConnection()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));

    lock.setOptions(options(LongLease, 200ms));
    for (int i = 1; i <= 2; ++i) {
        proxy.setHeld(true);
        lock.acquire();
        QVERIFY(eventually([&] { return lock.spies.failed.size() == i; }));
        QCOMPARE(lock.spies.failure(i - 1), DistributedLock::ConnectionError);
        if (i == 2) // the client closes the connection
            QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }));
        proxy.setHeld(false);
        TestLock other(&registry, u"other"_s);
        QVERIFY(acquireNow(&other));
        QVERIFY(releaseNow(&other));
        QVERIFY(eventually([&] { return proxy.connections() <= 2 && lockKeys(m_server).isEmpty(); }));
    }
    QCOMPARE(lock.spies.acquired.size(), 1);
}

void tst_ConnectionFaults::latencyBeyondTheBeat()
{
    leavesRoomFor(300ms);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s,
                  options(1500ms)); // renews every 500 ms, before the reply to the last renewal arrives
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; })); // the server knows the scripts now
    QVERIFY(releaseNow(&lock));

    proxy.setLatency(260ms, 260ms);
    QVERIFY(acquireNow(&lock));
    lock.spies.renewed.clear();
    QVERIFY(lock.remainingTime() <= 1500ms - 520ms - 17ms);
    const qint64 before = proxy.commandsForwarded("EVALSHA");
    QElapsedTimer timer;
    timer.start();
    QVERIFY(eventually([&] { return lock.spies.renewed.size() >= 3 || !lock.spies.lost.isEmpty(); }));
    QVERIFY(lock.spies.lost.isEmpty());
    // One renewal at a time: at most one for each round trip, and each is answered.
    const qint64 sent = proxy.commandsForwarded("EVALSHA") - before;
    QVERIFY2(sent <= timer.elapsed() / 520 + 2, qPrintable(QString::number(sent)));
    QVERIFY(sent <= lock.spies.renewed.size() + 1);
    QVERIFY(lock.isHeld());
}

void tst_ConnectionFaults::latencyBeyondTheLease()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, options(LongLease, 2 * LongLease));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    // A subscription that begins while it waits would bring another attempt at once.
    QVERIFY(eventually([&] { return LockRegistryPrivate::get(&registry)->engine()->canBeWoken({}); }));
    const qint64 sent = proxy.commandsForwarded("EVALSHA");
    proxy.setRepliesHeld(true);
    lock.acquire();
    sendNow();
    QVERIFY(proxy.waitForCommands(sent + 1, "EVALSHA"));
    registry.pass(LongLease);
    proxy.setRepliesHeld(false);
    // The reply has been read, and the key is given up.
    QVERIFY(eventually([&] { return proxy.commandsForwarded("EVALSHA") > sent + 1; }));
    registry.pass(LongLease);
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 2; }));
    QCOMPARE(lock.spies.acquired.size(), 1);
    QCOMPARE(lock.spies.failure(), DistributedLock::ConnectionError);
    QVERIFY2(lock.errorString().contains(QLatin1String("lease")), qPrintable(lock.errorString()));
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

void tst_ConnectionFaults::slicedReplies()
{
    FaultProxy proxy(m_server);
    proxy.setSlicing(2);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    for (int i = 1; i <= 10; ++i) {
        QVERIFY(acquireNow(&lock));
        lock.release();
        QVERIFY(eventually([&] { return lock.spies.released.size() == i; }));
    }
    QVERIFY(lock.spies.errors.isEmpty());
}

void tst_ConnectionFaults::subscriptionLost()
{
    StillRegistry registry(m_server.url());
    LockRegistry other(m_server.url());
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const QByteArray channel = "lock:client:" + m_server.get("lock:job").split(':').first();
    QVERIFY(eventually([&] { return m_server.subscriberCount(channel) == 1; }));
    const qint64 made = m_server.info("stats", "total_connections_received").toLongLong();
    m_server.command({"CLIENT", "KILL", "TYPE", "pubsub"});
    QVERIFY(eventually([&] {
        return m_server.info("stats", "total_connections_received").toLongLong() > made
                && m_server.subscriberCount(channel) == 1;
    }));
    QVERIFY(lock.isHeld());
    other.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
}

// The server disconnects a subscriber that does not read. The waiter subscribes again, and polls at once.
void tst_ConnectionFaults::subscriptionOverrun()
{
    RedisServer::Options serverOptions;
    serverOptions.config = {"client-output-buffer-limit pubsub 64kb 0 0"};
    Started<RedisServer> server(serverOptions);
    server.command({"SET", Key, "00000000000000ff:1:00000000000000000000000000000001", "PX",
                    "6000000"}); // a token of the library's form
    StillRegistry registry(server.url());
    TestLock lock(&registry, Name, options(LongLease, LockOptions::Forever));
    QVERIFY(joinQueue(&lock));
    const QByteArray member = server.command({"ZRANGE", Queue, "0", "0"}).toList().value(0).toByteArray();
    const QByteArray channel = "lock:client:" + member.split(':').first();
    QCOMPARE(server.subscriberCount(channel), 1);

    // No event loop runs meanwhile, so that nothing reads.
    const QByteArray large(100'000, 'x');
    for (int i = 0; i < 1000 && server.subscriberCount(channel) == 1; ++i)
        server.command({"PUBLISH", channel, large});
    QCOMPARE(server.subscriberCount(channel), 0);
    server.command({"DEL", Key}); // publishes nothing
    // Its clock never advances, so a waiter with a subscription would not poll.
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(eventually([&] { return server.subscriberCount(channel) == 1; }));
}

// The subscription is dead. The server knows, and drops the waiter from the queue whenever its turn comes; the client
// does not know. Others keep waiting in that queue.
void tst_ConnectionFaults::subscriptionHalfOpen()
{
    Started<RedisServer> server;
    FaultProxy proxy(server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, Name, options(30s, LockOptions::Forever));
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1 && !server.channels().isEmpty(); }));

    proxy.setBlackHole(true); // only the present connections
    proxy.setBlackHole(false);
    QVERIFY(server.restart());
    std::vector<std::unique_ptr<Contender>> contenders;
    for (int i = 0; i < 3; ++i)
        contenders.push_back(std::make_unique<Contender>(server.url()));
    QVERIFY(eventually([&] { return contenders.front()->turns() > 10; }));
    lock.acquire();
    // A client in which nobody waits checks its subscription once a minute.
    QVERIFY2(eventually([&] { return lock.spies.acquired.size() == 2; }, 45s),
             qPrintable(u"no turn, while another had %1"_s.arg(contenders.front()->turns())));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ConnectionFaults)
#include "tst_connectionfaults.moc"
