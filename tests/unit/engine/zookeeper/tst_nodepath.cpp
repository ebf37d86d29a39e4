// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

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
}

QTEST_APPLESS_MAIN(tst_NodePath)
#include "tst_nodepath.moc"
