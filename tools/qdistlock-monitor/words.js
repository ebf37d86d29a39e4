// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What the window says in words and colours.

.pragma library
.import QDistLock as QDistLock

const Model = QDistLock.LockMonitorModel;

// What needs attention comes first.
const statuses = [Model.Disconnected, Model.Endless, Model.Silent, Model.Expiring, Model.Foreign, Model.Held, Model.Free];

function title(status) {
    switch (status) {
    case Model.Disconnected:
        return qsTr("Disconnected");
    case Model.Endless:
        return qsTr("Endless");
    case Model.Silent:
        return qsTr("Silent");
    case Model.Expiring:
        return qsTr("Expiring");
    case Model.Foreign:
        return qsTr("Foreign");
    case Model.Held:
        return qsTr("Held");
    }
    return qsTr("Free");
}

function explanation(status) {
    switch (status) {
    case Model.Disconnected:
        return qsTr("The holder has no connection to the server: it is dead, or its network is down. The lock becomes free when its lease ends.");
    case Model.Endless:
        return qsTr("The lock has no time to live: if its holder is dead, nobody will get it.");
    case Model.Silent:
        return qsTr("The holder is connected, but has not reported for some seconds: its process is stopped, or its event loop is blocked. The lock stays held until its lease ends.");
    case Model.Expiring:
        return qsTr("Less than a third of the lease is left: the holder has not renewed it in time, or never does.");
    case Model.Foreign:
        return qsTr("Another library holds the lock, or the key was written by hand.");
    case Model.Held:
        return qsTr("The holder is connected, and its lease is not near its end.");
    }
    return qsTr("Nobody holds the lock.");
}

// Readable on the window's background.
function color(status, dark) {
    switch (status) {
    case Model.Disconnected:
        return dark ? "#ff8a80" : "#b3261e";
    case Model.Endless:
        return dark ? "#ff9ec4" : "#9c1f6b";
    case Model.Silent:
        return dark ? "#7fd0ff" : "#00639b";
    case Model.Expiring:
        return dark ? "#ffc66b" : "#8a5300";
    case Model.Foreign:
        return dark ? "#c7a6ff" : "#6a3fb5";
    case Model.Held:
        return dark ? "#7ddc9a" : "#1b6e3a";
    }
    return dark ? "#a8b0b8" : "#5c6670";
}

// Replaces %1, %2, … by the values. Unlike arg(), it leaves such marks inside the values alone.
function fill(text, ...values) {
    return text.replace(/%(\d)/g, (mark, number) => values[number - 1] ?? mark);
}

// Anybody may give a lock or a client any name. Line breaks, and characters that change the direction of the text, are
// shown as \uXXXX.
function printable(text) {
    return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
                        c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

function holder(client) {
    return client.connected ? printable(client.text) : fill(qsTr("%1 (not connected)"), printable(client.text));
}

// A measured time, which may be short.
function measured(ms) {
    if (ms < 1000)
        return fill(qsTr("%1\u00a0ms"), Math.max(0, Math.round(ms)));
    return ms < 10000 ? fill(qsTr("%1\u00a0s"), (ms / 1000).toFixed(1)) : duration(ms);
}

// A percentile: of longer times nobody knows how long they are.
const longestKnown = 60000;

function limit(ms) {
    return ms < longestKnown ? fill(qsTr("at most %1"), measured(ms)) : fill(qsTr("more than %1"), measured(longestKnown));
}

// The same where there is little room.
function shortLimit(ms) {
    return ms < longestKnown ? measured(ms) : fill(qsTr(">\u00a0%1"), measured(longestKnown));
}

// The longest duration of a range, under its bar; undefined: it has none.
function bound(ms) {
    if (ms === undefined)
        return qsTr("more");
    return ms < 100 ? fill(qsTr("%1ms"), ms) : fill(qsTr("%1s"), ms / 1000);
}

function duration(ms) {
    const seconds = Math.max(0, Math.ceil(ms / 1000));
    if (seconds < 120)
        return fill(qsTr("%1\u00a0s"), seconds);
    if (seconds < 7200)
        return fill(qsTr("%1\u00a0min"), Math.floor(seconds / 60));
    return seconds < 172800 ? fill(qsTr("%1\u00a0h"), Math.floor(seconds / 3600))
        : fill(qsTr("%1\u00a0d"), Math.floor(seconds / 86400));
}
