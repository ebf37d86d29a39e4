// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// `metrics`.

#include "commands.h"
#include "lockview.h"
#include "output.h"
#include "session.h"

#include <QDistLock/LockInfo>
#include <QDistLock/LockMetrics>
#include <QDistLock/QuitOnSignals>
#include <QDistLock/impl/openmetrics.h>

#include <QtCore/qmap.h>

#include <algorithm>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using QDistLock::LockInfo;
using QDistLock::Detail::OpenMetricsWriter;

namespace LockMetrics = QDistLock::LockMetrics;

namespace Cli {

namespace {

/// The locks of one group that are held.
struct Group
{
    quint64 held = 0;
    quint64 waiting = 0;
    quint64 disconnected = 0;
    quint64 withoutTtl = 0;
    quint64 foreign = 0;

    void add(const LockInfo &lock)
    {
        ++held;
        waiting += quint64(lock.queueLength);
        disconnected += lock.isHolderConnected() ? 0 : 1;
        withoutTtl += lock.remaining < 0ms ? 1 : 0;
        foreign += lock.foreign ? 1 : 0;
    }
    void add(const Group &other)
    {
        for (quint64 Group::*const value :
             {&Group::held, &Group::waiting, &Group::disconnected, &Group::withoutTtl, &Group::foreign})
            this->*value += other.*value;
    }
};

/// Those in which most locks are held, and one for the rest: Prometheus keeps every group that it has ever seen.
QMap<QString, Group> groupsOf(const QList<LockInfo> &locks)
{
    QMap<QString, Group> groups;
    for (const LockInfo &lock : locks)
        groups[LockMetrics::groupOf(lock.name)].add(lock);
    if (groups.size() <= LockMetrics::MaximumGroups)
        return groups;
    QList<QString> names = groups.keys();
    std::stable_sort(names.begin(), names.end(), [&groups](const QString &a, const QString &b) {
        return groups.value(a).held > groups.value(b).held;
    });
    Group others;
    for (const QString &name : names.sliced(LockMetrics::MaximumGroups))
        others.add(groups.take(name));
    groups[u"other"_s].add(others);
    return groups;
}

bool printMetrics(const Session &session, const std::optional<QList<LockInfo>> &locks)
{
    static constexpr struct
    {
        const char *name;
        const char *help;
        quint64 Group::*value;
    } Gauges[] = {
            {"qdistlock_server_held", "Locks held, by whichever program.", &Group::held},
            {"qdistlock_server_waiting", "Clients that wait for them.", &Group::waiting},
            {"qdistlock_server_disconnected", "Those whose holder is not connected: they end with their lease.",
             &Group::disconnected},
            {"qdistlock_server_without_ttl", "Those that never end unless they are released.", &Group::withoutTtl},
            {"qdistlock_server_foreign", "Those held by another library, or written by hand.", &Group::foreign},
    };

    const QByteArray place = OpenMetricsWriter::label("server", session.serverText()) + ','
            + OpenMetricsWriter::label("prefix", session.keyPrefix());
    const QMap<QString, Group> groups = groupsOf(locks.value_or(QList<LockInfo>()));
    OpenMetricsWriter writer;
    writer.beginMetric("qdistlock_server_up", OpenMetricsWriter::Gauge,
                       "1 if the server listed its locks, 0 if it could not be asked.");
    writer.addSample(place, locks ? 1 : 0);
    for (const auto &gauge : Gauges) {
        writer.beginMetric(gauge.name, OpenMetricsWriter::Gauge, gauge.help);
        for (auto group = groups.cbegin(); group != groups.cend(); ++group)
            writer.addSample(place + ',' + OpenMetricsWriter::label("group", group.key()), (*group).*(gauge.value));
    }
    return printLine(QString::fromUtf8(writer.finish().chopped(1)));
}

} // namespace

int runMetrics(const Invocation &invocation)
{
    QDistLock::quitOnSignals();
    Session session(invocation);
    if (!session.isUsable())
        return session.exitCode();
    const auto locks = session.awaitReply(session.registry()->list(invocation.operands().value(0, u"*"_s)));
    const int code = session.exitCode();
    if (code > SignalBase)
        return code;
    // Whoever keeps only what a successful run prints sees that this is old, and everybody else that nothing is known.
    return printMetrics(session, locks) ? code : InternalError;
}

} // namespace Cli
