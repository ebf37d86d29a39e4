// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The QML elements LockMonitorModel and LockMonitorFilter. tst_lockmonitormodel is about what the model reads, and
// when.

#include "qmltesting.h"

#include "support/eventually.h"
#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockMonitorModel>
#include <QDistLock/LockRegistry>

#include <QtCore/qabstractitemmodel.h>
#include <QtCore/qjsonarray.h>
#include <QtCore/qmap.h>
#include <QtCore/qrandom.h>
#include <QtCore/qsortfilterproxymodel.h>
#include <QtGui/qstandarditemmodel.h>
#include <QtTest/qabstractitemmodeltester.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using namespace QDistLock;
using QmlTesting::Deleter;
using QmlTesting::Scene;
using Support::RedisServer;

class TestQmlLockMonitor : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase() { QVERIFY2(m_server.start(), qPrintable(m_server.errorString())); }
    void init() { m_server.command({"FLUSHALL"}); }

    void properties();
    void rows();
    void nothingStartsBeforeComplete();
    void serverChanges();
    void keyPrefixChanges();
    void keyPrefixOfTheApplication();
    void badServer();
    void waiters();
    void forceRelease();
    void noFencingToken_data();
    void noFencingToken();
    void requestsBeforeComplete();
    void requestsWithoutServer();
    void destroyedWithPendingRequests();
    void engineDestroyedWithPendingRequests();
    void deletedBySlots_data();
    void deletedBySlots();

    void filterWithoutModel();
    void filterText();
    void filterStatuses();
    void sorting_data();
    void sorting();
    void sortingByRank();
    void equalRowsAreSortedByName();
    void signalsOfTheFilter();
    void otherModel();
    void filterFollowsItsModel();
    void visibleRows();
    void rowOf();

private:
    QByteArray element(const QByteArray &properties = {}) const
    {
        return "LockMonitorModel { server: \"" + m_server.url().toEncoded() + "\"; interval: 100\n" + properties
                + "}\n";
    }
    QByteArray withFilter(const QByteArray &properties = {}) const
    {
        return "QtObject {\n"
               "    property LockMonitorModel model: "
                + element() + "    property LockMonitorFilter filter: LockMonitorFilter { sourceModel: model\n"
                + properties
                + "}\n"
                  "}";
    }
    /// An object with functions that write what becomes of a promise into `answer`, as JSON.
    static QByteArray withPromises(const QByteArray &model)
    {
        return "QtObject {\n"
               "    property string answer\n"
               "    property LockMonitorModel model: "
                + model
                + "    function show(promise) {\n"
                  "        answer = '';\n"
                  "        promise.then(value => answer = JSON.stringify({ value: value }),\n"
                  "                     reason => answer = JSON.stringify({ error: reason.error, text: reason.message }));\n"
                  "    }\n"
                  "    function waiters(name) { show(model.waiters(name)); }\n"
                  "    function forceRelease(name, token) { show(model.forceRelease(name, token)); }\n"
                  "}";
    }
    static QJsonObject waitForResult(const Scene &scene)
    {
        return Support::EventLoopProbe::waitFor([&] { return !scene.answer().isEmpty(); }) ? scene.result()
                                                                                           : QJsonObject();
    }
    static LockMonitorModel *modelOf(const Scene &scene)
    {
        if (auto *model = qobject_cast<LockMonitorModel *>(scene.root()))
            return model;
        return scene.root() ? scene.root()->property("model").value<LockMonitorModel *>() : nullptr;
    }
    static QSortFilterProxyModel *filterOf(const Scene &scene)
    {
        return scene.root()->property("filter").value<QSortFilterProxyModel *>();
    }
    static QString namesOf(const QAbstractItemModel *model)
    {
        QStringList names;
        for (int row = 0; row < model->rowCount(); ++row)
            names += model->index(row, 0).data(LockMonitorModel::Name).toString();
        return names.join(u' ');
    }
    /// A lock that looks like one of another library; -1: without a time to live.
    void write(const QByteArray &name, int ttl = 600'000)
    {
        QList<QByteArray> command{"SET", "lock:" + name, "foreign"};
        if (ttl > 0)
            command << "PX" << QByteArray::number(ttl);
        QCOMPARE(m_server.command(command).toByteArray(), "OK");
    }

    RedisServer m_server;
};

void TestQmlLockMonitor::properties()
{
    Scene scene(
            "QtObject {\n"
            "    property LockMonitorModel model: LockMonitorModel { server: 'memory:'; pattern: 'a*'; active: false\n"
            "        interval: 5000; budget: 0.5; visibleNames: ['b', 'c'] }\n"
            "    property LockMonitorModel limits: LockMonitorModel { server: 'memory:'; interval: -1 }\n"
            "    property var values\n"
            "    Component.onCompleted: values = [model.server, model.keyPrefix, model.pattern, model.active,\n"
            "        model.interval, model.budget, model.visibleNames, model.count, model.complete, model.problems,\n"
            "        model.load, limits.interval, LockMonitorModel.Readers, LockMonitorModel.Endless,\n"
            "        LockMonitorModel.Deadline]\n"
            "}");
    QVERIFY(scene.root());
    const QVariantList expected{u"memory:"_s,
                                u"lock:"_s,
                                u"a*"_s,
                                false,
                                5000,
                                0.5,
                                QStringList{u"b"_s, u"c"_s},
                                0,
                                false,
                                QStringList(),
                                0,
                                100,
                                int(LockMonitorModel::Readers),
                                int(LockMonitorModel::Endless),
                                int(LockMonitorModel::Deadline)};
    QCOMPARE(scene.root()->property("values").toList(), expected);
    QCOMPARE(modelOf(scene)->interval(), 5s);
    QSignalSpy changed(modelOf(scene), SIGNAL(intervalChanged()));
    modelOf(scene)->setProperty("interval", 200);
    modelOf(scene)->setProperty("interval", 200);
    QCOMPARE(changed.count(), 1);
}

/// As a view sees them: by role names, with values that JavaScript understands.
void TestQmlLockMonitor::rows()
{
    LockRegistry registry(m_server.url());
    DistributedLock held(&registry, u"held"_s);
    held.setOptions(LockOptions().withLease(600s));
    held.acquire();
    EVENTUALLY_VERIFY(held.isHeld());
    write("plain");
    Scene scene("QtObject {\n"
                "    id: root\n"
                "    property LockMonitorModel model: "
                + element()
                + "    property Instantiator rows: Instantiator {\n"
                  "        model: root.model\n"
                  "        delegate: QtObject {\n"
                  "            required property string name\n"
                  "            required property int kind\n"
                  "            required property int status\n"
                  "            required property string holder\n"
                  "            required property var holders\n"
                  "            required property double deadline\n"
                  "            required property int queueLength\n"
                  "            required property double fencingToken\n"
                  "            required property int permits\n"
                  "            required property int permitsTaken\n"
                  "            required property int handOvers\n"
                  "            required property double updated\n"
                  "        }\n"
                  "    }\n"
                  "    property var shown: []\n"
                  "    function show() {\n"
                  "        shown = [];\n"
                  "        for (let i = 0; i < rows.count; ++i) {\n"
                  "            const row = rows.objectAt(i);\n"
                  "            const holder = row.holders[0];\n"
                  "            shown.push([row.name, row.kind, row.status, row.holder, row.holders.length,\n"
                  "                row.deadline > model.now, row.queueLength, row.fencingToken, row.permits,\n"
                  "                row.permitsTaken, row.handOvers, row.updated <= model.now, holder.id, holder.host,\n"
                  "                holder.pid, holder.application, holder.connected, holder.text]);\n"
                  "        }\n"
                  "    }\n"
                  "}");
    QVERIFY(scene.root());
    EVENTUALLY_COMPARE(namesOf(modelOf(scene)), u"held plain"_s);
    QMetaObject::invokeMethod(scene.root(), "show");
    const LockInfo info = modelOf(scene)->index(0).data(LockMonitorModel::Info).value<LockInfo>();
    const QVariantList shown = scene.root()->property("shown").toList();
    QCOMPARE(shown.size(), 2);
    const QVariantList first{u"held"_s,
                             int(LockMonitorModel::Exclusive),
                             int(LockMonitorModel::Held),
                             info.holderText(),
                             1,
                             true,
                             0,
                             double(held.fencingToken()),
                             0,
                             0,
                             0,
                             true,
                             info.holder.id,
                             info.holder.host,
                             double(QCoreApplication::applicationPid()),
                             info.holder.application,
                             true,
                             info.holder.toString()};
    QCOMPARE(shown.at(0).toList(), first);
    QCOMPARE(shown.at(1).toList().at(2), int(LockMonitorModel::Foreign));
    QVERIFY(!modelOf(scene)->roleNames().values().contains("info"));
}

void TestQmlLockMonitor::nothingStartsBeforeComplete()
{
    write("a");
    EVENTUALLY_COMPARE(m_server.connectedClients(), 0);
    Scene scene(element(), false);
    QVERIFY(modelOf(scene));
    for (int turn = 0; turn < 10; ++turn)
        QCoreApplication::processEvents(QEventLoop::AllEvents, 10);
    QVERIFY(!modelOf(scene)->registry());
    QCOMPARE(m_server.connectedClients(), 0);
    scene.complete();
    EVENTUALLY_COMPARE(namesOf(modelOf(scene)), u"a"_s);
}

void TestQmlLockMonitor::serverChanges()
{
    Support::Started<RedisServer> other;
    write("here");
    QCOMPARE(other.command({"SET", "lock:there", "foreign"}).toByteArray(), "OK");
    Scene scene(element());
    LockMonitorModel *const model = modelOf(scene);
    const QAbstractItemModelTester tester(model, QAbstractItemModelTester::FailureReportingMode::QtTest);
    EVENTUALLY_COMPARE(namesOf(model), u"here"_s);
    QSignalSpy changed(model, SIGNAL(serverChanged()));
    model->setProperty("server", m_server.url().toString());
    QCOMPARE(changed.count(), 0);
    QCOMPARE(model->rowCount(), 1);
    model->setProperty("server", other.url().toString());
    QCOMPARE(changed.count(), 1);
    QCOMPARE(model->rowCount(), 0); // nothing of the other server can be released by mistake
    EVENTUALLY_COMPARE(namesOf(model), u"there"_s);
    EVENTUALLY_COMPARE(m_server.connectedClients(), 0);
}

void TestQmlLockMonitor::keyPrefixChanges()
{
    write("a");
    m_server.command({"SET", "app:b", "foreign"});
    Scene scene(element());
    LockMonitorModel *const model = modelOf(scene);
    EVENTUALLY_COMPARE(namesOf(model), u"a"_s);
    QSignalSpy changed(model, SIGNAL(keyPrefixChanged()));
    model->setProperty("keyPrefix", u"app:"_s);
    QCOMPARE(changed.count(), 1);
    QCOMPARE(model->property("keyPrefix").toString(), u"app:"_s);
    EVENTUALLY_COMPARE(namesOf(model), u"b"_s);
    Scene other(element("keyPrefix: 'app:'"));
    EVENTUALLY_COMPARE(namesOf(modelOf(other)), u"b"_s);
}

/// A DistributedLock in QML has the prefix of LockRegistry::instance(), and so has the model.
void TestQmlLockMonitor::keyPrefixOfTheApplication()
{
    Support::Started<RedisServer> server;
    LockRegistry::instance(server.url())->setKeyPrefix(u"shop:"_s);
    const QByteArray url = server.url().toEncoded();
    Scene scene("QtObject {\n"
                "    property DistributedLock lock: DistributedLock { name: 'a'; server: '"
                + url
                + "'; active: true }\n"
                  "    property LockMonitorModel model: LockMonitorModel { server: '"
                + url
                + "' }\n"
                  "}");
    EVENTUALLY_COMPARE(namesOf(modelOf(scene)), u"a"_s);
    QVERIFY(server.exists("shop:a"));
    LockMonitorModel *const model = modelOf(scene);
    QCOMPARE(model->property("keyPrefix").toString(), u"shop:"_s);
    QSignalSpy changed(model, SIGNAL(keyPrefixChanged()));
    QSignalSpy removed(model, &QAbstractItemModel::rowsRemoved);
    model->setProperty("keyPrefix", u"shop:"_s);
    QCOMPARE(removed.count() + changed.count(), 0);
    model->setProperty("keyPrefix", u"other:"_s);
    QCOMPARE(changed.count(), 1);
    QCOMPARE(removed.count(), 1);
    model->setProperty("keyPrefix", QVariant()); // as keyPrefix: undefined
    QCOMPARE(changed.count(), 2);
    QCOMPARE(model->property("keyPrefix").toString(), u"shop:"_s);
    EVENTUALLY_COMPARE(namesOf(model), u"a"_s);
}

void TestQmlLockMonitor::badServer()
{
    Scene scene("LockMonitorModel { server: 'nonsense://host' }");
    LockMonitorModel *const model = modelOf(scene);
    EVENTUALLY_VERIFY(model->problems().join(u' ').contains(u"nonsense"));
    QVERIFY(!model->isComplete());
    write("a");
    model->setProperty("server", m_server.url().toString());
    EVENTUALLY_COMPARE(namesOf(model), u"a"_s);
    EVENTUALLY_VERIFY(model->isComplete() && model->problems().isEmpty());
}

void TestQmlLockMonitor::waiters()
{
    LockRegistry registry(m_server.url());
    DistributedLock holder(&registry, u"a"_s);
    holder.acquire();
    EVENTUALLY_VERIFY(holder.isHeld());
    std::vector<std::unique_ptr<DistributedLock>> waiting;
    for (int i = 0; i < 2; ++i) {
        waiting.push_back(std::make_unique<DistributedLock>(&registry, u"a"_s));
        waiting.back()->acquire();
        EVENTUALLY_COMPARE(waiting.back()->queuePosition(), i);
    }
    Scene scene(withPromises(element()));
    EVENTUALLY_COMPARE(modelOf(scene)->index(0).data(LockMonitorModel::QueueLength).toInt(), 2);
    QJsonArray list;
    const auto ask = [&] {
        QMetaObject::invokeMethod(scene.root(), "waiters", Q_ARG(QVariant, u"a"_s));
        list = waitForResult(scene).value("value"_L1).toArray();
        return list.first().toObject().value("waited"_L1).toInt();
    };
    EVENTUALLY_VERIFY(ask() > 0);
    QCOMPARE(list.size(), 2);
    for (int i = 0; i < 2; ++i) {
        const QJsonObject waiter = list.at(i).toObject();
        QCOMPARE(waiter.value("position"_L1).toInt(-1), i);
        QVERIFY(waiter.contains("waited"_L1));
        const QJsonObject client = waiter.value("client"_L1).toObject();
        QCOMPARE(client.value("pid"_L1).toInteger(), QCoreApplication::applicationPid());
        QVERIFY(client.value("connected"_L1).toBool());
        QVERIFY(client.value("text"_L1).toString().contains(u"pid"));
    }
    QMetaObject::invokeMethod(scene.root(), "waiters", Q_ARG(QVariant, u"nobody"_s));
    QCOMPARE(waitForResult(scene).value("value"_L1), QJsonValue(QJsonArray()));
    QMetaObject::invokeMethod(scene.root(), "waiters", Q_ARG(QVariant, QString()));
    QCOMPARE(waitForResult(scene).value("error"_L1).toInt(), int(DistributedLock::NameError));
}

/// Never from the next holder.
void TestQmlLockMonitor::forceRelease()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"a"_s);
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());
    Scene scene(withPromises(element()));
    const LockMonitorModel *const model = modelOf(scene);
    EVENTUALLY_COMPARE(model->rowCount(), 1);
    const auto shownToken = [&] { return model->index(0).data(LockMonitorModel::FencingToken).toDouble(); };
    const double former = shownToken();
    QCOMPARE(former, double(lock.fencingToken()));
    lock.release();
    EVENTUALLY_COMPARE(lock.state(), DistributedLock::Unlocked);
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());

    QMetaObject::invokeMethod(scene.root(), "forceRelease", Q_ARG(QVariant, u"a"_s), Q_ARG(QVariant, former));
    QCOMPARE(waitForResult(scene).value("value"_L1), QJsonValue(false));
    QVERIFY(m_server.exists("lock:a"));
    QVERIFY(lock.isHeld());

    EVENTUALLY_COMPARE(shownToken(), double(lock.fencingToken()));
    QSignalSpy lost(&lock, &DistributedLock::lost);
    QMetaObject::invokeMethod(scene.root(), "forceRelease", Q_ARG(QVariant, u"a"_s), Q_ARG(QVariant, shownToken()));
    QCOMPARE(waitForResult(scene).value("value"_L1), QJsonValue(true));
    QVERIFY(!m_server.exists("lock:a"));
    EVENTUALLY_COMPARE(lost.count(), 1);
}

void TestQmlLockMonitor::noFencingToken_data()
{
    Support::addRows<QVariant>("token",
                               {{"undefined", QVariant()},
                                {"zero", 0},
                                {"negative", -1},
                                {"no number", u"x"_s},
                                {"infinite", qInf()},
                                {"too large", 1e18}});
}

void TestQmlLockMonitor::noFencingToken()
{
    QFETCH(QVariant, token);
    write("a");
    Scene scene(withPromises(element()));
    QMetaObject::invokeMethod(scene.root(), "forceRelease", Q_ARG(QVariant, u"a"_s), Q_ARG(QVariant, token));
    const QJsonObject result = waitForResult(scene);
    QCOMPARE(result.value("error"_L1).toInt(), int(DistributedLock::OptionsError));
    QVERIFY2(result.value("text"_L1).toString().contains(u"no fencing token"), qPrintable(scene.answer()));
    QVERIFY(m_server.exists("lock:a"));
}

void TestQmlLockMonitor::requestsBeforeComplete()
{
    write("a");
    Scene scene(withPromises(element()), false);
    QMetaObject::invokeMethod(scene.root(), "waiters", Q_ARG(QVariant, u"a"_s));
    QCOMPARE(waitForResult(scene).value("error"_L1).toInt(), int(DistributedLock::OptionsError));
    QMetaObject::invokeMethod(scene.root(), "forceRelease", Q_ARG(QVariant, u"a"_s), Q_ARG(QVariant, 7));
    const QJsonObject result = waitForResult(scene);
    QVERIFY2(result.value("text"_L1).toString().contains(u"not complete"), qPrintable(scene.answer()));
    scene.complete();
    EVENTUALLY_COMPARE(namesOf(modelOf(scene)), u"a"_s);
}

void TestQmlLockMonitor::requestsWithoutServer()
{
    Support::Started<RedisServer> server;
    const QByteArray url = server.url().toEncoded();
    Scene scene(withPromises("LockMonitorModel { server: '" + url + "' }\n"));
    EVENTUALLY_VERIFY(modelOf(scene)->isComplete());
    server.stop();
    QMetaObject::invokeMethod(scene.root(), "waiters", Q_ARG(QVariant, u"a"_s));
    QCOMPARE(waitForResult(scene).value("error"_L1).toInt(), int(DistributedLock::ConnectionError));
    QMetaObject::invokeMethod(scene.root(), "forceRelease", Q_ARG(QVariant, u"a"_s), Q_ARG(QVariant, 7));
    QCOMPARE(waitForResult(scene).value("error"_L1).toInt(), int(DistributedLock::ConnectionError));
}

void TestQmlLockMonitor::destroyedWithPendingRequests()
{
    Support::Started<RedisServer> server;
    Scene scene(withPromises("LockMonitorModel { server: '" + server.url().toEncoded() + "' }\n"));
    EVENTUALLY_VERIFY(modelOf(scene)->isComplete());
    server.pause();
    QMetaObject::invokeMethod(scene.root(), "waiters", Q_ARG(QVariant, u"a"_s));
    delete modelOf(scene);
    const QJsonObject result = waitForResult(scene);
    QVERIFY2(result.value("error"_L1).toInt() != 0, qPrintable(scene.answer()));
    QVERIFY2(!result.value("text"_L1).toString().isEmpty(), qPrintable(scene.answer()));
}

void TestQmlLockMonitor::engineDestroyedWithPendingRequests()
{
    Support::Started<RedisServer> server;
    Scene scene(withPromises("LockMonitorModel { server: '" + server.url().toEncoded() + "' }\n"));
    EVENTUALLY_VERIFY(modelOf(scene)->isComplete());
    server.pause();
    QMetaObject::invokeMethod(scene.root(), "waiters", Q_ARG(QVariant, u"a"_s));
    const QPointer<QObject> root = scene.root();
    scene.destroyEngine();
    server.resume();
    delete root;
    EVENTUALLY_COMPARE(server.connectedClients(), 0);
}

void TestQmlLockMonitor::deletedBySlots_data()
{
    Support::addNamedRows<QByteArray>("signal",
                                      {"rowsInserted(QModelIndex,int,int)", "rowsRemoved(QModelIndex,int,int)",
                                       "dataChanged(QModelIndex,QModelIndex,QList<int>)", "serverChanged()",
                                       "keyPrefixChanged()", "countChanged()", "problemsChanged()",
                                       "intervalChanged()"});
}

void TestQmlLockMonitor::deletedBySlots()
{
    QFETCH(QByteArray, signal);
    write("a");
    Scene scene(withPromises(element()));
    const QPointer<LockMonitorModel> model = modelOf(scene);
    if (!signal.startsWith("rowsInserted"))
        EVENTUALLY_COMPARE(model->rowCount(), 1);
    Deleter deleter(model);
    QVERIFY(connect(model, QByteArray("2" + signal).constData(), &deleter, SLOT(deleteIt())));
    if (signal.startsWith("dataChanged"))
        EVENTUALLY_VERIFY(!model);
    for (const char *const property : {"interval", "keyPrefix", "server"}) {
        if (model && !signal.startsWith("rowsInserted"))
            model->setProperty(property, property == "interval"_ba ? QVariant(5000) : u"nonsense:"_s);
    }
    EVENTUALLY_VERIFY(!model);
    EVENTUALLY_COMPARE(m_server.connectedClients(), 0);
}

void TestQmlLockMonitor::filterWithoutModel()
{
    write("a");
    Scene scene(
            "QtObject {\n"
            "    property LockMonitorModel model: "
            + element()
            + "    property LockMonitorFilter filter: LockMonitorFilter { filterText: 'a'; statuses: [1]; sortOrder: Qt.DescendingOrder\n"
              "        sortRole: LockMonitorModel.Status }\n"
              "    property var values: [filter.count, filter.rowOf('a')]\n"
              "}");
    QVERIFY(scene.root());
    QSortFilterProxyModel *const filter = filterOf(scene);
    const QVariantList none{0, -1};
    QCOMPARE(scene.root()->property("values").toList(), none);
    filter->setProperty("statuses", QVariant::fromValue(QList<int>()));
    QSignalSpy counted(filter, SIGNAL(countChanged()));
    EVENTUALLY_COMPARE(modelOf(scene)->rowCount(), 1);
    filter->setSourceModel(modelOf(scene));
    QCOMPARE(namesOf(filter), u"a"_s);
    QCOMPARE(counted.count(), 1);
    delete modelOf(scene);
    QCOMPARE(filter->rowCount(), 0);
    QCOMPARE(filter->property("count").toInt(), 0);
    QCOMPARE(counted.count(), 2);
}

void TestQmlLockMonitor::filterText()
{
    LockRegistry registry(m_server.url());
    DistributedLock held(&registry, u"mine"_s);
    held.acquire();
    EVENTUALLY_VERIFY(held.isHeld());
    write("Order:12");
    write("order:13");
    Scene scene(withFilter("filterText: 'ORDER'"));
    QSortFilterProxyModel *const filter = filterOf(scene);
    const QAbstractItemModelTester tester(filter, QAbstractItemModelTester::FailureReportingMode::QtTest);
    EVENTUALLY_COMPARE(namesOf(filter), u"Order:12 order:13"_s);
    QSignalSpy textChanged(filter, SIGNAL(filterTextChanged()));
    QSignalSpy countChanged(filter, SIGNAL(countChanged()));
    filter->setProperty("filterText", u"r:13"_s);
    QCOMPARE(namesOf(filter), u"order:13"_s);
    filter->setProperty("filterText", QString::number(QCoreApplication::applicationPid())); // the holder
    EVENTUALLY_COMPARE(namesOf(filter), u"mine"_s);
    filter->setProperty("filterText", u"nothing like it"_s);
    QCOMPARE(filter->property("count").toInt(), 0);
    filter->setProperty("filterText", QString());
    QCOMPARE(filter->property("count").toInt(), 3);
    QCOMPARE(textChanged.count(), 4);
    QVERIFY(countChanged.count() >= 3);
}

void TestQmlLockMonitor::filterStatuses()
{
    write("endless", -1);
    write("foreign");
    Scene scene(withFilter("statuses: [LockMonitorModel.Endless, LockMonitorModel.Disconnected]"));
    QSortFilterProxyModel *const filter = filterOf(scene);
    const QAbstractItemModelTester tester(filter, QAbstractItemModelTester::FailureReportingMode::QtTest);
    EVENTUALLY_COMPARE(namesOf(filter), u"endless"_s);
    write("foreign", -1);
    EVENTUALLY_COMPARE(namesOf(filter), u"endless foreign"_s);
    write("endless");
    EVENTUALLY_COMPARE(namesOf(filter), u"foreign"_s);
    filter->setProperty("statuses", QVariant::fromValue(QList<int>()));
    QCOMPARE(namesOf(filter), u"endless foreign"_s);
}

void TestQmlLockMonitor::sorting_data()
{
    QTest::addColumn<int>("role");
    QTest::addColumn<QString>("ascending");
    QTest::addColumn<QString>("descending");
    QTest::newRow("name") << int(LockMonitorModel::Name) << u"a B c d"_s << u"d c B a"_s;
    QTest::newRow("deadline") << int(LockMonitorModel::Deadline) << u"c B d a"_s << u"a d B c"_s;
    QTest::newRow("fencing token") << int(LockMonitorModel::FencingToken) << u"B a c d"_s << u"d B a c"_s;
    QTest::newRow("queue") << int(LockMonitorModel::QueueLength) << u"B a c d"_s << u"B a c d"_s;
    QTest::newRow("no role") << 7 << u"B a c d"_s << u"B a c d"_s;
}

void TestQmlLockMonitor::sorting()
{
    QFETCH(int, role);
    QFETCH(QString, ascending);
    QFETCH(QString, descending);
    LockRegistry registry(m_server.url());
    DistributedLock held(&registry, u"d"_s);
    held.setOptions(LockOptions().withLease(900s));
    held.acquire();
    EVENTUALLY_VERIFY(held.isHeld());
    write("a", -1);
    write("B", 800'000);
    write("c", 700'000);
    Scene scene(withFilter("sortRole: " + QByteArray::number(role)));
    QSortFilterProxyModel *const filter = filterOf(scene);
    const QAbstractItemModelTester tester(filter, QAbstractItemModelTester::FailureReportingMode::QtTest);
    EVENTUALLY_COMPARE(namesOf(filter), ascending);
    QSignalSpy changed(filter, SIGNAL(sortOrderChanged()));
    filter->setProperty("sortOrder", int(Qt::DescendingOrder));
    QCOMPARE(namesOf(filter), descending);
    QCOMPARE(changed.count(), 1);
    filter->setProperty("sortOrder", int(Qt::AscendingOrder));
    filter->setProperty("sortRole", int(LockMonitorModel::Name));
    QCOMPARE(namesOf(filter), u"a B c d"_s);
}

/// Of each status and each kind, from a model that has them all.
void TestQmlLockMonitor::sortingByRank()
{
    using Model = LockMonitorModel;
    QStandardItemModel source;
    const auto add = [&](const QString &name, int status, int kind) {
        auto *const item = new QStandardItem;
        item->setData(name, Model::Name);
        item->setData(status, Model::Status);
        item->setData(kind, Model::Kind);
        source.appendRow(item);
    };
    add(u"free"_s, Model::Free, Model::Readers);
    add(u"held"_s, Model::Held, Model::Permitted);
    add(u"expiring"_s, Model::Expiring, Model::Exclusive);
    add(u"disconnected"_s, Model::Disconnected, Model::Exclusive);
    add(u"foreign"_s, Model::Foreign, Model::Exclusive);
    add(u"endless"_s, Model::Endless, Model::Readers);
    Scene scene(withFilter("sortRole: LockMonitorModel.Status"));
    QSortFilterProxyModel *const filter = filterOf(scene);
    filter->setSourceModel(&source);
    QCOMPARE(namesOf(filter), u"disconnected endless expiring foreign held free"_s);
    filter->setSortRole(Model::Kind);
    QCOMPARE(namesOf(filter), u"expiring disconnected foreign free endless held"_s);
    filter->setProperty("filterText", u"n"_s);
    filter->setProperty("statuses", QVariant::fromValue(QList<int>{Model::Foreign, Model::Disconnected, Model::Held}));
    QCOMPARE(namesOf(filter), u"disconnected foreign"_s);
}

void TestQmlLockMonitor::equalRowsAreSortedByName()
{
    for (const char *const name : {"d", "b", "f"})
        write(name);
    Scene scene(withFilter("sortRole: LockMonitorModel.Status"));
    QSortFilterProxyModel *const filter = filterOf(scene);
    EVENTUALLY_COMPARE(namesOf(filter), u"b d f"_s);
    write("a");
    write("e");
    EVENTUALLY_COMPARE(namesOf(filter), u"a b d e f"_s);
    filter->setProperty("sortOrder", int(Qt::DescendingOrder));
    QCOMPARE(namesOf(filter), u"a b d e f"_s);
    write("c");
    write("g");
    EVENTUALLY_COMPARE(namesOf(filter), u"a b c d e f g"_s);
}

/// Locks come, go, and change their status, while the rows are sorted by that.
void TestQmlLockMonitor::filterFollowsItsModel()
{
    Scene scene(withFilter("sortRole: LockMonitorModel.Status; statuses: [LockMonitorModel.Foreign,\n"
                           "LockMonitorModel.Endless]"));
    QSortFilterProxyModel *const filter = filterOf(scene);
    const QAbstractItemModelTester tester(filter, QAbstractItemModelTester::FailureReportingMode::QtTest);
    QRandomGenerator random(36);
    QMap<QByteArray, bool> locks; // and whether they have no time to live
    for (int round = 0; round < 20; ++round) {
        for (int change = 0; change < 10; ++change) {
            const QByteArray name = "n" + QByteArray::number(random.bounded(100, 140));
            if (random.bounded(3) == 0) {
                m_server.command({"DEL", "lock:" + name});
                locks.remove(name);
            } else {
                locks[name] = random.bounded(2) == 0;
                write(name, locks.value(name) ? -1 : 600'000);
            }
        }
        QStringList expected;
        for (const bool isEndless : {true, false}) {
            for (const QByteArray &name : locks.keys(isEndless))
                expected += QString::fromLatin1(name);
        }
        EVENTUALLY_COMPARE(namesOf(filter), expected.join(u' '));
        QCOMPARE(filter->property("count").toInt(), expected.size());
    }
}

/// One for each change, and none without.
void TestQmlLockMonitor::signalsOfTheFilter()
{
    Scene scene(withFilter());
    QSortFilterProxyModel *const filter = filterOf(scene);
    const auto count = [&](const QByteArray &property, const QVariant &value) {
        QSignalSpy changed(filter, QByteArray("2" + property + "Changed()").constData());
        filter->setProperty(property.constData(), value);
        filter->setProperty(property.constData(), value);
        return changed.count();
    };
    QCOMPARE(count("filterText", u"x"_s), 1);
    QCOMPARE(count("statuses", QVariant::fromValue(QList<int>{1})), 1);
    QCOMPARE(count("sortOrder", int(Qt::DescendingOrder)), 1);
    QCOMPARE(count("firstVisible", 3), 1);
    QCOMPARE(count("lastVisible", 3), 1);
}

/// The end of a former model does not matter.
void TestQmlLockMonitor::otherModel()
{
    write("a");
    Scene scene(withFilter("firstVisible: 0; lastVisible: 9"));
    QSortFilterProxyModel *const filter = filterOf(scene);
    EVENTUALLY_COMPARE(modelOf(scene)->visibleNames(), QStringList{u"a"_s});
    LockRegistry registry(m_server.url());
    LockMonitorModel other(&registry);
    EVENTUALLY_COMPARE(other.count(), 1);
    filter->setSourceModel(&other);
    EVENTUALLY_COMPARE(other.visibleNames(), QStringList{u"a"_s});
    QCOMPARE(modelOf(scene)->visibleNames(), QStringList());
    delete modelOf(scene);
    QCOMPARE(namesOf(filter), u"a"_s);
    filter->setProperty("firstVisible", -1);
    EVENTUALLY_COMPARE(other.visibleNames(), QStringList());
    filter->setProperty("firstVisible", 0);
    EVENTUALLY_COMPARE(other.visibleNames(), QStringList{u"a"_s});
    delete filter;
    QCOMPARE(other.visibleNames(), QStringList());
}

/// The model knows which locks are on the screen, also after other rows came, went, or were sorted.
void TestQmlLockMonitor::visibleRows()
{
    for (const char *const name : {"a", "b", "c", "d"})
        write(name);
    Scene scene(withFilter());
    QSortFilterProxyModel *const filter = filterOf(scene);
    const auto visible = [&] { return modelOf(scene)->visibleNames().join(u' '); };
    modelOf(scene)->setVisibleNames({u"x"_s});
    EVENTUALLY_COMPARE(namesOf(filter), u"a b c d"_s);
    filter->setProperty("lastVisible", 2);
    QCoreApplication::processEvents();
    QCOMPARE(visible(), u"x"_s);
    filter->setProperty("firstVisible", 1);
    EVENTUALLY_COMPARE(visible(), u"b c"_s);
    QSignalSpy changed(modelOf(scene), &LockMonitorModel::visibleNamesChanged);
    filter->setProperty("firstVisible", 0);
    filter->setProperty("lastVisible", 0);
    filter->setProperty("firstVisible", 1);
    filter->setProperty("lastVisible", 2);
    filter->setProperty("sortOrder", int(Qt::DescendingOrder));
    EVENTUALLY_COMPARE(visible(), u"c b"_s);
    QCOMPARE(changed.count(), 1);
    write("cc");
    EVENTUALLY_COMPARE(visible(), u"cc c"_s);
    m_server.command({"DEL", "lock:d"});
    EVENTUALLY_COMPARE(visible(), u"c b"_s);
    filter->setProperty("filterText", u"c"_s);
    EVENTUALLY_COMPARE(visible(), u"c"_s);
    filter->setProperty("filterText", QString());
    filter->setProperty("firstVisible", 0);
    filter->setProperty("lastVisible", 100);
    EVENTUALLY_COMPARE(visible(), u"cc c b a"_s);
    filter->setProperty("lastVisible", -1); // a view without rows
    EVENTUALLY_COMPARE(visible(), QString());
}

/// So that a view finds its current lock again.
void TestQmlLockMonitor::rowOf()
{
    for (const char *const name : {"a", "b", "c"})
        write(name);
    Scene scene(withFilter("sortOrder: Qt.DescendingOrder\n"
                           "property var answers\n"
                           "function ask() { answers = [rowOf('a'), rowOf('b'), rowOf('A'), rowOf('')] }\n"));
    QSortFilterProxyModel *const filter = filterOf(scene);
    EVENTUALLY_COMPARE(namesOf(filter), u"c b a"_s);
    QMetaObject::invokeMethod(filter, "ask");
    const QVariantList expected{2, 1, -1, -1};
    QCOMPARE(filter->property("answers").toList(), expected);
}

QDISTLOCK_TEST_MAIN(QCoreApplication, TestQmlLockMonitor)

#include "moc_qmltesting.cpp"
#include "tst_qmllockmonitor.moc"
