// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/forkcount.h"
#include "base/leaseclock.h"
#include "base/postedcall.h"
#include "core/watchdog.h"
#include "engine/lockengine.h"
#include "lock/lockreporter.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace QDistLock {

class DistributedLockPrivate;
class LockDriver;

class LockRegistryPrivate : public QObject
{
    Q_OBJECT
public:
    LockRegistryPrivate(LockRegistry *registry, const QUrl &url);
    ~LockRegistryPrivate() override;
    /// Ends all locks and futures of the registry while its members still exist, because continuations may use them.
    void close();
    /// Releases the locks without reporting anything: the program ends, and nobody has destroyed the registry.
    void abandonLocks();

    static LockRegistryPrivate *get(LockRegistry *registry) { return registry->d.get(); }
    /// Whether a DistributedLock that lives in the calling thread holds the lock \a address, which must be resolved().
    static bool isHeldInThisThread(const LockAddress &address);

    /// For tests; must be called before the engine is first used. Not owned.
    void setClock(const LeaseClock *clock);
    LeaseTime now() const { return m_watchdog.clock()->now(); }
    Watchdog *watchdog() { return &m_watchdog; }

    /// True in a child process after fork(): connection and locks belong to the parent.
    bool isInherited() const { return m_forks != forkCount(); }
    /// The error of requests in such a child process.
    static EngineError inheritedError();
    /// The error of requests to a lock that has lost its registry for \a reason, such as one of the two below.
    static EngineError goneError(const QString &reason);
    static QString destroyedReason();
    static QString leftBehindReason();
    /// \a text after \a subject, which it is about, and the server of \a registry, which may be null.
    static QString describe(const LockRegistryPrivate *registry, const QString &subject, const QString &text);

    LockRegistry *registry() const { return q; }
    /// Creates the engine if necessary. Null, with \a error set, if the server's URL cannot be used.
    LockEngine *engine(EngineError *error);
    /// Null if the engine was not used yet.
    LockEngine *engine() const { return m_engine.get(); }
    /// From the first failure to reach or use a place that keeps locks until it has been usable for a while. What
    /// concerns all its locks is logged here, each cause once.
    struct Outage
    {
        quint64 number = 0;                  ///< different for each outage, from 1 on
        QSet<DistributedLock::Error> logged; ///< causes; none: there is no outage at present
        QSet<DistributedLock::Error> causes; ///< those for which errorOccurred() was emitted
        QTimer endTimer;
    };
    /// The present outage of the place that keeps \a lock, which has met \a error; null if there is none.
    const Outage *outageOf(const LockId &lock, const EngineError &error);

    /// Attached locks are notified when the state of the engine changes.
    void attach(LockDriver *lock) { m_locks.insert(lock); }
    void detach(LockDriver *lock);
    /// \a lock has had \a outcomes, which may be none.
    void count(const LockDriver &lock, const QList<LeaseMachine::Outcome> &outcomes)
    {
        if (m_reporter && m_reporter->isWatched())
            m_reporter->count(lock, outcomes);
    }
    /// Routes notices about the token of that sequence to \a lock; null ends it.
    void route(quint64 sequence, LockDriver *lock);

    /*!
        Every signal and result for the application passes through here: \a lock's deliver() or \a function is called
        from an event, or after the engine's processed(); no loop over locks or replies runs then. Functions that are
        still waiting when the registry is destroyed are not called; their destructors may end futures.
    */
    void deliverLater(DistributedLockPrivate *lock);
    void deliverLater(std::function<void()> function);
    void cancelDelivery(DistributedLockPrivate *lock);
    /// The DistributedLockPrivate::deliveryTicket of a lock without registry.
    static constexpr quint64 NoTicket = (std::numeric_limits<quint64>::max)();

    using Action = std::function<void(LockEngine *, const EngineError &)>;
    /// Calls \a action when the engine, or the server that keeps \a lock, is ready, or when that has failed to connect.
    void whenReady(const std::optional<LockId> &lock, Action action);
    /// Sets `error`, and emits errorOccurred() unless that error was reported before in an outage that lasts.
    void reportError(const EngineError &error);

    quint64 nextTurn() { return ++m_lastTurn; }

    /// See Semaphore::available(). If the server has no number for it, \a permits counts.
    QFuture<LockReply<int>> available(const LockAddress &semaphore, int permits);

    int watches = 0; ///< they need the connection all the time

    LockOptions defaults;
    QString keyPrefix = LockId::defaultPrefix();
    std::chrono::milliseconds idleEviction = std::chrono::seconds(60);
    EngineError error;
    const QUrl url;           ///< in the form that normalizedServer() returns
    const QString serverText; ///< without secrets

    DistributedLock *obtain(const QString &name);
    void startEviction();

protected:
private:
    void setError(const EngineError &error);
    void messageReceived(const QByteArray &message);
    void engineStateChanged(const LockEngine::LockFilter &concerned);
    void engineFailed();
    Outage &outageAt(const QString &place);
    void logCause(Outage *outage, const EngineError &cause);
    void endOutage(const QString &place, Outage *outage);
    void runPending(const EngineError &error);
    LockEngine::Need need(const LockEngine::LockFilter &filter) const;
    /// All locks, in the order in which their acquisitions began.
    QList<LockDriver *> locksInTurn(const LockEngine::LockFilter &filter = nullptr) const;
    void postDelivery();
    void deliver();
    bool isTimeOver() const;
    void endDelivery();
    void evict();

    LockRegistry *const q;
    const int m_forks = forkCount();
    Watchdog m_watchdog;
    std::unique_ptr<LockEngine> m_engine;
    EngineError m_urlError;
    QSet<LockDriver *> m_locks;
    std::unique_ptr<LockReporter> m_reporter; ///< null before a monitor has asked
    quint64 m_lastTurn = 0;
    QHash<quint64, LockDriver *> m_routes;
    QList<std::pair<std::optional<LockId>, Action>> m_pending;

    struct Delivery
    {
        DistributedLockPrivate *lock; ///< null: `function`
        std::function<void()> function;
    };
    std::deque<Delivery> m_deliveries;
    quint64 m_firstTicket = 1; ///< of m_deliveries.front(); the deliveries after it have the following numbers
    PostedCall m_postedDelivery{this, [this] { deliver(); }};
    bool m_closed = false; ///< close() was called, the engine is destroyed
    /// Delivers while a slot runs a nested event loop, and what is left when deliveries have taken long enough.
    QTimer m_nestedLoopTimer;
    int m_delivering = 0;         ///< calls of deliver(), in nested event loops
    QElapsedTimer m_deliveryTime; ///< since the event loop could run last; invalid while nothing is delivered

    std::map<QString, Outage> m_outages; ///< by LockEngine::placeOf()
    quint64 m_lastOutage = 0;
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
