// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locked calls whose lock is lost before or while they run, and whose server is away.

#include "annotationtest.h"
#include "receiver.h"
#include "support/faultproxy.h"
#include "support/rows.h"

#include <functional>
#include <utility>

using namespace Qt::StringLiterals;

using namespace AnnotationTesting;
using namespace LockTesting;
using namespace QDistLock;

/// While this object exists, the event loop is blocked before each event of the calls until the condition is true.
class BlockedTurns : public QObject
{
public:
    explicit BlockedTurns(std::function<bool()> condition)
        : m_condition(std::move(condition))
    {
        qApp->installEventFilter(this);
    }
    bool eventFilter(QObject *, QEvent *event) override
    {
        if (event->type() == QEvent::User)
            blockUntil(m_condition);
        return false;
    }

private:
    const std::function<bool()> m_condition;
};

class tst_LostLocks : public AnnotationTest
{
    Q_OBJECT

private Q_SLOTS:
    void lostBeforeItsTurn();
    TIMING void leaseEndsBeforeItsTurn();
    void lostBeforeEachTurn_data();
    void lostBeforeEachTurn();
    void lostWhileItRuns();
    void lostBeforeItsFutureFinishes();
    void lossesComeFromTheEventLoop();
    void lossesBeforeTheThreadEnds();
    void serverGone();
    void serverGoneForOneLook_data() { Support::addNamedRows<QString>("onBusy", {"skip", "fail"}); }
    void serverGoneForOneLook();
    void serverRepaired();
    void connectionLost();

private:
    /// Ends the hold of \a lock by force, and returns when the background thread has noticed: then \a log has a line.
    void loseUnseen(const LogCapture &log, const QString &lock)
    {
        const QStringList line{u"Lock \"%1\""_s.arg(lock), u"[ForcedRelease]"_s};
        const qsizetype before = log.count(line);
        if (!LockTesting::endByForce(m_server.url(), lock))
            return; // it is released already
        blockUntil([&] { return log.count(line) > before; });
        waitForService();
    }
    void checkLossBeforeItsTurn(const QString &options, const std::function<void()> &lose);
};

void tst_LostLocks::checkLossBeforeItsTurn(const QString &options, const std::function<void()> &lose)
{
    // The lock is ours, then the event loop blocks, and somebody else gets it.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::lost, u"lost"_s, options));
    Q_EMIT sender.numbered(1);
    blockUntil([&] { return m_server.exists("lock:lost"); });
    QVERIFY(m_server.exists("lock:lost"));
    lose();
    QVERIFY(!m_server.exists("lock:lost"));
    hold("lock:lost");
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(asked(before));
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:lost");
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QCOMPARE(receiver.seen, QList<int>{1});
    QCOMPARE(receiver.overlaps, 0);
}

void tst_LostLocks::lostBeforeItsTurn()
{
    const LogCapture log;
    checkLossBeforeItsTurn(u"wait=5min; retryInterval=20ms"_s, [&] { loseUnseen(log, u"lost"_s); });
}

void tst_LostLocks::leaseEndsBeforeItsTurn()
{
    Support::leavesRoomFor(200ms);
    checkLossBeforeItsTurn(u"lease=300ms; wait=10s; retryInterval=20ms; autoRenew=false"_s,
                           [this] { blockUntil([this] { return !m_server.exists("lock:lost"); }); });
}

void tst_LostLocks::lostBeforeEachTurn_data()
{
    QTest::addColumn<QString>("options");
    QTest::newRow("wait") << u"wait=1s"_s;
    QTest::newRow("one look") << u"wait=1s; onBusy=fail"_s;
    QTest::newRow("no wait") << u"wait=0ms"_s;
}

void tst_LostLocks::lostBeforeEachTurn()
{
    // Before each turn the lock is lost.
    QFETCH(QString, options);
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"lost"_s, options));
    const LogCapture log;
    const BlockedTurns blockedTurns([&] {
        if (m_server.exists("lock:lost"))
            loseUnseen(log, u"lost"_s);
        return true;
    });
    LockedCallInfo call;
    const LockResult result = timeOutOf([&](milliseconds) { // of the options: it is only repeated
        failed.clear();
        Q_EMIT sender.numbered(1);
        if (!eventually([&] { return failed.size() == 1; }))
            return LockResult();
        call = failed.first().first().value<LockedCallInfo>();
        return LockResult{call.error, call.errorString, 0};
    });
    QCOMPARE(result.error, DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(u"Lock \"lost\""_s), qPrintable(call.errorString));
    QVERIFY(receiver.seen.isEmpty());
}

void tst_LostLocks::lostWhileItRuns()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    const LogCapture log;
    receiver.body = [&] {
        endByForce(u"lost"_s);
        blockUntil([&] { return !isLockedHere(u"lost"_s); });
    };
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::lost));
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return lost.size() == 1; }));
    const auto call = lost.first().first().value<LockedCallInfo>();
    QCOMPARE(call.method, QByteArray("lost"));
    QCOMPARE(call.lock, u"lost"_s);
    QVERIFY2(call.errorString.contains(u"lost while the method ran"_s), qPrintable(call.errorString));
    QCOMPARE(log.count({call.errorString}), 1);
    receiver.body = nullptr;
    Q_EMIT sender.numbered(2);
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
    QCOMPARE(lost.size(), 1);
}

void tst_LostLocks::lostBeforeItsFutureFinishes()
{
    // Reported at once, so that the work can be stopped, and only once.
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    const LogCapture log;
    QPromise<void> work;
    work.start();
    bool runs = false;
    const QFuture<void> done = withLock(u"lost"_s, [&] {
        runs = true;
        return work.future();
    });
    QVERIFY(eventually([&] { return runs; }));
    endByForce(u"lost"_s);
    QVERIFY(eventually([&] { return lost.size() == 1; }));
    QVERIFY(!done.isFinished());
    const auto call = lost.first().first().value<LockedCallInfo>();
    QCOMPARE(call.lock, u"lost"_s);
    QVERIFY2(call.errorString.contains(u"stop it, it is no longer protected"_s), qPrintable(call.errorString));
    QCOMPARE(log.count({call.errorString}), 1);

    work.finish();
    QVERIFY(eventually([&] { return done.isFinished(); }));
    QVERIFY(eventually([&, next = withLock(u"lost"_s, [] {})] { return next.isFinished(); }));
    QCOMPARE(lost.size(), 1);
}

void tst_LostLocks::lossesComeFromTheEventLoop()
{
    // A slot of lost() runs an event loop: the other loss and the end of the call do not wait for it.
    QObject context;
    Receiver receiver;
    QFuture<void> future;
    QStringList lost;
    bool rest = false;
    connect(LockedCalls::instance(), &LockedCalls::lost, &context, [&](const LockedCallInfo &call) {
        lost.append(call.lock);
        if (lost.size() == 1)
            rest = eventually([&] { return lost.size() == 2 && future.isFinished(); });
    });
    receiver.body = [&] {
        endByForce(u"first"_s);
        endByForce(u"second"_s);
        blockUntil([&] { return !isLockedHere(u"first"_s) && !isLockedHere(u"second"_s); });
    };
    future = QFuture<void>(invokeLocked(&receiver, "twoLocks", 1));
    QVERIFY(eventually([&] { return lost.size() == 2 && future.isFinished(); }));
    QVERIFY(rest);
    QCOMPARE(lost, (QStringList{u"second"_s, u"first"_s}));
}

void tst_LostLocks::lossesBeforeTheThreadEnds()
{
    // The slot that lost its locks ends its thread, so that no later turn of the event loop can report the losses.
    LoopThread loop;
    Receiver receiver;
    receiver.body = [&] {
        endByForce(u"first"_s);
        endByForce(u"second"_s);
        blockUntil([&] { return !isLockedHere(u"first"_s) && !isLockedHere(u"second"_s); });
        loop.thread.quit();
    };
    QObject context;
    QStringList lost;
    bool inThread = true;
    connect(
            LockedCalls::instance(), &LockedCalls::lost, &context,
            [&](const LockedCallInfo &call) {
                inThread = inThread && QThread::currentThread() == &loop.thread;
                lost.append(call.lock);
            },
            Qt::DirectConnection);
    receiver.moveToThread(&loop.thread);
    const auto future = invokeLocked(&receiver, "twoLocks", 1);
    QVERIFY(loop.thread.wait(60s));
    QVERIFY(future.isFinished());
    QCOMPARE(lost, (QStringList{u"second"_s, u"first"_s}));
    QVERIFY(inThread);
}

void tst_LostLocks::serverGone()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    const LogCapture log;
    QVERIFY(connectLocked(&sender, &Sender::fired, &receiver, &Receiver::badServer));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QVERIFY(call.error == DistributedLock::ConnectionError || call.error == DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(u"127.0.0.1:1"_s), qPrintable(call.errorString));
    QVERIFY(!log.text().contains(u"topsecret"_s));
    QVERIFY(!call.server.contains(u"topsecret"_s));
}

void tst_LostLocks::serverGoneForOneLook()
{
    QFETCH(QString, onBusy);
    const QString socket = m_server.folder() + u"/nobody.sock"_s;
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QSignalSpy skipped(LockedCalls::instance(), &LockedCalls::skipped);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"a"_s,
                          u"onBusy=%1; server=unix://%2"_s.arg(onBusy, socket)));
    const LogCapture log;
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return failed.size() + skipped.size() == 1; }));
    QCOMPARE(failed.size(), 1);
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::ConnectionError);
    QVERIFY2(call.errorString.contains(socket), qPrintable(call.errorString));
    QVERIFY(!log.text().contains(u"earlier calls"_s));
    QVERIFY(receiver.seen.isEmpty());
}

void tst_LostLocks::serverRepaired()
{
    Support::RedisServer::Options serverOptions;
    serverOptions.tcp = true;
    serverOptions.password = "first";
    Support::Started<Support::RedisServer> server(serverOptions);
    QUrl url = server.tcpUrl();
    url.setPassword(u"second"_s);
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"{1}"_s,
                          u"onBusy=skip; server=%1"_s.arg(url.toString())));
    const LogCapture log;
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    QCOMPARE(failed.first().first().value<LockedCallInfo>().error, DistributedLock::AuthenticationError);
    Q_EMIT sender.numbered(2); // asks again
    QVERIFY(eventually([&] { return failed.size() == 2; }));
    QCOMPARE(failed.last().first().value<LockedCallInfo>().error, DistributedLock::AuthenticationError);

    QCOMPARE(server.command({"CONFIG", "SET", "requirepass", "second"}).toByteArray(), QByteArray("OK"));
    Q_EMIT sender.numbered(3);
    Q_EMIT sender.numbered(4);
    QVERIFY(eventually([&] { return failed.size() + receiver.seen.size() == 4; }));
    QCOMPARE(receiver.seen, (QList<int>{3, 4}));
}

void tst_LostLocks::connectionLost()
{
    // While they wait, and while one runs: nothing is lost, nothing runs twice.
    Support::FaultProxy proxy(m_server);
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"counter"_s,
                          u"server=%1; wait=5min; retryInterval=20ms"_s.arg(proxy.url().toString())));
    receiver.body = [&] {
        if (receiver.seen.size() == 10)
            proxy.resetAll();
    };
    hold("lock:counter");
    const qint64 before = m_server.commandsProcessed("evalsha");
    for (int i = 0; i < 20; ++i)
        Q_EMIT sender.numbered(i);
    QVERIFY(asked(before));
    proxy.resetAll();
    letGo("lock:counter");
    QVERIFY(eventually([&] { return receiver.seen.size() >= 20; }));
    QList<int> numbers;
    for (int i = 0; i < 20; ++i)
        numbers.append(i);
    QCOMPARE(receiver.seen, numbers);
    QCOMPARE(receiver.overlaps, 0);
    QVERIFY(nothingLeft());
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_LostLocks)

#include "tst_lostlocks.moc"
