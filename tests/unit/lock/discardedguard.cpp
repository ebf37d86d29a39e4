// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Compiled only: the compiler must warn of the one place where a guard is dropped, and so the lock at once given back.

#include <QDistLock/Coroutines>

struct Task
{
    struct promise_type
    {
        Task get_return_object() { return {}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};

Task keeps(QDistLock::DistributedLock &lock)
{
    const auto guard = co_await lock.acquireAwaitable();
    Q_UNUSED(guard)
}

Task drops(QDistLock::DistributedLock &lock)
{
    co_await lock.acquireAwaitable();
}
