// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `doctor`: checks of the server. Unlike all other commands it uses the Redis client of the library itself, because it
// asks what no lock asks.

#include "commands.h"
#include "doctor/addresses.h"
#include "doctor/cluster.h"
#include "doctor/connection.h"
#include "doctor/quorum.h"
#include "doctor/replicas.h"
#include "doctor/report.h"
#include "doctor/rights.h"
#include "doctor/sentinels.h"
#include "doctor/zookeeper.h"
#include "lockview.h"
#include "session.h"

#include <QDistLock/LockInfo>
#include <QDistLock/QuitOnSignals>
#include <QDistLock/impl/namebytes.h>

#include <QtCore/qdatetime.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qversionnumber.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockInfo;
using QtRedis::Reply;
using QtRedis::ServerUrl;
using std::chrono::milliseconds;

namespace Cli {

namespace {

const QVersionNumber OldestServer(6, 2);
constexpr int Pings = 100;
/// A renewal is sent after a third of the lease, and then there must be time for several attempts.
constexpr int RoundTripsPerLease = 30;
constexpr milliseconds ClockStep = 5s;
constexpr int NamesShown = 3;

using Level = DoctorReport::Level;

/// "a, b, c and 12 more"
QString someOf(QStringList names)
{
    names.sort();
    QString text = names.first(std::min<qsizetype>(NamesShown, names.size())).join(u", "_s);
    if (names.size() > NamesShown)
        text += u" and %1 more"_s.arg(names.size() - NamesShown);
    return text;
}

/// What an administrator types to change \a setting, such as "tcp-keepalive 300".
QString changeOf(const QString &setting)
{
    return u"CONFIG SET %1, and then CONFIG REWRITE (or a line in redis.conf), because a restart undoes CONFIG SET"_s
            .arg(setting);
}

/// Checks of one server.
class Doctor
{
public:
    /// \a withLocks: also checks the locks, of all servers of the cluster or quorum.
    Doctor(Session *session, const ServerUrl &server, DoctorReport *report, ServerRole role, bool withLocks);
    /// The exit code of a signal, or 0.
    int run();

private:
    void checkServer();
    void readInfo();
    void checkMemory();
    void checkClients();
    void checkLatency();
    void checkClock();
    void checkPersistence();
    void checkReplicas();
    void checkPatterns();
    void checkKeepAlive();
    void checkLocks();
    void checkQueues();
    void checkVersions();

    void add(Level level, const char *check, const QString &text, const QString &remedy = {})
    {
        m_report->add(level, QString::fromLatin1(check), text, remedy);
    }
    Session *const m_session;
    const milliseconds m_timeout;
    DoctorConnection m_connection;
    DoctorReport *const m_report;
    const ServerRole m_role;
    const bool m_withLocks;
    QHash<QByteArray, QByteArray> m_info; ///< of INFO
    QSet<QByteArray> m_clients;           ///< ids of the clients that are connected
    QStringList m_unknown;                ///< what could not be checked
};

Doctor::Doctor(Session *session, const ServerUrl &server, DoctorReport *report, ServerRole role, bool withLocks)
    : m_session(session)
    , m_timeout(session->connectTimeout())
    , m_connection(server, m_timeout)
    , m_report(report)
    , m_role(role)
    , m_withLocks(withLocks)
{
}

int Doctor::run()
{
    if (!checkAddresses(&m_connection, m_timeout, m_report))
        return m_connection.interruption();
    if (!m_connection.connectToServer()) {
        const bool isSilent = m_connection.failure() == QtRedis::Failure::None
                || m_connection.failure() == QtRedis::Failure::Timeout;
        if (m_connection.interruption() == 0)
            add(Level::Failure, "login", m_connection.errorString(),
                isSilent ? u"check that a Redis server listens there, and that it is not frozen"_s : QString());
        return m_connection.interruption();
    }
    add(Level::Ok, "login",
        m_connection.server().password.isEmpty() ? u"the server asks for no password"_s
                                                 : u"the server accepts user and password"_s);
    checkRights(&m_connection, m_session->keyPrefix(), m_role, m_report);
    for (const auto check : {&Doctor::checkServer, &Doctor::readInfo, &Doctor::checkMemory, &Doctor::checkPersistence,
                             &Doctor::checkReplicas, &Doctor::checkClients, &Doctor::checkPatterns,
                             &Doctor::checkKeepAlive, &Doctor::checkLatency, &Doctor::checkClock,
                             &Doctor::checkVersions, &Doctor::checkLocks, &Doctor::checkQueues}) {
        if (m_connection.interruption() == 0)
            (this->*check)();
    }
    if (!m_unknown.isEmpty() && m_connection.interruption() == 0)
        add(Level::Info, "unknown", u"the user may not ask for: %1"_s.arg(m_unknown.join(u", "_s)),
            u"to check these too, run doctor as a user with +info +config|get +pubsub|numpat"_s);
    return m_connection.interruption();
}

void checkUrl(const ServerUrl &server, DoctorReport *report)
{
    const bool fromEnvironment = !server.password.isEmpty() && !qEnvironmentVariableIsEmpty("QDISTLOCK_PASSWORD");
    const bool fromFile = !fromEnvironment && server.passwordVariable
            && qEnvironmentVariableIsSet("QDISTLOCK_PASSWORD_FILE");
    const QString login = fromFile      ? u"with the password in $QDISTLOCK_PASSWORD_FILE"_s
            : server.password.isEmpty() ? u"without a password"_s
            : server.user.isEmpty()     ? u"with a password"_s
                                        : u"with user and password"_s;
    report->add(Level::Ok, u"url"_s,
                u"%1, %2%3"_s.arg(server.toDisplayString(), login,
                                  fromEnvironment ? u" ($QDISTLOCK_PASSWORD is set)"_s : QString()));
}

void Doctor::checkServer()
{
    // Unlike INFO, HELLO needs no right.
    const auto reply = m_connection.askIfAllowed({"HELLO"});
    QHash<QByteArray, QByteArray> fields;
    for (qsizetype i = 0; reply && i + 1 < reply->elements.size(); i += 2)
        fields.insert(reply->elements.at(i).text, reply->elements.at(i + 1).text);
    const QString version = QString::fromLatin1(fields.value("version"));
    if (version.isEmpty()) {
        add(Level::Failure, "version", u"the server does not say its version"_s,
            u"check that it is a Redis server, version 6.2 or later"_s);
        return;
    }
    const QString name = QString::fromLatin1(fields.value("server")) + u' ' + version;
    const bool isTooOld = QVersionNumber::fromString(version) < OldestServer;
    add(isTooOld ? Level::Failure : Level::Ok, "version", isTooOld ? name + u" is too old"_s : name,
        u"upgrade to 6.2 or later"_s);
    const QByteArray mode = fields.value("mode");
    if (mode == "sentinel") {
        add(Level::Failure, "mode", u"this is a Sentinel, which keeps no keys"_s,
            u"give redis+sentinel://HOST:PORT/SERVICE, or the URL of the master"_s);
    } else if (mode == "cluster" && m_role != ServerRole::OfCluster) {
        add(Level::Failure, "mode", u"this is a node of a Redis Cluster"_s,
            u"use redis+cluster:// instead of redis://; a node alone has only some of the locks"_s);
    }
    const QByteArray role = fields.value("role");
    const bool isMaster = role == "master";
    add(isMaster ? Level::Ok : Level::Failure, "role",
        isMaster ? u"master"_s : u"this is a %1, which refuses writes"_s.arg(QString::fromLatin1(role)),
        u"give the URL of the master"_s);
}

void Doctor::readInfo()
{
    const auto reply = m_connection.askIfAllowed({"INFO"});
    if (!reply) {
        m_unknown += {u"memory policy"_s, u"persistence"_s, u"number of clients"_s};
        return;
    }
    const QList<QByteArray> lines = reply->text.split('\n');
    for (const QByteArray &line : lines) {
        const qsizetype colon = line.indexOf(':');
        if (colon > 0)
            m_info.insert(line.first(colon), line.sliced(colon + 1).trimmed());
    }
}

void Doctor::checkMemory()
{
    const QByteArray policy = m_info.value("maxmemory_policy");
    if (policy.isEmpty())
        return;
    const bool isLimited = m_info.value("maxmemory") != "0";
    const QString text = u"maxmemory-policy is %1, maxmemory %2"_s.arg(
            QString::fromLatin1(policy), QString::fromLatin1(m_info.value("maxmemory_human", "0")));
    if (policy == "noeviction")
        add(Level::Ok, "memory", text);
    else if (isLimited)
        add(Level::Failure, "memory", text + u": when memory is short, locks vanish"_s,
            u"use a server of its own for locks, or: "_s + changeOf(u"maxmemory-policy noeviction"_s));
    else
        add(Level::Ok, "memory", text + u" (no limit: nothing is evicted)"_s);
}

void Doctor::checkClients()
{
    bool isKnown = false;
    const qint64 clients = m_info.value("connected_clients").toLongLong(&isKnown);
    const qint64 most = m_info.value("maxclients", m_connection.setting("maxclients")).toLongLong();
    if (!isKnown || most <= 0)
        return;
    const QString text = u"%1, of %2 at most"_s.arg(counted(clients, u"connections"_s)).arg(most);
    add(clients * 10 > most * 8 ? Level::Warning : Level::Ok, "clients", text,
        u"each client of the library needs two connections: "_s + changeOf(u"maxclients %1"_s.arg(2 * most)));
}

void Doctor::checkLatency()
{
    QList<qint64> times;
    for (int i = 0; i < Pings; ++i) {
        QElapsedTimer timer;
        timer.start();
        const auto reply = m_connection.ask({"PING"}); // an error takes as long
        if (!reply)
            break;
        times.append(timer.nsecsElapsed() / 1000);
    }
    if (m_connection.interruption() != 0)
        return;
    if (times.size() < Pings) {
        add(Level::Failure, "latency", m_connection.errorString(), u"check the network and the load of the server"_s);
        return;
    }
    std::sort(times.begin(), times.end());
    const std::chrono::microseconds slow(times.at(Pings * 99 / 100 - 1));
    const milliseconds lease = m_session->lockOptions().lease;
    const milliseconds shortest = std::max(std::chrono::ceil<milliseconds>(slow * RoundTripsPerLease),
                                           QDistLock::LockOptions::MinimumLease);
    const QString text = u"%1 PINGs: p50 %2 ms, p99 %3 ms; good for leases from %4 on"_s.arg(
            QString::number(Pings), QString::number(double(times.at(Pings / 2 - 1)) / 1000, 'f', 2),
            QString::number(double(slow.count()) / 1000, 'f', 2), roughText(shortest));
    add(shortest > lease ? Level::Warning : Level::Ok, "latency", text,
        u"use a longer lease than %1, or a server that is nearer"_s.arg(roughText(lease)));
}

void Doctor::checkClock()
{
    const qint64 before = QDateTime::currentMSecsSinceEpoch();
    const auto reply = m_connection.askIfAllowed({"TIME"});
    const qint64 after = QDateTime::currentMSecsSinceEpoch();
    if (!reply || reply->elements.size() != 2)
        return;
    const qint64 server = reply->elements.at(0).text.toLongLong() * 1000
            + reply->elements.at(1).text.toLongLong() / 1000;
    const milliseconds difference(server - (before + after) / 2);
    const QString text = std::chrono::abs(difference) <= milliseconds(after - before + 1)
            ? u"the server's clock and ours agree"_s
            : u"the server's clock is %1 %2 ours"_s.arg(roughText(std::chrono::abs(difference)),
                                                        difference > 0ms ? u"ahead of"_s : u"behind"_s);
    add(std::chrono::abs(difference) > ClockStep ? Level::Warning : Level::Ok, "clock", text,
        u"synchronise both, by NTP for example: when a clock is set, the server ends leases early or late"_s);
}

void Doctor::checkPersistence()
{
    if (!m_info.contains("aof_enabled"))
        return;
    for (const char *const field : {"rdb_last_bgsave_status", "aof_last_write_status"}) {
        if (m_info.value(field, "ok") != "ok") {
            add(Level::Failure, "persistence",
                u"%1 is %2: the server may refuse writes"_s.arg(QLatin1String(field),
                                                                QString::fromLatin1(m_info.value(field))),
                u"check the disk of the server and its log"_s);
        }
    }
    const QByteArray sync = m_connection.setting("appendfsync");
    if (m_info.value("aof_enabled") != "1") {
        add(Level::Warning, "persistence", u"the append-only file is off: a restart of the server frees all locks"_s,
            u"let restarts take longer than the leases, or: "_s
                    + changeOf(u"appendonly yes, CONFIG SET appendfsync always"_s));
    } else if (sync.isEmpty() || sync == "always") {
        add(Level::Ok, "persistence", u"the append-only file is on"_s);
    } else {
        add(Level::Info, "persistence",
            u"the append-only file is on, with appendfsync %1: a crash of the machine frees the locks of the last moments"_s
                    .arg(QString::fromLatin1(sync)));
    }
}

void Doctor::checkReplicas()
{
    if (!Cli::checkReplicas(&m_connection, m_info, m_report))
        m_unknown += u"replicas"_s;
}

void Doctor::checkPatterns()
{
    const auto reply = m_connection.askIfAllowed({"PUBSUB", "NUMPAT"});
    if (!reply) {
        m_unknown += u"pattern subscriptions"_s;
        return;
    }
    if (reply->integer > 0)
        add(Level::Warning, "patterns",
            u"%1: dead waiters look alive, and each delays the next by up to 3s"_s.arg(
                    counted(reply->integer, u"pattern subscriptions"_s)),
            u"find them in CLIENT LIST (psub), and let them subscribe to channels instead"_s);
    else
        add(Level::Ok, "patterns", u"nobody subscribes to patterns"_s);
}

void Doctor::checkKeepAlive()
{
    const QByteArray value = m_connection.setting("tcp-keepalive");
    if (value.isEmpty()) {
        m_unknown += u"tcp-keepalive"_s;
        return;
    }
    const bool isOff = value == "0";
    add(isOff ? Level::Warning : Level::Ok, "keepalive",
        isOff ? u"tcp-keepalive is off: dead machines look connected"_s
              : u"tcp-keepalive is %1s"_s.arg(QString::fromLatin1(value)),
        changeOf(u"tcp-keepalive 300"_s));
}

void Doctor::checkVersions()
{
    const auto reply = m_connection.askIfAllowed({"CLIENT", "LIST"});
    if (!reply) {
        m_unknown += u"connected clients"_s;
        return;
    }
    const QList<QByteArray> lines = reply->text.split('\n');
    for (const QByteArray &line : lines) {
        const QByteArray field = " name=qdistlock-";
        const qsizetype begin = line.indexOf(field);
        if (begin < 0)
            continue;
        const QByteArray rest = line.sliced(begin + field.size());
        const auto isHex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
        const auto end = std::find_if_not(rest.begin(), rest.end(), isHex);
        if (end != rest.begin())
            m_clients.insert(rest.first(end - rest.begin()));
    }
    QSet<QString> versions;
    for (const QByteArray &client : std::as_const(m_clients))
        versions.insert(QString::number(client.first(1).toInt(nullptr, 16)));
    QStringList sorted = versions.values();
    sorted.sort();
    const QString text = counted(m_clients.size(), u"connected clients"_s) + u" of this library"_s;
    if (sorted.size() > 1)
        add(Level::Warning, "protocol", u"%1, with the protocol versions %2"_s.arg(text, sorted.join(u", "_s)),
            u"they exclude each other; update the older ones, so that all are served in turn"_s);
    else
        add(Level::Ok, "protocol",
            sorted.isEmpty() ? text : u"%1, with protocol version %2"_s.arg(text, sorted.first()));
}

void Doctor::checkLocks()
{
    if (!m_withLocks)
        return;
    const auto locks = m_session->await(m_session->registry()->list(u"*"_s));
    if (!locks)
        return;
    if (!*locks) {
        add(Level::Failure, "locks", locks->errorString);
        return;
    }
    QStringList endless, foreign, disconnected;
    for (const LockInfo &lock : locks->value) {
        if (lock.remaining < 0ms)
            endless += lock.name;
        if (lock.foreign)
            foreign += lock.name;
        else if (!lock.isHolderConnected())
            disconnected += lock.name;
    }
    add(Level::Ok, "locks", u"%1 held, with the key prefix %2"_s.arg(locks->value.size()).arg(m_session->keyPrefix()));
    if (!endless.isEmpty())
        add(Level::Warning, "locks", u"without a time to live: "_s + someOf(endless),
            u"if nobody needs them, qdistlock release NAME --force"_s);
    if (!foreign.isEmpty())
        add(Level::Info, "locks", u"held by another library, or written by hand: "_s + someOf(foreign));
    if (!disconnected.isEmpty())
        add(Level::Info, "locks", u"held by clients that are not connected: "_s + someOf(disconnected),
            u"dead ones end with their lease; `qdistlock acquire` leaves such locks on purpose"_s);
}

/// Queues without a holder. A release passes the lock on in the same step, so only dead waiters are left there.
void Doctor::checkQueues()
{
    const QByteArray prefix = m_session->keyPrefix().toUtf8();
    const QByteArray suffix = ":queue";
    QByteArray cursor = "0";
    QStringList unserved;
    int queues = 0;
    do {
        const auto reply = m_connection.askIfAllowed(
                {"SCAN", cursor, "MATCH", "*" + suffix, "COUNT", "512", "TYPE", "zset"});
        if (!reply || reply->elements.size() != 2) {
            m_unknown += u"queues"_s;
            return;
        }
        cursor = reply->elements.at(0).text;
        for (const Reply &element : reply->elements.at(1).elements) {
            QByteArray key = element.text.chopped(suffix.size());
            const bool isWrapped = key.startsWith('{' + prefix) && key.endsWith('}');
            if (isWrapped)
                key = key.sliced(1).chopped(1);
            else if (!key.startsWith(prefix) || !key.contains('{'))
                continue; // of another prefix, or another program's
            ++queues;
            const auto exists = m_connection.askIfAllowed({"EXISTS", key});
            if (exists && exists->integer == 0)
                unserved += QDistLock::Detail::nameText(key.sliced(prefix.size()));
        }
    } while (cursor != "0" && m_connection.interruption() == 0);
    if (unserved.isEmpty())
        add(Level::Ok, "queues",
            queues == 0 ? u"nobody waits"_s
                        : counted(queues, u"queues"_s) + u", none of them for a lock that nobody holds"_s);
    else
        add(Level::Warning, "queues", u"for locks that nobody holds: "_s + someOf(unserved),
            u"their waiters are dead; the next one that acquires the lock removes them"_s);
}

/// The checks return the exit code of a signal, or 0.
int checkService(Session *session, const ServerUrl &service, DoctorReport *report)
{
    DoctorSentinels sentinels(service, session->connectTimeout(), report);
    const auto master = sentinels.findMaster();
    if (!master)
        return sentinels.interruption();
    sentinels.checkLease(session->lockOptions().lease);
    sentinels.checkReplicas();
    return sentinels.interruption() != 0 ? sentinels.interruption()
                                         : Doctor(session, *master, report, ServerRole::Alone, true).run();
}

int checkCluster(Session *session, const ServerUrl &cluster, DoctorReport *report)
{
    DoctorCluster nodes(cluster, session->connectTimeout(), report);
    const QList<ServerUrl> masters = nodes.findMasters();
    for (const ServerUrl &master : masters) {
        nodes.checkMaster(master);
        if (nodes.interruption() != 0)
            break;
        const bool isLast = master.endpoint() == masters.last().endpoint();
        if (const int code = Doctor(session, master, report, ServerRole::OfCluster, isLast).run(); code != 0)
            return code;
    }
    nodes.checkLease(session->lockOptions().lease);
    return nodes.interruption();
}

int checkQuorum(Session *session, const ServerUrl &quorum, DoctorReport *report)
{
    DoctorQuorum nodes(quorum, session->connectTimeout(), session->lockOptions().lease, report);
    const QList<ServerUrl> servers = nodes.findServers();
    for (const ServerUrl &server : servers) {
        const bool isLast = server.endpoint() == servers.last().endpoint();
        if (const int code = Doctor(session, server, report, ServerRole::OfQuorum, isLast).run(); code != 0)
            return code;
    }
    return nodes.interruption();
}

/// Of the server that the command line names, whatever it is.
int checkAll(Session *session, DoctorReport *report)
{
    if (session->isZooKeeper())
        return checkZooKeeper(session, session->server(), session->connectTimeout(), report);
    QString ignored;
    const auto server = ServerUrl::parse(session->server(), &ignored);
    if (!server) {
        report->add(
                DoctorReport::Failure, u"url"_s, session->serverText() + u" is no server that others can use"_s,
                u"give a redis://, rediss://, unix://, redis+sentinel://, redis+cluster://, redlock:// or zookeeper:// URL"_s);
        return 0;
    }
    checkUrl(*server, report);
    return !server->sentinels.isEmpty()       ? checkService(session, *server, report)
            : !server->clusterNodes.isEmpty() ? checkCluster(session, *server, report)
            : !server->quorumNodes.isEmpty()  ? checkQuorum(session, *server, report)
                                              : Doctor(session, *server, report, ServerRole::Alone, true).run();
}

} // namespace

int runDoctor(const Invocation &invocation)
{
    QDistLock::quitOnSignals();
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    DoctorReport report;
    const int interruption = checkAll(&session, &report);
    return interruption != 0     ? interruption
            : session.isUsable() ? report.finish(session.serverText())
                                 : session.exitCode();
}

} // namespace Cli
