// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

pragma ComponentBehavior: Bound

import QtQuick
import QtQuick.Controls
import "words.js" as Words

/// How many durations lie in each of nine ranges, as bars; under each is the longest duration of its range.
Row {
    id: histogram

    required property var counts
    required property real unit

    readonly property var bounds: [1, 5, 25, 100, 500, 2500, 10000, 60000] ///< in ms, of LockHistogram
    readonly property double most: Math.max(1, ...counts)

    Accessible.role: Accessible.Chart
    Accessible.name: qsTr("How many acquires waited how long")
    Accessible.description: bounds.concat([Infinity]).map((bound, i) => {
        return counts[i] > 0 ? Words.fill(qsTr("%1: %2"), title(i), counts[i]) : "";
    }).filter(part => part).join(", ")

    function title(range: int): string {
        if (range > 0 && range < bounds.length)
            return Words.fill(qsTr("%1 to %2"), Words.measured(bounds[range - 1]), Words.measured(bounds[range]));
        return range < bounds.length ? Words.fill(qsTr("up to %1"), Words.measured(bounds[range]))
            : Words.fill(qsTr("more than %1"), Words.measured(bounds[range - 1]));
    }

    Repeater {
        model: histogram.counts.length

        Item {
            id: bar

            required property int index
            readonly property double count: histogram.counts[index] ?? 0

            width: histogram.width / Math.max(1, histogram.counts.length)
            height: histogram.unit * 6.4

            Label {
                anchors.bottom: filled.top
                width: parent.width
                visible: bar.count > 0
                text: bar.count
                font.pixelSize: histogram.unit * 0.75
                horizontalAlignment: Text.AlignHCenter
                Accessible.ignored: true
            }
            Rectangle {
                id: filled

                anchors.bottom: bound.top
                x: 1
                width: parent.width - 2
                height: bar.count > 0 ? Math.max(2, histogram.unit * 4 * bar.count / histogram.most) : 1
                color: bar.count > 0 ? palette.highlight : Qt.alpha(palette.windowText, 0.5)
            }
            Label {
                id: bound

                anchors.bottom: parent.bottom
                width: parent.width
                text: bar.width >= histogram.unit * 2.1 || bar.index % 2 ? Words.bound(histogram.bounds[bar.index]) : ""
                font.pixelSize: histogram.unit * 0.75
                horizontalAlignment: Text.AlignHCenter
                Accessible.ignored: true
            }
            HoverHandler {
                id: hover
            }
            ToolTip.visible: hover.hovered
            ToolTip.text: Words.fill(qsTr("%1: %2"), histogram.title(index), count)
        }
    }
}
