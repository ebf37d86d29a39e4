// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "doctor/sentinels.h"

#include "doctor/connection.h"
#include "doctor/report.h"
#include "lockview.h"

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qjsonobject.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QtRedis::Endpoint;
using QtRedis::Failure;
using QtRedis::Reply;
using QtRedis::ServerUrl;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace Cli {

namespace {

/// Clients take a Sentinel that needs longer for silent.
constexpr milliseconds AnswerTimeout = 500ms;
constexpr int FewestSentinels = 3;
/// As many as a client asks.
constexpr qsizetype MostSentinels = 32;
const QString AddressAdvice = u"give the addresses of the Sentinels, whose usual port is 26379"_s;

QHash<QByteArray, QByteArray> toFields(const Reply &reply)
{
    QHash<QByteArray, QByteArray> fields;
    for (qsizetype i = 0; i + 1 < reply.elements.size(); i += 2)
        fields.insert(reply.elements.at(i).text, reply.elements.at(i + 1).text);
    return fields;
}

Endpoint addressOf(const QHash<QByteArray, QByteArray> &fields)
{
    return {QString::fromUtf8(fields.value("ip")), fields.value("port").toUShort()};
}

/// For a Sentinel to which no connection could be made. \a isListed: only other Sentinels know it.
QString adviceFor(Failure failure, bool isListed)
{
    if (failure == Failure::Authentication)
        return u"all Sentinels of a service need the same user and password"_s;
    if (failure == Failure::Certificate)
        return u"check its certificate, its TLS port, and the files ca=, cert= and key= of the URL"_s;
    if (isListed)
        return u"other Sentinels list this address: start it there, let it announce one that clients reach (sentinel announce-ip), or SENTINEL RESET the others"_s;
    return u"check that the Sentinel runs and listens there, and that no firewall is between"_s;
}

} // namespace

DoctorSentinels::DoctorSentinels(const ServerUrl &service, milliseconds timeout, DoctorReport *report)
    : m_service(service)
    , m_timeout(timeout)
    , m_report(report)
{
}

std::optional<ServerUrl> DoctorSentinels::findMaster()
{
    for (const Endpoint &address : m_service.sentinels)
        ask(address, false);
    const auto listed = m_listed; // what these list in turn, clients would not ask either
    for (const auto &[id, address] : listed) {
        const bool isKnown = m_asked.contains(address)
                || std::any_of(m_sentinels.cbegin(), m_sentinels.cend(),
                               [&id = id](const Sentinel &sentinel) { return sentinel.id == id; });
        if (!isKnown && m_asked.size() < MostSentinels)
            ask(address, true);
    }
    if (m_interruption != 0)
        return std::nullopt;
    const Sentinel *const best = findBest();
    if (!best) {
        m_report->add(DoctorReport::Failure, u"majority"_s,
                      u"no Sentinel names a master of \"%1\""_s.arg(m_service.service),
                      u"correct the problems in the lines above; the other checks need one Sentinel that answers"_s);
        return std::nullopt;
    }
    checkMajority(*best);
    return m_service.atMaster(best->master);
}

// Asking

void DoctorSentinels::ask(const Endpoint &address, bool isListed)
{
    if (m_interruption != 0)
        return;
    m_asked.append(address);
    DoctorConnection connection(m_service.atSentinel(address), m_timeout);
    Sentinel sentinel;
    sentinel.address = address;
    if (connection.connectToServer()) {
        askForMaster(&connection, &sentinel, isListed);
    } else if (connection.interruption() == 0) {
        m_report->add(QtRedis::isPermanent(connection.failure()) ? DoctorReport::Failure : DoctorReport::Warning,
                      u"sentinel"_s, connection.errorString(), adviceFor(connection.failure(), isListed),
                      {{u"sentinel"_s, address.toString()}, {u"master"_s, {}}, {u"configEpoch"_s, {}}});
    }
    m_interruption = connection.interruption();
}

void DoctorSentinels::askForMaster(DoctorConnection *connection, Sentinel *sentinel, bool isListed)
{
    const QByteArray service = m_service.service.toUtf8();
    if (const auto id = connection->askIfAllowed({"SENTINEL", "MYID"}))
        sentinel->id = id->text;
    QElapsedTimer timer;
    timer.start();
    const auto master = connection->ask({"SENTINEL", "MASTER", service});
    const nanoseconds delay(timer.nsecsElapsed());
    if (connection->interruption() != 0)
        return;
    if (!master || master->isError())
        return addRefusal(connection, master ? master->text : QByteArray());
    const Fields fields = toFields(*master);
    sentinel->master = addressOf(fields);
    sentinel->epoch = fields.value("config-epoch", "-1").toLongLong();
    sentinel->downAfter = milliseconds(fields.value("down-after-milliseconds").toInt());
    sentinel->others = fields.value("num-other-sentinels").toInt();
    const auto others = connection->askIfAllowed({"SENTINEL", "SENTINELS", service});
    for (const Reply &entry : others ? others->elements : QList<Reply>()) {
        const Fields other = toFields(entry);
        m_listed.append({other.value("runid"), addressOf(other)});
    }
    if (const auto replicas = connection->askIfAllowed({"SENTINEL", "REPLICAS", service})) {
        sentinel->replicas.emplace();
        for (const Reply &entry : replicas->elements)
            sentinel->replicas->append(toFields(entry));
    }
    if (connection->interruption() != 0)
        return;
    addView(*sentinel, fields, delay, isListed);
    m_sentinels.append(*sentinel);
}

/// \a reply: an error, or empty if there was none.
void DoctorSentinels::addRefusal(DoctorConnection *connection, const QByteArray &reply)
{
    const QString name = connection->server().endpoint().toString();
    const auto add = [&](DoctorReport::Level level, const QString &text, const QString &remedy) {
        m_report->add(level, u"sentinel"_s, text, remedy,
                      {{u"sentinel"_s, name}, {u"master"_s, {}}, {u"configEpoch"_s, {}}});
    };
    if (reply.isEmpty())
        return add(DoctorReport::Warning, connection->errorString(),
                   connection->failure() == Failure::Protocol ? AddressAdvice : u"check its log and its machine"_s);
    if (reply.contains("No such master")) {
        QStringList known;
        const auto masters = connection->askIfAllowed({"SENTINEL", "MASTERS"});
        for (const Reply &entry : masters ? masters->elements : QList<Reply>())
            known += QString::fromUtf8(toFields(entry).value("name"));
        return add(DoctorReport::Failure, u"the Sentinel %1 knows no service \"%2\""_s.arg(name, m_service.service),
                   known.isEmpty() ? u"check the name in the URL, and `sentinel monitor` in its configuration"_s
                                   : u"check the name in the URL; it knows: "_s + known.join(u", "_s));
    }
    if (reply.contains("unknown command")) {
        return add(DoctorReport::Failure, u"%1 is a Redis server and no Sentinel"_s.arg(name),
                   AddressAdvice + u", or redis:// for this server alone"_s);
    }
    if (reply.startsWith("NOPERM")) {
        return add(DoctorReport::Failure, u"the ACL of the Sentinel %1 forbids to ask for the master"_s.arg(name),
                   u"allow its user the commands listed in docs/servers.md, section Redis Sentinel"_s);
    }
    add(DoctorReport::Failure, u"the Sentinel %1 answered with \"%2\""_s.arg(name, connection->server().shown(reply)),
        u"check its log"_s);
}

void DoctorSentinels::addView(const Sentinel &sentinel, const Fields &fields, nanoseconds delay, bool isListed)
{
    const QString name = sentinel.address.toString();
    const auto twin = std::find_if(m_sentinels.cbegin(), m_sentinels.cend(), [&sentinel](const Sentinel &other) {
        return !sentinel.id.isEmpty() && other.id == sentinel.id;
    });
    QString text = u"%1 names %2 as the master, config epoch %3"_s.arg(name, sentinel.master.toString())
                           .arg(sentinel.epoch);
    DoctorReport::Level level = DoctorReport::Ok;
    QString remedy;
    const QByteArray flags = fields.value("flags");
    if (twin != m_sentinels.cend()) {
        level = DoctorReport::Warning;
        text += u"; it is the same Sentinel as %1, and counts once"_s.arg(twin->address.toString());
        remedy = u"give each Sentinel in the URL once"_s;
    } else if (delay > AnswerTimeout) {
        level = DoctorReport::Warning;
        text += u", after %1: clients take it for silent after %2"_s.arg(
                roughText(std::chrono::ceil<milliseconds>(delay)), roughText(AnswerTimeout));
        remedy = u"check the network and the load of its machine"_s;
    } else if (flags != "master") {
        level = DoctorReport::Warning;
        text += u"; its flags are %1"_s.arg(QString::fromLatin1(flags));
        remedy = u"a fail-over may be under way: run doctor again in a few seconds"_s;
    } else if (isListed) {
        level = DoctorReport::Info;
        text += u"; it is not in the URL, other Sentinels list it"_s;
        remedy = u"add node=%1, so that it is found while the others are away"_s.arg(name);
    }
    m_report->add(
            level, u"sentinel"_s, text, remedy,
            {{u"sentinel"_s, name}, {u"master"_s, sentinel.master.toString()}, {u"configEpoch"_s, sentinel.epoch}});
}

// Judging

QSet<QByteArray> DoctorSentinels::agreeingWith(const Sentinel &best) const
{
    QSet<QByteArray> ids;
    for (const Sentinel &sentinel : m_sentinels) {
        if (sentinel.agreesWith(best))
            ids.insert(sentinel.id.isEmpty() ? sentinel.address.toString().toUtf8() : sentinel.id);
    }
    return ids;
}

/// One with the greatest epoch, and of these one whose master most others name, too.
const DoctorSentinels::Sentinel *DoctorSentinels::findBest() const
{
    const auto best = std::max_element(
            m_sentinels.cbegin(), m_sentinels.cend(), [this](const Sentinel &a, const Sentinel &b) {
                return std::pair(a.epoch, agreeingWith(a).size()) < std::pair(b.epoch, agreeingWith(b).size());
            });
    return best == m_sentinels.cend() ? nullptr : &*best;
}

void DoctorSentinels::checkMajority(const Sentinel &best)
{
    qsizetype voters = m_service.sentinels.size();
    QStringList dissenters;
    for (const Sentinel &sentinel : m_sentinels) {
        voters = std::max<qsizetype>(voters, sentinel.others + 1);
        if (!sentinel.agreesWith(best))
            dissenters += u"%1 names %2 with config epoch %3"_s
                                  .arg(sentinel.address.toString(), sentinel.master.toString())
                                  .arg(sentinel.epoch);
    }
    const qsizetype agreeing = agreeingWith(best).size();
    const QString dissent = dissenters.isEmpty() ? QString() : u"; "_s + dissenters.join(u", "_s);
    const QJsonObject details{{u"agreeing"_s, agreeing},
                              {u"sentinels"_s, voters},
                              {u"master"_s, best.master.toString()},
                              {u"configEpoch"_s, best.epoch}};
    const QString text = u"%1 of %2 name %3 with config epoch %4%5"_s.arg(
            QString::number(agreeing), counted(voters, u"Sentinels"_s), best.master.toString(),
            QString::number(best.epoch), dissent);
    const QString startOthers =
            u"start the other Sentinels, and check that they reach each other and can be reached from here"_s;
    if (agreeing <= voters / 2 && m_service.confirmsMaster)
        m_report->add(DoctorReport::Failure, u"majority"_s,
                      text + u": without a majority nobody gets a lock, and held locks are lost at their deadline"_s,
                      startOthers, details);
    else if (agreeing <= voters / 2)
        m_report->add(DoctorReport::Warning, u"majority"_s,
                      text + u": with confirm=off locks go on, but nobody can replace the master"_s, startOthers,
                      details);
    else
        m_report->add(dissenters.isEmpty() ? DoctorReport::Ok : DoctorReport::Warning, u"majority"_s, text,
                      u"if that stays so: check whether those Sentinels reach the others, or SENTINEL RESET them"_s,
                      details);
    if (voters < FewestSentinels)
        m_report->add(
                DoctorReport::Warning, u"majority"_s,
                u"%1: while one is down, nobody confirms or replaces the master"_s.arg(counted(voters, u"Sentinels"_s)),
                u"run at least three, on machines that fail independently"_s);
    if (!m_service.confirmsMaster)
        m_report->add(
                DoctorReport::Info, u"majority"_s,
                u"confirm=off: the Sentinels are not asked whether the master still is one, so during a network partition two clients may hold a lock"_s);
}

void DoctorSentinels::checkLease(milliseconds lease)
{
    milliseconds downAfter = 0ms;
    for (const Sentinel &sentinel : std::as_const(m_sentinels))
        downAfter = std::max(downAfter, sentinel.downAfter);
    m_report->addFailOver(u"the Sentinels replace"_s, u"down-after-milliseconds"_s, u"downAfterMs"_s, downAfter, lease,
                          u"on each Sentinel: SENTINEL SET %1 down-after-milliseconds 5000, or longer leases"_s.arg(
                                  m_service.service));
}

// Replicas

void DoctorSentinels::checkReplicas()
{
    const Sentinel *const best = findBest();
    if (!best)
        return;
    if (!best->replicas) {
        m_report->add(DoctorReport::Info, u"announced"_s,
                      u"the user at the Sentinels may not ask for the addresses of the replicas"_s,
                      u"run doctor once as a user with +sentinel|replicas there"_s);
        return;
    }
    const QList<Fields> replicas = *best->replicas;
    qsizetype usable = 0;
    qsizetype promotable = 0;
    for (const Fields &replica : replicas) {
        usable += isReplicaReachable(replica) ? 1 : 0;
        promotable += replica.value("slave-priority") == "0" ? 0 : 1;
        if (m_interruption != 0)
            return;
    }
    if (promotable == 0)
        m_report->add(DoctorReport::Warning, u"announced"_s,
                      replicas.isEmpty() ? u"the Sentinels know no replica, so nothing replaces a master that is down"_s
                                         : u"no replica may become the master (replica-priority is 0)"_s,
                      replicas.isEmpty() ? u"add a replica"_s : u"CONFIG SET replica-priority 100 on one of them"_s);
    else if (usable == replicas.size())
        m_report->add(DoctorReport::Ok, u"announced"_s,
                      u"%1 can be reached from here where the Sentinels say, with this login"_s.arg(
                              counted(usable, u"replicas"_s)));
}

bool DoctorSentinels::isReplicaReachable(const Fields &replica)
{
    const Endpoint address = addressOf(replica);
    ServerUrl server = m_service.atMaster(address);
    server.service.clear(); // which only a master serves
    DoctorConnection connection(server, m_timeout);
    const bool isReached = connection.connectToServer();
    m_interruption = connection.interruption();
    if (isReached || m_interruption != 0)
        return isReached;
    const bool isLogin = connection.failure() == Failure::Authentication || connection.failure() == Failure::Permission;
    const bool isDown = replica.value("flags").contains("down") || replica.value("flags").contains("disconnected");
    m_report->add(
            DoctorReport::Warning, u"announced"_s, u"a replica: "_s + connection.errorString(),
            isLogin ? u"if it becomes the master, no client can log in: give all servers the same users and passwords"_s
                    : isDown
                    ? u"the Sentinels do not reach it either: start it, or let them forget it with SENTINEL RESET %1"_s
                              .arg(m_service.service)
                    : u"if it becomes the master, clients lose their locks: set replica-announce-ip on it to an address that can be reached from here"_s);
    return false;
}

} // namespace Cli
