// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The QML element DistributedLock with the URL of a service of Sentinels.

#include "qmltesting.h"

#include "support/rows.h"
#include "support/sentinelset.h"

#include <QDistLock/LockRegistry>

#include <QtQml/qqmlengine.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using QmlTesting::createLock;
using QmlTesting::Patience;
using Support::SentinelSet;

namespace {

/// In milliseconds. A fail-over takes seconds, and much longer on a busy machine; the lease outlasts all of it.
constexpr int FailOverPatience = 120'000;

} // namespace

class TestQmlSentinels : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init() { qputenv("QDISTLOCK_SENTINEL_PASSWORD", "sentinels"); }
    void cleanupTestCase() { m_set.reset(); }

    void heldOverAFailOver();
    void errorsAreShown_data();
    void errorsAreShown();
    void replicasFromTheDefaults();

private:
    QQmlEngine m_engine;
    std::unique_ptr<SentinelSet> m_set;
};

void TestQmlSentinels::initTestCase()
{
    m_engine.addImportPath(QStringLiteral(QML_MODULE_DIR));
    SentinelSet::Options options;
    options.replicas = 1;
    options.downAfter = std::chrono::minutes(10); // replaced only on request
    m_set = std::make_unique<SentinelSet>(options);
    QVERIFY2(m_set->start(), qPrintable(m_set->errorString()));
}

void TestQmlSentinels::heldOverAFailOver()
{
    const auto lock = createLock(&m_engine, m_set->url().toString(), "active: true; lease: 1800000");
    QVERIFY(lock);
    const QSignalSpy lost(lock.get(), &DistributedLock::lost);
    const QSignalSpy renewed(lock.get(), &DistributedLock::renewed);
    QTRY_VERIFY2_WITH_TIMEOUT(lock->isHeld(), qPrintable(lock->errorString()), Patience);
    const quint16 old = m_set->masterPort();
    const QByteArray token = m_set->master().get("lock:job");
    QVERIFY(m_set->master().waitUntilReplicated(1));
    QTRY_VERIFY_WITH_TIMEOUT(m_set->failOverFrom(old), FailOverPatience);
    QTRY_VERIFY_WITH_TIMEOUT(m_set->hasSwitchedFrom(old) && m_set->isHealthy(), FailOverPatience);
    QTRY_VERIFY2_WITH_TIMEOUT(!renewed.isEmpty(), qPrintable(lock->errorString()), FailOverPatience);
    QVERIFY(lock->isHeld() && lost.isEmpty());
    QCOMPARE(m_set->master().get("lock:job"), token);
    lock->setProperty("active", false);
    QTRY_VERIFY_WITH_TIMEOUT(!m_set->master().exists("lock:job"), Patience);
}

void TestQmlSentinels::errorsAreShown_data()
{
    Support::addColumns<QString, DistributedLock::Error, QString>("kind", "error", "text");
    QTest::newRow("unknown service") << u"service"_s << DistributedLock::ServerError
                                     << u"knows no service \"another\"; check the name in the URL"_s;
    QTest::newRow("password of the Sentinels")
            << u"password"_s << DistributedLock::AuthenticationError << u"check QDISTLOCK_SENTINEL_PASSWORD"_s;
    QTest::newRow("list of hosts") << u"list"_s << DistributedLock::OptionsError
                                   << u"did you mean redis+sentinel://a:1/mymaster?node=b:2?"_s;
}

void TestQmlSentinels::errorsAreShown()
{
    QFETCH(QString, kind);
    QFETCH(DistributedLock::Error, error);
    QFETCH(QString, text);
    QUrl url = m_set->url(u"confirm=off"_s); // another registry than that of the other tests
    if (kind == u"service")
        url.setPath(u"/another"_s);
    else if (kind == u"password")
        qputenv("QDISTLOCK_SENTINEL_PASSWORD", "c4n4ry");
    const auto lock = createLock(&m_engine, kind == u"list" ? u"redis+sentinel://a:1,b:2/mymaster"_s : url.toString(),
                                 "active: true");
    QVERIFY(lock);
    QTRY_VERIFY2_WITH_TIMEOUT(lock->error() == error, qPrintable(lock->errorString()), Patience);
    QVERIFY2(lock->property("errorString").toString().contains(text), qPrintable(lock->errorString()));
    QVERIFY(!lock->isHeld());
}

/// minReplicas is no property: an application sets it for all locks of a server.
void TestQmlSentinels::replicasFromTheDefaults()
{
    LockRegistry *const registry = LockRegistry::instance(m_set->url());
    registry->setDefaults(LockOptions().withMinReplicas(1));
    const auto lock = createLock(&m_engine, m_set->url().toString(), "active: true");
    QVERIFY(lock);
    QTRY_VERIFY2_WITH_TIMEOUT(lock->isHeld(), qPrintable(lock->errorString()), Patience);
    QCOMPARE(lock->options().minReplicas, 1);
    QVERIFY(m_set->server(0).exists("lock:job") && m_set->server(1).exists("lock:job"));
    lock->setProperty("active", false);
    QTRY_VERIFY_WITH_TIMEOUT(lock->state() == DistributedLock::Unlocked, Patience);

    registry->setDefaults(LockOptions().withMinReplicas(2));
    const auto second = createLock(&m_engine, m_set->url().toString(), "active: true");
    QTRY_COMPARE_WITH_TIMEOUT(second->error(), DistributedLock::ReplicationError, Patience);
    QVERIFY2(second->property("errorString").toString().contains(u"replica"_s), qPrintable(second->errorString()));
    registry->setDefaults({});
}

QTEST_GUILESS_MAIN(TestQmlSentinels)

#include "tst_qmlsentinels.moc"
