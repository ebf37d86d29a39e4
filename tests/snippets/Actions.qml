// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// LockedAction and promises, in docs/qml.md.

import QtQuick
import QtQuick.Controls
import QDistLock

Column {
    QtObject {
        id: backend
        function build(): int { return 0 }
        function read() {}
        function transfer() {}
    }
    Switch { id: editing }
    Switch { id: transferring }
//! [action]
    Button {
        action: LockedAction {
            text: "Build the report"
            name: "report:daily"
            whenBusy: LockedAction.Skip
            work: token => backend.build() // may return a promise: the lock is held until that is settled
            onFinished: result => console.log("built", result)
            onRefused: (error, text) => console.warn(text)
            onLost: reason => console.warn("lost while it ran")
        }
    }
//! [action]
//! [promise]
    DistributedLock {
        id: stock
        name: "stock"
        Component.onCompleted: tryAcquire().then(result => {
            if (!result.acquired)
                console.warn(result.errorString)
            release()
        })
    }
//! [promise]
//! [several]
    ReadWriteLock {
        id: prices
        name: "prices"
        read.active: !editing.checked // any number of windows read at the same time, and nobody writes
        read.onAcquired: backend.read()
        write.active: editing.checked // this one alone reads and writes
        write.onAcquired: backend.read() // others may have written since the last time
    }
    MultiLock {
        id: accounts
        names: ["account:7", "account:12"]
        active: transferring.checked // both, or none of them
        onAcquired: backend.transfer()
        onLost: (reason, name) => console.warn("lost", name + ":", accounts.errorString)
    }
    LockStatus {
        lock: prices // shows whichever of its two locks is in use
    }
    LockStatus {
        lock: accounts
    }
//! [several]
}
