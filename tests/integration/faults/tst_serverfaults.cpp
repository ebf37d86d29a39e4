// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Faults of the process that holds a lock, and of the server: stopped, paused, restarted, full, a replica.

#include "support/locktest.h"

#include "support/eventually.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"
#include "support/testprogram.h"

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qfile.h>
#include <QtCore/qtemporarydir.h>

#include <memory>

#include <signal.h>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");

/// Another process that holds a lock.
class Holder : public TestProgram
{
public:
    Holder(const QUrl &server, const QString &name, milliseconds lease)
        : TestProgram(QStringLiteral(LOCKHOLDER), {server.toString(), name, QString::number(lease.count())})
    {
    }
};

/// Enough time on a busy machine, but far below any time-out that would hide a lost message.
constexpr milliseconds AtOnce = 700ms;

} // namespace

class tst_ServerFaults : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void init();
    void cleanup();

    // The holder's process.
    TIMING void killedHolder();
    TIMING void stoppedHolder();

    // The server.
    void serverPausedBeforeTheFirstNeed();
    void serverPausedWhileHeld();
    void clientsPaused();
    void serverSleepsBriefly();
    void serverSleepsPastTheLease();
    void serverRestartedWithoutPersistence();
    void serverRestartedWithAof();
    void scriptsFlushed();
    void outOfMemory();
    void readOnly();
    void noMaster();
    void noReplicas();
    void tooManyClients();
    void passingErrors_data();
    void passingErrors();
    void errorsForAWhile_data();
    void errorsForAWhile();
    void permanentError();
    void failoverLosesTheKey();
};

void tst_ServerFaults::init()
{
    RedisLockTest::init();
    m_server.command({"SCRIPT", "FLUSH"});
}

void tst_ServerFaults::cleanup()
{
    LockTest::cleanup();
    m_server.resume();
    m_server.command({"REPLICAOF", "NO", "ONE"});
    m_server.command({"CONFIG", "SET", "maxmemory", "0", "maxclients", "1000", "replica-serve-stale-data", "yes"});
}

void tst_ServerFaults::killedHolder()
{
    leavesRoomFor(300ms);
    Holder holder(m_server.url(), Name, 500ms);
    QVERIFY2(holder.waitForOutput("acquired "), holder.output().constData());
    TestLock lock(registry(), Name, options(500ms));
    lock.acquire();
    // The holder renews: it still holds the lock after its lease.
    const QByteArray token = m_server.get(Key);
    QVERIFY(!eventually([&] { return !lock.spies.acquired.isEmpty(); }, 700ms));
    QCOMPARE(m_server.get(Key), token);

    holder.sendSignal(SIGKILL);
    QElapsedTimer timer;
    timer.start();
    QVERIFY(eventually([&] { return !lock.spies.acquired.isEmpty(); }));
    // tst_queue measures the time on an idle machine.
    QVERIFY2(timer.elapsed() <= (500ms + AtOnce).count(), qPrintable(QString::number(timer.elapsed())));
}

void tst_ServerFaults::stoppedHolder()
{
    leavesRoomFor(200ms);
    Holder holder(m_server.url(), Name, 400ms);
    QVERIFY2(holder.waitForOutput("acquired "), holder.output().constData());
    const qint64 stoppedToken = holder.output().split(' ').value(1).trimmed().toLongLong();
    TestLock lock(registry(), Name, options(400ms));
    lock.acquire();
    holder.sendSignal(SIGSTOP);
    QVERIFY(eventually([&] { return !lock.spies.acquired.isEmpty(); }));
    QVERIFY(stoppedToken > 0);
    QVERIFY(lock.fencingToken() > stoppedToken);

    const QByteArray token = m_server.get(Key);
    holder.sendSignal(SIGCONT);
    QVERIFY(holder.waitForOutput("lost "));
    // isHeld() was false before any signal was emitted.
    const QList<QByteArray> lines = holder.output().trimmed().split('\n').mid(1);
    QCOMPARE(lines.value(0), QByteArray("continued not held"));
    QCOMPARE(lines.value(1), "lost " + QByteArray::number(int(DistributedLock::LeaseExpired)) + " not held");
    QCOMPARE(lines.size(), 2);
    // The stopped holder has not changed its successor's key.
    QVERIFY(eventually([&] { return lock.spies.renewed.size() >= 2; }));
    QCOMPARE(m_server.get(Key), token);
    QVERIFY(lock.spies.lost.isEmpty());
}

void tst_ServerFaults::serverPausedBeforeTheFirstNeed()
{
    LockRegistry registry(m_server.tcpUrl());
    TestLock lock(&registry, Name, options(30s, 300ms));
    m_server.pause();
    QCOMPARE(failureNow(&lock), DistributedLock::ConnectionError);
    QVERIFY(lock.errorString().contains(QLatin1String("\"job\"")));

    lock.setWaitTime(milliseconds(60s));
    lock.acquire();
    m_server.resume();
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
}

void tst_ServerFaults::serverPausedWhileHeld()
{
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, Name, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const QByteArray token = m_server.get(Key);
    m_server.pause();
    registry.pass(LongLease * 2 / 3);
    QVERIFY(eventually([&] { return lock.spies.atRisk.size() == 1; }));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.state(), DistributedLock::AtRisk);
    const int remaining = lock.spies.atRisk.at(0).at(0).toInt();
    const int margin = int((LongLease / 100 + 2ms).count());
    QVERIFY2(remaining > 0 && remaining <= LongLease.count() / 3 - margin + 1, qPrintable(QString::number(remaining)));
    m_server.resume();
    QVERIFY(eventually([&] { return !lock.spies.renewed.isEmpty(); }));
    QCOMPARE(lock.state(), DistributedLock::Held);
    QCOMPARE(m_server.get(Key), token);
    QVERIFY(lock.spies.lost.isEmpty());
}

void tst_ServerFaults::clientsPaused()
{
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, Name, options(LongLease));
    QVERIFY(acquireNow(&lock));
    m_server.command({"CLIENT", "PAUSE", "900", "ALL"});
    // A renewal is sent, and nothing is read before the lease has ended.
    registry.pass(LongLease / 3);
    registry.pass(LongLease * 2 / 3);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    // The server executes the renewal after the pause: too late, so that the lock is released again.
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
    QVERIFY(lock.spies.renewed.isEmpty());
    QVERIFY(acquireNow(&lock));
}

void tst_ServerFaults::serverRestartedWithoutPersistence()
{
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, Name, options(LongLease));
    QVERIFY(acquireNow(&lock));
    m_server.kill();
    QVERIFY(m_server.start());
    // The lost connection makes the lock check its key at once, not only after a third of the lease.
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
    QVERIFY(lock.spies.released.isEmpty());
    QVERIFY(acquireNow(&lock));
}

void tst_ServerFaults::serverRestartedWithAof()
{
    RedisServer::Options serverOptions;
    serverOptions.appendOnly = true;
    Started<RedisServer> server(serverOptions);
    StillRegistry registry(server.url());
    TestLock lock(&registry, Name, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const QByteArray token = server.get(Key);
    const qint64 fence = lock.fencingToken();
    server.kill();
    QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }));
    QVERIFY(lock.isHeld());
    QVERIFY(server.start());
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.fencingToken(), fence);
    QCOMPARE(server.get(Key), token);
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(releaseNow(&lock));
    QVERIFY(!server.exists(Key));
}

void tst_ServerFaults::scriptsFlushed()
{
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, Name, options(LongLease));
    for (int i = 1; i <= 2; ++i) {
        m_server.command({"SCRIPT", "FLUSH"});
        QVERIFY(acquireNow(&lock));
        m_server.command({"SCRIPT", "FLUSH"});
        registry.pass(LongLease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == i; }));
        m_server.command({"SCRIPT", "FLUSH"});
        lock.release();
        QVERIFY(eventually([&] { return lock.spies.released.size() == i; }));
    }
    QVERIFY(lock.spies.errors.isEmpty());
    QVERIFY(lock.spies.lost.isEmpty());
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_ServerFaults::outOfMemory()
{
    StillRegistry registry(m_server.url());
    TestLock held(&registry, u"held"_s, options(LongLease));
    QVERIFY(acquireNow(&held));
    TestLock lock(&registry, Name, options(LongLease, 500ms));

    m_server.command({"CONFIG", "SET", "maxmemory", "1"});
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    registry.pass(500ms);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QLatin1String("OOM")), qPrintable(lock.errorString()));
    // A renewal needs no more memory.
    const qsizetype renewed = held.spies.renewed.size();
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));

    lock.setWaitTime(milliseconds(10min));
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 2; }));
    m_server.command({"CONFIG", "SET", "maxmemory", "0"});
    QVERIFY(registry.passUntil([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(held.spies.lost.isEmpty());
}

void tst_ServerFaults::readOnly()
{
    StillRegistry registry(m_server.url());
    TestLock held(&registry, u"held"_s, options(LongLease));
    QVERIFY(acquireNow(&held));
    TestLock lock(&registry, Name, options(LongLease, 500ms));

    const UnansweredPort nobody;
    m_server.command({"REPLICAOF", "127.0.0.1", QByteArray::number(nobody.port())});
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    registry.pass(500ms);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QLatin1String("READONLY")), qPrintable(lock.errorString()));
    lock.setWaitTime(milliseconds(10min));
    lock.acquire();
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return held.spies.errors.size() == 1; })); // a renewal was refused
    QVERIFY(held.isHeld());

    m_server.command({"REPLICAOF", "NO", "ONE"});
    QVERIFY(registry.passUntil([&] { return lock.spies.acquired.size() == 1; }));
    QVERIFY(registry.passUntil([&] { return held.spies.renewed.size() == 1; }));
    QVERIFY(held.spies.lost.isEmpty());
    QCOMPARE(held.spies.errors.size(), 1);
    QCOMPARE(held.error(), DistributedLock::NoError);
}

void tst_ServerFaults::noMaster()
{
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, Name, options(LongLease, 1s));
    m_server.command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
    const UnansweredPort nobody;
    m_server.command({"REPLICAOF", "127.0.0.1", QByteArray::number(nobody.port())});
    lock.acquire();
    const bool refused = eventually([&] { return lock.spies.errors.size() == 1; });
    registry.pass(1s);
    const bool failed = eventually([&] { return lock.spies.failed.size() == 1; });
    lock.setWaitTime(milliseconds(10min));
    lock.acquire();
    m_server.command({"REPLICAOF", "NO", "ONE"});
    m_server.command({"CONFIG", "SET", "replica-serve-stale-data", "yes"});
    QVERIFY(refused);
    QVERIFY(failed);
    QCOMPARE(lock.spies.failure(), DistributedLock::ServerError);
    QVERIFY(registry.passUntil([&] { return lock.spies.acquired.size() == 1; }));
}

void tst_ServerFaults::tooManyClients()
{
    QVERIFY(eventually([&] { return m_server.connectedClients() == 0; })); // those of the previous test
    m_server.command({"CONFIG", "SET", "maxclients", "1"});                // the client of the test itself
    StillRegistry registry(m_server.url());
    // The error reply may be lost when the server closes the connection: not every attempt learns the reason.
    QStringList reasons;
    connect(&registry, &LockRegistry::errorChanged, this, [&] { reasons << registry.errorString(); });
    TestLock lock(&registry, Name, options(LongLease, 300ms));
    lock.acquire();
    const bool reasonKnown = eventually([&] { return !reasons.filter(u"maxclients"_s).isEmpty(); });
    registry.pass(300ms);
    const bool failed = eventually([&] { return lock.spies.failed.size() == 1; });
    const QString text = lock.errorString();
    lock.setWaitTime(milliseconds(10min));
    lock.acquire();
    m_server.command({"CONFIG", "SET", "maxclients", "1000"});
    QVERIFY2(reasonKnown, qPrintable(reasons.join(u'\n')));
    QVERIFY(failed);
    QVERIFY2(lock.spies.failure() == DistributedLock::ServerError
                     || lock.spies.failure() == DistributedLock::ConnectionError,
             qPrintable(text));
    QVERIFY(registry.passUntil([&] { return lock.spies.acquired.size() == 1; }));
}

void tst_ServerFaults::passingErrors_data()
{
    QTest::addColumn<QByteArray>("reply");
    for (const char *reply :
         {"-LOADING Redis is loading the dataset in memory\r\n", "-BUSY Redis is busy running a script.\r\n",
          "-MASTERDOWN Link with MASTER is down\r\n", "-READONLY You can't write against a read only replica.\r\n",
          "-CLUSTERDOWN The cluster is down\r\n", "-ERR no server connection available\r\n",
          "-NOREPLICAS Not enough good replicas to write.\r\n",
          "-MISCONF Redis is configured to save RDB snapshots\r\n"}) {
        QTest::newRow(QByteArray(reply).split(' ').first().constData()) << QByteArray(reply);
    }
}

void tst_ServerFaults::passingErrors()
{
    QFETCH(QByteArray, reply);
    FaultProxy proxy(m_server);
    StillRegistry registry(proxy.url());
    TestLock lock(&registry, Name, options(LongLease, LockOptions::Forever).withRetryInterval(5ms));
    // Two outages with less than a second between them count as one.
    LogCapture log;
    qsizetype outages = 0;
    const auto outageEnds = [&] {
        ++outages;
        return eventually([&] { return log.count({u"can be used again"_s}) >= outages; });
    };
    // Several times for each of acquire, renew and release.
    proxy.answer(reply, "EVALSHA", 1, 3);
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    QCOMPARE(proxy.faultsDone(), 3);
    QVERIFY(lock.spies.failed.isEmpty());
    QVERIFY(outageEnds());
    proxy.answer(reply, "EVALSHA", 1, 2);
    registry.pass(LongLease / 3);
    QVERIFY(registry.passUntil([&] { return lock.spies.renewed.size() == 1; }));
    QVERIFY(outageEnds());
    proxy.answer(reply, "EVALSHA", 1, 2);
    lock.release();
    QVERIFY(registry.passUntil([&] { return lock.spies.holdsEnded() == 1; }));
    QCOMPARE(lock.spies.released.size(), 1);
    QCOMPARE(proxy.faultsDone(), 7);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    // The error is reported once for each of acquire, renew and release, not once for each reply.
    QCOMPARE(lock.spies.errors.size(), 3);

    // tryAcquire() makes one attempt, and fails with this error.
    proxy.answer(reply, "EVALSHA");
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QString::fromLatin1(reply.mid(1, 6))), qPrintable(lock.errorString()));
}

void tst_ServerFaults::errorsForAWhile_data()
{
    addColumns<QByteArray, bool>("reply", "waits");
    for (const char *reply :
         {"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
          "-LOADING Redis is loading the dataset in memory\r\n", "-BUSY Redis is busy running a script.\r\n",
          "-MISCONF Redis is configured to save RDB snapshots\r\n",
          "-NOREPLICAS Not enough good replicas to write.\r\n",
          "-READONLY You can't write against a read only replica.\r\n", "-MASTERDOWN Link with MASTER is down\r\n"}) {
        QTest::newRow(QByteArray(reply).split(' ').first().constData()) << QByteArray(reply) << true;
    }
    for (const char *reply : {"-NOAUTH Authentication required.\r\n", "-WRONGPASS invalid username-password pair\r\n",
                              "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"}) {
        QTest::newRow(QByteArray(reply).split(' ').first().constData()) << QByteArray(reply) << false;
    }
}

/// Errors for a while: held locks stay held, waiters are served afterwards, and no key is left.
void tst_ServerFaults::errorsForAWhile()
{
    QFETCH(QByteArray, reply);
    QFETCH(bool, waits);
    const bool reconnects = reply.startsWith("-READONLY") || reply.startsWith("-MASTERDOWN")
            || reply.startsWith("-NOAUTH");
    FaultProxy proxy(m_server);
    auto registry = std::make_unique<StillRegistry>(proxy.url());
    auto waiters = std::make_unique<StillRegistry>(proxy.url());
    std::vector<std::unique_ptr<DistributedLock>> all;
    std::vector<std::unique_ptr<Spies>> spies;
    const auto make = [&](LockRegistry *owner, const QString &name) {
        all.push_back(std::make_unique<TestLock>(owner, name, options(LongLease, LockOptions::Forever)));
        spies.push_back(std::make_unique<Spies>(all.back().get()));
        return all.back().get();
    };
    for (int i = 0; i < 5; ++i)
        QVERIFY(acquireNow(make(registry.get(), u"held:%1"_s.arg(i))));
    const auto eachOfTheHeld = [&](auto &&condition) {
        return std::all_of(spies.begin(), spies.begin() + 5, [&](const auto &each) { return condition(*each); });
    };
    DistributedLock *const waiting = make(waiters.get(), u"taken"_s);
    QVERIFY(acquireNow(waiting)); // after a short hold, the few seconds of a hand-over suffice for it
    waiting->release();
    QVERIFY(eventually([&] { return waiting->state() == DistributedLock::Unlocked; }));
    spies.back() = std::make_unique<Spies>(waiting);
    LockRegistry other(m_server.url());
    TestLock taken(&other, u"taken"_s, options(LongLease));
    QVERIFY(acquireNow(&taken));
    waiting->acquire();
    QVERIFY(eventually([&] { return waiting->queuePosition() == 0; }));
    DistributedLock *const dropped = make(waiters.get(), u"taken"_s);
    dropped->acquire();
    QVERIFY(eventually([&] { return dropped->queuePosition() == 1; }));
    DistributedLock *const late = make(waiters.get(), u"late"_s);

    proxy.answer(reply, "EVALSHA", 1, 1000000);
    late->acquire();
    dropped->cancel();
    taken.release();
    // The message of the release suffices for the waiter, unless the error ends its connections.
    if (!reconnects)
        QVERIFY(eventually([&] { return waiting->isHeld(); }));
    registry->pass(LongLease / 3); // the renewals are due
    // An acquire, a cancel, and the renewals.
    QVERIFY(registry->passUntil([&] {
        return proxy.faultsDone() >= 3 && eachOfTheHeld([](const Spies &each) { return !each.errors.isEmpty(); });
    }));
    QVERIFY(!late->isHeld());
    proxy.heal();
    if (reconnects)
        QVERIFY(waiters->passUntil([&] { return waiting->isHeld(); }));
    if (waits) {
        QVERIFY(waiters->passUntil([&] { return late->isHeld(); }));
    } else {
        QVERIFY(eventually([&] { return late->state() == DistributedLock::Unlocked; }));
        QVERIFY(late->error() != DistributedLock::NoError);
    }
    registry->pass(LongLease / 6); // the pause after a permanent refusal
    QVERIFY(registry->passUntil(
            [&] { return eachOfTheHeld([](const Spies &each) { return each.renewed.size() >= 1; }); }));
    registry->pass(LongLease / 3);
    QVERIFY(registry->passUntil(
            [&] { return eachOfTheHeld([](const Spies &each) { return each.renewed.size() >= 2; }); }));
    for (int i = 0; i < 5; ++i) {
        QVERIFY(all[i]->isHeld());
        QCOMPARE(spies[i]->lost.size(), 0);
    }
    for (size_t i = 0; i < all.size(); ++i)
        QCOMPARE(spies[i]->acquiresEnded(), 1);
    all.clear();
    if (waits)
        QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
    else // a refused cancel is not repeated, but no holder may be left
        QVERIFY(eventually([&] { return m_server.keys("lock:*").isEmpty(); }));
}

void tst_ServerFaults::permanentError()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, Name, options(30s, LockOptions::Forever));
    proxy.answer("-ERR unknown command 'EVALSHA', with args beginning with: 'secret token'\r\n", "EVALSHA", 1, 1000);
    proxy.answer("-ERR unknown command 'MULTI', with args beginning with: 'secret token'\r\n", "MULTI", 1, 1000);
    QCOMPARE(failureNow(&lock), DistributedLock::ServerError);
    QCOMPARE(proxy.faultsDone(), 2); // one attempt with a script, and one without
    QVERIFY(!lock.errorString().contains(QLatin1String("secret")));
}

// DEBUG SLEEP: the server does not answer, and the connection stays up.
void tst_ServerFaults::serverSleepsBriefly()
{
    Started<RedisServer> server;
    StillRegistry registry(server.url());
    TestLock lock(&registry, Name, options(LongLease));
    QVERIFY(acquireNow(&lock));
    RespClient sleeper;
    QVERIFY(sleeper.connectToUnix(server.socketPath()));
    QVERIFY(sleeper.send(Resp::encodeCommand({"DEBUG", "SLEEP", "1.3"})));
    for (int i = 1; i <= 2; ++i) { // the first renewal is sent meanwhile
        registry.pass(LongLease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == i; }));
    }
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(lock.isHeld());
    QVERIFY(server.exists(Key));
}

void tst_ServerFaults::serverSleepsPastTheLease()
{
    Started<RedisServer> server;
    StillRegistry registry(server.url());
    TestLock lock(&registry, Name, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    RespClient sleeper;
    QVERIFY(sleeper.connectToUnix(server.socketPath()));
    QVERIFY(sleeper.send(Resp::encodeCommand({"DEBUG", "SLEEP", "1.5"})));
    // A renewal is sent, and nothing is read before the lease has ended.
    registry.pass(LongLease / 3);
    registry.pass(LongLease * 2 / 3);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(!lock.isHeld());
    QVERIFY(lock.spies.renewed.isEmpty()); // lost while it slept
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
}

void tst_ServerFaults::noReplicas()
{
    Started<RedisServer> server;
    StillRegistry registry(server.url());
    TestLock held(&registry, u"held"_s, options(LongLease));
    QVERIFY(acquireNow(&held));
    server.command({"CONFIG", "SET", "min-replicas-to-write", "1"});
    TestLock lock(&registry, Name, options(LongLease, 500ms));
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.errors.size() == 1; }));
    registry.pass(500ms);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QLatin1String("NOREPLICAS")), qPrintable(lock.errorString()));
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return held.spies.errors.size() == 1; })); // a renewal was refused
    server.command({"CONFIG", "SET", "min-replicas-to-write", "0"});
    QVERIFY(registry.passUntil([&] { return held.spies.renewed.size() >= 1; }));
    QVERIFY(held.spies.lost.isEmpty());
    QVERIFY(acquireNow(&lock));
}

// A replica that has no key of the lock becomes the master.
void tst_ServerFaults::failoverLosesTheKey()
{
    Started<RedisServer> master(RedisServer::Options::withTcp());
    RedisServer::Options replicaOptions;
    replicaOptions.replicaOf = &master;
    Started<RedisServer> replica(replicaOptions);
    EVENTUALLY_COMPARE(replica.info("replication", "master_link_status"), QByteArray("up"));

    // The address that clients connect to; it moves to the new master.
    QTemporaryDir folder;
    const QString address = folder.filePath(u"master.sock"_s);
    QVERIFY(QFile::link(master.socketPath(), address));
    FaultProxy proxy(address);
    StillRegistry registry(proxy.url()); // no lease ends, and no renewal is due: the new connection brings the loss
    LockRegistry others(proxy.url());
    TestLock lock(&registry, Name, LockTesting::options(LongLease));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    replica.command({"REPLICAOF", "NO", "ONE"});
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    QVERIFY(!replica.exists(Key));

    TestLock waiter(&others, Name, LockTesting::options(30s, LockOptions::Forever));
    QVERIFY(joinQueue(&waiter));
    master.kill();
    QVERIFY(QFile::remove(address));
    QVERIFY(QFile::link(replica.socketPath(), address));
    QVERIFY(eventually([&] { return waiter.spies.acquired.size() == 1; }));
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QVERIFY2(lock.spies.reason() == DistributedLock::Stolen || lock.spies.reason() == DistributedLock::Deleted,
             "the new master must report the loss before the lease ends");
    QVERIFY(waiter.isHeld());
    QVERIFY(waiter.fencingToken() > token); // the fence was lost as well
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ServerFaults)

#include "tst_serverfaults.moc"
