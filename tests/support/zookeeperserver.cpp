// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/zookeeperserver.h"

#include "support/childprocess.h"
#include "support/posix.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qdir.h>
#include <QtCore/qfile.h>
#include <QtCore/qstandardpaths.h>

#include <chrono>
#include <csignal>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

namespace Support {

namespace {

const auto Jar = u"/usr/share/java/zookeeper.jar"_s;

} // namespace

ZooKeeperServer::ZooKeeperServer(int size)
    : m_members(size_t(size))
{
    for (Member &member : m_members) {
        member.port = Posix::freePort();
        member.quorumPort = Posix::freePort();
        member.electionPort = Posix::freePort();
    }
}

ZooKeeperServer::~ZooKeeperServer()
{
    for (int i = 0; i < size(); ++i)
        kill(i);
}

bool ZooKeeperServer::isInstalled()
{
    return QFile::exists(Jar) && !QStandardPaths::findExecutable(u"java"_s).isEmpty();
}

bool ZooKeeperServer::start()
{
    for (int i = 0; i < size(); ++i) {
        if (!launch(i))
            return false;
    }
    for (int i = 0; i < size(); ++i) {
        if (!waitUntilServing(i))
            return false;
    }
    return true;
}

bool ZooKeeperServer::start(int index)
{
    return launch(index) && waitUntilServing(index);
}

bool ZooKeeperServer::launch(int index)
{
    Member &member = m_members[size_t(index)];
    if (member.process)
        return true;
    QDir().mkpath(folder(index));
    QByteArray settings = "tickTime=100\nmaxSessionTimeout=3600000\ninitLimit=50\nsyncLimit=20\nmaxClientCnxns=0\n"
                          "admin.enableServer=false\n4lw.commands.whitelist=*\nforceSync=no\n"
                          "clientPortAddress=127.0.0.1\n";
    settings += "dataDir=" + QFile::encodeName(folder(index)) + "\nclientPort=" + QByteArray::number(member.port)
            + '\n';
    for (int i = 0; size() > 1 && i < size(); ++i) {
        const Member &other = m_members[size_t(i)];
        settings += "server." + QByteArray::number(i + 1) + "=127.0.0.1:" + QByteArray::number(other.quorumPort) + ':'
                + QByteArray::number(other.electionPort) + '\n';
    }
    const auto write = [&](const QString &name, const QByteArray &text) {
        QFile file(folder(index) + u'/' + name);
        return file.open(QIODevice::WriteOnly) && file.write(text) == text.size();
    };
    if (!write(u"zoo.cfg"_s, settings) || !write(u"myid"_s, QByteArray::number(index + 1))) {
        m_error = u"cannot write to "_s + folder(index);
        return false;
    }
    member.process = std::make_unique<QProcess>();
    setDiesWithParent(member.process.get());
    member.process->setProcessChannelMode(QProcess::MergedChannels);
    member.process->setStandardOutputFile(folder(index) + u"/output"_s);
    member.process->start(u"java"_s,
                          {u"-Xmx128m"_s, u"-XX:+UseSerialGC"_s, u"-XX:TieredStopAtLevel=1"_s,
                           u"-Dznode.container.checkIntervalMs=1000"_s, u"-cp"_s, Jar,
                           u"org.apache.zookeeper.server.quorum.QuorumPeerMain"_s, folder(index) + u"/zoo.cfg"_s});
    if (member.process->waitForStarted())
        return true;
    m_error = member.process->errorString();
    member.process.reset();
    return false;
}

bool ZooKeeperServer::waitUntilServing(int index)
{
    for (const QDeadlineTimer end(60s); !end.hasExpired(); Posix::pollPause()) {
        if (ask("srvr", index).contains("Mode: "))
            return true;
    }
    m_error = u"server %1 does not serve"_s.arg(index);
    return false;
}

void ZooKeeperServer::kill(int index)
{
    Member &member = m_members[size_t(index)];
    if (!member.process)
        return;
    member.process->kill();
    member.process->waitForFinished();
    member.process.reset();
}

void ZooKeeperServer::pause(int index)
{
    const auto process = id_t(m_members[size_t(index)].process->processId());
    ::kill(pid_t(process), SIGSTOP);
    // Until one of its threads has had the time to notice, the others run on.
    siginfo_t info = {};
    ::waitid(P_PID, process, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL);
}

void ZooKeeperServer::resume(int index)
{
    ::kill(pid_t(m_members[size_t(index)].process->processId()), SIGCONT);
}

QByteArray ZooKeeperServer::ask(const QByteArray &command, int index) const
{
    const auto deadline = std::chrono::steady_clock::now() + 2s;
    const int socket = Posix::connectTcp(port(index));
    QByteArray answer;
    if (socket >= 0 && Posix::waitFor(socket, POLLOUT, deadline) && Posix::socketError(socket) == 0
        && ::write(socket, command.constData(), size_t(command.size())) == command.size()) {
        char bytes[4096];
        while (Posix::waitFor(socket, POLLIN, deadline)) {
            const auto count = ::read(socket, bytes, sizeof(bytes));
            if (count <= 0)
                break;
            answer.append(bytes, qsizetype(count));
        }
    }
    if (socket >= 0)
        ::close(socket);
    return answer;
}

int ZooKeeperServer::leader() const
{
    for (int i = 0; i < size(); ++i) {
        const QByteArray answer = m_members[size_t(i)].process ? ask("srvr", i) : QByteArray();
        if (answer.contains("Mode: leader") || answer.contains("Mode: standalone"))
            return i;
    }
    return -1;
}

} // namespace Support
