// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The permits of a semaphore, on each engine that has them, and the refusals of the others.

#include "engine/protocolconstants.h"
#include "engine/redis/rediskeys.h"
#include "enginefixture.h"
#include "support/clusterslot.h"
#include "support/eventloopprobe.h"
#include "support/rows.h"

#include <QtTest/qtest.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace EngineTesting;
using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Whether \a reply is an OptionsError that no further attempt can change, with \a text in it.
static bool isRefusal(const EngineReply &reply, const QString &text)
{
    const EngineError &error = reply.error;
    if (reply.status == EngineReply::Failed && error.code == DistributedLock::OptionsError && error.isPermanent
        && error.text.contains(text))
        return true;
    qWarning().noquote() << int(reply.status) << error.text;
    return false;
}

class tst_Permits : public QObject, private EngineFixture
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase_data() { addEnginesThatShare(); }
    void initTestCase() { startServer(); }
    void init();
    void cleanup() { waitForDisconnection(); }

    void asManyAsThereAre();
    void severalAtOnce();
    void eachHasAFencingToken();
    void servedInTurn();
    void manyTakenAreNotOvertaken();
    void manyWaiters();
    void expiresAlone();
    void deadHoldersCostALease();
    void expiredOneIsNotRenewed();
    void renewalOfSeveral();
    void resent();
    void exclusiveHolderExcludesThem();
    void exclusiveWaiterHasItsTurn();
    void endOfTheLastLeaseIsSent_data();
    void endOfTheLastLeaseIsSent();
    void readersAreRefused();
    void anotherNumber();
    void numberOfTheServer();
    void numberIsRaised();
    void numberIsLowered();
    void numberOfPermitsIsNoLock();
    void abandoned();
    void abandonedWaiterLetsOthersIn();
    void minHold();
    void barging();
    void forceRelease();
    void batches();
    void slotMoves();

private:
    QByteArray newPermit(LockEngine &engine, int take = 1) { return Token::ofPermits(newToken(engine), take); }
    using Client = WaitingClient;
    Client waitingClient(int take, bool barge = false)
    {
        const auto makeToken = [this, take](LockEngine &engine) {
            return take == 0 ? newToken(engine) : newPermit(engine, take);
        };
        return EngineFixture::waitingClient(m_kind, m_id, makeToken, barge);
    }
    EngineError setPermits(LockEngine &engine, int permits, int *before = nullptr);

    const LockId m_id = lockId(u"a"_s);
    int m_kind = Redis;
};

void tst_Permits::init()
{
    QFETCH_GLOBAL(int, kind);
    m_kind = kind;
    m_permits = 3;
    prepare(m_kind);
}

EngineError tst_Permits::setPermits(LockEngine &engine, int permits, int *before)
{
    EngineError result;
    bool isDone = false;
    engine.setPermits(m_id, permits, [&](const EngineError &error, int number) {
        result = error;
        if (before)
            *before = number;
        isDone = true;
    });
    if (!Support::EventLoopProbe::waitFor([&] { return isDone; }))
        qFatal("no reply");
    return result;
}

void tst_Permits::asManyAsThereAre()
{
    const auto engine = makeEngine(m_kind);
    const auto other = makeEngine(m_kind);
    QList<QByteArray> tokens;
    for (int i = 0; i < 3; ++i) {
        tokens.append(newPermit(i < 2 ? *engine : *other));
        QCOMPARE(acquire(i < 2 ? *engine : *other, m_id, tokens.last()).status, EngineReply::Granted);
    }
    const QByteArray fourth = newPermit(*other);
    const EngineReply taken = acquire(*other, m_id, fourth);
    QCOMPARE(taken.status, EngineReply::Taken);
    QVERIFY(!taken.foreignHolder);
    QVERIFY(taken.holderTtl > 0ms);
    QVERIFY(taken.holderTtl <= 30s);

    const LockInfo info = inspect(*other, m_id);
    QVERIFY(info.held);
    QVERIFY(!info.foreign);
    QCOMPARE(info.readerCount, 0);
    QCOMPARE(info.permits, 3);
    QCOMPARE(info.permitsTaken, 3);
    QCOMPARE(info.holders.size(), 3);
    QCOMPARE(info.holder.id, info.holders.first().id);
    QCOMPARE(names(*other, u"*"_s), QStringList{u"a"_s});

    QCOMPARE(release(*engine, m_id, tokens.first()).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, tokens.first()).status, EngineReply::Gone);
    QCOMPARE(acquire(*other, m_id, fourth).status, EngineReply::Granted);
    for (const QByteArray &token : {tokens.at(1), tokens.at(2), fourth})
        QCOMPARE(release(*engine, m_id, token).status, EngineReply::Done);
    const LockInfo free = inspect(*other, m_id);
    QVERIFY(!free.held);
    QCOMPARE(free.permits, 3);
    QCOMPARE(free.permitsTaken, 0);
}

void tst_Permits::severalAtOnce()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray two = newPermit(*engine, 2), one = newPermit(*engine), other = newPermit(*engine, 2);
    QCOMPARE(acquire(*engine, m_id, two).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, other).status, EngineReply::Taken);
    QCOMPARE(acquire(*engine, m_id, one).status, EngineReply::Granted);
    LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.permitsTaken, 3);
    QCOMPARE(info.holders.size(), 2);
    QCOMPARE(renew(*engine, m_id, two).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, one).status, EngineReply::Done);
    QCOMPARE(acquire(*engine, m_id, other).status, EngineReply::Taken);
    QCOMPARE(release(*engine, m_id, two).status, EngineReply::Done);
    QVERIFY(!inspect(*engine, m_id).held);
    QCOMPARE(acquire(*engine, m_id, other).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 2);
}

void tst_Permits::eachHasAFencingToken()
{
    const auto engine = makeEngine(m_kind);
    qint64 last = 0;
    for (int i = 0; i < 6; ++i) {
        const QByteArray token = newPermit(*engine, 1 + i % 2);
        const EngineReply reply = acquire(*engine, m_id, token);
        QCOMPARE(reply.status, EngineReply::Granted);
        QVERIFY(reply.fencingToken > last);
        last = reply.fencingToken;
        if (i % 2)
            release(*engine, m_id, token);
        else
            expire(m_kind, *engine, m_id);
    }
    QVERIFY(acquire(*engine, m_id, newToken(*engine)).fencingToken > last);
}

void tst_Permits::servedInTurn()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray holder = newToken(*engine);
    const EngineReply held = acquire(*engine, m_id, holder);
    std::vector<Client> clients;
    for (const int take : {1, 2, 1, 0, 1}) {
        clients.push_back(waitingClient(take));
        QCOMPARE(clients.back().reply.queuePosition, int(clients.size()) - 1);
    }
    QCOMPARE(release(*engine, m_id, holder).status, EngineReply::Done);
    for (size_t i = 0; i < 2; ++i)
        EVENTUALLY_VERIFY(clients[i].isGranted());
    EVENTUALLY_COMPARE(clients[2].notices->list, QStringList{notice("next", clients[2].token)});
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    const EngineReply first = acquire(*clients[0].engine, m_id, clients[0].token);
    QVERIFY(first.fencingToken > held.fencingToken);
    QVERIFY(acquire(*clients[1].engine, m_id, clients[1].token).fencingToken > first.fencingToken);
    QVERIFY(!clients[2].isGranted());

    QCOMPARE(release(*clients[0].engine, m_id, clients[0].token).status, EngineReply::Done);
    EVENTUALLY_VERIFY(clients[2].isGranted());
    QCOMPARE(release(*clients[1].engine, m_id, clients[1].token).status, EngineReply::Done);
    QVERIFY(!clients[3].isGranted());
    QVERIFY(!clients[4].isGranted()); // it would fit, but came later
    QCOMPARE(release(*clients[2].engine, m_id, clients[2].token).status, EngineReply::Done);
    EVENTUALLY_VERIFY(clients[3].isGranted());
    QVERIFY(!clients[4].isGranted());
    QCOMPARE(release(*clients[3].engine, m_id, clients[3].token).status, EngineReply::Done);
    EVENTUALLY_VERIFY(clients[4].isGranted());
}

void tst_Permits::manyTakenAreNotOvertaken()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray first = newPermit(*engine), second = newPermit(*engine);
    acquire(*engine, m_id, first);
    acquire(*engine, m_id, second);
    const Client large = waitingClient(3);
    QCOMPARE(large.reply.queuePosition, 0);
    const Client small = waitingClient(1);
    QCOMPARE(small.reply.queuePosition, 1);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine)).status, EngineReply::Taken); // without waiting
    release(*engine, m_id, first);
    QCOMPARE(wait(*small.engine, m_id, small.token).status, EngineReply::Taken);
    release(*engine, m_id, second);
    EVENTUALLY_VERIFY(large.isGranted());
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    QVERIFY(!small.isGranted());
    release(*large.engine, m_id, large.token);
    EVENTUALLY_VERIFY(small.isGranted());
}

void tst_Permits::manyWaiters()
{
    // More than one call of a script serves: the next ones are served when the first of them polls.
    m_permits = 120;
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray holder = newToken(*engine);
    QCOMPARE(acquire(*engine, m_id, holder).status, EngineReply::Granted);
    const auto client = makeListeningEngine(m_kind, m_id);
    Notices notices(*client);
    QList<QByteArray> tokens;
    for (int i = 0; i < 150; ++i) {
        tokens.append(newPermit(*client));
        QCOMPARE(wait(*client, m_id, tokens.last()).queuePosition, i);
    }
    QCOMPARE(release(*engine, m_id, holder).status, EngineReply::Done);
    for (int polls = 0; polls < 5 && inspect(*engine, m_id).permitsTaken < 120; ++polls) {
        QVERIFY(inspect(*engine, m_id).permitsTaken > 0);
        const QByteArray next = tokens.at(inspect(*engine, m_id).permitsTaken);
        EVENTUALLY_VERIFY(notices.list.contains(notice("next", next)));
        QCOMPARE(acquire(*client, m_id, next).status, EngineReply::Granted);
    }
    const LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.permitsTaken, 120);
    QCOMPARE(info.holders.size(), 32);
    QCOMPARE(info.queueLength, 30);
}

void tst_Permits::expiresAlone()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray shortOne = newPermit(*engine, 2), longOne = newPermit(*engine), other = newPermit(*engine, 2);
    QCOMPARE(acquire(*engine, m_id, longOne, 1h).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, shortOne, 10min).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, other).status, EngineReply::Taken);
    pass(m_kind, 20min);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 1);
    QCOMPARE(renew(*engine, m_id, shortOne).status, EngineReply::Gone);
    QCOMPARE(acquire(*engine, m_id, other).status, EngineReply::Granted);
    QCOMPARE(release(*engine, m_id, shortOne).status, EngineReply::Gone);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    QCOMPARE(renew(*engine, m_id, longOne, 10min).status, EngineReply::Done);
}

void tst_Permits::deadHoldersCostALease()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    auto dead = makeEngine(m_kind);
    for (int i = 0; i < 3; ++i)
        QCOMPARE(acquire(*dead, m_id, newPermit(*dead), 20min).status, EngineReply::Granted);
    dead.reset();
    const Client waiting = waitingClient(3);
    QVERIFY(waiting.reply.holderTtl > 15min);
    QVERIFY(waiting.reply.holderTtl <= 20min);
    pass(m_kind, 21min);
    QCOMPARE(wait(*waiting.engine, m_id, waiting.token).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
}

void tst_Permits::expiredOneIsNotRenewed()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray expired = newPermit(*engine, 3), longOne = newPermit(*engine);
    m_permits = 4;
    QCOMPARE(acquire(*engine, m_id, expired, 10min).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, longOne, 1h).status, EngineReply::Granted);
    pass(m_kind, 20min);
    QCOMPARE(renew(*engine, m_id, expired).status, EngineReply::Gone); // nobody has removed it yet
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 1);
}

void tst_Permits::renewalOfSeveral()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newPermit(*engine, 3);
    QCOMPARE(acquire(*engine, m_id, token, 20min).status, EngineReply::Granted);
    pass(m_kind, 15min);
    QCOMPARE(renew(*engine, m_id, token, 20min).status, EngineReply::Done);
    pass(m_kind, 15min);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine)).status, EngineReply::Taken);
}

void tst_Permits::resent()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newPermit(*engine, 2), other = newPermit(*engine);
    const EngineReply first = acquire(*engine, m_id, token);
    QCOMPARE(acquire(*engine, m_id, other).status, EngineReply::Granted);
    const EngineReply again = acquire(*engine, m_id, token);
    QCOMPARE(again.status, EngineReply::Granted);
    QVERIFY(again.fencingToken > first.fencingToken);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    QCOMPARE(acquire(*engine, m_id, other).status, EngineReply::Granted);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
}

void tst_Permits::exclusiveHolderExcludesThem()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray exclusive = newToken(*engine), permit = newPermit(*engine);
    QCOMPARE(acquire(*engine, m_id, permit).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, exclusive).status, EngineReply::Taken);
    QCOMPARE(renew(*engine, m_id, exclusive).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, exclusive).status, EngineReply::Stolen);
    release(*engine, m_id, permit);
    QCOMPARE(acquire(*engine, m_id, exclusive).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, permit).status, EngineReply::Taken);
    QCOMPARE(renew(*engine, m_id, permit).status, EngineReply::Stolen);
    QCOMPARE(release(*engine, m_id, permit).status, EngineReply::Stolen);
    const LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.permits, 3);
    QCOMPARE(info.permitsTaken, 3);
    QVERIFY(info.holders.isEmpty());
}

void tst_Permits::exclusiveWaiterHasItsTurn()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray first = newPermit(*engine, 2), second = newPermit(*engine);
    acquire(*engine, m_id, first);
    acquire(*engine, m_id, second);
    const Client exclusive = waitingClient(0);
    release(*engine, m_id, first);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine)).status, EngineReply::Taken);
    release(*engine, m_id, second);
    EVENTUALLY_VERIFY(exclusive.isGranted());
}

void tst_Permits::endOfTheLastLeaseIsSent_data()
{
    Support::addRows<bool>("isForced", {{"released", false}, {"released by force", true}});
}

// That of the one that was served, not of the one that no longer holds it.
void tst_Permits::endOfTheLastLeaseIsSent()
{
    QFETCH(bool, isForced);
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray token = newPermit(*engine, 3);
    acquire(*engine, m_id, token);
    const Client permit = waitingClient(1);
    const Client exclusive = waitingClient(0);
    if (isForced)
        EngineFixture::forceRelease(*engine, m_id);
    else
        release(*engine, m_id, token);
    EVENTUALLY_VERIFY(permit.isGranted());
    EVENTUALLY_VERIFY(exclusive.notices->pollAfter >= 0ms);
    QVERIFY(exclusive.notices->pollAfter <= Protocol::ClaimTtl);
}

void tst_Permits::readersAreRefused()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray permit = newPermit(*engine), reader = Token::ofReader(newToken(*engine));
    QCOMPARE(acquire(*engine, m_id, permit).status, EngineReply::Granted);
    QVERIFY(isRefusal(acquire(*engine, m_id, reader), u"held by holders of permits"_s));
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 1);
    release(*engine, m_id, permit);

    QCOMPARE(acquire(*engine, m_id, reader).status, EngineReply::Granted);
    QVERIFY(isRefusal(wait(*engine, m_id, permit), u"held by readers"_s));
    const LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.readerCount, 1);
    QCOMPARE(info.permitsTaken, 0);
    QCOMPARE(info.queueLength, 0);
}

void tst_Permits::anotherNumber()
{
    const auto engine = makeEngine(m_kind);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine)).status, EngineReply::Granted);
    m_permits = 4;
    QVERIFY(isRefusal(wait(*engine, m_id, newPermit(*engine)), u"permits is 4, but the server has 3 "_s));
    const LockInfo info = inspect(*engine, m_id);
    QCOMPARE(info.permits, 3);
    QCOMPARE(info.permitsTaken, 1);
    QCOMPARE(info.queueLength, 0);
}

void tst_Permits::numberOfTheServer()
{
    const auto engine = makeEngine(m_kind);
    m_permits = LockOptions::ServerPermits;
    QVERIFY(isRefusal(acquire(*engine, m_id, newPermit(*engine)), u"the server has no number"_s));
    QVERIFY(!inspect(*engine, m_id).held);
    int before = -1;
    QVERIFY(!setPermits(*engine, 2, &before));
    QCOMPARE(before, 0);
    QVERIFY(!setPermits(*engine, 2, &before));
    QCOMPARE(before, 2);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine, 2)).status, EngineReply::Granted);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine)).status, EngineReply::Taken);
    QVERIFY(isRefusal(acquire(*engine, m_id, newPermit(*engine, 3)), u"take is 3, but the server has 2 "_s));
}

void tst_Permits::numberIsRaised()
{
    m_permits = LockOptions::ServerPermits;
    const auto engine = makeListeningEngine(m_kind, m_id);
    QVERIFY(!setPermits(*engine, 1));
    acquire(*engine, m_id, newPermit(*engine));
    const Client first = waitingClient(1), second = waitingClient(1), third = waitingClient(1);
    QVERIFY(!setPermits(*engine, 3));
    EVENTUALLY_VERIFY(first.isGranted());
    EVENTUALLY_VERIFY(second.isGranted());
    QVERIFY(!third.isGranted());
    QCOMPARE(inspect(*engine, m_id).permits, 3);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
}

void tst_Permits::numberIsLowered()
{
    m_permits = LockOptions::ServerPermits;
    const auto engine = makeListeningEngine(m_kind, m_id);
    QVERIFY(!setPermits(*engine, 3));
    const QByteArray first = newPermit(*engine, 2), second = newPermit(*engine);
    acquire(*engine, m_id, first);
    acquire(*engine, m_id, second);
    const Client tooMany = waitingClient(2), fits = waitingClient(1);
    QVERIFY(!setPermits(*engine, 1));
    QCOMPARE(renew(*engine, m_id, first).status, EngineReply::Done);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    release(*engine, m_id, first);
    // It gets to know that it will never be served.
    EVENTUALLY_VERIFY(tooMany.isGranted());
    QVERIFY(isRefusal(wait(*tooMany.engine, m_id, tooMany.token), u"take is 2, but the server has 1 "_s));
    QVERIFY(!fits.isGranted());
    release(*engine, m_id, second);
    EVENTUALLY_VERIFY(fits.isGranted());
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 1);
}

void tst_Permits::numberOfPermitsIsNoLock()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newPermit(*engine);
    acquire(*engine, m_id, token);
    QCOMPARE(names(*engine, u"*"_s), QStringList{u"a"_s});
    QCOMPARE(names(*engine, u"*"_s, QString()).filter(u"permits"_s), QStringList());
    release(*engine, m_id, token);
    QCOMPARE(names(*engine, u"*"_s, QString()), QStringList());
}

void tst_Permits::abandoned()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray two = newPermit(*engine, 2), one = newPermit(*engine);
    acquire(*engine, m_id, two);
    acquire(*engine, m_id, one);
    const Client waiting = waitingClient(2);
    engine->abandon(m_id, two, 30s, 0ms, 60s);
    EVENTUALLY_VERIFY(waiting.isGranted());
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    engine->abandon(m_id, one, 30s, 0ms, 60s);
    EVENTUALLY_COMPARE(inspect(*engine, m_id).permitsTaken, 2);
    waiting.engine->abandon(m_id, waiting.token, 30s, 0ms, 60s);
    EVENTUALLY_VERIFY(!inspect(*engine, m_id).held);
}

void tst_Permits::abandonedWaiterLetsOthersIn()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    acquire(*engine, m_id, newPermit(*engine, 2));
    const Client large = waitingClient(2), small = waitingClient(1);
    QVERIFY(!small.isGranted());
    large.engine->abandon(m_id, large.token, 30s, 0ms, 60s);
    EVENTUALLY_VERIFY(small.isGranted());
}

void tst_Permits::minHold()
{
    const auto engine = makeEngine(m_kind);
    const QByteArray token = newPermit(*engine, 3);
    acquire(*engine, m_id, token);
    QCOMPARE(release(*engine, m_id, token, 10min).status, EngineReply::Done);
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 3);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine)).status, EngineReply::Taken);
    pass(m_kind, 11min);
    QCOMPARE(acquire(*engine, m_id, newPermit(*engine)).status, EngineReply::Granted);
}

void tst_Permits::barging()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray first = newPermit(*engine), second = newPermit(*engine);
    acquire(*engine, m_id, first);
    acquire(*engine, m_id, second);
    const Client large = waitingClient(2);
    const Client unfair = waitingClient(1, true);
    QCOMPARE(unfair.reply.status, EngineReply::Granted); // overtakes
    release(*engine, m_id, first);
    QVERIFY(!large.isGranted());
    release(*engine, m_id, second);
    EVENTUALLY_VERIFY(large.isGranted());
    const Client late = waitingClient(1, true);
    QCOMPARE(late.reply.status, EngineReply::Taken);
    release(*unfair.engine, m_id, unfair.token);
    EVENTUALLY_VERIFY(late.isGranted());
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 2); // it was only woken
    QCOMPARE(wait(*late.engine, m_id, late.token, {}, true).status, EngineReply::Granted);
}

void tst_Permits::forceRelease()
{
    const auto engine = makeListeningEngine(m_kind, m_id);
    Notices notices(*engine);
    const QByteArray one = newPermit(*engine), two = newPermit(*engine, 2);
    acquire(*engine, m_id, one);
    acquire(*engine, m_id, two);
    const Client waiting = waitingClient(1);
    QVERIFY(EngineFixture::forceRelease(*engine, m_id));
    EVENTUALLY_VERIFY(notices.list.contains(notice("force", one)));
    EVENTUALLY_VERIFY(notices.list.contains(notice("force", two)));
    EVENTUALLY_VERIFY(waiting.isGranted());
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 1);
    QCOMPARE(renew(*engine, m_id, one).status, EngineReply::Gone);
    QCOMPARE(release(*engine, m_id, two).status, EngineReply::Gone);
}

void tst_Permits::batches()
{
    // Of all kinds, in one turn of the event loop; of one lock and of several.
    const auto engine = makeEngine(m_kind);
    QList<QPair<LockId, QByteArray>> tokens;
    for (int i = 0; i < 30; ++i) {
        const QByteArray token = i % 3 == 0 ? newToken(*engine)
                : i % 3 == 1                ? Token::ofReader(newToken(*engine))
                                            : newPermit(*engine, 1 + i % 2);
        tokens.append({lockId(u"{b}%1"_s.arg(i)), token});
    }
    const auto each = [&](auto call) {
        Replies replies;
        for (const auto &[id, token] : std::as_const(tokens))
            call(id, token, replies.next());
        EVENTUALLY_COMPARE(replies.list.size(), tokens.size());
        for (const EngineReply &reply : std::as_const(replies.list))
            QCOMPARE(int(reply.status), int(replies.list.first().status));
        QVERIFY(replies.list.first().status == EngineReply::Granted
                || replies.list.first().status == EngineReply::Done);
    };
    for (int round = 0; round < 2; ++round) {
        each([&](const LockId &id, const QByteArray &token, LockEngine::Completion completion) {
            LockEngine::Acquire operation = acquireOf(id, token, 30s);
            operation.permits = Token::permitsOf(token) > 0 ? 3 : 0;
            engine->acquire(operation, std::move(completion));
        });
        each([&](const LockId &id, const QByteArray &token, LockEngine::Completion completion) {
            engine->renew(id, token, 30s, {}, std::move(completion));
        });
        if (round == 0)
            each([&](const LockId &id, const QByteArray &token, LockEngine::Completion completion) {
                engine->release(id, token, 30s, 0ms, std::move(completion));
            });
    }
    for (const auto &[id, token] : std::as_const(tokens))
        engine->abandon(id, token, 30s, 0ms, 60s);
    for (const auto &[id, token] : std::as_const(tokens))
        EVENTUALLY_VERIFY(!inspect(*engine, id).held);
}

void tst_Permits::slotMoves()
{
    SKIP_WITHOUT_SLOTS();
    const auto engine = makeListeningEngine(m_kind, m_id);
    const QByteArray held = newPermit(*engine, 2);
    QCOMPARE(acquire(*engine, m_id, held).status, EngineReply::Granted);
    const int slot = Support::clusterSlot(m_id.key());
    const int target = (m_cluster->ownerOf(slot) + 1) % 3;
    QVERIFY(m_cluster->beginMove(slot, target));
    const EngineReply refused = acquire(*engine, m_id, newPermit(*engine));
    QCOMPARE(refused.status, EngineReply::Failed); // the number may be at either node
    QVERIFY(!refused.error.isPermanent);
    QCOMPARE(renew(*engine, m_id, held).status, EngineReply::Done);
    QCOMPARE(release(*engine, m_id, held).status, EngineReply::Done);
    QVERIFY(m_cluster->stopMove(slot, target));
    QCOMPARE(inspect(*engine, m_id).permitsTaken, 0);
}

QTEST_GUILESS_MAIN(tst_Permits)
#include "tst_permits.moc"
