// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/threadcalls.h"

#include "annotations/failurelog.h"
#include "annotations/threadpost.h"
#include "lock/threadcheck.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>
#include <QtCore/qpointer.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qthread.h>
#include <QtCore/qthreadstorage.h>

#include <algorithm>
#include <atomic>
#include <functional>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// How long calls that ended are reported in one turn of the event loop.
constexpr milliseconds TurnBudget = 3ms;

QThreadStorage<ThreadCalls *> threadCalls;
std::atomic<bool> applicationEnded{false}; ///< until there is another one

void endApplication()
{
    applicationEnded = true;
    // The main thread's storage outlives the application object.
    if (threadCalls.hasLocalData())
        threadCalls.setLocalData(nullptr);
    FailureLog::instance()->summarise(true);
}

void beginApplication()
{
    applicationEnded = false;
    qAddPostRoutine(endApplication);
}
Q_COREAPP_STARTUP_FUNCTION(beginApplication)

/// The result of calls in a thread whose calls have ended; NoError while calls can run.
LockResult endOfCalls()
{
    if (applicationEnded) {
        return {DistributedLock::CancelledError, u"the application has ended before the call could run"_s, 0};
    }
    return QThread::currentThread()->isFinished() ? threadEnded() : LockResult();
}

/// The result of a call that a newer one replaced (onBusy=latest).
LockResult replacedByNewer(const LockRequest &request)
{
    return {DistributedLock::BusyError,
            describeLock(request, u"a newer call of this method took its place while it waited"_s), 0};
}

} // namespace

ThreadCalls *ThreadCalls::instance()
{
    if (!threadCalls.hasLocalData() && endOfCalls())
        threadCalls.setLocalData(new ThreadCalls);
    return threadCalls.hasLocalData() ? threadCalls.localData() : nullptr;
}

bool ThreadCalls::hasApplicationEnded()
{
    return applicationEnded;
}

void ThreadCalls::submit(CallPointer call)
{
    const QList<LockRequest> &requests = call->call.requests;
    const LockRequest *const request = requests.isEmpty() ? nullptr : &requests.first();
    const auto refuse = [&](DistributedLock::Error error, const QString &text) {
        call->fail(request, {error, request ? describeLock(*request, text) : text, 0});
    };
    if (call->isUnwanted())
        call->fail(nullptr, Detail::cancelledCall());
    else if (const LockResult ended = endOfCalls(); !ended)
        refuse(ended.error, ended.errorString);
    else if (const QString problem = noEventLoop("it"); !problem.isEmpty())
        refuse(DistributedLock::OptionsError, problem);
    else
        instance()->add(std::move(call));
}

ThreadCalls::ThreadCalls()
{
    mailbox->open(this);
    connect(&m_receivers, &CallReceivers::receiverDestroyed, this, [this](QObject *receiver) {
        for (CallPointer &call : takeAll(m_receivers.callsOf(receiver)))
            m_reports.add(std::move(call), -1, Detail::cancelledCall());
        m_postedWork.post();
    });
    connect(&m_receivers, &CallReceivers::receiverMoves, this, &ThreadCalls::move);
}

ThreadCalls::~ThreadCalls()
{
    for (const LockedCallQueue::Message &message : mailbox->close())
        m_reports.add(message.lost);
    CallsById all;
    for (const auto &queue : std::as_const(m_queues)) {
        for (const auto &[id, call] : queue->calls())
            all.emplace(id, call.get());
    }
    const std::vector<CallPointer> calls = takeAll(all);
    for (CallReports reports = std::move(m_reports); !reports.isEmpty();)
        reports.reportOne();
    const LockResult end = applicationEnded ? endOfCalls() : threadEnded();
    for (const CallPointer &call : calls) {
        call->watcher.reset();
        call->fail(nullptr, end);
    }
}

void ThreadCalls::add(CallPointer newCall)
{
    WaitingCall *const call = newCall.get();
    call->id = ++m_lastId;
    QString locks;
    for (const LockRequest &request : std::as_const(call->call.requests))
        locks += request.identity() + QChar(QChar::Null);
    if (locks.isEmpty())
        locks = QString::number(call->id); // the call needs no lock, so it has a queue for itself
    call->watched = call->call.receiver;

    CallPointer replaced;
    if (WaitingCall *const older = m_receivers.replacedBy(call)) {
        if (older->queue->locks() == locks && !(call->deadline < older->deadline)) {
            replace(older, call);
            newCall->fail(&newCall->call.requests.first(), replacedByNewer(newCall->call.requests.first()));
            return;
        }
        replaced = std::move(takeAll({{older->id, older}}).front());
    }
    // Reported last, since this may run code of the application.
    const auto reportReplaced = qScopeGuard([&replaced] {
        if (!replaced)
            return;
        replaced->watcher.reset();
        replaced->fail(&replaced->call.requests.first(), replacedByNewer(replaced->call.requests.first()));
    });

    auto queue = m_queues.value(locks);
    const auto refuse = [&](const LockRequest &request, const QString &text) {
        newCall->fail(&request, {DistributedLock::BusyError, describeLock(request, text), 0});
    };
    const QList<LockRequest> &requests = call->call.requests;
    const auto strict = std::find_if_not(requests.cbegin(), requests.cend(), std::mem_fn(&LockRequest::mayWait));
    if (queue && strict != requests.cend()) {
        refuse(*strict, u"another call of this thread runs under it or waits for it"_s);
        return;
    }
    const auto least = std::min_element(requests.cbegin(), requests.cend(),
                                        [](const auto &a, const auto &b) { return a.maxQueued < b.maxQueued; });
    const qsizetype waiting = call->call.method ? m_receivers.count(call)
            : queue                             ? qsizetype(queue->calls().size())
                                                : 0;
    if (least != requests.cend() && waiting >= least->maxQueued) {
        refuse(*least,
               call->call.method
                       ? u"%1 calls of this method wait already, as many as maxQueued allows; raise it, or write onBusy=latest where only the newest call matters"_s
                                 .arg(waiting)
                       : u"%1 calls of this thread wait for it already; make fewer"_s.arg(waiting));
        return;
    }
    watchFuture(call);
    m_receivers.add(call);
    if (!queue)
        queue = *m_queues.insert(locks, std::make_shared<LockedCallQueue>(this, locks));
    queue->add(std::move(newCall));
}

void ThreadCalls::replace(WaitingCall *older, WaitingCall *newer)
{
    // The older call keeps its place in this queue and in the server's.
    const bool hadDeadline = removeDeadline(older);
    std::swap(older->call, newer->call);
    std::swap(older->job, newer->job);
    std::swap(older->begun, newer->begun);
    std::swap(older->deadline, newer->deadline);
    if (hadDeadline)
        addDeadline(older);
    older->watcher.reset();
    watchFuture(older);
}

void ThreadCalls::watchFuture(WaitingCall *call)
{
    call->watcher = call->job->makeWatcher();
    if (!call->watcher)
        return;
    connect(call->watcher.get(), &QFutureWatcherBase::canceled, this, [this, call] {
        if (call->queue)
            end(call, -1, Detail::cancelledCall());
    });
}

CallPointer ThreadCalls::take(WaitingCall *call)
{
    removeDeadline(call);
    m_receivers.remove(call);
    return call->queue->take(call);
}

std::vector<CallPointer> ThreadCalls::takeAll(const CallsById &calls)
{
    std::vector<CallPointer> taken;
    std::vector<std::shared_ptr<LockedCallQueue>> queues;
    for (const auto &[id, call] : calls) {
        queues.push_back(call->queue->shared_from_this());
        taken.push_back(take(call));
    }
    for (const auto &queue : queues)
        queue->startNext();
    return taken;
}

void ThreadCalls::end(WaitingCall *call, qsizetype request, const LockResult &result)
{
    const auto queue = call->queue->shared_from_this();
    m_reports.add(take(call), request, result);
    m_postedWork.post();
    queue->startNext();
}

void ThreadCalls::move(QObject *receiver)
{
    const auto calls = std::make_shared<std::vector<CallPointer>>(takeAll(m_receivers.callsOf(receiver)));
    for (const CallPointer &call : *calls)
        call->watcher.reset(); // lives in this thread
    const auto submitAll = [calls] {
        for (CallPointer &call : *calls)
            submit(std::move(call));
    };
    const auto endAll = [calls] {
        for (const CallPointer &call : *calls)
            call->fail(nullptr, threadEnded());
    };
    postTo(receiver, submitAll, endAll, this);
}

void ThreadCalls::setReady(const std::shared_ptr<LockedCallQueue> &queue)
{
    m_ready.push_back(queue);
    m_postedWork.post();
}

void ThreadCalls::setStalled(const std::shared_ptr<LockedCallQueue> &queue)
{
    m_stalled.push_back(queue); // reportOne() handles them, since there may be many
    m_postedWork.post();
}

void ThreadCalls::work()
{
    const QPointer<ThreadCalls> alive(this);
    const Deadline turnEnds(TurnBudget);
    if (!m_ready.empty()) {
        const auto queue = std::move(m_ready.front());
        m_ready.pop_front();
        m_postedWork.post(); // see reportOne()
        queue->runFirst();
    }
    while (alive && reportOne() && alive && !turnEnds.hasExpired())
        ;
    if (alive)
        armTimer();
}

bool ThreadCalls::reportOne()
{
    while (!m_reports.isEmpty() || !m_stalled.empty() || isDue()) {
        // Posted before code of the application runs, since that may run a nested event loop. (With GLib's dispatcher,
        // a nested loop sees earlier posted events only once another one is posted.)
        m_postedWork.post();
        if (!m_reports.isEmpty()) {
            m_reports.reportOne();
            return true;
        }
        if (isDue()) {
            WaitingCall *const due = m_deadlines.begin()->second;
            due->queue->endTooLate(due);
            continue;
        }
        const auto queue = std::move(m_stalled.front());
        m_stalled.pop_front();
        queue->resume();
    }
    return false;
}

void ThreadCalls::addDeadline(WaitingCall *call)
{
    if (!call->deadline.isForever())
        m_deadlines.emplace(std::pair(call->deadline, call->id), call);
    armTimer();
}

bool ThreadCalls::removeDeadline(const WaitingCall *call)
{
    return m_deadlines.erase({call->deadline, call->id}) > 0;
}

bool ThreadCalls::isDue() const
{
    return !m_deadlines.empty() && m_deadlines.begin()->first.first.hasExpired();
}

void ThreadCalls::armTimer()
{
    if (m_deadlines.empty())
        return;
    const Deadline &deadline = m_deadlines.begin()->first.first;
    if (m_timer.isActive() && !(deadline < m_timerDeadline))
        return;
    m_timerDeadline = deadline;
    m_timer.start(int(std::min<milliseconds>(deadline.remaining(), 24h).count()), Qt::PreciseTimer, this);
}

void ThreadCalls::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_timer.timerId())
        return;
    m_timer.stop();
    m_postedWork.post();
}

void ThreadCalls::customEvent(QEvent *)
{
    for (const LockedCallQueue::Message &message : mailbox->takeAll())
        receive(message);
}

void ThreadCalls::receive(const LockedCallQueue::Message &message)
{
    const auto queue = message.queue.lock();
    switch (message.event) {
    case LockedCallQueue::Message::AcquireEnded:
        if (queue)
            queue->acquireEnded(message.attempt);
        break;
    case LockedCallQueue::Message::LockLost:
        if (queue)
            report(queue->lockLost(message.attempt, message.lock));
        break;
    case LockedCallQueue::Message::LocksReleased:
        report(message.lost);
        if (queue)
            queue->resume();
        break;
    }
}

void ThreadCalls::report(const QList<LockedCallInfo> &losses)
{
    if (losses.isEmpty())
        return;
    m_reports.add(losses);
    m_postedWork.post();
}

} // namespace QDistLock
