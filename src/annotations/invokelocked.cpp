// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/annotations.h>

#include "annotations/callargument.h"
#include "annotations/lockedmethod.h"
#include "annotations/metatypes.h"
#include "annotations/parsing.h"
#include "annotations/threadpost.h"
#include "annotations/viewtype.h"
#include "annotations/waitingcall.h"
#include "base/logging.h"

#include <QtCore/qthread.h>

#include <optional>

using namespace Qt::StringLiterals;

namespace QDistLock {

using MetaTypes::typeNames;
using Parsing::nameForError;

namespace {

/// `T` of `QFuture<T>`; nullopt for any other type.
std::optional<QByteArray> resultTypeOf(QMetaType type)
{
    const QByteArray name(type.name());
    if (!name.startsWith("QFuture<") || !name.endsWith('>'))
        return std::nullopt;
    return name.mid(8).chopped(1).trimmed();
}

/// The QFuture in \a value. A QFuture of any type is a QFutureInterfaceBase and nothing else; Qt converts only declared
/// types to QFuture<void>.
const QFutureInterfaceBase &futureIn(const QVariant &value)
{
    static_assert(sizeof(QFuture<QString>) == sizeof(QFutureInterfaceBase));
    return *static_cast<const QFutureInterfaceBase *>(value.constData());
}

/// The first result of \a finished, which is of \a type; nullopt if there is none.
std::optional<QVariant> resultOf(const QFutureInterfaceBase &finished, QMetaType type)
{
    const QMutexLocker locker(&finished.mutex());
    const QtPrivate::ResultStoreBase &results = finished.resultStoreBase();
    if (!results.contains(0))
        return std::nullopt;
    const void *const result = results.resultAt(0).pointer<char>();
    return type == QMetaType::fromType<QVariant>() ? *static_cast<const QVariant *>(result) : QVariant(type, result);
}

/// One call of invokeLocked().
class InvokeJob final : public Detail::FutureJob<QVariant>
{
public:
    InvokeJob(const QVariantList &arguments, const Detail::ResultHook &returned)
        : m_returned(returned)
    {
        for (const QVariant &argument : arguments) {
            m_arguments.append(Detail::ownedArgument(argument));
            const QMetaType type = argument.metaType();
            const void *const value = argument.constData();
            m_objects += Detail::objectsIn(1, &type, &value);
        }
    }

    /// Ends a call that has no valid method.
    void refuse(const QString &text)
    {
        qCWarning(lcLock, "invokeLocked(): %ls", qUtf16Printable(text));
        fail(optionsError(text), false);
    }

    /// Queues the call; called in the thread of \a object.
    void begin(QObject *object, const QByteArray &methodName)
    {
        if (m_objects.contains(nullptr)) {
            fail(argumentDestroyed(), false);
            return;
        }
        const QMetaObject *const meta = object->metaObject();
        QString error;
        const QMetaMethod method = choose(meta, methodName, &error);
        if (!method.isValid()) {
            refuse(error);
            return;
        }
        const auto locked = LockedMethod::get(meta, method, &error);
        if (!locked) {
            refuse(error);
            return;
        }
        if (const auto result = resultTypeOf(method.returnMetaType()); result && *result != "void") {
            m_resultType = QMetaType::fromName(*result);
            if (!m_resultType.isValid()) {
                refuse(u"%1: Qt does not know the result type of the QFuture; call qRegisterMetaType<%2>() at the start of the program"_s
                               .arg(locked->displayName(), QString::fromUtf8(*result)));
                return;
            }
        }
        m_object = object;
        m_method = method;
        makeViews();
        QList<QMetaType> types;
        QList<const void *> values;
        for (int i = 0; i < m_arguments.size(); ++i) {
            types.append(method.parameterMetaType(i));
            values.append(pointerTo(i));
        }
        Detail::callLocked(locked, object, types.size(), types.constData(), values.constData(), m_objects,
                           shared_from_this());
    }

    void run(const std::shared_ptr<void> &locks) override
    {
        try {
            makeViews(); // the row of a model index may have changed
            const QMetaType type = m_method.returnMetaType();
            const bool isVariant = type == QMetaType::fromType<QVariant>();
            QVariant result;
            if (!isVariant && type.isValid() && type.id() != QMetaType::Void)
                result = QVariant(type);
            QList<void *> pointers{isVariant ? &result : result.isValid() ? result.data() : nullptr};
            for (int i = 0; i < m_arguments.size(); ++i)
                pointers.append(pointerTo(i));
            QMetaObject::metacall(m_object, QMetaObject::InvokeMetaMethod, m_method.methodIndex(), pointers.data());
            if (resultTypeOf(type)) {
                follow(result, locks);
                return;
            }
            addResult(result);
        } catch (...) {
            Detail::logException(locks);
            promise().setException(std::current_exception());
        }
        end();
    }

    bool fail(const LockResult &result, bool skipped) override
    {
        if (!skipped)
            return FutureJob::fail(result, skipped);
        promise().addResult(QVariant());
        end();
        finish();
        return true;
    }

private:
    /// Holds \a locks until the QFuture in \a returned has finished or was cancelled.
    void follow(const QVariant &returned, const std::shared_ptr<void> &locks)
    {
        QFutureInterface<void> work(futureIn(returned));
        auto self = std::static_pointer_cast<InvokeJob>(shared_from_this());
        // \a returned keeps the results, which exist as long as a future of its type.
        Detail::whenFinished(work.future(), QFuture<void>(future()),
                             [returned, self, held = locks]() mutable { self->take(returned, std::move(held)); });
    }
    void take(const QVariant &returned, std::shared_ptr<void> locks)
    {
        try {
            const QFutureInterfaceBase &work = futureIn(returned);
            Detail::throwException(QFutureInterface<void>(work).future());
            const auto result = m_resultType.isValid() ? resultOf(work, m_resultType) : QVariant();
            if (work.isCanceled() || !result)
                promise().future().cancel();
            else
                addResult(*result);
        } catch (...) {
            Detail::logException(locks);
            promise().setException(std::current_exception());
        }
        locks.reset();
        end();
        finish();
    }

    void makeViews()
    {
        m_views.clear();
        for (int i = 0; i < m_arguments.size(); ++i) {
            const ViewType *const view = findViewType(m_method.parameterMetaType(i));
            m_views.append(view ? view->make(m_arguments.at(i)) : QVariant());
        }
    }

    void addResult(const QVariant &result)
    {
        if (m_returned)
            m_returned(result);
        promise().addResult(result);
    }

    void *pointerTo(int argument)
    {
        QVariant &value = m_views.at(argument).isValid() ? m_views[argument] : m_arguments[argument];
        return m_method.parameterMetaType(argument) == QMetaType::fromType<QVariant>() ? static_cast<void *>(&value)
                                                                                       : value.data();
    }

    /// Finds the overload that the arguments match best, and converts them to its types.
    QMetaMethod choose(const QMetaObject *meta, const QByteArray &name, QString *error)
    {
        QMetaMethod best;
        QVariantList bestArguments;
        int bestMatch = -1;
        QByteArrayList known;
        QStringList problems;
        for (int i = meta->methodCount() - 1; i >= 0; --i) {
            const QMetaMethod method = meta->method(i);
            if (method.name() != name || !LockedMethod::canBeCalled(method))
                continue;
            known.prepend(method.methodSignature());
            if (method.parameterCount() != m_arguments.size())
                continue;
            QVariantList converted = m_arguments;
            const int match = convert(method, &converted, &problems);
            if (match <= bestMatch)
                continue;
            bestMatch = match;
            best = method;
            bestArguments = converted;
        }
        if (best.isValid()) {
            m_arguments = bestArguments;
            return best;
        }
        const QString method = QString::fromLatin1(meta->className()) + u"::"_s + nameForError(QString::fromUtf8(name));
        const QString signatures = QString::fromLatin1(known.join(", "));
        if (known.isEmpty()) {
            *error = u"%1: there is no slot or invokable method of this name"_s.arg(method);
        } else if (problems.size() == 1) { // there is only one candidate
            *error = u"%1: %2; there is %3"_s.arg(method, problems.first(), signatures);
        } else {
            QList<QMetaType> types;
            for (const QVariant &argument : std::as_const(m_arguments))
                types.append(argument.metaType());
            *error = u"%1: no method of this name takes (%2); there is %3"_s.arg(method, typeNames(types), signatures);
        }
        return best;
    }

    /// Returns how well all arguments match. If one cannot be passed, returns -1 and appends the reason to \a problems.
    static int convert(const QMetaMethod &method, QVariantList *arguments, QStringList *problems)
    {
        int sum = 0;
        for (int i = 0; i < arguments->size(); ++i) {
            QString problem;
            const ViewType *const view = findViewType(method.parameterMetaType(i));
            const QMetaType type = view ? view->owner : method.parameterMetaType(i);
            const auto match = convertArgument(&(*arguments)[i], type, &problem);
            if (match == ArgumentMatch::None) {
                problems->append(u"argument %1: %2"_s.arg(i + 1).arg(problem));
                return -1;
            }
            sum += int(match);
        }
        return sum;
    }

    QObject *m_object = nullptr;
    QMetaMethod m_method;
    QVariantList m_arguments;
    QVariantList m_views;                     ///< the arguments whose parameters are views; invalid for others
    QList<QPointer<const QObject>> m_objects; ///< among the arguments
    const Detail::ResultHook m_returned;
    QMetaType m_resultType; ///< of the QFuture that the method returns
};

} // namespace

QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments)
{
    return Detail::invokeLocked(object, method, arguments, {});
}

QFuture<QVariant> Detail::invokeLocked(QObject *object, const char *method, const QVariantList &arguments,
                                       const Detail::ResultHook &returned)
{
    const auto job = std::make_shared<InvokeJob>(arguments, returned);
    const auto future = job->future();
    const QByteArray name(method);
    if (!object)
        job->refuse(u"the object whose %1 was called is null"_s.arg(Detail::quoted(QString::fromUtf8(name))));
    else if (const QString problem = noApplication(); !problem.isEmpty())
        job->refuse(problem);
    else if (object->thread() == QThread::currentThread())
        job->begin(object, name);
    else
        postTo(
                object, [job, object, name] { job->begin(object, name); }, [job] { job->fail(threadEnded(), false); });
    return future;
}

} // namespace QDistLock
