// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Connections that the other side closes while nothing is in flight, as a server with a `timeout` or a proxy with an
// idle limit does: that is no outage.

#include "support/locktest.h"

#include "support/certificates.h"
#include "support/faultproxy.h"
#include "support/rediscluster.h"
#include "support/redisset.h"
#include "support/registrytime.h"
#include "support/replicaset.h"
#include "support/sentinelset.h"
#include "support/testkinds.h"

#include <QDistLock/LockInfo>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// What a user would see of an outage, while it exists.
struct Reports
{
    explicit Reports(LockRegistry *registry)
        : errors(registry, &LockRegistry::errorOccurred)
    {
    }
    /// Empty if there was nothing.
    QString text() const
    {
        QStringList all = log.messages(QtWarningMsg) + log.messages(QtInfoMsg)
                + log.messages(QtWarningMsg, "qdistlock.redis");
        all.removeIf([](const QString &line) { return line.contains(u"without scripts"); });
        if (!errors.isEmpty())
            all.append(u"errorOccurred() of the registry"_s);
        return all.join(u'\n');
    }

    LogCapture log;
    QSignalSpy errors;
};

/// The servers of one engine, and the URL that leads there.
class Service
{
public:
    explicit Service(const QString &kind);

    /// All servers and Sentinels close the connections of all clients.
    void closeAll()
    {
        for (const char *type : {"normal", "pubsub"})
            each({"CLIENT", "KILL", "TYPE", type, "SKIPME", "yes"});
    }
    /// Of locks, but for those that ask for the map of a cluster, which end after some seconds.
    int connections()
    {
        qsizetype found = 0;
        const auto lists = each({"CLIENT", "LIST"});
        for (const QVariant &list : lists) {
            const auto lines = list.toByteArray().split('\n');
            found += std::count_if(lines.begin(), lines.end(), [](const QByteArray &line) {
                return line.contains(" name=qdistlock-") && !line.contains("-map ");
            });
        }
        return int(found);
    }
    /// Waits until at least \a atLeast connections exist, and all of them are idle. With Sentinels, at least those to
    /// them and to the master: some are made only after acquired(), and closed meanwhile, they are not idle.
    bool settles(int atLeast = 1)
    {
        if (sentinels) // each has a subscription, too
            atLeast = std::max(atLeast, 2 * (1 + SentinelSet::Options().sentinels));
        int calm = 0;
        qint64 last = 0;
        return eventually([&] {
            processEvents();
            qint64 now = sentinels ? sentinels->commandsProcessed() : 0;
            bool isBlocked = false; // a WAIT is in flight
            for (RedisServer *server : servers) {
                now += server->commandsProcessed();
                isBlocked |= server->info("clients", "blocked_clients") != "0";
            }
            const bool isCalm = std::exchange(last, now) == now && !isBlocked && connections() >= atLeast;
            calm = isCalm ? calm + 1 : 0;
            return calm >= 3;
        });
    }

    /// As an idle limit does. False if the connections do not become idle.
    bool closeIdle()
    {
        const bool isIdle = settles();
        closeAll();
        return isIdle;
    }

    void flushAll() { each({"FLUSHALL"}); }

    QUrl url;
    LockOptions options = LockTesting::options();

private:
    QList<QVariant> each(const QList<QByteArray> &command)
    {
        QList<QVariant> replies;
        for (RedisServer *server : servers)
            replies.append(server->command(command));
        for (int i = 0; sentinels && i < 3; ++i)
            replies.append(sentinels->sentinelCommand(i, command));
        return replies;
    }

    std::shared_ptr<void> owner;
    std::vector<RedisServer *> servers; ///< that keep locks
    SentinelSet *sentinels = nullptr;
};

Service::Service(const QString &kind)
{
    const auto use = [this](auto set) {
        if (!set->start())
            qFatal("a server has not started");
        owner = set;
        return set.get();
    };
    if (kind == u"sentinel") {
        sentinels = use(std::make_shared<SentinelSet>());
        servers = {&sentinels->master()};
        url = sentinels->url();
    } else if (kind == u"cluster") {
        RedisCluster *const cluster = use(std::make_shared<RedisCluster>());
        for (int i = 0; i < cluster->nodeCount(); ++i)
            servers.push_back(&cluster->node(i));
        url = cluster->url();
    } else if (kind == u"quorum") {
        RedisSet *const set = use(std::make_shared<RedisSet>(3));
        for (int i = 0; i < set->size(); ++i)
            servers.push_back(&set->server(i));
        url = set->directUrl();
    } else if (kind == u"replicas") {
        ReplicaSet *const set = use(std::make_shared<ReplicaSet>(1));
        servers = {&set->master()};
        url = set->master().tcpUrl();
        options.minReplicas = 1;
    } else {
        static const Certificates certificates;
        RedisServer *const server = use(std::make_shared<RedisServer>(RedisServer::Options::withTls(certificates)));
        servers = {server};
        url = kind == u"unix" ? server->url() : kind == u"tls" ? server->tlsUrl() : server->tcpUrl();
        if (kind == u"plain")
            url.setQuery(u"scripts=off"_s);
    }
}

} // namespace

class tst_IdleClose : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { qputenv("QDISTLOCK_SENTINEL_PASSWORD", "sentinels"); }
    void closedWhileTheLoopWasBlocked_data() { addEngines(); }
    void closedWhileTheLoopWasBlocked();
    void requests_data() { addEngines(); }
    void requests();
    void usedAgain_data() { addEngines(); }
    void usedAgain();
    void heldAndWaiting_data() { addEngines(); }
    void heldAndWaiting();
    void losesTheLock();
    void staysAway();
    void notMadeAgain_data() { addEngines(); }
    TIMING void notMadeAgain();
    TIMING void awayForAMoment();

private:
    static void addEngines();
};

void tst_IdleClose::addEngines()
{
    QTest::addColumn<QString>("kind");
    for (const char *kind : {"tcp", "unix", "tls", "plain", "replicas", "sentinel", "cluster", "quorum"})
        QTest::newRow(kind) << QString::fromLatin1(kind);
}

/// A slot blocked the event loop, and the connections were closed meanwhile.
void tst_IdleClose::closedWhileTheLoopWasBlocked()
{
    QFETCH(const QString, kind);
    Service service(kind);
    LockRegistry registry(service.url);
    TestLock lock(&registry, u"job"_s, service.options);
    QVERIFY(acquireNow(&lock));
    Reports reports(&registry);
    for (int i = 1; i <= 2; ++i) {
        QVERIFY(service.closeIdle());
        lock.release();
        QVERIFY(eventually([&] { return lock.spies.holdsEnded() == i; }));
        QCOMPARE(lock.spies.released.size(), i);
        QVERIFY(service.closeIdle());
        lock.tryAcquire();
        QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == i + 1; }));
        QVERIFY2(lock.spies.failed.isEmpty(), qPrintable(lock.errorString()));
    }
    QVERIFY2(reports.text().isEmpty(), qPrintable(reports.text()));
    QVERIFY(lock.spies.errors.isEmpty());
}

/// The same, for what a registry is asked.
void tst_IdleClose::requests()
{
    QFETCH(const QString, kind);
    Service service(kind);
    LockRegistry registry(service.url);
    TestLock lock(&registry, u"job"_s, service.options);
    QVERIFY(acquireNow(&lock));
    Reports reports(&registry);
    const auto isAnswered = [&](const auto &future) {
        return eventually([&] { return future.isFinished(); }) && future.resultCount() == 1;
    };
    QVERIFY(service.closeIdle());
    QVERIFY(isAnswered(registry.inspect(u"job"_s)));
    QVERIFY(service.closeIdle());
    QVERIFY(isAnswered(registry.list(u"*"_s)));
    QVERIFY(service.closeIdle());
    QVERIFY(isAnswered(registry.waiters(u"job"_s)));
    QVERIFY(service.closeIdle());
    QVERIFY(isAnswered(registry.forceRelease(u"other"_s)));
    QVERIFY2(reports.text().isEmpty(), qPrintable(reports.text()));
}

/// The connections rest until the next acquire.
void tst_IdleClose::usedAgain()
{
    QFETCH(const QString, kind);
    Service service(kind);
    LockRegistry registry(service.url);
    TestLock lock(&registry, u"job"_s, service.options);
    Reports reports(&registry);
    for (int i = 1; i <= 3; ++i) {
        lock.tryAcquire();
        QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == i; }));
        QVERIFY2(lock.spies.failed.isEmpty(), qPrintable(lock.errorString()));
        lock.release();
        QVERIFY(eventually([&] { return lock.spies.released.size() == i; }));
        QVERIFY(service.closeIdle());
        if (kind != u"cluster") // whose state is that of the map
            QVERIFY(eventually([&] { return registry.state() == LockRegistry::Disconnected; }));
        processEvents();
    }
    QVERIFY2(reports.text().isEmpty(), qPrintable(reports.text()));
    QVERIFY(lock.spies.errors.isEmpty());
}

/// The connections of a lock that is held are made again at once, and it is renewed. One that waits is woken.
void tst_IdleClose::heldAndWaiting()
{
    QFETCH(const QString, kind);
    Service service(kind);
    RegistryTime time;
    LockRegistry registry(service.url);
    LockRegistry others(service.url);
    if (kind != u"quorum") { // where a waiter joins the queue by polling
        time.govern(&registry);
        time.govern(&others);
    }
    TestLock lock(&registry, u"job"_s, service.options);
    TestLock next(&others, u"job"_s, LockOptions(service.options).withRetryInterval(5s));
    QVERIFY(acquireNow(&lock));
    next.acquire();
    const bool isQueue = kind != u"plain";
    QVERIFY(eventually([&] { return next.queuePosition() == 0 || !isQueue; }));
    QVERIFY(service.settles());
    const int connections = service.connections();
    Reports reports(&registry);
    const QSignalSpy otherErrors(&others, &LockRegistry::errorOccurred);
    for (int i = 1; i <= 3; ++i) {
        const qsizetype renewed = lock.spies.renewed.size();
        service.closeAll();
        QVERIFY(eventually([&] { return lock.spies.renewed.size() > renewed; }));
        QVERIFY(service.settles(connections));
    }
    QVERIFY(releaseNow(&lock));
    if (!isQueue)
        time.pass(10s);
    QVERIFY(eventually([&] { return next.spies.acquired.size() == 1; }));
    QVERIFY2(reports.text().isEmpty(), qPrintable(reports.text()));
    QVERIFY(lock.spies.errors.isEmpty() && next.spies.errors.isEmpty() && otherErrors.isEmpty());
}

/// A server that has lost its data is noticed at once.
void tst_IdleClose::losesTheLock()
{
    Service service(u"tcp"_s);
    LockRegistry registry(service.url);
    TestLock lock(&registry, u"job"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    QVERIFY(service.settles(2));
    service.flushAll();
    service.closeAll();
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
}

/// A server that stays away is reported when somebody needs it.
void tst_IdleClose::staysAway()
{
    Started<RedisServer> server(RedisServer::Options::withTcp());
    FaultProxy proxy(server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return server.channels().size() == 1; }));
    processEvents();
    Reports reports(&registry);
    proxy.setRefusing(true);
    proxy.closeAll();
    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Disconnected; }));
    QCOMPARE(registry.error(), DistributedLock::NoError);
    QVERIFY2(reports.text().isEmpty(), qPrintable(reports.text()));
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::ConnectionError);
    QVERIFY(eventually([&] { return reports.errors.size() == 1; }));
}

/// Nobody needs the connections, until somebody does.
void tst_IdleClose::notMadeAgain()
{
    QFETCH(const QString, kind);
    Service service(kind);
    LockRegistry registry(service.url);
    TestLock lock(&registry, u"job"_s, service.options);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QVERIFY(service.settles());
    Reports reports(&registry);
    service.closeAll();
    QCOMPARE(service.connections(), 0);
    // The channel for monitors is subscribed a second after the other one.
    const bool isLong = kind == u"tcp" || kind == u"cluster";
    QVERIFY(!eventually([&] { return service.connections() > 0; }, isLong ? 1200ms : 200ms));
    QVERIFY2(reports.text().isEmpty(), qPrintable(reports.text()));
    QVERIFY(acquireNow(&lock));
}

/// A server that is started again within a second.
void tst_IdleClose::awayForAMoment()
{
    Started<RedisServer> server(RedisServer::Options::withTcp());
    FaultProxy proxy(server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return server.channels().size() == 1; }));
    processEvents();
    Reports reports(&registry);
    proxy.setRefusing(true);
    proxy.closeAll();
    QVERIFY(!eventually([&] { return !reports.text().isEmpty(); }, 300ms));
    proxy.setRefusing(false);
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    QVERIFY2(reports.text().isEmpty(), qPrintable(reports.text()));
    QVERIFY(lock.spies.errors.isEmpty());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_IdleClose)
#include "tst_idleclose.moc"
