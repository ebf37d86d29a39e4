// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockoptions.h>

#include <QtCore/qlist.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qurl.h>

#include <memory>
#include <optional>

namespace QDistLock {

/// A name or path as it is, or quoted and cut if it is long or has anything but letters, digits, '_', '.' and ':'.
QString nameForError(const QString &name);

/// What an annotated call does when somebody else has the lock. Latest: waits, until a newer call of the same method of
/// the same receiver takes its place.
enum class OnBusy { Wait, Skip, Fail, Latest };

/// The calls of one method of one receiver that may wait, unless its annotation says otherwise.
constexpr int DefaultMaxQueued = 10000;

/// The arguments of one call, where they lie, and the object it is for.
struct CallArguments
{
    const QObject *object = nullptr;
    qsizetype count = 0;
    const QMetaType *types = nullptr;
    const void *const *values = nullptr;
};

/// What an annotation may refer to: known before any call.
struct MethodSignature
{
    /// Null: not known yet, properties of the receiver are looked up when called.
    const QMetaObject *object = nullptr;
    QList<QByteArray> names; ///< empty ones for parameters without a name
    QList<QMetaType> types;  ///< invalid ones where moc knew only the name
};

/*!
    Where a value of a call comes from: `this`, a parameter's name, or its number from 1 on; then
    properties of gadgets and objects, as in `order.customer.id`.
*/
class ValuePath
{
public:
    /// nullopt with \a error in words. Any text at all may be given.
    static std::optional<ValuePath> parse(QStringView text, QString *error);

    QString toString() const;
    /// Finds the parameter, and what can be known of the properties; an error in words, or nothing.
    QString bind(const MethodSignature &signature);
    /// Only after bind(). nullopt with \a error in words.
    std::optional<QVariant> read(const CallArguments &arguments, QString *error) const;
    /// Only after bind(): whether both read the same value of a call.
    bool isSame(const ValuePath &other) const { return m_index == other.m_index && m_properties == other.m_properties; }

private:
    static constexpr int This = -1;

    QByteArray m_source;
    QList<QByteArray> m_properties;
    int m_index = This; ///< of the parameter
};

/*!
    Literal text with `{path}` in it, or `{path?}` if the value may be empty; `{{` and `}}` stand for braces.

    Values are escaped, so that different values never give the same key: the text between two of them always has a
    character that the first of them does not contain.
*/
class KeyTemplate
{
public:
    /// nullopt with \a error in words, with the position from 1 on. Any text at all may be given.
    static std::optional<KeyTemplate> parse(QStringView text, QString *error);
    QString bind(const MethodSignature &signature);
    std::optional<QString> evaluate(const CallArguments &arguments, QString *error) const;
    /// Why no call can have a lock of such a name, in words, or nothing.
    QString nameProblem(const QString &prefix) const;
    /// Only after bind(): whether both, after their key prefixes, give the same key for each call.
    bool isSame(const QString &prefix, const KeyTemplate &other, const QString &otherPrefix) const;

private:
    struct Part
    {
        QString literal; ///< before the value
        std::optional<ValuePath> value;
        bool mayBeEmpty = false;
        char32_t separator = 0; ///< a character of the next literal, if a value follows that: the value has it escaped
    };
    QList<Part> m_parts;
};

/// The options text of an annotation: `name=value; name=value`.
struct AnnotationOptions
{
    LockOptions lock;
    OnBusy onBusy = OnBusy::Wait;
    int maxQueued = DefaultMaxQueued;
    QUrl server; ///< as normalizedServer() spells it; empty = the default server
    std::optional<ValuePath> condition;
    bool conditionNegated = false;

    /// nullopt with \a error in words, with the position from 1 on. Any text at all may be given.
    static std::optional<AnnotationOptions> parse(QStringView text, QString *error);
};

/// A value as text, not escaped yet. nullopt with \a error in words.
std::optional<QString> valueToKeyText(const QVariant &value, QString *error);
/// \a text with all but letters, digits, `-_.@+~` and characters beyond ASCII as `%XX`, and \a separator, too.
QString escapedForKey(QStringView text, char32_t separator = 0);

/// One lock that one call needs.
struct LockRequest
{
    QUrl server; ///< as normalizedServer() spells it; never empty
    QString name;
    LockOptions options;
    OnBusy onBusy = OnBusy::Wait;
    int maxQueued = DefaultMaxQueued;

    /// False: it is tried once.
    bool mayWait() const
    {
        return (onBusy == OnBusy::Wait || onBusy == OnBusy::Latest) && options.wait > std::chrono::milliseconds(0);
    }
    QString key() const { return options.keyPrefix + name; }
    /// Server and key: equal for two requests exactly if they are for the same lock.
    QString lockId() const;
    QString serverText() const; ///< fit for logs
};

/*!
    The annotations of one method, parsed and bound. Immutable, so usable from any thread.
*/
class LockedMethod
{
public:
    /// Of the most derived class in \a object's line that annotates the method. Null with \a error, which names class,
    /// method and text, if there is none or it is wrong. Not cached: meta-objects of libraries and of QML types go, and
    /// others come in their place.
    static std::shared_ptr<const LockedMethod> get(const QMetaObject *object, const QMetaMethod &method, QString *error);
    /// For a slot without annotation. \a className and \a methodName are for messages.
    static std::shared_ptr<const LockedMethod> make(const QByteArray &className, const QByteArray &methodName,
                                                    const MethodSignature &signature, const QString &key,
                                                    const AnnotationOptions &options, QString *error);
    static std::shared_ptr<const LockedMethod> make(const QByteArray &className, const QByteArray &methodName,
                                                    const MethodSignature &signature, const QString &key,
                                                    const QString &options, QString *error);

    static bool isAnnotated(const QMetaObject *object, const QByteArray &methodName);
    /// Every annotation of \a object and its base classes; see QDistLock::validateAnnotations().
    static QStringList validate(const QMetaObject *object);
    /// The same as the end of an error about an annotation that was not found; empty if nothing is wrong.
    static QString brokenAnnotations(const QMetaObject *object);

    QByteArray className() const { return m_className; }
    QByteArray methodName() const { return m_methodName; }
    QString displayName() const;
    /// Equal for two that get() made of one method; one that make() made has its own.
    QByteArray identity() const { return m_identity; }

    /// What a call needs: sorted, without duplicates, without those whose condition is false. nullopt
    /// with \a error, which names class, method and text.
    std::optional<QList<LockRequest>> requests(const CallArguments &arguments, QString *error) const;

private:
    struct Annotation
    {
        KeyTemplate key;
        AnnotationOptions options;
        QString text; ///< for messages
    };
    /// All that is wrong with it, in words, or nothing.
    QString add(const QString &key, const QString &options, const MethodSignature &signature);
    /// Messages show \a text as the annotation.
    QString add(const QString &key, const QString &options, const QString &text, const MethodSignature &signature);
    QStringList addParsed(const QString &key, const AnnotationOptions &options, const QString &text,
                          const MethodSignature &signature);
    QString describe(const QString &text, const QString &problem) const;
    /// Annotations with one key and different options.
    QStringList contradictions() const;

    QByteArray m_className;
    QByteArray m_methodName;
    QByteArray m_identity;
    QList<Annotation> m_annotations;
};

} // namespace QDistLock
