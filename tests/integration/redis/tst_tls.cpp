// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/connection.h"
#include "support/certificates.h"
#include "support/eventually.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/redisserver.h"
#include "support/redistesting.h"
#include "support/rows.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qpointer.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qurlquery.h>
#include <QtNetwork/qsslsocket.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <optional>

using namespace Qt::StringLiterals;

using namespace QtRedis;
using namespace RedisTesting;
using namespace Support;
using namespace std::chrono_literals;

namespace {

QByteArray echo(Connection *connection, const QByteArray &text)
{
    std::optional<QByteArray> answer;
    connection->send({"ECHO", text}, 60s, [&answer](const CommandResult &result) { answer = result.reply.text; });
    waitFor([&answer] { return answer.has_value(); }, 80s);
    return answer.value_or("never ended");
}

bool becomesReady(Connection *connection)
{
    connection->open();
    return waitFor([connection] { return connection->state() == Connection::Ready; });
}

/// Waits for a failure after which it does not try again.
bool failsForGood(Connection *connection)
{
    connection->setConnectTimeout(60s);
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Not retried"_s));
    QSignalSpy failed(connection, &Connection::failed);
    connection->open();
    return waitFor([&failed] { return !failed.isEmpty(); });
}

} // namespace

class tst_Tls : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void accepted_data() { addRows<QString>("host", {{"name", u"localhost"_s}, {"address", u"127.0.0.1"_s}}); }
    void accepted();
    void refused_data();
    void refused();
    void tlsPortWithoutTls();
    void tlsAlertWithoutTls();
    void plaintextPort();
    void plaintextPortThatKeepsSilent();
    void closedDuringTheHandshake();
    void systemAuthorities();
    void badFiles_data();
    void badFiles();
    void clientCertificate();
    void clientCertificateMissing();
    void nothingSentBeforeTheServerIsProven();
    void reconnects();
    void destructorWrites();
    void largeReplies();
    void sentOnceWhileDecrypting();
    void deletedWhileDecrypting_data();
    void deletedWhileDecrypting();

private:
    std::unique_ptr<RedisServer> startServer(const Certificates::Pair &pair, bool wantsClientCertificate = false);
    static ServerUrl urlOf(const RedisServer &server);
    Certificates m_certificates;
};

void tst_Tls::initTestCase()
{
    QVERIFY2(m_certificates.isValid(), qPrintable(m_certificates.errorString()));
    QVERIFY(QSslSocket::supportsSsl());
    QSslSocket warmUp; // loads the TLS library
}

std::unique_ptr<RedisServer> tst_Tls::startServer(const Certificates::Pair &pair, bool wantsClientCertificate)
{
    RedisServer::Options options;
    options.tls = true;
    options.certificateFile = pair.certificate;
    options.keyFile = pair.key;
    options.caFile = m_certificates.ca();
    options.requireClientCertificate = wantsClientCertificate;
    options.password = "c4n4ry";
    auto server = std::make_unique<RedisServer>(options);
    if (!server->start())
        qFatal("%s", qPrintable(server->errorString()));
    return server;
}

ServerUrl tst_Tls::urlOf(const RedisServer &server)
{
    ServerUrl url = serverUrl(server.tlsUrl());
    url.password = u"c4n4ry"_s;
    return url;
}

void tst_Tls::accepted()
{
    QFETCH(QString, host);
    const auto server = startServer(m_certificates.server());
    ServerUrl url = serverUrl(server->tlsUrl());
    url.host = host;
    url.password = u"c4n4ry"_s;
    Connection connection(url);
    QVERIFY2(becomesReady(&connection), qPrintable(connection.errorString()));
    QCOMPARE(echo(&connection, "over TLS"), "over TLS");
}

void tst_Tls::refused_data()
{
    addColumns<int, QString>("which", "says");
    QTest::newRow("wrong host") << 0 << u"another host name than \"localhost\""_s;
    QTest::newRow("expired") << 1 << u"it expired on 2021-"_s;
    QTest::newRow("self-signed") << 2 << u"it is self-signed and not trusted"_s;
    QTest::newRow("another authority") << 3 << u"an authority that is not trusted"_s;
}

void tst_Tls::refused()
{
    QFETCH(int, which);
    QFETCH(QString, says);
    const Certificates::Pair pairs[] = {m_certificates.wrongHost(), m_certificates.expired(),
                                        m_certificates.selfSigned(), m_certificates.server()};
    const auto server = startServer(pairs[which]);
    FaultProxy proxy(server->tlsPort());
    ServerUrl url = serverUrl(server->tlsUrl());
    url.port = proxy.port();
    url.password = u"c4n4ry"_s;
    url.caFile = which == 3 ? m_certificates.otherCa() : m_certificates.ca();
    Connection connection(url);
    QVERIFY(failsForGood(&connection));
    QCOMPARE(connection.state(), Connection::Disconnected);
    QCOMPARE(connection.failure(), Failure::Certificate);
    const QString error = connection.errorString();
    QVERIFY2(error.contains(says), qPrintable(error));
    // Each has its own message.
    for (const auto other : {"another host name", "expired", "self-signed", "authority that is not trusted"}) {
        const QString text = QString::fromUtf8(other);
        QCOMPARE(error.contains(text), says.contains(text));
    }
    QVERIFY(!error.contains(QLatin1String("c4n4ry")));
    QVERIFY(!waitFor([&proxy] { return proxy.connectionsAccepted() > 1; }, 200ms));
}

// redis:// where rediss:// is meant. The server closes without a word, and so does one that is just starting.
void tst_Tls::tlsPortWithoutTls()
{
    const auto server = startServer(m_certificates.server());
    ServerUrl url = serverUrl(server->tlsUrl());
    url.scheme = ServerUrl::Tcp;
    Connection connection(url);
    connection.setConnectTimeout(60s);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return failed.size() >= 2; }));
    QCOMPARE(connection.failure(), Failure::Network);
    QCOMPARE(connection.state(), Connection::Connecting);
    const QString error = connection.errorString();
    QVERIFY2(error.contains(u"closed the connection"_s) && error.contains(u"rediss://"_s), qPrintable(error));
}

// Other TLS servers, and proxies, say what is wrong before they close.
void tst_Tls::tlsAlertWithoutTls()
{
    FakeServer server{QByteArray()};
    server.setAnswersLogin(false);
    FakeServer::Answer alert;
    alert.bytes = QByteArray("\x15\x03\x01\0\x02\x02\x46", 7);
    server.setGreeting(alert);
    Connection connection(serverUrl(server.url()));
    QVERIFY(failsForGood(&connection));
    QCOMPARE(connection.failure(), Failure::Certificate);
    QCOMPARE(connection.state(), Connection::Disconnected);
    const QString error = connection.errorString();
    QVERIFY2(error.contains(u"speaks TLS"_s) && error.contains(u"rediss://"_s), qPrintable(error));
}

void tst_Tls::plaintextPort()
{
    RedisServer::Options options;
    options.tcp = true;
    Started<RedisServer> server(options);
    ServerUrl url = serverUrl(server.tcpUrl());
    url.scheme = ServerUrl::Tls;
    url.caFile = m_certificates.ca();
    Connection connection(url);
    QVERIFY(failsForGood(&connection));
    QCOMPARE(connection.failure(), Failure::Certificate);
    QCOMPARE(connection.state(), Connection::Disconnected);
    const QString error = connection.errorString();
    QVERIFY2(error.contains(u"does not speak TLS on this port"_s) && error.contains(u"redis://"_s), qPrintable(error));
}

void tst_Tls::plaintextPortThatKeepsSilent()
{
    FakeServer server{QByteArray()};
    ServerUrl url = serverUrl(server.url());
    url.scheme = ServerUrl::Tls;
    url.caFile = m_certificates.ca();
    Connection connection(url);
    connection.setConnectTimeout(300ms);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    const QRegularExpression says(u"TLS handshake \\(if this port speaks no TLS, use redis://\\) within 300 ms"_s);
    // On a busy machine, connecting may have taken that long first.
    QVERIFY(waitFor([&] { return !failed.isEmpty() && connection.errorString().contains(says); }));
    QCOMPARE(connection.failure(), Failure::Timeout);
    QCOMPARE(connection.state(), Connection::Connecting);
    QVERIFY2(connection.errorString().contains(says), qPrintable(connection.errorString()));
}

void tst_Tls::closedDuringTheHandshake()
{
    FakeServer server([](const QList<QByteArray> &, int) {
        FakeServer::Answer answer;
        answer.close = true;
        return answer;
    });
    ServerUrl url = serverUrl(server.url());
    url.scheme = ServerUrl::Tls;
    url.caFile = m_certificates.ca();
    Connection connection(url);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return failed.size() >= 2; })); // it may be a server that is just starting
    QCOMPARE(connection.failure(), Failure::Network);
    const QString error = connection.errorString();
    QVERIFY2(error.contains(u"during the TLS handshake"_s) && error.contains(u"redis://"_s), qPrintable(error));
}

// Without ?ca= the system's authorities count, and none of them signed ours.
void tst_Tls::systemAuthorities()
{
    const auto server = startServer(m_certificates.server());
    ServerUrl url = serverUrl(server->tlsUrl());
    url.caFile.clear();
    Connection connection(url);
    QVERIFY(failsForGood(&connection));
    QCOMPARE(connection.failure(), Failure::Certificate);
    QVERIFY2(connection.errorString().contains(QLatin1String("not trusted")), qPrintable(connection.errorString()));
}

void tst_Tls::badFiles_data()
{
    addColumns<QString, QString, QString, QString>("ca", "certificate", "key", "says");
    const QString none = u"/nowhere/at/all.pem"_s;
    const QString ca = m_certificates.ca();
    const Certificates::Pair client = m_certificates.client();
    QTest::newRow("no CA file") << none << QString() << QString() << none + QLatin1String(" cannot be read");
    QTest::newRow("CA file is a key") << client.key << QString() << QString()
                                      << client.key + QLatin1String(" has no PEM certificate");
    QTest::newRow("no certificate file") << ca << none << client.key << none + QLatin1String(" cannot be read");
    QTest::newRow("certificate file is a key")
            << ca << client.key << client.key << client.key + QLatin1String(" has no PEM certificate");
    QTest::newRow("no key file") << ca << client.certificate << none << none + QLatin1String(" cannot be read");
    QTest::newRow("key file is a certificate") << ca << client.certificate << client.certificate
                                               << client.certificate + QLatin1String(" has no unencrypted");
}

void tst_Tls::badFiles()
{
    QFETCH(QString, ca);
    QFETCH(QString, certificate);
    QFETCH(QString, key);
    QFETCH(QString, says);
    FakeServer server;
    ServerUrl url = serverUrl(server.url());
    url.scheme = ServerUrl::Tls;
    url.caFile = ca;
    url.certificateFile = certificate;
    url.keyFile = key;
    Connection connection(url);
    QVERIFY(failsForGood(&connection));
    QCOMPARE(connection.failure(), Failure::Certificate);
    QVERIFY2(connection.errorString().contains(says), qPrintable(connection.errorString()));
    QCOMPARE(server.connectionsAccepted(), 0);
}

void tst_Tls::clientCertificate()
{
    const auto server = startServer(m_certificates.server(), true);
    QUrl url = server->tlsUrl();
    url.setPassword(u"c4n4ry"_s);
    QUrlQuery query(url);
    query.addQueryItem(u"cert"_s, m_certificates.client().certificate);
    query.addQueryItem(u"key"_s, m_certificates.client().key);
    url.setQuery(query);
    Connection connection(serverUrl(url));
    QVERIFY2(becomesReady(&connection), qPrintable(connection.errorString()));
    QCOMPARE(echo(&connection, "over TLS"), "over TLS");
}

void tst_Tls::clientCertificateMissing()
{
    const auto server = startServer(m_certificates.server(), true);
    ServerUrl url = serverUrl(server->tlsUrl());
    Connection connection(url);
    QVERIFY(failsForGood(&connection));
    QCOMPARE(connection.failure(), Failure::Certificate);
    QVERIFY2(connection.errorString().contains(QLatin1String("client certificate")),
             qPrintable(connection.errorString()));
}

// The password must not reach a server whose certificate is refused, nor a port without TLS.
void tst_Tls::nothingSentBeforeTheServerIsProven()
{
    FakeServer server{QByteArray()};
    server.setAnswersLogin(false);
    ServerUrl url = serverUrl(server.url());
    url.scheme = ServerUrl::Tls;
    url.caFile = m_certificates.ca();
    url.password = u"c4n4ry"_s;
    Connection connection(url);
    connection.setConnectTimeout(300ms);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&] { return !failed.isEmpty() && !server.commands().isEmpty(); }));
    const auto commands = server.commands();
    for (const QList<QByteArray> &command : commands) {
        QVERIFY(command.first().startsWith('\x16')); // a TLS handshake record
        QVERIFY(!command.join().contains("c4n4ry"));
    }
}

void tst_Tls::reconnects()
{
    const auto server = startServer(m_certificates.server());
    Connection connection(urlOf(*server));
    QVERIFY(becomesReady(&connection));
    QVERIFY(server->restart());
    QVERIFY(waitFor([&connection] { return connection.state() != Connection::Ready; }));
    QVERIFY2(waitFor([&connection] { return connection.state() == Connection::Ready; }),
             qPrintable(connection.errorString()));
    QCOMPARE(echo(&connection, "again"), "again");
}

void tst_Tls::destructorWrites()
{
    const auto server = startServer(m_certificates.server());
    {
        Connection connection(urlOf(*server));
        QVERIFY(becomesReady(&connection));
        connection.send({"SET", "last", "word"}, 60s, {});
    }
    EVENTUALLY_COMPARE(server->get("last"), QByteArray("word"));
}

void tst_Tls::largeReplies()
{
    const auto server = startServer(m_certificates.server());
    Connection connection(urlOf(*server));
    QVERIFY(becomesReady(&connection));
    const QByteArray large(8 * 1024 * 1024, 'x');
    QCOMPARE(echo(&connection, large), large);
    QCOMPARE(echo(&connection, "small"), "small");
}

// Qt's socket decrypts, and announces, what arrived while it writes: here in the midst of other answers.
void tst_Tls::sentOnceWhileDecrypting()
{
    constexpr int Commands = 300;
    const auto server = startServer(m_certificates.server());
    Connection connection(urlOf(*server));
    QVERIFY(becomesReady(&connection));
    QSignalSpy failed(&connection, &Connection::failed);
    QList<qint64> answers;
    for (int i = 0; i < Commands; ++i) {
        connection.send({"ECHO", QByteArray(100, 'x')}, 60s, [&](const CommandResult &) {
            connection.send({"INCR", "counter"}, 60s, [&](const CommandResult &result) {
                answers.append(result.reply.type == Reply::Integer ? result.reply.integer : -1);
            });
        });
    }
    QVERIFY(waitFor([&answers] { return answers.size() == Commands; }));
    for (int i = 0; i < Commands; ++i)
        QCOMPARE(answers[i], i + 1);
    QCOMPARE(server->get("counter"), QByteArray::number(Commands));
    QCOMPARE(failed.size(), 0);
}

void tst_Tls::deletedWhileDecrypting_data()
{
    QTest::addColumn<int>("handler");
    for (const int handler : {1, 100, 200, 299})
        QTest::addRow("%d", handler) << handler;
}

void tst_Tls::deletedWhileDecrypting()
{
    QFETCH(int, handler);
    const auto server = startServer(m_certificates.server());
    QPointer<Connection> connection = new Connection(urlOf(*server));
    connection->open();
    QVERIFY(waitFor([&connection] { return connection->state() == Connection::Ready; }));
    int called = 0;
    for (int i = 0; i < 300; ++i) {
        connection->send({"ECHO", QByteArray(100, 'x')}, 60s, [&](const CommandResult &) {
            if (connection)
                connection->send({"PING"}, 60s, {});
            if (++called == handler)
                delete connection.data();
        });
    }
    QVERIFY(waitFor([&connection] { return !connection; }));
    QCoreApplication::processEvents(); // what was posted
    QVERIFY(called >= handler);
}

QTEST_GUILESS_MAIN(tst_Tls)
#include "tst_tls.moc"
