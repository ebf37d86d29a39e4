// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Code blocks that need C++20: compiled, never run.

#include "../../examples/07-coroutines/task.h"

#include <QDistLock/Annotations>
#include <QDistLock/Coroutines>
#include <QDistLock/DistributedLock>

#include <QDebug>

using namespace QDistLock;
using namespace std::chrono_literals;

namespace {

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
