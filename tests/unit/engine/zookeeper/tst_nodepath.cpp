// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "engine/token.h"
#include "engine/zookeeper/nodepath.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

using namespace QDistLock;

class tst_NodePath : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void escapes_data();
    void escapes();
    void sortsByNumber();
    void prefixIsCurators();
    void holders_data();
    void holders();
};

void tst_NodePath::escapes_data()
{
    Support::addColumns<QByteArray, QByteArray>("key", "name");
    const auto row = [](const QByteArray &key, const QByteArray &name) {
        QTest::newRow(name.constData()) << key << name;
    };
    row("lock:order 42", "lock:order 42");
    row("lock:a/b", "lock:a%2Fb");
    row("100%", "100%25");
    row(".", "%2E");
    row("..", "%2E%2E");
    row("...", "...");
    row("a\nb", "a%0Ab");
    row("\x7f", "%7F");
    row("ä", "ä");
    row("\u0085", "%C2%85");
    row("🔒", "%F0%9F%94%92"); // the server allows no surrogates
}

void tst_NodePath::escapes()
{
    QFETCH(QByteArray, key);
    QFETCH(QByteArray, name);
    QCOMPARE(NodePath::escaped(key), name);
    QCOMPARE(NodePath::unescaped(name), key);
}

void tst_NodePath::sortsByNumber()
{
    // QDistLock and Curator, kazoo, and what does not wait.
    const auto queue = NodePath::queueOf(
            {"_c_b-lock-0000000007", "x__lock__0000000003", "config", "_c_a-lock-0000000012", "0000000001"});
    QList<QByteArray> names;
    for (const NodePath::Member &member : queue)
        names.append(member.name);
    QCOMPARE(names, (QList<QByteArray>{"x__lock__0000000003", "_c_b-lock-0000000007", "_c_a-lock-0000000012"}));
}

void tst_NodePath::prefixIsCurators()
{
    const QByteArray prefix = NodePath::waiterPrefix("token");
    QCOMPARE(prefix.size(), 3 + 36 + 6);
    QVERIFY(prefix.startsWith("_c_") && prefix.endsWith("-lock-"));
    QCOMPARE(NodePath::waiterPrefix("token"), prefix);
    QVERIFY(NodePath::waiterPrefix("another") != prefix);
    // Its clients look for what follows the last "lock-".
    const QByteArray reader = NodePath::waiterPrefix(Token::ofReader("token"));
    QVERIFY(reader.startsWith("_c_") && reader.endsWith("-read-lock-"));
    QVERIFY(reader.first(3 + 36) != prefix.first(3 + 36));
}

void tst_NodePath::holders_data()
{
    Support::addColumns<QList<QByteArray>, qsizetype>("children", "holders");
    const auto row = [](const char *name, const QList<QByteArray> &children, qsizetype holders) {
        QTest::newRow(name) << children << holders;
    };
    row("nobody", {}, 0);
    row("writer", {"_c_a-lock-0000000001", "_c_b-read-lock-0000000002"}, 1);
    row("readers before a writer",
        {"_c_d-read-lock-0000000009", "_c_c-lock-0000000008", "_c_b-read-lock-0000000002", "_c_a-read-lock-0000000001"},
        2);
    row("readers alone", {"_c_b-read-lock-0000000002", "_c_a-read-lock-0000000001"}, 2);
    // Those of Curator's read/write lock and of kazoo's have it alone.
    row("foreign readers", {"_c_a-__READ__0000000001", "x__rlock__0000000002"}, 1);
}

void tst_NodePath::holders()
{
    QFETCH(QList<QByteArray>, children);
    QFETCH(qsizetype, holders);
    QCOMPARE(NodePath::holdersIn(NodePath::queueOf(children)), holders);
}

QTEST_APPLESS_MAIN(tst_NodePath)
#include "tst_nodepath.moc"
