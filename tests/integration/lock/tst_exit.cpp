// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// However a program or a thread ends in order, it leaves no lock and no place in a queue on the server.

#include "support/locktesting.h"

#include "support/certificates.h"
#include "support/faultproxy.h"
#include "support/redisset.h"
#include "support/rows.h"
#include "support/testkinds.h"
#include "support/testprogram.h"

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qfile.h>

#include <memory>

#include <signal.h>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// In ms. A server that does not answer delays the end by 250 ms at most. The rest is for sending a thousand
/// cancellations; ten servers waited for one after the other would still exceed it.
constexpr qint64 LongestEnd = 2000;
/// What that leaves room for.
constexpr milliseconds Room = 1500ms;
constexpr int Many = 1000;

constexpr const char *AllModes[] = {"quit",   "instance",        "slot",   "leaked",  "exit", "outlives",
                                    "thread", "thread instance", "scoped", "withLock"};

class Program : public TestProgram
{
public:
    explicit Program(const QStringList &arguments)
        : TestProgram(QStringLiteral(EXITWORKER), arguments)
    {
    }
    /// Lets the program end, or its thread that has the locks.
    void proceed() { write("go\n"); }
    /// How long the end of the thread that had the locks took, in ms; -1 if it has not ended.
    qint64 threadEndedAfter()
    {
        const QByteArray &text = output();
        const QByteArray mark("thread ended after ");
        return text.contains(mark) ? text.mid(text.indexOf(mark) + mark.size()).split(' ').first().toLongLong() : -1;
    }
};

} // namespace

class tst_Exit : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void cleanup();

    void nothingIsLeft_data();
    void nothingIsLeft();
    void manyAreGivenBackInTime_data();
    TIMING void manyAreGivenBackInTime();
    void plainLocksAreGivenBack_data();
    TIMING void plainLocksAreGivenBack() { nothingIsLeft(); }
    void nothingIsLeftAtAQuorum_data();
    TIMING void nothingIsLeftAtAQuorum();
    void forgetfulServer_data();
    void forgetfulServer();
    void stoppedServer_data() { someModes(); }
    void stoppedServer() { QVERIFY(endWithStoppedServer() >= 0); }
    void stoppedServerInTime_data();
    TIMING void stoppedServerInTime() { endsInTime(endWithStoppedServer()); }
    void severalStoppedServers_data() { addRows<bool>("stopped", {{"stopped", true}, {"all answer", false}}); }
    void severalStoppedServers() { QVERIFY(endWithSeveralServers() >= 0); }
    void severalStoppedServersInTime_data() { severalStoppedServers_data(); }
    TIMING void severalStoppedServersInTime() { endsInTime(endWithSeveralServers()); }
    void slowServer_data();
    TIMING void slowServer();
    void killedServer_data() { someModes(); }
    void killedServer() { QVERIFY(endWithKilledServer() >= 0); }
    void killedServerInTime_data();
    TIMING void killedServerInTime() { endsInTime(endWithKilledServer()); }
    void observed_data();
    void observed();
    void threadThatCannotStart_data() { addRows<int>("never", {{"later it can", 0}, {"never", 1}}); }
    void threadThatCannotStart();
    void signalEndsTheEventLoop_data()
    {
        addRows<int>("number", {{"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP}});
    }
    void signalEndsTheEventLoop();
    TIMING void copiesOfASignal();
    void secondSignalEndsAtOnce();
    void ignoredSignalStaysIgnored();
    void signalToForkedChild();

private:
    static void someModes();
    QUrl url(const QString &transport) const;
    /// A program that holds some locks and waits for others.
    std::unique_ptr<Program> start(const QString &mode, const QString &transport, int held, int waited);
    /// Waits until the server has closed the connections of the program that has ended, or of its thread, so that it
    /// has executed all that came through them; then the keys that are left, without fences and without the locks of
    /// the test itself.
    QList<QByteArray> left();
    static void endsInTime(qint64 took)
    {
        leavesRoomFor(Room);
        QVERIFY(took >= 0);
        QCOMPARE_LT(took, LongestEnd);
    }
    /// Ends the program, or its thread; returns for how many ms that took, -1 if it did not end.
    qint64 end(Program *program, const QString &mode);
    // Each ends a program and returns the same.
    qint64 endWithStoppedServer();
    qint64 endWithSeveralServers();
    qint64 endWithKilledServer();

    Certificates m_certificates;
    std::unique_ptr<RedisServer> m_server;
};

void tst_Exit::initTestCase()
{
    QVERIFY2(m_certificates.isValid(), qPrintable(m_certificates.errorString()));
    m_server = std::make_unique<RedisServer>(RedisServer::Options::withTls(m_certificates));
    QVERIFY2(m_server->start(), qPrintable(m_server->errorString()));
}

void tst_Exit::cleanup()
{
    QVERIFY(m_server->start()); // if a test has ended it
    m_server->resume();
    m_server->command({"FLUSHALL"});
}

QUrl tst_Exit::url(const QString &transport) const
{
    if (transport == QLatin1String("plain"))
        return QUrl(m_server->tcpUrl().toString() + u"?scripts=off"_s);
    return transport == QLatin1String("unix")   ? m_server->url()
            : transport == QLatin1String("tls") ? m_server->tlsUrl()
                                                : m_server->tcpUrl();
}

std::unique_ptr<Program> tst_Exit::start(const QString &mode, const QString &transport, int held, int waited)
{
    m_server->command({"EVAL",
                       "for i = 0, ARGV[1] - 1 do redis.call('SET', 'lock:waited:' .. i, 'foreign', 'PX', 600000) end",
                       "0", QByteArray::number(waited)});
    auto program = std::make_unique<Program>(
            QStringList{mode, url(transport).toString(), QString::number(held), QString::number(waited)});
    const bool ready = eventually([&] {
        qsizetype heldKeys = m_server->keys("lock:held:*").size();
        qsizetype queues = m_server->keys("{lock:waited:*}:queue").size();
        return heldKeys == held && queues == waited;
    });
    if (!ready || (waited == 0 && !program->waitForOutput("ready")))
        return nullptr;
    return program;
}

QList<QByteArray> tst_Exit::left()
{
    if (!eventually([this] { return m_server->connectedClients() == 0; }))
        return {"connections"};
    QList<QByteArray> keys = lockKeys(*m_server);
    keys.removeIf([](const QByteArray &key) { return key.startsWith("lock:waited:"); });
    return keys;
}

qint64 tst_Exit::end(Program *program, const QString &mode)
{
    QElapsedTimer timer;
    timer.start();
    program->proceed();
    if (!mode.startsWith(QLatin1String("thread")))
        return program->waitForEnd() && program->hasSucceeded() ? timer.elapsed() : -1;
    return program->waitForOutput(" ms\n") ? program->threadEndedAfter() : -1;
}

void tst_Exit::someModes()
{
    addColumns<QString, QString>("mode", "transport");
    for (const char *mode : {"quit", "exit", "thread", "thread instance", "scoped"}) {
        for (const char *transport : {"unix", "tcp", "tls"})
            QTest::addRow("%s, %s", mode, transport) << QString::fromLatin1(mode) << QString::fromLatin1(transport);
    }
}

void tst_Exit::nothingIsLeft_data()
{
    addColumns<QString, QString, int, int>("mode", "transport", "held", "waited");
    for (const char *mode : AllModes) {
        const bool canWait = qstrcmp(mode, "scoped") != 0;
        for (const char *transport : {"unix", "tcp", "tls"}) {
            for (const int count : {1, 10, 100}) {
                QTest::addRow("%s, %s, %d", mode, transport, count)
                        << QString::fromLatin1(mode) << QString::fromLatin1(transport) << count
                        << (canWait && count == 1 ? count : 0);
            }
        }
    }
}

void tst_Exit::nothingIsLeft()
{
    QFETCH(QString, mode);
    QFETCH(QString, transport);
    QFETCH(int, held);
    QFETCH(int, waited);
    const auto program = start(mode, transport, held, waited);
    QVERIFY(program);
    QVERIFY(end(program.get(), mode) >= 0);
    QCOMPARE(left(), QList<QByteArray>());
}

void tst_Exit::observed_data()
{
    QTest::addColumn<QString>("mode");
    for (const char *mode : {"quit", "instance", "slot", "thread", "thread instance", "scoped", "withLock"})
        QTest::newRow(mode) << QString::fromLatin1(mode);
}

/// A LockObserver hears how each hold ends.
void tst_Exit::observed()
{
    QFETCH(QString, mode);
    const auto program = start(u"observed "_s + mode, u"unix"_s, 3, 0);
    QVERIFY(program);
    program->proceed();
    if (mode.startsWith(u"thread"))
        QVERIFY(program->waitForOutput("thread ended"));
    else
        QVERIFY(program->waitForEnd() && program->hasSucceeded());
    for (const char *const name : {"held:0", "held:1", "held:2"})
        QCOMPARE(program->output().count(QByteArray("ended ") + name + '\n'), 1);
}

/// So many that the end must wait until the server has read them, which it does for 250 ms at most.
void tst_Exit::manyAreGivenBackInTime_data()
{
    addColumns<QString, QString>("mode", "transport");
    for (const char *mode : AllModes) {
        for (const char *transport : {"unix", "tcp", "tls"})
            QTest::addRow("%s, %s", mode, transport) << QString::fromLatin1(mode) << QString::fromLatin1(transport);
    }
}

void tst_Exit::manyAreGivenBackInTime()
{
    QFETCH(QString, mode);
    QFETCH(QString, transport);
    const auto program = start(mode, transport, Many, mode == QLatin1String("scoped") ? 0 : Many);
    QVERIFY(program);
    const qint64 took = end(program.get(), mode);
    QVERIFY(took >= 0);
    QCOMPARE(left(), QList<QByteArray>());
    QCOMPARE_LT(took, LongestEnd);
}

/// Without scripts, a release needs two round trips, for which the end waits for 250 ms at most.
void tst_Exit::plainLocksAreGivenBack_data()
{
    addColumns<QString, QString, int, int>("mode", "transport", "held", "waited");
    for (const char *mode : AllModes) {
        for (const int count : {1, Many}) // nobody waits in a queue
            QTest::addRow("%s, %d", mode, count) << QString::fromLatin1(mode) << u"plain"_s << count << 0;
    }
}

void tst_Exit::nothingIsLeftAtAQuorum_data()
{
    addColumns<QString, int>("mode", "held");
    for (const char *mode : {"quit", "leaked", "exit", "thread", "scoped"}) {
        for (const int held : {1, Many / 4}) // three servers, in the same time as one
            QTest::addRow("%s, %d", mode, held) << QString::fromLatin1(mode) << held;
    }
}

void tst_Exit::nothingIsLeftAtAQuorum()
{
    QFETCH(QString, mode);
    QFETCH(int, held);
    Started<RedisSet> set(3);
    Program program({mode, set.directUrl().toString(), QString::number(held), u"0"_s});
    const auto isAtAll = [&] {
        for (int i = 0; i < set.size(); ++i) {
            if (set.server(i).keys("lock:held:*").size() != held)
                return false;
        }
        return true;
    };
    QVERIFY(eventually(isAtAll));
    QVERIFY(program.waitForOutput("ready"));
    const qint64 took = end(&program, mode);
    QVERIFY(took >= 0);
    QVERIFY(eventually([&] { return set.lockKeys().isEmpty(); }));
    QCOMPARE_LT(took, LongestEnd);
}

/// A server that has lost its scripts since.
void tst_Exit::forgetfulServer_data()
{
    someModes();
}

void tst_Exit::forgetfulServer()
{
    QFETCH(QString, mode);
    QFETCH(QString, transport);
    const bool canWait = mode != QLatin1String("scoped");
    const auto program = start(mode, transport, 100, canWait ? 100 : 0);
    QVERIFY(program);
    m_server->command({"SCRIPT", "FLUSH"});
    QVERIFY(end(program.get(), mode) >= 0);
    QCOMPARE(left(), QList<QByteArray>());
}

qint64 tst_Exit::endWithStoppedServer()
{
    QFETCH(QString, mode);
    QFETCH(QString, transport);
    const auto program = start(mode, transport, Many, 0);
    if (!program)
        return -1;
    m_server->pause();
    return end(program.get(), mode);
}

void tst_Exit::stoppedServerInTime_data()
{
    someModes();
}

/// However many of a thread's servers do not answer, its end is delayed once.
qint64 tst_Exit::endWithSeveralServers()
{
    QFETCH(bool, stopped);
    Program program({u"thread instances"_s, m_server->tcpUrl().toString(), u"10"_s, u"0"_s});
    if (!program.waitForOutput("ready"))
        return -1;
    if (stopped)
        m_server->pause();
    const qint64 took = end(&program, u"thread instances"_s);
    m_server->resume();
    if (!stopped) {
        [this] {
            QCOMPARE(left(), QList<QByteArray>());
            QVERIFY(!m_server->command({"INFO", "keyspace"}).toByteArray().contains("db5:keys=20"));
        }();
    }
    return took;
}

void tst_Exit::slowServer_data()
{
    addColumns<QString, QString>("mode", "condition");
    for (const char *mode : {"quit", "exit", "leaked", "outlives", "thread", "thread instance", "scoped"}) {
        for (const char *condition : {"latency", "sliced", "latency, plain"})
            QTest::addRow("%s, %s", mode, condition) << QString::fromLatin1(mode) << QString::fromLatin1(condition);
    }
}

/// A server that answers late, or in pieces, but within what the end may take.
void tst_Exit::slowServer()
{
    QFETCH(QString, mode);
    QFETCH(QString, condition);
    FaultProxy proxy(*m_server);
    const bool isPlain = condition.endsWith(u"plain");
    const int waited = mode == QLatin1String("scoped") || isPlain ? 0 : Many;
    m_server->command({"EVAL",
                       "for i = 0, ARGV[1] - 1 do redis.call('SET', 'lock:waited:' .. i, 'foreign', 'PX', 600000) end",
                       "0", QByteArray::number(waited)});
    const int held = mode == QLatin1String("scoped") ? 100 : Many;
    const QString query = isPlain ? u"?scripts=off"_s : QString();
    Program program({mode, proxy.url().toString() + query, QString::number(held), QString::number(waited)});
    QVERIFY(program.waitForOutput("ready"));
    if (isPlain) // two round trips
        proxy.setLatency(20ms, 20ms);
    else if (condition == u"latency"_s)
        proxy.setLatency(50ms, 50ms);
    else
        proxy.setSlicing(5);
    QVERIFY(end(&program, mode) >= 0);
    QCOMPARE(left(), QList<QByteArray>());
}

qint64 tst_Exit::endWithKilledServer()
{
    QFETCH(QString, mode);
    QFETCH(QString, transport);
    const auto program = start(mode, transport, 10, 0);
    if (!program)
        return -1;
    m_server->kill();
    return end(program.get(), mode);
}

void tst_Exit::killedServerInTime_data()
{
    someModes();
}

void tst_Exit::threadThatCannotStart()
{
    QFETCH(int, never);
    Program program({u"no thread"_s, m_server->url().toString(), u"0"_s, QString::number(never)});
    QVERIFY(program.waitForEnd());
    QVERIFY(program.hasSucceeded());
    QVERIFY(program.waitForOutput("refused: "));
}

void tst_Exit::signalEndsTheEventLoop()
{
    QFETCH(int, number);
    const auto program = start(u"signalled"_s, u"unix"_s, 10, 10);
    QVERIFY(program);
    QVERIFY(program->waitForOutput("ready"));
    program->sendSignal(number);
    QVERIFY(program->waitForEnd());
    QCOMPARE(program->exitStatus(), QProcess::NormalExit);
    QCOMPARE(program->exitCode(), 128 + number);
    QCOMPARE(left(), QList<QByteArray>());
}

/// timeout(1) signals the process and then its process group, which contains it. What comes 500 ms later is no copy.
void tst_Exit::copiesOfASignal()
{
    Support::leavesRoomFor(400ms);
    const auto program = start(u"signalled"_s, u"unix"_s, 10, 10);
    QVERIFY(program);
    QVERIFY(program->waitForOutput("ready"));
    for (int i = 0; i < 2000; ++i) // so many that the program handles the first before the last is sent
        program->sendSignal(SIGTERM);
    QVERIFY(program->waitForEnd());
    QCOMPARE(program->exitStatus(), QProcess::NormalExit);
    QCOMPARE(left(), QList<QByteArray>());
}

void tst_Exit::secondSignalEndsAtOnce()
{
    const auto program = start(u"stuck"_s, u"unix"_s, 0, 0);
    QVERIFY(program && program->waitForOutput("ready"));
    program->sendSignal(SIGINT);
    QVERIFY(eventually([&] {
        if (program->state() == QProcess::NotRunning)
            return true;
        program->sendSignal(SIGTERM);
        return false;
    }));
    QVERIFY(program->waitForEnd());
    QCOMPARE(program->exitStatus(), QProcess::CrashExit);
}

void tst_Exit::ignoredSignalStaysIgnored()
{
    TestProgram program;
    program.setChildProcessModifier([] { ::signal(SIGHUP, SIG_IGN); }); // as nohup does
    program.start(QStringLiteral(EXITWORKER), {u"signalled"_s, m_server->url().toString(), u"1"_s, u"0"_s});
    QVERIFY(program.waitForOutput("ready"));
    program.sendSignal(SIGHUP);
    program.sendSignal(SIGTERM);
    QVERIFY(program.waitForEnd());
    QCOMPARE(program.exitStatus(), QProcess::NormalExit);
    QCOMPARE(program.exitCode(), 128 + SIGTERM);
}

void tst_Exit::signalToForkedChild()
{
    const auto program = start(u"signalled child"_s, u"unix"_s, 0, 0);
    QVERIFY(program && program->waitForOutput("ready"));
    program->proceed();
    QVERIFY(program->waitForEnd());
    QVERIFY(program->hasSucceeded());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Exit)
#include "tst_exit.moc"
