// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Failures that seem final and pass: the connections come back, and the locks with them.

#include "locktesting.h"

#include "support/certificates.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/posix.h"

#include <QtCore/qelapsedtimer.h>

#include <memory>
#include <vector>

using namespace LockTesting;
using namespace Support;

namespace {

RedisServer::Options withTcp(const RedisServer *master = nullptr)
{
    RedisServer::Options options;
    options.tcp = true;
    options.replicaOf = master;
    return options;
}

/// Room for a busy machine, far below the interval at which a waiter polls by itself.
constexpr milliseconds AtOnce = 1s;

} // namespace

class tst_Reconnect : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void demoted_data();
    void demoted();
    void serverStoppedWhileWaiting();
    void passwordWrongForAMoment_data();
    void passwordWrongForAMoment();
    void channelForbiddenForAMoment();
    void anotherServiceForAMoment_data();
    void anotherServiceForAMoment();
    void passwordWrongForLong();
    void noAttemptsWithoutNeed();
    void beginsWithTheWrongPassword();
};

void tst_Reconnect::demoted_data()
{
    QTest::addColumn<bool>("anotherServer");
    QTest::addColumn<QByteArray>("servesStaleData");
    QTest::newRow("another server takes over") << true << QByteArray("yes");
    QTest::newRow("another server takes over, MASTERDOWN") << true << QByteArray("no");
    QTest::newRow("master again") << false << QByteArray("yes");
    QTest::newRow("master again, MASTERDOWN") << false << QByteArray("no");
}

/// The master becomes a replica, and the address leads to another master, or to the same one that became master
/// again.
void tst_Reconnect::demoted()
{
    QFETCH(const bool, anotherServer);
    QFETCH(const QByteArray, servesStaleData);
    RedisServer first(withTcp());
    QVERIFY2(first.start(), qPrintable(first.errorString()));
    RedisServer second(withTcp(&first));
    QVERIFY2(second.start(), qPrintable(second.errorString()));
    QTRY_COMPARE(second.info("replication", "master_link_status"), "up");
    FaultProxy proxy(first);
    FaultProxy waitersProxy(first);

    LockRegistry registry(proxy.url());
    LockRegistry waitersRegistry(waitersProxy.url());
    DistributedLock held(&registry, QStringLiteral("job"));
    DistributedLock waiter(&waitersRegistry, QStringLiteral("job"));
    held.setOptions(options(9s));
    waiter.setOptions(options(9s, LockOptions::Forever));
    Spies heldSpies(&held);
    Spies waiterSpies(&waiter);
    QVERIFY(acquireNow(&held));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    QVERIFY(eventually([&] { return first.channels().size() == 2; }));
    QVERIFY(first.command({"WAIT", "1", "5000"}) == QVariant(1LL));

    first.command({"CONFIG", "SET", "replica-serve-stale-data", servesStaleData});
    if (anotherServer)
        second.command({"REPLICAOF", "NO", "ONE"});
    // A master that nobody can reach, as long as the new one is not known.
    first.command({"REPLICAOF", "127.0.0.1", QByteArray::number(Posix::freePort())});
    const qint64 before = proxy.connectionsAccepted() + waitersProxy.connectionsAccepted();
    QElapsedTimer timer;
    timer.start();
    // Both notice, by renewing and by polling.
    QVERIFY(eventually([&] { return !heldSpies.errors.isEmpty() && registry.error() != DistributedLock::NoError
                                     && waitersRegistry.error() != DistributedLock::NoError; }));
    QVERIFY2(held.errorString().contains(servesStaleData == "yes" ? QLatin1String("READONLY") : QLatin1String("MASTERDOWN")),
             qPrintable(held.errorString()));
    QVERIFY(!eventually([] { return false; }, 2s));
    const qint64 connects = proxy.connectionsAccepted() + waitersProxy.connectionsAccepted() - before;
    // Two connections each of two clients.
    QVERIFY2(connects >= 4 && connects <= 12 * timer.elapsed() / 1000, qPrintable(QString::number(connects)));

    RedisServer &master = anotherServer ? second : first;
    if (anotherServer) {
        proxy.setServer(second);
        waitersProxy.setServer(second);
    } else {
        first.command({"REPLICAOF", "NO", "ONE"});
    }
    const qsizetype renewed = heldSpies.renewed.size();
    QVERIFY(eventually([&] { return heldSpies.renewed.size() > renewed; }));
    QVERIFY(eventually([&] { return master.channels().size() == 2; }, 5s));
    QVERIFY(eventually([&] { return waitersRegistry.state() == LockRegistry::Ready && waiter.queuePosition() == 0; }, 5s));
    QVERIFY(heldSpies.lost.isEmpty());
    QVERIFY(held.isHeld());
    QVERIFY(waiterSpies.acquiresEnded() == 0);

    held.release();
    QVERIFY(eventually([&] { return waiterSpies.acquired.size() == 1; }, AtOnce)); // handed over
    QVERIFY(heldSpies.lost.isEmpty());
    QVERIFY(master.get("lock:job").size() > 0);
}

/// A lock far back in the queue sends nothing for a long time; a stopped server is noticed all the same.
void tst_Reconnect::serverStoppedWhileWaiting()
{
    RedisServer server(withTcp());
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry holdersRegistry(server.url());
    DistributedLock held(&holdersRegistry, QStringLiteral("job"));
    held.setOptions(options(60s));
    QVERIFY(acquireNow(&held));
    LockRegistry others(server.url());
    std::vector<std::unique_ptr<DistributedLock>> waiters;
    FaultProxy proxy(server);
    LockRegistry registry(proxy.url());
    for (int i = 0; i < 5; ++i) {
        waiters.push_back(std::make_unique<DistributedLock>(i < 4 ? &others : &registry, QStringLiteral("job")));
        waiters.back()->setOptions(options(60s, LockOptions::Forever));
        waiters.back()->acquire();
        QVERIFY(eventually([&] { return waiters.back()->queuePosition() == i; }));
    }
    QVERIFY(eventually([&] { return server.channels().size() == 3; }));
    QCOMPARE(registry.error(), DistributedLock::NoError);

    QElapsedTimer timer;
    timer.start();
    server.pause();
    QVERIFY(eventually([&] { return registry.error() != DistributedLock::NoError; }, 15s));
    QVERIFY2(timer.elapsed() < 9000, qPrintable(QString::number(timer.elapsed())));
    QCOMPARE(registry.error(), DistributedLock::ConnectionError);
    server.resume();
    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready; }));
    // And it costs little: two PINGs every five seconds.
    QVERIFY(eventually([&] { return waiters.back()->queuePosition() == 4; }));
    const qint64 before = proxy.commandsForwarded("PING");
    QVERIFY(!eventually([] { return false; }, 6s));
    const qint64 pings = proxy.commandsForwarded("PING") - before;
    QVERIFY2(pings >= 2 && pings <= 6, qPrintable(QString::number(pings)));
}

void tst_Reconnect::passwordWrongForAMoment_data()
{
    QTest::addColumn<bool>("withUser");
    QTest::addColumn<QByteArray>("killed");
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
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setPassword(QStringLiteral("right"));
    if (withUser)
        url.setUserName(QStringLiteral("u5er"));
    QUrl othersUrl = server.url();
    othersUrl.setUserName(QStringLiteral("other"));
    othersUrl.setPassword(QStringLiteral("right"));

    LockRegistry others(othersUrl);
    DistributedLock busy(&others, QStringLiteral("busy"));
    busy.setOptions(options(60s));
    QVERIFY(acquireNow(&busy));
    LockRegistry registry(url);
    DistributedLock held(&registry, QStringLiteral("held"));
    DistributedLock waiter(&registry, QStringLiteral("busy"));
    held.setOptions(options(4s));
    waiter.setOptions(options(60s, LockOptions::Forever));
    Spies heldSpies(&held);
    Spies waiterSpies(&waiter);
    QVERIFY(acquireNow(&held));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0 && server.channels().size() == 2; }));

    const auto setPassword = [&](const QByteArray &password) {
        const QByteArray user = withUser ? QByteArray("u5er") : QByteArray("default");
        return server.command({"ACL", "SETUSER", user, "resetpass", '>' + password}) == QVariant(QByteArray("OK"));
    };
    QVERIFY(setPassword("wrong"));
    const QByteArray user = withUser ? QByteArray("u5er") : QByteArray("default");
    for (const QByteArray &type : killed == "both" ? QList<QByteArray>{"normal", "pubsub"} : QList<QByteArray>{killed})
        QVERIFY(server.command({"CLIENT", "KILL", "USER", user, "TYPE", type}).toLongLong() > 0);
    QVERIFY(!eventually([&] { return heldSpies.lost.size() + waiterSpies.failed.size() > 0; }, 500ms));
    QVERIFY(setPassword("right"));

    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready && server.channels().size() == 2; }, 5s));
    const qsizetype renewed = heldSpies.renewed.size();
    QVERIFY(eventually([&] { return heldSpies.renewed.size() > renewed; }, 5s));
    QVERIFY(heldSpies.lost.isEmpty());
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    busy.release();
    QVERIFY(eventually([&] { return waiterSpies.acquired.size() == 1; }, AtOnce)); // handed over
    QVERIFY(waiterSpies.failed.isEmpty());
    QVERIFY(heldSpies.lost.isEmpty());
}

/// The server ends the subscription itself, and refuses it to the next connection.
void tst_Reconnect::channelForbiddenForAMoment()
{
    RedisServer::Options serverOptions;
    serverOptions.users = {"u5er on >right ~* &* +@all"};
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    QUrl url = server.url();
    url.setUserName(QStringLiteral("u5er"));
    url.setPassword(QStringLiteral("right"));
    LockRegistry others(server.url());
    DistributedLock busy(&others, QStringLiteral("busy"));
    busy.setOptions(options(60s));
    QVERIFY(acquireNow(&busy));
    LockRegistry registry(url);
    DistributedLock waiter(&registry, QStringLiteral("busy"));
    waiter.setOptions(options(60s, LockOptions::Forever));
    Spies spies(&waiter);
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    QVERIFY(eventually([&] { return server.channels().size() == 2; }));

    LogCapture log;
    server.command({"ACL", "SETUSER", "u5er", "resetchannels"});
    QVERIFY(eventually([&] { return log.count({QStringLiteral("forbids to subscribe")}) == 1; }));
    server.command({"ACL", "SETUSER", "u5er", "allchannels"});
    QVERIFY(eventually([&] { return server.channels().size() == 2; }));
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    busy.release();
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }, AtOnce)); // handed over
    QVERIFY(spies.failed.isEmpty());
    QCOMPARE(log.count({QStringLiteral("forbids to subscribe")}), 1);
}

void tst_Reconnect::anotherServiceForAMoment_data()
{
    QTest::addColumn<bool>("tls");
    QTest::addColumn<QByteArray>("answer");
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
    RedisServer::Options serverOptions = withTcp();
    serverOptions.tls = true;
    serverOptions.certificateFile = certificates.server().certificate;
    serverOptions.keyFile = certificates.server().key;
    serverOptions.caFile = certificates.ca();
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FakeServer other;
    other.setAnswersLogin(false);
    other.setHandler([answer](const QList<QByteArray> &, int) { return FakeServer::Answer{answer}; });
    FaultProxy proxy(tls ? server.tlsPort() : server.port());
    QUrl url = tls ? server.tlsUrl() : server.tcpUrl();
    url.setPort(proxy.port());

    LockRegistry others(server.url());
    DistributedLock busy(&others, QStringLiteral("busy"));
    busy.setOptions(options(60s));
    QVERIFY(acquireNow(&busy));
    LockRegistry registry(url);
    DistributedLock held(&registry, QStringLiteral("held"));
    DistributedLock waiter(&registry, QStringLiteral("busy"));
    held.setOptions(options(4s));
    waiter.setOptions(options(60s, LockOptions::Forever));
    Spies heldSpies(&held);
    Spies waiterSpies(&waiter);
    QVERIFY2(acquireNow(&held), qPrintable(held.errorString()));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0 && server.channels().size() == 2; }));

    proxy.setServer(other.port());
    proxy.closeAll();
    QVERIFY(eventually([&] { return other.connectionsAccepted() >= 2; }));
    QVERIFY(!eventually([&] { return heldSpies.lost.size() + waiterSpies.failed.size() > 0; }, 500ms));
    proxy.setServer(tls ? server.tlsPort() : server.port());

    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready && server.channels().size() == 2; }, 5s));
    const qsizetype renewed = heldSpies.renewed.size();
    QVERIFY(eventually([&] { return heldSpies.renewed.size() > renewed; }, 5s));
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    busy.release();
    QVERIFY(eventually([&] { return waiterSpies.acquired.size() == 1; }, AtOnce)); // handed over
    QVERIFY(waiterSpies.failed.isEmpty());
    QVERIFY(heldSpies.lost.isEmpty());
}

/// No storm while it lasts; reported; and back once it is right.
void tst_Reconnect::passwordWrongForLong()
{
    RedisServer::Options serverOptions;
    serverOptions.users = {"u5er on >right ~* &* +@all"};
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setUserName(QStringLiteral("u5er"));
    url.setPassword(QStringLiteral("right"));
    LogCapture log;
    LockRegistry registry(url);
    DistributedLock held(&registry, QStringLiteral("held"));
    held.setOptions(options(30s));
    Spies spies(&held);
    QVERIFY(acquireNow(&held));
    QVERIFY(eventually([&] { return server.channels().size() == 1; }));

    server.command({"ACL", "SETUSER", "u5er", "resetpass", ">wrong"});
    const qint64 before = proxy.connectionsAccepted();
    server.command({"CLIENT", "KILL", "USER", "u5er"});
    QVERIFY(!eventually([&] { return spies.lost.size() > 0; }, 6s));
    const qint64 connects = proxy.connectionsAccepted() - before;
    // Each of two connections: at once, and after about 1, 2 and 4 s.
    QVERIFY2(connects >= 4 && connects <= 10, qPrintable(QString::number(connects)));
    QCOMPARE(spies.errors.size(), 1);
    QCOMPARE(registry.error(), DistributedLock::AuthenticationError);
    const qsizetype warnings = log.count({QStringLiteral("WRONGPASS"), QStringLiteral("Trying again")});
    QVERIFY2(warnings <= 2, qPrintable(log.text()));

    server.command({"ACL", "SETUSER", "u5er", "resetpass", ">right"});
    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready && server.channels().size() == 1; }, 15s));
    QVERIFY(held.isHeld());
    QVERIFY(spies.lost.isEmpty());
}

/// Nobody needs the server any more: it is left alone.
void tst_Reconnect::noAttemptsWithoutNeed()
{
    RedisServer::Options serverOptions;
    serverOptions.users = {"u5er on >right ~* &* +@all"};
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setUserName(QStringLiteral("u5er"));
    url.setPassword(QStringLiteral("right"));
    LockRegistry registry(url);
    DistributedLock lock(&registry, QStringLiteral("held"));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return server.channels().size() == 1; }));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    const qint64 before = proxy.connectionsAccepted();
    server.command({"ACL", "SETUSER", "u5er", "resetpass", ">wrong"});
    server.command({"CLIENT", "KILL", "USER", "u5er"});
    QVERIFY(!eventually([&] { return proxy.connectionsAccepted() > before + 2; }, 4s));
    QCOMPARE(registry.state(), LockRegistry::Disconnected);
}

/// As long as the server has not answered it once, an acquire fails at once.
void tst_Reconnect::beginsWithTheWrongPassword()
{
    RedisServer::Options serverOptions;
    serverOptions.password = "right";
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setPassword(QStringLiteral("wrong"));
    LockRegistry registry(url);
    DistributedLock lock(&registry, QStringLiteral("job"));
    lock.setOptions(options(2s, LockOptions::Forever));
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }, AtOnce));
    QCOMPARE(spies.failure(), DistributedLock::AuthenticationError);
    // Nobody needs the server any more.
    QVERIFY(!eventually([&] { return proxy.connectionsAccepted() > 1; }, 3s));
    QCOMPARE(registry.state(), LockRegistry::Disconnected);
}

QTEST_GUILESS_MAIN(tst_Reconnect)
#include "tst_reconnect.moc"
