// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "faultproxy.h"
#include "redisserver.h"

#include <memory>
#include <vector>

namespace Support {

/*!
    A master with replicas, each behind a FaultProxy of its own: what holds up that link makes the replica lag.

    All functions block, with a time-out. Thread: the one that constructed the object.
*/
class ReplicaSet
{
public:
    /// \a masterOptions: with a TCP port, and without a password.
    explicit ReplicaSet(int replicas, const RedisServer::Options &masterOptions = RedisServer::Options::withTcp());

    /// True when all replicas are connected.
    bool start();
    RedisServer &master() { return m_master; }
    RedisServer &replica(int index) { return *m_members[size_t(index)].replica; }
    int replicaCount() const { return int(m_members.size()); }
    /// Between the master and that replica.
    FaultProxy &link(int index) { return *m_members[size_t(index)].link; }

    /// The replica leaves the master, and keeps its data.
    void detach(int index);
    void attach(int index);
    /// Heals the links, continues and attaches all replicas, and waits for them.
    bool restore();

    /// Replicas that the master takes for connected.
    int connectedReplicas();
    bool waitForReplicas(int count, std::chrono::milliseconds timeout = std::chrono::seconds(60));

private:
    struct Member
    {
        std::unique_ptr<FaultProxy> link;
        std::unique_ptr<RedisServer> replica;
    };
    RedisServer m_master;
    std::vector<Member> m_members;
};

} // namespace Support
