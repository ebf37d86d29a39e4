// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_KEPTARGUMENTS_H
#define QDISTLOCK_IMPL_KEPTARGUMENTS_H

#include <QDistLock/qdistlock_export.h>

#include <QtCore/qabstractitemmodel.h>
#include <QtCore/qlist.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qobject.h>
#include <QtCore/qpointer.h>
#include <QtCore/qvariant.h>

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#if defined(__cpp_concepts) && __cpp_concepts >= 201907L
#  include <span> // and std::ranges::enable_borrowed_range
#endif

namespace QDistLock {
namespace Detail {

/// The text that \a value is a view of; its bytes if it is not UTF-8; any other value as it is.
QDISTLOCK_EXPORT QVariant ownedArgument(const QVariant &value);
/// The QObjects that \a count values point to, also as elements of lists and maps. The objects must still exist.
QDISTLOCK_EXPORT QList<QPointer<const QObject>> objectsIn(qsizetype count, const QMetaType *types,
                                                          const void *const *values);

template<typename T, typename = void>
struct IsComplete : std::false_type
{
};
template<typename T>
struct IsComplete<T, std::void_t<decltype(sizeof(T))>> : std::true_type
{
};

/// The QMetaType of \a T; invalid for pointers to incomplete types.
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

/// The type that owns what a view of type \a T points to: Type; void if \a T is no view that can be kept.
template<typename T>
struct ViewOwner
{
    using Type = void;
};
template<typename Owner>
struct OwnedBy
{
    using Type = Owner;
};
// clang-format off
template<> struct ViewOwner<QStringView> : OwnedBy<QString> {};
template<> struct ViewOwner<QAnyStringView> : OwnedBy<QString> {};
template<> struct ViewOwner<QByteArrayView> : OwnedBy<QByteArray> {};
template<> struct ViewOwner<QLatin1String> : OwnedBy<QByteArray> {};
template<> struct ViewOwner<QUtf8StringView> : OwnedBy<QByteArray> {};
template<> struct ViewOwner<QModelIndex> : OwnedBy<QPersistentModelIndex> {};
template<typename Character, typename Traits>
struct ViewOwner<std::basic_string_view<Character, Traits>> : OwnedBy<std::basic_string<Character, Traits>> {};
// clang-format on

/// Whether \a T is a view of memory that something else owns.
template<typename T>
struct IsView : std::bool_constant<!std::is_void_v<typename ViewOwner<T>::Type>>
{
};
template<typename T>
struct IsView<std::initializer_list<T>> : std::true_type
{
};
template<typename T>
struct IsView<std::reference_wrapper<T>> : std::true_type
{
};
#ifdef __cpp_lib_span
template<typename T>
requires std::ranges::enable_borrowed_range<T> struct IsView<T> : std::true_type
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

/// Whether \a T is a view, a pointer to anything but a QObject, or a template of these: a container, a pair.
/// (Parameters of a stateless template, as a comparison or an allocator, do not count.)
template<typename T>
struct HasViews
    : std::bool_constant<
              IsView<T>::value
              || (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>> && !isQObjectPointer<T>())>
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

/// How an argument of type \a T is kept for a call that waits: Type is \a T, or owns what the view \a T points to;
/// argument() is the value that the slot gets.
template<typename T, typename = void>
struct Kept
{
    static_assert(
            !std::is_pointer_v<T> || std::is_function_v<std::remove_pointer_t<T>>,
            "QDistLock: a call waits for its lock, and what this argument points to may be destroyed by then. Pass a value, a std::shared_ptr, or a pointer to a QObject whose class is defined here");
    static_assert(
            std::is_pointer_v<T> || !HasViews<T>::value,
            "QDistLock: a call waits for its lock, and what this argument is a view of may be destroyed by then. Pass a container that owns its elements");
    static_assert(
            std::is_copy_constructible_v<T>,
            "QDistLock: a call waits for its lock, so its arguments are copied, and this one cannot be. Pass a std::shared_ptr to it");
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

template<typename View>
struct Kept<View, std::enable_if_t<!std::is_void_v<typename ViewOwner<View>::Type>>>
{
    using Type = typename ViewOwner<View>::Type;
    static Type keep(const View &view)
    {
        if constexpr (std::is_same_v<Type, QString>)
            return view.toString();
        else if constexpr (std::is_same_v<Type, QByteArray>)
            return QByteArray(reinterpret_cast<const char *>(view.data()), view.size());
        else
            return Type(view);
    }
    static View argument(const Type &kept)
    {
        if constexpr (std::is_same_v<View, QUtf8StringView>)
            return View(kept.constData(), kept.size());
        else
            return View(kept);
    }
};
template<>
struct Kept<const char *>
{
    using Type = QByteArray;
    static QByteArray keep(const char *text) { return QByteArray(text); }
    static const char *argument(const QByteArray &kept) { return kept.isNull() ? nullptr : kept.constData(); }
};
template<>
struct Kept<const char16_t *>
{
    using Type = std::pair<bool, std::u16string>;
    static Type keep(const char16_t *text) { return {text != nullptr, text ? std::u16string(text) : std::u16string()}; }
    static const char16_t *argument(const Type &kept) { return kept.first ? kept.second.c_str() : nullptr; }
};

/// \a value converted to the parameter of the slot, since keys are made of the value that the slot gets. Pointers to
/// QObjects are not converted, because callLocked() must know the objects.
template<typename Parameter, typename Value>
decltype(auto) asParameter(const Value &value)
{
    constexpr bool isPointer = std::is_pointer_v<Parameter> || isQObjectPointer<Value>();
    constexpr bool isOther = !isPointer && !std::is_same_v<Parameter, Value>;
    if constexpr (isOther && std::is_convertible_v<const Value &, Parameter>)
        return static_cast<Parameter>(value);
    else
        return (value);
}

/// A pointer to a QObject as QObject *, for its QMetaType: QObject may not be the first base class of \a T.
template<typename T>
decltype(auto) asObjectPointer(const T &value)
{
    if constexpr (isQObjectPointer<T>())
        return const_cast<QObject *>(static_cast<const QObject *>(value));
    else
        return (value);
}

/// Arguments of a call that waits, and the QObjects that they point to.
template<typename... Values>
struct KeptArguments
{
    std::tuple<typename Kept<Values>::Type...> values;
    QList<QPointer<const QObject>> objects;
};

template<typename... First, typename... Second>
KeptArguments<First..., Second...> operator+(const KeptArguments<First...> &first, KeptArguments<Second...> second)
{
    if (!first.objects.isEmpty())
        second.objects = first.objects + second.objects;
    return {std::tuple_cat(first.values, std::move(second.values)), std::move(second.objects)};
}

template<typename... Pointers>
QList<QPointer<const QObject>> objectsAmong(const Pointers &...values)
{
    const QMetaType types[] = {metaTypeOf<Pointers>()..., QMetaType()};
    const void *const pointers[] = {static_cast<const void *>(std::addressof(values))..., nullptr};
    return objectsIn(qsizetype(sizeof...(Pointers)), types, pointers);
}

/// Copies \a values.
template<typename... Values>
KeptArguments<Values...> keptArguments(const Values &...values)
{
    return {std::tuple<typename Kept<Values>::Type...>(Kept<Values>::keep(values)...),
            objectsAmong(asObjectPointer(values)...)};
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
inline QVariant toArgument(QUtf8StringView text)
{
    return ownedArgument(QVariant::fromValue(text));
}
inline QVariant toArgument(std::string_view utf8)
{
    return ownedArgument(QVariant::fromValue(utf8));
}
template<typename T>
QVariant toArgument(const T &value)
{
    static_assert(sizeof(Kept<T>) > 0); // Kept<T> has assertions
    if constexpr (IsView<T>::value)
        return QVariant::fromValue(Kept<T>::keep(value));
    else
        return QVariant::fromValue(value);
}

} // namespace Detail
} // namespace QDistLock

#endif
