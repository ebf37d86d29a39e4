// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/clusterslot.h"
#include "support/locktest.h"

#include "support/eventually.h"
#include "support/monitor.h"
#include "support/rediscluster.h"
#include "support/redisset.h"
#include "support/registrytime.h"

#include <QDistLock/LockMonitorModel>

#include <QtCore/qeventloop.h>
#include <QtCore/qpointer.h>
#include <QtCore/qrandom.h>
#include <QtCore/qsortfilterproxymodel.h>
#include <QtCore/qtimer.h>
#include <QtTest/qabstractitemmodeltester.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using QDistLock::LockClient;
using QDistLock::LockInfo;
using QDistLock::LockMonitorModel;

class tst_LockMonitorModel : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void everyServer_data();
    void everyServer();
    void kinds();
    void otherKeys();
    void handedOver();
    void released();
    void acquiredAgain();
    void lastOfARoundIsGone();
    void releasedWhileSettingsChange();
    void expiring();
    void hugeTtl();
    void readersThatStay();
    void disconnected();
    void patternAndPrefix();
    void inactive();
    void loadIsNotified();
    void roles();
    void settings();

    void noServer();
    void badUrl();
    void wrongPassword();
    void serverGoesAndComes();
    void rights_data();
    void rights();
    void masterIsAway();
    void slotMoves();
    void registryDestroyed();
    void registryDestroyedInFlight();
    void foreignRegistry();

    void manyLocks();
    void randomOrder_data() { Support::addRows<bool>("memory", {{"redis", false}, {"memory", true}}); }
    void randomOrder();
    void forceReleaseHitsTheShownHolder();
    void nestedEventLoops();
    void destroyedInItsSignals_data();
    void destroyedInItsSignals();
    void changedInItsSignals();

private:
    void writeLocks(int count, const QByteArray &prefix = "lock:many:");
};

void tst_LockMonitorModel::writeLocks(int count, const QByteArray &prefix)
{
    const QByteArray script = "for i = 1, ARGV[1] do redis.call('SET', ARGV[2] .. i, 'x', 'PX', 600000) end return 1";
    QVERIFY(m_server.command({"EVAL", script, "0", QByteArray::number(count), prefix}).isValid());
}

void tst_LockMonitorModel::everyServer_data()
{
    Support::addNamedRows<QString>("server", {"redis", "memory", "cluster", "quorum", "scripts=off"});
}

void tst_LockMonitorModel::everyServer()
{
    QFETCH(QString, server);
    std::optional<Support::Started<Support::RedisCluster>> cluster;
    std::optional<Support::Started<Support::RedisSet>> quorum;
    QUrl url = m_server.url();
    if (server == u"memory")
        url = QUrl(u"memory:everyServer"_s);
    else if (server == u"cluster")
        url = cluster.emplace(Support::RedisCluster::Options::mastersOnly()).url();
    else if (server == u"quorum")
        url = quorum.emplace(3).url();
    else if (server == u"scripts=off")
        url.setQuery(u"scripts=off"_s);

    LockRegistry holders(url);
    std::vector<std::unique_ptr<TestLock>> locks;
    const QStringList names{u"a"_s, u"b:1"_s, u"b:2"_s, u"c"_s, u"d"_s};
    for (const QString &name : names) {
        locks.push_back(std::make_unique<TestLock>(&holders, name));
        QVERIFY(acquireNow(locks.back().get()));
    }

    Monitor monitor(url);
    EVENTUALLY_COMPARE(monitor.names(), names);
    EVENTUALLY_VERIFY(monitor.model.isComplete());
    EVENTUALLY_COMPARE(monitor.model.problems(), QStringList());
    QCOMPARE(monitor.model.count(), 5);
    for (const auto &lock : locks) {
        const QString name = lock->name();
        QCOMPARE(monitor.status(name), int(LockMonitorModel::Held));
        QCOMPARE(monitor.data(name, LockMonitorModel::FencingToken).toLongLong(), lock->fencingToken());
        const qint64 left = monitor.data(name, LockMonitorModel::Deadline).toLongLong() - monitor.model.now();
        QVERIFY2(left <= milliseconds(30s).count(), qPrintable(QString::number(left)));
        QVERIFY(monitor.data(name, LockMonitorModel::Updated).toLongLong() <= monitor.model.now());
        const auto clients = monitor.data(name, LockMonitorModel::Holders).value<QList<LockClient>>();
        QCOMPARE(clients.size(), 1);
        if (server != u"memory")
            QCOMPARE(clients.first().pid, QCoreApplication::applicationPid());
        QCOMPARE(monitor.holder(name), clients.first().toString());
    }

    locks.at(1)->release();
    TestLock added(&holders, u"b:1a"_s);
    QVERIFY(acquireNow(&added));
    monitor.model.refresh(); // a quorum, where all locks must be read each time, is not asked often
    EVENTUALLY_COMPARE(monitor.status(u"b:1a"_s), int(LockMonitorModel::Held));
    EVENTUALLY_COMPARE(monitor.names(), QStringList({u"a"_s, u"b:1a"_s, u"b:2"_s, u"c"_s, u"d"_s}));
}

void tst_LockMonitorModel::kinds()
{
    LockRegistry first(m_server.url());
    LockRegistry second(m_server.url());
    TestLock reader(&first, u"read"_s, options().withMode(LockOptions::Shared));
    TestLock otherReader(&second, u"read"_s, options().withMode(LockOptions::Shared));
    TestLock permit(&first, u"permits"_s, options().withPermits(3));
    TestLock otherPermit(&second, u"permits"_s, options().withPermits(3));
    TestLock writer(&first, u"write"_s);
    for (TestLock *lock : {&reader, &otherReader, &permit, &otherPermit, &writer})
        QVERIFY(acquireNow(lock));
    TestLock waiter(&second, u"write"_s);
    QVERIFY(joinQueue(&waiter));
    m_server.command({"SET", "lock:foreign", "x", "PX", "600000"});
    m_server.command({"SET", "lock:endless", "x"});

    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.names(), QStringList({u"endless"_s, u"foreign"_s, u"permits"_s, u"read"_s, u"write"_s}));
    const auto kindOf = [&](const QString &name) {
        return monitor.data(name, LockMonitorModel::Kind).value<LockMonitorModel::LockKind>();
    };
    QCOMPARE(kindOf(u"read"_s), LockMonitorModel::Readers);
    QCOMPARE(kindOf(u"permits"_s), LockMonitorModel::Permitted);
    QCOMPARE(kindOf(u"write"_s), LockMonitorModel::Exclusive);
    QCOMPARE(kindOf(u"foreign"_s), LockMonitorModel::Exclusive);
    QCOMPARE(monitor.status(u"read"_s), int(LockMonitorModel::Held));
    QCOMPARE(monitor.status(u"permits"_s), int(LockMonitorModel::Held));
    QCOMPARE(monitor.status(u"foreign"_s), int(LockMonitorModel::Foreign));
    QCOMPARE(monitor.status(u"endless"_s), int(LockMonitorModel::Endless));
    QCOMPARE(monitor.data(u"endless"_s, LockMonitorModel::Deadline), QVariant(qint64(-1)));
    QCOMPARE(monitor.data(u"endless"_s, LockMonitorModel::Lease), QVariant(qint64(-1)));
    QCOMPARE(monitor.holder(u"foreign"_s), u"another library"_s);
    QVERIFY(monitor.holder(u"read"_s).startsWith(u"2 readers, among them "_s));
    QVERIFY(monitor.holder(u"permits"_s).startsWith(u"the holders of 2 of 3 permits, among them "_s));
    QCOMPARE(monitor.data(u"permits"_s, LockMonitorModel::Permits).toInt(), 3);
    QCOMPARE(monitor.data(u"permits"_s, LockMonitorModel::PermitsTaken).toInt(), 2);
    QCOMPARE(monitor.data(u"permits"_s, LockMonitorModel::Holders).value<QList<LockClient>>().size(), 2);
    QCOMPARE(monitor.data(u"read"_s, LockMonitorModel::Info).value<LockInfo>().readerCount, 2);
    EVENTUALLY_COMPARE(monitor.data(u"write"_s, LockMonitorModel::QueueLength).toInt(), 1);
}

void tst_LockMonitorModel::otherKeys()
{
    m_server.command({"RPUSH", "lock:list", "x"});
    m_server.command({"HSET", "lock:hash", "x", "y"});
    m_server.command({"SET", "other", "x"});
    TestLock lock(registry(), u"between"_s);
    QVERIFY(acquireNow(&lock)); // has side keys
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(monitor.model.isComplete());
    EVENTUALLY_COMPARE(monitor.names(), QStringList{u"between"_s});
    QCOMPARE(monitor.model.problems(), QStringList());
    // A lock becomes something else.
    m_server.command({"DEL", "lock:between"});
    m_server.command({"RPUSH", "lock:between", "x"});
    EVENTUALLY_COMPARE(monitor.names(), QStringList());
}

void tst_LockMonitorModel::handedOver()
{
    LockRegistry other(m_server.url());
    TestLock first(registry(), u"a"_s);
    TestLock second(&other, u"a"_s);
    QVERIFY(acquireNow(&first));
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::FencingToken).toLongLong(), first.fencingToken());
    const auto holderId = [&] { return monitor.data(u"a"_s, LockMonitorModel::Info).value<LockInfo>().holder.id; };
    const QString firstId = holderId();

    QSignalSpy changes(&monitor.model, &QAbstractItemModel::dataChanged);
    QVERIFY(joinQueue(&second));
    first.release();
    EVENTUALLY_VERIFY(second.isHeld());
    EVENTUALLY_COMPARE(monitor.data(u"a"_s, LockMonitorModel::FencingToken).toLongLong(), second.fencingToken());
    QVERIFY(holderId() != firstId);
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::HandOvers).toInt(), 1);
    const auto hasRole = [&](int role) {
        return std::any_of(changes.begin(), changes.end(), [role](const QVariantList &change) {
            return change.at(2).value<QList<int>>().contains(role);
        });
    };
    QVERIFY(hasRole(LockMonitorModel::FencingToken));
    QVERIFY(hasRole(LockMonitorModel::Holders));
    QVERIFY(!hasRole(LockMonitorModel::Kind));
    QVERIFY(!hasRole(LockMonitorModel::Name));
}

void tst_LockMonitorModel::released()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    Monitor<StillRegistry> monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    lock.release();
    EVENTUALLY_VERIFY(!m_server.exists("lock:a"));
    monitor.registry.advance(1s);
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Free));
    QCOMPARE(monitor.holder(u"a"_s), QString());
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::Deadline), QVariant(qint64(-1)));
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::Holders).value<QList<LockClient>>().size(), 0);
    monitor.registry.advance(5s);
    EVENTUALLY_COMPARE(monitor.names(), QStringList());
}

void tst_LockMonitorModel::lastOfARoundIsGone()
{
    // A round reads 32 locks at a time, and the key behind them turns out to be no lock.
    writeLocks(32);
    m_server.command({"HSET", "lock:zzz", "x", "y"});
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.model.count(), 32);
    const auto updated = [&] { return monitor.data(u"many:1"_s, LockMonitorModel::Updated).toLongLong(); };
    for (int i = 0; i < 20; ++i) {
        const qint64 before = updated();
        EVENTUALLY_VERIFY(updated() > before);
    }
}

void tst_LockMonitorModel::releasedWhileSettingsChange()
{
    Monitor monitor(m_server.url());
    for (int round = 0; round < 20; ++round) {
        m_server.command({"SET", "lock:a", "x", "PX", "600000"});
        monitor.model.refresh();
        for (int i = 0; i < round; ++i)
            QVERIFY(awaited(monitor.registry.inspect(u"a"_s)).held);
        monitor.model.setBudget(round % 2 == 0 ? 0.02 : 0.03);
        m_server.command({"DEL", "lock:a"});
        monitor.model.refresh();
        QVERIFY(!awaited(monitor.registry.inspect(u"a"_s)).held);
    }
    EVENTUALLY_COMPARE(monitor.model.count(), 0);
}

void tst_LockMonitorModel::acquiredAgain()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    Monitor<StillRegistry> monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    const QPersistentModelIndex selected(monitor.model.index(0));
    for (int round = 1; round <= 3; ++round) {
        lock.release();
        EVENTUALLY_VERIFY(!m_server.exists("lock:a"));
        monitor.registry.advance(3s);
        EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Free));
        QVERIFY(acquireNow(&lock));
        monitor.registry.advance(3s);
        EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
        QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::HandOvers).toInt(), round);
    }
    QVERIFY(selected.isValid());
}

void tst_LockMonitorModel::expiring()
{
    TestLock lock(registry(), u"a"_s, options(Outlasting));
    QVERIFY(acquireNow(&lock));
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    m_server.command({"PEXPIRE", "lock:a", "190000"});
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Expiring));
    const qint64 left = monitor.data(u"a"_s, LockMonitorModel::Deadline).toLongLong() - monitor.model.now();
    QVERIFY2(left <= 190'000, qPrintable(QString::number(left)));
    const auto lease = [&monitor] { return monitor.data(u"a"_s, LockMonitorModel::Lease).toLongLong(); };
    QVERIFY2(lease() > 190'000 && lease() <= 600'000, qPrintable(QString::number(lease())));
    m_server.command({"PEXPIRE", "lock:a", "590000"}); // renewed
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    QVERIFY2(lease() > 190'000 && lease() <= 590'000, qPrintable(QString::number(lease())));
    lock.release();
    TestLock shorter(registry(), u"a"_s, options(150s));
    QVERIFY(acquireNow(&shorter));
    EVENTUALLY_COMPARE(monitor.data(u"a"_s, LockMonitorModel::FencingToken).toLongLong(), shorter.fencingToken());
    QCOMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    QVERIFY2(lease() <= 150'000, qPrintable(QString::number(lease())));
}

void tst_LockMonitorModel::hugeTtl()
{
    m_server.command({"SET", "lock:a", "x", "PX", "20000000000000"});
    m_server.command({"SET", "lock:b", "x", "PX", "9223370000000000000"});
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.names(), QStringList({u"a"_s, u"b"_s}));
    for (const QString &name : {u"a"_s, u"b"_s}) {
        QCOMPARE(monitor.status(name), int(LockMonitorModel::Foreign));
        QVERIFY(monitor.data(name, LockMonitorModel::Deadline).toLongLong() > monitor.model.now());
    }
}

void tst_LockMonitorModel::readersThatStay()
{
    LockRegistry other(m_server.url());
    TestLock first(registry(), u"a"_s, options(Outlasting).withMode(LockOptions::Shared));
    TestLock second(&other, u"a"_s, options(Outlasting).withMode(LockOptions::Shared));
    QVERIFY(acquireNow(&first) && acquireNow(&second));
    Monitor monitor(m_server.url());
    const auto namedFirst = [&] { return monitor.data(u"a"_s, LockMonitorModel::Info).value<LockInfo>().holder.id; };
    EVENTUALLY_VERIFY(!namedFirst().isEmpty());
    for (int i = 0; i < 3; ++i) { // renewed, and so the other one's lease ends first
        const QString before = namedFirst();
        const QVariantList members = m_server.command({"ZRANGE", "lock:a", "0", "0"}).toList();
        m_server.command({"ZINCRBY", "lock:a", "10000", members.first().toByteArray()});
        EVENTUALLY_VERIFY(namedFirst() != before);
    }
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::HandOvers).toInt(), 0);
}

void tst_LockMonitorModel::disconnected()
{
    auto dying = std::make_unique<LockRegistry>(m_server.url());
    TestLock lock(dying.get(), u"a"_s, options(Outlasting));
    QVERIFY(acquireNow(&lock));
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    QVERIFY(!lock.detach().isEmpty()); // nobody releases it when the connection ends
    dying.reset();
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Disconnected));
    QVERIFY2(monitor.holder(u"a"_s).endsWith(u"(not connected)"_s), qPrintable(monitor.holder(u"a"_s)));
}

void tst_LockMonitorModel::patternAndPrefix()
{
    m_server.command({"SET", "shop:order:1", "x", "PX", "600000"});
    m_server.command({"SET", "shop:order:2", "x", "PX", "600000"});
    m_server.command({"SET", "shop:stock", "x", "PX", "600000"});
    m_server.command({"SET", "lock:order:3", "x", "PX", "600000"});
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.names(), QStringList{u"order:3"_s});
    monitor.registry.setKeyPrefix(u"shop:"_s);
    monitor.model.setRegistry(&monitor.registry);
    QCOMPARE(monitor.names(), QStringList());
    QVERIFY(!monitor.model.isComplete());
    EVENTUALLY_COMPARE(monitor.names(), QStringList({u"order:1"_s, u"order:2"_s, u"stock"_s}));
    QSignalSpy patterns(&monitor.model, &LockMonitorModel::patternChanged);
    monitor.model.setPattern(u"order:*"_s);
    monitor.model.setPattern(u"order:*"_s);
    QCOMPARE(patterns.size(), 1);
    EVENTUALLY_COMPARE(monitor.names(), QStringList({u"order:1"_s, u"order:2"_s}));
    monitor.model.setPattern(u"nothing*"_s);
    EVENTUALLY_VERIFY(monitor.model.isComplete());
    QCOMPARE(monitor.names(), QStringList());
    QCOMPARE(monitor.model.problems(), QStringList());
}

void tst_LockMonitorModel::inactive()
{
    writeLocks(3);
    Monitor<StillRegistry> monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.model.count(), 3);
    monitor.model.setActive(false);
    m_server.command({"DEL", "lock:many:1"});
    // What it had asked for has been answered when this is.
    QVERIFY(awaited(monitor.registry.inspect(u"many:1"_s)).error == DistributedLock::NoError);
    const qint64 before = m_server.commandsProcessed("scan");
    monitor.registry.advance(60s);
    QSignalSpy ticks(&monitor.model, &LockMonitorModel::nowChanged);
    QVERIFY(awaited(monitor.registry.inspect(u"many:1"_s)).error == DistributedLock::NoError);
    QCOMPARE(m_server.commandsProcessed("scan"), before);
    QCOMPARE(monitor.model.count(), 3);
    QCOMPARE(ticks.size(), 0);
    monitor.model.setActive(true);
    EVENTUALLY_COMPARE(monitor.status(u"many:1"_s), int(LockMonitorModel::Free));
    monitor.registry.advance(10s);
    EVENTUALLY_COMPARE(monitor.names(), QStringList({u"many:2"_s, u"many:3"_s}));
    EVENTUALLY_VERIFY(!ticks.isEmpty());
}

/// Also of a model that reads nothing any more.
void tst_LockMonitorModel::loadIsNotified()
{
    writeLocks(100);
    Monitor monitor(m_server.url());
    double load = 0;
    connect(&monitor.model, &LockMonitorModel::loadChanged, this, [&] { load = monitor.model.load(); });
    monitor.model.setInterval(1h);
    QSignalSpy changes(&monitor.model, &QAbstractItemModel::dataChanged);
    QSignalSpy ticks(&monitor.model, &LockMonitorModel::nowChanged);
    const auto isQuiet = [&] { // no update is due, which would notify of the load as well
        if (!changes.isEmpty()) {
            changes.clear();
            ticks.clear();
        }
        return ticks.size() >= 2;
    };
    EVENTUALLY_VERIFY(isQuiet() && load > 0);
    monitor.model.setActive(false);
    EVENTUALLY_COMPARE(load, 0.0);
}

void tst_LockMonitorModel::roles()
{
    const LockMonitorModel model;
    const auto names = model.roleNames();
    QCOMPARE(names.value(LockMonitorModel::Name), "name");
    QCOMPARE(names.value(LockMonitorModel::QueueLength), "queueLength");
    QCOMPARE(names.size(), LockMonitorModel::Info - LockMonitorModel::Name + 1);
    QCOMPARE(model.rowOf(u"a"_s), -1);
    QCOMPARE(model.problems().size(), 1); // no registry
    QCOMPARE(model.registry(), nullptr);
    QVERIFY(!model.isComplete());
}

void tst_LockMonitorModel::settings()
{
    Monitor monitor(m_server.url());
    QCOMPARE(LockMonitorModel().interval(), LockMonitorModel::DefaultInterval);
    monitor.model.setInterval(-1ms);
    QCOMPARE(monitor.model.interval(), 100ms);
    QCOMPARE(monitor.model.budget(), 0.01);
    for (const double bad : {0.0, -1.0, std::nan("")}) {
        monitor.model.setBudget(bad);
        QCOMPARE(monitor.model.budget(), 0.0001);
    }
    monitor.model.setBudget(7);
    QCOMPARE(monitor.model.budget(), 1.0);
    writeLocks(2);
    monitor.model.setVisibleNames({u"many:1"_s, u"not there"_s, QString(), u"many:1"_s});
    EVENTUALLY_COMPARE(monitor.model.count(), 2);
    EVENTUALLY_VERIFY(monitor.model.load() > 0);
    QCOMPARE(monitor.names(), QStringList({u"many:1"_s, u"many:2"_s}));
    monitor.model.refresh();
    m_server.command({"DEL", "lock:many:1"});
    EVENTUALLY_COMPARE(monitor.status(u"many:1"_s), int(LockMonitorModel::Free));
}

void tst_LockMonitorModel::noServer()
{
    const QUrl url = m_server.tcpUrl();
    m_server.stop();
    {
        Monitor monitor(url);
        EVENTUALLY_VERIFY(monitor.hasProblem(QString::number(url.port())));
        QVERIFY(!monitor.model.isComplete());
        QCOMPARE(monitor.model.count(), 0);
        QVERIFY(m_server.start());
        writeLocks(2);
        EVENTUALLY_COMPARE(monitor.model.count(), 2);
        EVENTUALLY_COMPARE(monitor.model.problems(), QStringList());
    }
}

void tst_LockMonitorModel::badUrl()
{
    Monitor monitor(QUrl(u"gopher://example.org"_s));
    EVENTUALLY_VERIFY(monitor.hasProblem(u"gopher"_s));
    QVERIFY(!monitor.model.isComplete());
}

void tst_LockMonitorModel::wrongPassword()
{
    QUrl url = m_server.tcpUrl();
    url.setUserInfo(u"nobody:canary"_s);
    Monitor monitor(url);
    EVENTUALLY_VERIFY(!monitor.model.problems().isEmpty());
    QVERIFY(!monitor.hasProblem(u"canary"_s));
    QVERIFY(!monitor.model.isComplete());
}

void tst_LockMonitorModel::serverGoesAndComes()
{
    writeLocks(3);
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    Monitor<StillRegistry> monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.model.count(), 4);
    EVENTUALLY_VERIFY(monitor.model.isComplete());
    m_server.kill();
    EVENTUALLY_VERIFY(!monitor.model.problems().isEmpty());
    QCOMPARE(monitor.model.count(), 4); // as it was read last
    QVERIFY(m_server.restart());        // has lost its data
    EVENTUALLY_COMPARE(monitor.status(u"many:1"_s), int(LockMonitorModel::Free));
    EVENTUALLY_COMPARE(monitor.model.problems(), QStringList());
    m_server.command({"SET", "lock:new", "x", "PX", "600000"});
    monitor.registry.advance(6s);
    EVENTUALLY_VERIFY(monitor.names().contains(u"new"_s) && !monitor.names().contains(u"many:1"_s));
}

void tst_LockMonitorModel::rights_data()
{
    QTest::addColumn<QByteArray>("right");
    QTest::addColumn<QString>("problem");
    QTest::addColumn<int>("count");
    QTest::newRow("CLIENT LIST") << QByteArray("-client|list") << u"CLIENT LIST"_s << 2;
    QTest::newRow("SCAN") << QByteArray("-scan") << u"SCAN"_s << 0;
    QTest::newRow("EVALSHA") << QByteArray("-evalsha") << QString() << 2;
    QTest::newRow("scripts and GET") << QByteArray("-evalsha -eval -get") << u"GET"_s << 0;
    QTest::newRow("INFO") << QByteArray("-info") << u"INFO"_s << 2; // how many connections there are
}

void tst_LockMonitorModel::rights()
{
    QFETCH(QByteArray, right);
    QFETCH(QString, problem);
    QFETCH(int, count);
    TestLock lock(registry(), u"a"_s);
    TestLock other(registry(), u"b"_s);
    QVERIFY(acquireNow(&lock) && acquireNow(&other));
    m_server.command(QList<QByteArray>{"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all"}
                     + right.split(' '));
    QUrl url = m_server.tcpUrl();
    url.setUserInfo(u"limited:secret"_s);
    Monitor monitor(url);
    EVENTUALLY_COMPARE(monitor.model.count(), count);
    if (count > 0)
        QCOMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held)); // what is not known is no alarm
    if (problem.isEmpty()) {
        EVENTUALLY_VERIFY(monitor.model.isComplete());
        QCOMPARE(monitor.model.problems(), QStringList());
    } else {
        EVENTUALLY_VERIFY(monitor.hasProblem(problem));
    }
    // While something is missing, it says so.
    bool isSilent = false;
    connect(&monitor.model, &LockMonitorModel::problemsChanged, this,
            [&] { isSilent |= monitor.model.problems().isEmpty(); });
    for (int i = 0; i < 10 && !problem.isEmpty(); ++i) {
        monitor.model.refresh();
        awaited(monitor.registry.inspect(u"a"_s));
        QVERIFY(!monitor.model.problems().isEmpty() && !isSilent);
    }
    m_server.command({"ACL", "SETUSER", "limited", "+@all"});
    monitor.model.refresh();
    EVENTUALLY_COMPARE(monitor.model.count(), 2);
}

void tst_LockMonitorModel::masterIsAway()
{
    auto clusterOptions = Support::RedisCluster::Options::mastersOnly();
    clusterOptions.needsAllSlots = false;
    Support::Started<Support::RedisCluster> cluster(clusterOptions);
    QStringList names{cluster.nameAt(0), cluster.nameAt(1), cluster.nameAt(2)};
    LockRegistry holders(cluster.url());
    std::vector<std::unique_ptr<TestLock>> locks;
    for (const QString &name : names) {
        locks.push_back(std::make_unique<TestLock>(&holders, name, options(10min)));
        QVERIFY(acquireNow(locks.back().get()));
    }
    names.sort();
    Monitor before(cluster.url());
    EVENTUALLY_COMPARE(before.names(), names);
    const QString away = QString::number(cluster.node(0).port());
    cluster.node(0).kill();
    // Its locks remain in the rows, and are missing from those that are read later.
    EVENTUALLY_VERIFY(before.hasProblem(away));
    Monitor after(cluster.url());
    EVENTUALLY_VERIFY(after.hasProblem(away));
    EVENTUALLY_COMPARE(after.model.count(), 2);
    locks.at(1)->release();
    EVENTUALLY_VERIFY(before.status(locks.at(1)->name()) == LockMonitorModel::Free
                      || before.status(locks.at(1)->name()) == -1);
    QVERIFY(before.names().contains(locks.at(0)->name()));
    QVERIFY(cluster.node(0).restart());
    EVENTUALLY_VERIFY(!before.hasProblem(away));
}

void tst_LockMonitorModel::slotMoves()
{
    Support::Started<Support::RedisCluster> cluster(Support::RedisCluster::Options::mastersOnly());
    LockRegistry holders(cluster.url());
    TestLock lock(&holders, cluster.nameAt(0), options(10min));
    QVERIFY(acquireNow(&lock));
    Monitor monitor(cluster.url());
    EVENTUALLY_COMPARE(monitor.names(), QStringList{lock.name()});
    QSignalSpy removed(&monitor.model, &QAbstractItemModel::rowsRemoved);
    QVERIFY(cluster.moveSlot(Support::clusterSlot("lock:" + lock.name().toUtf8()), 1));
    lock.release();
    EVENTUALLY_COMPARE(lock.state(), DistributedLock::Unlocked);
    EVENTUALLY_COMPARE(monitor.status(lock.name()), int(LockMonitorModel::Free));
    QCOMPARE(removed.size(), 0);
}

void tst_LockMonitorModel::registryDestroyedInFlight()
{
    writeLocks(100);
    auto registry = std::make_unique<LockRegistry>(m_server.url());
    LockMonitorModel model(registry.get());
    EVENTUALLY_COMPARE(model.count(), 100);
    m_server.pause();
    model.refresh(); // asks
    processEvents();
    registry.reset();
    m_server.resume();
    EVENTUALLY_COMPARE(model.problems(), QStringList{u"the registry was destroyed"_s});
    QCOMPARE(model.count(), 100);
}

void tst_LockMonitorModel::registryDestroyed()
{
    writeLocks(2);
    auto registry = std::make_unique<LockRegistry>(m_server.url());
    LockMonitorModel model(registry.get());
    EVENTUALLY_COMPARE(model.count(), 2);
    registry.reset();
    EVENTUALLY_COMPARE(model.problems(), QStringList{u"the registry was destroyed"_s});
    QCOMPARE(model.count(), 2);
    QCOMPARE(model.registry(), nullptr);
    model.refresh();
    model.setActive(false);
    model.setActive(true);
    model.setPattern(u"x"_s);
    QCOMPARE(model.count(), 0);
    QVERIFY(!model.problems().isEmpty());
}

void tst_LockMonitorModel::foreignRegistry()
{
    std::unique_ptr<QThread> thread(QThread::create([this] {
        LockMonitorModel model;
        QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"setRegistry"_s));
        model.setRegistry(registry());
        QCOMPARE(model.registry(), nullptr);
    }));
    registry();
    thread->start();
    QVERIFY(thread->wait());
}

void tst_LockMonitorModel::manyLocks()
{
    writeLocks(500);
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.model.count(), 500);
    const QStringList names = monitor.names();
    QVERIFY(std::is_sorted(names.begin(), names.end()));
    EVENTUALLY_VERIFY(monitor.model.isComplete());
    m_server.command({"FLUSHALL"});
    monitor.model.refresh();
    EVENTUALLY_COMPARE(monitor.model.count(), 0);
}

void tst_LockMonitorModel::randomOrder()
{
    QFETCH(bool, memory);
    const QUrl url = memory ? QUrl(u"memory:randomOrder"_s) : m_server.url();
    LockRegistry holders(url);
    std::map<QString, std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 20; ++i) {
        const QString name = u"lock%1"_s.arg(i, 2, 10, QLatin1Char('0'));
        locks[name] = std::make_unique<TestLock>(&holders, name);
    }
    Monitor monitor(url);
    QSortFilterProxyModel proxy;
    proxy.setSourceModel(&monitor.model);
    proxy.setSortRole(LockMonitorModel::FencingToken);
    proxy.setDynamicSortFilter(true);
    proxy.sort(0, Qt::DescendingOrder);
    QAbstractItemModelTester tester(&proxy, QAbstractItemModelTester::FailureReportingMode::QtTest);
    QRandomGenerator random(36);
    for (int step = 0; step < 1000; ++step) {
        const auto &[name, lock] = *std::next(locks.begin(), random.bounded(20));
        if (lock->isHeld())
            lock->release();
        else if (lock->state() == DistributedLock::Unlocked)
            lock->tryAcquire();
        if (step % 20 == 0)
            monitor.model.refresh();
        QVERIFY(awaited(monitor.registry.inspect(name)).error == DistributedLock::NoError);
    }
    EVENTUALLY_VERIFY(all(locks, [](const auto &entry) {
        return entry.second->isHeld() || entry.second->state() == DistributedLock::Unlocked;
    }));
    EVENTUALLY_VERIFY(all(locks, [&](const auto &entry) {
        const int status = monitor.status(entry.first);
        return entry.second->isHeld() ? status == LockMonitorModel::Held
                        && monitor.data(entry.first, LockMonitorModel::FencingToken).toLongLong()
                                == entry.second->fencingToken()
                                      : status <= LockMonitorModel::Free;
    }));
    QCOMPARE(proxy.rowCount(), monitor.model.count());
}

void tst_LockMonitorModel::forceReleaseHitsTheShownHolder()
{
    LockRegistry other(m_server.url());
    TestLock first(registry(), u"a"_s);
    TestLock second(&other, u"a"_s);
    QVERIFY(acquireNow(&first));
    Monitor monitor(m_server.url());
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    for (int round = 0; round < 100; ++round) {
        TestLock &holder = first.isHeld() ? first : second;
        TestLock &next = first.isHeld() ? second : first;
        const qint64 shown = holder.fencingToken();
        QVERIFY(joinQueue(&next));
        holder.release();
        const auto outcome = awaited(monitor.model.registry()->forceRelease(u"a"_s, shown));
        EVENTUALLY_VERIFY(next.isHeld());
        QVERIFY2(outcome, qPrintable(outcome.errorString));
        EVENTUALLY_COMPARE(holder.state(),
                           DistributedLock::Unlocked); // it may have lost the lock before it released it
        const LockInfo now = awaited(registry()->inspect(u"a"_s));
        QVERIFY(now.held);
        QCOMPARE(now.fencingToken, next.fencingToken());
        QVERIFY(next.isHeld());
    }
    EVENTUALLY_COMPARE(monitor.data(u"a"_s, LockMonitorModel::FencingToken).toLongLong(),
                       (first.isHeld() ? first : second).fencingToken());
    TestLock &holder = first.isHeld() ? first : second;
    const qsizetype lostBefore = holder.spies.lost.size();
    const auto outcome = awaited(monitor.model.registry()->forceRelease(
            u"a"_s, monitor.data(u"a"_s, LockMonitorModel::FencingToken).toLongLong()));
    QCOMPARE(outcome.value, LockRegistry::Done);
    EVENTUALLY_COMPARE(holder.spies.lost.size(), lostBefore + 1);
}

void tst_LockMonitorModel::nestedEventLoops()
{
    writeLocks(50);
    Monitor monitor(m_server.url());
    int depth = 0;
    int nested = 0;
    milliseconds length = 150ms;
    const auto nest = [&] {
        QVERIFY(++depth <= 2); // an update in a nested event loop waits until the outer one has ended
        QEventLoop loop;
        QTimer::singleShot(length, &loop, &QEventLoop::quit);
        loop.exec();
        --depth;
        ++nested;
    };
    connect(&monitor.model, &QAbstractItemModel::rowsInserted, this, nest);
    connect(&monitor.model, &QAbstractItemModel::rowsRemoved, this, nest);
    connect(&monitor.model, &LockMonitorModel::countChanged, this, nest);
    EVENTUALLY_COMPARE(monitor.model.count(), 50);
    for (int i = 1; i <= 50; i += 5)
        m_server.command({"DEL", "lock:many:" + QByteArray::number(i)});
    m_server.command({"SET", "lock:many:11x", "x", "PX", "600000"});
    EVENTUALLY_COMPARE(monitor.model.count(), 41);
    EVENTUALLY_COMPARE(depth, 0);
    QVERIFY(nested > 0);

    length = 600ms; // some ticks of now()
    monitor.model.setPattern(u"many:2*"_s);
    EVENTUALLY_COMPARE(monitor.model.count(), 9);
    EVENTUALLY_COMPARE(depth, 0);
}

void tst_LockMonitorModel::destroyedInItsSignals_data()
{
    Support::addNamedRows<QString>("signal",
                                   {"rowsInserted", "dataChanged", "rowsRemoved", "rowsRemoved by setPattern()",
                                    "countChanged", "completeChanged", "problemsChanged", "nowChanged", "loadChanged",
                                    "patternChanged", "registry"});
}

void tst_LockMonitorModel::destroyedInItsSignals()
{
    QFETCH(QString, signal);
    writeLocks(40);
    auto registry = std::make_unique<LockRegistry>(m_server.url());
    QPointer<LockMonitorModel> model = new LockMonitorModel(registry.get());
    const auto destroy = [&] { delete model; };
    if (signal == u"rowsInserted")
        connect(model, &QAbstractItemModel::rowsInserted, this, destroy);
    else if (signal == u"dataChanged")
        connect(model, &QAbstractItemModel::dataChanged, this, destroy);
    else if (signal.startsWith(u"rowsRemoved"))
        connect(model, &QAbstractItemModel::rowsRemoved, this, destroy);
    else if (signal == u"countChanged")
        connect(model, &LockMonitorModel::countChanged, this, destroy);
    else if (signal == u"completeChanged")
        connect(model, &LockMonitorModel::completeChanged, this, destroy);
    else if (signal == u"problemsChanged")
        connect(model, &LockMonitorModel::problemsChanged, this, destroy);
    else if (signal == u"nowChanged")
        connect(model, &LockMonitorModel::nowChanged, this, destroy);
    else if (signal == u"loadChanged")
        connect(model, &LockMonitorModel::loadChanged, this, destroy);
    else if (signal == u"patternChanged")
        connect(model, &LockMonitorModel::patternChanged, this, destroy);
    else
        connect(model, &QAbstractItemModel::rowsInserted, this, [&] { registry.reset(); });
    if (signal == u"registry") {
        EVENTUALLY_VERIFY(!registry);
        EVENTUALLY_COMPARE(model->problems(), QStringList{u"the registry was destroyed"_s});
        delete model;
        return;
    }
    if (signal == u"rowsRemoved" || signal == u"problemsChanged") {
        EVENTUALLY_VERIFY(!model || model->count() == 40);
        if (signal == u"rowsRemoved")
            m_server.command({"FLUSHALL"});
        else
            registry.reset();
    } else if (signal == u"patternChanged" || signal.endsWith(u"setPattern()")) {
        EVENTUALLY_COMPARE(model->count(), 40);
        model->setPattern(u"x"_s);
    }
    EVENTUALLY_VERIFY(!model);
}

void tst_LockMonitorModel::changedInItsSignals()
{
    writeLocks(40);
    m_server.command({"SET", "lock:other", "x", "PX", "600000"});
    Monitor counted(m_server.url());
    bool isCounted = false;
    connect(&counted.model, &LockMonitorModel::countChanged, this, [&] {
        if (!std::exchange(isCounted, true))
            counted.model.setPattern(u"other"_s);
    });
    EVENTUALLY_COMPARE(counted.names(), QStringList{u"other"_s});

    Monitor monitor(m_server.url());
    QSignalSpy inserted(&monitor.model, &QAbstractItemModel::rowsInserted);
    connect(&monitor.model, &QAbstractItemModel::rowsInserted, this, [&] {
        if (inserted.size() == 1)
            monitor.model.setPattern(u"other"_s);
    });
    EVENTUALLY_COMPARE(monitor.names(), QStringList{u"other"_s});
    connect(&monitor.model, &QAbstractItemModel::rowsRemoved, this, [&] { monitor.model.setActive(false); });
    connect(&monitor.model, &LockMonitorModel::patternChanged, this, [&] { monitor.model.setRegistry(nullptr); });
    monitor.model.setPattern(u"*"_s);
    QCOMPARE(monitor.model.count(), 0);
    QVERIFY(!monitor.model.problems().isEmpty());
}

QTEST_GUILESS_MAIN(tst_LockMonitorModel)
#include "tst_lockmonitormodel.moc"
