// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redisset.h"

#include <algorithm>

using namespace Qt::StringLiterals;

namespace Support {

RedisSet::RedisSet(int servers, const RedisServer::Options &options)
{
    for (int i = 0; i < servers; ++i) {
        auto clock = std::make_unique<ShiftedClock>();
        RedisServer::Options withClock = options;
        withClock.environment += clock->environment();
        m_members.push_back({std::move(clock), std::make_unique<RedisServer>(withClock), nullptr});
    }
}

bool RedisSet::start()
{
    for (Member &member : m_members) {
        if (!member.server->start()) {
            m_error = member.server->errorString();
            return false;
        }
        if (!member.proxy)
            member.proxy = std::make_unique<FaultProxy>(*member.server);
        if (!member.proxy->isListening()) {
            m_error = u"a proxy does not listen"_s;
            return false;
        }
    }
    std::sort(m_members.begin(), m_members.end(),
              [](const Member &left, const Member &right) { return left.proxy->port() < right.proxy->port(); });
    return true;
}

QUrl RedisSet::urlOf(const QList<quint16> &ports, bool isPersistent)
{
    QString url = u"redlock://127.0.0.1:%1"_s.arg(ports.first());
    for (qsizetype i = 1; i < ports.size(); ++i)
        url += QLatin1String(i == 1 ? "?" : "&") + u"node=127.0.0.1:%1"_s.arg(ports.at(i));
    return QUrl(isPersistent ? url + u"&persistent=1"_s : url);
}

QUrl RedisSet::url(bool isPersistent) const
{
    QList<quint16> ports;
    for (const Member &member : m_members)
        ports.append(member.proxy->port());
    return urlOf(ports, isPersistent);
}

QUrl RedisSet::directUrl(bool isPersistent) const
{
    QList<quint16> ports;
    for (const Member &member : m_members)
        ports.append(member.server->port());
    return urlOf(ports, isPersistent);
}

void RedisSet::kill(int index)
{
    server(index).resume();
    server(index).kill();
}

bool RedisSet::restartEmpty(int index)
{
    kill(index);
    return server(index).start();
}

bool RedisSet::heal()
{
    for (Member &member : m_members) {
        member.proxy->heal();
        member.proxy->setServer(*member.server);
        member.server->resume();
    }
    return start();
}

void RedisSet::flushAll()
{
    for (Member &member : m_members)
        member.server->command({"FLUSHALL"});
}

int RedisSet::connectedClients()
{
    int clients = 0;
    for (Member &member : m_members)
        clients += member.server->connectedClients();
    return clients;
}

QList<QByteArray> RedisSet::values(const QByteArray &key)
{
    QList<QByteArray> values;
    for (Member &member : m_members)
        values.append(member.server->isRunning() ? member.server->get(key) : QByteArray());
    return values;
}

int RedisSet::count(const QByteArray &key)
{
    int count = 0;
    for (Member &member : m_members)
        count += member.server->isRunning() && member.server->exists(key) ? 1 : 0;
    return count;
}

QList<QByteArray> RedisSet::lockKeys()
{
    QList<QByteArray> keys;
    for (Member &member : m_members)
        keys += member.server->keys();
    keys.removeIf([](const QByteArray &key) { return key.endsWith(":fence"); });
    return keys;
}

} // namespace Support
