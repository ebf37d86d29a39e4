// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/annotations.h>

#include "annotation.h"
#include "callargument.h"
#include "lockedcall.h"
#include "logging.h"
#include "servername.h"

#include <QDistLock/lockregistry.h>

#include <QtCore/qassociativeiterable.h>
#include <QtCore/qcoreapplication.h>
#include <QtCore/qmutex.h>
#include <QtCore/qsequentialiterable.h>
#include <QtCore/qstringconverter.h>
#include <QtCore/qthread.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

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

bool isList(QMetaType type)
{
    return type.id() >= QMetaType::User && QMetaType::canView(type, QMetaType::fromType<QSequentialIterable>());
}

bool isMap(QMetaType type)
{
    return type.id() >= QMetaType::User && QMetaType::canView(type, QMetaType::fromType<QAssociativeIterable>());
}

bool mayHaveObjects(QMetaType type)
{
    switch (type.id()) {
    case QMetaType::UnknownType:
        return false;
    case QMetaType::QVariant:
    case QMetaType::QVariantList:
    case QMetaType::QVariantMap:
    case QMetaType::QVariantHash:
        return true;
    default:
        return type.flags().testFlag(QMetaType::PointerToQObject) || isList(type) || isMap(type);
    }
}

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
    } else if (type.id() == QMetaType::QVariantHash) {
        for (const QVariant &element : *static_cast<const QVariantHash *>(value))
            addObjects(element.metaType(), element.constData(), objects);
    } else if (isList(type)) {
        const QVariant list(type, value); // the sequence refers to it
        const auto sequence = list.value<QSequentialIterable>();
        if (!mayHaveObjects(sequence.metaContainer().valueMetaType()))
            return;
        for (const QVariant &element : sequence)
            addObjects(element.metaType(), element.constData(), objects);
    } else if (isMap(type)) {
        const QVariant map(type, value);
        const auto association = map.value<QAssociativeIterable>();
        const QMetaAssociation container = association.metaContainer();
        if (!mayHaveObjects(container.keyMetaType()) && !mayHaveObjects(container.mappedMetaType()))
            return;
        for (auto entry = association.begin(); entry != association.end(); ++entry) {
            for (const QVariant &element : {QVariant(entry.key()), QVariant(entry.value())})
                addObjects(element.metaType(), element.constData(), objects);
        }
    }
}

/// A parameter that is a view of text or bytes, for arguments that own theirs.
struct ViewType
{
    QMetaType view;
    QMetaType owner;
    QVariant (*make)(const QVariant &owner);
};

template<typename View, typename Owner>
QVariant makeView(const QVariant &owner)
{
    return QVariant::fromValue(Detail::Kept<View>::argument(*static_cast<const Owner *>(owner.constData())));
}

const ViewType *findViewType(QMetaType type)
{
    static const ViewType types[] = {
            {QMetaType::fromType<QModelIndex>(), QMetaType::fromType<QPersistentModelIndex>(),
             makeView<QModelIndex, QPersistentModelIndex>},
            {QMetaType::fromType<QStringView>(), QMetaType::fromType<QString>(), makeView<QStringView, QString>},
            {QMetaType::fromType<QAnyStringView>(), QMetaType::fromType<QString>(), makeView<QAnyStringView, QString>},
            {QMetaType::fromType<QByteArrayView>(), QMetaType::fromType<QByteArray>(), makeView<QByteArrayView, QByteArray>},
            {QMetaType::fromType<QUtf8StringView>(), QMetaType::fromType<QByteArray>(),
             makeView<QUtf8StringView, QByteArray>},
            {QMetaType::fromType<const char *>(), QMetaType::fromType<QByteArray>(), makeView<const char *, QByteArray>},
            {QMetaType::fromType<std::string_view>(), QMetaType::fromType<QByteArray>(), [](const QVariant &owner) {
                 const auto *const bytes = static_cast<const QByteArray *>(owner.constData());
                 return QVariant::fromValue(std::string_view(bytes->constData(), size_t(bytes->size())));
             }},
    };
    const auto found = std::find_if(std::begin(types), std::end(types),
                                    [type](const ViewType &known) { return known.view == type; });
    return found == std::end(types) ? nullptr : found;
}

/// `T` of `QFuture<T>`; nullopt for any other type.
std::optional<QByteArray> resultTypeOf(QMetaType type)
{
    const QByteArray name(type.name());
    if (!name.startsWith("QFuture<") || !name.endsWith('>'))
        return std::nullopt;
    return name.mid(8).chopped(1).trimmed();
}

/// The QFuture of whatever type in \a value. All of them are a QFutureInterfaceBase and nothing else; Qt's conversion to
/// QFuture<void> is there only for declared types.
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

/// A call of invokeLocked().
class InvokeJob final : public Detail::FutureJob<QVariant>
{
public:
    InvokeJob(const QVariantList &arguments, const Detail::ResultHook &returned)
        : m_returned(returned)
    {
        for (const QVariant &argument : arguments) {
            m_arguments.append(Detail::ownedArgument(argument));
            addObjects(argument.metaType(), argument.constData(), &m_objects);
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
        if (const auto result = resultTypeOf(method.returnMetaType()); result && *result != "void") {
            m_resultType = QMetaType::fromName(*result);
            if (!m_resultType.isValid()) {
                refuse(QStringLiteral("%1: Qt does not know the result type of the QFuture; call qRegisterMetaType<%2>() at the "
                                      "start of the program")
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
            makeViews(); // an index may be another one by now
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
            give(result);
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
    /// Holds \a locks until the QFuture in \a returned has finished in one way or the other.
    void follow(const QVariant &returned, const std::shared_ptr<void> &locks)
    {
        QFutureInterface<void> work(futureIn(returned));
        auto self = std::static_pointer_cast<InvokeJob>(shared_from_this());
        // Its results live for as long as a future of its type.
        Detail::whenFinished(work.future(), QFuture<void>(future()), [returned, self, held = locks]() mutable {
            self->take(returned, std::move(held));
        });
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
                give(*result);
        } catch (...) {
            Detail::logException(locks);
            promise().setException(std::current_exception());
        }
        locks.reset();
        end();
        tell();
    }

    void makeViews()
    {
        m_views.clear();
        for (int i = 0; i < m_arguments.size(); ++i) {
            const ViewType *const view = findViewType(m_method.parameterMetaType(i));
            m_views.append(view ? view->make(m_arguments.at(i)) : QVariant());
        }
    }

    void give(const QVariant &result)
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
        const QString method = QString::fromLatin1(meta->className()) + QStringLiteral("::")
                + nameForError(QString::fromUtf8(name));
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
            const ViewType *const view = findViewType(method.parameterMetaType(i));
            const QMetaType type = view ? view->owner : method.parameterMetaType(i);
            const auto match = convertArgument(&(*arguments)[i], type, &problem);
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
    QVariantList m_views; ///< of arguments, where the parameter is a view
    ObjectList m_objects; ///< among the arguments
    const Detail::ResultHook m_returned;
    QMetaType m_resultType; ///< of the QFuture that the method returns
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

QString keyText(const QVariant &value)
{
    QString error;
    return escapedForKey(valueToKeyText(value, &error).value_or(QString()));
}

QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments)
{
    return Detail::invokeLocked(object, method, arguments, {});
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

LockedEmission::~LockedEmission() = default;

EmissionRelay::EmissionRelay(const std::shared_ptr<const LockedMethod> &method, QObject *receiver)
    : m_tally(std::make_shared<EmissionTally>(receiver, method))
{
    m_tally->watch(receiver->thread());
    connect(this, &EmissionRelay::emitted, receiver,
            [method, guard = QPointer<QObject>(receiver),
             tally = m_tally](const std::shared_ptr<LockedEmission> &emission) {
                // The receiver is still connected in its destructor, and must not be called there.
                if (tally->arrived() && guard)
                    emission->begin(method);
            });
}

void EmissionRelay::send(const std::shared_ptr<LockedEmission> &emission)
{
    m_tally->made();
    Q_EMIT emitted(emission);
}

void EmissionRelay::endWith(QObject *receiver, const QMetaObject::Connection &connection)
{
    const QMetaObject::Connection onDestroyed = connect(
            receiver, &QObject::destroyed, receiver, [connection] { disconnect(connection); }, Qt::DirectConnection);
    // In the receiver's thread, where the receiver cannot be destroyed at the same time.
    connect(this, &EmissionRelay::ended, receiver, [onDestroyed] { disconnect(onDestroyed); });
}

EmissionRelay::~EmissionRelay()
{
    Q_EMIT ended();
}

/// For any parameter that takes either; bytes that are not UTF-8 would not survive as a text.
static QVariant textOrBytes(QByteArrayView bytes)
{
    QStringDecoder decoder(QStringDecoder::Utf8, QStringDecoder::Flag::Stateless);
    const QString text = decoder(bytes);
    return decoder.hasError() ? QVariant(bytes.toByteArray()) : QVariant(text);
}

QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments,
                               const ResultHook &returned)
{
    const auto job = std::make_shared<InvokeJob>(arguments, returned);
    const auto future = job->future();
    const QByteArray name(method);
    if (!object)
        job->refuse(QStringLiteral("the object whose %1 was called is null").arg(quoted(QString::fromUtf8(name))));
    else if (const QString problem = noApplication(); !problem.isEmpty())
        job->refuse(problem);
    else if (object->thread() == QThread::currentThread())
        job->begin(object, name);
    else
        postTo(object, [job, object, name] { job->begin(object, name); }, [job] { job->fail(threadEnded(), false); });
    return future;
}

QVariant ownedArgument(const QVariant &value)
{
    const QMetaType type = value.metaType();
    if (type == QMetaType::fromType<QStringView>())
        return value.value<QStringView>().toString();
    if (type == QMetaType::fromType<QAnyStringView>())
        return value.value<QAnyStringView>().toString();
    if (type == QMetaType::fromType<QUtf8StringView>())
        return textOrBytes(value.value<QUtf8StringView>());
    if (type == QMetaType::fromType<QLatin1String>())
        return QString(value.value<QLatin1String>());
    if (type == QMetaType::fromType<QByteArrayView>())
        return value.value<QByteArrayView>().toByteArray();
    if (type == QMetaType::fromType<const char *>())
        return textOrBytes(value.value<const char *>());
    if (type == QMetaType::fromType<std::string_view>())
        return textOrBytes(value.value<std::string_view>());
    if (type == QMetaType::fromType<QModelIndex>())
        return QVariant::fromValue(QPersistentModelIndex(value.toModelIndex()));
    return value;
}

QList<QPointer<const QObject>> objectsIn(qsizetype count, const QMetaType *types, const void *const *values)
{
    ObjectList objects;
    for (qsizetype i = 0; i < count; ++i)
        addObjects(types[i], values[i], &objects);
    return objects;
}

void whenFinished(const QFuture<void> &work, const QFuture<void> &outer, const std::function<void()> &ended)
{
    auto *const watcher = new QFutureWatcher<void>(lockedCallsOfThisThread());
    QObject::connect(watcher, &QFutureWatcherBase::finished, watcher, [watcher, ended] {
        watcher->deleteLater();
        ended();
    });
    auto *const outerWatcher = new QFutureWatcher<void>(watcher);
    QObject::connect(outerWatcher, &QFutureWatcherBase::canceled, watcher, [watcher] { watcher->cancel(); });
    outerWatcher->setFuture(outer);
    watcher->setFuture(work);
}

void holdUntilFinished(const QFuture<void> &work, const std::shared_ptr<void> &locks)
{
    auto *const watcher = new QFutureWatcher<void>(lockedCallsOfThisThread());
    QObject::connect(watcher, &QFutureWatcherBase::finished, watcher, [watcher, held = locks]() mutable {
        watcher->deleteLater();
        try {
            throwException(watcher->future());
        } catch (...) {
            Detail::logException(held);
        }
        held.reset();
    });
    watcher->setFuture(work);
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
                            .arg(QString::fromLatin1(receiver->metaObject()->className()),
                                 nameForError(QString::fromUtf8(name)), typeNames(types));
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

void callLocked(const std::shared_ptr<const LockedMethod> &method, QObject *receiver, qsizetype count,
                const QMetaType *types, const void *const *values, const QList<QPointer<const QObject>> &objects,
                const std::shared_ptr<LockedJob> &job)
{
    LockedCall call{method, {}, receiver, objects};
    if (objects.contains(nullptr)) { // keys may be made of it
        WaitingCall(call, job).fail(nullptr, argumentDestroyed());
        return;
    }
    QString error;
    const auto requests = method->requests({receiver, count, types, values}, &error);
    call.requests = requests.value_or(QList<LockRequest>());
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
    request.server = server.isEmpty() ? LockRegistry::defaultServer() : normalizedServer(server);
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
