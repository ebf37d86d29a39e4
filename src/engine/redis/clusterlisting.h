// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/redis/locklisting.h"
#include "redis/topology/clusterwatch.h"

#include <functional>
#include <memory>

namespace QDistLock {

class ClusterNode;

/// Lists the locks of all masters of a cluster. If one of them cannot be asked, or nobody serves a slot, the result
/// is an error: nobody could see that such a list lacks some. A lock whose key moves meanwhile may be missing.
/// Thread: that of the engine.
class ClusterListing
{
public:
    /// \a watch outlives this. \a nodeAt: the node at an address.
    ClusterListing(const QtRedis::ServerUrl &cluster, QtRedis::ClusterWatch *watch,
                   std::function<ClusterNode *(const QtRedis::Endpoint &)> nodeAt);

    /// At least one master is known.
    void begin(const QString &prefix, const QString &pattern, LockListing::Completion completion);
    /// As LockEngine::scan(). At least one master is known. One that cannot be asked is an error of one step, and the
    /// next step asks the next master.
    void scan(const QString &prefix, const QString &pattern, const QByteArray &from,
              std::function<void(const LockEngine::ScanStep &)> completion);
    /// A list has not ended.
    bool isActive() const { return m_active > 0; }

private:
    struct List;
    /// None if all slots are served.
    EngineError unservedSlots() const;
    /// Asks the masters that were not asked yet, and ends the list if there are none.
    void askOthers(const std::shared_ptr<List> &list);

    const QtRedis::ServerUrl m_cluster;
    QtRedis::ClusterWatch *const m_watch;
    const std::function<ClusterNode *(const QtRedis::Endpoint &)> m_nodeAt;
    int m_active = 0;
};

} // namespace QDistLock
