// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/annotations.h>

#include "annotation.h"
#include "callargument.h"
#include "lockedcall.h"
#include "logging.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qsequentialiterable.h>
#include <QtCore/qthread.h>

#include <algorithm>

namespace QDistLock {

namespace {

Q_GLOBAL_STATIC(LockedCalls, lockedCalls)

bool canBeCalled(const QMetaMethod &method)
{
    return method.methodType() == QMetaMethod::Slot || method.methodType() == QMetaMethod::Method;
}

QString typeNames(const QList<QMetaType> &types)
{
    QByteArrayList names;
    for (const QMetaType type : types)
        names.append(type.isValid() ? type.name() : "an unknown type");
    return QString::fromLatin1(names.join(", "));
}

/// The method that a slot's pointer points to.
QMetaMethod findMethod(const QMetaObject *object, const QByteArray &name, const QList<QMetaType> &types)
{
    for (int i = object->methodCount() - 1; i >= 0; --i) {
        const QMetaMethod method = object->method(i);
        if (method.name() != name || !canBeCalled(method) || method.parameterCount() != types.size())
            continue;
        bool same = true;
        for (int p = 0; same && p < types.size(); ++p) {
            const QMetaType type = method.parameterMetaType(p);
            same = !type.isValid() || !types.at(p).isValid() || type == types.at(p);
        }
        if (same)
            return method;
    }
    return QMetaMethod();
}

/// Without it nothing that is posted is delivered.
QString noApplication()
{
    return QCoreApplication::instance() ? QString()
                                        : QStringLiteral("there is no QCoreApplication; create it first");
}

LockResult optionsError(const QString &text)
{
    return {DistributedLock::OptionsError, text, 0};
}

using ObjectList = QList<QPointer<const QObject>>;

void addObjects(QMetaType type, const void *value, ObjectList *objects)
{
    if (type.flags().testFlag(QMetaType::PointerToQObject)) {
        if (const auto *const object = *static_cast<const QObject *const *>(value))
            objects->append(object);
    } else if (type == QMetaType::fromType<QVariant>()) {
        const auto *const variant = static_cast<const QVariant *>(value);
        addObjects(variant->metaType(), variant->constData(), objects);
    } else if (type.id() == QMetaType::QVariantList) {
        for (const QVariant &element : *static_cast<const QVariantList *>(value))
            addObjects(element.metaType(), element.constData(), objects);
    } else if (type.id() == QMetaType::QVariantMap) {
        for (const QVariant &element : *static_cast<const QVariantMap *>(value))
            addObjects(element.metaType(), element.constData(), objects);
    } else if (type.id() >= QMetaType::User && QMetaType::canView(type, QMetaType::fromType<QSequentialIterable>())) {
        const QVariant list(type, value); // the sequence refers to it
        const auto sequence = list.value<QSequentialIterable>();
        if (!sequence.metaContainer().valueMetaType().flags().testFlag(QMetaType::PointerToQObject))
            return;
        for (const QVariant &element : sequence)
            addObjects(element.metaType(), element.constData(), objects);
    }
}

/// The objects that these point to, in lists and maps as well.
ObjectList objectsOf(qsizetype count, const QMetaType *types, const void *const *values)
{
    ObjectList objects;
    for (qsizetype i = 0; i < count; ++i)
        addObjects(types[i], values[i], &objects);
    return objects;
}

/// A call of invokeLocked().
class InvokeJob final : public Detail::FutureJob<QVariant>
{
public:
    explicit InvokeJob(const QVariantList &arguments)
        : m_arguments(arguments)
    {
        for (const QVariant &argument : arguments) {
            const QMetaType type = argument.metaType();
            const void *const value = argument.constData();
            m_objects += objectsOf(1, &type, &value);
        }
    }

    /// Before there is a call that could be reported.
    void refuse(const QString &text)
    {
        qCWarning(lcLock, "invokeLocked(): %ls", qUtf16Printable(text));
        fail(optionsError(text), false);
    }

    /// In the thread of \a object.
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
        m_object = object;
        m_method = method;
        QList<QMetaType> types;
        QList<const void *> values;
        for (int i = 0; i < m_arguments.size(); ++i) {
            types.append(method.parameterMetaType(i));
            values.append(pointerTo(i));
        }
        Detail::callLocked(locked, object, types.size(), types.constData(), values.constData(), shared_from_this());
    }

    void run(const std::shared_ptr<void> &locks) override
    {
        try {
            const QMetaType type = m_method.returnMetaType();
            const bool isVariant = type == QMetaType::fromType<QVariant>();
            QVariant result;
            if (!isVariant && type.isValid() && type.id() != QMetaType::Void)
                result = QVariant(type);
            QList<void *> pointers{isVariant ? &result : result.isValid() ? result.data() : nullptr};
            for (int i = 0; i < m_arguments.size(); ++i)
                pointers.append(pointerTo(i));
            QMetaObject::metacall(m_object, QMetaObject::InvokeMetaMethod, m_method.methodIndex(), pointers.data());
            promise().addResult(result);
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
        tell();
        return true;
    }

private:
    void *pointerTo(int argument)
    {
        QVariant &value = m_arguments[argument];
        return m_method.parameterMetaType(argument) == QMetaType::fromType<QVariant>() ? static_cast<void *>(&value)
                                                                                      : value.data();
    }

    /// The overload that the arguments match best; they are converted to its types.
    QMetaMethod choose(const QMetaObject *meta, const QByteArray &name, QString *error)
    {
        QMetaMethod best;
        QVariantList bestArguments;
        int bestMatch = -1;
        QByteArrayList known;
        QStringList problems;
        for (int i = meta->methodCount() - 1; i >= 0; --i) {
            const QMetaMethod method = meta->method(i);
            if (method.name() != name || !canBeCalled(method))
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
        const QString method = QString::fromLatin1(meta->className()) + QStringLiteral("::") + QString::fromUtf8(name);
        const QString signatures = QString::fromLatin1(known.join(", "));
        if (known.isEmpty()) {
            *error = QStringLiteral("%1: there is no slot or invokable method of this name").arg(method);
        } else if (problems.size() == 1) { // no overloads to choose among
            *error = QStringLiteral("%1: %2; there is %3").arg(method, problems.first(), signatures);
        } else {
            QList<QMetaType> types;
            for (const QVariant &argument : std::as_const(m_arguments))
                types.append(argument.metaType());
            *error = QStringLiteral("%1: no method of this name takes (%2); there is %3")
                             .arg(method, typeNames(types), signatures);
        }
        return best;
    }

    /// How well all arguments match; -1 if one cannot be passed: then why is appended to \a problems.
    static int convert(const QMetaMethod &method, QVariantList *arguments, QStringList *problems)
    {
        int sum = 0;
        for (int i = 0; i < arguments->size(); ++i) {
            QString problem;
            const auto match = convertArgument(&(*arguments)[i], method.parameterMetaType(i), &problem);
            if (match == ArgumentMatch::None) {
                problems->append(QStringLiteral("argument %1: %2").arg(i + 1).arg(problem));
                return -1;
            }
            sum += int(match);
        }
        return sum;
    }

    QObject *m_object = nullptr;
    QMetaMethod m_method;
    QVariantList m_arguments;
    ObjectList m_objects; ///< among the arguments
};

} // namespace

class Detail::EmissionTally : public std::enable_shared_from_this<EmissionTally>
{
public:
    EmissionTally(QObject *receiver, const std::shared_ptr<const LockedMethod> &method)
        : m_receiver(receiver)
        , m_method(method)
    {
    }
    ~EmissionTally() { QObject::disconnect(m_threadEnd); }

    void watch(QThread *thread)
    {
        QObject::disconnect(m_threadEnd);
        m_thread = thread;
        m_ended = thread && thread->isFinished();
        if (!thread || !m_receiver)
            return;
        // Called at once if the receiver lives in the thread that ends, and in the receiver's thread where it has been moved.
        m_threadEnd = QObject::connect(thread, &QThread::finished, m_receiver, [weak = weak_from_this()] {
            if (const auto tally = weak.lock())
                tally->threadEnds();
        });
    }
    void made()
    {
        {
            const QMutexLocker locker(&m_mutex);
            if (!m_ended || m_thread == QThread::currentThread()) {
                ++m_underWay;
                return;
            }
            ++m_reported;
        }
        report();
    }
    bool arrived()
    {
        const QMutexLocker locker(&m_mutex);
        if (m_thread != QThread::currentThread())
            watch(QThread::currentThread()); // the receiver was moved
        m_ended = QThread::currentThread()->isFinished(); // it may have been started again
        if (m_reported > 0) {
            --m_reported;
            return false;
        }
        --m_underWay;
        return true;
    }

private:
    Q_DISABLE_COPY_MOVE(EmissionTally)
    struct NoJob final : LockedJob
    {
        void run(const std::shared_ptr<void> &) override {}
    };

    void threadEnds()
    {
        qint64 lost = 0;
        {
            const QMutexLocker locker(&m_mutex);
            if (m_thread != QThread::currentThread()) {
                watch(QThread::currentThread());
                return;
            }
            m_ended = true;
            lost = std::max<qint64>(m_underWay, 0);
            m_underWay -= lost;
            m_reported += lost;
        }
        for (; lost > 0; --lost)
            report(); // this thread has no event loop any more
    }
    void report() const
    {
        const LockedCall call{m_method, {}, m_receiver, {}};
        WaitingCall(call, std::make_shared<NoJob>()).fail(nullptr, threadEnded());
    }

    const QPointer<QObject> m_receiver;
    const std::shared_ptr<const LockedMethod> m_method;
    QMutex m_mutex; ///< of what follows
    QThread *m_thread = nullptr; ///< where the receiver was last seen
    QMetaObject::Connection m_threadEnd;
    bool m_ended = false;
    qint64 m_underWay = 0; ///< below 0 between a direct call and made()
    qint64 m_reported = 0; ///< of these the events may still be there
};

LockedCalls *LockedCalls::instance()
{
    return lockedCalls();
}

LockedCalls::LockedCalls()
{
    if (const auto *const application = QCoreApplication::instance())
        moveToThread(application->thread());
}

LockedCalls::~LockedCalls() = default;

QStringList validateAnnotations(const QMetaObject *metaObject)
{
    return LockedMethod::validate(metaObject);
}

QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments)
{
    const auto job = std::make_shared<InvokeJob>(arguments);
    const auto future = job->future();
    const QByteArray name(method);
    if (!object)
        job->refuse(QStringLiteral("the object whose \"%1\" was called is null").arg(QString::fromUtf8(name)));
    else if (const QString problem = noApplication(); !problem.isEmpty())
        job->refuse(problem);
    else if (object->thread() == QThread::currentThread())
        job->begin(object, name);
    else
        postTo(object, [job, object, name] { job->begin(object, name); }, [job] { job->fail(threadEnded(), false); });
    return future;
}

namespace Detail {

LockedJob::LockedJob() = default;

LockedJob::~LockedJob() = default;

void LockedJob::tell() {}

bool LockedJob::fail(const LockResult &, bool)
{
    return false;
}

bool LockedJob::isCanceled() const
{
    return false;
}

std::unique_ptr<QFutureWatcherBase> LockedJob::makeWatcher() const
{
    return nullptr;
}

void logException(const std::shared_ptr<void> &locks)
{
    LockedCallQueue::logException(locks);
}

LockResult cancelledCall()
{
    return {DistributedLock::CancelledError,
            QStringLiteral("the call was taken back, or its object or thread has gone, before it could run"), 0};
}

std::shared_ptr<const LockedMethod> annotatedMethod(const QObject *receiver, const char *name,
                                                    const QList<QMetaType> &types)
{
    QString error;
    std::shared_ptr<const LockedMethod> method;
    if (!receiver) {
        error = QStringLiteral("the receiver is null");
    } else if (error = noApplication(); !error.isEmpty()) {
        // Its emissions would vanish.
    } else if (!name) {
        error = QStringLiteral("%1: the slot that takes (%2) has no annotation; write QDL_LOCKED_METHOD(slot, \"key\") "
                               "after Q_OBJECT in its class, or give connectLocked() a key%3")
                        .arg(QString::fromLatin1(receiver->metaObject()->className()), typeNames(types),
                             LockedMethod::brokenAnnotations(receiver->metaObject()));
    } else {
        const QMetaMethod found = findMethod(receiver->metaObject(), name, types);
        if (found.isValid()) {
            method = LockedMethod::get(receiver->metaObject(), found, &error);
        } else {
            error = QStringLiteral("%1::%2: there is no slot or invokable method of this name that takes (%3)")
                            .arg(QString::fromLatin1(receiver->metaObject()->className()), QString::fromUtf8(name),
                                 typeNames(types));
        }
    }
    if (!method)
        qCWarning(lcLock, "connectLocked(): %ls; nothing was connected", qUtf16Printable(error));
    return method;
}

template<typename Options>
static std::shared_ptr<const LockedMethod> makeMethod(const QObject *receiver, const char *name,
                                                      const QList<QMetaType> &types, const QString &key,
                                                      const Options &options)
{
    QString error;
    std::shared_ptr<const LockedMethod> method;
    if (!receiver) {
        error = QStringLiteral("the receiver is null");
    } else if (error = noApplication(); error.isEmpty()) {
        const QMetaObject *const meta = receiver->metaObject();
        MethodSignature signature{meta, {}, types};
        if (name) {
            if (const QMetaMethod found = findMethod(meta, name, types); found.isValid())
                signature.names = found.parameterNames();
        }
        method = LockedMethod::make(meta->className(), name, signature, key, options, &error);
    }
    if (!method)
        qCWarning(lcLock, "connectLocked(): %ls; nothing was connected", qUtf16Printable(error));
    return method;
}

std::shared_ptr<const LockedMethod> methodWithKey(const QObject *receiver, const char *name,
                                                  const QList<QMetaType> &types, const QString &key,
                                                  const LockOptions &options)
{
    AnnotationOptions annotationOptions;
    annotationOptions.lock = options;
    return makeMethod(receiver, name, types, key, annotationOptions);
}

std::shared_ptr<const LockedMethod> methodWithKey(const QObject *receiver, const char *name,
                                                  const QList<QMetaType> &types, const QString &key,
                                                  const QString &options)
{
    return makeMethod(receiver, name, types, key, options);
}

std::shared_ptr<EmissionTally> tallyEmissions(QObject *receiver, const std::shared_ptr<const LockedMethod> &method)
{
    const auto tally = std::make_shared<EmissionTally>(receiver, method);
    tally->watch(receiver->thread());
    return tally;
}

void emissionMade(EmissionTally *tally)
{
    tally->made();
}

bool emissionArrived(EmissionTally *tally)
{
    return tally->arrived();
}

void callLocked(const std::shared_ptr<const LockedMethod> &method, QObject *receiver, qsizetype count,
                const QMetaType *types, const void *const *values, const std::shared_ptr<LockedJob> &job)
{
    QString error;
    auto requests = method->requests({receiver, count, types, values}, &error);
    LockedCall call{method, requests.value_or(QList<LockRequest>()), receiver, objectsOf(count, types, values)};
    auto waiting = std::make_unique<WaitingCall>(call, job);
    if (requests)
        LockedCallQueue::submit(std::move(waiting));
    else
        waiting->fail(nullptr, optionsError(error));
}

void runLocked(const QUrl &server, const QString &name, const LockOptions &options, QObject *context,
               const std::shared_ptr<LockedJob> &job)
{
    LockRequest request;
    request.server = server.isEmpty() ? LockRegistry::defaultServer() : server;
    request.name = name;
    request.options = options;
    LockedCall call;
    call.requests.append(request);
    call.receiver = context;
    auto waiting = std::make_unique<WaitingCall>(call, job);
    if (!context || context->thread() == QThread::currentThread()) {
        LockedCallQueue::submit(std::move(waiting));
        return;
    }
    const auto shared = std::make_shared<LockedCallQueue::CallPointer>(std::move(waiting));
    postTo(
            context, [shared] { LockedCallQueue::submit(std::move(*shared)); },
            [shared] { (*shared)->fail(nullptr, threadEnded()); });
}

QObject *lockedCallsOfThisThread()
{
    return LockedCallQueue::instance();
}

} // namespace Detail
} // namespace QDistLock
