// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockmonitormodel.h>

#include <QtCore/qlist.h>
#include <QtCore/qpointer.h>
#include <QtCore/qsortfilterproxymodel.h>
#include <QtCore/qstring.h>
#include <QtCore/qtimer.h>
#include <QtQml/qqml.h>

namespace QDistLock {

/*!
    The QML element LockMonitorFilter: the rows of a LockMonitorModel, its `sourceModel`, that a user wants to see, in
    the order that the user wants.

    They are sorted by `sortRole`, a LockMonitorModel::Role: Name by default. Rows that are equal are sorted by name. By
    Status, what needs attention comes first: Disconnected, Endless, Expiring, Foreign, Held, Free. By Deadline, locks
    without one come after the others.

    As with any QSortFilterProxyModel, a slot of a signal about rows must neither destroy the filter or its model nor
    run an event loop.

    Thread: that of its model. Errors: none. Ownership: as any QML object.
*/
class LockMonitorFilter : public QSortFilterProxyModel
{
    Q_OBJECT
    QML_ELEMENT
    Q_PROPERTY(QString filterText READ filterText WRITE setFilterText NOTIFY filterTextChanged FINAL)
    Q_PROPERTY(QList<int> statuses READ statuses WRITE setStatuses NOTIFY statusesChanged FINAL)
    Q_PROPERTY(Qt::SortOrder sortOrder READ sortOrder WRITE setSortOrder NOTIFY sortOrderChanged FINAL)
    Q_PROPERTY(int firstVisible READ firstVisible WRITE setFirstVisible NOTIFY firstVisibleChanged FINAL)
    Q_PROPERTY(int lastVisible READ lastVisible WRITE setLastVisible NOTIFY lastVisibleChanged FINAL)
    Q_PROPERTY(int count READ count NOTIFY countChanged FINAL)

public:
    explicit LockMonitorFilter(QObject *parent = nullptr);
    ~LockMonitorFilter() override;

    /// Only rows that have this in their Name or Holder, in upper or lower case; empty, the default: all.
    QString filterText() const { return m_filterText; }
    void setFilterText(const QString &text);
    /// Only rows with one of these LockMonitorModel::LockStatus; empty, the default: all.
    QList<int> statuses() const { return m_statuses; }
    void setStatuses(const QList<int> &statuses);
    void setSortOrder(Qt::SortOrder order) { sort(0, order); }
    /// The rows on the screen. The filter keeps the names of their locks in visibleNames() of its model, unless
    /// firstVisible() is -1, which is the default. Only one filter of a model may do so.
    ///@{
    int firstVisible() const { return m_firstVisible; }
    void setFirstVisible(int row);
    int lastVisible() const { return m_lastVisible; }
    void setLastVisible(int row);
    ///@}
    /// The number of rows.
    int count() const { return rowCount(); }

    /// The row of the lock \a name; -1 if there is none.
    Q_INVOKABLE int rowOf(const QString &name) const;

    void sort(int column, Qt::SortOrder order = Qt::AscendingOrder) override;

Q_SIGNALS:
    void filterTextChanged();
    void statusesChanged();
    void sortOrderChanged();
    void firstVisibleChanged();
    void lastVisibleChanged();
    void countChanged();

protected:
    bool filterAcceptsRow(int row, const QModelIndex &parent) const override;
    bool lessThan(const QModelIndex &left, const QModelIndex &right) const override;

private:
    void rowsChanged();
    void showLater();
    void show();

    QString m_filterText;
    QList<int> m_statuses;
    int m_firstVisible = -1;
    int m_lastVisible = -1;
    QPointer<LockMonitorModel> m_shownTo; ///< the model whose visibleNames() this filter has set
    QTimer m_showTimer;
    QMetaObject::Connection m_sourceDestroyed;
    int m_count = 0; ///< as last notified
};

} // namespace QDistLock
