// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/locktest.h"

#include "support/eventually.h"
#include "support/monitor.h"
#include "support/rediscluster.h"
#include "support/rows.h"
#include "support/sentinelset.h"
#include "support/stoppableholder.h"

#include <QDistLock/MultiLock>

#include <QtCore/qcryptographichash.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qjsondocument.h>
#include <QtCore/qjsonobject.h>

#include <optional>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using QDistLock::LockActivity;
using QDistLock::LockHold;
using QDistLock::LockInfo;
using QDistLock::LockMonitorModel;

/// What a LockMonitorModel knows because clients report it.
class tst_LockReports : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void activity_data();
    void activity();
    void shortHolds();
    void holdsWithoutRow();
    void failedAndLost();
    void readers();
    void manyLocks();
    void reportsAreLost();
    void watchedAgain();
    void manyObjects();
    void countedOnce();
    void silent();
    void asked();
    void forgedReports();
    void noGrantFromMonitors();
    void mayNotPublish();
    void noMessages();

private:
    static QByteArray idOf(LockRegistry *registry) { return LockRegistryPrivate::get(registry)->engine()->clientId(); }
    static QByteArray channelOf(LockRegistry *registry) { return "lock:client:" + idOf(registry) + ":monitor"; }
    /// The holder of the lock \a name reports what its locks do.
    template<typename Monitor>
    static bool reports(const Monitor &monitor, const QString &name)
    {
        return monitor.data(name, LockMonitorModel::Since).toLongLong() > 0;
    }
};

void tst_LockReports::activity_data()
{
    Support::addNamedRows<QString>("server", {"redis", "scripts=off", "sentinel", "cluster"});
}

void tst_LockReports::activity()
{
    QFETCH(QString, server);
    qputenv("QDISTLOCK_SENTINEL_PASSWORD", "sentinels");
    std::optional<Support::Started<Support::RedisCluster>> cluster;
    std::optional<Support::Started<Support::SentinelSet>> sentinels;
    QUrl url = m_server.url();
    if (server == u"cluster")
        url = cluster.emplace(Support::RedisCluster::Options::mastersOnly()).url();
    else if (server == u"sentinel")
        url = sentinels.emplace().url();
    else if (server == u"scripts=off")
        url.setQuery(u"scripts=off"_s);

    LockRegistry firstRegistry(url);
    LockRegistry secondRegistry(url);
    TestLock first(&firstRegistry, u"a"_s, options().withLabel(u"Orders::ship"_s));
    TestLock second(&secondRegistry, u"a"_s);
    TestLock other(&secondRegistry, u"b"_s); // in a cluster, who holds nothing does not report
    QVERIFY(acquireNow(&first) && acquireNow(&other));
    const qint64 firstToken = first.fencingToken();
    Monitor monitor(url);
    EVENTUALLY_COMPARE(monitor.data(u"a"_s, LockMonitorModel::Label).toString(), u"Orders::ship"_s);
    const qint64 since = monitor.data(u"a"_s, LockMonitorModel::Since).toLongLong();
    QVERIFY(since >= 0 && since <= monitor.model.now());
    EVENTUALLY_VERIFY(reports(monitor, u"b"_s));
    QCOMPARE(monitor.data(u"b"_s, LockMonitorModel::Label).toString(), QString());
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::WaitP95).toLongLong(), -1); // before somebody asked
    QCOMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    QCOMPARE(monitor.model.problems(), QStringList());

    second.acquire();
    EVENTUALLY_VERIFY(monitor.data(u"a"_s, LockMonitorModel::QueueLength).toInt() > 0 || server == u"scripts=off");
    first.release();
    EVENTUALLY_VERIFY(second.isHeld());
    const qint64 secondToken = second.fencingToken();
    second.release();
    QVERIFY(acquireNow(&first));
    const auto waits = [&] { return monitor.model.activity(u"a"_s).wait.count(); };
    const auto holds = [&] { return monitor.model.activity(u"a"_s).hold.count(); };
    EVENTUALLY_COMPARE(waits(), quint64(2));
    EVENTUALLY_COMPARE(holds(), quint64(2));
    // Others may be among them that were read while the lock was handed over, before it was claimed.
    const auto reported = [&] {
        QList<LockHold> holds = monitor.model.activity(u"a"_s).holds;
        holds.removeIf([&](const LockHold &hold) {
            return hold.fencingToken != firstToken && hold.fencingToken != secondToken;
        });
        return holds;
    };
    EVENTUALLY_VERIFY(reported().size() == 2 && reported().at(1).held >= 0);
    const QList<LockHold> history = reported();
    QCOMPARE(history.at(0).client.id, QString::fromLatin1(idOf(&firstRegistry)));
    QCOMPARE(history.at(1).client.id, QString::fromLatin1(idOf(&secondRegistry)));
    QCOMPARE(history.at(1).client.pid, QCoreApplication::applicationPid());
    for (const LockHold &hold : {history.at(0), history.at(1)}) {
        QVERIFY(hold.waited >= 0 && hold.held >= 0);
        QVERIFY(hold.acquired + hold.held <= monitor.model.now());
    }
    QVERIFY(history.at(0).acquired <= history.at(1).acquired);
    for (const auto role :
         {LockMonitorModel::WaitP50, LockMonitorModel::WaitP95, LockMonitorModel::WaitP99, LockMonitorModel::HoldP95})
        EVENTUALLY_VERIFY(monitor.data(u"a"_s, role).toLongLong() >= 0);
    EVENTUALLY_COMPARE(monitor.data(u"a"_s, LockMonitorModel::Label).toString(), u"Orders::ship"_s);
    QCOMPARE(monitor.model.activity(u"b"_s).wait.count(), quint64(0));
    QCOMPARE(monitor.model.activity(u"no such lock"_s).wait.count(), quint64(0));
}

/// What comes and goes between two readings is seen, too.
void tst_LockReports::shortHolds()
{
    LockRegistry other(m_server.url());
    TestLock lasting(registry(), u"a"_s);
    TestLock lock(&other, u"a"_s);
    TestLock sign(&other, u"b"_s);
    QVERIFY(acquireNow(&lasting) && acquireNow(&sign)); // so that there is a row
    Monitor monitor(m_server.url());
    monitor.model.setInterval(1h);
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s) && reports(monitor, u"b"_s));
    lasting.release();
    constexpr int Count = 400; // more than are kept, and in less time than an interval
    for (int i = 0; i < Count; ++i) {
        QVERIFY(acquireNow(&lock));
        lock.release();
    }
    EVENTUALLY_COMPARE(monitor.model.activity(u"a"_s).hold.count(), quint64(Count + 1));
    const LockActivity activity = monitor.model.activity(u"a"_s);
    QCOMPARE(activity.wait.count(), quint64(Count));
    QVERIFY(activity.holds.size() > 0 && activity.holds.size() <= LockMonitorModel::MaximumHolds);
    QCOMPARE(activity.holds.last().client.id, QString::fromLatin1(idOf(&other)));
    for (qsizetype i = 1; i < activity.holds.size(); ++i)
        QVERIFY(activity.holds.at(i - 1).acquired <= activity.holds.at(i).acquired);
}

/// A lock that is never held when it could be read, and one that the pattern excludes.
void tst_LockReports::holdsWithoutRow()
{
    TestLock sign(registry(), u"a"_s);
    TestLock lock(registry(), u"ab"_s);
    TestLock other(registry(), u"b"_s);
    QVERIFY(acquireNow(&sign));
    Monitor monitor(m_server.url());
    QSignalSpy ended(&monitor.model, &LockMonitorModel::holdEnded);
    monitor.model.setInterval(1h);
    monitor.model.setPattern(u"a*"_s);
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s));
    QList<qint64> given;
    for (TestLock *const next : {&other, &lock, &lock, &sign}) {
        QVERIFY(acquireNow(next));
        given += next->fencingToken();
        next->release();
    }
    sign.release(); // the second level
    EVENTUALLY_COMPARE(ended.size(), 3);
    QCOMPARE(monitor.model.rowOf(u"ab"_s), -1);
    QList<qint64> tokens;
    for (const QVariantList &arguments : ended) {
        const auto hold = arguments.at(1).value<LockHold>();
        if (arguments.first() == u"ab"_s)
            tokens += hold.fencingToken;
        QCOMPARE(hold.client.id, QString::fromLatin1(idOf(registry())));
        QVERIFY(hold.held >= 0 && hold.waited >= 0 && hold.acquired + hold.held <= monitor.model.now());
    }
    QCOMPARE(tokens, given.sliced(1, 2));
}

void tst_LockReports::failedAndLost()
{
    LockRegistry other(m_server.url());
    TestLock holder(registry(), u"a"_s);
    TestLock busy(&other, u"a"_s);
    TestLock sign(&other, u"b"_s);
    QVERIFY(acquireNow(&holder) && acquireNow(&sign));
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s) && reports(monitor, u"b"_s));
    QVERIFY(joinQueue(&busy));
    busy.cancel();
    EVENTUALLY_COMPARE(monitor.model.activity(u"a"_s).failed, quint64(1));
    QCOMPARE(awaited(other.forceRelease(u"a"_s)).value, LockRegistry::Done);
    EVENTUALLY_COMPARE(holder.spies.lost.size(), 1);
    QVERIFY(acquireNow(&busy));
    EVENTUALLY_COMPARE(monitor.model.activity(u"a"_s).lost, quint64(1));
    QCOMPARE(monitor.model.activity(u"a"_s).hold.count(), quint64(1));
}

/// They have one fencing token together.
void tst_LockReports::readers()
{
    LockRegistry other(m_server.url());
    const LockOptions shared = options().withMode(LockOptions::Shared);
    TestLock first(registry(), u"a"_s, shared);
    TestLock second(&other, u"a"_s, shared);
    TestLock sign(&other, u"b"_s);
    QVERIFY(acquireNow(&first) && acquireNow(&second) && acquireNow(&sign));
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s) && reports(monitor, u"b"_s));
    second.release();
    EVENTUALLY_COMPARE(monitor.model.activity(u"a"_s).hold.count(), quint64(1));
    QCOMPARE(monitor.model.activity(u"a"_s).holds.last().client.id, QString::fromLatin1(idOf(&other)));
}

/// More than fit into one report.
void tst_LockReports::manyLocks()
{
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 600; ++i) {
        locks.push_back(std::make_unique<TestLock>(registry(), u"many:%1"_s.arg(i)));
        locks.back()->acquire();
    }
    EVENTUALLY_VERIFY(all(locks, [](const auto &lock) { return lock->isHeld(); }));
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(all(locks, [&](const auto &lock) { return reports(monitor, lock->name()); }));
}

/// The monitor misses some, and asks for everything again.
void tst_LockReports::reportsAreLost()
{
    TestLock lock(registry(), u"a"_s, options().withLabel(u"Orders::ship"_s));
    QVERIFY(acquireNow(&lock));
    Monitor monitor(m_server.url());
    const auto label = [&] { return monitor.data(u"a"_s, LockMonitorModel::Label).toString(); };
    EVENTUALLY_COMPARE(label(), u"Orders::ship"_s);
    // The number is not the next one, and what it says is not so.
    const QByteArray report = R"(report {"client":")" + idOf(registry())
            + R"(","number":999,"locks":[{"lock":"lock:a","now":[]}]})";
    m_server.command({"PUBLISH", channelOf(&monitor.registry), report});
    EVENTUALLY_COMPARE(label(), QString());
    EVENTUALLY_COMPARE(label(), u"Orders::ship"_s);
}

/// Reports about the same locks, each time from the beginning.
void tst_LockReports::watchedAgain()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s));
    LockMonitorModel second(&monitor.registry); // has the same client id
    EVENTUALLY_VERIFY(second.index(0).data(LockMonitorModel::Since).toLongLong() > 0);
    monitor.model.setPattern(u"a*"_s);
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s));
    monitor.model.setActive(false);
    lock.release();
    QVERIFY(acquireNow(&lock));
    monitor.model.setActive(true);
    EVENTUALLY_COMPARE(monitor.data(u"a"_s, LockMonitorModel::FencingToken).toLongLong(), lock.fencingToken());
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s));
}

/// More than eight objects of one client, of which the last one gets the lock; and an application that shows its own.
void tst_LockReports::manyObjects()
{
    Monitor monitor(m_server.url());
    std::vector<std::unique_ptr<TestLock>> locks;
    for (int i = 0; i < 12; ++i) {
        locks.push_back(std::make_unique<TestLock>(&monitor.registry, u"a"_s, options().withLabel(QString::number(i))));
        locks.back()->acquire();
    }
    for (int i = 0; i < 12; ++i) {
        EVENTUALLY_VERIFY(locks.at(size_t(i))->isHeld());
        if (i <= 1 || i == 11)
            EVENTUALLY_COMPARE(monitor.data(u"a"_s, LockMonitorModel::Label).toString(), QString::number(i));
        locks.at(size_t(i))->release();
    }
}

/// Each hold counts once, also that of an object that is destroyed; a MultiLock's attempts do not count.
void tst_LockReports::countedOnce()
{
    TestLock lasting(registry(), u"a"_s);
    QVERIFY(acquireNow(&lasting));
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s));
    lasting.release();
    for (int i = 0; i < 5; ++i) {
        TestLock lock(registry(), u"a"_s);
        QVERIFY(acquireNow(&lock));
        QVERIFY(acquireNow(&lock)); // one more level
    }
    QDistLock::MultiLock several(registry(), {u"a"_s, u"b"_s});
    TestLock busy(registry(), u"b"_s);
    QVERIFY(acquireNow(&busy));
    several.acquire();
    EVENTUALLY_COMPARE(several.state(), DistributedLock::Acquiring);
    busy.release();
    EVENTUALLY_VERIFY(several.isHeld());
    TestLock waiter(registry(), u"a"_s);
    QVERIFY(joinQueue(&waiter));
    waiter.cancel(); // the last thing that is counted
    EVENTUALLY_COMPARE(monitor.model.activity(u"a"_s).failed, quint64(1));
    QCOMPARE(monitor.model.activity(u"a"_s).wait.count(), quint64(6));
    QCOMPARE(monitor.model.activity(u"a"_s).hold.count(), quint64(6));
    QCOMPARE(monitor.model.activity(u"a"_s).lost, quint64(0));
}

/// A client whose event loop is blocked.
void tst_LockReports::silent()
{
    Support::StoppableHolder holder(m_server.url(), u"a"_s);
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s));
    QCOMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    holder.stop();
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Silent));
    holder.goOn();
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
}

/// By a foreign monitor, with raw commands. Nothing is sent that nobody has asked for.
void tst_LockReports::asked()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    Support::RespClient subscriber;
    QVERIFY(subscriber.connectToUnix(m_server.socketPath()));
    const QByteArray channel = "lock:client:1f00000000000abc:monitor";
    subscriber.command({"SUBSCRIBE", channel});
    const QByteArray own = channelOf(registry());
    EVENTUALLY_VERIFY(m_server.command({"PUBLISH", own, "watch 1f00000000000abc 200 60"}).toInt() == 1);
    const auto nextReport = [&] {
        const QVariantList message = subscriber.readReply(1ms, true).toList();
        const QByteArray text = message.size() == 3 ? message.at(2).toByteArray() : QByteArray();
        return text.startsWith("report ") ? QJsonDocument::fromJson(text.sliced(7)).object() : QJsonObject();
    };
    QJsonObject report;
    EVENTUALLY_VERIFY(!(report = nextReport()).isEmpty());
    QCOMPARE(report.value(u"client"_s).toString().toLatin1(), idOf(registry()));
    QCOMPARE(report.value(u"pid"_s).toInteger(), QCoreApplication::applicationPid());
    const QJsonObject first = report.value(u"locks"_s).toArray().first().toObject();
    QCOMPARE(first.value(u"lock"_s).toString(), u"lock:a"_s);
    QCOMPARE(first.value(u"now"_s).toArray().first().toObject().value(u"fence"_s).toInteger(), lock.fencingToken());
    QVERIFY(!QJsonDocument(report).toJson().contains(m_server.get("lock:a"))); // the token
    EVENTUALLY_VERIFY(!(report = nextReport()).isEmpty());
    QVERIFY(report.value(u"locks"_s).toArray().isEmpty()); // nothing has changed
    // Ended by the monitor. From then on only another one gets reports.
    m_server.command({"PUBLISH", own, "watch 1f00000000000abc 200 0"});
    m_server.command({"PUBLISH", own, "watch 1f00000000000abc 200 nonsense"});
    lock.release();
    EVENTUALLY_COMPARE(lock.spies.released.size(), 1);
    while (!nextReport().isEmpty()) {
    }
    const qint64 before = m_server.commandsProcessed("publish");
    QVERIFY(acquireNow(&lock));
    m_server.command({"PUBLISH", own, "watch 1f00000000000abd 200 60"}); // for somebody else
    EVENTUALLY_VERIFY(m_server.commandsProcessed("publish") >= before + 3);
    QVERIFY(nextReport().isEmpty());
}

void tst_LockReports::forgedReports()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    Monitor monitor(m_server.url());
    EVENTUALLY_VERIFY(reports(monitor, u"a"_s));
    const QByteArray channel = channelOf(&monitor.registry);
    const QByteArray id = idOf(registry());
    const auto publish = [&](const QByteArray &report) {
        QCOMPARE(m_server.command({"PUBLISH", channel, "report " + report}).toInt(), 1);
    };
    publish("{");
    publish(R"({"client":"1f00000000000abc","locks":[{"lock":"lock:a","wait":[1,7]}]})"); // was not asked
    publish(R"({"client":")" + id + R"(","locks":[{"lock":"lock:b","now":[{"held":1}]},{"lock":"","wait":[1,7]}]})");
    publish(R"({"client":")" + id + R"(","locks":[{"lock":"lock:a","failed":3}]})");
    EVENTUALLY_COMPARE(monitor.model.activity(u"a"_s).failed, quint64(3)); // anybody can say so
    QCOMPARE(monitor.model.activity(u"a"_s).wait.count(), quint64(0));
    QCOMPARE(monitor.names(), QStringList{u"a"_s});
}

/// A user who reads the queue knows the token, and can prove a grant.
void tst_LockReports::noGrantFromMonitors()
{
    m_server.command({"SET", "lock:a", "foreign", "PX", "600000"});
    TestLock waiter(registry(), u"a"_s, options(Outlasting, LockOptions::Forever).withRetryInterval(Outlasting));
    QVERIFY(joinQueue(&waiter));
    const QByteArray channel = channelOf(registry());
    EVENTUALLY_COMPARE(m_server.subscriberCount(channel), 1);
    QByteArray token = m_server.command({"ZRANGE", "{lock:a}:queue", "0", "0"}).toList().value(0).toByteArray();
    if (token.startsWith('*'))
        token.remove(0, 1);
    const QVariantList time = m_server.command({"TIME"}).toList();
    const QByteArray hold = "99 " + time.value(0).toByteArray() + time.value(1).toByteArray().rightJustified(6, '0')
            + " 600000";
    const QByteArray grant = "grant " + token.split(':').value(1) + ' ' + hold + ' '
            + QCryptographicHash::hash(token + ' ' + hold, QCryptographicHash::Sha1).toHex();
    m_server.command({"PUBLISH", channel, grant});
    // The client has seen it when it answers the next message.
    const qint64 before = m_server.commandsProcessed("publish");
    m_server.command({"PUBLISH", channel, "watch 1f00000000000abc 200 60"});
    EVENTUALLY_VERIFY(m_server.commandsProcessed("publish") >= before + 2);
    QVERIFY(!waiter.isHeld());
    QCOMPARE(waiter.queuePosition(), 0);
    // It is a proven one: on the other channel the waiter believes it.
    m_server.command({"PUBLISH", "lock:client:" + idOf(registry()), grant});
    EVENTUALLY_VERIFY(waiter.isHeld());
}

void tst_LockReports::mayNotPublish()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    for (const QByteArray &right : {QByteArray("-publish"), QByteArray("resetchannels")}) {
        m_server.command({"ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", "&*", "+@all", right});
        QUrl url = m_server.tcpUrl();
        url.setUserInfo(u"limited:secret"_s);
        Monitor monitor(url);
        EVENTUALLY_VERIFY(monitor.hasProblem(u"waiting times, past holds and silent holders are not known"_s));
        EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
        QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::Since).toLongLong(), -1);
    }
}

void tst_LockReports::noMessages()
{
    const QUrl url(u"memory:noMessages"_s);
    LockRegistry registry(url);
    TestLock lock(&registry, u"a"_s);
    QVERIFY(acquireNow(&lock));
    Monitor monitor(url);
    EVENTUALLY_COMPARE(monitor.status(u"a"_s), int(LockMonitorModel::Held));
    EVENTUALLY_VERIFY(monitor.model.isComplete());
    QCOMPARE(monitor.model.problems(), QStringList());
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::Since).toLongLong(), -1);
    QCOMPARE(monitor.data(u"a"_s, LockMonitorModel::WaitP95).toLongLong(), -1);
}

QTEST_GUILESS_MAIN(tst_LockReports)
#include "tst_lockreports.moc"
