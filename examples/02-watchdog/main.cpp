// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Two jobs that take longer than the lease of their lock. During the first, the watchdog renews the lock. During the
// second, the server stops replying: the job pauses when the lock is at risk, and stops when it is lost.
//
// The program needs a Redis server, QDISTLOCK_URL or redis://127.0.0.1:6379, and pauses it for three seconds.

#include "outage.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QTimer>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::DistributedLock;

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();

    const QUrl server(qEnvironmentVariable("QDISTLOCK_URL", u"redis://127.0.0.1:6379"_s));
    if (server.scheme() != "redis"_L1 && server.scheme() != "unix"_L1) {
        qCritical() << "This example pauses its server. Set QDISTLOCK_URL to redis://host:port or unix:///path.";
        return 64;
    }
    QDistLock::LockRegistry registry(server);
    DistributedLock lock(&registry, u"job:thumbnails"_s);
    lock.setLease(1500ms); // short, for this example; the default of 30 s suits most jobs

    constexpr int steps = 30;
    int job = 1;
    int step = 0;
    int renewals = 0;
    bool wasAtRisk = false;
    QTimer work;
    work.setInterval(100ms);

    QObject::connect(&lock, &DistributedLock::acquired, [&] {
        qInfo("Job %d begins: %d steps in 3 s, lease %d ms", job, steps, int(lock.lease().count()));
        step = 0;
        work.start();
    });

    QObject::connect(&work, &QTimer::timeout, [&] {
        if (!lock.isHeld()) // isHeld() reads the clock: it is right even before lost() is emitted
            return;
        ++step;
        if (job == 2 && step == 10) {
            qInfo("  step %d: the server stops replying", step);
            pauseServer(server, 3s);
        }
        if (step == steps) {
            work.stop();
            lock.release();
        }
    });

    QObject::connect(&lock, &DistributedLock::renewed, [&] {
        ++renewals;
        qInfo("  step %d: renewed, %d ms left", step, int(lock.remainingTime() / 1ms));
        if (!work.isActive() && step < steps)
            work.start();
    });

    // Emitted when two thirds of the lease have passed without a renewal: the time to pause the job and save its state.
    QObject::connect(&lock, &DistributedLock::atRisk, [&](int remainingMs) {
        wasAtRisk = true;
        qInfo("  step %d: at risk, %d ms left; the job pauses", step, remainingMs);
        work.stop();
    });

    // From now on another process may hold the lock.
    QObject::connect(&lock, &DistributedLock::lost, [&](DistributedLock::LossReason reason) {
        work.stop();
        qInfo() << "Job" << job << "stops: the lock was lost," << reason;
        QCoreApplication::exit(job == 2 && wasAtRisk && reason == DistributedLock::LeaseExpired ? 0 : 1);
    });

    QObject::connect(&lock, &DistributedLock::released, [&] {
        qInfo("Job %d has finished, after %d renewals", job, renewals);
        if (job == 2) {
            qWarning() << "The server did not accept CLIENT PAUSE.";
            return QCoreApplication::exit(1);
        }
        job = 2;
        lock.acquire();
    });

    QObject::connect(&lock, &DistributedLock::acquireFailed, [&] {
        qCritical().noquote() << lock.errorString();
        QCoreApplication::exit(1);
    });

    lock.acquire();
    return application.exec();
}
