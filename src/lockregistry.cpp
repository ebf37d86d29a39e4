// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockregistry_p.h"

#include "distributedlock_p.h"
#include "engine/memoryengine.h"
#include "engine/redisengine.h"
#include "logging.h"
#include "servername.h"
#include "threadcheck.h"

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthread.h>
#include <QtCore/qthreadstorage.h>

#include <algorithm>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

std::unique_ptr<LockEngine> makeEngine(const QUrl &url, const LeaseClock *clock, EngineError *error)
{
    const auto fail = [error](const QString &text) {
        *error = {DistributedLock::OptionsError, text, true, false};
        return nullptr;
    };
    const QString scheme = url.scheme();
    if (scheme == QLatin1String("memory")) {
        if (!url.host().isEmpty() || url.hasQuery() || url.hasFragment())
            return fail(QStringLiteral("the server URL must be memory: or memory:name"));
        return std::make_unique<MemoryEngine>(url.path(), clock);
    }
    if (scheme == QLatin1String("redis+sentinel") || scheme == QLatin1String("redis+cluster")
        || scheme == QLatin1String("redlock")) {
        return fail(QStringLiteral("the server URL's scheme %1 is not supported in this version; use redis, rediss, "
                                   "unix or memory")
                            .arg(scheme));
    }
    QString text;
    if (const auto server = QtRedis::ServerUrl::parse(url, &text, {QStringLiteral("memory")}))
        return std::make_unique<RedisEngine>(*server, clock);
    return fail(text);
}

struct ThreadRegistries
{
    QHash<QUrl, LockRegistry *> registries;
    ~ThreadRegistries() { qDeleteAll(registries); }
};

QThreadStorage<ThreadRegistries *> threadRegistries;

/// A server that fails again sooner was not back: it is the same outage.
constexpr milliseconds UsableAgain = 1s;

/// Those of all threads.
struct AllRegistries
{
    QMutex mutex;
    QSet<LockRegistryPrivate *> registries;
};
Q_GLOBAL_STATIC(AllRegistries, allRegistries)

struct DefaultServer
{
    QMutex mutex;
    QUrl url;
    QString environment; ///< last value of QDISTLOCK_URL
    QUrl environmentUrl; ///< of that
};
Q_GLOBAL_STATIC(DefaultServer, defaultServerSetting)

/// Where the program ends without destroying the registries: exit() in a slot, registries that nobody owns.
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

/// A future's other end. Ends it with \c fallback if it goes before finish(): with the registry, that is.
template<typename T>
class Pending
{
public:
    explicit Pending(const T &fallback)
        : m_fallback(fallback)
    {
        m_promise.start();
    }
    ~Pending()
    {
        if (!m_finished)
            finish(m_fallback);
    }
    void finish(const T &result)
    {
        m_finished = true;
        m_promise.addResult(result);
        m_promise.finish();
    }
    QFuture<T> future() const { return m_promise.future(); }

private:
    Q_DISABLE_COPY_MOVE(Pending)
    QPromise<T> m_promise;
    T m_fallback;
    bool m_finished = false;
};

} // namespace

LockRegistryPrivate::LockRegistryPrivate(LockRegistry *registry, const QUrl &url)
    : url(normalizedServer(url))
    , serverText(QtRedis::ServerUrl::withoutSecrets(this->url).toString())
    , q(registry)
    , m_watchdog(LeaseClock::system())
{
    connect(&m_evictionTimer, &QTimer::timeout, this, &LockRegistryPrivate::evict);
    m_nestedLoopTimer.setSingleShot(true);
    m_nestedLoopTimer.setInterval(1ms);
    connect(&m_nestedLoopTimer, &QTimer::timeout, this, &LockRegistryPrivate::deliver);
    m_outageEndTimer.setSingleShot(true);
    m_outageEndTimer.setInterval(UsableAgain);
    connect(&m_outageEndTimer, &QTimer::timeout, this, [this] {
        m_outageErrors.clear();
        qCWarning(lcLock, "%ls: the server can be used again", qUtf16Printable(serverText));
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

bool LockRegistryPrivate::isHeldInThisThread(const QUrl &server, const QString &key)
{
    AllRegistries *const all = allRegistries();
    if (!all)
        return false;
    const QByteArray utf8 = key.toUtf8();
    const QMutexLocker locker(&all->mutex);
    for (const LockRegistryPrivate *registry : std::as_const(all->registries)) {
        if (registry->thread() == QThread::currentThread() && isSameLockSpace(registry->url, server)
            && std::any_of(registry->m_locks.cbegin(), registry->m_locks.cend(),
                           [&](const DistributedLockPrivate *lock) { return lock->holds(utf8); })) {
            return true;
        }
    }
    return false;
}

/// Logs that \a function was called in the wrong thread, if it was: then it must do nothing.
static bool isForeignCall(const LockRegistry *registry, const char *function)
{
    const QString problem = wrongThread(registry, function);
    if (!problem.isEmpty())
        qCWarning(lcLock, "LockRegistry: %ls", qUtf16Printable(problem));
    return !problem.isEmpty();
}

/// Why nothing that \a function begins can end, in words and in the log; empty if it can.
static QString refuse(const LockRegistry *registry, const char *function)
{
    QString problem = wrongThread(registry, function);
    if (problem.isEmpty())
        problem = noEventLoop(function);
    if (!problem.isEmpty())
        qCWarning(lcLock, "LockRegistry: %ls", qUtf16Printable(problem));
    return problem;
}

void LockRegistryPrivate::close()
{
    const auto detachLocks = [this] {
        while (!m_locks.isEmpty())
            (*m_locks.cbegin())->registryDestroyed();
    };
    detachLocks();
    runWaiting({DistributedLock::CancelledError, QStringLiteral("the registry was destroyed"), true, false});
    // The futures that are left end here, not in the destructors of members: a continuation may call the registry again,
    // or make a lock.
    m_closed = true;
    m_engine.reset();
    detachLocks();
    std::exchange(m_deliveries, {}).clear();
    detachLocks();
}

void LockRegistryPrivate::abandonLocks()
{
    if (url.scheme() == QLatin1String("memory"))
        return; // it ends with the process
    for (DistributedLockPrivate *lock : std::as_const(m_locks))
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
        *engineError = {DistributedLock::ConnectionError, QStringLiteral("its registry is being destroyed"), true, false};
        return nullptr;
    }
    if (!m_engine && !m_urlError) {
        m_engine = makeEngine(url, m_watchdog.clock(), &m_urlError);
        if (m_engine) {
            m_engine->setNeed([this] { return need(); });
            connect(m_engine.get(), &LockEngine::stateChanged, this, &LockRegistryPrivate::engineStateChanged);
            connect(m_engine.get(), &LockEngine::failed, this, &LockRegistryPrivate::engineFailed);
            connect(m_engine.get(), &LockEngine::noticed, this,
                    [this](LockEngine::Notice notice, quint64 sequence, milliseconds ms) {
                        if (DistributedLockPrivate *lock = m_routes.value(sequence))
                            lock->noticed(notice, ms);
                    });
            connect(m_engine.get(), &LockEngine::handedOver, this, [this](const LockEngine::Handover &handover) {
                if (DistributedLockPrivate *lock = m_routes.value(LockEngine::sequenceOf(handover.token)))
                    lock->handedOver(handover);
                else // nobody wants it any more, or the place in the queue was forged
                    m_engine->abandon(handover.keys, handover.token, handover.lease, 0ms, handover.lease);
            });
            connect(m_engine.get(), &LockEngine::wakeableChanged, this, [this] {
                const auto locks = locksInTurn();
                for (DistributedLockPrivate *lock : locks)
                    lock->wakeableChanged();
            });
        } else {
            error = m_urlError;
        }
    }
    if (!m_engine)
        *engineError = m_urlError;
    return m_engine.get();
}

EngineError LockRegistryPrivate::inheritedError()
{
    return {DistributedLock::ConnectionError,
            QStringLiteral("this process is a fork of the one that made the registry; call exec() in it, fork before the "
                           "first use of a lock, or make a new LockRegistry here"),
            true, false};
}

void LockRegistryPrivate::detach(DistributedLockPrivate *lock)
{
    m_watchdog.forget(lock);
    cancelDelivery(lock);
    m_locks.remove(lock);
}

QList<DistributedLockPrivate *> LockRegistryPrivate::locksInTurn() const
{
    QList<DistributedLockPrivate *> locks(m_locks.cbegin(), m_locks.cend());
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
        // Destroyed by an event: a continuation that asks again on each failure would keep the destructor from ending.
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
    if (!std::exchange(m_deliveryPosted, true))
        QCoreApplication::postEvent(this, new QEvent(QEvent::User));
}

void LockRegistryPrivate::customEvent(QEvent *)
{
    m_deliveryPosted = false;
    deliver();
}

void LockRegistryPrivate::deliver()
{
    // Slots run in here. If one of them runs a nested event loop, the timer goes on with the others in that loop,
    // and sends what was asked for meanwhile.
    const QPointer<LockRegistry> alive(q);
    if (m_engine)
        m_engine->cork();
    // What slots cause is delivered by the next event, so that they cannot keep the event loop from anything else.
    for (size_t left = m_deliveries.size(); left > 0 && !m_deliveries.empty(); --left) {
        const Delivery delivery = std::move(m_deliveries.front());
        m_deliveries.pop_front();
        ++m_firstTicket;
        if (!m_nestedLoopTimer.isActive())
            m_nestedLoopTimer.start();
        if (delivery.lock) {
            delivery.lock->deliveryTicket = 0;
            delivery.lock->deliver();
        } else if (delivery.function) {
            delivery.function();
        }
        if (!alive)
            return;
    }
    m_nestedLoopTimer.stop();
    if (m_engine)
        m_engine->uncork();
    if (!m_deliveries.empty())
        postDelivery();
}

void LockRegistryPrivate::route(quint64 sequence, DistributedLockPrivate *lock)
{
    if (lock)
        m_routes.insert(sequence, lock);
    else
        m_routes.remove(sequence);
}

LockEngine::Need LockRegistryPrivate::need() const
{
    LockEngine::Need need;
    for (const DistributedLockPrivate *lock : m_locks) {
        need.connection |= lock->machine.phase() != LeaseMachine::Unlocked;
        const int position = lock->machine.queuePosition();
        if (position >= 0 && (need.queuePosition < 0 || position < need.queuePosition))
            need.queuePosition = position;
    }
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
    if (!m_outageErrors.contains(newError.code))
        deliverLater([this, code = newError.code] { Q_EMIT q->errorOccurred(code); });
}

void LockRegistryPrivate::reportMisuse(const QString &text)
{
    QMetaObject::invokeMethod(
            this, [this, text] { reportError({DistributedLock::OptionsError, text, true, false}); }, Qt::QueuedConnection);
}

void LockRegistryPrivate::engineStateChanged()
{
    const bool ready = m_engine->state() == LockEngine::Ready;
    if (ready) {
        // Destroyed before what the connection needs; with TLS that is OpenSSL.
        static const AtExit atExit;
        if (url.scheme() == QLatin1String("rediss"))
            static const AtExit beforeTls;
        setError({});
        if (isOutage())
            m_outageEndTimer.start();
    }
    deliverLater([this] {
        const LockRegistry::State state = q->state();
        if (std::exchange(m_notifiedState, state) != state)
            Q_EMIT q->stateChanged();
    });
    if (!ready)
        return;
    runWaiting({});
    const auto locks = locksInTurn();
    for (DistributedLockPrivate *lock : locks)
        lock->engineReady();
}

void LockRegistryPrivate::engineFailed()
{
    const EngineError engineError = m_engine->error();
    m_outageEndTimer.stop();
    reportError(engineError);
    if (!m_outageErrors.contains(engineError.code)) {
        m_outages += isOutage() ? 0 : 1;
        m_outageErrors.insert(engineError.code);
        qCWarning(lcLock, "%ls", qUtf16Printable(engineError.text));
    }
    runWaiting(engineError);
    const auto locks = locksInTurn();
    for (DistributedLockPrivate *lock : locks)
        lock->engineFailed(engineError);
}

void LockRegistryPrivate::whenReady(std::function<void(LockEngine *, const EngineError &)> action)
{
    EngineError engineError;
    LockEngine *const lockEngine = engine(&engineError);
    if (!lockEngine)
        return action(nullptr, engineError);
    lockEngine->open();
    if (lockEngine->state() == LockEngine::Ready)
        return action(lockEngine, {});
    m_waiting.append(std::move(action));
}

void LockRegistryPrivate::runWaiting(const EngineError &engineError)
{
    const auto waiting = std::exchange(m_waiting, {});
    for (const auto &action : waiting)
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
    if (!m_evictionTimer.isActive()) // else names that keep coming would put it off for ever
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
        // A slot of an earlier one's end may have deleted it, or be using it.
        if (const auto cached = m_cache.constFind(name); cached != m_cache.constEnd() && isIdle(*cached))
            delete cached->lock; // leaves the cache by itself
        if (!alive)
            return;
    }
    if (m_cache.isEmpty())
        m_evictionTimer.stop();
}

LockRegistry::LockRegistry(const QUrl &server, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<LockRegistryPrivate>(this, server))
{
}

LockRegistry::~LockRegistry()
{
    // The locks of obtain() go while there is still a registry to release them.
    while (auto *lock = findChild<DistributedLock *>(QString(), Qt::FindDirectChildrenOnly))
        delete lock; // may delete others of them
    d->close();
}

LockRegistry *LockRegistry::instance()
{
    return instance(defaultServer());
}

LockRegistry *LockRegistry::instance(const QUrl &server)
{
    static const bool cleanedUp = [] {
        // The main thread's storage outlives the application object, sockets must not.
        qAddPostRoutine([] { threadRegistries.setLocalData(nullptr); });
        return true;
    }();
    Q_UNUSED(cleanedUp)
    if (!threadRegistries.hasLocalData() && QCoreApplication::instance()) {
        if (const QString problem = noEventLoop("instance()"); !problem.isEmpty())
            qCWarning(lcLock, "LockRegistry: %ls", qUtf16Printable(problem));
    }
    if (!threadRegistries.hasLocalData())
        threadRegistries.setLocalData(new ThreadRegistries);
    auto &registries = threadRegistries.localData()->registries;
    LockRegistry *&registry = registries[registries.contains(server) ? server : normalizedServer(server)];
    // The parent's is not destroyed: what refers to it in this process still may.
    if (!registry || LockRegistryPrivate::get(registry)->isInherited())
        registry = new LockRegistry(server);
    return registry;
}

void LockRegistry::setDefaultServer(const QUrl &server)
{
    const QUrl normalized = normalizedServer(server);
    const QMutexLocker locker(&defaultServerSetting->mutex);
    defaultServerSetting->url = normalized;
}

QUrl LockRegistry::defaultServer()
{
    DefaultServer *const setting = defaultServerSetting;
    const QMutexLocker locker(&setting->mutex);
    if (!setting->url.isEmpty())
        return setting->url;
    QString environment = qEnvironmentVariable("QDISTLOCK_URL");
    if (environment.isEmpty())
        environment = QStringLiteral("redis://127.0.0.1:6379");
    if (environment != setting->environment) {
        setting->environment = environment;
        setting->environmentUrl = normalizedServer(QUrl(environment));
    }
    return setting->environmentUrl;
}

DistributedLock *LockRegistry::obtain(const QString &name)
{
    if (isForeignCall(this, "obtain()"))
        return nullptr;
    return d->obtain(name);
}

milliseconds LockRegistry::idleEviction() const
{
    return d->idleEviction;
}

void LockRegistry::setIdleEviction(milliseconds idle)
{
    if (isForeignCall(this, "setIdleEviction()"))
        return;
    d->idleEviction = std::max(idle, 0ms);
    d->startEviction();
}

QUrl LockRegistry::server() const
{
    return QtRedis::ServerUrl::withoutSecrets(d->url);
}

LockRegistry::State LockRegistry::state() const
{
    EngineError ignored;
    const LockEngine *engine = d->engine(&ignored);
    return engine ? State(engine->state()) : Disconnected;
}

LockRegistry::Error LockRegistry::error() const
{
    EngineError ignored;
    d->engine(&ignored); // finds out about a bad URL
    return d->error.code;
}

QString LockRegistry::errorString() const
{
    EngineError ignored;
    d->engine(&ignored);
    return d->error.text;
}

LockOptions LockRegistry::defaults() const
{
    return d->defaults;
}

void LockRegistry::setDefaults(const LockOptions &defaults)
{
    if (isForeignCall(this, "setDefaults()"))
        return;
    d->defaults = defaults;
}

QFuture<LockInfo> LockRegistry::inspect(const QString &name)
{
    LockInfo unknown;
    unknown.name = name;
    unknown.error = DistributedLock::CancelledError;
    unknown.errorString = QStringLiteral("Lock %1: the registry was destroyed").arg(Detail::quoted(name));
    auto promise = std::make_shared<Pending<LockInfo>>(unknown);
    const auto withError = [name](const EngineError &error, LockInfo info) {
        info.name = name;
        info.error = error.code;
        info.errorString = error ? QStringLiteral("Lock %1: %2").arg(Detail::quoted(name), error.text) : QString();
        return info;
    };
    const auto finish = [d = d.get(), promise, withError](const EngineError &error, const LockInfo &info) {
        d->deliverLater([promise, result = withError(error, info)] { promise->finish(result); });
    };
    if (const QString problem = refuse(this, "inspect()"); !problem.isEmpty()) {
        promise->finish(withError({DistributedLock::OptionsError, problem, true, false}, {}));
        return promise->future();
    }
    EngineError error{DistributedLock::NameError, QString(), true, false};
    const auto keys = LockKeys::make(d->defaults.keyPrefix, name, &error.text);
    if (!keys) {
        finish(error, {});
    } else {
        d->whenReady([keys, finish](LockEngine *engine, const EngineError &engineError) {
            if (engineError)
                finish(engineError, {});
            else
                engine->inspect(*keys, finish);
        });
    }
    return promise->future();
}

QFuture<QList<LockInfo>> LockRegistry::list(const QString &pattern)
{
    auto promise = std::make_shared<Pending<QList<LockInfo>>>(QList<LockInfo>());
    const auto finish = [d = d.get(), promise](const EngineError &error, const QList<LockInfo> &infos) {
        if (error)
            d->reportError(error);
        d->deliverLater([promise, infos] { promise->finish(infos); });
    };
    if (const QString problem = refuse(this, "list()"); !problem.isEmpty()) {
        d->reportMisuse(problem);
        promise->finish({});
        return promise->future();
    }
    d->whenReady([prefix = d->defaults.keyPrefix, pattern, finish](LockEngine *engine, const EngineError &error) {
        if (error)
            finish(error, {});
        else
            engine->list(prefix, pattern, finish);
    });
    return promise->future();
}

QFuture<bool> LockRegistry::forceRelease(const QString &name)
{
    auto promise = std::make_shared<Pending<bool>>(false);
    const auto finish = [d = d.get(), promise](const EngineError &error, bool existed) {
        if (error)
            d->reportError(error);
        d->deliverLater([promise, existed] { promise->finish(existed); });
    };
    if (const QString problem = refuse(this, "forceRelease()"); !problem.isEmpty()) {
        d->reportMisuse(problem);
        promise->finish(false);
        return promise->future();
    }
    EngineError error{DistributedLock::NameError, QString(), true, false};
    const auto keys = LockKeys::make(d->defaults.keyPrefix, name, &error.text);
    if (!keys) {
        finish(error, false);
    } else {
        d->whenReady([keys, finish](LockEngine *engine, const EngineError &engineError) {
            if (engineError)
                finish(engineError, false);
            else
                engine->forceRelease(*keys, finish);
        });
    }
    return promise->future();
}

} // namespace QDistLock
