// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What a master says counts only if the Sentinels confirm that it is the master.

#include "engine/redis/masterconfirmation.h"

#include "redis/topology/sentinelwatch.h"

#include "support/fakesentinel.h"
#include "support/locktest.h"
#include "support/redistesting.h"
#include "support/registrytime.h"
#include "support/rows.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

/// Longer than any test.
constexpr milliseconds Lease = 10min;

/// A real server, and three Sentinels that name it as the master.
struct Service
{
    Service()
    {
        if (!server.start())
            qFatal("%s", qPrintable(server.errorString()));
        FakeSentinel::View view;
        view.port = server.port();
        view.epoch = 1;
        for (auto &sentinel : sentinels)
            sentinel = std::make_unique<FakeSentinel>(view);
    }

    QUrl url(const QString &confirm = u"majority"_s) const
    {
        return QUrl(u"redis+sentinel://127.0.0.1:%1/mymaster?node=127.0.0.1:%2&node=127.0.0.1:%3&confirm=%4"_s.arg(
                QString::number(sentinels[0]->port()), QString::number(sentinels[1]->port()),
                QString::number(sentinels[2]->port()), confirm));
    }

    /// The Sentinels name \a successor from now on, but do not report that. It has the lock that the master has.
    void failOverUnnoticed(RedisServer *successor)
    {
        if (!successor->start())
            qFatal("%s", qPrintable(successor->errorString()));
        successor->command({"SET", "lock:job", server.command({"GET", "lock:job"}).toByteArray(), "PX", "600000"});
        for (auto &sentinel : sentinels) {
            FakeSentinel::View view = sentinel->view();
            view.port = successor->port();
            ++view.epoch;
            sentinel->setView(view);
        }
    }

    /// Two of three, so that there is no majority.
    void setSilent(bool isSilent)
    {
        for (const int i : {1, 2}) {
            FakeSentinel::View view = sentinels[i]->view();
            view.isSilent = isSilent;
            sentinels[i]->setView(view);
        }
    }

    int questions() const
    {
        int sum = 0;
        for (const auto &sentinel : sentinels)
            sum += sentinel->questions();
        return sum;
    }

    RedisServer server{RedisServer::Options::withTcp()};
    std::array<std::unique_ptr<FakeSentinel>, 3> sentinels;
};

} // namespace

class tst_MasterConfirmation : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void grantNeedsAMajority();
    void handOverNeedsAMajority();
    void cutOffClientLeavesTheLockToOthers();
    void manyLocksOneWarning();
    void renewalNeedsAMajority();
    void formerMasterThatLostTheKey_data();
    void formerMasterThatLostTheKey();
    void lossIsToldWithoutAMajority_data()
    {
        addRows<bool>("isSilent", {{"the Sentinels agree", false}, {"the Sentinels are silent", true}});
    }
    void lossIsToldWithoutAMajority();
    void releaseAtAFormerMasterWhileTheSentinelsAreSilent();
    void lyingSentinel_data();
    void lyingSentinel();
    void sentinelsSetUpAgain();
    void confirmOff();
    void locksShareAQuestion();
    void masterChangesBeforeTheQuestion();
    void sentinelsThatWereGivenUp();
    void sentinelsThatMoved_data()
    {
        addRows<bool>("keepTheirIds", {{"with their ids", true}, {"with other ids", false}});
    }
    void sentinelsThatMoved();
};

/// The Sentinels agreed until just now: that proves nothing.
void tst_MasterConfirmation::grantNeedsAMajority()
{
    Service service;
    LockRegistry registry(service.url());
    DistributedLock first(&registry, u"first"_s);
    QVERIFY(acquireNow(&first));
    service.setSilent(true);
    TestLock lock(&registry, u"job"_s, {});
    // Once more if the machine was so slow that the third one was silent, too.
    QVERIFY2(eventually([&] {
                 const qsizetype before = lock.spies.acquiresEnded();
                 lock.tryAcquire();
                 return eventually([&] { return lock.spies.acquiresEnded() > before; })
                         && lock.errorString().contains(u"2 of 3 Sentinels are silent"_s);
             }),
             qPrintable(lock.errorString()));
    QCOMPARE(lock.spies.failure(int(lock.spies.failed.size()) - 1), DistributedLock::QuorumError);
    QVERIFY(lock.spies.acquired.isEmpty());
    // Nothing is left of what the master granted.
    QVERIFY(eventually([&] { return service.server.command({"EXISTS", "lock:job"}) == QVariant(0LL); }));
    service.setSilent(false);
    QVERIFY(eventually([&] { return acquireNow(&lock); }));
}

void tst_MasterConfirmation::handOverNeedsAMajority()
{
    Service service;
    LockRegistry others(service.server.url());
    DistributedLock holder(&others, u"job"_s);
    QVERIFY(acquireNow(&holder));
    LockRegistry registry(service.url());
    TestLock waiter(&registry, u"job"_s, options(30s, LockOptions::Forever));
    waiter.acquire();
    QVERIFY(eventually([&] { return service.server.command({"ZCARD", "{lock:job}:queue"}) == QVariant(1LL); }));
    QVERIFY(eventually([&] { return service.sentinels[2]->isListenedTo(); }));
    service.setSilent(true);
    const QVariant holdersToken = service.server.command({"GET", "lock:job"});
    const int before = service.questions();
    holder.release();
    // The server has handed the lock over, and the Sentinels were asked.
    QVERIFY(eventually([&] {
        const QVariant token = service.server.command({"GET", "lock:job"});
        return !token.isNull() && token != holdersToken;
    }));
    QVERIFY(eventually(
            [&] { return service.questions() >= before + 3 && waiter.error() == DistributedLock::QuorumError; }));
    QVERIFY(!waiter.isHeld());
    service.setSilent(false);
    QVERIFY(eventually([&] { return waiter.isHeld(); }));
}

/// Others reach the Sentinels, and wait for the lock that the master grants to a client which does not.
void tst_MasterConfirmation::cutOffClientLeavesTheLockToOthers()
{
    Service service;
    service.setSilent(true);
    LockRegistry registry(service.url());
    TestLock cutOff(&registry, u"job"_s, options(Lease, LockOptions::Forever));
    cutOff.acquire();
    QVERIFY(eventually([&] { return cutOff.error() == DistributedLock::QuorumError; }));
    LockRegistry others(service.server.url());
    TestLock lock(&others, u"job"_s, options(Lease));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(!cutOff.isHeld());
    service.setSilent(false);
    lock.release();
    QVERIFY(eventually([&] { return cutOff.isHeld(); }));
}

void tst_MasterConfirmation::manyLocksOneWarning()
{
    constexpr int Count = 20;
    Service service;
    StillRegistry registry(service.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < Count; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, u"job%1"_s.arg(i), options(Lease)));
        locks.back()->acquire();
    }
    const auto count = [&locks](auto condition) { return std::count_if(locks.begin(), locks.end(), condition); };
    QVERIFY(registry.passUntil([&] { return count([](const auto &lock) { return lock->isHeld(); }) == Count; }));
    const LogCapture log;
    service.setSilent(true);
    registry.pass(Lease / 3);
    QVERIFY(eventually([&] {
        return count([](const auto &lock) { return lock->error() == DistributedLock::QuorumError; }) == Count;
    }));
    QCOMPARE(log.count({u"no majority"_s}), 1);
    QCOMPARE(log.count({u"no majority"_s, u"\"mymaster\""_s}), 1); // nothing else names the service
    service.setSilent(false);
    QVERIFY(registry.passUntil([&] {
        return count([](const auto &lock) { return lock->error() == DistributedLock::NoError; }) == Count;
    }));
    QVERIFY(eventually([&] { return log.count({u"can be used again"_s}) == 1; }));
    QCOMPARE(log.messages(QtWarningMsg).size(), 2);
}

void tst_MasterConfirmation::renewalNeedsAMajority()
{
    Service service;
    StillRegistry registry(service.url());
    TestLock lock(&registry, u"job"_s, options(Lease));
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    service.setSilent(true);
    registry.pass(Lease / 3);
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::QuorumError; }));
    registry.pass(Lease * 2 / 3);
    QVERIFY(eventually([&] { return !lock.spies.lost.isEmpty(); }));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    QVERIFY(lock.spies.renewed.isEmpty());
}

void tst_MasterConfirmation::formerMasterThatLostTheKey_data()
{
    addColumns<bool, bool>("isStolen", "isRenewal");
    QTest::newRow("renewal, gone") << false << true;
    QTest::newRow("renewal, stolen") << true << true;
    QTest::newRow("release, gone") << false << false;
    QTest::newRow("release, stolen") << true << false;
}

/// It was killed, and started again without its data: the lock is not lost, because the new master has it.
void tst_MasterConfirmation::formerMasterThatLostTheKey()
{
    QFETCH(bool, isStolen);
    QFETCH(bool, isRenewal);
    Service service;
    StillRegistry registry(service.url());
    TestLock lock(&registry, u"job"_s, options(Lease));
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    RedisServer successor{RedisServer::Options::withTcp()};
    service.failOverUnnoticed(&successor);
    service.server.command({"DEL", "lock:job"});
    if (isStolen)
        service.server.command({"SET", "lock:job", "somebody else's", "PX", "30000"});
    if (isRenewal) {
        registry.pass(Lease / 3);
        QVERIFY(registry.passUntil([&] { return !lock.spies.renewed.isEmpty() || !lock.spies.lost.isEmpty(); }));
        QCOMPARE(successor.command({"EXISTS", "lock:job"}), QVariant(1LL));
        QVERIFY(lock.isHeld());
    } else {
        lock.release();
        QVERIFY(registry.passUntil([&] { return !lock.spies.released.isEmpty() || !lock.spies.lost.isEmpty(); }));
        QCOMPARE(successor.command({"EXISTS", "lock:job"}), QVariant(0LL));
    }
    QVERIFY(lock.spies.lost.isEmpty());
}

/// Somebody else may acquire the lock by now.
void tst_MasterConfirmation::lossIsToldWithoutAMajority()
{
    QFETCH(bool, isSilent);
    Service service;
    StillRegistry registry(service.url());
    TestLock lock(&registry, u"job"_s, options(Lease));
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    service.setSilent(isSilent);
    service.server.command({"DEL", "lock:job"});
    registry.pass(Lease / 3);
    QVERIFY(registry.passUntil([&] { return !lock.spies.lost.isEmpty(); }));
    QCOMPARE(lock.spies.reason(), DistributedLock::Deleted);
}

/// It was killed, and started again without its data, and two of three Sentinels cannot say that it was replaced.
/// Nobody relies on the lock any more, so there is time to ask again: the new master has the key.
void tst_MasterConfirmation::releaseAtAFormerMasterWhileTheSentinelsAreSilent()
{
    Service service;
    StillRegistry registry(service.url());
    TestLock lock(&registry, u"job"_s, options(Lease));
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    const QByteArray token = service.server.command({"GET", "lock:job"}).toByteArray();
    service.setSilent(true);
    service.server.command({"DEL", "lock:job"});
    lock.release();
    QVERIFY(registry.passUntil(
            [&] { return lock.error() == DistributedLock::QuorumError || !lock.spies.lost.isEmpty(); }));
    QVERIFY(lock.spies.lost.isEmpty());
    RedisServer successor{RedisServer::Options::withTcp()};
    service.failOverUnnoticed(&successor);
    successor.command({"SET", "lock:job", token, "PX", "600000"});
    service.setSilent(false);
    QVERIFY(registry.passUntil([&] { return !lock.spies.released.isEmpty() || !lock.spies.lost.isEmpty(); }));
    QVERIFY(lock.spies.lost.isEmpty());
    QCOMPARE(successor.command({"EXISTS", "lock:job"}), QVariant(0LL));
}

void tst_MasterConfirmation::lyingSentinel_data()
{
    addColumns<bool, int>("isElsewhere", "others");
    QTest::newRow("names another server") << true << 0;
    QTest::newRow("claims many other Sentinels") << false << 1000;
    QTest::newRow("both") << true << 1000;
}

/// One of three can neither take away a lock nor stop the others from getting one.
void tst_MasterConfirmation::lyingSentinel()
{
    QFETCH(const bool, isElsewhere);
    QFETCH(const int, others);
    Service service;
    StillRegistry registry(service.url());
    TestLock lock(&registry, u"job"_s, options(Lease));
    lock.acquire();
    QVERIFY(registry.passUntil([&] { return lock.isHeld(); }));
    QVERIFY(eventually([&] { return service.sentinels[0]->isListenedTo(); }));
    RedisServer elsewhere{RedisServer::Options::withTcp()}; // it runs, and says that it is a master
    QVERIFY(elsewhere.start());
    FakeSentinel::View view = service.sentinels[0]->view();
    view.others = others;
    if (isElsewhere) {
        view.port = elsewhere.port();
        view.epoch = 100;
    }
    service.sentinels[0]->setView(view);
    if (isElsewhere)
        service.sentinels[0]->reportSwitch(service.server.port(), elsewhere.port());
    for (const qsizetype renewals : {1, 2}) {
        registry.pass(Lease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() >= renewals || !lock.spies.lost.isEmpty(); }));
        QVERIFY2(lock.spies.lost.isEmpty(), qPrintable(lock.errorString()));
        DistributedLock another(&registry, u"another"_s);
        QVERIFY2(acquireNow(&another), qPrintable(another.errorString()));
    }
    QVERIFY(elsewhere.command({"DBSIZE"}) == QVariant(0LL));
}

/// SENTINEL REMOVE and SENTINEL MONITOR begin with config epoch 0 again.
void tst_MasterConfirmation::sentinelsSetUpAgain()
{
    Service service;
    FakeSentinel::View view = service.sentinels[0]->view();
    view.epoch = 5;
    for (const auto &sentinel : service.sentinels)
        sentinel->setView(view);
    LockRegistry registry(service.url());
    DistributedLock first(&registry, u"first"_s);
    QVERIFY(acquireNow(&first));
    view.epoch = 0;
    for (const auto &sentinel : service.sentinels)
        sentinel->setView(view);
    DistributedLock lock(&registry, u"job"_s);
    QVERIFY2(eventually([&] { return acquireNow(&lock); }), qPrintable(lock.errorString()));
    QVERIFY(first.isHeld());
}

void tst_MasterConfirmation::confirmOff()
{
    Service service;
    StillRegistry registry(service.url(u"off"_s));
    TestLock lock(&registry, u"job"_s, options(Lease));
    QVERIFY(acquireNow(&lock));
    service.setSilent(true);
    DistributedLock another(&registry, u"another"_s);
    QVERIFY(acquireNow(&another));
    for (const int renewals : {1, 2}) {
        registry.pass(Lease / 3);
        QVERIFY(eventually([&] { return lock.spies.renewed.size() == renewals; }));
    }
    QVERIFY(lock.spies.errors.isEmpty());
}

/// The Sentinels are asked once for all that arrives together, not once for each lock.
void tst_MasterConfirmation::locksShareAQuestion()
{
    Service service;
    LockRegistry registry(service.url());
    DistributedLock first(&registry, u"first"_s);
    QVERIFY(acquireNow(&first));
    QVERIFY(eventually(
            [&] { return all(service.sentinels, [](const auto &sentinel) { return sentinel->isListenedTo(); }); }));
    processEvents();
    const int before = service.questions();
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < 1000; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, u"lock-%1"_s.arg(i)));
        locks.back()->acquire();
    }
    QVERIFY(eventually([&] { return all(locks, [](const auto &lock) { return lock->isHeld(); }); }));
    // Their replies arrive in several reads.
    QVERIFY2(service.questions() - before < 300, QByteArray::number(service.questions() - before).constData());
}

/// A reply of the former master does not count if the Sentinels, asked after it, name the new master.
void tst_MasterConfirmation::masterChangesBeforeTheQuestion()
{
    Service service;
    QtRedis::SentinelWatch watch(RedisTesting::serverUrl(service.url()));
    watch.setNeeded([] { return true; });
    watch.open();
    QVERIFY(eventually([&] { return watch.master().has_value(); }));
    QtRedis::SentinelWatch::Master former = *watch.master();

    std::optional<QDistLock::EngineReply::Status> status;
    QDistLock::LockEngine::Completion renewal;
    // In the same turn of the event loop, before the change is known.
    connect(&watch, &QtRedis::SentinelWatch::masterChanged, this, [&] {
        QDistLock::EngineReply done;
        done.status = QDistLock::EngineReply::Done;
        renewal(done);
    });
    QDistLock::MasterConfirmation confirmation(&watch, u"mymaster"_s);
    renewal = confirmation.of([&](const QDistLock::EngineReply &reply) { status = reply.status; });
    for (const auto &sentinel : service.sentinels) {
        FakeSentinel::View view = sentinel->view();
        view.epoch = former.epoch + 1;
        sentinel->setView(view);
    }
    watch.askAgain();
    QVERIFY(eventually([&] { return status.has_value(); }));
    QVERIFY(!watch.master()->isSame(former));
    QCOMPARE(*status, QDistLock::EngineReply::Failed);
}

/// They refuse every client for a while, as with a certificate that has expired.
void tst_MasterConfirmation::sentinelsThatWereGivenUp()
{
    Service service;
    LockRegistry registry(service.url());
    DistributedLock lock(&registry, u"job"_s);
    QVERIFY(eventually([&] { return acquireNow(&lock); }));
    QVERIFY(eventually(
            [&] { return all(service.sentinels, [](const auto &sentinel) { return sentinel->isListenedTo(); }); }));
    QVERIFY(releaseNow(&lock));
    for (auto &sentinel : service.sentinels) {
        sentinel->server().setGreeting({"-DENIED for this test\r\n", {}, true});
        sentinel->server().closeAll();
    }
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked; }));
    QVERIFY2(lock.errorString().contains(u"Sentinels are silent"_s), qPrintable(lock.errorString()));
    for (auto &sentinel : service.sentinels)
        sentinel->server().setGreeting({});
    QVERIFY2(eventually([&] { return acquireNow(&lock); }), qPrintable(lock.errorString()));
}

/// Two of three are started again at other addresses. The URL has the third one only.
void tst_MasterConfirmation::sentinelsThatMoved()
{
    QFETCH(bool, keepTheirIds);
    Service service;
    const auto listOthers = [&service] {
        FakeSentinel::View view = service.sentinels[0]->view();
        view.listed = {service.sentinels[1].get(), service.sentinels[2].get()};
        service.sentinels[0]->setView(view);
    };
    listOthers();
    LockRegistry registry(QUrl(u"redis+sentinel://127.0.0.1:%1/mymaster"_s.arg(service.sentinels[0]->port())));
    DistributedLock lock(&registry, u"job"_s);
    QVERIFY2(eventually([&] { return acquireNow(&lock); }), qPrintable(lock.errorString()));
    QVERIFY(releaseNow(&lock));
    std::vector<std::unique_ptr<FakeSentinel>> former; // so that the others cannot get their ports
    for (const int i : {1, 2}) {
        auto moved = std::make_unique<FakeSentinel>(service.sentinels[i]->view());
        if (keepTheirIds)
            moved->setId(service.sentinels[i]->id());
        former.push_back(std::exchange(service.sentinels[i], std::move(moved)));
    }
    listOthers();
    former.clear();
    QVERIFY2(eventually([&] { return acquireNow(&lock); }), qPrintable(lock.errorString()));
}

QTEST_GUILESS_MAIN(tst_MasterConfirmation)
#include "tst_masterconfirmation.moc"
