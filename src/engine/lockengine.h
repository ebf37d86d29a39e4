// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "engine/engineerror.h"
#include "engine/lockid.h"
#include "engine/token.h"

#include <QDistLock/lockinfo.h>
#include <QDistLock/lockoptions.h>

#include <QtCore/qbytearray.h>
#include <QtCore/qlist.h>
#include <QtCore/qmap.h>
#include <QtCore/qobject.h>
#include <QtCore/qset.h>

#include <chrono>
#include <functional>
#include <optional>

namespace QDistLock {

/// The outcome of one operation on one lock.
struct EngineReply
{
    enum Status : quint8 {
        Failed,  ///< see `error`
        Granted, ///< acquire: our token holds the lock, for a whole lease from the moment the command was sent
        Taken,   ///< acquire: another token holds it
        Done,    ///< renew, release: our token held it; forceRelease: the holder that was meant held it
        Gone,    ///< renew, release, forceRelease: no token holds it
        Stolen,  ///< renew, release, forceRelease: another token holds it
        /// acquire: our token holds the lock, but too few replicas or Sentinels confirm that, see `error`. The caller
        /// must abandon the token.
        Unconfirmed,
    };
    Status status = Failed;
    qint64 fencingToken = 0;                 ///< Granted
    QList<int> permitSlots = {};             ///< Granted, if the token wants slots: ascending; see Semaphore::slot()
    std::chrono::milliseconds holderTtl{-1}; ///< Taken; negative = unlimited
    bool foreignHolder = false;              ///< Taken: its release will not be announced
    bool isFree = false;                     ///< Taken: not this lock, but one that was to be acquired together with it
    int queuePosition = -1;                  ///< Taken; 0 = next, -1 = not in the queue
    QByteArray arrival = {};                 ///< Taken, in the queue: later attempts must pass it on
    std::chrono::microseconds serverTime{0}; ///< Taken: on the server's clock; 0 = unknown
    /// Granted, Done of a renewal: the lease ends then at the latest, safety margin included. For engines whose leases
    /// do not depend on the time of this command alone.
    LeaseTime validUntil = NeverTime;
    /// Failed, Unconfirmed. Gone, Stolen: why another server may have the key, see isUnprovenLoss().
    EngineError error = {};

    /// It was a former master, perhaps: the lock may be lost, but that is not proven.
    bool isUnprovenLoss() const { return (status == Gone || status == Stolen) && error; }
};

/*!
    The interface between the state machine and the place where locks are kept. Asynchronous. An engine does not retry:
    only an abandoned token is cancelled again after an outage.

    Every completion is called exactly once, from the event loop and never from inside the call, unless the engine is
    destroyed before. Neither a completion nor what is destroyed with it may call the application, which could run an
    event loop, or destroy the engine. Operations of one event loop turn may share a command. Thread: the one it lives
    in.
*/
class LockEngine : public QObject
{
    Q_OBJECT
public:
    using Completion = std::function<void(const EngineReply &)>;

    enum State { Disconnected, Connecting, Ready };
    /// A hint, never proof: messages can be forged, lost and late.
    enum Notice {
        Grant,        ///< the lock is reserved for this waiter, for a few seconds at most
        Next,         ///< this waiter is the next; it should poll after `ms`
        ForcedRelease ///< somebody has taken the lock away from this holder
    };
    Q_ENUM(Notice)

    /// A waiter of this client has become the holder, because the former holder, of this or another client, has
    /// released the lock. Unlike a notice, this is proven.
    struct Handover
    {
        LockId lock;
        QByteArray token; ///< the waiter's
        qint64 fencingToken;
        LeaseTime sentAt;                ///< not later than the moment at which the lock passed on
        std::chrono::milliseconds lease; ///< counted from `sentAt`
        /// On the server's clock. It can arrive after an EngineReply that is later; if it cannot, the greatest value.
        std::chrono::microseconds grantedAt = (std::chrono::microseconds::max)();
        QList<int> permitSlots = {}; ///< as in EngineReply
    };

    explicit LockEngine(QObject *parent = nullptr)
        : QObject(parent)
    {
    }
    /// Different for each client, see TokenGenerator.
    const QByteArray &clientId() const { return m_tokens.clientId(); }

    /// The reasons why the locks need the server.
    struct Need
    {
        bool connection = false; ///< a lock is acquiring, held or releasing, or a request waits for the server
        int queuePosition = -1;  ///< the lowest of those waiting in a queue; -1 = none waits
    };
    /// Which locks are meant; null = all.
    using LockFilter = std::function<bool(const LockId &)>;
    /// \a need is called from the event loop, each time again.
    void setNeed(std::function<Need(const LockFilter &)> need) { m_need = std::move(need); }

    struct Waiter
    {
        LockId lock;
        QByteArray token;
    };
    /// \a waiterOf returns the waiter whose token has this sequence number; called from the event loop.
    void setWaiters(std::function<std::optional<Waiter>(quint64 sequence)> waiterOf)
    {
        m_waiterOf = std::move(waiterOf);
    }

    /// Starts connecting unless it is connected.
    virtual void open() = 0;
    /// The same; called before each acquisition of \a lock. A server that refuses the login, and does not keep this
    /// lock, is not asked more often for it.
    virtual void openFor(const LockId &) { open(); }
    /// Ready: the engine can be used for at least one lock.
    virtual State state() const = 0;
    /// Why the engine is not Ready.
    virtual EngineError error() const = 0;
    /// State and error of the server that keeps one lock, for engines with several servers.
    virtual State stateFor(const LockId &) const { return state(); }
    virtual EngineError errorFor(const LockId &) const { return error(); }
    /// The name of that server; empty for engines whose locks are all kept in one place.
    virtual QString placeOf(const LockId &) const { return {}; }
    /// Whether locks are still kept there.
    virtual bool isPlace(const QString &) const { return true; }
    /// The places that cannot be used at present, and why.
    virtual QMap<QString, EngineError> errors() const
    {
        const EngineError own = error();
        return own ? QMap<QString, EngineError>{{QString(), own}} : QMap<QString, EngineError>();
    }

    /// Why this engine cannot keep a lock with \a options, which are valid, in words; empty if it can.
    virtual QString unsupported(const LockOptions &options) const = 0;

    /// The engine collects operations until uncork(), which sends them all.
    virtual void cork() {}
    virtual void uncork() {}
    /// True while it calls completions and emits signals for what has arrived; processed() follows.
    virtual bool isProcessing() const { return false; }

    virtual QByteArray makeToken() { return m_tokens.makeToken(); }
    /// The sequence number of the last token made.
    quint64 lastSequence() const { return m_tokens.lastSequence(); }

    /// Replicas that must have an acquire or a renewal before it counts as done, see LockOptions::minReplicas. If too
    /// few have it in time, the acquire ends Unconfirmed and the renewal Failed, with a ReplicationError. None where
    /// unsupported() refuses minReplicas.
    struct Replicas
    {
        int minimum = 0;
        std::chrono::milliseconds timeout{0};
    };

    /// As many locks at most can be acquired with one command.
    static constexpr qsizetype MostTogether = 64;

    struct Acquire
    {
        LockId lock;
        QByteArray token; ///< of a reader or of a holder of permits: shares the lock with others of its kind
        std::chrono::milliseconds lease;
        bool repairMissingTtl = true;
        bool enqueue = false;    ///< join the queue if taken; only if canBeWoken()
        bool barge = false;      ///< acquire it although others wait; in the queue, only wait to be woken
        QByteArray arrival = {}; ///< the waiter's place in the queue, from an earlier reply
        Replicas replicas = {};
        int permits = 0; ///< of the semaphore, if the token is that of a holder of permits, see LockOptions::permits
        /// Not 0: acquired with one command together with the others that have this number and are made in the same
        /// event loop turn, all or none of them. Only if canAcquireTogether(), without `enqueue`, without permits, all
        /// of one lease. Where several commands are needed, some of them may be acquired: for more than MostTogether,
        /// for different slots of a cluster, and while a slot moves.
        quint64 together = 0;
    };
    virtual bool canAcquireTogether() const { return false; }
    /// Why \a locks cannot be held together, in words; empty if they can.
    virtual QString whyNotTogether(const QList<LockId> &) const { return {}; }
    /// Whether a waiter in the queue of \a lock would be notified of its turn at present.
    virtual bool canBeWoken(const LockId &lock) const = 0;
    virtual void acquire(const Acquire &operation, Completion completion) = 0;
    virtual void renew(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                       const Replicas &replicas, Completion completion) = 0;
    /// \a keep > 0: the lock remains taken and expires after that time. If the lock passes to another waiter of this
    /// engine, that waiter holds it for \a lease; handedOver() then follows the completion.
    virtual void release(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                         std::chrono::milliseconds keep, Completion completion) = 0;
    /// Gives the lock of \a from to the token of \a operation, one of which is a reader's, without a gap and without
    /// waiting. Granted: \a from holds nothing any more; Taken: \a from is not the only reader; Gone, Stolen or Failed.
    /// For engines that have readers.
    virtual void convert(const Acquire &operation, const QByteArray &from, Completion completion);
    /// Nobody wants this token any more: it leaves the queue, and a lock that it may have acquired is released. The
    /// engine retries, also after reconnections, for \a atMost; by then the server has forgotten the token. \a keep as
    /// in release().
    virtual void abandon(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                         std::chrono::milliseconds keep, std::chrono::milliseconds atMost) = 0;

    /// The `name` of the result is not specified; the caller knows it.
    virtual void inspect(const LockId &lock, std::function<void(const EngineError &, const LockInfo &)> completion) = 0;
    /// Finds out who holds the lock that \a waiter failed to acquire, for the text of the error. Unlike inspect(), this
    /// costs the server little, even if a thousand clients ask at the same time, so the result may be incomplete, or
    /// nullopt. Returns false, and does not call \a completion, if another request would be too much at present.
    virtual bool findHolder(const Waiter &waiter, std::function<void(const std::optional<LockInfo> &)> completion);
    /// The locks that are held and whose names, without \a prefix, match the glob \a pattern.
    virtual void list(const QString &prefix, const QString &pattern,
                      std::function<void(const EngineError &, const QList<LockInfo> &)> completion) = 0;

    // For a monitor: it reads all locks again and again, and must cost the server little.

    /// One step of a scan, which finds the locks that are held: each of them once or more, if it is held all the time.
    struct ScanStep
    {
        EngineError error = {};   ///< some locks may not be found; perhaps of one server, and the next step has others
        QList<LockId> locks = {}; ///< may be held
        QByteArray next = {};     ///< where the next step begins; empty after the last one
    };
    /// The next step of a scan as in list(). \a from: `next` of the step before; empty for the first.
    virtual void scan(const QString &prefix, const QString &pattern, const QByteArray &from,
                      std::function<void(const ScanStep &)> completion);
    /// What inspectAll() has read.
    struct Inspection
    {
        QList<LockInfo> locks; ///< in the order in which they were asked for, each with its own error
        EngineError clients;   ///< why it is not known which processes hold them
    };
    /// For inspectAll(): \a lock could not be read.
    static LockInfo unread(const LockId &lock, const EngineError &error);
    /// As many locks at most for one inspectAll(), which keeps a Redis server busy for about 0.3 ms then.
    static constexpr qsizetype MostInspected = 32;
    /// Like inspect() for each of \a locks, which are one or more; but which process holds a lock, and whether it is
    /// connected, may be as old as some seconds. The names are set.
    virtual void inspectAll(const QList<LockId> &locks, std::function<void(const Inspection &)> completion);
    /// Whether scan() and inspectAll() keep a server busy for about half a millisecond, however many locks and keys
    /// there are.
    virtual bool hasShortSteps() const { return false; }

    // Messages between clients, for monitors. Anybody can send one, none is sure to arrive, and a client that does not
    // know what one means ignores it.

    /// Whether clients can send each other messages here.
    virtual bool hasMessages() const { return false; }
    /// Sends \a message to the client with the id \a client, and listens to messages that are sent to this one.
    /// \a completion gets an error if it was not sent, or if the server does not let this client listen; nobody knows
    /// whether it was received.
    virtual void sendMessage(const QByteArray &client, const QByteArray &message,
                             std::function<void(const EngineError &)> completion);
    /// The ids of the clients that are connected, or were some seconds ago. After an error some of them are missing.
    virtual void clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion);

    /// The first \a atMost waiters in the queue of \a lock, the next one first.
    virtual void waiters(const LockId &lock, int atMost,
                         std::function<void(const EngineError &, const QList<LockWaiter> &)> completion) = 0;
    /// Takes the lock away from the holder with \a fencingToken, or, if that is 0, from whoever holds it. Done, Gone,
    /// Stolen (somebody else holds it) or Failed.
    virtual void forceRelease(const LockId &lock, qint64 fencingToken, Completion completion) = 0;

    /// Makes \a lock a semaphore of \a permits permits, and serves the waiters that fit then. \a completion gets the
    /// number before, 0 if there was none.
    virtual void setPermits(const LockId &lock, int permits,
                            std::function<void(const EngineError &, int before)> completion);

Q_SIGNALS:
    // `concerned` is empty if all locks are. It must not be called after the slot has returned.

    /// state(), or stateFor() of the locks \a concerned.
    void stateChanged(const QDistLock::LockEngine::LockFilter &concerned = {});
    /// One attempt to reach the server failed, or the connection was lost; see error().
    void failed();
    /// Another server has taken the place of the one that kept the locks \a concerned, and may lack what that had last.
    void serverReplaced(const QDistLock::LockEngine::LockFilter &concerned);
    /// \a sequence is that of the token concerned.
    void noticed(QDistLock::LockEngine::Notice notice, quint64 sequence, std::chrono::milliseconds ms);
    void handedOver(const QDistLock::LockEngine::Handover &handover);
    /// The result of canBeWoken() may have changed for the locks \a concerned.
    void wakeableChanged(const QDistLock::LockEngine::LockFilter &concerned = {});
    /// A message of sendMessage() has arrived. Anybody may have sent it.
    void messageReceived(const QByteArray &message);
    /// Everything that has arrived was processed. A slot may run an event loop, or destroy the engine.
    void processed();

protected:
    /// For unsupported(): several cannot hold a lock together, as readers or with permits, because of \a reason, a
    /// clause. Empty if \a options do not ask for that.
    static QString noSharing(const LockOptions &options, const QString &reason);
    /// Examines all locks.
    Need need(const LockFilter &filter = nullptr) const { return m_need ? m_need(filter) : Need(); }
    std::optional<Waiter> waiterOf(quint64 sequence) const { return m_waiterOf ? m_waiterOf(sequence) : std::nullopt; }

private:
    TokenGenerator m_tokens;
    std::function<Need(const LockFilter &)> m_need;
    std::function<std::optional<Waiter>(quint64 sequence)> m_waiterOf;
};

} // namespace QDistLock
