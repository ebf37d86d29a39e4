// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A client of another make, with the plain commands of the Redis documentation, and this library exclude
// each other on the same key.

#include "locktesting.h"

#include <QtCore/qprocess.h>

#include <thread>

using namespace LockTesting;
using namespace Support;

namespace {

constexpr auto CompareAndDelete = "if redis.call('get',KEYS[1]) == ARGV[1] then "
                                  "return redis.call('del',KEYS[1]) else return 0 end";

} // namespace

class tst_Foreign : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void foreignHolderExcludesUs();
    void weExcludeForeignHolder();
    void foreignReleaseCannotTouchOurs();
    void foreignHolderExpires();
    void counter();

private:
    QByteArray foreignAcquire(const QByteArray &token, int lease = 20000)
    {
        return m_server.cli({"SET", "lock:shared", token, "NX", "PX", QByteArray::number(lease)});
    }
    QByteArray foreignRelease(const QByteArray &token)
    {
        return m_server.cli({"EVAL", CompareAndDelete, "1", "lock:shared", token});
    }

    RedisServer m_server;
};

void tst_Foreign::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_Foreign::init()
{
    m_server.command({"FLUSHALL"});
}

void tst_Foreign::foreignHolderExcludesUs()
{
    QCOMPARE(foreignAcquire("theirs"), QByteArray("OK"));
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("shared"));
    lock.setOptions(options());
    Spies spies(&lock);
    lock.tryAcquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::BusyError);
    QCOMPARE(m_server.get("lock:shared"), QByteArray("theirs"));
    QVERIFY(m_server.pttl("lock:shared") > 10000); // not shortened either

    const auto info = registry.inspect(QStringLiteral("shared"));
    QVERIFY(eventually([&] { return info.isFinished(); }));
    QVERIFY(info.result().held);
    QVERIFY(info.result().foreign);

    lock.acquire();
    processEvents();
    QCOMPARE(lock.state(), DistributedLock::Acquiring);
    QCOMPARE(foreignRelease("theirs"), QByteArray("1"));
    QVERIFY(eventually([&] { return spies.acquired.size() == 1; }));
}

void tst_Foreign::weExcludeForeignHolder()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("shared"));
    lock.setOptions(options(2s));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(foreignAcquire("theirs"), QByteArray());
    QVERIFY(eventually([&] { return spies.renewed.size() >= 3; })); // longer than a lease
    QCOMPARE(foreignAcquire("theirs"), QByteArray());
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QCOMPARE(foreignAcquire("theirs"), QByteArray("OK"));
}

void tst_Foreign::foreignReleaseCannotTouchOurs()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("shared"));
    lock.setOptions(options(20s));
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
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("shared"));
    lock.setOptions(options(2s).withRetryInterval(10s));
    QCOMPARE(foreignAcquire("theirs", 300), QByteArray("OK"));
    // Its time to live is known: no need to poll until then.
    const qint64 before = m_server.commandsProcessed("evalsha") + m_server.commandsProcessed("eval");
    QVERIFY(acquireNow(&lock));
    QVERIFY(m_server.commandsProcessed("evalsha") + m_server.commandsProcessed("eval") - before <= 5);
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
            while (client.command({"SET", "lock:shared", token, "NX", "PX", "20000"}).toByteArray() != "OK")
                std::this_thread::sleep_for(1ms); // as such clients do
            const int value = client.command({"GET", "counter"}).toByteArray().toInt();
            std::this_thread::sleep_for(200us); // an invitation to interleave
            client.command({"SET", "counter", QByteArray::number(value + 1)});
            foreignRounds += client.command({"EVAL", CompareAndDelete, "1", "lock:shared", token}).toInt();
        }
    });

    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, QStringLiteral("shared"));
    lock.setOptions(options(20s, 20s).withRetryInterval(1ms));
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
    const bool done = eventually([&] { return ownRounds == rounds; }, 30s);
    foreign.join();
    QVERIFY(done);
    QCOMPARE(foreignRounds, rounds);
    QCOMPARE(m_server.get("counter").toInt(), 2 * rounds);
}

QTEST_GUILESS_MAIN(tst_Foreign)

#include "tst_foreign.moc"
