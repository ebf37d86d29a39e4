// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A host name of two addresses, at the first of which nobody answers (a dead node, a network without IPv6).

#include "redis/connection.h"
#include "support/certificates.h"
#include "support/eventloopprobe.h"
#include "support/fakeserver.h"
#include "support/posix.h"
#include "support/redisserver.h"
#include "support/rows.h"

#include <QtCore/qurlquery.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

using namespace Qt::StringLiterals;

using namespace QtRedis;
using namespace Support;
using namespace std::chrono_literals;

namespace {

// Certificates::wrongHost() is issued for it.
constexpr char TwoAddresses[] = "elsewhere.example";
constexpr char WithFinalDot[] = "elsewhere.example.";
// Its address is `movingTo`.
constexpr char Moving[] = "moving.example";
constexpr char DeadAddress[] = "127.0.0.2";

std::atomic<const char *> movingTo{nullptr};
std::atomic<int> lookUps{0}; // of Moving

} // namespace

// What Qt calls for the name: this program's own comes before the C library's.
extern "C" Q_DECL_EXPORT int getaddrinfo(const char *node, const char *service, const addrinfo *hints,
                                         addrinfo **result)
{
    using Function = int (*)(const char *, const char *, const addrinfo *, addrinfo **);
    static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    if (node && std::strcmp(node, Moving) == 0) {
        ++lookUps;
        return real(movingTo, service, hints, result);
    }
    if (!node || (std::strcmp(node, TwoAddresses) != 0 && std::strcmp(node, WithFinalDot) != 0))
        return real(node, service, hints, result);
    addrinfo *living = nullptr;
    if (const int error = real("127.0.0.1", service, hints, &living))
        return error;
    if (const int error = real(DeadAddress, service, hints, result))
        return error;
    addrinfo *last = *result;
    while (last->ai_next)
        last = last->ai_next;
    last->ai_next = living; // freed with it
    return 0;
}

namespace {

/// A port of DeadAddress where connecting is neither accepted nor refused.
class DeadPort
{
public:
    explicit DeadPort(quint16 port)
        : m_listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
    {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        ::inet_pton(AF_INET, DeadAddress, &address.sin_addr);
        const auto *const where = reinterpret_cast<const sockaddr *>(&address);
        if (::bind(m_listener, where, sizeof address) != 0 || ::listen(m_listener, 0) != 0)
            return;
        // The queue is full when a connection stays unfinished.
        for (int i = 0; i < 64 && !m_dead; ++i) {
            m_fillers.append(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            ::connect(m_fillers.last(), where, sizeof address);
            m_dead = !Posix::waitFor(m_fillers.last(), POLLOUT, std::chrono::steady_clock::now() + 100ms);
        }
    }
    ~DeadPort()
    {
        for (const int filler : std::as_const(m_fillers))
            ::close(filler);
        ::close(m_listener);
    }
    bool isDead() const { return m_dead; }

private:
    Q_DISABLE_COPY_MOVE(DeadPort)
    const int m_listener;
    QList<int> m_fillers;
    bool m_dead = false;
};

std::optional<ServerUrl> serverAt(quint16 port, const QString &caFile)
{
    QUrl url(u"%1://%2:%3"_s.arg(caFile.isEmpty() ? u"redis"_s : u"rediss"_s, QLatin1String(TwoAddresses),
                                 QString::number(port)));
    if (!caFile.isEmpty()) {
        QUrlQuery query;
        query.addQueryItem(u"ca"_s, caFile);
        url.setQuery(query);
    }
    QString error;
    return ServerUrl::parse(url, &error);
}

} // namespace

class tst_HostAddresses : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_certificates.isValid(), qPrintable(m_certificates.errorString())); }
    void firstIsDead_data() { addRows<bool>("tls", {{"TCP", false}, {"TLS", true}}); }
    void firstIsDead();
    void certificateIsOfTheName();
    void certificateHasNoFinalDot();
    void nameMoves();
    void replicaFirst_data() { addRows<bool>("isRefused", {{"login refused", true}, {"read-only", false}}); }
    void replicaFirst();

private:
    std::unique_ptr<RedisServer> start(const Certificates::Pair *pair);

    Certificates m_certificates;
};

std::unique_ptr<RedisServer> tst_HostAddresses::start(const Certificates::Pair *pair)
{
    RedisServer::Options options;
    options.tcp = true;
    options.config = {"bind 127.0.0.1"};
    if (pair) {
        options.tls = true;
        options.certificateFile = pair->certificate;
        options.keyFile = pair->key;
        options.caFile = m_certificates.ca();
    }
    auto server = std::make_unique<RedisServer>(options);
    if (!server->start())
        qFatal("%s", qPrintable(server->errorString()));
    return server;
}

void tst_HostAddresses::firstIsDead()
{
    QFETCH(bool, tls);
    const Certificates::Pair pair = m_certificates.wrongHost();
    const auto server = start(tls ? &pair : nullptr);
    const quint16 port = tls ? server->tlsPort() : server->port();
    const DeadPort dead(port);
    QVERIFY(dead.isDead());
    const auto url = serverAt(port, tls ? m_certificates.ca() : QString());
    QVERIFY(url);
    Connection connection(*url);
    connection.setConnectTimeout(1s);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(EventLoopProbe::waitFor([&] { return connection.state() == Connection::Ready; }));
    QVERIFY(failed.size() >= 1); // by the dead one, or there was nothing to test

    // Once found, it is the first to be tried. The dead one would keep us waiting for longer than this test does.
    connection.setConnectTimeout(10min);
    failed.clear();
    server->command({"CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"});
    QVERIFY(EventLoopProbe::waitFor([&] { return connection.state() != Connection::Ready; }));
    QVERIFY(EventLoopProbe::waitFor([&] { return connection.state() == Connection::Ready; }));
    QCOMPARE(failed.size(), 0);
}

void tst_HostAddresses::certificateIsOfTheName()
{
    const Certificates::Pair pair = m_certificates.server(); // for localhost and 127.0.0.1
    const auto server = start(&pair);
    const DeadPort dead(server->tlsPort());
    QVERIFY(dead.isDead());
    const auto url = serverAt(server->tlsPort(), m_certificates.ca());
    QVERIFY(url);
    Connection connection(*url);
    connection.setConnectTimeout(1s);
    connection.open();
    QVERIFY(EventLoopProbe::waitFor([&] { return connection.failure() == Failure::Certificate; }));
    QVERIFY2(connection.errorString().contains(QLatin1String("another host name than \"elsewhere.example\"")),
             qPrintable(connection.errorString()));
}

// A URL may end a host name with a dot, for the resolver. The name in the certificate has no dot, and still matches.
void tst_HostAddresses::certificateHasNoFinalDot()
{
    const Certificates::Pair pair = m_certificates.wrongHost();
    const auto server = start(&pair);
    auto url = serverAt(server->tlsPort(), m_certificates.ca());
    QVERIFY(url);
    url->host = QLatin1String(WithFinalDot);
    Connection connection(*url);
    connection.setConnectTimeout(60s);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(EventLoopProbe::waitFor([&] { return connection.state() == Connection::Ready || !failed.isEmpty(); }));
    QVERIFY2(failed.isEmpty(), qPrintable(connection.errorString()));
}

// As at a fail-over by DNS: Qt keeps what it has found for a minute.
void tst_HostAddresses::nameMoves()
{
    const auto server = start(nullptr);
    movingTo = DeadAddress; // where nobody listens, so that it is refused
    QString error;
    const auto url = ServerUrl::parse(QUrl(u"redis://%1:%2"_s.arg(QLatin1String(Moving)).arg(server->port())), &error);
    QVERIFY2(url, qPrintable(error));
    Connection connection(*url);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(EventLoopProbe::waitFor([&] { return failed.size() >= 3; }));
    QVERIFY(lookUps > 1);
    movingTo = "127.0.0.1";
    QVERIFY(EventLoopProbe::waitFor([&] { return connection.state() == Connection::Ready; }));
}

// A name of all servers of a service.
void tst_HostAddresses::replicaFirst()
{
    QFETCH(bool, isRefused);
    RedisServer::Options options;
    options.tcp = true;
    options.config = {QByteArray("bind ") + DeadAddress};
    options.password = isRefused ? "another" : "";
    Started<RedisServer> replica(options);
    const FakeServer master({}, replica.port());
    QVERIFY(master.isListening());
    const auto url = serverAt(replica.port(), {});
    QVERIFY(url);
    Connection connection(*url);
    connection.setNeeded([] { return true; });
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    if (isRefused) {
        QVERIFY(EventLoopProbe::waitFor([&] { return !failed.isEmpty(); }));
        QCOMPARE(connection.failure(), Failure::Authentication);
    } else {
        QVERIFY(EventLoopProbe::waitFor([&] { return connection.state() == Connection::Ready; }));
        QCOMPARE(master.connectionsAccepted(), 0);
        connection.reconnect(u"the server is read-only"_s);
    }
    QVERIFY(EventLoopProbe::waitFor(
            [&] { return connection.state() == Connection::Ready && master.connectionsAccepted() == 1; }));
}

QTEST_GUILESS_MAIN(tst_HostAddresses)

#include "tst_hostaddresses.moc"
