// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "clitest.h"

#include <QtCore/qfile.h>
#include <QtCore/qjsonarray.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

namespace CliTesting {

bool eventually(const std::function<bool()> &condition, milliseconds timeout)
{
    return Support::EventLoopProbe::waitFor(condition, timeout);
}

namespace {

nanoseconds timeOf(clockid_t clock)
{
    timespec time = {};
    ::clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// The beginning of the epoch, by which the server counts, on the clock of bootTime().
nanoseconds bootTimeOfEpoch()
{
    // Too early by the time between the two readings, if this process is interrupted there; the last reading decides.
    nanoseconds latest = nanoseconds::min();
    for (int i = 0; i < 10; ++i) {
        const nanoseconds now = timeOf(CLOCK_BOOTTIME);
        latest = std::max(latest, now - timeOf(CLOCK_REALTIME));
    }
    return latest;
}

} // namespace

nanoseconds bootTime()
{
    return timeOf(CLOCK_BOOTTIME);
}

char processState(qint64 id)
{
    QFile file(u"/proc/%1/stat"_s.arg(id));
    if (!file.open(QIODevice::ReadOnly))
        return '\0';
    const QByteArray text = file.readAll();
    const qsizetype afterName = text.lastIndexOf(')');
    return afterName > 0 && afterName + 2 < text.size() ? text.at(afterName + 2) : '\0';
}

Program::Program(const Setup &setup, const QStringList &arguments)
{
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    const QStringList inherited = environment.keys();
    for (const QString &name : inherited) {
        if (name.startsWith("QDISTLOCK_"_L1))
            environment.remove(name);
    }
    if (!setup.server.isEmpty())
        environment.insert(u"QDISTLOCK_URL"_s, QString::fromUtf8(setup.server));
    for (const auto &[name, value] : setup.environment)
        environment.insert(name, value);
    setProcessEnvironment(environment);
    setChildProcessModifier([inChild = setup.inChild] {
        ::setsid(); // the terminal from which the tests were started is none of its
        if (inChild)
            inChild();
    });
    const bool isQDistLock = setup.program == QStringLiteral(QDISTLOCK);
    const bool hasTimeout = std::any_of(arguments.begin(), arguments.end(), [](const QString &argument) {
        return argument.startsWith("--connect-timeout"_L1);
    });
    start(setup.program,
          isQDistLock && !setup.server.isEmpty() && !hasTimeout ? QStringList{Patiently} + arguments : arguments);
}

int Program::status() const
{
    if (state() != NotRunning)
        return -1;
    // QProcess gives the number of the signal as exit code.
    return exitStatus() == CrashExit ? 128 + exitCode() : exitCode();
}

int Program::waitForStatus(milliseconds timeout)
{
    waitForEnd(timeout);
    return status();
}

QByteArray Program::errors()
{
    m_errors += readAllStandardError();
    return m_errors;
}

bool Program::waitForErrors(const QByteArray &text, milliseconds timeout)
{
    return eventually([&] { return errors().contains(text); }, timeout);
}

qint64 Program::numberIn(const QByteArray &name)
{
    const QByteArray mark = name + '=';
    const auto lineEnd = [&] {
        const qsizetype begin = output().indexOf(mark);
        return begin < 0 ? -1 : output().indexOf('\n', begin);
    };
    if (!eventually([&] { return lineEnd() >= 0; }))
        return -1;
    const qsizetype begin = output().indexOf(mark) + mark.size();
    return output().sliced(begin, lineEnd() - begin).toLongLong();
}

Result run(const Program::Setup &setup, const QStringList &arguments, const QByteArray &input)
{
    Program program(setup, arguments);
    program.write(input);
    program.closeWriteChannel();
    Result result;
    result.status = program.waitForStatus();
    result.output = program.output();
    result.errors = program.errors();
    return result;
}

void addBadOutputs()
{
    QTest::addColumn<BadOutput>("output");
    const auto redirect = [](const char *path) {
        const int fd = ::open(path, O_WRONLY);
        ::dup2(fd, STDOUT_FILENO);
        ::close(fd);
    };
    QTest::newRow("full disk") << BadOutput([redirect] { redirect("/dev/full"); });
    QTest::newRow("closed") << BadOutput([] { ::close(STDOUT_FILENO); });
    QTest::newRow("file too large") << BadOutput([] {
        const int fd = ::open("/tmp", O_TMPFILE | O_WRONLY, 0600);
        // The token file has room, and this output has none.
        constexpr rlim_t Size = 64 * 1024;
        ::lseek(fd, off_t(Size), SEEK_SET);
        ::dup2(fd, STDOUT_FILENO);
        ::close(fd);
        const rlimit size{Size, Size};
        ::setrlimit(RLIMIT_FSIZE, &size);
    });
}

QByteArray problemsOfJson(const QByteArray &output)
{
    QProcess check;
    check.start(u"python3"_s, {QStringLiteral(CHECKJSON), QStringLiteral(SCHEMA)});
    if (!check.waitForStarted())
        return "python3 cannot be started";
    check.write(output);
    check.closeWriteChannel();
    if (!check.waitForFinished(60000))
        return "checkjson.py does not end";
    const QByteArray problems = check.readAllStandardOutput() + check.readAllStandardError();
    if (check.exitCode() == 77) {
        qWarning("The output was not checked against the schema: %s", problems.constData());
        return {};
    }
    return check.exitCode() == 0 ? QByteArray() : problems;
}

QList<QJsonObject> DoctorResult::of(const QString &check, const QString &level) const
{
    QList<QJsonObject> found;
    const QJsonArray checks = document.value(u"checks"_s).toArray();
    for (const QJsonValue &value : checks) {
        const QJsonObject object = value.toObject();
        if (object.value(u"check"_s) == check && (level.isEmpty() || object.value(u"level"_s) == level))
            found.append(object);
    }
    return found;
}

bool DoctorResult::has(const QString &check, const QString &level, const QString &words, const QString &advice) const
{
    const QList<QJsonObject> found = of(check, level);
    return std::any_of(found.begin(), found.end(), [&](const QJsonObject &object) {
        return object.value(u"text"_s).toString().contains(words)
                && object.value(u"remedy"_s).toString().contains(advice);
    });
}

Lifeline::Lifeline()
{
    if (::mkfifo(QFile::encodeName(path()).constData(), 0600) != 0 || ::pipe(m_stopPipe) != 0)
        qFatal("no pipe: %s", qPrintable(qt_error_string(errno)));
    QFile::link(QStringLiteral(HEARTBEAT), path() + u".beat"_s);
    m_fd = ::open(QFile::encodeName(path()).constData(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    for (const int end : m_stopPipe)
        ::fcntl(end, F_SETFD, FD_CLOEXEC);
    m_thread = std::thread([this] { watch(); });
}

nanoseconds Lifeline::lastBeat() const
{
    QFile file(path() + u".beat.time"_s);
    qint64 beat = 0;
    if (file.open(QIODevice::ReadOnly))
        file.read(reinterpret_cast<char *>(&beat), sizeof beat);
    return nanoseconds(beat);
}

Lifeline::~Lifeline()
{
    ::close(m_stopPipe[1]);
    m_thread.join();
    ::close(m_stopPipe[0]);
    ::close(m_fd);
}

void Lifeline::watch()
{
    for (;;) {
        std::array<pollfd, 2> events{{{m_fd, POLLIN, 0}, {m_stopPipe[0], POLLIN, 0}}};
        ::poll(events.data(), events.size(), -1);
        if (events[1].revents != 0)
            return;
        std::array<char, 256> bytes;
        const ssize_t size = ::read(m_fd, bytes.data(), bytes.size());
        if (size > 0) {
            m_bytes += int(size);
        } else if (size == 0 && m_bytes > 0) {
            m_endedAt = bootTime().count();
            return;
        }
    }
}

QString livingScript(const QString &start, const QString &rest)
{
    return u"exec 9>\"$LIFELINE\"; %1 echo >&9; %2"_s.arg(start, rest);
}

Terminal::Terminal()
{
    m_fd = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (m_fd < 0 || ::grantpt(m_fd) != 0 || ::unlockpt(m_fd) != 0)
        qFatal("no terminal: %s", qPrintable(qt_error_string(errno)));
    m_slave = ::ptsname(m_fd);
}

Terminal::~Terminal()
{
    ::close(m_fd);
}

void Terminal::attach() const
{
    const int slave = ::open(m_slave.constData(), O_RDWR);
    ::ioctl(slave, TIOCSCTTY, 0);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::dup2(slave, fd);
    if (slave > STDERR_FILENO)
        ::close(slave);
}

void Terminal::write(const QByteArray &bytes)
{
    if (::write(m_fd, bytes.constData(), size_t(bytes.size())) != bytes.size())
        qFatal("the terminal refuses input: %s", qPrintable(qt_error_string(errno)));
}

void Terminal::setSize(int columns, int rows)
{
    winsize size = {};
    size.ws_col = ushort(columns);
    size.ws_row = ushort(rows);
    ::ioctl(m_fd, TIOCSWINSZ, &size);
}

const QByteArray &Terminal::output()
{
    std::array<char, 4096> bytes;
    for (ssize_t size; (size = ::read(m_fd, bytes.data(), bytes.size())) > 0;)
        m_output.append(bytes.data(), qsizetype(size));
    return m_output;
}

bool Terminal::waitForOutput(const QByteArray &text, milliseconds timeout)
{
    return eventually([&] { return output().contains(text); }, timeout);
}

Tracer::Tracer(qint64 id)
    : m_id(pid_t(id))
{
    m_isAttached = ::ptrace(PTRACE_SEIZE, m_id, nullptr, PTRACE_O_TRACESYSGOOD) == 0;
    if (m_isAttached) {
        ::ptrace(PTRACE_INTERRUPT, m_id, nullptr, nullptr);
        m_isAttached = waitForStop() != 0;
    }
}

int Tracer::waitForStop()
{
    int status = 0;
    const auto hasStopped = [&] { return ::waitpid(m_id, &status, __WALL | WNOHANG) == m_id; };
    return eventually(hasStopped) && WIFSTOPPED(status) ? status : 0;
}

bool Tracer::runTo(const std::function<bool(const Call &)> &isThere)
{
    for (long signal = 0; m_isAttached && ::ptrace(PTRACE_SYSCALL, m_id, nullptr, signal) == 0;) {
        const int status = waitForStop();
        if (status == 0)
            break;
        const bool isCall = WSTOPSIG(status) == (SIGTRAP | 0x80);
        Call call = {};
        if (isCall && ::ptrace(PTRACE_GET_SYSCALL_INFO, m_id, sizeof call, &call) > 0 && isThere(call))
            return true;
        signal = isCall || status >> 16 != 0 ? 0 : WSTOPSIG(status); // which it was about to get
    }
    return false;
}

std::unique_ptr<Tracer> Tracer::runToFork()
{
    ::ptrace(PTRACE_SETOPTIONS, m_id, nullptr, PTRACE_O_TRACEFORK);
    for (long signal = 0; m_isAttached && ::ptrace(PTRACE_CONT, m_id, nullptr, signal) == 0;) {
        const int status = waitForStop();
        unsigned long id = 0;
        if (status == 0)
            break;
        if (status >> 16 == PTRACE_EVENT_FORK && ::ptrace(PTRACE_GETEVENTMSG, m_id, nullptr, &id) == 0) {
            std::unique_ptr<Tracer> other(new Tracer);
            other->m_id = pid_t(id);
            other->m_isAttached = other->waitForStop() != 0;
            return other;
        }
        signal = status >> 16 != 0 ? 0 : WSTOPSIG(status);
    }
    return nullptr;
}

void Tracer::release()
{
    if (std::exchange(m_isAttached, false) && ::ptrace(PTRACE_DETACH, m_id, nullptr, nullptr) != 0)
        ::waitpid(m_id, nullptr, __WALL | WNOHANG); // it was killed: its parent can reap it from now on
}

QList<QByteArray> lockKeys(Support::RedisServer &server)
{
    QList<QByteArray> keys = server.keys();
    keys.removeIf([](const QByteArray &key) { return key.endsWith(":fence") || key.endsWith(":permits"); });
    return keys;
}

void reconnectAll(Support::RedisServer &server)
{
    server.command({"CLIENT", "KILL", "TYPE", "normal"}); // not the connection that asks for it
}

QList<nanoseconds> expiries(Support::RedisServer &server, const QList<QByteArray> &keys)
{
    // One command, and one that CLIENT PAUSE lets through: with a question for each key, on a loaded machine the first
    // answers are old when the last one comes.
    const QByteArray script = "local moments = {}\n"
                              "for i, key in ipairs(KEYS) do moments[i] = redis.call('PEXPIRETIME', key) end\n"
                              "return moments";
    const QList<QByteArray> question = QList<QByteArray>{"EVAL_RO", script, QByteArray::number(keys.size())} + keys;
    const QVariantList moments = server.command(question).toList();
    QList<nanoseconds> result(keys.size(), 0ns);
    for (qsizetype i = 0; i < moments.size(); ++i) {
        if (const qint64 moment = moments[i].toLongLong(); moment > 0)
            result[i] = milliseconds(moment) + bootTimeOfEpoch();
    }
    return result;
}

QList<nanoseconds> freeze(Support::RedisServer &server, const QList<QByteArray> &keys)
{
    server.command({"CLIENT", "PAUSE", "60000", "WRITE"}); // a renewal waits, a question is answered
    const QList<nanoseconds> result = expiries(server, keys);
    server.pause();
    return result;
}

void thaw(Support::RedisServer &server)
{
    server.resume();
    server.command({"CLIENT", "UNPAUSE"});
}

} // namespace CliTesting
