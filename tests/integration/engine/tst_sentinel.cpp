// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks kept by a master that Sentinels watch and replace.

#include "support/locktest.h"

#include "support/fakesentinel.h"
#include "support/faultproxy.h"
#include "support/posix.h"
#include "support/rows.h"
#include "support/sentinelset.h"
#include "support/testkinds.h"

#include <QtCore/qregularexpression.h>
#include <QtCore/qscopeguard.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// A fail-over takes two or three seconds here, on a busy machine more: an election that fails is repeated after 4 s.
constexpr milliseconds Patience = 60s;
/// Longer than any fail-over.
constexpr milliseconds Lease = 60s;
/// The down-after-milliseconds of the Sentinels while they must replace the master.
constexpr milliseconds DownAfter = 500ms;
/// At other times: on a busy machine they must not replace a master that is alive.
constexpr milliseconds NeverDown = 10min;

/// A client that waits for a lock many times, and releases it as soon as it is served.
struct Waiters
{
    static constexpr qint64 Count = 64;

    Waiters(const QUrl &server, const QString &name)
        : registry(server)
    {
        for (int i = 0; i < Count; ++i) {
            locks.push_back(std::make_unique<TestLock>(&registry, name, options(Lease, LockOptions::Forever)));
            DistributedLock *const lock = locks.back().get();
            QObject::connect(lock, &DistributedLock::acquired, lock, [this, lock] {
                ++served;
                overlaps += ++inside > 1 ? 1 : 0;
                lock->release();
            });
            QObject::connect(lock, &DistributedLock::released, lock, [this] { --inside; });
            QObject::connect(lock, &DistributedLock::lost, lock, [this] { --inside; });
            lock->acquire();
        }
    }

    int served = 0;
    int inside = 0;
    int overlaps = 0;
    LockRegistry registry;
    std::vector<std::unique_ptr<DistributedLock>> locks;
};

} // namespace

class tst_Sentinel : public LockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void failOver_data()
    {
        addRows<QString>("how",
                         {{"SIGKILL", u"kill"_s},
                          {"SIGSTOP", u"stop"_s},
                          {"DEBUG SLEEP", u"sleep"_s},
                          {"SENTINEL FAILOVER", u"failover"_s}});
    }
    void failOver();
    void replicatedLocksAreKept();
    void oldMasterIsLeftAlone();
    void staleSentinel();
    void silentSentinels_data();
    void silentSentinels();
    void partition_data();
    void partition();
    void shortLease();
    void twoSpellingsAreOneService();
    void errors_data();
    void errors();

private:
    QUrl serverUrl() override { return m_set->url(); }
    /// Waits until another than the one at \a port is the master for all Sentinels.
    bool waitForSwitch(quint16 port, milliseconds downAfter = DownAfter);

    /// Each test begins with a healthy set.
    std::unique_ptr<SentinelSet> m_set;
};

void tst_Sentinel::initTestCase()
{
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", "sentinels");
    SentinelSet::Options options;
    options.downAfter = NeverDown;
    m_set = std::make_unique<SentinelSet>(options);
    QVERIFY2(m_set->start(), qPrintable(m_set->errorString()));
}

void tst_Sentinel::init()
{
    for (int i = 0; i < m_set->serverCount(); ++i)
        QVERIFY(m_set->server(i).start());
    m_set->setDownAfter(NeverDown);
    m_set->heal();
    QVERIFY(eventually([this] { return m_set->hasSwitchedFrom(0) && m_set->isHealthy(); }, 3 * Patience));
    m_set->master().command({"FLUSHALL"});
    QVERIFY(m_set->master().waitUntilReplicated(2));
}

bool tst_Sentinel::waitForSwitch(quint16 port, milliseconds downAfter)
{
    m_set->setDownAfter(downAfter);
    const bool isSwitching = eventually([&] { return m_set->isSwitchingFrom(port); });
    m_set->setDownAfter(NeverDown); // before they take the new master for down, too
    return isSwitching && eventually([&] { return m_set->hasSwitchedFrom(port); });
}

/// Held locks stay held, and are renewed at the new master at once; those who wait for one are served there.
void tst_Sentinel::failOver()
{
    QFETCH(const QString, how);
    std::vector<std::unique_ptr<DistributedLock>> locks;
    std::vector<std::unique_ptr<Spies>> spies;
    for (int i = 0; i < 20; ++i) {
        locks.push_back(std::make_unique<TestLock>(registry(), u"job%1"_s.arg(i), options(Lease)));
        spies.push_back(std::make_unique<Spies>(locks.back().get()));
        QVERIFY2(acquireNow(locks.back().get()), qPrintable(locks.back()->errorString()));
    }
    RedisServer &old = m_set->master();
    Waiters waiters(m_set->url(), u"job0"_s);
    QVERIFY(eventually([&] { return old.command({"ZCARD", "{lock:job0}:queue"}) == QVariant(Waiters::Count); }));
    const quint16 oldPort = old.port();
    QVERIFY(old.waitUntilReplicated(2));

    RespClient sleeper;
    const auto recovery = qScopeGuard([&] { how == u"sleep" ? old.kill() : old.resume(); });
    if (how == u"kill") {
        old.kill();
    } else if (how == u"stop") {
        old.pause();
    } else if (how == u"sleep") { // for longer than the fail-over takes, also on a busy machine
        QVERIFY(sleeper.connectToTcp(oldPort));
        QVERIFY(sleeper.send("AUTH masters\r\nDEBUG SLEEP 600\r\n"));
    } else {
        QVERIFY(eventually([&] { return m_set->failOverFrom(oldPort); }));
    }
    QVERIFY(waitForSwitch(oldPort));
    QVERIFY(eventually([&] { return all(spies, [](const auto &spy) { return !spy->renewed.isEmpty(); }); }));
    if (how == u"stop")
        old.resume();
    RedisServer &now = m_set->master();
    for (size_t i = 0; i < locks.size(); ++i) {
        QVERIFY2(spies[i]->lost.isEmpty(), qPrintable(locks[i]->errorString()));
        QVERIFY(locks[i]->isHeld());
        QVERIFY(now.exists("lock:job" + QByteArray::number(i)));
    }
    QVERIFY(eventually([&] { return waiters.registry.state() == LockRegistry::Ready; }));
    QCOMPARE(waiters.served, 0);
    for (const auto &lock : locks)
        lock->release();
    QVERIFY(eventually([&] { return waiters.served == Waiters::Count && waiters.inside == 0; }));
    QCOMPARE(waiters.overlaps, 0);
    QVERIFY(eventually([&] { return lockKeys(now).isEmpty(); }));
}

/// With minReplicas a fail-over loses no lock, and nobody has to wait for the replicas before it.
void tst_Sentinel::replicatedLocksAreKept()
{
    constexpr int Count = 100;
    std::vector<std::unique_ptr<DistributedLock>> locks;
    std::vector<std::unique_ptr<Spies>> spies;
    for (int i = 0; i < Count; ++i) {
        locks.push_back(std::make_unique<TestLock>(registry(), u"job%1"_s.arg(i),
                                                   options(30s, LockOptions::Forever).withMinReplicas(1)));
        spies.push_back(std::make_unique<Spies>(locks.back().get()));
        locks.back()->acquire();
    }
    const auto areHeld = [&] { return all(locks, [](const auto &lock) { return lock->isHeld(); }); };
    QVERIFY(eventually(areHeld));
    const auto keyOf = [](int i) { return "lock:job" + QByteArray::number(i); };
    RedisServer &old = m_set->master();
    QList<QByteArray> tokens;
    for (int i = 0; i < Count; ++i)
        tokens.append(old.get(keyOf(i)));
    QVERIFY(!tokens.contains(QByteArray()));
    const quint16 oldPort = old.port();
    old.kill();
    for (const auto &spy : spies)
        spy->renewed.clear();
    QVERIFY(waitForSwitch(oldPort, 1s));
    QVERIFY(eventually([&] { return all(spies, [](const auto &spy) { return !spy->renewed.isEmpty(); }); }));
    RedisServer &now = m_set->master();
    QVERIFY(now.port() != oldPort);
    for (int i = 0; i < Count; ++i) {
        QVERIFY2(spies[size_t(i)]->lost.isEmpty(), qPrintable(locks[size_t(i)]->errorString()));
        QCOMPARE(now.get(keyOf(i)), tokens.at(i));
    }
    QVERIFY(areHeld());
    for (const auto &lock : locks)
        lock->release();
    QVERIFY(eventually([&] { return lockKeys(now).isEmpty(); }));
}

/// Replaced, but not demoted, the old master takes writes as before: none of ours may come there.
void tst_Sentinel::oldMasterIsLeftAlone()
{
    TestLock held(registry(), u"held"_s, options(Lease));
    QVERIFY(acquireNow(&held));
    TestLock replicated(registry(), u"replicated"_s, options(Lease, LockOptions::Forever).withMinReplicas(1));
    QVERIFY(acquireNow(&replicated));
    RedisServer &old = m_set->master();
    const quint16 oldPort = old.port();
    QVERIFY(old.waitUntilReplicated(2));
    // A lock that is acquired and released again and again. The other master may not have its last release.
    TestLock busy(registry(), u"busy"_s, options(3s, LockOptions::Forever));
    int rounds = 0;
    connect(&busy, &DistributedLock::acquired, &busy, &DistributedLock::release);
    const auto again = [&] {
        ++rounds;
        busy.acquire();
    };
    connect(&busy, &DistributedLock::released, &busy, again);
    connect(&busy, &DistributedLock::lost, &busy, again); // the other master may not have the key
    busy.acquire();
    QVERIFY(eventually([&] { return rounds > 10; }));

    m_set->hideMaster();
    QVERIFY(waitForSwitch(oldPort));
    // All Sentinels have written +switch-master to our sockets; this reads it. Until then, we could not know.
    processEvents();
    const auto calls = [&old] { return old.commandsProcessed("evalsha") + old.commandsProcessed("eval"); };
    // What lies in its socket is executed in these turns of its event loop.
    for (int i = 0; i < 3; ++i)
        QCOMPARE(old.command({"PING"}).toByteArray(), QByteArray("PONG"));
    const qint64 callsBefore = calls();
    QVERIFY(callsBefore > 10);
    held.spies.renewed.clear();
    replicated.spies.renewed.clear();
    const int roundsBefore = rounds;
    QVERIFY(eventually([&] { return rounds > roundsBefore + 50; }));
    QCOMPARE(calls(), callsBefore);
    QCOMPARE(old.command({"ROLE"}).toList().value(0).toByteArray(), QByteArray("master"));
    QVERIFY(!old.command({"CLIENT", "LIST"}).toByteArray().contains("name=qdistlock-"));
    QVERIFY(m_set->master().port() != oldPort);
    QVERIFY(held.spies.lost.isEmpty() && replicated.spies.lost.isEmpty());
    busy.disconnect();
}

/// It has slept through the fail-over, and names the former master.
void tst_Sentinel::staleSentinel()
{
    TestLock held(registry(), u"job"_s, options(Lease));
    QVERIFY(acquireNow(&held));
    RedisServer &old = m_set->master();
    const quint16 oldPort = old.port();
    QVERIFY(old.waitUntilReplicated(2));
    m_set->pauseSentinel(0);
    old.kill();
    QVERIFY(waitForSwitch(oldPort));
    QVERIFY(eventually([&] { return !held.spies.renewed.isEmpty(); }));
    QVERIFY(old.start()); // a master, until a Sentinel demotes it
    m_set->resumeSentinel(0);
    LockRegistry later(m_set->url());
    TestLock another(&later, u"another"_s, options(Lease));
    QVERIFY2(acquireNow(&another), qPrintable(another.errorString()));
    QVERIFY(m_set->serverAt(m_set->masterPort(1)).exists("lock:another"));
    QVERIFY(held.spies.lost.isEmpty());
    QVERIFY(eventually([&] { return m_set->hasSwitchedFrom(oldPort); }));
    QVERIFY(held.isHeld());
}

void tst_Sentinel::silentSentinels_data()
{
    addColumns<QString, bool, bool>("confirm", "areKilled", "isKept");
    QTest::newRow("two, majority") << u"confirm=majority"_s << false << false;
    QTest::newRow("two, off") << u"confirm=off"_s << false << true;
    QTest::newRow("all, majority") << u"confirm=majority"_s << true << false;
    QTest::newRow("all, off") << u"confirm=off"_s << true << true;
}

/// Two of three do not answer, or none runs: nobody knows whether the master was replaced.
void tst_Sentinel::silentSentinels()
{
    QFETCH(const QString, confirm);
    QFETCH(const bool, areKilled);
    QFETCH(const bool, isKept);
    LockRegistry registry(m_set->url(confirm));
    TestLock held(&registry, u"job"_s, options(4s));
    QVERIFY(acquireNow(&held));
    const auto end = [&](int sentinel) { areKilled ? m_set->killSentinel(sentinel) : m_set->pauseSentinel(sentinel); };
    const auto recover = [&] {
        for (int i = 0; i < 3; ++i)
            areKilled ? void(m_set->restartSentinel(i)) : m_set->resumeSentinel(i);
    };
    auto recovery = qScopeGuard(recover);
    if (areKilled)
        end(0);
    end(1);
    end(2);
    if (isKept) {
        QVERIFY(eventually([&] { return held.spies.renewed.size() >= 2 || !held.spies.lost.isEmpty(); }));
        QVERIFY2(held.spies.lost.isEmpty(), qPrintable(held.errorString()));
    } else {
        QVERIFY(eventually([&] { return !held.spies.errors.isEmpty(); }));
        // On a busy machine the third one may be late, too.
        static const QRegularExpression expected(u"[23] of 3 Sentinels are silent"_s);
        QVERIFY2(held.errorString().contains(expected), qPrintable(held.errorString()));
        QCOMPARE(held.error(), DistributedLock::QuorumError);
        QVERIFY(held.isHeld());
        QVERIFY(eventually([&] { return !held.spies.lost.isEmpty(); }));
        QCOMPARE(held.spies.reason(), DistributedLock::LeaseExpired);
        QCOMPARE(held.spies.atRisk.size(), 1);
        // The client does not believe a lock that this server grants now, either.
        TestLock another(&registry, u"another"_s, options(3s, 1500ms));
        QVERIFY(!acquireNow(&another));
        QCOMPARE(another.error(), DistributedLock::QuorumError);
    }
    recovery.dismiss();
    recover();
    if (!isKept)
        QVERIFY(eventually([&] { return acquireNow(&held); }));
    const qsizetype renewed = held.spies.renewed.size();
    QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));
}

void tst_Sentinel::partition_data()
{
    addColumns<QString, bool>("confirm", "isKept");
    QTest::newRow("majority") << u"confirm=majority"_s << false;
    QTest::newRow("off") << u"confirm=off"_s << true;
}

/// The client, the master and one Sentinel are cut off from the others, which choose another master.
void tst_Sentinel::partition()
{
    QFETCH(const QString, confirm);
    QFETCH(const bool, isKept);
    FaultProxy second(m_set->sentinelPort(1));
    FaultProxy third(m_set->sentinelPort(2));
    LockRegistry registry(m_set->url(confirm, {m_set->sentinelPort(0), second.port(), third.port()}));
    TestLock held(&registry, u"job"_s, options(5s));
    QVERIFY(acquireNow(&held));
    // A Sentinel that has not replied yet would be asked directly, at the address that Sentinel 0 lists.
    for (const FaultProxy *proxy : {&second, &third})
        QVERIFY(eventually([&] { return proxy->commandsForwarded("SUBSCRIBE") > 0; }));
    RedisServer &old = m_set->master();
    const quint16 oldPort = old.port();
    QVERIFY(old.waitUntilReplicated(2));
    second.setBlackHole(true);
    third.setBlackHole(true);
    m_set->partition();
    m_set->setDownAfter(DownAfter);
    QVERIFY(eventually([&] { return m_set->isSwitchingFrom(oldPort); }));
    m_set->setDownAfter(NeverDown);
    QVERIFY(eventually([&] {
        const quint16 port = m_set->masterPort(1);
        return port != oldPort && m_set->masterPort(2) == port;
    }));

    LockRegistry others(m_set->url({}, {m_set->sentinelPort(1), m_set->sentinelPort(2)}));
    TestLock theirs(&others, u"job"_s, options(5s, LockOptions::Forever));
    theirs.acquire();
    if (isKept) { // as documented: two holders
        const qsizetype renewed = held.spies.renewed.size();
        QVERIFY(eventually([&] { return theirs.isHeld() && held.spies.renewed.size() > renewed; }));
        QVERIFY(held.isHeld());
    } else {
        QVERIFY(eventually([&] { return !held.isHeld() || theirs.isHeld(); }));
        QVERIFY(!held.isHeld());
        QVERIFY(eventually([&] { return held.spies.lost.size() == 1 && theirs.isHeld(); }));
        TestLock another(&registry, u"another"_s, options(5s, 1s));
        QVERIFY(!acquireNow(&another));
        QVERIFY(another.error() == DistributedLock::QuorumError || another.error() == DistributedLock::ConnectionError);
    }
    second.heal();
    third.heal();
    m_set->heal();
    const quint16 newPort = m_set->masterPort(1);
    QVERIFY(eventually([&] { return m_set->masterPort(0) == newPort; }));
    // Ours is lost, at the latest when it is renewed at the other master.
    QVERIFY(eventually([&] { return !held.isHeld(); }));
    theirs.release();
    QVERIFY(eventually([&] { return theirs.state() == DistributedLock::Unlocked && acquireNow(&held); }));
}

void tst_Sentinel::shortLease()
{
    // The master is fine, and if it seems not to be, the Sentinels may replace it.
    m_set->setDownAfter(DownAfter);
    const LogCapture log;
    DistributedLock lock(registry(), u"job"_s);
    for (const milliseconds lease : std::initializer_list<milliseconds>{Lease, 5s, 1s}) {
        lock.setOptions(options(lease));
        QVERIFY(acquireNow(&lock));
        QVERIFY(releaseNow(&lock));
        // 500 ms and 3 s are two thirds of 5250 ms.
        QCOMPARE(log.count({u"down-after-milliseconds"_s}), lease == Lease ? 0 : 1);
    }
    QCOMPARE(log.count({u"500 ms"_s, u"5000 ms"_s, u"at least 5250 ms"_s, u"mymaster"_s}), 1);
}

void tst_Sentinel::twoSpellingsAreOneService()
{
    const QUrl first = m_set->url();
    const QUrl second = m_set->url(u"confirm=majority"_s,
                                   {m_set->sentinelPort(2), m_set->sentinelPort(0), m_set->sentinelPort(1)});
    QVERIFY(first != second);
    QCOMPARE(LockRegistry::instance(first), LockRegistry::instance(second));
    const QString shown = LockRegistry::instance(first)->server().toString();
    for (int i = 0; i < 3; ++i)
        QVERIFY2(shown.contains(QString::number(m_set->sentinelPort(i))), qPrintable(shown));
}

void tst_Sentinel::errors_data()
{
    addColumns<QString, QString, bool>("kind", "text", "atOnce");
    QTest::newRow("unknown service") << u"service"_s << u"knows no service \"another\"; check the name"_s << true;
    QTest::newRow("no Sentinel") << u"redis"_s << u"is a Redis server and no Sentinel"_s << true;
    QTest::newRow("no master there") << u"master"_s << u"if it cannot be reached from here, set replica-announce-ip"_s
                                     << false;
    QTest::newRow("a replica there") << u"replica"_s << u"is not the master of \"mymaster\""_s << false;
    QTest::newRow("nobody") << u"nobody"_s << u"none of its 1 Sentinels can be asked for the master"_s << false;
}

void tst_Sentinel::errors()
{
    QFETCH(const QString, kind);
    QFETCH(const QString, text);
    QFETCH(const bool, atOnce);
    FakeSentinel::View view;
    view.port = kind == u"replica"
            ? (m_set->server(0).port() == m_set->masterPort() ? m_set->server(1).port() : m_set->server(0).port())
            : Posix::freePort();
    if (kind == u"redis")
        view.error = "-ERR unknown command 'SENTINEL', with args beginning with: 'MYID' \r\n";
    const FakeSentinel sentinel(view);
    QUrl url = m_set->url();
    if (kind == u"service")
        url.setPath(u"/another"_s);
    else
        url = QUrl(u"redis+sentinel://:masters@127.0.0.1:%1/mymaster"_s.arg(kind == u"nobody" ? Posix::freePort()
                                                                                              : sentinel.port()));
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, options(Lease, atOnce ? milliseconds(LockOptions::Forever) : 2s));
    QVERIFY(!acquireNow(&lock));
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY2(lock.errorString().contains(text), qPrintable(lock.errorString()));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Sentinel)
#include "tst_sentinel.moc"
