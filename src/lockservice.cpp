// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockservice.h"

#include "base/forkcount.h"
#include "core/leaseclock.h"
#include "core/leasemachine.h"
#include "lockregistry_p.h"
#include "servername.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qbasictimer.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>
#include <QtCore/qhash.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// Locks kept for the next acquisitions on one server; making one takes as long as the rest of the work.
constexpr size_t MostIdle = 64;

LockResult failure(DistributedLock::Error error, const QString &name, const QString &text)
{
    return {error, QStringLiteral("Lock %1: %2").arg(Detail::quoted(name), text), 0};
}

/// What the holder's side and the service's thread share.
struct Acquisition
{
    Acquisition(const QUrl &server, const QString &name, const LockOptions &options, LockService::Completion completion,
                bool atOnce, LockService::UseLimit useLimit)
        : server(server)
        , name(name)
        , options(options)
        , atOnce(atOnce)
        , useLimit(std::move(useLimit))
        , m_completion(std::move(completion))
    {
    }

    bool isHeld() const
    {
        return !givenUp.load(std::memory_order_relaxed) && forks == forkCount()
                && LeaseClock::system()->now().count() < deadline.load(std::memory_order_acquire);
    }
    LockResult result() const
    {
        return m_ended.load(std::memory_order_acquire)
                ? m_result
                : failure(DistributedLock::CancelledError, name, QStringLiteral("the acquire has not ended yet"));
    }
    /// The acquire, once.
    void end(const LockResult &result)
    {
        m_result = result;
        m_ended.store(true, std::memory_order_release);
        ended.release();
        const auto completion = std::exchange(m_completion, nullptr);
        if (completion && !givenUp.load())
            completion();
    }
    /// The first of the two decides, and the other one gets false.
    bool use() { return decide(Used); }
    bool refuseUse() { return decide(Refused); }
    bool hasEnded() const { return m_ended.load(std::memory_order_acquire); }
    /// The hold, by release or loss.
    void endHold(bool confirmed)
    {
        deadline.store(0, std::memory_order_release);
        releaseConfirmed.store(confirmed);
        holdEnded.release();
    }

    const QUrl server;
    const QString name;
    const LockOptions options;
    const bool atOnce;
    const LockService::UseLimit useLimit;
    const int forks = forkCount();

    std::atomic<qint64> deadline{0}; ///< ns on the lease clock; 0 = not held
    std::atomic<qint64> fencingToken{0};
    std::atomic<bool> givenUp{false}; ///< by its holder
    QSemaphore ended;
    QSemaphore holdEnded;
    std::atomic<bool> releaseConfirmed{false}; ///< once holdEnded

private:
    enum Use { Undecided, Used, Refused };
    bool decide(Use use)
    {
        Use decided = Undecided;
        return m_use.compare_exchange_strong(decided, use) || decided == use;
    }

    std::atomic<Use> m_use{Undecided};
    LockService::Completion m_completion;
    LockResult m_result; ///< read after m_ended
    std::atomic<bool> m_ended{false};
};

using AcquisitionPointer = std::shared_ptr<Acquisition>;

struct Command
{
    enum Kind { Acquire, Release, Close };
    Kind kind;
    AcquisitionPointer acquisition;
};

/// Ends the service where the program ends without destroying its application object.
struct EndOfProgram
{
    ~EndOfProgram();
};

class Worker;
struct Server;

/// The lock of one acquisition after the other.
class Run : public QObject
{
public:
    Run(Worker *worker, Server *server);

    void begin(const AcquisitionPointer &acquisition);
    void release();
    /// What the server did not say in time is as good as lost.
    void abort();

protected:
    void timerEvent(QTimerEvent *event) override;

private:
    void acquired();
    void acquireFailed();
    void holdEnded(bool confirmed);
    void finish();
    void updateDeadline();

    Worker *const m_worker;
    Server *const m_server;
    AcquisitionPointer m_acquisition;
    QString m_key;
    DistributedLock m_lock;
    QBasicTimer m_useTimer; ///< runs from the grant on
    bool m_behindRelease = false; ///< begun after a release of the same key that may not have run yet
    bool m_releasing = false;
};

struct Server
{
    explicit Server(const QUrl &url)
        : registry(url)
    {
    }
    LockRegistry registry;
    std::vector<std::unique_ptr<Run>> idle; ///< to be used again
    QHash<QString, int> releasing;          ///< keys with releases under way
};

/// Lives in the service's thread; all that belongs to it goes with it.
class Worker : public QObject
{
public:
    explicit Worker(std::function<std::vector<Command>()> takeCommands)
        : m_takeCommands(std::move(takeCommands))
    {
    }
    ~Worker() override;

    void execute(const std::vector<Command> &commands);
    void ended(const Acquisition *acquisition);

protected:
    void customEvent(QEvent *event) override;

private:
    const std::function<std::vector<Command>()> m_takeCommands;
    std::map<QUrl, std::unique_ptr<Server>> m_servers;
    std::unordered_map<const Acquisition *, Run *> m_runs;
};

Run::Run(Worker *worker, Server *server)
    : m_worker(worker)
    , m_server(server)
    , m_lock(&server->registry, QString())
{
    connect(&m_lock, &DistributedLock::acquired, this, &Run::acquired);
    connect(&m_lock, &DistributedLock::acquireFailed, this, &Run::acquireFailed);
    connect(&m_lock, &DistributedLock::renewed, this, &Run::updateDeadline);
    connect(&m_lock, &DistributedLock::released, this, [this] { holdEnded(true); });
    connect(&m_lock, &DistributedLock::lost, this, [this] { holdEnded(false); });
}

void Run::begin(const AcquisitionPointer &acquisition)
{
    m_acquisition = acquisition;
    m_key = acquisition->options.keyPrefix + acquisition->name;
    m_lock.setName(acquisition->name);
    m_lock.setOptions(acquisition->options);
    m_behindRelease = m_server->releasing.contains(m_key);
    m_lock.acquire();
}

void Run::acquired()
{
    // Once more, so that it comes before what Qt's networking keeps till the end of the program.
    static const EndOfProgram endOfProgram;
    m_acquisition->fencingToken.store(m_lock.fencingToken(), std::memory_order_relaxed);
    updateDeadline();
    if (const LockService::UseLimit &limit = m_acquisition->useLimit; limit.passed) {
        // The timer's milliseconds are an int.
        const auto waits = limit.waitEnds.isForever() ? 0ms : milliseconds(limit.waitEnds.remainingTime());
        m_useTimer.start(int((m_acquisition->options.lease + std::min<milliseconds>(waits, 24h)).count()), this);
    }
    m_acquisition->end({DistributedLock::NoError, QString(), m_lock.fencingToken()});
}

void Run::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_useTimer.timerId())
        return;
    m_useTimer.stop();
    if (!m_acquisition->refuseUse() || m_acquisition->givenUp.exchange(true))
        return;
    const auto passed = m_acquisition->useLimit.passed;
    release();
    passed();
}

void Run::updateDeadline()
{
    // In this order: the sum must not lie behind the lock's own deadline. The lock may give its key back up to
    // TimerSlack earlier, and its signal arrives later.
    const auto now = LeaseClock::system()->now();
    const auto remaining = m_lock.remainingTimeAsDuration() - LeaseMachine::TimerSlack;
    m_acquisition->deadline.store(remaining > 0ns ? (now + remaining).count() : 0, std::memory_order_release);
}

void Run::acquireFailed()
{
    // A server that does not know the release script yet runs it after what was sent in between.
    if (m_lock.error() == DistributedLock::BusyError && std::exchange(m_behindRelease, false)
        && m_acquisition->options.wait == 0ms && !m_acquisition->givenUp.load()) {
        m_lock.tryAcquire();
        return;
    }
    m_acquisition->end({m_lock.error(), m_lock.errorString(), 0});
    m_acquisition->endHold(false);
    finish();
}

void Run::release()
{
    if (m_lock.state() == DistributedLock::Acquiring)
        m_lock.cancel();
    if (!m_lock.isHeld() || std::exchange(m_releasing, true))
        return; // it is about to tell how it ended
    m_acquisition->deadline.store(0, std::memory_order_release);
    ++m_server->releasing[m_key];
    m_lock.release();
}

void Run::holdEnded(bool confirmed)
{
    m_acquisition->endHold(confirmed);
    finish();
}

void Run::finish()
{
    m_useTimer.stop();
    if (std::exchange(m_releasing, false)) {
        const auto it = m_server->releasing.find(m_key);
        if (--it.value() == 0)
            m_server->releasing.erase(it);
    }
    const AcquisitionPointer acquisition = std::exchange(m_acquisition, nullptr);
    // The lock is telling of it just now, so it cannot go at once.
    if (m_lock.state() == DistributedLock::Unlocked && m_server->idle.size() < MostIdle) {
        m_server->idle.emplace_back(this);
    } else {
        m_lock.disconnect(this);
        deleteLater();
    }
    m_worker->ended(acquisition.get());
}

void Run::abort()
{
    m_lock.disconnect(this);
    if (!m_acquisition->hasEnded()) {
        m_acquisition->end(failure(DistributedLock::CancelledError, m_acquisition->name,
                                   QStringLiteral("the application ends")));
    }
    m_acquisition->endHold(false);
}

Worker::~Worker()
{
    const auto runs = std::exchange(m_runs, {});
    for (const auto &[acquisition, run] : runs) {
        run->abort();
        delete run;
    }
    QCoreApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete); // the runs that have ended
}

void Worker::customEvent(QEvent *)
{
    execute(m_takeCommands());
}

void Worker::execute(const std::vector<Command> &commands)
{
    for (const Command &command : commands) {
        const AcquisitionPointer &acquisition = command.acquisition;
        switch (command.kind) {
        case Command::Acquire: {
            std::unique_ptr<Server> &server = m_servers[acquisition->server];
            if (!server)
                server = std::make_unique<Server>(acquisition->server);
            const EngineError &error = LockRegistryPrivate::get(&server->registry)->error;
            // After a permanent failure nobody tries again until asked to, as here.
            if (acquisition->atOnce && error && !error.permanent
                && server->registry.state() != LockRegistry::Ready) {
                acquisition->end(failure(error.code, acquisition->name, error.text));
                acquisition->endHold(false);
                break;
            }
            Run *run;
            if (server->idle.empty()) {
                run = new Run(this, server.get());
            } else {
                run = server->idle.back().release();
                server->idle.pop_back();
            }
            m_runs.emplace(acquisition.get(), run);
            run->begin(acquisition);
            break;
        }
        case Command::Release:
            if (const auto it = m_runs.find(acquisition.get()); it != m_runs.end())
                it->second->release();
            break;
        case Command::Close:
            thread()->quit(); // the destructor gives everything back
            break;
        }
    }
}

void Worker::ended(const Acquisition *acquisition)
{
    m_runs.erase(acquisition);
}

class Service;

class ServiceThread : public QThread
{
public:
    explicit ServiceThread(Service *service)
        : m_service(service)
    {
        setObjectName(QStringLiteral("QDistLock"));
    }

protected:
    void run() override;

private:
    Service *const m_service;
};

class Service final : public LockService
{
public:
    static Service *instance();

    std::shared_ptr<LockHold> acquire(const QUrl &server, const QString &name, const LockOptions &options,
                                      Completion completion, bool atOnce, UseLimit useLimit) override;
    bool isCurrentThread() const override
    {
        return m_threadId.load(std::memory_order_relaxed) == QThread::currentThreadId();
    }

    /// \a acquisition is released, or cancelled, by its holder.
    void release(const AcquisitionPointer &acquisition);
    /// Before another application object.
    void open();
    /// Gives everything back; blocks until the servers have it, for the quarter of a second of a LingeringConnection
    /// at most.
    void close();

    /// In the service's thread: before its event loop, after it, and last of all.
    void started(Worker *worker);
    void stopped(Worker *worker);
    void ended();
    std::vector<Command> takeCommands();

private:
    /// Why nothing can be acquired; empty if the thread runs.
    QString start(std::unique_lock<std::mutex> *lock);
    /// True in a child process: fork() copies neither the thread nor a guarantee that the mutex is ever unlocked.
    bool isInherited() const
    {
        const int forks = m_forks.load(std::memory_order_relaxed);
        return forks >= 0 && forks != forkCount();
    }
    void post(Command::Kind kind, const AcquisitionPointer &acquisition);

    std::mutex m_mutex; ///< of all but m_threadId and m_forks
    std::condition_variable m_changed;
    ServiceThread *m_thread = nullptr;
    Worker *m_worker = nullptr; ///< null: nobody takes commands
    std::vector<Command> m_commands;
    bool m_wakeUpPosted = false;
    bool m_closed = false;
    std::atomic<Qt::HANDLE> m_threadId{nullptr};
    std::atomic<int> m_forks{-1}; ///< when the thread was started
};

class Hold final : public LockHold
{
public:
    Hold(Service *service, AcquisitionPointer acquisition)
        : m_service(service)
        , m_acquisition(std::move(acquisition))
    {
    }
    ~Hold() override { release(); }

    bool isHeld() const override { return m_acquisition->isHeld(); }
    qint64 fencingToken() const override { return m_acquisition->fencingToken.load(std::memory_order_relaxed); }
    LockResult result() const override { return m_acquisition->result(); }
    bool use() override { return m_acquisition->use(); }
    void release() override
    {
        if (!m_acquisition->givenUp.exchange(true))
            m_service->release(m_acquisition);
    }
    bool releaseAndWait(std::optional<milliseconds> atMost) override
    {
        Q_ASSERT(!m_service->isCurrentThread());
        const bool held = isHeld();
        if (m_acquisition->givenUp.exchange(true) || m_acquisition->forks != forkCount())
            return false;
        m_service->release(m_acquisition);
        return wait(&m_acquisition->holdEnded, atMost) && held && m_acquisition->releaseConfirmed.load();
    }
    bool waitUntilEnded(std::optional<milliseconds> atMost) override
    {
        Q_ASSERT(!m_service->isCurrentThread());
        return wait(&m_acquisition->ended, atMost);
    }

private:
    Q_DISABLE_COPY_MOVE(Hold)
    static bool wait(QSemaphore *semaphore, std::optional<milliseconds> atMost)
    {
        if (atMost)
            return semaphore->tryAcquire(1, int(atMost->count()));
        semaphore->acquire();
        return true;
    }

    Service *const m_service;
    const AcquisitionPointer m_acquisition;
};

EndOfProgram::~EndOfProgram()
{
    Service::instance()->close();
}

void ServiceThread::run()
{
    {
        Worker worker([this] { return m_service->takeCommands(); });
        m_service->started(&worker);
        exec();
        m_service->stopped(&worker);
    }
    m_service->ended();
}

Service *Service::instance()
{
    static Service *const service = new Service; // for ever: holds may outlive everything
    return service;
}

QString Service::start(std::unique_lock<std::mutex> *lock)
{
    const QString noApplication = QStringLiteral("the application has ended, or there is none yet; locks can be "
                                                 "acquired while a QCoreApplication lives");
    if (m_closed || !QCoreApplication::instance())
        return noApplication;
    if (!m_thread) {
        auto thread = std::make_unique<ServiceThread>(this);
        thread->start();
        if (!thread->isRunning()) {
            return QStringLiteral("the library's background thread could not be started; the process or its user has as "
                                  "many threads as the system allows");
        }
        m_thread = thread.release();
        m_forks.store(forkCount());
        qAddPostRoutine([] { Service::instance()->close(); });
        static const EndOfProgram endOfProgram;
    }
    const ServiceThread *const thread = m_thread;
    m_changed.wait(*lock, [this, thread] { return m_worker || m_thread != thread; });
    return m_thread == thread ? QString() : noApplication;
}

void Service::started(Worker *worker)
{
    m_threadId.store(QThread::currentThreadId());
    const std::lock_guard lock(m_mutex);
    m_worker = worker;
    m_changed.notify_all();
}

void Service::stopped(Worker *worker)
{
    {
        const std::lock_guard lock(m_mutex);
        m_worker = nullptr;
    }
    worker->execute(takeCommands()); // releases that crossed the end
}

void Service::ended()
{
    const std::lock_guard lock(m_mutex);
    m_threadId.store(nullptr);
    m_changed.notify_all();
}

std::shared_ptr<LockHold> Service::acquire(const QUrl &server, const QString &name, const LockOptions &options,
                                           Completion completion, bool atOnce, UseLimit useLimit)
{
    const auto acquisition = std::make_shared<Acquisition>(server.isEmpty() ? LockRegistry::defaultServer() : server,
                                                           name, options, std::move(completion), atOnce,
                                                           std::move(useLimit));
    auto hold = std::make_shared<Hold>(this, acquisition);
    QString reason;
    if (isInherited()) {
        reason = QStringLiteral("this process is a fork of one that used locks, whose background thread it does not have; "
                                "call exec() in it, or fork before the first use of a lock");
    } else {
        std::unique_lock lock(m_mutex);
        reason = start(&lock);
        if (reason.isEmpty()) {
            post(Command::Acquire, acquisition);
            return hold;
        }
    }
    acquisition->end(failure(DistributedLock::CancelledError, name, reason));
    acquisition->endHold(false);
    return hold;
}

void Service::release(const AcquisitionPointer &acquisition)
{
    if (isInherited())
        return; // it is the parent's
    const std::lock_guard lock(m_mutex);
    if (m_worker)
        post(Command::Release, acquisition);
}

void Service::post(Command::Kind kind, const AcquisitionPointer &acquisition)
{
    m_commands.push_back({kind, acquisition});
    if (!std::exchange(m_wakeUpPosted, true))
        QCoreApplication::postEvent(m_worker, new QEvent(QEvent::User));
}

std::vector<Command> Service::takeCommands()
{
    const std::lock_guard lock(m_mutex);
    m_wakeUpPosted = false;
    return std::exchange(m_commands, {});
}

void Service::open()
{
    const std::lock_guard lock(m_mutex);
    m_closed = false;
}

void Service::close()
{
    if (isCurrentThread())
        return; // exit() was called in there: nobody is left to wait for
    if (isInherited())
        return;
    ServiceThread *thread;
    {
        std::unique_lock lock(m_mutex);
        m_closed = true;
        if (!m_thread)
            return;
        m_changed.wait(lock, [this] { return m_worker != nullptr; });
        thread = std::exchange(m_thread, nullptr);
        m_changed.notify_all();
        post(Command::Close, nullptr);
        m_changed.wait(lock, [this] { return m_threadId.load() == nullptr; });
    }
    thread->wait();
    delete thread;
}

void openService()
{
    Service::instance()->open();
}
Q_COREAPP_STARTUP_FUNCTION(openService)

/// A lock of one thread.
struct ThreadEntry
{
    QUrl server;
    QString key;
    std::weak_ptr<LockHold> hold;
    QString work; ///< unfinished, and what it is
};

struct ThreadEntries
{
    ThreadEntries() { entries.reserve(8); }
    ~ThreadEntries() { gone = true; }

    std::vector<ThreadEntry> entries; ///< in the order in which the thread took them
    std::vector<ThreadEntry> unfinished;
    /// Other objects of the thread, and static ones, may be destroyed later.
    static thread_local bool gone;
};

thread_local bool ThreadEntries::gone = false;

/// Null at the end of the thread.
ThreadEntries *threadEntries()
{
    if (ThreadEntries::gone)
        return nullptr;
    static thread_local ThreadEntries entries;
    return &entries;
}

void append(std::vector<ThreadEntry> *entries, ThreadEntry entry)
{
    if (entries->size() == entries->capacity()) {
        // Left by scopes that were destroyed in another thread, and by work that has finished.
        entries->erase(std::remove_if(entries->begin(), entries->end(),
                                      [](const ThreadEntry &entry) { return entry.hold.expired(); }),
                       entries->end());
        // Or it would search them all again for the next one.
        entries->reserve(std::max<size_t>(8, entries->size() * 2));
    }
    entries->push_back(std::move(entry));
}

} // namespace

LockService *LockService::instance()
{
    return Service::instance();
}

void ThreadLocks::push(const QUrl &server, const QString &key, const std::shared_ptr<LockHold> &hold)
{
    if (auto *const thread = threadEntries())
        append(&thread->entries, {server, key, hold, {}});
}

void ThreadLocks::remove(const std::shared_ptr<LockHold> &hold)
{
    auto *const thread = threadEntries();
    if (!thread)
        return;
    auto &entries = thread->entries;
    const auto it = std::find_if(entries.rbegin(), entries.rend(), [&hold](const ThreadEntry &entry) {
        return !entry.hold.owner_before(hold) && !hold.owner_before(entry.hold);
    });
    if (it != entries.rend())
        entries.erase(std::next(it).base());
}

std::shared_ptr<LockHold> ThreadLocks::find(const QUrl &server, QStringView keyPrefix, QStringView name)
{
    const auto *const thread = threadEntries();
    if (!thread)
        return nullptr;
    for (auto it = thread->entries.rbegin(); it != thread->entries.rend(); ++it) {
        if (it->key.size() != keyPrefix.size() + name.size() || !it->key.startsWith(keyPrefix)
            || !it->key.endsWith(name) || !isSameLockSpace(it->server, server)) {
            continue;
        }
        auto hold = it->hold.lock();
        if (hold && hold->isHeld())
            return hold;
    }
    return nullptr;
}

void ThreadLocks::addUnfinished(const QUrl &server, const QString &key, const std::shared_ptr<LockHold> &hold,
                                const QString &work)
{
    if (auto *const thread = threadEntries())
        append(&thread->unfinished, {server, key, hold, work});
}

QString ThreadLocks::unfinishedWork(const QUrl &server, const QString &key)
{
    const auto *const thread = threadEntries();
    if (!thread)
        return QString();
    for (const ThreadEntry &entry : thread->unfinished) {
        if (entry.key != key || !isSameLockSpace(entry.server, server))
            continue;
        if (const auto hold = entry.hold.lock(); hold && hold->isHeld())
            return entry.work;
    }
    return QString();
}

} // namespace QDistLock
