// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmldistributedlocks.h"

#include <QDistLock/annotations.h>

#include <QtCore/qloggingcategory.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthread.h>

#include <algorithm>

namespace QDistLock {

Q_DECLARE_LOGGING_CATEGORY(lcQml)

/// A function works in the thread of its engine only; it must not even be destroyed in another one.
static bool hasFunction(const QVariant &value)
{
    const QMetaType type = value.metaType();
    if (type == QMetaType::fromType<QJSValue>())
        return true;
    if (type.id() == QMetaType::QVariantList) {
        const auto list = value.toList();
        return std::any_of(list.begin(), list.end(), hasFunction);
    }
    if (type.id() == QMetaType::QVariantMap) {
        const auto map = value.toMap();
        return std::any_of(map.begin(), map.end(), hasFunction);
    }
    return false;
}

/// Why the arguments cannot be passed to any method of \a object; empty if they can.
static QString checkArguments(const QObject *object, const QVariantList &arguments)
{
    const bool otherThread = object && object->thread() != QThread::currentThread();
    for (qsizetype i = 0; i < arguments.size(); ++i) {
        if (!arguments.at(i).isValid())
            return QStringLiteral("argument %1 is undefined; pass null if there is no value").arg(i + 1);
        if (otherThread && hasFunction(arguments.at(i))) {
            return QStringLiteral("argument %1 is or contains a JavaScript function, which cannot be called in the "
                                  "object's thread, another one than the engine's")
                    .arg(i + 1);
        }
    }
    return QString();
}

static QFuture<QVariant> refusedCall(const QString &text)
{
    qCWarning(lcQml, "%ls", qUtf16Printable(text));
    QPromise<QVariant> promise;
    promise.start();
    promise.setException(LockUnavailable({DistributedLock::OptionsError, text, 0}));
    promise.finish();
    return promise.future();
}

QJSValue QmlDistributedLocks::invokeLocked(QObject *object, const QString &method)
{
    return invokeLocked(object, method, QVariantList());
}

QJSValue QmlDistributedLocks::invokeLocked(QObject *object, const QString &method, const QVariantList &arguments)
{
    const auto settle = [method](QJSEngine *engine, const QJSValue &deferred, const QFuture<QVariant> &future) {
        try {
            Detail::throwException(QFuture<void>(future));
            if (future.resultCount() == 0) {
                JsPromises::reject(engine, deferred, QStringLiteral("%1(): the call was cancelled").arg(method),
                                   DistributedLock::CancelledError);
                return;
            }
            const QVariant value = future.result();
            JsPromises::resolve(deferred, value.isValid() ? engine->toScriptValue(value) : QJSValue());
        } catch (const LockUnavailable &unavailable) {
            const LockResult result = unavailable.result();
            JsPromises::reject(engine, deferred, result.errorString, result.error);
        } catch (const std::exception &exception) {
            JsPromises::reject(engine, deferred, QString::fromUtf8(exception.what()));
        } catch (...) {
            JsPromises::reject(engine, deferred, QStringLiteral("%1() threw an exception").arg(method));
        }
    };
    QFutureWatcher<QVariant> *watcher = nullptr;
    const QJSValue promise = m_promises.make(this, &watcher, settle);
    const QString problem = checkArguments(object, arguments);
    watcher->setFuture(problem.isEmpty()
                               ? QDistLock::invokeLocked(object, method.toUtf8().constData(), arguments)
                               : refusedCall(QStringLiteral("invokeLocked(): %1(): %2").arg(method, problem)));
    return promise;
}

} // namespace QDistLock
