// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The tools the other tests trust.

#include "support/eventloopprobe.h"
#include "support/eventually.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/posix.h"
#include "support/redisserver.h"
#include "support/testkinds.h"

#include <QtTest/qtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace Support;
using namespace std::chrono_literals;

class tst_Support : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void serverAnswers();
    void serverTakesAnotherPortWhenTaken();
    void serverCountsCommandsOfOthers();
    void serverEndsWithItsObject();

    void proxyForwardsAndCounts();
    TIMING void proxyDelays();
    TIMING void proxyLimitsBandwidth();
    void proxySlices();
    void proxySwallows();
    void proxyHolds();
    void proxyDeliversLateAfterItsClientHasGone();
    void proxyDeliversAllOfAClientThatReadsNoMore();
    void proxyEndsConnections();
    void proxyCutsBefore();
    void proxyCutsAfter();
    void proxyCutsThePipelineAtItsPlace();
    void proxyDropsReply();
    void proxyAnswersInstead();
    void proxyKnowsSubscriptions();
    void proxySurvivesItsServer();

    TIMING void probeSeesNothingInAnIdleLoop();
    TIMING void probeSeesWaitingInTheKernel();
    TIMING void probeSeesSpinning();
    TIMING void probeSeesCallsOutsideOfSlots();
    TIMING void probeUnderLoad();

    void fakeServerAnswers();
};

namespace {

QVariant text(const char *string)
{
    return QByteArray(string);
}

QVariant number(qint64 value)
{
    return value;
}

/// Redis behind a proxy, and one client of it.
struct Proxied
{
    Proxied()
        : started(server.start())
        , proxy(server)
        , connected(client.connectToTcp(proxy.port()))
    {
    }

    bool isReady() const { return started && proxy.isListening() && connected; }

    RedisServer server;
    bool started;
    FaultProxy proxy;
    RespClient client;
    bool connected;
};

std::chrono::nanoseconds threadCpuTime()
{
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void sleepInKernel(std::chrono::nanoseconds time)
{
    const timespec span{0, static_cast<long>(time.count())};
    ::nanosleep(&span, nullptr);
}

void spin(std::chrono::nanoseconds time)
{
    const auto end = threadCpuTime() + time;
    while (threadCpuTime() < end) {
    }
}

/// Keeps all cores busy while it lives.
class Load
{
public:
    Load()
    {
        for (int i = 0; i < 4; ++i) {
            m_threads.emplace_back([this] {
                while (!m_stop.load(std::memory_order_relaxed)) {
                }
            });
        }
    }
    ~Load()
    {
        m_stop = true;
        for (std::thread &thread : m_threads)
            thread.join();
    }

private:
    std::atomic<bool> m_stop{false};
    std::vector<std::thread> m_threads;
};

} // namespace

void tst_Support::serverAnswers()
{
    RedisServer server;
    QVERIFY(!server.isRunning());
    QVERIFY(isError(server.command({"PING"})));
    QVERIFY(server.start());
    QVERIFY(server.isRunning());
    QCOMPARE(server.command({"PING"}), QVariant(QByteArray("PONG")));
    QCOMPARE(server.command({"SET", "key", QByteArray("a\0b\r\n", 5)}), QVariant(QByteArray("OK")));
    QCOMPARE(server.get("key"), QByteArray("a\0b\r\n", 5));
    QCOMPARE(server.command({"GET", "none"}), QVariant());
    QCOMPARE(server.pttl("key"), -1);
    QCOMPARE(server.pttl("none"), -2);
    server.command({"SET", "brief", "1", "PX", "100000"});
    QVERIFY(server.pttl("brief") > 90'000);
    QVERIFY(server.pttl("brief") <= 100'000);
    QCOMPARE(server.keys(), QList<QByteArray>({"brief", "key"}));
    QCOMPARE(server.command({"LRANGE", "none", "0", "-1"}), QVariant(QVariantList()));
    QCOMPARE(server.command({"EVAL", "return {1, 'two', {false}}", "0"}),
             QVariant(QVariantList{qint64(1), QByteArray("two"), QVariantList{QVariant()}}));
    const QVariant wrong = server.command({"INCR", "key"});
    QVERIFY(isError(wrong));
    QVERIFY(wrong.toByteArray().startsWith("-ERR value is not an integer"));
    QCOMPARE(server.cli({"SET", "foreign", "holder", "NX"}), QByteArray("OK"));
    QCOMPARE(server.cli({"GET", "foreign"}), QByteArray("holder"));
    QVERIFY(server.exists("foreign"));
    QCOMPARE(server.port(), 0);
    // Redis 8 begins the line with a capital letter.
    QVERIFY(server.waitForLog("eady to accept connections"));
    QVERIFY(!server.waitForLog("no such line", 1ms));
    QCOMPARE(server.url().scheme(), u"unix"_s);
    QCOMPARE(server.url().path(), server.socketPath());
    QVERIFY(server.url().toString().startsWith(u"unix:///"_s));
    server.stop();
    QVERIFY(!server.isRunning());
}

void tst_Support::serverTakesAnotherPortWhenTaken()
{
    // A port given in the configuration is bound as well as the server's own choice.
    RedisServer::Options options;
    options.tcp = true;
    Started<RedisServer> first(options);
    RedisServer::Options clashing;
    clashing.config = {"port " + QByteArray::number(first.port())};
    RedisServer second(clashing);
    std::atomic_bool taken{true};
    std::thread release([&] {
        std::this_thread::sleep_for(300ms); // the fault: a port that is free only after so long
        taken = false;
        ::kill(static_cast<pid_t>(first.processId()), SIGKILL);
    });
    const bool started = second.start();
    const bool startedTooEarly = taken;
    release.join();
    QVERIFY(started);
    QVERIFY(!startedTooEarly);
}

void tst_Support::serverCountsCommandsOfOthers()
{
    Started<RedisServer> server;
    QCOMPARE(server.commandsProcessed(), 0);
    server.command({"SET", "key", "1"});
    server.command({"CLIENT", "ID"});
    server.command({"NOSUCH"});
    server.command({"INCR"});
    QCOMPARE(server.commandsProcessed(), 0);
    RespClient client;
    QVERIFY(client.connectToUnix(server.socketPath()));
    client.command({"SET", "key", "1"});
    client.command({"SET", "key", "1"});
    client.command({"CLIENT", "ID"});
    QCOMPARE(server.commandsProcessed(), 3);
    QCOMPARE(server.commandsProcessed("SET"), 2);
    QCOMPARE(server.commandsProcessed("client|id"), 1);
    QCOMPARE(server.commandsProcessed("get"), 0);
    QVERIFY(server.restart());
    QCOMPARE(server.commandsProcessed(), 0);
}

void tst_Support::serverEndsWithItsObject()
{
    pid_t pid = 0;
    QString folder;
    {
        Started<RedisServer> server;
        pid = static_cast<pid_t>(server.processId());
        folder = server.folder();
        QCOMPARE(::kill(pid, 0), 0);
    }
    QVERIFY(::kill(pid, 0) != 0);
    QVERIFY(!QFile::exists(folder));
}

void tst_Support::proxyForwardsAndCounts()
{
    Proxied p;
    QVERIFY(p.isReady());
    const QByteArray binary("a\0b\r\n$5\r\n", 9);
    QCOMPARE(p.client.command({"SET", "key", binary}), text("OK"));
    QCOMPARE(p.client.command({"get", "key"}), QVariant(binary));
    QCOMPARE(p.client.command({"EVAL", "return {1, 'two', {false}}", "0"}),
             QVariant(QVariantList{qint64(1), QByteArray("two"), QVariantList{QVariant()}}));
    const QByteArray large(3'000'000, 'x');
    QCOMPARE(p.client.command({"SET", "large", large}), text("OK"));
    QCOMPARE(p.client.command({"GET", "large"}), QVariant(large));
    QCOMPARE(p.proxy.commandsForwarded(), 5);
    QCOMPARE(p.proxy.commandsForwarded("Get"), 2);
    QCOMPARE(p.proxy.commandsForwarded("EXISTS"), 0);
    QCOMPARE(p.proxy.repliesForwarded(), 5);
    QCOMPARE(p.proxy.connectionsAccepted(), 1);
    QCOMPARE(p.proxy.connections(), 1);
    QVERIFY(p.proxy.waitForCommands(2, "GET"));
    QVERIFY(!p.proxy.waitForCommands(3, "GET", 1ms));
    p.client.close();
    EVENTUALLY_COMPARE(p.proxy.connections(), 0);
    EVENTUALLY_COMPARE(p.server.connectedClients(), 0);
}

void tst_Support::proxyDelays()
{
    leavesRoomFor(1s);
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.setLatency(40ms, 60ms);
    QElapsedTimer timer;
    timer.start();
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
    QVERIFY(timer.elapsed() >= 100);
    // Latency is no lack of bandwidth: commands under way together arrive together.
    timer.start();
    for (int i = 0; i < 20; ++i)
        QVERIFY(p.client.send(Resp::encodeCommand({"ECHO", QByteArray::number(i)})));
    for (int i = 0; i < 20; ++i)
        QCOMPARE(p.client.readReply(), QVariant(QByteArray::number(i)));
    QVERIFY(timer.elapsed() >= 100);
    QVERIFY(timer.elapsed() < 20 * 100);
    p.proxy.heal();
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
}

void tst_Support::proxyLimitsBandwidth()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.server.command({"SET", "key", QByteArray(20'000, 'x')});
    p.proxy.setBandwidth(100'000);
    QElapsedTimer timer;
    timer.start();
    QCOMPARE(p.client.command({"GET", "key"}).toByteArray().size(), 20'000);
    QVERIFY(timer.elapsed() >= 180);
}

void tst_Support::proxySlices()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.setSlicing(1);
    const int fd = Posix::connectTcp(p.proxy.port());
    QVERIFY(fd >= 0);
    QVERIFY(Posix::waitFor(fd, POLLOUT, std::chrono::steady_clock::now() + 60s));
    const QByteArray command = Resp::encodeCommand({"ECHO", QByteArray(100, 'x')});
    QByteArray received;
    int mostPieces = 0;
    for (int reading = 0; reading < 5 || (mostPieces <= 5 && reading < 1000); ++reading) {
        QCOMPARE(::write(fd, command.constData(), size_t(command.size())), ssize_t(command.size()));
        received.clear();
        int pieces = 0;
        while (received.size() < 108) {
            QVERIFY(Posix::waitFor(fd, POLLIN, std::chrono::steady_clock::now() + 60s));
            char chunk[256];
            const ssize_t n = ::read(fd, chunk, sizeof(chunk));
            QVERIFY(n > 0);
            received.append(chunk, n);
            ++pieces;
        }
        QCOMPARE(received, "$100\r\n" + QByteArray(100, 'x') + "\r\n");
        mostPieces = std::max(mostPieces, pieces);
    }
    ::close(fd);
    // Under load the kernel joins some, or all of a reading.
    QVERIFY2(mostPieces > 5, QByteArray::number(mostPieces).constData());
    p.proxy.setSlicing(7);
    QCOMPARE(p.client.command({"ECHO", received}), QVariant(received));
}

void tst_Support::proxySwallows()
{
    Proxied p;
    QVERIFY(p.isReady());
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
    p.proxy.setBlackHole(true);
    QVERIFY(p.client.send(Resp::encodeCommand({"SET", "key", "1"})));
    QVERIFY(isError(p.client.readReply(50ms, true)));
    QVERIFY(p.client.isConnected());
    RespClient second;
    QVERIFY(second.connectToTcp(p.proxy.port()));
    QVERIFY(second.send(Resp::encodeCommand({"SET", "key", "1"})));
    QVERIFY(isError(second.readReply(50ms, true)));
    QVERIFY(second.isConnected());
    QVERIFY(!p.server.exists("key"));
    p.proxy.heal();
    QVERIFY(isError(p.client.readReply(50ms, true)));
    QVERIFY(isError(second.readReply(1ms, true)));
    // The server still has the client that has gone.
    p.client.close();
    second.close();
    RespClient third;
    QVERIFY(third.connectToTcp(p.proxy.port()));
    QCOMPARE(third.command({"GET", "key"}), QVariant());
    QCOMPARE(p.server.connectedClients(), 2);
    p.proxy.resetAll();
    EVENTUALLY_COMPARE(p.server.connectedClients(), 0);
}

void tst_Support::proxyHolds()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.setHeld(true);
    QVERIFY(p.client.send(Resp::encodeCommand({"SET", "key", "1"})));
    QVERIFY(isError(p.client.readReply(50ms, true)));
    QVERIFY(!p.server.exists("key"));
    p.proxy.setHeld(false);
    QCOMPARE(p.client.readReply(), text("OK"));
    p.proxy.setRepliesHeld(true);
    QVERIFY(p.client.send(Resp::encodeCommand({"DEL", "key"})));
    QVERIFY(isError(p.client.readReply(50ms, true)));
    EVENTUALLY_VERIFY(!p.server.exists("key"));
    p.proxy.setRepliesHeld(false);
    QCOMPARE(p.client.readReply(), number(1));
}

void tst_Support::proxyDeliversLateAfterItsClientHasGone()
{
    Proxied p;
    QVERIFY(p.isReady());
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
    p.proxy.setHeld(true);
    QVERIFY(p.client.send(Resp::encodeCommand({"SET", "a", "1"})));
    QVERIFY(p.client.send(Resp::encodeCommand({"SET", "b", "1"})));
    p.client.reset();
    // The proxy has them once it has the end that follows.
    RespClient second;
    QVERIFY(second.connectToTcp(p.proxy.port()));
    EVENTUALLY_COMPARE(p.proxy.connectionsAccepted(), 2);
    QVERIFY(!p.server.exists("a"));
    p.proxy.setHeld(false);
    EVENTUALLY_VERIFY(p.server.exists("a") && p.server.exists("b"));
    EVENTUALLY_COMPARE(p.proxy.connections(), 1);

    // The reply to the first finds nobody while the second is still under way.
    p.proxy.setLatency(100ms, 0ms);
    QVERIFY(second.send(Resp::encodeCommand({"SET", "c", "1"})));
    sleepInKernel(50ms);
    QVERIFY(second.send(Resp::encodeCommand({"SET", "d", "1"})));
    second.reset();
    EVENTUALLY_VERIFY(p.server.exists("c"));
    EVENTUALLY_VERIFY(p.server.exists("d"));
    EVENTUALLY_COMPARE(p.proxy.connections(), 0);
}

void tst_Support::proxyDeliversAllOfAClientThatReadsNoMore()
{
    Proxied p;
    QVERIFY(p.isReady());
    // The second command comes at about the time at which the reply to the first one finds nobody.
    constexpr int Rounds = 3000;
    for (int round = 0; round < Rounds; ++round) {
        QVERIFY(p.client.connectToTcp(p.proxy.port()));
        QVERIFY(p.client.send(Resp::encodeCommand({"INCR", "key"})));
        spin(std::chrono::microseconds(round % 200));
        QVERIFY(p.client.send(Resp::encodeCommand({"INCR", "key"})));
        p.client.reset();
    }
    EVENTUALLY_COMPARE(p.server.get("key").toInt(), 2 * Rounds);
}

void tst_Support::proxyEndsConnections()
{
    Proxied p;
    QVERIFY(p.isReady());
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
    p.proxy.resetAll();
    QVERIFY(isError(p.client.readReply()));
    QVERIFY2(p.client.errorString().contains(QLatin1String("reset")), qPrintable(p.client.errorString()));
    EVENTUALLY_COMPARE(p.server.connectedClients(), 0);
    QVERIFY(p.client.connectToTcp(p.proxy.port()));
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
    p.proxy.closeAll();
    EVENTUALLY_VERIFY(!p.client.isConnected());
}

void tst_Support::proxyCutsBefore()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.cutBefore("incr", 2);
    QCOMPARE(p.client.command({"SET", "other", "1"}), text("OK"));
    QCOMPARE(p.client.command({"INCR", "key"}), number(1));
    QCOMPARE(p.proxy.faultsDone(), 0);
    QVERIFY(isError(p.client.command({"INCR", "key"})));
    QVERIFY(p.proxy.waitForFaults(1));
    EVENTUALLY_COMPARE(p.server.connectedClients(), 0);
    QCOMPARE(p.server.get("key"), QByteArray("1"));
    QVERIFY(p.client.connectToTcp(p.proxy.port()));
    QCOMPARE(p.client.command({"INCR", "key"}), number(2));
}

void tst_Support::proxyCutsAfter()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.cutAfter("INCR", 2);
    QCOMPARE(p.client.command({"INCR", "key"}), number(1));
    QVERIFY(isError(p.client.command({"INCR", "key"})));
    QVERIFY(p.proxy.waitForFaults(1));
    QCOMPARE(p.server.get("key"), QByteArray("2"));
    QVERIFY(p.client.connectToTcp(p.proxy.port()));
    QCOMPARE(p.client.command({"INCR", "key"}), number(3));
}

void tst_Support::proxyCutsThePipelineAtItsPlace()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.setLatency(5ms, 5ms);
    p.proxy.cutAfter({}, 3);
    QByteArray pipeline;
    for (int i = 0; i < 5; ++i)
        pipeline += Resp::encodeCommand({"INCR", "key"});
    QVERIFY(p.client.send(pipeline));
    QVERIFY(p.proxy.waitForFaults(1));
    QCOMPARE(p.proxy.repliesForwarded(), 2);
    QVERIFY(p.server.get("key").toInt() >= 3);
    p.server.command({"SET", "key", "0"});
    p.proxy.cutBefore({}, 3);
    QVERIFY(p.client.connectToTcp(p.proxy.port()));
    QVERIFY(p.client.send(pipeline));
    QVERIFY(p.proxy.waitForFaults(2));
    EVENTUALLY_COMPARE(p.server.get("key"), QByteArray("2"));
}

void tst_Support::proxyDropsReply()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.dropReply("INCR");
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
    QVERIFY(p.client.send(Resp::encodeCommand({"INCR", "key"}) + Resp::encodeCommand({"PING"})));
    QVERIFY(p.proxy.waitForFaults(1));
    QVERIFY(isError(p.client.readReply(50ms, true)));
    QVERIFY(p.client.isConnected());
    QCOMPARE(p.server.get("key"), QByteArray("1"));
    QVERIFY(p.client.connectToTcp(p.proxy.port()));
    QCOMPARE(p.client.command({"INCR", "key"}), number(2));
}

void tst_Support::proxyAnswersInstead()
{
    Proxied p;
    QVERIFY(p.isReady());
    p.proxy.answer("-LOADING please wait\r\n", "SET", 1, 2);
    QByteArray pipeline;
    for (int i = 0; i < 4; ++i)
        pipeline += Resp::encodeCommand({"ECHO", QByteArray::number(i)}) + Resp::encodeCommand({"SET", "key", "1"});
    QVERIFY(p.client.send(pipeline));
    for (int i = 0; i < 4; ++i) {
        QCOMPARE(p.client.readReply(), QVariant(QByteArray::number(i)));
        const QVariant reply = p.client.readReply();
        QCOMPARE(reply.toByteArray(), i < 2 ? QByteArray("-LOADING please wait") : QByteArray("OK"));
    }
    QCOMPARE(p.proxy.faultsDone(), 2);
    QCOMPARE(p.proxy.commandsForwarded("SET"), 2);
}

void tst_Support::proxyKnowsSubscriptions()
{
    Proxied p;
    QVERIFY(p.isReady());
    QVERIFY(p.client.send(Resp::encodeCommand({"SUBSCRIBE", "one", "two"})));
    QCOMPARE(p.client.readReply().toList().value(1), text("one"));
    QCOMPARE(p.client.readReply().toList().value(1), text("two"));
    // A message that comes between the command and its reply is not the reply.
    p.proxy.cutAfter("PING");
    p.proxy.setHeld(true);
    QVERIFY(p.client.send(Resp::encodeCommand({"PING"})));
    QCOMPARE(p.server.command({"PUBLISH", "two", "hello"}), number(1));
    p.proxy.setHeld(false);
    QCOMPARE(p.client.readReply().toList().value(2), text("hello"));
    QVERIFY(isError(p.client.readReply()));
    QVERIFY(p.proxy.waitForFaults(1));
    QCOMPARE(p.proxy.commandsForwarded("PING"), 1);
}

void tst_Support::proxySurvivesItsServer()
{
    Proxied p;
    QVERIFY(p.isReady());
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
    p.server.kill();
    QVERIFY(isError(p.client.readReply()));
    // Accepted and reset; that may come to light at once.
    QVERIFY(!p.client.connectToTcp(p.proxy.port()) || isError(p.client.command({"PING"})));
    QVERIFY(p.server.start());
    QVERIFY(p.client.connectToTcp(p.proxy.port()));
    QCOMPARE(p.client.command({"PING"}), text("PONG"));
}

namespace {

void runLoop(std::chrono::milliseconds time)
{
    EventLoopProbe::waitFor([] { return false; }, time);
}

} // namespace

void tst_Support::probeSeesNothingInAnIdleLoop()
{
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [](EventLoopProbe &probe) {
                runLoop(200ms);
                QVERIFY(probe.turns() > 100);
                QVERIFY(probe.longestTurn() >= probe.longestBlockedTurn());
            },
            5ms);
    QVERIFY2(longest < 5ms, qPrintable(QString::number(longest.count())));
}

void tst_Support::probeSeesWaitingInTheKernel()
{
    auto leastCpu = std::chrono::nanoseconds::max();
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [&](EventLoopProbe &probe) {
                QTimer::singleShot(10ms, this, [] { sleepInKernel(20ms); });
                runLoop(60ms);
                QVERIFY(probe.longestTurn() >= 20ms);
                QVERIFY(probe.longestBlockedTurn() >= 20ms);
                leastCpu = std::min(leastCpu, probe.longestTurnCpu());
                probe.reset();
                QCOMPARE(probe.longestBlockedTurn(), 0ns);
                QCOMPARE(probe.turns(), 0);
                runLoop(20ms);
            },
            5ms);
    QVERIFY(longest < 5ms);
    QVERIFY(leastCpu < 10ms);
}

void tst_Support::probeSeesSpinning()
{
    EventLoopProbe::longestBlockedTurnOf(
            [this](EventLoopProbe &probe) {
                QTimer::singleShot(10ms, this, [] { spin(20ms); });
                runLoop(60ms);
                QVERIFY(probe.longestTurn() >= 20ms);
                QVERIFY(probe.longestTurnCpu() >= 20ms);
                QVERIFY(probe.longestBlockedTurn() >= 19ms); // two clocks
            },
            5ms, 3);
}

void tst_Support::probeSeesCallsOutsideOfSlots()
{
    const auto excluded = EventLoopProbe::longestBlockedTurnOf(
            [](EventLoopProbe &probe) {
                runLoop(20ms);
                probe.without([] { sleepInKernel(20ms); });
                runLoop(20ms);
            },
            5ms);
    QVERIFY(excluded < 5ms);
    const auto called = EventLoopProbe::longestBlockedTurnOf(
            [](EventLoopProbe &) {
                runLoop(20ms);
                sleepInKernel(20ms);
            },
            5ms);
    QVERIFY(called >= 20ms);
}

void tst_Support::probeUnderLoad()
{
    leavesRoomFor(200ms); // the load itself causes pauses
    const Load load;
    const auto idle = EventLoopProbe::longestBlockedTurnOf([](EventLoopProbe &) { runLoop(500ms); }, 5ms);
    QVERIFY2(idle < 5ms, qPrintable(QString::number(idle.count())));
    const auto waiting = EventLoopProbe::longestBlockedTurnOf(
            [this](EventLoopProbe &) {
                QTimer::singleShot(10ms, this, [] { sleepInKernel(20ms); });
                runLoop(100ms);
            },
            25ms);
    QVERIFY(waiting >= 20ms);
    QVERIFY2(waiting < 25ms, qPrintable(QString::number(waiting.count())));
    const auto spinning = EventLoopProbe::longestBlockedTurnOf(
            [this](EventLoopProbe &) {
                QTimer::singleShot(10ms, this, [] { spin(20ms); });
                runLoop(100ms);
            },
            25ms);
    QVERIFY(spinning >= 19ms);
    QVERIFY2(spinning < 25ms, qPrintable(QString::number(spinning.count())));
}

void tst_Support::fakeServerAnswers()
{
    FakeServer server;
    QVERIFY(server.isListening());
    RespClient client;
    QVERIFY(client.connectToTcp(server.port()));
    QCOMPARE(client.command({"AUTH", "secret"}), text("OK"));
    QCOMPARE(client.command({"SELECT", "1"}), text("OK"));
    QCOMPARE(client.command({"CLIENT", "SETNAME", "me"}), text("OK"));
    QCOMPARE(client.command({"CLIENT", "ID"}), number(1));
    QCOMPARE(client.command({"SET", "key", "1"}), text("OK"));
    QCOMPARE(server.commands(), QList<QList<QByteArray>>({{"SET", "key", "1"}}));
    server.setHandler([](const QList<QByteArray> &arguments, int connection) {
        return FakeServer::Answer{Resp::encodeBulk(arguments.first() + QByteArray::number(connection))};
    });
    RespClient second;
    QVERIFY(second.connectToTcp(server.port()));
    QCOMPARE(second.command({"CLIENT", "ID"}), number(2));
    QCOMPARE(second.command({"WHO"}), text("WHO2"));
    QCOMPARE(client.command({"WHO"}), text("WHO1"));
    server.setAnswersLogin(false);
    QCOMPARE(client.command({"PING"}), text("PING1"));
    server.push("+unasked\r\n");
    QCOMPARE(client.readReply(), text("unasked"));
    QCOMPARE(second.readReply(), text("unasked"));
    QCOMPARE(server.connections(), 2);
    server.closeAll();
    EVENTUALLY_VERIFY(!client.isConnected());
    EVENTUALLY_COMPARE(server.connections(), 0);
    QCOMPARE(server.connectionsAccepted(), 2);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Support)
#include "tst_support.moc"
