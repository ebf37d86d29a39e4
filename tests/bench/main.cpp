// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// One competitor of the benchmark: `qdistlock_bench --server URL [--clients N] [--locks N] CONTENDER`.
// Each line `run MILLISECONDS [PARTICIPANTS]` on standard input makes one timed run and answers with one
// line of JSON; end of input ends the process. bench.py starts the competitors and takes turns among
// them, so that every repetition sees the same machine; competitors in other languages speak the same
// two lines.

#include "contender.h"

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qmap.h>

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

namespace Bench {
namespace {

double cpuSeconds()
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval &time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

} // namespace

void fail(const QString &reason)
{
    std::fprintf(stderr, "qdistlock_bench: %s\n", qPrintable(reason));
    std::exit(1);
}

QJsonObject Measurement::toJson() const
{
    return {{QStringLiteral("operations"), operations},
            {QStringLiteral("seconds"), seconds},
            {QStringLiteral("cpuSeconds"), cpuSeconds}};
}

qint64 microseconds()
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

Stopwatch::Stopwatch()
    : m_start(std::chrono::steady_clock::now())
    , m_cpuStart(cpuSeconds())
{}

double Stopwatch::seconds() const
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_start).count();
}

Measurement Stopwatch::finish(qint64 operations) const
{
    return {operations, seconds(), cpuSeconds() - m_cpuStart};
}

} // namespace Bench

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);

    using Maker = std::unique_ptr<Bench::Contender> (*)(const Bench::Setup &);
    const QMap<QString, Maker> makers{
            {QStringLiteral("hiredis-pairs"), Bench::makeHiredisPairs},
            {QStringLiteral("hiredis-times"), Bench::makeHiredisTimes},
            {QStringLiteral("qt-pairs"), Bench::makeQtPairs},
            {QStringLiteral("library-pairs"), Bench::makeLibraryPairs},
            {QStringLiteral("library-contended"), Bench::makeLibraryContended},
            {QStringLiteral("library-waiters"), Bench::makeLibraryWaiters},
            {QStringLiteral("library-held"), Bench::makeLibraryHeld},
            {QStringLiteral("library-lost"), Bench::makeLibraryLost},
            {QStringLiteral("library-flood"), Bench::makeLibraryFlood},
            {QStringLiteral("library-scoped"), Bench::makeLibraryScoped},
            {QStringLiteral("library-reentry"), Bench::makeLibraryReentry},
    };

    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption serverOption(QStringLiteral("server"),
                                          QStringLiteral("redis:// or unix:// URL."),
                                          QStringLiteral("url"));
    const QCommandLineOption clientsOption(QStringLiteral("clients"),
                                           QStringLiteral("Registries in this process."),
                                           QStringLiteral("count"), QStringLiteral("1"));
    const QCommandLineOption locksOption(QStringLiteral("locks"),
                                         QStringLiteral("Locks of each registry."),
                                         QStringLiteral("count"), QStringLiteral("1"));
    const QCommandLineOption leaseOption(QStringLiteral("lease"),
                                         QStringLiteral("Lease of the locks that are held."),
                                         QStringLiteral("ms"), QStringLiteral("30000"));
    const QCommandLineOption workOption(QStringLiteral("work"),
                                        QStringLiteral("How long a contended lock is kept."),
                                        QStringLiteral("ms"), QStringLiteral("0"));
    const QCommandLineOption unfairOption(QStringLiteral("unfair"),
                                          QStringLiteral("Whoever comes first has the lock."));
    parser.addOptions({serverOption, clientsOption, locksOption, leaseOption, workOption, unfairOption});
    parser.addPositionalArgument(QStringLiteral("contender"),
                                 makers.keys().join(QLatin1String(", ")));
    parser.process(application);

    const Maker make = makers.value(parser.positionalArguments().value(0));
    const Bench::Setup setup{QUrl(parser.value(serverOption)), parser.value(clientsOption).toInt(),
                             parser.value(locksOption).toInt(),
                             std::chrono::milliseconds(parser.value(leaseOption).toInt()),
                             std::chrono::milliseconds(parser.value(workOption).toInt()),
                             !parser.isSet(unfairOption)};
    if (!make || setup.clients < 1 || setup.locks < 1 || setup.lease.count() < 1
        || !parser.isSet(serverOption)) {
        parser.showHelp(64);
    }
    const std::unique_ptr<Bench::Contender> contender = make(setup);

    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string word;
        qint64 milliseconds = 0;
        if (!(words >> word >> milliseconds) || word != "run")
            Bench::fail(QStringLiteral("not understood: ") + QString::fromStdString(line));
        int participants = 0;
        if (!(words >> participants))
            participants = setup.clients * setup.locks;
        const QJsonObject result = contender->run(std::chrono::milliseconds(milliseconds),
                                                  participants);
        std::cout << QJsonDocument(result).toJson(QJsonDocument::Compact).constData() << std::endl;
    }
    return 0;
}
