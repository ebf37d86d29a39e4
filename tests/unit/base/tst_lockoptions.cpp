// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include <QDistLock/LockOptions>

#include <QtTest/qtest.h>

#include <type_traits>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

static_assert(std::is_aggregate_v<LockOptions>);
static_assert(std::is_copy_constructible_v<LockOptions> && std::is_nothrow_move_constructible_v<LockOptions>);

/// In designatedoptions.cpp, which is C++20.
LockOptions designatedOptions();

class tst_LockOptions : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void defaults();
    void aggregate();
    void designated();
    void setters();
    void borders_data();
    void borders();
};

void tst_LockOptions::defaults()
{
    const LockOptions options;
    QCOMPARE(options.mode, LockOptions::Exclusive);
    QCOMPARE(options.permits, 0);
    QCOMPARE(options.take, 1);
    QCOMPARE(options.lease, milliseconds(30s));
    QCOMPARE(options.wait, milliseconds(10s));
    QCOMPARE(options.retryInterval, 100ms);
    QCOMPARE(options.maxRetries, LockOptions::UnlimitedRetries);
    QCOMPARE(options.autoRenew, true);
    QCOMPARE(options.fair, true);
    QCOMPARE(options.minHold, 0ms);
    QCOMPARE(options.minReplicas, 0);
    QCOMPARE(options.replicaTimeout, milliseconds(1s));
    QCOMPARE(options.repairMissingTtl, true);
    QCOMPARE(options.label, QString());
    QCOMPARE(options.validationError(), QString());
}

void tst_LockOptions::aggregate()
{
    const LockOptions options{LockOptions::Exclusive, 5, 2, 5s, 2s};
    QCOMPARE(options.mode, LockOptions::Exclusive);
    QCOMPARE(options.permits, 5);
    QCOMPARE(options.take, 2);
    QCOMPARE(options.lease, milliseconds(5s));
    QCOMPARE(options.wait, milliseconds(2s));
    QCOMPARE(options.retryInterval, 100ms);
}

void tst_LockOptions::designated()
{
    const LockOptions options = designatedOptions();
    QCOMPARE(options.mode, LockOptions::Shared);
    QCOMPARE(options.lease, milliseconds(1min));
    QCOMPARE(options.wait, milliseconds(2s));
    QCOMPARE(options.autoRenew, false);
    QCOMPARE(options.retryInterval, 100ms);
}

void tst_LockOptions::setters()
{
    LockOptions options;
    LockOptions &same = options.withMode(LockOptions::Shared)
                                .withPermits(8)
                                .withTake(9)
                                .withLease(1s)
                                .withWait(2s)
                                .withRetryInterval(3s)
                                .withMaxRetries(4)
                                .withAutoRenew(false)
                                .withFair(false)
                                .withMinHold(5ms)
                                .withMinReplicas(6)
                                .withReplicaTimeout(7s)
                                .withRepairMissingTtl(false)
                                .withLabel(u"orders"_s);
    QCOMPARE(&same, &options);
    QCOMPARE(options.mode, LockOptions::Shared);
    QCOMPARE(options.permits, 8);
    QCOMPARE(options.take, 9);
    QCOMPARE(options.lease, milliseconds(1s));
    QCOMPARE(options.wait, milliseconds(2s));
    QCOMPARE(options.retryInterval, milliseconds(3s));
    QCOMPARE(options.maxRetries, 4);
    QCOMPARE(options.autoRenew, false);
    QCOMPARE(options.fair, false);
    QCOMPARE(options.minHold, 5ms);
    QCOMPARE(options.minReplicas, 6);
    QCOMPARE(options.replicaTimeout, milliseconds(7s));
    QCOMPARE(options.repairMissingTtl, false);
    QCOMPARE(options.label, u"orders"_s);
    QCOMPARE(LockOptions().withWait(2s).wait, milliseconds(2s)); // on a temporary
}

void tst_LockOptions::borders_data()
{
    QTest::addColumn<LockOptions>("options");
    QTest::addColumn<QString>("error"); // how it begins; empty = valid
    const auto valid = [](const char *row, const LockOptions &options) { QTest::newRow(row) << options << QString(); };
    const auto bad = [](const char *row, const LockOptions &options, const char *error) {
        QTest::newRow(row) << options << QString::fromLatin1(error);
    };
    const milliseconds least = (milliseconds::min)();
    const milliseconds greatest = (milliseconds::max)();

    const auto permits = [](int count, int take = 1) { return LockOptions().withPermits(count).withTake(take); };
    valid("permits 1", permits(1));
    valid("permits of the server", permits(LockOptions::ServerPermits, 10000));
    valid("permits most", permits(LockOptions::MaximumPermits, LockOptions::MaximumPermits));
    bad("permits -2", permits(-2), "permits is -2; it must be from 1 to 10000");
    bad("permits too many", permits(10001), "permits is 10001; it must be from 1 to 10000");
    bad("permits least", permits((std::numeric_limits<int>::min)()), "permits is -2147483648; it must be");
    bad("permits of readers", permits(5).withMode(LockOptions::Shared),
        "permits is 5, but mode is LockOptions::Shared");
    bad("permits of the server, of readers", permits(LockOptions::ServerPermits).withMode(LockOptions::Shared),
        "permits is -1, but mode is LockOptions::Shared");
    bad("take 0", permits(5, 0), "take is 0; it must be from 1 to permits");
    bad("take negative", permits(LockOptions::ServerPermits, -1), "take is -1; it must be from 1 to permits");
    bad("take too many", permits(LockOptions::ServerPermits, 10001), "take is 10001; it must be from 1 to permits");
    valid("take all", permits(5, 5));
    bad("take more than all", permits(5, 6), "take is 6, but permits is 5");
    bad("take without permits", permits(0, 2), "take is 2, but permits is 0");

    valid("lease 10 ms", LockOptions().withLease(10ms));
    bad("lease 9 ms", LockOptions().withLease(9ms), "lease is 9 ms; it must be from 10 ms to 24 h");
    bad("lease 1 ms", LockOptions().withLease(1ms), "lease is 1 ms");
    valid("lease 24 h", LockOptions().withLease(24h));
    bad("lease 0", LockOptions().withLease(0ms), "lease is 0 ms");
    bad("lease negative", LockOptions().withLease(-1ms), "lease is -1 ms");
    bad("lease least", LockOptions().withLease(least), "lease is -9223372036854775808 ms");
    bad("lease over 24 h", LockOptions().withLease(24h + 1ms), "lease is 86400001 ms");
    bad("lease greatest", LockOptions().withLease(greatest), "lease is 9223372036854775807 ms");

    valid("wait 0", LockOptions().withWait(0ms));
    valid("wait for ever", LockOptions().withWait(LockOptions::Forever));
    valid("wait nearly for ever", LockOptions().withWait(LockOptions::Forever - 1ms));
    bad("wait negative", LockOptions().withWait(-1ms), "wait is -1 ms");
    bad("wait least", LockOptions().withWait(least), "wait is -9223372036854775808 ms");

    valid("retryInterval 1 ms", LockOptions().withRetryInterval(1ms));
    valid("retryInterval 24 h", LockOptions().withRetryInterval(24h));
    bad("retryInterval 0", LockOptions().withRetryInterval(0ms), "retryInterval is 0 ms");
    bad("retryInterval negative", LockOptions().withRetryInterval(-1ms), "retryInterval is -1 ms");
    bad("retryInterval over 24 h", LockOptions().withRetryInterval(24h + 1ms), "retryInterval is 86400001 ms");
    bad("retryInterval greatest", LockOptions().withRetryInterval(greatest), "retryInterval is");

    valid("maxRetries 0", LockOptions().withMaxRetries(0));
    valid("maxRetries many", LockOptions().withMaxRetries((std::numeric_limits<int>::max)()));
    bad("maxRetries -2", LockOptions().withMaxRetries(-2), "maxRetries is -2");

    valid("minHold = lease", LockOptions().withLease(1s).withMinHold(1s));
    bad("minHold over the lease", LockOptions().withLease(1s).withMinHold(1001ms), "minHold is 1001 ms");
    bad("minHold negative", LockOptions().withMinHold(-1ms), "minHold is -1 ms");

    bad("minReplicas negative", LockOptions().withMinReplicas(-1), "minReplicas is -1");
    valid("minReplicas", LockOptions().withMinReplicas(1)); // an engine may refuse it
    valid("replicaTimeout 1 ms", LockOptions().withReplicaTimeout(1ms));
    bad("replicaTimeout 0", LockOptions().withReplicaTimeout(0ms), "replicaTimeout is 0 ms");
    bad("replicaTimeout negative", LockOptions().withReplicaTimeout(-1ms), "replicaTimeout is -1 ms");
    bad("replicaTimeout over 24 h", LockOptions().withReplicaTimeout(24h + 1ms), "replicaTimeout is 86400001 ms");
}

void tst_LockOptions::borders()
{
    QFETCH(LockOptions, options);
    QFETCH(QString, error);
    const QString actual = options.validationError();
    QCOMPARE(actual.isEmpty(), error.isEmpty());
    QVERIFY2(actual.startsWith(error), qPrintable(actual));
    // The text also contains what to do.
    QVERIFY2(error.isEmpty() || actual.contains(u"must be"_s) || actual.contains(u"not supported"_s),
             qPrintable(actual));
}

QTEST_APPLESS_MAIN(tst_LockOptions)
#include "tst_lockoptions.moc"
