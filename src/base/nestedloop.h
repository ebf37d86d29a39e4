// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qabstracteventdispatcher.h>

namespace QDistLock {

/*!
    Makes a nested event loop of this thread process all posted events in its next turn.

    With Qt's dispatcher for GLib, such a loop does not see those that were posted before the event from which it runs,
    as a write of a connection, until something else is posted or wakes it. Costs a turn of the loop.
*/
inline void wakeNestedLoop()
{
    if (QAbstractEventDispatcher *const dispatcher = QAbstractEventDispatcher::instance())
        dispatcher->wakeUp();
}

} // namespace QDistLock
