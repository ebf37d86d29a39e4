// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

pragma ComponentBehavior: Bound

import QtQuick

Window {
    id: window

    property string server: "memory:"
    property string lockName: "report:daily"
    property int lease: 10000

    function note(title: string, what: string) {
        log.insert(0, {
            time: Qt.formatTime(new Date(), "hh:mm:ss"),
            title: title,
            what: what
        });
        if (log.count > 100)
            log.remove(100, log.count - 100);
    }

    Component.onCompleted: console.info("ready: three clients of", lockName)

    width: 500
    height: 600
    minimumWidth: 440
    minimumHeight: 540
    visible: true
    title: qsTr("Three clients, one lock")
    color: palette.window

    FontMetrics {
        id: metrics
    }

    ListModel {
        id: log
    }

    Column {
        id: cards

        anchors {
            left: parent.left
            right: parent.right
            top: parent.top
            margins: 16
        }
        spacing: 12

        Text {
            width: parent.width
            text: qsTr("Three clients want “%1” on %2").arg(window.lockName).arg(window.server.replace(/\/\/.*@/, "//"))
            color: window.palette.windowText
            font.pixelSize: metrics.height * 1.1
            elide: Text.ElideRight
            textFormat: Text.PlainText
        }

        Repeater {
            model: [qsTr("Client A"), qsTr("Client B"), qsTr("Client C")]

            ClientCard {
                id: card

                required property string modelData

                objectName: modelData
                width: cards.width
                title: modelData
                lockName: window.lockName
                server: window.server
                lease: window.lease
                onHappened: what => window.note(modelData, what)
            }
        }
    }

    ListView {
        anchors {
            left: parent.left
            right: parent.right
            top: cards.bottom
            bottom: parent.bottom
            margins: 20
            topMargin: 16
        }
        clip: true
        model: log
        spacing: 2

        delegate: Text {
            required property string time
            required property string title
            required property string what

            width: ListView.view.width
            text: qsTr("%1  %2: %3").arg(time).arg(title).arg(what)
            color: palette.windowText
            opacity: 0.75
            elide: Text.ElideRight
            textFormat: Text.PlainText
        }
    }
}
