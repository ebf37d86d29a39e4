// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The QML element DistributedLock with the URL of a Redis Cluster.

#include "qmltesting.h"

#include "support/clusterslot.h"
#include "support/rediscluster.h"
#include "support/rows.h"

#include <QDistLock/LockRegistry>

#include <QtQml/qqmlengine.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using QmlTesting::createLock;
using QmlTesting::Patience;
using Support::RedisCluster;

class TestQmlCluster : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void cleanupTestCase() { m_cluster.reset(); }

    void heldWhileItsSlotMoves();
    void errorsAreShown_data();
    void errorsAreShown();

private:
    QQmlEngine m_engine;
    std::unique_ptr<RedisCluster> m_cluster;
};

void TestQmlCluster::initTestCase()
{
    m_engine.addImportPath(QStringLiteral(QML_MODULE_DIR));
    auto options = RedisCluster::Options::mastersOnly();
    m_cluster = std::make_unique<RedisCluster>(options);
    QVERIFY2(m_cluster->start(), qPrintable(m_cluster->errorString()));
}

void TestQmlCluster::heldWhileItsSlotMoves()
{
    const auto lock = createLock(&m_engine, m_cluster->url().toString(), "active: true; lease: 1800000");
    QVERIFY(lock);
    const QSignalSpy lost(lock.get(), &DistributedLock::lost);
    QTRY_VERIFY2_WITH_TIMEOUT(lock->isHeld(), qPrintable(lock->errorString()), Patience);
    const int slot = Support::clusterSlot("lock:job");
    const int source = m_cluster->ownerOf(slot);
    const int target = (source + 1) % 3;
    const QByteArray token = m_cluster->node(source).get("lock:job");
    QVERIFY(!token.isEmpty());
    QVERIFY2(m_cluster->moveSlot(slot, target), m_cluster->lastError().constData());
    QCOMPARE(m_cluster->node(target).get("lock:job"), token);
    QmlTesting::reconnectAll(m_cluster->node(source));
    lock->setProperty("active", false); // still at the former master, as far as the client knows
    QTRY_VERIFY_WITH_TIMEOUT(!m_cluster->node(target).exists("lock:job"), Patience);
    QVERIFY(lost.isEmpty());
}

void TestQmlCluster::errorsAreShown_data()
{
    Support::addColumns<QString, QString>("kind", "text");
    QTest::newRow("database") << u"database"_s << u"database"_s;
    QTest::newRow("replicas") << u"replicas"_s << u"minReplicas is 1, but with a Redis Cluster"_s;
}

void TestQmlCluster::errorsAreShown()
{
    QFETCH(QString, kind);
    QFETCH(QString, text);
    QUrl url = m_cluster->url();
    LockRegistry *const registry = LockRegistry::instance(url);
    if (kind == u"database")
        url.setPath(u"/3"_s);
    else // minReplicas is no property: an application sets it for all locks of a server
        registry->setDefaults(LockOptions().withMinReplicas(1));
    const auto lock = createLock(&m_engine, url.toString(), "active: true");
    QVERIFY(lock);
    QTRY_COMPARE_WITH_TIMEOUT(lock->error(), DistributedLock::OptionsError, Patience);
    QVERIFY2(lock->property("errorString").toString().contains(text), qPrintable(lock->errorString()));
    QVERIFY(!lock->isHeld());
    registry->setDefaults({});
}

QTEST_GUILESS_MAIN(TestQmlCluster)

#include "tst_qmlcluster.moc"
