// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Sentinels over TLS and with users; and what a user reads who has given wrong addresses, names or passwords.

#include "support/locktest.h"

#include "support/aclrules.h"
#include "support/certificates.h"
#include "support/eventually.h"
#include "support/fakesentinel.h"
#include "support/posix.h"
#include "support/rows.h"
#include "support/sentinelset.h"

#include <QDistLock/LockMonitorModel>

#include <QtCore/qfile.h>
#include <QtCore/qsavefile.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qtemporarydir.h>
#include <QtNetwork/qtcpsocket.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// A fail-over that was asked for takes a second, on a busy machine much more.
constexpr milliseconds Patience = 120s;
/// Longer than any fail-over.
constexpr milliseconds Lease = 30min;
/// On a busy machine the Sentinels must not replace a master that is alive.
constexpr milliseconds NeverDown = 10min;

const QByteArray Password = "c4n4ry";

/// As docs/servers.md lists them for a user at the Sentinels.
const QByteArray SentinelRights = "+auth +ping +client|setname +client|id +client|list +client|kill +subscribe "
                                  "+sentinel|master +sentinel|sentinels +sentinel|myid "
                                  "+sentinel|get-master-addr-by-name";
const QByteArray SentinelChannel = "&+switch-master";

} // namespace

class tst_SentinelAccess : public LockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanupTestCase() { m_set.reset(); }

    void tls();
    void tlsProblems_data();
    void tlsProblems();
    void leastRights();
    void monitorUser();
    void missingRight();
    void passwordsReplaced();
    void announcedAddress_data();
    void announcedAddress();
    void badInput_data();
    void badInput();
    void newMasterHasAnotherPassword();

private:
    QUrl serverUrl() override { return m_set->url(); }
    struct Attempt
    {
        bool isHeld = false;
        DistributedLock::Error error = DistributedLock::NoError;
        QString text;
        QString log;
    };
    static Attempt attempt(const QUrl &url, const QStringList &expected = {});
    static bool failOver(SentinelSet *set);

    std::unique_ptr<SentinelSet> m_set;
};

/// Tries to acquire a lock once, until that fails or the reason why it still waits contains all of \a expected: on a
/// busy machine this need not be the first reason.
tst_SentinelAccess::Attempt tst_SentinelAccess::attempt(const QUrl &url, const QStringList &expected)
{
    Attempt result;
    const LogCapture log;
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, options(Lease));
    const auto isExpected = [&] {
        const QString text = lock.errorString();
        return !expected.isEmpty() && all(expected, [&](const QString &t) { return text.contains(t); });
    };
    lock.acquire();
    eventually([&] { return lock.spies.acquiresEnded() == 1 || isExpected(); }, Patience);
    result.isHeld = lock.isHeld();
    result.error = lock.error();
    result.text = lock.errorString();
    result.log = log.text();
    return result;
}

bool tst_SentinelAccess::failOver(SentinelSet *set)
{
    const quint16 old = set->masterPort();
    return eventually([&] { return set->failOverFrom(old); }, Patience)
            && eventually([&] { return set->hasSwitchedFrom(old) && set->isHealthy(); }, Patience);
}

void tst_SentinelAccess::initTestCase()
{
    SentinelSet::Options options;
    options.replicas = 1;
    options.downAfter = NeverDown;
    options.sentinelUsers.append("lockapp on >" + Password + ' ' + SentinelChannel + ' ' + SentinelRights);
    QByteArray withoutMaster = SentinelRights;
    withoutMaster.replace("+sentinel|master ", "");
    options.sentinelUsers.append("small on >" + Password + ' ' + SentinelChannel + ' ' + withoutMaster);
    m_set = std::make_unique<SentinelSet>(options);
    QVERIFY2(m_set->start(), qPrintable(m_set->errorString()));
}

void tst_SentinelAccess::init()
{
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", "sentinels");
    m_set->master().command({"FLUSHALL"});
}

/// Sentinels, servers, and the links between them.
void tst_SentinelAccess::tls()
{
    const Certificates certificates;
    QVERIFY2(certificates.isValid(), qPrintable(certificates.errorString()));
    SentinelSet::Options setOptions;
    setOptions.replicas = 1;
    setOptions.downAfter = NeverDown;
    setOptions.certificates = &certificates;
    Started<SentinelSet> set(setOptions);
    QCOMPARE(set.url().scheme(), u"rediss+sentinel"_s);
    QCOMPARE(set.masterPort(), set.master().tlsPort());

    LockRegistry registry(set.url());
    TestLock lock(&registry, u"job"_s, options(Lease).withMinReplicas(1));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    const QByteArray token = set.master().get("lock:job");
    QVERIFY(failOver(&set));
    QVERIFY2(eventually([&] { return !lock.spies.renewed.isEmpty(); }, Patience), qPrintable(lock.errorString()));
    QVERIFY(lock.isHeld() && lock.spies.lost.isEmpty());
    QCOMPARE(set.master().get("lock:job"), token);
    lock.release();
    QVERIFY(eventually([&] { return !set.master().exists("lock:job"); }));
}

void tst_SentinelAccess::tlsProblems_data()
{
    addColumns<QString, QString>("kind", "text");
    QTest::newRow("another authority") << u"authority"_s << u"certificate"_s;
    QTest::newRow("Sentinel without TLS") << u"plain"_s << u"TLS"_s;
    QTest::newRow("URL without TLS") << u"url"_s << u"the server closed the connection"_s;
}

void tst_SentinelAccess::tlsProblems()
{
    QFETCH(QString, kind);
    QFETCH(QString, text);
    const Certificates certificates;
    SentinelSet::Options setOptions;
    setOptions.replicas = 0;
    setOptions.sentinels = 1;
    setOptions.downAfter = NeverDown;
    setOptions.certificates = &certificates;
    SentinelSet set(setOptions);
    if (kind != u"plain")
        QVERIFY2(set.start(), qPrintable(set.errorString()));
    QUrl url = kind == u"plain" ? m_set->url() : set.url();
    if (kind == u"plain") {
        url.setScheme(u"rediss+sentinel"_s);
    } else if (kind == u"url") {
        url.setScheme(u"redis+sentinel"_s);
        url.setQuery(QString());
    } else {
        url.setQuery(u"ca="_s + certificates.otherCa());
    }
    const Attempt result = attempt(url, {text});
    QVERIFY(!result.isHeld);
    QVERIFY2(result.text.contains(text), qPrintable(result.text));
}

/// Users with the rights that docs/servers.md and docs/acl.txt list, at the Sentinels and at the servers.
void tst_SentinelAccess::leastRights()
{
    QFile page(QStringLiteral(SERVERS_PAGE));
    QVERIFY(page.open(QIODevice::ReadOnly));
    const QByteArray text = page.readAll().simplified();
    QVERIFY(text.contains('`' + SentinelRights + '`') && text.contains('`' + SentinelChannel + '`'));
    for (int i = 0; i < m_set->serverCount(); ++i) {
        const QVariant set = m_set->server(i).command(QByteArrayList{"ACL", "SETUSER", "lockapp"}
                                                      + aclRule("lockapp", Password));
        QCOMPARE(set.toByteArray(), QByteArray("OK"));
    }
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", Password);
    QUrl url = m_set->url(u"sentinel-user=lockapp"_s);
    url.setUserName(u"lockapp"_s);
    url.setPassword(QString::fromLatin1(Password));

    const LogCapture log;
    LockRegistry registry(url);
    TestLock lock(&registry, u"job"_s, options(Lease).withMinReplicas(1));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(m_set->master().waitUntilReplicated(1));
    QVERIFY(failOver(m_set.get()));
    QVERIFY2(eventually([&] { return !lock.spies.renewed.isEmpty(); }, Patience), qPrintable(lock.errorString()));
    QVERIFY(lock.isHeld() && lock.spies.lost.isEmpty());
    QVERIFY2(!log.text().contains(QString::fromLatin1(Password)), qPrintable(log.text()));
    QVERIFY2(!log.text().contains(u"NOPERM"_s), qPrintable(log.text()));
}

/// One who only reads the locks; at the Sentinels with the rights of any other client.
void tst_SentinelAccess::monitorUser()
{
    for (int i = 0; i < m_set->serverCount(); ++i) {
        const QVariant set = m_set->server(i).command(QByteArrayList{"ACL", "SETUSER", "lockmonitor"}
                                                      + aclRule("lockmonitor", Password));
        QCOMPARE(set.toByteArray(), QByteArray("OK"));
    }
    TestLock lock(registry(), u"job"_s, options(Lease));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", Password);
    QUrl url = m_set->url(u"sentinel-user=lockapp"_s);
    url.setUserName(u"lockmonitor"_s);
    url.setPassword(QString::fromLatin1(Password));
    LockRegistry monitor(url);
    const QDistLock::LockMonitorModel model(&monitor);
    EVENTUALLY_VERIFY(model.isComplete());
    QCOMPARE(model.problems(), QStringList());
    QVERIFY(model.rowOf(u"job"_s) >= 0);
    QCOMPARE(awaited(monitor.forceRelease(u"job"_s)).error, DistributedLock::PermissionError);
    QVERIFY(lock.isHeld());
}

void tst_SentinelAccess::missingRight()
{
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", Password);
    const Attempt result = attempt(m_set->url(u"sentinel-user=small"_s));
    QVERIFY(!result.isHeld);
    QCOMPARE(result.error, DistributedLock::PermissionError);
    QVERIFY2(result.text.contains(u"forbids to ask for the master"_s)
                     && result.text.contains(u"allow the commands listed in docs/servers.md"_s),
             qPrintable(result.text));
}

/// In files, while the program runs: those of the servers and those of the Sentinels.
void tst_SentinelAccess::passwordsReplaced()
{
    const QByteArray first = Password, second = "an0ther";
    const QTemporaryDir folder;
    const QString path = folder.filePath(u"password"_s);
    const auto write = [&path](const QByteArray &password) {
        QSaveFile file(path);
        return file.open(QIODevice::WriteOnly) && file.write(password + '\n') > 0 && file.commit();
    };
    const auto setPasswords = [this](const QByteArray &password) {
        for (int i = 0; i < m_set->serverCount(); ++i) {
            m_set->server(i).command({"ACL", "SETUSER", "lockapp", "reset", ">" + password, "on", "~*", "&*", "+@all"});
        }
        for (int i = 0; i < 3; ++i)
            m_set->sentinelCommand(i, {"ACL", "SETUSER", "lockapp", "resetpass", ">" + password});
    };
    const auto clean = qScopeGuard([&] {
        qunsetenv("QDISTLOCK_PASSWORD_FILE");
        qunsetenv("QDISTLOCK_SENTINEL_PASSWORD_FILE");
        setPasswords(first);
    });
    qunsetenv("QDISTLOCK_SENTINEL_PASSWORD");
    qputenv("QDISTLOCK_PASSWORD_FILE", path.toUtf8());
    qputenv("QDISTLOCK_SENTINEL_PASSWORD_FILE", path.toUtf8());
    setPasswords(first);
    QVERIFY(write(first));
    QUrl url = m_set->url(u"sentinel-user=lockapp"_s);
    url.setUserInfo(u"lockapp"_s);
    LockRegistry registry(url);
    DistributedLock lock(&registry, u"job"_s), other(&registry, u"other"_s);
    for (DistributedLock *each : {&lock, &other})
        each->setOptions(options(Lease));
    const Spies spies(&lock);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));

    QVERIFY(write(second));
    setPasswords(second);
    for (int i = 0; i < 3; ++i)
        QVERIFY(m_set->sentinelCommand(i, {"CLIENT", "KILL", "USER", "lockapp"}).toLongLong() > 0);
    QVERIFY(m_set->master().command({"CLIENT", "KILL", "USER", "lockapp"}).toLongLong() > 0);
    QVERIFY(eventually([&] { return registry.state() != LockRegistry::Ready; }, Patience));
    QVERIFY2(acquireNow(&other), qPrintable(other.errorString()));
    QVERIFY(lock.isHeld() && spies.lost.isEmpty());
    for (const auto &error : spies.errors)
        QVERIFY(error.first().value<DistributedLock::Error>() != DistributedLock::AuthenticationError);
}

void tst_SentinelAccess::announcedAddress_data()
{
    QTest::addColumn<QByteArray>("host");
    QTest::newRow("IPv4") << QByteArray("127.0.0.1");
    QTest::newRow("IPv6") << QByteArray("::1");
    QTest::newRow("host name") << QByteArray("localhost"); // resolve-hostnames and announce-hostnames
}

/// How the Sentinels name the master.
void tst_SentinelAccess::announcedAddress()
{
    QFETCH(QByteArray, host);
    RedisServer::Options options = RedisServer::Options::withTcp();
    options.config.append("bind 127.0.0.1 -::1");
    Started<RedisServer> server(options);
    QTcpSocket probe;
    probe.connectToHost(QString::fromLatin1(host), server.port());
    if (!probe.waitForConnected())
        QSKIP("this machine has no such address");
    FakeSentinel::View view;
    view.host = host;
    view.port = server.port();
    FakeSentinel sentinel(view);

    const Attempt result = attempt(QUrl(u"redis+sentinel://127.0.0.1:%1/mymaster"_s.arg(sentinel.port())));
    QVERIFY2(result.isHeld, qPrintable(result.text));
    QVERIFY2(server.command({"GET", "{lock:job}:fence"}).toLongLong() > 0, qPrintable(result.log));
    QVERIFY(eventually([&] { return server.command({"EXISTS", "lock:job"}) == QVariant(0LL); }));
}

void tst_SentinelAccess::badInput_data()
{
    using E = DistributedLock;
    addColumns<DistributedLock::Error, QString, QString>("error", "what", "advice");
    const auto row = [](const char *name, E::Error error, const QString &what, const QString &advice) {
        QTest::newRow(name) << error << what << advice;
    };
    row("unknown service", E::ServerError, u"knows no service \"another\""_s, u"check the name in the URL"_s);
    row("an ordinary Redis", E::ServerError, u"is a Redis server and no Sentinel"_s,
        u"give the addresses of the Sentinels, whose usual port is 26379, or use redis://"_s);
    row("no Redis", E::ProtocolError, u"invalid reply"_s, u"is it a Redis server?"_s);
    row("nobody listens", E::ConnectionError, u"none of its 1 Sentinels can be asked"_s,
        u"check their addresses, and whether they run"_s);
    row("no answer", E::ConnectionError, u"none of its 1 Sentinels can be asked"_s,
        u"check their addresses, and whether they run"_s);
    row("Sentinels that disagree", E::ServerError, u"its Sentinels disagree, some name 127.0.0.1:"_s,
        u"make sure that all of them belong to one service, and that they reach each other"_s);
    row("another password at the Sentinels", E::AuthenticationError, u"WRONGPASS"_s,
        u"check QDISTLOCK_SENTINEL_PASSWORD"_s);
    row("no password for the Sentinels", E::AuthenticationError, u"asks for a password"_s,
        u"give it in QDISTLOCK_SENTINEL_PASSWORD"_s);
    row("another user at the Sentinels", E::AuthenticationError, u"WRONGPASS"_s, u"its user as sentinel-user"_s);
    row("a user without a password", E::OptionsError, u"it has a sentinel-user"_s,
        u"QDISTLOCK_SENTINEL_PASSWORD is not set"_s);
    row("another password at the master", E::AuthenticationError, u"WRONGPASS"_s,
        u"give all servers of \"mymaster\" the same users and passwords"_s);
    row("a master that cannot be reached", E::ConnectionError, u"name this address as the master of \"mymaster\""_s,
        u"set replica-announce-ip on the servers to one that can"_s);
    row("a list of hosts", E::OptionsError, u"it has a list of hosts"_s,
        u"did you mean redis+sentinel://a:1/mymaster?node=b:2&node=c?"_s);
}

/// Each bad input has its own text, which says what to do.
void tst_SentinelAccess::badInput()
{
    const QByteArray kind = QTest::currentDataTag();
    RedisServer redis(RedisServer::Options::withTcp());
    const FakeServer other(kind == "no answer" ? QByteArray() : QByteArray("HTTP/1.1 400 Bad Request\r\n\r\n"));
    FakeSentinel::View view;
    view.port = Posix::freePort();
    const FakeSentinel first(view);
    view.port = Posix::freePort();
    const FakeSentinel second(view);
    QUrl url = m_set->url();
    const auto only = [&url](quint16 port) {
        url.setPort(port);
        url.setQuery(QString());
    };
    if (kind == "unknown service") {
        url.setPath(u"/another"_s);
    } else if (kind == "an ordinary Redis") {
        QVERIFY2(redis.start(), qPrintable(redis.errorString()));
        qunsetenv("QDISTLOCK_SENTINEL_PASSWORD");
        only(redis.port());
    } else if (kind == "no Redis" || kind == "no answer") {
        only(other.port());
    } else if (kind == "nobody listens") {
        only(Posix::freePort());
    } else if (kind == "Sentinels that disagree") {
        only(first.port());
        url.setQuery(u"node=127.0.0.1:%1"_s.arg(second.port()));
    } else if (kind == "another password at the Sentinels") {
        qputenv("QDISTLOCK_SENTINEL_PASSWORD", Password);
    } else if (kind.endsWith("for the Sentinels")) {
        qunsetenv("QDISTLOCK_SENTINEL_PASSWORD");
    } else if (kind == "another user at the Sentinels") {
        url = m_set->url(u"sentinel-user=nobody"_s);
    } else if (kind == "a user without a password") {
        qunsetenv("QDISTLOCK_SENTINEL_PASSWORD");
        url = m_set->url(u"sentinel-user=lockapp"_s);
    } else if (kind == "another password at the master") {
        url.setPassword(QString::fromLatin1(Password));
    } else if (kind == "a master that cannot be reached") {
        only(first.port());
    } else {
        url = QUrl(u"redis+sentinel://a:1,b:2,c/mymaster"_s);
    }
    QFETCH(DistributedLock::Error, error);
    QFETCH(QString, what);
    QFETCH(QString, advice);
    const Attempt result = attempt(url, {what, advice});
    QVERIFY(!result.isHeld);
    QVERIFY2(result.text.contains(what) && result.text.contains(advice), qPrintable(result.text));
    QVERIFY2(result.error == error || result.error == DistributedLock::TimeoutError, qPrintable(result.text));
    for (const char *const secret : {"c4n4ry", ":masters", "\"sentinels\""})
        QVERIFY2(!(result.text + result.log).contains(QLatin1String(secret)), qPrintable(result.text + result.log));
}

/// Held locks are reported on, and go on when the password was corrected.
void tst_SentinelAccess::newMasterHasAnotherPassword()
{
    TestLock lock(registry(), u"job"_s, options(Lease));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(m_set->master().waitUntilReplicated(1));
    const quint16 old = m_set->masterPort();
    RedisServer &next = m_set->server(0).port() == old ? m_set->server(1) : m_set->server(0);
    next.command({"CONFIG", "SET", "requirepass", Password});
    QVERIFY(eventually([&] { return m_set->failOverFrom(old); }, Patience));
    QVERIFY(eventually([&] { return m_set->hasSwitchedFrom(old); }, Patience));
    QVERIFY(eventually([&] { return registry()->error() == DistributedLock::AuthenticationError; }, Patience));
    QVERIFY2(registry()->errorString().contains(
                     u"127.0.0.1:%1/0: the server refuses user name or password (\"WRONGPASS\"); give all servers of "
                     "\"mymaster\" the same users and passwords"_s.arg(next.port())),
             qPrintable(registry()->errorString()));
    QVERIFY(lock.isHeld());
    next.command({"CONFIG", "SET", "requirepass", "masters"});
    QVERIFY(eventually([&] { return !lock.spies.renewed.isEmpty(); }, Patience));
    QVERIFY(lock.isHeld() && lock.spies.lost.isEmpty());
    QVERIFY(eventually([&] { return m_set->isHealthy(); }, Patience));
}

QTEST_GUILESS_MAIN(tst_SentinelAccess)
#include "tst_sentinelaccess.moc"
