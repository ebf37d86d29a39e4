// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks on servers that execute no scripts, or may not: the promises hold, but nobody waits in a queue.

#include "base/leaseclock.h"
#include "engine/redis/redisengine.h"
#include "engine/token.h"
#include "enginefixture.h"
#include "support/fakesentinel.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/locktest.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/shiftedclock.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qloggingcategory.h>
#include <QtCore/qprocess.h>

#include <array>
#include <memory>
#include <thread>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;
using EngineTesting::Replies;
using QDistLock::EngineReply;

namespace {

QUrl withoutScripts(QUrl url)
{
    url.setQuery(u"scripts=off"_s);
    return url;
}

QByteArray bulk(const QByteArray &text)
{
    return '$' + QByteArray::number(text.size()) + "\r\n" + text + "\r\n";
}

} // namespace

class tst_PlainMode : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void holdWithoutScripts();
    void isLoggedOnce();
    void waitersPoll();
    void manyLocks();
    void fencingTokensRiseAcrossClients();
    void counterAcrossClients();
    void releaseWakesScriptedWaiter_data();
    void releaseWakesScriptedWaiter();
    void overtakesTheQueueOfAFreeLock();
    void forceRelease();
    void damagedFence_data();
    void damagedFence();
    void anotherType();

    void changedWhileReleasing();
    void changedWhileRenewing();
    void changedWhileAcquiring();
    void expiredBetweenReadAndChange_data() { addRows<bool>("isRenewal", {{"renew", true}, {"release", false}}); }
    void expiredBetweenReadAndChange();

    void lostReply_data();
    void lostReply();
    void releaseInDoubt_data() { addRows<bool>("isExecuted", {{"not executed", false}, {"executed", true}}); }
    void releaseInDoubt();
    void cancelInDoubt();
    void serverRestarted();

    void scriptsAreForbidden_data();
    void scriptsAreForbidden();
    void scriptsAreTakenAwayWhileHeldAndWaitedFor();
    void scriptsAreUnknown();
    void scriptIsNotAccepted();
    void neitherScriptsNorTransactions();
    void leastRights();
    void deleteIfEqual_data();
    void deleteIfEqual();
    void deleteIfEqualBesideARefusal();

    void fullServer();
    void masterOfAService();

    void nothingIsLeft_data();
    TIMING void nothingIsLeft();

private:
    QUrl plainUrl() const { return withoutScripts(m_server.url()); }
    qint64 scriptsRun() { return m_server.commandsProcessed("evalsha") + m_server.commandsProcessed("eval"); }
    void setUser(const QList<QByteArray> &rights)
    {
        m_server.command({"ACL", "DELUSER", "app"});
        m_server.command(QList<QByteArray>{"ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"} + rights);
    }
    QUrl userUrl(const QUrl &url) const
    {
        QUrl result = url;
        result.setUserName(u"app"_s);
        result.setPassword(u"secret"_s);
        return result;
    }
    /// The server has read the keys for a transaction, and the client does not know the replies yet.
    bool waitForRead(qint64 before)
    {
        return eventually([&] { return m_server.commandsProcessed("watch") > before; });
    }
};

void tst_PlainMode::initTestCase()
{
    RedisLockTest::initTestCase();
    QLoggingCategory::setFilterRules(u"qdistlock.*=true\nqdistlock.redis.debug=false"_s);
}

void tst_PlainMode::init()
{
    QVERIFY(m_server.start()); // if a test has ended it
    m_server.command({"CONFIG", "SET", "maxmemory", "0"});
    RedisLockTest::init();
    QVERIFY(eventually([&] { return m_server.connectedClients() == 0; }));
}

void tst_PlainMode::holdWithoutScripts()
{
    const qint64 scripts = scriptsRun();
    StillRegistry registry(plainUrl());
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > 0);
    QCOMPARE(m_server.get("{lock:job}:fence").toLongLong(), lock.fencingToken());
    const qint64 ttl = m_server.pttl("lock:job");
    QVERIFY2(ttl > 0 && ttl <= LongLease.count(), qPrintable(QString::number(ttl)));
    QVERIFY(m_server.pttl("{lock:job}:fence") > 6 * 86'400'000);
    for (int i = 1; i <= 3; ++i) {
        QCOMPARE(m_server.command({"PEXPIRE", "lock:job", "300000"}).toInt(), 1);
        registry.pass(LongLease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == i; }));
        QVERIFY(m_server.pttl("lock:job") > 300'000);
    }
    lock.acquire(); // re-entry
    QVERIFY(eventually([&] { return lock.holdCount() == 2; }));
    lock.release();
    QVERIFY(releaseNow(&lock));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QVERIFY(lock.spies.lost.isEmpty() && lock.spies.errors.isEmpty());
    QCOMPARE(scriptsRun(), scripts);
}

void tst_PlainMode::isLoggedOnce()
{
    LogCapture log;
    LockRegistry registry(plainUrl());
    for (int i = 0; i < 3; ++i) {
        TestLock lock(&registry, u"job"_s, {});
        QVERIFY(acquireNow(&lock));
        QVERIFY(releaseNow(&lock));
    }
    const QStringList said = log.messages(QtInfoMsg).filter(u"scripts"_s);
    QCOMPARE(said.size(), 1);
    QVERIFY2(said.first().contains(u"scripts=off"_s) && said.first().contains(u"waiters poll"_s),
             qPrintable(said.first()));
    QVERIFY(log.messages(QtWarningMsg).filter(u"scripts"_s).isEmpty());
}

void tst_PlainMode::waitersPoll()
{
    StillRegistry registry(plainUrl()); // it sends no renewals
    LockRegistry otherRegistry(plainUrl());
    TestLock holder(&registry, u"job"_s, options(LongLease));
    TestLock waiter(&otherRegistry, u"job"_s, options(30s, LockOptions::Forever));
    QVERIFY(acquireNow(&holder));
    const qint64 former = holder.fencingToken();
    waiter.acquire();
    const qint64 reads = m_server.commandsProcessed("watch");
    QVERIFY(eventually([&] { return m_server.commandsProcessed("watch") >= reads + 5; }));
    QCOMPARE(waiter.queuePosition(), -1);
    QVERIFY(!m_server.exists("{lock:job}:queue"));
    QVERIFY(eventually([&] { return m_server.channels().size() == 2; })); // for forced releases
    QDistLock::EngineError error;
    QVERIFY(!LockRegistryPrivate::get(&otherRegistry)->engine(&error)->canBeWoken({}));
    holder.release();
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QVERIFY(waiter.fencingToken() > former);
    // One that gives up leaves nothing, and the holder keeps the lock.
    holder.acquire();
    processEvents();
    holder.cancel();
    holder.tryAcquire();
    QVERIFY(eventually([&] { return holder.state() == DistributedLock::Unlocked; }));
    QCOMPARE(holder.error(), DistributedLock::BusyError);
    QVERIFY2(holder.errorString().contains(u"held by"_s), qPrintable(holder.errorString()));
    QVERIFY(waiter.isHeld());
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"lock:job"});
}

// More than share a transaction, and some of them change while they are read.
void tst_PlainMode::manyLocks()
{
    constexpr int Count = 300;
    LockRegistry registry(plainUrl());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < Count; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"job%1"_s.arg(i)));
        locks.back()->acquire();
    }
    std::thread disturber([this] {
        RespClient client;
        if (!client.connectToUnix(m_server.socketPath()))
            return;
        for (int i = 0; i < 2000; ++i)
            client.command({"SET", "{lock:job" + QByteArray::number(i % 100) + "}:fence", "7", "PX", "60000"});
    });
    const bool allHeld = eventually([&] { return all(locks, [](const auto &lock) { return lock->isHeld(); }); });
    disturber.join();
    QVERIFY(allHeld);
    QCOMPARE(lockKeys(m_server).size(), Count);
    for (const auto &lock : locks)
        lock->release();
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

void tst_PlainMode::fencingTokensRiseAcrossClients()
{
    LockRegistry plain(plainUrl());
    LockRegistry scripted(m_server.url());
    qint64 last = 0;
    for (int i = 0; i < 40; ++i) {
        DistributedLock lock(i % 3 == 0 ? &scripted : &plain, u"job"_s);
        lock.setOptions(options());
        Spies spies(&lock);
        QVERIFY(acquireNow(&lock));
        QVERIFY2(lock.fencingToken() > last, qPrintable(u"%1 after %2"_s.arg(lock.fencingToken()).arg(last)));
        last = lock.fencingToken();
        if (i == 20) { // ahead of the clock
            last += 3'600'000'000;
            m_server.command({"SET", "{lock:job}:fence", QByteArray::number(last)});
        }
        lock.release();
        QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    }
}

// Clients with and without scripts, and redis-py where it is installed, read and write a counter that only
// the lock guards: no update is lost.
void tst_PlainMode::counterAcrossClients()
{
    const int rounds = countFrom("QDISTLOCK_MIXED_ROUNDS", 40); // of each of seven clients
    const QString redisPy = u"import redis, sys\n"
                            "server = redis.Redis(unix_socket_path=sys.argv[1])\n"
                            "print('ready', flush=True)\n"
                            "for _ in range(int(sys.argv[2])):\n"
                            "    with server.lock('lock:job', timeout=60, sleep=0.001):\n"
                            "        server.set('counter', int(server.get('counter') or 0) + 1)\n"_s;
    ShiftedClock clock; // slow: no pause of the machine ends a hand-over at the server
    RedisServer::Options serverOptions = RedisServer::Options::withTcp();
    serverOptions.environment = clock.environment();
    Started<RedisServer> server(serverOptions);
    clock.slowDown(20);
    QProcess python;
    python.start(u"/usr/bin/python3"_s, {u"-c"_s, redisPy, server.socketPath(), QString::number(rounds)});
    const bool hasPython = python.waitForReadyRead(60'000);
    if (!hasPython)
        qInfo("without redis-py, which is not installed");
    const QUrl urls[] = {withoutScripts(server.url()), server.url(), withoutScripts(server.tcpUrl())};
    std::vector<std::unique_ptr<LockRegistry>> registries;
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int done = 0;
    int inside = 0;
    int overlaps = 0;
    qint64 last = 0;
    int notRising = 0;
    for (int i = 0; i < 6; ++i) {
        registries.push_back(std::make_unique<LockRegistry>(urls[i % 3]));
        locks.push_back(std::make_unique<TestLock>(registries.back().get(), u"job"_s,
                                                   options(30s, LockOptions::Forever).withRetryInterval(1ms)));
        DistributedLock *const lock = locks.back().get();
        auto *const turns = new int(0);
        connect(lock, &QObject::destroyed, lock, [turns] { delete turns; });
        connect(lock, &DistributedLock::acquired, this, [&, lock, turns] {
            overlaps += ++inside != 1;
            notRising += lock->fencingToken() <= std::exchange(last, lock->fencingToken());
            const int value = server.get("counter").toInt();
            server.command({"SET", "counter", QByteArray::number(value + 1)});
            --inside;
            ++*turns;
            lock->release();
        });
        const auto next = [&, lock, turns] {
            if (*turns < rounds)
                lock->acquire();
            else
                ++done;
        };
        connect(lock, &DistributedLock::released, this, next);
        // A pause of the machine was longer than the claim time, after acquired(), or before it.
        connect(lock, &DistributedLock::lost, this, next);
        connect(lock, &DistributedLock::acquireFailed, this, next);
        lock->acquire();
    }
    QVERIFY(eventually([&] { return done == 6 && python.state() == QProcess::NotRunning; }, 60s + rounds * 100ms));
    QCOMPARE(server.get("counter").toInt(), (hasPython ? 7 : 6) * rounds);
    qInfo("%d acquisitions", (hasPython ? 7 : 6) * rounds);
    QCOMPARE(overlaps, 0);
    QCOMPARE(notRising, 0);
    QCOMPARE(server.keys("{lock:job}:queue"), QList<QByteArray>());
}

void tst_PlainMode::releaseWakesScriptedWaiter_data()
{
    addColumns<milliseconds, QList<QByteArray>>("minHold", "before");
    const QByteArray dead = QDistLock::TokenGenerator().makeToken();
    QTest::newRow("free") << 0ms << QList<QByteArray>();
    QTest::newRow("kept") << 1000ms << QList<QByteArray>();
    QTest::newRow("behind no token") << 0ms << QList<QByteArray>{"garbage"};
    QTest::newRow("behind one that has ended") << 0ms << QList<QByteArray>{dead};
    QTest::newRow("kept, behind both") << 1000ms << QList<QByteArray>{"garbage", '*' + dead};
}

void tst_PlainMode::releaseWakesScriptedWaiter()
{
    QFETCH(milliseconds, minHold);
    QFETCH(QList<QByteArray>, before); // in the queue
    StillRegistry plain(plainUrl());
    StillRegistry scripted(m_server.url()); // its waiters do not poll
    TestLock holder(&plain, u"job"_s, options(LongLease).withMinHold(minHold));
    TestLock first(&scripted, u"job"_s, options(LongLease, LockOptions::Forever).withRetryInterval(LongLease));
    TestLock second(&scripted, u"job"_s, first.options());
    QVERIFY(acquireNow(&holder));
    DistributedLock witness(&scripted, u"witness"_s); // its loss comes through the channel of the waiters
    witness.setOptions(options(LongLease));
    QVERIFY(acquireNow(&witness));
    QVERIFY(joinQueue(&first));
    QVERIFY(joinQueue(&second, 1));
    for (const QByteArray &member : before)
        m_server.command({"ZADD", "{lock:job}:queue", "0", member});
    holder.release();
    if (minHold > 0ms) {
        plain.forceRelease(u"witness"_s);
        QVERIFY(eventually([&] { return !witness.isHeld(); }));
        m_server.command({"PEXPIRE", "lock:job", "1"});
        QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
        QVERIFY(!first.isHeld());
        scripted.pass(minHold + 20ms); // without a message, it would poll after two seconds
    }
    QVERIFY(eventually([&] { return first.isHeld(); }));
    first.release();
    QVERIFY(eventually([&] { return second.isHeld(); }));
}

// A lock that nobody has handed over is free to whoever comes first; the queue stays as it is.
void tst_PlainMode::overtakesTheQueueOfAFreeLock()
{
    LockRegistry plain(plainUrl());
    StillRegistry scripted(m_server.url()); // its waiter does not poll
    TestLock waiter(&scripted, u"job"_s, options(LongLease, LockOptions::Forever));
    m_server.command({"SET", "lock:job", "0000000000000000:1:00", "PX", "600000"}); // will not tell anybody
    QVERIFY(joinQueue(&waiter));
    const QVariant queue = m_server.command({"ZRANGE", "{lock:job}:queue", "0", "-1", "WITHSCORES"});
    m_server.command({"DEL", "lock:job"});
    TestLock lock(&plain, u"job"_s);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(m_server.command({"ZRANGE", "{lock:job}:queue", "0", "-1", "WITHSCORES"}), queue);
    QVERIFY(!waiter.isHeld());
    lock.release();
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

void tst_PlainMode::forceRelease()
{
    StillRegistry plain(plainUrl()); // the holder is not renewed, so it does not notice that it has lost the lock
    StillRegistry scripted(m_server.url());
    for (StillRegistry *const registry : {&plain, &scripted}) { // connected
        DistributedLock lock(registry, u"other"_s);
        QVERIFY(acquireNow(&lock));
    }
    for (const auto &[holding, forcing] : {std::pair(&plain, &scripted), {&scripted, &plain}, {&plain, &plain}}) {
        TestLock lock(holding, u"job"_s, options(LongLease));
        QVERIFY(acquireNow(&lock));
        const QByteArray client = m_server.get("lock:job").split(':').first();
        QVERIFY(eventually([&] { return m_server.subscriberCount("lock:client:" + client) == 1; }));
        const auto released = awaited(forcing->forceRelease(u"job"_s));
        QCOMPARE(released.value, LockRegistry::Done);
        QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
        QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
        QVERIFY(!m_server.exists("lock:job"));
        const auto again = awaited(forcing->forceRelease(u"job"_s));
        QCOMPARE(again.value, LockRegistry::NotHeld);
    }
    const auto infos = awaited(plain.list(u"*"_s));
    QVERIFY(infos.value.isEmpty());
}

void tst_PlainMode::damagedFence_data()
{
    addColumns<QByteArray, bool>("fence", "isRefused");
    QTest::newRow("text") << QByteArray("nan") << false;
    QTest::newRow("negative") << QByteArray("-1") << false;
    QTest::newRow("empty") << QByteArray("") << false;
    QTest::newRow("greatest") << QByteArray("9007199254740990") << false;
    QTest::newRow("too great") << QByteArray("9007199254740991") << true;
    QTest::newRow("beyond 64 bits") << QByteArray("99999999999999999999") << true;
}

void tst_PlainMode::damagedFence()
{
    QFETCH(QByteArray, fence);
    QFETCH(bool, isRefused);
    m_server.command({"SET", "{lock:job}:fence", fence});
    LockRegistry registry(plainUrl());
    TestLock lock(&registry, u"job"_s);
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1; }));
    QCOMPARE(lock.isHeld(), !isRefused);
    if (isRefused) {
        QCOMPARE(lock.spies.failure(), DistributedLock::ServerError);
        QVERIFY2(lock.errorString().contains(u"delete its key"_s), qPrintable(lock.errorString()));
        QCOMPARE(m_server.get("{lock:job}:fence"), fence);
        QVERIFY(!m_server.exists("lock:job"));
    }
}

void tst_PlainMode::anotherType()
{
    m_server.command({"RPUSH", "lock:job", "x"});
    LockRegistry registry(plainUrl());
    TestLock lock(&registry, u"job"_s);
    QCOMPARE(failureNow(&lock), DistributedLock::ForeignTypeError);
    QCOMPARE(m_server.command({"LLEN", "lock:job"}).toInt(), 1);
}

// Between the read that finds our token and the change, somebody else has got the lock. Nothing happens to it.
void tst_PlainMode::changedWhileReleasing()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(withoutScripts(proxy.url()));
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const qint64 reads = m_server.commandsProcessed("watch");
    proxy.setRepliesHeld(true);
    lock.release();
    QVERIFY(waitForRead(reads));
    m_server.command({"SET", "lock:job", "theirs", "PX", "600000"});
    proxy.setRepliesHeld(false);
    QVERIFY(eventually([&] { return lock.spies.holdsEnded() == 1; }));
    QCOMPARE(lock.spies.lost.size(), 1);
    QCOMPARE(lock.spies.reason(), DistributedLock::Stolen);
    QCOMPARE(m_server.get("lock:job"), QByteArray("theirs"));
}

void tst_PlainMode::changedWhileRenewing()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(withoutScripts(proxy.url()));
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const qint64 reads = m_server.commandsProcessed("watch");
    proxy.setRepliesHeld(true);
    registry.pass(LongLease / 3);
    QVERIFY(waitForRead(reads));
    m_server.command({"SET", "lock:job", "theirs", "PX", "3600000"});
    proxy.setRepliesHeld(false);
    QVERIFY(eventually([&] { return lock.spies.holdsEnded() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Stolen);
    QVERIFY(m_server.pttl("lock:job") > 1'800'000);
}

void tst_PlainMode::changedWhileAcquiring()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(withoutScripts(proxy.url()));
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever).withMaxRetries(0));
    QVERIFY(acquireNow(&lock)); // connected
    QVERIFY(releaseNow(&lock));
    const qint64 reads = m_server.commandsProcessed("watch");
    const QByteArray fence = m_server.get("{lock:job}:fence");
    proxy.setRepliesHeld(true);
    lock.acquire();
    QVERIFY(waitForRead(reads));
    // A stamp that has passed would be overwritten, and a token that was deleted would be too.
    m_server.command({"SET", "lock:job", "theirs", "PX", "600000"});
    proxy.setRepliesHeld(false);
    QVERIFY(registry.passUntil([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
    QCOMPARE(m_server.get("lock:job"), QByteArray("theirs"));
    QCOMPARE(m_server.get("{lock:job}:fence"), fence);

    // The same with a deadline that has passed, which two clients take over at once.
    m_server.command({"SET", "lock:job", "1000000000000"});
    const QVariantList time = m_server.command({"TIME"}).toList();
    m_server.command({"SET", "lock:job", QByteArray::number(time.value(0).toLongLong() * 1000 - 5000)});
    const qint64 again = m_server.commandsProcessed("watch");
    proxy.setRepliesHeld(true);
    lock.acquire();
    QVERIFY(waitForRead(again));
    m_server.command({"SET", "lock:job", "theirs", "PX", "600000"});
    proxy.setRepliesHeld(false);
    QVERIFY(registry.passUntil([&] { return lock.spies.failed.size() == 2; }));
    QCOMPARE(m_server.get("lock:job"), QByteArray("theirs"));
}

// The key expires between GET and EXEC, and the server executes the transaction all the same: its reply is 0.
void tst_PlainMode::expiredBetweenReadAndChange()
{
    QFETCH(bool, isRenewal);
    QByteArray token;
    FakeServer server([&token](const QList<QByteArray> &arguments, int) -> FakeServer::Answer {
        const QByteArray name = arguments.value(0).toUpper();
        static thread_local int changes = 0;
        if (name == "COMMAND" || name == "ZRANGE")
            return {"*0\r\n"};
        if (name == "MULTI")
            changes = 0;
        if (name == "MULTI" || name == "WATCH" || name == "UNWATCH")
            return {"+OK\r\n"};
        if (name == "TIME")
            return {"*2\r\n" + bulk("1700000000") + bulk("0")};
        if (name == "PTTL")
            return {":-2\r\n"};
        if (name == "GET") {
            const bool isToken = !token.isEmpty() && arguments.value(1) == "lock:job";
            return {isToken ? bulk(token) : QByteArray("$-1\r\n")};
        }
        if (name == "SET" && arguments.value(1) == "lock:job")
            token = arguments.value(2);
        if (name == "SET" || name == "PEXPIRE" || name == "DEL") {
            changes += name == "SET" ? 10 : 1;
            return {"+QUEUED\r\n"};
        }
        if (name == "EXEC")
            return {changes == 20 ? "*2\r\n+OK\r\n+OK\r\n" : changes == 1 ? "*1\r\n:0\r\n" : "*0\r\n"};
        return {"-ERR unknown command\r\n"};
    });
    QString error;
    const auto url = QtRedis::ServerUrl::parse(withoutScripts(server.url()), &error);
    QVERIFY2(url, qPrintable(error));
    QDistLock::RedisEngine engine(*url, QDistLock::LeaseClock::system());
    engine.open();
    QVERIFY(eventually([&] { return engine.state() == QDistLock::LockEngine::Ready; }));
    const QDistLock::LockId id = EngineTesting::lockId(u"job"_s);
    const QByteArray mine = engine.makeToken();
    Replies replies;
    engine.acquire(EngineTesting::acquireOf(id, mine, 20s), replies.next());
    QVERIFY(eventually([&] { return replies.list.size() == 1; }));
    QCOMPARE(replies.list.at(0).status, EngineReply::Granted);
    if (isRenewal)
        engine.renew(id, mine, 20s, {}, replies.next());
    else
        engine.release(id, mine, 20s, 0ms, replies.next());
    QVERIFY(eventually([&] { return replies.list.size() == 2; }));
    QCOMPARE(replies.list.at(1).status, EngineReply::Gone);
}

void tst_PlainMode::lostReply_data()
{
    addColumns<QByteArray, bool>("command", "isExecuted");
    for (const char *const command : {"WATCH", "GET", "MULTI", "SET", "EXEC"}) {
        QTest::addRow("before %s", command) << QByteArray(command) << false;
        QTest::addRow("after %s", command) << QByteArray(command) << true;
    }
}

// The connection breaks anywhere in a transaction: the acquire is repeated, and knows its token again.
void tst_PlainMode::lostReply()
{
    QFETCH(QByteArray, command);
    QFETCH(bool, isExecuted);
    FaultProxy proxy(m_server);
    StillRegistry registry(withoutScripts(proxy.url()));
    TestLock other(&registry, u"other"_s, options(LongLease));
    QVERIFY(acquireNow(&other)); // connected, and asked what the server can do
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    if (isExecuted)
        proxy.cutAfter(command);
    else
        proxy.cutBefore(command);
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.spies.acquiresEnded() == 1; }));
    QCOMPARE(proxy.faultsDone(), 1);
    QVERIFY2(lock.isHeld(), qPrintable(lock.errorString()));
    QCOMPARE(m_server.get("{lock:job}:fence").toLongLong(), lock.fencingToken());
    QVERIFY(other.isHeld());
    QVERIFY(releaseNow(&lock));
    QVERIFY(!m_server.exists("lock:job"));
    QVERIFY(lock.spies.lost.isEmpty());
}

void tst_PlainMode::releaseInDoubt()
{
    QFETCH(bool, isExecuted);
    FaultProxy proxy(m_server);
    StillRegistry registry(withoutScripts(proxy.url()));
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    if (isExecuted)
        proxy.cutAfter("EXEC");
    else
        proxy.cutBefore("EXEC");
    const auto released = lock.releaseAsync();
    QVERIFY(registry.passUntil([&] { return released.isFinished(); }));
    QVERIFY(released.result());
    QCOMPARE(proxy.faultsDone(), 1);
    QCOMPARE(lock.spies.released.size(), 1);
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(!m_server.exists("lock:job"));
}

// An acquire that was given up while nobody knew whether it had run.
void tst_PlainMode::cancelInDoubt()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(withoutScripts(proxy.url()));
    TestLock other(&registry, u"other"_s, options(LongLease));
    QVERIFY(acquireNow(&other));
    TestLock lock(&registry, u"job"_s, options(LongLease));
    const qint64 executed = m_server.commandsProcessed("exec");
    const qint64 reads = m_server.commandsProcessed("watch");
    proxy.setRepliesHeld(true);
    lock.acquire();
    QVERIFY(waitForRead(reads));
    proxy.setRepliesHeld(false);
    proxy.cutAfter("EXEC");
    proxy.setRefusing(true);
    QVERIFY(eventually([&] { return m_server.commandsProcessed("exec") > executed; }));
    lock.cancel();
    QVERIFY(m_server.exists("lock:job"));
    proxy.setRefusing(false);
    QVERIFY(registry.passUntil([&] { return !m_server.exists("lock:job"); }));
    QVERIFY(!lock.isHeld());
}

void tst_PlainMode::serverRestarted()
{
    StillRegistry registry(withoutScripts(m_server.tcpUrl()));
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    QVERIFY(acquireNow(&lock));
    const qint64 former = lock.fencingToken();
    QVERIFY(m_server.restart()); // forgets everything
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > former);
}

void tst_PlainMode::scriptsAreForbidden_data()
{
    addColumns<QList<QByteArray>, bool>("rights", "isLoaded");
    QTest::newRow("eval and evalsha") << QList<QByteArray>{"-eval", "-evalsha"} << false;
    QTest::newRow("evalsha") << QList<QByteArray>{"-evalsha"} << false;
    QTest::newRow("eval") << QList<QByteArray>{"-eval"} << false;
    QTest::newRow("scripting") << QList<QByteArray>{"-@scripting"} << false;
}

// Found out by itself, and said once.
void tst_PlainMode::scriptsAreForbidden()
{
    QFETCH(QList<QByteArray>, rights);
    m_server.command({"SCRIPT", "FLUSH"});
    setUser(rights);
    LogCapture log;
    StillRegistry registry(userUrl(m_server.url()));
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    const auto info = registry.inspect(u"job"_s);
    const auto list = registry.list(u"*"_s);
    const auto waiters = registry.waiters(u"job"_s);
    QVERIFY(eventually([&] { return info.isFinished() && list.isFinished() && waiters.isFinished(); }));
    QVERIFY(info.result().held && !info.result().foreign);
    QCOMPARE(info.result().fencingToken, lock.fencingToken());
    QVERIFY(info.result().remaining > 0ms && info.result().remaining <= LongLease);
    QCOMPARE(list.result().value.size(), 1);
    QVERIFY(waiters.result().value.isEmpty());
    for (int i = 1; i <= 2; ++i) {
        registry.pass(LongLease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == i; }));
    }
    QVERIFY(releaseNow(&lock));
    for (const QList<QVariant> &error : std::as_const(lock.spies.errors)) // a pause while it connected
        QCOMPARE(error.first().value<DistributedLock::Error>(), DistributedLock::ConnectionError);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    const QStringList said = log.messages(QtWarningMsg).filter(u"scripts"_s);
    QCOMPARE(said.size(), 1);
    QVERIFY2(said.first().contains(u"refuses scripts (\"NOPERM"_s), qPrintable(said.first()));
    QVERIFY(!log.text().contains(u"secret"_s));
}

// The right is taken away while one lock is held, and another one waits in the queue; later it is given back.
void tst_PlainMode::scriptsAreTakenAwayWhileHeldAndWaitedFor()
{
    setUser({});
    StillRegistry registry(userUrl(m_server.url()));
    StillRegistry holders(m_server.url());
    TestLock held(&registry, u"held"_s, options(LongLease));
    TestLock holder(&holders, u"job"_s, options(LongLease));
    TestLock waiter(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    QVERIFY(acquireNow(&held));
    QVERIFY(acquireNow(&holder));
    const qint64 former = holder.fencingToken();
    QVERIFY(joinQueue(&waiter));
    // Two more, whose locks are never handed over.
    DistributedLock polling(&registry, u"polling"_s);
    DistributedLock leaving(&registry, u"leaving"_s);
    for (DistributedLock *const lock : {&polling, &leaving}) {
        m_server.command({"SET", "lock:" + lock->name().toUtf8(), "0000000000000000:1:00", "PX", "600000"});
        lock->setOptions(options(LongLease, LockOptions::Forever));
        lock->acquire();
        QVERIFY(eventually([&] { return lock->queuePosition() == 0; }));
    }
    m_server.command({"ACL", "SETUSER", "app", "-eval", "-evalsha"});
    for (int i = 0; i < 2; ++i) {
        const qsizetype renewed = held.spies.renewed.size();
        registry.pass(LongLease / 3);
        QVERIFY(registry.passUntil([&] { return held.spies.renewed.size() > renewed; }));
    }
    QVERIFY(held.spies.lost.isEmpty() && held.spies.errors.isEmpty());
    // Its place in the queue is left, and it is served all the same.
    holder.release();
    QVERIFY(registry.passUntil([&] { return waiter.isHeld(); }));
    QVERIFY(waiter.fencingToken() > former);
    QVERIFY(registry.passUntil([&] { return m_server.pttl("lock:job") > 5000; })); // the whole lease
    QVERIFY(!m_server.exists("{lock:job}:queue"));
    // A holder that is still in the queue would be served when it releases the lock.
    m_server.command({"DEL", "lock:polling"});
    QVERIFY(registry.passUntil([&] { return polling.isHeld(); }));
    QVERIFY(!m_server.exists("{lock:polling}:queue"));
    leaving.cancel();
    QVERIFY(eventually([&] { return !m_server.exists("{lock:leaving}:queue"); }));
    QVERIFY(m_server.exists("lock:leaving"));
    waiter.release();
    QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
    // With a new connection, scripts are tried again.
    m_server.command({"ACL", "SETUSER", "app", "+eval", "+evalsha"});
    const qint64 scripts = scriptsRun();
    m_server.command({"CLIENT", "KILL", "USER", "app"});
    QVERIFY(eventually([&] { return scriptsRun() > scripts; }));
    QVERIFY(held.isHeld());
    QVERIFY(acquireNow(&holder));
    waiter.acquire();
    QVERIFY(registry.passUntil([&] { return waiter.queuePosition() == 0; }));
}

void tst_PlainMode::scriptsAreUnknown()
{
    RedisServer::Options serverOptions;
    serverOptions.config = {"rename-command EVAL \"\"", "rename-command EVALSHA \"\"", "rename-command SCRIPT \"\""};
    Started<RedisServer> server(serverOptions);
    LogCapture log;
    {
        LockRegistry registry(server.url());
        TestLock lock(&registry, u"job"_s);
        QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
        QVERIFY(eventually([&] { return server.channels().size() == 1; }));
        const auto forced = registry.forceRelease(u"job"_s);
        QVERIFY(eventually([&] { return forced.isFinished() && lock.spies.lost.size() == 1; }));
        QCOMPARE(forced.result().value, LockRegistry::Done);
        QVERIFY(acquireNow(&lock));
    }
    QVERIFY(eventually([&] { return lockKeys(server).isEmpty(); }));
    QCOMPARE(log.messages(QtWarningMsg).filter(u"refuses scripts (\"ERR unknown command"_s).size(), 1);
    QVERIFY2(!log.text().contains(u"lock:job"_s), qPrintable(log.text())); // an argument of the command
}

// A service that examines scripts before it executes them.
void tst_PlainMode::scriptIsNotAccepted()
{
    FaultProxy proxy(m_server);
    proxy.answer("-ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the "
                 "KEYS array, and KEYS should not be in expression\r\n",
                 "EVALSHA", 1, 1000);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    lock.release();
    QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
}

// Nothing may be written outside of a transaction.
void tst_PlainMode::neitherScriptsNorTransactions()
{
    setUser({"-eval", "-evalsha", "-multi"});
    for (const QUrl &url : {userUrl(m_server.url()), userUrl(plainUrl())}) {
        LockRegistry registry(url);
        TestLock lock(&registry, u"job"_s);
        QCOMPARE(failureNow(&lock), DistributedLock::PermissionError);
        const QString text = lock.errorString();
        QVERIFY2(text.contains(u"multi"_s, Qt::CaseInsensitive) && text.contains(u"grant"_s), qPrintable(text));
        QVERIFY2(text.contains(u"evalsha"_s) != url.hasQuery(), qPrintable(text));
        QCOMPARE(m_server.keys(), QList<QByteArray>());
    }
    // As soon as the user may, it works.
    setUser({});
    LockRegistry registry(userUrl(plainUrl()));
    DistributedLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock));
}

// The rights that docs/servers.md names.
void tst_PlainMode::leastRights()
{
    setUser({});
    m_server.command({"ACL",        "SETUSER",      "app",          "-@all",      "+ping",    "+client|setname",
                      "+client|id", "+client|list", "+client|kill", "+subscribe", "+scan",    "+get",
                      "+mget",      "+set",         "+del",         "+time",      "+pttl",    "+pexpire",
                      "+publish",   "+zrange",      "+zcard",       "+watch",     "+unwatch", "+multi",
                      "+exec",      "+command|info"});
    m_server.command({"ACL", "LOG", "RESET"});
    StillRegistry scripted(m_server.url()); // its waiter does not poll
    {
        StillRegistry registry(userUrl(plainUrl()));
        TestLock lock(&registry, u"job"_s);
        TestLock left(&registry, u"left"_s);
        TestLock waiter(&scripted, u"job"_s, options(LongLease, LockOptions::Forever));
        QVERIFY(acquireNow(&lock));
        QVERIFY(acquireNow(&left));
        registry.pass(10s); // a third of the lease
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
        QVERIFY(joinQueue(&waiter));
        const auto list = registry.list(u"*"_s);
        const auto waiters = registry.waiters(u"job"_s);
        QVERIFY(eventually([&] { return list.isFinished() && waiters.isFinished(); }));
        QCOMPARE(list.result().value.size(), 2);
        QCOMPARE(waiters.result().value.size(), 1);
        lock.release();
        QVERIFY(eventually([&] { return waiter.isHeld(); }));
        const auto forced = awaited(registry.forceRelease(u"job"_s));
        QCOMPARE(forced.value, LockRegistry::Done);
    }
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
    const QVariantList refusals = m_server.command({"ACL", "LOG"}).toList();
    QVERIFY2(refusals.isEmpty(), qPrintable(QString::number(refusals.size())));
}

void tst_PlainMode::deleteIfEqual_data()
{
    addColumns<QByteArray, QByteArray>("info", "command");
    const QByteArray known = "*1\r\n$5\r\ndelex\r\n";
    QTest::newRow("DELEX") << "*2\r\n" + known + "*-1\r\n" << QByteArray("DELEX");
    QTest::newRow("DELIFEQ") << "*2\r\n$-1\r\n" + known << QByteArray("DELIFEQ");
    QTest::newRow("both") << "*2\r\n" + known + known << QByteArray("DELEX");
}

// Where the server has a command that compares and deletes, a release is this command; where the user may not use it,
// a transaction.
void tst_PlainMode::deleteIfEqual()
{
    QFETCH(QByteArray, info);
    QFETCH(QByteArray, command);
    FaultProxy proxy(m_server);
    proxy.answer(info, "COMMAND");
    StillRegistry registry(withoutScripts(proxy.url()));
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    QVERIFY(acquireNow(&lock));
    proxy.answer(":1\r\n", command);
    const qint64 transactions = m_server.commandsProcessed("exec");
    QVERIFY(releaseNow(&lock));
    QCOMPARE(m_server.commandsProcessed("exec"), transactions);
    QCOMPARE(proxy.faultsDone(), 2);
    m_server.command({"DEL", "lock:job"}); // the proxy has not

    // This server does not know it: refused, and done with a transaction.
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.released.size() == 2; }));
    QVERIFY(!m_server.exists("lock:job"));
    QVERIFY(lock.spies.lost.isEmpty());

    // 0: it does not hold the token.
    proxy.answer(info, "COMMAND");
    proxy.closeAll();
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    m_server.command({"SET", "lock:job", "theirs", "PX", "600000"});
    proxy.answer(":0\r\n", command);
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.holdsEnded() == 3; }));
    QCOMPARE(lock.spies.lost.size(), 1);
    QCOMPARE(lock.spies.reason(), DistributedLock::Stolen);
    QCOMPARE(m_server.get("lock:job"), QByteArray("theirs"));
}

// It is done, although the user may not WATCH the key of another lock in the same transaction.
void tst_PlainMode::deleteIfEqualBesideARefusal()
{
    FaultProxy proxy(m_server);
    proxy.answer("*2\r\n*1\r\n$5\r\ndelex\r\n*-1\r\n", "COMMAND");
    StillRegistry registry(withoutScripts(proxy.url()));
    DistributedLock lock(&registry, u"job"_s);
    DistributedLock other(&registry, u"other"_s);
    for (DistributedLock *const each : {&lock, &other})
        each->setOptions(options(LongLease));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    m_server.command({"DEL", "lock:job"}); // the proxy will not
    proxy.answer(":1\r\n", "DELEX");
    proxy.answer(":0\r\n", "DELEX"); // if it is sent again
    proxy.answer("-NOPERM No permissions to access a key used as one of the command arguments\r\n", "WATCH");
    lock.release();
    other.acquire();
    QVERIFY(eventually([&] { return spies.holdsEnded() == 1 && other.isHeld(); }));
    QVERIFY2(spies.lost.isEmpty(), qPrintable(lock.errorString()));
    QCOMPARE(proxy.faultsDone(), 3);
}

// A server whose memory is full refuses to acquire. Redis 7 refuses every command behind MULTI, so that a held lock is
// lost in time; Redis 8 goes on renewing it.
void tst_PlainMode::fullServer()
{
    StillRegistry registry(plainUrl());
    TestLock held(&registry, u"held"_s, options(LongLease));
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    QVERIFY(acquireNow(&held));
    m_server.command({"CONFIG", "SET", "maxmemory", "1"});
    m_server.command({"MULTI"});
    const bool isRenewed = m_server.command({"PEXPIRE", "nothing", "1000"}).toByteArray() == "QUEUED";
    m_server.command({"DISCARD"});
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    if (isRenewed) {
        for (int i = 1; i <= 3; ++i) {
            registry.pass(LongLease / 3);
            QVERIFY(eventually([&] { return held.spies.renewed.size() == i; }));
        }
        QVERIFY(held.isHeld());
    } else {
        registry.pass(LongLease / 3);
        QVERIFY(eventually([&] { return held.spies.errors.size() == 1; }));
        QVERIFY(eventually([&] {
            registry.pass(LongLease / 300);
            return held.spies.lost.size() == 1;
        }));
        QCOMPARE(held.spies.reason(), DistributedLock::LeaseExpired);
        QCOMPARE(held.spies.errors.size(), 1);
    }
    QCOMPARE(lock.spies.errors.first().first().value<DistributedLock::Error>(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(u"OOM"_s), qPrintable(lock.errorString()));
    m_server.command({"CONFIG", "SET", "maxmemory", "0"});
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    QVERIFY(acquireNow(&held));
}

void tst_PlainMode::masterOfAService()
{
    Started<RedisServer> successor(RedisServer::Options::withTcp());
    FakeSentinel::View view;
    view.port = m_server.port();
    view.others = 2;
    std::vector<std::unique_ptr<FakeSentinel>> sentinels;
    QStringList addresses;
    for (int i = 0; i < 3; ++i) {
        sentinels.push_back(std::make_unique<FakeSentinel>(view));
        addresses += u"127.0.0.1:%1"_s.arg(sentinels.back()->port());
    }
    const QString server = u"redis+sentinel://%1/mymaster?node=%2&node=%3&scripts=off"_s.arg(
            addresses.at(0), addresses.at(1), addresses.at(2));
    const qint64 scripts = scriptsRun();
    {
        StillRegistry registry{QUrl(server)};
        TestLock lock(&registry, u"job"_s, options(LongLease));
        QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
        const qint64 former = lock.fencingToken();
        registry.pass(LongLease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
        // The successor has the key, but not its last renewal.
        successor.command({"SET", "lock:job", m_server.get("lock:job"), "PX", "600000"});
        successor.command({"SET", "{lock:job}:fence", QByteArray::number(former)});
        view.port = successor.port();
        view.epoch = 1;
        for (const auto &sentinel : sentinels)
            sentinel->setView(view);
        QVERIFY(eventually([&] { return sentinels.front()->isListenedTo(); }));
        sentinels.front()->reportSwitch(m_server.port(), successor.port());
        QVERIFY(eventually([&] { return lock.spies.renewed.size() >= 2; })); // at once, at the new master
        const qsizetype renewed = lock.spies.renewed.size();
        registry.pass(LongLease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() > renewed; }));
        QVERIFY(lock.isHeld());
        QVERIFY(successor.commandsProcessed("exec") > 0);
        QVERIFY(releaseNow(&lock));
        QVERIFY(!successor.exists("lock:job"));
        lock.setOptions(options()); // a short lease: if a pause of the machine prevents the release, the key expires
        QVERIFY(acquireNow(&lock));
        QVERIFY(lock.fencingToken() > former);
    }
    QCOMPARE(scriptsRun(), scripts);
    QVERIFY(eventually([&] { return lockKeys(successor).isEmpty(); }));
}

void tst_PlainMode::nothingIsLeft_data()
{
    addColumns<bool, int>("isTcp", "count");
    for (const bool isTcp : {false, true}) {
        for (const int count : {1, 100, 1000})
            QTest::addRow("%s, %d", isTcp ? "TCP" : "Unix socket", count) << isTcp << count;
    }
}

// A registry that is destroyed with many held locks, with acquires that have no reply yet, and with releases.
void tst_PlainMode::nothingIsLeft()
{
    constexpr qint64 Farewell = 1000; // ms for which a connection is kept to give back locks
    QFETCH(bool, isTcp);
    QFETCH(int, count);
    qint64 took = Farewell;
    // If a busy machine needs more than this time, locks may be left, and the attempt shows nothing.
    for (const QDeadlineTimer end(1min); took >= Farewell && !end.hasExpired();) {
        m_server.command({"FLUSHALL"});
        auto registry = std::make_unique<LockRegistry>(isTcp ? withoutScripts(m_server.tcpUrl()) : plainUrl());
        std::vector<std::unique_ptr<DistributedLock>> locks;
        const auto acquireSome = [&](const QString &name) {
            for (int i = 0; i < count; ++i) {
                locks.push_back(std::make_unique<TestLock>(registry.get(), name + QString::number(i),
                                                           options(60s, LockOptions::Forever)));
                locks.back()->acquire();
            }
        };
        acquireSome(u"held"_s);
        QVERIFY(eventually([&] { return all(locks, [](const auto &lock) { return lock->isHeld(); }); }));
        for (int i = 0; i < count; i += 3)
            locks[size_t(i)]->release();
        acquireSome(u"new"_s);
        sendNow();
        const LogCapture log; // a warning for each lock
        // Somebody else holds one of them by now.
        m_server.command({"SET", "lock:held0", "theirs", "PX", "600000"});
        QElapsedTimer timer;
        timer.start();
        registry.reset();
        QVERIFY(eventually([&] { return m_server.connectedClients() == 0; }));
        took = timer.elapsed();
    }
    const QList<QByteArray> left = lockKeys(m_server);
    QVERIFY2(left == QList<QByteArray>{"lock:held0"}, qPrintable(u"%1 keys after %2 ms"_s.arg(left.size()).arg(took)));
    QCOMPARE(m_server.get("lock:held0"), QByteArray("theirs"));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_PlainMode)

#include "tst_plainmode.moc"
