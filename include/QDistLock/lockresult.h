// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#ifndef QDISTLOCK_LOCKRESULT_H
#define QDISTLOCK_LOCKRESULT_H

#include <QDistLock/distributedlock.h>

#include <QtCore/qmetatype.h>
#include <QtCore/qstringview.h>

namespace QDistLock {

/*!
    The result of one acquire. A plain value that any thread may use.
    Busy, timed out and cancelled are ordinary results.
*/
struct LockResult
{
    /// Why the lock was not acquired.
    DistributedLock::Error error = DistributedLock::NoError;
    /// As DistributedLock::errorString(); empty on success.
    QString errorString;
    /// 0 if the lock was not acquired.
    qint64 fencingToken = 0;

    /// True if the lock was acquired, which does not say that it is still held.
    ///@{
    bool isAcquired() const noexcept { return error == DistributedLock::NoError; }
    explicit operator bool() const noexcept { return isAcquired(); }
    ///@}
};

/*!
    What a request of a LockRegistry returned, or why it returned nothing. A plain value that any thread may use.
*/
template<typename Value>
struct LockReply
{
    /// Without meaning if there is an error.
    Value value{};
    /// If not NoError, the server could not be asked.
    DistributedLock::Error error = DistributedLock::NoError;
    /// Names lock, server (without secrets), what happened and what to do; empty if there is no error.
    QString errorString;

    /// True if there is a value.
    explicit operator bool() const noexcept { return error == DistributedLock::NoError; }
};

namespace Detail {

/// \a text, the name of a lock for instance, as it appears in errors and logs: in quotation marks, on one line,
/// with 100 characters at most. Thread-safe.
QDISTLOCK_EXPORT QString quoted(QStringView text);

} // namespace Detail
} // namespace QDistLock

Q_DECLARE_METATYPE(QDistLock::LockResult)

#endif
