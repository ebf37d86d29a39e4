// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

pragma ComponentBehavior: Bound

import QtQuick
import QtQuick.Controls
import QDistLock
import "words.js" as Words

/// The rows of a filter, with a header that sorts them. One row is selected, by the name of its lock.
Item {
    id: table

    required property LockMonitorModel locks
    required property LockMonitorFilter rows
    required property string selected
    required property real unit
    required property bool dark
    required property string emptyText

    readonly property int firstVisible: Math.floor(view.visibleArea.yPosition * view.count)
    readonly property int lastVisible: Math.ceil((view.visibleArea.yPosition + view.visibleArea.heightRatio) * view.count)
    readonly property real rowHeight: unit * 1.9
    readonly property real rowWidth: width - unit ///< beside the scroll bar
    readonly property bool isWide: rowWidth > unit * 42 || rows.sortRole === LockMonitorModel.WaitP95
    readonly property var columns: [
        { title: qsTr("Lock"), role: LockMonitorModel.Name },
        { title: qsTr("Status"), role: LockMonitorModel.Status },
        { title: qsTr("Holder"), role: LockMonitorModel.Holder },
        { title: qsTr("Time left"), role: LockMonitorModel.Deadline },
        { title: qsTr("Waiting"), role: LockMonitorModel.QueueLength },
        { title: qsTr("Wait p95"), role: LockMonitorModel.WaitP95 }
    ]

    signal picked(name: string)

    function takeFocus() {
        area.forceActiveFocus();
    }

    function columnWidth(column: int): real {
        const fixed = [0, widest.advanceWidth + unit * 1.2, 0, unit * 6.6, unit * 6, isWide ? unit * 7.2 : 0];
        if (column !== 0 && column !== 2)
            return fixed[column];
        return Math.max(0, rowWidth - fixed[1] - fixed[3] - fixed[4] - fixed[5]) / 2;
    }

    function select(row: int) {
        if (rows.count === 0)
            return;
        row = Math.max(0, Math.min(row, rows.count - 1));
        view.positionViewAtIndex(row, ListView.Contain);
        picked(rows.data(rows.index(row, 0), LockMonitorModel.Name));
    }

    function isLongestFirst(role: int): bool {
        return role === LockMonitorModel.QueueLength || role === LockMonitorModel.WaitP95;
    }

    function sortBy(role: int) {
        if (rows.sortRole === role) {
            rows.sortOrder = rows.sortOrder === Qt.AscendingOrder ? Qt.DescendingOrder : Qt.AscendingOrder;
        } else {
            rows.sortRole = role;
            rows.sortOrder = isLongestFirst(role) ? Qt.DescendingOrder : Qt.AscendingOrder;
        }
        const row = rows.rowOf(selected);
        if (row >= 0)
            view.positionViewAtIndex(row, ListView.Contain);
    }

    TextMetrics {
        id: widest

        font.bold: true
        text: Words.title(LockMonitorModel.Disconnected)
    }

    Row {
        id: titles

        Repeater {
            model: table.columns

            AbstractButton {
                id: title

                required property int index
                required property var modelData

                readonly property bool sorts: table.rows.sortRole === modelData.role
                readonly property bool isDescending: table.rows.sortOrder === Qt.DescendingOrder
                readonly property string help: modelData.role === LockMonitorModel.WaitP95
                    ? qsTr("95 % of the acquires waited no longer (estimated)") : ""

                objectName: "sort" + modelData.title
                width: table.columnWidth(index)
                visible: width > 0
                height: table.rowHeight
                leftPadding: table.unit * 0.5
                rightPadding: table.unit * 0.5
                text: sorts ? (isDescending ? qsTr("%1 ▼") : qsTr("%1 ▲")).arg(modelData.title) : modelData.title
                contentItem: Label {
                    text: title.text
                    font.bold: title.sorts
                    elide: Text.ElideRight
                    horizontalAlignment: title.index > 2 ? Text.AlignRight : Text.AlignLeft
                    verticalAlignment: Text.AlignVCenter
                    Accessible.ignored: true
                }
                background: Rectangle {
                    color: title.down || title.hovered ? palette.midlight : "transparent"
                    border.color: palette.highlight
                    border.width: title.visualFocus ? 1 : 0
                }
                onClicked: table.sortBy(modelData.role)
                ToolTip.visible: help && (hovered || visualFocus)
                ToolTip.delay: 600
                ToolTip.text: help
                Accessible.description: help
                Accessible.name: sorts
                    ? (isDescending ? qsTr("Sorted by %1, descending") : qsTr("Sorted by %1, ascending")).arg(modelData.title)
                    : qsTr("Sort by %1").arg(modelData.title)
            }
        }
    }

    Item {
        id: area

        property string spoken ///< the selected row

        objectName: "rows"
        anchors {
            top: titles.bottom
            left: parent.left
            right: parent.right
            bottom: parent.bottom
        }
        focus: true
        activeFocusOnTab: true
        Accessible.role: Accessible.Table
        Accessible.name: qsTr("Locks")
        Accessible.description: table.selected ? spoken : ""

        Keys.onPressed: event => {
            const row = table.rows.rowOf(table.selected);
            const page = Math.max(1, Math.floor(view.height / table.rowHeight) - 1);
            switch (event.key) {
            case Qt.Key_Up:
                table.select(row - 1);
                break;
            case Qt.Key_Down:
                table.select(row + 1);
                break;
            case Qt.Key_PageUp:
                table.select(row - page);
                break;
            case Qt.Key_PageDown:
                table.select(row + page);
                break;
            case Qt.Key_Home:
                table.select(0);
                break;
            case Qt.Key_End:
                table.select(table.rows.count - 1);
                break;
            default:
                return;
            }
            event.accepted = true;
        }

        ListView {
            id: view

            objectName: "view"
            anchors.fill: parent
            clip: true
            model: table.rows
            currentIndex: -1
            boundsBehavior: Flickable.StopAtBounds
            reuseItems: true

            ScrollBar.vertical: ScrollBar { }

            delegate: Rectangle {
                id: row

                required property int index
                required property string name
                required property int status
                required property string holder
                required property double deadline
                required property double lease
                required property int queueLength
                required property double waitP95

                readonly property bool selected: name === table.selected
                readonly property bool isFree: status === LockMonitorModel.Free
                readonly property string timeLeft: deadline < 0 ? "" : Words.duration(deadline - table.locks.now)
                readonly property color foreground: selected ? palette.highlightedText : palette.windowText
                readonly property var texts: [
                    Words.printable(name),
                    Words.title(status),
                    Words.printable(holder),
                    isFree ? "" : timeLeft || qsTr("no end"),
                    queueLength > 0 ? queueLength : "",
                    waitP95 < 0 ? "" : Words.shortLimit(waitP95)
                ]
                readonly property string spoken: {
                    const parts = [texts[0], texts[1]];
                    if (holder)
                        parts.push(Words.fill(qsTr("held by %1"), texts[2]));
                    if (timeLeft)
                        parts.push(Words.fill(qsTr("%1 left"), timeLeft));
                    if (queueLength > 0)
                        parts.push(Words.fill(qsTr("%1 waiting"), queueLength));
                    if (waitP95 >= 0)
                        parts.push(Words.fill(qsTr("95 % waited %1"), Words.limit(waitP95)));
                    return parts.join(", ");
                }

                objectName: "row:" + name
                width: table.rowWidth
                height: table.rowHeight
                color: selected ? palette.highlight : index % 2 ? palette.alternateBase : palette.base

                Accessible.role: Accessible.Row
                Accessible.selectable: true
                Accessible.selected: selected
                Accessible.name: spoken

                Binding {
                    target: area
                    property: "spoken"
                    value: row.spoken
                    when: row.selected
                    restoreMode: Binding.RestoreNone
                }

                Row {
                    anchors.fill: parent

                    Repeater {
                        model: table.columns.length

                        Label {
                            required property int index

                            width: table.columnWidth(index)
                            height: row.height
                            leftPadding: table.unit * 0.5
                            rightPadding: table.unit * 0.5
                            text: row.texts[index]
                            color: index === 1 && !row.selected ? Words.color(row.status, table.dark) : row.foreground
                            font.bold: index === 1
                            // Cut at the beginning, because the end says "(not connected)".
                            elide: index === 2 && row.status === LockMonitorModel.Disconnected ? Text.ElideLeft
                                : Text.ElideMiddle
                            clip: true
                            maximumLineCount: 1
                            horizontalAlignment: index > 2 ? Text.AlignRight : Text.AlignLeft
                            verticalAlignment: Text.AlignVCenter
                            textFormat: Text.PlainText
                            Accessible.ignored: true
                        }
                    }
                }

                Rectangle {
                    readonly property real share: Math.max(0, Math.min(1, (row.deadline - table.locks.now) / row.lease))

                    visible: row.lease > 0
                    anchors {
                        right: parent.right
                        rightMargin: table.columnWidth(4) + table.columnWidth(5) + table.unit * 0.5
                        bottom: parent.bottom
                        bottomMargin: height / 2
                    }
                    width: table.columnWidth(3) - table.unit
                    height: table.unit * 0.2
                    radius: height / 2
                    color: Qt.alpha(row.foreground, 0.15)
                    Accessible.ignored: true

                    Rectangle {
                        objectName: "timeLeft:" + row.name
                        width: parent.width * parent.share
                        height: parent.height
                        radius: parent.radius
                        color: parent.share < 1 / 3 && !row.selected ? Words.color(LockMonitorModel.Expiring, table.dark)
                            : Qt.alpha(row.foreground, 0.55)
                    }
                }

                TapHandler {
                    onTapped: {
                        table.takeFocus();
                        table.picked(row.name);
                    }
                }
            }
        }

        Label {
            objectName: "empty"
            anchors.centerIn: view
            width: view.width * 0.8
            visible: table.rows.count === 0
            text: table.emptyText
            wrapMode: Text.Wrap
            horizontalAlignment: Text.AlignHCenter
            textFormat: Text.PlainText
        }

        Rectangle {
            anchors.fill: view
            visible: area.activeFocus
            color: "transparent"
            border.color: palette.highlight
            border.width: 1
        }
    }
}
