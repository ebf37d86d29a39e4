// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QDistLock/lockaddress.h>

#include <QtCore/qstring.h>

#include <memory>

namespace QDistLock {

class LockHold;

/*!
    The locks under which the code of the calling thread runs: its scoped locks, and those of the annotated method that
    runs. QDL_ASSERT_LOCKED() reads this list, and a nested scope finds in it the lock that it re-enters.

    An entry ends with the shared pointer it was made from and the copies of that, in whatever thread; other pointers to
    the same hold have separate entries. Addresses must be resolved().
*/
class ThreadLocks
{
public:
    static void push(const LockAddress &address, const std::shared_ptr<LockHold> &hold);
    /// All entries of \a hold, if it has any.
    static void remove(const std::shared_ptr<LockHold> &hold);
    /// The innermost hold of that lock that is still held; null if there is none.
    static std::shared_ptr<LockHold> find(const LockAddress &address);

    /// \a work has returned a QFuture and keeps \a hold until that finishes. Meanwhile this thread may run anything,
    /// so its code is not under the lock and cannot re-enter it.
    static void addUnfinished(const LockAddress &address, const std::shared_ptr<LockHold> &hold, const QString &work);
    /// The work of this thread that keeps such a hold; empty if there is none.
    static QString unfinishedWork(const LockAddress &address);
};

} // namespace QDistLock
