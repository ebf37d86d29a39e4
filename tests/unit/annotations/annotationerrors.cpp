// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Uses of annotated methods that the compiler must refuse, see compileerrors.py.

#include <QDistLock/Annotations>

#include <QtCore/qmap.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#ifdef __cpp_impl_coroutine
#  include <coroutine>
#endif
#if __cplusplus >= 202002L
#  include <span>
#endif

using namespace QDistLock;

struct Plain
{
};
struct Other
{
};
class OnlyDeclared;

#ifdef __cpp_impl_coroutine
template<typename T>
struct Task
{
    struct promise_type
    {
        Task get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};
#else
template<typename T>
struct Task
{
    struct promise_type
    {
    };
};
#endif

class Sender : public QObject
{
    Q_OBJECT
Q_SIGNALS:
    void fired();
    void number(int value);
    void text(QStringView value);
    void object(QObject *value, const QObject *constant);
    void function(void (*value)());
    void pointer(const Plain *value, int number);
    void untyped(void *value);
    void undefined(OnlyDeclared *value);
    void list(std::initializer_list<int> value);
    void views(const QList<QStringView> &value);
    void optional(std::optional<std::string_view> value);
    void nestedViews(const QMap<QString, QList<QByteArrayView>> &value);
    void arrayOfViews(const std::array<QStringView, 2> &value);
    void owners(const std::set<std::string, std::less<std::string_view>> &set,
                const std::function<void(QStringView)> &function, const QList<QStringList> &list,
                const std::shared_ptr<Plain> &shared, const QPointer<QObject> &pointer);
    void writable(char *value);
    void texts(const QList<const char *> &value);
    void pointers(const QMap<int, Plain *> &value);
    void reference(std::reference_wrapper<Plain> value);
    void indexes(const QModelIndexList &value);
    void unique(const std::unique_ptr<Plain> &value);
#if __cplusplus >= 202002L
    void span(std::span<const int> value);
#endif
};

class Receiver : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(number, "number:{value}")
public Q_SLOTS:
    void number(int value);
    void named(const QString &name);
    QFuture<int> future(int value);
    QFuture<QFuture<int>> nested(int value);
    std::future<int> standard(int value);
    std::shared_future<void> shared(int value);
    Task<bool> coroutine(int value);
};

void uses(Sender *sender, Receiver *receiver, const QString &key, const LockOptions &options, const Plain *pointer,
          Other *other);

void uses(Sender *sender, Receiver *receiver, const QString &key, const LockOptions &options, const Plain *pointer,
          Other *other)
{
    Q_UNUSED(pointer)
    Q_UNUSED(other)
    connectLocked(sender, &Sender::number, receiver, &Receiver::number);
    connectLocked(sender, &Sender::number, receiver, &Receiver::future, key);
    connectLocked(
            sender, &Sender::text, receiver, [](QStringView) {}, key);
    connectLocked(
            sender, &Sender::object, receiver, [](QObject *, const QObject *) {}, key);
    connectLocked(
            sender, &Sender::function, receiver, [](void (*)()) {}, key);
    connectLocked(
            sender, &Sender::pointer, receiver, [] {}, key); // it does not take the pointer
    invokeLocked(receiver, "number", 1, QStringView(key), receiver);
    Q_UNUSED(withLock(key, [] { return QFuture<int>(); }))

    connectLocked(
            sender, &QObject::destroyed, receiver, [] {}, key);
    connectLocked(
            sender, &Sender::owners, receiver,
            [](const std::set<std::string, std::less<std::string_view>> &, const std::function<void(QStringView)> &,
               const QList<QStringList> &, const std::shared_ptr<Plain> &, const QPointer<QObject> &) {},
            key);
    invokeLocked(receiver, "number", "text", u"text");

    connectLocked(sender, &Sender::fired, receiver, &Receiver::named, withArguments(key), key, {});

    // case slot_takes_more 17: Give its first ones with withArguments()
#ifdef CASE_slot_takes_more
    connectLocked(sender, &Sender::fired, receiver, &Receiver::number);
#endif
    // case slot_takes_less 17: withArguments() has more values than the slot takes
#ifdef CASE_slot_takes_less
    connectLocked(sender, &Sender::fired, receiver, &Receiver::number, withArguments(1, 2));
#endif
    // case function_takes_less 17: withArguments() has more values than the slot takes
#ifdef CASE_function_takes_less
    connectLocked(
            sender, &Sender::number, receiver, [] {}, withArguments(1), key);
#endif
    // case function_takes_others 17: the function object cannot be called with
#ifdef CASE_function_takes_others
    connectLocked(
            sender, &Sender::number, receiver, [](int, int) {}, key);
#endif
    // case other_argument 17: an argument does not convert to the slot's parameter
#ifdef CASE_other_argument
    connectLocked(sender, &Sender::fired, receiver, &Receiver::named, withArguments(1), key);
#endif
    // case bound_pointer 17: what this argument points to may be destroyed by then
#ifdef CASE_bound_pointer
    connectLocked(sender, &Sender::fired, receiver, &Receiver::number, withArguments(other));
#endif
    // case bound_views 17: what this argument is a view of may be destroyed by then
#ifdef CASE_bound_views
    connectLocked(sender, &Sender::fired, receiver, &Receiver::number, withArguments(QList<QUtf8StringView>()));
#endif
    // case bound_unique 17: its arguments are copied, and this one cannot be
#ifdef CASE_bound_unique
    connectLocked(sender, &Sender::fired, receiver, &Receiver::number, withArguments(std::unique_ptr<Plain>()));
#endif
    // case no_key 17: give a key for anything else
#ifdef CASE_no_key
    connectLocked(sender, &Sender::fired, receiver, [] {});
#endif
    // case other_options 17: options are LockOptions, or a QString
#ifdef CASE_other_options
    connectLocked(sender, &Sender::number, receiver, &Receiver::number, key, 5);
#endif
    // case destroyed 17: the object that destroyed() passes is destroyed before the slot runs
#ifdef CASE_destroyed
    connectLocked(
            sender, &QObject::destroyed, receiver, [](QObject *) {}, key);
#endif
    // case pointer 17: what this argument points to may be destroyed by then
#ifdef CASE_pointer
    connectLocked(
            sender, &Sender::pointer, receiver, [](const Plain *) {}, key);
#endif
    // case untyped_pointer 17: what this argument points to may be destroyed by then
#ifdef CASE_untyped_pointer
    connectLocked(
            sender, &Sender::untyped, receiver, [](void *) {}, key);
#endif
    // case writable_text 17: what this argument points to may be destroyed by then
#ifdef CASE_writable_text
    connectLocked(
            sender, &Sender::writable, receiver, [](char *) {}, key);
#endif
    // case undefined_class 17: a pointer to a QObject whose class is defined here
#ifdef CASE_undefined_class
    connectLocked(
            sender, &Sender::undefined, receiver, [](OnlyDeclared *) {}, key);
#endif
    // case initializer_list 17: what this argument is a view of may be destroyed by then
#ifdef CASE_initializer_list
    connectLocked(
            sender, &Sender::list, receiver, [](std::initializer_list<int>) {}, key);
#endif
    // case list_of_views 17: what this argument is a view of may be destroyed by then
#ifdef CASE_list_of_views
    connectLocked(
            sender, &Sender::views, receiver, [](const QList<QStringView> &) {}, key);
#endif
    // case nested_views 17: what this argument is a view of may be destroyed by then
#ifdef CASE_nested_views
    connectLocked(
            sender, &Sender::nestedViews, receiver, [](const QMap<QString, QList<QByteArrayView>> &) {}, key);
#endif
    // case array_of_views 17: what this argument is a view of may be destroyed by then
#ifdef CASE_array_of_views
    connectLocked(
            sender, &Sender::arrayOfViews, receiver, [](const std::array<QStringView, 2> &) {}, key);
#endif
    // case optional_view 17: what this argument is a view of may be destroyed by then
#ifdef CASE_optional_view
    connectLocked(
            sender, &Sender::optional, receiver, [](std::optional<std::string_view>) {}, key);
#endif
    // case list_of_texts 17: what this argument is a view of may be destroyed by then
#ifdef CASE_list_of_texts
    connectLocked(
            sender, &Sender::texts, receiver, [](const QList<const char *> &) {}, key);
#endif
    // case map_of_pointers 17: what this argument is a view of may be destroyed by then
#ifdef CASE_map_of_pointers
    connectLocked(
            sender, &Sender::pointers, receiver, [](const QMap<int, Plain *> &) {}, key);
#endif
    // case reference_wrapper 17: what this argument is a view of may be destroyed by then
#ifdef CASE_reference_wrapper
    connectLocked(
            sender, &Sender::reference, receiver, [](std::reference_wrapper<Plain>) {}, key);
#endif
    // case list_of_indexes 17: what this argument is a view of may be destroyed by then
#ifdef CASE_list_of_indexes
    connectLocked(
            sender, &Sender::indexes, receiver, [](const QModelIndexList &) {}, key);
#endif
    // case unique_argument 17: its arguments are copied, and this one cannot be
#ifdef CASE_unique_argument
    connectLocked(
            sender, &Sender::unique, receiver, [](const std::unique_ptr<Plain> &) {}, key);
#endif
    // case unique_slot 17: let it capture a std::shared_ptr
#ifdef CASE_unique_slot
    connectLocked(
            sender, &Sender::number, receiver, [unique = std::unique_ptr<Plain>()] {}, key);
#endif
    // case span 20: what this argument is a view of may be destroyed by then
#ifdef CASE_span
    connectLocked(
            sender, &Sender::span, receiver, [](std::span<const int>) {}, key);
#endif
    // case invoked_pointer 17: what this argument points to may be destroyed by then
#ifdef CASE_invoked_pointer
    invokeLocked(receiver, "number", static_cast<Other **>(nullptr));
#endif
    // case invoked_views 17: what this argument is a view of may be destroyed by then
#ifdef CASE_invoked_views
    invokeLocked(receiver, "number", QList<QLatin1String>());
#endif
    // case future 17: Return a QFuture, which is followed to its end
#ifdef CASE_future
    connectLocked(sender, &Sender::number, receiver, &Receiver::standard, key);
#endif
    // case shared_future 17: Return a QFuture, which is followed to its end
#ifdef CASE_shared_future
    connectLocked(sender, &Sender::number, receiver, &Receiver::shared, key);
#endif
    // case coroutine 17: at the first co_await
#ifdef CASE_coroutine
    connectLocked(sender, &Sender::number, receiver, &Receiver::coroutine, key);
#endif
    // case coroutine_function 20: co_await lock.acquireAwaitable()
#ifdef CASE_coroutine_function
    connectLocked(
            sender, &Sender::number, receiver, [](int) -> Task<int> { co_return; }, key);
#endif
    // case nested_future 17: return future.unwrap()
#ifdef CASE_nested_future
    connectLocked(sender, &Sender::number, receiver, &Receiver::nested, key);
#endif
    // case with_lock_coroutine 20: co_await lock.acquireAwaitable()
#ifdef CASE_with_lock_coroutine
    Q_UNUSED(withLock(key, options, []() -> Task<void> { co_return; }))
#endif
    // case with_lock_future 17: Return a QFuture, which is followed to its end
#ifdef CASE_with_lock_future
    Q_UNUSED(withLock(key, options, [] { return std::future<double>(); }))
#endif
    // case with_lock_nested 17: return future.unwrap()
#ifdef CASE_with_lock_nested
    Q_UNUSED(withLock(key, options, [] { return QFuture<QFuture<double>>(); }))
#endif
    Q_UNUSED(options)
}

class Wrong : public QObject
{
    Q_OBJECT
    // case key_with_nul 17: the key ends at its NUL
#ifdef CASE_key_with_nul
    QDL_LOCKED_METHOD(number, "a\0b")
#endif
    // case options_with_nul 17: the options end at their NUL
#ifdef CASE_options_with_nul
    QDL_LOCKED_METHOD(number, "a", "wait=2s\0; lease=3s")
#endif
public Q_SLOTS:
    void number(int value);
};
