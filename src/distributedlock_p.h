// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "core/leasemachine.h"
#include "core/watchdog.h"

#include <QDistLock/distributedlock.h>

#include <QtCore/qlist.h>
#include <QtCore/qpromise.h>
#include <QtCore/qset.h>

#include <map>
#include <optional>

namespace QDistLock {

class LockRegistryPrivate;

/// Carries out what the state machine says, and tells the application.
class DistributedLockPrivate : public Watchdog::Client
{
public:
    explicit DistributedLockPrivate(DistributedLock *lock);
    ~DistributedLockPrivate() override;

    void wakeUp(LeaseTime now) override;
    void engineReady();
    void engineFailed(const EngineError &error);
    void wakeableChanged(const LockEngine *engine);
    void noticed(LockEngine::Notice notice, std::chrono::milliseconds ms);
    void handedOver(const LockEngine::Handover &handover);
    void registryDestroyed();

    quint64 newRequest() { return ++m_lastRequest; }
    /// \a own: instead of the lock's options.
    void acquire(quint64 id, bool once, const LockOptions *own = nullptr);
    /// Made before acquire(), where a slot of a NOTIFY may delete the lock.
    QFuture<LockResult> acquireFuture(quint64 id);
    /// Nobody waits for this acquire any more; others go on.
    void withdraw(quint64 id);
    void release(quint64 id);
    void cancel();

    DistributedLock::State state() const;
    LeaseTime now() const;
    /// Null, with \a error set, where there is no usable server.
    LockEngine *engine(EngineError *error);
    void setRegistry(LockRegistryPrivate *newRegistry);
    void setOptions(const LockOptions &newOptions);
    /// As setOptions(), by the application.
    void setFields(quint8 fields, const LockOptions &newOptions);
    void setError(const EngineError &newError);
    /// True if errorChanged() is to follow: after the signal that tells what happened, for a slot of errorChanged()
    /// may make that untrue.
    bool storeError(const EngineError &newError);
    /// \a text with what it is about: the lock's name and the server.
    QString describe(const QString &text) const;

    DistributedLock *const q;
    LockRegistryPrivate *registry = nullptr;
    bool registryGone = false; ///< destroyed: the default one is no substitute for it
    QString name;
    LockOptions options;
    quint64 turn = 0;        ///< in its registry, of the present acquisition
    /// Options set by the application: for these the registry's defaults do not count.
    enum OptionField : quint8 { Lease = 1, Wait = 2, RetryInterval = 4, AutoRenew = 8, Fair = 16, AllFields = 255 };
    quint8 fieldsSet = 0;
    LeaseMachine machine;
    DistributedLock::Error error = DistributedLock::NoError;
    QString errorString;
    std::map<quint64, QPromise<LockResult>> acquirePromises;
    std::map<quint64, QPromise<bool>> releasePromises;

private:
    /// Something to be told from the event loop.
    struct Outcome
    {
        LeaseMachine::Action action;
        quint64 epoch;
    };
    enum Context { InsideCall, OnEventLoop };

    /// To be called after every event: may delete the lock.
    void run(Context context);
    void execute(const LeaseMachine::Action &action);
    template<typename Reply>
    LockEngine::Completion completion(Reply reply);
    void syncProperties();
    void deliver();
    void deliver(const Outcome &outcome);
    void deliverLater();
    void tellFailure(quint64 id, const EngineError &failure);

    LockKeys m_keys;                    ///< of the present token
    std::optional<LockKeys> m_nextKeys; ///< of the next one, where they differ
    QString m_keysName, m_keysPrefix;   ///< what these were made of last
    QByteArray m_token;
    quint64 m_sequence = 0; ///< of m_token
    quint64 m_epoch = 0;
    quint64 m_announcedEpoch = 0; ///< acquired() was emitted in it
    quint64 m_lastRequest = 0;
    QSet<quint64> m_withdrawn; ///< by a slot, on the way to the machine or while their end is told
    QList<Outcome> m_outcomes;
    bool m_deliveryPosted = false;

    struct Shown
    {
        DistributedLock::State state = DistributedLock::Unlocked;
        qint64 fencingToken = 0;
        int holdCount = 0;
        int queuePosition = -1;
    };
    Shown m_shown; ///< as the last NOTIFY told
};

} // namespace QDistLock
