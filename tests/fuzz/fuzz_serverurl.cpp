// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The input is a server's URL, as a user may write it. Messages never depend on its user name and password, and the
// printed form of a valid URL means the same server.

#include "fuzz.h"

#include "redis/serverurl.h"

#include <algorithm>
#include <cstring>

using namespace Qt::StringLiterals;

using namespace QtRedis;

namespace {

const QString canary = u"c4n4ry"_s;

/// All texts about a URL that a user may see.
QStringList shownOf(const QUrl &url, std::optional<ServerUrl> *server)
{
    QString error;
    *server = ServerUrl::parse(url, &error);
    FUZZ_CHECK(server->has_value() == error.isEmpty());
    FUZZ_CHECK(error.isEmpty()
               || (error.startsWith(QLatin1String("The server URL "))
                   && error.contains(QLatin1String("cannot be used: "))
                   && (error.endsWith(u'.') || error.endsWith(u'?'))));
    for (const QChar character : error)
        FUZZ_CHECK2(character.category() != QChar::Other_Control, error.toUtf8()); // would forge lines of a log
    const QUrl safe = ServerUrl::withoutSecrets(url);
    FUZZ_CHECK(safe.userInfo().isEmpty() && !safe.hasFragment());
    FUZZ_CHECK(!safe.hasQuery() || ServerUrl::hasNodes(url.scheme())); // its nodes
    return {error, safe.toString(QUrl::FullyEncoded), safe.toString(QUrl::PrettyDecoded), safe.toDisplayString(),
            *server ? (*server)->toDisplayString() : QString()};
}

/// The first Sentinel of a service, node of a cluster or server of a quorum is any of them.
bool sameServers(const ServerUrl &left, const ServerUrl &right)
{
    QList<Endpoint> ofLeft = left.sentinels + left.clusterNodes + left.quorumNodes;
    QList<Endpoint> ofRight = right.sentinels + right.clusterNodes + right.quorumNodes;
    std::sort(ofLeft.begin(), ofLeft.end());
    std::sort(ofRight.begin(), ofRight.end());
    if (!ofLeft.isEmpty())
        return ofLeft == ofRight && left.service == right.service && left.sentinelUser == right.sentinelUser
                && left.confirmsMaster == right.confirmsMaster && left.isPersistent == right.isPersistent;
    return ofRight.isEmpty() && left.host == right.host && left.port == right.port;
}

/// What is shown has no final dots, see Endpoint::name(). QUrl decodes the "bücher" of a host, but not "bücher.".
bool samePlace(const ServerUrl &left, const ServerUrl &right)
{
    return left.scheme == right.scheme && QUrl::toAce(left.endpoint().name()) == QUrl::toAce(right.endpoint().name())
            && left.port == right.port && left.path == right.path;
}

void checkPrinted(const QUrl &url, const ServerUrl &server)
{
    if (server.scheme == ServerUrl::Unix) {
        FUZZ_CHECK(server.path.startsWith(u'/') && !server.path.contains(QChar::Null));
        FUZZ_CHECK(server.path.toUtf8().size() <= 103);
        FUZZ_CHECK(server.host.isEmpty());
    } else {
        FUZZ_CHECK(!server.host.isEmpty() && server.port != 0);
        FUZZ_CHECK(server.path.isEmpty());
    }
    FUZZ_CHECK(server.database >= 0);
    FUZZ_CHECK(server.quorumNodes.isEmpty() || (server.quorumNodes.size() >= 3 && server.quorumNodes.size() <= 7));
    FUZZ_CHECK(!server.quorumNodes.isEmpty() == ServerUrl::isQuorum(url.scheme()));
    FUZZ_CHECK(server.certificateFile.isEmpty() == server.keyFile.isEmpty());
    FUZZ_CHECK(server.scheme == ServerUrl::Tls || (server.caFile.isEmpty() && server.keyFile.isEmpty()));

    QString error;
    const QString shown = server.toDisplayString();
    for (const QChar character : shown)
        FUZZ_CHECK2(character.category() != QChar::Other_Control, shown.toUtf8()); // would forge lines of a log
    const auto again = ServerUrl::parse(QUrl(shown), &error);
    FUZZ_CHECK2(again, (shown + u'\n' + error).toUtf8());
    FUZZ_CHECK2(samePlace(*again, server) && again->database == server.database, shown.toUtf8());
    FUZZ_CHECK(again->user.isEmpty() && again->password.isEmpty());

    // The normalized URL is the same server, with the same login.
    const QUrl normalized = ServerUrl::normalized(url);
    const auto fromNormalized = ServerUrl::parse(normalized, &error);
    FUZZ_CHECK2(fromNormalized, (normalized.toString(QUrl::FullyEncoded) + u'\n' + error).toUtf8());
    FUZZ_CHECK2(ServerUrl::normalized(normalized) == normalized, normalized.toString(QUrl::FullyEncoded).toUtf8());
    const bool samePath = server.scheme != ServerUrl::Unix || fromNormalized->path == server.path
            || server.path.contains(QLatin1String("//")) || server.path.contains(QLatin1String("/."));
    FUZZ_CHECK2(fromNormalized->scheme == server.scheme && sameServers(*fromNormalized, server) && samePath
                        && fromNormalized->database == server.database && fromNormalized->user == server.user
                        && fromNormalized->password == server.password && fromNormalized->caFile == server.caFile
                        && fromNormalized->certificateFile == server.certificateFile
                        && fromNormalized->keyFile == server.keyFile
                        && fromNormalized->usesScripts == server.usesScripts,
                normalized.toString(QUrl::FullyEncoded).toUtf8());

    const QUrl safe = ServerUrl::withoutSecrets(url);
    const auto fromSafe = ServerUrl::parse(safe, &error);
    FUZZ_CHECK2(fromSafe, (safe.toString(QUrl::FullyEncoded) + u'\n' + error).toUtf8());
    FUZZ_CHECK2(samePlace(*fromSafe, server), safe.toString(QUrl::FullyEncoded).toUtf8());
    // The database of a Unix socket is in the query.
    FUZZ_CHECK(server.scheme == ServerUrl::Unix || fromSafe->database == server.database);
    FUZZ_CHECK(ServerUrl::withoutSecrets(safe) == safe);
}

/// A correct URL with one secret and with another gives the same texts.
void checkReplacedSecret(const QUrl &url)
{
    QUrl one = url;
    one.setUserName(u"u5er"_s);
    one.setPassword(canary);
    QUrl other = url;
    other.setUserName(u"x"_s);
    other.setPassword(u"longer than the other one, with @/:?#%"_s, QUrl::DecodedMode);
    std::optional<ServerUrl> oneServer, otherServer;
    const QStringList oneShown = shownOf(one, &oneServer);
    const QStringList otherShown = shownOf(other, &otherServer);
    FUZZ_CHECK2(oneShown == otherShown, (oneShown + otherShown).join(u'\n').toUtf8());
    FUZZ_CHECK(oneServer.has_value() == otherServer.has_value());
    if (oneServer) {
        FUZZ_CHECK(oneServer->user == QLatin1String("u5er") && oneServer->password == canary);
        FUZZ_CHECK(otherServer->user == QLatin1String("x") && otherServer->password.contains(u'@'));
    }
}

/// Uses the input as user name and password that are not percent-encoded, with the canary in them.
void checkCarelessSecret(const QString &text)
{
    const qsizetype middle = text.indexOf(u'|');
    const QString before = middle < 0 ? text : text.left(middle);
    const QString after = middle < 0 ? QString() : text.mid(middle + 1);
    for (const auto &[scheme, place] :
         {std::pair("redis://", "@h:6379/1"), {"rediss://", "@h?ca=/ca.pem"}, {"unix://", "@/run/r.sock"}}) {
        for (const auto &user : {"", "u5er"}) {
            // QUrl reads "unix://:/x@/y" as "unix:///x@/y", the socket "/x@/y".
            if (before.startsWith(u'/') && *user == '\0' && std::strcmp(scheme, "unix://") == 0)
                continue;
            const QString url = QLatin1String(scheme) + QLatin1String(user) + u':' + before + canary + after
                    + QLatin1String(place);
            std::optional<ServerUrl> server;
            const QStringList shown = shownOf(QUrl(url), &server);
            for (const QString &line : shown)
                FUZZ_CHECK2(!line.contains(canary, Qt::CaseInsensitive), (url + u'\n' + line).toUtf8());
        }
    }
}

} // namespace

int LLVMFuzzerInitialize(int *, char ***)
{
    qunsetenv("QDISTLOCK_PASSWORD");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const QString text = QString::fromUtf8(Fuzz::bytes(data, size));
    const QUrl url(text);
    std::optional<ServerUrl> server;
    shownOf(url, &server);
    if (server) {
        checkPrinted(url, *server);
        checkReplacedSecret(url);
    }
    checkCarelessSecret(text);
    return 0;
}
