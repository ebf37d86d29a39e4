// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qstring.h>

namespace QDistLock {

/// Why \a function of \a object must not be called in this thread, in words; empty in the object's own thread.
QString wrongThread(const QObject *object, const char *function);
/// Why nothing asynchronous can end in this thread, in words; empty if it can: there is a QCoreApplication, and the
/// thread has an event dispatcher.
QString noEventLoop(const char *function);

} // namespace QDistLock
