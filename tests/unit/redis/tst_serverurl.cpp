// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/serverurl.h"
#include "support/rows.h"

#include <QtCore/qdir.h>
#include <QtCore/qtemporarydir.h>
#include <QtCore/qtemporaryfile.h>
#include <QtTest/qtest.h>

#ifdef Q_OS_UNIX
#  include <sys/stat.h>
#endif

using namespace Qt::StringLiterals;

using namespace QtRedis;

namespace {

QUrl toUrl(const QString &text)
{
    return QUrl(text);
}

} // namespace

class tst_ServerUrl : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init();
    void cleanupTestCase() { init(); }

    void accepts_data();
    void accepts();
    void refuses_data();
    void refuses();
    void scripts();
    void services_data();
    void services();
    void sentinelLogin();
    void clusters();
    void quorums();
    void tlsFiles();
    void passwordFromEnvironment();
    void userWithPasswordFromEnvironment();
    void passwordFromFile_data();
    void passwordFromFile();
    void badPasswordFile_data();
    void badPasswordFile();
    void passwordIsReadAgain();
    void displayHoldsNoSecret_data()
    {
        Support::addRows<QString>("url",
                                  {{"tcp", u"redis://u5er:c4n4ry@h/1"_s},
                                   {"tls", u"rediss://u5er:c4n4ry@h/1?ca=/tmp/ca.pem"_s},
                                   {"unix", u"unix://u5er:c4n4ry@/run/r.sock?db=1"_s}});
    }
    void displayHoldsNoSecret();
    void withoutSecrets_data();
    void withoutSecrets();
    void normalized_data();
    void normalized();
    void normalizedPasswordFromEnvironment();
    void shownErrors_data();
    void shownErrors();
};

void tst_ServerUrl::init()
{
    for (const char *name : {"QDISTLOCK_PASSWORD", "QDISTLOCK_PASSWORD_FILE", "QDISTLOCK_SENTINEL_PASSWORD",
                             "QDISTLOCK_SENTINEL_PASSWORD_FILE"})
        qunsetenv(name);
}

void tst_ServerUrl::accepts_data()
{
    Support::addColumns<QString, int>("url", "scheme");
    QTest::addColumn<QString>("place"); // host:port or path
    Support::addColumns<int, QString, QString, QString>("database", "user", "password", "display");

    const auto row = [](const char *url, int scheme, const char *place, int database, const char *user,
                        const char *password, const char *display) {
        QTest::newRow(url) << QString::fromUtf8(url) << scheme << QString::fromUtf8(place) << database
                           << QString::fromUtf8(user) << QString::fromUtf8(password) << QString::fromUtf8(display);
    };
    const int tcp = ServerUrl::Tcp, tls = ServerUrl::Tls, local = ServerUrl::Unix;
    row("redis://h", tcp, "h:6379", 0, "", "", "redis://h:6379/0");
    row("redis://h:", tcp, "h:6379", 0, "", "", "redis://h:6379/0");
    row("redis://h/", tcp, "h:6379", 0, "", "", "redis://h:6379/0");
    row("REDIS://H.Example", tcp, "h.example:6379", 0, "", "", "redis://h.example:6379/0");
    row("redis://127.0.0.1:7000/3", tcp, "127.0.0.1:7000", 3, "", "", "redis://127.0.0.1:7000/3");
    row("redis://h:1/15", tcp, "h:1", 15, "", "", "redis://h:1/15");
    row("redis://h:65535", tcp, "h:65535", 0, "", "", "redis://h:65535/0");
    row("redis://[::1]:7000/1", tcp, "::1:7000", 1, "", "", "redis://[::1]:7000/1");
    row("redis://[2001:db8::7]", tcp, "2001:db8::7:6379", 0, "", "", "redis://[2001:db8::7]:6379/0");
    row("redis://[fe80::1%251]:7000/1", tcp, "fe80::1%1:7000", 1, "", "", "redis://[fe80::1%251]:7000/1");
    row("redis://[fe80::%251eth0]", tcp, "fe80::%1eth0:6379", 0, "", "", "redis://[fe80::%251eth0]:6379/0");
    row("redis://under_score", tcp, "under_score:6379", 0, "", "", "redis://under_score:6379/0");
    row("redis://h.example.", tcp, "h.example.:6379", 0, "", "", "redis://h.example:6379/0");
    row("redis://u5er:pw@h", tcp, "h:6379", 0, "u5er", "pw", "redis://h:6379/0");
    row("redis://:pw@h", tcp, "h:6379", 0, "", "pw", "redis://h:6379/0");
    row("redis://u5er:@h", tcp, "h:6379", 0, "u5er", "", "redis://h:6379/0");
    row("redis://:@h", tcp, "h:6379", 0, "", "", "redis://h:6379/0");
    row("redis://a%40b:p%3A%2F%3F%23%25w@h", tcp, "h:6379", 0, "a@b", "p:/?#%w", "redis://h:6379/0");
    row("redis://:%C3%A9%20%E2%82%AC@h", tcp, "h:6379", 0, "", "é €", "redis://h:6379/0");
    row("redis://:p+w@h", tcp, "h:6379", 0, "", "p+w", "redis://h:6379/0");
    row("redis://:a:b@h", tcp, "h:6379", 0, "", "a:b", "redis://h:6379/0");
    row("rediss://h", tls, "h:6379", 0, "", "", "rediss://h:6379/0");
    row("rediss://u5er:pw@h:6380/2", tls, "h:6380", 2, "u5er", "pw", "rediss://h:6380/2");
    row("unix:///run/r.sock", local, "/run/r.sock", 0, "", "", "unix:///run/r.sock");
    row("unix:/run/r.sock", local, "/run/r.sock", 0, "", "", "unix:///run/r.sock");
    row("unix:///run/r.sock?db=4", local, "/run/r.sock", 4, "", "", "unix:///run/r.sock?db=4");
    row("unix:///run/a%20b%23%3F@c", local, "/run/a b#?@c", 0, "", "", "unix:///run/a b%23%3F@c");
    row("unix:///run/a%0A%2501?db=3", local, "/run/a\n%01", 3, "", "", "unix:///run/a%0A%2501?db=3");
    row("unix://u5er:pw@/run/r.sock", local, "/run/r.sock", 0, "u5er", "pw", "unix:///run/r.sock");
    row("unix://:pw@/run/r.sock?db=1", local, "/run/r.sock", 1, "", "pw", "unix:///run/r.sock?db=1");
}

void tst_ServerUrl::accepts()
{
    QFETCH(QString, url);
    QFETCH(int, scheme);
    QFETCH(QString, place);
    QFETCH(int, database);
    QFETCH(QString, user);
    QFETCH(QString, password);
    QFETCH(QString, display);

    QString error;
    const auto server = ServerUrl::parse(toUrl(url), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(int(server->scheme), scheme);
    if (scheme == ServerUrl::Unix)
        QCOMPARE(server->path, place);
    else
        QCOMPARE(server->host + u':' + QString::number(server->port), place);
    QCOMPARE(server->database, database);
    QCOMPARE(server->user, user);
    QCOMPARE(server->password, password);
    QCOMPARE(server->toDisplayString(), display);
    QCOMPARE(error, QString());
}

void tst_ServerUrl::refuses_data()
{
    QTest::addColumn<QString>("url");
    QTest::addColumn<QString>("names"); // the part that is wrong

    const auto row = [](const QString &url, const char *names) {
        QTest::newRow(url.isEmpty() ? "empty" : qPrintable(url.left(60))) << url << QString::fromUtf8(names);
    };
    const auto text = [](const char *url) { return QString::fromUtf8(url); };
    row(QString(), "empty");
    row(text("localhost"), "did you mean redis://localhost?");
    row(text("//localhost"), "did you mean redis://localhost?");
    row(text("http://h"),
        "\"http://h\" cannot be used: the scheme \"http\" is not supported; use redis, rediss, unix, redis+sentinel, "
        "rediss+sentinel, redis+cluster, rediss+cluster, redlock, redlocks or memory");
    row(text("redisss://h"), "scheme \"redisss\"");
    row(text("localhost:6379"), "did you mean redis://localhost:6379?");
    row(text("127.0.0.1:6379"), "did you mean redis://127.0.0.1:6379?");
    row(text("my_host:6379/3"), "did you mean redis://my_host:6379/3?");
    row(text("[::1]:6379"), "did you mean redis://[::1]:6379?");
    row(text("redis:6379"), "did you mean redis://redis:6379?");
    row(text("/run/r.sock"), "did you mean unix:///run/r.sock?");
    row(text("c4n_user:c4n4ry"), "not a valid URL");
    row(text("c4n4ry:pw@host:6379"), "scheme"); // QUrl takes the user for one
    row(text("redis:h"), "host");
    row(text("redis://"), "host");
    row(text("redis:///0"), "host");
    row(text("redis://:6379"), "host");
    row(text("redis://u5er:c4n4ry@"), "host");
    row(text("redis://u5er:c4n4ry@:6379"), "host");
    row(text("redis://[::1"), "host");
    row(text("redis://[::g]"), "host");
    row(text("redis://a b"), "\"redis://a b\" cannot be used: it is not a valid URL; check the host, the port");
    row(text("redis://h:0"), "\"redis://h:0\" cannot be used: the port");
    row(text("redis://h:65536"), "port");
    row(text("redis://h:99999999999"), "port");
    row(text("redis://h:-1"), "port");
    row(text("redis://h:x"), "\"redis://h…\" cannot be used: it is not a valid URL; check the host, the port");
    row(text("redis://h:c4n4ry"), "\"redis://h…\" cannot be used: it is not a valid URL; check the host, the port");
    row(text("redis://u5er:c4n4ry@h:x"), "port");
    row(text("redis://h/x"), "database");
    row(text("redis://h/-1"), "database");
    row(text("redis://h/+1"), "database");
    row(text("redis://h/1/"), "database");
    row(text("redis://h/0/1"), "database");
    row(text("redis://h//1"), "database");
    row(text("redis://h/2147483648"), "database");
    row(text("redis://h#f"), "fragment");
    row(text("redis://h/0#"), "fragment");
    row(text("redis://h?db=1"), "query item \"db\"");
    row(text("redis://h?ca=/x"), "query item \"ca\"");
    row(text("rediss://h?db=1"), "query item \"db\"");
    row(text("redis://[fe80::1%25%001]"), "cannot be printed");
    row(text("redis://[fe80::1%25a%0Ab]"), "cannot be printed");
    row(text("rediss://h?verify=none"), "query item is not known");
    row(text("rediss://h?insecure"), "query item is not known");
    row(text("rediss://h?ca="), "query item \"ca\"");
    row(text("rediss://h?ca"), "query item \"ca\"");
    row(text("rediss://h?ca=/a&ca=/b"), "query item \"ca\"");
    row(text("rediss://h?CA=/a"), "query item is not known");
    row(text("rediss://h?cert=/a"), "\"key\"");
    row(text("rediss://h?key=/a"), "\"cert\"");
    row(text("rediss://h?ca=%FF"), "query");
    row(text("redis://%FF:pw@h"), "user name");
    row(text("redis://u5er:c4n4ry%FF@h"), "password");
    row(text("redis://u5er@h"), "password");
    row(text("unix://u5er@/run/r.sock"), "password");
    // Delimiters in a password that was not percent-encoded
    row(text("redis://c4n4ry:c4n/4ry@h"), "percent-encoded");
    row(text("redis://c4n4ry:12/c4n4ry@h"), "percent-encoded");
    row(text("redis://c4n4ry:12?c4n4ry@h"), "percent-encoded");
    row(text("redis://c4n4ry:12#c4n4ry@h"), "percent-encoded");
    row(text("redis://c4n4ry:c4n4ry#x@h"), "percent-encoded");
    row(text("unix://c4n4ry:12/c4n4ry@/run/r.sock"), "percent-encoded");
    row(text("unix://:c4n4ry@/c4n4ry@/run/r.sock"), "percent-encoded");
    row(text("unix://:c4n?c4n4ry@/run/r.sock"), "percent-encoded");
    row(text("unix:run/r.sock"), "absolute");
    row(text("unix://run/r.sock"), "absolute");
    row(text("unix://"), "path");
    row(text("unix:///"), "folder");
    row(text("unix:///run/"), "folder");
    row(text("unix:///run/a%00b"), "zero byte");
    row(text("unix:///run/%FF"), "UTF-8");
    row(text("unix:///") + QString(103, u'x'), "longer");
    row(text("unix:///run/r.sock?db=x"), "\"db\"");
    row(text("unix:///run/r.sock?db=-1"), "\"db\"");
    row(text("unix:///run/r.sock?db="), "\"db\"");
    row(text("unix:///run/r.sock?db=1&db=2"), "\"db\"");
    row(text("unix:///run/r.sock?ca=/x"), "query item \"ca\"");
    row(text("unix:///run/r.sock#f"), "fragment");
    // Lists of hosts are lost in a QUrl, but its error text has them.
    row(text("redis+sentinel://a:1,b:2/s"), "did you mean redis+sentinel://a:1/s?node=b:2?");
    row(text("redis+sentinel://a,b,c:3/s/2?confirm=off"),
        "did you mean redis+sentinel://a/s/2?confirm=off&node=b&node=c:3?");
    row(text("rediss+sentinel://[::1]:1,[::2]:2/s"), "did you mean rediss+sentinel://[::1]:1/s?node=[::2]:2?");
    row(text("redis+sentinel://u5er:c4n4ry@a:1,b:2/s"), "&node=host:port");
    row(text("redis+sentinel://a b/s"), "&node=host:port");
    row(text("redis+sentinel://"), "host");
    row(text("redis+sentinel:///s"), "host");
    row(text("redis+sentinel://a"), "it has no service; write");
    row(text("redis+sentinel://a/"), "it has no service");
    row(text("redis+sentinel://a//0"), "it has no service");
    row(text("redis+sentinel://a/s/x"), "a service and perhaps a database number");
    row(text("redis+sentinel://a/s/0/1"), "a service and perhaps a database number");
    row(text("redis+sentinel://a/my%20s"), "the name of the service");
    row(text("redis+sentinel://a/%FF"), "the name of the service");
    row(text("redis+sentinel://a/s%40b"), "the name of the service");
    row(text("redis+sentinel://a/.."), "the name of the service");
    row(text("redis+sentinel://a:c4n4ry,b/s"), "the port");
    row(text("redis+sentinel://a,b/s?c4n4ry=1"), "&node=host:port");
    row(text("redis+sentinel://a:0/s"), "the port");
    row(text("redis+sentinel://a/s?node=a"), "the node \"a:26379\" occurs twice");
    row(text("redis+sentinel://a:1/s?node=b:2&node=B:2"), "the node \"b:2\" occurs twice");
    row(text("redis+sentinel://a.b/s?node=A.b."), "the node \"a.b:26379\" occurs twice");
    row(text("redis+sentinel://a/s?node=b:0"), "the node \"b:0\" has no port from 1 to 65535");
    row(text("redis+sentinel://a/s?node=b:x"), "the node \"b:x\" is not host or host:port");
    row(text("redis+sentinel://a/s?node=b:70000"), "the node \"b:70000\" is not host or host:port");
    row(text("redis+sentinel://a/s?node=:1"), "the node \":1\" is not host or host:port");
    row(text("redis+sentinel://a/s?node=b,c"), "the node \"b,c\" is not host or host:port");
    row(text("redis+sentinel://a/s?node=b:1/0"), "the node \"b:1/0\" has more than an address");
    row(text("redis+sentinel://a/s?node=u5er:c4n4ry@b:1"), "the node \"b:1\" has a user name or a password");
    row(text("redis+sentinel://a/s?node=u5er%40b:1"), "the node \"b:1\" has a user name or a password");
    row(text("redis+sentinel://a/s?node="), "query item \"node\" is empty");
    row(text("redis+sentinel://a/s?x=c4n@b"), "percent-encoded");
    row(text("redis+sentinel://a/s?nodes=b"), "the query item \"nodes\" is not known; redis+sentinel:// takes node, ");
    row(text("redis+sentinel://a/s?ca=/x"), "the query item \"ca\" is not known");
    row(text("redis+sentinel://a/s?c4n4ry"), "a query item is not known");
    row(text("redis+sentinel://a/s?confirm=on"), "\"confirm\" must be majority or off");
    row(text("redis+sentinel://a/s?confirm=off&confirm=off"), "\"confirm\" occurs twice");
    row(text("redis+sentinel://a/s?sentinel-user=u5er"), "QDISTLOCK_SENTINEL_PASSWORD is not set");
    row(text("rediss+sentinel://a/s?cert=/c"), "\"key\"");
    row(text("redis+cluster://a:1,b:2"), "did you mean redis+cluster://a:1?node=b:2?");
    row(text("rediss+cluster://[::1]:1,[::2]:2"), "did you mean rediss+cluster://[::1]:1?node=[::2]:2?");
    row(text("redis+cluster://"), "host");
    row(text("redis+cluster://a/3"), "it has a database, but a Redis Cluster has none");
    row(text("redis+cluster://a/0?node=b"), "it has a database, but a Redis Cluster has none");
    row(text("redis+cluster://a/s"), "it has a path");
    row(text("redis+cluster://a?db=1"), "the query item \"db\" is not known; redis+cluster:// takes node");
    row(text("redis+cluster://a?confirm=off"), "a query item is not known; redis+cluster:// takes node");
    row(text("redis+cluster://a?node=A"), "the node \"a:6379\" occurs twice");
    row(text("redis+cluster://a?node=b:0"), "the node \"b:0\" has no port from 1 to 65535");
    row(text("redis+cluster://a?node=b:1/0"), "the node \"b:1/0\" has more than an address");
    row(text("redis+cluster://a?node=u5er:c4n4ry@b:1"), "the node \"b:1\" has a user name or a password");
    row(text("redis+cluster://u5er@a"), "password");
    row(text("redlock://a:1,b:2,c"), "did you mean redlock://a:1?node=b:2&node=c?");
    row(text("redlock://a"), "one server, but a quorum has 3 to 7; write redlock://host1?node=host2&node=host3");
    row(text("redlock://a?node=b"), "it names two servers, of which neither may fail; a quorum has 3 to 7");
    row(text("redlocks://a?node=b&node=c&node=d&node=e&node=f&node=g&node=h"), "it names 8 servers");
    row(text("redlock://a?node=b&node=A"), "the node \"a:6379\" occurs twice");
    row(text("redlock://a?node=b&node=b:6379"), "the node \"b:6379\" occurs twice");
    row(text("redlock://a?node=b&node=c:0"), "the node \"c:0\" has no port from 1 to 65535");
    row(text("redlock://a?node=b&node=u5er:c4n4ry@c"), "the node \"c\" has a user name or a password");
    row(text("redlock://a?node=b&node=c/1"), "the node \"c/1\" has more than an address");
    row(text("redlock://a/1?node=b&node=c"), "it has a database, but the servers of a quorum");
    row(text("redlock://a/s?node=b&node=c"), "it has a path");
    row(text("redlock://a?node=b&node=c&persistent=yes"), "\"persistent\" must be 1 or 0");
    row(text("redlock://a?node=b&node=c&persistent=1&persistent=1"), "\"persistent\" occurs twice");
    row(text("redlock://a?node=b&node=c&ca=/x"), "\"ca\" is not known; redlock:// takes node, persistent");
    row(text("redlocks://a?node=b&node=c&cert=/x"), "\"key\"");
    row(text("redlock://u5er@a?node=b&node=c"), "password");
    row(text("redis://a/0?node=b"), "the query item \"node\" is not known");
    row(text("redis://a?db=1"), "the query item \"db\" is not known; redis:// takes scripts");
    row(text("redis://a?scripts=on"), "the query item \"scripts\" must be off");
    row(text("redis://a?scripts=OFF"), "the query item \"scripts\" must be off");
    row(text("redis://a?scripts"), "the query item \"scripts\" is empty");
    row(text("redis://a?scripts=off&scripts=off"), "the query item \"scripts\" occurs twice");
    row(text("redis+cluster://a?scripts=off"), "because a cluster needs scripts");
    row(text("rediss+cluster://a?node=b&scripts=off"), "is not possible with rediss+cluster://");
    row(text("redlock://a?node=b&node=c&scripts=off"), "because a quorum needs scripts");
    row(text("redis+sentinel://u5er@a/s"), "password");
    row(text("redis+sentinel://u5er:12/c4n4ry@h/s"), "percent-encoded");
}

void tst_ServerUrl::scripts()
{
    for (const char *const url :
         {"redis://h", "rediss://h?ca=/c", "unix:///run/r.sock", "redis+sentinel://h/s", "redis+cluster://h?node=b"}) {
        const auto server = ServerUrl::parse(QUrl(QString::fromUtf8(url)), nullptr);
        QVERIFY2(server && server->usesScripts, url);
    }
    for (const char *const url :
         {"redis://h/1?scripts=off", "rediss://h?ca=/c&scripts=off", "unix:///run/r.sock?db=1&scripts=off",
          "unix:///run/r.sock?scripts=off", "redis+sentinel://h/s?scripts=off&confirm=off",
          "rediss+sentinel://h/s?scripts=off"}) {
        const auto server = ServerUrl::parse(QUrl(QString::fromUtf8(url)), nullptr);
        QVERIFY2(server && !server->usesScripts, url);
        if (!server->sentinels.isEmpty())
            QVERIFY2(!server->atMaster({u"m"_s, 1}).usesScripts, url);
    }
}

void tst_ServerUrl::services_data()
{
    Support::addColumns<QString, QStringList, QString, int, bool, QString>("url", "nodes", "service", "database",
                                                                           "confirms", "display");
    const auto row = [](const char *url, const QStringList &nodes, const char *service, int database, bool confirms,
                        const char *display) {
        QTest::newRow(url) << QString::fromUtf8(url) << nodes << QString::fromUtf8(service) << database << confirms
                           << QString::fromUtf8(display);
    };
    row("redis+sentinel://a/mymaster", {u"a:26379"_s}, "mymaster", 0, true, "redis+sentinel://a:26379/mymaster/0");
    row("redis+sentinel://A:1/m.y-m_1/3?node=b&node=[::1]:3&node=c%3A4",
        {u"a:1"_s, u"b:26379"_s, u"[::1]:3"_s, u"c:4"_s}, "m.y-m_1", 3, true, "redis+sentinel://a:1/m.y-m_1/3");
    row("rediss+sentinel://a/s/?confirm=off&ca=/c", {u"a:26379"_s}, "s", 0, false, "rediss+sentinel://a:26379/s/0");
    row("redis+sentinel://a/s?confirm=majority&node=[fe80::1%25eth0]:7", {u"a:26379"_s, u"[fe80::1%25eth0]:7"_s}, "s",
        0, true, "redis+sentinel://a:26379/s/0");
}

void tst_ServerUrl::services()
{
    QFETCH(QString, url);
    QFETCH(QString, service);
    QFETCH(QStringList, nodes);
    QFETCH(int, database);
    QFETCH(bool, confirms);
    QFETCH(QString, display);
    QString error;
    const auto server = ServerUrl::parse(toUrl(url), &error);
    QVERIFY2(server, qPrintable(error));
    QStringList found;
    for (const Endpoint &node : server->sentinels)
        found.append(node.toString());
    QCOMPARE(found, nodes);
    QCOMPARE(server->service, service);
    QCOMPARE(server->database, database);
    QCOMPARE(server->confirmsMaster, confirms);
    QCOMPARE(server->toDisplayString(), display);
}

void tst_ServerUrl::clusters()
{
    QString error;
    const auto server = ServerUrl::parse(toUrl(u"rediss+cluster://u:p@A/?node=b:2&node=[::1]:3&ca=/ca"_s), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(server->clusterNodes, (QList<Endpoint>{{u"a"_s, 6379}, {u"b"_s, 2}, {u"::1"_s, 3}}));
    QVERIFY(server->sentinels.isEmpty());
    QCOMPARE(server->scheme, ServerUrl::Tls);
    QCOMPARE(server->toDisplayString(), u"rediss+cluster://a:6379"_s);
    const ServerUrl node = server->atNode({u"::2"_s, 7});
    QVERIFY(node.clusterNodes.isEmpty());
    QCOMPARE(node.user, u"u"_s);
    QCOMPARE(node.password, u"p"_s);
    QCOMPARE(node.caFile, u"/ca"_s);
    QCOMPARE(node.toDisplayString(), u"rediss://[::2]:7/0"_s);
}

void tst_ServerUrl::quorums()
{
    QString error;
    auto server = ServerUrl::parse(toUrl(u"redlocks://u:p@A/?node=b:2&node=[::1]:3&ca=/ca&persistent=1"_s), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(server->quorumNodes, (QList<Endpoint>{{u"a"_s, 6379}, {u"b"_s, 2}, {u"::1"_s, 3}}));
    QVERIFY(server->sentinels.isEmpty());
    QVERIFY(server->clusterNodes.isEmpty());
    QCOMPARE(server->scheme, ServerUrl::Tls);
    QVERIFY(server->isPersistent);
    QCOMPARE(server->toDisplayString(), u"redlocks://a:6379?node=b:2&node=[::1]:3"_s);
    const ServerUrl node = server->atNode({u"b"_s, 2});
    QVERIFY(node.quorumNodes.isEmpty());
    QCOMPARE(node.user, u"u"_s);
    QCOMPARE(node.password, u"p"_s);
    QCOMPARE(node.caFile, u"/ca"_s);
    QCOMPARE(node.toDisplayString(), u"rediss://b:2/0"_s);
    server = ServerUrl::parse(toUrl(u"redlock://a?node=b&node=c&node=d&node=e&node=f&node=g"_s), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(server->quorumNodes.size(), 7);
    QCOMPARE(server->scheme, ServerUrl::Tcp);
    QVERIFY(!server->isPersistent);
}

/// The addresses of the master and the Sentinels have their own login.
void tst_ServerUrl::sentinelLogin()
{
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", "c4n4ry");
    QString error;
    const auto server = ServerUrl::parse(toUrl(u"rediss+sentinel://u:p@a/s/4?sentinel-user=w&ca=/ca"_s), &error);
    QVERIFY2(server, qPrintable(error));
    const ServerUrl sentinel = server->atSentinel({u"::1"_s, 7});
    QCOMPARE(sentinel.user, u"w"_s);
    QCOMPARE(sentinel.password, u"c4n4ry"_s);
    QCOMPARE(sentinel.database, 0);
    QCOMPARE(sentinel.caFile, u"/ca"_s);
    QCOMPARE(sentinel.toDisplayString(), u"rediss+sentinel://[::1]:7"_s);
    const ServerUrl master = server->atMaster({u"m"_s, 8});
    QCOMPARE(master.user, u"u"_s);
    QCOMPARE(master.password, u"p"_s);
    QCOMPARE(master.database, 4);
    QCOMPARE(master.caFile, u"/ca"_s);
    QCOMPARE(master.toDisplayString(), u"rediss://m:8/4"_s);
    QVERIFY(!ServerUrl::normalized(toUrl(u"redis+sentinel://a/s?sentinel-user=w"_s)).toString().contains(u"c4n4ry"_s));
    QVERIFY(!ServerUrl::withoutSecrets(toUrl(u"redis+sentinel://a/s?sentinel-user=w"_s)).toString().contains(u"w"_s));
}

void tst_ServerUrl::refuses()
{
    QFETCH(QString, url);
    QFETCH(QString, names);
    QString error;
    QVERIFY(!ServerUrl::parse(toUrl(url), &error, {u"memory"_s}));
    QVERIFY2(error.contains(names), qPrintable(error));
    QVERIFY2(!error.contains(QLatin1String("c4n")), qPrintable(error));
    QVERIFY2(!error.contains(QLatin1String("u5er")), qPrintable(error));
    QVERIFY(!ServerUrl::withoutSecrets(toUrl(url)).toString().contains(QLatin1String("c4n")));
    QVERIFY(!ServerUrl::parse(toUrl(url), nullptr));
}

void tst_ServerUrl::tlsFiles()
{
    QString error;
    const auto server = ServerUrl::parse(toUrl(u"rediss://h?ca=/etc/my%20ca.pem&cert=c.pem&key=%26k.pem"_s), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(server->caFile, u"/etc/my ca.pem"_s);
    QCOMPARE(server->certificateFile, u"c.pem"_s);
    QCOMPARE(server->keyFile, u"&k.pem"_s);
}

void tst_ServerUrl::passwordFromEnvironment()
{
    qputenv("QDISTLOCK_PASSWORD", "from env");
    QString error;
    auto server = ServerUrl::parse(toUrl(u"redis://h"_s), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(server->password, u"from env"_s);
    QVERIFY(server->user.isEmpty());

    server = ServerUrl::parse(toUrl(u"redis://:own@h"_s), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(server->password, u"own"_s);
}

void tst_ServerUrl::userWithPasswordFromEnvironment()
{
    qputenv("QDISTLOCK_PASSWORD", "from env");
    for (const auto url : {"redis://u5er@h", "unix://u5er@/run/r.sock"}) {
        QString error;
        const auto server = ServerUrl::parse(toUrl(QString::fromUtf8(url)), &error);
        QVERIFY2(server, qPrintable(error));
        QCOMPARE(server->user, u"u5er"_s);
        QCOMPARE(server->password, u"from env"_s);
    }
}

void tst_ServerUrl::passwordFromFile_data()
{
    Support::addColumns<QByteArray, QString>("content", "password");
    QTest::newRow("no line break") << QByteArray("c4n4ry") << u"c4n4ry"_s;
    QTest::newRow("a line break") << QByteArray("c4n4ry\n") << u"c4n4ry"_s;
    QTest::newRow("a line break of Windows") << QByteArray("c4n4ry\r\n") << u"c4n4ry"_s;
    QTest::newRow("two line breaks") << QByteArray("c4n4ry\n\n") << u"c4n4ry\n"_s;
    QTest::newRow("spaces") << QByteArray(" c4n 4ry ") << u" c4n 4ry "_s;
    QTest::newRow("UTF-8") << QByteArray("c\xC3\xA4\n") << u"cä"_s;
    QTest::newRow("the largest") << QByteArray(64 * 1024, 'x') << QString(64 * 1024, u'x');
}

void tst_ServerUrl::passwordFromFile()
{
    QFETCH(QByteArray, content);
    QFETCH(QString, password);
    QTemporaryFile file;
    QVERIFY(file.open() && file.write(content) == content.size() && file.flush());
    qputenv("QDISTLOCK_PASSWORD_FILE", file.fileName().toUtf8());
    QString error;
    for (const char *url : {"redis://h", "redis://u5er@h", "redis+cluster://u5er@h", "redis+sentinel://h/s"}) {
        auto server = ServerUrl::parse(toUrl(QString::fromUtf8(url)), &error);
        QVERIFY2(server, qPrintable(error));
        QVERIFY2(server->readPassword(&error), qPrintable(error));
        QCOMPARE(server->password, password);
    }
    auto own = ServerUrl::parse(toUrl(u"redis://:own@h"_s), &error);
    QVERIFY(own && own->readPassword(&error));
    QCOMPARE(own->password, u"own"_s);
    qputenv("QDISTLOCK_SENTINEL_PASSWORD_FILE", file.fileName().toUtf8());
    const auto service = ServerUrl::parse(toUrl(u"redis+sentinel://:own@h/s?sentinel-user=u5er"_s), &error);
    QVERIFY2(service, qPrintable(error));
    ServerUrl sentinel = service->atSentinel(service->endpoint());
    QVERIFY2(sentinel.readPassword(&error), qPrintable(error));
    QCOMPARE(sentinel.password, password);
}

void tst_ServerUrl::badPasswordFile_data()
{
    QTest::addColumn<QString>("name");
    QTest::addColumn<QByteArray>("content"); // of the file that is made
    QTest::addColumn<QString>("says");
    QTest::newRow("none") << u"none"_s << QByteArray() << u"No such file"_s;
    QTest::newRow("a folder") << u"."_s << QByteArray() << u"not a regular file"_s;
    QTest::newRow("a pipe") << u"pipe"_s << QByteArray() << u"not a regular file"_s;
    QTest::newRow("a device") << u"/dev/zero"_s << QByteArray() << u"not a regular file"_s;
    QTest::newRow("empty") << u"file"_s << QByteArray() << u"empty"_s;
    QTest::newRow("only a line break") << u"file"_s << QByteArray("\n") << u"empty"_s;
    QTest::newRow("too large") << u"file"_s << QByteArray(64 * 1024 + 1, 'x') << u"larger than 64 KiB"_s;
    QTest::newRow("not UTF-8") << u"file"_s << QByteArray("\xFF") << u"not UTF-8"_s;
}

void tst_ServerUrl::badPasswordFile()
{
    QFETCH(QString, name);
    QFETCH(QByteArray, content);
    QFETCH(QString, says);
    const QTemporaryDir folder;
    QFile file(folder.filePath(u"file"_s));
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(content) == content.size() && file.flush());
#ifdef Q_OS_UNIX
    QCOMPARE(::mkfifo(qPrintable(folder.filePath(u"pipe"_s)), 0600), 0);
#endif
    const QString path = QDir(folder.path()).absoluteFilePath(name);
    qputenv("QDISTLOCK_PASSWORD_FILE", path.toUtf8());
    QString error;
    auto server = ServerUrl::parse(toUrl(u"redis://u5er@h"_s), &error);
    QVERIFY2(server, qPrintable(error));
    QVERIFY(!server->readPassword(&error));
    QVERIFY2(error.contains(path) && error.contains(says) && error.contains(u"QDISTLOCK_PASSWORD_FILE"_s),
             qPrintable(error));
}

void tst_ServerUrl::passwordIsReadAgain()
{
    QString error;
    qputenv("QDISTLOCK_PASSWORD", "first");
    auto server = ServerUrl::parse(toUrl(u"redis://h"_s), &error);
    QVERIFY(server);
    qputenv("QDISTLOCK_PASSWORD", "second");
    QVERIFY(server->readPassword(&error));
    QCOMPARE(server->password, u"second"_s);
    qunsetenv("QDISTLOCK_PASSWORD"); // as programs do that hide it from their children
    QVERIFY(server->readPassword(&error));
    QCOMPARE(server->password, u"second"_s);
}

void tst_ServerUrl::displayHoldsNoSecret()
{
    QFETCH(QString, url);
    QString error;
    const auto server = ServerUrl::parse(toUrl(url), &error);
    QVERIFY2(server, qPrintable(error));
    for (const QString &shown : {server->toDisplayString(), ServerUrl::withoutSecrets(toUrl(url)).toString()}) {
        QVERIFY2(!shown.contains(QLatin1String("c4n4ry")), qPrintable(shown));
        QVERIFY2(!shown.contains(QLatin1String("u5er")), qPrintable(shown));
    }
}

void tst_ServerUrl::withoutSecrets_data()
{
    Support::addColumns<QString, QString>("url", "safe");
    const auto row = [](const char *url, const char *safe) {
        QTest::newRow(url) << QString::fromUtf8(url) << QString::fromUtf8(safe);
    };
    row("redis://h:1/2", "redis://h:1/2");
    row("redis://u:p@h:1/2?x=y#z", "redis://h:1/2");
    row("rediss://u:p@[::1]:1/2", "rediss://[::1]:1/2");
    row("unix://u:p@/run/a%20b?db=2", "unix:///run/a%20b");
    row("unix:///run/a@b", "unix:///run/a@b");
    row("unix:////run/a", "unix:////run/a");
    row("memory:name", "memory:name");
    row("redis+sentinel://u:p@h/s/0", "redis+sentinel://h/s/0");
    row("redis+cluster://u:p@h?node=b:1&node=c", "redis+cluster://h?node=b:1&node=c:6379");
    row("redlock://u:p@h?node=b:1&persistent=1&node=c", "redlock://h?node=b:1&node=c:6379");
    row("redis+sentinel://u:p@h/s?node=b:1&sentinel-user=x&node=[::1]:2&confirm=off",
        "redis+sentinel://h/s?node=b:1&node=[::1]:2");
    row("redis+sentinel://u:p@h/s?node=x%40b:1&node=c", "redis+sentinel://h/s?node=c:26379");
    row("redis+sentinel://h/s?node=x@b:1", "redis+sentinel:");
    row("redis://h?node=b", "redis://h");
    row("redis://h.example.:1/2", "redis://h.example:1/2");
    row("redis+cluster://h.?node=b.:1&node=c", "redis+cluster://h?node=b:1&node=c:6379");
    row("redis://u:12/34@h", "redis:");
    row("redis://u:p#x@h", "");
}

void tst_ServerUrl::withoutSecrets()
{
    QFETCH(QString, url);
    QFETCH(QString, safe);
    const QUrl result = ServerUrl::withoutSecrets(toUrl(url));
    if (safe.isEmpty())
        QVERIFY2(result.host().isEmpty() && result.path().isEmpty(), qPrintable(result.toString()));
    else
        QCOMPARE(result.toString(QUrl::FullyEncoded), QUrl(safe).toString(QUrl::FullyEncoded));
}

void tst_ServerUrl::normalized_data()
{
    Support::addColumns<QString, QString>("url", "normalized");
    const auto row = [](const char *normalized, std::initializer_list<const char *> spellings) {
        QTest::newRow(normalized) << QString::fromUtf8(normalized) << QString::fromUtf8(normalized);
        for (const char *spelling : spellings)
            QTest::newRow(spelling) << QString::fromUtf8(spelling) << QString::fromUtf8(normalized);
    };
    row("redis://h:6379",
        {"redis://h", "redis://h:", "redis://h/", "redis://h/0", "redis://h:06379/00", "REDIS://H", "redis://%68",
         "redis://h?", "redis://@h", "redis://:@h"});
    row("redis://h.example.:6379", {"redis://H.example./0"}); // asks DNS for another name than one without it may
    row("redis+cluster://a.:1?node=b.:2&node=c:3", {"redis+cluster://c:3?node=b.:2&node=a.:1"});
    row("redis://h:7000/12", {"redis://h:7000/012"});
    row("redis://127.0.0.1:6379", {"redis://127.0.0.1"});
    row("redis://[::1]:6379", {"redis://[0:0:0:0:0:0:0:1]", "redis://[::0001]/0"});
    row("redis://u:p@h:6379", {"redis://u:p@h", "redis://%75:%70@h"});
    row("redis://:p@h:6379", {"redis://:%70@h"});
    row("redis://u:@h:6379", {"redis://u:@h"});
    row("redis://:%C3%A9%25%40%2F@h:6379", {"redis://:\u00e9%25%40%2f@h"});
    row("rediss://h:6379?ca=/a.pem&cert=/c.pem&key=/k.pem",
        {"rediss://h?key=/k.pem&cert=%2Fc.pem&ca=/%61.pem", "rediss://h?cert=/c.pem&key=/k.pem&ca=/a.pem"});
    row("unix:///run/a",
        {"unix:/run/a", "unix:////run//a", "unix:///./run/./a", "unix:///%72un/a", "unix:///run/a?db=0",
         "unix:///run/a?db=00", "unix:///run/a?", "unix://@/run/a", "UNIX:/run/a"});
    row("unix:///run/a?db=2", {"unix:/run/a?db=02", "unix:/run/a?%64b=2"});
    row("unix://u:p@/run/a", {"unix://u:p@/run//a"});
    row("unix:///run/..a/...", {});
    row("unix:///run/../a", {"unix://///run/../a"}); // run may be a link
    row("unix:///run/%25%3F%23", {});
    row("unix://u:p@/run/a%40b", {}); // as "a@b", it would be refused
    row("unix:///run/a%40b", {"unix:///run/a@b"});
    row("redis+sentinel://a:1/s?node=b:26379&node=c:3",
        {"redis+sentinel://c:3/s/0?node=a:1&node=b", "redis+sentinel://B/s/?node=c:3&node=A:1",
         "redis+sentinel://a:1/s?node=c%3A3&node=b:26379&confirm=majority"});
    row("redis+sentinel://u:p@[::1]:1/s/2?node=b:26379&confirm=off",
        {"redis+sentinel://u:p@b/s/2?confirm=off&node=[::1]:1"});
    row("rediss+sentinel://a:26379/s?ca=/a.pem", {"rediss+sentinel://a/s/00?ca=/a.pem"});
    row("redis+cluster://a:1?node=b:6379&node=c:3",
        {"redis+cluster://c:3?node=a:1&node=b", "redis+cluster://B/?node=c:3&node=A:1"});
    row("redis://h:6379?scripts=off", {"redis://h/0?scripts=off", "redis://H?%73cripts=of%66"});
    row("unix:///run/a?scripts=off&db=2", {"unix:/run/a?db=2&scripts=off"});
    row("redis+sentinel://a:26379/s?confirm=off&scripts=off", {"redis+sentinel://a/s?scripts=off&confirm=off"});
    row("redlock://a:1?node=b:6379&node=c:3",
        {"redlock://c:3?node=a:1&node=b&persistent=0", "redlock://B/?node=c:3&node=A:1"});
    row("redlocks://a:6379?node=b:6379&node=c:6379&persistent=1&ca=/a.pem",
        {"redlocks://c?persistent=1&ca=/a.pem&node=a&node=b"});
    // What cannot be used stays as it is.
    for (const char *url : {"", "redis:", "redis://", "redis://h:0", "redis://h/x", "redis://h?a=b", "redis://u@h",
                            "unix://h/a", "unix:a", "http://h", "redis://h#f", "memory:a"}) {
        QTest::addRow("unusable: %s", url) << QString::fromUtf8(url) << QString::fromUtf8(url);
    }
}

void tst_ServerUrl::normalized()
{
    QFETCH(QString, url);
    QFETCH(QString, normalized);
    const QUrl result = ServerUrl::normalized(toUrl(url));
    QCOMPARE(result.toString(QUrl::FullyEncoded), toUrl(normalized).toString(QUrl::FullyEncoded));
    QCOMPARE(result, toUrl(normalized));
    QCOMPARE(ServerUrl::normalized(result), result);
}

void tst_ServerUrl::normalizedPasswordFromEnvironment()
{
    qputenv("QDISTLOCK_PASSWORD", "c4n4ry");
    for (const char *url : {"redis://u@h", "redis://h", "redis://:@h", "unix://u@/run/a"}) {
        const QUrl result = ServerUrl::normalized(toUrl(QString::fromUtf8(url)));
        QVERIFY2(!result.toString().contains(QLatin1String("c4n4ry")), url);
        const auto server = ServerUrl::parse(result, nullptr);
        QVERIFY2(server, url);
        QCOMPARE(server->password, u"c4n4ry"_s);
    }
    qunsetenv("QDISTLOCK_PASSWORD");
    QVERIFY(!ServerUrl::parse(ServerUrl::normalized(toUrl(u"redis://u@h"_s)), nullptr));
}

void tst_ServerUrl::shownErrors_data()
{
    Support::addColumns<QString, QByteArray, QString>("url", "said", "shown");
    const auto row = [](const char *url, const char *said, const char *shown) {
        QTest::newRow(said) << QString::fromUtf8(url) << QByteArray(said) << QString::fromUtf8(shown);
    };
    row("redis://h", "ERR as it is", "ERR as it is");
    row("redis://u5er:pw@h", "NOPERM User u5er has no permissions", "NOPERM User *** has no permissions");
    row("redis://u5er:pw@h", "ERR u5ers, no pw2", "ERR u5ers, no ***2");
    row("redis://:a%2Fb!@h", "ERR a/b! a%2Fb! a%2fb%21", "ERR *** *** ***");
    row("redis://ERR:READONLY@h", "READONLY ERR READONLY", "READONLY *** ***");
    row("redis://:%C3%A9%25@h", "ERR \u00e9% %C3%A9%25", "ERR *** ***");
    row("redis://:c4n4ry@h", "c4n4ry", "***");
}

void tst_ServerUrl::shownErrors()
{
    QFETCH(QString, url);
    QFETCH(QByteArray, said);
    QFETCH(QString, shown);
    QString error;
    const auto server = ServerUrl::parse(toUrl(url), &error);
    QVERIFY2(server, qPrintable(error));
    QCOMPARE(server->shown(said), shown);
}

QTEST_GUILESS_MAIN(tst_ServerUrl)
#include "tst_serverurl.moc"
