// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QCoreApplication>
#include <QDebug>

int main(int argc, char **argv)
{
    QCoreApplication app(argc, argv);
    QDistLock::LockRegistry registry(QUrl(app.arguments().at(1)));
    QDistLock::DistributedLock lock(&registry, "stranger");

    QObject::connect(&lock, &QDistLock::DistributedLock::acquired, &lock, [&] {
        qInfo() << "acquired with fencing token" << lock.fencingToken();
        lock.release();
    });
    QObject::connect(&lock, &QDistLock::DistributedLock::released, &app, &QCoreApplication::quit);
    QObject::connect(&lock, &QDistLock::DistributedLock::acquireFailed, &app, [&] {
        qInfo() << lock.errorString();
        app.exit(1);
    });
    lock.acquire();
    return app.exec();
}
