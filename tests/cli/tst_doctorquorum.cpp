// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// qdistlock with the URL of a quorum: what `doctor` finds, and that the other commands work.

#include "clitest.h"

#include "support/redisset.h"

#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using Support::RedisServer;
using Support::RedisSet;

class tst_DoctorQuorum : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void cleanup() { QVERIFY(m_set->heal()); }

    void healthy();
    void youngServers();
    void notPersistent();
    void serverIsAway();
    void noMajority();
    void sameServerTwice();
    void nodeOfACluster();
    void infoIsForbidden();
    void otherCommands();

private:
    DoctorResult doctor(const QUrl &url);
    QString nameOf(int index) const { return u"127.0.0.1:%1"_s.arg(m_set->proxy(index).port()); }

    std::unique_ptr<RedisSet> m_set;
};

void tst_DoctorQuorum::initTestCase()
{
    RedisServer::Options options = RedisServer::Options::withTcp();
    options.appendOnly = true; // otherwise doctor warns
    m_set = std::make_unique<RedisSet>(3, options);
    QVERIFY2(m_set->start(), qPrintable(m_set->errorString()));
}

DoctorResult tst_DoctorQuorum::doctor(const QUrl &url)
{
    const Result result = run({url.toEncoded()}, {u"doctor"_s, u"--json"_s});
    if (!result.errors.isEmpty())
        qWarning("%s", result.errors.constData());
    return {result.status, QJsonDocument::fromJson(result.output).object()};
}

void tst_DoctorQuorum::healthy()
{
    const DoctorResult report = doctor(m_set->url());
    for (int i = 0; i < 3; ++i)
        QVERIFY2(report.has(u"node"_s, u"ok"_s, nameOf(i) + u" has a vote; it has been up for "_s),
                 qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"ok"_s, u"3 of 3 servers have a vote, 2 are needed"_s),
             qPrintable(report.everything()));
    QVERIFY2(report.of(u"node"_s, u"fail"_s).isEmpty(), qPrintable(report.everything()));
    QCOMPARE(report.of(u"role"_s, u"ok"_s).size(), 3); // each of them was examined
    QVERIFY2(report.of(u"persistent"_s, u"fail"_s).isEmpty(), qPrintable(report.everything()));
}

void tst_DoctorQuorum::youngServers()
{
    for (int i = 0; i < 3; ++i)
        QVERIFY(m_set->server(i).restart());
    const DoctorResult report = doctor(m_set->url(false));
    QVERIFY2(report.has(u"node"_s, u"warn"_s, u"which is less than the lease of 30s"_s, u"persistent=1"_s),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"fail"_s, u"0 of 3 servers have a vote"_s), qPrintable(report.everything()));
}

void tst_DoctorQuorum::notPersistent()
{
    m_set->server(1).command({"CONFIG", "SET", "appendfsync", "everysec"});
    const DoctorResult report = doctor(m_set->url());
    m_set->server(1).command({"CONFIG", "SET", "appendfsync", "always"});
    QVERIFY2(report.has(u"persistent"_s, u"fail"_s, nameOf(1), u"remove persistent=1"_s),
             qPrintable(report.everything()));
    QCOMPARE(report.status, 2);
}

void tst_DoctorQuorum::serverIsAway()
{
    m_set->proxy(0).setRefusing(true);
    const DoctorResult report = doctor(m_set->url());
    QVERIFY2(report.has(u"node"_s, u"warn"_s, nameOf(0)), qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"warn"_s, u"2 of 3 servers have a vote"_s, u"correct"_s),
             qPrintable(report.everything()));
    QCOMPARE(report.status, 1);
}

void tst_DoctorQuorum::noMajority()
{
    m_set->proxy(0).setRefusing(true);
    m_set->proxy(2).setRefusing(true);
    const DoctorResult report = doctor(m_set->url());
    QVERIFY2(report.has(u"majority"_s, u"fail"_s, u"1 of 3 servers have a vote, 2 are needed: no lock"_s),
             qPrintable(report.everything()));
    QCOMPARE(report.status, 2);
}

void tst_DoctorQuorum::sameServerTwice()
{
    m_set->proxy(1).setServer(m_set->server(0));
    const DoctorResult report = doctor(m_set->url());
    QVERIFY2(report.has(u"node"_s, u"fail"_s, u"it is the same server as "_s, u"independent"_s),
             qPrintable(report.everything()));
}

void tst_DoctorQuorum::nodeOfACluster()
{
    RedisServer::Options options = RedisServer::Options::withTcp();
    options.config = {"cluster-enabled yes"};
    Support::Started<RedisServer> node(options);
    m_set->proxy(1).setServer(node);
    const DoctorResult report = doctor(m_set->url());
    QVERIFY2(report.has(u"node"_s, u"fail"_s, u"it is a node of a Redis Cluster"_s, u"redis+cluster://"_s),
             qPrintable(report.everything()));
}

void tst_DoctorQuorum::infoIsForbidden()
{
    m_set->server(1).command({"ACL", "SETUSER", "default", "-info"});
    const DoctorResult report = doctor(m_set->url());
    m_set->server(1).command({"ACL", "SETUSER", "default", "+info"});
    QVERIFY2(report.has(u"node"_s, u"fail"_s, u"its ACL forbids INFO"_s, u"+info"_s), qPrintable(report.everything()));
}

void tst_DoctorQuorum::otherCommands()
{
    const Program::Setup setup{m_set->url().toEncoded()};
    const Result ran = run(setup, {u"run"_s, u"job"_s, u"true"_s});
    QCOMPARE(ran.status, 0);
    const Result free = run(setup, {u"show"_s, u"job"_s});
    QCOMPARE(free.status, 1);
    for (int i = 0; i < 3; ++i)
        m_set->server(i).command({"SET", "lock:job", "theirs", "PX", "600000"});
    const Result listed = run(setup, {u"ls"_s});
    QCOMPARE(listed.status, 0);
    QVERIFY2(listed.output.contains("job"), listed.output.constData());
    QCOMPARE(run(setup, {u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s}).status, 0);
    QCOMPARE(m_set->count("lock:job"), 0);
    QCOMPARE(run(setup, {u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s}).status, 1);
}

QTEST_GUILESS_MAIN(tst_DoctorQuorum)
#include "tst_doctorquorum.moc"
