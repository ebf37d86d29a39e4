// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `watch`.

#include "commands.h"
#include "lockview.h"
#include "output.h"
#include "session.h"

#include <QDistLock/LockInfo>
#include <QDistLock/LockMonitorModel>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qdatetime.h>
#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qmap.h>
#include <QtCore/qtimer.h>

#include <algorithm>
#include <set>
#include <utility>

#include <poll.h>
#include <signal.h>
#include <unistd.h>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockClient;
using QDistLock::LockHold;
using QDistLock::LockInfo;
using QDistLock::LockMonitorModel;
using QDistLock::LockRegistry;
using std::chrono::milliseconds;

namespace Cli {

namespace {

constexpr milliseconds DefaultInterval = 1s;
constexpr milliseconds ShortestInterval = 50ms;
/// The pause after a list is at least this many times as long as the list took: on a server with millions of keys it
/// takes seconds.
constexpr int PauseFactor = 10;
/// How often reports are printed.
constexpr milliseconds ReportInterval = 250ms;

/// As after `| head`.
bool isOutputClosed()
{
    pollfd output{STDOUT_FILENO, 0, 0};
    return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

/// What clients report. Nothing before begin().
class Reports
{
public:
    struct EndedHold
    {
        QString name; ///< of the lock
        LockHold hold;
        QDateTime acquired;
        QDateTime released() const { return acquired.addMSecs(hold.held); }
    };
    struct Silence
    {
        LockInfo lock;
        bool isSilent; ///< otherwise its holder reports again
    };

    explicit Reports(const QString &glob);

    void begin(LockRegistry *registry) { m_model.setRegistry(registry); }
    /// Those that were reported since the last call, in the order in which they ended.
    QList<EndedHold> takeHolds();
    QList<Silence> takeSilences();

private:
    void holdEnded(const QString &name, const LockHold &hold);
    void changed(int first, int last);

    LockMonitorModel m_model;
    QList<EndedHold> m_holds;
    std::set<QString> m_changed;    ///< rows that may have another status or holder since the last call
    QMap<QString, qint64> m_silent; ///< locks whose holder is silent, and its fencing token
};

Reports::Reports(const QString &glob)
{
    m_model.setPattern(glob);
    QObject::connect(&m_model, &LockMonitorModel::holdEnded, &m_model,
                     [this](const QString &name, const LockHold &hold) { holdEnded(name, hold); });
    QObject::connect(&m_model, &LockMonitorModel::rowsInserted, &m_model,
                     [this](const QModelIndex &, int first, int last) { changed(first, last); });
    QObject::connect(&m_model, &LockMonitorModel::dataChanged, &m_model,
                     [this](const QModelIndex &first, const QModelIndex &last, const QList<int> &roles) {
                         if (roles.contains(int(LockMonitorModel::Status))
                             || roles.contains(int(LockMonitorModel::FencingToken)))
                             changed(first.row(), last.row());
                     });
    QObject::connect(&m_model, &LockMonitorModel::problemsChanged, &m_model, [this, noted = QStringList()]() mutable {
        if (m_model.registry()->state() != LockRegistry::Ready)
            return; // which the lists say
        const QStringList problems = m_model.problems();
        for (const QString &problem : problems) {
            if (!noted.contains(problem))
                printNote(problem);
        }
        noted += problems;
    });
}

void Reports::holdEnded(const QString &name, const LockHold &hold)
{
    m_holds.append({name, hold, QDateTime::currentDateTimeUtc().addMSecs(hold.acquired - m_model.now())});
}

QList<Reports::EndedHold> Reports::takeHolds()
{
    std::stable_sort(m_holds.begin(), m_holds.end(),
                     [](const EndedHold &a, const EndedHold &b) { return a.released() < b.released(); });
    return std::exchange(m_holds, {});
}

void Reports::changed(int first, int last)
{
    for (int row = first; row <= last; ++row)
        m_changed.insert(m_model.index(row).data(LockMonitorModel::Name).toString());
}

QList<Reports::Silence> Reports::takeSilences()
{
    QList<Silence> silences;
    const std::set<QString> names = std::exchange(m_changed, {});
    for (const QString &name : names) {
        const QModelIndex index = m_model.index(m_model.rowOf(name));
        const auto lock = index.data(LockMonitorModel::Info).value<LockInfo>();
        const auto status = index.data(LockMonitorModel::Status).value<LockMonitorModel::LockStatus>();
        const bool isSame = m_silent.contains(name) && m_silent.take(name) == lock.fencingToken;
        if (status == LockMonitorModel::Silent) {
            m_silent.insert(name, lock.fencingToken);
            if (!isSame)
                silences.append({lock, true});
        } else if (isSame && (status == LockMonitorModel::Held || status == LockMonitorModel::Expiring)) {
            silences.append({lock, false});
        }
    }
    return silences;
}

/// Compares each list of locks with the one before, and prints the differences. The functions return false if nobody
/// reads the output any more.
class Changes
{
public:
    bool update(const QList<LockInfo> &locks);
    /// What clients have reported.
    bool update(Reports *reports);
    bool unreachable(const QString &error);
    bool reachable();

private:
    using Locks = QMap<QString, LockInfo>;

    bool printHold(const Reports::EndedHold &ended);
    bool printSnapshot(const Locks &locks);
    bool printChange(const QString &event, const LockInfo &lock, const QString &text);
    bool printText(const QString &name, const QString &text);
    bool printEvent(const QString &event, QJsonObject object);

    Locks m_locks;
    bool m_hasSnapshot = false;
};

bool Changes::printEvent(const QString &event, QJsonObject object)
{
    object.insert(u"event"_s, event);
    object.insert(u"time"_s, QDateTime::currentDateTimeUtc().toString(Qt::ISODateWithMs));
    return printJson(object);
}

bool Changes::printChange(const QString &event, const LockInfo &lock, const QString &text)
{
    return isJson() ? printEvent(event, {{u"lock"_s, toJson(lock)}}) : printText(lock.name, text);
}

bool Changes::printText(const QString &name, const QString &text)
{
    const QDateTime now = QDateTime::currentDateTime();
    const bool isShort = isTerminal(Stream::Output);
    const QString time = isShort ? now.toString(u"HH:mm:ss"_s) : now.toString(Qt::ISODate);
    const QString gap = isShort ? u"  "_s : u"\t"_s;
    return printLine(styled(time, Style::Dim) + gap + styled(printable(name), Style::Bold) + gap + printable(text));
}

/// The first at most, in a fixed order. Their order in \a lock changes with each renewal.
QStringList holdersOf(const LockInfo &lock)
{
    QStringList ids;
    for (const LockClient &holder : lock.holders)
        ids += holder.id;
    ids.sort();
    return ids;
}

/// Whether \a now has other readers or holders of permits than \a before. Of many only the first are known, so only
/// their number counts, and the fencing token, of which each holder of permits has its own.
bool areOtherHolders(const LockInfo &before, const LockInfo &now)
{
    return before.readerCount != now.readerCount || before.permitsTaken != now.permitsTaken
            || before.permits != now.permits || before.fencingToken != now.fencingToken
            || (!now.hasMoreHolders() && holdersOf(before) != holdersOf(now));
}

/// Whether \a now is held by somebody else, or by others of another kind.
bool isPassedOn(const LockInfo &before, const LockInfo &now)
{
    const bool areOthers = now.holders.isEmpty() && before.holder.id != now.holder.id;
    if (areOthers || before.foreign != now.foreign || before.isHeldWithPermits() != now.isHeldWithPermits())
        return true;
    return !now.isHeldWithPermits() && before.fencingToken != now.fencingToken;
}

QString heldText(const LockInfo &lock)
{
    QString text = u"held by "_s + lock.holderText();
    if (!lock.foreign)
        text += u", fence %1"_s.arg(lock.fencingToken);
    return lock.queueLength > 0 ? text + u", %1 waiting"_s.arg(lock.queueLength) : text;
}

bool Changes::printSnapshot(const Locks &locks)
{
    if (isJson()) {
        QJsonArray array;
        for (const LockInfo &lock : locks)
            array.append(toJson(lock));
        return printEvent(u"snapshot"_s, {{u"locks"_s, array}});
    }
    return std::all_of(locks.cbegin(), locks.cend(),
                       [this](const LockInfo &lock) { return printChange({}, lock, heldText(lock)); });
}

bool Changes::printHold(const Reports::EndedHold &ended)
{
    const LockHold &hold = ended.hold;
    if (isJson()) {
        return printEvent(u"ended"_s,
                          {{u"hold"_s,
                            QJsonObject{
                                    {u"name"_s, ended.name},
                                    {u"fence"_s, hold.fencingToken > 0 ? QJsonValue(hold.fencingToken) : QJsonValue()},
                                    {u"holder"_s, toJson(hold.client)},
                                    {u"acquired"_s, ended.acquired.toString(Qt::ISODateWithMs)},
                                    {u"released"_s, ended.released().toString(Qt::ISODateWithMs)},
                                    {u"waitedMs"_s, hold.waited},
                                    {u"heldMs"_s, hold.held},
                            }}});
    }
    QString text = u"was held by "_s + hold.client.toString();
    if (hold.fencingToken > 0)
        text += u", fence %1"_s.arg(hold.fencingToken);
    text += u", until %1 for %2, after waiting %3"_s.arg(ended.released().toLocalTime().toString(u"HH:mm:ss.zzz"_s),
                                                         roughText(milliseconds(hold.held)),
                                                         roughText(milliseconds(hold.waited)));
    return printText(ended.name, text);
}

bool Changes::update(Reports *reports)
{
    const QList<Reports::EndedHold> holds = reports->takeHolds();
    for (const Reports::EndedHold &ended : holds) {
        if (!printHold(ended))
            return false;
    }
    const QList<Reports::Silence> silences = reports->takeSilences();
    for (const auto &[lock, isSilent] : silences) {
        const bool printed = isSilent
                ? printChange(u"silent"_s, lock, u"its holder is silent: it is stopped, or blocks its event loop"_s)
                : printChange(u"reporting"_s, lock, u"its holder reports again"_s);
        if (!printed)
            return false;
    }
    return true;
}

bool Changes::update(const QList<LockInfo> &list)
{
    Locks locks;
    for (const LockInfo &lock : list)
        locks.insert(lock.name, lock);
    const Locks before = std::exchange(m_locks, locks);
    if (!std::exchange(m_hasSnapshot, true))
        return printSnapshot(locks);
    for (const LockInfo &former : before) {
        if (locks.contains(former.name))
            continue;
        LockInfo lock;
        lock.name = former.name;
        lock.fencingToken = former.foreign ? 0 : former.fencingToken;
        if (!printChange(u"freed"_s, lock, u"free"_s))
            return false;
    }
    for (const LockInfo &lock : std::as_const(locks)) {
        const auto former = before.constFind(lock.name);
        bool printed = true;
        if (former == before.cend())
            printed = printChange(u"held"_s, lock, heldText(lock));
        else if (isPassedOn(*former, lock))
            printed = printChange(u"passed"_s, lock, u"now "_s + heldText(lock));
        else if (areOtherHolders(*former, lock))
            printed = printChange(u"changed"_s, lock, u"now "_s + heldText(lock));
        else if (former->isHolderConnected() != lock.isHolderConnected())
            printed = printChange(u"changed"_s, lock,
                                  lock.isHolderConnected() ? u"its holder is connected again"_s
                                                           : u"its holder is not connected any more, %1 left"_s.arg(
                                                                   remainingText(lock)));
        else if (former->queueLength != lock.queueLength)
            printed = printChange(u"changed"_s, lock, u"%1 waiting"_s.arg(lock.queueLength));
        if (!printed)
            return false;
    }
    return true;
}

bool Changes::unreachable(const QString &error)
{
    printError(error);
    return !isJson() || printEvent(u"unreachable"_s, {{u"error"_s, error}});
}

bool Changes::reachable()
{
    printNote(u"the server can be used again"_s);
    return !isJson() || printEvent(u"reachable"_s, {});
}

} // namespace

int runWatch(const Invocation &invocation)
{
    QDistLock::quitOnSignals();
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    const milliseconds interval = invocation.duration(Option::Interval).value_or(DefaultInterval);
    if (interval < ShortestInterval)
        return session.fail(UsageError,
                            u"--interval: %1 is too short; write 50ms or more"_s.arg(durationText(interval)));
    const QString glob = invocation.operands().value(0, u"*"_s);

    // The model also reads the locks, but cannot replace the lists: it has no --interval, and no exit codes.
    Reports reports(glob);
    const bool doClientsReport = !session.isZooKeeper() && !session.server().scheme().startsWith(u"redlock");
    Changes changes;
    bool isUnreachable = false;
    bool isFirst = true;
    for (;;) {
        QElapsedTimer timer;
        timer.start();
        const auto locks = session.await(session.registry()->list(glob));
        if (!locks)
            return session.exitCode();
        const bool failed = !*locks;
        if (failed && isFirst)
            return session.fail(locks->error, locks->errorString);
        bool printed = true;
        if (std::exchange(isUnreachable, failed) != failed)
            printed = failed ? changes.unreachable(locks->errorString) : changes.reachable();
        if (!failed)
            printed = printed && changes.update(locks->value);
        if (std::exchange(isFirst, false) && doClientsReport)
            reports.begin(session.registry());
        QDeadlineTimer pauseEnd(std::max<milliseconds>(interval, PauseFactor * milliseconds(timer.elapsed())),
                                Qt::PreciseTimer);
        do {
            printed = printed && changes.update(&reports);
            if (isOutputClosed())
                return SignalBase + SIGPIPE;
            if (!printed)
                return InternalError;
            QTimer pause;
            pause.setTimerType(Qt::PreciseTimer);
            pause.start(std::min(ReportInterval, milliseconds(pauseEnd.remainingTime())));
            if (!session.await(QtFuture::connect(&pause, &QTimer::timeout).then([] { return true; })))
                return session.exitCode();
        } while (!pauseEnd.hasExpired());
    }
}

} // namespace Cli
