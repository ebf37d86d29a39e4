// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

import QtQml
import QtQuick.Templates as T
import QDistLock

/*!
    An action for buttons, menus and shortcuts whose work runs under a lock:

    \qml
    Button {
        action: LockedAction {
            name: "report:daily"
            text: running ? qsTr("Building…") : qsTr("Build")
            work: () => backend.build()
            onRefused: (error, text) => toast.show(text)
        }
    }
    \endqml

    Triggering it acquires the lock, calls `work`, and gives the lock back when what `work` returned is
    settled. Meanwhile the action is disabled, whatever `enabled` says (unless it is put into an
    ActionGroup of yours), and triggering it does nothing.

    Nothing blocks: work that computes for long blocks the user interface all the same, and the
    renewals of its lock with it; let it return a promise instead. If the action is destroyed, the lock
    is given back at once: a run that waits is rejected with CancelledError, work that goes on goes on
    without the lock.
*/
T.Action {
    id: root

    enum WhenBusy {
        Wait, ///< in the queue, for `wait` milliseconds at the longest
        Skip, ///< do nothing
        Fail  ///< refused() with BusyError
    }
    enum State {
        Idle,
        Waiting, ///< for the lock
        Working
    }

    /// A function, called with the fencing token. May return a promise.
    property var work
    property int whenBusy: LockedAction.Wait

    /// Changed during a run, `name` and `server` are those of the next one.
    property string name
    property string server
    property alias lease: ownLock.lease
    property alias wait: ownLock.wait

    readonly property int state: internal.state
    readonly property bool running: state !== LockedAction.Idle
    /// Of the last run; DistributedLock.NoError too where it was the work that failed.
    readonly property int error: internal.error
    /// Why the last run got no lock, lost it, or its work failed; empty if all is well.
    readonly property string errorString: internal.errorString
    /// For LockStatus. What it holds belongs to the action.
    readonly property DistributedLock lock: DistributedLock {
        id: ownLock

        onLost: reason => {
            if (root.state !== LockedAction.Working)
                return;
            internal.errorString = qsTr("Lock %1 was lost while its work was running").arg(internal.lockName());
            root.lost(reason);
        }
    }

    /// The work is done; \a result is what it returned, or what its promise was resolved with.
    signal finished(result: var)
    /// There was no lock, and so no work. \a error is one of DistributedLock's.
    signal refused(error: int, text: string)
    /// The work threw \a reason, or its promise was rejected with it.
    signal failed(reason: var)
    /// The lock is gone while the work goes on: it must not touch what the lock guards any more.
    signal lost(reason: int)

    /// As triggering it. The promise is resolved with the work's result (`undefined` if it was skipped)
    /// and rejected with the work's own reason, or with an Error whose `error` is one of DistributedLock's.
    function run(): var {
        if (running)
            return Promise.reject(internal.refusal(DistributedLock.BusyError,
                                                   qsTr("Lock %1: the action is running already").arg(internal.lockName())));
        internal.error = DistributedLock.NoError;
        internal.errorString = "";
        internal.state = LockedAction.Waiting;
        const acquiring = whenBusy === LockedAction.Wait ? ownLock.acquire() : ownLock.tryAcquire();
        // Ids are null once the action is destroyed.
        return acquiring.then(result => internal ? internal.acquired(result)
                                                 : Promise.reject(Object.assign(new Error(result.errorString),
                                                                                { error: result.error })));
    }

    onNameChanged: internal.address()
    onServerChanged: internal.address()
    onTriggered: {
        if (!running)
            run().catch(() => {}); // the signals tell
    }

    // On top of `enabled`, which belongs to whoever uses the action.
    T.ActionGroup.group: T.ActionGroup {
        exclusive: false
        enabled: !root.running
    }

    property QtObject internal: QtObject {
        id: internal

        property int state: LockedAction.Idle
        property int error: DistributedLock.NoError
        property string errorString
        readonly property LoggingCategory category: LoggingCategory {
            name: "qdistlock.qml"
            defaultLogLevel: LoggingCategory.Warning
        }

        /// The name as it appears in texts.
        function lockName(): string {
            const name = ownLock.name;
            return JSON.stringify(name.length > 100 ? name.slice(0, 100) + "…" : name);
        }

        onStateChanged: address()

        function address() {
            if (state !== LockedAction.Idle)
                return;
            ownLock.name = root.name;
            ownLock.server = root.server;
        }

        function refusal(error: int, text: string): var {
            return Object.assign(new Error(text), { error: error });
        }

        function acquired(result: var): var {
            if (!result.acquired)
                return refused(result);
            if (!ownLock.held)
                return refused({
                    error: DistributedLock.CancelledError,
                    errorString: qsTr("Lock %1 was lost before its work began").arg(lockName())
                });
            state = LockedAction.Working;
            let outcome;
            try {
                if (typeof root.work !== "function")
                    throw new TypeError(qsTr("there is no work; set \"work\" to a function"));
                outcome = Promise.resolve(root.work(result.fencingToken));
            } catch (reason) {
                outcome = Promise.reject(reason);
            }
            return outcome.then(value => internal ? internal.finished(value) : value,
                                reason => internal ? internal.failed(reason) : Promise.reject(reason));
        }

        function refused(result: var): var {
            state = LockedAction.Idle;
            if (result.error === DistributedLock.BusyError && root.whenBusy === LockedAction.Skip)
                return undefined;
            error = result.error;
            errorString = result.errorString;
            switch (result.error) {
            case DistributedLock.BusyError:
            case DistributedLock.TimeoutError:
            case DistributedLock.CancelledError:
                break;
            default: // also where nobody has a handler for refused()
                console.warn(category, `LockedAction: ${result.errorString}`);
            }
            root.refused(result.error, result.errorString);
            return Promise.reject(refusal(result.error, result.errorString));
        }

        function letGo() {
            if (ownLock.holdCount > 0)
                ownLock.release();
            state = LockedAction.Idle;
        }

        function finished(value: var): var {
            letGo();
            root.finished(value);
            return value;
        }

        function failed(reason: var): var {
            letGo();
            errorString = String(reason?.message ?? reason);
            // Also where nobody has a handler for failed(), or for the promise.
            console.warn(category, `LockedAction: the work under lock ${lockName()} failed: ${errorString}`);
            root.failed(reason);
            return Promise.reject(reason);
        }
    }
}
