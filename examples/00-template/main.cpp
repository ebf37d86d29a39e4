// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A project to copy. It makes a report, unless another instance is making it at the same time. QDISTLOCK_URL is the
// Redis server, which all of them must have in common.

#include <QDistLock/DistributedLock>
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
    QDistLock::quitOnSignals(); // Ctrl+C ends the event loop, so that the lock is released
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL")) {
        qCritical("Set QDISTLOCK_URL, to redis://your-server for instance.");
        return 1;
    }

    // Your work. It may take as long as it likes, because the lock is renewed while the event loop runs.
    DistributedLock lock(u"report:nightly"_s);
    QTimer work;
    work.setSingleShot(true);
    QObject::connect(&work, &QTimer::timeout, &lock, [&lock] {
        qInfo("The report is made.");
        lock.release();
    });

    QObject::connect(&lock, &DistributedLock::acquired, &work, [&work] {
        qInfo("Nobody else is making the report.");
        work.start(1s);
    });
    // The server was away for too long, or somebody removed the lock: stop, another instance may begin.
    QObject::connect(&lock, &DistributedLock::lost, &work, [&work](DistributedLock::LossReason reason) {
        qCritical() << "The lock was lost, so another instance may make the report:" << reason;
        work.stop();
        QCoreApplication::exit(1);
    });
    QObject::connect(&lock, &DistributedLock::acquireFailed, &lock, [&lock](DistributedLock::Error error) {
        if (error == DistributedLock::BusyError) {
            qInfo("Skipped: %ls", qUtf16Printable(lock.errorString()));
            return QCoreApplication::quit();
        }
        qCritical("%ls", qUtf16Printable(lock.errorString()));
        QCoreApplication::exit(1);
    });
    QObject::connect(&lock, &DistributedLock::released, [] { QCoreApplication::quit(); });

    lock.tryAcquire(); // without waiting; acquire() waits in the queue
    return application.exec();
}
