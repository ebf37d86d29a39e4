// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/quorum/quorumengine.h"
#include "support/eventually.h"
#include "support/locktest.h"
#include "support/redisset.h"
#include "support/registrytime.h"

/// Shared by the tests of locks over a majority of servers.
namespace QuorumTesting {

using namespace LockTesting;

inline const QByteArray Key = "lock:a"; ///< of idOf("a")

inline QDistLock::QuorumEngine *engineOf(LockRegistry &registry)
{
    QDistLock::EngineError error;
    return static_cast<QDistLock::QuorumEngine *>(LockRegistryPrivate::get(&registry)->engine(&error));
}

inline QDistLock::LockId idOf(const QString &name)
{
    QString error;
    return *QDistLock::LockId::make(QStringLiteral("lock:"), name, &error);
}

/// The index of the server that has the queue of the lock "a".
inline int arbiterOf(LockRegistry &registry)
{
    return engineOf(registry)->arbiterOf(idOf(QStringLiteral("a")));
}

/// A third of the lease passes: it is renewed. True if it is held then.
inline bool renewNow(DistributedLock *lock, StillRegistry &registry)
{
    const QSignalSpy renewed(lock, &DistributedLock::renewed);
    registry.pass(lock->options().lease / 3);
    return eventually([&] {
               registry.advance(1ms); // until another attempt, if a reply was late
               return renewed.size() > 0 || !lock->isHeld();
           })
            && lock->isHeld();
}

/// Acquires and releases another lock: at each server of \a set, behind all that \a registry has sent before. True if
/// it reached them all. (What a server asks for again, because it does not know the script, runs behind it.)
inline bool passThrough(LockRegistry *registry, Support::RedisSet &set)
{
    const QByteArray fence = "{lock:last}:fence"; // stays, also if a vote is given back because its reply is late
    for (int i = 0; i < set.size(); ++i)
        set.server(i).command({"DEL", fence});
    DistributedLock last(registry, QStringLiteral("last"));
    return acquireNow(&last) && eventually([&] { return set.count(fence) == set.size(); }) && releaseNow(&last);
}

/// Watches all who acquire one lock: nobody may get it while another one holds it, or with an old fencing token.
class Witness
{
public:
    /// To be called in a slot of acquired().
    void acquired(const DistributedLock *lock)
    {
        m_overlaps += m_holder && m_holder != lock && m_holder->isHeld() ? 1 : 0;
        m_inversions += lock->fencingToken() <= m_lastFencingToken ? 1 : 0;
        m_lastFencingToken = lock->fencingToken();
        m_holder = lock;
        ++m_acquisitions;
    }
    /// To be called when the holder has released the lock, or is about to be destroyed.
    void released() { m_holder = nullptr; }

    int acquisitions() const { return m_acquisitions; }
    int overlaps() const { return m_overlaps; }
    int inversions() const { return m_inversions; }

private:
    const DistributedLock *m_holder = nullptr;
    qint64 m_lastFencingToken = 0;
    int m_acquisitions = 0;
    int m_overlaps = 0;
    int m_inversions = 0;
};

} // namespace QuorumTesting
