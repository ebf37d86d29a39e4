// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What LockMetrics counts, in each form in which a lock is acquired; a foreign program reads the text. After each
// function, a LockObserver has heard of exactly what was counted.

#include "support/locktest.h"

#include "support/eventsums.h"
#include "support/openmetrics.h"
#include "support/registrytime.h"

#include "lock/distributedlock_p.h"

#include <QDistLock/Annotations>
#include <QDistLock/LockMetrics>
#include <QDistLock/MultiLock>
#include <QDistLock/ReadWriteLock>
#include <QDistLock/ScopedLock>
#include <QDistLock/Semaphore>

#include <QtCore/qrandom.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

using QDistLock::DistributedLockPrivate;
using QDistLock::LeaseMachine;
using QDistLock::LockHistogram;
using QDistLock::LockStatistics;
using QDistLock::MultiLock;
using QDistLock::ReadWriteLock;
using QDistLock::ScopedLock;
using QDistLock::Semaphore;

namespace LockMetrics = QDistLock::LockMetrics;

namespace {

/// The statistics of \a group, which are all 0 if there is no such group.
LockStatistics in(const QString &group)
{
    const QList<LockStatistics> groups = LockMetrics::snapshot();
    for (const LockStatistics &statistics : groups) {
        if (statistics.group == group)
            return statistics;
    }
    return {};
}

/// Whether the numbers of \a group agree with each other, as they must whenever no lock is changing.
bool isBalanced(const LockStatistics &group)
{
    return group.acquired == group.released + group.lost() + quint64(group.held) && group.acquired == group.wait.count()
            && group.hold.count() == group.released + group.lost() && group.contended <= group.acquired;
}

bool areBalanced()
{
    return all(LockMetrics::snapshot(), isBalanced);
}

} // namespace

class Shipping : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(ship, "shipping-order:{id}")
    QDL_LOCKED_METHOD(pack, "packing-order:{id}", "label=packing")

public:
    int runs = 0;

Q_SIGNALS:
    void ordered();

public Q_SLOTS:
    void ship(int id)
    {
        Q_UNUSED(id)
        ++runs;
    }
    void pack(int id)
    {
        Q_UNUSED(id)
        ++runs;
    }
};

class tst_LockMetrics : public RedisAndMemoryTest
{
    Q_OBJECT
private Q_SLOTS:
    void init();
    void cleanup();

    void holds();
    void contention();
    void failures();
    void durations();
    void renewals();
    void losses_data();
    void losses();
    void leaseExpires();
    void destroyedWhileHeld();
    void destroyedWhileWaiting();
    void destroyedRegistry();
    void detached();
    void upgrade();
    void severalLocks();
    void severalLocksDestroyedWhileWaiting();
    void scopes();
    void annotatedSlots();
    void permits();

    void groups_data();
    void groups();
    void label();
    void labelsOfPendingAcquires();
    void grouping();
    void nameChanges();
    void anyOrder();
    void reset();
    void text();
    void textOfOddNames();
    void threads();
    void manyGroups(); // the last one: later groups are counted in "other"

private:
    void resetAll();

    std::shared_ptr<EventSums> m_sums;
};

void tst_LockMetrics::init()
{
    RedisAndMemoryTest::init();
    resetAll();
}

void tst_LockMetrics::resetAll()
{
    if (m_sums)
        QDistLock::LockObserver::remove(m_sums.get());
    LockMetrics::reset();
    m_sums = EventSums::installed();
}

void tst_LockMetrics::cleanup()
{
    LockMetrics::setGrouping(nullptr);
    RedisAndMemoryTest::cleanup();
    // The library's own thread may still release something.
    const auto isIdle = [](const LockStatistics &group) { return group.held == 0 && group.waiting == 0; };
    QVERIFY(eventually([&] { return areBalanced() && all(LockMetrics::snapshot(), isIdle); }));
    eventually([this] { return m_sums->differences().isEmpty(); });
    QCOMPARE(m_sums->differences(), QStringList());
}

void tst_LockMetrics::holds()
{
    TestLock lock(registry(), u"a"_s);
    QCOMPARE(in(u"a"_s).acquired, 0U);
    QVERIFY(acquireNow(&lock));
    lock.acquire(); // one more level
    QVERIFY(eventually([&] { return lock.holdCount() == 2; }));
    QCOMPARE(in(u"a"_s).acquired, 1U);
    QCOMPARE(in(u"a"_s).held, 1);
    lock.release();
    QCOMPARE(in(u"a"_s).held, 1);
    QVERIFY(releaseNow(&lock));
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));

    const LockStatistics group = in(u"a"_s);
    QCOMPARE(group.acquired, 2U);
    QCOMPARE(group.released, 2U);
    QCOMPARE(group.contended, 0U);
    QCOMPARE(group.failed(), 0U);
    QCOMPARE(group.lost(), 0U);
    QCOMPARE(group.held, 0);
    QCOMPARE(group.waiting, 0);
}

void tst_LockMetrics::contention()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"a"_s);
    TestLock waiter(registry(), u"a"_s);
    QVERIFY(acquireNow(&holder));
    QVERIFY(joinQueue(&waiter));
    QCOMPARE(in(u"a"_s).held, 1);
    QCOMPARE(in(u"a"_s).waiting, 1);
    QCOMPARE(in(u"a"_s).acquired, 1U);

    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
    QCOMPARE(in(u"a"_s).acquired, 2U);
    QCOMPARE(in(u"a"_s).contended, 1U);
    QCOMPARE(in(u"a"_s).held, 1);
    QCOMPARE(in(u"a"_s).waiting, 0);
}

void tst_LockMetrics::failures()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"taken"_s, options(LongLease)); // also by the clock of the lock that is too late
    QVERIFY(acquireNow(&holder));
    const auto failed = [](const QString &group) {
        const LockStatistics statistics = in(group);
        return QList<quint64>{statistics.busy, statistics.timedOut, statistics.cancelled, statistics.errors};
    };
    using Failed = QList<quint64>;

    TestLock busy(registry(), u"taken"_s, options().withWait(0ms).withLabel(u"busy"_s));
    QCOMPARE(failureNow(&busy), DistributedLock::BusyError);
    QCOMPARE(failed(u"busy"_s), Failed({1, 0, 0, 0}));

    StillRegistry still(serverUrl());
    TestLock late(&still, u"taken"_s, options().withLabel(u"late"_s));
    QVERIFY(joinQueue(&late));
    still.pass(61s);
    QVERIFY(eventually([&] { return late.spies.failed.size() == 1; }));
    QCOMPARE(failed(u"late"_s), Failed({0, 1, 0, 0}));

    TestLock cancelled(registry(), u"taken"_s, options().withLabel(u"cancelled"_s));
    QVERIFY(joinQueue(&cancelled));
    cancelled.acquire(); // both acquires end
    cancelled.cancel();
    QCOMPARE(failed(u"cancelled"_s), Failed({0, 0, 2, 0}));

    TestLock badOptions(registry(), u"free"_s, options(1ms).withLabel(u"bad options"_s));
    QCOMPARE(failureNow(&badOptions), DistributedLock::OptionsError);
    QCOMPARE(failed(u"bad options"_s), Failed({0, 0, 0, 1}));
    TestLock noName(registry(), QString());
    QCOMPARE(failureNow(&noName), DistributedLock::NameError);
    QCOMPARE(failed(QString()), Failed({0, 0, 0, 1}));

    QVERIFY(all(LockMetrics::snapshot(), [](const LockStatistics &group) { return group.waiting == 0; }));
    QCOMPARE(in(u"taken"_s).failed(), 0U); // that of the holder, which has no label
}

void tst_LockMetrics::durations()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"a"_s, options().withLabel(u"holder"_s));
    QVERIFY(acquireNow(&holder));
    StillRegistry still(serverUrl());
    TestLock lock(&still, u"a"_s, options(24h, 24h).withAutoRenew(false));
    QVERIFY(joinQueue(&lock));
    still.advance(7s);
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    const LockHistogram wait = in(u"a"_s).wait;
    QCOMPARE(wait.count(), 1U);
    QCOMPARE(wait.counts.at(6), 1U); // up to 10 s
    QCOMPARE(wait.sum, 7s);

    still.advance(100ms);
    QVERIFY(releaseNow(&lock));
    for (const milliseconds time : {101ms, milliseconds(10min)}) {
        QVERIFY(acquireNow(&lock));
        still.advance(time);
        QVERIFY(releaseNow(&lock));
    }
    QCOMPARE(in(u"a"_s).wait.sum, 7s); // nothing more
    const LockHistogram hold = in(u"a"_s).hold;
    QCOMPARE(hold.count(), 3U);
    QCOMPARE(hold.counts.at(3), 1U); // up to 100 ms
    QCOMPARE(hold.counts.at(4), 1U);
    QCOMPARE(hold.counts.back(), 1U);
    QCOMPARE(hold.sum, 10min + 201ms);

    QVERIFY(acquireNow(&lock));
    lock.release();
    lock.acquire(); // behind the release
    still.advance(2s);
    lock.acquire(); // joins the first one
    still.advance(3s);
    QVERIFY(eventually([&] { return lock.holdCount() == 2; }));
    QCOMPARE(in(u"a"_s).wait.sum, 12s);
    QCOMPARE(in(u"a"_s).wait.counts.at(6), 2U);
}

void tst_LockMetrics::renewals()
{
    StillRegistry still(serverUrl());
    TestLock lock(&still, u"a"_s, options(Outlasting));
    QVERIFY(acquireNow(&lock));
    still.pass(Outlasting / 2);
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    QCOMPARE(in(u"a"_s).renewed, 1U);
    QCOMPARE(in(u"a"_s).atRisk, 0U);

    lock.setAutoRenew(false);
    still.pass(Outlasting * 7 / 10);
    QVERIFY(eventually([&] { return lock.spies.atRisk.size() == 1; }));
    QCOMPARE(in(u"a"_s).renewed, 1U);
    QCOMPARE(in(u"a"_s).atRisk, 1U);
}

void tst_LockMetrics::losses_data()
{
    addRows<DistributedLock::LossReason>("reason",
                                         {{"stolen", DistributedLock::Stolen},
                                          {"deleted", DistributedLock::Deleted},
                                          {"forced release", DistributedLock::ForcedRelease}});
}

void tst_LockMetrics::losses()
{
    QFETCH(DistributedLock::LossReason, reason);
    SKIP_WITHOUT_SERVER();
    StillRegistry still(serverUrl());
    TestLock lock(&still, u"a"_s, options(Outlasting));
    QVERIFY(acquireNow(&lock));
    if (reason == DistributedLock::Stolen) {
        m_server.command({"SET", "lock:a", "somebody"});
    } else if (reason == DistributedLock::Deleted) {
        m_server.command({"DEL", "lock:a"});
    } else {
        QVERIFY(eventually([&] { return isListening(&still); }));
        QVERIFY(endByForce(serverUrl(), u"a"_s));
    }
    if (reason != DistributedLock::ForcedRelease) // of which a message arrives
        still.pass(Outlasting / 2);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), reason);

    const LockStatistics group = in(u"a"_s);
    QCOMPARE(group.stolen, quint64(reason == DistributedLock::Stolen));
    QCOMPARE(group.deleted, quint64(reason == DistributedLock::Deleted));
    QCOMPARE(group.forcedReleases, quint64(reason == DistributedLock::ForcedRelease));
    QCOMPARE(group.lost(), 1U);
    QCOMPARE(group.released, 0U);
    QCOMPARE(group.held, 0);
    QCOMPARE(group.hold.count(), 1U);
}

void tst_LockMetrics::leaseExpires()
{
    StillRegistry still(serverUrl());
    TestLock lock(&still, u"a"_s, options(1min).withAutoRenew(false));
    QVERIFY(acquireNow(&lock));
    still.pass(1min);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(in(u"a"_s).leaseExpired, 1U);
    QCOMPARE(in(u"a"_s).lost(), 1U);
    QCOMPARE(in(u"a"_s).held, 0);
}

void tst_LockMetrics::destroyedWhileHeld()
{
    {
        TestLock lock(registry(), u"a"_s);
        QVERIFY(acquireNow(&lock));
    }
    QCOMPARE(in(u"a"_s).released, 1U);
    QCOMPARE(in(u"a"_s).lost(), 0U);
    QCOMPARE(in(u"a"_s).held, 0);

    StillRegistry still(serverUrl());
    {
        TestLock lock(&still, u"a"_s, options(1min));
        QVERIFY(acquireNow(&lock));
        still.advance(1min); // its lease has ended, and nobody has noticed yet
    }
    QCOMPARE(in(u"a"_s).released, 1U);
    QCOMPARE(in(u"a"_s).leaseExpired, 1U);
    QCOMPARE(in(u"a"_s).held, 0);
}

void tst_LockMetrics::destroyedWhileWaiting()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"a"_s);
    QVERIFY(acquireNow(&holder));
    {
        TestLock waiter(registry(), u"a"_s);
        QVERIFY(joinQueue(&waiter));
        QCOMPARE(in(u"a"_s).waiting, 1);
    }
    QCOMPARE(in(u"a"_s).cancelled, 1U);
    QCOMPARE(in(u"a"_s).failed(), 1U);
    QCOMPARE(in(u"a"_s).waiting, 0);
}

void tst_LockMetrics::destroyedRegistry()
{
    auto gone = std::make_unique<LockRegistry>(serverUrl());
    TestLock lock(gone.get(), u"a"_s);
    TestLock waiter(gone.get(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(joinQueue(&waiter));
    gone.reset(); // the application hears of a loss, and of a connection that has failed
    QCOMPARE(in(u"a"_s).forcedReleases, 1U);
    QCOMPARE(in(u"a"_s).errors, 1U);
    QCOMPARE(in(u"a"_s).held, 0);
    QCOMPARE(in(u"a"_s).waiting, 0);
}

void tst_LockMetrics::detached()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(!lock.detach().isEmpty());
    QCOMPARE(in(u"a"_s).released, 1U);
    QCOMPARE(in(u"a"_s).held, 0);
}

void tst_LockMetrics::upgrade()
{
    StillRegistry still(serverUrl());
    ReadWriteLock lock(&still, u"a"_s);
    lock.readLock()->setOptions(options());
    lock.writeLock()->setOptions(options());
    QVERIFY(acquireNow(lock.readLock()));
    QCOMPARE(awaited(lock.tryUpgrade()).error, DistributedLock::NoError);
    QCOMPARE(in(u"a"_s).acquired, 2U);
    QCOMPARE(in(u"a"_s).released, 1U);
    QCOMPARE(in(u"a"_s).held, 1);
    QCOMPARE(in(u"a"_s).wait.sum, 0ns);
    QVERIFY(releaseNow(lock.writeLock()));
    QCOMPARE(in(u"a"_s).released, 2U);
}

void tst_LockMetrics::severalLocks()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s, options().withLabel(u"holder"_s));
    QVERIFY(acquireNow(&holder));
    MultiLock lock(registry(), {u"a"_s, u"b"_s, u"c"_s});
    lock.setOptions(options());

    QCOMPARE(awaited(lock.tryAcquireAsync()).error, DistributedLock::BusyError);
    QCOMPARE(in(u"b"_s).busy, 1U); // one acquire, although none of the three was got
    QCOMPARE(in(u"a"_s).failed() + in(u"b"_s).failed() + in(u"c"_s).failed(), 1U);

    const auto acquired = lock.acquireAsync();
    QVERIFY(eventually([&] { return in(u"b"_s).waiting == 1 && in(u"a"_s).held == 1; }));
    QVERIFY(releaseNow(&holder));
    QCOMPARE(awaited(acquired).error, DistributedLock::NoError);
    QCOMPARE(in(u"a"_s).held + in(u"b"_s).held + in(u"c"_s).held, 3);
    QCOMPARE(in(u"b"_s).contended, 1U);
    QCOMPARE(in(u"a"_s).contended + in(u"c"_s).contended, 0U);
    QVERIFY(awaited(lock.releaseAsync()));
    QCOMPARE(in(u"a"_s).failed() + in(u"b"_s).failed() + in(u"c"_s).failed(), 1U);
}

void tst_LockMetrics::severalLocksDestroyedWhileWaiting()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    {
        MultiLock lock(registry(), {u"a"_s, u"b"_s});
        lock.setOptions(options().withLabel(u"both"_s));
        lock.acquire();
        QVERIFY(eventually([&] { return in(u"both"_s).waiting == 1 && in(u"both"_s).held == 1; }));
    }
    QCOMPARE(in(u"both"_s).cancelled, 1U);
    QCOMPARE(in(u"both"_s).failed(), 1U);
    QCOMPARE(in(u"both"_s).held, 0);
    QCOMPARE(in(u"both"_s).waiting, 0);
    QCOMPARE(in(u"b"_s).failed(), 0U);
}

void tst_LockMetrics::scopes()
{
    {
        const ScopedLock lock(QDistLock::LockAddress(u"scope:1"_s).withServer(serverUrl()),
                              options().withLabel(u"scope"_s));
        QVERIFY(lock.isHeld());
        QCOMPARE(in(u"scope"_s).held, 1);
    }
    QVERIFY(eventually([] { return in(u"scope"_s).released == 1; }));
    QCOMPARE(in(u"scope:*"_s).acquired, 0U);
}

void tst_LockMetrics::annotatedSlots()
{
    LockRegistry::setDefaultServer(serverUrl());
    const auto restore = qScopeGuard([] { LockRegistry::setDefaultServer(QUrl()); });
    Shipping shipping;
    for (const int id : {17, 18})
        QDistLock::invokeLocked(&shipping, "ship", id);
    QDistLock::invokeLocked(&shipping, "pack", 17);
    QVERIFY(eventually([&] { return shipping.runs == 3; }));
    for (const int id : {17, 18}) {
        // The application has put the number into the key: for the library, these are two different keys.
        QVERIFY(QDistLock::connectLocked(
                &shipping, &Shipping::ordered, &shipping, [&] { ++shipping.runs; },
                u"delivery:"_s + QDistLock::keyText(id)));
    }
    Q_EMIT shipping.ordered();
    QVERIFY(eventually([&] { return in(u"delivery:*"_s).released == 2; }));
    QVERIFY(eventually([] { return in(u"shipping-order:{id}"_s).released == 2 && in(u"packing"_s).released == 1; }));
    QCOMPARE(in(u"shipping-order:*"_s).acquired, 0U);
    QCOMPARE(in(u"packing-order:{id}"_s).acquired, 0U);
}

void tst_LockMetrics::permits()
{
    Semaphore first(registry(), u"jobs"_s, 2), second(registry(), u"jobs"_s, 2);
    for (Semaphore *const semaphore : {&first, &second})
        QVERIFY(acquireNow(semaphore));
    QCOMPARE(in(u"jobs"_s).held, 2);
    QCOMPARE(in(u"jobs"_s).contended, 0U);
}

void tst_LockMetrics::groups_data()
{
    addColumns<QString, QString>("name", "group");
    const auto row = [](const char *name, const char *group) {
        QTest::newRow(name) << QString::fromUtf8(name) << QString::fromUtf8(group);
    };
    row("nightly-report", "nightly-report");
    row("order:17", "order:*");
    row("order:17:ship", "order:*");
    row("17", "*");
    row("worker12", "worker*");
    row("{user1000}.cart", "{user*");
    row("e2e-test", "e*");
    row("session:3f2b8c1e-9d4a-4a52-8a57-2f0c6be6f9d1", "session:*");
    row("session:deadbe7f-9d4a-4a52-8a57-2f0c6be6f9d1", "session:*");
    row("commit/abcdef1", "commit/*");
    row("Straße 7", "Straße *");
    row("Straße7", "Straße*");
    row("9", "*");
    row("session:deadbeef-fade-4a52-8a57-2f0c6be6f9d1", "session:*");
    row("facade", "facade");
    row("effaced", "*");
    row("0123456789012345678901234567890123456789012345678901234567890123456789", "*");
}

void tst_LockMetrics::groups()
{
    QFETCH(QString, name);
    QFETCH(QString, group);
    QCOMPARE(LockMetrics::groupOf(name), group);
    TestLock lock(registry(), name);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(in(group).held, 1);
}

void tst_LockMetrics::label()
{
    TestLock lock(registry(), u"order:17"_s, options().withLabel(u"orders"_s));
    QVERIFY(acquireNow(&lock));
    lock.setOptions(options().withLabel(u"renamed"_s)); // for the next acquire
    QVERIFY(releaseNow(&lock));
    QCOMPARE(in(u"orders"_s).released, 1U);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(in(u"orders"_s).held, 0);
    QCOMPARE(in(u"renamed"_s).held, 1);
    QCOMPARE(in(u"order:*"_s).acquired, 0U);

    LockRegistry other(serverUrl());
    TestLock waiter(&other, u"order:17"_s, options().withLabel(u"first"_s));
    QVERIFY(joinQueue(&waiter));
    waiter.setOptions(options().withLabel(u"second"_s));
    waiter.acquire(); // joins the first acquire
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return waiter.holdCount() == 2; }));
    QCOMPARE(in(u"first"_s).held, 1);
    QCOMPARE(in(u"second"_s).acquired, 0U);

    TestLock longLabel(registry(), u"long"_s, options().withLabel(QString(1000, u'x')));
    QVERIFY(acquireNow(&longLabel));
    QCOMPARE(in(QString(64, u'x')).held, 1);
    QCOMPARE(LockMetrics::groupOf(QString(63, u'x') + u"\U0001f512"_s), QString(63, u'x'));
}

/// Each acquire is counted with the label that it was made with, whatever was set since.
void tst_LockMetrics::labelsOfPendingAcquires()
{
    TestLock lock(registry(), u"a"_s, options().withLabel(u"one"_s));
    QVERIFY(acquireNow(&lock));
    lock.release();
    lock.setOptions(options().withLabel(u"two"_s));
    lock.acquire(); // behind the release
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
    QCOMPARE(in(u"one"_s).released, 1U);
    QCOMPARE(in(u"one"_s).acquired, 1U);
    QCOMPARE(in(u"two"_s).acquired, 1U);
    QCOMPARE(in(u"two"_s).held, 1);

    StillRegistry still(serverUrl());
    TestLock waiter(&still, u"a"_s, options().withLabel(u"three"_s));
    QVERIFY(joinQueue(&waiter));
    waiter.setOptions(options(1ms).withLabel(u"refused"_s));
    QCOMPARE(failureNow(&waiter), DistributedLock::OptionsError);
    QCOMPARE(in(u"refused"_s).errors, 1U);
    QCOMPARE(in(u"three"_s).waiting, 1);
    waiter.setOptions(options().withLabel(u"four"_s));
    still.advance(61s);
    waiter.acquire(); // the first one has timed out
    QCOMPARE(in(u"three"_s).timedOut, 1U);
    QCOMPARE(in(u"three"_s).waiting, 0);
    QCOMPARE(in(u"four"_s).waiting, 1);
    QCOMPARE(in(u"four"_s).timedOut, 0U);

    MultiLock several(registry(), {u"c"_s, u"d"_s});
    several.setOptions(options(1ms).withLabel(u"several"_s));
    QCOMPARE(failureNow(&several), DistributedLock::OptionsError);
    QCOMPARE(in(u"several"_s).errors, 1U);
    QCOMPARE(in(u"c"_s).errors + in(u"d"_s).errors, 0U);
}

void tst_LockMetrics::grouping()
{
    TestLock lock(registry(), u"order:17"_s, options().withLabel(u"label"_s));
    QVERIFY(acquireNow(&lock));
    LockMetrics::setGrouping([](const QString &name, const QString &label) {
        return name == u"none"_s ? QString() : name + u'/' + label;
    });
    QVERIFY(releaseNow(&lock)); // where it was acquired
    QCOMPARE(in(u"label"_s).released, 1U);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(in(u"order:17/label"_s).held, 1);
    TestLock usual(registry(), u"none"_s, options().withLabel(u"usual"_s));
    QVERIFY(acquireNow(&usual));
    QCOMPARE(in(u"usual"_s).held, 1);

    LockMetrics::setGrouping(nullptr);
    QVERIFY(releaseNow(&lock));
    QVERIFY(acquireNow(&lock));
    QCOMPARE(in(u"order:17/label"_s).held, 0);
    QCOMPARE(in(u"label"_s).held, 1);
}

void tst_LockMetrics::nameChanges()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    lock.setName(u"b"_s);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(in(u"a"_s).held, 0);
    QCOMPARE(in(u"b"_s).held, 1);
}

/// Whatever is done with locks, in which order, the numbers agree with the states of the locks.
void tst_LockMetrics::anyOrder()
{
    StillRegistry still(serverUrl());
    std::vector<std::unique_ptr<DistributedLock>> locks(6);
    std::unique_ptr<MultiLock> several;
    QRandomGenerator random(36);
    const auto label = [&random] { return QString(1, QChar(u'A' + random.bounded(3))); };
    const auto perform = [&](std::unique_ptr<DistributedLock> *lock) {
        const LockOptions own = options(1min, milliseconds(random.bounded(3) * 60'000))
                                        .withLabel(label())
                                        .withAutoRenew(random.bounded(2) == 0);
        if (!*lock)
            *lock = std::make_unique<DistributedLock>(&still, u"a"_s);
        switch (random.bounded(12)) {
        case 0:
        case 1:
        case 2:
            (*lock)->setOptions(own);
            return (*lock)->acquire();
        case 3:
            return (*lock)->tryAcquire();
        case 4:
        case 5:
        case 6:
            return (*lock)->release();
        case 7:
            return (*lock)->cancel();
        case 8:
            (*lock)->setName(QString(1, QChar(u'a' + random.bounded(3))));
            return;
        case 9:
        case 10:
            if (const QByteArray token = (*lock)->detach(); !token.isEmpty())
                still.release((*lock)->name(), token);
            return;
        default:
            lock->reset();
        }
    };
    const LogCapture log; // of releases of what is not held, and of losses
    const auto isVaried = [] {
        const LockStatistics group = in(u"A"_s);
        return group.released > 0 && group.lost() > 0 && group.contended > 0 && group.cancelled > 0 && group.busy > 0
                && in(u"D"_s).released > 0;
    };
    for (int i = 0; i < 3000 || (i < 100'000 && !isVaried()); ++i) {
        perform(&locks.at(size_t(random.bounded(int(locks.size())))));
        if (!several || i % 97 == 0) {
            several = std::make_unique<MultiLock>(&still, QStringList{u"a"_s, u"b"_s});
            several->setOptions(options(1min).withLabel(u"D"_s));
        }
        if (i % 7 == 0)
            random.bounded(2) == 0 ? several->acquire() : several->tryAcquire();
        else if (i % 11 == 0)
            random.bounded(2) == 0 ? several->release() : several->cancel();
        if (random.bounded(20) == 0)
            still.pass(milliseconds(random.bounded(100'000)));
        if (random.bounded(3) == 0)
            processEvents();
        if (random.bounded(5) == 0)
            awaited(still.inspect(u"a"_s)); // the server has replied to what was sent before
        QVERIFY2(areBalanced(), qPrintable(QString::number(i)));

        int held = 0, waiting = 0;
        const auto add = [&](const DistributedLock *lock) {
            const auto phase = DistributedLockPrivate::get(lock)->machine.phase();
            held += phase == LeaseMachine::Held || phase == LeaseMachine::Releasing ? 1 : 0;
            waiting += phase == LeaseMachine::Acquiring ? 1 : 0;
        };
        for (const auto &lock : locks) {
            if (lock)
                add(lock.get());
        }
        for (const auto *const member : several->findChildren<DistributedLock *>())
            add(member);
        int countedHeld = 0, countedWaiting = 0;
        const auto groups = LockMetrics::snapshot();
        for (const LockStatistics &group : groups) {
            countedHeld += group.held;
            countedWaiting += group.waiting;
        }
        QVERIFY2(countedHeld == held && countedWaiting == waiting, qPrintable(QString::number(i)));
    }
    QVERIFY(isVaried());
}

void tst_LockMetrics::reset()
{
    TestLock lock(registry(), u"nightly-report"_s);
    QVERIFY(acquireNow(&lock));
    resetAll();
    QCOMPARE(in(u"nightly-report"_s).acquired, 0U);
    QCOMPARE(in(u"nightly-report"_s).held, 1);
    QVERIFY(releaseNow(&lock));
    QCOMPARE(in(u"nightly-report"_s).released, 1U);
    resetAll();
    QVERIFY(LockMetrics::snapshot().isEmpty());
}

void tst_LockMetrics::text()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"a"_s);
    StillRegistry still(serverUrl());
    TestLock lock(&still, u"a"_s, options(24h, 24h).withAutoRenew(false));
    QVERIFY(acquireNow(&holder));
    QVERIFY(joinQueue(&lock));
    still.advance(7s);
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    TestLock busy(registry(), u"a"_s, options().withWait(0ms));
    QCOMPARE(failureNow(&busy), DistributedLock::BusyError);
    QVERIFY(joinQueue(&holder));

    QCOMPARE(LockMetrics::openMetricsContentType(), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    const QJsonObject samples = readOpenMetrics(LockMetrics::openMetricsText());
    const auto value = [&](const char *name, const char *label = "") {
        return samples.value(QLatin1String(name) + u"{group=a"_s + QLatin1String(label) + u'}').toDouble(-1);
    };
    const LockStatistics group = in(u"a"_s);
    QCOMPARE(value("qdistlock_acquired_total"), 2.);
    QCOMPARE(value("qdistlock_contended_total"), 1.);
    QCOMPARE(value("qdistlock_released_total"), 1.);
    QCOMPARE(value("qdistlock_failed_total", ",reason=busy"), 1.);
    for (const char *const reason : {",reason=timeout", ",reason=cancelled", ",reason=error"})
        QCOMPARE(value("qdistlock_failed_total", reason), 0.);
    for (const char *const reason :
         {",reason=lease_expired", ",reason=stolen", ",reason=deleted", ",reason=forced_release"})
        QCOMPARE(value("qdistlock_lost_total", reason), 0.);
    QCOMPARE(value("qdistlock_renewed_total"), double(group.renewed));
    QCOMPARE(value("qdistlock_at_risk_total"), 0.);
    QCOMPARE(value("qdistlock_held"), 1.);
    QCOMPARE(value("qdistlock_waiting"), 1.);

    QCOMPARE(value("qdistlock_acquire_wait_seconds_count"), 2.);
    QCOMPARE(value("qdistlock_acquire_wait_seconds_sum"), std::chrono::duration<double>(group.wait.sum).count());
    QCOMPARE(value("qdistlock_acquire_wait_seconds_bucket", ",le=2.5"), 1.);
    QCOMPARE(value("qdistlock_acquire_wait_seconds_bucket", ",le=10.0"), 2.);
    QCOMPARE(value("qdistlock_acquire_wait_seconds_bucket", ",le=+Inf"), 2.);
    QCOMPARE(value("qdistlock_hold_seconds_count"), 1.);
    QCOMPARE(samples.size(), 2 * 11 + 3 + 4 + 4 + 2 + 2);
}

void tst_LockMetrics::textOfOddNames()
{
    const QStringList names{u"quote\"backslash\\line\nend"_s,
                            u"brace}comma,equals="_s,
                            u"\u00e4\U0001f512"_s,
                            QString(QChar(0xdcff)),
                            u"x"_s + QChar(0xdcfe),
                            u"other"_s,
                            QString()};
    LockMetrics::setGrouping([](const QString &name, const QString &) { return name; });
    DistributedLock lock(registry(), QString());
    lock.setOptions(options(1ms));
    for (const QString &name : names) {
        lock.setName(name);
        lock.acquire();
    }
    processEvents();
    const QJsonObject samples = readOpenMetrics(LockMetrics::openMetricsText());
    for (const QString &name : names.first(3))
        QCOMPARE(samples.value(u"qdistlock_failed_total{group=%1,reason=error}"_s.arg(name)).toDouble(), 1.);
    QCOMPARE(samples.size(), names.size() * (2 * 11 + 3 + 4 + 4 + 2 + 2));
    resetAll();
    QVERIFY(readOpenMetrics(LockMetrics::openMetricsText()) == QJsonObject());
    QVERIFY(LockMetrics::openMetricsText().endsWith("\n# EOF\n"));
}

void tst_LockMetrics::threads()
{
    constexpr int threads = 4;
    constexpr int rounds = 200;
    std::atomic<int> working = threads;
    std::vector<std::unique_ptr<QThread>> workers;
    for (int i = 0; i < threads; ++i) {
        workers.emplace_back(QThread::create([server = serverUrl(), i, &working] {
            LockRegistry own(server);
            for (int round = 0; round < rounds; ++round) {
                TestLock lock(&own, u"%1 of thread %2"_s.arg(round % 3).arg(i), options().withLabel(u"threads"_s));
                if (acquireNow(&lock))
                    releaseNow(&lock);
            }
            --working;
        }));
        workers.back()->start();
    }
    bool isPlausible = true;
    while (working > 0) {
        const LockStatistics group = in(u"threads"_s);
        isPlausible = isPlausible && group.held <= threads && group.waiting <= threads;
        LockMetrics::openMetricsText();
        LockMetrics::setGrouping(nullptr);
        QThread::yieldCurrentThread();
    }
    for (const auto &worker : workers)
        worker->wait();
    QVERIFY(isPlausible);
    QCOMPARE(in(u"threads"_s).acquired, quint64(threads * rounds));
    QCOMPARE(in(u"threads"_s).released, quint64(threads * rounds));
}

void tst_LockMetrics::manyGroups()
{
    constexpr int count = 100'000;
    LockMetrics::setGrouping([](const QString &name, const QString &) { return u"many "_s + name; });
    DistributedLock lock(registry(), QString());
    lock.setOptions(options(1ms)); // refused at once, which is counted
    for (int i = 0; i < count; ++i) {
        lock.setName(QString::number(i));
        lock.acquire();
    }
    processEvents();
    const QList<LockStatistics> groups = LockMetrics::snapshot();
    quint64 failed = 0;
    for (const LockStatistics &group : groups)
        failed += group.errors;
    QCOMPARE(failed, quint64(count));
    QVERIFY2(groups.size() <= LockMetrics::MaximumGroups + 1, qPrintable(QString::number(groups.size())));
    QVERIFY(in(u"other"_s).errors >= quint64(count - LockMetrics::MaximumGroups));

    LockMetrics::setGrouping([](const QString &, const QString &) { return u"other"_s; });
    lock.acquire();
    processEvents();
    const auto after = LockMetrics::snapshot();
    QCOMPARE(std::count_if(after.begin(), after.end(), [](const auto &group) { return group.group == u"other"_s; }), 1);
}

QTEST_GUILESS_MAIN(tst_LockMetrics)
#include "tst_lockmetrics.moc"
