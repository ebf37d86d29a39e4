// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "redis/topology/sentinelwatch.h"

#include "support/fakesentinel.h"
#include "support/faultproxy.h"
#include "support/redisserver.h"
#include "support/redistesting.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qurlquery.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <array>
#include <memory>

using namespace Qt::StringLiterals;

using namespace QtRedis;
using namespace RedisTesting;
using namespace std::chrono_literals;
using Support::FakeSentinel;
using Support::FakeServer;
using Support::FaultProxy;

namespace {

/// Masters, which the watch does not connect to.
constexpr quint16 A = 1001, B = 1002, C = 1003;

ServerUrl urlOf(const QList<quint16> &ports, const QString &service = u"mymaster"_s)
{
    QUrl url(u"redis+sentinel://127.0.0.1:%1/%2"_s.arg(QString::number(ports.first()), service));
    QUrlQuery query;
    for (const quint16 port : ports.mid(1))
        query.addQueryItem(u"node"_s, u"127.0.0.1:%1"_s.arg(port));
    url.setQuery(query);
    return serverUrl(url);
}

FakeSentinel::View view(quint16 port, qint64 epoch)
{
    FakeSentinel::View view;
    view.port = port;
    view.epoch = epoch;
    return view;
}

/// Three Sentinels and a watch that asks them.
struct Fixture
{
    Fixture(const FakeSentinel::View &a, const FakeSentinel::View &b, const FakeSentinel::View &c)
        : sentinels{std::make_unique<FakeSentinel>(a), std::make_unique<FakeSentinel>(b),
                    std::make_unique<FakeSentinel>(c)}
        , watch(urlOf({sentinels[0]->port(), sentinels[1]->port(), sentinels[2]->port()}))
        , changes(&watch, &SentinelWatch::masterChanged)
        , failures(&watch, &SentinelWatch::failed)
    {
        watch.setNeeded([] { return true; });
        watch.open();
    }

    quint16 port() const { return watch.master() ? watch.master()->endpoint.port : 0; }
    bool waitForPort(quint16 expected)
    {
        return waitFor([&] { return port() == expected; });
    }
    /// Each Sentinel is listened to, and was asked since then.
    bool waitForListeners()
    {
        return waitFor([&] {
            return std::all_of(sentinels.begin(), sentinels.end(),
                               [](const auto &s) { return s->isListenedTo() && s->questions() >= 2; });
        });
    }
    bool waitForError(const QString &text)
    {
        return waitFor([&] { return !failures.isEmpty() && watch.errorString().contains(text); });
    }
    QString confirm()
    {
        QString problem = u"no verdict"_s;
        bool ended = false;
        watch.confirm([&](const QString &text) {
            problem = text;
            ended = true;
        });
        if (ended)
            return u"inside the call"_s;
        waitFor([&] { return ended; });
        return problem;
    }

    // On a busy machine a Sentinel may not answer in time: the watch is asked again.
    bool isConfirmed()
    {
        return waitFor([this] { return confirm().isEmpty(); });
    }
    bool isRefused(const QString &start)
    {
        return waitFor([&] { return confirm().startsWith(start); });
    }

    std::array<std::unique_ptr<FakeSentinel>, 3> sentinels;
    SentinelWatch watch;
    QSignalSpy changes, failures;
};

} // namespace

class tst_SentinelWatch : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void findsTheMaster();
    TIMING void findsTheMasterAtOnce();
    void majorityWins();
    void namedByNameAndByAddress();
    void smallerEpochNeedsAMajority();
    void staleSentinelAlone();
    void minorityReplacesAMasterThatCannotBeUsed();
    TIMING void oneSentinelAfterHalfASecond();
    void listedSentinelsAreAsked();
    void listedSentinelsStandIn();
    void sentinelsThatOnlyOneLists();
    void sentinelUnderTwoNamesHasOneVote();
    void disagreement();
    TIMING void disagreementIsNoBusyLoop();
    void switchIsFollowed();
    void flood();
    void answersFromBeforeTheSwitch();
    void backToAFormerMaster();
    void otherServicesChangeNothing();
    void restartedSentinelWithAnotherId();
    void oldNewsChangesNothing();
    void leaderOfAFailOver();
    void answerWithAGreaterEpoch();
    void slowLink();
    void confirms();
    void confirmsAfterTheCall();
    void silentSentinels();
    TIMING void masterChangesMeanwhile();
    void problems_data();
    void problems();
    void passwords_data();
    void passwords();
    void backAfterAnOutage();
};

void tst_SentinelWatch::findsTheMaster()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.changes.isEmpty()); // never inside the call
    QVERIFY(f.waitForPort(A));
    QCOMPARE(f.watch.master()->endpoint.host, u"127.0.0.1"_s);
    QCOMPARE(f.watch.master()->epoch, 1);
    QCOMPARE(f.watch.master()->downAfter, 1s);
    QVERIFY(f.isConfirmed());
    QVERIFY(f.waitForListeners());
    QCOMPARE(f.changes.size(), 1);
}

/// The majority suffices, and nobody hears of a failure on the way.
void tst_SentinelWatch::findsTheMasterAtOnce()
{
    Support::leavesRoomFor(300ms);
    auto silent = view(A, 1);
    silent.isSilent = true;
    QElapsedTimer timer;
    timer.start();
    Fixture f(view(A, 1), view(A, 1), silent);
    QVERIFY(f.waitForPort(A));
    QVERIFY2(timer.elapsed() < 400, qPrintable(QString::number(timer.elapsed())));
    QVERIFY(f.failures.isEmpty());
}
void tst_SentinelWatch::majorityWins()
{
    Fixture f(view(A, 1), view(B, 2), view(A, 1));
    QVERIFY(f.waitForPort(A));
    f.sentinels[0]->setView(view(B, 2));
    QVERIFY(waitFor([&] { return f.confirm().isEmpty() && f.port() == B; }));
}
/// A stale Sentinel does not lead back; but those that were set up again begin with epoch 0.
/// announce-hostnames is on at some of them.
void tst_SentinelWatch::namedByNameAndByAddress()
{
    FakeSentinel::View byName = view(A, 1);
    byName.host = "localhost";
    FakeSentinel::View silent = view(A, 1);
    silent.isSilent = true;
    Fixture fixture(byName, view(A, 1), silent);
    QVERIFY2(fixture.waitForPort(A), qPrintable(fixture.watch.errorString()));
    QVERIFY(fixture.isConfirmed());
    // Another address is another server.
    fixture.changes.clear();
    byName.host = "127.0.0.9";
    fixture.sentinels[0]->setView(byName);
    QVERIFY(fixture.isRefused(u"1 of 3 Sentinels are silent and 1 name another master"_s));
    QCOMPARE(fixture.changes.size(), 0);
}

void tst_SentinelWatch::smallerEpochNeedsAMajority()
{
    Fixture f(view(B, 2), view(B, 2), view(B, 2));
    QVERIFY(f.waitForPort(B));
    QVERIFY(f.waitForListeners());
    f.sentinels[0]->setView(view(A, 0));
    f.sentinels[0]->reportSwitch(B, A);
    f.watch.askAgain(); // the present one cannot be used
    QVERIFY(f.isConfirmed());
    QCOMPARE(f.port(), B);
    QCOMPARE(f.changes.size(), 1);
    f.sentinels[1]->setView(view(A, 0));
    QVERIFY(waitFor([&] { return f.confirm().isEmpty() && f.port() == A; }));
    QCOMPARE(f.watch.master()->epoch, 0);
}

/// The others do not run: a stale Sentinel is better than none at the start, until the others answer.
void tst_SentinelWatch::staleSentinelAlone()
{
    auto silent = view(B, 2);
    silent.isSilent = true;
    Fixture f(view(A, 1), silent, silent);
    QVERIFY(f.waitForPort(A));
    QVERIFY(!f.confirm().isEmpty());
    f.sentinels[1]->setView(view(B, 2));
    f.sentinels[2]->setView(view(B, 2));
    QVERIFY(f.waitForPort(B)); // their connections are made again
}

/// While the master works, a minority does not replace it. One that cannot be used is better replaced by the one that
/// all name who answer, unless that one is older.
void tst_SentinelWatch::minorityReplacesAMasterThatCannotBeUsed()
{
    Fixture f(view(B, 2), view(B, 2), view(B, 2));
    QVERIFY(f.waitForPort(B));
    QVERIFY(f.waitForListeners());
    auto silent = view(B, 2);
    silent.isSilent = true;
    f.sentinels[1]->setView(silent);
    f.sentinels[2]->setView(silent);
    QVERIFY(f.isRefused(u"2 of 3 Sentinels are silent"_s));
    const auto isAskedAgain = [&] {
        const int before = f.sentinels[0]->questions();
        return waitFor([&] { return f.sentinels[0]->questions() > before + 1; });
    };
    f.sentinels[0]->setView(view(A, 1));
    f.watch.askAgain();
    QVERIFY(isAskedAgain()); // after a round without a result
    QCOMPARE(f.port(), B);
    f.sentinels[0]->setView(view(C, 3)); // the master works
    f.sentinels[0]->reportSwitch(B, C);
    QVERIFY(isAskedAgain());
    QCOMPARE(f.port(), B);
    QVERIFY(waitFor([&] {
        f.watch.askAgain();
        return f.port() == C;
    }));
    QVERIFY(!f.confirm().isEmpty());
}

void tst_SentinelWatch::oneSentinelAfterHalfASecond()
{
    auto silent = view(A, 1);
    silent.isSilent = true;
    QElapsedTimer timer;
    timer.start();
    Fixture f(view(A, 1), silent, silent);
    QVERIFY(f.waitForPort(A));
    QVERIFY2(timer.elapsed() >= 400, qPrintable(QString::number(timer.elapsed())));
}
void tst_SentinelWatch::listedSentinelsAreAsked()
{
    FakeSentinel second(view(A, 1)), third(view(A, 1));
    auto first = view(A, 1);
    first.listed = {&second, &third};
    FakeSentinel configured(first);
    SentinelWatch watch(urlOf({configured.port()}));
    watch.open();
    QVERIFY(waitFor([&] { return watch.master().has_value(); }));
    QVERIFY(waitFor([&] { return second.questions() > 0 && third.questions() > 0; }));
}

/// They do not outvote the one of the URL, but stand in for it while it is silent.
void tst_SentinelWatch::listedSentinelsStandIn()
{
    FakeSentinel second(view(A, 1)), third(view(A, 1));
    auto first = view(A, 1);
    first.listed = {&second, &third};
    FakeSentinel configured(first);
    SentinelWatch watch(urlOf({configured.port()}));
    watch.setNeeded([] { return true; });
    watch.open();
    const auto problem = [&] {
        QString text = u"no verdict"_s;
        bool hasEnded = false;
        watch.confirm([&](const QString &verdict) {
            text = verdict;
            hasEnded = true;
        });
        waitFor([&] { return hasEnded; });
        return text;
    };
    QVERIFY(waitFor([&] { return watch.master() && problem().isEmpty(); }));
    second.setView(view(B, 2));
    third.setView(view(B, 2));
    second.reportSwitch(A, B);
    QVERIFY(waitFor([&] { return problem().contains(u"2 name another master"_s); }));
    QCOMPARE(watch.master()->endpoint.port, A);
    first.isSilent = true;
    configured.setView(first);
    QVERIFY(waitFor([&] { return problem().isEmpty() && watch.master()->endpoint.port == B; }));
}

void tst_SentinelWatch::sentinelsThatOnlyOneLists()
{
    FakeSentinel another(view(B, 5));
    auto first = view(A, 1);
    first.listed = {&another};
    Fixture f(first, view(A, 1), view(A, 1));
    QVERIFY(f.isConfirmed());
    QVERIFY(f.waitForListeners());
    QCOMPARE(another.questions(), 0);
    auto second = view(A, 1);
    second.listed = {&another};
    f.sentinels[1]->setView(second);
    f.watch.askAgain();
    QVERIFY(waitFor([&] { return another.questions() > 0; }));
    QVERIFY(f.isConfirmed());
    QCOMPARE(f.port(), A);
    f.sentinels[0]->setView(view(A, 1)); // they must not name the one that is destroyed before them
    f.sentinels[1]->setView(view(A, 1));
}

/// The URL has the name of a host, and Sentinels list addresses.
void tst_SentinelWatch::sentinelUnderTwoNamesHasOneVote()
{
    auto silent = view(A, 1);
    silent.isSilent = true;
    Fixture f(view(A, 1), silent, silent);
    auto first = view(A, 1);
    first.listed = {f.sentinels[1].get(), f.sentinels[2].get()};
    f.sentinels[0]->setView(first);
    ServerUrl url = urlOf({f.sentinels[0]->port()});
    url.sentinels.append({u"localhost"_s, f.sentinels[0]->port()}); // the first one again
    SentinelWatch watch(url);
    watch.open();
    QVERIFY(waitFor([&] { return watch.master().has_value(); }));
    QString problem;
    watch.confirm([&](const QString &text) { problem = text; });
    QVERIFY(waitFor([&] { return !problem.isEmpty(); }));
    f.sentinels[0]->setView(view(A, 1)); // it must not name those that are destroyed before it
    QVERIFY2(problem.contains(u"of 3 Sentinels are silent"_s), qPrintable(problem));
}

void tst_SentinelWatch::disagreement()
{
    Fixture f(view(A, 1), view(B, 1), view(C, 1));
    QVERIFY(f.waitForError(u"disagree"_s));
    QVERIFY(!isPermanent(f.watch.failure()));
    QVERIFY(!f.watch.master());
    f.sentinels[1]->setView(view(A, 1));
    QVERIFY(f.waitForPort(A));
}

void tst_SentinelWatch::disagreementIsNoBusyLoop()
{
    Fixture f(view(A, 1), view(B, 1), view(C, 1));
    QVERIFY(f.waitForError(u"disagree"_s));
    const int before = f.sentinels[0]->questions();
    f.failures.clear();
    QVERIFY(!waitFor([&] { return f.failures.size() > 20; }, 500ms));
    QVERIFY(f.sentinels[0]->questions() - before < 30);
}
void tst_SentinelWatch::switchIsFollowed()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.waitForListeners());
    const int asked = f.sentinels[0]->questions();
    f.sentinels[1]->setView(view(B, 2)); // the others do not know it yet
    f.sentinels[1]->reportSwitch(A, B);
    QVERIFY(waitFor([&] { return f.sentinels[0]->questions() > asked; })); // all are asked
    QVERIFY(f.isConfirmed());
    QCOMPARE(f.port(), A); // a single Sentinel is not believed
    f.sentinels[2]->setView(view(B, 2));
    f.sentinels[2]->reportSwitch(A, B);
    QVERIFY(f.waitForPort(B));
    QCOMPARE(f.watch.master()->epoch, 2);
    QCOMPARE(f.changes.size(), 2);
    QVERIFY(f.isConfirmed());
    const int before = f.sentinels[0]->questions();
    f.sentinels[0]->reportSwitch(A, B); // the same news, after which all are asked
    QVERIFY(waitFor([&] { return f.sentinels[0]->questions() > before; }));
    QVERIFY(f.isConfirmed());
    QCOMPARE(f.port(), B);
    QCOMPARE(f.changes.size(), 2);
}

/// One Sentinel cannot make a client ask the others without end, nor keep it from following a real fail-over.
void tst_SentinelWatch::flood()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.waitForListeners());
    auto slow = view(A, 1);
    slow.isSlow = true;
    f.sentinels[1]->setView(slow);
    const auto flood = [&] {
        const int before = f.sentinels[2]->questions();
        for (int i = 0; i < 1000; ++i)
            f.sentinels[0]->reportSwitch(A, C);
        return waitFor([&] { return f.sentinels[2]->questions() > before + 1; });
    };
    QVERIFY(flood());
    QVERIFY2(f.sentinels[1]->keptAnswers() <= 3, QByteArray::number(f.sentinels[1]->keptAnswers()).constData());
    QCOMPARE(f.port(), A);
    f.sentinels[1]->setView(view(B, 2));
    f.sentinels[1]->answerKept(f.sentinels[1]->keptAnswers());
    f.sentinels[2]->setView(view(B, 2));
    f.sentinels[2]->reportSwitch(A, B);
    QVERIFY(flood());
    QVERIFY(f.waitForPort(B));
}

/// All Sentinels have named the former master, but their answers arrive after the news of another one.
void tst_SentinelWatch::answersFromBeforeTheSwitch()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.waitForListeners());
    auto slow = view(A, 1);
    slow.isSlow = true;
    for (const auto &sentinel : f.sentinels)
        sentinel->setView(slow);
    f.watch.askAgain();
    QVERIFY(waitFor([&] {
        return std::all_of(f.sentinels.begin(), f.sentinels.end(),
                           [](const auto &sentinel) { return sentinel->keptAnswers() >= 3; });
    }));
    for (const auto &sentinel : f.sentinels)
        sentinel->setView(view(B, 2));
    f.sentinels[1]->reportSwitch(A, B);
    for (const auto &sentinel : f.sentinels)
        sentinel->answerKept(sentinel->keptAnswers());
    QVERIFY(f.waitForPort(B)); // they are asked again
}

/// A, B and A again, each with a greater epoch, are three masters.
void tst_SentinelWatch::backToAFormerMaster()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.waitForListeners());
    QList<quint16> masters{A};
    QObject::connect(&f.watch, &SentinelWatch::masterChanged, &f.watch, [&] {
        if (f.watch.master())
            masters.append(f.port());
    });
    for (const qint64 epoch : {2, 3}) {
        const quint16 from = epoch == 2 ? A : B;
        const quint16 to = epoch == 2 ? B : A;
        for (const auto &sentinel : f.sentinels)
            sentinel->setView(view(to, epoch));
        f.sentinels[1]->reportSwitch(from, to);
        QVERIFY(f.waitForPort(to));
        QCOMPARE(f.watch.master()->epoch, epoch);
        QVERIFY(f.isConfirmed());
    }
    QCOMPARE(masters, (QList<quint16>{A, B, A}));
}

void tst_SentinelWatch::otherServicesChangeNothing()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.waitForListeners());
    auto other = view(B, 2);
    for (const char *const service : {"another", "mymaster2", "MYMASTER"}) {
        other.service = service;
        f.sentinels[1]->setView(other);
        f.sentinels[1]->reportSwitch(A, B);
        f.sentinels[1]->setView(view(A, 1));
    }
    const int before = f.sentinels[0]->questions();
    f.sentinels[1]->reportSwitch(B, A); // old news of this service, after which all are asked
    QVERIFY(waitFor([&] { return f.sentinels[0]->questions() > before; }));
    QCOMPARE(f.port(), A);
    QCOMPARE(f.changes.size(), 1);
}

/// At the same address: its former id has no vote any more.
void tst_SentinelWatch::restartedSentinelWithAnotherId()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.isConfirmed());
    const QByteArray before = f.sentinels[0]->id();
    f.sentinels[0]->setId("restarted");
    QVERIFY(f.sentinels[0]->id() != before);
    f.sentinels[0]->server().closeAll();
    QVERIFY(f.isConfirmed());
    auto silent = view(A, 1);
    silent.isSilent = true;
    f.sentinels[1]->setView(silent);
    f.sentinels[2]->setView(silent);
    QVERIFY(f.isRefused(u"2 of 3 Sentinels are silent"_s));
}

void tst_SentinelWatch::oldNewsChangesNothing()
{
    Fixture f(view(B, 2), view(B, 2), view(B, 2));
    QVERIFY(f.waitForPort(B));
    QVERIFY(f.waitForListeners());
    const int before = f.sentinels[0]->questions();
    f.sentinels[0]->reportSwitch(A, B);
    f.sentinels[0]->reportSwitch(A, C);
    QVERIFY(waitFor([&] { return f.sentinels[0]->questions() > before + 1; }));
    QVERIFY(f.isConfirmed());
    QCOMPARE(f.changes.size(), 1);
}

/// It has the new epoch already, but SENTINEL MASTER still shows the old address.
void tst_SentinelWatch::leaderOfAFailOver()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.waitForListeners());
    auto leader = view(A, 2);
    leader.flags = "master,o_down,failover_in_progress";
    leader.promoted = B;
    f.sentinels[0]->setView(leader);
    f.sentinels[1]->setView(view(B, 2)); // a Sentinel sees the new master before it reports the switch
    f.sentinels[1]->reportSwitch(A, B);
    QVERIFY(f.waitForPort(B));
    QCOMPARE(f.watch.master()->epoch, 2);
    QCOMPARE(f.changes.size(), 2);
}
void tst_SentinelWatch::answerWithAGreaterEpoch()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    f.sentinels[2]->setView(view(B, 5));
    QVERIFY(f.isConfirmed()); // by the other two
    QCOMPARE(f.port(), A);
    f.sentinels[1]->setView(view(B, 5));
    f.confirm();
    QVERIFY(f.waitForPort(B));
    QVERIFY(f.isConfirmed());
}

/// Connecting takes longer than an answer may take, as with TLS over a long way.
void tst_SentinelWatch::slowLink()
{
    const FakeSentinel sentinel(view(A, 1));
    FaultProxy link(sentinel.port());
    link.setLatency(0us, 700ms);
    SentinelWatch watch(urlOf({link.port()}));
    watch.setNeeded([] { return true; });
    watch.open();
    QVERIFY(waitFor([&] { return link.commandsForwarded("SENTINEL") > 0; })); // the handshake has ended
    link.setLatency(0us, 0us);
    QVERIFY(waitFor([&] { return watch.master() && watch.master()->endpoint.port == A; }));
}

void tst_SentinelWatch::confirms()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.isConfirmed());
    f.sentinels[0]->setView(view(B, 1)); // the same epoch
    QVERIFY(f.isConfirmed());            // by the other two
    f.sentinels[1]->setView(view(A, 0));
    QVERIFY(f.isRefused(u"0 of 3 Sentinels are silent and 2 name another master"_s));
}

void tst_SentinelWatch::confirmsAfterTheCall()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    QVERIFY(f.waitForListeners());
    const int before = f.sentinels[0]->questions() + f.sentinels[1]->questions() + f.sentinels[2]->questions();
    QVERIFY(f.isConfirmed());
    QVERIFY(f.sentinels[0]->questions() + f.sentinels[1]->questions() + f.sentinels[2]->questions() >= before + 2);
}

void tst_SentinelWatch::silentSentinels()
{
    Fixture f(view(A, 1), view(A, 1), view(A, 1));
    QVERIFY(f.waitForPort(A));
    auto silent = view(A, 1);
    silent.isSilent = true;
    f.sentinels[0]->setView(silent);
    QVERIFY(f.isConfirmed());
    f.sentinels[1]->setView(silent);
    QVERIFY(f.isRefused(u"2 of 3 Sentinels are silent"_s));
    f.sentinels[2] = nullptr;
    QVERIFY(f.isRefused(u"3 of 3 Sentinels are silent"_s));
    QCOMPARE(f.port(), A);
    f.sentinels[0]->setView(view(A, 1));
    f.sentinels[1]->setView(view(A, 1));
    QVERIFY(f.isConfirmed());
}

/// The verdict does not wait for the silent ones, which takes 500 ms. A busy machine may take that long now and then.
void tst_SentinelWatch::masterChangesMeanwhile()
{
    Support::leavesRoomFor(300ms);
    qint64 shortest = 500;
    for (int attempt = 0; attempt < 10 && shortest >= 400; ++attempt) {
        auto silent = view(A, 1);
        silent.isSilent = true;
        Fixture f(view(A, 1), view(A, 1), silent);
        QVERIFY(f.waitForPort(A));
        f.sentinels[0]->setView(view(B, 2));
        f.sentinels[1]->setView(view(B, 2));
        QElapsedTimer timer;
        timer.start();
        QVERIFY(!f.confirm().isEmpty());
        shortest = std::min(shortest, timer.elapsed());
        QVERIFY(f.waitForPort(B));
    }
    QVERIFY2(shortest < 400, qPrintable(QString::number(shortest)));
}

void tst_SentinelWatch::problems_data()
{
    QTest::addColumn<QByteArray>("error"); // of all Sentinels
    Support::addColumns<QString, bool>("text", "permanent");
    QTest::newRow("unknown service") << QByteArray("-ERR No such master with that name\r\n")
                                     << u"knows no service \"mymaster\"; check the name"_s << true;
    QTest::newRow("no Sentinel") << QByteArray("-ERR unknown command 'SENTINEL', with args beginning with: \r\n")
                                 << u"is a Redis server and no Sentinel; give the addresses of the Sentinels"_s << true;
    QTest::newRow("ACL") << QByteArray("-NOPERM this user has no permissions to run the 'sentinel' command\r\n")
                         << u"forbids to ask for the master"_s << true;
    QTest::newRow("LOADING") << QByteArray("-LOADING x\r\n") << u"answered with \"LOADING x\""_s << false;
    QTest::newRow("malformed") << QByteArray("*2\r\n+a\r\n+b\r\n") << u"unexpected reply to SENTINEL MASTER"_s << false;
}

void tst_SentinelWatch::problems()
{
    QFETCH(QByteArray, error);
    QFETCH(QString, text);
    QFETCH(bool, permanent);
    FakeSentinel::View wrong = view(A, 1);
    wrong.error = error;
    Fixture f(wrong, wrong, wrong);
    // On a busy machine, some may have been silent first.
    QVERIFY2(waitFor([&] {
                 return f.watch.errorString().contains(text) && isPermanent(f.watch.failure()) == permanent;
             }),
             qPrintable(f.watch.errorString()));
    QVERIFY(!f.failures.isEmpty());
    // The others may be right.
    f.sentinels[1]->setView(view(A, 1));
    QVERIFY(f.waitForPort(A));
    QCOMPARE(f.watch.errorString(), QString());
}

void tst_SentinelWatch::passwords_data()
{
    Support::addColumns<QByteArray, QByteArray>("required", "given");
    QTest::addColumn<QString>("text"); // empty = accepted
    QTest::newRow("none given") << QByteArray("c4n4ry") << QByteArray()
                                << u"asks for a password; give it in QDISTLOCK_SENTINEL_PASSWORD"_s;
    QTest::newRow("wrong") << QByteArray("right") << QByteArray("c4n4ry") << u"check QDISTLOCK_SENTINEL_PASSWORD"_s;
    QTest::newRow("none needed") << QByteArray() << QByteArray("c4n4ry")
                                 << u"this Sentinel has none set; unset QDISTLOCK_SENTINEL_PASSWORD"_s;
    QTest::newRow("right") << QByteArray("c4n4ry") << QByteArray("c4n4ry") << QString();
}

/// A real server checks the login; it need not be a Sentinel for that.
void tst_SentinelWatch::passwords()
{
    QFETCH(QByteArray, required);
    QFETCH(QByteArray, given);
    QFETCH(QString, text);
    auto options = Support::RedisServer::Options::withTcp();
    options.password = required;
    Support::Started<Support::RedisServer> server(options);
    ServerUrl url = urlOf({server.port()});
    url.password = u"of the master"_s;
    url.sentinelPassword = QString::fromLatin1(given);
    SentinelWatch watch(url);
    QSignalSpy failures(&watch, &SentinelWatch::failed);
    // On a busy machine, it may have been silent first.
    QVERIFY2(waitFor([&] {
                 watch.open();
                 return !failures.isEmpty() && watch.errorString().contains(text.isEmpty() ? u"no Sentinel"_s : text);
             }),
             qPrintable(watch.errorString()));
    const QString error = watch.errorString();
    QVERIFY2(!error.contains(u"c4n4ry"_s), qPrintable(error));
    QVERIFY(isPermanent(watch.failure()));
}

void tst_SentinelWatch::backAfterAnOutage()
{
    FakeServer other;
    SentinelWatch watch(urlOf({other.port()}));
    watch.setNeeded([] { return true; });
    QSignalSpy failures(&watch, &SentinelWatch::failed);
    other.setHandler([](const QList<QByteArray> &, int) { return FakeServer::Answer{{}, {}, true}; });
    watch.open();
    QVERIFY(failures.wait(60'000));
    QVERIFY2(watch.errorString().contains(u"none of its 1 Sentinels can be asked"_s), qPrintable(watch.errorString()));
    QVERIFY(!isPermanent(watch.failure()));
    const QByteArray master = "*6\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$4\r\n1001\r\n"
                              "$12\r\nconfig-epoch\r\n$1\r\n1\r\n";
    other.setHandler([master](const QList<QByteArray> &arguments, int) {
        return FakeServer::Answer{arguments.value(1) == "MASTER" ? master : QByteArray("*0\r\n")};
    });
    QVERIFY(waitFor([&] { return watch.master().has_value(); }));
    QCOMPARE(watch.master()->endpoint.port, A);
    QCOMPARE(watch.errorString(), QString());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_SentinelWatch)
#include "tst_sentinelwatch.moc"
