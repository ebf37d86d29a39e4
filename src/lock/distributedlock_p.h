// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "lock/acquirefutures.h"
#include "lock/lockdriver.h"
#include "lock/optionfields.h"
#include "lock/releasefutures.h"

#include <QDistLock/distributedlock.h>
#include <QDistLock/impl/lockreference.h>

#include <QtCore/qlist.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace QDistLock {

class LockRegistryPrivate;

/// In milliseconds; longer than an int can hold becomes the greatest int.
inline int toInt(std::chrono::milliseconds duration)
{
    constexpr auto greatest = (std::numeric_limits<int>::max)();
    return int(std::min<qint64>(duration.count(), greatest));
}

/// Converts a value of the property `wait`, in milliseconds, to LockOptions::wait. The greatest int means no limit.
inline std::chrono::milliseconds waitFromMs(int wait)
{
    return wait == (std::numeric_limits<int>::max)() ? LockOptions::Forever : std::chrono::milliseconds(wait);
}

/// \a error with the text that belongs to its rule, if it has one. \a used: the options of the acquisition.
/// \a isOneOfSeveral: the lock belongs to a MultiLock.
EngineError withText(EngineError error, const LockOptions &used, bool isOneOfSeveral);

/// What a text about these locks, at least one, begins with: Lock "a"; Locks "a" and "b"; Lock "a" and 2 others.
QString subjectOf(const QStringList &names);
/// Whether a lease that was given as a number may have been meant in seconds.
inline bool isSuspiciouslyShort(std::chrono::milliseconds lease)
{
    return lease.count() > 0 && lease.count() < 100;
}
/// \a subject: what the text begins with. \a lock: the name, if the text is about one lock.
void warnOfShortLease(const QString &subject, std::chrono::milliseconds lease, const QString &lock = {});
/// No error, or one that an acquire can end with while the server works.
bool isOrdinary(DistributedLock::Error error);

/// Shared by a lock and the guards and coroutines that may outlive it.
struct Detail::LockLink
{
    std::mutex mutex;
    DistributedLock *lock; ///< null from the beginning of its destructor
    // For messages: other threads must ask neither the lock nor its thread.
    QString name;
    QString thread;
    bool misuseReported = false;
};

/*!
    Drives a DistributedLock, and reports to the application what happens: signals, properties, futures.

    No signal is emitted while replies, messages or other locks are being processed: the registry calls deliver() from
    a separate event. Only a call of the application itself emits NOTIFY signals before it returns.
*/
class DistributedLockPrivate : public LockDriver
{
public:
    explicit DistributedLockPrivate(DistributedLock *lock);
    ~DistributedLockPrivate() override;

    static DistributedLockPrivate *get(DistributedLock *lock) { return lock->d.get(); }
    static const DistributedLockPrivate *get(const DistributedLock *lock) { return lock->d.get(); }

    /// Emits the NOTIFY signals of the next event in the queue, and the signal of that event. May delete the lock.
    void deliver();
    /// Number of the registry's delivery that will call deliver(); 0 if there is none.
    quint64 deliveryTicket = 0;

    /// False from the beginning of the lock's destructor. Requests that a continuation makes then fail.
    bool alive = true;
    void close();
    /// Created when the first guard or coroutine needs it.
    std::shared_ptr<Detail::LockLink> link;

    quint64 newRequest() { return ++m_lastRequest; }
    /// \a own replaces the lock's options. \a number: see LockEngine::Acquire::together.
    void acquire(quint64 id, bool once, const LockOptions *own = nullptr, quint64 number = 0);
    /// \a label: of the options that the acquire was made with.
    void failAcquire(quint64 id, DistributedLock::Error code, const QString &text, const QString &label);
    QString refuseAcquire(const char *function);
    bool isForeignCall(const char *function) const;
    void hintAtMilliseconds();
    /// Must be called before acquire(), in which a slot of a NOTIFY signal may delete the lock.
    QFuture<LockResult> acquireFuture(quint64 id);
    /// Acquires the lock for \a id by taking it over from `partner`, which holds it in the other mode.
    void takeFromPartner(quint64 id);
    /// Cancels this one acquire, because nobody waits for it any more.
    void withdraw(quint64 id);
    void release(quint64 id);
    /// Whether the texts of errors say who holds the lock.
    void setNamesHolder(bool namesHolder);
    /// Ends all pending acquires, and releases all levels.
    void giveUp();
    QByteArray detach();
    void cancel();

    bool isHeld(LeaseTime time) const;
    bool registryGone() const { return !m_registryGone.isEmpty(); }
    /// The lock is about to move to another thread.
    void leaveThread();
    /// Null, with \a error set, if there is no usable server.
    LockEngine *engine(EngineError *error);
    void setRegistry(LockRegistryPrivate *newRegistry);
    void setOptions(const LockOptions &newOptions);
    /// Like setOptions(), when the application sets \a fields.
    void setFields(quint8 fields, const LockOptions &newOptions);
    void setError(const EngineError &newError);
    /// True if the caller must emit errorChanged(): after the signal of the event, because a slot of errorChanged() may
    /// change the state that this signal reports.
    bool storeError(const EngineError &newError);
    /// \a text after the name of the lock and of the server.
    QString describe(const QString &text) const;
    QString quotedName() const { return Detail::quoted(address.name()); }
    /// \a text with the fields of this lock: for the log. In the lock's own thread.
    QString logLine(const QString &text) const { return logLine(text, machine.fencingToken()); }
    QString logLine(const QString &text, qint64 fencingToken) const;
    EngineError withText(const EngineError &engineError) const;

    /// The properties that the application sees. They change together with their NOTIFY signals, so that the lock does
    /// not appear to be held before acquired() is emitted.
    struct Properties
    {
        DistributedLock::State state = DistributedLock::Unlocked;
        qint64 fencingToken = 0;
        QList<int> permitSlots = {}; ///< change only with the fencing token, whose NOTIFY signal they share
        int holdCount = 0;
        int queuePosition = -1;
        quint64 hold = 0; ///< see DistributedLock::holdNumber()
        bool isHeld() const { return state == DistributedLock::Held || state == DistributedLock::AtRisk; }
        bool operator==(const Properties &other) const
        {
            return state == other.state && fencingToken == other.fencingToken && holdCount == other.holdCount
                    && queuePosition == other.queuePosition && hold == other.hold;
        }
    };
    Properties notified;

    DistributedLock *const q;
    LockAddress address;
    LockOptions options;
    /// The other lock of a ReadWriteLock; null if this is not part of one. Both have the same owner.
    QPointer<DistributedLock> partner;
    std::optional<LockOptions::Mode> fixedMode; ///< that of a lock with a partner, which has no permits
    bool isNameFixed = false;
    /// For a MultiLock, which this is part of: request \a id has ended, with no error if it has succeeded. Emits
    /// nothing, and destroys nothing.
    std::function<void(quint64 id, const EngineError &error)> acquireEnded;
    quint8 fieldsSet = 0;         ///< see OptionField
    bool leaseGivenAsInt = false; ///< and not checked yet, because the lock has no name
    bool leaseHintGiven = false;
    DistributedLock::Error error = DistributedLock::NoError;
    QString errorString;
    EngineError::Rule errorRule = EngineError::NoRule; ///< that of `error`
    AcquireFutures acquireFutures;
    ReleaseFutures releaseFutures;

private:
    /// An outcome that deliver() will report.
    struct Event
    {
        LeaseMachine::Outcome outcome;
        Properties properties; ///< when it happened; they are notified before its signal
        quint64 serial;
        quint64 search = 0; ///< deliver() waits for its end; 0 = none
    };

    void append(const LeaseMachine::Outcome &outcome, const Properties &now);
    /// Begins to find out who holds the lock, for the text of \a failure. Returns the number of the search, or 0.
    quint64 findHolder(const LeaseMachine::Outcome &failure);
    /// \a holder: nullopt if it was not found.
    void searchEnded(quint64 search, const std::optional<LockInfo> &holder);
    /// The events that wait for a search are delivered without its result.
    void endSearches();
    void eventProcessed(const QList<LeaseMachine::Outcome> &outcomes, Context context) override;
    void foundTaken() override;
    void registryChanged(LockRegistryPrivate *former) override;
    DistributedLock::State state() const;
    /// The lock is held, but acquired() was not emitted yet.
    bool isUnannounced() const;
    /// \a event belongs to a hold that ended before acquired() could be emitted, so the application must not see it.
    bool isOfMissedHold(const Event &event) const;
    Properties properties() const;
    void notifyProperties(const Properties &now);
    bool hasDelivery() const { return !m_events.isEmpty() || !(notified == properties()); }
    /// The hold that \a event belongs to goes on, and its release has not been requested.
    bool isCurrentHold(const Event &event) const;
    /// Whether the future of the acquire that \a event grants was cancelled, or has ended without an event loop.
    bool isUnwanted(const Event &event) const;
    void deliver(const Event &event);
    void deliverLater();
    /// The reason of a loss, for error() and errorString().
    EngineError lossError(const LeaseMachine::Outcome &lost) const;
    LockResult destroyedResult() const;
    void errorEnded();
    void reportFailure(quint64 id, const EngineError &failure);
    void watchEventLoop(quint64 id, std::chrono::milliseconds wait);

    bool m_namesHolder = true;
    quint64 m_announcedEpoch = 0; ///< acquired() was emitted in it
    quint64 m_lastRequest = 0;
    /// Acquires that a slot withdrew before the machine had them, or while their end is being reported.
    QSet<quint64> m_withdrawn;
    QList<Event> m_events;
    quint64 m_lastEvent = 0;
    quint64 m_notifiedEvent = 0; ///< the properties of events up to this one are out of date
    quint64 m_lastSearch = 0;
    bool m_isSearching = false;            ///< otherwise no event waits for a search
    std::unique_ptr<QTimer> m_searchTimer; ///< created when it is first needed
    /// The last error that errorOccurred() reported in this acquisition.
    DistributedLock::Error m_reportedError = DistributedLock::NoError;
    /// The causes that errorOccurred() has reported in this acquisition while the lock kept trying, and the number of
    /// the outage of its server in which it did. With the number 0 there is no outage: they are errors of this lock
    /// alone.
    quint64 m_toldOutage = 0;
    QSet<DistributedLock::Error> m_told;
};

} // namespace QDistLock
