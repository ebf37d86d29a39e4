// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Options of locks, forceRelease(), inspect() and list() on a real server.

#include "support/locktesting.h"

#include "support/fakeclock.h"

#include <QtCore/qelapsedtimer.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

class tst_LockOperations : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void minHold();
    void maxRetries();
    void waitOfZero();
    void waitForever();
    void forceRelease();
    void forgedForceRelease();
    void inspectAndList();
    void manyLocksRenewTogether();

private:
    RedisServer m_server;
};

void tst_LockOperations::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_LockOperations::init()
{
    m_server.command({"FLUSHALL"});
    m_server.command({"SCRIPT", "FLUSH"});
}

void tst_LockOperations::minHold()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"job"_s);
    DistributedLock next(&registry, u"job"_s);
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
    QVERIFY(timer.elapsed() >= 395); // the clocks of server and client count in milliseconds
    next.release();

    // Held for longer than minHold: the key is deleted at once.
    QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
    lock.setOptions(options(5s).withMinHold(1ms));
    QVERIFY(acquireNow(&lock));
    QTRY_VERIFY(lock.remainingTime() < 5000 - 52 - 5);
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 2; }));
    QVERIFY(!m_server.exists("lock:job"));

    // Destruction respects minHold, too.
    {
        DistributedLock last(&registry, u"job"_s);
        last.setOptions(options(5s).withMinHold(2s));
        QVERIFY(acquireNow(&last));
    }
    QVERIFY(eventually([&] { return m_server.pttl("lock:job") <= 2000; }));
    QVERIFY(m_server.pttl("lock:job") > 1000);
}

void tst_LockOperations::maxRetries()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"job"_s);
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
        // Four attempts, then the command that leaves the queue.
        QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") - before >= 5; }));
        QVERIFY(eventually([&] { return !m_server.exists("{lock:job}:queue"); }));
        QCOMPARE(m_server.commandsProcessed("evalsha") - before, 5);
        QVERIFY(lock.errorString().contains(QLatin1String("3 retries")));
    }
}

void tst_LockOperations::waitOfZero()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"job"_s);
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
    lock.tryAcquire(); // ignores the wait
    QVERIFY(eventually([&] { return spies.failed.size() == 2; }));
    QCOMPARE(spies.failure(1), DistributedLock::BusyError);
    QCOMPARE(m_server.commandsProcessed("evalsha") - before, 2);
    QVERIFY(spies.errors.isEmpty()); // an ordinary outcome
}

void tst_LockOperations::waitForever()
{
    FakeClock clock; // destroyed after the registry, whose destructor reads it
    LockRegistry registry(m_server.url());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    DistributedLock lock(&registry, u"job"_s);
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

void tst_LockOperations::forceRelease()
{
    LockRegistry registry(m_server.url());
    LockRegistry other(m_server.url());
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options(1h));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const QByteArray client = m_server.get("lock:job").split(':').first();
    QVERIFY(eventually([&] { return m_server.subscriberCount("lock:client:" + client) == 1; }));
    const QFuture<bool> forced = other.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }, 2s));
    QCOMPARE(spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(eventually([&] { return forced.isFinished(); }));
    QVERIFY(forced.result());
    QVERIFY(!m_server.exists("lock:job"));

    // The lock passes to a waiter.
    QVERIFY(acquireNow(&lock));
    DistributedLock successor(&other, u"job"_s);
    successor.setOptions(options(20s));
    other.forceRelease(u"job"_s);
    successor.acquire();
    QVERIFY(eventually([&] { return spies.lost.size() == 2 && successor.isHeld(); }, 2s));
    QCOMPARE(spies.reason(1), DistributedLock::ForcedRelease);
    // A foreign holder cannot be notified, but its key is deleted.
    successor.release();
    QVERIFY(eventually([&] { return successor.state() == DistributedLock::Unlocked; }));
    m_server.command({"SET", "lock:job", "foreign"});
    const QFuture<bool> foreign = other.forceRelease(u"job"_s);
    const QFuture<bool> nobody = other.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return nobody.isFinished(); }));
    QVERIFY(foreign.result());
    QVERIFY(!nobody.result());
}

// A message is only a hint: it makes the holder check its key.
void tst_LockOperations::forgedForceRelease()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"job"_s);
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
    QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before; })); // checks its key
    const qsizetype renewed = spies.renewed.size();
    QVERIFY(eventually([&] { return spies.renewed.size() > renewed || renewed > 0; }));
    processEvents();
    QVERIFY(lock.isHeld());
    QVERIFY(spies.lost.isEmpty());
    // A later loss of another kind is not reported as a forced release.
    m_server.command({"DEL", "lock:job"});
    lock.release();
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
}

void tst_LockOperations::inspectAndList()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"a:one"_s);
    lock.setOptions(options(20s));
    QVERIFY(acquireNow(&lock));
    m_server.command({"SET", "lock:a:two", "somebody"});
    m_server.command({"RPUSH", "lock:a:list", "x"});
    m_server.command({"SET", "other:a:key", "x"});
    const auto inspected = registry.inspect(u"a:one"_s);
    const auto free = registry.inspect(u"nobody"_s);
    const auto listed = registry.list(u"a:*"_s);
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
        names << info.name + (info.foreign ? u" foreign"_s : QString());
    names.sort();
    QCOMPARE(names, (QStringList{u"a:one"_s, u"a:two foreign"_s}));
}

void tst_LockOperations::manyLocksRenewTogether()
{
    LockRegistry registry(m_server.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int renewals = 0;
    for (int i = 0; i < 500; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, u"many%1"_s.arg(i)));
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

QTEST_GUILESS_MAIN(tst_LockOperations)
#include "tst_lockoperations.moc"
