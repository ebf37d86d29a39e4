// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockregistry_p.h"

#include "base/logging.h"
#include "engine/enginefactory.h"
#include "engine/servername.h"
#include "lock/threadcheck.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthreadstorage.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

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
    QString environment; ///< the last value of QDISTLOCK_URL
    QUrl environmentUrl; ///< the URL that this value stands for
};
Q_GLOBAL_STATIC(DefaultServer, defaultServerSetting)

/// A promise that finishes with \c fallback if it is destroyed before finish(), as happens together with the registry.
template<typename T>
class PromiseWithFallback
{
public:
    explicit PromiseWithFallback(const T &fallback)
        : m_fallback(fallback)
    {
        m_promise.start();
    }
    ~PromiseWithFallback()
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
    Q_DISABLE_COPY_MOVE(PromiseWithFallback)
    QPromise<T> m_promise;
    T m_fallback;
    bool m_finished = false;
};

/// True, with a warning in the log, if \a function was called in the wrong thread. The function must then do nothing.
bool isForeignCall(const LockRegistry *registry, const char *function)
{
    const QString problem = wrongThread(registry, function);
    if (!problem.isEmpty())
        qCWarning(lcLock, "LockRegistry: %ls", qUtf16Printable(problem));
    return !problem.isEmpty();
}

/// Returns an error text, which is also logged, if \a function was called in the wrong thread or without an event loop.
QString refuse(const LockRegistry *registry, const char *function)
{
    QString problem = wrongThread(registry, function);
    if (problem.isEmpty())
        problem = noEventLoop(function);
    if (!problem.isEmpty())
        qCWarning(lcLock, "LockRegistry: %ls", qUtf16Printable(problem));
    return problem;
}

} // namespace

LockRegistry::LockRegistry(const QUrl &server, QObject *parent)
    : QObject(parent)
    , d(std::make_unique<LockRegistryPrivate>(this, server))
{
}

LockRegistry::~LockRegistry()
{
    // The locks of obtain() are destroyed first, while the registry can still release them.
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
        // The main thread's storage outlives the application object, but sockets must not.
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
    // After fork() the parent's registry is not destroyed, because objects in this process may still refer to it.
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
        environment = u"redis://127.0.0.1:6379"_s;
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
    return withoutSecrets(d->url);
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
    d->engine(&ignored); // checks the URL
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
    unknown.errorString = u"Lock %1: the registry was destroyed"_s.arg(Detail::quoted(name));
    auto promise = std::make_shared<PromiseWithFallback<LockInfo>>(unknown);
    const auto withError = [name](const EngineError &error, LockInfo info) {
        info.name = name;
        info.error = error.code;
        info.errorString = error ? u"Lock %1: %2"_s.arg(Detail::quoted(name), error.text) : QString();
        return info;
    };
    const auto finish = [d = d.get(), promise, withError](const EngineError &error, const LockInfo &info) {
        d->deliverLater([promise, result = withError(error, info)] { promise->finish(result); });
    };
    if (const QString problem = refuse(this, "inspect()"); !problem.isEmpty()) {
        promise->finish(withError(EngineError::permanent(DistributedLock::OptionsError, problem), {}));
        return promise->future();
    }
    EngineError error = EngineError::permanent(DistributedLock::NameError, QString());
    const auto id = EngineFactory::makeLockId(d->defaults.keyPrefix, name, &error.text);
    if (!id) {
        finish(error, {});
    } else {
        d->whenReady([id, finish](LockEngine *engine, const EngineError &engineError) {
            if (engineError)
                finish(engineError, {});
            else
                engine->inspect(*id, finish);
        });
    }
    return promise->future();
}

QFuture<QList<LockInfo>> LockRegistry::list(const QString &pattern)
{
    auto promise = std::make_shared<PromiseWithFallback<QList<LockInfo>>>(QList<LockInfo>());
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
    auto promise = std::make_shared<PromiseWithFallback<bool>>(false);
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
    EngineError error = EngineError::permanent(DistributedLock::NameError, QString());
    const auto id = EngineFactory::makeLockId(d->defaults.keyPrefix, name, &error.text);
    if (!id) {
        finish(error, false);
    } else {
        d->whenReady([id, finish](LockEngine *engine, const EngineError &engineError) {
            if (engineError)
                finish(engineError, false);
            else
                engine->forceRelease(*id, finish);
        });
    }
    return promise->future();
}

} // namespace QDistLock
