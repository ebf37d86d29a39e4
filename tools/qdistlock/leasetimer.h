// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qsocketnotifier.h>
#include <QtCore/qtimer.h>

#include <chrono>
#include <memory>

namespace Cli {

/// A moment on the clock of leases, which keeps running while the machine is suspended (on Linux).
using Moment = std::chrono::nanoseconds;
constexpr Moment Never = Moment::max();
/// Async-signal-safe.
Moment presentMoment();

/*!
    A single-shot timer for a moment on that clock. Unlike QTimer, it fires at once when a machine that was suspended
    meanwhile resumes, and it is not rounded to milliseconds.
*/
class LeaseTimer : public QObject
{
    Q_OBJECT

public:
    LeaseTimer();
    ~LeaseTimer() override;

    /// Never: stops it.
    void start(Moment moment);
    void stop() { start(Never); }
    Moment moment() const { return m_moment; }

    /// For a process that polls: opens such a timer, as a file descriptor that becomes readable. -1 where the system
    /// has none.
    static int open();
    /// Async-signal-safe.
    static void set(int descriptor, Moment moment);

Q_SIGNALS:
    void timeout();

private:
    void fire();

    Moment m_moment = Never;
    int m_descriptor = -1;
    std::unique_ptr<QSocketNotifier> m_notifier;
    QTimer m_fallback;
};

} // namespace Cli
