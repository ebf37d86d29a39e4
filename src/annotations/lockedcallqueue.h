// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/waitingcall.h"
#include "background/lockhold.h"
#include "base/mailbox.h"

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

/*!
    The locked calls of one thread. Each set of locks has a queue, in which only the first call acquires: a thousand
    emissions are one waiter for the server. Each turn of the event loop runs one call, and spends at most a few
    milliseconds on reports of calls that ended without running. Thread: its own.
*/
class LockedCallQueue final : public QObject
{
public:
    /// The queue of the calling thread, which exists until that thread or the application ends; null after that.
    static LockedCallQueue *instance();

    LockedCallQueue();
    ~LockedCallQueue() override;

    using CallPointer = std::unique_ptr<WaitingCall>;
    /// Queues \a call, in its receiver's thread; a call that can never run fails at once.
    static void submit(CallPointer call);
    /// Whether there was a QCoreApplication, and it was destroyed.
    static bool hasApplicationEnded();
    /// See Detail::logException().
    static void logException(const std::shared_ptr<void> &locks);

    bool eventFilter(QObject *watched, QEvent *event) override;

protected:
    void customEvent(QEvent *event) override;
    void timerEvent(QTimerEvent *event) override;

private:
    class HeldLocks;
    struct Message
    {
        quint64 ended = 0; ///< the call whose acquire ended; 0 = none
        int attempt = 0;
        QString released;           ///< the queue whose call has released its locks
        QList<LockedCallInfo> lost; ///< the locks it had lost by then
    };

    /// Calls work() once in a turn of the event loop.
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
        CallPointer current; ///< acquires, or is ready; null from its run until its locks are released
        std::map<quint64, CallPointer> waiting; ///< by id, which is the order of arrival
    };

    /// The waiting calls of one receiver.
    struct Receiver
    {
        struct Method
        {
            int calls = 0;
            WaitingCall *latest = nullptr; ///< with onBusy=latest
        };
        WaitingCall *last = nullptr;       ///< the head of a list linked by WaitingCall::next
        QHash<QByteArray, Method> methods; ///< by LockedMethod::identity()
    };

    /// A call that ended without having run, and its result.
    struct Ended
    {
        CallPointer call;
        qsizetype request; ///< -1 = none
        LockResult result;

        void report() const;
    };

    void add(CallPointer call);
    /// The waiting call that \a call replaces because of onBusy=latest; null if there is none.
    WaitingCall *findOlder(const WaitingCall *call) const;
    /// Swaps the contents of \a older, which keeps its place in the queue, and \a newer. Both need the same locks.
    void replace(WaitingCall *older, WaitingCall *newer);
    /// The number of waiting calls that count for the maxQueued of \a call. \a queue is that of its locks; may be null.
    qsizetype countWaiting(const WaitingCall *call, const Queue *queue) const;
    void begin(WaitingCall *call);
    void acquireNext(WaitingCall *call);
    void acquireEnded(quint64 id, int attempt);
    void failCurrent(WaitingCall *call, qsizetype request, const LockResult &result);
    /// Begins \a call again; false if its wait is over.
    bool beginAgain(WaitingCall *call);
    void work();
    /// Reports one loss, or one call that ended or whose deadline has passed; false if there is none.
    bool reportOne();
    bool isDue() const;
    void endTooLate(CallPointer call);
    void runReady();
    void run(CallPointer call);
    void runUnderLocks(CallPointer call);
    void postRun();
    /// A call of \a queue has released its locks, of which \a lost were lost before.
    void released(const QString &queue, const QList<LockedCallInfo> &lost);
    void startNext(const QString &queue);

    CallPointer takeCurrent(WaitingCall *call);
    CallPointer takeWaiting(Queue *queue, quint64 id);
    CallPointer take(const QString &queue, quint64 id);
    /// Removes the calls of \a receiver, or all if it is null, in the order of arrival. The queues whose current call
    /// was removed are added to \a stoppedQueues; startNext() starts them again.
    std::vector<CallPointer> takeAll(QObject *receiver, QStringList *stoppedQueues);
    /// Reports \a call in a later turn of the event loop, so that this calls no code of the application.
    void end(CallPointer call, qsizetype request, const LockResult &result);
    void receiverDestroyed(QObject *receiver);
    void armTimer();

    void watchFuture(WaitingCall *call);
    void watchReceiver(WaitingCall *call);
    void unwatchReceiver(WaitingCall *call);

    const std::shared_ptr<Mailbox<Message>> m_mailbox = std::make_shared<Mailbox<Message>>();
    QHash<QString, std::shared_ptr<Queue>> m_queues; ///< those with a call that acquires, is ready or runs
    QHash<quint64, WaitingCall *> m_current;         ///< the calls that acquire or are ready
    std::deque<quint64> m_ready;
    std::map<std::pair<qint64, quint64>, WaitingCall *> m_deadlines; ///< of the calls in Queue::waiting, by time and id
    std::deque<QString> m_stalled;       ///< queues whose first call is unwanted or too late
    std::deque<LockedCallInfo> m_losses; ///< to be emitted by reportOne()
    std::deque<Ended> m_ended;
    QHash<QObject *, Receiver> m_receivers;
    quint64 m_lastId = 0;
    bool m_runPosted = false;
    Runner m_runner{this};
    QBasicTimer m_timer;
    QDeadlineTimer m_timerDeadline{QDeadlineTimer::Forever};
};

} // namespace QDistLock
