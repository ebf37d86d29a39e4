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

/// The entry of \a token in \a tokens, or their end.
template<typename Tokens>
auto find(Tokens &tokens, const QByteArray &token)
{
    const quint64 sequence = Token::sequenceOf(token);
    auto it = tokens.find(sequence);
    while (it != tokens.end() && it.key() == sequence && it->token != token)
        ++it;
    return it != tokens.end() && it.key() == sequence ? it : tokens.end();
}

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
    forget(token);
    m_tokens.insert(Token::sequenceOf(token), {token, ++m_lastGeneration, lock, lease, keep, m_clock->now() + atMost});
    if (m_retryDue && m_isReady(lock))
        retryNow();
    else
        send(token);
}

void AbandonedTokens::forget(const QByteArray &token)
{
    const auto it = find(m_tokens, token);
    if (it != m_tokens.end())
        m_tokens.erase(it);
}

bool AbandonedTokens::contains(const QByteArray &token) const
{
    return find(m_tokens, token) != m_tokens.end();
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
            cancels.push_back(LockOperation::ofCancel(entry.lock, entry.token, entry.lease, entry.keep));
    }
    return cancels;
}

void AbandonedTokens::sendAll()
{
    QList<QByteArray> tokens;
    for (const Entry &entry : std::as_const(m_tokens))
        tokens.append(entry.token);
    for (const QByteArray &token : std::as_const(tokens))
        send(token);
}

void AbandonedTokens::retryNow()
{
    if (std::exchange(m_retryDue, false))
        sendAll();
}

void AbandonedTokens::found(quint64 sequence)
{
    QList<QByteArray> tokens;
    for (auto it = m_tokens.find(sequence); it != m_tokens.end() && it.key() == sequence; ++it) {
        it->isDone = false;
        it->wasFound = it->inFlight; // it may have run before, if the acquire was sent over another connection
        tokens.append(it->token);
    }
    for (const QByteArray &token : std::as_const(tokens))
        send(token);
}

void AbandonedTokens::send(const QByteArray &token)
{
    const auto it = find(m_tokens, token);
    if (it == m_tokens.end() || it->isDone || !m_isReady(it->lock) || std::exchange(it->inFlight, true))
        return; // unless the server is ready, sendAll() will follow
    m_send({LockOperation::Cancel, it->lock, it->token, it->lease,
            [this, token, generation = it->generation](const EngineReply &reply) { replied(token, generation, reply); },
            it->keep});
}

void AbandonedTokens::replied(const QByteArray &token, quint64 generation, const EngineReply &reply)
{
    const auto it = find(m_tokens, token);
    if (it == m_tokens.end() || it->generation != generation)
        return;
    it->inFlight = false;
    if (std::exchange(it->wasFound, false)) {
        send(token);
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
