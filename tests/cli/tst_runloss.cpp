// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock run` when the lock is lost: the child is dead before anybody else can get the lock.

#include "clitest.h"

#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qfile.h>
#include <QtCore/qhash.h>
#include <QtCore/qrandom.h>
#include <QtCore/qtemporarydir.h>

#include <algorithm>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using namespace Support;

namespace {

/// qdistlock sends SIGKILL a tenth of the lease before its end; if qdistlock has ended, its guardian does a bit later.
/// If the machine pauses for longer than what is left of the lease then, the command ends after the lock does.
constexpr milliseconds reserveOf(milliseconds lease)
{
    return lease / 20;
}
/// The lease while the server is stopped at any moment.
constexpr milliseconds StoppedLease = 2s;

} // namespace

class tst_RunLoss : public ServerTest
{
    Q_OBJECT
private Q_SLOTS:
    void cleanup() { thaw(m_server); }

    TIMING void serverStopped() { serverStopped(8, 3); }
    PROOF void serverStoppedOften() { serverStopped(100, 26); }
    TIMING void serverBackInTime();
    void renewalFails_data();
    TIMING void renewalFails();
    TIMING void handedOver();
    TIMING void noRenew();

    void takenAway_data();
    void takenAway();
    void takenAwayFromStubbornChild();
    void childrenFromBefore();
    TIMING void childrenFromBeforeAndTheGuardian();
    void firstProcessOfAContainer();
    void oneOfSeveral();
    void leavesTheProcessorToOthers();
    void policyKill();
    void policyWarn();
    TIMING void policyWarnNotRenewed();
    void lostDescriptor();
    void lossCommand_data();
    void lossCommand();
    void lossCommandNotRenewed_data();
    TIMING void lossCommandNotRenewed();
    TIMING void standardErrorIsFull();
    void commandOfAnotherUser();
    void withoutProc_data();
    void withoutProc();
    void procOfAnotherNamespace();

private:
    static QHash<QString, QString> scripts();
    void serverStopped(int lives, int mostRounds);
    void stopServer(milliseconds after);
    /// Takes the lock away by \a command, and lets its holder notice that.
    void takeAway(const QList<QByteArray> &command);
    void policyWarn(const QString &lease, const std::function<void()> &takeAway);
    void lossCommand(const QString &policy, const QString &lease, const std::function<void()> &takeAway,
                     const QByteArray &reason);

    nanoseconds m_leastRest = nanoseconds::max();
    int m_lives = 0;
};

QHash<QString, QString> tst_RunLoss::scripts()
{
    const QString thenBeat = Beat + u"; true"_s; // the shell stays
    return {
            {u"child"_s, livingScript(QString(), u"exec "_s + Beat)},
            {u"ignores-term"_s, livingScript(u"trap '' TERM;"_s, u"exec "_s + Beat)},
            {u"grandchildren"_s, livingScript(u"%1 & (%1; true) &"_s.arg(Beat), thenBeat)},
            {u"grandchildren-ignore-term"_s,
             livingScript(u"(trap '' TERM; %1) & (trap '' TERM; %1; true) &"_s.arg(Beat), thenBeat)},
            {u"other-session"_s, livingScript(u"(trap '' TERM; setsid sh -c '%1 & %1') &"_s.arg(Beat), thenBeat)},
            {u"daemon"_s, livingScript(u"(setsid sh -c 'trap \"\" TERM; %1 & %1' &);"_s.arg(Beat), thenBeat)},
            {u"stopped"_s, livingScript(QString(), u"kill -STOP $$; "_s + thenBeat)},
            {u"all-of-them"_s,
             livingScript(u"(trap '' TERM; %1; true) & setsid %1 &"_s.arg(Beat), u"trap '' TERM; "_s + thenBeat)},
    };
}

/// So many commands must have ended in time. It takes more rounds only if the machine is so loaded that locks are lost
/// before the server is stopped.
void tst_RunLoss::serverStopped(int lives, int mostRounds)
{
    leavesRoomFor(reserveOf(StoppedLease));
    // At any moment between two renewals.
    QRandomGenerator random(1);
    int round = 0;
    m_lives = 0;
    for (; m_lives < lives && round < mostRounds; ++round) {
        stopServer(milliseconds(random.bounded(600)));
        if (QTest::currentTestFailed()) {
            qInfo("round %d", round);
            return;
        }
    }
    QVERIFY(m_lives >= lives);
    qInfo("%d lives in %d rounds; the last sign of life came %.1f ms before the end of the lock", m_lives, round,
          double(m_leastRest.count()) / 1e6);
}

/// Stops the server while each script runs under a lock. The test fails if one of them outlives its lock.
void tst_RunLoss::stopServer(milliseconds after)
{
    struct Holder
    {
        QString name;
        Lifeline lifeline;
        std::unique_ptr<Program> program;
        nanoseconds expiry{0};
    };
    std::vector<std::unique_ptr<Holder>> holders;
    const QHash<QString, QString> all = scripts();
    for (auto it = all.cbegin(); it != all.cend(); ++it) {
        auto holder = std::make_unique<Holder>();
        holder->name = it.key();
        holder->program = std::make_unique<Program>(
                setup(&holder->lifeline),
                QStringList{u"run"_s, u"--lease"_s, u"%1ms"_s.arg(StoppedLease.count()), it.key(), u"-c"_s, *it});
        holders.push_back(std::move(holder));
    }
    for (const auto &holder : holders) {
        const auto hasBegun = [&] { return holder->lifeline.bytes() > 0 || holder->program->status() == 79; };
        QVERIFY2(eventually(hasBegun), (holder->name.toUtf8() + ": " + holder->program->errors()).constData());
    }
    const nanoseconds stopAt = bootTime() + after;
    QVERIFY(eventually([&] { return bootTime() >= stopAt; }));
    QList<QByteArray> keys;
    for (const auto &holder : holders)
        keys += "lock:" + holder->name.toUtf8();
    const QList<nanoseconds> ends = freeze(m_server, keys);
    for (size_t i = 0; i < holders.size(); ++i)
        holders[i]->expiry = ends[qsizetype(i)];
    for (const auto &holder : holders) {
        const int status = holder->program->waitForStatus();
        QVERIFY2(status == 79,
                 qPrintable(u"%1: %2"_s.arg(holder->name).arg(status) + u' '
                            + QString::fromUtf8(holder->program->errors())));
        if (holder->lifeline.bytes() == 0 || holder->expiry == 0ns)
            continue; // its lock was lost before
        QVERIFY2(eventually([&] { return holder->lifeline.hasEnded(); }), qPrintable(holder->name));
        const nanoseconds rest = holder->expiry - holder->lifeline.lastBeat();
        QVERIFY2(rest > 0ns,
                 qPrintable(u"%1 outlived its lock by %2 us"_s.arg(holder->name).arg(-rest.count() / 1000)));
        m_leastRest = std::min(m_leastRest, rest);
        ++m_lives;
        const QByteArray errors = holder->program->errors();
        QVERIFY2(errors.contains("was not renewed in time") && errors.contains("; the command "), errors.constData());
        QVERIFY2(errors.count('\n') <= 2, errors.constData()); // at risk, and lost
    }
    thaw(m_server);
    for (const auto &holder : holders)
        QCOMPARE(run(setup(), {u"run"_s, holder->name, u"true"_s}).status, 0);
}

void tst_RunLoss::serverBackInTime()
{
    leavesRoomFor(400ms);
    // Half a second between the line, after two thirds of the lease, and SIGTERM.
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, u"3s"_s, u"--kill-after"_s, u"100ms"_s, u"job"_s, u"-c"_s,
                     livingScript(QString(), u"exec cat"_s)});
    // The key alone would not do: the server could be stopped before it has sent the reply.
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    m_server.pause();
    QVERIFY2(program.waitForErrors("could not be renewed yet"), program.errors().constData()); // two thirds have passed
    m_server.resume();
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before; }));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunLoss::renewalFails_data()
{
    addColumns<QStringList, QByteArray>("options", "output");
    // The child prints the time of SIGTERM, and dies of SIGKILL.
    QTest::newRow("term") << QStringList() << QByteArray("term\n");
    QTest::newRow("kill") << QStringList{u"--on-lost"_s, u"kill"_s} << QByteArray();
}

void tst_RunLoss::renewalFails()
{
    QFETCH(QStringList, options);
    QFETCH(QByteArray, output);
    leavesRoomFor(200ms);
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    QStringList{u"run"_s, u"--lease"_s, u"800ms"_s, u"--kill-after"_s, u"250ms"_s} + options
                            + QStringList{u"job"_s, u"-c"_s,
                                          livingScript(u"trap 'echo term' TERM;"_s,
                                                       u"while :; do sleep 100 & wait $!; done"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    m_server.pause();
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79);
    QCOMPARE(program.output(), output);
}

void tst_RunLoss::handedOver()
{
    // Until its first renewal, the lease of a lock that was handed over is shorter than --kill-after.
    leavesRoomFor(1s);
    Program holder(setup(), {u"run"_s, u"job"_s, u"cat"_s});
    QVERIFY(eventually([this] { return m_server.exists("lock:job"); }));
    Program waiter(setup(), {u"run"_s, u"job"_s, u"-c"_s, u"trap 'echo term' TERM; echo started; cat"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    holder.closeWriteChannel();
    QCOMPARE(holder.waitForStatus(), 0);
    QVERIFY(waiter.waitForOutput("started\n"));
    QVERIFY(eventually([this] { return m_server.pttl("lock:job") > 10000; })); // renewed
    waiter.closeWriteChannel();
    QCOMPARE(waiter.waitForStatus(), 0);
    QCOMPARE(waiter.output(), "started\n"_ba);
}

void tst_RunLoss::noRenew()
{
    leavesRoomFor(reserveOf(1s));
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--no-renew"_s, u"--lease"_s, u"1s"_s, u"job"_s, u"-c"_s,
                     livingScript(QString(), u"exec "_s + Beat)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    const nanoseconds expiry = expiries(m_server, {"lock:job"}).first();
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79);
    QVERIFY(lifeline.lastBeat() < expiry);
    QVERIFY2(program.errors().contains("--no-renew"), program.errors().constData());
    QVERIFY(!m_server.exists("lock:job")); // not only expired, but released
}

void tst_RunLoss::takeAway(const QList<QByteArray> &command)
{
    m_server.command(command);
    reconnectAll(m_server);
}

void tst_RunLoss::takenAway_data()
{
    QTest::addColumn<QList<QByteArray>>("command"); // empty = qdistlock release --force
    addColumns<QByteArray, QByteArray>("left", "text");
    QTest::newRow("deleted") << QList<QByteArray>{"DEL", "lock:job"} << QByteArray() << QByteArray("deleted");
    QTest::newRow("stolen") << QList<QByteArray>{"SET", "lock:job", "other", "PX", "60000"} << QByteArray("other")
                            << QByteArray("`qdistlock show`");
    QTest::newRow("by force") << QList<QByteArray>() << QByteArray() << QByteArray("`qdistlock release --force`");
}

void tst_RunLoss::takenAway()
{
    QFETCH(QList<QByteArray>, command);
    QFETCH(QByteArray, left);
    QFETCH(QByteArray, text);
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"job"_s, u"-c"_s, livingScript(u"sleep 100 &"_s, u"sleep 100; true"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    if (command.isEmpty())
        QCOMPARE(run(setup(), {u"release"_s, u"job"_s, u"--force"_s, u"--yes"_s}).status, 0);
    else
        takeAway(command);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79);
    // One line: what has happened, and what becomes of the command.
    const QByteArray errors = program.errors();
    QVERIFY2(errors.startsWith("qdistlock run: lock \"job\" on ") && errors.contains("it was lost"),
             errors.constData());
    QVERIFY2(errors.contains(text) && errors.contains("; the command is ended: by SIGTERM"), errors.constData());
    QVERIFY2(errors.count('\n') == 1 && !errors.contains("::"), errors.constData());
    QCOMPARE(m_server.get("lock:job"), left);
}

void tst_RunLoss::takenAwayFromStubbornChild()
{
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--kill-after"_s, u"300ms"_s, u"job"_s, u"-c"_s,
                     livingScript(u"trap '' TERM;"_s, u"sleep 100; true"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    takeAway({"DEL", "lock:job"});
    QVERIFY(program.waitForErrors("it was lost"));
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79);
}

void tst_RunLoss::childrenFromBefore()
{
    // The shell starts two processes and then becomes qdistlock. They do not belong to the command: one of them still
    // has to log what the command says at its end.
    const QTemporaryDir folder; // QProcess reads nothing more from a pipe once its own process has ended
    const QString log = folder.filePath(u"log"_s);
    Program::Setup bash = setup();
    bash.program = u"bash"_s;
    bash.environment.append({u"LOG"_s, log});
    const auto isLogged = [&log](const QByteArray &line) {
        QFile file(log);
        return file.open(QIODevice::ReadOnly) && file.readAll().contains("logged " + line + '\n');
    };
    Program program(bash,
                    {u"-c"_s,
                     u"sleep 100 <&- >&- 2>&- & echo sidecar=$!;"
                     " exec > >(while read -r line; do echo logged $line; done >\"$LOG\");"
                     " exec %1 %2 run --lease 1h job sh -c 'trap \"echo last words; exit\" TERM; echo ready;"
                     " while :; do sleep 1; done'"_s.arg(QStringLiteral(QDISTLOCK), Patiently)});
    QVERIFY(eventually([&] { return isLogged("ready"); }));
    const qint64 sidecar = program.numberIn("sidecar");
    takeAway({"DEL", "lock:job"});
    QCOMPARE(program.waitForStatus(), 79);
    QVERIFY(eventually([&] { return isLogged("last words"); }));
    QVERIFY(isAlive(sidecar));
    ::kill(pid_t(sidecar), SIGKILL);
}

void tst_RunLoss::childrenFromBeforeAndTheGuardian()
{
    leavesRoomFor(1300ms); // it must be stopped before the lease ends
    Lifeline lifeline;
    Program::Setup bash = setup(&lifeline);
    bash.program = u"bash"_s;
    Program program(bash,
                    {u"-c"_s,
                     u"sleep 100 <&- >&- 2>&- & echo sidecar=$!; exec %1 %2 run --lease 2s job -c '%3'"_s.arg(
                             QStringLiteral(QDISTLOCK), Patiently,
                             livingScript(u"setsid sleep 100 &"_s, u"exec sleep 100"_s))});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    program.sendSignal(SIGSTOP);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    program.sendSignal(SIGCONT);
    QCOMPARE(program.waitForStatus(), 79);
    const qint64 sidecar = program.numberIn("sidecar");
    QVERIFY(isAlive(sidecar));
    ::kill(pid_t(sidecar), SIGKILL);
}

void tst_RunLoss::firstProcessOfAContainer()
{
    // Each orphan becomes its child, also its guardian.
    if (TestProgram trial(u"unshare"_s, {u"--pid"_s, u"--fork"_s, u"--mount-proc"_s, u"true"_s});
        !trial.waitForEnd() || trial.exitCode() != 0)
        QSKIP("Needs the right to create a PID namespace: only in a new one can this test start a program as process "
              "1.");
    Lifeline lifeline;
    Program::Setup container = setup(&lifeline);
    container.program = u"unshare"_s;
    Program program(container,
                    {u"--pid"_s, u"--fork"_s, u"--mount-proc"_s, QStringLiteral(QDISTLOCK), Patiently, u"run"_s,
                     u"--lease"_s, u"1h"_s, u"--kill-after"_s, u"10m"_s, u"job"_s, u"-c"_s,
                     livingScript(QString(), u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    takeAway({"DEL", "lock:job"});
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79); // nobody is left
}

void tst_RunLoss::oneOfSeveral()
{
    Lifeline lifeline;
    Program program(setup(&lifeline), {u"run"_s, u"a,b"_s, u"-c"_s, livingScript(QString(), u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    takeAway({"DEL", "lock:b"});
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79);
    QVERIFY2(program.errors().contains("\"b\""), program.errors().constData());
    QCOMPARE(lockKeys(m_server), QList<QByteArray>()); // the other one was released
}

// If root has started `run`, the guardian runs before all ordinary processes. It must sleep once it has nothing to
// guard: otherwise `run` cannot use this processor, not even to end the guardian.
void tst_RunLoss::leavesTheProcessorToOthers()
{
    Program::Setup onOneProcessor = setup();
    onOneProcessor.inChild = [] {
        cpu_set_t processors;
        CPU_ZERO(&processors);
        ::sched_getaffinity(0, sizeof processors, &processors);
        for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&processors) > 1; ++i)
            CPU_CLR(i, &processors);
        ::sched_setaffinity(0, sizeof processors, &processors);
    };
    const auto used = [] { // by all processes that have ended
        rusage usage = {};
        ::getrusage(RUSAGE_CHILDREN, &usage);
        return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
                + std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    };
    const auto usedByRun = [&](int status, const std::function<void(Program *)> &end) {
        const auto before = used();
        Program program(onOneProcessor,
                        {u"run"_s, u"--on-lost"_s, u"kill"_s, u"job"_s, u"-c"_s, u"echo started; cat"_s});
        if (program.waitForOutput("started\n"))
            end(&program);
        [&] { QCOMPARE(program.waitForStatus(), status); }();
        return used() - before;
    };
    const auto released = usedByRun(0, [](Program *program) { program->closeWriteChannel(); });
    const auto lost = usedByRun(79, [this](Program *) { takeAway({"DEL", "lock:job"}); });
    QVERIFY2(lost < released + 400ms, qPrintable(u"%1 and %2 us"_s.arg(lost.count()).arg(released.count())));
}

void tst_RunLoss::policyKill()
{
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--on-lost"_s, u"kill"_s, u"job"_s, u"-c"_s,
                     livingScript(u"trap 'echo term' TERM; sleep 100 &"_s, u"wait; sleep 100; true"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    takeAway({"DEL", "lock:job"});
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79);
    QCOMPARE(program.output(), QByteArray());
}

void tst_RunLoss::policyWarn()
{
    policyWarn(u"30s"_s, [this] { takeAway({"DEL", "lock:job"}); });
}

void tst_RunLoss::policyWarnNotRenewed()
{
    leavesRoomFor(300ms);
    policyWarn(u"1s"_s, [this] { m_server.pause(); });
}

void tst_RunLoss::policyWarn(const QString &lease, const std::function<void()> &takeAway)
{
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, lease, u"--on-lost"_s, u"warn"_s, u"job"_s, u"-c"_s,
                     livingScript(QString(), u"cat; echo done"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    takeAway();
    QVERIFY2(program.waitForErrors("the command goes on without the lock"), program.errors().constData());
    QVERIFY2(!program.errors().contains(".;") && program.errors().count('\n') <= 2, program.errors().constData());
    QVERIFY(!lifeline.hasEnded());
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 79);
    QCOMPARE(program.output(), "done\n"_ba);
}

void tst_RunLoss::lostDescriptor()
{
    Program program(setup(),
                    {u"run"_s, u"--on-lost"_s, u"warn"_s, u"job"_s, u"-c"_s,
                     u"echo ready; cat <&$QDISTLOCK_LOST_FD; echo lost"_s});
    QVERIFY(program.waitForOutput("ready\n"));
    takeAway({"DEL", "lock:job"});
    QCOMPARE(program.waitForStatus(), 79);
    QCOMPARE(program.output(), "ready\nlost\n"_ba);
}

void tst_RunLoss::lossCommand_data()
{
    addColumns<QByteArray, QByteArray, QString>("action", "reason", "policy");
    QTest::newRow("deleted") << QByteArray("DEL lock:job") << QByteArray("deleted") << u"term"_s;
    QTest::newRow("stolen") << QByteArray("SET lock:job other PX 60000") << QByteArray("stolen") << u"term"_s;
    QTest::newRow("deleted, kill") << QByteArray("DEL lock:job") << QByteArray("deleted") << u"kill"_s;
}

void tst_RunLoss::lossCommand()
{
    QFETCH(QByteArray, action);
    QFETCH(QByteArray, reason);
    QFETCH(QString, policy);
    lossCommand(
            policy, u"30s"_s, [&] { takeAway(action.split(' ')); }, reason);
}

void tst_RunLoss::lossCommandNotRenewed_data()
{
    QTest::addColumn<QString>("policy");
    for (const QString &policy : {u"term"_s, u"kill"_s})
        QTest::newRow(qPrintable(policy)) << policy;
}

void tst_RunLoss::lossCommandNotRenewed()
{
    QFETCH(QString, policy);
    leavesRoomFor(300ms);
    lossCommand(
            policy, u"1s"_s, [this] { m_server.pause(); }, "lease-expired");
}

void tst_RunLoss::lossCommand(const QString &policy, const QString &lease, const std::function<void()> &takeAway,
                              const QByteArray &reason)
{
    Lifeline lifeline;
    // Longer than the child lives.
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, lease, u"--on-lost"_s, policy, u"--on-lost-exec"_s,
                     u"sleep 0.3; echo \"$QDISTLOCK_NAME $QDISTLOCK_LOST\""_s, u"job"_s, u"-c"_s,
                     livingScript(QString(), u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    takeAway();
    QCOMPARE(program.waitForStatus(), 79);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.output(), "job " + reason + '\n');
}

void tst_RunLoss::standardErrorIsFull()
{
    leavesRoomFor(reserveOf(800ms));
    // Nobody reads what the program has to say: it must not wait for that.
    int ends[2];
    QCOMPARE(::pipe(ends), 0);
    for (const int end : ends)
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const QByteArray filling(4096, '\n');
    while (::write(ends[1], filling.constData(), size_t(filling.size())) > 0) {
    }
    ::fcntl(ends[1], F_SETFL, 0);
    Lifeline lifeline;
    Program::Setup full = setup(&lifeline);
    full.inChild = [&] { ::dup2(ends[1], STDERR_FILENO); };
    Program program(full,
                    {u"run"_s, u"-v"_s, u"--lease"_s, u"800ms"_s, u"job"_s, u"-c"_s,
                     livingScript(u"trap '' TERM;"_s, u"exec "_s + Beat)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    const nanoseconds expiry = freeze(m_server, {"lock:job"}).first();
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 79);
    ::close(ends[0]);
    ::close(ends[1]);
    QVERIFY(lifeline.lastBeat() < expiry);
}

void tst_RunLoss::commandOfAnotherUser()
{
    // As sudo is: started by an ordinary user, who may not kill what it has become.
    if (::geteuid() != 0)
        QSKIP("Needs root: only root can create a program that becomes root when an ordinary user starts it.");
    QTemporaryDir folder;
    const QString becomesRoot = folder.filePath(u"setpriv"_s);
    QVERIFY(QFile::copy(u"/usr/bin/setpriv"_s, becomesRoot));
    QCOMPARE(::chmod(qPrintable(folder.path()), 0755), 0);
    QCOMPARE(::chmod(qPrintable(becomesRoot), 04755), 0);
    Lifeline lifeline; // which only root can open
    Program::Setup ordinaryUser = setup(&lifeline);
    ordinaryUser.server = m_server.tcpUrl().toEncoded();
    ordinaryUser.inChild = [] { [[maybe_unused]] const bool done = ::setgid(65534) == 0 && ::setuid(65534) == 0; };
    Program program(ordinaryUser,
                    {u"run"_s, u"--kill-after"_s, u"100ms"_s, u"job"_s, becomesRoot, u"--reuid=0"_s, u"sh"_s, u"-c"_s,
                     livingScript(u"echo pid=$$;"_s, u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0 || program.status() >= 0; }));
    if (program.status() >= 0)
        QSKIP("Needs a temporary folder on a file system without the mount option nosuid, which disables set-user-ID.");
    const qint64 id = program.numberIn("pid");
    takeAway({"DEL", "lock:job"});
    const bool hasEnded = program.waitForStatus() == 79;
    QVERIFY(isAlive(id));
    ::kill(pid_t(id), SIGKILL);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QVERIFY(hasEnded);
    QVERIFY2(program.errors().contains("another user") && program.errors().contains(QByteArray::number(id)),
             program.errors().constData());
    QCOMPARE(program.errors().count('\n'), 2); // lost, and this
}

void tst_RunLoss::withoutProc_data()
{
    QTest::addColumn<QStringList>("arguments"); // of run
    addColumns<QByteArray, bool>("output", "isFound");
    const QStringList inOtherSession{u"--kill-after"_s, u"100ms"_s, u"job"_s, u"-c"_s,
                                     u"setsid sh -c 'echo pid=$$; exec sleep 100' & sleep 100"_s};
    const QStringList inForeground{u"--lease"_s,
                                   u"1h"_s,
                                   u"--kill-after"_s,
                                   u"10m"_s,
                                   u"--foreground"_s,
                                   u"job"_s,
                                   QStringLiteral(SIGNALREPORTER)};
    QTest::newRow("has left the group") << inOtherSession << QByteArray() << false;
    QTest::newRow("has no group") << inForeground << QByteArray("signal 15\n") << true;
}

void tst_RunLoss::withoutProc()
{
    QFETCH(QStringList, arguments);
    QFETCH(QByteArray, output);
    QFETCH(bool, isFound);
    const QString hideProc = u"mount -t tmpfs none /proc"_s;
    if (TestProgram trial(u"unshare"_s, {u"--mount"_s, u"sh"_s, u"-c"_s, hideProc});
        !trial.waitForEnd() || trial.exitCode() != 0)
        QSKIP("Needs the right to create a mount namespace: this test hides /proc, which must stay visible outside.");
    Program::Setup hidden = setup();
    hidden.program = u"unshare"_s;
    Program program(hidden,
                    QStringList{u"--mount"_s, u"sh"_s, u"-c"_s, hideProc + u"; exec \"$@\""_s, u"sh"_s,
                                QStringLiteral(QDISTLOCK), Patiently, u"run"_s}
                            + arguments);
    const qint64 id = program.numberIn("pid");
    QVERIFY(id > 0);
    takeAway({"DEL", "lock:job"});
    QVERIFY2(program.waitForOutput(output), program.output().constData());
    program.closeWriteChannel();
    const bool hasEnded = program.waitForStatus() == 79;
    QCOMPARE(isAlive(id), !isFound);
    if (!isFound)
        ::kill(pid_t(id), SIGKILL);
    QVERIFY(hasEnded);
    QVERIFY2(program.errors().contains("/proc") != isFound, program.errors().constData());
}

void tst_RunLoss::procOfAnotherNamespace()
{
    // There, the numbers of the processes here are those of others.
    if (TestProgram trial(u"unshare"_s, {u"--pid"_s, u"--fork"_s, u"true"_s});
        !trial.waitForEnd() || trial.exitCode() != 0)
        QSKIP("Needs the right to create a PID namespace: the test runs in a new one, with the /proc of the old one.");
    Lifeline lifeline;
    Program::Setup container = setup(&lifeline);
    container.program = u"unshare"_s;
    Program program(container,
                    {u"--pid"_s, u"--fork"_s, u"--kill-child"_s, QStringLiteral(QDISTLOCK), Patiently, u"run"_s,
                     u"--on-lost"_s, u"kill"_s, u"job"_s, u"-c"_s,
                     livingScript(u"setsid sleep 1000 &"_s, u"exec sleep 1000"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    takeAway({"DEL", "lock:job"});
    QCOMPARE(program.waitForStatus(), 79);
    QVERIFY2(program.errors().contains("/proc"), program.errors().constData());
    QVERIFY(eventually([&] { return lifeline.hasEnded(); })); // with the first process of its namespace
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_RunLoss)
#include "tst_runloss.moc"
