// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "base/leaseclock.h"

#include <QDistLock/lockaddress.h>
#include <QDistLock/lockoptions.h>
#include <QDistLock/lockresult.h>

#include <QtCore/qlist.h>
#include <QtCore/qsemaphore.h>

#include <atomic>
#include <functional>
#include <memory>

namespace QDistLock {

/// Called once, in the service's thread, when an acquire has ended.
using AcquireCompletion = std::function<void()>;

/// Called at most once, in the service's thread, when a lock is lost before its holder has released it.
using LossNotice = std::function<void()>;

/// Releases a lock whose holder does not begin to use it, because its thread blocks or runs no event loop. The lock is
/// released if LockHold::use() was not called within one lease of the grant and \a waitEnds has passed or is forever.
struct UseLimit
{
    Deadline waitEnds;
    std::function<void()> passed; ///< called in the service's thread after that release; null = no limit
};

/*!
    One acquisition, of one lock or of several together: from the request to acquire until they are released or lost.
    The state that its LockHold, which requests, and the service's thread, which executes, share. Thread-safe, except
    where a function says otherwise.
*/
class Acquisition
{
public:
    Acquisition(const QList<LockAddress> &addresses, const LockOptions &options, AcquireCompletion completion,
                bool failFast, UseLimit useLimit, LossNotice lost);

    /// Reads the clock: false from the local deadline on, and in a forked child.
    bool isHeld() const;
    bool hasEnded() const { return m_ended.load(std::memory_order_acquire); }
    /// How the acquire ended; CancelledError before that.
    LockResult result() const;

    /// That of the lock \a address; 0 if it is none of these, or the acquire has not succeeded. Kept after the hold.
    qint64 fencingToken(const LockAddress &address) const;

    /// The id of the client that holds the locks, for the log; empty if the acquire has not succeeded.
    QByteArray client() const { return hasEnded() ? m_client : QByteArray(); }

    /// Ends the acquire; if it was successful, \a fencingTokens are those of the locks, and \a client holds them. To be
    /// called once, by the service.
    void end(const LockResult &result, const QList<qint64> &fencingTokens = {}, const QByteArray &client = {});
    /// Ends the hold after a release; also after a failed acquire. To be called once, by the service.
    void endHold(bool confirmed);
    /// Ends the hold after a loss, and calls the LossNotice. To be called by the service, in place of endHold().
    void loseHold();

    /// use() and refuseUse() exclude each other: whichever is called first succeeds, the other one returns false.
    bool use() { return decideUse(Used); }
    bool refuseUse() { return decideUse(Refused); }

    /// Are resolved(). At least one; several have one server and key prefix.
    const QList<LockAddress> addresses;
    const LockOptions options;
    const bool failFast;
    const UseLimit useLimit;
    const int forks; ///< forkCount() of the process that acquires

    std::atomic<LeaseTime> deadline{LeaseTime()}; ///< LeaseTime() while it is not held
    std::atomic<bool> abandoned{false};           ///< released or cancelled by its holder, or refused by its UseLimit
    QSemaphore acquireEnded;
    QSemaphore holdEnded;
    std::atomic<bool> releaseConfirmed{false}; ///< valid after holdEnded

private:
    Q_DISABLE_COPY_MOVE(Acquisition)
    enum Use { Undecided, Used, Refused };
    bool decideUse(Use use);

    std::atomic<Use> m_use{Undecided};
    AcquireCompletion m_completion;
    const LossNotice m_lost;
    LockResult m_result;           ///< valid after m_ended
    QList<qint64> m_fencingTokens; ///< valid after m_ended
    QByteArray m_client;           ///< valid after m_ended
    std::atomic<bool> m_ended{false};
};

using AcquisitionPointer = std::shared_ptr<Acquisition>;

/// The result of an acquire that ended before any server was asked.
LockResult acquireFailure(DistributedLock::Error error, const QString &name, const QString &text);

} // namespace QDistLock
