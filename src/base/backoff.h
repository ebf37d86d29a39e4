// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qrandom.h>

#include <algorithm>
#include <chrono>

namespace QDistLock {

/// \a duration, longer or shorter by a random part of it up to \a share, so that clients do not act at the same time.
inline std::chrono::nanoseconds jittered(std::chrono::nanoseconds duration, double share)
{
    const double factor = 1 - share + 2 * share * QRandomGenerator::global()->generateDouble();
    return std::chrono::round<std::chrono::nanoseconds>(duration * factor);
}

/// The pauses before repeated attempts: each is twice as long as the one before. Thread: a plain value.
class BackOff
{
public:
    constexpr BackOff(std::chrono::nanoseconds first, double jitter)
        : m_first(first)
        , m_jitter(jitter)
    {
    }

    /// Twice the last pause, but at least the first one, and at most \a longest if that is longer; then jittered().
    std::chrono::nanoseconds next(std::chrono::nanoseconds longest)
    {
        m_last = std::clamp(2 * m_last, m_first, (std::max)(longest, m_first));
        return jittered(m_last, m_jitter);
    }
    /// An attempt was successful.
    void reset() { m_last = {}; }

private:
    std::chrono::nanoseconds m_first;
    std::chrono::nanoseconds m_last{0};
    double m_jitter;
};

} // namespace QDistLock
