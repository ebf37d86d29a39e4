// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/redis/noticemessage.h"
#include "support/rows.h"

#include <QtTest/QTest>

using namespace QDistLock;
using namespace std::chrono_literals;

namespace {

const QByteArray WaiterToken = "1a2b3c4d5e6f7081:7:00112233445566778899aabbccddeeff";
/// `printf '%s 1795364362194449 1795364362194448 3000' "$token" | sha1sum`
const QByteArray Proof = "fb044192ac56c2fa5ccd7816cf95aac44f3d22da";
const QByteArray Message = "grant 7 1795364362194449 1795364362194448 3000 " + Proof;
/// `printf '%s 1795364362194449 1795364362194448 3000 0,12' "$token" | sha1sum`
const QByteArray WithSlots =
        "grant 7 1795364362194449 1795364362194448 3000 0,12 c99adf2c8f444f33ded5194f99a465a202aceb74";

} // namespace

class tst_NoticeMessage : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void proven();
    void withSlots();
    void hint();
    void forged_data()
    {
        Support::addRows<QByteArray>("message",
                                     {{"fencing token", QByteArray(Message).replace("4449", "4459")},
                                      {"time", QByteArray(Message).replace("4448", "4458")},
                                      {"time to live", QByteArray(Message).replace("3000", "9000")},
                                      {"slots", QByteArray(Message).replace("3000", "3000 0")},
                                      {"no slots", QByteArray(WithSlots).replace(" 0,12", "")},
                                      {"other slots", QByteArray(WithSlots).replace("0,12", "0,13")},
                                      {"proof", QByteArray(Message).replace("fb044", "00000")}});
    }
    void forged();
    void malformed_data();
    void malformed();
};

void tst_NoticeMessage::proven()
{
    const auto message = NoticeMessage::parse(Message);
    QVERIFY(message && message->hold);
    QCOMPARE(message->notice, LockEngine::Grant);
    QCOMPARE(message->sequence, 7U);
    QCOMPARE(message->hold->fencingToken, 1795364362194449);
    QCOMPARE(message->hold->grantedAt, 1795364362194448us);
    QCOMPARE(message->hold->ttl, 3000ms);
    QVERIFY(message->hold->isProvenBy(WaiterToken));
    QVERIFY(!message->hold->isProvenBy(WaiterToken.chopped(1) + 'e'));
    QVERIFY(!message->hold->isProvenBy({}));
}

void tst_NoticeMessage::withSlots()
{
    const auto message = NoticeMessage::parse(WithSlots);
    QVERIFY(message && message->hold);
    QCOMPARE(message->hold->permitSlots, QList<int>({0, 12}));
    QVERIFY(message->hold->isProvenBy(WaiterToken));
}

void tst_NoticeMessage::hint()
{
    const auto message = NoticeMessage::parse("grant 7");
    QVERIFY(message && !message->hold);
}

void tst_NoticeMessage::forged()
{
    QFETCH(QByteArray, message);
    const auto parsed = NoticeMessage::parse(message);
    QVERIFY(parsed && parsed->hold); // a hint that the lock may be reserved
    QVERIFY(!parsed->hold->isProvenBy(WaiterToken));
}

void tst_NoticeMessage::malformed_data()
{
    QTest::addColumn<QByteArray>("message");
    for (const char *const message :
         {"grant", "grant ", "grant 0", "grant 07", "grant 7 ", "grant 7 1", "grant 7 1 2", "grant 7 1 2 3",
          "grant 7 1 2 3 ", "grant 7 1 2 3 abc", "next 7", "next 7 1 2", "force 7 1", "give 7"})
        QTest::newRow(message) << QByteArray(message);
    const auto with = [](const char *before, const char *after) { return QByteArray(Message).replace(before, after); };
    QTest::newRow("short proof") << Message.chopped(1);
    QTest::newRow("long proof") << Message + '0';
    QTest::newRow("upper case") << with("fb044192ac56c2fa5ccd7816cf95aac44f3d22da",
                                        "FB044192AC56C2FA5CCD7816CF95AAC44F3D22DA");
    QTest::newRow("two spaces") << with(" 3000", "  3000");
    QTest::newRow("no time") << with(" 3000", " 0");
    QTest::newRow("negative time") << with(" 3000", " -1");
    QTest::newRow("years") << with(" 3000", " 3000000000");
    QTest::newRow("far future") << with("1795364362194448", "9007199254740992");
    QTest::newRow("no fencing token") << with("1795364362194449", "0");
    for (const char *const numbers : {"", "a", "-1", "00", "1024", "1,1", "2,1", "1,", ",1", "1;2", "1 2"})
        QTest::addRow("slots '%s'", numbers) << QByteArray(WithSlots).replace("0,12", numbers);
}

void tst_NoticeMessage::malformed()
{
    QFETCH(QByteArray, message);
    QVERIFY(!NoticeMessage::parse(message));
}

QTEST_APPLESS_MAIN(tst_NoticeMessage)
#include "tst_noticemessage.moc"
