// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

//! [monitor-qml]
pragma ComponentBehavior: Bound

import QtQuick
import QtQuick.Controls
import QDistLock

Column {
    TextField {
        id: search
    }
    LockMonitorModel {
        id: locks
        server: "redis://db1"
    }
    LockMonitorFilter {
        id: shown
        sourceModel: locks
        filterText: search.text
        sortRole: LockMonitorModel.Status // what needs attention comes first
        firstVisible: view.visibleArea.yPosition * view.count // what is on the screen is read most often
        lastVisible: (view.visibleArea.yPosition + view.visibleArea.heightRatio) * view.count
    }
    ListView {
        id: view
        width: 600
        height: 400
        model: shown
        delegate: Label {
            required property string name
            required property string holder
            required property double deadline
            text: `${name}: ${holder}` + (deadline < 0 ? "" : `, ${Math.ceil((deadline - locks.now) / 1000)} s`)
        }
    }
    Label {
        visible: locks.count === 0 && locks.complete && locks.problems.length === 0
        text: "No locks"
    }
    Repeater {
        model: locks.problems // sentences: what is missing, and why
        delegate: Label {
            required property string modelData
            text: modelData
        }
    }
}
//! [monitor-qml]
