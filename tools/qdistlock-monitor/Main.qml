// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

pragma ComponentBehavior: Bound

import QtQuick
import QtQuick.Controls
import QtQuick.Layouts
import QDistLock
import "words.js" as Words

ApplicationWindow {
    id: window

    property string server: "memory:"
    property string serverText: server ///< without user and password
    property var keyPrefix ///< undefined: the default
    property string pattern: "*"
    property bool readOnly: false

    readonly property bool dark: palette.window.hslLightness < 0.5
    readonly property real unit: metrics.height
    property string selected
    property string result ///< of the last forced release

    width: unit * 72
    height: unit * 42
    minimumWidth: unit * 50
    minimumHeight: unit * 20
    visible: true
    title: serverText ? Words.fill(qsTr("Locks on %1"), serverText) : qsTr("Locks")

    // The Fusion style of Qt 6.4 ignores the colours of the desktop, so they are set here.
    palette {
        alternateBase: system.alternateBase
        base: system.base
        button: system.button
        buttonText: system.buttonText
        dark: system.dark
        highlight: system.highlight
        highlightedText: system.highlightedText
        light: system.light
        mid: system.mid
        midlight: system.midlight
        placeholderText: system.placeholderText
        shadow: system.shadow
        text: system.text
        toolTipBase: system.button
        toolTipText: system.buttonText
        window: system.window
        windowText: system.windowText
    }

    SystemPalette {
        id: system
    }
    FontMetrics {
        id: metrics
    }

    LockMonitorModel {
        id: monitor

        objectName: "locks"
        server: window.server
        pattern: window.pattern
        active: !pause.checked && window.visibility !== Window.Minimized && window.visibility !== Window.Hidden
        Component.onCompleted: {
            if (window.keyPrefix !== undefined)
                keyPrefix = window.keyPrefix;
        }
    }

    LockMonitorFilter {
        id: filter

        objectName: "shown"
        sourceModel: monitor
        filterText: search.text
        statuses: chips.chosen
        sortRole: LockMonitorModel.Status
        firstVisible: table.firstVisible
        lastVisible: table.lastVisible
    }

    Shortcut {
        sequence: "Ctrl+F"
        enabled: !dialog.visible
        onActivated: search.forceActiveFocus()
    }
    Shortcut {
        sequence: "F5"
        enabled: !dialog.visible
        onActivated: monitor.refresh()
    }
    Shortcut {
        sequence: "Delete"
        enabled: details.canRelease && !dialog.visible && !search.activeFocus
        onActivated: {
            if (filter.rowOf(window.selected) >= 0) // and is not hidden by a filter
                dialog.ask(details.lock);
        }
    }

    header: ToolBar {
        leftPadding: window.unit * 0.6
        rightPadding: window.unit * 0.6
        topPadding: window.unit * 0.4
        bottomPadding: window.unit * 0.4

        RowLayout {
            anchors.fill: parent
            spacing: window.unit * 0.5

            TextField {
                id: search

                objectName: "search"
                Layout.fillWidth: true
                Layout.minimumWidth: window.unit * 10
                Layout.maximumWidth: window.unit * 20
                placeholderText: qsTr("Search names and holders")
                selectByMouse: true
                Accessible.name: qsTr("Search names and holders")
                Keys.onEscapePressed: clear()
                Keys.onDownPressed: table.takeFocus()
            }

            Flow {
                id: chips

                property var chosen: []

                function toggle(status) {
                    chosen = chosen.includes(status) ? chosen.filter(other => other !== status) : chosen.concat(status);
                }

                Layout.fillWidth: true
                spacing: window.unit * 0.3

                Repeater {
                    model: Words.statuses

                    StatusChip {
                        required property int modelData

                        objectName: "chip" + Words.title(modelData)
                        status: modelData
                        locks: monitor
                        unit: window.unit
                        dark: window.dark
                        checked: chips.chosen.includes(modelData)
                        onClicked: chips.toggle(modelData)
                    }
                }
            }

            Button {
                objectName: "refresh"
                text: qsTr("Refresh")
                enabled: monitor.active
                opacity: enabled ? 1 : 0.5
                onClicked: monitor.refresh()
                ToolTip.visible: hovered
                ToolTip.delay: 600
                ToolTip.text: qsTr("Reads all locks again at once (F5)")
            }
            Button {
                id: pause

                property date pausedAt

                objectName: "pause"
                checkable: true
                text: checked ? qsTr("Resume") : qsTr("Pause")
                onCheckedChanged: {
                    if (checked)
                        pausedAt = new Date();
                }
            }
        }
    }

    ColumnLayout {
        anchors.fill: parent
        spacing: 0

        // A Repeater directly in a layout would crash Qt 6.4: when it has removed items and the window is resized.
        Column {
            id: bars

            Layout.fillWidth: true

            MessageBar {
                objectName: "result"
                width: bars.width
                visible: text !== ""
                text: window.result
                unit: window.unit
                dark: window.dark
                closable: true
                onClosed: window.result = ""
            }
            MessageBar {
                objectName: "paused"
                width: bars.width
                visible: pause.checked
                text: Words.fill(qsTr("Paused at %1: what you see is from then."), Qt.formatTime(pause.pausedAt, "hh:mm:ss"))
                unit: window.unit
                dark: window.dark
            }
            Repeater {
                model: monitor.problems // what is missing, and why

                MessageBar {
                    required property string modelData

                    objectName: "problem"
                    width: bars.width
                    text: modelData
                    unit: window.unit
                    dark: window.dark
                }
            }
        }

        SplitView {
            Layout.fillWidth: true
            Layout.fillHeight: true

            LockTable {
                id: table

                objectName: "table"
                SplitView.fillWidth: true
                SplitView.minimumWidth: window.unit * 34
                locks: monitor
                rows: filter
                selected: window.selected
                unit: window.unit
                dark: window.dark
                emptyText: {
                    if (monitor.count > 0)
                        return qsTr("No lock matches the search");
                    if (monitor.problems.length > 0)
                        return qsTr("No locks can be shown, for the reason above");
                    if (!monitor.complete)
                        return monitor.active ? qsTr("Reading …") : qsTr("Nothing was read");
                    return monitor.pattern === "*" ? qsTr("Nobody holds a lock")
                        : Words.fill(qsTr("Nobody holds a lock whose name matches %1"), monitor.pattern);
                }
                onPicked: name => window.selected = name
            }

            LockDetails {
                id: details

                objectName: "details"
                SplitView.preferredWidth: Math.min(window.unit * 22, window.width - window.unit * 35)
                SplitView.minimumWidth: window.unit * 15
                locks: monitor
                name: window.selected
                readOnly: window.readOnly
                unit: window.unit
                dark: window.dark
                onReleaseWanted: dialog.ask(lock)
            }
        }
    }

    footer: ToolBar {
        leftPadding: window.unit * 0.6
        rightPadding: window.unit * 0.6

        RowLayout {
            anchors.fill: parent
            spacing: window.unit

            Label {
                objectName: "counts"
                text: {
                    if (monitor.count === 0 && !monitor.complete)
                        return "";
                    const all = monitor.count === 1 ? qsTr("1 lock") : Words.fill(qsTr("%1 locks"), monitor.count);
                    return filter.count === monitor.count ? all : Words.fill(qsTr("%1, %2 shown"), all, filter.count);
                }
            }
            Label {
                text: monitor.complete || !monitor.active || monitor.problems.length > 0 ? "" : qsTr("still reading …")
            }
            Item {
                Layout.fillWidth: true
            }
            Label {
                text: Words.fill(qsTr("Load on the server: %1 %"), (monitor.load / 10).toLocaleString(Qt.locale(), "f", 2))
            }
            Label {
                visible: window.readOnly
                text: qsTr("read-only")
            }
        }
    }

    ForceReleaseDialog {
        id: dialog

        anchors.centerIn: parent
        width: Math.min(window.width - window.unit * 4, window.unit * 34)
        locks: monitor
        serverText: window.serverText
        unit: window.unit
        current: details.lock
        onProgress: text => window.result = text
    }
}
