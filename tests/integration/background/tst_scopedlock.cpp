// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Scoped locks: in any thread, without an event loop, kept by the library's background thread.

#include "support/locktesting.h"
#include "support/rows.h"

#include "support/testkinds.h"
#include "support/testprogram.h"
#include "support/workerthread.h"

#include "background/lockservice.h"
#include "lock/resolvedaddress.h"

#include <QDistLock/ScopedLock>

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qsemaphore.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;
using QDistLock::LockAddress;
using QDistLock::LockHold;
using QDistLock::LockLost;
using QDistLock::LockService;
using QDistLock::LockUnavailable;
using QDistLock::resolved;
using QDistLock::ScopedLock;

bool macrosInCpp20(); // scopedmacros20.cpp

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");

class Program : public TestProgram
{
public:
    explicit Program(const QStringList &arguments, ProcessChannelMode mode = ForwardedErrorChannel)
        : TestProgram(QStringLiteral(SCOPEDWORKER), arguments, mode)
    {
    }
};

} // namespace

class tst_ScopedLock : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void scope();
    void releaseWaits();
    void cost();
    void releaseComesBeforeNextAcquire();
    void releaseComesBeforeNextAcquireAfterScriptFlush();
    void reentry();
    void outerReleasedFirst();
    void noReentry();
    void serverGivenAndDefaultServer();
    void nestedAfterLoss();
    void otherThread();
    void waits();
    void timesOut();
    TIMING void waitsItsTime();
    void busy();
    void nothingSentFor_data();
    void nothingSentFor();
    void unreachable();
    TIMING void unreachableWithinItsWait();
    void acquiredAfterRepair();
    TIMING void unreachableAtOnce();
    void lost();
    TIMING void deletedKey();
    TIMING void frozenServer();
    TIMING void withoutRenewal();
    void releasedBeforeTheDeadline();
    TIMING void stalledService();
    TIMING void bodyBlocksForFiveLeases();
    void usedInOtherThread();
    void destroyedInOtherThread();
    void inTheServiceThread();
    void completion();
    void destroyedWhileWaiting();
    void contention();
    void macros();
    void macrosWithoutLock();
    void twoScopesOfOneMacro();
    void namesInArrays();
    void exceptionsTravel();
    void foundByName();
    void assertion();
    void applicationQuits_data()
    {
        addRows<QString>("mode", {{"application destroyed", u"quit"_s}, {"application left alone", u"heap"_s}});
    }
    void applicationQuits();
    TIMING void applicationQuitsAtOnce();
    TIMING void applicationQuitsWithFrozenServer();
    void anotherApplication();
    void noApplication();
    void forkedChildEnds();
    PROOF void processesThatAreKilled();

private:
    /// The number of commands that lock and unlock since the last call.
    qint64 commands();
    /// Waits until the key does not exist. The time-out is less than a lease: a key that nobody releases must not pass
    /// because it expires.
    bool isReleased(const QByteArray &key = Key)
    {
        return eventually([&] { return !m_server.exists(key); }, 20s);
    }
    bool nothingLeft() { return nothingLeft(m_server); }
    static bool nothingLeft(RedisServer &server)
    {
        return eventually([&] { return lockKeys(server).isEmpty(); }, 20s);
    }
    /// Waits until the lock's queue on the server has this length.
    static bool waitForQueue(RedisServer &server, int count, const QByteArray &name)
    {
        return eventually([&] { return server.command({"ZCARD", "{lock:" + name + "}:queue"}).toLongLong() == count; });
    }
    void acquireUnreachable(milliseconds wait);
    void quitApplication(const QString &mode);
    void quitWithFrozenServer(RedisServer &server);

    RedisServer m_server;
    qint64 m_commands = 0;
    QElapsedTimer m_quitting; ///< started when the program is asked to quit
};

qint64 tst_ScopedLock::commands()
{
    const QHash<QByteArray, qint64> calls = m_server.commandCalls();
    const qint64 all = calls.value("evalsha") + calls.value("eval");
    return all - std::exchange(m_commands, all);
}

void tst_ScopedLock::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void tst_ScopedLock::init()
{
    { // connects, subscribes, and makes the scripts known to the server
        const ScopedLock first(u"first"_s);
        QVERIFY2(first, qPrintable(first.result().errorString));
    }
    QVERIFY(eventually([&] { return m_server.channels().size() >= 1; }));
    QVERIFY(nothingLeft());
    commands();
}

void tst_ScopedLock::cleanup()
{
    if (QTest::currentTestFailed() || m_server.get(Key) == "somebody else")
        m_server.command({"DEL", Key});
    m_server.command({"DEL", "lock:foreign", "lock:wanted"});
    QVERIFY(nothingLeft());
}

void tst_ScopedLock::scope()
{
    qint64 before = 0;
    for (int i = 0; i < 3; ++i) {
        {
            const ScopedLock lock(Name);
            QVERIFY2(lock, qPrintable(lock.result().errorString));
            QVERIFY(lock.isHeld());
            QVERIFY(lock.result().isAcquired());
            QCOMPARE(lock.name(), Name);
            QVERIFY(m_server.exists(Key));
            QCOMPARE_GT(lock.fencingToken(), before);
            QCOMPARE(lock.result().fencingToken, lock.fencingToken());
            lock.check();
            before = lock.fencingToken();
        }
        QVERIFY(isReleased()); // the destructor does not wait
    }
}

void tst_ScopedLock::releaseWaits()
{
    for (int i = 0; i < 20; ++i) {
        ScopedLock lock(Name);
        QVERIFY(lock);
        QVERIFY(lock.release());
        QVERIFY(!m_server.exists(Key));
        QVERIFY(!lock.isHeld());
        QVERIFY(lock.result().isAcquired());
        QVERIFY(lock.fencingToken() > 0);
        QVERIFY(!lock.release());
        QVERIFY_EXCEPTION_THROWN(lock.check(), LockLost);
    }
}

void tst_ScopedLock::cost()
{
    const auto before = m_server.commandCalls();
    for (int i = 0; i < 100; ++i) {
        const ScopedLock lock(Name);
        QVERIFY(lock);
    }
    QVERIFY(isReleased());
    QCOMPARE(commands(), 200);
    QCOMPARE(m_server.commandCalls().value("zadd"), before.value("zadd")); // nobody queued
    QCOMPARE(m_server.commandCalls().value("eval"), before.value("eval"));
}

void tst_ScopedLock::releaseComesBeforeNextAcquire()
{
    for (int i = 0; i < 200; ++i) {
        const ScopedLock lock(Name, LockOptions().withWait(0ms));
        QVERIFY2(lock, qPrintable(lock.result().errorString));
    }
    QVERIFY(isReleased());
    QCOMPARE(commands(), 400);
}

void tst_ScopedLock::releaseComesBeforeNextAcquireAfterScriptFlush()
{
    for (int i = 0; i < 20; ++i) {
        {
            const ScopedLock lock(Name, LockOptions().withWait(0ms));
            QVERIFY2(lock, qPrintable(lock.result().errorString));
        }
        // The server may know the release script but not the acquire script, or the other way round.
        if (i % 2 == 0)
            m_server.command({"SCRIPT", "FLUSH"});
        {
            const ScopedLock lock(Name, LockOptions().withWait(0ms));
            QVERIFY2(lock, qPrintable(lock.result().errorString));
            if (i % 2 == 1)
                m_server.command({"SCRIPT", "FLUSH"});
            const ScopedLock other(u"other"_s, LockOptions().withWait(0ms)); // makes the acquire script known
            QVERIFY2(other, qPrintable(other.result().errorString));
        }
    }
}

void tst_ScopedLock::reentry()
{
    {
        const ScopedLock outer(Name);
        QVERIFY(outer);
        commands();
        for (int i = 0; i < 100; ++i) {
            const ScopedLock inner(Name, LockOptions().withWait(0ms));
            QVERIFY(inner);
            ScopedLock innermost(Name);
            QVERIFY(innermost);
            QCOMPARE(innermost.fencingToken(), outer.fencingToken());
            QVERIFY(innermost.release());
            QVERIFY(!innermost.isHeld());
            QVERIFY(inner.isHeld());
        }
        QCOMPARE(commands(), 0);
        QVERIFY(outer.isHeld());
        QVERIFY(m_server.exists(Key));
    }
    QVERIFY(isReleased());
    QCOMPARE(commands(), 1);
}

void tst_ScopedLock::outerReleasedFirst()
{
    auto outer = std::make_unique<ScopedLock>(Name);
    auto inner = std::make_unique<ScopedLock>(Name);
    QVERIFY(*outer && *inner);
    commands();
    QVERIFY(outer->release()); // ends a level
    QVERIFY(!outer->isHeld());
    QVERIFY(inner->isHeld());
    {
        const ScopedLock third(Name); // re-enters the lock that the inner scope keeps
        QCOMPARE(third.fencingToken(), inner->fencingToken());
    }
    QCOMPARE(commands(), 0);
    QVERIFY(inner->release());
    QVERIFY(!m_server.exists(Key));
    QCOMPARE(commands(), 1);
}

void tst_ScopedLock::noReentry()
{
    const ScopedLock outer(Name);
    const ScopedLock otherPrefix(LockAddress(Name).withKeyPrefix(u"app:"_s));
    const ScopedLock otherName(LockAddress(u"ob"_s).withKeyPrefix(u"lock:j"_s));
    const ScopedLock otherServer(LockAddress(Name).withServer(QUrl(u"memory:"_s)));
    QVERIFY(outer && otherPrefix && otherServer);
    QCOMPARE(otherName.fencingToken(), outer.fencingToken()); // the same key
    QVERIFY(otherPrefix.fencingToken() != outer.fencingToken());
    QVERIFY(otherServer.fencingToken() != outer.fencingToken());
    QVERIFY(m_server.exists("app:job"));
    QCOMPARE(commands(), 2);
}

void tst_ScopedLock::serverGivenAndDefaultServer()
{
    {
        const ScopedLock outer(Name);
        const ScopedLock inner(LockAddress(Name).withServer(m_server.url()), LockOptions().withWait(0ms));
        QVERIFY(inner);
        QCOMPARE(inner.fencingToken(), outer.fencingToken());
    }
    {
        const ScopedLock outer(LockAddress(Name).withServer(m_server.url()));
        const ScopedLock inner(Name, LockOptions().withWait(0ms));
        QVERIFY(inner);
        QCOMPARE(inner.fencingToken(), outer.fencingToken());
    }
    QVERIFY(isReleased());
    QCOMPARE(commands(), 4);
}

void tst_ScopedLock::nestedAfterLoss()
{
    const ScopedLock outer(Name, options());
    QVERIFY(outer);
    QVERIFY(endByForce(m_server.url(), Name));
    QVERIFY(eventually([&] { return !outer.isHeld(); }));
    {
        const ScopedLock inner(Name, options());
        QVERIFY(inner);
        QCOMPARE_GT(inner.fencingToken(), outer.fencingToken());
        const ScopedLock innermost(Name);
        QCOMPARE(innermost.fencingToken(), inner.fencingToken());
        QVERIFY(!outer.isHeld());
    }
    QVERIFY(isReleased());
}

void tst_ScopedLock::otherThread()
{
    const ScopedLock lock(Name);
    std::thread([&lock] {
        const ScopedLock other(Name, LockOptions().withWait(0ms));
        QVERIFY(!other);
        QCOMPARE(other.result().error, DistributedLock::BusyError);
        QCOMPARE(other.fencingToken(), 0);
        QVERIFY_EXCEPTION_THROWN(other.check(), LockLost);
        // These are thread-safe.
        QVERIFY(lock.isHeld());
        lock.check();
        QVERIFY(lock.fencingToken() > 0);
    }).join();
}

void tst_ScopedLock::waits()
{
    auto first = std::make_unique<ScopedLock>(Name, options());
    QVERIFY(*first);
    std::atomic<qint64> token{0};
    std::thread thread([&token] {
        const ScopedLock lock(Name, options(30s, LockOptions::Forever));
        token = lock.fencingToken();
    });
    QVERIFY(waitForQueue(m_server, 1, "job"));
    const qint64 before = first->fencingToken();
    first.reset();
    thread.join();
    QCOMPARE_GT(token.load(), before);
}

void tst_ScopedLock::timesOut()
{
    m_server.command({"SET", Key, "somebody else", "PX", "600000"});
    const LockResult result = timeOutOf(
            [](milliseconds wait) { return ScopedLock(Name, options(30s, wait)).result(); });
    QCOMPARE(result.error, DistributedLock::TimeoutError);
    QVERIFY2(result.errorString.contains(Name) && result.errorString.contains(m_server.socketPath()),
             qPrintable(result.errorString));
    QCOMPARE(m_server.get(Key), "somebody else");
}

void tst_ScopedLock::waitsItsTime()
{
    leavesRoomFor(200ms);
    m_server.command({"SET", Key, "somebody else", "PX", "600000"});
    QElapsedTimer timer;
    timer.start();
    const ScopedLock lock(Name, options(30s, 300ms));
    QCOMPARE_GE(timer.elapsed(), 290);
    QCOMPARE(lock.result().error, DistributedLock::TimeoutError);
}

void tst_ScopedLock::busy()
{
    m_server.command({"SET", Key, "somebody else", "PX", "600000"});
    ScopedLock lock(Name, LockOptions().withWait(0ms));
    QVERIFY(!lock);
    QCOMPARE(lock.result().error, DistributedLock::BusyError);
    QVERIFY(!lock.release());
    QCOMPARE(commands(), 1);
    QCOMPARE(m_server.get(Key), "somebody else");
}

void tst_ScopedLock::nothingSentFor_data()
{
    addColumns<QUrl, QString, LockOptions, DistributedLock::Error, QString>("server", "name", "options", "error",
                                                                            "named");
    const QUrl here;
    QTest::newRow("lease") << here << Name << LockOptions().withLease(0ms) << DistributedLock::OptionsError
                           << u"lease"_s;
    QTest::newRow("wait") << here << Name << LockOptions().withWait(-1ms) << DistributedLock::OptionsError << u"wait"_s;
    QTest::newRow("empty name") << here << QString() << LockOptions() << DistributedLock::NameError << u"empty"_s;
    QTest::newRow("name in braces") << here << u"a}b"_s << LockOptions() << DistributedLock::NameError << u"a}b"_s;
    QTest::newRow("server") << QUrl(u"http://localhost"_s) << Name << LockOptions() << DistributedLock::OptionsError
                            << u"http"_s;
}

void tst_ScopedLock::nothingSentFor()
{
    QFETCH(QUrl, server);
    QFETCH(QString, name);
    QFETCH(LockOptions, options);
    QFETCH(QString, named);
    const ScopedLock lock(LockAddress(name).withServer(server), options);
    QVERIFY(!lock);
    QTEST(lock.result().error, "error");
    QVERIFY2(lock.result().errorString.contains(named), qPrintable(lock.result().errorString));
    QCOMPARE(commands(), 0);
}

void tst_ScopedLock::acquireUnreachable(milliseconds wait)
{
    const QUrl nobody(u"unix://%1/nobody.sock"_s.arg(m_server.folder()));
    const ScopedLock lock(LockAddress(Name).withServer(nobody), options(30s, wait));
    QVERIFY(!lock);
    QCOMPARE(lock.result().error, DistributedLock::ConnectionError);
    QVERIFY2(lock.result().errorString.contains(QLatin1String("nobody.sock")), qPrintable(lock.result().errorString));
}

void tst_ScopedLock::unreachable()
{
    for (const milliseconds wait : {0ms, 300ms})
        acquireUnreachable(wait);
}

void tst_ScopedLock::unreachableWithinItsWait()
{
    leavesRoomFor(4s);
    for (const milliseconds wait : {0ms, 300ms}) {
        QElapsedTimer timer;
        timer.start();
        acquireUnreachable(wait);
        QCOMPARE_LT(timer.elapsed(), 4500);
    }
}

void tst_ScopedLock::acquiredAfterRepair()
{
    RedisServer::Options serverOptions = RedisServer::Options::withTcp();
    serverOptions.password = "first";
    Started<RedisServer> server(serverOptions);
    QUrl url = server.tcpUrl();
    url.setPassword(u"second"_s);
    const auto acquire = [&url](const QString &name) { // as the GUI thread does
        return LockService::instance()->acquire({resolved(LockAddress(name).withServer(url))},
                                                LockOptions().withWait(0ms), nullptr, true);
    };
    const LogCapture log;
    for (int i = 0; i < 2; ++i) {
        const auto refused = acquire(Name);
        QVERIFY(refused->waitUntilEnded(60s));
        QCOMPARE(refused->result().error, DistributedLock::AuthenticationError);
    }
    QCOMPARE(server.command({"CONFIG", "SET", "requirepass", "second"}).toByteArray(), QByteArray("OK"));
    const auto first = acquire(Name);
    const auto second = acquire(u"other"_s);
    QVERIFY(first->waitUntilEnded(60s) && second->waitUntilEnded(60s));
    QVERIFY2(first->isHeld(), qPrintable(first->result().errorString));
    QVERIFY2(second->isHeld(), qPrintable(second->result().errorString));
    QVERIFY(first->releaseAndWait(60s) && second->releaseAndWait(60s));
}

void tst_ScopedLock::unreachableAtOnce()
{
    // While attempts to connect fail, an acquire does not wait for the next one.
    leavesRoomFor(1500ms);
    Started<RedisServer> server(RedisServer::Options::withTcp());
    const auto acquire = [url = server.tcpUrl()](const QString &name) { // as the GUI thread does
        return LockService::instance()->acquire({resolved(LockAddress(name).withServer(url))},
                                                LockOptions().withWait(0ms), nullptr, true);
    };
    const auto first = acquire(Name);
    QVERIFY(first->waitUntilEnded(60s) && first->isHeld());
    QVERIFY(first->releaseAndWait(60s));
    const LogCapture log;
    server.stop();
    LockResult result;
    QVERIFY(eventually([&] {
        const auto unreachable = acquire(u"unreachable"_s);
        if (!unreachable->waitUntilEnded(60s))
            return false;
        result = unreachable->result();
        return result.error == DistributedLock::ConnectionError;
    }));
    QElapsedTimer timer;
    timer.start();
    for (int i = 0; i < 20; ++i)
        QVERIFY(acquire(u"unreachable"_s)->waitUntilEnded(60s));
    QCOMPARE_LT(timer.elapsed(), 2000);
}

void tst_ScopedLock::deletedKey()
{
    leavesRoomFor(900ms);
    ScopedLock lock(Name, options(3s));
    QVERIFY(lock);
    QCOMPARE(m_server.cli({"DEL", Key}), "1");
    QElapsedTimer timer;
    timer.start();
    while (lock.isHeld() && timer.elapsed() < 10000) {
    }
    QCOMPARE_LT(timer.elapsed(), 2000); // noticed by the next renewal, not at the deadline
    QVERIFY(!lock.release());
}

void tst_ScopedLock::lost()
{
    ScopedLock lock(Name, options());
    QVERIFY(lock);
    QVERIFY(endByForce(m_server.url(), Name));
    QVERIFY(eventually([&] { return !lock.isHeld(); }));
    try {
        lock.check();
        QFAIL("not thrown");
    } catch (const LockLost &lost) {
        QCOMPARE(lost.lockName(), Name);
        QVERIFY(QByteArray(lost.what()).contains("\"job\""));
    }
    QVERIFY(!lock.release());
}

void tst_ScopedLock::frozenServer()
{
    leavesRoomFor(300ms);
    ScopedLock lock(Name, options(1s));
    QVERIFY(lock);
    QElapsedTimer timer;
    timer.start();
    m_server.pause();
    while (lock.isHeld() && timer.elapsed() < 5000) {
    }
    const qint64 elapsed = timer.elapsed();
    m_server.resume();
    QCOMPARE_LT(elapsed, 2000);
    QVERIFY_EXCEPTION_THROWN(lock.check(), LockLost);
    QVERIFY(!lock.release());
}

void tst_ScopedLock::withoutRenewal()
{
    leavesRoomFor(150ms);
    const ScopedLock lock(Name, options(200ms).withAutoRenew(false));
    QVERIFY(lock);
    QElapsedTimer timer;
    timer.start();
    while (lock.isHeld() && timer.elapsed() < 5000) {
    }
    QCOMPARE_LT(timer.elapsed(), 2000);
}

void tst_ScopedLock::releasedBeforeTheDeadline()
{
    // The service deletes the key before the lease ends. isHeld() must be false by then.
    for (int i = 0; i < 50; ++i) {
        const ScopedLock lock(Name, options(50ms).withAutoRenew(false));
        while (m_server.exists(Key)) {
        }
        QVERIFY2(!lock.isHeld(), qPrintable(QString::number(i)));
    }
}

void tst_ScopedLock::stalledService()
{
    leavesRoomFor(150ms);
    const ScopedLock lock(Name, options(300ms));
    QVERIFY(lock);
    const auto stalled = std::make_shared<QSemaphore>();
    const auto end = std::make_shared<QSemaphore>(); // the service may use it after this function has returned
    const auto stall = LockService::instance()->acquire({resolved(u"stall"_s)}, {}, [stalled, end] {
        stalled->release();
        end->acquire();
    });
    QVERIFY(stalled->tryAcquire(1, 10000));
    QElapsedTimer timer;
    timer.start();
    while (lock.isHeld() && timer.elapsed() < 5000) {
    }
    const qint64 elapsed = timer.elapsed();
    end->release();
    QCOMPARE_LT(elapsed, 2000); // by the clock, because the service is blocked
    QVERIFY(eventually([&] { return stall->result().isAcquired(); }));
    QVERIFY(!lock.isHeld());
}

void tst_ScopedLock::bodyBlocksForFiveLeases()
{
    leavesRoomFor(70ms);
    constexpr milliseconds lease = 500ms;
    std::atomic<bool> holding{false}, done{false};
    bool heldToTheEnd = false;
    WorkerThread thread;
    thread.start([&] {
        const ScopedLock lock(Name, options(lease));
        holding = true;
        std::this_thread::sleep_for(5 * lease); // the work
        heldToTheEnd = lock.isHeld();
        done = true;
    });
    qint64 lowest = lease.count();
    int polls = 0;
    if (eventually([&] { return holding.load(); })) {
        while (!done) {
            const qint64 pttl = m_server.cli({"PTTL", Key}).toLongLong();
            if (!done) {
                lowest = std::min(lowest, pttl);
                ++polls;
            }
        }
    }
    thread.stop();
    QVERIFY(heldToTheEnd);
    QVERIFY2(lowest >= lease.count() / 2, qPrintable(QString::number(lowest)));
    QCOMPARE_GE(polls, 25);
}

void tst_ScopedLock::usedInOtherThread()
{
    ScopedLock lock(Name);
    QVERIFY(lock);
    {
        const LogCapture log;
        std::thread([&lock] { QVERIFY(!lock.release()); }).join();
        QCOMPARE(log.count({u"\"job\""_s, u"another thread"_s}), 1);
    }
    QCOMPARE(lock.result().error, DistributedLock::OptionsError);
    QVERIFY(lock.result().errorString.contains(QLatin1String("another thread")));
    QVERIFY(lock.isHeld());
    QVERIFY(m_server.exists(Key));
    QVERIFY(lock.release());
}

void tst_ScopedLock::destroyedInOtherThread()
{
    auto lock = std::make_unique<ScopedLock>(Name);
    QVERIFY(*lock);
    {
        const LogCapture log;
        std::thread([&lock] { lock.reset(); }).join();
        QCOMPARE(log.count({u"\"job\""_s, u"another thread"_s}), 1);
    }
    QVERIFY(isReleased());
    QVERIFY(!QDistLock::isLockedHere(Name));
    for (int i = 0; i < 20; ++i) { // later scopes are not affected
        const ScopedLock next(Name);
        QVERIFY(next);
        QVERIFY(QDistLock::isLockedHere(Name));
    }
}

void tst_ScopedLock::inTheServiceThread()
{
    QSemaphore done;
    QDistLock::LockResult result;
    bool inService = false;
    const auto hold = LockService::instance()->acquire({resolved(u"outer"_s)}, {}, [&] {
        inService = LockService::instance()->isCurrentThread();
        const LogCapture log;
        result = ScopedLock(Name).result();
        done.release();
    });
    QVERIFY(done.tryAcquire(1, 60000));
    QVERIFY(inService);
    QVERIFY(!LockService::instance()->isCurrentThread());
    QCOMPARE(result.error, DistributedLock::OptionsError);
    QVERIFY(result.errorString.contains(QLatin1String("own thread")));
    QVERIFY(hold->isHeld());
    QVERIFY(hold->releaseAndWait());
    QVERIFY(!hold->isHeld());
    QVERIFY(!hold->releaseAndWait());
}

void tst_ScopedLock::completion()
{
    std::atomic<int> calls{0};
    const auto first = LockService::instance()->acquire({resolved(Name)}, {}, [&calls] { ++calls; });
    QVERIFY(eventually([&] { return calls.load() == 1; }));
    QVERIFY(first->result().isAcquired());
    QVERIFY(first->fencingToken(resolved(Name)) > 0);
    const auto second = LockService::instance()->acquire({resolved(Name)}, LockOptions().withWait(0ms),
                                                         [&calls] { ++calls; });
    QVERIFY(eventually([&] { return calls.load() == 2; }));
    QCOMPARE(second->result().error, DistributedLock::BusyError);
    QVERIFY(!second->isHeld());
    QVERIFY(first->releaseAndWait());
    QCOMPARE(calls.load(), 2);
}

void tst_ScopedLock::destroyedWhileWaiting()
{
    const ScopedLock lock(Name);
    std::atomic<int> calls{0};
    auto waiting = LockService::instance()->acquire({resolved(Name)}, options(), [&calls] { ++calls; });
    QVERIFY(waitForQueue(m_server, 1, "job"));
    QCOMPARE(waiting->result().error, DistributedLock::CancelledError); // the acquire has not ended
    waiting.reset();
    QVERIFY(waitForQueue(m_server, 0, "job"));
    QCOMPARE(calls.load(), 0);
}

void tst_ScopedLock::contention()
{
    constexpr int Threads = 4, Turns = 250;
    std::atomic<int> value{0};
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < Threads; ++i) {
        threads.emplace_back([&] {
            for (int turn = 0; turn < Turns; ++turn) {
                const ScopedLock lock(Name, options());
                if (!lock) {
                    ++failures;
                    continue;
                }
                const int seen = value.load(std::memory_order_relaxed);
                std::this_thread::yield();
                value.store(seen + 1, std::memory_order_relaxed);
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    QCOMPARE(failures.load(), 0);
    QCOMPARE(value.load(), Threads * Turns);
}

void tst_ScopedLock::macros()
{
    {
        QDL_SCOPED_LOCK("j\xc3\xb6"
                        "b");
        QVERIFY(m_server.exists("lock:j\xc3\xb6"
                                "b"));
        QDL_SCOPED_LOCK(u"a");
        QDL_SCOPED_LOCK(QLatin1String("b"));
        QDL_SCOPED_LOCK(QStringView(u"c"), LockOptions());
        QDL_SCOPED_LOCK(Name, LockOptions().withWait(1min).withLease(10min));
        QDL_SCOPED_LOCK(u"%1-%2"_s.arg(1).arg(2));
        for (const char *name : {"a", "b", "c", "job", "1-2"})
            QVERIFY(m_server.exists(QByteArray("lock:") + name));
        QCOMPARE_GT(m_server.pttl(Key), 300000);
        QVERIFY(QDistLock::isLockedHere(u"1-2"_s));
    }
    QVERIFY(nothingLeft());
    bool entered = false;
    QDL_WITH_LOCK(Name)
    entered = QDistLock::isLockedHere(Name);
    else QFAIL("not acquired");
    QVERIFY(entered);
    QVERIFY(macrosInCpp20());
}

void tst_ScopedLock::macrosWithoutLock()
{
    m_server.command({"SET", Key, "somebody else", "PX", "600000"});
    try {
        QDL_SCOPED_LOCK(Name, LockOptions().withWait(0ms));
        QFAIL("not thrown");
    } catch (const LockUnavailable &error) {
        QCOMPARE(error.result().error, DistributedLock::BusyError);
        QCOMPARE(QString::fromUtf8(error.what()), error.result().errorString);
        QVERIFY(QByteArray(error.what()).contains("\"job\""));
    }
    bool refused = false;
    QDL_WITH_LOCK(Name, LockOptions().withWait(0ms))
    QFAIL("acquired");
    else refused = true;
    QVERIFY(refused);
}

#define LOCK_BOTH(first, second) \
  QDL_SCOPED_LOCK(first); \
  QDL_SCOPED_LOCK(second)

void tst_ScopedLock::twoScopesOfOneMacro()
{
    LOCK_BOTH("a", "b");
    QDL_ASSERT_LOCKED("a");
    QVERIFY(m_server.exists("lock:a"));
    QVERIFY(m_server.exists("lock:b"));
    QDL_WITH_LOCK("c") QDL_WITH_LOCK("d") QVERIFY(m_server.exists("lock:c") && m_server.exists("lock:d"));
}

void tst_ScopedLock::namesInArrays()
{
    // A name ends before the NULs that pad its array, or fills the whole array.
    const struct
    {
        char padded[16];
        char full[4];
        char16_t wide[8];
    } names{"padded", {'f', 'u', 'l', 'l'}, u"wide"};
    {
        QDL_SCOPED_LOCK(names.padded);
        QDL_SCOPED_LOCK(names.full);
        QDL_SCOPED_LOCK(names.wide);
        QVERIFY(m_server.exists("lock:padded"));
        QVERIFY(m_server.exists("lock:full"));
        QVERIFY(m_server.exists("lock:wide"));
    }
    // A NUL inside a name is refused; it does not end the name.
    try {
        QDL_SCOPED_LOCK("a\0b");
        QFAIL("acquired");
    } catch (const LockUnavailable &error) {
        QCOMPARE(error.result().error, DistributedLock::NameError);
    }
}

void tst_ScopedLock::exceptionsTravel()
{
    QPromise<void> promise;
    promise.start();
    promise.setException(LockUnavailable({DistributedLock::TimeoutError, u"why"_s, 0}));
    promise.finish();
    QFuture<void> future = promise.future();
    try {
        future.waitForFinished();
        QFAIL("not thrown");
    } catch (const LockUnavailable &error) {
        QCOMPARE(error.result().error, DistributedLock::TimeoutError);
        QCOMPARE(error.what(), "why");
    }
    QVERIFY_EXCEPTION_THROWN(LockLost(Name, u"why"_s).raise(), LockLost);
}

void tst_ScopedLock::foundByName()
{
    QVERIFY(!QDistLock::isLockedHere(Name));
    QCOMPARE(QDistLock::fencingTokenHere(Name), 0);
    {
        const ScopedLock lock(Name, options());
        QVERIFY(QDistLock::isLockedHere(Name));
        QVERIFY(QDistLock::isLockedHere(LockAddress(Name).withServer(m_server.url())));
        QVERIFY(!QDistLock::isLockedHere(LockAddress(Name).withServer(QUrl(u"memory:"_s))));
        QVERIFY(!QDistLock::isLockedHere(LockAddress(Name).withKeyPrefix(u"app:"_s)));
        QVERIFY(!QDistLock::isLockedHere(u"jo"_s));
        QCOMPARE(QDistLock::fencingTokenHere(Name), lock.fencingToken());
        QDL_ASSERT_LOCKED(Name);
        QDL_ASSERT_LOCKED("job");
        std::thread([] { QVERIFY(!QDistLock::isLockedHere(Name)); }).join();
        QVERIFY(endByForce(m_server.url(), Name));
        QVERIFY(eventually([&] { return !QDistLock::isLockedHere(Name); }));
        QCOMPARE(QDistLock::fencingTokenHere(Name), 0);
    }
    QVERIFY(!QDistLock::isLockedHere(Name));
}

void tst_ScopedLock::assertion()
{
    Program program({u"assert"_s, m_server.url().toString()}, QProcess::MergedChannels);
    QVERIFY(program.waitForEnd());
    const QByteArray output = program.output();
    QVERIFY2(output.contains("locked\n"), output.constData());
    QCOMPARE(program.exitStatus(), QProcess::CrashExit);
    for (const char *named : {"\"asserted\"", "onlyUnderLock", "scopedworker.cpp"})
        QVERIFY2(output.contains(named), output.constData());
    m_server.command({"DEL", "lock:asserted"}); // the program may have been aborted before its release
}

void tst_ScopedLock::quitApplication(const QString &mode)
{
    for (const char *name : {"lock:foreign", "lock:wanted"})
        m_server.command({"SET", name, "somebody else", "PX", "600000"});
    Program program({mode, m_server.url().toString()});
    QVERIFY2(program.waitForOutput("started\n"), program.output().constData());
    QVERIFY(waitForQueue(m_server, 1, "held"));
    QVERIFY(waitForQueue(m_server, 1, "foreign"));
    QVERIFY(waitForQueue(m_server, 1, "wanted"));
    m_quitting.start();
    program.closeWriteChannel();
    QVERIFY(program.waitForEnd());
    QVERIFY2(program.hasSucceeded(), program.output().constData());
    if (mode == QLatin1String("quit"))
        QCOMPARE(program.output().count("ended "), 3);
    m_server.command({"DEL", "lock:foreign", "lock:wanted"});
}

void tst_ScopedLock::applicationQuits()
{
    QFETCH(QString, mode);
    quitApplication(mode);
    QVERIFY(nothingLeft());
}

void tst_ScopedLock::applicationQuitsAtOnce()
{
    leavesRoomFor(200ms);
    for (const QString &mode : {u"quit"_s, u"heap"_s}) {
        quitApplication(mode);
        if (QTest::currentTestFailed())
            return;
        QCOMPARE(lockKeys(m_server), QList<QByteArray>()); // it has waited for the replies
        QCOMPARE_LT(m_quitting.elapsed(), 5000);
    }
}

void tst_ScopedLock::quitWithFrozenServer(RedisServer &server)
{
    QVERIFY(server.start());
    for (const char *name : {"lock:foreign", "lock:wanted"})
        server.command({"SET", name, "somebody else", "PX", "600000"});
    Program program({u"quit"_s, server.url().toString()});
    QVERIFY2(program.waitForOutput("started\n"), program.output().constData());
    QVERIFY(waitForQueue(server, 1, "held"));
    QVERIFY(waitForQueue(server, 1, "foreign"));
    QVERIFY(waitForQueue(server, 1, "wanted"));
    server.pause();
    m_quitting.start();
    program.closeWriteChannel();
    QVERIFY(program.waitForEnd());
    QVERIFY2(program.hasSucceeded(), program.output().constData());
}

void tst_ScopedLock::applicationQuitsWithFrozenServer()
{
    leavesRoomFor(200ms); // the program waits for 250 ms at most until it has written its releases
    RedisServer server;
    quitWithFrozenServer(server);
    if (QTest::currentTestFailed())
        return;
    QCOMPARE_LT(m_quitting.elapsed(), 900); // 250 ms, and the end of a process
    server.resume();
    server.command({"DEL", "lock:foreign", "lock:wanted"});
    // The releases that were written before the program ended.
    QVERIFY2(nothingLeft(server), lockKeys(server).join(' ').constData());
}

void tst_ScopedLock::anotherApplication()
{
    Program program({u"again"_s, m_server.url().toString()});
    QVERIFY(program.waitForEnd());
    QVERIFY2(program.hasSucceeded(), program.output().constData());
    QCOMPARE(program.output().count("QCoreApplication"), 1); // when no application object is left
    QVERIFY(nothingLeft());
}

void tst_ScopedLock::noApplication()
{
    Program program({u"none"_s, m_server.url().toString()});
    QVERIFY(program.waitForEnd());
    QVERIFY2(program.hasSucceeded(), program.output().constData());
    QVERIFY2(program.output().contains("QCoreApplication"), program.output().constData());
}

void tst_ScopedLock::forkedChildEnds()
{
#ifndef Q_OS_UNIX
    QSKIP("There is no fork().");
#endif
    const qsizetype before = m_server.channels().size();
    Program program({u"fork"_s, m_server.url().toString()});
    QVERIFY2(program.waitForOutput("started\n"), program.output().constData());
    // The background thread is idle now, so that it holds no mutex of Qt when the process forks without it.
    QVERIFY(eventually([&] { return m_server.channels().size() == before + 1; }));
    program.closeWriteChannel();
    QVERIFY(program.waitForEnd());
    QVERIFY2(program.hasSucceeded(), program.output().constData());
}

void tst_ScopedLock::processesThatAreKilled()
{
    constexpr int Processes = 8, Keys = 3;
    bool given = false;
    const int asked = qEnvironmentVariableIntValue("QDISTLOCK_SCOPED_SECONDS", &given);
    const milliseconds duration = given ? std::chrono::seconds(asked) : 8s;

    Started<RedisServer> server;
    const QStringList arguments{u"work"_s, server.url().toString(), server.socketPath(), QString::number(Keys)};
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < Processes; ++i)
        programs.push_back(std::make_unique<Program>(arguments));
    for (const auto &program : programs)
        QVERIFY(program->waitForOutput("started\n"));

    QSet<QByteArray> killed;
    QElapsedTimer timer;
    timer.start();
    while (timer.elapsed() + 3000 <= duration.count()) {
        const qint64 end = timer.elapsed() + 3000;
        eventually([&] { return timer.elapsed() >= end; }, 10s);
        // Preferably one that holds a lock.
        size_t victim = size_t(killed.size()) % Processes;
        for (int poll = 0; poll < 100; ++poll) {
            const QByteArray last = server.command({"LINDEX", "history:" + QByteArray::number(poll % Keys), "-1"})
                                            .toByteArray();
            const auto it = std::find_if(programs.begin(), programs.end(), [&last](const auto &program) {
                return last.startsWith("begin ") && last.contains(' ' + QByteArray::number(program->processId()) + ' ');
            });
            if (it != programs.end()) {
                victim = size_t(it - programs.begin());
                break;
            }
        }
        std::unique_ptr<Program> &program = programs[victim];
        QCOMPARE(program->state(), QProcess::Running);
        killed.insert(QByteArray::number(program->processId()));
        program->kill();
        QVERIFY(program->waitForEnd());
        program = std::make_unique<Program>(arguments);
    }
    eventually([&] { return timer.elapsed() >= duration.count(); }, duration);
    for (const auto &program : programs)
        program->closeWriteChannel();
    for (const auto &program : programs) {
        QVERIFY(program->waitForEnd(60s));
        QVERIFY(program->hasSucceeded());
    }

    qint64 turns = 0, cutShort = 0;
    QSet<QByteArray> owners;
    for (int key = 0; key < Keys; ++key) {
        const QByteArray number = QByteArray::number(key);
        const QVariantList history = server.command({"LRANGE", "history:" + number, "0", "-1"}, 60s).toList();
        qint64 fence = 0, ended = 0;
        QByteArray open; // the turn that has begun and not ended
        for (const QVariant &line : history) {
            const QByteArray text = line.toByteArray();
            const QByteArray turn = text.mid(text.indexOf(' ') + 1);
            const QList<QByteArray> parts = turn.split(' ');
            if (text.startsWith("begin ")) {
                if (!open.isEmpty()) { // only a killed process leaves a turn open
                    QVERIFY2(killed.contains(open.split(' ').at(1)), (open + " and " + turn).constData());
                    ++cutShort;
                }
                QVERIFY2(parts.at(0).toLongLong() > fence, (text + " after " + QByteArray::number(fence)).constData());
                fence = parts.at(0).toLongLong();
                owners.insert(parts.at(1) + ' ' + parts.at(2));
                open = turn;
            } else {
                QCOMPARE(turn, open);
                open.clear();
                ++ended;
            }
        }
        QCOMPARE(server.get("value:" + number).toLongLong(), ended); // no update was lost
        QVERIFY(ended > 0);
        turns += ended;
    }
    qInfo("%d processes of 4 threads, %d keys, %lld s: %lld turns, %lld killed, %lld turns cut short, "
          "%lld threads had turns; 0 overlaps, 0 lost updates",
          Processes, Keys, static_cast<long long>(duration.count() / 1000), static_cast<long long>(turns),
          static_cast<long long>(killed.size()), static_cast<long long>(cutShort),
          static_cast<long long>(owners.size()));
    QCOMPARE_GE(owners.size(), Processes * 4);
    QVERIFY(eventually([&] { return server.keys("*:queue").isEmpty(); }));
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ScopedLock)
#include "tst_scopedlock.moc"
