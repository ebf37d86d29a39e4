// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_SCOPEDLOCK_H
#define QDISTLOCK_SCOPEDLOCK_H

#include <QDistLock/lockoptions.h>
#include <QDistLock/lockresult.h>
#include <QDistLock/qdistlock_export.h>

#include <QtCore/qexception.h>
#include <QtCore/qstring.h>
#include <QtCore/qurl.h>

#include <atomic>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <type_traits>

namespace QDistLock {

class LockHold;

/// Thrown by QDL_SCOPED_LOCK() when the lock was not acquired. Travels through a QFuture.
class QDISTLOCK_EXPORT LockUnavailable : public QException
{
public:
    explicit LockUnavailable(const LockResult &result);
    ~LockUnavailable() override;

    /// Why not.
    LockResult result() const { return m_result; }
    /// result().errorString in UTF-8: names lock, server (without secrets), reason and what to do.
    const char *what() const noexcept override { return m_what.constData(); }
    void raise() const override;
    LockUnavailable *clone() const override;

private:
    LockResult m_result;
    QByteArray m_what;
};

/// Thrown by ScopedLock::check() when the lock is not held any more. Travels through a QFuture.
class QDISTLOCK_EXPORT LockLost : public QException
{
public:
    LockLost(const QString &lockName, const QString &message);
    ~LockLost() override;

    QString lockName() const { return m_lockName; }
    /// In UTF-8; names the lock.
    const char *what() const noexcept override { return m_what.constData(); }
    void raise() const override;
    LockLost *clone() const override;

private:
    QString m_lockName;
    QByteArray m_what;
};

/*!
    A lock for a scope, for code that may block its thread: acquired by the constructor, which waits, and
    given back by the destructor.

    It is kept by a background thread, which renews it whatever the thread of the scope does: computes,
    sleeps or waits. The calling thread needs no event loop, and none runs while it waits. The owner is the
    thread: a scope inside another of the same server, key prefix and name, or inside a method or function that
    annotations.h runs under that lock, re-enters in the same thread, without a command to the server. They may end
    in any order; the last one gives the lock back. If the outer scope has lost its lock by then, the inner one
    acquires the lock itself. Servers are compared by their URLs, however they are spelt, whoever logs in: `redis://h` is
    `redis://u:p@h:6379/0`. But `localhost` is not 127.0.0.1, for nothing is resolved: use one of them everywhere.

    Under the lock: the calling thread until the end of the scope, or release(). Not: threads, timers and queued calls
    that it starts.

    A loss cannot interrupt a thread. Ask isHeld() or check() before each step that must not be done
    without the lock, and hand the fencing token to what can refuse an old one.

    Waiting: `wait` of the options at most. With `wait` = 0 it is one look at the server, which takes 5 s at
    most (1 s in the GUI thread) should the server not answer. In the GUI thread only `wait` = 0 is
    allowed: anything else ends with BusyError and a warning, see setGuiThreadWaitAllowed(). A scope that
    waits for its own thread waits in vain, and says so in its error: for a DistributedLock that lives there, or for work
    of annotations.h there that has returned a QFuture and keeps its lock until that finishes. The continuations of such a
    QFuture are not under the lock to a scope, for any other task of the thread may run as well; to have them under it,
    begin a scope in the work and keep it, in a std::shared_ptr for instance, until they have run.

    Thread: any but the library's own; used and destroyed in the thread it was made in, except isHeld(),
    check() and fencingToken(), which are thread-safe. release() in another thread is refused. Destroying
    it in another one gives the lock back, with a warning.
    Errors: result(), never an exception from constructor and destructor.
    Requires a QCoreApplication. When that goes, everything held is given back and whoever still waits ends
    with CancelledError. After fork() without exec() the child holds none of them and each new one fails with an error,
    if the parent has used one; the child should end with _exit(), as any child of a program with threads.
    If the system refuses the library's background thread, the acquire fails with an error.
*/
class QDISTLOCK_EXPORT ScopedLock
{
public:
    /// On LockRegistry::defaultServer().
    [[nodiscard]] explicit ScopedLock(const QString &name, const LockOptions &options = {});
    /// On \a server.
    [[nodiscard]] ScopedLock(const QUrl &server, const QString &name, const LockOptions &options = {});
    /// Does not wait: the release is on its way, and comes before whatever this thread acquires next. Use
    /// release() where it matters that the server has confirmed it.
    ~ScopedLock();

    QString name() const { return m_name; }
    /// Reads the clock: false from the local deadline on, once lost, and once released. Thread-safe.
    bool isHeld() const;
    explicit operator bool() const { return isHeld(); }
    /// Throws LockLost unless isHeld(). Thread-safe.
    void check() const;
    /// Strictly greater for each later acquisition of the name; 0 if it was not acquired. Thread-safe.
    qint64 fencingToken() const;
    /// How the acquire ended; OptionsError since a release() in another thread.
    LockResult result() const;
    /// Gives it back before the end of the scope and waits for the server (in the GUI thread for 1 s at
    /// most, else until the deadline of the lock at most). True if it was held until then and the server has
    /// confirmed it, or an outer scope still holds it. False if it had been lost, and in another thread.
    bool release();

    /// Whether scopes in the GUI thread may wait, which freezes the user interface. Off by default.
    /// Thread-safe.
    static void setGuiThreadWaitAllowed(bool allowed);
    static bool isGuiThreadWaitAllowed();

private:
    Q_DISABLE_COPY_MOVE(ScopedLock)
    void acquire(const QUrl &server, const LockOptions &options);
    void fail(DistributedLock::Error error, const QString &text);

    const QString m_name;
    LockResult m_result;
    std::shared_ptr<LockHold> m_hold; ///< null if it was not acquired
    const Qt::HANDLE m_thread;
    std::atomic<bool> m_released{false};
    std::atomic<bool> m_misused{false};
};

/// Whether the code that asks runs under the lock of that name, in this thread, and it is still held: in a
/// ScopedLock, or in a method or function that annotations.h runs, until that returns, a QFuture too. 0 commands. Any
/// thread.
QDISTLOCK_EXPORT bool isLockedHere(const QString &name, const LockOptions &options = {});
QDISTLOCK_EXPORT bool isLockedHere(const QUrl &server, const QString &name, const LockOptions &options = {});
/// The fencing token of that lock; 0 if there is none.
QDISTLOCK_EXPORT qint64 fencingTokenHere(const QString &name, const LockOptions &options = {});
QDISTLOCK_EXPORT qint64 fencingTokenHere(const QUrl &server, const QString &name, const LockOptions &options = {});

namespace Detail {

QDISTLOCK_EXPORT void throwUnlessAcquired(const ScopedLock &lock);
QDISTLOCK_EXPORT void assertLocked(const char *function, const char *file, int line, const QString &name,
                                   const LockOptions &options);

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

/// Of a literal, or of an array without the NULs that fill it up.
template<typename Character, std::size_t size>
qsizetype lengthOf(const Character (&text)[size])
{
    std::size_t length = size;
    while (length > 0 && text[length - 1] == Character())
        --length;
    return qsizetype(length);
}

/// The name a macro was given.
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
    constexpr bool isString = std::is_class_v<Decayed> && std::is_convertible_v<T, QString>
            && !std::is_convertible_v<T, const char *>
            && !std::is_same_v<Decayed, QChar> && !std::is_same_v<Decayed, QByteArray>;
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

/// Never called: what it cannot be called with are no options.
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

// The first of a list of arguments and what follows it, also where nothing does: up to 16 in all.
#define QDL_DETAIL_EXPAND(x) x
#define QDL_DETAIL_FIRST(...) QDL_DETAIL_EXPAND(QDL_DETAIL_FIRST_OF(__VA_ARGS__, ))
#define QDL_DETAIL_FIRST_OF(first, ...) first
#define QDL_DETAIL_REST(...) \
    QDL_DETAIL_EXPAND(QDL_DETAIL_PICK(__VA_ARGS__, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, \
                                      QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, \
                                      QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, \
                                      QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, QDL_DETAIL_AFTER, \
                                      QDL_DETAIL_NONE, )(__VA_ARGS__))
#define QDL_DETAIL_PICK(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, picked, ...) picked
#define QDL_DETAIL_AFTER(first, ...) __VA_ARGS__
#define QDL_DETAIL_NONE(...)
// Two spellings of the same: the first has the compiler's better errors, the second refuses LockOptions{2s}.
#define QDL_DETAIL_OPTIONS(...) \
    (true ? QDistLock::LockOptions{QDL_DETAIL_REST(__VA_ARGS__)} \
          : QDistLock::Detail::namedOptions({QDL_DETAIL_REST(__VA_ARGS__)}))
// Not by the line: all that a macro of the application expands to has one.
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
#define QDL_DETAIL_LOCK_OR_RETURN(lock, ...) \
    QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK(lock, QDL_DETAIL_REST(__VA_ARGS__))); \
    if (!lock) \
    return QDL_DETAIL_FIRST(__VA_ARGS__)
#define QDL_DETAIL_LOCK_OR_RETURN_VOID(lock, ...) \
    QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK(lock, __VA_ARGS__)); \
    if (!lock) \
    return
#define QDL_DETAIL_WITH_LOCK(lock, ...) if (QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK(lock, __VA_ARGS__)); lock)

/*!
    QDL_SCOPED_LOCK(name, options…): the rest of the scope runs under the lock; throws
    QDistLock::LockUnavailable where it cannot be acquired. See QDistLock::ScopedLock.

    The name is a QString, a view of one, a literal, or a constant array of characters, without the NULs at
    its end. The options are designated initialisers in C++20, `QDL_SCOPED_LOCK(u"order:%1"_s.arg(id),
    .lease = 1min, .wait = 2s)` (in the order of the fields), or a LockOptions, `QDL_SCOPED_LOCK("report",
    LockOptions().withWait(2s))`. The server is the default one. The guard has no name of its own: ask
    isLockedHere() and fencingTokenHere().
*/
#define QDL_SCOPED_LOCK(...) \
    QDL_DETAIL_EXPAND(QDL_DETAIL_SCOPED_LOCK(QDL_DETAIL_NAME(__COUNTER__), __VA_ARGS__))

/// QDL_LOCK_OR_RETURN(value, name, options…): as QDL_SCOPED_LOCK(), but returns \c value from the function
/// where the lock cannot be acquired. A value with a comma in it stands in parentheses.
#define QDL_LOCK_OR_RETURN(...) \
    QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK_OR_RETURN(QDL_DETAIL_NAME(__COUNTER__), __VA_ARGS__))

/// QDL_LOCK_OR_RETURN_VOID(name, options…): the same for a function that returns nothing.
#define QDL_LOCK_OR_RETURN_VOID(...) \
    QDL_DETAIL_EXPAND(QDL_DETAIL_LOCK_OR_RETURN_VOID(QDL_DETAIL_NAME(__COUNTER__), __VA_ARGS__))

/// QDL_WITH_LOCK(name, options…) { under the lock } else { it could not be acquired }
#define QDL_WITH_LOCK(...) QDL_DETAIL_EXPAND(QDL_DETAIL_WITH_LOCK(QDL_DETAIL_NAME(__COUNTER__), __VA_ARGS__))

/*!
    QDL_ASSERT_LOCKED(name, options…): as Q_ASSERT: where this thread does not run under that lock, names lock,
    function and line, and aborts. Does nothing if QT_NO_DEBUG is defined, unless QT_FORCE_ASSERTS is. Of the
    options only `keyPrefix` counts. For another server: `Q_ASSERT(QDistLock::isLockedHere(server, name))`.
*/
#if defined(QT_NO_DEBUG) && !defined(QT_FORCE_ASSERTS)
#  define QDL_ASSERT_LOCKED(...) \
      static_cast<void>(false \
                        && QDistLock::isLockedHere(QDistLock::Detail::lockName(QDL_DETAIL_FIRST(__VA_ARGS__)), \
                                                   QDL_DETAIL_OPTIONS(__VA_ARGS__)))
#else
#  define QDL_ASSERT_LOCKED(...) \
      QDistLock::Detail::assertLocked(Q_FUNC_INFO, __FILE__, __LINE__, \
                                      QDistLock::Detail::lockName(QDL_DETAIL_FIRST(__VA_ARGS__)), \
                                      QDL_DETAIL_OPTIONS(__VA_ARGS__))
#endif

#endif
