// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "support/eventloopprobe.h"
#include "support/redisserver.h"
#include "support/testprogram.h"

#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>
#include <QtCore/qprocess.h>
#include <QtCore/qtemporarydir.h>
#include <QtTest/qtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <sys/ptrace.h>
#include <sys/types.h>

/// Shared by the tests of the command line.
namespace CliTesting {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// Runs an event loop until \a condition is true.
bool eventually(const std::function<bool()> &condition, milliseconds timeout = 60s);
/// The clock that all processes of the machine share.
nanoseconds bootTime();
/// The state of a process in /proc: 'R', 'S', 'T', 'Z', …; '\0' if there is no such process.
char processState(qint64 id);
/// A zombie counts as dead.
inline bool isAlive(qint64 id)
{
    const char state = processState(id);
    return state != '\0' && state != 'Z' && state != 'X';
}

/// For a server that answers: on a busy machine, too, where the default of 5 s may be too short.
const QString Patiently = QStringLiteral("--connect-timeout=1m");

/// qdistlock, started with \a arguments, and its end as a shell would see it. Its standard error is kept. With a
/// server, and without another --connect-timeout, it runs Patiently.
class Program : public Support::TestProgram
{
public:
    struct Setup
    {
        QByteArray server;                                   ///< QDISTLOCK_URL; empty = unset
        QList<std::pair<QString, QString>> environment = {}; ///< besides that of this process
        /// Runs in the new process before the program. It is the leader of a session without a terminal.
        std::function<void()> inChild = {};
        QString program = QStringLiteral(QDISTLOCK);
    };

    Program(const Setup &setup, const QStringList &arguments);

    /// The exit code, or 128 + N if signal N ended it; -1 while it runs.
    int status() const;
    /// Runs an event loop until it has ended; -1 after a time-out.
    int waitForStatus(milliseconds timeout = 60s);
    /// Everything it has written to standard error.
    QByteArray errors();
    bool waitForErrors(const QByteArray &text, milliseconds timeout = 60s);
    /// The number after "\a name=" in the output; waits for it.
    qint64 numberIn(const QByteArray &name);

private:
    QByteArray m_errors;
};

struct Result
{
    int status = -1;
    QByteArray output;
    QByteArray errors;
};
/// Runs it until it has ended; again if it was not connected within the 3 s that the library allows for that.
Result run(const Program::Setup &setup, const QStringList &arguments, const QByteArray &input = {});

/// For Program::Setup::inChild: a standard output to which nothing can be written. Rows of a test, column "output".
using BadOutput = std::function<void()>;
void addBadOutputs();

/// What `doctor --json` has printed.
struct DoctorResult
{
    int status = -1;
    QJsonObject document;
    /// The checks with this name, and this level unless that is empty.
    QList<QJsonObject> of(const QString &check, const QString &level = {}) const;
    /// One with this level whose text contains \a words; its remedy must contain \a advice.
    bool has(const QString &check, const QString &level, const QString &words, const QString &advice = {}) const;
    QString everything() const { return QString::fromUtf8(QJsonDocument(document).toJson()); }
};

/// Where \a output, JSON objects one after the other, breaks docs/qdistlock.schema.json; empty if nowhere.
QByteArray problemsOfJson(const QByteArray &output);

/*!
    Notices when the last of some processes has ended: a named pipe that they keep open for writing. A child does so by
    `exec 9>"$LIFELINE"; echo >&9` in the shell, and all that it starts inherit it.

    On a loaded machine, a process that was killed may lie there for a tenth of a second before the kernel finds the
    time to take it away, and this thread notices that even later. So processes that are judged by the time of their
    death run Beat instead of `sleep`: lastBeat() is the time at which one of them was alive for certain.
*/
class Lifeline
{
public:
    Lifeline();
    ~Lifeline();

    QString path() const { return m_folder.filePath(QStringLiteral("lifeline")); }
    std::pair<QString, QString> variable() const { return {QStringLiteral("LIFELINE"), path()}; }
    /// The number of bytes that were written to it.
    int bytes() const { return m_bytes; }
    bool hasEnded() const { return m_endedAt > 0; }
    /// Not before they have ended, but maybe long after. On the clock of bootTime().
    nanoseconds endedAt() const { return nanoseconds(m_endedAt); }
    /// When a process with Beat has run last; 0 if there was none. On the same clock.
    nanoseconds lastBeat() const;

private:
    Q_DISABLE_COPY_MOVE(Lifeline)
    void watch();

    QTemporaryDir m_folder;
    int m_fd = -1;
    int m_stopPipe[2] = {-1, -1};
    std::atomic<int> m_bytes{0};
    std::atomic<qint64> m_endedAt{0};
    std::thread m_thread; ///< the event loop may be late
};

/// In a script with a lifeline: runs until it is killed.
const QString Beat = QStringLiteral("\"$LIFELINE.beat\"");

/// A script for `-c` whose processes keep the lifeline open. It runs \a start, which starts processes in the
/// background, notifies the lifeline, and runs \a rest.
QString livingScript(const QString &start, const QString &rest);

/// A terminal, for programs that are started with attach() in their Setup::inChild.
class Terminal
{
public:
    Terminal();
    ~Terminal();

    /// In the new process, the leader of a session: makes this the terminal of the session.
    void attach() const;
    void write(const QByteArray &bytes);
    void setSize(int columns, int rows);
    /// All that was written to it.
    const QByteArray &output();
    bool waitForOutput(const QByteArray &text, milliseconds timeout = 60s);

private:
    Q_DISABLE_COPY_MOVE(Terminal)
    int m_fd = -1;
    QByteArray m_slave;
    QByteArray m_output;
};

/*!
    Holds a process at one of its system calls, while others go on: for what may happen between two of its steps.
    Thread: the main thread.
*/
class Tracer
{
public:
    /// The begin of a call with its number, or its end with its result.
    using Call = __ptrace_syscall_info;

    explicit Tracer(qint64 id);
    ~Tracer() { release(); }

    /// False if the system does not allow it.
    bool isAttached() const { return m_isAttached; }
    /// Lets it run, and holds it at the first call for which \a isThere is true.
    bool runTo(const std::function<bool(const Call &)> &isThere);
    /// Lets it run until it starts another process, and holds both; returns the other one, if there was any.
    std::unique_ptr<Tracer> runToFork();
    /// It runs on, alone.
    void release();

private:
    Q_DISABLE_COPY_MOVE(Tracer)
    Tracer() = default;
    /// Waits until it stops; its state, or 0 after a time-out.
    int waitForStop();

    pid_t m_id = 0;
    bool m_isAttached = false;
};

/// The keys of locks and queues on \a server, without fencing tokens and numbers of permits, which outlive their locks.
QList<QByteArray> lockKeys(Support::RedisServer &server);

/// Ends the connections of all clients of \a server. They connect again, and ask at once whether they still hold their
/// locks, which they would do otherwise when a third of the lease has passed.
void reconnectAll(Support::RedisServer &server);

/// When each of \a keys expires on \a server, on the clock of bootTime(); 0 for one that does not exist. Exact, however
/// long the question was under way.
QList<nanoseconds> expiries(Support::RedisServer &server, const QList<QByteArray> &keys);

/// Stops \a server, and returns when each of \a keys expires. Nobody can renew one of them between the question and the
/// stop.
QList<nanoseconds> freeze(Support::RedisServer &server, const QList<QByteArray> &keys);
/// The end of that.
void thaw(Support::RedisServer &server);

/// A test of commands with a Redis server, which is emptied before each function.
class ServerTest : public QObject
{
    Q_OBJECT

protected:
    Program::Setup setup(const Lifeline *lifeline = nullptr) const
    {
        Program::Setup result{m_server.url().toEncoded()};
        if (lifeline)
            result.environment = {lifeline->variable()};
        return result;
    }

    Support::RedisServer m_server{Support::RedisServer::Options::withTcp()};

protected Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init() { m_server.command({"FLUSHALL"}); }
    void cleanup() { m_server.resume(); }
};

} // namespace CliTesting

Q_DECLARE_METATYPE(CliTesting::BadOutput)
