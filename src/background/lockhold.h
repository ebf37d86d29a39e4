// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "background/acquisition.h"
#include "base/logging.h"

#include <atomic>
#include <chrono>
#include <optional>

namespace QDistLock {

/*!
    A lock, or several together, that the LockService acquires and keeps for whoever shares this object: a ScopedLock,
    or a locked call. Destroying it releases the lock, or cancels the acquire if that is still in progress. Thread-safe.
*/
class LockHold
{
public:
    explicit LockHold(AcquisitionPointer acquisition)
        : m_acquisition(std::move(acquisition))
    {
    }
    ~LockHold() { release(); }

    /// Reads the clock: false before the grant, and from the local deadline on.
    bool isHeld() const { return m_acquisition->isHeld(); }
    /// With which it is, or would be, held.
    const LockOptions &options() const { return m_acquisition->options; }
    /// Those of the locks that it holds together.
    const QList<LockAddress> &addresses() const { return m_acquisition->addresses; }
    /// Of the lock \a address; 0 if it is none of these, and before the grant. Kept after the release.
    qint64 fencingToken(const LockAddress &address) const { return m_acquisition->fencingToken(address); }
    /// \a text with the fields of the lock \a address: for the log.
    QString logLine(const QString &text, const LockAddress &address) const
    {
        return withFields(text, address.name(), fencingToken(address), m_acquisition->client());
    }
    /// How the acquire ended; CancelledError before that.
    LockResult result() const { return m_acquisition->result(); }
    /// Never blocks; later calls do nothing. Cancels the acquire if that is still in progress. If the same thread
    /// acquires the name again, that acquire reaches the server after this release.
    void release();
    /// Blocks until the server has confirmed the release, or cannot confirm it any more. True if the lock was held
    /// until this call and the release is confirmed. False after \a timeout; the release then continues in the
    /// background. Not in the service's thread.
    bool releaseAndWait(std::optional<std::chrono::milliseconds> timeout = std::nullopt);
    /// Blocks until the acquire has ended; false after \a timeout. For one caller, once. Not in the service's thread.
    bool waitUntilEnded(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

    /// The holder begins to use the lock. False if UseLimit has released it.
    bool use() { return m_acquisition->use(); }

    /// Adds a level: the work that acquired the lock is the first, each scope that re-enters adds one. False if the
    /// last level has already ended.
    bool reenter();
    /// Ends a level, in any order. True for the last one: the caller must then release the lock.
    [[nodiscard]] bool leave() { return m_levels.fetch_sub(1) == 1; }

private:
    Q_DISABLE_COPY_MOVE(LockHold)

    const AcquisitionPointer m_acquisition;
    std::atomic<int> m_levels{1};
};

} // namespace QDistLock
