// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/enginefactory.h"
#include "engine/redis/rediskeys.h"

#include "support/clusterslot.h"
#include "support/rows.h"

#include <QDistLock/impl/namebytes.h>

#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <array>
#include <random>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using Support::clusterSlot;

namespace {

/// All keys of a lock.
QList<QByteArray> keysOf(const LockId &lock)
{
    return {lock.key(), RedisKeys::queue(lock), RedisKeys::fence(lock)};
}

bool haveSameSlot(const LockId &lock)
{
    const auto keys = keysOf(lock);
    return std::all_of(keys.cbegin(), keys.cend(),
                       [slot = clusterSlot(lock.key())](const QByteArray &key) { return clusterSlot(key) == slot; });
}

} // namespace

class tst_RedisKeys : public QObject
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
};

void tst_RedisKeys::slotsAreAsSpecified()
{
    QCOMPARE(clusterSlot("123456789"), 0x31c3);
    QCOMPARE(clusterSlot("foo"), 12182);
    QCOMPARE(clusterSlot("{user1000}.following"), clusterSlot("{user1000}.followers"));
    QVERIFY(clusterSlot("foo{}{bar}") != clusterSlot("bar"));
    QCOMPARE(clusterSlot("foo{{bar}}zap"), clusterSlot("{bar"));
    QCOMPARE(clusterSlot("foo{bar}{zap}"), clusterSlot("bar"));
}

void tst_RedisKeys::accepted_data()
{
    Support::addColumns<QString, QString, QByteArray, QByteArray>("prefix", "name", "lock", "queue");
    const QString prefix = u"lock:"_s;
    const auto plain = [&](const char *row, const QString &name) {
        const QByteArray key = "lock:" + name.toUtf8();
        QTest::newRow(row) << prefix << name << key << '{' + key + "}:queue";
    };
    plain("plain", u"order:1"_s);
    plain("one character", u"x"_s);
    plain("blanks", u" \t\r\n"_s);
    plain("emoji", u"🔒👩‍👩‍👧"_s);
    plain("umlauts", u"Müller"_s);
    plain("1024 bytes", QString(1024, u'x'));
    plain("1024 bytes of two", QString(512, u'ü'));
    plain("1024 bytes of emoji", u"🔒"_s.repeated(256));
    plain("an opening brace", u"a{b"_s);
    plain("opening braces", u"{{{"_s);
    plain("glob", u"*?[a]\\"_s);
    plain("like a side key", u"a:queue"_s);
    plain("noncharacter", QString(QChar(0xffff)));
    plain("U+FEFF inside", u"a"_s + QChar(0xfeff));
    QTest::newRow("a byte that is not UTF-8") << prefix << u"gr"_s + QChar(0xdcfc) + QChar(0xdcdf) + u"e🔒"_s
                                              << QByteArray("lock:gr\xfc\xdf"
                                                            "e\xf0\x9f\x94\x92")
                                              << QByteArray("{lock:gr\xfc\xdf"
                                                            "e\xf0\x9f\x94\x92}:queue");
    QTest::newRow("a tag") << prefix << u"{user}:mail"_s << QByteArray("lock:{user}:mail")
                           << QByteArray("lock:{user}:mail:queue");
    QTest::newRow("only a tag") << prefix << u"{user}"_s << QByteArray("lock:{user}")
                                << QByteArray("lock:{user}:queue");
    QTest::newRow("a tag in the prefix") << u"{app}:"_s << u"a}b{}"_s << QByteArray("{app}:a}b{}")
                                         << QByteArray("{app}:a}b{}:queue");
    QTest::newRow("a tag over both") << u"{app"_s << u"s}a"_s << QByteArray("{apps}a") << QByteArray("{apps}a:queue");
    QTest::newRow("no prefix") << QString() << u"a"_s << QByteArray("a") << QByteArray("{a}:queue");
    QTest::newRow("a prefix of 1024 bytes")
            << QString(1024, u'p') << u"a"_s << QByteArray(1024, 'p') + 'a' << '{' + QByteArray(1024, 'p') + "a}:queue";
}

void tst_RedisKeys::accepted()
{
    QFETCH(QString, prefix);
    QFETCH(QString, name);
    QFETCH(QByteArray, lock);
    QFETCH(QByteArray, queue);
    QString error;
    const auto id = EngineFactory::makeLockId(prefix, name, &error);
    QVERIFY2(id, qPrintable(error));
    QCOMPARE(id->key(), lock);
    QCOMPARE(Detail::nameText(id->key()), prefix + name); // exact
    QCOMPARE(id->prefix(), prefix.toUtf8());
    QCOMPARE(id->name(), Detail::nameBytes(name));
    QCOMPARE(RedisKeys::queue(*id), queue);
    QCOMPARE(RedisKeys::fence(*id), queue.chopped(6) + ":fence");
    QVERIFY(haveSameSlot(*id));
}

void tst_RedisKeys::refused_data()
{
    Support::addColumns<QString, QString, QString>("prefix", "name", "text");
    const QString prefix = u"lock:"_s;
    const auto row = [&](const char *title, const QString &name, const char *text) {
        QTest::newRow(title) << prefix << name << QString::fromLatin1(text);
    };
    row("null", QString(), "the name is empty");
    row("empty", u""_s, "the name is empty");
    QTest::newRow("empty, and no prefix") << QString() << QString() << u"the name is empty"_s;
    row("1025 bytes", QString(1025, u'x'), "1024 bytes");
    row("1026 bytes of two", QString(513, u'ü'), "they have 1026 and 5");
    row("1 MiB", QString(1024 * 1024, u'x'), "1024 bytes");
    row("NUL", QString(QChar::Null), "NUL");
    row("NUL inside", u"a"_s + QChar::Null + u"b"_s, "NUL");
    row("NUL at the end", u"a"_s + QChar::Null, "NUL");
    row("high surrogate alone", QString(QChar(0xd83d)), "surrogate");
    row("low surrogate alone", QString(QChar(0xdd12)), "surrogate");
    row("surrogates swapped", QString(QChar(0xdd12)) + QChar(0xd83d), "surrogate");
    row("high surrogate before a letter", QString(QChar(0xd83d)) + u'a', "surrogate");
    row("bytes that are a character", QString(QChar(0xdcc3)) + QChar(0xdca9), "surrogate"); // another text for it
    row("byte order mark", QString(QChar(0xfeff)) + u"a"_s, "byte order mark");
    row("closing brace", u"a}b"_s, "slot");
    row("closing before opening", u"}{"_s, "slot");
    row("empty tag", u"a{}b"_s, "slot");
    row("empty tag first", u"{}{a}"_s, "slot");
    row("queue of another", u"{a}:queue"_s, "side keys");
    row("fence of another", u"{a}b:fence"_s, "side keys");
    QTest::newRow("long prefix") << QString(1025, u'p') << u"a"_s << u"they have 1 and 1025"_s;
    QTest::newRow("NUL in the prefix") << QString(QChar::Null) << u"a"_s << u"NUL"_s;
    QTest::newRow("half a surrogate in the prefix") << QString(QChar(0xd83d)) << u"a"_s << u"surrogate"_s;
    QTest::newRow("a pair over the border") << QString(QChar(0xd83d)) << QString(QChar(0xdd12)) << u"surrogate"_s;
    QTest::newRow("closing brace in the prefix") << u"a}"_s << u"b"_s << u"slot"_s;
    QTest::newRow("side key without a prefix") << QString() << u"{lock:a}:fence"_s << u"side keys"_s;
    QTest::newRow("side key over the border") << u"{a}:"_s << u"queue"_s << u"side keys"_s;
    QTest::newRow("shares side keys") << QString() << u"{lock:a}"_s << u"side keys"_s;
    QTest::newRow("shares side keys over the border") << u"{"_s << u"a}"_s << u"side keys"_s;
}

void tst_RedisKeys::refused()
{
    QFETCH(QString, prefix);
    QFETCH(QString, name);
    QFETCH(QString, text);
    QString error;
    QVERIFY(!EngineFactory::makeLockId(prefix, name, &error));
    QVERIFY2(error.contains(text), qPrintable(error));
    QVERIFY2(error.size() < 200, "names may be long, error texts may not");
}

void tst_RedisKeys::bracesInAllConstellations()
{
    // Every word of up to 7 letters over { } a, split into prefix and name everywhere.
    const std::array<QChar, 3> letters{u'{', u'}', u'a'};
    QHash<QByteArray, QByteArray> lockOfSideKey;
    QSet<QByteArray> locks;
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
            bool wholeAccepted = false;
            for (int split = 0; split < length; ++split) {
                QString error;
                const auto id = EngineFactory::makeLockId(text.left(split), text.mid(split), &error);
                if (!id) {
                    QVERIFY(error.contains(u"slot"_s) || error.contains(u"side keys"_s));
                    QVERIFY(!wholeAccepted);
                    ++refused;
                    continue;
                }
                ++accepted;
                QVERIFY(wholeAccepted || split == 0); // the border between prefix and name does not matter
                wholeAccepted = true;
                QVERIFY(haveSameSlot(*id));
                for (const QByteArray &side : {RedisKeys::queue(*id), RedisKeys::fence(*id)}) {
                    QCOMPARE(lockOfSideKey.value(side, id->key()), id->key());
                    lockOfSideKey.insert(side, id->key());
                }
                locks.insert(id->key());
            }
        }
    }
    for (auto it = lockOfSideKey.cbegin(); it != lockOfSideKey.cend(); ++it)
        QVERIFY(!locks.contains(it.key()));
    QVERIFY(accepted > 1000);
    QVERIFY(refused > 1000);
}

void tst_RedisKeys::differentLocksShareNoKey()
{
    // Names built from the parts of keys. Some of them are side keys of other locks and must be refused.
    std::mt19937 random(1);
    const QStringList pieces{u"{"_s, u"}"_s, u"a"_s, u":queue"_s, u":fence"_s, u"lock:"_s, u":"_s, u"client:"_s};
    const QStringList prefixes{QString(), u"lock:"_s, u"{a}"_s, u"{lock:"_s};
    QHash<QByteArray, QByteArray> owners;
    int accepted = 0;
    for (int round = 0; round < 100'000; ++round) {
        QString name;
        for (auto count = 1 + random() % 6; count > 0; --count)
            name += pieces.at(int(random() % quint32(pieces.size())));
        QString error;
        const auto id = EngineFactory::makeLockId(prefixes.at(int(random() % 4)), name, &error);
        if (!id)
            continue;
        ++accepted;
        const auto keys = keysOf(*id);
        for (const QByteArray &key : keys) {
            const QByteArray owner = owners.value(key, id->key());
            QVERIFY2(owner == id->key(), (owner + " and " + id->key() + " share " + key).constData());
            owners.insert(key, id->key());
        }
    }
    QVERIFY(accepted > 10'000);
}

QTEST_APPLESS_MAIN(tst_RedisKeys)
#include "tst_rediskeys.moc"
