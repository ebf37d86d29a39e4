// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A job that takes longer than the lease. The watchdog renews the lock for as long as it is held;
// if it cannot, the job hears of it in time and stops. The first job runs to its end, and from the
// second the lock is taken away, as an operator would do it.

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QTimer>

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;
using namespace std::chrono_literals;

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        LockRegistry::setDefaultServer(QUrl(QStringLiteral("memory:")));

    DistributedLock lock(QStringLiteral("job:thumbnails"));
    lock.setLease(600ms); // short, to see something; the default of 30 s suits most jobs

    int job = 1;
    int step = 0;
    int renewals = 0;
    QTimer work;
    work.setInterval(100ms);

    QObject::connect(&lock, &DistributedLock::acquired, [&] {
        qInfo() << "Job" << job << "begins, lease" << lock.lease() << "ms";
        step = 0;
        work.start();
    });

    // The job: twenty steps, two seconds, more than three leases.
    QObject::connect(&work, &QTimer::timeout, [&] {
        if (!lock.isHeld()) // reads the clock, so it is right even where a signal is still under
                            // way
            return;
        ++step;
        if (job == 2 && step == 5)
            lock.registry()->forceRelease(lock.name());
        if (step == 20) {
            work.stop();
            lock.release();
        }
    });

    QObject::connect(&lock, &DistributedLock::renewed, [&] {
        qInfo() << "  renewed," << lock.remainingTime() << "ms left, step" << step;
        ++renewals;
    });

    // Two thirds of the lease are over without an answer from the server: a good moment to come to
    // a state in which the job can be left.
    QObject::connect(&lock, &DistributedLock::atRisk, [](int remainingMs) {
        qWarning() << "  the server does not answer; the lock is ours for another" << remainingMs
                   << "ms";
    });

    QObject::connect(&lock, &DistributedLock::lost, [&](DistributedLock::LossReason reason) {
        work.stop(); // somebody else may hold the lock from here on
        qInfo() << "Job" << job << "stopped at step" << step
                << "because the lock was lost:" << reason;
        QCoreApplication::exit(job == 2 && reason == DistributedLock::ForcedRelease ? 0 : 1);
    });

    QObject::connect(&lock, &DistributedLock::released, [&] {
        qInfo() << "Job" << job << "is done, the lock was renewed" << renewals << "times";
        if (renewals < 3)
            return QCoreApplication::exit(1);
        job = 2;
        lock.acquire();
    });

    QObject::connect(&lock, &DistributedLock::acquireFailed, [&](DistributedLock::Error error) {
        qWarning() << error << lock.errorString();
        QCoreApplication::exit(1);
    });

    lock.acquire();
    return application.exec();
}
