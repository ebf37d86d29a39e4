// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

namespace Cli {

/*!
    The exit codes of qdistlock, after sysexits.h where that has a suitable one. `run` also ends with the exit code of
    its child, or with 128 + N if signal N ended the child. exitCodeOf() in session.h says which error gives
    which, exitCodeTexts() in options.h explains them to the user.
*/
enum ExitCode : int {
    Success = 0,
    NotHeld = 1, ///< `show`: the lock is free; `release`: it was not held any more; `permits`: none; `doctor`: warnings
    CheckFailed = 2, ///< `doctor`: failures
    UsageError = 64,
    ServerUnavailable = 69,
    InternalError = 70,
    Busy = 75, ///< busy or timed out; --conflict-exit-code changes it. `release`: somebody else's lock is left alone
    AccessDenied = 77,
    ConfigurationError = 78, ///< a server URL that cannot be used
    LockLost = 79,           ///< `renew`: also if somebody else holds it now
    CannotExecute = 126,
    CommandNotFound = 127,
    SignalBase = 128 ///< + the number of the signal
};

} // namespace Cli
