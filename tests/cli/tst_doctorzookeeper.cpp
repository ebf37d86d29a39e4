// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// qdistlock with the URL of a ZooKeeper ensemble: what `doctor` finds, and what the other commands do.

#include "clitest.h"

#include "support/zookeeperserver.h"

#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using Support::ZooKeeperServer;

class tst_DoctorZooKeeper : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();

    void healthy();
    void serverIsAway();
    void leaseIsTooLong();
    void nobodyServes();
    void otherCommands();

private:
    QByteArray url(const QByteArray &items = {}) const
    {
        return "zookeeper://127.0.0.1:" + QByteArray::number(m_server.port()) + "/locks" + items;
    }
    DoctorResult doctor(const QByteArray &url)
    {
        const Result result = run({url}, {u"doctor"_s, u"--json"_s});
        return {result.status, QJsonDocument::fromJson(result.output).object()};
    }

    ZooKeeperServer m_server;
};

void tst_DoctorZooKeeper::initTestCase()
{
    if (!ZooKeeperServer::isInstalled())
        QSKIP(ZooKeeperServer::NotInstalled);
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_DoctorZooKeeper::healthy()
{
    const DoctorResult report = doctor(url());
    QVERIFY2(report.has(u"node"_s, u"ok"_s, u" is alone; ZooKeeper 3."_s), qPrintable(report.everything()));
    QVERIFY2(report.has(u"session"_s, u"ok"_s, u"of 200 to 3600000 ms: locks here have one of 30000 ms"_s),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"locks"_s, u"ok"_s, u"0 held"_s), qPrintable(report.everything()));
    QCOMPARE(report.status, 0);
}

void tst_DoctorZooKeeper::serverIsAway()
{
    const DoctorResult report = doctor(url("?node=127.0.0.1:1"));
    QVERIFY2(report.has(u"node"_s, u"warn"_s, u"127.0.0.1:1 does not serve (Connection refused)"_s),
             qPrintable(report.everything()));
    QVERIFY2(report.has(u"majority"_s, u"warn"_s, u"1 of the 2 servers that the URL names serve"_s),
             qPrintable(report.everything()));
    QCOMPARE(report.status, 1);
}

void tst_DoctorZooKeeper::leaseIsTooLong()
{
    const DoctorResult report = doctor(url("?session=10000"));
    QVERIFY2(report.has(u"session"_s, u"fail"_s, u"a lease of 30000 ms, which is longer"_s, u"--lease"_s),
             qPrintable(report.everything()));
    QCOMPARE(report.status, 2);
}

void tst_DoctorZooKeeper::nobodyServes()
{
    const DoctorResult report = doctor("zookeeper://127.0.0.1:1");
    QVERIFY2(report.has(u"majority"_s, u"fail"_s, u"0 of the 1 server that"_s), qPrintable(report.everything()));
    QCOMPARE(report.status, 2);
}

void tst_DoctorZooKeeper::otherCommands()
{
    const Result ran = run({url()}, {u"run"_s, u"job"_s, u"--"_s, u"printenv"_s, u"QDISTLOCK_NAME"_s});
    QVERIFY2(ran.status == 0 && ran.output == "job\n", ran.errors.constData());
    const Result acquired = run({url()},
                                {u"acquire"_s, u"job"_s, u"--lease"_s, u"20s"_s, u"--token-file"_s, u"file"_s});
    QVERIFY2(acquired.errors.contains("use run or hold"), acquired.errors.constData());
    QVERIFY(acquired.status != 0);
}

QTEST_GUILESS_MAIN(tst_DoctorZooKeeper)
#include "tst_doctorzookeeper.moc"
