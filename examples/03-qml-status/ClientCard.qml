// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick
import QtQuick.Layouts
import QDistLock

/// One client of the lock: its state, and buttons for what it can do.
Rectangle {
    id: card

    required property string title
    required property string lockName
    required property string server
    property int lease: 10000
    property alias keep: client.active
    readonly property alias lock: client

    signal happened(string what)

    readonly property real padding: metrics.height * 0.9

    implicitHeight: content.implicitHeight + 2 * padding
    radius: metrics.height * 0.7
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
                                        ? qsTr("lost by forced release") : qsTr("lost"))
        onAtRisk: remaining => card.happened(qsTr("at risk, %1 ms left").arg(remaining))
    }

    FontMetrics {
        id: metrics

        font: heading.font
    }

    ColumnLayout {
        id: content

        anchors {
            left: parent.left
            right: parent.right
            top: parent.top
            margins: card.padding
        }
        spacing: metrics.height * 0.7

        RowLayout {
            spacing: metrics.height * 0.7

            LockStatus {
                id: status

                Layout.fillWidth: true
                Layout.preferredHeight: implicitHeight
                lock: client
            }

            Text {
                id: heading

                Layout.alignment: Qt.AlignTop
                text: card.title
                color: Qt.alpha(card.palette.windowText, 0.7)
                font.bold: true
            }
        }

        Flow {
            Layout.fillWidth: true
            spacing: metrics.height * 0.5

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
                text: qsTr("Keep")
                accent: status.color
                checkable: true
                checked: client.active
                onClicked: client.active = !client.active
            }

            FlatButton {
                text: qsTr("Force release")
                accent: status.color
                onClicked: client.forceRelease().then(existed => {
                    card.happened(existed ? qsTr("forced the release of the lock") : qsTr("nobody held the lock"));
                }, error => card.happened(error.message))
            }
        }
    }
}
