// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/subscriber.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/redisserver.h"
#include "support/redistesting.h"
#include "support/rows.h"

#include <QtCore/qregularexpression.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <atomic>

using namespace Qt::StringLiterals;

using namespace QtRedis;
using namespace RedisTesting;
using namespace Support;
using namespace std::chrono_literals;

namespace {

bool subscribes(Subscriber *subscriber, const QByteArray &channel)
{
    subscriber->subscribe(channel);
    return waitFor([=] { return subscriber->isSubscribed(channel); });
}

} // namespace

class tst_Subscriber : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }

    void receives_data() { addRows<QUrl>("url", {{"Unix", m_server.url()}, {"TCP", m_server.tcpUrl()}}); }
    void receives();
    void severalChannels();
    void askingTwiceDoesNothing();
    void name();
    void subscribesAgainAfterTheConnectionWasLost();
    void subscribesAgainAfterRestart();
    void refusedByAcl();
    void otherErrorsAreTriedAgain();
    void findsAHalfOpenConnection();
    void answeredPingsKeepIt();
    void channelMovesWhileAnotherIsLeft();
    void serverWithoutShardedChannels();
    void closeForgets();
    void loginRefused();
    void deletedInSignal_data()
    {
        addRows<int>("when", {{"subscribed", 0}, {"messageReceived", 1}, {"interrupted", 2}});
    }
    void deletedInSignal();

private:
    RedisServer m_server{RedisServer::Options::withTcp()};
};

void tst_Subscriber::receives()
{
    QFETCH(QUrl, url);
    Subscriber subscriber(serverUrl(url));
    QSignalSpy subscribed(&subscriber, &Subscriber::subscribed);
    QSignalSpy message(&subscriber, &Subscriber::messageReceived);
    subscriber.subscribe("lock:client:1");
    QVERIFY(!subscriber.isSubscribed("lock:client:1"));
    QCOMPARE(subscribed.size(), 0);
    QVERIFY(waitFor([&subscribed] { return subscribed.size() == 1; }));
    QCOMPARE(subscribed[0][0].toByteArray(), "lock:client:1");
    QVERIFY(subscriber.isSubscribed("lock:client:1"));
    QVERIFY(!subscriber.isSubscribed("other"));

    const QByteArray payload("a\0\r\n\xff", 5);
    QCOMPARE(m_server.command({"PUBLISH", "lock:client:1", payload}), QVariant(1));
    m_server.command({"PUBLISH", "lock:client:2", "not for us"});
    m_server.command({"PUBLISH", "lock:client:1", ""});
    QVERIFY(waitFor([&message] { return message.size() == 2; }));
    QCOMPARE(message[0][0].toByteArray(), "lock:client:1");
    QCOMPARE(message[0][1].toByteArray(), payload);
    QCOMPARE(message[1][1].toByteArray(), QByteArray());
}

void tst_Subscriber::severalChannels()
{
    Subscriber subscriber(serverUrl(m_server.url()));
    QSignalSpy message(&subscriber, &Subscriber::messageReceived);
    subscriber.subscribe("a");
    subscriber.subscribe("b");
    QVERIFY(waitFor([&subscriber] { return subscriber.isSubscribed("a") && subscriber.isSubscribed("b"); }));
    QVERIFY(subscribes(&subscriber, "c"));
    for (const auto channel : {"c", "a", "b"})
        QCOMPARE(m_server.command({"PUBLISH", channel, channel}), QVariant(1));
    QVERIFY(waitFor([&message] { return message.size() == 3; }));
    QCOMPARE(message[0][0].toByteArray() + message[1][0].toByteArray() + message[2][0].toByteArray(), "cab");
}

void tst_Subscriber::askingTwiceDoesNothing()
{
    FaultProxy proxy(m_server);
    Subscriber subscriber(serverUrl(proxy.url()));
    subscriber.subscribe("a");
    subscriber.subscribe("a");
    QVERIFY(subscribes(&subscriber, "a"));
    QVERIFY(subscribes(&subscriber, "a"));
    QVERIFY(subscribes(&subscriber, "b"));
    QCOMPARE(proxy.commandsForwarded("SUBSCRIBE"), 2);
    QCOMPARE(proxy.connectionsAccepted(), 1);
}

void tst_Subscriber::name()
{
    Subscriber subscriber(serverUrl(m_server.url()));
    subscriber.setClientName("tst");
    QVERIFY(subscribes(&subscriber, "a"));
    QVERIFY(m_server.command({"CLIENT", "LIST"}).toByteArray().contains(" name=tst-sub "));
}

void tst_Subscriber::subscribesAgainAfterTheConnectionWasLost()
{
    Subscriber subscriber(serverUrl(m_server.tcpUrl()));
    QSignalSpy subscribed(&subscriber, &Subscriber::subscribed);
    QSignalSpy interrupted(&subscriber, &Subscriber::interrupted);
    subscriber.subscribe("a");
    subscriber.subscribe("b");
    QVERIFY(waitFor([&subscribed] { return subscribed.size() == 2; }));
    bool stillSubscribed = true;
    connect(&subscriber, &Subscriber::interrupted, this,
            [&] { stillSubscribed = subscriber.isSubscribed("a") || subscriber.isSubscribed("b"); });
    m_server.command({"CLIENT", "KILL", "TYPE", "pubsub"});
    QVERIFY(waitFor([&subscribed] { return subscribed.size() == 4; }));
    QCOMPARE(interrupted.size(), 1);
    QVERIFY(!stillSubscribed);
    QCOMPARE(m_server.subscriberCount("a"), 1);
    QCOMPARE(m_server.subscriberCount("b"), 1);
}

void tst_Subscriber::subscribesAgainAfterRestart()
{
    Subscriber subscriber(serverUrl(m_server.url()));
    subscriber.setClientName("tst");
    QSignalSpy subscribed(&subscriber, &Subscriber::subscribed);
    QSignalSpy interrupted(&subscriber, &Subscriber::interrupted);
    QVERIFY(subscribes(&subscriber, "a"));
    m_server.stop();
    QVERIFY(waitFor([&interrupted] { return interrupted.size() == 1; }));
    QVERIFY(!subscriber.isSubscribed("a"));
    QVERIFY(waitFor([&subscriber] { return !subscriber.errorString().isEmpty(); }));
    QVERIFY(m_server.start());
    QVERIFY(waitFor([&subscribed] { return subscribed.size() == 2; }, 30s));
    QCOMPARE(interrupted.size(), 1);
    QCOMPARE(subscriber.errorString(), QString());
}

void tst_Subscriber::refusedByAcl()
{
    RedisServer::Options options;
    options.users = {"u5er on >c4n4ry ~* &allowed:* +@all"};
    Started<RedisServer> server(options);
    ServerUrl url = serverUrl(server.url());
    url.user = u"u5er"_s;
    url.password = u"c4n4ry"_s;
    FaultProxy proxy(server);
    url.scheme = ServerUrl::Tcp;
    url.host = u"127.0.0.1"_s;
    url.port = proxy.port();

    Subscriber subscriber(url);
    QSignalSpy refused(&subscriber, &Subscriber::refused);
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"NOPERM"_s));
    subscriber.subscribe("forbidden");
    subscriber.subscribe("allowed:1");
    QVERIFY(waitFor([&] { return refused.size() == 1 && subscriber.isSubscribed("allowed:1"); }));
    QCOMPARE(refused[0][0].toByteArray(), "forbidden");
    const QString error = refused[0][1].toString();
    QVERIFY2(error.contains(QLatin1String("NOPERM")) && error.contains(QLatin1String("127.0.0.1")), qPrintable(error));
    QVERIFY2(!error.contains(QLatin1String("u5er")) && !error.contains(QLatin1String("c4n4ry")), qPrintable(error));
    QVERIFY(!subscriber.isSubscribed("forbidden"));

    // Not asked again, neither later on this connection nor on the next: each has one request, for the other channel.
    const qint64 requests = proxy.commandsForwarded("SUBSCRIBE") - proxy.connectionsAccepted();
    subscriber.setPingInterval(500ms);
    QVERIFY(waitFor([&proxy] { return proxy.commandsForwarded("PING") >= 3; }));
    subscriber.setPingInterval(10s);
    QVERIFY(waitFor([&subscriber] { return subscriber.isSubscribed("allowed:1"); }));
    QSignalSpy subscribed(&subscriber, &Subscriber::subscribed);
    proxy.resetAll();
    QVERIFY(waitFor([&subscribed] { return !subscribed.isEmpty(); }));
    QVERIFY(proxy.commandsForwarded("SUBSCRIBE") - proxy.connectionsAccepted() <= requests);
    QCOMPARE(refused.size(), 1);
}

void tst_Subscriber::otherErrorsAreTriedAgain()
{
    FaultProxy proxy(m_server);
    proxy.answer("-LOADING Redis is loading the dataset in memory\r\n", "SUBSCRIBE");
    Subscriber subscriber(serverUrl(proxy.url()));
    subscriber.setPingInterval(3s); // a shorter one would limit the time to answer, too
    QVERIFY(subscribes(&subscriber, "a"));
    QCOMPARE(proxy.connectionsAccepted(), 1);
}

void tst_Subscriber::findsAHalfOpenConnection()
{
    FaultProxy proxy(m_server);
    Subscriber subscriber(serverUrl(proxy.url()));
    QSignalSpy interrupted(&subscriber, &Subscriber::interrupted);
    QVERIFY(subscribes(&subscriber, "a"));
    proxy.setBlackHole(true);
    subscriber.setPingInterval(200ms);
    QVERIFY(waitFor([&interrupted] { return interrupted.size() == 1; }));
    QVERIFY(!subscriber.isSubscribed("a"));
    subscriber.setPingInterval(10s);
    proxy.setBlackHole(false);
    QVERIFY(waitFor([&subscriber] { return subscriber.isSubscribed("a"); }));
}

// In RESP2 a subscriber's PING is answered by an array.
void tst_Subscriber::answeredPingsKeepIt()
{
    FaultProxy proxy(m_server);
    Subscriber subscriber(serverUrl(proxy.url()));
    subscriber.setPingInterval(3s); // its answer may take that long, on a busy machine
    QVERIFY(subscribes(&subscriber, "a"));
    QSignalSpy interrupted(&subscriber, &Subscriber::interrupted);
    QSignalSpy message(&subscriber, &Subscriber::messageReceived);
    subscriber.check();
    QVERIFY(waitFor([&proxy] { return proxy.commandsForwarded("PING") == 1; }));
    m_server.command({"PUBLISH", "a", "x"});
    QVERIFY(waitFor([&] { return proxy.commandsForwarded("PING") >= 3 && message.size() == 1; }));
    m_server.command({"PUBLISH", "a", "after the last answer"});
    QVERIFY(waitFor([&message] { return message.size() == 2; }));
    QCOMPARE(interrupted.size(), 0);
    QCOMPARE(proxy.connectionsAccepted(), 1);
}

/// The node ends one subscription itself, while its reply to SUNSUBSCRIBE for another channel is under way.
void tst_Subscriber::channelMovesWhileAnotherIsLeft()
{
    const auto ended = [](const QByteArray &channel) {
        return "*3\r\n$12\r\nsunsubscribe\r\n$1\r\n" + channel + "\r\n:1\r\n";
    };
    FakeServer server([ended](const QList<QByteArray> &arguments, int) -> FakeServer::Answer {
        if (arguments.first() == "SUNSUBSCRIBE")
            return {ended("b") + ended("a")};
        return {"*3\r\n$10\r\nssubscribe\r\n$1\r\n" + arguments.value(1) + "\r\n:1\r\n"};
    });
    Subscriber subscriber(serverUrl(server.url()), Subscriber::Sharded);
    QSignalSpy movedAway(&subscriber, &Subscriber::movedAway);
    QVERIFY(subscribes(&subscriber, "a"));
    QVERIFY(subscribes(&subscriber, "b"));
    subscriber.unsubscribe("a");
    QVERIFY(waitFor([&movedAway] { return movedAway.size() == 1; }));
    QCOMPARE(movedAway[0][0].toByteArray(), "b");
    QVERIFY(subscribes(&subscriber, "a")); // on the same connection
    QCOMPARE(movedAway.size(), 1);
    QCOMPARE(server.connectionsAccepted(), 1);
}

/// Until its next connection finds that the server has been upgraded.
void tst_Subscriber::serverWithoutShardedChannels()
{
    std::atomic<bool> isUpgraded{false};
    FakeServer server([&isUpgraded](const QList<QByteArray> &arguments, int) -> FakeServer::Answer {
        const QByteArray command = arguments.first();
        const QByteArray channel = arguments.value(1);
        if (!isUpgraded && command.startsWith("SS"))
            return {"-ERR unknown command `SSUBSCRIBE`, with args beginning with: `" + channel + "`, \r\n"};
        const QByteArray kind = command.toLower();
        return {"*3\r\n$" + QByteArray::number(kind.size()) + "\r\n" + kind + "\r\n$1\r\n" + channel + "\r\n:1\r\n"};
    });
    Subscriber subscriber(serverUrl(server.url()), Subscriber::Sharded);
    QSignalSpy message(&subscriber, &Subscriber::messageReceived);
    QSignalSpy interrupted(&subscriber, &Subscriber::interrupted);
    subscriber.subscribe("a");
    QVERIFY(subscribes(&subscriber, "b"));
    QVERIFY(subscriber.isSubscribed("a") && !subscriber.isSharded());
    server.push("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\nword\r\n");
    QVERIFY(waitFor([&message] { return message.size() == 1; }));
    QCOMPARE(message[0][1].toByteArray(), "word");
    subscriber.unsubscribe("a");
    QVERIFY(waitFor([&server] { return server.commands().last() == QList<QByteArray>{"UNSUBSCRIBE", "a"}; }));
    QVERIFY(subscribes(&subscriber, "a"));
    interrupted.clear();
    isUpgraded = true;
    server.closeAll();
    QVERIFY(waitFor([&] { return !interrupted.isEmpty() && subscriber.isSubscribed("a"); }));
    QVERIFY(subscriber.isSharded());
}

void tst_Subscriber::closeForgets()
{
    Subscriber subscriber(serverUrl(m_server.url()));
    QSignalSpy interrupted(&subscriber, &Subscriber::interrupted);
    QVERIFY(subscribes(&subscriber, "a"));
    subscriber.close();
    QVERIFY(!subscriber.isSubscribed("a"));
    QVERIFY(waitFor([this] { return m_server.connectedClients() == 0; }));
    QCOMPARE(interrupted.size(), 0);
    QVERIFY(subscribes(&subscriber, "b"));
    QCOMPARE(m_server.channels(), QList<QByteArray>{"b"});
}

void tst_Subscriber::loginRefused()
{
    FaultProxy proxy(m_server);
    ServerUrl url = serverUrl(proxy.url());
    url.password = u"c4n4ry"_s;
    Subscriber subscriber(url);
    for (int i = 1; i <= 2; ++i) { // asking again connects again, nothing else does
        QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"Not retried"_s));
        const qint64 before = proxy.connectionsAccepted();
        subscriber.subscribe("a");
        QVERIFY(waitFor([&] {
            return proxy.connectionsAccepted() > before && proxy.connections() == 0
                    && subscriber.errorString().contains(QLatin1String("password"));
        }));
        const qint64 accepted = proxy.connectionsAccepted();
        QVERIFY(!waitFor([&] { return proxy.connectionsAccepted() > accepted; }, 100ms));
        QVERIFY(!subscriber.errorString().contains(QLatin1String("c4n4ry")));
    }
}

void tst_Subscriber::deletedInSignal()
{
    QFETCH(int, when);
    FaultProxy proxy(m_server);
    auto *subscriber = new Subscriber(serverUrl(proxy.url()));
    const auto deleteNow = [&subscriber] { delete std::exchange(subscriber, nullptr); };
    if (when == 0)
        connect(subscriber, &Subscriber::subscribed, this, deleteNow);
    else if (when == 1)
        connect(subscriber, &Subscriber::messageReceived, this, deleteNow);
    else
        connect(subscriber, &Subscriber::interrupted, this, deleteNow);
    subscriber->subscribe("a");
    subscriber->subscribe("b");
    if (when > 0) {
        QVERIFY(waitFor([&] { return subscriber->isSubscribed("b"); }));
        m_server.command({"PUBLISH", "a", "1"});
        m_server.command({"PUBLISH", "a", "2"});
    }
    if (when == 2)
        proxy.resetAll();
    QVERIFY(waitFor([&subscriber] { return !subscriber; }));
}

QTEST_GUILESS_MAIN(tst_Subscriber)
#include "tst_subscriber.moc"
