// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "servers.h"

#include <QtCore/QCoreApplication>
#include <QtCore/QFile>
#include <QtCore/QTimer>
#include <QtNetwork/QTcpServer>
#include <QtNetwork/QTcpSocket>

#include <algorithm>
#include <chrono>
#include <utility>

#ifdef Q_OS_LINUX
#  include <csignal>
#  include <sys/prctl.h>
#endif

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

static constexpr int ServerCount = 3;
static constexpr int SentinelCount = 3;
static constexpr std::chrono::milliseconds StartTimeout = 30s;

static QList<quint16> freePorts(int count)
{
    QList<quint16> ports;
    std::vector<std::unique_ptr<QTcpServer>> listeners; // all at the same time, so that no port is found twice
    while (ports.size() < count) {
        listeners.push_back(std::make_unique<QTcpServer>());
        listeners.back()->listen(QHostAddress::LocalHost, 0);
        ports.append(listeners.back()->serverPort());
    }
    return ports;
}

/// The value that follows \a name in the reply to SENTINEL MASTER: the lines are "$10", "num-slaves", "$1", "2", …
static int fieldOf(const QByteArray &reply, const QByteArray &name)
{
    const QList<QByteArray> lines = reply.split('\n');
    const qsizetype position = lines.indexOf(name + '\r');
    return position < 0 ? -1 : lines.value(position + 2).trimmed().toInt();
}

Servers::Servers(const QString &program)
    : m_program(program)
    , m_ports(freePorts(ServerCount + SentinelCount))
{
}

QUrl Servers::url() const
{
    return QUrl(u"redis+sentinel://127.0.0.1:%1/mymaster?node=127.0.0.1:%2&node=127.0.0.1:%3"_s.arg(m_ports[3])
                        .arg(m_ports[4])
                        .arg(m_ports[5]));
}

void Servers::start()
{
    m_sinceStart.start();
    for (int i = 0; i < ServerCount; ++i) {
        QStringList arguments{u"--port"_s,
                              QString::number(m_ports[i]),
                              u"--bind"_s,
                              u"127.0.0.1"_s,
                              u"--save"_s,
                              QString(),
                              u"--dir"_s,
                              m_folder.path(),
                              u"--repl-diskless-sync-delay"_s,
                              u"0"_s};
        if (i > 0)
            arguments += {u"--replicaof"_s, u"127.0.0.1 %1"_s.arg(masterPort())};
        startProcess(arguments);
    }
    askLater();
}

void Servers::startSentinels()
{
    for (int i = 0; i < SentinelCount; ++i) {
        QFile file(m_folder.filePath(u"sentinel%1.conf"_s.arg(i))); // a Sentinel keeps its state in its configuration
        if (!file.open(QIODevice::WriteOnly))
            return fail(file.errorString());
        file.write("port " + QByteArray::number(m_ports[ServerCount + i]) + "\nbind 127.0.0.1\ndir \""
                   + QFile::encodeName(m_folder.path()) + "\"\nsentinel monitor mymaster 127.0.0.1 "
                   + QByteArray::number(masterPort())
                   + " 2\nsentinel down-after-milliseconds mymaster 1000\n"
                     "sentinel failover-timeout mymaster 3000\n");
        file.close();
        startProcess({file.fileName(), u"--sentinel"_s});
    }
}

void Servers::startProcess(const QStringList &arguments)
{
    m_processes.push_back(std::make_unique<QProcess>());
    QProcess *const process = m_processes.back().get();
    process->setStandardOutputFile(QProcess::nullDevice());
    process->setStandardErrorFile(QProcess::nullDevice());
#ifdef Q_OS_LINUX
    process->setChildProcessModifier([] { ::prctl(PR_SET_PDEATHSIG, SIGKILL); }); // even if this program is killed
#endif
    connect(process, &QProcess::stateChanged, this, [this, process](QProcess::ProcessState state) {
        if (state == QProcess::NotRunning)
            processEnded(process);
    });
    process->start(m_program, arguments);
}

void Servers::processEnded(QProcess *process)
{
    const bool isMaster = process == m_processes.front().get();
    const bool anyRuns = std::any_of(m_processes.cbegin(), m_processes.cend(),
                                     [](const auto &other) { return other->state() != QProcess::NotRunning; });
    if (m_isEnding && !anyRuns)
        Q_EMIT stopped();
    else if (!m_isEnding && !isMaster)
        fail(u"%1 does not run: %2"_s.arg(m_program, process->errorString()));
}

void Servers::killMaster()
{
    m_processes.front()->kill();
}

void Servers::stop()
{
    m_isEnding = true;
    bool anyRuns = false;
    for (const auto &process : m_processes) {
        anyRuns |= process->state() != QProcess::NotRunning;
        process->kill();
    }
    if (!anyRuns)
        QTimer::singleShot(0, this, &Servers::stopped);
}

void Servers::fail(const QString &why)
{
    m_isEnding = true; // fails once
    Q_EMIT failed(why);
}

// Waiting until all of them have found each other

/// Opens a connection for this command. \a reply is empty if there is no server.
void Servers::ask(quint16 port, const QByteArray &command, std::function<void(const QByteArray &reply)> handler)
{
    auto *const socket = new QTcpSocket(this);
    const auto end = [socket, handler = std::move(handler)] {
        socket->disconnect();
        socket->deleteLater();
        handler(socket->readAll());
    };
    connect(socket, &QTcpSocket::errorOccurred, this, end);
    connect(socket, &QTcpSocket::readyRead, this, [socket, end] {
        if (socket->peek(socket->bytesAvailable()).endsWith("+PONG\r\n"))
            end();
    });
    socket->connectToHost(QHostAddress(QHostAddress::LocalHost), port);
    socket->write(command + "\r\nPING\r\n"); // buffered until the connection is up; the PONG ends the reply
}

void Servers::askLater()
{
    if (m_isEnding)
        return;
    if (m_sinceStart.hasExpired(StartTimeout.count()))
        return fail(u"the servers did not find each other in time"_s);
    QTimer::singleShot(200ms, this, &Servers::check);
}

void Servers::check()
{
    if (m_checked < ServerCount) {
        ask(masterPort(), "INFO replication", [this](const QByteArray &reply) {
            if (reply.count("state=online") == ServerCount - 1) {
                m_checked = ServerCount;
                startSentinels();
            }
            askLater();
        });
        return;
    }
    ask(m_ports[m_checked], "SENTINEL MASTER mymaster", [this](const QByteArray &reply) {
        const bool isComplete = fieldOf(reply, "num-slaves") == ServerCount - 1
                && fieldOf(reply, "num-other-sentinels") == SentinelCount - 1;
        if (!isComplete)
            return askLater();
        listen(m_ports[m_checked]);
        if (++m_checked < ServerCount + SentinelCount)
            return check();
        Q_EMIT ready();
    });
}

void Servers::listen(quint16 port)
{
    auto *const socket = new QTcpSocket(this);
    connect(socket, &QTcpSocket::readyRead, this, [this, socket] {
        while (socket->canReadLine()) {
            // mymaster <old address> <old port> <new address> <new port>
            const QList<QByteArray> words = socket->readLine().trimmed().split(' ');
            if (words.size() == 5 && !std::exchange(m_isSwitched, true))
                Q_EMIT switched(words.last().toUShort());
        }
    });
    socket->connectToHost(QHostAddress(QHostAddress::LocalHost), port);
    socket->write("SUBSCRIBE +switch-master\r\n");
}
