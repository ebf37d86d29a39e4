// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/threadcheck.h"

#include <QDistLock/lockresult.h>

#include <QtCore/qabstracteventdispatcher.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>

using namespace Qt::StringLiterals;

namespace QDistLock {

QString describe(const QThread *thread)
{
    if (!thread)
        return u"no thread"_s;
    const QCoreApplication *const application = QCoreApplication::instance();
    if (application && application->thread() == thread)
        return u"the main thread"_s;
    const QString name = thread->objectName();
    return u"thread %1"_s.arg(name.isEmpty() ? u"0x%1"_s.arg(quintptr(thread), 0, 16) : Detail::quoted(name));
}

QString wrongThread(const QObject *object, const char *function)
{
    if (object->thread() == QThread::currentThread())
        return QString();
    return u"%1 was called in the wrong thread: in %2, but the object lives in %3; call it there, with QMetaObject::invokeMethod() for instance"_s
            .arg(QLatin1String(function), describe(QThread::currentThread()), describe(object->thread()));
}

QString noEventLoop(const char *function)
{
    if (!QCoreApplication::instance()) {
        return u"%1 was called without a QCoreApplication; call it while one exists"_s.arg(QLatin1String(function));
    }
    if (!QAbstractEventDispatcher::instance()) {
        return u"%1 was called in %2, which has no Qt event loop; call it in the main thread or in a QThread that runs exec(), or use ScopedLock, which needs none"_s
                .arg(QLatin1String(function), describe(QThread::currentThread()));
    }
    return QString();
}

QString wrongCall(const QObject *object, const char *function)
{
    const QString problem = wrongThread(object, function);
    return problem.isEmpty() ? noEventLoop(function) : problem;
}

} // namespace QDistLock
