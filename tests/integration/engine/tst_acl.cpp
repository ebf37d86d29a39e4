// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The least-privilege rules of docs/acl.txt: everything works under that of lockapp, and under that of lockmonitor, all
// that only reads; each single right is needed for what the documentation says, and neither user name nor password
// appears in any text.

#include "support/locktest.h"

#include "support/aclrules.h"
#include "support/eventually.h"
#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/respclient.h"
#include "support/rows.h"

#include <QDistLock/LockMonitorModel>

#include <QtCore/qfile.h>
#include <QtCore/qloggingcategory.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

namespace {

const auto User = u"canaryuser"_s;
const auto Password = u"canarypassword"_s;

/// Longer than any test.
constexpr milliseconds Lease = 10min;

/// What follows "ACL SETUSER", for User.
QByteArrayList shippedRule(const QByteArray &user = "lockapp")
{
    return QByteArrayList{User.toUtf8()} + aclRule(user, Password.toUtf8());
}

/// The commands, keys and channels that \a rule allows.
QByteArrayList rightsOf(QByteArrayList rule)
{
    rule.removeIf([](const QByteArray &word) { return !QByteArrayView("+~&").contains(word.front()); });
    return rule;
}

} // namespace

class tst_Acl : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();
    void pageQuotesTheRules();
    void everythingWorks();
    void formerConnectionIsEnded();
    void withoutOneRight_data();
    void withoutOneRight();
    void rulesHaveNoMoreThanThis();
    void wrongPassword_data();
    void wrongPassword();
    void rightTakenAwayWhileHeld();
    void userSwitchedOffAndOn();
    void holderMayNotPublish();
    void tokensRiseWithoutDel();
    void monitorSees();
    void monitorWithoutOneRight_data();
    void monitorWithoutOneRight();
    void monitorMayNotWrite();
    void monitorHasNoRightToWrite();

private:
    /// One lock of each kind, held until the end of the function.
    struct Locks
    {
        explicit Locks(const QUrl &server);
        LockRegistry registry;
        std::vector<std::unique_ptr<TestLock>> held;
        std::unique_ptr<TestLock> waiter;
        bool areHeld() const
        {
            return std::all_of(held.begin(), held.end(), [](const auto &lock) { return lock->isHeld(); });
        }
    };
    /// What a monitor with User cannot see of Locks, and whether it says why. \a reported: how many their clients
    /// report.
    QString unseen(int reported = 0);
    QUrl urlOf(const QUrl &url, const QString &user = User, const QString &password = Password) const
    {
        QUrl result = url;
        result.setUserName(user);
        result.setPassword(password);
        return result;
    }
    /// True if the server took the rule.
    bool setRule(const QList<QByteArray> &rule)
    {
        const QVariant reply = m_server.command(QList<QByteArray>{"ACL", "SETUSER"} + rule);
        return reply.toByteArray() == "OK";
    }
    QString failingOperations(bool maySubscribe = true);

    std::unique_ptr<LogCapture> m_log;
    QString m_texts; // all texts that were emitted, logged or returned
};

void tst_Acl::initTestCase()
{
    RedisLockTest::initTestCase();
    QLoggingCategory::setFilterRules(u"qdistlock.*=true"_s);
}

void tst_Acl::init()
{
    RedisLockTest::init();
    m_server.command({"SCRIPT", "FLUSH"});
    m_server.command({"ACL", "DELUSER", User.toUtf8()});
    QVERIFY(setRule(shippedRule()));
    m_texts.clear();
    m_log = std::make_unique<LogCapture>();
}

void tst_Acl::cleanup()
{
    LockTest::cleanup();
    const QString all = m_texts + m_log->text();
    m_log.reset();
    QVERIFY2(!all.contains(QLatin1String("canary")), qPrintable(all));
}

void tst_Acl::pageQuotesTheRules()
{
    QFile page(QStringLiteral(SERVERS_PAGE));
    QVERIFY(page.open(QIODevice::ReadOnly));
    const QByteArray text = page.readAll();
    QCOMPARE(aclLines().size(), 2);
    for (const QByteArray &line : aclLines())
        QVERIFY(text.contains('\n' + line + '\n'));
}

/// Does everything that a client can do. Returns what failed, and the error unless it names the right to grant.
QString tst_Acl::failingOperations(bool maySubscribe)
{
    m_server.command({"FLUSHALL"});
    m_server.command({"SCRIPT", "FLUSH"});
    QStringList failing;
    const auto denied = [&](const char *operation, DistributedLock::Error error, const QString &text) {
        m_texts += text;
        failing << QString::fromLatin1(operation);
        if (error == DistributedLock::NoError)
            failing << u"(no reason)"_s;
        else if (error != DistributedLock::PermissionError || !text.contains(QLatin1String("grant")))
            failing << u"(%1)"_s.arg(text);
    };
    const auto debugged = [&](const QObject *object) { QDebug(&m_texts) << object; };

    RegistryTime time;
    LockRegistry registry(urlOf(m_server.url()));
    time.govern(&registry);
    TestLock lock(&registry, u"job"_s, options(Lease, LockOptions::Forever));
    debugged(&registry);
    debugged(&lock);
    QDebug(&m_texts) << registry.server();
    const auto acquired = lock.acquireAsync();
    if (!time.passUntil([&] { return acquired.isFinished(); }))
        return u"acquire hangs"_s;
    if (!acquired.result().isAcquired())
        denied("acquire", acquired.result().error, acquired.result().errorString);
    if (!acquired.result().isAcquired() && m_server.exists("lock:job"))
        failing << u"(the key was left)"_s;
    if (acquired.result().isAcquired()) {
        const auto isDenied = [&] {
            return !lock.spies.errors.isEmpty() && lock.error() == DistributedLock::PermissionError;
        };
        time.pass(Lease / 3);
        time.passUntil([&] { return !lock.spies.renewed.isEmpty() || isDenied() || !lock.spies.lost.isEmpty(); });
        if (lock.spies.renewed.isEmpty())
            denied("renew", lock.error(), lock.errorString());
        lock.spies.errors.clear();
        const auto released = lock.releaseAsync();
        time.passUntil([&] { return released.isFinished() || isDenied(); });
        if (!released.isFinished() || !released.result())
            denied("release", lock.error(), lock.errorString());
    }
    m_server.command({"SET", "lock:taken", "foreign"});
    TestLock taken(&registry, u"taken"_s, options(Lease));
    const auto contended = taken.tryAcquireAsync();
    const auto inspected = registry.inspect(u"taken"_s);
    if (!eventually([&] { return contended.isFinished() && inspected.isFinished(); }))
        return u"contended acquire or inspect hangs"_s;
    m_texts += contended.result().errorString;
    if (contended.result().error != DistributedLock::BusyError)
        denied("contend", contended.result().error, contended.result().errorString);
    if (!inspected.result().held)
        denied("inspect", inspected.result().error, inspected.result().errorString);
    const auto listed = registry.list(u"*"_s);
    if (!eventually([&] { return listed.isFinished(); }))
        return u"list hangs"_s;
    if (listed.result().value.isEmpty())
        denied("list", listed.result().error, listed.result().errorString);
    const auto forced = registry.forceRelease(u"taken"_s);
    if (!eventually([&] { return forced.isFinished(); }))
        return u"forceRelease hangs"_s;
    if (forced.result().value != LockRegistry::Done || !forced.result())
        denied("forceRelease", forced.result().error, forced.result().errorString);

    // One lock waits in the queue for another, polls, and is served.
    LockRegistry otherRegistry(urlOf(m_server.url()));
    time.govern(&otherRegistry);
    TestLock holder(&registry, u"queued"_s, options(Lease));
    TestLock waiter(&otherRegistry, u"queued"_s, options(Lease, LockOptions::Forever));
    const auto held = holder.acquireAsync();
    const auto listening = otherRegistry.inspect(u"queued"_s); // connects
    time.passUntil([&] { return held.isFinished() && listening.isFinished(); });
    if (held.isFinished() && held.result().isAcquired()) {
        const auto waited = waiter.acquireAsync();
        QByteArray member;
        // Who cannot be woken does not join the queue.
        const bool queued = maySubscribe && time.passUntil([&] {
            member = m_server.command({"ZRANGE", "{lock:queued}:queue", "0", "0"}).toList().value(0).toByteArray();
            return !member.isEmpty() || waited.isFinished();
        });
        if (queued && !waited.isFinished()) {
            const QList<QByteArray> parts = member.split(':');
            const qint64 looks = m_server.commandsProcessed("evalsha");
            m_server.command({"PUBLISH", "lock:client:" + parts.value(0), "grant " + parts.value(1)});
            time.passUntil([&] { return m_server.commandsProcessed("evalsha") > looks || waited.isFinished(); });
        }
        const auto released = holder.releaseAsync();
        time.passUntil([&] { return released.isFinished() || holder.error() == DistributedLock::PermissionError; });
        if (!released.isFinished() || !released.result())
            m_server.command({"DEL", "lock:queued"}); // as if the lease were over
        time.passUntil([&] { return waited.isFinished(); });
        if (!released.isFinished() || !released.result())
            denied("handOver", holder.error(), holder.errorString());
        if (!waited.isFinished())
            failing << u"(the waiter hangs)"_s;
        else if (!waited.result().isAcquired())
            denied("wait", waited.result().error, waited.result().errorString);
    } else if (acquired.result().isAcquired()) {
        failing << u"(no holder to wait for)"_s;
    }
    if (failing.isEmpty()) {
        TestLock reader(&registry, u"shared"_s, options(Lease).withMode(LockOptions::Shared));
        const auto shared = reader.tryAcquireAsync();
        time.passUntil([&] { return shared.isFinished(); });
        if (!shared.isFinished() || !shared.result().isAcquired())
            denied("share", reader.error(), reader.errorString());
    }
    m_texts += registry.errorString() + lock.errorString() + waiter.errorString() + holder.errorString();
    debugged(&registry);
    return failing.join(u' ');
}

void tst_Acl::everythingWorks()
{
    QCOMPARE(failingOperations(), QString());

    LockRegistry registry(urlOf(m_server.url()));
    LockRegistry other(urlOf(m_server.tcpUrl()));
    TestLock lock(&registry, u"job"_s, options(Lease)); // no renewal notices the loss first
    QVERIFY(acquireNow(&lock));
    // The subscription: somebody else's force release is known at once.
    QVERIFY(eventually([&] { return m_server.channels().size() == 1; }));
    other.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
    // Nothing was refused.
    QCOMPARE(m_server.command({"ACL", "LOG"}).toList().size(), 0);
}

void tst_Acl::formerConnectionIsEnded()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(urlOf(proxy.url()));
    TestLock lock(&registry, u"job"_s, options(Lease));
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return m_server.channels().size() == 1; }));
    const qint64 killed = m_server.commandsProcessed("client|kill");
    proxy.setBlackHole(true); // the server does not learn of the end of these
    proxy.setBlackHole(false);
    registry.pass(Lease / 3);
    QVERIFY(registry.passUntil([&] { return lock.spies.renewed.size() == 1; }));
    QVERIFY(m_server.commandsProcessed("client|kill") > killed);
    QCOMPARE(m_server.command({"ACL", "LOG"}).toList().size(), 0);
}

void tst_Acl::withoutOneRight_data()
{
    addColumns<QByteArray, QString>("right", "failing");
    const auto row = [](const char *right, const char *failing) {
        QTest::newRow(right) << QByteArray(right) << QString::fromLatin1(failing);
    };
    const char *const everything = "acquire contend inspect list forceRelease";
    // Without scripts, these need transactions, which are no part of the rule.
    row("+evalsha", "acquire contend forceRelease");
    row("+eval", "acquire contend forceRelease"); // where the server does not know the scripts yet
    row("+get", "contend inspect list forceRelease wait");
    row("~lock:*", everything);
    row("~{lock:*}*", everything);
    row("+set", "acquire contend");
    row("+time", "acquire contend");
    row("+pexpire", "renew contend wait");
    row("+pexpireat", "share");
    row("+del", "release forceRelease");
    row("+pttl", "contend inspect list wait");
    row("+scan", "list");
    row("+zadd", "wait");
    row("+zrange", "wait");
    row("+zrem", "handOver");
    // Without these something is less good, and works. A waiter that is in the queue is served although it cannot poll.
    row("+zrank", "");
    row("+zscore", "");
    row("+publish", "");
    row("+zcard", "");
    row("+mget", "");
    row("+exists", "");
    row("+subscribe", "");
    row("&lock:client:*", "");
    row("+ping", "");
    row("+client|setname", "");
    row("+client|id", "");
    row("+client|list", "");
    row("+client|kill", "");
    row("+info", "");
    // For locks with minReplicas, see tst_replicas.
    row("+wait", "");
    row("+role", "");
}

void tst_Acl::withoutOneRight()
{
    QFETCH(QByteArray, right);
    QFETCH(QString, failing);
    QByteArrayList rule = shippedRule();
    QCOMPARE(rule.removeAll(right), 1);
    m_server.command({"ACL", "DELUSER", User.toUtf8()});
    QVERIFY(setRule(rule));
    m_server.command({"ACL", "LOG", "RESET"});
    QCOMPARE(failingOperations(right != "+subscribe" && right != "&lock:client:*"), failing);
}

// Each right has its row above.
void tst_Acl::rulesHaveNoMoreThanThis()
{
    QStringList rights;
    for (const QByteArray &word : rightsOf(shippedRule()))
        rights << QString::fromLatin1(word);
    rights.sort();
    QStringList tested{u"+evalsha"_s,   u"+eval"_s,          u"+get"_s,         u"~lock:*"_s,
                       u"~{lock:*}*"_s, u"+set"_s,           u"+time"_s,        u"+pexpire"_s,
                       u"+del"_s,       u"+pttl"_s,          u"+scan"_s,        u"+publish"_s,
                       u"+zcard"_s,     u"+mget"_s,          u"+exists"_s,      u"+zadd"_s,
                       u"+zrange"_s,    u"+zrank"_s,         u"+zscore"_s,      u"+zrem"_s,
                       u"+subscribe"_s, u"&lock:client:*"_s, u"+ping"_s,        u"+client|setname"_s,
                       u"+client|id"_s, u"+client|list"_s,   u"+client|kill"_s, u"+wait"_s,
                       u"+role"_s,      u"+info"_s,          u"+pexpireat"_s};
    tested.sort();
    QCOMPARE(rights, tested);
    QCOMPARE(rightsOf(shippedRule("lockmonitor")).size(), 18); // the rows of monitorWithoutOneRight()
}

void tst_Acl::wrongPassword_data()
{
    addColumns<QString, QString>("user", "password");
    QTest::newRow("wrong password") << User << u"canaryguess"_s;
    QTest::newRow("unknown user") << u"canarynobody"_s << Password;
    QTest::newRow("default user has none") << QString() << u"canaryguess"_s;
}

void tst_Acl::wrongPassword()
{
    QFETCH(QString, user);
    QFETCH(QString, password);
    FaultProxy proxy(m_server);
    LockRegistry registry(urlOf(proxy.url(), user, password));
    TestLock lock(&registry, u"job"_s, options(Lease, LockOptions::Forever).withRetryInterval(1ms));
    QCOMPARE(failureNow(&lock), DistributedLock::AuthenticationError);
    m_texts += lock.errorString() + registry.errorString();
    QDebug(&m_texts) << &registry << registry.server() << &lock;
    QVERIFY(!lock.errorString().isEmpty());
    // Not tried again until asked to.
    const qint64 connections = proxy.connectionsAccepted();
    QVERIFY(!eventually([&] { return proxy.connectionsAccepted() > connections; }, 200ms));
    QCOMPARE(proxy.commandsForwarded("EVALSHA"), 0);
    // The next use tries again: the password may have been set meanwhile.
    QVERIFY(setRule({user.isEmpty() ? QByteArray("default") : user.toUtf8(), "on", "resetpass", '>' + password.toUtf8(),
                     "~*", "&*", "+@all"}));
    lock.acquire();
    const bool acquired = eventually([&] { return lock.spies.acquired.size() == 1; });
    if (user.isEmpty())
        m_server.command({"ACL", "SETUSER", "default", "resetpass", "nopass"});
    else
        m_server.command({"ACL", "DELUSER", user.toUtf8()});
    QVERIFY(acquired);
}

// No storm of renewals: some a lease.
void tst_Acl::rightTakenAwayWhileHeld()
{
    FaultProxy proxy(m_server);
    StillRegistry registry(urlOf(proxy.url()));
    TestLock lock(&registry, u"job"_s, options(Lease));
    QVERIFY(acquireNow(&lock));
    registry.pass(Lease / 3);
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    const qint64 before = proxy.commandsForwarded("EVALSHA");
    // resetkeys would end the connection
    QVERIFY(setRule({User.toUtf8(), "-evalsha"}));
    registry.pass(Lease / 3);
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::PermissionError; }));
    QVERIFY(eventually([&] { // what was sent is answered meanwhile
        registry.pass(Lease / 300);
        return lock.spies.lost.size() == 1;
    }));
    QCOMPARE(lock.spies.reason(), DistributedLock::LeaseExpired);
    QCOMPARE(lock.spies.errors.size(), 1);
    QCOMPARE(lock.spies.errors.at(0).at(0).value<DistributedLock::Error>(), DistributedLock::PermissionError);
    const qint64 sent = proxy.commandsForwarded("EVALSHA") - before;
    QVERIFY2(sent >= 1 && sent <= 8, qPrintable(QString::number(sent)));
    m_texts += lock.errorString();
    QVERIFY2(lock.errorString().contains(QLatin1String("evalsha")), qPrintable(lock.errorString()));
}

// Both connections rest until asked. Only one is asked, and both are back.
void tst_Acl::userSwitchedOffAndOn()
{
    LockRegistry registry(urlOf(m_server.url()));
    LockRegistry other(m_server.url());
    TestLock lock(&registry, u"job"_s, options(Lease)); // no renewal notices the forced release first
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return m_server.channels().size() == 1; }));
    QVERIFY(releaseNow(&lock));
    QVERIFY(setRule({User.toUtf8(), "off"}));
    m_server.command({"CLIENT", "KILL", "USER", User.toUtf8()});
    QVERIFY(eventually([&] { return registry.state() == LockRegistry::Disconnected; }));
    const auto result = lock.tryAcquireAsync();
    QVERIFY(eventually([&] { return result.isFinished(); }));
    QCOMPARE(result.result().error, DistributedLock::AuthenticationError);
    m_texts += registry.errorString();
    QVERIFY(setRule({User.toUtf8(), "on"}));
    QVERIFY2(acquireNow(&lock), qPrintable(lock.errorString()));
    QVERIFY(eventually([&] { return m_server.channels().size() == 1; }));
    other.forceRelease(u"job"_s);
    QVERIFY(eventually([&] { return lock.spies.lost.size() == 1; }));
    QCOMPARE(lock.spies.reason(), DistributedLock::ForcedRelease);
}

// A counter ahead of the server's clock stays ahead, though what was tried first cannot be taken back.
void tst_Acl::tokensRiseWithoutDel()
{
    QByteArrayList rule = shippedRule();
    QCOMPARE(rule.removeAll("+del"), 1);
    m_server.command({"ACL", "DELUSER", User.toUtf8()});
    QVERIFY(setRule(rule));
    const qint64 last = qint64(m_server.command({"TIME"}).toList().value(0).toLongLong() + 600) * 1'000'000;
    m_server.command({"SET", "{lock:job}:fence", QByteArray::number(last)});
    LockRegistry registry(urlOf(m_server.url()));
    TestLock lock(&registry, u"job"_s);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.fencingToken(), last + 1);
    Spies spies(&lock);
    lock.release(); // which may not delete the key either
    QVERIFY(eventually([&] { return spies.holdsEnded() == 1 || lock.error() == DistributedLock::PermissionError; }));
    TestLock other(&registry, u"job"_s);
    m_server.command({"PEXPIRE", "lock:job", "1"}); // the first one's lease is over
    QVERIFY(acquireNow(&other));
    QCOMPARE(other.fencingToken(), last + 2);
    QVERIFY(m_server.command({"PTTL", "{lock:job}:fence"}).toLongLong() > 0);
}

// The next waiter cannot be notified.
void tst_Acl::holderMayNotPublish()
{
    QByteArrayList rule = shippedRule();
    QCOMPARE(rule.removeAll("&lock:client:*"), 1);
    m_server.command({"ACL", "DELUSER", User.toUtf8()});
    QVERIFY(setRule(rule));
    LockRegistry waiters(m_server.url());
    TestLock waiter(&waiters, u"job"_s,
                    options(Lease, LockOptions::Forever).withRetryInterval(Lease)); // it does not poll
    m_server.command({"SET", "lock:job", "foreign", "PX", "3600000"});
    QVERIFY(joinQueue(&waiter));
    LockRegistry registry(urlOf(m_server.url()));
    TestLock lock(&registry, u"job"_s, options(Lease));
    m_server.command({"DEL", "lock:job"});
    lock.tryAcquire();
    QVERIFY(eventually([&] { return lock.spies.acquiresEnded() == 1; }));
    QVERIFY(lock.spies.acquired.isEmpty());
    m_texts += lock.errorString();
    QCOMPARE(lock.spies.failure(), DistributedLock::PermissionError);
    QVERIFY2(lock.errorString().contains(QLatin1String("grant")), qPrintable(lock.errorString()));
    QVERIFY2(lock.errorString().contains(QLatin1String("channels")), qPrintable(lock.errorString()));
}

tst_Acl::Locks::Locks(const QUrl &server)
    : registry(server)
{
    const LockOptions exclusive = options(Lease, LockOptions::Forever);
    for (const auto &[name, options] :
         {std::pair("exclusive", exclusive), std::pair("shared", LockOptions(exclusive).withMode(LockOptions::Shared)),
          std::pair("permits", LockOptions(exclusive).withPermits(3))}) {
        held.push_back(std::make_unique<TestLock>(&registry, QString::fromLatin1(name), options));
        if (!acquireNow(held.back().get()))
            QTest::qFail(qPrintable(held.back()->errorString()), __FILE__, __LINE__);
    }
    waiter = std::make_unique<TestLock>(&registry, u"exclusive"_s, exclusive);
    if (!joinQueue(waiter.get()))
        QTest::qFail("not in the queue", __FILE__, __LINE__);
}

QString tst_Acl::unseen(int reported)
{
    LockRegistry registry(urlOf(m_server.url()));
    QDistLock::LockMonitorModel model(&registry);
    const auto data = [&model](const QString &name, int role) { return model.index(model.rowOf(name)).data(role); };
    QStringList unseen;
    const auto expect = [&unseen](const char *what, const std::function<bool()> &isSeen) {
        if (!isSeen())
            unseen << QString::fromLatin1(what);
    };
    eventually([&] { return model.isComplete() && model.count() >= reported; });
    const QString pid = QString::number(QCoreApplication::applicationPid());
    for (const auto &[name, kind] : {std::pair("exclusive", QDistLock::LockMonitorModel::Exclusive),
                                     std::pair("shared", QDistLock::LockMonitorModel::Readers),
                                     std::pair("permits", QDistLock::LockMonitorModel::Permitted)}) {
        const QString lock = QString::fromLatin1(name);
        if (data(lock, QDistLock::LockMonitorModel::Kind).toInt() != kind || model.rowOf(lock) < 0) {
            unseen << lock;
            continue;
        }
        expect("holder", [&] { return data(lock, QDistLock::LockMonitorModel::Holder).toString().contains(pid); });
        expect("time", [&] { return data(lock, QDistLock::LockMonitorModel::Deadline).toLongLong() > model.now(); });
        expect("token", [&] { return data(lock, QDistLock::LockMonitorModel::FencingToken).toLongLong() > 0; });
    }
    if (!unseen.contains(u"exclusive"_s)) {
        expect("queue", [&] { return data(u"exclusive"_s, QDistLock::LockMonitorModel::QueueLength) == 1; });
        const auto isReported = [&] {
            return data(u"exclusive"_s, QDistLock::LockMonitorModel::Since).toLongLong() > 0;
        };
        eventually([&] { return isReported() || !model.problems().isEmpty(); });
        expect("reports", isReported);
    }
    const auto waiters = awaited(registry.waiters(u"exclusive"_s));
    expect("waiters", [&] { return waiters.value.size() == 1; });
    expect("waiter", [&] { return waiters.value.value(0).client.pid == QCoreApplication::applicationPid(); });
    expect("list", [&] { return awaited(registry.list(u"*"_s)).value.size() == 3; });
    expect("inspect", [&] { return awaited(registry.inspect(u"exclusive"_s)).held; });
    unseen.removeDuplicates();
    m_texts += model.problems().join(u'\n') + waiters.errorString;
    if (!model.problems().isEmpty())
        unseen << u"(problems)"_s;
    return unseen.join(u' ');
}

void tst_Acl::monitorSees()
{
    const Locks locks(m_server.url());
    m_server.command({"ACL", "DELUSER", User.toUtf8()});
    QVERIFY(setRule(shippedRule("lockmonitor")));
    m_server.command({"ACL", "LOG", "RESET"});
    QCOMPARE(unseen(), QString());
    QCOMPARE(m_server.command({"ACL", "LOG"}).toList().size(), 0); // it asks for nothing that it may not have
    QCOMPARE(m_log->messages(QtWarningMsg), QStringList());
    QCOMPARE(m_log->messages(QtWarningMsg, "qdistlock.redis"), QStringList());
}

void tst_Acl::monitorWithoutOneRight_data()
{
    addColumns<QByteArray, QString>("right", "unseen");
    const auto row = [](const char *right, const char *unseen) {
        QTest::newRow(right) << QByteArray(right) << QString::fromLatin1(unseen);
    };
    const char *const everything = "exclusive shared permits list inspect (problems)";
    row("~lock:*", everything);
    row("~{lock:*}*", "exclusive shared permits waiters waiter list inspect (problems)");
    row("+get", everything);
    row("+pttl", everything);
    row("+scan", "list (problems)"); // the clients report their locks
    row("+zcard", "exclusive shared permits list (problems)");
    row("+time", "exclusive shared permits waiters waiter list (problems)");
    row("+zrange", "shared permits waiters waiter list");
    // Without scripts, locks of one holder are read by single commands.
    row("+evalsha", "shared permits list");
    row("+eval", "shared permits list"); // where the server does not know the scripts yet
    row("+client|list", "holder reports waiter (problems)");
    for (const char *const right : {"+publish", "+subscribe", "&lock:client:*:monitor"})
        row(right, "reports (problems)");
    row("+info", "reports (problems)"); // a holder that has connected again, or none, is not found
    // Without these, each connection adds refusals to the server's ACL LOG.
    row("+ping", "");
    row("+client|setname", "");
    row("+client|id", "");
}

void tst_Acl::monitorWithoutOneRight()
{
    QFETCH(QByteArray, right);
    const Locks locks(m_server.url());
    QByteArrayList rule = shippedRule("lockmonitor");
    QCOMPARE(rule.removeAll(right), 1);
    m_server.command({"ACL", "DELUSER", User.toUtf8()});
    QVERIFY(setRule(rule));
    m_server.command({"SCRIPT", "FLUSH"});
    QTEST(unseen(right == "+scan" ? 3 : 0), "unseen");
}

/// Neither with the API, not even with the holder's token, nor with commands, nor in a script.
void tst_Acl::monitorMayNotWrite()
{
    const Locks locks(m_server.url());
    m_server.command({"ACL", "DELUSER", User.toUtf8()});
    QVERIFY(setRule(shippedRule("lockmonitor")));
    const QByteArrayList keys = m_server.keys();

    LockRegistry registry(urlOf(m_server.url()));
    for (const LockOptions::Mode mode : {LockOptions::Exclusive, LockOptions::Shared}) {
        TestLock lock(&registry, u"free"_s, options(Lease).withMode(mode));
        QCOMPARE(failureNow(&lock), DistributedLock::PermissionError);
    }
    TestLock permit(&registry, u"permits"_s, options(Lease).withPermits(3));
    QCOMPARE(failureNow(&permit), DistributedLock::PermissionError);
    const auto errorOf = [](auto future) { return awaited(future).error; };
    const QByteArray token = m_server.get("lock:exclusive");
    QVERIFY(!token.isEmpty());
    QCOMPARE(errorOf(registry.renew(u"exclusive"_s, token, Lease)), DistributedLock::PermissionError);
    QCOMPARE(errorOf(registry.release(u"exclusive"_s, token)), DistributedLock::PermissionError);
    for (const QString &name : {u"exclusive"_s, u"shared"_s, u"permits"_s})
        QCOMPARE(errorOf(registry.forceRelease(name)), DistributedLock::PermissionError);
    QCOMPARE(errorOf(registry.setPermits(u"permits"_s, 1)), DistributedLock::PermissionError);

    RespClient client;
    QVERIFY(client.connectToUnix(m_server.socketPath()));
    QCOMPARE(client.command({"AUTH", User.toUtf8(), Password.toUtf8()}).toByteArray(), "OK");
    const QByteArray queue = "{lock:exclusive}:queue";
    const QList<QByteArrayList> commands{{"DEL", "lock:exclusive"},
                                         {"UNLINK", "lock:shared"},
                                         {"SET", "lock:exclusive", "1"},
                                         {"PEXPIRE", "lock:permits", "1"},
                                         {"ZADD", queue, "1", "1"},
                                         {"ZREM", queue, "1"},
                                         {"RENAME", queue, "lock:other"},
                                         {"FLUSHALL"},
                                         {"PUBLISH", "lock:client:1", "force 1"},
                                         {"CLIENT", "KILL", "TYPE", "normal"},
                                         {"CONFIG", "SET", "maxmemory", "1"}};
    for (const QByteArrayList &command : commands) {
        QVERIFY2(client.command(command).toByteArray().startsWith("-NOPERM"), command.join(' ').constData());
        const QByteArrayList script{"EVAL", "return redis.call(unpack(ARGV))", "0"};
        const QByteArray reply = client.command(script + command).toByteArray();
        const bool isRefused = reply.contains("can't run this command") || reply.contains("ACL failure in script")
                || reply.contains("not allowed from script") || reply.contains("can't publish to the channel");
        QVERIFY2(isRefused, (command.join(' ') + ": " + reply).constData());
    }
    QCOMPARE(m_server.keys(), keys);
    QVERIFY(locks.areHeld());
    QCOMPARE(locks.waiter->queuePosition(), 0);
}

// Scripts of a user can do no more than the user.
void tst_Acl::monitorHasNoRightToWrite()
{
    const QVariantList harmful = m_server.command({"ACL", "CAT", "write"}).toList();
    QVERIFY(harmful.contains(QByteArray("pexpire")));
    for (const QByteArray &right : rightsOf(shippedRule("lockmonitor"))) {
        QVERIFY2(!harmful.contains(right.sliced(1)), right.constData());
        QVERIFY2(!right.startsWith('&') || right.endsWith(":monitor"), right.constData()); // no grants
    }
}

QTEST_GUILESS_MAIN(tst_Acl)

#include "tst_acl.moc"
