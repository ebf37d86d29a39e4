// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/deadlinevalue.h"

#include "engine/protocolconstants.h"

#include <algorithm>

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace QDistLock {

namespace {

constexpr qsizetype MsDigits = 13;
constexpr qsizetype SecondsDigits = 10;

} // namespace

std::chrono::microseconds DeadlineValue::serverTime(const QtRedis::Reply &time)
{
    if (time.elements.size() != 2)
        return 0us;
    return std::chrono::seconds(time.elements.at(0).text.toLongLong())
            + std::chrono::microseconds(time.elements.at(1).text.toLongLong());
}

bool DeadlineValue::hasForm(const QByteArray &value)
{
    return (value.size() == MsDigits || value.size() == SecondsDigits)
            && std::all_of(value.cbegin(), value.cend(), [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<milliseconds> DeadlineValue::timeLeft(const QByteArray &value, std::chrono::microseconds serverTime)
{
    if (!hasForm(value))
        return std::nullopt;
    const milliseconds deadline(value.toLongLong() * (value.size() == SecondsDigits ? 1000 : 1));
    const milliseconds left = deadline - std::chrono::floor<milliseconds>(serverTime);
    return left >= -Protocol::StampBehind ? std::optional(left) : std::nullopt;
}

milliseconds DeadlineValue::untilTakeOver(milliseconds timeLeft)
{
    return timeLeft + Protocol::StampGrace;
}

milliseconds DeadlineValue::shown(milliseconds timeLeft)
{
    return timeLeft > 0ms ? timeLeft : std::max(untilTakeOver(timeLeft), 0ms);
}

} // namespace QDistLock
