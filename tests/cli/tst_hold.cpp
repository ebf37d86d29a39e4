// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `qdistlock hold`: when it begins and ends to hold.

#include "clitest.h"

#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qfile.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <array>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace CliTesting;
using namespace Support;

class tst_Hold : public ServerTest
{
    Q_OBJECT
private Q_SLOTS:
    void untilTheEndOfInput();
    void inputIsDiscarded();
    void closedInput();
    void inputAtItsEnd_data();
    void inputAtItsEnd();
    void process();
    void parent();
    void descriptor();
    void signalEnds_data() { addRows<int>("number", {{"SIGINT", SIGINT}, {"SIGTERM", SIGTERM}, {"SIGHUP", SIGHUP}}); }
    void signalEnds();
    void signalInTheQueue();
    void endOfInputInTheQueue();
    void terminalEnd();
    void lost();
    void severalNames();
    void readers();
    void permits();
    TIMING void permitOfADeadHolder();
    void json();
    void outputIsFull();
    void conflict();
    void badInput_data();
    void badInput();
};

void tst_Hold::untilTheEndOfInput()
{
    Program program(setup(), {u"hold"_s, u"job"_s});
    QVERIFY(program.waitForOutput("\n"));
    QCOMPARE(program.output(), "held job fence " + m_server.get("{lock:job}:fence") + '\n');
    QVERIFY(m_server.exists("lock:job"));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QCOMPARE(program.errors(), QByteArray());
}

void tst_Hold::inputIsDiscarded()
{
    Program program(setup(), {u"hold"_s, u"job"_s});
    QVERIFY(program.waitForOutput("\n"));
    program.write(QByteArray(1000000, 'x'));
    QVERIFY(eventually([&] { return program.bytesToWrite() == 0; }));
    QVERIFY(m_server.exists("lock:job"));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_Hold::closedInput()
{
    Program::Setup closed = setup();
    closed.inChild = [] { ::close(STDIN_FILENO); };
    Program program(closed, {u"hold"_s, u"job"_s});
    QCOMPARE(program.waitForStatus(), 64);
    QVERIFY2(program.errors().contains("standard input is closed"), program.errors().constData());
}

// A lock that would be released as soon as it is held: nobody wants that.
void tst_Hold::inputAtItsEnd_data()
{
    addColumns<QString, QByteArray>("redirection", "text");
    QTest::newRow("/dev/null") << u"</dev/null"_s << QByteArray("standard input is at its end");
    QTest::newRow("a file") << u"</etc/passwd"_s << QByteArray("standard input is at its end");
    QTest::newRow("nobody writes to the pipe any more") << u"<&3"_s << QByteArray("standard input is at its end");
    QTest::newRow("descriptor") << u"--fd 3"_s << QByteArray("file descriptor 3 is at its end");
}

void tst_Hold::inputAtItsEnd()
{
    QFETCH(QString, redirection);
    QFETCH(QByteArray, text);
    std::array<int, 2> ends{};
    QCOMPARE(::pipe(ends.data()), 0);
    ::close(ends[1]);
    Program::Setup shell = setup();
    shell.program = u"sh"_s;
    shell.inChild = [&ends] { ::dup2(ends[0], 3); };
    Program program(shell, {u"-c"_s, u"exec %1 hold job %2"_s.arg(QStringLiteral(QDISTLOCK), redirection)});
    QCOMPARE(program.waitForStatus(), 64);
    ::close(ends[0]);
    QVERIFY2(program.errors().contains(text) && program.errors().contains("--pid"), program.errors().constData());
    QCOMPARE(program.errors().count('\n'), 1);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Hold::process()
{
    TestProgram other(u"cat"_s, {});
    QVERIFY(other.waitForStarted());
    Program program(setup(), {u"hold"_s, u"job"_s, u"--pid"_s, QString::number(other.processId())});
    program.closeWriteChannel(); // does not count
    QVERIFY(program.waitForOutput("held job"));
    other.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    QVERIFY(!m_server.exists("lock:job"));
}

void tst_Hold::parent()
{
    // As `docker exec` leaves it behind: its input goes on, and nothing but the parent process has ended.
    QTemporaryDir folder;
    const QString path = folder.filePath(u"input"_s);
    QCOMPARE(::mkfifo(QFile::encodeName(path).constData(), 0600), 0);
    const int input = ::open(QFile::encodeName(path).constData(), O_RDWR | O_CLOEXEC);
    QVERIFY(input >= 0);
    Program::Setup shell = setup();
    shell.program = u"sh"_s;
    shell.environment = {{u"INPUT"_s, path}};
    Program program(shell, {u"-c"_s, u"%1 %2 hold job <\"$INPUT\" & wait"_s.arg(QStringLiteral(QDISTLOCK), Patiently)});
    QVERIFY(program.waitForOutput("held job"));
    program.sendSignal(SIGKILL);
    QVERIFY(eventually([this] { return !m_server.exists("lock:job"); }));
    ::close(input);
}

void tst_Hold::descriptor()
{
    Program::Setup shell = setup();
    shell.program = u"sh"_s;
    Program program(
            shell,
            {u"-c"_s, u"exec 3<&0; exec %1 %2 hold --fd 3 job </dev/null"_s.arg(QStringLiteral(QDISTLOCK), Patiently)});
    QVERIFY(program.waitForOutput("held job"));
    QVERIFY(m_server.exists("lock:job"));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_Hold::signalEnds()
{
    QFETCH(int, number);
    Program program(setup(), {u"hold"_s, u"job"_s});
    QVERIFY(program.waitForOutput("held job"));
    program.sendSignal(number);
    QCOMPARE(program.waitForStatus(), 128 + number);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QCOMPARE(program.errors(), QByteArray());
}

void tst_Hold::signalInTheQueue()
{
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    Program program(setup(), {u"hold"_s, u"job"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    program.sendSignal(SIGINT);
    QCOMPARE(program.waitForStatus(), 130);
    QCOMPARE(program.output(), QByteArray());
    QVERIFY(eventually([this] { return lockKeys(m_server) == QList<QByteArray>{"lock:job"}; }));
}

void tst_Hold::endOfInputInTheQueue()
{
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    Program program(setup(), {u"hold"_s, u"job"_s});
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    program.closeWriteChannel(); // nobody wants the lock any more
    QCOMPARE(program.waitForStatus(), 0);
    QCOMPARE(program.output(), QByteArray());
    QVERIFY(eventually([this] { return lockKeys(m_server) == QList<QByteArray>{"lock:job"}; }));
}

void tst_Hold::terminalEnd()
{
    Terminal terminal;
    Program::Setup onTerminal = setup();
    onTerminal.inChild = [&terminal] { terminal.attach(); };
    Program program(onTerminal, {u"hold"_s, u"job"_s});
    QVERIFY(terminal.waitForOutput("held job"));
    terminal.write("\x04");
    QCOMPARE(program.waitForStatus(), 0);
}

void tst_Hold::lost()
{
    Program program(setup(), {u"--json"_s, u"hold"_s, u"job"_s});
    QVERIFY(program.waitForOutput("\n"));
    m_server.command({"SET", "lock:job", "other", "PX", "60000"});
    reconnectAll(m_server);
    QCOMPARE(program.waitForStatus(), 79);
    QVERIFY2(program.errors().contains("it was lost"), program.errors().constData());
    const QByteArray line = program.output().trimmed().split('\n').last();
    QCOMPARE(QJsonDocument::fromJson(line).object().value(u"outcome"_s).toString(), u"lost"_s);
    QCOMPARE(m_server.get("lock:job"), "other"_ba);
}

void tst_Hold::severalNames()
{
    Program program(setup(), {u"hold"_s, u"b,a"_s});
    QVERIFY(program.waitForOutput("held b,a fence "));
    QVERIFY(m_server.exists("lock:a") && m_server.exists("lock:b"));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Hold::readers()
{
    Program first(setup(), {u"hold"_s, u"--shared"_s, u"job"_s});
    Program second(setup(), {u"hold"_s, u"-s"_s, u"job"_s});
    for (Program *const program : {&first, &second}) {
        QVERIFY(program->waitForOutput("\n"));
        QCOMPARE(program->output(), "held job fence " + m_server.get("{lock:job}:fence") + '\n');
    }
    first.closeWriteChannel();
    QCOMPARE(first.waitForStatus(), 0);
    QVERIFY(m_server.exists("lock:job"));
    second.closeWriteChannel();
    QCOMPARE(second.waitForStatus(), 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Hold::permits()
{
    const QStringList arguments{u"hold"_s, u"--limit"_s, u"3"_s, u"--take"_s, u"2"_s, u"job"_s};
    Program first(setup(), arguments);
    QVERIFY(first.waitForOutput("\n"));
    QCOMPARE(first.output(), "held job fence " + m_server.get("{lock:job}:fence") + " slot 0,1\n");
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 2);
    QCOMPARE(m_server.get("{lock:job}:permits"), "3"_ba);
    Program second(setup(), arguments);
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    first.closeWriteChannel();
    QCOMPARE(first.waitForStatus(), 0);
    QVERIFY(second.waitForOutput("held job fence "));
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 2);
    second.closeWriteChannel();
    QCOMPARE(second.waitForStatus(), 0);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

// It is back when its lease has ended, and not before; the others keep theirs.
void tst_Hold::permitOfADeadHolder()
{
    leavesRoomFor(2s); // the lease
    const auto arguments = [](const QString &lease) {
        return QStringList{u"hold"_s, u"--limit"_s, u"2"_s, u"--lease"_s, lease, u"job"_s};
    };
    Program dead(setup(), arguments(u"3s"_s));
    QVERIFY(dead.waitForOutput("held"));
    const QByteArray member = m_server.command({"ZRANGE", "lock:job", "0", "-1"}).toList().value(0).toByteArray();
    Program other(setup(), arguments(u"1h"_s));
    QVERIFY(other.waitForOutput("held"));
    Program waiting(setup(), arguments(u"1h"_s));
    QVERIFY(eventually([this] { return m_server.exists("{lock:job}:queue"); }));
    dead.kill();
    dead.waitForStatus();
    const double end = m_server.command({"ZSCORE", "lock:job", member}).toDouble(); // in ms
    QVERIFY(end > 0);
    QVERIFY(waiting.waitForOutput("held"));
    const QVariantList time = m_server.command({"TIME"}).toList();
    QVERIFY(time.value(0).toDouble() * 1000 + time.value(1).toDouble() / 1000 >= end);
    QCOMPARE(m_server.command({"ZCARD", "lock:job"}).toInt(), 2);
    for (Program *const program : {&other, &waiting}) {
        program->closeWriteChannel();
        QCOMPARE(program->waitForStatus(), 0);
        QCOMPARE(program->errors(), QByteArray());
    }
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_Hold::json()
{
    Program program(setup(), {u"hold"_s, u"--json"_s, u"b,a"_s});
    QVERIFY(eventually([&] { return program.output().count('\n') == 2; }));
    const QList<QByteArray> lines = program.output().trimmed().split('\n');
    const QList<QByteArray> names{"b", "a"};
    for (qsizetype i = 0; i < 2; ++i) {
        const QJsonObject object = QJsonDocument::fromJson(lines.at(i)).object();
        QCOMPARE(object.value(u"command"_s).toString(), u"hold"_s);
        QCOMPARE(object.value(u"outcome"_s).toString(), u"held"_s);
        QCOMPARE(object.value(u"name"_s).toString().toUtf8(), names.at(i));
        QCOMPARE(object.value(u"fence"_s).toInteger(), m_server.get("{lock:" + names.at(i) + "}:fence").toLongLong());
    }
    QVERIFY(!lines.at(0).contains("slots"));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);

    Program two(setup(), {u"hold"_s, u"--json"_s, u"--limit=3"_s, u"--take=2"_s, u"job"_s});
    QVERIFY(two.waitForOutput("\n"));
    const QJsonObject object = QJsonDocument::fromJson(two.output()).object();
    QCOMPARE(object.value(u"slots"_s).toArray(), QJsonArray({0, 1}));
    two.closeWriteChannel();
    QCOMPARE(two.waitForStatus(), 0);
}

void tst_Hold::outputIsFull()
{
    int ends[2];
    QCOMPARE(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (::write(ends[1], "x", 1) == 1) {
    }
    QCOMPARE(::fcntl(ends[1], F_SETFL, 0), 0);
    Program::Setup full = setup();
    full.inChild = [&ends] { ::dup2(ends[1], STDOUT_FILENO); };
    Program program(full, {u"hold"_s, u"job"_s});
    QVERIFY(eventually([this] { return m_server.exists("lock:job"); }));
    reconnectAll(m_server);
    QVERIFY(eventually([this] { return m_server.connectedClients() > 0; })); // it goes on: it could renew
    QByteArray output;
    QVERIFY(eventually([&] {
        std::array<char, 4096> part;
        for (ssize_t size; (size = ::read(ends[0], part.data(), part.size())) > 0;)
            output.append(part.data(), size);
        return output.contains("held job");
    }));
    program.closeWriteChannel();
    QCOMPARE(program.waitForStatus(), 0);
    ::close(ends[0]);
    ::close(ends[1]);
}

void tst_Hold::conflict()
{
    m_server.command({"SET", "lock:job", "foreign", "PX", "60000"});
    Program program(setup(), {u"hold"_s, u"-n"_s, u"job"_s});
    QCOMPARE(program.waitForStatus(), 75);
    QCOMPARE(program.output(), QByteArray());
}

void tst_Hold::badInput_data()
{
    addColumns<QStringList, QByteArray>("arguments", "text");
    QTest::newRow("no such process") << QStringList{u"--pid"_s, u"999999999"_s, u"job"_s}
                                     << QByteArray("there is no process 999999999");
    QTest::newRow("process 0") << QStringList{u"--pid"_s, u"0"_s, u"job"_s} << QByteArray("there is no process 0");
    QTest::newRow("descriptor is not open")
            << QStringList{u"--fd"_s, u"77"_s, u"job"_s} << QByteArray("77 is not open");
    QTest::newRow("no descriptor") << QStringList{u"--fd"_s, u"4294967296"_s, u"job"_s}
                                   << QByteArray("4294967296 is not open");
    QTest::newRow("descriptor for writing") << QStringList{u"--fd"_s, u"1"_s, u"job"_s} << QByteArray("1 is not open");
    QTest::newRow("both") << QStringList{u"--fd"_s, u"0"_s, u"--pid"_s, u"1"_s, u"job"_s}
                          << QByteArray("exclude each other");
}

void tst_Hold::badInput()
{
    QFETCH(QStringList, arguments);
    QFETCH(QByteArray, text);
    Program program(setup(), QStringList{u"hold"_s} + arguments);
    QCOMPARE(program.waitForStatus(), 64);
    QVERIFY2(program.errors().contains(text), program.errors().constData());
    QCOMPARE(program.errors().count('\n'), 1);
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Hold)
#include "tst_hold.moc"
