// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/postedcall.h"
#include "lock/distributedlock_p.h"
#include "lock/lockregistry_p.h"

#include <QDistLock/multilock.h>

#include <QtCore/qpointer.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>

#include <functional>
#include <optional>
#include <vector>

namespace QDistLock {

/*!
    Acquires the locks of a MultiLock, which are DistributedLock objects that belong to it, and holds them together.

    As in DistributedLockPrivate, no signal is emitted while something changes: what happens becomes an event, and
    deliver() emits its signals later, from the event loop. Only a call of the application itself emits NOTIFY signals
    before it returns.
*/
class MultiLockPrivate
{
public:
    explicit MultiLockPrivate(MultiLock *lock)
        : q(lock)
        , m_expiry(lock)
    {
        m_expiry.setSingleShot(true);
        m_expiry.setTimerType(Qt::PreciseTimer);
        QObject::connect(&m_expiry, &QTimer::timeout, q, [this] { expireRequests(); });
    }

    static MultiLockPrivate *get(MultiLock *lock) { return lock->d.get(); }

    void close();
    void leaveThread();

    bool isForeignCall(const char *function) const;
    bool refuseChange();
    void setNames(const QStringList &names);
    void add(const QString &name, std::optional<LockOptions::Mode> mode);
    LockRegistry *registry() const { return m_registry; }
    void setRegistry(LockRegistry *registry);
    const LockOptions &options() const { return m_options; }
    QString subject() const; ///< what a text about these locks begins with
    /// When the application sets \a fields.
    void setFields(quint8 fields, const LockOptions &options);

    QString refuseAcquire(const char *function);
    QFuture<LockResult> acquireAsync(bool once, const LockOptions *own = nullptr);
    void acquire(quint64 id, bool once, const LockOptions *own = nullptr); ///< \a own replaces the options
    QFuture<bool> releaseAsync();
    void release(quint64 id);
    void cancel();
    quint64 newRequest() { return ++m_lastRequest; }

    bool isHeld() const { return notified.isHeld() && areHeld(); }

    struct Member
    {
        QString name;
        std::optional<LockOptions::Mode> mode; ///< otherwise that of the options
        DistributedLock *lock = nullptr;       ///< a child of the MultiLock
        quint64 request = 0;                   ///< of the step Together, while it is pending
        bool isRenewed = false;                ///< since the last outcome Renewed
    };
    std::vector<Member> members;           ///< in the order in which they are acquired
    QString keyPrefix;                     ///< must be set before the names; null: that of the registry
    std::function<void()> deadlineChanged; ///< for the library's own thread: remainingTime() has a new end, or is 0

    /// The properties that the application sees; see DistributedLockPrivate::Properties.
    struct Properties
    {
        DistributedLock::State state = DistributedLock::Unlocked;
        int holdCount = 0;
        quint64 hold = 0;
        bool isHeld() const { return state == DistributedLock::Held || state == DistributedLock::AtRisk; }
        bool operator==(const Properties &other) const
        {
            return state == other.state && holdCount == other.holdCount && hold == other.hold;
        }
    };
    Properties notified;
    DistributedLock::Error error = DistributedLock::NoError;
    QString errorString;

private:
    enum Step {
        Idle,
        Together, ///< all locks were asked for with one command
        InOrder,  ///< the locks before m_next are held, and that one is asked for
        Holding,
        Releasing
    };
    enum Context { InsideCall, OnEventLoop };

    struct Request
    {
        quint64 id;
        LockOptions options;
        LeaseTime deadline;
        bool once;
        quint64 atMember = 0; ///< in the step InOrder: its id at the lock m_next
    };

    /// What deliver() will report.
    struct Event
    {
        enum Kind {
            Acquired,
            AcquireFailed,
            ReleaseDone,
            Released,
            Lost,
            Renewed,
            AtRisk,
            ErrorOccurred,
            ErrorCleared
        };
        Kind kind;
        quint64 id = 0; ///< of the request that has ended
        bool success = false;
        DistributedLock::LossReason reason = DistributedLock::LeaseExpired;
        QString name = {}; ///< of the lock that was lost
        DistributedLock::Error error = DistributedLock::NoError;
        QString text = {};
        quint64 hold = 0;
        Properties properties = {}; ///< when it happened; they are notified before its signal
        quint64 serial = 0;
    };

    static DistributedLockPrivate *of(const Member &member) { return DistributedLockPrivate::get(member.lock); }
    LeaseTime now() const { return of(members.front())->now(); }
    size_t indexOf(const DistributedLock *lock) const;
    void makeLock(Member *member);
    bool holds(const Member &member) const { return of(member)->machine.isHeld(now()); }
    bool areHeld() const;
    LockOptions optionsOf(const Member &member, const LockOptions &options) const;
    QString describe(const QString &text) const;
    EngineError withText(const EngineError &reason) const { return QDistLock::withText(reason, m_used, true); }

    void setOptions(const LockOptions &options);
    EngineError findRegistry(LockEngine **engine);
    EngineError whyRefused(const LockOptions &options, LockEngine *engine) const;
    const LockOptions *presentOptions() const;
    const Member *notCovered(const LockOptions &present, const LockOptions &options) const;
    void addRequest(quint64 id, bool once, const LockOptions *own);
    void proceed();
    void askAll();
    void askInOrder();
    void ask(Request *request);
    void memberEnded(DistributedLock *lock, quint64 id, const EngineError &reason);
    void allEnded();
    void gotAll();
    void memberReleased(DistributedLock *lock, std::optional<DistributedLock::LossReason> lost);
    void memberRenewed(DistributedLock *lock);
    void endHold();
    void giveUpAll();
    void giveUpIfUnwanted();
    void withdraw(quint64 id);
    void expireRequests();
    void watchDeadlines();

    void fail(quint64 id, const LockOptions &options, const EngineError &reason, const Member *member = nullptr);
    void countFailure(const LockOptions &options, DistributedLock::Error code, const Member *member = nullptr) const;
    void makeCancelled(Event *event) const;
    void append(Event event);
    void changed(Context context);
    Properties properties() const;
    bool isUnannounced() const { return m_step == Holding && !notified.isHeld(); }
    bool isCurrentHold(const Event &event) const { return m_step == Holding && m_hold == event.hold; }
    bool isOfMissedHold(const Event &event) const;
    void notify(const Properties &now);
    void deliver();
    void deliver(const Event &event);
    bool storeError(DistributedLock::Error code, const QString &text);
    void reportFailure(const Event &event);

    MultiLock *const q;
    bool m_isAlive = true;
    QPointer<LockRegistry> m_registry;
    QString m_registryGone; ///< if it is null but was not: the reason; the default one must not replace it
    LockOptions m_options;
    quint8 m_fieldsSet = 0; ///< see OptionField
    AcquireFutures m_futures;
    ReleaseFutures m_releases;
    quint64 m_lastRequest = 0;

    Step m_step = Idle;
    std::vector<Request> m_requests; ///< pending acquires
    LockOptions m_used;              ///< the options of the present acquisition
    size_t m_next = 0;
    EngineError m_refusal = {};  ///< why the step Together of this acquisition failed; no error if it did not
    size_t m_refused = 0;        ///< the index of the lock whose error that is
    quint64 m_hold = 0;          ///< the number of the present hold, or of the last one
    int m_levels = 0;            ///< of it
    size_t m_unreleased = 0;     ///< in the step Releasing
    quint64 m_release = 0;       ///< the request that began this step
    std::optional<Event> m_loss; ///< the first one in this step
    QTimer m_expiry;             ///< of the requests that no single lock ends

    std::vector<Event> m_events;
    quint64 m_lastEvent = 0;
    quint64 m_stampedEvent = 0;              ///< events up to this one have their properties
    quint64 m_notifiedEvent = 0;             ///< the properties of events up to this one are out of date
    quint64 m_announcedHold = 0;             ///< acquired() was emitted in it
    QSet<DistributedLock::Error> m_reported; ///< by errorOccurred(), and the problem lasts
    PostedCall m_delivery{q, [this] { deliver(); }};
};

} // namespace QDistLock
