// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "annotations/lockedmethod.h"

#include "annotations/parsing.h"
#include "engine/enginefactory.h"
#include "engine/servername.h"
#include "lock/resolvedaddress.h"

#include <QDistLock/annotations.h>
#include <QDistLock/impl/namebytes.h>

#include <QtCore/qregularexpression.h>

#include <algorithm>
#include <tuple>
#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

using Detail::quoted;
using namespace Parsing;

namespace {

constexpr char LockInfoName[] = "QDistLock.lock:";
constexpr char OptionsInfoName[] = "QDistLock.options:";

/// The `name` in "QDistLock.lock:name"; empty for another class info.
QByteArray annotatedName(const QMetaClassInfo &info)
{
    const QByteArrayView name(info.name());
    const QByteArrayView start(LockInfoName);
    return name.startsWith(start) ? name.sliced(start.size()).toByteArray() : QByteArray();
}

struct RawAnnotation
{
    QString key;
    QString options;
};

/// The annotations of \a method in the class of \a object, without those of base classes.
QList<RawAnnotation> ownAnnotations(const QMetaObject *object, const QByteArray &method)
{
    QList<RawAnnotation> annotations;
    for (int i = object->classInfoOffset(); i < object->classInfoCount(); ++i) {
        if (annotatedName(object->classInfo(i)) != method)
            continue;
        RawAnnotation annotation{QString::fromUtf8(object->classInfo(i).value()), QString()};
        if (i + 1 < object->classInfoCount() && object->classInfo(i + 1).name() == OptionsInfoName + method)
            annotation.options = QString::fromUtf8(object->classInfo(i + 1).value());
        annotations.append(annotation);
    }
    return annotations;
}

const QMetaObject *annotatingClass(const QMetaObject *object, const QByteArray &method)
{
    while (object && ownAnnotations(object, method).isEmpty())
        object = object->superClass();
    return object;
}

/// The names of the methods that the class of \a object annotates, without those of base classes.
QList<QByteArray> annotatedNames(const QMetaObject *object)
{
    QList<QByteArray> names;
    for (int i = object->classInfoOffset(); i < object->classInfoCount(); ++i) {
        const QByteArray name = annotatedName(object->classInfo(i));
        if (!name.isEmpty() && !names.contains(name))
            names.append(name);
    }
    return names;
}

MethodSignature signatureOf(const QMetaObject *object, const QMetaMethod &method)
{
    MethodSignature signature{object, method.parameterNames(), {}};
    for (int i = 0; i < method.parameterCount(); ++i)
        signature.types.append(method.parameterMetaType(i));
    return signature;
}

/// The error for a method that returns before its work has ended, unless its return type signals that end.
QString returnProblem(const QMetaMethod &method)
{
    const QMetaType type = method.returnMetaType();
    const QString name = QString::fromLatin1(type.isValid() ? type.name() : method.typeName());
    static const QRegularExpression nested(u"^QFuture\\s*<\\s*QFuture\\b"_s);
    if (nested.match(name).hasMatch())
        return u"it returns %1, and the future inside is not followed; return future.unwrap()"_s.arg(name);
    static const QRegularExpression asynchronous(
            u"^(QCoro::(\\w+::)?\\w*Task|std::(\\w+::)?(shared_)?future|boost::asio::awaitable)\\b"_s);
    if (!asynchronous.match(name).hasMatch())
        return QString();
    return u"it returns %1, and the lock would be released before its work has ended; return a QFuture, which is followed to its end, or hold the lock in the coroutine with co_await lock.acquireAwaitable()"_s
            .arg(name);
}

QString annotationText(const QByteArray &method, const RawAnnotation &annotation)
{
    QString text = u"QDL_LOCKED_METHOD(%1, %2"_s.arg(nameForError(QString::fromUtf8(method)), quoted(annotation.key));
    if (!annotation.options.isEmpty())
        text += u", %1"_s.arg(quoted(withoutSecrets(annotation.options)));
    return text + QLatin1Char(')');
}

/// Whether annotations with these options and the same key can be of one method.
bool agree(const AnnotationOptions &a, const AnnotationOptions &b)
{
    const auto values = [](const AnnotationOptions &options) {
        // All of its members: another one does not compile until somebody has looked here.
        const auto &[mode, permits, take, lease, wait, retryInterval, maxRetries, autoRenew, fair, minHold, minReplicas,
                     replicaTimeout, repairMissingTtl, label] = options.lock;
        return std::tuple(options.onBusy, options.maxQueued, mode, permits, take, lease, wait, retryInterval,
                          maxRetries, autoRenew, fair, minHold, minReplicas, replicaTimeout, repairMissingTtl, label);
    };
    return values(a) == values(b);
}

} // namespace

QString LockRequest::identity() const
{
    return lockSpace(address.server()) + QChar(QChar::Null) + keyOf(address);
}

QString LockRequest::serverText() const
{
    return withoutSecrets(address.server()).toString();
}

bool LockedMethod::canBeCalled(const QMetaMethod &method)
{
    return method.methodType() == QMetaMethod::Slot || method.methodType() == QMetaMethod::Method;
}

QString LockedMethod::displayName() const
{
    if (m_methodName.isEmpty())
        return QString::fromLatin1(m_className);
    return QString::fromLatin1(m_className) + QLatin1String("::") + nameForError(QString::fromUtf8(m_methodName));
}

QString LockedMethod::describe(const QString &text, const QString &problem) const
{
    return u"%1: %2: %3"_s.arg(displayName(), text, problem);
}

QStringList LockedMethod::contradictions() const
{
    QStringList problems;
    for (auto second = m_annotations.begin(); second != m_annotations.end(); ++second) {
        const auto first = std::find_if(m_annotations.begin(), second, [second](const Annotation &annotation) {
            return isSameLockSpace(normalizedServer(annotation.options.server),
                                   normalizedServer(second->options.server))
                    && annotation.key.isSame(annotation.options.keyPrefix, second->key, second->options.keyPrefix);
        });
        if (first != second && !agree(first->options, second->options)) {
            const QString problem = u"it has the same key as %1, but other options; give both the same"_s;
            problems.append(describe(second->text, problem.arg(first->text)));
        }
    }
    return problems;
}

QString LockedMethod::add(const QString &key, const QString &options, const MethodSignature &signature)
{
    return add(key, options, annotationText(m_methodName, {key, options}), signature);
}

QString LockedMethod::add(const QString &key, const QString &options, const QString &text,
                          const MethodSignature &signature)
{
    QString problem;
    const auto parsed = AnnotationOptions::parse(options, &problem);
    QStringList problems = addParsed(key, parsed.value_or(AnnotationOptions()), text, signature);
    if (!parsed)
        problems.append(u"options, "_s + problem);
    return problems.isEmpty() ? QString() : describe(text, problems.join(QLatin1String("; ")));
}

QStringList LockedMethod::addParsed(const QString &key, const AnnotationOptions &options, const QString &text,
                                    const MethodSignature &signature)
{
    QStringList problems;
    const auto check = [&problems](const char *part, const QString &problem) {
        if (!problem.isEmpty())
            problems.append(QLatin1String(part) + problem);
    };
    QString problem;
    auto parsed = KeyTemplate::parse(key, &problem);
    if (parsed)
        problem = parsed->bind(signature);
    check("key, ", problem);
    Annotation annotation{parsed.value_or(KeyTemplate()), options, text, key};
    check("condition, ", annotation.options.bind(signature));
    check("options, ", options.lock.validationError());
    if (parsed)
        check("key, ", parsed->nameProblem(options.keyPrefix));
    if (problems.isEmpty())
        m_annotations.append(annotation);
    return problems;
}

std::shared_ptr<const LockedMethod> LockedMethod::get(const QMetaObject *object, const QMetaMethod &method,
                                                      QString *error)
{
    const QByteArray name = method.name();
    const QMetaObject *const owner = annotatingClass(object, name);
    auto locked = std::make_shared<LockedMethod>();
    locked->m_className = owner ? owner->className() : object->className();
    locked->m_methodName = name;
    locked->m_identity = locked->m_className + "::" + method.methodSignature();
    if (!owner) {
        *error = u"%1: there is no annotation for this method; write QDL_LOCKED_METHOD(%2, \"key\") "
                 "above it, outside sections of slots and signals, or give a key in the call%3"_s.arg(
                         locked->displayName(), nameForError(QString::fromUtf8(name)), brokenAnnotations(object));
        return nullptr;
    }
    // The annotation uses the names of the parameters in its own class.
    const int index = owner->indexOfMethod(method.methodSignature().constData());
    const QMetaMethod declared = index >= 0 ? owner->method(index) : method;
    const MethodSignature signature = signatureOf(owner, declared);
    const auto annotations = ownAnnotations(owner, name);
    QStringList problems;
    for (const RawAnnotation &annotation : annotations) {
        if (const QString problem = locked->add(annotation.key, annotation.options, signature); !problem.isEmpty())
            problems.append(problem);
        if (const QString problem = returnProblem(declared); !problem.isEmpty())
            problems.append(locked->describe(annotationText(name, annotation), problem));
    }
    problems += locked->contradictions();
    *error = problems.join(QLatin1String("; "));
    if (!problems.isEmpty())
        return nullptr;
    return locked;
}

std::shared_ptr<const LockedMethod> LockedMethod::make(const QByteArray &className, const QByteArray &methodName,
                                                       const MethodSignature &signature, const QString &key,
                                                       const AnnotationOptions &options, QString *error)
{
    auto locked = std::make_shared<LockedMethod>();
    locked->m_className = className;
    locked->m_methodName = methodName;
    locked->m_identity = QByteArray::number(quintptr(locked.get()));
    const QString text = u"key %1"_s.arg(quoted(key));
    const QStringList problems = locked->addParsed(key, options, text, signature);
    *error = problems.isEmpty() ? QString() : locked->describe(text, problems.join(QLatin1String("; ")));
    return problems.isEmpty() ? locked : nullptr;
}

std::shared_ptr<const LockedMethod> LockedMethod::make(const QByteArray &className, const QByteArray &methodName,
                                                       const MethodSignature &signature, const QString &key,
                                                       const QString &options, QString *error)
{
    auto locked = std::make_shared<LockedMethod>();
    locked->m_className = className;
    locked->m_methodName = methodName;
    locked->m_identity = QByteArray::number(quintptr(locked.get()));
    const QString text = u"key %1, options %2"_s.arg(quoted(key), quoted(withoutSecrets(options)));
    *error = locked->add(key, options, text, signature);
    return error->isEmpty() ? locked : nullptr;
}

QString LockedMethod::brokenAnnotations(const QMetaObject *object)
{
    const QStringList problems = validate(object);
    return problems.isEmpty() ? QString() : u"; broken annotations: "_s + problems.join(QLatin1String("; "));
}

QStringList LockedMethod::validateMethods(const QMetaObject *owner, const QByteArray &name)
{
    QList<QMetaMethod> methods;
    for (int i = 0; i < owner->methodCount(); ++i) {
        const QMetaMethod method = owner->method(i);
        // moc clones a method for each of its default arguments.
        if (method.name() == name && canBeCalled(method) && !(method.attributes() & QMetaMethod::Cloned))
            methods.append(method);
    }

    LockedMethod empty;
    empty.m_className = owner->className();
    empty.m_methodName = name;
    QStringList problems;
    const auto annotations = ownAnnotations(owner, name);
    for (const RawAnnotation &annotation : annotations) {
        const QString text = annotationText(name, annotation);
        if (methods.isEmpty())
            problems.append(empty.describe(text, u"there is no slot or invokable method of this name"_s));
        for (const QMetaMethod &method : std::as_const(methods)) {
            LockedMethod locked = empty;
            problems.append(locked.add(annotation.key, annotation.options, signatureOf(owner, method)));
            if (const QString problem = returnProblem(method); !problem.isEmpty())
                problems.append(empty.describe(text, problem));
        }
    }
    for (const QMetaMethod &method : std::as_const(methods)) {
        LockedMethod locked = empty;
        for (const RawAnnotation &annotation : annotations)
            locked.add(annotation.key, annotation.options, signatureOf(owner, method));
        problems += locked.contradictions();
    }
    return problems;
}

QStringList LockedMethod::validate(const QMetaObject *object)
{
    if (!object)
        return {};
    QStringList problems = validate(object->superClass());
    const QList<QByteArray> names = annotatedNames(object);
    for (const QByteArray &name : names)
        problems += validateMethods(object, name);
    problems.removeAll(QString());
    problems.removeDuplicates();
    return problems;
}

std::optional<QList<LockRequest>> LockedMethod::requests(const CallArguments &arguments, QString *error) const
{
    QList<LockRequest> requests;
    for (const Annotation &annotation : m_annotations) {
        QString problem;
        const auto wanted = annotation.options.isWanted(arguments, &problem);
        if (!wanted)
            return fail(error, describe(annotation.text, problem));
        if (!*wanted)
            continue;
        const auto name = annotation.key.evaluate(arguments, &problem);
        if (!name)
            return fail(error, describe(annotation.text, u"key, "_s + problem));
        const AnnotationOptions &options = annotation.options;
        const auto address = LockAddress(*name).withKeyPrefix(options.keyPrefix).withServer(options.server);
        LockOptions lock = options.lock;
        if (lock.label.isEmpty() && annotation.key.hasValues())
            lock.label = annotation.keyTemplate;
        requests.append({resolved(address), lock, options.onBusy, options.maxQueued});
    }
    if (requests.size() < 2)
        return requests;
    // The same order for all methods, so that they cannot deadlock; of one lock that first which excludes most.
    std::stable_sort(requests.begin(), requests.end(), [](const LockRequest &a, const LockRequest &b) {
        const auto openness = [](const LockOptions &options) {
            return std::tuple(options.mode, options.permits != 0, -options.take);
        };
        const QString first = a.identity();
        const QString second = b.identity();
        return first != second ? Detail::isAcquiredBefore(first, second) : openness(a.options) < openness(b.options);
    });
    requests.erase(std::unique(requests.begin(), requests.end(),
                               [](const LockRequest &a, const LockRequest &b) { return a.identity() == b.identity(); }),
                   requests.end());
    return requests;
}

QStringList validateAnnotations(const QMetaObject *metaObject)
{
    return LockedMethod::validate(metaObject);
}

} // namespace QDistLock
