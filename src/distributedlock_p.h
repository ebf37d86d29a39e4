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

/*!
    Carries out what the state machine says, and emits the signals of the lock.

    Nothing is emitted while replies, notices or other locks are being processed: the registry calls deliver()
    from an event of its own. Only a call of the application itself emits NOTIFY signals before it returns.
*/
class DistributedLockPrivate : public Watchdog::Client, private LeaseMachine::EngineStatus
{
public:
    explicit DistributedLockPrivate(DistributedLock *lock);
    ~DistributedLockPrivate() override;

    void wakeUp(LeaseTime now) override;
    void engineReady();
    void engineFailed(const EngineError &error);
    void wakeableChanged();
    void noticed(LockEngine::Notice notice, std::chrono::milliseconds ms);
    void handedOver(const LockEngine::Handover &handover);
    void registryDestroyed();
    /// Gives back what it holds and waits for, and reports nothing: the lock or the program ends.
    void abandon();
    /// Emits what has happened since: the NOTIFY signals, and one signal. May delete the lock.
    void deliver();
    /// Not 0: deliver() will be called; which one of the registry's deliveries it is.
    quint64 deliveryTicket = 0;

    /// False from the beginning of the lock's destructor: what a continuation still asks for fails.
    bool alive = true;
    void close();
    /// For those who may outlive the lock; made when it is first needed.
    std::shared_ptr<Detail::LockLink> link;

    quint64 newRequest() { return ++m_lastRequest; }
    /// \a own: instead of the lock's options.
    void acquire(quint64 id, bool once, const LockOptions *own = nullptr);
    void failAcquire(quint64 id, DistributedLock::Error code, const QString &text);
    QString refuseAcquire(const char *function);
    bool isForeignCall(const char *function) const;
    void hintAtMilliseconds();
    /// True while it holds the key of that name on the server.
    bool holds(const QByteArray &key) const { return machine.phase() == LeaseMachine::Held && m_keys.lock == key; }
    /// Made before acquire(), where a slot of a NOTIFY may delete the lock.
    QFuture<LockResult> acquireFuture(quint64 id);
    /// Nobody waits for this acquire any more; others go on.
    void withdraw(quint64 id);
    void release(quint64 id);
    void cancel();

    bool isHeld(LeaseTime time) const;
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

    /// The properties that the application sees. They change together with the NOTIFY signals, so that nobody finds the lock held
    /// before acquired() is emitted.
    struct Properties
    {
        DistributedLock::State state = DistributedLock::Unlocked;
        qint64 fencingToken = 0;
        int holdCount = 0;
        int queuePosition = -1;
        bool isHeld() const { return state == DistributedLock::Held || state == DistributedLock::AtRisk; }
        bool operator==(const Properties &other) const
        {
            return state == other.state && fencingToken == other.fencingToken && holdCount == other.holdCount
                    && queuePosition == other.queuePosition;
        }
    };
    Properties notified;

    DistributedLock *const q;
    LockRegistryPrivate *registry = nullptr;
    bool registryGone = false; ///< destroyed: the default one is no substitute for it
    QString name;
    LockOptions options;
    quint64 turn = 0;        ///< in its registry, of the present acquisition
    /// Options set by the application: for these the registry's defaults do not count.
    enum OptionField : quint8 { Lease = 1, Wait = 2, RetryInterval = 4, AutoRenew = 8, Fair = 16, AllFields = 255 };
    quint8 fieldsSet = 0;
    bool leaseGivenAsInt = false; ///< and not checked yet, for want of a name
    bool leaseHintGiven = false;
    LeaseMachine machine;
    DistributedLock::Error error = DistributedLock::NoError;
    QString errorString;
    std::map<quint64, QPromise<LockResult>> acquirePromises;
    std::map<quint64, QPromise<bool>> releasePromises;

private:
    /// Something that deliver() emits.
    struct Outcome
    {
        LeaseMachine::Action action;
        quint64 epoch;
        Properties properties; ///< when it happened; published before its signal
        quint64 serial;
    };
    enum Context { InsideCall, OnEventLoop };

    bool isEngineReady() const override;
    bool canBeWoken() const override;

    /// To be called after every event. InsideCall, that is in a call of the application: may delete the lock.
    void run(Context context);
    void execute(const LeaseMachine::Action &action);
    template<typename Reply>
    LockEngine::Completion completion(Reply reply);
    DistributedLock::State state() const;
    /// Held, but the application does not know yet: to it the lock is still being acquired.
    bool isUnannounced() const;
    /// It happened in a hold that ended before acquired() could be emitted: to the application there was none.
    bool isOfMissedHold(const Outcome &outcome) const;
    Properties properties() const;
    void notifyProperties(const Properties &now);
    bool hasDelivery() const { return !m_outcomes.isEmpty() || !(notified == properties()); }
    /// The hold it is about goes on: nobody has asked for its release since.
    bool isCurrentHold(const Outcome &outcome) const;
    void deliver(const Outcome &outcome);
    void deliverLater();
    /// Why a hold was lost, for error() and errorString().
    EngineError lossError(const LeaseMachine::Action &lost) const;
    LockResult destroyedResult() const;
    void reportFailure(quint64 id, const EngineError &failure);

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
    quint64 m_lastOutcome = 0;
    quint64 m_notifiedOutcome = 0; ///< the properties of this one and those before it are out of date
    /// Of the last errorOccurred() in this acquisition.
    DistributedLock::Error m_reportedError = DistributedLock::NoError;
    /// The registry's outage in which errorOccurred() was emitted last while the lock went on trying, and its error.
    std::pair<quint64, DistributedLock::Error> m_reportedOutage = {0, DistributedLock::NoError};
};

} // namespace QDistLock
