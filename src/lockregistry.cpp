// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockregistry_p.h"

#include "distributedlock_p.h"
#include "engine/memoryengine.h"
#include "engine/redisengine.h"
#include "logging.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>
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
    if (const auto server = QtRedis::ServerUrl::parse(url, &text))
        return std::make_unique<RedisEngine>(*server, clock);
    return fail(text);
}

struct ThreadRegistries
{
    QHash<QUrl, LockRegistry *> registries;
    ~ThreadRegistries() { qDeleteAll(registries); }
};

QThreadStorage<ThreadRegistries *> threadRegistries;

struct DefaultServer
{
    QMutex mutex;
    QUrl url;
};
Q_GLOBAL_STATIC(DefaultServer, defaultServerSetting)

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

template<typename Function>
void LockRegistryPrivate::tellLocks(Function function)
{
    const QPointer<LockRegistry> alive(q);
    QList<DistributedLockPrivate *> locks(m_locks.cbegin(), m_locks.cend());
    std::sort(locks.begin(), locks.end(), [](const auto *a, const auto *b) { return a->turn < b->turn; });
    for (DistributedLockPrivate *lock : std::as_const(locks)) {
        if (m_locks.contains(lock))
            function(lock);
        if (!alive)
            return;
    }
}

LockRegistryPrivate::LockRegistryPrivate(LockRegistry *registry, const QUrl &url)
    : url(url)
    , serverText(QtRedis::ServerUrl::withoutSecrets(url).toString())
    , q(registry)
    , m_watchdog(LeaseClock::system())
{
    connect(&m_evictionTimer, &QTimer::timeout, this, &LockRegistryPrivate::evict);
}

LockRegistryPrivate::~LockRegistryPrivate() = default;

void LockRegistryPrivate::close()
{
    do {
        // A slot may delete any of them, and attach new ones.
        while (!m_locks.isEmpty())
            (*m_locks.cbegin())->registryDestroyed();
        runWaiting({DistributedLock::CancelledError, QStringLiteral("the registry was destroyed"), true, false});
    } while (!m_locks.isEmpty());
}

void LockRegistryPrivate::setClock(const LeaseClock *clock)
{
    Q_ASSERT(!m_engine);
    m_watchdog.setClock(clock);
}

LockEngine *LockRegistryPrivate::engine(EngineError *engineError)
{
    if (!m_engine && !m_urlError) {
        m_engine = makeEngine(url, m_watchdog.clock(), &m_urlError);
        if (m_engine) {
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
                tellLocks([this](DistributedLockPrivate *lock) { lock->wakeableChanged(m_engine.get()); });
            });
        } else {
            error = m_urlError;
        }
    }
    if (!m_engine)
        *engineError = m_urlError;
    return m_engine.get();
}

void LockRegistryPrivate::detach(DistributedLockPrivate *lock)
{
    m_watchdog.forget(lock);
    m_locks.remove(lock);
}

void LockRegistryPrivate::route(quint64 sequence, DistributedLockPrivate *lock)
{
    if (lock)
        m_routes.insert(sequence, lock);
    else
        m_routes.remove(sequence);
}

void LockRegistryPrivate::setError(const EngineError &newError)
{
    error = newError;
    const QPointer<LockRegistry> alive(q);
    Q_EMIT q->errorChanged();
    if (alive && newError)
        Q_EMIT q->errorOccurred(newError.code);
}

void LockRegistryPrivate::engineStateChanged()
{
    const QPointer<LockRegistry> alive(q);
    const bool ready = m_engine->state() == LockEngine::Ready;
    if (ready && error)
        setError({});
    if (alive)
        Q_EMIT q->stateChanged();
    if (!alive || !ready)
        return;
    runWaiting({});
    if (alive)
        tellLocks([](DistributedLockPrivate *lock) { lock->engineReady(); });
}

void LockRegistryPrivate::engineFailed()
{
    const QPointer<LockRegistry> alive(q);
    const EngineError engineError = m_engine->error();
    setError(engineError);
    if (!alive)
        return;
    runWaiting(engineError);
    if (alive)
        tellLocks([&engineError](DistributedLockPrivate *lock) { lock->engineFailed(engineError); });
}

void LockRegistryPrivate::whenReady(std::function<void(LockEngine *, const EngineError &)> action)
{
    EngineError engineError;
    LockEngine *const lockEngine = engine(&engineError);
    if (!lockEngine)
        return action(nullptr, engineError);
    const QPointer<LockRegistry> alive(q);
    lockEngine->open();
    if (!alive)
        return;
    if (lockEngine->state() == LockEngine::Ready)
        return action(lockEngine, {});
    m_waiting.append(std::move(action));
}

void LockRegistryPrivate::runWaiting(const EngineError &engineError)
{
    const QPointer<LockRegistry> alive(q);
    const auto waiting = std::exchange(m_waiting, {});
    for (const auto &action : waiting) {
        action(m_engine.get(), engineError);
        if (!alive)
            return; // the others' futures end as they go
    }
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
    if (!threadRegistries.hasLocalData())
        threadRegistries.setLocalData(new ThreadRegistries);
    LockRegistry *&registry = threadRegistries.localData()->registries[server];
    if (!registry)
        registry = new LockRegistry(server);
    return registry;
}

void LockRegistry::setDefaultServer(const QUrl &server)
{
    const QMutexLocker locker(&defaultServerSetting->mutex);
    defaultServerSetting->url = server;
}

QUrl LockRegistry::defaultServer()
{
    {
        const QMutexLocker locker(&defaultServerSetting->mutex);
        if (!defaultServerSetting->url.isEmpty())
            return defaultServerSetting->url;
    }
    const QString fromEnvironment = qEnvironmentVariable("QDISTLOCK_URL");
    return QUrl(fromEnvironment.isEmpty() ? QStringLiteral("redis://127.0.0.1:6379") : fromEnvironment);
}

DistributedLock *LockRegistry::obtain(const QString &name)
{
    return d->obtain(name);
}

milliseconds LockRegistry::idleEviction() const
{
    return d->idleEviction;
}

void LockRegistry::setIdleEviction(milliseconds idle)
{
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
    d->defaults = defaults;
}

QFuture<LockInfo> LockRegistry::inspect(const QString &name)
{
    LockInfo unknown;
    unknown.name = name;
    unknown.error = DistributedLock::CancelledError;
    unknown.errorString = QStringLiteral("Lock \"%1\": the registry was destroyed").arg(name);
    auto promise = std::make_shared<Pending<LockInfo>>(unknown);
    const auto finish = [promise, name](const EngineError &error, LockInfo info) {
        info.name = name;
        info.error = error.code;
        info.errorString = error ? QStringLiteral("Lock \"%1\": %2").arg(name, error.text) : QString();
        promise->finish(info);
    };
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
    const QPointer<LockRegistry> guard(this);
    const auto finish = [promise, guard](const EngineError &error, const QList<LockInfo> &infos) {
        if (error && guard)
            guard->d->setError(error);
        promise->finish(infos);
    };
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
    const QPointer<LockRegistry> guard(this);
    const auto finish = [promise, guard](const EngineError &error, bool existed) {
        if (error && guard)
            guard->d->setError(error);
        promise->finish(existed);
    };
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
