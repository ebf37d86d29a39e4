// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "background/lockservice.h"

#include "background/servedlock.h"
#include "base/forkcount.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>

#include <map>
#include <utility>
#include <vector>

using namespace Qt::StringLiterals;

namespace QDistLock {

/// Executes the requests; lives in the service's thread and owns all locks there.
class LockService::Worker : public QObject
{
public:
    explicit Worker(LockService *service)
        : m_service(service)
    {
    }
    ~Worker() override
    {
        for (const auto &[url, locks] : m_servers)
            locks->abortAll();
    }

    void executeAll(const std::vector<Request> &requests)
    {
        for (const Request &request : requests)
            execute(request);
    }

protected:
    void customEvent(QEvent *) override { executeAll(m_service->m_requests.takeAll()); }

private:
    void execute(const Request &request)
    {
        if (request.kind == Request::Close) {
            thread()->quit(); // the destructor releases everything
            return;
        }
        const AcquisitionPointer &acquisition = request.acquisition;
        const QUrl url = acquisition->addresses.first().server();
        if (request.kind == Request::Release) {
            // There are no locks of this server if the lock was acquired by an earlier thread of the service.
            if (const auto it = m_servers.find(url); it != m_servers.end())
                it->second->release(acquisition);
            return;
        }
        std::unique_ptr<ServerLocks> &server = m_servers[url];
        if (!server)
            server = std::make_unique<ServerLocks>(url);
        server->acquire(acquisition);
    }

    LockService *const m_service;
    std::map<QUrl, std::unique_ptr<ServerLocks>> m_servers;
};

class LockService::Thread : public QThread
{
public:
    explicit Thread(LockService *service)
        : m_service(service)
    {
        setObjectName(u"QDistLock"_s);
    }

protected:
    void run() override
    {
        {
            Worker worker(m_service);
            m_service->threadStarted(&worker);
            exec();
            m_service->threadStopped(&worker);
        }
        m_service->threadEnded();
    }

private:
    LockService *const m_service;
};

LockService::LockService() = default;

LockService *LockService::instance()
{
    static LockService *const service = new LockService; // never deleted: holds may be destroyed after anything else
    return service;
}

QString LockService::start(std::unique_lock<std::mutex> *lock)
{
    const QString noApplication =
            u"the application has ended, or there is none yet; locks can be acquired while a QCoreApplication lives"_s;
    if (m_closed || !QCoreApplication::instance())
        return noApplication;
    if (!m_thread) {
        auto thread = std::make_unique<Thread>(this);
        thread->start();
        if (!thread->isRunning()) {
            return u"the library's background thread could not be started; the process or its user has as many threads as the system allows"_s;
        }
        m_thread = thread.release();
        m_forks.store(forkCount());
        qAddPostRoutine([] { instance()->close(); });
        static const CloseAtExit closeAtExit;
    }
    const Thread *const thread = m_thread;
    m_changed.wait(*lock, [this, thread] { return m_requests.isOpen() || m_thread != thread; });
    return m_thread == thread ? QString() : noApplication;
}

bool LockService::isCurrentThread() const
{
    return m_threadId.load(std::memory_order_relaxed) == QThread::currentThreadId();
}

bool LockService::isInherited() const
{
    const int forks = m_forks.load(std::memory_order_relaxed);
    return forks >= 0 && forks != forkCount();
}

void LockService::threadStarted(Worker *worker)
{
    m_threadId.store(QThread::currentThreadId());
    const std::lock_guard lock(m_mutex);
    m_requests.open(worker);
    m_changed.notify_all();
}

void LockService::threadStopped(Worker *worker)
{
    std::unique_lock lock(m_mutex);
    const std::vector<Request> requests = m_requests.close();
    lock.unlock();
    worker->executeAll(requests); // releases that were requested while the thread ended
}

void LockService::threadEnded()
{
    const std::lock_guard lock(m_mutex);
    m_threadId.store(nullptr);
    m_changed.notify_all();
}

std::shared_ptr<LockHold> LockService::acquire(const QList<LockAddress> &addresses, const LockOptions &options,
                                               AcquireCompletion completion, bool failFast, UseLimit useLimit,
                                               LossNotice lost)
{
    const auto acquisition = std::make_shared<Acquisition>(addresses, options, std::move(completion), failFast,
                                                           std::move(useLimit), std::move(lost));
    auto hold = std::make_shared<LockHold>(acquisition);
    QString reason;
    if (isInherited()) {
        reason =
                u"this process is a fork of one that used locks, whose background thread it does not have; call exec() in it, or fork before the first use of a lock"_s;
    } else {
        std::unique_lock lock(m_mutex);
        reason = start(&lock);
        if (reason.isEmpty()) {
            m_requests.post({Request::Acquire, acquisition});
            return hold;
        }
    }
    acquisition->end(acquireFailure(DistributedLock::CancelledError, addresses.first().name(), reason));
    acquisition->endHold(false);
    return hold;
}

void LockService::release(const AcquisitionPointer &acquisition)
{
    if (!isInherited()) // otherwise the lock is the parent's
        m_requests.post({Request::Release, acquisition});
}

void LockService::open()
{
    const std::lock_guard lock(m_mutex);
    m_closed = false;
}

void LockService::close()
{
    if (isCurrentThread())
        return; // exit() was called in this thread: it cannot wait for itself
    if (isInherited())
        return;
    Thread *thread;
    {
        std::unique_lock lock(m_mutex);
        m_closed = true;
        if (!m_thread)
            return;
        m_changed.wait(lock, [this] { return m_requests.isOpen(); });
        thread = std::exchange(m_thread, nullptr);
        m_changed.notify_all();
        m_requests.post({Request::Close, nullptr});
        m_changed.wait(lock, [this] { return m_threadId.load() == nullptr; });
    }
    thread->wait();
    delete thread;
}

static void openService()
{
    LockService::instance()->open();
}
Q_COREAPP_STARTUP_FUNCTION(openService)

} // namespace QDistLock
