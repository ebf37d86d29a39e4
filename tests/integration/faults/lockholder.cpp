// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Holds a lock until it is killed, and prints a line for each signal of the lock:
//   lockholder URL NAME LEASE-IN-MS

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qcoreapplication.h>

#include <cstdio>

#include <signal.h>
#include <unistd.h>

using namespace std::chrono_literals;
using QDistLock::DistributedLock;

namespace {

DistributedLock *theLock = nullptr;

void print(const QByteArray &line)
{
    std::fputs((line + '\n').constData(), stdout);
    std::fflush(stdout);
}

/// Runs when the process is continued, before any event.
void continued(int)
{
    const bool held = theLock->isHeld();
    const char *line = held ? "continued held\n" : "continued not held\n";
    [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, line, qstrlen(line));
}

} // namespace

int main(int argc, char *argv[])
{
    QCoreApplication application(argc, argv);
    const QStringList arguments = application.arguments();
    if (arguments.size() != 4)
        return 64;

    QDistLock::LockRegistry registry(QUrl(arguments.at(1)));
    DistributedLock lock(&registry, arguments.at(2));
    lock.setOptions(QDistLock::LockOptions()
                            .withLease(std::chrono::milliseconds(arguments.at(3).toInt()))
                            .withRetryInterval(20ms));
    theLock = &lock;
    ::signal(SIGCONT, continued);

    QObject::connect(&lock, &DistributedLock::acquired, &lock,
                     [&] { print("acquired " + QByteArray::number(lock.fencingToken())); });
    QObject::connect(&lock, &DistributedLock::acquireFailed, &lock,
                     [&] { print("failed " + lock.errorString().toUtf8()); });
    QObject::connect(&lock, &DistributedLock::lost, &lock, [&](DistributedLock::LossReason reason) {
        print("lost " + QByteArray::number(int(reason)) + (lock.isHeld() ? " held" : " not held"));
    });
    lock.acquire();
    return application.exec();
}
