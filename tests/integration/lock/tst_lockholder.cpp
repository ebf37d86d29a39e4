// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Which process holds a lock, as the server's list of clients, LockInfo and the errors of other processes show it.

#include "support/locktest.h"

#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/LockInfo>
#include <QDistLock/LockResult>
#include <QDistLock/ScopedLock>

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qelapsedtimer.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qsysinfo.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;
using QDistLock::LockInfo;

namespace {

const auto Identity = u"db7:812:nightly"_s;
const auto HeldByIt = u"(held by nightly on db7, pid 812, "_s;

/// A holder that shares no code with the library, but has its protocol.
class RawHolder
{
public:
    static constexpr auto Id = "1aaaaaaaaaaaaaaa";

    /// \a name: of the connection; empty = none. Its number is in the token if \a withNumber.
    RawHolder(RedisServer &server, const QByteArray &name, bool withNumber)
    {
        bool isValid = m_client.connectToUnix(server.socketPath());
        if (!name.isEmpty())
            isValid &= m_client.command({"CLIENT", "SETNAME", name}).toByteArray() == "OK";
        QByteArray token = QByteArray(Id) + ":1:" + QByteArray(32, 'b');
        if (withNumber)
            token += QByteArray::number(m_client.command({"CLIENT", "ID"}).toLongLong());
        isValid &= m_client.command({"SET", "lock:job", token, "PX", "600000"}).toByteArray() == "OK";
        if (!isValid)
            qFatal("a holder of another make cannot acquire the lock");
    }
    void disconnect() { m_client.close(); }

private:
    RespClient m_client;
};

bool isBareHolder(const LockInfo &info)
{
    return info.holder.host.isEmpty() && info.holder.pid == 0 && info.holder.application.isEmpty();
}

} // namespace

class tst_LockHolder : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void init();
    void cleanup();

    void names_data();
    void names();
    void inspectAndList_data()
    {
        addRows<QUrl>("url", {{"redis", m_server.url()}, {"memory", QUrl(u"memory:holder"_s)}});
    }
    void inspectAndList();
    void errorTexts_data();
    void errorTexts();
    void noCommandUnlessTaken();
    void otherHolders_data();
    void otherHolders();
    void foreignHolder();
    void holderHasReconnected();
    void numberOfAnotherClient();
    void freeAgain();
    void mayNotList();
    void strangeReplies_data();
    void strangeReplies();
    void noReply();
    TIMING void noReplyDelaysLittle();
    TIMING void otherEventsAreNotDelayed();
    void registryDestroyedMeanwhile();
    TIMING void lockDestroyedMeanwhile();
    TIMING void serverStops();
    void twoRequests();
    void pollingIsBounded();
    void manyGiveUpTogether();
    void thousandsOfConnections_data();
    void thousandsOfConnections();

private:
    /// The names of the connections of this library's clients.
    QList<QByteArray> connectionNames();
    LockInfo inspect(LockRegistry *registry);
    /// The text of the BusyError of an attempt.
    QString busyText(LockRegistry *registry);
    /// True when such a text contains \a part; repeated, because the holder is looked up for 250 ms only.
    bool isTold(LockRegistry *registry, const QString &part);
    QString textWithoutReply();

    QString m_text; ///< the last one of isTold()
};

void tst_LockHolder::init()
{
    RedisLockTest::init();
    LockRegistry::setIdentity(Identity);
}

void tst_LockHolder::cleanup()
{
    LockTest::cleanup();
    LockRegistry::setIdentity(QString());
    QCoreApplication::setApplicationName(u"tst_lockholder"_s);
    qunsetenv("QDISTLOCK_IDENTITY");
}

QList<QByteArray> tst_LockHolder::connectionNames()
{
    QList<QByteArray> names;
    const QList<QByteArray> words = m_server.cli({"CLIENT", "LIST"}).replace('\n', ' ').split(' ');
    for (const QByteArray &word : words) {
        if (word.startsWith("name=qdistlock-"))
            names.append(word.sliced(5));
    }
    return names;
}

LockInfo tst_LockHolder::inspect(LockRegistry *registry)
{
    const QFuture<LockInfo> info = registry->inspect(u"job"_s);
    return eventually([&] { return info.isFinished(); }) ? info.result() : LockInfo();
}

QString tst_LockHolder::busyText(LockRegistry *registry)
{
    DistributedLock lock(registry, u"job"_s);
    const QFuture<LockResult> result = lock.tryAcquireAsync();
    if (!eventually([&] { return result.isFinished(); }))
        return u"no result"_s;
    return result.result().error == DistributedLock::BusyError ? result.result().errorString : u"not busy"_s;
}

bool tst_LockHolder::isTold(LockRegistry *registry, const QString &part)
{
    return eventually([&] {
        m_text = busyText(registry);
        return m_text.contains(part);
    });
}

void tst_LockHolder::names_data()
{
    addColumns<QString, QString>("identity", "application");
    QTest::addColumn<bool>("fromEnvironment"); // none
    QTest::addColumn<QByteArray>("suffix");
    const QByteArray pid = QByteArray::number(QCoreApplication::applicationPid());
    QTest::newRow("chosen") << Identity << QString() << false << QByteArray("@db7:812:nightly");
    QTest::newRow("none") << u"none"_s << QString() << false << QByteArray();
    QTest::newRow("none, environment") << Identity << QString() << true << QByteArray();
    QTest::newRow("hostile application") << u"db7::"_s << u"a b\r\nname=x\u00e4"_s << false
                                         << "@db7:" + pid + ":a_b__name_x_";
    QTest::newRow("long") << QString(100, u'h') + u":812:"_s + QString(100, u'a') << QString() << false
                          << '@' + QByteArray(16, 'h') + ":812:" + QByteArray(16, 'a');
}

void tst_LockHolder::names()
{
    QFETCH(QString, identity);
    QFETCH(QString, application);
    QFETCH(bool, fromEnvironment);
    QFETCH(QByteArray, suffix);
    LockRegistry::setIdentity(identity);
    QCoreApplication::setApplicationName(application);
    if (fromEnvironment)
        qputenv("QDISTLOCK_IDENTITY", "none");
    DistributedLock lock(registry(), u"job"_s);
    QVERIFY(acquireNow(&lock));
    const QByteArray client = "qdistlock-" + m_server.get("lock:job").split(':').first();
    QVERIFY(eventually([&] { return m_server.channels().size() == 1; }));
    QList<QByteArray> names;
    QVERIFY(eventually([&] {
        names = connectionNames();
        return names.size() == 2;
    }));
    QVERIFY(names.contains(client + "-sub"));
    QVERIFY2(names.contains(client + suffix), names.join(' ').constData());
    QVERIFY((client + suffix).size() <= 64);
    const LockInfo info = inspect(registry());
    QVERIFY(info.holder.connected);
    QCOMPARE(isBareHolder(info), suffix.isEmpty());
}

void tst_LockHolder::inspectAndList()
{
    QFETCH(QUrl, url);
    LockRegistry::setIdentity(QString());
    LockRegistry registry(url);
    LockRegistry other(url);
    const LockInfo free = inspect(&other);
    QVERIFY(!free.held && !free.holder.connected && isBareHolder(free));
    DistributedLock lock(&registry, u"job"_s);
    DistributedLock second(&registry, u"second"_s);
    QVERIFY(acquireNow(&lock) && acquireNow(&second));
    const auto listed = awaited(other.list(u"*"_s));
    QCOMPARE(listed.value.size(), 2);
    const QString host = QSysInfo::machineHostName();
    for (const LockInfo &info : {inspect(&other), listed.value.first(), listed.value.last()}) {
        QVERIFY(info.held && info.holder.connected);
        QVERIFY2(!info.holder.host.isEmpty() && host.startsWith(info.holder.host), qPrintable(info.holder.host));
        QCOMPARE(info.holder.pid, QCoreApplication::applicationPid());
        QCOMPARE(info.holder.application, QCoreApplication::applicationName());
    }
}

void tst_LockHolder::errorTexts_data()
{
    addColumns<QUrl, LockOptions, DistributedLock::Error>("url", "wanted", "error");
    const LockOptions once = options(30s, 0ms);
    const LockOptions wait = options(30s, 50ms);
    const LockOptions retries = options().withMaxRetries(1);
    for (const QUrl &url : {m_server.url(), QUrl(u"memory:holder"_s)}) {
        const QByteArray scheme = url.scheme().toLatin1();
        QTest::addRow("%s, once", scheme.constData()) << url << once << DistributedLock::BusyError;
        QTest::addRow("%s, wait", scheme.constData()) << url << wait << DistributedLock::TimeoutError;
        QTest::addRow("%s, retries", scheme.constData()) << url << retries << DistributedLock::BusyError;
    }
}

void tst_LockHolder::errorTexts()
{
    QFETCH(QUrl, url);
    QFETCH(LockOptions, wanted);
    QFETCH(DistributedLock::Error, error);
    LockRegistry registry(url);
    LockRegistry other(url);
    TestLock holder(&registry, u"job"_s);
    QVERIFY(acquireNow(&holder));
    // The connections are up before a short wait begins.
    QVERIFY(inspect(&other).held);
    const QDistLock::ScopedLock connected(QDistLock::LockAddress(u"connected"_s).withServer(url), options());
    QVERIFY(connected);

    // The holder is looked up for 250 ms only: if the machine is slow, ask again.
    bool isShown = false;
    for (const QDeadlineTimer end(60s); !isShown && !end.hasExpired();) {
        TestLock lock(&other, u"job"_s, wanted);
        const QFuture<LockResult> result = lock.acquireAsync();
        QVERIFY(eventually([&] { return result.isFinished(); }));
        m_text = lock.errorString();
        // A wait may be too short for an answer.
        if (wanted.wait == 50ms && result.result().error == DistributedLock::ConnectionError)
            continue;
        QVERIFY2(result.result().error == error, qPrintable(m_text));
        QCOMPARE(result.result().errorString, m_text);
        QCOMPARE(lock.spies.failed.size(), 1);
        QCOMPARE(lock.state(), DistributedLock::Unlocked);
        isShown = m_text.contains(HeldByIt) && m_text.endsWith(u" s left)"_s);
    }
    QVERIFY2(isShown, qPrintable(m_text));

    isShown = false;
    for (const QDeadlineTimer end(60s); !isShown && !end.hasExpired();) {
        const QDistLock::ScopedLock scope(QDistLock::LockAddress(u"job"_s).withServer(url), wanted);
        m_text = scope.result().errorString;
        if (wanted.wait == 50ms && scope.result().error == DistributedLock::ConnectionError)
            continue;
        QVERIFY2(scope.result().error == error, qPrintable(m_text));
        isShown = m_text.contains(HeldByIt);
    }
    QVERIFY2(isShown, qPrintable(m_text));
}

void tst_LockHolder::noCommandUnlessTaken()
{
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, {});
    QVERIFY(acquireNow(&lock));
    const QByteArray channel = "lock:client:" + m_server.get("lock:job").split(':').first();
    QVERIFY(eventually([&] { return m_server.subscriberCount(channel) == 1; }));
    const auto commands = [&] { return proxy.commandsForwarded() - proxy.commandsForwarded("PING"); };
    const qint64 before = commands();
    lock.release();
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1; })); // may send EVALSHA and EVAL
    QVERIFY(commands() - before <= 2);
    const qint64 warm = commands();
    for (int i = 2; i <= 5; ++i) {
        QVERIFY(acquireNow(&lock));
        lock.release();
        QVERIFY(eventually([&] { return lock.spies.released.size() == i; }));
    }
    QCOMPARE(commands() - warm, 8);
}

void tst_LockHolder::otherHolders_data()
{
    addColumns<QByteArray, bool, bool, bool>("suffix", "isNamed", "withNumber", "isShown");
    QTest::newRow("earlier version") << QByteArray() << true << false << false;
    QTest::newRow("no identity") << QByteArray() << true << true << false;
    QTest::newRow("usual") << QByteArray("@db7:812:nightly") << true << true << true;
    QTest::newRow("no number") << QByteArray("@db7:812:nightly") << true << false << true;
    QTest::newRow("later version") << QByteArray("@db7:812:nightly:more") << true << true << true;
    QTest::newRow("may not use SETNAME") << QByteArray() << false << true << false;
    QTest::newRow("hostile") << QByteArray("@<b>:812:\\n") << true << true << false;
    QTest::newRow("long") << "@db7:812:" + QByteArray(10000, 'x') << true << true << false;
    QTest::newRow("separators") << QByteArray("@@::::") << true << true << false;
}

void tst_LockHolder::otherHolders()
{
    QFETCH(QByteArray, suffix);
    QFETCH(bool, isNamed);
    QFETCH(bool, withNumber);
    QFETCH(bool, isShown);
    RawHolder holder(m_server, isNamed ? QByteArray("qdistlock-") + RawHolder::Id + suffix : QByteArray(), withNumber);
    LockInfo info = inspect(registry());
    QVERIFY(info.held && !info.foreign && info.holder.connected);
    QCOMPARE(info.holder.id, QString::fromLatin1(RawHolder::Id));
    QCOMPARE(isBareHolder(info), !isShown);
    QVERIFY2(isTold(registry(), isShown ? HeldByIt : u"(held by client 1aaaaaaaaaaaaaaa, "_s), qPrintable(m_text));
    QVERIFY2(!m_text.contains(u"not connected"_s), qPrintable(m_text));

    holder.disconnect();
    QVERIFY(eventually([&] { return !(info = inspect(registry())).holder.connected; }));
    QVERIFY(info.held && !info.foreign && isBareHolder(info));
    QVERIFY2(isTold(registry(), u"(held by client 1aaaaaaaaaaaaaaa, which is not connected, "_s), qPrintable(m_text));
}

void tst_LockHolder::foreignHolder()
{
    m_server.command({"SET", "lock:job", "theirs", "PX", "600000"});
    const LockInfo info = inspect(registry());
    QVERIFY(info.held && info.foreign && info.holder.connected && isBareHolder(info));
    const qint64 lists = m_server.commandsProcessed("client|list");
    QVERIFY2(isTold(registry(), u"(held by another library, "_s), qPrintable(m_text));
    const auto told = QRegularExpression(u"\\(held by another library, ([0-9]+) s left\\)$"_s).match(m_text);
    QVERIFY2(told.capturedView(1).toInt() > 300 && told.capturedView(1).toInt() <= 600, qPrintable(m_text));
    QVERIFY(eventually([&] {
        m_server.command({"SET", "lock:job", "theirs", "PX", "900"});
        return busyText(registry()).endsWith(u" ms left)"_s);
    }));
    QCOMPARE(m_server.commandsProcessed("client|list"), lists);
}

void tst_LockHolder::holderHasReconnected()
{
    LockRegistry other(m_server.url());
    TestLock holder(registry(), u"job"_s);
    QVERIFY(acquireNow(&holder));
    const QByteArray number = m_server.get("lock:job").split(':').value(2).sliced(32);
    QSignalSpy states(registry(), &LockRegistry::stateChanged);
    QCOMPARE(m_server.command({"CLIENT", "KILL", "ID", number}).toInt(), 1);
    QVERIFY(eventually([&] { return !states.isEmpty() && registry()->state() == LockRegistry::Ready; }));
    const LockInfo info = inspect(&other);
    QVERIFY(info.holder.connected);
    QCOMPARE(info.holder.application, u"nightly"_s);
    QVERIFY2(isTold(&other, HeldByIt), qPrintable(m_text));
}

void tst_LockHolder::numberOfAnotherClient()
{
    RespClient unrelated;
    QVERIFY(unrelated.connectToUnix(m_server.socketPath()));
    unrelated.command({"CLIENT", "SETNAME", "qdistlock-1bbbbbbbbbbbbbbb@db8:1:other"});
    const QByteArray token = "1aaaaaaaaaaaaaaa:1:" + QByteArray(32, 'b')
            + QByteArray::number(unrelated.command({"CLIENT", "ID"}).toLongLong());
    m_server.command({"SET", "lock:job", token, "PX", "600000"});
    const LockInfo info = inspect(registry());
    QVERIFY(info.held && !info.holder.connected && isBareHolder(info));
}

void tst_LockHolder::freeAgain()
{
    m_server.command({"SET", "lock:job", "theirs", "PX", "600000"});
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    proxy.answer("$-1\r\n", "GET", 1, 1'000'000);
    QVERIFY2(isTold(&registry, u"(it has become free since)"_s), qPrintable(m_text));
    QVERIFY2(m_text.endsWith(u"(it has become free since)"_s), qPrintable(m_text));
}

void tst_LockHolder::mayNotList()
{
    m_server.command({"ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-client|list"});
    QUrl url = m_server.url();
    url.setUserName(u"limited"_s);
    url.setPassword(u"secret"_s);
    LockRegistry limited(url);
    TestLock holder(registry(), u"job"_s);
    QVERIFY(acquireNow(&holder));
    m_server.command({"ACL", "LOG", "RESET"});
    for (int i = 0; i < 20; ++i)
        busyText(&limited);
    QVERIFY2(isTold(&limited, u"(held by client %1, "_s.arg(inspect(registry()).holder.id)), qPrintable(m_text));
    QVERIFY2(!m_text.contains(u"not connected"_s), qPrintable(m_text));
    const LockInfo info = inspect(&limited);
    QCOMPARE(info.error, DistributedLock::NoError);
    QVERIFY(info.held && info.holder.connected && isBareHolder(info));
    const QVariantList log = m_server.command({"ACL", "LOG"}).toList();
    QCOMPARE(log.size(), 1);
    QCOMPARE(log.first().toList().value(1).toInt(), 1); // counted once
}

void tst_LockHolder::strangeReplies_data()
{
    addColumns<QByteArray, QByteArray>("command", "reply");
    for (const char *const command : {"GET", "PTTL", "ZCARD", "CLIENT"}) {
        QTest::addRow("%s, error", command) << QByteArray(command) << QByteArray("-ERR unknown command\r\n");
        QTest::addRow("%s, no right", command) << QByteArray(command) << QByteArray("-NOPERM no\r\n");
        QTest::addRow("%s, number", command) << QByteArray(command) << QByteArray(":-9223372036854775808\r\n");
        QTest::addRow("%s, nothing", command) << QByteArray(command) << QByteArray("$-1\r\n");
        QTest::addRow("%s, empty", command) << QByteArray(command) << QByteArray("$0\r\n\r\n");
        QTest::addRow("%s, array", command) << QByteArray(command) << QByteArray("*2\r\n$1\r\na\r\n:1\r\n");
    }
    QTest::newRow("list without an end") << QByteArray("CLIENT") << QByteArray("$13\r\nid=1 name=qdi\r\n");
    QTest::newRow("list of nothing") << QByteArray("CLIENT") << QByteArray("$3\r\n\n\n\n\r\n");
}

void tst_LockHolder::strangeReplies()
{
    QFETCH(QByteArray, command);
    QFETCH(QByteArray, reply);
    RawHolder holder(m_server, QByteArray("qdistlock-") + RawHolder::Id + "@db7:812:nightly", true);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    QVERIFY2(isTold(&registry, HeldByIt), qPrintable(m_text));
    proxy.answer(reply, command);
    const QString text = busyText(&registry);
    QVERIFY2(text.contains(u"somebody else holds it"_s), qPrintable(text));
    QCOMPARE(registry.state(), LockRegistry::Ready);
}

QString tst_LockHolder::textWithoutReply()
{
    const RawHolder holder(m_server, QByteArray("qdistlock-") + RawHolder::Id + "@db7:812:nightly", true);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    proxy.dropReply("GET");
    return busyText(&registry);
}

void tst_LockHolder::noReply()
{
    const QString text = textWithoutReply();
    QVERIFY2(text.endsWith(u"or allow a wait"_s), qPrintable(text));
}

void tst_LockHolder::noReplyDelaysLittle()
{
    leavesRoomFor(1500ms);
    QElapsedTimer timer;
    timer.start();
    const QString text = textWithoutReply();
    QVERIFY2(timer.elapsed() < 2000, qPrintable(QString::number(timer.elapsed())));
    QVERIFY2(text.endsWith(u"or allow a wait"_s), qPrintable(text));
}

void tst_LockHolder::otherEventsAreNotDelayed()
{
    leavesRoomFor(200ms); // the holder is looked up for 250 ms
    RawHolder holder(m_server, {}, true);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"job"_s, {});
    proxy.dropReply("GET");
    lock.tryAcquire();
    QVERIFY(eventually([&] { return proxy.commandsForwarded("GET") == 1; }));
    QVERIFY(lock.spies.failed.isEmpty());
    lock.setOptions(options(-1ms));
    lock.acquire();
    processEvents();
    QCOMPARE(lock.spies.failed.size(), 2);
    QCOMPARE(lock.spies.failure(0), DistributedLock::BusyError);
    QCOMPARE(lock.spies.failure(1), DistributedLock::OptionsError);
}

void tst_LockHolder::registryDestroyedMeanwhile()
{
    RawHolder holder(m_server, {}, true);
    FaultProxy proxy(m_server);
    auto registry = std::make_unique<LockRegistry>(proxy.url());
    TestLock lock(registry.get(), u"job"_s, {});
    proxy.dropReply("GET");
    const QFuture<LockResult> result = lock.tryAcquireAsync();
    QVERIFY(eventually([&] { return proxy.commandsForwarded("GET") == 1; }));
    registry.reset();
    processEvents();
    QVERIFY(result.isFinished());
    QCOMPARE(result.result().error, DistributedLock::BusyError);
    QCOMPARE(lock.spies.failed.size(), 1);
}

void tst_LockHolder::lockDestroyedMeanwhile()
{
    leavesRoomFor(200ms); // the holder is looked up for 250 ms
    RawHolder holder(m_server, {}, true);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    auto lock = std::make_unique<DistributedLock>(&registry, u"job"_s);
    proxy.dropReply("GET");
    const QFuture<LockResult> cancelled = lock->tryAcquireAsync();
    QVERIFY(eventually([&] { return proxy.commandsForwarded("GET") == 1; }));
    lock.reset();
    QVERIFY(cancelled.isFinished());
    QCOMPARE(cancelled.result().error, DistributedLock::CancelledError);
}

void tst_LockHolder::serverStops()
{
    leavesRoomFor(900ms);
    RawHolder holder(m_server, {}, true);
    TestLock lock(registry(), u"job"_s, options(30s, 1s));
    QElapsedTimer timer;
    timer.start();
    QVERIFY(joinQueue(&lock));
    m_server.pause();
    const bool hasFailed = eventually([&] { return !lock.spies.failed.isEmpty(); });
    const qint64 elapsed = timer.elapsed();
    m_server.resume();
    QVERIFY(hasFailed);
    QVERIFY2(elapsed < 2500, qPrintable(QString::number(elapsed)));
}

/// A request that fails does not fall behind one that succeeds later.
void tst_LockHolder::twoRequests()
{
    RawHolder holder(m_server, {}, true);
    StillRegistry registry(m_server.url());
    TestLock lock(&registry, u"job"_s, options(1h, LockOptions::Forever));
    QStringList events;
    connect(&lock, &DistributedLock::acquired, this, [&] { events << u"acquired"_s; });
    connect(&lock, &DistributedLock::acquireFailed, this, [&] { events << u"failed"_s; });
    QVERIFY(joinQueue(&lock));
    lock.tryAcquire();
    sendNow();
    m_server.command({"DEL", "lock:job"});
    QVERIFY(eventually([&] {
        registry.pass(20ms);
        return lock.isHeld();
    }));
    QVERIFY(events == QStringList({u"failed"_s, u"acquired"_s})
            || events == QStringList({u"acquired"_s, u"acquired"_s}));
}

void tst_LockHolder::pollingIsBounded()
{
    RawHolder holder(m_server, QByteArray("qdistlock-") + RawHolder::Id + "@db7:812:nightly", true);
    QVERIFY2(isTold(registry(), HeldByIt), qPrintable(m_text));
    const qint64 before = m_server.commandsProcessed("client|list");
    QElapsedTimer timer;
    timer.start();
    for (int i = 0; i < 400; ++i)
        QVERIFY(busyText(registry()).contains(u"somebody else holds it"_s));
    const qint64 lists = m_server.commandsProcessed("client|list") - before;
    QVERIFY2(lists >= 99 && lists <= 100 * (timer.elapsed() / 1000 + 2), qPrintable(QString::number(lists)));
}

/// Their holder is not found by its number, and the server need not list all connections for each of them.
void tst_LockHolder::manyGiveUpTogether()
{
    RawHolder holder(m_server, QByteArray("qdistlock-") + RawHolder::Id + "@db7:812:nightly", false);
    std::vector<std::unique_ptr<LockRegistry>> registries;
    std::vector<std::unique_ptr<DistributedLock>> locks;
    qsizetype named = 0;
    int failed = 0;
    for (int i = 0; i < 100; ++i) {
        registries.push_back(std::make_unique<LockRegistry>(m_server.url()));
        locks.push_back(
                std::make_unique<TestLock>(registries.back().get(), u"job"_s, options(30s, LockOptions::Forever)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquireFailed, this, [&, lock] {
            ++failed;
            named += lock->errorString().contains(HeldByIt) ? 1 : 0;
        });
        lock->acquire();
    }
    const auto areQueued = [&] { return all(locks, [](const auto &lock) { return lock->queuePosition() >= 0; }); };
    QVERIFY(eventually(areQueued));
    const qint64 before = m_server.commandsProcessed("client|list");
    for (const auto &lock : locks)
        lock->tryAcquire(); // fails, while the queue is long
    QVERIFY(eventually([&] { return failed == 100; }));
    QCOMPARE(m_server.commandsProcessed("client|list"), before);
    QCOMPARE(named, 0);
}

void tst_LockHolder::thousandsOfConnections_data()
{
    addColumns<QByteArray, bool>("info", "isListed");
    QTest::newRow("ten thousand") << QByteArray("# Clients\r\nconnected_clients:10000\r\nmaxclients:50000\r\n") << true;
    QTest::newRow("more") << QByteArray("# Clients\r\nconnected_clients:10001\r\nmaxclients:50000\r\n") << false;
    QTest::newRow("unknown") << QByteArray("# Clients\r\nmaxclients:50000\r\n") << false;
}

/// The list of them all would be longer than a reply may be, which would cut the connection of all locks.
void tst_LockHolder::thousandsOfConnections()
{
    QFETCH(QByteArray, info);
    QFETCH(bool, isListed);
    RawHolder holder(m_server, QByteArray("qdistlock-") + RawHolder::Id + "@db7:812:nightly", false);
    FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    QVERIFY(inspect(&registry).holder.connected); // and the handshakes are over
    proxy.answer('$' + QByteArray::number(info.size()) + "\r\n" + info + "\r\n", "INFO", 1, 1'000'000);
    const qint64 lists = m_server.commandsProcessed("client|list");
    const LockInfo found = inspect(&registry);
    QVERIFY(found.held && found.holder.connected);
    QCOMPARE(isBareHolder(found), !isListed);
    busyText(&registry);
    QCOMPARE(m_server.commandsProcessed("client|list") > lists, isListed);
    QCOMPARE(registry.state(), LockRegistry::Ready);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_LockHolder)
#include "tst_lockholder.moc"
