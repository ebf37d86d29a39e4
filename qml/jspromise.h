// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qfuturewatcher.h>
#include <QtQml/qjsengine.h>
#include <QtQml/qjsvalue.h>

namespace QDistLock {

/// Makes JavaScript promises out of futures, for one QObject that belongs to an engine.
class JsPromises
{
public:
    /*!
        A promise that the future set in \a watcher settles: \a settle(engine, deferred, future) calls
        `resolve` or `reject` of \a deferred. The watcher belongs to the engine: it outlives \a owner, whose
        futures all finish, and goes away with the engine, which no callback must reach then. Settling
        always comes from the event loop. Without an engine the value is undefined, and nothing is called.
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
        QObject::connect(*watcher, &QFutureWatcherBase::finished, *watcher,
                         [engine, watcher = *watcher, deferred, settle] {
                             settle(engine, deferred, watcher->future());
                         });
        return deferred.property(QStringLiteral("promise"));
    }

    static void resolve(const QJSValue &deferred, const QJSValue &value)
    {
        deferred.property(QStringLiteral("resolve")).call({value});
    }
    /// With an Error that has \a error, one of DistributedLock's, as its property `error`.
    static void reject(QJSEngine *engine, const QJSValue &deferred, const QString &text, int error = 0)
    {
        QJSValue reason = engine->newErrorObject(QJSValue::GenericError, text);
        if (error != 0)
            reason.setProperty(QStringLiteral("error"), error);
        deferred.property(QStringLiteral("reject")).call({reason});
    }

private:
    QJSValue newDeferred(QJSEngine *engine)
    {
        if (!m_factory.isCallable()) {
            m_factory = engine->evaluate(QStringLiteral("(function() {"
                                                        "    const result = {};"
                                                        "    result.promise = new Promise((resolve, reject) => {"
                                                        "        result.resolve = resolve;"
                                                        "        result.reject = reject;"
                                                        "    });"
                                                        "    return result;"
                                                        "})"));
        }
        return m_factory.call();
    }

    QJSValue m_factory;
};

} // namespace QDistLock
