// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/serverclock.h"

#include <algorithm>

namespace QDistLock {

void ServerClock::sample(std::chrono::microseconds serverTime, LeaseTime sentAt)
{
    m_zeroAt = sentAt - serverTime;
    m_sampledAt = sentAt;
}

std::optional<LeaseTime> ServerClock::earliest(std::chrono::microseconds serverTime, LeaseTime now) const
{
    if (!m_zeroAt)
        return std::nullopt;
    const auto drift = (now - m_sampledAt) / 100;
    return std::min(*m_zeroAt + serverTime - drift, now);
}

} // namespace QDistLock
