// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// Locked calls whose lock is lost before or while they run, and whose server is away.

#include "annotationtest.h"
#include "receiver.h"
#include "support/faultproxy.h"

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
    void lostBeforeEachTurn_data();
    void lostBeforeEachTurn();
    void lostWhileItRuns();
    void lossesComeFromTheEventLoop();
    void lossesBeforeTheThreadEnds();
    void serverGone();
    void serverGoneForOneLook_data();
    void serverGoneForOneLook();
    void serverRepaired();
    void connectionLost();
};

void tst_LostLocks::lostBeforeItsTurn()
{
    // The lock is ours, then the event loop blocks past the lease and somebody else gets it.
    Sender sender;
    Receiver receiver;
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::shortLease));
    Q_EMIT sender.numbered(1);
    blockUntil([&] { return m_server.exists("lock:short"); });
    QVERIFY(m_server.exists("lock:short"));
    blockUntil([&] { return !m_server.exists("lock:short"); });
    hold("lock:short");
    const qint64 before = m_server.commandsProcessed("evalsha");
    QVERIFY(asked(before));
    QVERIFY(receiver.seen.isEmpty());
    letGo("lock:short");
    QVERIFY(eventually([&] { return !receiver.seen.isEmpty(); }));
    QCOMPARE(receiver.seen, QList<int>{1});
    QCOMPARE(receiver.overlaps, 0);
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
    // Each turn takes longer than a lease that nobody renews.
    QFETCH(QString, options);
    Sender sender;
    Receiver receiver;
    QSignalSpy failed(LockedCalls::instance(), &LockedCalls::failed);
    QVERIFY(connectLocked(&sender, &Sender::numbered, &receiver, &Receiver::free, u"short"_s,
                          u"lease=100ms; autoRenew=false; "_s + options));
    const LogCapture log;
    const BlockedTurns blockedTurns([&] { return !m_server.exists("lock:short"); });
    Q_EMIT sender.numbered(1);
    QVERIFY(eventually([&] { return failed.size() == 1; }));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QCOMPARE(call.error, DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(u"Lock \"short\""_s), qPrintable(call.errorString));
    QVERIFY(receiver.seen.isEmpty());
}

void tst_LostLocks::lostWhileItRuns()
{
    Sender sender;
    Receiver receiver;
    QSignalSpy lost(LockedCalls::instance(), &LockedCalls::lost);
    const LogCapture log;
    receiver.body = [&] {
        letGo("lock:renewed");
        blockUntil([&] { return !isLockedHere(u"renewed"_s); });
    };
    QVERIFY(connectLocked(&sender, &Sender::fired, &receiver, &Receiver::renewed));
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return lost.size() == 1; }));
    const auto call = lost.first().first().value<LockedCallInfo>();
    QCOMPARE(call.method, QByteArray("renewed"));
    QCOMPARE(call.lock, u"renewed"_s);
    QVERIFY2(call.errorString.contains(u"lost while the method ran"_s), qPrintable(call.errorString));
    QCOMPARE(log.count({call.errorString}), 1);
    receiver.body = nullptr;
    Q_EMIT sender.fired();
    QVERIFY(eventually([&] { return receiver.seen.size() == 2; }));
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
        letGo("lock:first");
        letGo("lock:second");
        blockUntil([&] { return !isLockedHere(u"first"_s) && !isLockedHere(u"second"_s); });
    };
    future = QFuture<void>(invokeLocked(&receiver, "twoShortLeases"));
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
        letGo("lock:first");
        letGo("lock:second");
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
    const auto future = invokeLocked(&receiver, "twoShortLeases");
    QVERIFY(loop.thread.wait(10s));
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
    QVERIFY(eventually([&] { return failed.size() == 1; }, 20s));
    const auto call = failed.first().first().value<LockedCallInfo>();
    QVERIFY(call.error == DistributedLock::ConnectionError || call.error == DistributedLock::TimeoutError);
    QVERIFY2(call.errorString.contains(u"127.0.0.1:1"_s), qPrintable(call.errorString));
    QVERIFY(!log.text().contains(u"topsecret"_s));
    QVERIFY(!call.server.contains(u"topsecret"_s));
}

void tst_LostLocks::serverGoneForOneLook_data()
{
    QTest::addColumn<QString>("onBusy");
    for (const char *onBusy : {"skip", "fail"})
        QTest::newRow(onBusy) << QString::fromLatin1(onBusy);
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
    Support::RedisServer server(serverOptions);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
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
                          u"server=%1; wait=1min; lease=20s; retryInterval=20ms"_s.arg(proxy.url().toString())));
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
    QVERIFY(eventually([&] { return receiver.seen.size() >= 20; }, 30s));
    QList<int> numbers;
    for (int i = 0; i < 20; ++i)
        numbers.append(i);
    QCOMPARE(receiver.seen, numbers);
    QCOMPARE(receiver.overlaps, 0);
    QVERIFY(nothingLeft());
}

QTEST_GUILESS_MAIN(tst_LostLocks)

#include "tst_lostlocks.moc"
