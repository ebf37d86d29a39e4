// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_QUITONSIGNALS_H
#define QDISTLOCK_QUITONSIGNALS_H

#include <QDistLock/qdistlock_export.h>

namespace QDistLock {

/*!
    From now on Ctrl+C ends the program in order, so that its locks are given back. Without it they stay on the server
    until their leases end. To be called once, in main(), when the application object has been made.

    SIGINT, SIGTERM and SIGHUP call QCoreApplication::exit(128 + signal): exec() returns that number, with which a
    shell reports a program that a signal has ended. On Windows these are the events of the console: Ctrl+C and
    Ctrl+Break give 130; closing the console, logging off and shutting down give 143.

    A second signal ends the program at once, for an event loop that does not run. A signal that is ignored, as by
    nohup, stays ignored. A child process after fork() ends as if this had not been called.

    Thread: the application object's. In another one, and without an application object, it does nothing but log a
    warning.
*/
QDISTLOCK_EXPORT void quitOnSignals();

} // namespace QDistLock

#endif
