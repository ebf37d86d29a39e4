// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotation.h"
#include "lockservice.h"

#include <QDistLock/annotations.h>

#include <QtCore/qbasictimer.h>
#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qhash.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qstring.h>

#include <deque>
#include <memory>
#include <vector>

namespace QDistLock {

/// Of a call that waited for longer than its arguments lived.
LockResult argumentDestroyed();

/// What a locked call is, for messages too.
struct LockedCall
{
    QByteArray className;
    QByteArray methodName;
    QList<LockRequest> requests; ///< in the order in which they are taken
    QPointer<QObject> receiver;
    QList<QPointer<const QObject>> arguments; ///< those that are objects

    QString displayName() const;
    LockedCallInfo info(const LockRequest *request, const LockResult &result) const;
    LockedCallInfo info(const LockResult &result) const
    {
        return info(requests.isEmpty() ? nullptr : &requests.first(), result);
    }
};

/// A call that waits for its locks, and then for its turn.
struct WaitingCall
{
    /// `wait` counts from now on.
    WaitingCall(const LockedCall &call, const std::shared_ptr<Detail::LockedJob> &job);

    bool mayWait() const;
    /// Tells the job, else the log and LockedCalls.
    void fail(const LockRequest *request, const LockResult &result) const;

    LockedCall call;
    std::shared_ptr<Detail::LockedJob> job;
    std::vector<QDeadlineTimer> deadlines; ///< of each request
    QDeadlineTimer deadline{QDeadlineTimer::Forever}; ///< the first of them

    // Since it is in a queue.
    quint64 id = 0;
    QString queue;
    QObject *watched = nullptr; ///< the receiver, maybe under destruction
    std::unique_ptr<QFutureWatcherBase> watcher;

    // Since it is the first there.
    std::vector<std::shared_ptr<LockHold>> holds;
    int attempt = 0; ///< counts the times it began, to tell old answers
    std::chrono::milliseconds lastWait{0}; ///< what was left for the lock it acquires
};

/*!
    The locked calls of one thread: a queue for each set of locks, in which only the first acquires, so
    that a thousand emissions cost the server no more than one waiter; and one call run in each turn of
    the event loop. Thread: its own.
*/
class LockedCallQueue final : public QObject
{
public:
    /// Of the calling thread; lives until that or the application ends.
    static LockedCallQueue *instance();

    LockedCallQueue();
    ~LockedCallQueue() override;

    using CallPointer = std::unique_ptr<WaitingCall>;
    /// In the receiver's thread.
    void add(CallPointer call);
    /// See Detail::logException().
    static void logException(const std::shared_ptr<void> &locks);

    bool eventFilter(QObject *watched, QEvent *event) override;

protected:
    void customEvent(QEvent *event) override;
    void timerEvent(QTimerEvent *event) override;

private:
    class Mailbox;
    class Locks;
    struct Message;

    /// Has its turn once in a turn of the event loop.
    class Runner final : public QObject
    {
    public:
        explicit Runner(LockedCallQueue *queue)
            : m_queue(queue)
        {
        }

    protected:
        void customEvent(QEvent *) override { m_queue->runReady(); }

    private:
        LockedCallQueue *const m_queue;
    };

    struct Queue
    {
        CallPointer current; ///< acquires, or is ready; null while it runs and until it has released
        std::deque<CallPointer> waiting;
    };

    void begin(WaitingCall *call);
    void acquireNext(WaitingCall *call);
    void acquireEnded(quint64 id, int attempt);
    void failCurrent(WaitingCall *call, const LockRequest &request, const LockResult &result);
    void runReady();
    void run(CallPointer call);
    void runUnderLocks(CallPointer call);
    void postRun();
    void startNext(const QString &queue);

    CallPointer takeCurrent(WaitingCall *call);
    CallPointer take(const QString &queue, quint64 id);
    /// In the order they came. The queues go on only with startNext().
    std::vector<CallPointer> takeAll(const QObject *receiver, QStringList *stoppedQueues);
    void receiverDestroyed(QObject *receiver);
    void expire();
    void schedule(const QDeadlineTimer &deadline);

    void watch(WaitingCall *call);
    void unwatch(WaitingCall *call);

    const std::shared_ptr<Mailbox> m_mailbox;
    QHash<QString, std::shared_ptr<Queue>> m_queues; ///< only those with a call that acquires, is ready or runs
    QHash<quint64, WaitingCall *> m_current;         ///< those that acquire or are ready
    std::deque<quint64> m_ready;
    std::deque<CallPointer> m_expired; ///< to be told
    QHash<QObject *, int> m_watched; ///< receivers, with the number of their calls
    quint64 m_lastId = 0;
    bool m_runPosted = false;
    Runner m_runner{this};
    QBasicTimer m_timer;
    QDeadlineTimer m_timerDeadline{QDeadlineTimer::Forever};
};

} // namespace QDistLock
