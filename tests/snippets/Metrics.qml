// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

//! [metrics-qml]
import QtQuick
import QtQuick.Controls
import QDistLock

ListView {
    width: 600
    height: 400
    model: LockMetrics // reads the numbers once in each LockMetrics.interval
    delegate: Label {
        required property string group
        required property int held
        required property int waiting
        required property double waitP95
        text: `${group}: ${held} held, ${waiting} waiting`
            + (waitP95 < 0 ? "" : `; 95 % waited ${Math.ceil(waitP95)} ms at most`)
    }
}
//! [metrics-qml]
