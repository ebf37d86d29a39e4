// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Keys of locks that another client, or the server itself, has changed.

#include "support/locktesting.h"
#include "support/registrytime.h"

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");

} // namespace

class tst_KeyFaults : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();

    void keyOfAnotherType();
    void keyBecomesAnotherType();
    void missingTtl_data();
    void missingTtl();
    void keyEvicted();

private:
    RedisServer m_server;
};

void tst_KeyFaults::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_KeyFaults::init()
{
    m_server.command({"FLUSHALL"});
    m_server.command({"SCRIPT", "FLUSH"});
}

void tst_KeyFaults::keyOfAnotherType()
{
    LockRegistry registry(m_server.url());
    m_server.command({"RPUSH", "lock:list", "one"});
    m_server.command({"RPUSH", "{lock:fence}:fence", "one"});
    for (const QString &name : {u"list"_s, u"fence"_s}) {
        DistributedLock lock(&registry, name);
        lock.setOptions(options(30s, LockOptions::Forever));
        Spies spies(&lock);
        lock.acquire();
        QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
        QCOMPARE(spies.failure(), DistributedLock::ForeignTypeError);
        QVERIFY(lock.errorString().contains(name));
        QVERIFY(!m_server.exists("lock:fence"));
    }
    const auto forced = registry.forceRelease(u"list"_s);
    QVERIFY(eventually([&] { return forced.isFinished(); }));
    QCOMPARE(forced.result().error, DistributedLock::ForeignTypeError);
    const auto inspected = registry.inspect(u"list"_s);
    QVERIFY(eventually([&] { return inspected.isFinished(); }));
    QCOMPARE(inspected.result().error, DistributedLock::ForeignTypeError);
    for (const QByteArray &key : {QByteArray("lock:list"), QByteArray("{lock:fence}:fence")}) {
        QCOMPARE(m_server.command({"LRANGE", key, "0", "-1"}).toList(), QVariantList{QByteArray("one")});
        QCOMPARE(m_server.pttl(key), -1);
    }
}

void tst_KeyFaults::keyBecomesAnotherType()
{
    StillRegistry registry(m_server.url());
    for (const bool renewed : {true, false}) {
        DistributedLock lock(&registry, u"job"_s);
        lock.setOptions(options(LongLease));
        Spies spies(&lock);
        QVERIFY(acquireNow(&lock));
        m_server.command({"DEL", "lock:job"});
        m_server.command({"RPUSH", "lock:job", "one"});
        if (renewed)
            registry.pass(LongLease / 3);
        else
            lock.release();
        QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
        QCOMPARE(spies.reason(), DistributedLock::Stolen);
        QCOMPARE(m_server.pttl("lock:job"), -1);
        QCOMPARE(m_server.command({"LPOP", "lock:job"}).toByteArray(), QByteArray("one"));
    }
}

void tst_KeyFaults::missingTtl_data()
{
    QTest::addColumn<bool>("repair");
    QTest::newRow("repaired") << true;
    QTest::newRow("left alone") << false;
}

// The key of a client that died between SETNX and EXPIRE.
void tst_KeyFaults::missingTtl()
{
    QFETCH(bool, repair);
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"job"_s);
    lock.setOptions(options(LongLease, repair ? 5s : 450ms).withRepairMissingTtl(repair));
    Spies spies(&lock);
    m_server.cli({"SETNX", "lock:job", "foreign"});
    lock.acquire();
    if (repair) {
        QVERIFY(eventually([&] { return m_server.pttl("lock:job") >= 0; }));
        QVERIFY(m_server.pttl("lock:job") <= LongLease.count());
        QCOMPARE(m_server.get("lock:job"), QByteArray("foreign"));
        m_server.command({"PEXPIRE", "lock:job", "1"});
        QVERIFY(registry.passUntil([&] { return spies.acquired.size() == 1; }, 4s));
    } else {
        QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
        QVERIFY(registry.passUntil([&] { return spies.failed.size() == 1; }));
        QCOMPARE(spies.failure(), DistributedLock::TimeoutError);
        QCOMPARE(m_server.pttl("lock:job"), -1);
    }
}

// A server that evicts keys takes locks away. The holders must learn of it.
void tst_KeyFaults::keyEvicted()
{
    RedisServer server;
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    StillRegistry registry(server.url());
    DistributedLock lock(&registry, Name);
    lock.setOptions(options(LongLease));
    Spies spies(&lock);
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    server.command({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    QVERIFY(eventually([&] { return !server.exists(Key); }));
    QVERIFY(!server.exists("{lock:job}:fence"));
    server.command({"CONFIG", "SET", "maxmemory", "0"});
    registry.pass(LongLease / 3); // the next renewal
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
}

QTEST_GUILESS_MAIN(tst_KeyFaults)
#include "tst_keyfaults.moc"
