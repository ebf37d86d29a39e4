// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/zookeeper/zookeeperurl.h"

#include "engine/servername.h"
#include "engine/zookeeper/nodepath.h"
#include "redis/serverurl.h"

#include <QtCore/qurlquery.h>

#include <algorithm>
#include <utility>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;
using QtRedis::Endpoint;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr int ShortestSession = 100;
constexpr int LongestSession = 24 * 3600 * 1000;

/// "host", "host:port", "[address]:port"
std::optional<Endpoint> parseNode(const QString &text)
{
    const QUrl url(u"zookeeper://"_s + text, QUrl::StrictMode);
    const bool isOnlyAddress = url.isValid() && url.path().isEmpty() && url.userInfo().isEmpty() && !url.hasQuery()
            && !url.hasFragment() && !url.host().isEmpty() && url.port() != 0;
    if (!isOnlyAddress)
        return std::nullopt;
    return Endpoint{url.host(), quint16(url.port(ZooKeeperUrl::DefaultPort))};
}

} // namespace

std::optional<ZooKeeperUrl> ZooKeeperUrl::parse(const QUrl &url, QString *problem)
{
    const auto refuse = [&](const QString &why) -> std::optional<ZooKeeperUrl> {
        *problem = u"the server URL %1 is invalid: %2"_s.arg(withoutSecrets(url).toString(), why);
        return std::nullopt;
    };
    if (!url.isValid() || url.host().isEmpty())
        return refuse(u"it has no host"_s);
    if (url.hasFragment())
        return refuse(u"it has a fragment ('#'); write %23 if it belongs to the password"_s);
    ZooKeeperUrl result;
    result.servers = {{url.host(), quint16(url.port(DefaultPort))}};
    result.user = url.userName(QUrl::FullyDecoded).toUtf8();
    if (url.userInfo(QUrl::FullyEncoded).contains(u':'))
        result.password = url.password(QUrl::FullyDecoded).toUtf8();
    if (result.user.isEmpty() && result.password)
        return refuse(u"it has a password but no user"_s);
    if (result.user.contains(':'))
        return refuse(u"the user has a colon, which ends it in a digest login"_s);

    const QString path = url.path(QUrl::FullyDecoded);
    if (!path.isEmpty() && path != u"/") {
        const QStringList parts = path.mid(1).split(u'/');
        for (const QString &part : parts) {
            // An '@' may end a password in which a '/' was not encoded.
            if (part.isEmpty() || part.contains(u'@') || NodePath::escaped(part.toUtf8()) != part.toUtf8())
                return refuse(u"the path must be that of a node without '@', such as /locks/app"_s);
        }
        result.chroot = path.toUtf8();
    }
    const auto items = QUrlQuery(url).queryItems(QUrl::FullyDecoded);
    bool hasSession = false;
    for (const auto &[key, value] : items) {
        if (key == u"node") {
            const auto node = parseNode(value);
            if (!node)
                return refuse(u"node=%1 is no host with an optional port"_s.arg(value.section(u'@', -1)));
            if (result.servers.contains(*node))
                return refuse(u"%1 is named twice"_s.arg(node->toString()));
            result.servers.append(*node);
        } else if (key == u"session" && !std::exchange(hasSession, true)) {
            bool isNumber = false;
            const int ms = value.toInt(&isNumber);
            if (!isNumber || ms < ShortestSession || ms > LongestSession) {
                return refuse(u"session must be a number of milliseconds from %1 to %2"_s.arg(ShortestSession)
                                      .arg(LongestSession));
            }
            result.session = milliseconds(ms);
        } else {
            // Not its name: after a '?' in a password that was not percent-encoded, it is the rest of that.
            return refuse(u"a query item is unknown, or there twice; known are node and session"_s);
        }
    }
    return result;
}

std::optional<QByteArray> ZooKeeperUrl::readPassword(QString *problem) const
{
    if (password || user.isEmpty())
        return password.value_or(QByteArray());
    QtRedis::ServerUrl login;
    login.passwordVariable = "QDISTLOCK_PASSWORD";
    if (!login.readPassword(problem))
        return std::nullopt;
    return login.password.toUtf8();
}

QUrl ZooKeeperUrl::normalized(const QUrl &url)
{
    QString problem;
    const auto parsed = parse(url, &problem);
    if (!parsed)
        return url;
    ZooKeeperUrl sorted = *parsed;
    std::sort(sorted.servers.begin(), sorted.servers.end());
    QUrl result(sorted.toDisplayString());
    result.setUserInfo(url.userInfo(QUrl::FullyEncoded));
    if (sorted.session != ZooKeeperUrl().session) {
        QUrlQuery query(result);
        query.addQueryItem(u"session"_s, QString::number(sorted.session.count()));
        result.setQuery(query);
    }
    return result;
}

QString ZooKeeperUrl::toDisplayString() const
{
    QUrl url;
    url.setScheme(u"zookeeper"_s);
    url.setHost(servers.first().host);
    url.setPort(servers.first().port);
    url.setPath(QString::fromUtf8(chroot));
    QUrlQuery nodes;
    for (const Endpoint &server : servers.mid(1))
        nodes.addQueryItem(u"node"_s, server.toString());
    if (!nodes.isEmpty())
        url.setQuery(nodes);
    return url.toString();
}

} // namespace QDistLock
