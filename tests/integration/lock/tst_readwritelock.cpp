// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Readers and writers through the public classes, beside a foreign client; upgrades and downgrades.

#include "support/locktest.h"

#include "support/fakeclock.h"
#include "support/faultproxy.h"

#include <QDistLock/ReadWriteLock>
#include <QDistLock/ScopedLock>
#include <QDistLock/impl/lockreference.h>

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;

using QDistLock::ReadWriteLock;
using QDistLock::ScopedLock;

namespace {

LockOptions reading()
{
    return options().withMode(LockOptions::Shared);
}

/// A ReadWriteLock of another client, and all that its locks have emitted.
struct Owner
{
    explicit Owner(const QUrl &server)
        : registry(server)
    {
        for (DistributedLock *const part : {lock.readLock(), lock.writeLock()})
            part->setOptions(options());
    }

    LockRegistry registry;
    ReadWriteLock lock{&registry, u"a"_s};
    Spies read{lock.readLock()};
    Spies write{lock.writeLock()};
};

} // namespace

class tst_ReadWriteLock : public RedisAndMemoryTest
{
    Q_OBJECT
private Q_SLOTS:
    void readersAndWriters();
    void writersOfOtherForms();
    void oneKeyForAllReaders();
    void foreignWriterIsExcluded();
    void foreignHolderExcludesReaders();
    void keyOfAnotherKind();
    void watchdogRenewsEachReader();
    void reentryLeavesNothing();
    void writerMayRead();
    void readerMayNotWrite();
    void readerMayNotWriteWhileItWaits();
    void scopes();
    void errorNamesTheReaders();
    void fencingTokensOfAPhase();
    void lateGuardDoesNotReleaseTheNextHold();
    void manyWaitingReaders();
    void forcedRelease();
    void optionsAreRefused();

    void modesAreFixed();
    void upgrade();
    void upgradeNeverWaits();
    void twoUpgradersDoNotWaitForEachOther();
    void upgradeWithoutAHold();
    void upgradeAfterALoss();
    void downgrade();
    void downgradeLetsReadersIn();
    void downgradeLeavesNoGap();
    void acquireOfTheOtherLock();
    void releaseDuringAChange();
    void acquireDuringAChange();
    void settingsDuringAChange();
    void destroyedDuringAChange();
    void oneLockDestroyed();
    void formerHolderDestroyedDuringAChange();
    void nextHolderDestroyedDuringAChange();
    void registryDestroyedDuringAChange();
    void connectionLostDuringAChange();
    void changedLockIsRenewed();
};

void tst_ReadWriteLock::readersAndWriters()
{
    LockRegistry other(serverUrl());
    TestLock first(registry(), u"a"_s, reading()), second(&other, u"a"_s, reading());
    TestLock writer(&other, u"a"_s);
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&second));
    QVERIFY(joinQueue(&writer));
    TestLock late(registry(), u"a"_s, reading());
    QVERIFY(joinQueue(&late, 1)); // behind the writer
    QVERIFY(releaseNow(&first));
    QVERIFY(releaseNow(&second));
    QVERIFY(eventually([&] { return writer.isHeld(); }));
    QVERIFY(!late.isHeld());
    QVERIFY(releaseNow(&writer));
    QVERIFY(eventually([&] { return late.isHeld(); }));
    QVERIFY(releaseNow(&late));
    QVERIFY(!awaited(registry()->inspect(u"a"_s)).held);
}

void tst_ReadWriteLock::writersOfOtherForms()
{
    TestLock reader(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(&reader));
    QCOMPARE(ScopedLock(QDistLock::LockAddress(u"a"_s).withServer(serverUrl()), options().withWait(0ms)).result().error,
             DistributedLock::BusyError);
    ScopedLock scope(QDistLock::LockAddress(u"a"_s).withServer(serverUrl()), reading());
    QVERIFY(scope.isHeld());
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 2);
    QVERIFY(scope.release());
}

void tst_ReadWriteLock::oneKeyForAllReaders()
{
    SKIP_WITHOUT_SERVER();
    std::vector<std::unique_ptr<TestLock>> readers;
    for (int i = 0; i < 5; ++i) {
        readers.push_back(std::make_unique<TestLock>(registry(), u"a"_s, reading()));
        QVERIFY(acquireNow(readers.back().get()));
    }
    QCOMPARE(m_server.command({"DBSIZE"}).toInt(), 2); // and that of the fencing token
    QCOMPARE(m_server.command({"TYPE", "lock:a"}).toByteArray(), "zset");
    QCOMPARE(m_server.command({"ZCARD", "lock:a"}).toInt(), 5);
    QVERIFY(m_server.pttl("lock:a") > 0);
    for (const auto &reader : readers)
        QVERIFY(releaseNow(reader.get()));
    QVERIFY(!m_server.exists("lock:a"));
}

void tst_ReadWriteLock::foreignWriterIsExcluded()
{
    SKIP_WITHOUT_SERVER();
    TestLock reader(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(&reader));
    QVERIFY(m_server.command({"SET", "lock:a", "foreign", "NX", "PX", "1000"}).isNull());
    QVERIFY(releaseNow(&reader));
    QCOMPARE(m_server.command({"SET", "lock:a", "foreign", "NX", "PX", "100000"}).toByteArray(), "OK");
}

void tst_ReadWriteLock::foreignHolderExcludesReaders()
{
    SKIP_WITHOUT_SERVER();
    m_server.command({"SET", "lock:a", "foreign", "PX", "100000"});
    TestLock reader(registry(), u"a"_s, reading());
    QVERIFY(joinQueue(&reader));
    m_server.command({"DEL", "lock:a"});
    QVERIFY(eventually([&] { return reader.isHeld(); }));
    // A value without a time to live, as with a writer.
    TestLock second(registry(), u"b"_s, reading());
    m_server.command({"SET", "lock:b", "foreign"});
    QVERIFY(joinQueue(&second));
    QVERIFY(m_server.pttl("lock:b") > 0);
}

void tst_ReadWriteLock::keyOfAnotherKind()
{
    SKIP_WITHOUT_SERVER();
    m_server.command({"ZADD", "lock:a", "1", "member"});
    m_server.command({"SADD", "lock:b", "r1:2:3"});
    m_server.command({"ZADD", "lock:c", "1", "rank"});
    for (const LockOptions &how : {reading(), options()}) {
        for (const QString &name : {u"a"_s, u"b"_s, u"c"_s}) {
            TestLock lock(registry(), name, how);
            QCOMPARE(failureNow(&lock), DistributedLock::ForeignTypeError);
        }
    }
    QCOMPARE(m_server.command({"ZSCORE", "lock:a", "member"}).toByteArray(), "1");
    QCOMPARE(m_server.command({"ZCARD", "lock:c"}).toInt(), 1);
    QCOMPARE(m_server.command({"SCARD", "lock:b"}).toInt(), 1);
    QVERIFY(awaited(registry()->list(u"*"_s)).value.isEmpty());
}

void tst_ReadWriteLock::watchdogRenewsEachReader()
{
    FakeClock clock; // destroyed after the registries, whose destructors read it
    LockRegistry renewing(serverUrl()), idle(serverUrl());
    for (LockRegistry *const of : {&renewing, &idle})
        LockRegistryPrivate::get(of)->setClock(&clock);
    TestLock first(&renewing, u"a"_s, reading().withLease(1h)), second(&renewing, u"a"_s, reading().withLease(2h));
    TestLock third(&idle, u"a"_s, reading().withLease(3h).withAutoRenew(false));
    for (TestLock *const lock : {&first, &second, &third})
        QVERIFY(acquireNow(lock));
    clock.advance(50min);
    LockRegistryPrivate::get(&renewing)->watchdog()->wake();
    LockRegistryPrivate::get(&idle)->watchdog()->wake();
    QVERIFY(eventually([&] { return first.spies.renewed.size() > 0 && second.spies.renewed.size() > 0; }));
    QVERIFY(first.remainingTime() > 50min);
    QVERIFY(second.remainingTime() > 100min);
    QVERIFY(third.remainingTime() < 3h - 45min);
    QCOMPARE(third.spies.renewed.size(), 0);
}

void tst_ReadWriteLock::reentryLeavesNothing()
{
    TestLock reader(registry(), u"a"_s, reading());
    TestLock writer(registry(), u"b"_s);
    for (TestLock *const lock : {&reader, &writer}) {
        QVERIFY(acquireNow(lock));
        const auto left = lock->remainingTime();
        for (int i = 0; i < 3; ++i)
            lock->acquire();
        QVERIFY(eventually([&] { return lock->spies.acquired.size() == 4; }));
        QVERIFY(lock->remainingTime() <= left); // Redisson adds a lease
        for (int i = 0; i < 4; ++i)
            lock->release();
        QVERIFY(eventually([&] { return lock->spies.released.size() == 1; }));
    }
    QVERIFY(awaited(registry()->list(u"*"_s)).value.isEmpty());
}

void tst_ReadWriteLock::writerMayRead()
{
    TestLock lock(registry(), u"a"_s);
    QVERIFY(acquireNow(&lock));
    lock.setMode(LockOptions::Shared);
    lock.acquire();
    QVERIFY(eventually([&] { return lock.spies.acquired.size() == 2; }));
    QCOMPARE(lock.holdCount(), 2);
    TestLock other(registry(), u"a"_s, reading().withWait(0ms));
    QCOMPARE(failureNow(&other), DistributedLock::BusyError); // it is a writer still
}

void tst_ReadWriteLock::readerMayNotWrite()
{
    TestLock lock(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(&lock));
    lock.setMode(LockOptions::Exclusive);
    QCOMPARE(failureNow(&lock), DistributedLock::UpgradeError);
    QVERIFY(lock.errorString().contains(u"reader"_s));
    QVERIFY(lock.isHeld());
    QCOMPARE(lock.holdCount(), 1);
    QCOMPARE(awaited(lock.tryAcquireAsync()).error, DistributedLock::UpgradeError);
    QVERIFY(releaseNow(&lock));
    QVERIFY(acquireNow(&lock));
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 0);
}

void tst_ReadWriteLock::readerMayNotWriteWhileItWaits()
{
    TestLock holder(registry(), u"a"_s);
    TestLock lock(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(&holder));
    QVERIFY(joinQueue(&lock));
    lock.setMode(LockOptions::Exclusive);
    QCOMPARE(failureNow(&lock), DistributedLock::UpgradeError);
    holder.release();
    QVERIFY(eventually([&] { return lock.isHeld(); }));

    // Both wait for the end of a release: the hold that follows is good for both.
    lock.setMode(LockOptions::Shared);
    lock.release();
    lock.setMode(LockOptions::Exclusive);
    lock.acquire();
    lock.setMode(LockOptions::Shared);
    lock.acquire();
    QVERIFY(eventually([&] { return lock.holdCount() == 2; }));
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 0);
}

void tst_ReadWriteLock::scopes()
{
    const auto address = QDistLock::LockAddress(u"a"_s).withServer(serverUrl());
    {
        const ScopedLock outer(address, reading());
        QVERIFY(outer.isHeld());
        QVERIFY(QDistLock::isLockedHere(address, LockOptions::Shared));
        QVERIFY(!QDistLock::isLockedHere(address));
        const ScopedLock inner(address, reading());
        QVERIFY(inner.isHeld());
        LogCapture log;
        const ScopedLock writer(address, options());
        QVERIFY(!writer.isHeld());
        QCOMPARE(writer.result().error, DistributedLock::UpgradeError);
        QCOMPARE(log.messages(QtWarningMsg).size(), 1);
        QVERIFY(outer.isHeld());
        QDL_ASSERT_LOCKED(address, reading());
    }
    ScopedLock outer(address, options());
    ScopedLock inner(address, reading());
    QVERIFY(inner.isHeld());
    QVERIFY(QDistLock::isLockedHere(address, LockOptions::Shared));
    QVERIFY(QDistLock::isLockedHere(address));
    QCOMPARE(inner.fencingToken(), outer.fencingToken());
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 0);
    QVERIFY(inner.release());
    QVERIFY(outer.release());
}

void tst_ReadWriteLock::errorNamesTheReaders()
{
    LockRegistry other(serverUrl());
    TestLock first(&other, u"a"_s, reading()), second(&other, u"a"_s, reading());
    QVERIFY(acquireNow(&first));
    TestLock writer(registry(), u"a"_s, options().withWait(0ms));
    QCOMPARE(failureNow(&writer), DistributedLock::BusyError);
    QVERIFY2(writer.errorString().contains(u"held by the reader "_s), qPrintable(writer.errorString()));
    QVERIFY(acquireNow(&second));
    QCOMPARE(failureNow(&writer), DistributedLock::BusyError);
    QVERIFY2(writer.errorString().contains(u"held by 2 readers, among them "_s), qPrintable(writer.errorString()));
}

void tst_ReadWriteLock::fencingTokensOfAPhase()
{
    LockRegistry other(serverUrl());
    TestLock writer(registry(), u"a"_s);
    TestLock first(registry(), u"a"_s, reading()), second(&other, u"a"_s, reading());
    qint64 last = 0;
    for (int i = 0; i < 3; ++i) {
        QVERIFY(acquireNow(&writer));
        QVERIFY(writer.fencingToken() > last);
        const qint64 written = writer.fencingToken();
        QVERIFY(joinQueue(&first));
        QVERIFY(joinQueue(&second, 1));
        writer.release();
        QVERIFY(eventually([&] { return first.isHeld() && second.isHeld(); }));
        last = first.fencingToken();
        QVERIFY(last > written);
        QCOMPARE(second.fencingToken(), last);
        QVERIFY(releaseNow(&first));
        QVERIFY(releaseNow(&second));
    }
}

void tst_ReadWriteLock::lateGuardDoesNotReleaseTheNextHold()
{
    // Two holds of one object with the same fencing token, because another reader keeps the phase alive.
    LockRegistry other(serverUrl());
    TestLock keeper(&other, u"a"_s, reading());
    TestLock lock(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(&keeper));
    QVERIFY(acquireNow(&lock));
    const QDistLock::Detail::LockReference reference(&lock);
    const quint64 hold = reference.holdNumber(lock.fencingToken());
    const qint64 token = lock.fencingToken();
    QCOMPARE(reference.holdNumber(token - 1), 0u); // a guard is made after its hold has ended
    QVERIFY(reference.isHeld(hold));
    QVERIFY(releaseNow(&lock));
    QVERIFY(!reference.isHeld(hold));
    QVERIFY(acquireNow(&lock));
    QCOMPARE(lock.fencingToken(), token);
    QVERIFY(!reference.isHeld(hold));
    reference.release(hold);
    QCOMPARE(awaited(reference.releaseAsync(hold)), false);
    QVERIFY(lock.isHeld());
}

void tst_ReadWriteLock::manyWaitingReaders()
{
    // More than one call of a script serves.
    LockRegistry other(serverUrl());
    TestLock writer(&other, u"a"_s);
    QVERIFY(acquireNow(&writer));
    std::vector<std::unique_ptr<TestLock>> readers;
    for (int i = 0; i < 200; ++i) {
        readers.push_back(std::make_unique<TestLock>(registry(), u"a"_s, reading()));
        readers.back()->acquire();
    }
    QVERIFY(eventually([&] { return readers.back()->queuePosition() == 199; }));
    writer.release();
    QVERIFY(eventually([&] { return all(readers, [](const auto &reader) { return reader->isHeld(); }); }));
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 200);
    QVERIFY(all(readers, [&](const auto &reader) { return reader->fencingToken() == readers[0]->fencingToken(); }));
    QVERIFY(joinQueue(&writer));
    for (const auto &reader : readers)
        reader->release();
    QVERIFY(eventually([&] { return writer.isHeld(); }));
}

void tst_ReadWriteLock::forcedRelease()
{
    LockRegistry other(serverUrl());
    TestLock first(registry(), u"a"_s, reading()), second(&other, u"a"_s, reading());
    TestLock writer(&other, u"a"_s);
    QVERIFY(acquireNow(&first));
    QVERIFY(acquireNow(&second));
    QVERIFY(joinQueue(&writer));
    QCOMPARE(awaited(registry()->forceRelease(u"a"_s)).value, LockRegistry::Done);
    QVERIFY(eventually([&] { return first.spies.lost.size() == 1 && second.spies.lost.size() == 1; }));
    QCOMPARE(first.spies.reason(), DistributedLock::ForcedRelease);
    QCOMPARE(second.spies.reason(), DistributedLock::ForcedRelease);
    QVERIFY(eventually([&] { return writer.isHeld(); }));
}

void tst_ReadWriteLock::optionsAreRefused()
{
    TestLock lock(registry(), u"a"_s, reading().withMode(LockOptions::Mode(7)));
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY(lock.errorString().contains(u"mode is 7"_s));
    if (isMemory())
        return;
    QUrl plain = m_server.url();
    plain.setQuery(u"scripts=off"_s);
    QUrl quorum(u"redlock://127.0.0.1:1?node=127.0.0.1:2&node=127.0.0.1:3"_s);
    for (const QUrl &url : {plain, quorum}) {
        LockRegistry other(url);
        TestLock reader(&other, u"a"_s, reading());
        QCOMPARE(failureNow(&reader), DistributedLock::OptionsError);
        QVERIFY2(reader.errorString().contains(u"redis+cluster://"_s), qPrintable(reader.errorString()));
    }
    QCOMPARE(m_server.command({"DBSIZE"}).toInt(), 0);
}

void tst_ReadWriteLock::modesAreFixed()
{
    Owner owner(serverUrl());
    owner.lock.readLock()->setOptions(options().withMode(LockOptions::Exclusive));
    owner.lock.writeLock()->setMode(LockOptions::Shared);
    QCOMPARE(owner.lock.readLock()->mode(), LockOptions::Shared);
    QCOMPARE(owner.lock.writeLock()->mode(), LockOptions::Exclusive);
    QCOMPARE(owner.lock.name(), u"a"_s);
    QVERIFY(acquireNow(owner.lock.readLock()));
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 1);
}

void tst_ReadWriteLock::upgrade()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.readLock()));
    const qint64 readToken = owner.lock.readLock()->fencingToken();
    const LockResult result = awaited(owner.lock.tryUpgrade());
    QCOMPARE(result.error, DistributedLock::NoError);
    QVERIFY(result.fencingToken > readToken);
    QVERIFY(owner.lock.writeLock()->isHeld());
    QVERIFY(!owner.lock.readLock()->isHeld());
    QCOMPARE(owner.lock.writeLock()->fencingToken(), result.fencingToken);
    QVERIFY(eventually([&] { return owner.read.released.size() == 1; }));
    QCOMPARE(owner.write.acquired.size(), 1);
    QCOMPARE(owner.read.lost.size(), 0);
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 0);
    TestLock other(registry(), u"a"_s, reading().withWait(0ms));
    QCOMPARE(failureNow(&other), DistributedLock::BusyError);
    QVERIFY(releaseNow(owner.lock.writeLock()));
    QVERIFY(!awaited(registry()->inspect(u"a"_s)).held);
}

void tst_ReadWriteLock::upgradeNeverWaits()
{
    Owner owner(serverUrl());
    TestLock other(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(owner.lock.readLock()));
    QVERIFY(acquireNow(&other));
    const LockResult result = awaited(owner.lock.tryUpgrade());
    QCOMPARE(result.error, DistributedLock::BusyError);
    QVERIFY(result.errorString.contains(u"other readers"_s));
    QVERIFY(owner.lock.readLock()->isHeld());
    QCOMPARE(owner.write.failed.size(), 1);
    QCOMPARE(owner.read.holdsEnded(), 0);
    QVERIFY(releaseNow(&other));
    QCOMPARE(awaited(owner.lock.tryUpgrade()).error, DistributedLock::NoError);
}

void tst_ReadWriteLock::twoUpgradersDoNotWaitForEachOther()
{
    Owner first(serverUrl()), second(serverUrl());
    QVERIFY(acquireNow(first.lock.readLock()));
    QVERIFY(acquireNow(second.lock.readLock()));
    const auto one = first.lock.tryUpgrade();
    const auto two = second.lock.tryUpgrade();
    QCOMPARE(awaited(one).error, DistributedLock::BusyError);
    QCOMPARE(awaited(two).error, DistributedLock::BusyError);
    QVERIFY(releaseNow(first.lock.readLock()));
    QCOMPARE(awaited(second.lock.tryUpgrade()).error, DistributedLock::NoError);
}

void tst_ReadWriteLock::upgradeWithoutAHold()
{
    Owner owner(serverUrl());
    QCOMPARE(awaited(owner.lock.tryUpgrade()).error, DistributedLock::UpgradeError);
    QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::UpgradeError);
    QCOMPARE(owner.write.failed.size(), 1);
    QCOMPARE(owner.read.failed.size(), 1);
    QVERIFY(acquireNow(owner.lock.readLock()));
    QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::UpgradeError);
    owner.lock.writeLock()->setOptions(options().withMinReplicas(1));
    QCOMPARE(awaited(owner.lock.tryUpgrade()).error, DistributedLock::OptionsError);
    QVERIFY(owner.lock.readLock()->isHeld());
}

void tst_ReadWriteLock::upgradeAfterALoss()
{
    SKIP_WITHOUT_SERVER();
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.readLock()));
    m_server.command({"DEL", "lock:a"});
    const LockResult result = awaited(owner.lock.tryUpgrade());
    QCOMPARE(result.error, DistributedLock::UpgradeError);
    QVERIFY(!m_server.exists("lock:a"));
    QVERIFY(!owner.lock.writeLock()->isHeld());
}

void tst_ReadWriteLock::downgrade()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    owner.lock.writeLock()->acquire();
    QVERIFY(eventually([&] { return owner.lock.writeLock()->holdCount() == 2; }));
    const qint64 written = owner.lock.writeLock()->fencingToken();
    const LockResult result = awaited(owner.lock.downgrade());
    QCOMPARE(result.error, DistributedLock::NoError);
    QVERIFY(result.fencingToken > written);
    QVERIFY(owner.lock.readLock()->isHeld());
    QVERIFY(!owner.lock.writeLock()->isHeld());
    QVERIFY(eventually([&] { return owner.write.released.size() == 1; })); // all levels
    TestLock other(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(&other));
    QCOMPARE(other.fencingToken(), result.fencingToken);
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 2);
    QVERIFY(releaseNow(owner.lock.readLock()));
    QVERIFY(releaseNow(&other));
    QVERIFY(!awaited(registry()->inspect(u"a"_s)).held);
}

void tst_ReadWriteLock::downgradeLetsReadersIn()
{
    Owner owner(serverUrl());
    TestLock first(registry(), u"a"_s, reading()), second(registry(), u"a"_s, reading());
    TestLock writer(registry(), u"a"_s);
    TestLock last(registry(), u"a"_s, reading());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    QVERIFY(joinQueue(&first, 0) && joinQueue(&second, 1) && joinQueue(&writer, 2) && joinQueue(&last, 3));
    const LockResult result = awaited(owner.lock.downgrade());
    QCOMPARE(result.error, DistributedLock::NoError);
    QVERIFY(eventually([&] { return first.isHeld() && second.isHeld(); }));
    QCOMPARE(first.fencingToken(), result.fencingToken);
    QVERIFY(!writer.isHeld());
    QVERIFY(!last.isHeld());
}

void tst_ReadWriteLock::downgradeLeavesNoGap()
{
    // A writer that waits for it never comes in between.
    Owner owner(serverUrl());
    TestLock writer(registry(), u"a"_s);
    QVERIFY(acquireNow(owner.lock.writeLock()));
    QVERIFY(joinQueue(&writer));
    for (int i = 0; i < 20; ++i) {
        QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::NoError);
        QCOMPARE(awaited(owner.lock.tryUpgrade()).error, DistributedLock::NoError);
        QVERIFY(!writer.isHeld());
    }
    QCOMPARE(owner.read.lost.size() + owner.write.lost.size(), 0);
    QVERIFY(releaseNow(owner.lock.writeLock()));
    QVERIFY(eventually([&] { return writer.isHeld(); }));
}

void tst_ReadWriteLock::acquireOfTheOtherLock()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.readLock()));
    QCOMPARE(failureNow(owner.lock.writeLock()), DistributedLock::UpgradeError);
    QVERIFY(owner.lock.writeLock()->errorString().contains(u"tryUpgrade()"_s));
    QVERIFY(releaseNow(owner.lock.readLock()));
    QVERIFY(acquireNow(owner.lock.writeLock()));
    QCOMPARE(failureNow(owner.lock.readLock()), DistributedLock::UpgradeError);
    QVERIFY(owner.lock.readLock()->errorString().contains(u"downgrade()"_s));
}

void tst_ReadWriteLock::releaseDuringAChange()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    const auto result = owner.lock.downgrade();
    owner.lock.writeLock()->release();
    QCOMPARE(awaited(result).error, DistributedLock::NoError);
    QVERIFY(eventually([&] { return owner.write.holdsEnded() == 1; }));
    QCOMPARE(owner.write.released.size(), 1);
    QVERIFY(owner.lock.readLock()->isHeld());
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 1);
}

void tst_ReadWriteLock::acquireDuringAChange()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    const auto result = owner.lock.downgrade();
    QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::BusyError); // one at a time
    QCOMPARE(awaited(result).error, DistributedLock::NoError);
    QCOMPARE(owner.lock.readLock()->holdCount(), 1);
    owner.lock.readLock()->acquire();
    QVERIFY(eventually([&] { return owner.lock.readLock()->holdCount() == 2; }));
    QCOMPARE(awaited(registry()->inspect(u"a"_s)).readerCount, 1);
}

void tst_ReadWriteLock::settingsDuringAChange()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    const auto result = owner.lock.downgrade();
    for (DistributedLock *const part : {owner.lock.readLock(), owner.lock.writeLock()}) {
        part->setName(u"b"_s);
        QCOMPARE(part->error(), DistributedLock::NameError);
        QCOMPARE(part->name(), u"a"_s);
    }
    owner.lock.readLock()->setRegistry(nullptr);
    QCOMPARE(owner.lock.readLock()->error(), DistributedLock::OptionsError);
    QCOMPARE(owner.lock.readLock()->registry(), &owner.registry);
    QCOMPARE(awaited(result).error, DistributedLock::NoError);
    QVERIFY(owner.lock.readLock()->isHeld());
}

void tst_ReadWriteLock::destroyedDuringAChange()
{
    for (const bool sent : {false, true}) {
        auto owner = std::make_unique<Owner>(serverUrl());
        QVERIFY(acquireNow(owner->lock.writeLock()));
        const auto result = owner->lock.downgrade();
        if (sent)
            sendNow();
        owner.reset();
        QVERIFY(result.isFinished());
        if (!sent || !isMemory()) // which replies at once
            QCOMPARE(result.result().error, DistributedLock::CancelledError);
        TestLock next(registry(), u"a"_s);
        QVERIFY(acquireNow(&next)); // nothing is left
        QVERIFY(releaseNow(&next));
    }
    // The registry lives on, and gives back what comes.
    LockRegistry other(serverUrl());
    auto lock = std::make_unique<ReadWriteLock>(&other, u"a"_s);
    QVERIFY(acquireNow(lock->writeLock()));
    const auto result = lock->downgrade();
    if (!isMemory())
        sendNow();
    lock.reset();
    QCOMPARE(awaited(result).error, DistributedLock::CancelledError);
    TestLock next(registry(), u"a"_s);
    QVERIFY(acquireNow(&next));
}

void tst_ReadWriteLock::oneLockDestroyed()
{
    for (const bool isReader : {true, false}) {
        Owner owner(serverUrl());
        delete (isReader ? owner.lock.readLock() : owner.lock.writeLock());
        QCOMPARE(owner.lock.name(), u"a"_s);
        QCOMPARE(awaited(owner.lock.tryUpgrade()).error, DistributedLock::CancelledError);
        QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::CancelledError);
        DistributedLock *const left = isReader ? owner.lock.writeLock() : owner.lock.readLock();
        QVERIFY(acquireNow(left));
        QVERIFY(releaseNow(left));
    }
}

void tst_ReadWriteLock::formerHolderDestroyedDuringAChange()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    const auto result = owner.lock.downgrade();
    if (!isMemory())
        sendNow();
    delete owner.lock.writeLock();
    QCOMPARE(awaited(result).error, DistributedLock::CancelledError);
    QVERIFY(!owner.lock.readLock()->isHeld());
    TestLock next(registry(), u"a"_s);
    QVERIFY(acquireNow(&next)); // nothing is left
}

void tst_ReadWriteLock::nextHolderDestroyedDuringAChange()
{
    Owner owner(serverUrl());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    TestLock next(registry(), u"a"_s);
    QVERIFY(joinQueue(&next));
    bool both = false;
    connect(&next, &DistributedLock::heldChanged, this, [&] { both |= owner.lock.writeLock()->isHeld(); });
    const auto result = owner.lock.downgrade();
    if (!isMemory())
        sendNow();
    delete owner.lock.readLock();
    QCOMPARE(awaited(result).error, DistributedLock::CancelledError);
    QVERIFY(eventually([&] { return next.isHeld(); })); // what the server gave to the reader is given back
    QVERIFY(!both);                                     // but not as long as the writer believes in its hold
    QCOMPARE(owner.write.lost.size(), 1);
}

void tst_ReadWriteLock::registryDestroyedDuringAChange()
{
    auto other = std::make_unique<LockRegistry>(serverUrl());
    ReadWriteLock lock(other.get(), u"a"_s);
    QVERIFY(acquireNow(lock.writeLock()));
    const auto result = lock.downgrade();
    if (!isMemory())
        sendNow();
    other.reset();
    QCOMPARE(awaited(result).error, DistributedLock::ConnectionError);
    QVERIFY(eventually([&] { return !lock.writeLock()->isHeld(); }));
    TestLock next(registry(), u"a"_s);
    QVERIFY(acquireNow(&next));
}

void tst_ReadWriteLock::connectionLostDuringAChange()
{
    SKIP_WITHOUT_SERVER();
    FaultProxy proxy(m_server);
    Owner owner(proxy.url());
    QVERIFY(acquireNow(owner.lock.writeLock()));
    QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::NoError);
    QCOMPARE(awaited(owner.lock.tryUpgrade()).error, DistributedLock::NoError);

    proxy.cutBefore("EVALSHA"); // it was not executed: the writer stays one
    QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::ConnectionError);
    QVERIFY(eventually([&] { return owner.write.renewed.size() > 0; }));
    QVERIFY(owner.lock.writeLock()->isHeld());
    QVERIFY(!owner.lock.readLock()->isHeld());
    QCOMPARE(owner.write.lost.size(), 0);

    proxy.cutAfter("EVALSHA"); // it was: the writer has lost its lock, and the reader's is given back
    QCOMPARE(awaited(owner.lock.downgrade()).error, DistributedLock::ConnectionError);
    QVERIFY(eventually([&] { return owner.write.lost.size() == 1; }));
    QVERIFY(!owner.lock.readLock()->isHeld());
    QVERIFY(eventually([&] { return !m_server.exists("lock:a"); }));
}

void tst_ReadWriteLock::changedLockIsRenewed()
{
    FakeClock clock;
    LockRegistry other(serverUrl());
    LockRegistryPrivate::get(&other)->setClock(&clock);
    ReadWriteLock lock(&other, u"a"_s);
    lock.readLock()->setOptions(options(1h));
    lock.writeLock()->setOptions(options(2h));
    Spies read(lock.readLock()), write(lock.writeLock());
    QVERIFY(acquireNow(lock.writeLock()));
    clock.advance(30min);
    QCOMPARE(awaited(lock.downgrade()).error, DistributedLock::NoError);
    QVERIFY(lock.readLock()->remainingTime() > 55min); // its own lease
    QVERIFY(lock.readLock()->remainingTime() < 1h);
    clock.advance(25min);
    LockRegistryPrivate::get(&other)->watchdog()->wake();
    QVERIFY(eventually([&] { return read.renewed.size() == 1; }));
    QCOMPARE(awaited(lock.tryUpgrade()).error, DistributedLock::NoError);
    clock.advance(50min);
    LockRegistryPrivate::get(&other)->watchdog()->wake();
    QVERIFY(eventually([&] { return write.renewed.size() == 1; }));
    QCOMPARE(read.lost.size() + write.lost.size(), 0);
}

QTEST_GUILESS_MAIN(tst_ReadWriteLock)
#include "tst_readwritelock.moc"
