// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include "redis/reply.h"
#include "redis/script.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace QDistLock {

/// A server that takes longer to reply to a command is given up.
inline constexpr std::chrono::milliseconds LongestTimeout = std::chrono::seconds(3);

/// One operation on one lock.
struct LockOperation
{
    enum Kind { Acquire, Renew, Release, Cancel, Convert };
    Kind kind;
    LockId lock;
    QByteArray token;
    std::chrono::milliseconds lease;
    LockEngine::Completion completion; ///< never null until the operation has ended
    std::chrono::milliseconds keep{0}; ///< Release, Cancel: as in LockEngine::release()
    QByteArray flags = {};             ///< Acquire: those of acquire.lua
    QByteArray arrival = {};           ///< Acquire
    QByteArray caller = {};            ///< Release: our client id, if another client has made the token
    int slot = -1;                     ///< in a cluster: that of the lock's keys
    int redirections = 0;              ///< in a cluster: how often a node has refused it
    qint64 floor = 0;                  ///< Acquire, in a quorum: the fencing token is at least this; 0 = none
    QByteArray from = {};              ///< Convert: the token whose place `token` takes
    int permits = 0;                   ///< Acquire: as in LockEngine::Acquire
    quint64 together = 0;              ///< Acquire: as in LockEngine::Acquire

    /// For a token that nobody wants any more. Its completion does nothing.
    static LockOperation ofCancel(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                                  std::chrono::milliseconds keep);
    static LockOperation ofAcquire(const LockEngine::Acquire &operation, LockEngine::Completion completion);
    static LockOperation ofConversion(const LockEngine::Acquire &operation, const QByteArray &from,
                                      LockEngine::Completion completion);
    /// \a clientId is ours.
    static LockOperation ofRelease(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
                                   std::chrono::milliseconds keep, const QByteArray &clientId,
                                   LockEngine::Completion completion);
    /// The connection is given up if the reply takes longer.
    std::chrono::milliseconds timeout() const;
};
using LockOperations = std::vector<LockOperation>;

/// Operations of one kind that share a command, which is a call of a script. Thread: one at a time.
class CommandBatch
{
public:
    /// At least one operation; each of them can share a command with the first.
    CommandBatch(LockOperations operations, LeaseTime sentAt)
        : m_operations(std::move(operations))
        , m_sentAt(sentAt)
    {
    }

    static bool canShareCommand(const LockOperation &first, const LockOperation &other);
    /// At most this many operations of one kind share a command.
    static qsizetype limit(LockOperation::Kind kind);

    /// Moves \a operations to \a send in batches, each with a timeout. They keep their order, but for renewals of
    /// different slots.
    template<typename Send>
    static void split(LockOperations operations, Send send);

    LockOperations &operations() { return m_operations; }
    const LockOperations &operations() const { return m_operations; }
    LeaseTime sentAt() const { return m_sentAt; }
    const QtRedis::Script &script() const;
    QList<QByteArray> keys() const;
    QList<QByteArray> arguments() const;

    /// The reply to one operation of a batch.
    struct Decoded
    {
        EngineReply reply;
        bool isMalformed = false;
        QByteArray errorText = {}; ///< of an error reply to this operation alone
        std::optional<LockEngine::Handover> handover = std::nullopt;
        bool deadWaitersLeft = false; ///< in the queue: more than one call of the script may remove
        /// The time on the server's clock when it ran the operation, if the reply contains it.
        std::optional<std::chrono::microseconds> serverTime = std::nullopt;
    };
    Decoded decode(size_t index, const QtRedis::Reply &element) const;

private:
    /// In a cluster: so that those of one slot are neighbours. Those of one lock keep their order.
    static void sortBySlot(LockOperations::iterator first, LockOperations::iterator last);

    LockOperations m_operations;
    LeaseTime m_sentAt;
};

template<typename Send>
void CommandBatch::split(LockOperations operations, Send send)
{
    // Only neighbours share a command, so that the order of the operations on one lock is kept.
    auto endOfKind = operations.begin();
    std::chrono::milliseconds timeout(0);
    for (auto first = operations.begin(); first != operations.end();) {
        if (first == endOfKind) {
            // The longest timeout of those that are sent together: when it has passed, the connection of all locks is
            // given up.
            timeout = std::chrono::milliseconds(0);
            for (; endOfKind != operations.end() && endOfKind->kind == first->kind; ++endOfKind)
                timeout = std::max(timeout, endOfKind->timeout());
            if (first->kind == LockOperation::Renew)
                sortBySlot(first, endOfKind);
        }
        auto last = first;
        while (last != operations.end() && last - first < limit(first->kind) && canShareCommand(*first, *last))
            ++last;
        send(LockOperations(std::make_move_iterator(first), std::make_move_iterator(last)), timeout);
        first = last;
    }
}

} // namespace QDistLock
