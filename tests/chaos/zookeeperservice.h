// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "service.h"

#include "support/zookeeperserver.h"

namespace Chaos {

/*!
    An ensemble of three ZooKeeper servers, one of which at a time is killed or stopped: each second time it is the
    leader. They keep what they have confirmed, so no lock may be lost. Links lead to the servers. Sessions are as long
    as leases: a leader that is stopped for nearly as long as a session is what a client cannot notice, so leases must
    be longer than the servers put up with a silent leader, which is 2 s.
*/
class ZooKeeperService : public Service
{
public:
    ZooKeeperService(History *history, const QList<QByteArray> &locks, std::chrono::milliseconds lease);

    bool start() override;
    QList<quint16> linkedPorts() const override;
    QUrl url(const QList<quint16> &linkPorts) const override;
    QList<Support::RedisServer *> servers() override { return {}; }
    QStringList left() override;
    bool isHealthy() override;
    bool hasWorked(const Fault &, int) const override { return true; }
    Undo inject(const Fault &fault) override;

private:
    const std::chrono::milliseconds m_lease;
    Support::ZooKeeperServer m_ensemble{3};
};

} // namespace Chaos
