// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Two owners want the same lock. They would do the same in two processes or on two machines;
// set QDISTLOCK_URL to a server and start this program several times to see that.

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
        LockRegistry::setDefaultServer(
                QUrl(QStringLiteral("memory:"))); // nothing to install for a first look

    DistributedLock alice(QStringLiteral("report:daily"));
    DistributedLock bob(QStringLiteral("report:daily"));
    qint64 tokenOfAlice = 0;

    QObject::connect(&alice, &DistributedLock::acquired, [&] {
        tokenOfAlice = alice.fencingToken();
        qInfo() << "Alice has the lock, fencing token" << tokenOfAlice;
        bob.tryAcquire(); // one look, no waiting
    });

    QObject::connect(&bob, &DistributedLock::acquireFailed, [&](DistributedLock::Error error) {
        qInfo() << "Bob:" << error << bob.errorString();
        if (error != DistributedLock::BusyError)
            return QCoreApplication::exit(1);
        qInfo() << "Bob waits for his turn";
        bob.acquire();
        QTimer::singleShot(300ms, &alice, &DistributedLock::release); // Alice's work takes so long
    });

    QObject::connect(&alice, &DistributedLock::released,
                     [] { qInfo() << "Alice has given it back"; });

    QObject::connect(&bob, &DistributedLock::acquired, [&] {
        qInfo() << "Bob has the lock, fencing token" << bob.fencingToken();
        if (bob.fencingToken() <= tokenOfAlice)
            return QCoreApplication::exit(1);
        bob.release();
    });

    QObject::connect(&bob, &DistributedLock::released, [] {
        qInfo() << "Bob has given it back";
        QCoreApplication::quit();
    });

    QObject::connect(&alice, &DistributedLock::acquireFailed, [&](DistributedLock::Error error) {
        qWarning() << "Alice:" << error << alice.errorString();
        QCoreApplication::exit(1);
    });

    alice.acquire();
    return application.exec();
}
