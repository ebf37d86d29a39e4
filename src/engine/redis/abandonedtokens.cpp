// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/abandonedtokens.h"

#include "base/leaseclock.h"

#include <QtCore/qtimer.h>

#include <algorithm>
#include <utility>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr milliseconds RetryInterval = 1s;
/// A token is remembered this long after the server has refused its cancel for good.
constexpr milliseconds RefusedAtMost = 10min;

} // namespace

AbandonedTokens::AbandonedTokens(const LeaseClock *clock, std::function<bool(const LockId &)> isReady,
                                 std::function<void(LockOperation)> send)
    : m_clock(clock)
    , m_isReady(std::move(isReady))
    , m_send(std::move(send))
{
}

void AbandonedTokens::add(const LockId &lock, const QByteArray &token, milliseconds lease, milliseconds keep,
                          milliseconds atMost)
{
    const quint64 sequence = Token::sequenceOf(token);
    m_tokens.insert(sequence, {token, lock, lease, keep, m_clock->now() + atMost});
    if (m_retryDue && m_isReady(lock))
        retryNow();
    else
        send(sequence);
}

void AbandonedTokens::forget(const QByteArray &token)
{
    if (!m_tokens.isEmpty())
        m_tokens.remove(Token::sequenceOf(token));
}

bool AbandonedTokens::contains(const QByteArray &token) const
{
    return m_tokens.contains(Token::sequenceOf(token));
}

bool AbandonedTokens::needConnection() const
{
    const LeaseTime now = m_clock->now();
    return std::any_of(m_tokens.cbegin(), m_tokens.cend(),
                       [now](const Entry &entry) { return !entry.isDone && entry.until > now; });
}

LockOperations AbandonedTokens::unconfirmed() const
{
    LockOperations cancels;
    for (const Entry &entry : m_tokens) {
        if (!entry.isDone || !entry.hadSomething)
            cancels.push_back({LockOperation::Cancel, entry.lock, entry.token, entry.lease, nullptr, entry.keep});
    }
    return cancels;
}

void AbandonedTokens::sendAll()
{
    const QList<quint64> sequences = m_tokens.keys();
    for (const quint64 sequence : sequences)
        send(sequence);
}

void AbandonedTokens::retryNow()
{
    if (std::exchange(m_retryDue, false))
        sendAll();
}

void AbandonedTokens::found(quint64 sequence)
{
    const auto it = m_tokens.find(sequence);
    if (it == m_tokens.end())
        return;
    it->isDone = false;
    it->wasFound = it->inFlight; // it may have run before, if the acquire was sent over another connection
    send(sequence);
}

void AbandonedTokens::send(quint64 sequence)
{
    const auto it = m_tokens.find(sequence);
    if (it == m_tokens.end() || it->isDone || !m_isReady(it->lock) || std::exchange(it->inFlight, true))
        return; // unless the server is ready, sendAll() will follow
    m_send({LockOperation::Cancel, it->lock, it->token, it->lease,
            [this, sequence](const EngineReply &reply) { replied(sequence, reply); }, it->keep});
}

void AbandonedTokens::replied(quint64 sequence, const EngineReply &reply)
{
    const auto it = m_tokens.find(sequence);
    if (it == m_tokens.end())
        return;
    it->inFlight = false;
    if (std::exchange(it->wasFound, false)) {
        send(sequence);
        return;
    }
    const bool isRefused = reply.error.isPermanent && m_isReady(it->lock);
    if (reply.status == EngineReply::Failed && !isRefused) {
        retryLater();
        return;
    }
    // An acquire may still run: if it was sent again after NOSCRIPT or NOPERM, or with a connection that was lost; then
    // found() is called. A cancel that was refused, because somebody is changing the user's rights, is sent again when
    // the token is served, or at the end.
    it->isDone = true;
    it->hadSomething = reply.status == EngineReply::Done;
    it->until = std::min(it->until, m_clock->now() + (isRefused ? RefusedAtMost : 2 * LongestTimeout));
    if (m_tokens.size() >= m_removeOutdatedAt)
        removeOutdated();
}

/// The cancels are also sent with the next operation or connection, if that is earlier.
void AbandonedTokens::retryLater()
{
    if (std::exchange(m_retryDue, true))
        return;
    QTimer::singleShot(RetryInterval, this, &AbandonedTokens::retryNow);
}

void AbandonedTokens::removeOutdated()
{
    const LeaseTime now = m_clock->now();
    m_tokens.removeIf([now](auto it) { return !it->inFlight && it->until <= now; });
    m_removeOutdatedAt = std::max<qsizetype>(64, 2 * m_tokens.size());
}

} // namespace QDistLock
