// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/enginefactory.h"

#include "engine/memory/memoryengine.h"
#include "engine/quorum/quorumengine.h"
#include "engine/redis/clusterengine.h"
#include "engine/redis/redisengine.h"
#include "engine/redis/rediskeys.h"
#include "engine/servername.h"
#include "engine/zookeeper/zookeeperurl.h"

#ifdef QDISTLOCK_HAVE_ZOOKEEPER
#  include "engine/zookeeper/zookeeperengine.h"
#endif

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

bool isMemory(const QUrl &server)
{
    return server.scheme() == u"memory";
}

std::optional<QtRedis::ServerUrl> parseRedis(const QUrl &server, QString *problem)
{
    return QtRedis::ServerUrl::parse(server, problem, {u"zookeeper"_s, u"memory"_s});
}

std::unique_ptr<LockEngine> createZooKeeper(const QUrl &server, const LeaseClock *clock, QString *problem)
{
    const auto url = ZooKeeperUrl::parse(server, problem);
#ifdef QDISTLOCK_HAVE_ZOOKEEPER
    *problem = url ? QtZooKeeper::Session::problem() : *problem;
    if (problem->isEmpty())
        return std::make_unique<ZooKeeperEngine>(*url, clock);
#else
    Q_UNUSED(clock)
    if (url)
        *problem = u"a zookeeper: URL needs a QDistLock that was built with QDISTLOCK_BUILD_ZOOKEEPER, where the "
                   u"headers of ZooKeeper's C client are installed"_s;
#endif
    return nullptr;
}

} // namespace

QString EngineFactory::check(const QUrl &server)
{
    if (isMemory(server)) {
        const bool isNameOnly = server.host().isEmpty() && !server.hasQuery() && !server.hasFragment();
        return isNameOnly ? QString() : u"the server URL must be memory: or memory:name"_s;
    }
    QString problem;
    if (isZooKeeper(server))
        ZooKeeperUrl::parse(server, &problem);
    else
        parseRedis(server, &problem);
    return problem;
}

std::unique_ptr<LockEngine> EngineFactory::create(const QUrl &server, const LeaseClock *clock, EngineError *error)
{
    QString problem = check(server);
    if (problem.isEmpty() && isMemory(server))
        return std::make_unique<MemoryEngine>(server.path(), clock);
    if (problem.isEmpty() && isZooKeeper(server)) {
        if (auto engine = createZooKeeper(server, clock, &problem))
            return engine;
    } else if (problem.isEmpty()) {
        // Fails where check() did not if QDISTLOCK_PASSWORD has been changed since.
        const auto redis = parseRedis(server, &problem);
        if (redis && !redis->clusterNodes.isEmpty())
            return std::make_unique<ClusterEngine>(*redis, clock);
        if (redis && !redis->quorumNodes.isEmpty())
            return std::make_unique<QuorumEngine>(*redis, clock);
        if (redis)
            return std::make_unique<RedisEngine>(*redis, clock);
    }
    *error = EngineError::permanent(DistributedLock::OptionsError, problem);
    return nullptr;
}

std::optional<LockId> EngineFactory::makeLockId(const QString &prefix, const QString &name, QString *error)
{
    const auto id = LockId::make(prefix, name, error);
    if (!id)
        return std::nullopt;
    const QString problem = RedisKeys::problem(*id);
    if (problem.isEmpty())
        return id;
    *error = problem;
    return std::nullopt;
}

} // namespace QDistLock
