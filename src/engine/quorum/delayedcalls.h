// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"

#include <QtCore/qobject.h>
#include <QtCore/qtimer.h>

#include <chrono>
#include <functional>
#include <map>

namespace QDistLock {

/// Calls functions after some time, with one timer for all of them. Thread: the one it lives in.
class DelayedCalls : public QObject
{
    Q_OBJECT
public:
    explicit DelayedCalls(QObject *parent = nullptr);

    /// \a action is called from the event loop, unless this is destroyed before; after replies that arrived in time.
    void add(std::chrono::milliseconds time, std::function<void()> action);
    /// Forgets all of them.
    void clear();

private:
    void arm();
    void runDue();

    std::multimap<Deadline, std::function<void()>> m_actions;
    QTimer m_timer;
    Deadline m_armedFor;
    bool m_isGraceGiven = false;
};

} // namespace QDistLock
