// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "workerthread.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace Support {

WorkerThread::WorkerThread()
    : m_wakeFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
}

WorkerThread::~WorkerThread()
{
    stop();
    ::close(m_wakeFd);
}

void WorkerThread::start(std::function<void()> run)
{
    m_thread = std::thread(std::move(run));
}

void WorkerThread::stop()
{
    if (!m_thread.joinable())
        return;
    m_stopping = true;
    wake();
    m_thread.join();
}

void WorkerThread::invoke(const std::function<void()> &task)
{
    bool done = false;
    std::unique_lock lock(m_mutex);
    m_tasks.push_back({&task, &done});
    wake();
    m_condition.wait(lock, [&] { return done; });
}

void WorkerThread::runTasks()
{
    eventfd_t count;
    ::eventfd_read(m_wakeFd, &count);
    const std::lock_guard lock(m_mutex);
    for (const Task &task : m_tasks) {
        (*task.function)();
        *task.done = true;
    }
    m_tasks.clear();
    m_condition.notify_all();
}

void WorkerThread::wake()
{
    ::eventfd_write(m_wakeFd, 1);
}

} // namespace Support
