// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// No call and no slot of the library blocks the event loop, in whatever state the server is.

#include "support/locktest.h"

#include "support/fakeserver.h"
#include "support/faultproxy.h"
#include "support/posix.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace LockTesting;
using namespace Support;
using QDistLock::LockAddress;

namespace {

/// Calls every function of the interface, on locks that cannot reach their server.
void useEverything(LockRegistry *registry)
{
    auto lock = std::make_unique<TestLock>(registry, u"one"_s, options(300ms, 150ms));
    lock->acquire();
    lock->tryAcquire();
    lock->acquireAsync();
    eventually([&] { return false; }, 30ms);
    lock->cancel();
    lock->acquire();
    lock->release();
    lock->releaseAsync();
    lock->acquire();
    eventually([&] { return lock->state() == DistributedLock::Unlocked; }, 400ms);

    auto destroyed = std::make_unique<DistributedLock>(registry, u"two"_s);
    destroyed->acquire();
    eventually([&] { return false; }, 30ms);
    destroyed.reset();
    lock->tryAcquire();
    registry->obtain(u"three"_s)->acquire();
    registry->inspect(u"one"_s);
    registry->list(u"*"_s);
    registry->forceRelease(u"one"_s);
    eventually([&] { return false; }, 100ms);
    lock.reset();
}

} // namespace

class tst_Stall : public RedisLockTest
{
    Q_OBJECT
private Q_SLOTS:
    void neverReachable_data()
    {
        addNamedRows<QString>("fault",
                              {"stopped", "stopped on a Unix socket", "black hole", "no answer to connecting",
                               "no such host", "refused", "no such Unix socket"});
    }
    TIMING void neverReachable();
    void lostWhileHeld_data()
    {
        addNamedRows<QString>("fault", {"nothing", "stopped", "black hole", "reset and refused"});
    }
    TIMING void lostWhileHeld();
    TIMING void subscriptionLostWithManyLocks();
};

void tst_Stall::neverReachable()
{
    QFETCH(QString, fault);
    FaultProxy proxy(m_server);
    UnansweredPort unanswered;
    QVERIFY(unanswered.isValid());
    QUrl url;
    if (fault == QLatin1String("stopped")) {
        url = m_server.tcpUrl();
    } else if (fault == QLatin1String("stopped on a Unix socket")) {
        url = m_server.url();
    } else if (fault == QLatin1String("black hole")) {
        proxy.setBlackHole(true);
        url = proxy.url();
    } else if (fault == QLatin1String("no answer to connecting")) {
        url = unanswered.url();
    } else if (fault == QLatin1String("no such host")) {
        url = QUrl(u"redis://no-such-host.invalid:6390"_s);
    } else if (fault == QLatin1String("refused")) {
        url = QUrl(u"redis://127.0.0.1:%1"_s.arg(Posix::freePort()));
    } else {
        url = QUrl(u"unix://%1/nothing.sock"_s.arg(m_server.folder()));
    }

    if (fault.startsWith(QLatin1String("stopped")))
        m_server.pause();
    bool everHeld = false;
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [&](EventLoopProbe &) {
                auto registry = std::make_unique<LockRegistry>(url);
                useEverything(registry.get());
                everHeld = everHeld || registry->state() == LockRegistry::Ready;
                registry.reset();
                eventually([&] { return false; }, 20ms);
            },
            TurnLimit);
    m_server.resume();
    QVERIFY(!everHeld);
    QVERIFY2(longest < TurnLimit, qPrintable(u"%1 ns"_s.arg(longest.count())));
}

void tst_Stall::lostWhileHeld()
{
    QFETCH(QString, fault);
    const bool alive = fault == QLatin1String("nothing");
    FaultProxy proxy(m_server);
    bool held = false;
    qsizetype lost = 0;
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [&](EventLoopProbe &probe) {
                auto registry = std::make_unique<LockRegistry>(proxy.url());
                auto lock = std::make_unique<DistributedLock>(registry.get(), u"held"_s);
                DistributedLock second(registry.get(), u"second"_s);
                lock->setOptions(options(alive ? 1200ms : 300ms));
                second.setOptions(options(300ms));
                std::unique_ptr<Spies> spies;
                probe.without([&] { spies = std::make_unique<Spies>(lock.get()); });
                lock->acquire();
                second.acquire();
                held = eventually([&] { return lock->isHeld() && second.isHeld(); });
                probe.without([&] {
                    if (fault == QLatin1String("stopped")) {
                        m_server.pause();
                    } else if (fault == QLatin1String("black hole")) {
                        proxy.setBlackHole(true);
                    } else if (fault == QLatin1String("reset and refused")) {
                        proxy.setRefusing(true);
                        proxy.resetAll();
                    }
                });
                lock->acquire(); // re-entry
                second.release();
                eventually([&] { return !spies->lost.isEmpty(); }, alive ? 500ms : 5s);
                lost = spies->lost.size();
                useEverything(registry.get());
                lock->release();
                lock.reset();
                registry.reset();
                eventually([&] { return false; }, 20ms);
                probe.without([&] {
                    m_server.resume();
                    proxy.heal();
                });
            },
            TurnLimit);
    QVERIFY(held);
    QCOMPARE(lost, alive ? 0 : 1);
    QVERIFY2(longest < TurnLimit, qPrintable(u"%1 ns"_s.arg(longest.count())));
}

// 5 000 locks with 500 key prefixes, half of them waiting, lose their subscription and get it back.
void tst_Stall::subscriptionLostWithManyLocks()
{
    constexpr auto limit = 4 * TurnLimit;
    constexpr int prefixes = 500;
    constexpr int locksEach = 10;
    RespClient foreign;
    QVERIFY(foreign.connectToUnix(m_server.socketPath()));
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int prefix = 0; prefix < prefixes; ++prefix) {
        for (int i = 0; i < locksEach; ++i) {
            const QString keyPrefix = u"many:%1:"_s.arg(prefix);
            locks.push_back(
                    std::make_unique<DistributedLock>(LockAddress(QString::number(i)).withKeyPrefix(keyPrefix)));
            locks.back()->setRegistry(registry());
            locks.back()->setOptions(options(60s, LockOptions::Forever).withRetryInterval(60s));
            if (i % 2)
                foreign.command({"SET", keyPrefix.toUtf8() + QByteArray::number(i), "theirs", "PX", "600000"});
            locks.back()->acquire();
        }
    }
    const auto inPlace = [&] {
        return all(locks, [](const auto &lock) { return lock->isHeld() || lock->queuePosition() == 0; });
    };
    const auto longest = EventLoopProbe::longestBlockedTurnOf(
            [&](EventLoopProbe &probe) {
                bool listening = false;
                const auto untilListening = [&] {
                    for (int i = 0; i < 500 && !listening; ++i) {
                        eventually([] { return false; }, 10ms);
                        probe.without([&] { listening = inPlace() && m_server.channels().size() == 1; });
                    }
                };
                untilListening();
                probe.reset();
                probe.without([&] { QVERIFY(foreign.command({"CLIENT", "KILL", "TYPE", "pubsub"}).toInt() > 0); });
                listening = false;
                eventually([] { return false; }, 100ms);
                untilListening();
                QVERIFY(listening);
                eventually([] { return false; }, 500ms); // their next commands
            },
            limit, 3);
    QVERIFY(inPlace());
    QVERIFY2(longest < limit, qPrintable(u"%1 ns"_s.arg(longest.count())));
    m_server.command({"FLUSHALL"});
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Stall)

#include "tst_stall.moc"
