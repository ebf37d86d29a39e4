// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A lock is held while its Redis master is killed and the Sentinels make a replica the new master. The program prints
// what happens, with the seconds since the lock was requested.
//
// It starts its own servers, for which it needs the program redis-server; another one, valkey-server for example, may
// be given as the argument. Nothing of them remains.

#include "servers.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QElapsedTimer>
#include <QtCore/QTimer>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;

/// Returns the exit status, when the lock was released or lost.
static int holdLock(Servers &servers)
{
    QElapsedTimer clock;
    const auto print = [&clock](const QString &what) {
        qInfo("%6.3f s  %ls", double(clock.isValid() ? clock.elapsed() : 0) / 1000, qUtf16Printable(what));
    };

    LockRegistry registry(servers.url());
    DistributedLock lock(&registry, u"report:daily"_s);
    // The lease must be longer than a fail-over: 1.5 × (the Sentinels' down-after-milliseconds + about 3 s).
    // With minReplicas the lock is acquired, and renewed, only when a replica has it, too. The Sentinels prefer the
    // replica that has received most, so the new master knows the lock.
    lock.setOptions(QDistLock::LockOptions().withLease(20s).withMinReplicas(1));

    // Another client, which must not get the lock.
    LockRegistry otherRegistry(servers.url());
    DistributedLock other(&otherRegistry, u"report:daily"_s);

    qint64 token = 0;
    qint64 killedAt = 0; // until the lock was renewed after that
    QTimer limit;
    limit.setSingleShot(true);

    QObject::connect(&servers, &Servers::ready, &lock, [&] {
        print(u"A master (port %1), two replicas and three Sentinels are running."_s.arg(servers.masterPort()));
        clock.start();
        limit.start(25s);
        lock.acquire();
    });

    QObject::connect(&lock, &DistributedLock::acquired, [&] {
        QTimer::singleShot(1s, &lock, [&] {
            killedAt = clock.elapsed();
            print(u"The master is killed."_s);
            servers.killMaster();
        });
        token = lock.fencingToken();
        print(u"Acquired: fencing token %1, a replica has the lock, the lease is %2 ms."_s.arg(token).arg(
                lock.lease().count()));
    });

    QObject::connect(&lock, &DistributedLock::renewed, [&] {
        if (killedAt == 0)
            return;
        print(u"Renewed at the new master, %1 ms after the old one was killed."_s.arg(clock.elapsed() - killedAt));
        killedAt = 0;
        other.tryAcquire();
    });

    QObject::connect(&servers, &Servers::switched, &lock, [&](quint16 port) {
        print(u"+switch-master: the Sentinels have made the server at port %1 the master."_s.arg(port));
    });

    QObject::connect(&lock, &DistributedLock::errorOccurred,
                     [&] { print(u"Reported meanwhile: %1"_s.arg(lock.errorString())); });

    QObject::connect(&lock, &DistributedLock::atRisk, [&](int remainingMs) {
        print(u"At risk: no renewal was confirmed, %1 ms are left."_s.arg(remainingMs));
    });

    QObject::connect(&other, &DistributedLock::acquireFailed, [&] {
        print(u"Another client does not get it: %1"_s.arg(other.errorString()));
        if (lock.isHeld() && lock.fencingToken() == token)
            print(u"Still held, with the same fencing token %1. Releasing."_s.arg(token));
        lock.release();
    });

    QObject::connect(&other, &DistributedLock::acquired, [&] {
        print(u"Another client has got it!"_s);
        QCoreApplication::exit(1);
    });

    QObject::connect(&lock, &DistributedLock::released, [&] {
        print(u"Released."_s);
        QCoreApplication::exit(0);
    });

    QObject::connect(&lock, &DistributedLock::lost, [&](DistributedLock::LossReason reason) {
        print(u"Lost!"_s);
        qCritical() << reason << lock.errorString();
        QCoreApplication::exit(1);
    });

    QObject::connect(&lock, &DistributedLock::acquireFailed, [&] {
        qCritical().noquote() << lock.errorString();
        QCoreApplication::exit(1);
    });

    QObject::connect(&servers, &Servers::failed, &lock, [](const QString &why) {
        qCritical().noquote() << why;
        QCoreApplication::exit(69);
    });

    QObject::connect(&limit, &QTimer::timeout, [] {
        qCritical("The fail-over took too long.");
        QCoreApplication::exit(1);
    });

    servers.start();
    return QCoreApplication::exec();
}

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();

    Servers servers(application.arguments().value(1, u"redis-server"_s));
    const int code = holdLock(servers);
    QObject::connect(&servers, &Servers::stopped, &application, &QCoreApplication::quit);
    servers.stop();
    application.exec();
    return code;
}
