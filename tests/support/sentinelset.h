// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redisserver.h"

#include <QtCore/qset.h>

#include <chrono>
#include <memory>
#include <vector>

namespace Support {

class Certificates;

/*!
    A master, its replicas and their Sentinels, all private and temporary, on free ports of 127.0.0.1. The Sentinels
    work faster than by default: they find each other, and replace a master, within a second or two.

    All functions block, with a time-out. Thread: the one that constructed the object; needs no running event loop.
*/
class SentinelSet
{
public:
    struct Options
    {
        int replicas = 2;
        int sentinels = 3;
        std::chrono::milliseconds downAfter{500};
        QByteArray password = "masters";            ///< of master and replicas; partition() needs one
        QByteArray sentinelPassword = "sentinels";  ///< of the Sentinels
        QList<QByteArray> sentinelUsers;            ///< at the Sentinels, as RedisServer::Options::users
        const Certificates *certificates = nullptr; ///< not null: everything over TLS, url() with ca=
    };

    static QString service() { return QStringLiteral("mymaster"); }

    SentinelSet();
    explicit SentinelSet(const Options &options);
    ~SentinelSet();

    /// True when each Sentinel knows the master, the replicas and the other Sentinels.
    bool start();
    QString errorString() const { return m_error; }

    /// redis+sentinel://… with the Sentinels at \a ports (all, if it is empty), and \a query after the nodes.
    QUrl url(const QString &query = {}, QList<quint16> ports = {}) const;

    int serverCount() const { return int(m_servers.size()); }
    RedisServer &server(int index) { return *m_servers[size_t(index)]; }
    /// The one at \a port; ends the program if there is none.
    RedisServer &serverAt(quint16 port);
    /// Where Sentinel \a index sees the master; 0 if it does not answer.
    quint16 masterPort(int index = 0);
    /// The present master, as Sentinel 0 sees it.
    RedisServer &master() { return serverAt(masterPort()); }
    /// A Sentinel that runs sees the master, or the replica that was promoted, at another port.
    bool isSwitchingFrom(quint16 port);
    /// All Sentinels that run see the master at one port, other than \a port.
    bool hasSwitchedFrom(quint16 port);
    /// Each server but the master is a replica of it, and its link is up. All Sentinels that run have seen that (one
    /// that has not would demote a replica again that is promoted now), and are connected to all that they know.
    bool isHealthy();

    quint16 sentinelPort(int index) const;
    void pauseSentinel(int index);
    void resumeSentinel(int index);
    void killSentinel(int index);
    bool restartSentinel(int index);
    /// Of all Sentinels that run. What they see as down they replace, even if it only waits for a processor.
    void setDownAfter(std::chrono::milliseconds time);
    /// SENTINEL FAILOVER: replaces a master that runs. False if Sentinel 0 refuses.
    bool failOver();
    /// Orders a fail-over from the master at \a port, unless one is under way; true once it cannot fail any more. For
    /// polling: a Sentinel refuses the order while a replica seems to be away, and gives it up if a busy machine
    /// promotes too slowly.
    bool failOverFrom(quint16 port);
    /// Calm Sentinels do not take a connection for dead only because a busy machine has been silent for 1.5 s. In
    /// return they are slow to put things right after a fail-over.
    void setCalm(bool on);
    /// Cuts the present master off from all Sentinels, which replace it and cannot demote it. Clients are not affected.
    void hideMaster();
    /// Cuts the present master and Sentinel 0 off from the other servers and Sentinels. Clients are not affected.
    void partition();
    /// Ends partition() and hideMaster(). The servers that were cut off end all connections.
    void heal();

    QVariant sentinelCommand(int index, const QList<QByteArray> &arguments);
    /// By all Sentinels, which run; without those of sentinelCommand().
    qint64 commandsProcessed();

private:
    Q_DISABLE_COPY_MOVE(SentinelSet)
    struct Sentinel
    {
        QProcess process;
        RespClient witness;
        quint16 port = 0; ///< without TLS
        quint16 tlsPort = 0;
        bool isPaused = false;
        qint64 ownCommands = 0; ///< those of sentinelCommand()
    };

    RedisServer::Options serverOptions() const;
    quint16 portOf(const RedisServer &server) const;
    bool startSentinel(int index);
    bool writeConfig(int index);
    bool isRunning(int index) const;
    /// It knows the master, the other Sentinels and the replicas, and has no doubts about any of them.
    bool hasSeenAll(int index);
    bool hasSeenReplicas(int index);
    bool hasSeenSentinels(int index);
    void signal(int index, int number);
    void lockOut(RedisServer *server, int sentinel);

    const Options m_options;
    QTemporaryDir m_folder;
    std::vector<std::unique_ptr<RedisServer>> m_servers;
    std::vector<std::unique_ptr<Sentinel>> m_sentinels;
    QSet<RedisServer *> m_lockedServers;
    bool m_isPartitioned = false;
    QString m_error;
};

} // namespace Support
