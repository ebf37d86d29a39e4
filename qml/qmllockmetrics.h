// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockmetrics.h>

#include <QtCore/qabstractitemmodel.h>
#include <QtCore/qlist.h>
#include <QtCore/qtimer.h>
#include <QtQml/qqml.h>

namespace QDistLock {

/*!
    The QML singleton LockMetrics: what the locks of this process have done, a read-only list with one row for each
    LockStatistics, sorted by group. Rows stay; a group gets its row when something is counted in it for the first time,
    and loses it only by LockMetrics::reset().

    Thread: the engine's. Errors: none. Ownership: each engine has its own. A slot of one of its signals may do
    anything, also destroy the engine.
*/
class QmlLockMetrics : public QAbstractListModel
{
    Q_OBJECT
    QML_NAMED_ELEMENT(LockMetrics)
    QML_SINGLETON
    Q_PROPERTY(bool active READ isActive WRITE setActive NOTIFY activeChanged FINAL)
    Q_PROPERTY(int interval READ interval WRITE setInterval NOTIFY intervalChanged FINAL)
    Q_PROPERTY(int count READ count NOTIFY countChanged FINAL)

public:
    /// What data() returns. A view of QML uses the names with a small first letter.
    enum Role {
        Group = Qt::UserRole + 1, ///< as in LockStatistics, as all until Waiting
        Acquired,
        Contended,
        Busy,
        TimedOut,
        Cancelled,
        Errors,
        Failed,
        Released,
        LeaseExpired,
        Stolen,
        Deleted,
        ForcedReleases,
        Lost,
        Renewed,
        AtRisk,
        Held,
        Waiting,
        WaitMean, ///< in ms, as all that follow; -1 if there is none
        WaitP50,  ///< see LockHistogram::percentile(), as of all percentiles
        WaitP95,
        WaitP99,
        HoldMean,
        HoldP50,
        HoldP95,
        HoldP99,
    };
    Q_ENUM(Role)

    explicit QmlLockMetrics(QObject *parent = nullptr);

    /// Whether the numbers are read; otherwise the rows keep what was read last. True by default.
    bool isActive() const { return m_timer.isActive(); }
    void setActive(bool active);
    /// How often, in ms: 1000 by default; from 100 to 3600000.
    int interval() const { return m_timer.interval(); }
    void setInterval(int interval);
    /// Of rows.
    int count() const { return int(m_rows.size()); }

    int rowCount(const QModelIndex &parent = {}) const override;
    QVariant data(const QModelIndex &index, int role = Qt::DisplayRole) const override;
    QHash<int, QByteArray> roleNames() const override;

Q_SIGNALS:
    void activeChanged();
    void intervalChanged();
    void countChanged();

private:
    void update();

    QList<LockStatistics> m_rows;
    QTimer m_timer;
    bool m_isUpdating = false;
};

} // namespace QDistLock
