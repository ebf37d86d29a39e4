// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A price board: five readers show the prices again and again, and a writer changes them now and then. The readers read
// at the same time; the writer waits for those that read, and they wait for it. They could also run in separate
// processes: set QDISTLOCK_URL to a Redis server and start this program several times.

#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>
#include <QDistLock/ReadWriteLock>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QTimer>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;
using QDistLock::ReadWriteLock;

namespace {

constexpr int Readers = 5;
constexpr int Changes = 3; ///< of the prices, before the program ends

struct Board
{
    int version = 1;
    int reading = 0; ///< readers that read now
    int mostTogether = 0;
    bool isWriting = false;
};

void fail(DistributedLock *lock)
{
    qWarning().noquote() << lock->errorString();
    QCoreApplication::exit(1);
}

void read(ReadWriteLock *lock, Board *board)
{
    DistributedLock *const reading = lock->readLock();
    QObject::connect(reading, &DistributedLock::acquired, lock, [=] {
        if (board->isWriting)
            qFatal("a reader and the writer at the same time");
        board->mostTogether = std::max(board->mostTogether, ++board->reading);
        QTimer::singleShot(20ms, lock, [=] { // the time that it takes to show the prices
            --board->reading;
            reading->release();
        });
    });
    QObject::connect(reading, &DistributedLock::released, reading, &DistributedLock::acquire); // and again
    QObject::connect(reading, &DistributedLock::acquireFailed, lock, [reading] { fail(reading); });
    reading->acquire();
}

void write(ReadWriteLock *lock, Board *board)
{
    DistributedLock *const writing = lock->writeLock();
    QObject::connect(writing, &DistributedLock::acquired, lock, [=] {
        if (board->reading > 0)
            qFatal("a reader and the writer at the same time");
        board->isWriting = true;
        QTimer::singleShot(20ms, lock, [=] {
            qInfo() << "The prices have version" << ++board->version;
            board->isWriting = false;
            writing->release();
        });
    });
    QObject::connect(writing, &DistributedLock::released, lock, [=] {
        if (board->version <= Changes) {
            QTimer::singleShot(100ms, writing, &DistributedLock::acquire);
            return;
        }
        qInfo() << "Up to" << board->mostTogether << "readers read at the same time.";
        QCoreApplication::quit();
    });
    QObject::connect(writing, &DistributedLock::acquireFailed, lock, [writing] { fail(writing); });
    writing->acquire();
}

} // namespace

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals(); // Ctrl+C ends the event loop, so that the locks are released
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        LockRegistry::setDefaultServer(QUrl(u"memory:"_s)); // locks inside this process; needs no server

    Board board;
    std::vector<std::unique_ptr<ReadWriteLock>> locks; // one for each owner
    for (int i = 0; i <= Readers; ++i)
        locks.push_back(std::make_unique<ReadWriteLock>(u"prices"_s));
    for (int i = 0; i < Readers; ++i)
        read(locks[size_t(i)].get(), &board);
    write(locks.back().get(), &board);
    return application.exec();
}
