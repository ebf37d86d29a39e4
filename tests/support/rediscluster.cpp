// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "rediscluster.h"

#include "certificates.h"
#include "clusterslot.h"
#include "posix.h"

#include <QtCore/qfile.h>

#include <algorithm>
#include <functional>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;

namespace Support {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int SlotCount = 16384;
constexpr auto StartTimeout = 60s;

bool waitUntil(const std::function<bool()> &condition)
{
    const auto deadline = Clock::now() + StartTimeout;
    while (!condition()) {
        if (Clock::now() > deadline)
            return false;
        Posix::pollPause();
    }
    return true;
}

QByteArray number(qint64 value)
{
    return QByteArray::number(value);
}

} // namespace

RedisCluster::RedisCluster()
    : RedisCluster(Options())
{
}

RedisCluster::RedisCluster(const Options &options)
    : m_options(options)
{
}

bool RedisCluster::ok(const QVariant &reply)
{
    if (reply.toByteArray() == "OK")
        return true;
    m_lastError = reply.toByteArray();
    return false;
}

bool RedisCluster::addNode()
{
    RedisServer::Options options = m_options.certificates ? RedisServer::Options::withTls(*m_options.certificates)
                                                          : RedisServer::Options::withTcp();
    options.password = m_options.password;
    options.users = m_options.users;
    options.environment = m_options.environment;
    // The port of the cluster bus is any free one; by default it would be the port + 10000.
    const quint16 busPort = Posix::freePort();
    if (m_options.canBeCutOff) {
        setCutOff(nodeCount(), false);
        options.environment = {u"LD_PRELOAD=" BUSCUT ""_s, u"BUSCUT_FILE="_s + cutFile(nodeCount()),
                               u"BUSCUT_PORT=%1"_s.arg(busPort),
                               // AddressSanitizer's runtime demands to be loaded first.
                               u"ASAN_OPTIONS=verify_asan_link_order=0"_s};
    }
    options.config = {
            "cluster-enabled yes",
            "cluster-config-file nodes.conf",
            "cluster-port " + number(busPort),
            "cluster-node-timeout " + number(m_options.nodeTimeout.count()),
            "cluster-announce-ip 127.0.0.1",
            "cluster-replica-validity-factor 0",
            m_options.needsAllSlots ? "cluster-require-full-coverage yes" : "cluster-require-full-coverage no",
            "repl-timeout 5",
            "repl-ping-replica-period 1",
    };
    if (!m_options.password.isEmpty())
        options.config.append("masterauth " + m_options.password);
    if (m_options.certificates) {
        const Certificates::Pair client = m_options.certificates->client(); // a node demands one of the others
        options.config += {"tls-cluster yes", "tls-replication yes",
                           "tls-client-cert-file \"" + QFile::encodeName(client.certificate) + '"',
                           "tls-client-key-file \"" + QFile::encodeName(client.key) + '"'};
    }
    options.config += m_options.config;
    m_nodes.push_back(std::make_unique<RedisServer>(options));
    if (!m_nodes.back()->start()) {
        m_error = m_nodes.back()->errorString();
        return false;
    }
    m_ids.append(m_nodes.back()->command({"CLUSTER", "MYID"}).toByteArray());
    return true;
}

QString RedisCluster::cutFile(int index) const
{
    return m_folder.filePath(u"cut%1"_s.arg(index));
}

void RedisCluster::setCutOff(int index, bool on)
{
    QFile file(cutFile(index));
    if (!file.open(QIODevice::ReadWrite) || !file.putChar(on ? 1 : 0))
        qFatal("cannot write %ls", qUtf16Printable(file.fileName()));
}

quint16 RedisCluster::portOf(const RedisServer &server) const
{
    return m_options.certificates ? server.tlsPort() : server.port();
}

bool RedisCluster::meet(int index)
{
    const QByteArray busPort = node(index).command({"CONFIG", "GET", "cluster-port"}).toList().value(1).toByteArray();
    int member = 0;
    while (member == index || m_removed.contains(member))
        ++member;
    return ok(node(member).command({"CLUSTER", "MEET", "127.0.0.1", number(portOf(node(index))), busPort}));
}

bool RedisCluster::start()
{
    const int count = m_options.masters * (1 + m_options.replicasPerMaster);
    for (int i = 0; i < count; ++i) {
        if (!addNode())
            return false;
        // Different epochs: otherwise the nodes need seconds to find that out by themselves.
        if (!ok(node(i).command({"CLUSTER", "SET-CONFIG-EPOCH", number(i + 1)})) || (i > 0 && !meet(i))) {
            m_error = QString::fromUtf8(m_lastError);
            return false;
        }
    }
    for (int i = 0; i < m_options.masters; ++i) {
        const int first = SlotCount * i / m_options.masters;
        const int last = SlotCount * (i + 1) / m_options.masters - 1;
        if (!ok(node(i).command({"CLUSTER", "ADDSLOTSRANGE", number(first), number(last)}))) {
            m_error = QString::fromUtf8(m_lastError);
            return false;
        }
    }
    for (int i = m_options.masters; i < count; ++i) {
        const QByteArray master = m_ids.at(i % m_options.masters);
        // Until the node knows its master.
        if (!waitUntil([&] { return ok(node(i).command({"CLUSTER", "REPLICATE", master})); })) {
            m_error = u"a node cannot become a replica: "_s + QString::fromUtf8(m_lastError);
            return false;
        }
    }
    if (waitUntilHealthy())
        return true;
    m_error = u"the nodes did not find each other in time"_s;
    return false;
}

QUrl RedisCluster::url(const QString &query, QList<int> indexes) const
{
    QStringList items;
    for (const int index : indexes.mid(1))
        items.append(u"node=127.0.0.1:%1"_s.arg(portOf(*m_nodes[size_t(index)])));
    if (m_options.certificates)
        items.append(u"ca="_s + m_options.certificates->ca());
    if (!query.isEmpty())
        items.append(query);
    const QString login = m_options.password.isEmpty() ? QString()
                                                       : u':' + QString::fromLatin1(m_options.password) + u'@';
    const QString port = QString::number(portOf(*m_nodes[size_t(indexes.first())]));
    const QString scheme = m_options.certificates ? u"rediss+cluster://"_s : u"redis+cluster://"_s;
    const QString text = scheme + login + u"127.0.0.1:"_s + port;
    return QUrl(items.isEmpty() ? text : text + u'?' + items.join(u'&'));
}

int RedisCluster::indexOfPort(quint16 port) const
{
    const auto found = std::find_if(m_nodes.begin(), m_nodes.end(),
                                    [this, port](const auto &node) { return portOf(*node) == port; });
    return found == m_nodes.end() ? -1 : int(found - m_nodes.begin());
}

QVariantList RedisCluster::slotsOf(int index)
{
    return node(index).command({"CLUSTER", "SLOTS"}).toList();
}

int RedisCluster::ownerOf(int slot)
{
    // Each master knows best what it serves itself; after a fail-over two may claim it, until they have met.
    int owner = -1;
    qint64 greatest = -1;
    for (int i = 0; i < nodeCount(); ++i) {
        if (m_removed.contains(i) || node(i).isPaused())
            continue;
        const QList<QByteArray> lines = node(i).command({"CLUSTER", "NODES"}).toByteArray().split('\n');
        for (const QByteArray &line : lines) {
            const QList<QByteArray> fields = line.split(' ');
            if (fields.size() < 9 || !fields.at(2).contains("myself") || !fields.at(2).contains("master"))
                continue;
            const bool serves = std::any_of(fields.begin() + 8, fields.end(), [slot](const QByteArray &range) {
                const QList<QByteArray> ends = range.split('-');
                return !range.startsWith('[') && ends.first().toInt() <= slot && slot <= ends.last().toInt();
            });
            if (serves && fields.at(6).toLongLong() > greatest) {
                greatest = fields.at(6).toLongLong();
                owner = i;
            }
        }
    }
    return owner;
}

QString RedisCluster::nameAt(int index)
{
    for (int i = 0;; ++i) {
        const QByteArray name = "job" + QByteArray::number(i);
        if (ownerOf(clusterSlot("lock:" + name)) == index)
            return QString::fromLatin1(name);
    }
}

RedisServer &RedisCluster::serverOf(const QByteArray &key)
{
    const int owner = ownerOf(clusterSlot(key));
    if (owner < 0)
        qFatal("no node serves the slot of \"%s\"", key.constData());
    return node(owner);
}

int RedisCluster::replicaOf(int index)
{
    for (int i = 0; i < nodeCount(); ++i) {
        if (node(i).isPaused())
            continue;
        const QVariantList role = node(i).command({"ROLE"}).toList();
        if (role.value(0).toByteArray() == "slave" && role.value(2).toInt() == portOf(node(index)))
            return i;
    }
    return -1;
}

bool RedisCluster::isHealthy()
{
    QVariantList first;
    for (int i = 0; i < nodeCount(); ++i) {
        if (m_removed.contains(i))
            continue;
        const QByteArray info = node(i).command({"CLUSTER", "INFO"}).toByteArray();
        if (!info.contains("cluster_state:ok") || !info.contains("cluster_slots_ok:16384"))
            return false;
        const QVariantList role = node(i).command({"ROLE"}).toList();
        if (role.value(0).toByteArray() == "slave" && role.value(3).toByteArray() != "connected")
            return false;
        QVariantList owners; // without the replicas, whose order differs
        const QVariantList ranges = slotsOf(i);
        for (const QVariant &range : ranges) {
            const QVariantList parts = range.toList();
            owners.append(QVariantList{parts.value(0), parts.value(1), parts.value(2).toList().value(1)});
            if (m_options.replicasPerMaster > 0 && parts.size() < 4)
                return false;
        }
        if (first.isEmpty())
            first = owners;
        if (owners != first)
            return false;
    }
    return true;
}

bool RedisCluster::waitUntilHealthy()
{
    return waitUntil([this] { return isHealthy(); });
}

bool RedisCluster::beginMove(int slot, int target)
{
    const int source = ownerOf(slot);
    return source >= 0 && source != target
            && ok(node(target).command({"CLUSTER", "SETSLOT", number(slot), "IMPORTING", id(source)}))
            && ok(node(source).command({"CLUSTER", "SETSLOT", number(slot), "MIGRATING", id(target)}));
}

int RedisCluster::moveKeys(int slot, int target, int count)
{
    const int source = ownerOf(slot);
    const QVariantList keys = node(source).command({"CLUSTER", "GETKEYSINSLOT", number(slot), number(count)}).toList();
    if (keys.isEmpty())
        return 0;
    QList<QByteArray> command{"MIGRATE", "127.0.0.1", number(portOf(node(target))), "", "0", "5000"};
    if (!m_options.password.isEmpty())
        command += {"AUTH", m_options.password};
    command.append("KEYS");
    for (const QVariant &key : keys)
        command.append(key.toByteArray());
    const QByteArray reply = node(source).command(command, 10s).toByteArray();
    if (reply == "OK" || reply == "NOKEY") // they may have expired
        return int(keys.size());
    m_lastError = reply;
    return -1;
}

bool RedisCluster::moveKey(const QByteArray &key, int target)
{
    QList<QByteArray> command{"MIGRATE", "127.0.0.1", number(portOf(node(target))), "", "0", "5000"};
    if (!m_options.password.isEmpty())
        command += {"AUTH", m_options.password};
    return ok(node(ownerOf(clusterSlot(key))).command(command + QList<QByteArray>{"KEYS", key}, 10s));
}

bool RedisCluster::endMove(int slot, int target)
{
    const int source = ownerOf(slot);
    // The target first: it tells the others that it owns the slot now, with a new config epoch.
    if (!ok(node(target).command({"CLUSTER", "SETSLOT", number(slot), "NODE", id(target)})))
        return false;
    // A master that has lost its last slot may know already, and be a replica of the target.
    if (source >= 0)
        node(source).command({"CLUSTER", "SETSLOT", number(slot), "NODE", id(target)});
    return true;
}

bool RedisCluster::moveSlot(int slot, int target)
{
    if (!beginMove(slot, target))
        return false;
    int moved = 0;
    do {
        moved = moveKeys(slot, target);
    } while (moved > 0);
    return moved == 0 && endMove(slot, target);
}

bool RedisCluster::stopMove(int slot, int target)
{
    const int source = ownerOf(slot);
    return ok(node(source).command({"CLUSTER", "SETSLOT", number(slot), "STABLE"}))
            && ok(node(target).command({"CLUSTER", "SETSLOT", number(slot), "STABLE"}));
}

bool RedisCluster::failOver(int replica, const QByteArray &mode)
{
    QList<QByteArray> command{"CLUSTER", "FAILOVER"};
    if (!mode.isEmpty())
        command.append(mode);
    return ok(node(replica).command(command));
}

int RedisCluster::beginAddMaster()
{
    return addNode() && meet(nodeCount() - 1) ? nodeCount() - 1 : -1;
}

bool RedisCluster::isMember(int index)
{
    for (int i = 0; i < nodeCount(); ++i) {
        if (m_removed.contains(i))
            continue;
        if (!node(i).command({"CLUSTER", "NODES"}).toByteArray().contains(id(index))
            || !node(index).command({"CLUSTER", "NODES"}).toByteArray().contains(id(i)))
            return false;
    }
    // It learns of the slots after the nodes.
    const QByteArray info = node(index).command({"CLUSTER", "INFO"}).toByteArray();
    return info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384");
}

int RedisCluster::addMaster()
{
    const int index = beginAddMaster();
    return index >= 0 && waitUntil([&] { return isMember(index); }) ? index : -1;
}

bool RedisCluster::forgetNode(int index)
{
    m_removed.insert(index);
    bool done = true;
    for (int i = 0; i < nodeCount(); ++i) {
        if (!m_removed.contains(i))
            done &= ok(node(i).command({"CLUSTER", "FORGET", id(index)}));
    }
    return done;
}

bool RedisCluster::removeNode(int index)
{
    const bool done = forgetNode(index);
    node(index).kill();
    return done;
}

bool RedisCluster::secede(int index)
{
    const QByteArray former = m_ids.at(index);
    if (!ok(node(index).command({"CLUSTER", "RESET", "HARD"})))
        return false;
    m_removed.insert(index);
    m_ids[index] = node(index).command({"CLUSTER", "MYID"}).toByteArray();
    bool done = true;
    for (int i = 0; i < nodeCount(); ++i) {
        if (!m_removed.contains(i))
            done &= ok(node(i).command({"CLUSTER", "FORGET", former}));
    }
    return done && ok(node(index).command({"CLUSTER", "SET-CONFIG-EPOCH", "1000000"}))
            && ok(node(index).command({"CLUSTER", "ADDSLOTSRANGE", "0", number(SlotCount - 1)}));
}

bool RedisCluster::comeBack(int index)
{
    if (!ok(node(index).command({"FLUSHALL"})) || !ok(node(index).command({"CLUSTER", "RESET", "HARD"})))
        return false;
    m_ids[index] = node(index).command({"CLUSTER", "MYID"}).toByteArray();
    m_removed.remove(index);
    return meet(index);
}

qint64 RedisCluster::commandsProcessed(const QByteArray &name)
{
    qint64 sum = 0;
    for (const auto &server : m_nodes) {
        if (server->isRunning())
            sum += server->commandsProcessed(name);
    }
    return sum;
}

int RedisCluster::connectedClients()
{
    int sum = 0;
    for (const auto &server : m_nodes) {
        if (!server->isRunning())
            continue;
        // A replica counts its master as a client.
        const bool isLinked = server->info("replication", "master_link_status") == "up";
        sum += server->connectedClients() - (isLinked ? 1 : 0);
    }
    return sum;
}

QList<QByteArray> RedisCluster::keys()
{
    QList<QByteArray> keys;
    for (int i = 0; i < nodeCount(); ++i) {
        if (!m_removed.contains(i) && node(i).command({"ROLE"}).toList().value(0).toByteArray() == "master")
            keys += node(i).keys();
    }
    std::sort(keys.begin(), keys.end());
    return keys;
}

void RedisCluster::flushAll()
{
    for (int i = 0; i < nodeCount(); ++i) {
        if (!m_removed.contains(i) && node(i).command({"ROLE"}).toList().value(0).toByteArray() == "master")
            node(i).command({"FLUSHALL"});
    }
}

} // namespace Support
