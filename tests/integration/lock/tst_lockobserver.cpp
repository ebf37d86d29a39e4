// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// What a LockObserver hears, when, and what it may do. That it hears of all that is counted, in each form in which a
// lock is acquired, is checked after each test of tst_lockmetrics.

#include "support/locktest.h"

#include "support/eventsums.h"
#include "support/registrytime.h"

#include <QDistLock/LockObserver>
#include <QDistLock/MultiLock>

#include <QtCore/qscopeguard.h>
#include <QtCore/qsemaphore.h>
#include <QtCore/qthread.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

using QDistLock::LockEvent;
using QDistLock::LockObserver;

namespace {

/// Calls a function with each event, and the name of the observer's function.
class Observer : public LockObserver
{
public:
    using Function = std::function<void(const QString &kind, const LockEvent &event)>;

    explicit Observer(Function function)
        : m_function(std::move(function))
    {
    }

    void acquired(const LockEvent &event) override { m_function(u"acquired"_s, event); }
    void failed(const LockEvent &event) override { m_function(u"failed"_s, event); }
    void released(const LockEvent &event) override { m_function(u"released"_s, event); }
    void lost(const LockEvent &event) override { m_function(u"lost"_s, event); }
    void renewed(const LockEvent &event) override { m_function(u"renewed"_s, event); }

private:
    const Function m_function;
};

/// Is installed while it exists.
class Installed
{
public:
    explicit Installed(Observer::Function function)
        : m_observer(std::make_shared<Observer>(std::move(function)))
    {
        LockObserver::install(m_observer);
    }
    ~Installed() { remove(); }

    void remove() { LockObserver::remove(m_observer.get()); }

private:
    Q_DISABLE_COPY_MOVE(Installed)
    const std::shared_ptr<LockObserver> m_observer;
};

/// What an observer has heard, as "acquired a".
class Heard
{
public:
    const QStringList &list() const { return m_list; }
    void remove() { m_observer.remove(); }

private:
    QStringList m_list;
    Installed m_observer{
            [this](const QString &kind, const LockEvent &event) { m_list.append(kind + u' ' + event.name); }};
};

} // namespace

class tst_LockObserver : public RedisAndMemoryTest
{
    Q_OBJECT
private Q_SLOTS:
    void hold();
    void failure();
    void losses_data();
    void losses();
    void severalLocks();

    void neverInsideACall();
    void installedWhileHeld();
    void installedTwice();
    void nothingInstalled();
    void deletesTheLock_data();
    void deletesTheLock();
    void acquiresAgain();
    void removesItself();
    void removesOthers();
    void installsAnother();
    void pendingWhenRemoved();
    void throws();
    void runsAnEventLoop();
    void endOfAThread();
    void removedWhileItIsCalled();
    void removesItselfWhenItIsDestroyed();
    void threads();
};

void tst_LockObserver::hold()
{
    QList<LockEvent> events;
    QStringList kinds;
    const Installed observer([&](const QString &kind, const LockEvent &event) {
        kinds.append(kind);
        events.append(event);
    });
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"order:17"_s, options().withLabel(u"holder"_s));
    QVERIFY(acquireNow(&holder));
    StillRegistry still(serverUrl());
    TestLock lock(&still, u"order:17"_s, options(Outlasting, Outlasting));
    QVERIFY(joinQueue(&lock));
    still.advance(7s);
    QVERIFY(releaseNow(&holder));
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    const qint64 fencingToken = lock.fencingToken();
    still.pass(Outlasting / 2);
    QVERIFY(eventually([&] { return lock.spies.renewed.size() == 1; }));
    still.advance(1s);
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return kinds.size() == 5; }));

    QCOMPARE(kinds, QStringList({u"acquired"_s, u"released"_s, u"acquired"_s, u"renewed"_s, u"released"_s}));
    for (const LockEvent &event : std::as_const(events)) {
        QCOMPARE(event.name, u"order:17"_s);
        QCOMPARE(event.error, DistributedLock::NoError);
    }
    QCOMPARE(events.at(0).group, u"holder"_s);
    QVERIFY(!events.at(0).contended);
    QVERIFY(events.at(0).fencingToken > 0);
    for (const LockEvent &event : events.mid(2)) {
        QCOMPARE(event.group, u"order:*"_s);
        QCOMPARE(event.fencingToken, fencingToken);
    }
    QVERIFY(events.at(2).contended);
    QCOMPARE(events.at(2).waited, 7s);
    QCOMPARE(events.at(2).held, 0ns);
    QCOMPARE(events.at(3).held, Outlasting / 2);
    QCOMPARE(events.at(4).held, Outlasting / 2 + 1s);
    QCOMPARE(events.at(4).waited, 0ns);
}

void tst_LockObserver::failure()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"a"_s);
    QVERIFY(acquireNow(&holder));
    QList<LockEvent> failures;
    const Installed observer([&](const QString &kind, const LockEvent &event) {
        if (kind == u"failed"_s)
            failures.append(event);
    });
    TestLock busy(registry(), u"a"_s, options().withWait(0ms).withLabel(u"label"_s));
    QCOMPARE(failureNow(&busy), DistributedLock::BusyError);
    QVERIFY(eventually([&] { return failures.size() == 1; }));
    QCOMPARE(failures.first().name, u"a"_s);
    QCOMPARE(failures.first().group, u"label"_s);
    QCOMPARE(failures.first().error, DistributedLock::BusyError);
    QCOMPARE(failures.first().fencingToken, 0);

    TestLock refused(registry(), u"b"_s, options(1ms));
    QCOMPARE(failureNow(&refused), DistributedLock::OptionsError);
    QVERIFY(eventually([&] { return failures.size() == 2; }));
    QCOMPARE(failures.last().name, u"b"_s);
    QCOMPARE(failures.last().error, DistributedLock::OptionsError);
}

void tst_LockObserver::losses_data()
{
    addRows<DistributedLock::LossReason>(
            "reason", {{"lease expired", DistributedLock::LeaseExpired}, {"forced", DistributedLock::ForcedRelease}});
}

void tst_LockObserver::losses()
{
    QFETCH(DistributedLock::LossReason, reason);
    QList<LockEvent> losses;
    const Installed observer([&](const QString &kind, const LockEvent &event) {
        if (kind == u"lost"_s)
            losses.append(event);
    });
    StillRegistry still(serverUrl());
    TestLock lock(&still, u"a"_s, options(Outlasting).withAutoRenew(false));
    QVERIFY(acquireNow(&lock));
    const qint64 fencingToken = lock.fencingToken();
    still.advance(1min);
    if (reason == DistributedLock::LeaseExpired) {
        still.pass(Outlasting);
    } else {
        QVERIFY(eventually([&] { return isListening(&still); }));
        QVERIFY(awaited(still.forceRelease(u"a"_s)).value == LockRegistry::Done);
    }
    QVERIFY(eventually([&] { return losses.size() == 1; }));
    QCOMPARE(losses.first().name, u"a"_s);
    QCOMPARE(losses.first().lossReason, reason);
    QCOMPARE(losses.first().fencingToken, fencingToken);
    QVERIFY(losses.first().held >= 1min);
}

/// One by one, but a failure of all once.
void tst_LockObserver::severalLocks()
{
    LockRegistry other(serverUrl());
    TestLock holder(&other, u"b"_s);
    QVERIFY(acquireNow(&holder));
    const Heard heard;
    QDistLock::MultiLock lock(registry(), {u"a"_s, u"b"_s});
    lock.setOptions(options().withWait(0ms));
    QCOMPARE(failureNow(&lock), DistributedLock::BusyError);
    QVERIFY(eventually([&] { return heard.list().contains(u"failed b"_s); }));
    QCOMPARE(heard.list().count(u"failed a"_s), 0);
    QVERIFY(releaseNow(&holder));
    lock.acquire();
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    QVERIFY(eventually(
            [&] { return heard.list().contains(u"acquired a"_s) && heard.list().contains(u"acquired b"_s); }));
    QCOMPARE(heard.list().count(u"failed b"_s), 1);
}

/// Neither an acquire nor a destructor calls it; the event loop does.
void tst_LockObserver::neverInsideACall()
{
    const Heard heard;
    TestLock refused(registry(), u"refused"_s, options(1ms));
    refused.acquire();
    {
        TestLock lock(registry(), u"a"_s);
        QVERIFY(acquireNow(&lock));
        QVERIFY(eventually([&] { return heard.list().size() == 2; }));
        lock.acquire(); // one more level, of which no observer hears
    }
    QCOMPARE(heard.list(), QStringList({u"failed refused"_s, u"acquired a"_s}));
    QVERIFY(eventually([&] { return heard.list().size() == 3; }));
    QCOMPARE(heard.list().last(), u"released a"_s);
}

void tst_LockObserver::installedWhileHeld()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    const Heard heard;
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return !heard.list().isEmpty(); }));
    QCOMPARE(heard.list(), QStringList{u"released a"_s});
}

void tst_LockObserver::installedTwice()
{
    int calls = 0;
    const auto observer = std::make_shared<Observer>([&](const QString &, const LockEvent &) { ++calls; });
    LockObserver::install(observer);
    LockObserver::install(observer);
    const Heard after;
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return after.list().size() == 1; }));
    QCOMPARE(calls, 1);
    LockObserver::remove(observer.get());
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return after.list().size() == 2; }));
    QCOMPARE(calls, 1);
    QCOMPARE(observer.use_count(), 1);
}

void tst_LockObserver::nothingInstalled()
{
    LockObserver::install(nullptr);
    LockObserver::remove(nullptr);
    LockObserver::install(std::make_shared<LockObserver>()); // its functions do nothing
    const Heard after;
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    TestLock refused(registry(), u"refused"_s, options(1ms));
    QCOMPARE(failureNow(&refused), DistributedLock::OptionsError);
    QVERIFY(eventually([&] { return after.list().size() == 3; }));
}

void tst_LockObserver::deletesTheLock_data()
{
    addNamedRows<QString>("when", {"acquired", "failed", "released", "lost", "renewed"});
}

void tst_LockObserver::deletesTheLock()
{
    QFETCH(QString, when);
    StillRegistry still(serverUrl());
    auto lock = std::make_unique<TestLock>(&still, u"a"_s, options(Outlasting));
    const Installed observer([&](const QString &kind, const LockEvent &) {
        if (kind == when)
            lock.reset();
    });
    const Heard after;
    if (when == u"failed"_s)
        lock->setOptions(options(1ms));
    lock->acquire();
    QVERIFY(eventually([&] { return !lock || lock->isHeld(); }));
    if (when == u"released"_s)
        lock->release();
    else if (when == u"renewed"_s)
        still.pass(Outlasting / 2);
    if (when == u"lost"_s) {
        QVERIFY(eventually([&] { return isListening(&still); }));
        QVERIFY(awaited(still.forceRelease(u"a"_s)).value == LockRegistry::Done);
    }
    QVERIFY(eventually([&] { return !lock; }));
    QVERIFY(eventually([&] {
        return QStringList({u"released a"_s, u"lost a"_s, u"failed a"_s})
                .contains(after.list().value(after.list().size() - 1));
    }));
    TestLock next(&still, u"a"_s, options(Outlasting));
    QVERIFY(acquireNow(&next));
}

void tst_LockObserver::acquiresAgain()
{
    TestLock lock(registry(), u"a"_s);
    connect(&lock, &DistributedLock::acquired, &lock, &DistributedLock::release);
    int holds = 0;
    const Installed observer([&](const QString &kind, const LockEvent &) {
        if (kind == u"released"_s && ++holds < 10)
            lock.acquire();
    });
    lock.acquire();
    QVERIFY(eventually([&] { return holds == 10; }));
    QCOMPARE(lock.spies.acquired.size(), 10);
}

void tst_LockObserver::removesItself()
{
    int calls = 0;
    std::weak_ptr<Observer> alive;
    {
        const auto observer = std::make_shared<Observer>([&](const QString &, const LockEvent &) {
            ++calls;
            LockObserver::remove(alive.lock().get());
            QVERIFY(!alive.expired()); // until it returns
        });
        alive = observer;
        LockObserver::install(observer);
    }
    QVERIFY(!alive.expired());
    const Heard after;
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return after.list().size() == 2; }));
    QCOMPARE(calls, 1);
    QVERIFY(eventually([&] { return alive.expired(); }));
}

void tst_LockObserver::removesOthers()
{
    std::unique_ptr<Heard> other;
    const Installed observer([&](const QString &, const LockEvent &) { other->remove(); });
    other = std::make_unique<Heard>();
    const Heard after;
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return after.list().size() == 1; }));
    QCOMPARE(other->list(), QStringList());
}

/// The new one hears of what happens from then on.
void tst_LockObserver::installsAnother()
{
    std::unique_ptr<Heard> other;
    const Installed observer([&](const QString &, const LockEvent &) {
        if (!other)
            other = std::make_unique<Heard>();
    });
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(eventually([&] { return other != nullptr; }));
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return !other->list().isEmpty(); }));
    QCOMPARE(other->list(), QStringList{u"released a"_s});
}

/// What has happened, but was not reported yet, is not reported to an observer that was removed, or installed since.
void tst_LockObserver::pendingWhenRemoved()
{
    Heard removed;
    const Heard stays;
    TestLock refused(registry(), u"refused"_s, options(1ms));
    refused.acquire();
    removed.remove();
    const Heard late;
    QVERIFY(eventually([&] { return stays.list().size() == 1; }));
    QCOMPARE(removed.list(), QStringList());
    QCOMPARE(late.list(), QStringList());
}

void tst_LockObserver::throws()
{
    const Installed observer([](const QString &kind, const LockEvent &) {
        if (kind == u"acquired"_s)
            throw std::runtime_error("disk is full");
        throw 1;
    });
    const Heard after;
    const LogCapture log;
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    QVERIFY(releaseNow(&lock));
    QVERIFY(eventually([&] { return after.list().size() == 2; }));
    QCOMPARE(log.messages(QtWarningMsg).size(), 2);
    QCOMPARE(log.count({u"Lock \"a\""_s, u"LockObserver"_s, u"disk is full"_s}), 1);
    QCOMPARE(log.count({u"Lock \"a\""_s, u"LockObserver"_s, u"not a std::exception"_s}), 1);
}

/// The loop reports what happens, and what was pending.
void tst_LockObserver::runsAnEventLoop()
{
    Heard heard;
    TestLock other(registry(), u"other"_s);
    bool isNested = false, hasSucceeded = false;
    const Installed observer([&](const QString &, const LockEvent &event) {
        if (event.name != u"first"_s)
            return;
        isNested = true;
        hasSucceeded = eventually([&] { return heard.list().contains(u"failed second"_s); }) && acquireNow(&other)
                && eventually([&] { return heard.list().contains(u"acquired other"_s); });
        isNested = false;
    });
    TestLock first(registry(), u"first"_s, options(1ms)), second(registry(), u"second"_s, options(1ms));
    first.acquire();
    second.acquire();
    QVERIFY(eventually([&] { return hasSucceeded && !isNested; }));
    QCOMPARE(heard.list(), QStringList({u"failed first"_s, u"failed second"_s, u"acquired other"_s}));
}

/// Events that a thread has not reported when it ends are reported then, in that thread.
void tst_LockObserver::endOfAThread()
{
    std::atomic<int> released = 0;
    std::atomic<bool> isItsThread = true;
    std::atomic<Qt::HANDLE> id = nullptr;
    const Installed observer([&](const QString &kind, const LockEvent &) {
        if (kind == u"released"_s)
            ++released;
        isItsThread = isItsThread && QThread::currentThreadId() == id;
    });
    const std::unique_ptr<QThread> thread(QThread::create([&, server = serverUrl()] {
        id = QThread::currentThreadId();
        LockRegistry own(server);
        TestLock lock(&own, u"a"_s);
        TestLock leftToInstance(LockRegistry::instance(server), u"b"_s);
        if (!acquireNow(&lock) || !acquireNow(&leftToInstance))
            qWarning("not acquired");
    }));
    thread->start();
    thread->wait();
    QCOMPARE(released, 2);
    QVERIFY(isItsThread);
}

/// remove() does not wait for the call, which keeps the observer alive.
void tst_LockObserver::removedWhileItIsCalled()
{
    QSemaphore begun, mayEnd;
    std::atomic<int> calls = 0;
    std::weak_ptr<Observer> alive;
    {
        const auto observer = std::make_shared<Observer>([&](const QString &, const LockEvent &) {
            ++calls;
            begun.release();
            mayEnd.acquire();
        });
        alive = observer;
        LockObserver::install(observer);
    }
    const std::unique_ptr<QThread> thread(QThread::create([server = serverUrl()] {
        LockRegistry own(server);
        TestLock lock(&own, u"a"_s);
        if (acquireNow(&lock))
            releaseNow(&lock);
    }));
    thread->start();
    begun.acquire();
    LockObserver::remove(alive.lock().get());
    QVERIFY(!alive.expired());
    mayEnd.release();
    thread->wait();
    QCOMPARE(calls, 1);
    QVERIFY(alive.expired());
}

void tst_LockObserver::removesItselfWhenItIsDestroyed()
{
    static bool isDestroyed = false;
    struct Careful : LockObserver
    {
        ~Careful() override
        {
            LockObserver::remove(this);
            isDestroyed = true;
        }
    };
    auto observer = std::make_shared<Careful>();
    const LockObserver *const address = observer.get();
    LockObserver::install(std::move(observer));
    LockObserver::remove(address);
    QVERIFY(std::exchange(isDestroyed, false));
}

void tst_LockObserver::threads()
{
    constexpr int threads = 4;
    constexpr int rounds = 200;
    QDistLock::LockMetrics::reset();
    const auto sums = EventSums::installed();
    const auto end = qScopeGuard([&sums] { LockObserver::remove(sums.get()); });
    std::atomic<int> working = threads;
    std::vector<std::unique_ptr<QThread>> workers;
    for (int i = 0; i < threads; ++i) {
        workers.emplace_back(QThread::create([server = serverUrl(), i, &working] {
            LockRegistry own(server);
            for (int round = 0; round < rounds; ++round) {
                TestLock lock(&own, u"%1 of thread %2"_s.arg(round % 3).arg(i));
                if (acquireNow(&lock) && round % 2 == 0)
                    releaseNow(&lock);
            }
            --working;
        }));
        workers.back()->start();
    }
    while (working > 0) {
        std::atomic<int> calls = 0;
        const auto observer = std::make_shared<Observer>([&calls](const QString &, const LockEvent &) { ++calls; });
        LockObserver::install(observer);
        while (working > 0 && calls == 0)
            QThread::yieldCurrentThread();
        LockObserver::remove(observer.get());
        while (observer.use_count() > 1) // pending events, or a call
            QThread::yieldCurrentThread();
    }
    for (const auto &worker : workers)
        worker->wait();
    QCOMPARE(sums->differences(), QStringList());
}

QTEST_GUILESS_MAIN(tst_LockObserver)
#include "tst_lockobserver.moc"
