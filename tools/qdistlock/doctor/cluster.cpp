// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/cluster.h"

#include "doctor/connection.h"
#include "doctor/report.h"
#include "lockview.h"

#include <QtCore/qjsonobject.h>
#include <QtCore/qstringlist.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QtRedis::ClusterView;
using QtRedis::Endpoint;
using QtRedis::Reply;
using QtRedis::ServerUrl;
using QtRedis::SlotMap;
using std::chrono::milliseconds;

namespace Cli {

namespace {

/// Slots that this node is moving elsewhere or taking over, as CLUSTER NODES names them: "[93->-<id>]", "[77-<-<id>]".
QStringList movingSlots(const QByteArray &nodes)
{
    QStringList moving;
    const QList<QByteArray> lines = nodes.split('\n');
    for (const QByteArray &line : lines) {
        const QList<QByteArray> fields = line.split(' ');
        if (fields.size() < 9 || !fields.at(2).contains("myself"))
            continue;
        for (const QByteArray &field : fields.sliced(8)) {
            if (field.startsWith('['))
                moving += QString::fromLatin1(field.mid(1, field.indexOf('-') - 1));
        }
    }
    return moving;
}

} // namespace

DoctorCluster::DoctorCluster(const ServerUrl &cluster, milliseconds timeout, DoctorReport *report)
    : m_cluster(cluster)
    , m_timeout(timeout)
    , m_report(report)
{
}

QList<ServerUrl> DoctorCluster::findMasters()
{
    for (const Endpoint &address : m_cluster.clusterNodes) {
        ask(address);
        if (m_interruption != 0)
            return {};
    }
    checkSlots();
    QList<ServerUrl> masters;
    const QList<Endpoint> endpoints = m_map.masters();
    for (const Endpoint &endpoint : endpoints)
        masters.append(m_cluster.atNode(endpoint));
    return masters;
}

void DoctorCluster::ask(const Endpoint &address)
{
    DoctorConnection connection(m_cluster.atNode(address), m_timeout);
    const bool isReached = connection.connectToServer();
    const auto slotRanges = isReached ? connection.ask({"CLUSTER", "SLOTS"}) : std::nullopt;
    const auto nodes = slotRanges ? connection.ask({"CLUSTER", "NODES"}) : std::nullopt;
    m_interruption = connection.interruption();
    if (m_interruption != 0)
        return;
    if (!nodes) {
        m_report->add(QtRedis::isPermanent(connection.failure()) ? DoctorReport::Failure : DoctorReport::Warning,
                      u"node"_s, connection.errorString(),
                      u"check that the node runs and listens there, and that no firewall is between"_s);
        return;
    }
    if (slotRanges->isError())
        return addRefusal(connection, slotRanges->text);
    const auto view = ClusterView::parse(*slotRanges, *nodes, address);
    if (view)
        addView(address, *view);
    else
        m_report->add(DoctorReport::Failure, u"node"_s,
                      u"%1: the reply to CLUSTER SLOTS has an unknown form"_s.arg(address.toString()),
                      u"check that it is a Redis server, version 6.2 or later"_s);
}

void DoctorCluster::addRefusal(const DoctorConnection &connection, const QByteArray &reply)
{
    const QString name = connection.server().endpoint().toString();
    if (reply.startsWith("NOPERM"))
        m_report->add(DoctorReport::Failure, u"node"_s, u"the ACL of %1 forbids to ask for the slots"_s.arg(name),
                      u"allow its user the commands listed in docs/servers.md, section Redis Cluster"_s);
    else
        m_report->add(DoctorReport::Failure, u"node"_s,
                      u"%1 is no node of a Redis Cluster: \"%2\""_s.arg(name, connection.server().shown(reply)),
                      u"give the address of a node, or redis:// for this server alone"_s);
}

void DoctorCluster::addView(const Endpoint &address, const ClusterView &view)
{
    const qsizetype masters = view.map.masters().size();
    if (masters == 0) {
        m_report->add(DoctorReport::Failure, u"node"_s,
                      u"%1 knows nobody who serves a slot: it belongs to no cluster yet"_s.arg(address.toString()),
                      u"add it to the cluster (CLUSTER MEET), or give another node"_s);
        return;
    }
    if (m_members.isEmpty()) {
        m_first = address;
        m_firstId = view.self;
        m_members = view.members;
    } else if (!m_members.contains(view.self) && !view.members.contains(m_firstId)) {
        m_report->add(DoctorReport::Failure, u"node"_s,
                      u"%1 and %2 belong to different clusters"_s.arg(m_first.toString(), address.toString()),
                      u"name the nodes of one cluster"_s);
        return;
    }
    m_map.merge(view.map, {});
    m_report->add(DoctorReport::Ok, u"node"_s,
                  u"%1 knows %2, which serve %3 slots"_s.arg(address.toString(), counted(masters, u"masters"_s))
                          .arg(view.map.servedSlots()),
                  {}, {{u"node"_s, address.toString()}, {u"slots"_s, view.map.servedSlots()}});
}

void DoctorCluster::checkSlots()
{
    const int served = m_map.servedSlots();
    if (served == 0)
        m_report->add(DoctorReport::Failure, u"slots"_s, u"no node says who serves the slots"_s,
                      u"correct the problems in the lines above; the other checks need one node that answers"_s);
    else if (served < SlotMap::SlotCount)
        m_report->add(DoctorReport::Failure, u"slots"_s,
                      u"%1 of %2 slots are served; locks of the others cannot be acquired, and by default none at all"_s
                              .arg(served)
                              .arg(SlotMap::SlotCount),
                      u"redis-cli --cluster check, and --cluster fix if nodes are gone for good"_s);
    else
        m_report->add(DoctorReport::Ok, u"slots"_s,
                      u"%1 serve all %2 slots"_s.arg(counted(m_map.masters().size(), u"masters"_s)).arg(served));
}

void DoctorCluster::checkMaster(const ServerUrl &master)
{
    const Endpoint endpoint = master.endpoint();
    int count = 0;
    for (int slot = 0; slot < SlotMap::SlotCount; ++slot)
        count += m_map.ownerOf(slot) == endpoint ? 1 : 0;
    m_report->add(
            DoctorReport::Info, u"master"_s,
            u"%1 serves %2 slots; the checks that follow are of this master"_s.arg(endpoint.toString()).arg(count), {},
            {{u"master"_s, endpoint.toString()}, {u"slots"_s, count}});
    DoctorConnection connection(master, m_timeout);
    if (connection.connectToServer()) { // otherwise these checks say so
        const auto nodes = connection.askIfAllowed({"CLUSTER", "NODES"});
        const QStringList moving = nodes ? movingSlots(nodes->text) : QStringList();
        if (!moving.isEmpty())
            m_report->add(
                    DoctorReport::Warning, u"slots"_s,
                    u"moving, or left half moved: %1; until they have moved, their locks are not served in turn"_s.arg(
                            moving.join(u", "_s)),
                    u"if nobody is resharding at present: redis-cli --cluster fix"_s);
        m_nodeTimeout = std::max(m_nodeTimeout, milliseconds(connection.setting("cluster-node-timeout").toInt()));
    }
    m_interruption = connection.interruption();
}

void DoctorCluster::checkLease(milliseconds lease)
{
    if (m_nodeTimeout == 0ms)
        return; // the user may not ask for it
    m_report->addFailOver(u"the cluster replaces"_s, u"cluster-node-timeout"_s, u"nodeTimeoutMs"_s, m_nodeTimeout,
                          lease,
                          u"on each node: CONFIG SET cluster-node-timeout 5000 and CONFIG REWRITE, or longer leases"_s);
}

} // namespace Cli
