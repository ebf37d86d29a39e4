// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Five clerks, each a coroutine, book into one ledger, one after the other. The code reads like code with a mutex, but
// never blocks the event loop. A sixth clerk tries once and does not wait; a seventh is cancelled while it waits.

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

using namespace Qt::StringLiterals;

using QDistLock::DistributedLock;
using QDistLock::LockRegistry;
using namespace std::chrono_literals;

struct Ledger
{
    int balance = 0;
    int bookings = 0;
};

/// `co_await Pause(20ms)` continues 20 ms later; the event loop runs meanwhile.
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
    // Each coroutine needs its own DistributedLock: two that share one object would both hold the lock.
    DistributedLock lock(u"ledger"_s);
    auto guard = co_await lock.acquireAwaitable();
    if (!guard) {
        qWarning().noquote() << "Clerk" << number << "failed:" << guard.result().errorString;
        co_return QCoreApplication::exit(1);
    }
    const int before = ledger->balance;
    co_await Pause(20ms); // without the lock, another clerk's entry that is made meanwhile would be lost
    ledger->balance = before + 100;
    qInfo() << "Clerk" << number << "booked, balance" << ledger->balance;
    // The guard's destructor releases the lock, too; release() also allows waiting for the server's confirmation.
    co_await guard.release();
    if (++ledger->bookings == 5)
        QCoreApplication::exit(ledger->balance == 500 ? 0 : 1);
}

Task impatientClerk()
{
    DistributedLock lock(u"ledger"_s);
    lock.setWaitTime(0ms); // a single attempt
    const auto guard = co_await lock.acquireAwaitable();
    if (!guard)
        qInfo() << "The impatient clerk leaves:" << guard.result().error;
}

Task cancelledClerk()
{
    DistributedLock lock(u"ledger"_s);
    const auto guard = co_await lock.acquireAwaitable();
    qFatal("The cancelled clerk got the lock");
}

int main(int argc, char **argv)
{
    QCoreApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        LockRegistry::setDefaultServer(QUrl(u"memory:"_s));

    Ledger ledger;
    std::vector<Task> clerks;
    clerks.push_back(clerk(1, &ledger));
    std::optional<Task> cancelled = cancelledClerk();
    for (int number = 2; number <= 5; ++number)
        clerks.push_back(clerk(number, &ledger));
    clerks.push_back(impatientClerk());
    // Destroying a waiting coroutine cancels its acquire.
    QTimer::singleShot(0, [&cancelled] { cancelled.reset(); });

    return application.exec();
}
