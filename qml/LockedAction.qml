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

    Triggering the action acquires the lock, calls `work`, and releases the lock when `work` has returned and the promise
    it returned, if any, is settled. Meanwhile the action is disabled, whatever the value of `enabled` (unless the
    application puts the action into its own ActionGroup), and triggering it does nothing.

    `state`, `running`, `error` and `errorString` change together: all of them have their new values before the first
    change signal is emitted. The signals `finished`, `refused`, `failed` and `lost` follow. Every handler may run the
    action again or destroy it.

    The action never blocks, but a `work` function that computes for a long time blocks the user interface and the
    renewal of its lock; such work should run elsewhere and return a promise. If the action is destroyed, the lock is
    released at once: the promise of a run that is still waiting is rejected with CancelledError, and work that has
    begun continues without the lock.
*/
T.Action {
    id: root

    enum WhenBusy {
        Wait, ///< wait in the queue, for `wait` milliseconds at most
        Skip, ///< do nothing
        Fail  ///< emit refused() with BusyError
    }
    enum State {
        Idle,
        Waiting, ///< waiting for the lock
        Working
    }

    /// The function to run under the lock. It is called with the fencing token, and may return a promise.
    property var work
    property int whenBusy: LockedAction.Wait

    /// If `name` or `server` changes during a run, the new value applies to the next run.
    property string name
    property string server
    property alias lease: ownLock.lease
    property alias wait: ownLock.wait

    /// Read-only, like the next three properties.
    property alias state: status.state
    property alias running: status.running
    /// Why the last run could not acquire the lock. DistributedLock.NoError if it did, even if its work failed.
    property alias error: status.error
    /// Why the last run could not acquire the lock, lost it, or why its work failed; empty if it succeeded.
    property alias errorString: status.errorString
    /// The action's lock, to be shown by LockStatus. Only the action may acquire and release it.
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

    /// The work has finished; \a result is the value that it returned, or that its promise was resolved with.
    signal finished(result: var)
    /// The lock was not acquired, so the work did not run. \a error is a DistributedLock.Error.
    signal refused(error: int, text: string)
    /// The work threw \a reason, or its promise was rejected with it.
    signal failed(reason: var)
    /// The lock was lost while the work is still running. From now on, the work must not touch what the lock protects.
    signal lost(reason: int)

    /// Does the same as triggering the action. Returns a promise that is resolved with the result of the work (undefined
    /// if it was skipped). It is rejected with the reason for which the work failed, or, if the lock was not acquired,
    /// with an Error whose property `error` is a DistributedLock.Error.
    function run(): var {
        if (running)
            return Promise.reject(internal.refusal(DistributedLock.BusyError,
                                                   qsTr("Lock %1: the action is running already").arg(internal.lockName())));
        const refusal = internal.refusal(DistributedLock.CancelledError,
                                         qsTr("Lock %1: the action was destroyed").arg(internal.lockName()));
        internal.applyNameAndServer();
        status.set(LockedAction.Waiting, DistributedLock.NoError, "");
        // A handler may have destroyed the action.
        if (!internal?.alive)
            return Promise.reject(refusal);
        const acquiring = whenBusy === LockedAction.Wait ? ownLock.acquire() : ownLock.tryAcquire();
        return acquiring.then(result => internal?.alive ? internal.acquired(result) : Promise.reject(refusal));
    }

    onNameChanged: internal.applyNameAndServer()
    onServerChanged: internal.applyNameAndServer()
    onTriggered: {
        if (!running)
            run().catch(() => {}); // the signals report the failure
    }

    // Disables the action during a run; the property `enabled` belongs to the application.
    T.ActionGroup.group: T.ActionGroup {
        exclusive: false
        enabled: status.idle
    }

    property QtObject internal: QtObject {
        id: internal

        /// False once a view has scheduled the destruction of the action. From then on ids are null, and calls of the
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

        /// The lock's name for messages: quoted, 100 characters at most.
        function lockName(): string {
            const name = ownLock.name;
            return JSON.stringify(name.length > 100 ? name.slice(0, 100) + "…" : name);
        }

        function applyNameAndServer() {
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
                    throw new TypeError(qsTr("\"work\" is not a function; set it to one"));
                outcome = Promise.resolve(root.work(result.fencingToken));
            } catch (reason) {
                outcome = Promise.reject(reason);
            }
            return outcome.then(value => internal?.alive ? internal.finished(value) : value,
                                reason => internal?.alive ? internal.failed(reason) : Promise.reject(reason));
        }

        /// Releases the lock before any handler is called, so that a run that starts in a handler can acquire it.
        function finish(error: int, text: string) {
            if (ownLock.held)
                ownLock.release();
            status?.set(LockedAction.Idle, error, text);
            if (internal?.alive)
                applyNameAndServer();
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
            default: // warn even if the application has no handler for refused()
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
            // Warn even if the application handles neither failed() nor the promise.
            console.warn(category, `LockedAction: the work under lock ${lockName()} failed: ${text}`);
            finish(DistributedLock.NoError, text);
            root?.failed(reason);
            return Promise.reject(reason);
        }

        /// JavaScript can throw any value, and not every value can be converted to text.
        function textOf(reason: var): string {
            try {
                return String(reason?.message ?? reason);
            } catch (error) {
                return qsTr("unknown reason");
            }
        }
    }
}
