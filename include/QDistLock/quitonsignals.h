// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_QUITONSIGNALS_H
#define QDISTLOCK_QUITONSIGNALS_H

#include <QDistLock/qdistlock_export.h>

namespace QDistLock {

/*!
    Makes Ctrl+C end the event loop, so that the program ends normally and releases its locks. Otherwise they would stay
    on the server until their leases end. Call it once, in main(), after the application object has been created.

    SIGINT, SIGTERM and SIGHUP call QCoreApplication::exit(128 + signal): exec() returns that number, with which a
    shell reports a program that a signal has ended. On Windows these are the events of the console: Ctrl+C and
    Ctrl+Break give 130; closing the console, logging off and shutting down give 143.

    A second signal ends the program at once, in case the event loop does not run. On Unix, one within half a second of
    the first is a copy of it and does nothing: timeout and npm send each signal twice. A signal that is ignored, for
    example by nohup, stays ignored. A child process after fork() ends as if this had not been called.

    Thread: the application object's. In another one, and without an application object, it does nothing but log a
    warning.
*/
QDISTLOCK_EXPORT void quitOnSignals();

} // namespace QDistLock

#endif
