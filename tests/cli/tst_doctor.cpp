// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock doctor`.

#include "clitest.h"

#include "support/aclrules.h"
#include "support/certificates.h"
#include "support/fakeserver.h"
#include "support/locktesting.h"
#include "support/rows.h"

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <algorithm>
#include <array>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using QDistLock::DistributedLock;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using Support::RedisServer;

namespace {

const QByteArray Password = "c4n4ry";

bool isRight(const QByteArray &word)
{
    return word.startsWith('+') || word.startsWith('~') || word.startsWith('&');
}

} // namespace

class tst_Doctor : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init();

    void goodServer();
    void silentServer();
    void outOfMemory();
    void defaultServer();
    void text();
    void withoutOneRight_data();
    void withoutOneRight();
    void leavesNothing();
    void scripts_data();
    void scripts();
    void settings_data();
    void settings();
    void replica();
    void locksAndQueues();
    void patternSubscriber();
    void tls_data();
    void tls();
    void unreachable_data();
    void unreachable();
    void password();
    void memory();

private:
    /// The objects of the checks named \a check.
    struct Report
    {
        int status = -1;
        QJsonObject document;
        QList<QJsonObject> of(const QString &check) const;
        QString level(const QString &check) const;
        QString everything() const { return QString::fromUtf8(QJsonDocument(document).toJson()); }
    };
    Report doctor(const QByteArray &url, const QStringList &options = {});
    QByteArray urlOf(const QByteArray &password) const;

    RedisServer m_server;
};

QList<QJsonObject> tst_Doctor::Report::of(const QString &check) const
{
    QList<QJsonObject> found;
    const QJsonArray checks = document.value(u"checks"_s).toArray();
    for (const QJsonValue &value : checks) {
        if (value.toObject().value(u"check"_s).toString() == check)
            found.append(value.toObject());
    }
    return found;
}

/// The worst: "ok", "info", "warn" or "fail"; empty if there was no such check.
QString tst_Doctor::Report::level(const QString &check) const
{
    const QStringList order{u"ok"_s, u"info"_s, u"warn"_s, u"fail"_s};
    qsizetype worst = -1;
    for (const QJsonObject &object : of(check))
        worst = std::max(worst, order.indexOf(object.value(u"level"_s).toString()));
    return order.value(worst);
}

tst_Doctor::Report tst_Doctor::doctor(const QByteArray &url, const QStringList &options)
{
    const Result result = run({url}, QStringList{u"doctor"_s, u"--json"_s} + options);
    Report report{result.status, QJsonDocument::fromJson(result.output).object()};
    if (result.output.contains(Password) || result.errors.contains(Password))
        qFatal("the password was printed");
    if (!result.errors.isEmpty())
        qWarning("%s", result.errors.constData());
    return report;
}

QByteArray tst_Doctor::urlOf(const QByteArray &password) const
{
    QUrl url = m_server.url();
    url.setUserName(u"lockapp"_s);
    url.setPassword(QString::fromLatin1(password));
    return url.toEncoded();
}

void tst_Doctor::init()
{
    m_server.command({"FLUSHALL"});
    m_server.command({"ACL", "DELUSER", "lockapp"});
}

void tst_Doctor::goodServer()
{
    RedisServer::Options options;
    options.appendOnly = true;
    Support::Started<RedisServer> server(options);
    const Report report = doctor(server.url().toEncoded());
    QVERIFY2(report.status == 0, qPrintable(report.everything()));
    QCOMPARE(report.document.value(u"result"_s).toString(), u"ok"_s);
    for (const char *const check :
         {"url", "connect", "login", "version", "role", "rights", "messages", "memory", "persistence", "clients",
          "patterns", "keepalive", "latency", "clock", "protocol", "locks", "queues"})
        QVERIFY2(report.level(QString::fromLatin1(check)) == u"ok", check);
    QCOMPARE(report.level(u"replicas"_s), u"info"_s);
}

// It accepts connections, and says nothing.
void tst_Doctor::silentServer()
{
    Support::FakeServer silent{QByteArray()};
    silent.setAnswersLogin(false);
    const Report report = doctor(silent.url().toEncoded(), {u"--connect-timeout=200ms"_s});
    QCOMPARE(report.status, 2);
    QCOMPARE(report.of(u"login"_s).size(), 1);
    const QJsonObject login = report.of(u"login"_s).first();
    QVERIFY2(!login.value(u"text"_s).toString().isEmpty(), qPrintable(report.everything()));
    QVERIFY2(login.value(u"remedy"_s).toString().contains(u"frozen"_s), qPrintable(report.everything()));
}

void tst_Doctor::outOfMemory()
{
    Support::Started<RedisServer> server;
    server.command({"CONFIG", "SET", "maxmemory", "1"});
    const Report report = doctor(server.url().toEncoded());
    QCOMPARE(report.of(u"write"_s).size(), 1);
    QVERIFY2(report.of(u"write"_s).first().value(u"remedy"_s).toString().contains(u"raise maxmemory"_s),
             qPrintable(report.everything()));
}

void tst_Doctor::defaultServer()
{
    const Report report = doctor(m_server.url().toEncoded());
    QCOMPARE(report.status, 1);
    QCOMPARE(report.level(u"persistence"_s), u"warn"_s);
    // CONFIG SET alone would be forgotten by a restart.
    const QString remedy = report.of(u"persistence"_s).value(0).value(u"remedy"_s).toString();
    QVERIFY2(remedy.contains(u"CONFIG SET"_s) && remedy.contains(u"CONFIG REWRITE"_s), qPrintable(remedy));
}

void tst_Doctor::text()
{
    const Result result = run({m_server.url().toEncoded()}, {u"doctor"_s});
    QCOMPARE(result.status, 1);
    QVERIFY2(result.output.contains("\nok   role: master\n"), result.output.constData());
    QVERIFY2(result.output.contains("\nwarn persistence: "), result.output.constData());
    QVERIFY2(result.output.contains(" → "), result.output.constData());
    const Result quiet = run({m_server.url().toEncoded()}, {u"doctor"_s, u"-q"_s});
    QCOMPARE(quiet.status, 1);
    QVERIFY2(quiet.output.startsWith("warn persistence: ") && quiet.output.count('\n') == 1, quiet.output.constData());
}

void tst_Doctor::withoutOneRight_data()
{
    QTest::addColumn<QByteArray>("right");
    QTest::newRow("none") << QByteArray();
    for (const QByteArray &word : Support::aclRule("lockapp", Password)) {
        if (isRight(word))
            QTest::newRow(word.constData()) << word;
    }
}

// Every right of docs/acl.txt is tried, and named when it is missing: by ACL DRYRUN, and, where the user or the server
// does not have that, on a scratch name.
void tst_Doctor::withoutOneRight()
{
    QFETCH(QByteArray, right);
    const bool hasDryRun = m_server.info("server", "redis_version").split('.').first().toInt() >= 7;
    for (const bool dryRun : {false, true}) {
        if (dryRun && !hasDryRun)
            break;
        m_server.command({"ACL", "DELUSER", "lockapp"});
        QList<QByteArray> rule = Support::aclRule("lockapp", Password);
        rule.removeAll(right);
        QVariant set = m_server.command(QList<QByteArray>{"ACL", "SETUSER", "lockapp"} + rule);
        if (dryRun)
            set = m_server.command({"ACL", "SETUSER", "lockapp", "+acl|whoami", "+acl|dryrun"});
        QCOMPARE(set.toByteArray(), QByteArray("OK"));
        const Report report = doctor(urlOf(Password));
        const QJsonObject rights = report.of(u"rights"_s).value(0);
        QStringList missing;
        const QJsonArray array = rights.value(u"missing"_s).toArray();
        for (const QJsonValue &value : array)
            missing += value.toString();
        QCOMPARE(missing, right.isEmpty() ? QStringList() : QStringList{QString::fromLatin1(right)});
        QVERIFY2(rights.value(u"text"_s).toString().contains(dryRun ? u"DRYRUN"_s : u"scratch"_s),
                 qPrintable(report.everything()));
        if (right.isEmpty())
            QCOMPARE(rights.value(u"level"_s).toString(), u"ok"_s);
        else
            QVERIFY(rights.value(u"remedy"_s).toString().contains(u"<user> %1, and then "_s.arg(QLatin1String(right))));
    }
    for (const QByteArray &key : m_server.keys()) // left to expire where it may not be deleted
        QVERIFY2(m_server.pttl(key) != -1, key.constData());
}

void tst_Doctor::leavesNothing()
{
    doctor(m_server.url().toEncoded(), {u"--prefix"_s, u"a{b}c:"_s});
    QList<QByteArray> rule = Support::aclRule("lockapp", Password);
    m_server.command(QList<QByteArray>{"ACL", "SETUSER", "lockapp"} + rule);
    const Report report = doctor(urlOf(Password));
    QCOMPARE(report.level(u"rights"_s), u"ok"_s);
    QCOMPARE(report.level(u"unknown"_s), u"info"_s); // no right to INFO and CONFIG
    QVERIFY(m_server.keys().isEmpty());
    QVERIFY(eventually([this] { return m_server.connectedClients() == 0; }));
}

void tst_Doctor::scripts_data()
{
    Support::addColumns<QByteArray, QByteArray, QString, QString, QString>("rights", "query", "level", "words",
                                                                           "ofRights");
    QTest::newRow("executed") << QByteArray() << QByteArray() << u"ok"_s << u"executes"_s << u"ok"_s;
    QTest::newRow("off") << QByteArray() << QByteArray("?scripts=off") << u"info"_s << u"scripts=off"_s << u"ok"_s;
    QTest::newRow("refused") << QByteArray("-eval -evalsha") << QByteArray() << u"warn"_s << u"refuses"_s << u"ok"_s;
    QTest::newRow("off and refused") << QByteArray("-eval -evalsha -zadd") << QByteArray("?scripts=off") << u"info"_s
                                     << u"scripts=off"_s << u"ok"_s;
    QTest::newRow("off, without MULTI") << QByteArray("-multi") << QByteArray("?scripts=off") << u"info"_s
                                        << u"scripts=off"_s << u"fail"_s;
    QTest::newRow("neither") << QByteArray("-eval -evalsha -watch") << QByteArray() << QString() << QString()
                             << u"fail"_s;
}

// Whether scripts are executed, and what the user needs then.
void tst_Doctor::scripts()
{
    QFETCH(QByteArray, rights);
    QFETCH(QByteArray, query);
    QFETCH(QString, level);
    QFETCH(QString, words);
    QFETCH(QString, ofRights);
    const QList<QByteArray> all{"ACL", "SETUSER", "lockapp", "on", '>' + Password, "~*", "&*", "+@all"};
    const QList<QByteArray> taken = rights.isEmpty() ? QList<QByteArray>() : rights.split(' ');
    for (const bool dryRun : {true, false}) {
        m_server.command(all + taken + QList<QByteArray>{dryRun ? "+acl" : "-acl"});
        const Report report = doctor(urlOf(Password) + query);
        QCOMPARE(report.level(u"scripts"_s), level);
        const QString text = report.of(u"scripts"_s).value(0).value(u"text"_s).toString();
        QVERIFY2(text.contains(words), qPrintable(report.everything()));
        QVERIFY2(report.level(u"rights"_s) == ofRights, qPrintable(report.everything()));
    }
    QVERIFY(m_server.keys().isEmpty());
}

void tst_Doctor::settings_data()
{
    Support::addColumns<QByteArray, QString, QString, int>("config", "check", "level", "status");
    const auto row = [](const char *config, const char *check, const char *level, int status) {
        QTest::newRow(config) << QByteArray(config) << QString::fromLatin1(check) << QString::fromLatin1(level)
                              << status;
    };
    row("maxmemory-policy allkeys-lru\nmaxmemory 100mb", "memory", "fail", 2);
    row("maxmemory-policy allkeys-lru", "memory", "ok", 0);
    row("maxmemory 100mb", "memory", "ok", 0);
    row("tcp-keepalive 0", "keepalive", "warn", 1);
    row("maxclients 6", "clients", "warn", 1);
    row("appendfsync everysec", "persistence", "info", 0);
    row("min-replicas-to-write 1", "write", "fail", 2);
}

void tst_Doctor::settings()
{
    QFETCH(QByteArray, config);
    RedisServer::Options options;
    options.appendOnly = true;
    options.config = config.split('\n');
    Support::Started<RedisServer> server(options);
    std::array<Support::RespClient, 3> others;
    for (Support::RespClient &other : others)
        QVERIFY(other.connectToUnix(server.socketPath()));
    const Report report = doctor(server.url().toEncoded());
    QFETCH(QString, check);
    QTEST(report.level(check), "level");
    QTEST(report.status, "status");
}

void tst_Doctor::replica()
{
    Support::Started<RedisServer> master(RedisServer::Options::withTcp());
    RedisServer::Options options;
    options.replicaOf = &master;
    Support::Started<RedisServer> server(options);
    const Report report = doctor(server.url().toEncoded());
    QCOMPARE(report.status, 2);
    QCOMPARE(report.level(u"role"_s), u"fail"_s);
    QCOMPARE(report.level(u"write"_s), u"fail"_s);
}

void tst_Doctor::locksAndQueues()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"held"_s);
    QVERIFY(LockTesting::acquireNow(&lock));
    m_server.command({"SET", "lock:endless", "x"});
    m_server.command({"SET", "lock:dead", "1abc:1:2d", "PX", "60000"});
    m_server.command({"ZADD", "{lock:dead}:queue", "1", "1abc:2:2d"});
    m_server.command({"ZADD", "{lock:unserved}:queue", "1", "1abc:3:2d"});
    m_server.command({"ZADD", "lock:{tagged}x:queue", "1", "1abc:4:2d"});
    m_server.command({"ZADD", "another:queue", "1", "x"});
    const Report report = doctor(m_server.url().toEncoded());
    QCOMPARE(report.status, 1);
    const QString text = report.everything();
    const auto has = [&report](const QString &check, const QString &level, const QString &words) {
        const QList<QJsonObject> found = report.of(check);
        return std::any_of(found.begin(), found.end(), [&](const QJsonObject &object) {
            return object.value(u"level"_s).toString() == level && object.value(u"text"_s).toString().contains(words);
        });
    };
    QVERIFY2(has(u"locks"_s, u"ok"_s, u"3 held"_s), qPrintable(text));
    QVERIFY2(has(u"locks"_s, u"warn"_s, u"without a time to live: endless"_s), qPrintable(text));
    QVERIFY2(has(u"locks"_s, u"info"_s, u"another library, or written by hand: endless"_s), qPrintable(text));
    QVERIFY2(has(u"locks"_s, u"info"_s, u"not connected: dead"_s), qPrintable(text));
    QVERIFY2(has(u"queues"_s, u"warn"_s, u"nobody holds: unserved, {tagged}x"_s), qPrintable(text));
    QVERIFY2(has(u"protocol"_s, u"ok"_s, u"1 connected client of this library, with protocol version 1"_s),
             qPrintable(text));
}

void tst_Doctor::patternSubscriber()
{
    Support::RespClient client;
    QVERIFY(client.connectToUnix(m_server.socketPath()));
    client.command({"PSUBSCRIBE", "*"});
    const Report report = doctor(m_server.url().toEncoded());
    QCOMPARE(report.level(u"patterns"_s), u"warn"_s);
    QVERIFY(report.of(u"patterns"_s).first().value(u"text"_s).toString().startsWith(u"1 pattern subscription: "_s));
}

void tst_Doctor::tls_data()
{
    Support::addColumns<QString, int>("certificate", "status");
    QTest::newRow("good") << u"server"_s << 0;
    QTest::newRow("wrong host") << u"wrong-host"_s << 2;
    QTest::newRow("expired") << u"expired"_s << 2;
    QTest::newRow("self-signed") << u"self-signed"_s << 2;
}

void tst_Doctor::tls()
{
    QFETCH(QString, certificate);
    QFETCH(int, status);
    const Support::Certificates certificates;
    QVERIFY2(certificates.isValid(), qPrintable(certificates.errorString()));
    RedisServer::Options options = RedisServer::Options::withTls(certificates);
    options.appendOnly = true;
    const Support::Certificates::Pair pair = certificate == u"wrong-host" ? certificates.wrongHost()
            : certificate == u"expired"                                   ? certificates.expired()
            : certificate == u"self-signed"                               ? certificates.selfSigned()
                                                                          : certificates.server();
    options.certificateFile = pair.certificate;
    options.keyFile = pair.key;
    Support::Started<RedisServer> server(options);
    const Report report = doctor(server.tlsUrl().toEncoded());
    QCOMPARE(report.level(u"dns"_s), u"ok"_s);
    if (status == 0) { // a warning if the host has a second address, on which nobody listens
        QVERIFY2(report.status <= 1, qPrintable(report.everything()));
        QVERIFY2(report.everything().contains(u"valid until"_s), qPrintable(report.everything()));
    } else {
        QVERIFY2(report.status == status, qPrintable(report.everything()));
        QCOMPARE(report.level(u"tls"_s), u"fail"_s);
    }
}

void tst_Doctor::unreachable_data()
{
    Support::addColumns<QByteArray, QString>("url", "check");
    QTest::newRow("no such name") << QByteArray("redis://:c4n4ry@no-such-name.invalid") << u"dns"_s;
    QTest::newRow("nobody listens") << QByteArray("redis://:c4n4ry@127.0.0.1:1") << u"connect"_s;
    QTest::newRow("no socket") << QByteArray("unix:///no/such/socket") << u"connect"_s;
    QTest::newRow("TLS, nobody listens") << QByteArray("rediss://:c4n4ry@127.0.0.1:1") << u"tls"_s;
}

void tst_Doctor::unreachable()
{
    QFETCH(QByteArray, url);
    QFETCH(QString, check);
    const Report report = doctor(url);
    QCOMPARE(report.status, 2);
    QVERIFY2(report.level(check) == u"fail", qPrintable(report.everything()));
    QVERIFY(report.of(u"rights"_s).isEmpty());
    QVERIFY(!report.of(check).first().value(u"remedy"_s).toString().isEmpty());
}

void tst_Doctor::password()
{
    const Report wrong = doctor(urlOf(Password));
    QCOMPARE(wrong.status, 2);
    QVERIFY2(wrong.level(u"login"_s) == u"fail", qPrintable(wrong.everything()));
    QVERIFY(!wrong.everything().contains(u"lockapp"_s));
}

void tst_Doctor::memory()
{
    const Report report = doctor("memory:");
    QCOMPARE(report.status, 2);
    QCOMPARE(run({"redis://host:port"}, {u"doctor"_s}).status, 78);
}

QTEST_GUILESS_MAIN(tst_Doctor)

#include "tst_doctor.moc"
