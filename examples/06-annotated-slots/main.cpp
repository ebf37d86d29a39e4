// SPDX-FileCopyrightText: 2026 The QDistLock developers
// SPDX-License-Identifier: MIT

// A window whose buttons run slots under the lock of an order, so that only one window or process at a time works on
// the order. The buttons never block: press Pack, and then the others while it is packing. Set QDISTLOCK_URL to a Redis
// server and start the program twice: each window waits for the other. With --demo it presses its buttons itself.

#include <QDistLock/Annotations>
#include <QDistLock/LockRegistry>
#include <QDistLock/QuitOnSignals>

#include <QtCore/QCommandLineParser>
#include <QtCore/QPromise>
#include <QtCore/QTimer>
#include <QtWidgets/QApplication>
#include <QtWidgets/QHBoxLayout>
#include <QtWidgets/QPlainTextEdit>
#include <QtWidgets/QPushButton>
#include <QtWidgets/QVBoxLayout>

#include <memory>

using namespace Qt::StringLiterals;
using namespace std::chrono_literals;

using QDistLock::connectLocked;
using QDistLock::LockedCallInfo;
using QDistLock::LockedCalls;
using QDistLock::withArguments;

class Orders : public QObject
{
    Q_OBJECT
public:
    /// Takes a second. The lock is held until the returned future has finished.
    QDL_LOCKED_METHOD(pack, "order:{id}", "wait=1min")
    Q_SLOT QFuture<void> pack(const QString &id);

    /// Waits while the order is being packed.
    QDL_LOCKED_METHOD(ship, "order:{id}", "wait=1min")
    Q_SLOT void ship(const QString &id);

    /// Does nothing while the order is being packed.
    QDL_LOCKED_METHOD(shipIfFree, "order:{id}", "onBusy=skip")
    Q_SLOT void shipIfFree(const QString &id);

Q_SIGNALS:
    void packing(const QString &id);
    void packed(const QString &id);
    void shipped(const QString &id);
};

QFuture<void> Orders::pack(const QString &id)
{
    Q_EMIT packing(id);
    const auto promise = std::make_shared<QPromise<void>>();
    promise->start();
    QTimer::singleShot(1s, this, [this, id, promise] {
        Q_EMIT packed(id);
        promise->finish();
    });
    return promise->future();
}

void Orders::ship(const QString &id)
{
    QDL_ASSERT_LOCKED(u"order:"_s + id); // catches direct calls, which are not locked
    Q_EMIT shipped(id);
}

void Orders::shipIfFree(const QString &id)
{
    ship(id);
}

class Window : public QWidget
{
    Q_OBJECT
public:
    Window(Orders *orders, const QString &id);

    void demonstrate();

private:
    void log(const QString &text);

    Orders *const m_orders;
    QPushButton m_pack{tr("Pack")};
    QPushButton m_ship{tr("Ship")};
    QPushButton m_shipIfFree{tr("Ship, if nobody is packing")};
    QPlainTextEdit m_log;
};

Window::Window(Orders *orders, const QString &id)
    : m_orders(orders)
{
    connectLocked(&m_pack, &QPushButton::clicked, orders, &Orders::pack, withArguments(id));
    connectLocked(&m_ship, &QPushButton::clicked, orders, &Orders::ship, withArguments(id));
    connectLocked(&m_shipIfFree, &QPushButton::clicked, orders, &Orders::shipIfFree, withArguments(id));

    connect(orders, &Orders::packing, this, [this](const QString &order) { log(tr("Packing order %1").arg(order)); });
    connect(orders, &Orders::packed, this, [this](const QString &order) { log(tr("Packed order %1").arg(order)); });
    connect(orders, &Orders::shipped, this, [this](const QString &order) { log(tr("Shipped order %1").arg(order)); });
    connect(LockedCalls::instance(), &LockedCalls::skipped, this,
            [this](const LockedCallInfo &call) { log(tr("Skipped: the lock %1 is held already").arg(call.lock)); });
    connect(LockedCalls::instance(), &LockedCalls::failed, this,
            [this](const LockedCallInfo &call) { log(call.errorString); });

    m_log.setReadOnly(true);
    auto *const buttons = new QHBoxLayout;
    buttons->addWidget(&m_pack);
    buttons->addWidget(&m_ship);
    buttons->addWidget(&m_shipIfFree);
    auto *const layout = new QVBoxLayout(this);
    layout->addLayout(buttons);
    layout->addWidget(&m_log);
}

void Window::log(const QString &text)
{
    m_log.appendPlainText(text);
    qInfo("%ls", qUtf16Printable(text));
}

void Window::demonstrate()
{
    connect(m_orders, &Orders::packing, this, [this] {
        m_ship.click();       // waits until the order is packed
        m_shipIfFree.click(); // is skipped
    });
    connect(m_orders, &Orders::shipped, this, [] { QCoreApplication::quit(); });
    connect(LockedCalls::instance(), &LockedCalls::failed, this, [] { QCoreApplication::exit(1); });
    m_pack.click();
}

int main(int argc, char **argv)
{
    QApplication application(argc, argv);
    QDistLock::quitOnSignals();
    if (!qEnvironmentVariableIsSet("QDISTLOCK_URL"))
        QDistLock::LockRegistry::setDefaultServer(QUrl(u"memory:"_s)); // locks inside this process; needs no server

    QCommandLineParser parser;
    parser.addHelpOption();
    const QCommandLineOption demo(u"demo"_s, u"Press the buttons and exit."_s);
    parser.addOption(demo);
    parser.process(application);

    const QStringList problems = QDistLock::validateAnnotations(&Orders::staticMetaObject);
    for (const QString &problem : problems)
        qCritical("%ls", qUtf16Printable(problem));
    if (!problems.isEmpty())
        return 1;

    Orders orders;
    Window window(&orders, u"17"_s);
    window.show();
    if (parser.isSet(demo))
        window.demonstrate();
    return application.exec();
}

#include "main.moc"
