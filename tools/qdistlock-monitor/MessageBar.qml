// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick
import QtQuick.Controls

/// A sentence across the window.
Rectangle {
    id: bar

    required property string text
    required property real unit
    required property bool dark
    property bool closable: false

    signal closed()

    implicitHeight: Math.max(sentence.implicitHeight, close.visible ? close.implicitHeight : 0) + unit * 0.6
    color: dark ? "#4a3510" : "#fff2cc"
    Accessible.role: Accessible.AlertMessage
    Accessible.name: text

    Label {
        id: sentence

        anchors {
            left: parent.left
            right: close.visible ? close.left : parent.right
            verticalCenter: parent.verticalCenter
            margins: bar.unit * 0.6
        }
        text: bar.text
        color: bar.dark ? "#ffe3a6" : "#5a3e00"
        wrapMode: Text.Wrap
        textFormat: Text.PlainText
        maximumLineCount: 4
        elide: Text.ElideRight
        Accessible.ignored: true
    }
    Button {
        id: close

        objectName: "close"
        anchors {
            right: parent.right
            rightMargin: bar.unit * 0.6
            verticalCenter: parent.verticalCenter
        }
        visible: bar.closable
        text: qsTr("Close")
        onClicked: bar.closed()
    }
}
