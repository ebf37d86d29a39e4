// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// One competitor of the benchmark: `qdistlock_bench --server URL --locks N CONTENDER`.
// Each line `run MILLISECONDS` on standard input makes one timed run and answers with one line of
// JSON; end of input ends the process. bench.py starts the competitors and takes turns among them,
// so that every repetition sees the same machine; competitors in other languages speak the same two
// lines.

#include "contender.h"

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qmap.h>

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
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

    using Maker = std::unique_ptr<Bench::Contender> (*)(const QUrl &, int);
    const QMap<QString, Maker> makers{
            {QStringLiteral("hiredis-pairs"), Bench::makeHiredisPairs},
            {QStringLiteral("qt-pairs"), Bench::makeQtPairs},
            {QStringLiteral("library-pairs"), Bench::makeLibraryPairs},
            {QStringLiteral("library-memory"), Bench::makeLibraryMemory},
    };

    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption serverOption(QStringLiteral("server"),
                                          QStringLiteral("redis:// or unix:// URL."),
                                          QStringLiteral("url"));
    const QCommandLineOption locksOption(QStringLiteral("locks"),
                                         QStringLiteral("Locks in use at the same time."),
                                         QStringLiteral("count"), QStringLiteral("1"));
    parser.addOptions({serverOption, locksOption});
    parser.addPositionalArgument(QStringLiteral("contender"),
                                 makers.keys().join(QLatin1String(", ")));
    parser.process(application);

    const Maker make = makers.value(parser.positionalArguments().value(0));
    const int locks = parser.value(locksOption).toInt();
    if (!make || locks < 1 || !parser.isSet(serverOption))
        parser.showHelp(64);
    const std::unique_ptr<Bench::Contender> contender = make(QUrl(parser.value(serverOption)),
                                                             locks);

    std::string word;
    qint64 milliseconds = 0;
    while (std::cin >> word >> milliseconds && word == "run") {
        const QJsonObject result = contender->run(std::chrono::milliseconds(milliseconds));
        std::cout << QJsonDocument(result).toJson(QJsonDocument::Compact).constData() << std::endl;
    }
    return 0;
}
