// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A client of another make, with the plain commands of the Redis documentation, and this library exclude
// each other on the same key; with scripts, and without.

#include "support/locktest.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qprocess.h>
#include <QtCore/qregularexpression.h>

#include <thread>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

constexpr auto CompareAndDelete = "if redis.call('get',KEYS[1]) == ARGV[1] then "
                                  "return redis.call('del',KEYS[1]) else return 0 end";

} // namespace

class tst_Foreign : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase_data() { addRows<bool>("plain", {{"scripts", false}, {"plain", true}}); }
    void foreignHolderExcludesUs();
    void weExcludeForeignHolder();
    TIMING void weExcludeForeignHolderForLongerThanALease();
    void foreignReleaseCannotTouchOurs();
    void foreignHolderExpires();
    void foreignTokenIsNotShown();
    void counter();
    void timeStampIsADeadline_data();
    void timeStampIsADeadline();
    void passedTimeStampIsTakenOver_data();
    void passedTimeStampIsTakenOver();
    void waitersOutliveATimeStamp_data() { addRows<bool>("inSeconds", {{"ms", false}, {"seconds", true}}); }
    TIMING void waitersOutliveATimeStamp();
    void digitsThatAreNoDeadline_data();
    void digitsThatAreNoDeadline();
    void timeStampInTheError();
    void graceTimeIsShown();
    void oldClientDeletesOurs();
    void oldClientTakesOursAway();
    void oldClientAndWeAtOnce();

private:
    QUrl url() const
    {
        QFETCH_GLOBAL(bool, plain);
        QUrl url = m_server.url();
        if (plain)
            url.setQuery(u"scripts=off"_s);
        return url;
    }
    /// Whether the lock waits: in the queue if there are scripts.
    static bool isWaiting(const DistributedLock &lock)
    {
        QFETCH_GLOBAL(bool, plain);
        return plain ? lock.state() == DistributedLock::Acquiring : lock.queuePosition() == 0;
    }
    /// The server's time plus \a offset, as clients without a time to live write it: in ms, or in whole seconds.
    QByteArray stamp(milliseconds offset, bool inSeconds)
    {
        const QVariantList time = m_server.command({"TIME"}).toList();
        const qint64 now = time.value(0).toLongLong() * 1000 + time.value(1).toLongLong() / 1000;
        return QByteArray::number((now + offset.count()) / (inSeconds ? 1000 : 1));
    }
    /// Waits until \a registry is connected. A single attempt without a connection fails if the machine pauses.
    static bool connected(LockRegistry *registry)
    {
        DistributedLock lock(registry, u"connects"_s);
        lock.setOptions(options());
        if (!acquireNow(&lock))
            return false;
        const auto released = lock.releaseAsync();
        return eventually([&] { return released.isFinished(); });
    }
    /// To acquire a lock: scripts, or reads for a transaction.
    qint64 attempts()
    {
        const auto calls = m_server.commandCalls();
        return calls.value("evalsha") + calls.value("eval") + calls.value("watch");
    }
    QByteArray foreignAcquire(const QByteArray &token, int lease = 600000)
    {
        return m_server.cli({"SET", "lock:shared", token, "NX", "PX", QByteArray::number(lease)});
    }
    QByteArray foreignRelease(const QByteArray &token)
    {
        return m_server.cli({"EVAL", CompareAndDelete, "1", "lock:shared", token});
    }
};

void tst_Foreign::foreignHolderExcludesUs()
{
    QCOMPARE(foreignAcquire("theirs"), QByteArray("OK"));
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    TestLock lock(&registry, u"shared"_s);
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
    QCOMPARE(m_server.get("lock:shared"), QByteArray("theirs"));
    QVERIFY(m_server.pttl("lock:shared") > 300000); // not shortened either

    const auto info = awaited(registry.inspect(u"shared"_s));
    QVERIFY(info.held);
    QVERIFY(info.foreign);

    lock.acquire();
    processEvents();
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    QCOMPARE(foreignRelease("theirs"), QByteArray("1"));
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 1; }));
}

void tst_Foreign::weExcludeForeignHolder()
{
    LockRegistry registry(url());
    TestLock lock(&registry, u"shared"_s);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(foreignAcquire("theirs"), QByteArray());
    QVERIFY(releaseNow(&lock));
    QCOMPARE(foreignAcquire("theirs"), QByteArray("OK"));
}

void tst_Foreign::weExcludeForeignHolderForLongerThanALease()
{
    leavesRoomFor(1s);
    LockRegistry registry(url());
    TestLock lock(&registry, u"shared"_s, options(2s));
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return lock.spies.renewed.size() >= 3; }));
    QVERIFY(lock.spies.lost.isEmpty());
    QCOMPARE(foreignAcquire("theirs"), QByteArray());
}

void tst_Foreign::foreignReleaseCannotTouchOurs()
{
    LockRegistry registry(url());
    TestLock lock(&registry, u"shared"_s);
    QVERIFY(acquireNow(&lock));
    const QByteArray token = m_server.get("lock:shared");
    QCOMPARE(foreignRelease("theirs"), QByteArray("0"));
    QCOMPARE(m_server.get("lock:shared"), token);
    // The key is a plain string with a time to live, as theirs is: whoever knows the token can give it back.
    QCOMPARE(m_server.command({"TYPE", "lock:shared"}).toByteArray(), QByteArray("string"));
    QVERIFY(m_server.pttl("lock:shared") > 0);
    QCOMPARE(foreignRelease(token), QByteArray("1"));
}

void tst_Foreign::foreignHolderExpires()
{
    LockRegistry registry(url());
    TestLock lock(&registry, u"shared"_s, options().withRetryInterval(10s));
    QCOMPARE(foreignAcquire("theirs", 300), QByteArray("OK"));
    // Its time to live is known: no need to poll until then.
    const qint64 before = attempts();
    QVERIFY(acquireNow(&lock));
    QVERIFY2(attempts() - before <= 5, qPrintable(QString::number(attempts() - before)));
}

// Whoever knows it can release their lock.
void tst_Foreign::foreignTokenIsNotShown()
{
    QCOMPARE(foreignAcquire("theirs"), QByteArray("OK"));
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    const auto info = registry.inspect(u"shared"_s);
    const auto list = registry.list(u"*"_s);
    QVERIFY(eventually([&] { return info.isFinished() && list.isFinished(); }));
    QCOMPARE(list.result().value.size(), 1);
    for (const QDistLock::LockInfo &one : {info.result(), list.result().value.constFirst()}) {
        QVERIFY(one.held);
        QVERIFY(one.foreign);
        QCOMPARE(one.holder.id, QString());
    }
}

// Read-modify-write by both, unguarded but for the lock: no update is lost.
void tst_Foreign::counter()
{
    constexpr int rounds = 60;
    int foreignRounds = 0;
    std::thread foreign([&] {
        RespClient client;
        if (!client.connectToUnix(m_server.socketPath()))
            return;
        for (int i = 0; i < rounds; ++i) {
            const QByteArray token = "foreign" + QByteArray::number(i);
            while (client.command({"SET", "lock:shared", token, "NX", "PX", "60000"}).toByteArray() != "OK")
                std::this_thread::sleep_for(1ms); // as such clients do
            const int value = client.command({"GET", "counter"}).toByteArray().toInt();
            std::this_thread::sleep_for(200us); // an invitation to interleave
            client.command({"SET", "counter", QByteArray::number(value + 1)});
            foreignRounds += client.command({"EVAL", CompareAndDelete, "1", "lock:shared", token}).toInt();
        }
    });

    LockRegistry registry(url());
    TestLock lock(&registry, u"shared"_s, options(30s, LockOptions::Forever).withRetryInterval(1ms));
    int ownRounds = 0;
    connect(&lock, &DistributedLock::acquired, this, [&] {
        const int value = m_server.get("counter").toInt();
        std::this_thread::sleep_for(200us);
        m_server.command({"SET", "counter", QByteArray::number(value + 1)});
        lock.release();
    });
    connect(&lock, &DistributedLock::released, this, [&] {
        if (++ownRounds < rounds)
            lock.acquire();
    });
    lock.acquire();
    const bool done = eventually([&] { return ownRounds == rounds; });
    foreign.join();
    QVERIFY(done);
    QCOMPARE(foreignRounds, rounds);
    QCOMPARE(m_server.get("counter").toInt(), 2 * rounds);
}

void tst_Foreign::timeStampIsADeadline_data()
{
    addColumns<bool, milliseconds, bool>("inSeconds", "ahead", "repair");
    QTest::newRow("ms") << false << milliseconds(1h) << true;
    QTest::newRow("seconds") << true << milliseconds(1h) << true;
    QTest::newRow("ms, without repair") << false << milliseconds(1h) << false;
    QTest::newRow("ms, a day") << false << milliseconds(24h) << true;
    QTest::newRow("seconds, a day") << true << milliseconds(24h) << true;
    QTest::newRow("ms, a year") << false << milliseconds(24h * 365) << true;
    QTest::newRow("seconds, a year") << true << milliseconds(24h * 365) << true;
    QTest::newRow("greatest") << false << milliseconds(9'999'999'999'999 - stamp(60s, false).toLongLong()) << true;
}

// SETNX of a deadline without a time to live: the value is the end of the lease.
void tst_Foreign::timeStampIsADeadline()
{
    QFETCH(bool, inSeconds);
    QFETCH(milliseconds, ahead);
    QFETCH(bool, repair);
    const QByteArray deadline = stamp(ahead, inSeconds);
    QCOMPARE(m_server.cli({"SETNX", "lock:shared", deadline}), QByteArray("1"));
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    TestLock lock(&registry, u"shared"_s, options().withRepairMissingTtl(repair));
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
    lock.acquire(); // and the one that waits in the queue
    QVERIFY(eventually([&] { return isWaiting(lock); }));
    const qint64 before = attempts();
    QVERIFY(eventually([&] { return attempts() >= before + 3; })); // and those after it
    QCOMPARE(m_server.get("lock:shared"), deadline);
    QCOMPARE(m_server.pttl("lock:shared"), -1);

    const auto info = awaited(registry.inspect(u"shared"_s));
    QVERIFY(info.held);
    QVERIFY(info.foreign);
    QVERIFY2(info.remaining <= ahead && info.remaining > ahead - 10min,
             qPrintable(QString::number(info.remaining.count())));
}

void tst_Foreign::passedTimeStampIsTakenOver_data()
{
    addColumns<bool, milliseconds, bool>("inSeconds", "passed", "repair");
    QTest::newRow("ms") << false << milliseconds(2s) << true;
    QTest::newRow("seconds") << true << milliseconds(2s) << true;
    QTest::newRow("without repair") << false << milliseconds(2s) << false;
    QTest::newRow("last week") << false << milliseconds(168h) << true;
}

void tst_Foreign::passedTimeStampIsTakenOver()
{
    QFETCH(bool, inSeconds);
    QFETCH(milliseconds, passed);
    QFETCH(bool, repair);
    m_server.command({"SETNX", "lock:shared", stamp(-passed, inSeconds)});
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    TestLock lock(&registry, u"shared"_s, options().withRepairMissingTtl(repair));
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1; }));
    QCOMPARE(lock.spies.acquired.size(), 1);
    const qint64 ttl = m_server.pttl("lock:shared");
    QVERIFY2(ttl > 0 && ttl <= 30000, qPrintable(QString::number(ttl)));
}

// In their order, not before a second after the deadline, and without asking all the time.
void tst_Foreign::waitersOutliveATimeStamp()
{
    leavesRoomFor(300ms);
    QFETCH(bool, inSeconds);
    const QByteArray deadline = stamp(1500ms, inSeconds);
    m_server.command({"SETNX", "lock:shared", deadline});
    LockRegistry registry(url());
    LockRegistry otherRegistry(url());
    DistributedLock first(&registry, u"shared"_s);
    DistributedLock second(&otherRegistry, u"shared"_s);
    QFETCH_GLOBAL(bool, plain);
    first.setOptions(options(30s, LockOptions::Forever).withRetryInterval(plain ? 500ms : 10s));
    second.setOptions(first.options());
    first.acquire();
    QVERIFY(eventually([&] { return isWaiting(first); }));
    second.acquire();
    QVERIFY(eventually([&] { return plain || second.queuePosition() == 1; }));
    eventually([&] { return false; }, 100ms); // both listen, and may have looked once more for it
    const qint64 before = attempts();
    QVERIFY(eventually([&] { return first.isHeld() || second.isHeld(); }));
    QVERIFY(first.isHeld() || plain);
    const QVariantList time = m_server.command({"TIME"}).toList();
    const qint64 now = time.value(0).toLongLong() * 1000 + time.value(1).toLongLong() / 1000;
    const qint64 late = now - deadline.toLongLong() * (inSeconds ? 1000 : 1);
    QVERIFY2(late >= 1000 && late < 2000, qPrintable(QString::number(late)));
    QVERIFY2(attempts() - before <= (plain ? 20 : 4), qPrintable(QString::number(attempts() - before)));
    DistributedLock &next = first.isHeld() ? second : first;
    (first.isHeld() ? first : second).release();
    QVERIFY(eventually([&] { return next.isHeld(); }, 2s));
}

void tst_Foreign::digitsThatAreNoDeadline_data()
{
    addColumns<QByteArray, bool>("value", "withTtl");
    const QByteArray ms = stamp(1h, false);
    const QByteArray seconds = stamp(1h, true);
    QTest::newRow("9 digits") << seconds.first(9) << false;
    QTest::newRow("11 digits") << seconds + '0' << false;
    QTest::newRow("12 digits") << ms.first(12) << false;
    QTest::newRow("14 digits") << ms + '0' << false;
    QTest::newRow("plus and 12 digits") << '+' + ms.first(12) << false;
    QTest::newRow("plus and 13 digits") << '+' + ms << false;
    QTest::newRow("plus and 9 digits") << '+' + seconds.first(9) << false;
    QTest::newRow("space") << ' ' + ms.first(12) << false;
    QTest::newRow("leading zero") << '0' + ms.first(12) << false;
    QTest::newRow("fraction") << seconds.first(8) + ".5" << false;
    QTest::newRow("hexadecimal") << QByteArray("0x") + ms.first(11) << false;
    QTest::newRow("long ago") << stamp(-31 * 24h, false) << false;
    QTest::newRow("long ago, seconds") << stamp(-31 * 24h, true) << false;
    QTest::newRow("deadline with a time to live") << ms << true;
    QTest::newRow("passed deadline with a time to live") << stamp(-2s, false) << true;
}

void tst_Foreign::digitsThatAreNoDeadline()
{
    QFETCH(QByteArray, value);
    QFETCH(bool, withTtl);
    if (withTtl)
        m_server.command({"SET", "lock:shared", value, "PX", "30000"});
    else
        m_server.command({"SETNX", "lock:shared", value});
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    TestLock lock(&registry, u"shared"_s);
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
    const auto info = awaited(registry.inspect(u"shared"_s));
    QVERIFY2(info.remaining > 0ms && info.remaining <= 30s, qPrintable(QString::number(info.remaining.count())));
    const qint64 ttl = m_server.pttl("lock:shared"); // its own, or the one it was given
    QVERIFY2(ttl > 0 && ttl <= 30000, qPrintable(QString::number(ttl)));
}

// An acquire that fails says how long the deadline is away.
void tst_Foreign::timeStampInTheError()
{
    m_server.command({"SETNX", "lock:shared", stamp(1h, false)});
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    TestLock lock(&registry, u"shared"_s);
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::BusyError);
    static const QRegularExpression left(u"held by another library, 3(5[0-9][0-9]|600) s left"_s);
    QVERIFY2(left.match(lock.errorString()).hasMatch(), qPrintable(lock.errorString()));
}

void tst_Foreign::graceTimeIsShown()
{
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    const auto remaining = [&](milliseconds passed) {
        m_server.command({"SET", "lock:shared", stamp(-passed, false)});
        const auto info = registry.inspect(u"shared"_s);
        return eventually([&] { return info.isFinished(); }) && info.result().held ? info.result().remaining : -2ms;
    };
    QCOMPARE(remaining(2s), 0ms);
    milliseconds inGrace = 0ms;
    // On a busy machine, the grace time may be over before the reply.
    for (const QDeadlineTimer end(1min); inGrace == 0ms && !end.hasExpired();)
        inGrace = remaining(300ms);
    QVERIFY2(inGrace > 0ms && inGrace <= 700ms, qPrintable(QString::number(inGrace.count())));
}

// They delete the key, whoever holds it. The holder notices it at its next renewal.
void tst_Foreign::oldClientDeletesOurs()
{
    StillRegistry registry(url());
    TestLock lock(&registry, u"shared"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    m_server.command({"DEL", "lock:shared"});
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
}

// A client that reads the leading digits of our token as a number takes it for a deadline that has passed.
void tst_Foreign::oldClientTakesOursAway()
{
    StillRegistry registry(url());
    TestLock lock(&registry, u"shared"_s, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const QByteArray deadline = stamp(1h, false);
    m_server.command({"GETSET", "lock:shared", deadline});
    registry.pass(LongLease / 3);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Stolen);
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.failed.size() == 1; }));
    QCOMPARE(m_server.get("lock:shared"), deadline);
    QCOMPARE(m_server.pttl("lock:shared"), -1);
}

// Whoever takes over a passed deadline first has the lock: the other one finds a value that it has not read.
void tst_Foreign::oldClientAndWeAtOnce()
{
    const QByteArray passed = stamp(-2s, false);
    m_server.command({"SETNX", "lock:shared", passed});
    LockRegistry registry(url());
    QVERIFY(connected(&registry));
    TestLock lock(&registry, u"shared"_s);
    const QByteArray theirs = stamp(1h, false);
    QCOMPARE(m_server.command({"GETSET", "lock:shared", theirs}).toByteArray(), passed); // it has the lock
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1; }));
    QCOMPARE(lock.spies.failed.size(), 1);
    QCOMPARE(m_server.get("lock:shared"), theirs);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Foreign)

#include "tst_foreign.moc"
