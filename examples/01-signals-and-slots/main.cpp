// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Alice and Bob want the same lock; Bob waits until Alice releases it. Here they share a process, but they could as
// well run in two processes or on two machines: set QDISTLOCK_URL to a Redis server and start this program several
// times.

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QTimer>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals(); // Ctrl+C ends the event loop, so that the locks are released
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        LockRegistry::setDefaultServer(QUrl(u"memory:"_s)); // locks inside this process; needs no server

    DistributedLock alice(u"report:daily"_s);
    DistributedLock bob(u"report:daily"_s);

    QObject::connect(&alice, &DistributedLock::acquired, [&] {
        qInfo() << "Alice: acquired, fencing token" << alice.fencingToken();
        bob.tryAcquire(); // a single attempt, without waiting
        QTimer::singleShot(300ms, &alice, [&alice] {
            qInfo() << "Alice: work done, releasing";
            alice.release();
        });
    });
    QObject::connect(&alice, &DistributedLock::acquireFailed, [&] {
        qWarning().noquote() << "Alice:" << alice.errorString();
        QCoreApplication::exit(1);
    });

    QObject::connect(&bob, &DistributedLock::acquireFailed, [&](DistributedLock::Error error) {
        qInfo().noquote() << "Bob:" << bob.errorString();
        if (error != DistributedLock::BusyError)
            return QCoreApplication::exit(1);
        qInfo() << "Bob: waiting";
        bob.acquire(); // waits in the queue, for 10 s at most
    });
    QObject::connect(&bob, &DistributedLock::acquired, [&] {
        qInfo() << "Bob: acquired, fencing token" << bob.fencingToken();
        bob.release();
    });
    QObject::connect(&bob, &DistributedLock::released, [] {
        qInfo() << "Bob: released";
        QCoreApplication::quit();
    });

    alice.acquire();
    return application.exec();
}
