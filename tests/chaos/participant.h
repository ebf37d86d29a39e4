// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "guardedresource.h"
#include "history.h"

#include <QDistLock/LockOptions>

#include <QtCore/qlist.h>
#include <QtCore/qurl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <random>

namespace Chaos {

struct LockSettings
{
    QByteArray name;
    QUrl server;
    bool fair = true;
    bool slow = false; ///< often held for longer than a lease
    QByteArray with;   ///< if a MultiLock holds it in company: the lock for which its client contends

    /// Locks with the same end of their names can be held together.
    QByteArray group() const { return name.mid(4); }
};

struct Settings
{
    QByteArray process; ///< unique in the history
    QString historyFile;
    QString resource; ///< path of its socket
    std::chrono::milliseconds lease{300};
    quint64 seed = 0;
    int replicas = 0;     ///< that must have each lock
    bool readers = false; ///< about three of four acquires are readers', the others writers'
    int permits = 0;      ///< if there are permits: how many; about three of four acquires take one or two
    QList<LockSettings> locks;
    QList<LockSettings> companions; ///< that are held together with them, by the forms multi and multi-scoped
};

/*!
    The fault that a worker injects into itself the next time one of its threads is inside a critical section, between
    the check that it still holds the lock and the writes. Thread-safe.
*/
class InjectedFaults
{
public:
    void stop() { m_next = Stop; }
    void die() { m_next = Die; }
    void block(int ms) { m_next = ms; }
    /// Applies the fault, once. False if there is none.
    bool applyNext();
    /// The same for a critical section in another process: "stop", "die", "block MS", or nothing.
    QByteArray takeNext();
    /// The next slot that calls runNestedLoop() runs an event loop for \a ms, as a dialog does.
    void nest(int ms) { m_nested = ms; }
    void runNestedLoop();

private:
    enum { Nothing = 0, Stop = -1, Die = -2 };
    std::atomic<int> m_next{Nothing};
    std::atomic<int> m_nested{0};
};

/*!
    One client of one lock, for every form of the library's interface. Draws what to do next, writes to the guarded
    resource and records the history. Thread: one.

    The time of an event is read before the state that the event records. So if an event says "held", the lock was held
    at that time, or isHeld() was wrong.
*/
class Participant
{
public:
    using IsHeld = std::function<bool()>;

    Participant(const Settings &settings, const LockSettings &lock, History *history, InjectedFaults *faults);

    const LockSettings &lock() const { return m_lock; }
    /// To be the last statement of a slot, because it may destroy everything.
    void runNestedLoop() { m_faults->runNestedLoop(); }
    quint64 below(quint64 limit) { return m_random() % limit; }
    std::chrono::microseconds drawPause();
    std::chrono::microseconds drawHold();
    /// The options of the next acquire, with a random wait and, if the lock is shared, a random mode.
    QDistLock::LockOptions drawOptions();

    void acquireInvoked();
    /// \a remaining: the lock's remaining time; 0 if the form does not provide it. \a permitSlots: the numbers of its
    /// permits, if it has some.
    void acquired(qint64 fencingToken, qint64 time, std::chrono::nanoseconds remaining, const IsHeld &isHeld,
                  const QList<int> &permitSlots = {});
    void acquireFailed(const QByteArray &error);
    void renewed(qint64 time, std::chrono::nanoseconds remaining, const IsHeld &isHeld);
    /// Checks isHeld(). Records a change at once; otherwise the next event records the result.
    bool observe(const IsHeld &isHeld);
    /// The critical section: uses the guarded resource, if the lock is held. Who holds the lock alone writes to it;
    /// who shares it shows the token, and reads twice.
    void write(const IsHeld &isHeld);
    /// As write(), for a form that does not provide isHeld().
    void writeUnseen();
    /// Records a write of another process.
    void wrote(qint64 from, qint64 to, qint64 read, qint64 replaced, const GuardedResource::Written &written);
    void releaseInvoked(const IsHeld &isHeld);
    /// Records, afterwards, that the lock was released and was still held at \a time.
    void releasedAfter(qint64 time);
    void released();
    void lost(const QByteArray &reason);
    /// For a form that does not provide the reason. The loss was noticed just now, or earlier.
    void lost() { lost("Unknown"); }
    /// In this hold, isHeld() was once false.
    bool hasSeenLoss() const { return m_seenNotHeld; }

    /// Acquisitions of a shared lock, or of one held alone, until now. Thread-safe.
    int acquisitions(bool shared) const { return m_acquisitions.at(shared); }
    bool isShared() const { return m_hasReaders || m_permits > 0; }

private:
    Event event(qint64 time, const char *operation, const char *type) const;
    static void addObservation(Event *event, bool held);
    void update(const IsHeld &isHeld);
    bool drawShared();

    const QByteArray m_process;
    const LockSettings m_lock;
    const std::chrono::milliseconds m_lease;
    const int m_replicas;
    const bool m_hasReaders;
    const int m_permits;
    History *const m_history;
    InjectedFaults *const m_faults;
    GuardedResource m_resource;
    std::mt19937_64 m_random;
    bool m_shared = false; ///< the last acquire shares the lock
    int m_take = 1;        ///< permits, if it does and the lock has permits
    int m_sharedInARow = 0;
    qint64 m_token = 0;
    qint64 m_heldUntil = 0;                           ///< the last time the lock was seen held
    bool m_seenNotHeld = false;                       ///< in this hold
    std::array<std::atomic<int>, 2> m_acquisitions{}; ///< alone, shared
};

} // namespace Chaos
