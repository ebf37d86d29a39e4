// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/postedcall.h"

#include <QDistLock/lockobserver.h>

#include <QtCore/qobject.h>

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

namespace QDistLock {

/*!
    The events of one thread that observers have not heard of yet.

    They are queued, because locks change inside loops over locks and in destructors, where the application must not be
    called.
*/
class LockEvents : public QObject
{
public:
    using Function = void (LockObserver::*)(const LockEvent &event);
    using Observers = std::vector<std::shared_ptr<LockObserver>>;

    /// Whether there are observers; otherwise nobody needs to make an event. Thread-safe.
    static bool areObserved() { return s_areObserved.load(std::memory_order_relaxed); }
    /// The event loop of this thread calls \a function of all present observers.
    static void report(Function function, const LockEvent &event);

    ~LockEvents() override;

private:
    friend class LockObserver;
    struct Pending
    {
        Function function;
        LockEvent event;
        std::shared_ptr<const Observers> observers; ///< when it happened
    };

    LockEvents() = default;
    void deliver();

    static std::atomic<bool> s_areObserved;
    std::deque<Pending> m_pending;
    PostedCall m_postedDelivery{this, [this] { deliver(); }};
};

} // namespace QDistLock
