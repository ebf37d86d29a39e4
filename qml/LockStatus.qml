// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

pragma ComponentBehavior: Bound

import QtQuick
import QDistLock

/*!
    Shows one lock: an icon, its name, and its state in words.

    `lock` may be any of the locks of this module, or a DistributedLock or MultiLock made in C++. Of a ReadWriteLock, the
    lock that is in use is shown, or the last one that was. Sizes follow `font`, colours follow the palette of the
    surrounding item. Text wraps in the given width and increases the item's height; without a width, the item is as
    wide as its text.
*/
Item {
    id: root

    property QtObject lock: null
    property alias font: title.font
    /// If false, only the icon is shown. The accessible text stays.
    property bool textVisible: true

    /// The state that is shown: "none", "unlocked", "acquiring", "held", "atRisk", "releasing", "lost" or "error".
    readonly property string phase: {
        if (!internal.shown)
            return "none";
        switch (internal.shown.state) {
        case DistributedLockBase.Acquiring:
            return "acquiring";
        case DistributedLockBase.Held:
            return "held";
        case DistributedLockBase.AtRisk:
            return "atRisk";
        case DistributedLockBase.Releasing:
            return "releasing";
        }
        if (internal.lossReason >= 0)
            return "lost";
        switch (internal.shown.error) {
        case DistributedLockBase.NoError:
        case DistributedLockBase.CancelledError:
            return "unlocked";
        }
        return "error";
    }
    /// The state in words.
    readonly property string text: internal.heading
    /// Details of the state: the time left, the queue position, the reason of a loss or the text of an error.
    readonly property string detail: internal.detail
    readonly property color color: internal.color(phase)

    implicitWidth: badge.width + (textVisible ? internal.gap + internal.textWidth : 0)
    implicitHeight: Math.max(badge.height, textVisible ? labels.implicitHeight : 0)

    Accessible.role: Accessible.Indicator
    // The name is inserted last, because it may contain place markers.
    Accessible.name: internal.shown ? qsTr("Lock %2: %1").arg(text).arg(internal.name) : text
    Accessible.description: detail

    onLockChanged: internal.choose()

    QtObject {
        id: internal

        readonly property real gap: metrics.height * 0.6
        // A long error text wraps.
        readonly property real textWidth: Math.max(
            title.implicitWidth, Math.min(line.implicitWidth, metrics.height * 20))
        readonly property ReadWriteLock pair: root.lock as ReadWriteLock
        /// A DistributedLockBase or MultiLockBase, or null.
        property var shown: null
        readonly property string name: {
            if (!shown)
                return "";
            if (!pair)
                return shown.name ?? shown.names.join(", ");
            if (root.phase === "unlocked")
                return pair.name;
            return (shown === pair.write ? qsTr("%1 (write)") : qsTr("%1 (read)")).arg(pair.name);
        }
        readonly property bool dark: root.palette.window.hslLightness < 0.5
        property int lossReason: -1
        property string lossName ///< of a MultiLock: the lock that was lost
        property string lossErrorString
        property int remaining: 0
        readonly property int error: shown?.error ?? DistributedLockBase.NoError
        /// There is an error, such as a lost connection, but the lock is still held or still trying.
        readonly property bool troubled: {
            switch (root.phase) {
            case "acquiring":
            case "held":
            case "atRisk":
                break;
            default:
                return false;
            }
            // The reason of a loss is not an error of the acquire that follows it.
            if (lossReason >= 0 && shown?.errorString === lossErrorString)
                return false;
            switch (error) {
            case DistributedLockBase.NoError:
            case DistributedLockBase.BusyError:
            case DistributedLockBase.TimeoutError:
            case DistributedLockBase.CancelledError:
                return false;
            }
            return true;
        }

        readonly property string heading: {
            switch (root.phase) {
            case "unlocked":
                return qsTr("Unlocked");
            case "acquiring":
                return troubled ? errorHeading(error) : qsTr("Waiting");
            case "held":
                return qsTr("Held");
            case "atRisk":
                return qsTr("At risk");
            case "releasing":
                return qsTr("Releasing");
            case "lost":
                return qsTr("Lost");
            case "error":
                return errorHeading(error);
            }
            return qsTr("No lock");
        }

        readonly property string detail: {
            switch (root.phase) {
            case "acquiring":
                if (!shown)
                    return "";
                if (troubled)
                    return shown.errorString;
                if (lossReason >= 0)
                    return qsTr("after a loss: %1").arg(lossText());
                if (shown.error !== DistributedLockBase.NoError
                        && shown.error !== DistributedLockBase.CancelledError)
                    return errorHeading(shown.error);
                if (shown.queuePosition === 0)
                    return qsTr("next in the queue");
                if (shown.queuePosition > 0)
                    return qsTr("%n ahead in the queue", "", shown.queuePosition);
                return "";
            case "held":
                if (troubled)
                    return qsTr("%1, %2").arg(errorHeading(error)).arg(timeText(remaining));
                return timeText(remaining);
            case "atRisk":
                if (troubled)
                    return qsTr("not renewed, %1, %2").arg(errorHeading(error)).arg(timeText(remaining));
                return qsTr("not renewed, %1").arg(timeText(remaining));
            case "lost":
                return lossText();
            case "error":
                return shown?.errorString ?? "";
            }
            return "";
        }

        onShownChanged: {
            lossReason = -1;
            updateRemainingTime();
        }

        function choose() {
            const locks = root.lock as ReadWriteLock; // `pair` may not have changed yet
            if (!locks)
                shown = (root.lock as DistributedLockBase) ?? (root.lock as MultiLockBase);
            else if (locks.write.state !== DistributedLockBase.Unlocked)
                shown = locks.write;
            else if (locks.read.state !== DistributedLockBase.Unlocked || shown !== locks.write)
                shown = locks.read;
            if (root.lock && !shown)
                console.warn(qsTr("LockStatus cannot show %1: it is no lock").arg(root.lock));
        }

        function updateRemainingTime() {
            remaining = shown ? shown.remainingTime : 0;
        }

        function timeText(milliseconds: int): string {
            if (milliseconds < 120000)
                return qsTr("%1 s left").arg(Math.ceil(milliseconds / 1000));
            return qsTr("%1 min left").arg(Math.floor(milliseconds / 60000));
        }

        function lossText(): string {
            const text = reasonText(lossReason);
            return lossName === "" ? text : qsTr("%1 (%2)").arg(text).arg(lossName);
        }

        function reasonText(reason: int): string {
            switch (reason) {
            case DistributedLockBase.LeaseExpired:
                return qsTr("it could not be renewed in time");
            case DistributedLockBase.Stolen:
                return qsTr("somebody else holds it");
            case DistributedLockBase.Deleted:
                return qsTr("it was deleted on the server");
            case DistributedLockBase.ForcedRelease:
                return qsTr("it was taken away by force");
            }
            return "";
        }

        function errorHeading(error: int): string {
            switch (error) {
            case DistributedLockBase.BusyError:
                return qsTr("Busy");
            case DistributedLockBase.TimeoutError:
                return qsTr("Timed out");
            case DistributedLockBase.ConnectionError:
                return qsTr("No connection");
            case DistributedLockBase.AuthenticationError:
                return qsTr("Login refused");
            case DistributedLockBase.PermissionError:
                return qsTr("Not permitted");
            case DistributedLockBase.ProtocolError:
                return qsTr("Invalid reply");
            case DistributedLockBase.ForeignTypeError:
                return qsTr("Key of another type");
            case DistributedLockBase.NameError:
                return qsTr("Unusable name");
            case DistributedLockBase.OptionsError:
                return qsTr("Unusable option");
            case DistributedLockBase.ServerError:
                return qsTr("Server refused");
            case DistributedLockBase.QuorumError:
                return qsTr("No quorum");
            case DistributedLockBase.ReplicationError:
                return qsTr("Not replicated");
            }
            return qsTr("Failed");
        }

        // Each colour has a contrast of at least 4.5 : 1 on white, or on a dark window.
        function color(phase: string): color {
            switch (troubled && phase === "acquiring" ? "atRisk" : phase) {
            case "acquiring":
                return dark ? "#6cb2ff" : "#1864b8";
            case "held":
                return dark ? "#5fd38a" : "#157a3e";
            case "atRisk":
                return dark ? "#ffb74a" : "#9a5b00";
            case "lost":
            case "error":
                return dark ? "#ff8a80" : "#b3261e";
            }
            return dark ? "#b0b6bd" : "#5c6670";
        }
    }

    // Made for each lock: if a handler of a signal sets another lock, the Connections of the former one still get that signal.
    Instantiator {
        model: internal.shown ? [internal.shown] : []

        Connections {
            required property var modelData
            readonly property bool current: modelData === internal.shown

            target: modelData

            // Only a MultiLock names the lock.
            function onLost(reason: int, name: var) {
                if (!current)
                    return;
                internal.lossErrorString = modelData.errorString;
                internal.lossName = name ?? "";
                internal.lossReason = reason;
            }
            function onAcquired() {
                if (current)
                    internal.lossReason = -1;
            }
            function onAcquireFailed() {
                if (current)
                    internal.lossReason = -1;
            }
            function onReleased() {
                if (current)
                    internal.lossReason = -1;
            }
            function onStateChanged() {
                internal.updateRemainingTime();
            }
            function onRenewed() {
                internal.updateRemainingTime();
            }
        }
    }

    Connections {
        target: internal.pair?.read ?? null

        function onStateChanged() {
            internal.choose();
        }
    }

    Connections {
        target: internal.pair?.write ?? null

        function onStateChanged() {
            internal.choose();
        }
    }

    // remainingTime has no change signal.
    Timer {
        interval: 200
        repeat: true
        triggeredOnStart: true
        running: root.visible && (root.phase === "held" || root.phase === "atRisk")
        onTriggered: internal.updateRemainingTime()
    }

    FontMetrics {
        id: metrics
        font: title.font
    }

    LockBadge {
        id: badge

        width: Math.round(metrics.height * 2.4)
        height: width
        phase: root.phase
        color: root.color
        spinning: root.phase === "acquiring"
        fraction: {
            switch (root.phase) {
            case "held":
            case "atRisk":
                return internal.remaining / Math.max(1, internal.shown?.lease ?? 1);
            case "lost":
            case "error":
                return 1;
            }
            return 0;
        }
    }

    Column {
        id: labels

        visible: root.textVisible
        anchors.left: badge.right
        anchors.leftMargin: internal.gap
        anchors.right: parent.right
        y: Math.max(0, (badge.height - height) / 2)

        Text {
            id: title

            width: parent.width
            text: internal.name
            visible: text !== ""
            color: root.palette.windowText
            elide: Text.ElideMiddle
            textFormat: Text.PlainText
            Accessible.ignored: true
        }

        Text {
            id: line

            width: parent.width
            text: root.detail === "" ? root.text : qsTr("%1: %2").arg(root.text).arg(root.detail)
            color: root.color
            font: title.font
            wrapMode: Text.Wrap
            textFormat: Text.PlainText
            Accessible.ignored: true
        }
    }
}
