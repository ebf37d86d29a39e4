// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Failures that look permanent but end: connections and locks recover.

#include "support/locktesting.h"

#include "support/certificates.h"
#include "support/fakeclock.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/posix.h"

#include <QtCore/qelapsedtimer.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// Enough time on a busy machine, but far below the interval at which a waiter polls by itself.
constexpr milliseconds AtOnce = 1s;
/// For what happens much sooner, except on an overloaded machine.
constexpr milliseconds Patience = 60s;

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
/// again. The test sets the clients' clock forward once, and otherwise it stands still: no lease ends and nobody polls,
/// however slow the machine is.
void tst_Reconnect::demoted()
{
    QFETCH(const bool, anotherServer);
    QFETCH(const QByteArray, servesStaleData);
    RedisServer first(RedisServer::Options::withTcp());
    QVERIFY2(first.start(), qPrintable(first.errorString()));
    RedisServer::Options secondOptions = RedisServer::Options::withTcp();
    secondOptions.replicaOf = &first;
    RedisServer second(secondOptions);
    QVERIFY2(second.start(), qPrintable(second.errorString()));
    QTRY_COMPARE(second.info("replication", "master_link_status"), "up");
    FaultProxy proxy(first);
    FaultProxy waitersProxy(first);

    constexpr milliseconds lease = 10min; // the server's clock runs
    FakeClock clock;
    LockRegistry registry(proxy.url());
    LockRegistry waitersRegistry(waitersProxy.url());
    for (LockRegistry *const client : {&registry, &waitersRegistry})
        LockRegistryPrivate::get(client)->setClock(&clock);
    DistributedLock held(&registry, u"job"_s);
    DistributedLock waiter(&waitersRegistry, u"job"_s);
    held.setOptions(options(lease));
    waiter.setOptions(options(lease, LockOptions::Forever));
    Spies heldSpies(&held);
    Spies waiterSpies(&waiter);
    QVERIFY(acquireNow(&held));
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    QVERIFY(eventually([&] { return first.channels().size() == 2; }));
    QVERIFY(first.waitUntilReplicated(1));

    first.command({"CONFIG", "SET", "replica-serve-stale-data", servesStaleData});
    if (anotherServer)
        second.command({"REPLICAOF", "NO", "ONE"});
    // Its master cannot be reached while the new one is not known.
    first.command({"REPLICAOF", "127.0.0.1", QByteArray::number(Posix::freePort())});
    const auto connects = [&] { return proxy.connectionsAccepted() + waitersProxy.connectionsAccepted(); };
    const qint64 before = connects();
    QElapsedTimer timer;
    timer.start();
    clock.advance(lease / 3); // a renewal and a poll are due
    for (LockRegistry *const client : {&registry, &waitersRegistry})
        LockRegistryPrivate::get(client)->watchdog()->wake();
    QVERIFY(eventually(
            [&] {
                return !heldSpies.errors.isEmpty() && registry.error() != DistributedLock::NoError
                        && waitersRegistry.error() != DistributedLock::NoError;
            },
            Patience));
    QVERIFY2(held.errorString().contains(servesStaleData == "yes" ? QLatin1String("READONLY")
                                                                  : QLatin1String("MASTERDOWN")),
             qPrintable(held.errorString()));
    // Two clients with two connections each, which all connect again and again, but later and later: 10 ms, 20 ms, ...,
    // half of that at the least.
    QVERIFY(eventually([&] { return connects() - before >= 4 * 8; }, Patience));
    QVERIFY2(timer.elapsed() >= 500, qPrintable(QString::number(timer.elapsed())));

    RedisServer &master = anotherServer ? second : first;
    if (anotherServer) {
        proxy.setServer(second);
        waitersProxy.setServer(second);
    } else {
        first.command({"REPLICAOF", "NO", "ONE"});
    }
    const qsizetype renewed = heldSpies.renewed.size();
    QVERIFY(eventually([&] { return heldSpies.renewed.size() > renewed; }, Patience));
    QVERIFY(eventually([&] { return master.channels().size() == 2; }, Patience));
    QVERIFY(eventually([&] { return waitersRegistry.state() == LockRegistry::Ready && waiter.queuePosition() == 0; },
                       Patience));
    QVERIFY(heldSpies.lost.isEmpty());
    QVERIFY(held.isHeld());
    QVERIFY(waiterSpies.acquiresEnded() == 0);

    held.release();
    QVERIFY(eventually([&] { return waiterSpies.acquired.size() == 1; }, Patience)); // by the hand-over
    QVERIFY(heldSpies.lost.isEmpty());
    QVERIFY(master.get("lock:job").size() > 0);
}

/// A lock far back in the queue sends nothing for a long time. The client must notice a stopped server anyway.
void tst_Reconnect::serverStoppedWhileWaiting()
{
    RedisServer server(RedisServer::Options::withTcp());
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry holdersRegistry(server.url());
    DistributedLock held(&holdersRegistry, u"job"_s);
    held.setOptions(options(60s));
    QVERIFY(acquireNow(&held));
    LockRegistry others(server.url());
    std::vector<std::unique_ptr<DistributedLock>> waiters;
    FaultProxy proxy(server);
    LockRegistry registry(proxy.url());
    for (int i = 0; i < 5; ++i) {
        waiters.push_back(std::make_unique<DistributedLock>(i < 4 ? &others : &registry, u"job"_s));
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
    // That costs two PINGs every five seconds.
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
    url.setPassword(u"right"_s);
    if (withUser)
        url.setUserName(u"u5er"_s);
    QUrl othersUrl = server.url();
    othersUrl.setUserName(u"other"_s);
    othersUrl.setPassword(u"right"_s);

    LockRegistry others(othersUrl);
    DistributedLock busy(&others, u"busy"_s);
    busy.setOptions(options(60s));
    QVERIFY(acquireNow(&busy));
    LockRegistry registry(url);
    DistributedLock held(&registry, u"held"_s);
    DistributedLock waiter(&registry, u"busy"_s);
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
    QVERIFY(eventually([&] { return waiterSpies.acquired.size() == 1; }, AtOnce)); // by the hand-over, without polling
    QVERIFY(waiterSpies.failed.isEmpty());
    QVERIFY(heldSpies.lost.isEmpty());
}

/// The server closes the connection of the subscription, and refuses the subscription on the next one.
void tst_Reconnect::channelForbiddenForAMoment()
{
    RedisServer::Options serverOptions;
    serverOptions.users = {"u5er on >right ~* &* +@all"};
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    QUrl url = server.url();
    url.setUserName(u"u5er"_s);
    url.setPassword(u"right"_s);
    LockRegistry others(server.url());
    DistributedLock busy(&others, u"busy"_s);
    busy.setOptions(options(60s));
    QVERIFY(acquireNow(&busy));
    LockRegistry registry(url);
    DistributedLock waiter(&registry, u"busy"_s);
    waiter.setOptions(options(60s, LockOptions::Forever));
    Spies spies(&waiter);
    waiter.acquire();
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    QVERIFY(eventually([&] { return server.channels().size() == 2; }));

    LogCapture log;
    server.command({"ACL", "SETUSER", "u5er", "resetchannels"});
    QVERIFY(eventually([&] { return log.count({u"forbids to subscribe"_s}) == 1; }));
    server.command({"ACL", "SETUSER", "u5er", "allchannels"});
    QVERIFY(eventually([&] { return server.channels().size() == 2; }));
    QVERIFY(eventually([&] { return waiter.queuePosition() == 0; }));
    busy.release();
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }, AtOnce)); // by the hand-over, without polling
    QVERIFY(spies.failed.isEmpty());
    QCOMPARE(log.count({u"forbids to subscribe"_s}), 1);
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
    RedisServer server(RedisServer::Options::withTls(certificates));
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FakeServer other;
    other.setAnswersLogin(false);
    other.setHandler([answer](const QList<QByteArray> &, int) { return FakeServer::Answer{answer}; });
    FaultProxy proxy(tls ? server.tlsPort() : server.port());
    QUrl url = tls ? server.tlsUrl() : server.tcpUrl();
    url.setPort(proxy.port());

    LockRegistry others(server.url());
    DistributedLock busy(&others, u"busy"_s);
    busy.setOptions(options(60s));
    QVERIFY(acquireNow(&busy));
    LockRegistry registry(url);
    DistributedLock held(&registry, u"held"_s);
    DistributedLock waiter(&registry, u"busy"_s);
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
    QVERIFY(eventually([&] { return waiterSpies.acquired.size() == 1; }, AtOnce)); // by the hand-over, without polling
    QVERIFY(waiterSpies.failed.isEmpty());
    QVERIFY(heldSpies.lost.isEmpty());
}

/// The error is reported and causes few attempts to connect; the locks recover when the password is right again.
void tst_Reconnect::passwordWrongForLong()
{
    RedisServer::Options serverOptions;
    serverOptions.users = {"u5er on >right ~* &* +@all"};
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setUserName(u"u5er"_s);
    url.setPassword(u"right"_s);
    LogCapture log;
    LockRegistry registry(url);
    DistributedLock held(&registry, u"held"_s);
    held.setOptions(options(30s));
    Spies spies(&held);
    QVERIFY(acquireNow(&held));
    QVERIFY(eventually([&] { return server.channels().size() == 1; }));

    server.command({"ACL", "SETUSER", "u5er", "resetpass", ">wrong"});
    const qint64 before = proxy.connectionsAccepted();
    server.command({"CLIENT", "KILL", "USER", "u5er"});
    QVERIFY(!eventually([&] { return spies.lost.size() > 0; }, 6s));
    const qint64 connects = proxy.connectionsAccepted() - before;
    // Each of the two connections connects at once, and after about 1, 2 and 4 s.
    QVERIFY2(connects >= 4 && connects <= 10, qPrintable(QString::number(connects)));
    QCOMPARE(spies.errors.size(), 1);
    QCOMPARE(registry.error(), DistributedLock::AuthenticationError);
    const qsizetype warnings = log.count({u"WRONGPASS"_s, u"Trying again"_s});
    QVERIFY2(warnings <= 2, qPrintable(log.text()));

    server.command({"ACL", "SETUSER", "u5er", "resetpass", ">right"});
    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Ready && server.channels().size() == 1; }, 15s));
    QVERIFY(held.isHeld());
    QVERIFY(spies.lost.isEmpty());
}

/// Without a held or waiting lock the client does not reconnect.
void tst_Reconnect::noAttemptsWithoutNeed()
{
    RedisServer::Options serverOptions;
    serverOptions.users = {"u5er on >right ~* &* +@all"};
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setUserName(u"u5er"_s);
    url.setPassword(u"right"_s);
    LockRegistry registry(url);
    DistributedLock lock(&registry, u"held"_s);
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

/// An acquire before the first successful login fails at once.
void tst_Reconnect::beginsWithTheWrongPassword()
{
    RedisServer::Options serverOptions;
    serverOptions.password = "right";
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    FaultProxy proxy(server);
    QUrl url = proxy.url();
    url.setPassword(u"wrong"_s);
    LockRegistry registry(url);
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options(2s, LockOptions::Forever));
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }, AtOnce));
    QCOMPARE(spies.failure(), DistributedLock::AuthenticationError);
    // No lock needs the server any more.
    QVERIFY(!eventually([&] { return proxy.connectionsAccepted() > 1; }, 3s));
    QCOMPARE(registry.state(), LockRegistry::Disconnected);
}

QTEST_GUILESS_MAIN(tst_Reconnect)
#include "tst_reconnect.moc"
