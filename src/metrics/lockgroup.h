// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/distributedlock.h>
#include <QDistLock/lockmetrics.h>

#include <QtCore/qstring.h>

#include <array>
#include <atomic>
#include <chrono>

namespace QDistLock {

/*!
    Counts what the locks of one group do, see LockStatistics. Any thread may call any function, at the same time.

    Groups live until the process ends, so a lock may keep a pointer to its group.
*/
class LockGroup
{
public:
    explicit LockGroup(const QString &name)
        : m_name(name)
    {
    }
    Q_DISABLE_COPY_MOVE(LockGroup)

    /// The group of the lock \a name with \a label, see LockMetrics.
    static LockGroup *of(const QString &name, const QString &label);
    /// Changes when of() may return another group for the same lock.
    static quint32 generation();

    const QString &name() const { return m_name; }

    void beganToWait() { ++m_waiting; }
    void endedToWait() { --m_waiting; }
    void acquired(std::chrono::nanoseconds wait, bool isContended);
    void failed(DistributedLock::Error error);
    void released(std::chrono::nanoseconds hold);
    void lost(DistributedLock::LossReason reason, std::chrono::nanoseconds hold);
    void renewed() { count(&m_renewed); }
    void atRisk() { count(&m_atRisk); }

    LockStatistics statistics() const;
    void reset();

private:
    void endHold(std::chrono::nanoseconds hold);

    using Counter = std::atomic<quint64>;
    /// No number is computed from others, so nothing depends on the order in which other threads see them.
    static void count(Counter *counter, quint64 by = 1) { counter->fetch_add(by, std::memory_order_relaxed); }

    class Histogram
    {
    public:
        void add(std::chrono::nanoseconds duration);
        LockHistogram value() const;
        void reset();

    private:
        std::array<Counter, LockHistogram::Bounds.size() + 1> m_counts{};
        Counter m_sum{0}; ///< in ns
    };

    const QString m_name;
    Histogram m_wait;
    Histogram m_hold;
    Counter m_contended{0};
    Counter m_busy{0};
    Counter m_timedOut{0};
    Counter m_cancelled{0};
    Counter m_errors{0};
    Counter m_released{0};
    std::array<Counter, 4> m_lost{}; ///< by LossReason
    Counter m_renewed{0};
    Counter m_atRisk{0};
    std::atomic<int> m_held{0};
    std::atomic<int> m_waiting{0};
};

} // namespace QDistLock
