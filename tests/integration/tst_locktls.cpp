// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The lock over rediss://. What each certificate leads to in detail is tst_tls's.

#include "locktesting.h"

#include "support/certificates.h"

using namespace LockTesting;
using namespace Support;

class tst_LockTls : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void accepted();
    void refused_data();
    void refused();

private:
    Certificates m_certificates;
};

void tst_LockTls::initTestCase()
{
    QVERIFY2(m_certificates.isValid(), qPrintable(m_certificates.errorString()));
}

void tst_LockTls::accepted()
{
    RedisServer::Options serverOptions;
    serverOptions.tls = true;
    serverOptions.certificateFile = m_certificates.server().certificate;
    serverOptions.keyFile = m_certificates.server().key;
    serverOptions.caFile = m_certificates.ca();
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    LockRegistry registry(server.tlsUrl());
    DistributedLock lock(&registry, QStringLiteral("secret"));
    lock.setOptions(options(900ms));
    Spies spies(&lock);
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(server.exists("lock:secret"));
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    const QByteArray client = server.get("lock:secret").split(':').first();
    QVERIFY(eventually([&] { return server.subscriberCount("lock:client:" + client) == 1; }));
    registry.forceRelease(QStringLiteral("secret"));
    QVERIFY(eventually([&] { return spies.lost.size() == 1; }));
    QCOMPARE(spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QVERIFY(!server.exists("lock:secret"));
}

void tst_LockTls::refused_data()
{
    QTest::addColumn<QString>("what");
    QTest::addColumn<QString>("message");
    QTest::newRow("wrong host") << QStringLiteral("wrong host") << QStringLiteral("localhost");
    QTest::newRow("expired") << QStringLiteral("expired") << QStringLiteral("expired");
    QTest::newRow("self-signed") << QStringLiteral("self-signed") << QStringLiteral("self-signed");
    QTest::newRow("other authority") << QStringLiteral("other authority") << QStringLiteral("authority");
    QTest::newRow("plaintext port") << QStringLiteral("plaintext") << QStringLiteral("TLS");
}

void tst_LockTls::refused()
{
    QFETCH(QString, what);
    QFETCH(QString, message);
    Certificates::Pair pair = m_certificates.server();
    if (what == QLatin1String("wrong host"))
        pair = m_certificates.wrongHost();
    else if (what == QLatin1String("expired"))
        pair = m_certificates.expired();
    else if (what == QLatin1String("self-signed"))
        pair = m_certificates.selfSigned();
    RedisServer::Options serverOptions;
    serverOptions.tcp = true;
    serverOptions.tls = true;
    serverOptions.certificateFile = pair.certificate;
    serverOptions.keyFile = pair.key;
    serverOptions.caFile = what == QLatin1String("other authority") ? m_certificates.otherCa() : m_certificates.ca();
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));

    QUrl url = server.tlsUrl();
    if (what == QLatin1String("plaintext"))
        url.setPort(server.port());
    LockRegistry registry(url);
    DistributedLock lock(&registry, QStringLiteral("secret"));
    lock.setOptions(options(1s, LockOptions::Forever));
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::AuthenticationError);
    QVERIFY2(lock.errorString().contains(message, Qt::CaseInsensitive), qPrintable(lock.errorString()));
    QVERIFY(lock.errorString().contains(QLatin1String("\"secret\"")));
    QVERIFY(lock.errorString().contains(QLatin1String("rediss://localhost")));
    // Nothing of ours was sent to whoever that is.
    QCOMPARE(server.commandsProcessed("auth") + server.commandsProcessed("client|setname")
                     + server.commandsProcessed("evalsha"), 0);
    QCOMPARE(registry.state(), LockRegistry::Disconnected);
}

QTEST_GUILESS_MAIN(tst_LockTls)

#include "tst_locktls.moc"
