// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/serverurl.h"
#include "redis/topology/slotmap.h"

#include <QtCore/qset.h>

#include <chrono>

namespace Cli {

class DoctorConnection;
class DoctorReport;

/*!
    The nodes of one Redis Cluster, examined one after the other: whether they can be reached, belong together, and
    serve all slots, and whether a slot was left half moved.

    Its functions run the event loop until they have their result. A signal ends them, see interruption().
*/
class DoctorCluster
{
public:
    DoctorCluster(const QtRedis::ServerUrl &cluster, std::chrono::milliseconds timeout, DoctorReport *report);

    /// Asks the nodes of the URL. The masters that a client would use; empty if there are none, or after a signal.
    QList<QtRedis::ServerUrl> findMasters();
    /// After findMasters(): which slots \a master serves, and whether some of them are moving.
    void checkMaster(const QtRedis::ServerUrl &master);
    /// After checkMaster() of all: whether a lock with \a lease is still held when its master was replaced.
    void checkLease(std::chrono::milliseconds lease);

    /// As that of DoctorConnection.
    int interruption() const { return m_interruption; }

private:
    void ask(const QtRedis::Endpoint &address);
    void addView(const QtRedis::Endpoint &address, const QtRedis::ClusterView &view);
    void addRefusal(const DoctorConnection &connection, const QByteArray &reply);
    void checkSlots();

    const QtRedis::ServerUrl m_cluster;
    const std::chrono::milliseconds m_timeout;
    DoctorReport *const m_report;
    QtRedis::SlotMap m_map;
    QtRedis::Endpoint m_first; ///< of the nodes that have answered
    QByteArray m_firstId;
    QSet<QByteArray> m_members;                 ///< that it knows
    std::chrono::milliseconds m_nodeTimeout{0}; ///< the longest; 0 = not known
    int m_interruption = 0;
};

} // namespace Cli
