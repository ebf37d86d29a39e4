// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_LOCKNAME_H
#define QDISTLOCK_IMPL_LOCKNAME_H

#include <QtCore/qstring.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace QDistLock {
namespace Detail {

/// The character type of a string literal; void for any other type.
template<typename T>
struct LiteralCharacter
{
    using Type = void;
};
template<typename Character, std::size_t size>
struct LiteralCharacter<const Character (&)[size]>
{
    using Type = Character;
};

/// The length of a literal, or of an array without the NULs that pad it.
template<typename Character, std::size_t size>
qsizetype lengthOf(const Character (&text)[size])
{
    std::size_t length = size;
    while (length > 0 && text[length - 1] == Character())
        --length;
    return qsizetype(length);
}

/// How a value of type \a T becomes the name of a lock: isValid is false if it cannot. \a T is a reference type,
/// because only that shows whether the value is a literal.
template<typename T>
struct LockName
{
    using Character = typename LiteralCharacter<T>::Type;
#ifdef __cpp_char8_t
    static constexpr bool isUtf8 = std::is_same_v<Character, char> || std::is_same_v<Character, char8_t>;
#else
    static constexpr bool isUtf8 = std::is_same_v<Character, char>;
#endif
    static constexpr bool isUtf16 = std::is_same_v<Character, char16_t>;
    static constexpr bool isView = std::is_same_v<std::decay_t<T>, QStringView>;
    static constexpr bool isValid = isUtf8 || isUtf16 || isView || std::is_convertible_v<T, QString>;
};

template<typename T>
QString lockName(T &&name)
{
    using Name = LockName<T &&>;
    if constexpr (Name::isUtf8)
        return QString::fromUtf8(name, lengthOf(name));
    else if constexpr (Name::isUtf16)
        return QString::fromUtf16(name, lengthOf(name));
    else if constexpr (Name::isView)
        return name.toString();
    else
        return std::forward<T>(name);
}

} // namespace Detail
} // namespace QDistLock

#endif
