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
    } else if (EngineError error = unservedSlots()) {
        error.text = u"there is no list of locks, because some could not be found: %1"_s.arg(error.text);
        list->completion(error, {});
    } else {
        list->completion({}, list->locks.values());
    }
}

EngineError ClusterListing::unservedSlots() const
{
    const int served = m_watch->map().servedSlots();
    if (served == QtRedis::SlotMap::SlotCount)
        return {};
    return EngineError::passing(
            DistributedLock::ServerError,
            u"%1: no node serves the locks of some slots (%2 of %3 slots are served); look at CLUSTER INFO"_s
                    .arg(m_cluster.toDisplayString())
                    .arg(served)
                    .arg(QtRedis::SlotMap::SlotCount));
}

void ClusterListing::scan(const QString &prefix, const QString &pattern, const QByteArray &from,
                          std::function<void(const LockEngine::ScanStep &)> completion)
{
    QList<QtRedis::Endpoint> masters = m_watch->map().masters();
    if (from.isEmpty()) {
        m_watch->refresh(); // no MOVED shows a master that SCAN should be sent to
        for (const QtRedis::Endpoint &master : std::as_const(masters))
            m_nodeAt(master)->whenConnected([] {}); // one that cannot be reached must not be the only one that is known
    }
    // A step begins at "host:port cursor". If that master serves no slots any more, at the one after it.
    const auto nameOf = [](const QtRedis::Endpoint &master) { return master.toString().toUtf8(); };
    std::sort(masters.begin(), masters.end(), [&](const auto &a, const auto &b) { return nameOf(a) < nameOf(b); });
    const QByteArray name = from.first(std::max<qsizetype>(from.indexOf(' '), 0));
    const auto master = std::find_if(masters.begin(), masters.end(), [&](const auto &m) { return nameOf(m) >= name; });
    if (master == masters.end()) {
        QMetaObject::invokeMethod(
                m_watch, [completion, error = unservedSlots()] { completion({error}); }, Qt::QueuedConnection);
        return;
    }
    const QByteArray cursor = nameOf(*master) == name ? from.sliced(name.size() + 1) : "0"_ba;
    // The empty cursor of the next master; after the last one the map may have another.
    const QByteArray after = nameOf(*master) + "\x01 ";
    ClusterNode *const node = m_nodeAt(*master);
    node->whenConnected([=, name = nameOf(*master)] {
        node->lane().scan(prefix, pattern, cursor,
                          [=](const EngineError &error, const QList<LockId> &locks, const QByteArray &next) {
                              completion({error, locks, error || next == "0" ? after : name + ' ' + next});
                          });
    });
}

} // namespace QDistLock
