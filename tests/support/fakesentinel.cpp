// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "fakesentinel.h"

#include "resp.h"

#include <QtCore/qrandom.h>

#include <algorithm>

namespace Support {

namespace {

QByteArray encodeNumber(qint64 number)
{
    return Resp::encodeBulk(QByteArray::number(number));
}

QByteArray message(const QByteArray &channel, const QByteArray &payload)
{
    return Resp::encodeCommand({"message", channel, payload});
}

} // namespace

FakeSentinel::FakeSentinel(const View &view, quint16 port)
    : m_view(view)
    , m_id(QByteArray::number(QRandomGenerator::global()->generate64(), 16))
    , m_server([this](const QList<QByteArray> &arguments, int connection) { return answer(arguments, connection); },
               port)
{
}

QByteArray FakeSentinel::id() const
{
    const QMutexLocker locker(&m_idMutex);
    return m_id;
}

void FakeSentinel::setId(const QByteArray &id)
{
    const QMutexLocker locker(&m_idMutex);
    m_id = id;
}

void FakeSentinel::setView(const View &view)
{
    const QMutexLocker locker(&m_mutex);
    m_view = view;
}

FakeSentinel::View FakeSentinel::view() const
{
    const QMutexLocker locker(&m_mutex);
    return m_view;
}

bool FakeSentinel::isListenedTo() const
{
    const QMutexLocker locker(&m_mutex);
    return !m_listeners.isEmpty();
}

int FakeSentinel::questions() const
{
    const QMutexLocker locker(&m_mutex);
    return m_questions;
}

void FakeSentinel::reportSwitch(quint16 from, quint16 to)
{
    const QByteArray payload = view().service + " 127.0.0.1 " + QByteArray::number(from) + " 127.0.0.1 "
            + QByteArray::number(to);
    QSet<int> listeners;
    {
        const QMutexLocker locker(&m_mutex);
        listeners = m_listeners;
    }
    for (const int listener : std::as_const(listeners))
        m_server.push(message("+switch-master", payload), listener);
}

int FakeSentinel::keptAnswers() const
{
    const QMutexLocker locker(&m_mutex);
    return int(m_kept.size());
}

void FakeSentinel::answerKept(int count)
{
    QList<std::pair<int, QByteArray>> kept;
    {
        const QMutexLocker locker(&m_mutex);
        kept = m_kept.first(count);
        m_kept.remove(0, count);
    }
    for (const auto &[connection, bytes] : std::as_const(kept))
        m_server.push(bytes, connection);
}

FakeServer::Answer FakeSentinel::answer(const QList<QByteArray> &arguments, int connection)
{
    const QMutexLocker locker(&m_mutex);
    const QByteArray command = arguments.first().toUpper();
    if (command == "SUBSCRIBE") {
        m_listeners.insert(connection);
        return {"*3\r\n" + Resp::encodeBulk("subscribe") + Resp::encodeBulk(arguments.value(1)) + ":1\r\n"};
    }
    if (command != "SENTINEL")
        return {"-ERR unknown command\r\n"};
    if (m_view.isSilent)
        m_unanswered.insert(connection);
    if (m_unanswered.contains(connection))
        return {};
    const QByteArray bytes = answerToSentinel(arguments);
    if (!m_view.isSlow)
        return {bytes};
    m_kept.append({connection, bytes});
    return {};
}

QByteArray FakeSentinel::answerToSentinel(const QList<QByteArray> &arguments)
{
    const QByteArray subcommand = arguments.value(1).toUpper();
    if (!m_view.error.isEmpty())
        return m_view.error;
    if (subcommand == "MYID")
        return Resp::encodeBulk(id());
    if (arguments.value(2) != m_view.service)
        return "-ERR No such master with that name\r\n";
    if (subcommand == "MASTER")
        ++m_questions;
    return answerAboutService(subcommand);
}

QByteArray FakeSentinel::answerAboutService(const QByteArray &subcommand) const
{
    if (subcommand == "GET-MASTER-ADDR-BY-NAME") {
        return "*2\r\n" + Resp::encodeBulk(m_view.host)
                + encodeNumber(m_view.promoted == 0 ? m_view.port : m_view.promoted);
    }
    if (subcommand == "SENTINELS") {
        QByteArray list = '*' + QByteArray::number(m_view.listed.size()) + "\r\n";
        for (const FakeSentinel *other : m_view.listed) {
            list += Resp::encodeCommand({"name", other->id(), "ip", "127.0.0.1", "port",
                                         QByteArray::number(other->port()), "runid", other->id()});
        }
        return list;
    }
    const qsizetype others = std::max<qsizetype>(m_view.others, m_view.listed.size());
    return Resp::encodeCommand({"name", m_view.service, "ip", m_view.host, "port", QByteArray::number(m_view.port),
                                "flags", m_view.flags, "down-after-milliseconds", QByteArray::number(m_view.downAfter),
                                "config-epoch", QByteArray::number(m_view.epoch), "num-other-sentinels",
                                QByteArray::number(others)});
}

} // namespace Support
