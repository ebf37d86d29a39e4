// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Keys of locks that another client, or the server itself, has changed.

#include "support/locktest.h"
#include "support/registrytime.h"
#include "support/rows.h"

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");

} // namespace

class tst_KeyFaults : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void init();

    void keyOfAnotherType();
    void keyBecomesAnotherType();
    void missingTtl_data() { addRows<bool>("repair", {{"repaired", true}, {"left alone", false}}); }
    void missingTtl();
    void keyEvicted();
};

void tst_KeyFaults::init()
{
    RedisLockTest::init();
    m_server.command({"SCRIPT", "FLUSH"});
}

void tst_KeyFaults::keyOfAnotherType()
{
    m_server.command({"RPUSH", "lock:list", "one"});
    m_server.command({"RPUSH", "{lock:fence}:fence", "one"});
    for (const QString &name : {u"list"_s, u"fence"_s}) {
        TestLock lock(registry(), name, options(30s, LockOptions::Forever));
        QCOMPARE(failureNow(&lock), DistributedLock::ForeignTypeError);
        QVERIFY(lock.errorString().contains(name));
        QVERIFY(!m_server.exists("lock:fence"));
    }
    const auto forced = awaited(registry()->forceRelease(u"list"_s));
    QCOMPARE(forced.error, DistributedLock::ForeignTypeError);
    const auto inspected = awaited(registry()->inspect(u"list"_s));
    QCOMPARE(inspected.error, DistributedLock::ForeignTypeError);
    for (const QByteArray &key : {QByteArray("lock:list"), QByteArray("{lock:fence}:fence")}) {
        QCOMPARE(m_server.command({"LRANGE", key, "0", "-1"}).toList(), QVariantList{QByteArray("one")});
        QCOMPARE(m_server.pttl(key), -1);
    }
}

void tst_KeyFaults::keyBecomesAnotherType()
{
    StillRegistry registry(m_server.url());
    for (const bool renewed : {true, false}) {
        TestLock lock(&registry, u"job"_s, options(LongLease));
        QVERIFY(acquireNow(&lock));
        m_server.command({"DEL", "lock:job"});
        m_server.command({"RPUSH", "lock:job", "one"});
        if (renewed)
            registry.pass(LongLease / 3);
        else
            lock.release();
        QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
        QCOMPARE(lock.spies.reason(), DistributedLock::Stolen);
        QCOMPARE(m_server.pttl("lock:job"), -1);
        QCOMPARE(m_server.command({"LPOP", "lock:job"}).toByteArray(), QByteArray("one"));
    }
}

// The key of a client that died between SETNX and EXPIRE.
void tst_KeyFaults::missingTtl()
{
    QFETCH(bool, repair);
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, u"job"_s, options(LongLease, repair ? 5s : 450ms).withRepairMissingTtl(repair));
    m_server.cli({"SETNX", "lock:job", "foreign"});
    lock.acquire();
    if (repair) {
        QVERIFY(eventually([&] { return m_server.pttl("lock:job") >= 0; }));
        QVERIFY(m_server.pttl("lock:job") <= LongLease.count());
        QCOMPARE(m_server.get("lock:job"), QByteArray("foreign"));
        m_server.command({"PEXPIRE", "lock:job", "1"});
        QVERIFY(registry.passUntil([&] { return lock.spies.acquired.size() == 1; }, 4s));
    } else {
        QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
        QVERIFY(registry.passUntil([&] { return lock.spies.failed.size() == 1; }));
        QCOMPARE(lock.spies.failure(), DistributedLock::TimeoutError);
        QCOMPARE(m_server.pttl("lock:job"), -1);
    }
}

// A server that evicts keys takes locks away. The holders must learn of it.
void tst_KeyFaults::keyEvicted()
{
    Started<RedisServer> server;
    StillRegistry registry(server.url());
    TestLock lock(&registry, Name, options(LongLease));
    QVERIFY(acquireNow(&lock));
    const qint64 token = lock.fencingToken();
    server.command({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    QVERIFY(eventually([&] { return !server.exists(Key); }));
    QVERIFY(!server.exists("{lock:job}:fence"));
    server.command({"CONFIG", "SET", "maxmemory", "0"});
    registry.pass(LongLease / 3); // the next renewal
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
    QVERIFY(acquireNow(&lock));
    QVERIFY(lock.fencingToken() > token);
}

QTEST_GUILESS_MAIN(tst_KeyFaults)
#include "tst_keyfaults.moc"
