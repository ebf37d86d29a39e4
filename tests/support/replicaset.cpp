// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "replicaset.h"

#include "posix.h"

namespace Support {

ReplicaSet::ReplicaSet(int replicas, const RedisServer::Options &masterOptions)
    : m_master(masterOptions)
    , m_members(size_t(replicas))
{
}

bool ReplicaSet::start()
{
    if (!m_master.start())
        return false;
    for (Member &member : m_members) {
        member.link = std::make_unique<FaultProxy>(m_master.port());
        RedisServer::Options options;
        options.config = {"replicaof 127.0.0.1 " + QByteArray::number(member.link->port())};
        member.replica = std::make_unique<RedisServer>(options);
        if (!member.replica->start())
            return false;
    }
    return waitForReplicas(replicaCount());
}

void ReplicaSet::detach(int index)
{
    replica(index).command({"REPLICAOF", "NO", "ONE"});
}

void ReplicaSet::attach(int index)
{
    replica(index).command({"REPLICAOF", "127.0.0.1", QByteArray::number(link(index).port())});
}

bool ReplicaSet::restore()
{
    for (int i = 0; i < replicaCount(); ++i) {
        link(i).heal();
        replica(i).resume();
        attach(i);
    }
    return waitForReplicas(replicaCount());
}

int ReplicaSet::connectedReplicas()
{
    return int(m_master.command({"ROLE"}).toList().value(2).toList().size());
}

bool ReplicaSet::waitForReplicas(int count, std::chrono::milliseconds timeout)
{
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (connectedReplicas() != count) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        Posix::pollPause();
    }
    return true;
}

} // namespace Support
