// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick

Rectangle {
    id: button

    property string text
    property color accent: palette.windowText
    property bool checked: false

    signal clicked()

    implicitWidth: label.implicitWidth + 24
    implicitHeight: label.implicitHeight + 12
    radius: height / 2
    opacity: enabled ? 1 : 0.4
    color: checked || area.pressed ? Qt.alpha(accent, 0.25) : area.containsMouse ? Qt.alpha(accent, 0.12)
                                                                               : "transparent"
    border.width: activeFocus ? 2 : 1
    border.color: Qt.alpha(accent, activeFocus ? 1 : 0.45)
    activeFocusOnTab: true

    Accessible.role: Accessible.Button
    Accessible.name: text
    Accessible.onPressAction: clicked()

    Keys.onSpacePressed: clicked()
    Keys.onReturnPressed: clicked()

    Text {
        id: label

        anchors.centerIn: parent
        text: button.text
        color: button.palette.windowText
    }

    MouseArea {
        id: area

        anchors.fill: parent
        hoverEnabled: true
        onClicked: button.clicked()
    }
}
