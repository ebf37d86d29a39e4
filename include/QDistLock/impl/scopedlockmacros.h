// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_IMPL_SCOPEDLOCKMACROS_H
#define QDISTLOCK_IMPL_SCOPEDLOCKMACROS_H

// Expansions of the QDL_ macros of QDistLock/ScopedLock and QDistLock/ScopedMultiLock. Not for direct use.

#include <QDistLock/lockaddress.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qstring.h>

#include <initializer_list>
#include <type_traits>
#include <utility>

namespace QDistLock {

class ScopedLock;

namespace Detail {

/// Throws LockUnavailable unless \a lock was acquired.
QDISTLOCK_EXPORT void throwUnlessAcquired(const ScopedLock &lock);
/// Aborts unless the calling thread runs under the lock.
QDISTLOCK_EXPORT void assertLocked(const char *function, const char *file, int line, const LockAddress &address,
                                   const LockOptions &options);

/// The lock that the first argument of a macro names.
template<typename T>
LockAddress lockAddress(T &&address)
{
    using Decayed = std::decay_t<T>;
    using Name = LockName<T &&>;
    constexpr bool isBytes = std::is_convertible_v<T, const char *> || std::is_same_v<Decayed, QByteArray>;
    constexpr bool isString =
            std::is_class_v<
                    Decayed> && std::is_convertible_v<T, QString> && !std::is_same_v<Decayed, QChar> && !isBytes;
    constexpr bool isAddress = std::is_same_v<Decayed, LockAddress>;
    constexpr bool isValid = isAddress || Name::isUtf8 || Name::isUtf16 || Name::isView || isString;
    static_assert(
            isValid,
            "QDL_ macros: the first argument is the name of the lock: a QString, QStringView or QLatin1String, "
            "or a literal (in UTF-8 or UTF-16). For other bytes say QString::fromUtf8(); for another server say QDistLock::LockAddress(name).withServer(url)");
    if constexpr (isValid)
        return std::forward<T>(address);
    else
        return LockAddress();
}

template<typename... None>
LockAddress lockAddress()
{
    static_assert(sizeof...(None) > 0, "QDL_ macros: the name of the lock is missing");
    return LockAddress();
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
    QDistLock::Detail::lockAddress(QDL_DETAIL_FIRST(__VA_ARGS__)), QDL_DETAIL_OPTIONS(__VA_ARGS__) \
  }
#define QDL_DETAIL_SCOPED_LOCK(lock, ...) \
  QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK(lock, __VA_ARGS__)); \
  QDistLock::Detail::throwUnlessAcquired(lock)
#define QDL_DETAIL_IS_LOCKED(...) \
  QDistLock::isLockedHere(QDistLock::Detail::lockAddress(QDL_DETAIL_FIRST(__VA_ARGS__)), \
                          (QDL_DETAIL_OPTIONS(__VA_ARGS__)).mode)
#define QDL_DETAIL_ASSERT_LOCKED(...) \
  QDistLock::Detail::assertLocked(Q_FUNC_INFO, __FILE__, __LINE__, \
                                  QDistLock::Detail::lockAddress(QDL_DETAIL_FIRST(__VA_ARGS__)), \
                                  QDL_DETAIL_OPTIONS(__VA_ARGS__))
#define QDL_DETAIL_WITH_LOCK(lock, ...) if (QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK(lock, __VA_ARGS__)); lock)
#define QDL_DETAIL_WITH_LOCKS(lock, ...) if (const QDistLock::ScopedMultiLock lock{__VA_ARGS__}; lock)

#endif
