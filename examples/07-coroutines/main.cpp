// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Five clerks book into one ledger, each a coroutine: reads like a mutex, blocks nobody. A sixth is
// in a hurry and does not wait; a seventh is sent home while it waits.

#include "task.h"

#include <QDistLock/Coroutines>
#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCoreApplication>
#include <QtCore/QDebug>
#include <QtCore/QTimer>

#include <optional>
#include <vector>

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;
using namespace std::chrono_literals;

struct Ledger
{
    int balance = 0;
    int bookings = 0;
};

/// `co_await Pause(20ms)`: others run meanwhile.
class Pause
{
public:
    explicit Pause(std::chrono::milliseconds time)
    {
        m_timer.setSingleShot(true);
        m_timer.setInterval(time);
    }
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> coroutine)
    {
        QObject::connect(&m_timer, &QTimer::timeout, [coroutine] { coroutine.resume(); });
        m_timer.start();
    }
    void await_resume() const {}

private:
    QTimer m_timer;
};

Task clerk(int number, Ledger *ledger)
{
    // Its own object: the object is the owner, so two coroutines with one object would both be let in.
    DistributedLock lock(QStringLiteral("ledger"));
    auto guard = co_await lock.acquireAwaitable();
    if (!guard) {
        qWarning() << "Clerk" << number << "got no lock:" << guard.result().errorString;
        co_return QCoreApplication::exit(1);
    }
    const int before = ledger->balance;
    co_await Pause(20ms); // without the lock, another clerk would book here and its entry be lost
    ledger->balance = before + 100;
    qInfo() << "Clerk" << number << "booked, balance" << ledger->balance;
    // The guard gives the lock back when it goes; who wants to know of the end awaits it.
    co_await guard.release();
    if (++ledger->bookings == 5)
        QCoreApplication::exit(ledger->balance == 500 ? 0 : 1);
}

Task hurried()
{
    DistributedLock lock(QStringLiteral("ledger"));
    const auto guard = co_await lock.tryAcquireAwaitable(); // one look
    if (!guard)
        qInfo() << "The hurried clerk goes:" << guard.result().error;
}

Task sentHome()
{
    DistributedLock lock(QStringLiteral("ledger"));
    const auto guard = co_await lock.acquireAwaitable();
    qFatal("It was sent home, and works all the same");
}

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        LockRegistry::setDefaultServer(QUrl(QStringLiteral("memory:")));

    Ledger ledger;
    std::vector<Task> clerks;
    clerks.push_back(clerk(1, &ledger));
    std::optional<Task> waiting = sentHome();
    for (int number = 2; number <= 5; ++number)
        clerks.push_back(clerk(number, &ledger));
    clerks.push_back(hurried());
    // Destroying a coroutine that waits withdraws it from the queue.
    QTimer::singleShot(0, [&waiting] { waiting.reset(); });

    return application.exec();
}
