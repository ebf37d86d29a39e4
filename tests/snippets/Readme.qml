// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The QML of README.md.

import QtQuick
import QtQuick.Controls
import QDistLock

Column {
    Switch {
        id: wanted
    }
//! [forms]
    DistributedLock {
        id: lock
        name: "report:daily"
        active: wanted.checked
    }
    LockStatus {
        lock: lock
    }
//! [forms]
}
