// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Two clients share 32 locks, which are kept by all masters of a Redis Cluster, and take and release them over and
// over. Once a second the program prints how often. Meanwhile you can move slots (redis-cli --cluster reshard), let a
// replica take over (CLUSTER FAILOVER) or stop a node.
//
// A cluster to play with, of three masters that keep their files in c1, c2 and c3:
//
//     for i in 1 2 3; do
//         mkdir -p c$i && redis-server --daemonize yes --port 700$i --dir $PWD/c$i --cluster-enabled yes
//     done
//     redis-cli --cluster create 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003 --cluster-yes
//     QDISTLOCK_URL=redis+cluster://127.0.0.1:7001 ./10-cluster
//
// The argument is the number of seconds, by default 60.

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QElapsedTimer>
#include <QtCore/QTimer>

#include <memory>
#include <utility>
#include <vector>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;

static constexpr int Names = 32;

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (qEnvironmentVariable("QDISTLOCK_URL").isEmpty())
        LockRegistry::setDefaultServer(QUrl(u"redis+cluster://127.0.0.1:7001"_s));

    int acquired = 0;
    int lost = 0;
    QString error; // the last one
    LockRegistry clients[2]{LockRegistry(LockRegistry::defaultServer()), LockRegistry(LockRegistry::defaultServer())};
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < 2 * Names; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&clients[i % 2], u"part:%1"_s.arg(i / 2)));
        DistributedLock *const lock = locks.back().get();
        lock->setOptions(QDistLock::LockOptions().withLease(20s).withWait(QDistLock::LockOptions::Forever));
        QObject::connect(lock, &DistributedLock::acquired, lock, [&acquired, lock] {
            ++acquired;
            QTimer::singleShot(10ms, lock, &DistributedLock::release); // the work
        });
        QObject::connect(lock, &DistributedLock::released, lock, &DistributedLock::acquire);
        QObject::connect(lock, &DistributedLock::lost, lock, [&lost, lock] {
            ++lost;
            QTimer::singleShot(1s, lock, &DistributedLock::acquire); // when the work has ended
        });
        QObject::connect(lock, &DistributedLock::acquireFailed, lock,
                         [lock] { QTimer::singleShot(1s, lock, &DistributedLock::acquire); });
        QObject::connect(lock, &DistributedLock::errorOccurred, lock, [&error, lock] { error = lock->errorString(); });
        lock->acquire();
    }

    QElapsedTimer clock;
    clock.start();
    QTimer second;
    QObject::connect(&second, &QTimer::timeout, &application, [&] {
        qInfo("%3lld s: acquired %d times, lost %d times", static_cast<long long>(clock.elapsed() / 1000), acquired,
              lost);
        if (!error.isEmpty())
            qInfo("       %ls", qUtf16Printable(std::exchange(error, {})));
    });
    second.start(1s);
    bool isNumber = false;
    const int seconds = application.arguments().value(1).toInt(&isNumber);
    QTimer::singleShot(std::chrono::seconds(isNumber ? seconds : 60), &application, &QCoreApplication::quit);
    const int code = application.exec();
    qInfo("Acquired %d times, lost %d times.", acquired, lost);
    return code != 0 ? code : acquired == 0 || lost > 0 ? 1 : 0;
}
