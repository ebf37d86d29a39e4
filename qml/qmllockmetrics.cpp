// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmllockmetrics.h"

#include <QDistLock/impl/rolenames.h>

#include <QtCore/qpointer.h>
#include <QtCore/qvariant.h>

#include <algorithm>

namespace QDistLock {

static double msOf(const LockHistogram &histogram, std::chrono::nanoseconds duration)
{
    return histogram.count() > 0 ? std::chrono::duration<double, std::milli>(duration).count() : -1;
}

static double percentileOf(const LockHistogram &histogram, double percent)
{
    return msOf(histogram, histogram.percentile(percent));
}

static double meanOf(const LockHistogram &histogram)
{
    return msOf(histogram, histogram.sum / std::max<qint64>(1, qint64(histogram.count())));
}

static QVariant dataOf(const LockStatistics &group, int role)
{
    switch (role) {
    case Qt::DisplayRole:
    case QmlLockMetrics::Group:
        return group.group;
    case QmlLockMetrics::Acquired:
        return group.acquired;
    case QmlLockMetrics::Contended:
        return group.contended;
    case QmlLockMetrics::Busy:
        return group.busy;
    case QmlLockMetrics::TimedOut:
        return group.timedOut;
    case QmlLockMetrics::Cancelled:
        return group.cancelled;
    case QmlLockMetrics::Errors:
        return group.errors;
    case QmlLockMetrics::Failed:
        return group.failed();
    case QmlLockMetrics::Released:
        return group.released;
    case QmlLockMetrics::LeaseExpired:
        return group.leaseExpired;
    case QmlLockMetrics::Stolen:
        return group.stolen;
    case QmlLockMetrics::Deleted:
        return group.deleted;
    case QmlLockMetrics::ForcedReleases:
        return group.forcedReleases;
    case QmlLockMetrics::Lost:
        return group.lost();
    case QmlLockMetrics::Renewed:
        return group.renewed;
    case QmlLockMetrics::AtRisk:
        return group.atRisk;
    case QmlLockMetrics::Held:
        return group.held;
    case QmlLockMetrics::Waiting:
        return group.waiting;
    case QmlLockMetrics::WaitMean:
        return meanOf(group.wait);
    case QmlLockMetrics::WaitP50:
        return percentileOf(group.wait, 50);
    case QmlLockMetrics::WaitP95:
        return percentileOf(group.wait, 95);
    case QmlLockMetrics::WaitP99:
        return percentileOf(group.wait, 99);
    case QmlLockMetrics::HoldMean:
        return meanOf(group.hold);
    case QmlLockMetrics::HoldP50:
        return percentileOf(group.hold, 50);
    case QmlLockMetrics::HoldP95:
        return percentileOf(group.hold, 95);
    case QmlLockMetrics::HoldP99:
        return percentileOf(group.hold, 99);
    default:
        return {};
    }
}

/// The roles whose data differ.
static QList<int> changedRoles(const LockStatistics &before, const LockStatistics &now)
{
    QList<int> changed;
    for (int role = QmlLockMetrics::Acquired; role <= QmlLockMetrics::HoldP99; ++role) {
        if (dataOf(before, role) != dataOf(now, role))
            changed.append(role);
    }
    return changed;
}

QmlLockMetrics::QmlLockMetrics(QObject *parent)
    : QAbstractListModel(parent)
    , m_rows(LockMetrics::snapshot())
{
    m_timer.setInterval(1000);
    connect(&m_timer, &QTimer::timeout, this, &QmlLockMetrics::update);
    m_timer.start();
}

void QmlLockMetrics::setActive(bool active)
{
    if (active == isActive())
        return;
    const QPointer<QmlLockMetrics> alive(this);
    if (active) {
        m_timer.start();
        update();
    } else {
        m_timer.stop();
    }
    if (alive)
        Q_EMIT activeChanged();
}

void QmlLockMetrics::setInterval(int interval)
{
    interval = std::clamp(interval, 100, 3'600'000);
    if (interval == m_timer.interval())
        return;
    m_timer.setInterval(interval);
    Q_EMIT intervalChanged();
}

/// Slots of the application run in here, and may run an event loop or destroy the engine.
void QmlLockMetrics::update()
{
    if (m_isUpdating)
        return; // in an event loop of such a slot: views must hear of one change after the other
    const QPointer<QmlLockMetrics> alive(this);
    m_isUpdating = true;
    const int before = count();
    const QList<LockStatistics> groups = LockMetrics::snapshot();
    const auto removeUntil = [&](int row, const auto &isKept) {
        while (alive && row < count() && !isKept(m_rows.at(row))) {
            beginRemoveRows({}, row, row);
            m_rows.removeAt(row);
            endRemoveRows();
        }
    };
    int row = 0;
    for (const LockStatistics &group : groups) {
        removeUntil(row, [&group](const LockStatistics &other) { return other.group >= group.group; });
        if (!alive)
            return;
        if (row == count() || m_rows.at(row).group != group.group) {
            beginInsertRows({}, row, row);
            m_rows.insert(row, group);
            endInsertRows();
        } else if (const QList<int> roles = changedRoles(m_rows.at(row), group); !roles.isEmpty()) {
            m_rows[row] = group;
            Q_EMIT dataChanged(index(row), index(row), roles);
        }
        if (!alive)
            return;
        ++row;
    }
    removeUntil(row, [](const LockStatistics &) { return false; });
    if (!alive)
        return;
    m_isUpdating = false;
    if (count() != before)
        Q_EMIT countChanged();
}

int QmlLockMetrics::rowCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : count();
}

QVariant QmlLockMetrics::data(const QModelIndex &index, int role) const
{
    if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid))
        return {};
    return dataOf(m_rows.at(index.row()), role);
}

QHash<int, QByteArray> QmlLockMetrics::roleNames() const
{
    return Detail::roleNames(QMetaEnum::fromType<Role>());
}

} // namespace QDistLock
