// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockreporter.h"

#include "base/identity.h"
#include "lock/lockdriver.h"
#include "lock/lockregistry_p.h"

#include <QtCore/qpointer.h>

#include <algorithm>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

namespace {

constexpr size_t MostWatches = 8;
/// Between two reports. What further locks did is not counted.
constexpr size_t MostNews = 4096;
/// A report that is longer would take an event loop too long.
constexpr qsizetype LongestReport = 64 * 1024;
/// To go through all locks takes an event loop long, so this is not done again at once when another monitor asks.
constexpr std::chrono::seconds KeptFor = 60s;

milliseconds inMs(nanoseconds duration)
{
    return std::chrono::floor<milliseconds>(std::max(duration, 0ns));
}

void add(LockHistogram *histogram, nanoseconds duration)
{
    ++histogram->counts[LockHistogram::rangeOf(duration)];
    histogram->sum += duration;
}

} // namespace

LockReporter::LockReporter(LockRegistryPrivate *registry)
    : m_registry(registry)
{
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &LockReporter::report);
}

void LockReporter::watch(const WatchRequest &request, const QSet<LockDriver *> &locks)
{
    if (request.duration == 0s) {
        m_watches.erase(request.monitor);
        return schedule();
    }
    const LeaseTime now = m_registry->now();
    if (!std::exchange(m_isWatched, true)) {
        for (const LockDriver *lock : locks)
            count(*lock, {});
    }
    if (m_watches.size() >= MostWatches && m_watches.count(request.monitor) == 0)
        return;
    Watch &watch = m_watches.try_emplace(request.monitor, Watch{request.interval, {}, now, 0}).first->second;
    watch.interval = request.interval;
    watch.until = now + request.duration;
    watch.nextReport = std::min(watch.nextReport, now + request.interval);
    m_keptUntil = watch.until + KeptFor;
    schedule();
}

void LockReporter::schedule()
{
    LeaseTime next = m_keptUntil;
    for (const auto &[monitor, watch] : m_watches)
        next = std::min(next, watch.nextReport);
    m_timer.start(std::chrono::ceil<milliseconds>(std::max<nanoseconds>(next - m_registry->now(), 1ms)));
}

void LockReporter::tell(const QByteArray &key, const std::function<void(News *)> &change)
{
    for (auto &[monitor, watch] : m_watches) {
        if (watch.news.size() >= MostNews && watch.news.count(key) == 0)
            continue;
        News &news = watch.news[key];
        if (change)
            change(&news);
    }
}

void LockReporter::count(const LockDriver &lock, const QList<LeaseMachine::Outcome> &outcomes)
{
    using Outcome = LeaseMachine::Outcome;
    const LeaseMachine &machine = lock.machine;
    const LeaseTime now = machine.lastEventAt();
    const auto former = m_present.constFind(&lock);
    Present present = former != m_present.cend() ? *former : Present();
    const bool wasPresent = !present.key.isEmpty();
    const bool isPresent = machine.phase() != LeaseMachine::Unlocked;
    for (const Outcome &outcome : outcomes) {
        if (outcome.kind == Outcome::Acquired && !present.isHeld) {
            present.key = lock.presentLockId().key();
            present.isHeld = true;
            present.fencingToken = machine.lastFencingToken();
            present.since = now;
            present.waited = machine.waited();
            tell(present.key, [&](News *news) { add(&news->wait, present.waited); });
        } else if (outcome.kind == Outcome::AcquireFailed && !lock.meter.isOneOfSeveral()) {
            tell(wasPresent ? present.key : lock.presentLockId().key(), [](News *news) { ++news->failed; });
        } else if (present.isHeld && (outcome.kind == Outcome::Released || outcome.kind == Outcome::Lost)) {
            endHold(&present, outcome.kind == Outcome::Lost, now);
        }
    }
    if (!isPresent) {
        if (wasPresent)
            forget(&lock);
        return;
    }
    if (!present.isHeld) {
        present.key = lock.presentLockId().key();
        present.isHeld = machine.holdsLease(); // since before somebody watched
        present.fencingToken = present.isHeld ? machine.lastFencingToken() : 0;
        present.since = machine.since();
        present.waited = machine.waited();
    }
    present.label = machine.options().label;
    const bool isSame = wasPresent && former->key == present.key && former->isHeld == present.isHeld
            && former->since == present.since && former->fencingToken == present.fencingToken;
    if (isSame)
        return;
    if (wasPresent && former->key != present.key)
        forget(&lock);
    tell(present.key);
    Locks &all = m_byKey[present.key];
    all.removeOne(&lock);
    all.insert(present.isHeld ? 0 : all.size(), &lock);
    m_present.insert(&lock, present);
}

void LockReporter::endHold(Present *present, bool isLost, LeaseTime at)
{
    const EndedHold hold{present->fencingToken, present->waited, at - present->since, at};
    tell(present->key, [&](News *news) {
        add(&news->hold, hold.held);
        news->lost += isLost;
        if (news->ended.size() == ClientReport::MostEnded)
            news->ended.removeFirst();
        news->ended.append(hold);
    });
    present->isHeld = false;
}

void LockReporter::forget(const LockDriver *lock)
{
    const auto present = m_present.constFind(lock);
    if (present == m_present.cend())
        return;
    tell(present->key);
    const auto others = m_byKey.find(present->key);
    others->second.removeOne(lock);
    if (others->second.isEmpty())
        m_byKey.erase(others);
    m_present.erase(present);
}

void LockReporter::report()
{
    const LeaseTime now = m_registry->now();
    LockEngine *const engine = m_registry->engine();
    for (auto entry = m_watches.begin(); entry != m_watches.end();) {
        Watch &watch = entry->second;
        if (now >= watch.until || !engine) {
            entry = m_watches.erase(entry);
            continue;
        }
        if (now >= watch.nextReport) {
            watch.nextReport = now + watch.interval;
            if (engine->state() == LockEngine::Ready) {
                engine->sendMessage(entry->first, takeReport(&watch, now).toMessage(),
                                    [this, alive = QPointer(this), monitor = entry->first](const EngineError &error) {
                                        // Each attempt adds to the server's ACL LOG.
                                        if (alive && error.code == DistributedLock::PermissionError)
                                            m_watches.erase(monitor);
                                    });
            }
        }
        ++entry;
    }
    if (m_watches.empty() && (now >= m_keptUntil || !engine)) {
        m_isWatched = false;
        m_present.clear();
        m_byKey.clear();
    } else {
        schedule();
    }
}

void LockReporter::reportNow()
{
    for (auto &[monitor, watch] : m_watches) {
        if (!watch.news.empty())
            watch.nextReport = m_registry->now();
    }
    report();
}

ClientReport LockReporter::takeReport(Watch *watch, LeaseTime now)
{
    ClientReport report;
    report.client = Identity::ofThisProcess().client(m_registry->engine()->clientId(), true);
    report.number = ++watch->lastReport;
    qsizetype size = 0;
    const auto add = [&](const LockReport &lock) {
        // Escaped, a character has six.
        size += 200 + 6 * lock.key.size() + 40 * lock.ended.size();
        for (const LockReport::Present &present : lock.present)
            size += 60 + 6 * present.label.size();
        report.locks.append(lock);
    };
    auto news = watch->news.upper_bound(watch->reportedUpTo);
    while (size < LongestReport && !watch->news.empty()) {
        if (news == watch->news.end())
            news = watch->news.begin();
        add(reportOf(news->first, news->second, now));
        watch->reportedUpTo = news->first;
        news = watch->news.erase(news);
    }
    while (size < LongestReport && watch->passedTo) {
        const auto next = m_byKey.upper_bound(*watch->passedTo);
        if (next == m_byKey.end()) {
            watch->passedTo.reset();
        } else {
            add(reportOf(next->first, {}, now));
            watch->passedTo = next->first;
        }
    }
    return report;
}

LockReport LockReporter::reportOf(const QByteArray &key, const News &news, LeaseTime now) const
{
    LockReport report{key, {}, news.wait, news.hold, news.failed, news.lost, {}};
    const auto locks = m_byKey.find(key);
    for (const LockDriver *lock : locks != m_byKey.end() ? locks->second : Locks()) {
        if (report.present.size() == ClientReport::MostPresent)
            break;
        const Present &present = *m_present.constFind(lock);
        report.present.append({present.isHeld, present.fencingToken, inMs(now - present.since), present.label});
    }
    for (const EndedHold &hold : news.ended)
        report.ended.append({hold.fencingToken, inMs(hold.waited), inMs(hold.held), inMs(now - hold.at)});
    return report;
}

} // namespace QDistLock
