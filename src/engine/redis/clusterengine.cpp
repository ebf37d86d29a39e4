// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/clusterengine.h"

#include "engine/redis/clientname.h"
#include "engine/redis/rediserrors.h"

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr int MostRedirections = 5; ///< of an operation; and of a slot, in RedirectionsPeriod
constexpr milliseconds RedirectionsPeriod = 1s;
/// For the replies of a former master that is alive.
constexpr milliseconds FormerMasterLife = 5s;
/// For the target of a move that cannot be reached, and serves no slot.
constexpr milliseconds TargetLife = 2s;

int slotOf(const LockId &lock)
{
    return QtRedis::SlotMap::slotOf(lock.key());
}

} // namespace

ClusterEngine::ClusterEngine(const QtRedis::ServerUrl &cluster, const LeaseClock *clock, QObject *parent)
    : LockEngine(parent)
    , m_cluster(cluster)
    , m_clock(clock)
    , m_abandoned(
              clock, [this](const LockId &lock) { return m_watch.isKnown() && stateFor(lock) == Ready; },
              [this](LockOperation cancel) { run(std::move(cancel)); })
    , m_watch(cluster)
    , m_channels(cluster, clientId(), &m_watch,
                 {[this](const QtRedis::Endpoint &endpoint) { return nodeAt(endpoint); },
                  [this](const QtRedis::Endpoint &endpoint) { return knownNodeAt(endpoint); }},
                 [this] { return need().connection; })
    , m_listing(cluster, &m_watch, [this](const QtRedis::Endpoint &endpoint) { return nodeAt(endpoint); })
    , m_oneKey(
              clock, [this](const QtRedis::Endpoint &endpoint) { return nodeAt(endpoint); },
              [this](int slot) { return nodeOf(slot); },
              [this](const QtRedis::Endpoint &from, const QtRedis::Redirection &moved) { return follow(from, moved); })
{
    m_watch.setClientName(ClientName{clientId(), {}}.toByteArray());
    m_watch.setNeeded([this](const std::optional<QtRedis::Endpoint> &master) {
        return (master ? needAt(*master) : need()).connection || m_listing.isActive() || m_abandoned.needConnection();
    });
    connect(&m_watch, &QtRedis::ClusterWatch::mapChanged, this, &ClusterEngine::mapChanged);
    connect(&m_watch, &QtRedis::ClusterWatch::failed, this, &LockEngine::failed);
    connect(&m_channels, &ClusterChannels::noticed, this, &LockEngine::noticed);
    connect(&m_channels, &ClusterChannels::messageReceived, this, &LockEngine::messageReceived);
    connect(&m_channels, &ClusterChannels::wakeableChanged, this, &LockEngine::wakeableChanged);
    connect(&m_channels, &ClusterChannels::processed, this, &LockEngine::processed);
}

ClusterEngine::~ClusterEngine()
{
    m_watch.disconnect(this);
    m_channels.disconnect(this);
    for (const auto &[endpoint, node] : m_nodes) {
        node->disconnect(this);
        disconnect(&node->lane(), &RedisLane::readEnded, this, nullptr);
    }
    // The lanes write what they have when they are destroyed.
    LockOperations cancels = m_abandoned.unconfirmed();
    for (LockOperation &cancel : cancels) {
        cancel.slot = slotOf(cancel.lock);
        ClusterNode *const node = knownNodeOf(cancel.slot);
        if (node && node->lane().isReady())
            node->lane().run(std::move(cancel));
    }
    const auto nodes = std::exchange(m_nodes, {});
    const auto former = std::exchange(m_former, {});
}

// Nodes

ClusterNode *ClusterEngine::knownNodeAt(const QtRedis::Endpoint &endpoint) const
{
    const auto it = m_nodes.find(endpoint);
    return it == m_nodes.end() ? nullptr : it->second.get();
}

ClusterNode *ClusterEngine::nodeAt(const QtRedis::Endpoint &endpoint)
{
    std::unique_ptr<ClusterNode> &entry = m_nodes[endpoint];
    if (entry)
        return entry.get();
    entry = std::make_unique<ClusterNode>(
            m_cluster.atNode(endpoint), m_clock, clientId(),
            RedisNode::Callbacks{
                    [this, endpoint] { return needAt(endpoint).connection; },
                    [this, endpoint] { return m_channels.isWaitedAt(endpoint) ? needAt(endpoint).queuePosition : -1; },
                    [this](quint64 sequence) { return waiterOf(sequence); }});
    ClusterNode *const node = entry.get();
    RedisLane &lane = node->lane();
    if (m_isCorked)
        lane.cork();
    lane.setClusterId([this, endpoint] { return m_watch.map().idOf(endpoint); });
    lane.setRedirect([this, node](LockOperations operations, const QByteArray &error) {
        redirected(node, std::move(operations), error);
    });
    const auto handOverAt = [this, endpoint](const Handover &handover) { handOver(handover, endpoint); };
    connect(&lane, &RedisLane::handedOver, this, handOverAt);
    connect(&lane, &RedisLane::readEnded, this, &LockEngine::processed);
    lane.setReadMoving([this](const LockId &lock, LockListing::Found found) { m_oneKey.read(lock, std::move(found)); });
    connect(&lane, &RedisLane::elsewhere, this, [this, node](const QByteArray &reply) { keptElsewhere(*node, reply); });
    connect(node, &ClusterNode::readyAgain, this, [this, node] { nodeReadyAgain(node); });
    connect(node, &ClusterNode::failed, this, [this, node] { nodeFailed(node); });
    connect(node, &ClusterNode::silent, this, [this, node](bool isSilent) {
        m_watch.setSuspect(node->endpoint(), isSilent ? QtRedis::ClusterWatch::Silent : QtRedis::ClusterWatch::None);
    });
    connect(node, &RedisNode::handedOver, this, handOverAt);
    connect(node, &RedisNode::noticed, this, [this](Notice notice, quint64 sequence, milliseconds ms) {
        if (notice == Grant)
            m_abandoned.found(sequence);
        Q_EMIT noticed(notice, sequence, ms);
    });
    m_channels.addNode(node);
    return node;
}

LockEngine::Need ClusterEngine::needAt(const QtRedis::Endpoint &master) const
{
    return need([this, &master](const LockId &lock) { return m_watch.map().ownerOf(slotOf(lock)) == master; });
}

ClusterNode *ClusterEngine::nodeOf(int slot)
{
    const auto owner = m_watch.map().ownerOf(slot);
    return owner ? nodeAt(*owner) : nullptr;
}

ClusterNode *ClusterEngine::knownNodeOf(int slot) const
{
    const auto owner = m_watch.map().ownerOf(slot);
    return owner ? knownNodeAt(*owner) : nullptr;
}

EngineError ClusterEngine::notServed(int slot) const
{
    const QString text =
            u"%1: no node serves the slot %2 of the lock, the cluster is not complete (%3 of %4 slots are served); look at CLUSTER INFO. It is tried again for as long as there is time."_s
                    .arg(m_cluster.toDisplayString())
                    .arg(slot)
                    .arg(m_watch.map().servedSlots())
                    .arg(QtRedis::SlotMap::SlotCount);
    return EngineError::passing(DistributedLock::ServerError, text).ofServer();
}

EngineError ClusterEngine::errorAt(const ClusterNode &node) const
{
    return explained(node.lane().error());
}

EngineError ClusterEngine::explained(const EngineError &error) const
{
    if (!error || error.isPermanent || m_watch.errorString().isEmpty())
        return error;
    EngineError explained = error;
    explained.code = DistributedLock::ServerError;
    explained.text = u"%1 (%2)"_s.arg(m_watch.errorString(), error.text);
    return explained;
}

bool ClusterEngine::follow(const QtRedis::Endpoint &from, const QtRedis::Redirection &moved)
{
    const auto owner = m_watch.map().ownerOf(moved.slot);
    if (owner == moved.endpoint && owner != from)
        return true; // what was sent before the slot's new owner was known
    Redirections &redirections = m_redirections[moved.slot];
    if (redirections.until.hasExpired())
        redirections = {0, Deadline(RedirectionsPeriod), {}, {}};
    redirections.from = from;
    redirections.to = moved.endpoint;
    if (++redirections.count > MostRedirections) {
        m_watch.refresh();
        return false;
    }
    m_watch.moved(moved.slot, moved.endpoint);
    return true;
}

EngineError ClusterEngine::disputed(int slot) const
{
    const auto it = m_redirections.constFind(slot);
    if (it == m_redirections.cend() || it->count <= MostRedirections || it->until.hasExpired())
        return {};
    return EngineError::passing(
            DistributedLock::ServerError,
            u"%1: no node serves the slot %2 of the lock, because each redirects it to another one (%3 to %4); give it "
            "to one of them at all masters, as redis-cli --cluster fix does. It is tried again for as long as there is time."_s
                    .arg(m_cluster.toDisplayString())
                    .arg(slot)
                    .arg(m_cluster.atNode(it->from).toDisplayString(), m_cluster.atNode(it->to).toDisplayString()));
}

void ClusterEngine::nodeReadyAgain(ClusterNode *node)
{
    m_watch.setSuspect(node->endpoint(), QtRedis::ClusterWatch::None);
    m_channels.nodeReadyAgain(node->endpoint());
    m_abandoned.sendAll();
    // Locks of the slots that have just left it have waited for it, too. mapChanged() is still to come, and will find
    // that no node is failing.
    Q_EMIT stateChanged([this, endpoint = node->endpoint()](const LockId &lock) {
        return m_watch.map().ownerOf(slotOf(lock)) == endpoint || m_map.ownerOf(slotOf(lock)) == endpoint;
    });
}

void ClusterEngine::nodeFailed(ClusterNode *node)
{
    m_watch.setSuspect(node->endpoint(), QtRedis::ClusterWatch::Failed);
    m_channels.nodeFailed(node->endpoint());
    if (!m_watch.map().masters().contains(node->endpoint())) { // a slot was to move there
        // Not at once: each operation that is redirected there would connect again.
        QTimer::singleShot(TargetLife, node, [this, node] {
            const bool isMapReported = m_map.masters() == m_watch.map().masters(); // otherwise mapChanged() follows
            if (isMapReported && !node->isUsable())
                closeFormerMasters();
        });
    }
    Q_EMIT failed();
}

void ClusterEngine::mapChanged()
{
    const bool isFailing = std::any_of(m_nodes.begin(), m_nodes.end(),
                                       [](const auto &entry) { return !entry.second->isUsable(); });
    const QtRedis::SlotMap former = std::exchange(m_map, m_watch.map());
    // Thousands may be added in one turn of the event loop.
    m_redirections.removeIf([](const auto &entry) { return entry.value().until.hasExpired(); });
    const bool isReplaced = closeFormerMasters();
    const bool isFirst = !std::exchange(m_wasKnown, true);
    if (isFirst)
        m_formerMap = m_map;
    // After the ends of the former masters' commands, which are posted already.
    if (isReplaced)
        m_postedReplacement.post();
    m_channels.mapChanged();
    // Where only a slot has moved, the operations were redirected.
    if (!isFirst && !isFailing && !isReplaced)
        return;
    m_abandoned.sendAll();
    Q_EMIT stateChanged(isFirst ? LockFilter() : movedSince(former));
}

LockEngine::LockFilter ClusterEngine::movedSince(const QtRedis::SlotMap &former) const
{
    return [former, now = m_map](const LockId &lock) {
        return former.ownerOf(slotOf(lock)) != now.ownerOf(slotOf(lock));
    };
}

void ClusterEngine::reportReplacement()
{
    const LockFilter concerned = movedSince(std::exchange(m_formerMap, m_map));
    Q_EMIT stateChanged(concerned); // operations that the former masters did not answer are repeated
    Q_EMIT serverReplaced(concerned);
}

bool ClusterEngine::closeFormerMasters()
{
    bool found = false;
    const QList<QtRedis::Endpoint> masters = m_watch.map().masters();
    for (auto it = m_nodes.begin(); it != m_nodes.end();) {
        if (masters.contains(it->first)) {
            ++it;
            continue;
        }
        found = true;
        m_watch.setSuspect(it->first, QtRedis::ClusterWatch::None);
        m_channels.removeNode(it->first);
        auto former = std::move(it->second);
        it = m_nodes.erase(it);
        retire(std::move(former));
    }
    return found;
}

void ClusterEngine::retire(std::unique_ptr<ClusterNode> node)
{
    ClusterNode *const former = node.get();
    m_former.push_back(std::move(node));
    former->disconnect(this);
    disconnect(&former->lane(), &RedisLane::readEnded, this, nullptr);
    former->closeSubscriber();
    if (former->lane().isReady() && former->isReplying() && !former->lane().isIdle())
        QTimer::singleShot(FormerMasterLife, former, [this, former] { closeFormer(former); });
    else
        closeFormer(former);
}

void ClusterEngine::closeFormer(ClusterNode *node)
{
    node->close();
    QMetaObject::invokeMethod( // after the ends of its commands, which are posted already
            this,
            [this, node] {
                const auto it = std::find_if(m_former.begin(), m_former.end(),
                                             [node](const auto &former) { return former.get() == node; });
                if (it != m_former.end()) // otherwise the engine is being destroyed
                    m_former.erase(it);
            },
            Qt::QueuedConnection);
}

// State

void ClusterEngine::open()
{
    m_isOpen = true;
    m_watch.open();
    for (const auto &[endpoint, node] : m_nodes)
        node->open();
    m_channels.open();
}

void ClusterEngine::openFor(const LockId &lock)
{
    m_isOpen = true;
    m_watch.open();
    const auto master = m_watch.map().ownerOf(slotOf(lock));
    for (const auto &[endpoint, node] : m_nodes) {
        if (endpoint == master || !node->lane().isRetryingSlowly())
            node->open();
    }
    m_channels.open();
}

LockEngine::State ClusterEngine::state() const
{
    if (!m_watch.isKnown())
        return m_isOpen && !QtRedis::isPermanent(m_watch.failure()) ? Connecting : Disconnected;
    const bool isUsable = m_nodes.empty()
            || std::any_of(m_nodes.begin(), m_nodes.end(), [](const auto &entry) { return entry.second->isUsable(); });
    return isUsable ? Ready : Connecting;
}

EngineError ClusterEngine::error() const
{
    if (!m_watch.isKnown()) {
        return m_watch.failure() == QtRedis::Failure::None
                ? EngineError()
                : RedisErrors::ofFailure(m_watch.failure(), m_watch.errorString());
    }
    for (const auto &[endpoint, node] : m_nodes) {
        if (!node->isUsable())
            return errorAt(*node);
    }
    return {};
}

LockEngine::State ClusterEngine::stateFor(const LockId &lock) const
{
    if (!m_watch.isKnown())
        return state();
    // Operations on a lock of a slot that nobody serves say so.
    const ClusterNode *const node = knownNodeOf(slotOf(lock));
    return !node || node->isUsable() ? Ready : node->lane().state();
}

EngineError ClusterEngine::errorFor(const LockId &lock) const
{
    if (!m_watch.isKnown())
        return error();
    const int slot = slotOf(lock);
    if (!m_watch.map().ownerOf(slot))
        return notServed(slot);
    const ClusterNode *const node = knownNodeOf(slot);
    return node && !node->isUsable() ? errorAt(*node) : EngineError();
}

QString ClusterEngine::placeOf(const LockId &lock) const
{
    const ClusterNode *const node = knownNodeOf(slotOf(lock));
    return node ? node->endpoint().toString() : QString();
}

bool ClusterEngine::isPlace(const QString &place) const
{
    const QList<QtRedis::Endpoint> masters = m_watch.map().masters();
    return place.isEmpty() || std::any_of(masters.begin(), masters.end(), [&place](const QtRedis::Endpoint &master) {
               return master.toString() == place;
           });
}

QMap<QString, EngineError> ClusterEngine::errors() const
{
    if (!m_watch.isKnown())
        return LockEngine::errors();
    QMap<QString, EngineError> errors;
    for (const auto &[endpoint, node] : m_nodes) {
        if (!node->isUsable())
            errors.insert(endpoint.toString(), errorAt(*node));
    }
    return errors;
}

QString ClusterEngine::unsupported(const LockOptions &options) const
{
    if (options.minReplicas == 0)
        return {};
    return u"minReplicas is %1, but with a Redis Cluster this version cannot wait for replicas; leave it 0 there, or use Redis Sentinel"_s
            .arg(options.minReplicas);
}

QString ClusterEngine::whyNotTogether(const QList<LockId> &locks) const
{
    const auto other = std::find_if(locks.cbegin(), locks.cend(),
                                    [&locks](const LockId &lock) { return slotOf(lock) != slotOf(locks.first()); });
    if (other == locks.cend())
        return {};
    return u"%1 and %2 are keys of different slots of the cluster; give all names the same {hash tag}, for example \"{bank}:7\" and \"{bank}:12\""_s
            .arg(Detail::quoted(QString::fromUtf8(locks.first().key())),
                 Detail::quoted(QString::fromUtf8(other->key())));
}

void ClusterEngine::cork()
{
    m_isCorked = true;
    for (const auto &[endpoint, node] : m_nodes)
        node->lane().cork();
}

void ClusterEngine::uncork()
{
    m_isCorked = false;
    for (const auto &[endpoint, node] : m_nodes)
        node->lane().uncork();
}

bool ClusterEngine::isProcessing() const
{
    return m_channels.isReading()
            || std::any_of(m_nodes.begin(), m_nodes.end(), [](const auto &entry) { return entry.second->isReading(); });
}

// Operations

void ClusterEngine::fail(const LockOperation &operation, const EngineError &error)
{
    EngineReply reply;
    reply.error = error;
    QMetaObject::invokeMethod(
            this, [completion = operation.completion, reply] { completion(reply); }, Qt::QueuedConnection);
}

void ClusterEngine::run(LockOperation operation)
{
    operation.slot = slotOf(operation.lock);
    if (!m_watch.isKnown())
        return fail(
                operation,
                EngineError::passing(DistributedLock::ConnectionError,
                                     u"%1: the cluster has not been reached yet"_s.arg(m_cluster.toDisplayString())));
    if (const EngineError error = disputed(operation.slot))
        return fail(operation, error);
    ClusterNode *const node = nodeOf(operation.slot);
    if (!node) {
        m_watch.refresh();
        return fail(operation, notServed(operation.slot));
    }
    node->expectReply();
    if (m_oneKey.isActive(operation.slot))
        return m_oneKey.run(std::move(operation));
    node->whenConnected([this, node, endpoint = node->endpoint(), operation = std::move(operation)] {
        if (knownNodeAt(endpoint) == node)
            node->lane().run(operation);
        else // another one has taken the slot over before this one was connected
            run(operation);
    });
}

void ClusterEngine::keptElsewhere(const ClusterNode &node, const QByteArray &reply)
{
    const auto moved = QtRedis::Redirection::parse(reply, node.endpoint());
    if (moved && moved->kind == QtRedis::Redirection::Moved)
        follow(node.endpoint(), *moved);
    else
        m_watch.refresh();
}

void ClusterEngine::redirected(ClusterNode *node, LockOperations operations, const QByteArray &error)
{
    const auto redirection = QtRedis::Redirection::parse(error, node->endpoint());
    if (redirection && redirection->kind == QtRedis::Redirection::Moved)
        follow(node->endpoint(), *redirection);
    else
        m_oneKey.begin(operations.front().slot);
    for (LockOperation &operation : operations) {
        if (++operation.redirections > MostRedirections && !disputed(operation.slot)) {
            EngineReply reply;
            reply.error = node->lane().errorOfText(error, "a command");
            operation.completion(reply);
        } else {
            run(std::move(operation));
        }
    }
    for (const auto &[endpoint, other] : m_nodes) {
        if (!m_isCorked)
            other->lane().flush();
    }
}

void ClusterEngine::acquire(const Acquire &operation, Completion completion)
{
    run(LockOperation::ofAcquire(operation,
                                 [this, lock = operation.lock, token = operation.token, lease = operation.lease,
                                  completion = std::move(completion)](const EngineReply &reply) {
                                     acquireReplied(lock, token, reply);
                                     if (reply.status == EngineReply::Granted)
                                         m_channels.watchMaster(lock, lease);
                                     if (!reply.error)
                                         return completion(reply);
                                     EngineReply failure = reply;
                                     failure.error = explained(reply.error);
                                     completion(failure);
                                 }));
}

void ClusterEngine::handOver(const Handover &handover, const QtRedis::Endpoint &node)
{
    const quint64 sequence = Token::sequenceOf(handover.token);
    m_abandoned.found(sequence); // if the token was abandoned, the server has given it the lock nevertheless
    if (m_watch.map().ownerOf(slotOf(handover.lock)) != node) {
        Q_EMIT noticed(Grant, sequence, 0ms); // the waiter asks the present master
        return;
    }
    m_channels.notWaiting(handover.lock, handover.token);
    m_channels.watchMaster(handover.lock, handover.lease);
    Q_EMIT handedOver(handover);
}

void ClusterEngine::acquireReplied(const LockId &lock, const QByteArray &token, const EngineReply &reply)
{
    const quint64 sequence = Token::sequenceOf(token);
    // If the token was abandoned, the acquire ran after its cancel, or may have: where it was redirected to.
    if (reply.status == EngineReply::Granted || reply.queuePosition >= 0 || reply.error.isMaybeExecuted)
        m_abandoned.found(sequence);
    if (reply.status == EngineReply::Taken) {
        m_channels.listenFor(lock);
        if (reply.queuePosition >= 0 && !m_abandoned.contains(token))
            m_channels.setWaiting(lock, sequence);
    } else if (reply.status == EngineReply::Granted) {
        m_channels.notWaiting(lock, token);
    }
}

void ClusterEngine::renew(const LockId &lock, const QByteArray &token, milliseconds lease, const Replicas &,
                          Completion completion)
{
    run({LockOperation::Renew, lock, token, lease,
         [this, lock, lease, completion = std::move(completion)](const EngineReply &reply) {
             if (reply.status == EngineReply::Done)
                 m_channels.watchMaster(lock, lease);
             completion(reply);
         }});
}

void ClusterEngine::release(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                            Completion completion)
{
    run(LockOperation::ofRelease(lock, token, lease, keep, clientId(), std::move(completion)));
}

void ClusterEngine::convert(const Acquire &operation, const QByteArray &from, Completion completion)
{
    run(LockOperation::ofConversion(operation, from,
                                    [this, lock = operation.lock, lease = operation.lease,
                                     completion = std::move(completion)](const EngineReply &reply) {
                                        if (reply.status == EngineReply::Granted)
                                            m_channels.watchMaster(lock, lease);
                                        completion(reply);
                                    }));
}

void ClusterEngine::abandon(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                            milliseconds atMost)
{
    m_channels.notWaiting(lock, token);
    m_abandoned.add(lock, token, lease, keep, atMost);
}

template<typename Result, typename Ask>
void ClusterEngine::askMaster(const LockId &lock, Ask ask,
                              std::function<void(const EngineError &, const Result &)> completion,
                              std::function<bool(const EngineError &)> isRepeatable, int attempts)
{
    const int slot = slotOf(lock);
    ClusterNode *const node = nodeOf(slot);
    if (!node) {
        QMetaObject::invokeMethod(
                this, [completion, error = notServed(slot)] { completion(error, {}); }, Qt::QueuedConnection);
        return;
    }
    node->whenConnected([=] {
        ask(node, [=](const EngineError &error, const Result &result) {
            const auto owner = m_watch.map().ownerOf(slot);
            if (error && isRepeatable(error) && attempts > 1 && (!owner || *owner != node->endpoint()))
                askMaster(lock, ask, completion, isRepeatable, attempts - 1);
            else
                completion(error, result);
        });
    });
}

void ClusterEngine::inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion)
{
    askMaster<LockInfo>(
            lock, [lock](ClusterNode *node, auto done) { node->lane().inspect(lock, done); },
            [this, lock, completion](const EngineError &error, const LockInfo &info) {
                if (!error.isSlotMoving)
                    return completion(error, info);
                m_oneKey.inspect(lock, [completion](const EngineError &again, const QList<LockInfo> &infos) {
                    completion(again, infos.isEmpty() ? LockInfo() : infos.first());
                });
            });
}

bool ClusterEngine::findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion)
{
    ClusterNode *const node = knownNodeOf(slotOf(waiter.lock));
    if (node && node->lane().isReady())
        return node->lane().findHolder(waiter, std::move(completion));
    return LockEngine::findHolder(waiter, std::move(completion));
}

void ClusterEngine::sendMessage(const QByteArray &client, const QByteArray &message,
                                std::function<void(const EngineError &)> completion)
{
    for (const auto &[endpoint, node] : m_nodes) {
        if (!node->lane().isReady() || !node->isReplying())
            continue;
        m_channels.listenForMonitors(*node);
        // Redis passes it on to all nodes.
        node->lane().sendMessage(client, message, [this, completion = std::move(completion)](const EngineError &error) {
            completion(error ? error : m_channels.monitorError());
        });
        return;
    }
    QMetaObject::invokeMethod(
            this, [this, completion = std::move(completion)] { completion(error()); }, Qt::QueuedConnection);
}

void ClusterEngine::clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion)
{
    struct Gathering
    {
        EngineError error;
        QSet<QByteArray> ids;
        qsizetype left;
    };
    const QList<QtRedis::Endpoint> masters = m_watch.map().masters();
    if (masters.isEmpty())
        return LockEngine::clients(std::move(completion));
    const auto gathering = std::make_shared<Gathering>(Gathering{{}, {}, masters.size()});
    for (const QtRedis::Endpoint &master : masters) {
        ClusterNode *const node = nodeAt(master);
        node->whenConnected([node, gathering, completion] {
            node->lane().clients([gathering, completion](const EngineError &error, const QSet<QByteArray> &ids) {
                if (error)
                    gathering->error = error;
                gathering->ids.unite(ids);
                if (--gathering->left == 0)
                    completion(gathering->error, gathering->ids);
            });
        });
    }
}

void ClusterEngine::waiters(const LockId &lock, int atMost,
                            std::function<void(const EngineError &, const QList<LockWaiter> &)> completion)
{
    askMaster<QList<LockWaiter>>(
            lock, [lock, atMost](ClusterNode *node, auto done) { node->lane().waiters(lock, atMost, done); },
            [this, lock, atMost, completion](const EngineError &error, const QList<LockWaiter> &waiters) {
                if (error.isSlotMoving)
                    m_oneKey.waiters(lock, atMost, completion);
                else
                    completion(error, waiters);
            });
}

void ClusterEngine::forceRelease(const LockId &lock, qint64 fencingToken, Completion completion)
{
    askMaster<EngineReply>(
            lock,
            [lock, fencingToken](ClusterNode *node, auto done) {
                node->lane().forceRelease(lock, fencingToken,
                                          [done](const EngineReply &reply) { done(reply.error, reply); });
            },
            [this, lock, fencingToken, completion = std::move(completion)](const EngineError &error,
                                                                           const EngineReply &reply) {
                EngineReply whole = reply;
                whole.error = error;
                if (!error.isSlotMoving)
                    return completion(whole);
                const bool wasBegun = error.isMaybeExecuted;
                if (wasBegun && fencingToken == 0) { // the script has deleted the key; another one may have it by now
                    EngineReply done;
                    done.status = EngineReply::Done;
                    return completion(done);
                }
                m_oneKey.forceRelease(lock, fencingToken, [completion, wasBegun](EngineReply again) {
                    if (again.status == EngineReply::Gone && wasBegun)
                        again.status = EngineReply::Done; // the script has deleted the key
                    completion(again);
                });
            },
            // It may have taken the lock from its holder already; who has it now is not meant, unless by fencing token.
            [fencingToken](const EngineError &error) { return fencingToken != 0 || !error.isMaybeExecuted; });
}

void ClusterEngine::setPermits(const LockId &lock, int permits,
                               std::function<void(const EngineError &, int before)> completion)
{
    askMaster<int>(
            lock, [lock, permits](ClusterNode *node, auto done) { node->lane().setPermits(lock, permits, done); },
            std::move(completion));
}

void ClusterEngine::list(const QString &prefix, const QString &pattern,
                         std::function<void(const EngineError &, const QList<LockInfo> &)> completion)
{
    if (m_watch.map().masters().isEmpty()) {
        QMetaObject::invokeMethod(
                this, [completion, error = notServed(0)] { completion(error, {}); }, Qt::QueuedConnection);
        return;
    }
    m_listing.begin(prefix, pattern, std::move(completion));
}

void ClusterEngine::scan(const QString &prefix, const QString &pattern, const QByteArray &from,
                         std::function<void(const ScanStep &)> completion)
{
    if (m_watch.map().masters().isEmpty()) {
        QMetaObject::invokeMethod(
                this, [completion, error = notServed(0)] { completion({error}); }, Qt::QueuedConnection);
        return;
    }
    m_listing.scan(prefix, pattern, from, std::move(completion));
}

void ClusterEngine::inspectAll(const QList<LockId> &locks, std::function<void(const Inspection &)> completion)
{
    struct Gathering
    {
        Inspection inspection;
        qsizetype left;
    };
    const auto gathering = std::make_shared<Gathering>(Gathering{{QList<LockInfo>(locks.size()), {}}, locks.size()});
    const auto gather = [gathering, completion](const QList<qsizetype> &places, const Inspection &part) {
        for (qsizetype i = 0; i < places.size(); ++i)
            gathering->inspection.locks[places.at(i)] = part.locks.at(i);
        if (part.clients)
            gathering->inspection.clients = part.clients;
        gathering->left -= places.size();
        if (gathering->left == 0)
            completion(gathering->inspection);
    };
    std::map<QtRedis::Endpoint, QList<qsizetype>> parts; // their places in `locks`
    for (qsizetype i = 0; i < locks.size(); ++i) {
        const int slot = slotOf(locks.at(i));
        if (const auto owner = m_watch.map().ownerOf(slot)) {
            parts[*owner].append(i);
        } else {
            const LockInfo unreadLock = unread(locks.at(i), notServed(slot));
            QMetaObject::invokeMethod(
                    this,
                    [gather, i, unreadLock] {
                        gather({i}, {{unreadLock}, {}});
                    },
                    Qt::QueuedConnection);
        }
    }
    for (const auto &[master, places] : parts) {
        QList<LockId> part;
        for (const qsizetype place : places)
            part.append(locks.at(place));
        ClusterNode *const node = nodeAt(master);
        node->whenConnected([node, part, gather, places = places] {
            node->lane().inspectAll(part, [gather, places](const Inspection &read) { gather(places, read); });
        });
    }
}

} // namespace QDistLock
