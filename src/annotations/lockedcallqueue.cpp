// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/lockedcallqueue.h"

#include "annotations/failurelog.h"
#include "annotations/threadpost.h"
#include "background/lockservice.h"
#include "background/threadlocks.h"
#include "base/logging.h"
#include "lock/threadcheck.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qthread.h>
#include <QtCore/qthreadstorage.h>
#include <QtCore/qtimer.h>

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
/// If less than this was left of `wait` when the acquisition began, a missing reply is reported as a time-out, not as a
/// connection error.
constexpr milliseconds EnoughForAReply = 100ms;

QThreadStorage<LockedCallQueue *> threadQueues;
std::atomic<bool> applicationEnded{false}; ///< until there is another one

void endApplication()
{
    applicationEnded = true;
    // The main thread's storage outlives the application object.
    if (threadQueues.hasLocalData())
        threadQueues.setLocalData(nullptr);
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

/// The result of a call whose wait ended behind earlier calls.
LockResult timedOut(const LockRequest &request)
{
    const QString text =
            u"not acquired within %1 ms: its turn behind earlier calls of this thread came too late, or not at all; allow a longer wait or do less under the lock"_s
                    .arg(request.options.wait.count());
    return {DistributedLock::TimeoutError, describeLock(request, text), 0};
}

/// The result of a call whose lock was released because the event loop did not run, once its wait is over: see
/// UseLimit.
LockResult releasedBeforeItsTurn(const LockRequest &request)
{
    const QString text =
            u"acquired, but released again because the event loop of this thread did not run, "
            "and its wait of %1 ms is over; run exec() in this thread, block it for less long, or use ScopedLock, which needs no event loop"_s
                    .arg(request.options.wait.count());
    return {DistributedLock::TimeoutError, describeLock(request, text), 0};
}

/// The result of a call whose lock was lost before it ran, once its wait is over.
LockResult lostBeforeItsTurn(const LockRequest &request)
{
    const QString text =
            u"acquired, but lost before the event loop ran the call, and its wait of %1 ms is over; use a longer lease, renew it, or block the event loop for less long"_s
                    .arg(request.options.wait.count());
    return {DistributedLock::TimeoutError, describeLock(request, text), 0};
}

void logReleased(const std::shared_ptr<const LockedMethod> &method, const LockRequest &request)
{
    LockedCall call;
    call.method = method;
    const QString text =
            u"acquired, but released because the event loop of the thread that must run the call did not run; run exec() there, block that thread for less long, or use ScopedLock, which needs no event loop"_s;
    qCWarning(lcLock, "%ls: %ls", qUtf16Printable(call.displayName()), qUtf16Printable(describeLock(request, text)));
}

void reportLoss(const LockedCallInfo &lost)
{
    if (LockedCalls *const calls = LockedCalls::instance())
        Q_EMIT calls->lost(lost);
}

} // namespace

/// The locks of a running call. They are released with the last reference, in any thread.
class LockedCallQueue::HeldLocks
{
public:
    HeldLocks(LockedCallQueue *owner, const LockedCall &call, const QString &queue,
              std::vector<std::shared_ptr<LockHold>> holds)
        : m_owner(owner)
        , m_ownerThread(QThread::currentThread())
        , m_mailbox(owner->m_mailbox)
        , m_call(call)
        , m_queue(queue)
        , m_holds(std::move(holds))
    {
    }

    ~HeldLocks()
    {
        QList<const LockRequest *> lostRequests;
        for (size_t i = m_holds.size(); i-- > 0;) {
            if (!m_holds[i]->isHeld())
                lostRequests.append(&m_call.requests.at(qsizetype(i)));
            if (m_holds[i]->leave()) // a scope that re-entered the lock may outlive the call
                m_holds[i]->release();
        }
        const bool wanted = m_mailbox->isOpen();
        QList<LockedCallInfo> lost;
        if (wanted) {
            // After the releases, because the message handler of the application may take long.
            for (const LockRequest *const request : std::as_const(lostRequests))
                lost.append(logLoss(*request));
        }
        if (wanted && QThread::currentThread() == m_ownerThread)
            m_owner->released(m_queue, lost);
        else
            m_mailbox->post({0, 0, m_queue, lost});
    }

    const std::vector<std::shared_ptr<LockHold>> &holds() const { return m_holds; }
    void logException(const QString &what) const
    {
        const LockRequest *const request = m_call.requests.isEmpty() ? nullptr : &m_call.requests.first();
        const QString text = u"the work under it ended with an exception: %1"_s.arg(Detail::quoted(what));
        const LockResult result{DistributedLock::NoError, request ? describeLock(*request, text) : text, 0};
        qCInfo(lcLock, "%ls", qUtf16Printable(m_call.info(request, result).errorString));
    }

private:
    Q_DISABLE_COPY_MOVE(HeldLocks)
    LockedCallInfo logLoss(const LockRequest &request) const
    {
        const LockResult result{
                DistributedLock::NoError,
                describeLock(request,
                             u"lost while the method ran under it; what it did since then was not protected"_s),
                0};
        const LockedCallInfo info = m_call.info(&request, result);
        qCWarning(lcLock, "%ls", qUtf16Printable(info.errorString));
        return info;
    }

    LockedCallQueue *const m_owner; ///< to be used in its thread, while the mailbox is open
    QThread *const m_ownerThread;
    const std::shared_ptr<Mailbox<Message>> m_mailbox;
    const LockedCall m_call;
    const QString m_queue;
    std::vector<std::shared_ptr<LockHold>> m_holds;
};

LockedCallQueue *LockedCallQueue::instance()
{
    if (!threadQueues.hasLocalData() && endOfCalls())
        threadQueues.setLocalData(new LockedCallQueue);
    return threadQueues.hasLocalData() ? threadQueues.localData() : nullptr;
}

bool LockedCallQueue::hasApplicationEnded()
{
    return applicationEnded;
}

void LockedCallQueue::submit(CallPointer call)
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

LockedCallQueue::LockedCallQueue()
{
    m_mailbox->open(this);
}

LockedCallQueue::~LockedCallQueue()
{
    for (const Message &message : m_mailbox->close())
        m_losses.insert(m_losses.end(), message.lost.begin(), message.lost.end());
    QStringList ignored;
    const std::deque<LockedCallInfo> losses = std::exchange(m_losses, {});
    const std::deque<Ended> ended = std::exchange(m_ended, {});
    const std::vector<CallPointer> calls = takeAll(nullptr, &ignored);
    for (const LockedCallInfo &lost : losses)
        reportLoss(lost);
    for (const Ended &one : ended)
        one.report();
    const LockResult end = applicationEnded ? endOfCalls() : threadEnded();
    for (const CallPointer &call : calls) {
        call->watcher.reset();
        call->fail(nullptr, end);
    }
}

void LockedCallQueue::Ended::report() const
{
    call->watcher.reset();
    if (call->watched && !call->call.receiver)
        call->fail(nullptr, Detail::cancelledCall());
    else
        call->fail(request < 0 ? nullptr : &call->call.requests.at(request), result);
}

void LockedCallQueue::logException(const std::shared_ptr<void> &locks)
{
    QString what = u"not a std::exception"_s;
    try {
        throw;
    } catch (const std::exception &exception) {
        what = QString::fromUtf8(exception.what());
    } catch (...) {
    }
    static_cast<const HeldLocks *>(locks.get())->logException(what);
}

void LockedCallQueue::add(CallPointer newCall)
{
    WaitingCall *const call = newCall.get();
    call->id = ++m_lastId;
    QString key;
    for (const LockRequest &request : std::as_const(call->call.requests))
        key += request.identity() + QChar(QChar::Null);
    if (key.isEmpty())
        key = QString::number(call->id); // the call needs no lock, so it has a queue for itself
    call->watched = call->call.receiver;

    CallPointer replaced;
    if (WaitingCall *const older = findOlder(call)) {
        if (older->queue == key) {
            replace(older, call);
            newCall->fail(&newCall->call.requests.first(), replacedByNewer(newCall->call.requests.first()));
            return;
        }
        replaced = take(older->queue, older->id);
        unwatchReceiver(replaced.get());
    }
    // Reported last, since this may run code of the application.
    const auto reportReplaced = qScopeGuard([&replaced] {
        if (!replaced)
            return;
        replaced->watcher.reset();
        replaced->fail(&replaced->call.requests.first(), replacedByNewer(replaced->call.requests.first()));
    });

    const auto it = m_queues.constFind(key);
    const Queue *const queue = it == m_queues.constEnd() ? nullptr : it.value().get();
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
    const qsizetype waiting = countWaiting(call, queue);
    if (least != requests.cend() && waiting >= least->maxQueued) {
        refuse(*least,
               call->call.method
                       ? u"%1 calls of this method wait already, as many as maxQueued allows; raise it, or write onBusy=latest where only the newest call matters"_s
                                 .arg(waiting)
                       : u"%1 calls of this thread wait for it already; make fewer"_s.arg(waiting));
        return;
    }
    call->queue = queue ? it.key() : key; // all calls share one text
    watchFuture(call);
    watchReceiver(call);
    if (queue) {
        if (!call->deadline.isForever())
            m_deadlines.emplace(std::pair(call->deadline.deadlineNSecs(), call->id), call);
        it.value()->waiting.emplace(call->id, std::move(newCall));
        armTimer();
        return;
    }
    m_queues.insert(key, std::make_shared<Queue>()).value()->current = std::move(newCall);
    m_current.insert(call->id, call);
    begin(call);
}

WaitingCall *LockedCallQueue::findOlder(const WaitingCall *call) const
{
    const auto receiver = call->isLatest() ? m_receivers.constFind(call->watched) : m_receivers.constEnd();
    if (receiver == m_receivers.constEnd())
        return nullptr;
    const auto method = receiver->methods.constFind(call->call.methodIdentity());
    return method == receiver->methods.constEnd() ? nullptr : method->latest;
}

void LockedCallQueue::replace(WaitingCall *older, WaitingCall *newer)
{
    // The older call keeps its place in this queue and in the server's.
    const auto deadline = m_deadlines.find({older->deadline.deadlineNSecs(), older->id});
    if (deadline != m_deadlines.end()) {
        m_deadlines.erase(deadline);
        m_deadlines.emplace(std::pair(newer->deadline.deadlineNSecs(), older->id), older);
    }
    std::swap(older->call, newer->call);
    std::swap(older->job, newer->job);
    std::swap(older->begun, newer->begun);
    std::swap(older->deadline, newer->deadline);
    older->watcher.reset();
    watchFuture(older);
}

qsizetype LockedCallQueue::countWaiting(const WaitingCall *call, const Queue *queue) const
{
    if (!call->call.method)
        return queue ? qsizetype(queue->waiting.size()) + (queue->current ? 1 : 0) : 0;
    const auto receiver = m_receivers.constFind(call->watched);
    if (receiver == m_receivers.constEnd())
        return 0;
    const auto method = receiver->methods.constFind(call->call.methodIdentity());
    return method == receiver->methods.constEnd() ? 0 : method->calls;
}

void LockedCallQueue::watchFuture(WaitingCall *call)
{
    call->watcher = call->job->makeWatcher();
    if (!call->watcher)
        return;
    connect(call->watcher.get(), &QFutureWatcherBase::canceled, this, [this, queue = call->queue, id = call->id] {
        if (CallPointer taken = take(queue, id)) {
            unwatchReceiver(taken.get());
            end(std::move(taken), -1, Detail::cancelledCall());
        }
    });
}

void LockedCallQueue::watchReceiver(WaitingCall *call)
{
    if (!call->watched)
        return;
    Receiver &receiver = m_receivers[call->watched];
    Receiver::Method &method = receiver.methods[call->call.methodIdentity()];
    ++method.calls;
    if (call->isLatest())
        method.latest = call;
    call->next = std::exchange(receiver.last, call);
    if (call->next) {
        call->next->previous = call;
        return;
    }
    connect(call->watched, &QObject::destroyed, this, [this](QObject *object) { receiverDestroyed(object); });
    call->watched->installEventFilter(this);
}

void LockedCallQueue::unwatchReceiver(WaitingCall *call)
{
    const auto it = m_receivers.find(call->watched);
    if (it == m_receivers.end())
        return;
    const auto method = it->methods.find(call->call.methodIdentity());
    if (method->latest == call)
        method->latest = nullptr;
    if (--method->calls == 0)
        it->methods.erase(method);
    (call->previous ? call->previous->next : it->last) = call->next;
    if (call->next)
        call->next->previous = call->previous;
    call->previous = nullptr;
    call->next = nullptr;
    if (it->last)
        return;
    m_receivers.erase(it);
    if (call->call.receiver) {
        disconnect(call->watched, &QObject::destroyed, this, nullptr);
        call->watched->removeEventFilter(this);
    }
}

void LockedCallQueue::begin(WaitingCall *call)
{
    ++call->attempt;
    call->holds.clear();
    acquireNext(call);
}

void LockedCallQueue::acquireNext(WaitingCall *call)
{
    const qsizetype index = qsizetype(call->holds.size());
    if (index == call->call.requests.size()) {
        m_ready.push_back(call->id);
        postRun();
        return;
    }
    const LockRequest &request = call->call.requests.at(index);
    LockOptions options = request.options;
    const bool once = !request.mayWait();
    call->acquireDeadline = call->deadlineOf(index);
    if (once) {
        options.wait = 0ms;
    } else if (!call->acquireDeadline.isForever()) {
        // Not 0, which would try once.
        options.wait = std::max(milliseconds(call->acquireDeadline.remainingTime()), 1ms);
    }
    call->lastWait = options.wait;
    auto ended = [mailbox = m_mailbox, id = call->id, attempt = call->attempt] {
        mailbox->post({id, attempt, {}, {}});
    };
    // Only the last hold has a limit of its own; when that passes, the earlier holds are released with it.
    std::vector<std::weak_ptr<LockHold>> others(call->holds.begin(), call->holds.end());
    auto limitPassed = [others = std::move(others), method = call->call.method, request] {
        for (auto other = others.rbegin(); other != others.rend(); ++other) {
            if (const std::shared_ptr<LockHold> hold = other->lock())
                hold->release();
        }
        logReleased(method, request);
    };
    call->holds.push_back(LockService::instance()->acquire(request.address, options, std::move(ended), once,
                                                           {call->acquireDeadline, std::move(limitPassed)}));
}

void LockedCallQueue::acquireEnded(quint64 id, int attempt)
{
    WaitingCall *const call = m_current.value(id);
    if (!call || call->attempt != attempt)
        return;
    const LockResult result = call->holds.back()->result();
    const qsizetype index = qsizetype(call->holds.size()) - 1;
    const LockRequest &request = call->call.requests.at(index);
    if (result) {
        // use() of the last hold is called when the call runs.
        if (index + 1 < call->call.requests.size() && !call->holds.back()->use()) {
            if (!beginAgain(call))
                failCurrent(call, index, releasedBeforeItsTurn(request));
        } else {
            acquireNext(call);
        }
        return;
    }
    const bool waited = result.error == DistributedLock::TimeoutError
            || result.error == DistributedLock::ConnectionError;
    if (waited && call->acquireDeadline < call->deadlineOf(index) && beginAgain(call))
        return; // a newer call with a later deadline has replaced it since
    if (result.error == DistributedLock::ConnectionError && call->lastWait > 0ms && call->lastWait < EnoughForAReply
        && call->lastWait < request.options.wait) {
        failCurrent(call, index, timedOut(request));
    } else {
        failCurrent(call, index, result);
    }
}

bool LockedCallQueue::beginAgain(WaitingCall *call)
{
    if (call->deadline.hasExpired())
        return false;
    begin(call);
    return true;
}

void LockedCallQueue::failCurrent(WaitingCall *call, qsizetype request, const LockResult &result)
{
    CallPointer failed = takeCurrent(call);
    unwatchReceiver(call);
    while (!call->holds.empty())
        call->holds.pop_back();
    startNext(call->queue);
    end(std::move(failed), request, result);
}

void LockedCallQueue::end(CallPointer call, qsizetype request, const LockResult &result)
{
    m_ended.push_back({std::move(call), request, result});
    postRun();
}

void LockedCallQueue::postRun()
{
    if (!std::exchange(m_runPosted, true))
        QCoreApplication::postEvent(&m_runner, new QEvent(QEvent::User));
}

void LockedCallQueue::work()
{
    m_runPosted = false;
    const QPointer<LockedCallQueue> alive(this);
    const QDeadlineTimer turnEnds(TurnBudget, Qt::PreciseTimer);
    if (!m_ready.empty())
        runReady();
    while (alive && reportOne() && alive && !turnEnds.hasExpired())
        ;
    if (alive)
        armTimer();
}

bool LockedCallQueue::reportOne()
{
    while (!m_losses.empty() || !m_ended.empty() || !m_stalled.empty() || isDue()) {
        // Posted before code of the application runs, since that may run a nested event loop. (With GLib's dispatcher,
        // a nested loop sees earlier posted events only once another one is posted.)
        postRun();
        if (!m_losses.empty()) {
            const LockedCallInfo lost = std::move(m_losses.front());
            m_losses.pop_front();
            reportLoss(lost);
            return true;
        }
        if (!m_ended.empty()) {
            const Ended ended = std::move(m_ended.front());
            m_ended.pop_front();
            ended.report();
            return true;
        }
        if (isDue()) {
            WaitingCall *const due = m_deadlines.begin()->second;
            endTooLate(takeWaiting(m_queues.value(due->queue).get(), due->id));
            continue;
        }
        const QString name = std::move(m_stalled.front());
        m_stalled.pop_front();
        const std::shared_ptr<Queue> queue = m_queues.value(name);
        if (!queue || queue->current)
            continue;
        if (!queue->waiting.empty() && queue->waiting.begin()->second->isUnwanted()) {
            CallPointer unwanted = takeWaiting(queue.get(), queue->waiting.begin()->first);
            unwatchReceiver(unwanted.get());
            end(std::move(unwanted), -1, Detail::cancelledCall());
        }
        startNext(name);
    }
    return false;
}

bool LockedCallQueue::isDue() const
{
    return !m_deadlines.empty()
            && m_deadlines.begin()->first.first <= QDeadlineTimer::current(Qt::PreciseTimer).deadlineNSecs();
}

void LockedCallQueue::endTooLate(CallPointer call)
{
    unwatchReceiver(call.get());
    qsizetype first = 0;
    for (qsizetype i = 1; i < call->call.requests.size(); ++i) {
        if (call->deadlineOf(i) < call->deadlineOf(first))
            first = i;
    }
    const LockResult result = timedOut(call->call.requests.at(first));
    end(std::move(call), first, result);
}

void LockedCallQueue::runReady()
{
    WaitingCall *const call = m_current.value(m_ready.front());
    m_ready.pop_front();
    postRun(); // see reportOne()
    if (!call)
        return;
    const bool unwanted = call->isUnwanted();
    if (unwanted || call->call.objects.contains(nullptr)) {
        failCurrent(call, unwanted || call->call.requests.isEmpty() ? -1 : 0,
                    unwanted ? Detail::cancelledCall() : argumentDestroyed());
        return;
    }
    const auto lost = std::find_if_not(call->holds.begin(), call->holds.end(),
                                       [](const auto &hold) { return hold->isHeld(); });
    const bool released = !call->holds.empty() && !call->holds.back()->use();
    if (!released && lost == call->holds.end()) {
        run(takeCurrent(call));
        return;
    }
    const qsizetype index = released ? call->call.requests.size() - 1 : lost - call->holds.begin();
    const LockRequest &request = call->call.requests.at(index);
    if (!beginAgain(call)) {
        failCurrent(call, index, released ? releasedBeforeItsTurn(request) : lostBeforeItsTurn(request));
        return;
    }
    qCDebug(lcLock, "%ls: its lock was lost before the event loop ran the call; it is acquired again",
            qUtf16Printable(call->call.displayName()));
}

void LockedCallQueue::run(CallPointer call)
{
    const auto job = call->job;
    runUnderLocks(std::move(call));
    job->finish(); // the queue may have been destroyed
}

void LockedCallQueue::runUnderLocks(CallPointer call)
{
    unwatchReceiver(call.get());
    call->watcher.reset();
    const auto locks = std::make_shared<HeldLocks>(this, call->call, call->queue, std::move(call->holds));
    const auto job = std::move(call->job);
    const auto holds = locks->holds();
    const QList<LockRequest> requests = call->call.requests;
    const QString name = call->call.displayName();
    for (size_t i = 0; i < holds.size(); ++i) {
        const LockRequest &request = requests.at(qsizetype(i));
        ThreadLocks::push(request.address, holds[i]);
    }
    call.reset();

    const auto ended = qScopeGuard([&] { // also when the method throws
        for (auto hold = holds.rbegin(); hold != holds.rend(); ++hold)
            ThreadLocks::remove(*hold);
    });
    job->run(locks);
    if (locks.use_count() == 1)
        return;
    // The job keeps the locks until a future has finished.
    for (size_t i = 0; i < holds.size(); ++i) {
        const LockRequest &request = requests.at(qsizetype(i));
        ThreadLocks::addUnfinished(request.address, holds[i], name);
    }
}

void LockedCallQueue::released(const QString &queue, const QList<LockedCallInfo> &lost)
{
    m_losses.insert(m_losses.end(), lost.begin(), lost.end());
    if (!lost.isEmpty())
        postRun();
    startNext(queue);
}

void LockedCallQueue::startNext(const QString &name)
{
    const auto it = m_queues.find(name);
    if (it == m_queues.end() || it.value()->current)
        return;
    Queue &queue = *it.value();
    if (queue.waiting.empty()) {
        m_queues.erase(it);
        return;
    }
    const auto &first = *queue.waiting.begin();
    if (first.second->isUnwanted() || first.second->deadline.hasExpired()) {
        m_stalled.push_back(name); // reportOne() handles them, since there may be many
        postRun();
        return;
    }
    queue.current = takeWaiting(&queue, first.first);
    WaitingCall *const call = queue.current.get();
    m_current.insert(call->id, call);
    begin(call);
}

LockedCallQueue::CallPointer LockedCallQueue::takeCurrent(WaitingCall *call)
{
    m_current.remove(call->id);
    return std::move(m_queues.value(call->queue)->current);
}

LockedCallQueue::CallPointer LockedCallQueue::take(const QString &name, quint64 id)
{
    if (WaitingCall *const call = m_current.value(id)) {
        CallPointer taken = takeCurrent(call);
        taken->holds.clear();
        startNext(name);
        return taken;
    }
    const std::shared_ptr<Queue> queue = m_queues.value(name);
    return queue ? takeWaiting(queue.get(), id) : nullptr;
}

LockedCallQueue::CallPointer LockedCallQueue::takeWaiting(Queue *queue, quint64 id)
{
    const auto it = queue->waiting.find(id);
    if (it == queue->waiting.end())
        return nullptr;
    CallPointer taken = std::move(it->second);
    queue->waiting.erase(it);
    m_deadlines.erase({taken->deadline.deadlineNSecs(), id});
    return taken;
}

std::vector<LockedCallQueue::CallPointer> LockedCallQueue::takeAll(QObject *receiver, QStringList *stoppedQueues)
{
    std::vector<WaitingCall *> wanted;
    if (receiver) {
        for (WaitingCall *call = m_receivers.value(receiver).last; call; call = call->next)
            wanted.push_back(call);
    } else {
        for (const std::shared_ptr<Queue> &queue : std::as_const(m_queues)) {
            if (queue->current)
                wanted.push_back(queue->current.get());
            for (const auto &waiting : queue->waiting)
                wanted.push_back(waiting.second.get());
        }
    }
    std::sort(wanted.begin(), wanted.end(), [](const WaitingCall *a, const WaitingCall *b) { return a->id < b->id; });
    std::vector<CallPointer> taken;
    for (WaitingCall *const call : wanted) {
        const std::shared_ptr<Queue> queue = m_queues.value(call->queue);
        if (queue->current.get() == call) {
            stoppedQueues->append(call->queue);
            taken.push_back(takeCurrent(call));
        } else {
            taken.push_back(takeWaiting(queue.get(), call->id));
        }
    }
    for (const CallPointer &call : taken) {
        unwatchReceiver(call.get());
        while (!call->holds.empty())
            call->holds.pop_back();
    }
    return taken;
}

void LockedCallQueue::receiverDestroyed(QObject *receiver)
{
    QStringList stopped;
    std::vector<CallPointer> calls = takeAll(receiver, &stopped);
    for (const QString &queue : std::as_const(stopped))
        startNext(queue);
    for (CallPointer &call : calls)
        end(std::move(call), -1, Detail::cancelledCall());
}

bool LockedCallQueue::eventFilter(QObject *watched, QEvent *event)
{
    if (event->type() != QEvent::ThreadChange)
        return false;
    QStringList stopped;
    const auto moved = std::make_shared<std::vector<CallPointer>>(takeAll(watched, &stopped));
    for (const CallPointer &call : *moved)
        call->watcher.reset(); // lives in this thread
    const auto submitAll = [moved] {
        for (CallPointer &call : *moved)
            submit(std::move(call));
    };
    const auto endAll = [moved] {
        for (const CallPointer &call : *moved)
            call->fail(nullptr, threadEnded());
    };
    postToMoving(watched, this, submitAll, endAll);
    for (const QString &queue : std::as_const(stopped))
        startNext(queue);
    return false;
}

void LockedCallQueue::armTimer()
{
    if (m_deadlines.empty())
        return;
    const QDeadlineTimer &deadline = m_deadlines.begin()->second->deadline;
    if (m_timer.isActive() && !(deadline < m_timerDeadline))
        return;
    m_timerDeadline = deadline;
    const auto remaining = std::min<qint64>(deadline.remainingTime(), milliseconds(24h).count());
    m_timer.start(int(remaining), Qt::PreciseTimer, this);
}

void LockedCallQueue::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_timer.timerId())
        return;
    m_timer.stop();
    postRun();
}

void LockedCallQueue::customEvent(QEvent *)
{
    for (const Message &message : m_mailbox->takeAll()) {
        if (message.ended)
            acquireEnded(message.ended, message.attempt);
        else
            released(message.released, message.lost);
    }
}

} // namespace QDistLock
