// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The promises of LockEngine, checked on each engine.

#include "base/leaseclock.h"
#include "engine/redis/rediskeys.h"
#include "enginefixture.h"
#include "enginenotices.h"
#include "support/clusterslot.h"
#include "support/eventloopprobe.h"
#include "support/rows.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qthread.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>

using namespace Qt::StringLiterals;

using namespace EngineTesting;
using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

#define SKIP_WITHOUT_QUEUE() \
  if (m_kind == Plain) \
  QSKIP("This test is about the queue, and a server without scripts keeps none: tst_plainmode tests how clients wait " \
        "there.")

#define SKIP_WITHOUT_PLACES_TO_GIVE() \
  if (m_kind == ZooKeeper) \
  QSKIP("This test hands a place in the queue to another client, or keeps it for one that is away. ZooKeeper cannot: " \
        "a place there is a node that belongs to one session, and is deleted with it.")

class tst_EngineConformance : public QObject, private EngineFixture
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase_data()
    {
        Support::addRows<int>("kind",
                              {{"redis", int(Redis)},
                               {"memory", int(Memory)},
                               {"sentinel", int(Sentinel)},
                               {"cluster", int(Cluster)},
                               {"plain", int(Plain)},
                               {"quorum", int(Quorum)},
                               {"zookeeper", int(ZooKeeper)}});
    }
    void initTestCase() { startServer(); }
    void init();
    void cleanup() { waitForDisconnection(); }

    void acquireAndRelease();
    void taken();
    void acquireAgainWithTheSameToken();
    void renewal();
    void anotherToken();
    void expiry();
    void minHold();
    void abandonGivesBack();
    void abandonInTheSameTurn();
    void abandonKeeps();
    void abandonOfAnothersTouchesNothing();
    void fencingTokensRise();
    void inspect();
    void findHolder();
    void list();
    void globs();
    void forceRelease();
    void forceReleaseOfOneHolder();
    void waiters();
    void releaseOfAnothersToken();
    void waitersAreServedInOrder();
    void handOverToAWaiterOfTheSameClient();
    void newcomerDoesNotOvertake();
    void placeIsKept();
    void abandonOfTheHead();
    void abandonHandsOver();
    void deadWaitersAreSkipped();
    void barging();
    void forceReleaseHandsOver();
    void keptKeyIsNotHandedOver();
    void batches_data();
    void batches();
    void orderIsKept();
    void namesAreExact();
    void neverInsideTheCall();
    void destroyedBeforeTheAnswer();
    void manyContend();
    void threadsContend();

private:
    using EngineFixture::forceRelease;
    using EngineFixture::inspect;

    /// Whether this is the time left of a lock that was acquired for \a lease. ZooKeeper knows no leases.
    bool isTimeLeft(milliseconds remaining, milliseconds lease) const
    {
        return m_kind == ZooKeeper ? remaining < 0ms : remaining > 0ms && remaining <= lease;
    }

    const LockId m_id = lockId(u"a"_s);
    int m_kind = Redis;
};

void tst_EngineConformance::init()
{
    QFETCH_GLOBAL(int, kind);
    m_kind = kind;
    prepare(m_kind);
}

void tst_EngineConformance::acquireAndRelease()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    const EngineReply granted = acquire(*engine, m_id, token);
    QCOMPARE(granted.status, EngineReply::Granted);
    QVERIFY(granted.fencingToken > 0);
    QVERIFY(!granted.error);
    QCOMPARE(release(*engine, m_id, token).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, token).status, EngineReply::Gone);
    QCOMPARE(renew(*engine, m_id, token).status, EngineReply::Gone);
}

void tst_EngineConformance::taken()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, token, 20s).status, EngineReply::Granted);
    for (LockEngine *client : {engine.get(), other.get()}) {
        const EngineReply reply = acquire(*client, m_id, newToken(*client), 50s);
        QCOMPARE(reply.status, EngineReply::Taken);
        QVERIFY(isTimeLeft(reply.holderTtl, 20s));
        QCOMPARE(reply.foreignHolder, false);
        QCOMPARE(reply.fencingToken, 0);
    }
    QCOMPARE(acquire(*other, lockId(u"b"_s), newToken(*other)).status, EngineReply::Granted);
    QCOMPARE(release(*engine, m_id, token).status, EngineReply::Done);
    const auto again = [&] { return acquire(*other, m_id, newToken(*other)).status; };
    if (m_kind == Quorum) // a majority has released it; for the others the command may be on its way
        EVENTUALLY_COMPARE(again(), EngineReply::Granted);
    else
        QCOMPARE(again(), EngineReply::Granted);
}

void tst_EngineConformance::acquireAgainWithTheSameToken()
{
    // A resend after a lost reply.
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    const EngineReply first = acquire(*engine, m_id, token, 5s);
    const EngineReply second = acquire(*engine, m_id, token, 60s);
    QCOMPARE(second.status, EngineReply::Granted);
    QVERIFY(second.fencingToken > first.fencingToken
            || (m_kind == ZooKeeper && second.fencingToken == first.fencingToken));
    QCOMPARE(inspect(*engine, m_id).fencingToken, second.fencingToken);
    if (m_kind != ZooKeeper)
        QVERIFY(inspect(*engine, m_id).remaining > 30s);
}

void tst_EngineConformance::renewal()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, token, 5s).status, EngineReply::Granted);
    QCOMPARE(renew(*engine, m_id, token, 60s).status, EngineReply::Done);
    const milliseconds remaining = inspect(*engine, m_id).remaining;
    QVERIFY(isTimeLeft(remaining, 60s));
    if (m_kind != ZooKeeper)
        QVERIFY(remaining > 30s);
    QCOMPARE(renew(*engine, m_id, token, 5s).status, EngineReply::Done); // shorter as well
    QVERIFY(isTimeLeft(inspect(*engine, m_id).remaining, 5s));
}

void tst_EngineConformance::anotherToken()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray holder = newToken(*engine);
    const QByteArray other = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, holder, 20s).status, EngineReply::Granted);
    QCOMPARE(renew(*engine, m_id, other, 60s).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, other).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, other, 60s).status, EngineReply::Stolen);
    const LockInfo info = inspect(*engine, m_id);
    QVERIFY(info.held);
    QVERIFY(info.remaining <= 20s);
    QCOMPARE(renew(*engine, m_id, holder).status, EngineReply::Done);
}

void tst_EngineConformance::expiry()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, token, 30s).status, EngineReply::Granted);
    const LockInfo info = inspect(*engine, m_id);
    QVERIFY(info.held);
    QVERIFY(isTimeLeft(info.remaining, 30s));
    expire(m_kind, *engine, m_id);
    QCOMPARE(renew(*engine, m_id, token).status, EngineReply::Gone);
    QCOMPARE(release(*engine, m_id, token).status, EngineReply::Gone);
    QCOMPARE(names(*engine, u"*"_s), QStringList());
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Granted);
}

void tst_EngineConformance::minHold()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, token, 60s).status, EngineReply::Granted);
    QCOMPARE(release(*engine, m_id, token, 20s).status, EngineReply::Done);
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Taken);
    const LockInfo info = inspect(*engine, m_id);
    QVERIFY(info.held);
    QVERIFY(isTimeLeft(info.remaining, 20s)); // not what was left of the lease
    expire(m_kind, *engine, m_id);
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Granted);
}

void tst_EngineConformance::abandonGivesBack()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, token).status, EngineReply::Granted);
    engine->abandon(m_id, token, 60s, 0ms, 60s);
    EVENTUALLY_VERIFY(!inspect(*engine, m_id).held);
}

void tst_EngineConformance::abandonInTheSameTurn()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    Replies replies;
    engine->acquire(acquireOf(m_id, token, 60s), replies.next());
    engine->abandon(m_id, token, 60s, 0ms, 60s);
    EVENTUALLY_COMPARE(replies.list.size(), 1);
    if (m_kind != Quorum && m_kind != ZooKeeper) // which ask no further then
        QCOMPARE(replies.list.first().status, EngineReply::Granted);
    EVENTUALLY_VERIFY(!inspect(*engine, m_id).held);
}

void tst_EngineConformance::abandonKeeps()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, token, 600s).status, EngineReply::Granted);
    engine->abandon(m_id, token, 600s, 30s, 600s);
    EVENTUALLY_VERIFY(inspect(*engine, m_id).remaining <= 30s);
    QVERIFY(inspect(*engine, m_id).held);
}

void tst_EngineConformance::abandonOfAnothersTouchesNothing()
{
    const auto engine = makeEngine(m_kind);
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Granted);
    engine->abandon(m_id, newToken(*engine), 60s, 0ms, 60s);
    QCOMPARE(release(*engine, m_id, newToken(*engine)).status, EngineReply::Stolen); // runs after it
    QVERIFY(inspect(*engine, m_id).held);
}

void tst_EngineConformance::fencingTokensRise()
{
    const std::array clients{makeEngine(m_kind), makeEngine(m_kind), makeEngine(m_kind)};
    qint64 last = 0;
    for (size_t i = 0; i < 300; ++i) {
        LockEngine &engine = *clients[i % clients.size()];
        const QByteArray token = newToken(engine);
        const EngineReply reply = acquire(engine, m_id, token);
        QCOMPARE(reply.status, EngineReply::Granted);
        QVERIFY(reply.fencingToken > last);
        QVERIFY(reply.fencingToken < (1LL << 53)); // exact as a double, for Lua and JavaScript
        last = reply.fencingToken;
        QCOMPARE(release(engine, m_id, token).status, EngineReply::Done);
        QCOMPARE(inspect(engine, m_id).fencingToken, m_kind == ZooKeeper ? 0 : last); // where the node is gone
    }
}

void tst_EngineConformance::inspect()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    LockInfo info = inspect(*other, m_id);
    QVERIFY(!info.held);
    QVERIFY(!info.foreign);
    QVERIFY(info.holder.id.isEmpty());
    QCOMPARE(info.fencingToken, 0);
    QCOMPARE(info.queueLength, 0);
    QCOMPARE(info.remaining, 0ms);
    const EngineReply granted = acquire(*engine, m_id, newToken(*engine), 20s);
    info = inspect(*other, m_id);
    QVERIFY(info.held);
    QVERIFY(!info.foreign);
    QCOMPARE(info.holder.id.toLatin1(), engine->clientId());
    QCOMPARE(info.fencingToken, granted.fencingToken);
    QVERIFY(isTimeLeft(info.remaining, 20s));
    QCOMPARE(info.error, DistributedLock::NoError);
    QCOMPARE(info.holder.pid, QCoreApplication::applicationPid());
    QCOMPARE(info.holder.application, QCoreApplication::applicationName());
    QVERIFY(!info.holder.host.isEmpty());
    QVERIFY(info.holder.connected);
}

void tst_EngineConformance::findHolder()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    std::optional<LockInfo> info;
    int calls = 0;
    const auto find = [&](const QByteArray &waiter) {
        return other->findHolder({m_id, waiter}, [&](const std::optional<LockInfo> &holder) {
            info = holder;
            ++calls;
        });
    };
    QVERIFY(find(newToken(*other)));
    QCOMPARE(calls, 0); // never inside the call
    EVENTUALLY_COMPARE(calls, 1);
    QVERIFY(info && !info->held);
    acquire(*engine, m_id, token, 20s);
    QVERIFY(find(newToken(*other)));
    EVENTUALLY_COMPARE(calls, 2);
    QVERIFY(info && info->held && !info->foreign && info->holder.connected);
    QCOMPARE(info->holder.id.toLatin1(), engine->clientId());
    QCOMPARE(info->holder.pid, QCoreApplication::applicationPid());
    QVERIFY(isTimeLeft(info->remaining, 20s));
    if (m_kind != Memory && m_kind != ZooKeeper) { // the server has handed the lock over to the waiter that gives up
        QVERIFY(find(token));
        EVENTUALLY_COMPARE(calls, 3);
        QVERIFY(!info);
    }
}

void tst_EngineConformance::list()
{
    const auto engine = makeEngine(m_kind);
    QCOMPARE(names(*engine, u"*"_s), QStringList());
    Replies replies;
    QStringList expected;
    for (int i = 0; i < 1500; ++i) { // over several steps of SCAN
        const QString name = u"n%1"_s.arg(i);
        expected.append(name);
        engine->acquire(acquireOf(lockId(name), newToken(*engine), 600s), replies.next());
    }
    engine->acquire(acquireOf(lockId(u"n1"_s, u"other:"_s), newToken(*engine), 60s), replies.next());
    engine->acquire(acquireOf(lockId(u"{tag}"_s), newToken(*engine), 60s), replies.next());
    EVENTUALLY_COMPARE(replies.list.size(), 1502);
    expected.append(u"{tag}"_s);
    expected.sort();
    QCOMPARE(names(*engine, u"*"_s), expected); // no side id
    QCOMPARE(names(*engine, u"n7"_s), QStringList{u"n7"_s});
    QCOMPARE(names(*engine, u"n149?"_s).size(), 10);
    QCOMPARE(names(*engine, u"none"_s), QStringList());
    QCOMPARE(names(*engine, u"*"_s, u"other:"_s), QStringList{u"n1"_s});
    QCOMPARE(names(*engine, u"*"_s, u"lock*"_s), QStringList()); // a prefix is no pattern

    LockInfo info;
    engine->list(u"lock:"_s, u"n7"_s,
                 [&](const EngineError &, const QList<LockInfo> &infos) { info = infos.value(0); });
    EVENTUALLY_COMPARE(info.name, u"n7"_s);
    QVERIFY(info.held);
    QCOMPARE(info.holder.id.toLatin1(), engine->clientId());
    QCOMPARE(info.fencingToken, inspect(*engine, lockId(u"n7"_s)).fencingToken);
    QVERIFY(info.fencingToken > 0);
    QVERIFY(isTimeLeft(info.remaining, 600s));
}

void tst_EngineConformance::globs()
{
    const auto engine = makeEngine(m_kind);
    Replies replies;
    const QStringList all{u"a"_s,    u"ab"_s,  u"abc"_s,  u"b"_s, u"a*b"_s, u"a[b]"_s,
                          u"a\\b"_s, u"a-b"_s, u"a\nb"_s, u"ä"_s, u"^"_s};
    for (const QString &name : all)
        engine->acquire(acquireOf(lockId(name), newToken(*engine), 60s), replies.next());
    EVENTUALLY_COMPARE(replies.list.size(), all.size());
    const auto match = [&](const char *pattern) { return names(*engine, QString::fromUtf8(pattern)); };
    const auto list = [](std::initializer_list<const char *> names) {
        QStringList texts;
        for (const char *name : names)
            texts.append(QString::fromUtf8(name));
        texts.sort();
        return texts;
    };
    QCOMPARE(match("*").size(), all.size());
    QCOMPARE(match("**").size(), all.size());
    QCOMPARE(match(""), QStringList());
    QCOMPARE(match("a"), list({"a"}));
    QCOMPARE(match("?"), list({"a", "b", "^"})); // ä is two bytes
    QCOMPARE(match("??"), list({"ab", "ä"}));
    QCOMPARE(match("a?b"), list({"a*b", "a\\b", "a-b", "a\nb"}));
    QCOMPARE(match("a*b"), list({"ab", "a*b", "a\\b", "a-b", "a\nb"}));
    QCOMPARE(match("a\\*b"), list({"a*b"}));
    QCOMPARE(match("a[*]b"), list({"a*b"}));
    QCOMPARE(match("[ab]"), list({"a", "b"}));
    QCOMPARE(match("[a-b]"), list({"a", "b"}));
    QCOMPARE(match("[b-a]"), list({"a", "b"}));
    QCOMPARE(match("[^a]"), list({"b", "^"}));
    QCOMPARE(match("[!a]"), list({"a"})); // not a negation here
    QCOMPARE(match("a\\[b\\]"), list({"a[b]"}));
    QCOMPARE(match("a[\\[]b[\\]]"), list({"a[b]"}));
    QCOMPARE(match("a\\\\b"), list({"a\\b"}));
    QCOMPARE(match("a[\\\\]b"), list({"a\\b"}));
    QCOMPARE(match("[]a]"), QStringList());   // an empty set
    QCOMPARE(match("[ab"), list({"a", "b"})); // not closed
    QCOMPARE(match("["), QStringList());
    QCOMPARE(match("a("), QStringList());
    QCOMPARE(match("*c"), list({"abc"}));
    QCOMPARE(match("*?c"), list({"abc"}));
    QCOMPARE(match("ä"), list({"ä"}));
    QCOMPARE(match("(a|b)"), QStringList());
    QCOMPARE(match("a.*"), QStringList());
    QCOMPARE(match("A"), QStringList());
}

void tst_EngineConformance::forceRelease()
{
    const auto holder = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    QVERIFY(!forceRelease(*other, m_id));

    QSignalSpy notices(holder.get(), &LockEngine::noticed);
    QSignalSpy others(other.get(), &LockEngine::noticed);
    QByteArray token;
    // The notice is a hint: the channel may not be subscribed yet when it is sent.
    for (int attempt = 0; attempt < 100 && notices.isEmpty(); ++attempt) {
        token = newToken(*holder);
        QCOMPARE(acquire(*holder, m_id, token).status, EngineReply::Granted);
        QVERIFY(forceRelease(*other, m_id));
        QVERIFY(!inspect(*other, m_id).held);
        QCOMPARE(renew(*holder, m_id, token).status, EngineReply::Gone);
    }
    EVENTUALLY_VERIFY(!notices.isEmpty());
    QCOMPARE(notices.last().at(0).value<LockEngine::Notice>(), LockEngine::ForcedRelease);
    QVERIFY(notices.last().at(1).toULongLong() <= Token::sequenceOf(token));
    QVERIFY(notices.last().at(1).toULongLong() > 0);
    QVERIFY(others.isEmpty());
}

// The lock is taken away from the holder that is meant, and from nobody else.
void tst_EngineConformance::forceReleaseOfOneHolder()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeEngine(m_kind);
    const auto other = makeListeningEngine(m_kind, m_id);
    const auto force = [&](qint64 fencingToken) {
        Replies replies;
        other->forceRelease(m_id, fencingToken, replies.next());
        Support::EventLoopProbe::waitFor([&] { return !replies.list.isEmpty(); });
        return replies.list.value(0).status;
    };
    QCOMPARE(force(1), EngineReply::Gone);
    const QByteArray holder = newToken(*engine);
    const QByteArray successor = newToken(*other);
    const EngineReply held = acquire(*engine, m_id, holder);
    QCOMPARE(wait(*other, m_id, successor).queuePosition, 0);
    QCOMPARE(force(held.fencingToken + 1), EngineReply::Stolen);
    QCOMPARE(force(-1), EngineReply::Stolen);
    QCOMPARE(renew(*engine, m_id, holder).status, EngineReply::Done);
    // The lock passes to the waiter just before the request arrives.
    QCOMPARE(release(*engine, m_id, holder).status, EngineReply::Done);
    QCOMPARE(force(held.fencingToken), EngineReply::Stolen);
    const EngineReply next = acquire(*other, m_id, successor);
    QCOMPARE(next.status, EngineReply::Granted);
    QCOMPARE(force(next.fencingToken), EngineReply::Done);
    QCOMPARE(force(next.fencingToken), EngineReply::Gone);
    QVERIFY(!inspect(*engine, m_id).held);
}

void tst_EngineConformance::waiters()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const auto ask = [&](int atMost) {
        QList<LockWaiter> found;
        bool done = false;
        engine->waiters(m_id, atMost, [&](const EngineError &error, const QList<LockWaiter> &waiters) {
            done = !error;
            found = waiters;
        });
        Support::EventLoopProbe::waitFor([&] { return done; });
        return found;
    };
    QVERIFY(ask(10).isEmpty());
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Granted);
    QVERIFY(ask(10).isEmpty());
    QCOMPARE(wait(*other, m_id, newToken(*other)).queuePosition, 0);
    QCOMPARE(wait(*engine, m_id, newToken(*engine), {}, true).queuePosition, 1); // only waits to be woken
    if (m_kind != Memory && m_kind != ZooKeeper) {
        Support::RedisServer &server = serverOf(m_kind, m_id);
        server.command({"ZADD", "{lock:a}:queue", "0", "not a token"});
        server.command({"ZADD", "{lock:a}:queue", "-inf", other->clientId() + ":77:ab"});
        server.command({"ZADD", "{lock:a}:queue", "1e300", other->clientId() + ":78:ab"});
        const QList<LockWaiter> forged = ask(10);
        QCOMPARE(forged.size(), 4);
        for (const LockWaiter &waiter : forged)
            QVERIFY(waiter.waited >= 0ms);
        server.command(
                {"ZREM", "{lock:a}:queue", "not a token", other->clientId() + ":77:ab", other->clientId() + ":78:ab"});
    }
    const QList<LockWaiter> found = ask(10);
    QCOMPARE(found.size(), 2);
    QCOMPARE(found.at(0).position, 0);
    QCOMPARE(found.at(0).client.id.toLatin1(), other->clientId());
    QCOMPARE(found.at(1).position, 1);
    QCOMPARE(found.at(1).client.id.toLatin1(), engine->clientId());
    QVERIFY(found.at(0).waited >= found.at(1).waited);
    QVERIFY(found.at(0).waited < 60s);
    QCOMPARE(ask(1).size(), 1);
}

void tst_EngineConformance::waitersAreServedInOrder()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    QByteArray holder = newToken(*engine);
    EngineReply held = acquire(*engine, m_id, holder);
    QCOMPARE(held.status, EngineReply::Granted);
    constexpr int Count = 5;
    std::vector<std::unique_ptr<LockEngine>> clients;
    std::vector<std::unique_ptr<Notices>> notices;
    QList<QByteArray> tokens;
    for (int i = 0; i < Count; ++i) {
        clients.push_back(makeListeningEngine(m_kind, m_id));
        notices.push_back(std::make_unique<Notices>(*clients.back()));
        tokens.append(newToken(*clients.back()));
        const EngineReply reply = wait(*clients.back(), m_id, tokens.last());
        QCOMPARE(reply.status, EngineReply::Taken);
        QCOMPARE(reply.queuePosition, i);
        QVERIFY(!reply.arrival.isEmpty());
        QVERIFY(!reply.foreignHolder);
        QCOMPARE(inspect(*engine, m_id).queueLength, i + 1);
    }
    for (int i = 0; i < Count; ++i) {
        LockEngine &former = i == 0 ? *engine : *clients[size_t(i) - 1];
        QCOMPARE(release(former, m_id, holder).status, EngineReply::Done);
        EVENTUALLY_VERIFY(notices[size_t(i)]->list.contains(notice("grant", tokens.at(i))));
        if (i + 1 < Count) {
            // The next waiter knows when to poll, in case the one before it is dead.
            if (m_kind != ZooKeeper) { // which deletes the node of one that is dead
                EVENTUALLY_COMPARE(notices[size_t(i) + 1]->list, QStringList{notice("next", tokens.at(i + 1))});
                QVERIFY(notices[size_t(i) + 1]->pollAfter > 0ms);
                QVERIFY(notices[size_t(i) + 1]->pollAfter <= 3s);
            }
            const EngineReply early = wait(*clients.back(), m_id, tokens.last());
            QCOMPARE(early.status, EngineReply::Taken);
            QCOMPARE(early.queuePosition, Count - 2 - i);
        }
        for (int later = i + 2; later < Count; ++later)
            QCOMPARE(notices[size_t(later)]->list, QStringList());
        LockInfo info = inspect(*engine, m_id);
        if (m_kind != Quorum) { // one server is no majority yet
            QCOMPARE(info.holder.id.toLatin1(), clients[size_t(i)]->clientId());
            QVERIFY(info.remaining <= 3s); // to be claimed, or unknown
        }
        QCOMPARE(info.queueLength, Count - 1 - i);
        const EngineReply claimed = acquire(*clients[size_t(i)], m_id, tokens.at(i));
        QCOMPARE(claimed.status, EngineReply::Granted);
        QVERIFY(claimed.fencingToken > held.fencingToken);
        if (m_kind != ZooKeeper)
            QVERIFY(inspect(*engine, m_id).remaining > 3s);
        held = claimed;
        holder = tokens.at(i);
    }
    QCOMPARE(release(*clients.back(), m_id, holder).status, EngineReply::Done);
    QVERIFY(!inspect(*engine, m_id).held);
}

void tst_EngineConformance::handOverToAWaiterOfTheSameClient()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const Notices notices(*engine);
    const QByteArray holder = newToken(*engine);
    const QByteArray waiter = newToken(*engine);
    const EngineReply held = acquire(*engine, m_id, holder);
    QCOMPARE(wait(*engine, m_id, waiter).queuePosition, 0);
    const auto before = now(m_kind);
    QList<EngineReply> replies;
    qsizetype handedOverBefore = -1;
    engine->release(m_id, holder, 20s, 0ms, [&](const EngineReply &reply) {
        handedOverBefore = notices.handedOver.size();
        replies.append(reply);
    });
    EVENTUALLY_COMPARE(replies.size(), 1);
    QCOMPARE(replies.first().status, EngineReply::Done);
    if (m_kind == Quorum || m_kind == ZooKeeper) { // the waiter still has to ask the other servers, or for its turn
        EVENTUALLY_COMPARE(notices.list, QStringList{notice("grant", waiter)});
        QVERIFY(notices.handedOver.isEmpty());
        QVERIFY(acquire(*engine, m_id, waiter).fencingToken > held.fencingToken);
        return;
    }
    QCOMPARE(handedOverBefore, 0); // the releaser's hold ends first
    EVENTUALLY_COMPARE(notices.handedOver.size(), 1);
    const LockEngine::Handover handover = notices.handedOver.first();
    QCOMPARE(handover.token, waiter);
    QCOMPARE(handover.lock.key(), m_id.key());
    QVERIFY(handover.fencingToken > held.fencingToken);
    QCOMPARE(handover.lease, milliseconds(20s));
    QVERIFY(handover.sentAt >= before);
    QVERIFY(handover.sentAt <= now(m_kind));
    QCOMPARE(notices.list, QStringList());
    // It is held for the whole lease, without another command.
    const LockInfo info = inspect(*engine, m_id);
    QVERIFY(info.remaining > 3s);
    QVERIFY(info.remaining <= 20s);
    QCOMPARE(info.fencingToken, handover.fencingToken);
    QCOMPARE(info.queueLength, 0);
    QCOMPARE(renew(*engine, m_id, waiter).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, holder).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, waiter).status, EngineReply::Done);
    QVERIFY(!inspect(*engine, m_id).held);
}

void tst_EngineConformance::newcomerDoesNotOvertake()
{
    // The holder has died, and its waiter was not notified.
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const Notices notices(*engine);
    const QByteArray waiter = newToken(*engine);
    QCOMPARE(acquire(*other, m_id, newToken(*other)).status, EngineReply::Granted);
    QCOMPARE(wait(*engine, m_id, waiter).queuePosition, 0);
    expire(m_kind, *engine, m_id);
    const QByteArray newcomer = newToken(*other);
    const EngineReply reply = wait(*other, m_id, newcomer);
    QCOMPARE(reply.status, EngineReply::Taken);
    QCOMPARE(reply.queuePosition, 0); // the waiter has left the queue, served
    EVENTUALLY_COMPARE(notices.list, QStringList{notice("grant", waiter)});
    QCOMPARE(acquire(*engine, m_id, waiter).status, EngineReply::Granted);
}

void tst_EngineConformance::placeIsKept()
{
    // Its claim came too late, or it was away: back in front of those that came after it.
    SKIP_WITHOUT_QUEUE();
    SKIP_WITHOUT_PLACES_TO_GIVE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray first = newToken(*engine);
    const QByteArray second = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, newToken(*engine)).status, EngineReply::Granted);
    const EngineReply arrived = wait(*engine, m_id, first);
    QCOMPARE(arrived.queuePosition, 0);
    const EngineReply later = wait(*engine, m_id, second);
    QCOMPARE(later.queuePosition, 1);
    QVERIFY(later.arrival.toLongLong() > arrived.arrival.toLongLong());
    if (m_kind != Memory)
        serverOf(m_kind, m_id)
                .command({"ZREM", RedisKeys::queue(m_id), first}); // an abandoned token would be cancelled again
    else
        engine->abandon(m_id, first, 30s, 0ms, 60s);
    EVENTUALLY_COMPARE(inspect(*engine, m_id).queueLength, 1);
    QCOMPARE(wait(*engine, m_id, second, later.arrival).queuePosition, 0);
    const EngineReply back = wait(*engine, m_id, first, arrived.arrival);
    QCOMPARE(back.queuePosition, 0);
    QCOMPARE(back.arrival, arrived.arrival);
    QCOMPARE(wait(*engine, m_id, second).queuePosition, 1); // whoever stays needs not say when it came
    QCOMPARE(wait(*engine, m_id, newToken(*engine)).queuePosition, 2);
}

void tst_EngineConformance::abandonOfTheHead()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const Notices notices(*other);
    const QByteArray first = newToken(*engine);
    const QByteArray second = newToken(*other);
    const QByteArray holder = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, holder, 20s).status, EngineReply::Granted);
    QCOMPARE(wait(*engine, m_id, first).queuePosition, 0);
    QCOMPARE(wait(*other, m_id, second).queuePosition, 1);
    engine->abandon(m_id, first, 30s, 0ms, 60s);
    if (m_kind == ZooKeeper) { // it may be its turn
        EVENTUALLY_COMPARE(notices.list, QStringList{notice("grant", second)});
        QCOMPARE(wait(*other, m_id, second).queuePosition, 0);
    } else {
        EVENTUALLY_COMPARE(notices.list, QStringList{notice("next", second)});
        QVERIFY(notices.pollAfter > 0ms);
        QVERIFY(notices.pollAfter <= 20s); // when the holder's lease is over
    }
    QCOMPARE(renew(*engine, m_id, holder).status, EngineReply::Done);
    QCOMPARE(inspect(*engine, m_id).queueLength, 1);
}

void tst_EngineConformance::abandonHandsOver()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const Notices notices(*engine);
    const Notices others(*other);
    const QByteArray holder = newToken(*engine);
    const QByteArray second = newToken(*other);
    const QByteArray third = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*other, m_id, second).queuePosition, 0);
    QCOMPARE(wait(*engine, m_id, third).queuePosition, 1);
    engine->abandon(m_id, holder, 30s, 0ms, 60s);
    EVENTUALLY_COMPARE(others.list, QStringList{notice("grant", second)});
    // A lock that is granted to a waiter of the same client, or of another, and abandoned before it is claimed.
    other->abandon(m_id, second, 30s, 0ms, 60s);
    EVENTUALLY_VERIFY(notices.list.contains(notice("grant", third)));
    QCOMPARE(acquire(*engine, m_id, third).status, EngineReply::Granted);
    const QByteArray fourth = newToken(*engine);
    QCOMPARE(wait(*engine, m_id, fourth).queuePosition, 0);
    engine->abandon(m_id, third, 30s, 0ms, 60s);
    EVENTUALLY_VERIFY(notices.list.contains(notice("grant", fourth)));
    QCOMPARE(acquire(*engine, m_id, fourth).status, EngineReply::Granted);
}

void tst_EngineConformance::deadWaitersAreSkipped()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto living = makeListeningEngine(m_kind, m_id);
    const Notices notices(*living);
    const QByteArray holder = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, holder).status, EngineReply::Granted);
    QByteArray deadClient;
    {
        const auto dead = makeListeningEngine(m_kind, m_id);
        deadClient = dead->clientId();
        for (int i = 0; i < 3; ++i)
            QCOMPARE(wait(*dead, m_id, newToken(*dead)).queuePosition, i);
    }
    if (m_kind == ZooKeeper)
        EVENTUALLY_COMPARE(inspect(*engine, m_id).queueLength,
                           0); // the end of its session arrives on another connection
    else if (m_kind != Memory)
        EVENTUALLY_VERIFY(!serverOf(m_kind, m_id).command({"CLIENT", "LIST"}).toByteArray().contains(deadClient));
    const QByteArray waiter = newToken(*living);
    QCOMPARE(wait(*living, m_id, waiter).queuePosition,
             m_kind == ZooKeeper ? 0 : 3); // the nodes went with their session
    QCOMPARE(release(*engine, m_id, holder).status, EngineReply::Done);
    EVENTUALLY_COMPARE(notices.list, QStringList{notice("grant", waiter)});
    QCOMPARE(inspect(*engine, m_id).queueLength, 0);
    QCOMPARE(acquire(*living, m_id, waiter).status, EngineReply::Granted);
}

void tst_EngineConformance::barging()
{
    SKIP_WITHOUT_QUEUE();
    SKIP_WITHOUT_BARGING();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const Notices notices(*engine);
    const QByteArray holder = newToken(*other);
    const QByteArray barger = newToken(*engine);
    QCOMPARE(acquire(*other, m_id, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*engine, m_id, barger, {}, true).queuePosition, 0);
    // Woken when it is free, and nothing more: somebody else who barges may be faster.
    QCOMPARE(release(*other, m_id, holder).status, EngineReply::Done);
    EVENTUALLY_COMPARE(notices.list, QStringList{notice("grant", barger)});
    QVERIFY(!inspect(*engine, m_id).held);
    const QByteArray faster = newToken(*other);
    QCOMPARE(wait(*other, m_id, faster, {}, true).status, EngineReply::Granted);
    // A waiter that came too late moves to the end.
    const QByteArray fair = newToken(*other);
    QCOMPARE(wait(*other, m_id, fair).queuePosition, 0);
    QCOMPARE(wait(*engine, m_id, barger, {}, true).queuePosition, 1);
    // Who barges does not wait for those in the queue.
    engine->abandon(m_id, barger, 30s, 0ms, 60s);
    engine->abandon(m_id, faster, 30s, 10s, 60s); // left to expire
    EVENTUALLY_VERIFY(inspect(*engine, m_id).remaining <= 10s);
    expire(m_kind, *engine, m_id);
    QCOMPARE(wait(*engine, m_id, newToken(*engine), {}, true).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, m_id).queueLength, 1);
}

// Whoever has the token releases the lock. The client that made the token waits again, and is served like any other.
void tst_EngineConformance::releaseOfAnothersToken()
{
    SKIP_WITHOUT_QUEUE();
    SKIP_WITHOUT_PLACES_TO_GIVE();
    const auto owner = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const auto third = makeListeningEngine(m_kind, m_id);
    QSignalSpy handedOver(other.get(), &LockEngine::handedOver);
    const Notices notices(*owner);
    const Notices thirds(*third);
    const QByteArray token = newToken(*owner);
    const QByteArray waiter = newToken(*owner);
    const QByteArray last = newToken(*third);
    QCOMPARE(acquire(*owner, m_id, token).status, EngineReply::Granted);
    QCOMPARE(wait(*owner, m_id, waiter).queuePosition, 0);
    QCOMPARE(wait(*third, m_id, last).queuePosition, 1);
    QCOMPARE(renew(*other, m_id, token).status, EngineReply::Done);
    QCOMPARE(release(*other, m_id, token).status, EngineReply::Done);
    EVENTUALLY_COMPARE(notices.list, QStringList{notice("grant", waiter)});
    if (m_kind == Quorum) // one server is no majority yet
        QCOMPARE(acquire(*owner, m_id, waiter).status, EngineReply::Granted);
    QCOMPARE(renew(*owner, m_id, waiter).status, EngineReply::Done);
    QVERIFY(handedOver.isEmpty());
    QCOMPARE(release(*other, m_id, waiter).status, EngineReply::Done);
    EVENTUALLY_VERIFY(thirds.list.contains(notice("grant", last)));
    if (m_kind == Quorum)
        QCOMPARE(acquire(*third, m_id, last).status, EngineReply::Granted);
    QCOMPARE(renew(*third, m_id, last).status, EngineReply::Done);
    // Its own waiter is served by the reply all the same, and tokens of both kinds may be released in one turn.
    const QByteArray own = newToken(*other);
    QCOMPARE(wait(*other, m_id, own).queuePosition, 0);
    const LockId second = lockId(u"b"_s);
    const QByteArray ours = newToken(*other);
    QCOMPARE(acquire(*other, second, ours).status, EngineReply::Granted);
    Replies replies;
    other->release(second, ours, 30s, 0ms, replies.next());
    other->release(m_id, last, 30s, 0ms, replies.next());
    EVENTUALLY_COMPARE(replies.list.size(), 2);
    QCOMPARE(replies.list.at(0).status, EngineReply::Done);
    QCOMPARE(replies.list.at(1).status, EngineReply::Done);
    if (m_kind == Quorum)
        EVENTUALLY_COMPARE(acquire(*other, m_id, own).status, EngineReply::Granted);
    EVENTUALLY_COMPARE(renew(*other, m_id, own).status, EngineReply::Done);
}

void tst_EngineConformance::forceReleaseHandsOver()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const Notices notices(*engine);
    const Notices others(*other);
    const QByteArray holder = newToken(*engine);
    const QByteArray waiter = newToken(*other);
    QCOMPARE(acquire(*engine, m_id, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*other, m_id, waiter).queuePosition, 0);
    QVERIFY(forceRelease(*other, m_id));
    EVENTUALLY_COMPARE(others.list, QStringList{notice("grant", waiter)});
    EVENTUALLY_COMPARE(QSet<QString>(notices.list.cbegin(), notices.list.cend()),
                       QSet<QString>{notice("force", holder)});
    // Of a quorum, the waiter has the arbiter alone as yet: a majority may say that nobody holds the lock.
    const auto status = renew(*engine, m_id, holder).status;
    QVERIFY(status == EngineReply::Stolen || (m_kind == Quorum && status == EngineReply::Gone));
    QCOMPARE(acquire(*other, m_id, waiter).status, EngineReply::Granted);
}

void tst_EngineConformance::keptKeyIsNotHandedOver()
{
    SKIP_WITHOUT_QUEUE();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const auto other = makeListeningEngine(m_kind, m_id);
    const Notices notices(*other);
    const QByteArray holder = newToken(*engine);
    const QByteArray waiter = newToken(*other);
    QCOMPARE(acquire(*engine, m_id, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*other, m_id, waiter).queuePosition, 0);
    QCOMPARE(release(*engine, m_id, holder, 20s).status, EngineReply::Done);
    if (m_kind != ZooKeeper) { // which notifies the waiter when the node is deleted
        EVENTUALLY_COMPARE(notices.list, QStringList{notice("next", waiter)});
        QCOMPARE(notices.pollAfter, milliseconds(20s));
    }
    QCOMPARE(wait(*other, m_id, waiter).status, EngineReply::Taken);
    QVERIFY(isTimeLeft(inspect(*engine, m_id).remaining, 20s));
    expire(m_kind, *engine, m_id);
    QCOMPARE(wait(*other, m_id, waiter).status, EngineReply::Granted);
}

void tst_EngineConformance::batches_data()
{
    QTest::addColumn<int>("size");
    for (const int size : {1, 2, 63, 64, 65, 127, 128, 129, 500, 2500})
        QTest::addRow("%d", size) << size;
}

void tst_EngineConformance::batches()
{
    QFETCH(int, size);
    const auto engine = makeEngine(m_kind);
    QList<LockId> ids;
    QList<QByteArray> tokens;
    QList<int> order;
    QList<EngineReply> replies(size);
    const auto into = [&](int i) {
        return [&, i](const EngineReply &reply) {
            order.append(i);
            replies[i] = reply;
        };
    };
    for (int i = 0; i < size; ++i) {
        ids.append(lockId(QString::number(i)));
        tokens.append(newToken(*engine));
        engine->acquire(acquireOf(ids.at(i), tokens.at(i), 600s), into(i));
    }
    const auto inOrder = [&] {
        if (m_kind == Quorum || m_kind == ZooKeeper) // whichever majority is first, or has a node already
            return std::exchange(order, {}).size() == size;
        QHash<int, int> last; // of each slot: in a cluster, others may be at another server; or of each lock
        bool isOrdered = true;
        for (const int i : std::as_const(order)) {
            int &former = last[m_kind == Cluster ? Support::clusterSlot(ids.at(i).key()) : m_kind == Plain ? i : 0];
            isOrdered &= former <= i;
            former = i;
        }
        order.clear();
        return isOrdered;
    };
    EVENTUALLY_COMPARE(order.size(), size);
    QVERIFY(inOrder());
    QSet<qint64> fences;
    for (const EngineReply &reply : std::as_const(replies)) {
        QCOMPARE(reply.status, EngineReply::Granted);
        fences.insert(reply.fencingToken);
    }
    // From now on somebody else holds every third lock, and every fourth one is released.
    int requested = 0;
    for (int i = 0; i < size; ++i) {
        if (i % 3 != 0 && i % 4 != 0)
            continue;
        requested += i % 3 == 0 ? 2 : 1;
        engine->release(ids.at(i), tokens.at(i), 60s, 0ms, into(i));
        if (i % 3 == 0)
            engine->acquire(acquireOf(ids.at(i), newToken(*engine), 600s), into(i));
    }
    EVENTUALLY_COMPARE(order.size(), requested);
    order.clear();
    const auto expected = [](int i) {
        return i % 3 == 0 ? EngineReply::Stolen : i % 4 == 0 ? EngineReply::Gone : EngineReply::Done;
    };
    for (int i = 0; i < size; ++i)
        engine->renew(ids.at(i), tokens.at(i), 900s, {}, into(i));
    EVENTUALLY_COMPARE(order.size(), size);
    QVERIFY(inOrder());
    for (int i = 0; i < size; ++i)
        QCOMPARE(replies.at(i).status, expected(i));
    for (int i = 0; i < size; ++i)
        engine->release(ids.at(i), tokens.at(i), 60s, 0ms, into(i));
    EVENTUALLY_COMPARE(order.size(), size);
    QVERIFY(inOrder() || m_kind == Sentinel); // those that are Gone or Stolen wait for the Sentinels
    for (int i = 0; i < size; ++i)
        QCOMPARE(replies.at(i).status, expected(i));
    QCOMPARE(names(*engine, u"*"_s).size(), (size + 2) / 3);
    QSet<int> held;
    for (int i = 0; i < size; i += 3)
        held.insert(i);
    int asked = 0;
    const auto forceAll = [&] {
        if (asked > 0)
            return false;
        for (const int i : QSet<int>(held)) {
            ++asked;
            engine->forceRelease(ids.at(i), 0, [&, i](const EngineReply &reply) {
                --asked;
                if (reply.status == EngineReply::Done || (m_kind == Quorum && reply.status == EngineReply::Gone))
                    held.remove(i);
            });
        }
        return held.isEmpty();
    };
    if (m_kind == Quorum) { // a server that has not replied after half a second has failed: ask again
        EVENTUALLY_VERIFY(forceAll());
    } else {
        forceAll();
        EVENTUALLY_COMPARE(asked, 0);
        QCOMPARE(held.size(), 0);
    }
}

void tst_EngineConformance::orderIsKept()
{
    if (m_kind == Quorum || m_kind == ZooKeeper)
        QSKIP("This test sends a release before the reply to the acquire. With ZooKeeper an acquire has several steps, "
              "and "
              "the release would come between them. The library itself sends a release only after that reply.");
    const auto engine = makeEngine(m_kind);
    const LockId a = lockId(u"a"_s);
    const LockId b = lockId(u"b"_s);
    for (int round = 0; round < 20; ++round) {
        const QByteArray first = newToken(*engine);
        const QByteArray second = newToken(*engine);
        QList<EngineReply> replies(10);
        QList<int> order;
        const auto into = [&](int i) {
            return [&, i](const EngineReply &reply) {
                order.append(i);
                replies[i] = reply;
            };
        };
        engine->acquire(acquireOf(a, first, 60s), into(0));  // granted
        engine->acquire(acquireOf(a, second, 60s), into(1)); // taken
        engine->renew(a, first, 60s, {}, into(2));           // done
        engine->release(a, second, 60s, 0ms, into(3));       // stolen
        engine->acquire(acquireOf(b, second, 60s), into(4)); // granted
        engine->release(a, first, 60s, 0ms, into(5));        // done
        engine->renew(a, first, 60s, {}, into(6));           // gone
        engine->acquire(acquireOf(a, second, 60s), into(7)); // granted
        engine->release(b, second, 60s, 0ms, into(8));       // done
        engine->release(a, second, 60s, 0ms, into(9));       // done
        EVENTUALLY_COMPARE(order.size(), 10);
        if (m_kind == Cluster || m_kind == Plain) { // the locks are at two servers, or do not wait for each other
            const auto ofB = std::stable_partition(order.begin(), order.end(), [](int i) { return i != 4 && i != 8; });
            QVERIFY(std::is_sorted(order.begin(), ofB));
            QVERIFY(std::is_sorted(ofB, order.end()));
        } else if (m_kind != Sentinel) { // there, a renewal that is Done waits for the Sentinels
            QVERIFY(std::is_sorted(order.cbegin(), order.cend()));
        }
        QList<EngineReply::Status> statuses;
        for (const EngineReply &reply : std::as_const(replies))
            statuses.append(reply.status);
        using R = EngineReply;
        QCOMPARE(statuses,
                 (QList<R::Status>{R::Granted, R::Taken, R::Done, R::Stolen, R::Granted, R::Done, R::Gone, R::Granted,
                                   R::Done, R::Done}));
        QVERIFY(replies.at(7).fencingToken > replies.at(0).fencingToken);
    }
}

void tst_EngineConformance::namesAreExact()
{
    const auto engine = makeEngine(m_kind);
    const QStringList all{u" "_s,        u"\r\n"_s,   u"🔒"_s,         u"a{b"_s,     u"{t}x"_s, QString(1024, u'x'),
                          u"$5\r\n*1"_s, u"\"';--"_s, u"[a-z]*?\\"_s, u"e\u0301"_s, u"é"_s,    QString(QChar(0xffff))};
    QStringList sorted = all;
    sorted.sort();
    for (const QString &name : all)
        QCOMPARE(acquire(*engine, lockId(name), newToken(*engine)).status, EngineReply::Granted);
    QCOMPARE(names(*engine, u"*"_s), sorted);
}

void tst_EngineConformance::neverInsideTheCall()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newToken(*engine);
    bool inside = true;
    int tooEarly = 0;
    int calls = 0;
    const auto count = [&] {
        ++calls;
        tooEarly += inside;
    };
    const auto complete = [&](const EngineReply &) { count(); };
    engine->acquire(acquireOf(m_id, token, 60s), complete);
    engine->renew(m_id, token, 60s, {}, complete);
    engine->inspect(m_id, [&](const EngineError &, const LockInfo &) { count(); });
    engine->list(u"lock:"_s, u"*"_s, [&](const EngineError &, const QList<LockInfo> &) { count(); });
    engine->forceRelease(m_id, 0, complete);
    engine->waiters(m_id, 10, [&](const EngineError &, const QList<LockWaiter> &) { count(); });
    engine->release(m_id, token, 60s, 0ms, complete);
    inside = false;
    EVENTUALLY_COMPARE(calls, 7);
    // Once each, and inside of none of those that follow.
    QCOMPARE(acquire(*engine, m_id, token).status, EngineReply::Granted);
    QCOMPARE(calls, 7);
    QCOMPARE(tooEarly, 0);
}

void tst_EngineConformance::destroyedBeforeTheAnswer()
{
    auto engine = makeEngine(m_kind);
    const auto witness = makeEngine(m_kind);
    int calls = 0;
    engine->acquire(acquireOf(m_id, newToken(*engine), 60s), [&](const EngineReply &) { ++calls; });
    engine->inspect(m_id, [&](const EngineError &, const LockInfo &) { ++calls; });
    engine->list(u"lock:"_s, u"*"_s, [&](const EngineError &, const QList<LockInfo> &) { ++calls; });
    engine.reset();
    for (int i = 0; i < 3; ++i)
        inspect(*witness, m_id); // time for what should not come
    QCOMPARE(calls, 0);
}

namespace {

/// What those share who contend for one lock.
struct Contest
{
    std::atomic<int> inside{0};
    std::atomic<qint64> lastFence{0};
};

/// Acquires, checks that it is the only holder, and releases, \c rounds times.
class Contender
{
public:
    Contender(LockEngine *engine, const LockId &id, Contest *contest, int rounds)
        : m_engine(engine)
        , m_lock(id)
        , m_contest(contest)
        , roundsLeft(rounds)
    {
        start();
    }

private:
    void start()
    {
        m_token = newToken(*m_engine);
        attempt();
    }
    void attempt()
    {
        m_engine->acquire(acquireOf(m_lock, m_token, 60s), [this](const EngineReply &reply) {
            if (reply.status != EngineReply::Granted)
                return attempt();
            overlaps += m_contest->inside.fetch_add(1) != 0;
            notRising += reply.fencingToken <= m_contest->lastFence.exchange(reply.fencingToken);
            m_contest->inside.fetch_sub(1);
            release();
        });
    }
    void release(bool again = false)
    {
        m_engine->release(m_lock, m_token, 60s, 0ms, [this, again](const EngineReply &released) {
            if (released.status == EngineReply::Failed) // a slow machine: too few servers replied in time
                return release(true);
            notMine += released.status != EngineReply::Done && !again;
            if (--roundsLeft > 0)
                start();
        });
    }

    LockEngine *m_engine;
    LockId m_lock;
    Contest *m_contest;
    QByteArray m_token;

public:
    std::atomic<int> roundsLeft;
    int overlaps = 0;
    int notRising = 0;
    int notMine = 0;
};

} // namespace

void tst_EngineConformance::manyContend()
{
    std::vector<std::unique_ptr<LockEngine>> engines;
    std::vector<std::unique_ptr<Contender>> contenders;
    Contest contest;
    const int rounds = m_kind == ZooKeeper ? 10 : 50; // each takes several writes, and many reads
    for (int i = 0; i < 4; ++i)
        engines.push_back(makeEngine(m_kind));
    for (const auto &engine : engines) {
        for (int i = 0; i < 3; ++i)
            contenders.push_back(
                    std::make_unique<Contender>(engine.get(), lockId(QString::number(m_kind)), &contest, rounds));
    }
    for (const auto &contender : contenders) {
        EVENTUALLY_VERIFY(contender->roundsLeft == 0);
        QCOMPARE(contender->overlaps, 0);
        QCOMPARE(contender->notRising, 0);
        QCOMPARE(contender->notMine, 0);
    }
    engines.clear(); // before what they call
}

void tst_EngineConformance::threadsContend()
{
    struct Worker
    {
        QThread thread;
        std::unique_ptr<LockEngine> engine;
        std::unique_ptr<Contender> contender;
    };
    std::array<Worker, 3> workers;
    Contest contest;
    const int rounds = m_kind == ZooKeeper ? 60 : 300;
    std::atomic<int> done{0};
    for (Worker &worker : workers) {
        auto *starter = new QObject;
        starter->moveToThread(&worker.thread);
        connect(&worker.thread, &QThread::finished, starter, &QObject::deleteLater);
        worker.thread.start();
        QMetaObject::invokeMethod(starter, [&, rounds] {
            worker.engine = makeEngine(m_kind);
            worker.contender = std::make_unique<Contender>(worker.engine.get(), lockId(u"threads%1"_s.arg(m_kind)),
                                                           &contest, rounds);
            while (worker.contender->roundsLeft > 0)
                QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 100);
            worker.engine.reset();
            ++done;
        });
    }
    EVENTUALLY_COMPARE(done.load(), 3);
    for (Worker &worker : workers) {
        worker.thread.quit();
        worker.thread.wait();
        QCOMPARE(worker.contender->overlaps, 0);
        QCOMPARE(worker.contender->notRising, 0);
        QCOMPARE(worker.contender->notMine, 0);
    }
}

QTEST_GUILESS_MAIN(tst_EngineConformance)
#include "tst_engineconformance.moc"
