// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "zookeeperservice.h"

using namespace Qt::StringLiterals;

namespace Chaos {

ZooKeeperService::ZooKeeperService(History *history, const QList<QByteArray> &locks, std::chrono::milliseconds lease)
    : Service(history, locks)
    , m_lease(lease)
{
}

bool ZooKeeperService::start()
{
    if (m_ensemble.start())
        return true;
    qWarning("%ls", qUtf16Printable(m_ensemble.errorString()));
    return false;
}

QList<quint16> ZooKeeperService::linkedPorts() const
{
    return {m_ensemble.port(0), m_ensemble.port(1), m_ensemble.port(2)};
}

QUrl ZooKeeperService::url(const QList<quint16> &linkPorts) const
{
    return QUrl(u"zookeeper://127.0.0.1:%1/chaos?node=127.0.0.1:%2&node=127.0.0.1:%3&session=%4"_s.arg(
            QString::number(linkPorts.at(0)), QString::number(linkPorts.at(1)), QString::number(linkPorts.at(2)),
            QString::number(m_lease.count())));
}

/// The leader lists the ephemeral nodes by session.
QStringList ZooKeeperService::left()
{
    const int leader = m_ensemble.leader();
    const QByteArray nodes = leader < 0 ? QByteArray() : m_ensemble.ask("dump", leader);
    if (!nodes.contains("Sessions with Ephemerals"))
        return {u"no list of nodes"_s};
    QStringList found;
    for (const QByteArray &line : nodes.split('\n')) {
        if (line.trimmed().startsWith("/chaos/"))
            found << u"node "_s + QString::fromLatin1(line.trimmed());
    }
    return found;
}

bool ZooKeeperService::isHealthy()
{
    for (int i = 0; i < m_ensemble.size(); ++i) {
        if (!m_ensemble.ask("srvr", i).contains("Mode: "))
            return false;
    }
    return true;
}

ZooKeeperService::Undo ZooKeeperService::inject(const Fault &fault)
{
    const int leader = m_ensemble.leader();
    const int index = fault.detail % 2 == 0 && leader >= 0 ? leader : fault.detail / 2 % m_ensemble.size();
    if (fault.kind == FaultKind::MasterStopped) {
        m_ensemble.pause(index);
        return [this, index] { m_ensemble.resume(index); };
    }
    m_ensemble.kill(index);
    return [this, index] {
        if (!m_ensemble.start(index))
            qFatal("a server does not start again: %ls", qUtf16Printable(m_ensemble.errorString()));
    };
}

} // namespace Chaos
