// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "jspromise.h"

#include <QtCore/qobject.h>
#include <QtCore/qvariant.h>
#include <QtQml/qqml.h>

namespace QDistLock {

/*!
    What QML can do with locks without declaring one: DistributedLocks.invokeLocked().

    Thread: the engine's. Errors: rejected promises.
*/
class QmlDistributedLocks : public QObject
{
    Q_OBJECT
    QML_NAMED_ELEMENT(DistributedLocks)
    QML_SINGLETON

public:
    using QObject::QObject;

    /*!
        Calls the annotated slot or invokable \a method of \a object under its lock, see
        QDL_LOCKED_METHOD(). Promise of what it returns: undefined for `void`, and where `onBusy=skip` left
        it out. Rejects with an Error; where the lock was not acquired, or the annotation is missing or
        wrong, its `error` is one of DistributedLock's.

        Arguments are converted as in a direct call, \a object.method(…), but nothing is lost: a number that does not
        fit its parameter, `null` for anything but a pointer, QVariant or QJsonValue, and `undefined` are refused (OptionsError).
        Arrays and objects are copied. Functions are refused where \a object lives in another thread.
        A result with an object that lives in another thread than the engine, or that is destroyed before the promise is
        resolved, rejects the promise, although the method has run.
    */
    Q_INVOKABLE QJSValue invokeLocked(QObject *object, const QString &method, const QVariantList &arguments);
    /// The same without arguments.
    Q_INVOKABLE QJSValue invokeLocked(QObject *object, const QString &method);

private:
    JsPromises m_promises;
};

} // namespace QDistLock
