// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "faultproxy.h"
#include "redisserver.h"
#include "shiftedclock.h"

#include <memory>
#include <vector>

namespace Support {

/*!
    Independent servers for a quorum, each with its own clock and behind its own FaultProxy. Their order is that of the
    ports of the proxies, as in the canonical spelling of url().

    All functions block, with a time-out. Thread: the one that constructed the object.
*/
class RedisSet
{
public:
    /// \a options: with a TCP port.
    explicit RedisSet(int servers, const RedisServer::Options &options = RedisServer::Options::withTcp());

    bool start();
    QString errorString() const { return m_error; }
    int size() const { return int(m_members.size()); }
    RedisServer &server(int index) { return *m_members[size_t(index)].server; }
    /// That of the server.
    ShiftedClock &clock(int index) { return *m_members[size_t(index)].clock; }
    /// Between the clients and that server.
    FaultProxy &proxy(int index) { return *m_members[size_t(index)].proxy; }

    /// redlock://, through the proxies. \a isPersistent: with persistent=1, so that new servers may vote at once.
    QUrl url(bool isPersistent = true) const;
    /// redlock://, without proxies.
    QUrl directUrl(bool isPersistent = true) const;
    /// redlock:// of servers or proxies on this machine.
    static QUrl urlOf(const QList<quint16> &ports, bool isPersistent = true);

    /// SIGKILL: the server is away, and has lost everything when it is started again.
    void kill(int index);
    /// kill() and start() with the same ports.
    bool restartEmpty(int index);
    /// SIGSTOP: the server still accepts connections and bytes, and answers nothing.
    void pause(int index) { server(index).pause(); }
    void resume(int index) { server(index).resume(); }
    /// Heals the proxies, and continues or starts all servers.
    bool heal();

    void flushAll();
    /// All clients of all servers, see RedisServer::connectedClients().
    int connectedClients();
    /// The values of \a key at the servers; empty where there is none, or the server is away.
    QList<QByteArray> values(const QByteArray &key);
    /// How many of the servers hold \a key.
    int count(const QByteArray &key);
    /// The keys of all servers, but for the fences, which are meant to stay.
    QList<QByteArray> lockKeys();

private:
    struct Member
    {
        std::unique_ptr<ShiftedClock> clock;
        std::unique_ptr<RedisServer> server;
        std::unique_ptr<FaultProxy> proxy;
    };
    std::vector<Member> m_members;
    QString m_error;
};

} // namespace Support
