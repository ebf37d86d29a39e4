// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Acquires and releases a lock repeatedly, and prints one line for each step:
//   queueworker URL NAME LEASE-IN-MS HOLD-IN-MS TURNS

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qtimer.h>

#include <cstdio>

using namespace std::chrono_literals;
using QDistLock::DistributedLock;

namespace {

void say(const QByteArray &line)
{
    std::fputs((line + '\n').constData(), stdout);
    std::fflush(stdout);
}

} // namespace

int main(int argc, char *argv[])
{
    QCoreApplication application(argc, argv);
    const QStringList arguments = application.arguments();
    if (arguments.size() != 6)
        return 64;

    QDistLock::LockRegistry registry(QUrl(arguments.at(1)));
    DistributedLock lock(&registry, arguments.at(2));
    lock.setOptions(QDistLock::LockOptions()
                            .withLease(std::chrono::milliseconds(arguments.at(3).toInt()))
                            .withWait(QDistLock::LockOptions::Forever)
                            .withRetryInterval(20ms));
    const int hold = arguments.at(4).toInt();
    int turns = arguments.at(5).toInt();

    QObject::connect(&lock, &DistributedLock::queuePositionChanged, &lock, [&] {
        if (lock.queuePosition() >= 0)
            say("queued");
    });
    QObject::connect(&lock, &DistributedLock::acquired, &lock, [&] {
        say("acquired " + QByteArray::number(lock.fencingToken()));
        QTimer::singleShot(hold, &lock, [&lock] { lock.release(); });
    });
    QObject::connect(&lock, &DistributedLock::acquireFailed, &lock,
                     [&] { say("failed " + lock.errorString().toUtf8()); });
    QObject::connect(&lock, &DistributedLock::lost, &lock, [] { say("lost"); });
    QObject::connect(&lock, &DistributedLock::released, &lock, [&] {
        if (--turns > 0)
            lock.acquire();
        else
            application.quit();
    });
    lock.acquire();
    return application.exec();
}
