// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qobject.h>
#include <QtCore/qstring.h>

QT_BEGIN_NAMESPACE
class QThread;
QT_END_NAMESPACE

namespace QDistLock {

/// "the main thread", or "thread" with its name or address.
QString describe(const QThread *thread);
/// Why \a function of \a object must not be called in this thread, in words; empty in the object's own thread.
QString wrongThread(const QObject *object, const char *function);
/// Why nothing asynchronous can end in this thread, in words; empty if it can: there is a QCoreApplication, and the
/// thread has an event dispatcher.
QString noEventLoop(const char *function);
/// The first of these two.
QString wrongCall(const QObject *object, const char *function);

} // namespace QDistLock
