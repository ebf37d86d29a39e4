// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/waitingcall.h"
#include "background/lockhold.h"
#include "base/leaseclock.h"

#include <QtCore/qlist.h>
#include <QtCore/qstring.h>

#include <chrono>
#include <map>
#include <memory>
#include <vector>

namespace QDistLock {

class ThreadCalls;

/*!
    The calls of one thread that need the same locks. Only the first one acquires: a thousand emissions are one waiter
    for the server. Exists while it has calls, or one runs. Thread: its own.
*/
class LockedCallQueue : public std::enable_shared_from_this<LockedCallQueue>
{
public:
    /// Posted to the thread of \a queue.
    struct Message
    {
        enum Event {
            AcquireEnded,
            LockLost,     ///< by the call that runs, or whose future has not finished
            LocksReleased ///< by the call that has ended
        };
        std::weak_ptr<LockedCallQueue> queue;
        Event event;
        int attempt = 0;            ///< of AcquireEnded and LockLost
        qsizetype lock = 0;         ///< of LockLost: its index
        QList<LockedCallInfo> lost; ///< of LocksReleased: those lost by then, if not reported before
    };

    /// \a locks identifies this queue.
    LockedCallQueue(ThreadCalls *thread, const QString &locks);

    /// See Detail::logException().
    static void logException(const std::shared_ptr<void> &locks);

    QString locks() const { return m_locks; }
    /// Those that have not run.
    const std::map<quint64, CallPointer> &calls() const { return m_calls; }

    void add(CallPointer call);
    /// For ThreadCalls::take(). startNext() must follow.
    CallPointer take(const WaitingCall *call);
    /// Begins the first call if none is under way. Removes this queue if it has none.
    void startNext();
    /// Ends a call whose deadline has passed.
    void endTooLate(WaitingCall *call);

    void acquireEnded(int attempt);
    /// The report, if the call of \a attempt runs and has not reported the loss of \a lock yet.
    QList<LockedCallInfo> lockLost(int attempt, qsizetype lock);
    /// Called after ThreadCalls::setReady(). Runs the first call if it still has its locks.
    void runFirst();
    /// Called after ThreadCalls::setStalled(), and when the call that ran has released its locks.
    void resume();

private:
    class HeldLocks;
    enum State {
        Idle,
        Stalled, ///< the first call is unwanted or too late
        Acquiring,
        Ready,  ///< the first call has its locks
        Running ///< until the locks of the call, which was removed, are released
    };

    WaitingCall *first() const { return m_calls.begin()->second.get(); }
    void begin();
    /// Begins the first call again; false if its wait is over.
    bool beginAgain();
    void acquireNext();
    void runUnderLocks();

    ThreadCalls *const m_thread;
    const QString m_locks;
    std::map<quint64, CallPointer> m_calls; ///< by id, which is the order of arrival
    State m_state = Idle;
    // Of the first call, while it acquires or is ready.
    int m_attempt = 0; ///< counts them, to recognise late results of earlier ones
    std::vector<std::shared_ptr<LockHold>> m_holds;
    Deadline m_acquireDeadline;              ///< of the lock that is being acquired
    std::chrono::milliseconds m_lastWait{0}; ///< the `wait` of the lock that is being acquired
    // Of the call that runs, or whose future has not finished.
    std::weak_ptr<HeldLocks> m_heldLocks;
};

} // namespace QDistLock
