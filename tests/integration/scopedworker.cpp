// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Programs whose threads use scoped locks, and what becomes of these at their end:
//   scopedworker work URL SOCKET KEYS    four threads count on KEYS counters until standard input ends
//   scopedworker quit|heap URL           the application ends with locks held and waited for
//   scopedworker again URL               a second application object after the first
//   scopedworker none URL                no application object
//   scopedworker assert URL              a method that is called without its lock
//   scopedworker fork URL                a child process that only ends, while the parent holds a lock
// Lines on standard output tell; the exit status is 0 if all was as it should be.

#include "support/respclient.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedLock>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qrandom.h>
#include <QtCore/qsemaphore.h>

#ifdef Q_OS_UNIX
#  include <sys/wait.h>
#  include <unistd.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::ScopedLock;

namespace {

void say(const QByteArray &line)
{
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::fputs((line + '\n').constData(), stdout);
    std::fflush(stdout);
}

/// Reads, adds one, writes, with nothing but the lock against others who do the same. Each turn is also
/// written down, with its fencing token; that it was done together with the write.
class Counter
{
public:
    Counter(const QString &socket, int keys, int thread)
        : m_keys(keys)
        , m_thread(thread)
    {
        if (!m_client.connectToUnix(socket))
            qFatal("cannot connect: %s", qPrintable(m_client.errorString()));
    }

    void run(const std::atomic<bool> &stopping)
    {
        while (!stopping)
            add(QByteArray::number(QRandomGenerator::global()->bounded(m_keys)));
    }

private:
    void add(const QByteArray &key)
    {
        const QString name = QStringLiteral("counter:%1").arg(QString::fromLatin1(key));
        QDL_SCOPED_LOCK(name, LockOptions().withLease(2s).withWait(1min).withRetryInterval(50ms));
        const QByteArray turn = QByteArray::number(QDistLock::fencingTokenHere(name)) + ' '
                + QByteArray::number(QCoreApplication::applicationPid()) + ' ' + QByteArray::number(m_thread);
        const QByteArray history = "history:" + key;
        command({"RPUSH", history, "begin " + turn});
        const qint64 value = command({"GET", "value:" + key}).toLongLong();
        if (QRandomGenerator::global()->bounded(50) == 0)
            std::this_thread::sleep_for(20ms); // long work, now and then
        command({"MULTI"});
        command({"SET", "value:" + key, QByteArray::number(value + 1)});
        command({"RPUSH", history, "end " + turn});
        command({"EXEC"});
    }

    QVariant command(const QList<QByteArray> &arguments)
    {
        const QVariant reply = m_client.command(arguments);
        if (Support::isError(reply))
            qFatal("\"%s\": %s", arguments.join(' ').constData(), reply.toByteArray().constData());
        return reply;
    }

    Support::RespClient m_client;
    const int m_keys;
    const int m_thread;
};

int work(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    std::atomic<bool> stopping{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&stopping, argv, i] {
            try {
                Counter(QString::fromLocal8Bit(argv[3]), QByteArray(argv[4]).toInt(), i).run(stopping);
            } catch (const QDistLock::LockUnavailable &error) {
                qFatal("%s", error.what());
            }
        });
    }
    say("started");
    for (std::string line; std::getline(std::cin, line);) { }
    stopping = true;
    for (std::thread &thread : threads)
        thread.join();
    return 0;
}

/// Threads in which the end of the application finds one lock held and two waited for.
class Threads
{
public:
    Threads()
    {
        m_threads.emplace_back([this] {
            const ScopedLock lock(QStringLiteral("held"));
            m_ready.release();
            m_end.acquire();
            m_asExpected += int(lock.fencingToken() > 0 && !lock.isHeld());
        });
        m_ready.acquire();
        for (const QString &name : {QStringLiteral("held"), QStringLiteral("foreign")}) {
            m_threads.emplace_back([this, name] {
                m_ready.release();
                const ScopedLock lock(name, LockOptions().withWait(LockOptions::Forever));
                say("ended " + lock.result().errorString.toUtf8());
                m_asExpected += int(lock.result().error == QDistLock::DistributedLock::CancelledError);
            });
        }
        m_ready.acquire(2);
    }
    void detach()
    {
        for (std::thread &thread : m_threads)
            thread.detach();
    }
    bool finish()
    {
        m_end.release();
        for (std::thread &thread : m_threads)
            thread.join();
        m_threads.clear();
        const ScopedLock late(QStringLiteral("late"));
        return m_asExpected == 3 && late.result().error == QDistLock::DistributedLock::CancelledError;
    }

private:
    Q_DISABLE_COPY_MOVE(Threads)
    QSemaphore m_ready, m_end;
    std::atomic<int> m_asExpected{0};
    std::vector<std::thread> m_threads;
};

/// Until whoever started this program has seen what it waits for.
void waitForLine()
{
    say("started");
    std::string line;
    std::getline(std::cin, line);
}

int quit(int argc, char **argv)
{
    auto application = std::make_unique<QCoreApplication>(argc, argv);
    Threads threads;
    waitForLine();
    application.reset();
    say("application gone");
    return threads.finish() ? 0 : 1;
}

int heap(int argc, char **argv)
{
    static QCoreApplication *const application = new QCoreApplication(argc, argv);
    static Threads *const threads = new Threads;
    Q_UNUSED(application)
    threads->detach();
    waitForLine();
    return 0;
}

bool lockOnce()
{
    const ScopedLock lock(QStringLiteral("once"));
    if (!lock)
        say(lock.result().errorString.toUtf8());
    return lock.isHeld();
}

int again(int argc, char **argv)
{
    for (int i = 0; i < 3; ++i) {
        const QCoreApplication application(argc, argv);
        if (!lockOnce())
            return 1;
    }
    return lockOnce() ? 1 : 0;
}

void onlyUnderLock()
{
    QDL_ASSERT_LOCKED("asserted");
}

int assertLocked(int argc, char **argv)
{
    const QCoreApplication application(argc, argv);
    {
        QDL_SCOPED_LOCK("asserted");
        onlyUnderLock();
    }
    say("locked");
    onlyUnderLock();
    return 0;
}

#ifdef Q_OS_UNIX
int forkOnce(int argc, char **argv)
{
    const QCoreApplication application(argc, argv);
    ScopedLock lock(QStringLiteral("forked"));
    if (!lock)
        return 1;
    waitForLine();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(10); // against a child that never ends
        ::close(STDERR_FILENO); // what the missing thread had looks leaked
        std::exit(0);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child)
        return 1;
    say("child ended " + QByteArray::number(status));
    return WIFEXITED(status) && lock.release() ? 0 : 1;
}
#endif

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3)
        return 64;
    const QByteArray mode(argv[1]);
    LockRegistry::setDefaultServer(QUrl(QString::fromLocal8Bit(argv[2])));
    if (mode == "work" && argc == 5)
        return work(argc, argv);
    if (mode == "quit")
        return quit(argc, argv);
    if (mode == "heap")
        return heap(argc, argv);
    if (mode == "again")
        return again(argc, argv);
    if (mode == "none")
        return lockOnce() ? 1 : 0;
    if (mode == "assert")
        return assertLocked(argc, argv);
#ifdef Q_OS_UNIX
    if (mode == "fork")
        return forkOnce(argc, argv);
#endif
    return 64;
}
