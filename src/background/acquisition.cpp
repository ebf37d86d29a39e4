// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "background/acquisition.h"

#include "base/forkcount.h"
#include "lock/resolvedaddress.h"

#include <utility>

using namespace Qt::StringLiterals;

namespace QDistLock {

Acquisition::Acquisition(const QList<LockAddress> &addresses, const LockOptions &options, AcquireCompletion completion,
                         bool failFast, UseLimit useLimit, LossNotice lost)
    : addresses(addresses)
    , options(options)
    , failFast(failFast)
    , useLimit(std::move(useLimit))
    , forks(forkCount())
    , m_completion(std::move(completion))
    , m_lost(std::move(lost))
{
}

bool Acquisition::isHeld() const
{
    return !abandoned.load(std::memory_order_relaxed) && forks == forkCount()
            && LeaseClock::system()->now() < deadline.load(std::memory_order_acquire);
}

LockResult Acquisition::result() const
{
    return hasEnded() ? m_result
                      : acquireFailure(DistributedLock::CancelledError, addresses.first().name(),
                                       u"the acquire has not ended yet"_s);
}

qint64 Acquisition::fencingToken(const LockAddress &address) const
{
    if (!hasEnded())
        return 0;
    for (qsizetype i = 0; i < m_fencingTokens.size(); ++i) {
        if (isSameLock(addresses.at(i), address))
            return m_fencingTokens.at(i);
    }
    return 0;
}

void Acquisition::end(const LockResult &result, const QList<qint64> &fencingTokens, const QByteArray &client)
{
    m_result = result;
    m_fencingTokens = fencingTokens;
    m_client = client;
    m_ended.store(true, std::memory_order_release);
    acquireEnded.release();
    const auto completion = std::exchange(m_completion, nullptr);
    if (completion && !abandoned.load())
        completion();
}

void Acquisition::endHold(bool confirmed)
{
    deadline.store(LeaseTime(), std::memory_order_release);
    releaseConfirmed.store(confirmed);
    holdEnded.release();
}

void Acquisition::loseHold()
{
    endHold(false);
    if (m_lost && !abandoned.load())
        m_lost();
}

bool Acquisition::decideUse(Use use)
{
    Use decided = Undecided;
    return m_use.compare_exchange_strong(decided, use) || decided == use;
}

LockResult acquireFailure(DistributedLock::Error error, const QString &name, const QString &text)
{
    return {error, u"Lock %1: %2"_s.arg(Detail::quoted(name), text), 0};
}

} // namespace QDistLock
