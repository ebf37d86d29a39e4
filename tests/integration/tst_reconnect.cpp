// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Failures that seem final and pass: the connections come back, and the locks with them.

#include "locktesting.h"

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

/// Room for a busy machine, far below the time after which a waiter looks by itself.
constexpr milliseconds AtOnce = 1s;

} // namespace

class tst_Reconnect : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void demoted_data();
    void demoted();
    void serverStoppedWhileWaiting();
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
    // Both notice, by renewing and by looking.
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

QTEST_GUILESS_MAIN(tst_Reconnect)
#include "tst_reconnect.moc"
