// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The QML singleton LockMetrics. tst_lockmetrics is about what is counted.

#include "qmltesting.h"

#include "support/eventsums.h"
#include "support/eventually.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/LockMetrics>
#include <QDistLock/LockRegistry>

#include <QtCore/qabstractitemmodel.h>
#include <QtCore/qpointer.h>
#include <QtTest/qabstractitemmodeltester.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <memory>
#include <utility>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using namespace QDistLock;
using QmlTesting::Scene;

class TestQmlLockMetrics : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void init() { LockMetrics::reset(); }

    void properties();
    void rows();
    void differences();
    void readsInItsInterval();
    void changesInsideASlot();
    void observer();
    void engineDestroyedBySlots_data();
    void engineDestroyedBySlots();

private:
    static QAbstractItemModel *modelOf(const Scene &scene)
    {
        return qobject_cast<QAbstractItemModel *>(scene.root()->property("model").value<QObject *>());
    }
    static QStringList groupsOf(const QAbstractItemModel *model)
    {
        QStringList groups;
        for (int row = 0; row < model->rowCount(); ++row)
            groups += model->index(row, 0).data().toString();
        return groups;
    }
    /// The model reads everything that happened until now, and then nothing more.
    static void readOnce(QAbstractItemModel *model)
    {
        model->setProperty("active", true);
        model->setProperty("active", false);
    }
    /// An acquire that fails at once is counted in the group \a name.
    void failIn(const QString &name)
    {
        DistributedLock lock(&m_registry, name);
        lock.setOptions(LockOptions().withLease(1ms));
        lock.acquire();
    }

    static constexpr auto Element = "QtObject { property var model: LockMetrics }";
    static constexpr auto PassiveElement = "QtObject {\n"
                                           "    property var model: LockMetrics\n"
                                           "    Component.onCompleted: LockMetrics.active = false\n"
                                           "}";
    LockRegistry m_registry{QUrl(u"memory:"_s)};
};

void TestQmlLockMetrics::properties()
{
    Scene scene(Element);
    QAbstractItemModel *const model = modelOf(scene);
    QVERIFY(model);
    QCOMPARE(model->property("active"), true);
    QCOMPARE(model->property("interval"), 1000);
    QCOMPARE(model->property("count"), 0);

    QSignalSpy interval(model, SIGNAL(intervalChanged()));
    for (const auto &[wanted, used] : {std::pair(1, 100), {50, 100}, {200, 200}, {INT_MAX, 3'600'000}}) {
        model->setProperty("interval", wanted);
        QCOMPARE(model->property("interval"), used);
    }
    QCOMPARE(interval.count(), 3);

    QSignalSpy active(model, SIGNAL(activeChanged()));
    for (const bool wanted : {true, false, false, true})
        model->setProperty("active", wanted);
    QCOMPARE(active.count(), 2);

    QVERIFY(!model->setData(model->index(0, 0), 1));
    QCOMPARE(model->roleNames().value(Qt::UserRole + 1), "group");
}

/// As a view sees them: by role names, with values that JavaScript understands.
void TestQmlLockMetrics::rows()
{
    const auto options = LockOptions().withLease(10min).withWait(10min);
    DistributedLock lock(&m_registry, u"b"_s);
    lock.setOptions(options);
    for (int i = 0; i < 2; ++i) {
        lock.acquire();
        EVENTUALLY_VERIFY(lock.isHeld());
        lock.release();
        EVENTUALLY_COMPARE(lock.state(), DistributedLock::Unlocked);
    }
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());
    DistributedLock waiter(&m_registry, u"b"_s);
    waiter.setOptions(options);
    waiter.acquire();
    EVENTUALLY_COMPARE(waiter.state(), DistributedLock::Acquiring);
    DistributedLock busy(&m_registry, u"b"_s);
    busy.tryAcquire();
    EVENTUALLY_COMPARE(busy.error(), DistributedLock::BusyError);
    failIn(u"a"_s);

    Scene scene("QtObject {\n"
                "    property Instantiator rows: Instantiator {\n"
                "        model: LockMetrics\n"
                "        delegate: QtObject {\n"
                "            required property string group\n"
                "            required property int acquired\n"
                "            required property int contended\n"
                "            required property int busy\n"
                "            required property int timedOut\n"
                "            required property int cancelled\n"
                "            required property int errors\n"
                "            required property int failed\n"
                "            required property int released\n"
                "            required property int leaseExpired\n"
                "            required property int stolen\n"
                "            required property int deleted\n"
                "            required property int forcedReleases\n"
                "            required property int lost\n"
                "            required property int renewed\n"
                "            required property int atRisk\n"
                "            required property int held\n"
                "            required property int waiting\n"
                "            required property double waitMean\n"
                "            required property double waitP50\n"
                "            required property double waitP95\n"
                "            required property double waitP99\n"
                "            required property double holdMean\n"
                "            required property double holdP50\n"
                "            required property double holdP95\n"
                "            required property double holdP99\n"
                "        }\n"
                "    }\n"
                "    function counts(row) {\n"
                "        const shown = rows.objectAt(row);\n"
                "        return [shown.group, shown.acquired, shown.contended, shown.busy, shown.timedOut,\n"
                "            shown.cancelled, shown.errors, shown.failed, shown.released, shown.leaseExpired,\n"
                "            shown.stolen, shown.deleted, shown.forcedReleases, shown.lost, shown.renewed,\n"
                "            shown.atRisk, shown.held, shown.waiting];\n"
                "    }\n"
                "    function times(row) {\n"
                "        const shown = rows.objectAt(row);\n"
                "        return [shown.waitMean, shown.waitP50, shown.waitP95, shown.waitP99, shown.holdMean,\n"
                "            shown.holdP50, shown.holdP95, shown.holdP99];\n"
                "    }\n"
                "}");
    QVERIFY(scene.root());
    const auto shown = [&](const char *function, int row) {
        QVariant list;
        QMetaObject::invokeMethod(scene.root(), function, Q_RETURN_ARG(QVariant, list), Q_ARG(QVariant, row));
        return list.toList();
    };
    const QVariantList counts{u"b"_s, 3, 0, 1, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 1};
    QCOMPARE(shown("counts", 1), counts);
    const QList<LockStatistics> groups = LockMetrics::snapshot();
    QCOMPARE(groups.size(), 2);
    QVariantList times;
    for (const LockHistogram &histogram : {groups.last().wait, groups.last().hold}) {
        using Ms = std::chrono::duration<double, std::milli>;
        for (const Ms time : {Ms(histogram.sum / qint64(histogram.count())), Ms(histogram.percentile(50)),
                              Ms(histogram.percentile(95)), Ms(histogram.percentile(99))})
            times.append(time.count());
    }
    QCOMPARE(shown("times", 1), times);

    const QVariantList countsOfFailure{u"a"_s, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    QCOMPARE(shown("counts", 0), countsOfFailure);
    QCOMPARE(shown("times", 0), QVariantList(8, -1));
}

/// Views hear of what has changed, and of nothing else.
void TestQmlLockMetrics::differences()
{
    Scene scene(PassiveElement);
    QAbstractItemModel *const model = modelOf(scene);
    const QAbstractItemModelTester tester(model, QAbstractItemModelTester::FailureReportingMode::QtTest);
    QSignalSpy counted(model, SIGNAL(countChanged()));
    QSignalSpy inserted(model, &QAbstractItemModel::rowsInserted);
    QSignalSpy removed(model, &QAbstractItemModel::rowsRemoved);
    QSignalSpy changed(model, &QAbstractItemModel::dataChanged);
    QSignalSpy reset(model, &QAbstractItemModel::modelReset);
    DistributedLock lock(&m_registry, u"m"_s);
    lock.setOptions(LockOptions().withLease(10min));
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());
    QCOMPARE(model->rowCount(), 0); // it is not active
    failIn(u"z"_s);
    readOnce(model);
    QCOMPARE(groupsOf(model), QStringList({u"m"_s, u"z"_s}));
    QCOMPARE(counted.count(), 1);
    readOnce(model);
    QCOMPARE(changed.count(), 0);

    lock.release();
    EVENTUALLY_COMPARE(lock.state(), DistributedLock::Unlocked);
    readOnce(model);
    QCOMPARE(changed.count(), 1);
    QCOMPARE(changed.at(0).at(0).toModelIndex(), model->index(0, 0));
    QCOMPARE(changed.at(0).at(1).toModelIndex(), model->index(0, 0));
    QList<QByteArray> roles;
    for (const int role : changed.at(0).at(2).value<QList<int>>())
        roles.append(model->roleNames().value(role));
    QCOMPARE(roles, QList<QByteArray>({"released", "held", "holdMean", "holdP50", "holdP95", "holdP99"}));

    for (const char *const name : {"a", "n", "o", "zz"})
        failIn(QString::fromLatin1(name));
    failIn(u"z"_s);
    inserted.clear();
    readOnce(model);
    QCOMPARE(groupsOf(model), QStringList({u"a"_s, u"m"_s, u"n"_s, u"o"_s, u"z"_s, u"zz"_s}));
    QCOMPARE(inserted.count(), 4);
    QCOMPARE(changed.count(), 2);
    QCOMPARE(changed.at(1).at(0).toModelIndex().row(), 4);
    QCOMPARE(model->property("count"), 6);
    QCOMPARE(counted.count(), 2);
    QCOMPARE(removed.count(), 0);

    LockMetrics::reset();
    failIn(u"n"_s);
    readOnce(model);
    QCOMPARE(groupsOf(model), QStringList{u"n"_s});
    QCOMPARE(removed.count(), 5);
    QCOMPARE(counted.count(), 3);
    QCOMPARE(reset.count(), 0);
}

void TestQmlLockMetrics::readsInItsInterval()
{
    Scene scene("QtObject {\n"
                "    property var model: LockMetrics\n"
                "    property int count: LockMetrics.count\n"
                "    Component.onCompleted: LockMetrics.interval = 100\n"
                "}");
    failIn(u"a"_s);
    EVENTUALLY_COMPARE(scene.root()->property("count").toInt(), 1);
    failIn(u"b"_s);
    EVENTUALLY_COMPARE(groupsOf(modelOf(scene)), QStringList({u"a"_s, u"b"_s}));
}

void TestQmlLockMetrics::changesInsideASlot()
{
    Scene scene(PassiveElement);
    QAbstractItemModel *const model = modelOf(scene);
    const QAbstractItemModelTester tester(model, QAbstractItemModelTester::FailureReportingMode::QtTest);
    connect(model, &QAbstractItemModel::rowsInserted, this, [this, model] {
        failIn(u"a"_s);
        readOnce(model);
    });
    for (const char *const name : {"b", "c"})
        failIn(QString::fromLatin1(name));
    readOnce(model);
    QCOMPARE(groupsOf(model), QStringList({u"b"_s, u"c"_s}));
    readOnce(model);
    QCOMPARE(groupsOf(model), QStringList({u"a"_s, u"b"_s, u"c"_s}));
}

/// A LockObserver hears of the locks of QML.
void TestQmlLockMetrics::observer()
{
    const auto sums = Support::EventSums::installed();
    {
        Scene scene("DistributedLock { name: 'qml'; server: 'memory:'; active: true }");
        EVENTUALLY_VERIFY(scene.lock()->isHeld());
    }
    EVENTUALLY_VERIFY(sums->differences().isEmpty());
    const auto groups = LockMetrics::snapshot();
    QCOMPARE(groups.size(), 1);
    QCOMPARE(groups.first().group, u"qml"_s);
    QCOMPARE(groups.first().released, 1U);
    LockObserver::remove(sums.get());
}

void TestQmlLockMetrics::engineDestroyedBySlots_data()
{
    Support::addNamedRows<QByteArray>("signal",
                                      {"rowsInserted(QModelIndex,int,int)", "rowsRemoved(QModelIndex,int,int)",
                                       "dataChanged(QModelIndex,QModelIndex,QList<int>)", "activeChanged()",
                                       "intervalChanged()", "countChanged()"});
}

void TestQmlLockMetrics::engineDestroyedBySlots()
{
    QFETCH(QByteArray, signal);
    failIn(u"b"_s);
    QStringList warnings;
    auto engine = QmlTesting::makeEngine(&warnings);
    QPointer<QAbstractItemModel> model;
    {
        QQmlComponent component(engine.get());
        component.setData(QByteArray("import QtQml\nimport QDistLock\n") + PassiveElement, QUrl());
        const std::unique_ptr<QObject> root(component.create());
        model = qobject_cast<QAbstractItemModel *>(root->property("model").value<QObject *>());
    }
    QmlTesting::Deleter deleter(engine.release());
    QVERIFY(connect(model, QByteArray("2" + signal).constData(), &deleter, SLOT(deleteIt())));
    for (const char *const name : {"a", "b", "c"})
        failIn(QString::fromLatin1(name));
    if (signal.startsWith("rowsRemoved"))
        LockMetrics::reset();
    if (signal == "intervalChanged()")
        model->setProperty("interval", 100);
    else
        model->setProperty("active", true);
    QVERIFY(!model);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, TestQmlLockMetrics)

#include "moc_qmltesting.cpp"
#include "tst_qmllockmetrics.moc"
