// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "metrics/lockgroup.h"

#include "base/forksafemutex.h"

#include <QtCore/qhash.h>

#include <algorithm>
#include <mutex>
#include <utility>

using namespace Qt::StringLiterals;

using std::chrono::nanoseconds;

namespace QDistLock {

namespace {

constexpr qsizetype LongestName = 64;
/// A word of this many hexadecimal digits is a number: the first part of a UUID, or the short name of a commit.
constexpr qsizetype ShortestIdentifier = 7;

/// All groups of the process.
struct Groups
{
    std::mutex mutex;
    QHash<QString, LockGroup *> byName; ///< without `other`
    LockGroup other{u"other"_s};
    LockMetrics::Grouping grouping;
    std::atomic<quint32> generation{1};
};

std::mutex &groupsMutex();

/// Locks of static storage duration may be released when other static objects are destroyed already.
Groups &groups()
{
    static auto *const all = [] {
        auto *const made = new Groups;
        makeForkSafe<groupsMutex>();
        return made;
    }();
    return *all;
}

std::mutex &groupsMutex()
{
    return groups().mutex;
}

bool isDigit(QChar c)
{
    return c >= u'0' && c <= u'9';
}

bool isHexadecimal(QChar c)
{
    return isDigit(c) || (c >= u'a' && c <= u'f') || (c >= u'A' && c <= u'F');
}

/// \a name up to its first number, see LockMetrics.
QString untilNumber(const QString &name)
{
    const auto isOfWord = [](QChar c) { return c.isLetterOrNumber(); };
    for (auto begin = name.begin(); begin != name.end();) {
        const auto end = std::find_if_not(begin, name.end(), isOfWord);
        const bool isIdentifier = end - begin >= ShortestIdentifier && std::all_of(begin, end, isHexadecimal);
        const auto digit = std::find_if(begin, end, isDigit);
        if (isIdentifier || digit != end)
            return name.left((isIdentifier ? begin : digit) - name.begin()) + u'*';
        begin = std::find_if(end, name.end(), isOfWord);
    }
    return name;
}

/// \a text as the name of a group. It may have halves of surrogate pairs, see Detail::nameText(). UTF-8 has none, so
/// they are replaced: no two groups may look the same in UTF-8.
QString asGroup(const QString &text)
{
    const bool isInCharacter = text.size() > LongestName && text.at(LongestName).isLowSurrogate();
    return QString::fromUtf8(text.left(LongestName - (isInCharacter ? 1 : 0)).toUtf8());
}

} // namespace

LockGroup *LockGroup::of(const QString &name, const QString &label)
{
    Groups &all = groups();
    LockMetrics::Grouping grouping;
    {
        const std::lock_guard locker(all.mutex);
        grouping = all.grouping;
    }
    QString group = grouping ? grouping(name, label) : QString();
    if (group.isEmpty())
        group = label.isEmpty() ? untilNumber(name) : label;
    group = asGroup(group);

    const std::lock_guard locker(all.mutex);
    if (LockGroup *const known = all.byName.value(group))
        return known;
    if (all.byName.size() == LockMetrics::MaximumGroups || group == all.other.name())
        return &all.other;
    return *all.byName.insert(group, new LockGroup(group));
}

quint32 LockGroup::generation()
{
    return groups().generation.load(std::memory_order_relaxed);
}

void LockGroup::acquired(nanoseconds wait, bool isContended)
{
    m_wait.add(wait);
    if (isContended)
        count(&m_contended);
    ++m_held;
}

void LockGroup::failed(DistributedLock::Error error)
{
    count(error == DistributedLock::BusyError                ? &m_busy
                  : error == DistributedLock::TimeoutError   ? &m_timedOut
                  : error == DistributedLock::CancelledError ? &m_cancelled
                                                             : &m_errors);
}

void LockGroup::released(nanoseconds hold)
{
    count(&m_released);
    endHold(hold);
}

void LockGroup::lost(DistributedLock::LossReason reason, nanoseconds hold)
{
    count(&m_lost.at(size_t(reason)));
    endHold(hold);
}

void LockGroup::endHold(nanoseconds hold)
{
    m_hold.add(hold);
    --m_held;
}

LockStatistics LockGroup::statistics() const
{
    LockStatistics statistics;
    statistics.group = m_name;
    statistics.wait = m_wait.value();
    statistics.acquired = statistics.wait.count();
    statistics.contended = m_contended;
    statistics.busy = m_busy;
    statistics.timedOut = m_timedOut;
    statistics.cancelled = m_cancelled;
    statistics.errors = m_errors;
    statistics.released = m_released;
    statistics.leaseExpired = m_lost[DistributedLock::LeaseExpired];
    statistics.stolen = m_lost[DistributedLock::Stolen];
    statistics.deleted = m_lost[DistributedLock::Deleted];
    statistics.forcedReleases = m_lost[DistributedLock::ForcedRelease];
    statistics.hold = m_hold.value();
    statistics.renewed = m_renewed;
    statistics.atRisk = m_atRisk;
    statistics.held = m_held;
    statistics.waiting = m_waiting;
    return statistics;
}

void LockGroup::reset()
{
    m_wait.reset();
    m_hold.reset();
    for (Counter *const counter :
         {&m_contended, &m_busy, &m_timedOut, &m_cancelled, &m_errors, &m_released, &m_renewed, &m_atRisk})
        *counter = 0;
    for (Counter &counter : m_lost)
        counter = 0;
}

void LockGroup::Histogram::add(nanoseconds duration)
{
    count(&m_counts[LockHistogram::rangeOf(duration)]);
    count(&m_sum, quint64(duration.count()));
}

nanoseconds LockHistogram::percentile(double percent) const
{
    const double wanted = double(count()) * (percent / 100);
    double passed = 0;
    std::chrono::duration<double, std::nano> begin{0}; // of the range
    for (size_t i = 0; i < Bounds.size(); ++i) {
        const auto inside = double(counts[i]);
        if (inside > 0 && passed + inside >= wanted)
            return std::chrono::round<nanoseconds>(begin + (Bounds[i] - begin) * ((wanted - passed) / inside));
        passed += inside;
        begin = Bounds[i];
    }
    return counts.back() > 0 ? Bounds.back() : nanoseconds(0);
}

LockHistogram LockGroup::Histogram::value() const
{
    LockHistogram value;
    for (size_t i = 0; i < m_counts.size(); ++i)
        value.counts[i] = m_counts[i];
    value.sum = nanoseconds(m_sum);
    return value;
}

void LockGroup::Histogram::reset()
{
    for (Counter &counter : m_counts)
        counter = 0;
    m_sum = 0;
}

namespace LockMetrics {

QList<LockStatistics> snapshot()
{
    QList<LockStatistics> snapshot;
    const auto add = [&snapshot](const LockGroup &group) {
        const LockStatistics statistics = group.statistics();
        if (statistics.acquired + statistics.failed() + statistics.hold.count() > 0 || statistics.held > 0
            || statistics.waiting > 0)
            snapshot.append(statistics);
    };
    Groups &all = groups();
    {
        const std::lock_guard locker(all.mutex);
        snapshot.reserve(all.byName.size() + 1);
        for (const LockGroup *const group : std::as_const(all.byName))
            add(*group);
        add(all.other);
    }
    std::sort(snapshot.begin(), snapshot.end(),
              [](const LockStatistics &a, const LockStatistics &b) { return a.group < b.group; });
    return snapshot;
}

QString groupOf(const QString &name)
{
    return asGroup(untilNumber(name));
}

void setGrouping(Grouping grouping)
{
    Groups &all = groups();
    {
        const std::lock_guard locker(all.mutex);
        all.grouping.swap(grouping);
    }
    ++all.generation;
}

void reset()
{
    Groups &all = groups();
    const std::lock_guard locker(all.mutex);
    for (LockGroup *const group : std::as_const(all.byName))
        group->reset();
    all.other.reset();
}

} // namespace LockMetrics

} // namespace QDistLock
