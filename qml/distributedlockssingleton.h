// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "jspromisefactory.h"

#include <QtCore/qobject.h>
#include <QtCore/qvariant.h>
#include <QtQml/qqml.h>

namespace QDistLock {

/*!
    The QML singleton DistributedLocks: functions that need no DistributedLock element.

    Thread: the engine's. Errors: rejected promises.
*/
class DistributedLocksSingleton : public QObject
{
    Q_OBJECT
    QML_NAMED_ELEMENT(DistributedLocks)
    QML_SINGLETON

public:
    using QObject::QObject;

    /*!
        Calls the annotated slot or invokable \a method of \a object under its lock; see QDL_LOCKED_METHOD().

        Returns a promise, which is resolved with the method's result: undefined if the method returns `void`, or if
        `onBusy=skip` skipped the call. The promise is rejected with an Error; if the lock was not acquired, or the
        annotation is missing or wrong, the Error's property `error` is a DistributedLock.Error.

        Arguments are converted as in a direct call, \a object.method(…), except that a conversion that would lose
        information is refused with OptionsError: a number outside the range of its parameter, `undefined`, and `null`
        for any parameter that is not a pointer, QVariant or QJsonValue. Arrays and objects are copied. Functions are
        refused if \a object lives in another thread than the engine.

        If the result contains a QObject that lives in another thread than the engine, or that is destroyed before the
        promise is resolved, the promise is rejected, although the method has run.
    */
    Q_INVOKABLE QJSValue invokeLocked(QObject *object, const QString &method, const QVariantList &arguments);
    /// Calls \a method without arguments.
    Q_INVOKABLE QJSValue invokeLocked(QObject *object, const QString &method);

private:
    JsPromiseFactory m_promises;
};

} // namespace QDistLock
