// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/clusterlisting.h"

#include "engine/redis/clusternode.h"

#include <QtCore/qhash.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

struct ClusterListing::List
{
    QString prefix;
    QString pattern;
    LockListing::Completion completion;
    QHash<QtRedis::Endpoint, EngineError> asked = {}; ///< with the error of each
    qsizetype outstanding = 0;
    QHash<QString, LockInfo> locks = {}; ///< by name: a key that moves may be found twice
};

ClusterListing::ClusterListing(const QtRedis::ServerUrl &cluster, QtRedis::ClusterWatch *watch,
                               std::function<ClusterNode *(const QtRedis::Endpoint &)> nodeAt)
    : m_cluster(cluster)
    , m_watch(watch)
    , m_nodeAt(std::move(nodeAt))
{
}

void ClusterListing::begin(const QString &prefix, const QString &pattern, LockListing::Completion completion)
{
    ++m_active;
    m_watch->refresh(); // no MOVED shows a master that SCAN should be sent to
    askOthers(std::make_shared<List>(List{prefix, pattern, std::move(completion)}));
}

void ClusterListing::askOthers(const std::shared_ptr<List> &list)
{
    const QList<QtRedis::Endpoint> masters = m_watch->map().masters();
    for (const QtRedis::Endpoint &master : masters) {
        if (list->asked.contains(master))
            continue;
        list->asked.insert(master, {});
        ++list->outstanding;
        ClusterNode *const node = m_nodeAt(master);
        node->whenConnected([=] {
            node->lane().list(list->prefix, list->pattern, [=](const EngineError &error, const QList<LockInfo> &locks) {
                list->asked.insert(master, error);
                for (const LockInfo &lock : locks)
                    list->locks.insert(lock.name, lock);
                if (--list->outstanding == 0)
                    askOthers(list);
            });
        });
    }
    if (list->outstanding > 0)
        return;
    --m_active;
    const auto failed = std::find_if(masters.begin(), masters.end(),
                                     [&](const QtRedis::Endpoint &master) { return bool(list->asked.value(master)); });
    if (failed != masters.end()) {
        EngineError error = list->asked.value(*failed);
        error.text = u"there is no list of locks, because those of one master would lack: %1"_s.arg(error.text);
        list->completion(error, {});
    } else if (const int served = m_watch->map().servedSlots(); served < QtRedis::SlotMap::SlotCount) {
        list->completion(
                EngineError::passing(
                        DistributedLock::ServerError,
                        u"%1: there is no list of locks, because no node serves those of some slots (%2 of %3 slots are served); look at CLUSTER INFO"_s
                                .arg(m_cluster.toDisplayString())
                                .arg(served)
                                .arg(QtRedis::SlotMap::SlotCount)),
                {});
    } else {
        list->completion({}, list->locks.values());
    }
}

} // namespace QDistLock
