// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/lockengine.h"

#include <QtCore/qbytearrayview.h>

#include <chrono>
#include <optional>

namespace QDistLock {

class ServerClock;

/*!
    A message on a client's channel: `grant <sequence>`, `grant <sequence> <fencing token> <time> <ms> <proof>`,
    perhaps with slots before the proof, `next <sequence> <ms>` or `force <sequence>`, see docs/protocol.md. Anybody may
    publish there; only a script that serves the queue can prove a grant. Thread: a plain value.
*/
struct NoticeMessage
{
    LockEngine::Notice notice = LockEngine::Grant;
    quint64 sequence = 0;               ///< never 0 once parsed
    std::chrono::milliseconds delay{0}; ///< Next, of 32 bits; negative where the server's PTTL was

    /// A grant that makes the waiter the holder, if it is proven.
    struct Hold
    {
        qint64 fencingToken = 0;                ///< positive
        std::chrono::microseconds grantedAt{0}; ///< on the server's clock; positive
        std::chrono::milliseconds ttl{0};       ///< from then on; positive, of 32 bits
        QList<int> permitSlots;                 ///< as in EngineReply
        QByteArray proof;                       ///< 40 hex digits

        /// The message was written by somebody who knows \a token: the server, or the waiter itself.
        bool isProvenBy(const QByteArray &token) const;
    };
    std::optional<Hold> hold; ///< Grant
    /// The hold that the message gives to \a waiter, if it is proven; nullopt if the difference between the \a clock of
    /// the server that has sent it and ours is not known.
    std::optional<LockEngine::Handover> handover(const std::optional<LockEngine::Waiter> &waiter,
                                                 const ServerClock &clock, LeaseTime now) const;

    /// nullopt for all that is not exactly of this form, in the one canonical spelling of its numbers.
    static std::optional<NoticeMessage> parse(QByteArrayView payload);
};

} // namespace QDistLock
