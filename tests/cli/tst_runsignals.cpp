// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock run` and signals: those that are passed on, those of a terminal, and those that end qdistlock itself.

#include "clitest.h"

#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qdir.h>
#include <QtCore/qfile.h>
#include <QtCore/qhash.h>

#include <memory>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using namespace Support;

namespace {

QByteArray signalLine(int number)
{
    return "signal " + QByteArray::number(number).rightJustified(2, '0') + '\n';
}

QByteArray contentOf(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

/// The process that watches over the `qdistlock run` with \a lifeline; 0 if there is none.
pid_t guardianOf(const Lifeline &lifeline)
{
    const QStringList ids = QDir(u"/proc"_s).entryList({u"[1-9]*"_s}, QDir::Dirs);
    for (const QString &id : ids) {
        if (contentOf(u"/proc/%1/comm"_s.arg(id)) == "qdl-guardian\n"
            && contentOf(u"/proc/%1/environ"_s.arg(id)).contains(lifeline.path().toUtf8()))
            return id.toInt();
    }
    return 0;
}

/// The time left on the timer of process \a id, rounded down; 0 if it has none or it has run out.
int secondsOfTimer(pid_t id)
{
    const QString folder = u"/proc/%1/fdinfo"_s.arg(id);
    const QStringList descriptors = QDir(folder).entryList(QDir::Files);
    for (const QString &descriptor : descriptors) {
        const QByteArray text = contentOf(folder + u'/' + descriptor);
        const qsizetype at = text.indexOf("it_value: (");
        if (at >= 0)
            return text.mid(at + 11, text.indexOf(',', at) - at - 11).toInt();
    }
    return 0;
}

} // namespace

class tst_RunSignals : public ServerTest
{
    Q_OBJECT
private Q_SLOTS:
    void forwarded_data()
    {
        addRows<QList<int>>(
                "numbers",
                {{"of A3",
                  QList<int>{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGALRM, SIGWINCH, SIGTSTP}},
                 {"others", QList<int>{SIGVTALRM, SIGPROF, SIGURG, SIGIO, SIGPWR}},
                 {"real-time", QList<int>{SIGRTMIN, SIGRTMIN + 1, SIGRTMAX}}});
    }
    void forwarded();
    void toTheWholeGroup();
    void childDecides();
    void stoppedAndContinued() { stopAndContinue(u"30s"_s, 0); }
    void stoppedAndEnded();
    TIMING void renewedWhileStopped();
    void killed_data();
    void killed();
    void killedWithOtherSessions_data();
    TIMING void killedWithOtherSessions();
    void killedWithPolicyKeep();
    TIMING void stoppedPastTheLease();
    TIMING void guardianOfAStoppedProcess();
    TIMING void killedBetweenTwoLooks();
    TIMING void guardianWithAnOldOrder();
    TIMING void guardianWithALateOrder();
    TIMING void lossCommandAndTheGuardian();
    void guardianIsGone();
    void guardianIsMadeAgain_data()
    {
        addRows<bool>("isKilled", {{"qdistlock is killed", true}, {"the lock is lost", false}});
    }
    void guardianIsMadeAgain();
    void guardianCannotBeMadeAgain();

    void terminalInterrupt();
    void terminalSize();
    void terminalStop();
    void redirectedOnTerminal_data();
    void redirectedOnTerminal();
    void stoppedCommandOnTerminal();
    TIMING void terminalStopPastTheLease();
    void terminalSettings();
    void terminalOfAKilledShell();
    void terminalGoesAway();
    void signalOfTheKernel();
    void terminalInTheBackground();
    void backgroundGroupOnTerminal();
    void progressOnTerminal();

private:
    using ServerTest::setup;
    Program::Setup setup(const Terminal &terminal) const
    {
        Program::Setup result = setup();
        result.environment = {{u"TERM"_s, u"xterm"_s}};
        result.inChild = [&terminal] { terminal.attach(); };
        return result;
    }

    /// A shell with job control.
    Program::Setup shell(const Terminal &terminal) const
    {
        Program::Setup result = setup(terminal);
        result.program = u"bash"_s;
        return result;
    }

    void stopAndContinue(const QString &lease, int renewals);
};

void tst_RunSignals::forwarded()
{
    QFETCH(QList<int>, numbers);
    Program program(setup(), {u"run"_s, u"job"_s, QStringLiteral(SIGNALREPORTER)});
    QVERIFY(program.waitForOutput("ready\n"));
    QByteArray expected = program.output();
    for (const int number : numbers) {
        program.sendSignal(number);
        expected += signalLine(number);
        QVERIFY2(program.waitForOutput(expected), qPrintable(QString::number(number)));
    }
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    QCOMPARE(program.output(), expected); // each once
}

void tst_RunSignals::toTheWholeGroup()
{
    Lifeline lifeline;
    Program program(
            setup(&lifeline),
            {u"run"_s, u"job"_s, u"-c"_s, livingScript(u"sleep 100 & sleep 100 & (sleep 100; true) &"_s, u"wait"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    program.sendSignal(SIGTERM);
    QCOMPARE(program.waitForStatus(), 128 + SIGTERM);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
}

void tst_RunSignals::childDecides()
{
    Program program(setup(), {u"run"_s, u"job"_s, QStringLiteral(SIGNALREPORTER)});
    QVERIFY(program.waitForOutput("ready\n"));
    program.sendSignal(SIGTERM);
    QVERIFY(program.waitForOutput(signalLine(SIGTERM)));
    QVERIFY(m_server.exists("lock:job")); // as long as the child has not ended
    program.sendSignal(SIGINT);
    QVERIFY(program.waitForOutput(signalLine(SIGINT)));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
}

// A stopped command reacts to SIGTERM only when it is continued. Its lock would be renewed for ever meanwhile.
// Therefore qdistlock sends SIGCONT after SIGTERM, like systemd and timeout.
void tst_RunSignals::stoppedAndEnded()
{
    Program program(setup(), {u"run"_s, u"job"_s, u"sh"_s, u"-c"_s, u"echo pid=$$; sleep 100 & wait"_s});
    QVERIFY(program.waitForOutput("\n"));
    const auto id = pid_t(program.numberIn("pid"));
    QVERIFY(id > 0);
    ::kill(-id, SIGSTOP);
    QVERIFY(eventually([&] { return processState(id) == 'T'; }));
    program.sendSignal(SIGTERM);
    QCOMPARE(program.waitForStatus(), 128 + SIGTERM);
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_RunSignals::renewedWhileStopped()
{
    leavesRoomFor(600ms);        // two thirds of the lease
    stopAndContinue(u"1s"_s, 6); // for two leases
}

void tst_RunSignals::stopAndContinue(const QString &lease, int renewals)
{
    Program program(
            setup(),
            {u"run"_s, u"--lease"_s, lease, u"job"_s, QStringLiteral(SIGNALREPORTER), QString::number(SIGTSTP)});
    QVERIFY(program.waitForOutput("ready\n"));
    const qint64 id = program.numberIn("pid");
    QCOMPARE(program.numberIn("group"), id);
    program.sendSignal(SIGTSTP);
    QVERIFY(eventually([&] { return processState(id) == 'T'; }));
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(eventually([&] { return renewals == 0 || m_server.commandsProcessed("evalsha") > before + renewals; }));
    QVERIFY(m_server.exists("lock:job"));
    QCOMPARE(processState(id), 'T');
    program.sendSignal(SIGCONT);
    QVERIFY(program.waitForOutput(signalLine(SIGCONT)));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::killed_data()
{
    addColumns<QStringList, QString>("options", "script");
    QTest::newRow("child") << QStringList() << livingScript(QString(), u"exec sleep 100"_s);
    QTest::newRow("grandchildren") << QStringList()
                                   << livingScript(u"sleep 100 & (sleep 100; true) &"_s, u"sleep 100; true"_s);
    QTest::newRow("ignores SIGTERM") << QStringList{u"--kill-after"_s, u"200ms"_s}
                                     << livingScript(u"trap '' TERM; sleep 100 &"_s, u"sleep 100; true"_s);
    QTest::newRow("kill") << QStringList{u"--orphan"_s, u"kill"_s}
                          << livingScript(u"trap '' TERM; sleep 100 &"_s, u"sleep 100; true"_s);
    QTest::newRow("stopped child") << QStringList{u"--orphan"_s, u"kill"_s}
                                   << livingScript(QString(), u"kill -STOP $$; sleep 100"_s);
}

void tst_RunSignals::killed()
{
    QFETCH(QStringList, options);
    QFETCH(QString, script);
    Lifeline lifeline;
    // With a lease that no pause of the machine ends.
    Program program(setup(&lifeline),
                    QStringList{u"run"_s, u"--lease"_s, u"1h"_s} + options + QStringList{u"job"_s, u"-c"_s, script});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    program.sendSignal(SIGKILL);
    const nanoseconds killedAt = bootTime();
    const nanoseconds expiry = expiries(m_server, {"lock:job"}).first();
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QVERIFY(lifeline.endedAt() < expiry);
    qInfo("gone after %.1f ms", double((lifeline.endedAt() - killedAt).count()) / 1e6);
}

void tst_RunSignals::killedWithOtherSessions_data()
{
    QTest::addColumn<QString>("start");
    QTest::newRow("descendants") << u"(trap '' TERM; setsid sh -c '%1 & %1') &"_s.arg(Beat);
    QTest::newRow("daemon") << u"(trap '' TERM; setsid sh -c '%1 & %1' &);"_s.arg(Beat); // nobody's descendants
}

void tst_RunSignals::killedWithOtherSessions()
{
    // When the command ends, nobody can tell any more whom it has started. The guardian has learned it at a renewal.
    QFETCH(QString, start);
    leavesRoomFor(150ms);
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, u"3s"_s, u"job"_s, u"-c"_s, livingScript(start, u"sleep 100; true"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0 && lifeline.lastBeat() > 0ns; }));
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before + 1; }));
    program.sendSignal(SIGKILL);
    QVERIFY(program.waitForEnd());
    const nanoseconds expiry = expiries(m_server, {"lock:job"}).first();
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QVERIFY(lifeline.lastBeat() < expiry);
}

void tst_RunSignals::killedWithPolicyKeep()
{
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--orphan"_s, u"keep"_s, u"job"_s, u"-c"_s,
                     livingScript(u"echo pid=$$;"_s, u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    const qint64 id = program.numberIn("pid");
    program.sendSignal(SIGKILL);
    QVERIFY(program.waitForEnd());
    QVERIFY(!eventually([&] { return lifeline.hasEnded(); }, 200ms));
    QVERIFY(isAlive(id));
    ::kill(pid_t(id), SIGKILL);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
}

void tst_RunSignals::stoppedPastTheLease()
{
    leavesRoomFor(150ms);
    const QHash<QString, QString> scripts{
            {u"child"_s, livingScript(QString(), u"exec "_s + Beat)},
            {u"grandchildren"_s, livingScript(u"trap '' TERM; %1 & (%1; true) &"_s.arg(Beat), u"%1; true"_s.arg(Beat))},
            {u"other-session"_s, livingScript(u"setsid %1 &"_s.arg(Beat), u"%1; true"_s.arg(Beat))},
    };
    std::vector<std::unique_ptr<Lifeline>> lifelines;
    std::vector<std::unique_ptr<Program>> programs;
    for (auto it = scripts.cbegin(); it != scripts.cend(); ++it) {
        lifelines.push_back(std::make_unique<Lifeline>());
        programs.push_back(std::make_unique<Program>(
                setup(lifelines.back().get()), QStringList{u"run"_s, u"--lease"_s, u"3s"_s, it.key(), u"-c"_s, *it}));
    }
    const QStringList names = scripts.keys();
    QList<nanoseconds> ends;
    for (size_t i = 0; i < programs.size(); ++i) {
        QVERIFY(eventually([&] { return lifelines.at(i)->bytes() > 0; }));
        programs.at(i)->sendSignal(SIGSTOP);
        QVERIFY(eventually([&] { return processState(programs.at(i)->processId()) == 'T'; }));
        // A renewal that is still under way can only make it end later.
        ends += expiries(m_server, {"lock:" + names.at(qsizetype(i)).toUtf8()});
    }
    for (size_t i = 0; i < programs.size(); ++i) {
        QVERIFY(ends.at(qsizetype(i)) > 0ns);
        QVERIFY(eventually([&] { return lifelines.at(i)->hasEnded(); }));
        const nanoseconds rest = ends.at(qsizetype(i)) - lifelines.at(i)->lastBeat();
        QVERIFY2(rest > 0ns, qPrintable(u"%1: %2 us too late"_s.arg(names.at(qsizetype(i))).arg(-rest.count() / 1000)));
        qInfo("%ls: the last sign of life came %.1f ms before the end of the lock",
              qUtf16Printable(names.at(qsizetype(i))), double(rest.count()) / 1e6);
        programs.at(i)->sendSignal(SIGCONT);
        QCOMPARE(programs.at(i)->waitForStatus(), 79);
    }
}

void tst_RunSignals::guardianOfAStoppedProcess()
{
    // The killed child remains as a zombie while its parent is stopped. Hundreds of guardians that asked for it a
    // hundred times a second, before every ordinary process, have kept a machine from all other work.
    leavesRoomFor(1900ms); // it must be stopped before the lease ends
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, u"3s"_s, u"job"_s, u"-c"_s, livingScript(QString(), u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    const pid_t guardian = guardianOf(lifeline);
    QVERIFY(guardian > 0);
    program.sendSignal(SIGSTOP);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QVERIFY(eventually([&] { return secondsOfTimer(guardian) >= 1; })); // waits longer each time
    QCOMPARE(::sched_getscheduler(guardian), SCHED_OTHER);
    program.sendSignal(SIGCONT);
    QCOMPARE(program.waitForStatus(), 79);
    QVERIFY(eventually([&] { return !isAlive(guardian); }));
}

void tst_RunSignals::killedBetweenTwoLooks()
{
    // The guardian kills the command while qdistlock, which is late, is about to look at it for the first, the second…
    // time. That is never the command's own end.
    leavesRoomFor(1200ms); // it must be held before the lease ends
    struct Holder
    {
        Lifeline lifeline;
        std::unique_ptr<Program> program;
        std::unique_ptr<Tracer> tracer;
    };
    std::vector<std::unique_ptr<Holder>> holders;
    for (int looks = 1; looks <= 3; ++looks) {
        holders.push_back(std::make_unique<Holder>());
        Holder &holder = *holders.back();
        holder.program = std::make_unique<Program>(setup(&holder.lifeline),
                                                   QStringList{u"run"_s, u"--lease"_s, u"2s"_s, u"--on-lost-exec"_s,
                                                               u"echo $QDISTLOCK_LOST"_s, u"job%1"_s.arg(looks),
                                                               u"-c"_s, livingScript(QString(), u"exec sleep 100"_s)});
        QVERIFY(eventually([&] { return holder.lifeline.bytes() > 0; }));
        holder.tracer = std::make_unique<Tracer>(holder.program->processId());
        if (!holder.tracer->isAttached())
            QSKIP("Needs the right to trace a process with ptrace(): this test holds one between two system calls.");
        holder.program->sendSignal(SIGWINCH); // lets it look
        int seen = 0;
        QVERIFY(holder.tracer->runTo([&](const Tracer::Call &call) {
            const bool isWait = call.entry.nr == SYS_waitid || call.entry.nr == SYS_wait4;
            return call.op == PTRACE_SYSCALL_INFO_ENTRY && isWait && ++seen == looks;
        }));
    }
    for (const auto &holder : holders) {
        QVERIFY(eventually([&] { return holder->lifeline.hasEnded(); }));
        holder->tracer->release();
        QCOMPARE(holder->program->waitForStatus(), 79);
        QCOMPARE(holder->program->output(), "lease-expired\n"_ba);
        QVERIFY2(holder->program->errors().contains("was not renewed in time"), holder->program->errors().constData());
    }
}

void tst_RunSignals::guardianWithAnOldOrder()
{
    // It has looked for orders, finds no time to go on, and the lock is renewed meanwhile.
    leavesRoomFor(700ms); // from a renewal to the end of the command
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, u"2s"_s, u"job"_s, u"-c"_s, livingScript(QString(), u"exec cat"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    Tracer tracer(guardianOf(lifeline));
    if (!tracer.isAttached())
        QSKIP("Needs the right to trace a process with ptrace(): this test holds one between two of its steps.");
    const auto hasNoMoreOrders = [](const Tracer::Call &call) {
        return call.op == PTRACE_SYSCALL_INFO_EXIT && call.exit.rval == -EAGAIN;
    };
    QVERIFY(tracer.runTo(hasNoMoreOrders));
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before + 3; })); // for more than a lease
    QVERIFY(tracer.runTo(hasNoMoreOrders));                                                  // it has judged by then
    tracer.release();
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::guardianWithALateOrder()
{
    // A new command writes an order to the guardian. Here it does so late: qdistlock has renewed the lock since.
    leavesRoomFor(700ms); // from a renewal to the end of the command
    Lifeline lifeline;
    m_server.pause();
    Program program(setup(&lifeline), {u"run"_s, u"--lease"_s, u"2s"_s, u"job"_s, u"cat"_s});
    QVERIFY(eventually([&] { return guardianOf(lifeline) > 0; }));
    Tracer tracer(program.processId());
    if (!tracer.isAttached())
        QSKIP("Needs the right to trace a process with ptrace(): this test holds one when it has just begun.");
    m_server.resume();
    const std::unique_ptr<Tracer> command = tracer.runToFork();
    QVERIFY(command);
    tracer.release();
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(eventually([&] { return m_server.commandsProcessed("evalsha") > before + 3; })); // for more than a lease
    command->release();
    program.write("alive\n");
    QVERIFY(eventually([&] { return program.output() == "alive\n" || program.status() >= 0; }));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::lossCommandAndTheGuardian()
{
    // The guardian kills all others when qdistlock has only just started the command of --on-lost-exec.
    leavesRoomFor(1200ms); // it must be traced before the lease ends
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, u"2s"_s, u"--on-lost"_s, u"kill"_s, u"--on-lost-exec"_s,
                     u"cat; echo $QDISTLOCK_LOST"_s, u"job"_s, u"-c"_s, livingScript(QString(), u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    const pid_t guardian = guardianOf(lifeline);
    Tracer tracer(program.processId());
    if (!tracer.isAttached())
        QSKIP("Needs the right to trace a process with ptrace(): this test holds one between two system calls.");
    m_server.pause();
    const std::unique_ptr<Tracer> lossCommand = tracer.runToFork();
    QVERIFY(lossCommand);
    QVERIFY(eventually([&] { return secondsOfTimer(guardian) >= 1; })); // it has killed all it has found
    lossCommand->release();
    tracer.release();
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 79);
    QCOMPARE(program.output(), "lease-expired\n"_ba);
}

void tst_RunSignals::guardianIsGone()
{
    // Somebody has killed every process whose command line mentions qdistlock; the kernel ends the child.
    Lifeline lifeline;
    const QString name = u"guardian-%1"_s.arg(QCoreApplication::applicationPid());
    Program program(setup(&lifeline), {u"run"_s, name, u"-c"_s, livingScript(QString(), u"exec sleep 100"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    TestProgram list(u"pgrep"_s, {u"-f"_s, u" run %1 -c"_s.arg(name)});
    QVERIFY(list.waitForEnd());
    const QList<QByteArray> ids = list.output().simplified().split(' ');
    QVERIFY(ids.contains(QByteArray::number(program.processId())));
    QCOMPARE(ids.size(), 2);
    for (const QByteArray &id : ids)
        ::kill(pid_t(id.toInt()), SIGKILL);
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
}

void tst_RunSignals::guardianIsMadeAgain()
{
    QFETCH(bool, isKilled);
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, u"1h"_s, u"--kill-after"_s, u"200ms"_s, u"job"_s, u"-c"_s,
                     livingScript(u"trap '' TERM; sleep 100 &"_s, u"sleep 100; true"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    for (int i = 1; i <= (isKilled ? 1 : 2); ++i) {
        const pid_t guardian = guardianOf(lifeline);
        QVERIFY(guardian > 0);
        ::kill(guardian, SIGKILL);
        QVERIFY2(eventually([&] { return program.errors().count("guard") == i; }), program.errors().constData());
    }
    const pid_t guardian = guardianOf(lifeline);
    QVERIFY(guardian > 0);
    if (isKilled) {
        program.sendSignal(SIGKILL);
        QVERIFY(program.waitForEnd());
    } else {
        m_server.command({"DEL", "lock:job"});
        reconnectAll(m_server);
        QCOMPARE(program.waitForStatus(), 79); // the new one is not taken for a part of the command
        QCOMPARE(program.errors().count('\n'), 3);
    }
    QVERIFY(eventually([&] { return lifeline.hasEnded() && !isAlive(guardian); }));
}

void tst_RunSignals::guardianCannotBeMadeAgain()
{
    Lifeline lifeline;
    Program program(setup(&lifeline),
                    {u"run"_s, u"--lease"_s, u"1h"_s, u"--kill-after"_s, u"10m"_s, u"job"_s, u"-c"_s,
                     livingScript(u"trap 'echo term; exit' TERM;"_s, u"while :; do sleep 0.1 <&- 9>&-; done"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    const pid_t guardian = guardianOf(lifeline);
    QVERIFY(guardian > 0);
    // It has no descriptor left for a pipe to the new one.
    rlim_t free = 0;
    while (QFile::exists(u"/proc/%1/fd/%2"_s.arg(program.processId()).arg(free)))
        ++free;
    const rlimit limit{free, free};
    QCOMPARE(::prlimit(pid_t(program.processId()), RLIMIT_NOFILE, &limit, nullptr), 0);
    ::kill(guardian, SIGKILL);
    QCOMPARE(program.waitForStatus(), 70);
    QVERIFY2(program.errors().contains("guard") && program.errors().contains("by SIGTERM now"),
             program.errors().constData());
    QCOMPARE(program.output(), "term\n"_ba);
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_RunSignals::terminalInterrupt()
{
    Terminal terminal;
    Program program(setup(terminal), {u"run"_s, u"job"_s, QStringLiteral(SIGNALREPORTER)});
    QVERIFY(terminal.waitForOutput("ready\r\n"));
    terminal.write("\x03");
    QVERIFY(terminal.waitForOutput("signal 02\r\n"));
    terminal.write("\x1c");
    QVERIFY(terminal.waitForOutput("signal 03\r\n"));
    program.sendSignal(SIGTERM); // by then a second SIGINT would have been passed on
    QVERIFY(terminal.waitForOutput("signal 15\r\n"));
    QCOMPARE(terminal.output().count("signal 02"), 1);
    QCOMPARE(terminal.output().count("signal 03"), 1);
    terminal.write("\x04");
    QCOMPARE(program.waitForStatus(), 0);
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_RunSignals::terminalSize()
{
    Terminal terminal;
    Program program(setup(terminal), {u"run"_s, u"job"_s, QStringLiteral(SIGNALREPORTER)});
    QVERIFY(terminal.waitForOutput("ready\r\n"));
    terminal.setSize(100, 30);
    QVERIFY(terminal.waitForOutput("signal 28\r\n"));
    program.sendSignal(SIGTERM);
    QVERIFY(terminal.waitForOutput("signal 15\r\n"));
    QCOMPARE(terminal.output().count("signal 28"), 1);
    terminal.write("\x04");
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::terminalStop()
{
    // The job control of a shell.
    Terminal terminal;
    Program::Setup shell = setup(terminal);
    shell.program = u"sh"_s;
    Program program(shell,
                    {u"-c"_s,
                     u"set -m; %1 %2 run job %3 20; echo stopped=$?; fg; echo ended=$?"_s.arg(
                             QStringLiteral(QDISTLOCK), Patiently, QStringLiteral(SIGNALREPORTER))});
    QVERIFY(terminal.waitForOutput("ready\r\n"));
    terminal.write("\x1a");
    QVERIFY2(terminal.waitForOutput("stopped=148\r\n"), terminal.output().constData());
    QVERIFY2(terminal.waitForOutput("signal 18\r\n"), terminal.output().constData());
    QVERIFY(terminal.output().contains("stopped; lock \"job\" ends in "));
    terminal.write("\x04");
    QVERIFY2(terminal.waitForOutput("ended=0\r\n"), terminal.output().constData());
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::redirectedOnTerminal_data()
{
    QTest::addColumn<QString>("job");
    QTest::newRow("input from a pipe") << u"echo x | %1"_s;
    QTest::newRow("all redirected") << u"%1 </dev/null 2>/dev/null | (trap '' INT; cat)"_s;
}

void tst_RunSignals::redirectedOnTerminal()
{
    // A terminal that the command finds by itself, as ssh, sudo and less do.
    QFETCH(QString, job);
    Terminal terminal;
    const QString command = u"%1 %2 run job sh -c 'trap \"echo int >/dev/tty; exit 3\" INT; echo ready >/dev/tty;"
                            " read word </dev/tty; echo got=$word >/dev/tty; read word </dev/tty'"_s.arg(
                                    QStringLiteral(QDISTLOCK), Patiently);
    Program program(
            shell(terminal),
            {u"-c"_s, u"set -m -o pipefail; "_s + job.arg(command) + u"; echo shell again; fg; echo ended=$?"_s});
    QVERIFY2(terminal.waitForOutput("ready\r\n"), terminal.output().constData());
    terminal.write("\x1a");
    QVERIFY2(terminal.waitForOutput("shell again\r\n"), terminal.output().constData());
    terminal.write("word\n");
    QVERIFY2(terminal.waitForOutput("got=word\r\n"), terminal.output().constData());
    terminal.write("\x03");
    QVERIFY2(terminal.waitForOutput("int\r\n"), terminal.output().constData());
    QVERIFY2(terminal.waitForOutput("ended=3\r\n"), terminal.output().constData());
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::stoppedCommandOnTerminal()
{
    // Ctrl+Z gives the terminal back to the shell, whoever has stopped the command, and in whichever group it is.
    Terminal terminal;
    Program program(
            shell(terminal),
            {u"-c"_s,
             u"set -m; r() { %1 %2 run $1 job sh -c 'echo $N=$$; exec sleep 100'; };"
             " N=a r --background-group; echo first=$?; fg; echo second=$?; N=b r --foreground; echo third=$?"_s.arg(
                     QStringLiteral(QDISTLOCK), Patiently)});
    const auto numberIn = [&](const QByteArray &name) {
        QByteArray text;
        eventually([&] {
            text = terminal.output().mid(terminal.output().indexOf(name + '=') + name.size() + 1);
            return terminal.output().contains(name + '=') && text.contains('\r');
        });
        return text.left(text.indexOf('\r')).toInt();
    };
    const int id = numberIn("a");
    QVERIFY2(id > 0, terminal.output().constData());
    terminal.write("\x1a");
    QVERIFY2(terminal.waitForOutput("first=148\r\n"), terminal.output().constData());
    QVERIFY(eventually([&] { return processState(id) != 'T'; }));
    ::kill(id, SIGKILL);
    QVERIFY2(terminal.waitForOutput("second=137\r\n"), terminal.output().constData());
    const int next = numberIn("b");
    QVERIFY2(next > 0, terminal.output().constData());
    ::kill(next, SIGSTOP);
    QVERIFY(eventually([&] { return processState(next) == 'T'; }));
    terminal.write("\x1a");
    QVERIFY2(terminal.waitForOutput("third=148\r\n"), terminal.output().constData());
}

void tst_RunSignals::terminalStopPastTheLease()
{
    leavesRoomFor(1900ms); // it must be stopped before the lease ends
    Terminal terminal;
    Lifeline lifeline;
    Program::Setup bash = shell(terminal);
    bash.environment += lifeline.variable();
    Program program(
            bash,
            {u"-c"_s,
             u"set -m; %1 %2 run --lease 3s --on-lost-exec 'echo reason=$QDISTLOCK_LOST' job -c '%3';"
             " echo stopped=$?; read go; fg; echo ended=$?"_s.arg(
                     QStringLiteral(QDISTLOCK), Patiently, livingScript(QString(), u"echo ready; exec sleep 100"_s))});
    QVERIFY2(terminal.waitForOutput("ready\r\n"), terminal.output().constData());
    terminal.write("\x1a");
    QVERIFY2(terminal.waitForOutput("stopped=148\r\n"), terminal.output().constData());
    QVERIFY(eventually([&] { return lifeline.hasEnded(); })); // ended by the guardian
    terminal.write("go\n");
    QVERIFY2(terminal.waitForOutput("ended=79\r\n"), terminal.output().constData());
    QVERIFY2(terminal.output().contains("reason=lease-expired\r\n"), terminal.output().constData());
    QVERIFY2(terminal.output().contains("was not renewed in time"), terminal.output().constData());
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::terminalSettings()
{
    // A command that is killed cannot put them back; one that ends by itself may have changed them on purpose.
    Terminal terminal;
    Program::Setup sh = setup(terminal);
    sh.program = u"sh"_s;
    const QString command = u"%1 %2 run job sh -c "_s.arg(QStringLiteral(QDISTLOCK), Patiently);
    Program program(sh,
                    {u"-c"_s,
                     command + u"'stty raw -echo; kill -KILL $$'; echo first=$?; stty -a; echo; "_s + command
                             + u"'stty -echo'; echo second=$?; stty -a; echo end"_s});
    QVERIFY2(terminal.waitForOutput("end\r\n"), terminal.output().constData());
    const QByteArray killed = terminal.output().left(terminal.output().indexOf("second=0"));
    QVERIFY2(killed.contains("first=137\r\n"), terminal.output().constData());
    QVERIFY2(killed.contains(" icanon") && killed.contains(" echo "), terminal.output().constData());
    QVERIFY2(terminal.output().mid(killed.size()).contains("-echo "), terminal.output().constData());
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::terminalOfAKilledShell()
{
    // Job control has given the terminal to a process group that is killed.
    Terminal terminal;
    Program::Setup sh = setup(terminal);
    sh.program = u"sh"_s;
    const QString job = u"sh -c \"stty raw -echo; echo ready; exec sleep 1000\"; true"_s;
    Program program(
            sh,
            {u"-c"_s,
             u"%1 %2 run --on-lost kill job bash -mc '%3'; stty -a; echo shown; read line; echo got=$line"_s.arg(
                     QStringLiteral(QDISTLOCK), Patiently, job)});
    QVERIFY2(terminal.waitForOutput("ready"), terminal.output().constData());
    m_server.command({"DEL", "lock:job"});
    reconnectAll(m_server);
    QVERIFY2(terminal.waitForOutput("shown"), terminal.output().constData());
    QVERIFY2(terminal.output().contains(" icanon") && terminal.output().contains(" echo "),
             terminal.output().constData());
    terminal.write("hello\n");
    QVERIFY2(terminal.waitForOutput("got=hello\r\n"), terminal.output().constData());
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::terminalGoesAway()
{
    // When a terminal is closed, the kernel sends SIGHUP to the leader of the session only. In a session that was
    // started by `ssh -t HOST qdistlock run`, qdistlock is the leader.
    Lifeline lifeline;
    auto terminal = std::make_unique<Terminal>();
    Program::Setup leader = setup(*terminal);
    leader.environment.append(lifeline.variable());
    Program program(leader, {u"run"_s, u"job"_s, u"-c"_s, livingScript(QString(), u"exec sleep 1000"_s)});
    QVERIFY(eventually([&] { return lifeline.bytes() > 0; }));
    terminal.reset();
    QVERIFY(eventually([&] { return lifeline.hasEnded(); }));
    QCOMPARE(program.waitForStatus(), 128 + SIGHUP);
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_RunSignals::signalOfTheKernel()
{
    // Like that of alarm(), it reaches qdistlock alone, also on a terminal.
    Terminal terminal;
    Program program(setup(terminal), {u"run"_s, u"job"_s, QStringLiteral(SIGNALREPORTER)});
    QVERIFY(terminal.waitForOutput("ready\r\n"));
    int ends[2];
    QCOMPARE(::pipe2(ends, O_CLOEXEC), 0);
    QCOMPARE(::fcntl(ends[0], F_SETOWN, int(program.processId())), 0);
    QCOMPARE(::fcntl(ends[0], F_SETFL, O_ASYNC), 0);
    QCOMPARE(::write(ends[1], "x", 1), ssize_t(1)); // SIGIO
    QVERIFY(terminal.waitForOutput("signal 29\r\n"));
    ::close(ends[0]);
    ::close(ends[1]);
    terminal.write("\x04");
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::terminalInTheBackground()
{
    // The terminal belongs to the shell; messages must not stop the program that has a lock to renew.
    Terminal terminal;
    Program::Setup shell = setup(terminal);
    shell.program = u"sh"_s;
    Program program(shell,
                    {u"-c"_s,
                     u"stty tostop; set -m; %1 %2 run -v job true & wait $!; echo ended=$?"_s.arg(
                             QStringLiteral(QDISTLOCK), Patiently)});
    QVERIFY2(terminal.waitForOutput("ended=0\r\n"), terminal.output().constData());
    QVERIFY(terminal.output().contains("holding lock \"job\""));
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_RunSignals::backgroundGroupOnTerminal()
{
    Terminal terminal;
    const QStringList options{u"run"_s, u"--background-group"_s, u"job"_s};
    Program reporter(setup(terminal),
                     options + QStringList{u"-c"_s, u"sleep 100 | "_s + QStringLiteral(SIGNALREPORTER)});
    QVERIFY(terminal.waitForOutput("ready\r\n"));
    terminal.write("\x03"); // reaches qdistlock alone, which passes it on
    QVERIFY(terminal.waitForOutput("signal 02\r\n"));
    QVERIFY(reporter.waitForEnd());

    Terminal other;
    Program reader(setup(other), options + QStringList{u"cat"_s});
    QVERIFY2(other.waitForOutput("use --foreground"), other.output().constData());
    reader.sendSignal(SIGKILL);
    QVERIFY(reader.waitForEnd());
}

void tst_RunSignals::progressOnTerminal()
{
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    Terminal terminal;
    Program program(setup(terminal), {u"run"_s, u"job"_s, u"true"_s});
    QVERIFY2(terminal.waitForOutput("waiting for lock \"job\", 1st in the queue"), terminal.output().constData());
    QVERIFY2(terminal.waitForOutput("held by another library"), terminal.output().constData());
    terminal.write("\x03");
    QCOMPARE(program.waitForStatus(), 130);
    QVERIFY(terminal.output().contains("\r\x1b[K")); // nothing of it is left
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_RunSignals)
#include "tst_runsignals.moc"
