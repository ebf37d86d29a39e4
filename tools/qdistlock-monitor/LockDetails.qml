// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

pragma ComponentBehavior: Bound

import QtQuick
import QtQuick.Controls
import QDistLock
import "words.js" as Words

/// One lock: its holders, and its queue, which is read once a second.
Pane {
    id: pane

    required property LockMonitorModel locks
    required property string name ///< empty: none
    required property bool readOnly
    required property real unit
    required property bool dark

    /// The data of the lock in the model, as of the last update(); null if the model has no row for it.
    property var lock: null
    property var activity: null ///< what clients have reported of it, at the same time
    readonly property int acquires: lock?.waitP50 >= 0 ? activity.wait.reduce((sum, count) => sum + count, 0) : 0
    /// Its holds that have ended, as far as they were seen or reported.
    readonly property var ended: {
        const isAlone = lock?.kind === LockMonitorModel.Exclusive;
        const isPresent = hold => hold.held < 0 && isHeld && (!isAlone || hold.fencingToken === lock.fencingToken);
        return activity && lock ? activity.holds.filter(hold => !isPresent(hold)) : [];
    }
    property double updated: 0 ///< when the model read it, on the clock of locks.now
    /// null: not known yet
    property var waiters: null
    property string problem ///< why `waiters` are not known
    property var question: null ///< the one that is not answered yet; null: none
    readonly property bool isHeld: lock !== null && lock.holder !== ""
    /// A holder of another library has no fencing token, by which one could be sure to hit no other.
    readonly property bool isForeign: isHeld && lock.holders[0].id === ""
    readonly property bool canRelease: !readOnly && isHeld && !isForeign && lock.fencingToken > 0
    readonly property int age: lock ? Math.floor((locks.now - updated) / 1000) : 0

    signal releaseWanted()

    function update() {
        const row = name ? locks.rowOf(name) : -1;
        if (row < 0) {
            lock = null;
            return;
        }
        const index = locks.index(row, 0);
        const read = role => locks.data(index, role);
        const now = {
            name: name,
            status: read(LockMonitorModel.Status),
            kind: read(LockMonitorModel.Kind),
            holder: read(LockMonitorModel.Holder),
            holders: read(LockMonitorModel.Holders),
            queueLength: read(LockMonitorModel.QueueLength),
            fencingToken: read(LockMonitorModel.FencingToken),
            permits: read(LockMonitorModel.Permits),
            permitsTaken: read(LockMonitorModel.PermitsTaken),
            handOvers: read(LockMonitorModel.HandOvers),
            label: read(LockMonitorModel.Label),
            since: read(LockMonitorModel.Since),
            waitP50: read(LockMonitorModel.WaitP50),
            waitP95: read(LockMonitorModel.WaitP95),
            waitP99: read(LockMonitorModel.WaitP99)
        };
        const reported = locks.activityOf(name);
        if (JSON.stringify(reported) !== JSON.stringify(activity))
            activity = reported;
        updated = read(LockMonitorModel.Updated);
        if (JSON.stringify(now) !== JSON.stringify(lock))
            lock = now;
    }

    function askWaiters() {
        if (question)
            return;
        const asked = {};
        question = asked;
        const finish = (list, why) => {
            if (question !== asked)
                return;
            question = null;
            waiters = list;
            problem = why;
        };
        locks.waiters(name).then(list => finish(list, ""), error => finish(null, error.message));
    }

    onNameChanged: {
        question = null; // its answer would be about another lock
        waiters = null;
        problem = "";
        update();
        if (poll.running)
            poll.restart();
    }

    Connections {
        target: pane.locks

        function onDataChanged(topLeft, bottomRight) {
            const row = pane.name ? pane.locks.rowOf(pane.name) : -1;
            if (row >= topLeft.row && row <= bottomRight.row)
                pane.update();
        }
        function onRowsInserted() {
            pane.update();
        }
        function onRowsRemoved() {
            pane.update();
        }
    }

    Timer {
        id: poll

        interval: 1000
        repeat: true
        triggeredOnStart: true
        running: pane.locks.active && pane.lock !== null
        onTriggered: pane.askWaiters()
    }

    Label {
        objectName: "noLock"
        anchors.fill: parent
        visible: pane.lock === null
        text: {
            if (pane.name)
                return Words.fill(qsTr("Nobody holds %1 any more"), Words.printable(pane.name));
            return pane.locks.count > 0 ? qsTr("Choose a lock to see who holds it and who waits") : "";
        }
        wrapMode: Text.Wrap
        horizontalAlignment: Text.AlignHCenter
        verticalAlignment: Text.AlignVCenter
        textFormat: Text.PlainText
        maximumLineCount: 6
        elide: Text.ElideRight
    }

    ScrollView {
        id: scroll

        anchors {
            top: parent.top
            left: parent.left
            right: parent.right
            bottom: foot.top
            bottomMargin: pane.unit * 0.5
        }
        visible: pane.lock !== null
        contentWidth: availableWidth
        activeFocusOnTab: contentHeight > availableHeight
        Accessible.name: qsTr("Details")
        Keys.onDownPressed: scrollBy(pane.unit * 3)
        Keys.onUpPressed: scrollBy(-pane.unit * 3)

        function scrollBy(distance: real) {
            const view = contentItem as Flickable;
            view.contentY = Math.max(0, Math.min(view.contentY + distance, contentHeight - availableHeight));
        }

        // A Repeater in a layout would crash Qt 6.4: when it has removed items and the window is resized.
        Column {
            id: column

            width: scroll.availableWidth
            spacing: pane.unit * 0.5

            TextEdit {
                objectName: "name"
                width: column.width
                text: Words.printable(pane.name)
                readOnly: true
                selectByMouse: true
                color: palette.windowText
                font.bold: true
                wrapMode: Text.WrapAnywhere
                textFormat: Text.PlainText
            }
            Label {
                objectName: "status"
                width: column.width
                text: pane.lock ? Words.title(pane.lock.status) : ""
                color: pane.lock ? Words.color(pane.lock.status, pane.dark) : palette.windowText
                font.bold: true
            }
            Label {
                width: column.width
                text: pane.lock ? Words.explanation(pane.lock.status) : ""
                wrapMode: Text.Wrap
            }
            Label {
                objectName: "age"
                width: column.width
                visible: pane.age > 30
                text: Words.fill(qsTr("This was read %1 ago."), Words.duration(pane.age * 1000))
                color: Words.color(LockMonitorModel.Expiring, pane.dark)
                wrapMode: Text.Wrap
            }

            Label {
                objectName: "holderTitle"
                topPadding: pane.unit * 0.5
                visible: pane.isHeld
                text: {
                    if (pane.lock?.kind === LockMonitorModel.Permitted)
                        return Words.fill(qsTr("%1 of %2 permits are taken"), pane.lock.permitsTaken, pane.lock.permits);
                    return pane.lock?.kind === LockMonitorModel.Readers ? qsTr("Readers") : qsTr("Holder");
                }
                font.bold: true
            }
            Repeater {
                model: pane.isHeld ? pane.lock.holders : []

                Label {
                    required property var modelData

                    objectName: "holder"
                    width: column.width
                    text: Words.holder(modelData)
                    wrapMode: Text.Wrap
                    textFormat: Text.PlainText
                }
            }
            Label {
                objectName: "hold"
                width: column.width
                visible: pane.isHeld && pane.lock.since >= 0
                text: {
                    if (!visible)
                        return "";
                    const since = Words.duration(pane.locks.now - pane.lock.since);
                    return pane.lock.label ? Words.fill(qsTr("Held for %1, in %2"), since, Words.printable(pane.lock.label))
                        : Words.fill(qsTr("Held for %1"), since);
                }
                wrapMode: Text.Wrap
                textFormat: Text.PlainText
            }
            Label {
                width: column.width
                visible: pane.lock !== null && pane.lock.fencingToken > 0
                text: Words.fill(qsTr("Fencing token %1"), pane.lock?.fencingToken)
                wrapMode: Text.Wrap
            }
            Label {
                width: column.width
                visible: pane.lock !== null && pane.lock.handOvers > 0
                text: Words.fill(qsTr("Changed hands while watched: %1"), pane.lock?.handOvers)
                wrapMode: Text.Wrap
            }

            Label {
                objectName: "queueTitle"
                width: column.width
                topPadding: pane.unit * 0.5
                text: {
                    if (pane.problem)
                        return Words.fill(qsTr("The queue is not known: %1"), pane.problem);
                    if (pane.waiters === null)
                        return pane.locks.active ? qsTr("Reading the queue …") : qsTr("The queue was not read");
                    if (pane.waiters.length === 0)
                        return qsTr("Nobody waits");
                    return Words.fill(qsTr("Waiting: %1"), Math.max(pane.waiters.length, pane.lock?.queueLength ?? 0));
                }
                font.bold: !pane.problem
                wrapMode: Text.Wrap
                textFormat: Text.PlainText
            }
            Repeater {
                model: pane.waiters?.slice(0, 50) ?? []

                Label {
                    required property var modelData

                    objectName: "waiter"
                    width: column.width
                    text: Words.fill(qsTr("%1. %2, waiting for %3"), modelData.position + 1, Words.holder(modelData.client),
                                     Words.duration(modelData.waited))
                    wrapMode: Text.Wrap
                    textFormat: Text.PlainText
                }
            }
            Label {
                visible: pane.waiters?.length > 50
                text: qsTr("and others")
            }

            Label {
                objectName: "waitTitle"
                topPadding: pane.unit * 0.5
                visible: pane.acquires > 0 || pane.activity?.failed > 0 || pane.activity?.lost > 0
                text: qsTr("Waiting, while watched")
                font.bold: true
            }
            Label {
                objectName: "waitTimes"
                width: column.width
                visible: pane.acquires > 0
                text: visible ? Words.fill(qsTr("Acquires: %1. Estimated waits: half %2, 95 % %3, 99 % %4."), pane.acquires,
                                           Words.limit(pane.lock.waitP50), Words.limit(pane.lock.waitP95),
                                           Words.limit(pane.lock.waitP99)) : ""
                wrapMode: Text.Wrap
            }
            Histogram {
                objectName: "waits"
                width: column.width
                visible: pane.acquires > 0
                counts: pane.activity?.wait ?? []
                unit: pane.unit
            }
            Label {
                objectName: "failures"
                width: column.width
                visible: pane.activity?.failed > 0 || pane.activity?.lost > 0
                text: Words.fill(qsTr("Failed acquires: %1, lost locks: %2"), pane.activity?.failed, pane.activity?.lost)
                wrapMode: Text.Wrap
            }

            Label {
                objectName: "historyTitle"
                topPadding: pane.unit * 0.5
                visible: pane.ended.length > 0
                text: qsTr("Earlier holds, newest first")
                font.bold: true
            }
            Repeater {
                model: pane.ended.slice(-20).reverse()

                Label {
                    required property var modelData

                    objectName: "pastHold"
                    width: column.width
                    text: {
                        const parts = [Words.holder(modelData.client)];
                        if (modelData.waited >= 0)
                            parts.push(Words.fill(qsTr("waited %1"), Words.measured(modelData.waited)));
                        if (modelData.held >= 0)
                            parts.push(Words.fill(qsTr("held it for %1"), Words.measured(modelData.held)));
                        parts.push(Words.fill(qsTr("token %1"), modelData.fencingToken));
                        return parts.join(", ");
                    }
                    wrapMode: Text.Wrap
                    textFormat: Text.PlainText
                }
            }
        }
    }

    // Below the part that scrolls, so that it is always visible.
    Column {
        id: foot

        anchors {
            left: parent.left
            right: parent.right
            bottom: parent.bottom
        }

        Button {
            objectName: "release"
            visible: pane.canRelease
            text: qsTr("Take the lock away …")
            onClicked: pane.releaseWanted()
        }
        Label {
            objectName: "noRelease"
            width: foot.width
            visible: pane.isHeld && !pane.readOnly && !pane.canRelease
            text: qsTr("This window cannot take it away, because it could not be sure to hit no other holder. “qdistlock release --force” can.")
            wrapMode: Text.Wrap
        }
    }
}
