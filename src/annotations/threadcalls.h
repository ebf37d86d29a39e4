// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/callreceivers.h"
#include "annotations/callreports.h"
#include "annotations/lockedcallqueue.h"
#include "base/mailbox.h"
#include "base/postedcall.h"

#include <QtCore/qbasictimer.h>
#include <QtCore/qhash.h>
#include <QtCore/qobject.h>

#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace QDistLock {

/*!
    The locked calls of one thread: a queue for each set of locks. Each turn of the event loop runs one call, and spends
    at most a few milliseconds on reports of calls that ended without running. Thread: its own.
*/
class ThreadCalls final : public QObject
{
public:
    /// The calls of the calling thread, until that thread or the application ends; null after that.
    static ThreadCalls *instance();

    ThreadCalls();
    ~ThreadCalls() override;

    /// Queues \a call, in its receiver's thread; a call that can never run fails at once.
    static void submit(CallPointer call);
    /// Whether there was a QCoreApplication, and it was destroyed.
    static bool hasApplicationEnded();

    // For the queues.
    const std::shared_ptr<Mailbox<LockedCallQueue::Message>> mailbox =
            std::make_shared<Mailbox<LockedCallQueue::Message>>();
    void receive(const LockedCallQueue::Message &message);
    void setReady(const std::shared_ptr<LockedCallQueue> &queue);
    void setStalled(const std::shared_ptr<LockedCallQueue> &queue);
    void remove(const QString &locks) { m_queues.remove(locks); }
    /// Calls LockedCallQueue::endTooLate() in time.
    void addDeadline(WaitingCall *call);
    bool removeDeadline(const WaitingCall *call);
    /// Removes \a call from its queue and from all lists, and releases its locks unless it runs.
    CallPointer take(WaitingCall *call);
    /// The same, and begins the next call. \a call is reported in a later turn of the event loop, so that this calls no
    /// code of the application.
    void end(WaitingCall *call, qsizetype request, const LockResult &result);

protected:
    void customEvent(QEvent *event) override;
    void timerEvent(QTimerEvent *event) override;

private:
    void add(CallPointer call);
    /// Swaps the contents of \a older, which keeps its place in the queue, and \a newer. Both need the same locks.
    void replace(WaitingCall *older, WaitingCall *newer);
    void watchFuture(WaitingCall *call);
    std::vector<CallPointer> takeAll(const CallsById &calls);
    void move(QObject *receiver);
    void work();
    void report(const QList<LockedCallInfo> &losses);
    /// Reports one loss, or one call that ended or whose deadline has passed; false if there is none.
    bool reportOne();
    bool isDue() const;
    void armTimer();

    QHash<QString, std::shared_ptr<LockedCallQueue>> m_queues; ///< by LockedCallQueue::locks()
    std::deque<std::shared_ptr<LockedCallQueue>> m_ready;
    std::deque<std::shared_ptr<LockedCallQueue>> m_stalled;
    std::map<std::pair<Deadline, quint64>, WaitingCall *> m_deadlines; ///< by time and id; not of the first of a queue
    CallReceivers m_receivers;
    CallReports m_reports;
    quint64 m_lastId = 0;
    PostedCall m_postedWork{this, [this] { work(); }};
    QBasicTimer m_timer;
    Deadline m_timerDeadline;
};

} // namespace QDistLock
