// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Which of the views that the nodes of a cluster give counts.

#include "redis/topology/clusterwatch.h"
#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/locktesting.h"
#include "support/redistesting.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qmutex.h>
#include <QtCore/qurlquery.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <array>
#include <memory>

using namespace Qt::StringLiterals;

using namespace QtRedis;
using namespace RedisTesting;
using namespace Support;
using namespace std::chrono_literals;

namespace {

/// Four nodes. Each of them says who serves the slots, and names the others as replicas.
class Nodes
{
public:
    struct View
    {
        QList<int> owners = {0}; ///< each of an equal part of the slots
        int epoch = 1;
        QByteArray cluster = "node"; ///< the ids of all its nodes begin with this
        QByteArray host = "127.0.0.1";
        int stayed = -1; ///< the node that has its id from the cluster "node"
    };

    Nodes()
    {
        for (int i = 0; i < Count; ++i) {
            m_servers[size_t(i)] = std::make_unique<FakeServer>(
                    [this, i](const QList<QByteArray> &command, int) -> FakeServer::Answer {
                        return {answer(i, command.value(1))};
                    });
            m_ports[size_t(i)] = m_servers[size_t(i)]->port();
        }
    }

    /// What \a node says from now on.
    void setView(int node, int owner, int epoch, const QByteArray &cluster = "node",
                 const QByteArray &host = "127.0.0.1")
    {
        setView(node, View{{owner}, epoch, cluster, host});
    }
    void setView(int node, const View &view)
    {
        const QMutexLocker locker(&m_mutex);
        m_views[size_t(node)] = view;
    }

    /// \a node ends each connection from now on.
    void stop(int node)
    {
        server(node).setHandler([](const QList<QByteArray> &, int) { return FakeServer::Answer{{}, {}, true}; });
        server(node).closeAll();
    }

    /// Ends the connections to \a node, which refuses new ones from now on.
    void refuseLogins(int node)
    {
        server(node).setAnswersLogin(false);
        server(node).setHandler([](const QList<QByteArray> &, int) {
            return FakeServer::Answer{"-NOAUTH Authentication required.\r\n"};
        });
        server(node).closeAll();
    }

    Endpoint endpoint(int node) const { return {u"127.0.0.1"_s, m_ports[size_t(node)]}; }
    QUrl url() const
    {
        return QUrl(u"redis+cluster://127.0.0.1:%1?node=127.0.0.1:%2"_s.arg(m_ports[0]).arg(m_ports[1]));
    }
    int connectionsAccepted(int node) const { return server(node).connectionsAccepted(); }
    qsizetype asked(int node) const { return server(node).commands().count(QList<QByteArray>{"CLUSTER", "SLOTS"}); }

private:
    static constexpr int Count = 4;

    FakeServer &server(int node) const { return *m_servers[size_t(node)]; }
    static QByteArray bulk(const QByteArray &text)
    {
        return '$' + QByteArray::number(text.size()) + "\r\n" + text + "\r\n";
    }
    static QByteArray id(int node, const View &view)
    {
        return (node == view.stayed ? "node" : view.cluster) + QByteArray::number(node);
    }
    QByteArray address(int node, const View &view) const
    {
        return "*3\r\n" + bulk(view.host) + ':' + QByteArray::number(m_ports[size_t(node)]) + "\r\n"
                + bulk(id(node, view));
    }
    QByteArray answer(int node, const QByteArray &question)
    {
        const QMutexLocker locker(&m_mutex);
        const View view = m_views[size_t(node)];
        if (question == "SLOTS") {
            const qsizetype parts = view.owners.size();
            QByteArray slots = '*' + QByteArray::number(parts) + "\r\n";
            for (qsizetype part = 0; part < parts; ++part) {
                const int owner = view.owners.at(part);
                slots += '*' + QByteArray::number(2 + Count) + "\r\n:" + QByteArray::number(16384 * part / parts)
                        + "\r\n:" + QByteArray::number(16384 * (part + 1) / parts - 1) + "\r\n" + address(owner, view);
                for (int i = 0; i < Count; ++i)
                    slots += i == owner ? QByteArray() : address(i, view);
            }
            return slots;
        }
        QByteArray lines;
        for (int i = 0; i < Count; ++i) {
            lines += id(i, view) + " 127.0.0.1:1@2 " + (i == node ? "myself" : "master") + " - 0 0 "
                    + QByteArray::number(view.epoch) + " connected\n";
        }
        return bulk(lines);
    }

    mutable QMutex m_mutex;
    std::array<View, Count> m_views;
    std::array<quint16, Count> m_ports{}; // the threads of the servers need all of them until the last one has ended
    std::array<std::unique_ptr<FakeServer>, Count> m_servers;
};

/// Of a cluster with nodes at these ports.
ServerUrl urlOf(const QList<quint16> &ports)
{
    QUrlQuery others;
    for (const quint16 port : ports.sliced(1))
        others.addQueryItem(u"node"_s, u"127.0.0.1:%1"_s.arg(port));
    QUrl url(u"redis+cluster://127.0.0.1:%1"_s.arg(ports.first()));
    url.setQuery(others);
    return serverUrl(url);
}

} // namespace

class tst_ClusterWatch : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void newerViewCounts();
    void olderViewOfASilentMaster();
    TIMING void olderViewOfAMasterThatAnotherNodeNames();
    void masterThatNobodyNamesAnyMore();
    void suspectThatNobodyNeeds();
    void viewOfAnotherCluster();
    void setUpAgainWithNewIds();
    void mostMastersReplaced_data();
    void mostMastersReplaced();
    void masterWithTwoNames();
    void nodesWithoutNames();
    void refusedLogin();
    void noClusterAndNobody();
    void slowLink();
    TIMING void slowNodesOfTwoClusters();
    void slowNodeOfAnotherCluster();
    void oneNodeAnswers();

private:
    /// Node 0 serves all slots with the epoch 5, and \a watch knows it.
    static bool start(Nodes *nodes, ClusterWatch *watch);
    /// After that many more rounds of questions at \a node.
    static bool asksOn(const Nodes &nodes, int node, int rounds = 3);
};

bool tst_ClusterWatch::start(Nodes *nodes, ClusterWatch *watch)
{
    for (int i = 0; i < 4; ++i)
        nodes->setView(i, 0, 5);
    watch->setClientName("qdistlock");
    watch->setNeeded([](const auto &) { return true; });
    watch->open();
    return waitFor([watch] { return watch->isKnown(); }) && watch->map().ownerOf(7) == nodes->endpoint(0);
}

bool tst_ClusterWatch::asksOn(const Nodes &nodes, int node, int rounds)
{
    const qsizetype before = nodes.asked(node);
    return waitFor([&] { return nodes.asked(node) >= before + rounds; });
}

void tst_ClusterWatch::newerViewCounts()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    QSignalSpy changed(&watch, &ClusterWatch::mapChanged);
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Silent);
    nodes.setView(2, 1, 6);
    QVERIFY(waitFor([&] { return watch.map().ownerOf(7) == nodes.endpoint(1); }));
    QVERIFY(waitFor([&] { return !changed.isEmpty(); }));
    QVERIFY(asksOn(nodes, 3)); // this one still names the former master
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(1));
}

/// It is slow, and a node that was cut off before it became the master has an old view.
void tst_ClusterWatch::olderViewOfASilentMaster()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Silent);
    for (int i = 1; i < 4; ++i)
        nodes.setView(i, 1, 4);
    QVERIFY(asksOn(nodes, 2));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
}

void tst_ClusterWatch::olderViewOfAMasterThatAnotherNodeNames()
{
    Support::leavesRoomFor(400ms); // the others are away if they have not answered 500 ms after the first
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Failed);
    nodes.setView(1, 1, 4);
    QVERIFY(asksOn(nodes, 1));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
}

/// As after a cluster was set up again, whose epochs are small.
void tst_ClusterWatch::masterThatNobodyNamesAnyMore()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Failed);
    for (int i = 1; i < 4; ++i)
        nodes.setView(i, 1, 2);
    QVERIFY(waitFor([&] { return watch.map().ownerOf(7) == nodes.endpoint(1); }));
}

/// Not even every few seconds; and at once when somebody needs it.
void tst_ClusterWatch::suspectThatNobodyNeeds()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    bool isNeeded = false;
    watch.setNeeded([&](const std::optional<Endpoint> &master) { return isNeeded || master != nodes.endpoint(0); });
    const qsizetype before = nodes.asked(2);
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Failed);
    watch.setSuspect(nodes.endpoint(1), ClusterWatch::Failed);
    QVERIFY(asksOn(nodes, 2)); // for the other one
    watch.setSuspect(nodes.endpoint(1), ClusterWatch::None);
    const auto roundsEnded = [&] { return std::max(nodes.asked(2), nodes.asked(3)); };
    const qsizetype after = roundsEnded();
    QVERIFY(after > before);
    // Meanwhile, another watch with a master that is needed asks four times.
    Nodes others;
    ClusterWatch needed(serverUrl(others.url()));
    QVERIFY(start(&others, &needed));
    needed.setSuspect(others.endpoint(0), ClusterWatch::Failed);
    QVERIFY(asksOn(others, 2, 4));
    QVERIFY2(roundsEnded() <= after + 1, "asked for a master that nobody needs");
    isNeeded = true;
    watch.open();
    QVERIFY(asksOn(nodes, 2));
}

/// The address of a node may belong to another cluster by now, whose epochs say nothing here.
void tst_ClusterWatch::viewOfAnotherCluster()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    QSignalSpy changed(&watch, &ClusterWatch::mapChanged);
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Failed);
    for (int i = 1; i < 3; ++i)
        nodes.setView(i, 2, 9, "other");
    QVERIFY(asksOn(nodes, 2));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
    nodes.setView(3, 3, 6); // a fail-over, in the cluster that is known
    QVERIFY(waitFor([&] { return watch.map().ownerOf(7) == nodes.endpoint(3); }));
    QVERIFY(asksOn(nodes, 2));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(3));
    QVERIFY(waitFor([&] { return !changed.isEmpty(); }));
}

/// Nobody is left of the cluster that was known, and the addresses of its masters belong to another one.
void tst_ClusterWatch::setUpAgainWithNewIds()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Failed);
    for (int i = 1; i < 4; ++i)
        nodes.setView(i, 1, 1, "again");
    QVERIFY(asksOn(nodes, 2)); // the master's address may still belong to the former one
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
    nodes.setView(0, 1, 1, "again");
    QVERIFY(waitFor([&] { return watch.map().ownerOf(7) == nodes.endpoint(1); }));
}

void tst_ClusterWatch::mostMastersReplaced_data()
{
    addColumns<QList<int>, int, int>("owners", "epoch", "stayed");
    QTest::addColumn<QByteArray>("alsoAnswers"); // the cluster of a node that does
    QTest::addColumn<bool>("counts");
    QTest::newRow("one has stayed") << QList<int>{3, 3, 2} << 6 << 2 << QByteArray() << true;
    QTest::newRow("another cluster at its address") << QList<int>{3, 3, 2} << 6 << -1 << QByteArray() << false;
    QTest::newRow("it has left, and got other slots") << QList<int>{2, 3, 3} << 6 << 2 << QByteArray() << false;
    QTest::newRow("a replica has left") << QList<int>{3, 3, 2} << 6 << 3 << QByteArray() << false;
    QTest::newRow("a cluster with small epochs") << QList<int>{3, 3, 2} << 5 << 2 << QByteArray() << false;
    QTest::newRow("a replaced one contradicts") << QList<int>{3, 3, 2} << 6 << 2 << QByteArray("node") << false;
    QTest::newRow("a third cluster answers, too") << QList<int>{3, 3, 2} << 6 << 2 << QByteArray("third") << false;
}

/// Since the map was asked for, the masters 0 and 1 of three were replaced. Is what the others say of the same cluster?
void tst_ClusterWatch::mostMastersReplaced()
{
    Nodes nodes;
    for (int i = 0; i < 4; ++i)
        nodes.setView(i, Nodes::View{{0, 1, 2}, 5});
    ClusterWatch watch(serverUrl(nodes.url()));
    watch.setClientName("qdistlock");
    watch.setNeeded([](const auto &) { return true; });
    watch.open();
    QVERIFY(waitFor([&] { return watch.isKnown(); }));
    QCOMPARE(watch.map().masters().size(), 3);

    QFETCH(const QList<int>, owners);
    QFETCH(const int, epoch);
    QFETCH(const int, stayed);
    QFETCH(const QByteArray, alsoAnswers);
    for (const int i : {2, 3})
        nodes.setView(i, Nodes::View{owners, epoch, "new", "127.0.0.1", stayed});
    nodes.stop(0);
    if (alsoAnswers.isEmpty())
        nodes.stop(1);
    else
        nodes.setView(1, Nodes::View{{0, 1, 2}, 5, alsoAnswers});
    const LockTesting::LogCapture log;
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Failed);
    QFETCH(const bool, counts);
    if (counts) {
        QVERIFY(waitFor([&] { return watch.map().ownerOf(7) == nodes.endpoint(3); }));
        QCOMPARE(watch.map().ownerOf(16383), nodes.endpoint(2));
        QCOMPARE(watch.errorString(), QString());
        QCOMPARE(log.count({u"belongs to another cluster"_s}), 0);
        return;
    }
    QVERIFY(asksOn(nodes, 2, 4));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
    QCOMPARE(log.count({nodes.endpoint(2).toString(), u"belongs to another cluster"_s}), 1);
    if (alsoAnswers != "node")
        QVERIFY2(watch.errorString().contains(u"start this program again"_s), qPrintable(watch.errorString()));
}

/// One node shows host names, and the others addresses. That replaces no master, unless the present name is of no use.
void tst_ClusterWatch::masterWithTwoNames()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    QVERIFY(waitFor([&] { return watch.map().ownerOf(7) == nodes.endpoint(0); }));
    watch.setSuspect(nodes.endpoint(1), ClusterWatch::Failed); // keeps it asking
    QSignalSpy changed(&watch, &ClusterWatch::mapChanged);
    nodes.setView(2, 0, 5, "node", "localhost");
    QVERIFY(asksOn(nodes, 2, 5));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
    QVERIFY2(changed.size() <= 1, QByteArray::number(changed.size()).constData()); // that of the first round
    for (int i = 0; i < 4; ++i)
        nodes.setView(i, 0, 5, "node", "localhost");
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Silent);
    const Endpoint present{u"localhost"_s, nodes.endpoint(0).port};
    QVERIFY(waitFor([&] { return watch.map().ownerOf(7) == present; }));
}

/// The cluster is complete, but prefers host names, and has none: CLUSTER SLOTS says "?" for each node.
void tst_ClusterWatch::nodesWithoutNames()
{
    FakeServer server([](const QList<QByteArray> &command, int) -> FakeServer::Answer {
        if (command.value(1) == "SLOTS")
            return {"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$1\r\n?\r\n:7000\r\n$1\r\na\r\n"};
        return {"$46\r\na ?:7000@17000 myself,master - 0 0 1 connected\r\n"};
    });
    ClusterWatch watch(serverUrl(QUrl(u"redis+cluster://127.0.0.1:%1"_s.arg(server.port()))));
    watch.setClientName("qdistlock");
    watch.open();
    QVERIFY(waitFor([&] { return !watch.errorString().isEmpty(); }));
    QVERIFY2(watch.errorString().contains(u"cluster-announce-hostname"_s), qPrintable(watch.errorString()));
    QVERIFY2(!watch.errorString().contains(u"CLUSTER MEET"_s), qPrintable(watch.errorString()));
}

/// The others are asked every 300 ms, but a node that refuses the login only after seconds, and it is reported once.
void tst_ClusterWatch::refusedLogin()
{
    Nodes nodes;
    ClusterWatch watch(serverUrl(nodes.url()));
    QVERIFY(start(&nodes, &watch));
    const LockTesting::LogCapture log;
    watch.setSuspect(nodes.endpoint(0), ClusterWatch::Silent);
    QVERIFY(asksOn(nodes, 1, 1));
    nodes.refuseLogins(1);
    const int before = nodes.connectionsAccepted(1);
    QVERIFY(asksOn(nodes, 2, 8));
    const int logins = nodes.connectionsAccepted(1) - before;
    QVERIFY2(logins >= 1 && logins <= 3, QByteArray::number(logins).constData());
    const QStringList warnings = log.messages(QtWarningMsg, "qdistlock.redis");
    QVERIFY2(warnings.size() == 1 && warnings.first().contains(u"Retrying every few seconds"_s),
             qPrintable(warnings.join(u'\n')));
}

/// One node of the URL belongs to no cluster, and the other one is away: each attempt to find the map fails, and the
/// error says why. That is not logged each time.
void tst_ClusterWatch::noClusterAndNobody()
{
    const FakeServer single("-ERR This instance has cluster support disabled\r\n");
    const FakeServer away([](const QList<QByteArray> &, int) { return FakeServer::Answer{{}, {}, true}; });
    const LockTesting::LogCapture log;
    ClusterWatch watch(
            serverUrl(QUrl(u"redis+cluster://127.0.0.1:%1?node=127.0.0.1:%2"_s.arg(single.port()).arg(away.port()))));
    watch.setClientName("qdistlock");
    watch.setNeeded([](const auto &) { return true; });
    QSignalSpy failed(&watch, &ClusterWatch::failed);
    watch.open();
    QVERIFY(waitFor([&] { return failed.size() >= 3; }));
    QVERIFY2(watch.errorString().contains(u"no node of a Redis Cluster"_s), qPrintable(watch.errorString()));
    const QStringList warnings = log.messages(QtWarningMsg, "qdistlock.redis");
    QVERIFY2(warnings.isEmpty(), qPrintable(warnings.join(u'\n')));
}

/// First connecting takes longer than an answer may take, then both together take longer than a round.
void tst_ClusterWatch::slowLink()
{
    Nodes nodes;
    FaultProxy link(nodes.endpoint(0).port);
    link.setLatency(0us, 1300ms);
    ClusterWatch watch(serverUrl(QUrl(u"redis+cluster://127.0.0.1:%1"_s.arg(link.port()))));
    watch.setClientName("qdistlock");
    watch.setNeeded([](const auto &) { return true; });
    watch.open();
    QVERIFY(waitFor([&] { return link.commandsForwarded("CLUSTER") > 0; })); // the handshake has ended
    link.closeAll();
    link.setLatency(0us, 700ms);
    QVERIFY(waitFor([&] { return watch.isKnown(); }));
}

/// The URL names nodes of two clusters, and one of them answers 900 ms after the other, which does not name it.
void tst_ClusterWatch::slowNodesOfTwoClusters()
{
    Support::leavesRoomFor(2s);
    Nodes nodes;
    nodes.setView(0, 0, 5, "other");
    FaultProxy link(nodes.endpoint(1).port);
    link.setLatency(0us, 450ms);
    ClusterWatch watch(urlOf({nodes.endpoint(0).port, link.port()}));
    watch.open();
    QVERIFY(waitFor([&] { return watch.isKnown() || !watch.errorString().isEmpty(); }));
    QVERIFY2(watch.errorString().contains(u"belong to different clusters"_s), qPrintable(watch.errorString()));
}

/// Most nodes of the URL belong to one cluster, which counts. The warning about another one comes when that answers.
void tst_ClusterWatch::slowNodeOfAnotherCluster()
{
    Nodes nodes;
    nodes.setView(1, 1, 5, "other");
    FaultProxy link(nodes.endpoint(1).port);
    link.setRepliesHeld(true);
    const LockTesting::LogCapture log;
    ClusterWatch watch(urlOf({nodes.endpoint(0).port, nodes.endpoint(2).port, link.port()}));
    watch.setNeeded([](const auto &) { return true; });
    watch.open();
    QVERIFY(waitFor([&] { return watch.isKnown(); }));
    link.setRepliesHeld(false);
    QVERIFY(waitFor([&] { return log.count({QString::number(link.port()), u"belongs to another cluster"_s}) == 1; }));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
}

/// It does not name the other one by the address in the URL, and that one is silent. In the end, one is enough.
void tst_ClusterWatch::oneNodeAnswers()
{
    Nodes nodes;
    FaultProxy silent(nodes.endpoint(1).port);
    silent.setRepliesHeld(true);
    ClusterWatch watch(urlOf({nodes.endpoint(0).port, silent.port()}));
    watch.open();
    QVERIFY(waitFor([&] { return watch.isKnown(); }));
    QCOMPARE(watch.map().ownerOf(7), nodes.endpoint(0));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ClusterWatch)
#include "tst_clusterwatch.moc"
