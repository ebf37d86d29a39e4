// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/zookeeper/sessionlife.h"

#include <QtTest/qtest.h>

using namespace QDistLock;
using namespace std::chrono_literals;

class tst_SessionLife : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void begins();
    void answerAloneProvesNothing();
    void writeProvesWhatWasAnsweredAQuarterBefore();
    void nothingCountsOfAnEarlierConnection();
    void smallerTimeoutOfALaterConnection();
    void neverGoesBack();
};

namespace {

constexpr auto Timeout = 40s;

LeaseTime at(std::chrono::nanoseconds time)
{
    return LeaseTime(1h + time);
}

/// Until when a session lives that was heard at \a time.
LeaseTime lifeFrom(std::chrono::nanoseconds time)
{
    return at(time + Timeout - 402ms); // 1 % and 2 ms
}

SessionLife begun()
{
    SessionLife life;
    life.begin(at(0s), Timeout);
    return life;
}

} // namespace

void tst_SessionLife::begins()
{
    QCOMPARE(begun().validUntil(), lifeFrom(0s));
    QVERIFY(SessionLife().validUntil() < at(0s));
}

void tst_SessionLife::answerAloneProvesNothing()
{
    SessionLife life = begun();
    for (auto time = 1s; time < 100s; time += 1s)
        life.answered(at(time)); // by a server that has lost its leader
    QCOMPARE(life.validUntil(), lifeFrom(0s));
}

void tst_SessionLife::writeProvesWhatWasAnsweredAQuarterBefore()
{
    SessionLife life = begun();
    life.answered(at(5s));
    life.answered(at(9s));
    life.answered(at(15s));
    life.confirmed(at(15s));
    QCOMPARE(life.validUntil(), lifeFrom(5s));
    life.confirmed(at(19s));
    QCOMPARE(life.validUntil(), lifeFrom(9s));
    life.confirmed(at(25s));
    QCOMPARE(life.validUntil(), lifeFrom(15s));
    life.confirmed(at(90s)); // nothing was answered since
    QCOMPARE(life.validUntil(), lifeFrom(15s));
}

void tst_SessionLife::nothingCountsOfAnEarlierConnection()
{
    SessionLife life = begun();
    life.answered(at(5s));
    life.resume(at(20s), Timeout);
    QCOMPARE(life.validUntil(), lifeFrom(0s)); // the server that granted it may have no leader
    life.confirmed(at(21s));
    QCOMPARE(life.validUntil(), lifeFrom(20s)); // the leader itself was asked
}

void tst_SessionLife::smallerTimeoutOfALaterConnection()
{
    SessionLife life = begun();
    life.resume(at(20s), 10s);
    life.confirmed(at(21s));
    QCOMPARE(life.validUntil(), at(30s - 102ms));
    life.resume(at(25s), Timeout); // never trusted again
    life.confirmed(at(26s));
    QCOMPARE(life.validUntil(), at(35s - 102ms));
}

void tst_SessionLife::neverGoesBack()
{
    SessionLife life = begun();
    life.answered(at(5s));
    life.answered(at(20s));
    life.confirmed(at(40s));
    life.confirmed(at(16s)); // sent before, answered after
    QCOMPARE(life.validUntil(), lifeFrom(20s));
}

QTEST_APPLESS_MAIN(tst_SessionLife)
#include "tst_sessionlife.moc"
