// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "core/leasemachine.h"
#include "lock/lockreport.h"

#include <QtCore/qbytearray.h>
#include <QtCore/qhash.h>
#include <QtCore/qlist.h>
#include <QtCore/qobject.h>
#include <QtCore/qset.h>
#include <QtCore/qtimer.h>
#include <QtCore/qvarlengtharray.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>

namespace QDistLock {

class LockDriver;
class LockRegistryPrivate;

/*!
    Reports to monitors that ask for it what the locks of one registry do, see "Monitors" in docs/protocol.md.

    While nobody asks, it keeps nothing. Thread: that of the registry.
*/
class LockReporter : public QObject
{
public:
    explicit LockReporter(LockRegistryPrivate *registry);

    /// \a locks: those of the registry.
    void watch(const WatchRequest &request, const QSet<LockDriver *> &locks);
    bool isWatched() const { return m_isWatched; }
    /// \a lock has had \a outcomes. Only while isWatched().
    void count(const LockDriver &lock, const QList<LeaseMachine::Outcome> &outcomes);
    /// \a lock leaves the registry.
    void forget(const LockDriver *lock);
    /// What has happened since the last report: the registry is about to end.
    void reportNow();

private:
    /// A lock object that holds its lock, or waits for it.
    struct Present
    {
        QByteArray key;
        bool isHeld = false;
        qint64 fencingToken = 0;
        LeaseTime since;
        std::chrono::nanoseconds waited{0};
        QString label;
    };
    struct EndedHold
    {
        qint64 fencingToken;
        std::chrono::nanoseconds waited;
        std::chrono::nanoseconds held;
        LeaseTime at;
    };
    /// What has happened to one lock since the last report to a monitor.
    struct News
    {
        LockHistogram wait;
        LockHistogram hold;
        int failed = 0;
        int lost = 0;
        QList<EndedHold> ended;
    };
    struct Watch
    {
        std::chrono::milliseconds interval;
        LeaseTime until;
        LeaseTime nextReport;
        qint64 lastReport = 0; ///< its number
        std::map<QByteArray, News> news = {};
        QByteArray reportedUpTo = {}; ///< the next report begins after this key, so that all news have their turn
        /// Of the first pass through all locks that are present: the key of the last one.
        std::optional<QByteArray> passedTo = QByteArray(); ///< nullopt: it has ended
    };

    using Locks = QVarLengthArray<const LockDriver *, 1>;

    /// The news of the lock \a key for each watch.
    void tell(const QByteArray &key, const std::function<void(News *)> &change = nullptr);
    void endHold(Present *present, bool isLost, LeaseTime at);
    void report();
    ClientReport takeReport(Watch *watch, LeaseTime now);
    LockReport reportOf(const QByteArray &key, const News &news, LeaseTime now) const;
    void schedule();

    LockRegistryPrivate *const m_registry;
    bool m_isWatched = false;
    LeaseTime m_keptUntil;                 ///< if nobody watches any more
    std::map<QByteArray, Watch> m_watches; ///< by the id of the monitor
    QHash<const LockDriver *, Present> m_present;
    std::map<QByteArray, Locks> m_byKey; ///< those of m_present; first those that hold the lock
    QTimer m_timer;
};

} // namespace QDistLock
