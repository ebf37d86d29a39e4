// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/enginefactory.h"

#include "base/leaseclock.h"
#include "engine/lockengine.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;

class tst_EngineFactory : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void accepted_data();
    void accepted();
    void refused_data();
    void refused();
};

void tst_EngineFactory::accepted_data()
{
    QTest::addColumn<QUrl>("server");
    QTest::addColumn<bool>("ready"); // without a connection
    const auto row = [](const char *server, bool ready) {
        QTest::newRow(server) << QUrl(QLatin1String(server)) << ready;
    };
    row("memory:", true);
    row("memory:name", true);
    row("memory:/name", true);
    row("redis://127.0.0.1", false);
    row("redis://user:password@127.0.0.1:6380/3", false);
    row("rediss://127.0.0.1", false);
    row("unix:///run/redis.sock?db=1", false);
    row("redis+sentinel://127.0.0.1/service?node=127.0.0.2", false);
    row("rediss+sentinel://user:password@127.0.0.1/service/1", false);
    row("redis+cluster://127.0.0.1?node=127.0.0.2", false);
    row("rediss+cluster://user:password@127.0.0.1:1", false);
    row("redlock://127.0.0.1?node=127.0.0.2&node=127.0.0.3", false);
    row("redlocks://user:password@127.0.0.1:1?node=127.0.0.1:2&node=127.0.0.1:3&persistent=1", false);
}

void tst_EngineFactory::accepted()
{
    QFETCH(QUrl, server);
    QFETCH(bool, ready);
    QCOMPARE(EngineFactory::check(server), QString());
    EngineError error;
    const auto engine = EngineFactory::create(server, LeaseClock::system(), &error);
    QVERIFY(engine);
    QVERIFY(!error);
    QCOMPARE(engine->state(), ready ? LockEngine::Ready : LockEngine::Disconnected);
}

void tst_EngineFactory::refused_data()
{
    Support::addColumns<QUrl, QString>("server", "text");
    const auto row = [](const char *server, const char *text) {
        QTest::newRow(server) << QUrl(QLatin1String(server)) << QString::fromLatin1(text);
    };
    row("", "it is empty");
    row("memory://host", "must be memory: or memory:name");
    row("memory:name?db=1", "must be memory: or memory:name");
    row("memory:name#1", "must be memory: or memory:name");
    row("redis+sentinel://user:secret@host", "it has no service");
    row("redis+sentinel://host,host2/service", "did you mean redis+sentinel://host/service?node=host2?");
    row("redis+cluster://user:secret@host/1", "it has a database, but a Redis Cluster has none");
    row("redlock://host,host2,host3", "did you mean redlock://host?node=host2&node=host3?");
    row("redlock://user:secret@host?node=host2", "it names two servers");
    row("zookeeper://host,host2", "no host");
    row("zookeeper://:secret@host", "it has a password but no user");
    row("zookeeper://user:secret@host/a//b", "the path must be that of a node");
    row("zookeeper://user:secret@host/a/..", "the path must be that of a node");
    row("zookeeper://user:12/secret@host", "the path must be that of a node without '@'");
    row("zookeeper://host?node=", "is no host with an optional port");
    row("zookeeper://host?node=host:2181", "host:2181 is named twice");
    row("zookeeper://host?session=1", "session must be a number of milliseconds");
    row("zookeeper://user:secret@host?lease=1", "a query item is unknown");
    row("zookeeper://user:12?secret@host", "a query item is unknown");
    row("http://user:secret@host",
        "use redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster, redlock, redlocks, "
        "zookeeper or memory");
    row("redis://user:secret@", "no host");
}

void tst_EngineFactory::refused()
{
    QFETCH(QUrl, server);
    QFETCH(QString, text);
    const QString problem = EngineFactory::check(server);
    QVERIFY2(problem.contains(text), qPrintable(problem));
    QVERIFY2(!problem.contains(u"secret"_s), qPrintable(problem));
    EngineError error;
    QVERIFY(!EngineFactory::create(server, LeaseClock::system(), &error));
    QCOMPARE(error.code, DistributedLock::OptionsError);
    QCOMPARE(error.text, problem);
    QVERIFY(error.isPermanent);
}

QTEST_GUILESS_MAIN(tst_EngineFactory)
#include "tst_enginefactory.moc"
