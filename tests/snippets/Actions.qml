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
    }
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
}
