// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Faults that need a server of their own kind: another clock, a replica, little memory. What else can happen
// to a lock is in tst_faults.cpp; docs/chaos.md tells which fault is shown where.

#include "locktesting.h"

#include "support/faultproxy.h"

#include <QtCore/qfile.h>
#include <QtCore/qprocess.h>
#include <QtCore/qtemporarydir.h>

#include <memory>
#include <vector>

#include <signal.h>

using namespace LockTesting;
using namespace Support;

namespace {

const QString Name = QStringLiteral("job");
const QByteArray Key = QByteArrayLiteral("lock:job");
const QByteArray Queue = QByteArrayLiteral("{lock:job}:queue");

/// A wall clock that can be moved while the programs that look at it run.
class ShiftedClock
{
public:
    ShiftedClock() { shift(0ms); }

    QStringList environment() const
    {
        return {QStringLiteral("LD_PRELOAD=" CLOCKSHIFT), QStringLiteral("CLOCKSHIFT_FILE=") + fileName(),
                // Its runtime wants to be the first that is loaded, where it is there at all.
                QStringLiteral("ASAN_OPTIONS=verify_asan_link_order=0")};
    }
    void shift(milliseconds by)
    {
        const qint64 nanoseconds = std::chrono::nanoseconds(by).count();
        QFile file(fileName());
        if (!file.open(QIODevice::ReadWrite))
            qFatal("cannot write %ls", qUtf16Printable(file.fileName()));
        file.write(reinterpret_cast<const char *>(&nanoseconds), sizeof(nanoseconds));
    }

private:
    QString fileName() const { return m_folder.filePath(QStringLiteral("shift")); }
    QTemporaryDir m_folder;
};

RedisServer::Options withClock(const ShiftedClock &clock)
{
    RedisServer::Options options;
    options.environment = clock.environment();
    return options;
}

qint64 secondsOf(RedisServer &server)
{
    return server.command({"TIME"}).toList().value(0).toLongLong();
}

/// Takes its turns of a lock, for ever.
class Contender
{
public:
    Contender(const QUrl &url)
        : m_registry(url)
        , m_lock(&m_registry, Name)
    {
        m_lock.setOptions(options(1s, LockOptions::Forever));
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

class tst_FaultRows : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void serverSleepsBriefly();
    void serverSleepsPastTheLease();
    void noReplicas();
    void keyEvicted();
    void serverClockForward();
    void serverClockBackward();
    void orderWhileServerClockGoesBack();
    void clientClockJumps();
    void failoverLosesTheKey();
    void subscriptionOverrun();
    void subscriptionHalfOpen();
};

// DEBUG SLEEP: the server stands still, the connection does not notice.
void tst_FaultRows::serverSleepsBriefly()
{
    RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(3s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    RespClient sleeper;
    QVERIFY(sleeper.connectToUnix(server.socketPath()));
    QVERIFY(sleeper.send(Resp::encodeCommand({"DEBUG", "SLEEP", "1.3"}))); // the first renewal falls into it
    QVERIFY(eventually([&] { return spies.renewed.size() == 2; }));
    QVERIFY(spies.lost.isEmpty());
    QVERIFY(lock.isHeld());
    QVERIFY(server.exists(Key));
}

void tst_FaultRows::serverSleepsPastTheLease()
{
    RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(500ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    RespClient sleeper;
    QVERIFY(sleeper.connectToUnix(server.socketPath()));
    QVERIFY(sleeper.send(Resp::encodeCommand({"DEBUG", "SLEEP", "1.5"})));
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(!lock.isHeld());
    QVERIFY(spies.renewed.isEmpty()); // lost while it slept
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
}

void tst_FaultRows::noReplicas()
{
    RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.url());
    DistributedLock held(&registry, QStringLiteral("held"));
    held.setOptions(options(3s));
    Spies heldSpies(&held);
    QVERIFY(acquireNow(&held));
    server.command({"CONFIG", "SET", "min-replicas-to-write", "1"});
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(3s, 500ms));
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QLatin1String("NOREPLICAS")), qPrintable(lock.errorString()));
    QVERIFY(eventually([&] { return heldSpies.errors.size() == 1; })); // a renewal was refused
    server.command({"CONFIG", "SET", "min-replicas-to-write", "0"});
    QVERIFY(eventually([&] { return heldSpies.renewed.size() >= 1; }));
    QVERIFY(heldSpies.lost.isEmpty());
    QVERIFY(acquireNow(&lock));
}

// A server that may evict takes locks away; their holders learn of it.
void tst_FaultRows::keyEvicted()
{
    RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(3s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    server.command({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    QTRY_VERIFY(!server.exists(Key));
    QVERIFY(!server.exists("{lock:job}:fence"));
    server.command({"CONFIG", "SET", "maxmemory", "0"});
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }, 3s));
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
}

// The key's time is over at once: for the holder by its next renewal, for others right away.
void tst_FaultRows::serverClockForward()
{
    ShiftedClock clock;
    RedisServer server(withClock(clock));
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(3s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    const qint64 before = secondsOf(server);
    clock.shift(60s);
    QTRY_VERIFY(secondsOf(server) >= before + 60);
    QTRY_VERIFY(!server.exists(Key));
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }, 2500ms)); // a third of the lease, not all of it
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
    QVERIFY(server.pttl(Key) <= 3000);
}

// The key outlives its lease: a holder that renews sets that right, one that died keeps others out for longer.
void tst_FaultRows::serverClockBackward()
{
    ShiftedClock clock;
    RedisServer server(withClock(clock));
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(1500ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    const qint64 before = secondsOf(server);
    clock.shift(-120s);
    QTRY_VERIFY(secondsOf(server) <= before - 110);
    QVERIFY(eventually([&] { return spies.renewed.size() >= 2; }));
    QVERIFY(spies.lost.isEmpty());
    QVERIFY(lock.isHeld());
    QVERIFY(server.pttl(Key) <= 1500);

    // Tokens rise though the server's time does not.
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QVERIFY(!server.exists(Key));
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
    const qint64 second = lock.fencingToken();

    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 2; }));

    // A dead holder's key stays for as long as the clock went back.
    QProcess holder;
    holder.start(QStringLiteral(LOCKHOLDER), {server.url().toString(), Name, QStringLiteral("500")});
    QTRY_VERIFY(server.exists(Key));
    holder.kill();
    QVERIFY(holder.waitForFinished());
    clock.shift(-240s);
    lock.setWait(1s);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::TimeoutError);
    clock.shift(-119s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > second);
}

// Who came first is served first, whatever the server's clock says of it.
void tst_FaultRows::orderWhileServerClockGoesBack()
{
    ShiftedClock clock;
    RedisServer server(withClock(clock));
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.url());
    DistributedLock holder(&registry, Name);
    holder.setOptions(options(10min));
    QVERIFY(acquireNow(&holder));

    std::vector<std::unique_ptr<LockRegistry>> registries;
    std::vector<std::unique_ptr<DistributedLock>> waiters;
    QList<int> served;
    qint64 last = holder.fencingToken();
    for (int i = 0; i < 4; ++i) {
        registries.push_back(std::make_unique<LockRegistry>(server.url()));
        waiters.push_back(std::make_unique<DistributedLock>(registries.back().get(), Name));
        DistributedLock *const waiter = waiters.back().get();
        waiter->setOptions(options(10min, 1min));
        QObject::connect(waiter, &DistributedLock::acquired, waiter, [&, waiter, i] {
            served.append(i);
            QVERIFY(waiter->fencingToken() > last);
            last = waiter->fencingToken();
            waiter->release();
        });
        if (i == 2) {
            const qint64 before = secondsOf(server);
            clock.shift(-120s);
            QTRY_VERIFY(secondsOf(server) <= before - 110);
        }
        waiter->acquire();
        QVERIFY(eventually([&] { return waiter->queuePosition() == i; }));
    }
    holder.release();
    QVERIFY(eventually([&] { return served.size() == 4; }));
    QCOMPARE(served, QList<int>({0, 1, 2, 3}));
}

// The holder's own wall clock is of no account.
void tst_FaultRows::clientClockJumps()
{
    RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    ShiftedClock clock;
    QProcess holder;
    holder.setEnvironment(QProcess::systemEnvironment() + clock.environment());
    holder.start(QStringLiteral(LOCKHOLDER), {server.url().toString(), Name, QStringLiteral("900")});
    QByteArray output;
    const auto said = [&](const QByteArray &word) {
        output += holder.readAllStandardOutput();
        return output.contains(word);
    };
    QVERIFY2(eventually([&] { return said("acquired "); }), holder.readAllStandardError().constData());
    const QByteArray token = server.get(Key);
    for (const milliseconds by : {3600'000ms, -3600'000ms, 0ms}) {
        clock.shift(by);
        // Renewed: as often as to outlive the lease twice.
        for (int i = 0; i < 6; ++i) {
            QVERIFY(eventually([&] { return server.pttl(Key) < 700; }));
            QVERIFY(eventually([&] { return server.pttl(Key) > 800; }));
        }
        QCOMPARE(server.get(Key), token);
    }
    QVERIFY2(!said("lost"), output.constData());
    holder.kill();
    QVERIFY(holder.waitForFinished());
}

// A replica that never heard of the lock takes its master's place.
void tst_FaultRows::failoverLosesTheKey()
{
    RedisServer::Options options;
    options.tcp = true;
    RedisServer master(options);
    QVERIFY2(master.start(), qPrintable(master.errorString()));
    RedisServer::Options replicaOptions;
    replicaOptions.replicaOf = &master;
    RedisServer replica(replicaOptions);
    QVERIFY2(replica.start(), qPrintable(replica.errorString()));
    QTRY_COMPARE_WITH_TIMEOUT(replica.info("replication", "master_link_status"), QByteArray("up"), 20'000);

    // What clients connect to, like an address that moves.
    QTemporaryDir folder;
    const QString address = folder.filePath(QStringLiteral("master.sock"));
    QVERIFY(QFile::link(master.socketPath(), address));
    FaultProxy proxy(address);
    LockRegistry registry(proxy.url());
    LockRegistry others(proxy.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(LockTesting::options(4s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    replica.command({"REPLICAOF", "NO", "ONE"});
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    QVERIFY(!replica.exists(Key));

    DistributedLock waiter(&others, Name);
    waiter.setOptions(LockTesting::options(4s, LockOptions::Forever));
    Spies waiterSpies(&waiter);
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    master.kill();
    QVERIFY(QFile::remove(address));
    QVERIFY(QFile::link(replica.socketPath(), address));
    QVERIFY(eventually([&] { return waiterSpies.acquired.size() == 1; }));
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }, 4s));
    QVERIFY2(spies.reason() == DistributedLock::Stolen || spies.reason() == DistributedLock::Deleted,
             "it was told by the new master, before the lease was over");
    QVERIFY(waiter.isHeld());
    QVERIFY(waiter.fencingToken() > token); // the fence was lost as well
}

// The server ends a subscriber that does not read: the waiter subscribes again, and looks at once.
void tst_FaultRows::subscriptionOverrun()
{
    RedisServer::Options serverOptions;
    serverOptions.config = {"client-output-buffer-limit pubsub 64kb 0 0"};
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    server.command({"SET", Key, "00000000000000ff:1:00000000000000000000000000000001", "PX", "60000"}); // like ours
    LockRegistry registry(server.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(20s, LockOptions::Forever));
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    const QByteArray member = server.command({"ZRANGE", Queue, "0", "0"}).toList().value(0).toByteArray();
    const QByteArray channel = "lock:client:" + member.split(':').first();
    QCOMPARE(server.subscriberCount(channel), 1);

    // No event loop runs here: nobody reads.
    const QByteArray large(100'000, 'x');
    for (int i = 0; i < 1000 && server.subscriberCount(channel) == 1; ++i)
        server.command({"PUBLISH", channel, large});
    QCOMPARE(server.subscriberCount(channel), 0);
    server.command({"DEL", Key}); // and nobody is told
    // Sooner than a waiter looks that believes it will be told.
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }, 2s));
    QVERIFY(eventually([&] { return server.subscriberCount(channel) == 1; }));
}

// The connection of the subscription is dead, the client does not know, but the server does: it drops the
// waiter from the queue each time its turn comes. Others go on waiting in that queue.
void tst_FaultRows::subscriptionHalfOpen()
{
    RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(1s, LockOptions::Forever));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1 && !server.channels().isEmpty(); }));

    proxy.setBlackHole(true); // the connections that there are
    proxy.setBlackHole(false);
    QVERIFY(server.restart());
    std::vector<std::unique_ptr<Contender>> contenders;
    for (int i = 0; i < 3; ++i)
        contenders.push_back(std::make_unique<Contender>(server.url()));
    QVERIFY(eventually([&] { return contenders.front()->turns() > 10; }));
    lock.acquire();
    QVERIFY2(eventually([&] { return spies.acquired.size() == 2; }, 15s),
             qPrintable(QStringLiteral("no turn, while another had %1").arg(contenders.front()->turns())));
}

QTEST_GUILESS_MAIN(tst_FaultRows)
#include "tst_faultrows.moc"
