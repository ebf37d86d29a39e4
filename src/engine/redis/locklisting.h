// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockid.h"
#include "engine/redis/rediserrors.h"

#include <QDistLock/lockinfo.h>

#include <QtCore/qlist.h>

#include <functional>
#include <memory>

namespace QDistLock {

/// Reads the state of locks from one server. Completions are called as those of LockEngine. Thread: that of the
/// connection.
class LockListing
{
public:
    using Completion = std::function<void(const EngineError &, const QList<LockInfo> &)>;

    /// \a connection outlives this.
    explicit LockListing(QtRedis::Connection *connection)
        : m_connection(connection)
        , m_errors(connection)
    {
    }

    /// One entry for each of \a locks; where there are several, those are left out whose keys are not locks.
    void inspect(const QList<LockId> &locks, Completion completion);
    /// The first \a atMost waiters in the queue of \a lock, the next one first.
    using WaitersCompletion = std::function<void(const EngineError &, const QList<LockWaiter> &)>;
    void waiters(const LockId &lock, int atMost, WaitersCompletion completion);
    /// The locks that are held: their names match \a pattern, as in SCAN.
    void list(const QString &prefix, const QString &pattern, Completion completion);

private:
    struct Scan;

    void scan(const std::shared_ptr<Scan> &scan, const QByteArray &cursor);
    void inspectAll(const std::shared_ptr<Scan> &scan, const QList<LockId> &locks, const QByteArray &nextCursor);
    void goOn(const std::shared_ptr<Scan> &scan, const QByteArray &nextCursor);

    QtRedis::Connection *const m_connection;
    RedisErrors m_errors;
};

} // namespace QDistLock
