// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockregistry_p.h"

#include "base/logging.h"
#include "base/nestedloop.h"
#include "engine/enginefactory.h"
#include "engine/servername.h"
#include "engine/token.h"
#include "lock/distributedlock_p.h"
#include "lock/resolvedaddress.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qpointer.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <exception>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

/// An outage ends when the server has been usable for this long.
constexpr milliseconds UsableAgain = 1s;

/// Deliveries go on for this long. Then the event loop runs before the others.
constexpr milliseconds LongestDelivery = 10ms;

/// The registries of all threads.
struct AllRegistries
{
    QMutex mutex;
    QSet<LockRegistryPrivate *> registries;
};
Q_GLOBAL_STATIC(AllRegistries, allRegistries)

/// Releases the locks when the program ends without destroying its registries: after exit() in a slot, or if nobody
/// owns a registry.
struct AtExit
{
    ~AtExit()
    {
        AllRegistries *const all = allRegistries();
        const QMutexLocker locker(&all->mutex);
        for (LockRegistryPrivate *registry : std::as_const(all->registries)) {
            if (registry->thread() == QThread::currentThread())
                registry->abandonLocks();
        }
    }
};

} // namespace

LockRegistryPrivate::LockRegistryPrivate(LockRegistry *registry, const QUrl &url)
    : url(normalizedServer(url))
    , serverText(withoutSecrets(this->url).toString())
    , q(registry)
    , m_watchdog(LeaseClock::system())
{
    connect(&m_evictionTimer, &QTimer::timeout, this, &LockRegistryPrivate::evict);
    m_nestedLoopTimer.setSingleShot(true);
    connect(&m_nestedLoopTimer, &QTimer::timeout, this, [this] {
        m_deliveryTime.invalidate();
        deliver();
    });
    if (AllRegistries *const all = allRegistries()) {
        const QMutexLocker locker(&all->mutex);
        all->registries.insert(this);
    }
}

LockRegistryPrivate::~LockRegistryPrivate()
{
    if (AllRegistries *const all = allRegistries()) {
        const QMutexLocker locker(&all->mutex);
        all->registries.remove(this);
    }
}

bool LockRegistryPrivate::isHeldInThisThread(const LockAddress &address)
{
    AllRegistries *const all = allRegistries();
    if (!all)
        return false;
    const QByteArray bytes = Detail::nameBytes(keyOf(address));
    const QMutexLocker locker(&all->mutex);
    for (const LockRegistryPrivate *registry : std::as_const(all->registries)) {
        if (registry->thread() == QThread::currentThread() && isSameLockSpace(registry->url, address.server())
            && std::any_of(registry->m_locks.cbegin(), registry->m_locks.cend(),
                           [&](const LockDriver *lock) { return lock->holds(bytes); })) {
            return true;
        }
    }
    return false;
}

void LockRegistryPrivate::close()
{
    const auto detachLocks = [this] {
        while (!m_locks.isEmpty())
            (*m_locks.cbegin())->registryDestroyed();
    };
    detachLocks();
    runPending(EngineError::permanent(DistributedLock::CancelledError, u"the registry was destroyed"_s));
    if (m_reporter)
        m_reporter->reportNow();
    m_reporter.reset();
    m_engine.reset(); // gives back the requests that it has not answered
    // The remaining futures end here and not in the destructors of members, because a continuation may call the
    // registry again, create a lock, or run an event loop.
    m_closed = true;
    std::exchange(m_deliveries, {}).clear();
    detachLocks();
}

void LockRegistryPrivate::abandonLocks()
{
    if (url.scheme() == QLatin1String("memory"))
        return; // these locks end with the process
    for (LockDriver *lock : std::as_const(m_locks))
        lock->abandon();
    m_engine.reset();
}

void LockRegistryPrivate::setClock(const LeaseClock *clock)
{
    Q_ASSERT(!m_engine);
    m_watchdog.setClock(clock);
}

LockEngine *LockRegistryPrivate::engine(EngineError *engineError)
{
    if (m_closed) {
        *engineError = EngineError::permanent(DistributedLock::ConnectionError, u"its registry is being destroyed"_s);
        return nullptr;
    }
    if (!m_engine && !m_urlError) {
        m_engine = EngineFactory::create(url, m_watchdog.clock(), &m_urlError);
        if (m_engine) {
            m_engine->setNeed([this](const LockEngine::LockFilter &filter) { return need(filter); });
            m_engine->setWaiters([this](quint64 sequence) -> std::optional<LockEngine::Waiter> {
                const LockDriver *const lock = m_routes.value(sequence);
                return lock ? std::optional(lock->waiter()) : std::nullopt;
            });
            connect(m_engine.get(), &LockEngine::stateChanged, this, &LockRegistryPrivate::engineStateChanged);
            connect(m_engine.get(), &LockEngine::failed, this, &LockRegistryPrivate::engineFailed);
            connect(m_engine.get(), &LockEngine::noticed, this,
                    [this](LockEngine::Notice notice, quint64 sequence, milliseconds ms) {
                        if (LockDriver *lock = m_routes.value(sequence))
                            lock->noticed(notice, ms);
                    });
            connect(m_engine.get(), &LockEngine::handedOver, this, [this](const LockEngine::Handover &handover) {
                LockDriver *const lock = m_routes.value(Token::sequenceOf(handover.token));
                if (lock && lock->waiter().token == handover.token)
                    lock->handedOver(handover);
                else // the lock was given up, or the place in the queue was forged
                    m_engine->abandon(handover.lock, handover.token, handover.lease, 0ms, handover.lease);
            });
            connect(m_engine.get(), &LockEngine::messageReceived, this, &LockRegistryPrivate::messageReceived);
            connect(m_engine.get(), &LockEngine::processed, this, [this] {
                if (!m_deliveries.empty() && !m_postedDelivery.isPosted())
                    deliver();
            });
            connect(m_engine.get(), &LockEngine::wakeableChanged, this,
                    [this](const LockEngine::LockFilter &concerned) {
                        const auto locks = locksInTurn(concerned);
                        for (LockDriver *lock : locks)
                            lock->wakeableChanged();
                    });
            connect(m_engine.get(), &LockEngine::serverReplaced, this, [this](const LockEngine::LockFilter &concerned) {
                const auto locks = locksInTurn(concerned);
                for (LockDriver *lock : locks)
                    lock->serverReplaced();
            });
        } else {
            error = m_urlError;
        }
    }
    if (!m_engine)
        *engineError = m_urlError;
    return m_engine.get();
}

EngineError LockRegistryPrivate::goneError(const QString &reason)
{
    return EngineError::permanent(DistributedLock::ConnectionError,
                                  reason + u"; give it another one with setRegistry()"_s);
}

QString LockRegistryPrivate::destroyedReason()
{
    return u"its registry was destroyed"_s;
}

QString LockRegistryPrivate::leftBehindReason()
{
    return u"it was moved to another thread after its first use, and its registry was not"_s;
}

QString LockRegistryPrivate::describe(const LockRegistryPrivate *registry, const QString &subject, const QString &text)
{
    const QString server = registry ? registry->serverText : QString();
    if (server.isEmpty() || text.contains(server))
        return u"%1: %2"_s.arg(subject, text);
    return u"%1 on %2: %3"_s.arg(subject, server, text);
}

EngineError LockRegistryPrivate::inheritedError()
{
    return EngineError::permanent(
            DistributedLock::ConnectionError,
            u"this process is a fork of the one that made the registry; call exec() in it, fork before the first use of a lock, or make a new LockRegistry here"_s);
}

void LockRegistryPrivate::detach(LockDriver *lock)
{
    m_watchdog.forget(lock);
    m_locks.remove(lock);
    if (m_reporter)
        m_reporter->forget(lock);
}

QList<LockDriver *> LockRegistryPrivate::locksInTurn(const LockEngine::LockFilter &filter) const
{
    QList<LockDriver *> locks(m_locks.cbegin(), m_locks.cend());
    if (filter)
        locks.removeIf([&filter](const LockDriver *lock) { return !filter(lock->presentLockId()); });
    std::sort(locks.begin(), locks.end(), [](const auto *a, const auto *b) { return a->turn < b->turn; });
    return locks;
}

void LockRegistryPrivate::deliverLater(DistributedLockPrivate *lock)
{
    if (lock->deliveryTicket != 0)
        return;
    lock->deliveryTicket = m_firstTicket + m_deliveries.size();
    m_deliveries.push_back({lock, nullptr});
    postDelivery();
}

void LockRegistryPrivate::deliverLater(std::function<void()> function)
{
    if (m_closed) {
        // Destroyed by an event: a continuation that asks again on each failure would otherwise keep the destructor
        // from returning.
        if (QObject *const dispatcher = QAbstractEventDispatcher::instance()) {
            QMetaObject::invokeMethod(
                    dispatcher, [function = std::move(function)] { Q_UNUSED(function) }, Qt::QueuedConnection);
        }
        return;
    }
    m_deliveries.push_back({nullptr, std::move(function)});
    postDelivery();
}

void LockRegistryPrivate::cancelDelivery(DistributedLockPrivate *lock)
{
    if (lock->deliveryTicket == 0 || lock->deliveryTicket == NoTicket)
        return;
    m_deliveries[size_t(std::exchange(lock->deliveryTicket, 0) - m_firstTicket)].lock = nullptr;
    while (!m_deliveries.empty() && !m_deliveries.back().lock && !m_deliveries.back().function)
        m_deliveries.pop_back();
}

void LockRegistryPrivate::postDelivery()
{
    // An event costs another turn of the event loop. None is needed inside deliver(), which posts one at its end (if a
    // slot runs a nested event loop, the timer delivers), nor before processed().
    if (m_nestedLoopTimer.isActive() || (m_engine && m_engine->isProcessing()))
        return;
    m_postedDelivery.post();
}

void LockRegistryPrivate::deliver()
{
    // Slots run in here. If one of them runs a nested event loop, the timer delivers the others in that loop, and the
    // operations requested meanwhile are sent.
    const QPointer<LockRegistry> alive(q);
    ++m_delivering;
    if (m_engine)
        m_engine->cork();
    const auto end = qScopeGuard([this, &alive, exceptions = std::uncaught_exceptions()] {
        if (std::uncaught_exceptions() > exceptions) {
            qCWarning(
                    lcLock,
                    "A slot that was called by a lock has thrown an exception, which Qt does not support: catch it in the slot. The locks go on");
        }
        if (alive)
            endDelivery();
    });
    // Deliveries that slots cause wait for the next event, so that the event loop can process other events between.
    for (size_t left = m_deliveries.size(); left > 0 && !m_deliveries.empty() && !isTimeOver(); --left) {
        if (!m_deliveryTime.isValid())
            m_deliveryTime.start();
        const Delivery delivery = std::move(m_deliveries.front());
        m_deliveries.pop_front();
        ++m_firstTicket;
        if (!m_nestedLoopTimer.isActive())
            m_nestedLoopTimer.start(1ms);
        if (delivery.lock) {
            delivery.lock->deliveryTicket = 0;
            delivery.lock->deliver();
        } else if (delivery.function) {
            delivery.function();
        }
        if (!alive)
            return;
    }
}

bool LockRegistryPrivate::isTimeOver() const
{
    return m_deliveryTime.isValid() && m_deliveryTime.hasExpired(LongestDelivery.count());
}

/// Also after an exception.
void LockRegistryPrivate::endDelivery()
{
    m_nestedLoopTimer.stop();
    if (m_engine)
        m_engine->uncork();
    if (--m_delivering > 0)
        wakeNestedLoop();
    if (m_deliveries.empty())
        m_deliveryTime.invalidate();
    else if (isTimeOver())
        m_nestedLoopTimer.start(0ms); // a posted event could be processed before the loop has looked at anything else
    else
        postDelivery();
}

void LockRegistryPrivate::messageReceived(const QByteArray &message)
{
    const auto request = WatchRequest::parse(message);
    if (!request)
        return; // a monitor of this registry reads the reports of others
    if (!m_reporter)
        m_reporter = std::make_unique<LockReporter>(this);
    m_reporter->watch(*request, m_locks);
}

void LockRegistryPrivate::route(quint64 sequence, LockDriver *lock)
{
    if (lock)
        m_routes.insert(sequence, lock);
    else
        m_routes.remove(sequence);
}

LockEngine::Need LockRegistryPrivate::need(const LockEngine::LockFilter &filter) const
{
    LockEngine::Need need;
    need.connection = watches > 0;
    for (const LockDriver *lock : m_locks) {
        if (lock->machine.phase() == LeaseMachine::Unlocked || (filter && !filter(lock->presentLockId())))
            continue;
        need.connection = true;
        const int position = lock->machine.queuePosition();
        if (position >= 0 && (need.queuePosition < 0 || position < need.queuePosition))
            need.queuePosition = position;
    }
    for (const auto &[lock, action] : m_pending)
        need.connection |= !lock || !filter || filter(*lock);
    return need;
}

void LockRegistryPrivate::setError(const EngineError &newError)
{
    if (error.code == newError.code && error.text == newError.text)
        return;
    error = newError;
    deliverLater([this] { Q_EMIT q->errorChanged(); });
}

void LockRegistryPrivate::reportError(const EngineError &newError)
{
    setError(newError);
    const bool isKnown = std::any_of(m_outages.cbegin(), m_outages.cend(), [&newError](const auto &entry) {
        return entry.second.causes.contains(newError.code);
    });
    if (!isKnown)
        deliverLater([this, code = newError.code] { Q_EMIT q->errorOccurred(code); });
}

void LockRegistryPrivate::engineStateChanged(const LockEngine::LockFilter &concerned)
{
    const bool ready = m_engine->state() == LockEngine::Ready;
    if (ready) {
        // Constructed now, so that they are destroyed before the libraries that the connection uses, such as OpenSSL.
        static const AtExit atExit;
        if (url.scheme().startsWith(QLatin1String("rediss")) || url.scheme() == QLatin1String("redlocks"))
            static const AtExit beforeTls;
        setError(m_engine->error()); // of one of several servers
        const auto failing = m_engine->errors();
        for (auto &[place, outage] : m_outages) {
            if (!outage.logged.isEmpty() && !failing.contains(place) && !outage.endTimer.isActive())
                outage.endTimer.start();
        }
    }
    deliverLater([this] {
        const LockRegistry::State state = q->state();
        if (std::exchange(m_notifiedState, state) != state)
            Q_EMIT q->stateChanged();
    });
    if (ready)
        runPending({});
    // Some locks may have got another server, although none that the engine has used can be reached.
    const auto locks = locksInTurn(concerned);
    for (LockDriver *lock : locks) {
        if (m_engine->stateFor(lock->presentLockId()) == LockEngine::Ready)
            lock->engineReady();
    }
}

LockRegistryPrivate::Outage &LockRegistryPrivate::outageAt(const QString &place)
{
    const auto [entry, isNew] = m_outages.try_emplace(place);
    Outage &outage = entry->second;
    if (isNew) {
        outage.endTimer.setSingleShot(true);
        outage.endTimer.setInterval(UsableAgain);
        connect(&outage.endTimer, &QTimer::timeout, this, [this, place, &outage] { endOutage(place, &outage); });
    }
    return outage;
}

void LockRegistryPrivate::logCause(Outage *outage, const EngineError &cause)
{
    if (outage->logged.contains(cause.code))
        return;
    if (outage->logged.isEmpty())
        outage->number = ++m_lastOutage;
    outage->logged.insert(cause.code);
    qCWarning(lcLock, "%ls", qUtf16Printable(cause.text));
}

void LockRegistryPrivate::endOutage(const QString &place, Outage *outage)
{
    if (!m_engine)
        return;
    const bool lasts = std::any_of(m_locks.cbegin(), m_locks.cend(), [&](const LockDriver *lock) {
        const EngineError obstacle = lock->machine.obstacle();
        return obstacle.isOfServer && outage->logged.contains(obstacle.code)
                && m_engine->placeOf(lock->presentLockId()) == place;
    });
    // While it is connecting, it may be about to fail again.
    if (lasts || m_engine->state() == LockEngine::Connecting) {
        outage->endTimer.start();
        return;
    }
    outage->logged.clear();
    outage->causes.clear();
    if (place.isEmpty()) {
        qCWarning(lcLock, "%ls: the server can be used again", qUtf16Printable(serverText));
    } else if (m_engine->isPlace(place)) {
        qCWarning(lcLock, "%ls: the locks that %ls kept can be used again", qUtf16Printable(serverText),
                  qUtf16Printable(place));
    } else {
        qCWarning(lcLock,
                  "%ls: %ls is no longer a master of the cluster; the nodes that serve its slots now keep its locks",
                  qUtf16Printable(serverText), qUtf16Printable(place));
    }
}

const LockRegistryPrivate::Outage *LockRegistryPrivate::outageOf(const LockId &lock, const EngineError &error)
{
    if (!m_engine)
        return nullptr;
    const QString place = m_engine->placeOf(lock);
    if (error.isOfServer) {
        Outage &outage = outageAt(place);
        // A lock was the first to meet the error, so endOutage() checks each second whether it has ended. Of an error
        // that the engine met first, engineStateChanged() notices the end.
        if (outage.logged.isEmpty())
            outage.endTimer.start();
        logCause(&outage, error);
        return &outage;
    }
    const auto entry = m_outages.find(place);
    return entry != m_outages.end() && !entry->second.logged.isEmpty() ? &entry->second : nullptr;
}

void LockRegistryPrivate::engineFailed()
{
    const EngineError engineError = m_engine->error();
    EngineError shown = engineError; // the newest cause, if there is a new one
    QList<DistributedLock::Error> causes;
    const auto failing = m_engine->errors();
    for (auto it = failing.cbegin(); it != failing.cend(); ++it) {
        Outage &outage = outageAt(it.key());
        outage.endTimer.stop();
        if (outage.causes.contains(it->code))
            continue;
        logCause(&outage, *it);
        outage.causes.insert(it->code);
        causes.append(it->code);
        shown = *it;
    }
    setError(shown);
    for (const DistributedLock::Error cause : std::as_const(causes))
        deliverLater([this, cause] { Q_EMIT q->errorOccurred(cause); });
    // Of several servers, the one that keeps the lock may be another one than that which has failed.
    const auto waiting = std::exchange(m_pending, {});
    for (const auto &[lock, action] : waiting)
        action(m_engine.get(), lock ? m_engine->errorFor(*lock) : engineError);
    const auto locks = locksInTurn();
    for (LockDriver *lock : locks) {
        if (const EngineError lockError = m_engine->errorFor(lock->presentLockId()))
            lock->engineFailed(lockError);
    }
}

void LockRegistryPrivate::whenReady(const std::optional<LockId> &lock, Action action)
{
    EngineError engineError;
    LockEngine *const lockEngine = engine(&engineError);
    if (!lockEngine)
        return action(nullptr, engineError);
    if (lock)
        lockEngine->openFor(*lock);
    else
        lockEngine->open();
    if ((lock ? lockEngine->stateFor(*lock) : lockEngine->state()) == LockEngine::Ready)
        return action(lockEngine, {});
    m_pending.append({lock, std::move(action)});
}

void LockRegistryPrivate::runPending(const EngineError &engineError)
{
    const auto waiting = std::exchange(m_pending, {});
    for (const auto &[lock, action] : waiting)
        action(m_engine.get(), engineError);
}

DistributedLock *LockRegistryPrivate::obtain(const QString &name)
{
    const auto it = m_cache.find(name);
    if (it != m_cache.end()) {
        it->lastUsed = now();
        return it->lock;
    }
    auto *lock = new DistributedLock(q, name, q);
    m_cache.insert(name, {lock, now()});
    connect(lock, &DistributedLock::stateChanged, this, [this, name] {
        if (const auto cached = m_cache.find(name); cached != m_cache.end())
            cached->lastUsed = now();
    });
    connect(lock, &QObject::destroyed, this, [this, name] { m_cache.remove(name); });
    if (!m_evictionTimer.isActive()) // a steady flow of new names must not postpone it without end
        startEviction();
    return lock;
}

void LockRegistryPrivate::startEviction()
{
    if (!m_cache.isEmpty())
        m_evictionTimer.start(std::max<milliseconds>(idleEviction / 4, 10ms));
}

void LockRegistryPrivate::evict()
{
    const LeaseTime limit = now() - idleEviction;
    const auto isIdle = [limit](const Cached &cached) {
        return cached.lock->state() == DistributedLock::Unlocked && cached.lastUsed <= limit;
    };
    const auto names = m_cache.keys();
    const QPointer<LockRegistry> alive(q);
    for (const QString &name : names) {
        // A slot called by the deletion of another lock may have deleted this one, or be using it.
        if (const auto cached = m_cache.constFind(name); cached != m_cache.constEnd() && isIdle(*cached))
            delete cached->lock; // its destroyed() removes it from the cache
        if (!alive)
            return;
    }
    if (m_cache.isEmpty())
        m_evictionTimer.stop();
}

} // namespace QDistLock
