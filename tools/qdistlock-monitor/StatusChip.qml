// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick
import QtQuick.Controls
import QDistLock
import "words.js" as Words

/// A button that shows how many locks have a status, and shows only these while it is pressed.
Button {
    id: chip

    required property int status
    required property LockMonitorModel locks
    required property real unit
    required property bool dark

    checkable: true
    text: Words.fill(qsTr("%1 %2"), Words.title(status), ofStatus.count)
    visible: checked || ofStatus.count > 0
    leftPadding: unit * 0.6
    rightPadding: unit * 0.6
    font.bold: checked
    palette.buttonText: Words.color(status, dark)

    Accessible.name: Words.fill(qsTr("Only %1: %2"), Words.title(status), ofStatus.count)
    Accessible.description: Words.explanation(status)
    ToolTip.visible: hovered
    ToolTip.delay: 600
    ToolTip.text: Words.explanation(status)

    LockMonitorFilter {
        id: ofStatus

        sourceModel: chip.locks
        statuses: [chip.status]
    }
}
