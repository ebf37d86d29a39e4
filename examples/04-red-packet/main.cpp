// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Six processes share a pot of money, first without the lock and then with it. While the lock is in
// use one holder is killed and one is frozen past its lease. Exit status 0 only if every cent is
// accounted for.

#include "round.h"
#include "worker.h"

#include <QDistLock/QuitOnSignals>

#include <QtCore/QCommandLineParser>
#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>

namespace {

// Cents, and the number of random draws they are divided into.
constexpr Pot::Content FullPot{100'000'000, 3600};
constexpr int Workers = 6;

int coordinate(const QUrl &server)
{
    Report report;
    Round unlocked({server, false, Workers, FullPot}, &report);
    Round locked({server, true, Workers, FullPot}, &report);

    report.heading(QStringLiteral("%1 processes empty one pot, without a lock").arg(Workers));
    QObject::connect(&unlocked, &Round::finished, &locked, [&] {
        if (!unlocked.result().complete)
            return QCoreApplication::exit(1);
        report.heading(
                QStringLiteral("The same with the lock; one holder is killed, one is frozen"));
        locked.start();
    });
    QObject::connect(&locked, &Round::finished, &locked, [&] {
        const RoundResult &result = locked.result();
        report.table(unlocked.result(), result);
        report.verdict(result);
        const bool asTold = result.isExact() && result.draws >= 3000 && result.killed == 1
                && result.frozen == 1 && result.refusedWrites >= 1;
        QCoreApplication::exit(asTold ? 0 : 1);
    });
    unlocked.start();
    return QCoreApplication::exec();
}

} // namespace

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();
    QCommandLineParser parser;
    parser.setApplicationDescription(
            QStringLiteral("Shares out a pot of money among several processes."));
    parser.addHelpOption();
    const QCommandLineOption serverOption(
            QStringLiteral("server"),
            QStringLiteral("redis://host:port or unix:///path; default: QDISTLOCK_URL."),
            QStringLiteral("url"),
            qEnvironmentVariable("QDISTLOCK_URL", QStringLiteral("redis://127.0.0.1:6379")));
    QCommandLineOption workerOption(QStringLiteral("worker"), QString(), QStringLiteral("number"));
    QCommandLineOption modeOption(QStringLiteral("mode"), QString(),
                                  QStringLiteral("locked|unlocked"));
    workerOption.setFlags(QCommandLineOption::HiddenFromHelp);
    modeOption.setFlags(QCommandLineOption::HiddenFromHelp);
    parser.addOptions({serverOption, workerOption, modeOption});
    parser.process(application);

    const QUrl server(parser.value(serverOption));
    if (server.scheme() != QLatin1String("unix") && server.scheme() != QLatin1String("redis")) {
        qCritical() << "The workers are processes of their own: they need a server, redis:// or "
                       "unix://";
        return 64;
    }
    if (!parser.isSet(workerOption))
        return coordinate(server);
    Worker worker(server, parser.value(modeOption) == QLatin1String("locked"),
                  parser.value(workerOption).toInt());
    return application.exec();
}
