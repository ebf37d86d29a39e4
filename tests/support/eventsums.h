// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/LockMetrics>
#include <QDistLock/LockObserver>

#include <QtCore/qmap.h>

#include <array>
#include <chrono>
#include <memory>
#include <mutex>

namespace Support {

/// What observers hear of each group, counted. Any thread may call any function.
class EventSums : public QDistLock::LockObserver
{
public:
    static std::shared_ptr<EventSums> installed()
    {
        auto sums = std::make_shared<EventSums>();
        install(sums);
        return sums;
    }

    void acquired(const QDistLock::LockEvent &event) override
    {
        const std::lock_guard locker(m_mutex);
        Group &group = m_groups[event.group];
        ++group.acquired;
        group.contended += event.contended ? 1 : 0;
        group.waited += event.waited;
    }
    void failed(const QDistLock::LockEvent &event) override
    {
        using QDistLock::DistributedLock;
        const std::lock_guard locker(m_mutex);
        Group &group = m_groups[event.group];
        ++(event.error == DistributedLock::BusyError                ? group.busy
                   : event.error == DistributedLock::TimeoutError   ? group.timedOut
                   : event.error == DistributedLock::CancelledError ? group.cancelled
                                                                    : group.errors);
    }
    void released(const QDistLock::LockEvent &event) override
    {
        const std::lock_guard locker(m_mutex);
        ++m_groups[event.group].released;
        m_groups[event.group].held += event.held;
    }
    void lost(const QDistLock::LockEvent &event) override
    {
        const std::lock_guard locker(m_mutex);
        ++m_groups[event.group].lost.at(size_t(event.lossReason));
        m_groups[event.group].held += event.held;
    }
    void renewed(const QDistLock::LockEvent &event) override
    {
        const std::lock_guard locker(m_mutex);
        ++m_groups[event.group].renewed;
    }

    /// The groups whose sums are not what LockMetrics has counted.
    QStringList differences() const
    {
        QStringList different;
        const auto groups = QDistLock::LockMetrics::snapshot();
        const std::lock_guard locker(m_mutex);
        QMap<QString, Group> left = m_groups;
        for (const QDistLock::LockStatistics &group : groups) {
            const Group sums = left.take(group.group);
            using QDistLock::DistributedLock;
            if (sums.acquired != group.acquired || sums.contended != group.contended || sums.waited != group.wait.sum
                || sums.busy != group.busy || sums.timedOut != group.timedOut || sums.cancelled != group.cancelled
                || sums.errors != group.errors || sums.released != group.released || sums.held != group.hold.sum
                || sums.lost.at(DistributedLock::LeaseExpired) != group.leaseExpired
                || sums.lost.at(DistributedLock::Stolen) != group.stolen
                || sums.lost.at(DistributedLock::Deleted) != group.deleted
                || sums.lost.at(DistributedLock::ForcedRelease) != group.forcedReleases
                || sums.renewed != group.renewed)
                different.append(group.group);
        }
        return different + left.keys();
    }

private:
    struct Group
    {
        quint64 acquired = 0, contended = 0, busy = 0, timedOut = 0, cancelled = 0, errors = 0, released = 0,
                renewed = 0;
        std::array<quint64, 4> lost{}; ///< by LossReason
        std::chrono::nanoseconds waited{0}, held{0};
    };

    mutable std::mutex m_mutex; ///< guards the following member
    QMap<QString, Group> m_groups;
};

} // namespace Support
