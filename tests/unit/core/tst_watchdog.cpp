// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "core/watchdog.h"
#include "support/eventually.h"
#include "support/fakeclock.h"
#include "support/testkinds.h"

#include <QtCore/qeventloop.h>
#include <QtCore/qpointer.h>
#include <QtTest/qtest.h>

#include <array>
#include <functional>
#include <memory>
#include <random>
#include <vector>

using namespace QDistLock;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

class Client : public Watchdog::Client
{
public:
    void wakeUp(LeaseTime now) override
    {
        ++wakeUps;
        lastNow = now;
        if (log)
            log->append(name);
        if (action)
            action(now);
    }

    int wakeUps = 0;
    LeaseTime lastNow;
    int name = 0;
    QList<int> *log = nullptr;
    std::function<void(LeaseTime)> action;
};

/// Counts how often the watchdog's timer fires.
class CountingClock : public LeaseClock
{
public:
    LeaseTime now() const override
    {
        ++reads;
        return LeaseClock::system()->now();
    }
    mutable int reads = 0;
};

} // namespace

class tst_Watchdog : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void wakesInOrder();
    void wakesOnlyWhatIsDue();
    void handsInThePresent();
    void replacesWhatWasScheduled();
    void forgets();
    void rescheduledWhileWaking();
    void othersScheduledWhileWaking();
    void forgottenWhileWaking();
    void deletedWhileWaking();
    void thousandsAtOnce();
    void wakesByItsTimer();
    TIMING void earlierMomentSetsTheTimerAnew();
    void clockJumps();
    void clockJumpsWhileTheTimerRuns();
    void readsTheClockSeldomWithoutALease();
    void farAwayIsNoBusyLoop();
    void laterMomentsSetNoTimer();
    void randomSchedules();
};

void tst_Watchdog::wakesInOrder()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    QList<int> log;
    std::vector<Client> clients(5);
    const std::array<int, 5> order{3, 0, 4, 1, 2};
    for (size_t i = 0; i < clients.size(); ++i) {
        clients[i].name = order[i];
        clients[i].log = &log;
        watchdog.schedule(&clients[i], clock.now() + std::chrono::seconds(order[i]));
    }
    clock.advance(10s);
    watchdog.wake();
    QCOMPARE(log, (QList<int>{0, 1, 2, 3, 4}));
    watchdog.wake();
    QCOMPARE(log.size(), 5);
}

void tst_Watchdog::wakesOnlyWhatIsDue()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client now, soon;
    watchdog.schedule(&now, clock.now());
    watchdog.schedule(&soon, clock.now() + 1ns);
    watchdog.wake();
    QCOMPARE(now.wakeUps, 1);
    QCOMPARE(soon.wakeUps, 0);
    clock.advance(1ns);
    watchdog.wake();
    QCOMPARE(now.wakeUps, 1);
    QCOMPARE(soon.wakeUps, 1);
    // The same moment once more: it has been forgotten with the first time.
    watchdog.schedule(&soon, clock.now());
    watchdog.wake();
    QCOMPARE(soon.wakeUps, 2);
    QCOMPARE(now.wakeUps, 1);
}

void tst_Watchdog::handsInThePresent()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client client;
    watchdog.schedule(&client, clock.now() + 1s);
    clock.advance(1h);
    watchdog.wake();
    QCOMPARE(client.lastNow, clock.now());
}

void tst_Watchdog::replacesWhatWasScheduled()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client client;
    watchdog.schedule(&client, clock.now() + 1s);
    watchdog.schedule(&client, clock.now() + 1s);
    watchdog.schedule(&client, clock.now() + 5s);
    clock.advance(2s);
    watchdog.wake();
    QCOMPARE(client.wakeUps, 0);
    watchdog.schedule(&client, clock.now() - 1s);
    watchdog.wake();
    QCOMPARE(client.wakeUps, 1);
    clock.advance(1h);
    watchdog.wake();
    QCOMPARE(client.wakeUps, 1);
}

void tst_Watchdog::forgets()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client client;
    watchdog.forget(&client); // never known
    watchdog.schedule(&client, clock.now());
    watchdog.forget(&client);
    watchdog.schedule(&client, clock.now());
    watchdog.schedule(&client, NeverTime);
    clock.advance(1h);
    watchdog.wake();
    QCOMPARE(client.wakeUps, 0);
}

void tst_Watchdog::rescheduledWhileWaking()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client client;
    client.action = [&](LeaseTime now) { watchdog.schedule(&client, now + 1s); };
    watchdog.schedule(&client, clock.now());
    watchdog.wake();
    QCOMPARE(client.wakeUps, 1);
    for (int i = 2; i < 10; ++i) {
        clock.advance(1s);
        watchdog.wake();
        QCOMPARE(client.wakeUps, i);
    }
    watchdog.forget(&client);
}

void tst_Watchdog::othersScheduledWhileWaking()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    QList<int> log;
    Client first, second, third;
    first.name = 1;
    second.name = 2;
    third.name = 3;
    first.log = second.log = third.log = &log;
    first.action = [&](LeaseTime now) {
        watchdog.schedule(&third, now);       // not due before: wakes in this round
        watchdog.schedule(&second, now + 1s); // due before: not in this round
    };
    watchdog.schedule(&first, clock.now());
    watchdog.schedule(&second, clock.now() + 1ms);
    clock.advance(1ms);
    watchdog.wake();
    QCOMPARE(log, (QList<int>{1, 3}));
    clock.advance(1s);
    watchdog.wake();
    QCOMPARE(log, (QList<int>{1, 3, 2}));
}

void tst_Watchdog::forgottenWhileWaking()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client first, second;
    first.action = [&](LeaseTime) { watchdog.forget(&second); };
    watchdog.schedule(&first, clock.now());
    watchdog.schedule(&second, clock.now() + 1ns);
    clock.advance(1s);
    watchdog.wake();
    QCOMPARE(first.wakeUps, 1);
    QCOMPARE(second.wakeUps, 0);
}

void tst_Watchdog::deletedWhileWaking()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    std::vector<std::unique_ptr<Client>> clients(20);
    int wakeUps = 0;
    for (size_t i = 0; i < clients.size(); ++i) {
        clients[i] = std::make_unique<Client>();
        watchdog.schedule(clients[i].get(), clock.now() + std::chrono::milliseconds(i));
        clients[i]->action = [&watchdog, &clients, &wakeUps, i](LeaseTime) {
            auto &keptWakeUps = wakeUps;
            ++keptWakeUps;
            auto &all = clients;
            const size_t self = i;
            // Itself, the next and the last one there is.
            for (const size_t victim : {self + 1, all.size() - 1 - self, self}) {
                if (victim < all.size() && all[victim]) {
                    watchdog.forget(all[victim].get());
                    // Moved out first: the function that runs belongs to it.
                    const auto keep = std::move(all[victim]->action);
                    all[victim].reset();
                    if (victim == self)
                        return;
                }
            }
        };
    }
    clock.advance(1s);
    watchdog.wake();
    QVERIFY(wakeUps > 1);
    for (const auto &client : clients)
        QVERIFY(!client);
}

void tst_Watchdog::thousandsAtOnce()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    std::vector<Client> clients(10'000);
    for (Client &client : clients) {
        client.action = [&](LeaseTime now) { watchdog.schedule(&client, now + 10s); };
        watchdog.schedule(&client, clock.now() + 10s);
    }
    for (int round = 1; round <= 5; ++round) {
        clock.advance(10s);
        watchdog.wake();
        for (const Client &client : clients)
            QCOMPARE(client.wakeUps, round);
    }
    for (Client &client : clients)
        watchdog.forget(&client);
    clock.advance(1h);
    watchdog.wake();
    QCOMPARE(clients.front().wakeUps, 5);
}

void tst_Watchdog::wakesByItsTimer()
{
    Watchdog watchdog(LeaseClock::system());
    Client client;
    LeaseTime due = LeaseClock::system()->now() + 5ms;
    bool early = false;
    client.action = [&](LeaseTime now) {
        early |= now < due;
        due = now + 5ms;
        watchdog.schedule(&client, due);
    };
    watchdog.schedule(&client, due);
    EVENTUALLY_VERIFY(client.wakeUps >= 10);
    QVERIFY(!early);
    watchdog.forget(&client);
}

void tst_Watchdog::earlierMomentSetsTheTimerAnew()
{
    Watchdog watchdog(LeaseClock::system());
    Client late, early;
    const LeaseTime now = LeaseClock::system()->now();
    watchdog.schedule(&late, now + 1h);
    watchdog.schedule(&early, now + 10ms);
    // The timer fires after a second in any case: this must be sooner.
    Support::leavesRoomFor(850ms);
    EVENTUALLY_COMPARE(early.wakeUps, 1);
    QVERIFY(early.lastNow - now >= 10ms);
    QVERIFY(early.lastNow - now < 900ms);
    QCOMPARE(late.wakeUps, 0);
}

void tst_Watchdog::clockJumps()
{
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client client;
    watchdog.schedule(&client, clock.now() + 30s);
    clock.advance(24h * 365);
    watchdog.wake();
    QCOMPARE(client.wakeUps, 1);
}

void tst_Watchdog::clockJumpsWhileTheTimerRuns()
{
    // Suspended: the lease clock ran on, Qt's timers did not. The watchdog reads the clock every second while a lease
    // is at stake.
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    Client waiting, holding;
    watchdog.schedule(&waiting, clock.now() + 1h);
    // The timer is set for the one that only waits already, and must be set again.
    watchdog.schedule(&holding, clock.now() + 2h, true);
    clock.advance(3h);
    EVENTUALLY_COMPARE(holding.wakeUps, 1);
    QCOMPARE(holding.lastNow, clock.now());
    QCOMPARE(waiting.wakeUps, 1);

    // What was scheduled without a lease, and has one now, at the same moment.
    watchdog.schedule(&holding, clock.now() + 1h);
    watchdog.schedule(&holding, clock.now() + 1h, true);
    clock.advance(2h);
    EVENTUALLY_COMPARE(holding.wakeUps, 2);
}

void tst_Watchdog::readsTheClockSeldomWithoutALease()
{
    CountingClock clock;
    Watchdog watchdog(&clock);
    Client waiting, holding;
    const auto readsWithin = [&clock](std::chrono::milliseconds time) {
        const int before = clock.reads;
        QEventLoop loop;
        QTimer::singleShot(time, &loop, &QEventLoop::quit);
        loop.exec();
        return clock.reads - before;
    };
    watchdog.schedule(&waiting, clock.now() + 1h);
    QCOMPARE(readsWithin(1500ms), 0);
    watchdog.schedule(&holding, clock.now() + 2h, true);
    QVERIFY(readsWithin(1500ms) > 0);
    // Held no more: released, lost, forgotten. The timer that is set runs out, no other follows.
    const std::array<std::function<void()>, 3> ends{
            [&] { watchdog.schedule(&holding, LeaseClock::system()->now() + 2h); },
            [&] { watchdog.schedule(&holding, NeverTime, true); }, // nothing is due for it
            [&] { watchdog.forget(&holding); },
    };
    for (const auto &end : ends) {
        watchdog.schedule(&holding, LeaseClock::system()->now() + 2h, true);
        end();
        readsWithin(1100ms);
        QCOMPARE(readsWithin(1500ms), 0);
    }
    // Woken, it counts no more either.
    holding.action = [&](LeaseTime now) { watchdog.schedule(&holding, now + 2h); };
    watchdog.schedule(&holding, LeaseClock::system()->now(), true);
    watchdog.wake();
    readsWithin(1100ms);
    QCOMPARE(readsWithin(1500ms), 0);
    watchdog.forget(&waiting);
    watchdog.forget(&holding);
}

void tst_Watchdog::farAwayIsNoBusyLoop()
{
    CountingClock clock;
    Watchdog watchdog(&clock);
    Client far, near;
    int timers = 0;
    QEventLoop loop; // a real one, which does not sleep between timers
    QTimer::singleShot(60s, &loop, &QEventLoop::quit);
    watchdog.schedule(&far, clock.now() + 24h * 365 * 100);
    near.action = [&](LeaseTime now) {
        if (++timers < 50)
            watchdog.schedule(&near, now + 10ms);
        else
            loop.quit();
    };
    watchdog.schedule(&near, clock.now() + 10ms);
    loop.exec();
    QCOMPARE(timers, 50);
    // A few reads of the clock for each wake-up, and one wake-up a second for clients that are due much later.
    QVERIFY2(clock.reads < 50 * 4, qPrintable(QString::number(clock.reads)));
    watchdog.forget(&far);
}

void tst_Watchdog::laterMomentsSetNoTimer()
{
    // 10 000 locks with one beat arm one timer.
    CountingClock clock;
    Watchdog watchdog(&clock);
    std::vector<Client> clients(10'000);
    const LeaseTime now = LeaseClock::system()->now();
    for (size_t i = 0; i < clients.size(); ++i)
        watchdog.schedule(&clients[i], now + 1h + std::chrono::milliseconds(i));
    QVERIFY2(clock.reads <= 2, qPrintable(QString::number(clock.reads)));
    for (Client &client : clients)
        watchdog.forget(&client);
}

void tst_Watchdog::randomSchedules()
{
    std::mt19937 random(1);
    Support::FakeClock clock;
    Watchdog watchdog(&clock);
    std::vector<Client> clients(50);
    std::vector<LeaseTime> due(clients.size(), NeverTime);
    LeaseTime last;
    bool wrong = false;
    const auto schedule = [&](size_t i) {
        // Not within the present round, so that what is expected of it is plain.
        due[i] = random() % 5 == 0 ? NeverTime : clock.now() + nanoseconds(1 + random() % 1000);
        watchdog.schedule(&clients[i], due[i]);
    };
    for (size_t i = 0; i < clients.size(); ++i) {
        clients[i].action = [&, i](LeaseTime now) {
            wrong |= due[i] > now || due[i] < last;
            last = due[i];
            due[i] = NeverTime;
            if (random() % 2)
                schedule(i);
            if (random() % 4 == 0) {
                const size_t other = random() % clients.size();
                schedule(other);
            }
        };
    }
    for (int round = 0; round < 20'000; ++round) {
        schedule(random() % clients.size());
        clock.advance(nanoseconds(random() % 200));
        last = LeaseTime();
        watchdog.wake();
        QVERIFY(!wrong);
        for (const LeaseTime time : due)
            QVERIFY(time > clock.now());
    }
    for (Client &client : clients)
        watchdog.forget(&client);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, tst_Watchdog)
#include "tst_watchdog.moc"
