// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Several locks that are acquired together: with one command, on each engine that can; and as a MultiLock, or in a
// scope, on all.

#include "background/lockservice.h"
#include "engine/redis/rediskeys.h"
#include "enginefixture.h"
#include "support/clusterslot.h"
#include "support/locktest.h"

#include <QDistLock/MultiLock>
#include <QDistLock/ScopedMultiLock>

#include <QtCore/qdatetime.h>
#include <QtCore/qscopeguard.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace EngineTesting;
using namespace QDistLock;
using namespace std::chrono_literals;

class tst_Together : public QObject, private EngineFixture
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { startServer(); }
    void init();
    void cleanup() { waitForDisconnection(); }

    void allFree_data() { addEngines(); }
    void allFree();
    void oneTaken_data() { addEngines(); }
    void oneTaken();
    void oneAwaited_data() { addEngines(); }
    void oneAwaited();
    void sentAgain_data() { addEngines(); }
    void sentAgain();
    void readers_data() { addEngines(); }
    void readers();
    void expired_data() { addEngines(); }
    void expired();
    void deadlineHasPassed_data() { addEngines(); }
    void deadlineHasPassed();
    void deadWaiter_data() { addEngines(); }
    void deadWaiter();
    void fails_data() { addEngines(); }
    void fails();
    void barging_data() { addEngines(); }
    void barging();
    void groupsAreApart_data() { addEngines(); }
    void groupsAreApart();
    void slotMoves_data() { addCluster(); }
    void slotMoves();
    void differentSlots_data() { addCluster(); }
    void differentSlots();
    void multiLock_data() { addAllEngines(); }
    void multiLock();
    void scope_data() { addAllEngines(); }
    void scope();

private:
    /// Those that acquire several locks with one command.
    static void addEngines()
    {
        Support::addRows<int>("kind", {{"redis", int(Redis)}, {"sentinel", int(Sentinel)}, {"cluster", int(Cluster)}});
    }
    static void addAllEngines();
    static void addCluster() { Support::addRows<int>("kind", {{"cluster", int(Cluster)}}); }
    QList<EngineReply> together(LockEngine &engine, const QList<QByteArray> &tokens, bool barge = false);
    static QList<QByteArray> newTokens(LockEngine &engine)
    {
        return {newToken(engine), newToken(engine), newToken(engine)};
    }
    qint64 scriptCalls() { return serverOf(m_kind, m_ids[0]).commandsProcessed("evalsha"); }
    bool isKept(int lock) { return serverOf(m_kind, m_ids[lock]).exists(m_ids[lock].key()); }

    const QList<LockId> m_ids{lockId(u"{x}a"_s), lockId(u"{x}b"_s), lockId(u"{x}c"_s)};
    quint64 m_group = 0;
    int m_kind = Redis;
};

static bool areGranted(const QList<EngineReply> &replies)
{
    return LockTesting::all(replies, [](const EngineReply &reply) { return reply.status == EngineReply::Granted; });
}

void tst_Together::init()
{
    QFETCH(int, kind);
    m_kind = kind;
    prepare(m_kind);
}

/// The replies in the order of the locks, which all have a token.
QList<EngineReply> tst_Together::together(LockEngine &engine, const QList<QByteArray> &tokens, bool barge)
{
    QList<EngineReply> replies(tokens.size());
    qsizetype arrived = 0;
    ++m_group;
    for (qsizetype i = 0; i < tokens.size(); ++i) {
        LockEngine::Acquire operation = acquireOf(m_ids[i], tokens[i], 30s);
        operation.together = m_group;
        operation.barge = barge;
        engine.acquire(operation, [&replies, &arrived, i](const EngineReply &reply) {
            replies[i] = reply;
            ++arrived;
        });
    }
    if (!LockTesting::eventually([&] { return arrived == tokens.size(); }))
        qFatal("no replies");
    return replies;
}

void tst_Together::allFree()
{
    const auto engine = makeEngine(m_kind);
    QVERIFY(engine->canAcquireTogether());
    QCOMPARE(engine->whyNotTogether(m_ids), QString());
    const qint64 before = scriptCalls();
    const QList<QByteArray> tokens = newTokens(*engine);
    const QList<EngineReply> replies = together(*engine, tokens);
    QVERIFY(areGranted(replies));
    QCOMPARE(scriptCalls() - before, 1);
    for (int i = 0; i < 3; ++i) {
        QVERIFY(replies[i].fencingToken > 0);
        QCOMPARE(serverOf(m_kind, m_ids[i]).get(m_ids[i].key()), tokens[i]);
        QVERIFY(serverOf(m_kind, m_ids[i]).pttl(m_ids[i].key()) > 20000);
    }
    for (int i = 0; i < 3; ++i)
        QCOMPARE(release(*engine, m_ids[i], tokens[i]).status, EngineReply::Done);
    const QList<EngineReply> next = together(*engine, newTokens(*engine));
    for (int i = 0; i < 3; ++i)
        QVERIFY(next[i].fencingToken > replies[i].fencingToken);
}

void tst_Together::oneTaken()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    for (int taken = 0; taken < 3; ++taken) {
        const QByteArray holder = newToken(*other);
        QCOMPARE(acquire(*other, m_ids[taken], holder).status, EngineReply::Granted);
        const QList<EngineReply> replies = together(*engine, newTokens(*engine));
        for (int i = 0; i < 3; ++i) {
            QCOMPARE(replies[i].status, EngineReply::Taken);
            QCOMPARE(replies[i].isFree, i != taken);
            QCOMPARE(isKept(i), i == taken);
        }
        QVERIFY(replies[taken].holderTtl > 0ms);
        QCOMPARE(release(*other, m_ids[taken], holder).status, EngineReply::Done);
    }
    serverOf(m_kind, m_ids[1]).command({"SET", m_ids[1].key(), "somebody"}); // without a time to live
    QCOMPARE(together(*engine, newTokens(*engine))[0].status, EngineReply::Taken);
    QVERIFY(!isKept(0));
    serverOf(m_kind, m_ids[1]).command({"DEL", m_ids[1].key()});
    serverOf(m_kind, m_ids[2]).command({"RPUSH", m_ids[2].key(), "1"});
    const QList<EngineReply> replies = together(*engine, newTokens(*engine));
    QCOMPARE(replies[2].error.code, DistributedLock::ForeignTypeError);
    QCOMPARE(replies[0].status, EngineReply::Taken);
    QVERIFY(replies[0].isFree && !isKept(0) && !isKept(1));
}

void tst_Together::oneAwaited()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    const QByteArray holder = newToken(*other);
    QCOMPARE(acquire(*other, m_ids[2], holder).status, EngineReply::Granted);
    WaitingClient waiting = waitingClient(m_kind, m_ids[2], newToken);
    QCOMPARE(waiting.reply.queuePosition, 0);
    serverOf(m_kind, m_ids[2]).command({"DEL", m_ids[2].key()}); // free, but for the waiter
    const QList<EngineReply> replies = together(*engine, newTokens(*engine));
    QVERIFY(replies[0].isFree && replies[1].isFree && !replies[2].isFree);
    QVERIFY(!isKept(0) && !isKept(1) && !isKept(2));
    EVENTUALLY_COMPARE(waiting.notices->list, QStringList{notice("next", waiting.token)});
    QCOMPARE(acquire(*waiting.engine, m_ids[2], waiting.token).status, EngineReply::Granted);
}

// The reply to the first command was lost.
void tst_Together::sentAgain()
{
    const auto engine = makeEngine(m_kind);
    const QList<QByteArray> tokens = newTokens(*engine);
    const QList<EngineReply> first = together(*engine, tokens);
    const QList<EngineReply> second = together(*engine, tokens);
    QVERIFY(areGranted(first) && areGranted(second));
    for (int i = 0; i < 3; ++i)
        QVERIFY(second[i].fencingToken > first[i].fencingToken);
    // Meanwhile somebody has taken one of them away.
    serverOf(m_kind, m_ids[1]).command({"SET", m_ids[1].key(), "somebody"});
    for (const EngineReply &reply : together(*engine, tokens))
        QCOMPARE(reply.status, EngineReply::Taken);
    QVERIFY(!isKept(0) && isKept(1) && !isKept(2)); // the others were given back
}

void tst_Together::readers()
{
    const auto engine = makeEngine(m_kind);
    const auto tokens = [&] {
        QList<QByteArray> tokens = newTokens(*engine);
        tokens[1] = Token::ofReader(tokens[1]);
        return tokens;
    };
    const QList<QByteArray> first = tokens(), second = tokens();
    const QList<EngineReply> replies = together(*engine, first);
    QVERIFY(areGranted(replies));
    QCOMPARE(inspect(*engine, m_ids[1]).readerCount, 1);
    QVERIFY(together(*engine, second)[1].isFree); // another reader may join, but a second writer may not
    QCOMPARE(inspect(*engine, m_ids[1]).readerCount, 1);
    for (const int i : {0, 2})
        QCOMPARE(release(*engine, m_ids[i], first[i]).status, EngineReply::Done);
    const QList<EngineReply> joined = together(*engine, second);
    QVERIFY(areGranted(joined));
    QCOMPARE(inspect(*engine, m_ids[1]).readerCount, 2);
    QCOMPARE(joined[1].fencingToken, replies[1].fencingToken);
    QVERIFY(areGranted(together(*engine, second))); // again
    QCOMPARE(inspect(*engine, m_ids[1]).readerCount, 2);
    QCOMPARE(together(*engine, newTokens(*engine))[1].status, EngineReply::Taken);
    serverOf(m_kind, m_ids[0]).command({"SET", m_ids[0].key(), "somebody"});
    QCOMPARE(together(*engine, second)[1].status, EngineReply::Taken); // given back
    QCOMPARE(inspect(*engine, m_ids[1]).readerCount, 1);
    QCOMPARE(release(*engine, m_ids[1], first[1]).status, EngineReply::Done);
}

void tst_Together::expired()
{
    const auto engine = makeEngine(m_kind);
    QCOMPARE(acquire(*engine, m_ids[0], newToken(*engine)).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_ids[1], Token::ofReader(newToken(*engine))).status, EngineReply::Granted);
    QCOMPARE(together(*engine, newTokens(*engine))[2].status, EngineReply::Taken);
    expire(m_kind, *engine, m_ids[0]);
    expire(m_kind, *engine, m_ids[1]);
    QVERIFY(areGranted(together(*engine, newTokens(*engine))));
}

/// That of a client which writes the end of its lease as the value.
void tst_Together::deadlineHasPassed()
{
    const auto engine = makeEngine(m_kind);
    // An hour ago: the servers' clocks are slow.
    const QByteArray deadline = QByteArray::number(QDateTime::currentDateTime().addSecs(-3600).toMSecsSinceEpoch());
    serverOf(m_kind, m_ids[0]).command({"SET", m_ids[0].key(), deadline});
    serverOf(m_kind, m_ids[1]).command({"SET", m_ids[1].key(), deadline});
    QCOMPARE(acquire(*engine, m_ids[2], newToken(*engine)).status, EngineReply::Granted);
    const QList<EngineReply> refused = together(*engine, newTokens(*engine));
    QVERIFY(refused[0].isFree);
    QVERIFY(refused[1].isFree);
    QVERIFY(!refused[2].isFree);
    serverOf(m_kind, m_ids[0]).command({"SET", m_ids[0].key(), deadline});
    expire(m_kind, *engine, m_ids[2]);
    QVERIFY(areGranted(together(*engine, newTokens(*engine))));
}

void tst_Together::deadWaiter()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray dead = newToken(*makeEngine(m_kind));
    const QByteArray queue = RedisKeys::queue(m_ids[1]);
    serverOf(m_kind, m_ids[1]).command({"ZADD", queue, "1", dead});
    QVERIFY(areGranted(together(*engine, newTokens(*engine))));
    QVERIFY(!serverOf(m_kind, m_ids[1]).exists(queue));
}

// One of them cannot be acquired although it is free.
void tst_Together::fails()
{
    const auto engine = makeEngine(m_kind);
    Support::RedisServer &server = serverOf(m_kind, m_ids[1]);
    server.command({"RPUSH", RedisKeys::fence(m_ids[1]), "1"});
    for (const bool isReader : {false, true}) {
        QList<QByteArray> tokens = newTokens(*engine);
        if (isReader)
            tokens[0] = Token::ofReader(tokens[0]);
        const QList<EngineReply> replies = together(*engine, tokens);
        QCOMPARE(replies[1].status, EngineReply::Failed);
        for (const int i : {0, 2})
            QVERIFY(replies[i].status == EngineReply::Taken && replies[i].isFree);
        QVERIFY(!isKept(0) && !isKept(1) && !isKept(2));
    }
    server.command({"DEL", RedisKeys::fence(m_ids[1])});
    QVERIFY(areGranted(together(*engine, newTokens(*engine))));
}

// With fair = false a free lock is taken although others wait.
void tst_Together::barging()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    QCOMPARE(acquire(*other, m_ids[2], newToken(*other)).status, EngineReply::Granted);
    const WaitingClient waiting = waitingClient(m_kind, m_ids[2], newToken);
    serverOf(m_kind, m_ids[2]).command({"DEL", m_ids[2].key()});
    QVERIFY(!areGranted(together(*engine, newTokens(*engine))));
    QVERIFY(areGranted(together(*engine, newTokens(*engine), true)));
}

void tst_Together::groupsAreApart()
{
    const auto engine = makeEngine(m_kind);
    // Two groups and a lock alone in one turn: the second one needs a lock that the first one gets.
    const QList<QByteArray> tokens{newToken(*engine), newToken(*engine), newToken(*engine), newToken(*engine),
                                   newToken(*engine)};
    const int locks[] = {0, 1, 1, 2, 2};
    const quint64 groups[] = {101, 101, 102, 102, 0};
    QList<EngineReply> replies(5);
    qsizetype arrived = 0;
    for (int i = 0; i < 5; ++i) {
        LockEngine::Acquire operation = acquireOf(m_ids[locks[i]], tokens[i], 30s);
        operation.together = groups[i];
        engine->acquire(operation, [&replies, &arrived, i](const EngineReply &reply) {
            replies[i] = reply;
            ++arrived;
        });
    }
    QVERIFY(LockTesting::eventually([&] { return arrived == 5; }));
    QCOMPARE(replies[0].status, EngineReply::Granted);
    QCOMPARE(replies[1].status, EngineReply::Granted);
    QCOMPARE(replies[2].status, EngineReply::Taken);
    QVERIFY(replies[3].isFree);
    QCOMPARE(replies[4].status, EngineReply::Granted);
}

// Then each lock is acquired with commands that name one key, and the caller gives back what it got.
void tst_Together::slotMoves()
{
    const auto engine = makeEngine(m_kind);
    const int slot = Support::clusterSlot(m_ids[0].key());
    const int target = (m_cluster->ownerOf(slot) + 1) % 3;
    QVERIFY(m_cluster->beginMove(slot, target));
    QList<QByteArray> tokens = newTokens(*engine);
    tokens[2] = Token::ofReader(tokens[2]);
    const QList<EngineReply> replies = together(*engine, tokens);
    QCOMPARE(replies[0].status, EngineReply::Granted);
    QCOMPARE(replies[1].status, EngineReply::Granted);
    QCOMPARE(replies[2].status, EngineReply::Failed);
    QVERIFY(!replies[2].error.isPermanent);
    QVERIFY(m_cluster->moveKeys(slot, target) >= 0);
    QVERIFY(m_cluster->endMove(slot, target));
    for (const int i : {0, 1})
        QCOMPARE(release(*engine, m_ids[i], tokens[i]).status, EngineReply::Done);
    QVERIFY(areGranted(together(*engine, newTokens(*engine))));
}

void tst_Together::differentSlots()
{
    LockRegistry registry(url(m_kind));
    MultiLock lock(&registry, {u"a"_s, u"b"_s});
    const LockResult failed = LockTesting::awaited(lock.acquireAsync());
    QCOMPARE(failed.error, DistributedLock::OptionsError);
    QVERIFY2(failed.errorString.contains(u"hash tag"_s), qPrintable(failed.errorString));
    QVERIFY(failed.errorString.contains(u"\"lock:b\""_s));
    for (int i = 0; i < m_cluster->nodeCount(); ++i)
        QCOMPARE(m_cluster->node(i).keys(), QList<QByteArray>());
    lock.setNames({u"{x}a"_s, u"{x}b"_s});
    const LockResult acquired = LockTesting::awaited(lock.acquireAsync());
    QVERIFY2(acquired.isAcquired(), qPrintable(acquired.errorString));
}

void tst_Together::addAllEngines()
{
    Support::addRows<int>("kind",
                          {{"redis", int(Redis)},
                           {"memory", int(Memory)},
                           {"sentinel", int(Sentinel)},
                           {"cluster", int(Cluster)},
                           {"scripts=off", int(Plain)},
                           {"quorum", int(Quorum)},
                           {"zookeeper", int(ZooKeeper)}});
}

/// Whatever the engine: they exclude each other, wait for each other, and leave nothing.
void tst_Together::multiLock()
{
    LockRegistry first(url(m_kind)), second(url(m_kind));
    MultiLock one(&first, {u"{x}c"_s, u"{x}a"_s, u"{x}b"_s}), two(&second, {u"{x}b"_s, u"{x}d"_s, u"{x}c"_s});
    one.setOptions(LockTesting::options());
    two.setOptions(LockTesting::options());
    QVERIFY2(LockTesting::awaited(one.acquireAsync()).isAcquired(), qPrintable(one.errorString()));
    for (int round = 0; round < 5; ++round) {
        MultiLock &holder = round % 2 == 0 ? one : two;
        MultiLock &waiter = round % 2 == 0 ? two : one;
        QCOMPARE(LockTesting::awaited(waiter.tryAcquireAsync()).error, DistributedLock::BusyError);
        const auto waiting = waiter.acquireAsync();
        QVERIFY(holder.isHeld());
        QVERIFY(LockTesting::releaseNow(&holder));
        QVERIFY(LockTesting::awaited(waiting).isAcquired());
        QVERIFY2(waiter.isHeld(), qPrintable(waiter.errorString()));
    }
    QVERIFY(LockTesting::releaseNow(&two));
    QCOMPARE(LockTesting::awaited(first.list(u"*"_s)).value.size(), 0);
}

void tst_Together::scope()
{
    const auto disconnected = qScopeGuard([] { // cleanup() waits for that
        LockService::instance()->close();
        LockService::instance()->open();
    });
    const QString prefix = u"{x}:"_s;
    const auto of = [this, &prefix](const QString &name) {
        return LockAddress(name).withKeyPrefix(prefix).withServer(url(m_kind));
    };
    ScopedMultiLock locks({of(u"b"_s), of(u"a"_s)}, LockTesting::options());
    QVERIFY2(locks, qPrintable(locks.result().errorString));
    QVERIFY(locks.fencingToken(of(u"a"_s)) > 0 && locks.fencingToken(of(u"b"_s)) > 0);
    LockRegistry registry(url(m_kind));
    registry.setKeyPrefix(prefix);
    MultiLock others(&registry, {u"b"_s, u"c"_s});
    QCOMPARE(LockTesting::awaited(others.tryAcquireAsync()).error, DistributedLock::BusyError);
    QVERIFY(locks.release());
    QVERIFY2(LockTesting::awaited(others.acquireAsync()).isAcquired(), qPrintable(others.errorString()));
    QVERIFY(LockTesting::releaseNow(&others));
    QCOMPARE(LockTesting::awaited(registry.list(u"*"_s)).value.size(), 0);
}

QTEST_GUILESS_MAIN(tst_Together)
#include "tst_together.moc"
