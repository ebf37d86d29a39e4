// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/quorum.h"

#include "doctor/connection.h"
#include "doctor/report.h"
#include "lockview.h"

#include <QtCore/qjsonobject.h>

using namespace Qt::StringLiterals;

using QtRedis::Endpoint;
using QtRedis::ServerUrl;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace Cli {

namespace {

QJsonObject detailsOf(const Endpoint &address, bool hasVote)
{
    return {{u"node"_s, address.toString()}, {u"vote"_s, hasVote}};
}

} // namespace

DoctorQuorum::DoctorQuorum(const ServerUrl &quorum, milliseconds timeout, milliseconds lease, DoctorReport *report)
    : m_quorum(quorum)
    , m_timeout(timeout)
    , m_lease(lease)
    , m_report(report)
{
}

QList<ServerUrl> DoctorQuorum::findServers()
{
    for (const Endpoint &address : m_quorum.quorumNodes) {
        ask(address);
        if (m_interruption != 0)
            return {};
    }
    checkMajority();
    return m_reached;
}

void DoctorQuorum::ask(const Endpoint &address)
{
    DoctorConnection connection(m_quorum.atNode(address), m_timeout);
    const bool isReached = connection.connectToServer();
    const auto reply = isReached ? connection.ask({"INFO", "server"}) : std::nullopt;
    if (reply && reply->type == QtRedis::Reply::Bulk)
        addVote(&connection, reply->text);
    m_interruption = connection.interruption();
    if (m_interruption != 0 || (reply && reply->type == QtRedis::Reply::Bulk))
        return;
    if (reply) {
        m_reached.append(connection.server());
        m_report->add(DoctorReport::Failure, u"node"_s,
                      u"%1 has no vote: its ACL forbids INFO"_s.arg(address.toString()),
                      u"as an administrator: ACL SETUSER <user> +info, and then ACL SAVE or CONFIG REWRITE"_s,
                      detailsOf(address, false));
        return;
    }
    m_report->add(QtRedis::isPermanent(connection.failure()) ? DoctorReport::Failure : DoctorReport::Warning, u"node"_s,
                  connection.errorString(),
                  u"check that the server runs and listens there, and that no firewall is between"_s,
                  detailsOf(address, false));
}

void DoctorQuorum::addVote(DoctorConnection *connection, const QByteArray &info)
{
    const Endpoint address = connection->server().endpoint();
    const QString name = address.toString();
    const QByteArray runId = QtRedis::infoField(info, "run_id");
    const auto refuse = [&](DoctorReport::Level level, const QString &reason, const QString &remedy) {
        m_report->add(level, u"node"_s, u"%1 has no vote: %2"_s.arg(name, reason), remedy, detailsOf(address, false));
    };
    if (runId.isEmpty())
        return refuse(DoctorReport::Failure, u"INFO shows no run_id"_s,
                      u"check that it is a Redis server, version 6.2 or later"_s);
    if (m_runIds.contains(runId))
        return refuse(DoctorReport::Failure, u"it is the same server as %1"_s.arg(m_runIds.value(runId)),
                      u"name independent servers"_s);
    m_runIds.insert(runId, name);
    const QByteArray mode = QtRedis::infoField(info, "redis_mode")
            + QtRedis::infoField(info, "server_mode"); // in Valkey, the latter
    if (mode == "cluster")
        return refuse(DoctorReport::Failure, u"it is a node of a Redis Cluster"_s,
                      u"name independent servers, or give a redis+cluster:// URL"_s);
    m_reached.append(connection->server());
    const seconds up(std::max<qint64>(0, QtRedis::infoField(info, "uptime_in_seconds").toLongLong()));
    // As QuorumNode: the uptime may be a second too long, and clocks may run 1 % too fast.
    const std::chrono::milliseconds certain = std::chrono::milliseconds(up - seconds(1)) * 99 / 100;
    if (!m_quorum.isPersistent && certain < m_lease)
        return refuse(DoctorReport::Warning,
                      u"it has been up for %1, which is less than the lease of %2 and a second"_s.arg(
                              roughText(up), roughText(m_lease)),
                      u"wait; or write persistent=1 in the URL if the servers keep their data over a restart"_s);
    ++m_votes;
    m_report->add(DoctorReport::Ok, u"node"_s, u"%1 has a vote; it has been up for %2"_s.arg(name, roughText(up)), {},
                  detailsOf(address, true));
    if (m_quorum.isPersistent)
        checkPersistence(connection);
}

/// What persistent=1 says.
void DoctorQuorum::checkPersistence(DoctorConnection *connection)
{
    const QByteArray isOn = connection->setting("appendonly");
    const QByteArray how = connection->setting("appendfsync");
    if (isOn.isEmpty() || how.isEmpty() || (isOn == "yes" && how == "always"))
        return;
    m_report->add(
            DoctorReport::Failure, u"persistent"_s,
            u"the URL says persistent=1, but %1 may lose locks in a restart (appendonly %2, appendfsync %3), so that two clients could hold the same lock"_s
                    .arg(connection->server().endpoint().toString(), QString::fromLatin1(isOn),
                         QString::fromLatin1(how)),
            u"CONFIG SET appendonly yes, CONFIG SET appendfsync always and CONFIG REWRITE; or remove persistent=1"_s);
}

void DoctorQuorum::checkMajority()
{
    const int size = int(m_quorum.quorumNodes.size());
    const int majority = size / 2 + 1;
    const QString text = u"%1 of %2 servers have a vote, %3 are needed"_s.arg(m_votes).arg(size).arg(majority);
    const QJsonObject details{{u"votes"_s, m_votes}, {u"servers"_s, size}};
    const auto level = m_votes < majority           ? DoctorReport::Failure
            : m_votes == majority && m_votes < size ? DoctorReport::Warning
                                                    : DoctorReport::Ok;
    const QString effect = level == DoctorReport::Failure ? u": no lock can be acquired"_s
            : level == DoctorReport::Warning              ? u": no other may fail"_s
                                                          : QString();
    m_report->add(level, u"majority"_s, text + effect, u"correct the problems in the lines above"_s, details);
}

} // namespace Cli
