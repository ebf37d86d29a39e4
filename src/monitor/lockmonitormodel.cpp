// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/lockmonitormodel.h>

#include "base/logging.h"
#include "lock/lockregistry_p.h"
#include "lock/threadcheck.h"
#include "monitor/clientwatch.h"
#include "monitor/lockwatch.h"

#include <QDistLock/impl/rolenames.h>

#include <QtCore/qpointer.h>
#include <QtCore/qscopeguard.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

static_assert(LockMonitorModel::MaximumCount == LockWatch::MostLocks);

namespace {

constexpr milliseconds ShortestInterval = 100ms;
constexpr milliseconds LongestInterval = 1h;
/// A deadline that is later is shown as this, for anybody may have set it.
constexpr milliseconds LongestLease = 24h * 36'500;
constexpr double SmallestBudget = 0.0001;
/// Between two notifications of views.
constexpr milliseconds UpdateInterval = 100ms;
constexpr milliseconds TickInterval = 250ms;
/// load() is measured over the last 20 ticks, which is 5 s.
constexpr size_t LoadTicks = 20;
/// All LockActivity::holds together, about; but of each lock the last few.
constexpr qsizetype MostRecorded = 16'384;
constexpr qsizetype FewRecorded = 8;
/// A deadline that moves by less is the same one: the way to the server takes a different time each time.
constexpr milliseconds SameDeadline = 100ms;

QString noRegistry()
{
    return u"nothing is read: the model has no registry"_s;
}

qint64 msOf(LeaseTime time)
{
    return std::chrono::duration_cast<milliseconds>(time.time_since_epoch()).count();
}

/// The beginning of a hold, perhaps before that of the clock.
qint64 sinceOf(LeaseTime time)
{
    return std::max<qint64>(msOf(time), 0);
}

bool isSame(const LockClient &a, const LockClient &b)
{
    return a.id == b.id && a.host == b.host && a.pid == b.pid && a.application == b.application
            && a.connected == b.connected;
}

QList<LockClient> holdersOf(const LockInfo &info)
{
    return info.held && info.holders.isEmpty() ? QList<LockClient>{info.holder} : info.holders;
}

LockMonitorModel::LockKind kindOf(const LockInfo &info)
{
    if (info.readerCount > 0)
        return LockMonitorModel::Readers;
    return info.isHeldWithPermits() ? LockMonitorModel::Permitted : LockMonitorModel::Exclusive;
}

/// What a row shows of the reports about its lock.
struct Reported
{
    bool isSilent = false; ///< the holder does not report any more
    QString label;
    LeaseTime since = NeverTime; ///< NeverTime: not known
    qint64 waitP50 = -1;
    qint64 waitP95 = -1;
    qint64 waitP99 = -1;
    qint64 holdP95 = -1;
};

/// \a lease: the time that was left when the holder was first seen, or had renewed its lease.
LockMonitorModel::LockStatus statusOf(const LockInfo &info, milliseconds lease, bool isSilent)
{
    if (!info.held)
        return LockMonitorModel::Free;
    if (info.remaining < 0ms)
        return LockMonitorModel::Endless;
    if (!info.isHolderConnected())
        return LockMonitorModel::Disconnected;
    if (info.foreign)
        return LockMonitorModel::Foreign;
    if (isSilent)
        return LockMonitorModel::Silent;
    return info.remaining < lease / 3 ? LockMonitorModel::Expiring : LockMonitorModel::Held;
}

/// The state of a lock on the server, and the time at which it was read.
struct Reading
{
    LockInfo info;
    LeaseTime at;
    Reported reported = {};
};

bool isSameHold(const LockHold &a, const LockHold &b)
{
    return a.fencingToken == b.fencingToken && a.client.id == b.client.id;
}

/// All reports about one lock, added up.
struct Kept
{
    struct Holder
    {
        QString client;
        qint64 fencingToken;
        LeaseTime since;
        QString label;
    };
    QList<Holder> holders;
    /// Null before anything has happened.
    std::unique_ptr<LockActivity> activity;

    LockActivity &made()
    {
        if (!activity)
            activity = std::make_unique<LockActivity>();
        return *activity;
    }
};

void add(LockHistogram *histogram, const LockHistogram &more)
{
    for (size_t i = 0; i < histogram->counts.size(); ++i)
        histogram->counts[i] += more.counts[i];
    // Anybody may publish a report.
    histogram->sum = more.sum < std::chrono::nanoseconds::max() - histogram->sum ? histogram->sum + more.sum
                                                                                 : std::chrono::nanoseconds::max();
}

qint64 percentileOf(const LockHistogram &histogram, double percent)
{
    if (histogram.count() == 0)
        return -1;
    return std::chrono::round<milliseconds>(histogram.percentile(percent)).count();
}

class Row
{
public:
    explicit Row(const Reading &reading);

    const QString &name() const { return m_last.info.name; }
    const Reading &reading() const { return m_last; }
    /// Returns the roles whose data have changed.
    QList<int> update(const Reading &reading);
    QVariant data(int role) const;

private:
    Reading m_last;
    LeaseTime m_deadline = NeverTime; ///< NeverTime: none
    milliseconds m_lease{0};          ///< as in statusOf()
    LockMonitorModel::LockKind m_kind = LockMonitorModel::Exclusive;
    LockMonitorModel::LockStatus m_status = LockMonitorModel::Free;
    int m_handOvers = 0;
};

Row::Row(const Reading &reading)
    : m_last(reading)
{
    update(reading);
}

QList<int> Row::update(const Reading &reading)
{
    const Row former = *this;
    m_last = reading;
    const LockInfo &info = m_last.info;
    const LockInfo &before = former.m_last.info;
    // Of several, the one that is named first changes with each renewal.
    const bool isOtherHold = info.fencingToken != before.fencingToken
            || (info.holders.isEmpty() && before.holders.isEmpty() && info.holder.id != before.holder.id);
    const LeaseTime end = info.held && info.remaining >= 0ms ? reading.at + std::min(info.remaining, LongestLease)
                                                             : NeverTime;
    const bool isSameDeadline = end != NeverTime && m_deadline != NeverTime
            && std::chrono::abs(end - m_deadline) <= SameDeadline;
    if (isOtherHold || (!isSameDeadline && (m_deadline == NeverTime || end > m_deadline))) // acquired, or renewed
        m_lease = info.remaining;
    if (!isSameDeadline)
        m_deadline = end;
    m_status = statusOf(info, m_lease, m_last.reported.isSilent);
    if (info.held)
        m_kind = kindOf(info);
    if (info.held && isOtherHold)
        ++m_handOvers;

    using Model = LockMonitorModel;
    QList<int> changed{Model::Updated, Model::Info};
    for (const int role : {Model::Kind, Model::Status, Model::Holder, Model::Deadline, Model::Lease, Model::QueueLength,
                           Model::FencingToken, Model::Permits, Model::PermitsTaken, Model::HandOvers, Model::Label,
                           Model::Since, Model::WaitP50, Model::WaitP95, Model::WaitP99, Model::HoldP95}) {
        if (data(role) != former.data(role))
            changed.append(role);
    }
    const QList<LockClient> holders = holdersOf(info);
    const QList<LockClient> formerHolders = holdersOf(before);
    if (!std::equal(holders.begin(), holders.end(), formerHolders.begin(), formerHolders.end(), isSame))
        changed.append(Model::Holders);
    return changed;
}

QVariant Row::data(int role) const
{
    const LockInfo &info = m_last.info;
    const Reported &reported = m_last.reported;
    switch (role) {
    case Qt::DisplayRole:
    case LockMonitorModel::Name:
        return info.name;
    case LockMonitorModel::Kind:
        return QVariant::fromValue(m_kind);
    case LockMonitorModel::Status:
        return QVariant::fromValue(m_status);
    case LockMonitorModel::Holder:
        return info.held ? info.holderText() : QString();
    case LockMonitorModel::Holders:
        return QVariant::fromValue(holdersOf(info));
    case LockMonitorModel::Deadline:
        return m_deadline == NeverTime ? qint64(-1) : msOf(m_deadline);
    case LockMonitorModel::Lease:
        return m_deadline == NeverTime ? qint64(-1) : qint64(m_lease.count());
    case LockMonitorModel::QueueLength:
        return info.queueLength;
    case LockMonitorModel::FencingToken:
        return info.fencingToken;
    case LockMonitorModel::Permits:
        return info.permits;
    case LockMonitorModel::PermitsTaken:
        return info.permitsTaken;
    case LockMonitorModel::HandOvers:
        return m_handOvers;
    case LockMonitorModel::Updated:
        return msOf(m_last.at);
    case LockMonitorModel::Info:
        return QVariant::fromValue(info);
    case LockMonitorModel::Label:
        return reported.label;
    case LockMonitorModel::Since:
        return reported.since == NeverTime ? qint64(-1) : sinceOf(reported.since);
    case LockMonitorModel::WaitP50:
        return reported.waitP50;
    case LockMonitorModel::WaitP95:
        return reported.waitP95;
    case LockMonitorModel::WaitP99:
        return reported.waitP99;
    case LockMonitorModel::HoldP95:
        return reported.holdP95;
    default:
        return {};
    }
}

} // namespace

class LockMonitorModelPrivate : public QObject
{
public:
    explicit LockMonitorModelPrivate(LockMonitorModel *model);

    /// Begins without rows.
    void begin();
    /// Goes on with the rows that there are.
    void watch();
    void updateLater();
    size_t position(const QString &name) const;

    QPointer<LockRegistry> registry;
    QString pattern = u"*"_s;
    bool isActive = true;
    milliseconds interval = LockMonitorModel::DefaultInterval;
    double budget = 0.01;
    QStringList visibleNames;

    std::unique_ptr<LockWatch> lockWatch;     ///< null while nothing is read
    std::unique_ptr<ClientWatch> clientWatch; ///< null at the same time
    std::map<QString, Kept> kept;             ///< by the name of the lock
    std::vector<std::unique_ptr<Row>> rows;
    bool isComplete = false;
    QStringList problems{noRegistry()};
    double load = 0;

private:
    void read(const LockInfo &lock);
    const LockInfo *lastRead(const QString &name) const;
    void readAgain(const QString &name);
    Reported reportedOf(const LockInfo &info) const;
    void reported(const ClientReport &report);
    void record(const QString &name, const LockHold &hold);
    void silenceChanged(const QString &client);
    void clientGone(const QString &client);
    using KeptIterator = std::map<QString, Kept>::iterator;
    KeptIterator eraseIfUnused(KeptIterator lock);
    void update();
    void removeRows();
    void applyFirst();
    void notifyProperties();
    void tick();

    LockMonitorModel *const q;
    QString m_prefix;
    QTimer m_updateTimer;
    QTimer m_ticks;
    /// Read, but not in the rows yet; nullopt: gone.
    std::map<QString, std::optional<Reading>> m_changes;
    std::deque<std::pair<QString, LockHold>> m_ended; ///< reported, but not notified yet; with the name of the lock
    bool m_isUpdating = false;
    bool m_mustBegin = false; ///< remove all rows, and watch
    int m_notifiedCount = 0;
    bool m_notifiedComplete = false;
    QStringList m_notifiedProblems = problems;
    double m_notifiedLoad = 0;
    std::deque<std::chrono::nanoseconds> m_spent; ///< after each of the last ticks
    qsizetype m_recorded = 0;                     ///< locks that have had a LockActivity::holds
};

LockMonitorModelPrivate::LockMonitorModelPrivate(LockMonitorModel *model)
    : q(model)
{
    m_updateTimer.setSingleShot(true);
    m_updateTimer.setInterval(UpdateInterval);
    connect(&m_updateTimer, &QTimer::timeout, this, &LockMonitorModelPrivate::update);
    m_ticks.setInterval(TickInterval);
    connect(&m_ticks, &QTimer::timeout, this, &LockMonitorModelPrivate::tick);
}

void LockMonitorModelPrivate::begin()
{
    lockWatch.reset();
    clientWatch.reset();
    kept.clear();
    m_recorded = 0;
    m_ticks.stop(); // a slot that runs an event loop may keep watch() waiting
    m_changes.clear();
    m_ended.clear();
    m_prefix = registry ? registry->keyPrefix() : QString();
    isComplete = false;
    problems = registry ? QStringList() : QStringList{noRegistry()};
    m_mustBegin = true;
    if (!m_isUpdating) // otherwise it goes on with that
        update();
}

void LockMonitorModelPrivate::removeRows()
{
    if (rows.empty())
        return;
    q->beginRemoveRows({}, 0, int(rows.size()) - 1);
    rows.clear();
    q->endRemoveRows();
}

void LockMonitorModelPrivate::watch()
{
    if (m_mustBegin)
        return; // follows
    lockWatch.reset();
    clientWatch.reset();
    m_spent.clear();
    if (!isActive || !registry) {
        load = 0;
        m_ticks.stop();
        updateLater();
        return;
    }
    lockWatch = std::make_unique<LockWatch>(LockRegistryPrivate::get(registry),
                                            LockWatch::Settings{m_prefix, pattern, interval, budget});
    QStringList names;
    for (const auto &row : rows)
        names += row->name();
    for (const auto &[name, reading] : m_changes) {
        if (reading)
            names += name;
    }
    lockWatch->adopt(names);
    lockWatch->setVisible(visibleNames);
    connect(lockWatch.get(), &LockWatch::lockRead, this, &LockMonitorModelPrivate::read);
    connect(lockWatch.get(), &LockWatch::lockGone, this, [this](const QString &name) {
        if (const auto lock = kept.find(name); lock != kept.end()) {
            lock->second.activity.reset();
            eraseIfUnused(lock);
        }
        m_changes.insert_or_assign(name, std::nullopt);
        updateLater();
    });
    connect(lockWatch.get(), &LockWatch::changed, this, &LockMonitorModelPrivate::updateLater);
    clientWatch = std::make_unique<ClientWatch>(LockRegistryPrivate::get(registry));
    connect(clientWatch.get(), &ClientWatch::reported, this, &LockMonitorModelPrivate::reported);
    connect(clientWatch.get(), &ClientWatch::silenceChanged, this, &LockMonitorModelPrivate::silenceChanged);
    connect(clientWatch.get(), &ClientWatch::clientGone, this, &LockMonitorModelPrivate::clientGone);
    connect(clientWatch.get(), &ClientWatch::changed, this, &LockMonitorModelPrivate::updateLater);
    m_ticks.start();
}

void LockMonitorModelPrivate::read(const LockInfo &lock)
{
    const LeaseTime now = LockRegistryPrivate::get(registry)->now();
    const LockInfo *const before = lastRead(lock.name);
    if (before && before->fencingToken != lock.fencingToken && lock.held && lock.holders.isEmpty() && !lock.foreign)
        record(lock.name, {lock.fencingToken, lock.holder, msOf(now)});
    m_changes.insert_or_assign(lock.name, Reading{lock, now, reportedOf(lock)});
    updateLater();
}

/// Null if the lock has no row, and will get none.
const LockInfo *LockMonitorModelPrivate::lastRead(const QString &name) const
{
    const auto change = m_changes.find(name);
    if (change != m_changes.end())
        return change->second ? &change->second->info : nullptr;
    const int row = q->rowOf(name);
    return row >= 0 ? &rows[size_t(row)]->reading().info : nullptr;
}

/// There are other reports about the lock \a name.
void LockMonitorModelPrivate::readAgain(const QString &name)
{
    const auto change = m_changes.find(name);
    const int row = q->rowOf(name);
    if (change != m_changes.end() && change->second)
        change->second->reported = reportedOf(change->second->info);
    else if (change == m_changes.end() && row >= 0) {
        Reading reading = rows[size_t(row)]->reading();
        reading.reported = reportedOf(reading.info);
        m_changes.emplace(name, reading);
    }
    updateLater();
}

Reported LockMonitorModelPrivate::reportedOf(const LockInfo &info) const
{
    Reported reported;
    reported.isSilent = clientWatch && clientWatch->isSilent(info.holder.id);
    const auto entry = kept.find(info.name);
    if (entry == kept.end())
        return reported;
    const Kept &lock = entry->second;
    const bool isAlone = info.holders.isEmpty();
    for (const Kept::Holder &holder : lock.holders) {
        if (!info.held || holder.client != info.holder.id || (isAlone && holder.fencingToken != info.fencingToken))
            continue;
        reported.label = holder.label;
        reported.since = holder.since;
    }
    if (!lock.activity)
        return reported;
    reported.waitP50 = percentileOf(lock.activity->wait, 50);
    reported.waitP95 = percentileOf(lock.activity->wait, 95);
    reported.waitP99 = percentileOf(lock.activity->wait, 99);
    reported.holdP95 = percentileOf(lock.activity->hold, 95);
    return reported;
}

void LockMonitorModelPrivate::reported(const ClientReport &report)
{
    const LeaseTime now = LockRegistryPrivate::get(registry)->now();
    for (const LockReport &lock : report.locks) {
        const QString name = lockWatch->nameOf(lock.key);
        if (name.isEmpty())
            continue;
        QList<LockHold> ended;
        for (const LockReport::EndedHold &hold : lock.ended) {
            ended.append({hold.fencingToken, report.client, msOf(now - hold.ago - hold.held), hold.waited.count(),
                          hold.held.count()});
            m_ended.emplace_back(name, ended.last());
            updateLater();
        }
        const bool hasRow = lastRead(name);
        if (!hasRow && lock.present.isEmpty() && kept.count(name) == 0)
            continue;
        if (!hasRow && !lock.present.isEmpty())
            lockWatch->suggest(name);
        if (kept.size() >= size_t(LockMonitorModel::MaximumCount) && kept.count(name) == 0)
            continue;
        const auto entry = kept.try_emplace(name).first;
        Kept &known = entry->second;
        known.holders.removeIf([&](const Kept::Holder &holder) { return holder.client == report.client.id; });
        for (const LockReport::Present &present : lock.present) {
            if (present.isHeld)
                known.holders.append({report.client.id, present.fencingToken, now - present.since, present.label});
        }
        if (!hasRow) {
            eraseIfUnused(entry);
            continue;
        }
        if (lock.wait.count() + lock.hold.count() > 0 || lock.failed > 0) {
            LockActivity &activity = known.made();
            add(&activity.wait, lock.wait);
            add(&activity.hold, lock.hold);
            activity.failed += quint64(lock.failed);
            activity.lost += quint64(lock.lost);
        }
        for (const LockHold &hold : std::as_const(ended))
            record(name, hold);
        readAgain(name);
    }
}

void LockMonitorModelPrivate::record(const QString &name, const LockHold &hold)
{
    LockActivity &activity = kept[name].made();
    QList<LockHold> &holds = activity.holds;
    const auto known = std::find_if(holds.rbegin(), holds.rend(),
                                    [&hold](const LockHold &other) { return isSameHold(hold, other); });
    if (known != holds.rend() && (known->held < 0 || hold.held < 0)) {
        if (hold.held >= 0)
            *known = hold;
        return;
    }
    if (holds.isEmpty())
        ++m_recorded;
    const auto isBefore = [](const LockHold &a, const LockHold &b) {
        return std::pair(a.fencingToken, a.acquired) < std::pair(b.fencingToken, b.acquired);
    };
    holds.insert(std::upper_bound(holds.begin(), holds.end(), hold, isBefore), hold);
    const qsizetype most = std::clamp<qsizetype>(MostRecorded / m_recorded, FewRecorded,
                                                 LockMonitorModel::MaximumHolds);
    if (holds.size() > most)
        holds.remove(0, holds.size() - most);
}

void LockMonitorModelPrivate::clientGone(const QString &client)
{
    for (auto lock = kept.begin(); lock != kept.end();) {
        const auto isOfClient = [&client](const Kept::Holder &holder) { return holder.client == client; };
        lock = lock->second.holders.removeIf(isOfClient) > 0 ? eraseIfUnused(lock) : std::next(lock);
    }
}

LockMonitorModelPrivate::KeptIterator LockMonitorModelPrivate::eraseIfUnused(KeptIterator lock)
{
    if (!lock->second.holders.isEmpty() || lock->second.activity)
        return std::next(lock);
    return kept.erase(lock);
}

void LockMonitorModelPrivate::silenceChanged(const QString &client)
{
    QStringList names;
    for (const auto &row : rows) {
        if (row->reading().info.holder.id == client)
            names += row->name();
    }
    for (const auto &[name, reading] : m_changes) {
        if (reading && reading->info.holder.id == client)
            names += name;
    }
    for (const QString &name : std::as_const(names))
        readAgain(name);
}

size_t LockMonitorModelPrivate::position(const QString &name) const
{
    const auto row = std::lower_bound(rows.begin(), rows.end(), name, [](const auto &existing, const QString &wanted) {
        return existing->name() < wanted;
    });
    return size_t(row - rows.begin());
}

void LockMonitorModelPrivate::updateLater()
{
    if (!m_updateTimer.isActive())
        m_updateTimer.start();
}

/// Slots of the application run in here, and may run an event loop, change the model, or destroy it.
void LockMonitorModelPrivate::update()
{
    if (m_isUpdating)
        return updateLater(); // in an event loop of such a slot: views must hear of one change after the other
    const QPointer<LockMonitorModel> alive(q);
    m_isUpdating = true;
    const auto end = qScopeGuard([this, &alive] {
        if (alive)
            m_isUpdating = false;
    });
    while (alive && (m_mustBegin || !m_changes.empty() || !m_ended.empty())) {
        if (!m_mustBegin && m_changes.empty()) {
            const auto [name, hold] = m_ended.front();
            m_ended.pop_front();
            Q_EMIT q->holdEnded(name, hold);
            continue;
        }
        if (!std::exchange(m_mustBegin, false)) {
            applyFirst();
            continue;
        }
        removeRows();
        if (alive && !m_mustBegin)
            watch();
    }
    if (alive)
        notifyProperties();
    if (alive && (m_mustBegin || !m_changes.empty())) // because of a slot of these signals
        updateLater();
}

/// The first change, and those after it that are of the same kind and concern the rows after it.
void LockMonitorModelPrivate::applyFirst()
{
    auto change = m_changes.begin();
    const size_t first = position(change->first);
    const auto isOfRow = [&](size_t row) {
        return change != m_changes.end() && row < rows.size() && rows[row]->name() == change->first;
    };
    if (!isOfRow(first) && !change->second) {
        m_changes.erase(change);
    } else if (!isOfRow(first)) {
        std::vector<std::unique_ptr<Row>> added;
        for (; change != m_changes.end() && change->second
             && (first == rows.size() || change->first < rows[first]->name());
             change = m_changes.erase(change))
            added.push_back(std::make_unique<Row>(*change->second));
        q->beginInsertRows({}, int(first), int(first + added.size()) - 1);
        rows.insert(rows.begin() + qsizetype(first), std::move_iterator(added.begin()),
                    std::move_iterator(added.end()));
        q->endInsertRows();
    } else if (change->second) {
        size_t row = first;
        QList<int> roles;
        for (; isOfRow(row) && change->second; change = m_changes.erase(change), ++row) {
            for (const int role : rows[row]->update(*change->second)) {
                if (!roles.contains(role))
                    roles.append(role);
            }
        }
        Q_EMIT q->dataChanged(q->index(int(first)), q->index(int(row) - 1), roles);
    } else {
        size_t row = first;
        for (; isOfRow(row) && !change->second; ++row)
            change = m_changes.erase(change);
        q->beginRemoveRows({}, int(first), int(row) - 1);
        rows.erase(rows.begin() + qsizetype(first), rows.begin() + qsizetype(row));
        q->endRemoveRows();
    }
}

void LockMonitorModelPrivate::notifyProperties()
{
    const QPointer<LockMonitorModel> alive(q);
    if (lockWatch) {
        isComplete |= lockWatch->isComplete();
        problems = lockWatch->problems();
        if (!clientWatch->problem().isEmpty())
            problems += clientWatch->problem();
    }
    if (std::exchange(m_notifiedCount, q->count()) != q->count())
        Q_EMIT q->countChanged();
    if (alive && std::exchange(m_notifiedComplete, isComplete) != isComplete)
        Q_EMIT q->completeChanged();
    if (alive && std::exchange(m_notifiedProblems, problems) != problems)
        Q_EMIT q->problemsChanged();
    if (alive && std::exchange(m_notifiedLoad, load) != load)
        Q_EMIT q->loadChanged();
}

void LockMonitorModelPrivate::tick()
{
    m_spent.push_back(lockWatch->spent());
    if (m_spent.size() > LoadTicks)
        m_spent.pop_front();
    const std::chrono::duration<double> period = (m_spent.size() - 1) * TickInterval;
    const std::chrono::duration<double, std::milli> spent = m_spent.back() - m_spent.front();
    load = m_spent.size() < 2 ? 0 : spent.count() / period.count();
    const QPointer<LockMonitorModel> alive(q);
    Q_EMIT q->nowChanged();
    if (alive && std::exchange(m_notifiedLoad, load) != load)
        Q_EMIT q->loadChanged();
}

LockMonitorModel::LockMonitorModel(QObject *parent)
    : QAbstractListModel(parent)
    , d(std::make_unique<LockMonitorModelPrivate>(this))
{
}

LockMonitorModel::LockMonitorModel(LockRegistry *registry, QObject *parent)
    : LockMonitorModel(parent)
{
    setRegistry(registry);
}

LockMonitorModel::~LockMonitorModel() = default;

LockRegistry *LockMonitorModel::registry() const
{
    return d->registry;
}

void LockMonitorModel::setRegistry(LockRegistry *registry)
{
    if (registry && registry->thread() != thread()) {
        qCWarning(lcLock, "LockMonitorModel: setRegistry(): the registry lives in %ls, and the model in %ls",
                  qUtf16Printable(describe(registry->thread())), qUtf16Printable(describe(thread())));
        return;
    }
    if (d->registry)
        disconnect(d->registry, nullptr, d.get(), nullptr);
    d->registry = registry;
    if (registry)
        connect(registry, &QObject::destroyed, d.get(), &LockMonitorModelPrivate::updateLater);
    d->begin();
}

QString LockMonitorModel::pattern() const
{
    return d->pattern;
}

void LockMonitorModel::setPattern(const QString &pattern)
{
    if (d->pattern == pattern)
        return;
    d->pattern = pattern;
    const QPointer<LockMonitorModel> alive(this);
    d->begin();
    if (alive)
        Q_EMIT patternChanged();
}

bool LockMonitorModel::isActive() const
{
    return d->isActive;
}

void LockMonitorModel::setActive(bool active)
{
    if (d->isActive == active)
        return;
    d->isActive = active;
    d->watch();
    Q_EMIT activeChanged();
}

milliseconds LockMonitorModel::interval() const
{
    return d->interval;
}

void LockMonitorModel::setInterval(milliseconds interval)
{
    interval = std::clamp(interval, ShortestInterval, LongestInterval);
    if (std::exchange(d->interval, interval) != interval)
        d->watch();
}

double LockMonitorModel::budget() const
{
    return d->budget;
}

void LockMonitorModel::setBudget(double budget)
{
    const double usable = budget > 0 ? std::clamp(budget, SmallestBudget, 1.0) : SmallestBudget; // also for NaN
    if (std::exchange(d->budget, usable) == usable)
        return;
    d->watch();
    Q_EMIT budgetChanged();
}

QStringList LockMonitorModel::visibleNames() const
{
    return d->visibleNames;
}

void LockMonitorModel::setVisibleNames(const QStringList &names)
{
    if (d->visibleNames == names)
        return;
    d->visibleNames = names;
    if (d->lockWatch)
        d->lockWatch->setVisible(names);
    Q_EMIT visibleNamesChanged();
}

int LockMonitorModel::count() const
{
    return int(d->rows.size());
}

bool LockMonitorModel::isComplete() const
{
    return d->isComplete;
}

QStringList LockMonitorModel::problems() const
{
    return d->problems;
}

double LockMonitorModel::load() const
{
    return d->load;
}

qint64 LockMonitorModel::now() const
{
    return msOf(d->registry ? LockRegistryPrivate::get(d->registry)->now() : LeaseClock::system()->now());
}

int LockMonitorModel::rowOf(const QString &name) const
{
    const size_t row = d->position(name);
    return row < d->rows.size() && d->rows[row]->name() == name ? int(row) : -1;
}

LockActivity LockMonitorModel::activity(const QString &name) const
{
    const auto lock = d->kept.find(name);
    return lock != d->kept.end() && lock->second.activity ? *lock->second.activity : LockActivity();
}

int LockMonitorModel::rowCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : count();
}

QVariant LockMonitorModel::data(const QModelIndex &index, int role) const
{
    if (!checkIndex(index, CheckIndexOption::IndexIsValid | CheckIndexOption::ParentIsInvalid))
        return {};
    return d->rows[size_t(index.row())]->data(role);
}

QHash<int, QByteArray> LockMonitorModel::roleNames() const
{
    return Detail::roleNames(QMetaEnum::fromType<Role>());
}

void LockMonitorModel::refresh()
{
    if (d->lockWatch)
        d->lockWatch->refresh();
}

} // namespace QDistLock
