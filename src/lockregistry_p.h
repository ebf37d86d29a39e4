// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "core/leaseclock.h"
#include "core/watchdog.h"
#include "engine/lockengine.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <functional>
#include <memory>

namespace QDistLock {

class DistributedLockPrivate;

class LockRegistryPrivate : public QObject
{
    Q_OBJECT
public:
    LockRegistryPrivate(LockRegistry *registry, const QUrl &url);
    ~LockRegistryPrivate() override;
    /// Tells everybody that the registry goes, while it is still there to be asked.
    void close();

    static LockRegistryPrivate *get(LockRegistry *registry) { return registry->d.get(); }

    /// For tests; before the first need of the engine. Not owned.
    void setClock(const LeaseClock *clock);
    LeaseTime now() const { return m_watchdog.clock()->now(); }
    Watchdog *watchdog() { return &m_watchdog; }

    LockRegistry *registry() const { return q; }
    /// Null, with \a error set, where the server's URL cannot be used.
    LockEngine *engine(EngineError *error);

    /// Locks attached are told of the engine's ups and downs.
    void attach(DistributedLockPrivate *lock) { m_locks.insert(lock); }
    void detach(DistributedLockPrivate *lock);
    /// Routes notices about the token of that sequence to \a lock; null ends it.
    void route(quint64 sequence, DistributedLockPrivate *lock);

    /// Calls \a action once the engine is ready or has failed to become so.
    void whenReady(std::function<void(LockEngine *, const EngineError &)> action);
    void setError(const EngineError &error);

    quint64 nextTurn() { return ++m_lastTurn; }

    LockOptions defaults;
    std::chrono::milliseconds idleEviction = std::chrono::seconds(60);
    EngineError error;
    const QUrl url;
    const QString serverText; ///< without secrets

    DistributedLock *obtain(const QString &name);
    void startEviction();

private:
    void engineStateChanged();
    void engineFailed();
    void runWaiting(const EngineError &error);
    /// Calls \a function for each lock, in the order in which they began to want it; any may go meanwhile.
    template<typename Function>
    void tellLocks(Function function);
    void evict();

    LockRegistry *const q;
    Watchdog m_watchdog;
    std::unique_ptr<LockEngine> m_engine;
    EngineError m_urlError;
    QSet<DistributedLockPrivate *> m_locks;
    quint64 m_lastTurn = 0;
    QHash<quint64, DistributedLockPrivate *> m_routes;
    QList<std::function<void(LockEngine *, const EngineError &)>> m_waiting;

    struct Cached
    {
        DistributedLock *lock;
        LeaseTime lastUsed;
    };
    QHash<QString, Cached> m_cache;
    QTimer m_evictionTimer;
};

} // namespace QDistLock
