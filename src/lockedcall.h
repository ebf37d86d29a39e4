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
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace QDistLock {

/// Of a call that waited for longer than its arguments lived.
LockResult argumentDestroyed();
/// Of a call whose thread ended first.
LockResult threadEnded();

/// Calls \a function in the thread of \a object or, if that thread ends first, \a ended: in it, or at once where it has
/// ended already. Neither of them, once \a object is destroyed. Thread: any.
void postTo(QObject *object, std::function<void()> function, std::function<void()> ended);

/// What a locked call is, for messages too.
struct LockedCall
{
    std::shared_ptr<const LockedMethod> method; ///< null for withLock()
    QList<LockRequest> requests; ///< in the order in which they are taken
    QPointer<QObject> receiver;
    QList<QPointer<const QObject>> arguments; ///< those that are objects

    QString displayName() const;
    QByteArray methodIdentity() const { return method ? method->identity() : QByteArray(); }
    LockedCallInfo info(const LockRequest *request, const LockResult &result) const;
};

/// A call that waits for its locks, and then for its turn.
struct WaitingCall
{
    /// `wait` counts from now on.
    WaitingCall(const LockedCall &call, const std::shared_ptr<Detail::LockedJob> &job);

    bool mayWait() const;
    bool isLatest() const;
    /// Its future was cancelled, or its receiver destroyed.
    bool isUnwanted() const;
    QDeadlineTimer deadlineOf(qsizetype request) const;
    /// Reports it to the job, else to the log and LockedCalls.
    void fail(const LockRequest *request, const LockResult &result) const;

    LockedCall call;
    std::shared_ptr<Detail::LockedJob> job;
    QDeadlineTimer begun = QDeadlineTimer::current(Qt::PreciseTimer);
    QDeadlineTimer deadline{QDeadlineTimer::Forever}; ///< the first of its requests' deadlines

    // Since it is in a queue.
    quint64 id = 0;
    QString queue;
    QObject *watched = nullptr; ///< the receiver, maybe under destruction
    WaitingCall *previous = nullptr; ///< of the same receiver
    WaitingCall *next = nullptr;
    std::unique_ptr<QFutureWatcherBase> watcher;

    // Since it is the first there.
    std::vector<std::shared_ptr<LockHold>> holds;
    int attempt = 0; ///< counts the times it began, to recognise old answers
    QDeadlineTimer acquireDeadline; ///< of the lock that it acquires
    std::chrono::milliseconds lastWait{0}; ///< what was left for the lock it acquires
};

/*!
    The locked calls of one thread: a queue for each set of locks, in which only the first call acquires, so
    that a thousand emissions cost the server no more than one waiter. In each turn of the event loop one call
    runs, and calls that ended without running are reported for a few milliseconds at most. Thread: its own.
*/
class LockedCallQueue final : public QObject
{
public:
    /// The one of the calling thread; it lives until that or the application ends. Null after that.
    static LockedCallQueue *instance();

    LockedCallQueue();
    ~LockedCallQueue() override;

    using CallPointer = std::unique_ptr<WaitingCall>;
    /// Takes \a call, in its receiver's thread; where it can never run, it fails at once.
    static void submit(CallPointer call);
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
    struct Moved;

    /// Has its turn once in a turn of the event loop.
    class Runner final : public QObject
    {
    public:
        explicit Runner(LockedCallQueue *queue)
            : m_queue(queue)
        {
        }

    protected:
        void customEvent(QEvent *) override { m_queue->work(); }

    private:
        LockedCallQueue *const m_queue;
    };

    struct Queue
    {
        CallPointer current; ///< acquires, or is ready; null while it runs and until it has released
        std::map<quint64, CallPointer> waiting; ///< by id, so in the order they came
    };

    /// The calls of one receiver that wait.
    struct Receiver
    {
        struct Method
        {
            int calls = 0;
            WaitingCall *latest = nullptr; ///< with onBusy=latest
        };
        WaitingCall *last = nullptr; ///< the others are its `next` ones
        QHash<QByteArray, Method> methods; ///< by LockedMethod::identity()
    };

    /// A call that ended without having run, and how.
    struct Ended
    {
        CallPointer call;
        qsizetype request; ///< -1 = none
        LockResult result;

        void report() const;
    };

    void add(CallPointer call);
    /// The call of the same method that \a call replaces; null if there is none.
    WaitingCall *findOlder(const WaitingCall *call) const;
    /// \a newer takes the place of \a older, which needs the same locks, and gets what that was.
    void replace(WaitingCall *older, WaitingCall *newer);
    /// Calls that wait beside \a call, and count for maxQueued. \a queue: of the same locks; null = none.
    qsizetype countWaiting(const WaitingCall *call, const Queue *queue) const;
    void begin(WaitingCall *call);
    void acquireNext(WaitingCall *call);
    void acquireEnded(quint64 id, int attempt);
    void failCurrent(WaitingCall *call, qsizetype request, const LockResult &result);
    /// Unless its wait is over.
    bool beginAgain(WaitingCall *call);
    void work();
    /// One that ended, or whose deadline has passed; false if there is none.
    bool reportOne();
    bool isDue() const;
    void endTooLate(CallPointer call);
    void runReady();
    void run(CallPointer call);
    void runUnderLocks(CallPointer call);
    void postRun();
    void startNext(const QString &queue);

    CallPointer takeCurrent(WaitingCall *call);
    CallPointer takeWaiting(Queue *queue, quint64 id);
    CallPointer take(const QString &queue, quint64 id);
    /// In the order they came. The queues go on only with startNext().
    std::vector<CallPointer> takeAll(QObject *receiver, QStringList *stoppedQueues);
    /// It is reported in a later turn, so that the application is not called from here.
    void end(CallPointer call, qsizetype request, const LockResult &result);
    void receiverDestroyed(QObject *receiver);
    void armTimer();

    void watchFuture(WaitingCall *call);
    void watchReceiver(WaitingCall *call);
    void unwatchReceiver(WaitingCall *call);

    const std::shared_ptr<Mailbox> m_mailbox;
    QHash<QString, std::shared_ptr<Queue>> m_queues; ///< only those with a call that acquires, is ready or runs
    QHash<quint64, WaitingCall *> m_current;         ///< those that acquire or are ready
    std::deque<quint64> m_ready;
    std::map<std::pair<qint64, quint64>, WaitingCall *> m_deadlines; ///< of those in Queue::waiting; by time and id
    std::deque<QString> m_stalled; ///< queues whose first call is unwanted or came too late
    std::deque<Ended> m_ended;
    QHash<QObject *, Receiver> m_receivers;
    quint64 m_lastId = 0;
    bool m_runPosted = false;
    Runner m_runner{this};
    QBasicTimer m_timer;
    QDeadlineTimer m_timerDeadline{QDeadlineTimer::Forever};
};

} // namespace QDistLock
