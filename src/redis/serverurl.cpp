// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/serverurl.h"

#include <QtCore/qregularexpression.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qurlquery.h>

#include <algorithm>
#include <limits>

using namespace Qt::StringLiterals;

namespace QtRedis {

namespace {

constexpr int DefaultPort = 6379;
// sizeof(sockaddr_un::sun_path) - 1 on the system with the shortest.
constexpr qsizetype MaximumSocketPath = 103;

const QLatin1String TcpScheme("redis");
const QLatin1String TlsScheme("rediss");
const QLatin1String UnixScheme("unix");

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

// QUrl's error text contains the whole URL with the password; only its first clause is used.
QString invalidPart(const QUrl &url)
{
    const QString reason = url.errorString();
    if (reason.startsWith(QLatin1String("Invalid port")) || reason.startsWith(QLatin1String("Port")))
        return u"the port must be a number from 1 to 65535 (a ':', '/', '?', '#' or '@' in user "
               "name or password must be percent-encoded)"_s;
    if (reason.startsWith(QLatin1String("Invalid user")))
        return u"the user name has a character that must be percent-encoded"_s;
    if (reason.startsWith(QLatin1String("Invalid password")))
        return u"the password has a character that must be percent-encoded"_s;
    if (reason.contains(QLatin1String("host")) || reason.contains(QLatin1String("IP")))
        return u"the host is neither a valid name nor a valid address"_s;
    if (reason.startsWith(QLatin1String("Invalid query")))
        return u"the query has a character that must be percent-encoded"_s;
    if (reason.startsWith(QLatin1String("Invalid scheme")))
        return u"the scheme is not valid"_s;
    return u"it is not a valid URL"_s;
}

/// The URL the user meant: "redis://localhost:6379" for "localhost:6379", which QUrl parses as the scheme "localhost"
/// and the path "6379". Empty if the text does not look like an address without its scheme.
QString meantUrl(const QUrl &url)
{
    static const QRegularExpression address(u"^(?://)?(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9_.-]+)"
                                            "(?::[0-9]{1,5}(?:/[0-9]*)?)?$"_s);
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
        QUrl shown = ServerUrl::withoutSecrets(url);
        if (!url.host().isEmpty())
            shown.setPath(QString()); // as in "redis://user:/password;"
        return mayHaveSecret ? QString() : shown.toString(QUrl::FullyEncoded);
    }
    const QLatin1String start("source was \"");
    const QString reason = url.errorString(); // ends in the whole URL and its parts
    const qsizetype begin = reason.indexOf(start) + start.size();
    QString shown = reason.mid(begin, reason.indexOf(u'"', begin) - begin);
    if (!reason.contains(start) || reason.contains(u'@') || !shown.contains(QLatin1String("://")))
        return QString();
    // The end may be "user:password", with the host forgotten.
    static const QRegularExpression end(u"[?#]|:(?!//)|[^\\x20-\\x7e]"_s);
    if (const qsizetype position = shown.indexOf(end); position >= 0)
        shown = shown.left(position) + u'…';
    return shown;
}

bool decode(const QString &encoded, QString *decoded)
{
    const QByteArray bytes = QByteArray::fromPercentEncoding(encoded.toUtf8());
    *decoded = QString::fromUtf8(bytes);
    return decoded->toUtf8() == bytes; // false if the bytes are not UTF-8
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
    bool parseSocket();
    bool parseQuery();
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
    if (url.scheme() == TcpScheme || url.scheme() == TlsScheme || url.scheme() == UnixScheme) {
        server.scheme = url.scheme() == TcpScheme ? ServerUrl::Tcp
                : url.scheme() == TlsScheme       ? ServerUrl::Tls
                                                  : ServerUrl::Unix;
        return true;
    }
    if (!url.isValid())
        return fail(invalidPart(url));
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
    if (!url.isValid())
        return fail(invalidPart(url));

    if (hasStrayAt(url))
        return fail(u"there is an '@' after the host; a ':', '/', '?', '#' or '@' in user name, "
                    "password or path must be percent-encoded"_s);
    if (url.hasFragment())
        return fail(u"it has a fragment ('#'), which has no meaning for a server"_s);

    return (server.scheme == ServerUrl::Unix ? parseSocket() : parseAuthority()) && parseUser() && parseQuery();
}

bool Parser::parseUser()
{
    if (!decode(url.userName(QUrl::FullyEncoded), &server.user))
        return fail(u"the user name is not UTF-8"_s);
    if (!decode(url.password(QUrl::FullyEncoded), &server.password))
        return fail(u"the password is not UTF-8"_s);

    if (server.password.isEmpty())
        server.password = qEnvironmentVariable("QDISTLOCK_PASSWORD");
    // "user:@host" has an empty password; in "user@host" the password was forgotten.
    const bool givenEmpty = url.userInfo(QUrl::FullyEncoded).contains(u':');
    if (!server.user.isEmpty() && server.password.isEmpty() && !givenEmpty)
        return fail(u"it has a user name but no password, and QDISTLOCK_PASSWORD is not set"_s);
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

    const int port = url.port(DefaultPort);
    if (port < 1 || port > std::numeric_limits<quint16>::max())
        return fail(u"the port must be a number from 1 to 65535"_s);
    server.port = quint16(port);

    const QString path = url.path(QUrl::FullyEncoded);
    if (path.size() > 1 && !parseDatabase(path.mid(1), &server.database))
        return fail(u"the path must be a database number such as /0"_s);
    return true;
}

bool Parser::parseSocket()
{
    if (!url.host().isEmpty() || url.port() != -1)
        return fail(u"the path of a Unix socket must be absolute, with three slashes: "
                    "unix:///path/to.sock"_s);
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
    if (server.scheme == ServerUrl::Tls)
        allowed = {u"ca"_s, u"cert"_s, u"key"_s};
    else if (server.scheme == ServerUrl::Unix)
        allowed = {u"db"_s};

    QStringList seen;
    const auto items = QUrlQuery(url).queryItems(QUrl::FullyEncoded);
    for (const auto &item : items) {
        QString name, value;
        if (!decode(item.first, &name) || !decode(item.second, &value))
            return fail(u"the query is not UTF-8"_s);
        if (!allowed.contains(name)) {
            const QString known = allowed.isEmpty()
                    ? u"%1:// takes none"_s.arg(url.scheme())
                    : u"%1:// takes %2"_s.arg(url.scheme(), allowed.join(QLatin1String(", ")));
            // An item that no scheme has may be the rest of a password with a '?' in it.
            const bool ofAnother = QStringList{u"ca"_s, u"cert"_s, u"key"_s, u"db"_s}.contains(name);
            return fail(ofAnother ? u"the query item \"%1\" is not known; %2"_s.arg(name, known)
                                  : u"a query item is not known; %1"_s.arg(known));
        }
        if (seen.contains(name))
            return fail(u"the query item \"%1\" occurs twice"_s.arg(name));
        seen.append(name);
        if (value.isEmpty())
            return fail(u"the query item \"%1\" is empty"_s.arg(name));

        if (name == QLatin1String("ca"))
            server.caFile = value;
        else if (name == QLatin1String("cert"))
            server.certificateFile = value;
        else if (name == QLatin1String("key"))
            server.keyFile = value;
        else if (!parseDatabase(value, &server.database))
            return fail(u"the query item \"db\" must be a database number such as 0"_s);
    }
    if (server.certificateFile.isEmpty() != server.keyFile.isEmpty())
        return fail(u"the query items \"cert\" and \"key\" go together, one is missing"_s);
    return true;
}

} // namespace

std::optional<ServerUrl> ServerUrl::parse(const QUrl &url, QString *error, const QStringList &otherSchemes)
{
    Parser parser{url, QStringList{TcpScheme, TlsScheme, UnixScheme} + otherSchemes, {}, {}};
    if (parser.parse())
        return parser.server;
    if (error)
        *error = parser.error;
    return std::nullopt;
}

QUrl ServerUrl::withoutSecrets(const QUrl &url)
{
    if (url.isValid() && !hasStrayAt(url))
        return url.adjusted(QUrl::RemoveUserInfo | QUrl::RemoveQuery | QUrl::RemoveFragment);
    QUrl safe;
    if (const QString scheme = url.scheme(); scheme == TcpScheme || scheme == TlsScheme || scheme == UnixScheme)
        safe.setScheme(scheme); // in "user:password@host" it is the user
    return safe;
}

QUrl ServerUrl::normalized(const QUrl &url)
{
    const auto server = parse(url, nullptr);
    if (!server)
        return url;
    QUrl normalized = url; // QUrl has normalized scheme and host
    if (server->scheme == Unix) {
        normalized.setHost(QLatin1String("")); // unix:/path is unix:///path
        normalized.setPath(withoutEmptySegments(server->path), QUrl::DecodedMode);
    } else {
        normalized.setPort(server->port);
        normalized.setPath(server->database == 0 ? QString() : u'/' + QString::number(server->database));
    }

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
    QString shownHost = host;
    if (host.contains(u':')) {
        // RFC 6874: the '%' before an address's zone is encoded, or "%1eth0" would be a character and "th0".
        const qsizetype address = host.indexOf(u'%');
        shownHost = address < 0 ? host
                                : host.left(address) + QLatin1String("%25")
                        + QString::fromLatin1(QUrl::toPercentEncoding(host.mid(address + 1)));
        shownHost = u'[' + shownHost + u']';
    }
    // In one call, because an address may contain a '%'.
    return u"%1://%2:%3/%4"_s.arg(scheme == Tls ? TlsScheme : TcpScheme, shownHost, QString::number(port),
                                  QString::number(database));
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
