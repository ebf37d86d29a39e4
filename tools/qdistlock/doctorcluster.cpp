// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctorcluster.h"

#include "doctorprobe.h"
#include "doctorreport.h"
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

/// What a fail-over takes after cluster-node-timeout: the vote, the promotion and the first renewal.
constexpr milliseconds FailOverTime = 3s;

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

QString mastersText(qsizetype count)
{
    return count == 1 ? u"1 master"_s : u"%1 masters"_s.arg(count);
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
    DoctorProbe probe(m_cluster.atNode(address), m_timeout);
    const bool isReached = probe.connectToServer();
    const auto slotRanges = isReached ? probe.ask({"CLUSTER", "SLOTS"}) : std::nullopt;
    const auto nodes = slotRanges ? probe.ask({"CLUSTER", "NODES"}) : std::nullopt;
    m_interruption = probe.interruption();
    if (m_interruption != 0)
        return;
    if (!nodes) {
        m_report->add(QtRedis::isPermanent(probe.failure()) ? DoctorReport::Failure : DoctorReport::Warning, u"node"_s,
                      probe.errorString(),
                      u"check that the node runs and listens there, and that no firewall is between"_s);
        return;
    }
    if (slotRanges->isError())
        return addRefusal(probe, slotRanges->text);
    const auto view = ClusterView::parse(*slotRanges, *nodes, address);
    if (view)
        addView(address, *view);
    else
        m_report->add(DoctorReport::Failure, u"node"_s,
                      u"%1: the reply to CLUSTER SLOTS has an unknown form"_s.arg(address.toString()),
                      u"check that it is a Redis server, version 6.2 or later"_s);
}

void DoctorCluster::addRefusal(const DoctorProbe &probe, const QByteArray &reply)
{
    const QString name = probe.server().endpoint().toString();
    if (reply.startsWith("NOPERM"))
        m_report->add(DoctorReport::Failure, u"node"_s, u"the ACL of %1 forbids to ask for the slots"_s.arg(name),
                      u"allow its user the commands listed in the README, section Redis Cluster"_s);
    else
        m_report->add(DoctorReport::Failure, u"node"_s,
                      u"%1 is no node of a Redis Cluster: \"%2\""_s.arg(name, probe.server().shown(reply)),
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
                  u"%1 knows %2, which serve %3 slots"_s.arg(address.toString(), mastersText(masters))
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
                      u"%1 serve all %2 slots"_s.arg(mastersText(m_map.masters().size())).arg(served));
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
    DoctorProbe probe(master, m_timeout);
    if (probe.connectToServer()) { // otherwise these checks say so
        const auto nodes = probe.askIfAllowed({"CLUSTER", "NODES"});
        const QStringList moving = nodes ? movingSlots(nodes->text) : QStringList();
        if (!moving.isEmpty())
            m_report->add(
                    DoctorReport::Warning, u"slots"_s,
                    u"moving, or left half moved: %1; until they have moved, their locks are not served in turn"_s.arg(
                            moving.join(u", "_s)),
                    u"if nobody is resharding at present: redis-cli --cluster fix"_s);
        const auto timeout = probe.askIfAllowed({"CONFIG", "GET", "cluster-node-timeout"});
        if (timeout && timeout->elements.size() == 2)
            m_nodeTimeout = std::max(m_nodeTimeout, milliseconds(timeout->elements.at(1).text.toInt()));
    }
    m_interruption = probe.interruption();
}

void DoctorCluster::checkLease(milliseconds lease)
{
    if (m_nodeTimeout == 0ms)
        return; // the user may not ask for it
    // A renewal may have been sent a third of the lease before the master fails.
    const milliseconds shortest = (m_nodeTimeout + FailOverTime) * 3 / 2;
    const QString text =
            u"the cluster replaces a master that is silent for %1 (cluster-node-timeout); leases from %2 on "
            "survive that"_s.arg(roughText(m_nodeTimeout), roughText(shortest));
    const QJsonObject details{{u"nodeTimeoutMs"_s, qint64(m_nodeTimeout.count())},
                              {u"shortestLeaseMs"_s, qint64(shortest.count())}};
    if (lease < shortest)
        m_report->add(DoctorReport::Warning, u"failover"_s, text + u", one of %1 does not"_s.arg(roughText(lease)),
                      u"on each node: CONFIG SET cluster-node-timeout 5000 and CONFIG REWRITE, or longer leases"_s,
                      details);
    else
        m_report->add(DoctorReport::Ok, u"failover"_s, text, {}, details);
}

} // namespace Cli
