// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Deadlines that clients without a time to live write as the value of a key.

#include "engine/redis/deadlinevalue.h"

#include <QtTest/qtest.h>

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

class tst_DeadlineValue : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void timeLeft_data();
    void timeLeft();
    void anHour();
    void serverTime();
};

void tst_DeadlineValue::timeLeft_data()
{
    QTest::addColumn<qint64>("left"); // ms; the least number = no deadline
    const auto row = [](const char *value, qint64 left) { QTest::newRow(value) << left; };
    constexpr qint64 None = std::numeric_limits<qint64>::min();
    row("1700000000000", 0);
    row("1700000000001", 1);
    row("1699999999999", -1);
    row("1700000000", 0);
    row("1700000001", 1000);
    row("1699999999", -1000);
    row("9999999999999", 8'299'999'999'999); // however far ahead
    row("9999999999", 8'299'999'999'000);
    row("1697408000000", -2'592'000'000); // 30 days
    row("1697407999999", None);
    row("1697408000", -2'592'000'000);
    row("1697407999", None);
    row("0999999999999", None);
    row("170000000", None);
    row("17000000000", None);
    row("170000000000", None);
    row("17000000000000", None);
    row("+700000000000", None);
    row("-700000000000", None);
    row(" 700000000000", None);
    row("17000000000.0", None);
    row("1700000000abc", None);
    row("", None);
}

void tst_DeadlineValue::timeLeft()
{
    QFETCH(qint64, left);
    const auto result = DeadlineValue::timeLeft(QTest::currentDataTag(), 1'700'000'000'000'999us);
    QCOMPARE(result.value_or((milliseconds::min)()).count(), left);
}

// A deadline an hour ahead is untouched for an hour, and taken over one to two seconds after it.
void tst_DeadlineValue::anHour()
{
    const std::chrono::microseconds start = 1'700'000'000'000'000us;
    for (const QByteArray &value : {QByteArray("1700003600000"), QByteArray("1700003600")}) {
        for (milliseconds passed = 0ms; passed < 1h + 3s; passed += 100ms) {
            const auto left = DeadlineValue::timeLeft(value, start + passed);
            QVERIFY(left);
            const bool isOver = DeadlineValue::untilTakeOver(*left) <= 0ms;
            QCOMPARE(isOver, passed >= 1h + 1s);
            const milliseconds shown = DeadlineValue::shown(*left);
            QCOMPARE(shown, passed < 1h ? 1h - passed : std::max<milliseconds>(1h + 1s - passed, 0ms));
        }
    }
}

void tst_DeadlineValue::serverTime()
{
    QtRedis::Reply seconds, micros, time;
    seconds.text = "1700000000";
    micros.text = "42";
    QCOMPARE(DeadlineValue::serverTime(time), 0us);
    time.elements = {seconds, micros};
    QCOMPARE(DeadlineValue::serverTime(time), 1'700'000'000'000'042us);
}

QTEST_GUILESS_MAIN(tst_DeadlineValue)
#include "tst_deadlinevalue.moc"
