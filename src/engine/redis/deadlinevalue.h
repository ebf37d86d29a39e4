// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "redis/reply.h"

#include <QtCore/qbytearray.h>

#include <chrono>
#include <optional>

/*!
    Clients older than `SET … PX` write the end of their lease as the value of the key, and give it no time to live. The
    scripts read such values by themselves, see timeLeft() in common.lua; this does the same without scripts.
    Thread-safe.
*/
namespace QDistLock::DeadlineValue {

/// The server's time since 1970 from a reply to TIME; 0 if it is another reply.
std::chrono::microseconds serverTime(const QtRedis::Reply &time);
/// Whether \a value has the form of a Unix time in ms (13 digits) or in s (10 digits).
bool hasForm(const QByteArray &value);
/// The time until the deadline that is the \a value of a key without a time to live; negative once it has passed.
/// nullopt if \a value is no deadline.
std::optional<std::chrono::milliseconds> timeLeft(const QByteArray &value, std::chrono::microseconds serverTime);
/// The time until the lock may be taken over: a deadline has a grace time. Not positive if that is over.
std::chrono::milliseconds untilTakeOver(std::chrono::milliseconds timeLeft);
/// What users see: the time until the deadline, and after it the rest of the grace time.
std::chrono::milliseconds shown(std::chrono::milliseconds timeLeft);

} // namespace QDistLock::DeadlineValue
