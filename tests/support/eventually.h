// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#pragma once

#include <QtCore/qdeadlinetimer.h>
#include <QtTest/qtest.h>

#include <chrono>

/// As QTRY_COMPARE, but waits for a minute, and polls every millisecond.
#define EVENTUALLY_COMPARE(actual, expected) \
  do { \
    for (QDeadlineTimer end(std::chrono::minutes(1)); !((actual) == (expected)) && !end.hasExpired();) \
      QTest::qWait(1); \
    QCOMPARE(actual, expected); \
  } while (false)

/// As QTRY_VERIFY, but waits for a minute, and polls every millisecond.
#define EVENTUALLY_VERIFY(condition) \
  do { \
    bool isMet = false; \
    for (QDeadlineTimer end(std::chrono::minutes(1)); !(isMet = (condition)) && !end.hasExpired();) \
      QTest::qWait(1); \
    QVERIFY2(isMet, #condition); \
  } while (false)
