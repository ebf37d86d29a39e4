// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A session with a ZooKeeper server on the event loop.

#include "support/eventually.h"
#include "support/faultproxy.h"
#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"
#include "support/zookeeperserver.h"

#include "zookeeper/session.h"

#include <QtCore/qcoreapplication.h>
#include <QtCore/qthread.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <atomic>
#include <optional>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using namespace QtZooKeeper;
using Support::EventLoopProbe;
using Support::FaultProxy;
using Support::TurnLimit;
using Support::ZooKeeperServer;

namespace {

/// Counts the events of an object that it filters.
class EventCounter : public QObject
{
public:
    int count = 0;

private:
    bool eventFilter(QObject *, QEvent *) override
    {
        ++count;
        return false;
    }
};

std::atomic<int> namesLookedUp{0};
std::atomic<int> namesLookedUpHere{0}; ///< in the thread of the event loop

} // namespace

/// Replaces the function of the C library: all other libraries call this one.
extern "C" Q_DECL_EXPORT int getaddrinfo(const char *name, const char *service, const addrinfo *hints,
                                         addrinfo **result)
{
    in6_addr address;
    if (inet_pton(AF_INET, name, &address) != 1 && inet_pton(AF_INET6, name, &address) != 1) {
        ++namesLookedUp;
        namesLookedUpHere += QThread::currentThread() == QCoreApplication::instance()->thread();
    }
    static const auto next = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
    return next(name, service, hints, result);
}

class tst_ZooKeeperSession : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void operations();
    void watch();
    void connectsAgain();
    void expires();
    void nobodyListens();
    void someServersAreAway();
    void namesAreLookedUpElsewhere();
    void loopStaysFree_data()
    {
        Support::addNamedRows<QString>("trouble", {"none", "nobody listens", "name that does not resolve", "frozen"});
    }
    TIMING void loopStaysFree();
    void wrongLogin();
    void closedDeletesNodes();
    void destroyedInACompletion();
    void refusedWriteNeedsAMajority_data()
    {
        Support::addRows<bool>("isDeletion", {{"deletion", true}, {"change", false}});
    }
    void refusedWriteNeedsAMajority();

private:
    Session::Options options() const
    {
        Session::Options result;
        result.servers = {{u"localhost"_s, m_server.port()}};
        result.timeout = 2s;
        return result;
    }
    template<typename Operation>
    static Result wait(Operation operation)
    {
        std::optional<Result> result;
        operation([&](const Result &r) { result = r; });
        EventLoopProbe::waitFor([&] { return result.has_value(); });
        return result.value_or(Result());
    }

    ZooKeeperServer m_server;
};

void tst_ZooKeeperSession::initTestCase()
{
    if (!ZooKeeperServer::isInstalled())
        QSKIP(ZooKeeperServer::NotInstalled);
    QCOMPARE(Session::problem(), QString());
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_ZooKeeperSession::operations()
{
    Session session(options());
    QCOMPARE(session.state(), Session::Closed);
    session.open();
    QCOMPARE(session.state(), Session::Connecting);
    EVENTUALLY_COMPARE(session.state(), Session::Connected);
    QVERIFY(session.id() != 0);
    QCOMPARE(session.timeout(), 2s);

    QVERIFY(wait([&](auto done) { session.create("/operations", {}, Session::Container, done); }).isOk());
    QVERIFY(wait([&](auto done) { session.create("/operations", {}, Session::Container, done); }).existsAlready());
    const Result first = wait(
            [&](auto done) { session.create("/operations/a-", "one", Session::EphemeralSequential, done); });
    QVERIFY2(first.isOk(), qPrintable(first.errorString()));
    QCOMPARE(first.path, "/operations/a-0000000000");
    QCOMPARE(first.stat.owner, session.id());
    const Result second = wait(
            [&](auto done) { session.create("/operations/a-", "two", Session::EphemeralSequential, done); });
    QVERIFY(second.stat.created > first.stat.created);
    Result list = wait([&](auto done) { session.children("/operations", done); });
    std::sort(list.children.begin(), list.children.end());
    QCOMPARE(list.children, (QList<QByteArray>{"a-0000000000", "a-0000000001"}));
    QCOMPARE(wait([&](auto done) { session.read(second.path, nullptr, done); }).data, "two");
    QVERIFY(wait([&](auto done) { session.write(first.path, "three", 0, second.path, done); }).isOk());
    QVERIFY(wait([&](auto done) { session.write(first.path, "four", 0, second.path, done); }).isOutdated());
    QVERIFY(wait([&](auto done) { session.write(first.path, "four", 1, "/operations/b", done); }).isMissing());
    QVERIFY(wait([&](auto done) { session.write("/operations/b", "four", -1, first.path, done); }).isMissing());
    const Result written = wait([&](auto done) { session.read(first.path, nullptr, done); });
    QCOMPARE(written.data, "three");
    QCOMPARE(written.stat.version, 1);
    QVERIFY(wait([&](auto done) { session.write("/operations", "data", -1, first.path, done); }).isOk());
    list = wait([&](auto done) { session.children("/operations", done); });
    QCOMPARE(list.stat.version, 1);
    QCOMPARE(list.stat.dataSize, 4);
    QVERIFY(wait([&](auto done) { session.write("/operations", {}, 1, first.path, done); }).isOk());
    QCOMPARE(wait([&](auto done) { session.children("/operations", done); }).stat.dataSize, 0);
    QVERIFY(wait([&](auto done) { session.remove(first.path, done); }).isOk());
    QVERIFY(wait([&](auto done) { session.remove(first.path, done); }).isMissing());
    QVERIFY(wait([&](auto done) { session.read(first.path, nullptr, done); }).isMissing());
    QVERIFY(wait([&](auto done) { session.sync("/", done); }).isOk());
}

void tst_ZooKeeperSession::watch()
{
    Session session(options());
    Session other(options());
    session.open();
    other.open();
    const Result node = wait([&](auto done) { other.create("/watch-", {}, Session::EphemeralSequential, done); });
    QVERIFY(node.isOk());
    QList<bool> fired;
    const auto watch = [&](bool isDeleted) { fired.append(isDeleted); };
    QVERIFY(wait([&](auto done) { session.read(node.path, watch, done); }).isOk());
    QVERIFY(wait([&](auto done) { session.read("/none", watch, done); }).isMissing());
    QVERIFY(wait([&](auto done) { other.write(node.path, "x", -1, node.path, done); }).isOk());
    EVENTUALLY_COMPARE(fired, QList<bool>{false});
    QVERIFY(wait([&](auto done) { session.read(node.path, watch, done); }).isOk());
    QVERIFY(wait([&](auto done) { other.remove(node.path, done); }).isOk());
    EVENTUALLY_COMPARE(fired, (QList<bool>{false, true}));
}

void tst_ZooKeeperSession::connectsAgain()
{
    Session session(options());
    session.open();
    const Result node = wait([&](auto done) { session.create("/again-", {}, Session::EphemeralSequential, done); });
    const qint64 id = session.id();
    int fired = 0;
    const auto watch = [&](bool) { ++fired; };
    QVERIFY(wait([&](auto done) { session.read(node.path, watch, done); }).isOk());
    m_server.kill();
    EVENTUALLY_COMPARE(session.state(), Session::Connecting);
    QVERIFY(!session.errorString().isEmpty());
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    EVENTUALLY_COMPARE(session.state(), Session::Connected);
    QCOMPARE(session.id(), id); // a server that starts gives each session its full time
    QCOMPARE(fired, 0);
    QVERIFY(wait([&](auto done) { session.remove(node.path, done); }).isOk());
    EVENTUALLY_COMPARE(fired, 1);
}

void tst_ZooKeeperSession::expires()
{
    FaultProxy proxy(m_server.port());
    Session::Options viaProxy = options();
    viaProxy.servers = {{u"127.0.0.1"_s, proxy.port()}};
    viaProxy.timeout = 300ms;
    Session session(viaProxy);
    session.open();
    const Result node = wait([&](auto done) { session.create("/expires-", {}, Session::EphemeralSequential, done); });
    Session other(options());
    other.open();
    proxy.setBlackHole(true);
    EVENTUALLY_VERIFY(wait([&](auto done) { other.read(node.path, nullptr, done); }).isMissing());
    QVERIFY(session.state() != Session::Expired); // it cannot know
    proxy.setBlackHole(false);
    EVENTUALLY_COMPARE(session.state(), Session::Expired);
    QVERIFY2(session.errorString().contains(u"300 ms"_s), qPrintable(session.errorString()));
    QCoreApplication::processEvents(); // what was posted before
    EventCounter events;
    session.installEventFilter(&events);
    for (int turn = 0; turn < 20; ++turn)
        QCoreApplication::processEvents();
    QCOMPARE(events.count, 0); // nothing is due
    // Whoever asks before it is opened again gets an answer all the same.
    std::optional<Result> late;
    session.children("/", [&](const Result &result) { late = result; });
    session.open();
    EVENTUALLY_COMPARE(session.state(), Session::Connected);
    QVERIFY(late && !late->isAnswered());
}

void tst_ZooKeeperSession::nobodyListens()
{
    Session::Options options;
    options.servers = {{u"127.0.0.1"_s, 1}, {u"no-such-host.invalid"_s, 1}};
    Session session(options);
    session.open();
    const Result result = wait([&](auto done) { session.children("/", done); });
    QVERIFY(!result.isOk());
    QVERIFY(!result.errorString().isEmpty());
    QCOMPARE(session.state(), Session::Connecting);
}

// The client tries them in any order.
void tst_ZooKeeperSession::someServersAreAway()
{
    Session::Options some;
    for (int i = 0; i < 4; ++i)
        some.servers.append({u"127.0.0.1"_s, 1});
    const Session::Options none = some;
    some.servers.append({u"127.0.0.1"_s, m_server.port()});
    for (int i = 0; i < 5; ++i) {
        Session session(some);
        QSignalSpy failed(&session, &Session::failed);
        session.open();
        EVENTUALLY_COMPARE(session.state(), Session::Connected);
        QCOMPARE(failed.size(), 0);
    }
    Session session(none);
    QSignalSpy failed(&session, &Session::failed);
    session.open();
    EVENTUALLY_VERIFY(!failed.isEmpty());
    QVERIFY(!session.errorString().isEmpty());
}

void tst_ZooKeeperSession::namesAreLookedUpElsewhere()
{
    namesLookedUp = 0;
    namesLookedUpHere = 0;
    Session::Options named = options();
    named.servers = {{u"LocalHost"_s, m_server.port()}}; // whose addresses Qt does not know yet
    Session session(named);
    session.open();
    EVENTUALLY_COMPARE(session.state(), Session::Connected);
    m_server.kill();
    EVENTUALLY_COMPARE(session.state(), Session::Connecting);
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    EVENTUALLY_COMPARE(session.state(), Session::Connected);
    session.close();
    QVERIFY(namesLookedUp > 0);
    QCOMPARE(namesLookedUpHere.load(), 0);
}

void tst_ZooKeeperSession::loopStaysFree()
{
    QFETCH(QString, trouble);
    Session::Options troubled = options();
    if (trouble == u"nobody listens")
        troubled.servers = {{u"127.0.0.1"_s, 1}};
    else if (trouble == u"name that does not resolve")
        troubled.servers = {{u"no-such-host.invalid"_s, 1}};
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [&](EventLoopProbe &probe) {
                Session session(troubled);
                session.open();
                if (trouble == u"none" || trouble == u"frozen")
                    EVENTUALLY_COMPARE(session.state(), Session::Connected);
                else
                    EventLoopProbe::waitFor([] { return false; }, 50ms);
                if (trouble == u"frozen") {
                    probe.without([&] {
                        m_server.pause();
                        for (int i = 0; i < 50; ++i) // more than the kernel takes
                            session.write("/none", QByteArray(500'000, 'x'), -1, "/none", nullptr);
                    });
                }
                session.close();
                EventLoopProbe::waitFor([] { return false; }, 20ms);
                if (trouble == u"frozen")
                    probe.without([&] { m_server.resume(); });
            },
            TurnLimit);
    QVERIFY2(longest < TurnLimit, qPrintable(u"%1 ns"_s.arg(longest.count())));
}

void tst_ZooKeeperSession::wrongLogin()
{
    Session session(options());
    session.open("user", "secret");
    const Result node = wait([&](auto done) { session.create("/login-", "x", Session::EphemeralSequential, done); });
    QVERIFY2(node.isOk(), qPrintable(node.errorString()));
    Session other(options());
    other.open("user", "wrong");
    QVERIFY(wait([&](auto done) { other.read(node.path, nullptr, done); }).isRefused());
    QCOMPARE(wait([&](auto done) { session.read(node.path, nullptr, done); }).data, "x");
}

void tst_ZooKeeperSession::closedDeletesNodes()
{
    Session other(options());
    other.open();
    QByteArray path;
    {
        Session session(options());
        session.open();
        path = wait([&](auto done) { session.create("/closed-", {}, Session::EphemeralSequential, done); }).path;
        QVERIFY(wait([&](auto done) { other.read(path, nullptr, done); }).isOk());
    }
    EVENTUALLY_VERIFY(wait([&](auto done) { other.read(path, nullptr, done); }).isMissing());
}

void tst_ZooKeeperSession::destroyedInACompletion()
{
    auto session = std::make_unique<Session>(options());
    session->open();
    int called = 0;
    session->children("/", [&](const Result &) {
        ++called;
        session.reset();
    });
    session->children("/", [&](const Result &) { ++called; });
    EVENTUALLY_VERIFY(!session);
    QCoreApplication::processEvents();
    QCOMPARE(called, 1);
}

// A write that changes nothing proves as much as any other.
void tst_ZooKeeperSession::refusedWriteNeedsAMajority()
{
    QFETCH(bool, isDeletion);
    Support::Started<ZooKeeperServer> ensemble(3);
    const int leader = ensemble.leader();
    QVERIFY(leader >= 0);
    Session::Options atLeader = options();
    atLeader.servers = {{u"127.0.0.1"_s, ensemble.port(leader)}};
    Session session(atLeader);
    session.open();
    const auto refused = [&](auto done) {
        return isDeletion ? session.remove("/none", done) : session.write("/", "x", 77, "/", done);
    };
    const Result together = wait(refused);
    QVERIFY(isDeletion ? together.isMissing() : together.isOutdated());
    QVERIFY(together.isAnswered());
    for (int i = 0; i < ensemble.size(); ++i) {
        if (i != leader)
            ensemble.pause(i);
    }
    const Result alone = wait(refused);
    QVERIFY2(alone.isUnknown(), qPrintable(alone.errorString())); // the leader has given up, and closed the connection
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ZooKeeperSession)
#include "tst_zookeepersession.moc"
