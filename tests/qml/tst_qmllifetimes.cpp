// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/redisserver.h"
#include "support/rows.h"

#include <QDistLock/Annotations>
#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qeventloop.h>
#include <QtCore/qpointer.h>
#include <QtCore/qtimer.h>
#include <QtGui/qguiapplication.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQml/qqmlcontext.h>
#include <QtQml/qqmlengine.h>
#include <QtQuick/qquickitem.h>
#include <QtQuick/qquickwindow.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <algorithm>
#include <memory>
#include <vector>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using Support::RedisServer;

namespace {

constexpr int Patience = 60000;

/// C++ functions that QML handlers call.
class Helper : public QObject
{
    Q_OBJECT

public:
    using QObject::QObject;

    /// Runs a nested event loop, as a dialog does.
    Q_INVOKABLE void nest()
    {
        QEventLoop loop;
        QTimer::singleShot(50, &loop, &QEventLoop::quit);
        loop.exec();
    }
    /// Runs a nested event loop in which the code of a dialog acquires the lock.
    Q_INVOKABLE void acquireAndWait(QObject *object)
    {
        auto *const lock = qobject_cast<DistributedLock *>(object);
        lock->acquire();
        QEventLoop loop;
        QObject::connect(lock, &DistributedLock::acquired, &loop, &QEventLoop::quit);
        QTimer::singleShot(Patience, &loop, &QEventLoop::quit);
        loop.exec();
    }
    Q_INVOKABLE void endEngine() { Q_EMIT engineEnds(); }

Q_SIGNALS:
    void engineEnds();
};

/// A receiver with an annotated method.
class Receiver : public QObject
{
    Q_OBJECT
    QDL_LOCKED_METHOD(run, "{name}")

public:
    using QObject::QObject;

    Q_INVOKABLE QString run(const QString &name) { return name; }
};

/// One component in a separate engine. `entered` becomes true when the handler under test is called.
class Scene
{
public:
    Scene(const QByteArray &title, const QByteArray &qml, QStringList *warnings)
        : m_title(title)
        , m_helper(std::make_unique<Helper>())
        , m_receiver(std::make_unique<Receiver>())
        , m_engine(std::make_unique<QQmlEngine>())
    {
        m_engine->addImportPath(QStringLiteral(QML_MODULE_DIR));
        m_engine->rootContext()->setContextProperty(u"helper"_s, m_helper.get());
        m_engine->rootContext()->setContextProperty(u"receiver"_s, m_receiver.get());
        QObject::connect(m_engine.get(), &QQmlEngine::warnings, m_helper.get(),
                         [title, warnings](const QList<QQmlError> &errors) {
                             for (const QQmlError &error : errors)
                                 *warnings += QString::fromUtf8(title) + u": "_s + error.toString();
                         });
        QObject::connect(
                m_helper.get(), &Helper::engineEnds, m_helper.get(), [this] { m_engine.reset(); },
                Qt::QueuedConnection);
        QQmlComponent component(m_engine.get());
        component.setData("import QtQuick\nimport QDistLock\n" + qml, QUrl());
        m_root.reset(component.create());
        if (!m_root)
            qFatal("%s: %s\n%s", title.constData(), qPrintable(component.errorString()), qml.constData());
    }
    ~Scene()
    {
        m_root.reset();
        m_engine.reset();
    }

    QByteArray title() const { return m_title; }
    QObject *root() const { return m_root.get(); }
    /// False, too, if the engine was destroyed.
    bool entered() const { return !m_engine || m_root->property("entered").toBool(); }
    /// Must be called from the event loop, because Qt defers deletions to the loop in which they were requested.
    void start() { QMetaObject::invokeMethod(m_root.get(), "start", Qt::QueuedConnection); }

private:
    QByteArray m_title;
    std::unique_ptr<Helper> m_helper;
    std::unique_ptr<Receiver> m_receiver;
    std::unique_ptr<QQmlEngine> m_engine;
    std::unique_ptr<QObject> m_root;
};

} // namespace

/*!
    The handlers of all signals and promises do what may end, replace or disturb the object that calls them. Afterwards
    nothing is left on the server, and a lock beside them, on the same connection, is still held, and the next one is
    served. Most of what these find only AddressSanitizer can see.
*/
class TestQmlLifetimes : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void handlersOfALock_data() { addRows(deedsOf(Element::Lock)); }
    void handlersOfALock();
    void acquiredInALoopInOnLost();
    void handlersOfAnAction_data() { addRows(deedsOf(Element::Action)); }
    void handlersOfAnAction();
    void actionOfADelegate_data();
    void actionOfADelegate();
    void handlersOfAStatus_data();
    void handlersOfAStatus();
    void statusOfAnotherLockInOnLost();
    void twoStatusesOfOneLock();
    void movedBetweenWindows();
    void manyLocksLostAtOnce();

private:
    /// What calls the handler: the scene alone, the time, the renewal of the lock, or its loss.
    enum class Trigger { None, Time, Renewed, Lost };
    struct Row
    {
        const char *handler; ///< a handler of the element, or "then", "catch" and the like for its promise
        const char *properties;
        const char *start;
        Trigger trigger = Trigger::None;
    };
    struct Deed
    {
        QByteArray name;
        QByteArray code;
    };
    enum class Element { Lock, Action };
    static QList<Deed> deedsOf(Element element);
    static void addRows(const QList<Deed> &deeds);
    void run(const std::vector<Row> &rows, const QByteArray &element, const QList<Deed> &deeds);
    void takeAway(const QList<QByteArray> &keys);
    void endConnections();
    QByteArray url() const { return m_server.url().toEncoded(); }

    RedisServer m_server;
    QStringList m_warnings;
    std::unique_ptr<LockRegistry> m_registry;
    std::unique_ptr<DistributedLock> m_bystander;
};

void TestQmlLifetimes::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    LockRegistry::setDefaultServer(m_server.url());
}

void TestQmlLifetimes::init()
{
    m_warnings.clear();
    m_bystander = std::make_unique<DistributedLock>(LockRegistry::instance(m_server.url()), u"bystander"_s);
    m_bystander->setLease(std::chrono::minutes(10)); // no pause of the machine ends it
    m_bystander->setWaitTime(std::chrono::milliseconds(Patience));
    m_bystander->acquire();
    QTRY_VERIFY_WITH_TIMEOUT(m_bystander->isHeld(), Patience);
}

/// Checks that no key is left on the server, and that other locks were not disturbed.
void TestQmlLifetimes::cleanup()
{
    QVERIFY(m_bystander->isHeld());
    DistributedLock served(LockRegistry::instance(m_server.url()), u"served"_s);
    served.setWaitTime(std::chrono::milliseconds(Patience));
    served.acquire();
    QTRY_VERIFY_WITH_TIMEOUT(served.isHeld(), Patience);
    served.release();
    m_bystander.reset();
    QTRY_COMPARE_WITH_TIMEOUT(m_server.keys("lock:*") + m_server.keys("*:queue*"), QList<QByteArray>(), Patience);
    QVERIFY2(m_warnings.isEmpty(), qPrintable(m_warnings.join(u'\n')));
}

/// In the actions, `it` is the object whose handler is called.
QList<TestQmlLifetimes::Deed> TestQmlLifetimes::deedsOf(Element element)
{
    QList<Deed> deeds;
    const auto add = [&deeds](const char *name, const char *code) { deeds.append(Deed{name, code}); };
    add("unload", "loader.active = false;");
    add("reload", "loader.active = false; loader.active = true;");
    add("unload later", "Qt.callLater(() => { loader.active = false; });");
    add("destroy",
        "loader.active = false; root.made = loader.sourceComponent.createObject(root);\n"
        "root.made.destroy();");
    add("rename", "if (it.name) it.name += 'x'; else if (it.lock) it.lock.name += 'x';");
    add("another server", "(it.server === undefined ? it.lock : it).server = 'memory:lifetimes';");
    add("calls",
        "const lock = it.lock ?? it; lock.acquire(); lock.tryAcquire(); lock.release();\n"
        "lock.cancel(); lock.forceRelease().catch(() => {}); lock.acquire();");
    add("nested loop", "helper.nest();");
    add("unload, nested loop", "loader.active = false; helper.nest();");
    add("rename, nested loop", "(it.lock ?? it).name += 'z'; helper.nest();");
    add("end the engine", "helper.endEngine();");
    add("collect garbage", "loader.active = false; gc(); Qt.callLater(gc);");
    if (element == Element::Action)
        return deeds; // LockedAction sets `active` of its lock itself
    add("toggle", "const lock = it.lock ?? it; lock.active = !lock.active;");
    add("toggle twice",
        "const lock = it.lock ?? it; lock.active = !lock.active;\n"
        "lock.active = !lock.active;");
    add("all at once",
        "const lock = it.lock ?? it; lock.active = !lock.active; lock.name += 'y';\n"
        "lock.server = 'memory:lifetimes'; lock.lease = 900; lock.fair = !lock.fair;");
    return deeds;
}

/// Several in each row, because a test of one mostly waits.
void TestQmlLifetimes::addRows(const QList<Deed> &deeds)
{
    QTest::addColumn<QList<Deed>>("deeds");
    constexpr qsizetype Rows = 3;
    for (qsizetype row = 0; row < Rows; ++row) {
        QList<Deed> part;
        QByteArrayList names;
        for (qsizetype i = row; i < deeds.size(); i += Rows) {
            part.append(deeds.at(i));
            names.append(deeds.at(i).name);
        }
        QTest::newRow(names.join("; ").constData()) << part;
    }
}

/// Takes these locks away, and lets their holders notice that. Does nothing if that was done.
void TestQmlLifetimes::takeAway(const QList<QByteArray> &keys)
{
    if (m_server.command(QList<QByteArray>{"DEL"} + keys).toInt() > 0)
        endConnections();
}

/// The clients connect again, and renew their locks at once, to learn whether they still hold them.
void TestQmlLifetimes::endConnections()
{
    m_server.command({"CLIENT", "KILL", "TYPE", "normal"});
}

/// Runs one scene for each row and deed, all at the same time. \a element contains HANDLER where the handler is
/// inserted.
void TestQmlLifetimes::run(const std::vector<Row> &rows, const QByteArray &element, const QList<Deed> &deeds)
{
    std::vector<std::unique_ptr<Scene>> scenes;
    std::vector<QByteArray> keys;
    for (size_t i = 0; i < rows.size() * size_t(deeds.size()); ++i) {
        const Row &row = rows[i % rows.size()];
        const Deed &deed = deeds.at(qsizetype(i / rows.size()));
        const QByteArray name = "lifetime" + QByteArray::number(int(scenes.size()));
        const QByteArray start = row.start;
        const bool busy = QByteArray(row.properties).contains("/*busy*/");
        keys.push_back("lock:" + name);
        if (busy)
            QCOMPARE(m_server.command({"SET", keys.back(), "foreign"}).toByteArray(), "OK"_ba);
        QByteArray inner = element;
        inner.replace("NAME", name).replace("SERVER", url());
        inner.replace("WORK", QByteArray(row.properties).contains("work:") ? "" : "work: () => 1");
        // A lease that no pause of the machine ends, and a wait that none uses up.
        inner.replace("LEASE", QByteArray(row.properties).contains("lease:") ? "" : "lease: 600000");
        inner.replace("WAIT", QByteArray(row.properties).contains("wait:") ? "" : "wait: 60000");
        inner.replace("PROPERTIES", row.properties);
        inner.replace("HANDLER",
                      QByteArray(row.handler).startsWith("on") ? row.handler + QByteArray(": root.act(it)")
                                                               : QByteArray());
        scenes.push_back(std::make_unique<Scene>(deed.name + ": " + row.handler + " " + row.start,
                                                 "Item {\n"
                                                 "    id: root\n"
                                                 "    property bool armed\n"
                                                 "    property bool entered\n"
                                                 "    property var made\n"
                                                 "    function act(it) {\n"
                                                 "        if (!armed || entered)\n"
                                                 "            return;\n"
                                                 "        entered = true;\n"
                                                 "        "
                                                         + deed.code
                                                         + "\n"
                                                           "    }\n"
                                                           "    function start() { if (entered || !loader.item) "
                                                           "return; const it = loader.item.it; armed = true; "
                                                         + start
                                                         + " }\n"
                                                           "    Loader {\n"
                                                           "        id: loader\n"
                                                           "        sourceComponent: Component {\n"
                                                           "            Item {\n"
                                                           "                property alias it: it\n"
                                                         + inner
                                                         + "            }\n"
                                                           "        }\n"
                                                           "    }\n"
                                                           "}\n",
                                                 &m_warnings));
    }
    const auto isHeld = [&](size_t i) {
        const auto locks = scenes[i]->root()->findChildren<DistributedLock *>();
        return std::any_of(locks.begin(), locks.end(), [&](const DistributedLock *lock) {
            return lock->isHeld() && "lock:" + lock->name().toUtf8() == keys[i];
        });
    };
    const auto missing = [&](bool inTime) {
        QByteArrayList titles;
        QList<QByteArray> toTake;
        bool isReady = true; // everything else has happened, which the ends of connections would disturb
        for (size_t i = 0; i < scenes.size(); ++i) {
            const Row &row = rows[i % rows.size()];
            if ((row.trigger == Trigger::Time) != inTime || scenes[i]->entered())
                continue;
            titles += scenes[i]->title();
            if (row.trigger == Trigger::None || !isHeld(i))
                isReady = false;
            else if (row.trigger == Trigger::Lost)
                toTake += keys[i];
            // Trigger the action again if its lock was deleted before its work began.
            if (row.trigger == Trigger::Lost && !isHeld(i) && QByteArray(row.start) == "it.trigger();")
                scenes[i]->start();
        }
        if (isReady && !toTake.isEmpty())
            takeAway(toTake);
        return titles.join(" | ");
    };
    // What depends on the time comes when the others are done: only then is there little else to do.
    for (const bool inTime : {false, true}) {
        for (size_t i = 0; i < scenes.size(); ++i) {
            if ((rows[i % rows.size()].trigger == Trigger::Time) == inTime)
                scenes[i]->start();
        }
        if (!QTest::qWaitFor([&] { return missing(inTime).isEmpty(); }, Patience))
            QFAIL(("never called: " + missing(inTime)).constData());
    }
    // The handlers have started renewals, retries and deferred deletions. Let these run until another lock is renewed.
    DistributedLock other(LockRegistry::instance(m_server.url()), u"other"_s);
    QSignalSpy renewed(&other, &DistributedLock::renewed);
    other.setWaitTime(std::chrono::milliseconds(Patience));
    other.acquire();
    QTRY_VERIFY_WITH_TIMEOUT(other.isHeld(), Patience);
    endConnections();
    QTRY_VERIFY_WITH_TIMEOUT(renewed.count() > 0, Patience);
    other.release();
    scenes.clear();
    for (size_t i = 0; i < keys.size(); ++i) {
        if (QByteArray(rows[i % rows.size()].properties).contains("/*busy*/"))
            m_server.command({"DEL", keys[i]});
    }
}

void TestQmlLifetimes::handlersOfALock()
{
    QFETCH(QList<Deed>, deeds);
    static const std::vector<Row> rows{
            {"onStateChanged", "", "it.active = true;"},
            {"onHeldChanged", "", "it.active = true;"},
            {"onHoldCountChanged", "", "it.active = true;"},
            {"onFencingTokenChanged", "", "it.active = true;"},
            {"onAcquired", "", "it.active = true;"},
            {"onAcquired", "", "it.acquire();"},
            {"onActiveChanged", "", "it.active = true;"},
            {"onRenewed", "", "it.active = true;", Trigger::Renewed},
            {"onReleased", "", "it.acquire().then(() => it?.release());"},
            {"onReleased", "onAcquired: active = false", "it.active = true;"},
            {"onLost", "", "it.active = true;", Trigger::Lost},
            {"onLost", "", "it.acquire();", Trigger::Lost},
            {"heldChanged", "", "it.acquire(); it.heldChanged.connect(() => { if (!it.held) root.act(it); });",
             Trigger::Lost},
            {"onAcquireFailed", "/*busy*/", "it.tryAcquire();"},
            {"onAcquireFailed", "/*busy*/ wait: 100", "it.acquire();"},
            {"onErrorChanged", "/*busy*/", "it.tryAcquire();"},
            {"onQueuePositionChanged", "/*busy*/", "it.active = true;"},
            {"onAtRisk", "autoRenew: false; lease: 3000; onLost: lease *= 2", "it.active = true;", Trigger::Time},
            {"onErrorOccurred", "Component.onCompleted: server = 'unix:///nowhere/redis.sock'", "it.active = true;"},
            {"onErrorOccurred", "Component.onCompleted: server = 'carrier-pigeon:'", "it.acquire();"},
            {"onNameChanged", "active: true", "it.name += 'n';"},
            {"onServerChanged", "active: true", "it.server = 'memory:lifetimes';"},
            {"onLeaseChanged", "active: true", "it.lease = 700;"},
            {"onWaitChanged", "active: true", "it.wait = 700;"},
            {"onRetryIntervalChanged", "active: true", "it.retryInterval = 70;"},
            {"onAutoRenewChanged", "active: true", "it.autoRenew = false;"},
            {"onFairChanged", "/*busy*/ active: true", "it.fair = false;"},
            {"then", "", "it.acquire().then(() => root.act(it));"},
            {"then", "/*busy*/", "it.tryAcquire().then(() => root.act(it));"},
            {"then", "", "it.acquire(); it.release().then(() => root.act(it));"},
            {"then", "", "it.forceRelease().then(() => root.act(it));"},
            {"catch", "", "it.server = 'unix:///nowhere/redis.sock'; it.forceRelease().catch(() => root.act(it));"},
            {"then", "", "it.acquire(); it.cancel(); it.acquire().then(() => root.act(it));"},
            {"then", "", "DistributedLocks.invokeLocked(receiver, 'run', [it.name]).then(() => root.act(it));"},
    };
    // Some of these log warnings, because their servers do not exist.
    run(rows,
        "DistributedLock { id: it; name: 'NAME'; server: 'SERVER'\nLEASE\nWAIT\nPROPERTIES\nHANDLER }\n"
        "LockStatus { lock: it }\n",
        deeds);
}

/// The dialog in onLost owns the level that it acquires: `active: false` does not release it.
void TestQmlLifetimes::acquiredInALoopInOnLost()
{
    Scene scene("onLost",
                "Item {\n"
                "    id: root\n"
                "    property bool entered\n"
                "    property DistributedLock lock: DistributedLock {\n"
                "        id: it\n"
                "        name: 'dialog'; server: '"
                        + url()
                        + "'; active: true\n"
                          "        onLost: { helper.acquireAndWait(it); active = false; root.entered = true; }\n"
                          "    }\n"
                          "}\n",
                &m_warnings);
    auto *const lock = scene.root()->property("lock").value<DistributedLock *>();
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QCoreApplication::processEvents(); // the acquisition is complete
    takeAway({"lock:dialog"});
    QTRY_VERIFY_WITH_TIMEOUT(scene.entered(), Patience);
    QVERIFY(!lock->property("active").toBool());
    // Had it been released, the server would have heard of that before it answered another lock.
    DistributedLock later(lock->registry(), u"later"_s);
    later.setWaitTime(std::chrono::milliseconds(Patience));
    later.acquire();
    QTRY_VERIFY_WITH_TIMEOUT(later.isHeld(), Patience);
    QCOMPARE(lock->holdCount(), 1);
    QVERIFY(m_server.exists("lock:dialog"));
}

void TestQmlLifetimes::handlersOfAnAction()
{
    QFETCH(QList<Deed>, deeds);
    static const std::vector<Row> rows{
            {"onStateChanged", "", "it.trigger();"},
            {"onRunningChanged", "", "it.trigger();"},
            {"onEnabledChanged", "", "it.trigger();"},
            {"onTriggered", "", "it.trigger();"},
            {"onFinished", "", "it.trigger();"},
            {"onErrorChanged", "/*busy*/ whenBusy: LockedAction.Fail", "it.trigger();"},
            {"onErrorStringChanged", "/*busy*/ whenBusy: LockedAction.Fail", "it.trigger();"},
            {"onRunningChanged", "/*busy*/ whenBusy: LockedAction.Skip", "it.trigger();"},
            {"onRefused", "/*busy*/ whenBusy: LockedAction.Fail", "it.trigger();"},
            {"onRefused", "/*busy*/ wait: 100", "it.trigger();"},
            {"onFailed", "work: () => Promise.reject('no paper')", "it.trigger();"},
            {"onErrorStringChanged", "work: () => { throw 'no paper'; }", "it.trigger();"},
            {"onLost", "work: () => new Promise(resolve => { root.made = resolve; })", "it.trigger();", Trigger::Lost},
            {"onErrorStringChanged", "work: () => new Promise(resolve => { root.made = resolve; })", "it.trigger();",
             Trigger::Lost},
            {"onNameChanged", "", "it.trigger(); it.name += 'n';"},
            {"onServerChanged", "", "it.trigger(); it.server = 'memory:lifetimes';"},
            {"work", "work: () => root.act(it)", "it.trigger();"},
            {"work", "work: () => Promise.resolve(1).then(() => root.act(it))", "it.run();"},
            {"then", "", "it.run().then(() => root.act(it));"},
            {"catch", "work: () => { throw 'no paper'; }", "it.run().catch(() => root.act(it));"},
            {"catch", "/*busy*/ whenBusy: LockedAction.Fail", "it.run().catch(() => root.act(it));"},
            {"catch", "", "it.run(); it.run().catch(() => root.act(it));"},
    };
    run(rows, "LockedAction { id: it; name: 'NAME'; server: 'SERVER'\nLEASE\nWAIT\nWORK\nPROPERTIES\nHANDLER }\n",
        deeds);
}

void TestQmlLifetimes::actionOfADelegate_data()
{
    Support::addColumns<QByteArray, QString>("element", "expected");
    QTest::newRow("work resolved") << QByteArray("work: () => new Promise(resolve => Qt.callLater(() => {\n"
                                                 "    resolve(7);\n"
                                                 "    view.model = 0;\n"
                                                 "}))")
                                   << "resolved 7";
    QTest::newRow("work rejected") << QByteArray("work: () => new Promise((resolve, reject) => Qt.callLater(() => {\n"
                                                 "    reject(7);\n"
                                                 "    view.model = 0;\n"
                                                 "}))")
                                   << "rejected 7";
    QTest::newRow("finished") << QByteArray("work: () => 7; onFinished: view.model = 0") << "resolved 7";
    QTest::newRow("not running") << QByteArray("work: () => 7; onRunningChanged: if (!running) view.model = 0")
                                 << "resolved 7";
    QTest::newRow("running") << QByteArray("work: () => 7; onRunningChanged: view.model = 0")
                             << "rejected Error: Lock \"delegate\": the action was destroyed";
    QTest::newRow("working") << QByteArray(
            "work: () => 7; onStateChanged: if (state === LockedAction.Working) view.model = 0")
                             << "rejected Error: the action was destroyed before its work began";
}

/// A view destroys its delegates later; until then, functions that they call fail. The promise of run() reports what
/// happened.
void TestQmlLifetimes::actionOfADelegate()
{
    QFETCH(QByteArray, element);
    QFETCH(QString, expected);
    Scene scene("delegate",
                "Item {\n"
                "    id: root\n"
                "    property bool entered\n"
                "    property string heard\n"
                "    function follow(promise) {\n"
                "        promise.then(value => heard = 'resolved ' + value, reason => heard = 'rejected ' + reason);\n"
                "    }\n"
                "    function start() { view.model = 1; }\n"
                "    Repeater {\n"
                "        id: view\n"
                "        delegate: Item {\n"
                "            property LockedAction action: LockedAction {\n"
                "                id: action\n"
                "                name: 'delegate'; server: '"
                        + url() + "'\n" + element
                        + "\n"
                          "            }\n"
                          "            Component.onCompleted: root.follow(action.run())\n"
                          "        }\n"
                          "    }\n"
                          "}\n",
                &m_warnings);
    scene.start();
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("heard").toString(), expected, Patience);
}

void TestQmlLifetimes::handlersOfAStatus_data()
{
    QList<Deed> deeds;
    const auto add = [&deeds](const char *name, const char *code) { deeds.append(Deed{name, code}); };
    add("null", "it.status.lock = null;");
    add("another lock", "it.status.lock = it.other;");
    add("null and back", "it.status.lock = null; it.status.lock = it;");
    add("status unloaded", "it.part.active = false;");
    add("status reloaded", "it.part.active = false; it.part.active = true;");
    add("lock destroyed",
        "const made = Qt.createQmlObject('import QDistLock; DistributedLock { }', root);\n"
        "it.status.lock = made; made.destroy();");
    add("hidden", "it.status.visible = false; it.status.textVisible = false;");
    add("nested loop", "helper.nest();");
    add("null, nested loop", "it.status.lock = null; helper.nest();");
    addRows(deeds);
}

/// LockStatus is changed or destroyed while its lock emits a signal.
void TestQmlLifetimes::handlersOfAStatus()
{
    QFETCH(QList<Deed>, deeds);
    static const std::vector<Row> rows{
            {"onStateChanged", "", "it.active = true;"},
            {"onHeldChanged", "", "it.active = true;"},
            {"onAcquired", "", "it.active = true;"},
            {"onRenewed", "", "it.active = true;", Trigger::Renewed},
            {"onReleased", "", "it.acquire().then(() => it.release());"},
            {"onLost", "", "it.active = true;", Trigger::Lost},
            {"heldChanged", "", "it.acquire(); it.heldChanged.connect(() => { if (!it.held) root.act(it); });",
             Trigger::Lost},
            {"onAcquireFailed", "/*busy*/", "it.tryAcquire();"},
            {"onErrorChanged", "/*busy*/", "it.tryAcquire();"},
            {"onQueuePositionChanged", "/*busy*/", "it.active = true;"},
            {"onAtRisk", "autoRenew: false; lease: 3000; onLost: lease *= 2", "it.active = true;", Trigger::Time},
            {"onErrorOccurred", "Component.onCompleted: server = 'unix:///nowhere/redis.sock'", "it.active = true;"},
            {"onNameChanged", "", "it.name += 'n';"},
            // Handlers of phase, text, detail and color that set the lock cause binding loops; QML logs warnings.
            {"lockChanged", "", "it.status.lockChanged.connect(() => root.act(it)); it.status.lock = it.other;"},
    };
    run(rows,
        "DistributedLock { id: it; name: 'NAME'; server: 'SERVER'\nLEASE\nWAIT\n"
        "    property DistributedLock other: DistributedLock { name: 'NAME other'; server: 'SERVER'; active: true }\n"
        "    property Loader part: Loader {\n"
        "        sourceComponent: Component { LockStatus { lock: it; width: 200 } }\n"
        "    }\n"
        "    property var status: part.item\n"
        "PROPERTIES\nHANDLER }\n",
        deeds);
}

/// LockStatus then shows the other lock, which was not lost.
void TestQmlLifetimes::statusOfAnotherLockInOnLost()
{
    Scene scene("another",
                "Item {\n"
                "    id: root\n"
                "    property bool entered\n"
                "    property alias lock: it\n"
                "    property string shown: status.phase\n"
                "    DistributedLock {\n"
                "        id: it\n"
                "        name: 'another'; server: '"
                        + url()
                        + "'\n"
                          "        onLost: { status.lock = other; Qt.callLater(() => { root.entered = true; }); }\n"
                          "        Component.onCompleted: acquire()\n"
                          "    }\n"
                          "    DistributedLock { id: other; name: 'other' }\n"
                          "    LockStatus { id: status; lock: it }\n"
                          "}\n",
                &m_warnings);
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("shown").toString(), u"held"_s, Patience);
    takeAway({"lock:another"});
    QTRY_VERIFY_WITH_TIMEOUT(scene.entered(), Patience);
    QCOMPARE(scene.root()->property("shown").toString(), u"unlocked"_s);
}

/// A handler unloads one of them while the other one is shown.
void TestQmlLifetimes::twoStatusesOfOneLock()
{
    Scene scene("two",
                "Window {\n"
                "    id: root\n"
                "    property bool entered\n"
                "    property alias lock: it\n"
                "    property string shown: second.phase\n"
                "    width: 300; height: 200; visible: true\n"
                "    DistributedLock {\n"
                "        id: it\n"
                "        name: 'two'; server: '"
                        + url()
                        + "'; active: true\n"
                          "        onAcquired: { first.active = false; root.entered = true; }\n"
                          "        onLost: { active = false; first.active = true; }\n"
                          "    }\n"
                          "    Column {\n"
                          "        Loader { id: first; sourceComponent: Component { LockStatus { lock: it } } }\n"
                          "        LockStatus { id: second; lock: it }\n"
                          "    }\n"
                          "}\n",
                &m_warnings);
    QTRY_VERIFY_WITH_TIMEOUT(scene.entered(), Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("shown").toString(), u"held"_s, Patience);
    takeAway({"lock:two"});
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("shown").toString(), u"lost"_s, Patience);
}

/// An item with its lock and status moves to another window, and one window is destroyed.
void TestQmlLifetimes::movedBetweenWindows()
{
    Scene scene("windows",
                "Item {\n"
                "    id: root\n"
                "    property alias lock: it\n"
                "    property string shown: status.phase\n"
                "    property var first: Qt.createQmlObject('import QtQuick; Window { width: 200; height: 100; "
                "visible: true }', root)\n"
                "    property var second: Qt.createQmlObject('import QtQuick; Window { width: 200; height: 100; "
                "visible: true }', root)\n"
                "    Item {\n"
                "        id: moved\n"
                "        DistributedLock {\n"
                "            id: it\n"
                "            name: 'windows'; server: '"
                        + url()
                        + "'; active: true\n"
                          "            onAcquired: moved.parent = root.second ? root.second.contentItem : root\n"
                          "            onLost: { moved.parent = root; root.second.destroy(); }\n"
                          "        }\n"
                          "        LockStatus { id: status; lock: it }\n"
                          "    }\n"
                          "    Component.onCompleted: moved.parent = first.contentItem\n"
                          "}\n",
                &m_warnings);
    auto *const lock = scene.root()->property("lock").value<DistributedLock *>();
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("shown").toString(), u"held"_s, Patience);
    QSignalSpy lost(lock, &DistributedLock::lost);
    takeAway({"lock:windows"});
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("shown").toString(), u"held"_s, Patience);
}

/// 200 locks: each handler of lost() destroys the next lock, and every tenth handler runs a nested event loop.
void TestQmlLifetimes::manyLocksLostAtOnce()
{
    constexpr int Count = 200;
    Scene scene("many",
                "Item {\n"
                "    id: root\n"
                "    property int held\n"
                "    property int lost\n"
                "    property int failed\n"
                "    property var locks: []\n"
                "    Component {\n"
                "        id: one\n"
                "        DistributedLock {\n"
                "            required property int index\n"
                "            name: 'many' + index; server: '"
                        + url()
                        + "'; wait: 60000\n"
                          "            onAcquired: ++root.held\n"
                          "            onLost: {\n"
                          "                ++root.lost;\n"
                          "                if (index % 10 === 0)\n"
                          "                    helper.nest();\n"
                          "                if (index % 2 === 0)\n"
                          "                    root.locks[index + 1].destroy();\n"
                          "                acquire().then(result => { if (!result.acquired) ++root.failed; });\n"
                          "            }\n"
                          "        }\n"
                          "    }\n"
                          "    function start() {\n"
                          "        for (let index = 0; index < "
                        + QByteArray::number(Count)
                        + "; ++index) {\n"
                          "            locks.push(one.createObject(root, { index: index }));\n"
                          "            locks[index].acquire();\n"
                          "        }\n"
                          "    }\n"
                          "}\n",
                &m_warnings);
    scene.start();
    const auto number = [&scene](const char *property) { return scene.root()->property(property).toInt(); };
    QTRY_COMPARE_WITH_TIMEOUT(number("held"), Count, Patience);
    QList<QByteArray> keys;
    for (int i = 0; i < Count; ++i)
        keys += "lock:many" + QByteArray::number(i);
    takeAway(keys);
    // The elements that were not destroyed first lose their locks, and acquire them again.
    const auto heldNow = [&scene] {
        int sum = 0;
        for (auto *const lock : scene.root()->findChildren<DistributedLock *>())
            sum += lock->isHeld() && lock->property("index").toInt() % 2 == 0;
        return sum;
    };
    QTRY_VERIFY_WITH_TIMEOUT(number("lost") >= Count / 2, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(heldNow(), Count / 2, Patience);
    QVERIFY(number("lost") <= Count);
}

// The tests run inside an event loop, as handlers in an application do. Otherwise Qt 6.8 would carry out deleteLater()
// in any nested loop, and delete objects whose handlers are still running.
int main(int argc, char **argv)
{
    QGuiApplication application(argc, argv);
    QMetaObject::invokeMethod(
            &application,
            [&] {
                TestQmlLifetimes test;
                QCoreApplication::exit(QTest::qExec(&test, argc, argv));
            },
            Qt::QueuedConnection);
    return QGuiApplication::exec();
}

#include "tst_qmllifetimes.moc"
