// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Scoped locks: any thread, no event loop in it, kept by the library's own thread.

#include "locktesting.h"

#include "support/workerthread.h"

#include "lockservice.h"

#include <QDistLock/ScopedLock>

#include <QtCore/qelapsedtimer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qprocess.h>
#include <QtCore/qsemaphore.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using namespace LockTesting;
using namespace Support;
using QDistLock::LockHold;
using QDistLock::LockLost;
using QDistLock::LockService;
using QDistLock::LockUnavailable;
using QDistLock::ScopedLock;

bool macrosInCpp20(); // scopedmacros20.cpp

namespace {

const QString Name = QStringLiteral("job");
const QByteArray Key = QByteArrayLiteral("lock:job");

class Program : public QProcess
{
public:
    explicit Program(const QStringList &arguments, ProcessChannelMode mode = ForwardedErrorChannel)
    {
        setProcessChannelMode(mode);
        start(QStringLiteral(SCOPEDWORKER), arguments);
    }
    ~Program() override
    {
        if (state() != QProcess::NotRunning)
            kill();
        waitForFinished();
    }
    QByteArray output()
    {
        m_output += readAllStandardOutput();
        return m_output;
    }
    bool says(const QByteArray &text)
    {
        return eventually([this, text] { return output().contains(text); }, 30s);
    }
    bool ends(milliseconds timeout = 30s)
    {
        return eventually([this] { return state() == QProcess::NotRunning; }, timeout);
    }

private:
    QByteArray m_output;
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
    void releaseComesBeforeNextAcquireOnForgetfulServer();
    void reentry();
    void outerReleasedFirst();
    void whatIsNoReentry();
    void serverGivenAndDefaultServer();
    void nestedAfterLoss();
    void otherThread();
    void waits();
    void timesOut();
    void busy();
    void nothingSentFor_data();
    void nothingSentFor();
    void unreachable();
    void atOnceAfterRepair();
    void deletedKey();
    void frozenServer();
    void withoutRenewal();
    void givenUpAtTheDeadline();
    void stalledService();
    void bodyBlocksForFiveLeases();
    void usedInOtherThread();
    void destroyedInOtherThread();
    void servicesOwnThread();
    void completion();
    void givenUpWhileWaiting();
    void contention();
    void macros();
    void macrosWithoutLock();
    void twoScopesOfOneMacro();
    void namesInArrays();
    void exceptionsTravel();
    void askedForByName();
    void assertion();
    void applicationQuits_data();
    void applicationQuits();
    void applicationQuitsWithFrozenServer();
    void anotherApplication();
    void noApplication();
    void forkedChildEnds();
    void processesThatAreKilled();

private:
    /// Commands that lock and unlock, since the last call.
    qint64 commands();

    RedisServer m_server;
    qint64 m_commands = 0;
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
    { // connected, listening, all scripts known
        const ScopedLock first(QStringLiteral("first"));
        QVERIFY2(first, qPrintable(first.result().errorString));
    }
    QTRY_VERIFY(m_server.channels().size() >= 1);
    QTRY_VERIFY(lockKeys(m_server).isEmpty());
    commands();
}

void tst_ScopedLock::cleanup()
{
    if (QTest::currentTestFailed() || m_server.get(Key) == "somebody else")
        m_server.command({"DEL", Key});
    m_server.command({"DEL", "lock:foreign"});
    QTRY_COMPARE(lockKeys(m_server), QList<QByteArray>());
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
        QTRY_VERIFY(!m_server.exists(Key)); // the destructor does not wait
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
    QTRY_VERIFY(!m_server.exists(Key));
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
    QTRY_VERIFY(!m_server.exists(Key));
    QCOMPARE(commands(), 400);
}

void tst_ScopedLock::releaseComesBeforeNextAcquireOnForgetfulServer()
{
    for (int i = 0; i < 20; ++i) {
        {
            const ScopedLock lock(Name, LockOptions().withWait(0ms));
            QVERIFY2(lock, qPrintable(lock.result().errorString));
        }
        // The release may be known, and the acquire not, or the other way round.
        if (i % 2 == 0)
            m_server.command({"SCRIPT", "FLUSH"});
        {
            const ScopedLock lock(Name, LockOptions().withWait(0ms));
            QVERIFY2(lock, qPrintable(lock.result().errorString));
            if (i % 2 == 1)
                m_server.command({"SCRIPT", "FLUSH"});
            const ScopedLock other(QStringLiteral("other"), LockOptions().withWait(0ms)); // makes acquire known
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
    QTRY_VERIFY(!m_server.exists(Key));
    QCOMPARE(commands(), 1);
}

void tst_ScopedLock::outerReleasedFirst()
{
    auto outer = std::make_unique<ScopedLock>(Name);
    auto inner = std::make_unique<ScopedLock>(Name);
    QVERIFY(*outer && *inner);
    commands();
    QVERIFY(outer->release()); // a level
    QVERIFY(!outer->isHeld());
    QVERIFY(inner->isHeld());
    {
        const ScopedLock third(Name); // re-enters what the inner one has kept
        QCOMPARE(third.fencingToken(), inner->fencingToken());
    }
    QCOMPARE(commands(), 0);
    QVERIFY(inner->release());
    QVERIFY(!m_server.exists(Key));
    QCOMPARE(commands(), 1);
}

void tst_ScopedLock::whatIsNoReentry()
{
    const ScopedLock outer(Name);
    const ScopedLock otherPrefix(Name, LockOptions().withKeyPrefix(QStringLiteral("app:")));
    const ScopedLock otherName(QStringLiteral("ob"), LockOptions().withKeyPrefix(QStringLiteral("lock:j")));
    const ScopedLock otherServer(QUrl(QStringLiteral("memory:")), Name);
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
        const ScopedLock inner(m_server.url(), Name, LockOptions().withWait(0ms));
        QVERIFY(inner);
        QCOMPARE(inner.fencingToken(), outer.fencingToken());
    }
    {
        const ScopedLock outer(m_server.url(), Name);
        const ScopedLock inner(Name, LockOptions().withWait(0ms));
        QVERIFY(inner);
        QCOMPARE(inner.fencingToken(), outer.fencingToken());
    }
    QTRY_VERIFY(!m_server.exists(Key));
    QCOMPARE(commands(), 4);
}

void tst_ScopedLock::nestedAfterLoss()
{
    const ScopedLock outer(Name, options(1s));
    QVERIFY(outer);
    QCOMPARE(m_server.cli({"DEL", Key}), "1");
    QTRY_VERIFY(!outer.isHeld());
    {
        const ScopedLock inner(Name, options(1s));
        QVERIFY(inner);
        QCOMPARE_GT(inner.fencingToken(), outer.fencingToken());
        const ScopedLock innermost(Name);
        QCOMPARE(innermost.fencingToken(), inner.fencingToken());
        QVERIFY(!outer.isHeld());
    }
    QTRY_VERIFY(!m_server.exists(Key));
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
        // Another thread may ask.
        QVERIFY(lock.isHeld());
        lock.check();
        QVERIFY(lock.fencingToken() > 0);
    }).join();
}

void tst_ScopedLock::waits()
{
    auto first = std::make_unique<ScopedLock>(Name, options(20s));
    QVERIFY(*first);
    std::atomic<qint64> token{0};
    std::thread thread([&token] {
        const ScopedLock lock(Name, options(20s, LockOptions::Forever));
        token = lock.fencingToken();
    });
    QTRY_COMPARE(m_server.command({"ZCARD", "{lock:job}:queue"}).toLongLong(), 1);
    const qint64 before = first->fencingToken();
    first.reset();
    thread.join();
    QCOMPARE_GT(token.load(), before);
}

void tst_ScopedLock::timesOut()
{
    m_server.command({"SET", Key, "somebody else", "PX", "60000"});
    QElapsedTimer timer;
    timer.start();
    const ScopedLock lock(Name, options(1s, 300ms));
    QCOMPARE_GE(timer.elapsed(), 290);
    QVERIFY(!lock);
    QCOMPARE(lock.result().error, DistributedLock::TimeoutError);
    QVERIFY2(lock.result().errorString.contains(Name)
                     && lock.result().errorString.contains(m_server.socketPath()),
             qPrintable(lock.result().errorString));
    QCOMPARE(m_server.get(Key), "somebody else");
}

void tst_ScopedLock::busy()
{
    m_server.command({"SET", Key, "somebody else", "PX", "60000"});
    ScopedLock lock(Name, LockOptions().withWait(0ms));
    QVERIFY(!lock);
    QCOMPARE(lock.result().error, DistributedLock::BusyError);
    QVERIFY(!lock.release());
    QCOMPARE(commands(), 1);
    QCOMPARE(m_server.get(Key), "somebody else");
}

void tst_ScopedLock::nothingSentFor_data()
{
    QTest::addColumn<QUrl>("server");
    QTest::addColumn<QString>("name");
    QTest::addColumn<LockOptions>("options");
    QTest::addColumn<DistributedLock::Error>("error");
    QTest::addColumn<QString>("named");
    const QUrl here;
    QTest::newRow("lease") << here << Name << LockOptions().withLease(0ms) << DistributedLock::OptionsError
                           << QStringLiteral("lease");
    QTest::newRow("wait") << here << Name << LockOptions().withWait(-1ms) << DistributedLock::OptionsError
                          << QStringLiteral("wait");
    QTest::newRow("empty name") << here << QString() << LockOptions() << DistributedLock::NameError
                                << QStringLiteral("empty");
    QTest::newRow("name in braces") << here << QStringLiteral("a}b") << LockOptions() << DistributedLock::NameError
                                    << QStringLiteral("a}b");
    QTest::newRow("server") << QUrl(QStringLiteral("http://localhost")) << Name << LockOptions()
                            << DistributedLock::OptionsError << QStringLiteral("http");
}

void tst_ScopedLock::nothingSentFor()
{
    QFETCH(QUrl, server);
    QFETCH(QString, name);
    QFETCH(LockOptions, options);
    QFETCH(QString, named);
    const ScopedLock lock(server, name, options);
    QVERIFY(!lock);
    QTEST(lock.result().error, "error");
    QVERIFY2(lock.result().errorString.contains(named), qPrintable(lock.result().errorString));
    QCOMPARE(commands(), 0);
}

void tst_ScopedLock::unreachable()
{
    const QUrl nobody(QStringLiteral("unix://%1/nobody.sock").arg(m_server.folder()));
    for (const milliseconds wait : {0ms, 300ms}) {
        QElapsedTimer timer;
        timer.start();
        const ScopedLock lock(nobody, Name, options(1s, wait));
        QVERIFY(!lock);
        QCOMPARE(lock.result().error, DistributedLock::ConnectionError);
        QVERIFY2(lock.result().errorString.contains(QLatin1String("nobody.sock")),
                 qPrintable(lock.result().errorString));
        QCOMPARE_LT(timer.elapsed(), 4500);
    }
}

void tst_ScopedLock::atOnceAfterRepair()
{
    RedisServer::Options serverOptions;
    serverOptions.tcp = true;
    serverOptions.password = "first";
    RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    QUrl url = server.tcpUrl();
    url.setPassword(QStringLiteral("second"));
    const auto acquire = [&url](const QString &name) { // as the GUI thread does
        return LockService::instance()->acquire(url, name, LockOptions().withWait(0ms), nullptr,
                                                true);
    };
    const LogCapture log;
    for (int i = 0; i < 2; ++i) {
        const auto refused = acquire(Name);
        QVERIFY(refused->waitUntilEnded(5s));
        QCOMPARE(refused->result().error, DistributedLock::AuthenticationError);
    }
    QCOMPARE(server.command({"CONFIG", "SET", "requirepass", "second"}).toByteArray(),
             QByteArray("OK"));
    const auto first = acquire(Name);
    const auto second = acquire(QStringLiteral("other"));
    QVERIFY(first->waitUntilEnded(5s) && second->waitUntilEnded(5s));
    QVERIFY2(first->isHeld(), qPrintable(first->result().errorString));
    QVERIFY2(second->isHeld(), qPrintable(second->result().errorString));
    QVERIFY(first->releaseAndWait(5s) && second->releaseAndWait(5s));

    // While it is tried again and again nobody waits for the next attempt.
    server.stop();
    LockResult result;
    QVERIFY(eventually([&] {
        const auto gone = acquire(QStringLiteral("gone"));
        if (!gone->waitUntilEnded(5s))
            return false;
        result = gone->result();
        return result.error == DistributedLock::ConnectionError;
    }));
    QElapsedTimer timer;
    timer.start();
    for (int i = 0; i < 20; ++i)
        QVERIFY(acquire(QStringLiteral("gone"))->waitUntilEnded(5s));
    QCOMPARE_LT(timer.elapsed(), 2000);
}

void tst_ScopedLock::deletedKey()
{
    ScopedLock lock(Name, options(6s));
    QVERIFY(lock);
    QCOMPARE(m_server.cli({"DEL", Key}), "1");
    QElapsedTimer timer;
    timer.start();
    while (lock.isHeld() && timer.elapsed() < 10000) { } // this thread does nothing for the lock
    QCOMPARE_LT(timer.elapsed(), 5000); // by the next renewal, not by the clock
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
    ScopedLock lock(Name, options(1s));
    QVERIFY(lock);
    QElapsedTimer timer;
    timer.start();
    m_server.pause();
    while (lock.isHeld() && timer.elapsed() < 5000) { }
    const qint64 elapsed = timer.elapsed();
    m_server.resume();
    QCOMPARE_LT(elapsed, 2000);
    QVERIFY_EXCEPTION_THROWN(lock.check(), LockLost);
    QVERIFY(!lock.release());
}

void tst_ScopedLock::withoutRenewal()
{
    const ScopedLock lock(Name, options(200ms).withAutoRenew(false));
    QVERIFY(lock);
    QElapsedTimer timer;
    timer.start();
    while (lock.isHeld() && timer.elapsed() < 5000) { }
    QCOMPARE_LT(timer.elapsed(), 2000);
}

void tst_ScopedLock::givenUpAtTheDeadline()
{
    // The key is given back before the lease ends; nobody may think that he holds it after that.
    for (int i = 0; i < 50; ++i) {
        const ScopedLock lock(Name, options(50ms).withAutoRenew(false));
        while (m_server.exists(Key)) { }
        QVERIFY2(!lock.isHeld(), qPrintable(QString::number(i)));
    }
}

void tst_ScopedLock::stalledService()
{
    const ScopedLock lock(Name, options(300ms));
    QVERIFY(lock);
    const auto stalled = std::make_shared<QSemaphore>();
    const auto end = std::make_shared<QSemaphore>(); // the service may leave it after this function
    const auto stall = LockService::instance()->acquire({}, QStringLiteral("stall"), {},
                                                        [stalled, end] {
                                                            stalled->release();
                                                            end->acquire();
                                                        });
    QVERIFY(stalled->tryAcquire(1, 10000));
    QElapsedTimer timer;
    timer.start();
    while (lock.isHeld() && timer.elapsed() < 5000) { }
    const qint64 elapsed = timer.elapsed();
    end->release();
    QCOMPARE_LT(elapsed, 2000); // whoever could tell of it
    QTRY_VERIFY(stall->result().isAcquired());
    QVERIFY(!lock.isHeld());
}

void tst_ScopedLock::bodyBlocksForFiveLeases()
{
    constexpr milliseconds lease = 2s;
    std::atomic<bool> holding{false}, done{false};
    bool heldToTheEnd = false;
    WorkerThread thread;
    thread.start([&] {
        const ScopedLock lock(Name, options(lease));
        holding = true;
        std::this_thread::sleep_for(5 * lease); // what the body does
        heldToTheEnd = lock.isHeld();
        done = true;
    });
    qint64 lowest = lease.count();
    int looks = 0;
    if (eventually([&] { return holding.load(); })) {
        while (!done) {
            const qint64 pttl = m_server.cli({"PTTL", Key}).toLongLong();
            if (!done) {
                lowest = std::min(lowest, pttl);
                ++looks;
            }
        }
    }
    thread.stop();
    QVERIFY(heldToTheEnd);
    QVERIFY2(lowest >= lease.count() / 2, qPrintable(QString::number(lowest)));
    QCOMPARE_GE(looks, 50);
}

void tst_ScopedLock::usedInOtherThread()
{
    ScopedLock lock(Name);
    QVERIFY(lock);
    {
        const LogCapture log;
        std::thread([&lock] { QVERIFY(!lock.release()); }).join();
        QCOMPARE(log.count({QStringLiteral("\"job\""), QStringLiteral("another thread")}), 1);
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
        QCOMPARE(log.count({QStringLiteral("\"job\""), QStringLiteral("another thread")}), 1);
    }
    QTRY_VERIFY(!m_server.exists(Key));
    QVERIFY(!QDistLock::isLockedHere(Name));
    for (int i = 0; i < 20; ++i) { // does not get in the way of later ones
        const ScopedLock next(Name);
        QVERIFY(next);
        QVERIFY(QDistLock::isLockedHere(Name));
    }
}

void tst_ScopedLock::servicesOwnThread()
{
    QSemaphore done;
    QDistLock::LockResult result;
    bool inService = false;
    const auto hold = LockService::instance()->acquire({}, QStringLiteral("outer"), {}, [&] {
        inService = LockService::instance()->isCurrentThread();
        const LogCapture log;
        result = ScopedLock(Name).result();
        done.release();
    });
    QVERIFY(done.tryAcquire(1, 10000));
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
    const auto first = LockService::instance()->acquire({}, Name, {}, [&calls] { ++calls; });
    QTRY_COMPARE(calls.load(), 1);
    QVERIFY(first->result().isAcquired());
    QVERIFY(first->fencingToken() > 0);
    const auto second = LockService::instance()->acquire({}, Name, LockOptions().withWait(0ms),
                                                         [&calls] { ++calls; });
    QTRY_COMPARE(calls.load(), 2);
    QCOMPARE(second->result().error, DistributedLock::BusyError);
    QVERIFY(!second->isHeld());
    QVERIFY(first->releaseAndWait());
    QCOMPARE(calls.load(), 2);
}

void tst_ScopedLock::givenUpWhileWaiting()
{
    const ScopedLock lock(Name);
    std::atomic<int> calls{0};
    auto waiting = LockService::instance()->acquire({}, Name, options(), [&calls] { ++calls; });
    QTRY_COMPARE(m_server.command({"ZCARD", "{lock:job}:queue"}).toLongLong(), 1);
    QCOMPARE(waiting->result().error, DistributedLock::CancelledError); // not ended
    waiting.reset();
    QTRY_COMPARE(m_server.command({"ZCARD", "{lock:job}:queue"}).toLongLong(), 0);
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
                const ScopedLock lock(Name, options(20s, 60s));
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

namespace {

int orMinusOne(const QString &name)
{
    QDL_LOCK_OR_RETURN(-1, name, LockOptions().withWait(0ms));
    return QDistLock::isLockedHere(name) ? 1 : 0;
}

void countUnlessTaken(int *count)
{
    QDL_LOCK_OR_RETURN_VOID("job", LockOptions().withWait(0ms));
    ++*count;
}

std::pair<int, int> pairOrNothing()
{
    QDL_LOCK_OR_RETURN((std::pair{0, 0}), u"job");
    return {1, 2};
}

} // namespace

void tst_ScopedLock::macros()
{
    {
        QDL_SCOPED_LOCK("j\xc3\xb6" "b");
        QVERIFY(m_server.exists("lock:j\xc3\xb6" "b"));
        QDL_SCOPED_LOCK(u"a");
        QDL_SCOPED_LOCK(QLatin1String("b"));
        QDL_SCOPED_LOCK(QStringView(u"c"), LockOptions());
        QDL_SCOPED_LOCK(Name, LockOptions().withWait(2s).withLease(1min));
        QDL_SCOPED_LOCK(QStringLiteral("%1-%2").arg(1).arg(2));
        for (const char *name : {"a", "b", "c", "job", "1-2"})
            QVERIFY(m_server.exists(QByteArray("lock:") + name));
        QCOMPARE_GT(m_server.pttl(Key), 50000);
        QVERIFY(QDistLock::isLockedHere(QStringLiteral("1-2")));
    }
    QTRY_VERIFY(lockKeys(m_server).isEmpty());
    QCOMPARE(orMinusOne(Name), 1);
    QCOMPARE(pairOrNothing(), std::pair(1, 2));
    int count = 0;
    countUnlessTaken(&count);
    QCOMPARE(count, 1);
    bool entered = false;
    QDL_WITH_LOCK(Name)
        entered = QDistLock::isLockedHere(Name);
    else
        QFAIL("not acquired");
    QVERIFY(entered);
    QVERIFY(macrosInCpp20());
}

void tst_ScopedLock::macrosWithoutLock()
{
    m_server.command({"SET", Key, "somebody else", "PX", "60000"});
    try {
        QDL_SCOPED_LOCK(Name, LockOptions().withWait(0ms));
        QFAIL("not thrown");
    } catch (const LockUnavailable &error) {
        QCOMPARE(error.result().error, DistributedLock::BusyError);
        QCOMPARE(QString::fromUtf8(error.what()), error.result().errorString);
        QVERIFY(QByteArray(error.what()).contains("\"job\""));
    }
    QCOMPARE(orMinusOne(Name), -1);
    int count = 0;
    countUnlessTaken(&count);
    QCOMPARE(count, 0);
    bool refused = false;
    QDL_WITH_LOCK(Name, LockOptions().withWait(0ms))
        QFAIL("acquired");
    else
        refused = true;
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
    // A name ends before the NULs that fill up its array, and may fill all of it.
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
    // One inside a name is refused instead of cutting the name off.
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
    promise.setException(LockUnavailable({DistributedLock::TimeoutError, QStringLiteral("why"), 0}));
    promise.finish();
    QFuture<void> future = promise.future();
    try {
        future.waitForFinished();
        QFAIL("not thrown");
    } catch (const LockUnavailable &error) {
        QCOMPARE(error.result().error, DistributedLock::TimeoutError);
        QCOMPARE(error.what(), "why");
    }
    QVERIFY_EXCEPTION_THROWN(LockLost(Name, QStringLiteral("why")).raise(), LockLost);
}

void tst_ScopedLock::askedForByName()
{
    QVERIFY(!QDistLock::isLockedHere(Name));
    QCOMPARE(QDistLock::fencingTokenHere(Name), 0);
    {
        const ScopedLock lock(Name, options(1s));
        QVERIFY(QDistLock::isLockedHere(Name));
        QVERIFY(QDistLock::isLockedHere(m_server.url(), Name));
        QVERIFY(!QDistLock::isLockedHere(QUrl(QStringLiteral("memory:")), Name));
        QVERIFY(!QDistLock::isLockedHere(Name, LockOptions().withKeyPrefix(QStringLiteral("app:"))));
        QVERIFY(!QDistLock::isLockedHere(QStringLiteral("jo")));
        QCOMPARE(QDistLock::fencingTokenHere(Name), lock.fencingToken());
        QDL_ASSERT_LOCKED(Name);
        QDL_ASSERT_LOCKED("job");
        std::thread([] { QVERIFY(!QDistLock::isLockedHere(Name)); }).join();
        m_server.cli({"DEL", Key});
        QTRY_VERIFY(!QDistLock::isLockedHere(Name));
        QCOMPARE(QDistLock::fencingTokenHere(Name), 0);
    }
    QVERIFY(!QDistLock::isLockedHere(Name));
}

void tst_ScopedLock::assertion()
{
    Program program({QStringLiteral("assert"), m_server.url().toString()}, QProcess::MergedChannels);
    QVERIFY(program.ends());
    const QByteArray output = program.output();
    QVERIFY2(output.contains("locked\n"), output.constData());
    QCOMPARE(program.exitStatus(), QProcess::CrashExit);
    for (const char *named : {"\"asserted\"", "onlyUnderLock", "scopedworker.cpp"})
        QVERIFY2(output.contains(named), output.constData());
    m_server.command({"DEL", "lock:asserted"}); // released already, unless it was aborted first
}

void tst_ScopedLock::applicationQuits_data()
{
    QTest::addColumn<QString>("mode");
    QTest::newRow("application destroyed") << QStringLiteral("quit");
    QTest::newRow("application left alone") << QStringLiteral("heap");
}

void tst_ScopedLock::applicationQuits()
{
    QFETCH(QString, mode);
    m_server.command({"SET", "lock:foreign", "somebody else", "PX", "60000"});
    Program program({mode, m_server.url().toString()});
    QVERIFY2(program.says("started\n"), program.output().constData());
    QTRY_COMPARE(m_server.command({"ZCARD", "{lock:held}:queue"}).toLongLong(), 1);
    QTRY_COMPARE(m_server.command({"ZCARD", "{lock:foreign}:queue"}).toLongLong(), 1);
    QElapsedTimer timer;
    timer.start();
    program.closeWriteChannel();
    QVERIFY(program.ends());
    QCOMPARE(program.exitStatus(), QProcess::NormalExit);
    QVERIFY2(program.exitCode() == 0, program.output().constData());
    if (mode == QLatin1String("quit"))
        QCOMPARE(program.output().count("ended "), 2);
    m_server.command({"DEL", "lock:foreign"});
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
    QCOMPARE_LT(timer.elapsed(), 5000);
}

void tst_ScopedLock::applicationQuitsWithFrozenServer()
{
    RedisServer server;
    QVERIFY(server.start());
    server.command({"SET", "lock:foreign", "somebody else", "PX", "60000"});
    Program program({QStringLiteral("quit"), server.url().toString()});
    QVERIFY2(program.says("started\n"), program.output().constData());
    QTRY_COMPARE(server.command({"ZCARD", "{lock:held}:queue"}).toLongLong(), 1);
    server.pause();
    QElapsedTimer timer;
    timer.start();
    program.closeWriteChannel();
    QVERIFY(program.ends());
    QVERIFY2(program.exitCode() == 0, program.output().constData());
    QCOMPARE_LT(timer.elapsed(), 900); // 250 ms, and what a loaded machine needs
    server.resume();
    server.command({"DEL", "lock:foreign"});
    QTRY_COMPARE(lockKeys(server), QList<QByteArray>()); // what was written before it ended
}

void tst_ScopedLock::anotherApplication()
{
    Program program({QStringLiteral("again"), m_server.url().toString()});
    QVERIFY(program.ends());
    QVERIFY2(program.exitCode() == 0, program.output().constData());
    QCOMPARE(program.output().count("QCoreApplication"), 1); // once there is none any more
    QCOMPARE(lockKeys(m_server), QList<QByteArray>());
}

void tst_ScopedLock::noApplication()
{
    Program program({QStringLiteral("none"), m_server.url().toString()});
    QVERIFY(program.ends());
    QVERIFY2(program.exitCode() == 0, program.output().constData());
    QVERIFY2(program.output().contains("QCoreApplication"), program.output().constData());
}

void tst_ScopedLock::forkedChildEnds()
{
#ifndef Q_OS_UNIX
    QSKIP("There is no fork().");
#endif
    const qsizetype before = m_server.channels().size();
    Program program({QStringLiteral("fork"), m_server.url().toString()});
    QVERIFY2(program.says("started\n"), program.output().constData());
    // Its thread has nothing left to do, so that it holds no lock of Qt's when it is not copied.
    QTRY_COMPARE(m_server.channels().size(), before + 1);
    program.closeWriteChannel();
    QVERIFY(program.ends());
    QCOMPARE(program.exitStatus(), QProcess::NormalExit);
    QVERIFY2(program.exitCode() == 0, program.output().constData());
}

void tst_ScopedLock::processesThatAreKilled()
{
    constexpr int Processes = 8, Keys = 3;
    bool given = false;
    const int asked = qEnvironmentVariableIntValue("QDISTLOCK_SCOPED_SECONDS", &given);
    const milliseconds duration = given ? std::chrono::seconds(asked) : 8s;

    RedisServer server;
    QVERIFY(server.start());
    const QStringList arguments{QStringLiteral("work"), server.url().toString(), server.socketPath(),
                                QString::number(Keys)};
    std::vector<std::unique_ptr<Program>> programs;
    for (int i = 0; i < Processes; ++i)
        programs.push_back(std::make_unique<Program>(arguments));
    for (const auto &program : programs)
        QVERIFY(program->says("started\n"));

    QSet<QByteArray> killed;
    QElapsedTimer timer;
    timer.start();
    while (timer.elapsed() + 3000 <= duration.count()) {
        const qint64 end = timer.elapsed() + 3000;
        eventually([&] { return timer.elapsed() >= end; }, 10s);
        // One that has a lock just now, if one is found.
        size_t victim = size_t(killed.size()) % Processes;
        for (int look = 0; look < 100; ++look) {
            const QByteArray last = server.command({"LINDEX", "history:" + QByteArray::number(look % Keys), "-1"})
                                            .toByteArray();
            const auto it = std::find_if(programs.begin(), programs.end(), [&last](const auto &program) {
                return last.startsWith("begin ")
                        && last.contains(' ' + QByteArray::number(program->processId()) + ' ');
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
        QVERIFY(program->ends());
        program = std::make_unique<Program>(arguments);
    }
    eventually([&] { return timer.elapsed() >= duration.count(); }, duration);
    for (const auto &program : programs)
        program->closeWriteChannel();
    for (const auto &program : programs) {
        QVERIFY(program->ends(60s));
        QCOMPARE(program->exitStatus(), QProcess::NormalExit);
        QCOMPARE(program->exitCode(), 0);
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
                if (!open.isEmpty()) { // only the dead leave it so
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
    QTRY_COMPARE(server.keys("*:queue"), QList<QByteArray>());
}

QTEST_GUILESS_MAIN(tst_ScopedLock)
#include "tst_scopedlock.moc"
