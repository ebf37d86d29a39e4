// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The behaviour of RedisEngine beyond the promises of LockEngine.

#include "enginefixture.h"
#include "support/eventloopprobe.h"
#include "support/faultproxy.h"
#include "support/testkinds.h"

#include <QtCore/qset.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace EngineTesting;
using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

class tst_RedisEngine : public QObject, private EngineFixture
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { startServer(); }
    void init() { m_server->command({"FLUSHALL"}); }
    void cleanup() { waitForDisconnection(); }

    void batchesShareCommands();
    void foreignTypeInABatch();
    void forbiddenKeyInABatch();
    void forbiddenKeyDoesNotBringBackWhatWasAbandoned();
    void unknownScriptDoesNotBringBackWhatWasAbandoned();
    void keyWithoutTtl();
    void listLeavesOutWhatHasGone();
    void thousandsAbandonedAtOnce() { abandonThousands(); }
    TIMING void abandoningIsCheap();
    void abandonOutlivesAReconnect();
    void formerMasterGetsNothing();

private:
    std::chrono::nanoseconds abandonThousands();
};

void tst_RedisEngine::batchesShareCommands()
{
    const auto engine = makeEngine(Redis);
    const LockId warm = lockId(u"warm"_s);
    for (const int size : {1, 64, 65, 500}) {
        QList<QByteArray> tokens;
        const auto scriptCalls = [this] {
            return m_server->commandsProcessed("evalsha") + m_server->commandsProcessed("eval");
        };
        // All scripts known to the server.
        const QByteArray token = newToken(*engine);
        acquire(*engine, warm, token);
        renew(*engine, warm, token);
        release(*engine, warm, token);

        Replies replies;
        qint64 before = scriptCalls();
        for (int i = 0; i < size; ++i) {
            tokens.append(newToken(*engine));
            engine->acquire(acquireOf(lockId(QString::number(i)), tokens.at(i), 60s), replies.next());
        }
        EVENTUALLY_COMPARE(replies.list.size(), size);
        QCOMPARE(scriptCalls() - before, (size + 63) / 64);
        before = scriptCalls();
        for (int i = 0; i < size; ++i)
            engine->renew(lockId(QString::number(i)), tokens.at(i), 60s, {}, replies.next());
        EVENTUALLY_COMPARE(replies.list.size(), 2 * size);
        QCOMPARE(scriptCalls() - before, 1);
        before = scriptCalls();
        for (int i = 0; i < size; ++i)
            engine->release(lockId(QString::number(i)), tokens.at(i), 60s, 0ms, replies.next());
        EVENTUALLY_COMPARE(replies.list.size(), 3 * size);
        QCOMPARE(scriptCalls() - before, (size + 63) / 64);
        for (const EngineReply &reply : std::as_const(replies.list))
            QVERIFY(reply.status == EngineReply::Granted || reply.status == EngineReply::Done);
    }
}

void tst_RedisEngine::foreignTypeInABatch()
{
    const auto engine = makeEngine(Redis);
    m_server->command({"RPUSH", "lock:list", "x"});
    m_server->command({"HSET", "{lock:fence}:fence", "a", "b"});
    const QStringList all{u"a"_s, u"list"_s, u"fence"_s, u"b"_s};
    const QByteArray token = newToken(*engine);
    Replies acquired, renewed, released;
    for (const QString &name : all)
        engine->acquire(acquireOf(lockId(name), token, 60s), acquired.next());
    for (const QString &name : all)
        engine->renew(lockId(name), token, 60s, {}, renewed.next());
    for (const QString &name : all)
        engine->release(lockId(name), token, 60s, 0ms, released.next());
    EVENTUALLY_COMPARE(released.list.size(), 4);
    const EngineReply &list = acquired.list.at(1);
    QCOMPARE(list.status, EngineReply::Failed);
    QCOMPARE(list.error.code, DistributedLock::ForeignTypeError);
    QVERIFY(list.error.isPermanent);
    QVERIFY(!list.error.isMaybeExecuted);
    QVERIFY(!list.error.text.contains(QString::fromLatin1(token)));
    QCOMPARE(renewed.list.at(1).status, EngineReply::Stolen); // somebody has put something else there
    QCOMPARE(released.list.at(1).status, EngineReply::Stolen);
    for (const int i : {0, 3}) {
        QCOMPARE(acquired.list.at(i).status, EngineReply::Granted);
        QCOMPARE(renewed.list.at(i).status, EngineReply::Done);
        QCOMPARE(released.list.at(i).status, EngineReply::Done);
    }
    QCOMPARE(acquired.list.at(2).status, EngineReply::Failed);
    QCOMPARE(renewed.list.at(2).status, EngineReply::Gone); // nothing was written
    QCOMPARE(m_server->command({"LRANGE", "lock:list", "0", "-1"}).toList().size(), 1);
    QCOMPARE(m_server->command({"TYPE", "{lock:fence}:fence"}).toByteArray(), QByteArray("hash"));

    const LockInfo info = inspect(*engine, lockId(u"list"_s));
    QCOMPARE(info.error, DistributedLock::ForeignTypeError);
    QVERIFY(!inspect(*engine, lockId(u"a"_s)).held);
    QCOMPARE(names(*engine, u"*"_s), QStringList());
    bool done = false;
    engine->forceRelease(lockId(u"list"_s), 0, [&](const EngineReply &reply) {
        done = reply.error.code == DistributedLock::ForeignTypeError && reply.status == EngineReply::Failed;
    });
    EVENTUALLY_VERIFY(done);
    QVERIFY(m_server->exists("lock:list"));
}

void tst_RedisEngine::forbiddenKeyInABatch()
{
    m_server->command({"ACL", "SETUSER", "app", "on", ">secret", "~lock:mine*", "~{lock:mine*", "&*", "+@all"});
    QUrl url = m_server->url();
    url.setUserName(u"app"_s);
    url.setPassword(u"secret"_s);
    {
        const auto engine = makeEngine(Redis, url);
        const QByteArray token = newToken(*engine);
        const QStringList all{u"mine1"_s, u"theirs"_s, u"mine2"_s};
        // In which order the replies come is open here.
        QHash<QString, EngineReply> acquired, renewed, released;
        const auto into = [](QHash<QString, EngineReply> *replies, const QString &name) {
            return [replies, name](const EngineReply &reply) { replies->insert(name, reply); };
        };
        for (const QString &name : all)
            engine->acquire(acquireOf(lockId(name), token, 60s), into(&acquired, name));
        EVENTUALLY_COMPARE(acquired.size(), 3);
        for (const QString &name : all)
            engine->renew(lockId(name), token, 60s, {}, into(&renewed, name));
        EVENTUALLY_COMPARE(renewed.size(), 3);
        for (const QString &name : all)
            engine->release(lockId(name), token, 60s, 0ms, into(&released, name));
        EVENTUALLY_COMPARE(released.size(), 3);
        for (const auto *replies : {&acquired, &renewed, &released}) {
            const EngineReply theirs = replies->value(all.at(1));
            QCOMPARE(theirs.error.code, DistributedLock::PermissionError);
            QVERIFY(theirs.error.isPermanent);
            QVERIFY(!theirs.error.text.contains(u"secret"_s));
            QVERIFY(!theirs.error.text.contains(u"app"_s));
            for (const int i : {0, 2}) {
                const EngineReply mine = replies->value(all.at(i));
                QVERIFY2(!mine.error, qPrintable(mine.error.text));
                QCOMPARE(mine.status, replies == &acquired ? EngineReply::Granted : EngineReply::Done);
            }
        }
        QVERIFY(m_server->keys(QByteArrayLiteral("lock:*")).isEmpty());
    }
    m_server->command({"ACL", "DELUSER", "app"});
}

void tst_RedisEngine::forbiddenKeyDoesNotBringBackWhatWasAbandoned()
{
    m_server->command({"ACL", "SETUSER", "app", "on", ">secret", "~lock:mine*", "~{lock:mine*", "&*", "+@all"});
    QUrl url = m_server->url();
    url.setUserName(u"app"_s);
    url.setPassword(u"secret"_s);
    {
        const auto engine = makeEngine(Redis, url);
        const LockId mine = lockId(u"mine"_s);
        const QByteArray token = newToken(*engine);
        Replies replies;
        engine->acquire(acquireOf(lockId(u"theirs"_s), newToken(*engine), 60s), replies.next());
        engine->acquire(acquireOf(mine, token, 60s), replies.next());
        engine->abandon(mine, token, 60s, 0ms, 60s);
        EVENTUALLY_COMPARE(replies.list.size(), 2);
        EVENTUALLY_VERIFY(!m_server->exists("lock:mine"));
    }
    m_server->command({"ACL", "DELUSER", "app"});
}

void tst_RedisEngine::unknownScriptDoesNotBringBackWhatWasAbandoned()
{
    // The server knows the cancel script and not the acquire script: cancel overtakes acquire.
    const auto engine = makeEngine(Redis);
    const LockId id = lockId(u"a"_s);
    const QByteArray token = newToken(*engine);
    m_server->command({"SCRIPT", "FLUSH"});
    engine->abandon(id, newToken(*engine), 60s, 0ms, 60s);
    release(*engine, id, newToken(*engine)); // runs after it
    const qint64 acquires = m_server->commandsProcessed("eval");
    Replies replies;
    engine->acquire(acquireOf(id, token, 60s), replies.next());
    engine->abandon(id, token, 60s, 0ms, 60s);
    EVENTUALLY_COMPARE(replies.list.size(), 1);
    QCOMPARE(replies.list.first().status, EngineReply::Granted);
    QCOMPARE(m_server->commandsProcessed("eval") - acquires, 1);
    EVENTUALLY_VERIFY(!m_server->exists("lock:a"));
    renew(*engine, id, token); // known again for the tests that follow
}

void tst_RedisEngine::keyWithoutTtl()
{
    const auto engine = makeEngine(Redis);
    const LockId id = lockId(u"a"_s);
    m_server->command({"SET", "lock:a", "somebody"});
    LockInfo info = inspect(*engine, id);
    QVERIFY(info.held);
    QVERIFY(info.foreign);
    QCOMPARE(info.holder.id, QString()); // their token is a secret
    QVERIFY(info.remaining < 0ms);

    Replies replies;
    LockEngine::Acquire operation = acquireOf(id, newToken(*engine), 60s);
    operation.repairMissingTtl = false;
    engine->acquire(operation, replies.next());
    EVENTUALLY_COMPARE(replies.list.size(), 1);
    QCOMPARE(replies.list.at(0).status, EngineReply::Taken);
    QVERIFY(replies.list.at(0).foreignHolder);
    QVERIFY(replies.list.at(0).holderTtl < 0ms);
    QCOMPARE(m_server->pttl("lock:a"), -1);

    operation.repairMissingTtl = true;
    engine->acquire(operation, replies.next());
    EVENTUALLY_COMPARE(replies.list.size(), 2);
    QCOMPARE(replies.list.at(1).status, EngineReply::Taken);
    QVERIFY(replies.list.at(1).holderTtl > 0ms);
    QVERIFY(m_server->pttl("lock:a") > 0);
    QCOMPARE(m_server->get("lock:a"), QByteArray("somebody"));
}

void tst_RedisEngine::listLeavesOutWhatHasGone()
{
    Support::FaultProxy proxy(*m_server);
    {
        const auto engine = makeEngine(Redis, proxy.url());
        QCOMPARE(acquire(*engine, lockId(u"a"_s), newToken(*engine)).status, EngineReply::Granted);
        const qint64 scans = m_server->commandsProcessed("scan");
        proxy.setRepliesHeld(true);
        QStringList found;
        bool done = false;
        engine->list(u"lock:"_s, u"*"_s, [&](const EngineError &, const QList<LockInfo> &infos) {
            done = true;
            for (const LockInfo &info : infos)
                found.append(info.name);
        });
        EVENTUALLY_COMPARE(proxy.commandsForwarded("SCAN"), 1);
        EVENTUALLY_COMPARE(m_server->commandsProcessed("scan"), scans + 1); // it has been found
        m_server->command({"DEL", "lock:a"});
        proxy.setRepliesHeld(false);
        EVENTUALLY_VERIFY(done);
        QCOMPARE(found, QStringList());
    }
    proxy.closeAll();
}

// Some microseconds each, also unoptimised and with sanitizers; what grows with the square takes seconds.
void tst_RedisEngine::abandoningIsCheap()
{
    Support::leavesRoomFor(300ms);
    const auto spent = abandonThousands();
    QVERIFY2(spent < 500ms, qPrintable(u"%1 ms"_s.arg(spent / 1ms)));
}

/// Returns the processor time that it took to abandon them.
std::chrono::nanoseconds tst_RedisEngine::abandonThousands()
{
    const auto engine = makeEngine(Redis);
    Replies replies;
    QList<LockId> ids;
    QList<QByteArray> tokens;
    constexpr int Count = 10'000;
    for (int i = 0; i < Count; ++i) {
        ids.append(lockId(QString::number(i)));
        tokens.append(newToken(*engine));
        engine->acquire(acquireOf(ids.at(i), tokens.at(i), 600s), replies.next());
    }
    const auto isDone = [&] { return replies.list.size() == Count; };
    timespec start, end;
    const bool acquired = Support::EventLoopProbe::waitFor(isDone);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (int i = 0; i < Count; ++i)
        engine->abandon(ids.at(i), tokens.at(i), 600s, 0ms, 600s);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    const auto isFree = [&] { return m_server->keys(QByteArrayLiteral("lock:*")).isEmpty(); };
    if (!acquired || !Support::EventLoopProbe::waitFor(isFree))
        QTest::qFail("not all were acquired and given back", __FILE__, __LINE__);
    return std::chrono::seconds(end.tv_sec - start.tv_sec) + std::chrono::nanoseconds(end.tv_nsec - start.tv_nsec);
}

void tst_RedisEngine::abandonOutlivesAReconnect()
{
    Support::FaultProxy proxy(*m_server);
    {
        const auto engine = makeEngine(Redis, proxy.url());
        const LockId id = lockId(u"a"_s);
        const QByteArray token = newToken(*engine);
        QCOMPARE(acquire(*engine, id, token, 600s).status, EngineReply::Granted);
        proxy.setRefusing(true);
        proxy.resetAll();
        EVENTUALLY_VERIFY(engine->state() != LockEngine::Ready);
        engine->abandon(id, token, 600s, 0ms, 600s);
        QVERIFY(m_server->exists("lock:a"));
        proxy.setRefusing(false);
        EVENTUALLY_VERIFY(!m_server->exists("lock:a"));

        // And the connection that is lost with it.
        const QByteArray next = newToken(*engine);
        QCOMPARE(acquire(*engine, id, next, 600s).status, EngineReply::Granted);
        proxy.cutBefore("EVALSHA");
        engine->abandon(id, next, 600s, 0ms, 600s);
        EVENTUALLY_VERIFY(!m_server->exists("lock:a"));
        QCOMPARE(proxy.faultsDone(), 1);
    }
    proxy.closeAll();
}

/// The former master ends the messages, too; what waiters send because of that must not go there.
void tst_RedisEngine::formerMasterGetsNothing()
{
    Support::Started<Support::RedisServer> next(Support::RedisServer::Options::withTcp());
    const auto engine = makeListeningEngine(Sentinel, lockId(u"a"_s));
    EVENTUALLY_VERIFY(m_sentinels.front()->isListenedTo());
    Replies replies;
    connect(engine.get(), &LockEngine::wakeableChanged, engine.get(), [&] {
        // As many as are sent without waiting for more.
        for (int i = 0; i < 64 && engine->state() == LockEngine::Ready; ++i)
            engine->acquire(acquireOf(lockId(u"late%1"_s.arg(i)), newToken(*engine), 60s), replies.next());
    });
    const Support::FakeSentinel::View before = m_sentinels.front()->view();
    Support::FakeSentinel::View after = before;
    after.port = next.port();
    ++after.epoch;
    for (const auto &sentinel : m_sentinels)
        sentinel->setView(after);
    m_sentinels.front()->reportSwitch(before.port, after.port);
    EVENTUALLY_VERIFY(next.connectedClients() > 0 && engine->state() == LockEngine::Ready);
    QCOMPARE(m_server->keys("lock:late*"), QList<QByteArray>());
    for (const auto &sentinel : m_sentinels)
        sentinel->setView(before);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_RedisEngine)
#include "tst_redisengine.moc"
