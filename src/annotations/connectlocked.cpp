// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/impl/connector.h>

#include "annotations/lockedmethod.h"
#include "annotations/metatypes.h"
#include "annotations/parsing.h"
#include "annotations/threadcalls.h"
#include "annotations/threadpost.h"
#include "base/logging.h"

using namespace Qt::StringLiterals;

namespace QDistLock::Detail {

using MetaTypes::typeNames;
using Parsing::nameForError;

namespace {

struct NoJob final : LockedJob
{
    void run(const std::shared_ptr<void> &) override {}
};

} // namespace

LockedEmission::~LockedEmission() = default;

EmissionRelay::EmissionRelay(const std::shared_ptr<const LockedMethod> &method, QObject *receiver)
    : m_tally(std::make_shared<PostTally>(receiver, [method, guard = QPointer<QObject>(receiver)] {
        const LockedCall call{method, {}, guard, {}};
        WaitingCall(call, std::make_shared<NoJob>()).fail(nullptr, threadEnded());
    }))
{
    m_tally->watch();
    connect(this, &EmissionRelay::emitted, receiver,
            [method, guard = QPointer<QObject>(receiver),
             tally = m_tally](const std::shared_ptr<LockedEmission> &emission) {
                // In the destructor of the receiver, which must not be called, guard is null.
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
    // Delivered in the receiver's thread, where the receiver is not destroyed at the same time.
    connect(this, &EmissionRelay::ended, receiver, [onDestroyed] { disconnect(onDestroyed); });
}

EmissionRelay::~EmissionRelay()
{
    Q_EMIT ended();
}

namespace {

/// The method of this name with parameters of these types.
QMetaMethod findMethod(const QMetaObject *object, const QByteArray &name, const QList<QMetaType> &types)
{
    for (int i = object->methodCount() - 1; i >= 0; --i) {
        const QMetaMethod method = object->method(i);
        if (method.name() != name || !LockedMethod::canBeCalled(method) || method.parameterCount() != types.size())
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

} // namespace

std::shared_ptr<const LockedMethod> annotatedMethod(const QObject *receiver, const char *name,
                                                    const QList<QMetaType> &types)
{
    QString error;
    std::shared_ptr<const LockedMethod> method;
    if (!receiver) {
        error = u"the receiver is null"_s;
    } else if (error = noApplication(); !error.isEmpty()) {
        // Its emissions would be lost.
    } else if (!name) {
        error = u"%1: the slot that takes (%2) has no annotation; write QDL_LOCKED_METHOD(slot, \"key\") in its class, or give connectLocked() a key%3"_s
                        .arg(QString::fromLatin1(receiver->metaObject()->className()), typeNames(types),
                             LockedMethod::brokenAnnotations(receiver->metaObject()));
    } else {
        const QMetaMethod found = findMethod(receiver->metaObject(), name, types);
        if (found.isValid()) {
            method = LockedMethod::get(receiver->metaObject(), found, &error);
        } else {
            error = u"%1::%2: there is no slot or invokable method of this name that takes (%3)"_s.arg(
                    QString::fromLatin1(receiver->metaObject()->className()), nameForError(QString::fromUtf8(name)),
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
        error = u"the receiver is null"_s;
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
    if (objects.contains(nullptr)) { // the key may need the object
        WaitingCall(call, job).fail(nullptr, argumentDestroyed());
        return;
    }
    QString error;
    const auto requests = method->requests({receiver, count, types, values}, &error);
    call.requests = requests.value_or(QList<LockRequest>());
    auto waiting = std::make_unique<WaitingCall>(call, job);
    if (requests)
        ThreadCalls::submit(std::move(waiting));
    else
        waiting->fail(nullptr, optionsError(error));
}

} // namespace QDistLock::Detail
