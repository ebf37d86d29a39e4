// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/backoff.h"

#include <QtTest/qtest.h>

using namespace std::chrono_literals;

using QDistLock::BackOff;

class tst_BackOff : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void doubles();
    void jitter();
};

void tst_BackOff::doubles()
{
    BackOff backOff(10ms, 0);
    for (int round = 0; round < 2; ++round) {
        for (const auto pause : {10ms, 20ms, 40ms, 80ms, 100ms, 100ms})
            QCOMPARE(backOff.next(100ms), std::chrono::nanoseconds(pause));
        backOff.reset();
    }
    // The limit may change, and is never below the first pause.
    for (int i = 0; i < 100; ++i)
        QVERIFY(backOff.next(1s) <= 1s);
    QCOMPARE(backOff.next(30ms), std::chrono::nanoseconds(30ms));
    QCOMPARE(backOff.next(1ms), std::chrono::nanoseconds(10ms));
}

void tst_BackOff::jitter()
{
    auto shortest = std::chrono::nanoseconds::max();
    auto longest = std::chrono::nanoseconds::min();
    for (int i = 0; i < 1000; ++i) {
        const auto pause = BackOff(1s, 0.25).next(10s);
        shortest = std::min(shortest, pause);
        longest = std::max(longest, pause);
    }
    QVERIFY(shortest >= 750ms && shortest < 800ms);
    QVERIFY(longest <= 1250ms && longest > 1200ms);
}

QTEST_APPLESS_MAIN(tst_BackOff)
#include "tst_backoff.moc"
