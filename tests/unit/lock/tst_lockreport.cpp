// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "lock/lockreport.h"

#include <QtTest/qtest.h>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using namespace std::chrono_literals;

class tst_LockReport : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void watchRequest();
    void noWatchRequest_data();
    void noWatchRequest();
    void report();
    void bytesInNames();
    void noReport_data();
    void noReport();
    void tooMuch();
    void strangeValues();
};

static const QByteArray Client = "1f00000000000abc";

void tst_LockReport::watchRequest()
{
    const WatchRequest request{Client, 1500ms, 30s};
    QCOMPARE(request.toMessage(), QByteArray("watch 1f00000000000abc 1500 30"));
    const auto parsed = WatchRequest::parse(request.toMessage());
    QVERIFY(parsed);
    QCOMPARE(parsed->monitor, Client);
    QCOMPARE(parsed->interval, 1500ms);
    QCOMPARE(parsed->duration, 30s);
    QVERIFY(WatchRequest::parse("watch 1f00000000000abc 200 0"));
    QVERIFY(WatchRequest::parse("watch 1f00000000000abc 60000 60"));
}

void tst_LockReport::noWatchRequest_data()
{
    QTest::addColumn<QByteArray>("message");
    for (const char *const message : {
                 "",
                 "watch",
                 "watch 1f00000000000abc 1500",
                 "watch 1f00000000000abc 1500 30 ",
                 "watch  1f00000000000abc 1500 30",
                 "Watch 1f00000000000abc 1500 30",
                 "watch 1f00000000000ab 1500 30",
                 "watch 1f00000000000abC 1500 30",
                 "watch 1f000000000000:a 1500 30",
                 "watch 1f00000000000abc 199 30",
                 "watch 1f00000000000abc 60001 30",
                 "watch 1f00000000000abc 01500 30",
                 "watch 1f00000000000abc 1500 61",
                 "watch 1f00000000000abc 1500 30 a a a a a a a a a a a a a a a a a a a a a a a a a a",
                 "watch 1f00000000000abc 1500 -1",
                 "watch 1f00000000000abc 1500 +30",
                 "watch 1f00000000000abc 99999999999999999999 30",
         })
        QTest::newRow(message) << QByteArray(message);
}

void tst_LockReport::noWatchRequest()
{
    QFETCH(QByteArray, message);
    QVERIFY(!WatchRequest::parse(message));
}

void tst_LockReport::report()
{
    ClientReport report;
    report.client = {QString::fromLatin1(Client), u"db7"_s, 812, u"nightly"_s, true};
    report.number = 9;
    LockReport lock;
    lock.key = "lock:orders:42";
    lock.present = {{true, 17, 1200ms, u"Orders::ship"_s}, {false, 0, 40ms, {}}};
    lock.wait.counts[0] = 3;
    lock.wait.counts[4] = 1;
    lock.wait.sum = 107ms;
    lock.hold.counts[8] = 2;
    lock.hold.sum = 200s;
    lock.failed = 5;
    lock.lost = 1;
    lock.ended = {{15, 0ms, 61000ms, 3000ms}, {16, 3ms, 139000ms, 1300ms}};
    LockReport quiet;
    quiet.key = "lock:quiet";
    report.locks = {lock, quiet};

    const auto parsed = ClientReport::parse(report.toMessage());
    QVERIFY(parsed);
    QCOMPARE(parsed->client.toString(), report.client.toString());
    QCOMPARE(parsed->client.id, report.client.id);
    QCOMPARE(parsed->number, 9);
    QCOMPARE(parsed->locks.size(), 2);
    const LockReport &again = parsed->locks.first();
    QCOMPARE(again.key, lock.key);
    QCOMPARE(again.present.size(), 2);
    QCOMPARE(again.present.at(0).isHeld, true);
    QCOMPARE(again.present.at(0).fencingToken, 17);
    QCOMPARE(again.present.at(0).since, 1200ms);
    QCOMPARE(again.present.at(0).label, u"Orders::ship"_s);
    QCOMPARE(again.present.at(1).isHeld, false);
    QCOMPARE(again.present.at(1).since, 40ms);
    QVERIFY(again.wait.counts == lock.wait.counts);
    QCOMPARE(again.wait.sum, lock.wait.sum);
    QVERIFY(again.hold.counts == lock.hold.counts);
    QCOMPARE(again.hold.sum, lock.hold.sum);
    QCOMPARE(again.failed, 5);
    QCOMPARE(again.lost, 1);
    QCOMPARE(again.ended.size(), 2);
    QCOMPARE(again.ended.at(1).fencingToken, 16);
    QCOMPARE(again.ended.at(1).waited, 3ms);
    QCOMPARE(again.ended.at(1).held, 139000ms);
    QCOMPARE(again.ended.at(1).ago, 1300ms);
    QCOMPARE(parsed->locks.last().key, quiet.key);
    QCOMPARE(parsed->locks.last().wait.count(), quint64(0));
    QVERIFY(parsed->locks.last().present.isEmpty());
}

/// A key may consist of any bytes.
void tst_LockReport::bytesInNames()
{
    QByteArray key;
    for (int byte = 0; byte < 256; ++byte)
        key += char(byte);
    key += "\xf0\x9f\x94\x92"; // four bytes that are one character
    ClientReport report;
    report.client.id = QString::fromLatin1(Client);
    LockReport lock;
    lock.key = key;
    report.locks = {lock};
    const auto parsed = ClientReport::parse(report.toMessage());
    QVERIFY(parsed);
    QCOMPARE(parsed->locks.first().key, key);
}

void tst_LockReport::noReport_data()
{
    QTest::addColumn<QByteArray>("message");
    for (const char *const message : {
                 "",
                 "report",
                 "report ",
                 "report []",
                 "report {}",
                 "report {",
                 R"(report {"client":"x"})",
                 R"(report {"client":17})",
                 R"({"client":"1f00000000000abc"})",
         })
        QTest::newRow(message) << QByteArray(message);
    QTest::newRow("too long") << R"(report {"client":"1f00000000000abc","app":")" + QByteArray(256 * 1024, 'x')
                    + R"("})";
}

void tst_LockReport::noReport()
{
    QFETCH(QByteArray, message);
    QVERIFY(!ClientReport::parse(message));
}

/// More than a client sends.
void tst_LockReport::tooMuch()
{
    LockReport lock;
    lock.key = "a";
    lock.present.resize(ClientReport::MostPresent + 1);
    lock.ended.resize(ClientReport::MostEnded + 1);
    ClientReport report;
    report.client.id = QString::fromLatin1(Client);
    report.locks = QList<LockReport>(ClientReport::MostLocks + 1, lock);
    const auto parsed = ClientReport::parse(report.toMessage());
    QVERIFY(parsed);
    QCOMPARE(parsed->locks.size(), ClientReport::MostLocks);
    QCOMPARE(parsed->locks.first().present.size(), ClientReport::MostPresent);
    QCOMPARE(parsed->locks.first().ended.size(), ClientReport::MostEnded);
}

/// Anybody may publish them.
void tst_LockReport::strangeValues()
{
    const auto parsed = ClientReport::parse(R"(report {"client":"1f00000000000abc","host":"<b>","pid":-5,"app":17,)"
                                            R"("locks":[5,{"lock":"a","now":[{"held":-7,"fence":1e300,"label":[]},9],)"
                                            R"("wait":[1e300,-1,1e300],"hold":"x","failed":-3,"lost":1e300,)"
                                            R"("ended":[[],[1,2],["a",-1,-1,-1]]}]})");
    QVERIFY(parsed);
    QCOMPARE(parsed->client.host, QString());
    QCOMPARE(parsed->client.pid, 0);
    QCOMPARE(parsed->client.application, QString());
    QCOMPARE(parsed->locks.size(), 1);
    const LockReport &lock = parsed->locks.last();
    QCOMPARE(lock.present.size(), 2);
    QVERIFY(lock.present.first().since >= 0ms);
    QVERIFY(lock.wait.sum >= 0ms && lock.hold.sum >= 0ms);
    QCOMPARE(lock.wait.counts.at(0), quint64(0));
    QCOMPARE(lock.failed, 0);
    for (const LockReport::EndedHold &hold : lock.ended)
        QVERIFY(hold.waited >= 0ms && hold.held >= 0ms && hold.ago >= 0ms);
}

QTEST_GUILESS_MAIN(tst_LockReport)
#include "tst_lockreport.moc"
