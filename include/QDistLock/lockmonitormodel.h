// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKMONITORMODEL_H
#define QDISTLOCK_LOCKMONITORMODEL_H

#include <QDistLock/lockinfo.h>
#include <QDistLock/lockmetrics.h>

#include <QtCore/qabstractitemmodel.h>
#include <QtCore/qstringlist.h>

#include <chrono>
#include <memory>

namespace QDistLock {

class LockMonitorModelPrivate;
class LockRegistry;

/*!
    A hold of a lock whose beginning a LockMonitorModel has seen, or that its holder has reported. A plain value.
*/
struct LockHold
{
    /// See LockInfo::fencingToken.
    qint64 fencingToken = 0;
    /// Who held it, or holds it.
    LockClient client;
    /// When it began, or was seen first, in ms on the clock of LockMonitorModel::now(). Negative: before this machine
    /// was started.
    qint64 acquired = 0;
    /// How long the holder had waited, and how long it held the lock, in ms; -1 if that is not known, or if it still
    /// holds the lock.
    ///@{
    qint64 waited = -1;
    qint64 held = -1;
    ///@}
};

/*!
    What the clients of a lock have reported of it since a LockMonitorModel began to watch. A plain value.
*/
struct LockActivity
{
    /// How long each acquire had taken that got the lock.
    LockHistogram wait;
    /// How long each hold lasted that has ended.
    LockHistogram hold;
    /// Acquires that did not get it.
    quint64 failed = 0;
    /// Holds that ended without a release.
    quint64 lost = 0;
    /// The last holds that were seen or reported, the newest last: LockMonitorModel::MaximumHolds at most.
    QList<LockHold> holds;
};

/*!
    Every lock that is held under the key prefix of a registry, one row for each, sorted by name; and, for some seconds,
    those that were released. For views that show who holds what, who waits, and which holder is dead.

    It only reads, and it takes no more than budget() of the server's time. So a new lock appears when a sweep through
    the server's keys has found it: at once beside some ten thousand locks, after minutes beside millions of other keys.
    The locks in visibleNames() are read each interval(), the others less often if there are many thousands.

    If the server cannot be used, the rows keep what was read last, and problems() says why. So a table without rows
    means "no locks" only if isComplete() is true and problems() is empty.

    On one Redis, Sentinel and Cluster, the model asks all clients of this library for reports: each second, or less
    often if there are more than 500. They say how long acquires waited and holds lasted, also those that came and went
    between two readings; for which part of the program the lock is held; and that the client still answers. In a
    Cluster a client reports once it has held a lock. What happened before the model was active is missing.

    The model is never reset, so selections remain. Changes are collected: views are notified at most ten times a
    second. The time that passes is no change: show Deadline minus now().

    Thread: that of its registry, which needs an event loop. Errors: problems(). Ownership: the model does not own its
    registry. It works with all servers, but with quorums and ZooKeeper it must read all locks each time.
*/
class QDISTLOCK_EXPORT LockMonitorModel : public QAbstractListModel
{
    Q_OBJECT
    /// The value of the function of this name.
    ///@{
    Q_PROPERTY(QString pattern READ pattern WRITE setPattern NOTIFY patternChanged FINAL)
    Q_PROPERTY(bool active READ isActive WRITE setActive NOTIFY activeChanged FINAL)
    Q_PROPERTY(double budget READ budget WRITE setBudget NOTIFY budgetChanged FINAL)
    Q_PROPERTY(QStringList visibleNames READ visibleNames WRITE setVisibleNames NOTIFY visibleNamesChanged FINAL)
    Q_PROPERTY(int count READ count NOTIFY countChanged FINAL)
    Q_PROPERTY(bool complete READ isComplete NOTIFY completeChanged FINAL)
    Q_PROPERTY(QStringList problems READ problems NOTIFY problemsChanged FINAL)
    Q_PROPERTY(double load READ load NOTIFY loadChanged FINAL)
    Q_PROPERTY(qint64 now READ now NOTIFY nowChanged)
    ///@}

public:
    /// The data of one lock. The name in QML is that of the enumerator, with a small first letter.
    enum Role {
        Name = Qt::UserRole, ///< QString
        Kind,                ///< LockKind
        Status,              ///< LockStatus
        Holder,              ///< QString for people: LockInfo::holderText(); empty if it is free
        Holders,             ///< QList<LockClient>: LockInfo::holders, or the one holder
        Deadline,            ///< qint64, in ms on the clock of now(): when the lease ends; -1 = it does not, or is free
        Lease,               ///< qint64, in ms: what was left when the hold was first seen, or renewed; -1 as Deadline
        QueueLength,         ///< int: LockInfo::queueLength
        FencingToken,        ///< qint64: LockInfo::fencingToken
        Permits,             ///< int: LockInfo::permits
        PermitsTaken,        ///< int: LockInfo::permitsTaken
        HandOvers,           ///< int: how often another hold was read since the row is there
        Updated,             ///< qint64, in ms on the clock of now(): when it was read
        Label,               ///< QString: LockOptions::label of the holder; empty if it has none, or none was reported
        Since,               ///< qint64, in ms on the clock of now(): when the hold began; -1 = it was not reported
        WaitP50,             ///< qint64, in ms: half of the acquires took no longer; -1 = none was reported
        WaitP95,             ///< qint64, in ms: the same, 95 %
        WaitP99,             ///< qint64, in ms: the same, 99 %
        HoldP95,             ///< qint64, in ms: 95 % of the holds lasted no longer; -1 = none was reported
        Info                 ///< LockInfo
    };
    Q_ENUM(Role)

    /// How a lock is held; of one that is free, how it was held.
    enum LockKind {
        Exclusive, ///< by one holder
        Readers,   ///< by readers together, see LockOptions::Shared
        Permitted  ///< by holders of permits, see LockOptions::permits
    };
    Q_ENUM(LockKind)

    /// What an operator wants to know first.
    enum LockStatus {
        Free,         ///< nobody holds it; the row will be removed unless somebody acquires it
        Held,         ///< as it should be
        Expiring,     ///< less than a third of its lease is left: the holder has not renewed it in time, or never does
        Silent,       ///< connected, but its reports have stopped: the process is stopped, or its event loop is blocked
        Disconnected, ///< the holder has no connection to the server: it is dead, or its network is down
        Foreign,      ///< another library holds it
        Endless       ///< it has no time to live, so nobody will get it if its holder is dead
    };
    Q_ENUM(LockStatus)

    /// The default of interval().
    static constexpr std::chrono::milliseconds DefaultInterval{1000};
    /// The greatest number of rows; problems() says if there are more locks.
    static constexpr int MaximumCount = 100'000;
    /// The greatest number of LockActivity::holds.
    static constexpr int MaximumHolds = 256;

    /// Shows nothing before setRegistry().
    explicit LockMonitorModel(QObject *parent = nullptr);
    /// \a registry must live in the same thread. Use one that has no locks, so that the model's commands do not delay
    /// theirs.
    explicit LockMonitorModel(LockRegistry *registry, QObject *parent = nullptr);
    /// Does not destroy its registry.
    ~LockMonitorModel() override;

    /// The connection, for example for LockRegistry::waiters() and forceRelease(). To release a lock by force only if
    /// the holder in the row still holds it, pass the row's FencingToken. Null if there is none, or it was destroyed.
    LockRegistry *registry() const;
    /// Begins again without rows, and with the key prefix that \a registry has now. The registry remains connected
    /// while the model is active.
    void setRegistry(LockRegistry *registry);

    /// Only locks whose name matches this glob, see LockRegistry::list(); `*` by default. A new one begins again
    /// without rows.
    ///@{
    QString pattern() const;
    void setPattern(const QString &pattern);
    ///@}
    /// False: nothing is read, and the rows keep what was read last, as for a window that nobody sees. True by default.
    ///@{
    bool isActive() const;
    void setActive(bool active);
    ///@}
    /// How often visible locks are read, and all others at most: once a second by default; from 100 ms to 1 h.
    ///@{
    std::chrono::milliseconds interval() const;
    void setInterval(std::chrono::milliseconds interval);
    ///@}
    /// The share of one processor of the server that the model may use: 0.01 by default; from 0.0001 to 1. It takes the
    /// time until a reply as the server's work, up to 1 ms for each question. Until it has read some ten
    /// thousand locks for the first time, it uses up to 0.05; after refresh(), 0.1.
    ///@{
    double budget() const;
    void setBudget(double budget);
    ///@}
    /// The locks on the screen, which are read each interval(). Others in the list are ignored.
    ///@{
    QStringList visibleNames() const;
    void setVisibleNames(const QStringList &names);
    ///@}

    /// The number of rows.
    int count() const;
    /// Every lock has its row, as far as the server lets one see them: see problems(). Remains true.
    bool isComplete() const;
    /// Why locks are missing, or what is shown is old or incomplete: sentences for people, without secrets. Empty if
    /// all is shown.
    QStringList problems() const;
    /// The time that the server took for the model, in ms per second, during the last seconds. As in budget(), the way
    /// to the server is part of it.
    double load() const;
    /// The time in ms on the clock of Deadline and Updated, which never goes back. nowChanged() is emitted four times a
    /// second while the model is active.
    qint64 now() const;
    /// The row of the lock \a name; -1 if there is none.
    Q_INVOKABLE int rowOf(const QString &name) const;

    /// What clients have reported of the lock \a name since its row was added. Empty if there is no such row.
    LockActivity activity(const QString &name) const;

    /// Called by views. data() has the roles above, and Qt::DisplayRole is the name.
    ///@{
    int rowCount(const QModelIndex &parent = QModelIndex()) const override;
    QVariant data(const QModelIndex &index, int role = Qt::DisplayRole) const override;
    QHash<int, QByteArray> roleNames() const override;
    ///@}

public Q_SLOTS:
    /// Reads everything again at once, with up to a tenth of a processor of the server until that is done.
    void refresh();

Q_SIGNALS:
    /// The property of this name has a new value.
    ///@{
    void patternChanged();
    void activeChanged();
    void budgetChanged();
    void visibleNamesChanged();
    void countChanged();
    void completeChanged();
    void problemsChanged();
    void loadChanged();
    void nowChanged();
    ///@}

    /// A client has reported that its \a hold of the lock \a name has ended: also of a lock that has no row, because it
    /// was held only between two readings. In each report, a client mentions the last 16 holds of a lock.
    void holdEnded(const QString &name, const QDistLock::LockHold &hold);

private:
    friend class LockMonitorModelPrivate;
    Q_DISABLE_COPY_MOVE(LockMonitorModel)
    std::unique_ptr<LockMonitorModelPrivate> d;
};

} // namespace QDistLock

Q_DECLARE_METATYPE(QDistLock::LockHold)
Q_DECLARE_METATYPE(QDistLock::LockActivity)

#endif
