// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/serverurl.h"

#include <QtCore/qfile.h>
#include <QtCore/qfileinfo.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qurlquery.h>

#include <algorithm>
#include <limits>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

constexpr int DefaultPort = 6379;
constexpr int DefaultSentinelPort = 26379;
// sizeof(sockaddr_un::sun_path) - 1 on the system with the shortest.
constexpr qsizetype MaximumSocketPath = 103;
constexpr qint64 LargestPasswordFile = 64 * 1024;
constexpr char PasswordVariable[] = "QDISTLOCK_PASSWORD";
constexpr char SentinelPasswordVariable[] = "QDISTLOCK_SENTINEL_PASSWORD";

const QLatin1String TcpScheme("redis");
const QLatin1String TlsScheme("rediss");
const QLatin1String UnixScheme("unix");
const QLatin1String TcpSentinelScheme("redis+sentinel");
const QLatin1String TlsSentinelScheme("rediss+sentinel");
const QLatin1String TcpClusterScheme("redis+cluster");
const QLatin1String TlsClusterScheme("rediss+cluster");
const QLatin1String TcpQuorumScheme("redlock");
const QLatin1String TlsQuorumScheme("redlocks");

const QString NodeForm = u"host or host:port"_s;

bool isKnownScheme(const QString &scheme)
{
    return scheme == TcpScheme || scheme == TlsScheme || scheme == UnixScheme || ServerUrl::hasNodes(scheme);
}

/*
    "redis://user:12/3@host" has the host "user" and the path "/3@host": where an unescaped
    delimiter stood in the user name or password, parts of them end up elsewhere. Such a URL is
    recognised by its '@'. The path of a Unix socket may have one where no user name or password
    stands before it.
*/
bool hasStrayAt(const QUrl &url)
{
    QString rest = url.query(QUrl::FullyEncoded) + url.fragment(QUrl::FullyEncoded);
    if (url.scheme() != UnixScheme || !url.authority().isEmpty())
        rest += url.path(QUrl::FullyEncoded);
    return rest.contains(u'@');
}

// Characters that a URL parser would read as something else, or that would break a line of a log.
QString encodedPath(const QString &path)
{
    QString encoded;
    for (const QChar character : path) {
        if (character.category() == QChar::Other_Control || character == u'%' || character == u'?' || character == u'#')
            encoded += QString::fromLatin1(QString(character).toUtf8().toPercentEncoding());
        else
            encoded += character;
    }
    return encoded;
}

/// The text of an invalid \a url, which QUrl puts into its error text; empty if that may contain a password.
QString invalidSource(const QUrl &url)
{
    const QLatin1String start("source was \"");
    const QString reason = url.errorString(); // ends in the whole URL and its parts
    if (!reason.contains(start) || reason.contains(u'@'))
        return QString();
    const qsizetype begin = reason.indexOf(start) + start.size();
    return reason.mid(begin, reason.indexOf(u'"', begin) - begin);
}

/// "redis+sentinel://a/s?node=b" for "redis+sentinel://a,b/s"; empty for a URL without a list of hosts.
QString withoutHostList(const QString &source)
{
    // Only what is certainly no part of a password whose '@' and host were forgotten.
    static const QRegularExpression list(
            u"^([a-z+]+://)(<host>),(<host>(?:,<host>)*)((?:/[A-Za-z0-9._:-]*)*)(\\?(?:(?:node|confirm)=[A-Za-z0-9._:\\[\\]-]+&?)*)?$"_s
                    .replace(QLatin1String("<host>"),
                             QLatin1String("(?:\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5})?")));
    const auto match = list.match(source);
    if (!match.hasMatch())
        return QString();
    QStringList items = match.captured(5).mid(1).split(u'&', Qt::SkipEmptyParts);
    const QStringList others = match.captured(3).split(u',', Qt::SkipEmptyParts);
    for (const QString &node : others)
        items.append(QLatin1String("node=") + node);
    return match.captured(1) + match.captured(2) + match.captured(4) + u'?' + items.join(u'&');
}

/// QUrl names the part that it refuses, but in English only, and with the whole URL and its password.
constexpr QStringView InvalidUrl =
        u"it is not a valid URL; check the host, the port, which is a number from 1 to 65535, and that each ':', '/', '?', '#' and '@' in user name, password and query is percent-encoded";

/// The URL the user meant: "redis://localhost:6379" for "localhost:6379", which QUrl parses as the scheme "localhost"
/// and the path "6379". Empty if the text does not look like an address without its scheme.
QString meantUrl(const QUrl &url)
{
    static const QRegularExpression address(
            u"^(?://)?(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9_.-]+)(?::[0-9]{1,5}(?:/[0-9]*)?)?$"_s);
    // QUrl keeps parts of an invalid URL, which may be parts of a password.
    if (!url.isValid() && (url.errorString().contains(u'@') || url.path().startsWith(u'/')))
        return QString();
    const QString text = url.isValid() ? url.toString(QUrl::FullyEncoded) : url.path(QUrl::FullyEncoded);
    if (address.match(text).hasMatch())
        return (text.startsWith(u'/') ? QLatin1String("redis:") : QLatin1String("redis://")) + text;
    if (url.isValid() && url.scheme().isEmpty() && url.authority().isEmpty() && text.startsWith(u'/')
        && !text.contains(u'@'))
        return QLatin1String("unix://") + text;
    return QString();
}

/// \a url for errors, even if it is not valid, without anything that may be a user name or password.
QString shownUrl(const QUrl &url)
{
    if (url.isValid()) {
        // If there is an '@' that was not encoded, the host may be a part of the password.
        const bool mayHaveSecret = url.toString(QUrl::FullyEncoded).contains(u'@');
        QUrl shown = ServerUrl::withoutSecrets(url).adjusted(QUrl::RemoveQuery);
        if (!url.host().isEmpty())
            shown.setPath(QString()); // as in "redis://user:/password;"
        return mayHaveSecret ? QString() : shown.toString(QUrl::FullyEncoded);
    }
    QString shown = invalidSource(url);
    if (!shown.contains(QLatin1String("://")))
        return QString();
    // The end may be "user:password", with the host forgotten. The password may begin with "//".
    static const QRegularExpression end(u"[?#:]|[^\\x20-\\x7e]"_s);
    const qsizetype schemeEnd = shown.indexOf(QLatin1String("://"));
    qsizetype position = shown.indexOf(end);
    if (position == schemeEnd)
        position = shown.indexOf(end, schemeEnd + 3);
    if (position >= 0)
        shown = shown.left(position) + u'…';
    return shown;
}

bool decode(const QString &encoded, QString *decoded)
{
    const QByteArray bytes = QByteArray::fromPercentEncoding(encoded.toUtf8());
    *decoded = QString::fromUtf8(bytes);
    return decoded->toUtf8() == bytes; // false if the bytes are not UTF-8
}

QByteArray fileVariableOf(const char *variable)
{
    return QByteArray(variable) + "_FILE";
}

bool isPasswordGiven(const char *variable)
{
    return !qEnvironmentVariableIsEmpty(variable) || !qEnvironmentVariableIsEmpty(fileVariableOf(variable).constData());
}

/// Empty, with \a problem set, if the file has no password. Its last line break is not a part of that.
QString passwordInFile(const QString &fileName, QString *problem)
{
    QFile file(fileName);
    const QFileInfo info(fileName);
    if (info.exists() && !info.isFile()) { // opening a pipe would block
        *problem = u"it is not a regular file"_s;
        return QString();
    }
    if (!file.open(QIODevice::ReadOnly)) {
        *problem = file.errorString();
        return QString();
    }
    QByteArray content = file.read(LargestPasswordFile + 1);
    if (content.size() > LargestPasswordFile) {
        *problem = u"it is larger than 64 KiB"_s;
        return QString();
    }
    if (content.endsWith('\n'))
        content.chop(content.endsWith("\r\n") ? 2 : 1);
    const QString password = QString::fromUtf8(content);
    if (password.toUtf8() != content) {
        *problem = u"it is not UTF-8"_s;
        return QString();
    }
    if (password.isEmpty())
        *problem = u"it is empty"_s;
    return password;
}

bool parseDatabase(const QString &text, int *database)
{
    for (const QChar character : text) {
        if (character < u'0' || character > u'9')
            return false;
    }
    bool ok = false;
    *database = text.toInt(&ok);
    return ok;
}

/// "/a" for "//./a", which is the same file; but "/b/../a" is another one if b is a link.
QString withoutEmptySegments(const QString &path)
{
    QString result;
    const auto segments = QStringView(path).split(u'/', Qt::SkipEmptyParts);
    for (const QStringView segment : segments) {
        if (segment != u".")
            result += u'/' + segment.toString();
    }
    return result.isEmpty() ? path : result;
}

int defaultPort(const QString &scheme)
{
    return ServerUrl::isService(scheme) ? DefaultSentinelPort : DefaultPort;
}

/// \a text is decoded. The host is spelt as QUrl spells that of a URL.
std::optional<Endpoint> parseNode(QString text, int defaultPort, QString *problem)
{
    const QUrl node(QLatin1String("redis://") + text.replace(u'%', QLatin1String("%25")), QUrl::StrictMode);
    const QString host = node.host(QUrl::FullyDecoded);
    const int port = node.port(defaultPort);
    if (text.contains(u'@'))
        *problem = u"has a user name or a password; they stand once, before the first host"_s;
    else if (text.contains(u'/') || text.contains(u'?') || text.contains(u'#'))
        *problem = u"has more than an address; write "_s + NodeForm;
    else if (!node.isValid() || host.isEmpty())
        *problem = u"is not "_s + NodeForm;
    else if (port < 1 || port > std::numeric_limits<quint16>::max())
        *problem = u"has no port from 1 to 65535"_s;
    else
        return Endpoint{host, quint16(port)};
    return std::nullopt;
}

/// The text by which an error names a bad node. Without the part before an '@', which may be a password.
QString shownNode(const QString &text)
{
    const QString shown = text.mid(text.lastIndexOf(u'@') + 1);
    const bool isPrintable = std::all_of(shown.cbegin(), shown.cend(), [](QChar c) { return c.isPrint(); });
    return isPrintable ? u"the node \"%1\""_s.arg(shown) : u"a node"_s;
}

struct Parser
{
    const QUrl &url;
    const QStringList schemes; ///< for errors
    ServerUrl server;
    QString error;

    bool parse();

private:
    bool fail(const QString &reason)
    {
        error = reason;
        return false;
    }
    bool parseAll();
    bool parseScheme();
    bool parseUser();
    bool parseAuthority();
    bool parseService();
    bool parseCluster();
    bool parseQuorum();
    bool parseSocket();
    bool parseQuery();
    bool addNode(const QString &text);
    bool setItem(const QString &name, const QString &value);
    bool failOnStrayAt();
    bool failOnUnknownItem(const QString &name, bool hasValue, const QStringList &allowed);
    bool checkSentinelLogin();
    bool checkQuorumSize();
    bool isService() const { return ServerUrl::isService(url.scheme()); }
    bool isCluster() const { return ServerUrl::isCluster(url.scheme()); }
    bool isQuorum() const { return ServerUrl::isQuorum(url.scheme()); }
    bool hasNodes() const { return ServerUrl::hasNodes(url.scheme()); }
};

bool Parser::parse()
{
    if (parseAll())
        return true;
    const QString shown = shownUrl(url);
    error = shown.isEmpty() ? u"The server URL cannot be used: %1"_s.arg(error)
                            : u"The server URL \"%1\" cannot be used: %2"_s.arg(shown, error);
    if (!error.endsWith(u'?'))
        error += u'.';
    return false;
}

bool Parser::parseScheme()
{
    const QString meant = meantUrl(url);
    if (!meant.isEmpty())
        return fail(u"it has no scheme; did you mean %1?"_s.arg(meant));
    if (isKnownScheme(url.scheme())) {
        const bool isTls = url.scheme().startsWith(TlsScheme) || url.scheme() == TlsQuorumScheme;
        server.scheme = isTls ? ServerUrl::Tls : url.scheme() == UnixScheme ? ServerUrl::Unix : ServerUrl::Tcp;
        return true;
    }
    if (!url.isValid())
        return fail(InvalidUrl.toString());
    const QString known = u"use %1 or %2"_s.arg(schemes.first(schemes.size() - 1).join(QLatin1String(", ")),
                                                schemes.last());
    if (url.scheme().isEmpty())
        return fail(u"it has no scheme; "_s + known);
    return fail(hasStrayAt(url) // "user:password@host" has the scheme "user"
                        ? u"its scheme is not supported; "_s + known
                        : u"the scheme \"%1\" is not supported; %2"_s.arg(url.scheme(), known));
}

bool Parser::parseAll()
{
    if (url.isEmpty() && url.isValid())
        return fail(u"it is empty; expected redis://host:port/db"_s);
    if (!url.isValid() && url.errorString().isEmpty())
        return fail(u"it is empty; expected redis://host:port/db"_s);
    if (!parseScheme())
        return false;
    if (const QString meant = withoutHostList(invalidSource(url)); !meant.isEmpty() && hasNodes())
        return fail(
                u"it has a list of hosts; the first one stands there, the others are query items; did you mean %1?"_s
                        .arg(meant));
    if (!url.isValid() && hasNodes())
        return fail(InvalidUrl.toString()
                    + u"; of several hosts, all but the first are query items: &node=host:port"_s);
    if (!url.isValid())
        return fail(InvalidUrl.toString());

    if (hasStrayAt(url))
        return failOnStrayAt();
    if (url.hasFragment())
        return fail(u"it has a fragment ('#'), which has no meaning for a server"_s);

    return (server.scheme == ServerUrl::Unix ? parseSocket() : parseAuthority()) && parseUser() && parseQuery();
}

bool Parser::failOnStrayAt()
{
    const auto nodes = QUrlQuery(url).allQueryItemValues(u"node"_s, QUrl::FullyDecoded);
    // Otherwise an '@' may belong to the password.
    const bool isInQuery = !url.path().contains(u'@') && url.query(QUrl::FullyDecoded).count(u'@') == 1;
    for (const QString &node : nodes) {
        if (hasNodes() && isInQuery && !url.hasFragment() && node.contains(u'@'))
            return addNode(node);
    }
    return fail(
            u"there is an '@' after the host; a ':', '/', '?', '#' or '@' in user name, password or path must be percent-encoded"_s);
}

bool Parser::parseUser()
{
    if (!decode(url.userName(QUrl::FullyEncoded), &server.user))
        return fail(u"the user name is not UTF-8"_s);
    if (!decode(url.password(QUrl::FullyEncoded), &server.password))
        return fail(u"the password is not UTF-8"_s);

    if (server.password.isEmpty()) {
        server.passwordVariable = PasswordVariable;
        server.password = qEnvironmentVariable(PasswordVariable);
    }
    // "user:@host" has an empty password; in "user@host" the password was forgotten.
    const bool givenEmpty = url.userInfo(QUrl::FullyEncoded).contains(u':');
    if (!server.user.isEmpty() && server.password.isEmpty() && !givenEmpty && !isPasswordGiven(PasswordVariable))
        return fail(
                u"it has a user name but no password, and neither QDISTLOCK_PASSWORD nor QDISTLOCK_PASSWORD_FILE is set"_s);
    return true;
}

bool Parser::parseAuthority()
{
    server.host = url.host(QUrl::FullyDecoded);
    if (server.host.isEmpty())
        return fail(u"it has no host"_s);
    // QUrl accepts any character in the zone of an IPv6 address.
    if (!std::all_of(server.host.cbegin(), server.host.cend(), [](QChar c) { return c.isPrint(); }))
        return fail(u"the host has a character that cannot be printed"_s);

    const int port = url.port(defaultPort(url.scheme()));
    if (port < 1 || port > std::numeric_limits<quint16>::max())
        return fail(u"the port must be a number from 1 to 65535"_s);
    server.port = quint16(port);

    if (isService())
        return parseService();
    if (isCluster())
        return parseCluster();
    if (isQuorum())
        return parseQuorum();
    const QString path = url.path(QUrl::FullyEncoded);
    if (path.size() > 1 && !parseDatabase(path.mid(1), &server.database))
        return fail(u"the path must be a database number such as /0"_s);
    return true;
}

bool Parser::parseService()
{
    const QStringList parts = url.path(QUrl::FullyEncoded).mid(1).split(u'/');
    if (!decode(parts.first(), &server.service))
        return fail(u"the name of the service is not UTF-8"_s);
    if (server.service.isEmpty())
        return fail(
                u"it has no service; write the name by which Sentinel knows the master: %1://host:port/mymaster"_s.arg(
                        url.scheme()));
    static const QRegularExpression allowed(u"^[A-Za-z0-9._:-]*[A-Za-z0-9][A-Za-z0-9._:-]*$"_s);
    if (!allowed.match(server.service).hasMatch())
        return fail(u"the name of the service has a character other than letters, digits, '.', '-', '_' and ':'"_s);
    const bool hasDatabase = parts.size() > 1 && !parts.at(1).isEmpty();
    if (parts.size() > 2 || (hasDatabase && !parseDatabase(parts.at(1), &server.database)))
        return fail(u"the path must be a service and perhaps a database number, such as /mymaster/0"_s);
    server.sentinels = {server.endpoint()};
    return true;
}

bool Parser::parseCluster()
{
    const QString path = url.path(QUrl::FullyEncoded);
    int database = 0;
    if (path.size() > 1 && parseDatabase(path.mid(1), &database))
        return fail(u"it has a database, but a Redis Cluster has none; leave the number out"_s);
    if (path.size() > 1)
        return fail(u"it has a path, which has no meaning for a Redis Cluster"_s);
    server.clusterNodes = {server.endpoint()};
    return true;
}

bool Parser::parseQuorum()
{
    const QString path = url.path(QUrl::FullyEncoded);
    int database = 0;
    if (path.size() > 1 && parseDatabase(path.mid(1), &database))
        return fail(u"it has a database, but the servers of a quorum are used with database 0; leave the number out"_s);
    if (path.size() > 1)
        return fail(u"it has a path, which has no meaning for a quorum of servers"_s);
    server.quorumNodes = {server.endpoint()};
    return true;
}

bool Parser::checkQuorumSize()
{
    const qsizetype size = server.quorumNodes.size();
    const QString form = u"write %1://host1?node=host2&node=host3"_s.arg(url.scheme());
    if (size < ServerUrl::SmallestQuorum) {
        return fail(size == 1 ? u"it names one server, but a quorum has 3 to 7; "_s + form
                              : u"it names two servers, of which neither may fail; a quorum has 3 to 7; "_s + form);
    }
    if (size > ServerUrl::LargestQuorum)
        return fail(u"it names %1 servers, but a quorum has 7 at most"_s.arg(size));
    return true;
}

bool Parser::addNode(const QString &text)
{
    QString problem;
    const auto node = parseNode(text, defaultPort(url.scheme()), &problem);
    if (!node)
        return fail(shownNode(text) + u' ' + problem);
    QList<Endpoint> &nodes = isCluster() ? server.clusterNodes : isQuorum() ? server.quorumNodes : server.sentinels;
    if (nodes.contains(*node))
        return fail(u"the node \"%1\" occurs twice"_s.arg(node->toString()));
    nodes.append(*node);
    return true;
}

bool Parser::parseSocket()
{
    if (!url.host().isEmpty() || url.port() != -1)
        return fail(u"the path of a Unix socket must be absolute, with three slashes: unix:///path/to.sock"_s);
    if (!decode(url.path(QUrl::FullyEncoded), &server.path))
        return fail(u"the path of the Unix socket is not UTF-8"_s);
    if (server.path.isEmpty())
        return fail(u"it has no path to a Unix socket"_s);
    if (!server.path.startsWith(u'/'))
        return fail(u"the path of a Unix socket must be absolute: unix:///path/to.sock"_s);
    if (server.path.endsWith(u'/'))
        return fail(u"the path of the Unix socket ends in '/' and so names a folder"_s);
    if (server.path.contains(QChar(u'\0')))
        return fail(u"the path of the Unix socket has a zero byte"_s);
    if (server.path.toUtf8().size() > MaximumSocketPath)
        return fail(u"the path of the Unix socket is longer than %1 bytes"_s.arg(MaximumSocketPath));
    return true;
}

bool Parser::parseQuery()
{
    QStringList allowed;
    if (isService())
        allowed = {u"node"_s, u"sentinel-user"_s, u"confirm"_s};
    else if (isCluster())
        allowed = {u"node"_s};
    else if (isQuorum())
        allowed = {u"node"_s, u"persistent"_s};
    if (server.scheme == ServerUrl::Tls)
        allowed += {u"ca"_s, u"cert"_s, u"key"_s};
    else if (server.scheme == ServerUrl::Unix)
        allowed = {u"db"_s};
    if (!isCluster() && !isQuorum())
        allowed += u"scripts"_s;

    QStringList seen;
    const auto items = QUrlQuery(url).queryItems(QUrl::FullyEncoded);
    for (const auto &item : items) {
        QString name, value;
        if (!decode(item.first, &name) || !decode(item.second, &value))
            return fail(u"the query is not UTF-8"_s);
        if (!allowed.contains(name))
            return failOnUnknownItem(name, !value.isEmpty(), allowed);
        if (seen.contains(name) && name != u"node")
            return fail(u"the query item \"%1\" occurs twice"_s.arg(name));
        seen.append(name);
        if (value.isEmpty())
            return fail(u"the query item \"%1\" is empty"_s.arg(name));
        if (!setItem(name, value))
            return false;
    }
    if (server.certificateFile.isEmpty() != server.keyFile.isEmpty())
        return fail(u"the query items \"cert\" and \"key\" go together, one is missing"_s);
    if (isQuorum())
        return checkQuorumSize();
    return !isService() || checkSentinelLogin();
}

bool Parser::failOnUnknownItem(const QString &name, bool hasValue, const QStringList &allowed)
{
    if (name == u"scripts" && (isCluster() || isQuorum())) {
        return fail(
                u"the query item \"scripts\" is not possible with %1://, because %2 needs scripts; allow its user EVAL and EVALSHA"_s
                        .arg(url.scheme(), isCluster() ? u"a cluster"_s : u"a quorum"_s));
    }
    const QString known = u"%1:// takes %2"_s.arg(url.scheme(), allowed.join(QLatin1String(", ")));
    // If a password contains a '?', the rest of it looks like an unknown item. A service name before it excludes that.
    static const QRegularExpression word(u"^[A-Za-z-]{1,20}$"_s);
    const bool ofAnother = QStringList{u"ca"_s, u"cert"_s, u"key"_s, u"db"_s, u"node"_s}.contains(name);
    const bool isWord = isService() && hasValue && word.match(name).hasMatch();
    return fail(ofAnother || isWord ? u"the query item \"%1\" is not known; %2"_s.arg(name, known)
                                    : u"a query item is not known; %1"_s.arg(known));
}

bool Parser::setItem(const QString &name, const QString &value)
{
    if (name == QLatin1String("node"))
        return addNode(value);
    if (name == QLatin1String("ca"))
        server.caFile = value;
    else if (name == QLatin1String("cert"))
        server.certificateFile = value;
    else if (name == QLatin1String("key"))
        server.keyFile = value;
    else if (name == QLatin1String("sentinel-user"))
        server.sentinelUser = value;
    else if (name == QLatin1String("confirm") && value != u"majority" && value != u"off")
        return fail(u"the query item \"confirm\" must be majority or off"_s);
    else if (name == QLatin1String("confirm"))
        server.confirmsMaster = value == u"majority";
    else if (name == QLatin1String("scripts") && value != u"off")
        return fail(u"the query item \"scripts\" must be off; leave it out to use scripts"_s);
    else if (name == QLatin1String("scripts"))
        server.usesScripts = false;
    else if (name == QLatin1String("persistent") && value != u"1" && value != u"0")
        return fail(u"the query item \"persistent\" must be 1 or 0"_s);
    else if (name == QLatin1String("persistent"))
        server.isPersistent = value == u"1";
    else if (!parseDatabase(value, &server.database))
        return fail(u"the query item \"db\" must be a database number such as 0"_s);
    return true;
}

bool Parser::checkSentinelLogin()
{
    server.sentinelPassword = qEnvironmentVariable(SentinelPasswordVariable);
    if (!server.sentinelUser.isEmpty() && !isPasswordGiven(SentinelPasswordVariable))
        return fail(u"it has a sentinel-user, but QDISTLOCK_SENTINEL_PASSWORD is not set"_s);
    return true;
}

} // namespace

std::optional<ServerUrl> ServerUrl::parse(const QUrl &url, QString *error, const QStringList &otherSchemes)
{
    const QStringList schemes{TcpScheme,        TlsScheme,        UnixScheme,      TcpSentinelScheme, TlsSentinelScheme,
                              TcpClusterScheme, TlsClusterScheme, TcpQuorumScheme, TlsQuorumScheme};
    Parser parser{url, schemes + otherSchemes, {}, {}};
    if (parser.parse())
        return parser.server;
    if (error)
        *error = parser.error;
    return std::nullopt;
}

bool ServerUrl::readPassword(QString *error)
{
    if (!passwordVariable)
        return true;
    if (const QString value = qEnvironmentVariable(passwordVariable); !value.isEmpty()) {
        password = value;
        return true;
    }
    const QByteArray fileVariable = fileVariableOf(passwordVariable);
    const QString fileName = qEnvironmentVariable(fileVariable.constData());
    if (fileName.isEmpty())
        return true;
    QString problem;
    const QString read = passwordInFile(fileName, &problem);
    if (!problem.isEmpty()) {
        *error = u"the password cannot be read from the file \"%1\" that %2 names (%3)"_s.arg(
                fileName, QString::fromLatin1(fileVariable), problem);
        return false;
    }
    password = read;
    return true;
}

ServerUrl ServerUrl::atMaster(const Endpoint &endpoint) const
{
    ServerUrl master = *this;
    master.host = endpoint.host;
    master.port = endpoint.port;
    master.sentinels.clear();
    return master;
}

ServerUrl ServerUrl::atSentinel(const Endpoint &endpoint) const
{
    ServerUrl sentinel;
    sentinel.scheme = scheme;
    sentinel.host = endpoint.host;
    sentinel.port = endpoint.port;
    sentinel.user = sentinelUser;
    sentinel.passwordVariable = SentinelPasswordVariable;
    sentinel.password = sentinelPassword;
    sentinel.caFile = caFile;
    sentinel.certificateFile = certificateFile;
    sentinel.keyFile = keyFile;
    sentinel.isSentinel = true;
    return sentinel;
}

ServerUrl ServerUrl::atNode(const Endpoint &endpoint) const
{
    ServerUrl node = *this;
    node.host = endpoint.host;
    node.port = endpoint.port;
    node.clusterNodes.clear();
    node.quorumNodes.clear();
    return node;
}

bool ServerUrl::isService(const QString &scheme)
{
    return scheme == TcpSentinelScheme || scheme == TlsSentinelScheme;
}

bool ServerUrl::isCluster(const QString &scheme)
{
    return scheme == TcpClusterScheme || scheme == TlsClusterScheme;
}

bool ServerUrl::isQuorum(const QString &scheme)
{
    return scheme == TcpQuorumScheme || scheme == TlsQuorumScheme;
}

QUrl ServerUrl::withoutFinalDots(const QUrl &url)
{
    static const QRegularExpression dot(u"((?:^|&)node=[^&]*)\\.(?=:[0-9]+(?:&|$))"_s);
    QUrl plain = url;
    if (const Endpoint endpoint{url.host(), 0}; endpoint.name() != endpoint.host)
        plain.setHost(endpoint.name());
    if (hasNodes(url.scheme()) && url.hasQuery())
        plain.setQuery(url.query(QUrl::FullyEncoded).replace(dot, u"\\1"_s));
    return plain;
}

QUrl ServerUrl::withoutSecrets(const QUrl &url)
{
    return withoutSecrets(url, hasNodes(url.scheme()) ? defaultPort(url.scheme()) : 0);
}

QUrl ServerUrl::withoutSecrets(const QUrl &url, int nodePort)
{
    QUrl safe;
    if (!url.isValid() || hasStrayAt(url)) {
        if (isKnownScheme(url.scheme()) || nodePort != 0)
            safe.setScheme(url.scheme()); // in "user:password@host" it is the user
        return safe;
    }
    safe = url.adjusted(QUrl::RemoveUserInfo | QUrl::RemoveQuery | QUrl::RemoveFragment);
    QStringList items;
    const auto nodes = QUrlQuery(url).allQueryItemValues(u"node"_s, QUrl::FullyDecoded);
    for (const QString &text : nodes) {
        QString problem;
        if (const auto node = parseNode(text, nodePort, &problem))
            items.append(QLatin1String("node=") + node->toString());
    }
    if (nodePort != 0 && !items.isEmpty())
        safe.setQuery(items.join(u'&'));
    return withoutFinalDots(safe);
}

QUrl ServerUrl::normalized(const QUrl &url)
{
    const auto server = parse(url, nullptr);
    if (!server)
        return url;
    QList<Endpoint> nodes = server->sentinels + server->clusterNodes + server->quorumNodes; // only one is not empty
    std::sort(nodes.begin(), nodes.end());
    QUrl normalized = url; // QUrl has normalized scheme and host
    QString path;
    if (server->scheme == Unix) {
        normalized.setHost(QLatin1String("")); // unix:/path is unix:///path
        path = withoutEmptySegments(server->path);
    } else {
        path = server->service.isEmpty() ? QString() : u'/' + server->service;
        if (server->database != 0)
            path += u'/' + QString::number(server->database);
        if (!nodes.isEmpty() && nodes.first() != server->endpoint())
            normalized.setHost(nodes.first().host, QUrl::DecodedMode);
        normalized.setPort(nodes.isEmpty() ? server->port : nodes.first().port);
    }
    // After a user name, an '@' in the path would be taken for the end of a careless password.
    normalized.setPath(encodedPath(path).replace(u'@', QLatin1String("%40")), QUrl::TolerantMode);

    // The password may have come from the environment.
    QString password;
    decode(url.password(QUrl::FullyEncoded), &password);
    const bool emptyPassword = password.isEmpty() && url.userInfo(QUrl::FullyEncoded).contains(u':');
    normalized.setUserInfo(QString());
    if (!server->user.isEmpty())
        normalized.setUserName(server->user, QUrl::DecodedMode);
    if (!password.isEmpty())
        normalized.setPassword(password, QUrl::DecodedMode);
    else if (!server->user.isEmpty() && emptyPassword)
        normalized.setPassword(QLatin1String(""));

    QStringList query;
    const auto add = [&query](const char *name, const QString &value) {
        if (!value.isEmpty())
            query.append(QLatin1String(name) + u'=' + QString::fromLatin1(QUrl::toPercentEncoding(value, "/")));
    };
    for (const Endpoint &node : nodes.mid(1))
        query.append(QLatin1String("node=")
                     + (node.host == node.name() ? node.toString() : node.host + u':' + QString::number(node.port)));
    add("sentinel-user", server->sentinelUser);
    add("confirm", server->confirmsMaster ? QString() : u"off"_s);
    add("scripts", server->usesScripts ? QString() : u"off"_s);
    add("persistent", server->isPersistent ? u"1"_s : QString());
    add("ca", server->caFile);
    add("cert", server->certificateFile);
    add("key", server->keyFile);
    if (server->scheme == Unix && server->database != 0)
        add("db", QString::number(server->database));
    normalized.setQuery(query.isEmpty() ? QString() : query.join(u'&'));
    return QUrl::fromEncoded(normalized.toEncoded()); // QUrl also compares which parts were set, even if they are empty
}

QString ServerUrl::toDisplayString() const
{
    if (scheme == Unix) {
        const QString shown = u"unix://"_s + encodedPath(path);
        return database == 0 ? shown : shown + u"?db=%1"_s.arg(database);
    }
    if (!quorumNodes.isEmpty()) {
        QString text = (scheme == Tls ? TlsQuorumScheme : TcpQuorumScheme) + QLatin1String("://");
        for (qsizetype i = 0; i < quorumNodes.size(); ++i)
            text += QLatin1String(i == 0 ? "" : i == 1 ? "?node=" : "&node=") + quorumNodes.at(i).toString();
        return text;
    }
    QString text = scheme == Tls ? TlsScheme : TcpScheme;
    if (isSentinel || !sentinels.isEmpty())
        text += QLatin1String("+sentinel");
    if (!clusterNodes.isEmpty())
        text += QLatin1String("+cluster");
    text += QLatin1String("://") + endpoint().toString();
    if (isSentinel || !clusterNodes.isEmpty())
        return text;
    if (!sentinels.isEmpty())
        text += u'/' + service;
    return text + u'/' + QString::number(database);
}

QString ServerUrl::shown(const QByteArray &serverText) const
{
    static const QRegularExpression errorCode(u"^[A-Z]+(?= |$)"_s);
    const QString text = QString::fromUtf8(serverText);
    const QString code = errorCode.match(text).captured();
    QString rest = text.mid(code.size());
    if (!password.isEmpty()) {
        QUrl url;
        url.setPassword(password, QUrl::DecodedMode);
        // The longest spelling first, because another one may be a part of it.
        for (const QString &spelling :
             {QString::fromLatin1(QUrl::toPercentEncoding(password)), url.password(QUrl::FullyEncoded), password})
            rest.replace(spelling, QLatin1String("***"), Qt::CaseInsensitive);
    }
    if (!user.isEmpty()) {
        const QRegularExpression name(u"(?<!\\w)%1(?!\\w)"_s.arg(QRegularExpression::escape(user)));
        rest.replace(name, u"***"_s);
    }
    return code + rest;
}

} // namespace QtRedis
