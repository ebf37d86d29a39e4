// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// The window of qdistlock-monitor in an X server, with mouse and keyboard.

#include "qmltesting.h"
#include "virtualdisplay.h"

#include "support/aclrules.h"
#include "support/eventually.h"
#include "support/redisserver.h"
#include "support/rows.h"
#include "support/stoppableholder.h"
#include "support/testkinds.h"

#include <QDistLock/DistributedLock>
#include <QDistLock/LockMonitorModel>
#include <QDistLock/LockRegistry>

#include <QtCore/qdir.h>
#include <QtCore/qprocess.h>
#include <QtGui/qaccessible.h>
#include <QtGui/qguiapplication.h>
#include <QtGui/qpalette.h>
#include <QtQml/qqmlapplicationengine.h>
#include <QtQuick/qquickitem.h>
#include <QtQuick/qquickwindow.h>
#include <QtTest/qsignalspy.h>
#include <QtTest/qtest.h>

#include <memory>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using namespace QDistLock;
using Support::RedisServer;

static const Support::VirtualDisplay display;

class TestMonitorWindow : public QObject
{
    Q_OBJECT

private Q_SLOTS:
    void initTestCase();
    void init();
    void cleanup();

    void shows();
    void search();
    void statuses();
    void sorting();
    void timeLeft();
    void keyboard();
    void queue();
    void reported();
    void takenAway();
    void takenAwayFromADeadHolder();
    void neverFromTheNextHolder_data();
    void neverFromTheNextHolder();
    void readers();
    void strangeNames();
    void queueOfAnotherLock();
    void hiddenBySearch();
    void notTheWrongOnes_data();
    void notTheWrongOnes();
    void refused();
    void noLocks();
    void noServer();
    void serverGoesAndComes();
    void paused();
    void manyLocks();
    void resized();
    void accessible();
    void pictures_data();
    void pictures();
    void program();
    void badOption();

private:
    void load(const QVariantMap &properties = {});
    QQuickItem *item(const QString &name) const { return find(m_window->contentItem(), name); }
    static QQuickItem *find(QQuickItem *parent, const QString &name);
    QString text(const QString &name) const
    {
        const QQuickItem *const found = item(name);
        return found && found->isVisible() ? found->property("text").toString() : QString();
    }
    QString names() const;
    QString selected() const { return m_window->property("selected").toString(); }
    QObject *dialog() const { return m_window->findChild<QObject *>(u"dialog"_s); }
    bool isDialogOpen() const { return dialog()->property("opened").toBool(); }
    QString result() const { return text(u"result"_s); }
    void click(const QString &name);
    void clickRow(const QString &lock) { click(u"row:"_s + lock); }
    void press(int key) { QTest::keyClick(m_window, Qt::Key(key)); }
    void type(const QString &text)
    {
        for (const QChar c : text)
            QTest::keyClick(m_window, c.toLatin1());
    }
    void write(const QByteArray &name, int ttl = 600'000)
    {
        QList<QByteArray> command{"SET", "lock:" + name, "foreign"};
        if (ttl > 0)
            command << "PX" << QByteArray::number(ttl);
        QCOMPARE(m_server.command(command).toByteArray(), "OK");
    }
    /// Writes a lock whose holder has no connection, as after the death of a client.
    void writeDead(const QByteArray &name);

    RedisServer m_server;
    std::unique_ptr<QQmlApplicationEngine> m_engine;
    QQuickWindow *m_window = nullptr;
    QStringList m_warnings;
};

void TestMonitorWindow::initTestCase()
{
    QVERIFY2(m_server.start(), qPrintable(m_server.errorString()));
    QVERIFY(QDir().mkpath(QStringLiteral(PICTURE_DIR)));
    QCOMPARE(QGuiApplication::platformName(), u"xcb"_s);
}

void TestMonitorWindow::init()
{
    if (!m_server.isRunning())
        QVERIFY(m_server.start());
    m_server.command({"FLUSHALL"});
}

void TestMonitorWindow::cleanup()
{
    m_window = nullptr;
    m_engine.reset();
    QCOMPARE(m_warnings, QStringList());
}

void TestMonitorWindow::load(const QVariantMap &properties)
{
    m_engine = QmlTesting::makeEngine<QQmlApplicationEngine>(&m_warnings);
    QVariantMap all = properties;
    if (!all.contains(u"server"_s))
        all.insert(u"server"_s, m_server.url().toString());
    all.insert(u"serverText"_s, m_server.url().toString());
    m_warnings.clear();
    m_engine->setInitialProperties(all);
    m_engine->load(QUrl::fromLocalFile(QStringLiteral(MONITOR_DIR "/Main.qml")));
    QCOMPARE(m_engine->rootObjects().size(), 1);
    m_window = qobject_cast<QQuickWindow *>(m_engine->rootObjects().constFirst());
    QVERIFY(m_window);
    m_window->requestActivate();
    EVENTUALLY_VERIFY(m_window->isExposed() && m_window->isActive());
    // Shorter than in the program, so that tests need less time.
    m_window->findChild<LockMonitorModel *>(u"locks"_s)->setInterval(100ms);
}

/// Also those in delegates, which have no QObject parent; not those that are hidden.
QQuickItem *TestMonitorWindow::find(QQuickItem *parent, const QString &name)
{
    for (QQuickItem *child : parent->childItems()) {
        if (child->objectName() == name && child->isVisible())
            return child;
        if (QQuickItem *const found = find(child, name))
            return found;
    }
    return nullptr;
}

QString TestMonitorWindow::names() const
{
    const auto *filter = m_window->findChild<QAbstractItemModel *>(u"shown"_s);
    QStringList names;
    for (int row = 0; row < filter->rowCount(); ++row)
        names += filter->index(row, 0).data(LockMonitorModel::Name).toString();
    return names.join(u' ');
}

void TestMonitorWindow::click(const QString &name)
{
    EVENTUALLY_VERIFY(item(name));
    QSignalSpy frames(m_window, &QQuickWindow::frameSwapped);
    m_window->update();
    EVENTUALLY_VERIFY(frames.count() > 0); // parts that came are in their places
    const QQuickItem *const target = item(name);
    QVERIFY(target);
    const QPointF middle = target->mapToScene({target->width() / 2, target->height() / 2});
    QTest::mouseClick(m_window, Qt::LeftButton, {}, middle.toPoint());
}

void TestMonitorWindow::writeDead(const QByteArray &name)
{
    Support::Started<RedisServer> other;
    LockRegistry registry(other.url());
    DistributedLock lock(&registry, QString::fromLatin1(name));
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());
    m_server.command({"SET", "lock:" + name, other.get("lock:" + name), "PX", "600000"});
    for (const QByteArray &key : other.keys()) {
        if (key.endsWith(":fence"))
            m_server.command({"SET", key, other.get(key)});
    }
}

void TestMonitorWindow::shows()
{
    LockRegistry registry(m_server.url());
    DistributedLock held(&registry, u"held"_s);
    held.acquire();
    EVENTUALLY_VERIFY(held.isHeld());
    write("endless", -1);
    writeDead("dead");
    load();
    EVENTUALLY_COMPARE(names(), u"dead endless held"_s);
    EVENTUALLY_COMPARE(text(u"counts"_s), u"3 locks"_s);
    EVENTUALLY_VERIFY(item(u"chipDisconnected"_s));
    QCOMPARE(text(u"chipDisconnected"_s), u"Disconnected 1"_s);
    QCOMPARE(text(u"chipEndless"_s), u"Endless 1"_s);
    QCOMPARE(text(u"chipHeld"_s), u"Held 1"_s);
    QVERIFY(!item(u"problem"_s));
    clickRow(u"held"_s);
    QCOMPARE(selected(), u"held"_s);
    EVENTUALLY_COMPARE(text(u"name"_s), u"held"_s);
    QCOMPARE(text(u"status"_s), u"Held"_s);
    QVERIFY(text(u"holder"_s).contains(QString::number(QCoreApplication::applicationPid())));
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Nobody waits"_s);
    held.release();
    EVENTUALLY_COMPARE(text(u"status"_s), u"Free"_s);
    QVERIFY(!item(u"release"_s));
    EVENTUALLY_COMPARE(text(u"noLock"_s), u"Nobody holds held any more"_s);
}

void TestMonitorWindow::search()
{
    for (const char *const name : {"order:1", "order:2", "report"})
        write(name);
    load();
    EVENTUALLY_COMPARE(names(), u"order:1 order:2 report"_s);
    QTest::keyClick(m_window, Qt::Key_F, Qt::ControlModifier);
    type(u"ORDER:2"_s);
    QCOMPARE(names(), u"order:2"_s);
    EVENTUALLY_COMPARE(text(u"counts"_s), u"3 locks, 1 shown"_s);
    type(u"x"_s);
    QCOMPARE(names(), QString());
    EVENTUALLY_COMPARE(text(u"empty"_s), u"No lock matches the search"_s);
    press(Qt::Key_Escape);
    QCOMPARE(names(), u"order:1 order:2 report"_s);
}

void TestMonitorWindow::statuses()
{
    write("a");
    write("b", -1);
    load();
    EVENTUALLY_COMPARE(names(), u"b a"_s);
    click(u"chipForeign"_s);
    QCOMPARE(names(), u"a"_s);
    click(u"chipEndless"_s);
    QCOMPARE(names(), u"b a"_s);
    click(u"chipForeign"_s);
    QCOMPARE(names(), u"b"_s);
    click(u"chipEndless"_s);
    QCOMPARE(names(), u"b a"_s);
}

void TestMonitorWindow::sorting()
{
    write("a", 800'000);
    write("b", 900'000);
    write("c", 700'000);
    load();
    EVENTUALLY_COMPARE(names(), u"a b c"_s);
    click(u"sortTime left"_s);
    QCOMPARE(names(), u"c a b"_s);
    click(u"sortTime left"_s);
    QCOMPARE(names(), u"b a c"_s);
    click(u"sortLock"_s);
    QCOMPARE(names(), u"a b c"_s);
    click(u"sortLock"_s);
    QCOMPARE(names(), u"c b a"_s);
}

/// The bar is as long as what is left of the lease.
void TestMonitorWindow::timeLeft()
{
    write("a", 800'000);
    write("b", -1);
    load();
    EVENTUALLY_COMPARE(names(), u"b a"_s);
    EVENTUALLY_VERIFY(item(u"timeLeft:a"_s) && item(u"timeLeft:a"_s)->width() > 0);
    const double whole = item(u"timeLeft:a"_s)->width();
    m_server.command({"PEXPIRE", "lock:a", "400000"});
    EVENTUALLY_VERIFY(item(u"timeLeft:a"_s)->width() < whole * 0.55);
    QVERIFY(item(u"timeLeft:a"_s)->width() > whole * 0.3);
    QVERIFY(!item(u"timeLeft:b"_s));
}

void TestMonitorWindow::keyboard()
{
    for (int i = 100; i < 200; ++i)
        write("n" + QByteArray::number(i));
    load();
    EVENTUALLY_COMPARE(text(u"counts"_s), u"100 locks"_s);
    QTest::keyClick(m_window, Qt::Key_F, Qt::ControlModifier);
    press(Qt::Key_Down); // from the search to the table
    press(Qt::Key_Down);
    QCOMPARE(selected(), u"n100"_s);
    press(Qt::Key_Down);
    QCOMPARE(selected(), u"n101"_s);
    press(Qt::Key_Up);
    press(Qt::Key_Up);
    QCOMPARE(selected(), u"n100"_s);
    press(Qt::Key_End);
    QCOMPARE(selected(), u"n199"_s);
    EVENTUALLY_VERIFY(item(u"row:n199"_s)); // scrolled there
    press(Qt::Key_PageUp);
    QVERIFY(selected() < u"n199"_s && selected() > u"n150"_s);
    press(Qt::Key_Home);
    QCOMPARE(selected(), u"n100"_s);
    m_server.command({"DEL", "lock:n100"});
    EVENTUALLY_COMPARE(text(u"noLock"_s), u"Nobody holds n100 any more"_s);
    press(Qt::Key_Down);
    QCOMPARE(selected(), u"n101"_s);
    QVERIFY(item(u"rows"_s)->hasActiveFocus());
    press(Qt::Key_Tab);
    QVERIFY(!item(u"rows"_s)->hasActiveFocus());
    press(Qt::Key_Backtab);
    QVERIFY(item(u"rows"_s)->hasActiveFocus());
}

void TestMonitorWindow::queue()
{
    LockRegistry registry(m_server.url());
    DistributedLock holder(&registry, u"a"_s);
    holder.acquire();
    EVENTUALLY_VERIFY(holder.isHeld());
    DistributedLock waiter(&registry, u"a"_s);
    waiter.acquire();
    EVENTUALLY_COMPARE(waiter.queuePosition(), 0);
    load();
    clickRow(u"a"_s);
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Waiting: 1"_s);
    EVENTUALLY_VERIFY(text(u"waiter"_s).startsWith(u"1. "));
    QVERIFY(text(u"waiter"_s).contains(QString::number(QCoreApplication::applicationPid())));
    holder.release();
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Nobody waits"_s);
}

/// Of holds that are over before the window reads them.
void TestMonitorWindow::reported()
{
    LockRegistry registry(m_server.url());
    LockRegistry other(m_server.url());
    DistributedLock lock(&registry, u"a"_s);
    lock.setOptions(LockOptions().withLabel(u"Orders::ship"_s));
    DistributedLock short_(&other, u"a"_s);
    DistributedLock sign(&other, u"b"_s); // so that one sees when its client reports
    lock.acquire();
    sign.acquire();
    EVENTUALLY_VERIFY(lock.isHeld() && sign.isHeld());
    load();
    EVENTUALLY_COMPARE(names(), u"a b"_s);
    clickRow(u"b"_s);
    QCOMPARE(selected(), u"b"_s);
    EVENTUALLY_VERIFY(text(u"hold"_s).startsWith(u"Held for "));
    QVERIFY(!text(u"hold"_s).contains(u", in "));
    clickRow(u"a"_s);
    EVENTUALLY_VERIFY(text(u"hold"_s).endsWith(u", in Orders::ship"));
    QVERIFY(!item(u"waitTimes"_s));
    lock.release();
    for (int i = 0; i < 3; ++i) {
        short_.acquire();
        EVENTUALLY_VERIFY(short_.isHeld());
        short_.release();
        EVENTUALLY_COMPARE(short_.state(), DistributedLock::Unlocked);
    }
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());
    EVENTUALLY_VERIFY(text(u"waitTimes"_s).startsWith(u"Acquires: "));
    EVENTUALLY_VERIFY(text(u"pastHold"_s).contains(u", held it for "));
    const auto *model = m_window->findChild<LockMonitorModel *>(u"locks"_s);
    EVENTUALLY_COMPARE(model->activity(u"a"_s).wait.count(), quint64(4));
    const auto bars = [&] {
        return QAccessible::queryAccessibleInterface(item(u"waits"_s))->text(QAccessible::Description);
    };
    EVENTUALLY_VERIFY(bars().contains(u"ms: "));
    click(u"sortWait p95"_s);
    QCOMPARE(names(), u"a b"_s);
    click(u"sortWait p95"_s);
    QCOMPARE(names(), u"b a"_s);
}

/// A holder at work: one must type the name.
void TestMonitorWindow::takenAway()
{
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, u"a"_s);
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());
    QSignalSpy lost(&lock, &DistributedLock::lost);
    load();
    clickRow(u"a"_s);
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    QVERIFY(!item(u"take"_s)->isEnabled());
    type(u"b"_s);
    QVERIFY(!item(u"take"_s)->isEnabled());
    press(Qt::Key_Return);
    QVERIFY(isDialogOpen());
    click(u"cancel"_s);
    EVENTUALLY_VERIFY(!isDialogOpen());
    QVERIFY(m_server.exists("lock:a"));

    press(Qt::Key_Delete);
    EVENTUALLY_VERIFY(isDialogOpen());
    QVERIFY(!item(u"take"_s)->isEnabled()); // what was typed before is gone
    type(u"a"_s);
    QVERIFY(item(u"take"_s)->isEnabled());
    click(u"take"_s);
    EVENTUALLY_COMPARE(lost.count(), 1);
    EVENTUALLY_VERIFY(result().startsWith(u"“a” was taken away from "));
    QVERIFY(!m_server.exists("lock:a"));
}

/// One click.
void TestMonitorWindow::takenAwayFromADeadHolder()
{
    writeDead("a");
    load();
    EVENTUALLY_VERIFY(item(u"chipDisconnected"_s));
    clickRow(u"a"_s);
    EVENTUALLY_COMPARE(text(u"status"_s), u"Disconnected"_s);
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    QVERIFY(!item(u"typed"_s));
    click(u"take"_s);
    EVENTUALLY_VERIFY(result().startsWith(u"“a” was taken away from "));
    QVERIFY(!m_server.exists("lock:a"));
}

void TestMonitorWindow::neverFromTheNextHolder_data()
{
    Support::addRows<bool>("paused", {{"the dialog says so", false}, {"the server refuses", true}});
}

/// The lock passes to the next one while the dialog is open.
void TestMonitorWindow::neverFromTheNextHolder()
{
    QFETCH(bool, paused);
    LockRegistry registry(m_server.url());
    DistributedLock first(&registry, u"a"_s);
    first.acquire();
    EVENTUALLY_VERIFY(first.isHeld());
    DistributedLock second(&registry, u"a"_s);
    second.acquire();
    EVENTUALLY_COMPARE(second.queuePosition(), 0);
    load();
    clickRow(u"a"_s);
    EVENTUALLY_VERIFY(item(u"release"_s));
    if (paused)
        click(u"pause"_s);
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    type(u"a"_s);
    QVERIFY(item(u"take"_s)->isEnabled());
    first.release();
    EVENTUALLY_VERIFY(second.isHeld());
    if (!paused) {
        EVENTUALLY_VERIFY(text(u"warning"_s).startsWith(u"The lock has changed hands since."));
        QVERIFY(!item(u"take"_s)->isEnabled());
        press(Qt::Key_Return);
        QVERIFY(isDialogOpen());
        click(u"cancel"_s);
    } else {
        press(Qt::Key_Return);
        EVENTUALLY_COMPARE(result(), u"“a” has changed hands meanwhile, so nothing was done."_s);
        click(u"close"_s);
        EVENTUALLY_VERIFY(!item(u"result"_s));
    }
    QVERIFY(m_server.exists("lock:a"));
    QVERIFY(second.isHeld());
}

/// One of them may be at work: the name must be typed, and the dialog says that all lose the lock.
void TestMonitorWindow::readers()
{
    LockRegistry registry(m_server.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (int i = 0; i < 2; ++i) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, u"a"_s));
        locks.back()->setMode(LockOptions::Shared);
        locks.back()->acquire();
        EVENTUALLY_VERIFY(locks.back()->isHeld());
    }
    load();
    clickRow(u"a"_s);
    EVENTUALLY_COMPARE(text(u"holderTitle"_s), u"Readers"_s);
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    QVERIFY(text(u"warning"_s).startsWith(u"All who hold it lose it."));
    type(u"a"_s);
    press(Qt::Key_Return);
    EVENTUALLY_VERIFY(!locks.at(0)->isHeld() && !locks.at(1)->isHeld());
}

/// Names may contain anything.
void TestMonitorWindow::strangeNames()
{
    const QString strange = u"%1 <b>%2</b>\nnext line \u202e"_s + QString(900, u'x');
    LockRegistry registry(m_server.url());
    DistributedLock lock(&registry, strange);
    lock.acquire();
    EVENTUALLY_VERIFY(lock.isHeld());
    load();
    EVENTUALLY_COMPARE(names(), strange);
    clickRow(strange);
    EVENTUALLY_VERIFY(text(u"name"_s).startsWith(u"%1 <b>%2</b>\\u000anext line \\u202exxx"));
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    QVERIFY(text(u"dialogText"_s).startsWith(u"“%1 <b>%2</b>\\u000anext line \\u202exxx"));
    QVERIFY(text(u"dialogText"_s).contains(u"xxx” is held by "));
    const QQuickItem *const take = item(u"take"_s);
    QVERIFY(take->mapToScene({0, take->height()}).y() < m_window->height()); // the buttons can be reached
    item(u"typed"_s)->setProperty("text", text(u"name"_s));
    press(Qt::Key_Return);
    EVENTUALLY_VERIFY(!lock.isHeld());
}

/// "Nobody waits" is said only when the server has said so.
void TestMonitorWindow::queueOfAnotherLock()
{
    LockRegistry registry(m_server.url());
    DistributedLock holder(&registry, u"b"_s);
    holder.acquire();
    EVENTUALLY_VERIFY(holder.isHeld());
    DistributedLock waiter(&registry, u"b"_s);
    waiter.acquire();
    EVENTUALLY_COMPARE(waiter.queuePosition(), 0);
    write("a");
    load();
    clickRow(u"a"_s);
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Nobody waits"_s);
    press(Qt::Key_Down);
    QCOMPARE(selected(), u"b"_s);
    QCOMPARE(text(u"queueTitle"_s), u"Reading the queue …"_s);
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Waiting: 1"_s);
    click(u"pause"_s);
    clickRow(u"a"_s);
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"The queue was not read"_s);
}

/// Delete does not act on what the search hides.
void TestMonitorWindow::hiddenBySearch()
{
    writeDead("a");
    write("zz");
    load();
    clickRow(u"a"_s);
    EVENTUALLY_VERIFY(item(u"release"_s));
    QTest::keyClick(m_window, Qt::Key_F, Qt::ControlModifier);
    type(u"zz"_s);
    QCOMPARE(names(), u"zz"_s);
    press(Qt::Key_Down); // to the table
    press(Qt::Key_Delete);
    QVERIFY(!isDialogOpen());
    QTest::keyClick(m_window, Qt::Key_F, Qt::ControlModifier);
    press(Qt::Key_Escape);
    EVENTUALLY_COMPARE(names(), u"a zz"_s);
    press(Qt::Key_Down);
    press(Qt::Key_Delete);
    EVENTUALLY_VERIFY(isDialogOpen());
    QVERIFY(item(u"cancel"_s)->hasActiveFocus()); // not the one that does harm
}

void TestMonitorWindow::notTheWrongOnes_data()
{
    QTest::addColumn<QByteArray>("lock");
    QTest::addColumn<bool>("readOnly");
    QTest::newRow("another library has no fencing token") << "foreign"_ba << false;
    QTest::newRow("read-only") << "dead"_ba << true;
}

void TestMonitorWindow::notTheWrongOnes()
{
    QFETCH(QByteArray, lock);
    QFETCH(bool, readOnly);
    write("foreign");
    writeDead("dead");
    load({{u"readOnly"_s, readOnly}});
    EVENTUALLY_COMPARE(names(), u"dead foreign"_s);
    clickRow(QString::fromLatin1(lock));
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Nobody waits"_s);
    QVERIFY(!item(u"release"_s));
    press(Qt::Key_Delete);
    QVERIFY(!isDialogOpen());
}

/// The user for monitors in docs/acl.txt.
void TestMonitorWindow::refused()
{
    QCOMPARE(m_server.command(QByteArrayList{"ACL", "SETUSER", "lockmonitor"} + Support::aclRule("lockmonitor", "pw"))
                     .toByteArray(),
             "OK");
    writeDead("a");
    QUrl url = m_server.url();
    url.setUserName(u"lockmonitor"_s);
    url.setPassword(u"pw"_s);
    load({{u"server"_s, url.toString()}});
    QVERIFY(!m_window->title().contains(u"pw"));
    EVENTUALLY_VERIFY(item(u"chipDisconnected"_s));
    clickRow(u"a"_s);
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Nobody waits"_s);
    QVERIFY(!item(u"problem"_s));
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    click(u"take"_s);
    EVENTUALLY_VERIFY(result().contains(u"grant the user"));
    QVERIFY(!result().contains(u"pw@"));
    QVERIFY(m_server.exists("lock:a"));
}

void TestMonitorWindow::noLocks()
{
    load({{u"pattern"_s, u"x*"_s}});
    EVENTUALLY_COMPARE(text(u"empty"_s), u"Nobody holds a lock whose name matches x*"_s);
    QCOMPARE(text(u"counts"_s), u"0 locks"_s);
}

void TestMonitorWindow::noServer()
{
    const QString url = m_server.url().toString();
    m_server.stop();
    load({{u"server"_s, url}});
    EVENTUALLY_COMPARE(text(u"empty"_s), u"No locks can be shown, for the reason above"_s);
    QVERIFY(text(u"problem"_s).contains(u"is the server running there?"));
    QCOMPARE(text(u"counts"_s), QString());
}

/// The rows remain, and the window says that they are old.
void TestMonitorWindow::serverGoesAndComes()
{
    write("a");
    load();
    EVENTUALLY_COMPARE(names(), u"a"_s);
    m_server.stop();
    EVENTUALLY_VERIFY(item(u"problem"_s));
    QCOMPARE(names(), u"a"_s);
    QVERIFY(m_server.start());
    write("b");
    EVENTUALLY_VERIFY(!item(u"problem"_s));
    EVENTUALLY_COMPARE(names(), u"b"_s);
}

void TestMonitorWindow::paused()
{
    write("a");
    load();
    EVENTUALLY_COMPARE(names(), u"a"_s);
    click(u"pause"_s);
    LockRegistry registry(m_server.url());
    LockMonitorModel other(&registry);
    other.setInterval(100ms);
    write("b");
    EVENTUALLY_COMPARE(other.count(), 2);
    QCOMPARE(names(), u"a"_s);
    QVERIFY(text(u"paused"_s).startsWith(u"Paused at "));
    QVERIFY(!item(u"refresh"_s)->isEnabled());
    click(u"pause"_s);
    EVENTUALLY_VERIFY(!item(u"paused"_s));
    EVENTUALLY_COMPARE(names(), u"a b"_s);
    write("c");
    click(u"refresh"_s);
    EVENTUALLY_COMPARE(names(), u"a b c"_s);
}

void TestMonitorWindow::manyLocks()
{
    const QByteArray script = "for i = 1, 10000 do redis.call('SET', 'lock:' .. i, 'x', 'PX', 600000) end return 1";
    QVERIFY(m_server.command({"EVAL", script, "0"}).isValid());
    load();
    EVENTUALLY_COMPARE(text(u"counts"_s), u"10000 locks"_s);
    clickRow(u"1"_s);
    press(Qt::Key_End);
    QCOMPARE(selected(), u"9999"_s); // sorted as text
    EVENTUALLY_VERIFY(item(u"row:9999"_s));
    const auto *locks = m_window->findChild<LockMonitorModel *>(u"locks"_s);
    EVENTUALLY_VERIFY(locks->visibleNames().contains(u"9999"_s));
    QVERIFY(locks->visibleNames().size() < 100);
    click(u"sortTime left"_s);
    QTest::keyClick(m_window, Qt::Key_F, Qt::ControlModifier);
    type(u"999"_s);
    EVENTUALLY_COMPARE(text(u"counts"_s), u"10000 locks, 19 shown"_s);
}

/// Each part is found at each size, while rows, waiters and problems come and go.
void TestMonitorWindow::resized()
{
    write("a");
    load();
    clickRow(u"a"_s);
    const QSize smallest = m_window->minimumSize();
    for (const QSize size : {QSize(950, 500), smallest, QSize(1500, 900), smallest + QSize(60, 0), QSize(1100, 700)}) {
        m_window->resize(size);
        write("b");
        EVENTUALLY_COMPARE(names(), u"a b"_s);
        for (const QString &name : {u"search"_s, u"refresh"_s, u"pause"_s, u"table"_s, u"name"_s, u"status"_s,
                                    u"queueTitle"_s, u"counts"_s}) {
            EVENTUALLY_VERIFY(item(name));
            const QQuickItem *const part = item(name);
            EVENTUALLY_VERIFY(QRectF(0, 0, m_window->width() + 1, m_window->height() + 1)
                                      .contains(part->mapRectToScene(part->boundingRect())));
        }
        m_server.command({"DEL", "lock:b"});
        m_server.stop();
        EVENTUALLY_VERIFY(item(u"problem"_s));
        QVERIFY(m_server.start());
        write("a");
        EVENTUALLY_VERIFY(!item(u"problem"_s));
        EVENTUALLY_COMPARE(names(), u"a"_s);
    }
}

/// Whatever can have the focus has a name for screen readers.
void TestMonitorWindow::accessible()
{
    writeDead("a");
    load();
    clickRow(u"a"_s);
    EVENTUALLY_VERIFY(item(u"release"_s));
    const auto nameOf = [](QObject *object) {
        QAccessibleInterface *const interface = QAccessible::queryAccessibleInterface(object);
        const QString name = interface ? interface->text(QAccessible::Name) : QString();
        return name.isEmpty() ? object->property("text").toString() : name; // a Button has it while somebody listens
    };
    QVERIFY2(nameOf(item(u"row:a"_s)).startsWith(u"a, Disconnected, held by client "),
             qPrintable(nameOf(item(u"row:a"_s))));
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    int checked = 0;
    const std::function<void(QQuickItem *)> check = [&](QQuickItem *parent) {
        for (QQuickItem *child : parent->childItems()) {
            if (child->isVisible() && child->activeFocusOnTab()) {
                ++checked;
                QVERIFY2(
                        !nameOf(child).isEmpty(),
                        qPrintable(child->objectName() + u' ' + QString::fromLatin1(child->metaObject()->className())));
            }
            check(child);
        }
    };
    check(m_window->contentItem());
    QVERIFY2(checked >= 10, QByteArray::number(checked).constData());
}

void TestMonitorWindow::pictures_data()
{
    Support::addRows<bool>("dark", {{"light", false}, {"dark", true}});
}

/// tools/picture copies them to docs/.
void TestMonitorWindow::pictures()
{
    QFETCH(bool, dark);
    const QPalette former = QGuiApplication::palette();
    if (dark) {
        QPalette palette(QColor(0x2b, 0x2f, 0x36), QColor(0x1e, 0x21, 0x26));
        palette.setColor(QPalette::Base, QColor(0x16, 0x18, 0x1c));
        palette.setColor(QPalette::AlternateBase, QColor(0x1b, 0x1e, 0x23));
        palette.setColor(QPalette::Highlight, QColor(0x2f, 0x6f, 0xb5));
        QGuiApplication::setPalette(palette);
    }
    LockRegistry registry(m_server.url());
    std::vector<std::unique_ptr<DistributedLock>> locks;
    for (const char16_t *const name : {u"order:1001", u"order:1001", u"order:1001", u"order:1002", u"report:daily"}) {
        locks.push_back(std::make_unique<DistributedLock>(&registry, QString::fromUtf16(name)));
        locks.back()->setOptions(LockOptions().withLabel(u"Orders::ship"_s));
        locks.back()->acquire();
    }
    EVENTUALLY_COMPARE(locks.at(2)->queuePosition(), 1);
    write("cache:warm");
    write("migration", -1);
    writeDead("invoice:77");
    Support::StoppableHolder holder(m_server.url(), u"stock:count"_s);
    load();
    EVENTUALLY_VERIFY(item(u"chipDisconnected"_s) && item(u"chipEndless"_s));
    const auto *const model = m_window->findChild<LockMonitorModel *>(u"locks"_s);
    EVENTUALLY_VERIFY(model->index(model->rowOf(u"stock:count"_s)).data(LockMonitorModel::Since).toLongLong() > 0);
    holder.stop();
    EVENTUALLY_VERIFY(item(u"chipSilent"_s));
    clickRow(u"stock:count"_s);
    click(u"release"_s);
    EVENTUALLY_VERIFY(isDialogOpen());
    QVERIFY(text(u"warning"_s).startsWith(u"It is connected, but does not run"));
    click(u"cancel"_s);
    EVENTUALLY_VERIFY(!isDialogOpen());
    clickRow(u"order:1001"_s);
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Waiting: 2"_s);
    EVENTUALLY_VERIFY(text(u"hold"_s).startsWith(u"Held for "));
    locks.at(0)->release();
    EVENTUALLY_VERIFY(item(u"waitTimes"_s) && item(u"pastHold"_s));
    EVENTUALLY_COMPARE(text(u"queueTitle"_s), u"Waiting: 1"_s);
    m_window->grabWindow();
    QCoreApplication::processEvents();
    const QImage picture = m_window->grabWindow();
    QVERIFY(picture.save(
            QStringLiteral(PICTURE_DIR "/monitor-%1.png").arg(QString::fromLatin1(QTest::currentDataTag()))));
    QCOMPARE(picture.pixelColor(picture.width() / 3, picture.height() - 60).lightness() < 128, dark);
    QGuiApplication::setPalette(former);
}

/// The program qdistlock-monitor loads its QML files and connects to the server.
void TestMonitorWindow::program()
{
    EVENTUALLY_COMPARE(m_server.connectedClients(), 0);
    m_server.command({"SET", "app:x", "foreign"});
    QProcess program;
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(u"XDG_RUNTIME_DIR"_s, m_server.folder()); // Qt says so if there is none
    program.setProcessEnvironment(environment);
    program.setProcessChannelMode(QProcess::MergedChannels);
    program.start(QStringLiteral(MONITOR_PROGRAM),
                  {u"--server"_s, m_server.url().toString(), u"--prefix"_s, u"app:"_s});
    EVENTUALLY_VERIFY(m_server.connectedClients() > 0 || program.state() == QProcess::NotRunning);
    QCOMPARE(program.state(), QProcess::Running);
    program.terminate();
    EVENTUALLY_COMPARE(program.state(), QProcess::NotRunning);
    QCOMPARE(program.readAll(), QByteArray());
}

void TestMonitorWindow::badOption()
{
    QProcess program;
    program.setProcessChannelMode(QProcess::MergedChannels);
    program.start(QStringLiteral(MONITOR_PROGRAM), {u"--nonsense"_s});
    EVENTUALLY_COMPARE(program.state(), QProcess::NotRunning);
    QCOMPARE(program.exitCode(), 1);
    QVERIFY(program.readAll().contains("nonsense"));
}

QDISTLOCK_TEST_MAIN(QGuiApplication, TestMonitorWindow)

#include "moc_qmltesting.cpp"
#include "tst_monitorwindow.moc"
