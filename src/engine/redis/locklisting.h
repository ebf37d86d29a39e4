// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockid.h"
#include "engine/redis/holderlookup.h"
#include "engine/redis/rediserrors.h"

#include <QDistLock/lockinfo.h>

#include <QtCore/qhash.h>
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

    using Found = std::function<void(const EngineError &, const QList<FoundLock> &)>;
    using Read = std::function<void(const LockId &lock, Found found)>;

    /// \a connection, \a holders and \a errors outlive this.
    LockListing(QtRedis::Connection *connection, HolderLookup *holders, RedisErrors *errors)
        : m_connection(connection)
        , m_holders(holders)
        , m_errors(errors)
    {
    }

    /// For a node of a cluster, which refuses commands with keys of several slots. \a read is used for a lock whose
    /// keys are not all at this node, because its slot is moving.
    void setReadMoving(Read read) { m_readMoving = std::move(read); }

    /// Without scripts, while \a isPlain. \a isRefused: the server refuses the script, and isPlain is true from now on.
    void setPlain(std::function<bool()> isPlain, std::function<bool(const QtRedis::CommandResult &)> isRefused)
    {
        m_isPlain = std::move(isPlain);
        m_isRefused = std::move(isRefused);
    }

    void inspect(const LockId &lock, Completion completion);
    /// The first \a atMost waiters in the queue of \a lock, the next one first.
    using WaitersCompletion = std::function<void(const EngineError &, const QList<LockWaiter> &)>;
    void waiters(const LockId &lock, int atMost, WaitersCompletion completion);
    /// \a result is that of the script `waiters`.
    void waitersReceived(const QtRedis::CommandResult &result, WaitersCompletion completion);
    /// The locks that are held: their names match \a pattern, as in SCAN.
    void list(const QString &prefix, const QString &pattern, Completion completion);
    /// A `count` of keys for which a server needs about half a millisecond.
    static constexpr int ShortScan = 400;
    /// One step of what list() does: the locks that are held are among those found. \a cursor and `next`: as in SCAN.
    using Scanned = std::function<void(const EngineError &, const QList<LockId> &, const QByteArray &next)>;
    void scan(const QString &prefix, const QString &pattern, const QByteArray &cursor, int count, Scanned completion);
    /// As LockEngine::inspectAll().
    void inspectAll(const QList<LockId> &locks, std::function<void(const LockEngine::Inspection &)> completion);
    /// As LockEngine::clients(), but \a completion may be called before it returns.
    void clients(std::function<void(const EngineError &, const QSet<QByteArray> &ids)> completion);
    void identifyHolders(const QList<FoundLock> &locks, Completion completion);
    /// \a parts: as in inspect.lua.
    static FoundLock foundLock(const LockId &lock, const QList<QtRedis::Reply> &parts);

private:
    struct Scan;

    /// What happens if a key is no lock: the result is an error, or has no entry for it.
    enum Others { Refuse, Skip };
    void read(const QList<LockId> &locks, Others others, Found completion);
    void readPlainly(const QList<LockId> &locks, Others others, Found completion);
    void plainlyRead(const QList<LockId> &locks, Others others, const QList<QtRedis::CommandResult> &results,
                     const Found &completion);
    void readWaitersPlainly(const LockId &lock, int atMost, WaitersCompletion completion);
    /// The result of one command that reads several locks; or, while a slot of a cluster moves, of reading one lock at
    /// the other node.
    struct Part
    {
        QList<LockId> locks;
        EngineError error;
        QList<FoundLock> found;
    };
    /// One or more locks, \a limit at most with one command.
    void readParts(const QList<LockId> &locks, qsizetype limit, std::function<void(const QList<Part> &)> completion);
    LockEngine::Inspection inspectionOf(const QList<LockId> &locks, const QHash<QString, EngineError> &errors,
                                        const QList<LockInfo> &infos);
    EngineError clientsError() const;
    void scanOn(const std::shared_ptr<Scan> &scan, const QByteArray &cursor);
    void goOn(const std::shared_ptr<Scan> &scan, const QByteArray &nextCursor);

    QtRedis::Connection *const m_connection;
    HolderLookup *const m_holders;
    RedisErrors *const m_errors;
    Read m_readMoving; ///< null outside clusters
    std::function<bool()> m_isPlain;
    std::function<bool(const QtRedis::CommandResult &)> m_isRefused;
};

} // namespace QDistLock
