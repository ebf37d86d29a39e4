// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "eventloopprobe.h"

#include <QtTest/qtest.h>

#include <optional>

namespace Support::Detail {

/// The value of \a look at which \a isExpected became true, or the last one before the time-out.
template<typename Look, typename IsExpected>
auto lastSeen(Look look, IsExpected isExpected)
{
    std::optional<decltype(look())> seen;
    EventLoopProbe::waitFor([&] {
        seen.emplace(look());
        return isExpected(*seen);
    });
    return *seen;
}

} // namespace Support::Detail

/// As QTRY_COMPARE, but waits for a minute, and polls every millisecond. The value that ends the wait is compared: a
/// second look at a server could find another one.
#define EVENTUALLY_COMPARE(actual, expected) \
  do { \
    const auto lastSeen = Support::Detail::lastSeen([&] { return actual; }, \
                                                    [&](const auto &seen) { return seen == (expected); }); \
    if (!QTest::qCompare(lastSeen, expected, #actual, #expected, __FILE__, __LINE__)) \
      return; \
  } while (false)

/// As QTRY_VERIFY, but waits for a minute, and polls every millisecond.
#define EVENTUALLY_VERIFY(condition) \
  QVERIFY2(Support::EventLoopProbe::waitFor([&] { return bool(condition); }), #condition)
