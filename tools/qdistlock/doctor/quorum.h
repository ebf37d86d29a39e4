// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/serverurl.h"

#include <QtCore/qhash.h>
#include <QtCore/qlist.h>

#include <chrono>

namespace Cli {

class DoctorConnection;
class DoctorReport;

/*!
    The servers of a quorum, examined one after the other: whether the vote of each counts, and whether they are a
    majority.

    Its functions run the event loop until they have their result. A signal ends them, see interruption().
*/
class DoctorQuorum
{
public:
    /// \a lease: that of the locks.
    DoctorQuorum(const QtRedis::ServerUrl &quorum, std::chrono::milliseconds timeout, std::chrono::milliseconds lease,
                 DoctorReport *report);

    /// Asks all servers for their votes. Those that were reached; empty after a signal.
    QList<QtRedis::ServerUrl> findServers();

    /// As that of DoctorConnection.
    int interruption() const { return m_interruption; }

private:
    void ask(const QtRedis::Endpoint &address);
    void addVote(DoctorConnection *connection, const QByteArray &info);
    void checkPersistence(DoctorConnection *connection);
    void checkMajority();

    const QtRedis::ServerUrl m_quorum;
    const std::chrono::milliseconds m_timeout;
    const std::chrono::milliseconds m_lease;
    DoctorReport *const m_report;
    QList<QtRedis::ServerUrl> m_reached;
    QHash<QByteArray, QString> m_runIds; ///< with the addresses that showed them
    int m_votes = 0;
    int m_interruption = 0;
};

} // namespace Cli
