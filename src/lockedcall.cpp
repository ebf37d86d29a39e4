// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockedcall.h"

#include "logging.h"
#include "threadcheck.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qcoreevent.h>
#include <QtCore/qmutex.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qthread.h>
#include <QtCore/qthreadstorage.h>

#include <algorithm>
#include <optional>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// Failures told in one turn of the event loop.
constexpr int FailuresInOneTurn = 32;
/// Less is left of a wait, and no answer only means that the call came to its turn too late.
constexpr milliseconds EnoughForAnAnswer = 100ms;

QThreadStorage<LockedCallQueue *> threadQueues;

QDeadlineTimer deadlineIn(milliseconds wait)
{
    // Longer ones overflow in QDeadlineTimer.
    return wait > 24h * 36500 ? QDeadlineTimer(QDeadlineTimer::Forever) : QDeadlineTimer(wait, Qt::PreciseTimer);
}

QString describeLock(const LockRequest &request, const QString &text)
{
    return QStringLiteral("Lock %1 on %2: %3").arg(Detail::quoted(request.name), request.serverText(), text);
}

/// Of a call that waited for its turn only.
LockResult timedOut(const LockRequest &request)
{
    const QString text = QStringLiteral("not acquired within %1 ms: its turn behind earlier calls of this thread came too "
                                        "late, or not at all; allow a longer wait or do less under the lock")
                                 .arg(request.options.wait.count());
    return {DistributedLock::TimeoutError, describeLock(request, text), 0};
}

/// Of a call whose wait was over when its lock turned out to be lost.
LockResult lostBeforeItsTurn(const LockRequest &request)
{
    const QString text = QStringLiteral("acquired, but lost again before the event loop came round to the call, and its "
                                        "wait of %1 ms is over; use a longer lease, renew it, or block the event loop "
                                        "for less long")
                                 .arg(request.options.wait.count());
    return {DistributedLock::TimeoutError, describeLock(request, text), 0};
}

} // namespace

struct LockedCallQueue::Message
{
    quint64 ended = 0; ///< the call whose acquire ended; 0 = none
    int attempt = 0;
    QString released; ///< the queue whose locks were given back
};

/// Where other threads leave messages for a queue that may have gone.
class LockedCallQueue::Mailbox
{
public:
    void open(LockedCallQueue *queue) { m_queue = queue; }
    void close()
    {
        const QMutexLocker locker(&m_mutex);
        m_queue = nullptr;
        m_messages.clear();
    }
    bool isOpen() const
    {
        const QMutexLocker locker(&m_mutex);
        return m_queue != nullptr;
    }
    void post(Message message)
    {
        const QMutexLocker locker(&m_mutex);
        if (!m_queue)
            return;
        m_messages.push_back(std::move(message));
        if (m_messages.size() == 1)
            postEvent();
    }
    /// The oldest, once for each event: the next one comes in an event loop that this one may run.
    std::optional<Message> take()
    {
        const QMutexLocker locker(&m_mutex);
        if (m_messages.empty())
            return std::nullopt; // it is closed
        Message message = std::move(m_messages.front());
        m_messages.pop_front();
        if (!m_messages.empty())
            postEvent();
        return message;
    }

private:
    void postEvent() { QCoreApplication::postEvent(m_queue, new QEvent(QEvent::User)); }

    mutable QMutex m_mutex;
    LockedCallQueue *m_queue = nullptr;
    std::deque<Message> m_messages; ///< with one event posted while there are any
};

/// What a running call holds. Whoever gives up the last reference, in any thread, gives it back.
class LockedCallQueue::Locks
{
public:
    Locks(LockedCallQueue *owner, const LockedCall &call, const QString &queue,
          std::vector<std::shared_ptr<LockHold>> holds)
        : m_owner(owner)
        , m_ownerThread(QThread::currentThread())
        , m_mailbox(owner->m_mailbox)
        , m_call(call)
        , m_queue(queue)
        , m_holds(std::move(holds))
    {
    }

    ~Locks()
    {
        QList<LockRequest> lost;
        for (size_t i = m_holds.size(); i-- > 0;) {
            if (!m_holds[i]->isHeld())
                lost.append(m_call.requests.at(qsizetype(i)));
            if (m_holds[i]->leave()) // a scope that re-entered it may live on
                m_holds[i]->release();
        }
        const bool wanted = m_mailbox->isOpen();
        if (wanted && QThread::currentThread() == m_ownerThread)
            m_owner->startNext(m_queue);
        else
            m_mailbox->post({0, 0, m_queue});
        if (!wanted)
            return;
        for (const LockRequest &request : std::as_const(lost))
            tellLoss(request);
    }

    const std::vector<std::shared_ptr<LockHold>> &holds() const { return m_holds; }
    void logException(const QString &what) const
    {
        const LockRequest *const request = m_call.requests.isEmpty() ? nullptr : &m_call.requests.first();
        const QString text = QStringLiteral("the work under it ended with an exception: %1").arg(Detail::quoted(what));
        const LockResult result{DistributedLock::NoError, request ? describeLock(*request, text) : text, 0};
        qCInfo(lcLock, "%ls", qUtf16Printable(m_call.info(request, result).errorString));
    }

private:
    Q_DISABLE_COPY_MOVE(Locks)
    void tellLoss(const LockRequest &request) const
    {
        const LockResult result{DistributedLock::NoError,
                                describeLock(request, QStringLiteral("lost while the method ran under it; what it did "
                                                                     "since then was not protected")),
                                0};
        const LockedCallInfo info = m_call.info(&request, result);
        qCWarning(lcLock, "%ls", qUtf16Printable(info.errorString));
        if (LockedCalls *const calls = LockedCalls::instance())
            Q_EMIT calls->lost(info);
    }

    LockedCallQueue *const m_owner; ///< to be used in its thread, while the mailbox is open
    QThread *const m_ownerThread;
    const std::shared_ptr<Mailbox> m_mailbox;
    const LockedCall m_call;
    const QString m_queue;
    std::vector<std::shared_ptr<LockHold>> m_holds;
};

LockResult argumentDestroyed()
{
    return {DistributedLock::CancelledError,
            QStringLiteral("an object among its arguments was destroyed before the call could run; "
                           "keep it until then, or pass what identifies it"),
            0};
}

QString LockedCall::displayName() const
{
    if (className.isEmpty())
        return QStringLiteral("withLock()");
    return QString::fromLatin1(methodName.isEmpty() ? className : className + "::" + methodName);
}

LockedCallInfo LockedCall::info(const LockRequest *request, const LockResult &result) const
{
    LockedCallInfo info;
    info.receiver = receiver;
    info.className = className;
    info.method = methodName;
    if (request) {
        info.lock = request->name;
        info.server = request->serverText();
    }
    info.error = result.error;
    const QString name = displayName();
    info.errorString = result.errorString.startsWith(name) ? result.errorString
                                                           : QStringLiteral("%1: %2").arg(name, result.errorString);
    return info;
}

WaitingCall::WaitingCall(const LockedCall &call, const std::shared_ptr<Detail::LockedJob> &job)
    : call(call)
    , job(job)
{
    for (const LockRequest &request : std::as_const(call.requests)) {
        deadlines.push_back(deadlineIn(request.options.wait));
        deadline = std::min(deadline, deadlines.back());
    }
}

bool WaitingCall::mayWait() const
{
    return std::all_of(call.requests.begin(), call.requests.end(), [](const LockRequest &request) {
        return request.onBusy == OnBusy::Wait && request.options.wait > 0ms;
    });
}

void WaitingCall::fail(const LockRequest *request, const LockResult &result) const
{
    const bool skipped = request && request->onBusy == OnBusy::Skip && result.error == DistributedLock::BusyError;
    const bool told = job->fail(result, skipped);
    const LockedCallInfo info = call.info(request, result);
    LockedCalls *const calls = LockedCalls::instance();
    // Whoever takes a call back, or lets its receiver go, knows of it; not so with an argument.
    const bool cancelled = result.error == DistributedLock::CancelledError
            && !(call.receiver && call.arguments.contains(nullptr));
    // Its future may have been dropped.
    if (told && !skipped && !cancelled) {
        // A warning for what only a change of the program can mend.
        if (result.error == DistributedLock::NameError || result.error == DistributedLock::OptionsError)
            qCWarning(lcLock, "%ls", qUtf16Printable(info.errorString));
        else
            qCInfo(lcLock, "%ls", qUtf16Printable(info.errorString));
        return;
    }
    if (skipped || cancelled) {
        qCDebug(lcLock, "%ls", qUtf16Printable(info.errorString));
        if (!told && calls && skipped)
            Q_EMIT calls->skipped(info);
        return;
    }
    qCWarning(lcLock, "%ls; the call was dropped", qUtf16Printable(info.errorString));
    if (calls)
        Q_EMIT calls->failed(info);
}

LockedCallQueue *LockedCallQueue::instance()
{
    if (!threadQueues.hasLocalData()) {
        threadQueues.setLocalData(new LockedCallQueue);
        const auto *const application = QCoreApplication::instance();
        // The main thread's storage outlives the application object.
        if (application && application->thread() == QThread::currentThread())
            qAddPostRoutine([] { threadQueues.setLocalData(nullptr); });
    }
    return threadQueues.localData();
}

LockedCallQueue::LockedCallQueue()
    : m_mailbox(std::make_shared<Mailbox>())
{
    m_mailbox->open(this);
}

LockedCallQueue::~LockedCallQueue()
{
    m_mailbox->close();
    QStringList ignored;
    const std::vector<CallPointer> calls = takeAll(nullptr, &ignored);
    for (const CallPointer &call : calls)
        call->fail(nullptr, Detail::cancelledCall());
}

void LockedCallQueue::logException(const std::shared_ptr<void> &locks)
{
    QString what = QStringLiteral("not a std::exception");
    try {
        throw;
    } catch (const std::exception &exception) {
        what = QString::fromUtf8(exception.what());
    } catch (...) {
    }
    static_cast<const Locks *>(locks.get())->logException(what);
}

void LockedCallQueue::add(CallPointer newCall)
{
    if (const QString problem = noEventLoop("it"); !problem.isEmpty()) {
        const QList<LockRequest> &requests = newCall->call.requests;
        const LockRequest *const request = requests.isEmpty() ? nullptr : &requests.first();
        newCall->fail(request, {DistributedLock::OptionsError, request ? describeLock(*request, problem) : problem, 0});
        return;
    }
    WaitingCall *const call = newCall.get();
    call->id = ++m_lastId;
    call->queue.clear();
    for (const LockRequest &request : std::as_const(call->call.requests))
        call->queue += request.lockId() + QChar(QChar::Null);
    if (call->queue.isEmpty())
        call->queue = QString::number(call->id); // needs no lock, so waits for nobody

    std::shared_ptr<Queue> &queue = m_queues[call->queue];
    if (queue && !call->mayWait()) {
        const auto strict = std::find_if(call->call.requests.cbegin(), call->call.requests.cend(), [](const auto &request) {
            return request.onBusy != OnBusy::Wait || request.options.wait == 0ms;
        });
        newCall->fail(&*strict,
                      {DistributedLock::BusyError,
                       describeLock(*strict, QStringLiteral("another call of this thread runs under it or waits for it")),
                       0});
        return;
    }
    watch(call);
    if (queue) {
        queue->waiting.push_back(std::move(newCall));
        schedule(call->deadline);
        return;
    }
    queue = std::make_shared<Queue>();
    queue->current = std::move(newCall);
    m_current.insert(call->id, call);
    begin(call);
}

void LockedCallQueue::watch(WaitingCall *call)
{
    call->watcher = call->job->makeWatcher();
    if (call->watcher) {
        connect(call->watcher.get(), &QFutureWatcherBase::canceled, this, [this, queue = call->queue, id = call->id] {
            const CallPointer taken = take(queue, id);
            if (!taken)
                return;
            taken->watcher.release()->deleteLater(); // it is telling of it just now
            unwatch(taken.get());
            taken->holds.clear();
            taken->fail(nullptr, Detail::cancelledCall());
        });
    }
    call->watched = call->call.receiver;
    if (!call->watched || m_watched[call->watched]++ > 0)
        return;
    connect(call->watched, &QObject::destroyed, this, [this](QObject *receiver) { receiverDestroyed(receiver); });
    call->watched->installEventFilter(this);
}

void LockedCallQueue::unwatch(WaitingCall *call)
{
    call->watcher.reset();
    const auto it = m_watched.find(call->watched);
    if (it == m_watched.end() || --it.value() > 0)
        return;
    m_watched.erase(it);
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
    const size_t index = call->holds.size();
    if (index == size_t(call->call.requests.size())) {
        m_ready.push_back(call->id);
        postRun();
        return;
    }
    const LockRequest &request = call->call.requests.at(qsizetype(index));
    LockOptions options = request.options;
    const bool once = request.onBusy != OnBusy::Wait || options.wait == 0ms;
    if (once) {
        options.wait = 0ms;
    } else if (const QDeadlineTimer &deadline = call->deadlines.at(index); !deadline.isForever()) {
        // Never 0, which means something else.
        options.wait = std::max(milliseconds(deadline.remainingTime()), 1ms);
    }
    call->lastWait = options.wait;
    auto ended = [mailbox = m_mailbox, id = call->id, attempt = call->attempt] { mailbox->post({id, attempt, {}}); };
    call->holds.push_back(
            LockService::instance()->acquire(request.server, request.name, options, std::move(ended), once));
}

void LockedCallQueue::acquireEnded(quint64 id, int attempt)
{
    WaitingCall *const call = m_current.value(id);
    if (!call || call->attempt != attempt)
        return;
    const LockResult result = call->holds.back()->result();
    if (result) {
        acquireNext(call);
        return;
    }
    const LockRequest request = call->call.requests.at(qsizetype(call->holds.size()) - 1);
    if (result.error == DistributedLock::ConnectionError && call->lastWait > 0ms && call->lastWait < EnoughForAnAnswer
        && call->lastWait < request.options.wait) {
        failCurrent(call, request, timedOut(request));
    } else {
        failCurrent(call, request, result);
    }
}

void LockedCallQueue::failCurrent(WaitingCall *call, const LockRequest &request, const LockResult &result)
{
    const CallPointer failed = takeCurrent(call);
    unwatch(call);
    while (!call->holds.empty())
        call->holds.pop_back();
    startNext(call->queue);
    failed->fail(&request, result);
}

void LockedCallQueue::postRun()
{
    if (!std::exchange(m_runPosted, true))
        QCoreApplication::postEvent(&m_runner, new QEvent(QEvent::User));
}

void LockedCallQueue::runReady()
{
    m_runPosted = false;
    if (m_ready.empty())
        return;
    WaitingCall *const call = m_current.value(m_ready.front());
    m_ready.pop_front();
    // Before, and even for nobody: what is called here may run an event loop of its own, and Qt's sees what was posted
    // before it began only once something else is posted (GLib's dispatcher).
    postRun();
    if (!call)
        return;
    const bool unwanted = call->job->isCanceled() || (call->watched && !call->call.receiver);
    if (unwanted || call->call.arguments.contains(nullptr)) {
        const CallPointer dropped = takeCurrent(call);
        unwatch(call);
        call->holds.clear();
        startNext(call->queue);
        const QList<LockRequest> &requests = dropped->call.requests;
        if (unwanted)
            dropped->fail(nullptr, Detail::cancelledCall());
        else
            dropped->fail(requests.isEmpty() ? nullptr : &requests.first(), argumentDestroyed());
        return;
    }
    const auto lost = std::find_if_not(call->holds.begin(), call->holds.end(),
                                       [](const auto &hold) { return hold->isHeld(); });
    if (lost != call->holds.end() && call->deadline.hasExpired()) {
        const LockRequest request = call->call.requests.at(lost - call->holds.begin());
        failCurrent(call, request, lostBeforeItsTurn(request));
        return;
    }
    if (lost != call->holds.end()) {
        qCDebug(lcLock,
                "%ls: its lock was lost before the event loop came round; it is acquired anew",
                qUtf16Printable(call->call.displayName()));
        begin(call);
        return;
    }
    run(takeCurrent(call));
}

void LockedCallQueue::run(CallPointer call)
{
    const auto job = call->job;
    runUnderLocks(std::move(call));
    job->tell(); // the queue may have gone
}

void LockedCallQueue::runUnderLocks(CallPointer call)
{
    unwatch(call.get());
    const auto locks = std::make_shared<Locks>(this, call->call, call->queue,
                                               std::move(call->holds));
    const auto job = std::move(call->job);
    const auto holds = locks->holds();
    const QList<LockRequest> requests = call->call.requests;
    const QString name = call->call.displayName();
    for (size_t i = 0; i < holds.size(); ++i) {
        const LockRequest &request = requests.at(qsizetype(i));
        ThreadLocks::push(request.server, request.key(), holds[i]);
    }
    call.reset();

    const auto ended = qScopeGuard([&] { // also when the method throws
        for (auto hold = holds.rbegin(); hold != holds.rend(); ++hold)
            ThreadLocks::remove(*hold);
    });
    job->run(locks);
    if (locks.use_count() == 1)
        return;
    // They are kept until a future has finished.
    for (size_t i = 0; i < holds.size(); ++i) {
        const LockRequest &request = requests.at(qsizetype(i));
        ThreadLocks::addUnfinished(request.server, request.key(), holds[i], name);
    }
}

void LockedCallQueue::startNext(const QString &name)
{
    const auto it = m_queues.find(name);
    if (it == m_queues.end() || it.value()->current)
        return;
    Queue &queue = *it.value();
    while (!queue.waiting.empty() && queue.waiting.front()->deadline.hasExpired()) {
        m_expired.push_back(std::move(queue.waiting.front()));
        queue.waiting.pop_front();
    }
    if (queue.waiting.empty()) {
        m_queues.erase(it);
        return;
    }
    queue.current = std::move(queue.waiting.front());
    queue.waiting.pop_front();
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
    const auto takeFrom = [id](std::deque<CallPointer> &calls) {
        const auto it = std::find_if(calls.begin(), calls.end(), [id](const CallPointer &call) { return call->id == id; });
        CallPointer taken;
        if (it != calls.end()) {
            taken = std::move(*it);
            calls.erase(it);
        }
        return taken;
    };
    CallPointer taken = takeFrom(m_expired);
    if (const std::shared_ptr<Queue> queue = m_queues.value(name); !taken && queue)
        taken = takeFrom(queue->waiting);
    return taken;
}

std::vector<LockedCallQueue::CallPointer> LockedCallQueue::takeAll(const QObject *receiver, QStringList *stoppedQueues)
{
    std::vector<CallPointer> taken;
    const auto wanted = [receiver](const CallPointer &call) { return !receiver || call->watched == receiver; };
    const auto takeFrom = [&](std::deque<CallPointer> &calls) {
        const auto rest = std::stable_partition(calls.begin(), calls.end(),
                                                [&](const CallPointer &call) { return !wanted(call); });
        std::move(rest, calls.end(), std::back_inserter(taken));
        calls.erase(rest, calls.end());
    };
    takeFrom(m_expired);
    for (auto it = m_queues.cbegin(); it != m_queues.cend(); ++it) {
        Queue &queue = *it.value();
        if (queue.current && wanted(queue.current)) {
            m_current.remove(queue.current->id);
            taken.push_back(std::move(queue.current));
            stoppedQueues->append(it.key());
        }
        takeFrom(queue.waiting);
    }
    std::sort(taken.begin(), taken.end(), [](const CallPointer &a, const CallPointer &b) { return a->id < b->id; });
    for (const CallPointer &call : taken) {
        unwatch(call.get());
        while (!call->holds.empty())
            call->holds.pop_back();
    }
    return taken;
}

void LockedCallQueue::receiverDestroyed(QObject *receiver)
{
    QStringList stopped;
    const std::vector<CallPointer> calls = takeAll(receiver, &stopped);
    for (const QString &queue : std::as_const(stopped))
        startNext(queue);
    for (const CallPointer &call : calls)
        call->fail(nullptr, Detail::cancelledCall());
}

bool LockedCallQueue::eventFilter(QObject *watched, QEvent *event)
{
    if (event->type() != QEvent::ThreadChange)
        return false;
    // They go with their receiver: so does what is posted to it.
    QStringList stopped;
    const auto calls = std::make_shared<std::vector<CallPointer>>(takeAll(watched, &stopped));
    QMetaObject::invokeMethod(
            watched,
            [calls] {
                for (CallPointer &call : *calls)
                    LockedCallQueue::instance()->add(std::move(call));
            },
            Qt::QueuedConnection);
    for (const QString &queue : std::as_const(stopped))
        startNext(queue);
    return false;
}

void LockedCallQueue::schedule(const QDeadlineTimer &deadline)
{
    if (deadline.isForever() || !(deadline < m_timerDeadline))
        return;
    m_timerDeadline = deadline;
    const auto remaining = std::min<qint64>(deadline.remainingTime(), milliseconds(24h).count());
    m_timer.start(int(remaining), Qt::PreciseTimer, this);
}

void LockedCallQueue::timerEvent(QTimerEvent *event)
{
    if (event->timerId() == m_timer.timerId())
        expire();
}

void LockedCallQueue::expire()
{
    m_timer.stop();
    m_timerDeadline = QDeadlineTimer(QDeadlineTimer::Forever);
    QDeadlineTimer next(QDeadlineTimer::Forever);
    for (const std::shared_ptr<Queue> &queue : std::as_const(m_queues)) {
        std::deque<CallPointer> waiting;
        for (CallPointer &call : queue->waiting) {
            if (call->deadline.hasExpired()) {
                m_expired.push_back(std::move(call));
            } else {
                next = std::min(next, call->deadline);
                waiting.push_back(std::move(call));
            }
        }
        queue->waiting = std::move(waiting);
    }
    // At once: whoever is told of the first may run an event loop of its own.
    schedule(m_expired.size() > 1 ? QDeadlineTimer(0, Qt::PreciseTimer) : next);
    for (int i = 0; i < FailuresInOneTurn && !m_expired.empty(); ++i) {
        const CallPointer call = std::move(m_expired.front());
        m_expired.pop_front();
        unwatch(call.get());
        const auto index = std::min_element(call->deadlines.begin(), call->deadlines.end()) - call->deadlines.begin();
        const LockRequest &request = call->call.requests.at(index);
        call->fail(&request, timedOut(request));
    }
}

void LockedCallQueue::customEvent(QEvent *)
{
    const std::optional<Message> message = m_mailbox->take();
    if (!message)
        return;
    if (message->ended)
        acquireEnded(message->ended, message->attempt);
    else
        startNext(message->released);
}

} // namespace QDistLock
