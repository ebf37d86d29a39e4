// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "background/lockhold.h"
#include "base/mailbox.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace QDistLock {

/*!
    The background thread that acquires, renews and releases locks for code that may block its own thread: scoped locks
    and annotated methods. It has one LockRegistry for each server. Thread-safe.

    The thread starts with the first acquire. It ends with the application, and then releases what is held. It needs a
    QCoreApplication. After fork() only the parent can use it.
*/
class LockService
{
public:
    static LockService *instance();

    /// \a completion is called exactly once, in the service's thread, when the acquire has ended, unless the hold is
    /// released or destroyed first. If there is no application, or it has ended, the acquire fails at once with
    /// CancelledError, and \a completion is called before this function returns.
    /// \a addresses must be resolved(). Several are acquired together, as a MultiLock does, and must have one server
    /// and key prefix.
    /// \a failFast: if attempts to connect to the server keep failing, the acquire ends with the error of the last
    /// attempt instead of waiting for the next.
    std::shared_ptr<LockHold> acquire(const QList<LockAddress> &addresses, const LockOptions &options,
                                      AcquireCompletion completion, bool failFast = false, UseLimit useLimit = {},
                                      LossNotice lost = {});
    /// Releases the lock of \a acquisition or cancels its acquire; for LockHold. Never blocks.
    void release(const AcquisitionPointer &acquisition);
    /// Whether this is the service's own thread, in which nothing may wait for it.
    bool isCurrentThread() const;

    /// Called when an application object has been created.
    void open();
    /// Releases everything and ends the thread. Blocks until the servers have received the releases, at most for the
    /// quarter of a second that a LingeringConnection lasts.
    void close();

    /// A static object that closes the service when the program exits without destroying its application object.
    /// Objects are destroyed in the reverse order of their construction. Therefore there is one from the start of the
    /// service, and another from the first grant: only that one is destroyed before the static objects of Qt's
    /// networking, which the service needs.
    struct CloseAtExit
    {
        ~CloseAtExit() { instance()->close(); }
    };

private:
    class Thread;
    class Worker;
    struct Request
    {
        enum Kind { Acquire, Release, Close };
        Kind kind;
        AcquisitionPointer acquisition;
    };

    LockService();
    ~LockService() = delete;

    /// Starts the thread if necessary. Returns the reason why nothing can be acquired; empty if the thread runs.
    QString start(std::unique_lock<std::mutex> *lock);
    /// True in a child process: fork() copies neither the thread nor a guarantee that the mutex is ever unlocked.
    bool isInherited() const;

    // In the service's thread: before its event loop, after it, and at the end.
    void threadStarted(Worker *worker);
    void threadStopped(Worker *worker);
    void threadEnded();

    Mailbox<Request> m_requests; ///< is open while somebody executes them
    std::mutex m_mutex;          ///< guards m_thread and m_closed
    std::condition_variable m_changed;
    Thread *m_thread = nullptr;
    bool m_closed = false;
    std::atomic<Qt::HANDLE> m_threadId{nullptr};
    std::atomic<int> m_forks{-1}; ///< forkCount() when the thread was started
};

} // namespace QDistLock
