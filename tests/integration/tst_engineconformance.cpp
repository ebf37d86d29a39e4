// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What every LockEngine does, on each of them; and what the Redis engine does beyond.

#include "core/leaseclock.h"
#include "engine/memoryengine.h"
#include "engine/redisengine.h"
#include "support/eventloopprobe.h"
#include "support/faultproxy.h"
#include "support/redisserver.h"

#include <QtCore/qset.h>
#include <QtCore/qthread.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

enum Kind { Redis, Memory };

LockKeys keysOf(const QString &name, const QString &prefix = QStringLiteral("lock:"))
{
    QString error;
    const auto keys = LockKeys::make(prefix, name, &error);
    if (!keys)
        qFatal("%ls", qUtf16Printable(error));
    return *keys;
}

QByteArray newToken(LockEngine &engine)
{
    return engine.makeToken();
}

LockEngine::Acquire acquireOf(const LockKeys &keys, const QByteArray &token, milliseconds lease)
{
    return {keys, token, lease, true, false};
}

/// What came back, in order.
struct Replies
{
    QList<EngineReply> list;
    LockEngine::Completion next()
    {
        return [this](const EngineReply &reply) { list.append(reply); };
    }
};

} // namespace

class tst_EngineConformance : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void acquireAndRelease_data() { engines(); }
    void acquireAndRelease();
    void taken_data() { engines(); }
    void taken();
    void acquireAgainWithTheSameToken_data() { engines(); }
    void acquireAgainWithTheSameToken();
    void renewal_data() { engines(); }
    void renewal();
    void anotherToken_data() { engines(); }
    void anotherToken();
    void expiry_data() { engines(); }
    void expiry();
    void minHold_data() { engines(); }
    void minHold();
    void abandonGivesBack_data() { engines(); }
    void abandonGivesBack();
    void abandonInTheSameTurn_data() { engines(); }
    void abandonInTheSameTurn();
    void abandonKeeps_data() { engines(); }
    void abandonKeeps();
    void abandonOfAnothersTouchesNothing_data() { engines(); }
    void abandonOfAnothersTouchesNothing();
    void fencingTokensRise_data() { engines(); }
    void fencingTokensRise();
    void inspect_data() { engines(); }
    void inspect();
    void list_data() { engines(); }
    void list();
    void globs_data() { engines(); }
    void globs();
    void globsAgree();
    void forceRelease_data() { engines(); }
    void forceRelease();
    void waitersAreServedInOrder_data() { engines(); }
    void waitersAreServedInOrder();
    void handOverToAWaiterOfTheSameClient_data() { engines(); }
    void handOverToAWaiterOfTheSameClient();
    void newcomerDoesNotOvertake_data() { engines(); }
    void newcomerDoesNotOvertake();
    void placeIsKept_data() { engines(); }
    void placeIsKept();
    void abandonOfTheHead_data() { engines(); }
    void abandonOfTheHead();
    void abandonHandsOver_data() { engines(); }
    void abandonHandsOver();
    void deadWaitersAreSkipped_data() { engines(); }
    void deadWaitersAreSkipped();
    void barging_data() { engines(); }
    void barging();
    void forceReleaseHandsOver_data() { engines(); }
    void forceReleaseHandsOver();
    void keptKeyIsNotHandedOver_data() { engines(); }
    void keptKeyIsNotHandedOver();
    void batches_data();
    void batches();
    void orderIsKept_data() { engines(); }
    void orderIsKept();
    void namesAreExact_data() { engines(); }
    void namesAreExact();
    void neverInsideTheCall_data() { engines(); }
    void neverInsideTheCall();
    void destroyedBeforeTheAnswer_data() { engines(); }
    void destroyedBeforeTheAnswer();
    void manyContend_data() { engines(); }
    void manyContend();
    void threadsContend_data() { engines(); }
    void threadsContend();

    void memoryStoresAreApart();
    void batchesShareCommands();
    void foreignTypeInABatch();
    void forbiddenKeyInABatch();
    void forbiddenKeyDoesNotBringBackWhatWasAbandoned();
    void unknownScriptDoesNotBringBackWhatWasAbandoned();
    void keyWithoutTtl();
    void listLeavesOutWhatHasGone();
    void thousandsAbandonedAtOnce();
    void abandonOutlivesAReconnect();

private:
    void engines();
    std::unique_ptr<LockEngine> makeEngine(int kind, const QUrl &url = {});
    /// One operation and its end.
    EngineReply acquire(LockEngine &engine, const LockKeys &keys, const QByteArray &token, milliseconds lease = 30s);
    EngineReply renew(LockEngine &engine, const LockKeys &keys, const QByteArray &token, milliseconds lease = 30s);
    EngineReply release(LockEngine &engine, const LockKeys &keys, const QByteArray &token, milliseconds keep = 0ms);
    /// Waits in the queue: at the place \a arrival if there is one.
    EngineReply wait(LockEngine &engine, const LockKeys &keys, const QByteArray &token, const QByteArray &arrival = {},
                     bool barge = false);
    std::unique_ptr<LockEngine> makeListeningEngine(int kind, const LockKeys &keys);
    LockInfo inspect(LockEngine &engine, const LockKeys &keys);
    QStringList names(LockEngine &engine, const QString &pattern, const QString &prefix = QStringLiteral("lock:"));
    bool forceRelease(LockEngine &engine, const LockKeys &keys);

    std::unique_ptr<Support::RedisServer> m_server;
};

void tst_EngineConformance::initTestCase()
{
    m_server = std::make_unique<Support::RedisServer>();
    QVERIFY2(m_server->start(), qPrintable(m_server->errorString()));
    // What the server does not know yet is sent twice, and the second time later than what came after it.
    const auto engine = makeEngine(Redis);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, token).status, EngineReply::Granted);
    QCOMPARE(renew(*engine, keys, token).status, EngineReply::Done);
    QCOMPARE(release(*engine, keys, token).status, EngineReply::Done);
}

void tst_EngineConformance::init()
{
    m_server->command({"FLUSHALL"});
}

void tst_EngineConformance::cleanup()
{
    // Nothing of a test outlives it: the next one counts connections.
    QTRY_COMPARE(m_server->connectedClients(), 0);
}

void tst_EngineConformance::engines()
{
    QTest::addColumn<int>("kind");
    QTest::newRow("redis") << int(Redis);
    QTest::newRow("memory") << int(Memory);
}

std::unique_ptr<LockEngine> tst_EngineConformance::makeEngine(int kind, const QUrl &url)
{
    std::unique_ptr<LockEngine> engine;
    if (kind == Memory) {
        engine = std::make_unique<MemoryEngine>(QStringLiteral("test"), LeaseClock::system());
    } else {
        QString error;
        const auto server = QtRedis::ServerUrl::parse(url.isEmpty() ? m_server->url() : url, &error);
        if (!server)
            qFatal("%ls", qUtf16Printable(error));
        engine = std::make_unique<RedisEngine>(*server, LeaseClock::system());
    }
    engine->open();
    if (!Support::EventLoopProbe::waitFor([&] { return engine->state() == LockEngine::Ready; }))
        qFatal("no connection: %ls", qUtf16Printable(engine->error().text));
    return engine;
}

EngineReply tst_EngineConformance::acquire(LockEngine &engine, const LockKeys &keys, const QByteArray &token, milliseconds lease)
{
    Replies replies;
    engine.acquire(acquireOf(keys, token, lease), replies.next());
    Support::EventLoopProbe::waitFor([&] { return !replies.list.isEmpty(); });
    return replies.list.value(0);
}

EngineReply tst_EngineConformance::renew(LockEngine &engine, const LockKeys &keys, const QByteArray &token, milliseconds lease)
{
    Replies replies;
    engine.renew(keys, token, lease, replies.next());
    Support::EventLoopProbe::waitFor([&] { return !replies.list.isEmpty(); });
    return replies.list.value(0);
}

EngineReply tst_EngineConformance::release(LockEngine &engine, const LockKeys &keys, const QByteArray &token, milliseconds keep)
{
    Replies replies;
    engine.release(keys, token, 30s, keep, replies.next());
    Support::EventLoopProbe::waitFor([&] { return !replies.list.isEmpty(); });
    return replies.list.value(0);
}

EngineReply tst_EngineConformance::wait(LockEngine &engine, const LockKeys &keys, const QByteArray &token,
                                        const QByteArray &arrival, bool barge)
{
    Replies replies;
    engine.acquire({keys, token, 30s, true, true, barge, arrival}, replies.next());
    Support::EventLoopProbe::waitFor([&] { return !replies.list.isEmpty(); });
    return replies.list.value(0);
}

/// Its waiters will be woken.
std::unique_ptr<LockEngine> tst_EngineConformance::makeListeningEngine(int kind, const LockKeys &keys)
{
    auto engine = makeEngine(kind);
    release(*engine, keys, newToken(*engine)); // the first need
    if (!Support::EventLoopProbe::waitFor([&] { return engine->canBeWoken(); }))
        qFatal("no subscription");
    return engine;
}

LockInfo tst_EngineConformance::inspect(LockEngine &engine, const LockKeys &keys)
{
    LockInfo info;
    bool done = false;
    engine.inspect(keys, [&](const EngineError &error, const LockInfo &seen) {
        info = seen;
        info.error = error.code;
        info.errorString = error.text;
        done = true;
    });
    Support::EventLoopProbe::waitFor([&] { return done; });
    return info;
}

QStringList tst_EngineConformance::names(LockEngine &engine, const QString &pattern, const QString &prefix)
{
    QStringList names;
    bool done = false;
    engine.list(prefix, pattern, [&](const EngineError &error, const QList<LockInfo> &infos) {
        for (const LockInfo &info : infos)
            names.append(info.name);
        if (error)
            names.append(QStringLiteral("error: ") + error.text);
        done = true;
    });
    Support::EventLoopProbe::waitFor([&] { return done; });
    names.sort();
    return done ? names : QStringList{QStringLiteral("no answer")};
}

bool tst_EngineConformance::forceRelease(LockEngine &engine, const LockKeys &keys)
{
    int result = -1;
    engine.forceRelease(keys, [&](const EngineError &, bool existed) { result = existed; });
    Support::EventLoopProbe::waitFor([&] { return result >= 0; });
    return result == 1;
}

void tst_EngineConformance::acquireAndRelease()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    const EngineReply granted = acquire(*engine, keys, token);
    QCOMPARE(granted.status, EngineReply::Granted);
    QVERIFY(granted.fencingToken > 0);
    QVERIFY(!granted.error);
    QCOMPARE(release(*engine, keys, token).status, EngineReply::Done);
    QCOMPARE(release(*engine, keys, token).status, EngineReply::Gone);
    QCOMPARE(renew(*engine, keys, token).status, EngineReply::Gone);
}

void tst_EngineConformance::taken()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const auto other = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, token, 20s).status, EngineReply::Granted);
    for (LockEngine *client : {engine.get(), other.get()}) {
        const EngineReply reply = acquire(*client, keys, newToken(*client), 50s);
        QCOMPARE(reply.status, EngineReply::Taken);
        QVERIFY(reply.holderTtl > 0ms);
        QVERIFY(reply.holderTtl <= 20s);
        QCOMPARE(reply.foreignHolder, false);
        QCOMPARE(reply.fencingToken, 0);
    }
    QCOMPARE(acquire(*other, keysOf(QStringLiteral("b")), newToken(*other)).status, EngineReply::Granted);
    QCOMPARE(release(*engine, keys, token).status, EngineReply::Done);
    QCOMPARE(acquire(*other, keys, newToken(*other)).status, EngineReply::Granted);
}

void tst_EngineConformance::acquireAgainWithTheSameToken()
{
    // A resend after a lost reply.
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    const EngineReply first = acquire(*engine, keys, token, 5s);
    const EngineReply second = acquire(*engine, keys, token, 60s);
    QCOMPARE(second.status, EngineReply::Granted);
    QVERIFY(second.fencingToken > first.fencingToken);
    QCOMPARE(inspect(*engine, keys).fencingToken, second.fencingToken);
    QVERIFY(inspect(*engine, keys).remaining > 30s);
}

void tst_EngineConformance::renewal()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, token, 5s).status, EngineReply::Granted);
    QCOMPARE(renew(*engine, keys, token, 60s).status, EngineReply::Done);
    milliseconds remaining = inspect(*engine, keys).remaining;
    QVERIFY(remaining > 30s);
    QVERIFY(remaining <= 60s);
    QCOMPARE(renew(*engine, keys, token, 5s).status, EngineReply::Done); // shorter as well
    remaining = inspect(*engine, keys).remaining;
    QVERIFY(remaining > 0ms);
    QVERIFY(remaining <= 5s);
}

void tst_EngineConformance::anotherToken()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray holder = newToken(*engine);
    const QByteArray other = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, holder, 20s).status, EngineReply::Granted);
    QCOMPARE(renew(*engine, keys, other, 60s).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, keys, other).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, keys, other, 60s).status, EngineReply::Stolen);
    const LockInfo info = inspect(*engine, keys);
    QVERIFY(info.held);
    QVERIFY(info.remaining <= 20s);
    QCOMPARE(renew(*engine, keys, holder).status, EngineReply::Done);
}

void tst_EngineConformance::expiry()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    const auto start = LeaseClock::system()->now();
    QCOMPARE(acquire(*engine, keys, token, 100ms).status, EngineReply::Granted);
    QTRY_VERIFY(!inspect(*engine, keys).held);
    QVERIFY(LeaseClock::system()->now() - start >= 99ms);
    QCOMPARE(renew(*engine, keys, token).status, EngineReply::Gone);
    QCOMPARE(release(*engine, keys, token).status, EngineReply::Gone);
    QCOMPARE(names(*engine, QStringLiteral("*")), QStringList());
    QCOMPARE(acquire(*engine, keys, newToken(*engine)).status, EngineReply::Granted);
}

void tst_EngineConformance::minHold()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, token, 60s).status, EngineReply::Granted);
    const auto start = LeaseClock::system()->now();
    QCOMPARE(release(*engine, keys, token, 200ms).status, EngineReply::Done);
    QCOMPARE(acquire(*engine, keys, newToken(*engine)).status, EngineReply::Taken);
    QTRY_VERIFY(!inspect(*engine, keys).held);
    QVERIFY(LeaseClock::system()->now() - start >= 199ms);
    QCOMPARE(acquire(*engine, keys, newToken(*engine)).status, EngineReply::Granted);
}

void tst_EngineConformance::abandonGivesBack()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, token).status, EngineReply::Granted);
    engine->abandon(keys, token, 60s, 0ms, 60s);
    QTRY_VERIFY(!inspect(*engine, keys).held);
}

void tst_EngineConformance::abandonInTheSameTurn()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    Replies replies;
    engine->acquire(acquireOf(keys, token, 60s), replies.next());
    engine->abandon(keys, token, 60s, 0ms, 60s);
    QTRY_COMPARE(replies.list.size(), 1);
    QCOMPARE(replies.list.first().status, EngineReply::Granted);
    QTRY_VERIFY(!inspect(*engine, keys).held);
}

void tst_EngineConformance::abandonKeeps()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, token, 600s).status, EngineReply::Granted);
    engine->abandon(keys, token, 600s, 30s, 600s);
    QTRY_VERIFY(inspect(*engine, keys).remaining <= 30s);
    QVERIFY(inspect(*engine, keys).held);
}

void tst_EngineConformance::abandonOfAnothersTouchesNothing()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    QCOMPARE(acquire(*engine, keys, newToken(*engine)).status, EngineReply::Granted);
    engine->abandon(keys, newToken(*engine), 60s, 0ms, 60s);
    QCOMPARE(release(*engine, keys, newToken(*engine)).status, EngineReply::Stolen); // runs after it
    QVERIFY(inspect(*engine, keys).held);
}

void tst_EngineConformance::fencingTokensRise()
{
    QFETCH(int, kind);
    const std::array clients{makeEngine(kind), makeEngine(kind), makeEngine(kind)};
    const LockKeys keys = keysOf(QStringLiteral("a"));
    qint64 last = 0;
    for (size_t i = 0; i < 300; ++i) {
        LockEngine &engine = *clients[i % clients.size()];
        const QByteArray token = newToken(engine);
        const EngineReply reply = acquire(engine, keys, token);
        QCOMPARE(reply.status, EngineReply::Granted);
        QVERIFY(reply.fencingToken > last);
        QVERIFY(reply.fencingToken < (1LL << 53)); // exact as a double, for Lua and JavaScript
        last = reply.fencingToken;
        QCOMPARE(release(engine, keys, token).status, EngineReply::Done);
        QCOMPARE(inspect(engine, keys).fencingToken, last);
    }
}

void tst_EngineConformance::inspect()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const auto other = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    LockInfo info = inspect(*other, keys);
    QVERIFY(!info.held);
    QVERIFY(!info.foreign);
    QVERIFY(info.holder.isEmpty());
    QCOMPARE(info.fencingToken, 0);
    QCOMPARE(info.queueLength, 0);
    QCOMPARE(info.remaining, 0ms);
    const EngineReply granted = acquire(*engine, keys, newToken(*engine), 20s);
    info = inspect(*other, keys);
    QVERIFY(info.held);
    QVERIFY(!info.foreign);
    QCOMPARE(info.holder.toLatin1(), engine->clientId());
    QCOMPARE(info.fencingToken, granted.fencingToken);
    QVERIFY(info.remaining > 0ms && info.remaining <= 20s);
    QCOMPARE(info.error, DistributedLock::NoError);
}

void tst_EngineConformance::list()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    QCOMPARE(names(*engine, QStringLiteral("*")), QStringList());
    Replies replies;
    QStringList expected;
    for (int i = 0; i < 1500; ++i) { // over several steps of SCAN
        const QString name = QStringLiteral("n%1").arg(i);
        expected.append(name);
        engine->acquire(acquireOf(keysOf(name), newToken(*engine), 600s), replies.next());
    }
    engine->acquire(acquireOf(keysOf(QStringLiteral("n1"), QStringLiteral("other:")), newToken(*engine), 60s), replies.next());
    engine->acquire(acquireOf(keysOf(QStringLiteral("{tag}")), newToken(*engine), 60s), replies.next());
    QTRY_COMPARE(replies.list.size(), 1502);
    expected.append(QStringLiteral("{tag}"));
    expected.sort();
    QCOMPARE(names(*engine, QStringLiteral("*")), expected); // no side keys
    QCOMPARE(names(*engine, QStringLiteral("n7")), QStringList{QStringLiteral("n7")});
    QCOMPARE(names(*engine, QStringLiteral("n149?")).size(), 10);
    QCOMPARE(names(*engine, QStringLiteral("none")), QStringList());
    QCOMPARE(names(*engine, QStringLiteral("*"), QStringLiteral("other:")), QStringList{QStringLiteral("n1")});
    QCOMPARE(names(*engine, QStringLiteral("*"), QStringLiteral("lock*")), QStringList()); // a prefix is no pattern

    LockInfo info;
    engine->list(QStringLiteral("lock:"), QStringLiteral("n7"), [&](const EngineError &, const QList<LockInfo> &infos) {
        info = infos.value(0);
    });
    QTRY_COMPARE(info.name, QStringLiteral("n7"));
    QVERIFY(info.held);
    QCOMPARE(info.holder.toLatin1(), engine->clientId());
    QCOMPARE(info.fencingToken, inspect(*engine, keysOf(QStringLiteral("n7"))).fencingToken);
    QVERIFY(info.fencingToken > 0);
    QVERIFY(info.remaining > 60s && info.remaining <= 600s);
}

void tst_EngineConformance::globs()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    Replies replies;
    const QStringList all{QStringLiteral("a"),   QStringLiteral("ab"),  QStringLiteral("abc"), QStringLiteral("b"),
                          QStringLiteral("a*b"), QStringLiteral("a[b]"), QStringLiteral("a\\b"), QStringLiteral("a-b"),
                          QStringLiteral("a\nb"), QStringLiteral("ä"),   QStringLiteral("^")};
    for (const QString &name : all)
        engine->acquire(acquireOf(keysOf(name), newToken(*engine), 60s), replies.next());
    QTRY_COMPARE(replies.list.size(), all.size());
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
    QCOMPARE(match("[]a]"), QStringList()); // an empty set
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

void tst_EngineConformance::globsAgree()
{
    const auto redis = makeEngine(Redis);
    const auto memory = makeEngine(Memory);
    std::mt19937 random(1);
    const auto word = [&](const QString &letters, int longest) {
        QString text;
        for (auto count = 1 + random() % quint32(longest); count > 0; --count)
            text += letters.at(int(random() % quint32(letters.size())));
        return text;
    };
    QSet<QString> all;
    while (all.size() < 100)
        all.insert(word(QStringLiteral("abc-^[]*"), 4));
    Replies replies;
    for (const QString &name : std::as_const(all)) {
        for (LockEngine *engine : {redis.get(), memory.get()})
            engine->acquire(acquireOf(keysOf(name), newToken(*engine), 600s), replies.next());
    }
    QTRY_COMPARE(replies.list.size(), 200);
    int found = 0;
    for (int round = 0; round < 600; ++round) {
        const QString pattern = word(QStringLiteral("aab-^[[]]**??\\"), 8);
        const QStringList expected = names(*redis, pattern);
        found += !expected.isEmpty();
        const QStringList actual = names(*memory, pattern);
        QVERIFY2(actual == expected,
                 qPrintable(QStringLiteral("%1: %2, but %3 on Redis").arg(pattern, actual.join(u' '), expected.join(u' '))));
    }
    QVERIFY(found > 100);
}

void tst_EngineConformance::forceRelease()
{
    QFETCH(int, kind);
    const auto holder = makeEngine(kind);
    const auto other = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    QVERIFY(!forceRelease(*other, keys));

    QSignalSpy notices(holder.get(), &LockEngine::noticed);
    QSignalSpy others(other.get(), &LockEngine::noticed);
    QByteArray token;
    // The notice is a hint: the subscription may not stand yet when it is sent.
    for (int attempt = 0; attempt < 100 && notices.isEmpty(); ++attempt) {
        token = newToken(*holder);
        QCOMPARE(acquire(*holder, keys, token).status, EngineReply::Granted);
        QVERIFY(forceRelease(*other, keys));
        QVERIFY(!inspect(*other, keys).held);
        QCOMPARE(renew(*holder, keys, token).status, EngineReply::Gone);
    }
    QTRY_VERIFY(!notices.isEmpty());
    QCOMPARE(notices.last().at(0).value<LockEngine::Notice>(), LockEngine::ForcedRelease);
    QVERIFY(notices.last().at(1).toULongLong() <= LockEngine::sequenceOf(token));
    QVERIFY(notices.last().at(1).toULongLong() > 0);
    QVERIFY(others.isEmpty());
}

namespace {

/// What an engine was told, in words.
class Notices
{
public:
    explicit Notices(LockEngine &engine)
    {
        QObject::connect(&engine, &LockEngine::noticed, &m_context,
                         [this](LockEngine::Notice notice, quint64 sequence, milliseconds ms) {
            switch (notice) {
            case LockEngine::Grant:
                list.append(QStringLiteral("grant %1").arg(sequence));
                break;
            case LockEngine::Next:
                list.append(QStringLiteral("next %1").arg(sequence));
                lookAfter = ms;
                break;
            case LockEngine::ForcedRelease:
                list.append(QStringLiteral("force %1").arg(sequence));
                break;
            }
        });
        QObject::connect(&engine, &LockEngine::handedOver, &m_context,
                         [this](const LockEngine::Handover &handover) { handedOver.append(handover); });
    }

    QStringList list;
    milliseconds lookAfter{-1}; ///< of the last Next
    QList<LockEngine::Handover> handedOver;

private:
    QObject m_context;
};

QString notice(const char *what, const QByteArray &token)
{
    return QStringLiteral("%1 %2").arg(QLatin1String(what)).arg(LockEngine::sequenceOf(token));
}

} // namespace

void tst_EngineConformance::waitersAreServedInOrder()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    QByteArray holder = newToken(*engine);
    EngineReply held = acquire(*engine, keys, holder);
    QCOMPARE(held.status, EngineReply::Granted);
    constexpr int Count = 5;
    std::vector<std::unique_ptr<LockEngine>> clients;
    std::vector<std::unique_ptr<Notices>> notices;
    QList<QByteArray> tokens;
    for (int i = 0; i < Count; ++i) {
        clients.push_back(makeListeningEngine(kind, keys));
        notices.push_back(std::make_unique<Notices>(*clients.back()));
        tokens.append(newToken(*clients.back()));
        const EngineReply reply = wait(*clients.back(), keys, tokens.last());
        QCOMPARE(reply.status, EngineReply::Taken);
        QCOMPARE(reply.queuePosition, i);
        QVERIFY(!reply.arrival.isEmpty());
        QVERIFY(!reply.foreignHolder);
        QCOMPARE(inspect(*engine, keys).queueLength, i + 1);
    }
    for (int i = 0; i < Count; ++i) {
        LockEngine &former = i == 0 ? *engine : *clients[size_t(i) - 1];
        QCOMPARE(release(former, keys, holder).status, EngineReply::Done);
        QTRY_VERIFY(notices[size_t(i)]->list.contains(notice("grant", tokens.at(i))));
        if (i + 1 < Count) {
            // The next knows when to look should the one before it not come.
            QTRY_COMPARE(notices[size_t(i) + 1]->list, QStringList{notice("next", tokens.at(i + 1))});
            QVERIFY(notices[size_t(i) + 1]->lookAfter > 0ms);
            QVERIFY(notices[size_t(i) + 1]->lookAfter <= 3s);
            const EngineReply early = wait(*clients.back(), keys, tokens.last());
            QCOMPARE(early.status, EngineReply::Taken);
            QCOMPARE(early.queuePosition, Count - 2 - i);
        }
        for (int later = i + 2; later < Count; ++later)
            QCOMPARE(notices[size_t(later)]->list, QStringList());
        LockInfo info = inspect(*engine, keys);
        QCOMPARE(info.holder.toLatin1(), clients[size_t(i)]->clientId());
        QVERIFY(info.remaining <= 3s); // to be claimed
        QCOMPARE(info.queueLength, Count - 1 - i);
        const EngineReply claimed = acquire(*clients[size_t(i)], keys, tokens.at(i));
        QCOMPARE(claimed.status, EngineReply::Granted);
        QVERIFY(claimed.fencingToken > held.fencingToken);
        QVERIFY(inspect(*engine, keys).remaining > 3s);
        held = claimed;
        holder = tokens.at(i);
    }
    QCOMPARE(release(*clients.back(), keys, holder).status, EngineReply::Done);
    QVERIFY(!inspect(*engine, keys).held);
}

void tst_EngineConformance::handOverToAWaiterOfTheSameClient()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const Notices notices(*engine);
    const QByteArray holder = newToken(*engine);
    const QByteArray waiter = newToken(*engine);
    const EngineReply held = acquire(*engine, keys, holder);
    QCOMPARE(wait(*engine, keys, waiter).queuePosition, 0);
    const auto before = LeaseClock::system()->now();
    QList<EngineReply> replies;
    qsizetype handedOverBefore = -1;
    engine->release(keys, holder, 20s, 0ms, [&](const EngineReply &reply) {
        handedOverBefore = notices.handedOver.size();
        replies.append(reply);
    });
    QTRY_COMPARE(replies.size(), 1);
    QCOMPARE(replies.first().status, EngineReply::Done);
    QCOMPARE(handedOverBefore, 0); // the releaser's hold ends first
    QTRY_COMPARE(notices.handedOver.size(), 1);
    const LockEngine::Handover handover = notices.handedOver.first();
    QCOMPARE(handover.token, waiter);
    QCOMPARE(handover.keys.lock, keys.lock);
    QVERIFY(handover.fencingToken > held.fencingToken);
    QCOMPARE(handover.lease, milliseconds(20s));
    QVERIFY(handover.sentAt >= before);
    QVERIFY(handover.sentAt <= LeaseClock::system()->now());
    QCOMPARE(notices.list, QStringList());
    // It is held for the whole lease, without another command.
    const LockInfo info = inspect(*engine, keys);
    QVERIFY(info.remaining > 3s);
    QVERIFY(info.remaining <= 20s);
    QCOMPARE(info.fencingToken, handover.fencingToken);
    QCOMPARE(info.queueLength, 0);
    QCOMPARE(renew(*engine, keys, waiter).status, EngineReply::Done);
    QCOMPARE(release(*engine, keys, holder).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, keys, waiter).status, EngineReply::Done);
    QVERIFY(!inspect(*engine, keys).held);
}

void tst_EngineConformance::newcomerDoesNotOvertake()
{
    // The holder has died, its waiter was told nothing.
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const auto other = makeListeningEngine(kind, keys);
    const Notices notices(*engine);
    const QByteArray waiter = newToken(*engine);
    QCOMPARE(acquire(*other, keys, newToken(*other), 100ms).status, EngineReply::Granted);
    QCOMPARE(wait(*engine, keys, waiter).queuePosition, 0);
    QTRY_VERIFY(!inspect(*engine, keys).held);
    const QByteArray newcomer = newToken(*other);
    const EngineReply reply = wait(*other, keys, newcomer);
    QCOMPARE(reply.status, EngineReply::Taken);
    QCOMPARE(reply.queuePosition, 0); // the waiter has left the queue, served
    QTRY_COMPARE(notices.list, QStringList{notice("grant", waiter)});
    QCOMPARE(acquire(*engine, keys, waiter).status, EngineReply::Granted);
}

void tst_EngineConformance::placeIsKept()
{
    // Its claim came too late, or it was away: back in front of those that came after it.
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const QByteArray first = newToken(*engine);
    const QByteArray second = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, newToken(*engine)).status, EngineReply::Granted);
    const EngineReply arrived = wait(*engine, keys, first);
    QCOMPARE(arrived.queuePosition, 0);
    const EngineReply later = wait(*engine, keys, second);
    QCOMPARE(later.queuePosition, 1);
    QVERIFY(later.arrival.toLongLong() > arrived.arrival.toLongLong());
    if (kind == Redis)
        m_server->command({"ZREM", keys.queue, first}); // an abandoned token would be cancelled again
    else
        engine->abandon(keys, first, 30s, 0ms, 60s);
    QTRY_COMPARE(inspect(*engine, keys).queueLength, 1);
    QCOMPARE(wait(*engine, keys, second, later.arrival).queuePosition, 0);
    const EngineReply back = wait(*engine, keys, first, arrived.arrival);
    QCOMPARE(back.queuePosition, 0);
    QCOMPARE(back.arrival, arrived.arrival);
    QCOMPARE(wait(*engine, keys, second).queuePosition, 1); // whoever stays needs not say when it came
    QCOMPARE(wait(*engine, keys, newToken(*engine)).queuePosition, 2);
}

void tst_EngineConformance::abandonOfTheHead()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const auto other = makeListeningEngine(kind, keys);
    const Notices notices(*other);
    const QByteArray first = newToken(*engine);
    const QByteArray second = newToken(*other);
    const QByteArray holder = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, holder, 20s).status, EngineReply::Granted);
    QCOMPARE(wait(*engine, keys, first).queuePosition, 0);
    QCOMPARE(wait(*other, keys, second).queuePosition, 1);
    engine->abandon(keys, first, 30s, 0ms, 60s);
    QTRY_COMPARE(notices.list, QStringList{notice("next", second)});
    QVERIFY(notices.lookAfter > 0ms);
    QVERIFY(notices.lookAfter <= 20s); // when the holder's lease is over
    QCOMPARE(renew(*engine, keys, holder).status, EngineReply::Done);
    QCOMPARE(inspect(*engine, keys).queueLength, 1);
}

void tst_EngineConformance::abandonHandsOver()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const auto other = makeListeningEngine(kind, keys);
    const Notices notices(*engine);
    const Notices others(*other);
    const QByteArray holder = newToken(*engine);
    const QByteArray second = newToken(*other);
    const QByteArray third = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*other, keys, second).queuePosition, 0);
    QCOMPARE(wait(*engine, keys, third).queuePosition, 1);
    engine->abandon(keys, holder, 30s, 0ms, 60s);
    QTRY_COMPARE(others.list, QStringList{notice("grant", second)});
    // Granted, and given up before it was claimed; to a waiter of its own client, or of another.
    other->abandon(keys, second, 30s, 0ms, 60s);
    QTRY_VERIFY(notices.list.contains(notice("grant", third)));
    QCOMPARE(acquire(*engine, keys, third).status, EngineReply::Granted);
    const QByteArray fourth = newToken(*engine);
    QCOMPARE(wait(*engine, keys, fourth).queuePosition, 0);
    engine->abandon(keys, third, 30s, 0ms, 60s);
    QTRY_VERIFY(notices.list.contains(notice("grant", fourth)));
    QCOMPARE(acquire(*engine, keys, fourth).status, EngineReply::Granted);
}

void tst_EngineConformance::deadWaitersAreSkipped()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const auto living = makeListeningEngine(kind, keys);
    const Notices notices(*living);
    const QByteArray holder = newToken(*engine);
    QCOMPARE(acquire(*engine, keys, holder).status, EngineReply::Granted);
    {
        const auto dead = makeListeningEngine(kind, keys);
        for (int i = 0; i < 3; ++i)
            QCOMPARE(wait(*dead, keys, newToken(*dead)).queuePosition, i);
    }
    if (kind == Redis)
        QTRY_COMPARE(m_server->connectedClients(), 4);
    const QByteArray waiter = newToken(*living);
    QCOMPARE(wait(*living, keys, waiter).queuePosition, 3);
    QCOMPARE(release(*engine, keys, holder).status, EngineReply::Done);
    QTRY_COMPARE(notices.list, QStringList{notice("grant", waiter)});
    QCOMPARE(inspect(*engine, keys).queueLength, 0);
    QCOMPARE(acquire(*living, keys, waiter).status, EngineReply::Granted);
}

void tst_EngineConformance::barging()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const auto other = makeListeningEngine(kind, keys);
    const Notices notices(*engine);
    const QByteArray holder = newToken(*other);
    const QByteArray barger = newToken(*engine);
    QCOMPARE(acquire(*other, keys, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*engine, keys, barger, {}, true).queuePosition, 0);
    // Woken when it is free, and nothing more: somebody else who barges may be faster.
    QCOMPARE(release(*other, keys, holder).status, EngineReply::Done);
    QTRY_COMPARE(notices.list, QStringList{notice("grant", barger)});
    QVERIFY(!inspect(*engine, keys).held);
    const QByteArray faster = newToken(*other);
    QCOMPARE(wait(*other, keys, faster, {}, true).status, EngineReply::Granted);
    // Who came too late goes to the end.
    const QByteArray fair = newToken(*other);
    QCOMPARE(wait(*other, keys, fair).queuePosition, 0);
    QCOMPARE(wait(*engine, keys, barger, {}, true).queuePosition, 1);
    // Who barges does not wait for those in the queue.
    engine->abandon(keys, barger, 30s, 0ms, 60s);
    engine->abandon(keys, faster, 30s, 30ms, 60s); // left to expire
    QTRY_VERIFY(!inspect(*engine, keys).held);
    QCOMPARE(wait(*engine, keys, newToken(*engine), {}, true).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, keys).queueLength, 1);
}

void tst_EngineConformance::forceReleaseHandsOver()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const auto other = makeListeningEngine(kind, keys);
    const Notices notices(*engine);
    const Notices others(*other);
    const QByteArray holder = newToken(*engine);
    const QByteArray waiter = newToken(*other);
    QCOMPARE(acquire(*engine, keys, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*other, keys, waiter).queuePosition, 0);
    QVERIFY(forceRelease(*other, keys));
    QTRY_COMPARE(others.list, QStringList{notice("grant", waiter)});
    QTRY_COMPARE(notices.list, QStringList{notice("force", holder)});
    QCOMPARE(renew(*engine, keys, holder).status, EngineReply::Stolen);
    QCOMPARE(acquire(*other, keys, waiter).status, EngineReply::Granted);
}

void tst_EngineConformance::keptKeyIsNotHandedOver()
{
    QFETCH(int, kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const auto engine = makeListeningEngine(kind, keys);
    const auto other = makeListeningEngine(kind, keys);
    const Notices notices(*other);
    const QByteArray holder = newToken(*engine);
    const QByteArray waiter = newToken(*other);
    QCOMPARE(acquire(*engine, keys, holder).status, EngineReply::Granted);
    QCOMPARE(wait(*other, keys, waiter).queuePosition, 0);
    const auto start = LeaseClock::system()->now();
    QCOMPARE(release(*engine, keys, holder, 200ms).status, EngineReply::Done);
    QTRY_COMPARE(notices.list, QStringList{notice("next", waiter)});
    QCOMPARE(notices.lookAfter, 200ms);
    QTRY_COMPARE(wait(*other, keys, waiter).status, EngineReply::Granted);
    QVERIFY(LeaseClock::system()->now() - start >= 199ms);
}

void tst_EngineConformance::batches_data()
{
    QTest::addColumn<int>("kind");
    QTest::addColumn<int>("size");
    for (const int size : {1, 2, 63, 64, 65, 127, 128, 129, 500, 2500}) {
        QTest::addRow("redis, %d", size) << int(Redis) << size;
        QTest::addRow("memory, %d", size) << int(Memory) << size;
    }
}

void tst_EngineConformance::batches()
{
    QFETCH(int, kind);
    QFETCH(int, size);
    const auto engine = makeEngine(kind);
    QList<LockKeys> keys;
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
        keys.append(keysOf(QString::number(i)));
        tokens.append(newToken(*engine));
        engine->acquire(acquireOf(keys.at(i), tokens.at(i), 600s), into(i));
    }
    const auto inOrder = [&] {
        for (int i = 0; i < size; ++i) {
            if (order.at(i) != i)
                return false;
        }
        order.clear();
        return true;
    };
    QTRY_COMPARE(order.size(), size);
    QVERIFY(inOrder());
    QSet<qint64> fences;
    for (const EngineReply &reply : std::as_const(replies)) {
        QCOMPARE(reply.status, EngineReply::Granted);
        fences.insert(reply.fencingToken);
    }
    // Every third one is somebody else's from now on, every fourth one is gone.
    for (int i = 0; i < size; ++i) {
        if (i % 3 != 0 && i % 4 != 0)
            continue;
        engine->release(keys.at(i), tokens.at(i), 60s, 0ms, into(i));
        if (i % 3 == 0)
            engine->acquire(acquireOf(keys.at(i), newToken(*engine), 600s), into(i));
    }
    QTRY_VERIFY(order.contains((size - 1) / 3 * 3)); // the last of them but for some that are released
    QCOMPARE(release(*engine, keysOf(QStringLiteral("last")), newToken(*engine)).status, EngineReply::Gone);
    order.clear();
    const auto expected = [](int i) {
        return i % 3 == 0 ? EngineReply::Stolen : i % 4 == 0 ? EngineReply::Gone : EngineReply::Done;
    };
    for (int i = 0; i < size; ++i)
        engine->renew(keys.at(i), tokens.at(i), 900s, into(i));
    QTRY_COMPARE(order.size(), size);
    QVERIFY(inOrder());
    for (int i = 0; i < size; ++i)
        QCOMPARE(replies.at(i).status, expected(i));
    for (int i = 0; i < size; ++i)
        engine->release(keys.at(i), tokens.at(i), 60s, 0ms, into(i));
    QTRY_COMPARE(order.size(), size);
    QVERIFY(inOrder());
    for (int i = 0; i < size; ++i)
        QCOMPARE(replies.at(i).status, expected(i));
    QCOMPARE(names(*engine, QStringLiteral("*")).size(), (size + 2) / 3);
    int forced = 0;
    for (int i = 0; i < size; i += 3)
        engine->forceRelease(keys.at(i), [&](const EngineError &, bool existed) { forced += existed; });
    QTRY_COMPARE(forced, (size + 2) / 3);
}

void tst_EngineConformance::orderIsKept()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys a = keysOf(QStringLiteral("a"));
    const LockKeys b = keysOf(QStringLiteral("b"));
    for (int round = 0; round < 20; ++round) {
        const QByteArray first = newToken(*engine);
        const QByteArray second = newToken(*engine);
        Replies replies;
        engine->acquire(acquireOf(a, first, 60s), replies.next());      // granted
        engine->acquire(acquireOf(a, second, 60s), replies.next());     // taken
        engine->renew(a, first, 60s, replies.next());                   // done
        engine->release(a, second, 60s, 0ms, replies.next());           // stolen
        engine->acquire(acquireOf(b, second, 60s), replies.next());     // granted
        engine->release(a, first, 60s, 0ms, replies.next());            // done
        engine->renew(a, first, 60s, replies.next());                   // gone
        engine->acquire(acquireOf(a, second, 60s), replies.next());     // granted
        engine->release(b, second, 60s, 0ms, replies.next());           // done
        engine->release(a, second, 60s, 0ms, replies.next());           // done
        QTRY_COMPARE(replies.list.size(), 10);
        QList<EngineReply::Status> statuses;
        for (const EngineReply &reply : std::as_const(replies.list))
            statuses.append(reply.status);
        using R = EngineReply;
        QCOMPARE(statuses, (QList<R::Status>{R::Granted, R::Taken, R::Done, R::Stolen, R::Granted, R::Done, R::Gone,
                                             R::Granted, R::Done, R::Done}));
        QVERIFY(replies.list.at(7).fencingToken > replies.list.at(0).fencingToken);
    }
}

void tst_EngineConformance::namesAreExact()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const QStringList all{QStringLiteral(" "), QStringLiteral("\r\n"), QStringLiteral("🔒"), QStringLiteral("a{b"),
                          QStringLiteral("{t}x"), QString(1024, u'x'), QStringLiteral("$5\r\n*1"), QStringLiteral("\"';--")};
    QStringList sorted = all;
    sorted.sort();
    for (const QString &name : all)
        QCOMPARE(acquire(*engine, keysOf(name), newToken(*engine)).status, EngineReply::Granted);
    QCOMPARE(names(*engine, QStringLiteral("*")), sorted);
}

void tst_EngineConformance::neverInsideTheCall()
{
    QFETCH(int, kind);
    const auto engine = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    bool inside = true;
    int tooEarly = 0;
    int calls = 0;
    const auto count = [&] {
        ++calls;
        tooEarly += inside;
    };
    const auto complete = [&](const EngineReply &) { count(); };
    engine->acquire(acquireOf(keys, token, 60s), complete);
    engine->renew(keys, token, 60s, complete);
    engine->inspect(keys, [&](const EngineError &, const LockInfo &) { count(); });
    engine->list(QStringLiteral("lock:"), QStringLiteral("*"), [&](const EngineError &, const QList<LockInfo> &) { count(); });
    engine->forceRelease(keys, [&](const EngineError &, bool) { count(); });
    engine->release(keys, token, 60s, 0ms, complete);
    inside = false;
    QTRY_COMPARE(calls, 6);
    // Once each, and inside of none of those that follow.
    QCOMPARE(acquire(*engine, keys, token).status, EngineReply::Granted);
    QCOMPARE(calls, 6);
    QCOMPARE(tooEarly, 0);
}

void tst_EngineConformance::destroyedBeforeTheAnswer()
{
    QFETCH(int, kind);
    auto engine = makeEngine(kind);
    const auto witness = makeEngine(kind);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    int calls = 0;
    engine->acquire(acquireOf(keys, newToken(*engine), 60s), [&](const EngineReply &) { ++calls; });
    engine->inspect(keys, [&](const EngineError &, const LockInfo &) { ++calls; });
    engine->list(QStringLiteral("lock:"), QStringLiteral("*"), [&](const EngineError &, const QList<LockInfo> &) { ++calls; });
    engine.reset();
    for (int i = 0; i < 3; ++i)
        inspect(*witness, keys); // time for what should not come
    QCOMPARE(calls, 0);
}

namespace {

/// Acquires, looks whether it is alone, releases, \c rounds times.
class Contender
{
public:
    Contender(LockEngine *engine, const LockKeys &keys, std::atomic<int> *inside, int rounds)
        : m_engine(engine)
        , m_keys(keys)
        , m_inside(inside)
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
        m_engine->acquire(acquireOf(m_keys, m_token, 60s), [this](const EngineReply &reply) {
            if (reply.status != EngineReply::Granted)
                return attempt();
            overlaps += m_inside->fetch_add(1) != 0;
            notRising += reply.fencingToken <= s_last.exchange(reply.fencingToken);
            m_inside->fetch_sub(1);
            m_engine->release(m_keys, m_token, 60s, 0ms, [this](const EngineReply &released) {
                notMine += released.status != EngineReply::Done;
                if (--roundsLeft > 0)
                    start();
            });
        });
    }

    LockEngine *m_engine;
    LockKeys m_keys;
    std::atomic<int> *m_inside;
    QByteArray m_token;
    static inline std::atomic<qint64> s_last{0};

public:
    std::atomic<int> roundsLeft;
    int overlaps = 0;
    int notRising = 0;
    int notMine = 0;
};

} // namespace

void tst_EngineConformance::manyContend()
{
    QFETCH(int, kind);
    std::vector<std::unique_ptr<LockEngine>> engines;
    std::vector<std::unique_ptr<Contender>> contenders;
    std::atomic<int> inside{0};
    for (int i = 0; i < 4; ++i)
        engines.push_back(makeEngine(kind));
    for (const auto &engine : engines) {
        for (int i = 0; i < 3; ++i)
            contenders.push_back(std::make_unique<Contender>(engine.get(), keysOf(QString::number(kind)), &inside, 50));
    }
    for (const auto &contender : contenders) {
        QTRY_VERIFY_WITH_TIMEOUT(contender->roundsLeft == 0, 60'000);
        QCOMPARE(contender->overlaps, 0);
        QCOMPARE(contender->notRising, 0);
        QCOMPARE(contender->notMine, 0);
    }
    engines.clear(); // before what they call
}

void tst_EngineConformance::threadsContend()
{
    QFETCH(int, kind);
    struct Worker
    {
        QThread thread;
        std::unique_ptr<LockEngine> engine;
        std::unique_ptr<Contender> contender;
    };
    std::array<Worker, 3> workers;
    std::atomic<int> inside{0};
    std::atomic<int> done{0};
    for (Worker &worker : workers) {
        auto *starter = new QObject;
        starter->moveToThread(&worker.thread);
        connect(&worker.thread, &QThread::finished, starter, &QObject::deleteLater);
        worker.thread.start();
        QMetaObject::invokeMethod(starter, [&, kind] {
            worker.engine = makeEngine(kind);
            worker.contender = std::make_unique<Contender>(worker.engine.get(), keysOf(QStringLiteral("threads%1").arg(kind)),
                                                           &inside, 300);
            while (worker.contender->roundsLeft > 0)
                QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents, 100);
            worker.engine.reset();
            ++done;
        });
    }
    QTRY_COMPARE_WITH_TIMEOUT(done.load(), 3, 60'000);
    for (Worker &worker : workers) {
        worker.thread.quit();
        worker.thread.wait();
        QCOMPARE(worker.contender->overlaps, 0);
        QCOMPARE(worker.contender->notRising, 0);
        QCOMPARE(worker.contender->notMine, 0);
    }
}

void tst_EngineConformance::memoryStoresAreApart()
{
    MemoryEngine one(QStringLiteral("one"), LeaseClock::system());
    MemoryEngine two(QStringLiteral("two"), LeaseClock::system());
    const LockKeys keys = keysOf(QStringLiteral("a"));
    QCOMPARE(acquire(one, keys, newToken(one)).status, EngineReply::Granted);
    QCOMPARE(acquire(two, keys, newToken(two)).status, EngineReply::Granted);
    QCOMPARE(acquire(two, keys, newToken(two)).status, EngineReply::Taken);
}

void tst_EngineConformance::batchesShareCommands()
{
    const auto engine = makeEngine(Redis);
    const LockKeys warm = keysOf(QStringLiteral("warm"));
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
            engine->acquire(acquireOf(keysOf(QString::number(i)), tokens.at(i), 60s), replies.next());
        }
        QTRY_COMPARE(replies.list.size(), size);
        QCOMPARE(scriptCalls() - before, (size + 63) / 64);
        before = scriptCalls();
        for (int i = 0; i < size; ++i)
            engine->renew(keysOf(QString::number(i)), tokens.at(i), 60s, replies.next());
        QTRY_COMPARE(replies.list.size(), 2 * size);
        QCOMPARE(scriptCalls() - before, 1);
        before = scriptCalls();
        for (int i = 0; i < size; ++i)
            engine->release(keysOf(QString::number(i)), tokens.at(i), 60s, 0ms, replies.next());
        QTRY_COMPARE(replies.list.size(), 3 * size);
        QCOMPARE(scriptCalls() - before, (size + 63) / 64);
        for (const EngineReply &reply : std::as_const(replies.list))
            QVERIFY(reply.status == EngineReply::Granted || reply.status == EngineReply::Done);
    }
}

void tst_EngineConformance::foreignTypeInABatch()
{
    const auto engine = makeEngine(Redis);
    m_server->command({"RPUSH", "lock:list", "x"});
    m_server->command({"HSET", "{lock:fence}:fence", "a", "b"});
    const QStringList all{QStringLiteral("a"), QStringLiteral("list"), QStringLiteral("fence"), QStringLiteral("b")};
    const QByteArray token = newToken(*engine);
    Replies acquired, renewed, released;
    for (const QString &name : all)
        engine->acquire(acquireOf(keysOf(name), token, 60s), acquired.next());
    for (const QString &name : all)
        engine->renew(keysOf(name), token, 60s, renewed.next());
    for (const QString &name : all)
        engine->release(keysOf(name), token, 60s, 0ms, released.next());
    QTRY_COMPARE(released.list.size(), 4);
    const EngineReply &list = acquired.list.at(1);
    QCOMPARE(list.status, EngineReply::Failed);
    QCOMPARE(list.error.code, DistributedLock::ForeignTypeError);
    QVERIFY(list.error.permanent);
    QVERIFY(!list.error.maybeExecuted);
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

    const LockInfo info = inspect(*engine, keysOf(QStringLiteral("list")));
    QCOMPARE(info.error, DistributedLock::ForeignTypeError);
    QVERIFY(!inspect(*engine, keysOf(QStringLiteral("a"))).held);
    QCOMPARE(names(*engine, QStringLiteral("*")), QStringList());
    bool done = false;
    engine->forceRelease(keysOf(QStringLiteral("list")), [&](const EngineError &error, bool existed) {
        done = error.code == DistributedLock::ForeignTypeError && !existed;
    });
    QTRY_VERIFY(done);
    QVERIFY(m_server->exists("lock:list"));
}

void tst_EngineConformance::forbiddenKeyInABatch()
{
    m_server->command({"ACL", "SETUSER", "app", "on", ">secret", "~lock:mine*", "~{lock:mine*", "&*", "+@all"});
    QUrl url = m_server->url();
    url.setUserName(QStringLiteral("app"));
    url.setPassword(QStringLiteral("secret"));
    {
        const auto engine = makeEngine(Redis, url);
        const QByteArray token = newToken(*engine);
        const QStringList all{QStringLiteral("mine1"), QStringLiteral("theirs"), QStringLiteral("mine2")};
        // In which order the replies come is open here.
        QHash<QString, EngineReply> acquired, renewed, released;
        const auto into = [](QHash<QString, EngineReply> *replies, const QString &name) {
            return [replies, name](const EngineReply &reply) { replies->insert(name, reply); };
        };
        for (const QString &name : all)
            engine->acquire(acquireOf(keysOf(name), token, 60s), into(&acquired, name));
        QTRY_COMPARE(acquired.size(), 3);
        for (const QString &name : all)
            engine->renew(keysOf(name), token, 60s, into(&renewed, name));
        QTRY_COMPARE(renewed.size(), 3);
        for (const QString &name : all)
            engine->release(keysOf(name), token, 60s, 0ms, into(&released, name));
        QTRY_COMPARE(released.size(), 3);
        for (const auto *replies : {&acquired, &renewed, &released}) {
            const EngineReply theirs = replies->value(all.at(1));
            QCOMPARE(theirs.error.code, DistributedLock::PermissionError);
            QVERIFY(theirs.error.permanent);
            QVERIFY(!theirs.error.text.contains(QStringLiteral("secret")));
            QVERIFY(!theirs.error.text.contains(QStringLiteral("app")));
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

void tst_EngineConformance::forbiddenKeyDoesNotBringBackWhatWasAbandoned()
{
    m_server->command({"ACL", "SETUSER", "app", "on", ">secret", "~lock:mine*", "~{lock:mine*", "&*", "+@all"});
    QUrl url = m_server->url();
    url.setUserName(QStringLiteral("app"));
    url.setPassword(QStringLiteral("secret"));
    {
        const auto engine = makeEngine(Redis, url);
        const LockKeys mine = keysOf(QStringLiteral("mine"));
        const QByteArray token = newToken(*engine);
        Replies replies;
        engine->acquire(acquireOf(keysOf(QStringLiteral("theirs")), newToken(*engine), 60s), replies.next());
        engine->acquire(acquireOf(mine, token, 60s), replies.next());
        engine->abandon(mine, token, 60s, 0ms, 60s);
        QTRY_COMPARE(replies.list.size(), 2);
        QTRY_VERIFY(!m_server->exists("lock:mine"));
    }
    m_server->command({"ACL", "DELUSER", "app"});
}

void tst_EngineConformance::unknownScriptDoesNotBringBackWhatWasAbandoned()
{
    // The server knows the cancel script and not the acquire script: cancel overtakes acquire.
    const auto engine = makeEngine(Redis);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    const QByteArray token = newToken(*engine);
    m_server->command({"SCRIPT", "FLUSH"});
    engine->abandon(keys, newToken(*engine), 60s, 0ms, 60s);
    release(*engine, keys, newToken(*engine)); // runs after it
    const qint64 acquires = m_server->commandsProcessed("eval");
    Replies replies;
    engine->acquire(acquireOf(keys, token, 60s), replies.next());
    engine->abandon(keys, token, 60s, 0ms, 60s);
    QTRY_COMPARE(replies.list.size(), 1);
    QCOMPARE(replies.list.first().status, EngineReply::Granted);
    QCOMPARE(m_server->commandsProcessed("eval") - acquires, 1);
    QTRY_VERIFY(!m_server->exists("lock:a"));
    renew(*engine, keys, token); // known again for the tests that follow
}

void tst_EngineConformance::keyWithoutTtl()
{
    const auto engine = makeEngine(Redis);
    const LockKeys keys = keysOf(QStringLiteral("a"));
    m_server->command({"SET", "lock:a", "somebody"});
    LockInfo info = inspect(*engine, keys);
    QVERIFY(info.held);
    QVERIFY(info.foreign);
    QCOMPARE(info.holder, QString()); // their token is a secret
    QVERIFY(info.remaining < 0ms);

    Replies replies;
    LockEngine::Acquire operation = acquireOf(keys, newToken(*engine), 60s);
    operation.repairMissingTtl = false;
    engine->acquire(operation, replies.next());
    QTRY_COMPARE(replies.list.size(), 1);
    QCOMPARE(replies.list.at(0).status, EngineReply::Taken);
    QVERIFY(replies.list.at(0).foreignHolder);
    QVERIFY(replies.list.at(0).holderTtl < 0ms);
    QCOMPARE(m_server->pttl("lock:a"), -1);

    operation.repairMissingTtl = true;
    engine->acquire(operation, replies.next());
    QTRY_COMPARE(replies.list.size(), 2);
    QCOMPARE(replies.list.at(1).status, EngineReply::Taken);
    QVERIFY(replies.list.at(1).holderTtl > 0ms);
    QVERIFY(m_server->pttl("lock:a") > 0);
    QCOMPARE(m_server->get("lock:a"), QByteArray("somebody"));
}

void tst_EngineConformance::listLeavesOutWhatHasGone()
{
    Support::FaultProxy proxy(*m_server);
    {
        const auto engine = makeEngine(Redis, proxy.url());
        QCOMPARE(acquire(*engine, keysOf(QStringLiteral("a")), newToken(*engine)).status, EngineReply::Granted);
        const qint64 scans = m_server->commandsProcessed("scan");
        proxy.setRepliesHeld(true);
        QStringList found;
        bool done = false;
        engine->list(QStringLiteral("lock:"), QStringLiteral("*"), [&](const EngineError &, const QList<LockInfo> &infos) {
            done = true;
            for (const LockInfo &info : infos)
                found.append(info.name);
        });
        QTRY_COMPARE(proxy.commandsForwarded("SCAN"), 1);
        QTRY_COMPARE(m_server->commandsProcessed("scan"), scans + 1); // it has been found
        m_server->command({"DEL", "lock:a"});
        proxy.setRepliesHeld(false);
        QTRY_VERIFY(done);
        QCOMPARE(found, QStringList());
    }
    proxy.closeAll();
}

void tst_EngineConformance::thousandsAbandonedAtOnce()
{
    const auto engine = makeEngine(Redis);
    Replies replies;
    QList<LockKeys> keys;
    QList<QByteArray> tokens;
    constexpr int Count = 10'000;
    for (int i = 0; i < Count; ++i) {
        keys.append(keysOf(QString::number(i)));
        tokens.append(newToken(*engine));
        engine->acquire(acquireOf(keys.at(i), tokens.at(i), 600s), replies.next());
    }
    QTRY_COMPARE_WITH_TIMEOUT(replies.list.size(), Count, 60'000);
    timespec start, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (int i = 0; i < Count; ++i)
        engine->abandon(keys.at(i), tokens.at(i), 600s, 0ms, 600s);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    const auto spent = std::chrono::seconds(end.tv_sec - start.tv_sec) + std::chrono::nanoseconds(end.tv_nsec - start.tv_nsec);
    // Some microseconds each, also unoptimised and with sanitizers; what grows with the square takes seconds.
    QVERIFY2(spent < 500ms, qPrintable(QStringLiteral("%1 ms").arg(spent / 1ms)));
    QTRY_VERIFY_WITH_TIMEOUT(m_server->keys(QByteArrayLiteral("lock:*")).isEmpty(), 60'000);
}

void tst_EngineConformance::abandonOutlivesAReconnect()
{
    Support::FaultProxy proxy(*m_server);
    {
        const auto engine = makeEngine(Redis, proxy.url());
        const LockKeys keys = keysOf(QStringLiteral("a"));
        const QByteArray token = newToken(*engine);
        QCOMPARE(acquire(*engine, keys, token, 600s).status, EngineReply::Granted);
        proxy.setRefusing(true);
        proxy.resetAll();
        QTRY_VERIFY(engine->state() != LockEngine::Ready);
        engine->abandon(keys, token, 600s, 0ms, 600s);
        QVERIFY(m_server->exists("lock:a"));
        proxy.setRefusing(false);
        QTRY_VERIFY(!m_server->exists("lock:a"));

        // And the connection that is lost with it.
        const QByteArray next = newToken(*engine);
        QCOMPARE(acquire(*engine, keys, next, 600s).status, EngineReply::Granted);
        proxy.cutBefore("EVALSHA");
        engine->abandon(keys, next, 600s, 0ms, 600s);
        QTRY_VERIFY(!m_server->exists("lock:a"));
        QCOMPARE(proxy.faultsDone(), 1);
    }
    proxy.closeAll();
}

QTEST_GUILESS_MAIN(tst_EngineConformance)
#include "tst_engineconformance.moc"
