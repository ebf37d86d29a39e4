// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "distributedlockssingleton.h"

#include <QDistLock/annotations.h>

#include <QtCore/qloggingcategory.h>
#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <memory>

using namespace Qt::StringLiterals;

namespace QDistLock {

Q_DECLARE_LOGGING_CATEGORY(lcQml)

/// A JavaScript function may be called and destroyed only in the thread of its engine.
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

/// Returns why the arguments cannot be passed to a method of \a object, or an empty string if they can.
static QString checkArguments(const QObject *object, const QVariantList &arguments)
{
    const bool otherThread = object && object->thread() != QThread::currentThread();
    for (qsizetype i = 0; i < arguments.size(); ++i) {
        if (!arguments.at(i).isValid())
            return u"argument %1 is undefined; pass null if there is no value"_s.arg(i + 1);
        if (otherThread && hasFunction(arguments.at(i))) {
            return u"argument %1 is or contains a JavaScript function, but the object lives in another thread than the QML engine; pass a value"_s
                    .arg(i + 1);
        }
    }
    return QString();
}

/// The QObjects in the result of a call. The engine uses them later and in its own thread; by then they may be
/// destroyed.
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
    /// Returns why the engine must not use the objects, or an empty string if it may.
    QString problem() const
    {
        if (inOtherThread)
            return u"an object in its result lives in another thread than the QML engine; return a value"_s;
        if (objects.contains(nullptr))
            return u"an object in its result was destroyed before the promise was resolved"_s;
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

QJSValue DistributedLocksSingleton::invokeLocked(QObject *object, const QString &method)
{
    return invokeLocked(object, method, QVariantList());
}

QJSValue DistributedLocksSingleton::invokeLocked(QObject *object, const QString &method, const QVariantList &arguments)
{
    // A getter or a Proxy among the arguments has thrown; the engine passes that exception on to the caller.
    if (const QJSEngine *const engine = qjsEngine(this); engine && engine->hasError())
        return QJSValue();
    const auto returned = std::make_shared<ResultObjects>();
    const auto settle = [method, returned](QJSEngine *engine, const QJSValue &deferred,
                                           const QFuture<QVariant> &future) {
        try {
            Detail::throwException(QFuture<void>(future));
            if (future.resultCount() == 0) {
                JsPromiseFactory::reject(engine, deferred, u"%1(): the call was cancelled"_s.arg(method),
                                         DistributedLock::CancelledError);
                return;
            }
            if (const QString problem = returned->problem(); !problem.isEmpty()) {
                JsPromiseFactory::reject(engine, deferred, u"%1() has run, but %2"_s.arg(method, problem));
                return;
            }
            const QVariant value = future.result();
            JsPromiseFactory::resolve(deferred, value.isValid() ? engine->toScriptValue(value) : QJSValue());
        } catch (const LockUnavailable &unavailable) {
            const LockResult result = unavailable.result();
            JsPromiseFactory::reject(engine, deferred, result.errorString, result.error);
        } catch (const std::exception &exception) {
            JsPromiseFactory::reject(engine, deferred, QString::fromUtf8(exception.what()));
        } catch (...) {
            JsPromiseFactory::reject(engine, deferred, u"%1() threw an exception"_s.arg(method));
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
                               : refusedCall(u"invokeLocked(): %1(): %2"_s.arg(method, problem)));
    return promise;
}

} // namespace QDistLock
