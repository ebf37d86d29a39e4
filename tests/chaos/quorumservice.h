// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "service.h"

#include "support/redisset.h"

#include <QtCore/qdeadlinetimer.h>

namespace Chaos {

/*!
    Three independent servers, each of which may be killed and come back empty, or be stopped, one at a time: the next
    one only when all votes count again. Their clocks differ by up to 100 ms, and with each fault that of the server is
    set. Links lead to the servers.
*/
class QuorumService : public Service
{
public:
    QuorumService(History *history, const QList<QByteArray> &locks, std::chrono::milliseconds lease);

    bool start() override;
    QList<quint16> linkedPorts() const override;
    QUrl url(const QList<quint16> &linkPorts) const override;
    QList<Support::RedisServer *> servers() override;
    bool isHealthy() override { return m_votesCountFrom.hasExpired(); }
    bool hasWorked(const Fault &, int) const override { return true; }
    Undo inject(const Fault &fault) override;

private:
    void waitForVotes();

    const std::chrono::milliseconds m_lease;
    mutable Support::RedisSet m_set{3};
    QDeadlineTimer m_votesCountFrom;
};

} // namespace Chaos
