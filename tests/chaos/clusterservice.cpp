// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "clusterservice.h"

#include "support/clusterslot.h"

#include <QtCore/qtimer.h>

#include <algorithm>

using namespace std::chrono_literals;
using Support::RedisCluster;
using Support::RedisServer;

namespace Chaos {

namespace {

RedisCluster::Options optionsFor(quint64 seed)
{
    RedisCluster::Options options;
    options.nodeTimeout = 1500ms;
    // In half of the rounds one master that is away makes the whole cluster refuse commands.
    options.needsAllSlots = seed / 2 % 2 == 0;
    // The servers must lose no key except by a fail-over.
    options.config = {"maxmemory-policy noeviction"};
    options.canBeCutOff = true;
    return options;
}

} // namespace

ClusterService::ClusterService(History *history, const QList<QByteArray> &locks, quint64 seed)
    : Service(history, locks)
    , m_cluster(optionsFor(seed))
    , m_mover(history, &m_cluster, locks, seed + 4'000'003,
              {[this] { look(); }, [this] { return masters(); }, [this](int slot) { return ownerOf(slot); },
               [this](int node) { return successorOf(node); },
               [this](int slot, int source, int target) { return isMoving(slot, source, target); }})
{
}

bool ClusterService::start()
{
    if (!m_cluster.start()) {
        qWarning("%ls", qUtf16Printable(m_cluster.errorString()));
        return false;
    }
    auto *timer = new QTimer(this);
    connect(timer, &QTimer::timeout, this, &ClusterService::look);
    timer->start(10ms);
    m_mover.start();
    return true;
}

QUrl ClusterService::url(const QList<quint16> &) const
{
    return m_cluster.url();
}

QList<RedisServer *> ClusterService::servers()
{
    QList<RedisServer *> servers;
    for (int i = 0; i < m_cluster.nodeCount(); ++i) {
        if (!m_cluster.isRemoved(i))
            servers.append(&m_cluster.node(i));
    }
    return servers;
}

bool ClusterService::isHealthy()
{
    return m_added < 0 && (!m_isQuiet || m_mover.isIdle()) && m_cluster.isHealthy();
}

void ClusterService::quiet()
{
    m_isQuiet = true;
    m_mover.stop();
}

// What the nodes are

bool ClusterService::Node::serves(int slot) const
{
    return isMaster && std::any_of(ranges.begin(), ranges.end(), [slot](const QByteArray &range) {
               const QList<QByteArray> ends = range.split('-');
               return ends.first().toInt() <= slot && slot <= ends.last().toInt();
           });
}

int ClusterService::slotOf(const QByteArray &lock) const
{
    return Support::clusterSlot(keyOf(lock));
}

QList<int> ClusterService::masters() const
{
    QList<int> masters;
    for (int i = 0; i < m_cluster.nodeCount(); ++i) {
        const auto node = m_nodes.constFind(i);
        if (node == m_nodes.cend() || !node->isMaster || i == m_cutOff)
            continue;
        // A former master that does not know of its replacement must not get a new config epoch with a slot: it would
        // win back the others.
        const bool isOwner = !node->ranges.isEmpty() && ownerOf(node->ranges.first().split('-').first().toInt()) == i;
        if (isOwner || (i == m_added && m_isAddedMember && node->ranges.isEmpty()))
            masters.append(i);
    }
    return masters;
}

/// Two may claim it after a fail-over, until they have met.
int ClusterService::ownerOf(int slot) const
{
    int owner = -1;
    for (auto node = m_nodes.cbegin(); node != m_nodes.cend(); ++node) {
        if (node->serves(slot) && (owner < 0 || node->epoch > m_nodes.value(owner).epoch))
            owner = node.key();
    }
    return owner;
}

int ClusterService::replicaOf(int master) const
{
    if (master < 0)
        return -1;
    const QByteArray id = m_cluster.id(master);
    for (auto node = m_nodes.cbegin(); node != m_nodes.cend(); ++node) {
        if (!node->isMaster && node->master == id && !isSilent(node.key()))
            return node.key();
    }
    return -1;
}

int ClusterService::successorOf(int index) const
{
    for (int i = 0; i < m_cluster.nodeCount() && !m_nodes.value(index).isMaster; ++i)
        index = m_successor.value(index, index);
    return index;
}

int ClusterService::indexOf(const QByteArray &id) const
{
    for (int i = 0; i < m_cluster.nodeCount(); ++i) {
        if (m_cluster.id(i) == id)
            return i;
    }
    return -1;
}

/// Also of a slot that is served elsewhere.
bool ClusterService::hasKey(int index, const QByteArray &lock)
{
    const QVariant reply = m_cluster.node(index).command(
            {"CLUSTER", "GETKEYSINSLOT", QByteArray::number(slotOf(lock)), "100"}, 500ms);
    return reply.toList().contains(keyOf(lock));
}

bool ClusterService::isMoving(int slot, int source, int target) const
{
    const QByteArray out = '[' + QByteArray::number(slot) + "->-" + m_cluster.id(target) + ']';
    const QByteArray in = '[' + QByteArray::number(slot) + "-<-" + m_cluster.id(source) + ']';
    return m_nodes.value(source).moves.contains(out) && m_nodes.value(target).moves.contains(in);
}

void ClusterService::look()
{
    for (int i = 0; i < m_cluster.nodeCount(); ++i) {
        if (!m_cluster.isRemoved(i) && !isSilent(i))
            lookAt(i);
    }
}

void ClusterService::lookAt(int index)
{
    // Atomic, and allowed on replicas. The keys are arguments, so that one script may ask for those of several slots;
    // of those that are elsewhere it learns that.
    static const QByteArray script = R"(
        local myself = string.match(redis.call('CLUSTER', 'NODES'), '[^\n]*myself[^\n]*')
        local time = redis.call('TIME')
        local found = {myself, string.format('%d%06d', time[1], time[2])}
        for _, key in ipairs(ARGV) do
            local side = string.find(key, '{', 1, true) and key or '{' .. key .. '}'
            local fence = redis.pcall('GET', side .. ':fence')
            local remaining = redis.pcall('PTTL', key)
            local isHere = type(fence) ~= 'table' and type(remaining) ~= 'table'
            found[#found + 1] = isHere and (fence or '0') or 'elsewhere'
            found[#found + 1] = isHere and remaining or 0
        end
        return found
    )";
    const qint64 asked = bootTime();
    RedisServer *const server = &m_cluster.node(index);
    server->command({"READONLY"}, 500ms); // the connection may be new
    QList<QByteArray> command{"EVAL", script, "0"};
    for (const QByteArray &lock : locks())
        command.append(keyOf(lock));
    const QVariantList reply = server->command(command, 500ms).toList();
    if (reply.size() != 2 + 2 * locks().size())
        return;
    const auto before = m_nodes.constFind(index);
    const bool isKnown = before != m_nodes.cend();
    const Node node = nodeOf(reply, asked, isKnown ? &*before : nullptr);
    const bool isPromoted = isKnown && node.isMaster && !before->isMaster && !node.ranges.isEmpty();
    const QByteArray formerMaster = isKnown ? before->master : QByteArray();
    m_nodes.insert(index, node);
    if (isPromoted)
        promoted(index, formerMaster);
}

ClusterService::Node ClusterService::nodeOf(const QVariantList &reply, qint64 asked, const Node *before) const
{
    const QList<QByteArray> fields = reply.at(0).toByteArray().split(' ');
    Node node;
    node.isMaster = fields.value(2).contains("master");
    node.master = fields.value(3);
    node.epoch = fields.value(6).toLongLong();
    for (const QByteArray &field : fields.mid(8))
        (field.startsWith('[') ? node.moves : node.ranges).append(field);
    node.time = reply.at(1).toLongLong();
    node.lastReplica = !node.isMaster ? asked : before ? before->lastReplica : 0;
    if (node.isMaster && before && before->isMaster) {
        node.kept = before->kept;
        return node;
    }
    for (qsizetype i = 0; i < locks().size(); ++i) {
        const QByteArray fence = reply.at(2 + 2 * i).toByteArray();
        const qint64 remaining = reply.at(3 + 2 * i).toLongLong();
        Kept kept{fence.toLongLong(), remaining > 0 ? asked + remaining * 1'000'000 : 0};
        // Tokens are times: a client may have acquired the lock there between the promotion and now.
        if (before && (fence == "elsewhere" || (node.isMaster && kept.fence > before->time)))
            kept = before->kept.at(i);
        node.kept.append(kept);
    }
    return node;
}

void ClusterService::promoted(int index, const QByteArray &formerMaster)
{
    const Node node = m_nodes.value(index);
    const int former = indexOf(formerMaster);
    const qint64 now = bootTime();
    QHash<QByteArray, Kept> kept;
    for (qsizetype i = 0; i < locks().size(); ++i) {
        const QByteArray &lock = locks().at(i);
        const int slot = slotOf(lock);
        if (node.serves(slot)) {
            kept.insert(lock, node.kept.at(i));
        } else if (former >= 0 && m_mover.targetOf(slot) == former) {
            // Some keys of the slot were at the former master already, and the source has no copy of them.
            const int source = ownerOf(slot);
            if (!hasKey(index, lock) && !(source >= 0 && hasKey(source, lock)))
                kept.insert(lock, Kept());
        }
    }
    recordFailOver(m_cluster.node(index).port(), node.lastReplica, now, kept);
    if (former >= 0)
        m_successor[former] = index;
}

// Faults

void ClusterService::forget(int index)
{
    m_silent.insert(index);
    m_nodes.remove(index);
    m_successor.remove(index);
}

bool ClusterService::hasWorked(const Fault &fault, int before) const
{
    if (fault.kind == FaultKind::NodeForeign)
        return true;
    if (fault.kind == FaultKind::SlotLeftMoving || fault.kind == FaultKind::SlotGivenAway)
        return m_mover.halfDoneFor() >= fault.duration;
    if (fault.kind == FaultKind::NodeAdded)
        return m_hasAddedServed;
    return failOvers() > before;
}

ClusterService::Undo ClusterService::killMaster(int master)
{
    const qint64 killed = bootTime();
    const QList<QByteArray> all = locks();
    QList<QByteArray> served;
    std::copy_if(all.begin(), all.end(), std::back_inserter(served),
                 [&](const QByteArray &lock) { return m_nodes.value(master).serves(slotOf(lock)); });
    forget(master);
    m_cluster.node(master).kill();
    return [this, master, served, killed] {
        if (!m_cluster.node(master).start())
            qFatal("a server does not start again: %ls", qUtf16Printable(m_cluster.node(master).errorString()));
        m_silent.remove(master);
        if (m_successor.contains(master))
            return;
        for (const QByteArray &lock : served) { // it serves them again, and has nothing
            history()->append(Event(bootTime(), "nemesis", lock, "key", "info")
                                      .with("lostBy", QByteArray(nameOf(FaultKind::MasterKilled)))
                                      .with("from", killed)
                                      .with("to", bootTime()));
        }
    };
}

ClusterService::Undo ClusterService::stopMaster(int master)
{
    forget(master);
    m_cluster.node(master).pause();
    return [this, master] {
        m_cluster.node(master).resume();
        m_silent.remove(master);
    };
}

ClusterService::Undo ClusterService::cutOffMaster(int master)
{
    // The replica connects again and again, but hears nothing new for most of the time.
    auto *timer = new QTimer(this);
    connect(timer, &QTimer::timeout, this, [this, master] {
        m_cluster.node(master).command({"CLIENT", "KILL", "TYPE", "replica"}, 500ms);
    });
    timer->start(10ms);
    m_cutOff = master;
    m_cluster.cutOff(master);
    return [this, master, timer] {
        timer->deleteLater();
        m_cutOff = -1;
        m_cluster.join(master);
    };
}

/// Tries again, for a while: a replica refuses while it is not connected to its master.
void ClusterService::failOver(int lock, const QByteArray &mode)
{
    auto *timer = new QTimer(this);
    const int before = failOvers();
    const qint64 until = bootTime() + std::chrono::nanoseconds(10s).count();
    connect(timer, &QTimer::timeout, this, [this, timer, until, before, lock, mode] {
        const int replica = replicaOf(ownerOf(slotOf(locks().at(lock))));
        if (failOvers() > before || bootTime() > until || (replica >= 0 && m_cluster.failOver(replica, mode)))
            timer->deleteLater();
    });
    timer->start(100ms);
}

ClusterService::Undo ClusterService::addNode()
{
    m_added = m_cluster.beginAddMaster();
    if (m_added < 0)
        qFatal("no node can be added: %ls", qUtf16Printable(m_cluster.errorString()));
    m_isAddedMember = m_hasAddedServed = m_isLeaving = false;
    auto *timer = new QTimer(this);
    connect(timer, &QTimer::timeout, this, [this, timer] {
        watchAddedNode();
        if (m_added >= 0)
            return;
        timer->stop();
        timer->deleteLater();
    });
    timer->start(50ms);
    return [this] {
        m_isLeaving = true;
        m_mover.evacuate(m_added);
    };
}

void ClusterService::watchAddedNode()
{
    m_hasAddedServed |= !m_nodes.value(m_added).ranges.isEmpty();
    if (!m_isAddedMember) {
        m_isAddedMember = m_cluster.isMember(m_added);
        if (m_isAddedMember && !m_isLeaving)
            m_mover.prefer(m_added);
    } else if (m_isLeaving && m_nodes.value(m_added).ranges.isEmpty() && !m_mover.isMovingFromOrTo(m_added)) {
        m_mover.evacuate(-1);
        if (!m_cluster.removeNode(m_added))
            qWarning("nemesis: a node is not removed: %s", m_cluster.lastError().constData());
        m_nodes.remove(m_added);
        m_added = -1;
    }
}

ClusterService::Undo ClusterService::makeForeign(int replica)
{
    if (replica < 0)
        return [] {};
    const QByteArray master = m_nodes.value(replica).master;
    forget(replica);
    if (!m_cluster.secede(replica))
        qWarning("nemesis: a node does not leave: %s", m_cluster.lastError().constData());
    return [this, replica, master] {
        if (!m_cluster.comeBack(replica))
            qFatal("a node does not come back: %s", m_cluster.lastError().constData());
        auto *timer = new QTimer(this);
        connect(timer, &QTimer::timeout, this, [this, timer, replica, master] {
            if (m_cluster.node(replica).command({"CLUSTER", "REPLICATE", master}).toByteArray() != "OK")
                return; // it does not know its master yet
            m_silent.remove(replica);
            timer->deleteLater();
        });
        timer->start(50ms);
    };
}

ClusterService::Undo ClusterService::inject(const Fault &fault)
{
    look();
    const int owner = ownerOf(slotOf(locks().at(fault.lock)));
    const int master = owner >= 0 ? owner : masters().value(0, -1);
    // The cluster may not have healed in time from the fault before.
    if (master < 0 || (fault.kind == FaultKind::NodeAdded && m_added >= 0))
        return [] {};
    switch (fault.kind) {
    case FaultKind::MasterKilled:
        return killMaster(master);
    case FaultKind::MasterStopped:
        return stopMaster(master);
    case FaultKind::FailedOver:
        failOver(fault.lock, {});
        return [] {};
    case FaultKind::TakenOver:
        failOver(fault.lock, "TAKEOVER");
        return [] {};
    case FaultKind::Partitioned:
        return cutOffMaster(master);
    case FaultKind::NodeAdded:
        return addNode();
    case FaultKind::NodeForeign:
        return makeForeign(replicaOf(master));
    case FaultKind::SlotGivenAway:
        m_mover.leaveToNobody();
        return [this] { m_mover.goOn(); };
    default:
        m_mover.leaveHalfDone();
        return [this] { m_mover.goOn(); };
    }
}

} // namespace Chaos
