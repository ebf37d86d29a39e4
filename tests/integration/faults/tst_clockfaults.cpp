// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Wall clocks that jump: the server's and the client's.

#include "support/locktest.h"

#include "support/registrytime.h"
#include "support/shiftedclock.h"
#include "support/testkinds.h"
#include "support/testprogram.h"

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");

RedisServer::Options withClock(const ShiftedClock &clock)
{
    RedisServer::Options options;
    options.environment = clock.environment();
    return options;
}

qint64 secondsOf(RedisServer &server)
{
    return server.command({"TIME"}).toList().value(0).toLongLong();
}

} // namespace

class tst_ClockFaults : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void serverClockForward();
    void serverClockBackward();
    void orderWhileServerClockGoesBack();
    TIMING void clientClockJumps();
};

// The key expires at once. The holder learns of it with its next renewal; others can acquire immediately.
void tst_ClockFaults::serverClockForward()
{
    ShiftedClock clock;
    Started<RedisServer> server(withClock(clock));
    StillRegistry registry(server.url());
    TestLock lock(&registry, Name, options(30s));
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    const qint64 before = secondsOf(server);
    clock.shift(60s);
    QVERIFY(eventually([&] { return secondsOf(server) >= before + 60 && !server.exists(Key); }));
    registry.pass(10s); // a third of the lease, not all of it
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
    QVERIFY(server.pttl(Key) <= 30'000);
}

// The key outlives its lease. The next renewal corrects that; the key of a holder that died stays for longer.
void tst_ClockFaults::serverClockBackward()
{
    ShiftedClock clock;
    Started<RedisServer> server(withClock(clock));
    StillRegistry registry(server.url());
    TestLock lock(&registry, Name, options(30s));
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    const qint64 before = secondsOf(server);
    clock.shift(-120s);
    QVERIFY(eventually([&] { return secondsOf(server) <= before - 60; }));
    for (int i = 1; i <= 2; ++i) {
        registry.pass(10s);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == i; }));
    }
    QVERIFY(lock.spies.lost.isEmpty());
    QVERIFY(lock.isHeld());
    QVERIFY(server.pttl(Key) <= 30'000);

    // Fencing tokens rise although the server's time does not.
    QVERIFY(releaseNow(&lock));
    QVERIFY(!server.exists(Key));
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
    const qint64 second = lock.fencingToken();

    lock.release();
    QVERIFY(eventually([&] { return lock.spies.released.size() == 2; }));

    // The key of a dead holder stays for as long as the clock was set back.
    TestProgram holder(QStringLiteral(LOCKHOLDER), {server.url().toString(), Name, u"30000"_s});
    QVERIFY(holder.waitForOutput("acquired "));
    holder.kill();
    QVERIFY(holder.waitForEnd());
    clock.shift(-600s);
    QVERIFY(eventually([&] { return secondsOf(server) <= before - 500; }));
    lock.setWaitTime(1s);
    QVERIFY(joinQueue(&lock));
    registry.pass(1s);
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::TimeoutError);
    clock.shift(-80s);
    lock.setWaitTime(LockOptions::Forever);
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    QVERIFY(lock.fencingToken() > second);
}

// Waiters are served in their order of arrival, even if the server's clock is set back between them.
void tst_ClockFaults::orderWhileServerClockGoesBack()
{
    ShiftedClock clock;
    Started<RedisServer> server(withClock(clock));
    LockRegistry registry(server.url());
    TestLock holder(&registry, Name, options(10min));
    QVERIFY(acquireNow(&holder));

    std::vector<std::unique_ptr<LockRegistry>> registries;
    std::vector<std::unique_ptr<DistributedLock>> waiters;
    QList<int> served;
    qint64 last = holder.fencingToken();
    for (int i = 0; i < 4; ++i) {
        registries.push_back(std::make_unique<LockRegistry>(server.url()));
        waiters.push_back(
                std::make_unique<TestLock>(registries.back().get(), Name, options(10min, LockOptions::Forever)));
        DistributedLock *const waiter = waiters.back().get();
        QObject::connect(waiter, &DistributedLock::acquired, waiter, [&, waiter, i] {
            served.append(i);
            QVERIFY(waiter->fencingToken() > last);
            last = waiter->fencingToken();
            waiter->release();
        });
        if (i == 2) {
            const qint64 before = secondsOf(server);
            clock.shift(-120s);
            QVERIFY(eventually([&] { return secondsOf(server) <= before - 60; }));
        }
        waiter->acquire();
        QVERIFY(eventually([&] { return waiter->queuePosition() == i; }));
    }
    holder.release();
    QVERIFY(eventually([&] { return served.size() == 4; }));
    QCOMPARE(served, QList<int>({0, 1, 2, 3}));
}

// The wall clock of the holder's process has no effect.
void tst_ClockFaults::clientClockJumps()
{
    leavesRoomFor(250ms);
    Started<RedisServer> server;
    ShiftedClock clock;
    TestProgram holder;
    holder.setEnvironment(QProcess::systemEnvironment() + clock.environment());
    holder.start(QStringLiteral(LOCKHOLDER), {server.url().toString(), Name, u"450"_s});
    QVERIFY2(holder.waitForOutput("acquired "), holder.readAllStandardError().constData());
    const QByteArray token = server.get(Key);
    for (const milliseconds by : {3600'000ms, -3600'000ms, 0ms}) {
        clock.shift(by);
        // Enough renewals for two leases.
        for (int i = 0; i < 6; ++i) {
            QVERIFY(eventually([&] { return server.pttl(Key) < 350; }));
            QVERIFY(eventually([&] { return server.pttl(Key) > 400; }));
        }
        QCOMPARE(server.get(Key), token);
    }
    QVERIFY2(!holder.output().contains("lost"), holder.output().constData());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ClockFaults)
#include "tst_clockfaults.moc"
