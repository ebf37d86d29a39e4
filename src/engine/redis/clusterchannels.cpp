// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/clusterchannels.h"

#include "engine/protocolconstants.h"
#include "engine/redis/clientname.h"
#include "engine/redis/clusternode.h"
#include "engine/redis/noticemessage.h"
#include "engine/redis/pingpace.h"
#include "engine/redis/rediskeys.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// How long a channel stays subscribed after its last waiter: usually the next one comes soon.
constexpr milliseconds ChannelLife = 10s;
constexpr milliseconds SweepInterval = 2s;

} // namespace

ClusterChannels::ClusterChannels(const QtRedis::ServerUrl &cluster, const QByteArray &clientId,
                                 QtRedis::ClusterWatch *watch, Nodes nodes, std::function<bool()> needConnection)
    : m_cluster(cluster)
    , m_clientId(clientId)
    , m_watch(watch)
    , m_nodes(std::move(nodes))
    , m_needConnection(std::move(needConnection))
{
    m_sweepTimer.setInterval(SweepInterval);
    connect(&m_sweepTimer, &QTimer::timeout, this, &ClusterChannels::sweep);
}

ClusterChannels::~ClusterChannels()
{
    if (m_messages) {
        m_messages->disconnect(this);
        m_messages->setNeeded(nullptr);
    }
}

void ClusterChannels::addNode(const ClusterNode *node)
{
    const QtRedis::Subscriber *const subscriber = &node->subscriber();
    connect(subscriber, &QtRedis::Subscriber::readEnded, this, &ClusterChannels::processed);
    connect(subscriber, &QtRedis::Subscriber::subscribed, this, &ClusterChannels::postWakeable);
    connect(subscriber, &QtRedis::Subscriber::interrupted, this,
            [this, endpoint = node->endpoint()] { interrupted(endpoint); });
    connect(subscriber, &QtRedis::Subscriber::movedAway, this,
            [this, endpoint = node->endpoint()](const QByteArray &name) { movedAway(endpoint, name); });
}

void ClusterChannels::nodeReadyAgain(const QtRedis::Endpoint &node)
{
    if (m_messages && m_messagesAt == node)
        m_messages->reconnect(); // the cause may have cut it off, too
}

void ClusterChannels::removeNode(const QtRedis::Endpoint &node)
{
    m_watchedBy.remove(node);
    listenElsewhere(node);
}

void ClusterChannels::mapChanged()
{
    for (auto it = m_channels.begin(), end = m_channels.end(); it != end; ++it) {
        const auto owner = m_watch->map().ownerOf(it->slot);
        // The slot has left this node, which would refuse the subscription. The reply to a waiter's next request names
        // the new master.
        const bool isLeft = !it->node && owner == it->left;
        if (it->node != owner && !isLeft)
            listen(it.key(), &*it);
    }
}

void ClusterChannels::open()
{
    if (m_messages)
        m_messages->resume();
}

bool ClusterChannels::isReading() const
{
    return m_messages && m_messages->isReading();
}

QByteArray ClusterChannels::channelOf(const LockId &lock) const
{
    // The hash tag of the queue, as the scripts take it from there.
    const QByteArray queue = RedisKeys::queue(lock);
    const qsizetype open = queue.indexOf('{');
    return Protocol::Channels + m_clientId + ':' + queue.mid(open, queue.indexOf('}', open) - open + 1);
}

bool ClusterChannels::canBeWoken(const LockId &lock) const
{
    const QByteArray name = channelOf(lock);
    const auto channel = m_channels.constFind(name);
    if (channel == m_channels.cend() || !channel->node || channel->node != m_watch->map().ownerOf(channel->slot))
        return false;
    const ClusterNode *const node = m_nodes.known(*channel->node);
    return node && node->subscriber().isSubscribed(name);
}

ClusterChannels::Channels::iterator ClusterChannels::channelFor(const LockId &lock)
{
    const QByteArray name = channelOf(lock);
    auto it = m_channels.find(name);
    if (it == m_channels.end())
        it = m_channels.insert(name, {QtRedis::SlotMap::slotOf(lock.key()), std::nullopt});
    it->keptUntil = Deadline(ChannelLife);
    if (!it->node)
        listen(name, &*it);
    else if (ClusterNode *const node = m_nodes.known(*it->node))
        node->subscriber().resume();
    if (!m_sweepTimer.isActive())
        m_sweepTimer.start();
    return it;
}

void ClusterChannels::watchMaster(const LockId &lock, milliseconds lease)
{
    const auto master = m_watch->map().ownerOf(QtRedis::SlotMap::slotOf(lock.key()));
    if (!master)
        return;
    listenForForcedReleases(*m_nodes.at(*master));
    QByteArray &name = m_watchedBy[*master];
    auto channel = m_channels.find(name);
    if (channel == m_channels.end() || channel->node != master) {
        channel = channelFor(lock);
        name = channel.key();
    }
    channel->watchedUntil = std::max(channel->watchedUntil, Deadline(lease));
}

bool ClusterChannels::isWanted(const Channel &channel, bool isNeeded)
{
    return !channel.waiting.isEmpty() || !channel.keptUntil.hasExpired()
            || (!channel.watchedUntil.hasExpired() && isNeeded);
}

void ClusterChannels::listen(const QByteArray &name, Channel *channel)
{
    if (channel->node) {
        if (ClusterNode *const former = m_nodes.known(*channel->node))
            former->subscriber().unsubscribe(name);
    }
    channel->node = m_watch->map().ownerOf(channel->slot);
    if (channel->node)
        m_nodes.at(*channel->node)->subscriber().subscribe(name);
}

void ClusterChannels::movedAway(const QtRedis::Endpoint &node, const QByteArray &name)
{
    const auto it = m_channels.find(name);
    if (it == m_channels.end() || it->node != node)
        return;
    it->left = node;
    it->node.reset(); // until the map has changed, or sweep()
    m_watch->refresh(node);
    postWakeable(name); // the waiters poll, and the reply (MOVED) names the new master
}

void ClusterChannels::notWaiting(const LockId &lock, const QByteArray &token)
{
    const auto it = m_channels.find(channelOf(lock));
    if (it != m_channels.end() && it->waiting.remove(Token::sequenceOf(token)))
        it->keptUntil = Deadline(ChannelLife);
}

bool ClusterChannels::isWaitedAt(const QtRedis::Endpoint &node) const
{
    return std::any_of(m_channels.cbegin(), m_channels.cend(),
                       [&node](const Channel &channel) { return channel.node == node && !channel.waiting.isEmpty(); });
}

void ClusterChannels::sweep()
{
    const bool isNeeded = m_needConnection(); // examines all locks
    for (auto it = m_channels.begin(); it != m_channels.end();) {
        if (isWanted(*it, isNeeded)) {
            if (!it->node)
                listen(it.key(), &*it);
            ++it;
            continue;
        }
        ClusterNode *const node = it->node ? m_nodes.known(*it->node) : nullptr;
        if (node)
            node->subscriber().unsubscribe(it.key());
        it = m_channels.erase(it);
    }
    if (m_channels.isEmpty())
        m_sweepTimer.stop();
}

void ClusterChannels::listenForForcedReleases(const ClusterNode &node)
{
    const QByteArray channel = Protocol::Channels + m_clientId;
    makeMessages(node);
    if (!m_messages->hasChannel(channel))
        m_messages->subscribe(channel);
}

void ClusterChannels::listenForMonitors(const ClusterNode &node)
{
    makeMessages(node);
    m_monitorChannel->listen();
}

void ClusterChannels::makeMessages(const ClusterNode &node)
{
    if (m_messages) {
        m_messages->resume();
        return;
    }
    m_messagesAt = node.endpoint();
    m_messages = std::make_unique<QtRedis::Subscriber>(node.lane().server());
    m_monitorChannel = std::make_unique<MonitorChannel>(m_messages.get(), m_clientId);
    m_messages->setClientName(ClientName{m_clientId, {}}.toByteArray());
    m_messages->setNeeded([this] { return m_needConnection(); });
    m_messages->setPingInterval(PingPace::Interval);
    m_messages->setPingDue([](milliseconds sinceLast) { return PingPace::isDue(-1, sinceLast); });
    connect(m_messages.get(), &QtRedis::Subscriber::messageReceived, this,
            [this](const QByteArray &channel, const QByteArray &payload) {
                if (channel == m_monitorChannel->name())
                    return;
                const auto message = NoticeMessage::parse(payload);
                if (message && message->notice == LockEngine::ForcedRelease)
                    Q_EMIT noticed(LockEngine::ForcedRelease, message->sequence, 0ms);
            });
    connect(m_monitorChannel.get(), &MonitorChannel::messageReceived, this, &ClusterChannels::messageReceived);
    connect(m_messages.get(), &QtRedis::Subscriber::readEnded, this, &ClusterChannels::processed);
}

void ClusterChannels::listenElsewhere(const QtRedis::Endpoint &former)
{
    if (!m_messages || m_messagesAt != former)
        return;
    const QList<QtRedis::Endpoint> masters = m_watch->map().masters();
    for (const QtRedis::Endpoint &master : masters) {
        const ClusterNode *const node = m_nodes.known(master);
        if (master == former || (node && !node->isUsable()))
            continue;
        m_messagesAt = master;
        m_messages->setServer(m_cluster.atNode(master), u"another node is listened to"_s);
        return;
    }
}

void ClusterChannels::interrupted(const QtRedis::Endpoint &node)
{
    for (auto it = m_channels.cbegin(), end = m_channels.cend(); it != end; ++it) {
        if (it->node == node)
            postWakeable(it.key());
    }
}

void ClusterChannels::postWakeable(const QByteArray &channel)
{
    m_changed.insert(channel);
    m_postedWakeable.post();
}

void ClusterChannels::reportWakeable()
{
    Q_EMIT wakeableChanged([this, changed = std::exchange(m_changed, {})](const LockId &lock) {
        return changed.contains(channelOf(lock));
    });
}

} // namespace QDistLock
