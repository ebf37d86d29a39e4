// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// One competitor of the benchmark: `qdistlock_bench --server URL [--clients N] [--locks N] CONTENDER`.
// Each line `run MILLISECONDS [PARTICIPANTS]` on standard input starts one timed run, which prints one line of JSON;
// end of input ends the process. bench.py starts the competitors and lets them run in turn, so that every repetition is
// made under the same conditions; competitors in other languages use the same protocol.

#include "contender.h"

#include <QtCore/qcommandlineparser.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qfile.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qmap.h>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

using namespace Qt::StringLiterals;

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

void tell(const QString &text)
{
    std::fprintf(stderr, "qdistlock_bench: %s\n", qPrintable(text));
}

void fail(const QString &reason)
{
    tell(reason);
    std::exit(1);
}

QJsonObject Measurement::toJson() const
{
    return {{u"operations"_s, operations}, {u"seconds"_s, seconds}, {u"cpuSeconds"_s, cpuSeconds}};
}

qint64 microseconds()
{
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

Memory Memory::now()
{
    const struct mallinfo2 info = mallinfo2();
    QFile statm(u"/proc/self/statm"_s);
    if (!statm.open(QIODevice::ReadOnly))
        fail(u"cannot read /proc/self/statm"_s);
    const double pages = statm.readAll().split(' ').value(1).toDouble();
    return {static_cast<double>(info.uordblks + info.hblkhd), pages * static_cast<double>(sysconf(_SC_PAGESIZE))};
}

Stopwatch::Stopwatch()
    : m_start(std::chrono::steady_clock::now())
    , m_cpuStart(cpuSeconds())
{
}

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
            {u"hiredis-pairs"_s, Bench::makeHiredisPairs},
            {u"hiredis-times"_s, Bench::makeHiredisTimes},
            {u"hiredis-send"_s, Bench::makeHiredisSender},
            {u"hiredis-receive"_s, Bench::makeHiredisReceiver},
            {u"qt-pairs"_s, Bench::makeQtPairs},
            {u"qt-send"_s, Bench::makeQtSender},
            {u"qt-receive"_s, Bench::makeQtReceiver},
            {u"library-pairs"_s, Bench::makeLibraryPairs},
            {u"library-contended"_s, Bench::makeLibraryContended},
            {u"library-readers"_s, Bench::makeLibraryReaders},
            {u"library-readwrite"_s, Bench::makeLibraryReadWrite},
            {u"library-waiters"_s, Bench::makeLibraryWaiters},
            {u"library-held"_s, Bench::makeLibraryHeld},
            {u"library-lost"_s, Bench::makeLibraryLost},
            {u"library-monitor"_s, Bench::makeLibraryMonitor},
            {u"library-sentinel"_s, Bench::makeLibrarySentinel},
            {u"library-beside-wait"_s, Bench::makeLibraryBesideWait},
            {u"library-flood"_s, Bench::makeLibraryFlood},
            {u"library-scoped"_s, Bench::makeLibraryScoped},
            {u"library-reentry"_s, Bench::makeLibraryReentry},
            {u"library-together"_s, Bench::makeLibraryTogether},
            {u"library-one-by-one"_s, Bench::makeLibraryOneByOne},
            {u"library-turns"_s, Bench::makeLibraryTurns},
            {u"library-resharding"_s, Bench::makeLibraryResharding},
#ifdef QDISTLOCK_BENCH_ZOOKEEPER
            {u"zookeeper-pairs"_s, Bench::makeZooKeeperPairs},
#endif
    };

    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption serverOption(u"server"_s, u"URL of the server."_s, u"url"_s);
    const QCommandLineOption clientsOption(u"clients"_s, u"Registries in this process."_s, u"count"_s, u"1"_s);
    const QCommandLineOption locksOption(u"locks"_s, u"Locks of each registry."_s, u"count"_s, u"1"_s);
    const QCommandLineOption leaseOption(u"lease"_s, u"Lease of the locks that are held."_s, u"ms"_s, u"30000"_s);
    const QCommandLineOption workOption(u"work"_s, u"How long a contended lock is kept, or until the next message."_s,
                                        u"ms"_s, u"0"_s);
    const QCommandLineOption pauseOption(
            u"pause"_s, u"How long a client waits between a release and its next acquire."_s, u"ms"_s, u"0"_s);
    const QCommandLineOption permitsOption(u"permits"_s, u"Permits of a semaphore; 0 = locks."_s, u"count"_s, u"0"_s);
    const QCommandLineOption unfairOption(u"unfair"_s, u"Whoever comes first has the lock."_s);
    const QCommandLineOption witnessOption(u"witness"_s, u"Where holders leave a trace."_s, u"folder"_s, u"."_s);
    parser.addOptions({serverOption, clientsOption, locksOption, leaseOption, workOption, pauseOption, permitsOption,
                       unfairOption, witnessOption});
    parser.addPositionalArgument(u"contender"_s, makers.keys().join(QLatin1String(", ")));
    parser.process(application);

    const Maker make = makers.value(parser.positionalArguments().value(0));
    const Bench::Setup setup{QUrl(parser.value(serverOption)),
                             parser.value(clientsOption).toInt(),
                             parser.value(locksOption).toInt(),
                             std::chrono::milliseconds(parser.value(leaseOption).toInt()),
                             std::chrono::milliseconds(parser.value(workOption).toInt()),
                             std::chrono::milliseconds(parser.value(pauseOption).toInt()),
                             !parser.isSet(unfairOption),
                             parser.value(permitsOption).toInt(),
                             parser.value(witnessOption)};
    if (!make || setup.clients < 1 || setup.locks < 1 || setup.lease.count() < 1 || !parser.isSet(serverOption)) {
        parser.showHelp(64);
    }
    const std::unique_ptr<Bench::Contender> contender = make(setup);

    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string word;
        qint64 milliseconds = 0;
        if (!(words >> word >> milliseconds) || word != "run")
            Bench::fail(u"not understood: "_s + QString::fromStdString(line));
        int participants = 0;
        if (!(words >> participants))
            participants = setup.clients * setup.locks;
        const QJsonObject result = contender->run(std::chrono::milliseconds(milliseconds), participants);
        std::cout << QJsonDocument(result).toJson(QJsonDocument::Compact).constData() << std::endl;
    }
    return 0;
}
