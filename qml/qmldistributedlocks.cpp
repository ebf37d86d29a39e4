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
    const auto settle = [method](QJSEngine *engine, const QJSValue &deferred, QFuture<QVariant> future) {
        bool settled = false;
        // Runs at once, with a result or an exception; not if the future was cancelled.
        const auto ended = future.then(QtFuture::Launch::Sync, [&](const QFuture<QVariant> &finished) {
            settled = true;
            try {
                const QVariant value = finished.result();
                JsPromises::resolve(deferred, value.isValid() ? engine->toScriptValue(value) : QJSValue());
            } catch (const LockUnavailable &unavailable) {
                const LockResult result = unavailable.result();
                JsPromises::reject(engine, deferred, result.errorString, result.error);
            } catch (const std::exception &exception) {
                JsPromises::reject(engine, deferred, QString::fromUtf8(exception.what()));
            } catch (...) {
                JsPromises::reject(engine, deferred, QStringLiteral("%1() threw an exception").arg(method));
            }
        });
        Q_UNUSED(ended)
        if (!settled)
            JsPromises::reject(engine, deferred, QStringLiteral("%1(): the call was cancelled").arg(method),
                               DistributedLock::CancelledError);
    };
    QFutureWatcher<QVariant> *watcher = nullptr;
    const QJSValue promise = m_promises.make(this, &watcher, settle);
    watcher->setFuture(QDistLock::invokeLocked(object, method.toUtf8().constData(), arguments));
    return promise;
}

} // namespace QDistLock
