// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lockmonitorfilter.h"

#include <algorithm>
#include <utility>

namespace QDistLock {

/// What needs attention comes first.
static int rankOf(int status)
{
    constexpr int order[] = {LockMonitorModel::Disconnected, LockMonitorModel::Endless, LockMonitorModel::Silent,
                             LockMonitorModel::Expiring,     LockMonitorModel::Foreign, LockMonitorModel::Held,
                             LockMonitorModel::Free};
    return int(std::find(std::begin(order), std::end(order), status) - std::begin(order));
}

LockMonitorFilter::LockMonitorFilter(QObject *parent)
    : QSortFilterProxyModel(parent)
{
    m_showTimer.setSingleShot(true); // several changes in one turn of the event loop are handled once
    connect(&m_showTimer, &QTimer::timeout, this, &LockMonitorFilter::show);
    for (const auto signal : {&QAbstractItemModel::rowsInserted, &QAbstractItemModel::rowsRemoved})
        connect(this, signal, this, &LockMonitorFilter::rowsChanged);
    connect(this, &QAbstractItemModel::modelReset, this, &LockMonitorFilter::rowsChanged);
    connect(this, &QAbstractItemModel::layoutChanged, this, &LockMonitorFilter::showLater); // sorted
    connect(this, &QAbstractProxyModel::sourceModelChanged, this, [this] {
        disconnect(m_sourceDestroyed);
        // When a source model is destroyed, Qt 6.4 emits no modelReset(), and views would keep its rows.
        if (sourceModel())
            m_sourceDestroyed = connect(sourceModel(), &QObject::destroyed, this, [this] { setSourceModel(nullptr); });
    });
    setSortRole(LockMonitorModel::Name);
    setSortCaseSensitivity(Qt::CaseInsensitive);
    sort(0);
}

LockMonitorFilter::~LockMonitorFilter()
{
    if (m_shownTo)
        m_shownTo->setVisibleNames({});
}

void LockMonitorFilter::setFilterText(const QString &text)
{
    if (m_filterText == text)
        return;
    m_filterText = text;
    invalidateFilter();
    Q_EMIT filterTextChanged();
}

void LockMonitorFilter::setStatuses(const QList<int> &statuses)
{
    if (m_statuses == statuses)
        return;
    m_statuses = statuses;
    invalidateFilter();
    Q_EMIT statusesChanged();
}

void LockMonitorFilter::sort(int column, Qt::SortOrder order)
{
    const Qt::SortOrder former = sortOrder();
    QSortFilterProxyModel::sort(column, order);
    if (sortOrder() != former)
        Q_EMIT sortOrderChanged();
}

void LockMonitorFilter::setFirstVisible(int row)
{
    if (std::exchange(m_firstVisible, row) == row)
        return;
    showLater();
    Q_EMIT firstVisibleChanged();
}

void LockMonitorFilter::setLastVisible(int row)
{
    if (std::exchange(m_lastVisible, row) == row)
        return;
    showLater();
    Q_EMIT lastVisibleChanged();
}

void LockMonitorFilter::showLater()
{
    if (!m_showTimer.isActive())
        m_showTimer.start(0);
}

void LockMonitorFilter::show()
{
    const QPointer<LockMonitorModel> model = m_firstVisible >= 0 ? qobject_cast<LockMonitorModel *>(sourceModel())
                                                                 : nullptr;
    const QPointer<LockMonitorModel> former = std::exchange(m_shownTo, model);
    QStringList names;
    for (int row = std::max(m_firstVisible, 0); model && row <= std::min(m_lastVisible, count() - 1); ++row)
        names.append(index(row, 0).data(LockMonitorModel::Name).toString());
    if (former && former != model)
        former->setVisibleNames({});
    if (model)
        model->setVisibleNames(names);
}

int LockMonitorFilter::rowOf(const QString &name) const
{
    const auto *const model = qobject_cast<LockMonitorModel *>(sourceModel());
    const int row = model ? model->rowOf(name) : -1;
    return row < 0 ? -1 : mapFromSource(model->index(row)).row();
}

bool LockMonitorFilter::filterAcceptsRow(int row, const QModelIndex &parent) const
{
    const QModelIndex index = sourceModel()->index(row, 0, parent);
    if (!m_statuses.isEmpty() && !m_statuses.contains(index.data(LockMonitorModel::Status).toInt()))
        return false;
    const auto contains = [&](int role) {
        return index.data(role).toString().contains(m_filterText, Qt::CaseInsensitive);
    };
    return (m_filterText.isEmpty() || contains(LockMonitorModel::Name) || contains(LockMonitorModel::Holder))
            && QSortFilterProxyModel::filterAcceptsRow(row, parent);
}

bool LockMonitorFilter::lessThan(const QModelIndex &left, const QModelIndex &right) const
{
    const auto isLess = [this](const QModelIndex &one, const QModelIndex &other) {
        const QVariant a = one.data(sortRole());
        const QVariant b = other.data(sortRole());
        switch (sortRole()) {
        case LockMonitorModel::Status:
            return rankOf(a.toInt()) < rankOf(b.toInt());
        case LockMonitorModel::Kind:
            return a.toInt() < b.toInt();
        case LockMonitorModel::Deadline: // none, which is -1, comes last
            return a.toULongLong() < b.toULongLong();
        default:
            return QSortFilterProxyModel::lessThan(one, other);
        }
    };
    if (isLess(left, right))
        return true;
    if (isLess(right, left))
        return false;
    // The source is sorted by name.
    return sortOrder() == Qt::DescendingOrder ? left.row() > right.row() : left.row() < right.row();
}

void LockMonitorFilter::rowsChanged()
{
    showLater();
    if (std::exchange(m_count, count()) != m_count)
        Q_EMIT countChanged();
}

} // namespace QDistLock
