// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redisserver.h"

#include "certificates.h"
#include "childprocess.h"
#include "posix.h"

#include <QtCore/qdir.h>
#include <QtCore/qfile.h>
#include <QtCore/qrandom.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qurlquery.h>

#include <algorithm>

#include <signal.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;

namespace Support {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto startTimeout = 20s;
constexpr auto lookTimeout = 20s;
const QByteArray witnessName = QByteArrayLiteral("support-witness");

QByteArray quoted(const QString &path)
{
    QByteArray text = QFile::encodeName(path);
    text.replace('\\', "\\\\").replace('"', "\\\"");
    return '"' + text + '"';
}

// Such commands do not count as calls.
bool wasRejected(const QVariant &reply)
{
    static const QList<QByteArray> codes = {"-ERR unknown", "-ERR wrong number", "-NOPERM",  "-NOAUTH",
                                            "-OOM",         "-READONLY",         "-LOADING", "-BUSY",
                                            "-MASTERDOWN",  "-NOREPLICAS",       "-MISCONF", "-WITNESS"};
    const QByteArray text = reply.toByteArray();
    return isError(reply)
            && std::any_of(codes.begin(), codes.end(), [&](const QByteArray &code) { return text.startsWith(code); });
}

[[noreturn]] void cannotLook(const char *why, const QList<QByteArray> &command, const QByteArray &reason)
{
    qInstallMessageHandler(nullptr); // the test's own may keep messages to itself
    qFatal("%s \"%s\": %s", why, command.join(' ').constData(), reason.constData());
}

QList<QByteArray> sortedStrings(const QVariant &reply)
{
    QList<QByteArray> strings;
    const QVariantList list = reply.toList();
    for (const QVariant &element : list)
        strings.append(element.toByteArray());
    std::sort(strings.begin(), strings.end());
    return strings;
}

} // namespace

QString RedisServer::serverProgram()
{
    return qEnvironmentVariable("QDISTLOCK_TEST_SERVER", u"redis-server"_s);
}

QString RedisServer::cliProgram()
{
    return serverProgram().replace(QRegularExpression(u"server$"_s), u"cli"_s);
}

RedisServer::Options RedisServer::Options::withTcp()
{
    Options options;
    options.tcp = true;
    return options;
}

RedisServer::Options RedisServer::Options::withTls(const Certificates &certificates)
{
    Options options = withTcp();
    options.tls = true;
    options.certificateFile = certificates.server().certificate;
    options.keyFile = certificates.server().key;
    options.caFile = certificates.ca();
    return options;
}

RedisServer::RedisServer()
    : RedisServer(Options())
{
}

RedisServer::RedisServer(const Options &options)
    : m_options(options)
    , m_folder(QDir::tempPath() + QLatin1String("/qdl-XXXXXX"))
{
    QByteArray random(16, Qt::Uninitialized);
    for (char &byte : random)
        byte = static_cast<char>(QRandomGenerator::system()->bounded(256));
    m_witnessPassword = random.toHex();
    setDiesWithParent(&m_process);
}

RedisServer::~RedisServer()
{
    kill();
}

bool RedisServer::start()
{
    if (isRunning())
        return true;
    const auto deadline = Clock::now() + startTimeout;
    const bool keepsPorts = m_port || m_tlsPort;
    for (;;) {
        if (!keepsPorts) {
            m_port = m_options.tcp ? Posix::freePort() : 0;
            do {
                m_tlsPort = m_options.tls ? Posix::freePort() : 0;
            } while (m_tlsPort && m_tlsPort == m_port);
        }
        switch (attemptStart()) {
        case Attempt::Started:
            return true;
        case Attempt::Failed:
            kill();
            qWarning("redis-server did not start: %ls", qUtf16Printable(m_error));
            return false;
        case Attempt::AddressInUse:
            if (Clock::now() > deadline) {
                qWarning("redis-server did not start: %ls", qUtf16Printable(m_error));
                return false;
            }
            Posix::pollPause();
        }
    }
}

RedisServer::Attempt RedisServer::attemptStart()
{
    m_error.clear();
    m_witness.close();
    m_ownCalls.clear();
    m_logStart = log().size();
    if (!writeConfig())
        return Attempt::Failed;
    m_process.setStandardOutputFile(logPath(), QIODevice::Append);
    m_process.setProcessChannelMode(QProcess::MergedChannels);
    m_process.setEnvironment(QProcess::systemEnvironment() + m_options.environment);
    m_process.start(serverProgram(), {m_folder.filePath(u"redis.conf"_s)});
    if (!m_process.waitForStarted()) {
        m_error = m_process.errorString();
        return Attempt::Failed;
    }
    const auto deadline = Clock::now() + startTimeout;
    while (Clock::now() < deadline) {
        if (!isRunning()) {
            const QByteArray output = log().sliced(m_logStart);
            m_error = QString::fromLocal8Bit(output);
            return output.contains("Address already in use") ? Attempt::AddressInUse : Attempt::Failed;
        }
        const QVariant pong = command({"PING"}, 1s);
        if (pong.toByteArray() == "PONG")
            return Attempt::Started;
        m_error = QString::fromUtf8(pong.toByteArray());
        Posix::pollPause();
    }
    m_error = u"no answer to PING in time: "_s + m_error;
    return Attempt::Failed;
}

bool RedisServer::writeConfig()
{
    QList<QByteArray> lines = {
            "unixsocket " + quoted(socketPath()),
            "unixsocketperm 700",
            "bind 127.0.0.1",
            "port " + QByteArray::number(m_port),
            "dir " + quoted(m_folder.path()),
            "daemonize no",
            "save \"\"",
            m_options.appendOnly ? "appendonly yes" : "appendonly no",
            "appendfsync always",
            "latency-monitor-threshold 0",
            "enable-debug-command local",
            "repl-diskless-sync yes",
            "repl-diskless-sync-delay 0",
    };
    if (m_options.tls) {
        lines += {
                "tls-port " + QByteArray::number(m_tlsPort),
                "tls-cert-file " + quoted(m_options.certificateFile),
                "tls-key-file " + quoted(m_options.keyFile),
                m_options.requireClientCertificate ? "tls-auth-clients yes" : "tls-auth-clients no",
        };
        if (!m_options.caFile.isEmpty())
            lines += "tls-ca-cert-file " + quoted(m_options.caFile);
    }
    if (!m_options.password.isEmpty())
        lines += "requirepass " + m_options.password;
    lines += "user " + witnessName + " on >" + m_witnessPassword + " ~* &* +@all";
    for (const QByteArray &rule : std::as_const(m_options.users))
        lines += "user " + rule;
    if (m_options.replicaOf)
        lines += "replicaof 127.0.0.1 " + QByteArray::number(m_options.replicaOf->port());
    lines += m_options.config;

    QFile file(m_folder.filePath(u"redis.conf"_s));
    const QByteArray text = lines.join('\n') + '\n';
    if (!m_folder.isValid() || !file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.flush()) {
        m_error = m_folder.isValid() ? file.errorString() : m_folder.errorString();
        return false;
    }
    return true;
}

void RedisServer::stop()
{
    if (isRunning()) {
        resume();
        m_process.terminate();
        m_process.waitForFinished(10'000);
    }
    kill();
}

void RedisServer::kill()
{
    m_witness.close();
    m_isPaused = false;
    if (m_process.state() == QProcess::NotRunning)
        return;
    m_process.kill();
    m_process.waitForFinished();
}

bool RedisServer::restart()
{
    stop();
    return start();
}

void RedisServer::pause()
{
    signal(SIGSTOP);
    m_isPaused = isRunning();
}

void RedisServer::resume()
{
    signal(SIGCONT);
    m_isPaused = false;
}

void RedisServer::signal(int number)
{
    if (isRunning())
        ::kill(static_cast<pid_t>(m_process.processId()), number);
}

bool RedisServer::isRunning()
{
    if (m_process.state() == QProcess::NotRunning)
        return false;
    m_process.waitForFinished(0); // takes notice of an end that no event loop has seen yet
    return m_process.state() == QProcess::Running;
}

QUrl RedisServer::url() const
{
    return QUrl(QLatin1String("unix://") + QString::fromLatin1(QUrl::toPercentEncoding(socketPath(), "/")));
}

QUrl RedisServer::tcpUrl() const
{
    return QUrl(u"redis://127.0.0.1:%1"_s.arg(m_port));
}

QUrl RedisServer::tlsUrl() const
{
    QUrl url(u"rediss://localhost:%1"_s.arg(m_tlsPort));
    if (!m_options.caFile.isEmpty()) {
        QUrlQuery query;
        query.addQueryItem(u"ca"_s, m_options.caFile);
        url.setQuery(query);
    }
    return url;
}

QString RedisServer::socketPath() const
{
    return m_folder.filePath(u"redis.sock"_s);
}

QVariant RedisServer::command(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout)
{
    if (!m_witness.isConnected()) {
        if (!m_witness.connectToUnix(socketPath()))
            return QVariant::fromValue(RedisError{"-WITNESS " + m_witness.errorString().toUtf8()});
        const QVariant reply = runCommand({m_options.loginCommand, witnessName, m_witnessPassword}, timeout);
        if (isError(reply)) {
            m_witness.close();
            return reply;
        }
    }
    return runCommand(arguments, timeout);
}

QVariant RedisServer::runCommand(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout)
{
    const QVariant reply = m_witness.command(arguments, timeout);
    if (!wasRejected(reply))
        ++m_ownCalls[(arguments.first() + '|' + arguments.value(1)).toLower()];
    return reply;
}

QVariant RedisServer::look(const QList<QByteArray> &arguments)
{
    const QVariant reply = command(arguments, lookTimeout);
    if (!isError(reply))
        return reply;
    const QByteArray text = reply.toByteArray();
    cannotLook(text.startsWith("-WITNESS") ? "redis-server cannot be asked" : "redis-server refused", arguments, text);
}

QByteArray RedisServer::cli(const QList<QByteArray> &arguments, std::chrono::milliseconds timeout)
{
    QStringList list = {u"-s"_s,
                        socketPath(),
                        u"--no-auth-warning"_s,
                        u"--user"_s,
                        QString::fromLatin1(witnessName),
                        u"--pass"_s,
                        QString::fromLatin1(m_witnessPassword)};
    for (const QByteArray &argument : arguments)
        list += QString::fromUtf8(argument);
    QProcess process;
    setDiesWithParent(&process);
    process.setProcessChannelMode(QProcess::ForwardedErrorChannel);
    process.start(cliProgram(), list);
    process.closeWriteChannel();
    const bool finished = process.waitForFinished(static_cast<int>(timeout.count()));
    if (!finished || process.exitStatus() != QProcess::NormalExit || process.exitCode() != 0)
        cannotLook("redis-cli failed at", arguments, process.errorString().toLocal8Bit());
    QByteArray output = process.readAllStandardOutput();
    if (output.endsWith('\n'))
        output.chop(1);
    return output;
}

QList<QByteArray> RedisServer::keys(const QByteArray &pattern)
{
    return sortedStrings(look({"KEYS", pattern}));
}

QByteArray infoField(const QByteArray &info, const QByteArray &field)
{
    const QList<QByteArray> lines = info.split('\n');
    for (const QByteArray &line : lines) {
        if (line.startsWith(field + ':'))
            return line.sliced(field.size() + 1).trimmed();
    }
    return QByteArray();
}

QByteArray RedisServer::info(const QByteArray &section, const QByteArray &field)
{
    return infoField(look({"INFO", section}).toByteArray(), field);
}

QHash<QByteArray, qint64> RedisServer::commandCalls()
{
    // The reply does not count the INFO command itself.
    const QVariant reply = look({"INFO", "commandstats"});
    QHash<QByteArray, qint64> calls;
    const QList<QByteArray> lines = reply.toByteArray().split('\n');
    for (const QByteArray &line : lines) {
        // cmdstat_client|id:calls=1,usec=2,…
        const qsizetype colon = line.indexOf(":calls=");
        if (!line.startsWith("cmdstat_") || colon < 0)
            continue;
        const qsizetype number = colon + 7;
        calls.insert(line.sliced(8, colon - 8), line.sliced(number, line.indexOf(',', number) - number).toLongLong());
    }
    for (auto own = m_ownCalls.cbegin(); own != m_ownCalls.cend(); ++own) {
        const QByteArray command = own.key().left(own.key().indexOf('|'));
        const QByteArray name = calls.contains(own.key()) ? own.key() : command;
        const bool isThisOne = own.key() == "info|commandstats";
        if (calls.contains(name))
            calls[name] -= own.value() - (isThisOne ? 1 : 0);
    }
    calls.removeIf([](const auto &entry) { return entry.value() <= 0; });
    return calls;
}

qint64 RedisServer::commandsProcessed()
{
    qint64 sum = 0;
    const QHash<QByteArray, qint64> calls = commandCalls();
    for (const qint64 count : calls)
        sum += count;
    return sum;
}

int RedisServer::connectedClients()
{
    return info("clients", "connected_clients").toInt() - 1;
}

int RedisServer::subscriberCount(const QByteArray &channel)
{
    return look({"PUBSUB", "NUMSUB", channel}).toList().value(1).toInt();
}

QList<QByteArray> RedisServer::channels()
{
    QList<QByteArray> channels = sortedStrings(look({"PUBSUB", "CHANNELS"}));
    channels.removeIf([](const QByteArray &channel) { return channel.endsWith(":monitor"); });
    return channels;
}

QString RedisServer::logPath() const
{
    return m_folder.filePath(u"redis.log"_s);
}

QByteArray RedisServer::log() const
{
    QFile file(logPath());
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

bool RedisServer::waitForLog(const QByteArray &text, std::chrono::milliseconds timeout)
{
    const auto deadline = Clock::now() + timeout;
    for (;;) {
        if (log().indexOf(text, m_logStart) >= 0)
            return true;
        if (Clock::now() > deadline)
            return false;
        Posix::pollPause();
    }
}

bool RedisServer::waitUntilReplicated(int replicas, std::chrono::milliseconds timeout)
{
    // From Redis 7.2 on, and in Valkey, WAIT waits only for what its own connection has written. So this one writes
    // something: a message, which is replicated, and changes no key.
    look({"PUBLISH", witnessName, "replicated"});
    const QByteArray count = QByteArray::number(replicas);
    const QVariant reply = command({"WAIT", count, QByteArray::number(qint64(timeout.count()))}, timeout + lookTimeout);
    return reply.toLongLong() >= replicas;
}

} // namespace Support
