// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_ANNOTATIONS_H
#define QDISTLOCK_ANNOTATIONS_H

#include <QDistLock/impl/annotationtable.h>
#include <QDistLock/impl/connector.h>
#include <QDistLock/impl/jobs.h>
#include <QDistLock/impl/keptarguments.h>
#include <QDistLock/lockaddress.h>
#include <QDistLock/lockedcalls.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qfuture.h>
#include <QtCore/qobject.h>
#include <QtCore/qvariant.h>

#include <type_traits>
#include <utility>

/*!
    \file
    Methods that run under a lock, without ever blocking an event loop.

    \code
    class Orders : public QObject
    {
        Q_OBJECT
    public:
        QDL_LOCKED_METHOD(ship, "order:{id}", "wait=2s; lease=30s; onBusy=skip")
        Q_SLOT void ship(const QString &id);
    };

    QDistLock::connectLocked(button, &QPushButton::clicked, orders, &Orders::ship, QDistLock::withArguments(id));
    QDistLock::invokeLocked(orders, "ship", id).then(…);
    QDistLock::withLock(u"report:daily"_s, [] { return makeReport(); }).then(…);
    \endcode

    Each call waits for its lock, and behind earlier calls of its thread that need the same lock. Then it runs in the
    receiver's thread and releases the lock. Calls run one at a time, at most one in each turn of the event loop. A
    background thread renews the lock while the method computes or blocks. A lock that was lost before the method began
    (the event loop was busy) is acquired again, unless `wait` has passed.

    The number of calls that wait is bounded (see `maxQueued`). If a thread blocks or runs no event loop, its calls
    cannot begin: once `wait` and one lease since the acquisition have passed, the lock is released, with a warning in
    the log. When the event loop runs again, the call ends with TimeoutError, or with `wait=forever` acquires the lock
    again. When the thread or the application ends, calls that wait end with CancelledError.
*/

namespace QDistLock {

/*!
    Returns the errors in the annotations of \a metaObject and its base classes. Each names class, method, annotation
    and problem. Errors that depend on the values of a call (the class behind a pointer, a null pointer, a value that
    is not text) are only found by that call. Thread-safe.
*/
QDISTLOCK_EXPORT QStringList validateAnnotations(const QMetaObject *metaObject);

/*!
    Returns \a value as QDL_LOCKED_METHOD() writes it in a key, for code that takes the same lock in another way: the
    lock of the key `"order:{id}"` is `ScopedLock(u"order:"_s + keyText(id))`. Empty if \a value is empty or cannot be
    written as text. Thread-safe.
*/
QDISTLOCK_EXPORT QString keyText(const QVariant &value);

/// Gives the first arguments of a slot in connectLocked(); the arguments of the signal follow. \a values are copied,
/// as connectLocked() copies the arguments of an emission.
template<typename... Values>
Detail::KeptArguments<std::decay_t<const Values &>...> withArguments(const Values &...values)
{
    return Detail::keptArguments<std::decay_t<const Values &>...>(values...);
}

/*!
    Connects \a signal to the annotated \a slot of \a receiver, which runs under its lock: each emission copies its
    arguments, waits for the lock, runs the slot and releases the lock. `wait` counts from the emission. Keys and
    conditions are evaluated then, or when the emission arrives in another thread of the receiver.

    The slot may take fewer arguments than the signal has. If it takes others, as \c ship(id) does on \c clicked(),
    give them with withArguments(); or use a property of the receiver in the key, as in `"order:{this.orderId}"`; or
    connect a lambda with a key: `connectLocked(button, &QPushButton::clicked, orders, [=] { orders->ship(id); },
    key)`.

    As with QObject::connect(), the connection ends with sender or receiver, and the returned handle disconnects it.
    Emissions that wait then continue to wait, unless the receiver was destroyed: they are dropped, and their locks are
    released. If the receiver's thread ends before the receiver is destroyed, they fail with CancelledError.

    Arguments are always copied when the signal is emitted. Of a view of text or bytes (QStringView, QAnyStringView,
    QByteArrayView, std::string_view, `const char *` and the like) the text is copied, and the slot gets a view of the
    copy. A QModelIndex follows its row, and is invalid once that was removed; its model must live in the receiver's
    thread. Pointers to QObjects, also in lists and maps, are guarded: if one of the objects was destroyed before the
    slot could run, the call fails with CancelledError. An object that lives in another thread than the receiver must
    not be destroyed while the slot runs. Other pointers, other views and containers of these do not compile.

    If the slot returns a QFuture, the lock is held until that has finished (exceptions are logged) or was cancelled,
    or until the thread ends. Slots that are coroutines or return a std::future do not compile: nothing signals their
    end.

    LockedCalls reports calls that could not run. If the slot has no valid annotation, or there is no QCoreApplication
    yet, a warning is logged, and the returned handle converts to false. The annotation must be in the static class of
    \a receiver, in one of its base classes, or in that of the slot; the one of the most derived class counts.

    Thread: any; the slot runs in the receiver's, which needs an event loop. If the receiver is moved to another
    thread, calls that wait move with it.
*/
template<typename Signal, typename Receiver, typename Slot, typename... Bound>
QMetaObject::Connection connectLocked(const Detail::SenderOf<Signal> *sender, Signal signal, Receiver *receiver,
                                      Slot slot, const Detail::KeptArguments<Bound...> &arguments = {})
{
    static_assert(std::is_member_function_pointer_v<Slot>,
                  "connectLocked: only a member function can be annotated; give a key for anything else");
    using Connector = Detail::Connector<Signal, Receiver, Slot, Bound...>;
    return Connector::connect(sender, signal, receiver, slot, arguments,
                              Detail::annotatedMethod(receiver, Connector::slotName(slot), Connector::slotTypes()));
}

/*!
    Connects any \a slot, which may be a function object, under the lock \a key, a template as in QDL_LOCKED_METHOD().
    Annotations of the slot do not count. The names of parameters are known only of annotated methods; `{1}` is the
    first parameter of any slot. \a options are LockOptions, or a text as in QDL_LOCKED_METHOD(), which
    can also say what LockOptions do not have: `onBusy`, `maxQueued`, `condition`, `server`, `keyPrefix`.
*/
template<typename Signal, typename Receiver, typename Slot, typename... Bound, typename Options = LockOptions>
QMetaObject::Connection connectLocked(const Detail::SenderOf<Signal> *sender, Signal signal, Receiver *receiver,
                                      Slot slot, const Detail::KeptArguments<Bound...> &arguments, const QString &key,
                                      const Options &options = Options())
{
    using Connector = Detail::Connector<Signal, Receiver, Slot, Bound...>;
    return Connector::connect(sender, signal, receiver, slot, arguments,
                              Detail::methodWithKey(receiver, Connector::slotName(slot), Connector::slotTypes(), key,
                                                    Detail::lockOptionsOrText(options)));
}
/// The same without arguments of withArguments().
template<typename Signal, typename Receiver, typename Slot, typename Options = LockOptions>
QMetaObject::Connection connectLocked(const Detail::SenderOf<Signal> *sender, Signal signal, Receiver *receiver,
                                      Slot slot, const QString &key, const Options &options = Options())
{
    return connectLocked(sender, signal, receiver, std::move(slot), withArguments(), key, options);
}

/*!
    Calls the annotated slot or invokable \a method of \a object under its lock, in the thread of \a object. The future
    has what the method returns; an invalid QVariant if it returns nothing, or if `onBusy=skip` or `onBusy=latest`
    dropped the call.

    Among overloads, the one that takes this number of arguments and matches their types best is called. Arguments are
    converted as QVariant does, and lists element by element; a value that would lose a part (1.5 or NaN for an int, -1
    for an unsigned, nullptr or bytes that are not UTF-8 for text) is an error. They are copied as those of
    connectLocked().

    If the method returns a QFuture, the lock is held until that has finished, and the returned future ends in the same
    way: with its (first) result, its exception, or cancelled; cancelling the returned future cancels the other. Qt
    must know the result type by name: for types that are not Qt's, call `qRegisterMetaType<T>()` once before;
    otherwise the call ends with OptionsError. Coroutines and methods that return a std::future end with OptionsError.

    The caller and the continuations of the future run without the lock. Never blocks. Cancelling the future takes back
    a call that has not begun. Errors are exceptions of the future: what the method throws, or LockUnavailable when the
    lock was not acquired, when the annotation is missing or wrong or no method fits (OptionsError), or when \a object,
    or an object of its thread among the arguments, was destroyed first (CancelledError). Each is also logged in
    `qdistlock.lock`. Thread: any.

    Mind two bugs of Qt 6.4: `then(context, …)` asserts in debug builds if the context is destroyed before the future
    ends, and attaching any continuation is a race with a thread that ends the future. Use a QFutureWatcher; or, if the
    future ends in the calling thread, a continuation that captures a QPointer.
*/
QDISTLOCK_EXPORT QFuture<QVariant> invokeLocked(QObject *object, const char *method, const QVariantList &arguments);

/// The same with separate arguments. A single QVariantList is the list of arguments.
template<typename... Arguments>
QFuture<QVariant> invokeLocked(QObject *object, const char *method, const Arguments &...arguments)
{
    return invokeLocked(object, method, QVariantList{Detail::toArgument(arguments)...});
}

/*!
    Calls \a function once the lock \a address is held, in the calling thread, which needs an event loop. The future has
    what it returns. The lock is released when it returns or throws; a ScopedLock that re-entered it keeps the lock for
    its own lifetime. If \a function returns a QFuture, the lock is held until that has finished, and the returned
    future ends in the same way: with its result, its exception, or cancelled; cancelling the returned future cancels
    the other. For ScopedLock and isLockedHere(), code that runs after \a function has returned is not under the lock:
    see ScopedLock. If the thread ends first, the lock is released, and the future ends with CancelledError: work that
    continues then continues without the lock.

    Never blocks. Calls of one thread for the same lock run in the order in which they were made; at most 10000 of them
    wait, and further ones end with BusyError at once. Cancelling the future before \a function was called takes back
    the call. Errors are exceptions of the future: LockUnavailable when the lock was not acquired, and what \a function
    throws. Each is also logged in `qdistlock.lock`, since the future may have been dropped. For continuations, which
    run without the lock, see invokeLocked().
*/
template<typename Function>
[[nodiscard]] Detail::LockedFuture<Function> withLock(const LockAddress &address, const LockOptions &options,
                                                      Function &&function)
{
    return Detail::withLock(address, options, nullptr, std::forward<Function>(function));
}
/// The same with the default options.
template<typename Function>
[[nodiscard]] Detail::LockedFuture<Function> withLock(const LockAddress &address, Function &&function)
{
    return Detail::withLock(address, LockOptions(), nullptr, std::forward<Function>(function));
}
/// The same in the thread of \a context. If that is destroyed before \a function was called, it is not called, and the
/// future ends with LockUnavailable (CancelledError). Thread: any.
template<typename Function>
[[nodiscard]] Detail::LockedFuture<Function> withLock(QObject *context, const LockAddress &address,
                                                      const LockOptions &options, Function &&function)
{
    return Detail::withLock(address, options, context, std::forward<Function>(function));
}

} // namespace QDistLock

/*!
    QDL_LOCKED_METHOD(method, key), or QDL_LOCKED_METHOD(method, key, options): a method that runs under a lock.

    When connectLocked() or invokeLocked() calls the slot or Q_INVOKABLE \a method of this class, or one of its
    overloads, it runs under a lock. A direct call and a plain connect() run it without the lock; if the method begins
    with QDL_ASSERT_LOCKED(name), a debug build aborts there. Work that the method starts without waiting for it
    (timers, queued calls, threads) is not under the lock. \a method is a name; \a key and \a options are string
    literals.

    Write it directly above the method, which is declared with Q_SLOT or Q_INVOKABLE, or anywhere a Q_PROPERTY may be:
    not in a section of slots or signals, where moc stops with a parse error.

    A method with several annotations needs all these locks. They are acquired in one global order, so that methods
    cannot deadlock. Two annotations with the same key must have the same options, except `condition`; where only the
    values of a call make two keys equal, the options of the first one count. A derived class's annotations of a method
    replace those of its base.

    \a key: text with `{id}` (the parameter of that name), `{order.customer.id}` (properties of gadgets and objects, by
    value or pointer), `{this.tenant}` (a property of the receiver) or `{1}` (a parameter by its number); `{{` and `}}`
    are braces. Enumerations are written by name, a QUuid without braces, a QDateTime in UTC, a QUrl without its
    password.

    Different values give different keys. In a value, letters, digits, `-_.@+~` and all characters beyond ASCII stay as
    they are, all others become `%XX`: with `"{a}:{b}"`, "x:y" and "z" give `x%3Ay:z`. Between two values there must be
    text with at least one character other than `0`-`9`, `A`-`F` and `%`, which separates them; if that is a character
    that stays as it is, as in `"{year}-{month}"`, it is escaped in the first of the two values. keyText() escapes
    values in the same way (except that separator) for other forms of a lock. An empty value is an error; `{id?}`
    allows it.

    \a options: `name=value; …`. `wait`, `lease`, `retryInterval`, `maxRetries`, `autoRenew`, `fair`, `minHold`,
    `minReplicas`, `replicaTimeout`, `repairMissingTtl` as in LockOptions, with durations as `250ms`, `2s`, `5min`,
    `1h`, with `wait=forever`, and
    - `mode`: `write` or `exclusive` (default); `read` or `shared` for a method that only reads: it runs together with
      readers in other threads and processes, and never while a writer runs. Calls of one thread under one lock always
      run one after the other. If the annotations of a method name one lock twice, `write` counts.
    - `permits`, `take`: at most that many at the same time, see LockOptions::permits; `permits=server` as the server
      says. Calls of one thread under one lock run one after the other here, too.
    - `onBusy`: `wait` (default) waits for up to `wait`; `skip` tries once and drops the call without an error; `fail`
      tries once and reports BusyError. For these two, a call of the same thread that waits or runs under the same
      locks is busy, too. `latest` waits, and keeps only the newest call of this method of the receiver, whatever its
      key: a newer call replaces one that has not begun.
    - `maxQueued`: how many calls of this method of one receiver may wait, 10000 by default, or `unlimited`. Further
      ones fail at once with BusyError.
    - `condition`: `this.enabled`, `!order.draft`: where it is false this lock is not acquired, and the method runs
      without it.
    - `label`: the group in which LockMetrics counts the lock, instead of the key.
    - `server`: a URL instead of LockRegistry::defaultServer().
    - `keyPrefix`: instead of `lock:`, see LockAddress.

    Errors in annotations are reported by validateAnnotations(), and at their first use.
*/
#ifdef Q_MOC_RUN
#  define QDL_LOCKED_METHOD(method, ...) QDL_LOCKED_METHOD_INFO(method, __VA_ARGS__, "", "", )
#else
#  define QDL_LOCKED_METHOD(method, ...) \
    QDL_DETAIL_EXPAND(QDL_LOCKED_METHOD_ENTRY(method, QDL_ANNOTATION_NAME(method, __LINE__), __VA_ARGS__, "", "", ))
#endif

#endif
