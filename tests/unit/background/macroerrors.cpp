// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What the compiler must refuse, and say: compileerrors.py compiles this file once for each case, which is
// a line "// case NAME STANDARD: what the message contains", and once as it stands.

#include <QDistLock/ScopedMultiLock>

using namespace std::chrono_literals;
using QDistLock::LockOptions;
using QDistLock::ScopedLock;
using QDistLock::ScopedMultiLock;

// Two scopes that a macro of the application puts in one line.
#define LOCK_BOTH(first, second) \
  QDL_SCOPED_LOCK(first); \
  QDL_SCOPED_LOCK(second)

int uses(const char *pointer, const QString &name);

int uses(const char *pointer, const QString &name)
{
    Q_UNUSED(pointer)
    QDL_SCOPED_LOCK(name);
    QDL_SCOPED_LOCK("literal", LockOptions().withWait(0ms));
    QDL_ASSERT_LOCKED("literal");
    LOCK_BOTH("first", "second");
    QDL_WITH_LOCK(name + QLatin1String("+"), LockOptions())
    return 2;
    const ScopedLock inBraces({name}, LockOptions());
    const ScopedLock allInBraces{{name}, {}};
    QDL_WITH_LOCKS({name, "literal"}, LockOptions().withWait(0ms))
    return 3;
    else return 4;

    // case no_name 17: the name of the lock is missing
#ifdef CASE_no_name
    QDL_SCOPED_LOCK();
#endif
    // case no_name_to_assert 17: the name of the lock is missing
#ifdef CASE_no_name_to_assert
    QDL_ASSERT_LOCKED();
#endif
    // case no_parentheses 17: QDL_SCOPED_LOCK
#ifdef CASE_no_parentheses
    QDL_SCOPED_LOCK;
#endif
    // case number 17: the first argument is the name of the lock
#ifdef CASE_number
    QDL_SCOPED_LOCK(42);
#endif
    // case bytes 17: QString::fromUtf8
#ifdef CASE_bytes
    QDL_SCOPED_LOCK(QByteArray("bytes"));
#endif
    // case pointer 17: QString::fromUtf8
#ifdef CASE_pointer
    QDL_SCOPED_LOCK(pointer);
#endif
    // case server 17: LockAddress(name).withServer(url)
#ifdef CASE_server
    QDL_SCOPED_LOCK(QUrl());
#endif
    // case wide 17: the first argument is the name of the lock
#ifdef CASE_wide
    QDL_SCOPED_LOCK(L"wide");
#endif
    // case options_without_names 17: options are named
#ifdef CASE_options_without_names
    QDL_SCOPED_LOCK(name, 2s);
#endif
    // case two_options_without_names 17: options are named
#ifdef CASE_two_options_without_names
    QDL_SCOPED_LOCK(name, 2s, 3s);
#endif
    // case no_names 17: ScopedMultiLock
#ifdef CASE_no_names
    QDL_WITH_LOCKS() {}
#endif
    // case name_without_braces 17: ScopedMultiLock
#ifdef CASE_name_without_braces
    QDL_WITH_LOCKS("a") {}
#endif
    // case several_discarded 17: discard
#ifdef CASE_several_discarded
    ScopedMultiLock({name}, LockOptions());
#endif
    // case unknown_option 20: waiting
#ifdef CASE_unknown_option
    QDL_SCOPED_LOCK(name, .waiting = 2s);
#endif
    // case option_without_unit 20: milliseconds
#ifdef CASE_option_without_unit
    QDL_SCOPED_LOCK(name, .wait = 2);
#endif
    // case options_out_of_order 20: lease
#ifdef CASE_options_out_of_order
    QDL_SCOPED_LOCK(name, .wait = 2s, .lease = 3s);
#endif
    // case unbraced 17: qdlScopedLock
#ifdef CASE_unbraced
    if (pointer)
        QDL_SCOPED_LOCK(name);
#endif
        // case discarded 17: discard
#ifdef CASE_discarded
    ScopedLock(name, LockOptions());
#endif
    // case copied 17: deleted
#ifdef CASE_copied
    const ScopedLock first(name);
    const ScopedLock second(first);
#endif
    // case moved 17: deleted
#ifdef CASE_moved
    ScopedLock first(name);
    const ScopedLock second(std::move(first));
#endif
}
