// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

#include "support/redisserver.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockRegistry>

#include <QtCore/qdir.h>
#include <QtCore/qpointer.h>
#include <QtGui/qaccessible.h>
#include <QtGui/qfontinfo.h>
#include <QtQml/qqmlapplicationengine.h>
#include <QtQml/qqmlcomponent.h>
#include <QtQuick/qquickitem.h>
#include <QtQuick/qquickwindow.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <functional>
#include <memory>

using namespace QDistLock;
using Support::RedisServer;

constexpr int Patience = 20000;

/*!
    LockStatus and the example, in windows nobody sees; what they look like is kept as pictures in
    PICTURE_DIR.
*/
class TestLockStatus : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void withoutALock();
    void eachState();
    void errors_data();
    void errors();
    void lossWhileAcquiring_data();
    void lossWhileAcquiring();
    void noConnection();
    void serverAwayForAWhile_data();
    void serverAwayForAWhile();
    void lockMadeInCpp();
    void looksOnlyWhileVisible();
    void followsFontAndWidth();
    void accessible();
    void exampleInItsStates();

private:
    bool load(const QByteArray &lockProperties);
    QString show(const char *property) const { return m_light->property(property).toString(); }
    QString phase() const { return show("phase"); }
    void take(const QString &name);
    QByteArray url() const { return m_server.url().toEncoded(); }

    RedisServer m_server;
    QByteArray m_name;
    QByteArray m_key;
    int m_count = 0;
    std::unique_ptr<QQmlEngine> m_engine;
    std::unique_ptr<QQuickWindow> m_window;
    QQuickItem *m_light = nullptr;
    QPointer<DistributedLock> m_lock;
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

/// One lock, shown on light and on dark.
bool TestLockStatus::load(const QByteArray &lockProperties)
{
    m_window.reset();
    m_engine = std::make_unique<QQmlEngine>();
    m_engine->addImportPath(QStringLiteral(QML_MODULE_DIR));
    connect(m_engine.get(), &QQmlEngine::warnings, this, [this](const QList<QQmlError> &errors) {
        for (const QQmlError &error : errors)
            m_warnings += error.toString();
    });
    QQmlComponent component(m_engine.get());
    component.setData(
            "import QtQuick\n"
            "import QDistLock\n"
            "Window {\n"
            "    id: window\n"
            "    property DistributedLockBase lock: ownLock\n"
            "    property var ownLock: DistributedLock {\n"
            "        name: '"
                    + m_name + "'; server: '" + url() + "'\n" + lockProperties
                    + "\n"
                      "    }\n"
                      "    width: 640; height: 110; visible: true\n"
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

/// What was painted is no picture before the frame after the change.
void TestLockStatus::take(const QString &name)
{
    m_window->grabWindow();
    QCoreApplication::processEvents();
    m_picture = m_window->grabWindow();
    QVERIFY(!m_picture.isNull());
    QVERIFY(m_picture.save(QStringLiteral(PICTURE_DIR "/%1.png").arg(name)));
}

void TestLockStatus::withoutALock()
{
    QVERIFY(load(""));
    m_window->setProperty("lock", QVariant::fromValue<DistributedLock *>(nullptr));
    QCOMPARE(phase(), QStringLiteral("none"));
    QCOMPARE(show("text"), QStringLiteral("No lock"));
    take(QStringLiteral("status-none"));
}

void TestLockStatus::eachState()
{
    QVERIFY(load("lease: 6000; retryInterval: 50"));
    QCOMPARE(phase(), QStringLiteral("unlocked"));
    QCOMPARE(show("text"), QStringLiteral("Unlocked"));
    QList<QImage> pictures;
    const auto taken = [&](const char *name) {
        take(QLatin1String(name));
        pictures.append(m_picture);
    };
    taken("status-unlocked");

    QCOMPARE(m_server.cli({"SET", m_key, "foreign", "PX", "60000"}), QByteArrayLiteral("OK"));
    m_lock->setProperty("active", true);
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("acquiring"), Patience);
    taken("status-acquiring");

    m_server.cli({"DEL", m_key});
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("held"), Patience);
    QTRY_VERIFY(show("detail").contains(QLatin1String("s left")));
    taken("status-held");

    m_server.pause();
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("atRisk"), Patience);
    QVERIFY(show("detail").contains(QLatin1String("not renewed")));
    taken("status-atrisk");

    m_lock->setProperty("active", false);
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("releasing"), Patience);
    taken("status-releasing");
    m_server.resume();
    QTRY_COMPARE_WITH_TIMEOUT(m_lock->state(), DistributedLock::Unlocked, Patience);

    QSignalSpy lost(m_lock.data(), &DistributedLock::lost);
    m_lock->acquireAsync();
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("held"), Patience);
    QCOMPARE(m_server.cli({"DEL", m_key}), QByteArrayLiteral("1"));
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QCOMPARE(phase(), QStringLiteral("lost"));
    QVERIFY(show("detail").contains(QLatin1String("deleted")));
    taken("status-lost");

    for (qsizetype i = 0; i < pictures.size(); ++i) {
        for (qsizetype j = 0; j < i; ++j)
            QVERIFY2(pictures[i] != pictures[j], "two states look the same");
    }
}

void TestLockStatus::errors_data()
{
    QTest::addColumn<QByteArrayList>("command");
    QTest::addColumn<QByteArray>("properties");
    QTest::addColumn<QString>("text");
    QTest::newRow("busy") << QByteArrayList{"SET", "KEY", "foreign", "PX", "60000"}
                          << QByteArray("wait: 0") << "Busy";
    QTest::newRow("timeout") << QByteArrayList{"SET", "KEY", "foreign", "PX", "60000"}
                             << QByteArray("wait: 100") << "Timed out";
    QTest::newRow("type") << QByteArrayList{"RPUSH", "KEY", "x"} << QByteArray()
                          << "Key of another type";
    QTest::newRow("name") << QByteArrayList{"PING"}
                          << QByteArray("Component.onCompleted: name = ''") << "Unusable name";
    QTest::newRow("options") << QByteArrayList{"PING"} << QByteArray("lease: -1")
                             << "Unusable option";
    QTest::newRow("connection")
            << QByteArrayList{"PING"}
            << QByteArray("wait: 300; Component.onCompleted: server = 'redis://127.0.0.1:1'")
            << "No connection";
}

void TestLockStatus::errors()
{
    QFETCH(QByteArrayList, command);
    QFETCH(QByteArray, properties);
    QFETCH(QString, text);
    for (QByteArray &argument : command) {
        if (argument == "KEY")
            argument = m_key;
    }
    m_server.cli(command);
    QVERIFY(load(properties));
    // The element's own acquire(): it waits for the changed name or server.
    QVERIFY(QMetaObject::invokeMethod(m_lock.data(), "acquire"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("error"), Patience);
    QCOMPARE(show("text"), text);
    QCOMPARE(show("detail"), m_lock->errorString());
    QVERIFY(!show("detail").isEmpty());
    take(QStringLiteral("status-error-%1").arg(QLatin1String(QTest::currentDataTag())));
}

void TestLockStatus::lossWhileAcquiring_data()
{
    QTest::addColumn<bool>("deleted");
    QTest::newRow("stolen") << false;
    QTest::newRow("deleted") << true;
}

void TestLockStatus::lossWhileAcquiring()
{
    QFETCH(bool, deleted);
    QVERIFY(load("lease: 1500; active: true"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("held"), Patience);
    const auto steal = [this] { m_server.cli({"SET", m_key, "thief", "PX", "60000"}); };
    connect(m_lock, &DistributedLock::lost, this, steal);
    if (deleted)
        m_server.cli({"DEL", m_key});
    else
        steal();
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("acquiring"), Patience);
    QTRY_COMPARE(show("detail"), deleted ? QStringLiteral("after a loss: it was deleted on the server")
                                         : QStringLiteral("after a loss: somebody else has it"));
    QCOMPARE(show("text"), QStringLiteral("Waiting"));
    take(QStringLiteral("status-acquiring-after-loss"));
}

/// Nobody answers, and the lock goes on trying.
void TestLockStatus::noConnection()
{
    QVERIFY(load("active: true; Component.onCompleted: server = 'redis://127.0.0.1:1'"));
    QTRY_COMPARE_WITH_TIMEOUT(show("text"), QStringLiteral("No connection"), Patience);
    QCOMPARE(m_lock->state(), DistributedLock::Acquiring);
    QCOMPARE(phase(), QStringLiteral("acquiring"));
    QCOMPARE(show("detail"), m_lock->errorString());
    QVERIFY2(show("detail").contains(QLatin1String("redis://127.0.0.1:1")), qPrintable(show("detail")));
    QAccessibleInterface *interface = QAccessible::queryAccessibleInterface(m_light);
    QVERIFY(interface);
    QCOMPARE(interface->text(QAccessible::Description), m_lock->errorString());
    take(QStringLiteral("status-no-connection"));
}

void TestLockStatus::serverAwayForAWhile_data()
{
    QTest::addColumn<bool>("taken");
    QTest::newRow("waiting") << true;
    QTest::newRow("held") << false;
}

void TestLockStatus::serverAwayForAWhile()
{
    QFETCH(bool, taken);
    RedisServer::Options options;
    options.appendOnly = true;
    RedisServer server(options);
    QVERIFY2(server.start(), qPrintable(server.errorString()));
    if (taken)
        QCOMPARE(server.cli({"SET", m_key, "foreign", "PX", "600000"}), QByteArrayLiteral("OK"));
    QVERIFY(load("lease: 60000; active: true; Component.onCompleted: server = '" + server.url().toEncoded() + "'"));
    const QString text = taken ? QStringLiteral("Waiting") : QStringLiteral("Held");
    QTRY_COMPARE_WITH_TIMEOUT(phase(), taken ? QStringLiteral("acquiring") : QStringLiteral("held"), Patience);
    QTRY_VERIFY(taken || show("detail") == QLatin1String("60 s left"));

    server.stop();
    if (taken) {
        QTRY_COMPARE_WITH_TIMEOUT(show("text"), QStringLiteral("No connection"), Patience);
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
    LockRegistry registry(QUrl(QStringLiteral("memory:lockstatus")));
    DistributedLock *lock = registry.obtain(QStringLiteral("made in C++"));
    m_window->setProperty("lock", QVariant::fromValue(lock));
    lock->acquire();
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("held"), Patience);
    delete lock;
    QTRY_COMPARE(phase(), QStringLiteral("none"));
}

void TestLockStatus::looksOnlyWhileVisible()
{
    QVERIFY(load("active: true"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("held"), Patience);
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
    QTRY_VERIFY(m_light->implicitHeight() > 2 * height);
    QVERIFY(m_light->implicitWidth() > 2 * width);
    m_light->setProperty("textVisible", false);
    QTRY_COMPARE(m_light->implicitWidth(), m_light->implicitHeight());
}

void TestLockStatus::accessible()
{
    QVERIFY(load("active: true"));
    QTRY_COMPARE_WITH_TIMEOUT(phase(), QStringLiteral("held"), Patience);
    QAccessibleInterface *interface = QAccessible::queryAccessibleInterface(m_light);
    QVERIFY(interface);
    QCOMPARE(interface->text(QAccessible::Name), QString::fromLatin1("Lock " + m_name + ": Held"));
    QCOMPARE(interface->role(), QAccessible::Indicator);

    // Percent signs of the name are not place markers.
    m_name = "orders%2F7 %1";
    QVERIFY(load(""));
    interface = QAccessible::queryAccessibleInterface(m_light);
    QVERIFY(interface);
    QCOMPARE(interface->text(QAccessible::Name), QStringLiteral("Lock orders%2F7 %1: Unlocked"));
}

void TestLockStatus::exampleInItsStates()
{
    auto engine = std::make_unique<QQmlApplicationEngine>();
    engine->addImportPath(QStringLiteral(QML_MODULE_DIR));
    connect(engine.get(), &QQmlEngine::warnings, this, [this](const QList<QQmlError> &errors) {
        for (const QQmlError &error : errors)
            m_warnings += error.toString();
    });
    engine->setInitialProperties({{QStringLiteral("server"), m_server.url().toString()},
                                  {QStringLiteral("lockName"), QString::fromLatin1(m_name)},
                                  {QStringLiteral("lease"), 4500}});
    engine->load(QUrl::fromLocalFile(QStringLiteral(EXAMPLE_DIR "/Main.qml")));
    QCOMPARE(engine->rootObjects().size(), 1);
    m_window.reset(qobject_cast<QQuickWindow *>(engine->rootObjects().constFirst()));
    m_engine = std::move(engine);
    QVERIFY(m_window);
    QVERIFY(QTest::qWaitForWindowExposed(m_window.get()));

    QList<QQuickItem *> cards;
    const std::function<void(QQuickItem *)> collect = [&](QQuickItem *item) {
        if (item->property("lockName").isValid())
            cards.append(item);
        const auto children = item->childItems();
        for (QQuickItem *child : children)
            collect(child);
    };
    collect(m_window->contentItem());
    QCOMPARE(cards.size(), 3);
    QList<DistributedLock *> locks;
    for (QQuickItem *card : std::as_const(cards))
        locks.append(card->property("lock").value<DistributedLock *>());

    const auto click = [this](QQuickItem *card, const QString &text) {
        QQuickItem *button = nullptr;
        const std::function<void(QQuickItem *)> find = [&](QQuickItem *item) {
            if (item->property("text").toString().startsWith(text)
                && item->inherits("QQuickRectangle"))
                button = item;
            const auto children = item->childItems();
            for (QQuickItem *child : children)
                find(child);
        };
        find(card);
        QVERIFY2(button, qPrintable(text));
        QTest::mouseClick(
                m_window.get(), Qt::LeftButton, {},
                button->mapToScene(QPointF(button->width() / 2, button->height() / 2)).toPoint());
    };

    take(QStringLiteral("example-unlocked"));
    click(cards[0], QStringLiteral("Acquire"));
    QTRY_VERIFY_WITH_TIMEOUT(locks[0]->isHeld(), Patience);
    click(cards[1], QStringLiteral("Keep"));
    click(cards[2], QStringLiteral("Acquire"));
    QTRY_COMPARE_WITH_TIMEOUT(locks[1]->state(), DistributedLock::Acquiring, Patience);
    QTRY_COMPARE_WITH_TIMEOUT(locks[2]->state(), DistributedLock::Acquiring, Patience);
    take(QStringLiteral("example-contended"));

    click(cards[2], QStringLiteral("Release"));
    QTRY_COMPARE_WITH_TIMEOUT(locks[2]->state(), DistributedLock::Unlocked, Patience);
    QSignalSpy lost(locks[0], &DistributedLock::lost);
    click(cards[2], QStringLiteral("Force release"));
    QTRY_COMPARE_WITH_TIMEOUT(lost.count(), 1, Patience);
    QCOMPARE(lost.first().first().value<DistributedLock::LossReason>(),
             DistributedLock::ForcedRelease);
    QTRY_VERIFY_WITH_TIMEOUT(locks[1]->isHeld(), Patience);
    take(QStringLiteral("example-lost"));

    m_server.pause();
    QTRY_COMPARE_WITH_TIMEOUT(locks[1]->state(), DistributedLock::AtRisk, Patience);
    take(QStringLiteral("example-atrisk"));
    QTRY_VERIFY_WITH_TIMEOUT(!locks[1]->isHeld(), Patience);
    m_server.resume();
    QTRY_VERIFY_WITH_TIMEOUT(locks[1]->isHeld(), Patience);
    QVERIFY(cards[1]->property("keep").toBool());
    click(cards[1], QStringLiteral("Keep"));
    QTRY_COMPARE_WITH_TIMEOUT(locks[1]->state(), DistributedLock::Unlocked, Patience);

    QCOMPARE(m_server.cli({"RPUSH", m_key, "something else"}), QByteArrayLiteral("1"));
    click(cards[0], QStringLiteral("Acquire"));
    QTRY_COMPARE_WITH_TIMEOUT(locks[0]->error(), DistributedLock::ForeignTypeError, Patience);
    take(QStringLiteral("example-error"));
}

QTEST_MAIN(TestLockStatus)

#include "tst_lockstatus.moc"
