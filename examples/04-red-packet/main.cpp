// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Six processes draw random amounts from one pot of money until it is empty: first without a lock, then with it. In the
// second round one worker is killed and one is stopped past the end of its lease, each while it holds the lock. The
// exit status is 0 only if every cent is accounted for. The pots are in Redis; the lock is there, too, or elsewhere.
//
// The pots and the lists of payments are removed from the server at the end, unless --keep is given.

#include "round.h"
#include "worker.h"

#include <QDistLock/QuitOnSignals>

#include <QtCore/QCommandLineParser>
#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>

#include <csignal>

using namespace Qt::StringLiterals;

namespace {

// The number of cents, and of draws that empty the pot.
constexpr Pot::Content FullPot{100'000'000, 3600};
constexpr int Workers = 6;

int coordinate(const QUrl &server, const QUrl &locks, bool keep)
{
    Report report;
    Round unlocked({server, locks, false, Workers, FullPot}, &report);
    Round locked({server, locks, true, Workers, FullPot}, &report);

    report.heading(u"%1 processes empty one pot, without a lock"_s.arg(Workers));
    QObject::connect(&unlocked, &Round::finished, &locked, [&] {
        if (!unlocked.result().complete)
            return QCoreApplication::exit(1);
        report.heading(u"The same with the lock; one holder is killed, one is frozen"_s);
        locked.start();
    });
    QObject::connect(&locked, &Round::finished, &locked, [&] {
        const RoundResult &result = locked.result();
        report.table(unlocked.result(), result);
        report.verdict(result);
        const bool asExpected = result.isExact() && result.draws >= 3000 && result.killed == 1 && result.frozen == 1
                && result.refusedWrites >= 1;
        QCoreApplication::exit(asExpected ? 0 : 1);
    });
    unlocked.start();
    const int status = QCoreApplication::exec();

    // After Ctrl+C the workers must have ended before the pots can be removed.
    for (Round *round : {&unlocked, &locked}) {
        if (!round->isRunning())
            continue;
        round->disconnect(&locked);
        QObject::connect(round, &Round::finished, QCoreApplication::instance(), &QCoreApplication::quit);
        round->giveUp(u"Interrupted."_s);
        QCoreApplication::exec();
    }
    if (!keep) {
        unlocked.removePot();
        locked.removePot();
    }
    return status;
}

} // namespace

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QCommandLineParser parser;
    parser.setApplicationDescription(u"Lets several processes share a pot of money, without a lock and with one."_s);
    parser.addHelpOption();
    const QCommandLineOption serverOption(u"server"_s, u"redis://host:port or unix:///path; default: QDISTLOCK_URL."_s,
                                          u"url"_s, qEnvironmentVariable("QDISTLOCK_URL", u"redis://127.0.0.1:6379"_s));
    const QCommandLineOption locksOption(u"locks"_s, u"Where the lock is; default: on the server of the pots."_s,
                                         u"url"_s);
    const QCommandLineOption keepOption(u"keep"_s, u"Leave the pots and the lists of payments on the server."_s);
    QCommandLineOption workerOption(u"worker"_s, QString(), u"number"_s);
    QCommandLineOption modeOption(u"mode"_s, QString(), u"locked|unlocked"_s);
    workerOption.setFlags(QCommandLineOption::HiddenFromHelp);
    modeOption.setFlags(QCommandLineOption::HiddenFromHelp);
    parser.addOptions({serverOption, locksOption, keepOption, workerOption, modeOption});
    parser.process(application);

    const QUrl server(parser.value(serverOption));
    if (server.scheme() != QLatin1String("unix") && server.scheme() != QLatin1String("redis")) {
        qCritical() << "The workers are separate processes, so they need a server: redis://host:port or unix:///path.";
        return 64;
    }
    const QUrl locks = parser.isSet(locksOption) ? QUrl(parser.value(locksOption)) : server;
    if (parser.isSet(workerOption))
        std::signal(SIGINT, SIG_IGN); // Ctrl+C reaches all processes of the terminal; the coordinator ends its workers
    QDistLock::quitOnSignals();
    if (!parser.isSet(workerOption))
        return coordinate(server, locks, parser.isSet(keepOption));
    Worker worker(server, locks, parser.value(modeOption) == QLatin1String("locked"),
                  parser.value(workerOption).toInt());
    return application.exec();
}
