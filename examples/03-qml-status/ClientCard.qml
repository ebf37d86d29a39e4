// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick
import QDistLock

/// One client of the lock: its state, and what can be done with it.
Rectangle {
    id: card

    required property string title
    required property string lockName
    required property string server
    property int lease: 10000
    property alias keep: client.active
    readonly property alias lock: client

    signal happened(string what)

    implicitHeight: content.implicitHeight + 32
    radius: 12
    color: palette.base
    border.width: status.phase === "held" || status.phase === "atRisk" ? 2 : 1
    border.color: border.width > 1 ? status.color : Qt.alpha(palette.windowText, 0.15)

    DistributedLock {
        id: client

        name: card.lockName
        server: card.server
        lease: card.lease

        onAcquired: card.happened(qsTr("acquired, fencing token %1").arg(`${fencingToken}`))
        onReleased: card.happened(qsTr("released"))
        onLost: reason => card.happened(reason === DistributedLock.ForcedRelease
                                        ? qsTr("lost by force") : qsTr("lost"))
        onAtRisk: remaining => card.happened(qsTr("at risk, %1 ms left").arg(remaining))
    }

    Column {
        id: content

        anchors {
            left: parent.left
            right: parent.right
            top: parent.top
            margins: 16
        }
        spacing: 12

        Item {
            width: parent.width
            height: Math.max(status.implicitHeight, heading.implicitHeight)

            LockStatus {
                id: status

                anchors.left: parent.left
                anchors.right: heading.left
                anchors.rightMargin: 12
                anchors.verticalCenter: parent.verticalCenter
                lock: client
            }

            Text {
                id: heading

                anchors.right: parent.right
                anchors.top: parent.top
                text: card.title
                color: card.palette.windowText
                opacity: 0.6
                font.bold: true
            }
        }

        Row {
            spacing: 8

            FlatButton {
                text: qsTr("Acquire")
                accent: status.color
                onClicked: client.acquire().then(result => {
                    if (!result.acquired)
                        card.happened(result.errorString);
                })
            }

            FlatButton {
                text: qsTr("Release")
                accent: status.color
                enabled: client.state !== DistributedLock.Unlocked
                onClicked: client.release()
            }

            FlatButton {
                text: checked ? qsTr("Keep ✓") : qsTr("Keep")
                accent: status.color
                checked: client.active
                onClicked: client.active = !client.active
            }

            FlatButton {
                text: qsTr("Force release")
                accent: status.color
                onClicked: client.forceRelease().then(existed => {
                    card.happened(existed ? qsTr("took the lock away by force") : qsTr("nobody had it"));
                }, error => card.happened(error.message))
            }
        }
    }
}
