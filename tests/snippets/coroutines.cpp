// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Code blocks that need C++20: compiled, never run.

#include <QDistLock/Annotations>
#include <QDistLock/Coroutines>
#include <QDistLock/DistributedLock>

#include <QDebug>

using namespace QDistLock;
using namespace std::chrono_literals;

namespace {

/// The simplest coroutine type; applications use QCoro::Task, or their own.
struct Task
{
    struct promise_type
    {
        Task get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};

struct Ledger
{
    std::suspend_never write(qint64) { return {}; }
};

} // namespace

//! [coroutine]
Task book(Ledger &ledger)
{
    DistributedLock lock("ledger");
    auto guard = co_await lock.acquireAwaitable();
    if (!guard) {
        qWarning() << guard.result().errorString;
        co_return;
    }
    co_await ledger.write(guard.fencingToken()); // the lock is held over every co_await, until the guard ends
}
//! [coroutine]

void take()
{
    //! [designated]
    QDL_SCOPED_LOCK("stock", .lease = 1min, .wait = 2s);
    //! [designated]
    qInfo() << fencingTokenHere("stock");
}
