// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/lockedcallqueue.h"

#include "annotations/threadcalls.h"
#include "background/lockservice.h"
#include "background/threadlocks.h"
#include "base/logging.h"

#include <QtCore/qscopeguard.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <set>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// If less than this was left of `wait` when the acquisition began, a missing reply is reported as a time-out, not as a
/// connection error.
constexpr milliseconds EnoughForAReply = 100ms;

// Why the wait of a call is over.
constexpr QStringView NotItsTurn =
        u"not acquired within %1 ms: its turn behind earlier calls of this thread came too late, or not at all; allow a longer wait or do less under the lock";
constexpr QStringView LostBeforeItsTurn =
        u"acquired, but lost before the event loop ran the call, and its wait of %1 ms is over; use a longer lease, renew it, or block the event loop for less long";
/// Because the event loop did not run: see UseLimit.
constexpr QStringView ReleasedBeforeItsTurn =
        u"acquired, but released again because the event loop of this thread did not run, and its wait of %1 ms is over; run exec() in this thread, block it for less long, or use ScopedLock, which needs no event loop";

// A lock of a call was lost.
constexpr QStringView LostWhileItRuns = u"lost, and the work under it goes on; stop it, it is no longer protected";
constexpr QStringView LostWhileItRan = u"lost while the method ran under it; what it did since then was not protected";

/// The request whose wait ends first.
qsizetype mostUrgent(const QList<LockRequest> &requests)
{
    return std::min_element(requests.begin(), requests.end(),
                            [](const LockRequest &left, const LockRequest &right) {
                                return left.options.wait < right.options.wait;
                            })
            - requests.begin();
}

/// \a index is the lock that the call waited for.
LockResult timedOut(const QList<LockRequest> &requests, qsizetype index, QStringView text)
{
    const QString wait = QString::number(requests.at(mostUrgent(requests)).options.wait.count());
    return {DistributedLock::TimeoutError, describeLock(requests.at(index), text.toString().arg(wait)), 0};
}

void logReleased(const std::shared_ptr<const LockedMethod> &method, const LockRequest &request)
{
    LockedCall call;
    call.method = method;
    const QString text =
            u"acquired, but released because the event loop of the thread that must run the call did not run; run exec() there, block that thread for less long, or use ScopedLock, which needs no event loop"_s;
    const QString line = u"%1: %2"_s.arg(call.displayName(), describeLock(request, text));
    qCWarning(lcLock, "%ls", qUtf16Printable(withFields(line, request.address.name())));
}

} // namespace

/// The locks of a running call. They are released with the last reference, in any thread.
class LockedCallQueue::HeldLocks
{
public:
    HeldLocks(ThreadCalls *thread, const LockedCall &call, const std::weak_ptr<LockedCallQueue> &queue,
              std::vector<std::shared_ptr<LockHold>> holds)
        : m_calls(thread)
        , m_thread(QThread::currentThread())
        , m_mailbox(thread->mailbox)
        , m_call(call)
        , m_queue(queue)
        , m_holds(std::move(holds))
    {
    }

    ~HeldLocks()
    {
        std::vector<size_t> lostHolds;
        for (size_t i = m_holds.size(); i-- > 0;) {
            if (!m_holds[i]->isHeld() && m_reported.count(i) == 0)
                lostHolds.push_back(i);
            if (m_holds[i]->leave()) // a scope that re-entered the lock may outlive the call
                m_holds[i]->release();
        }
        const bool wanted = m_mailbox->isOpen();
        QList<LockedCallInfo> lost;
        if (wanted) {
            // After the releases, because the message handler of the application may take long.
            for (const size_t i : lostHolds)
                lost.append(logLoss(i, LostWhileItRan));
        }
        if (wanted && QThread::currentThread() == m_thread)
            m_calls->receive({m_queue, Message::LocksReleased, 0, 0, lost});
        else
            m_mailbox->post({m_queue, Message::LocksReleased, 0, 0, lost});
    }

    /// In its thread, while the call runs or its future has not finished. Empty the second time.
    QList<LockedCallInfo> reportLoss(size_t index)
    {
        if (!m_reported.insert(index).second)
            return {};
        return {logLoss(index, LostWhileItRuns)};
    }

    const std::vector<std::shared_ptr<LockHold>> &holds() const { return m_holds; }
    void logException(const QString &what) const
    {
        const LockRequest *const request = m_call.requests.isEmpty() ? nullptr : &m_call.requests.first();
        const QString text = u"the work under it ended with an exception: %1"_s.arg(Detail::quoted(what));
        const LockResult result{DistributedLock::NoError, request ? describeLock(*request, text) : text, 0};
        const QString line = m_call.info(request, result).errorString;
        qCInfo(lcLock, "%ls", qUtf16Printable(request ? m_holds.front()->logLine(line, request->address) : line));
    }

private:
    Q_DISABLE_COPY_MOVE(HeldLocks)
    LockedCallInfo logLoss(size_t index, QStringView text) const
    {
        const LockRequest &request = m_call.requests.at(qsizetype(index));
        const LockResult result{DistributedLock::NoError, describeLock(request, text.toString()), 0};
        const LockedCallInfo info = m_call.info(&request, result);
        qCWarning(lcLock, "%ls", qUtf16Printable(m_holds[index]->logLine(info.errorString, request.address)));
        return info;
    }

    ThreadCalls *const m_calls; ///< to be used in its thread, while the mailbox is open
    QThread *const m_thread;
    const std::shared_ptr<Mailbox<Message>> m_mailbox;
    const LockedCall m_call;
    const std::weak_ptr<LockedCallQueue> m_queue;
    std::vector<std::shared_ptr<LockHold>> m_holds;
    std::set<size_t> m_reported; ///< the holds whose loss was reported before the end
};

LockedCallQueue::LockedCallQueue(ThreadCalls *thread, const QString &locks)
    : m_thread(thread)
    , m_locks(locks)
{
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
    call->queue = this;
    m_calls.emplace(call->id, std::move(newCall));
    if (m_state == Idle)
        begin();
    else
        m_thread->addDeadline(call);
}

CallPointer LockedCallQueue::take(const WaitingCall *call)
{
    const auto it = m_calls.find(call->id);
    if (it == m_calls.begin() && (m_state == Acquiring || m_state == Ready)) {
        m_state = Idle;
        while (!m_holds.empty())
            m_holds.pop_back();
    }
    CallPointer taken = std::move(it->second);
    m_calls.erase(it);
    taken->queue = nullptr;
    return taken;
}

void LockedCallQueue::startNext()
{
    if (m_state != Idle)
        return;
    if (m_calls.empty()) {
        m_thread->remove(m_locks);
        return;
    }
    if (first()->isUnwanted() || first()->deadline.hasExpired()) {
        m_state = Stalled;
        m_thread->setStalled(shared_from_this());
        return;
    }
    m_thread->removeDeadline(first());
    begin();
}

void LockedCallQueue::resume()
{
    const bool wasStalled = std::exchange(m_state, Idle) == Stalled;
    if (!m_calls.empty() && first()->isUnwanted())
        m_thread->end(first(), -1, Detail::cancelledCall());
    else if (wasStalled && !m_calls.empty() && first()->deadline.hasExpired())
        endTooLate(first()); // it cannot stall again
    else
        startNext();
}

void LockedCallQueue::endTooLate(WaitingCall *call)
{
    const qsizetype index = mostUrgent(call->call.requests);
    m_thread->end(call, index, timedOut(call->call.requests, index, NotItsTurn));
}

void LockedCallQueue::begin()
{
    ++m_attempt;
    m_state = Acquiring;
    m_holds.clear();
    acquireNext();
}

bool LockedCallQueue::beginAgain()
{
    if (first()->deadline.hasExpired())
        return false;
    begin();
    return true;
}

void LockedCallQueue::acquireNext()
{
    WaitingCall *const call = first();
    const qsizetype index = qsizetype(m_holds.size());
    if (index == call->call.requests.size()) {
        m_state = Ready;
        m_thread->setReady(shared_from_this());
        return;
    }
    const LockRequest &request = call->call.requests.at(index);
    LockOptions options = request.options;
    const bool once = !request.mayWait();
    m_acquireDeadline = call->deadlineOf(index);
    if (once) {
        options.wait = 0ms;
    } else if (!m_acquireDeadline.isForever()) {
        // Not 0, which would try once.
        options.wait = std::max(m_acquireDeadline.remaining(), 1ms);
    }
    m_lastWait = options.wait;
    auto ended = [mailbox = m_thread->mailbox, queue = weak_from_this(), attempt = m_attempt] {
        mailbox->post({queue, Message::AcquireEnded, attempt, 0, {}});
    };
    auto lost = [mailbox = m_thread->mailbox, queue = weak_from_this(), attempt = m_attempt, index] {
        mailbox->post({queue, Message::LockLost, attempt, index, {}});
    };
    // use() has ended the limits of the earlier holds; they are released with the last one when its limit passes.
    std::vector<std::weak_ptr<LockHold>> others(m_holds.begin(), m_holds.end());
    auto limitPassed = [others = std::move(others), method = call->call.method, request] {
        for (auto other = others.rbegin(); other != others.rend(); ++other) {
            if (const std::shared_ptr<LockHold> hold = other->lock())
                hold->release();
        }
        logReleased(method, request);
    };
    m_holds.push_back(LockService::instance()->acquire({request.address}, options, std::move(ended), once,
                                                       {m_acquireDeadline, std::move(limitPassed)}, std::move(lost)));
}

void LockedCallQueue::acquireEnded(int attempt)
{
    if (m_state != Acquiring || attempt != m_attempt)
        return;
    WaitingCall *const call = first();
    const LockResult result = m_holds.back()->result();
    const qsizetype index = qsizetype(m_holds.size()) - 1;
    const LockRequest &request = call->call.requests.at(index);
    if (result) {
        // use() of the last hold is called when the call runs.
        if (index + 1 < call->call.requests.size() && !m_holds.back()->use()) {
            if (!beginAgain())
                m_thread->end(call, index, timedOut(call->call.requests, index, ReleasedBeforeItsTurn));
        } else {
            acquireNext();
        }
        return;
    }
    const bool waited = result.error == DistributedLock::TimeoutError
            || result.error == DistributedLock::ConnectionError;
    if (waited && m_acquireDeadline < call->deadlineOf(index) && beginAgain())
        return; // a newer call with a later deadline has replaced it since
    if (result.error == DistributedLock::ConnectionError && m_lastWait > 0ms && m_lastWait < EnoughForAReply
        && m_lastWait < request.options.wait) {
        m_thread->end(call, index, timedOut(call->call.requests, index, NotItsTurn));
    } else {
        m_thread->end(call, index, result);
    }
}

QList<LockedCallInfo> LockedCallQueue::lockLost(int attempt, qsizetype lock)
{
    const std::shared_ptr<HeldLocks> locks = attempt == m_attempt ? m_heldLocks.lock() : nullptr;
    return locks ? locks->reportLoss(size_t(lock)) : QList<LockedCallInfo>();
}

void LockedCallQueue::runFirst()
{
    if (m_state != Ready)
        return;
    WaitingCall *const call = first();
    const bool unwanted = call->isUnwanted();
    if (unwanted || call->call.objects.contains(nullptr)) {
        m_thread->end(call, unwanted || call->call.requests.isEmpty() ? -1 : 0,
                      unwanted ? Detail::cancelledCall() : argumentDestroyed());
        return;
    }
    const auto lost = std::find_if_not(m_holds.begin(), m_holds.end(), [](const auto &hold) { return hold->isHeld(); });
    const bool released = !m_holds.empty() && !m_holds.back()->use();
    if (!released && lost == m_holds.end()) {
        const auto job = call->job;
        runUnderLocks();
        job->finish(); // this queue may have been destroyed
        return;
    }
    const qsizetype index = released ? call->call.requests.size() - 1 : lost - m_holds.begin();
    if (!beginAgain()) {
        m_thread->end(call, index,
                      timedOut(call->call.requests, index, released ? ReleasedBeforeItsTurn : LostBeforeItsTurn));
        return;
    }
    const QString line = u"%1: its lock was lost before the event loop ran the call; it is acquired again"_s.arg(
            call->call.displayName());
    qCDebug(lcLock, "%ls", qUtf16Printable(withFields(line, call->call.requests.at(index).address.name())));
}

void LockedCallQueue::runUnderLocks()
{
    m_state = Running;
    CallPointer call = m_thread->take(first());
    call->watcher.reset();
    const auto locks = std::make_shared<HeldLocks>(m_thread, call->call, weak_from_this(), std::exchange(m_holds, {}));
    m_heldLocks = locks;
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

} // namespace QDistLock
