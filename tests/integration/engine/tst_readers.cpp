// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Readers and writers of one lock, on each engine that has them, and the refusals of the others.

#include "engine/redis/rediskeys.h"
#include "enginefixture.h"
#include "support/clusterslot.h"
#include "support/eventloopprobe.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace EngineTesting;
using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// For a function in which the lease of one holder or waiter ends on the server.
#define SKIP_WITHOUT_LEASES() \
  if (m_kind == ZooKeeper) \
  QSKIP("The other rows run this test. A lease ends on the server in it, and ZooKeeper has no leases: a dead client " \
        "loses its locks when its session ends, which tst_zookeeperreaders tests in deadReader().")

class tst_Readers : public QObject, private EngineFixture
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase_data()
    {
        addEnginesThatShare();
        QTest::newRow("zookeeper") << int(ZooKeeper);
    }
    void initTestCase() { startServer(); }
    void init();
    void cleanup() { waitForDisconnection(); }

    void readersHoldItTogether();
    void writerExcludesReaders();
    void readersOfOnePhaseShareAFencingToken();
    void readersEnterTogether();
    void readerDoesNotOvertakeAWriter();
    void readerIsServedInItsTurn();
    void manyReaders();
    void readerExpiresAlone();
    void deadReaderCostsAWriterItsLeaseAtMost();
    void writerWaitsForThoseThatAreLeft();
    void expiredReaderIsNotRenewed();
    void releaseLeavesTheOthers();
    void releaseOfOneThatIsNone();
    void claimKeepsTheFencingToken();
    void abandonedReader();
    void abandonedWriterLetsReadersIn();
    void deadWaitersAreSkipped();
    void manyDeadWaiters();
    void minHold();
    void barging();
    void bargingBehindThoseServed();
    void forceRelease();
    void forceReleaseOfOnePhase();
    void batches();
    void conversion();
    void conversionWhileTheSlotMoves();

private:
    static QByteArray newReader(LockEngine &engine) { return Token::ofReader(newToken(engine)); }
    using Client = WaitingClient;
    Client waitingClient(bool isReader, bool barge = false)
    {
        return EngineFixture::waitingClient(m_kind, m_id, isReader ? newReader : newToken, barge);
    }

    /// Whether this may be left of a lease of 30 s that has just begun. ZooKeeper knows no leases.
    bool isLeft(milliseconds remaining) const
    {
        return m_kind == ZooKeeper ? remaining < 0ms : remaining > 20s && remaining <= 30s;
    }

    const LockId m_id = lockId(u"a"_s);
    int m_kind = Redis;
};

void tst_Readers::init()
{
    QFETCH_GLOBAL(int, kind);
    m_kind = kind;
    prepare(m_kind);
}

void tst_Readers::readersHoldItTogether()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    const QList<QByteArray> readers{newReader(*engine), newReader(*engine), newReader(*other)};
    const auto engineOf = [&](const QByteArray &reader) -> LockEngine & {
        return Token::isOf(reader, engine->clientId()) ? *engine : *other;
    };
    for (const QByteArray &reader : readers)
        QCOMPARE(acquire(engineOf(reader), m_id, reader).status, EngineReply::Granted);
    const QByteArray writer = newToken(*other);
    const EngineReply taken = acquire(*other, m_id, writer);
    QCOMPARE(taken.status, EngineReply::Taken);
    QVERIFY(!taken.foreignHolder);
    QVERIFY(isLeft(taken.holderTtl));

    const LockInfo info = inspect(*other, m_id);
    QVERIFY(info.held);
    QVERIFY(!info.foreign);
    QCOMPARE(info.readerCount, 3);
    QCOMPARE(info.holders.size(), 3);
    QSet<QString> clients;
    for (const LockClient &client : info.holders)
        clients.insert(client.id);
    QCOMPARE(clients.size(), 2);
    QCOMPARE(info.holder.id, info.holders.first().id);
    QVERIFY(isLeft(info.remaining));
    QCOMPARE(names(*other, u"*"_s), QStringList{u"a"_s});

    for (const QByteArray &reader : readers) {
        QCOMPARE(acquire(*other, m_id, writer).status, EngineReply::Taken);
        QCOMPARE(renew(engineOf(reader), m_id, reader).status, EngineReply::Done);
        QCOMPARE(release(engineOf(reader), m_id, reader).status, EngineReply::Done);
    }
    QVERIFY(!inspect(*other, m_id).held);
    QCOMPARE(acquire(*other, m_id, writer).status, EngineReply::Granted);
    QCOMPARE(inspect(*other, m_id).readerCount, 0);
}

void tst_Readers::writerExcludesReaders()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray writer = newToken(*engine);
    const QByteArray reader = newReader(*engine);
    QCOMPARE(acquire(*engine, m_id, writer).status, EngineReply::Granted);
    const EngineReply taken = acquire(*engine, m_id, reader);
    QCOMPARE(taken.status, EngineReply::Taken);
    QVERIFY(isLeft(taken.holderTtl));
    QCOMPARE(renew(*engine, m_id, reader).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, reader).status, EngineReply::Stolen);
    QCOMPARE(renew(*engine, m_id, writer).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, writer).status, EngineReply::Done);
    QCOMPARE(acquire(*engine, m_id, reader).status, EngineReply::Granted);
    QCOMPARE(renew(*engine, m_id, writer).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, writer).status, EngineReply::Stolen);
}

void tst_Readers::readersOfOnePhaseShareAFencingToken()
{
    const auto engine = makeEngine(m_kind);
    qint64 last = 0;
    for (int phase = 0; phase < 3; ++phase) {
        const QByteArray writer = newToken(*engine);
        const qint64 before = acquire(*engine, m_id, writer).fencingToken;
        QVERIFY(before > last);
        release(*engine, m_id, writer);
        const QByteArray first = newReader(*engine), second = newReader(*engine), third = newReader(*engine);
        last = acquire(*engine, m_id, first).fencingToken;
        QVERIFY(last > before);
        QCOMPARE(acquire(*engine, m_id, second).fencingToken, last);
        release(*engine, m_id, first);
        QCOMPARE(acquire(*engine, m_id, third).fencingToken, last);
        QCOMPARE(inspect(*engine, m_id).fencingToken, last);
        release(*engine, m_id, second);
        release(*engine, m_id, third);
    }
    // Without a writer in between it is another phase all the same, unless the engine cannot know that nobody reads.
    const qint64 next = acquire(*engine, m_id, newReader(*engine)).fencingToken;
    QVERIFY(m_kind == ZooKeeper ? next >= last : next > last);
}

void tst_Readers::readersEnterTogether()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray writer = newToken(*engine);
    const EngineReply held = acquire(*engine, m_id, writer);
    std::vector<Client> clients;
    for (const bool isReader : {true, true, true, false, true}) {
        clients.push_back(waitingClient(isReader));
        QCOMPARE(clients.back().reply.queuePosition, int(clients.size()) - 1);
    }
    QCOMPARE(release(*engine, m_id, writer).status, EngineReply::Done);
    for (size_t i = 0; i < 3; ++i)
        EVENTUALLY_VERIFY(clients[i].isGranted());
    LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.readerCount, 3);
    QCOMPARE(info.queueLength, 2);
    if (m_kind != ZooKeeper) { // where they have it when they ask for it, and a node that is gone wakes a waiter
        QVERIFY(info.fencingToken > held.fencingToken);
        EVENTUALLY_COMPARE(clients[3].notices->list, QStringList{notice("next", clients[3].token)});
    }
    const qint64 phase = acquire(*clients[2].engine, m_id, clients[2].token).fencingToken;
    QVERIFY(phase > held.fencingToken);
    QCOMPARE(inspect(*engine, m_id).fencingToken, phase);
    for (size_t i = 0; i < 2; ++i)
        QCOMPARE(acquire(*clients[i].engine, m_id, clients[i].token).fencingToken, phase);
    for (size_t i = 0; i < 3; ++i) {
        QVERIFY(!clients[3].isGranted());
        QCOMPARE(release(*clients[i].engine, m_id, clients[i].token).status, EngineReply::Done);
    }
    EVENTUALLY_VERIFY(clients[3].isGranted());
    QVERIFY(!clients[4].isGranted());
    const EngineReply claimed = acquire(*clients[3].engine, m_id, clients[3].token);
    QVERIFY(claimed.fencingToken > phase);
    QCOMPARE(release(*clients[3].engine, m_id, clients[3].token).status, EngineReply::Done);
    EVENTUALLY_VERIFY(clients[4].isGranted());
}

void tst_Readers::readerDoesNotOvertakeAWriter()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray reader = newReader(*engine);
    QCOMPARE(acquire(*engine, m_id, reader).status, EngineReply::Granted);
    const Client writer = waitingClient(false);
    QCOMPARE(writer.reply.queuePosition, 0);
    const Client late = waitingClient(true);
    QCOMPARE(late.reply.status, EngineReply::Taken);
    QCOMPARE(late.reply.queuePosition, 1);
    QCOMPARE(acquire(*engine, m_id, newReader(*engine)).status, EngineReply::Taken); // without waiting
    QCOMPARE(inspect(*engine, m_id).readerCount, 1);
    QCOMPARE(release(*engine, m_id, reader).status, EngineReply::Done);
    EVENTUALLY_VERIFY(writer.isGranted());
    QVERIFY(!late.isGranted());
}

void tst_Readers::readerIsServedInItsTurn()
{
    // Those that would have served it are dead: each poll does.
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray writer = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, writer).status, EngineReply::Granted);
    const Client first = waitingClient(true);
    const Client second = waitingClient(true);
    expire(m_kind, *engine, m_id);
    const EngineReply reply = wait(*second.engine, m_id, second.token);
    QCOMPARE(reply.status, EngineReply::Granted);
    EVENTUALLY_VERIFY(first.isGranted());
    QCOMPARE(inspect(*engine, m_id).readerCount, 2);
    QCOMPARE(inspect(*engine, m_id).queueLength, 0);
}

void tst_Readers::manyReaders()
{
    if (m_kind == ZooKeeper)
        QSKIP("The other rows run this test. A script of Redis lets in at most 64 readers each time it runs, and the test "
              "shows that the rest follow. ZooKeeper has no such limit; tst_zookeeperreaders tests many readers there, in "
              "manyEnterTogether().");
    // More than one call of a script serves: the next ones are served when the first of them polls.
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray holder = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, holder).status, EngineReply::Granted);
    const auto client = makeListeningEngine(m_kind, m_id);
    Notices notices(*client);
    QList<QByteArray> readers;
    for (int i = 0; i < 150; ++i) {
        readers.append(newReader(*client));
        QCOMPARE(wait(*client, m_id, readers.last()).queuePosition, i);
    }
    QCOMPARE(release(*engine, m_id, holder).status, EngineReply::Done);
    for (int polls = 0; polls < 5 && inspect(*engine, m_id).queueLength > 0; ++polls) {
        QVERIFY(inspect(*engine, m_id).readerCount > 0);
        const QByteArray next = readers.at(inspect(*engine, m_id).readerCount);
        EVENTUALLY_VERIFY(notices.list.contains(notice("next", next)));
        QCOMPARE(acquire(*client, m_id, next).status, EngineReply::Granted);
    }
    for (const QByteArray &reader : std::as_const(readers))
        QCOMPARE(acquire(*client, m_id, reader).status, EngineReply::Granted);
    const LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.readerCount, 150);
    QCOMPARE(info.holders.size(), 32);
}

void tst_Readers::readerExpiresAlone()
{
    SKIP_WITHOUT_LEASES();
    const auto engine = makeEngine(m_kind);
    const QByteArray shortOne = newReader(*engine), longOne = newReader(*engine), writer = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, longOne, 1h).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, shortOne, 10min).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, m_id).readerCount, 2);
    pass(m_kind, 20min);
    QCOMPARE(inspect(*engine, m_id).readerCount, 1);
    QCOMPARE(renew(*engine, m_id, shortOne).status, EngineReply::Gone);
    QCOMPARE(acquire(*engine, m_id, writer).status, EngineReply::Taken);
    QCOMPARE(release(*engine, m_id, shortOne).status, EngineReply::Gone);
    QCOMPARE(renew(*engine, m_id, longOne, 10min).status, EngineReply::Done); // shorter than what is left
    QVERIFY(inspect(*engine, m_id).remaining <= 10min);
    pass(m_kind, 20min);
    QVERIFY(!inspect(*engine, m_id).held);
    QCOMPARE(acquire(*engine, m_id, writer).status, EngineReply::Granted);
}

void tst_Readers::deadReaderCostsAWriterItsLeaseAtMost()
{
    SKIP_WITHOUT_LEASES();
    const auto engine = makeListeningEngine(m_kind, m_id);
    auto dead = makeEngine(m_kind);
    QCOMPARE(acquire(*dead, m_id, newReader(*dead), 20min).status, EngineReply::Granted);
    const QByteArray alive = newReader(*engine);
    QCOMPARE(acquire(*engine, m_id, alive, 1h).status, EngineReply::Granted);
    dead.reset();
    const Client writer = waitingClient(false);
    QCOMPARE(release(*engine, m_id, alive).status, EngineReply::Done);
    pass(m_kind, 30min);
    QCOMPARE(wait(*writer.engine, m_id, writer.token).status, EngineReply::Granted);
}

void tst_Readers::writerWaitsForThoseThatAreLeft()
{
    SKIP_WITHOUT_LEASES();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray first = newReader(*engine), second = newReader(*engine), third = newReader(*engine);
    acquire(*engine, m_id, first, 3h);
    acquire(*engine, m_id, second, 2h);
    acquire(*engine, m_id, third, 1h);
    release(*engine, m_id, first); // while nobody waits
    const Client writer = waitingClient(false);
    QVERIFY(writer.reply.holderTtl > 1h);
    QVERIFY(writer.reply.holderTtl <= 2h);
    release(*engine, m_id, second);
    EVENTUALLY_VERIFY(writer.notices->pollAfter > 0ms);
    QVERIFY(writer.notices->pollAfter <= 1h);
}

void tst_Readers::expiredReaderIsNotRenewed()
{
    SKIP_WITHOUT_LEASES();
    const auto engine = makeEngine(m_kind);
    const QByteArray reader = newReader(*engine);
    QCOMPARE(acquire(*engine, m_id, reader, 10min).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, newReader(*engine), 1h).status, EngineReply::Granted); // keeps the key
    pass(m_kind, 20min);
    QCOMPARE(renew(*engine, m_id, reader).status, EngineReply::Gone);
    QCOMPARE(inspect(*engine, m_id).readerCount, 1);
}

void tst_Readers::releaseLeavesTheOthers()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray first = newReader(*engine), second = newReader(*engine);
    acquire(*engine, m_id, first, 1h);
    acquire(*engine, m_id, second, 10min);
    QCOMPARE(release(*engine, m_id, first).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, first).status, EngineReply::Gone);
    const LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.readerCount, 1);
    QVERIFY(m_kind == ZooKeeper || info.remaining <= 10min);
    QVERIFY(m_kind == ZooKeeper || info.remaining > 5min);
    QCOMPARE(renew(*engine, m_id, second).status, EngineReply::Done);
}

void tst_Readers::releaseOfOneThatIsNone()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray reader = newReader(*engine);
    QCOMPARE(renew(*engine, m_id, reader).status, EngineReply::Gone);
    QCOMPARE(release(*engine, m_id, reader).status, EngineReply::Gone);
    acquire(*engine, m_id, reader);
    QCOMPARE(renew(*engine, m_id, newReader(*engine)).status, EngineReply::Gone);
    QCOMPARE(release(*engine, m_id, newReader(*engine)).status, EngineReply::Gone);
    QCOMPARE(inspect(*engine, m_id).readerCount, 1);
}

void tst_Readers::claimKeepsTheFencingToken()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray first = newReader(*engine), second = newReader(*engine);
    const qint64 token = acquire(*engine, m_id, first).fencingToken;
    acquire(*engine, m_id, second);
    QCOMPARE(acquire(*engine, m_id, first).fencingToken, token); // after a lost reply
    QCOMPARE(acquire(*engine, m_id, second).fencingToken, token);
    QCOMPARE(inspect(*engine, m_id).readerCount, 2);
}

void tst_Readers::abandonedReader()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray first = newReader(*engine), second = newReader(*engine);
    acquire(*engine, m_id, first);
    acquire(*engine, m_id, second);
    const Client writer = waitingClient(false);
    engine->abandon(m_id, first, 30s, 0ms, 60s);
    EVENTUALLY_COMPARE(inspect(*engine, m_id).readerCount, 1);
    QVERIFY(!writer.isGranted());
    engine->abandon(m_id, second, 30s, 0ms, 60s);
    EVENTUALLY_VERIFY(writer.isGranted());
}

void tst_Readers::abandonedWriterLetsReadersIn()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    acquire(*engine, m_id, newReader(*engine));
    const Client writer = waitingClient(false);
    const Client first = waitingClient(true);
    const Client second = waitingClient(true);
    const qint64 fence = inspect(*engine, m_id).fencingToken;
    writer.engine->abandon(m_id, writer.token, 30s, 0ms, 60s);
    EVENTUALLY_VERIFY(first.isGranted());
    EVENTUALLY_VERIFY(second.isGranted());
    QCOMPARE(inspect(*engine, m_id).readerCount, 3);
    QCOMPARE(acquire(*first.engine, m_id, first.token).fencingToken, fence); // the same phase
}

void tst_Readers::deadWaitersAreSkipped()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray reader = newReader(*engine);
    acquire(*engine, m_id, reader);
    Client deadWriter = waitingClient(false);
    Client deadReader = waitingClient(true);
    const Client alive = waitingClient(true);
    const Client writer = waitingClient(false);
    for (Client *const client : {&deadWriter, &deadReader}) {
        client->notices.reset();
        client->engine.reset(); // its token stays in the queue
    }
    // In ZooKeeper its node has gone with its session, and the reader behind it may enter.
    EVENTUALLY_COMPARE(inspect(*engine, m_id).queueLength, m_kind == ZooKeeper ? 1 : 4);
    QCOMPARE(wait(*alive.engine, m_id, alive.token).status, EngineReply::Granted); // by its poll
    QCOMPARE(inspect(*engine, m_id).queueLength, 1);
    QVERIFY(!writer.isGranted());
    QCOMPARE(release(*engine, m_id, reader).status, EngineReply::Done);
    QCOMPARE(release(*alive.engine, m_id, alive.token).status, EngineReply::Done);
    EVENTUALLY_VERIFY(writer.isGranted());
}

void tst_Readers::manyDeadWaiters()
{
    if (m_kind == Memory || m_kind == ZooKeeper)
        QSKIP("The rows of Redis and of the cluster run this test. It writes dead waiters into the queue with a Redis "
              "command. With memory: a waiter is dead if its engine was destroyed, which deadWaitersAreSkipped() tests; "
              "with ZooKeeper if its session has ended, which tst_zookeeperreaders tests in deadReader().");
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray writer = newToken(*engine);
    acquire(*engine, m_id, writer);
    const Client first = waitingClient(true);
    const QByteArray behind = QByteArray::number(first.reply.arrival.toLongLong() + 1);
    for (int i = 0; i < 600; ++i)
        serverOf(m_kind, m_id)
                .command({"ZADD", RedisKeys::queue(m_id), behind, "rdead:" + QByteArray::number(i) + ":0"});
    const Client last = waitingClient(true);
    QCOMPARE(release(*engine, m_id, writer).status, EngineReply::Done);
    EVENTUALLY_VERIFY(first.isGranted());
    QCOMPARE(inspect(*engine, m_id).readerCount, 1); // it still has the lock
    EVENTUALLY_VERIFY(last.notices->pollAfter >= 0ms);
    QCOMPARE(wait(*last.engine, m_id, last.token, last.reply.arrival).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, m_id).readerCount, 2);
}

void tst_Readers::minHold()
{
    SKIP_WITHOUT_LEASES();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray first = newReader(*engine), second = newReader(*engine);
    acquire(*engine, m_id, first, 1h);
    acquire(*engine, m_id, second, 1h);
    QCOMPARE(release(*engine, m_id, first, 20min).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, second).status, EngineReply::Done);
    QCOMPARE(inspect(*engine, m_id).readerCount, 1);
    QVERIFY(inspect(*engine, m_id).remaining <= 20min);
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Taken);
    QCOMPARE(acquire(*engine, m_id, newReader(*engine), 1min).status, EngineReply::Granted);
    pass(m_kind, 30min);
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Granted);
}

void tst_Readers::barging()
{
    SKIP_WITHOUT_BARGING();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray reader = newReader(*engine);
    acquire(*engine, m_id, reader);
    const Client writer = waitingClient(false);
    const QByteArray barger = newReader(*engine);
    QCOMPARE(wait(*engine, m_id, barger, {}, true).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, m_id).readerCount, 2);
    release(*engine, m_id, reader);
    QVERIFY(!writer.isGranted());
    release(*engine, m_id, barger);
    EVENTUALLY_VERIFY(writer.isGranted());
    // Only woken, and not served.
    Notices notices(*engine);
    QCOMPARE(wait(*engine, m_id, barger, {}, true).status, EngineReply::Taken);
    QCOMPARE(release(*writer.engine, m_id, writer.token).status, EngineReply::Done);
    EVENTUALLY_COMPARE(notices.list, QStringList{notice("grant", barger)});
    QVERIFY(!inspect(*engine, m_id).held);
    QCOMPARE(wait(*engine, m_id, barger, {}, true).status, EngineReply::Granted);
}

void tst_Readers::bargingBehindThoseServed()
{
    SKIP_WITHOUT_BARGING();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray writer = newToken(*engine);
    acquire(*engine, m_id, writer);
    const Client reader = waitingClient(true);
    const Client barger = waitingClient(true, true);
    const Client last = waitingClient(true);
    QCOMPARE(release(*engine, m_id, writer).status, EngineReply::Done);
    EVENTUALLY_VERIFY(barger.isGranted()); // woken
    EVENTUALLY_VERIFY(reader.isGranted());
    QVERIFY(inspect(*engine, m_id).held);
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Taken);
    QCOMPARE(renew(*reader.engine, m_id, reader.token).status, EngineReply::Done);
    EVENTUALLY_VERIFY(last.notices->pollAfter >= 0ms);
    QVERIFY(last.notices->pollAfter <= 1ms);
    QCOMPARE(wait(*last.engine, m_id, last.token, last.reply.arrival).status, EngineReply::Granted);
}

void tst_Readers::forceRelease()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    Notices notices(*engine);
    const QByteArray first = newReader(*engine), second = newReader(*engine);
    acquire(*engine, m_id, first);
    acquire(*engine, m_id, second);
    const Client writer = waitingClient(false);
    const Client reader = waitingClient(true);
    QVERIFY(EngineFixture::forceRelease(*engine, m_id));
    EVENTUALLY_VERIFY(notices.list.contains(notice("force", first)) && notices.list.contains(notice("force", second)));
    EVENTUALLY_VERIFY(writer.isGranted());
    QVERIFY(!reader.isGranted());
    QCOMPARE(inspect(*engine, m_id).readerCount, 0);
    for (const QByteArray &former : {first, second})
        QCOMPARE(renew(*engine, m_id, former).status, EngineReply::Stolen);
    QVERIFY(EngineFixture::forceRelease(*engine, m_id)); // now the writer
    EVENTUALLY_VERIFY(reader.isGranted());
    QCOMPARE(inspect(*engine, m_id).readerCount, 1);
    QCOMPARE(renew(*engine, m_id, first).status, EngineReply::Gone);
}

void tst_Readers::forceReleaseOfOnePhase()
{
    const auto engine = makeEngine(m_kind);
    const auto release = [&](qint64 token) {
        EngineReply result;
        bool done = false;
        engine->forceRelease(m_id, token, [&](const EngineReply &reply) {
            result = reply;
            done = true;
        });
        if (!Support::EventLoopProbe::waitFor([&] { return done; }))
            qFatal("no answer");
        return result.status;
    };
    const QByteArray first = newReader(*engine), second = newReader(*engine);
    const qint64 token = acquire(*engine, m_id, first).fencingToken;
    acquire(*engine, m_id, second);
    QCOMPARE(release(token - 1), EngineReply::Stolen);
    QCOMPARE(inspect(*engine, m_id).readerCount, 2);
    QCOMPARE(release(token), EngineReply::Done);
    QVERIFY(!inspect(*engine, m_id).held);
    QCOMPARE(release(token), EngineReply::Gone);
}

void tst_Readers::batches()
{
    // Readers and writers of one event loop turn share no command, and keep their order.
    const auto engine = makeEngine(m_kind);
    QList<QByteArray> tokens;
    QHash<int, EngineReply> replies;
    for (int i = 0; i < 30; ++i) {
        tokens.append(i % 3 == 2 ? newToken(*engine) : newReader(*engine));
        engine->acquire(acquireOf(lockId(QString::number(i / 3)), tokens.last(), 30s),
                        [&replies, i](const EngineReply &reply) { replies.insert(i, reply); });
    }
    EVENTUALLY_COMPARE(replies.size(), 30);
    for (int i = 0; i < 30; ++i)
        QCOMPARE(replies[i].status, i % 3 == 2 ? EngineReply::Taken : EngineReply::Granted);
    Replies renewals;
    for (int i = 0; i < 30; ++i)
        engine->renew(lockId(QString::number(i / 3)), tokens.at(i), 30s, {}, renewals.next());
    EVENTUALLY_COMPARE(renewals.list.size(), 30);
    Replies releases;
    for (int i = 0; i < 30; ++i)
        engine->release(lockId(QString::number(i / 3)), tokens.at(i), 30s, 0ms, releases.next());
    EVENTUALLY_COMPARE(releases.list.size(), 30);
    const auto count = [](const Replies &of, EngineReply::Status status) {
        return std::count_if(of.list.begin(), of.list.end(),
                             [status](const EngineReply &reply) { return reply.status == status; });
    };
    for (const Replies *const of : {&renewals, &releases})
        QCOMPARE(count(*of, EngineReply::Done), 20);
    QCOMPARE(count(renewals, EngineReply::Stolen), 10);
    QCOMPARE(names(*engine, u"*"_s), QStringList());
}

void tst_Readers::conversion()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray writer = newToken(*engine), reader = newReader(*engine), other = newReader(*engine);
    if (m_kind == ZooKeeper) {
        QCOMPARE(acquire(*engine, m_id, writer).status, EngineReply::Granted);
        const EngineReply refused = convert(*engine, m_id, writer, reader);
        QCOMPARE(refused.status, EngineReply::Failed);
        QCOMPARE(refused.error.code, DistributedLock::OptionsError);
        QVERIFY2(refused.error.text.contains(u"redis://"_s), qPrintable(refused.error.text));
        QCOMPARE(renew(*engine, m_id, writer).status, EngineReply::Done);
        QCOMPARE(inspect(*engine, m_id).queueLength, 0);
        return;
    }
    QCOMPARE(convert(*engine, m_id, writer, reader).status, EngineReply::Gone);
    qint64 last = acquire(*engine, m_id, writer).fencingToken;
    QCOMPARE(convert(*engine, m_id, newToken(*engine), reader).status, EngineReply::Stolen);
    EngineReply reply = convert(*engine, m_id, writer, reader);
    QCOMPARE(reply.status, EngineReply::Granted);
    QVERIFY(reply.fencingToken > last);
    last = reply.fencingToken;
    QCOMPARE(renew(*engine, m_id, writer).status, EngineReply::Stolen);
    QCOMPARE(acquire(*engine, m_id, other).fencingToken, last);
    QCOMPARE(convert(*engine, m_id, reader, writer).status, EngineReply::Taken);
    QCOMPARE(inspect(*engine, m_id).readerCount, 2);
    QCOMPARE(release(*engine, m_id, other).status, EngineReply::Done);
    reply = convert(*engine, m_id, reader, writer);
    QCOMPARE(reply.status, EngineReply::Granted);
    QVERIFY(reply.fencingToken > last);
    QCOMPARE(renew(*engine, m_id, reader).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, writer).status, EngineReply::Done);
}

void tst_Readers::conversionWhileTheSlotMoves()
{
    SKIP_WITHOUT_SLOTS();
    // The script would find all keys of the lock, and could not make its key again.
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray writer = newToken(*engine), reader = newReader(*engine);
    QCOMPARE(acquire(*engine, m_id, writer).status, EngineReply::Granted);
    const Client waiting = waitingClient(true);
    const int slot = Support::clusterSlot(m_id.key());
    const int target = (m_cluster->ownerOf(slot) + 1) % 3;
    QVERIFY(m_cluster->beginMove(slot, target));
    const EngineReply reply = convert(*engine, m_id, writer, reader);
    QVERIFY(m_cluster->stopMove(slot, target));
    QCOMPARE(reply.status, EngineReply::Failed);
    QVERIFY(reply.error && !reply.error.isPermanent);
    QCOMPARE(renew(*engine, m_id, writer).status, EngineReply::Done);
    QVERIFY(!waiting.isGranted());
}

QTEST_GUILESS_MAIN(tst_Readers)
#include "tst_readers.moc"
