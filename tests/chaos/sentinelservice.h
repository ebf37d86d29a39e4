// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "service.h"

#include "support/fakesentinel.h"
#include "support/sentinelset.h"

#include <QtCore/qset.h>

#include <memory>

namespace Chaos {

/*!
    A master, two replicas and three Sentinels, their faults, and what their fail-overs lose: asks servers and Sentinels
    all the time. Links lead to the Sentinels.
*/
class SentinelService : public Service
{
public:
    SentinelService(History *history, const QList<QByteArray> &locks);

    bool start() override;
    QList<quint16> linkedPorts() const override;
    QUrl url(const QList<quint16> &linkPorts) const override { return m_set.url({}, linkPorts); }
    QList<Support::RedisServer *> servers() override;
    /// All servers, and all Sentinels, agree on the master.
    bool isHealthy() override;
    bool hasWorked(const Fault &fault, int before) const override;
    Undo inject(const Fault &fault) override;

private:
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
    void switched(quint16 port);
    void failOver();
    void forgetMaster(qint64 silentUntil);
    Undo killMaster(Support::RedisServer *master);
    Undo stopMaster(Support::RedisServer *master);
    Undo letMasterSleep(Support::RedisServer *master, std::chrono::milliseconds duration);
    Undo stopSentinels(const QSet<int> &sentinels);
    Undo replaceByLiar(int sentinel, bool claimsMany);

    Support::SentinelSet m_set;
    Support::RedisServer m_foreign; ///< none of the service's
    std::unique_ptr<Support::FakeSentinel> m_liar;
    QSet<int> m_stoppedSentinels;
    QHash<quint16, qint64> m_silentUntil; ///< boot time; by port: servers that are not asked, as they do not answer
    QHash<quint16, ServerState> m_states; ///< by port
    QHash<quint16, qint64> m_notNamed;    ///< boot time; by port: when no Sentinel named that server as the master
    quint16 m_master = 0;                 ///< its port, as the majority of the Sentinels see it
};

} // namespace Chaos
