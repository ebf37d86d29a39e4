// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "core/leasemachine.h"
#include "core/watchdog.h"
#include "metrics/lockmeter.h"

#include <QtCore/qpointer.h>

#include <functional>
#include <optional>

namespace QDistLock {

class LockRegistryPrivate;

/*!
    Connects the LeaseMachine of one lock with the engine of its registry: it sends the machine's commands, and passes
    replies, messages and wake-ups to the machine.

    It emits no signals. After each event a subclass gets the outcomes, and reports them to the application.
    Thread: that of the registry.
*/
class LockDriver : public Watchdog::Client, private LeaseMachine::EngineStatus
{
public:
    // Called by the registry.
    void wakeUp(LeaseTime now) override;
    void engineReady();
    void engineFailed(const EngineError &error);
    void wakeableChanged();
    void serverReplaced();
    void noticed(LockEngine::Notice notice, std::chrono::milliseconds ms);
    void handedOver(const LockEngine::Handover &handover);
    void registryDestroyed();
    /// Ends everything, because \a reason: a clause.
    void leaveRegistry(const QString &reason);
    /// Gives back what the lock holds and waits for, without an outcome: the lock or the program ends.
    void abandon();

    LeaseTime now() const;
    /// The lock that the present phase is about.
    const LockId &presentLockId() const;
    /// That of the next acquisition, or of the one that is going on.
    const LockId &nextLockId() const { return m_nextLockId ? *m_nextLockId : m_lockId; }
    /// The present token, and its lock.
    LockEngine::Waiter waiter() const { return {m_lockId, m_token}; }
    /// True while it holds \a key (key prefix and name).
    bool holds(const QByteArray &key) const { return machine.phase() == LeaseMachine::Held && m_lockId.key() == key; }

    /// takeFrom() has not ended yet.
    bool isTaking() const { return m_taking.has_value(); }

    LeaseMachine machine;
    LockRegistryPrivate *registry = nullptr;
    LockMeter meter;
    bool wantsSlots = false; ///< if it takes permits, see Semaphore::slot(); applies to the next token
    quint64 turn = 0;        ///< orders the acquisitions of the registry's locks
    quint64 together = 0;    ///< of the present acquisition, see LockEngine::Acquire

protected:
    enum Context { InsideCall, OnEventLoop };

    /// No reply is processed after \a owner is destroyed.
    explicit LockDriver(QObject *owner);
    ~LockDriver() override;

    /// Must be called after every event of the machine. InsideCall: inside a call of the application, whose slots may
    /// delete the lock.
    void run(Context context);
    void changeRegistry(LockRegistryPrivate *newRegistry);
    /// Takes the place of \a holder, which holds the lock for the same owner in the other mode, and has the same
    /// registry; acquire request \a id ends with that. Otherwise \a failed is called with the reply, from the event
    /// loop; but not if this lock is destroyed before. One at a time.
    using TakeFailed = std::function<void(const EngineReply &)>;
    void takeFrom(LockDriver *holder, quint64 id, const LockOptions &options, TakeFailed failed);
    /// Sets the lock that the next acquisition is about. Returns what is wrong with it, in words, or an empty text.
    QString setNextLockId(const QString &prefix, const QString &name);

    /// Gets the outcomes of an event, which may be none. InsideCall: may delete the lock.
    virtual void eventProcessed(const QList<LeaseMachine::Outcome> &outcomes, Context context) = 0;
    /// The server has answered that somebody else holds the lock. Called before the machine processes that reply.
    virtual void foundTaken() = 0;
    /// The lock has left \a former, which may be null, for `registry`, which may be null.
    virtual void registryChanged(LockRegistryPrivate *former) = 0;

    QString m_registryGone; ///< why there is none, if there was one: the default registry must not replace it

private:
    struct Taking ///< see takeFrom()
    {
        LockEngine::Acquire operation;
        quint64 sequence; ///< of its token
        LeaseTime sentAt;
        LockDriver *holder;
        QPointer<QObject> holderOwner; ///< null once `holder` is destroyed
        QByteArray from;               ///< the token of the holder
        quint64 id;
        LockOptions options;
        TakeFailed failed;
    };

    void count(const QList<LeaseMachine::Outcome> &outcomes);
    void taken(const EngineReply &reply);
    void endTaking(const EngineReply &reply);
    void giveBack(const LockEngine::Acquire &operation);
    bool isEngineReady() const override;
    bool canBeWoken() const override;
    void execute(const LeaseMachine::Command &command);
    template<typename Reply>
    LockEngine::Completion completion(quint64 epoch, Reply reply);

    const QPointer<QObject> m_owner;
    LockId m_lockId;                    ///< of the present token
    std::optional<LockId> m_nextLockId; ///< of the next token, if it differs
    QString m_idName, m_idPrefix;       ///< the name and prefix from which the last of these two was made
    QByteArray m_token;
    quint64 m_sequence = 0; ///< of m_token
    std::optional<Taking> m_taking;
    /// May have taken the place of m_token. It keeps others away until this hold has ended, and is given back then.
    std::optional<LockEngine::Acquire> m_successor;
};

} // namespace QDistLock
