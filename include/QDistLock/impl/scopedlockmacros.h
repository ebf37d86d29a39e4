// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_SCOPEDLOCKMACROS_H
#define QDISTLOCK_IMPL_SCOPEDLOCKMACROS_H

// Expansions of the QDL_ macros of QDistLock/ScopedLock. Not for direct use.

#include <QDistLock/lockoptions.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qstring.h>

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace QDistLock {

class ScopedLock;

namespace Detail {

/// Throws LockUnavailable unless \a lock was acquired.
QDISTLOCK_EXPORT void throwUnlessAcquired(const ScopedLock &lock);
/// Aborts unless the calling thread runs under the lock.
QDISTLOCK_EXPORT void assertLocked(const char *function, const char *file, int line, const QString &name,
                                   const LockOptions &options);

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

/// The name of the lock, from the first argument of a macro.
template<typename T>
QString lockName(T &&name)
{
    using Decayed = std::decay_t<T>;
    using Character = typename LiteralCharacter<T &&>::Type;
    constexpr bool isUtf16 = std::is_same_v<Character, char16_t>;
#ifdef __cpp_char8_t
    constexpr bool isUtf8 = std::is_same_v<Character, char> || std::is_same_v<Character, char8_t>;
#else
    constexpr bool isUtf8 = std::is_same_v<Character, char>;
#endif
    constexpr bool isBytes = std::is_convertible_v<T, const char *> || std::is_same_v<Decayed, QByteArray>;
    constexpr bool isString =
            std::is_class_v<
                    Decayed> && std::is_convertible_v<T, QString> && !std::is_same_v<Decayed, QChar> && !isBytes;
    constexpr bool isView = std::is_same_v<Decayed, QStringView> || std::is_same_v<Decayed, QLatin1String>;
    constexpr bool isName = isUtf8 || isUtf16 || isView || isString;
    static_assert(isName,
                  "QDL_ macros: the first argument is the name of the lock: a QString, QStringView or QLatin1String, "
                  "or a literal (in UTF-8 or UTF-16). For other bytes say QString::fromUtf8(); for another server "
                  "say QDistLock::ScopedLock lock(server, name, options)");
    if constexpr (isUtf8)
        return QString::fromUtf8(name, lengthOf(name));
    else if constexpr (isUtf16)
        return QString::fromUtf16(name, lengthOf(name));
    else if constexpr (std::is_same_v<Decayed, QStringView>)
        return name.toString();
    else if constexpr (isName)
        return QString(std::forward<T>(name));
    else
        return QString();
}

template<typename... None>
QString lockName()
{
    static_assert(sizeof...(None) > 0, "QDL_ macros: the name of the lock is missing");
    return QString();
}

/// Never called: the compiler refuses arguments that are no options, and the overload below says how to write them.
inline LockOptions namedOptions(const LockOptions &options)
{
    return options;
}
template<typename T>
LockOptions namedOptions(std::initializer_list<T>)
{
    static_assert(std::is_same_v<T, LockOptions>,
                  "QDL_ macros: options are named: .wait = 2s in C++20, LockOptions().withWait(2s) in C++17");
    return LockOptions();
}

} // namespace Detail
} // namespace QDistLock

// The first argument of a list, and the arguments after it, of which there may be none; at most 16 in all.
#define QDL_DETAIL_EXPAND(x) x
#define QDL_DETAIL_FIRST(...) QDL_DETAIL_EXPAND(QDL_DETAIL_FIRST_OF(__VA_ARGS__, ))
#define QDL_DETAIL_FIRST_OF(first, ...) first
#define QDL_DETAIL_REST(...) \
  QDL_DETAIL_EXPAND(QDL_DETAIL_PICK( \
          __VA_ARGS__, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, \
          QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, \
          QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_NONE, )(__VA_ARGS__))
#define QDL_DETAIL_PICK(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, picked, ...) picked
#define QDL_DETAIL_AFTER(first, ...) __VA_ARGS__
#define QDL_DETAIL_NONE(...)
// The options are written twice: the first expression gives the better compiler errors, the second refuses
// LockOptions{2s}.
#define QDL_DETAIL_OPTIONS(...) \
  (true ? QDistLock::LockOptions{QDL_DETAIL_REST(__VA_ARGS__)} \
        : QDistLock::Detail::namedOptions({QDL_DETAIL_REST(__VA_ARGS__)}))
// Named by __COUNTER__, because two scopes that a macro of the application expands to have the same __LINE__.
#define QDL_DETAIL_NAME(number) QDL_DETAIL_NAME_OF(number)
#define QDL_DETAIL_NAME_OF(number) qdlScopedLock##number
#define QDL_DETAIL_LOCK(lock, ...) \
  const QDistLock::ScopedLock lock \
  { \
    QDistLock::Detail::lockName(QDL_DETAIL_FIRST(__VA_ARGS__)), QDL_DETAIL_OPTIONS(__VA_ARGS__) \
  }
#define QDL_DETAIL_SCOPED_LOCK(lock, ...) \
  QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK(lock, __VA_ARGS__)); \
  QDistLock::Detail::throwUnlessAcquired(lock)
#define QDL_DETAIL_WITH_LOCK(lock, ...) if (QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK(lock, __VA_ARGS__)); lock)

#endif
