// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Holds some locks, waits for others, and ends in one of many ways once a line arrives on standard input:
//   exitworker MODE URL HELD WAITED
// "observed MODE" is the same, with a LockObserver, which says "ended held:0" and so on.
// The locks held are held:0, held:1, …; those waited for, which somebody else must hold, waited:0, waited:1, …
// Says "ready" once it holds and waits for them all, and "thread ended after N ms" if a QThread held them.

#include <QDistLock/Annotations>
#include <QDistLock/LockObserver>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>
#include <QDistLock/ScopedLock>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qdir.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qthread.h>
#include <QtCore/qtimer.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include <atomic>
#include <cerrno>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::DistributedLock;
using QDistLock::LockAddress;
using QDistLock::LockOptions;
using QDistLock::LockRegistry;
using QDistLock::ScopedLock;

namespace {

std::atomic<bool> noMoreThreads{false};

} // namespace

// What Qt calls: this program's own comes before the C library's.
extern "C" Q_DECL_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                                            void *argument)
{
    using Function = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "pthread_create"));
    return noMoreThreads ? EAGAIN : real(thread, attributes, start, argument);
}

namespace {

QUrl server;
int heldCount = 0;
int waitedCount = 0;

void say(const QByteArray &line)
{
    std::fputs((line + '\n').constData(), stdout);
    std::fflush(stdout);
}

void waitForLine()
{
    std::string line;
    std::getline(std::cin, line);
}

/// With a lease that no test outlasts: what is left stays.
LockOptions patient()
{
    return LockOptions().withLease(1h).withWait(LockOptions::Forever);
}

QString heldName(int i)
{
    return u"held:%1"_s.arg(i);
}

QString waitedName(int i)
{
    return u"waited:%1"_s.arg(i);
}

class Locks
{
public:
    Locks(LockRegistry *registry, std::function<void()> ready)
        : m_ready(std::move(ready))
        , m_missing(heldCount + waitedCount)
    {
        for (int i = 0; i < heldCount; ++i) {
            auto *const lock = add(registry, heldName(i));
            QObject::connect(lock, &DistributedLock::acquired, lock, [this] { count(); });
            lock->acquire();
        }
        for (int i = 0; i < waitedCount; ++i) {
            auto *const lock = add(registry, waitedName(i));
            QObject::connect(lock, &DistributedLock::queuePositionChanged, lock,
                             [this, lock, counted = false]() mutable {
                                 if (lock->queuePosition() >= 0 && !std::exchange(counted, true))
                                     count();
                             });
            lock->acquire();
        }
    }

private:
    Q_DISABLE_COPY_MOVE(Locks)
    DistributedLock *add(LockRegistry *registry, const QString &name)
    {
        m_locks.push_back(std::make_unique<DistributedLock>(registry, name));
        m_locks.back()->setOptions(patient());
        return m_locks.back().get();
    }
    void count()
    {
        if (--m_missing == 0)
            m_ready();
    }

    std::vector<std::unique_ptr<DistributedLock>> m_locks;
    const std::function<void()> m_ready;
    int m_missing;
};

/// Calls \a end in the main thread once a line, or the end, arrives on standard input.
void onLine(std::function<void()> end)
{
    auto *const notifier = new QSocketNotifier(STDIN_FILENO, QSocketNotifier::Read, QCoreApplication::instance());
    QObject::connect(notifier, &QSocketNotifier::activated, notifier, [notifier, end = std::move(end)] {
        notifier->setEnabled(false);
        end();
    });
}

void sayReady()
{
    say("ready");
}

/// The application object is destroyed last.
int quit(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    LockRegistry registry(server);
    const Locks locks(&registry, sayReady);
    onLine([] { QCoreApplication::quit(); });
    return application.exec();
}

/// Nobody destroys the locks; the registry is the library's.
int instance(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    [[maybe_unused]] static const Locks *const locks = new Locks(LockRegistry::instance(server), sayReady);
    onLine([] { QCoreApplication::quit(); });
    return application.exec();
}

/// The registry is destroyed by a slot, and the event loop ends in the same turn.
int slot(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    auto registry = std::make_unique<LockRegistry>(server);
    auto locks = std::make_unique<Locks>(registry.get(), sayReady);
    onLine([&] {
        locks.reset();
        registry.reset();
        QCoreApplication::quit();
    });
    return application.exec();
}

/// Nobody destroys locks and registry.
int leaked(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    static auto *const registry = new LockRegistry(server);
    [[maybe_unused]] static const Locks *const locks = new Locks(registry, sayReady);
    onLine([] { QCoreApplication::quit(); });
    return application.exec();
}

/// Nobody destroys anything that is on the stack.
int exitInSlot(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    LockRegistry registry(server);
    const Locks locks(&registry, sayReady);
    onLine([] { std::exit(0); });
    return application.exec();
}

/// The registry outlives the application object.
int outlives(int argc, char **argv)
{
    std::unique_ptr<LockRegistry> registry;
    std::unique_ptr<Locks> locks;
    QCoreApplication application(argc, argv);
    registry = std::make_unique<LockRegistry>(server);
    locks = std::make_unique<Locks>(registry.get(), sayReady);
    onLine([] { QCoreApplication::quit(); });
    return application.exec();
}

/// Says which holds have ended. Called by several threads.
class Speaker : public QDistLock::LockObserver
{
public:
    void released(const QDistLock::LockEvent &event) override { say("ended " + event.name.toUtf8()); }
    void lost(const QDistLock::LockEvent &event) override { released(event); }
};

class Thread : public QThread
{
public:
    explicit Thread(bool ownRegistry)
        : m_ownRegistry(ownRegistry)
    {
    }

protected:
    void run() override
    {
        std::unique_ptr<LockRegistry> registry;
        if (m_ownRegistry)
            registry = std::make_unique<LockRegistry>(server);
        auto locks = std::make_unique<Locks>(registry ? registry.get() : LockRegistry::instance(server), sayReady);
        exec();
        if (!m_ownRegistry)
            locks.release(); // leaked
    }

private:
    const bool m_ownRegistry;
};

/// Its thread has the locks on several servers, which are the databases of one.
class ThreadOfMany : public QThread
{
protected:
    void run() override
    {
        constexpr int servers = 6;
        int ready = 0;
        for (int i = 0; i < servers; ++i) {
            QUrl url = server;
            url.setPath(u'/' + QString::number(i));
            new Locks(LockRegistry::instance(url), [&ready] {
                if (++ready == servers)
                    sayReady();
            }); // leaked
        }
        exec();
    }
};

/// The process continues after the thread has ended.
template<typename T, typename... Arguments>
int thread(int argc, char **argv, Arguments... arguments)
{
    QCoreApplication application(argc, argv);
    T thread(arguments...);
    thread.start();
    waitForLine();
    QElapsedTimer timer;
    timer.start();
    thread.quit();
    thread.wait();
    say("thread ended after " + QByteArray::number(timer.elapsed()) + " ms");
    waitForLine();
    return 0;
}

/// QThread::wait() returns while the operating system's thread still frees its thread-local data; LeakSanitizer
/// would report OpenSSL's.
void waitForThreadsToEnd()
{
    const QDir threads(u"/proc/self/task"_s);
    const QDeadlineTimer deadline(5s); // ThreadSanitizer has a thread that stays
    while (threads.entryList(QDir::Dirs | QDir::NoDotAndDotDot).size() > 1 && !deadline.hasExpired())
        std::this_thread::yield();
}

int scoped(int argc, char **argv)
{
    auto application = std::make_unique<QCoreApplication>(argc, argv);
    static auto &locks = *new std::vector<std::unique_ptr<ScopedLock>>; // leaked
    for (int i = 0; i < heldCount; ++i) {
        locks.push_back(std::make_unique<ScopedLock>(LockAddress(heldName(i)).withServer(server), patient()));
        if (!*locks.back())
            qFatal("%s", qPrintable(locks.back()->result().errorString));
    }
    say("ready");
    waitForLine();
    application.reset();
    waitForThreadsToEnd();
    return 0;
}

/// The library's thread cannot be started, and later can. Exit status 0 if all was as it should be.
int noThread(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    noMoreThreads = true;
    for (int i = 0; i < 2; ++i) {
        const ScopedLock lock(LockAddress(heldName(0)).withServer(server), patient());
        if (lock || !lock.result().errorString.contains(QLatin1String("thread")))
            return 1;
        say("refused: " + lock.result().errorString.toUtf8());
    }
    bool ran = false;
    const QFuture<void> call = QDistLock::withLock(LockAddress(heldName(0)).withServer(server), patient(),
                                                   [&ran] { ran = true; });
    while (!call.isFinished())
        QCoreApplication::processEvents();
    if (ran)
        return 2;
    if (waitedCount > 0) // ends without ever having started it
        return 0;
    noMoreThreads = false;
    const ScopedLock lock(LockAddress(heldName(0)).withServer(server), patient());
    return lock ? 0 : 3;
}

void onSignals()
{
    QDistLock::quitOnSignals();
    QDistLock::quitOnSignals(); // does nothing more
}

/// Whoever started this program sends it signals.
int signalled(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    onSignals();
    LockRegistry registry(server);
    const Locks locks(&registry, sayReady);
    return application.exec();
}

/// Its event loop does not run.
int stuck(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    onSignals();
    say("ready");
    for (;;)
        ::pause();
}

/// A child process that is ended by a signal does not end its parent, which shares the pipe.
int signalledChild(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    onSignals();
    const pid_t child = ::fork();
    if (child == 0) {
        for (;;)
            ::pause();
    }
    ::kill(child, SIGTERM);
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
        return 1;
    onLine([] { QCoreApplication::quit(); });
    say("ready");
    return application.exec();
}

/// The calls under the locks never end.
int withLock(int argc, char **argv)
{
    auto application = std::make_unique<QCoreApplication>(argc, argv);
    LockRegistry::setDefaultServer(server);
    QPromise<void> never;
    never.start();
    QObject context;
    int missing = heldCount;
    std::vector<QFuture<void>> calls;
    for (int i = 0; i < heldCount; ++i) {
        calls.push_back(QDistLock::withLock(heldName(i), patient(), [&] {
            if (--missing == 0)
                say("ready");
            return never.future();
        }));
    }
    for (int i = 0; i < waitedCount; ++i)
        calls.push_back(QDistLock::withLock(waitedName(i), patient(), [&] { return never.future(); }));
    onLine([] { QCoreApplication::quit(); });
    const int exitCode = application->exec();
    application.reset();
    waitForThreadsToEnd();
    return exitCode;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 5)
        return 64;
    QByteArray mode(argv[1]);
    if (mode.startsWith("observed ")) {
        mode.remove(0, qstrlen("observed "));
        QDistLock::LockObserver::install(std::make_shared<Speaker>());
    }
    server = QUrl(QString::fromLocal8Bit(argv[2]));
    heldCount = QByteArray(argv[3]).toInt();
    waitedCount = QByteArray(argv[4]).toInt();
    if (mode == "quit")
        return quit(argc, argv);
    if (mode == "instance")
        return instance(argc, argv);
    if (mode == "slot")
        return slot(argc, argv);
    if (mode == "leaked")
        return leaked(argc, argv);
    if (mode == "exit")
        return exitInSlot(argc, argv);
    if (mode == "outlives")
        return outlives(argc, argv);
    if (mode == "thread")
        return thread<Thread>(argc, argv, true);
    if (mode == "thread instance")
        return thread<Thread>(argc, argv, false);
    if (mode == "thread instances")
        return thread<ThreadOfMany>(argc, argv);
    if (mode == "scoped")
        return scoped(argc, argv);
    if (mode == "no thread")
        return noThread(argc, argv);
    if (mode == "signalled")
        return signalled(argc, argv);
    if (mode == "stuck")
        return stuck(argc, argv);
    if (mode == "signalled child")
        return signalledChild(argc, argv);
    if (mode == "withLock")
        return withLock(argc, argv);
    return 64;
}
