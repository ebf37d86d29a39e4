// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include "eventloopprobe.h"

#include <QtTest/qtest.h>

/// As QTRY_COMPARE, but waits for a minute, and polls every millisecond.
#define EVENTUALLY_COMPARE(actual, expected) \
  do { \
    Support::EventLoopProbe::waitFor([&] { return (actual) == (expected); }); \
    QCOMPARE(actual, expected); \
  } while (false)

/// As QTRY_VERIFY, but waits for a minute, and polls every millisecond.
#define EVENTUALLY_VERIFY(condition) \
  QVERIFY2(Support::EventLoopProbe::waitFor([&] { return bool(condition); }), #condition)
