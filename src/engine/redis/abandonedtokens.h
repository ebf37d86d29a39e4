// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "engine/redis/commandbatch.h"

#include <QtCore/qhash.h>
#include <QtCore/qobject.h>

#include <functional>

namespace QDistLock {

class LeaseClock;

/*!
    Cancels tokens that nobody wants any more, until the server has confirmed that it keeps nothing under them: a cancel
    is sent again after a passing failure, after a reconnection, and if an acquire turns out to have run after it.
    Thread: the one it lives in.
*/
class AbandonedTokens : public QObject
{
    Q_OBJECT
public:
    /// \a isReady: whether the server that keeps a lock can be reached; when it can again, sendAll() must be called.
    /// \a send sends an operation.
    AbandonedTokens(const LeaseClock *clock, std::function<bool(const LockId &)> isReady,
                    std::function<void(LockOperation)> send);

    /// As LockEngine::abandon().
    void add(const LockId &lock, const QByteArray &token, std::chrono::milliseconds lease,
             std::chrono::milliseconds keep, std::chrono::milliseconds atMost);
    /// The token is wanted again: what is sent for it from now on runs after the cancels that were sent.
    void forget(const QByteArray &token);
    bool isEmpty() const { return m_tokens.isEmpty(); }
    bool contains(const QByteArray &token) const;
    /// Whether a token still has to be cancelled.
    bool needConnection() const;
    /// The cancels that the server has not confirmed.
    LockOperations unconfirmed() const;

    /// Sends all cancels that are due: a server can be reached again.
    void sendAll();
    /// Sends those that failed for a passing reason, without waiting any longer.
    void retryNow();
    /// The server has something under the token with this sequence number, if it is one of these.
    void found(quint64 sequence);

private:
    struct Entry
    {
        QByteArray token;
        quint64 generation; ///< a token may be abandoned, wanted again, and abandoned again
        LockId lock;
        std::chrono::milliseconds lease;
        std::chrono::milliseconds keep;
        LeaseTime until; ///< from then on the entry may be removed
        bool inFlight = false;
        bool wasFound = false;     ///< since it was sent: found() was called
        bool isDone = false;       ///< the server has confirmed the cancel, or has refused it for good
        bool hadSomething = false; ///< the confirmed cancel found the lock or a place in the queue under the token
    };

    void send(const QByteArray &token);
    void replied(const QByteArray &token, quint64 generation, const EngineReply &reply);
    void retryLater();
    void removeOutdated();

    const LeaseClock *const m_clock;
    const std::function<bool(const LockId &)> m_isReady;
    const std::function<void(LockOperation)> m_send;
    QMultiHash<quint64, Entry> m_tokens; ///< by sequence number, which tokens of other clients may have, too
    quint64 m_lastGeneration = 0;
    qsizetype m_removeOutdatedAt = 64; ///< size of m_tokens
    bool m_retryDue = false;           ///< some cancels failed for a passing reason
};

} // namespace QDistLock
