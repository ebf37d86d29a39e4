// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/endpoint.h"

#include <QtCore/qlist.h>
#include <QtCore/qstring.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qurl.h>

#include <optional>

namespace QtRedis {

/*!
    The address of a Redis server and the login, strictly parsed from redis://, rediss:// and unix:// URLs; or a service
    and the addresses of the Sentinels that know its master, from redis+sentinel:// and rediss+sentinel:// URLs; or some
    nodes of a Redis Cluster, from redis+cluster:// and rediss+cluster:// URLs; or all servers of a quorum, from
    redlock:// and redlocks:// URLs. Thread: a plain value.
*/
struct ServerUrl
{
    enum Scheme { Tcp, Tls, Unix };

    Scheme scheme = Tcp;
    QString host;
    quint16 port = 6379;
    QString path; ///< of a Unix socket
    int database = 0;
    QString user;     ///< percent-decoded
    QString password; ///< percent-decoded; where the URL has none, what readPassword() has read
    /// The environment variable of the password, where the URL has none. With _FILE behind its name, the variable of a
    /// file that contains the password.
    const char *passwordVariable = nullptr;
    QString caFile, certificateFile, keyFile;
    bool usesScripts = true; ///< false: scripts=off

    /// Not empty: the server is meant to be the master of this service. While there are `sentinels`, its address is not
    /// known, and host and port are those of the first Sentinel.
    QString service;
    QList<Endpoint> sentinels;
    QString sentinelUser;
    QString sentinelPassword;   ///< as `password`, from QDISTLOCK_SENTINEL_PASSWORD
    bool confirmsMaster = true; ///< confirm=majority
    bool isSentinel = false;    ///< the address is that of a Sentinel, see atSentinel()

    /// Not empty: the nodes of a cluster that the URL names. Host and port are those of the first.
    QList<Endpoint> clusterNodes;

    /// Not empty: the independent servers of a quorum. Host and port are those of the first.
    QList<Endpoint> quorumNodes;
    bool isPersistent = false; ///< persistent=1: a server that is restarted still has what it had confirmed
    static constexpr qsizetype SmallestQuorum = 3;
    static constexpr qsizetype LargestQuorum = 7;

    /// To be called for each login, because a password may be replaced while the program runs. False, with \a error set
    /// to a clause, if there is a file and it cannot be used. Without both variables, the password is left as it is.
    bool readPassword(QString *error);

    Endpoint endpoint() const { return {host, port}; }
    /// The master of the service, whose address is \a endpoint.
    ServerUrl atMaster(const Endpoint &endpoint) const;
    /// One of the service's Sentinels, with their login.
    ServerUrl atSentinel(const Endpoint &endpoint) const;
    /// The node of the cluster, or server of the quorum, at \a endpoint.
    ServerUrl atNode(const Endpoint &endpoint) const;

    /// nullopt, with \a error set, for an invalid URL. The error shows the URL and names the part that is wrong, but
    /// never user name or password; it also lists \a otherSchemes, which the caller accepts.
    static std::optional<ServerUrl> parse(const QUrl &url, QString *error, const QStringList &otherSchemes = {});
    static bool isService(const QString &scheme);
    static bool isCluster(const QString &scheme);
    static bool isQuorum(const QString &scheme);
    /// The URL may name several nodes.
    static bool hasNodes(const QString &scheme) { return isService(scheme) || isCluster(scheme) || isQuorum(scheme); }
    /// \a url, in the form of normalized(), with Endpoint::name() instead of each host.
    static QUrl withoutFinalDots(const QUrl &url);
    /// \a url without user name, password, query and final dots, but with the nodes in it, fit for logs. If its parts
    /// cannot be separated reliably, because of an unescaped '/' in the password for instance, only the scheme remains.
    static QUrl withoutSecrets(const QUrl &url);
    /// The same for the URL of another kind of server, whose nodes have \a nodePort unless they name one.
    static QUrl withoutSecrets(const QUrl &url, int nodePort);
    /// The canonical spelling of \a url: equal for all URLs with the same result of parse(), whatever the order of the
    /// nodes. It contains the port, but neither the database 0 nor a password from the environment. A URL that cannot
    /// be used is returned unchanged.
    static QUrl normalized(const QUrl &url);
    /// Fit for logs and errors: "redis://host:6379/0", "redis+sentinel://host:26379/service/0",
    /// "redis+cluster://host:6379", "redlock://host1:6379?node=host2:6379&node=host3:6379".
    QString toDisplayString() const;
    /// An error text of the server, made fit for logs and errors: user name and password are replaced. The error code,
    /// which is the first word if it is in capital letters, remains.
    QString shown(const QByteArray &serverText) const;
};

} // namespace QtRedis
