// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Failures that look permanent but end: connections and locks recover.

#include "support/locktest.h"

#include "support/certificates.h"
#include "support/eventually.h"
#include "support/fakeclock.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qelapsedtimer.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// A client at the end of a queue, behind a proxy. It sends nothing for a long time.
class LastInQueue
{
public:
    LastInQueue()
        : started(server.start())
        , holdersRegistry(server.url())
        , held(&holdersRegistry, u"job"_s)
        , others(server.url())
        , proxy(server)
        , registry(proxy.url())
    {
    }

    /// Everybody has his place.
    bool begin()
    {
        held.setOptions(options(LongLease));
        if (!started || !acquireNow(&held))
            return false;
        for (int i = 0; i <= Position; ++i) {
            waiters.push_back(std::make_unique<TestLock>(i < Position ? &others : &registry, u"job"_s,
                                                         options(LongLease, LockOptions::Forever)));
            waiters.back()->acquire();
            if (!eventually([&] { return waiters.back()->queuePosition() == i; }))
                return false;
        }
        return eventually([&] { return server.channels().size() == 3; })
                && registry.error() == DistributedLock::NoError;
    }
    /// The last one has its place again.
    bool isBack()
    {
        return eventually([&] { return registry.state() == LockRegistry::Ready; })
                && eventually([&] { return waiters.back()->queuePosition() == Position; });
    }

    static constexpr int Position = 4;
    RedisServer server{RedisServer::Options::withTcp()};
    const bool started;
    LockRegistry holdersRegistry;
    DistributedLock held;
    LockRegistry others;
    FaultProxy proxy;
    LockRegistry registry;
    std::vector<std::unique_ptr<DistributedLock>> waiters;
};

/// A user whose password somebody changes, and a client behind a proxy that logs in as this user.
class ChangedPassword
{
public:
    ChangedPassword()
        : server(serverOptions())
        , started(server.start())
        , proxy(server)
    {
    }

    QUrl url() const
    {
        QUrl url = proxy.url();
        url.setUserName(u"u5er"_s);
        url.setPassword(u"right"_s);
        return url;
    }
    void setPassword(const QByteArray &password)
    {
        server.command({"ACL", "SETUSER", "u5er", "resetpass", '>' + password});
    }
    /// Both connections of the client are closed, and it cannot log in again.
    void makeWrong()
    {
        setPassword("wrong");
        before = proxy.connectionsAccepted();
        server.command({"CLIENT", "KILL", "USER", "u5er"});
    }
    /// Since makeWrong().
    qint64 connects() const { return proxy.connectionsAccepted() - before; }

    RedisServer server;
    const bool started;
    FaultProxy proxy;
    qint64 before = 0;

private:
    static RedisServer::Options serverOptions()
    {
        RedisServer::Options options;
        options.users = {"u5er on >right ~* &* +@all"};
        return options;
    }
};

/// How often the server has refused a password.
qint64 refusedLogins(RedisServer &server)
{
    return server.info("errorstats", "errorstat_WRONGPASS").mid(qsizetype(qstrlen("count="))).toLongLong();
}

} // namespace

class tst_Reconnect : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void demoted_data();
    void demoted();
    void serverStoppedWhileWaiting();
    PROOF void waiterSendsFewPings();
    void passwordWrongForAMoment_data();
    void passwordWrongForAMoment();
    void channelForbiddenForAMoment();
    void anotherServiceForAMoment_data();
    void anotherServiceForAMoment();
    void passwordWrongForLong();
    PROOF void fewAttemptsWithTheWrongPassword();
    void noAttemptsWithoutNeed();
    void beginsWithTheWrongPassword();
};

void tst_Reconnect::demoted_data()
{
    addColumns<bool, QByteArray>("anotherServer", "servesStaleData");
    QTest::newRow("another server takes over") << true << QByteArray("yes");
    QTest::newRow("another server takes over, MASTERDOWN") << true << QByteArray("no");
    QTest::newRow("master again") << false << QByteArray("yes");
    QTest::newRow("master again, MASTERDOWN") << false << QByteArray("no");
}

/// The master becomes a replica, and the address leads to another master, or to the same one that became master again.
/// The clients' clock advances only once, when the test sets it: no lease ends and nobody polls, however slow the
/// machine is.
void tst_Reconnect::demoted()
{
    QFETCH(const bool, anotherServer);
    QFETCH(const QByteArray, servesStaleData);
    Started<RedisServer> first(RedisServer::Options::withTcp());
    RedisServer::Options secondOptions = RedisServer::Options::withTcp();
    secondOptions.replicaOf = &first;
    Started<RedisServer> second(secondOptions);
    EVENTUALLY_COMPARE(second.info("replication", "master_link_status"), "up");
    FaultProxy proxy(first);
    FaultProxy waitersProxy(first);

    constexpr milliseconds lease = LongLease;
    FakeClock clock;
    LockRegistry registry(proxy.url());
    LockRegistry waitersRegistry(waitersProxy.url());
    for (LockRegistry *const client : {&registry, &waitersRegistry})
        LockRegistryPrivate::get(client)->setClock(&clock);
    TestLock held(&registry, u"job"_s, options(lease));
    TestLock waiter(&waitersRegistry, u"job"_s, options(lease, LockOptions::Forever));
    QVERIFY(acquireNow(&held));
    QVERIFY(joinQueue(&waiter));
    QVERIFY(eventually([&] { return first.channels().size() == 2; }));
    QVERIFY(first.waitUntilReplicated(1));

    first.command({"CONFIG", "SET", "replica-serve-stale-data", servesStaleData});
    if (anotherServer)
        second.command({"REPLICAOF", "NO", "ONE"});
    // Its master cannot be reached while the new one is not known.
    const UnansweredPort nobody; // a free port might be that of another test's server by now
    first.command({"REPLICAOF", "127.0.0.1", QByteArray::number(nobody.port())});
    const auto connects = [&] { return proxy.connectionsAccepted() + waitersProxy.connectionsAccepted(); };
    const qint64 before = connects();
    QElapsedTimer timer;
    timer.start();
    clock.advance(lease / 3); // a renewal and a poll are due
    for (LockRegistry *const client : {&registry, &waitersRegistry})
        LockRegistryPrivate::get(client)->watchdog()->wake();
    QVERIFY(eventually([&] {
        return !held.spies.errors.isEmpty() && registry.error() != DistributedLock::NoError
                && waitersRegistry.error() != DistributedLock::NoError;
    }));
    QVERIFY2(held.errorString().contains(servesStaleData == "yes" ? QLatin1String("READONLY")
                                                                  : QLatin1String("MASTERDOWN")),
             qPrintable(held.errorString()));
    // Two clients with two connections each, which all connect again and again, but later and later: 10 ms, 20 ms, ...,
    // half of that at the least. A busy machine only makes it longer.
    QVERIFY(eventually([&] { return connects() - before >= 4 * 7; }));
    QVERIFY2(timer.elapsed() >= 500, qPrintable(QString::number(timer.elapsed())));

    RedisServer &master = anotherServer ? second : first;
    if (anotherServer) {
        proxy.setServer(second);
        waitersProxy.setServer(second);
    } else {
        first.command({"REPLICAOF", "NO", "ONE"});
    }
    const qsizetype renewed = held.spies.renewed.size();
    QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));
    QVERIFY(eventually([&] { return master.channels().size() == 2; }));
    QVERIFY(eventually([&] { return waitersRegistry.state() == LockRegistry::Ready && waiter.queuePosition() == 0; }));
    QVERIFY(held.spies.lost.isEmpty());
    QVERIFY(held.isHeld());
    QVERIFY(waiter.spies.acquiresEnded() == 0);

    held.release();
    QVERIFY(eventually([&] { return waiter.spies.acquired.size() == 1; })); // by the hand-over
    QVERIFY(held.spies.lost.isEmpty());
    QVERIFY(master.get("lock:job").size() > 0);
}

/// A lock far back in the queue sends nothing for a long time. The client must notice a stopped server anyway.
void tst_Reconnect::serverStoppedWhileWaiting()
{
    LastInQueue last;
    QVERIFY(last.begin());
    last.server.pause();
    QVERIFY(eventually([&] { return last.registry.error() != DistributedLock::NoError; }));
    QCOMPARE(last.registry.error(), DistributedLock::ConnectionError);
    last.server.resume();
    QVERIFY(last.isBack());
}

/// A client at the end of a queue notices within nine seconds that the server has stopped. That costs two PINGs every
/// five seconds.
void tst_Reconnect::waiterSendsFewPings()
{
    LastInQueue last;
    QVERIFY(last.begin());
    QElapsedTimer timer;
    timer.start();
    last.server.pause();
    QVERIFY(eventually([&] { return last.registry.error() != DistributedLock::NoError; }));
    QVERIFY2(timer.elapsed() < 9000, qPrintable(QString::number(timer.elapsed())));
    last.server.resume();
    QVERIFY(last.isBack());
    const qint64 before = last.proxy.commandsForwarded("PING");
    QVERIFY(!eventually([] { return false; }, 6s));
    const qint64 pings = last.proxy.commandsForwarded("PING") - before;
    QVERIFY2(pings >= 2 && pings <= 6, qPrintable(QString::number(pings)));
}

void tst_Reconnect::passwordWrongForAMoment_data()
{
    addColumns<bool, QByteArray>("withUser", "killed");
    for (const bool withUser : {false, true}) {
        for (const char *killed : {"normal", "pubsub", "both"})
            QTest::addRow("%s, %s", withUser ? "user" : "default user", killed) << withUser << QByteArray(killed);
    }
}

void tst_Reconnect::passwordWrongForAMoment()
{
    QFETCH(const bool, withUser);
    QFETCH(const QByteArray, killed);
    RedisServer::Options serverOptions;
    serverOptions.password = "right";
    serverOptions.users = {"u5er on >right ~* &* +@all", "other on >right ~* &* +@all"};
    Started<RedisServer> server(serverOptions);
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setPassword(u"right"_s);
    if (withUser)
        url.setUserName(u"u5er"_s);
    QUrl othersUrl = server.url();
    othersUrl.setUserName(u"other"_s);
    othersUrl.setPassword(u"right"_s);

    LockRegistry others(othersUrl);
    TestLock busy(&others, u"busy"_s, options(LongLease));
    QVERIFY(acquireNow(&busy));
    StillRegistry registry(url);
    TestLock held(&registry, u"held"_s, options(LongLease));
    TestLock waiter(&registry, u"busy"_s, options(LongLease, LockOptions::Forever));
    QVERIFY(acquireNow(&held));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0 && server.channels().size() == 2; }));

    const auto setPassword = [&](const QByteArray &password) {
        const QByteArray user = withUser ? QByteArray("u5er") : QByteArray("default");
        return server.command({"ACL", "SETUSER", user, "resetpass", '>' + password}) == QVariant(QByteArray("OK"));
    };
    QVERIFY(setPassword("wrong"));
    const qint64 refused = refusedLogins(server);
    const QByteArray user = withUser ? QByteArray("u5er") : QByteArray("default");
    for (const QByteArray &type : killed == "both" ? QList<QByteArray>{"normal", "pubsub"} : QList<QByteArray>{killed})
        QVERIFY(server.command({"CLIENT", "KILL", "USER", user, "TYPE", type}).toLongLong() > 0);
    QVERIFY(eventually([&] { return refusedLogins(server) >= refused + (killed == "both" ? 2 : 1); }));
    if (killed != "pubsub")
        QVERIFY(eventually([&] { return registry.error() != DistributedLock::NoError; }));
    QVERIFY(setPassword("right"));

    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready && server.channels().size() == 2; }));
    const qsizetype renewed = held.spies.renewed.size();
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));
    QVERIFY(held.spies.lost.isEmpty());
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    busy.release();
    QVERIFY(eventually([&] { return waiter.spies.acquired.size() == 1; })); // by the hand-over: no poll is due
    QVERIFY(waiter.spies.failed.isEmpty());
    QVERIFY(held.spies.lost.isEmpty());
}

/// The server closes the connection of the subscription, and refuses the subscription on the next one.
void tst_Reconnect::channelForbiddenForAMoment()
{
    RedisServer::Options serverOptions;
    serverOptions.users = {"u5er on >right ~* &* +@all"};
    Started<RedisServer> server(serverOptions);
    QUrl url = server.url();
    url.setUserName(u"u5er"_s);
    url.setPassword(u"right"_s);
    LockRegistry others(server.url());
    TestLock busy(&others, u"busy"_s, options(LongLease));
    QVERIFY(acquireNow(&busy));
    StillRegistry registry(url);
    TestLock waiter(&registry, u"busy"_s, options(LongLease, LockOptions::Forever));
    QVERIFY(joinQueue(&waiter));
    QVERIFY(eventually([&] { return server.channels().size() == 2; }));

    LogCapture log;
    server.command({"ACL", "SETUSER", "u5er", "resetchannels"});
    QVERIFY(eventually([&] { return log.count({u"forbids to subscribe"_s}) == 1; }));
    server.command({"ACL", "SETUSER", "u5er", "allchannels"});
    QVERIFY(eventually([&] { return server.channels().size() == 2; }));
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    busy.release();
    QVERIFY(eventually([&] { return waiter.spies.acquired.size() == 1; })); // by the hand-over: no poll is due
    QVERIFY(waiter.spies.failed.isEmpty());
    QCOMPARE(log.count({u"forbids to subscribe"_s}), 1);
}

void tst_Reconnect::anotherServiceForAMoment_data()
{
    addColumns<bool, QByteArray>("tls", "answer");
    QTest::newRow("HTTP") << false << QByteArray("HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n");
    QTest::newRow("TLS alert") << true << QByteArray("\x15\x03\x03\x00\x02\x02\x28", 7);
    QTest::newRow("no TLS") << true << QByteArray("-ERR Protocol error\r\n");
}

void tst_Reconnect::anotherServiceForAMoment()
{
    QFETCH(const bool, tls);
    QFETCH(const QByteArray, answer);
    const Certificates certificates;
    QVERIFY2(certificates.isValid(), qPrintable(certificates.errorString()));
    Started<RedisServer> server(RedisServer::Options::withTls(certificates));
    FakeServer other;
    other.setAnswersLogin(false);
    other.setHandler([answer](const QList<QByteArray> &, int) { return FakeServer::Answer{answer}; });
    FaultProxy proxy(tls ? server.tlsPort() : server.port());
    QUrl url = tls ? server.tlsUrl() : server.tcpUrl();
    url.setPort(proxy.port());

    LockRegistry others(server.url());
    TestLock busy(&others, u"busy"_s, options(LongLease));
    QVERIFY(acquireNow(&busy));
    StillRegistry registry(url);
    TestLock held(&registry, u"held"_s, options(LongLease));
    TestLock waiter(&registry, u"busy"_s, options(LongLease, LockOptions::Forever));
    QVERIFY2(acquireNow(&held), qPrintable(held.errorString()));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0 && server.channels().size() == 2; }));

    proxy.setServer(other.port());
    proxy.closeAll();
    QVERIFY(eventually([&] { return other.connectionsAccepted() >= 2; }));
    QVERIFY(eventually([&] { return registry.error() != DistributedLock::NoError; }));
    proxy.setServer(tls ? server.tlsPort() : server.port());

    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready && server.channels().size() == 2; }));
    const qsizetype renewed = held.spies.renewed.size();
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return held.spies.renewed.size() > renewed; }));
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    busy.release();
    QVERIFY(eventually([&] { return waiter.spies.acquired.size() == 1; })); // by the hand-over: no poll is due
    QVERIFY(waiter.spies.failed.isEmpty());
    QVERIFY(held.spies.lost.isEmpty());
}

/// Each cause is reported once, and the locks recover when the password is right again.
void tst_Reconnect::passwordWrongForLong()
{
    ChangedPassword user;
    QVERIFY2(user.started, qPrintable(user.server.errorString()));
    LogCapture log;
    StillRegistry registry(user.url());
    TestLock held(&registry, u"held"_s, options(LongLease));
    QVERIFY(acquireNow(&held));
    QVERIFY(eventually([&] { return user.server.channels().size() == 1; }));

    user.makeWrong();
    // Each of the two connections connects at once, and after about 1 s.
    QVERIFY(eventually([&] { return user.connects() >= 4; }));
    QCOMPARE(held.spies.errors.size(), 1); // not that the idle connection was closed
    QCOMPARE(registry.error(), DistributedLock::AuthenticationError);
    const qsizetype warnings = log.count({u"WRONGPASS"_s, u"Trying again"_s});
    QVERIFY2(warnings <= 2, qPrintable(log.text()));

    user.setPassword("right");
    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready && user.server.channels().size() == 1; }));
    QVERIFY(held.isHeld());
    QVERIFY(held.spies.lost.isEmpty());
}

void tst_Reconnect::fewAttemptsWithTheWrongPassword()
{
    ChangedPassword user;
    QVERIFY2(user.started, qPrintable(user.server.errorString()));
    LogCapture log;
    LockRegistry registry(user.url());
    TestLock held(&registry, u"held"_s, options(LongLease));
    QVERIFY(acquireNow(&held));
    QVERIFY(eventually([&] { return user.server.channels().size() == 1; }));

    user.makeWrong();
    QVERIFY(!eventually([&] { return held.spies.lost.size() > 0; }, 6s));
    const qint64 connects = user.connects();
    // Each of the two connections connects at once, and after about 1, 2 and 4 s.
    QVERIFY2(connects >= 4 && connects <= 10, qPrintable(QString::number(connects)));
    QCOMPARE(held.spies.errors.size(), 1); // not that the idle connection was closed
    const qsizetype warnings = log.count({u"WRONGPASS"_s, u"Trying again"_s});
    QVERIFY2(warnings <= 2, qPrintable(log.text()));
}

/// Without a held or waiting lock the client does not reconnect.
void tst_Reconnect::noAttemptsWithoutNeed()
{
    ChangedPassword user;
    QVERIFY2(user.started, qPrintable(user.server.errorString()));
    LockRegistry registry(user.url());
    TestLock lock(&registry, u"held"_s, {});
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return user.server.channels().size() == 1; }));
    QVERIFY(releaseNow(&lock));
    user.makeWrong();
    // The next attempts would follow after about 1 s. A busy machine can only make this miss them.
    QVERIFY(!eventually([&] { return user.connects() > 2; }, 1500ms));
    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Disconnected; }));
}

/// An acquire before the first successful login fails at once.
void tst_Reconnect::beginsWithTheWrongPassword()
{
    RedisServer::Options serverOptions;
    serverOptions.password = "right";
    Started<RedisServer> server(serverOptions);
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setPassword(u"wrong"_s);
    StillRegistry registry(url); // no wait ends, and no retry is due
    TestLock lock(&registry, u"job"_s, options(LongLease, LockOptions::Forever));
    QCOMPARE(failureNow(&lock), DistributedLock::AuthenticationError);
    // No lock needs the server any more. A busy machine can only make this miss an attempt, due after about 1 s.
    QVERIFY(!eventually([&] { return proxy.connectionsAccepted() > 1; }, 1500ms));
    QCOMPARE(registry.state(), LockRegistry::Disconnected);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Reconnect)
#include "tst_reconnect.moc"
