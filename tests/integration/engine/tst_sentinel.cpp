// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks kept by a master that Sentinels watch and replace.

#include "support/locktesting.h"

#include "support/fakesentinel.h"
#include "support/faultproxy.h"
#include "support/posix.h"
#include "support/sentinelset.h"

#include <QtCore/qelapsedtimer.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// A fail-over takes two or three seconds here, on a busy machine more.
constexpr milliseconds FailOverTimeout = 20s;
constexpr milliseconds Lease = 15s;

} // namespace

class tst_Sentinel : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void failOver_data();
    void failOver();
    void oldMasterIsLeftAlone();
    void waitersGoOn();
    void silentSentinels_data();
    void silentSentinels();
    void partition_data();
    void partition();
    void shortLease();
    void twoSpellingsAreOneService();
    void passwords();
    void errors_data();
    void errors();

private:
    /// Each test begins with a healthy set.
    std::unique_ptr<SentinelSet> m_set;
};

void tst_Sentinel::initTestCase()
{
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", "sentinels");
    m_set = std::make_unique<SentinelSet>();
    QVERIFY2(m_set->start(), qPrintable(m_set->errorString()));
}

void tst_Sentinel::init()
{
    for (int i = 0; i < m_set->serverCount(); ++i)
        QVERIFY(m_set->server(i).start());
    m_set->heal();
    QVERIFY(eventually([this] { return m_set->isHealthy() && m_set->hasSwitchedFrom(0); }, 30s));
    m_set->master().command({"FLUSHALL"});
    QCOMPARE(m_set->master().command({"WAIT", "2", "5000"}), QVariant(2LL));
}

void tst_Sentinel::failOver_data()
{
    QTest::addColumn<QString>("how");
    QTest::newRow("SIGKILL") << u"kill"_s;
    QTest::newRow("SIGSTOP") << u"stop"_s;
    QTest::newRow("DEBUG SLEEP") << u"sleep"_s;
    QTest::newRow("SENTINEL FAILOVER") << u"failover"_s;
}

/// Held locks stay held, and are renewed at the new master at once.
void tst_Sentinel::failOver()
{
    QFETCH(const QString, how);
    LockRegistry registry(m_set->url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    std::vector<std::unique_ptr<Spies>> spies;
    for (int i = 0; i < 20; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, u"job%1"_s.arg(i)));
        locks.back()->setOptions(options(Lease));
        spies.push_back(std::make_unique<Spies>(locks.back().get()));
        QVERIFY2(acquireNow(locks.back().get()), qPrintable(locks.back()->errorString()));
    }
    RedisServer &old = m_set->master();
    const quint16 oldPort = old.port();
    QCOMPARE(old.command({"WAIT", "2", "5000"}), QVariant(2LL));

    RespClient sleeper;
    if (how == u"kill") {
        old.kill();
    } else if (how == u"stop") {
        old.pause();
    } else if (how == u"sleep") {
        QVERIFY(sleeper.connectToTcp(oldPort));
        sleeper.send("AUTH masters\r\nDEBUG SLEEP 4\r\n");
    } else {
        QVERIFY(m_set->failOver());
    }
    QVERIFY(eventually([&] { return m_set->hasSwitchedFrom(oldPort); }, FailOverTimeout));
    QVERIFY(eventually([&] {
        return std::all_of(spies.begin(), spies.end(), [](const auto &spy) { return !spy->renewed.isEmpty(); });
    }));
    old.resume();
    RedisServer &now = m_set->master();
    for (size_t i = 0; i < locks.size(); ++i) {
        QVERIFY2(spies[i]->lost.isEmpty(), qPrintable(locks[i]->errorString()));
        QVERIFY(locks[i]->isHeld());
        QVERIFY(now.exists("lock:job" + QByteArray::number(i)));
    }
    locks.front()->release();
    QVERIFY(eventually([&] { return spies.front()->released.size() == 1; }));
    QVERIFY(!now.exists("lock:job0"));
}

/// Stopped, replaced and continued, the old master takes writes as before: none of ours may come there.
void tst_Sentinel::oldMasterIsLeftAlone()
{
    LockRegistry registry(m_set->url());
    DistributedLock held(&registry, u"held"_s);
    held.setOptions(options(Lease));
    Spies heldSpies(&held);
    QVERIFY(acquireNow(&held));
    // A lock that is acquired and released again and again.
    DistributedLock busy(&registry, u"busy"_s);
    busy.setOptions(options(Lease, LockOptions::Forever));
    int rounds = 0;
    connect(&busy, &DistributedLock::acquired, &busy, &DistributedLock::release);
    connect(&busy, &DistributedLock::released, &busy, [&] {
        ++rounds;
        busy.acquire();
    });
    busy.acquire();
    QVERIFY(eventually([&] { return rounds > 10; }));

    RedisServer &old = m_set->master();
    const quint16 oldPort = old.port();
    old.pause();
    QVERIFY(eventually([&] { return m_set->hasSwitchedFrom(oldPort); }, FailOverTimeout));
    const int before = rounds;
    QVERIFY(eventually([&] { return rounds > before + 3 && !heldSpies.renewed.isEmpty(); }));
    old.resume();
    // What lay in its socket is executed in these turns of its event loop.
    for (int i = 0; i < 3; ++i)
        QCOMPARE(old.command({"PING"}).toByteArray(), QByteArray("PONG"));
    const auto calls = [&old] { return old.commandsProcessed("evalsha") + old.commandsProcessed("eval"); };
    const qint64 callsBefore = calls();
    QCOMPARE(old.command({"ROLE"}).toList().value(0).toByteArray(), QByteArray("master"));
    const int roundsBefore = rounds;
    QVERIFY(eventually([&] { return rounds > roundsBefore + 50; }));
    QCOMPARE(calls(), callsBefore);
    QVERIFY(!old.command({"CLIENT", "LIST"}).toByteArray().contains("name=qdistlock-"));
    QVERIFY(heldSpies.lost.isEmpty());
    busy.disconnect();
}

void tst_Sentinel::waitersGoOn()
{
    LockRegistry holders(m_set->url());
    LockRegistry waiters(m_set->url());
    DistributedLock held(&holders, u"job"_s);
    held.setOptions(options(Lease));
    QVERIFY(acquireNow(&held));
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int served = 0;
    int inside = 0;
    for (int i = 0; i < 16; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&waiters, u"job"_s));
        DistributedLock *const lock = locks.back().get();
        lock->setOptions(options(Lease, LockOptions::Forever));
        connect(lock, &DistributedLock::acquired, lock, [&, lock] {
            ++served;
            QCOMPARE(++inside, 1);
            lock->release();
        });
        connect(lock, &DistributedLock::released, lock, [&] { --inside; });
        connect(lock, &DistributedLock::lost, lock, [&] { --inside; });
        lock->acquire();
    }
    RedisServer &old = m_set->master();
    const quint16 oldPort = old.port();
    QVERIFY(eventually([&] { return old.command({"ZCARD", "{lock:job}:queue"}) == QVariant(16LL); }));
    QCOMPARE(old.command({"WAIT", "2", "5000"}), QVariant(2LL));
    old.kill();
    QVERIFY(eventually([&] { return m_set->hasSwitchedFrom(oldPort); }, FailOverTimeout));
    QVERIFY(eventually(
            [&] { return holders.state() == LockRegistry::Ready && waiters.state() == LockRegistry::Ready; }));
    QCOMPARE(served, 0);
    QVERIFY(held.isHeld());
    held.release();
    QVERIFY(eventually([&] { return served == 16 && inside == 0; }, 20s));
    QVERIFY(eventually([&] { return lockKeys(m_set->master()).isEmpty(); }));
}

void tst_Sentinel::silentSentinels_data()
{
    QTest::addColumn<QString>("confirm");
    QTest::addColumn<bool>("isKept");
    QTest::newRow("majority") << u"confirm=majority"_s << false;
    QTest::newRow("off") << u"confirm=off"_s << true;
}

/// Two of three do not answer: nobody knows whether the master was replaced.
void tst_Sentinel::silentSentinels()
{
    QFETCH(const QString, confirm);
    QFETCH(const bool, isKept);
    LockRegistry registry(m_set->url(confirm));
    DistributedLock held(&registry, u"job"_s);
    held.setOptions(options(3s));
    Spies spies(&held);
    QVERIFY(acquireNow(&held));
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    m_set->pauseSentinel(1);
    m_set->pauseSentinel(2);
    if (isKept) {
        QVERIFY(eventually([&] { return spies.renewed.size() >= 4; }));
        QVERIFY(spies.lost.isEmpty());
    } else {
        QVERIFY(eventually([&] { return !spies.errors.isEmpty(); }));
        QVERIFY2(held.errorString().contains(u"2 of 3 Sentinels are silent"_s), qPrintable(held.errorString()));
        QCOMPARE(held.error(), DistributedLock::QuorumError);
        QVERIFY(held.isHeld());
        QVERIFY(eventually([&] { return !spies.lost.isEmpty(); }));
        QCOMPARE(spies.reason(), DistributedLock::LeaseExpired);
        QCOMPARE(spies.atRisk.size(), 1);
        // What the server grants now is not believed either.
        DistributedLock another(&registry, u"another"_s);
        another.setOptions(options(3s, 1s));
        QVERIFY(!acquireNow(&another));
        QCOMPARE(another.error(), DistributedLock::QuorumError);
    }
    m_set->resumeSentinel(1);
    m_set->resumeSentinel(2);
    if (!isKept)
        QVERIFY(eventually([&] { return acquireNow(&held); }));
    const qsizetype renewed = spies.renewed.size();
    QVERIFY(eventually([&] { return spies.renewed.size() > renewed; }));
}

void tst_Sentinel::partition_data()
{
    silentSentinels_data();
}

/// The client, the master and one Sentinel are cut off from the others, which choose another master.
void tst_Sentinel::partition()
{
    QFETCH(const QString, confirm);
    QFETCH(const bool, isKept);
    FaultProxy second(m_set->sentinelPort(1));
    FaultProxy third(m_set->sentinelPort(2));
    LockRegistry registry(m_set->url(confirm, {m_set->sentinelPort(0), second.port(), third.port()}));
    DistributedLock held(&registry, u"job"_s);
    held.setOptions(options(5s));
    Spies spies(&held);
    QVERIFY(acquireNow(&held));
    RedisServer &old = m_set->master();
    const quint16 oldPort = old.port();
    QCOMPARE(old.command({"WAIT", "2", "5000"}), QVariant(2LL));
    second.setBlackHole(true);
    third.setBlackHole(true);
    m_set->partition();
    QVERIFY(eventually(
            [&] {
                const quint16 port = m_set->masterPort(1);
                return port != 0 && port != oldPort;
            },
            FailOverTimeout));

    LockRegistry others(m_set->url({}, {m_set->sentinelPort(1), m_set->sentinelPort(2)}));
    DistributedLock theirs(&others, u"job"_s);
    theirs.setOptions(options(5s, 15s));
    theirs.acquire();
    if (isKept) { // as documented: two holders
        const qsizetype renewed = spies.renewed.size();
        QVERIFY(eventually([&] { return theirs.isHeld() && spies.renewed.size() > renewed; }, 15s));
        QVERIFY(held.isHeld());
    } else {
        QVERIFY(eventually([&] { return !held.isHeld() || theirs.isHeld(); }, 15s));
        QVERIFY(!held.isHeld());
        QVERIFY(eventually([&] { return spies.lost.size() == 1 && theirs.isHeld(); }, 15s));
        DistributedLock another(&registry, u"another"_s);
        another.setOptions(options(5s, 1s));
        QVERIFY(!acquireNow(&another));
        QVERIFY(another.error() == DistributedLock::QuorumError || another.error() == DistributedLock::ConnectionError);
    }
    second.heal();
    third.heal();
    m_set->heal();
    const quint16 newPort = m_set->masterPort(1);
    QVERIFY(eventually([&] { return m_set->masterPort(0) == newPort && registry.state() == LockRegistry::Ready; },
                       30s));
    // One of them has lost it: ours, unless a busy machine has caused another fail-over.
    QVERIFY(eventually([&] { return held.isHeld() != theirs.isHeld(); }));
    DistributedLock &last = held.isHeld() ? held : theirs;
    last.release();
    QVERIFY(eventually([&] { return last.state() == DistributedLock::Unlocked && acquireNow(&held); }));
}

void tst_Sentinel::shortLease()
{
    const LogCapture log;
    LockRegistry registry(m_set->url());
    DistributedLock lock(&registry, u"job"_s);
    for (const milliseconds lease : std::initializer_list<milliseconds>{Lease, 5s, 1s}) {
        lock.setOptions(options(lease));
        QVERIFY(acquireNow(&lock));
        lock.release();
        QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked; }));
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

void tst_Sentinel::passwords()
{
    SentinelSet::Options setOptions;
    setOptions.replicas = 1;
    setOptions.sentinels = 1;
    setOptions.password = "masters";
    setOptions.sentinelPassword = "sentinels";
    SentinelSet set(setOptions);
    QVERIFY2(set.start(), qPrintable(set.errorString()));
    const auto attempt = [](const QUrl &url, QString *text) {
        LockRegistry registry(url);
        DistributedLock lock(&registry, u"job"_s);
        lock.setOptions(options(Lease, 3s));
        const bool isHeld = acquireNow(&lock);
        *text = lock.errorString();
        return isHeld ? DistributedLock::NoError : lock.error();
    };
    QString text;
    qunsetenv("QDISTLOCK_SENTINEL_PASSWORD");
    QCOMPARE(attempt(set.url(), &text), DistributedLock::AuthenticationError);
    QVERIFY2(text.contains(u"QDISTLOCK_SENTINEL_PASSWORD"_s), qPrintable(text));
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", "sentinels");
    QCOMPARE(attempt(set.url(), &text), DistributedLock::NoError);
    QUrl wrong = set.url();
    wrong.setPassword(u"c4n4ry"_s);
    QCOMPARE(attempt(wrong, &text), DistributedLock::AuthenticationError);
    QVERIFY2(text.contains(u"WRONGPASS"_s) && !text.contains(u"c4n4ry"_s), qPrintable(text));
    wrong.setPassword(QString());
    QCOMPARE(attempt(wrong, &text), DistributedLock::AuthenticationError);
    QVERIFY2(text.contains(u"QDISTLOCK_PASSWORD"_s), qPrintable(text));
}

void tst_Sentinel::errors_data()
{
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("text");
    QTest::addColumn<bool>("atOnce");
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
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options(Lease, 2s));
    Spies spies(&lock);
    QElapsedTimer timer;
    timer.start();
    QVERIFY(!acquireNow(&lock));
    QVERIFY2(lock.errorString().contains(text), qPrintable(lock.errorString()));
    QVERIFY2((timer.elapsed() < 1500) == atOnce, qPrintable(QString::number(timer.elapsed())));
}

QTEST_GUILESS_MAIN(tst_Sentinel)
#include "tst_sentinel.moc"
