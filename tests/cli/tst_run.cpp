// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock run` while nothing goes wrong with the lock: its child, its exit codes, waiting, and bad input.

#include "clitest.h"

#include "support/certificates.h"
#include "support/fakeserver.h"
#include "support/rediscluster.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qfile.h>
#include <QtCore/qrandom.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qtemporarydir.h>

#include <algorithm>
#include <numeric>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using namespace Support;

namespace {

/// In passwords; must not show anywhere.
constexpr auto Canary = "canary-7fb1";

} // namespace

class tst_Run : public ServerTest
{
    Q_OBJECT
private Q_SLOTS:
    void exitCodes() { exitCodes(15); }
    PROOF void allExitCodes() { exitCodes(1); }
    void endedBySignal_data();
    void endedBySignal();
    void shell_data();
    void shell();
    void optionsOfTheChild();
    void binaryInputAndOutput();
    void environment();
    void printsNothingOfItsOwn();
    void secretsAreRemoved_data();
    void secretsAreRemoved();
    void passwordInFile();
    void secretsOfABadUrl_data()
    {
        addRows<QString>("url",
                         {{"no host", u"redis:u:canary-7fb1"_s},
                          {"as a query", u"redis://host?password=canary-7fb1"_s},
                          {"bad port", u"redis://u:canary-7fb1@host:99999"_s},
                          {"stray space", u"redis://u:canary-7fb1@ho st"_s}});
    }
    void secretsOfABadUrl();
    void descriptors();
    void inheritedSignals();
    void cannotExecute_data();
    void cannotExecute();

    void fewCommands();
    TIMING void heldWhileTheChildRuns();
    void backgroundProcessDoesNotKeepTheLock();
    void minHold();
    void conflict_data();
    void conflict();
    TIMING void conflictAfterTheWait();
    TIMING void serverFreezesDuringTheWait();
    void signalInTheQueue_data()
    {
        addRows<int>("number", {{"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP}, {"SIGQUIT", SIGQUIT}});
    }
    void signalInTheQueue();
    TIMING void orderOfArrival();
    TIMING void readersAndWriters();
    void conflictWithReaders();
    TIMING void permits();
    void numbersOfPermits();
    TIMING void permitsInOrder();
    void conflictWithPermits();
    void otherNumberOfPermits();
    void severalNames();
    void severalNamesAreOneCommand_data()
    {
        addRows<QString>("option",
                         {{"exclusive", u"--lease=30s"_s}, {"shared", u"--shared"_s}, {"no wait", u"--timeout=0"_s}});
    }
    void severalNamesAreOneCommand();
    void severalNamesNonBlocking();
    void severalNamesBeginAgain();
    TIMING void severalNamesOfASilentServer();
    void severalSlotsOfACluster();
    TIMING void severalNamesBusy();
    TIMING void severalNamesInAnyOrder();
    TIMING void severalNamesAreFresh();
    void tooManyNames();

    void badInput_data();
    void badInput();
    void fewDescriptors();
    void containerWithoutInit_data();
    void containerWithoutInit();
    void nestedLocks();
    void readOnlyReplica_data()
    {
        addRows<QStringList>("arguments",
                             {{"one", {u"job"_s}},
                              {"several", {u"work,job"_s}},
                              {"one, -n", {u"-n"_s, u"job"_s}},
                              {"several, -n", {u"-n"_s, u"work,job"_s}}});
    }
    void readOnlyReplica();
    void serverAway_data();
    void serverAway();
    TIMING void connectTimeout();
    void waitsForTheServer();
    void refusedByTheServer_data()
    {
        addRows<QString>("user", {{"wrong password", QString()}, {"missing right", u"reader"_s}});
    }
    void refusedByTheServer();
    void keyOfAnotherType();
    void releaseIsNotConfirmed();
    void notShownInTheListOfProcesses();

private:
    void exitCodes(int step);
    void conflict(const QStringList &options, int status, const QByteArray &text);
    qint64 callsOf(const QStringList &arguments, const QList<QByteArray> &commands);
    Result runWithout(const QByteArray &server, const QStringList &options);
    /// Waits until \a count clients are in the queue of the lock "job".
    bool areWaiting(int count);
    /// The status, a blank and the errors of `run` with \a options, separated by blanks, of the lock "job".
    QByteArray errorsOf(const QString &options);
};

bool tst_Run::areWaiting(int count)
{
    return eventually([this, count] { return m_server.command({"ZCARD", "{lock:job}:queue"}).toInt() == count; });
}

QByteArray tst_Run::errorsOf(const QString &options)
{
    const Result result = run(setup(), u"run %1 job true"_s.arg(options).split(u' '));
    return QByteArray::number(result.status) + ' ' + result.errors;
}

/// Every \a step th.
void tst_Run::exitCodes(int step)
{
    // Several at a time, each with its own lock.
    for (int first = 0; first < 256; first += 4 * step) {
        std::vector<std::unique_ptr<Program>> programs;
        for (int i = 0; i < 4 && first + i * step < 256; ++i) {
            const QString code = QString::number(first + i * step);
            programs.push_back(std::make_unique<Program>(
                    setup(), QStringList{u"run"_s, u"code-"_s + code, u"sh"_s, u"-c"_s, u"exit "_s + code}));
        }
        for (size_t i = 0; i < programs.size(); ++i) {
            QCOMPARE(programs.at(i)->waitForStatus(), first + int(i) * step);
            QCOMPARE(programs.at(i)->errors(), QByteArray());
        }
    }
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::endedBySignal_data()
{
    addColumns<int, bool>("number", "isRaised");
    const QList<int> harmless{SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH};
    const QList<int> raised{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for (int number = 1; number <= SIGRTMAX; ++number) {
        const bool isUsed = number < 32 || number == SIGRTMIN || number == SIGRTMAX; // glibc uses 32 and 33 itself
        if (isUsed && !harmless.contains(number))
            QTest::addRow("signal %d", number) << number << raised.contains(number);
    }
}

void tst_Run::endedBySignal()
{
    QFETCH(int, number);
    QFETCH(bool, isRaised);
    Program program(setup(), {u"run"_s, u"job"_s, u"sh"_s, u"-c"_s, u"ulimit -c 0; kill -%1 $$"_s.arg(number)});
    QCOMPARE(program.waitForStatus(), 128 + number);
    // A loop of the calling shell ends only if the signal has ended this program, too.
    QCOMPARE(program.exitStatus(), isRaised ? QProcess::CrashExit : QProcess::NormalExit);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::shell_data()
{
    addColumns<QString, QByteArray>("shell", "name");
    QTest::newRow("none") << QString() << QByteArray("/bin/sh");
    QTest::newRow("bash") << u"/bin/bash"_s << QByteArray("/bin/bash");
}

void tst_Run::shell()
{
    QFETCH(QString, shell);
    QFETCH(QByteArray, name);
    Program::Setup withShell = setup();
    withShell.environment = {{u"SHELL"_s, shell}};
    const Result result = run(withShell, {u"run"_s, u"job"_s, u"-c"_s, u"echo \"$0 a  b\" | cat; exit 5"_s});
    QCOMPARE(result.status, 5);
    QCOMPARE(result.output, name + " a  b\n");
}

void tst_Run::optionsOfTheChild()
{
    const Result result = run(setup(),
                              {u"run"_s, u"job"_s, u"printf"_s, u"<%s>"_s, u"-n"_s, u"--lease"_s, u"--"_s, u""_s});
    QCOMPARE(result.output, "<-n><--lease><--><>"_ba);
    QCOMPARE(run(setup(), {u"run"_s, u"--"_s, u"job"_s, u"--"_s, u"echo"_s, u"-c"_s}).output, "-c\n"_ba);
}

void tst_Run::binaryInputAndOutput()
{
    constexpr qsizetype Size = 64 * 1024 * 1024;
    QByteArray bytes(Size, Qt::Uninitialized);
    QRandomGenerator(1).fillRange(reinterpret_cast<quint32 *>(bytes.data()), Size / qsizetype(sizeof(quint32)));
    Program program(setup(), {u"run"_s, u"job"_s, u"cat"_s});
    program.write(bytes);
    program.closeWriteChannel(); // its child sees the end
    QCOMPARE(program.waitForStatus(), 0);
    QVERIFY(program.output() == bytes);
}

void tst_Run::environment()
{
    const Result result = run(setup(), {u"run"_s, u"job,other"_s, u"env"_s});
    QCOMPARE(result.status, 0);
    const QList<QByteArray> lines = result.output.split('\n');
    QVERIFY(lines.contains("QDISTLOCK_NAME=job,other"));
    QVERIFY(lines.contains("QDISTLOCK_HELD=1"));
    QVERIFY(lines.contains("QDISTLOCK_MODE=exclusive"));
    QVERIFY(run(setup(), {u"run"_s, u"-s"_s, u"reader"_s, u"env"_s}).output.contains("QDISTLOCK_MODE=shared\n"));
    QVERIFY(run(setup(), {u"run"_s, u"--limit"_s, u"5"_s, u"few"_s, u"env"_s})
                    .output.contains("QDISTLOCK_MODE=permits\n"));
    QVERIFY(!result.output.contains("QDISTLOCK_SLOT="));
    const QByteArray fences = m_server.get("{lock:job}:fence") + ',' + m_server.get("{lock:other}:fence");
    QVERIFY2(lines.contains("QDISTLOCK_FENCE=" + fences), result.output.constData());

    // The variables of an outer run are replaced.
    const Result nested = run(
            setup(),
            {u"run"_s, u"outer"_s, u"-c"_s,
             u"QDISTLOCK_LOST=x exec "_s + QStringLiteral(QDISTLOCK) + u' ' + Patiently + u" run inner env"_s});
    QCOMPARE(nested.status, 0);
    QCOMPARE(nested.output.count("QDISTLOCK_NAME="), 1);
    QVERIFY(nested.output.contains("QDISTLOCK_NAME=inner\n"));
    QCOMPARE(nested.output.count("QDISTLOCK_FENCE="), 1);
    QVERIFY(!nested.output.contains("QDISTLOCK_LOST="));
}

// The output is the command's, whatever is asked of qdistlock.
void tst_Run::printsNothingOfItsOwn()
{
    for (const QString &option : {u"--json"_s, u"--quiet"_s, u"--verbose"_s}) {
        const Result result = run(setup(), {option, u"run"_s, u"job"_s, u"echo"_s, u"text"_s});
        QCOMPARE(result.status, 0);
        QCOMPARE(result.output, QByteArray("text\n"));
    }
}

void tst_Run::secretsAreRemoved_data()
{
    addColumns<QStringList, bool>("options", "arePassed");
    QTest::newRow("default") << QStringList() << false;
    QTest::newRow("--pass-env") << QStringList{u"--pass-env"_s} << true;
}

void tst_Run::secretsAreRemoved()
{
    QFETCH(QStringList, options);
    QFETCH(bool, arePassed);
    RedisServer::Options withPassword = RedisServer::Options::withTcp();
    withPassword.password = Canary;
    Started<RedisServer> server(withPassword);
    QUrl url = server.tcpUrl();
    url.setPassword(QString::fromLatin1(Canary));
    const QStringList arguments = QStringList{u"run"_s, u"-v"_s} + options + QStringList{u"job"_s, u"env"_s};
    for (const bool inUrl : {true, false}) {
        const Program::Setup secret = inUrl
                ? Program::Setup{url.toEncoded()}
                : Program::Setup{server.tcpUrl().toEncoded(), {{u"QDISTLOCK_PASSWORD"_s, QString::fromLatin1(Canary)}}};
        const Result result = run(secret, arguments);
        QVERIFY2(result.status == 0, result.errors.constData());
        QCOMPARE(result.output.contains(Canary), arePassed);
        QVERIFY(!result.errors.contains(Canary));
        QCOMPARE(result.output.contains("QDISTLOCK_URL="), arePassed || !inUrl);
    }
}

/// As containers mount secrets.
void tst_Run::passwordInFile()
{
    RedisServer::Options withPassword = RedisServer::Options::withTcp();
    withPassword.password = Canary;
    Started<RedisServer> server(withPassword);
    const QTemporaryDir folder;
    const QString path = folder.filePath(u"password"_s);
    const Program::Setup setup{server.tcpUrl().toEncoded(), {{u"QDISTLOCK_PASSWORD_FILE"_s, path}}};
    const QStringList arguments{u"run"_s, u"job"_s, u"true"_s};
    const Result refused = run(setup, arguments);
    QCOMPARE(refused.status, 77);
    QVERIFY2(refused.errors.contains(path.toUtf8()), refused.errors.constData());
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(Canary + QByteArray("\n")) > 0 && file.flush());
    const Result accepted = run(setup, arguments);
    QVERIFY2(accepted.status == 0, accepted.errors.constData());
}

// Because of --server, the bad URL is never used, so no error message names it.
void tst_Run::secretsOfABadUrl()
{
    QFETCH(QString, url);
    Program::Setup bad;
    bad.environment = {{u"QDISTLOCK_URL"_s, url}};
    const Result result = run(bad, {u"--server"_s, m_server.url().toString(), Patiently, u"run"_s, u"job"_s, u"env"_s});
    QVERIFY2(result.status == 0, result.errors.constData());
    QVERIFY2(!result.output.contains(Canary), result.output.constData());
}

void tst_Run::descriptors()
{
    const auto openDescriptors = [](const Result &result) {
        QList<QByteArray> lines = result.output.simplified().split(' ');
        std::sort(lines.begin(), lines.end());
        return lines;
    };
    const QStringList list{u"sh"_s, u"-c"_s, u"ls /proc/$$/fd; echo $QDISTLOCK_LOST_FD"_s};
    Program::Setup direct = setup();
    direct.inChild = [] { ::dup2(STDERR_FILENO, 3); }; // inherited, besides those of the test
    Program::Setup without = direct;
    without.program = list.first();
    QList<QByteArray> expected = openDescriptors(run(without, list.sliced(1)));
    expected += {"4", "4"}; // the one that reaches its end when the lock is lost, and its number
    std::sort(expected.begin(), expected.end());
    QCOMPARE(openDescriptors(run(direct, QStringList{u"run"_s, u"job"_s} + list)), expected);
}

void tst_Run::inheritedSignals()
{
    // As nohup, and as the background jobs of a script.
    Program::Setup ignoring = setup();
    ignoring.inChild = [] {
        ::signal(SIGHUP, SIG_IGN);
        sigset_t blocked;
        ::sigemptyset(&blocked);
        ::sigaddset(&blocked, SIGUSR2);
        ::sigprocmask(SIG_BLOCK, &blocked, nullptr);
    };
    Program program(ignoring, {u"run"_s, u"job"_s, QStringLiteral(SIGNALREPORTER)});
    QVERIFY(program.waitForOutput("ready\n"));
    const QByteArray before = program.output();
    QVERIFY2(before.startsWith("ignored " + QByteArray::number(SIGHUP) + "\nblocked " + QByteArray::number(SIGUSR2)
                               + "\npid="),
             before.constData());
    program.sendSignal(SIGHUP);
    program.sendSignal(SIGUSR1);
    QVERIFY(program.waitForOutput("signal " + QByteArray::number(SIGUSR1) + '\n'));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    QVERIFY(!program.output().contains("signal 01"));

    const Result normal = run(setup(), {u"run"_s, u"job"_s, QStringLiteral(SIGNALREPORTER)});
    QVERIFY2(normal.output.startsWith("pid="), normal.output.constData());
}

void tst_Run::cannotExecute_data()
{
    addColumns<QString, int>("program", "status");
    QTest::newRow("does not exist") << u"qdistlock-no-such-program"_s << 127;
    QTest::newRow("path does not exist") << u"/nowhere/program"_s << 127;
    QTest::newRow("folder") << u"/"_s << 126;
    QTest::newRow("no right") << u"/proc/self/status"_s << 126;
}

void tst_Run::cannotExecute()
{
    QFETCH(QString, program);
    QFETCH(int, status);
    const Result result = run(setup(), {u"run"_s, u"job"_s, program});
    QCOMPARE(result.status, status);
    QVERIFY2(result.errors.contains("cannot execute \"" + program.toUtf8()), result.errors.constData());
    QCOMPARE(result.errors.count('\n'), 1);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::fewCommands()
{
    const qint64 calls = callsOf({u"run"_s, u"job"_s, u"true"_s}, {"evalsha", "eval", "subscribe", "publish"});
    QVERIFY2(calls <= 3, qPrintable(QString::number(calls)));
}

/// How many of \a commands are sent by qdistlock with \a arguments, once the server knows the scripts.
qint64 tst_Run::callsOf(const QStringList &arguments, const QList<QByteArray> &commands)
{
    const auto calls = [&] {
        const QHash<QByteArray, qint64> byName = m_server.commandCalls();
        return std::accumulate(commands.cbegin(), commands.cend(), qint64(0),
                               [&byName](qint64 sum, const QByteArray &name) { return sum + byName.value(name); });
    };
    const Result first = run(setup(), arguments);
    const qint64 before = calls();
    const Result second = run(setup(), arguments);
    [&] { QVERIFY2(first.status == 0 && second.status == 0, second.errors.constData()); }();
    return calls() - before;
}

void tst_Run::heldWhileTheChildRuns()
{
    leavesRoomFor(600ms); // two thirds of the lease
    Program program(setup(), {u"run"_s, u"--lease"_s, u"1s"_s, u"--prefix"_s, u"p:"_s, u"job"_s, u"cat"_s});
    QVERIFY(eventually([this] { return m_server.exists("p:job"); }));
    const QByteArray token = m_server.get("p:job");
    // Renewed after each third of the lease: for two leases.
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before + 6; }));
    QCOMPARE(m_server.get("p:job"), token);
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    QVERIFY(!m_server.exists("p:job"));
    QCOMPARE(program.errors(), QByteArray());
}

void tst_Run::backgroundProcessDoesNotKeepTheLock()
{
    Lifeline background;
    Program::Setup withLifeline = setup();
    withLifeline.environment = {background.variable()};
    Program program(withLifeline,
                    {u"run"_s, u"job"_s, u"-c"_s,
                     u"exec 9>\"$LIFELINE\"; echo >&9; sleep 100 </dev/null >/dev/null 2>&1 & echo pid=$!"_s});
    QCOMPARE(program.waitForStatus(), 0);
    QVERIFY(!m_server.exists("lock:job"));
    const qint64 id = program.numberIn("pid");
    QVERIFY(isAlive(id));
    QCOMPARE(::kill(pid_t(id), SIGKILL), 0);
    QVERIFY(eventually([&] { return background.hasEnded(); }));
}

void tst_Run::minHold()
{
    QCOMPARE(run(setup(), {u"run"_s, u"--lease"_s, u"1h"_s, u"--min-hold"_s, u"20m"_s, u"job"_s, u"true"_s}).status, 0);
    QVERIFY(m_server.pttl("lock:job") > 600'000 && m_server.pttl("lock:job") <= 1'200'000);
    QCOMPARE(run(setup(), {u"run"_s, u"-n"_s, u"job"_s, u"true"_s}).status, 75);
    QCOMPARE(run(setup(), {u"run"_s, u"--lease"_s, u"1h"_s, u"--min-hold"_s, u"20m"_s, u"a,b"_s, u"true"_s}).status, 0);
    for (const char *const key : {"lock:a", "lock:b"})
        QVERIFY(m_server.pttl(key) > 600'000 && m_server.pttl(key) <= 1'200'000);
}

void tst_Run::conflict_data()
{
    addColumns<QStringList, int, QByteArray>("options", "status", "text");
    QTest::newRow("-n") << QStringList{u"-n"_s} << 75 << QByteArray("to wait for it, leave out -n");
    QTest::newRow("-w 0") << QStringList{u"-w"_s, u"0"_s} << 75 << QByteArray("give -w a longer time");
    QTest::newRow("-E") << QStringList{u"-nE9"_s} << 9 << QByteArray("is held by another library");
    QTest::newRow("-E 0") << QStringList{u"-n"_s, u"-E"_s, u"0"_s} << 0 << QByteArray("is held by another library");
    QTest::newRow("-q") << QStringList{u"-nq"_s} << 75 << QByteArray("is held by another library");
    // Cron would mail what is printed.
    QTest::newRow("-E 0 -q") << QStringList{u"-nq"_s, u"-E"_s, u"0"_s} << 0 << QByteArray();
}

void tst_Run::conflict()
{
    QFETCH(QStringList, options);
    QFETCH(int, status);
    QFETCH(QByteArray, text);
    conflict(options, status, text);
}

void tst_Run::conflictAfterTheWait()
{
    leavesRoomFor(150ms); // the server must have answered by then
    conflict({u"-w"_s, u"0.2"_s}, 75, "was not free within 200ms (-w): it is held by another library, ");
}

// Nobody knows then whether the lock is still held, so it is no conflict: -E 0 must not make a success of it.
void tst_Run::serverFreezesDuringTheWait()
{
    leavesRoomFor(400ms);
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    QElapsedTimer time;
    time.start();
    Program program(setup(), {u"run"_s, u"-w"_s, u"1s"_s, u"-E"_s, u"0"_s, u"job"_s, u"echo"_s, u"ran"_s});
    const bool isWaiting = eventually([this] { return m_server.exists("{lock:job}:queue"); });
    m_server.pause();
    const int status = program.waitForStatus();
    const qint64 elapsed = time.elapsed();
    m_server.resume();
    QVERIFY(isWaiting);
    QVERIFY2(status == 69, program.errors().constData());
    QVERIFY2(program.errors().contains("lock \"job\"") && program.errors().contains("does not answer"),
             program.errors().constData());
    QCOMPARE(program.errors().count('\n'), 1);
    QVERIFY2(elapsed >= 1000 && elapsed < 1900, qPrintable(QString::number(elapsed)));
}

void tst_Run::conflict(const QStringList &options, int status, const QByteArray &text)
{
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    const Result result = run(setup(), QStringList{u"run"_s} + options + QStringList{u"job"_s, u"echo"_s, u"ran"_s});
    QCOMPARE(result.status, status);
    QCOMPARE(result.output, QByteArray());
    if (text.isEmpty()) {
        QCOMPARE(result.errors, QByteArray());
    } else {
        QVERIFY2(result.errors.startsWith("qdistlock run: lock \"job\" ") && result.errors.contains(text),
                 result.errors.constData());
        QCOMPARE(result.errors.count('\n'), 1);
    }
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"lock:job"});
    QCOMPARE(m_server.get("lock:job"), "foreign"_ba);
}

void tst_Run::signalInTheQueue()
{
    QFETCH(int, number);
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    Program program(setup(), {u"run"_s, u"job"_s, u"echo"_s, u"ran"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    program.sendSignal(number);
    QCOMPARE(program.waitForStatus(), 128 + number);
    QCOMPARE(program.output(), QByteArray());
    QVERIFY(eventually([this] { return lockKeys(m_server) == QList<QByteArray>{"lock:job"}; }));
}

void tst_Run::orderOfArrival()
{
    leavesRoomFor(2s); // who is served has 3 s to claim the lock
    constexpr int Count = 20;
    QTemporaryDir folder;
    Program::Setup withFile = setup();
    withFile.environment = {{u"FILE"_s, folder.filePath(u"order"_s)}};
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < Count; ++i) {
        // The first waits until all others are in the queue. A second one at the same time would find the folder.
        programs.push_back(std::make_unique<Program>(
                withFile,
                QStringList{u"run"_s, u"job"_s, u"-c"_s,
                            u"mkdir \"$FILE.d\" && echo %1 >>\"$FILE\"; %2 rmdir \"$FILE.d\""_s.arg(
                                    QString::number(i), i == 0 ? u"cat;"_s : QString())}));
        if (i == 0)
            QVERIFY(eventually([this] { return m_server.exists("lock:job"); }));
        else
            QVERIFY(areWaiting(i));
    }
    programs.front()->closeWriteChannel();
    QByteArray expected;
    for (int i = 0; i < Count; ++i) {
        QCOMPARE(programs.at(size_t(i))->waitForStatus(), 0);
        expected += QByteArray::number(i) + '\n';
    }
    QFile order(folder.filePath(u"order"_s));
    QVERIFY(order.open(QIODevice::ReadOnly));
    QCOMPARE(order.readAll(), expected);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

// Readers run together. A writer waits for both, and a reader that comes later waits behind the writer.
void tst_Run::readersAndWriters()
{
    leavesRoomFor(2s); // who is served has 3 s to claim the lock
    // Each prints its name, and ends with its input.
    const auto start = [this](const QStringList &options, const QString &name) {
        return std::make_unique<Program>(
                setup(), QStringList{u"run"_s} + options + QStringList{u"job"_s, u"-c"_s, u"echo %1; cat"_s.arg(name)});
    };
    const auto first = start({u"--shared"_s}, u"first"_s);
    const auto second = start({u"-s"_s}, u"second"_s);
    QVERIFY(first->waitForOutput("first\n"));
    QVERIFY(second->waitForOutput("second\n"));
    const auto writer = start({}, u"writer"_s);
    QVERIFY(areWaiting(1));
    const auto late = start({u"--shared"_s}, u"late"_s);
    QVERIFY(areWaiting(2));
    first->closeWriteChannel();
    QCOMPARE(first->waitForStatus(), 0);
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 1);
    QCOMPARE(writer->output() + late->output(), QByteArray());
    second->closeWriteChannel();
    QVERIFY(writer->waitForOutput("writer\n"));
    QCOMPARE(late->output(), QByteArray());
    writer->closeWriteChannel();
    QVERIFY(late->waitForOutput("late\n"));
    late->closeWriteChannel();
    for (const auto &program : {&second, &writer, &late}) {
        QCOMPARE((*program)->waitForStatus(), 0);
        QCOMPARE((*program)->errors(), QByteArray());
    }
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::conflictWithReaders()
{
    const QStringList reader{u"run"_s, u"--shared"_s, u"job"_s, u"cat"_s};
    Program first(setup(), reader);
    QVERIFY(eventually([this] { return m_server.command({"ZCARD", "lock:job"}).toInt() == 1; }));
    const QByteArray one = errorsOf(u"-n"_s);
    QVERIFY2(one.startsWith("75 qdistlock run: lock \"job\" is held by the reader cat on "), one.constData());
    Program second(setup(), reader);
    QVERIFY(eventually([this] { return m_server.command({"ZCARD", "lock:job"}).toInt() == 2; }));
    const QByteArray two = errorsOf(u"-n"_s);
    QVERIFY2(two.startsWith("75 qdistlock run: lock \"job\" is held by 2 readers, among them cat on "),
             two.constData());
    QVERIFY2(!two.contains("left of") && !two.contains("waits"), two.constData()); // they renew it
    QCOMPARE(errorsOf(u"-ns"_s), "0 "_ba);

    Program writer(setup(), {u"run"_s, u"job"_s, u"true"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    const QByteArray late = errorsOf(u"-ns"_s);
    QVERIFY2(late.startsWith("75 ") && late.contains(", while a writer waits; to wait for it, "), late.constData());
}

// Five of six run, and a run without --limit waits for all of them.
void tst_Run::permits()
{
    leavesRoomFor(2s); // who is served has 3 s to claim the lock
    const QTemporaryDir marks;
    Program::Setup withMarks = setup();
    withMarks.environment = {{u"MARKS"_s, marks.path()}};
    // Each prints how many run, and ends with its input.
    const auto start = [&withMarks](const QStringList &options) {
        return std::make_unique<Program>(
                withMarks,
                QStringList{u"run"_s} + options
                        + QStringList{u"job"_s, u"-c"_s,
                                      u"touch \"$MARKS/$$\"; ls \"$MARKS\" | wc -l; cat; rm \"$MARKS/$$\""_s});
    };
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 1; i <= 5; ++i) {
        programs.push_back(start({u"--limit"_s, u"5"_s}));
        QVERIFY(programs.back()->waitForOutput("\n"));
        QCOMPARE(programs.back()->output().trimmed().toInt(), i);
    }
    const auto sixth = start({u"--limit"_s, u"server"_s});
    QVERIFY(areWaiting(1));
    const auto alone = start({});
    QVERIFY(areWaiting(2));
    QCOMPARE(sixth->output() + alone->output(), QByteArray());
    programs.front()->closeWriteChannel();
    QCOMPARE(programs.front()->waitForStatus(), 0);
    QVERIFY(sixth->waitForOutput("\n"));
    QCOMPARE(sixth->output().trimmed().toInt(), 5);
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 5);

    sixth->closeWriteChannel();
    QCOMPARE(sixth->waitForStatus(), 0);
    for (size_t i = 1; i < programs.size(); ++i) {
        QCOMPARE(alone->output(), QByteArray());
        programs.at(i)->closeWriteChannel();
        QCOMPARE(programs.at(i)->waitForStatus(), 0);
    }
    QVERIFY(alone->waitForOutput("\n"));
    QCOMPARE(alone->output().trimmed().toInt(), 1);
    alone->closeWriteChannel();
    QCOMPARE(alone->waitForStatus(), 0);
    QCOMPARE(alone->errors(), QByteArray());
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

// $QDISTLOCK_SLOT is a number that no other run has.
void tst_Run::numbersOfPermits()
{
    const auto start = [this](const QStringList &options) {
        return std::make_unique<Program>(
                setup(), QStringList{u"run"_s} + options + QStringList{u"-c"_s, u"echo \"$QDISTLOCK_SLOT\"; cat"_s});
    };
    const auto first = start({u"--limit=4"_s, u"job"_s});
    QVERIFY(first->waitForOutput("\n"));
    QCOMPARE(first->output(), "0\n");
    const auto two = start({u"--limit=server"_s, u"--take=2"_s, u"job"_s});
    QVERIFY(two->waitForOutput("\n"));
    QCOMPARE(two->output(), "1,2\n");
    first->closeWriteChannel();
    QCOMPARE(first->waitForStatus(), 0);
    const auto third = start({u"--limit=4"_s, u"other,job"_s}); // of each name, in the order of the names
    QVERIFY(third->waitForOutput("\n"));
    QCOMPARE(third->output(), "0,0\n");
    const auto fourth = start({u"--limit=4"_s, u"other,job"_s});
    QVERIFY(fourth->waitForOutput("\n"));
    QCOMPARE(fourth->output(), "1,3\n");
    for (const auto &program : {&two, &third, &fourth}) {
        (*program)->closeWriteChannel();
        QCOMPARE((*program)->waitForStatus(), 0);
    }

    // A name with more than 1024 permits has no numbers, and the one of an outer run is not passed on.
    const QString inner = QStringLiteral(QDISTLOCK) + u' ' + Patiently
            + u" run --limit 1025 many -c 'echo \"<$QDISTLOCK_SLOT>\"'"_s;
    const Result nested = run(setup(), {u"run"_s, u"--limit=4"_s, u"job"_s, u"-c"_s, inner});
    QCOMPARE(nested.output, "<>\n");
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

// One that takes two permits is not overtaken by one that takes one.
void tst_Run::permitsInOrder()
{
    leavesRoomFor(2s); // who is served has 3 s to claim the lock
    const auto start = [this](const QString &take) {
        return std::make_unique<Program>(
                setup(),
                QStringList{u"run"_s, u"--limit"_s, u"3"_s, u"--take"_s, take, u"job"_s, u"-c"_s, u"echo runs; cat"_s});
    };
    const auto end = [](Program *program) {
        program->closeWriteChannel();
        return program->waitForStatus();
    };
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < 3; ++i) {
        programs.push_back(start(u"1"_s));
        QVERIFY(programs.back()->waitForOutput("runs\n"));
    }
    const auto two = start(u"2"_s);
    QVERIFY(areWaiting(1));
    const auto one = start(u"1"_s);
    QVERIFY(areWaiting(2));
    QCOMPARE(end(programs.at(0).get()), 0);
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 2);
    QCOMPARE(two->output() + one->output(), QByteArray());
    QCOMPARE(end(programs.at(1).get()), 0);
    QVERIFY(two->waitForOutput("runs\n"));
    QCOMPARE(one->output(), QByteArray());
    QCOMPARE(end(programs.at(2).get()), 0);
    QVERIFY(one->waitForOutput("runs\n"));
    QCOMPARE(end(two.get()), 0);
    QCOMPARE(end(one.get()), 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::conflictWithPermits()
{
    const QStringList holder{u"run"_s, u"--limit"_s, u"3"_s, u"job"_s, u"cat"_s};
    Program first(setup(), holder);
    QVERIFY(eventually([this] { return m_server.command({"ZCARD", "lock:job"}).toInt() == 1; }));
    const QByteArray one = errorsOf(u"-n"_s);
    QVERIFY2(one.startsWith("75 qdistlock run: lock \"job\" is held by the holder of 1 of 3 permits, cat on "),
             one.constData());
    Program second(setup(), holder);
    QVERIFY(eventually([this] { return m_server.command({"ZCARD", "lock:job"}).toInt() == 2; }));
    const QByteArray two = errorsOf(u"-n --limit 3 --take 2"_s);
    QVERIFY2(two.startsWith(
                     "75 qdistlock run: lock \"job\" is held by the holders of 2 of 3 permits, among them cat on "),
             two.constData());
    QVERIFY2(!two.contains("left of") && !two.contains("waits"), two.constData()); // they renew it
    QCOMPARE(errorsOf(u"-n --limit 3"_s), "0 "_ba);
    const QByteArray reader = errorsOf(u"-s"_s);
    QVERIFY2(reader.startsWith("64 ") && reader.contains("is held by holders of permits"), reader.constData());

    Program alone(setup(), {u"run"_s, u"job"_s, u"true"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    const QByteArray late = errorsOf(u"-n --limit 3"_s);
    QVERIFY2(late.startsWith("75 ") && late.contains(", while another one waits; to wait for it, "), late.constData());
}

// The errors name options, and no part of the library.
void tst_Run::otherNumberOfPermits()
{
    const auto has = [](const QByteArray &errors, const QByteArray &text) {
        if (errors.startsWith("64 qdistlock run: ") && errors.contains(text) && errors.count('\n') == 1
            && !errors.contains("::"))
            return true;
        qWarning().noquote() << errors;
        return false;
    };
    QVERIFY(has(errorsOf(u"--limit server"_s), "--limit is server, but the server has no number for this name"));
    QCOMPARE(errorsOf(u"--limit 5"_s), "0 "_ba);
    QCOMPARE(errorsOf(u"--limit server --take 5"_s), "0 "_ba);
    QVERIFY(has(errorsOf(u"--limit 3"_s),
                "--limit is 3, but the server has 5 for this name; use the same number or --limit server, or change "
                "the server's with `qdistlock permits`"));
    QVERIFY(has(errorsOf(u"--limit server --take 6"_s), "--take is 6, but the server has 5 permits"));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::severalNames()
{
    Program program(setup(), {u"run"_s, u"b,a"_s, u"cat"_s});
    QVERIFY(eventually([this] { return m_server.exists("lock:a") && m_server.exists("lock:b"); }));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::severalNamesAreOneCommand()
{
    QFETCH(QString, option);
    QCOMPARE(callsOf({u"run"_s, option, u"b,a,c"_s, u"true"_s}, {"evalsha", "eval"}), 2); // acquire, and release
    for (const char *const name : {"a", "b", "c"})
        QVERIFY(m_server.exists("{lock:" + QByteArray(name) + "}:fence"));
}

// None is held, not even for a moment.
void tst_Run::severalNamesNonBlocking()
{
    m_server.command({"SET", "lock:b", "foreign", "PX", "60000"});
    const Result result = run(setup(), {u"run"_s, u"-n"_s, u"a,b,c"_s, u"echo"_s, u"ran"_s});
    QCOMPARE(result.status, 75);
    QCOMPARE(result.output, QByteArray());
    QVERIFY2(result.errors.startsWith("qdistlock run: lock \"b\" is held by another library, ")
                     && result.errors.contains("to wait for it, leave out -n") && result.errors.count('\n') == 1,
             result.errors.constData());
    QCOMPARE(m_server.keys(), QList<QByteArray>{"lock:b"}); // a lock that was held leaves its fencing token
    m_server.command({"DEL", "lock:b"});
    Program holder(setup(), {u"hold"_s, u"b"_s});
    QVERIFY(holder.waitForOutput("\n"));
    // Once, because the list is long on a busy server.
    QCOMPARE(callsOf({u"run"_s, u"-n"_s, u"-E"_s, u"0"_s, u"a,b,c"_s, u"true"_s}, {"client|list"}), 1);
}

// While it waits for one of them, it holds none that comes later in the order: others might wait for each other.
void tst_Run::severalNamesBeginAgain()
{
    m_server.command({"SET", "lock:c", "foreign", "PX", "600000"});
    Program program(setup(), {u"run"_s, u"a,b,c"_s, u"echo"_s, u"ran"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:c}:queue"); }));
    QVERIFY(m_server.exists("lock:a") && m_server.exists("lock:b"));
    m_server.command({"SET", "lock:a", "foreign", "PX", "600000"});
    reconnectAll(m_server);
    QVERIFY(eventually([this] { return m_server.exists("{lock:a}:queue"); }));
    QVERIFY(eventually([this] { return !m_server.exists("lock:b") && !m_server.exists("{lock:c}:queue"); }));
    program.sendSignal(SIGTERM);
    QCOMPARE(program.waitForStatus(), 128 + SIGTERM);
    QCOMPARE(program.output(), QByteArray());
}

void tst_Run::severalNamesOfASilentServer()
{
    leavesRoomFor(400ms);
    FakeServer silent{QByteArray()}; // after the login
    QElapsedTimer time;
    time.start();
    const Result result = run({silent.url().toEncoded()}, {u"run"_s, u"-w"_s, u"1s"_s, u"a,b"_s, u"echo"_s, u"ran"_s});
    QVERIFY2(result.status == 69 && result.errors.contains("did not answer"), result.errors.constData());
    QCOMPARE(result.errors.count('\n'), 1);
    QVERIFY2(time.elapsed() >= 1000 && time.elapsed() < 1900, qPrintable(QString::number(time.elapsed())));
}

// One command cannot have all their keys.
void tst_Run::severalSlotsOfACluster()
{
    const Started<RedisCluster> cluster;
    const Result result = run({cluster.url().toEncoded()}, {u"run"_s, u"a,b,c"_s, u"-c"_s, u"echo $QDISTLOCK_FENCE"_s});
    QVERIFY2(result.status == 0, result.errors.constData());
    QCOMPARE(result.output.split(',').size(), 3);
    QCOMPARE(result.errors, QByteArray());
}

void tst_Run::severalNamesBusy()
{
    leavesRoomFor(150ms); // the server must have answered when the wait ends
    m_server.command({"SET", "lock:b", "foreign", "PX", "60000"});
    const Result result = run(setup(), {u"run"_s, u"-w"_s, u"200ms"_s, u"a,b"_s, u"echo"_s, u"ran"_s});
    QCOMPARE(result.status, 75);
    QCOMPARE(result.output, QByteArray());
    QVERIFY2(result.errors.contains("lock \"b\""), result.errors.constData());
    QVERIFY(eventually([this] { return lockKeys(m_server) == QList<QByteArray>{"lock:b"}; }));
}

void tst_Run::severalNamesInAnyOrder()
{
    leavesRoomFor(1s); // until its first renewal, a lock that was handed over has a lease of 3 s
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < 8; ++i) {
        programs.push_back(
                std::make_unique<Program>(setup(), QStringList{u"run"_s, i % 2 ? u"a,b,c"_s : u"c,b,a"_s, u"true"_s}));
    }
    for (const auto &program : programs)
        QCOMPARE(program->waitForStatus(), 0);
}

// The lease of the first one began long before the last one was free.
void tst_Run::severalNamesAreFresh()
{
    leavesRoomFor(150ms);
    m_server.command({"SET", "lock:c", "foreign", "PX", "950"});
    const Result result = run(
            setup(), {u"run"_s, u"--no-renew"_s, u"--lease"_s, u"1s"_s, u"a,b,c"_s, u"-c"_s, u"sleep 0.1; echo ran"_s});
    QVERIFY2(result.status == 0, result.errors.constData());
    QCOMPARE(result.output, "ran\n"_ba);
    QCOMPARE(result.errors, QByteArray());
}

// Linux limits the size of one variable.
void tst_Run::tooManyNames()
{
    QStringList names;
    for (int i = 0; i < 8000; ++i)
        names += QString::number(i);
    const Result result = run(setup(), {u"run"_s, names.join(u','), u"true"_s});
    QVERIFY2(result.status == 64, result.errors.constData());
    QVERIFY2(result.errors.contains("8000 names"), result.errors.constData());
    QCOMPARE(m_server.keys(), QList<QByteArray>()); // a lock leaves at least its fencing token
}

void tst_Run::badInput_data()
{
    addColumns<QStringList, int, QByteArray>("arguments", "status", "text");
    const auto row = [](const char *name, const QStringList &arguments, int status, const QByteArray &text) {
        QTest::newRow(name) << arguments << status << text;
    };
    row("unknown option", {u"run"_s, u"--leese"_s, u"job"_s, u"true"_s}, 64, "did you mean --lease?");
    row("missing name", {u"run"_s}, 64, "NAME");
    row("bad duration", {u"run"_s, u"-w"_s, u"soon"_s, u"job"_s, u"true"_s}, 64, "is not a duration");
    row("lease too long", {u"run"_s, u"--lease"_s, u"25h"_s, u"job"_s, u"true"_s}, 64,
        "--lease is 25h; it must be from 10ms to 24h");
    row("lease of 0", {u"run"_s, u"--lease"_s, u"0"_s, u"job"_s, u"true"_s}, 64,
        "--lease is 0s; it must be from 10ms to 24h");
    row("min-hold too long", {u"run"_s, u"--min-hold"_s, u"1m"_s, u"job"_s, u"true"_s}, 64,
        "--min-hold is 1m; it must not be longer");
    row("kill-after too long", {u"run"_s, u"--lease"_s, u"3s"_s, u"--kill-after"_s, u"2s"_s, u"job"_s, u"true"_s}, 64,
        "at most a third of the lease");
    row("two waits", {u"run"_s, u"-n"_s, u"-w"_s, u"1"_s, u"job"_s, u"true"_s}, 64, "exclude each other");
    row("two groups", {u"run"_s, u"--foreground"_s, u"--background-group"_s, u"job"_s, u"true"_s}, 64,
        "exclude each other");
    row("name that cannot be used", {u"run"_s, QString(100000, u'x'), u"true"_s}, 64, "name");
    row("bad URL", {u"--server"_s, u"redis://u:canary-7fb1@"_s, u"run"_s, u"job"_s, u"true"_s}, 78, "--server");
    row("bad port", {u"--server"_s, u"redis://u:canary-7fb1@host:99999"_s, u"run"_s, u"job"_s, u"true"_s}, 78,
        "--server");
    row("unknown scheme", {u"--server"_s, u"http://host"_s, u"run"_s, u"job"_s, u"true"_s}, 78, "http");
    row("locks of this process", {u"--server"_s, u"memory:"_s, u"run"_s, u"job"_s, u"true"_s}, 78, "exclude nobody");
    row("bad database", {u"--server"_s, u"redis://host/abc"_s, u"run"_s, u"job"_s, u"true"_s}, 78, "database");
    row("no such database", {u"--server"_s, m_server.tcpUrl().toString() + u"/99"_s, u"run"_s, u"job"_s, u"true"_s}, 78,
        "database 99");
    row("URL as command", {u"run"_s, u"job"_s, u"redis://u:canary-7fb1@host/0"_s}, 127, "redis://***@host/0");
    row("readers without scripts",
        {u"--server"_s, m_server.tcpUrl().toString() + u"?scripts=off"_s, u"run"_s, u"-s"_s, u"job"_s, u"true"_s}, 64,
        "--shared is not available here: it needs scripts");
    row("readers of a quorum",
        {u"--server"_s, u"redlock://127.0.0.1:1?node=127.0.0.1:2&node=127.0.0.1:3"_s, u"run"_s, u"-s"_s, u"job"_s,
         u"true"_s},
        64, "--shared is not available here: ");
    row("readers and permits", {u"run"_s, u"-s"_s, u"--limit"_s, u"5"_s, u"job"_s, u"true"_s}, 64,
        "-s (--shared) and --limit exclude each other");
    row("permits of no semaphore", {u"run"_s, u"--take"_s, u"1"_s, u"job"_s, u"true"_s}, 64, "--take needs --limit");
    row("too many permits", {u"run"_s, u"--limit=5"_s, u"--take=6"_s, u"job"_s, u"true"_s}, 64,
        "--take is 6; it must be from 1 to 5, see --limit");
    row("no permits", {u"run"_s, u"--limit=5"_s, u"--take=0"_s, u"job"_s, u"true"_s}, 64,
        "--take is 0; it must be from 1 to 5, see --limit");
    row("far too many permits", {u"run"_s, u"--limit=server"_s, u"--take=9999999999"_s, u"job"_s, u"true"_s}, 64,
        "--take is 9999999999; it must be from 1 to 10000");
    row("permits without scripts",
        {u"--server"_s, m_server.tcpUrl().toString() + u"?scripts=off"_s, u"run"_s, u"--limit=5"_s, u"job"_s,
         u"true"_s},
        64, "--limit is not available here: it needs scripts");
    row("permits of a quorum",
        {u"--server"_s, u"redlock://127.0.0.1:1?node=127.0.0.1:2&node=127.0.0.1:3"_s, u"run"_s, u"--limit=5"_s,
         u"job"_s, u"true"_s},
        64, "--limit is not available here: ");
    row("no URL", {u"--server"_s, u""_s, u"run"_s, u"job"_s, u"true"_s}, 78, "--server");
}

void tst_Run::badInput()
{
    QFETCH(QStringList, arguments);
    QFETCH(int, status);
    QFETCH(QByteArray, text);
    const Result result = run(setup(), arguments);
    QVERIFY2(result.status == status, result.errors.constData());
    QVERIFY2(result.errors.startsWith("qdistlock run: ") && result.errors.contains(text), result.errors.constData());
    QCOMPARE(result.errors.count('\n'), 1);
    QVERIFY2(!result.errors.contains(Canary), result.errors.constData());
    QCOMPARE(result.output, QByteArray());
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Run::fewDescriptors()
{
    Program::Setup poor = setup();
    for (const rlim_t number : {4, 6, 8, 10, 12, 14}) {
        poor.inChild = [number] {
            for (int fd = 3; fd < 256; ++fd)
                ::fcntl(fd, F_SETFD, FD_CLOEXEC);
            const rlimit few{number, number};
            ::setrlimit(RLIMIT_NOFILE, &few);
        };
        const Result result = run(poor, {u"run"_s, u"job"_s, u"true"_s});
        QCOMPARE(result.status, 70);
        QVERIFY2(result.errors.contains("too few file descriptors"), result.errors.constData());
    }
}

// The inner command waits for the outer one, which waits for it: only if both mean the same lock.
void tst_Run::containerWithoutInit_data()
{
    addColumns<QStringList, int>("arguments", "status");
    QTest::newRow("command ends") << QStringList{u"job"_s, u"sh"_s, u"-c"_s, u"exit 3"_s} << 3;
    QTest::newRow("signal") << QStringList{u"job"_s, u"sh"_s, u"-c"_s, u"kill -TERM $$"_s} << -SIGTERM;
    QTest::newRow("busy") << QStringList{u"-n"_s, u"busy"_s, u"true"_s} << 75;
}

void tst_Run::containerWithoutInit()
{
    QFETCH(QStringList, arguments);
    QFETCH(int, status);
    if (TestProgram trial(u"unshare"_s, {u"--pid"_s, u"--fork"_s, u"--mount-proc"_s, u"true"_s});
        !trial.waitForEnd() || trial.exitCode() != 0)
        QSKIP("Needs the right to create a PID namespace: only in a new one can this test start a program as process "
              "1.");
    // Its first process waits for the program it has started, and for nobody else.
    const QString first = u"import os, subprocess, sys\n"
                          "status = subprocess.run(sys.argv[1:]).returncode\n"
                          "print(status, [name for name in os.listdir('/proc') if name.isdecimal() and name != '1'])"_s;
    m_server.command({"SET", "lock:busy", "other"});
    Program::Setup container = setup();
    container.program = u"unshare"_s;
    const Result result = ::run(container,
                                QStringList{u"--pid"_s, u"--fork"_s, u"--mount-proc"_s, u"python3"_s, u"-c"_s, first,
                                            QStringLiteral(QDISTLOCK), Patiently, u"run"_s}
                                        + arguments);
    QCOMPARE(result.output, QByteArray::number(status) + " []\n");
}

void tst_Run::nestedLocks()
{
    const QString inner = QStringLiteral(QDISTLOCK) + u' ' + Patiently + u" run %1 job true"_s;
    const auto errorsOfInner = [&](const QString &options, const QStringList &outer = {}) {
        return run(setup(), QStringList{u"run"_s} + outer + QStringList{u"job"_s, u"-c"_s, inner.arg(options)}).errors;
    };
    const QByteArray note = "`qdistlock run` that has started this command";
    QVERIFY(errorsOfInner(u"-n"_s).contains(note));
    QVERIFY(errorsOfInner(u"-ns"_s).contains(note));
    QVERIFY(errorsOfInner(u"-n"_s, {u"--shared"_s}).contains(note));
    QCOMPARE(errorsOfInner(u"-ns"_s, {u"--shared"_s}), QByteArray());
    // It takes another permit, which may be free or not.
    QVERIFY(errorsOfInner(u"-n --limit 2"_s, {u"--limit=2"_s}).contains(note));
    QVERIFY(errorsOfInner(u"-n"_s, {u"--limit=2"_s}).contains(note));
    QCOMPARE(errorsOfInner(u"--prefix other:"_s), QByteArray());
    Started<RedisServer> other(RedisServer::Options::withTcp());
    QCOMPARE(errorsOfInner(u"--server "_s + other.tcpUrl().toString()), QByteArray());
}

void tst_Run::readOnlyReplica()
{
    Started<RedisServer> server(RedisServer::Options::withTcp());
    server.command({"REPLICAOF", "127.0.0.1", "1"});
    QFETCH(QStringList, arguments);
    const Result result = run({server.tcpUrl().toEncoded()},
                              QStringList{u"run"_s} + arguments + QStringList{u"echo"_s, u"ran"_s});
    QVERIFY2(result.status == 69, result.errors.constData());
    QCOMPARE(result.output, QByteArray());
    QVERIFY2(result.errors.contains("lock \"job\"") && result.errors.contains("give the URL of its master"),
             result.errors.constData());
    QCOMPARE(result.errors.count('\n'), 1);
}

void tst_Run::serverAway_data()
{
    addColumns<QByteArray, QStringList>("server", "options");
    QTest::newRow("nobody listens") << QByteArray("redis://127.0.0.1:1") << QStringList();
    QTest::newRow("nobody listens, -n") << QByteArray("redis://127.0.0.1:1") << QStringList{u"-n"_s};
    QTest::newRow("no such host") << QByteArray("redis://qdistlock.invalid") << QStringList();
    QTest::newRow("no such socket") << QByteArray("unix:///nowhere/redis.sock") << QStringList();
    QTest::newRow("does not answer") << QByteArray() << QStringList();
}

void tst_Run::serverAway()
{
    QFETCH(QByteArray, server);
    QFETCH(QStringList, options);
    const Result result = runWithout(server, options);
    QVERIFY2(result.status == 69, result.errors.constData());
    QCOMPARE(result.output, QByteArray());
    QVERIFY2(result.errors.startsWith("qdistlock run: "), result.errors.constData());
    QCOMPARE(result.errors.count('\n'), 1);
}

void tst_Run::connectTimeout()
{
    leavesRoomFor(1s);
    QElapsedTimer time;
    time.start();
    const Result result = runWithout({}, {});
    QVERIFY2(result.status == 69, result.errors.constData());
    QVERIFY2(time.elapsed() >= 150 && time.elapsed() < 1500, qPrintable(QString::number(time.elapsed())));
}

/// \a server: empty = one that accepts connections, and does not answer.
Result tst_Run::runWithout(const QByteArray &server, const QStringList &options)
{
    FakeServer silent{QByteArray()};
    silent.setAnswersLogin(false);
    return run({server.isEmpty() ? silent.url().toEncoded() : server},
               QStringList{u"run"_s, u"--connect-timeout"_s, u"200ms"_s} + options
                       + QStringList{u"job"_s, u"echo"_s, u"ran"_s});
}

void tst_Run::waitsForTheServer()
{
    Started<RedisServer> late(RedisServer::Options::withTcp());
    const QByteArray url = late.tcpUrl().toEncoded();
    late.stop();
    Program program({url}, {u"run"_s, u"job"_s, u"true"_s});
    QVERIFY(program.waitForStarted());
    QVERIFY(late.start());
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_Run::refusedByTheServer()
{
    QFETCH(QString, user);
    RedisServer::Options serverOptions = RedisServer::Options::withTcp();
    serverOptions.password = "right";
    serverOptions.users = {"reader on >" + QByteArray(Canary) + " ~lock:* ~{lock:*}* &* +ping +get +client +subscribe"};
    Started<RedisServer> server(serverOptions);
    QUrl url = server.tcpUrl();
    url.setUserName(user);
    url.setPassword(QString::fromLatin1(Canary));
    const Result result = run({url.toEncoded()}, {u"run"_s, u"job"_s, u"echo"_s, u"ran"_s});
    QVERIFY2(result.status == 77, result.errors.constData());
    QCOMPARE(result.output, QByteArray());
    QCOMPARE(result.errors.count('\n'), 1);
    QVERIFY(!result.errors.contains(Canary));
}

void tst_Run::keyOfAnotherType()
{
    m_server.command({"RPUSH", "lock:job", "a"});
    const Result result = run(setup(), {u"run"_s, u"job"_s, u"echo"_s, u"ran"_s});
    QVERIFY2(result.status == 64, result.errors.constData());
    QCOMPARE(result.output, QByteArray());
    QCOMPARE(result.errors.count('\n'), 1);
    QCOMPARE(m_server.command({"LLEN", "lock:job"}).toInt(), 1);
}

void tst_Run::releaseIsNotConfirmed()
{
    Program program(setup(), {u"run"_s, u"job"_s, u"-c"_s, u"echo started; cat; exit 3"_s});
    QVERIFY(program.waitForOutput("started\n")); // once the reply to the acquire has arrived
    m_server.pause();
    program.closeWriteChannel();
    const int status = program.waitForStatus();
    m_server.resume();
    QCOMPARE(status, 3); // the job has done its work
    QVERIFY2(program.errors().contains("has not confirmed the release"), program.errors().constData());
}

void tst_Run::notShownInTheListOfProcesses()
{
    QUrl url = m_server.tcpUrl();
    url.setPassword(QString::fromLatin1(Canary));
    Program program({}, {u"--server"_s, url.toString(), u"--connect-timeout=1m"_s, u"run"_s, u"job"_s, u"cat"_s});
    QVERIFY(program.waitForStarted());
    QFile list(u"/proc/%1/cmdline"_s.arg(program.processId()));
    const auto commandLine = [&list] {
        list.close();
        return list.open(QIODevice::ReadOnly) ? list.readAll() : QByteArray();
    };
    QVERIFY(eventually([&] { return commandLine().contains("redis://*"); }));
    QVERIFY(!commandLine().contains(Canary));
    QVERIFY(commandLine().endsWith(QByteArray("job\0cat\0", 8)));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Run)
#include "tst_run.moc"
