// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "sentinelset.h"

#include "certificates.h"
#include "childprocess.h"
#include "posix.h"

#include <QtCore/qdir.h>
#include <QtCore/qfile.h>

#include <algorithm>
#include <functional>
#include <utility>

#include <signal.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace Support {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto StartTimeout = 60s;
constexpr int PortAttempts = 5;
const QByteArray PeerUser = QByteArrayLiteral("peer");

/// Each Sentinel has its own user, so that partition() can lock out one of them.
QByteArray userOf(int sentinel)
{
    return "sentinel" + QByteArray::number(sentinel);
}

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

/// A field of a flat array of names and values.
QByteArray field(const QVariant &reply, const char *name)
{
    const QVariantList list = reply.toList();
    for (qsizetype i = 0; i + 1 < list.size(); i += 2) {
        if (list.at(i).toByteArray() == name)
            return list.at(i + 1).toByteArray();
    }
    return QByteArray();
}

} // namespace

SentinelSet::SentinelSet()
    : SentinelSet(Options())
{
}

SentinelSet::SentinelSet(const Options &options)
    : m_options(options)
    , m_folder(QDir::tempPath() + QLatin1String("/qdl-XXXXXX"))
{
}

SentinelSet::~SentinelSet()
{
    for (int i = 0; i < int(m_sentinels.size()); ++i)
        killSentinel(i);
}

RedisServer::Options SentinelSet::serverOptions() const
{
    RedisServer::Options options = m_options.certificates ? RedisServer::Options::withTls(*m_options.certificates)
                                                          : RedisServer::Options::withTcp();
    if (m_options.certificates)
        options.config.append("tls-replication yes");
    options.password = m_options.password;
    // A replica whose master is stopped would keep the connection to it for a minute, even if it has a new master.
    options.config.append("repl-timeout 5");
    options.config.append("repl-ping-replica-period 1");
    if (!m_options.password.isEmpty())
        options.config.append("masterauth " + m_options.password);
    for (int i = 0; i < m_options.sentinels; ++i)
        options.users.append(userOf(i) + " on nopass ~* &* +@all");
    return options;
}

quint16 SentinelSet::portOf(const RedisServer &server) const
{
    return m_options.certificates ? server.tlsPort() : server.port();
}

quint16 SentinelSet::sentinelPort(int index) const
{
    const Sentinel &sentinel = *m_sentinels[size_t(index)];
    return m_options.certificates ? sentinel.tlsPort : sentinel.port;
}

bool SentinelSet::start()
{
    RedisServer::Options options = serverOptions();
    for (int i = 0; i <= m_options.replicas; ++i) {
        m_servers.push_back(std::make_unique<RedisServer>(options));
        if (!m_servers.back()->start()) {
            m_error = m_servers.back()->errorString();
            return false;
        }
        options.replicaOf = m_servers.front().get();
        if (m_options.certificates && i == 0) // the last one wins
            options.config.append("replicaof 127.0.0.1 " + QByteArray::number(options.replicaOf->tlsPort()));
    }
    for (int i = 0; i < m_options.sentinels; ++i) {
        m_sentinels.push_back(std::make_unique<Sentinel>());
        if (!startSentinel(i))
            return false;
    }
    if (waitUntil([this] { return isHealthy(); }))
        return true;
    m_error = u"the Sentinels did not find the servers and each other in time"_s;
    return false;
}

bool SentinelSet::writeConfig(int index)
{
    const quint16 port = m_sentinels[size_t(index)]->port;
    const QByteArray name = service().toLatin1();
    QList<QByteArray> lines = {
            "port " + QByteArray::number(port),
            "bind 127.0.0.1",
            "dir \"" + QFile::encodeName(m_folder.path()) + '"',
            "daemonize no",
            "protected-mode no",
            "sentinel monitor " + name + " 127.0.0.1 " + QByteArray::number(portOf(*m_servers.front())) + ' '
                    + QByteArray::number(m_options.sentinels / 2 + 1),
            "sentinel down-after-milliseconds " + name + ' ' + QByteArray::number(qint64(m_options.downAfter.count())),
            "sentinel failover-timeout " + name + " 2000",
            "sentinel parallel-syncs " + name + " 5",
            "sentinel auth-user " + name + ' ' + userOf(index),
            "sentinel auth-pass " + name + " any",
    };
    // Their own user for each other, so that partition() can lock them out.
    lines += {"requirepass " + m_options.sentinelPassword, "user " + PeerUser + " on nopass ~* &* +@all",
              "sentinel sentinel-user " + PeerUser, "sentinel sentinel-pass any"};
    for (const QByteArray &rule : m_options.sentinelUsers)
        lines.append("user " + rule);
    if (m_options.certificates) {
        const Certificates::Pair pair = m_options.certificates->server();
        lines += {"tls-port " + QByteArray::number(m_sentinels[size_t(index)]->tlsPort),
                  "tls-replication yes",
                  "tls-auth-clients no",
                  "tls-cert-file \"" + QFile::encodeName(pair.certificate) + '"',
                  "tls-key-file \"" + QFile::encodeName(pair.key) + '"',
                  "tls-ca-cert-file \"" + QFile::encodeName(m_options.certificates->ca()) + '"'};
    }
    QFile file(m_folder.filePath(u"sentinel%1.conf"_s.arg(index)));
    const QByteArray text = lines.join('\n') + '\n';
    return m_folder.isValid() && file.open(QIODevice::WriteOnly) && file.write(text) == text.size();
}

bool SentinelSet::startSentinel(int index)
{
    Sentinel &sentinel = *m_sentinels[size_t(index)];
    for (int attempt = 0; attempt < PortAttempts; ++attempt) {
        sentinel.port = Posix::freePort();
        do {
            sentinel.tlsPort = m_options.certificates ? Posix::freePort() : 0;
        } while (sentinel.tlsPort == sentinel.port);
        if (!writeConfig(index)) {
            m_error = u"the configuration of a Sentinel cannot be written"_s;
            return false;
        }
        if (restartSentinel(index))
            return true;
    }
    m_error = u"a Sentinel did not start; see %1"_s.arg(m_folder.path());
    return false;
}

bool SentinelSet::restartSentinel(int index)
{
    Sentinel &sentinel = *m_sentinels[size_t(index)];
    killSentinel(index);
    setDiesWithParent(&sentinel.process);
    sentinel.process.setProcessChannelMode(QProcess::MergedChannels);
    sentinel.process.setStandardOutputFile(m_folder.filePath(u"sentinel%1.log"_s.arg(index)), QIODevice::Append);
    sentinel.process.start(RedisServer::serverProgram(),
                           {m_folder.filePath(u"sentinel%1.conf"_s.arg(index)), u"--sentinel"_s});
    if (!sentinel.process.waitForStarted())
        return false;
    const bool answers = waitUntil([&] {
        sentinel.process.waitForFinished(0);
        return sentinel.process.state() == QProcess::NotRunning
                || sentinelCommand(index, {"PING"}).toByteArray() == "PONG";
    });
    if (!answers || sentinel.process.state() == QProcess::NotRunning)
        return false;
    // By default some of these are seconds.
    sentinelCommand(index,
                    {"SENTINEL", "DEBUG", "PUBLISH-PERIOD", "500", "INFO-PERIOD", "300", "ASK-PERIOD", "200",
                     "MIN-LINK-RECONNECT-PERIOD", "1000", "TILT-PERIOD", "1000"});
    return true;
}

bool SentinelSet::isHealthy()
{
    const quint16 port = masterPort();
    for (const auto &server : m_servers) {
        const QVariantList role = server->command({"ROLE"}).toList();
        const bool isMaster = role.value(0).toByteArray() == "master";
        const bool isReplica = role.value(0).toByteArray() == "slave" && role.value(2).toInt() == port
                && role.value(3).toByteArray() == "connected";
        if (portOf(*server) == port ? !isMaster : !isReplica)
            return false;
    }
    for (int i = 0; i < int(m_sentinels.size()); ++i) {
        if (isRunning(i) && !hasSeenAll(i))
            return false;
    }
    return true;
}

bool SentinelSet::isRunning(int index) const
{
    const Sentinel &sentinel = *m_sentinels[size_t(index)];
    return sentinel.process.state() != QProcess::NotRunning && !sentinel.isPaused;
}

bool SentinelSet::hasSeenAll(int index)
{
    const QVariant master = sentinelCommand(index, {"SENTINEL", "MASTER", service().toLatin1()});
    return field(master, "flags") == "master" && hasSeenReplicas(index) && hasSeenSentinels(index);
}

bool SentinelSet::hasSeenSentinels(int index)
{
    const QVariantList others = sentinelCommand(index, {"SENTINEL", "SENTINELS", service().toLatin1()}).toList();
    return others.size() == m_options.sentinels - 1
            && std::all_of(others.begin(), others.end(), [this](const QVariant &other) {
                   const quint16 port = quint16(field(other, "port").toUInt());
                   for (int i = 0; i < int(m_sentinels.size()); ++i) {
                       if (port == sentinelPort(i) && !isRunning(i))
                           return true; // nothing is expected of it
                   }
                   return field(other, "flags") == "sentinel";
               });
}

bool SentinelSet::hasSeenReplicas(int index)
{
    const QVariantList replicas = sentinelCommand(index, {"SENTINEL", "REPLICAS", service().toLatin1()}).toList();
    return replicas.size() == m_options.replicas
            && std::all_of(replicas.begin(), replicas.end(), [](const QVariant &replica) {
                   return field(replica, "flags") == "slave" && field(replica, "role-reported") == "slave"
                           && field(replica, "master-link-status") == "ok";
               });
}

QUrl SentinelSet::url(const QString &query, QList<quint16> ports) const
{
    for (int i = 0; i < int(m_sentinels.size()) && ports.size() < qsizetype(m_sentinels.size()); ++i)
        ports.append(sentinelPort(i));
    QStringList items;
    for (const quint16 port : ports.mid(1))
        items.append(u"node=127.0.0.1:%1"_s.arg(port));
    if (m_options.certificates)
        items.append(u"ca="_s + m_options.certificates->ca());
    if (!query.isEmpty())
        items.append(query);
    const QString login = m_options.password.isEmpty() ? QString()
                                                       : u':' + QString::fromLatin1(m_options.password) + u'@';
    const QString address = u"127.0.0.1:%1/%2"_s.arg(QString::number(ports.first()), service());
    const QString scheme = m_options.certificates ? u"rediss+sentinel://"_s : u"redis+sentinel://"_s;
    const QString text = scheme + login + address;
    return QUrl(items.isEmpty() ? text : text + u'?' + items.join(u'&'));
}

RedisServer &SentinelSet::serverAt(quint16 port)
{
    const auto found = std::find_if(m_servers.begin(), m_servers.end(),
                                    [this, port](const auto &server) { return portOf(*server) == port; });
    if (found == m_servers.end())
        qFatal("no server at port %u", port);
    return **found;
}

quint16 SentinelSet::masterPort(int index)
{
    const QVariant reply = sentinelCommand(index, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", service().toLatin1()});
    return quint16(reply.toList().value(1).toUInt());
}

bool SentinelSet::isSwitchingFrom(quint16 port)
{
    for (int i = 0; i < int(m_sentinels.size()); ++i) {
        if (!isRunning(i))
            continue;
        const quint16 its = masterPort(i);
        if (its != 0 && its != port)
            return true;
    }
    return false;
}

bool SentinelSet::hasSwitchedFrom(quint16 port)
{
    quint16 seen = 0;
    for (int i = 0; i < int(m_sentinels.size()); ++i) {
        if (!isRunning(i))
            continue;
        const QVariant reply = sentinelCommand(i, {"SENTINEL", "MASTER", service().toLatin1()});
        const quint16 its = quint16(field(reply, "port").toUInt());
        if (its == 0 || its == port || (seen != 0 && its != seen))
            return false;
        seen = its;
    }
    return seen != 0;
}

void SentinelSet::signal(int index, int number)
{
    Sentinel &sentinel = *m_sentinels[size_t(index)];
    sentinel.isPaused = number == SIGSTOP;
    if (sentinel.process.state() == QProcess::Running)
        ::kill(static_cast<pid_t>(sentinel.process.processId()), number);
}

void SentinelSet::pauseSentinel(int index)
{
    signal(index, SIGSTOP);
}

void SentinelSet::resumeSentinel(int index)
{
    signal(index, SIGCONT);
}

void SentinelSet::killSentinel(int index)
{
    Sentinel &sentinel = *m_sentinels[size_t(index)];
    sentinel.witness.close();
    sentinel.isPaused = false;
    if (sentinel.process.state() == QProcess::NotRunning)
        return;
    sentinel.process.kill();
    sentinel.process.waitForFinished();
}

void SentinelSet::setDownAfter(milliseconds time)
{
    const QByteArray text = QByteArray::number(qint64(time.count()));
    for (int i = 0; i < int(m_sentinels.size()); ++i) {
        if (isRunning(i))
            sentinelCommand(i, {"SENTINEL", "SET", service().toLatin1(), "down-after-milliseconds", text});
    }
}

bool SentinelSet::failOver()
{
    return sentinelCommand(0, {"SENTINEL", "FAILOVER", service().toLatin1()}).toByteArray() == "OK";
}

bool SentinelSet::failOverFrom(quint16 port)
{
    if (isSwitchingFrom(port))
        return true;
    const QVariant master = sentinelCommand(0, {"SENTINEL", "MASTER", service().toLatin1()});
    if (quint16(field(master, "port").toUInt()) == port && !field(master, "flags").contains("failover_in_progress"))
        failOver();
    return false;
}

void SentinelSet::setCalm(bool on)
{
    // A subscription without a message for three of these periods is replaced. 500 ms are those of restartSentinel().
    const QByteArray period = QByteArray::number(qint64((on ? milliseconds(10min) : milliseconds(500ms)).count()));
    for (int i = 0; i < int(m_sentinels.size()); ++i) {
        if (isRunning(i))
            sentinelCommand(i, {"SENTINEL", "DEBUG", "PUBLISH-PERIOD", period});
    }
}

void SentinelSet::lockOut(RedisServer *server, int sentinel)
{
    m_lockedServers.insert(server);
    server->command({"ACL", "SETUSER", userOf(sentinel), "off"});
    server->command({"CLIENT", "KILL", "USER", userOf(sentinel)});
}

void SentinelSet::hideMaster()
{
    RedisServer &server = master();
    for (int i = 0; i < int(m_sentinels.size()); ++i)
        lockOut(&server, i);
}

void SentinelSet::partition()
{
    const quint16 port = masterPort();
    m_isPartitioned = true;
    sentinelCommand(0, {"ACL", "SETUSER", PeerUser, "off"});
    sentinelCommand(0, {"CLIENT", "KILL", "USER", PeerUser});
    for (const auto &server : m_servers) {
        for (int i = 0; i < int(m_sentinels.size()); ++i) {
            if ((portOf(*server) == port) == (i == 0))
                continue;
            lockOut(server.get(), i);
        }
    }
}

void SentinelSet::heal()
{
    // A Sentinel whose login was refused keeps the connection, and logs in on the next one only.
    const QList<QByteArray> endConnections{"CLIENT", "KILL", "TYPE", "normal"};
    const QList<QByteArray> endSubscriptions{"CLIENT", "KILL", "TYPE", "pubsub"};
    if (std::exchange(m_isPartitioned, false)) {
        sentinelCommand(0, {"ACL", "SETUSER", PeerUser, "on"});
        sentinelCommand(0, endConnections);
    }
    for (RedisServer *const server : std::exchange(m_lockedServers, {})) {
        for (int i = 0; i < int(m_sentinels.size()); ++i)
            server->command({"ACL", "SETUSER", userOf(i), "on"});
        server->command(endConnections);
        server->command(endSubscriptions);
    }
}

QVariant SentinelSet::sentinelCommand(int index, const QList<QByteArray> &arguments)
{
    Sentinel &sentinel = *m_sentinels[size_t(index)];
    if (!sentinel.witness.isConnected()) {
        if (!sentinel.witness.connectToTcp(sentinel.port))
            return QVariant::fromValue(RedisError{"-WITNESS " + sentinel.witness.errorString().toUtf8()});
        sentinel.witness.command({"AUTH", m_options.sentinelPassword});
        ++sentinel.ownCommands;
    }
    ++sentinel.ownCommands;
    return sentinel.witness.command(arguments, 10s);
}

qint64 SentinelSet::commandsProcessed()
{
    qint64 sum = 0;
    for (int i = 0; i < int(m_sentinels.size()); ++i) {
        const QByteArray stats = sentinelCommand(i, {"INFO", "stats"}).toByteArray();
        // The reply does not count the INFO command itself.
        const qint64 ownCommands = m_sentinels[size_t(i)]->ownCommands - 1;
        sum += infoField(stats, "total_commands_processed").toLongLong() - ownCommands;
    }
    return sum;
}

} // namespace Support
