// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "monitor/lockwatch.h"

#include "engine/enginefactory.h"
#include "engine/glob.h"
#include "lock/lockregistry_p.h"

#include <QDistLock/impl/namebytes.h>

#include <algorithm>
#include <iterator>
#include <utility>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace QDistLock {

namespace {

/// The share of a processor of the server while somebody waits for the result: for the first locks, after refresh().
constexpr double FirstShare = 0.05;
constexpr double HurriedShare = 0.1;
/// As much of the server's time is used at the first of these shares: enough for some ten thousand locks.
constexpr nanoseconds FirstCredit = 500ms;
/// Even a slow server executes one command of a LockWatch in this time. If a reply takes longer, the rest was spent in
/// the network or on commands of other clients, and is not counted.
constexpr nanoseconds LongestStep = 1ms;
/// After a question that took long, because the server or this program stood still.
constexpr nanoseconds LongestPause = 10s;
/// Until then those that are found in the first sweep come first.
constexpr milliseconds FirstRound = 5s;
/// After a refused SCAN: each attempt adds to the server's ACL LOG.
constexpr milliseconds RefusalPause = 10s;

/// How many suggested locks may wait to be read; more would leave no time for sweeps.
constexpr qsizetype MostSuggested = 2 * LockEngine::MostInspected;

QList<LockId> takeSome(QList<LockId> *locks)
{
    const qsizetype count = std::min(locks->size(), LockEngine::MostInspected);
    const QList<LockId> some = locks->first(count);
    locks->remove(0, count);
    return some;
}

} // namespace

void LockWatch::Pass::add(const QString &problem)
{
    if (!problems.contains(problem))
        problems.append(problem);
}

void LockWatch::Pass::end()
{
    former = std::exchange(problems, {});
}

void LockWatch::Pass::breakOff()
{
    former = all();
    problems.clear();
}

QStringList LockWatch::Pass::all() const
{
    QStringList all = former;
    std::copy_if(problems.begin(), problems.end(), std::back_inserter(all),
                 [&](const QString &problem) { return !former.contains(problem); });
    return all;
}

LockWatch::LockWatch(LockRegistryPrivate *registry, const Settings &settings)
    : m_registry(registry)
    , m_settings(settings)
    , m_roundDue(registry->now() + FirstRound)
{
    ++registry->watches;
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &LockWatch::proceed);
    EngineError ignored; // problems() asks the registry
    if (LockEngine *const engine = registry->engine(&ignored)) {
        connect(engine, &LockEngine::stateChanged, this, &LockWatch::engineChanged);
        connect(engine, &LockEngine::failed, this, &LockWatch::changed);
    }
    m_timer.start(0ms);
}

LockWatch::~LockWatch()
{
    if (m_registry)
        --m_registry->watches;
}

QStringList LockWatch::problems() const
{
    QStringList problems;
    const LockEngine *const engine = m_registry ? m_registry->engine() : nullptr;
    if (!m_registry)
        problems += u"the registry was destroyed"_s;
    else if (!engine)
        problems += m_registry->error.text; // of its URL
    else if (engine->state() != LockEngine::Ready && engine->error())
        problems += engine->error().text;
    problems += m_sweep.all();
    for (const QString &problem : m_round.all()) {
        if (!problems.contains(problem))
            problems += problem;
    }
    if (!m_clientsProblem.isEmpty())
        problems += m_clientsProblem;
    return problems;
}

QList<LockId> LockWatch::idsOf(const QStringList &names) const
{
    QList<LockId> locks;
    for (const QString &name : names) {
        QString ignored; // no lock has a name that cannot be used
        if (const auto lock = EngineFactory::makeLockId(m_settings.prefix, name, &ignored))
            locks.append(*lock);
    }
    return locks;
}

void LockWatch::adopt(const QStringList &names)
{
    for (const LockId &lock : idsOf(names))
        m_known.insert_or_assign(lock.key(), Known{lock, true});
    m_roundDue = {};
}

QString LockWatch::nameOf(const QByteArray &key) const
{
    const QByteArray prefix = Detail::nameBytes(m_settings.prefix);
    const bool isWatched = key.startsWith(prefix)
            && globMatches(Detail::nameBytes(m_settings.pattern), QByteArrayView(key).sliced(prefix.size()));
    const QString name = isWatched ? Detail::nameText(QByteArrayView(key).sliced(prefix.size())) : QString();
    return idsOf({name}).isEmpty() ? QString() : name;
}

void LockWatch::suggest(const QString &name)
{
    for (const LockId &lock : idsOf({name})) {
        if (m_found.size() >= MostSuggested || qsizetype(m_known.size()) >= MostLocks
            || !m_known.emplace(lock.key(), Known{lock}).second)
            continue;
        m_found.append(lock);
        proceed();
    }
}

void LockWatch::setVisible(const QStringList &names)
{
    m_visible = idsOf(names);
    m_visibleLeft.clear();
    m_visibleDue = {};
    proceed();
}

void LockWatch::refresh()
{
    m_isSweepHurried = m_isRoundHurried = true;
    m_freeAt = {};
    beginAgain();
    proceed();
}

void LockWatch::beginAgain()
{
    ++m_sweeps;
    m_scanFrom.clear();
    m_roundAt.clear();
    m_isRoundsEnd = false;
    m_sweep.breakOff();
    m_round.breakOff();
    m_sweepDue = m_roundDue = m_visibleDue = {};
}

LockEngine *LockWatch::readyEngine()
{
    LockEngine *const engine = m_registry ? m_registry->engine() : nullptr;
    if (!engine)
        return nullptr;
    engine->open();
    return engine->state() == LockEngine::Ready ? engine : nullptr;
}

bool LockWatch::isReady() const
{
    const LockEngine *const engine = m_registry ? m_registry->engine() : nullptr;
    return engine && engine->state() == LockEngine::Ready;
}

void LockWatch::engineChanged()
{
    const bool isReadyAgain = !std::exchange(m_wasReady, isReady()) && m_wasReady;
    if (isReadyAgain && !m_known.empty()) // what was read before the connection was lost may be wrong by now
        beginAgain();
    m_timer.start(0ms);
    Q_EMIT changed();
}

void LockWatch::proceed()
{
    if (m_isAsking || !readyEngine())
        return;
    const LeaseTime now = m_registry->now();
    if (now < m_freeAt)
        return wakeAt(m_freeAt);
    if (m_visibleLeft.isEmpty() && now >= m_visibleDue) {
        std::copy_if(m_visible.begin(), m_visible.end(), std::back_inserter(m_visibleLeft),
                     [this](const LockId &lock) { return m_known.count(lock.key()) > 0; });
        m_visibleDue = now + m_settings.interval;
    }
    const bool isScanDue = !m_found.isEmpty() || now >= m_sweepDue;
    const bool isRoundDue = now >= m_roundDue && !m_known.empty();
    const bool isReadDue = isRoundDue || !m_visibleLeft.isEmpty();
    // Each has half of the time. What one does not need now is not kept for later.
    if (!isScanDue)
        m_scanSpent = std::max(m_scanSpent, m_readSpent);
    if (!isReadDue)
        m_readSpent = std::max(m_readSpent, m_scanSpent);
    if (isScanDue && (!isReadDue || m_scanSpent <= m_readSpent)) {
        if (m_found.isEmpty())
            scan();
        else
            inspect(takeSome(&m_found), &m_scanSpent);
    } else if (!m_visibleLeft.isEmpty() && (m_isVisiblesTurn || !isRoundDue)) {
        m_isVisiblesTurn = false;
        inspect(takeSome(&m_visibleLeft), &m_readSpent);
    } else if (isRoundDue) {
        m_isVisiblesTurn = true;
        goRound(now);
    } else {
        wakeAt(std::min({m_sweepDue, m_known.empty() ? NeverTime : m_roundDue,
                         m_visible.isEmpty() ? NeverTime : m_visibleDue}));
    }
}

void LockWatch::wakeAt(LeaseTime time)
{
    m_timer.start(std::chrono::ceil<milliseconds>(std::max<nanoseconds>(time - m_registry->now(), 1ms)));
}

void LockWatch::goRound(LeaseTime now)
{
    if (m_roundAt.isEmpty())
        m_roundBegan = now;
    QList<LockId> locks;
    auto known = m_known.upper_bound(m_roundAt);
    for (; known != m_known.end() && locks.size() < LockEngine::MostInspected; ++known)
        locks.append(known->second.lock);
    m_isRoundsEnd = known == m_known.end();
    m_roundAt = m_isRoundsEnd ? QByteArray() : locks.last().key();
    if (locks.isEmpty()) { // those behind the last one are gone
        m_isRoundsEnd = false;
        endRound();
        return proceed();
    }
    inspect(locks, &m_readSpent);
}

void LockWatch::endRound()
{
    m_round.end();
    m_isRoundHurried = false;
    m_roundDue = m_roundBegan + m_settings.interval;
}

void LockWatch::ask()
{
    m_isAsking = true;
    m_askedAt = m_registry->now();
}

/// False if the engine is being destroyed.
bool LockWatch::answered(nanoseconds *spent)
{
    m_isAsking = false;
    if (!m_registry || !m_registry->engine())
        return false;
    const LeaseTime now = m_registry->now();
    nanoseconds cost = now - m_askedAt;
    if (m_registry->engine()->hasShortSteps())
        cost = std::min(cost, LongestStep);
    m_spent += cost;
    *spent += cost;
    double share = m_settings.budget;
    if (m_isSweepHurried || m_isRoundHurried)
        share = std::max(share, HurriedShare);
    else if (!m_isSwept && m_spent < FirstCredit)
        share = std::max(share, FirstShare);
    m_freeAt = now + std::min(LongestPause, std::chrono::duration_cast<nanoseconds>(cost / share));
    return true;
}

void LockWatch::scan()
{
    ask();
    m_registry->engine()->scan(m_settings.prefix, m_settings.pattern, m_scanFrom,
                               [this, alive = QPointer(this), sweep = m_sweeps](const LockEngine::ScanStep &step) {
                                   if (!alive || !answered(&m_scanSpent))
                                       return;
                                   scanned(step, sweep == m_sweeps);
                                   proceed();
                               });
}

/// \a isOfSweep: no other sweep has begun since.
void LockWatch::scanned(const LockEngine::ScanStep &step, bool isOfSweep)
{
    if (step.error && isOfSweep && isReady())
        m_sweep.add(step.error.text);
    for (const LockId &lock : step.locks) {
        if (m_known.count(lock.key()) > 0)
            continue;
        if (qsizetype(m_known.size()) >= MostLocks) {
            m_sweep.add(u"more than %1 locks match the pattern; the others are not shown"_s.arg(MostLocks));
            break;
        }
        m_known.emplace(lock.key(), Known{lock});
        m_found.append(lock);
    }
    if (!isOfSweep || !isReady()) // engineChanged() begins another sweep
        return;
    m_scanFrom = step.next;
    if (m_scanFrom.isEmpty()) {
        m_isSwept = true;
        m_isSweepHurried = false;
        const milliseconds pause = m_sweep.problems.isEmpty() ? 0ms : RefusalPause;
        m_sweepDue = m_askedAt + std::max(m_settings.interval, pause);
        m_sweep.end();
    }
    checkComplete();
}

/// \a spent: what it is part of.
void LockWatch::inspect(const QList<LockId> &locks, nanoseconds *spent)
{
    ask();
    m_registry->engine()->inspectAll(
            locks, [this, alive = QPointer(this), locks, spent](const LockEngine::Inspection &inspection) {
                if (!alive || !answered(spent))
                    return;
                inspected(locks, inspection);
                proceed();
            });
}

void LockWatch::inspected(const QList<LockId> &locks, const LockEngine::Inspection &inspection)
{
    for (qsizetype i = 0; i < locks.size(); ++i)
        lockInspected(locks.at(i), inspection.locks.at(i));
    if (std::exchange(m_clientsProblem, inspection.clients.text) != inspection.clients.text)
        Q_EMIT changed();
    if (std::exchange(m_isRoundsEnd, false))
        endRound();
    checkComplete();
}

void LockWatch::lockInspected(const LockId &lock, const LockInfo &info)
{
    const auto entry = m_known.find(lock.key());
    if (entry == m_known.end())
        return;
    Known &known = entry->second;
    const bool isLock = info.error != DistributedLock::ForeignTypeError;
    if (info.error != DistributedLock::NoError && isLock) {
        if (isReady()) // otherwise the engine's error says why
            m_round.add(info.errorString);
        Q_EMIT changed();
        return;
    }
    const LeaseTime now = m_registry->now();
    if (isLock && info.held) {
        known.isReported = true;
        known.freeSince = NeverTime;
        Q_EMIT lockRead(info);
        return;
    }
    if (isLock && known.isReported && known.freeSince == NeverTime) {
        known.freeSince = now;
        Q_EMIT lockRead(info);
    } else if (!isLock || !known.isReported || now - known.freeSince >= FreeLife) {
        const bool wasReported = known.isReported;
        m_known.erase(entry);
        if (wasReported)
            Q_EMIT lockGone(info.name);
    }
}

void LockWatch::checkComplete()
{
    if (!m_isComplete && m_isSwept && m_found.isEmpty())
        m_isComplete = true;
    Q_EMIT changed();
}

} // namespace QDistLock
