// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick
import QtQuick.Controls
import QtQuick.Layouts
import QDistLock
import "words.js" as Words

/// Takes a lock away from the holder that it had when the dialog was opened, and never from the next one. Readers, and
/// holders of permits, lose it together.
Dialog {
    id: dialog

    required property LockMonitorModel locks
    required property string serverText
    required property real unit
    /// The lock as it is now, see LockDetails; null if nobody holds it.
    required property var current

    /// As it was when the dialog was opened.
    property var asked: null
    readonly property bool hasChanged: !current || !asked || current.name !== asked.name || current.holder === ""
        || current.fencingToken !== asked.fencingToken
    readonly property bool isAlone: asked?.kind === LockMonitorModel.Exclusive
    /// Somebody may be at work. Of several holders, not all are known.
    readonly property bool mayWork: !isAlone || current?.status !== LockMonitorModel.Disconnected
    readonly property string shownName: asked ? Words.printable(asked.name) : ""

    /// What becomes of it, in words.
    signal progress(text: string)

    function ask(lock: var) {
        asked = lock;
        typed.clear();
        open();
        if (mayWork)
            typed.forceActiveFocus();
        else
            cancel.forceActiveFocus();
    }

    objectName: "dialog"
    modal: true
    title: qsTr("Take the lock away?")

    onAccepted: {
        const name = shownName;
        const holder = Words.printable(asked.holder);
        progress(Words.fill(qsTr("Taking away “%1” …"), name));
        locks.forceRelease(asked.name, asked.fencingToken).then(taken => {
            progress(taken ? Words.fill(qsTr("“%1” was taken away from %2."), name, holder)
                : Words.fill(qsTr("“%1” has changed hands meanwhile, so nothing was done."), name));
        }, error => progress(error.message));
    }

    ColumnLayout {
        anchors.fill: parent
        spacing: dialog.unit * 0.7

        Label {
            objectName: "dialogText"
            Layout.fillWidth: true
            text: dialog.asked ? Words.fill(qsTr("“%1” is held by %2."), dialog.shownName, Words.printable(dialog.asked.holder)) : ""
            wrapMode: Text.Wrap
            textFormat: Text.PlainText
            maximumLineCount: 5
            elide: Text.ElideRight
        }
        Label {
            Layout.fillWidth: true
            text: Words.fill(qsTr("Server: %1. Waiting: %2."), dialog.serverText, dialog.current?.queueLength ?? 0)
            wrapMode: Text.Wrap
            textFormat: Text.PlainText
        }
        Label {
            objectName: "warning"
            Layout.fillWidth: true
            text: {
                if (dialog.hasChanged)
                    return qsTr("The lock has changed hands since. Close this, and look who holds it now.");
                if (!dialog.isAlone)
                    return qsTr("All who hold it lose it. Until they hear of it, others may work at the same time.");
                if (dialog.current?.status === LockMonitorModel.Silent)
                    return qsTr("It is connected, but does not run: its process is stopped, or its event loop is blocked. When it runs again, it may go on with its work until it hears that it lost the lock.");
                return dialog.mayWork
                    ? qsTr("It is connected and may be at work. Until it hears that it lost the lock, two programs may work at the same time.")
                    : qsTr("It has no connection to the server. If only its network is down, it may still be at work until its lease ends.");
            }
            wrapMode: Text.Wrap
        }
        Label {
            Layout.fillWidth: true
            visible: dialog.mayWork
            text: qsTr("To be sure, type the name of the lock:")
            wrapMode: Text.Wrap
        }
        TextField {
            id: typed

            objectName: "typed"
            Layout.fillWidth: true
            visible: dialog.mayWork
            Accessible.name: qsTr("The name of the lock")
            onAccepted: {
                if (take.enabled)
                    dialog.accept();
            }
        }
        RowLayout {
            Layout.alignment: Qt.AlignRight
            spacing: dialog.unit * 0.5

            Button {
                id: cancel

                objectName: "cancel"
                text: qsTr("Cancel")
                onClicked: dialog.reject()
            }
            Button {
                id: take

                objectName: "take"
                text: qsTr("Take it away")
                enabled: !dialog.hasChanged && (!dialog.mayWork || typed.text === dialog.shownName)
                opacity: enabled ? 1 : 0.5
                onClicked: dialog.accept()
            }
        }
    }
}
