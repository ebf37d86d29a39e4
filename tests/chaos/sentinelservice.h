// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "history.h"
#include "schedule.h"

#include "support/sentinelset.h"

#include <QtCore/qhash.h>
#include <QtCore/qobject.h>
#include <QtCore/qset.h>

#include <functional>

namespace Chaos {

/*!
    A master, two replicas and three Sentinels, their faults, and what their fail-overs lose: asks servers and Sentinels
    all the time, and records for each fail-over what the new master had of each lock when it was promoted.
    Thread: the one that constructed it, with a running event loop, which waits for each answer.
*/
class SentinelService : public QObject
{
public:
    using Undo = std::function<void()>;

    SentinelService(History *history, const QList<QByteArray> &locks);

    bool start();
    Support::SentinelSet &set() { return m_set; }
    /// Its port, as the majority of the Sentinels see it.
    quint16 master() const { return m_master; }
    /// Nothing is left of a fault: all servers, and all Sentinels, agree on the master.
    bool isHealthy();
    /// Of Partitioned it is the part that servers and Sentinels have. Blocks if a server starts again.
    Undo inject(const Fault &fault);

private:
    /// What a server has of a lock.
    struct Kept
    {
        qint64 fence = 0;   ///< the newest fencing token
        qint64 expires = 0; ///< boot time at which the lock's key ends; 0 if there is none
    };
    struct ServerState
    {
        bool isMaster = false;
        qint64 time = 0;        ///< its own, in us
        qint64 lastReplica = 0; ///< boot time at which it was last seen as a replica; 0 if never
        QList<Kept> kept;       ///< one for each lock; as it was promoted, if it is the master
    };

    void look();
    void lookAt(Support::RedisServer *server);
    ServerState stateOf(const QVariantList &reply, qint64 asked, const ServerState *before) const;
    quint16 masterOfMajority();
    void recordFailOver(quint16 port);
    void failOver();
    void forgetMaster(qint64 silentUntil);
    Undo killMaster(Support::RedisServer *master);
    Undo stopMaster(Support::RedisServer *master);
    Undo letMasterSleep(Support::RedisServer *master, std::chrono::milliseconds duration);
    Undo stopSentinels(const QSet<int> &sentinels);

    History *const m_history;
    const QList<QByteArray> m_locks;
    Support::SentinelSet m_set;
    QSet<int> m_stoppedSentinels;
    QHash<quint16, qint64> m_silentUntil; ///< boot time; by port: servers that are not asked, as they do not answer
    QHash<quint16, ServerState> m_states; ///< by port
    QHash<quint16, qint64> m_notNamed;    ///< boot time; by port: when no Sentinel named that server as the master
    quint16 m_master = 0;
};

} // namespace Chaos
