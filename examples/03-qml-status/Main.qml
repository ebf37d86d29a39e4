// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

pragma ComponentBehavior: Bound

import QtQuick
import QtQuick.Layouts

Window {
    id: window

    property string server: "memory:"
    property string lockName: "report:daily"
    property int lease: 10000

    readonly property string serverText: server.replace(/\/\/.*@/, "//") // without user and password
    readonly property real margin: metrics.height

    function note(title: string, what: string) {
        log.insert(0, {
            time: Qt.formatTime(new Date(), "hh:mm:ss"),
            title: title,
            what: what
        });
        if (log.count > 100)
            log.remove(100, log.count - 100);
    }

    Component.onCompleted: console.info(`ready: three clients of ${lockName} on ${serverText}`)

    // All sizes follow the font.
    width: metrics.height * 30
    height: content.implicitHeight + 2 * margin + metrics.height * 4
    minimumWidth: metrics.height * 22
    minimumHeight: content.implicitHeight + 2 * margin
    visible: true
    title: qsTr("Three clients, one lock")
    color: palette.window

    FontMetrics {
        id: metrics
    }

    ListModel {
        id: log
    }

    ColumnLayout {
        id: content

        anchors {
            fill: parent
            margins: window.margin
        }
        spacing: metrics.height * 0.7

        Text {
            Layout.fillWidth: true
            text: qsTr("Three clients want “%1” on %2").arg(window.lockName).arg(window.serverText)
            color: window.palette.windowText
            font.bold: true
            wrapMode: Text.Wrap
            textFormat: Text.PlainText
        }

        Repeater {
            model: [qsTr("Client A"), qsTr("Client B"), qsTr("Client C")]

            ClientCard {
                required property string modelData

                objectName: modelData
                Layout.fillWidth: true
                title: modelData
                lockName: window.lockName
                server: window.server
                lease: window.lease
                onHappened: what => window.note(modelData, what)
            }
        }

        ListView {
            Layout.fillWidth: true
            Layout.fillHeight: true
            implicitHeight: metrics.height * 6
            clip: true
            model: log
            spacing: metrics.height * 0.15

            delegate: Text {
                required property string time
                required property string title
                required property string what

                width: ListView.view.width
                text: qsTr("%1  %2: %3").arg(time).arg(title).arg(what)
                color: Qt.alpha(palette.windowText, 0.8)
                wrapMode: Text.Wrap
                textFormat: Text.PlainText
            }
        }
    }
}
