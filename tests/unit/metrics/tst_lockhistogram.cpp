// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/LockMetrics>

#include <QtTest/qtest.h>

using namespace std::chrono_literals;

using QDistLock::LockHistogram;

class tst_LockHistogram : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void nothing();
    void insideARange();
    void acrossRanges();
    void beyondTheLastBound();
};

void tst_LockHistogram::nothing()
{
    QCOMPARE(LockHistogram().count(), 0U);
    for (const double percent : {0., 50., 100.})
        QCOMPARE(LockHistogram().percentile(percent), 0ns);
}

void tst_LockHistogram::insideARange()
{
    LockHistogram histogram;
    histogram.counts[0] = 4; // up to 1 ms
    QCOMPARE(histogram.percentile(0), 0ns);
    QCOMPARE(histogram.percentile(25), 250us);
    QCOMPARE(histogram.percentile(99), 990us);
    QCOMPARE(histogram.percentile(100), 1ms);

    histogram = {};
    histogram.counts[4] = 1; // from 100 ms to 500 ms
    QCOMPARE(histogram.percentile(0), 100ms);
    QCOMPARE(histogram.percentile(50), 300ms);
    QCOMPARE(histogram.percentile(100), 500ms);
}

void tst_LockHistogram::acrossRanges()
{
    LockHistogram histogram;
    histogram.counts[1] = 90; // from 1 ms to 5 ms
    histogram.counts[5] = 10; // from 500 ms to 2.5 s
    QCOMPARE(histogram.percentile(45), 3ms);
    QCOMPARE(histogram.percentile(90), 5ms);
    QCOMPARE(histogram.percentile(95), 1500ms);
    QCOMPARE(histogram.percentile(100), 2500ms);
}

void tst_LockHistogram::beyondTheLastBound()
{
    LockHistogram histogram;
    histogram.counts.back() = 1;
    QCOMPARE(histogram.percentile(0), 60s);
    QCOMPARE(histogram.percentile(100), 60s);
    histogram.counts[0] = 1;
    QCOMPARE(histogram.percentile(50), 1ms);
    QCOMPARE(histogram.percentile(51), 60s);
}

QTEST_APPLESS_MAIN(tst_LockHistogram)
#include "tst_lockhistogram.moc"
