// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locks kept by a master that Sentinels watch and replace.

#include "support/locktesting.h"

#include "support/faultproxy.h"
#include "support/posix.h"
#include "support/sentinelset.h"

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

private:
    /// Each test begins with a healthy set.
    std::unique_ptr<SentinelSet> m_set;
};

void tst_Sentinel::initTestCase()
{
    m_set = std::make_unique<SentinelSet>();
    QVERIFY2(m_set->start(), qPrintable(m_set->errorString()));
}

void tst_Sentinel::init()
{
    for (int i = 0; i < m_set->serverCount(); ++i)
        QVERIFY(m_set->server(i).start());
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
        sleeper.send("DEBUG SLEEP 4\r\n");
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

QTEST_GUILESS_MAIN(tst_Sentinel)
#include "tst_sentinel.moc"
