// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/leaseclock.h"
#include "support/fakeclock.h"

#include <QtTest/qtest.h>

using namespace std::chrono_literals;

using QDistLock::Deadline;
using QDistLock::LeaseClock;

class tst_Deadline : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void init() { LeaseClock::replaceSystem(&m_clock); }
    void cleanup() { LeaseClock::replaceSystem(nullptr); }

    void expires();
    void order();
    void replacedClock();

private:
    Support::FakeClock m_clock;
};

void tst_Deadline::expires()
{
    QVERIFY(Deadline().hasExpired());
    QCOMPARE(Deadline().remaining(), 0ms);
    QVERIFY(Deadline(0ms).hasExpired());

    const Deadline deadline(10ms);
    QCOMPARE(deadline.remaining(), 10ms);
    m_clock.advance(10ms - 1ns);
    QVERIFY(!deadline.hasExpired());
    QCOMPARE(deadline.remaining(), 1ms); // a timer must not end before it
    m_clock.advance(1ns);
    QVERIFY(deadline.hasExpired());
    QCOMPARE(deadline.remaining(), 0ms);
    m_clock.advance(1h);
    QVERIFY(deadline.hasExpired());
    QCOMPARE(deadline.remaining(), 0ms);
}

void tst_Deadline::order()
{
    QVERIFY(Deadline(1ms) < Deadline(2ms));
    QVERIFY(!(Deadline(1ms) < Deadline(1ms)));
    QVERIFY(Deadline() < Deadline(0ms));
}

void tst_Deadline::replacedClock()
{
    QVERIFY(LeaseClock::system() == &m_clock);
    LeaseClock::replaceSystem(nullptr);
    const auto before = LeaseClock::system()->now();
    const Deadline deadline(1ms);
    QTRY_VERIFY(deadline.hasExpired());
    QVERIFY(LeaseClock::system()->now() - before >= 1ms);
}

QTEST_APPLESS_MAIN(tst_Deadline)
#include "tst_deadline.moc"
