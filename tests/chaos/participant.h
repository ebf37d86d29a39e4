// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "guardedresource.h"
#include "history.h"

#include <QDistLock/LockOptions>

#include <QtCore/qlist.h>
#include <QtCore/qurl.h>

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
    bool slow = false; ///< is often held for longer than a lease
};

struct Settings
{
    QByteArray process; ///< unique in the history
    QString historyFile;
    QString resource; ///< path of its socket
    std::chrono::milliseconds lease{300};
    quint64 seed = 0;
    QList<LockSettings> locks;
};

/*!
    What a worker is to suffer the next time one of its threads stands inside a critical section, between
    the look whether it still holds the lock and the writes. Thread-safe.
*/
class Ordeal
{
public:
    void stop() { m_next = Stop; }
    void die() { m_next = Die; }
    void block(int ms) { m_next = ms; }
    /// Suffers it, once. True if there was something to suffer.
    bool suffer();
    /// The next slot that calls runNestedLoop() runs an event loop for that time, as a dialog does.
    void nest(int ms) { m_nested = ms; }
    void runNestedLoop();

private:
    enum { Nothing = 0, Stop = -1, Die = -2 };
    std::atomic<int> m_next{Nothing};
    std::atomic<int> m_nested{0};
};

/*!
    One client of one lock, whichever form of the library's interface it uses: draws what to do next,
    guards the resource and writes the history. Thread: one.

    An event of the history tells the time before what it tells was looked at: where it says "held",
    the lock was held at that time or isHeld() lied.
*/
class Participant
{
public:
    using IsHeld = std::function<bool()>;

    Participant(const Settings &settings, const LockSettings &lock, History *history, Ordeal *ordeal);

    const LockSettings &lock() const { return m_lock; }
    /// The last statement of a slot: everything may be gone afterwards.
    void runNestedLoop() { m_ordeal->runNestedLoop(); }
    quint64 below(quint64 limit) { return m_random() % limit; }
    std::chrono::microseconds drawPause();
    std::chrono::microseconds drawHold();
    /// How the next acquire is to be made: for how long it waits.
    QDistLock::LockOptions drawOptions();

    void acquireInvoked();
    /// \a remaining: to the deadline as the lock tells it; 0 if the form at hand cannot tell it.
    void acquired(qint64 fencingToken, qint64 time, std::chrono::nanoseconds remaining, const IsHeld &isHeld);
    void acquireFailed(const QByteArray &error);
    void renewed(qint64 time, std::chrono::nanoseconds remaining, const IsHeld &isHeld);
    /// Looks; what it finds is told with the next event, unless it is news.
    bool observe(const IsHeld &isHeld);
    /// The critical section: writes to the guarded resource, if the lock is held.
    void write(const IsHeld &isHeld);
    /// The same where the form at hand does not tell whether the lock is held.
    void writeUnseen();
    void releaseInvoked(const IsHeld &isHeld);
    /// Told afterwards: that the lock was given back, and that it was still held at \a time.
    void releasedAfter(qint64 time);
    void released();
    void lost(const QByteArray &reason);
    /// Where the form at hand does not tell why; it was found out just now, or before.
    void lost() { lost("Unknown"); }
    /// Looked, and it was not held, in this hold.
    bool hasSeenLoss() const { return m_seenNotHeld; }

    /// Acquisitions until now. Thread-safe.
    int acquisitions() const { return m_acquisitions; }

private:
    Event event(qint64 time, const char *operation, const char *type) const;
    static void addLook(Event *event, bool held);
    void update(const IsHeld &isHeld);

    const QByteArray m_process;
    const LockSettings m_lock;
    const std::chrono::milliseconds m_lease;
    History *const m_history;
    Ordeal *const m_ordeal;
    GuardedResource m_resource;
    std::mt19937_64 m_random;
    qint64 m_token = 0;
    qint64 m_heldUntil = 0;      ///< the last time the lock was seen held
    bool m_seenNotHeld = false;  ///< in this hold
    std::atomic<int> m_acquisitions{0};
};

} // namespace Chaos
