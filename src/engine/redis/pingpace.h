// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <algorithm>
#include <chrono>

/// How often a client checks the connections over which its waiters are notified. Thread-safe.
namespace QDistLock::PingPace {

/// For a waiter at the head of its queue.
inline constexpr std::chrono::milliseconds Interval = std::chrono::seconds(5);
/// There are many behind it, which check less often: together a thousand clients send some tens of PINGs a second.
inline constexpr int PositionsForInterval = 16;
inline constexpr std::chrono::milliseconds LongestInterval = std::chrono::minutes(2);
/// For a client in which nobody waits.
inline constexpr std::chrono::milliseconds IdleInterval = std::chrono::minutes(1);

/// \a position: the lowest of the client's waiters; negative = nobody waits.
inline bool isDue(int position, std::chrono::milliseconds sinceLast)
{
    const std::chrono::milliseconds interval = position < 0
            ? IdleInterval
            : std::min<std::chrono::milliseconds>(Interval * (1 + position / PositionsForInterval), LongestInterval);
    return sinceLast + Interval / 2 > interval;
}

} // namespace QDistLock::PingPace
