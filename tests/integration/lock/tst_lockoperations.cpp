// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Options of locks, detach(), forceRelease(), inspect() and list() on a real server.

#include "support/locktest.h"

#include "support/fakeclock.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qhash.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

class tst_LockOperations : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void init();

    void minHold();
    void maxRetries();
    void waitOfZero();
    void waitForever();
    void forceRelease();
    void forgedForceRelease();
    void forceReleaseOfOneHolder();
    void detachedHold();
    void detachedHoldOfAnother();
    void badTokens();
    void detachWithoutHold();
    void waiters();
    void inspectAndList();
    void manyLocksRenewTogether();
};

void tst_LockOperations::init()
{
    RedisLockTest::init();
    m_server.command({"SCRIPT", "FLUSH"});
}

void tst_LockOperations::minHold()
{
    FakeClock clock;
    LockRegistry registry(m_server.url());
    LockRegistry other(m_server.url());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestLock lock(&registry, u"job"_s, options(1h).withMinHold(20min));
    DistributedLock next(&other, u"job"_s);
    QVERIFY(acquireNow(&lock));
    clock.advance(10min);
    QVERIFY(releaseNow(&lock));
    const qint64 ttl = m_server.pttl("lock:job");
    QVERIFY2(ttl > 300'000 && ttl <= 600'000, qPrintable(QString::number(ttl)));
    const auto taken = awaited(next.tryAcquireAsync());
    QCOMPARE(taken.error, DistributedLock::BusyError);
    m_server.command({"PEXPIRE", "lock:job", "1"});
    QVERIFY(acquireNow(&next));
    next.release();

    // Held for longer than minHold: the key is deleted at once.
    QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
    QVERIFY(acquireNow(&lock));
    clock.advance(21min);
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.holdsEnded() == 2; }));
    QCOMPARE(lock.spies.released.size(), 2);
    QVERIFY(!m_server.exists("lock:job"));

    // Destruction respects minHold, too.
    {
        TestLock last(&registry, u"job"_s, options(1h).withMinHold(20min));
        QVERIFY(acquireNow(&last));
    }
    QVERIFY(eventually([&] { return m_server.pttl("lock:job") <= 1'200'000; }));
    QVERIFY(m_server.pttl("lock:job") > 600'000);
}

void tst_LockOperations::maxRetries()
{
    TestLock lock(registry(), u"job"_s, options(30s, LockOptions::Forever).withMaxRetries(3).withRetryInterval(5ms));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    // Before it listens, it cannot join the queue; joining it later would take one more attempt.
    QVERIFY(eventually([this] { return isListening(registry()); }));
    m_server.command({"SET", "lock:job", "foreign"});
    for (int i = 1; i <= 2; ++i) {
        const qint64 before = m_server.commandsProcessed("evalsha");
        lock.acquire();
        QVERIFY(eventually([&] { return lock.spies.failed.size() == i; }));
        QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
        // Four attempts, then the command that leaves the queue.
        QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") - before >= 5; }));
        QVERIFY(eventually([&] { return !m_server.exists("{lock:job}:queue"); }));
        QCOMPARE(m_server.commandsProcessed("evalsha") - before, 5);
        QVERIFY(lock.errorString().contains(QLatin1String("3 retries")));
    }
}

void tst_LockOperations::waitOfZero()
{
    TestLock lock(registry(), u"job"_s, options(30s, 0ms));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    m_server.command({"SET", "lock:job", "foreign"});
    const qint64 before = m_server.commandsProcessed("evalsha");
    QCOMPARE(failureNow(&lock), DistributedLock::BusyError);
    lock.setWaitTime(LockOptions::Forever);
    lock.tryAcquire(); // ignores the wait
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 2; }));
    QCOMPARE(lock.spies.failure(1), DistributedLock::BusyError);
    QCOMPARE(m_server.commandsProcessed("evalsha") - before, 2);
    QVERIFY(lock.spies.errors.isEmpty()); // an ordinary outcome
}

void tst_LockOperations::waitForever()
{
    FakeClock clock; // destroyed after the registry, whose destructor reads it
    LockRegistry registry(m_server.url());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    TestLock lock(&registry, u"job"_s, options(5s, LockOptions::Forever));
    m_server.command({"SET", "lock:job", "foreign"});
    lock.acquire();
    for (int day = 0; day < 400; ++day) {
        processEvents();
        clock.advance(24h);
        LockRegistryPrivate::get(&registry)->watchdog()->wake();
    }
    QCOMPARE(lock.spies.total(), 0);
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    m_server.command({"DEL", "lock:job"});
    clock.advance(1s);
    LockRegistryPrivate::get(&registry)->watchdog()->wake();
    QVERIFY(eventually([&] {
        clock.advance(1ms);
        return lock.spies.acquired.size() == 1;
    }));
}

void tst_LockOperations::forceRelease()
{
    LockRegistry other(m_server.url());
    TestLock lock(registry(), u"job"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    const QByteArray client = m_server.get("lock:job").split(':').first();
    QVERIFY(eventually([&] { return m_server.subscriberCount("lock:client:" + client) == 1; }));
    const auto forced = other.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; })); // its next renewal would be in 20 min
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(eventually([&] { return forced.isFinished(); }));
    QCOMPARE(forced.result().value, LockRegistry::Done);
    QVERIFY(!m_server.exists("lock:job"));

    // The lock passes to a waiter.
    QVERIFY(acquireNow(&lock));
    TestLock successor(&other, u"job"_s);
    other.forceRelease(u"job"_s);
    successor.acquire();
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 2 && successor.isHeld(); }));
    QCOMPARE(lock.spies.reason(1), DistributedLock::ForcedRelease);
    // A foreign holder cannot be notified, but its key is deleted.
    QVERIFY(releaseNow(&successor));
    m_server.command({"SET", "lock:job", "foreign"});
    const auto foreign = other.forceRelease(u"job"_s);
    const auto nobody = awaited(other.forceRelease(u"job"_s));
    QCOMPARE(foreign.result().value, LockRegistry::Done);
    QCOMPARE(nobody.value, LockRegistry::NotHeld);
}

// A message is only a hint: it makes the holder check its key.
void tst_LockOperations::forgedForceRelease()
{
    TestLock lock(registry(), u"job"_s, options(1h));
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
    const qsizetype renewed = lock.spies.renewed.size();
    QVERIFY(eventually([&] { return lock.spies.renewed.size() > renewed || renewed > 0; }));
    processEvents();
    QVERIFY(lock.isHeld());
    QVERIFY(lock.spies.lost.isEmpty());
    // A later loss of another kind is not reported as a forced release.
    m_server.command({"DEL", "lock:job"});
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
}

// While the lock passes from one to the next, requests to take it away name a holder that was seen before.
void tst_LockOperations::forceReleaseOfOneHolder()
{
    LockRegistry other(m_server.url());
    DistributedLock one(registry(), u"job"_s);
    DistributedLock two(registry(), u"job"_s);
    int lost = 0;
    for (DistributedLock *lock : {&one, &two}) {
        lock->setOptions(options(30s, LockOptions::Forever));
        QObject::connect(lock, &DistributedLock::lost, lock, [&lost] { ++lost; });
        QObject::connect(lock, &DistributedLock::acquired, lock, &DistributedLock::release);
        QObject::connect(lock, &DistributedLock::released, lock, &DistributedLock::acquire);
        QObject::connect(lock, &DistributedLock::lost, lock, &DistributedLock::acquire);
        lock->acquire();
    }
    int hits = 0;
    QHash<LockRegistry::Outcome, int> outcomes;
    const QDeadlineTimer end(60s);
    for (int round = 0; round < 200 || (outcomes.value(LockRegistry::OtherHolder) == 0 && !end.hasExpired()); ++round) {
        const auto shown = awaited(other.inspect(u"job"_s));
        if (!shown.held)
            continue;
        const auto forced = awaited(other.forceRelease(u"job"_s, shown.fencingToken));
        QCOMPARE(forced.error, DistributedLock::NoError);
        ++outcomes[forced.value];
        hits += forced.value == LockRegistry::Done;
    }
    QVERIFY2(outcomes.value(LockRegistry::OtherHolder) > 0, "the lock was never handed over in between");
    for (DistributedLock *lock : {&one, &two})
        QObject::disconnect(lock, &DistributedLock::released, lock, &DistributedLock::acquire);
    QVERIFY(eventually([&] { return one.state() == DistributedLock::Unlocked && two.state() == one.state(); }));
    QVERIFY(lost <= hits);

    // Whoever uses another library has no fencing token, not even that of the holder before.
    const auto last = awaited(other.inspect(u"job"_s));
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    const auto foreign = other.forceRelease(u"job"_s, last.fencingToken);
    const auto nobody = other.forceRelease(u"job"_s, 0);
    QVERIFY(eventually([&] { return foreign.isFinished() && nobody.isFinished(); }));
    QCOMPARE(foreign.result().value, LockRegistry::OtherHolder);
    QCOMPARE(nobody.result().value, LockRegistry::OtherHolder);
    QVERIFY(m_server.exists("lock:job"));
}

void tst_LockOperations::detachedHold()
{
    LockRegistry other(m_server.url());
    QByteArray token;
    qint64 fencingToken = 0;
    {
        LockRegistry registry(m_server.url());
        TestLock lock(&registry, u"job"_s, options(10min).withAutoRenew(false));
        QVERIFY(acquireNow(&lock));
        lock.acquire(); // a second level ends, too
        QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
        fencingToken = lock.fencingToken();
        token = lock.detach();
        QCOMPARE(token, m_server.get("lock:job"));
        QVERIFY(!lock.isHeld());
        QCOMPARE(lock.state(), DistributedLock::Unlocked);
        QVERIFY(eventually([&] { return lock.spies.released.size() == 1; }));
        QVERIFY(lock.spies.lost.isEmpty());
        // The object may acquire again; at present the lock is taken.
        lock.tryAcquire();
        QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
        QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
    }
    QVERIFY(eventually([&] { return m_server.channels().isEmpty(); }));
    QCOMPARE(m_server.get("lock:job"), token); // it outlives lock, registry and connection
    const auto info = other.inspect(u"job"_s);
    const auto renewed = other.renew(u"job"_s, token, 1h);
    QVERIFY(eventually([&] { return info.isFinished() && renewed.isFinished(); }));
    QCOMPARE(info.result().fencingToken, fencingToken);
    QCOMPARE(renewed.result().value, LockRegistry::Done);
    QVERIFY(m_server.pttl("lock:job") > 3'500'000);

    TestLock waiter(&other, u"job"_s, options(30s, LockOptions::Forever).withRetryInterval(1h));
    QVERIFY(joinQueue(&waiter));
    const auto released = other.release(u"job"_s, token);
    QVERIFY(eventually([&] { return released.isFinished() && waiter.isHeld(); }));
    QCOMPARE(released.result().value, LockRegistry::Done);
    QVERIFY(waiter.fencingToken() > fencingToken);
    const auto again = other.release(u"job"_s, token);
    const auto late = other.renew(u"job"_s, token, 1h);
    QVERIFY(eventually([&] { return again.isFinished() && late.isFinished(); }));
    QCOMPARE(again.result().value, LockRegistry::OtherHolder);
    QCOMPARE(late.result().value, LockRegistry::OtherHolder);
    QVERIFY(waiter.isHeld());
    QCOMPARE(other.error(), DistributedLock::NoError);
}

// A token is of use for its own lock only.
void tst_LockOperations::detachedHoldOfAnother()
{
    TestLock lock(registry(), u"job"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    const QByteArray token = lock.detach();
    QVERIFY(!token.isEmpty());
    const auto free = registry()->release(u"other"_s, token);
    const auto renewed = registry()->renew(u"other"_s, token, 1h);
    QVERIFY(eventually([&] { return free.isFinished() && renewed.isFinished(); }));
    QCOMPARE(free.result().value, LockRegistry::NotHeld);
    QCOMPARE(renewed.result().value, LockRegistry::NotHeld);
    QVERIFY(m_server.exists("lock:job"));
    // As with minHold.
    const auto kept = awaited(registry()->release(u"job"_s, token, 10min));
    QCOMPARE(kept.value, LockRegistry::Done);
    QVERIFY(m_server.pttl("lock:job") > 300'000 && m_server.pttl("lock:job") <= 600'000);
}

void tst_LockOperations::badTokens()
{
    for (const QByteArray &token : {QByteArray(), QByteArray("x"), QByteArray("1:2:3\n"), QByteArray("*1ab:2:3c")}) {
        const auto released = registry()->release(u"job"_s, token);
        const auto renewed = registry()->renew(u"job"_s, token, 1s);
        QVERIFY(eventually([&] { return released.isFinished() && renewed.isFinished(); }));
        QCOMPARE(released.result().error, DistributedLock::OptionsError);
        QCOMPARE(renewed.result().error, DistributedLock::OptionsError);
    }
    for (const milliseconds keep : {-1ms, milliseconds(25h)}) {
        const auto released = awaited(registry()->release(u"job"_s, "1ab:2:3c", keep));
        QCOMPARE(released.error, DistributedLock::OptionsError);
    }
    const auto renewed = awaited(registry()->renew(u"job"_s, "1ab:2:3c", 0ms));
    QCOMPARE(renewed.error, DistributedLock::OptionsError);
    QVERIFY2(renewed.errorString.contains(u"lease"_s), qPrintable(renewed.errorString));
}

void tst_LockOperations::detachWithoutHold()
{
    DistributedLock lock(registry(), u"job"_s);
    const LogCapture log;
    QCOMPARE(lock.detach(), QByteArray());
    QCOMPARE(log.count({u"detach()"_s, u"not held"_s}), 1);
    lock.acquire();
    QCOMPARE(lock.detach(), QByteArray());
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    lock.release();
    QCOMPARE(lock.detach(), QByteArray());
    QVERIFY(eventually([&] { return !m_server.exists("lock:job"); }));
}

void tst_LockOperations::waiters()
{
    LockRegistry other(m_server.url());
    TestLock holder(registry(), u"job"_s);
    TestLock waiter(&other, u"job"_s, options(30s, LockOptions::Forever));
    QVERIFY(acquireNow(&holder));
    QVERIFY(joinQueue(&waiter));
    const auto found = registry()->waiters(u"job"_s);
    const auto none = registry()->waiters(u"other"_s);
    QVERIFY(eventually([&] { return found.isFinished() && none.isFinished(); }));
    QCOMPARE(found.result().value.size(), 1);
    QVERIFY(none.result().value.isEmpty());
    QVERIFY(m_server.cli({"ZRANGE", "{lock:job}:queue", "0", "0"})
                    .startsWith(found.result().value.first().client.id.toLatin1() + ':'));
    QVERIFY(found.result().value.first().client.connected);
    QCOMPARE(found.result().value.first().client.pid, QCoreApplication::applicationPid());
    QCOMPARE(found.result().value.first().client.application, u"tst_lockoperations"_s);
    QVERIFY(!found.result().value.first().client.host.isEmpty());

    // One that is gone, without the number of its connection, and with a wrong one.
    for (const char *random : {"00", "000000000000000000000000000000007", "00000000000000000000000000000000abc"})
        m_server.command({"ZADD", "{lock:job}:queue", "1e300", "1234567890abcdef:1:"_ba + random});
    const auto withDead = awaited(registry()->waiters(u"job"_s));
    QCOMPARE(withDead.value.size(), 4);
    QCOMPARE(withDead.value.first().client.pid, QCoreApplication::applicationPid());
    for (const QDistLock::LockWaiter &waiter : withDead.value.sliced(1)) {
        QVERIFY(!waiter.client.connected);
        QCOMPARE(waiter.client.pid, 0);
        QCOMPARE(waiter.client.application, QString());
    }

    m_server.command({"SET", "{lock:type}:queue", "x"});
    const auto failed = awaited(registry()->waiters(u"type"_s));
    QCOMPARE(failed.error, DistributedLock::ForeignTypeError);
}

void tst_LockOperations::inspectAndList()
{
    TestLock lock(registry(), u"a:one"_s, options(1h));
    QVERIFY(acquireNow(&lock));
    m_server.command({"SET", "lock:a:two", "somebody"});
    m_server.command({"RPUSH", "lock:a:list", "x"});
    m_server.command({"SET", "other:a:key", "x"});
    const auto inspected = registry()->inspect(u"a:one"_s);
    const auto free = registry()->inspect(u"nobody"_s);
    const auto listed = registry()->list(u"a:*"_s);
    QVERIFY(eventually([&] { return inspected.isFinished() && free.isFinished() && listed.isFinished(); }));
    const QByteArray token = m_server.get("lock:a:one");
    QVERIFY(inspected.result().held);
    QVERIFY(!inspected.result().foreign);
    QCOMPARE(inspected.result().holder.id, QString::fromLatin1(token.split(':').first()));
    QCOMPARE(inspected.result().fencingToken, lock.fencingToken());
    QVERIFY(inspected.result().remaining > 50min && inspected.result().remaining <= 1h);
    QVERIFY(!free.result().held);
    QCOMPARE(free.result().error, DistributedLock::NoError);
    QStringList names;
    for (const auto &info : listed.result().value)
        names << info.name + (info.foreign ? u" foreign"_s : QString());
    names.sort();
    QCOMPARE(names, (QStringList{u"a:one"_s, u"a:two foreign"_s}));
}

void tst_LockOperations::manyLocksRenewTogether()
{
    FakeClock clock;
    LockRegistry registry(m_server.url());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    DistributedLock first(&registry, u"first"_s);
    QVERIFY(acquireNow(&first)); // connected
    first.release();
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int renewals = 0;
    for (int i = 0; i < 500; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"many%1"_s.arg(i), options(60s)));
        connect(locks.back().get(), &DistributedLock::renewed, this, [&renewals] { ++renewals; });
        locks.back()->acquire();
        clock.advance(1ms);
    }
    const auto allHeld = [&] { return all(locks, [](const auto &lock) { return lock->isHeld(); }); };
    QVERIFY(eventually(allHeld));
    int inspected = 0;
    // Replies come in order: that of inspect() is later than those of the renewals.
    const auto renewUntil = [&](int count) {
        for (int step = 0; renewals < count && step < 1000; ++step) {
            clock.advance(100ms);
            LockRegistryPrivate::get(&registry)->watchdog()->wake();
            sendNow();
            const auto shown = registry.inspect(u"first"_s);
            ++inspected;
            if (!eventually([&] { return shown.isFinished(); }))
                return false;
        }
        return renewals >= count;
    };
    QVERIFY(renewUntil(500)); // the server knows the script now
    inspected = 0;
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(renewUntil(1000));
    const qint64 sent = m_server.commandsProcessed("evalsha") - before - inspected;
    QVERIFY2(sent > 0 && sent <= 20, qPrintable(QString::number(sent)));
    QVERIFY(allHeld());
    locks.clear();
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_LockOperations)
#include "tst_lockoperations.moc"
