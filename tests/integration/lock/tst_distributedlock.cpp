// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The public object: properties, signals and futures, and what slots do to it.

#include "support/locktest.h"

#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/LockInfo>

#include <QtCore/qeventloop.h>
#include <QtCore/qmetaobject.h>
#include <QtCore/qpointer.h>

#include <functional>
#include <memory>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using QDistLock::EngineError;

namespace {

/// Names of the signals an object emits, in order; of those without a meaning here none.
class SignalLog : public QObject
{
    Q_OBJECT
public:
    explicit SignalLog(DistributedLock *lock)
        : m_lock(lock)
    {
        const QMetaObject *const meta = lock->metaObject();
        const QMetaMethod slot = staticMetaObject.method(staticMetaObject.indexOfSlot("note()"));
        for (int i = QObject::staticMetaObject.methodCount(); i < meta->methodCount(); ++i) {
            if (meta->method(i).methodType() == QMetaMethod::Signal)
                connect(lock, meta->method(i), this, slot);
        }
    }
    QStringList take() { return std::exchange(names, {}); }

    QStringList names;
    std::function<void(const QString &)> action;

private Q_SLOTS:
    void note()
    {
        const QString name = QString::fromLatin1(m_lock->metaObject()->method(senderSignalIndex()).name());
        names.append(name);
        if (action)
            action(name);
    }

private:
    QPointer<DistributedLock> m_lock;
};

QUrl memoryUrl()
{
    static int count = 0;
    return QUrl(u"memory:lock%1"_s.arg(++count));
}

/// Ends with the name free, and that error standing.
bool becomesBusy(DistributedLock *lock)
{
    DistributedLock rival(lock->registry(), lock->name());
    if (!acquireNow(&rival))
        return false;
    lock->tryAcquire();
    const bool busy = eventually([&] { return lock->error() == DistributedLock::BusyError; });
    rival.release();
    return busy && eventually([&] { return rival.state() == DistributedLock::Unlocked; });
}

} // namespace

class tst_DistributedLock : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void construction();
    void metaObject();
    void optionProperties();
    void liveProperties();
    void signalOrder();
    void signalOrderOfALoss();
    void signalOrderAfterAnError();
    void renewedAfterAnError();
    void futures();
    void cancelledFuture_data() { thousandsAtOnce_data(); }
    void cancelledFuture();
    void cancelledWhileASlotRuns();
    void futuresOfARelease();
    void futureContinuations();
    void noSignalInsideACall();
    void errorsNameTheLock_data();
    void errorsNameTheLock();
    void emptyNameWithoutPrefix();
    void errorIsClearedBySuccess();
    void errorIsClearedByRelease();
    void releasedWhenTheErrorIsCleared();
    void renamedWhileInUse();
    void keyPrefixChangedWhileReleasing();
    void optionsWhileHeld();
    void badOptionsInTheLastMillisecond();
    void autoRenewWhileHeld();
    void releaseAfterAcquireWhileReleasing();
    void twoObjectsOfOneName();

    void deletedInEachSignal_data();
    void deletedInEachSignal();
    void deletedByAContinuation();
    void deletedByNewDefaults();
    void continuationsOfADestroyedLock();
    void acquiresInEachSlot();

    void eventLoopInASlot_data()
    {
        Support::addNamedRows<QString>("signal", {"acquired", "stateChanged", "heldChanged", "renewed", "atRisk"});
    }
    void eventLoopInASlot();
    void eventLoopInASlotOfAnotherLock();
    void eventLoopWhenTheErrorIsCleared();
    void continuationAcquiresAgainInTheDestructor();
    void lostBeforeItWasReported();
    TIMING void manyAcquiresOfOneLock();
    void notRenewedOnceReleased();
    void retriesThatWereConfigured();

    void slotsOfATurn_data() { Support::addRows<bool>("oneObject", {{"one object", true}, {"many objects", false}}); }
    void slotsOfATurn();
    void thousandsAtOnce_data() { Support::addRows<bool>("memory", {{"redis", false}, {"memory", true}}); }
    void thousandsAtOnce();
};

void tst_DistributedLock::construction()
{
    QObject parent;
    DistributedLock unnamed(&parent);
    QCOMPARE(unnamed.parent(), &parent);
    QCOMPARE(unnamed.name(), QString());
    QCOMPARE(unnamed.state(), DistributedLock::Unlocked);
    QVERIFY(!unnamed.isHeld());
    QCOMPARE(unnamed.holdCount(), 0);
    QCOMPARE(unnamed.fencingToken(), 0);
    QCOMPARE(unnamed.queuePosition(), -1);
    QCOMPARE(unnamed.remainingTime(), 0ns);
    QCOMPARE(unnamed.error(), DistributedLock::NoError);
    QCOMPARE(unnamed.errorString(), QString());
    QVERIFY(!unnamed.registry());
    const LockOptions defaults;
    QCOMPARE(unnamed.lease(), defaults.lease);
    QCOMPARE(unnamed.waitTime(), defaults.wait);
    unnamed.release();
    unnamed.cancel();
    DistributedLock named(u"a"_s);
    QCOMPARE(named.name(), u"a"_s);
}

void tst_DistributedLock::metaObject()
{
    const QMetaObject &meta = DistributedLock::staticMetaObject;
    QStringList properties;
    for (int i = meta.propertyOffset(); i < meta.propertyCount(); ++i) {
        const QMetaProperty property = meta.property(i);
        properties.append(QString::fromLatin1(property.name()));
        QCOMPARE(property.hasNotifySignal(), qstrcmp(property.name(), "remainingTime") != 0);
    }
    QCOMPARE(properties,
             u"name state held holdCount fencingToken queuePosition lease wait retryInterval "
             "autoRenew fair error errorString remainingTime"_s.split(u' '));
    QStringList calls;
    for (int i = meta.methodOffset(); i < meta.methodCount(); ++i) {
        if (meta.method(i).methodType() == QMetaMethod::Slot)
            calls.append(QString::fromLatin1(meta.method(i).methodSignature()));
    }
    QCOMPARE(calls, (QStringList{u"acquire()"_s, u"tryAcquire()"_s, u"release()"_s, u"cancel()"_s}));
    QCOMPARE(QMetaEnum::fromType<DistributedLock::State>().keyCount(), 5);
    QCOMPARE(QMetaEnum::fromType<DistributedLock::Error>().keyCount(), 15);
    QCOMPARE(QMetaEnum::fromType<DistributedLock::LossReason>().keyCount(), 4);
}

void tst_DistributedLock::optionProperties()
{
    DistributedLock lock(u"a"_s);
    SignalLog log(&lock);
    const auto check = [&](const char *property, const QVariant &value) {
        QVERIFY(lock.setProperty(property, value));
        QCOMPARE(lock.property(property), value);
        QCOMPARE(log.take(), QStringList{QString::fromLatin1(property) + u"Changed"_s});
        lock.setProperty(property, value);
        QCOMPARE(log.take(), QStringList());
    };
    check("name", u"b"_s);
    check("lease", 5000);
    check("wait", 700);
    check("wait", (std::numeric_limits<int>::max)());
    QCOMPARE(lock.waitTime(), LockOptions::Forever);
    check("retryInterval", 33);
    check("autoRenew", false);
    check("fair", false);
    lock.setLease(90min);
    QCOMPARE(lock.property("lease").toInt(), 90 * 60 * 1000);
    lock.setWaitTime(LockOptions::Forever - 1ms);
    QCOMPARE(lock.property("wait").toInt(), (std::numeric_limits<int>::max)());
    lock.setRetryInterval(milliseconds(2s));
    QCOMPARE(lock.property("retryInterval").toInt(), 2000);
    log.take();

    LockOptions options = lock.options();
    options.lease = 1s;
    options.autoRenew = true;
    lock.setOptions(options);
    QCOMPARE(log.take(), (QStringList{u"leaseChanged"_s, u"autoRenewChanged"_s}));
}

void tst_DistributedLock::liveProperties()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(options(30s));
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.state(), DistributedLock::Held);
    QCOMPARE(lock.property("remainingTime").toInt(), 29698);
    QCOMPARE(lock.remainingTime(), std::chrono::nanoseconds(29698ms));
    QCOMPARE(lock.property("remainingTime").toInt(), 29698);
    registry.advance(1ms - 1ns);
    QCOMPARE(lock.property("remainingTime").toInt(), 29697); // rounded down: never more than there is
    lock.setAutoRenew(false);
    registry.pass(20s);
    QCOMPARE(lock.state(), DistributedLock::AtRisk);
    QVERIFY(lock.property("held").toBool());
    registry.advance(10s); // nothing was emitted yet
    QVERIFY(!lock.isHeld());
    QVERIFY(!lock.property("held").toBool());
    QCOMPARE(lock.property("remainingTime").toInt(), 0);
}

void tst_DistributedLock::signalOrder()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    SignalLog log(&lock);
    lock.acquire();
    QCOMPARE(log.take(), QStringList{u"stateChanged"_s});
    QVERIFY(eventually([&] { return log.names.contains(u"acquired"_s); }));
    QCOMPARE(log.take(), u"stateChanged heldChanged holdCountChanged fencingTokenChanged acquired"_s.split(u' '));
    const qint64 fence = lock.fencingToken();

    lock.acquire(); // re-entry
    QCOMPARE(log.take(), QStringList{u"holdCountChanged"_s});
    QCOMPARE(lock.holdCount(), 2);
    QCOMPARE(lock.fencingToken(), fence);
    processEvents();
    QCOMPARE(log.take(), QStringList{u"acquired"_s});
    lock.release();
    QCOMPARE(log.take(), QStringList{u"holdCountChanged"_s});
    processEvents();
    QCOMPARE(log.take(), QStringList());
    QVERIFY(lock.isHeld());

    lock.release();
    QCOMPARE(log.take(), u"stateChanged heldChanged holdCountChanged fencingTokenChanged"_s.split(u' '));
    QCOMPARE(lock.state(), DistributedLock::Releasing);
    QVERIFY(eventually([&] { return log.names.contains(u"released"_s); }));
    QCOMPARE(log.take(), u"stateChanged released"_s.split(u' '));
    processEvents();
    QCOMPARE(log.take(), QStringList());
}

void tst_DistributedLock::signalOrderOfALoss()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(options(30s).withAutoRenew(false));
    lock.acquire();
    QVERIFY(acquireNow(&lock)); // two levels
    processEvents();
    QCOMPARE(lock.holdCount(), 2);
    SignalLog log(&lock);
    bool consistent = false;
    connect(&lock, &DistributedLock::lost, &lock, [&](DistributedLock::LossReason reason) {
        consistent = reason == DistributedLock::LeaseExpired && !lock.isHeld() && lock.holdCount() == 0
                && lock.fencingToken() == 0 && lock.state() == DistributedLock::Unlocked;
    });
    registry.pass(20s);
    QCOMPARE(log.take(), u"stateChanged atRisk"_s.split(u' '));
    registry.pass(10s);
    QCOMPARE(log.take(),
             u"stateChanged heldChanged holdCountChanged fencingTokenChanged lost errorChanged"_s.split(u' '));
    QVERIFY(consistent);
    registry.pass(1h);
    QCOMPARE(log.take(), QStringList());
}

void tst_DistributedLock::signalOrderAfterAnError()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    QVERIFY(becomesBusy(&lock));
    SignalLog log(&lock);
    DistributedLock::Error inSlot = DistributedLock::ServerError;
    log.action = [&](const QString &name) {
        if (name == QLatin1String("acquired") || name == QLatin1String("released"))
            inSlot = lock.error();
    };
    lock.acquire();
    QVERIFY(eventually([&] { return log.names.contains(u"acquired"_s); }));
    QCOMPARE(log.take(),
             u"stateChanged stateChanged heldChanged holdCountChanged fencingTokenChanged "
             "acquired errorChanged"_s.split(u' '));
    QCOMPARE(inSlot, DistributedLock::NoError);

    lock.setName(u"b"_s); // refused
    QCOMPARE(lock.error(), DistributedLock::NameError);
    log.take();
    lock.release();
    QVERIFY(eventually([&] { return log.names.contains(u"released"_s); }));
    QCOMPARE(log.take(),
             u"stateChanged heldChanged holdCountChanged fencingTokenChanged stateChanged "
             "released errorChanged"_s.split(u' '));
    QCOMPARE(inSlot, DistributedLock::NoError);

    DistributedLock rival(&registry, u"a"_s);
    QVERIFY(acquireNow(&rival));
    lock.tryAcquire();
    QVERIFY(eventually([&] { return log.names.contains(u"acquireFailed"_s); }));
    QCOMPARE(log.take(), u"stateChanged stateChanged acquireFailed errorChanged"_s.split(u' '));
}

void tst_DistributedLock::renewedAfterAnError()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    QVERIFY(acquireNow(&lock));
    lock.setName(u"b"_s); // refused
    SignalLog log(&lock);
    log.action = [&](const QString &name) {
        if (name == QLatin1String("errorChanged"))
            lock.release();
    };
    registry.pass(lock.lease() / 2);
    QVERIFY(eventually([&] { return log.names.contains(u"released"_s); }));
    QCOMPARE(log.names.mid(0, 2), u"renewed errorChanged"_s.split(u' '));
    QCOMPARE(log.names.count(u"renewed"_s), 1);
}

void tst_DistributedLock::futures()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    DistributedLock other(&registry, u"a"_s);
    QFuture<LockResult> future = lock.acquireAsync();
    QVERIFY(!future.isFinished());
    QVERIFY(future.isStarted());
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(!future.isCanceled());
    QVERIFY(future.result().isAcquired());
    QCOMPARE(future.result().fencingToken, lock.fencingToken());
    QCOMPARE(future.result().errorString, QString());

    future = other.tryAcquireAsync();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(!future.isCanceled()); // busy is a result
    QVERIFY(!future.result());
    QCOMPARE(future.result().error, DistributedLock::BusyError);
    QCOMPARE(future.result().fencingToken, 0);
    QVERIFY(future.result().errorString.contains(u"\"a\""_s));

    other.setOptions(options(30s, 50ms));
    future = other.acquireAsync();
    QVERIFY(eventually([&] { return other.queuePosition() == 0; }));
    registry.pass(50ms);
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(!future.isCanceled());
    QCOMPARE(future.result().error, DistributedLock::TimeoutError);

    other.setWaitTime(60s);
    QList<QFuture<LockResult>> many;
    for (int i = 0; i < 5; ++i)
        many.append(other.acquireAsync());
    other.cancel();
    QVERIFY(eventually([&] { return all(many, [](const auto &f) { return f.isFinished(); }); }));
    for (const QFuture<LockResult> &each : std::as_const(many))
        QCOMPARE(each.result().error, DistributedLock::CancelledError);

    // One future for each level.
    many.clear();
    for (int i = 0; i < 5; ++i)
        many.append(lock.acquireAsync());
    QVERIFY(eventually([&] { return many.last().isFinished(); }));
    QCOMPARE(lock.holdCount(), 6);
    for (const QFuture<LockResult> &each : std::as_const(many))
        QCOMPARE(each.result().fencingToken, lock.fencingToken());
}

void tst_DistributedLock::cancelledFuture()
{
    QFETCH(bool, memory);
    LockRegistry registry(memory ? memoryUrl() : m_server.url());
    DistributedLock holder(&registry, u"a"_s);
    DistributedLock lock(&registry, u"a"_s);
    for (DistributedLock *each : {&holder, &lock})
        each->setOptions(options());
    Spies spies(&lock);
    const auto isFree = [&] {
        const auto info = registry.inspect(u"a"_s);
        return eventually([&] { return info.isFinished(); }) && !info.result().held;
    };

    // Before the server was asked.
    QFuture<LockResult> future = lock.acquireAsync();
    future.cancel();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(future.isCanceled() && future.resultCount() == 0);
    QCOMPARE(spies.acquired.size(), 0);
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(spies.failure(), DistributedLock::CancelledError);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(isFree());

    // In the queue.
    QVERIFY(acquireNow(&holder));
    future = lock.acquireAsync();
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; }));
    future.cancel();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QCOMPARE(spies.failure(1), DistributedLock::CancelledError);
    const auto waiters = awaited(registry.waiters(u"a"_s));
    QVERIFY(waiters.value.isEmpty());
    QVERIFY(holder.isHeld());

    // Another acquire of the same object goes on.
    future = lock.acquireAsync();
    const QFuture<LockResult> kept = lock.acquireAsync();
    future.cancel();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    holder.release();
    QVERIFY(eventually([&] { return kept.isFinished(); }));
    QVERIFY(kept.result());
    QCOMPARE(lock.holdCount(), 1);

    // A level of a hold.
    future = lock.acquireAsync();
    future.cancel();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QCOMPARE(lock.holdCount(), 1);

    // After its end it is too late.
    QFuture<LockResult> ended = kept;
    ended.cancel();
    const auto released = awaited(lock.releaseAsync());
    QVERIFY(released);
    QCOMPARE(spies.acquired.size(), 1);
    QVERIFY(isFree());
}

void tst_DistributedLock::cancelledWhileASlotRuns()
{
    DistributedLock first(registry(), u"a"_s);
    DistributedLock lock(registry(), u"b"_s);
    QFuture<LockResult> future;

    // The grant has arrived, but it is not reported yet.
    Spies spies(&lock);
    const auto connection = connect(&first, &DistributedLock::acquired, this, [&] { future.cancel(); });
    first.acquire();
    future = lock.acquireAsync();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QVERIFY(first.isHeld() && !lock.isHeld());
    QCOMPARE(spies.acquired.size(), 0);
    QCOMPARE(spies.failed.size(), 1);
    QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked; }));
    QVERIFY(!m_server.exists("lock:b"));
    disconnect(connection);

    // The grant is being reported.
    connect(&lock, &DistributedLock::acquired, this, [&] { future.cancel(); });
    future = lock.acquireAsync();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QCOMPARE(spies.acquired.size(), 1);
    QVERIFY(eventually([&] { return spies.released.size() == 1; }));
    QVERIFY(!m_server.exists("lock:b"));
}

void tst_DistributedLock::futuresOfARelease()
{
    DistributedLock lock(registry(), u"a"_s);
    QFuture<bool> future = lock.releaseAsync();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QCOMPARE(future.result(), false); // nothing was held
    QVERIFY(acquireNow(&lock));
    lock.acquire();
    future = lock.releaseAsync();
    QFuture<bool> last = lock.releaseAsync();
    QFuture<bool> tooMany = lock.releaseAsync();
    QVERIFY(eventually([&] { return future.isFinished() && last.isFinished() && tooMany.isFinished(); }));
    QCOMPARE(future.result(), true);
    QCOMPARE(last.result(), true);
    QCOMPARE(tooMany.result(), false);
    QVERIFY(!m_server.exists("lock:a"));

    QVERIFY(acquireNow(&lock));
    m_server.command({"DEL", "lock:a"});
    Spies spies(&lock);
    future = lock.releaseAsync();
    QVERIFY(eventually([&] { return future.isFinished(); }));
    QCOMPARE(future.result(), false);
    QCOMPARE(spies.lost.size(), 1);
    QCOMPARE(spies.reason(), DistributedLock::Deleted);
    QVERIFY(spies.released.isEmpty());
}

void tst_DistributedLock::futureContinuations()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    QStringList order;
    connect(&lock, &DistributedLock::acquired, &lock, [&] { order.append(u"acquired"_s); });
    connect(&lock, &DistributedLock::released, &lock, [&] { order.append(u"released"_s); });
    const auto whole = lock.acquireAsync()
                               .then(&lock,
                                     [&](const LockResult &result) {
                                         order.append(result ? u"held"_s : result.errorString);
                                         return lock.releaseAsync();
                                     })
                               .unwrap()
                               .then(&lock, [&](bool released) { order.append(released ? u"done"_s : u"?"_s); });
    QVERIFY(eventually([&] { return whole.isFinished(); }));
    QCOMPARE(order, u"acquired held released done"_s.split(u' '));
}

void tst_DistributedLock::noSignalInsideACall()
{
    StillRegistry registry(memoryUrl());
    DistributedLock other(&registry, u"b"_s);
    QVERIFY(acquireNow(&other));
    DistributedLock lock(&registry, u"a"_s);
    Spies spies(&lock);
    const auto quiet = [&](const std::function<void()> &call) {
        const auto before = spies.total();
        call();
        return spies.total() == before;
    };
    QVERIFY(quiet([&] { lock.acquire(); }));
    QVERIFY(quiet([&] { lock.cancel(); }));
    processEvents();
    QVERIFY(acquireNow(&lock));
    QVERIFY(quiet([&] { lock.acquire(); }));
    QVERIFY(quiet([&] { lock.tryAcquire(); }));
    processEvents();
    QVERIFY(quiet([&] {
        lock.release();
        lock.release();
        lock.release();
    }));
    QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked; }));
    lock.setLease(0ms);
    QVERIFY(quiet([&] { lock.acquire(); }));
    lock.setLease(30s);
    lock.setName(QString());
    QVERIFY(quiet([&] { lock.acquire(); }));
    lock.setName(u"b"_s);
    QVERIFY(quiet([&] { lock.tryAcquire(); }));
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 7; }));
}

void tst_DistributedLock::errorsNameTheLock_data()
{
    Support::addColumns<QString, LockOptions, DistributedLock::Error, QString>("name", "options", "error", "text");
    const LockOptions plain = options();
    QTest::newRow("empty name") << QString() << plain << DistributedLock::NameError << u"empty"_s;
    QTest::newRow("long name") << QString(1025, u'x') << plain << DistributedLock::NameError << u"1024"_s;
    QTest::newRow("NUL") << QString(QChar::Null) << plain << DistributedLock::NameError << u"NUL"_s;
    QTest::newRow("lease 0") << u"a"_s << options(0ms) << DistributedLock::OptionsError << u"lease is 0 ms"_s;
    QTest::newRow("lease over a day") << u"a"_s << options(24h + 1ms) << DistributedLock::OptionsError << u"24 h"_s;
    QTest::newRow("wait") << u"a"_s << options(1s, -1ms) << DistributedLock::OptionsError << u"wait is -1 ms"_s;
    QTest::newRow("replicas") << u"a"_s << options().withMinReplicas(-1) << DistributedLock::OptionsError
                              << u"minReplicas"_s;
}

void tst_DistributedLock::errorsNameTheLock()
{
    QFETCH(QString, name);
    QFETCH(LockOptions, options);
    QFETCH(DistributedLock::Error, error);
    QFETCH(QString, text);
    const qint64 before = m_server.commandsProcessed("evalsha");
    TestLock lock(registry(), name, options);
    QSignalSpy changes(&lock, &DistributedLock::errorChanged);
    const auto result = awaited(lock.acquireAsync());
    QCOMPARE(lock.spies.failed.size(), 1);
    QCOMPARE(lock.spies.failure(), error);
    QCOMPARE(lock.spies.errors.size(), 1);
    QCOMPARE(changes.size(), 1);
    QCOMPARE(lock.error(), error);
    QCOMPARE(result.error, error);
    QCOMPARE(result.errorString, lock.errorString());
    QVERIFY2(lock.errorString().contains(text), qPrintable(lock.errorString()));
    QVERIFY2(lock.errorString().startsWith(u"Lock "_s + QDistLock::Detail::quoted(name)),
             qPrintable(lock.errorString()));
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(lockKeys(m_server).isEmpty());
    QCOMPARE(m_server.commandsProcessed("evalsha"), before);
}

void tst_DistributedLock::emptyNameWithoutPrefix()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, QString());
    lock.setOptions(options());
    registry.setKeyPrefix(QString());
    const auto result = awaited(lock.acquireAsync());
    QCOMPARE(result.error, DistributedLock::NameError);
}

void tst_DistributedLock::errorIsClearedBySuccess()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    lock.setLease(0ms);
    lock.acquire();
    QVERIFY(eventually([&] { return lock.error() == DistributedLock::OptionsError; }));
    lock.setLease(30s);
    QVERIFY(acquireNow(&lock));
    processEvents();
    QCOMPARE(lock.error(), DistributedLock::NoError);
    QCOMPARE(lock.errorString(), QString());
}

void tst_DistributedLock::errorIsClearedByRelease()
{
    Support::FaultProxy proxy(m_server);
    LockRegistry registry(proxy.url());
    TestLock lock(&registry, u"a"_s);
    QVERIFY(acquireNow(&lock));
    DistributedLock::Error inSlot = DistributedLock::ServerError;
    DistributedLock::Error afterTheCut = DistributedLock::NoError;
    connect(&lock, &DistributedLock::released, &lock, [&] { inSlot = lock.error(); });
    connect(&lock, &DistributedLock::errorOccurred, &lock, [&] { afterTheCut = lock.error(); });
    proxy.cutBefore("EVALSHA");
    lock.release();
    QVERIFY(eventually([&] { return !lock.spies.errors.isEmpty(); }));
    QCOMPARE(afterTheCut, DistributedLock::ConnectionError);
    QVERIFY(eventually([&] { return !lock.spies.released.isEmpty(); }));
    QCOMPARE(lock.error(), DistributedLock::NoError);
    QCOMPARE(lock.errorString(), QString());
    QCOMPARE(inSlot, DistributedLock::NoError);

    // An acquire that was taken back is no success.
    lock.acquire();
    lock.release();
    QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked && lock.spies.failed.size() == 1; }));
    processEvents();
    QCOMPARE(lock.error(), DistributedLock::CancelledError);
}

void tst_DistributedLock::releasedWhenTheErrorIsCleared()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    QVERIFY(becomesBusy(&lock));
    QStringList events;
    connect(&lock, &DistributedLock::acquired, &lock,
            [&] { events.append(lock.isHeld() ? u"acquired"_s : u"acquired too late"_s); });
    connect(&lock, &DistributedLock::released, &lock, [&] { events.append(u"released"_s); });
    connect(&lock, &DistributedLock::errorChanged, &lock, [&] {
        if (lock.isHeld())
            lock.release();
    });
    lock.acquire();
    QVERIFY(eventually([&] { return events.contains(u"released"_s); }));
    processEvents();
    QCOMPARE(events, (QStringList{u"acquired"_s, u"released"_s}));
}

void tst_DistributedLock::renamedWhileInUse()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    Spies spies(&lock);
    QSignalSpy names(&lock, &DistributedLock::nameChanged);
    lock.acquire();
    lock.setName(u"b"_s);
    QCOMPARE(lock.name(), u"a"_s);
    QCOMPARE(lock.error(), DistributedLock::NameError);
    QVERIFY(lock.errorString().contains(u"\"a\""_s));
    QCOMPARE(spies.errors.size(), 1);
    QVERIFY(eventually([&] { return lock.isHeld(); }));
    lock.setName(u"b"_s);
    lock.setName(u"a"_s); // no change
    QCOMPARE(lock.name(), u"a"_s);
    QVERIFY(names.isEmpty());
    QVERIFY(releaseNow(&lock));
    lock.setName(u"b"_s);
    QCOMPARE(names.size(), 1);
    DistributedLock other(&registry, u"b"_s);
    QVERIFY(acquireNow(&lock));
    const auto result = awaited(other.tryAcquireAsync());
    QCOMPARE(result.error, DistributedLock::BusyError);
}

void tst_DistributedLock::keyPrefixChangedWhileReleasing()
{
    DistributedLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    registry()->setKeyPrefix(u"new:"_s);
    lock.acquire(); // the hold keeps its key
    lock.release();
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"lock:a"});
    lock.release();
    QCOMPARE(lock.state(), DistributedLock::Releasing);
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"new:a"});
    registry()->setKeyPrefix(u"lock:"_s);
    QVERIFY(releaseNow(&lock));
    QVERIFY(lockKeys(m_server).isEmpty());
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lockKeys(m_server), QList<QByteArray>{"lock:a"});
}

void tst_DistributedLock::optionsWhileHeld()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(options(30s));
    QVERIFY(acquireNow(&lock));
    lock.setLease(0ms); // of the next acquire
    lock.acquire();
    processEvents();
    QCOMPARE(lock.holdCount(), 2);
    Spies spies(&lock);
    registry.pass(10s);
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    QCOMPARE(lock.property("remainingTime").toInt(), 29698);
}

void tst_DistributedLock::badOptionsInTheLastMillisecond()
{
    // What begins as a re-entry must not become an acquisition with options nobody has looked at.
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(options(30s).withAutoRenew(false));
    QVERIFY(acquireNow(&lock));
    processEvents();
    Spies spies(&lock);
    lock.setLease(0ms);
    registry.advance(lock.remainingTime() - 1us);
    QVERIFY(lock.isHeld());
    lock.acquire();
    processEvents();
    QVERIFY(eventually([&] { return spies.total() >= 2; }));
    QCOMPARE(spies.lost.size(), 1);
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(spies.failure(), DistributedLock::OptionsError);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
}

void tst_DistributedLock::autoRenewWhileHeld()
{
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(options(30s));
    QVERIFY(acquireNow(&lock));
    Spies spies(&lock);
    lock.setAutoRenew(false);
    registry.pass(15s);
    registry.pass(1s);
    QCOMPARE(spies.renewed.size(), 0);
    lock.setAutoRenew(true); // overdue: at once
    QVERIFY(eventually([&] { return spies.renewed.size() == 1; }));
    QCOMPARE(lock.property("remainingTime").toInt(), 29698);
    lock.setAutoRenew(false);
    registry.pass(29s);
    registry.pass(1s);
    QCOMPARE(spies.lost.size(), 1);
}

void tst_DistributedLock::releaseAfterAcquireWhileReleasing()
{
    TestLock lock(registry(), u"a"_s, {});
    QVERIFY(acquireNow(&lock));
    lock.release();
    lock.acquire();
    lock.release(); // takes the acquire back
    QVERIFY(eventually([&] { return lock.spies.released.size() == 1 && lock.spies.failed.size() == 1; }));
    QCOMPARE(lock.spies.failure(), DistributedLock::CancelledError);
    processEvents();
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
    QVERIFY(lockKeys(m_server).isEmpty());

    QVERIFY(acquireNow(&lock));
    lock.release();
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.spies.released.size(), 2);
}

void tst_DistributedLock::twoObjectsOfOneName()
{
    StillRegistry registry(memoryUrl());
    DistributedLock one(&registry, u"a"_s), two(&registry, u"a"_s);
    two.setOptions(options());
    QVERIFY(acquireNow(&one));
    two.acquire();
    processEvents();
    QVERIFY(!two.isHeld());
    QCOMPARE(two.state(), DistributedLock::Acquiring);
    const qint64 fence = one.fencingToken();
    one.release();
    QVERIFY(eventually([&] { return two.isHeld(); }));
    QVERIFY(two.fencingToken() > fence);
}

namespace {

/// A life in which every signal comes at least once, but queuePositionChanged.
struct Life
{
    StillRegistry registry{memoryUrl()};
    QPointer<DistributedLock> lock{new DistributedLock(&registry, u"a"_s)};
    DistributedLock rival{&registry, u"a"_s};
    SignalLog log{lock};

    ~Life() { delete lock.data(); }
    void run();
};

void Life::run()
{
    const QList<std::function<void()>> steps{
            [this] { lock->setOptions(options(30s)); },
            [this] { lock->setFair(false); },
            [this] { lock->setMode(LockOptions::Shared); },
            [this] { lock->setAutoRenew(false); },
            [this] { lock->setAutoRenew(true); },
            [this] { lock->setName(u"b"_s); },
            [this] { lock->setName(u"a"_s); },
            [this] { lock->acquireAsync(); },
            [this] { processEvents(); },
            [this] { lock->acquireAsync(); },
            [this] { processEvents(); },
            [this] { lock->setName(u"b"_s); },      // refused
            [this] { lock->setRegistry(nullptr); }, // refused
            [this] { lock->releaseAsync(); },
            [this] { registry.pass(10s); },
            [this] { lock->setAutoRenew(false); },
            [this] { registry.pass(20s); },
            [this] { lock->releaseAsync(); },
            [this] { processEvents(); },
            [this] { acquireNow(&rival); },
            [this] { lock->tryAcquireAsync(); },
            [this] { processEvents(); },
            [this] { rival.release(); },
            [this] { processEvents(); },
            [this] { lock->acquire(); },
            [this] { processEvents(); },
            [this] { registry.pass(40s); },
            [this] { lock->acquire(); },
            [this] { lock->cancel(); },
            [this] { processEvents(); },
            [this] { lock->setOptions(options(0ms)); },
            [this] { lock->acquireAsync(); },
            [this] { processEvents(); },
            [this] { lock->setOptions(options(30s)); },
            [this] { lock->acquire(); },
            [this] { processEvents(); },
            [this] { lock->release(); },
            [this] { lock->acquire(); },
            [this] { processEvents(); },
            [this] { lock->release(); },
            [this] { processEvents(); },
    };
    for (const auto &step : steps) {
        if (!lock)
            return;
        step();
    }
}

} // namespace

void tst_DistributedLock::deletedInEachSignal_data()
{
    QTest::addColumn<QString>("signal");
    const QMetaObject &meta = DistributedLock::staticMetaObject;
    for (int i = meta.methodOffset(); i < meta.methodCount(); ++i) {
        const QByteArray name = meta.method(i).name();
        if (meta.method(i).methodType() == QMetaMethod::Signal && name != "queuePositionChanged")
            QTest::newRow(name.constData()) << QString::fromLatin1(name);
    }
}

void tst_DistributedLock::deletedInEachSignal()
{
    QFETCH(QString, signal);
    // In its first emission, its second, and so on until there are no more.
    int emissions = 0;
    for (int which = 1;; ++which) {
        Life life;
        int count = 0;
        QStringList late;
        life.log.action = [&](const QString &name) {
            if (!life.lock)
                late.append(name);
            else if (name == signal && ++count == which)
                delete life.lock.data();
        };
        life.run();
        processEvents();
        QCOMPARE(late, QStringList());
        if (count < which)
            break;
        ++emissions;
        QVERIFY(!life.lock);
        // It has given back what it held.
        QVERIFY(acquireNow(&life.rival));
    }
    QVERIFY2(emissions > 0, "the life above never emits it");
}

void tst_DistributedLock::deletedByAContinuation()
{
    StillRegistry registry(memoryUrl());
    for (int which = 0; which < 6; ++which) {
        QPointer<DistributedLock> lock(new DistributedLock(&registry, QString::number(which)));
        QList<QFuture<LockResult>> acquires;
        int ended = 0;
        const auto kill = [&, which] {
            if (ended++ == which)
                delete lock.data();
        };
        for (int i = 0; i < 3; ++i)
            acquires.append(lock->acquireAsync().then([&](const LockResult &result) {
                kill();
                return result;
            }));
        QVERIFY(eventually([&] { return ended >= 3; }));
        QList<QFuture<void>> releases;
        for (int i = 0; lock && i < 3; ++i)
            releases.append(lock->releaseAsync().then([&](bool) { kill(); }));
        QVERIFY(eventually([&] { return !lock; }));
        for (const auto &future : std::as_const(acquires))
            QVERIFY(future.isFinished());
        for (const auto &future : std::as_const(releases))
            QVERIFY(future.isFinished());
    }
}

void tst_DistributedLock::deletedByNewDefaults()
{
    // The first acquire takes over the default registry's options, and emits their signals.
    const QUrl url = memoryUrl();
    LockRegistry::setDefaultServer(url);
    LockRegistry::instance()->setDefaults(
            LockOptions().withLease(77s).withWait(77s).withRetryInterval(7ms).withAutoRenew(false).withFair(false));
    int emissions = 0;
    for (int which = 1; which < 20; ++which) {
        QPointer<DistributedLock> lock(new DistributedLock(u"a"_s));
        SignalLog log(lock);
        int count = 0;
        log.action = [&](const QString &) {
            if (++count == which)
                delete lock.data();
        };
        const auto result = awaited(lock->acquireAsync());
        emissions = std::max(emissions, count);
        if (lock)
            QVERIFY(result);
        delete lock.data();
    }
    QVERIFY(emissions >= 8);
    LockRegistry::setDefaultServer(QUrl());
}

void tst_DistributedLock::continuationsOfADestroyedLock()
{
    QPointer<DistributedLock> lock(new DistributedLock(registry(), u"a"_s));
    lock->setOptions(options(Outlasting));
    QVERIFY(acquireNow(lock));
    delete lock.data();
    lock = new DistributedLock(registry(), u"b"_s);
    lock->setOptions(options(Outlasting));
    QList<DistributedLock::Error> errors;
    QFuture<LockResult> again;
    lock->acquireAsync().then([&](const LockResult &result) {
        errors.append(result.error);
        if (lock) // still an object, hardly a lock
            again = lock->acquireAsync();
    });
    lock->acquireAsync().then([&](const LockResult &result) { errors.append(result.error); });
    delete lock.data();
    QCOMPARE(errors, (QList{DistributedLock::CancelledError, DistributedLock::CancelledError}));
    QVERIFY(eventually([&] { return !again.isValid() || again.isFinished(); }));
    QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
}

void tst_DistributedLock::acquiresInEachSlot()
{
    // A slot may ask for anything; each acquire still ends once, and each hold.
    for (int call = 0; call < 4; ++call) {
        StillRegistry registry(memoryUrl());
        DistributedLock lock(&registry, u"a"_s);
        lock.setOptions(options(30s));
        Spies spies(&lock);
        SignalLog log(&lock);
        int budget = 200;
        int asked = 0;
        log.action = [&](const QString &name) {
            if (budget-- <= 0 || name.startsWith(QLatin1String("error")))
                return;
            switch (call) {
            case 0:
                ++asked;
                lock.acquire();
                break;
            case 1:
                ++asked;
                lock.tryAcquire();
                break;
            case 2:
                lock.release();
                break;
            default:
                lock.cancel();
                break;
            }
        };
        for (int i = 0; i < 20; ++i) {
            ++asked;
            lock.acquire();
            processEvents();
            lock.release();
            processEvents();
        }
        log.action = nullptr;
        while (lock.state() != DistributedLock::Unlocked) {
            lock.release();
            QVERIFY(eventually([&] { return lock.state() != DistributedLock::Releasing; }));
            processEvents();
        }
        QCOMPARE(spies.acquiresEnded(), asked);
        QVERIFY(spies.holdsEnded() <= spies.acquired.size());
    }
}

void tst_DistributedLock::eventLoopInASlot()
{
    // As in a dialog. Meanwhile the lock is renewed, and lost in time. Only the test's clock advances; the library's
    // timer looks at it once a second.
    QFETCH(QString, signal);
    StillRegistry registry(m_server.url());
    auto lock = std::make_unique<DistributedLock>(&registry, u"a"_s);
    DistributedLock other(&registry, u"b"_s);
    lock->setOptions(options(30s).withAutoRenew(signal != QLatin1String("atRisk")));
    other.setOptions(options(30s));
    Spies spies(lock.get());
    Spies others(&other);
    QVERIFY(acquireNow(&other));
    SignalLog log(lock.get());
    bool entered = false;
    bool lostInside = false;
    bool renewedInside = false;
    bool heldInside = true;
    log.action = [&](const QString &name) {
        if (entered || name != signal || !lock->isHeld())
            return;
        entered = true;
        const bool isRenewed = signal != QLatin1String("atRisk");
        const auto before = spies.renewed.size();
        const auto othersBefore = others.renewed.size();
        if (isRenewed)
            registry.advance(10s); // a third of the lease
        else
            registry.advance(5s); // after 20 s
        renewedInside = eventually([&] {
            return spies.renewed.size() >= before + isRenewed && others.renewed.size() >= othersBefore + isRenewed;
        });
        m_server.command({"DEL", "lock:a"});
        registry.advance(10s);
        // The timer is armed again, and this saves waiting for it.
        QMetaObject::invokeMethod(
                this, [&] { LockRegistryPrivate::get(&registry)->watchdog()->wake(); }, Qt::QueuedConnection);
        lostInside = eventually([&] { return spies.lost.size() == 1; });
        renewedInside = renewedInside && eventually([&] { return others.renewed.size() > othersBefore + isRenewed; });
        heldInside = lock->isHeld();
    };
    lock->acquire();
    if (signal == QLatin1String("renewed") || signal == QLatin1String("atRisk")) {
        QVERIFY(eventually([&] { return lock->isHeld(); }));
        registry.pass(10s);
        QVERIFY(eventually([&] { return !others.renewed.isEmpty(); }));
        if (signal == QLatin1String("atRisk"))
            registry.pass(10s);
    }
    QVERIFY(eventually([&] { return entered && !spies.lost.isEmpty(); }));
    QVERIFY(renewedInside);
    QVERIFY(lostInside);
    QVERIFY(!heldInside);
    QCOMPARE(spies.lost.size(), 1);
    QVERIFY(spies.released.isEmpty());
    QVERIFY(other.isHeld());
    QVERIFY(others.lost.isEmpty());
}

void tst_DistributedLock::eventLoopInASlotOfAnotherLock()
{
    // Locks that share a command share its reply: a dialog in the slot of the first one must not keep
    // the others from theirs.
    std::vector<std::unique_ptr<DistributedLock>> locks;
    bool inTime = false;
    int held = 0;
    for (int i = 0; i < 20; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(registry(), QString::number(i)));
        connect(locks.back().get(), &DistributedLock::acquired, this, [&, i] {
            ++held;
            if (i == 0)
                inTime = eventually([&] { return held == 20; });
        });
    }
    for (const auto &lock : locks)
        lock->acquire();
    QVERIFY(eventually([&] { return held == 20; }));
    QVERIFY(inTime);
}

void tst_DistributedLock::continuationAcquiresAgainInTheDestructor()
{
    StillRegistry registry(memoryUrl());
    DistributedLock holder(&registry, u"a"_s);
    QVERIFY(acquireNow(&holder));
    auto lock = std::make_unique<DistributedLock>(&registry, u"a"_s);
    QList<DistributedLock::Error> errors;
    const std::function<void(const LockResult &)> again = [&, guard = QPointer(lock.get())](const LockResult &result) {
        errors.append(result.error);
        if (guard && errors.size() < 100) // else a destructor that never ends would end neither here
            guard->acquireAsync().then(again);
    };
    lock->acquireAsync().then(again);
    QVERIFY(eventually([&] { return lock->queuePosition() == 0; }));
    lock.reset();
    // The acquire that was asked for in the destructor ends, too.
    QVERIFY(eventually([&] { return errors.size() >= 2; }));
    QCOMPARE(errors, QList<DistributedLock::Error>(2, DistributedLock::CancelledError));
}

void tst_DistributedLock::notRenewedOnceReleased()
{
    // Both are renewed by one command; the slot of the first to hear of it releases the other.
    StillRegistry registry(memoryUrl());
    DistributedLock first(&registry, u"a"_s);
    DistributedLock second(&registry, u"b"_s);
    int renewedAfterRelease = 0;
    for (DistributedLock *lock : {&first, &second}) {
        lock->setOptions(options(30s));
        QVERIFY(acquireNow(lock));
        connect(lock, &DistributedLock::renewed, this, [&, lock] {
            renewedAfterRelease += !lock->isHeld();
            DistributedLock &other = lock == &first ? second : first;
            if (other.isHeld())
                other.release();
        });
    }
    Spies spies(&first), others(&second);
    registry.pass(10s);
    QVERIFY(eventually([&] { return spies.released.size() + others.released.size() == 1; }));
    processEvents();
    QCOMPARE(renewedAfterRelease, 0);
    QCOMPARE(spies.renewed.size() + others.renewed.size(), 1);
}

void tst_DistributedLock::lostBeforeItWasReported()
{
    // Granted while the event loop does something else for longer than the lease: then there was no hold.
    StillRegistry registry(memoryUrl());
    DistributedLock other(&registry, u"other"_s);
    DistributedLock lock(&registry, u"late"_s);
    lock.setOptions(options(30s));
    Spies spies(&lock);
    QList<DistributedLock::State> states;
    bool everHeld = false;
    connect(&lock, &DistributedLock::stateChanged, this, [&] { states.append(lock.state()); });
    connect(&lock, &DistributedLock::heldChanged, this, [&] { everHeld = true; });
    DistributedLock::State atFailure = DistributedLock::Held;
    connect(&lock, &DistributedLock::acquireFailed, this, [&] { atFailure = lock.state(); });
    // Both are granted in one turn; the first one's slot blocks.
    connect(&other, &DistributedLock::acquired, this, [&] { registry.advance(31s); });
    other.acquire();
    lock.acquire();
    QVERIFY(eventually([&] { return spies.acquiresEnded() == 1; }));
    QVERIFY(eventually([&] { return lock.state() == DistributedLock::Unlocked; }));
    processEvents();
    QCOMPARE(spies.failed.size(), 1);
    QCOMPARE(spies.holdsEnded(), 0);
    QCOMPARE(spies.atRisk.size(), 0);
    QCOMPARE(states, (QList{DistributedLock::Acquiring, DistributedLock::Unlocked}));
    QCOMPARE(atFailure, DistributedLock::Unlocked);
    QVERIFY(!everHeld);
}

void tst_DistributedLock::manyAcquiresOfOneLock()
{
    Support::leavesRoomFor(50ms);
    const auto timeFor = [](int acquires) {
        LockRegistry registry(QUrl(u"memory:many"_s));
        DistributedLock holder(&registry, u"a"_s);
        TestLock lock(&registry, u"a"_s, {});
        if (!acquireNow(&holder))
            return qint64(-1);
        QElapsedTimer timer;
        timer.start();
        for (int i = 0; i < acquires; ++i)
            lock.acquire();
        lock.cancel();
        eventually([&] { return lock.spies.failed.size() == acquires; });
        return timer.nsecsElapsed();
    };
    timeFor(1000);
    const qint64 few = timeFor(1000);
    const qint64 many = timeFor(16'000);
    // Sixteen times as many: 16 if each takes the same time, 256 if each takes time for all the others.
    QVERIFY2(few > 0 && many < 32 * few, qPrintable(u"%1 ns, %2 ns"_s.arg(few).arg(many)));
}

void tst_DistributedLock::retriesThatWereConfigured()
{
    // The library polls on its own behalf, too: when its subscription begins, when the holder's key expires. Only
    // retries that are retryInterval apart count.
    StillRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(options(30s, LockOptions::Forever).withMaxRetries(1).withRetryInterval(700ms));
    m_server.command({"SET", "lock:a", "foreign", "PX", "600000"});
    Spies spies(&lock);
    lock.acquire();
    QVERIFY(eventually([&] { return lock.queuePosition() == 0; })); // the subscription has begun
    registry.pass(700ms * 3 / 4 - 2ms);
    // Answers come in order: once another lock has its own, so has this one.
    DistributedLock other(&registry, u"other"_s);
    QVERIFY(acquireNow(&other));
    QVERIFY(spies.failed.isEmpty());
    registry.pass(350ms + 3ms); // in all a quarter more than the interval
    QVERIFY(eventually([&] { return spies.failed.size() == 1; }));
    QCOMPARE(spies.failure(), DistributedLock::BusyError);
}

void tst_DistributedLock::eventLoopWhenTheErrorIsCleared()
{
    // It outlives the lease: the application's last word is that the lock is lost.
    StillRegistry registry(memoryUrl());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(options(30s).withAutoRenew(false));
    QVERIFY(becomesBusy(&lock));
    Spies spies(&lock);
    SignalLog log(&lock);
    log.action = [&](const QString &name) {
        if (name == QLatin1String("errorChanged"))
            registry.pass(30s);
    };
    lock.acquire();
    QVERIFY(eventually([&] { return !spies.lost.isEmpty() && !spies.acquired.isEmpty(); }));
    processEvents();
    QCOMPARE(log.names.mid(log.names.size() - 2), u"lost errorChanged"_s.split(u' '));
    QCOMPARE(spies.acquired.size(), 1);
    QCOMPARE(spies.lost.size(), 1);
    QCOMPARE(lock.state(), DistributedLock::Unlocked);
}

void tst_DistributedLock::slotsOfATurn()
{
    QFETCH(bool, oneObject);
    constexpr int Count = 200;
    LockRegistry registry(memoryUrl());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < (oneObject ? 1 : Count); ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, QString::number(i), options(Outlasting)));
    }
    int inThisTurn = 0, mostInATurn = 0;
    QTimer turn; // fires in each turn
    connect(&turn, &QTimer::timeout, this, [&] { inThisTurn = 0; });
    turn.start(0);
    QList<int> order;
    QList<QFuture<void>> ends;
    for (int i = 0; i < Count; ++i) {
        DistributedLock *const lock = locks[size_t(i) % locks.size()].get();
        ends.append(lock->acquireAsync().then([&, i](const LockResult &) {
            order.append(i);
            mostInATurn = std::max(mostInATurn, ++inThisTurn);
            QElapsedTimer busy;
            busy.start();
            while (!busy.hasExpired(1)) {
            }
        }));
    }
    QVERIFY(eventually([&] { return order.size() == Count; }));
    QVERIFY(std::is_sorted(order.begin(), order.end()));
    // Ten of a millisecond each, and a few that another event of the turn reports.
    QVERIFY2(mostInATurn <= 30, qPrintable(QString::number(mostInATurn)));
}

void tst_DistributedLock::thousandsAtOnce()
{
    QFETCH(bool, memory);
    constexpr int Count = 10'000;
    LockRegistry registry(memory ? memoryUrl() : m_server.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    int acquired = 0, released = 0, others = 0;
    for (int i = 0; i < Count; ++i) {
        locks.push_back(std::make_unique<TestLock>(&registry, QString::number(i), options(Outlasting)));
        DistributedLock *const lock = locks.back().get();
        connect(lock, &DistributedLock::acquired, this, [&] { ++acquired; });
        connect(lock, &DistributedLock::released, this, [&] { ++released; });
        connect(lock, &DistributedLock::acquireFailed, this, [&] { ++others; });
        connect(lock, &DistributedLock::lost, this, [&] { ++others; });
        connect(lock, &DistributedLock::errorOccurred, this, [&] { ++others; });
    }
    for (const auto &lock : locks)
        lock->acquire();
    QVERIFY(eventually([&] { return acquired == Count; }));
    if (!memory)
        QCOMPARE(lockKeys(m_server).size(), Count);
    for (int i = 0; i < Count / 2; ++i)
        locks[size_t(i)]->release();
    QVERIFY(eventually([&] { return released == Count / 2; }));
    QCOMPARE(others, 0);
    locks.clear(); // the other half is given back
    if (!memory)
        QVERIFY(eventually([&] { return lockKeys(m_server).isEmpty(); }));
    const auto list = awaited(registry.list(u"*"_s));
    QVERIFY(memory || list.value.isEmpty());
    QCOMPARE(released, Count / 2);
    QCOMPARE(others, 0);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_DistributedLock)
#include "tst_distributedlock.moc"
