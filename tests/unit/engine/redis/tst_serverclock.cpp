// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/serverclock.h"

#include <QtTest/QTest>

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::microseconds;

namespace {

/// The server's clock shows this when the lease clock shows 0.
constexpr microseconds Offset = 1'795'000'000s;

LeaseTime at(std::chrono::nanoseconds time)
{
    return LeaseTime(time);
}

} // namespace

class tst_ServerClock : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void withoutSample() { QVERIFY(!ServerClock().earliest(Offset, at(1s))); }
    void sentAtIsTheBound();
    void neverLaterThanNow();
    void olderMessage();
    void driftsWithAge();
    void newestSampleCounts();
    void clockSetForward();
    void clockSetForwardWithinASlowReply();
    void clockSetBack();
    void forgets();
};

void tst_ServerClock::sentAtIsTheBound()
{
    // Sent at 100 ms and replied at 140 ms; the server executed it at 130 ms, which nobody knows.
    ServerClock clock;
    clock.sample(Offset + 130ms, at(100ms));
    // 50 ms later: 30 ms earlier than it was, and 1 % of 100 ms earlier still.
    QCOMPARE(clock.earliest(Offset + 180ms, at(200ms)), at(149ms));
}

void tst_ServerClock::neverLaterThanNow()
{
    ServerClock clock;
    clock.sample(Offset + 100ms, at(100ms));
    QCOMPARE(clock.earliest(Offset + 10s, at(200ms)), at(200ms));
}

void tst_ServerClock::olderMessage()
{
    ServerClock clock;
    clock.sample(Offset + 10s, at(10s));
    QCOMPARE(clock.earliest(Offset + 9s, at(10s)), at(9s));
}

void tst_ServerClock::driftsWithAge()
{
    ServerClock clock;
    clock.sample(Offset + 1s, at(1s));
    QCOMPARE(clock.earliest(Offset + 100s, at(101s)), at(99s));
}

void tst_ServerClock::newestSampleCounts()
{
    ServerClock clock;
    clock.sample(Offset + 1001ms, at(1s));
    clock.sample(Offset + 1600ms, at(1100ms)); // half a second under way
    QCOMPARE(clock.earliest(Offset + 2s, at(2s)), at(1500ms - 9ms));
    clock.sample(Offset + 2s, at(2s));
    QCOMPARE(clock.earliest(Offset + 2s, at(2001ms)), at(2s - 10us));
}

void tst_ServerClock::clockSetForward()
{
    ServerClock clock;
    clock.sample(Offset + 1s, at(1s));
    clock.sample(Offset + 62s, at(2s)); // a minute
    QCOMPARE(clock.earliest(Offset + 62s, at(3s)), at(2s - 10ms));
}

// The reply comes so late that it does not contradict the former sample.
void tst_ServerClock::clockSetForwardWithinASlowReply()
{
    ServerClock clock;
    clock.sample(Offset + 1s, at(1s));
    // Executed at 1100 ms, after the clock was set forward by 300 ms; received at 1600 ms.
    clock.sample(Offset + 1400ms, at(1100ms));
    // The lock is handed over at 1150 ms, and the message comes at 1600 ms.
    QCOMPARE(clock.earliest(Offset + 1450ms, at(1600ms)), at(1150ms - 5ms));
}

void tst_ServerClock::clockSetBack()
{
    // A message looks older than it is until the next sample.
    ServerClock clock;
    clock.sample(Offset + 61s, at(1s));
    QCOMPARE(clock.earliest(Offset + 2s, at(2s)), at(-58s - 10ms));
    clock.sample(Offset + 2s, at(2s));
    QCOMPARE(clock.earliest(Offset + 2s, at(2s)), at(2s));
}

void tst_ServerClock::forgets()
{
    ServerClock clock;
    clock.sample(Offset, at(0s));
    clock.forget();
    QVERIFY(!clock.earliest(Offset, at(1s)));
}

QTEST_GUILESS_MAIN(tst_ServerClock)
#include "tst_serverclock.moc"
