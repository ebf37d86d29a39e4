// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

//! [qml]
import QtQuick
import QtQuick.Controls
import QDistLock

Column {
    Switch {
        id: wanted
        text: "Make the daily report"
    }
    DistributedLock {
        id: lock
        name: "report:daily"
        active: wanted.checked // as long as this is true, the lock is acquired, again after a loss, too
        onAcquired: console.log("held, fencing token", lock.fencingToken)
        onLost: reason => console.warn("lost:", lock.errorString)
    }
    LockStatus {
        lock: lock
    }
}
//! [qml]
