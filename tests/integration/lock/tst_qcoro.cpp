// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/locktesting.h"

#include "support/fakeclock.h"

#include <QDistLock/Coroutines>

#include <QCoroFuture>
#include <QCoroSignal>
#include <QCoroTask>
#include <QCoroTimer>

#include <stdexcept>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using QDistLock::LockGuard;

/// co_await of ours inside QCoro's coroutines, and QCoro's beside ours.
class tst_QCoro : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init();

    void heldWhileOthersAreAwaited();
    void guardAsAResult();
    void guardAsAnArgument();
    void busyIsAResult();
    void futuresOfTheLock();
    void droppedTaskRunsOn();
    void lockDestroyedWhileAwaited();
    void exceptionPassesThrough();
    void counterLosesNoUpdate();

private:
    QByteArray key() const { return "lock:" + m_name.toUtf8(); }

    Support::RedisServer m_server;
    QString m_name;
    int m_count = 0;
};

namespace {

QCoro::Task<LockGuard> obtain(DistributedLock *lock)
{
    co_return co_await lock->acquireAwaitable();
}

QCoro::Task<bool> giveBack(LockGuard guard)
{
    co_return co_await guard.release();
}

QCoro::Task<> rest(milliseconds time)
{
    QTimer timer;
    timer.setSingleShot(true);
    timer.start(time);
    co_await timer;
}

} // namespace

void tst_QCoro::init()
{
    m_server.command({"FLUSHALL"});
    m_name = u"job%1"_s.arg(++m_count);
}

void tst_QCoro::heldWhileOthersAreAwaited()
{
    Support::FakeClock clock;
    LockRegistry registry(m_server.url());
    LockRegistryPrivate::get(&registry)->setClock(&clock);
    DistributedLock lock(&registry, m_name);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    const bool heldThroughout = QCoro::waitFor(
            [](DistributedLock *lock, Support::FakeClock *clock) -> QCoro::Task<bool> {
                const auto guard = co_await lock->acquireAwaitable();
                bool held = guard.isHeld();
                for (int i = 0; i < 5; ++i) {
                    clock->advance(10s); // longer than a lease in all
                    LockRegistryPrivate::get(lock->registry())->watchdog()->wake();
                    held = held && co_await qCoro(lock, &DistributedLock::renewed, 60s);
                    co_await rest(1ms);
                    held = held && guard.isHeld();
                }
                co_return held;
            }(&lock, &clock));
    QVERIFY(heldThroughout);
    QVERIFY(spies.renewed.size() >= 3);
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QVERIFY(lockKeys(m_server).isEmpty());
}

void tst_QCoro::guardAsAResult()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, m_name);
    const bool done = QCoro::waitFor([](DistributedLock *lock) -> QCoro::Task<bool> {
        lock->setLease(10min); // longer than eventually() waits below
        const LockGuard guard = co_await obtain(lock);
        co_return guard.isHeld() && lock->holdCount() == 1;
    }(&lock));
    QVERIFY(done);
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

void tst_QCoro::guardAsAnArgument()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, m_name);
    const bool released = QCoro::waitFor([](DistributedLock *lock) -> QCoro::Task<bool> {
        auto guard = co_await lock->acquireAwaitable();
        const bool released = co_await giveBack(std::move(guard));
        co_return released && !lock->isHeld();
    }(&lock));
    QVERIFY(released);
    QVERIFY(!m_server.exists(key()));
}

void tst_QCoro::busyIsAResult()
{
    m_server.cli({"SET", key(), "foreign", "PX", "600000"});
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, m_name);
    lock.setWaitTime(0ms);
    const auto error = QCoro::waitFor([](DistributedLock *lock) -> QCoro::Task<DistributedLock::Error> {
        const auto guard = co_await lock->acquireAwaitable();
        co_return guard ? DistributedLock::NoError : guard.result().error;
    }(&lock));
    QCOMPARE(error, DistributedLock::BusyError);
}

/// QCoro awaits QFuture by itself; a future cancelled without a result is what it cannot bear.
void tst_QCoro::futuresOfTheLock()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, m_name);
    const bool first = QCoro::waitFor([](DistributedLock *lock) -> QCoro::Task<bool> {
        const LockResult result = co_await lock->acquireAsync();
        auto guard = co_await lock->acquireAwaitable();
        const bool both = result.isAcquired() && lock->holdCount() == 2 && result.fencingToken == guard.fencingToken();
        const bool level = co_await guard.release().future();
        co_return both &&level &&co_await lock->releaseAsync();
    }(&lock));
    QVERIFY(first);

    m_server.cli({"SET", key(), "foreign", "PX", "600000"});
    const auto error = QCoro::waitFor([](DistributedLock *lock) -> QCoro::Task<DistributedLock::Error> {
        auto future = lock->acquireAsync();
        lock->cancel();
        const LockResult result = co_await future;
        co_return result.error;
    }(&lock));
    QCOMPARE(error, DistributedLock::CancelledError);
}

/// A QCoro task that nobody keeps runs to its end, and holds its lock until then.
void tst_QCoro::droppedTaskRunsOn()
{
    LockRegistry registry(m_server.url());
    bool held = false;
    [](LockRegistry *registry, QString name, bool *held) -> QCoro::Task<> {
        DistributedLock lock(registry, name);
        lock.setLease(10min); // longer than eventually() waits below
        const auto guard = co_await lock.acquireAwaitable();
        *held = guard.isHeld();
    }(&registry, m_name, &held);
    QVERIFY(eventually([&] { return held; }));
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

void tst_QCoro::lockDestroyedWhileAwaited()
{
    m_server.cli({"SET", key(), "foreign", "PX", "600000"});
    LockRegistry registry(m_server.url());
    auto lock = std::make_unique<DistributedLock>(&registry, m_name);
    auto task = [](DistributedLock *lock) -> QCoro::Task<DistributedLock::Error> {
        const auto guard = co_await lock->acquireAwaitable();
        co_return guard.result().error;
    }(lock.get());
    QVERIFY(eventually([&] { return lock->queuePosition() == 0; }));
    lock.reset();
    QVERIFY(!task.isReady());
    QCOMPARE(QCoro::waitFor(task), DistributedLock::CancelledError);
    QVERIFY(eventually([&] { return lockKeys(m_server) == QList<QByteArray>{key()}; }));
}

void tst_QCoro::exceptionPassesThrough()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, m_name);
    const bool caught = QCoro::waitFor([](DistributedLock *lock) -> QCoro::Task<bool> {
        lock->setLease(10min); // longer than eventually() waits below
        const auto body = [](DistributedLock *lock) -> QCoro::Task<> {
            const auto guard = co_await lock->acquireAwaitable();
            throw std::runtime_error("out of paper");
        };
        try {
            co_await body(lock);
        } catch (const std::runtime_error &) {
            co_return !lock->isHeld();
        }
        co_return false;
    }(&lock));
    QVERIFY(caught);
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

/// A counter on the server, read and written back in two steps with an event loop between them.
void tst_QCoro::counterLosesNoUpdate()
{
    constexpr int Count = 40;
    LockRegistry registry(m_server.url());
    const auto increment = [](LockRegistry *registry, QString name, Support::RedisServer *server) -> QCoro::Task<> {
        DistributedLock lock(registry, name);
        lock.setWaitTime(60s);
        const auto guard = co_await lock.acquireAwaitable();
        if (!guard)
            co_return;
        const int value = server->get("counter").toInt();
        co_await rest(1ms);
        server->command({"SET", "counter", QByteArray::number(value + 1)});
    };
    std::vector<QCoro::Task<>> tasks;
    for (int i = 0; i < Count; ++i)
        tasks.push_back(increment(&registry, m_name, &m_server));
    for (QCoro::Task<> &task : tasks)
        QCoro::waitFor(task);
    QCOMPARE(m_server.get("counter").toInt(), Count);
}

QTEST_GUILESS_MAIN(tst_QCoro)
#include "tst_qcoro.moc"
