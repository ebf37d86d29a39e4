// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Scopes that re-enter a lock of their thread: its levels end in any order, and the last one releases the lock.
// Different spellings of the server's URL mean the same lock.

#include "support/locktesting.h"

#include "support/posix.h"
#include "support/respclient.h"
#include "support/rows.h"

#include <QDistLock/Annotations>
#include <QDistLock/ScopedLock>

#include <QtCore/qdeadlinetimer.h>
#include <QtCore/qpromise.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace QDistLock;

namespace {

const QString Name = u"job"_s;
const QByteArray Key = QByteArrayLiteral("lock:job");

} // namespace

class Jobs : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(run, "job", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(runBoth, "job", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(runBoth, "other", "wait=5min; retryInterval=20ms")
    QDL_LOCKED_METHOD(runSpelt, "job", "server=memory:/spelt; onBusy=fail")
    QDL_LOCKED_METHOD(runSpelt, "job", "server=memory:///spelt; onBusy=fail")
public:
    std::function<void()> body;
    int runs = 0;

public Q_SLOTS:
    void run()
    {
        ++runs;
        body();
    }
    void runBoth() { run(); }
    void runSpelt() { run(); }

Q_SIGNALS:
    void wanted();
};

class tst_Reentry : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void scopeOutlivesTheWork_data();
    void scopeOutlivesTheWork();
    void workOutlivesItsScopes();
    void scopeOutlivesTheFutureOfTheWork_data()
    {
        Support::addRows<bool>("scopeFirst", {{"future ends first", false}, {"scope ends first", true}});
    }
    void scopeOutlivesTheFutureOfTheWork();
    void scopeOutlivesAnException();
    void scopeOutlivesTheReceiver();
    void scopeOfOneOfTwoLocks();
    void scopesOutliveScopes();
    void scopeEndsInAnotherThread();
    void scopeOfUnfinishedWorkEndsInAnotherThread();
    void scopeBeginsWhileAnotherThreadEndsTheOuter();
    void scopeOutlivesItsThread_data()
    {
        Support::addRows<bool>("unfinished", {{"work has ended", false}, {"work continues", true}});
    }
    void scopeOutlivesItsThread();
    void scopesInNestedLoops();
    void nextCallWaitsForTheScope();
    void lossEndsAllLevels();

    void scopeBehindUnfinishedWork_data()
    {
        Support::addRows<bool>("waits", {{"waits", true}, {"does not wait", false}});
    }
    void scopeBehindUnfinishedWork();
    void scopeWaitsForEver();
    void scopeBehindManyUnfinished();
    void scopeKeptByUnfinishedWork();
    void scopeBehindALockOfItsThread();

    void spellings_data();
    void spellings();
    void otherServers_data();
    void otherServers();
    void spellingsInOneMethod();
    void defaultServerChanged();

private:
    /// \a spelling with its placeholders replaced: SOCKET (the path), PORT, USER (with the password).
    QUrl server(const QString &spelling) const
    {
        QString text = spelling;
        text.replace(QLatin1String("SOCKET"), m_server.socketPath());
        text.replace(QLatin1String("PORT"), QString::number(m_server.port()));
        return QUrl(text.replace(QLatin1String("USER"), QLatin1String("u5er:pa%2Dss")));
    }
    /// Whether another client can acquire the lock.
    bool isFree()
    {
        const bool taken = m_server.command({"SET", Key, "foreign", "NX", "PX", "10000"}).toString() == u"OK";
        if (taken)
            m_server.command({"DEL", Key});
        return taken;
    }
    // Their time-outs are less than a lease: a key that nobody releases must not pass because it expires.
    bool becomesFree()
    {
        return eventually([this] { return isFree(); }, 20s);
    }
    bool nothingLeft()
    {
        return eventually([this] { return lockKeys(m_server).isEmpty(); }, 20s);
    }

    /// The result of a scope that times out because somebody else holds the lock.
    static LockResult timedOutScope(const QUrl &server)
    {
        return timeOutOf([&server](milliseconds wait) {
            return ScopedLock(LockAddress(Name).withServer(server), LockOptions().withWait(wait)).result();
        });
    }

    static Support::RedisServer::Options withTcp()
    {
        Support::RedisServer::Options options;
        options.tcp = true;
        options.users = {"u5er on >pa-ss allkeys allchannels allcommands"};
        return options;
    }

    Support::RedisServer m_server{withTcp()};
};

void tst_Reentry::initTestCase()
{
    qunsetenv("QDISTLOCK_PASSWORD");
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
}

void tst_Reentry::init()
{
    m_server.command({"FLUSHALL"});
    LockRegistry::setDefaultServer(m_server.url());
    ScopedLock::setGuiThreadWaitAllowed(true);
}

void tst_Reentry::cleanup()
{
    QVERIFY(nothingLeft());
    QVERIFY(!isLockedHere(Name));
}

void tst_Reentry::scopeOutlivesTheWork_data()
{
    Support::addColumns<QString, bool>("form", "released");
    for (const char *form : {"connectLocked", "invokeLocked", "withLock"}) {
        QTest::addRow("%s, scope destroyed", form) << QString::fromLatin1(form) << false;
        QTest::addRow("%s, scope released", form) << QString::fromLatin1(form) << true;
    }
}

void tst_Reentry::scopeOutlivesTheWork()
{
    QFETCH(const QString, form);
    QFETCH(const bool, released);
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    std::unique_ptr<ScopedLock> scope;
    Jobs jobs;
    jobs.body = [&] { scope = std::make_unique<ScopedLock>(Name, LockOptions().withWait(0ms)); };
    if (form == u"connectLocked") {
        QVERIFY(connectLocked(&jobs, &Jobs::wanted, &jobs, &Jobs::run));
        Q_EMIT jobs.wanted();
    } else if (form == u"invokeLocked") {
        invokeLocked(&jobs, "run");
    } else {
        const auto future = withLock(Name, jobs.body);
        QVERIFY(eventually([&] { return future.isFinished(); }));
    }
    QVERIFY(eventually([&] { return scope != nullptr; }));
    QVERIFY2(scope->isHeld(), qPrintable(scope->result().errorString));
    processEvents();
    QVERIFY(!isFree());
    QVERIFY(scope->isHeld());
    QVERIFY(isLockedHere(Name));
    scope->check();
    {
        const ScopedLock again(Name, LockOptions().withWait(0ms));
        QCOMPARE(again.fencingToken(), scope->fencingToken());
    }
    QVERIFY(!isFree());
    if (released)
        QVERIFY(scope->release());
    scope.reset();
    QVERIFY(becomesFree());
    QVERIFY(!isLockedHere(Name));
    QCOMPARE(lost.size(), 0);
}

void tst_Reentry::workOutlivesItsScopes()
{
    bool held = false;
    Jobs jobs;
    jobs.body = [&] {
        for (int i = 0; i < 3; ++i) {
            ScopedLock scope(Name, LockOptions().withWait(0ms));
            const ScopedLock inner(Name, LockOptions().withWait(0ms));
            scope.release();
        }
        held = isLockedHere(Name) && !isFree();
    };
    const auto future = invokeLocked(&jobs, "run");
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(held);
    QVERIFY(becomesFree());
}

void tst_Reentry::scopeOutlivesTheFutureOfTheWork()
{
    QFETCH(const bool, scopeFirst);
    std::unique_ptr<ScopedLock> scope;
    QPromise<int> promise;
    promise.start();
    const auto future = withLock(Name, [&] {
        scope = std::make_unique<ScopedLock>(Name, LockOptions().withWait(0ms));
        return promise.future();
    });
    QVERIFY(eventually([&] { return scope != nullptr; }));
    QVERIFY(scope->isHeld());
    const auto endFuture = [&] {
        promise.addResult(1);
        promise.finish();
        QVERIFY(eventually([&] { return future.isFinished(); }));
    };
    if (scopeFirst)
        QVERIFY(scope->release());
    else
        endFuture();
    processEvents();
    QVERIFY(!isFree());
    QCOMPARE(scope->isHeld(), !scopeFirst);
    if (scopeFirst)
        endFuture();
    else
        QVERIFY(scope->release());
    QVERIFY(becomesFree());
}

void tst_Reentry::scopeOutlivesAnException()
{
    std::unique_ptr<ScopedLock> scope;
    auto future = withLock(Name, [&] {
        scope = std::make_unique<ScopedLock>(Name);
        throw std::runtime_error("thrown");
    });
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY_EXCEPTION_THROWN(future.waitForFinished(), std::runtime_error);
    processEvents();
    QVERIFY(scope->isHeld());
    QVERIFY(!isFree());
    scope.reset();
    QVERIFY(becomesFree());
}

void tst_Reentry::scopeOutlivesTheReceiver()
{
    std::unique_ptr<ScopedLock> scope;
    auto jobs = std::make_unique<Jobs>();
    jobs->body = [&] {
        scope = std::make_unique<ScopedLock>(Name);
        jobs.reset();
    };
    QVERIFY(connectLocked(jobs.get(), &Jobs::wanted, jobs.get(), &Jobs::run));
    Q_EMIT jobs->wanted();
    QVERIFY(eventually([&] { return scope != nullptr; }));
    processEvents();
    QVERIFY(!jobs);
    QVERIFY(scope->isHeld());
    QVERIFY(!isFree());
    scope.reset();
    QVERIFY(becomesFree());
}

void tst_Reentry::scopeOfOneOfTwoLocks()
{
    std::unique_ptr<ScopedLock> scope;
    Jobs jobs;
    jobs.body = [&] { scope = std::make_unique<ScopedLock>(Name); };
    const auto future = invokeLocked(&jobs, "runBoth");
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(eventually([&] { return !m_server.exists("lock:other"); }));
    QVERIFY(scope->isHeld());
    QVERIFY(!isFree());
    scope.reset();
}

void tst_Reentry::scopesOutliveScopes()
{
    std::vector<std::unique_ptr<ScopedLock>> scopes;
    for (int i = 0; i < 6; ++i)
        scopes.push_back(std::make_unique<ScopedLock>(Name, LockOptions().withWait(0ms)));
    for (const auto i : {2, 0, 5, 1, 4}) {
        if (i % 2 == 0)
            QVERIFY(scopes.at(size_t(i))->release());
        scopes.at(size_t(i)).reset();
        QVERIFY(scopes.at(3)->isHeld());
        QVERIFY(isLockedHere(Name));
        QVERIFY(!isFree());
    }
    QVERIFY(scopes.at(3)->release());
    QVERIFY(isFree());
}

void tst_Reentry::scopeEndsInAnotherThread()
{
    std::unique_ptr<ScopedLock> scope;
    const auto future = withLock(Name, [&] { scope = std::make_unique<ScopedLock>(Name); });
    QVERIFY(eventually([&] { return future.isFinished(); }));
    processEvents();
    QVERIFY(!isFree());
    {
        const LogCapture log;
        std::thread([&scope] { scope.reset(); }).join();
        QCOMPARE(log.count({u"\"job\""_s, u"another thread"_s}), 1);
    }
    QVERIFY(becomesFree());
    QVERIFY(!isLockedHere(Name));
}

/// The work still holds the lock, but there is no scope any more.
void tst_Reentry::scopeOfUnfinishedWorkEndsInAnotherThread()
{
    QPromise<void> promise;
    promise.start();
    std::unique_ptr<ScopedLock> outer;
    std::unique_ptr<ScopedLock> inner;
    const auto future = withLock(Name, [&] {
        outer = std::make_unique<ScopedLock>(Name);
        inner = std::make_unique<ScopedLock>(Name);
        return promise.future();
    });
    QVERIFY(eventually([&] { return inner != nullptr; }));
    QVERIFY(isLockedHere(Name));
    const LogCapture log;
    std::thread([&outer] { outer.reset(); }).join();
    QVERIFY(isLockedHere(Name));
    std::thread([&inner] { inner.reset(); }).join();
    QVERIFY(!isLockedHere(Name));
    const ScopedLock other(Name, LockOptions().withWait(0ms));
    QVERIFY(!other);
    QVERIFY(!isFree());
    promise.finish();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(becomesFree());
}

/// It re-enters, or comes too late and acquires the lock itself; either way it holds it.
void tst_Reentry::scopeBeginsWhileAnotherThreadEndsTheOuter()
{
    const auto memory = LockAddress(Name).withServer(QUrl(u"memory:race"_s));
    const LogCapture log;
    for (int i = 0; i < 300; ++i) {
        auto outer = std::make_unique<ScopedLock>(memory);
        QVERIFY(*outer);
        std::atomic<bool> begun{false};
        std::thread thread([&begun, scope = std::move(outer)]() mutable {
            begun = true;
            scope.reset();
        });
        while (!begun) {
        }
        ScopedLock inner(memory);
        thread.join();
        QVERIFY2(inner, qPrintable(inner.result().errorString));
        QVERIFY(isLockedHere(memory));
        bool excluded = false;
        std::thread([&] { excluded = !ScopedLock(memory, LockOptions().withWait(0ms)); }).join();
        QVERIFY(excluded);
        QVERIFY(inner.release());
    }
    QVERIFY(!isLockedHere(memory));
}

void tst_Reentry::scopeOutlivesItsThread()
{
    QFETCH(const bool, unfinished);
    std::unique_ptr<ScopedLock> scope;
    QPromise<void> promise;
    promise.start();
    if (!unfinished)
        promise.finish();
    QFuture<void> future;
    std::unique_ptr<QThread> thread(QThread::create([&] {
        future = withLock(Name, [&] {
            scope = std::make_unique<ScopedLock>(Name);
            return promise.future();
        });
        QVERIFY(eventually([&] { return scope && (unfinished || future.isFinished()); }));
    }));
    thread->start();
    QVERIFY(thread->wait(60'000));
    thread.reset();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(scope->isHeld());
    QVERIFY(!isFree());
    QVERIFY(!isLockedHere(Name));
    const LogCapture log;
    scope.reset();
    QVERIFY(becomesFree());
    QCOMPARE(log.count({u"another thread"_s}), 1);
    if (unfinished)
        promise.finish();
}

/// Scopes of methods that run inside each other's event loops; each keeps one, and the innermost ends first.
void tst_Reentry::scopesInNestedLoops()
{
    std::vector<std::unique_ptr<ScopedLock>> scopes;
    Jobs jobs;
    Jobs others;
    bool reentered = false;
    others.body = [&] {
        scopes.push_back(std::make_unique<ScopedLock>(Name, LockOptions().withWait(0ms)));
        reentered = scopes.back()->isHeld();
    };
    jobs.body = [&] {
        scopes.push_back(std::make_unique<ScopedLock>(Name, LockOptions().withWait(0ms)));
        const auto inner = withLock(u"other"_s, [&] { others.body(); });
        QVERIFY(eventually([&] { return inner.isFinished(); }));
        scopes.erase(scopes.begin()); // its own
    };
    const auto future = invokeLocked(&jobs, "run");
    QVERIFY(eventually([&] { return future.isFinished(); }));
    processEvents();
    QVERIFY(reentered);
    QCOMPARE(scopes.size(), size_t(1));
    QVERIFY(scopes.front()->isHeld());
    QVERIFY(!isFree());
    QVERIFY(scopes.front()->release());
    QVERIFY(isFree());
}

void tst_Reentry::nextCallWaitsForTheScope()
{
    std::unique_ptr<ScopedLock> scope;
    Jobs jobs;
    qint64 first = 0;
    qint64 second = 0;
    jobs.body = [&] {
        if (jobs.runs == 1) {
            scope = std::make_unique<ScopedLock>(Name);
            first = scope->fencingToken();
        } else {
            second = fencingTokenHere(Name);
        }
    };
    const auto future = invokeLocked(&jobs, "run");
    const auto next = invokeLocked(&jobs, "run");
    QVERIFY(eventually([&] { return future.isFinished(); }));
    // It has begun to wait on the server: the call before it has ended.
    QVERIFY(eventually([&] { return m_server.command({"ZCARD", "{lock:job}:queue"}).toLongLong() == 1; }));
    QCOMPARE(jobs.runs, 1);
    QVERIFY(scope->isHeld());
    scope.reset();
    QVERIFY(eventually([&] { return next.isFinished(); }));
    QCOMPARE(jobs.runs, 2);
    QCOMPARE_GT(second, first);
}

void tst_Reentry::lossEndsAllLevels()
{
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    std::unique_ptr<ScopedLock> scope;
    QPromise<void> promise;
    promise.start();
    const auto future = withLock(Name, options(), [&] {
        scope = std::make_unique<ScopedLock>(Name);
        return promise.future();
    });
    QVERIFY(eventually([&] { return scope != nullptr; }));
    QVERIFY(endByForce(m_server.url(), Name));
    QVERIFY(eventually([&] { return !scope->isHeld(); }));
    promise.finish();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QCOMPARE(lost.size(), 1);
    const ScopedLock other(Name);
    QVERIFY(other);
    QVERIFY(!scope->release());
    scope.reset();
    QVERIFY(other.isHeld());
    QVERIFY(!isFree());
}

/// Code that the event loop runs before the work has finished may be another task, so it is not under the lock.
void tst_Reentry::scopeBehindUnfinishedWork()
{
    QFETCH(const bool, waits);
    const auto acquireInVain = [waits](const QUrl &server) {
        return waits ? timedOutScope(server)
                     : ScopedLock(LockAddress(Name).withServer(server), LockOptions().withWait(0ms)).result();
    };
    const QString reason = u"withLock() of this same thread holds it"_s;
    const QUrl otherSpelling(u"unix:/."_s + m_server.socketPath());
    QPromise<int> promise;
    promise.start();
    QList<LockResult> results;
    bool begun = false;
    bool locked = true;
    const auto future = withLock(Name, [&] {
        begun = true;
        return promise.future().then([&](int value) {
            locked = isLockedHere(Name);
            results.append(acquireInVain({}));
            return value;
        });
    });
    QVERIFY(eventually([&] { return begun; }));
    results.append(acquireInVain(otherSpelling));
    QVERIFY(!isFree());
    promise.addResult(1);
    promise.finish();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(!locked);
    QCOMPARE(results.size(), 2);
    for (const LockResult &result : std::as_const(results)) {
        QCOMPARE(result.error, waits ? DistributedLock::TimeoutError : DistributedLock::BusyError);
        QVERIFY2(result.errorString.contains(reason), qPrintable(result.errorString));
    }

    // Not of what it does not hold, or no longer.
    const ScopedLock other(u"other"_s, options());
    QVERIFY(other);
    QVERIFY(becomesFree());
    QCOMPARE(m_server.cli({"SET", Key, "foreign", "PX", "60000"}), "OK");
    const LockResult behindAnother = acquireInVain({});
    QVERIFY(!behindAnother);
    QVERIFY2(!behindAnother.errorString.contains(reason), qPrintable(behindAnother.errorString));
    m_server.command({"DEL", Key});
}

/// Nobody will read the error of a scope that waits for its own thread without a limit.
void tst_Reentry::scopeWaitsForEver()
{
    QPromise<void> promise;
    promise.start();
    bool begun = false;
    const auto future = withLock(Name, options(), [&] {
        begun = true;
        return promise.future();
    });
    QVERIFY(eventually([&] { return begun; }));
    const LogCapture log;
    std::thread foreign([&] {
        Support::RespClient client;
        QVERIFY(client.connectToUnix(m_server.socketPath()));
        const QDeadlineTimer deadline(60s);
        while (client.command({"ZCARD", "{lock:job}:queue"}).toLongLong() == 0 && !deadline.hasExpired())
            Support::Posix::pollPause();
        QVERIFY(endByForce(m_server.url(), Name));
    });
    const ScopedLock scope(Name, options(30s, LockOptions::Forever));
    foreign.join();
    QVERIFY2(scope, qPrintable(scope.result().errorString));
    QCOMPARE(log.count({u"\"job\""_s, u"waits without a limit"_s, u"withLock() of this same thread"_s}), 1);
    promise.finish();
    QVERIFY(eventually([&] { return future.isFinished(); }));
}

void tst_Reentry::scopeBehindManyUnfinished()
{
    QPromise<void> promise;
    promise.start();
    QList<QFuture<void>> futures;
    int begun = 0;
    for (int i = 0; i < 50; ++i) {
        futures.append(withLock(u"job%1"_s.arg(i), [&] {
            ++begun;
            return promise.future();
        }));
    }
    QVERIFY(eventually([&] { return begun == futures.size(); }));
    QStringList others;
    std::thread([&others] {
        others.append(ScopedLock(u"job7"_s, LockOptions().withWait(0ms)).result().errorString);
    }).join();
    for (const int i : {0, 25, 49}) {
        const ScopedLock scope(u"job%1"_s.arg(i), LockOptions().withWait(0ms));
        QCOMPARE(scope.result().error, DistributedLock::BusyError);
        QVERIFY(scope.result().errorString.contains(QLatin1String("withLock() of this same thread")));
    }
    QVERIFY(!others.first().contains(QLatin1String("same thread")));
    promise.finish();
    QVERIFY(nothingLeft());
    for (int i = 0; i < 50; ++i) {
        const ScopedLock scope(u"job%1"_s.arg(i), LockOptions().withWait(0ms));
        QVERIFY2(scope, qPrintable(scope.result().errorString));
    }
}

/// The way to have the rest of the work under the lock: a scope that its callable begins, and its end ends.
void tst_Reentry::scopeKeptByUnfinishedWork()
{
    QPromise<void> promise;
    promise.start();
    bool begun = false;
    bool locked = false;
    const auto future = withLock(Name, [&] {
        begun = true;
        return promise.future().then([&, scope = std::make_shared<ScopedLock>(Name)]() mutable {
            const auto last = std::move(scope);
            const ScopedLock inner(Name, LockOptions().withWait(0ms));
            locked = inner.isHeld() && isLockedHere(Name);
        });
    });
    QVERIFY(eventually([&] { return begun; }));
    QVERIFY(isLockedHere(Name));
    promise.finish();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(locked);
    QVERIFY(becomesFree());
}

void tst_Reentry::scopeBehindALockOfItsThread()
{
    LockRegistry registry(QUrl(u"unix:/."_s + m_server.socketPath()));
    DistributedLock lock(&registry, Name);
    QVERIFY(acquireNow(&lock));
    const LockResult result = timedOutScope({});
    QCOMPARE(result.error, DistributedLock::TimeoutError);
    QVERIFY2(result.errorString.contains(QLatin1String("a DistributedLock of this same thread holds it")),
             qPrintable(result.errorString));
    lock.release();
    QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked; }));
}

void tst_Reentry::spellings_data()
{
    Support::addColumns<QString, QString>("outer", "inner");
    const auto row = [](const char *outer, const char *inner) {
        QTest::addRow("%s, %s", outer, inner) << QString::fromLatin1(outer) << QString::fromLatin1(inner);
        QTest::addRow("%s, %s", inner, outer) << QString::fromLatin1(inner) << QString::fromLatin1(outer);
    };
    row("unix://SOCKET", "unix:SOCKET");
    row("unix://SOCKET", "UNIX://SOCKET");
    row("unix://SOCKET", "unix:///.SOCKET");
    row("unix://SOCKET", "unix:////SOCKET");
    row("unix://SOCKET", "unix://SOCKET?db=0");
    row("unix://SOCKET?db=3", "unix:SOCKET?db=03");
    row("unix://SOCKET", "unix://USER@SOCKET");
    row("redis://127.0.0.1:PORT", "redis://127.0.0.1:PORT/");
    row("redis://127.0.0.1:PORT", "redis://127.0.0.1:PORT/0");
    row("redis://127.0.0.1:PORT/3", "redis://127.0.0.1:PORT/03");
    row("redis://localhost:PORT", "REDIS://LocalHost:PORT");
    row("redis://localhost:PORT", "redis://%6cocalhost:PORT");
    row("redis://localhost:PORT", "redis://USER@localhost:PORT");
    row("redis://u5er:pa-ss@localhost:PORT", "redis://u5er:pa%2Dss@localhost:PORT");
    row("memory:spelt", "memory:%73pelt");
    row("memory:spelt", "MEMORY:spelt");
    row("memory:/spelt", "memory:///spelt");
}

void tst_Reentry::spellings()
{
    QFETCH(const QString, outer);
    QFETCH(const QString, inner);
    const QUrl outerServer = server(outer);
    const QUrl innerServer = server(inner);
    const auto outerAddress = LockAddress(Name).withServer(outerServer);
    const auto innerAddress = LockAddress(Name).withServer(innerServer);
    const LockOptions once = LockOptions().withWait(0ms);
    {
        const ScopedLock scope(outerAddress);
        QVERIFY2(scope, qPrintable(scope.result().errorString));
        const ScopedLock again(innerAddress, once);
        QVERIFY2(again, qPrintable(again.result().errorString));
        QCOMPARE(again.fencingToken(), scope.fencingToken());
        QVERIFY(isLockedHere(innerAddress));
        QCOMPARE(fencingTokenHere(innerAddress), scope.fencingToken());

        LockRegistry::setDefaultServer(innerServer);
        const ScopedLock byDefault(Name, once);
        QVERIFY2(byDefault, qPrintable(byDefault.result().errorString));
        QCOMPARE(byDefault.fencingToken(), scope.fencingToken());
    }
    qint64 outerToken = 0;
    qint64 innerToken = 0;
    bool reentered = false;
    const auto future = withLock(outerAddress, [&] {
        outerToken = fencingTokenHere(outerAddress);
        const ScopedLock scope(innerAddress, once);
        innerToken = scope.fencingToken();
        reentered = scope.isHeld();
    });
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(reentered);
    QCOMPARE(innerToken, outerToken);

    // The same annotation in another spelling: one queue.
    Jobs jobs;
    QList<int> order;
    jobs.body = [&] { order.append(jobs.runs); };
    const auto options = [](const QUrl &url) {
        return u"retryInterval=20ms; server="_s + url.toString(QUrl::FullyEncoded);
    };
    QVERIFY(connectLocked(&jobs, &Jobs::wanted, &jobs, &Jobs::run, Name, options(outerServer)));
    QVERIFY(connectLocked(&jobs, &Jobs::wanted, &jobs, &Jobs::run, Name, options(innerServer)));
    Q_EMIT jobs.wanted();
    QVERIFY(eventually([&] { return order.size() == 2; }));
}

void tst_Reentry::otherServers_data()
{
    Support::addColumns<QString, QString>("outer", "inner");
    const auto row = [](const char *outer, const char *inner) {
        QTest::addRow("%s, %s", outer, inner) << QString::fromLatin1(outer) << QString::fromLatin1(inner);
    };
    row("unix://SOCKET", "unix://SOCKET?db=1");
    row("unix://SOCKET?db=1", "unix://SOCKET?db=2");
    row("redis://127.0.0.1:PORT", "redis://127.0.0.1:PORT/1");
    row("memory:spelt", "memory:Spelt");
    row("memory:", "memory:spelt");
    row("memory:spelt", "memory:/spelt");
}

void tst_Reentry::otherServers()
{
    QFETCH(const QString, outer);
    QFETCH(const QString, inner);
    ScopedLock scope(LockAddress(Name).withServer(server(outer)));
    QVERIFY2(scope, qPrintable(scope.result().errorString));
    QVERIFY(!isLockedHere(LockAddress(Name).withServer(server(inner))));
    ScopedLock other(LockAddress(Name).withServer(server(inner)), LockOptions().withWait(0ms));
    QVERIFY2(other, qPrintable(other.result().errorString));
    QVERIFY(other.fencingToken() != scope.fencingToken());
    QVERIFY(scope.release());
    QVERIFY(other.release());
}

/// Otherwise the method would wait for itself.
void tst_Reentry::spellingsInOneMethod()
{
    Jobs jobs;
    jobs.body = [] {};
    const auto future = invokeLocked(&jobs, "runSpelt");
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QCOMPARE(jobs.runs, 1);
}

/// The default server of a scope is the one when it was made: another server is another lock.
void tst_Reentry::defaultServerChanged()
{
    const ScopedLock outer(Name);
    QVERIFY(outer);
    LockRegistry::setDefaultServer(QUrl(u"memory:second"_s));
    QVERIFY(!isLockedHere(Name));
    {
        const ScopedLock inner(Name, LockOptions().withWait(0ms));
        QVERIFY(inner);
        QVERIFY(inner.fencingToken() != outer.fencingToken());
        bool excluded = false;
        std::thread([&excluded] {
            const ScopedLock other(Name, LockOptions().withWait(0ms));
            excluded = !other;
        }).join();
        QVERIFY(excluded);
        QCOMPARE(fencingTokenHere(LockAddress(Name).withServer(m_server.url())), outer.fencingToken());
    }
    LockRegistry::setDefaultServer(m_server.url());
    QVERIFY(isLockedHere(Name));
}

QTEST_GUILESS_MAIN(tst_Reentry)
#include "tst_reentry.moc"
