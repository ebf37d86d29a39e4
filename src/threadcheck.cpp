// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "threadcheck.h"

#include <QDistLock/lockresult.h>

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>

namespace QDistLock {

QString describe(const QThread *thread)
{
    if (!thread)
        return QStringLiteral("no thread");
    const QCoreApplication *const application = QCoreApplication::instance();
    if (application && application->thread() == thread)
        return QStringLiteral("the main thread");
    const QString name = thread->objectName();
    return QStringLiteral("thread %1").arg(name.isEmpty() ? QStringLiteral("0x%1").arg(quintptr(thread), 0, 16)
                                                          : Detail::quoted(name));
}

QString wrongThread(const QObject *object, const char *function)
{
    if (object->thread() == QThread::currentThread())
        return QString();
    return QStringLiteral("%1 was called in the wrong thread: in %2, but the object lives in %3; call it there, with "
                          "QMetaObject::invokeMethod() for instance")
            .arg(QLatin1String(function), describe(QThread::currentThread()), describe(object->thread()));
}

QString noEventLoop(const char *function)
{
    if (!QCoreApplication::instance()) {
        return QStringLiteral("%1 was called without a QCoreApplication; call it while one exists")
                .arg(QLatin1String(function));
    }
    if (!QAbstractEventDispatcher::instance()) {
        return QStringLiteral("%1 was called in %2, which has no Qt event loop; call it in the main thread or in a QThread "
                              "that runs exec(), or use ScopedLock, which needs none")
                .arg(QLatin1String(function), describe(QThread::currentThread()));
    }
    return QString();
}

} // namespace QDistLock
