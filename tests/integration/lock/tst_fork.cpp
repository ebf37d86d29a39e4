// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A process that forks after it has used locks: its child has none of them, and does not disturb it.

#include "support/locktesting.h"

#include "support/certificates.h"
#include "support/rows.h"
#include "support/testprogram.h"

#include <memory>

using namespace LockTesting;
using namespace Support;

class tst_Fork : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void fork_data();
    void fork();

private:
    Certificates m_certificates;
    std::unique_ptr<RedisServer> m_server;
};

void tst_Fork::initTestCase()
{
#ifdef __SANITIZE_ADDRESS__
    // fork() copies the allocator of AddressSanitizer with mutexes that other threads hold at that moment. Nobody
    // unlocks them in the child, so malloc() hangs there.
    QSKIP("AddressSanitizer of GCC 12 supports no fork() of a process with threads");
#endif
    QVERIFY2(m_certificates.isValid(), qPrintable(m_certificates.errorString()));
    m_server = std::make_unique<RedisServer>(RedisServer::Options::withTls(m_certificates));
    QVERIFY2(m_server->start(), qPrintable(m_server->errorString()));
}

void tst_Fork::fork_data()
{
    addColumns<QUrl, QString>("url", "child");
    for (const char *child : {"exit", "events", "new"}) {
        QTest::addRow("unix, %s", child) << m_server->url() << QString::fromLatin1(child);
        QTest::addRow("tcp, %s", child) << m_server->tcpUrl() << QString::fromLatin1(child);
        QTest::addRow("tls, %s", child) << m_server->tlsUrl() << QString::fromLatin1(child);
    }
}

void tst_Fork::fork()
{
    QFETCH(QUrl, url);
    QFETCH(QString, child);
    m_server->command({"SET", "lock:foreign", "somebody else", "PX", "3600000"});
    TestProgram program(QStringLiteral(FORKWORKER), {url.toString(), child}, QProcess::MergedChannels);
    QVERIFY2(program.waitForOutput("ready\n"), program.output().constData());
    // Three registries are connected. The library's thread then has nothing to do, so that it holds no lock of Qt's
    // when it is not copied.
    QVERIFY(eventually([&] { return m_server->channels().size() == 3; }));
    program.write("go\n");
    QVERIFY(program.waitForEnd(100s));
    QVERIFY2(program.hasSucceeded() && !program.output().contains("FAILED"), program.output().constData());
    m_server->command({"DEL", "lock:foreign"});
    // The server has executed all that came through a connection when it has closed it.
    QVERIFY(eventually([&] { return m_server->connectedClients() == 0; }));
    QCOMPARE(lockKeys(*m_server), QList<QByteArray>());
}

QTEST_GUILESS_MAIN(tst_Fork)
#include "tst_fork.moc"
