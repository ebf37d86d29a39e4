// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_SCOPEDMULTILOCK_H
#define QDISTLOCK_SCOPEDMULTILOCK_H

#include <QDistLock/scopedlock.h>

#include <QtCore/qstringlist.h>

#include <memory>
#include <type_traits>
#include <vector>

namespace QDistLock {

/*!
    Several locks for a scope, held together, or none of them: a MultiLock for code that may block its thread. The
    constructor acquires them, and blocks until it has all; the destructor releases them.

    \code
    ScopedMultiLock transfer({u"account:7"_s, u"account:12"_s}, LockOptions().withWait(2s));
    if (transfer)
        moveMoney();
    \endcode

    Threads, GUI thread, owner, waiting, loss, errors and application as ScopedLock, acquisition and its order as
    MultiLock: one command if all are free, and `wait` counts for all together. All must have one server and one key
    prefix; others are refused with OptionsError, as are permits and more than MultiLock::MaximumNames.

    Re-entry: locks that this thread holds already, by other scopes or by a method or function that annotations.h runs,
    are re-entered. The others are acquired while those are held, so the order holds among them only: code that nests
    scopes must use one order everywhere. If a re-entered lock is lost meanwhile, the acquire fails with CancelledError.
    A scope inside this one re-enters any of its locks. Locks that were acquired together are released together: if
    such a scope ends later than this one, all of them are held until then.
*/
class QDISTLOCK_EXPORT ScopedMultiLock
{
public:
    /// Acquires the locks; the order of \a addresses does not matter. An empty list fails with NameError.
    [[nodiscard]] explicit ScopedMultiLock(const QList<LockAddress> &addresses, const LockOptions &options = {});
    /// Acquires the locks of these names. A template, so that a list in braces is read as addresses.
    template<typename Names, std::enable_if_t<std::is_same_v<Names, QStringList>, bool> = true>
    [[nodiscard]] explicit ScopedMultiLock(const Names &names, const LockOptions &options = {})
        : ScopedMultiLock(QList<LockAddress>(names.cbegin(), names.cend()), options)
    {
    }
    /// Releases the locks, as that of ScopedLock does.
    ~ScopedMultiLock();

    /// Whether all locks are held. As ScopedLock::isHeld().
    ///@{
    bool isHeld() const;
    explicit operator bool() const { return isHeld(); }
    ///@}
    /// Throws LockLost unless isHeld(). Locks that were acquired together are named together: the text and lockName()
    /// begin with the first of them, whichever was lost. Thread-safe.
    void check() const;
    /// That of the lock \a address, with its server and key prefix; 0 if there is no such lock, or the locks were not
    /// acquired. Kept after the release. Thread-safe.
    qint64 fencingToken(const LockAddress &address) const;
    /// How the acquire ended; OptionsError after a release() of acquired locks in another thread. The fencing token is
    /// that of the first address.
    LockResult result() const;
    /// Releases all locks before the end of the scope. As ScopedLock::release(), for all together.
    bool release();

private:
    Q_DISABLE_COPY_MOVE(ScopedMultiLock)
    LockResult acquire(const QList<LockAddress> &addresses, const LockOptions &options);

    std::vector<std::unique_ptr<ScopedLock>> m_scopes; ///< none if the locks were not acquired
    LockResult m_result;
    QString m_name; ///< of the first lock
};

} // namespace QDistLock

/*!
    \file
    Several locks for code that may block its thread.
*/

/*!
    QDL_WITH_LOCKS({addresses…}, options) { runs under all locks } else { runs if they cannot be acquired }

    The addresses are names or LockAddress objects in braces, or a QStringList; the options are a LockOptions, in C++20
    also `{.wait = 2s}`. See QDistLock::ScopedMultiLock.

    \code
    QDL_WITH_LOCKS({u"account:"_s + from, u"account:"_s + to}, LockOptions().withWait(2s)) { moveMoney(); }
    \endcode

    The guard has no name that your code could use: call isLockedHere() and fencingTokenHere().
*/
#define QDL_WITH_LOCKS(...) QDL_DETAIL_EXPAND(QDL_DETAIL_WITH_LOCKS(QDL_DETAIL_NAME(__COUNTER__), __VA_ARGS__))

#endif
