// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/lockengine.h"

#include "support/clusterslot.h"

#include <QtCore/qhash.h>
#include <QtTest/qtest.h>

#include <array>
#include <random>

using namespace QDistLock;
using Support::clusterSlot;

namespace {

struct TestEngine : LockEngine
{
    void open() override { }
    State state() const override { return Ready; }
    EngineError error() const override { return {}; }
    bool canBeWoken() const override { return false; }
    void acquire(const Acquire &, Completion) override { }
    void renew(const LockKeys &, const QByteArray &, std::chrono::milliseconds, Completion) override { }
    void release(const LockKeys &, const QByteArray &, std::chrono::milliseconds, std::chrono::milliseconds,
                 Completion) override { }
    void abandon(const LockKeys &, const QByteArray &, std::chrono::milliseconds, std::chrono::milliseconds,
                 std::chrono::milliseconds) override { }
    void inspect(const LockKeys &, std::function<void(const EngineError &, const LockInfo &)>) override { }
    void list(const QString &, const QString &, std::function<void(const EngineError &, const QList<LockInfo> &)>) override { }
    void forceRelease(const LockKeys &, std::function<void(const EngineError &, bool)>) override { }
};

} // namespace

class tst_LockKeys : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void slotsAreAsSpecified();
    void accepted_data();
    void accepted();
    void refused_data();
    void refused();
    void bracesInAllConstellations();
    void differentLocksShareNoKey();
    void tokens();
    void foreignTokens_data();
    void foreignTokens();
};

void tst_LockKeys::slotsAreAsSpecified()
{
    QCOMPARE(clusterSlot("123456789"), 0x31c3);
    QCOMPARE(clusterSlot("foo"), 12182);
    QCOMPARE(clusterSlot("{user1000}.following"), clusterSlot("{user1000}.followers"));
    QVERIFY(clusterSlot("foo{}{bar}") != clusterSlot("bar"));
    QCOMPARE(clusterSlot("foo{{bar}}zap"), clusterSlot("{bar"));
    QCOMPARE(clusterSlot("foo{bar}{zap}"), clusterSlot("bar"));
}

void tst_LockKeys::accepted_data()
{
    QTest::addColumn<QString>("prefix");
    QTest::addColumn<QString>("name");
    QTest::addColumn<QByteArray>("lock");
    QTest::addColumn<QByteArray>("queue");
    const QString prefix = QStringLiteral("lock:");
    const auto plain = [&](const char *row, const QString &name) {
        const QByteArray key = "lock:" + name.toUtf8();
        QTest::newRow(row) << prefix << name << key << '{' + key + "}:queue";
    };
    plain("plain", QStringLiteral("order:1"));
    plain("one character", QStringLiteral("x"));
    plain("blanks", QStringLiteral(" \t\r\n"));
    plain("emoji", QStringLiteral("🔒👩‍👩‍👧"));
    plain("umlauts", QStringLiteral("Müller"));
    plain("1024 bytes", QString(1024, u'x'));
    plain("1024 bytes of two", QString(512, u'ü'));
    plain("1024 bytes of emoji", QStringLiteral("🔒").repeated(256));
    plain("an opening brace", QStringLiteral("a{b"));
    plain("opening braces", QStringLiteral("{{{"));
    plain("glob", QStringLiteral("*?[a]\\"));
    plain("like a side key", QStringLiteral("a:queue"));
    plain("noncharacter", QString(QChar(0xffff)));
    plain("U+FEFF inside", QStringLiteral("a") + QChar(0xfeff));
    QTest::newRow("a tag") << prefix << QStringLiteral("{user}:mail") << QByteArray("lock:{user}:mail")
                           << QByteArray("lock:{user}:mail:queue");
    QTest::newRow("only a tag") << prefix << QStringLiteral("{user}") << QByteArray("lock:{user}")
                                << QByteArray("lock:{user}:queue");
    QTest::newRow("a tag in the prefix") << QStringLiteral("{app}:") << QStringLiteral("a}b{}") << QByteArray("{app}:a}b{}")
                                         << QByteArray("{app}:a}b{}:queue");
    QTest::newRow("a tag over both") << QStringLiteral("{app") << QStringLiteral("s}a") << QByteArray("{apps}a")
                                     << QByteArray("{apps}a:queue");
    QTest::newRow("no prefix") << QString() << QStringLiteral("a") << QByteArray("a") << QByteArray("{a}:queue");
    QTest::newRow("a prefix of 1024 bytes") << QString(1024, u'p') << QStringLiteral("a") << QByteArray(1024, 'p') + 'a'
                                            << '{' + QByteArray(1024, 'p') + "a}:queue";
}

void tst_LockKeys::accepted()
{
    QFETCH(QString, prefix);
    QFETCH(QString, name);
    QFETCH(QByteArray, lock);
    QFETCH(QByteArray, queue);
    QString error;
    const auto keys = LockKeys::make(prefix, name, &error);
    QVERIFY2(keys, qPrintable(error));
    QCOMPARE(keys->lock, lock);
    QCOMPARE(keys->queue, queue);
    QCOMPARE(keys->fence, queue.chopped(6) + ":fence");
    QCOMPARE(keys->prefix, prefix.toUtf8());
    QCOMPARE(QString::fromUtf8(keys->lock), prefix + name); // exact
    QCOMPARE(clusterSlot(keys->queue), clusterSlot(keys->lock));
    QCOMPARE(clusterSlot(keys->fence), clusterSlot(keys->lock));
}

void tst_LockKeys::refused_data()
{
    QTest::addColumn<QString>("prefix");
    QTest::addColumn<QString>("name");
    QTest::addColumn<QString>("text");
    const QString prefix = QStringLiteral("lock:");
    const auto row = [&](const char *title, const QString &name, const char *text) {
        QTest::newRow(title) << prefix << name << QString::fromLatin1(text);
    };
    row("null", QString(), "the name is empty");
    row("empty", QStringLiteral(""), "the name is empty");
    row("1025 bytes", QString(1025, u'x'), "1024 bytes");
    row("1026 bytes of two", QString(513, u'ü'), "they have 1026 and 5");
    row("1 MiB", QString(1024 * 1024, u'x'), "1024 bytes");
    row("NUL", QString(QChar::Null), "NUL");
    row("NUL inside", QStringLiteral("a") + QChar::Null + QStringLiteral("b"), "NUL");
    row("NUL at the end", QStringLiteral("a") + QChar::Null, "NUL");
    row("high surrogate alone", QString(QChar(0xd83d)), "surrogate");
    row("low surrogate alone", QString(QChar(0xdd12)), "surrogate");
    row("surrogates swapped", QString(QChar(0xdd12)) + QChar(0xd83d), "surrogate");
    row("high surrogate before a letter", QString(QChar(0xd83d)) + u'a', "surrogate");
    row("byte order mark", QString(QChar(0xfeff)) + QStringLiteral("a"), "byte order mark");
    row("closing brace", QStringLiteral("a}b"), "slot");
    row("closing before opening", QStringLiteral("}{"), "slot");
    row("empty tag", QStringLiteral("a{}b"), "slot");
    row("empty tag first", QStringLiteral("{}{a}"), "slot");
    row("queue of another", QStringLiteral("{a}:queue"), "side keys");
    row("fence of another", QStringLiteral("{a}b:fence"), "side keys");
    QTest::newRow("long prefix") << QString(1025, u'p') << QStringLiteral("a") << QStringLiteral("they have 1 and 1025");
    QTest::newRow("NUL in the prefix") << QString(QChar::Null) << QStringLiteral("a") << QStringLiteral("NUL");
    QTest::newRow("half a surrogate in the prefix")
            << QString(QChar(0xd83d)) << QStringLiteral("a") << QStringLiteral("surrogate");
    QTest::newRow("a pair over the border") << QString(QChar(0xd83d)) << QString(QChar(0xdd12)) << QStringLiteral("surrogate");
    QTest::newRow("closing brace in the prefix") << QStringLiteral("a}") << QStringLiteral("b") << QStringLiteral("slot");
    QTest::newRow("side key without a prefix") << QString() << QStringLiteral("{lock:a}:fence") << QStringLiteral("side keys");
    QTest::newRow("side key over the border") << QStringLiteral("{a}:") << QStringLiteral("queue") << QStringLiteral("side keys");
    QTest::newRow("shares side keys") << QString() << QStringLiteral("{lock:a}") << QStringLiteral("side keys");
    QTest::newRow("shares side keys over the border") << QStringLiteral("{") << QStringLiteral("a}") << QStringLiteral("side keys");
}

void tst_LockKeys::refused()
{
    QFETCH(QString, prefix);
    QFETCH(QString, name);
    QFETCH(QString, text);
    QString error;
    QVERIFY(!LockKeys::make(prefix, name, &error));
    QVERIFY2(error.contains(text), qPrintable(error));
    QVERIFY2(error.size() < 200, "names may be long, error texts may not");
}

void tst_LockKeys::bracesInAllConstellations()
{
    // Every word of up to 7 letters over { } a, split into prefix and name everywhere.
    const std::array<QChar, 3> letters{u'{', u'}', u'a'};
    QHash<QByteArray, QByteArray> lockOfSideKey;
    QHash<QByteArray, bool> locks;
    int accepted = 0;
    int refused = 0;
    for (int length = 1; length <= 7; ++length) {
        int words = 1;
        for (int i = 0; i < length; ++i)
            words *= 3;
        for (int word = 0; word < words; ++word) {
            QString text;
            for (int i = 0, rest = word; i < length; ++i, rest /= 3)
                text += letters[size_t(rest % 3)];
            std::optional<LockKeys> whole;
            for (int split = 0; split < length; ++split) {
                QString error;
                const auto keys = LockKeys::make(text.left(split), text.mid(split), &error);
                if (!keys) {
                    QVERIFY(error.contains(QStringLiteral("slot")) || error.contains(QStringLiteral("side keys")));
                    QVERIFY(!whole);
                    ++refused;
                    continue;
                }
                ++accepted;
                QVERIFY(whole || split == 0); // where the border is does not matter
                whole = keys;
                QCOMPARE(clusterSlot(keys->queue), clusterSlot(keys->lock));
                QCOMPARE(clusterSlot(keys->fence), clusterSlot(keys->lock));
                for (const QByteArray &side : {keys->queue, keys->fence})
                    QCOMPARE(lockOfSideKey.value(side, keys->lock), keys->lock);
                lockOfSideKey.insert(keys->queue, keys->lock);
                lockOfSideKey.insert(keys->fence, keys->lock);
                locks.insert(keys->lock, true);
            }
        }
    }
    for (auto it = lockOfSideKey.cbegin(); it != lockOfSideKey.cend(); ++it)
        QVERIFY(!locks.contains(it.key()));
    QVERIFY(accepted > 1000);
    QVERIFY(refused > 1000);
}

void tst_LockKeys::differentLocksShareNoKey()
{
    // Names built from what keys are built from; some are side keys of others, and must be refused.
    std::mt19937 random(1);
    const QStringList pieces{QStringLiteral("{"),     QStringLiteral("}"),      QStringLiteral("a"),
                             QStringLiteral(":queue"), QStringLiteral(":fence"), QStringLiteral("lock:"),
                             QStringLiteral(":"),      QStringLiteral("client:")};
    const QStringList prefixes{QString(), QStringLiteral("lock:"), QStringLiteral("{a}"), QStringLiteral("{lock:")};
    QHash<QByteArray, QByteArray> owners;
    int accepted = 0;
    for (int round = 0; round < 100'000; ++round) {
        QString name;
        for (auto count = 1 + random() % 6; count > 0; --count)
            name += pieces.at(int(random() % quint32(pieces.size())));
        QString error;
        const auto keys = LockKeys::make(prefixes.at(int(random() % 4)), name, &error);
        if (!keys)
            continue;
        ++accepted;
        for (const QByteArray &key : {keys->lock, keys->queue, keys->fence}) {
            const QByteArray owner = owners.value(key, keys->lock);
            QVERIFY2(owner == keys->lock, (owner + " and " + keys->lock + " share " + key).constData());
            owners.insert(key, keys->lock);
        }
    }
    QVERIFY(accepted > 10'000);
}

void tst_LockKeys::tokens()
{
    TestEngine engine, other;
    QCOMPARE(engine.clientId().size(), 16);
    QVERIFY(engine.clientId() != other.clientId());
    QCOMPARE(engine.clientId().first(1).toInt(nullptr, 16), LockEngine::ProtocolVersion);
    QSet<QByteArray> seen;
    for (quint64 i = 1; i <= 1000; ++i) {
        const QByteArray token = engine.makeToken();
        QVERIFY(!seen.contains(token));
        seen.insert(token);
        QCOMPARE(LockEngine::sequenceOf(token), i);
        QCOMPARE(LockEngine::clientOf(token), engine.clientId());
        QCOMPARE(token.split(':').size(), 3);
        QCOMPARE(token.split(':').at(2).size(), 32); // 128 bits
    }
}

void tst_LockKeys::foreignTokens_data()
{
    QTest::addColumn<QByteArray>("token");
    QTest::newRow("empty") << QByteArray();
    QTest::newRow("uuid") << QByteArray("2f1c4d2e-9f6c-4c58-8f2e-0d8a3a1f5b77");
    QTest::newRow("redisson") << QByteArray("2f1c4d2e-9f6c-4c58-8f2e-0d8a3a1f5b77:1");
    QTest::newRow("colons") << QByteArray("::");
    QTest::newRow("no random part") << QByteArray("abc:1:");
    QTest::newRow("no client") << QByteArray(":1:abc");
    QTest::newRow("upper case") << QByteArray("ABC:1:abc");
    QTest::newRow("no number") << QByteArray("abc:x:abc");
    QTest::newRow("no sequence") << QByteArray("abc::abc");
    QTest::newRow("negative") << QByteArray("abc:-1:abc");
    QTest::newRow("four parts") << QByteArray("abc:1:abc:abc");
    QTest::newRow("binary") << QByteArray("\xff\0:1:abc", 8);
}

void tst_LockKeys::foreignTokens()
{
    QFETCH(QByteArray, token);
    QCOMPARE(LockEngine::sequenceOf(token), 0ULL);
    QCOMPARE(LockEngine::clientOf(token), QByteArray());
}

QTEST_APPLESS_MAIN(tst_LockKeys)
#include "tst_lockkeys.moc"
