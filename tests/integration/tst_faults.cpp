// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What servers, networks and other processes do to a lock, and what it makes of it.

#include "locktesting.h"

#include "support/fakeclock.h"
#include "support/faultproxy.h"
#include "support/posix.h"

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qprocess.h>

#include <memory>

#include <signal.h>

using namespace LockTesting;
using namespace Support;

namespace {

RedisServer::Options withTcp()
{
    RedisServer::Options options;
    options.tcp = true;
    return options;
}

/// Another process that holds a lock.
class Holder
{
public:
    bool start(const QUrl &server, const QString &name, milliseconds lease)
    {
        m_process.start(QStringLiteral(LOCKHOLDER), {server.toString(), name, QString::number(lease.count())});
        return waitFor("acquired ");
    }
    ~Holder()
    {
        if (m_process.state() == QProcess::NotRunning)
            return;
        signal(SIGKILL);
        m_process.waitForFinished();
    }
    bool waitFor(const QByteArray &line)
    {
        return eventually([&] {
            m_output += m_process.readAllStandardOutput();
            return m_output.contains(line);
        });
    }
    const QByteArray &output() const { return m_output; }
    void signal(int number) { ::kill(pid_t(m_process.processId()), number); }

private:
    QProcess m_process;
    QByteArray m_output;
};

/// Room for a busy machine, far below any time-out that would hide a lost message.
constexpr milliseconds AtOnce = 700ms;

} // namespace

class tst_Faults : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    // The holder's process.
    void killedHolder();
    void stoppedHolder();

    // The server.
    void serverPausedBeforeTheFirstNeed();
    void serverPausedWhileHeld();
    void clientsPaused();
    void serverRestartedWithoutPersistence();
    void serverRestartedWithAof();
    void scriptsFlushed();
    void outOfMemory();
    void readOnly();
    void noMaster();
    void tooManyClients();
    void passingErrors_data();
    void passingErrors();
    void errorsForAWhile_data();
    void errorsForAWhile();
    void permanentError();

    // The connection.
    void cutAcquire_data();
    void cutAcquire();
    void cutRenewal_data();
    void cutRenewal();
    void cutRelease_data();
    void cutRelease();
    void cutReleaseWithASuccessor();
    void clientKilled();
    void connectionReset();
    void blackHole();
    void lateCommandOfAnOldConnection();
    void latencyBeyondTheBeat();
    void latencyBeyondTheLease();
    void slicedReplies();
    void subscriptionLost();

    // The key.
    void keyOfAnotherType();
    void keyBecomesAnotherType();
    void missingTtl_data();
    void missingTtl();

    // Options.
    void minHold();
    void maxRetries();
    void waitOfZero();
    void waitForever();
    void forceRelease();
    void forgedForceRelease();
    void inspectAndList();
    void manyLocksRenewTogether();

private:
    RedisServer m_server{withTcp()};
};

void tst_Faults::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_Faults::init()
{
    m_server.command({"FLUSHALL"});
    m_server.command({"SCRIPT", "FLUSH"});
}

void tst_Faults::cleanup()
{
    m_server.resume();
    m_server.command({"REPLICAOF", "NO", "ONE"});
    m_server.command({"CONFIG", "SET", "maxmemory", "0", "maxclients", "1000", "replica-serve-stale-data", "yes"});
}

void tst_Faults::killedHolder()
{
    Holder holder;
    QVERIFY2(holder.start(m_server.url(), QStringLiteral("job"), 500ms), holder.output().constData());
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(500ms));
    Spies spies(&lock);
    lock.acquire();
    // It renews: a lease goes by and it still has it.
    const QByteArray token = m_server.get("lock:job");
    QVERIFY(!eventually([&] { return !spies.acquired.isEmpty(); }, 700ms));
    QCOMPARE(m_server.get("lock:job"), token);

    holder.signal(SIGKILL);
    QElapsedTimer timer;
    timer.start();
    QVERIFY(eventually([&] { return !spies.acquired.isEmpty(); }));
    // How much less it is on an idle machine is measured in tst_queue.
    QVERIFY2(timer.elapsed() <= (500ms + AtOnce).count(), qPrintable(QString::number(timer.elapsed())));
}

void tst_Faults::stoppedHolder()
{
    Holder holder;
    QVERIFY2(holder.start(m_server.url(), QStringLiteral("job"), 400ms), holder.output().constData());
    const qint64 stoppedToken = holder.output().split(' ').value(1).trimmed().toLongLong();
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(400ms));
    Spies spies(&lock);
    lock.acquire();
    holder.signal(SIGSTOP);
    QVERIFY(eventually([&] { return !spies.acquired.isEmpty(); }));
    QVERIFY(stoppedToken > 0);
    QVERIFY(lock.fencingToken() > stoppedToken);

    const QByteArray token = m_server.get("lock:job");
    holder.signal(SIGCONT);
    QVERIFY(holder.waitFor("lost "));
    // isHeld() was false before anything could tell.
    const QList<QByteArray> lines = holder.output().trimmed().split('\n').mid(1);
    QCOMPARE(lines.value(0), QByteArray("continued not held"));
    QCOMPARE(lines.value(1), "lost " + QByteArray::number(int(DistributedLock::LeaseExpired)) + " not held");
    QCOMPARE(lines.size(), 2);
    // It has touched nothing of its successor's.
    QVERIFY(eventually([&] { return spies.renewed.size() >= 2; }));
    QCOMPARE(m_server.get("lock:job"), token);
    QVERIFY(spies.lost.isEmpty());
}

void tst_Faults::serverPausedBeforeTheFirstNeed()
{
    LockRegistry registry(m_server.tcpUrl());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(500ms, 300ms));
    Spies spies(&lock);
    m_server.pause();
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::ConnectionError);
    QVERIFY(lock.errorString().contains(QLatin1String("\"job\"")));

    lock.setWait(milliseconds(10s));
    lock.acquire();
    m_server.resume();
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
}

void tst_Faults::serverPausedWhileHeld()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(1200ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const QByteArray token = m_server.get("lock:job");
    m_server.pause();
    QVERIFY(eventually([&] { return spies.atRisk.size() == 1; })); // two thirds of the lease are over
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.state(), DistributedLock::AtRisk);
    const int remaining = spies.atRisk.at(0).at(0).toInt();
    QVERIFY2(remaining > 0 && remaining <= 400 - 14 + 1, qPrintable(QString::number(remaining)));
    m_server.resume();
    QVERIFY(eventually([&] { return !spies.renewed.isEmpty(); }));
    QCOMPARE(lock.state(), DistributedLock::Held);
    QCOMPARE(m_server.get("lock:job"), token);
    QVERIFY(spies.lost.isEmpty());
}

void tst_Faults::clientsPaused()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(500ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    m_server.command({"CLIENT", "PAUSE", "900", "ALL"});
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
    // The renewal that ran after the pause is of no use, and is given back.
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
    QVERIFY(spies.renewed.isEmpty());
    QVERIFY(acquireNow(&lock));
}

void tst_Faults::serverRestartedWithoutPersistence()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(20s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    m_server.kill();
    QVERIFY(m_server.start());
    // Without waiting for a third of the lease: the connection was lost, so it looks.
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }, 5s));
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
    QVERIFY(spies.released.isEmpty());
    QVERIFY(acquireNow(&lock));
}

void tst_Faults::serverRestartedWithAof()
{
    RedisServer::Options serverOptions;
    serverOptions.appendOnly = true;
    RedisServer server(serverOptions);
    QVERIFY(server.start());
    LockRegistry registry(server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(20s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const QByteArray token = server.get("lock:job");
    const qint64 fence = lock.fencingToken();
    server.kill();
    QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }));
    QVERIFY(lock.isHeld());
    QVERIFY(server.start());
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }, 5s));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.fencingToken(), fence);
    QCOMPARE(server.get("lock:job"), token);
    QVERIFY(spies.lost.isEmpty());
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QVERIFY(!server.exists("lock:job"));
}

void tst_Faults::scriptsFlushed()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(600ms));
    Spies spies(&lock);
    for (int i = 1; i <= 2; ++i) {
        m_server.command({"SCRIPT", "FLUSH"});
        QVERIFY(acquireNow(&lock));
        m_server.command({"SCRIPT", "FLUSH"});
        QVERIFY(eventually([&] { return spies.renewed.size() == i; }));
        m_server.command({"SCRIPT", "FLUSH"});
        lock.release();
        QVERIFY(eventually([&] { return spies.released.size() == i; }));
    }
    QVERIFY(spies.errors.isEmpty());
    QVERIFY(spies.lost.isEmpty());
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Faults::outOfMemory()
{
    LockRegistry registry(m_server.url());
    DistributedLock held(&registry, QStringLiteral("held"));
    held.setOptions(options(1500ms));
    Spies heldSpies(&held);
    QVERIFY(acquireNow(&held));
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(1500ms, 500ms));
    Spies spies(&lock);

    m_server.command({"CONFIG", "SET", "maxmemory", "1"});
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QLatin1String("OOM")), qPrintable(lock.errorString()));
    // What is held needs no more memory.
    const qsizetype renewed = heldSpies.renewed.size();
    QVERIFY(eventually([&] { return heldSpies.renewed.size() > renewed; }));

    lock.setWait(milliseconds(10s));
    lock.acquire();
    m_server.command({"CONFIG", "SET", "maxmemory", "0"});
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
    QVERIFY(heldSpies.lost.isEmpty());
}

void tst_Faults::readOnly()
{
    LockRegistry registry(m_server.url());
    DistributedLock held(&registry, QStringLiteral("held"));
    held.setOptions(options(3s));
    Spies heldSpies(&held);
    QVERIFY(acquireNow(&held));
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(3s, 500ms));
    Spies spies(&lock);

    m_server.command({"REPLICAOF", "127.0.0.1", QByteArray::number(Posix::freePort())});
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QLatin1String("READONLY")), qPrintable(lock.errorString()));
    lock.setWait(milliseconds(10s));
    lock.acquire();
    QVERIFY(eventually([&] { return heldSpies.errors.size() == 1; })); // a renewal was refused
    QVERIFY(held.isHeld());

    m_server.command({"REPLICAOF", "NO", "ONE"});
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
    QVERIFY(eventually([&] { return heldSpies.renewed.size() == 1; }));
    QVERIFY(heldSpies.lost.isEmpty());
    QCOMPARE(heldSpies.errors.size(), 1);
    QCOMPARE(held.error(), DistributedLock::NoError);
}

void tst_Faults::noMaster()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(3s, 1s));
    Spies spies(&lock);
    m_server.command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
    m_server.command({"REPLICAOF", "127.0.0.1", QByteArray::number(Posix::freePort())});
    lock.acquire();
    const bool failed = eventually([&] { return spies.failed.size() == 1; });
    lock.setWait(milliseconds(10s));
    lock.acquire();
    m_server.command({"REPLICAOF", "NO", "ONE"});
    m_server.command({"CONFIG", "SET", "replica-serve-stale-data", "yes"});
    QVERIFY(failed);
    QCOMPARE(spies.failure(), DistributedLock::ServerError);
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
}

void tst_Faults::tooManyClients()
{
    QVERIFY(eventually([&] { return m_server.connectedClients() == 0; })); // of the test before
    m_server.command({"CONFIG", "SET", "maxclients", "1"}); // the foreign client itself
    LockRegistry registry(m_server.url());
    // The server's farewell may be lost with the connection it ends: not every attempt learns the reason.
    QStringList reasons;
    connect(&registry, &LockRegistry::errorChanged, this, [&] { reasons << registry.errorString(); });
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(3s, 300ms));
    Spies spies(&lock);
    lock.acquire();
    const bool failed = eventually([&] { return spies.failed.size() == 1; });
    const QString text = lock.errorString();
    lock.setWait(milliseconds(10s));
    lock.acquire();
    m_server.command({"CONFIG", "SET", "maxclients", "1000"});
    QVERIFY(failed);
    QVERIFY2(spies.failure() == DistributedLock::ServerError || spies.failure() == DistributedLock::ConnectionError,
             qPrintable(text));
    QVERIFY2(!reasons.filter(QStringLiteral("maxclients")).isEmpty(), qPrintable(reasons.join(u'\n')));
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
}

void tst_Faults::passingErrors_data()
{
    QTest::addColumn<QByteArray>("reply");
    for (const char *reply : {"-LOADING Redis is loading the dataset in memory\r\n",
                              "-BUSY Redis is busy running a script.\r\n",
                              "-MASTERDOWN Link with MASTER is down\r\n",
                              "-READONLY You can't write against a read only replica.\r\n",
                              "-CLUSTERDOWN The cluster is down\r\n", "-TRYAGAIN Multiple keys request\r\n",
                              "-NOREPLICAS Not enough good replicas to write.\r\n",
                              "-MISCONF Redis is configured to save RDB snapshots\r\n"}) {
        QTest::newRow(QByteArray(reply).split(' ').first().constData()) << QByteArray(reply);
    }
}

void tst_Faults::passingErrors()
{
    QFETCH(QByteArray, reply);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    // These two end the connection, and each time the next attempt to connect waits longer.
    const bool reconnects = reply.startsWith("-READONLY") || reply.startsWith("-MASTERDOWN");
    lock.setOptions(options(reconnects ? 4s : 900ms).withRetryInterval(5ms));
    Spies spies(&lock);
    // Several times, of each kind.
    proxy.answer(reply, "EVALSHA", 1, 3);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(proxy.faultsDone(), 3);
    QVERIFY(spies.failed.isEmpty());
    proxy.answer(reply, "EVALSHA", 1, 2);
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    proxy.answer(reply, "EVALSHA", 1, 2);
    lock.release();
    QVERIFY(eventually([&] { return spies.holdsEnded() == 1; }));
    QCOMPARE(spies.released.size(), 1);
    QCOMPARE(proxy.faultsDone(), 7);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    // Reported once for each of acquire, renew and release, however often it was met. A server that is up for less than
    // a second between two of them counts as one outage.
    QVERIFY2(spies.errors.size() == 3 || (reconnects && spies.errors.size() == 2),
             qPrintable(QString::number(spies.errors.size())));

    // And to one who looks but once it is the reason.
    proxy.answer(reply, "EVALSHA");
    lock.tryAcquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::ServerError);
    QVERIFY2(lock.errorString().contains(QString::fromLatin1(reply.mid(1, 6))), qPrintable(lock.errorString()));
}

void tst_Faults::errorsForAWhile_data()
{
    QTest::addColumn<QByteArray>("reply");
    QTest::addColumn<bool>("waits");
    for (const char *reply : {"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
                              "-LOADING Redis is loading the dataset in memory\r\n", "-BUSY Redis is busy running a script.\r\n",
                              "-MISCONF Redis is configured to save RDB snapshots\r\n",
                              "-NOREPLICAS Not enough good replicas to write.\r\n",
                              "-READONLY You can't write against a read only replica.\r\n",
                              "-MASTERDOWN Link with MASTER is down\r\n"}) {
        QTest::newRow(QByteArray(reply).split(' ').first().constData()) << QByteArray(reply) << true;
    }
    for (const char *reply : {"-NOAUTH Authentication required.\r\n", "-WRONGPASS invalid username-password pair\r\n",
                              "-NOPERM this user has no permissions to run the 'evalsha' command\r\n"}) {
        QTest::newRow(QByteArray(reply).split(' ').first().constData()) << QByteArray(reply) << false;
    }
}

/// Half a second of errors: what is held stays held, who waits is served, and nothing is left.
void tst_Faults::errorsForAWhile()
{
    QFETCH(QByteArray, reply);
    QFETCH(bool, waits);
    FaultProxy proxy(m_server);
    LockRegistry other(m_server.url());
    DistributedLock taken(&other, QStringLiteral("taken"));
    taken.setOptions(options(20s));
    QVERIFY(acquireNow(&taken));

    auto registry = std::make_unique<LockRegistry>(proxy.url());
    std::vector<std::unique_ptr<DistributedLock>> all;
    std::vector<std::unique_ptr<Spies>> spies;
    const auto make = [&](const QString &name) {
        all.push_back(std::make_unique<DistributedLock>(registry.get(), name));
        all.back()->setOptions(options(1500ms, 20s));
        spies.push_back(std::make_unique<Spies>(all.back().get()));
        return all.back().get();
    };
    for (int i = 0; i < 5; ++i)
        QVERIFY(acquireNow(make(QStringLiteral("held:%1").arg(i))));
    DistributedLock *const waiting = make(QStringLiteral("taken"));
    waiting->acquire();
    QVERIFY(eventually([&] { return waiting->queuePosition() == 0; }));
    DistributedLock *const dropped = make(QStringLiteral("taken"));
    dropped->acquire();
    QVERIFY(eventually([&] { return dropped->queuePosition() == 1; }));
    DistributedLock *const late = make(QStringLiteral("late"));

    QElapsedTimer timer;
    timer.start();
    proxy.answer(reply, "EVALSHA", 1, 1000000);
    late->acquire();
    dropped->cancel();
    taken.release();
    QVERIFY(!eventually([&] { return waiting->isHeld() || late->isHeld(); }, 500ms));
    proxy.heal();
    if (waits) {
        QVERIFY(eventually([&] { return waiting->isHeld() && late->isHeld(); }, 5s));
    } else {
        QVERIFY(eventually([&] { return late->state() == DistributedLock::Unlocked; }, 5s));
        QVERIFY(late->error() != DistributedLock::NoError);
        QVERIFY(eventually([&] { return waiting->isHeld() || waiting->state() == DistributedLock::Unlocked; }, 5s));
    }
    QVERIFY(eventually([&] {
        return std::all_of(spies.begin(), spies.begin() + 5, [](const auto &each) { return each->renewed.size() >= 2; });
    }));
    for (int i = 0; i < 5; ++i) {
        QVERIFY(all[i]->isHeld());
        QCOMPARE(spies[i]->lost.size(), 0);
    }
    for (size_t i = 0; i < all.size(); ++i)
        QCOMPARE(spies[i]->acquiresEnded(), 1);
    all.clear();
    if (waits)
        QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }, 3s));
    else // what was refused for good is not asked again, but nobody may wait for it
        QVERIFY(eventually([&] { return m_server.keys("lock:*").isEmpty(); }, 5s));
}

void tst_Faults::permanentError()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(5s, LockOptions::Forever));
    Spies spies(&lock);
    proxy.answer("-ERR unknown command 'EVALSHA', with args beginning with: 'secret token'\r\n", "EVALSHA", 1, 1000);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::ServerError);
    QCOMPARE(proxy.faultsDone(), 1); // no second try
    QVERIFY(!lock.errorString().contains(QLatin1String("secret")));
}

void tst_Faults::cutAcquire_data()
{
    QTest::addColumn<bool>("executed");
    QTest::newRow("before") << false;
    QTest::newRow("after") << true;
}

void tst_Faults::cutAcquire()
{
    QFETCH(bool, executed);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(20s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock)); // the server knows the scripts now
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));

    executed ? proxy.cutAfter("EVALSHA") : proxy.cutBefore("EVALSHA");
    proxy.setRepliesHeld(false);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(proxy.faultsDone(), 1);
    QCOMPARE(spies.acquired.size(), 2);
    QCOMPARE(lock.holdCount(), 1);
    QCOMPARE(m_server.get("{lock:job}:fence"), QByteArray::number(lock.fencingToken()));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 2; }));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QVERIFY(spies.failed.isEmpty());
    QVERIFY(spies.lost.isEmpty());
}

void tst_Faults::cutRenewal_data()
{
    cutAcquire_data();
}

void tst_Faults::cutRenewal()
{
    QFETCH(bool, executed);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(1s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    const QByteArray token = m_server.get("lock:job");
    executed ? proxy.cutAfter("EVALSHA") : proxy.cutBefore("EVALSHA");
    QVERIFY(eventually([&] { return proxy.faultsDone() == 1; }));
    QVERIFY(eventually([&] { return spies.renewed.size() == 2; }));
    QVERIFY(lock.isHeld());
    QCOMPARE(spies.lost.size(), 0);
    QCOMPARE(spies.errors.size(), 1);
    QCOMPARE(lock.error(), DistributedLock::NoError);
    QCOMPARE(m_server.get("lock:job"), token);
}

void tst_Faults::cutRelease_data()
{
    cutAcquire_data();
}

void tst_Faults::cutRelease()
{
    QFETCH(bool, executed);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(20s));
    Spies spies(&lock);
    for (int i = 1; i <= 2; ++i) {
        QVERIFY(acquireNow(&lock));
        if (i == 2)
            executed ? proxy.cutAfter("EVALSHA") : proxy.cutBefore("EVALSHA");
        const QFuture<bool> release = lock.releaseAsync();
        QVERIFY(!lock.isHeld());
        QVERIFY(eventually([&] { return spies.holdsEnded() == i; }));
        QCOMPARE(spies.released.size(), i);
        QVERIFY(eventually([&] { return release.isFinished(); })); // it may come with the next event
        QVERIFY(release.result());
    }
    QCOMPARE(proxy.faultsDone(), 1);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

// The first release was run, its answer lost; the second finds somebody else's key.
void tst_Faults::cutReleaseWithASuccessor()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(20s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QVERIFY(acquireNow(&lock));
    proxy.cutAfter("EVALSHA");
    lock.release();
    sendNow();
    QVERIFY(proxy.waitForFaults(1));
    m_server.command({"SET", "lock:job", "successor"});
    QVERIFY(eventually([&] { return spies.holdsEnded() == 2; }));
    QCOMPARE(spies.released.size(), 2);
    QCOMPARE(m_server.get("lock:job"), QByteArray("successor"));
}

void tst_Faults::clientKilled()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(900ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const QByteArray token = m_server.get("lock:job");
    for (int i = 0; i < 5; ++i) {
        m_server.command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        const qsizetype renewed = spies.renewed.size();
        QVERIFY(eventually([&] { return spies.renewed.size() > renewed; }));
    }
    QVERIFY(lock.isHeld());
    QVERIFY(spies.lost.isEmpty());
    QCOMPARE(m_server.get("lock:job"), token);
}

void tst_Faults::connectionReset()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock held(&registry, QStringLiteral("held"));
    held.setOptions(options(3s));
    Spies heldSpies(&held);
    QVERIFY(acquireNow(&held));
    // A waiter goes on waiting.
    m_server.command({"SET", "lock:job", "foreign"});
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(900ms, LockOptions::Forever));
    Spies spies(&lock);
    lock.acquire();
    const qint64 accepted = proxy.connectionsAccepted();
    proxy.resetAll();
    QVERIFY(eventually([&] { return proxy.connectionsAccepted() > accepted; }));
    QVERIFY(eventually([&] { return heldSpies.renewed.size() >= 1; }));
    m_server.command({"DEL", "lock:job"});
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
    QVERIFY(heldSpies.lost.isEmpty());
    QVERIFY(spies.failed.isEmpty());
}

// Half-open: nothing is refused, nothing answered. Noticed in time to renew on another connection.
void tst_Faults::blackHole()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(3s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    proxy.setBlackHole(true);  // swallows the connections there are for ever
    proxy.setBlackHole(false); // new ones work
    QVERIFY(eventually([&] { return spies.renewed.size() == 1 || !spies.lost.isEmpty(); }));
    QVERIFY(lock.isHeld());
    QVERIFY(spies.lost.isEmpty());
}

// Sent, given up, and delivered only after its successor's connection came up: it must not leave an orphan.
void tst_Faults::lateCommandOfAnOldConnection()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(300ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));

    lock.setOptions(options(1s, 200ms));
    for (int i = 1; i <= 2; ++i) {
        proxy.setHeld(true);
        lock.acquire();
        QVERIFY(eventually([&] { return spies.failed.size() == i; }));
        QCOMPARE(spies.failure(i - 1), DistributedLock::ConnectionError);
        if (i == 2) // the client gives the connection up
            QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }));
        proxy.setHeld(false);
        DistributedLock other(&registry, QStringLiteral("other"));
        other.setOptions(options(20s));
        QVERIFY(acquireNow(&other));
        other.release();
        QVERIFY(eventually([&] { return other.state() == DistributedLock::Unlocked; }));
        QVERIFY(eventually([&] { return proxy.connections() <= 2 && lockKeys(m_server).isEmpty(); }));
    }
    QCOMPARE(spies.acquired.size(), 1);
}

void tst_Faults::latencyBeyondTheBeat()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(1500ms)); // a renewal each 500 ms, sooner than a reply comes
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; })); // the server knows the scripts now
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));

    proxy.setLatency(260ms, 260ms);
    QVERIFY(acquireNow(&lock));
    spies.renewed.clear();
    QVERIFY(lock.remainingTimeAsDuration() <= 1500ms - 520ms - 17ms);
    const qint64 before = proxy.commandsForwarded("EVALSHA");
    QElapsedTimer timer;
    timer.start();
    QVERIFY(eventually([&] { return spies.renewed.size() >= 3 || !spies.lost.isEmpty(); }));
    QVERIFY(spies.lost.isEmpty());
    // One after the other: never more than one a round trip, and each is answered.
    const qint64 sent = proxy.commandsForwarded("EVALSHA") - before;
    QVERIFY2(sent <= timer.elapsed() / 520 + 2, qPrintable(QString::number(sent)));
    QVERIFY(sent <= spies.renewed.size() + 1);
    QVERIFY(lock.isHeld());
}

void tst_Faults::latencyBeyondTheLease()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(300ms, 700ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    proxy.setLatency(10ms, 400ms);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 2; }));
    QCOMPARE(spies.acquired.size(), 1);
    QCOMPARE(spies.failure(), DistributedLock::ConnectionError);
    QVERIFY2(lock.errorString().contains(QLatin1String("lease")), qPrintable(lock.errorString()));
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

void tst_Faults::slicedReplies()
{
    FaultProxy proxy(m_server);
    proxy.setSlicing(2);
    LockRegistry registry(proxy.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(20s));
    Spies spies(&lock);
    for (int i = 1; i <= 10; ++i) {
        QVERIFY(acquireNow(&lock));
        lock.release();
        QVERIFY(eventually([&] { return spies.released.size() == i; }));
    }
    QVERIFY(spies.errors.isEmpty());
}

void tst_Faults::subscriptionLost()
{
    LockRegistry registry(m_server.url());
    LockRegistry other(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(20s));
    Spies spies(&lock);
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
    other.forceRelease(QStringLiteral("job"));
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }, 3s));
    QCOMPARE(spies.reason(), DistributedLock::ForcedRelease);
}

void tst_Faults::keyOfAnotherType()
{
    LockRegistry registry(m_server.url());
    m_server.command({"RPUSH", "lock:list", "one"});
    m_server.command({"RPUSH", "{lock:fence}:fence", "one"});
    for (const QString &name : {QStringLiteral("list"), QStringLiteral("fence")}) {
        DistributedLock lock(&registry, name);
        lock.setOptions(options(500ms, LockOptions::Forever));
        Spies spies(&lock);
        lock.acquire();
        QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
        QCOMPARE(spies.failure(), DistributedLock::ForeignTypeError);
        QVERIFY(lock.errorString().contains(name));
        QVERIFY(!m_server.exists("lock:fence"));
    }
    const QFuture<bool> forced = registry.forceRelease(QStringLiteral("list"));
    QVERIFY(eventually([&] { return forced.isFinished(); }));
    QVERIFY(!forced.result());
    QCOMPARE(registry.error(), DistributedLock::ForeignTypeError);
    const auto inspected = registry.inspect(QStringLiteral("list"));
    QVERIFY(eventually([&] { return inspected.isFinished(); }));
    QCOMPARE(inspected.result().error, DistributedLock::ForeignTypeError);
    for (const QByteArray &key : {QByteArray("lock:list"), QByteArray("{lock:fence}:fence")}) {
        QCOMPARE(m_server.command({"LRANGE", key, "0", "-1"}).toList(), QVariantList{QByteArray("one")});
        QCOMPARE(m_server.pttl(key), -1);
    }
}

void tst_Faults::keyBecomesAnotherType()
{
    LockRegistry registry(m_server.url());
    for (const bool renewed : {true, false}) {
        DistributedLock lock(&registry, QStringLiteral("job"));
        lock.setOptions(options(renewed ? 300ms : 20s));
        Spies spies(&lock);
        QVERIFY(acquireNow(&lock));
        m_server.command({"DEL", "lock:job"});
        m_server.command({"RPUSH", "lock:job", "one"});
        if (!renewed)
            lock.release();
        QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
        QCOMPARE(spies.reason(), DistributedLock::Stolen);
        QCOMPARE(m_server.pttl("lock:job"), -1);
        QCOMPARE(m_server.command({"LPOP", "lock:job"}).toByteArray(), QByteArray("one"));
    }
}

void tst_Faults::missingTtl_data()
{
    QTest::addColumn<bool>("repair");
    QTest::newRow("repaired") << true;
    QTest::newRow("left alone") << false;
}

// As a client leaves it that died between SETNX and EXPIRE.
void tst_Faults::missingTtl()
{
    QFETCH(bool, repair);
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(1s, repair ? 5s : 450ms).withRepairMissingTtl(repair));
    Spies spies(&lock);
    m_server.cli({"SETNX", "lock:job", "foreign"});
    lock.acquire();
    if (repair) {
        QVERIFY(eventually([&] { return m_server.pttl("lock:job") >= 0; }));
        QVERIFY(m_server.pttl("lock:job") <= 1000);
        QCOMPARE(m_server.get("lock:job"), QByteArray("foreign"));
        QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
    } else {
        QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
        QCOMPARE(spies.failure(), DistributedLock::TimeoutError);
        QCOMPARE(m_server.pttl("lock:job"), -1);
    }
}

void tst_Faults::minHold()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    DistributedLock next(&registry, QStringLiteral("job"));
    lock.setOptions(options(5s).withMinHold(400ms));
    next.setOptions(options(5s));
    Spies spies(&lock);
    QElapsedTimer timer;
    timer.start();
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    const qint64 ttl = m_server.pttl("lock:job");
    QVERIFY2(ttl > 0 && ttl <= 400, qPrintable(QString::number(ttl)));
    QVERIFY(acquireNow(&next));
    QVERIFY(timer.elapsed() >= 395); // both servers' and our clocks count in milliseconds
    next.release();

    // Held long enough already: gone at once.
    QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
    lock.setOptions(options(5s).withMinHold(1ms));
    QVERIFY(acquireNow(&lock));
    QTRY_VERIFY(lock.remainingTime() < 5000 - 52 - 5);
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 2; }));
    QVERIFY(!m_server.exists("lock:job"));

    // Destruction keeps to it too.
    {
        DistributedLock last(&registry, QStringLiteral("job"));
        last.setOptions(options(5s).withMinHold(2s));
        QVERIFY(acquireNow(&last));
    }
    QVERIFY(eventually([&] { return m_server.pttl("lock:job") <= 2000; }));
    QVERIFY(m_server.pttl("lock:job") > 1000);
}

void tst_Faults::maxRetries()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(5s, LockOptions::Forever).withMaxRetries(3).withRetryInterval(5ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    m_server.command({"SET", "lock:job", "foreign"});
    for (int i = 1; i <= 2; ++i) {
        const qint64 before = m_server.commandsProcessed("evalsha");
        lock.acquire();
        QVERIFY(eventually([&] { return spies.failed.size() == i; }));
        QCOMPARE(spies.failure(), DistributedLock::BusyError);
        // Four looks, and then it leaves the queue.
        QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") - before >= 5; }));
        QVERIFY(eventually([&] { return !m_server.exists("{lock:job}:queue"); }));
        QCOMPARE(m_server.commandsProcessed("evalsha") - before, 5);
        QVERIFY(lock.errorString().contains(QLatin1String("3 retries")));
    }
}

void tst_Faults::waitOfZero()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(5s, 0ms));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    m_server.command({"SET", "lock:job", "foreign"});
    const qint64 before = m_server.commandsProcessed("evalsha");
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::BusyError);
    lock.setWait(LockOptions::Forever);
    lock.tryAcquire(); // whatever the wait
    QVERIFY(eventually([&] { return spies.failed.size() == 2; }));
    QCOMPARE(spies.failure(1), DistributedLock::BusyError);
    QCOMPARE(m_server.commandsProcessed("evalsha") - before, 2);
    QVERIFY(spies.errors.isEmpty()); // an ordinary outcome
}

void tst_Faults::waitForever()
{
    FakeClock clock; // the registry reads it while it is destroyed, too
    LockRegistry registry(m_server.url());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(5s, LockOptions::Forever));
    Spies spies(&lock);
    m_server.command({"SET", "lock:job", "foreign"});
    lock.acquire();
    for (int day = 0; day < 400; ++day) {
        processEvents();
        clock.advance(24h);
        LockRegistryPrivate::get(&registry)->watchdog()->wake();
    }
    QCOMPARE(spies.total(), 0);
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    m_server.command({"DEL", "lock:job"});
    clock.advance(1s);
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] {
        clock.advance(1ms);
        return spies.acquired.size() == 1;
    }));
}

void tst_Faults::forceRelease()
{
    LockRegistry registry(m_server.url());
    LockRegistry other(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(1h));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const QByteArray client = m_server.get("lock:job").split(':').first();
    QVERIFY(eventually([&] { return m_server.subscriberCount("lock:client:" + client) == 1; }));
    const QFuture<bool> forced = other.forceRelease(QStringLiteral("job"));
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }, 2s));
    QCOMPARE(spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(eventually([&] { return forced.isFinished(); }));
    QVERIFY(forced.result());
    QVERIFY(!m_server.exists("lock:job"));

    // Where it is somebody else's already.
    QVERIFY(acquireNow(&lock));
    DistributedLock successor(&other, QStringLiteral("job"));
    successor.setOptions(options(20s));
    other.forceRelease(QStringLiteral("job"));
    successor.acquire();
    QVERIFY(eventually([&] { return spies.lost.size() == 2 && successor.isHeld(); }, 2s));
    QCOMPARE(spies.reason(1), DistributedLock::ForcedRelease);
    // A foreign holder cannot be told, but goes.
    successor.release();
    QVERIFY(eventually([&] { return successor.state() == DistributedLock::Unlocked; }));
    m_server.command({"SET", "lock:job", "foreign"});
    const QFuture<bool> foreign = other.forceRelease(QStringLiteral("job"));
    const QFuture<bool> nobody = other.forceRelease(QStringLiteral("job"));
    QVERIFY(eventually([&] { return nobody.isFinished(); }));
    QVERIFY(foreign.result());
    QVERIFY(!nobody.result());
}

// A message is a hint, never proof.
void tst_Faults::forgedForceRelease()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(1h));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const QList<QByteArray> token = m_server.get("lock:job").split(':');
    const QByteArray channel = "lock:client:" + token.value(0);
    QVERIFY(eventually([&] { return m_server.subscriberCount(channel) == 1; }));
    for (const QByteArray &message :
         {QByteArray("force"), QByteArray("force "), QByteArray("force x"), QByteArray("force -1"),
          QByteArray("force 99999999999999999999999"), QByteArray("force 0"), QByteArray("\0\xff", 2),
          QByteArray(100000, 'x'), QByteArray("force ") + token.value(1) + "0"})
        m_server.command({"PUBLISH", channel, message});
    const qint64 before = m_server.commandsProcessed("evalsha");
    QCOMPARE(m_server.cli({"PUBLISH", channel, "force " + token.value(1)}), QByteArray("1"));
    QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before; })); // it looks
    const qsizetype renewed = spies.renewed.size();
    QVERIFY(eventually([&] { return spies.renewed.size() > renewed || renewed > 0; }));
    processEvents();
    QVERIFY(lock.isHeld());
    QVERIFY(spies.lost.isEmpty());
    // And an ordinary loss later is not taken for a forced one.
    m_server.command({"DEL", "lock:job"});
    lock.release();
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
}

void tst_Faults::inspectAndList()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("a:one"));
    lock.setOptions(options(20s));
    QVERIFY(acquireNow(&lock));
    m_server.command({"SET", "lock:a:two", "somebody"});
    m_server.command({"RPUSH", "lock:a:list", "x"});
    m_server.command({"SET", "other:a:key", "x"});
    const auto inspected = registry.inspect(QStringLiteral("a:one"));
    const auto free = registry.inspect(QStringLiteral("nobody"));
    const auto listed = registry.list(QStringLiteral("a:*"));
    QVERIFY(eventually([&] { return inspected.isFinished() && free.isFinished() && listed.isFinished(); }));
    const QByteArray token = m_server.get("lock:a:one");
    QVERIFY(inspected.result().held);
    QVERIFY(!inspected.result().foreign);
    QCOMPARE(inspected.result().holder, QString::fromLatin1(token.split(':').first()));
    QCOMPARE(inspected.result().fencingToken, lock.fencingToken());
    QVERIFY(inspected.result().remaining > 15s && inspected.result().remaining <= 20s);
    QVERIFY(!free.result().held);
    QCOMPARE(free.result().error, DistributedLock::NoError);
    QStringList names;
    for (const auto &info : listed.result())
        names << info.name + (info.foreign ? QStringLiteral(" foreign") : QString());
    names.sort();
    QCOMPARE(names, (QStringList{QStringLiteral("a:one"), QStringLiteral("a:two foreign")}));
}

void tst_Faults::manyLocksRenewTogether()
{
    LockRegistry registry(m_server.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int renewals = 0;
    for (int i = 0; i < 500; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, QStringLiteral("many%1").arg(i)));
        locks.back()->setOptions(options(6s));
        connect(locks.back().get(), &DistributedLock::renewed, this, [&renewals] { ++renewals; });
        locks.back()->acquire();
    }
    const auto allHeld = [&] {
        return std::all_of(locks.begin(), locks.end(), [](const auto &lock) { return lock->isHeld(); });
    };
    QVERIFY(eventually(allHeld));
    QVERIFY(eventually([&] { return renewals >= 500; })); // the server knows the script now
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(eventually([&] { return renewals >= 1000; }));
    const qint64 sent = m_server.commandsProcessed("evalsha") - before;
    QVERIFY2(sent <= 20, qPrintable(QString::number(sent)));
    QVERIFY(allHeld());
    locks.clear();
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

QTEST_GUILESS_MAIN(tst_Faults)

#include "tst_faults.moc"
