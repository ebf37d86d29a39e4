// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "enginefixture.h"

#include "base/leaseclock.h"
#include "engine/enginefactory.h"
#include "engine/memory/memoryengine.h"
#include "engine/quorum/quorumengine.h"
#include "engine/redis/clusterengine.h"
#include "engine/redis/redisengine.h"
#include "support/eventloopprobe.h"
#include "support/rows.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qtimer.h>
#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace EngineTesting {

namespace {

/// The servers keep a lock for a waiter that should claim it for a minute, not for 3 s.
constexpr int Slowness = 20;

/// Runs an event loop until \a operation has called its completion.
EngineReply replyTo(const std::function<void(LockEngine::Completion)> &operation)
{
    Replies replies;
    QEventLoop loop;
    QTimer::singleShot(60s, &loop, &QEventLoop::quit);
    operation([&](const EngineReply &reply) {
        replies.list.append(reply);
        loop.quit();
    });
    loop.exec();
    return replies.list.value(0);
}

} // namespace

LockId lockId(const QString &name, const QString &prefix)
{
    QString error;
    const auto id = LockId::make(prefix, name, &error);
    if (!id)
        qFatal("%ls", qUtf16Printable(error));
    return *id;
}

QByteArray newToken(LockEngine &engine)
{
    return engine.makeToken();
}

LockEngine::Acquire acquireOf(const LockId &id, const QByteArray &token, milliseconds lease)
{
    return {id, token, lease, true, false};
}

void EngineFixture::addEnginesThatShare()
{
    Support::addRows<int>(
            "kind",
            {{"redis", int(Redis)}, {"memory", int(Memory)}, {"sentinel", int(Sentinel)}, {"cluster", int(Cluster)}});
}

void EngineFixture::startServer()
{
    auto options = Support::RedisServer::Options::withTcp();
    options.environment = m_serverClock.environment();
    m_server = std::make_unique<Support::RedisServer>(options);
    QVERIFY2(m_server->start(), qPrintable(m_server->errorString()));
    m_serverClock.slowDown(Slowness);
    m_sentinels.clear();
    Support::FakeSentinel::View view;
    view.port = m_server->port();
    view.others = 2;
    for (int i = 0; i < 3; ++i)
        m_sentinels.push_back(std::make_unique<Support::FakeSentinel>(view));
    const auto engine = makeEngine(Redis);
    const LockId id = lockId(u"a"_s);
    const QByteArray token = newToken(*engine);
    QCOMPARE(acquire(*engine, id, token).status, EngineReply::Granted);
    QCOMPARE(renew(*engine, id, token).status, EngineReply::Done);
    QCOMPARE(release(*engine, id, token).status, EngineReply::Done);
}

void EngineFixture::prepare(int kind)
{
    if (kind == Cluster)
        startCluster();
    if (kind == Quorum)
        startQuorum();
    if (kind == ZooKeeper)
        startZooKeeper();
    flush();
}

void EngineFixture::startCluster()
{
    if (m_cluster)
        return;
    auto options = Support::RedisCluster::Options::mastersOnly();
    options.environment = m_serverClock.environment();
    m_cluster = std::make_unique<Support::RedisCluster>(options);
    m_serverClock.slowDown(1); // its nodes need the time to find each other
    QVERIFY2(m_cluster->start(), qPrintable(m_cluster->errorString()));
    m_serverClock.slowDown(Slowness);
    const auto engine = makeEngine(Cluster);
    for (int i = 0; i < 50; ++i) { // at each of the masters
        const LockId id = lockId(QString::number(i));
        const QByteArray token = newToken(*engine);
        QCOMPARE(acquire(*engine, id, token).status, EngineReply::Granted);
        QCOMPARE(renew(*engine, id, token).status, EngineReply::Done);
        QCOMPARE(release(*engine, id, token).status, EngineReply::Done);
    }
}

void EngineFixture::startQuorum()
{
    if (m_quorum)
        return;
    m_quorum = std::make_unique<Support::RedisSet>(3);
    QVERIFY2(m_quorum->start(), qPrintable(m_quorum->errorString()));
    for (int i = 0; i < m_quorum->size(); ++i)
        m_quorum->clock(i).slowDown(Slowness);
    const auto engine = makeEngine(Quorum);
    for (int i = 0; i < 10; ++i) { // with each of them as arbiter
        const LockId id = lockId(QString::number(i));
        const QByteArray token = newToken(*engine);
        QCOMPARE(acquire(*engine, id, token).status, EngineReply::Granted);
        QCOMPARE(renew(*engine, id, token).status, EngineReply::Done);
        QCOMPARE(release(*engine, id, token).status, EngineReply::Done);
    }
}

void EngineFixture::startZooKeeper()
{
    if (m_zooKeeper)
        return;
#ifndef QDISTLOCK_HAVE_ZOOKEEPER
    QSKIP("The library was built without its engine for ZooKeeper, because the headers of the C client are not "
          "installed. On Debian: apt install libzookeeper-st-dev");
#endif
    if (!Support::ZooKeeperServer::isInstalled())
        QSKIP(Support::ZooKeeperServer::NotInstalled);
    m_zooKeeper = std::make_unique<Support::ZooKeeperServer>();
    QVERIFY2(m_zooKeeper->start(), qPrintable(m_zooKeeper->errorString()));
}

Support::RedisServer &EngineFixture::serverOf(int kind, const LockId &id)
{
    if (kind == Quorum) {
        const auto engine = makeEngine(Quorum);
        return m_quorum->server(static_cast<QuorumEngine *>(engine.get())->arbiterOf(id));
    }
    return kind == Cluster ? m_cluster->serverOf(id.key()) : *m_server;
}

void EngineFixture::flush()
{
    m_server->command({"FLUSHALL"});
    if (m_cluster)
        m_cluster->flushAll();
    if (m_quorum)
        m_quorum->flushAll();
}

void EngineFixture::waitForDisconnection()
{
    EVENTUALLY_COMPARE(m_server->connectedClients(), 0);
    if (m_cluster)
        EVENTUALLY_COMPARE(m_cluster->connectedClients(), 0);
    if (m_quorum)
        EVENTUALLY_COMPARE(m_quorum->connectedClients(), 0);
    if (m_zooKeeper) // 1: the one that asks
        EVENTUALLY_VERIFY(m_zooKeeper->ask("mntr").contains("zk_num_alive_connections\t1\n"));
}

QUrl EngineFixture::serviceUrl() const
{
    QStringList addresses;
    for (const auto &sentinel : m_sentinels)
        addresses.append(u"127.0.0.1:%1"_s.arg(sentinel->port()));
    return QUrl(u"redis+sentinel://%1/mymaster?node=%2&node=%3"_s.arg(addresses[0], addresses[1], addresses[2]));
}

QUrl EngineFixture::url(int kind) const
{
    switch (kind) {
    case Memory:
        return QUrl(u"memory:test"_s);
    case Sentinel:
        return serviceUrl();
    case Cluster:
        return m_cluster->url();
    case Quorum:
        return m_quorum->directUrl();
    case ZooKeeper: // its leases end with the session
        return QUrl(u"zookeeper://127.0.0.1:%1/locks?session=3600000"_s.arg(m_zooKeeper->port()));
    }
    QUrl url = m_server->url();
    if (kind == Plain)
        url.setQuery(u"scripts=off"_s);
    return url;
}

std::unique_ptr<LockEngine> EngineFixture::makeEngine(int kind, const QUrl &otherUrl)
{
    std::unique_ptr<LockEngine> engine;
    if (kind == Memory) {
        engine = std::make_unique<MemoryEngine>(u"test"_s, &m_memoryClock);
    } else if (kind == ZooKeeper) {
        EngineError error;
        engine = EngineFactory::create(url(kind), LeaseClock::system(), &error);
        if (!engine)
            qFatal("%ls", qUtf16Printable(error.text));
    } else {
        QString error;
        const auto server = QtRedis::ServerUrl::parse(otherUrl.isEmpty() ? url(kind) : otherUrl, &error);
        if (!server)
            qFatal("%ls", qUtf16Printable(error));
        if (!server->clusterNodes.isEmpty())
            engine = std::make_unique<ClusterEngine>(*server, LeaseClock::system());
        else if (!server->quorumNodes.isEmpty())
            engine = std::make_unique<QuorumEngine>(*server, LeaseClock::system());
        else
            engine = std::make_unique<RedisEngine>(*server, LeaseClock::system());
    }
    engine->open();
    if (!Support::EventLoopProbe::waitFor([&] { return engine->state() == LockEngine::Ready; }))
        qFatal("no connection: %ls", qUtf16Printable(engine->error().text));
    return engine;
}

EngineReply EngineFixture::acquire(LockEngine &engine, const LockId &id, const QByteArray &token, milliseconds lease)
{
    return replyTo([&](LockEngine::Completion completion) {
        LockEngine::Acquire operation = acquireOf(id, token, lease);
        operation.permits = m_permits;
        engine.acquire(operation, std::move(completion));
    });
}

EngineReply EngineFixture::renew(LockEngine &engine, const LockId &id, const QByteArray &token, milliseconds lease)
{
    return replyTo(
            [&](LockEngine::Completion completion) { engine.renew(id, token, lease, {}, std::move(completion)); });
}

EngineReply EngineFixture::release(LockEngine &engine, const LockId &id, const QByteArray &token, milliseconds keep)
{
    return replyTo(
            [&](LockEngine::Completion completion) { engine.release(id, token, 30s, keep, std::move(completion)); });
}

EngineReply EngineFixture::convert(LockEngine &engine, const LockId &id, const QByteArray &from, const QByteArray &to)
{
    return replyTo([&](LockEngine::Completion completion) {
        engine.convert(acquireOf(id, to, 30s), from, std::move(completion));
    });
}

EngineReply EngineFixture::wait(LockEngine &engine, const LockId &id, const QByteArray &token,
                                const QByteArray &arrival, bool barge)
{
    return replyTo([&](LockEngine::Completion completion) {
        engine.acquire({id, token, 30s, true, true, barge, arrival, {}, m_permits}, std::move(completion));
    });
}

EngineFixture::WaitingClient EngineFixture::waitingClient(int kind, const LockId &id, const MakeToken &makeToken,
                                                          bool barge)
{
    WaitingClient client;
    client.engine = makeListeningEngine(kind, lockId(u"other"_s));
    if (kind == Cluster) {
        // The subscription for this lock comes with the first need of it.
        const QByteArray token = makeToken(*client.engine);
        const int others = inspect(*client.engine, id).queueLength;
        wait(*client.engine, id, token);
        if (!Support::EventLoopProbe::waitFor([&] { return client.engine->canBeWoken(id); }))
            qFatal("no subscription");
        client.engine->abandon(id, token, 30s, 0ms, 60s);
        // An acquire in the same turn of the event loop would be sent first, and find this token in the queue.
        if (!Support::EventLoopProbe::waitFor([&] { return inspect(*client.engine, id).queueLength == others; }))
            qFatal("still in the queue");
    }
    client.notices = std::make_unique<Notices>(*client.engine);
    client.token = makeToken(*client.engine);
    client.reply = wait(*client.engine, id, client.token, {}, barge);
    return client;
}

std::unique_ptr<LockEngine> EngineFixture::makeListeningEngine(int kind, const LockId &id)
{
    auto engine = makeEngine(kind);
    if (kind == Plain)
        return engine; // nobody waits in a queue
    // The first need: in a cluster, that the lock is taken.
    const QByteArray holder = newToken(*engine);
    if (kind == Cluster) {
        acquire(*engine, id, holder);
        acquire(*engine, id, newToken(*engine));
    }
    release(*engine, id, holder);
    if (!Support::EventLoopProbe::waitFor([&] { return engine->canBeWoken(id); }))
        qFatal("no subscription");
    return engine;
}

LockInfo EngineFixture::inspect(LockEngine &engine, const LockId &id)
{
    LockInfo info;
    replyTo([&](LockEngine::Completion completion) {
        engine.inspect(id, [&info, completion](const EngineError &error, const LockInfo &seen) {
            info = seen;
            info.error = error.code;
            info.errorString = error.text;
            completion({});
        });
    });
    return info;
}

QStringList EngineFixture::names(LockEngine &engine, const QString &pattern, const QString &prefix)
{
    QStringList names;
    bool done = false;
    engine.list(prefix, pattern, [&](const EngineError &error, const QList<LockInfo> &infos) {
        for (const LockInfo &info : infos)
            names.append(info.name);
        if (error)
            names.append(u"error: "_s + error.text);
        done = true;
    });
    Support::EventLoopProbe::waitFor([&] { return done; });
    names.sort();
    return done ? names : QStringList{u"no answer"_s};
}

bool EngineFixture::forceRelease(LockEngine &engine, const LockId &id)
{
    return replyTo([&](LockEngine::Completion completion) { engine.forceRelease(id, 0, std::move(completion)); }).status
            == EngineReply::Done;
}

void EngineFixture::expire(int kind, LockEngine &engine, const LockId &id)
{
    if (kind == Memory) {
        m_memoryClock.advance(inspect(engine, id).remaining);
    } else if (kind == ZooKeeper) { // as if its session had ended
        forceRelease(engine, id);
    } else if (kind == Quorum) {
        for (int i = 0; i < m_quorum->size(); ++i)
            m_quorum->server(i).command({"PEXPIRE", id.key(), "1"});
        EVENTUALLY_COMPARE(m_quorum->count(id.key()), 0);
    } else {
        QCOMPARE(serverOf(kind, id).command({"PEXPIRE", id.key(), "1"}).toInt(), 1);
    }
    if (kind != ZooKeeper) // the next one holds it
        EVENTUALLY_VERIFY(!inspect(engine, id).held);
}

void EngineFixture::pass(int kind, milliseconds duration)
{
    if (kind == Memory) {
        m_memoryClock.advance(duration);
    } else {
        m_passed += duration;
        m_serverClock.shift(m_passed);
    }
}

LeaseTime EngineFixture::now(int kind) const
{
    return kind == Memory ? m_memoryClock.now() : LeaseClock::system()->now();
}

} // namespace EngineTesting
