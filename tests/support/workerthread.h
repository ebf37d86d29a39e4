// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qglobal.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace Support {

/// The thread of a test tool that waits in poll(), and executes tasks for other threads. Needs no event loop.
class WorkerThread
{
public:
    WorkerThread();
    ~WorkerThread();

    void start(std::function<void()> run);
    void stop();

    /// Runs \a task in the thread and returns when it has finished. Not from the thread itself.
    void invoke(const std::function<void()> &task);

    /// For the thread: readable when there are tasks.
    int wakeFd() const { return m_wakeFd; }
    bool isStopping() const { return m_stopping; }
    void runTasks();

private:
    Q_DISABLE_COPY_MOVE(WorkerThread)
    void wake();

    struct Task
    {
        const std::function<void()> *function;
        bool *done;
    };
    std::mutex m_mutex;
    std::condition_variable m_condition;
    std::vector<Task> m_tasks;
    std::atomic<bool> m_stopping{false};
    int m_wakeFd = -1;
    std::thread m_thread;
};

} // namespace Support
