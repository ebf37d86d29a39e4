// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick

Rectangle {
    id: button

    property string text
    property color accent: palette.windowText
    /// Shows a check box, whose place is reserved whether it is checked or not.
    property bool checkable: false
    property bool checked: false

    signal clicked()

    readonly property color foreground: Qt.alpha(palette.active.windowText, enabled ? 1 : 0.6)

    implicitWidth: content.implicitWidth + metrics.height * 1.4
    implicitHeight: content.implicitHeight + metrics.height * 0.6
    radius: height / 2
    color: area.pressed ? Qt.alpha(accent, 0.25) : area.containsMouse ? Qt.alpha(accent, 0.12) : "transparent"
    border.width: activeFocus ? 2 : 1
    border.color: Qt.alpha(enabled ? accent : foreground, activeFocus ? 1 : enabled ? 0.5 : 0.2)
    activeFocusOnTab: true

    Accessible.role: checkable ? Accessible.CheckBox : Accessible.Button
    Accessible.name: text
    Accessible.checkable: checkable
    Accessible.checked: checked
    Accessible.onPressAction: clicked()
    Accessible.onToggleAction: clicked()

    Keys.onSpacePressed: clicked()
    Keys.onReturnPressed: clicked()

    FontMetrics {
        id: metrics

        font: label.font
    }

    Row {
        id: content

        anchors.centerIn: parent
        spacing: metrics.height * 0.4

        Rectangle {
            anchors.verticalCenter: parent.verticalCenter
            width: Math.round(metrics.height * 0.75)
            height: width
            radius: width / 5
            visible: button.checkable
            color: button.checked ? button.foreground : "transparent"
            border.color: button.foreground

            Text {
                anchors.centerIn: parent
                visible: button.checked
                text: "✓"
                color: button.palette.base
                font.pixelSize: parent.height * 0.9
                font.bold: true
            }
        }

        Text {
            id: label

            text: button.text
            color: button.foreground
        }
    }

    MouseArea {
        id: area

        anchors.fill: parent
        hoverEnabled: true
        onClicked: button.clicked()
    }
}
