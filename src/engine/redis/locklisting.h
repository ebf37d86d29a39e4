// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockid.h"
#include "engine/redis/holderlookup.h"
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

    /// \a connection and \a holders outlive this.
    LockListing(QtRedis::Connection *connection, HolderLookup *holders)
        : m_connection(connection)
        , m_holders(holders)
        , m_errors(connection)
    {
    }

    /// For a node of a cluster, which refuses commands with keys of several slots.
    void setOneSlotPerCommand() { m_isOneSlotPerCommand = true; }

    void inspect(const LockId &lock, Completion completion);
    /// The first \a atMost waiters in the queue of \a lock, the next one first.
    using WaitersCompletion = std::function<void(const EngineError &, const QList<LockWaiter> &)>;
    void waiters(const LockId &lock, int atMost, WaitersCompletion completion);
    /// The locks that are held: their names match \a pattern, as in SCAN.
    void list(const QString &prefix, const QString &pattern, Completion completion);

private:
    struct Scan;

    /// One entry for each of \a locks; where there are several, those are left out whose keys are not locks.
    void read(const QList<LockId> &locks,
              std::function<void(const EngineError &, const QList<FoundLock> &)> completion);
    void identifyHolders(const QList<FoundLock> &locks, Completion completion);
    void scan(const std::shared_ptr<Scan> &scan, const QByteArray &cursor);
    void inspectAll(const std::shared_ptr<Scan> &scan, const QList<LockId> &locks, const QByteArray &nextCursor);
    void goOn(const std::shared_ptr<Scan> &scan, const QByteArray &nextCursor);

    QtRedis::Connection *const m_connection;
    HolderLookup *const m_holders;
    RedisErrors m_errors;
    bool m_isOneSlotPerCommand = false;
};

} // namespace QDistLock
