// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// qdistlock with the URL of a service of Sentinels: what `doctor` finds, and that the other commands work.

#include "clitest.h"

#include "support/certificates.h"
#include "support/fakesentinel.h"
#include "support/posix.h"
#include "support/rows.h"
#include "support/sentinelset.h"

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using Support::FakeSentinel;
using Support::RedisServer;
using Support::SentinelSet;

namespace {

/// Short enough for leases of 30 s.
constexpr milliseconds DownAfter = 10s;
/// At other times: on a busy machine the Sentinels must not take anything for down.
constexpr milliseconds NeverDown = 10min;
/// A fail-over takes seconds, and more on a busy machine.
constexpr milliseconds Patience = 120s;

/// For a server that does not answer.
const QString Briefly = u"--connect-timeout=5s"_s;

} // namespace

class tst_DoctorSentinels : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init()
    {
        QVERIFY(eventually([this] { return isHealthy(); }, Patience));
    }
    void cleanupTestCase();

    void healthy();
    void text();
    void leastRights();
    void shortLease();
    void listedSentinels();
    void sameSentinelTwice();
    void staleSentinel();
    void sentinelsDisagree();
    void oneSilentSentinel();
    void twoSilentSentinels();
    void fewSentinels();
    void badSentinels_data();
    void badSentinels();
    void masterOfAnotherNetwork();
    void replicaIsDown();
    void replicaHasAnotherPassword();
    void noReplicaCanBePromoted();
    void plainUrlShowsReplicas();
    void tls();

    void runKeepsItsLockOverAFailOver();
    void tokenCommands();
    void listings();

private:
    using Report = DoctorResult;
    bool isHealthy() { return m_set->hasSwitchedFrom(0) && m_set->isHealthy(); }
    static std::unique_ptr<Program> startDoctor(const QUrl &url, const QStringList &options = {Patiently},
                                                const QByteArray &sentinelPassword = "sentinels");
    Report reportOf(Program *doctor);
    Report doctor(const QUrl &url, const QStringList &options = {Patiently},
                  const QByteArray &sentinelPassword = "sentinels")
    {
        return reportOf(startDoctor(url, options, sentinelPassword).get());
    }
    Program::Setup setup() const
    {
        return {m_set->url().toEncoded(), {{u"QDISTLOCK_SENTINEL_PASSWORD"_s, u"sentinels"_s}}};
    }
    Result run(const QStringList &arguments) { return CliTesting::run(setup(), QStringList{Patiently} + arguments); }
    static QList<QJsonObject> goodViews(const Report &report);
    static QUrl urlOf(const QList<const FakeSentinel *> &sentinels);
    QString sentinelName(int index) const { return u"127.0.0.1:%1"_s.arg(m_set->sentinelPort(index)); }

    std::unique_ptr<SentinelSet> m_set;
    QByteArray m_json; ///< all that was printed
};

std::unique_ptr<Program> tst_DoctorSentinels::startDoctor(const QUrl &url, const QStringList &options,
                                                          const QByteArray &sentinelPassword)
{
    const Program::Setup setup{url.toEncoded(),
                               {{u"QDISTLOCK_SENTINEL_PASSWORD"_s, QString::fromLatin1(sentinelPassword)}}};
    return std::make_unique<Program>(setup, QStringList{u"doctor"_s, u"--json"_s} + options);
}

tst_DoctorSentinels::Report tst_DoctorSentinels::reportOf(Program *doctor)
{
    const int status = doctor->waitForStatus();
    const QByteArray output = doctor->output();
    const QByteArray errors = doctor->errors();
    m_json += output;
    for (const char *const secret : {":masters", "c4n4ry"}) {
        if (output.contains(secret) || errors.contains(secret))
            qFatal("a password was printed");
    }
    if (!errors.isEmpty())
        qWarning("%s", errors.constData());
    return {status, QJsonDocument::fromJson(output).object()};
}

/// Those that say ok, or only warn that the Sentinel is slow, because the machine paused.
QList<QJsonObject> tst_DoctorSentinels::goodViews(const Report &report)
{
    QList<QJsonObject> views = report.of(u"sentinel"_s, u"ok"_s);
    const QList<QJsonObject> warnings = report.of(u"sentinel"_s, u"warn"_s);
    std::copy_if(warnings.begin(), warnings.end(), std::back_inserter(views), [](const QJsonObject &view) {
        return view.value(u"text"_s).toString().contains(u"clients take it for silent after 500ms"_s);
    });
    return views;
}

QUrl tst_DoctorSentinels::urlOf(const QList<const FakeSentinel *> &sentinels)
{
    QStringList nodes;
    for (const FakeSentinel *const sentinel : sentinels.sliced(1))
        nodes.append(u"node=127.0.0.1:%1"_s.arg(sentinel->port()));
    const QString text = u"redis+sentinel://:masters@127.0.0.1:%1/mymaster"_s.arg(sentinels.first()->port());
    return QUrl(nodes.isEmpty() ? text : text + u'?' + nodes.join(u'&'));
}

void tst_DoctorSentinels::initTestCase()
{
    SentinelSet::Options options;
    options.downAfter = NeverDown;
    options.sentinelUsers.append("lockapp on >c4n4ry &+switch-master +auth +ping +client|setname +client|id "
                                 "+client|list +client|kill +subscribe +sentinel|master +sentinel|sentinels "
                                 "+sentinel|myid +sentinel|get-master-addr-by-name");
    m_set = std::make_unique<SentinelSet>(options);
    QVERIFY2(m_set->start(), qPrintable(m_set->errorString()));
    m_set->setCalm(true); // doctor warns of a connection that a Sentinel has lost
}

/// Everything printed matches docs/qdistlock.schema.json.
void tst_DoctorSentinels::cleanupTestCase()
{
    const QByteArray problems = problemsOfJson(m_json);
    QVERIFY2(problems.isEmpty(), problems.constData());
    m_set.reset();
}

void tst_DoctorSentinels::healthy()
{
    m_set->setDownAfter(DownAfter);
    const Report report = doctor(m_set->url());
    m_set->setDownAfter(NeverDown);
    const QString all = report.everything();
    QVERIFY2(report.status == 1, qPrintable(all)); // the append-only file is off
    const QString master = u"127.0.0.1:%1"_s.arg(m_set->masterPort());
    for (int i = 0; i < 3; ++i) {
        const QList<QJsonObject> views = goodViews(report);
        QVERIFY2(std::any_of(views.begin(), views.end(),
                             [&](const QJsonObject &view) {
                                 return view.value(u"sentinel"_s) == sentinelName(i)
                                         && view.value(u"master"_s) == master && view.value(u"configEpoch"_s) == 0;
                             }),
                 qPrintable(all));
    }
    QCOMPARE(report.of(u"sentinel"_s).size(), 3);
    QVERIFY2(report.has(u"majority"_s, u"ok"_s, u"3 of 3 Sentinels name %1 with config epoch 0"_s.arg(master)),
             qPrintable(all));
    QVERIFY2(report.has(u"failover"_s, u"ok"_s, u"leases from 19s on survive that"_s), qPrintable(all));
    QCOMPARE(report.of(u"failover"_s).first().value(u"downAfterMs"_s).toInt(), 10000);
    QVERIFY2(report.has(u"announced"_s, u"ok"_s, u"2 replicas can be reached"_s), qPrintable(all));
    QVERIFY2(report.has(u"replicas"_s, u"info"_s, u"2, asynchronous"_s), qPrintable(all));
    const QList<QJsonObject> replicas = report.of(u"replica"_s, u"info"_s);
    QCOMPARE(replicas.size(), 2);
    for (const QJsonObject &replica : replicas) {
        QVERIFY(replica.value(u"replica"_s).toString().startsWith(u"127.0.0.1:"_s));
        QVERIFY(replica.value(u"bytesBehind"_s).toInt(-1) >= 0);
        QVERIFY(replica.value(u"silentSeconds"_s).toInt(-1) >= 0);
    }
    for (const char *const check : {"url", "connect", "login", "role", "rights", "messages", "locks"})
        QVERIFY2(!report.of(QString::fromLatin1(check), u"ok"_s).isEmpty(), check);
    QVERIFY(report.of({}, u"fail"_s).isEmpty());
}

void tst_DoctorSentinels::text()
{
    const Result result = run({u"doctor"_s});
    QCOMPARE(result.status, 1);
    for (const char *const line : {"ok   url: redis+sentinel://127.0.0.1:", "\nok   sentinel: 127.0.0.1:",
                                   "\nok   majority: 3 of 3 ", "\nok   announced: ", "\ninfo replica: 127.0.0.1:"})
        QVERIFY2(result.output.contains(line), result.output.constData());
}

/// The rights that docs/servers.md lists for a user at the Sentinels suffice for everything but the replicas.
void tst_DoctorSentinels::leastRights()
{
    const Report report = doctor(m_set->url(u"sentinel-user=lockapp"_s), {Patiently}, "c4n4ry");
    QVERIFY2(report.status == 1, qPrintable(report.everything()));
    QCOMPARE(goodViews(report).size(), 3);
    QVERIFY2(report.has(u"announced"_s, u"info"_s, u"may not ask"_s, u"+sentinel|replicas"_s),
             qPrintable(report.everything()));
}

void tst_DoctorSentinels::shortLease()
{
    m_set->setDownAfter(30s); // Redis's default
    const Report report = doctor(m_set->url());
    m_set->setDownAfter(NeverDown);
    QCOMPARE(report.status, 1);
    QVERIFY2(report.has(u"failover"_s, u"warn"_s, u"leases from 49s on survive that, one of 30s does not"_s,
                        u"SENTINEL SET mymaster down-after-milliseconds 5000"_s),
             qPrintable(report.everything()));
}

void tst_DoctorSentinels::listedSentinels()
{
    const Report report = doctor(QUrl(u"redis+sentinel://:masters@%1/mymaster"_s.arg(sentinelName(0))));
    QVERIFY2(report.status == 1, qPrintable(report.everything()));
    // One of them may have seemed slow.
    const qsizetype listed = report.of(u"sentinel"_s, u"info"_s).size();
    QVERIFY2(listed == 2 || listed == 1, qPrintable(report.everything()));
    QCOMPARE(goodViews(report).size(), 3 - listed);
    QVERIFY2(report.has(u"sentinel"_s, u"info"_s, u"not in the URL"_s, u"add node=127.0.0.1:"_s),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"ok"_s, u"3 of 3"_s), qPrintable(report.everything()));
}

void tst_DoctorSentinels::sameSentinelTwice()
{
    QUrl url = m_set->url();
    url.setQuery(u"node=localhost:%1"_s.arg(m_set->sentinelPort(0)));
    const Report report = doctor(url);
    QVERIFY2(report.has(u"sentinel"_s, u"warn"_s, u"it is the same Sentinel as %1"_s.arg(sentinelName(0))),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"ok"_s, u"3 of 3"_s), qPrintable(report.everything()));
}

void tst_DoctorSentinels::staleSentinel()
{
    FakeSentinel::View view;
    view.port = m_set->masterPort();
    view.epoch = 3;
    const FakeSentinel first(view);
    const FakeSentinel second(view);
    view.port = Support::Posix::freePort();
    view.epoch = 2;
    const FakeSentinel stale(view);
    const Report report = doctor(urlOf({&stale, &first, &second}));
    QVERIFY2(report.status == 1, qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"warn"_s,
                        u"127.0.0.1:%1 names 127.0.0.1:%2 with config epoch 2"_s.arg(stale.port()).arg(view.port)),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"connect"_s, u"ok"_s, u"port %1,"_s.arg(m_set->masterPort())),
             qPrintable(report.everything()));
}

void tst_DoctorSentinels::sentinelsDisagree()
{
    FakeSentinel::View view;
    view.port = m_set->masterPort();
    const FakeSentinel first(view);
    view.port = Support::Posix::freePort();
    const FakeSentinel second(view);
    const Report report = doctor(urlOf({&first, &second}));
    QCOMPARE(report.status, 2);
    QVERIFY2(report.has(u"majority"_s, u"fail"_s, u"1 of 2 Sentinels name "_s, u"reach each other"_s),
             qPrintable(report.everything()));
    const QString text = report.of(u"majority"_s, u"fail"_s).first().value(u"text"_s).toString();
    QVERIFY(text.contains(u"names 127.0.0.1:%1 with"_s.arg(view.port))
            || text.contains(u"names 127.0.0.1:%1 with"_s.arg(m_set->masterPort())));
}

void tst_DoctorSentinels::oneSilentSentinel()
{
    m_set->pauseSentinel(2);
    const Report report = doctor(m_set->url(), {Briefly});
    m_set->resumeSentinel(2);
    QVERIFY2(report.has(u"majority"_s, u"ok"_s, u"2 of 3 Sentinels name "_s), qPrintable(report.everything()));
    QVERIFY2(report.has(u"sentinel"_s, u"warn"_s, sentinelName(2)), qPrintable(report.everything()));
    QCOMPARE(report.status, 1);
}

void tst_DoctorSentinels::twoSilentSentinels()
{
    m_set->pauseSentinel(1);
    m_set->pauseSentinel(2);
    // At the same time, because each waits for both.
    const auto first = startDoctor(m_set->url(), {Briefly});
    const auto second = startDoctor(m_set->url(u"confirm=off"_s), {Briefly});
    const Report confirmed = reportOf(first.get());
    const Report unconfirmed = reportOf(second.get());
    m_set->resumeSentinel(1);
    m_set->resumeSentinel(2);
    QVERIFY2(confirmed.has(u"majority"_s, u"fail"_s, u"held locks are lost at their deadline"_s),
             qPrintable(confirmed.everything()));
    QCOMPARE(confirmed.status, 2);
    QVERIFY2(unconfirmed.has(u"majority"_s, u"warn"_s, u"nobody can replace the master"_s),
             qPrintable(unconfirmed.everything()));
    QCOMPARE(unconfirmed.status, 1);
    for (const Report &report : {confirmed, unconfirmed}) {
        for (const int silent : {1, 2})
            QVERIFY2(report.has(u"sentinel"_s, u"warn"_s, sentinelName(silent)), qPrintable(report.everything()));
    }
}

void tst_DoctorSentinels::fewSentinels()
{
    FakeSentinel::View view;
    view.port = m_set->masterPort();
    const FakeSentinel sentinel(view);
    const Report report = doctor(urlOf({&sentinel}));
    QVERIFY2(report.has(u"majority"_s, u"warn"_s, u"1 Sentinel: while one is down"_s, u"at least three"_s),
             qPrintable(report.everything()));
}

void tst_DoctorSentinels::badSentinels_data()
{
    Support::addColumns<QString, QString, QString, QString>("kind", "level", "text", "remedy");
    QTest::newRow("unknown service") << u"service"_s << u"fail"_s << u"knows no service \"other\""_s
                                     << u"it knows: mymaster"_s;
    QTest::newRow("a Redis server") << u"redis"_s << u"fail"_s << u"is a Redis server and no Sentinel"_s
                                    << u"whose usual port is 26379"_s;
    QTest::newRow("wrong password") << u"password"_s << u"fail"_s << u"WRONGPASS"_s << u"the same user and password"_s;
    QTest::newRow("no password") << u"no password"_s << u"fail"_s << u"QDISTLOCK_SENTINEL_PASSWORD"_s
                                 << u"the same user and password"_s;
    QTest::newRow("nobody listens") << u"nobody"_s << u"warn"_s << u"refused"_s << u"no firewall is between"_s;
    QTest::newRow("no Redis") << u"http"_s << u"warn"_s << u"is it a Redis server?"_s
                              << u"give the addresses of the Sentinels"_s;
}

/// None names a master, so the server is not examined.
void tst_DoctorSentinels::badSentinels()
{
    QFETCH(QString, kind);
    RedisServer redis(RedisServer::Options::withTcp());
    const Support::FakeServer http(QByteArray("HTTP/1.1 400 Bad Request\r\n\r\n"));
    QUrl url = m_set->url();
    QByteArray password = kind == u"password" ? "c4n4ry" : "sentinels";
    if (kind == u"service") {
        url.setPath(u"/other"_s);
    } else if (kind != u"password" && kind != u"no password") {
        if (kind == u"redis")
            QVERIFY2(redis.start(), qPrintable(redis.errorString()));
        url.setQuery(QString());
        url.setPort(kind == u"redis" ? redis.port() : kind == u"http" ? http.port() : Support::Posix::freePort());
    }
    if (kind == u"redis" || kind == u"no password")
        password.clear();
    const Report report = doctor(url, {Patiently}, password);
    QFETCH(QString, level);
    QFETCH(QString, text);
    QFETCH(QString, remedy);
    QVERIFY2(report.has(u"sentinel"_s, level, text, remedy), qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"fail"_s, u"no Sentinel names a master"_s), qPrintable(report.everything()));
    QVERIFY(report.of(u"rights"_s).isEmpty());
    QCOMPARE(report.status, 2);
}

/// The Sentinels name an address that only they reach.
void tst_DoctorSentinels::masterOfAnotherNetwork()
{
    FakeSentinel::View view;
    view.port = Support::Posix::freePort();
    const FakeSentinel sentinel(view);
    const Report report = doctor(QUrl(u"redis+sentinel://127.0.0.1:%1/mymaster"_s.arg(sentinel.port())), {Patiently},
                                 {});
    QCOMPARE(report.status, 2);
    QVERIFY2(report.has(u"connect"_s, u"fail"_s, u"port %1"_s.arg(view.port), u"replica-announce-ip"_s),
             qPrintable(report.everything()));
}

void tst_DoctorSentinels::replicaIsDown()
{
    RedisServer &replica = m_set->serverAt(m_set->masterPort() == m_set->server(0).port() ? m_set->server(1).port()
                                                                                          : m_set->server(0).port());
    replica.kill();
    const Report report = doctor(m_set->url());
    QVERIFY2(replica.start(), qPrintable(replica.errorString()));
    QVERIFY2(report.status == 1, qPrintable(report.everything()));
    QVERIFY2(report.has(u"announced"_s, u"warn"_s, u"127.0.0.1:%1"_s.arg(replica.port())),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"replicas"_s, u"info"_s, u"1, asynchronous"_s), qPrintable(report.everything()));
}

void tst_DoctorSentinels::replicaHasAnotherPassword()
{
    RedisServer &replica = m_set->serverAt(m_set->masterPort() == m_set->server(0).port() ? m_set->server(1).port()
                                                                                          : m_set->server(0).port());
    replica.command({"CONFIG", "SET", "requirepass", "c4n4ry"});
    const Report report = doctor(m_set->url());
    replica.command({"CONFIG", "SET", "requirepass", "masters"});
    QVERIFY2(report.has(u"announced"_s, u"warn"_s, u"WRONGPASS"_s, u"no client can log in"_s),
             qPrintable(report.everything()));
}

void tst_DoctorSentinels::noReplicaCanBePromoted()
{
    const auto setPriority = [this](const QByteArray &priority) {
        for (int i = 0; i < m_set->serverCount(); ++i)
            m_set->server(i).command({"CONFIG", "SET", "replica-priority", priority});
    };
    const auto areSeen = [this](const QByteArray &priority) {
        QVariantList replicas;
        for (int i = 0; i < 3; ++i)
            replicas += m_set->sentinelCommand(i, {"SENTINEL", "REPLICAS", "mymaster"}).toList();
        return std::all_of(replicas.begin(), replicas.end(), [&](const QVariant &replica) {
            const QVariantList fields = replica.toList();
            return fields.value(fields.indexOf(QByteArray("slave-priority")) + 1).toByteArray() == priority;
        });
    };
    setPriority("0");
    QVERIFY(eventually([&] { return areSeen("0"); }, Patience));
    const Report report = doctor(m_set->url());
    setPriority("100");
    QVERIFY2(report.has(u"announced"_s, u"warn"_s, u"no replica may become the master"_s, u"replica-priority"_s),
             qPrintable(report.everything()));
    QVERIFY(eventually([&] { return areSeen("100"); }, Patience));
}

void tst_DoctorSentinels::plainUrlShowsReplicas()
{
    const Report report = doctor(QUrl(u"redis://:masters@127.0.0.1:%1"_s.arg(m_set->masterPort())));
    QVERIFY2(report.has(u"replicas"_s, u"info"_s, u"2, asynchronous"_s), qPrintable(report.everything()));
    QCOMPARE(report.of(u"replica"_s, u"info"_s).size(), 2);
    QVERIFY(report.of(u"sentinel"_s).isEmpty());
    // A user without INFO, as that of docs/acl.txt, learns it from ROLE.
    RedisServer &master = m_set->master();
    master.command({"ACL", "SETUSER", "small", "on", ">c4n4ry", "~*", "&*", "+@all", "-info"});
    const Report small = doctor(QUrl(u"redis://small:c4n4ry@127.0.0.1:%1"_s.arg(m_set->masterPort())));
    master.command({"ACL", "DELUSER", "small"});
    QVERIFY2(small.has(u"replicas"_s, u"info"_s, u"2, asynchronous"_s), qPrintable(small.everything()));
    QCOMPARE(small.of(u"replica"_s, u"info"_s).size(), 2);
}

void tst_DoctorSentinels::tls()
{
    const Support::Certificates certificates;
    QVERIFY2(certificates.isValid(), qPrintable(certificates.errorString()));
    SentinelSet::Options options;
    options.replicas = 1;
    options.downAfter = NeverDown;
    options.certificates = &certificates;
    Support::Started<SentinelSet> set(options);
    set.setCalm(true);
    QVERIFY(eventually([&set] { return set.isHealthy(); }, Patience));
    const Report report = doctor(set.url());
    QVERIFY2(report.status == 1, qPrintable(report.everything()));
    QCOMPARE(goodViews(report).size(), 3);
    QVERIFY2(report.has(u"tls"_s, u"ok"_s, u"port %1: the certificate is valid until"_s.arg(set.masterPort())),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"announced"_s, u"ok"_s, u"1 replica can be reached"_s), qPrintable(report.everything()));

    QUrl url = set.url();
    url.setQuery(u"ca="_s + certificates.otherCa());
    const Report untrusted = doctor(url);
    QCOMPARE(untrusted.status, 2);
    QVERIFY2(untrusted.has(u"sentinel"_s, u"fail"_s, u"certificate is refused"_s, u"ca=, cert= and key="_s),
             qPrintable(untrusted.everything()));
}

void tst_DoctorSentinels::runKeepsItsLockOverAFailOver()
{
    const quint16 oldPort = m_set->masterPort();
    Program program(setup(),
                    {Patiently, u"run"_s, u"--lease"_s, u"1h"_s, u"nightly"_s, u"-c"_s,
                     u"echo fence=$QDISTLOCK_FENCE; cat; exit 3"_s});
    const qint64 fence = program.numberIn("fence");
    QVERIFY2(fence > 0, program.errors().constData());
    const QByteArray token = m_set->master().get("lock:nightly");
    QVERIFY(!token.isEmpty());
    QVERIFY(m_set->master().waitUntilReplicated(2));
    m_set->setCalm(false);
    QVERIFY(eventually([&] { return m_set->failOverFrom(oldPort); }, Patience));
    QVERIFY(eventually([&] { return m_set->hasSwitchedFrom(oldPort) && m_set->isHealthy(); }, Patience));
    m_set->setCalm(true);
    QCOMPARE(m_set->master().get("lock:nightly"), token);
    const Result busy = run({u"run"_s, u"-n"_s, u"nightly"_s, u"true"_s});
    QVERIFY2(busy.status == 75, busy.errors.constData());
    program.closeWriteChannel();
    QVERIFY2(program.waitForStatus() == 3, program.errors().constData());
    QVERIFY(eventually([this] { return lockKeys(m_set->master()).isEmpty(); }));
}

void tst_DoctorSentinels::tokenCommands()
{
    QTemporaryDir folder;
    const QString file = folder.filePath(u"token"_s);
    const auto succeeds = [this](const QStringList &arguments) {
        const Result result = run(arguments);
        if (result.status != 0)
            qWarning("%s", result.errors.constData());
        return result.status == 0;
    };
    QVERIFY(succeeds({u"acquire"_s, u"step"_s, u"--lease"_s, u"1m"_s, u"--token-file"_s, file}));
    QVERIFY(m_set->master().exists("lock:step"));
    QVERIFY(succeeds({u"renew"_s, u"step"_s, u"--token-file"_s, file}));
    QVERIFY(succeeds({u"release"_s, u"step"_s, u"--token-file"_s, file}));
    QVERIFY(!m_set->master().exists("lock:step"));
}

void tst_DoctorSentinels::listings()
{
    m_set->master().command({"SET", "lock:other", "foreign", "PX", "60000"});
    Program watch(setup(), {Patiently, u"watch"_s, u"--json"_s});
    QVERIFY2(watch.waitForOutput("\"snapshot\""), watch.errors().constData());
    const Result list = run({u"ls"_s});
    QVERIFY2(list.status == 0 && list.output.startsWith("other\t"), list.errors.constData());
    const Result show = run({u"show"_s, u"other"_s});
    QVERIFY2(show.status == 0 && show.output.contains("another library"), show.errors.constData());
    Program hold(setup(), {Patiently, u"hold"_s, u"mine"_s});
    QVERIFY2(hold.waitForOutput("\n"), hold.errors().constData());
    QVERIFY2(watch.waitForOutput("mine"), watch.output().constData());
    hold.closeWriteChannel();
    QVERIFY2(hold.waitForStatus() == 0, hold.errors().constData());
    const Result release = run({u"release"_s, u"other"_s, u"--force"_s, u"--yes"_s});
    QVERIFY2(release.status == 0, release.errors.constData());
    QVERIFY(lockKeys(m_set->master()).isEmpty());
}

QTEST_GUILESS_MAIN(tst_DoctorSentinels)

#include "tst_doctorsentinels.moc"
