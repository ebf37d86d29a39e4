// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/token.h"
#include "support/rows.h"

#include <QtCore/qset.h>
#include <QtTest/qtest.h>

using namespace QDistLock;

class tst_Token : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void tokens();
    void readers();
    void permits();
    void clientIdFromOutside();
    void connections_data();
    void connections();
    void foreignTokens_data()
    {
        Support::addRows<QByteArray>("token",
                                     {{"empty", QByteArray()},
                                      {"uuid", QByteArray("2f1c4d2e-9f6c-4c58-8f2e-0d8a3a1f5b77")},
                                      {"redisson", QByteArray("2f1c4d2e-9f6c-4c58-8f2e-0d8a3a1f5b77:1")},
                                      {"colons", QByteArray("::")},
                                      {"no random part", QByteArray("abc:1:")},
                                      {"no client", QByteArray(":1:abc")},
                                      {"upper case", QByteArray("ABC:1:abc")},
                                      {"no number", QByteArray("abc:x:abc")},
                                      {"no sequence", QByteArray("abc::abc")},
                                      {"negative", QByteArray("abc:-1:abc")},
                                      {"four parts", QByteArray("abc:1:abc:abc")},
                                      {"binary", QByteArray("\xff\0:1:abc", 8)}});
    }
    void foreignTokens();
};

void tst_Token::tokens()
{
    TokenGenerator generator, other;
    QCOMPARE(generator.lastSequence(), 0ULL);
    QCOMPARE(generator.clientId().size(), 16);
    QVERIFY(generator.clientId() != other.clientId());
    QCOMPARE(generator.clientId().first(1).toInt(nullptr, 16), TokenGenerator::ProtocolVersion);
    QSet<QByteArray> seen;
    for (quint64 i = 1; i <= 1000; ++i) {
        const QByteArray token = generator.makeToken();
        QVERIFY(!seen.contains(token));
        seen.insert(token);
        QCOMPARE(Token::sequenceOf(token), i);
        QCOMPARE(generator.lastSequence(), i);
        QCOMPARE(Token::clientOf(token), generator.clientId());
        QVERIFY(Token::isOf(token, generator.clientId()));
        QVERIFY(!Token::isOf(token, generator.clientId().chopped(1)));
        QVERIFY(!Token::isOf(generator.clientId(), generator.clientId()));
        QCOMPARE(token.split(':').size(), 3);
        QCOMPARE(token.split(':').at(2).size(), 32); // 128 bits
        QCOMPARE(Token::connectionOf(token), QByteArray());
    }
}

void tst_Token::readers()
{
    TokenGenerator generator;
    const QByteArray token = generator.makeToken() + "42";
    const QByteArray reader = Token::ofReader(token);
    QVERIFY(!Token::isReader(token));
    QVERIFY(Token::isReader(reader));
    QCOMPARE(Token::clientOf(reader), generator.clientId());
    QCOMPARE(Token::sequenceOf(reader), 1ULL);
    QCOMPARE(Token::connectionOf(reader), "42");
    QVERIFY(Token::isOf(reader, generator.clientId()));
    QVERIFY(!Token::isOf(reader, TokenGenerator().clientId()));
    QCOMPARE(Token::clientOf(Token::ofReader(reader)), QByteArray());
}

void tst_Token::permits()
{
    TokenGenerator generator;
    const QByteArray token = generator.makeToken() + "42";
    QVERIFY(!Token::wantsSlots(Token::ofPermits(token, 2)));
    for (const int take : {1, 2, 10000}) {
        const bool wantsSlots = take == 2;
        const QByteArray taking = Token::ofPermits(token, take, wantsSlots);
        QCOMPARE(Token::permitsOf(taking), take);
        QCOMPARE(Token::wantsSlots(taking), wantsSlots);
        QVERIFY(Token::isShared(taking));
        QVERIFY(!Token::isReader(taking));
        QCOMPARE(Token::clientOf(taking), generator.clientId());
        QCOMPARE(Token::sequenceOf(taking), 1ULL);
        QCOMPARE(Token::connectionOf(taking), "42");
        QVERIFY(Token::isOf(taking, generator.clientId()));
        QVERIFY(!Token::isOf(taking, TokenGenerator().clientId()));
        QCOMPARE(Token::clientOf(Token::ofPermits(taking, take)), QByteArray());
        QCOMPARE(Token::clientOf(Token::ofReader(taking)), QByteArray());
    }
    QCOMPARE(Token::permitsOf(token), 0);
    QCOMPARE(Token::permitsOf(Token::ofReader(token)), 0);
    QVERIFY(!Token::isShared(token));
    QVERIFY(Token::isShared(Token::ofReader(token)));
    for (const char *const other : {"p/", "p", "px/", "p0/", "p01/", "p-1/", "p+1/", "p 1/", "p99999999999/", "p@/",
                                    "@/", "p1@@/", "p@1/", "p1 @/"}) {
        QCOMPARE(Token::permitsOf(other + token), 0);
        QVERIFY(!Token::wantsSlots(other + token));
        QCOMPARE(Token::clientOf(other + token), QByteArray());
    }
}

void tst_Token::clientIdFromOutside()
{
    TokenGenerator generator("10123456789abcde");
    QCOMPARE(generator.clientId(), "10123456789abcde");
    QCOMPARE(Token::clientOf(generator.makeToken()), "10123456789abcde");
}

void tst_Token::connections_data()
{
    Support::addColumns<QByteArray, QByteArray>("suffix", "number");
    for (const char *const number : {"1", "42", "9223372036854775807"})
        QTest::newRow(number) << QByteArray(number) << QByteArray(number);
    for (const char *const other : {"", "0", "042", "4a", "a", "9223372036854775808", " 1", "-1", ":1"})
        QTest::newRow(other) << QByteArray(other) << QByteArray();
}

void tst_Token::connections()
{
    QFETCH(QByteArray, suffix);
    QFETCH(QByteArray, number);
    TokenGenerator generator;
    const QByteArray token = generator.makeToken() + suffix;
    QCOMPARE(Token::connectionOf(token), number);
    if (!number.isEmpty()) {
        QCOMPARE(Token::clientOf(token), generator.clientId());
        QCOMPARE(Token::sequenceOf(token), 1ULL);
    }
}

void tst_Token::foreignTokens()
{
    QFETCH(QByteArray, token);
    QCOMPARE(Token::sequenceOf(token), 0ULL);
    QCOMPARE(Token::clientOf(token), QByteArray());
    QCOMPARE(Token::connectionOf(token), QByteArray());
}

QTEST_APPLESS_MAIN(tst_Token)
#include "tst_token.moc"
