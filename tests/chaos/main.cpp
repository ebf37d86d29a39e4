// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Runs one round of chaos and writes its history; see round.h. The exit status is 0 if the round could be run;
// chaoscheck judges the history.

#include "round.h"

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qcoreapplication.h>

#include <cstdio>

#include <signal.h>
#include <sys/prctl.h>

using namespace Qt::StringLiterals;

using namespace Chaos;

int main(int argc, char *argv[])
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    QCoreApplication application(argc, argv);
    QCommandLineParser parser;
    parser.addHelpOption();
    const auto option = [&parser](const char *name, const char *description, const char *fallback) {
        parser.addOption({QString::fromLatin1(name), QString::fromLatin1(description), u"value"_s,
                          QString::fromLatin1(fallback)});
    };
    option("worker", "the worker program", "");
    option("folder", "folder for the histories", ".");
    option("seed", "of the faults and of the workers' random choices", "1");
    option("seconds", "duration of the faults", "60");
    option("engine",
           "redis, plain (redis, without scripts in half of the workers), sentinel, cluster, quorum or zookeeper",
           "redis");
    option("replicas", "that must have each lock, with sentinel", "0");
    option("workers", "number of processes", "8");
    option("lease", "of all locks, in ms", "300");
    option("forms", "assigned to the workers in turn", "signals");
    option("kinds", "of faults, separated by commas; all if empty", "");
    parser.addOption({u"schedule"_s, u"print the faults and run nothing"_s});
    parser.process(application);
    const auto number = [&parser](const char *name) { return parser.value(QString::fromLatin1(name)).toLongLong(); };

    RoundOptions options;
    options.schedule.seed = quint64(number("seed"));
    options.schedule.duration = std::chrono::seconds(number("seconds"));
    options.schedule.workers = int(number("workers"));
    options.schedule.lease = std::chrono::milliseconds(number("lease"));
    options.replicas = int(number("replicas"));
    const QString engine = parser.value(u"engine"_s);
    if (engine == u"sentinel") {
        options.schedule.engine = EngineKind::Sentinel;
        options.schedule.servers = 3;
    } else if (engine == u"cluster") {
        options.schedule.engine = EngineKind::Cluster;
        options.schedule.servers = 0;
        options.schedule.locksPerServer = 4;
    } else if (engine == u"plain") {
        options.isPlain = true;
        options.bound = std::chrono::seconds(30); // those without scripts have their turns after the others
    } else if (engine == u"quorum") {
        options.schedule.engine = EngineKind::Quorum;
        options.schedule.servers = 3;
        options.schedule.locksPerServer = 4;
    } else if (engine == u"zookeeper") {
        options.schedule.engine = EngineKind::ZooKeeper;
        options.schedule.servers = 3;
        options.schedule.locksPerServer = 4;
    } else if (engine != u"redis") {
        qFatal("unknown engine: %ls", qUtf16Printable(engine));
    }
    if (options.schedule.engine != EngineKind::Redis)
        options.bound = std::chrono::seconds(60); // locks are held for longer, and the dead for a lease
    const QStringList kinds = parser.value(u"kinds"_s).split(u',', Qt::SkipEmptyParts);
    for (const QString &name : kinds) {
        const auto kind = kindNamed(name.toLatin1());
        if (!kind)
            qFatal("unknown kind of fault: %ls", qUtf16Printable(name));
        options.schedule.kinds.append(*kind);
    }
    options.worker = parser.value(u"worker"_s);
    options.folder = parser.value(u"folder"_s);
    options.forms = parser.value(u"forms"_s).split(u',');
    const bool isShared = !options.forms.filter(u"readwrite"_s).isEmpty()
            || !options.forms.filter(u"semaphore"_s).isEmpty();
    options.hasCompanions = !options.forms.filter(u"multi"_s).isEmpty();
    if (options.hasCompanions) // all of them can be hit by faults
        options.schedule.locksPerServer = options.schedule.engine == EngineKind::Redis ? 5 : 10;
    // Where waiting is unfair, those that share a lock overtake those that do not, and those that need one lock those
    // that need several.
    if (isShared || options.hasCompanions)
        options.bound = std::max(options.bound, std::chrono::seconds(30));

    if (parser.isSet(u"schedule"_s)) {
        const QList<Fault> faults = drawSchedule(options.schedule);
        for (const Fault &fault : faults) {
            std::printf("%6lld %s %lld ms, worker %d, server %d, lock %d, detail %d\n", qlonglong(fault.at.count()),
                        nameOf(fault.kind), qlonglong(fault.duration.count()), fault.worker, fault.server, fault.lock,
                        fault.detail);
        }
        return 0;
    }

    Round round(options);
    if (!round.start())
        return 1;
    QObject::connect(
            &round, &Round::failed, &application, [] { QCoreApplication::exit(1); }, Qt::QueuedConnection);
    QObject::connect(&round, &Round::finished, &application, &QCoreApplication::quit, Qt::QueuedConnection);
    return application.exec();
}
