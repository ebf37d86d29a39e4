// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/replicas.h"

#include "doctor/connection.h"
#include "doctor/report.h"

#include <QtCore/qjsonobject.h>

#include <algorithm>
#include <optional>

using namespace Qt::StringLiterals;

using QtRedis::Endpoint;
using QtRedis::Reply;

namespace Cli {

namespace {

/// Redis's default for min-replicas-max-lag, in seconds. A replica acknowledges once a second.
constexpr int LongestLag = 10;

struct Replica
{
    QString address;
    QByteArray state;  ///< "online" once it has a copy of the data
    qint64 behind = 0; ///< bytes of commands that it has not acknowledged
    int silent = -1;   ///< seconds since its last acknowledgement; -1 = not known
};
using Replicas = QList<Replica>;

QString addressText(const QByteArray &host, const QByteArray &port)
{
    return Endpoint{QString::fromUtf8(host), port.toUShort()}.toString();
}

/// From lines such as "slave0:ip=10.0.0.2,port=6379,state=online,offset=1540,lag=1".
std::optional<Replicas> ofInfo(const QHash<QByteArray, QByteArray> &info)
{
    bool isKnown = false;
    const int count = info.value("connected_slaves").toInt(&isKnown);
    if (!isKnown)
        return std::nullopt;
    const qint64 offset = info.value("master_repl_offset").toLongLong();
    Replicas replicas;
    for (int i = 0; i < count; ++i) {
        QHash<QByteArray, QByteArray> fields;
        const QList<QByteArray> items = info.value("slave" + QByteArray::number(i)).split(',');
        for (const QByteArray &item : items) {
            if (const qsizetype equals = item.indexOf('='); equals > 0)
                fields.insert(item.first(equals), item.sliced(equals + 1));
        }
        replicas.append({addressText(fields.value("ip"), fields.value("port")), fields.value("state"),
                         offset - fields.value("offset").toLongLong(), fields.value("lag", "-1").toInt()});
    }
    return replicas;
}

/// ROLE, which the rule in docs/acl.txt allows, knows less.
std::optional<Replicas> ofRole(DoctorConnection *connection)
{
    const auto role = connection->askIfAllowed({"ROLE"});
    if (!role || role->elements.size() < 3 || role->elements.at(0).text != "master")
        return std::nullopt;
    const qint64 offset = role->elements.at(1).integer;
    Replicas replicas;
    for (const Reply &entry : role->elements.at(2).elements) {
        if (entry.elements.size() == 3)
            replicas.append({addressText(entry.elements.at(0).text, entry.elements.at(1).text), "online",
                             offset - entry.elements.at(2).text.toLongLong()});
    }
    return replicas;
}

void addReplica(const Replica &replica, DoctorReport *report)
{
    const qint64 behind = std::max<qint64>(replica.behind, 0); // it may have grown between two fields
    const QString delay = replica.silent < 0 ? QString()
                                             : u", %1s since its last acknowledgement"_s.arg(replica.silent);
    const QString text = u"%1 is %2 bytes behind%3"_s.arg(replica.address).arg(behind).arg(delay);
    const QJsonObject details{{u"replica"_s, replica.address},
                              {u"bytesBehind"_s, behind},
                              {u"silentSeconds"_s, replica.silent < 0 ? QJsonValue() : QJsonValue(replica.silent)}};
    if (replica.state != "online")
        report->add(DoctorReport::Warning, u"replica"_s,
                    u"%1 has no copy of the data yet (%2)"_s.arg(replica.address, QString::fromLatin1(replica.state)),
                    u"until then a fail-over to it loses all locks; run doctor again in a few seconds"_s, details);
    else if (replica.silent > LongestLag)
        report->add(DoctorReport::Warning, u"replica"_s, text,
                    u"a fail-over to it loses the locks of that time; check its machine and the network"_s, details);
    else
        report->add(DoctorReport::Info, u"replica"_s, text, {}, details);
}

} // namespace

bool checkReplicas(DoctorConnection *connection, const QHash<QByteArray, QByteArray> &info, DoctorReport *report)
{
    auto replicas = ofInfo(info);
    if (!replicas)
        replicas = ofRole(connection);
    if (!replicas)
        return false;
    report->add(
            DoctorReport::Info, u"replicas"_s,
            replicas->isEmpty()
                    ? u"none: if the server is down, nobody gets a lock"_s
                    : u"%1, asynchronous: a fail-over may lose the locks of the last moments, unless minReplicas is %1; fencing tokens show it"_s
                              .arg(replicas->size()));
    for (const Replica &replica : *replicas)
        addReplica(replica, report);
    return true;
}

} // namespace Cli
