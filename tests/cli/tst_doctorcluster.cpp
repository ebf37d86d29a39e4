// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// qdistlock with the URL of a Redis Cluster: what `doctor` finds, and that the other commands work.

#include "clitest.h"

#include "support/clusterslot.h"
#include "support/posix.h"
#include "support/rediscluster.h"

#include <algorithm>
#include <memory>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using Support::RedisCluster;
using Support::RedisServer;

namespace {

/// No pause of the machine lets a node take another one for down. Short enough for leases of 30 s.
constexpr milliseconds NodeTimeout = 15s;

} // namespace

class tst_DoctorCluster : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void cleanupTestCase();

    void healthy();
    void leastRights();
    void missingRights();
    void shortLease();
    void nodeIsDown();
    void noClusterNode();
    void nodeWithoutSlots();
    void twoClusters();
    void slotLeftMoving();
    void slotsThatNobodyServes();
    void locksOfAllMasters();

private:
    DoctorResult doctor(const QUrl &url);
    static QUrl with(QUrl url, quint16 port);

    std::unique_ptr<RedisCluster> m_cluster;
    QByteArray m_json; ///< all that was printed
};

DoctorResult tst_DoctorCluster::doctor(const QUrl &url)
{
    const Result result = run({url.toEncoded()}, {u"doctor"_s, u"--json"_s});
    m_json += result.output;
    if (result.output.contains("c4n4ry") || result.errors.contains("c4n4ry"))
        qFatal("a password was printed");
    if (!result.errors.isEmpty())
        qWarning("%s", result.errors.constData());
    return {result.status, QJsonDocument::fromJson(result.output).object()};
}

QUrl tst_DoctorCluster::with(QUrl url, quint16 port)
{
    url.setQuery(url.query() + u"&node=127.0.0.1:%1"_s.arg(port));
    return url;
}

void tst_DoctorCluster::initTestCase()
{
    RedisCluster::Options options;
    options.needsAllSlots = false;
    options.nodeTimeout = NodeTimeout;
    options.config = {"appendonly yes", "appendfsync always"}; // otherwise doctor warns
    // The rights of docs/servers.md.
    options.users = {
            "lockapp on >c4n4ry resetkeys ~lock:* ~{lock:*}* resetchannels &lock:client:* +ping +client|setname "
            "+client|id +client|list +client|kill +info +subscribe +evalsha +eval +scan +get +mget +set +del +time "
            "+pttl +pexpire +pexpireat +publish +exists +zadd +zrange +zrank +zscore +zrem +zcard +wait +role "
            "+cluster|slots +cluster|nodes +cluster|myid +asking +ssubscribe +sunsubscribe +spublish",
            "less on >c4n4ry resetkeys ~lock:* ~{lock:*}* resetchannels &lock:client:* +ping +client|setname "
            "+client|id +client|list +client|kill +info +subscribe +evalsha +eval +scan +get +mget +set +del +time "
            "+pttl +pexpire +pexpireat +publish +exists +zadd +zrange +zrank +zscore +zrem +zcard +wait +role "
            "+cluster|slots +cluster|nodes"};
    m_cluster = std::make_unique<RedisCluster>(options);
    QVERIFY2(m_cluster->start(), qPrintable(m_cluster->errorString()));
}

/// Everything printed matches docs/qdistlock.schema.json.
void tst_DoctorCluster::cleanupTestCase()
{
    m_cluster.reset();
    const QByteArray problems = problemsOfJson(m_json);
    QVERIFY2(problems.isEmpty(), problems.constData());
}

void tst_DoctorCluster::healthy()
{
    const DoctorResult report = doctor(m_cluster->url());
    QVERIFY2(report.status == 0, qPrintable(report.everything()));
    QCOMPARE(report.of(u"node"_s, u"ok"_s).size(), 3);
    QVERIFY2(report.has(u"slots"_s, u"ok"_s, u"3 masters serve all 16384 slots"_s), qPrintable(report.everything()));
    QVERIFY2(report.has(u"failover"_s, u"ok"_s, u"silent for 15s"_s), qPrintable(report.everything()));
    QCOMPARE(report.of(u"master"_s).size(), 3);
    for (const QString &check : {u"rights"_s, u"role"_s, u"latency"_s, u"queues"_s})
        QCOMPARE(report.of(check, u"ok"_s).size(), 3);
    QCOMPARE(report.of(u"locks"_s).size(), 1); // those of all masters together
}

void tst_DoctorCluster::leastRights()
{
    QUrl url = m_cluster->url();
    url.setUserName(u"lockapp"_s);
    url.setPassword(u"c4n4ry"_s);
    const DoctorResult report = doctor(url);
    QVERIFY2(report.of(u"rights"_s, u"ok"_s).size() == 3, qPrintable(report.everything()));
    QVERIFY2(report.status == 0, qPrintable(report.everything()));
}

void tst_DoctorCluster::missingRights()
{
    QUrl url = m_cluster->url();
    url.setUserName(u"less"_s);
    url.setPassword(u"c4n4ry"_s);
    const DoctorResult report = doctor(url);
    QVERIFY2(report.status == 2, qPrintable(report.everything()));
    QVERIFY2(report.has(u"rights"_s, u"fail"_s, u"the user lacks +asking"_s, u"ACL SETUSER"_s),
             qPrintable(report.everything()));
}

void tst_DoctorCluster::shortLease()
{
    m_cluster->node(0).command({"CONFIG", "SET", "cluster-node-timeout", "60000"});
    const DoctorResult report = doctor(m_cluster->url());
    m_cluster->node(0).command({"CONFIG", "SET", "cluster-node-timeout", QByteArray::number(NodeTimeout.count())});
    QVERIFY2(report.has(u"failover"_s, u"warn"_s, u"leases from 1m 34s on survive that, one of 30s does not"_s,
                        u"cluster-node-timeout"_s),
             qPrintable(report.everything()));
}

void tst_DoctorCluster::nodeIsDown()
{
    const quint16 port = Support::Posix::freePort();
    const DoctorResult report = doctor(with(m_cluster->url(), port));
    QVERIFY2(report.status == 1, qPrintable(report.everything()));
    QVERIFY2(report.has(u"node"_s, u"warn"_s, QString::number(port), u"check that the node runs"_s),
             qPrintable(report.everything()));
}

void tst_DoctorCluster::noClusterNode()
{
    Support::Started<RedisServer> single(RedisServer::Options::withTcp());
    const DoctorResult report = doctor(QUrl(u"redis+cluster://127.0.0.1:%1"_s.arg(single.port())));
    QVERIFY2(report.status == 2, qPrintable(report.everything()));
    QVERIFY2(report.has(u"node"_s, u"fail"_s, u"is no node of a Redis Cluster"_s, u"redis:// for this server alone"_s),
             qPrintable(report.everything()));
    const DoctorResult other = doctor(QUrl(u"redis://127.0.0.1:%1"_s.arg(m_cluster->node(0).port())));
    QVERIFY2(other.has(u"mode"_s, u"fail"_s, u"a node of a Redis Cluster"_s, u"use redis+cluster://"_s),
             qPrintable(other.everything()));
}

void tst_DoctorCluster::nodeWithoutSlots()
{
    RedisServer::Options options = RedisServer::Options::withTcp();
    options.config = {"cluster-enabled yes", "cluster-port " + QByteArray::number(Support::Posix::freePort())};
    Support::Started<RedisServer> empty(options);
    const DoctorResult report = doctor(QUrl(u"redis+cluster://127.0.0.1:%1"_s.arg(empty.port())));
    QVERIFY2(report.status == 2, qPrintable(report.everything()));
    QVERIFY2(report.has(u"node"_s, u"fail"_s, u"it belongs to no cluster yet"_s, u"CLUSTER MEET"_s),
             qPrintable(report.everything()));
}

void tst_DoctorCluster::twoClusters()
{
    RedisCluster::Options options;
    options.masters = 1;
    options.replicasPerMaster = 0;
    options.nodeTimeout = NodeTimeout;
    Support::Started<RedisCluster> other(options);
    const DoctorResult report = doctor(with(m_cluster->url(), other.node(0).port()));
    QVERIFY2(report.status == 2, qPrintable(report.everything()));
    QVERIFY2(report.has(u"node"_s, u"fail"_s, u"belong to different clusters"_s, u"name the nodes of one"_s),
             qPrintable(report.everything()));
}

void tst_DoctorCluster::slotLeftMoving()
{
    const int slot = Support::clusterSlot("lock:a");
    const int source = m_cluster->ownerOf(slot);
    const int target = (source + 1) % 3;
    QVERIFY(m_cluster->beginMove(slot, target));
    const DoctorResult report = doctor(m_cluster->url());
    QVERIFY(m_cluster->stopMove(slot, target));
    QVERIFY2(report.status == 1, qPrintable(report.everything()));
    QVERIFY2(report.has(u"slots"_s, u"warn"_s, u"left half moved: %1;"_s.arg(slot), u"redis-cli --cluster fix"_s),
             qPrintable(report.everything()));
}

void tst_DoctorCluster::slotsThatNobodyServes()
{
    RedisCluster::Options options;
    options.replicasPerMaster = 0;
    options.needsAllSlots = false;
    options.nodeTimeout = NodeTimeout;
    Support::Started<RedisCluster> cluster(options);
    for (int i = 0; i < 3; ++i)
        cluster.node(i).command({"CLUSTER", "DELSLOTS", "0"});
    const DoctorResult report = doctor(cluster.url());
    QVERIFY2(report.status == 2, qPrintable(report.everything()));
    QVERIFY2(report.has(u"slots"_s, u"fail"_s, u"16383 of 16384 slots are served"_s, u"redis-cli --cluster check"_s),
             qPrintable(report.everything()));
}

void tst_DoctorCluster::locksOfAllMasters()
{
    const QByteArray server = m_cluster->url().toEncoded();
    for (int i = 0; i < 8; ++i) {
        const QByteArray key = "lock:other" + QByteArray::number(i);
        m_cluster->serverOf(key).command({"SET", key, "foreign", "PX", "60000"});
    }
    const Result list = run({server}, {u"ls"_s});
    QVERIFY2(list.status == 0, list.errors.constData());
    QCOMPARE(list.output.count("another library"), 8);
    const Result show = run({server}, {u"show"_s, u"other3"_s});
    QVERIFY2(show.status == 0 && show.output.contains("another library"), show.errors.constData());
    const Result release = run({server}, {u"release"_s, u"other3"_s, u"--force"_s, u"--yes"_s});
    QVERIFY2(release.status == 0, release.errors.constData());
    QVERIFY(!m_cluster->serverOf("lock:other3").exists("lock:other3"));
    const Result held = run({server}, {u"run"_s, u"mine"_s, u"true"_s});
    QVERIFY2(held.status == 0, held.errors.constData());
}

QTEST_GUILESS_MAIN(tst_DoctorCluster)

#include "tst_doctorcluster.moc"
