// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/servername.h"

#include "engine/zookeeper/zookeeperurl.h"
#include "redis/serverurl.h"

#include <QtCore/qregularexpression.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

bool isZooKeeper(const QUrl &server)
{
    return server.scheme() == QLatin1String("zookeeper");
}

QUrl normalizedServer(const QUrl &server)
{
    if (isZooKeeper(server))
        return ZooKeeperUrl::normalized(server);
    if (server.scheme() != QLatin1String("memory"))
        return QtRedis::ServerUrl::normalized(server);
    if (!server.authority().isEmpty() || server.hasQuery() || server.hasFragment())
        return server;
    QUrl normalized;
    normalized.setScheme(server.scheme());
    normalized.setPath(server.path(QUrl::FullyDecoded), QUrl::DecodedMode);
    return normalized;
}

QUrl withoutFinalDots(const QUrl &normalizedServer)
{
    if (isZooKeeper(normalizedServer))
        return normalizedServer; // has none
    return QtRedis::ServerUrl::withoutFinalDots(normalizedServer);
}

QString lockSpace(const QUrl &normalizedServer)
{
    if (QtRedis::ServerUrl::hasNodes(normalizedServer.scheme()) || isZooKeeper(normalizedServer))
        return withoutSecrets(normalizedServer).toString(); // with its nodes
    // A unix: URL has its database in the query; elsewhere the query only names certificates.
    const bool isUnix = normalizedServer.scheme() == QLatin1String("unix");
    return withoutFinalDots(normalizedServer)
            .toString(isUnix ? QUrl::RemoveUserInfo : QUrl::RemoveUserInfo | QUrl::RemoveQuery);
}

bool isSameLockSpace(const QUrl &normalizedServer, const QUrl &other)
{
    return normalizedServer == other || lockSpace(normalizedServer) == lockSpace(other);
}

QUrl withoutSecrets(const QUrl &server)
{
    using QtRedis::ServerUrl;
    return isZooKeeper(server) ? ServerUrl::withoutSecrets(server, ZooKeeperUrl::DefaultPort)
                               : ServerUrl::withoutSecrets(server);
}

QString withoutSecrets(QString text)
{
    // Everything up to the last '@', because a password may have any character, and the scheme may be forgotten.
    static const QRegularExpression userInfo(u"(//|\\bserver\\s*=(?!\\s*[a-z+]+://)).*@"_s,
                                             QRegularExpression::DotMatchesEverythingOption);
    return text.replace(userInfo, u"\\1…@"_s);
}

} // namespace QDistLock
