// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "schedule.h"

#include <QtCore/qhash.h>
#include <QtCore/qset.h>
#include <QtTest/qtest.h>

#include <tuple>

using namespace Qt::StringLiterals;

using namespace std::chrono_literals;
using namespace Chaos;

namespace {

auto fieldsOf(const Fault &fault)
{
    return std::tuple(fault.kind, fault.at, fault.duration, fault.worker, fault.server, fault.lock, fault.detail);
}

bool areSame(const QList<Fault> &a, const QList<Fault> &b)
{
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Fault &x, const Fault &y) { return fieldsOf(x) == fieldsOf(y); });
}

} // namespace

class tst_Schedule : public QObject
{
    Q_OBJECT
private Q_SLOTS:
    void theSeedDecides();
    void sameEverywhere();
    void allKindsComeEquallyOften();
    void sentinels();
    void cluster();
    void quorum_data();
    void quorum();
    void oneAtATime();
    void withinItsTime();
    void onlySomeKinds();
    void namesAreDifferent();
};

void tst_Schedule::theSeedDecides()
{
    ScheduleOptions options;
    const auto faults = drawSchedule(options);
    QVERIFY(areSame(faults, drawSchedule(options)));
    options.seed = 2;
    QVERIFY(!areSame(faults, drawSchedule(options)));
}

// A seed gives the same faults on every machine and with every compiler.
void tst_Schedule::sameEverywhere()
{
    const auto faults = drawSchedule({});
    QStringList begin;
    for (const Fault &fault : faults.first(3)) {
        begin << u"%1 %2 %3 %4 %5"_s.arg(QLatin1String(nameOf(fault.kind)))
                         .arg(fault.at.count())
                         .arg(fault.duration.count())
                         .arg(fault.worker)
                         .arg(fault.server);
    }
    QCOMPARE(begin.join(QLatin1String(", ")),
             u"connecting-refused 184 690 0 1, section-blocked 795 696 6 -1, "
             "reply-dropped 1080 0 2 1"_s);
}

void tst_Schedule::allKindsComeEquallyOften()
{
    ScheduleOptions options;
    QHash<FaultKind, int> counts;
    for (options.seed = 1; options.seed <= 5; ++options.seed) {
        const auto faults = drawSchedule(options);
        QVERIFY(faults.size() >= 150);
        QSet<FaultKind> kinds;
        for (const Fault &fault : faults) {
            kinds.insert(fault.kind);
            ++counts[fault.kind];
        }
        QCOMPARE(kinds.size(), int(FaultKind::ForgedMessages) + 1); // in each minute
    }
    const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
    QVERIFY2(*fewest * 5 >= *most, qPrintable(u"%1 to %2"_s.arg(*fewest).arg(*most)));
}

void tst_Schedule::sentinels()
{
    ScheduleOptions options;
    options.engine = EngineKind::Sentinel;
    options.servers = 3;
    QSet<FaultKind> kinds;
    std::chrono::milliseconds freeAt = 0ms;
    const auto faults = drawSchedule(options);
    for (const Fault &fault : faults) {
        kinds.insert(fault.kind);
        QVERIFY(fault.kind < FaultKind::ServerStopped || fault.kind > FaultKind::ForgedMessages);
        QVERIFY(fault.kind <= FaultKind::SentinelLies);
        if (fault.worker >= 0)
            continue;
        QVERIFY(fault.kind > FaultKind::ForgedMessages && fault.at >= freeAt);
        freeAt = fault.at + fault.duration;
    }
    for (int kind = int(FaultKind::MasterKilled); kind <= int(FaultKind::SentinelLies); ++kind)
        QVERIFY(kinds.contains(FaultKind(kind)));
}

void tst_Schedule::cluster()
{
    ScheduleOptions options;
    options.engine = EngineKind::Cluster;
    options.servers = 0;
    options.locksPerServer = 4;
    QSet<FaultKind> kinds;
    QSet<int> locks;
    const auto faults = drawSchedule(options);
    for (const Fault &fault : faults) {
        QCOMPARE(fault.server, -1);
        QCOMPARE(fault.worker >= 0, fault.kind <= FaultKind::NestedLoop);
        if (fault.worker < 0)
            kinds.insert(fault.kind);
        locks.insert(fault.lock);
    }
    QCOMPARE(kinds,
             (QSet<FaultKind>{FaultKind::MasterKilled, FaultKind::MasterStopped, FaultKind::FailedOver,
                              FaultKind::Partitioned, FaultKind::TakenOver, FaultKind::SlotLeftMoving,
                              FaultKind::NodeAdded, FaultKind::SlotGivenAway, FaultKind::NodeForeign}));
    QCOMPARE(locks.size(), 4);
}

void tst_Schedule::quorum_data()
{
    QTest::addColumn<int>("engine");
    QTest::newRow("quorum") << int(EngineKind::Quorum);
    QTest::newRow("zookeeper") << int(EngineKind::ZooKeeper);
}

void tst_Schedule::quorum()
{
    QFETCH(int, engine);
    ScheduleOptions options;
    options.engine = EngineKind(engine);
    options.servers = 3;
    options.locksPerServer = 4;
    QSet<FaultKind> ofService;
    QSet<int> links;
    const auto faults = drawSchedule(options);
    for (const Fault &fault : faults) {
        if (fault.worker < 0)
            ofService.insert(fault.kind);
        else if (fault.server >= 0)
            links.insert(fault.server);
        QVERIFY(fault.worker >= 0 || fault.server < 0);
    }
    QCOMPARE(ofService, (QSet<FaultKind>{FaultKind::MasterKilled, FaultKind::MasterStopped}));
    QCOMPARE(links, (QSet<int>{0, 1, 2}));
}

void tst_Schedule::oneAtATime()
{
    ScheduleOptions options;
    options.duration = 10min;
    QHash<std::pair<int, int>, std::chrono::milliseconds> freeAt;
    const auto faults = drawSchedule(options);
    for (const Fault &fault : faults) {
        const std::pair target(fault.worker, fault.server);
        QVERIFY(fault.at >= freeAt.value(target));
        freeAt[target] = fault.at + fault.duration;
        QVERIFY(fault.worker < options.workers && fault.server < options.servers);
        QVERIFY(fault.worker >= 0 || fault.server >= 0);
        QVERIFY(fault.lock >= 0 && fault.lock < options.locksPerServer);
    }
}

void tst_Schedule::withinItsTime()
{
    ScheduleOptions options;
    options.duration = 10s;
    options.workers = 1;
    std::chrono::milliseconds last = 0ms;
    const auto faults = drawSchedule(options);
    QVERIFY(!faults.isEmpty());
    for (const Fault &fault : faults) {
        QVERIFY(fault.at >= last);
        QVERIFY(fault.duration >= 0ms && fault.at + fault.duration < options.duration);
        last = fault.at;
    }
}

void tst_Schedule::onlySomeKinds()
{
    ScheduleOptions options;
    options.kinds = {FaultKind::ServerClockForward, FaultKind::RepliesHeld};
    QSet<FaultKind> kinds;
    const auto faults = drawSchedule(options);
    for (const Fault &fault : faults)
        kinds.insert(fault.kind);
    QCOMPARE(kinds, QSet<FaultKind>(options.kinds.begin(), options.kinds.end()));
}

void tst_Schedule::namesAreDifferent()
{
    QSet<QByteArray> names;
    for (int kind = 0; kind < FaultKinds; ++kind) {
        names.insert(nameOf(FaultKind(kind)));
        QCOMPARE(kindNamed(nameOf(FaultKind(kind))), FaultKind(kind));
    }
    QCOMPARE(names.size(), FaultKinds);
    QVERIFY(!kindNamed("no such kind"));
}

QTEST_APPLESS_MAIN(tst_Schedule)
#include "tst_schedule.moc"
