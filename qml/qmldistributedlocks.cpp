// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmldistributedlocks.h"

#include <QDistLock/annotations.h>

namespace QDistLock {

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
    watcher->setFuture(QDistLock::invokeLocked(object, method.toUtf8().constData(), arguments));
    return promise;
}

} // namespace QDistLock
