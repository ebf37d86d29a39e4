// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Readers in a ZooKeeper ensemble: what tst_readers cannot see, because it is about nodes and sessions.

#include "zookeeperlocktest.h"

#include "support/faultproxy.h"
#include "support/registrytime.h"
#include "support/testkinds.h"

#include <QDistLock/LockInfo>
#include <QDistLock/LockResult>
#include <QDistLock/ReadWriteLock>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace QtZooKeeper;
using namespace Support;
using QDistLock::LockInfo;
using QDistLock::ReadWriteLock;

static LockOptions reading()
{
    return options().withMode(LockOptions::Shared);
}

class tst_ZooKeeperReaders : public ZooKeeperLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void nodes();
    void nothingIsLeft();
    void manyEnterTogether();
    void writerIsWokenByWhoeverIsBeforeIt();
    void curatorsMutexExcludesReaders();
    void readerThatHasWrittenNoToken();
    void dataOfAnotherProgram();
    void otherLogin();
    void changesAreRefused();
    void permitsAreRefused();

    void deadReader();
    void silentReaderLosesItBeforeAWriterHasIt();
    void lostReplyToTheToken();
    void tokenOfAReaderWhoseNodeIsGone();
    void clearedByAWriterWhoseNodeIsGone();
    void readerWhoseNodeIsGoneFindsNoToken();

private:
    /// Of the lock's node: the token of its readers.
    QByteArray dataOf(const QByteArray &name)
    {
        return wait([&](auto done) { m_witness->read(pathOf(name), nullptr, done); }).data;
    }
    struct Node
    {
        QByteArray path;
        qint64 session = 0;
        qint64 created = 0;
    };
    /// The child of the lock \a name whose name contains \a part and not \a otherPart.
    Node nodeNamed(const QByteArray &name, const QByteArray &part, const QByteArray &otherPart = "?")
    {
        for (const QByteArray &child : childrenOf(name)) {
            if (!child.contains(part) || child.contains(otherPart))
                continue;
            const QByteArray path = pathOf(name) + '/' + child;
            const NodeStat stat = wait([&](auto done) { m_witness->read(path, nullptr, done); }).stat;
            return {path, stat.owner, stat.created};
        }
        return {};
    }
    /// The request that the server answered last in this session: GETC lists children, GETD reads data.
    QByteArray lastRequest(qint64 session) { return statistic(session, "lop"); }
    QByteArray statistic(qint64 session, const QByteArray &key)
    {
        for (const QByteArray &connection : m_server.ask("cons").split('\n')) {
            if (!connection.contains(",sid=0x" + QByteArray::number(session, 16) + ','))
                continue;
            for (const QByteArray &item : connection.sliced(connection.indexOf('(') + 1).split(',')) {
                if (item.startsWith(key + '='))
                    return item.sliced(key.size() + 1);
            }
        }
        return {};
    }
    /// Calls \a makeRoom, after which it is the turn of the waiter with \a node. True: the server has answered the
    /// waiter's next request, and \a proxy holds the answer.
    bool holdBackTurn(StillRegistry *registry, FaultProxy &proxy, const Node &node,
                      const std::function<bool()> &makeRoom)
    {
        const auto count = [&](const char *key) { return statistic(node.session, key).toInt(); };
        const bool isIdle = eventually([&] { return count("sent") == count("recved"); });
        const int sent = count("sent");
        proxy.setRepliesHeld(true);
        if (!isIdle || !makeRoom())
            return false;
        const int received = count("recved");
        // It is sent that the node before it has gone, and the list of children.
        return registry->passUntil([&] {
            return lastRequest(node.session) == "GETC" && count("recved") > received && count("sent") >= sent + 2;
        });
    }
    /// The client gets the answers that \a proxy holds. Later answers are held again.
    static void deliverHeldAnswers(FaultProxy &proxy)
    {
        proxy.setRepliesHeld(false);
        proxy.setRepliesHeld(true); // the client has asked for nothing yet, because its event loop did not run
    }
    static QByteArray tokenData(qint64 fencingToken) { return "qdistlock:readers:" + QByteArray::number(fencingToken); }
};

void tst_ZooKeeperReaders::nodes()
{
    LockRegistry other(url());
    TestLock first(registry(), u"nodes"_s, reading()), second(&other, u"nodes"_s, reading());
    TestLock writer(&other, u"nodes"_s);
    QVERIFY(acquireNow(&first));
    const Node node = nodeNamed("nodes", "-read-lock-");
    QVERIFY2(node.path.startsWith(pathOf("nodes/_c_")), node.path.constData());
    const qint64 token = node.created;
    QCOMPARE(first.fencingToken(), token);
    QCOMPARE(dataOf("nodes"), tokenData(token));
    QVERIFY(acquireNow(&second));
    QCOMPARE(second.fencingToken(), token);
    QVERIFY(releaseNow(&first));
    QVERIFY(acquireNow(&first));
    QCOMPARE(first.fencingToken(), token); // there has been no writer
    QVERIFY(releaseNow(&first));
    QVERIFY(joinQueue(&writer));
    QCOMPARE(dataOf("nodes"), tokenData(token));
    QVERIFY(releaseNow(&second));
    QVERIFY(eventually([&] { return writer.isHeld(); }));
    QVERIFY(writer.fencingToken() > token);
    QCOMPARE(dataOf("nodes"), QByteArray());
    QVERIFY(releaseNow(&writer));
    QVERIFY(acquireNow(&first));
    QVERIFY(first.fencingToken() > writer.fencingToken());
}

void tst_ZooKeeperReaders::nothingIsLeft()
{
    {
        LockRegistry other(url());
        TestLock first(&other, u"left"_s, reading()), second(&other, u"left"_s, reading());
        QVERIFY(acquireNow(&first) && acquireNow(&second));
        QCOMPARE(childrenOf("left").size(), 2);
    }
    EVENTUALLY_COMPARE(childrenOf("left").size(), 0);
    // The lock's node is a container, which is deleted with its data.
    EVENTUALLY_VERIFY(wait([&](auto done) { m_witness->children(pathOf("left"), done); }).isMissing());
}

void tst_ZooKeeperReaders::manyEnterTogether()
{
    constexpr int Count = 40;
    constexpr int OfOneClient = 2;
    TestLock writer(registry(), u"together"_s), last(registry(), u"together"_s);
    QVERIFY(acquireNow(&writer));
    std::vector<std::unique_ptr<StillRegistry>> registries; // nobody polls
    std::vector<std::unique_ptr<TestLock>> readers;
    for (int i = 0; i < Count; ++i) {
        if (i % OfOneClient == 0)
            registries.push_back(std::make_unique<StillRegistry>(url()));
        readers.push_back(std::make_unique<TestLock>(registries.back().get(), u"together"_s, reading()));
        readers.back()->acquire();
    }
    QVERIFY(eventually([&] { return all(readers, [](const auto &reader) { return reader->queuePosition() >= 0; }); }));
    QVERIFY(joinQueue(&last, Count));
    const qint64 firedBefore = metric("zk_sum_node_deleted_watch_count");
    writer.release();
    QVERIFY(eventually([&] { return all(readers, [](const auto &reader) { return reader->isHeld(); }); }));
    // One for each of their clients, and the releaser's own.
    QCOMPARE(metric("zk_sum_node_deleted_watch_count") - firedBefore, Count / OfOneClient + 1);
    const qint64 token = readers.front()->fencingToken();
    QVERIFY(token > writer.fencingToken());
    QVERIFY(all(readers, [&](const auto &reader) { return reader->fencingToken() == token; }));
    const LockInfo info = awaited(registry()->inspect(u"together"_s));
    QCOMPARE(info.readerCount, Count);
    QCOMPARE(info.holders.size(), 32);
    QCOMPARE(info.fencingToken, token);
    QCOMPARE(info.queueLength, 1);
    QVERIFY(!last.isHeld());
    for (const auto &reader : readers)
        QVERIFY(releaseNow(reader.get()));
    QVERIFY(eventually([&] { return last.isHeld(); }));
    QVERIFY(last.fencingToken() > token);
}

void tst_ZooKeeperReaders::writerIsWokenByWhoeverIsBeforeIt()
{
    LockRegistry other(url());
    TestLock first(registry(), u"woken"_s, reading()), second(registry(), u"woken"_s, reading());
    TestLock writer(&other, u"woken"_s);
    QVERIFY(acquireNow(&first) && acquireNow(&second));
    QVERIFY(joinQueue(&writer));
    const qint64 firedBefore = metric("zk_sum_node_deleted_watch_count");
    QVERIFY(releaseNow(&first));
    QCOMPARE(metric("zk_sum_node_deleted_watch_count") - firedBefore, 1); // its own
    QVERIFY(releaseNow(&second));
    QVERIFY(eventually([&] { return writer.isHeld(); }));
    QCOMPARE(metric("zk_sum_node_deleted_watch_count") - firedBefore, 3);
}

/// It waits for whatever has a lower number, and readers wait for it.
void tst_ZooKeeperReaders::curatorsMutexExcludesReaders()
{
    TestLock reader(registry(), u"curator"_s, reading());
    QVERIFY(acquireNow(&reader));
    const QByteArray own = nodeNamed("curator", "-read-lock-").path;
    const Result theirs = wait([&](auto done) {
        m_witness->create(pathOf("curator/_c_6b0f8bd7-1f7e-4f6a-9c3c-6d2b7b7b6f11-lock-"), "10.0.0.1",
                          Session::EphemeralSequential, done);
    });
    QVERIFY2(theirs.isOk(), qPrintable(theirs.errorString()));
    // Its number is what follows the last "lock-" of a name.
    QVERIFY(own.sliced(own.lastIndexOf("lock-")) < theirs.path.sliced(theirs.path.lastIndexOf("lock-")));
    TestLock late(registry(), u"curator"_s, reading());
    QVERIFY(joinQueue(&late, 1));
    QVERIFY(releaseNow(&reader));
    QVERIFY(awaited(registry()->inspect(u"curator"_s)).foreign);
    QVERIFY(wait([&](auto done) { m_witness->remove(theirs.path, done); }).isOk());
    QVERIFY(eventually([&] { return late.isHeld(); }));
}

/// Its process was stopped. Whoever releases it by force says which holder is meant.
void tst_ZooKeeperReaders::readerThatHasWrittenNoToken()
{
    TestLock lock(registry(), u"another"_s);
    QVERIFY(acquireNow(&lock)); // makes the parents
    QVERIFY(wait([&](auto done) { m_witness->create(pathOf("stopped"), {}, Session::Container, done); }).isOk());
    const Result reader = wait([&](auto done) {
        m_witness->create(pathOf("stopped/_c_6b0f8bd7-read-lock-"), {}, Session::EphemeralSequential, done);
    });
    QVERIFY2(reader.isOk(), qPrintable(reader.errorString()));
    const LockInfo info = awaited(registry()->inspect(u"stopped"_s));
    QCOMPARE(info.readerCount, 1);
    QCOMPARE(info.fencingToken, reader.stat.created);
    QCOMPARE(awaited(registry()->forceRelease(u"stopped"_s, info.fencingToken + 1)).value, LockRegistry::OtherHolder);
    QCOMPARE(childrenOf("stopped").size(), 1);
    QCOMPARE(awaited(registry()->forceRelease(u"stopped"_s, info.fencingToken)).value, LockRegistry::Done);
    QCOMPARE(childrenOf("stopped").size(), 0);
}

void tst_ZooKeeperReaders::dataOfAnotherProgram()
{
    TestLock writer(registry(), u"data"_s), reader(registry(), u"data"_s, reading());
    QVERIFY(acquireNow(&writer));
    QVERIFY(wait([&](auto done) { m_witness->write(pathOf("data"), "10.0.0.1", -1, pathOf("data"), done); }).isOk());
    // It keeps the node, and its data, while no lock has a child there.
    QVERIFY(wait([&](auto done) { m_witness->create(pathOf("data/theirs"), {}, Session::Container, done); }).isOk());
    QVERIFY(releaseNow(&writer));
    QCOMPARE(failureNow(&reader), DistributedLock::ForeignTypeError);
    QVERIFY2(reader.errorString().contains(u"/tests/locks/lock:data"_s), qPrintable(reader.errorString()));
    EVENTUALLY_COMPARE(childrenOf("data"), QList<QByteArray>{"theirs"});
    QCOMPARE(awaited(reader.tryAcquireAsync()).error, DistributedLock::ForeignTypeError);
    EVENTUALLY_COMPARE(childrenOf("data"), QList<QByteArray>{"theirs"});
    QVERIFY(acquireNow(&writer));
    QCOMPARE(dataOf("data"), "10.0.0.1");
}

void tst_ZooKeeperReaders::otherLogin()
{
    QUrl withLogin = url();
    withLogin.setUserInfo(u"user:secret"_s);
    LockRegistry other(withLogin);
    TestLock theirs(&other, u"login"_s, reading()), ours(registry(), u"login"_s, reading());
    QVERIFY2(acquireNow(&theirs), qPrintable(theirs.errorString()));
    QCOMPARE(failureNow(&ours), DistributedLock::PermissionError);
    QVERIFY(theirs.isHeld());
}

/// A node keeps the number and the kind that it was created with.
void tst_ZooKeeperReaders::changesAreRefused()
{
    ReadWriteLock lock(registry(), u"changes"_s);
    for (DistributedLock *const part : {lock.readLock(), lock.writeLock()})
        part->setOptions(options());
    Spies read(lock.readLock()), write(lock.writeLock());
    QVERIFY(acquireNow(lock.readLock()));
    LockResult result = awaited(lock.tryUpgrade());
    QCOMPARE(result.error, DistributedLock::OptionsError);
    QVERIFY2(result.errorString.contains(u"release the lock"_s), qPrintable(result.errorString));
    QVERIFY(lock.readLock()->isHeld());
    QVERIFY(releaseNow(lock.readLock()));
    QVERIFY(acquireNow(lock.writeLock()));
    result = awaited(lock.downgrade());
    QCOMPARE(result.error, DistributedLock::OptionsError);
    QVERIFY(lock.writeLock()->isHeld());
    QVERIFY(releaseNow(lock.writeLock()));
    QVERIFY(read.lost.isEmpty() && write.lost.isEmpty());
    QCOMPARE(childrenOf("changes").size(), 0);
}

void tst_ZooKeeperReaders::permitsAreRefused()
{
    TestLock lock(registry(), u"permits"_s, options().withPermits(3));
    QCOMPARE(failureNow(&lock), DistributedLock::OptionsError);
    QVERIFY2(lock.errorString().contains(u"redis+cluster://"_s) && !lock.errorString().contains(u"use zookeeper"_s),
             qPrintable(lock.errorString()));
}

/// It costs the other readers nothing, and a writer its session at most.
void tst_ZooKeeperReaders::deadReader()
{
    FaultProxy proxy(m_server.port());
    LockRegistry dying(urlOf(proxy.port(), u"?session=300"_s));
    LockRegistry other(url());
    TestLock dead(&dying, u"dead"_s, reading().withLease(300ms)), alive(registry(), u"dead"_s, reading());
    TestLock next(registry(), u"dead"_s, reading());
    TestLock writer(&other, u"dead"_s);
    QVERIFY(acquireNow(&dead));
    proxy.setBlackHole(true);
    QVERIFY(acquireNow(&alive));
    QVERIFY(acquireNow(&next));
    QVERIFY(joinQueue(&writer));
    QVERIFY(releaseNow(&alive));
    EVENTUALLY_COMPARE(childrenOf("dead").size(), 2);
    QVERIFY(next.isHeld());
    QVERIFY(!writer.isHeld());
    QVERIFY(releaseNow(&next));
    QVERIFY(eventually([&] { return writer.isHeld(); }));
}

void tst_ZooKeeperReaders::silentReaderLosesItBeforeAWriterHasIt()
{
    FaultProxy proxy(m_server.port());
    LockRegistry silent(urlOf(proxy.port(), u"?session=1000"_s));
    TestLock reader(&silent, u"silent"_s, reading().withLease(1s));
    TestLock writer(registry(), u"silent"_s);
    for (int i = 0; i < 3; ++i) {
        QVERIFY(acquireNow(&reader));
        QVERIFY(joinQueue(&writer));
        bool overlap = false;
        const auto seen = connect(&writer, &DistributedLock::acquired, this, [&] { overlap = reader.isHeld(); });
        proxy.setBlackHole(true);
        QVERIFY(eventually([&] { return writer.isHeld(); }));
        QVERIFY(!overlap);
        QVERIFY(eventually([&] { return reader.spies.lost.size() == i + 1; }));
        disconnect(seen);
        QVERIFY(releaseNow(&writer));
        proxy.setBlackHole(false);
        proxy.resetAll();
    }
}

// In the next four functions the server has executed what the client knows nothing of yet.

void tst_ZooKeeperReaders::lostReplyToTheToken()
{
    FaultProxy proxy(m_server.port());
    StillRegistry slow(urlOf(proxy.port()));
    TestLock writer(registry(), u"lost reply"_s), reader(&slow, u"lost reply"_s, reading());
    QVERIFY(acquireNow(&writer));
    QVERIFY(joinQueue(&reader));
    const Node node = nodeNamed("lost reply", "-read-lock-");
    QVERIFY(holdBackTurn(&slow, proxy, node, [&] { return releaseNow(&writer); }));
    deliverHeldAnswers(proxy);
    EVENTUALLY_VERIFY(!dataOf("lost reply").isEmpty());
    QVERIFY(!reader.isHeld());
    proxy.resetAll();
    proxy.heal();
    QVERIFY(eventually([&] { return reader.isHeld(); }));
    QCOMPARE(dataOf("lost reply"), tokenData(reader.fencingToken()));
    QCOMPARE(childrenOf("lost reply").size(), 1);
}

void tst_ZooKeeperReaders::tokenOfAReaderWhoseNodeIsGone()
{
    FaultProxy proxy(m_server.port());
    StillRegistry slow(urlOf(proxy.port()));
    TestLock writer(registry(), u"stale token"_s), reader(&slow, u"stale token"_s, reading());
    QVERIFY(acquireNow(&writer));
    QVERIFY(joinQueue(&reader));
    const Node node = nodeNamed("stale token", "-read-lock-");
    QVERIFY(holdBackTurn(&slow, proxy, node, [&] { return releaseNow(&writer); }));
    QVERIFY(wait([&](auto done) { m_witness->remove(node.path, done); }).isOk());
    QVERIFY(acquireNow(&writer));
    proxy.setRepliesHeld(false); // it believes that it is its turn, and writes its token
    QVERIFY(eventually([&] { return childrenOf("stale token").size() == 2 && reader.queuePosition() == 0; }));
    QCOMPARE(dataOf("stale token"), QByteArray());
    QVERIFY(releaseNow(&writer));
    QVERIFY(eventually([&] { return reader.isHeld(); }));
    QVERIFY(reader.fencingToken() > writer.fencingToken());
}

void tst_ZooKeeperReaders::clearedByAWriterWhoseNodeIsGone()
{
    FaultProxy proxy(m_server.port());
    StillRegistry slow(urlOf(proxy.port()));
    TestLock reader(registry(), u"stale writer"_s, reading()), writer(&slow, u"stale writer"_s);
    QVERIFY(acquireNow(&reader));
    const qint64 token = reader.fencingToken();
    QVERIFY(joinQueue(&writer));
    const Node node = nodeNamed("stale writer", "-lock-", "-read-lock-");
    QVERIFY(holdBackTurn(&slow, proxy, node, [&] { return releaseNow(&reader); }));
    deliverHeldAnswers(proxy);
    EVENTUALLY_COMPARE(lastRequest(node.session), "GETD"); // of the token that it will clear
    QVERIFY(wait([&](auto done) { m_witness->remove(node.path, done); }).isOk());
    QVERIFY(acquireNow(&reader));
    QCOMPARE(reader.fencingToken(), token);
    proxy.setRepliesHeld(false);
    QVERIFY(eventually([&] { return childrenOf("stale writer").size() == 2 && writer.queuePosition() == 0; }));
    QCOMPARE(dataOf("stale writer"), tokenData(token));
    QVERIFY(releaseNow(&reader));
    QVERIFY(eventually([&] { return writer.isHeld(); }));
    QVERIFY(writer.fencingToken() > token);
}

void tst_ZooKeeperReaders::readerWhoseNodeIsGoneFindsNoToken()
{
    FaultProxy proxy(m_server.port());
    StillRegistry slow(urlOf(proxy.port()));
    TestLock holder(registry(), u"no token"_s, reading()), reader(&slow, u"no token"_s, reading());
    TestLock writer(registry(), u"no token"_s);
    QVERIFY(acquireNow(&holder));
    QVERIFY(joinQueue(&writer));
    QVERIFY(joinQueue(&reader, 1));
    const Node node = nodeNamed("no token", "-read-lock-", "-0000000000");
    QVERIFY(holdBackTurn(&slow, proxy, node, [&] {
        writer.cancel();
        return eventually([&] { return childrenOf("no token").size() == 2; });
    }));
    QVERIFY(wait([&](auto done) { m_witness->remove(node.path, done); }).isOk());
    QVERIFY(releaseNow(&holder));
    QVERIFY(acquireNow(&writer));
    QCOMPARE(dataOf("no token"), QByteArray());
    proxy.setRepliesHeld(false); // it has seen that there was a token
    QVERIFY(eventually([&] { return childrenOf("no token").size() == 2 && reader.queuePosition() == 0; }));
    QVERIFY(releaseNow(&writer));
    QVERIFY(eventually([&] { return reader.isHeld(); }));
    QCOMPARE(reader.spies.failed.size(), 0);
    QVERIFY(reader.fencingToken() > writer.fencingToken());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_ZooKeeperReaders)
#include "tst_zookeeperreaders.moc"
