// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The options of an annotation, and its condition.

#include "shop.h"

#include "annotations/lockedmethod.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

class tst_AnnotationOptions : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void options();
    void optionValues_data();
    void optionValues();
    void modes_data();
    void modes();
    void permits_data();
    void permits();
    void wrongOptions_data();
    void wrongOptions();
    void conditions_data();
    void conditions();
};

void tst_AnnotationOptions::options()
{
    QString error;
    const auto none = AnnotationOptions::parse(u"", &error);
    QVERIFY2(none, qPrintable(error));
    QCOMPARE(none->lock.mode, LockOptions::Exclusive);
    QCOMPARE(none->lock.permits, 0);
    QCOMPARE(none->lock.take, 1);
    QCOMPARE(none->lock.wait, LockOptions().wait);
    QCOMPARE(none->lock.lease, LockOptions().lease);
    QVERIFY(none->onBusy == OnBusy::Wait);
    QCOMPARE(none->maxQueued, DefaultMaxQueued);
    QVERIFY(none->server.isEmpty());
    QVERIFY(!none->condition);

    const auto all = AnnotationOptions::parse(
            u" mode = read; wait = 250ms;lease=1min ;\tretryInterval=5s; maxRetries=3; autoRenew=false; fair=false; minHold=10s; "
            "keyPrefix=app:; minReplicas=2; replicaTimeout=2s; repairMissingTtl=false; label= my orders ; onBusy=fail; maxQueued=7; "
            "condition=!this.enabled; server=memory:x;;",
            &error);
    QVERIFY2(all, qPrintable(error));
    QCOMPARE(all->lock.mode, LockOptions::Shared);
    QCOMPARE(all->lock.wait, 250ms);
    QCOMPARE(all->lock.lease, milliseconds(1min));
    QCOMPARE(all->lock.retryInterval, milliseconds(5s));
    QCOMPARE(all->lock.maxRetries, 3);
    QCOMPARE(all->lock.autoRenew, false);
    QCOMPARE(all->lock.fair, false);
    QCOMPARE(all->lock.minHold, milliseconds(10s));
    QCOMPARE(all->keyPrefix, u"app:"_s);
    QCOMPARE(all->lock.minReplicas, 2);
    QCOMPARE(all->lock.replicaTimeout, milliseconds(2s));
    QCOMPARE(all->lock.repairMissingTtl, false);
    QCOMPARE(all->lock.label, u"my orders"_s);
    QVERIFY(all->onBusy == OnBusy::Fail);
    QCOMPARE(all->maxQueued, 7);
    QCOMPARE(all->server, QUrl(u"memory:x"_s));
    QVERIFY(all->condition && all->conditionNegated);
    QCOMPARE(all->condition->toString(), u"this.enabled"_s);
}

void tst_AnnotationOptions::optionValues_data()
{
    Support::addColumns<QString, milliseconds>("text", "wait");
    QTest::newRow("ms") << u"wait=1ms"_s << milliseconds(1);
    QTest::newRow("s") << u"wait=90s"_s << milliseconds(90s);
    QTest::newRow("min") << u"wait=5min"_s << milliseconds(5min);
    QTest::newRow("h") << u"wait=1h"_s << milliseconds(1h);
    QTest::newRow("space") << u"wait=2 s"_s << milliseconds(2s);
    QTest::newRow("0") << u"wait=0ms"_s << milliseconds(0);
    QTest::newRow("forever") << u"wait=forever"_s << LockOptions::Forever;
    QTest::newRow("long") << u"wait=9223372036854775s"_s << milliseconds(9223372036854775000);
    QTest::newRow("skip is not a wait") << u"onBusy=skip"_s << LockOptions().wait;
}

void tst_AnnotationOptions::optionValues()
{
    QFETCH(QString, text);
    QFETCH(milliseconds, wait);
    QString error;
    const auto parsed = AnnotationOptions::parse(text, &error);
    QVERIFY2(parsed, qPrintable(error));
    QCOMPARE(parsed->lock.wait, wait);
}

void tst_AnnotationOptions::modes_data()
{
    Support::addRows<LockOptions::Mode>("mode",
                                        {{"mode=read", LockOptions::Shared},
                                         {"mode=shared", LockOptions::Shared},
                                         {"mode=write", LockOptions::Exclusive},
                                         {"mode=exclusive", LockOptions::Exclusive}});
}

void tst_AnnotationOptions::modes()
{
    QFETCH(LockOptions::Mode, mode);
    QString error;
    const auto parsed = AnnotationOptions::parse(QString::fromLatin1(QTest::currentDataTag()), &error);
    QVERIFY2(parsed, qPrintable(error));
    QCOMPARE(parsed->lock.mode, mode);
}

void tst_AnnotationOptions::permits_data()
{
    Support::addColumns<int, int>("permits", "take");
    QTest::newRow("permits=5") << 5 << 1;
    QTest::newRow("take=2; permits=5") << 5 << 2;
    QTest::newRow("permits=10000; take=10000") << 10000 << 10000;
    QTest::newRow("permits = server ; take=3; mode=write") << LockOptions::ServerPermits << 3;
}

void tst_AnnotationOptions::permits()
{
    QString error;
    const auto parsed = AnnotationOptions::parse(QString::fromLatin1(QTest::currentDataTag()), &error);
    QVERIFY2(parsed, qPrintable(error));
    QTEST(parsed->lock.permits, "permits");
    QTEST(parsed->lock.take, "take");
}

void tst_AnnotationOptions::wrongOptions_data()
{
    Support::addColumns<QString, QString>("text", "problem");
    const auto row = [](const char *text, const char *problem) {
        QTest::newRow(text) << QString::fromUtf8(text) << QString::fromUtf8(problem);
    };
    row("weight=2s", "at position 1: there is no option \"weight\"");
    row("Wait=2s", "there is no option \"Wait\"");
    row("wait=2s; lese=1s", "at position 10: there is no option \"lese\"");
    row("=2s", "there is no option \"\"");
    row("wait", "\"wait\" has no value");
    row("wait 2s", "\"wait 2s\" has no value");
    row("wait=", "wait: \"\" is not a duration");
    row("wait=2", "wait: \"2\" is not a duration");
    row("wait=0", "wait: \"0\" is not a duration");
    row("wait=s", "wait: \"s\" is not a duration");
    row("wait=2m", "wait: \"2m\" is not a duration");
    row("wait=2sec", "wait: \"2sec\" is not a duration");
    row("wait=-2s", "wait: \"-2s\" is not a duration");
    row("wait=1.5s", "wait: \"1.5s\" is not a duration");
    row("wait=2s 3s", "wait: \"2s 3s\" is not a duration");
    row("wait=2s=3s", "wait: \"2s=3s\" is not a duration");
    row("wait=٣s", "is not a duration"); // digits, but not ours
    row("wait=9223372036854775807s", "wait: \"9223372036854775807s\" is too long");
    row("wait=9223372036854775807ms", "wait: \"9223372036854775807ms\" is too long");
    row("wait=99999999999999999999ms", "is not a duration");
    row("wait=2s; wait=3s", "at position 10: the option \"wait\" is given twice");
    row("mode=reader", "mode: \"reader\" is not read (or shared), or write (or exclusive)");
    row("mode=Read", "mode: \"Read\" is not read");
    row("mode=", "mode: \"\" is not read");
    row("permits=0", "permits: 0 would let nobody in; leave the option out");
    row("permits=-1", "permits: \"-1\" is not a whole number or server");
    row("permits=five", "permits: \"five\" is not a whole number or server");
    row("permits=2147483648", "permits: \"2147483648\" is not a whole number or server");
    row("permits=10001", "permits is 10001; it must be from 1 to 10000");
    row("permits=5; mode=read", "a name has either permits or readers");
    row("permits=5; take=6", "take is 6, but permits is 5");
    row("permits=5; take=0", "take is 0; it must be from 1 to permits");
    row("take=2", "take is 2, but permits is 0");
    row("permits=5; take=server", "take: \"server\" is not a whole number");
    row("lease=forever", "lease: \"forever\" is not a duration");
    row("lease=0ms", "lease is 0 ms");
    row("lease=25h", "lease is 90000000 ms");
    row("minHold=31s", "minHold is 31000 ms");
    row("retryInterval=0ms", "retryInterval is 0 ms");
    row("maxRetries=-1", "maxRetries: \"-1\" is not a whole number");
    row("maxRetries=2147483648", "is not a whole number");
    row("minReplicas=-1", "minReplicas: \"-1\" is not a whole number");
    row("autoRenew=yes", "autoRenew: \"yes\" is not true or false");
    row("fair=1", "fair: \"1\" is not true or false");
    row("repairMissingTtl=", "repairMissingTtl: \"\" is not true or false");
    row("label=", "label: \"\" is not the name of a group");
    row("onBusy=retry", "onBusy: \"retry\" is not wait, skip, fail or latest");
    row("maxQueued=0", "maxQueued: 0 would let no call wait");
    row("maxQueued=many", "maxQueued: \"many\" is not a whole number");
    row("condition=", "condition: \"\" is not the name");
    row("condition=!", "condition: \"\" is not the name");
    row("condition=!!this.x", "condition: \"!this.x\" is not the name");
    row("condition=this", "condition: \"this\" needs a property");
    row("condition={order.urgent}", "condition: ");
    row("condition=a == b", "condition: ");
    row("server=", "server: The server URL cannot be used: it is empty");
    row("server=redis+sentinel://a,b/s", "did you mean redis+sentinel://a/s?node=b?");
    row("server=redis+sentinel://a/s?nodes=b", "\"nodes\" is not known");
    row("server=nonsense", "did you mean redis://nonsense?");
    row("server=127.0.0.1:6379", "did you mean redis://127.0.0.1:6379?");
    row("wiat=2s; lease=3; fair=maybe", "\"3\" is not a duration");
    row("wiat=2s; lease=3; fair=maybe", "at position 1: there is no option \"wiat\"");
    row("wiat=2s; lease=3; fair=maybe", "at position 19: fair: \"maybe\"");
    row("server=http://host", "server: ");
    row("server=redis://user:topsecret@host:99999", "server: ");
    row("server=redis://user:12;topsecret@host", "this is no option; a ';'");
}

void tst_AnnotationOptions::wrongOptions()
{
    QFETCH(QString, text);
    QFETCH(QString, problem);
    const QString actual = error([&](QString *e) { return AnnotationOptions::parse(text, e).has_value(); });
    QVERIFY2(actual.contains(problem), qPrintable(actual));
    QVERIFY2(!actual.contains(u"topsecret"_s), qPrintable(actual));
}

void tst_AnnotationOptions::conditions_data()
{
    QTest::addColumn<QString>("condition");
    QTest::addColumn<int>("locks"); ///< -1: an error
    const auto row = [](const char *condition, int locks) {
        QTest::newRow(condition) << QString::fromUtf8(condition) << locks;
    };
    row("this.enabled", 1);
    row("!this.enabled", 0);
    row("! this.enabled", 0);
    row("order.urgent", 0);
    row("!order.urgent", 1);
    row("order.number", 1);
    row("id", 1);
    row("1", 1);
    row("variant", 1);
    row("customer", 1);
    row("customer.partner", 0);
    row("pointer", 1);
    row("order.previous", 0);
    row("this.owner", 1);
    row("order", -1);
    row("order.address", -1);
    row("order.address.anything", -1);
    row("customer.partner.id", -1);
}

void tst_AnnotationOptions::conditions()
{
    QFETCH(QString, condition);
    QFETCH(int, locks);
    const Call call;
    QString error;
    const auto method = LockedMethod::make("Shop", "method", call.signature(), u"key"_s, u"condition="_s + condition,
                                           &error);
    QVERIFY2(method, qPrintable(error));
    const auto requests = method->requests(call.arguments(), &error);
    QCOMPARE(requests ? int(requests->size()) : -1, locks);
    if (!requests)
        QVERIFY2(error.startsWith(u"Shop::method: key \"key\""_s) && error.contains(u"condition"_s), qPrintable(error));
}

QTEST_APPLESS_MAIN(tst_AnnotationOptions)

#include "tst_annotationoptions.moc"
