// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Programs whose threads use scoped locks:
//   scopedworker work URL SOCKET KEYS    four threads increment KEYS counters until standard input ends
//   scopedworker quit|heap URL           the application ends while threads hold locks and wait for them
//   scopedworker again URL               several application objects, one after the other
//   scopedworker none URL                no application object
//   scopedworker assert URL              a function that is called without its lock
//   scopedworker fork URL                a child process ends while the parent holds a lock
// They print their progress to standard output; the exit status is 0 if everything was as expected.

#include "support/respclient.h"

#include <QDistLock/LockRegistry>
#include <QDistLock/ScopedMultiLock>

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

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::ScopedLock;
using QDistLock::ScopedMultiLock;

namespace {

void print(const QByteArray &line)
{
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::fputs((line + '\n').constData(), stdout);
    std::fflush(stdout);
}

/// Reads a counter, adds one and writes it, protected from other threads and processes only by the lock. The history
/// gets the beginning and the end of each turn, with its fencing token; the end in one transaction with the write.
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
        const QString name = u"counter:%1"_s.arg(QString::fromLatin1(key));
        QDL_SCOPED_LOCK(name, LockOptions().withLease(2s).withWait(1min).withRetryInterval(50ms));
        const QByteArray turn = QByteArray::number(QDistLock::fencingTokenHere(name)) + ' '
                + QByteArray::number(QCoreApplication::applicationPid()) + ' ' + QByteArray::number(m_thread);
        const QByteArray history = "history:" + key;
        command({"RPUSH", history, "begin " + turn});
        const qint64 value = command({"GET", "value:" + key}).toLongLong();
        if (QRandomGenerator::global()->bounded(50) == 0)
            std::this_thread::sleep_for(20ms); // a long turn, now and then
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
    print("started");
    for (std::string line; std::getline(std::cin, line);) {
    }
    stopping = true;
    for (std::thread &thread : threads)
        thread.join();
    return 0;
}

/// Threads of which two hold locks and three wait for locks when the application ends.
class Threads
{
public:
    Threads()
    {
        m_threads.emplace_back([this] {
            const ScopedLock lock(u"held"_s);
            m_ready.release();
            m_end.acquire();
            m_asExpected += int(lock.fencingToken() > 0 && !lock.isHeld());
        });
        m_threads.emplace_back([this] {
            const ScopedMultiLock locks({u"both"_s, u"together"_s});
            m_ready.release();
            m_end.acquire();
            m_asExpected += int(locks.fencingToken("together") > 0 && !locks.isHeld());
        });
        m_ready.acquire(2);
        for (const QString &name : {u"held"_s, u"foreign"_s}) {
            m_threads.emplace_back([this, name] {
                m_ready.release();
                const ScopedLock lock(name, LockOptions().withWait(LockOptions::Forever));
                print("ended " + lock.result().errorString.toUtf8());
                m_asExpected += int(lock.result().error == QDistLock::DistributedLock::CancelledError);
            });
        }
        m_threads.emplace_back([this] {
            m_ready.release();
            const ScopedMultiLock locks({u"also"_s, u"wanted"_s}, LockOptions().withWait(LockOptions::Forever));
            print("ended " + locks.result().errorString.toUtf8());
            m_asExpected += int(locks.result().error == QDistLock::DistributedLock::CancelledError);
        });
        m_ready.acquire(3);
    }
    void detach()
    {
        for (std::thread &thread : m_threads)
            thread.detach();
    }
    bool finish()
    {
        m_end.release(2);
        for (std::thread &thread : m_threads)
            thread.join();
        m_threads.clear();
        const ScopedLock late(u"late"_s);
        return m_asExpected == 5 && late.result().error == QDistLock::DistributedLock::CancelledError;
    }

private:
    Q_DISABLE_COPY_MOVE(Threads)
    QSemaphore m_ready, m_end;
    std::atomic<int> m_asExpected{0};
    std::vector<std::thread> m_threads;
};

/// Waits until the test lets the program continue.
void waitForTest()
{
    print("started");
    std::string line;
    std::getline(std::cin, line);
}

int quit(int argc, char **argv)
{
    auto application = std::make_unique<QCoreApplication>(argc, argv);
    Threads threads;
    waitForTest();
    application.reset();
    print("application destroyed");
    return threads.finish() ? 0 : 1;
}

int heap(int argc, char **argv)
{
    static QCoreApplication *const application = new QCoreApplication(argc, argv);
    static Threads *const threads = new Threads;
    Q_UNUSED(application)
    threads->detach();
    waitForTest();
    return 0;
}

bool lockOnce()
{
    const ScopedLock lock(u"once"_s);
    if (!lock)
        print(lock.result().errorString.toUtf8());
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
    print("locked");
    onlyUnderLock();
    return 0;
}

#ifdef Q_OS_UNIX
int forkOnce(int argc, char **argv)
{
    const QCoreApplication application(argc, argv);
    ScopedLock lock(u"forked"_s);
    if (!lock)
        return 1;
    waitForTest();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);            // in case the child does not end
        ::close(STDERR_FILENO); // a leak checker would report the data of the missing thread
        std::exit(0);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child)
        return 1;
    print("child ended " + QByteArray::number(status));
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
