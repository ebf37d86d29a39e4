// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The program of docs/getting-started.md that makes a nightly report. TestSnippets::nightly() runs it.

//! [nightly]
#include <QDistLock/Annotations>
#include <QDistLock/QuitOnSignals>

#include <QCoreApplication>
#include <QDebug>
#include <QTimer>

using namespace QDistLock;
using namespace std::chrono_literals;

void makeReport()
{
    qInfo("The report is made, by this instance only.");
}

void nightly()
{
    // Whoever comes first makes the report, the others do not wait. The clocks of the machines differ, and the report
    // may be short, so nobody else gets the lock for a minute. The lease must be at least as long.
    const auto options = LockOptions().withWait(0ms).withMinHold(1min).withLease(2min);
    withLock("report:nightly", options, [] { makeReport(); }).onFailed([](const LockUnavailable &failure) {
        if (failure.result().error != DistributedLock::BusyError)
            qWarning("No report: %s", failure.what()); // the server cannot be reached, for instance
    });
}

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    quitOnSignals(); // Ctrl+C releases the lock, too

    QTimer timer; // in your application, one that fires at two in the morning
    QObject::connect(&timer, &QTimer::timeout, nightly);
    timer.start(24h);
    nightly();
    return application.exec();
}
//! [nightly]
