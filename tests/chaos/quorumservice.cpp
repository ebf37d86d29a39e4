// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "quorumservice.h"

#include "history.h"

#include "support/posix.h"

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace Chaos {

namespace {

constexpr int LongestShift = 50; // ms

} // namespace

QuorumService::QuorumService(History *history, const QList<QByteArray> &locks, milliseconds lease)
    : Service(history, locks)
    , m_lease(lease)
{
    m_set.clock(0).shift(milliseconds(LongestShift));
    m_set.clock(2).shift(milliseconds(-LongestShift));
}

bool QuorumService::start()
{
    if (!m_set.start()) {
        qWarning("%ls", qUtf16Printable(m_set.errorString()));
        return false;
    }
    waitForVotes();
    while (!m_votesCountFrom.hasExpired()) // nobody can acquire a lock before
        Support::Posix::pollPause();
    return true;
}

/// A server has no vote for a lease after its start; then holders that it has forgotten put their locks there again.
void QuorumService::waitForVotes()
{
    m_votesCountFrom.setRemainingTime(2 * m_lease + 1s);
}

QList<quint16> QuorumService::linkedPorts() const
{
    QList<quint16> ports;
    for (int i = 0; i < m_set.size(); ++i)
        ports.append(m_set.server(i).port());
    return ports;
}

QUrl QuorumService::url(const QList<quint16> &linkPorts) const
{
    return QUrl(u"redlock://127.0.0.1:%1?node=127.0.0.1:%2&node=127.0.0.1:%3"_s.arg(
            QString::number(linkPorts.at(0)), QString::number(linkPorts.at(1)), QString::number(linkPorts.at(2))));
}

QList<Support::RedisServer *> QuorumService::servers()
{
    QList<Support::RedisServer *> servers;
    for (int i = 0; i < m_set.size(); ++i)
        servers.append(&m_set.server(i));
    return servers;
}

QuorumService::Undo QuorumService::inject(const Fault &fault)
{
    const int index = fault.detail % m_set.size();
    if (fault.kind == FaultKind::MasterStopped)
        m_set.pause(index);
    else
        m_set.kill(index);
    m_set.clock(index).shift(milliseconds(fault.detail % (2 * LongestShift + 1) - LongestShift));
    const qint64 killed = bootTime();
    return [this, index, killed, kind = fault.kind] {
        m_set.resume(index);
        if (!m_set.server(index).start())
            qFatal("a server does not start again: %ls", qUtf16Printable(m_set.server(index).errorString()));
        waitForVotes();
        if (kind != FaultKind::MasterKilled)
            return;
        // A holder with a bare majority may lose it. Nobody else may hold it at the same time.
        for (const QByteArray &lock : locks()) {
            history()->append(Event(bootTime(), "nemesis", lock, "key", "info")
                                      .with("lostBy", QByteArray(nameOf(kind)))
                                      .with("minority", true)
                                      .with("from", killed)
                                      .with("to", bootTime()));
        }
    };
}

} // namespace Chaos
