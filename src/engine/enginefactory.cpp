// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/enginefactory.h"

#include "engine/memory/memoryengine.h"
#include "engine/quorum/quorumengine.h"
#include "engine/redis/clusterengine.h"
#include "engine/redis/redisengine.h"
#include "engine/redis/rediskeys.h"

using namespace Qt::StringLiterals;

namespace QDistLock {

namespace {

bool isMemory(const QUrl &server)
{
    return server.scheme() == u"memory";
}

std::optional<QtRedis::ServerUrl> parseRedis(const QUrl &server, QString *problem)
{
    return QtRedis::ServerUrl::parse(server, problem, {u"memory"_s});
}

} // namespace

QString EngineFactory::check(const QUrl &server)
{
    if (isMemory(server)) {
        const bool isNameOnly = server.host().isEmpty() && !server.hasQuery() && !server.hasFragment();
        return isNameOnly ? QString() : u"the server URL must be memory: or memory:name"_s;
    }
    QString problem;
    parseRedis(server, &problem);
    return problem;
}

std::unique_ptr<LockEngine> EngineFactory::create(const QUrl &server, const LeaseClock *clock, EngineError *error)
{
    QString problem = check(server);
    if (problem.isEmpty() && isMemory(server))
        return std::make_unique<MemoryEngine>(server.path(), clock);
    if (problem.isEmpty()) {
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
