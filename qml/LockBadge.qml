// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick

/*!
    The round icon of LockStatus: a ring that shows how much of the lease is left, around a glyph. Each state has a
    different glyph, so that the states can be distinguished without colours.
*/
Item {
    id: badge

    /// As LockStatus.phase.
    property string phase: "none"
    property color color: "gray"
    /// How much of the ring is drawn, from 0 to 1.
    property real fraction: 1
    property bool spinning: false

    readonly property real stroke: Math.max(1.5, width / 12)

    implicitWidth: 40
    implicitHeight: implicitWidth

    onPhaseChanged: glyph.requestPaint()
    onColorChanged: {
        glyph.requestPaint();
        ring.requestPaint();
    }
    onFractionChanged: ring.requestPaint()
    onStrokeChanged: {
        glyph.requestPaint();
        ring.requestPaint();
    }
    onSpinningChanged: {
        ring.rotation = 0;
        ring.requestPaint();
    }

    Rectangle {
        anchors.fill: parent
        radius: width / 2
        color: Qt.alpha(badge.color, 0.12)
        border.width: badge.stroke
        border.color: Qt.alpha(badge.color, 0.25)
    }

    Canvas {
        id: ring

        anchors.fill: parent
        antialiasing: true

        onPaint: {
            const context = getContext("2d");
            context.reset();
            const part = badge.spinning ? 0.3 : Math.min(1, Math.max(0, badge.fraction));
            if (part === 0)
                return;
            context.strokeStyle = badge.color;
            context.lineWidth = badge.stroke;
            context.lineCap = part < 1 ? "round" : "butt";
            context.beginPath();
            context.arc(width / 2, height / 2, (width - badge.stroke) / 2,
                        -Math.PI / 2, -Math.PI / 2 + part * 2 * Math.PI);
            context.stroke();
        }

        RotationAnimation on rotation {
            running: badge.spinning && badge.visible
            from: 0
            to: 360
            duration: 1800
            loops: Animation.Infinite
        }
    }

    Canvas {
        id: glyph

        anchors.fill: parent
        antialiasing: true

        function padlock(context: var, open: bool, crossed: bool) {
            // First the shackle, then the body, with a keyhole or a cross.
            context.beginPath();
            context.moveTo(-4.5, -1);
            context.lineTo(-4.5, open ? -5.5 : -4);
            context.arc(0, open ? -5.5 : -4, 4.5, Math.PI, open ? 1.93 * Math.PI : 2 * Math.PI);
            if (!open)
                context.lineTo(4.5, -1);
            context.stroke();

            context.beginPath();
            context.rect(-6.5, -1, 13, 10);
            context.fill();
            context.globalCompositeOperation = "destination-out";
            if (crossed) {
                context.lineWidth = 1.8;
                context.beginPath();
                context.moveTo(-2.4, 1.6);
                context.lineTo(2.4, 6.4);
                context.moveTo(2.4, 1.6);
                context.lineTo(-2.4, 6.4);
                context.stroke();
            } else {
                context.beginPath();
                context.arc(0, 3.2, 1.5, 0, 2 * Math.PI);
                context.rect(-0.7, 3.2, 1.4, 3.2);
                context.fill();
            }
        }

        function hourglass(context: var) {
            context.beginPath();
            context.moveTo(-6, -8);
            context.lineTo(6, -8);
            context.moveTo(-6, 8);
            context.lineTo(6, 8);
            context.stroke();
            context.lineWidth = 1.4;
            context.beginPath();
            context.moveTo(-4.5, -8);
            context.lineTo(-4.5, -5);
            context.lineTo(0, 0);
            context.lineTo(4.5, -5);
            context.lineTo(4.5, -8);
            context.moveTo(-4.5, 8);
            context.lineTo(-4.5, 5);
            context.lineTo(0, 0);
            context.lineTo(4.5, 5);
            context.lineTo(4.5, 8);
            context.stroke();
            context.beginPath();
            context.moveTo(-2.6, -4);
            context.lineTo(2.6, -4);
            context.lineTo(0, -1);
            context.closePath();
            context.moveTo(-3.4, 7);
            context.lineTo(3.4, 7);
            context.lineTo(0, 3.5);
            context.closePath();
            context.fill();
        }

        function warning(context: var) {
            context.lineJoin = "round";
            context.beginPath();
            context.moveTo(0, -8);
            context.lineTo(8.5, 6.5);
            context.lineTo(-8.5, 6.5);
            context.closePath();
            context.fill();
            context.stroke();
            context.globalCompositeOperation = "destination-out";
            context.beginPath();
            context.rect(-1, -4, 2, 5.6);
            context.fill();
            context.beginPath();
            context.arc(0, 4.2, 1.25, 0, 2 * Math.PI);
            context.fill();
        }

        function cross(context: var) {
            context.lineWidth = 2.8;
            context.beginPath();
            context.moveTo(-5.5, -5.5);
            context.lineTo(5.5, 5.5);
            context.moveTo(5.5, -5.5);
            context.lineTo(-5.5, 5.5);
            context.stroke();
        }

        function dots(context: var) {
            for (let x = -5.5; x <= 5.5; x += 5.5) {
                context.beginPath();
                context.arc(x, 0, 1.6, 0, 2 * Math.PI);
                context.fill();
            }
        }

        function dash(context: var) {
            context.beginPath();
            context.moveTo(-5, 0);
            context.lineTo(5, 0);
            context.stroke();
        }

        onPaint: {
            const context = getContext("2d");
            context.reset();
            // The glyphs are drawn in a square of 36 units with its origin in the middle.
            context.translate(width / 2, height / 2);
            context.scale(width / 36, height / 36);
            context.strokeStyle = badge.color;
            context.fillStyle = badge.color;
            context.lineWidth = 2.2;
            context.lineCap = "round";
            switch (badge.phase) {
            case "unlocked":
                padlock(context, true, false);
                break;
            case "acquiring":
                hourglass(context);
                break;
            case "held":
                padlock(context, false, false);
                break;
            case "atRisk":
                warning(context);
                break;
            case "releasing":
                dots(context);
                break;
            case "lost":
                padlock(context, false, true);
                break;
            case "error":
                cross(context);
                break;
            default:
                dash(context);
            }
        }
    }
}
