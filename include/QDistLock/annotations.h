// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_ANNOTATIONS_H
#define QDISTLOCK_ANNOTATIONS_H

#include <QDistLock/lockoptions.h>
#include <QDistLock/lockresult.h>
#include <QDistLock/qdistlock_export.h>
#include <QDistLock/scopedlock.h>

#include <QtCore/qabstractitemmodel.h>
#include <QtCore/qfuture.h>
#include <QtCore/qfuturewatcher.h>
#include <QtCore/qlist.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qurl.h>
#include <QtCore/qvariant.h>

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#ifdef __cpp_impl_coroutine
#  include <coroutine>
#endif
#if defined(__cpp_concepts) && __cpp_concepts >= 201907L
#  include <span> // and std::ranges::enable_borrowed_range
#endif

/*!
    \file
    Methods that run under a lock, without ever blocking an event loop.

    \code
    class Orders : public QObject
    {
        Q_OBJECT
        QDL_LOCKED_METHOD(ship, "order:{id}", "wait=2s; lease=30s; onBusy=skip")
    public Q_SLOTS:
        void ship(const QString &id);
    };

    QDistLock::connectLocked(button, &Button::clicked, orders, &Orders::ship);
    QDistLock::invokeLocked(orders, "ship", id).then(…);
    QDistLock::withLock(QStringLiteral("report:daily"), [] { return makeReport(); }).then(…);
    \endcode

    Each call waits its turn: for the lock, and behind the calls of its thread that need the same lock and
    came before it. Then it runs, in the receiver's thread, one at a time and at most one in each turn of
    the event loop, and gives the lock back. The lock is kept by a background thread, which renews it while
    the method computes or blocks. Just before the method runs it is looked at again: a lock that was lost
    while the event loop was busy is acquired again, if its `wait` is not over.

    What waits is bounded (see `maxQueued`). A lock whose call has not begun when its `wait` is over, and one lease has
    passed since it was acquired, is given back: the thread blocks, or runs no event loop. That is logged as a warning,
    and the call ends with TimeoutError when the event loop is back; with `wait=forever` it acquires the lock again.
    When the thread has ended, calls end with CancelledError at once; so they do when the application has ended.

    A direct C++ call of an annotated method cannot be intercepted: it runs without the lock. Begin the
    method with QDL_ASSERT_LOCKED(name) to catch such calls.
*/

namespace QDistLock {

class LockedMethod;

/// What happened to a call made by connectLocked(). A plain value.
struct LockedCallInfo
{
    QPointer<QObject> receiver; ///< only to be used in its own thread
    QByteArray className;
    QByteArray method; ///< empty for a slot that is a function object
    QString lock;      ///< the name, without key prefix; empty if the annotation could not be evaluated
    QString server;    ///< without secrets
    DistributedLock::Error error = DistributedLock::NoError;
    QString errorString; ///< names class, method, lock, server, what happened and what to do
};

/*!
    Tells of calls that connectLocked() could not run, for which there is no caller to tell. (Those of
    invokeLocked() and withLock() are reported by their futures, and in the log.)

    Thread: instance() from any; the signals come from the thread of the receiver (lost() from the one that
    gives the lock back), so connect with a context object. They may come from inside the emission that
    made the call.
*/
class QDISTLOCK_EXPORT LockedCalls : public QObject
{
    Q_OBJECT

public:
    /// Null at the end of the program, when static objects are destroyed.
    static LockedCalls *instance();

    /// For instance() alone.
    LockedCalls();
    ~LockedCalls() override;

Q_SIGNALS:
    /// The call was dropped: the wait was over, the lock busy with `onBusy=fail`, too many calls waited, or an error.
    /// Also logged as a warning in `qdistlock.lock`: the first of a burst of calls of one method that fail in the same
    /// way, and when the burst is over how many others there were.
    void failed(const QDistLock::LockedCallInfo &call);
    /// The call was dropped because the lock was busy, as `onBusy=skip` demands, or because a newer one took its place,
    /// as `onBusy=latest` demands. Also logged for debugging.
    void skipped(const QDistLock::LockedCallInfo &call);
    /// The lock was lost while the method ran, of invokeLocked() and withLock() too. Also logged as a warning.
    void lost(const QDistLock::LockedCallInfo &call);

private:
    Q_DISABLE_COPY_MOVE(LockedCalls)
};

/*!
    What is wrong with the annotations of \a metaObject and its base classes; empty if nothing is. Each entry
    names class, method, annotation and problem. What depends on a call (the class behind a pointer, a null
    pointer, a value that is not text) is told by the call. Thread-safe.
*/
QDISTLOCK_EXPORT QStringList validateAnnotations(const QMetaObject *metaObject);

/*!
    \a value as QDL_LOCKED_METHOD() writes it in a key, for code that takes the same lock in another way:
    `ScopedLock(QStringLiteral("order:") + keyText(id))` for the key `"order:{id}"`. Empty if it is empty or
    cannot be written as text. Thread-safe.
*/
QDISTLOCK_EXPORT QString keyText(const QVariant &value);

namespace Detail {

/// What runs under locks, once.
class QDISTLOCK_EXPORT LockedJob : public std::enable_shared_from_this<LockedJob>
{
public:
    LockedJob();
    virtual ~LockedJob();

    /// In the receiver's thread. The locks are held for as long as a copy of \a locks lives.
    virtual void run(const std::shared_ptr<void> &locks) = 0;
    /// After run() and without its locks: ends the future, if it has one and run() ended the work.
    virtual void tell();
    /// It will not run; \a skipped: the lock was busy, and that is fine. False: nobody was told yet.
    virtual bool fail(const LockResult &result, bool skipped);
    /// Nobody wants it any more.
    virtual bool isCanceled() const;
    /// Tells of that, if anything can.
    virtual std::unique_ptr<QFutureWatcherBase> makeWatcher() const;

private:
    Q_DISABLE_COPY_MOVE(LockedJob)
};

/// Null, with a warning, if the receiver's class has no valid annotation for it. \a name is null for a slot
/// without annotation.
QDISTLOCK_EXPORT std::shared_ptr<const LockedMethod> annotatedMethod(const QObject *receiver, const char *name,
                                                                     const QList<QMetaType> &types);
/// Null, with a warning, if \a key or \a options are wrong.
QDISTLOCK_EXPORT std::shared_ptr<const LockedMethod> methodWithKey(const QObject *receiver, const char *name,
                                                                   const QList<QMetaType> &types, const QString &key,
                                                                   const LockOptions &options);
QDISTLOCK_EXPORT std::shared_ptr<const LockedMethod> methodWithKey(const QObject *receiver, const char *name,
                                                                   const QList<QMetaType> &types, const QString &key,
                                                                   const QString &options);
/// In \a receiver's thread. \a objects: those that the arguments point to, null where they were destroyed.
QDISTLOCK_EXPORT void callLocked(const std::shared_ptr<const LockedMethod> &method, QObject *receiver, qsizetype count,
                                 const QMetaType *types, const void *const *values,
                                 const QList<QPointer<const QObject>> &objects, const std::shared_ptr<LockedJob> &job);
/// \a context: whose thread runs it and with whom it goes; null = the calling thread.
QDISTLOCK_EXPORT void runLocked(const QUrl &server, const QString &name, const LockOptions &options, QObject *context,
                                const std::shared_ptr<LockedJob> &job);
/// An object that is destroyed when the locked calls of the calling thread end; null if they have ended.
QDISTLOCK_EXPORT QObject *lockedCallsOfThisThread();
QDISTLOCK_EXPORT LockResult cancelledCall();
/// In a handler: logs the exception that the work under \a locks threw, for its future may have been dropped.
QDISTLOCK_EXPORT void logException(const std::shared_ptr<void> &locks);
/// Calls \a ended in this thread's event loop once \a work has finished; destroys it without a call where the thread
/// ends first. Cancels \a work if \a outer is cancelled.
QDISTLOCK_EXPORT void whenFinished(const QFuture<void> &work, const QFuture<void> &outer,
                                   const std::function<void()> &ended);
/// Holds \a locks until \a work has finished in one way or the other; logs its exception.
QDISTLOCK_EXPORT void holdUntilFinished(const QFuture<void> &work, const std::shared_ptr<void> &locks);
/// A text in place of a view of it, bytes where it is not UTF-8.
QDISTLOCK_EXPORT QVariant ownedArgument(const QVariant &value);
/// The QObjects that \a count values point to, also as elements of lists and maps. The objects must still exist.
QDISTLOCK_EXPORT QList<QPointer<const QObject>> objectsIn(qsizetype count, const QMetaType *types,
                                                          const void *const *values);
/// The result of a method, in its thread as soon as there is one: its objects still exist.
using ResultHook = std::function<void(const QVariant &result)>;
QDISTLOCK_EXPORT QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments,
                                                const ResultHook &returned);

/// A call that an emission makes.
class QDISTLOCK_EXPORT LockedEmission : public LockedJob
{
public:
    ~LockedEmission() override;

    /// Once, in the receiver's thread.
    virtual void begin(const std::shared_ptr<const LockedMethod> &method) = 0;
};

class EmissionTally;

/// Carries emissions from the thread that emits to that of the receiver. Their arguments are kept in the first:
/// on the way views and pointers could dangle. Reports those that do not arrive because the receiver's thread ends.
class QDISTLOCK_EXPORT EmissionRelay : public QObject
{
    Q_OBJECT

public:
    EmissionRelay(const std::shared_ptr<const LockedMethod> &method, QObject *receiver);
    ~EmissionRelay() override;

    /// In the thread that emits.
    void send(const std::shared_ptr<LockedEmission> &emission);
    /// Ends \a connection before ~QObject() of \a receiver would: that destroys the functor even while the thread that
    /// emits calls it.
    void endWith(QObject *receiver, const QMetaObject::Connection &connection);

Q_SIGNALS:
    void emitted(const std::shared_ptr<QDistLock::Detail::LockedEmission> &emission);
    void ended();

private:
    Q_DISABLE_COPY_MOVE(EmissionRelay)
    const std::shared_ptr<EmissionTally> m_tally;
};

// The annotated methods of a class, as types: what QDL_LOCKED_METHOD() declares. Each declaration finds
// those before it in its class as the overload of the highest rank.

constexpr int MaximumAnnotations = 64;

template<int number>
struct Rank : Rank<number - 1>
{
};
template<>
struct Rank<0>
{
};
using HighestRank = Rank<MaximumAnnotations>;

struct NoAnnotations
{
    static constexpr int count = 0;
};

template<typename Method, typename Previous>
struct Annotations
{
    static constexpr int count = Previous::count + 1;
    static_assert(count <= MaximumAnnotations, "a class can have 64 QDL_LOCKED_METHOD at most");
};

/// A friend of every class with annotations.
struct AnnotationAccess
{
    /// Of the annotated method that \a slot points to; null if there is none. \a Class: where to look.
    template<typename Class, typename Slot>
    static const char *methodName(Slot slot)
    {
        return find<Class>(slot, static_cast<decltype(annotations<Class>(0)) *>(nullptr));
    }

private:
    template<typename Class>
    static auto annotations(int) -> decltype(Class::qdlAnnotations(HighestRank(), nullptr));
    template<typename Class>
    static NoAnnotations annotations(...);

    template<typename Class, typename Slot>
    static const char *find(Slot, NoAnnotations *)
    {
        return nullptr;
    }
    template<typename Class, typename Slot, typename Method, typename Previous>
    static const char *find(Slot slot, Annotations<Method, Previous> *)
    {
        return isSame<Class, Method>(slot, 0) ? Method::name() : find<Class>(slot, static_cast<Previous *>(nullptr));
    }

    template<typename Class, typename Method, typename Slot>
    static auto isSame(Slot slot, int) -> decltype(Method::template is<Class>(slot))
    {
        return Method::template is<Class>(slot);
    }
    /// There is no method of that name and type.
    template<typename Class, typename Method, typename Slot>
    static bool isSame(Slot, ...)
    {
        return false;
    }
};

template<typename Receiver, typename Slot>
const char *annotatedName(Slot slot)
{
    const char *const name = AnnotationAccess::methodName<Receiver>(slot);
    return name ? name : AnnotationAccess::methodName<typename QtPrivate::FunctionPointer<Slot>::Object>(slot);
}

template<typename T, typename = void>
struct IsComplete : std::false_type
{
};
template<typename T>
struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type
{
};

/// Invalid for pointers to types that are only declared.
template<typename T>
QMetaType metaTypeOf()
{
    using Pointee = std::remove_pointer_t<T>;
    if constexpr (std::is_pointer_v<T> && !std::is_void_v<Pointee> && !IsComplete<Pointee>::value)
        return QMetaType();
    else
        return QMetaType::fromType<T>();
}

template<typename List>
struct Types;
template<typename... Parameters>
struct Types<QtPrivate::List<Parameters...>>
{
    static QList<QMetaType> metaTypes() { return {metaTypeOf<std::decay_t<Parameters>>()...}; }
};

/// A view of memory that somebody else owns.
template<typename T>
struct IsView : std::false_type
{
};
template<typename T>
struct IsView<std::initializer_list<T>> : std::true_type
{
};
template<typename Character, typename Traits>
struct IsView<std::basic_string_view<Character, Traits>> : std::true_type
{
};
template<typename T>
struct IsView<std::reference_wrapper<T>> : std::true_type
{
};
template<>
struct IsView<QStringView> : std::true_type
{
};
template<>
struct IsView<QLatin1String> : std::true_type
{
};
template<>
struct IsView<QUtf8StringView> : std::true_type
{
};
template<>
struct IsView<QAnyStringView> : std::true_type
{
};
template<>
struct IsView<QByteArrayView> : std::true_type
{
};
template<>
struct IsView<QModelIndex> : std::true_type
{
};
#ifdef __cpp_lib_span
template<typename T>
    requires std::ranges::enable_borrowed_range<T>
struct IsView<T> : std::true_type
{
};
#endif

template<typename T>
constexpr bool isEmpty()
{
    if constexpr (std::is_class_v<T> && IsComplete<T>::value)
        return std::is_empty_v<T>;
    else
        return false;
}

template<typename T>
constexpr bool isQObjectPointer()
{
    using Pointee = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_pointer_v<T> && std::is_class_v<Pointee> && IsComplete<Pointee>::value)
        return std::is_base_of_v<QObject, Pointee>;
    else
        return false;
}

/// A view or a pointer to anything but a QObject, or something that has them in it: a container, a pair. (Not a
/// comparison or an allocator, which have no state.)
template<typename T>
struct HasViews
    : std::bool_constant<IsView<T>::value
                         || (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>
                             && !isQObjectPointer<T>())>
{
};
template<typename T, std::size_t size>
struct HasViews<std::array<T, size>> : HasViews<T>
{
};
template<template<typename...> class Template, typename... Parameters>
struct HasViews<Template<Parameters...>>
    : std::bool_constant<IsView<Template<Parameters...>>::value
                         || (!isEmpty<Template<Parameters...>>() && (HasViews<Parameters>::value || ...))>
{
};

/// How an argument is kept for a call that waits: Type owns what a view only points to, argument() is what the slot
/// then gets of it.
template<typename T, typename = void>
struct Kept
{
    static_assert(!std::is_pointer_v<T> || std::is_function_v<std::remove_pointer_t<T>>,
                  "QDistLock: a call waits for its lock, and what this argument points to may be destroyed by then. Pass a "
                  "value, a std::shared_ptr or a pointer to a QObject");
    static_assert(std::is_pointer_v<T> || !HasViews<T>::value,
                  "QDistLock: a call waits for its lock, and what this argument is a view of may be destroyed by then. "
                  "Pass a container that owns its elements");
    static_assert(std::is_copy_constructible_v<T>,
                  "QDistLock: a call waits for its lock, so its arguments are copied, and this one cannot be. Pass a "
                  "std::shared_ptr to it");
    using Type = T;
    static const T &keep(const T &value) { return value; }
    static T &argument(T &kept) { return kept; }
};
template<typename T>
struct Kept<T, std::enable_if_t<isQObjectPointer<T>()>>
{
    using Type = T;
    static T keep(T object) { return object; }
    static T argument(T kept) { return kept; }
};
template<>
struct Kept<QVariant>
{
    using Type = QVariant;
    static QVariant keep(const QVariant &value) { return ownedArgument(value); }
    static QVariant &argument(QVariant &kept) { return kept; }
};

/// Of views: \a Owner is what is kept.
template<typename View, typename Owner>
struct KeptView
{
    using Type = Owner;
    static View argument(const Type &kept) { return View(kept); }
};
template<>
struct Kept<QStringView> : KeptView<QStringView, QString>
{
    static QString keep(QStringView text) { return text.toString(); }
};
template<>
struct Kept<QAnyStringView> : KeptView<QAnyStringView, QString>
{
    static QString keep(QAnyStringView text) { return text.toString(); }
};
template<>
struct Kept<QByteArrayView> : KeptView<QByteArrayView, QByteArray>
{
    static QByteArray keep(QByteArrayView bytes) { return bytes.toByteArray(); }
};
template<>
struct Kept<QLatin1String> : KeptView<QLatin1String, QByteArray>
{
    static QByteArray keep(QLatin1String text) { return QByteArray(text.data(), text.size()); }
};
template<>
struct Kept<QUtf8StringView> : KeptView<QUtf8StringView, QByteArray>
{
    static QByteArray keep(QUtf8StringView text) { return QByteArray(text.data(), text.size()); }
    static QUtf8StringView argument(const QByteArray &kept) { return QUtf8StringView(kept.constData(), kept.size()); }
};
template<typename Character, typename Traits>
struct Kept<std::basic_string_view<Character, Traits>>
    : KeptView<std::basic_string_view<Character, Traits>, std::basic_string<Character, Traits>>
{
    static std::basic_string<Character, Traits> keep(std::basic_string_view<Character, Traits> text)
    {
        return std::basic_string<Character, Traits>(text);
    }
};
template<>
struct Kept<QModelIndex> : KeptView<QModelIndex, QPersistentModelIndex>
{
    static QPersistentModelIndex keep(const QModelIndex &index) { return QPersistentModelIndex(index); }
};
template<>
struct Kept<const char *> : KeptView<const char *, QByteArray>
{
    static QByteArray keep(const char *text) { return QByteArray(text); }
    static const char *argument(const QByteArray &kept) { return kept.isNull() ? nullptr : kept.constData(); }
};
template<>
struct Kept<const char16_t *> : KeptView<const char16_t *, std::pair<bool, std::u16string>>
{
    static Type keep(const char16_t *text) { return {text != nullptr, text ? std::u16string(text) : std::u16string()}; }
    static const char16_t *argument(const Type &kept) { return kept.first ? kept.second.c_str() : nullptr; }
};

template<typename T>
struct Flattened
{
    using Type = T;
    static constexpr bool isFuture = false;
};
template<typename T>
struct Flattened<QFuture<T>>
{
    using Type = T;
    static constexpr bool isFuture = true;
};

template<typename T>
struct IsStdFuture : std::false_type
{
};
template<typename T>
struct IsStdFuture<std::future<T>> : std::true_type
{
};
template<typename T>
struct IsStdFuture<std::shared_future<T>> : std::true_type
{
};

/// A type that a coroutine returns.
template<typename T, typename = void>
struct IsCoroutine : std::false_type
{
};
#ifdef __cpp_impl_coroutine
template<typename T>
struct IsCoroutine<T, std::void_t<typename std::coroutine_traits<T>::promise_type>> : std::true_type
{
};
#else
template<typename T>
struct IsCoroutine<T, std::void_t<typename T::promise_type>> : std::true_type
{
};
#endif

/// \a Returned: by a method or function that runs under a lock.
template<typename Returned>
constexpr bool endsWithItsReturn()
{
    static_assert(std::is_void_v<Returned> || Flattened<Returned>::isFuture
                          || !(IsCoroutine<Returned>::value || IsStdFuture<Returned>::value),
                  "QDistLock: the lock would be given back at the first co_await or before the future is ready. Return a "
                  "QFuture, which is followed to its end; in a coroutine hold the lock with co_await "
                  "lock.acquireAwaitable()");
    static_assert(!Flattened<Returned>::isFuture || !Flattened<typename Flattened<Returned>::Type>::isFuture,
                  "QDistLock: a QFuture inside a QFuture is not followed; return future.unwrap()");
    return !Flattened<Returned>::isFuture;
}

/// A value of the signal as the slot gets it: keys are made of that. Not so with pointers, whose objects are
/// to be watched.
template<typename Parameter, typename Value>
decltype(auto) asParameter(const Value &value)
{
    if constexpr (!std::is_same_v<Parameter, Value> && !std::is_pointer_v<Parameter> && !std::is_pointer_v<Value>
                  && std::is_convertible_v<const Value &, Parameter>)
        return static_cast<Parameter>(value);
    else
        return (value);
}

/// A pointer to a QObject as one that a QMetaType of QObject * describes: QObject may not be its first base class.
template<typename T>
decltype(auto) asSeen(const T &value)
{
    if constexpr (isQObjectPointer<T>())
        return const_cast<QObject *>(static_cast<const QObject *>(value));
    else
        return (value);
}

/// The call of \a Slot with the arguments of one emission. \a Values: of the signal's parameters as many as the
/// slot takes.
template<typename Receiver, typename Slot, typename Parameters, typename... Values>
class SlotJob;
template<typename Receiver, typename Slot, typename... Parameters, typename... Values>
class SlotJob<Receiver, Slot, QtPrivate::List<Parameters...>, Values...> final : public LockedEmission
{
    using Indexes = std::index_sequence_for<Values...>;

public:
    SlotJob(Receiver *receiver, const Slot &slot, const Values &...values)
        : m_receiver(receiver)
        , m_slot(slot)
        , m_kept(Kept<Values>::keep(values)...)
    {
        watch(asSeen(values)...);
    }

    void begin(const std::shared_ptr<const LockedMethod> &method) override { begin(method, Indexes()); }
    void run(const std::shared_ptr<void> &locks) override
    {
        using Returned = std::decay_t<decltype(call(Indexes()))>;
        if constexpr (endsWithItsReturn<Returned>())
            call(Indexes());
        else
            holdUntilFinished(QFuture<void>(call(Indexes())), locks);
    }

private:
    template<std::size_t... indexes>
    void begin(const std::shared_ptr<const LockedMethod> &method, std::index_sequence<indexes...>)
    {
        add(method,
            asSeen(asParameter<std::decay_t<Parameters>, Values>(Kept<Values>::argument(std::get<indexes>(m_kept))))...);
    }
    template<typename... Seen>
    void watch(const Seen &...seen)
    {
        const QMetaType types[] = {metaTypeOf<Seen>()..., QMetaType()};
        const void *const pointers[] = {static_cast<const void *>(std::addressof(seen))..., nullptr};
        m_objects = objectsIn(qsizetype(sizeof...(Seen)), types, pointers);
    }
    template<typename... Converted>
    void add(const std::shared_ptr<const LockedMethod> &method, const Converted &...converted)
    {
        const QMetaType types[] = {metaTypeOf<Converted>()..., QMetaType()};
        const void *const pointers[] = {static_cast<const void *>(std::addressof(converted))..., nullptr};
        callLocked(method, m_receiver, qsizetype(sizeof...(Values)), types, pointers, m_objects, shared_from_this());
    }
    template<std::size_t... indexes>
    decltype(auto) call(std::index_sequence<indexes...>)
    {
        if constexpr (std::is_member_function_pointer_v<Slot>)
            return (m_receiver->*m_slot)(Kept<Values>::argument(std::get<indexes>(m_kept))...);
        else
            return m_slot(Kept<Values>::argument(std::get<indexes>(m_kept))...);
    }

    Receiver *const m_receiver;
    Slot m_slot;
    std::tuple<typename Kept<Values>::Type...> m_kept;
    QList<QPointer<const QObject>> m_objects; ///< that the arguments point to
};

/// What a signal is connected to, in the thread that emits.
template<typename Receiver, typename Slot, typename Parameters, typename... Values>
struct Emission
{
    std::shared_ptr<EmissionRelay> relay;
    Receiver *receiver; ///< not to be used here: it may be destroyed just now
    Slot slot;

    void operator()(const Values &...values) const
    {
        using Job = SlotJob<Receiver, Slot, Parameters, Values...>;
        relay->send(std::make_shared<Job>(receiver, slot, values...));
    }
};

template<typename Receiver, typename Slot, typename Parameters, typename Arguments>
struct EmissionOf;
template<typename Receiver, typename Slot, typename Parameters, typename... Arguments>
struct EmissionOf<Receiver, Slot, Parameters, QtPrivate::List<Arguments...>>
{
    using Type = Emission<Receiver, Slot, Parameters, std::decay_t<Arguments>...>;
};

/// What a slot takes; a function object need not say so.
template<typename Slot, typename Arguments, bool = std::is_member_function_pointer_v<Slot> || std::is_pointer_v<Slot>>
struct ParametersOf
{
    using Type = typename QtPrivate::FunctionPointer<Slot>::Arguments;
};
template<typename Slot, typename Arguments>
struct ParametersOf<Slot, Arguments, false>
{
    using Type = Arguments;
};

/// What one pair of signal and slot needs to be connected.
template<typename Signal, typename Receiver, typename Slot>
struct Connector
{
    using SignalType = QtPrivate::FunctionPointer<Signal>;
    using SignalArguments = typename SignalType::Arguments;
    static_assert(std::is_base_of_v<QObject, Receiver>, "connectLocked: the receiver must be a QObject");

    static_assert(std::is_copy_constructible_v<Slot>, "connectLocked: each call gets a copy of the function object, and "
                                                      "this one cannot be copied; let it capture a std::shared_ptr");

    static constexpr int count()
    {
        using SlotType = QtPrivate::FunctionPointer<Slot>;
        if constexpr (std::is_member_function_pointer_v<Slot>) {
            static_assert(std::is_base_of_v<typename SlotType::Object, Receiver>,
                          "connectLocked: the slot is not one of the receiver's");
        }
        if constexpr (std::is_member_function_pointer_v<Slot> || std::is_pointer_v<Slot>) {
            static_assert(int(SignalType::ArgumentCount) >= int(SlotType::ArgumentCount),
                          "connectLocked: the slot needs more arguments than the signal has");
            static_assert(QtPrivate::CheckCompatibleArguments<SignalArguments, typename SlotType::Arguments>::value,
                          "connectLocked: the arguments of signal and slot do not fit together");
            return SlotType::ArgumentCount;
        } else {
            constexpr int slotCount = QtPrivate::ComputeFunctorArgumentCount<Slot, SignalArguments>::Value;
            static_assert(slotCount >= 0, "connectLocked: the arguments of signal and slot do not fit together");
            return slotCount;
        }
    }
    // The type of no other signal.
    static_assert(!std::is_same_v<Signal, void (QObject::*)(QObject *)> || count() <= 0,
                  "connectLocked: the object that destroyed() passes is gone before the slot runs; use a slot that "
                  "takes none");
    using Arguments = typename QtPrivate::List_Left<SignalArguments, count()>::Value;

    using Parameters = typename ParametersOf<Slot, Arguments>::Type;

    static QList<QMetaType> slotTypes() { return Types<Parameters>::metaTypes(); }
    static const char *slotName([[maybe_unused]] const Slot &slot)
    {
        if constexpr (std::is_member_function_pointer_v<Slot>)
            return annotatedName<Receiver>(slot);
        else
            return nullptr;
    }
    static QMetaObject::Connection connect(const typename SignalType::Object *sender, Signal signal, Receiver *receiver,
                                           const Slot &slot, const std::shared_ptr<const LockedMethod> &method)
    {
        if (!method)
            return QMetaObject::Connection();
        using Emission = typename EmissionOf<Receiver, Slot, Parameters, Arguments>::Type;
        const auto relay = std::make_shared<EmissionRelay>(method, receiver);
        const QMetaObject::Connection connection =
                QObject::connect(sender, signal, receiver, Emission{relay, receiver, slot}, Qt::DirectConnection);
        relay->endWith(receiver, connection);
        return connection;
    }
};

/// A job with a future, which always ends: with what the job gave, or LockUnavailable.
template<typename T>
class FutureJob : public LockedJob
{
public:
    FutureJob() { m_promise.start(); }
    ~FutureJob() override
    {
        if (m_ended)
            FutureJob::tell();
        else
            FutureJob::fail(cancelledCall(), false);
    }

    QFuture<T> future() const { return m_promise.future(); }
    bool fail(const LockResult &result, bool) override
    {
        m_promise.setException(LockUnavailable(result));
        end();
        FutureJob::tell();
        return true;
    }
    void tell() override
    {
        if (m_ended && !std::exchange(m_told, true))
            m_promise.finish(); // runs continuations
    }
    bool isCanceled() const override { return m_promise.isCanceled(); }
    std::unique_ptr<QFutureWatcherBase> makeWatcher() const override
    {
        auto watcher = std::make_unique<QFutureWatcher<T>>();
        watcher->setFuture(future());
        return watcher;
    }

protected:
    QPromise<T> &promise() { return m_promise; }
    /// promise() has what there is to tell.
    void end() { m_ended = true; }

private:
    QPromise<T> m_promise;
    bool m_ended = false;
    bool m_told = false;
};

/// The one of a future that has finished, if it has one. (A continuation would do as well, but one that is
/// attached while another thread finishes the future may run twice.)
inline void throwException(QFuture<void> finished)
{
    std::invoke(&QFuture<void>::waitForFinished, finished); // does not wait any more
}

template<typename Function>
using ReturnOf = std::decay_t<std::invoke_result_t<Function &>>;
template<typename Function>
using FutureOf = QFuture<typename Flattened<ReturnOf<Function>>::Type>;

template<typename Function>
class FunctionJob final : public FutureJob<typename Flattened<ReturnOf<Function>>::Type>
{
    using Returned = ReturnOf<Function>;
    using T = typename Flattened<Returned>::Type;

public:
    explicit FunctionJob(Function function)
        : m_function(std::move(function))
    {
    }

    void run(const std::shared_ptr<void> &locks) override
    {
        try {
            if constexpr (!endsWithItsReturn<Returned>()) {
                follow(m_function(), locks);
                return;
            } else if constexpr (std::is_void_v<T>) {
                m_function();
            } else {
                this->promise().addResult(m_function());
            }
        } catch (...) {
            logException(locks);
            this->promise().setException(std::current_exception());
        }
        this->end();
    }

private:
    /// Holds \a locks until \a inner has finished in one way or the other.
    void follow(QFuture<T> inner, const std::shared_ptr<void> &locks)
    {
        auto self = std::static_pointer_cast<FunctionJob>(this->shared_from_this());
        whenFinished(QFuture<void>(inner), QFuture<void>(this->future()),
                     [inner, self, held = locks]() mutable { self->take(inner, std::move(held)); });
    }

    void take(QFuture<T> inner, std::shared_ptr<void> locks)
    {
        QPromise<T> &promise = this->promise();
        try {
            throwException(QFuture<void>(inner));
            if (inner.isCanceled()) {
                promise.future().cancel();
            } else if constexpr (!std::is_void_v<T>) {
                if (inner.resultCount() == 0)
                    promise.future().cancel();
                else if constexpr (std::is_copy_constructible_v<T>)
                    promise.addResult(inner.result());
                else
                    promise.addResult(inner.takeResult());
            }
        } catch (...) {
            logException(locks);
            promise.setException(std::current_exception());
        }
        locks.reset();
        this->end();
        this->tell();
    }

    Function m_function;
};

template<typename Function>
FutureOf<Function> withLock(const QUrl &server, const QString &name, const LockOptions &options, QObject *context,
                            Function &&function)
{
    auto job = std::make_shared<FunctionJob<std::decay_t<Function>>>(std::forward<Function>(function));
    auto future = job->future(); // the job may be over before runLocked() returns
    runLocked(server, name, options, context, job);
    return future;
}

inline QVariant toArgument(const QVariant &value)
{
    return value;
}
inline QVariant toArgument(const char *utf8)
{
    return ownedArgument(QVariant::fromValue(utf8));
}
inline QVariant toArgument(const char16_t *text)
{
    return QString::fromUtf16(text);
}
inline QVariant toArgument(QLatin1String text)
{
    return QString(text);
}
inline QVariant toArgument(QStringView text)
{
    return text.toString();
}
inline QVariant toArgument(const QString &text)
{
    return text;
}
inline QVariant toArgument(QAnyStringView text)
{
    return text.toString();
}
inline QVariant toArgument(QUtf8StringView text)
{
    return ownedArgument(QVariant::fromValue(text));
}
inline QVariant toArgument(std::string_view utf8)
{
    return ownedArgument(QVariant::fromValue(utf8));
}
inline QVariant toArgument(QByteArrayView bytes)
{
    return bytes.toByteArray();
}
template<typename T>
QVariant toArgument(const T &value)
{
    static_assert(sizeof(Kept<T>) > 0); // refuses what cannot be kept
    if constexpr (IsView<T>::value)
        return QVariant::fromValue(Kept<T>::keep(value));
    else
        return QVariant::fromValue(value);
}

} // namespace Detail

/*!
    Connects \a signal to the annotated \a slot of \a receiver, so that it runs under its lock: each emission
    keeps its arguments, waits its turn, runs, and gives the lock back. `wait` counts from the emission, and
    keys and conditions are evaluated then; where the receiver lives in another thread, once it arrives there.

    As with QObject::connect(), the connection ends with sender or receiver, and the returned handle
    disconnects it. Emissions that wait go on waiting after that, unless the receiver is destroyed: then they
    vanish, and what was acquired for them is given back. Where the receiver's thread ends, and the receiver
    lives on, they are reported as failed (CancelledError).

    The arguments are copied when the signal is emitted, also where the receiver lives in another thread. Of
    a view of text or bytes (QStringView, QAnyStringView, QByteArrayView, std::string_view, `const char *`
    and the like) its text is copied, and the slot gets a view of the copy. A QModelIndex follows its row, and
    is invalid if that was removed; its model must live in the receiver's thread. A pointer to a QObject, also
    in lists and maps, is watched: an emission whose object was destroyed before the slot could run does not
    run it (CancelledError). If that object lives in another thread than the receiver, it must not be
    destroyed while the slot runs. Other pointers, other views and containers of these do not compile.

    The lock of a slot that returns a QFuture is held until that has finished, with a result, an exception
    (which is logged) or cancelled, or until the thread ends. Slots that are coroutines or return a
    std::future do not compile: nothing says when their work is done.

    What could not be run is told by LockedCalls. A slot without annotation, or with a broken one, is an
    error: a warning, and a handle that converts to false. The same where there is no QCoreApplication yet.

    With a base class's slot the annotation of the most derived class counts. The annotation must be in
    the static class of \a receiver, in one of its base classes, or in that of the slot.

    Thread: any; the slot runs in the receiver's, which needs an event loop. A receiver may be moved to
    another thread, and takes along what waits for it.
*/
template<typename Signal, typename Receiver, typename Slot>
QMetaObject::Connection connectLocked(const typename QtPrivate::FunctionPointer<Signal>::Object *sender, Signal signal,
                                      Receiver *receiver, Slot slot)
{
    static_assert(std::is_member_function_pointer_v<Slot>,
                  "connectLocked: only a member function can be annotated; give a key for anything else");
    using Connector = Detail::Connector<Signal, Receiver, Slot>;
    return Connector::connect(sender, signal, receiver, slot,
                              Detail::annotatedMethod(receiver, Connector::slotName(slot), Connector::slotTypes()));
}

/*!
    The same for any \a slot, a function object included, under \a key, a template as in
    QDL_LOCKED_METHOD(). Annotations of the slot do not count. Where the slot has no annotation its
    parameters have no names: `{1}` is the first.
*/
template<typename Signal, typename Receiver, typename Slot>
QMetaObject::Connection connectLocked(const typename QtPrivate::FunctionPointer<Signal>::Object *sender, Signal signal,
                                      Receiver *receiver, Slot slot, const QString &key, const LockOptions &options = {})
{
    using Connector = Detail::Connector<Signal, Receiver, Slot>;
    return Connector::connect(
            sender, signal, receiver, slot,
            Detail::methodWithKey(receiver, Connector::slotName(slot), Connector::slotTypes(), key, options));
}

/// The same, with \a options as text, as in QDL_LOCKED_METHOD().
template<typename Signal, typename Receiver, typename Slot>
QMetaObject::Connection connectLocked(const typename QtPrivate::FunctionPointer<Signal>::Object *sender, Signal signal,
                                      Receiver *receiver, Slot slot, const QString &key, const QString &options)
{
    using Connector = Detail::Connector<Signal, Receiver, Slot>;
    return Connector::connect(
            sender, signal, receiver, slot,
            Detail::methodWithKey(receiver, Connector::slotName(slot), Connector::slotTypes(), key, options));
}

/*!
    Calls the annotated slot or invokable \a method of \a object under its lock, in the thread of \a object,
    and gives what it returns; an invalid QVariant for `void`, and where `onBusy=skip` or `onBusy=latest` left it out.

    Of several methods of that name the one is called that takes this many arguments and matches their types
    best. Arguments are converted as QVariant does, and lists element by element; a value that would lose a part (1.5 or
    NaN for an int, -1 for an unsigned, nullptr or bytes that are not UTF-8 for text) is an error. They are copied
    as those of connectLocked().

    If the method returns a QFuture, the lock is held until that has finished, and the future given here
    ends in the same way: with its (first) result, its exception, or cancelled; cancelling this one cancels
    that one. Qt must know the type of the result by its name: for types that are not Qt's call
    `qRegisterMetaType<T>()` once before, else the call ends with OptionsError. Coroutines and a std::future
    are refused (OptionsError).

    The caller and the continuations of the future run without the lock. Never blocks. Cancelling the future takes a call
    back that has not begun. Errors are exceptions of the
    future: LockUnavailable when the lock was not acquired, when the annotation is missing or broken or no
    method fits (OptionsError), or \a object, or an object of its thread among the arguments, was destroyed
    first (CancelledError); and what the method throws. Each is also logged in `qdistlock.lock`. Thread: any.

    In Qt 6.4 a continuation with a context, `then(context, …)` or `onFailed(context, …)`, asserts in debug
    builds if the context is destroyed before the future ends, and attaching any continuation is a race with
    another thread that ends the future. Use a QFutureWatcher; where the future ends in the calling thread, a
    continuation without context that captures a QPointer will do as well.
*/
QDISTLOCK_EXPORT QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments);

/// The same with the arguments one by one. A single QVariantList counts as the list of arguments.
template<typename... Arguments>
QFuture<QVariant> invokeLocked(QObject *object, const char *method, const Arguments &...arguments)
{
    return invokeLocked(object, method, QVariantList{Detail::toArgument(arguments)...});
}

/*!
    Calls \a function once the lock \a name is held, in the calling thread, which needs an event loop, and
    gives what it returns. The lock is given back when it returns or throws; a ScopedLock that re-entered it and
    lives longer keeps it until then. Where it returns a QFuture, the lock is held until that has finished, with a
    result, an exception or cancelled, and the future given here ends in the same way; cancelling this one cancels
    that one. What runs after \a function has returned is not under the lock to ScopedLock and isLockedHere(): see
    ScopedLock. If the thread ends first, the lock is given back, and the future ends with CancelledError: what still
    runs then runs without the lock.

    Never blocks. Calls of one thread for the same lock run in the order they were made; at most 10000 of them wait, and
    further ones end with BusyError at once. Cancelling before \a function was called takes the call back.
    Errors are exceptions of the future: LockUnavailable when the lock was not acquired, and what \a function
    throws. Each is also logged in `qdistlock.lock`, for nobody sees the errors of a future that was dropped.
    For its continuations, which run without the lock, see invokeLocked().
*/
template<typename Function>
[[nodiscard]] Detail::FutureOf<std::decay_t<Function>> withLock(const QString &name, const LockOptions &options,
                                                                Function &&function)
{
    return Detail::withLock(QUrl(), name, options, nullptr, std::forward<Function>(function));
}
/// The same with the default options.
template<typename Function>
[[nodiscard]] Detail::FutureOf<std::decay_t<Function>> withLock(const QString &name, Function &&function)
{
    return Detail::withLock(QUrl(), name, LockOptions(), nullptr, std::forward<Function>(function));
}
/// The same on another server than LockRegistry::defaultServer().
template<typename Function>
[[nodiscard]] Detail::FutureOf<std::decay_t<Function>> withLock(const QUrl &server, const QString &name,
                                                                const LockOptions &options, Function &&function)
{
    return Detail::withLock(server, name, options, nullptr, std::forward<Function>(function));
}
/// The same in the thread of \a context. If that is destroyed before \a function was called, it is not
/// called, and the future ends with LockUnavailable (CancelledError). Thread: any.
template<typename Function>
[[nodiscard]] Detail::FutureOf<std::decay_t<Function>> withLock(QObject *context, const QString &name,
                                                                const LockOptions &options, Function &&function)
{
    return Detail::withLock(QUrl(), name, options, context, std::forward<Function>(function));
}
/// The same in the thread of \a context and on \a server.
template<typename Function>
[[nodiscard]] Detail::FutureOf<std::decay_t<Function>> withLock(QObject *context, const QUrl &server, const QString &name,
                                                                const LockOptions &options, Function &&function)
{
    return Detail::withLock(server, name, options, context, std::forward<Function>(function));
}

} // namespace QDistLock

Q_DECLARE_METATYPE(QDistLock::LockedCallInfo)

/*!
    \macro QDL_LOCKED_METHOD(method, key)
    \macro QDL_LOCKED_METHOD(method, key, options)

    The slot or Q_INVOKABLE \a method of this class, all its overloads, runs under a lock when it is called by
    connectLocked() or invokeLocked(). A direct call and a plain connect() run it without the lock; a debug build aborts
    there if the method begins with QDL_ASSERT_LOCKED(name). Work that the method starts without waiting for it (timers,
    queued calls, threads) is not under the lock. Write it where Q_PROPERTY is written: after Q_OBJECT, not in a section of
    slots or signals. \a method is a name; \a key and \a options are string literals.

    Several for one method: it needs all these locks. They are taken in one global order, so that no two
    methods wait for each other. Two with the same key must have the same options, except `condition`; where
    only the values of a call make two keys the same, the options of the first one count. A derived class's
    annotations of a method replace those of its base.

    \a key: text with `{id}` (the parameter of that name), `{order.customer.id}` (properties of gadgets and
    objects, by value or pointer), `{this.tenant}` (a property of the receiver) or `{1}` (a parameter by its
    number); `{{` and `}}` are braces. Enumerations are written by name, a QUuid without braces, a QDateTime in UTC,
    a QUrl without its password.

    Different values give different keys. In a value, letters, digits, `-_.@+~` and all characters beyond
    ASCII stay as they are, all others become `%XX`: with `"{a}:{b}"`, "x:y" and "z" give `x%3Ay:z`. Between
    two values there must be text, of which one character other than `0`-`9`, `A`-`F` and `%` separates
    them; if that is one of those that stay, as in `"{year}-{month}"`, the first of the two values has it
    escaped as well. keyText() does the same, that separator apart, for other forms of a lock. An empty value
    is refused; `{id?}` allows it.

    \a options: `name=value; …`. `wait`, `lease`, `retryInterval`, `maxRetries`, `autoRenew`, `fair`, `minHold`,
    `keyPrefix`, `minReplicas` (0 only, in this version), `replicaTimeout`, `repairMissingTtl` as in LockOptions,
    with durations as `250ms`, `2s`, `5min`, `1h` and `wait=forever`, and
    - `onBusy`: `wait` (default) waits for up to `wait`; `skip` tries once and leaves the call out, silently;
      `fail` tries once and reports BusyError. For the last two a call of the same thread that waits or runs
      under the same locks is busy as well. `latest` waits, and keeps only the newest call of this method of the
      receiver, whatever its key: one that has not begun is left out when a newer one comes, which takes its place.
    - `maxQueued`: how many calls of this method of one receiver may wait, 10000 by default, or `unlimited`. Those
      beyond fail at once with BusyError.
    - `condition`: `this.enabled`, `!order.draft`: where it is false this lock is not taken, and the method runs
      without it.
    - `server`: a URL instead of LockRegistry::defaultServer().

    What is wrong with it is told by validateAnnotations(), and where it is first used.
*/
#ifdef Q_MOC_RUN
#  define QDL_LOCKED_METHOD(method, ...) QDL_LOCKED_METHOD_INFO(method, __VA_ARGS__, "", "", )
#  define QDL_LOCKED_METHOD_INFO(method, key, options, ...) \
      Q_CLASSINFO("QDistLock.lock:" #method, key) \
      Q_CLASSINFO("QDistLock.options:" #method, options)
#else
#  define QDL_LOCKED_METHOD(method, ...) \
      QDL_DETAIL_EXPAND( \
              QDL_LOCKED_METHOD_ENTRY(method, QDL_ANNOTATION_NAME(method, __LINE__), __VA_ARGS__, "", "", ))
#  define QDL_ANNOTATION_NAME(method, line) QDL_ANNOTATION_NAME_2(method, line)
#  define QDL_ANNOTATION_NAME_2(method, line) qdlAnnotation_##method##_##line
// The first overload hides those of base classes, which may be private.
#  define QDL_LOCKED_METHOD_ENTRY(method, Entry, key, options, rest, ...) \
      struct Entry \
      { \
          static_assert(sizeof("" key) > 1, "QDL_LOCKED_METHOD: the key is empty"); \
          static_assert(std::char_traits<char>::length("" key) == sizeof("" key) - 1, \
                        "QDL_LOCKED_METHOD: the key ends at its NUL"); \
          static_assert(std::char_traits<char>::length("" options) == sizeof("" options) - 1, \
                        "QDL_LOCKED_METHOD: the options end at their NUL"); \
          static_assert(sizeof("" options) > 0 && sizeof("" rest) == 1, \
                        "QDL_LOCKED_METHOD takes a method, a key and options"); \
          static const char *name() \
          { \
              return #method; \
          } \
          template<typename QdlClass, typename QdlSlot> \
          static auto is(QdlSlot slot) -> decltype(slot == static_cast<QdlSlot>(&QdlClass::method)) \
          { \
              return slot == static_cast<QdlSlot>(&QdlClass::method); \
          } \
      }; \
      friend struct ::QDistLock::Detail::AnnotationAccess; \
      static ::QDistLock::Detail::NoAnnotations qdlAnnotations(::QDistLock::Detail::Rank<0>, Entry *); \
      static ::QDistLock::Detail::Annotations< \
              Entry, decltype(qdlAnnotations(::QDistLock::Detail::HighestRank(), nullptr))> \
      qdlAnnotations(::QDistLock::Detail::Rank<decltype(qdlAnnotations(::QDistLock::Detail::HighestRank(), \
                                                                      nullptr))::count + 1>, \
                     std::nullptr_t);
#endif

#endif
