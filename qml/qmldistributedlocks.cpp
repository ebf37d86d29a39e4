// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmldistributedlocks.h"

#include <QDistLock/annotations.h>

#include <QtCore/qloggingcategory.h>
#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <memory>

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

/// The objects in the result of a call. The engine uses them later, in its own thread, when they may be destroyed.
struct ResultObjects
{
    QList<QPointer<const QObject>> objects;
    bool inOtherThread = false;

    void set(const QVariant &result, const QThread *engineThread)
    {
        const QMetaType type = result.metaType();
        const void *const value = result.constData();
        objects = Detail::objectsIn(1, &type, &value);
        inOtherThread = std::any_of(objects.begin(), objects.end(),
                                    [engineThread](const QObject *object) { return object->thread() != engineThread; });
    }
    /// Why the engine must not use them; empty if it may.
    QString problem() const
    {
        if (inOtherThread)
            return QStringLiteral("an object in its result lives in another thread than the engine's; return a value");
        if (objects.contains(nullptr))
            return QStringLiteral("an object in its result was destroyed before the promise was resolved");
        return QString();
    }
};

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
    // A getter or a Proxy among the arguments has thrown: the engine throws that to the caller.
    if (const QJSEngine *const engine = qjsEngine(this); engine && engine->hasError())
        return QJSValue();
    const auto returned = std::make_shared<ResultObjects>();
    const auto settle = [method, returned](QJSEngine *engine, const QJSValue &deferred, const QFuture<QVariant> &future) {
        try {
            Detail::throwException(QFuture<void>(future));
            if (future.resultCount() == 0) {
                JsPromises::reject(engine, deferred, QStringLiteral("%1(): the call was cancelled").arg(method),
                                   DistributedLock::CancelledError);
                return;
            }
            if (const QString problem = returned->problem(); !problem.isEmpty()) {
                JsPromises::reject(engine, deferred, QStringLiteral("%1() has run, but %2").arg(method, problem));
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
                               ? Detail::invokeLocked(object, method.toUtf8().constData(), arguments,
                                                      [returned, engineThread = thread()](const QVariant &result) {
                                                          returned->set(result, engineThread);
                                                      })
                               : refusedCall(QStringLiteral("invokeLocked(): %1(): %2").arg(method, problem)));
    return promise;
}

} // namespace QDistLock
