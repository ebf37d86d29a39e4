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

    `state`, `running`, `error` and `errorString` describe one moment: all of them change before the first one notifies, and
    `finished`, `refused`, `failed` and `lost` follow. Every handler may run the action again, or destroy it.

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

    /// Read-only, as the three that follow.
    property alias state: status.state
    property alias running: status.running
    /// Of the last run; DistributedLock.NoError too where it was the work that failed.
    property alias error: status.error
    /// Why the last run got no lock, lost it, or its work failed; empty if all is well.
    property alias errorString: status.errorString
    /// For LockStatus. What it holds belongs to the action.
    readonly property DistributedLock lock: DistributedLock {
        id: ownLock

        onLost: reason => {
            if (root.state !== LockedAction.Working)
                return;
            status.set(status.state, status.error,
                       qsTr("Lock %1 was lost while its work was running").arg(internal.lockName()));
            root?.lost(reason);
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
        const refusal = internal.refusal(DistributedLock.CancelledError,
                                         qsTr("Lock %1: the action was destroyed").arg(internal.lockName()));
        internal.address();
        status.set(LockedAction.Waiting, DistributedLock.NoError, "");
        // Any handler may destroy the action.
        if (!internal?.alive)
            return Promise.reject(refusal);
        const acquiring = whenBusy === LockedAction.Wait ? ownLock.acquire() : ownLock.tryAcquire();
        return acquiring.then(result => internal?.alive ? internal.acquired(result) : Promise.reject(refusal));
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
        enabled: status.idle
    }

    property QtObject internal: QtObject {
        id: internal

        /// False once a view has announced that it will destroy the action: until it does, ids are null and calls of the
        /// action's functions fail.
        property bool alive: true
        readonly property LockedActionStatus status: LockedActionStatus {
            id: status
        }
        readonly property LoggingCategory category: LoggingCategory {
            name: "qdistlock.qml"
            defaultLogLevel: LoggingCategory.Warning
        }

        Component.onDestruction: alive = false

        /// The name as it appears in texts.
        function lockName(): string {
            const name = ownLock.name;
            return JSON.stringify(name.length > 100 ? name.slice(0, 100) + "…" : name);
        }

        function address() {
            if (!status.idle)
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
            status.set(LockedAction.Working, DistributedLock.NoError, "");
            if (!internal?.alive)
                return Promise.reject(new Error(qsTr("the action was destroyed before its work began")));
            let outcome;
            try {
                if (typeof root.work !== "function")
                    throw new TypeError(qsTr("there is no work; set \"work\" to a function"));
                outcome = Promise.resolve(root.work(result.fencingToken));
            } catch (reason) {
                outcome = Promise.reject(reason);
            }
            return outcome.then(value => internal?.alive ? internal.finished(value) : value,
                                reason => internal?.alive ? internal.failed(reason) : Promise.reject(reason));
        }

        /// The lock is given back first: a run that begins in a handler acquires it again.
        function finish(error: int, text: string) {
            if (ownLock.held)
                ownLock.release();
            status?.set(LockedAction.Idle, error, text);
            if (internal?.alive)
                address();
        }

        function refused(result: var): var {
            if (result.error === DistributedLock.BusyError && root.whenBusy === LockedAction.Skip) {
                finish(DistributedLock.NoError, "");
                return undefined;
            }
            const refusal = internal.refusal(result.error, result.errorString);
            switch (result.error) {
            case DistributedLock.BusyError:
            case DistributedLock.TimeoutError:
            case DistributedLock.CancelledError:
                break;
            default: // also where nobody has a handler for refused()
                console.warn(category, `LockedAction: ${result.errorString}`);
            }
            finish(result.error, result.errorString);
            root?.refused(result.error, result.errorString);
            return Promise.reject(refusal);
        }

        function finished(value: var): var {
            finish(status.error, status.errorString);
            root?.finished(value);
            return value;
        }

        function failed(reason: var): var {
            const text = textOf(reason);
            // Also where nobody has a handler for failed(), or for the promise.
            console.warn(category, `LockedAction: the work under lock ${lockName()} failed: ${text}`);
            finish(DistributedLock.NoError, text);
            root?.failed(reason);
            return Promise.reject(reason);
        }

        /// Anything can be thrown, and not everything has a text.
        function textOf(reason: var): string {
            try {
                return String(reason?.message ?? reason);
            } catch (error) {
                return qsTr("for a reason that has no text");
            }
        }
    }
}
