// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/forkcount.h"
#include "core/leaseclock.h"
#include "core/watchdog.h"
#include "engine/lockengine.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <deque>
#include <functional>
#include <limits>
#include <memory>

namespace QDistLock {

class DistributedLockPrivate;

class LockRegistryPrivate : public QObject
{
    Q_OBJECT
public:
    LockRegistryPrivate(LockRegistry *registry, const QUrl &url);
    ~LockRegistryPrivate() override;
    /// Notifies everybody that the registry is being destroyed, while it can still be called: continuations may.
    void close();
    /// The program ends and nobody destroyed the registry: its locks are given back, and nothing is reported.
    void abandonLocks();

    static LockRegistryPrivate *get(LockRegistry *registry) { return registry->d.get(); }
    /// Whether a DistributedLock that lives in the calling thread holds \a key (key prefix and name) on \a server,
    /// which is spelt as normalizedServer() does.
    static bool isHeldInThisThread(const QUrl &server, const QString &key);

    /// For tests; before the first need of the engine. Not owned.
    void setClock(const LeaseClock *clock);
    LeaseTime now() const { return m_watchdog.clock()->now(); }
    Watchdog *watchdog() { return &m_watchdog; }

    /// In a child process after fork(): everything is the parent's.
    bool isInherited() const { return m_forks != forkCount(); }
    /// For what is asked of it there.
    static EngineError inheritedError();

    LockRegistry *registry() const { return q; }
    /// Null, with \a error set, where the server's URL cannot be used.
    LockEngine *engine(EngineError *error);
    /// Null before the first need.
    LockEngine *engine() const { return m_engine.get(); }
    /// From the first failure to reach or use the server until it has been usable for a while.
    bool isOutage() const { return !m_outageErrors.isEmpty(); }
    /// Which outage it is, the first being 1; 0 during none.
    quint64 outage() const { return isOutage() ? m_outages : 0; }

    /// Locks attached are told of the engine's ups and downs.
    void attach(DistributedLockPrivate *lock) { m_locks.insert(lock); }
    void detach(DistributedLockPrivate *lock);
    /// Routes notices about the token of that sequence to \a lock; null ends it.
    void route(quint64 sequence, DistributedLockPrivate *lock);

    /*!
        Whatever the library emits to the application goes through here: \a lock's deliver() or \a function is
        called from an event, where no loop over locks or replies runs. Functions that are left when the registry
        is destroyed are not called; their destructors may end futures.
    */
    void deliverLater(DistributedLockPrivate *lock);
    void deliverLater(std::function<void()> function);
    void cancelDelivery(DistributedLockPrivate *lock);
    /// DistributedLockPrivate::deliveryTicket of a delivery that does not come from here.
    static constexpr quint64 NoTicket = (std::numeric_limits<quint64>::max)();

    /// Calls \a action once the engine is ready or has failed to become so.
    void whenReady(std::function<void(LockEngine *, const EngineError &)> action);
    /// Sets error(); errorOccurred() follows unless this outage has brought that error before.
    void reportError(const EngineError &error);
    /// The same in the registry's own thread, with OptionsError. Callable from any thread.
    void reportMisuse(const QString &text);

    quint64 nextTurn() { return ++m_lastTurn; }

    LockOptions defaults;
    std::chrono::milliseconds idleEviction = std::chrono::seconds(60);
    EngineError error;
    const QUrl url; ///< as normalizedServer() spells it
    const QString serverText; ///< without secrets

    DistributedLock *obtain(const QString &name);
    void startEviction();

protected:
    void customEvent(QEvent *event) override;

private:
    void setError(const EngineError &error);
    void engineStateChanged();
    void engineFailed();
    void runWaiting(const EngineError &error);
    LockEngine::Need need() const;
    /// In the order in which they began to want the lock.
    QList<DistributedLockPrivate *> locksInTurn() const;
    void postDelivery();
    void deliver();
    void evict();

    LockRegistry *const q;
    const int m_forks = forkCount();
    Watchdog m_watchdog;
    std::unique_ptr<LockEngine> m_engine;
    EngineError m_urlError;
    QSet<DistributedLockPrivate *> m_locks;
    quint64 m_lastTurn = 0;
    QHash<quint64, DistributedLockPrivate *> m_routes;
    QList<std::function<void(LockEngine *, const EngineError &)>> m_waiting;

    struct Delivery
    {
        DistributedLockPrivate *lock; ///< null: `function`
        std::function<void()> function;
    };
    std::deque<Delivery> m_deliveries;
    quint64 m_firstTicket = 1; ///< of m_deliveries.front(); those behind it have the next ones
    bool m_deliveryPosted = false;
    bool m_closed = false; ///< by close(): there is no engine any more
    QTimer m_nestedLoopTimer; ///< delivers while a slot runs a nested event loop

    QSet<DistributedLock::Error> m_outageErrors; ///< reported since the server could be used last
    quint64 m_outages = 0;
    QTimer m_outageEndTimer;
    LockRegistry::State m_notifiedState = LockRegistry::Disconnected;

    struct Cached
    {
        DistributedLock *lock;
        LeaseTime lastUsed;
    };
    QHash<QString, Cached> m_cache;
    QTimer m_evictionTimer;
};

} // namespace QDistLock
