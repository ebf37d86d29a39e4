// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmltesting.h"

#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qdir.h>
#include <QtCore/qregularexpression.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQml/qqmlcontext.h>
#include <QtQml/qqmlengine.h>
#include <QtQuick/qquickitem.h>
#include <QtQuick/qquickwindow.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <memory>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using QmlTesting::Patience;
using Support::RedisServer;

/// LockedAction alone, in a button, and in a window.
class TestLockedAction : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void workRunsUnderTheLock();
    void heldUntilThePromiseSettles() { settlesLate("lease: 30000", 0); }
    TIMING void renewedUntilThePromiseSettles();
    void waitsItsTurn();
    TIMING void refusedAfterTheWait();
    void busySkip();
    void busyFail();
    void workFails_data();
    void workFails();
    void refusedForOtherReasons_data();
    void refusedForOtherReasons();
    void workFailsWithoutAText();
    void handlersSeeOneState_data();
    void handlersSeeOneState();
    TIMING void handlersSeeOneStateAfterTheWait();
    void runAgainInEachHandler_data();
    void runAgainInEachHandler();
    void enabledBelongsToTheUser();
    void oneRunAtATime();
    void lostWhileWorking();
    void lostBeforeTheWork();
    void renamed_data();
    void renamed();
    void actionsExcludeEachOther();
    void destroyedWhileWaiting();
    void destroyedWhileWorking();
    void engineDestroyedWhileWorking();
    void clickedButton();
    void picture();

private:
    enum State { Idle, Waiting, Working };

    void settlesLate(const QByteArray &lease, int renewals);
    void seeStates(const QByteArray &properties, bool busy, const QString &views);
    bool load(const QByteArray &properties);
    bool loadScene(const QByteArray &qml);
    QByteArray action(const QByteArray &properties, const QByteArray &name = {}) const;
    int state() const { return m_action->property("state").toInt(); }
    DistributedLock *lock() const { return m_action->property("lock").value<DistributedLock *>(); }
    QString heard() const { return m_root->property("heard").toStringList().join(QLatin1String(" | ")); }
    void call(const char *function) { QMetaObject::invokeMethod(m_root.get(), function); }
    bool hold(const QByteArray &milliseconds = "600000")
    {
        return m_server.cli({"SET", m_key, "foreign", "NX", "PX", milliseconds}) == "OK";
    }

    RedisServer m_server;
    QByteArray m_name;
    QByteArray m_key;
    int m_count = 0;
    QStringList m_warnings;
    std::unique_ptr<QQmlEngine> m_engine;
    std::unique_ptr<QObject> m_root;
    QObject *m_action = nullptr;
};

void TestLockedAction::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    QVERIFY(QDir().mkpath(QStringLiteral(PICTURE_DIR)));
}

void TestLockedAction::init()
{
    m_name = "action" + QByteArray::number(++m_count);
    m_key = "lock:" + m_name;
    m_warnings.clear();
}

void TestLockedAction::cleanup()
{
    m_root.reset();
    m_engine.reset();
    QCOMPARE(m_warnings, QStringList());
}

QByteArray TestLockedAction::action(const QByteArray &properties, const QByteArray &name) const
{
    return "LockedAction {\n"
           "    name: "
            + (name.isEmpty() ? "'" + m_name + "'" : name) + "; server: '" + m_server.url().toEncoded()
            + "'\n"
              "    onFinished: result => root.hear('finished ' + JSON.stringify(result))\n"
              "    onRefused: (error, text) => root.hear('refused ' + error + ' ' + text)\n"
              "    onFailed: reason => root.hear('failed ' + reason)\n"
              "    onLost: reason => root.hear('lost ' + reason)\n"
            + (properties.contains("wait:") ? "" : QmlTesting::LongWait) + '\n' + properties + "\n}\n";
}

bool TestLockedAction::loadScene(const QByteArray &qml)
{
    m_engine = QmlTesting::makeEngine(&m_warnings);
    QQmlComponent component(m_engine.get());
    component.setData("import QtQuick\nimport QtQuick.Controls.Basic\nimport QDistLock\n" + qml, QUrl());
    m_root.reset(component.create());
    if (!m_root)
        qWarning().noquote() << component.errorString();
    return m_root != nullptr;
}

/// Loads one action. `heard` collects its signals and the result of the promise of run().
bool TestLockedAction::load(const QByteArray &properties)
{
    if (!loadScene(
                "QtObject {\n"
                "    id: root\n"
                "    property var heard: []\n"
                "    property var settle\n"
                "    property var reject\n"
                "    property bool ready: true\n"
                "    property QtObject action: "
                + action(properties)
                + "    function hear(what) { heard = heard.concat([what]); }\n"
                  "    function run() {\n"
                  "        action.run().then(value => hear('resolved ' + JSON.stringify(value)),\n"
                  "                          reason => hear('rejected ' + (reason.error ?? '') + ' ' + reason));\n"
                  "    }\n"
                  "    function trigger() { action.trigger(); }\n"
                  "    function promised() {\n"
                  "        return new Promise((resolve, reject) => { root.settle = resolve; root.reject = reject; });\n"
                  "    }\n"
                  "    function settleNow() { settle('late'); }\n"
                  "    function rejectNow() { reject(new Error('late')); }\n"
                  "    function forget() { action.destroy(); action = null; }\n"
                  "}\n"))
        return false;
    m_action = m_root->property("action").value<QObject *>();
    return m_action && lock();
}

void TestLockedAction::workRunsUnderTheLock()
{
    QVERIFY(load("work: token => { root.hear('work ' + (token > 0) + ' ' + lock.held + ' ' + state); return 42; }"));
    QCOMPARE(state(), Idle);
    call("run");
    QCOMPARE(state(), Waiting);
    QCOMPARE(m_action->property("running").toBool(), true);
    QTRY_VERIFY_WITH_TIMEOUT(heard().contains(QLatin1String("resolved")), Patience);
    QCOMPARE(heard(), u"work true true 2 | finished 42 | resolved 42"_s);
    QCOMPARE(state(), Idle);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);
    QCOMPARE(m_action->property("error").toInt(), int(DistributedLock::NoError));

    call("trigger"); // once more
    QTRY_VERIFY_WITH_TIMEOUT(heard().endsWith(QLatin1String("resolved 42 | work true true 2 | finished 42")), Patience);
}

void TestLockedAction::renewedUntilThePromiseSettles()
{
    Support::leavesRoomFor(std::chrono::milliseconds(600)); // two thirds of the lease
    settlesLate("lease: 1000", 4);
}

void TestLockedAction::settlesLate(const QByteArray &lease, int renewals)
{
    QVERIFY(load(lease + "; work: () => root.promised()"));
    QSignalSpy renewed(lock(), &DistributedLock::renewed);
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(renewed.count() >= renewals, Patience);
    QVERIFY(m_server.exists(m_key));
    QCOMPARE(heard(), QString());
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"finished \"late\" | resolved \"late\""_s, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);
}

void TestLockedAction::waitsItsTurn()
{
    QVERIFY(hold());
    QVERIFY(load("work: () => 'done'"));
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(lock()->queuePosition(), 0, Patience);
    QCOMPARE(state(), Waiting);
    m_server.cli({"DEL", m_key});
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"finished \"done\" | resolved \"done\""_s, Patience);
}

void TestLockedAction::refusedAfterTheWait()
{
    Support::leavesRoomFor(std::chrono::milliseconds(400)); // the server must have answered by then
    QVERIFY(hold());
    QVERIFY(load("wait: 500; work: () => root.hear('work')"));
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(m_root->property("heard").toStringList().size(), 2, Patience);
    const QString error = QString::number(DistributedLock::TimeoutError);
    QVERIFY2(heard().startsWith(u"refused %1 Lock \"%2\""_s.arg(error, QLatin1String(m_name))), qPrintable(heard()));
    QVERIFY2(heard().contains(u"| rejected %1 Error: Lock \"%2\""_s.arg(error, QLatin1String(m_name))),
             qPrintable(heard()));
    QCOMPARE(m_action->property("error").toInt(), int(DistributedLock::TimeoutError));
    QVERIFY(!m_action->property("errorString").toString().isEmpty());
    QCOMPARE(state(), Idle);

    m_server.cli({"DEL", m_key});
    m_root->setProperty("heard", QStringList());
    call("run");
    QTRY_VERIFY_WITH_TIMEOUT(heard().contains(QLatin1String("resolved")), Patience);
    QCOMPARE(m_action->property("error").toInt(), int(DistributedLock::NoError));
    QCOMPARE(m_action->property("errorString").toString(), QString());
}

void TestLockedAction::busySkip()
{
    QVERIFY(hold());
    QVERIFY(load("whenBusy: LockedAction.Skip; work: () => root.hear('work')"));
    call("run");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QCOMPARE(heard(), u"resolved undefined"_s);
    QCOMPARE(state(), Idle);
    QCOMPARE(m_action->property("error").toInt(), int(DistributedLock::NoError));
    m_server.cli({"DEL", m_key});
    call("run");
    QTRY_VERIFY_WITH_TIMEOUT(heard().contains(QLatin1String("| work | finished")), Patience);
}

void TestLockedAction::busyFail()
{
    QVERIFY(hold());
    QVERIFY(load("whenBusy: LockedAction.Fail; work: () => root.hear('work')"));
    call("trigger");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(u"refused %1 "_s.arg(DistributedLock::BusyError)), qPrintable(heard()));
    QCOMPARE(m_action->property("error").toInt(), int(DistributedLock::BusyError));
    QCOMPARE(m_server.get(m_key), QByteArrayLiteral("foreign"));
}

void TestLockedAction::workFails_data()
{
    Support::addColumns<QByteArray, QString>("work", "reason");
    QTest::newRow("throws") << QByteArray("() => { throw new Error('no paper'); }") << "Error: no paper";
    QTest::newRow("throws a string") << QByteArray("() => { throw 'no paper'; }") << "no paper";
    QTest::newRow("rejects") << QByteArray("() => Promise.reject(new Error('no paper'))") << "Error: no paper";
    QTest::newRow("no function") << QByteArray("'no paper'") << QString();
    QTest::newRow("nothing") << QByteArray("undefined") << QString();
}

void TestLockedAction::workFails()
{
    QFETCH(QByteArray, work);
    QFETCH(QString, reason);
    QVERIFY(load("work: " + work));
    const QString problem = reason.isEmpty() ? u"is not a function"_s : u"no paper"_s;
    const QRegularExpression line(u"\"%1\".*%2"_s.arg(QString::fromLatin1(m_name), problem));
    QTest::ignoreMessage(QtWarningMsg, line);
    call("run");
    QTRY_VERIFY_WITH_TIMEOUT(heard().contains(QLatin1String("rejected")), Patience);
    if (reason.isEmpty())
        QVERIFY2(heard().startsWith(QLatin1String("failed TypeError")), qPrintable(heard()));
    else
        QCOMPARE(heard(), u"failed %1 | rejected  %1"_s.arg(reason));
    QVERIFY(!m_action->property("errorString").toString().isEmpty());
    QCOMPARE(m_action->property("error").toInt(), int(DistributedLock::NoError));
    QCOMPARE(state(), Idle);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);

    // An action triggered by a button has no promise, and perhaps no handler: the failure must be logged.
    QTest::ignoreMessage(QtWarningMsg, line);
    call("trigger");
    QTRY_COMPARE_WITH_TIMEOUT(heard().count(QLatin1String("failed")), 2, Patience);
    QCOMPARE(state(), Idle);
}

void TestLockedAction::refusedForOtherReasons_data()
{
    Support::addColumns<QByteArray, int>("properties", "error");
    QTest::newRow("no name") << QByteArray("Component.onCompleted: name = ''") << int(DistributedLock::NameError);
    QTest::newRow("bad server") << QByteArray("Component.onCompleted: server = 'carrier-pigeon://loft'")
                                << int(DistributedLock::OptionsError);
    QTest::newRow("bad lease") << QByteArray("lease: 0") << int(DistributedLock::OptionsError);
}

void TestLockedAction::refusedForOtherReasons()
{
    QFETCH(QByteArray, properties);
    QFETCH(int, error);
    QVERIFY(load("work: () => root.hear('work')\n" + properties));
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"^LockedAction: Lock \".*\""_s));
    call("trigger");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(u"refused %1 "_s.arg(error)), qPrintable(heard()));
    QCOMPARE(state(), Idle);
}

void TestLockedAction::workFailsWithoutAText()
{
    QVERIFY(loadScene("QtObject {\n"
                      "    property bool failed\n"
                      "    property LockedAction action: LockedAction {\n"
                      "        name: '"
                      + m_name + "'; server: '" + m_server.url().toEncoded()
                      + "'\n"
                        "        work: () => { throw Object.create(null); }\n"
                        "    }\n"
                        "    function run() { action.run().catch(() => { failed = true; }); }\n"
                        "}\n"));
    m_action = m_root->property("action").value<QObject *>();
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"failed: unknown reason"_s));
    call("run");
    QTRY_VERIFY_WITH_TIMEOUT(m_root->property("failed").toBool(), Patience);
    QCOMPARE(state(), Idle);
    QVERIFY(!m_action->property("errorString").toString().isEmpty());
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);
}

void TestLockedAction::handlersSeeOneState_data()
{
    Support::addColumns<QByteArray, bool, QString>("properties", "busy", "views");
    const QString waiting = u"1 true 0 - false"_s;
    const QString working = u"2 true 0 - false"_s;
    const QString idle = u"0 false 0 - true"_s;
    const QString failed = u"0 false 0 text true"_s;
    const QString busy = u"0 false %1 text true"_s.arg(DistributedLock::BusyError);
    const auto row = [](const char *name, const QByteArray &properties, bool isBusy, const QStringList &views) {
        QTest::newRow(name) << properties << isBusy << views.join(QLatin1String(" | "));
    };
    row("finished", "work: () => 1", false, {waiting, working, idle, waiting, working, idle});
    row("skipped", "whenBusy: LockedAction.Skip", true, {waiting, idle, waiting, idle});
    row("refused", "whenBusy: LockedAction.Fail", true, {waiting, busy, waiting, busy});
    row("failed", "work: () => { throw 'no paper'; }", false, {waiting, working, failed, waiting, working, failed});
    row("rejected", "work: () => Promise.reject('no paper')", false,
        {waiting, working, failed, waiting, working, failed});
}

/// In two runs: all properties change, then their signals are emitted, then the signal of the result.
void TestLockedAction::handlersSeeOneState()
{
    QFETCH(QByteArray, properties);
    QFETCH(bool, busy);
    QFETCH(QString, views);
    seeStates(properties, busy, views);
}

void TestLockedAction::handlersSeeOneStateAfterTheWait()
{
    Support::leavesRoomFor(std::chrono::milliseconds(70)); // the server must have answered by then
    const QString once = u"1 true 0 - false | 0 false %1 text true"_s.arg(DistributedLock::TimeoutError);
    seeStates("wait: 100", true, once + u" | "_s + once);
}

void TestLockedAction::seeStates(const QByteArray &properties, bool busy, const QString &views)
{
    if (busy)
        QVERIFY(hold());
    QVERIFY(loadScene(
            "QtObject {\n"
            "    id: root\n"
            "    property var heard: []\n"
            "    property var views: []\n"
            "    function hear(what) { heard = heard.concat([what]); see(); }\n"
            "    function see(enabled = action.enabled) {\n"
            "        const view = [action.state, action.running, action.error, action.errorString ? 'text' : '-',\n"
            "                      enabled].join(' ');\n"
            "        if (views[views.length - 1] !== view)\n"
            "            views = views.concat([view]);\n"
            "    }\n"
            "    property LockedAction action: "
            + action(properties
                     + "\nonStateChanged: root.see(); onRunningChanged: root.see(); onErrorChanged: root.see()\n"
                       "onErrorStringChanged: root.see()\n"
                       "onEnabledChanged: enabled => root.see(enabled)\n" // Qt changes it after that signal
                     )
            + "    property Binding binding: Binding {\n" // evaluated at each single change
              "        target: root; property: 'bound'\n"
              "        value: { root.see; return [root.action.error, root.action.running, root.action.errorString]; }\n"
              "    }\n"
              "    property var bound\n"
              "    onBoundChanged: if (views.length > 0) see()\n"
              "    function run() { action.run().then(() => hear('ended'), () => hear('ended')); }\n"
              "}\n"));
    m_action = m_root->property("action").value<QObject *>();
    const auto ended = [this] { return heard().count(QLatin1String("ended")); };
    for (int run = 1; run <= 2; ++run) {
        if (properties.contains("paper"))
            QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"no paper"_s));
        call("run");
        QTRY_COMPARE_WITH_TIMEOUT(ended(), run, Patience);
    }
    QCOMPARE(m_root->property("views").toStringList().join(QLatin1String(" | ")), views);
}

void TestLockedAction::runAgainInEachHandler_data()
{
    Support::addColumns<QByteArray, QByteArray>("handler", "work");
    for (const char *const handler : {"onStateChanged", "onRunningChanged", "onErrorStringChanged"}) {
        QTest::addRow("%s, finished", handler) << QByteArray(handler) << QByteArray("() => root.hear('work')");
        QTest::addRow("%s, failed", handler)
                << QByteArray(handler) << QByteArray("() => { root.hear('work'); throw 'no paper'; }");
    }
}

/// Also under a name that was set during the first run, and with a single level.
void TestLockedAction::runAgainInEachHandler()
{
    QFETCH(QByteArray, handler);
    QFETCH(QByteArray, work);
    const bool fails = work.contains("throw");
    QVERIFY(load("property int runs\n"
                 "work: "
                 + work + "\n" + handler + ": { if (!running && runs < 2 && (errorString !== '') === "
                 + (fails ? "true" : "false") + ") { ++runs; name = '" + m_name
                 + "-' + runs; root.hear('again ' + lock.holdCount); trigger(); } }\n"));
    const bool never = !fails && handler == "onErrorStringChanged";
    for (int run = 0; fails && run < 3; ++run)
        QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"no paper"_s));
    call("trigger");
    QTRY_COMPARE_WITH_TIMEOUT(heard().count(QLatin1String("work")), never ? 1 : 3, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(state(), Idle, Patience);
    QCOMPARE(heard().count(QLatin1String("again 0")), never ? 0 : 2);
    QTRY_COMPARE_WITH_TIMEOUT(m_server.keys(m_key + "*"), QList<QByteArray>(), Patience);
}

void TestLockedAction::enabledBelongsToTheUser()
{
    QVERIFY(load("enabled: root.ready; work: () => root.promised()"));
    const auto enabled = [this] { return m_action->property("enabled").toBool(); };
    QVERIFY(enabled());
    QSignalSpy changed(m_action, SIGNAL(enabledChanged(bool)));
    call("trigger");
    QVERIFY(!enabled());
    QCOMPARE(changed.count(), 1);
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    QVERIFY(!enabled());
    m_root->setProperty("ready", false);
    m_root->setProperty("ready", true);
    QVERIFY(!enabled());
    m_root->setProperty("ready", false);
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Idle, Patience);
    QVERIFY(!enabled());
    m_root->setProperty("ready", true);
    QVERIFY(enabled());
    m_root->setProperty("ready", false);
    call("trigger");
    QCOMPARE(state(), Idle);
}

void TestLockedAction::oneRunAtATime()
{
    QVERIFY(load("work: () => { root.hear('work'); return root.promised(); }"));
    call("run");
    call("trigger");
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    QCOMPARE(lock()->holdCount(), 1);
    QTRY_VERIFY_WITH_TIMEOUT(heard().contains(QLatin1String("rejected")), Patience);
    QVERIFY2(heard().contains(
                     u"rejected %1 Error: Lock \"%2\": the action is running already"_s.arg(DistributedLock::BusyError)
                             .arg(QLatin1String(m_name))),
             qPrintable(heard()));
    QCOMPARE(m_action->property("errorString").toString(), QString());
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Idle, Patience);
    QCOMPARE(heard().count(QLatin1String("work")), 1);
    QCOMPARE(heard().count(QLatin1String("finished")), 1);
}

void TestLockedAction::lostWhileWorking()
{
    QVERIFY(load("work: () => root.promised()"));
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    QCOMPARE(m_server.cli({"DEL", m_key}), QByteArrayLiteral("1"));
    QmlTesting::reconnectAll(m_server);
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"lost %1"_s.arg(DistributedLock::Deleted), Patience);
    QVERIFY(m_action->property("errorString").toString().contains(QLatin1String(m_name)));
    QCOMPARE(state(), Working); // the work continues
    QVERIFY(hold());
    call("settleNow");
    QTRY_VERIFY_WITH_TIMEOUT(heard().contains(QLatin1String("resolved")), Patience);
    QCOMPARE(state(), Idle);
    QCOMPARE(m_server.get(m_key), QByteArrayLiteral("foreign")); // the lock of the next holder is not released
}

void TestLockedAction::lostBeforeTheWork()
{
    QVERIFY(load("work: () => root.hear('work')"));
    connect(lock(), &DistributedLock::acquired, lock(), &DistributedLock::release);
    call("trigger");
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(u"refused %1 "_s.arg(DistributedLock::CancelledError)), qPrintable(heard()));
    QCOMPARE(state(), Idle);
}

void TestLockedAction::renamed_data()
{
    Support::addColumns<bool, QByteArray>("waiting", "property");
    for (const bool waiting : {false, true}) {
        for (const char *const property : {"name", "server"})
            QTest::addRow("%s, %s", property, waiting ? "waiting" : "working") << waiting << QByteArray(property);
    }
}

/// A run keeps its lock; the next one uses the new name.
void TestLockedAction::renamed()
{
    QFETCH(bool, waiting);
    QFETCH(QByteArray, property);
    const QString other = property == "name" ? QLatin1String(m_name + "b") : u"memory:"_s;
    if (waiting)
        QVERIFY(hold());
    QVERIFY(load("work: () => root.promised()"));
    call("run");
    if (waiting)
        QTRY_COMPARE_WITH_TIMEOUT(lock()->queuePosition(), 0, Patience);
    else
        QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    m_action->setProperty(property.constData(), other);
    QCOMPARE(m_action->property(property.constData()).toString(), other);
    for (int turn = 0; turn < 10; ++turn)
        QCoreApplication::processEvents();
    if (waiting) {
        QCOMPARE(lock()->queuePosition(), 0);
        m_server.cli({"DEL", m_key});
        QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    }
    QVERIFY(lock()->isHeld());
    QVERIFY(m_server.exists(m_key));
    QVERIFY(!m_server.exists(m_key + "b"));
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"finished \"late\" | resolved \"late\""_s, Patience);
    QCOMPARE(lock()->property(property.constData()).toString(), other);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);

    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    QVERIFY(!m_server.exists(m_key));
    QCOMPARE(m_server.exists(m_key + "b"), property == "name");
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Idle, Patience);

    // In the same turn of the event loop in which it is triggered.
    m_action->setProperty("server", m_server.url());
    m_action->setProperty("name", QLatin1String(m_name + "c"));
    call("trigger");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    QVERIFY(m_server.exists(m_key + "c"));
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Idle, Patience);
}

void TestLockedAction::actionsExcludeEachOther()
{
    QVERIFY(loadScene("Item {\n"
                      "    id: root\n"
                      "    property var heard: []\n"
                      "    property int inside\n"
                      "    property int most\n"
                      "    property int done\n"
                      "    function hear(what) { if (what.startsWith('finished')) ++done; }\n"
                      "    function work() {\n"
                      "        most = Math.max(most, ++inside);\n"
                      "        return new Promise(resolve => Qt.callLater(() => { --inside; resolve(); }));\n"
                      "    }\n"
                      "    Repeater {\n"
                      "        model: 8\n"
                      "        Item { property var action: "
                      + action("work: root.work")
                      + "            Component.onCompleted: action.trigger() }\n"
                        "    }\n"
                        "}\n"));
    QTRY_COMPARE_WITH_TIMEOUT(m_root->property("done").toInt(), 8, Patience);
    QCOMPARE(m_root->property("most").toInt(), 1);
}

void TestLockedAction::destroyedWhileWaiting()
{
    QVERIFY(hold());
    QVERIFY(load("work: () => root.hear('work')"));
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(lock()->queuePosition(), 0, Patience);
    QSignalSpy destroyed(lock(), &QObject::destroyed);
    call("forget");
    QTRY_COMPARE_WITH_TIMEOUT(destroyed.count(), 1, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists("{" + m_key + "}:queue"), Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!heard().isEmpty(), Patience);
    QVERIFY2(heard().startsWith(u"rejected %1 Error: "_s.arg(DistributedLock::CancelledError)), qPrintable(heard()));
    QVERIFY2(heard().contains(QLatin1String(m_name)), qPrintable(heard()));
    QCOMPARE(m_server.get(m_key), QByteArrayLiteral("foreign"));
}

void TestLockedAction::destroyedWhileWorking()
{
    QVERIFY(load("work: () => root.promised()"));
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    call("forget");
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"resolved \"late\""_s, Patience);

    QVERIFY(load("work: () => root.promised()"));
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    call("forget");
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);
    call("rejectNow");
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"rejected  Error: late"_s, Patience);
}

void TestLockedAction::engineDestroyedWhileWorking()
{
    QVERIFY(load("work: () => root.promised()"));
    call("run");
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    m_root.reset();
    m_engine.reset();
    QTRY_VERIFY_WITH_TIMEOUT(!m_server.exists(m_key), Patience);
}

void TestLockedAction::clickedButton()
{
    QVERIFY(loadScene("Window {\n"
                      "    id: root\n"
                      "    property var heard: []\n"
                      "    property var settle\n"
                      "    property alias button: button\n"
                      "    function hear(what) { heard = heard.concat([what]); }\n"
                      "    function settleNow() { settle('late'); }\n"
                      "    width: 200; height: 100; visible: true\n"
                      "    Button {\n"
                      "        id: button\n"
                      "        anchors.fill: parent\n"
                      "        action: "
                      + action("text: running ? 'Building' : 'Build'\n"
                               "work: () => new Promise(resolve => root.settle = resolve)")
                      + "    }\n"
                        "}\n"));
    auto *window = qobject_cast<QQuickWindow *>(m_root.get());
    QVERIFY(QTest::qWaitForWindowExposed(window));
    auto *button = window->property("button").value<QQuickItem *>();
    m_action = button->property("action").value<QObject *>();
    const auto click = [window] { QTest::mouseClick(window, Qt::LeftButton, {}, {100, 50}); };
    click();
    QCOMPARE(state(), Waiting);
    QCOMPARE(button->isEnabled(), false);
    QCOMPARE(button->property("text").toString(), u"Building"_s);
    click();
    QTRY_COMPARE_WITH_TIMEOUT(state(), Working, Patience);
    click();
    call("settleNow");
    QTRY_COMPARE_WITH_TIMEOUT(heard(), u"finished \"late\""_s, Patience);
    QCOMPARE(button->isEnabled(), true);
    QCOMPARE(button->property("text").toString(), u"Build"_s);
}

/// Renders the states side by side, into a picture in PICTURE_DIR.
void TestLockedAction::picture()
{
    QVERIFY(hold());
    QVERIFY(loadScene("Window {\n"
                      "    id: root\n"
                      "    property var heard: []\n"
                      "    property alias repeater: repeater\n"
                      "    function hear(what) { heard = heard.concat([what]); }\n"
                      "    width: 560; height: 4 * 84 + 20; visible: true; color: '#fafafa'\n"
                      "    Column {\n"
                      "        x: 20; y: 20; spacing: 16\n"
                      "        Repeater {\n"
                      "            id: repeater\n"
                      "            model: [['"
                      + m_name + "free', 0], ['" + m_name + "', 60000], ['" + m_name + "work', 0], ['" + m_name
                      + "', 0]]\n"
                        "            Row {\n"
                        "                required property var modelData\n"
                        "                property alias action: action\n"
                        "                spacing: 24\n"
                        "                Button {\n"
                        "                    width: 140; height: 68\n"
                        "                    action: "
                      + action("id: action\n"
                               "wait: modelData[1]\n"
                               "text: state === LockedAction.Waiting ? 'Waiting…' : running ? 'Building…' : 'Build'\n"
                               "work: () => new Promise(() => {})",
                               "modelData[0]")
                      + "                }\n"
                        "                LockStatus { lock: action.lock; width: 340; anchors.verticalCenter: "
                        "parent.verticalCenter }\n"
                        "            }\n"
                        "        }\n"
                        "    }\n"
                        "}\n"));
    auto *window = qobject_cast<QQuickWindow *>(m_root.get());
    QVERIFY(QTest::qWaitForWindowExposed(window));
    auto *repeater = window->property("repeater").value<QQuickItem *>();
    QList<QObject *> actions;
    for (int row = 0; row < 4; ++row) {
        QQuickItem *item = nullptr;
        QVERIFY(QMetaObject::invokeMethod(repeater, "itemAt", Q_RETURN_ARG(QQuickItem *, item), Q_ARG(int, row)));
        actions += item->property("action").value<QObject *>();
        if (row > 0)
            QMetaObject::invokeMethod(actions.last(), "trigger");
    }
    QTRY_COMPARE_WITH_TIMEOUT(actions[1]->property("lock").value<DistributedLock *>()->queuePosition(), 0, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(actions[2]->property("state").toInt(), int(Working), Patience);
    QTRY_COMPARE_WITH_TIMEOUT(actions[3]->property("error").toInt(), int(DistributedLock::BusyError), Patience);
    window->grabWindow();
    QCoreApplication::processEvents();
    const QImage image = window->grabWindow();
    QVERIFY(image.save(QStringLiteral(PICTURE_DIR "/lockedaction.png")));
    const auto row = [&image](int index) { return image.copy(20, 20 + index * 84, 140, 68); };
    QVERIFY(row(0) != row(1)); // enabled and disabled
    QVERIFY(row(1) != row(2)); // "Waiting…" and "Building…"
    QVERIFY(row(0) == row(3)); // enabled again
}

QDISTLOCK_TEST_MAIN(QGuiApplication, TestLockedAction)

#include "tst_lockedaction.moc"
