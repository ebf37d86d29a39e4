// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Plays one round of chaos and writes its history; see round.h. Exit status 0 if it could be played:
// chaoscheck judges.

#include "round.h"

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qcoreapplication.h>

#include <cstdio>

#include <sys/prctl.h>
#include <signal.h>

using namespace Chaos;

int main(int argc, char *argv[])
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    QCoreApplication application(argc, argv);
    QCommandLineParser parser;
    parser.addHelpOption();
    const auto option = [&parser](const char *name, const char *description, const char *fallback) {
        parser.addOption({QString::fromLatin1(name), QString::fromLatin1(description), QStringLiteral("value"),
                          QString::fromLatin1(fallback)});
    };
    option("worker", "the worker program", "");
    option("folder", "where the histories are written", ".");
    option("seed", "of the faults and of what the workers do", "1");
    option("seconds", "for which faults happen", "60");
    option("workers", "number of processes", "8");
    option("lease", "of all locks, in ms", "300");
    option("forms", "given out to the workers in turn", "signals");
    parser.addOption({QStringLiteral("schedule"), QStringLiteral("print the faults, play nothing")});
    parser.process(application);
    const auto number = [&parser](const char *name) { return parser.value(QString::fromLatin1(name)).toLongLong(); };

    RoundOptions options;
    options.schedule.seed = quint64(number("seed"));
    options.schedule.duration = std::chrono::seconds(number("seconds"));
    options.schedule.workers = int(number("workers"));
    options.schedule.lease = std::chrono::milliseconds(number("lease"));
    options.worker = parser.value(QStringLiteral("worker"));
    options.folder = parser.value(QStringLiteral("folder"));
    options.forms = parser.value(QStringLiteral("forms")).split(u',');

    if (parser.isSet(QStringLiteral("schedule"))) {
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
