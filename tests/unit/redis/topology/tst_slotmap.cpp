// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Slots of keys, what nodes say about their cluster, and redirections.

#include "redis/topology/slotmap.h"
#include "support/clusterslot.h"
#include "support/rows.h"

#include <QtCore/qrandom.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <numeric>

using namespace Qt::StringLiterals;

using namespace QtRedis;

namespace {

Reply bulk(const QByteArray &text)
{
    Reply reply;
    reply.type = Reply::Bulk;
    reply.text = text;
    return reply;
}

Reply integer(qint64 number)
{
    Reply reply;
    reply.type = Reply::Integer;
    reply.integer = number;
    return reply;
}

Reply array(const QList<Reply> &elements)
{
    Reply reply;
    reply.type = Reply::Array;
    reply.elements = elements;
    return reply;
}

Reply node(const QByteArray &host, int port, const QByteArray &id)
{
    return array({bulk(host), integer(port), bulk(id), array({bulk("hostname"), bulk("a.example")})});
}

Reply range(int first, int last, const QList<Reply> &nodes)
{
    return array(QList<Reply>{integer(first), integer(last)} + nodes);
}

QByteArray line(const QByteArray &id, const QByteArray &flags, int epoch)
{
    return id + " 127.0.0.1:7000@17000 " + flags + " - 0 1680000000000 " + QByteArray::number(epoch)
            + " connected 0-100\n";
}

Reply error(const QByteArray &text)
{
    Reply reply;
    reply.type = Reply::Error;
    reply.text = text;
    return reply;
}

const Endpoint Asked{u"10.0.0.9"_s, 7009};
const Endpoint A{u"10.0.0.1"_s, 7001};
const Endpoint B{u"10.0.0.2"_s, 7002};
const Endpoint C{u"::1"_s, 7003};

/// A map whose slots 0 to 9 are at \a owner.
SlotMap tenSlots(const Endpoint &owner, qint64 epoch)
{
    SlotMap map;
    for (int slot = 0; slot < 10; ++slot)
        map.setOwner(slot, owner, epoch);
    return map;
}

} // namespace

class tst_SlotMap : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void slots_data();
    void slots();
    void slotsOfManyKeys();
    void views();
    void hostsThatANodeDoesNotKnow();
    void viewWithoutEpochs();
    void malformedViews_data();
    void malformedViews();
    void mergeKeepsWhatIsNewer();
    void mergeTakesTheSlotsOfThoseWhoAreGone();
    void mergeForgetsNobody();
    void confirmedOwners();
    void viewsOfClusters_data();
    void viewsOfClusters();
    void masterThatStayed_data();
    void masterThatStayed();
    void everyOrderOfViews();
    void redirections_data();
    void redirections();
};

void tst_SlotMap::slots_data()
{
    Support::addColumns<QByteArray, int>("key", "slot");
    const auto row = [](const QByteArray &key, int slot) { QTest::newRow(key.constData()) << key << slot; };
    row("123456789", 0x31c3); // from the specification
    row("foo", 12182);
    row("{foo}", 12182);
    row("a{foo}b{bar}", 12182);
    row("", 0);
    row("{}foo", 9500);
    row("foo{}{bar}", 8363);
    row("foo{{bar}}zap", 4015); // the tag is "{bar"
    row("{foo", 13308);
}

void tst_SlotMap::slots()
{
    QFETCH(QByteArray, key);
    QFETCH(int, slot);
    QCOMPARE(SlotMap::slotOf(key), slot);
}

void tst_SlotMap::slotsOfManyKeys()
{
    QRandomGenerator random(1);
    const QByteArray letters = "ab{}\xff";
    for (int i = 0; i < 20'000; ++i) {
        QByteArray key;
        for (int size = int(random.bounded(12)); size > 0; --size)
            key += letters.at(qsizetype(random.bounded(quint32(letters.size()))));
        if (SlotMap::slotOf(key) != Support::clusterSlot(key))
            QFAIL(key.toPercentEncoding("{}").constData());
    }
}

void tst_SlotMap::views()
{
    const Reply slots = array({range(0, 5460, {node("10.0.0.1", 7001, "a"), node("::1", 7003, "c")}),
                               range(5461, 16383, {node("10.0.0.2", 7002, "b")})});
    const auto view = ClusterView::parse(
            slots, bulk(line("a", "master", 7) + line("b", "myself,master", 3) + line("c", "slave", 7)), Asked);
    QVERIFY(view);
    QCOMPARE(view->map.ownerOf(0), A);
    QCOMPARE(view->map.ownerOf(5460), A);
    QCOMPARE(view->map.ownerOf(5461), B);
    QCOMPARE(view->map.epochOf(5460), 7);
    QCOMPARE(view->map.epochOf(16383), 3);
    QCOMPARE(view->map.masters(), (QList<Endpoint>{A, B}));
    QCOMPARE(view->map.servedSlots(), 16384);
    QCOMPARE(view->nodes, (QList<Endpoint>{A, C, B}));
    QCOMPARE(view->self, "b");
    QCOMPARE(view->members, (QSet<QByteArray>{"a", "b", "c"}));
}

void tst_SlotMap::hostsThatANodeDoesNotKnow()
{
    Reply nil = node("", 7001, "a");
    nil.elements[0] = Reply();
    const auto view = ClusterView::parse(
            array({range(0, 1, {node("", 7000, "a")}), range(2, 3, {nil}), range(4, 5, {node("?", 7000, "b")}),
                   range(6, 7, {node("h", 0, "b")}), range(8, 9, {})}),
            error("NOPERM"), Asked);
    QVERIFY(view);
    QCOMPARE(view->map.ownerOf(1), (Endpoint{Asked.host, 7000}));
    QCOMPARE(view->map.ownerOf(3), (Endpoint{Asked.host, 7001}));
    QCOMPARE(view->map.ownerOf(5), std::nullopt);
    QCOMPARE(view->map.ownerOf(7), std::nullopt);
    QCOMPARE(view->map.ownerOf(9), std::nullopt);
    QCOMPARE(view->map.servedSlots(), 4);
}

void tst_SlotMap::viewWithoutEpochs()
{
    const auto view = ClusterView::parse(array({range(0, 1, {node("10.0.0.1", 7001, "a")})}), error("NOPERM"), Asked);
    QVERIFY(view);
    QCOMPARE(view->map.epochOf(0), 0);
    QCOMPARE(view->map.epochOf(2), -1);
    QVERIFY(view->self.isEmpty());
    QVERIFY(view->members.contains("a")); // CLUSTER SLOTS says it, too
}

void tst_SlotMap::malformedViews_data()
{
    Support::addColumns<int, int>("first", "last");
    QTest::newRow("negative") << -1 << 5;
    QTest::newRow("too great") << 0 << 16384;
}

void tst_SlotMap::malformedViews()
{
    QFETCH(int, first);
    QFETCH(int, last);
    const Reply one = node("10.0.0.1", 7001, "a");
    QVERIFY(!ClusterView::parse(array({range(first, last, {one})}), Reply(), Asked));
    QVERIFY(!ClusterView::parse(array({integer(1)}), Reply(), Asked));
    QVERIFY(!ClusterView::parse(array({array({integer(1)})}), Reply(), Asked));
    QVERIFY(!ClusterView::parse(array({array({bulk("0"), bulk("1"), one})}), Reply(), Asked));
    QVERIFY(!ClusterView::parse(bulk("x"), Reply(), Asked));
    QVERIFY(ClusterView::parse(array({}), bulk("a b\nc"), Asked));
    const auto backwards = ClusterView::parse(array({range(9, 3, {one})}), Reply(), Asked);
    QVERIFY(backwards && backwards->map.servedSlots() == 0);
}

void tst_SlotMap::mergeKeepsWhatIsNewer()
{
    SlotMap map;
    QVERIFY(map.merge(tenSlots(A, 5), {}));
    QVERIFY(!map.merge(tenSlots(A, 5), {}));
    QVERIFY(!map.merge(tenSlots(B, 4), {}));
    QCOMPARE(map.ownerOf(9), A);
    QVERIFY(map.merge(tenSlots(B, 6), {}));
    QCOMPARE(map.ownerOf(9), B);
    QCOMPARE(map.epochOf(9), 6);
    QCOMPARE(map.ownerOf(10), std::nullopt);
    map.setOwner(3, C, 6);
    QCOMPARE(map.masters(), (QList<Endpoint>{B, C}));
}

void tst_SlotMap::mergeTakesTheSlotsOfThoseWhoAreGone()
{
    SlotMap map = tenSlots(A, 5);
    map.setOwner(9, C, 5);
    QVERIFY(map.merge(tenSlots(B, 1), {A}));
    QCOMPARE(map.ownerOf(0), B);
    QCOMPARE(map.ownerOf(9), C);
}

void tst_SlotMap::mergeForgetsNobody()
{
    SlotMap map = tenSlots(A, 5);
    QVERIFY(!map.merge(SlotMap(), {A}));
    QCOMPARE(map.servedSlots(), 10);
    // What nobody owns any more takes no room.
    for (int epoch = 6; epoch < 100'000; epoch += 1000)
        map.merge(tenSlots(Endpoint{u"h"_s, quint16(epoch % 60'000 + 1)}, epoch), {});
    QCOMPARE(map.masters().size(), 1);
}

void tst_SlotMap::confirmedOwners()
{
    SlotMap map = tenSlots(A, 5);
    map.setOwner(9, C, 5);
    QCOMPARE(map.confirmedBy(tenSlots(A, 5)), QSet<Endpoint>{A});
    QCOMPARE(map.confirmedBy(tenSlots(A, 6)), QSet<Endpoint>{A});
    QCOMPARE(map.confirmedBy(tenSlots(A, 4)), QSet<Endpoint>{});
    QCOMPARE(map.confirmedBy(tenSlots(B, 6)), QSet<Endpoint>{});
    QCOMPARE(map.confirmedBy(map), (QSet<Endpoint>{A, C}));
    QCOMPARE(map.confirmedBy(SlotMap()), QSet<Endpoint>{});
}

void tst_SlotMap::viewsOfClusters_data()
{
    QTest::addColumn<QByteArray>("known"); // a letter for each id: of the masters
    Support::addColumns<QByteArray, QByteArray, bool>("self", "members", "isOfIt");
    const auto row = [](const char *title, const char *known, const char *self, const char *members, bool isOfIt) {
        QTest::newRow(title) << QByteArray(known) << QByteArray(self) << QByteArray(members) << isOfIt;
    };
    row("the same", "abc", "a", "abcxyz", true);
    row("nobody is known yet", "", "a", "abc", true);
    row("nobody says ids", "", "", "", true);
    row("a replica was promoted", "abc", "x", "abcxyz", true);
    row("one master has left", "abc", "a", "abxyz", true);
    row("one of two masters is no majority", "ab", "a", "ax", false);
    row("two of three masters have left", "abc", "a", "ade", false);
    row("another cluster", "abc", "d", "def", false);
    row("a replica in another cluster kept its id", "abc", "x", "xdef", false);
    row("a master in another cluster kept its id", "abc", "a", "adef", false);
    row("the only master was replaced", "a", "x", "ax", true);
    row("the only master was set up again", "a", "d", "dx", false);
    row("no ids", "abc", "", "", false);
    row("CLUSTER NODES is forbidden, the replaced are not named", "abc", "", "axy", true);
    row("CLUSTER NODES is forbidden, another cluster", "abc", "", "def", false);
}

void tst_SlotMap::viewsOfClusters()
{
    QFETCH(const QByteArray, known);
    QFETCH(const QByteArray, members);
    SlotMap map;
    for (qsizetype i = 0; i < known.size(); ++i)
        map.setOwner(int(i), int(i), Endpoint{u"h"_s, quint16(i + 1)}, 1, known.mid(i, 1));
    QFETCH(const QByteArray, self);
    ClusterView view;
    view.self = self;
    for (qsizetype i = 0; i < members.size(); ++i)
        view.members.insert(members.mid(i, 1));
    QTEST(view.isOfClusterOf(map), "isOfIt");
}

void tst_SlotMap::masterThatStayed_data()
{
    QTest::addColumn<QByteArray>("self");
    QTest::addColumn<QByteArray>("owners"); // a letter for each of three slots; "abc" are known, with 1, 2, 3
    Support::addColumns<QList<int>, bool>("epochs", "hasStayed");
    const auto row = [](const char *title, const char *self, const char *owners, const QList<int> &epochs,
                        bool hasStayed) {
        QTest::newRow(title) << QByteArray(self) << QByteArray(owners) << epochs << hasStayed;
    };
    row("the others were replaced", "c", "dec", {4, 5, 3}, true);
    row("it was replaced itself, and came back", "c", "dec", {4, 5, 7}, true);
    row("one of the others has its other slots", "c", "ddc", {4, 4, 3}, true);
    row("nobody serves the other slots", "c", "--c", {0, 0, 3}, true);
    row("all slots were moved to it", "c", "ccc", {4, 4, 4}, true);
    row("it got slots in a new cluster, whose epochs are small", "c", "dec", {1, 2, 3}, false);
    row("only one of the others has got its slots later", "c", "dec", {4, 2, 3}, false);
    row("it got slots in a new cluster, and has a small epoch itself", "c", "dec", {4, 5, 2}, false);
    row("it serves other slots", "c", "ced", {4, 5, 6}, false);
    row("it serves none", "c", "dee", {4, 5, 6}, false);
    row("another node says so", "d", "dec", {4, 5, 3}, false);
    row("another cluster", "d", "def", {4, 5, 6}, false);
    row("nobody says so", "", "dec", {4, 5, 3}, false);
}

/// Most of the masters that are known are unknown to the node. Which facts tell that it still belongs to their cluster?
void tst_SlotMap::masterThatStayed()
{
    const auto mapOf = [](const QByteArray &owners, const QList<int> &epochs) {
        SlotMap map;
        for (int i = 0; i < owners.size(); ++i) {
            if (owners.at(i) != '-')
                map.setOwner(i, i, Endpoint{u"h"_s, quint16(owners.at(i))}, epochs.at(i), owners.mid(i, 1));
        }
        return map;
    };
    QFETCH(const QByteArray, owners);
    QFETCH(const QList<int>, epochs);
    ClusterView view;
    QFETCH(const QByteArray, self);
    view.self = self;
    view.map = mapOf(owners, epochs);
    QTEST(view.isOfMasterThatStayed(mapOf("abc", {1, 2, 3})), "hasStayed");
}

/// Whoever is heard first, the map ends at the newest owner of the own cluster.
void tst_SlotMap::everyOrderOfViews()
{
    const auto view = [](const Endpoint &owner, const QByteArray &id, qint64 epoch, const QSet<QByteArray> &members) {
        ClusterView one;
        one.map.setOwner(0, 9, owner, epoch, id);
        one.self = id;
        one.members = members;
        return one;
    };
    const QSet<QByteArray> own{"a", "b", "d"};
    const QList<ClusterView> views{
            view(A, "a", 4, own),         view(A, "a", 5, own),
            view(B, "b", 6, own),        // a replica, which was promoted
            view(C, "c", 6, {"c", "b"}), // another cluster, which the replica has joined later, with its id
            view(B, "b", 99, {"c", "b"}), view(A, "c", 99, {"c", "e"}),
    };
    QList<qsizetype> order(views.size());
    std::iota(order.begin(), order.end(), 0);
    do {
        SlotMap map;
        map.setOwner(0, 9, A, 5, "a");
        map.setOwner(10, 19, Asked, 3, "d"); // another master
        for (const qsizetype i : std::as_const(order)) {
            if (views.at(i).isOfClusterOf(map))
                map.merge(views.at(i).map, {});
        }
        QCOMPARE(map.ownerOf(0), B);
        QCOMPARE(map.epochOf(0), 6);
        QCOMPARE(map.idOf(B), "b");
    } while (std::next_permutation(order.begin(), order.end()));
}

void tst_SlotMap::redirections_data()
{
    Support::addColumns<QByteArray, bool, int, int, QString>("text", "isOne", "kind", "slot", "endpoint");
    const auto row = [](const char *text, bool isOne = false, int kind = 0, int slot = 0,
                        const QString &endpoint = {}) {
        QTest::newRow(text) << QByteArray(text) << isOne << kind << slot << endpoint;
    };
    row("MOVED 3999 127.0.0.1:6381", true, Redirection::Moved, 3999, u"127.0.0.1:6381"_s);
    row("ASK 16383 node.example:1", true, Redirection::Ask, 16383, u"node.example:1"_s);
    row("MOVED 0 ::1:6381", true, Redirection::Moved, 0, u"[::1]:6381"_s);
    row("MOVED 1 :6381", true, Redirection::Moved, 1, u"10.0.0.9:6381"_s);
    row("MOVED 16384 a:1");
    row("MOVED -1 a:1");
    row("MOVED 1 a:0");
    row("MOVED 1 a:65536");
    row("MOVED 1 a");
    row("MOVED 1 ?:1");
    row("MOVED 1 a:1 b");
    row("MOVED x a:1");
    row("TRYAGAIN Multiple keys request during rehashing of slot");
    row("");
}

void tst_SlotMap::redirections()
{
    QFETCH(QByteArray, text);
    QFETCH(bool, isOne);
    const auto found = Redirection::parse(text, Asked);
    QCOMPARE(found.has_value(), isOne);
    if (!found)
        return;
    QTEST(int(found->kind), "kind");
    QTEST(found->slot, "slot");
    QTEST(found->endpoint.toString(), "endpoint");
}

QTEST_APPLESS_MAIN(tst_SlotMap)
#include "tst_slotmap.moc"
