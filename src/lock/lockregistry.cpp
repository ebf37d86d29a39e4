// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockregistry_p.h"

#include "base/identity.h"
#include "base/logging.h"
#include "engine/enginefactory.h"
#include "engine/servername.h"
#include "engine/token.h"
#include "lock/threadcheck.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthreadstorage.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

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

/// The promise of a request. The engine has it, in a completion, until it replies. If the engine is destroyed before,
/// the future ends with \c fallback: not there, but in a delivery, because continuations may do anything.
template<typename T>
class Request
{
public:
    Request(LockRegistryPrivate *registry, const T &fallback)
        : m_registry(registry)
        , m_promise(std::make_shared<Promise>(fallback))
    {
    }
    ~Request()
    {
        if (m_promise)
            m_registry->deliverLater([promise = m_promise] { promise->finish(promise->fallback); });
    }
    void finish(const T &result)
    {
        m_registry->deliverLater([promise = std::exchange(m_promise, nullptr), result] { promise->finish(result); });
    }
    /// At once, in any thread.
    void refuse(const T &result) { std::exchange(m_promise, nullptr)->finish(result); }
    QFuture<T> future() const { return m_promise->promise.future(); }
    bool isCanceled() const { return m_promise->promise.isCanceled(); }

private:
    Q_DISABLE_COPY_MOVE(Request)
    /// Finishes with the fallback if it is destroyed before finish(), as happens together with the registry.
    struct Promise
    {
        explicit Promise(const T &result)
            : fallback(result)
        {
            promise.start();
        }
        ~Promise()
        {
            if (!isFinished)
                finish(fallback);
        }
        void finish(const T &result)
        {
            isFinished = true;
            promise.addResult(result);
            promise.finish();
        }
        QPromise<T> promise;
        const T fallback;
        bool isFinished = false;
    };
    LockRegistryPrivate *const m_registry;
    std::shared_ptr<Promise> m_promise; ///< null after the end
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
    const QString problem = wrongCall(registry, function);
    if (!problem.isEmpty())
        qCWarning(lcLock, "LockRegistry: %ls", qUtf16Printable(problem));
    return problem;
}

/// LockRegistry::waiters() returns no more than this.
constexpr int WaitersAtMost = 1000;

template<typename T>
using Finish = std::function<void(const EngineError &error, const T &result)>;

/// What a future has for the result of the engine, about the lock \a name or, if there is none, all of them.
template<typename T>
LockReply<T> replyOf(const std::optional<QString> &name, const EngineError &error, const T &result)
{
    if (!error)
        return {result, DistributedLock::NoError, QString()};
    T none{};
    if constexpr (std::is_same_v<T, LockRegistry::Outcome>)
        none = LockRegistry::NotHeld; // the harmless one, for who does not look at the error
    return {none, error.code, name ? u"Lock %1: %2"_s.arg(Detail::quoted(*name), error.text) : error.text};
}

LockInfo infoOf(const std::optional<QString> &name, const EngineError &error, const LockInfo &result)
{
    const auto reply = replyOf(name, error, result);
    LockInfo info = reply.value;
    info.name = *name;
    info.error = reply.error;
    info.errorString = reply.errorString;
    return info;
}

/// How many permits of a semaphore are free, which has \a permits of them if the server has no number.
int freePermits(const LockInfo &info, int permits)
{
    const bool isHeldOtherwise = info.held && info.permitsTaken == 0;
    const int all = info.permits > 0 ? info.permits : permits;
    return isHeldOtherwise ? 0 : std::max(0, all - info.permitsTaken);
}

/// Calls \a send when the server, or the one that keeps the lock \a name, can be asked; \a send passes its result to
/// the function it gets, at once or later. Nothing is sent if the future was cancelled before that. \a makeReply makes
/// what the future has, from the name, an error and a result. If \a keyPrefix is null, the registry's is used.
template<typename T, typename MakeReply>
auto ask(LockRegistry *registry, const char *function, const std::optional<QString> &name, MakeReply makeReply,
         const std::function<void(LockEngine *engine, const LockId &id, const Finish<T> &finish)> &send,
         const QString &keyPrefix = QString())
{
    using Reply = std::invoke_result_t<MakeReply, std::optional<QString>, EngineError, T>;
    LockRegistryPrivate *const d = LockRegistryPrivate::get(registry);
    const auto destroyed = EngineError::passing(DistributedLock::CancelledError, u"the registry was destroyed"_s);
    const auto request = std::make_shared<Request<Reply>>(d, makeReply(name, destroyed, T()));
    const QFuture<Reply> future = request->future();
    const Finish<T> finish = [request, name, makeReply](const EngineError &error, const T &result) {
        request->finish(makeReply(name, error, result));
    };
    if (const QString problem = refuse(registry, function); !problem.isEmpty()) {
        request->refuse(makeReply(name, EngineError::permanent(DistributedLock::OptionsError, problem), T()));
        return future;
    }
    EngineError error = EngineError::permanent(DistributedLock::NameError, QString());
    const QString &prefix = keyPrefix.isNull() ? d->keyPrefix : keyPrefix;
    const auto id = name ? EngineFactory::makeLockId(prefix, *name, &error.text) : std::nullopt;
    if (name && !id) {
        finish(error, T());
    } else {
        d->whenReady(id, [id, finish, request, send](LockEngine *engine, const EngineError &engineError) {
            if (engineError || request->isCanceled())
                finish(engineError, T());
            else
                send(engine, id.value_or(LockId()), finish);
        });
    }
    return future;
}

LockEngine::Completion outcomeTo(const Finish<LockRegistry::Outcome> &finish)
{
    return [finish](const EngineReply &reply) {
        finish(reply.error,
               reply.status == EngineReply::Done           ? LockRegistry::Done
                       : reply.status == EngineReply::Gone ? LockRegistry::NotHeld
                                                           : LockRegistry::OtherHolder);
    };
}

/// Why neither a renewal nor a release can be sent with \a token and \a options.
EngineError problemOf(const QByteArray &token, const LockOptions &options)
{
    QString text = options.validationError();
    if (Token::clientOf(token).isEmpty())
        text = u"that is not a token; use the one that detach() returned"_s;
    return text.isEmpty() ? EngineError() : EngineError::permanent(DistributedLock::OptionsError, text);
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
    LockRegistry *&registry =
            registries[registries.contains(server) ? server : withoutFinalDots(normalizedServer(server))];
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

void LockRegistry::setIdentity(const QString &identity)
{
    Identity::setOfThisProcess(identity);
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

QString LockRegistry::keyPrefix() const
{
    return d->keyPrefix;
}

void LockRegistry::setKeyPrefix(const QString &prefix)
{
    if (isForeignCall(this, "setKeyPrefix()"))
        return;
    d->keyPrefix = prefix;
}

QFuture<LockInfo> LockRegistry::inspect(const QString &name)
{
    return ask<LockInfo>(this, "inspect()", name, infoOf,
                         [](LockEngine *engine, const LockId &id, const auto &finish) { engine->inspect(id, finish); });
}

QFuture<LockReply<QList<LockInfo>>> LockRegistry::list(const QString &pattern)
{
    using Infos = QList<LockInfo>;
    return ask<Infos>(this, "list()", std::nullopt, replyOf<Infos>,
                      [prefix = d->keyPrefix, pattern](LockEngine *engine, const LockId &, const auto &finish) {
                          engine->list(prefix, pattern, finish);
                      });
}

QFuture<LockReply<LockRegistry::Outcome>> LockRegistry::forceRelease(const QString &name)
{
    return ask<Outcome>(this, "forceRelease()", name, replyOf<Outcome>,
                        [](LockEngine *engine, const LockId &id, const auto &finish) {
                            engine->forceRelease(id, 0, outcomeTo(finish));
                        });
}

QFuture<LockReply<LockRegistry::Outcome>> LockRegistry::forceRelease(const QString &name, qint64 fencingToken)
{
    // The engine takes 0 for every holder. No fencing token is 0, or negative.
    const qint64 meant = fencingToken > 0 ? fencingToken : -1;
    return ask<Outcome>(this, "forceRelease()", name, replyOf<Outcome>,
                        [meant](LockEngine *engine, const LockId &id, const auto &finish) {
                            engine->forceRelease(id, meant, outcomeTo(finish));
                        });
}

QFuture<LockReply<LockRegistry::Outcome>> LockRegistry::renew(const QString &name, const QByteArray &token,
                                                              milliseconds lease)
{
    return ask<Outcome>(this, "renew()", name, replyOf<Outcome>,
                        [token, lease](LockEngine *engine, const LockId &id, const auto &finish) {
                            if (const EngineError error = problemOf(token, LockOptions().withLease(lease)))
                                finish(error, {});
                            else
                                engine->renew(id, token, lease, {}, outcomeTo(finish));
                        });
}

QFuture<LockReply<LockRegistry::Outcome>> LockRegistry::release(const QString &name, const QByteArray &token,
                                                                milliseconds keep)
{
    // The lease is that of another lock of this registry, if the lock passes to one that waits.
    const LockOptions options = LockOptions().withLease(LockOptions::MaximumLease).withMinHold(keep);
    return ask<Outcome>(
            this, "release()", name, replyOf<Outcome>,
            [token, options, lease = d->defaults.lease](LockEngine *engine, const LockId &id, const auto &finish) {
                if (const EngineError error = problemOf(token, options))
                    finish(error, {});
                else
                    engine->release(id, token, lease, options.minHold, outcomeTo(finish));
            });
}

QFuture<LockReply<int>> LockRegistry::setPermits(const QString &name, int permits)
{
    return ask<int>(this, "setPermits()", name, replyOf<int>,
                    [permits](LockEngine *engine, const LockId &id, const auto &finish) {
                        if (const QString problem = LockOptions().withPermits(permits).validationError();
                            permits < 1 || !problem.isEmpty()) {
                            finish(EngineError::permanent(
                                           DistributedLock::OptionsError,
                                           u"permits is %1; the server needs a number from 1 to %2"_s.arg(permits).arg(
                                                   LockOptions::MaximumPermits)),
                                   0);
                        } else {
                            engine->setPermits(id, permits, finish);
                        }
                    });
}

QFuture<LockReply<int>> LockRegistryPrivate::available(const LockAddress &semaphore, int permits)
{
    return ask<int>(
            q, "available()", semaphore.name(), replyOf<int>,
            [permits](LockEngine *engine, const LockId &id, const auto &finish) {
                engine->inspect(id, [permits, finish](const EngineError &error, const LockInfo &info) {
                    finish(error, freePermits(info, permits));
                });
            },
            semaphore.keyPrefix());
}

QFuture<LockReply<QList<LockWaiter>>> LockRegistry::waiters(const QString &name)
{
    using Waiters = QList<LockWaiter>;
    return ask<Waiters>(this, "waiters()", name, replyOf<Waiters>,
                        [](LockEngine *engine, const LockId &id, const auto &finish) {
                            engine->waiters(id, WaitersAtMost, finish);
                        });
}

} // namespace QDistLock
