// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "qmltesting.h"

#include "support/redisserver.h"
#include "support/rows.h"
#include "support/testkinds.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>
#include <QDistLock/MultiLock>

#include <QtCore/qdir.h>
#include <QtCore/qpointer.h>
#include <QtCore/qregularexpression.h>
#include <QtCore/qscopeguard.h>
#include <QtGui/qaccessible.h>
#include <QtGui/qfontinfo.h>
#include <QtGui/qguiapplication.h>
#include <QtGui/qpainter.h>
#include <QtGui/qpalette.h>
#include <QtQml/qqmlapplicationengine.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQuick/qquickitem.h>
#include <QtQuick/qquickwindow.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <functional>
#include <memory>

using namespace Qt::StringLiterals;

using namespace QDistLock;
using QmlTesting::Patience;
using Support::RedisServer;

/*!
    LockStatus and the example 03 in windows. Pictures of all states are kept in PICTURE_DIR.
*/
class TestLockStatus : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void withoutALock();
    TIMING void eachState();
    void errors_data();
    void errors();
    TIMING void timedOut();
    void lossWhileAcquiring_data() { Support::addRows<bool>("deleted", {{"stolen", false}, {"deleted", true}}); }
    void lossWhileAcquiring();
    void noConnection();
    void serverAwayForAWhile_data() { Support::addRows<bool>("taken", {{"waiting", true}, {"held", false}}); }
    void serverAwayForAWhile();
    void lockMadeInCpp();
    void severalLocks();
    void severalLocksMadeInCpp();
    void readWriteLock();
    void noLockAtAll();
    void pollsOnlyWhileVisible();
    void followsFontAndWidth();
    void accessible();
    void exampleInItsStates();
    TIMING void exampleAtRisk();
    void exampleFitsFontAndColours_data();
    void exampleFitsFontAndColours();

private:
    void showError(QByteArrayList command, const QByteArray &properties, const QString &text);
    void takeAway(const QList<QByteArray> &command);
    bool loadExample(const QString &server, int lease);
    QQuickItem *findButton(QQuickItem *card, const QString &text) const;
    void click(QQuickItem *button);
    bool load(const QByteArray &lockProperties);
    QString show(const char *property) const { return m_light->property(property).toString(); }
    QString phase() const { return show("phase"); }
    void take(const QString &name);
    /// A LockStatus of this lock, with what it says.
    static QByteArray statusOf(const QByteArray &lock)
    {
        return "import QtQuick\n"
               "Item {\n"
               "    property QtObject lock: "
                + lock
                + "\n"
                  "    property string phase: status.phase\n"
                  "    property string detail: status.detail\n"
                  "    property string accessibleName: status.Accessible.name\n"
                  "    LockStatus { id: status; lock: parent.lock }\n"
                  "}\n";
    }
    QByteArray url() const { return m_server.url().toEncoded(); }

    RedisServer m_server;
    QByteArray m_name;
    QByteArray m_key;
    int m_count = 0;
    std::unique_ptr<QQmlEngine> m_engine;
    std::unique_ptr<QQuickWindow> m_window;
    QQuickItem *m_light = nullptr;
    QPointer<DistributedLock> m_lock;
    QList<QQuickItem *> m_cards; ///< of the example
    QList<DistributedLock *> m_locks;
    QImage m_picture;
    QStringList m_warnings;
};

void TestLockStatus::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    QVERIFY(QDir().mkpath(QStringLiteral(PICTURE_DIR)));
}

void TestLockStatus::init()
{
    m_name = "report:" + QByteArray::number(++m_count);
    m_key = "lock:" + m_name;
    m_warnings.clear();
}

void TestLockStatus::cleanup()
{
    m_server.resume();
    m_window.reset();
    m_engine.reset();
    QCOMPARE(m_warnings, QStringList());
}

/// Loads one lock with two LockStatus items, on a light and on a dark background.
bool TestLockStatus::load(const QByteArray &lockProperties)
{
    m_window.reset();
    m_engine = QmlTesting::makeEngine(&m_warnings);
    QQmlComponent component(m_engine.get());
    component.setData("import QtQuick\n"
                      "import QDistLock\n"
                      "Window {\n"
                      "    id: window\n"
                      "    property DistributedLockBase lock: ownLock\n"
                      "    property var ownLock: DistributedLock {\n"
                      "        name: '"
                              + m_name + "'; server: '" + url() + "'\n" + lockProperties
                              + "\n"
                                "    }\n"
                                "    width: 760; height: 110; visible: true\n"
                                "    Row {\n"
                                "        Repeater {\n"
                                "            model: [['#fafafa', '#202124'], ['#202124', '#f1f3f4']]\n"
                                "            Rectangle {\n"
                                "                required property var modelData\n"
                                "                property alias status: status\n"
                                "                width: window.width / 2; height: window.height; color: "
                                "modelData[0]\n"
                                "                palette.window: modelData[0]; palette.windowText: "
                                "modelData[1]\n"
                                "                LockStatus {\n"
                                "                    id: status\n"
                                "                    lock: window.lock\n"
                                "                    anchors { fill: parent; margins: 16 }\n"
                                "                }\n"
                                "            }\n"
                                "        }\n"
                                "    }\n"
                                "}\n",
                      QUrl());
    m_window.reset(qobject_cast<QQuickWindow *>(component.create()));
    if (!m_window) {
        qWarning().noquote() << component.errorString();
        return false;
    }
    const auto items = m_window->contentItem()->findChildren<QQuickItem *>();
    m_light = nullptr;
    for (QQuickItem *item : items) {
        if (!m_light && item->property("status").value<QQuickItem *>())
            m_light = item->property("status").value<QQuickItem *>();
    }
    if (!m_light) { // the children of positioners have no QObject parent
        const QQuickItem *row = m_window->contentItem()->childItems().constFirst();
        m_light = row->childItems().constFirst()->property("status").value<QQuickItem *>();
    }
    m_lock = m_window->property("lock").value<DistributedLock *>();
    return m_light && m_lock && QTest::qWaitForWindowExposed(m_window.get());
}

/// Saves a picture. Canvas items paint only after the first frame that follows a change, so this renders two frames.
void TestLockStatus::take(const QString &name)
{
    m_window->grabWindow();
    QCoreApplication::processEvents();
    m_picture = m_window->grabWindow();
    QVERIFY(!m_picture.isNull());
    QVERIFY(m_picture.save(QStringLiteral(PICTURE_DIR "/%1.png").arg(name)));
}

/// Takes the lock away by \a command, and lets its holder notice that.
void TestLockStatus::takeAway(const QList<QByteArray> &command)
{
    m_server.command(command);
    QmlTesting::reconnectAll(m_server);
}

void TestLockStatus::withoutALock()
{
    QVERIFY(load(""));
    m_window->setProperty("lock", QVariant::fromValue<DistributedLock *>(nullptr));
    QCOMPARE(phase(), u"none"_s);
    QCOMPARE(show("text"), u"No lock"_s);
    take(u"status-none"_s);
}

void TestLockStatus::eachState()
{
    Support::leavesRoomFor(std::chrono::milliseconds(500)); // it is at risk for a third of the lease
    m_name = "report:daily";                                // shown in the picture of the README
    m_key = "lock:" + m_name;
    QVERIFY(load("lease: 3000; retryInterval: 50"));
    QCOMPARE(phase(), u"unlocked"_s);
    QCOMPARE(show("text"), u"Unlocked"_s);
    QList<QImage> pictures;
    const auto taken = [&](const char *name) {
        take(QLatin1String(name));
        pictures.append(m_picture);
    };
    taken("status-unlocked");

    QCOMPARE(m_server.cli({"SET", m_key, "foreign", "PX", "60000"}), QByteArrayLiteral("OK"));
    m_lock->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"acquiring"_s, Patience);
    taken("status-acquiring");

    m_server.cli({"DEL", m_key});
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"held"_s, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(show("detail").contains(QLatin1String("s left")), Patience);
    taken("status-held");

    m_server.pause();
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"atRisk"_s, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(show("detail").contains(QLatin1String("not renewed, No connection")), Patience);
    taken("status-atrisk");

    m_lock->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"releasing"_s, Patience);
    taken("status-releasing");
    m_server.resume();
    QTRY_COMPARE_WITH_TIMEOUT(m_lock->state(), DistributedLock::Unlocked, Patience);

    QSignalSpy lost(m_lock.data(), &DistributedLock::lost);
    m_lock->acquireAsync();
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"held"_s, Patience);
    takeAway({"DEL", m_key});
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QCOMPARE(phase(), u"lost"_s);
    QVERIFY(show("detail").contains(QLatin1String("deleted")));
    taken("status-lost");

    for (qsizetype i = 0; i < pictures.size(); ++i) {
        for (qsizetype j = 0; j < i; ++j)
            QVERIFY2(pictures[i] != pictures[j], "two states look the same");
    }

    // tools/picture copies this one to docs/.
    const int height = qRound((m_light->implicitHeight() + 32) * m_window->effectiveDevicePixelRatio());
    QImage together(pictures[0].width(), height * int(pictures.size()), pictures[0].format());
    QPainter painter(&together);
    for (int i = 0; i < int(pictures.size()); ++i) {
        pictures[i].setDevicePixelRatio(1);
        painter.drawImage(0, i * height, pictures[i], 0, 0, -1, height);
    }
    painter.end();
    QVERIFY(together.save(QStringLiteral(PICTURE_DIR "/lockstatus.png"), "PNG", 0)); // the smallest file
}

void TestLockStatus::errors_data()
{
    Support::addColumns<QByteArrayList, QByteArray, QString>("command", "properties", "text");
    QTest::newRow("busy") << QByteArrayList{"SET", "KEY", "foreign", "PX", "60000"} << QByteArray("wait: 0") << "Busy";
    QTest::newRow("type") << QByteArrayList{"RPUSH", "KEY", "x"} << QByteArray() << "Key of another type";
    QTest::newRow("name") << QByteArrayList{"PING"} << QByteArray("Component.onCompleted: name = ''")
                          << "Unusable name";
    QTest::newRow("options") << QByteArrayList{"PING"} << QByteArray("lease: -1") << "Unusable option";
    QTest::newRow("connection") << QByteArrayList{"PING"}
                                << QByteArray("wait: 0; Component.onCompleted: server = 'redis://127.0.0.1:1'")
                                << "No connection";
}

void TestLockStatus::errors()
{
    QFETCH(QByteArrayList, command);
    QFETCH(QByteArray, properties);
    QFETCH(QString, text);
    showError(command, properties, text);
    take(u"status-error-%1"_s.arg(QLatin1String(QTest::currentDataTag())));
}

void TestLockStatus::timedOut()
{
    Support::leavesRoomFor(std::chrono::milliseconds(70)); // the server must have answered by then
    showError({"SET", "KEY", "foreign", "PX", "60000"}, "wait: 100", u"Timed out"_s);
    take(u"status-error-timeout"_s);
}

void TestLockStatus::showError(QByteArrayList command, const QByteArray &properties, const QString &text)
{
    for (QByteArray &argument : command) {
        if (argument == "KEY")
            argument = m_key;
    }
    m_server.cli(command);
    QVERIFY(load(properties));
    // acquire() of the QML element, which waits until the changed name or server is applied.
    QVERIFY(QMetaObject::invokeMethod(m_lock.data(), "acquire"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"error"_s, Patience);
    QCOMPARE(show("text"), text);
    QCOMPARE(show("detail"), m_lock->errorString());
    QVERIFY(!show("detail").isEmpty());
}

void TestLockStatus::lossWhileAcquiring()
{
    QFETCH(bool, deleted);
    QVERIFY(load("active: true"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"held"_s, Patience);
    const QList<QByteArray> steal{"SET", m_key, "thief", "PX", "600000"};
    connect(m_lock, &DistributedLock::lost, this, [this, steal] { m_server.command(steal); });
    takeAway(deleted ? QList<QByteArray>{"DEL", m_key} : steal);
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"acquiring"_s, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(show("detail"),
                              deleted ? u"after a loss: it was deleted on the server"_s
                                      : u"after a loss: somebody else holds it"_s,
                              Patience);
    QCOMPARE(show("text"), u"Waiting"_s);
    take(u"status-acquiring-after-loss"_s);
}

/// The server cannot be reached, and the lock keeps trying.
void TestLockStatus::noConnection()
{
    QVERIFY(load("active: true; Component.onCompleted: server = 'redis://127.0.0.1:1'"));
    QTRY_COMPARE_WITH_TIMEOUT(show("text"), u"No connection"_s, Patience);
    QCOMPARE(m_lock->state(), DistributedLock::Acquiring);
    QCOMPARE(phase(), u"acquiring"_s);
    QCOMPARE(show("detail"), m_lock->errorString());
    QVERIFY2(show("detail").contains(QLatin1String("redis://127.0.0.1:1")), qPrintable(show("detail")));
    QAccessibleInterface *interface = QAccessible::queryAccessibleInterface(m_light);
    QVERIFY(interface);
    QCOMPARE(interface->text(QAccessible::Description), m_lock->errorString());
    take(u"status-no-connection"_s);
}

void TestLockStatus::serverAwayForAWhile()
{
    QFETCH(bool, taken);
    RedisServer::Options options;
    options.appendOnly = true;
    Support::Started<RedisServer> server(options);
    if (taken)
        QCOMPARE(server.cli({"SET", m_key, "foreign", "PX", "600000"}), QByteArrayLiteral("OK"));
    QVERIFY(load("lease: 60000; active: true; Component.onCompleted: server = '" + server.url().toEncoded() + "'"));
    const QString text = taken ? u"Waiting"_s : u"Held"_s;
    QTRY_COMPARE_WITH_TIMEOUT(phase(), taken ? u"acquiring"_s : u"held"_s, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(taken || show("detail") == QLatin1String("60 s left"), Patience);

    server.stop();
    if (taken) {
        QTRY_COMPARE_WITH_TIMEOUT(show("text"), u"No connection"_s, Patience);
        QCOMPARE(show("detail"), m_lock->errorString());
    } else {
        QTRY_VERIFY_WITH_TIMEOUT(show("detail").startsWith(QLatin1String("No connection, ")), Patience);
        QVERIFY(show("detail").contains(QLatin1String("s left")));
        QCOMPARE(show("text"), text);
    }
    QVERIFY(m_lock->errorString().contains(server.url().toString()));

    QVERIFY2(server.start(), qPrintable(server.errorString()));
    QTRY_COMPARE_WITH_TIMEOUT(show("text"), text, Patience);
    QTRY_VERIFY_WITH_TIMEOUT(!show("detail").contains(QLatin1String("No connection")), Patience);
    QCOMPARE(m_lock->error(), DistributedLock::NoError);
}

void TestLockStatus::lockMadeInCpp()
{
    QVERIFY(load(""));
    LockRegistry registry(QUrl(u"memory:lockstatus"_s));
    DistributedLock *lock = registry.obtain(u"made in C++"_s);
    m_window->setProperty("lock", QVariant::fromValue(lock));
    lock->acquire();
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"held"_s, Patience);
    delete lock;
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"none"_s, Patience);
}

void TestLockStatus::severalLocks()
{
    QmlTesting::Scene scene(statusOf("MultiLock { names: ['" + m_name + "', 'other']; server: '" + url()
                                     + "'; wait: 60000; lease: 77000 }"));
    QVERIFY(scene.root());
    const auto shown = [&scene](const char *property) { return scene.root()->property(property).toString(); };
    QObject *const lock = scene.root()->property("lock").value<QObject *>();
    QCOMPARE(shown("phase"), u"unlocked"_s);
    QCOMPARE(shown("accessibleName"), u"Lock %1, other: Unlocked"_s.arg(QString::fromLatin1(m_name)));
    lock->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(shown("phase"), u"held"_s, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(shown("detail"), u"77 s left"_s, Patience);
    m_server.command({"SET", "lock:third", "foreign"});
    lock->setProperty("names", QStringList{u"third"_s});
    QTRY_COMPARE_WITH_TIMEOUT(shown("phase"), u"acquiring"_s, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(shown("accessibleName"), u"Lock third: Waiting"_s, Patience);
    m_server.cli({"DEL", "lock:third"});
    QTRY_COMPARE_WITH_TIMEOUT(shown("phase"), u"held"_s, Patience);
    // `active` acquires it again at once, which must wait.
    m_server.command({"SET", "lock:third", "foreign"});
    QmlTesting::reconnectAll(m_server);
    QTRY_COMPARE_WITH_TIMEOUT(shown("detail"), u"after a loss: somebody else holds it (third)"_s, Patience);
}

void TestLockStatus::severalLocksMadeInCpp()
{
    QmlTesting::Scene scene(statusOf("null"));
    QVERIFY(scene.root());
    MultiLock lock(LockRegistry::instance(m_server.url()), {u"b"_s, u"a"_s});
    scene.root()->setProperty("lock", QVariant::fromValue<QObject *>(&lock));
    QCOMPARE(scene.root()->property("accessibleName").toString(), u"Lock a, b: Unlocked"_s);
    lock.acquire();
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("phase").toString(), u"held"_s, Patience);
    m_server.command({"DEL", "lock:b"});
    QmlTesting::reconnectAll(m_server);
    QTRY_COMPARE_WITH_TIMEOUT(scene.root()->property("phase").toString(), u"lost"_s, Patience);
    QCOMPARE(scene.root()->property("detail").toString(), u"it was deleted on the server (b)"_s);
    DistributedLock other(LockRegistry::instance(m_server.url()), u"c"_s);
    scene.root()->setProperty("lock", QVariant::fromValue<QObject *>(&other));
    QCOMPARE(scene.root()->property("phase").toString(), u"unlocked"_s); // the loss was that of the former one
}

/// The lock in use, or the last one that was.
void TestLockStatus::readWriteLock()
{
    QmlTesting::Scene scene(
            statusOf("ReadWriteLock { name: '" + m_name + "'; server: '" + url() + "'; read.active: true }"));
    QVERIFY(scene.root());
    const auto shown = [&scene](const char *property) { return scene.root()->property(property).toString(); };
    const QString name = QString::fromLatin1(m_name);
    QObject *const lock = scene.root()->property("lock").value<QObject *>();
    auto *const write = lock->property("write").value<DistributedLock *>();
    auto *const read = lock->property("read").value<DistributedLock *>();
    QTRY_COMPARE_WITH_TIMEOUT(shown("accessibleName"), u"Lock %1 (read): Held"_s.arg(name), Patience);
    read->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(shown("accessibleName"), u"Lock %1: Unlocked"_s.arg(name), Patience);
    m_server.command({"SET", m_key, "foreign"});
    write->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(shown("accessibleName"), u"Lock %1 (write): Waiting"_s.arg(name), Patience);
    m_server.cli({"DEL", m_key});
    QTRY_COMPARE_WITH_TIMEOUT(shown("accessibleName"), u"Lock %1 (write): Held"_s.arg(name), Patience);
    // A loss is shown, although the lock is in use no longer.
    QSignalSpy lost(write, &DistributedLock::lost);
    connect(write, &DistributedLock::lost, write, [write] { write->setProperty("active", false); });
    m_server.command({"DEL", m_key});
    QmlTesting::reconnectAll(m_server);
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(shown("accessibleName"), u"Lock %1 (write): Lost"_s.arg(name), Patience);
    read->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(shown("accessibleName"), u"Lock %1 (read): Held"_s.arg(name), Patience);
    scene.root()->setProperty("lock", QVariant::fromValue<QObject *>(nullptr));
    QCOMPARE(shown("phase"), u"none"_s);
    scene.root()->setProperty("lock", QVariant::fromValue(lock));
    QCOMPARE(shown("accessibleName"), u"Lock %1 (read): Held"_s.arg(name));
}

void TestLockStatus::noLockAtAll()
{
    QTest::ignoreMessage(QtWarningMsg, QRegularExpression(u"LockStatus cannot show .*: it is no lock"_s));
    QmlTesting::Scene scene(statusOf("Timer { }"));
    QVERIFY(scene.root());
    QCOMPARE(scene.root()->property("phase").toString(), u"none"_s);
}

void TestLockStatus::pollsOnlyWhileVisible()
{
    QVERIFY(load("active: true"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"held"_s, Patience);
    const auto running = [this] {
        const auto objects = m_light->findChildren<QObject *>();
        for (const QObject *object : objects) {
            if (object->inherits("QQmlTimer"))
                return object->property("running").toBool();
        }
        return false;
    };
    QVERIFY(running());
    m_light->setVisible(false);
    QVERIFY(!running());
    m_light->setVisible(true);
    QVERIFY(running());
}

void TestLockStatus::followsFontAndWidth()
{
    QVERIFY(load(""));
    const qreal width = m_light->implicitWidth();
    const qreal height = m_light->implicitHeight();
    QFont font = m_light->property("font").value<QFont>();
    font.setPixelSize(QFontInfo(font).pixelSize() * 3);
    m_light->setProperty("font", font);
    QTRY_VERIFY_WITH_TIMEOUT(m_light->implicitHeight() > 2 * height, Patience);
    QVERIFY(m_light->implicitWidth() > 2 * width);
    m_light->setProperty("textVisible", false);
    QTRY_COMPARE_WITH_TIMEOUT(m_light->implicitWidth(), m_light->implicitHeight(), Patience);
}

void TestLockStatus::accessible()
{
    QVERIFY(load("active: true"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), u"held"_s, Patience);
    QAccessibleInterface *interface = QAccessible::queryAccessibleInterface(m_light);
    QVERIFY(interface);
    QCOMPARE(interface->text(QAccessible::Name), QString::fromLatin1("Lock " + m_name + ": Held"));
    QCOMPARE(interface->role(), QAccessible::Indicator);

    // A percent sign in the name must not be treated as a place marker.
    m_name = "orders%2F7 %1";
    QVERIFY(load(""));
    interface = QAccessible::queryAccessibleInterface(m_light);
    QVERIFY(interface);
    QCOMPARE(interface->text(QAccessible::Name), u"Lock orders%2F7 %1: Unlocked"_s);
}

/// Calls \a visit for \a item and all items below it.
static void visitItems(QQuickItem *item, const std::function<void(QQuickItem *)> &visit)
{
    visit(item);
    const auto children = item->childItems();
    for (QQuickItem *child : children)
        visitItems(child, visit);
}

bool TestLockStatus::loadExample(const QString &server, int lease)
{
    auto engine = QmlTesting::makeEngine<QQmlApplicationEngine>(&m_warnings);
    engine->setInitialProperties(
            {{u"server"_s, server}, {u"lockName"_s, QString::fromLatin1(m_name)}, {u"lease"_s, lease}});
    engine->load(QUrl::fromLocalFile(QStringLiteral(EXAMPLE_DIR "/Main.qml")));
    m_window.reset(qobject_cast<QQuickWindow *>(engine->rootObjects().value(0)));
    m_engine = std::move(engine);
    if (!m_window || !QTest::qWaitForWindowExposed(m_window.get()))
        return false;
    m_cards.clear();
    m_locks.clear();
    visitItems(m_window->contentItem(), [this](QQuickItem *item) {
        if (item->property("lockName").isValid()) {
            m_cards.append(item);
            m_locks.append(item->property("lock").value<DistributedLock *>());
        }
    });
    return m_cards.size() == 3;
}

QQuickItem *TestLockStatus::findButton(QQuickItem *card, const QString &text) const
{
    QQuickItem *button = nullptr;
    visitItems(card, [&](QQuickItem *item) {
        if (item->property("text").toString() == text && item->inherits("QQuickRectangle"))
            button = item;
    });
    return button;
}

void TestLockStatus::click(QQuickItem *button)
{
    QVERIFY(button);
    QTest::mouseClick(m_window.get(), Qt::LeftButton, {},
                      button->mapToScene(QPointF(button->width() / 2, button->height() / 2)).toPoint());
}

void TestLockStatus::exampleInItsStates()
{
    QVERIFY(loadExample(m_server.url().toString(), 30000));
    const auto &cards = m_cards;
    const auto &locks = m_locks;
    const auto click = [this](QQuickItem *card, const QString &text) { this->click(findButton(card, text)); };

    take(u"example-unlocked"_s);
    click(cards[0], u"Acquire"_s);
    QTRY_VERIFY_WITH_TIMEOUT(locks[0]->isHeld(), Patience);
    click(cards[1], u"Keep"_s);
    click(cards[2], u"Acquire"_s);
    QTRY_COMPARE_WITH_TIMEOUT(locks[1]->state(), DistributedLock::Acquiring, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(locks[2]->state(), DistributedLock::Acquiring, Patience);
    take(u"example-contended"_s);

    click(cards[2], u"Release"_s);
    QTRY_COMPARE_WITH_TIMEOUT(locks[2]->state(), DistributedLock::Unlocked, Patience);
    QSignalSpy lost(locks[0], &DistributedLock::lost);
    click(cards[2], u"Force release"_s);
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QCOMPARE(lost.first().first().value<DistributedLock::LossReason>(), DistributedLock::ForcedRelease);
    QTRY_VERIFY_WITH_TIMEOUT(locks[1]->isHeld(), Patience);
    take(u"example-lost"_s);
    QVERIFY(cards[1]->property("keep").toBool());
    click(cards[1], u"Keep"_s);
    QTRY_COMPARE_WITH_TIMEOUT(locks[1]->state(), DistributedLock::Unlocked, Patience);

    QCOMPARE(m_server.cli({"RPUSH", m_key, "something else"}), QByteArrayLiteral("1"));
    click(cards[0], u"Acquire"_s);
    QTRY_COMPARE_WITH_TIMEOUT(locks[0]->error(), DistributedLock::ForeignTypeError, Patience);
    take(u"example-error"_s);
}

void TestLockStatus::exampleAtRisk()
{
    Support::leavesRoomFor(std::chrono::milliseconds(500)); // it is at risk for a third of the lease
    QVERIFY(loadExample(m_server.url().toString(), 2100));
    DistributedLock *const lock = m_locks[1];
    click(findButton(m_cards[1], u"Keep"_s));
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    m_server.pause();
    QTRY_COMPARE_WITH_TIMEOUT(lock->state(), DistributedLock::AtRisk, Patience);
    take(u"example-atrisk"_s);
    QTRY_VERIFY_WITH_TIMEOUT(!lock->isHeld(), Patience);
    m_server.resume();
    QTRY_VERIFY_WITH_TIMEOUT(lock->isHeld(), Patience);
    QVERIFY(m_cards[1]->property("keep").toBool());
}

void TestLockStatus::exampleFitsFontAndColours_data()
{
    Support::addColumns<int, bool>("pointSize", "dark");
    for (const int pointSize : {11, 15}) {
        for (const bool dark : {false, true}) {
            const QString name = u"%1-%2pt"_s.arg(dark ? u"dark"_s : u"light"_s).arg(pointSize);
            QTest::newRow(qPrintable(name)) << pointSize << dark;
        }
    }
}

/// No text is cut off, at the initial and at the smallest width, and the buttons do not move.
void TestLockStatus::exampleFitsFontAndColours()
{
    QFETCH(int, pointSize);
    QFETCH(bool, dark);
    const QFont oldFont = QGuiApplication::font();
    const QPalette oldPalette = QGuiApplication::palette();
    const auto restore = qScopeGuard([&] {
        QGuiApplication::setFont(oldFont);
        QGuiApplication::setPalette(oldPalette);
    });
    QFont font = oldFont;
    font.setPointSize(pointSize);
    QGuiApplication::setFont(font);
    if (dark) {
        QPalette palette(QColor(0x2d2e30), QColor(0x202124));
        palette.setColor(QPalette::Base, QColor(0x2d2e30));
        QGuiApplication::setPalette(palette);
    }

    QVERIFY(loadExample(u"memory:"_s + QString::fromLatin1(m_name), 30000));
    click(findButton(m_cards[0], u"Acquire"_s));
    QTRY_VERIFY_WITH_TIMEOUT(m_locks[0]->isHeld(), Patience);
    const qreal left = findButton(m_cards[1], u"Force release"_s)->x();
    click(findButton(m_cards[1], u"Keep"_s));
    QTRY_COMPARE_WITH_TIMEOUT(m_locks[1]->state(), DistributedLock::Acquiring, Patience);
    QCOMPARE(findButton(m_cards[1], u"Force release"_s)->x(), left);
    m_cards[2]->setProperty("server", u"redis://127.0.0.1:1"_s);
    m_locks[2]->setProperty("wait", 0); // a single attempt
    click(findButton(m_cards[2], u"Acquire"_s));
    QTRY_COMPARE_WITH_TIMEOUT(m_locks[2]->error(), DistributedLock::ConnectionError, Patience);

    for (const bool narrow : {false, true}) {
        if (narrow)
            m_window->setWidth(m_window->minimumWidth());
        take(u"example-%1%2"_s.arg(QLatin1String(QTest::currentDataTag()), narrow ? u"-narrow"_s : QString()));
        visitItems(m_window->contentItem(), [this](QQuickItem *item) {
            const QVariant truncated = item->property("truncated");
            if (!truncated.isValid() || !item->isVisible())
                return;
            const QString text = item->property("text").toString();
            QVERIFY2(!truncated.toBool(), qPrintable(text));
            for (QQuickItem *outer = item->parentItem(); outer; outer = outer->parentItem()) {
                if (outer->clip()) // the log scrolls
                    return;
                const QRectF inside = item->mapRectToItem(outer, QRectF(0, 0, item->width(), item->height()));
                QVERIFY2(m_cards.contains(outer) || outer == m_window->contentItem()
                                 ? outer->boundingRect().contains(inside)
                                 : true,
                         qPrintable(text));
            }
        });
    }
}

QDISTLOCK_TEST_MAIN(QGuiApplication, TestLockStatus)

#include "tst_lockstatus.moc"
