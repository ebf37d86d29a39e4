// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"
#include "engine/lockengine.h"

#include <QDistLock/lockinfo.h>

#include <QtCore/qlist.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qstringlist.h>
#include <QtCore/qtimer.h>

#include <chrono>
#include <map>

namespace QDistLock {

class LockRegistryPrivate;

/*!
    Reads all locks under a prefix again and again, and takes no more than a share of the server's time for that.

    It sends one question at a time, and after each one pauses for a multiple of the time that this took. Half of the
    time is for sweeps through all keys, which find locks, the other half for rounds through the locks that are known,
    of which the visible ones come first. At the beginning, and after refresh(), the pauses are shorter.

    What could not be read keeps its former state, and is among problems(). Signals are emitted from completions of the
    engine: their slots must not call the application. Thread: that of the registry.
*/
class LockWatch : public QObject
{
    Q_OBJECT
public:
    struct Settings
    {
        QString prefix;
        QString pattern;
        std::chrono::milliseconds interval{0}; ///< at least, between two readings of a lock
        double budget = 0;                     ///< share of one processor of the server
    };
    /// As many locks at most are watched.
    static constexpr qsizetype MostLocks = 100'000;
    /// A lock that was released is reported as gone only after this time, unless it is acquired again.
    static constexpr std::chrono::seconds FreeLife{5};

    /// Connects the registry, and keeps it connected.
    LockWatch(LockRegistryPrivate *registry, const Settings &settings);
    ~LockWatch() override;

    /// For the beginning: locks that somebody else has read, and which are reported as gone if they are free now.
    void adopt(const QStringList &names);
    /// The name of the lock \a key; empty if it is not one of those that are watched.
    QString nameOf(const QByteArray &key) const;
    /// Somebody says that this lock is held: it is read before the sweep finds it.
    void suggest(const QString &name);
    /// The locks that are read in each interval, others as the budget permits.
    void setVisible(const QStringList &names);
    /// Reads everything again, with shorter pauses.
    void refresh();
    /// Every lock was read once, as far as the server allows that.
    bool isComplete() const { return m_isComplete; }
    /// Why locks are missing, or what is known of them is old or incomplete: sentences for people.
    QStringList problems() const;
    /// How long the server, and the way to it, took for all questions.
    std::chrono::nanoseconds spent() const { return m_spent; }

Q_SIGNALS:
    /// A lock that is held was read, or one of these that is free now.
    void lockRead(const QDistLock::LockInfo &lock);
    /// That lock was released some time ago, or is no lock any more.
    void lockGone(const QString &name);
    /// isComplete() or problems() may have a new value.
    void changed();

private:
    struct Known
    {
        LockId lock;
        bool isReported = false;
        LeaseTime freeSince = NeverTime;
    };
    /// What happened while all were asked once.
    struct Pass
    {
        QStringList problems; ///< so far
        QStringList former;   ///< of the whole pass before
        void add(const QString &problem);
        void end();
        void breakOff(); ///< the problems count until the next pass ends
        QStringList all() const;
    };

    QList<LockId> idsOf(const QStringList &names) const;
    LockEngine *readyEngine();
    bool isReady() const;
    void engineChanged();
    void beginAgain();
    void proceed();
    void wakeAt(LeaseTime time);
    void goRound(LeaseTime now);
    void endRound();
    void scan();
    void scanned(const LockEngine::ScanStep &step, bool isOfSweep);
    void inspect(const QList<LockId> &locks, std::chrono::nanoseconds *spent);
    void inspected(const QList<LockId> &locks, const LockEngine::Inspection &inspection);
    void lockInspected(const LockId &lock, const LockInfo &info);
    void ask();
    /// Must be called when a question has ended.
    bool answered(std::chrono::nanoseconds *spent);
    void checkComplete();

    const QPointer<LockRegistryPrivate> m_registry;
    const Settings m_settings;
    std::map<QByteArray, Known> m_known; ///< by key
    QList<LockId> m_found;               ///< those that were not read yet
    QList<LockId> m_visible;
    bool m_wasReady = false;
    bool m_isAsking = false;
    LeaseTime m_askedAt;
    LeaseTime m_freeAt; ///< the end of the pause
    std::chrono::nanoseconds m_spent{0};
    std::chrono::nanoseconds m_scanSpent{0}, m_readSpent{0}; ///< for whose turn it is
    QTimer m_timer;

    QByteArray m_scanFrom; ///< empty: the next step begins a sweep
    LeaseTime m_sweepDue;
    Pass m_sweep;
    quint64 m_sweeps = 0;   ///< that were begun before their turn
    bool m_isSwept = false; ///< a sweep has ended
    bool m_isComplete = false;

    QByteArray m_roundAt; ///< the key that was read last; empty: the next step begins a round
    bool m_isRoundsEnd = false;
    LeaseTime m_roundBegan;
    LeaseTime m_roundDue;
    LeaseTime m_visibleDue;
    QList<LockId> m_visibleLeft;
    bool m_isVisiblesTurn = true;
    Pass m_round;
    QString m_clientsProblem;
    bool m_isSweepHurried = false;
    bool m_isRoundHurried = false;
};

} // namespace QDistLock
