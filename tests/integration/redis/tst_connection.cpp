// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/connection.h"
#include "support/eventloopprobe.h"
#include "support/eventually.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/redisserver.h"
#include "support/redistesting.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qeventloop.h>
#include <QtCore/qloggingcategory.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qsavefile.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qtemporarydir.h>
#include <QtCore/qtimer.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <optional>
#include <thread>

#include <dlfcn.h>

using namespace Qt::StringLiterals;

using namespace QtRedis;
using namespace RedisTesting;
using namespace Support;
using namespace std::chrono_literals;

namespace {

std::atomic<int> closedInVain{0};

} // namespace

// What Qt and the library call: this program's own comes before the C library's. A descriptor that is closed twice may
// be another thread's by then.
extern "C" Q_DECL_EXPORT int close(int descriptor)
{
    using Function = int (*)(int);
    static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "close"));
    const int result = real(descriptor);
    if (result != 0 && errno == EBADF)
        ++closedInVain;
    return result;
}

namespace {

using Arguments = QList<QByteArray>;

// sha1sum of the text
const Script echoScript = {"echo", "return ARGV[1]", "098e0f0d1448c0a81dafe820f66d460eb09263da"};

ServerUrl withLogin(const QUrl &url, const QString &user, const QString &password)
{
    ServerUrl server = serverUrl(url);
    server.user = user;
    server.password = password;
    return server;
}

bool becomesReady(Connection *connection)
{
    connection->open();
    return waitFor([connection] { return connection->state() == Connection::Ready; });
}

std::optional<CommandResult> call(Connection *connection, const Arguments &arguments,
                                  std::chrono::milliseconds timeout = 60s)
{
    std::optional<CommandResult> answer;
    connection->send(arguments, timeout, [&answer](const CommandResult &result) { answer = result; });
    if (!waitFor([&answer] { return answer.has_value(); }, timeout + 20s))
        qFatal("a command never ended");
    return answer;
}

QByteArray textOf(Connection *connection, const Arguments &arguments)
{
    return call(connection, arguments)->reply.text;
}

QStringList logged;

void keepLog(QtMsgType, const QMessageLogContext &, const QString &text)
{
    logged.append(text);
}

} // namespace

class tst_Connection : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init() { QVERIFY(m_server.command({"FLUSHALL"}) == QVariant(QByteArray("OK"))); }

    void commandAndReply_data() { addRows<QUrl>("url", {{"Unix", m_server.url()}, {"TCP", m_server.tcpUrl()}}); }
    void commandAndReply();
    void closesItsDescriptorOnce_data()
    {
        addRows<QUrl>("url", {{"unix", m_server.url()}, {"tcp", m_server.tcpUrl()}});
    }
    void closesItsDescriptorOnce();
    void startsAnew();
    void opensFromTheEventLoop();
    void clientName();
    void selectsTheDatabase();
    void databaseOutOfRange();

    void password();
    void userAndPassword();
    void passwordReplaced_data() { addRows<bool>("inFile", {{"environment", false}, {"file", true}}); }
    void passwordReplaced();
    void passwordFileMissing();
    void loginRefused_data();
    void loginRefused();
    void secretsAreNotLogged();
    void clientCommandsForbidden();
    void handshakeRefused_data();
    void handshakeRefused();
    void optionalStepsRefused_data()
    {
        addRows<QByteArray>(
                "reply",
                {{"as Redis", QByteArray("-ERR unknown command 'CLIENT'\r\n")},
                 {"ACL", QByteArray("-NOPERM this user has no permissions to run the 'client|id' command\r\n")},
                 {"as a proxy", QByteArray("-unsupported command 'CLIENT'\r\n")},
                 {"in other words", QByteArray("-Invalid request\r\n")}});
    }
    void optionalStepsRefused();
    void handshakeErrorThatPasses();
    void loginForgotten();
    void tooManyClients();

    void pipelineKeepsItsOrder();
    void oneWriteForOneTurn();
    void oneWriteForHandlers();
    void flushWritesNow();
    void largeArguments();
    void slicedReplies();
    void scriptAfterFlush();
    void scriptErrors();

    void notSentUnlessReady();
    void notSentWhenLostBeforeTheWrite();
    void closeEndsWhatIsUnanswered();
    void destructorWrites();
    void deletedInHandler();
    void deletedInSignal_data()
    {
        addRows<int>("when",
                     {{"Ready", 0},
                      {"lost: stateChanged", 1},
                      {"lost: handler", 2},
                      {"lost: failed", 3},
                      {"lost: repliesProcessed", 4},
                      {"answered: repliesProcessed", 5}});
    }
    void deletedInSignal();
    void closedInHandler();
    void reopenedInHandler();

    void deadline();
    TIMING void deadlineIsKept();
    void earlierDeadlineAfterLater();
    void answerThatCameWhileTheLoopWasBusy();
    void reconnectsAfterRestart();
    void reconnectsAfterKill();
    void lostBeforeAndAfter_data() { addRows<bool>("ran", {{"before it ran", false}, {"after it ran", true}}); }
    void lostBeforeAndAfter();
    void endsItsFormerConnection();
    void sparesTheConnectionsOfOthers_data();
    void sparesTheConnectionsOfOthers();
    TIMING void backsOff();
    void noSocketThere();
    void connectionRefused();

    void badReplies_data();
    void badReplies();
    void endlessRepliesReadOnlyTheLimit();
    void handshakeUnanswered();
    void unansweredPort();
    void nameThatDoesNotResolve() { connectToNameThatDoesNotResolve(); }
    void deletedWhileResolving() { deleteWhileResolving(); }
    void frozenServer();
    TIMING void loopStaysFree();
    void loopStaysFree_data()
    {
        addNamedRows<QString>("trouble",
                              {"unanswered port", "name that does not resolve", "deleted while resolving", "frozen"});
    }

private:
    using Pause = std::function<void(const std::function<void()> &)>;
    static void connectToUnansweredPort(const UnansweredPort &port);
    static void connectToNameThatDoesNotResolve();
    static void deleteWhileResolving();
    void sendToFrozenServer(const Pause &uncounted);

    RedisServer m_server{RedisServer::Options::withTcp()};
};

// The usual

void tst_Connection::commandAndReply()
{
    QFETCH(QUrl, url);
    Connection connection(serverUrl(url));
    QCOMPARE(connection.state(), Connection::Disconnected);
    QSignalSpy changed(&connection, &Connection::stateChanged);
    QVERIFY(becomesReady(&connection));
    QCOMPARE(changed.size(), 2);
    QCOMPARE(connection.failure(), Failure::None);
    QCOMPARE(connection.errorString(), QString());

    auto result = call(&connection, {"SET", "k", QByteArray("a\0\r\n\xff", 5)});
    QCOMPARE(result->outcome, CommandResult::Replied);
    QCOMPARE(result->reply.type, Reply::Status);
    QCOMPARE(result->reply.text, "OK");
    result = call(&connection, {"GET", "k"});
    QCOMPARE(result->reply.type, Reply::Bulk);
    QCOMPARE(result->reply.text, QByteArray("a\0\r\n\xff", 5));
    QCOMPARE(call(&connection, {"GET", "none"})->reply.type, Reply::Nil);
    QCOMPARE(call(&connection, {"INCR", "n"})->reply.integer, 1);
    result = call(&connection, {"INCR", "k"});
    QCOMPARE(result->outcome, CommandResult::Replied);
    QCOMPARE(result->reply.errorCode(), "ERR");
    QCOMPARE(call(&connection, {"MGET", "n", "none"})->reply.elements.size(), 2);
}

void tst_Connection::closesItsDescriptorOnce()
{
    QFETCH(QUrl, url);
    closedInVain = 0;
    for (int i = 0; i < 10; ++i) {
        Connection connection(serverUrl(url));
        QVERIFY(becomesReady(&connection));
        QCOMPARE(textOf(&connection, {"PING"}), "PONG");
    }
    QCOMPARE(closedInVain.load(), 0);
}

void tst_Connection::startsAnew()
{
    Connection connection(serverUrl(m_server.url()));
    for (int i = 0; i < 3; ++i) {
        QVERIFY(becomesReady(&connection));
        QCOMPARE(textOf(&connection, {"PING"}), "PONG");
        connection.close();
        QCOMPARE(connection.state(), Connection::Disconnected);
    }
    QVERIFY(waitFor([this] { return m_server.connectedClients() == 0; }));
}

void tst_Connection::opensFromTheEventLoop()
{
    Connection connection(serverUrl(QUrl(u"unix:///nowhere/at/all.sock"_s)));
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QCOMPARE(failed.size(), 0);
    QCOMPARE(connection.state(), Connection::Connecting);
    connection.open();
    QVERIFY(waitFor([&failed] { return !failed.isEmpty(); }));
}

void tst_Connection::clientName()
{
    Connection connection(serverUrl(m_server.url()));
    connection.setClientName("tst-client-name");
    QVERIFY(becomesReady(&connection));
    QCOMPARE(textOf(&connection, {"CLIENT", "GETNAME"}), "tst-client-name");
}

void tst_Connection::selectsTheDatabase()
{
    ServerUrl server = serverUrl(m_server.tcpUrl());
    server.database = 5;
    Connection connection(server);
    QVERIFY(becomesReady(&connection));
    QVERIFY(textOf(&connection, {"CLIENT", "INFO"}).contains(" db=5 "));
}

void tst_Connection::databaseOutOfRange()
{
    ServerUrl server = serverUrl(m_server.url());
    server.database = 999;
    Connection connection(server);
    connection.setConnectTimeout(60s);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return !failed.isEmpty(); }));
    QCOMPARE(connection.failure(), Failure::Server);
    QVERIFY2(connection.errorString().contains(QLatin1String("database 999")), qPrintable(connection.errorString()));
    QVERIFY2(connection.errorString().contains(QLatin1String("out of range")), qPrintable(connection.errorString()));
}

// Login

void tst_Connection::password()
{
    RedisServer::Options options;
    options.password = "c4n4ry";
    Started<RedisServer> server(options);
    Connection connection(withLogin(server.url(), {}, u"c4n4ry"_s));
    QVERIFY(becomesReady(&connection));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
}

void tst_Connection::userAndPassword()
{
    RedisServer::Options options;
    options.users = {"u5er on >c4n4ry ~* &* +@all"};
    Started<RedisServer> server(options);
    Connection connection(withLogin(server.url(), u"u5er"_s, u"c4n4ry"_s));
    QVERIFY(becomesReady(&connection));
    QCOMPARE(textOf(&connection, {"ACL", "WHOAMI"}), "u5er");
}

void tst_Connection::passwordReplaced()
{
    QFETCH(bool, inFile);
    const QTemporaryDir folder;
    const auto provide = [&](const QByteArray &password) {
        if (!inFile)
            return qputenv("QDISTLOCK_PASSWORD", password);
        QSaveFile file(folder.filePath(u"password"_s));
        return file.open(QIODevice::WriteOnly) && file.write(password + '\n') > 0 && file.commit();
    };
    const auto clean = qScopeGuard([] {
        qunsetenv("QDISTLOCK_PASSWORD");
        qunsetenv("QDISTLOCK_PASSWORD_FILE");
    });
    if (inFile)
        qputenv("QDISTLOCK_PASSWORD_FILE", folder.filePath(u"password"_s).toUtf8());
    RedisServer::Options options;
    options.users = {"u5er on >first ~* &* +@all"};
    Started<RedisServer> server(options);
    QUrl url = server.url();
    url.setUserName(u"u5er"_s);
    QVERIFY(provide("first"));
    Connection connection(serverUrl(url));
    QVERIFY(becomesReady(&connection));

    QVERIFY(provide("second"));
    QCOMPARE(server.command({"ACL", "SETUSER", "u5er", "resetpass", ">second"}), QVariant(QByteArray("OK")));
    QSignalSpy failed(&connection, &Connection::failed);
    QVERIFY(server.command({"CLIENT", "KILL", "USER", "u5er"}).toLongLong() > 0);
    QVERIFY(waitFor([&] { return connection.state() != Connection::Ready; }));
    QVERIFY(becomesReady(&connection));
    QCOMPARE(failed.size(), 0); // no login was refused
    QCOMPARE(textOf(&connection, {"ACL", "WHOAMI"}), "u5er");
}

void tst_Connection::passwordFileMissing()
{
    const QTemporaryDir folder;
    const QString path = folder.filePath(u"password"_s);
    qputenv("QDISTLOCK_PASSWORD_FILE", path.toUtf8());
    const auto clean = qScopeGuard([] { qunsetenv("QDISTLOCK_PASSWORD_FILE"); });
    FakeServer server;
    Connection connection(serverUrl(server.url()));
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Not retried"_s));
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return !failed.isEmpty(); }));
    QCOMPARE(connection.failure(), Failure::Authentication);
    QVERIFY2(connection.errorString().contains(path), qPrintable(connection.errorString()));
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write("c4n4ry") > 0 && file.flush());
    QVERIFY(becomesReady(&connection));
}

void tst_Connection::loginRefused_data()
{
    addColumns<bool, QString, QString, QString>("needed", "user", "password", "says");

    QTest::newRow("wrong password") << true << QString() << u"c4n4ry"_s << u"WRONGPASS"_s;
    QTest::newRow("wrong password of a user") << true << u"u5er"_s << u"c4n4ry"_s << u"WRONGPASS"_s;
    QTest::newRow("unknown user") << true << u"n0body"_s << u"c4n4ry"_s << u"WRONGPASS"_s;
    QTest::newRow("no password") << true << QString() << QString() << u"asks for a password"_s;
    QTest::newRow("password where none is set") << false << QString() << u"c4n4ry"_s << u"has none set"_s;
}

void tst_Connection::loginRefused()
{
    QFETCH(bool, needed);
    QFETCH(QString, user);
    QFETCH(QString, password);
    QFETCH(QString, says);

    RedisServer::Options options;
    if (needed) {
        options.password = "right";
        options.users = {"u5er on >right ~* &* +@all"};
    }
    Started<RedisServer> server(options);
    FaultProxy proxy(server);
    Connection connection(withLogin(proxy.url(), user, password));
    connection.setConnectTimeout(60s);
    connection.setClientName("tst");
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Not retried"_s));
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return !failed.isEmpty(); }));

    QCOMPARE(connection.state(), Connection::Disconnected);
    QCOMPARE(connection.failure(), Failure::Authentication);
    QVERIFY(isPermanent(connection.failure()));
    const QString error = connection.errorString();
    QVERIFY2(error.contains(says), qPrintable(error));
    QVERIFY2(error.contains(proxy.url().toString()), qPrintable(error));
    QVERIFY(!error.contains(QLatin1String("c4n4ry")));
    QVERIFY(user.isEmpty() || !error.contains(user));
    // A first retry would come within 15 ms.
    QVERIFY(!waitFor([&] { return proxy.connectionsAccepted() > 1 || failed.size() > 1; }, 200ms));
    const auto result = call(&connection, {"PING"});
    QCOMPARE(result->outcome, CommandResult::NotSent);
    QCOMPARE(result->failure, Failure::Authentication);

    // The next open() tries once more.
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Not retried"_s));
    connection.open();
    QVERIFY(waitFor([&failed] { return failed.size() == 2; }));
    QCOMPARE(proxy.connectionsAccepted(), 2);
}

void tst_Connection::secretsAreNotLogged()
{
    RedisServer::Options options;
    options.users = {"u5er on >c4n4ry ~* &* +@all"};
    Started<RedisServer> server(options);
    logged.clear();
    QLoggingCategory::setFilterRules(u"qdistlock.*=true"_s);
    const auto before = qInstallMessageHandler(keepLog);
    {
        Connection connection(withLogin(server.url(), u"u5er"_s, u"c4n4ry"_s));
        connection.setClientName("tst");
        if (becomesReady(&connection)) {
            server.command({"CLIENT", "KILL", "USER", "u5er"});
            waitFor([&connection] { return connection.state() != Connection::Ready; });
            waitFor([&connection] { return connection.state() == Connection::Ready; });
        }
        Connection refused(withLogin(server.url(), u"u5er"_s, u"c4n4ry2"_s));
        QSignalSpy failed(&refused, &Connection::failed);
        refused.open();
        waitFor([&failed] { return !failed.isEmpty(); });
    }
    qInstallMessageHandler(before);
    QLoggingCategory::setFilterRules(QString());
    QVERIFY(logged.size() >= 3); // ready, lost, refused
    for (const QString &line : std::as_const(logged)) {
        QVERIFY2(!line.contains(QLatin1String("c4n4ry")), qPrintable(line));
        QVERIFY2(!line.contains(QLatin1String("u5er")), qPrintable(line));
    }
}

void tst_Connection::clientCommandsForbidden()
{
    RedisServer::Options options;
    options.users = {"u5er on >pw ~* +ping"};
    Started<RedisServer> server(options);
    Connection connection(withLogin(server.url(), u"u5er"_s, u"pw"_s));
    connection.setClientName("tst");
    QVERIFY(becomesReady(&connection));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
    server.command({"CLIENT", "KILL", "USER", "u5er"});
    QVERIFY(waitFor([&connection] { return connection.state() != Connection::Ready; }));
    QVERIFY(becomesReady(&connection));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
}

void tst_Connection::handshakeRefused_data()
{
    addColumns<QByteArray, int, QString>("greeting", "failure", "says");
    QTest::newRow("max clients") << QByteArray("-ERR max number of clients reached\r\n") << int(Failure::Server)
                                 << u"maxclients"_s;
    QTest::newRow("max clients in a cluster")
            << QByteArray("-ERR max number of clients + cluster connections reached\r\n") << int(Failure::Server)
            << u"maxclients"_s;
    QTest::newRow("protected mode") << QByteArray("-DENIED Redis is running in protected mode because …\r\n")
                                    << int(Failure::Permission) << u"protected mode"_s;
    QTest::newRow("loading") << QByteArray("-LOADING Redis is loading the dataset in memory\r\n")
                             << int(Failure::Server) << u"LOADING"_s;
    QTest::newRow("another protocol") << QByteArray("220 smtp.example ESMTP\r\n") << int(Failure::Protocol)
                                      << u"is it a Redis server?"_s;
    QTest::newRow("nothing") << QByteArray() << int(Failure::Network) << u"closed"_s;
}

void tst_Connection::handshakeRefused()
{
    QFETCH(QByteArray, greeting);
    QFETCH(int, failure);
    QFETCH(QString, says);
    FakeServer server;
    server.setAnswersLogin(false);
    server.setHandler([](const Arguments &, int) { return FakeServer::Answer{}; });
    FakeServer::Answer answer;
    answer.bytes = greeting;
    answer.close = true;
    server.setGreeting(answer);

    Connection connection(serverUrl(server.url()));
    if (isPermanent(Failure(failure)))
        QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Not retried"_s));
    // The end of the connection may outrun its reason once; not each time.
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&] { return !failed.isEmpty() && connection.failure() == Failure(failure); }));
    QVERIFY2(connection.errorString().contains(says), qPrintable(connection.errorString()));
    QCOMPARE(connection.state(), isPermanent(Failure(failure)) ? Connection::Disconnected : Connection::Connecting);
}

void tst_Connection::optionalStepsRefused()
{
    QFETCH(QByteArray, reply);
    FakeServer server([reply](const Arguments &arguments, int) -> FakeServer::Answer {
        return {arguments.first() == "CLIENT" ? reply : QByteArray("+PONG\r\n")};
    });
    server.setAnswersLogin(false);
    Connection connection(serverUrl(server.url()));
    connection.setClientName("name");
    QVERIFY(becomesReady(&connection));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
    QCOMPARE(server.connectionsAccepted(), 1);
}

// By a proxy that has connected to the server again, or a service whose access tokens expire.
void tst_Connection::loginForgotten()
{
    FakeServer server([](const Arguments &, int connection) -> FakeServer::Answer {
        return {connection == 1 ? "-NOAUTH Authentication required.\r\n" : "+OK\r\n"};
    });
    ServerUrl url = serverUrl(server.url());
    url.password = u"secret"_s;
    Connection connection(url);
    QVERIFY(becomesReady(&connection));
    QVERIFY(textOf(&connection, {"GET", "key"}).startsWith("NOAUTH"));
    QVERIFY(waitFor([&] { return server.connectionsAccepted() == 2 && connection.state() == Connection::Ready; }));
    QCOMPARE(textOf(&connection, {"GET", "key"}), "OK");
    QCOMPARE(server.connectionsAccepted(), 2);
}

void tst_Connection::handshakeErrorThatPasses()
{
    FakeServer server([](const Arguments &arguments, int connection) -> FakeServer::Answer {
        if (connection == 1)
            return {"-LOADING Redis is loading the dataset in memory\r\n"};
        return {arguments.value(1) == "ID" ? ":7\r\n" : "+OK\r\n"};
    });
    server.setAnswersLogin(false);
    ServerUrl url = serverUrl(server.url());
    url.database = 1;
    Connection connection(url);
    QVERIFY(becomesReady(&connection));
    QCOMPARE(server.connectionsAccepted(), 2);
}

void tst_Connection::tooManyClients()
{
    RedisServer::Options options;
    options.config = {"maxclients 3"};
    Started<RedisServer> server(options);
    RespClient others[2];
    for (RespClient &other : others) {
        QVERIFY(other.connectToUnix(server.socketPath()));
        QCOMPARE(other.command({"PING"}), QVariant(QByteArray("PONG")));
    }
    Connection connection(serverUrl(server.url()));
    connection.open();
    QVERIFY(waitFor([&connection] { return connection.failure() == Failure::Server; }));
    QVERIFY2(connection.errorString().contains(QLatin1String("maxclients")), qPrintable(connection.errorString()));
    others[0].close();
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
}

// Sending

void tst_Connection::pipelineKeepsItsOrder()
{
    Connection connection(serverUrl(m_server.tcpUrl()));
    QVERIFY(becomesReady(&connection));
    QList<qint64> numbers;
    for (int i = 0; i < 5000; ++i) {
        connection.send({"INCR", "n"}, 60s,
                        [&numbers](const CommandResult &result) { numbers.append(result.reply.integer); });
    }
    QVERIFY(waitFor([&numbers] { return numbers.size() == 5000; }));
    for (int i = 0; i < 5000; ++i)
        QCOMPARE(numbers[i], i + 1);
}

void tst_Connection::oneWriteForOneTurn()
{
    Connection connection(serverUrl(m_server.url()));
    QVERIFY(becomesReady(&connection));
    const int before = m_server.info("stats", "total_reads_processed").toInt();
    int answers = 0;
    for (int i = 0; i < 256; ++i)
        connection.send({"INCR", "n"}, 60s, [&answers](const CommandResult &) { ++answers; });
    QCOMPARE(answers, 0);
    QVERIFY(waitFor([&answers] { return answers == 256; }));
    const int reads = m_server.info("stats", "total_reads_processed").toInt() - before;
    QVERIFY2(reads <= 2, qPrintable(QString::number(reads))); // ours, and INFO itself
}

void tst_Connection::oneWriteForHandlers()
{
    Connection connection(serverUrl(m_server.url()));
    QVERIFY(becomesReady(&connection));
    int answers = 0;
    const auto count = [&answers](const CommandResult &) { ++answers; };
    bool batched = false;
    connect(&connection, &Connection::repliesProcessed, &connection, [&] {
        if (!std::exchange(batched, true)) {
            for (int i = 0; i < 100; ++i)
                connection.send({"INCR", "n"}, 60s, count);
        }
    });
    const int before = m_server.info("stats", "total_reads_processed").toInt();
    connection.send({"INCR", "n"}, 60s, [&](const CommandResult &) {
        for (int i = 0; i < 100; ++i)
            connection.send({"INCR", "n"}, 60s, count);
    });
    QVERIFY(waitFor([&answers] { return answers == 200; }));
    const int reads = m_server.info("stats", "total_reads_processed").toInt() - before;
    QVERIFY2(reads <= 3, qPrintable(QString::number(reads)));
}

void tst_Connection::flushWritesNow()
{
    Connection connection(serverUrl(m_server.url()));
    QVERIFY(becomesReady(&connection));
    connection.send({"SET", "k", "v"}, 60s, {});
    connection.flush();
    EVENTUALLY_COMPARE(m_server.get("k"), QByteArray("v"));
}

void tst_Connection::largeArguments()
{
    Connection connection(serverUrl(m_server.tcpUrl()));
    QVERIFY(becomesReady(&connection));
    const QByteArray large(12 * 1024 * 1024, 'x');
    QCOMPARE(textOf(&connection, {"SET", "k", large}), "OK");
    QCOMPARE(textOf(&connection, {"GET", "k"}), large);
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
}

void tst_Connection::slicedReplies()
{
    FaultProxy proxy(m_server);
    proxy.setSlicing(3);
    Connection connection(serverUrl(proxy.url()));
    QVERIFY(becomesReady(&connection));
    for (int i = 1; i <= 20; ++i) {
        QCOMPARE(call(&connection, {"RPUSH", "list", QByteArray::number(i) + "\r\n"})->reply.integer, i);
        QCOMPARE(call(&connection, {"LRANGE", "list", "0", "-1"})->reply.elements.size(), i);
    }
}

void tst_Connection::scriptAfterFlush()
{
    Connection connection(serverUrl(m_server.tcpUrl()));
    QVERIFY(becomesReady(&connection));
    m_server.command({"SCRIPT", "FLUSH"});
    const qint64 evals = m_server.commandsProcessed("eval");
    for (int round = 0; round < 2; ++round) {
        QByteArrayList answers;
        const auto keep = [&answers](const CommandResult &result) { answers.append(result.reply.text); };
        connection.send({"ECHO", "before"}, 60s, keep);
        connection.sendScript(echoScript, {"key"}, {"scripted\r\n"}, 60s, keep);
        connection.send({"ECHO", "after"}, 60s, keep);
        QVERIFY(waitFor([&answers] { return answers.size() == 3; }));
        QVERIFY(answers.contains("scripted\r\n"));
        QVERIFY(answers.indexOf("before") < answers.indexOf("after"));
        QCOMPARE(m_server.commandsProcessed("eval") - evals,
                 1); // the second round finds the script
    }
}

// Only NOSCRIPT is answered by EVAL, and only once.
void tst_Connection::scriptErrors()
{
    FakeServer server("-NOSCRIPT No matching script. Please use EVAL.\r\n");
    Connection connection(serverUrl(server.url()));
    QVERIFY(becomesReady(&connection));
    std::optional<CommandResult> answer;
    connection.sendScript(echoScript, {"k"}, {"a"}, 60s, [&answer](const CommandResult &result) { answer = result; });
    QVERIFY(waitFor([&answer] { return answer.has_value(); }));
    QCOMPARE(answer->outcome, CommandResult::Replied);
    QCOMPARE(answer->reply.errorCode(), "NOSCRIPT");
    QCOMPARE(server.commands(),
             (QList<Arguments>{{"EVALSHA", echoScript.sha1, "1", "k", "a"}, {"EVAL", echoScript.text, "1", "k", "a"}}));

    answer.reset();
    server.setHandler([](const Arguments &, int) { return FakeServer::Answer{"-READONLY You can't write\r\n"}; });
    connection.sendScript(echoScript, {}, {}, 60s, [&answer](const CommandResult &result) { answer = result; });
    QVERIFY(waitFor([&answer] { return answer.has_value(); }));
    QCOMPARE(answer->reply.errorCode(), "READONLY");
    QCOMPARE(server.commands().size(), 3);
}

// Ends

void tst_Connection::notSentUnlessReady()
{
    Connection connection(serverUrl(m_server.url()));
    int calls = 0;
    CommandResult last;
    const auto keep = [&](const CommandResult &result) {
        ++calls;
        last = result;
    };
    connection.send({"SET", "k", "c4n4ry"}, 60s, keep);
    connection.sendScript(echoScript, {}, {"c4n4ry"}, 60s, keep);
    connection.open();
    connection.send({"SET", "k", "c4n4ry"}, 60s, keep);
    QCOMPARE(calls, 0);
    QVERIFY(waitFor([&calls] { return calls == 3; }));
    QCOMPARE(last.outcome, CommandResult::NotSent);
    QVERIFY(last.failure != Failure::None);
    QVERIFY2(last.errorString.contains(QLatin1String("SET")), qPrintable(last.errorString));
    QVERIFY2(last.errorString.contains(m_server.socketPath()), qPrintable(last.errorString));
    QVERIFY(!last.errorString.contains(QLatin1String("c4n4ry")));
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
    QVERIFY(!m_server.exists("k"));
    QCOMPARE(calls, 3);
}

// An answer and a bad byte in one read: what the answer's handler sends has no chance to go out.
void tst_Connection::notSentWhenLostBeforeTheWrite()
{
    FakeServer server("+OK\r\n?");
    Connection connection(serverUrl(server.url()));
    QVERIFY(becomesReady(&connection));
    QList<CommandResult::Outcome> outcomes;
    const auto keep = [&outcomes](const CommandResult &result) { outcomes.append(result.outcome); };
    connection.send({"GET", "a"}, 60s, [&](const CommandResult &result) {
        keep(result);
        connection.send({"SET", "b", "c"}, 60s, keep);
    });
    connection.send({"GET", "d"}, 60s, keep);
    QVERIFY(waitFor([&outcomes] { return outcomes.size() == 3; }));
    QCOMPARE(outcomes,
             (QList<CommandResult::Outcome>{CommandResult::Replied, CommandResult::Unknown, CommandResult::NotSent}));
    QVERIFY(!server.commands().contains(Arguments{"SET", "b", "c"}));
}

void tst_Connection::closeEndsWhatIsUnanswered()
{
    Connection connection(serverUrl(m_server.url()));
    QVERIFY(becomesReady(&connection));
    int calls = 0;
    CommandResult last;
    connection.send({"SET", "k", "v"}, 60s, [&](const CommandResult &result) {
        ++calls;
        last = result;
    });
    connection.close();
    QCOMPARE(calls, 0);
    QVERIFY(waitFor([&calls] { return calls == 1; }));
    QCOMPARE(last.outcome, CommandResult::Unknown);
    EVENTUALLY_COMPARE(m_server.get("k"), QByteArray("v"));
    QCOMPARE(calls, 1);
}

void tst_Connection::destructorWrites()
{
    for (const QUrl &url : {m_server.url(), m_server.tcpUrl()}) {
        m_server.command({"DEL", "n"});
        int calls = 0;
        {
            Connection connection(serverUrl(url));
            QVERIFY(becomesReady(&connection));
            for (int i = 0; i < 100; ++i)
                connection.send({"INCR", "n"}, 60s, [&calls](const CommandResult &) { ++calls; });
        }
        // Without an event loop of ours
        QDeadlineTimer deadline(60s);
        while (m_server.get("n") != "100" && !deadline.hasExpired())
            std::this_thread::yield();
        QCOMPARE(m_server.get("n"), "100");
        QCOMPARE(calls, 0);
    }
}

void tst_Connection::deletedInHandler()
{
    auto *connection = new Connection(serverUrl(m_server.tcpUrl()));
    QVERIFY(becomesReady(connection));
    int later = 0;
    for (int i = 0; i < 10; ++i) {
        connection->send({"INCR", "n"}, 60s, [&connection](const CommandResult &result) {
            if (result.reply.integer == 5) {
                connection->send({"SET", "last", "word"}, 60s, {});
                delete std::exchange(connection, nullptr);
            }
        });
    }
    connection->send({"PING"}, 60s, [&later](const CommandResult &) { ++later; });
    QVERIFY(waitFor([&connection] { return !connection; }));
    EVENTUALLY_COMPARE(m_server.get("last"), QByteArray("word"));
    QCOMPARE(later, 0);
    QVERIFY(waitFor([this] { return m_server.connectedClients() == 0; }));
}

void tst_Connection::deletedInSignal()
{
    QFETCH(int, when);
    FaultProxy proxy(m_server);
    auto *connection = new Connection(serverUrl(proxy.url()));
    const auto deleteNow = [&connection] { delete std::exchange(connection, nullptr); };
    if (when == 0) {
        connect(connection, &Connection::stateChanged, this, [&] {
            if (connection->state() == Connection::Ready)
                deleteNow();
        });
        connection->open();
        QVERIFY(waitFor([&connection] { return !connection; }));
        return;
    }
    QVERIFY(becomesReady(connection));
    if (when == 1)
        connect(connection, &Connection::stateChanged, this, deleteNow);
    else if (when == 3)
        connect(connection, &Connection::failed, this, deleteNow);
    else if (when >= 4)
        connect(connection, &Connection::repliesProcessed, this, deleteNow);
    for (int i = 0; i < 3; ++i) {
        connection->send({"PING"}, 60s, [&](const CommandResult &) {
            if (when == 2 && connection)
                deleteNow();
        });
    }
    if (when != 5)
        proxy.cutBefore("PING");
    QVERIFY(waitFor([&connection] { return !connection; }));
}

void tst_Connection::closedInHandler()
{
    Connection connection(serverUrl(m_server.url()));
    QVERIFY(becomesReady(&connection));
    int answered = 0;
    int unknown = 0;
    for (int i = 0; i < 10; ++i) {
        connection.send({"INCR", "n"}, 60s, [&](const CommandResult &result) {
            ++(result.outcome == CommandResult::Replied ? answered : unknown);
            if (result.reply.integer == 3)
                connection.close();
        });
    }
    QVERIFY(waitFor([&] { return answered + unknown == 10; }));
    QCOMPARE(answered, 3);
    QCOMPARE(connection.state(), Connection::Disconnected);
    QVERIFY(becomesReady(&connection));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
    QCOMPARE(answered + unknown, 10);
}

void tst_Connection::reopenedInHandler()
{
    Connection connection(serverUrl(m_server.url()));
    QVERIFY(becomesReady(&connection));
    bool reopened = false;
    connection.send({"PING"}, 60s, [&](const CommandResult &) {
        connection.close();
        connection.open();
        reopened = true;
    });
    QVERIFY(waitFor([&reopened] { return reopened; }));
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
}

// As a slot that opens a modal dialog: the others' commands must go on.
void tst_Connection::deadline()
{
    Connection connection(serverUrl(m_server.tcpUrl()));
    connection.setConnectTimeout(60s);
    QVERIFY(becomesReady(&connection));
    QSignalSpy failed(&connection, &Connection::failed);
    m_server.pause();
    QList<CommandResult> results;
    const auto keep = [&results](const CommandResult &result) { results.append(result); };
    connection.send({"SET", "k", "c4n4ry"}, 200ms, keep);
    connection.send({"SET", "other", "c4n4ry"}, 60s, keep);
    QVERIFY(waitFor([&results] { return results.size() == 2; }));
    QCOMPARE(connection.state(), Connection::Connecting);
    QCOMPARE(connection.failure(), Failure::Timeout);
    QCOMPARE(failed.size(), 1);
    QCOMPARE(results[0].outcome, CommandResult::Unknown);
    QCOMPARE(results[0].failure, Failure::Timeout);
    QCOMPARE(results[1].outcome, CommandResult::Unknown);
    QCOMPARE(results[1].failure, Failure::Network);
    for (const CommandResult &result : std::as_const(results)) {
        QVERIFY2(result.errorString.contains(QLatin1String("no reply to SET within 200 ms")),
                 qPrintable(result.errorString));
        QVERIFY(!result.errorString.contains(QLatin1String("c4n4ry")));
    }
    m_server.resume();
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
}

void tst_Connection::deadlineIsKept()
{
    leavesRoomFor(290ms);
    FakeServer server{QByteArray()};
    Connection connection(serverUrl(server.url()));
    QVERIFY(becomesReady(&connection));
    QElapsedTimer timer;
    timer.start();
    const auto result = call(&connection, {"SET", "k", "v"}, 200ms);
    const qint64 elapsed = timer.elapsed();
    QCOMPARE(result->failure, Failure::Timeout);
    QVERIFY2(elapsed >= 200 && elapsed < 500, qPrintable(QString::number(elapsed)));
}

void tst_Connection::earlierDeadlineAfterLater()
{
    FakeServer server{QByteArray()};
    Connection connection(serverUrl(server.url()));
    connection.setConnectTimeout(60s);
    QVERIFY(becomesReady(&connection));
    QList<CommandResult> results;
    const auto keep = [&results](const CommandResult &result) { results.append(result); };
    connection.send({"A"}, 60s, keep);
    connection.send({"B"}, 100ms, keep);
    QVERIFY(waitFor([&results] { return results.size() == 2; }));
    QCOMPARE(results[0].failure, Failure::Network);
    QCOMPARE(results[1].failure, Failure::Timeout);
}

void tst_Connection::answerThatCameWhileTheLoopWasBusy()
{
    Connection connection(serverUrl(m_server.tcpUrl()));
    QVERIFY(becomesReady(&connection));
    const qint64 before = m_server.commandsProcessed("set");
    std::optional<CommandResult> answer;
    connection.send({"SET", "k", "v"}, 50ms, [&answer](const CommandResult &result) { answer = result; });
    connection.flush();
    std::this_thread::sleep_for(200ms); // the fault: a busy loop
    const QDeadlineTimer deadline(60s);
    while (m_server.commandsProcessed("set") == before && !deadline.hasExpired())
        std::this_thread::yield();
    m_server.command({"PING"}); // once this is answered, so is that
    QVERIFY(waitFor([&answer] { return answer.has_value(); }));
    QCOMPARE(answer->outcome, CommandResult::Replied);
    QCOMPARE(connection.state(), Connection::Ready);
}

void tst_Connection::reconnectsAfterRestart()
{
    Connection connection(serverUrl(m_server.url()));
    connection.setClientName("tst");
    QVERIFY(becomesReady(&connection));
    QVERIFY(m_server.restart());
    QVERIFY(waitFor([&connection] { return connection.state() != Connection::Ready; }));
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
}

void tst_Connection::reconnectsAfterKill()
{
    Connection connection(serverUrl(m_server.tcpUrl()));
    connection.setConnectTimeout(60s);
    QSignalSpy failed(&connection, &Connection::failed);
    QString error;
    connect(&connection, &Connection::failed, &connection, [&] { error = connection.errorString(); });
    for (int i = 1; i <= 3; ++i) {
        QVERIFY(becomesReady(&connection));
        const QByteArray id = QByteArray::number(call(&connection, {"CLIENT", "ID"})->reply.integer);
        const auto kill = [&] { return m_server.command({"CLIENT", "KILL", "ID", id}) == QVariant(1); };
        // While nobody waits for a reply, that is no failure.
        if (i == 2) {
            QVERIFY(kill());
            QVERIFY(waitFor([&] { return connection.state() != Connection::Ready; }));
            QVERIFY(failed.size() == 1 && connection.errorString().isEmpty());
            continue;
        }
        connection.send({"BLPOP", "none", "0"}, 60s, [](const CommandResult &) {});
        QVERIFY(waitFor([&] {
            return m_server.command({"CLIENT", "LIST", "ID", id}).toByteArray().contains("blpop");
        }));
        QVERIFY(kill());
        QVERIFY(waitFor([&] { return failed.size() == (i + 1) / 2; }));
        QVERIFY2(error.contains(QLatin1String("closed")), qPrintable(error));
    }
    QVERIFY(becomesReady(&connection));
}

// The client cannot distinguish the two, and its error says so.
void tst_Connection::lostBeforeAndAfter()
{
    QFETCH(bool, ran);
    FaultProxy proxy(m_server);
    Connection connection(serverUrl(proxy.url()));
    QVERIFY(becomesReady(&connection));
    if (ran)
        proxy.cutAfter("SET");
    else
        proxy.cutBefore("SET");
    const auto result = call(&connection, {"SET", "k", "v"});
    QCOMPARE(result->outcome, CommandResult::Unknown);
    QCOMPARE(result->failure, Failure::Network);
    QVERIFY2(result->errorString.contains(QLatin1String("may or may not have run")), qPrintable(result->errorString));
    QCOMPARE(m_server.exists("k"), ran);
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
}

void tst_Connection::endsItsFormerConnection()
{
    FaultProxy proxy(m_server);
    Connection connection(serverUrl(proxy.url()));
    connection.setClientName("tst-former");
    QVERIFY(becomesReady(&connection));
    const auto ours = [this] { return m_server.command({"CLIENT", "LIST"}).toByteArray().count(" name=tst-former "); };
    QCOMPARE(ours(), 1);

    proxy.setBlackHole(true); // the server does not learn of the end
    QCOMPARE(call(&connection, {"PING"}, 100ms)->outcome, CommandResult::Unknown);
    QCOMPARE(ours(), 1);
    proxy.setBlackHole(false);
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
    QCOMPARE(textOf(&connection, {"PING"}), "PONG");
    QCOMPARE(ours(), 1);
    QCOMPARE(proxy.commandsForwarded("CLIENT") >= 6, true); // SETNAME, ID; SETNAME, LIST, ID, KILL
}

void tst_Connection::sparesTheConnectionsOfOthers_data()
{
    QTest::addColumn<QByteArray>("list"); // the answer to CLIENT LIST ID 1
    QTest::addColumn<bool>("killed");
    QTest::newRow("ours") << QByteArray("id=1 addr=1.2.3.4:5 fd=8 name=tst age=3 cmd=ping\n") << true;
    QTest::newRow("another name") << QByteArray("id=1 addr=1.2.3.4:5 fd=8 name=other age=3\n") << false;
    QTest::newRow("longer name") << QByteArray("id=1 addr=1.2.3.4:5 fd=8 name=tst2 age=3\n") << false;
    QTest::newRow("no name") << QByteArray("id=1 addr=1.2.3.4:5 fd=8 name= age=3\n") << false;
    QTest::newRow("another id") << QByteArray("id=12 addr=1.2.3.4:5 fd=8 name=tst age=3\n") << false;
    QTest::newRow("gone") << QByteArray() << false;
}

void tst_Connection::sparesTheConnectionsOfOthers()
{
    QFETCH(QByteArray, list);
    QFETCH(bool, killed);
    FakeServer server([list](const Arguments &arguments, int connection) -> FakeServer::Answer {
        if (arguments.value(1) == "ID")
            return {':' + QByteArray::number(connection) + "\r\n"};
        if (arguments.value(1) == "LIST")
            return {Resp::encodeBulk(list)};
        return {"+OK\r\n"};
    });
    server.setAnswersLogin(false);
    Connection connection(serverUrl(server.url()));
    connection.setClientName("tst");
    QVERIFY(becomesReady(&connection));
    server.closeAll();
    QVERIFY(waitFor([&connection] { return connection.state() != Connection::Ready; }));
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
    QCOMPARE(textOf(&connection, {"ECHO"}), "OK");

    const QList<Arguments> commands = server.commands();
    QVERIFY(commands.contains(Arguments{"CLIENT", "LIST", "ID", "1"}));
    const auto kill = commands.indexOf(Arguments{"CLIENT", "KILL", "ID", "1"});
    QCOMPARE(kill >= 0, killed);
    QVERIFY(kill < commands.indexOf(Arguments{"ECHO"})); // nothing new runs before it
}

void tst_Connection::backsOff()
{
    Connection connection(serverUrl(QUrl(u"unix:///nowhere/at/all.sock"_s)));
    int failures = 0;
    connect(&connection, &Connection::failed, &connection, [&failures] { ++failures; });
    QElapsedTimer timer;
    timer.start();
    connection.open();
    QVERIFY(waitFor([&failures] { return failures == 7; }, 20s));
    // 10 + 20 + 40 + 80 + 160 + 320 ms, half of each at least
    QVERIFY2(timer.elapsed() >= 315, qPrintable(QString::number(timer.elapsed())));
    connection.close();
    QVERIFY(!waitFor([&failures] { return failures > 7; }, 100ms));
}

void tst_Connection::noSocketThere()
{
    Connection connection(serverUrl(QUrl(u"unix:///nowhere/at/all.sock"_s)));
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return failed.size() >= 2; }));
    QCOMPARE(connection.state(), Connection::Connecting);
    QCOMPARE(connection.failure(), Failure::Network);
    QCOMPARE(connection.errorString(),
             u"unix:///nowhere/at/all.sock: there is no such socket; is the server "
             "running there?"_s);
}

void tst_Connection::connectionRefused()
{
    FaultProxy proxy(m_server);
    proxy.setRefusing(true);
    Connection connection(serverUrl(proxy.url()));
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return failed.size() >= 2; }));
    QCOMPARE(connection.failure(), Failure::Network);
    QVERIFY2(connection.errorString().contains(QLatin1String("refused")), qPrintable(connection.errorString()));
    proxy.setRefusing(false);
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
}

void tst_Connection::badReplies_data()
{
    addColumns<QByteArray, QByteArray, QString>("bytes", "endless", "says");
    const auto row = [](const char *name, const QByteArray &bytes, const QByteArray &endless, const char *says) {
        QTest::newRow(name) << bytes << endless << QString::fromUtf8(says);
    };
    row("unknown type", "?", {}, "type");
    row("RESP3", "%1\r\n+a\r\n+b\r\n", {}, "type");
    row("half good", "*2\r\n:1\r\n:x\r\n", {}, "digit");
    row("huge array", "*200000000\r\n", {}, "elements");
    row("huge string", "$2147483648\r\n", {}, "string of more than");
    row("deep", QByteArray("*1\r\n").repeated(8), {}, "deep");
    row("negative", "$-2\r\n", {}, "negative");
    row("endless line", "+", "xxxxxxxx", "line of more than");
    row("endless error", "-", "xxxxxxxx", "line of more than");
    row("endless number", ":", "9", "64 bits");
    row("endless depth", {}, "*1\r\n", "deep");
    row("endless replies", {}, ":1\r\n", "unexpected reply");
    row("endless nothing", {}, QByteArray(16, '\0'), "type");
    row("endless lines", {}, "\r\n", "type");
    row("two answers", "+OK\r\n+OK\r\n", {}, "unexpected reply");
}

void tst_Connection::badReplies()
{
    QFETCH(QByteArray, bytes);
    QFETCH(QByteArray, endless);
    QFETCH(QString, says);
    FakeServer server([=](const Arguments &arguments, int) -> FakeServer::Answer {
        FakeServer::Answer answer;
        answer.bytes = arguments.first() == "ECHO" ? QByteArray("+fine\r\n") : bytes;
        if (arguments.first() != "ECHO")
            answer.endless = endless;
        return answer;
    });
    Connection connection(serverUrl(server.url()));
    connection.setConnectTimeout(60s);
    QVERIFY(becomesReady(&connection));
    QString error;
    Failure failure = Failure::None;
    connect(&connection, &Connection::failed, &connection, [&] {
        error = connection.errorString();
        failure = connection.failure();
    });
    int calls = 0;
    connection.send({"GET", "k"}, 60s, [&calls](const CommandResult &) { ++calls; });
    QVERIFY(waitFor([&error] { return !error.isEmpty(); }));
    QCOMPARE(calls, 1);
    QCOMPARE(failure, Failure::Protocol);
    QVERIFY2(error.contains(says), qPrintable(error));
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
    QCOMPARE(textOf(&connection, {"ECHO"}), "fine");
}

// What is not read stays with the server.
void tst_Connection::endlessRepliesReadOnlyTheLimit()
{
    FakeServer server([](const Arguments &, int) -> FakeServer::Answer {
        FakeServer::Answer answer;
        answer.bytes = "*1048576\r\n";
        answer.endless = "$1024\r\n" + QByteArray(1024, 'x') + "\r\n";
        return answer;
    });
    Connection connection(serverUrl(server.url()));
    QVERIFY(becomesReady(&connection));
    connection.send({"GET", "k"}, 60s, {});
    QVERIFY(waitFor([&connection] { return connection.failure() == Failure::Protocol; }));
    // 64 MiB, and what the kernel's and Qt's buffers hold
    QVERIFY2(server.bytesSent() < 80 * 1024 * 1024, qPrintable(QString::number(server.bytesSent())));
}

void tst_Connection::handshakeUnanswered()
{
    FakeServer server{QByteArray()};
    server.setAnswersLogin(false);
    Connection connection(serverUrl(server.url()));
    connection.setConnectTimeout(100ms);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    const QLatin1String says("did not answer the handshake within 100 ms");
    // On a busy machine, connecting may take that long first.
    QVERIFY(waitFor([&] { return failed.size() >= 2 && connection.errorString().contains(says); }));
    QCOMPARE(connection.failure(), Failure::Timeout);
}

void tst_Connection::connectToUnansweredPort(const UnansweredPort &port)
{
    Connection connection(serverUrl(port.url()));
    connection.setConnectTimeout(100ms);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return failed.size() >= 2; }));
    QCOMPARE(connection.failure(), Failure::Timeout);
    QVERIFY2(connection.errorString().contains(QLatin1String("did not accept the connection within 100 ms")),
             qPrintable(connection.errorString()));
}

void tst_Connection::unansweredPort()
{
    const UnansweredPort port;
    QVERIFY(port.isValid());
    connectToUnansweredPort(port);
}

void tst_Connection::connectToNameThatDoesNotResolve()
{
    Connection connection(serverUrl(QUrl(u"redis://no-such-host.invalid"_s)));
    connection.setConnectTimeout(1s);
    QSignalSpy failed(&connection, &Connection::failed);
    connection.open();
    QVERIFY(waitFor([&failed] { return !failed.isEmpty(); }));
    // A network without a name server may take longer to say no than we wait.
    QVERIFY(connection.failure() == Failure::NameResolution || connection.failure() == Failure::Timeout);
    const QRegularExpression says(u"\"no-such-host.invalid\" (does|did) not resolve"_s);
    QVERIFY2(connection.errorString().contains(says), qPrintable(connection.errorString()));
    QCOMPARE(connection.state(), Connection::Connecting);
}

void tst_Connection::deleteWhileResolving()
{
    for (int i = 0; i < 20; ++i) {
        Connection connection(serverUrl(QUrl(u"redis://no-such-host-%1.invalid"_s.arg(i))));
        connection.open();
        bool turned = false;
        QTimer::singleShot(0, &connection, [&turned] { turned = true; });
        QVERIFY(waitFor([&turned] { return turned; }));
    }
}

/// \a uncounted runs what the test itself does.
void tst_Connection::sendToFrozenServer(const Pause &uncounted)
{
    Connection connection(serverUrl(m_server.tcpUrl()));
    QVERIFY(becomesReady(&connection));
    connection.setConnectTimeout(100ms);
    QSignalSpy failed(&connection, &Connection::failed);
    uncounted([this] { m_server.pause(); });
    int calls = 0;
    for (int i = 0; i < 256; ++i)
        connection.send({"SET", "k", QByteArray(100, 'x')}, 100ms, [&calls](const CommandResult &) { ++calls; });
    const bool ended = waitFor([&] { return calls == 256 && failed.size() >= 3; });
    uncounted([this] { m_server.resume(); });
    QVERIFY(ended);
    connection.setConnectTimeout(3s);
    QVERIFY(waitFor([&connection] { return connection.state() == Connection::Ready; }));
}

void tst_Connection::frozenServer()
{
    sendToFrozenServer([](const std::function<void()> &action) { action(); });
}

void tst_Connection::loopStaysFree()
{
    QFETCH(QString, trouble);
    std::optional<UnansweredPort> port;
    if (trouble == u"unanswered port")
        port.emplace();
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [&](EventLoopProbe &probe) {
                if (port)
                    connectToUnansweredPort(*port);
                else if (trouble == u"name that does not resolve")
                    connectToNameThatDoesNotResolve();
                else if (trouble == u"deleted while resolving")
                    deleteWhileResolving();
                else
                    sendToFrozenServer([&probe](const std::function<void()> &action) { probe.without(action); });
            },
            TurnLimit);
    QVERIFY2(longest < TurnLimit, qPrintable(QString::number(longest.count())));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Connection)
#include "tst_connection.moc"
