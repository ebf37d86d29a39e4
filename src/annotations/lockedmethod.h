// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "annotations/annotationoptions.h"
#include "annotations/keytemplate.h"

#include <QDistLock/lockaddress.h>
#include <QDistLock/lockoptions.h>

#include <QtCore/qlist.h>
#include <QtCore/qmetaobject.h>

#include <memory>
#include <optional>

namespace QDistLock {

/// One lock that one call needs.
struct LockRequest
{
    LockAddress address; ///< is resolved()
    LockOptions options;
    OnBusy onBusy = OnBusy::Wait;
    int maxQueued = DefaultMaxQueued;

    /// If false, the lock is tried once.
    bool mayWait() const
    {
        return (onBusy == OnBusy::Wait || onBusy == OnBusy::Latest) && options.wait > std::chrono::milliseconds(0);
    }
    /// Equal for two requests if and only if they are for the same lock.
    QString identity() const;
    QString serverText() const; ///< without secrets
};

/*!
    The annotations of one method, parsed and bound. Immutable, so usable from any thread.
*/
class LockedMethod
{
public:
    /// The annotations of \a method in the most derived class that has any. Null with \a error, which names class,
    /// method and annotation, if there is none or it is wrong. Not cached: a library may be unloaded, and a QML type
    /// destroyed, and another meta-object may then have the same address.
    static std::shared_ptr<const LockedMethod> get(const QMetaObject *object, const QMetaMethod &method,
                                                   QString *error);
    /// The lock \a key of a slot without annotation. \a className and \a methodName are for messages.
    static std::shared_ptr<const LockedMethod> make(const QByteArray &className, const QByteArray &methodName,
                                                    const MethodSignature &signature, const QString &key,
                                                    const AnnotationOptions &options, QString *error);
    static std::shared_ptr<const LockedMethod> make(const QByteArray &className, const QByteArray &methodName,
                                                    const MethodSignature &signature, const QString &key,
                                                    const QString &options, QString *error);

    /// The errors in the annotations of \a object and its base classes; see QDistLock::validateAnnotations().
    static QStringList validate(const QMetaObject *object);
    /// The same, as the end of an error about an annotation that was not found.
    static QString brokenAnnotations(const QMetaObject *object);

    /// Slots and invokable methods can be called under a lock.
    static bool canBeCalled(const QMetaMethod &method);

    QByteArray className() const { return m_className; }
    QByteArray methodName() const { return m_methodName; }
    QString displayName() const;
    /// The same for all objects that get() returns for one method; make() gives each object another one.
    QByteArray identity() const { return m_identity; }

    /// The locks that a call needs: sorted, without duplicates, without those whose condition is false. nullopt with
    /// \a error, which names class, method and annotation.
    std::optional<QList<LockRequest>> requests(const CallArguments &arguments, QString *error) const;

private:
    struct Annotation
    {
        KeyTemplate key;
        AnnotationOptions options;
        QString text;        ///< for messages
        QString keyTemplate; ///< as it was written
    };
    /// Adds an annotation; returns its errors, or an empty text.
    QString add(const QString &key, const QString &options, const MethodSignature &signature);
    /// The same, with \a text in place of the annotation in messages.
    QString add(const QString &key, const QString &options, const QString &text, const MethodSignature &signature);
    QStringList addParsed(const QString &key, const AnnotationOptions &options, const QString &text,
                          const MethodSignature &signature);
    QString describe(const QString &text, const QString &problem) const;
    /// Errors for annotations with the same key and different options.
    QStringList contradictions() const;
    /// The errors in the annotations that \a owner itself has for its methods \a name.
    static QStringList validateMethods(const QMetaObject *owner, const QByteArray &name);

    QByteArray m_className;
    QByteArray m_methodName;
    QByteArray m_identity;
    QList<Annotation> m_annotations;
};

} // namespace QDistLock
