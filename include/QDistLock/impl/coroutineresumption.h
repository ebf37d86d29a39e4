// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_COROUTINERESUMPTION_H
#define QDISTLOCK_IMPL_COROUTINERESUMPTION_H

#include <QtCore/qfuture.h>
#include <QtCore/qfuturewatcher.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <coroutine>
#include <memory>

namespace QDistLock::Detail {

/// Resumes a coroutine from this thread's event loop when a future has finished or was cancelled, unless stop() or the
/// destructor is called before, in any thread. (It uses a watcher, not a continuation, because a future can have only
/// one continuation, and that may be the application's.)
class CoroutineResumption
{
public:
    CoroutineResumption() = default;
    ~CoroutineResumption() { stop(); }

    void stop()
    {
        // This function and the slot of finished() exclude each other: the one that takes the coroutine deletes the
        // watcher.
        if (!m_coroutine || !m_coroutine->exchange(nullptr))
            return;
        const QThread *const thread = m_watcher->thread();
        if (!thread || thread == QThread::currentThread() || thread->isFinished())
            delete m_watcher;
        else
            m_watcher->deleteLater();
    }

    template<typename T>
    void resumeAfter(const QFuture<T> &future, std::coroutine_handle<> coroutine)
    {
        m_coroutine = std::make_shared<std::atomic<void *>>(coroutine.address());
        auto *const watcher = new QFutureWatcher<T>;
        m_watcher = watcher;
        QObject::connect(watcher, &QFutureWatcherBase::finished, watcher, [watcher, waiting = m_coroutine] {
            if (void *const address = waiting->exchange(nullptr)) {
                watcher->deleteLater(); // not now: its signal is being emitted
                std::coroutine_handle<>::from_address(address).resume();
            }
        });
        watcher->setFuture(future);
    }

private:
    Q_DISABLE_COPY_MOVE(CoroutineResumption)
    std::shared_ptr<std::atomic<void *>> m_coroutine; ///< null when no coroutine waits
    QFutureWatcherBase *m_watcher = nullptr;
};

} // namespace QDistLock::Detail

#endif
