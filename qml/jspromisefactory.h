// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockresult.h>

#include <QtCore/qfuturewatcher.h>
#include <QtQml/qjsengine.h>
#include <QtQml/qjsvalue.h>

namespace QDistLock {

using namespace Qt::StringLiterals;

/// Turns futures into JavaScript promises, on behalf of one QObject that belongs to a QML engine.
class JsPromiseFactory
{
public:
    /*!
        Returns a promise. When the future that the caller sets in \a watcher finishes, \a settle(engine, deferred,
        future) is called from the event loop; it must call resolve() or reject() with \a deferred.

        The watcher is a child of the engine. So the promise is settled even if \a owner is destroyed first (its
        futures finish all the same), and no callback runs after the engine was destroyed. If \a owner has no engine,
        the returned value is undefined and \a settle is never called.
    */
    template<typename T, typename Settle>
    QJSValue make(QObject *owner, QFutureWatcher<T> **watcher, Settle settle)
    {
        QJSEngine *const engine = qjsEngine(owner);
        *watcher = new QFutureWatcher<T>(engine ? static_cast<QObject *>(engine) : owner);
        QObject::connect(*watcher, &QFutureWatcherBase::finished, *watcher, &QObject::deleteLater);
        if (!engine)
            return QJSValue();
        const QJSValue deferred = newDeferred(engine);
        QObject::connect(
                *watcher, &QFutureWatcherBase::finished, *watcher,
                [engine, watcher = *watcher, deferred, settle] { settle(engine, deferred, watcher->future()); });
        return deferred.property(u"promise"_s);
    }

    /// As make(): a promise of what \a convert(engine, value) returns for the value of the reply. It is rejected if the
    /// reply is an error.
    template<typename T, typename Convert>
    QJSValue promiseOf(QObject *owner, const QFuture<LockReply<T>> &requested, Convert convert)
    {
        using Reply = LockReply<T>;
        QFutureWatcher<Reply> *watcher = nullptr;
        const auto settle = [convert](QJSEngine *engine, const QJSValue &deferred, const QFuture<Reply> &future) {
            const Reply reply = future.result();
            if (reply)
                resolve(deferred, convert(engine, reply.value));
            else
                reject(engine, deferred, reply.errorString, reply.error);
        };
        const QJSValue promise = make(owner, &watcher, settle);
        watcher->setFuture(requested);
        return promise;
    }

    static void resolve(const QJSValue &deferred, const QJSValue &value)
    {
        deferred.property(u"resolve"_s).call({value});
    }
    /// Rejects with a JavaScript Error whose property `error` is \a error, a DistributedLock::Error, unless that is 0.
    static void reject(QJSEngine *engine, const QJSValue &deferred, const QString &text, int error = 0)
    {
        QJSValue reason = engine->newErrorObject(QJSValue::GenericError, text);
        if (error != 0)
            reason.setProperty(u"error"_s, error);
        deferred.property(u"reject"_s).call({reason});
    }

private:
    QJSValue newDeferred(QJSEngine *engine)
    {
        if (!m_factory.isCallable()) {
            m_factory = engine->evaluate(uR"((function() {
                const result = {};
                result.promise = new Promise((resolve, reject) => {
                    result.resolve = resolve;
                    result.reject = reject;
                });
                return result;
            }))"_s);
        }
        return m_factory.call();
    }

    QJSValue m_factory;
};

} // namespace QDistLock
