// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQuick
import QtQuick.Controls
import QtQuick.Layouts
import QDistLock

ApplicationWindow {
    id: window

    /// A C++ object with an annotated slot.
    required property QtObject orders
    /// Press the buttons, and exit.
    property bool demo: false

    function show(text: string) {
        message.text = text;
        console.info(text);
    }

    /// The work under the lock; it ends when the returned promise is settled.
    function buildReport(): var {
        return new Promise(resolve => {
            const finish = () => {
                timer.triggered.disconnect(finish);
                resolve(qsTr("The report is ready"));
            };
            timer.triggered.connect(finish);
            timer.start();
        });
    }

    width: content.implicitWidth + 2 * content.anchors.margins
    height: content.implicitHeight + 2 * content.anchors.margins
    minimumWidth: width
    minimumHeight: height
    visible: true
    title: qsTr("QML actions under a lock")

    Component.onCompleted: {
        if (demo)
            build.trigger();
    }

    // In place of work elsewhere, such as a download.
    Timer {
        id: timer

        interval: 1000
    }

    ColumnLayout {
        id: content

        anchors {
            fill: parent
            margins: 24
        }
        spacing: 16

        LockStatus {
            Layout.fillWidth: true
            lock: build.lock
        }

        RowLayout {
            spacing: 12

            // While the action runs, it is disabled, and so is its button.
            Button {
                action: LockedAction {
                    id: build

                    name: "report:daily"
                    text: running ? qsTr("Building…") : qsTr("Build the report")
                    work: () => window.buildReport()
                    onFinished: result => {
                        window.show(result);
                        if (window.demo)
                            ship.clicked();
                    }
                    onRefused: (error, text) => window.show(text)
                    onLost: window.show(errorString)
                }
            }

            Button {
                id: ship

                text: qsTr("Ship order 17")
                onClicked: DistributedLocks.invokeLocked(window.orders, "ship", ["17"]).then(result => {
                    window.show(result);
                    if (window.demo)
                        Qt.quit();
                }, error => window.show(error.message))
            }
        }

        Label {
            id: message

            Layout.fillWidth: true
            text: qsTr("Nothing has happened yet")
            textFormat: Text.PlainText
            wrapMode: Text.Wrap
        }
    }
}
