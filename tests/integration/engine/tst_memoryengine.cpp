// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "base/leaseclock.h"
#include "engine/memory/memoryengine.h"
#include "enginefixture.h"

#include <QtCore/qset.h>
#include <QtTest/qtest.h>

#include <random>

using namespace Qt::StringLiterals;

using namespace EngineTesting;
using namespace QDistLock;
using namespace std::chrono_literals;

class tst_MemoryEngine : public QObject, private EngineFixture
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { startServer(); }
    void init() { m_server->command({"FLUSHALL"}); }
    void cleanup() { waitForDisconnection(); }

    void globsAgree();
    void memoryStoresAreApart();
};

void tst_MemoryEngine::globsAgree()
{
    const auto redis = makeEngine(Redis);
    const auto memory = makeEngine(Memory);
    std::mt19937 random(1);
    const auto word = [&](const QString &letters, int longest) {
        QString text;
        for (auto count = 1 + random() % quint32(longest); count > 0; --count)
            text += letters.at(int(random() % quint32(letters.size())));
        return text;
    };
    QSet<QString> all;
    while (all.size() < 100)
        all.insert(word(u"abc-^[]*"_s, 4));
    Replies replies;
    for (const QString &name : std::as_const(all)) {
        for (LockEngine *engine : {redis.get(), memory.get()})
            engine->acquire(acquireOf(lockId(name), newToken(*engine), 600s), replies.next());
    }
    EVENTUALLY_COMPARE(replies.list.size(), 200);
    int found = 0;
    for (int round = 0; round < 600; ++round) {
        const QString pattern = word(u"aab-^[[]]**??\\"_s, 8);
        const QStringList expected = names(*redis, pattern);
        found += !expected.isEmpty();
        const QStringList actual = names(*memory, pattern);
        QVERIFY2(actual == expected,
                 qPrintable(u"%1: %2, but %3 on Redis"_s.arg(pattern, actual.join(u' '), expected.join(u' '))));
    }
    QVERIFY(found > 100);
}

void tst_MemoryEngine::memoryStoresAreApart()
{
    MemoryEngine one(u"one"_s, LeaseClock::system());
    MemoryEngine two(u"two"_s, LeaseClock::system());
    const LockId id = lockId(u"a"_s);
    QCOMPARE(acquire(one, id, newToken(one)).status, EngineReply::Granted);
    QCOMPARE(acquire(two, id, newToken(two)).status, EngineReply::Granted);
    QCOMPARE(acquire(two, id, newToken(two)).status, EngineReply::Taken);
}

QTEST_GUILESS_MAIN(tst_MemoryEngine)
#include "tst_memoryengine.moc"
